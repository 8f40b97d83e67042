// Data to train on.
#pragma once

#include <heddle/tensor.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <iterator>
#include <optional>

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

// One minibatch: rows of two tensors. Of another number of tensors it is an array.
struct Batch {
  Tensor x, t;
};
struct BatchOptions {
  std::optional<uint64_t> shuffle_seed;  // another order in every walk; without it the order of the rows
  bool drop_last = false;                // leaves a smaller last batch out
};

// What a walk over minibatches needs. Private to Batches.
class BatchRows {
 public:
  BatchRows(std::vector<Tensor> tensors, int64_t size, const BatchOptions& options);
  int64_t batches() const;
  std::vector<int64_t> next_order() const;  // of all rows
  std::vector<Tensor> rows(const std::vector<int64_t>& order, int64_t number) const;

 private:
  std::vector<Tensor> tensors_;
  int64_t size_;
  BatchOptions options_;
  mutable uint64_t walks_ = 0;
};

// A range of minibatches, each a B: `for (auto [x, t] : batches(images, labels, 128, {.shuffle_seed = 1}))`.
template <class B>
class BatchRange {
 public:
  explicit BatchRange(BatchRows rows) : rows_(std::move(rows)) {}
  int64_t size() const { return rows_.batches(); }

  class Iterator {
   public:
    using value_type = B;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::input_iterator_tag;
    B operator*() const {
      std::vector<Tensor> rows = owner_->rows_.rows(*order_, number_);
      B batch;
      if constexpr (std::same_as<B, Batch>)
        batch = {rows[0], rows[1]};
      else
        std::copy(rows.begin(), rows.end(), batch.begin());
      return batch;
    }
    Iterator& operator++() {
      ++number_;
      return *this;
    }
    void operator++(int) { ++number_; }
    friend bool operator==(const Iterator& a, std::default_sentinel_t) { return a.number_ == a.owner_->size(); }

   private:
    friend class BatchRange;
    const BatchRange* owner_ = nullptr;
    std::shared_ptr<const std::vector<int64_t>> order_;
    int64_t number_ = 0;
  };
  // Each call begins a walk of its own, with the next order.
  Iterator begin() const {
    Iterator result;
    result.owner_ = this;
    result.order_ = std::make_shared<const std::vector<int64_t>>(rows_.next_order());
    return result;
  }
  std::default_sentinel_t end() const { return {}; }

 private:
  BatchRows rows_;
};
using Batches = BatchRange<Batch>;

inline Batches batches(const Tensor& x, const Tensor& t, int64_t size, const BatchOptions& options = {}) {
  return Batches(BatchRows({x, t}, size, options));
}
// Of any number of tensors: `for (auto [image, mask, weight] : batches({images, masks, weights}, 32))`.
template <size_t N>
BatchRange<std::array<Tensor, N>> batches(const Tensor (&tensors)[N], int64_t size, const BatchOptions& options = {}) {
  return BatchRange<std::array<Tensor, N>>(BatchRows({tensors, tensors + N}, size, options));
}

}  // namespace heddle::data
