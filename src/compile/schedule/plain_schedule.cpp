// Schedules for kernels whose own one could not be compiled: slow, but with as little in them as possible.
#include <algorithm>

#include "base/error.h"
#include "compile/schedule/schedule.h"

namespace heddle {
namespace {

// One row at a time, small tiles, ordinary arithmetic; results pass through shared memory.
Schedule row_by_row(const Loops& loops, const Target& target) {
  constexpr int64_t kTile = 256;
  const bool simt = target.machine == Machine::Simt;
  const size_t outer = loops.outer.size();
  Schedule schedule;
  schedule.block.assign(outer, 1);
  schedule.threads = simt ? 128 : 1;
  for (const Stage& stage : loops.stages) {
    StageSchedule plan;
    plan.joined = false;
    int64_t left = stage.ordered ? 1 : kTile;
    for (size_t i = stage.inner.size(); i-- > 0;) {
      const int64_t extent = extent_of(stage.inner[i]), step = std::min(extent, left);
      if (step < extent || stage.ordered) plan.loops.insert(plan.loops.begin(), {static_cast<int>(outer + i), step});
      left = std::max<int64_t>(left / step, 1);
    }
    schedule.stages.push_back(std::move(plan));
  }
  const bool only_rows =
      std::all_of(loops.stages.begin(), loops.stages.end(), [](const Stage& s) { return s.inner.empty(); });
  if (only_rows && outer > 0) schedule.block[outer - 1] = std::min(extent_of(loops.outer[outer - 1]), kTile);
  return schedule;
}

}  // namespace

std::vector<Schedule> plainer_schedules(const Loops& loops, const Target& target) {
  Target plain = target;
  plain.matrix.clear();
  std::vector<Schedule> result;
  auto add = [&](Schedule schedule) {
    if (check(schedule, loops, target).empty()) result.push_back(std::move(schedule));
  };
  // What chooses schedules may be at fault itself.
  try {
    add(default_schedule(loops, plain));
  } catch (const InternalError&) {}
  add(row_by_row(loops, target));
  return result;
}

}  // namespace heddle
