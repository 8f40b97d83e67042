// Independent reductions over the same axes become one over a tuple: sum(x) and sum(x * x) read x once. So do a maximum
// and a sum that can be rescaled to it (online.h).
#include <algorithm>

#include "compile/loops/contraction.h"
#include "compile/loops/loops.h"
#include "compile/loops/online.h"
#include "kernel/pass_util.h"

namespace heddle {
namespace {

using kernel::Inst;
using kernel::Value;

bool same_axes(const Stage& a, const Stage& b) {
  return std::ranges::equal(a.inner, b.inner, {}, &Axis::extent, &Axis::extent);
}

// Whether stage `t` names a result of a stage from `first` on.
bool depends(const Loops& loops, size_t t, size_t first) {
  std::vector<bool> produced(loops.values.size(), false);
  for (size_t s = first; s < t; ++s)
    for (Value v : loops.stages[s].results) produced[v] = true;
  auto is_produced = [&](Value v) { return produced[v]; };
  const kernel::Body& body = loops.stages[t].body;
  return std::ranges::any_of(body.results, is_produced) ||
         std::ranges::any_of(body.insts, [&](const Inst& inst) { return std::ranges::any_of(inst.args, is_produced); });
}

// Appends what `from` computes to `to`, sharing what both compute.
void append(Loops& loops, Stage& to, Stage&& from) {
  Substitution axes;
  for (size_t i = 0; i < to.inner.size(); ++i) axes.emplace_back(from.inner[i].var, to.inner[i].var);
  kernel::Renaming rename(loops.values.size());
  for (Inst& inst : from.body.insts) {
    rename.apply(inst.args);
    substitute_in(inst, axes);
    auto known =
        std::ranges::find_if(to.body.insts, [&](const Inst& other) { return computes_the_same(loops, other, inst); });
    if (known == to.body.insts.end())
      to.body.insts.push_back(std::move(inst));
    else if (!inst.results.empty())
      rename.replace(inst.results[0], known->results[0]);
  }
  rename.apply(from.body.results);
  to.body.results.insert(to.body.results.end(), from.body.results.begin(), from.body.results.end());
  to.results.insert(to.results.end(), from.results.begin(), from.results.end());
  to.reducer = kernel::product_reducer(*to.reducer, *from.reducer);
}

}  // namespace

void merge_reductions(Loops& loops) {
  if (is_nested(loops)) return;  // stages share axes
  auto merges = [&](const Stage& stage) {
    if (!stage.reducer || stage.inner.empty() || stage.kept > 0 || stage.online) return false;
    auto contraction = find_contraction(loops, stage);
    return !contraction || !contraction->is_matmul();  // those have schedules of their own
  };
  for (size_t s = 0; s < loops.stages.size(); ++s)
    for (size_t t = s + 1; t < loops.stages.size() && !loops.stages[s].online; ++t) {
      Stage& maximum = loops.stages[s];
      if (!same_axes(maximum, loops.stages[t]) || depends(loops, t, s + 1) || !is_online_pair(loops, s, t)) continue;
      append(loops, maximum, std::move(loops.stages[t]));
      maximum.online = true;
      maximum.reducer = kernel::online_reducer(maximum.reducer->identity[0].dtype);
      loops.stages.erase(loops.stages.begin() + static_cast<long>(t));
    }
  for (size_t s = 0; s < loops.stages.size(); ++s) {
    if (!merges(loops.stages[s])) continue;
    for (size_t t = s + 1; t < loops.stages.size();) {
      const Stage& other = loops.stages[t];
      if (!merges(other) || !same_axes(loops.stages[s], other) || depends(loops, t, s)) {
        ++t;
        continue;
      }
      append(loops, loops.stages[s], std::move(loops.stages[t]));
      loops.stages.erase(loops.stages.begin() + static_cast<long>(t));
    }
  }
}

}  // namespace heddle
