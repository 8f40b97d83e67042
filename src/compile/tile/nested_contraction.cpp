// Nested loops whose common axis is walked in chunks, on a SIMT machine's matrix unit: as in online.cpp, but all
// that a block keeps stays in registers. The state is carried by the loop over chunks; what a chunk computes is the
// left factor of the next product where it stands.
#include "base/error.h"
#include "compile/tile/tiler.h"
#include "kernel/tensor_maps.h"

namespace heddle {

void Tiler::write_chunks_in_registers() {
  open_phase();
  // The last rows first: under a causal mask they are the longest, and nobody should wait for them in the end.
  for (size_t i = 0; i < outer_; ++i)
    if (schedule_.block[i] > 1)
      block_.base[i] = (ceildiv(loops_.outer[i].extent, schedule_.block[i]) - 1) * schedule_.block[i] - block_.base[i];
  const Span span = span_of(*common_axis(loops_));
  const Expr chunks = ceildiv(max(span.end - span.begin, 0), schedule_.chunks->size);
  const std::vector<size_t> carried = states();
  std::vector<Value> state;
  for (size_t s : carried)
    state.push_back(builder_->constant(stage(s).reducer->identity[0], dims(whole(s), result_axes(s))));
  auto walk = [&](const Expr& first, const Expr& count) {
    const Expr var = counter(count);
    turn_ = first + var;
    chunk_base_ = span.begin + turn_ * schedule_.chunks->size;
    state = builder_->loop(var, state, [&](std::span<const Value> now) {
      for (size_t i = 0; i < carried.size(); ++i) registers_[stage(carried[i]).results[0]] = now[i];
      std::map<size_t, Value> changes;  // by pivot
      for (size_t s = 0; s < loops_.stages.size(); ++s)
        if (online_->roles[s] == Online::Role::Chunk) compute_chunk(s, changes);
      std::vector<Value> next;
      for (size_t s : carried) next.push_back(registers_.at(stage(s).results[0]));
      return next;
    });
  };
  in_chunk_ = true;
  // Chunks before the edge of a mask need none.
  const Unmasked part = unmasked_part(loops_, *common_axis(loops_));
  const std::optional<Expr> edge = part.conditions.empty() ? std::nullopt : extreme(part.end, false);
  Expr unmasked = 0;
  if (edge) unmasked = max(min(floordiv(*edge - span.begin, schedule_.chunks->size), chunks), 0);
  if (!unmasked.is_const(0)) {
    share_rings();
    unmasked_.emplace(part.conditions.begin(), part.conditions.end());
    walk(0, unmasked);
    unmasked_.reset();
  }
  walk(unmasked, chunks - unmasked);
  in_chunk_ = false;
  turn_ = Expr(0);
  rings_.clear();
  for (size_t i = 0; i < carried.size(); ++i) registers_[stage(carried[i]).results[0]] = state[i];
  for (size_t s : carried) {
    if (online_->pivots[s] == SIZE_MAX) continue;
    Value factor = last_factor(registers_.at(stage(online_->pivots[s]).results[0]));
    Value& sum = registers_.at(stage(s).results[0]);
    sum = builder_->op(ScalarOp::mul, {sum, factor});
  }
  write_stages(Online::Role::After);
}

// What is on its way at the end of one loop over chunks is for the next one.
void Tiler::share_rings() {
  for (size_t s = 0; s < loops_.stages.size(); ++s) {
    if (!as<NestedContraction>(s)) continue;
    const auto pipeline = static_cast<int>(as<NestedContraction>(s)->pipeline);
    const Contraction c = *find_contraction(loops_, stage(s));
    const int64_t rows = schedule_.block[c.a_axis];
    const int64_t columns = kernel::Type{DType::f32, dims(whole(s), result_axes(s))}.numel() / rows;
    const int64_t steps = staying_steps(stage(s).inner.back());
    const kernel::MatrixRing ring = reduces_common(s) ? kernel::MatrixRing{0, columns, pipeline}
                                                      : kernel::MatrixRing{rows, columns, pipeline, steps};
    rings_[s] = add_buffer(text("ring", s), DType::u8, kernel::Space::Shared, ring.bytes());
  }
}

// One stage at one chunk, from and to registers.
void Tiler::compute_chunk(size_t s, std::map<size_t, Value>& changes) {
  const Place p = whole(s);
  if (!stage(s).reducer) {
    Instance instance = instance_at(s, p);
    for (size_t r = 0; r < stage(s).results.size(); ++r)
      registers_[stage(s).results[r]] = spread(value(stage(s).body.results[r], instance), dims(p, result_axes(s)));
    return;
  }
  const Value result = stage(s).results[0];
  auto state = registers_.find(result);
  const bool carries = reduces_common(s);
  Value before = carries ? state->second : kernel::kNoValue;
  if (online_->is_pivot(s)) {
    Value found = builder_->apply(*stage(s).reducer, std::span(&before, 1), reduce(s, p, 0, {}))[0];
    changes[s] = rescaling(builder_->op(ScalarOp::sub, {finite(before), finite(found)}));
    registers_[result] = found;
    return;
  }
  std::vector<Value> so_far;
  if (carries) {
    if (const size_t pivot = online_->pivots[s]; pivot != SIZE_MAX)
      before = builder_->op(ScalarOp::mul, {before, changes.at(pivot)});
    so_far.push_back(before);
  }
  registers_[result] = reduce(s, p, 0, so_far)[0];
}

}  // namespace heddle
