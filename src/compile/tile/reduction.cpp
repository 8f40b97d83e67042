// Reductions at tile level: in registers, in shared memory, or split over the grid.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "compile/tile/tiler.h"

namespace heddle {

std::vector<Tiler::Value> Tiler::reduce(size_t s, const Place& p, size_t level, std::vector<Value> before) {
  const std::vector<Level>& loops = schedule_.stages[s].loops;
  if (as<MatrixContraction>(s) || as<NestedContraction>(s)) return matrix_dot(s, p, std::move(before));
  write_block_packing(s, p, level);
  if (level == loops.size()) return reduce_products(s, p, std::move(before));
  if (before.empty()) before = identities(s, p, level);
  const Level& loop = loops[level];
  const int64_t count = pieces(p.size[loop.axis], loop.step);
  auto inside = [&](const Place& at, std::vector<Value> now) { return reduce(s, at, level + 1, std::move(now)); };
  const int64_t most = steps_of_a_sum(s, loop);
  Expr var = loop_variable(s, p, loop);
  if (count > most) return reduce_steps(s, p, loop, 0, var.extent(), most, before, inside);
  return builder_->loop(var, before, [&](std::span<const Value> carried) {
    return inside(step_into(p, loop, var), {carried.begin(), carried.end()});
  });
}

// How many steps of a loop one accumulator adds up, one after the other. Its error grows with that number, so more are
// a sum of sums; but it costs registers to begin a new one, so a sum has many terms.
int64_t Tiler::steps_of_a_sum(size_t s, const Level& loop) const {
  constexpr int64_t kSteps = 32, kTerms = 1024, kProducts = 2048;
  const bool dot = as<RegisterContraction>(s) || as<PackedContraction>(s);
  const auto& combine = stage(s).reducer->combine;
  const bool rounds = std::ranges::any_of(combine.insts, [&](const Inst& inst) {
    return inst.op == Op::add && is_float(stage(s).reducer->values[inst.results[0]].dtype);
  });
  // The threads of a block have no registers for more sums of products.
  if (!rounds || !dims_.empty() || !reduces_axis(s, static_cast<size_t>(loop.axis)) ||
      (dot && target_.machine == Machine::Simt))
    return INT64_MAX;
  const std::vector<int64_t> tile = tile_of(schedule_, loops_, s);
  int64_t each = 1;  // terms of a tile
  for (size_t i = outer_ + stage(s).kept; i < axis_count(s); ++i) {
    each *= std::clamp<int64_t>(tile[i], 1, kProducts);
    each = std::min(each, kProducts);
  }
  return std::max(kSteps, (dot ? kProducts : kTerms) / each);
}

// `left` steps of the loop, from number `first` on; `most` in a row.
std::vector<Tiler::Value> Tiler::reduce_steps(size_t s, const Place& p, const Level& loop, const Expr& first,
                                              const Expr& left, int64_t most, std::vector<Value> before,
                                              const ReduceStep& step) {
  const int64_t count = left.hi();
  int64_t group = 1;
  if (count > most) {
    group = pieces(count, most);
    // Groups that are all of one size need no guards.
    for (int64_t even = group; even <= 2 * group && count % group != 0; ++even)
      if (count % even == 0) group = even;
  }
  const Expr var = counter(ceildiv(left, group));
  return builder_->loop(var, before, [&](std::span<const Value> carried) -> std::vector<Value> {
    if (group == 1) return step(step_into(p, loop, first + var), {carried.begin(), carried.end()});
    std::vector<Value> fresh;
    for (size_t r = 0; r < carried.size(); ++r)
      fresh.push_back(builder_->constant(stage(s).reducer->identity[r], builder_->type(carried[r]).shape));
    const Expr here = count % group == 0 && left.is_const() ? Expr(group) : min(Expr(group), left - var * group);
    return builder_->apply(*stage(s).reducer, carried,
                           reduce_steps(s, p, loop, first + var * group, here, most, std::move(fresh), step));
  });
}

// The tile of a dot is walked by one chain of sums for each of its results.
std::vector<Tiler::Value> Tiler::reduce_products(size_t s, const Place& p, std::vector<Value> before) {
  constexpr int64_t kMost = 1024, kFewest = 128;
  if (!as<RegisterContraction>(s)) return reduce_tile(s, p, std::move(before));
  const size_t along = dot_axis(s);
  const int64_t size = p.size[along];
  Level loop{static_cast<int>(along), kMost / 2};
  if (size <= kMost || steps_of_a_sum(s, loop) == INT64_MAX) return reduce_tile(s, p, std::move(before));
  for (int64_t even = loop.step; even >= kFewest; --even)
    if (size % even == 0) {
      loop.step = even;
      break;
    }
  if (before.empty()) before = identities(s, p, schedule_.stages[s].loops.size());
  constexpr int64_t kSteps = 32;
  return reduce_steps(s, p, loop, 0, loop_variable(s, p, loop).extent(), kSteps, std::move(before),
                      [&](const Place& at, const std::vector<Value>& now) {
                        return builder_->apply(*stage(s).reducer, now, reduce_tile(s, at, {}));
                      });
}

std::vector<bool> Tiler::axes_between(size_t count, size_t first, size_t end) {
  std::vector<bool> used(count, false);
  std::fill(used.begin() + static_cast<long>(first), used.begin() + static_cast<long>(end), true);
  return used;
}

int64_t Tiler::points_of_block() const {
  return std::accumulate(schedule_.block.begin(), schedule_.block.end(), int64_t{1}, std::multiplies<>());
}

Expr Tiler::points(size_t s) const {
  Expr points = 1;
  for (size_t i = 0; i < outer_ + stage(s).kept; ++i) points = points * axis(s, i).extent;
  return points;
}

void Tiler::store_identities(size_t s, const Place& p) {
  const std::vector<Scalar>& identity = stage(s).reducer->identity;
  for (size_t r = 0; r < identity.size(); ++r)
    store_result(stage(s).results[r], s, builder_->constant(identity[r], dims(p, result_axes(s))), p);
}

std::vector<Tiler::Value> Tiler::identities(size_t s, Place p, size_t level) {
  for (const Level& loop : std::span(schedule_.stages[s].loops).subspan(level)) p.size[loop.axis] = loop.step;
  std::vector<Value> result;
  for (const Scalar& identity : stage(s).reducer->identity)
    result.push_back(builder_->constant(identity, dims(p, result_axes(s))));
  return result;
}

std::vector<Tiler::Value> Tiler::reduce_tile(size_t s, const Place& p, std::vector<Value> before) {
  Instance instance = instance_at(s, p);
  write_checks(instance);
  const auto& reducer = stage(s).reducer;
  std::vector<bool> all(axis_count(s), true);
  Dims full = dims(p, all);
  Expr guard = bounds(p, all);
  SmallVector<Expr, 4> where = coords(p, all);
  const size_t reduced = outer_ + stage(s).kept;  // the first such axis
  if (as<RegisterContraction>(s) || as<PackedContraction>(s)) {
    Contraction c = *find_contraction(loops_, stage(s));
    if (as<PackedContraction>(s)) {
      instance.place = in_packed(s, p, numbers_per_word(loops_, *narrow_factor(loops_, stage(s), c.a)));
      where = coords(instance.place, all);
    }
    Value a = operand(s, 0, c.a, instance), b = operand(s, 1, c.b, instance);
    if (before.empty()) before = identities(s, p, schedule_.stages[s].loops.size());
    // Rows and columns outside only lead to results that nobody stores; the reduced axis must be exact.
    Expr inside = bounds(instance.place, reduced_axes(s));
    std::span<const Expr> guarded = where;
    return {builder_->dot(a, b, before[0], static_cast<int>(dim(p, dot_axis(s))), inside,
                          inside.is_const(1) ? std::span<const Expr>{} : guarded)};
  }
  auto reduced_by = [&](const std::shared_ptr<const kernel::Reducer>& by, std::span<const Value> results) {
    std::vector<Value> tuple;
    Expr inside = guard;
    SmallVector<Expr, 4> at = where;
    for (Value v : results) tuple.push_back(spread(value(v, instance), full));
    for (size_t i = axis_count(s); i-- > reduced;) {
      tuple = builder_->reduce(tuple, static_cast<int>(dim(p, i)), by, inside, at);
      inside = 1;  // what lay outside is the identity now
      at[dim(p, i)] = coordinate(dim(p, i), 1);
    }
    return tuple;
  };
  std::vector<Value> tuple;
  if (stage(s).online) {
    const std::span<const Value> results = stage(s).body.results;
    const DType dtype = reducer->identity[0].dtype;
    tuple = reduced_by(kernel::simple_reducer(ScalarOp::maximum, dtype), results.first(1));
    instance.map[stage(s).results[0]] = tuple[0];
    tuple.push_back(reduced_by(kernel::simple_reducer(ScalarOp::add, dtype), results.last(1))[0]);
  } else {
    tuple = reduced_by(reducer, stage(s).body.results);
  }
  return before.empty() ? tuple : builder_->apply(*reducer, before, tuple);
}

Tiler::Dims Tiler::extents(std::span<const Expr> coords) {
  Dims result;
  for (const Expr& c : coords) result.push_back(c.extent().value());
  return result;
}

void Tiler::accumulate_in_memory(size_t s, const Place& p, size_t level, size_t last_outer, bool may_be_empty) {
  const std::vector<Level>& loops = schedule_.stages[s].loops;
  bool again = std::any_of(loops.begin() + static_cast<long>(level), loops.begin() + static_cast<long>(last_outer),
                           [&](const Level& l) { return reduces_axis(s, static_cast<size_t>(l.axis)); });
  for (size_t i = outer_ + stage(s).kept; i < axis_count(s); ++i) may_be_empty |= axis(s, i).extent.lo() < 1;
  // A sum needs no beginning: what is not loaded is zero.
  bool started = may_be_empty || (again && kernel::simple_op(*stage(s).reducer) != ScalarOp::add);
  if (started) store_identities(s, p);
  accumulate(s, p, level, last_outer, started ? Expr(0) : Expr(1));
}

void Tiler::accumulate(size_t s, const Place& p, size_t level, size_t last_outer, Expr fresh) {
  write_block_packing(s, p, level);
  if (level < last_outer) {
    const Level& loop = schedule_.stages[s].loops[level];
    Expr var = loop_variable(s, p, loop);
    if (reduces_axis(s, static_cast<size_t>(loop.axis))) fresh = logical_and(fresh, eq(var, 0));
    builder_->loop(var, {}, [&] { accumulate(s, step_into(p, loop, var), level + 1, last_outer, fresh); });
    held_.clear();
    return;
  }
  if (by_panels(s)) return write_panel_dot(s, p, logical_not(fresh));
  std::vector<Value> before;
  const auto& reducer = stage(s).reducer;
  if (!fresh.is_const(1))
    for (Value result : stage(s).results) before.push_back(load_result(result, s, p, logical_not(fresh)));
  // The loops that remain run over reduced axes only. They start anew, so that a long sum is a sum of short ones.
  packed_at_ = level;
  std::vector<Value> results = reduce(s, p, level, {});
  if (!before.empty()) results = builder_->apply(*reducer, before, results);
  for (size_t r = 0; r < results.size(); ++r) {
    store_result(stage(s).results[r], s, results[r], p);
    if (fresh.is_const(1)) hold(stage(s).results[r], s, results[r], p);
  }
}

int Tiler::result_buffer(Value result) {
  if (auto known = result_buffers_.find(result); known != result_buffers_.end()) return known->second;
  int64_t size = points_of_block();
  const size_t from = result_stage_.at(result);
  for (size_t i = 0; i < stage(from).kept; ++i) size *= kept_room(from, i);
  const std::string name = text("acc", result_buffers_.size());
  return result_buffers_[result] = add_buffer(name, dtype_of(result), kernel::Space::Shared, size);
}

kernel::Builder::Access Tiler::result_access(Value result, size_t s, const Place& p) {
  Builder::Access access;
  const size_t from = result_stage_.at(result);
  auto along_kept = [&](bool reduced_later) {
    for (size_t k = 0; k < stage(from).kept; ++k) {
      const Expr& var = stage(from).inner[k].var;
      auto reduces = [&](const Stage& later) { return reduces_along(later, var); };
      if (reduced_later != std::ranges::any_of(loops_.stages, reduces)) continue;
      for (size_t i = outer_; i < axis_count(s); ++i)
        if (axis(s, i).var == var)
          access.address =
              access.address * kept_room(from, k) + (index_at(p, i) - (is_common(var) ? chunk_base_ : Expr(0)));
    }
  };
  // Vectors run across the rows of a block; across what is kept of each if there are few.
  const int64_t rows = points_of_block();
  if (rows > kFewNestedRows) along_kept(true);
  for (size_t i = 0; i < outer_; ++i)
    access.address = access.address * schedule_.block[i] + (index_at(p, i) - block_.base[i]);
  if (rows <= kFewNestedRows) along_kept(true);
  along_kept(false);
  access.coords = coords(p, axes_of_result(result, s));
  return access;
}

Tiler::Value Tiler::load_result(Value result, size_t s, const Place& p, const Expr& guard) {
  Builder::Access access = result_access(result, s, p);
  std::vector<bool> used = axes_of_result(result, s);
  access.guard = logical_and(guard, bounds(p, used));  // nothing is written beyond
  for (size_t i = outer_; i < used.size(); ++i) {
    if (!used[i]) continue;
    Span span = span_of(axis(s, i));
    access.guard = logical_and(access.guard, lt(index_at(p, i), span.end));
    if (!(p.base[i] == span.begin) && !is_common(axis(s, i).var))
      access.guard = logical_and(access.guard, ge(index_at(p, i), span.begin));
  }
  return builder_->load(result_buffer(result), dtype_of(result), access);
}

void Tiler::store_result(Value result, size_t s, Value v, const Place& p, const Expr& guard) {
  Builder::Access access = result_access(result, s, p);
  access.guard = guard;
  builder_->store(result_buffer(result), v, access);
}

void Tiler::write_partial_phase() {
  int64_t parts = schedule_.stages[0].parts();
  open_phase();
  Expr part = block_variable("part", parts);
  Place p = whole(0);
  const Axis& first = stage(0).inner[0];
  int64_t step = as<MatrixContraction>(0) ? unit_level(0).step : 1;
  for (const Level& level : schedule_.stages[0].loops)
    if (static_cast<size_t>(level.axis) == outer_) step = std::max(step, level.step);
  const int64_t chunk = round_up(pieces(p.size[outer_], parts), step);
  p.base[outer_] = part * chunk;
  p.size[outer_] = chunk;
  p.end[outer_] = first.extent;
  std::vector<Value> results;
  size_t last_outer = after_outer_loops(0, 0);
  if (last_outer > 0) {
    accumulate_in_memory(0, p, 0, last_outer, true);
    for (Value result : stage(0).results) results.push_back(load_result(result, 0, block_));
  } else {
    results = reduce(0, p, 0, {});
  }
  for (size_t r = 0; r < results.size(); ++r) {
    partial_buffers_.push_back(
        add_buffer(text("partial", r), dtype_of(stage(0).results[r]), kernel::Space::Temp, points(0) * parts));
    builder_->store(partial_buffers_.back(), results[r], partial_access(0, p, part));
  }
}

kernel::Builder::Access Tiler::partial_access(size_t s, const Place& p, const Expr& part,
                                              const std::vector<bool>& used) {
  const std::vector<bool> results = result_axes(s);
  Builder::Access access{part, bounds(p, results), coords(p, used.empty() ? results : used)};
  for (size_t i = 0; i < outer_ + stage(s).kept; ++i)
    access.address = access.address * axis(s, i).extent + index_at(p, i);
  return access;
}

void Tiler::combine_partials() {
  int64_t parts = schedule_.stages[0].parts();
  const Place p = with_parts(parts);
  std::vector<bool> used(outer_ + 1, true);
  std::vector<Value> tuple;
  for (size_t r = 0; r < partial_buffers_.size(); ++r) {
    tuple.push_back(builder_->load(partial_buffers_[r], dtype_of(stage(0).results[r]),
                                   partial_access(0, p, coordinate(outer_, parts), used)));
  }
  const auto& reducer = stage(0).reducer;
  if (stage(0).online) {
    const DType dtype = reducer->identity[0].dtype;
    auto along_parts = [&](ScalarOp op, Value v) {
      return builder_->reduce({&v, 1}, static_cast<int>(outer_), kernel::simple_reducer(op, dtype))[0];
    };
    // Combined with no sum beside the maximum of all, sums of parts are relative to that.
    const Value maximum = along_parts(ScalarOp::maximum, tuple[0]);
    const Value whole[] = {maximum, builder_->constant(reducer->identity[1])};
    tuple = {maximum, along_parts(ScalarOp::add, builder_->apply(*reducer, tuple, whole)[1])};
  } else {
    tuple = builder_->reduce(tuple, static_cast<int>(outer_), reducer);
  }
  // Later stages that walk the block in steps find their part of it in memory.
  bool walked = false;
  for (size_t s = 1; s < loops_.stages.size(); ++s)
    for (const Level& level : schedule_.stages[s].loops) walked |= is_outer(level);
  for (size_t r = 0; r < tuple.size(); ++r) {
    if (walked)
      store_result(stage(0).results[r], 0, tuple[r], block_);
    else
      registers_[stage(0).results[r]] = tuple[r];
  }
}

}  // namespace heddle
