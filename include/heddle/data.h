// Data to train on.
#pragma once

#include <heddle/tensor.h>

#include <iterator>

namespace heddle::data {

// Handwritten-looking digits, drawn stroke by stroke.
struct Digits {
  Tensor images;  // f32 [count, 28, 28]: 0 is paper, 1 is ink
  Tensor labels;  // i64 [count]
};
struct DigitOptions {
  uint64_t seed = 0;
  bool held_out = false;  // shapes that the others never show, for tests
};
// Every image takes one of several shapes of its digit, moves its points, slants, turns and scales it, and draws it
// with a pen of random width onto noisy paper. The same options give the same images everywhere.
Digits digits(int64_t count, const DigitOptions& options = {});
// An image [28, 28] as text, two rows of pixels to a line of blocks; one row to a line without blocks.
std::string draw_text(const Tensor& image, bool blocks = true);

// One minibatch: rows of two tensors.
struct Batch {
  Tensor x, t;
};
struct BatchOptions {
  std::optional<uint64_t> shuffle_seed;  // another order in every walk; without it the order of the rows
  bool drop_last = false;                // leaves a smaller last batch out
};

// A range of minibatches: `for (auto [x, t] : batches(images, labels, 128, {.shuffle_seed = 1}))`.
class Batches {
 public:
  Batches(const Tensor& x, const Tensor& t, int64_t size, const BatchOptions& options);
  int64_t size() const;

  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::input_iterator_tag;
    Batch operator*() const { return owner_->batch(*order_, number_); }
    Iterator& operator++() {
      ++number_;
      return *this;
    }
    void operator++(int) { ++number_; }
    friend bool operator==(const Iterator& a, std::default_sentinel_t) { return a.number_ == a.owner_->size(); }

   private:
    friend class Batches;
    const Batches* owner_ = nullptr;
    std::shared_ptr<const std::vector<int64_t>> order_;
    int64_t number_ = 0;
  };
  // Each call begins a walk of its own, with the next order.
  Iterator begin() const;
  std::default_sentinel_t end() const { return {}; }

 private:
  Batch batch(const std::vector<int64_t>& order, int64_t number) const;
  Tensor x_, t_;
  int64_t size_;
  BatchOptions options_;
  mutable uint64_t walks_ = 0;
};
Batches batches(const Tensor& x, const Tensor& t, int64_t size, const BatchOptions& options = {});

}  // namespace heddle::data
