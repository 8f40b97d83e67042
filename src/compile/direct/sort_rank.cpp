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
  int64_t vectors = (most + w.lanes - 1) / w.lanes;
  w.loop(most, {}, [&](const Expr& i, const Values&) {
    kernel::Value i_value = w.b().index(DType::i32, i, {});
    w.b().branch_on(w.op(ScalarOp::lt, i_value, count), [&] {
      kernel::Value own = w.load(keys, i);
      kernel::Dims shape;
      if (w.lanes > 1) shape.push_back(w.lanes);
      Values none{w.b().constant(Scalar::of(DType::i32, 0), shape)};
      Values before = w.loop(
          vectors, none,
          [&](const Expr& j, const Values& sum) {
            kernel::Value others = w.load(keys, j * w.lanes, w.lanes);
            kernel::Value equal = w.op(ScalarOp::eq, others, own);
            kernel::Value first = w.op(ScalarOp::bit_and, equal, w.below(j * w.lanes, i, w.lanes));
            kernel::Value less = w.op(ScalarOp::bit_or, w.op(ScalarOp::lt, others, own), first);
            return Values{w.op(ScalarOp::add, sum[0], w.b().cast(less, DType::i32))};
          },
          16);
      put(w.reduced(ScalarOp::add, before[0]), i);
      return Values{};
    });
    return Values{};
  });
}

void write_rank_sort(SortWriter& w) {
  const SortTask& task = w.task;
  int64_t vectors = (task.n + w.lanes - 1) / w.lanes;
  int keys = w.buffer("keys", w.key, kernel::Space::Shared, vectors * w.lanes);
  Expr row = w.phase({task.rows})[0];
  Expr end = (row + 1) * task.n;
  w.loop(vectors, {}, [&](const Expr& j, const Values&) {
    Expr at = row * task.n + j * w.lanes;
    bool whole = task.n % w.lanes == 0;
    kernel::Value k = w.order(w.to_key(w.load(w.x, at, w.lanes, whole ? Expr() : end)));
    if (!whole) k = w.b().op(ScalarOp::where, {w.below(at, end, w.lanes), k, w.number(w.key, w.ones())});
    w.store(keys, k, j * w.lanes);
    return Values{};
  });
  write_ranks(w, keys, task.n, w.i32(task.n), [&](kernel::Value rank, const Expr& i) {
    if (w.values >= 0) w.store_at(w.values, w.load(w.x, row * task.n + i), rank, row * task.kept, task.n, task.kept);
    if (w.indices >= 0) w.store_at(w.indices, w.b().index(DType::i64, i, {}), rank, row * task.kept, task.n, task.kept);
  });
}

}  // namespace heddle
