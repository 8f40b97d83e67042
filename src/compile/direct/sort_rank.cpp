// Short rows: the place of an element is the number of those that come before it.
#include "compile/direct/sort_writer.h"

namespace heddle {
namespace {
using Values = SortWriter::Values;
constexpr int64_t kLongest = 64;
}  // namespace

bool ranks_are_best(const SortTask& task) { return task.n <= kLongest; }

void write_ranks(SortWriter& w, int keys, int64_t most, kernel::Value count,
                 const std::function<void(kernel::Value rank, const Expr& i)>& put) {
  const int64_t vectors = pieces(most, w.lanes);
  w.each(most, [&](const Expr& i) {
    w.b().branch_on(w.less(w.index(i), count), [&] {
      kernel::Value own = w.load(keys, i);
      Values before = w.loop(
          vectors, {w.splat(DType::i32, 0)},
          [&](const Expr& j, const Values& sum) {
            kernel::Value others = w.load(keys, j * w.lanes, w.lanes);
            kernel::Value equal = w.equal(others, own);
            kernel::Value first = w.bit_and(equal, w.below(j * w.lanes, i, w.lanes));
            kernel::Value less = w.bit_or(w.less(others, own), first);
            return Values{w.add(sum[0], w.b().cast(less, DType::i32))};
          },
          16);
      put(w.reduced(ScalarOp::add, before[0]), i);
    });
  });
}

void write_rank_sort(SortWriter& w) {
  const SortTask& task = w.task;
  const int64_t vectors = pieces(task.n, w.lanes);
  int keys = w.buffer("keys", w.key, kernel::Space::Shared, vectors * w.lanes);
  Expr row = w.phase({task.rows})[0];
  Expr end = (row + 1) * task.n;
  w.each(vectors, [&](const Expr& j) {
    Expr at = row * task.n + j * w.lanes;
    bool whole = task.n % w.lanes == 0;
    kernel::Value k = w.order(w.to_key(w.load(w.x, at, w.lanes, whole ? Expr() : end)));
    if (!whole) k = w.where({w.below(at, end, w.lanes), k, w.number(w.key, w.ones())});
    w.store(keys, k, j * w.lanes);
  });
  write_ranks(w, keys, task.n, w.i32(task.n), [&](kernel::Value rank, const Expr& i) {
    auto element = [&] { return w.load(w.x, row * task.n + i); };
    w.store_result(row, rank, task.n, element, [&] { return w.index(i, DType::i64); });
  });
}

}  // namespace heddle
