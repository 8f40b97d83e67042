// Scans. A strip is what all threads along the axis hold in one register each. Every thread scans the elements that it
// holds side by side; totals then pass through the threads of a warp by shuffles, from warp to warp through shared
// memory, and from strip to strip in order.
#include "base/error.h"
#include "compile/simt/lowering.h"
#include "kernel/types.h"

namespace heddle::simt {

using kernel::Builder;
using kernel::Reducer;

void Lowering::emit_scan(const Inst& inst) {
  const Layout& layout = layout_of(inst);
  const Dims dims = shape(inst.args[0]);
  const int axis = inst.axis;
  const size_t width = inst.reducer->width();
  const Dims reduced = reduced_dims(dims, axis);
  std::vector<int> ids(2 * width);
  for (int& id : ids) id = next_tag();
  over_rolled(layout, reduced, [&](std::span<const Point> results) {
    const Expr lane = lane_of(layout, reduced);
    std::vector<Value> carry;
    for (const Point& p : results)
      for (size_t k = 0; k < width; ++k) carry.push_back(widen(at(inst.args[width + k], p.coords), lane));
    if (dims[axis] > 1 && layout.dims[axis].rolled) {
      carry = register_loop(layout.dims[axis].registers, carry, 0, [&](const Expr& r, std::span<const Value> before) {
        return scan_strips(inst, results, {&r, 1}, {before.begin(), before.end()}, ids);
      });
    } else {
      std::vector<Expr> registers;
      for (int64_t r = 0; r < (dims[axis] > 1 ? layout.dims[axis].registers : 1); ++r) registers.push_back(r);
      carry = scan_strips(inst, results, registers, std::move(carry), ids);
    }
    for (size_t k = 0; k < width; ++k) {
      std::vector<Value> totals;
      for (size_t i = 0; i < results.size(); ++i) totals.push_back(carry[i * width + k]);
      deliver(inst.results[width + k], results, totals, ids[width + k]);
    }
  });
}

// The strips in these registers, for each result. Gives what is carried on.
std::vector<Value> Lowering::scan_strips(const Inst& inst, std::span<const Point> results,
                                         std::span<const Expr> registers, std::vector<Value> carry,
                                         std::span<const int> ids) {
  Builder& b = *builder_;
  const Layout& layout = layout_of(inst);
  const Reducer& reducer = *inst.reducer;
  const Dims dims = shape(inst.args[0]);
  const size_t width = reducer.width();
  const Expr lane = lane_of(layout, dims);
  const bool lanes_scanned = lane.is_var() && layout.lane_dim == inst.axis;
  std::vector<Value> neutral;
  for (size_t k = 0; k < width; ++k) neutral.push_back(b.constant(kernel::neutral(reducer, k)));

  // What each thread holds: scanned by itself, and its total. Results outside, strips inside.
  std::vector<Point> points;
  std::vector<Value> own, totals;
  for (const Point& result : results)
    for (const Expr& r : registers) {
      SmallVector<Expr, 4> place = result.registers;
      place[inst.axis] = r;
      points.push_back(point(layout, dims, place));
      const Coords& coords = points.back().coords;
      std::vector<Value> x;
      auto condition = counts(inst, coords, dims);
      for (size_t k = 0; k < width; ++k) {
        Value element = at(inst.args[k], coords);
        if (condition) element = b.op(ScalarOp::where, {*condition, element, neutral[k]});
        x.push_back(widen(element, lane));
      }
      const std::vector<Value> scanned = lanes_scanned ? b.scan(x, neutral, 0, inst.reducer) : x;
      own.insert(own.end(), scanned.begin(), scanned.begin() + static_cast<std::ptrdiff_t>(width));
      totals.insert(totals.end(), scanned.end() - static_cast<std::ptrdiff_t>(width), scanned.end());
    }
  Prefixes prefixes = across_threads_before(layout, dims, inst.axis, std::move(totals), reducer);

  std::vector<std::vector<Value>> values(width);
  for (size_t i = 0; i < results.size(); ++i) {
    std::span<Value> state = std::span(carry).subspan(i * width, width);
    for (size_t r = 0; r < registers.size(); ++r) {
      const size_t at_strip = (i * registers.size() + r) * width;
      std::vector<Value> start(state.begin(), state.end());
      if (!prefixes.before.empty())
        start = b.apply(reducer, start, std::span(prefixes.before).subspan(at_strip, width));
      if (lanes_scanned)
        for (Value& v : start) v = widen(v, lane);
      std::vector<Value> done = b.apply(reducer, start, std::span(own).subspan(at_strip, width));
      for (size_t k = 0; k < width; ++k) values[k].push_back(done[k]);
      std::ranges::copy(b.apply(reducer, state, std::span(prefixes.total).subspan(at_strip, width)), state.begin());
    }
  }
  for (size_t k = 0; k < width; ++k) deliver(inst.results[k], points, values[k], ids[k]);
  return carry;
}

Lowering::Prefixes Lowering::across_threads_before(const Layout& layout, const Dims& dims, int axis,
                                                   std::vector<Value> state, const Reducer& reducer) {
  Prefixes result;
  if (dims[axis] == 1 || layout.dims[axis].threads == 1) {
    result.total = std::move(state);
    return result;
  }
  Builder& b = *builder_;
  const LayoutDim& along = layout.dims[axis];
  const size_t width = reducer.width();
  const Dims reduced = reduced_dims(dims, axis);
  const Expr lane = lane_of(layout, reduced);
  std::vector<Value> neutral;
  for (size_t k = 0; k < width; ++k) neutral.push_back(widen(b.constant(kernel::neutral(reducer, k)), lane));
  for (size_t i = 0; i < state.size(); ++i) result.before.push_back(neutral[i % width]);
  auto where = [&](Value condition, std::span<const Value> yes, std::span<const Value> no) {
    std::vector<Value> chosen;
    for (size_t k = 0; k < width; ++k) chosen.push_back(b.op(ScalarOp::where, {condition, yes[k], no[k]}));
    return chosen;
  };
  int64_t done = 1;
  if (tile_.threads % target_.warp == 0) {  // shuffles need whole warps
    for (; done < along.threads && along.stride * done < target_.warp; done *= 2) {
      Value upper = b.index(DType::boolean, eq(mod(floordiv(digit(layout, axis, thread_), done), 2), 1), {});
      for (size_t i = 0; i < state.size(); i += width) {
        std::span<Value> mine = std::span(state).subspan(i, width), before = std::span(result.before).subspan(i, width);
        std::vector<Value> other;
        for (Value v : mine) other.push_back(b.shuffle_xor(v, static_cast<int>(along.stride * done)));
        std::vector<Value> longer = where(upper, b.apply(reducer, other, before), before);
        std::vector<Value> total = b.apply(reducer, where(upper, other, mine), where(upper, mine, other));
        std::ranges::copy(longer, before.begin());
        std::ranges::copy(total, mine.begin());
      }
    }
  }
  if (done < along.threads) {
    // One thread of each group that agrees writes its total; everyone goes through all of them in order.
    const Parts parts = parts_of(layout, dims, axis, done);
    const auto part_of = share(parts, state, reducer);
    for (int64_t i = 0; i < std::ssize(state) / static_cast<int64_t>(width); ++i) {
      std::vector<Value> all = neutral, earlier = neutral;
      for (int64_t p = 0; p < parts.count; ++p) {
        const std::vector<Value> element = part_of(i, p);
        Value counted = b.index(DType::boolean, lt(p, parts.part), {});
        all = b.apply(reducer, all, element);
        earlier = where(counted, all, earlier);
      }
      std::span<Value> before = std::span(result.before).subspan(i * width, width);
      std::ranges::copy(b.apply(reducer, earlier, before), before.begin());
      std::ranges::copy(all, state.begin() + i * static_cast<int64_t>(width));
    }
  }
  result.total = std::move(state);
  return result;
}

}  // namespace heddle::simt
