#include <heddle/data.h>
#include <heddle/ops.h>

#include <numeric>

#include "base/error.h"
#include "data/random.h"

namespace heddle::data {

Batches::Batches(const Tensor& x, const Tensor& t, int64_t size, const BatchOptions& options)
    : x_(x), t_(t), size_(size), options_(options) {
  if (size <= 0) throw ValueError(text("batches: a size of ", size));
  if (x.rank() == 0 || t.rank() == 0) throw ShapeError("batches: a scalar has no rows");
  if (x.size(0) != t.size(0)) throw ShapeError(text("batches: ", x.size(0), " rows of x, but ", t.size(0), " of t"));
  realize({x_, t_});
}

int64_t Batches::size() const {
  int64_t rows = x_.size(0);
  return options_.drop_last ? rows / size_ : (rows + size_ - 1) / size_;
}

Batches::Iterator Batches::begin() const {
  std::vector<int64_t> order(static_cast<size_t>(x_.size(0)));
  std::iota(order.begin(), order.end(), int64_t{0});
  if (options_.shuffle_seed) {
    HostRandom random(HostRandom(*options_.shuffle_seed).next() + walks_++);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  }
  Iterator result;
  result.owner_ = this;
  result.order_ = std::make_shared<const std::vector<int64_t>>(std::move(order));
  return result;
}

Batch Batches::batch(const std::vector<int64_t>& order, int64_t number) const {
  int64_t begin = number * size_, count = std::min(size_, x_.size(0) - begin);
  if (!options_.shuffle_seed) {
    Batch rows{x_.slice(0, begin, begin + count).clone(), t_.slice(0, begin, begin + count).clone()};
    realize({rows.x, rows.t});
    return rows;
  }
  Tensor index = from_data(order.data() + begin, count);
  Batch rows{gather(x_, index), gather(t_, index)};
  realize({rows.x, rows.t});
  return rows;
}

Batches batches(const Tensor& x, const Tensor& t, int64_t size, const BatchOptions& options) {
  return Batches(x, t, size, options);
}

}  // namespace heddle::data
