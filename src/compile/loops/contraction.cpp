#include "compile/loops/contraction.h"

namespace heddle {

std::unordered_map<kernel::Value, std::vector<bool>> dependences(const Loops& loops, const Stage& stage) {
  std::vector<Expr> vars;
  for (size_t i = 0; i < loops.outer.size() + stage.inner.size(); ++i) vars.push_back(loops.axis(stage, i).var);
  std::unordered_map<kernel::Value, std::vector<bool>> result;
  std::vector<bool> outer(vars.size(), false);
  std::fill_n(outer.begin(), loops.outer.size(), true);
  for (const Stage& other : loops.stages) {
    std::vector<bool> axes = outer;
    for (size_t k = 0; k < other.kept; ++k)
      for (size_t i = loops.outer.size(); i < vars.size(); ++i) axes[i] = axes[i] || vars[i] == other.inner[k].var;
    for (kernel::Value v : other.results) result[v] = axes;
  }
  for (const kernel::Inst& inst : stage.body.insts) {
    std::vector<bool> axes(vars.size(), false);
    for (size_t i = 0; i < vars.size(); ++i)
      axes[i] = depends_on(inst.address, vars[i]) || depends_on(inst.guard, vars[i]);
    for (kernel::Value arg : inst.args)
      for (size_t i = 0; i < axes.size(); ++i) axes[i] = axes[i] || result.at(arg)[i];
    if (inst.op == kernel::Op::scan) axes.assign(axes.size(), true);
    for (kernel::Value r : inst.results) result[r] = axes;
  }
  return result;
}

std::optional<kernel::Value> narrow_factor(const Loops& loops, const Stage& stage, kernel::Value factor) {
  const kernel::Inst* cast = definition(stage, factor);
  if (!cast || cast->op != kernel::Op::cast) return {};
  const kernel::Value narrow = cast->args[0];
  const kernel::Inst* load = definition(stage, narrow);
  const bool fits = (loops.dtype(narrow) == DType::bf16 && loops.dtype(factor) == DType::f32) ||
                    (loops.dtype(narrow) == DType::i8 && loops.dtype(factor) == DType::i32);
  return fits && load && load->op == kernel::Op::load ? std::optional(narrow) : std::nullopt;
}

int64_t numbers_per_word(const Loops& loops, kernel::Value narrow) { return 4 / size_of(loops.dtype(narrow)); }

std::optional<Contraction> find_contraction(const Loops& loops, const Stage& stage) {
  if (!stage.reducer || kernel::simple_op(*stage.reducer) != ScalarOp::add) return {};
  const kernel::Inst* product = definition(stage, stage.body.results[0]);
  if (!product || product->op != kernel::Op::mul) return {};
  Contraction c;
  c.a = product->args[0];
  c.b = product->args[1];
  const auto axes = dependences(loops, stage);
  c.a_axes = axes.at(c.a);
  c.b_axes = axes.at(c.b);
  // A dot has just the dimensions of its factors: an axis that neither follows would be lost.
  for (size_t i = 0; i < c.a_axes.size(); ++i)
    if (!c.a_axes[i] && !c.b_axes[i]) return {};
  for (size_t i = 0; i < loops.outer.size() + stage.kept; ++i) {
    if (c.a_axes[i] && !c.b_axes[i]) c.a_axis = static_cast<int>(i);
    if (c.b_axes[i] && !c.a_axes[i]) c.b_axis = static_cast<int>(i);
  }
  if (c.a_axis > c.b_axis) {
    std::swap(c.a, c.b);
    std::swap(c.a_axes, c.b_axes);
    std::swap(c.a_axis, c.b_axis);
  }
  return c;
}

}  // namespace heddle
