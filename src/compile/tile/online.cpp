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
  for (size_t s : states()) store_identities(s, state_place(s));
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
  const Expr var = counter(chunks);
  chunk_base_ = span.begin + (first + var) * schedule_.chunks->size;
  builder_->loop(var, {}, [&] { write_stages(Online::Role::Chunk); });
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
  auto factor_buffer = [&](size_t pivot) {
    auto [it, fresh] = factor_buffers_.try_emplace(pivot, -1);
    const DType dtype = dtype_of(stage(pivot).results[0]);
    if (fresh) it->second = add_buffer(text("factor", pivot), dtype, kernel::Space::Shared, points_of_block());
    return it->second;
  };
  const size_t pivot = online_->pivots[s];
  if (pivot != SIZE_MAX)
    rescale(s, p, [&](const Place& place) {
      const Value maximum = stage(pivot).results[0];
      Builder::Access access = result_access(maximum, s, place);
      access.guard = bounds(place, outer_only(axis_count(s)));  // the pivot may have ended with the rows
      return builder_->load(factor_buffer(pivot), dtype_of(maximum), access);
    });
  Value before = kernel::kNoValue;
  if (online_->is_pivot(s)) before = finite(load_result(result, s, p));
  accumulate(s, p, level, last_outer, 0);
  if (!online_->is_pivot(s)) return;
  Value change = builder_->op(ScalarOp::sub, {before, finite(load_result(result, s, p))});
  builder_->store(factor_buffer(s), spread(rescaling(change), dims(p, result_axes(s))), result_access(result, s, p));
}

// What sums are multiplied with when their maximum changes by so much. It only grows; where it was still -inf, which
// counts as 0, the sum is 0, and the exponential of the way down from there might be infinite.
Tiler::Value Tiler::rescaling(Value change) {
  Value none = builder_->constant(Scalar::of(builder_->type(change).dtype, 0));
  return builder_->op(ScalarOp::exp, {builder_->op(ScalarOp::minimum, {change, none})});
}

void Tiler::combine_parts() {
  const int64_t parts = schedule_.chunks->parts;
  const Expr part = kernel_.phases.back().blocks.empty() ? Expr(0) : kernel_.phases.back().blocks[0];
  std::map<size_t, int> buffers;  // by stage
  for (size_t s : states()) {
    const Value result = stage(s).results[0];
    const Place p = state_place(s);
    buffers[s] = add_buffer(text("part", s), dtype_of(result), kernel::Space::Temp, points(s) * parts);
    builder_->store(buffers[s], load_result(result, s, p), partial_access(s, p, part));
  }
  open_phase();
  begin_states();
  const Expr var = counter(parts);
  builder_->loop(var, {}, [&] {
    auto theirs = [&](size_t s, const Place& p) {
      return builder_->load(buffers.at(s), dtype_of(stage(s).results[0]), partial_access(s, p, var));
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
  });
  write_stages(Online::Role::Before);
}

}  // namespace heddle
