// The schedule a kernel gets without search: must already be good. And what is left when that one cannot be compiled:
// slow schedules, with as little in them as possible.
#include <algorithm>

#include "compile/schedule/schedule.h"

namespace heddle {
namespace {

double output_bytes(const Loops& loops) {
  double bytes = 0;
  for (const kernel::Buffer& b : loops.buffers)
    if (b.space == kernel::Space::Out) bytes += static_cast<double>(b.size.hi()) * size_of(b.dtype);
  return bytes;
}

bool worth_blocking(const Loops& loops, const Sizes& sizes, const std::optional<Contraction>& c, Machine machine) {
  if (!c || !c->is_matmul() || !reduces_once(loops)) return false;
  const DType dtype = loops.dtype(c->a);
  if (dtype == DType::boolean) return false;
  if (machine == Machine::Simt && (sizes.inner[0].size() != 1 || !is_float(dtype))) return false;
  return sizes.outer[c->a_axis] > 1 && sizes.outer[c->b_axis] > 1;
}

Strategy plain_strategy(const Stage& stage) {
  if (stage.ordered) return Scatter{};
  if (stage.reducer) return RowReduction{};
  if (has_scan(stage)) return Scan{};
  return Map{};
}

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
    loop_inner(plan, sizes.inner[s], outer, kTile, kTile);
    if (loops.stages[s].ordered) plan.loops.clear();
    for (size_t i = 0; loops.stages[s].ordered && i < sizes.inner[s].size(); ++i)
      plan.loops.push_back({static_cast<int>(outer + i), 1});
  }
  const bool only_rows = std::ranges::all_of(loops.stages, [](const Stage& s) { return s.inner.empty(); });
  if (only_rows && outer > 0) schedule.block[outer - 1] = std::min(sizes.outer[outer - 1], kTile);
  return schedule;
}

}  // namespace

Schedule plain_schedule(const Loops& loops) {
  Schedule schedule;
  schedule.block.assign(loops.outer.size(), 1);
  for (const Stage& stage : loops.stages)
    schedule.stages.push_back({plain_strategy(stage), {}, &stage != &loops.stages.front()});
  return schedule;
}

Schedule default_schedule(const Loops& loops, const Target& target) {
  if (is_nested(loops)) return nested_schedule(loops, target);
  const Sizes sizes = sizes_of(loops);
  Schedule schedule = plain_schedule(loops);
  schedule.threads = target.machine == Machine::Simt ? 256 : 1;
  const bool maps = std::ranges::all_of(loops.stages, [](const Stage& s) { return !s.reducer && s.inner.empty(); });
  auto contraction = find_contraction(loops, loops.stages[0]);
  if (loops.stages.back().ordered) {
    schedule_scatter(schedule, loops, sizes, target);
  } else if (maps) {
    schedule_map(schedule, loops, sizes, target);
  } else if (loops.stages.size() == 1 && has_scan(loops.stages[0])) {
    schedule_scan(schedule, loops, sizes, target);
  } else if (worth_blocking(loops, sizes, contraction, target.machine)) {
    if (target.machine == Machine::Simd)
      schedule_contraction(schedule, loops, *contraction, target);
    else if (!schedule_groups(schedule, loops, *contraction, target) &&
             !schedule_warps(schedule, loops, *contraction, target) &&
             !schedule_thin(schedule, loops, sizes, *contraction, target))
      schedule_contraction_simt(schedule, loops, *contraction, target);
  } else if (!contraction || !schedule_warps(schedule, loops, *contraction, target)) {
    schedule_rows(schedule, loops, sizes, target);
  }
  if (target.machine == Machine::Simd && output_bytes(loops) > static_cast<double>(target.l3_bytes) / 2)
    for (StageSchedule& plan : schedule.stages) {
      if (auto* map = std::get_if<Map>(&plan.strategy)) map->stream = true;
      if (auto* scan = std::get_if<Scan>(&plan.strategy)) scan->stream = true;
    }
  return schedule;
}

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
