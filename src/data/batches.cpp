#include <heddle/data.h>
#include <heddle/ops.h>

#include <numeric>

#include "base/error.h"
#include "data/random.h"

namespace heddle::data {

BatchRows::BatchRows(std::vector<Tensor> tensors, int64_t size, const BatchOptions& options)
    : tensors_(std::move(tensors)), size_(size), options_(options) {
  if (size <= 0) throw ValueError(text("batches: a size of ", size));
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].rank() == 0) throw ShapeError(text("batches: tensor ", i, " is a scalar, which has no rows"));
    if (tensors_[i].size(0) != tensors_[0].size(0))
      throw ShapeError(
          text("batches: ", tensors_[0].size(0), " rows of tensor 0, but ", tensors_[i].size(0), " of tensor ", i));
  }
  realize(tensors_);
}

int64_t BatchRows::batches() const {
  int64_t rows = tensors_[0].size(0);
  return options_.drop_last ? rows / size_ : (rows + size_ - 1) / size_;
}

std::vector<int64_t> BatchRows::next_order() const {
  std::vector<int64_t> order(static_cast<size_t>(tensors_[0].size(0)));
  std::iota(order.begin(), order.end(), int64_t{0});
  if (options_.shuffle_seed) {
    HostRandom random(HostRandom(*options_.shuffle_seed).next() + walks_++);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  }
  return order;
}

std::vector<Tensor> BatchRows::rows(const std::vector<int64_t>& order, int64_t number) const {
  int64_t begin = number * size_, count = std::min(size_, tensors_[0].size(0) - begin);
  std::vector<Tensor> rows;
  if (!options_.shuffle_seed) {
    for (const Tensor& tensor : tensors_) rows.push_back(tensor.slice(0, begin, begin + count).clone());
  } else {
    Tensor index = from_data(order.data() + begin, count);
    for (const Tensor& tensor : tensors_) rows.push_back(gather(tensor, index));
  }
  realize(rows);
  return rows;
}

}  // namespace heddle::data
