// Nested loops whose common axis is walked in chunks. The state of a block is what its stages reduce along that axis:
// each chunk changes it, and so does what other blocks have found for other parts of the axis.
#include <cmath>

#include "base/error.h"
#include "compile/tile/tiler.h"

namespace heddle {

void Tiler::write_stages(Online::Role role) {
  in_chunk_ = role == Online::Role::Chunk;
  for (size_t s = 0; s < loops_.stages.size();) {
    size_t end = s + 1;
    if (online_->roles[s] == role) {
      while (end < loops_.stages.size() && schedule_.stages[end].joined && online_->roles[end] == role) ++end;
      write_nest(s, end);
    }
    s = end;
  }
  in_chunk_ = false;
}

bool Tiler::reduces_common(size_t s) const {
  for (size_t i = stage(s).kept; stage(s).reducer && i < stage(s).inner.size(); ++i)
    if (is_common(stage(s).inner[i].var)) return true;
  return false;
}

std::vector<size_t> Tiler::states() const {
  std::vector<size_t> list;
  for (size_t s = 0; s < loops_.stages.size(); ++s)
    if (reduces_common(s)) list.push_back(s);
  return list;
}

Tiler::Place Tiler::state_place(size_t s) {
  Place p = whole(s);
  p.inside.clear();
  return p;
}

void Tiler::begin_states() {
  for (size_t s : states()) {
    Place p = state_place(s);
    const Scalar& identity = stage(s).reducer->identity[0];
    store_result(stage(s).results[0], s, builder_->constant(identity, dims(p, result_axes(s))), p);
  }
}

void Tiler::write_chunks() {
  const int64_t parts = schedule_.chunks->parts;
  Expr part = 0;
  open_phase([&] {
    if (parts > 1) part = block_variable("part", parts);
  });
  Span span = span_of(*common_axis(loops_));
  chunk_base_ = span.begin;
  write_stages(Online::Role::Before);
  begin_states();
  Expr first = 0, chunks = ceildiv(max(span.end - span.begin, 0), schedule_.chunks->size);
  if (parts > 1) {
    Expr each = ceildiv(chunks, parts);
    first = part * each;
    chunks = max(min(each, chunks - first), 0);
  }
  Expr var = Expr::index(text("l", loop_count_++), chunks);
  chunk_base_ = span.begin + (first + var) * schedule_.chunks->size;
  builder_->loop(var, {}, [&](std::span<const Value>) {
    write_stages(Online::Role::Chunk);
    return std::vector<Value>{};
  });
  held_.clear();
  chunk_base_ = 0;
  if (parts > 1) combine_parts();
  for (size_t s : states()) {
    const size_t pivot = online_->pivots[s];
    if (pivot == SIZE_MAX) continue;
    rescale(s, state_place(s), [&](const Place& p) { return last_factor(load_result(stage(pivot).results[0], s, p)); });
  }
  write_stages(Online::Role::After);
}

Tiler::Value Tiler::finite(Value maximum) {
  DType dtype = builder_->type(maximum).dtype;
  Value nothing = builder_->constant(Scalar::of(dtype, -INFINITY)), zero = builder_->constant(Scalar::of(dtype, 0));
  return builder_->op(ScalarOp::where, {builder_->op(ScalarOp::lt, {nothing, maximum}), maximum, zero});
}

// Rows of nothing but -inf are what they are without chunks: not a number. Sums of no elements are 0.
Tiler::Value Tiler::last_factor(Value maximum) {
  Value factor = builder_->op(ScalarOp::exp, {builder_->op(ScalarOp::sub, {finite(maximum), maximum})});
  const Expr extent = common_axis(loops_)->extent;
  if (extent.lo() > 0) return factor;
  Value one = builder_->constant(Scalar::of(builder_->type(maximum).dtype, 1));
  return builder_->op(ScalarOp::where, {builder_->index(DType::boolean, lt(0, extent), {}), factor, one});
}

void Tiler::rescale(size_t s, const Place& p, const std::function<Value(const Place&)>& factor) {
  Value result = stage(s).results[0];
  Value scaled = builder_->op(ScalarOp::mul, {load_result(result, s, p), factor(p)});
  store_result(result, s, spread(scaled, dims(p, result_axes(s))), p);
}

void Tiler::write_chunk_stage(size_t s, const Place& p, size_t level) {
  if (!stage(s).reducer) {
    write_kept(s, p, level);
    return;
  }
  const size_t last_outer = after_outer_loops(s, level);
  if (!reduces_common(s)) {
    accumulate_in_memory(s, p, level, last_outer, false);
    return;
  }
  const Value result = stage(s).results[0];
  auto factor_access = [&](size_t pivot, size_t at, const Place& place) {
    auto [it, fresh] = factor_buffers_.try_emplace(pivot, static_cast<int>(kernel_.buffers.size()));
    Value maximum = stage(pivot).results[0];
    if (fresh) {
      int64_t size = 1;
      for (int64_t c : schedule_.block) size *= c;
      kernel_.buffers.push_back(
          {text("factor", pivot), loops_.values[static_cast<size_t>(maximum)].dtype, kernel::Space::Shared, size});
    }
    return std::pair(it->second, result_access(maximum, at, place));
  };
  const size_t pivot = online_->pivots[s];
  if (pivot != SIZE_MAX)
    rescale(s, p, [&](const Place& place) {
      auto [buffer, access] = factor_access(pivot, s, place);
      access.guard = bounds(place, outer_only(axis_count(s)));  // the pivot may have ended with the rows
      return builder_->load(buffer, loops_.values[static_cast<size_t>(stage(pivot).results[0])].dtype, access);
    });
  Value before = kernel::kNoValue;
  if (online_->is_pivot(s)) before = finite(load_result(result, s, p));
  accumulate(s, p, level, last_outer, 0);
  if (!online_->is_pivot(s)) return;
  Value change = builder_->op(ScalarOp::sub, {before, finite(load_result(result, s, p))});
  auto [buffer, access] = factor_access(s, s, p);
  builder_->store(buffer, spread(rescaling(change), dims(p, result_axes(s))), access);
}

// What sums are multiplied with when their maximum changes by so much. It only grows; where it was still -inf, which
// counts as 0, the sum is 0, and the exponential of the way down from there might be infinite.
Tiler::Value Tiler::rescaling(Value change) {
  Value none = builder_->constant(Scalar::of(builder_->type(change).dtype, 0));
  return builder_->op(ScalarOp::exp, {builder_->op(ScalarOp::minimum, {change, none})});
}

kernel::Builder::Access Tiler::part_access(size_t s, const Place& p, const Expr& part) {
  Builder::Access access;
  access.address = part;
  for (size_t i = 0; i < outer_; ++i) access.address = access.address * loops_.outer[i].extent + index_at(p, i);
  for (size_t i = outer_; i < outer_ + stage(s).kept; ++i)
    access.address = access.address * axis(s, i).extent + index_at(p, i);
  access.guard = bounds(p, result_axes(s));
  access.coords = coords(p, result_axes(s));
  return access;
}

void Tiler::combine_parts() {
  const int64_t parts = schedule_.chunks->parts;
  const Expr part = kernel_.phases.back().blocks.empty() ? Expr(0) : kernel_.phases.back().blocks[0];
  for (size_t s : states()) {
    Value result = stage(s).results[0];
    Expr size = parts;
    for (const Axis& outer : loops_.outer) size = size * outer.extent;
    for (size_t i = 0; i < stage(s).kept; ++i) size = size * stage(s).inner[i].extent;
    part_buffers_[result] = static_cast<int>(kernel_.buffers.size());
    kernel_.buffers.push_back(
        {text("part", s), loops_.values[static_cast<size_t>(result)].dtype, kernel::Space::Temp, size});
    Place p = state_place(s);
    builder_->store(part_buffers_[result], load_result(result, s, p), part_access(s, p, part));
  }
  open_phase();
  begin_states();
  Expr var = Expr::index(text("l", loop_count_++), parts);
  builder_->loop(var, {}, [&](std::span<const Value>) {
    auto theirs = [&](size_t s, const Place& p) {
      Value result = stage(s).results[0];
      Builder::Access access = part_access(s, p, var);
      return builder_->load(part_buffers_.at(result), loops_.values[static_cast<size_t>(result)].dtype, access);
    };
    // Sums first: they need the maxima before and after.
    for (bool maxima : {false, true})
      for (size_t s : states()) {
        if (online_->is_pivot(s) != maxima) continue;
        Place p = state_place(s);
        Value result = stage(s).results[0];
        Value mine = load_result(result, s, p), other = theirs(s, p);
        if (const size_t pivot = online_->pivots[s]; pivot != SIZE_MAX) {
          Value old = load_result(stage(pivot).results[0], pivot, block_), found = theirs(pivot, block_);
          Value now = finite(builder_->op(ScalarOp::maximum, {old, found}));
          auto factor = [&](Value from) { return rescaling(builder_->op(ScalarOp::sub, {finite(from), now})); };
          mine = builder_->op(ScalarOp::mul, {mine, factor(old)});
          other = builder_->op(ScalarOp::mul, {other, factor(found)});
        }
        Value both = builder_->apply(*stage(s).reducer, std::span(&mine, 1), std::span(&other, 1))[0];
        store_result(result, s, spread(both, dims(p, result_axes(s))), p);
      }
    return std::vector<Value>{};
  });
  write_stages(Online::Role::Before);
}

}  // namespace heddle
