// The schedule a kernel gets without search: must already be good.
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

}  // namespace heddle
