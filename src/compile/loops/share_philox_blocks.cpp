// Random numbers come in blocks of four words: element e takes word e / Q of block e % Q, where Q is a quarter of the
// elements. A loop over e would compute every block four times. Where an axis is used through such a quotient and
// remainder, and most of the work depends on the remainder alone, the kernel runs over the remainder and does all
// quotients at once: the body is repeated for each, and what the copies have in common is computed once.
#include <algorithm>

#include "compile/loops/loops.h"
#include "kernel/pass_util.h"

namespace heddle {
namespace {

using kernel::Inst;
using kernel::Op;
using kernel::Value;

constexpr int64_t kMostParts = 8;
constexpr size_t kLargestBody = 4000;

// The divisor by which `axis` is divided somewhere in e, or 0.
int64_t divisor_in(const Expr& e, const Expr& axis) {
  bool divides = e.kind() == ExprKind::FloorDiv || e.kind() == ExprKind::Mod;
  if (divides && e.args()[0] == axis && e.args()[1].is_const()) return e.args()[1].value();
  for (const Expr& arg : e.args())
    if (int64_t divisor = divisor_in(arg, axis)) return divisor;
  return 0;
}

// The stage's body once for each quotient. `repeated` counts what later copies add.
Stage repeat(Loops& loops, const Stage& stage, const Expr& axis, const Expr& rest, int64_t divisor, int64_t parts,
             size_t& repeated) {
  Stage result;
  std::vector<std::vector<size_t>> copies(stage.body.insts.size());  // of each instruction, in the result
  for (int64_t part = 0; part < parts; ++part) {
    Expr whole = rest + part * divisor;
    Substitution to = {{axis, whole}};
    kernel::Renaming rename(loops.values.size());
    for (size_t n = 0; n < copies.size(); ++n) {
      Inst inst = stage.body.insts[n];
      rename.apply(inst.args);
      substitute_in(inst, to);
      if (inst.op == Op::store) {
        inst.guard = logical_and(inst.guard, lt(whole, axis.extent()));
        result.body.insts.push_back(std::move(inst));
        continue;
      }
      Value old = inst.results[0];
      if (inst.op == Op::index && inst.address.is_const() && inst.binds.empty()) {
        inst.literal = Scalar::of(loops.dtype(old), inst.address.value());
        inst.op = Op::constant;
        inst.address = 0;
      }
      auto same = [&](size_t k) { return computes_the_same(loops, result.body.insts[k], inst); };
      if (auto known = std::ranges::find_if(copies[n], same); known != copies[n].end()) {
        rename.names[old] = result.body.insts[*known].results[0];
        continue;
      }
      // The last part may be cut short; beyond the end there may be nothing to read.
      if (inst.op == Op::load) inst.guard = logical_and(inst.guard, lt(whole, axis.extent()));
      if (part > 0) {
        ++repeated;
        inst.results[0] = rename.names[old] = static_cast<Value>(loops.values.size());
        loops.values.push_back(kernel::Type(loops.values[old]));
      }
      copies[n].push_back(result.body.insts.size());
      result.body.insts.push_back(std::move(inst));
    }
  }
  return result;
}

bool only_plain_stores(const Loops& loops) {
  return std::ranges::all_of(loops.stages, [](const Stage& stage) {
    return !stage.reducer && stage.inner.empty() && std::ranges::all_of(stage.body.insts, [](const Inst& inst) {
      return inst.op == Op::store || (inst.results.size() == 1 && !inst.reducer);
    });
  });
}

}  // namespace

void share_philox_blocks(Loops& loops) {
  if (!only_plain_stores(loops)) return;
  for (Axis& axis : loops.outer) {
    if (!axis.extent.is_const()) continue;
    int64_t divisor = 0;
    size_t size = 0;
    for (const Stage& stage : loops.stages) {
      size += stage.body.insts.size();
      for (const Inst& inst : stage.body.insts)
        for (const Expr& e : {inst.address, inst.guard})
          if (divisor == 0) divisor = divisor_in(e, axis.var);
    }
    if (divisor <= 1) continue;
    int64_t parts = (axis.extent.value() + divisor - 1) / divisor;
    if (parts < 2 || parts > kMostParts || size * static_cast<size_t>(parts) > kLargestBody) continue;
    Loops trial = loops;
    Expr rest = Expr::index(axis.var.name(), divisor);
    size_t repeated = 0;
    for (Stage& stage : trial.stages) stage = repeat(trial, stage, axis.var, rest, divisor, parts, repeated);
    // Worth it if the copies have more in common than not.
    if (repeated * 2 > size * static_cast<size_t>(parts - 1)) continue;
    size_t which = static_cast<size_t>(&axis - loops.outer.data());
    trial.outer[which] = {rest, divisor};
    loops = std::move(trial);
    return;
  }
}

}  // namespace heddle
