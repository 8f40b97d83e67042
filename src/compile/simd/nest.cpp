// Loops over the positions of a nest.
#include <algorithm>

#include "base/error.h"
#include "compile/simd/lowering.h"
#include "kernel/pass_util.h"
#include "kernel/types.h"

namespace heddle::simd {

// Full parts in rounds, then what is left: of a constant size at once, else part by part and a masked one. Where full
// parts begin behind a head, both ends are parts of vectors, computed by one piece of code.
std::vector<Value> Lowering::walk(const Walk& walk, std::vector<Value> carried, const StepCode& body) {
  const Expr step = walk.step, per_round = step * Expr(walk.unroll);
  // So many times `count` full parts.
  auto full = [&](const Expr& begin, int64_t count, const Expr& times) {
    carried = loop(times, std::move(carried), [&](const Expr& i, std::vector<Value> now) {
      const int level = i.is_const() && begin.is_const() ? base_level_ : depth();
      std::vector<Part> parts;
      for (int64_t j = 0; j < count; ++j)
        parts.push_back({begin + (i * Expr(count) + Expr(j)) * step, level, walk.step, 1});
      return body(parts, std::move(now));
    });
  };
  const bool aligned = !walk.head.is_const(0);
  if (!aligned && (walk.bound.is_const() || walk.whole)) {
    const int64_t size = walk.whole ? walk.size : walk.bound.value();
    const int64_t rounds = walk.whole ? 0 : size / (walk.step * walk.unroll);
    full(0, walk.unroll, rounds);
    std::vector<Part> rest = chunks(size, walk.step, base_level_);
    rest.erase(rest.begin(), rest.begin() + rounds * walk.unroll);
    return rest.empty() ? carried : body(rest, std::move(carried));
  }
  const Expr first = walk.head, left = aligned ? max(walk.bound - first, 0) : walk.bound;
  const Expr rest = mod(left, step), rounds = floordiv(left, per_round);
  if (aligned)
    carried = loop(2, std::move(carried), [&](const Expr& end, std::vector<Value> now) {
      const Expr count = select(end, rest, min(first, walk.bound));
      const Part part{end * (first + left - rest), depth(), walk.step, lt(lane(walk.step), count)};
      return body({&part, 1}, std::move(now));
    });
  full(first, walk.unroll, rounds);
  if (walk.unroll > 1) full(first + rounds * per_round, 1, floordiv(left, step) - rounds * Expr(walk.unroll));
  if (aligned || rest.is_const(0)) return carried;
  return branch(
      lt(0, rest),
      [&] {
        const Part part{walk.bound - rest, depth(), walk.step, lt(lane(walk.step), rest)};
        return body({&part, 1}, carried);
      },
      [&] { return carried; });
}

// Elements from where the vectors start to the first place at which the nest's store is aligned.
Expr Lowering::head_of(const Nest& nest, const std::vector<std::vector<Part>>& parts) {
  const Inst& store = *nest.aligned;
  Substitution places;
  for (size_t d = 0; d < store.coords.size(); ++d) {
    const bool along = static_cast<int>(d) == nest.vector_dim;
    places.emplace_back(store.coords[d], along ? Expr(0) : parts[d][0].base);
  }
  Expr begin = substitute(store.address, places);
  return ceildiv(begin, nest.width) * Expr(nest.width) - begin;
}

Layout Lowering::result_layout(const Nest& nest, Value v) const {
  if (nest.axis == nest.vector_dim) return {in_.values[v].shape};
  return {in_.values[v].shape, nest.vector_dim, nest.width};
}

void Lowering::run_nest(Nest& nest) {
  base_level_ = depth();
  plan_prefetch(nest);
  // Everything that the nest leaves in registers, in order.
  std::vector<Value> out;
  auto version = [&] {
    base_level_ = depth();
    memo_.clear();
    std::vector<Value> left = nest_body(nest);
    memo_.clear();
    return left;
  };
  if (!nest.condition.is_const(1)) {
    branch(nest.condition, version, [&] { return out; });
  } else if (nest.full_guard.is_const(0)) {
    out = version();
  } else {
    std::vector<Expr> known = nest.known;
    out = branch(
        nest.full_guard,
        [&] {
          nest.known.insert(nest.known.end(), nest.full.begin(), nest.full.end());
          return version();
        },
        [&] {
          nest.known = known;
          return version();
        });
  }
  base_level_ = depth();

  std::span<const Value> left = out;
  auto take = [&](Value to, const Layout& layout) {
    const bool single = layout.size() == 1 && in_.values[to].numel() == 1;
    give(left, to, {.kind = single ? Rep::Scalar : Rep::Registers, .layout = layout});
  };
  for (const Inst* root : nest.roots) {
    if (writes_memory(root->op) || !nest.in_registers) continue;
    for (Value v : final_results(*root)) take(v, result_layout(nest, v));
  }
  for (Save& save : nest.saves) {
    if (save.to.kind == Rep::Registers) {
      take(save.value, nest.layout());
    } else if (is_lazy(save.value)) {
      save.to.valid = nest.bounds;
      set_rep(save.value, save.to);
    }
  }
}

// Gives the registers it leaves: results of reductions in order of roots, then saves.
std::vector<Value> Lowering::nest_body(const Nest& nest) {
  std::vector<std::vector<Part>> parts(nest.shape.size());
  std::vector<Value> out;
  int64_t slots = 0;
  for (const Inst* root : nest.roots)
    if (nest.in_registers && !writes_memory(root->op))
      for (Value v : final_results(*root)) slots += result_layout(nest, v).size();
  for (const Save& save : nest.saves)
    if (save.to.kind == Rep::Registers) slots += nest.layout().size();
  out.assign(static_cast<size_t>(slots), kernel::kNoValue);
  nest_parts(nest, 0, parts, out);
  return out;
}

// Opens the loops over all dimensions but the reduced one, the vector dimension innermost.
void Lowering::nest_parts(const Nest& nest, size_t next, std::vector<std::vector<Part>>& parts,
                          std::vector<Value>& out) {
  SmallVector<int, 4> order;
  for (int d = 0; d < static_cast<int>(nest.shape.size()); ++d)
    if (d != nest.axis && d != nest.vector_dim && d != nest.transposed_dim) order.push_back(d);
  const bool squares = nest.transposed_dim >= 0;
  if (nest.vector_dim >= 0 && nest.vector_dim != nest.axis && !squares) order.push_back(nest.vector_dim);
  if (next == order.size()) return squares ? nest_squares(nest, parts, out) : nest_leaf(nest, parts, out);
  const int d = order[next];
  Walk how = nest.walks[d];
  if (d == nest.vector_dim && nest.aligned) how.head = head_of(nest, parts);
  walk(how, {}, [&](std::span<const Part> now, std::vector<Value> carried) {
    parts[d].assign(now.begin(), now.end());
    nest_parts(nest, next + 1, parts, out);
    return carried;
  });
}

void Lowering::nest_leaf(const Nest& nest, const std::vector<std::vector<Part>>& parts, std::vector<Value>& out) {
  const std::vector<Position> all = positions(parts, nest.vector_dim, base_level_);
  if (nest.axis >= 0)
    nest_reduction(nest, all, out);
  else
    write(nest, all, out);
}

// `keep` as a value; the root's bound variables may occur in it. Nothing when it always holds.
Value Lowering::mask_of(const Nest& nest, const Inst& root, const Expr& keep, const Position& at) {
  if (keep.is_const(1)) return kernel::kNoValue;
  SmallVector<Expr, 1> binds;
  SmallVector<Value, 1> bound;
  bool vector = at.width > 1 && depends_on(keep, lane(at.width));
  for (size_t i = 0; i < root.binds.size(); ++i) {
    if (!depends_on(keep, root.binds[i])) continue;
    binds.push_back(root.binds[i]);
    bound.push_back(emit(nest, kernel::bound(root)[i], at));
    vector |= !out_.values[bound.back()].shape.empty();
  }
  const Expr lanes = lane(at.width);
  return builder().index(DType::boolean, keep, std::span(&lanes, vector ? 1 : 0), binds, bound);
}

Value Lowering::masked(Value v, Value mask, const Scalar& otherwise) {
  if (mask == kernel::kNoValue) return v;
  return builder().op(ScalarOp::where, {mask, v, builder().constant(otherwise)});
}

// Stores, combines and saves at these positions: everything is computed before anything is written.
void Lowering::write(const Nest& nest, std::span<const Position> positions, std::vector<Value>& out) {
  const size_t count = positions.size();
  std::vector<const Inst*> stores;
  for (const Inst* root : nest.roots)
    if (writes_memory(root->op)) stores.push_back(root);
  if (count > 1 && nest.waits && nest.axis < 0 && nest.transposed_dim < 0) emit_in_turns(nest, stores, positions);
  std::vector<Value> values, saved;
  for (size_t p = 0; p < count; ++p) {
    for (const Inst* root : stores)
      for (Value v : root->args) values.push_back(emit(nest, v, positions[p]));
    for (const Save& save : nest.saves) saved.push_back(emit(nest, save.value, positions[p]));
  }
  size_t next = 0, next_saved = 0;
  for (size_t p = 0; p < count; ++p) {
    const Position& at = positions[p];
    for (const Inst* root : stores) {
      Builder::Access access{.address = substitute(root->address, places(*root, at)),
                             .guard = logical_and(guard_at(nest, *root, at), at.active),
                             .binds = root->binds,
                             .hint = root->hint};
      Value v = values[next++];
      for (size_t i = 0; i < root->binds.size(); ++i) access.bound.push_back(values[next++]);
      if (at.width > 1) {
        access.coords = {lane(at.width)};
        v = splat(v, at.width, depth());
      }
      if (root->op == Op::store)
        builder().store(root->buffer, v, access);
      else if (root->op == Op::check)
        builder().check(root->buffer, v, access);
      else
        builder().combine(root->buffer, v, root->reducer, access);
    }
    int64_t first_slot = static_cast<int64_t>(out.size());
    for (const Save& save : nest.saves)
      if (save.to.kind == Rep::Registers) first_slot -= nest.layout().size();
    for (const Save& save : nest.saves) {
      Value v = saved[next_saved++];
      if (save.to.kind != Rep::Registers) {
        store_at(save.to, v, at);
        continue;
      }
      const Layout layout = nest.layout();
      out[first_slot + layout.number(at.at)] = splat(v, at.width, depth());
      first_slot += layout.size();
    }
  }
}

// The scanned values at a position, given what came before; makes them known to what else the nest computes there.
// Gives what has come together now.
std::vector<Value> Lowering::scan_at(const Nest& nest, const Inst& root, const Position& at, Value mask,
                                     std::vector<Value> before) {
  const size_t width = before.size();
  const bool lanes = at.width > 1 && at.vector_dim == nest.axis;
  std::vector<Value> x;
  for (size_t k = 0; k < width; ++k) {
    Value v = masked(emit(nest, root.args[k], at), mask, kernel::neutral(*root.reducer, k));
    x.push_back(lanes || width > 1 ? splat(v, at.width, depth()) : v);
  }
  std::vector<Value> scanned, after;
  if (lanes) {
    scanned = builder().scan(x, before, 0, root.reducer);
    after.assign(scanned.begin() + static_cast<int64_t>(width), scanned.end());
  } else {
    scanned = after = builder().apply(*root.reducer, before, x);
  }
  for (size_t k = 0; k < width; ++k) memo_[{root.results[k], at.at, at.width, at.active}] = {scanned[k], depth()};
  return after;
}

// What a nest reduces, and where.
struct Lowering::Sums {
  std::vector<const Inst*> roots;
  std::vector<Position> positions;
  size_t sets;      // of accumulators
  bool horizontal;  // along the lanes of vectors
  int lanes;        // of an accumulator, then

  size_t count() const { return positions.size(); }
  int width_at(size_t p) const { return horizontal ? lanes : positions[p].width; }
};

// By root, result, position, set.
std::vector<Value> Lowering::start_sums(const Nest& nest, const Sums& sums) {
  std::vector<Value> result;
  for (const Inst* root : sums.roots) {
    const bool scan = root->op == Op::scan, dot = root->op == Op::dot;
    const size_t width = final_results(*root).size();
    for (size_t k = 0; k < width; ++k)
      for (size_t p = 0; p < sums.count(); ++p)
        for (size_t s = 0; s < sums.sets; ++s) {
          const int lanes = scan && sums.horizontal ? 1 : sums.width_at(p);
          // Where lanes meet in the end, what a dot adds to is added then.
          if (scan || (dot && !sums.horizontal && s == 0)) {
            const Value start = emit(nest, root->args[scan ? width + k : 2], sums.positions[p]);
            result.push_back(splat(start, lanes, depth()));
            continue;
          }
          const Scalar zero = Scalar::of(in_.values[root->results[0]].dtype, 0);
          const Dims shape = lanes > 1 ? Dims{lanes} : Dims{};
          result.push_back(builder().constant(dot ? zero : root->reducer->identity[k], shape));
        }
  }
  return result;
}

// The order in which positions take their turn. Those in which only the vector differs come after each other: a factor
// that is the same for all vectors is needed only for a moment, and takes no register from the sums.
std::vector<size_t> Lowering::order_of_sums(const Nest& nest, const Sums& sums) {
  std::vector<size_t> order;
  std::vector<bool> taken(sums.count(), false);
  for (size_t p = 0; p < sums.count(); ++p)
    for (size_t other = p; other < sums.count() && !taken[p]; ++other) {
      bool same = !taken[other];
      for (size_t d = 0; same && d < nest.shape.size(); ++d)
        same = static_cast<int>(d) == nest.axis || (static_cast<int>(d) == nest.vector_dim && nest.has(Op::dot)) ||
               sums.positions[p].at[d] == sums.positions[other].at[d];
      if (!same) continue;
      order.push_back(other);
      if (other != p) taken[other] = true;
    }
  return order;
}

// Adds the elements at `at` to the accumulators of a root from `slot` on. Returns the slot of the next root.
size_t Lowering::add_to_sums(const Nest& nest, const Sums& sums, const Inst& root, const Position& at, size_t slot,
                             std::vector<Value>& now) {
  // Lanes outside of the tile matter only where lanes meet.
  Expr keep = guard_at(nest, root, at);
  if (sums.horizontal) keep = logical_and(keep, at.active);
  Value mask = mask_of(nest, root, keep, at);
  const size_t width = final_results(root).size(), apart = sums.count() * sums.sets;
  std::vector<Value> state;
  for (size_t k = 0; k < width; ++k) state.push_back(now[slot + k * apart]);
  if (root.op == Op::scan) {
    state = scan_at(nest, root, at, mask, std::move(state));
  } else if (root.op == Op::dot) {
    DType dtype = in_.values[root.results[0]].dtype;
    Value a = emit(nest, root.args[0], at), b = emit(nest, root.args[1], at);
    a = masked(a, mask, Scalar::of(out_.values[a].dtype, 0));
    b = masked(b, mask, Scalar::of(out_.values[b].dtype, 0));
    Builder& build = builder();
    const bool words = kernel::holds_packed(out_.values[a].dtype, dtype);
    if (!words) a = build.cast(a, dtype);
    if (!words) b = build.cast(b, dtype);
    state[0] = words             ? build.packed_dot(a, b, state[0])
               : is_float(dtype) ? build.op(ScalarOp::fma, {a, b, state[0]})
                                 : build.op(ScalarOp::add, {state[0], build.op(ScalarOp::mul, {a, b})});
  } else {
    std::vector<Value> element;
    for (size_t k = 0; k < width; ++k) {
      Value v = masked(emit(nest, root.args[k], at), mask, root.reducer->identity[k]);
      element.push_back(width > 1 ? splat(v, at.width, depth()) : v);
    }
    state = builder().apply(*root.reducer, state, element);
  }
  for (size_t k = 0; k < width; ++k) now[slot + k * apart] = state[k];
  return slot + width * apart;
}

void Lowering::finish_sums(const Nest& nest, const Sums& sums, const std::vector<Value>& accumulators,
                           std::vector<Value>& out) {
  // Sets meet, then lanes.
  size_t first = 0, slot = 0;
  for (const Inst* root : sums.roots) {
    const std::span<const Value> results = final_results(*root);
    const size_t width = results.size();
    for (size_t p = 0; p < sums.count(); ++p) {
      std::vector<std::vector<Value>> states(sums.sets);
      for (size_t s = 0; s < sums.sets; ++s)
        for (size_t k = 0; k < width; ++k)
          states[s].push_back(accumulators[first + (k * sums.count() + p) * sums.sets + s]);
      auto reducer = root->op == Op::dot ? kernel::simple_reducer(ScalarOp::add, in_.values[root->results[0]].dtype)
                                         : root->reducer;
      for (size_t n = states.size(); n > 1; n = (n + 1) / 2)
        for (size_t s = 0; s < n / 2; ++s) states[s] = builder().apply(*reducer, states[s], states[s + (n + 1) / 2]);
      std::vector<Value> result = states[0];
      if (sums.horizontal && sums.lanes > 1 && root->op != Op::scan) result = builder().reduce(result, 0, reducer);
      if (root->op == Op::dot && sums.horizontal)
        result[0] = builder().op(ScalarOp::add, {emit(nest, root->args[2], sums.positions[p]), result[0]});
      for (size_t k = 0; k < width; ++k) {
        if (nest.in_registers) {
          out[slot + k * sums.count() + p] =
              splat(result[k], sums.width_at(p) > 1 && !sums.horizontal ? sums.width_at(p) : 1, depth());
        } else if (used_[results[k]] || root->op != Op::scan) {
          Position at = sums.positions[p];
          at.at[nest.axis] = 0;
          if (sums.horizontal) at.to_scalar();
          store_at(reps_[results[k]], result[k], at);
        }
      }
    }
    first += width * sums.count() * sums.sets;
    slot += width * sums.count();
  }
}

void Lowering::nest_reduction(const Nest& nest, std::vector<Position> positions, std::vector<Value>& out) {
  const Walk& along = nest.walks[nest.axis];
  Sums sums{{}, std::move(positions), static_cast<size_t>(nest.sets), nest.axis == nest.vector_dim, 0};
  for (const Inst* root : nest.roots)
    if (!writes_memory(root->op)) sums.roots.push_back(root);
  const int64_t longest = along.whole ? along.size : along.bound.is_const() ? along.bound.value() : nest.width;
  if (sums.horizontal)
    sums.lanes = longest >= nest.width ? nest.width : chunks(std::max<int64_t>(1, longest), nest.width, 0)[0].width;

  std::vector<Value> accumulators = start_sums(nest, sums);
  const std::vector<size_t> order = order_of_sums(nest, sums);
  bool writes = !nest.saves.empty() || sums.roots.size() != nest.roots.size();
  accumulators = walk(along, std::move(accumulators), [&](std::span<const Part> parts, std::vector<Value> now) {
    std::vector<Position> all;
    for (size_t j = 0; j < parts.size(); ++j) {
      for (size_t p : order) {
        Position at = sums.positions[p];
        at.go_to(nest.axis, parts[j], sums.horizontal);
        all.push_back(at);
        size_t slot = p * sums.sets + j % sums.sets;
        for (const Inst* root : sums.roots) slot = add_to_sums(nest, sums, *root, at, slot, now);
      }
    }
    if (writes) write(nest, all, out);
    return now;
  });
  finish_sums(nest, sums, accumulators, out);
}

}  // namespace heddle::simd
