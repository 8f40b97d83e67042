// Schedules for kernels whose own one could not be compiled: slow, but with as little in them as possible.
#include <algorithm>

#include "compile/schedule/schedule.h"

namespace heddle {
namespace {

// One row at a time, small tiles, ordinary arithmetic; results pass through shared memory.
Schedule row_by_row(const Loops& loops, const Target& target) {
  constexpr int64_t kTile = 256;
  const bool simt = target.machine == Machine::Simt;
  const size_t outer = loops.outer.size();
  Schedule schedule = plain_schedule(loops);
  schedule.threads = simt ? 128 : 1;
  const Sizes sizes = sizes_of(loops);
  for (size_t s = 0; s < loops.stages.size(); ++s) {
    StageSchedule& plan = schedule.stages[s];
    plan.joined = false;
    loop_within(plan, sizes.inner[s], outer, kTile);
    if (loops.stages[s].ordered) plan.loops.clear();
    for (size_t i = 0; loops.stages[s].ordered && i < sizes.inner[s].size(); ++i)
      plan.loops.push_back({static_cast<int>(outer + i), 1});
  }
  const bool only_rows = std::ranges::all_of(loops.stages, [](const Stage& s) { return s.inner.empty(); });
  if (only_rows && outer > 0) schedule.block[outer - 1] = std::min(sizes.outer[outer - 1], kTile);
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
