#include "compile/loops/contraction.h"

#include <unordered_map>

namespace heddle {
namespace {

std::vector<Expr> axis_variables(const Loops& loops, const Stage& stage) {
  std::vector<Expr> vars;
  for (const Axis& axis : loops.outer) vars.push_back(axis.var);
  for (const Axis& axis : stage.inner) vars.push_back(axis.var);
  return vars;
}

// For every value of the body, and every result of another stage, the axes it depends on. Such results follow all outer
// axes, and those that they are kept along.
std::unordered_map<kernel::Value, std::vector<bool>> dependences(const Loops& loops, const Stage& stage) {
  std::vector<Expr> vars = axis_variables(loops, stage);
  std::unordered_map<kernel::Value, std::vector<bool>> result;
  std::vector<bool> outer(vars.size(), false);
  for (size_t i = 0; i < loops.outer.size(); ++i) outer[i] = true;
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
    for (kernel::Value arg : inst.args) {
      auto known = result.find(arg);
      const std::vector<bool>& theirs = known == result.end() ? outer : known->second;
      for (size_t i = 0; i < axes.size(); ++i) axes[i] = axes[i] || theirs[i];
    }
    for (kernel::Value r : inst.results) result[r] = axes;
  }
  return result;
}

}  // namespace

std::vector<bool> axes_of(const Loops& loops, const Stage& stage, kernel::Value v) {
  auto all = dependences(loops, stage);
  auto it = all.find(v);
  if (it != all.end()) return it->second;
  std::vector<bool> outer(loops.outer.size() + stage.inner.size(), false);
  for (size_t i = 0; i < loops.outer.size(); ++i) outer[i] = true;
  return outer;
}

std::optional<kernel::Value> narrow_factor(const Loops& loops, const Stage& stage, kernel::Value factor) {
  auto dtype = [&](kernel::Value v) { return loops.values[v].dtype; };
  kernel::Value narrow = kernel::kNoValue;
  for (const kernel::Inst& inst : stage.body.insts)
    if (inst.op == kernel::Op::cast && inst.results[0] == factor) narrow = inst.args[0];
  if (narrow == kernel::kNoValue) return {};
  const bool fits = (dtype(narrow) == DType::bf16 && dtype(factor) == DType::f32) ||
                    (dtype(narrow) == DType::i8 && dtype(factor) == DType::i32);
  for (const kernel::Inst& inst : stage.body.insts)
    if (fits && inst.op == kernel::Op::load && inst.results[0] == narrow) return narrow;
  return {};
}

int64_t numbers_per_word(const Loops& loops, kernel::Value narrow) { return 4 / size_of(loops.values[narrow].dtype); }

std::optional<Contraction> find_contraction(const Loops& loops, const Stage& stage) {
  if (!stage.reducer || kernel::simple_op(*stage.reducer) != ScalarOp::add) return {};
  const kernel::Inst* product = nullptr;
  for (const kernel::Inst& inst : stage.body.insts)
    if (inst.op == kernel::Op::mul && inst.results[0] == stage.body.results[0]) product = &inst;
  if (!product) return {};
  Contraction c;
  c.a = product->args[0];
  c.b = product->args[1];
  c.a_axes = axes_of(loops, stage, c.a);
  c.b_axes = axes_of(loops, stage, c.b);
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
