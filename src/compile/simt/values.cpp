// Lowering, the part that finds values: which points a thread walks over, the value of a tile there, and the homes of
// tiles in shared memory.
#include <algorithm>

#include "base/error.h"
#include "compile/simt/lowering.h"
#include "kernel/pass_util.h"

namespace heddle::simt {

using kernel::Builder;
using kernel::kNoValue;

size_t Lowering::KeyHash::operator()(const Key& key) const {
  size_t h = static_cast<size_t>(key.value) * 0x9e3779b97f4a7c15u;
  for (const Expr& c : key.coords) h = (h ^ c.hash()) * 0x100000001b3u;
  return h;
}

Expr Lowering::lane(const Layout& layout) {
  if (layout.lanes == 1) return 0;
  auto [it, fresh] = lane_vars_.try_emplace(layout.lanes);
  if (fresh) it->second = Expr::index("lane", layout.lanes);
  return it->second;
}

Expr Lowering::lane_in(std::span<const Expr> exprs) const {
  for (const Expr& e : exprs)
    for (const auto& [lanes, var] : lane_vars_)
      if (depends_on(e, var)) return var;
  return 0;
}

Lowering::Point Lowering::point(const Layout& layout, const Dims& dims, const SmallVector<Expr, 4>& registers) {
  Point p{registers, {}};
  for (int d = 0; d < static_cast<int>(dims.size()); ++d) {
    p.coords.push_back(dims[d] == 1 ? Expr(0) : coordinate(layout, d, thread_, registers[d], lane(layout)));
  }
  return p;
}

// All points of the dimensions that are not rolled; `registers` holds the loop variables of those that are.
std::vector<Lowering::Point> Lowering::points(const Layout& layout, const Dims& dims,
                                              const SmallVector<Expr, 4>& registers) {
  std::vector<SmallVector<Expr, 4>> all = {registers};
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1 || layout.dims[d].rolled) continue;
    std::vector<SmallVector<Expr, 4>> longer;
    for (const auto& start : all)
      for (int64_t r = 0; r < layout.dims[d].registers; ++r) longer.emplace_back(start)[d] = r;
    all = std::move(longer);
  }
  std::vector<Point> result;
  for (const auto& r : all) result.push_back(point(layout, dims, r));
  return result;
}

void Lowering::over_rolled(const Layout& layout, const Dims& dims,
                           const std::function<void(std::span<const Point>)>& body) {
  SmallVector<Expr, 4> registers(dims.size(), 0);
  std::function<void(size_t)> next = [&](size_t d) {
    while (d < dims.size() && (dims[d] == 1 || !layout.dims[d].rolled)) ++d;
    if (d == dims.size()) return body(points(layout, dims, registers));
    register_loop(layout.dims[d].registers, {}, 0, [&](const Expr& r, std::span<const Value>) {
      registers[d] = r;
      next(d + 1);
    });
  };
  next(0);
}

std::vector<Value> Lowering::register_loop(int64_t count, std::span<const Value> init, int unroll,
                                           const kernel::BodyCode<const Expr&, std::span<const Value>>& body) {
  Expr r = Expr::index("r" + std::to_string(register_loops_.size()), count);
  register_loops_.push_back(r);
  return builder_->loop(
      r, init, [&](std::span<const Value> carried) { return scoped([&] { return body(r, carried); }); }, unroll);
}

std::vector<Value> Lowering::scoped(const kernel::BodyCode<>& code) {
  scopes_.emplace_back();
  std::vector<Value> results = code();
  scopes_.pop_back();
  return results;
}

// Whether coordinates lie in the tile. The lanes of a vector lie in it together.
Expr Lowering::inside(const Coords& coords, const Dims& dims) const {
  Expr result = 1;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    Expr var = lane_in(coords[d]);
    result = logical_and(result, lt(var.is_var() ? substitute(coords[d], {{var, 0}}) : coords[d], dims[d]));
  }
  return result;
}

Value Lowering::at(Value v, const Coords& coords) {
  const Dims& dims = shape(v);
  Key key{v, {}};
  for (size_t d = 0; d < dims.size(); ++d) key.coords.push_back(dims[d] == 1 ? Expr(0) : coords[d]);
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (auto found = scope->find(key); found != scope->end()) return found->second;
  }
  const ValuePlan& plan = plan_.values[v];
  Value result;
  if (plan.defined) {
    HD_ASSERT(homes_[v] >= 0, "value ", v, " of kernel ", tile_.name, " is asked for where no thread holds it");
    result = load_shared(homes_[v], home_address(v, key.coords), inside(key.coords, dims));
  } else {
    result = compute(*plan.def, key.coords, dims);
  }
  scopes_.back().emplace(std::move(key), result);
  return result;
}

Value Lowering::compute(const Inst& inst, const Coords& coords, const Dims& dims) {
  Builder& b = *builder_;
  if (kernel::is_scalar_op(inst.op)) {
    SmallVector<Value, 3> args;
    for (Value v : inst.args) args.push_back(at(v, coords));
    return b.op(kernel::scalar_op(inst.op), args);
  }
  DType dtype = tile_.values[inst.results[0]].dtype;
  switch (inst.op) {
    case Op::constant: return constants_.emplace(b.constant(inst.literal), inst.literal).first->first;
    case Op::cast: return b.cast(at(inst.args[0], coords), dtype);
    case Op::bitcast: return b.bitcast(at(inst.args[0], coords), dtype);
    case Op::index: return index_of(dtype, substitute(inst.address, places(inst, coords)), inst, coords);
    case Op::load: {
      Value result = b.load(inst.buffer, dtype, access(inst, coords, dims, 1, false));
      if (auto found = plan_.same_element.find(&inst); found != plan_.same_element.end()) tag(found->second + 1);
      return result;
    }
    default: HD_ASSERT(false, kernel::name(inst.op), " cannot be computed again"); return kNoValue;
  }
}

// The access of `inst` at coordinates, where also `guard` holds. It is one of a vector if anything differs by lane, or
// if `lanes` asks for it.
Builder::Access Lowering::access(const Inst& inst, const Coords& coords, const Dims& dims, const Expr& guard,
                                 bool lanes) {
  const Substitution where = places(inst, coords);
  Builder::Access result{.address = substitute(inst.address, where), .binds = inst.binds, .hint = inst.hint};
  result.guard = logical_and(logical_and(inside(coords, dims), guard), substitute(inst.guard, where));
  if (shift_) result.guard = logical_and(result.guard, shift_->inside);
  Expr lane = lane_in(coords);
  result.guard = without_lane(result.guard, lane);
  for (Value v : kernel::bound(inst)) result.bound.push_back(at(v, coords));
  if (lane.is_var()) {
    lanes |= depends_on(result.address, lane) || depends_on(result.guard, lane);
    for (Value v : result.bound) lanes |= !builder_->type(v).shape.empty();
    if (lanes) {
      result.coords.push_back(lane);
      for (Value& v : result.bound) v = widen(v, lane);
    }
  }
  return result;
}

Substitution Lowering::places(const Inst& inst, const Coords& coords) const {
  Substitution where;
  for (size_t d = 0; d < inst.coords.size(); ++d) where.emplace_back(inst.coords[d], coords[d]);
  if (shift_) where.emplace_back(shift_->var, shift_->by);
  return where;
}

Value Lowering::index_of(DType dtype, const Expr& e, const Inst& inst, const Coords& coords) {
  Expr lane = lane_in(coords);
  SmallVector<Value, 1> bound;
  bool lanes = lane.is_var() && depends_on(e, lane);
  for (Value v : kernel::bound(inst)) {
    bound.push_back(at(v, coords));
    lanes |= !builder_->type(bound.back()).shape.empty();
  }
  SmallVector<Expr, 1> vector;
  if (lanes) {
    vector.push_back(lane);
    for (Value& v : bound) v = widen(v, lane);
  }
  return builder_->index(dtype, e, vector, inst.binds, bound);
}

// A scalar becomes a vector of equal lanes where `lane` is a variable.
Value Lowering::widen(Value v, const Expr& lane) {
  if (!lane.is_var() || !builder_->type(v).shape.empty()) return v;
  const Dims lanes = {lane.extent().value()};
  if (auto found = constants_.find(v); found != constants_.end()) return builder_->constant(found->second, lanes);
  return builder_->broadcast(v, lanes);
}

Expr Lowering::lane_of(const Layout& layout, const Dims& dims) {
  return has_lanes(layout, dims) ? lane(layout) : Expr(0);
}

int Lowering::allocate(const char* name, DType dtype, int64_t size) {
  auto fits = [&](int buffer) { return out_.buffers[buffer].dtype == dtype; };
  if (const auto spare = std::ranges::find_if(spare_, fits); spare != spare_.end()) {
    const int found = *spare;
    spare_.erase(spare);
    out_.buffers[found].size = max(out_.buffers[found].size, size);
    return found;
  }
  int id = static_cast<int>(out_.buffers.size());
  out_.buffers.push_back({text(name, id), dtype, kernel::Space::Shared, size});
  return id;
}

int Lowering::home(Value v) {
  if (homes_[v] >= 0) return homes_[v];
  const kernel::Type& type = tile_.values[v];
  const int64_t rows = type.shape.empty() ? 1 : type.numel() / type.shape.back();
  return homes_[v] = allocate("tile", type.dtype, rows * home_row(v));
}

// Rows of an odd number of words lie in different banks at each column.
int64_t Lowering::home_row(Value v) const {
  const Dims& dims = shape(v);
  if (dims.empty()) return 1;
  constexpr int64_t kWord = 4;
  return dims.back() + (plan_.values[v].transposed ? std::max<int64_t>(1, kWord / size_of(tile_.values[v].dtype)) : 0);
}

Expr Lowering::home_address(Value v, const Coords& coords) const {
  const Dims& dims = shape(v);
  Expr address = 0;
  for (size_t d = 0; d < dims.size(); ++d)
    address = address * (d + 1 == dims.size() ? home_row(v) : dims[d]) + (dims[d] == 1 ? Expr(0) : coords[d]);
  return address;
}

// Of shared memory, at an address that may speak of lanes.
Builder::Access Lowering::shared_access(const Expr& address, const Expr& guard) const {
  Builder::Access access{address, guard};
  if (const Expr lane = lane_in(address); lane.is_var()) access.coords = {lane};
  return access;
}

Value Lowering::load_shared(int buffer, const Expr& address, const Expr& guard) {
  return builder_->load(buffer, out_.buffers[buffer].dtype, shared_access(address, guard));
}

void Lowering::store_shared(int buffer, const Expr& address, Value v, const Expr& guard, int id) {
  v = widen(v, lane_in(address));
  builder_->store(buffer, v, shared_access(address, guard));
  tag(id);
}

void Lowering::store_home(int buffer, Value like, std::span<const Point> where, std::span<const Value> values, int id) {
  const Dims& dims = shape(like);
  Expr owns = owner(layout(like), dims, thread_);
  for (size_t i = 0; i < where.size(); ++i) {
    store_shared(buffer, home_address(like, where[i].coords), values[i],
                 logical_and(owns, inside(where[i].coords, dims)), id);
  }
}

void Lowering::deliver(Value v, std::span<const Point> where, std::span<const Value> values, int id) {
  const ValuePlan& plan = plan_.values[v];
  if (!plan.shared) {
    for (size_t i = 0; i < where.size(); ++i) scopes_.back()[{v, where[i].coords}] = values[i];
  }
  if (plan.shared || plan.copied) store_home(home(v), v, where, values, id);
}

}  // namespace heddle::simt
