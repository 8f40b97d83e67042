#include "kernel/builder.h"

#include "base/error.h"
#include "kernel/types.h"

namespace heddle::kernel {
namespace {

Dims extents(std::span<const Expr> coords) {
  Dims out;
  for (const Expr& c : coords) {
    Expr extent = c.is_var() ? c.extent() : Expr(1);
    HD_ASSERT(extent.is_const(), "coordinate ", c, " has no constant extent");
    out.push_back(extent.value());
  }
  return out;
}

Value mapped(Value v, const std::vector<Value>& map) {
  return static_cast<size_t>(v) < map.size() && map[v] != kNoValue ? map[v] : v;
}

void record(std::vector<Value>& map, Value from, Value to) {
  if (static_cast<size_t>(from) >= map.size()) map.resize(from + 1, kNoValue);
  map[from] = to;
}

}  // namespace

Value Builder::fresh(Type type) {
  values_.push_back(std::move(type));
  return static_cast<Value>(values_.size() - 1);
}

Value Builder::append(Inst inst, Type type) {
  Value result = fresh(std::move(type));
  inst.results = {result};
  code().insts.push_back(std::move(inst));
  return result;
}

Value Builder::constant(const Scalar& value) { return constant(value, {}); }

Value Builder::constant(const Scalar& value, const Dims& shape) {
  Inst inst;
  inst.op = Op::constant;
  inst.literal = value;
  return append(std::move(inst), {value.dtype, shape});
}

Value Builder::op(ScalarOp op, std::span<const Value> args) {
  SmallVector<Type, 3> types;
  Inst inst;
  inst.op = from(op);
  for (Value v : args) {
    types.push_back(type(v));
    inst.args.push_back(v);
  }
  return append(std::move(inst), elementwise_type(op, types));
}

Value Builder::broadcast(Value v, const Dims& shape) {
  if (type(v).shape == shape) return v;
  const Value all = constant(Scalar::of(DType::boolean, true), shape);
  return op(ScalarOp::where, {all, v, v});
}

Value Builder::cast(Value v, DType to) {
  if (type(v).dtype == to) return v;
  Inst inst;
  inst.op = Op::cast;
  inst.args = {v};
  return append(std::move(inst), {to, type(v).shape});
}

Value Builder::bitcast(Value v, DType to) {
  if (type(v).dtype == to) return v;
  Inst inst;
  inst.op = Op::bitcast;
  inst.args = {v};
  return append(std::move(inst), bitcast_type(type(v), to));
}

Value Builder::index(DType dtype, const Expr& address, std::span<const Expr> coords, std::span<const Expr> binds,
                     std::span<const Value> bound) {
  Inst inst;
  inst.op = Op::index;
  inst.address = folded(address);
  inst.coords = SmallVector<Expr, 4>(coords);
  inst.binds = SmallVector<Expr, 1>(binds);
  inst.args = SmallVector<Value, 3>(bound);
  return append(std::move(inst), {dtype, extents(coords)});
}

Inst Builder::access(Op op, int buffer, const Access& access) const {
  HD_ASSERT(access.binds.size() == access.bound.size(), name(op), " with ", access.binds.size(), " variables for ",
            access.bound.size(), " values");
  Inst inst;
  inst.op = op;
  inst.hint = access.hint;
  inst.buffer = buffer;
  inst.address = access.address;
  inst.guard = access.guard;
  inst.coords = access.coords;
  inst.binds = access.binds;
  return inst;
}

Value Builder::load(int buffer, DType dtype, const Access& access) {
  Inst inst = this->access(Op::load, buffer, access);
  for (Value v : access.bound) inst.args.push_back(v);
  return append(std::move(inst), {dtype, extents(access.coords)});
}

void Builder::store(int buffer, Value v, const Access& access) {
  HD_ASSERT(type(v).shape == extents(access.coords), "store of ", to_string(type(v)), " with ", access.coords.size(),
            " coordinates of other extents");
  Inst inst = this->access(Op::store, buffer, access);
  inst.args = {v};
  for (Value bound : access.bound) inst.args.push_back(bound);
  code().insts.push_back(std::move(inst));
}

void Builder::check(int buffer, Value v, const Access& access) {
  HD_ASSERT(type(v).shape == extents(access.coords), "check of ", to_string(type(v)), " with ", access.coords.size(),
            " coordinates of other extents");
  Inst inst = this->access(Op::check, buffer, access);
  inst.args = {v};
  for (Value bound : access.bound) inst.args.push_back(bound);
  code().insts.push_back(std::move(inst));
}

void Builder::combine(int buffer, Value v, std::shared_ptr<const Reducer> reducer, const Access& access) {
  HD_ASSERT(type(v).shape == extents(access.coords), "combine of ", to_string(type(v)), " with ", access.coords.size(),
            " coordinates of other extents");
  Inst inst = this->access(Op::combine, buffer, access);
  inst.args = {v};
  for (Value bound : access.bound) inst.args.push_back(bound);
  inst.reducer = std::move(reducer);
  code().insts.push_back(std::move(inst));
}

std::vector<Value> Builder::reduce(std::span<const Value> args, int axis, std::shared_ptr<const Reducer> reducer,
                                   const Expr& guard, std::span<const Expr> coords) {
  HD_ASSERT(reducer && reducer->width() == args.size(), "reduce of ", args.size(), " tiles");
  Inst inst;
  inst.op = Op::reduce;
  inst.axis = static_cast<int16_t>(axis);
  inst.guard = guard;
  inst.coords = SmallVector<Expr, 4>(coords);
  inst.reducer = std::move(reducer);
  std::vector<Value> results;
  for (Value v : args) {
    HD_ASSERT(type(v).shape == type(args[0]).shape, "reduce of tiles of different shapes");
    inst.args.push_back(v);
    results.push_back(fresh(reduced_type(type(v), axis, level_)));
    inst.results.push_back(results.back());
  }
  code().insts.push_back(std::move(inst));
  return results;
}

std::vector<Value> Builder::scan(std::span<const Value> args, std::span<const Value> start, int axis,
                                 std::shared_ptr<const Reducer> reducer, const Expr& guard,
                                 std::span<const Expr> coords) {
  HD_ASSERT(reducer && reducer->width() == args.size(), "scan of ", args.size(), " tiles");
  HD_ASSERT(start.empty() || start.size() == args.size(), "scan that starts from ", start.size(), " values");
  Inst inst;
  inst.op = Op::scan;
  inst.axis = static_cast<int16_t>(axis);
  inst.guard = guard;
  inst.coords = SmallVector<Expr, 4>(coords);
  inst.reducer = std::move(reducer);
  std::vector<Value> results;
  for (Value v : args) {
    HD_ASSERT(type(v).shape == type(args[0]).shape, "scan of tiles of different shapes");
    inst.args.push_back(v);
    results.push_back(fresh(Type(type(v))));
  }
  for (size_t k = 0; k < start.size(); ++k) {
    inst.args.push_back(start[k]);
    results.push_back(fresh(reduced_type(type(args[k]), axis, level_)));
  }
  for (Value v : results) inst.results.push_back(v);
  code().insts.push_back(std::move(inst));
  return results;
}

Value Builder::packed_dot(Value a, Value b, Value acc) {
  Inst inst;
  inst.op = Op::packed_dot;
  inst.args = {a, b, acc};
  return append(std::move(inst), packed_dot_type(type(a), type(b), type(acc)));
}

void Builder::panel_dot(std::vector<Panel> panels, const Expr& steps, const Expr& goes_on) {
  Inst inst;
  inst.op = Op::panel_dot;
  inst.panels = std::move(panels);
  inst.extent = steps;
  inst.guard = goes_on;
  code().insts.push_back(std::move(inst));
}

std::vector<Value> Builder::matrix_dot(std::span<const Value> args, std::vector<Region> regions, const Expr& step,
                                       int pipeline, const Expr& before, const Type& type, size_t count) {
  Inst inst;
  inst.op = Op::matrix_dot;
  for (Value v : args) inst.args.push_back(v);
  inst.regions = std::move(regions);
  inst.var = step;
  inst.extent = step.is_var() ? step.extent() : Expr(1);
  inst.immediate = pipeline;
  inst.address = before;
  std::vector<Value> results;
  for (size_t k = 0; k < count; ++k) results.push_back(fresh(type));
  for (Value v : results) inst.results.push_back(v);
  code().insts.push_back(std::move(inst));
  return results;
}

void Builder::matrix_store(const Region& region, std::span<const Value> values) {
  Inst inst;
  inst.op = Op::matrix_store;
  inst.regions = {region};
  for (Value v : values) inst.args.push_back(v);
  code().insts.push_back(std::move(inst));
}

Value Builder::warp_dot(std::vector<Region> regions, const Expr& step, int pipeline, const Type& type) {
  Inst inst;
  inst.op = Op::warp_dot;
  inst.regions = std::move(regions);
  inst.var = step;
  inst.extent = step.is_var() ? step.extent() : Expr(1);
  inst.immediate = pipeline;
  return append(std::move(inst), type);
}

void Builder::copy(const Panel& to, const Panel& from, const Expr& count, const Expr& guard) {
  Inst inst;
  inst.op = Op::copy;
  inst.panels = {to, from};
  inst.extent = count;
  inst.guard = guard;
  code().insts.push_back(std::move(inst));
}

void Builder::copy_fence(int left) {
  Inst inst;
  inst.op = Op::copy_fence;
  inst.immediate = left;
  code().insts.push_back(std::move(inst));
}

Value Builder::load_matrix(int buffer, DType dtype, const Expr& address, bool transposed) {
  Inst inst;
  inst.op = Op::load_matrix;
  inst.buffer = buffer;
  inst.address = address;
  inst.axis = transposed ? 1 : 0;
  return append(std::move(inst), fragment_type(dtype));
}

std::vector<Value> Builder::mma(Value a, Value b, std::span<const Value> sums) {
  Inst inst;
  inst.op = Op::mma;
  inst.args = {a, b};
  std::vector<Value> results;
  for (Value v : sums) {
    inst.args.push_back(v);
    results.push_back(fresh(type(v)));
    inst.results.push_back(results.back());
  }
  code().insts.push_back(std::move(inst));
  return results;
}

Value Builder::dot(Value a, Value b, Value acc, int axis, const Expr& guard, std::span<const Expr> coords) {
  Inst inst;
  inst.op = Op::dot;
  inst.axis = static_cast<int16_t>(axis);
  inst.args = {a, b, acc};
  inst.guard = guard;
  inst.coords = SmallVector<Expr, 4>(coords);
  return append(std::move(inst), dot_type(type(a), type(b), type(acc), axis));
}

std::vector<Value> Builder::run_body(Body& body, const BodyCode<>& make) {
  bodies_.push_back(&body);
  try {
    body.results = make();
  } catch (...) {
    bodies_.pop_back();
    throw;
  }
  bodies_.pop_back();
  return body.results;
}

std::vector<Value> Builder::loop(const Expr& var, std::span<const Value> init,
                                 const BodyCode<std::span<const Value>>& body, int unroll) {
  Inst inst;
  inst.op = Op::loop;
  inst.var = var;
  inst.extent = var.is_var() ? var.extent() : Expr(1);
  inst.immediate = unroll;
  Body& code = inst.bodies.emplace_back();
  for (Value v : init) {
    inst.args.push_back(v);
    code.params.push_back(fresh(type(v)));
  }
  const std::vector<Value> params = code.params;
  std::vector<Value> next = run_body(code, [&] { return body(params); });
  HD_ASSERT(next.size() == init.size(), "loop carries ", init.size(), " values, its body gives ", next.size());
  std::vector<Value> results;
  for (size_t i = 0; i < next.size(); ++i) {
    HD_ASSERT(type(next[i]) == type(init[i]), "loop carries ", to_string(type(init[i])), ", its body gives ",
              to_string(type(next[i])));
    results.push_back(fresh(type(init[i])));
    inst.results.push_back(results.back());
  }
  this->code().insts.push_back(std::move(inst));
  return results;
}

std::vector<Value> Builder::branch(const Expr& condition, const BodyCode<>& then, const BodyCode<>& otherwise) {
  return branch_on(condition, {}, {}, then, otherwise);
}

std::vector<Value> Builder::branch_on(const Expr& condition, std::span<const Expr> binds, std::span<const Value> bound,
                                      const BodyCode<>& then, const BodyCode<>& otherwise) {
  Inst inst;
  inst.guard = condition;
  inst.binds.append(binds.begin(), binds.end());
  inst.args.append(bound.begin(), bound.end());
  return finish_branch(std::move(inst), then, otherwise);
}

std::vector<Value> Builder::branch_on(Value condition, const BodyCode<>& then, const BodyCode<>& otherwise) {
  HD_ASSERT(type(condition) == (Type{DType::boolean, {}}), "branch on ", to_string(type(condition)));
  Inst inst;
  inst.guard = Expr::index("v0", 2);
  inst.binds = {inst.guard};
  inst.args = {condition};
  return finish_branch(std::move(inst), then, otherwise);
}

std::vector<Value> Builder::finish_branch(Inst inst, const BodyCode<>& then, const BodyCode<>& otherwise) {
  inst.op = Op::branch;
  inst.bodies.resize(2);
  std::vector<Value> yes = run_body(inst.bodies[0], then);
  std::vector<Value> no = otherwise ? run_body(inst.bodies[1], otherwise) : std::vector<Value>();
  HD_ASSERT(yes.size() == no.size(), "the sides of a branch give ", yes.size(), " and ", no.size(), " values");
  std::vector<Value> results;
  for (size_t i = 0; i < yes.size(); ++i) {
    HD_ASSERT(type(yes[i]) == type(no[i]), "the sides of a branch give ", to_string(type(yes[i])), " and ",
              to_string(type(no[i])));
    results.push_back(fresh(type(yes[i])));
    inst.results.push_back(results.back());
  }
  code().insts.push_back(std::move(inst));
  return results;
}

void Builder::barrier() {
  Inst inst;
  inst.op = Op::barrier;
  code().insts.push_back(std::move(inst));
}

Value Builder::shuffle_xor(Value v, int mask) {
  Inst inst;
  inst.op = Op::shuffle_xor;
  inst.immediate = mask;
  inst.args = {v};
  return append(std::move(inst), type(v));
}

std::vector<Value> Builder::transpose(std::span<const Value> rows) {
  Inst inst;
  inst.op = Op::transpose;
  std::vector<Value> results;
  for (Value v : rows) {
    HD_ASSERT(type(v) == type(rows[0]), "transpose of vectors of different types");
    inst.args.push_back(v);
    results.push_back(fresh(type(v)));
    inst.results.push_back(results.back());
  }
  code().insts.push_back(std::move(inst));
  return results;
}

std::vector<Value> Builder::apply(const Reducer& reducer, std::span<const Value> left, std::span<const Value> right) {
  HD_ASSERT(left.size() == reducer.width() && right.size() == reducer.width());
  std::vector<Value> map(reducer.values.size(), kNoValue);
  for (size_t i = 0; i < left.size(); ++i) {
    map[reducer.combine.params[i]] = left[i];
    map[reducer.combine.params[left.size() + i]] = right[i];
  }
  for (const Inst& inst : reducer.combine.insts) {
    SmallVector<Value, 3> args;
    for (Value v : inst.args) args.push_back(map[v]);
    Value result;
    if (is_scalar_op(inst.op)) {
      result = op(scalar_op(inst.op), args);
    } else if (inst.op == Op::constant) {
      result = constant(inst.literal);
    } else {
      HD_ASSERT(inst.op == Op::cast || inst.op == Op::bitcast, name(inst.op), " in a reducer");
      DType to = reducer.values[inst.results[0]].dtype;
      result = inst.op == Op::cast ? cast(args[0], to) : bitcast(args[0], to);
    }
    map[inst.results[0]] = result;
  }
  std::vector<Value> results;
  for (Value v : reducer.combine.results) results.push_back(map[v]);
  return results;
}

void Builder::clone(const Inst& inst, std::vector<Value>& map, const Substitution& exprs) {
  Inst copy;
  copy.op = inst.op;
  copy.hint = inst.hint;
  copy.axis = inst.axis;
  copy.buffer = inst.buffer;
  copy.immediate = inst.immediate;
  copy.literal = inst.literal;
  copy.reducer = inst.reducer;
  copy.coords = inst.coords;
  copy.binds = inst.binds;
  copy.address = substitute(inst.address, exprs);
  copy.guard = substitute(inst.guard, exprs);
  copy.extent = substitute(inst.extent, exprs);
  copy.var = inst.var;
  copy.panels = inst.panels;
  for (Panel& panel : copy.panels) panel.address = substitute(panel.address, exprs);
  copy.regions = inst.regions;
  for (Region& region : copy.regions) {
    for (Expr& at : region.at) at = substitute(at, exprs);
    if (!region.is_gathered()) continue;
    region.offset = substitute(region.offset, exprs);
    region.guard = substitute(region.guard, exprs);
  }
  for (Value v : inst.args) copy.args.push_back(mapped(v, map));

  // A loop whose bound changed needs a variable of the new range; one that the caller renames gets that name.
  Substitution inner = exprs;
  if (inst.op == Op::loop && inst.var.is_var()) {
    Expr renamed = substitute(inst.var, exprs);
    if (!(renamed == inst.var) && renamed.is_var()) {
      copy.var = renamed;
    } else if (!(copy.extent == inst.extent)) {
      copy.var = Expr::index(inst.var.name(), copy.extent);
      inner.emplace_back(inst.var, copy.extent.is_const(1) ? Expr(0) : copy.var);  // as expressions are read
    }
  }
  // The body must not be reached through `copy` while nested clones run: they append to bodies_.back().
  for (const Body& from : inst.bodies) {
    Body to;
    for (Value v : from.params) {
      to.params.push_back(fresh(Type(values_[v])));
      record(map, v, to.params.back());
    }
    run_body(to, [&] {
      for (const Inst& i : from.insts) clone(i, map, inner);
      std::vector<Value> results;
      for (Value v : from.results) results.push_back(mapped(v, map));
      return results;
    });
    copy.bodies.push_back(std::move(to));
  }
  for (Value v : inst.results) {
    copy.results.push_back(fresh(Type(values_[v])));
    record(map, v, copy.results.back());
  }
  code().insts.push_back(std::move(copy));
}

}  // namespace heddle::kernel
