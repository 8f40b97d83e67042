// How a nest runs: which dimension becomes vectors, how far each is walked, what stays in registers.
#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "base/error.h"
#include "base/rounding.h"
#include "compile/simd/lowering.h"
#include "kernel/pass_util.h"

namespace heddle::simd {
namespace {

// Vectors of code that a nest without loops may take, and vectors of a tile worth keeping in registers.
constexpr int64_t kSmall = 8;

// Rows at least this large are prefetched, smaller ones overlap with their neighbours anyway; and by nests that
// compute at least this much per vector.
constexpr int64_t kPrefetchBytes = 2048;
constexpr int64_t kPrefetchCost = 16;
// Rows of a dot's factor at least so many bytes apart are prefetched so many rows early.
constexpr int64_t kFarApart = 1024, kPrefetchRows = 32;

// Rows of at least so many vectors are worth a start that aligns their stores.
constexpr int64_t kAlignedVectors = 8;

bool free_of(const Expr& e, std::span<const Expr> vars) {
  return std::ranges::none_of(vars, [&](const Expr& v) { return depends_on(e, v); });
}

// A condition free of coordinates under which `condition` holds for all of them.
std::optional<Expr> everywhere(const Expr& condition, std::span<const Expr> coordinates) {
  if (condition.kind() != ExprKind::Lt) return std::nullopt;
  Expr difference = condition.args()[0] - condition.args()[1];
  Substitution worst;
  for (const Expr& c : coordinates) {
    if (!c.is_var()) continue;
    std::optional<Linear> linear = linear_in(difference, c);
    if (!linear) return std::nullopt;
    worst.emplace_back(c, linear->coefficient > 0 ? c.extent() - 1 : Expr(0));
  }
  return lt(substitute(difference, worst), 0);
}

}  // namespace

std::optional<Expr> upper_limit(const Expr& condition, const Expr& coordinate) {
  if (condition.kind() != ExprKind::Lt) return std::nullopt;
  Expr difference = condition.args()[0] - condition.args()[1];
  std::optional<Linear> linear = linear_in(difference, coordinate);
  if (!linear || linear->coefficient <= 0) return std::nullopt;
  return ceildiv(-linear->rest, linear->coefficient);
}

void keep_common(std::optional<std::vector<Expr>>& common, const std::vector<Expr>& parts) {
  if (!common)
    common = parts;
  else
    std::erase_if(*common, [&](const Expr& e) { return !contains(parts, e); });
}

bool Nest::has(Op op) const {
  return std::ranges::any_of(roots, [&](const Inst* root) { return root->op == op; });
}

Expr Lowering::coordinate(int dim, int64_t size) {
  if (size == 1) return 0;
  Expr& known = coordinates_[{dim, size}];
  if (!known.is_var()) known = Expr::index(text("d", dim), size);
  return known;
}

std::vector<Expr> Lowering::coordinates(const Dims& shape) {
  std::vector<Expr> all;
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1) all.push_back(coordinate(static_cast<int>(d), shape[d]));
  return all;
}

Expr Lowering::canonical(const Expr& e, std::span<const Expr> coords) {
  Substitution names;
  for (size_t d = 0; d < coords.size(); ++d)
    names.emplace_back(coords[d], coordinate(static_cast<int>(d), coords[d].is_var() ? coords[d].extent().value() : 1));
  return substitute(e, names);
}

std::vector<const Inst*> Lowering::leaves(const Nest& nest, std::vector<Value>* held) {
  std::vector<const Inst*> out;
  std::unordered_set<Value> seen;
  std::function<void(Value)> visit = [&](Value v) {
    const Rep& rep = reps_[v];
    if (rep.kind == Rep::Scalar || !seen.insert(v).second) return;
    if (rep.kind == Rep::Registers || usable(rep, nest)) {
      if (held) held->push_back(v);
      return;
    }
    const Inst* def = defs_[v];
    HD_ASSERT(def, "value %", v, " has no representation");
    for (Value arg : def->args) visit(arg);
    out.push_back(def);
  };
  for (const Inst* root : nest.roots)
    for (Value v : root->args) visit(v);
  for (const Save& save : nest.saves) visit(save.value);
  return out;
}

double access_cost(const Kernel& kernel, const Inst& inst, int dim, int lanes) {
  // Gathers are slow, scatters slower.
  if (inst.op == Op::check) return 1.0;
  const double apart = (writes_memory(inst.op) ? 2.0 : 1.2) * lanes;
  if (inst.coords.size() <= static_cast<size_t>(dim)) return 0.3;
  const Expr& c = inst.coords[dim];
  // A value that varies along the dimension makes the access a gather.
  for (Value v : kernel::bound(inst)) {
    const Dims& shape = kernel.values[v].shape;
    if (!shape.empty() && shape[dim] != 1) return apart;
  }
  if (!c.is_var() || !depends_on(inst.address, c)) return 0.3;
  std::optional<Linear> linear = linear_in(inst.address, c);
  if (!linear) return apart;
  const int64_t stride = std::abs(linear->coefficient);
  if (stride == 1) return linear->coefficient == 1 ? 1.0 : 2.0;
  // Loads of elements close together take what lies between with them.
  return inst.op == Op::load && stride <= 4 ? std::min(apart, 2.0 * static_cast<double>(stride)) : apart;
}

// Lanes that fill a vector register with the type most of the work is in.
int Lowering::natural_width(const Nest& nest, std::span<const Inst* const> leaves) const {
  std::vector<Value> all;
  auto add = [&](const auto& values) { all.insert(all.end(), values.begin(), values.end()); };
  bool moves = nest.axis < 0;  // and computes nothing
  for (const Inst* inst : leaves) {
    moves &= inst->op == Op::load;
    add(inst->results);
  }
  for (const Inst* root : nest.roots) {
    add(root->args);
    add(root->results);
  }
  for (const Save& save : nest.saves) all.push_back(save.value);
  int widest = 1, widest_float = 0;
  for (Value v : all) {
    const DType dtype = in_.values[v].dtype;
    widest = std::max(widest, size_of(dtype));
    if (is_float(dtype)) widest_float = std::max(widest_float, size_of(dtype));
  }
  // Small floats are computed in f32, and indices of 64 bits beside narrower data are few.
  int bytes = widest_float && !moves ? std::max(widest_float, 4) : widest;
  return std::max(1, target_.vector_bytes / bytes);
}

// What an element of the nest costs if vectors run along the dimension.
double Lowering::cost_along(const Nest& nest, std::span<const Inst* const> inner, std::span<const Value> held, int d) {
  const int lanes = static_cast<int>(std::min<int64_t>(nest.shape[d], nest.width));
  double cost = 0;
  for (const Inst* inst : inner) {
    if (inst->op != Op::load)
      cost += static_cast<double>(op_cost(inst->op));
    else if (transposed_along(nest, *inst, d))
      cost += 1 + std::log2(lanes);
    else
      cost += access_cost(in_, *inst, d, lanes);
  }
  for (const Inst* root : nest.roots) {
    if (writes_memory(root->op)) {
      cost += access_cost(in_, *root, d, lanes);
    } else {
      cost += static_cast<double>(root->results.size());
      if (d == nest.axis) cost += 8.0 * lanes / static_cast<double>(nest.shape[d]);
      if (d == nest.axis && root->op == Op::scan) cost += 12.0 * static_cast<double>(root->results.size() / 2);
    }
  }
  for (Value v : held) {
    const Rep& rep = reps_[v];
    const int64_t size = in_.values[v].shape[d];
    if (rep.kind == Rep::Memory) cost += size == 1 ? 0.3 : rep.strides[d] == 1 ? 1.0 : 1.2 * lanes;
    if (rep.kind == Rep::Registers && size != 1 && rep.layout.vector_dim != d) cost += 2.0 * lanes;
  }
  return cost / lanes;
}

void Lowering::plan(Nest& nest, const Layout* wanted) {
  const int rank = static_cast<int>(nest.shape.size());
  std::vector<Value> held;
  std::vector<const Inst*> inner = leaves(nest, &held);
  const int natural = natural_width(nest, inner);
  nest.width = natural;

  // Tiles in registers decide the vector dimension, unless another one is much cheaper; those that do not fit the
  // decision move to memory.
  constexpr double kMuchCheaper = 2;
  const Layout* decided = wanted;
  for (Value v : held)
    if (!decided && reps_[v].kind == Rep::Registers && reps_[v].layout.vector_dim >= 0) decided = &reps_[v].layout;
  if (decided) {
    nest.vector_dim = decided->vector_dim;
    nest.width = decided->width;
  }
  if (!wanted) {
    double best = decided ? cost_along(nest, inner, held, decided->vector_dim) / kMuchCheaper : 0;
    for (int d = 0; d < rank; ++d) {
      if (nest.shape[d] == 1 || (decided && d == decided->vector_dim)) continue;
      const double cost = cost_along(nest, inner, held, d);
      if (nest.vector_dim >= 0 && cost > best) continue;
      best = cost;
      nest.vector_dim = d;
      nest.width = natural;
    }
  }
  if (nest.vector_dim >= 0 && nest.shape[nest.vector_dim] == 1) nest.vector_dim = -1;
  if (nest.vector_dim < 0) nest.width = 1;

  SmallVector<bool, 4> fixed(rank, wanted != nullptr);
  for (Value v : held) {
    if (reps_[v].kind != Rep::Registers) continue;
    const Layout& layout = reps_[v].layout;
    bool fits = true;
    int64_t copies = 1;
    for (int d = 0; d < rank; ++d) {
      if (layout.shape[d] == 1) continue;
      copies *= nest.vector_dim == d ? layout.steps(d) : layout.shape[d];
      fits &= (d == nest.vector_dim) == (d == layout.vector_dim);
      if (d == layout.vector_dim) fits &= layout.width == nest.width;
    }
    // A long reduction over vectors of the tile's own dimension wants loops, not one copy of code per row.
    if (nest.axis >= 0 && nest.vector_dim == nest.axis && copies > 2 * kSmall) fits = false;
    if (!fits || copies > target_.vector_registers * 2) {
      spill(v);
      continue;
    }
    for (int d = 0; d < rank; ++d) fixed[d] = fixed[d] || layout.shape[d] != 1;
  }

  plan_bounds(nest, fixed);
  inner = leaves(nest);
  int64_t cost = std::ssize(nest.roots), floats = 0;
  for (const Inst* inst : inner) {
    cost += op_cost(inst->op);
    if (is_float(in_.values[inst->results[0]].dtype)) floats += op_cost(inst->op);
  }
  nest.waits = 2 * floats > cost;
  for (int d = 0; d < rank; ++d) {
    Walk& walk = nest.walks.emplace_back();
    walk.size = nest.shape[d];
    walk.whole = fixed[d] || nest.shape[d] == 1;
    walk.step = d == nest.vector_dim ? nest.width : 1;
    walk.bound = nest.shape[d];
    const Expr c = coordinate(d, nest.shape[d]);
    for (const Expr& limit : nest.bounds)
      if (c.is_var() && depends_on(limit, c)) walk.bound = min(walk.bound, *upper_limit(limit, c));
    if (walk.bound.lo() < 0) walk.bound = max(walk.bound, 0);
  }
  plan_walks(nest, cost);
  if (!wanted) plan_transposed(nest, inner);
  plan_versions(nest, inner);
  plan_alignment(nest);
}

// Conditions that all roots share: those on a single coordinate end its walk early, those on none skip the nest.
void Lowering::plan_bounds(Nest& nest, const SmallVector<bool, 4>& fixed) {
  nest.known.clear();
  if (nest.complete) return;
  std::optional<std::vector<Expr>> common;
  for (const Inst* root : nest.roots) {
    std::vector<Expr> parts = conjuncts(root->guard);
    for (Expr& part : parts) part = canonical(part, root->coords);
    std::erase_if(parts, [&](const Expr& part) { return !free_of(part, root->binds); });
    keep_common(common, parts);
  }
  const std::vector<Expr> coordinates = this->coordinates(nest.shape);
  for (const Expr& e : common.value_or(std::vector<Expr>{})) {
    if (free_of(e, coordinates)) {
      if (nest.axis >= 0) continue;
      nest.condition = logical_and(nest.condition, e);
      nest.known.push_back(e);
      nest.bounds.push_back(e);
      continue;
    }
    for (size_t d = 0; d < nest.shape.size(); ++d) {
      if (fixed[d] || nest.shape[d] == 1 || (nest.axis >= 0 && nest.axis != static_cast<int>(d))) continue;
      std::optional<Expr> limit = upper_limit(e, coordinate(static_cast<int>(d), nest.shape[d]));
      if (!limit || !free_of(*limit, coordinates)) continue;
      nest.known.push_back(e);
      nest.bounds.push_back(e);
      break;
    }
  }
}

void Lowering::plan_walks(Nest& nest, int64_t cost) {
  const int rank = static_cast<int>(nest.shape.size());
  auto steps = [&](int d) { return pieces(nest.shape[d], nest.walks[d].step); };
  const bool unbounded = std::ranges::all_of(nest.walks, [](const Walk& w) { return w.bound.is_const(w.size); });
  if (unbounded && nest.layout().size() <= kSmall)
    for (Walk& w : nest.walks) w.whole = true;

  if (nest.axis < 0) {
    // A few vectors per iteration, along the vector dimension first.
    const int64_t longest = nest.waits && target_.vector_registers >= 32 ? 400 : 60;
    int64_t wanted = cost <= 12 ? 4 : cost <= longest ? 2 : 1;
    SmallVector<int, 4> order;
    if (nest.vector_dim >= 0) order.push_back(nest.vector_dim);
    for (int d = rank - 1; d >= 0; --d)
      if (d != nest.vector_dim) order.push_back(d);
    for (int d : order) {
      if (nest.walks[d].whole) {
        wanted /= std::max<int64_t>(1, steps(d));
      } else {
        nest.walks[d].unroll = std::max<int64_t>(1, std::min(wanted, steps(d)));
        wanted /= std::max<int64_t>(1, nest.walks[d].unroll);
      }
      wanted = std::max<int64_t>(1, wanted);
    }
    return;
  }

  // Registers for one accumulator of every result.
  int64_t weight = 0;
  for (const Inst* root : nest.roots)
    for (Value v : final_results(*root))
      weight += std::max<int64_t>(1, nest.width * size_of(in_.values[v].dtype) / target_.vector_bytes);
  weight = std::max<int64_t>(1, weight);
  const bool horizontal = nest.axis == nest.vector_dim;
  const bool dot = nest.has(Op::dot);
  const int64_t registers = std::max<int64_t>(1, (target_.vector_registers - 4) / weight);
  int64_t results = 1;
  bool forced = false;
  for (int d = 0; d < rank; ++d) {
    if (d == nest.axis) continue;
    results *= steps(d);
    forced |= nest.walks[d].whole && nest.shape[d] != 1;
  }
  int64_t budget = horizontal ? (dot ? std::min<int64_t>(16, registers) : 4) : registers;
  if (results <= budget || forced) {
    nest.in_registers = true;
    for (int d = 0; d < rank; ++d)
      if (d != nest.axis) nest.walks[d].whole = true;
  }
  int64_t accumulators = 1;
  if (nest.in_registers) {
    accumulators = results;
  } else {
    int64_t left = horizontal && !dot ? 1 : budget;
    auto take = [&](int d, int64_t most) {
      int64_t n = std::max<int64_t>(1, std::min({steps(d), most, left}));
      int64_t rounds = pieces(steps(d), n);
      n = pieces(steps(d), rounds);  // 16 as 8 + 8, not 14 + 2
      nest.walks[d].unroll = n;
      accumulators *= n;
      left /= n;
    };
    if (!horizontal) take(nest.vector_dim, dot ? 4 : 16);
    for (int d = rank - 1; d >= 0; --d)
      if (d != nest.axis && d != nest.vector_dim) take(d, horizontal ? 4 : 24);
  }
  Walk& along = nest.walks[nest.axis];
  if (nest.has(Op::scan)) {  // one accumulator each, as every element needs the one before
    if (!along.whole && along.bound.is_const(along.size) && steps(nest.axis) * accumulators <= kSmall)
      along.whole = true;
    along.unroll = std::min<int64_t>(horizontal && cost <= 60 ? 4 : cost <= 20 ? 2 : 1, steps(nest.axis));
    return;
  }
  if (!along.whole && along.bound.is_const(along.size) && steps(nest.axis) <= kSmall &&
      steps(nest.axis) * accumulators <= 4 * kSmall)
    along.whole = true;
  if (along.whole) {
    nest.sets = static_cast<int>(accumulators >= 4 ? 1 : std::min<int64_t>(2, steps(nest.axis)));
    return;
  }
  int64_t parallel = cost <= 16 ? 4 : 2;
  if (accumulators >= 8) parallel = cost <= 40 && !horizontal ? 2 : 1;
  if (accumulators > registers / 2 && !horizontal && !dot) parallel = 1;
  along.unroll = std::min(parallel, steps(nest.axis));
  nest.sets =
      static_cast<int>(accumulators * along.unroll * weight > registers || accumulators >= 8 ? 1 : along.unroll);
}

// Guards that remain inside the loops of a reduction are tested once for the whole tile where that is possible.
void Lowering::plan_versions(Nest& nest, std::span<const Inst* const> leaves) {
  if (nest.axis < 0) return;
  const std::vector<Expr> coordinates = this->coordinates(nest.shape);
  Expr all = 1;
  auto look = [&](const Inst& inst) {
    for (const Expr& part : conjuncts(inst.guard)) {
      Expr c = canonical(part, inst.coords);
      if (!free_of(c, inst.binds) || nest.knows(c)) continue;
      if (contains(nest.full, c)) continue;
      std::optional<Expr> test = everywhere(c, coordinates);
      if (!test || test->is_const(0)) continue;
      nest.full.push_back(c);
      all = logical_and(all, *test);
    }
  };
  for (const Inst* inst : leaves)
    if (inst->op == Op::load) look(*inst);
  for (const Inst* root : nest.roots) look(*root);
  if (!nest.full.empty()) nest.full_guard = all;
}

// A row that several nests read comes from memory in the first of them and from the cache in the others. While one of
// those computes, memory would idle: it fetches the next row meanwhile. Light nests would only wait for the fetches.
void Lowering::plan_prefetch(Nest& nest) {
  if (nest.has(Op::dot)) return plan_dot_prefetch(nest);
  if (rounds_.empty()) return;
  std::vector<const Inst*> inner = leaves(nest);
  int64_t cost = 0;
  for (const Inst* inst : inner) cost += op_cost(inst->op);
  for (const Inst* inst : inner) {
    if (inst->op != Op::load || in_.buffers[inst->buffer].space == kernel::Space::Shared) continue;
    auto [read, first] = read_.try_emplace(inst, false);
    bool& fetched = read->second;
    if (first || fetched || cost < kPrefetchCost || !inst->binds.empty()) continue;
    const Type& type = in_.values[inst->results[0]];
    const int64_t bytes = type.numel() * size_of(type.dtype);
    if (bytes < kPrefetchBytes || bytes > target_.l2_bytes / 4) continue;
    std::optional<Linear> next = linear_in(inst->address, rounds_.back());
    if (!next || next->coefficient == 0 || std::abs(next->coefficient) > INT32_MAX) continue;
    nest.prefetch.emplace(inst, static_cast<int32_t>(next->coefficient));
    fetched = true;
  }
}

// Rows of a factor that was not packed lie too far apart for the machine's own prefetching.
void Lowering::plan_dot_prefetch(Nest& nest) {
  for (const Inst* inst : leaves(nest)) {
    if (inst->op != Op::load || !inst->binds.empty()) continue;
    const kernel::Buffer& buffer = in_.buffers[inst->buffer];
    const int64_t size = size_of(buffer.dtype);
    if (buffer.space == kernel::Space::Shared || buffer.size.hi() * size < target_.l2_bytes) continue;
    std::optional<Linear> step = linear_in(inst->address, inst->coords[nest.axis]);
    if (!step || std::abs(step->coefficient) * size < kFarApart) continue;
    const int64_t distance = step->coefficient * kPrefetchRows;
    if (std::abs(distance) <= INT32_MAX) nest.prefetch.emplace(inst, static_cast<int32_t>(distance));
  }
}

// Stores that bypass the caches must be aligned. Where rows start anywhere, the walk along each of them begins with as
// many elements as lie before the first aligned place.
void Lowering::plan_alignment(Nest& nest) {
  if (nest.axis >= 0 || nest.vector_dim < 0 || nest.transposed_dim >= 0 || nest.walks[nest.vector_dim].whole) return;
  if (nest.shape[nest.vector_dim] < kAlignedVectors * nest.width) return;
  for (size_t d = 0; d < nest.walks.size(); ++d)
    if (nest.walks[d].whole && nest.shape[d] != 1) return;
  for (const Inst* root : nest.roots) {
    if (root->op != Op::store || root->hint != kernel::Hint::Stream || !root->binds.empty()) continue;
    const Expr& along = root->coords[nest.vector_dim];
    std::optional<Linear> linear = linear_in(root->address, along);
    if (!linear || linear->coefficient != 1 || linear->rest.multiple() % nest.width == 0) continue;
    nest.aligned = root;
    // One head for all rows of an iteration: one row each.
    for (size_t d = 0; d < nest.walks.size(); ++d)
      if (static_cast<int>(d) != nest.vector_dim) nest.walks[d].unroll = 1;
    return;
  }
}

void Lowering::spill(Value v) {
  const Rep held = reps_[v];
  const Layout& layout = held.layout;
  Rep rep = memory_rep(v, layout.vector_dim);
  std::vector<std::vector<Part>> parts;
  for (int d = 0; d < static_cast<int>(layout.shape.size()); ++d)
    parts.push_back(chunks(layout.shape[d], d == layout.vector_dim ? layout.width : 1, depth()));
  const std::vector<Position> at = positions(parts, layout.vector_dim, depth());
  for (size_t i = 0; i < at.size(); ++i) store_at(rep, held.registers[i], at[i]);
  set_rep(v, std::move(rep));
}

}  // namespace heddle::simd
