// Contractions on a SIMT machine's matrix unit, at tile level: one instruction for the whole sum, factors that must be
// packed first, results that leave as tiles, and persistent blocks.
#include "compile/tile/tiler.h"

namespace heddle {

// The part of the matrix at a place; along the summed axis it moves with `step`.
kernel::Region Tiler::region_at(size_t s, const MatrixView& view, const Place& p) {
  kernel::Region region{
      .buffer = view.buffer, .offset = view.offset, .strides = view.strides, .transposed = view.transposed};
  for (size_t i : view.axes) {
    region.extents.push_back(axis(s, i).extent);
    region.at.push_back(p.base[i]);
  }
  if (view.apart > 0) {
    Substitution block;
    for (size_t i = 0; i < outer_; ++i)
      if (axis(s, i).var.is_var()) block.emplace_back(axis(s, i).var, p.base[i]);
    region.extents.push_back(view.position.hi() + 1);
    region.strides.push_back(view.apart);
    region.at.push_back(substitute(view.position, block));
  }
  if (!view.is_gathered()) return region;
  Substitution to;
  for (size_t i = 0; i < axis_count(s); ++i) {
    const auto dimension = std::ranges::find(view.axes, i);
    if (dimension != view.axes.end()) region.coords.push_back(0);
    if (axis(s, i).var.is_var() && dimension == view.axes.end()) to.emplace_back(axis(s, i).var, p.base[i]);
  }
  for (size_t d = 0; d < view.axes.size(); ++d) {
    region.coords[d] = Expr::index(d == 0 ? "x" : "y", region.extents[d]);
    if (axis(s, view.axes[d]).var.is_var()) to.emplace_back(axis(s, view.axes[d]).var, region.coords[d]);
  }
  region.offset = substitute(view.offset, to);
  region.guard = substitute(view.guard, to);
  return region;
}

Level Tiler::unit_level(size_t s) const {
  const bool warps = by_warps(s);
  const Value factor = *unit_factor(loops_, stage(s), *find_contraction(loops_, stage(s)), 1, warps);
  return {static_cast<int>(outer_ + stage(s).kept), unit_depth(dtype_of(factor), warps)};
}

std::vector<Tiler::Value> Tiler::matrix_dot(size_t s, const Place& p, std::vector<Value> before) {
  const Contraction c = *find_contraction(loops_, stage(s));
  const Level level = unit_level(s);
  const auto* unit = as<MatrixContraction>(s);
  const bool warps = by_warps(s);
  // A left factor in registers has all tiles; what is outside is 0 there.
  const bool held = in_registers() && reduces_common(s);
  const Expr step = held ? counter(schedule_.chunks->size / level.step) : loop_variable(s, p, level);
  const Place at = step_into(p, level, step);
  std::vector<kernel::Region> regions;
  for (int operand : {0, 1}) {
    if (held && operand == 0) continue;
    auto packed = matrices_.find(operand);
    auto direct = [&] { return *factor_view(loops_, stage(s), c, operand, warps); };
    regions.push_back(region_at(s, packed != matrices_.end() ? packed->second : direct(), at));
    if (in_registers() && operand == 0) regions.back().stays = staying_steps(stage(s).inner.back()) > 0;
  }
  Expr taken = 0;
  if (!turn_.is_const(0)) taken = turn_ * (step.is_var() ? step.extent() : Expr(1));
  kernel::Type type{dtype_of(stage(s).results[0]), dims(at, result_axes(s))};
  const auto pipeline = static_cast<int>(unit ? unit->pipeline : as<NestedContraction>(s)->pipeline);
  if (!in_registers()) {
    std::vector<Value> sums;
    if (warps)
      sums = {builder_->warp_dot(std::move(regions), step, pipeline, type)};
    else
      sums = builder_->matrix_dot({}, std::move(regions), step, pipeline, taken, type);
    return before.empty() ? sums : builder_->apply(*stage(s).reducer, before, sums);
  }
  for (Value& v : before) v = spread(v, type.shape);
  if (held) before.push_back(matrix_left(s, p, c.a, loops_.buffers[regions[0].buffer].dtype));
  std::vector<Value> sums = builder_->matrix_dot(before, std::move(regions), step, pipeline, taken, type);
  if (auto ring = rings_.find(s); ring != rings_.end()) builder_->code().insts.back().buffer = ring->second;
  return sums;
}

// The factor at the whole place, as narrow numbers that it is made of.
Tiler::Value Tiler::matrix_left(size_t s, const Place& p, Value factor, DType narrow) {
  Instance instance = instance_at(s, p);
  Value v = builder_->cast(value(factor, instance), narrow);
  const std::vector<bool> reduced = reduced_axes(s);
  std::vector<bool> used = reduced;
  std::fill(used.begin(), used.begin() + static_cast<long>(outer_), true);
  v = spread(v, dims(p, used));
  const Expr inside = bounds(p, reduced);
  if (inside.is_const(1)) return v;
  Value counts = builder_->index(DType::boolean, inside, coords(p, reduced));
  return builder_->op(ScalarOp::where, {counts, v, builder_->constant(Scalar::of(narrow, 0))});
}

bool Tiler::write_matrix_store(const Inst& inst, Instance& in) {
  const auto* unit = as<MatrixContraction>(0);
  size_t from = 0;  // the last product
  for (size_t s = 0; s < in.stage; ++s)
    if (as<NestedContraction>(s)) from = s;
  const bool by_groups = as<NestedContraction>(from) || (unit && !by_warps(0) && unit->parts == 1);
  if (!by_groups || inst.op != Op::store || in.stage == 0 || !leaves_as_tiles(loops_, stage(in.stage))) return false;
  const Contraction c = *find_contraction(loops_, stage(from));
  const auto a = static_cast<size_t>(c.a_axis), b = static_cast<size_t>(c.b_axis);
  // The axis of its columns may have another number here.
  size_t columns = 0;
  while (columns < axis_count(in.stage) && !(axis(in.stage, columns).var == axis(from, b).var)) ++columns;
  if (columns == axis_count(in.stage)) return false;
  std::optional<MatrixView> view = matrix_view(loops_, stage(in.stage), inst, a, columns, false);
  const DType dtype = dtype_of(inst.args[0]);
  if (!view || view->transposed || (size_of(dtype) != 2 && size_of(dtype) != 4)) return false;
  std::vector<bool> all(axis_count(in.stage), true);
  builder_->matrix_store(region_at(in.stage, *view, in.place),
                         {{spread(value(inst.args[0], in), dims(in.place, all))}});
  return true;
}

// A copy of the narrow numbers with rows of whole 16 bytes, the fast axis as it is in memory.
void Tiler::write_matrix_packing(int operand) {
  constexpr size_t s = 0;
  constexpr int64_t kRows = 16, kColumns = 256;  // of a block
  const Contraction c = *find_contraction(loops_, stage(s));
  const Value narrow = *unit_factor(loops_, stage(s), c, operand, as<MatrixContraction>(s)->warps);
  const auto own = static_cast<size_t>(c.axis(operand));
  const DType dtype = dtype_of(narrow);
  begin_phase();

  MatrixView view;
  view.transposed = packed_transposed(loops_, stage(s), c, operand, dtype);
  view.axes = view.transposed ? SmallVector<size_t, 4>{own, outer_} : SmallVector<size_t, 4>{outer_, own};
  for (size_t i = outer_; i-- > 0;)
    if (c.axes(operand)[i] && i != own) view.axes.push_back(i);
  const int64_t padded = 16 / size_of(dtype);
  int64_t stride = 1;
  Place p = everything(s);
  std::ranges::fill(p.size, 1);
  Expr address = 0;
  std::vector<bool> used(axis_count(s), false);
  for (size_t d = 0; d < view.axes.size(); ++d) {
    const size_t i = view.axes[d];
    const int64_t extent = extent_of(axis(s, i));
    view.strides.push_back(stride);
    stride *= d == 0 ? round_up(extent, padded) : extent;
    used[i] = true;
    p.size[i] = d == 0 ? std::min(extent, kColumns) : d == 1 ? std::min(extent, kRows) : 1;
  }
  // The slowest axis is the first of the grid.
  for (size_t d = view.axes.size(); d-- > 0;) {
    const size_t i = view.axes[d];
    p.base[i] = block_variable(text("p", i), ceildiv(axis(s, i).extent, p.size[i])) * p.size[i];
    address = address + index_at(p, i) * view.strides[d];
  }
  view.buffer = add_buffer(text("packed", kernel_.buffers.size()), dtype, kernel::Space::Temp, stride);
  Instance instance = instance_at(s, p);
  Value v = value(narrow, instance);
  const Builder::Access access{address, bounds(p, used), coords(p, used)};
  builder_->store(view.buffer, spread(v, extents(access.coords)), access);
  matrices_[operand] = view;
}

// The blocks of a phase, taken in turn by a few persistent ones: down a group of rows, then the next column.
void Tiler::take_turns(const std::function<void()>& body) {
  const auto* unit = as<MatrixContraction>(0);
  if (!unit || unit->persistent == 0) return body();
  const Contraction c = *find_contraction(loops_, stage(0));
  const auto a = static_cast<size_t>(c.a_axis), b = static_cast<size_t>(c.b_axis);
  kernel_.phases.back().blocks.clear();
  std::vector<Expr> count;
  Expr total = 1;
  for (size_t i = 0; i < outer_; ++i) {
    count.push_back(ceildiv(loops_.outer[i].extent, schedule_.block[i]));
    total = total * count.back();
  }
  const Expr persistent = min(total, unit->persistent);
  const Expr block = block_variable("block", persistent);
  const Expr turns = ceildiv(total - block, persistent);
  turn_ = turns.lo() == 1 && turns.hi() == 1 ? Expr(0) : Expr::index("turn", turns);
  auto take = [&](std::span<const Value>) {
    const Expr tile = block + turn_ * persistent, matrix = count[a] * count[b];
    const Expr within = mod(tile, matrix);
    Expr rest = floordiv(tile, matrix);
    const Expr strip = count[b] * unit->group, from = floordiv(within, strip) * unit->group;
    const Expr height = min(count[a] - from, unit->group);
    std::vector<Expr> at(outer_);
    at[a] = from + mod(mod(within, strip), height);
    at[b] = floordiv(mod(within, strip), height);
    for (size_t i = outer_; i-- > 0;) {
      if (i == a || i == b) continue;
      at[i] = mod(rest, count[i]);
      rest = floordiv(rest, count[i]);
    }
    for (size_t i = 0; i < outer_; ++i) block_.base[i] = at[i] * schedule_.block[i];
    body();
  };
  if (turn_.is_var())
    builder_->loop(turn_, {}, take);
  else
    take({});
  turn_ = Expr(0);
}

}  // namespace heddle
