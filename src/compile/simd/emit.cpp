// Thread-level values for single positions of tile values.
#include <functional>
#include <unordered_set>

#include "base/error.h"
#include "base/hash.h"
#include "base/rounding.h"
#include "compile/simd/lowering.h"

namespace heddle::simd {

std::vector<Part> Lowering::chunks(int64_t size, int width, int level) {
  std::vector<Part> out;
  int64_t start = 0;
  for (; start + width <= size; start += width) out.push_back({start, level, width});
  // Parts of one tile have one width, so that accumulators and tiles in registers fit each other.
  if (const int64_t rest = size - start; rest > 0) {
    const int last = start > 0 ? width : static_cast<int>(ceil_power(rest));
    out.push_back({start, level, last, rest < last ? lt(lane(last), rest) : Expr(1)});
  }
  return out;
}

int64_t Layout::steps(int dim) const {
  if (dim != vector_dim) return shape[dim];
  return pieces(shape[dim], width);
}

int64_t Layout::size() const {
  int64_t total = 1;
  for (size_t d = 0; d < shape.size(); ++d) total *= steps(static_cast<int>(d));
  return total;
}

int64_t Layout::number(std::span<const Expr> at) const {
  int64_t index = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    HD_ASSERT(at[d].is_const(), "register tile walked by a loop");
    const bool along = static_cast<int>(d) == vector_dim;
    index = index * steps(static_cast<int>(d)) + at[d].value() / (along ? width : 1);
  }
  return index;
}

Position Position::origin(size_t rank, int level) {
  Position at;
  at.at.resize(rank);
  at.level.resize(rank, level);
  return at;
}

void Position::go_to(int d, const Part& part, bool vectors) {
  at[d] = part.base;
  level[d] = part.level;
  if (!vectors) return;
  vector_dim = part.width > 1 ? d : -1;
  width = part.width;
  active = part.active;
}

size_t ValueKeyHash::operator()(const ValueKey& key) const {
  size_t h = static_cast<size_t>(key.value) * 1000003 + static_cast<size_t>(key.width);
  for (const Expr& e : key.at) h = (h ^ e.hash()) * 0x9e3779b97f4a7c15u;
  return h ^ key.active.hash();
}

Expr Lowering::lane(int width) {
  auto [it, inserted] = lanes_.try_emplace(width);
  if (inserted) it->second = Expr::index(text("lane", width), width);
  return it->second;
}

std::vector<Position> Lowering::positions(const std::vector<std::vector<Part>>& parts, int vector_dim, int level) {
  std::vector<Position> all = {Position::origin(parts.size(), level)};
  for (int d = 0; d < static_cast<int>(parts.size()); ++d) {
    if (parts[d].empty()) continue;
    std::vector<Position> longer;
    for (const Position& at : all)
      for (const Part& part : parts[d]) {
        longer.push_back(at);
        longer.back().go_to(d, part, d == vector_dim);
      }
    all = std::move(longer);
  }
  return all;
}

Value Lowering::splat(Value v, int width, int level) {
  if (width == 1 || !out_.values[v].shape.empty()) return v;
  Builder b = builder_->outer(level);
  if (auto it = constants_.find(v); it != constants_.end()) return b.constant(it->second, Dims{width});
  return b.broadcast(v, Dims{width});
}

bool Lowering::usable(const Rep& rep, const Nest& nest) const {
  return rep.kind == Rep::Memory && std::ranges::all_of(rep.valid, [&](const Expr& need) { return nest.knows(need); });
}

// What remains of a position for a tile of this shape: dimensions of size 1 stay at 0.
Position Lowering::project(const Position& at, const Dims& shape) const {
  Position out = at;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1) continue;
    out.at[d] = 0;
    out.level[d] = base_level_;
  }
  if (at.vector_dim >= 0 && shape[at.vector_dim] == 1) out.to_scalar();
  return out;
}

Value Lowering::emit(const Nest& nest, Value v, const Position& at) {
  const Rep& rep = reps_[v];
  if (rep.kind == Rep::Scalar) return rep.scalar;
  const Type& type = in_.values[v];
  HD_ASSERT(type.shape.size() == at.at.size(), kernel::to_string(type), " in a nest of rank ", at.at.size());
  Position here = project(at, type.shape);
  int level = base_level_;
  for (int l : here.level) level = std::max(level, l);

  if (rep.kind == Rep::Registers) {
    Value found = rep.registers[rep.layout.number(here.at)];
    const Dims& shape = out_.values[found].shape;
    HD_ASSERT(shape.empty() || shape[0] == here.width, "register tile in chunks of another width");
    return found;
  }

  ValueKey key{v, here.at, here.width, here.active};
  if (auto it = memo_.find(key); it != memo_.end()) return it->second.first;
  Value result;
  if (usable(rep, nest)) {
    result = builder_->outer(level).load(rep.buffer, type.dtype, access_at(rep, here));
  } else {
    HD_ASSERT(defs_[v] && is_lazy_op(defs_[v]->op), "value %", v, " has no representation");
    result = emit_lazy(nest, *defs_[v], here, level);
  }
  memo_.emplace(std::move(key), std::pair(result, level));
  return result;
}

// Everything that the stores need, one operation at all positions before the next one: a machine that waits for one
// result works on the others.
void Lowering::emit_in_turns(const Nest& nest, std::span<const Inst* const> stores,
                             std::span<const Position> positions) {
  std::unordered_set<Value> seen;
  const std::function<void(Value)> visit = [&](Value v) {
    const Rep& rep = reps_[v];
    if (rep.kind == Rep::Scalar || rep.kind == Rep::Registers || !seen.insert(v).second) return;
    if (!usable(rep, nest))
      for (Value arg : defs_[v]->args) visit(arg);
    for (const Position& at : positions) emit(nest, v, at);
  };
  for (const Inst* store : stores)
    for (Value v : store->args) visit(v);
}

Value Lowering::emit_lazy(const Nest& nest, const Inst& inst, const Position& at, int level) {
  if (inst.op == Op::load || inst.op == Op::index) return emit_access(nest, inst, at, level);
  if (inst.op == Op::constant) {
    Value made = builder_->outer(level).constant(inst.literal);
    constants_.emplace(made, inst.literal);
    return made;
  }
  SmallVector<Value, 3> args;
  for (Value v : inst.args) args.push_back(emit(nest, v, at));
  Builder b = builder_->outer(level);
  if (inst.op == Op::cast) return b.cast(args[0], in_.values[inst.results[0]].dtype);
  if (inst.op == Op::bitcast) return b.bitcast(args[0], in_.values[inst.results[0]].dtype);
  return b.op(kernel::scalar_op(inst.op), args);
}

Substitution Lowering::places(const Inst& inst, const Position& at) {
  Substitution places;
  for (size_t d = 0; d < inst.coords.size(); ++d)
    places.emplace_back(inst.coords[d], static_cast<int>(d) == at.vector_dim ? at.at[d] + lane(at.width) : at.at[d]);
  return places;
}

Expr Lowering::guard_at(const Nest& nest, const Inst& inst, const Position& at) {
  std::vector<Expr> rest;
  for (const Expr& part : conjuncts(inst.guard))
    if (!nest.knows(canonical(part, inst.coords))) rest.push_back(substitute(part, places(inst, at)));
  return conjunction(rest);
}

Value Lowering::emit_access(const Nest& nest, const Inst& inst, const Position& at, int level) {
  Builder b = builder_->outer(level);
  Builder::Access access{.hint = inst.hint};
  access.binds = inst.binds;
  bool vector = false;
  for (Value v : inst.args) {
    access.bound.push_back(emit(nest, v, at));
    vector |= !out_.values[access.bound.back()].shape.empty();
  }
  access.address = substitute(inst.address, places(inst, at));
  access.guard = guard_at(nest, inst, at);
  const DType dtype = in_.values[inst.results[0]].dtype;
  if (access.guard.is_const(0)) return b.constant(Scalar::of(dtype, 0));
  const Expr lanes = lane(at.width);
  if (at.vector_dim >= 0 && (vector || depends_on(access.address, lanes) || depends_on(access.guard, lanes)))
    access.coords = {lanes};
  if (inst.op == Op::index) return b.index(dtype, access.address, access.coords, access.binds, access.bound);
  if (access.coords.empty()) return b.load(inst.buffer, dtype, access);
  access.guard = logical_and(access.guard, at.active);
  const auto ahead = nest.prefetch.find(&inst);
  const bool fetches = ahead != nest.prefetch.end() && inst.hint == kernel::Hint::None;
  if (fetches) access.hint = kernel::Hint::Prefetch;
  const Value result = b.load(inst.buffer, dtype, access);
  if (fetches) b.code().insts.back().immediate = ahead->second;
  return result;
}

Builder::Access Lowering::access_at(const Rep& rep, const Position& at) {
  Builder::Access access;
  for (size_t d = 0; d < rep.strides.size(); ++d) access.address = access.address + at.at[d] * Expr(rep.strides[d]);
  if (at.width == 1) return access;
  access.coords = {lane(at.width)};
  access.address = access.address + lane(at.width) * Expr(rep.strides[at.vector_dim]);
  access.guard = at.active;
  return access;
}

void Lowering::store_at(const Rep& rep, Value v, const Position& at) {
  v = splat(v, at.width, depth());
  builder().store(rep.buffer, v, access_at(rep, at));
}

std::vector<Value> Lowering::scoped(const kernel::BodyCode<>& code) {
  std::vector<Value> results = code();
  std::erase_if(memo_, [&](const auto& entry) { return entry.second.second >= depth(); });
  return results;
}

std::vector<Value> Lowering::loop(const Expr& extent, std::vector<Value> init,
                                  const kernel::BodyCode<const Expr&, std::vector<Value>>& body) {
  if (extent.hi() <= 0) return init;
  if (extent.is_const(1)) return body(0, std::move(init));
  const Expr var = Expr::index(text("i", names_++), extent);
  return builder().loop(var, init, [&](std::span<const Value> carried) {
    return scoped([&] { return body(var, {carried.begin(), carried.end()}); });
  });
}

std::vector<Value> Lowering::branch(const Expr& guard, const kernel::BodyCode<>& then,
                                    const kernel::BodyCode<>& otherwise) {
  if (guard.is_const(1)) return then();
  if (guard.is_const(0)) return otherwise();
  return builder().branch(guard, [&] { return scoped(then); }, [&] { return scoped(otherwise); });
}

}  // namespace heddle::simd
