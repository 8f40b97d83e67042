// Reductions and contractions: first each thread over its own elements, then the threads of a warp by shuffles, then
// the warps through shared memory. Every thread ends up with the result.
#include <algorithm>

#include "base/error.h"
#include "compile/simt/lowering.h"
#include "kernel/types.h"

namespace heddle::simt {

using kernel::Builder;
using kernel::Reducer;

// Calls step for each of the thread's elements along the axis and each result, threading the state through: `width`
// values per result. The loop, if there is one, is outside, so that what results have in common is computed once.
std::vector<Value> Lowering::over_axis(const Layout& layout, const Dims& dims, int axis, std::span<const Point> results,
                                       std::vector<Value> state, size_t width, int unroll, const Step& step) {
  auto at_register = [&](const Expr& r, std::vector<Value> current) {
    for (size_t i = 0; i < results.size(); ++i) {
      Coords coords = results[i].coords;
      if (dims[axis] > 1) coords[axis] = coordinate(layout, axis, thread_, r, lane(layout));
      std::span<Value> mine = std::span(current).subspan(i * width, width);
      std::vector<Value> next = step(coords, mine);
      std::copy(next.begin(), next.end(), mine.begin());
    }
    return current;
  };
  if (dims[axis] == 1) return at_register(0, std::move(state));
  if (!layout.dims[axis].rolled) {
    for (int64_t r = 0; r < layout.dims[axis].registers; ++r) state = at_register(r, std::move(state));
    return state;
  }
  return register_loop(layout.dims[axis].registers, state, unroll, [&](const Expr& r, std::span<const Value> carried) {
    return at_register(r, std::vector<Value>(carried.begin(), carried.end()));
  });
}

// The condition under which an element counts, as a value; nothing if it always does.
std::optional<Value> Lowering::counts(const Inst& inst, const Coords& coords, const Dims& dims) {
  // Only along the axis: a result outside the tile may be anything.
  Expr guard = substitute(inst.guard, places(inst, coords));
  if (dims[inst.axis] > 1) {
    Dims along(dims.size(), 1);
    along[inst.axis] = dims[inst.axis];
    guard = logical_and(inside(coords, along), guard);
  }
  guard = without_lane(guard, lane_in(coords));
  if (guard.is_const() && guard.value() != 0) return std::nullopt;
  return index_of(DType::boolean, guard, inst, coords);
}

// Over a thread's own elements, from `state` on; kNoValue: the first element is the first state.
std::vector<Value> Lowering::reduce_own(const Inst& inst, std::span<const Point> results, std::vector<Value> state) {
  Builder& b = *builder_;
  const Layout& layout = layout_of(inst);
  const Reducer& reducer = *inst.reducer;
  const Dims dims = shape(inst.args[0]);
  const size_t width = reducer.width();
  const Expr lane = lane_of(layout, dims);
  std::vector<Value> identity;
  for (const Scalar& s : reducer.identity) identity.push_back(b.constant(s));
  return over_axis(layout, dims, inst.axis, results, std::move(state), width, 4,
                   [&](const Coords& coords, std::span<Value> before) {
                     std::vector<Value> element;
                     auto condition = counts(inst, coords, dims);
                     for (size_t k = 0; k < width; ++k) {
                       Value x = at(inst.args[k], coords);
                       if (condition) x = b.op(ScalarOp::where, {*condition, x, identity[k]});
                       element.push_back(widen(x, lane));
                     }
                     return before[0] == kernel::kNoValue ? element : b.apply(reducer, before, element);
                   });
}

void Lowering::emit_reduce(const Inst& inst) {
  Builder& b = *builder_;
  const Layout& layout = layout_of(inst);
  const Reducer& reducer = *inst.reducer;
  const Dims dims = shape(inst.args[0]);
  const int axis = inst.axis;
  const size_t width = reducer.width();
  const Dims reduced = reduced_dims(dims, axis);
  if (auto late = parts_.find(&inst); late != parts_.end()) {
    std::vector<Point> results = points(layout, reduced);
    std::vector<Value> state = reduce_own(inst, results, std::move(late->second));
    parts_[&inst] = std::move(state);
    return;
  }
  Expr lane = lane_of(layout, dims);
  std::vector<int> ids(width);
  for (int& id : ids) id = next_tag();
  over_rolled(layout, reduced, [&](std::span<const Point> results) {
    // Without a loop the first element is the first state; with one it starts from the identity.
    bool rolled = dims[axis] > 1 && layout.dims[axis].rolled;
    std::vector<Value> state;
    for (size_t i = 0; i < results.size(); ++i)
      for (const Scalar& s : reducer.identity) state.push_back(rolled ? widen(b.constant(s), lane) : kernel::kNoValue);
    state = reduce_own(inst, results, std::move(state));
    state = across_threads(layout, dims, axis, std::move(state), inst.reducer);
    for (size_t k = 0; k < width; ++k) {
      std::vector<Value> values;
      for (size_t i = 0; i < results.size(); ++i) values.push_back(state[i * width + k]);
      deliver(inst.results[k], results, values, ids[k]);
    }
  });
}

// What each thread begins a loop with whose reduction is put together later.
std::vector<Value> Lowering::start_late(const Inst& reduce) {
  const Layout& layout = layout_of(reduce);
  const Dims dims = shape(reduce.args[0]);
  const Dims reduced = reduced_dims(dims, reduce.axis);
  Value identity = builder_->constant(reduce.reducer->identity[0]);
  constants_.emplace(identity, reduce.reducer->identity[0]);
  const size_t count = points(layout, reduced).size();
  return std::vector<Value>(count, widen(identity, lane_of(layout, dims)));
}

void Lowering::finish_late(const Inst& loop, size_t number, std::vector<Value> state) {
  const Inst& reduce = *plan_.late.at(&loop)[number];
  const Layout& layout = layout_of(reduce);
  const Dims dims = shape(reduce.args[0]);
  const Dims reduced = reduced_dims(dims, reduce.axis);
  std::vector<Point> results = points(layout, reduced);
  state = across_threads(layout, dims, reduce.axis, std::move(state), reduce.reducer);
  const ScalarOp op = *kernel::simple_op(*reduce.reducer);
  for (size_t i = 0; i < results.size(); ++i)
    state[i] = builder_->op(op, {at(loop.args[number], results[i].coords), state[i]});
  deliver(loop.results[number], results, state, next_tag());
}

void Lowering::emit_dot(const Inst& inst) {
  Builder& b = *builder_;
  const Layout& layout = layout_of(inst);
  const Value result = inst.results[0];
  const DType dtype = tile_.values[result].dtype;
  const int axis = inst.axis;
  const Dims dims = kernel::dot_dims(tile_.values[inst.args[0]], tile_.values[inst.args[1]]);
  const Dims reduced = reduced_dims(dims, axis);
  // Where each result belongs to one thread the sum goes straight into the accumulator.
  bool partial = dims[axis] > 1 && (layout.lane_dim == axis || layout.dims[axis].threads > 1);
  Expr lane = lane_of(layout, dims);
  int id = next_tag();
  over_rolled(layout, reduced, [&](std::span<const Point> results) {
    std::vector<Value> state;
    for (const Point& p : results) {
      state.push_back(widen(partial ? b.constant(Scalar::of(dtype, 0)) : at(inst.args[2], p.coords), lane));
    }
    int unroll = results.size() > 16 ? 4 : 8;
    state =
        over_axis(layout, dims, axis, results, state, 1, unroll, [&](const Coords& coords, std::span<Value> before) {
          Value x = b.cast(at(inst.args[0], coords), dtype), y = b.cast(at(inst.args[1], coords), dtype);
          Value sum = is_float(dtype) ? b.op(ScalarOp::fma, {x, y, before[0]})
                                      : b.op(ScalarOp::add, {b.op(ScalarOp::mul, {x, y}), before[0]});
          if (auto condition = counts(inst, coords, dims)) sum = b.op(ScalarOp::where, {*condition, sum, before[0]});
          return std::vector<Value>{sum};
        });
    if (partial) {
      state = across_threads(layout, dims, axis, std::move(state), kernel::simple_reducer(ScalarOp::add, dtype));
      for (size_t i = 0; i < results.size(); ++i) {
        state[i] = b.op(ScalarOp::add, {at(inst.args[2], results[i].coords), state[i]});
      }
    }
    deliver(result, results, state, id);
  });
}

std::vector<Value> Lowering::across_threads(const Layout& layout, const Dims& dims, int axis, std::vector<Value> state,
                                            const std::shared_ptr<const Reducer>& reducer) {
  Builder& b = *builder_;
  const size_t width = reducer->width();
  // The tuple of a result.
  auto tuple = [&](size_t i) { return std::span(state).subspan(i, width); };
  if (has_lanes(layout, dims) && layout.lane_dim == axis)
    for (size_t i = 0; i < state.size(); i += width)
      std::ranges::copy(b.reduce(tuple(i), 0, reducer), tuple(i).begin());
  if (dims[axis] == 1 || layout.dims[axis].threads == 1) return state;
  const LayoutDim& along = layout.dims[axis];
  int64_t done = 1;
  if (tile_.threads % target_.warp == 0) {  // shuffles need whole warps
    for (; done < along.threads && along.stride * done < target_.warp; done *= 2) {
      for (size_t i = 0; i < state.size(); i += width) {
        std::vector<Value> other;
        for (Value v : tuple(i)) other.push_back(b.shuffle_xor(v, static_cast<int>(along.stride * done)));
        std::ranges::copy(b.apply(*reducer, tuple(i), other), tuple(i).begin());
      }
    }
  }
  if (done == along.threads) return state;
  // Through shared memory: groups of `done` threads along the axis already agree. One thread of each writes; everyone
  // reads what all of them wrote, in one order, so that all threads get the same bits.
  const Parts parts = parts_of(layout, dims, axis, done);
  const auto part_of = share(parts, state, *reducer);
  for (size_t i = 0; i < state.size() / width; ++i) {
    std::vector<Value> sum = part_of(static_cast<int64_t>(i), 0);
    for (int64_t p = 1; p < parts.count; ++p) sum = b.apply(*reducer, sum, part_of(static_cast<int64_t>(i), p));
    std::ranges::copy(sum, tuple(i * width).begin());
  }
  return state;
}

// Groups of `done` threads along the axis agree; their partial results have places in shared memory.
Lowering::Parts Lowering::parts_of(const Layout& layout, const Dims& dims, int axis, int64_t done) {
  Parts parts{layout.dims[axis].threads / done, 1, 0, 0, 0};
  // The slot of a thread: its place in the other dimensions.
  for (int d = 0; d < static_cast<int>(dims.size()); ++d) {
    if (d == axis || dims[d] == 1) continue;
    parts.slot = parts.slot * layout.dims[d].threads + digit(layout, d, thread_);
    parts.slots *= layout.dims[d].threads;
  }
  const Dims reduced = reduced_dims(dims, axis);
  if (has_lanes(layout, reduced)) {
    parts.slot = parts.slot * layout.lanes + lane(layout);
    parts.slots *= layout.lanes;
  }
  parts.part = floordiv(digit(layout, axis, thread_), done);
  parts.writes = logical_and(owner(layout, dims, thread_, axis), eq(mod(digit(layout, axis, thread_), done), 0));
  return parts;
}

// The value of result i, component k and part p lies in buffer k at (i * parts + p) * slots + slot.
std::function<std::vector<Value>(int64_t i, int64_t p)> Lowering::share(const Parts& parts,
                                                                        std::span<const Value> state,
                                                                        const Reducer& reducer) {
  const size_t width = reducer.width();
  const auto count = static_cast<int64_t>(state.size() / width);
  std::vector<int> buffers;
  for (const Scalar& s : reducer.identity)
    buffers.push_back(allocate("partial", s.dtype, count * parts.count * parts.slots));
  const int id = next_tag();
  for (int64_t i = 0; i < count; ++i)
    for (size_t k = 0; k < width; ++k)
      store_shared(buffers[k], (parts.part + i * parts.count) * parts.slots + parts.slot, state[i * width + k],
                   parts.writes, id);
  return [this, parts, buffers](int64_t i, int64_t p) {
    std::vector<Value> element;
    for (int buffer : buffers)
      element.push_back(load_shared(buffer, parts.slot + (i * parts.count + p) * parts.slots, 1));
    return element;
  };
}

}  // namespace heddle::simt
