#include "compile/schedule/sizes.h"

#include <algorithm>

#include "compile/schedule/schedule.h"

namespace heddle {

Sizes sizes_of(const Loops& loops) {
  Sizes sizes;
  for (const Axis& axis : loops.outer) {
    sizes.outer.push_back(extent_of(axis));
    sizes.rows *= static_cast<double>(sizes.outer.back());
  }
  for (const Stage& stage : loops.stages) {
    sizes.inner.emplace_back();
    double points = sizes.rows;
    for (const Axis& axis : stage.inner) {
      sizes.inner.back().push_back(extent_of(axis));
      points *= static_cast<double>(sizes.inner.back().back());
    }
    sizes.points = std::max(sizes.points, points);
  }
  return sizes;
}

std::vector<double> unit_strides(const Loops& loops, const Stage& stage) {
  std::vector<double> score(loops.outer.size() + stage.inner.size(), 0);
  for (const kernel::Inst& inst : stage.body.insts) {
    if (inst.op != kernel::Op::load && inst.op != kernel::Op::store) continue;
    const kernel::Buffer& buffer = loops.buffer(inst);
    double weight = (inst.op == kernel::Op::store ? 1.5 : 1) * size_of(buffer.dtype) *
                    static_cast<double>(std::max<int64_t>(buffer.size.hi(), 1));
    for (size_t i = 0; i < score.size(); ++i) {
      auto linear = linear_in(inst.address, loops.axis(stage, i).var);
      if (linear && std::abs(linear->coefficient) == 1) score[i] += weight;
    }
  }
  return score;
}

bool reduces_once(const Loops& loops) {
  if (!loops.stages[0].reducer) return false;
  for (size_t s = 1; s < loops.stages.size(); ++s)
    if (loops.stages[s].reducer || !loops.stages[s].inner.empty()) return false;
  return true;
}

double blocks_of(const Schedule& schedule, const Sizes& sizes) {
  double blocks = 1;
  for (size_t i = 0; i < sizes.outer.size(); ++i)
    blocks *= static_cast<double>(pieces(sizes.outer[i], schedule.block[i]));
  return blocks;
}

void fill_block(Schedule& schedule, const Sizes& sizes, int64_t elements) {
  int64_t held = 1;
  for (size_t i = sizes.outer.size(); i-- > 0;) {
    schedule.block[i] = std::clamp<int64_t>(elements / held, 1, sizes.outer[i]);
    held *= schedule.block[i];
    if (schedule.block[i] < sizes.outer[i]) break;
  }
}

void loop_inner(StageSchedule& plan, const std::vector<int64_t>& inner, size_t outer, int64_t limit, int64_t piece) {
  // Walk from the last axis: what fits stays in the tile, the axis that crosses the limit is cut, the rest are loops.
  int64_t held = 1;
  for (size_t i = inner.size(); i-- > 0;) {
    int axis = static_cast<int>(outer + i);
    if (held * inner[i] <= limit) {
      held *= inner[i];
      continue;
    }
    int64_t step = std::clamp<int64_t>(piece / held, 1, inner[i]);
    if (step < inner[i]) plan.loops.insert(plan.loops.begin(), Level{axis, step});
    held = limit;  // everything further out is a loop
  }
}

}  // namespace heddle
