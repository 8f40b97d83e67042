#include "compile/loops/online.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <unordered_set>

namespace heddle {
namespace {

using kernel::Inst;
using kernel::Op;
using kernel::Value;

// How a value follows the maximum of a pivot: not at all; it is the maximum; something less the maximum; a multiple of
// the exponential of that. A maximum that may be infinite, its magnitude, and whether that is finite make one that is.
struct Follows {
  enum class How : uint8_t { Not, Is, Less, Scales, Any, Magnitude, Finite } how = How::Not;
  size_t pivot = SIZE_MAX;
};
using How = Follows::How;

class Finder {
 public:
  Finder(const Loops& loops, const Axis& along) : loops_(loops), along_(along.var) {
    for (const Stage& stage : loops.stages)
      for (const Inst& inst : stage.body.insts)
        for (Value v : inst.results) defs_[v] = &inst;
  }

  std::optional<Online> run() {
    Online online{along_, {}, {}};
    for (size_t s = 0; s < loops_.stages.size(); ++s) {
      const Stage& stage = loops_.stages[s];
      if (stage.ordered || has_scan(stage)) return {};
      // What goes to memory is written once, also where several blocks take parts of the axis.
      bool chunk = walks(stage.inner, along_), after = !chunk && stores(stage);
      for (const Inst& inst : stage.body.insts) {
        for (Value v : inst.args) after |= late_.count(v) > 0 || (!chunk && of(v).how != How::Not);
        if (chunk && !follow(inst)) return {};
      }
      for (Value v : stage.body.results) after |= late_.count(v) > 0;
      // What is stored along the axis would have to be known in the end.
      if (chunk && (stores(stage) || after)) return {};
      online.roles.push_back(chunk ? Online::Role::Chunk : after ? Online::Role::After : Online::Role::Before);
      online.pivots.push_back(SIZE_MAX);
      if (after) late_.insert(stage.results.begin(), stage.results.end());
      if (chunk && !finish(s, online.pivots.back())) return {};
    }
    return online;
  }

  bool is_pair(size_t s, size_t t) {
    follows_[loops_.stages[s].results[0]] = {How::Any, s};
    const kernel::Body& body = loops_.stages[t].body;
    return std::ranges::all_of(body.insts, [&](const Inst& inst) { return follow(inst); }) &&
           of(body.results[0]).how == How::Scales;
  }

 private:
  Follows of(Value v) const {
    auto it = follows_.find(v);
    return it == follows_.end() ? Follows{} : it->second;
  }

  // What the stage's results follow.
  bool finish(size_t s, size_t& pivot) {
    const Stage& stage = loops_.stages[s];
    if (!reduces_along(stage, along_)) {
      for (size_t r = 0; r < stage.results.size(); ++r) {
        Follows f = of(stage.body.results[r]);
        if (f.how == How::Is || (stage.reducer && f.how != How::Not)) return false;
        follows_[stage.results[r]] = f;
      }
      return true;
    }
    std::optional<ScalarOp> op = kernel::simple_op(*stage.reducer);
    if (!op) return false;
    Follows f = of(stage.body.results[0]);
    Value result = stage.results[0];
    if (f.how == How::Scales && *op == ScalarOp::add) {
      pivot = f.pivot;
      late_.insert(result);
      return true;
    }
    if (f.how != How::Not) return false;
    // Others may subtract it, but not before they have it for the whole axis.
    if (*op == ScalarOp::maximum && is_float(loops_.dtype(result)) && stage.kept == 0)
      follows_[result] = {How::Is, s};
    else
      late_.insert(result);
    return true;
  }

  bool follow(const Inst& inst) {
    std::vector<Follows> x;
    for (Value v : inst.args) x.push_back(of(v));
    if (std::ranges::all_of(x, [](const Follows& f) { return f.how == How::Not; })) return true;
    if (inst.results.size() != 1) return false;
    Follows& result = follows_[inst.results[0]];
    auto nothing = [&](size_t i) { return x[i].how == How::Not; };
    auto scales = [&](size_t i) { return x[i].how == How::Scales; };
    result = x[0];
    switch (inst.op) {
      case Op::sub:
        // The maximum must bound it, at every chunk: else its exponential may overflow before it is rescaled.
        if (!nothing(0) || x[1].how != How::Is) return false;
        result = {How::Less, x[1].pivot};
        return same(inst.args[0], loops_.stages[x[1].pivot].body.results[0]);
      case Op::exp: result.how = How::Scales; return x[0].how == How::Less;
      case Op::mul:
        if (scales(1)) result = x[1];
        return (scales(0) && nothing(1)) || (nothing(0) && scales(1));
      case Op::div: return scales(0) && nothing(1);
      case Op::neg: return scales(0);
      // Rounding leaves a multiple what it is, up to the precision that was asked for anyway.
      case Op::cast: return scales(0) && is_float(loops_.dtype(inst.results[0]));
      case Op::abs: result.how = How::Magnitude; return x[0].how == How::Any;
      case Op::lt:
        result.how = How::Finite;
        return x[0].how == How::Magnitude && is_constant(inst.args[1], std::numeric_limits<double>::infinity());
      case Op::where: return choose(inst, x, result);
      default: return false;
    }
  }

  // Whether two values of two stages are computed alike.
  bool same(Value a, Value b) const {
    std::vector<std::pair<Value, Value>> open = {{a, b}};
    for (size_t seen = 0; !open.empty(); ++seen) {
      constexpr size_t kMost = 256;
      auto [x, y] = open.back();
      open.pop_back();
      if (x == y) continue;
      auto left = defs_.find(x), right = defs_.find(y);
      if (left == defs_.end() || right == defs_.end() || seen > kMost) return false;
      const Inst &i = *left->second, &j = *right->second;
      if (!computes_the_same(loops_, i, j, false) || i.args.size() != j.args.size()) return false;
      for (size_t k = 0; k < i.args.size(); ++k) open.emplace_back(i.args[k], j.args[k]);
    }
    return true;
  }

  bool is_constant(Value v, double number) const {
    auto def = defs_.find(v);
    return def != defs_.end() && def->second->op == Op::constant && def->second->literal.as_double() == number;
  }

  // Between a multiple and nothing.
  bool choose(const Inst& inst, const std::vector<Follows>& x, Follows& result) {
    if (x[0].how == How::Finite) {
      result = {How::Is, x[0].pivot};
      return x[1].how == How::Any && is_constant(inst.args[2], 0);
    }
    if (x[0].how != How::Not) return false;
    for (size_t i : {size_t{1}, size_t{2}}) {
      const size_t other = 3 - i;
      if (x[i].how != How::Scales) continue;
      if (x[other].how == How::Scales ? x[other].pivot != x[i].pivot : !is_constant(inst.args[other], 0)) return false;
      result = x[i];
      return true;
    }
    return false;
  }

  const Loops& loops_;
  const Expr along_;
  std::unordered_map<Value, const Inst*> defs_;
  std::unordered_map<Value, Follows> follows_;
  std::unordered_set<Value> late_;  // known after the last chunk
};

}  // namespace

bool Online::is_pivot(size_t s) const { return contains(pivots, s); }

std::optional<Axis> common_axis(const Loops& loops) {
  std::optional<Axis> found;
  for (const Stage& stage : loops.stages)
    for (size_t i = 0; i < stage.kept; ++i) {
      const Axis& axis = stage.inner[i];
      bool reduced =
          std::ranges::any_of(loops.stages, [&](const Stage& other) { return reduces_along(other, axis.var); });
      if (!reduced || (found && found->var == axis.var)) continue;
      if (found) return {};
      found = axis;
    }
  return found;
}

bool is_online_pair(const Loops& loops, size_t s, size_t t) {
  auto reduces_by = [&](size_t stage, ScalarOp op) {
    const Stage& of = loops.stages[stage];
    return of.reducer && of.kept == 0 && !of.inner.empty() && kernel::simple_op(*of.reducer) == op;
  };
  if (!reduces_by(s, ScalarOp::maximum) || !reduces_by(t, ScalarOp::add)) return false;
  const DType dtype = loops.stages[s].reducer->identity[0].dtype;
  if (!is_float(dtype) || loops.stages[t].reducer->identity[0].dtype != dtype) return false;
  Loops renamed = loops;
  Substitution axes;
  for (size_t i = 0; i < loops.stages[s].inner.size(); ++i)
    axes.emplace_back(loops.stages[t].inner[i].var, loops.stages[s].inner[i].var);
  substitute_in(renamed.stages[t], axes);
  return Finder(renamed, {}).is_pair(s, t);
}

std::optional<Online> find_online(const Loops& loops) {
  std::optional<Axis> along = common_axis(loops);
  if (!along) return {};
  return Finder(loops, *along).run();
}

}  // namespace heddle
