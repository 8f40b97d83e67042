// How the factors and results of a matrix unit lie in memory.
#include <algorithm>

#include "compile/schedule/matrix_contraction.h"
#include "expr/runs.h"
#include "kernel/tensor_maps.h"
#include "kernel/types.h"

namespace heddle {
namespace {

// The same as matrix_view() for any index and guard, as long as 16 bytes along one of both axes are always neighbours.
std::optional<MatrixView> gathered_view(const Loops& loops, const Stage& stage, const kernel::Inst& access, size_t own,
                                        size_t along) {
  if (!access.binds.empty()) return {};
  auto axis = [&](size_t i) { return loops.axis(stage, i); };
  const int64_t piece = 16 / size_of(loops.buffer(access).dtype);
  for (bool transposed : {false, true}) {
    const size_t fast = transposed ? own : along, slow = transposed ? along : own;
    if (!axis(fast).var.is_var() || axis(fast).extent.multiple() % piece != 0) continue;
    if (!in_pieces(access.address, access.guard, axis(fast).var, piece)) continue;
    return MatrixView{.buffer = access.buffer,
                      .offset = access.address,
                      .guard = access.guard,
                      .axes = {fast, slow},
                      .transposed = transposed};
  }
  return {};
}

std::optional<kernel::Value> cast_from(const Loops& loops, const Stage& stage, kernel::Value factor, bool warps) {
  const kernel::Inst* cast = definition(stage, factor);
  if (!cast || cast->op != kernel::Op::cast) return {};
  const DType narrow = loops.dtype(cast->args[0]), wide = loops.dtype(factor);
  const bool taken = warps ? size_of(narrow) <= 2 && kernel::multiplies_fragments(narrow, wide)
                           : wide == DType::f32 && (narrow == DType::bf16 || narrow == DType::f16);
  return taken ? std::optional(cast->args[0]) : std::nullopt;
}

}  // namespace

std::optional<MatrixView> matrix_view(const Loops& loops, const Stage& stage, const kernel::Inst& access, size_t own,
                                      size_t along, bool copied) {
  if (!access.guard.is_const(1) || !access.binds.empty()) return {};
  MatrixView view{.buffer = access.buffer, .offset = access.address};
  auto add = [&](size_t i, int64_t stride) {
    view.axes.push_back(i);
    view.strides.push_back(stride);
  };
  std::vector<int64_t> strides;
  for (size_t i = 0; i < loops.outer.size() + stage.inner.size(); ++i) {
    const Axis& axis = loops.axis(stage, i);
    strides.push_back(0);
    if (!axis.var.is_var() || !depends_on(view.offset, axis.var)) continue;
    std::optional<Linear> linear = linear_in(view.offset, axis.var);
    if (!linear && (i == own || i == along)) return {};
    if (!linear) continue;
    strides.back() = linear->coefficient;
    view.offset = linear->rest;
  }
  const std::vector<Expr> others = variables(view.offset);
  if (std::ranges::any_of(others, [](const Expr& v) { return !v.is_symbol(); })) {
    // Outer axes alone, each of which has one place in a block.
    if (!std::ranges::all_of(others, [&](const Expr& v) { return walks(loops.outer, v); })) return {};
    if (view.offset.lo() < 0) return {};
    view.apart = view.offset.multiple();
    view.position = floordiv(view.offset, view.apart);
    view.offset = 0;
  }
  const int64_t whole = copied ? 16 / size_of(loops.buffer(access).dtype) : 1;
  if (view.offset.multiple() % whole != 0) return {};
  view.transposed = strides[own] == 1;
  const size_t fast = view.transposed ? own : along, slow = view.transposed ? along : own;
  if (strides[fast] != 1) return {};
  add(fast, 1);
  add(slow, strides[slow]);
  for (size_t i = 0; i < strides.size(); ++i)
    if (i != own && i != along && strides[i] != 0) add(i, strides[i]);
  if (view.axes.size() + (view.apart > 0) > 5 || view.apart % whole != 0) return {};
  for (size_t d = 1; d < view.axes.size(); ++d)
    if (view.strides[d] <= 0 || view.strides[d] % whole != 0) return {};
  return view;
}

std::optional<kernel::Value> unit_factor(const Loops& loops, const Stage& stage, const Contraction& c, int operand,
                                         bool warps) {
  const std::optional<kernel::Value> own = cast_from(loops, stage, c.factor(operand), warps);
  if (!warps) return own;
  const std::optional<kernel::Value> other = cast_from(loops, stage, c.factor(1 - operand), warps);
  if (own && other && loops.dtype(*own) == loops.dtype(*other)) return own;
  if (loops.dtype(c.a) == DType::f32 && loops.dtype(c.b) == DType::f32) return c.factor(operand);
  return {};
}

int64_t unit_depth(DType factor, bool warps) {
  return (warps ? kernel::kWarpBytes : kernel::kMatrixBytes) / size_of(factor);
}

std::optional<MatrixView> factor_view(const Loops& loops, const Stage& stage, const Contraction& c, int operand,
                                      bool warps) {
  const std::optional<kernel::Value> factor = unit_factor(loops, stage, c, operand, warps);
  const kernel::Inst* load = factor ? definition(stage, *factor) : nullptr;
  if (!load || load->op != kernel::Op::load) return {};
  const auto own = static_cast<size_t>(c.axis(operand));
  const size_t along = loops.outer.size() + stage.kept;
  std::optional<MatrixView> view = matrix_view(loops, stage, *load, own, along);
  if (!view && warps) view = gathered_view(loops, stage, *load, own, along);
  if (view && warps && view->transposed && size_of(loops.dtype(*factor)) != 2) return {};
  return view;
}

bool packed_transposed(const Loops& loops, const Stage& stage, const Contraction& c, int operand, DType dtype) {
  if (size_of(dtype) != 2) return false;
  const Expr& own = loops.outer[c.axis(operand)].var;
  int64_t best = 0;
  bool transposed = false;
  for (const kernel::Inst& inst : stage.body.insts) {
    if (inst.op != kernel::Op::load || !depends_on(inst.address, own)) continue;
    const int64_t size = loops.buffer(inst).size.hi();
    if (size <= best) continue;
    best = size;
    std::optional<Linear> linear = linear_in(inst.address, own);
    transposed = linear && linear->coefficient == 1;
  }
  return transposed;
}

std::optional<WarpGrid> warp_grid(int64_t rows, int64_t columns, int64_t warps) {
  std::optional<WarpGrid> best;
  int64_t least = 0;
  for (int64_t down = 1; down <= warps; down *= 2) {
    if (warps % down != 0) break;
    const int64_t across = warps / down;
    if (rows % (down * kernel::kWarpRows) != 0 || columns % (across * kernel::kWarpRows) != 0) continue;
    const int64_t read = rows / down + columns / across;  // by each warp
    if (best && read >= least) continue;
    best = {down, across};
    least = read;
  }
  return best;
}

int64_t warp_pitch(int64_t row, DType dtype) { return row + 16 / size_of(dtype); }

const MatrixInstruction* warp_instruction(const Target& target, DType factor) {
  using namespace kernel;
  const MatrixInstruction* found = find_instruction(target, MatrixLayout::Fragments, factor);
  const bool fits = found && target.warp == kWarpLanes && found->rows == kWarpRows && found->columns == kWarpRows &&
                    kWarpBytes % (found->depth * size_of(factor)) == 0;
  return fits ? found : nullptr;
}

}  // namespace heddle
