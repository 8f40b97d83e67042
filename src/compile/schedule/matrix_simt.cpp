#include "compile/schedule/matrix_simt.h"

#include <algorithm>

#include "base/error.h"
#include "expr/runs.h"
#include "kernel/tensor_maps.h"

namespace heddle {
namespace {

const kernel::Inst* definition(const Stage& stage, kernel::Value v) {
  for (const kernel::Inst& inst : stage.body.insts)
    if (!inst.results.empty() && inst.results[0] == v) return &inst;
  return nullptr;
}

DType dtype_of(const Loops& loops, kernel::Value v) { return loops.values[static_cast<size_t>(v)].dtype; }

}  // namespace

std::optional<MatrixView> matrix_view(const Loops& loops, const Stage& stage, const kernel::Inst& access, size_t own,
                                      size_t along, bool copied) {
  if (!access.guard.is_const(1) || !access.binds.empty()) return {};
  const kernel::Buffer& buffer = loops.buffers[static_cast<size_t>(access.buffer)];
  const int64_t size = size_of(buffer.dtype);
  MatrixView view;
  view.buffer = access.buffer;
  view.offset = access.address;
  auto add = [&](size_t i, int64_t stride) {
    view.axes.push_back(i);
    view.strides.push_back(stride);
  };
  std::vector<int64_t> strides;
  for (size_t i = 0; i < loops.outer.size() + stage.inner.size(); ++i) {
    const Axis& axis = i < loops.outer.size() ? loops.outer[i] : stage.inner[i - loops.outer.size()];
    strides.push_back(0);
    if (!axis.var.is_var() || !depends_on(view.offset, axis.var)) continue;
    std::optional<Linear> linear = linear_in(view.offset, axis.var);
    if (!linear && (i == own || i == along)) return {};
    if (!linear) continue;
    strides.back() = linear->coefficient;
    view.offset = linear->rest;
  }
  const std::vector<Expr> others = variables(view.offset);
  if (std::any_of(others.begin(), others.end(), [](const Expr& v) { return !v.is_symbol(); })) {
    // Outer axes alone, each of which has one place in a block.
    for (const Expr& v : others)
      if (std::none_of(loops.outer.begin(), loops.outer.end(), [&](const Axis& axis) { return axis.var == v; }))
        return {};
    if (view.offset.lo() < 0) return {};
    view.apart = view.offset.multiple();
    view.position = floordiv(view.offset, view.apart);
    view.offset = 0;
  }
  const int64_t whole = copied ? 16 / size : 1;
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

std::optional<MatrixView> gathered_view(const Loops& loops, const Stage& stage, const kernel::Inst& access, size_t own,
                                        size_t along) {
  if (!access.binds.empty()) return {};
  auto axis = [&](size_t i) { return i < loops.outer.size() ? loops.outer[i] : stage.inner[i - loops.outer.size()]; };
  const int64_t piece = 16 / size_of(loops.buffers[static_cast<size_t>(access.buffer)].dtype);
  for (bool transposed : {false, true}) {
    const size_t fast = transposed ? own : along, slow = transposed ? along : own;
    if (!axis(fast).var.is_var() || axis(fast).extent.multiple() % piece != 0) continue;
    if (!in_pieces(access.address, access.guard, axis(fast).var, piece)) continue;
    MatrixView view;
    view.buffer = access.buffer;
    view.offset = access.address;
    view.guard = access.guard;
    view.axes = {fast, slow};
    view.transposed = transposed;
    return view;
  }
  return {};
}

std::optional<kernel::Value> matrix_factor(const Loops& loops, const Stage& stage, kernel::Value factor) {
  const kernel::Inst* cast = definition(stage, factor);
  if (!cast || cast->op != kernel::Op::cast || dtype_of(loops, factor) != DType::f32) return {};
  const DType narrow = dtype_of(loops, cast->args[0]);
  if (narrow != DType::bf16 && narrow != DType::f16) return {};
  return cast->args[0];
}

std::optional<MatrixView> factor_view(const Loops& loops, const Stage& stage, const Contraction& c, int operand) {
  auto narrow = matrix_factor(loops, stage, operand == 0 ? c.a : c.b);
  if (!narrow) return {};
  const kernel::Inst* load = definition(stage, *narrow);
  if (!load || load->op != kernel::Op::load) return {};
  const auto own = static_cast<size_t>(operand == 0 ? c.a_axis : c.b_axis);
  return matrix_view(loops, stage, *load, own, loops.outer.size() + stage.kept);
}

int64_t staying_steps(const Axis& summed, int64_t depth) {
  constexpr int64_t kMost = 4;
  if (!summed.extent.is_const()) return 0;
  const int64_t steps = (summed.extent.value() + depth - 1) / depth;
  return steps <= kMost ? steps : 0;
}

bool packed_transposed(const Loops& loops, const Stage& stage, const Contraction& c, int operand) {
  const Expr& own = loops.outer[static_cast<size_t>(operand == 0 ? c.a_axis : c.b_axis)].var;
  int64_t best = 0;
  bool transposed = false;
  for (const kernel::Inst& inst : stage.body.insts) {
    if (inst.op != kernel::Op::load || !depends_on(inst.address, own)) continue;
    const int64_t size = loops.buffers[static_cast<size_t>(inst.buffer)].size.hi();
    if (size <= best) continue;
    best = size;
    std::optional<Linear> linear = linear_in(inst.address, own);
    transposed = linear && linear->coefficient == 1;
  }
  return transposed;
}

bool is_packed(const StageSchedule& plan, int operand) {
  return std::any_of(plan.staged.begin(), plan.staged.end(),
                     [&](const Staged& staged) { return staged.operand == operand; });
}

std::string check_unit_simt(const Schedule& schedule, const Loops& loops, size_t s, const Contraction& c) {
  const StageSchedule& plan = schedule.stages[s];
  const Stage& stage = loops.stages[s];
  if (s != 0 || is_nested(loops)) return text("stage ", s, ": a matrix unit in nested loops");
  if (!c.is_matmul() || stage.inner.size() != 1 || stage.kept != 0)
    return text("stage ", s, ": not a product of two matrices");
  for (const kernel::Inst& inst : stage.body.insts)
    if (inst.op == kernel::Op::check) return text("stage ", s, ": a matrix unit does not look at indices");
  const size_t k = loops.outer.size();
  if (!c.a_axes[k] || !c.b_axes[k]) return text("stage ", s, ": a factor does not follow the summed axis");
  for (int i = 0; i < static_cast<int>(k); ++i)
    if (i != c.a_axis && i != c.b_axis && schedule.block[static_cast<size_t>(i)] != 1)
      return text("stage ", s, ": blocks of several matrices");
  for (size_t later = 1; later < loops.stages.size(); ++later)
    if (loops.stages[later].reducer || !loops.stages[later].inner.empty() || !schedule.stages[later].loops.empty() ||
        !schedule.stages[later].joined)
      return text("stage ", later, " cannot finish what a matrix unit computes");
  for (const Staged& staged : plan.staged) {
    if (staged.operand != 0 && staged.operand != 1) return text("stage ", s, " has no operand ", staged.operand);
    if (staged.scope != Staged::Scope::Phase || staged.panel != 0)
      return text("stage ", s, ": a matrix unit copies by itself");
  }
  if (plan.staged.size() > 2 || (plan.staged.size() == 2 && plan.staged[0].operand == plan.staged[1].operand))
    return text("stage ", s, ": an operand is packed twice");
  return "";
}

std::string check_matrix_simt(const Schedule& schedule, const Loops& loops, size_t s, const Contraction& c,
                              const Target& target) {
  const StageSchedule& plan = schedule.stages[s];
  const Stage& stage = loops.stages[s];
  if (!find_instruction(target, MatrixLayout::Shared)) return "the machine has no matrix unit that copies";
  if (plan.unit != StageSchedule::Unit::Matrix || plan.pipeline < 1)
    return text("stage ", s, ": copies without a matrix unit");
  if (std::string problem = check_unit_simt(schedule, loops, s, c); !problem.empty()) return problem;
  const auto a = static_cast<size_t>(c.a_axis), b = static_cast<size_t>(c.b_axis), k = loops.outer.size();
  auto left = matrix_factor(loops, stage, c.a), right = matrix_factor(loops, stage, c.b);
  if (!left || !right || dtype_of(loops, *left) != dtype_of(loops, *right) ||
      !find_instruction(target, MatrixLayout::Shared, dtype_of(loops, *left)))
    return text("stage ", s, ": its factors are not ones of a matrix unit");
  const int64_t rows = schedule.block[a], columns = schedule.block[b];
  if (rows % kernel::kMatrixRows != 0 || rows > 4 * kernel::kMatrixRows || columns % 64 != 0 || columns > 256)
    return text("stage ", s, ": blocks of ", rows, " x ", columns, " for a matrix unit");
  if (schedule.threads != (rows / kernel::kMatrixRows + 1) * kernel::kMatrixThreads)
    return text(schedule.threads, " threads for ", rows, " rows");
  const int64_t depth = kernel::kMatrixBytes / size_of(dtype_of(loops, *left));
  if (plan.loops.size() != 1 || plan.loops[0].axis != static_cast<int>(k) || plan.loops[0].step != depth)
    return text("stage ", s, ": a matrix unit takes steps of ", depth);
  if (kernel::MatrixRing{rows, columns, plan.pipeline}.bytes() + 1024 + kernel::matrix_store_bytes(rows) >
      target.shared_bytes)
    return text("stage ", s, ": ", plan.pipeline, " stages do not fit");
  if (plan.split > 1 && rows * columns * 4 > target.shared_bytes)
    return text("stage ", s, ": divided sums of ", rows, " x ", columns, " do not fit");
  for (int operand : {0, 1})
    if (!is_packed(plan, operand) && !factor_view(loops, stage, c, operand))
      return text("stage ", s, ": operand ", operand, " cannot be copied as it is");
  return "";
}

}  // namespace heddle
