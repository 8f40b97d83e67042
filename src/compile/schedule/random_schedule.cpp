// Legal schedules drawn at random: what fuzzing and search begin with.
#include <algorithm>
#include <functional>

#include "base/hash.h"
#include "compile/loops/contraction.h"
#include "compile/loops/online.h"
#include "compile/schedule/matrix_simt.h"
#include "compile/schedule/schedule.h"
#include "compile/schedule/warp_simt.h"

namespace heddle {
namespace {

std::vector<int64_t> extents_of(const std::vector<Axis>& axes) {
  std::vector<int64_t> list;
  for (const Axis& axis : axes) list.push_back(extent_of(axis));
  return list;
}

}  // namespace

void draw_division(Schedule& schedule, const Target& target, const Draw& draw) {
  StageSchedule& plan = schedule.stages[0];
  if (draw(3) == 0) plan.split = 1 + draw(4);
  if (plan.split > 1 || draw(2) != 0) return;
  schedule.persistent = 1 + draw(target.multiprocessors);
  schedule.group = 1 + draw(8);
}

namespace {

// Any tile that a matrix unit takes, with factors packed or not, for a contraction that may be one for it.
Schedule random_matrix_schedule(const Loops& loops, const Contraction& c, const Target& target, const Draw& draw) {
  Schedule schedule;
  schedule.block.assign(loops.outer.size(), 1);
  schedule.stages.resize(loops.stages.size());
  const int64_t rows = 1 + draw(2);
  schedule.block[static_cast<size_t>(c.a_axis)] = rows * kernel::kMatrixRows;
  schedule.block[static_cast<size_t>(c.b_axis)] = int64_t{64} << draw(3);
  schedule.threads = static_cast<int>((rows + 1) * kernel::kMatrixThreads);
  StageSchedule& plan = schedule.stages[0];
  plan.dot = true;
  plan.unit = StageSchedule::Unit::Matrix;
  plan.pipeline = 1 + static_cast<int>(draw(4));
  plan.loops = {{static_cast<int>(loops.outer.size()), kernel::kMatrixBytes / 2}};
  for (int operand : {0, 1})
    if (draw(2) == 0 || !factor_view(loops, loops.stages[0], c, operand))
      plan.staged.push_back({operand, Staged::Scope::Phase, 0, 0});
  draw_division(schedule, target, draw);
  return schedule;
}

}  // namespace

Schedule random_schedule(const Loops& loops, const Target& target, uint64_t seed) {
  uint64_t state = hash_mix(seed + 1);
  auto draw = [&](int64_t count) {
    state = hash_mix(state + 0x9e3779b97f4a7c15ull);
    return static_cast<int64_t>(state % static_cast<uint64_t>(std::max<int64_t>(count, 1)));
  };
  const std::vector<int64_t> outer_extents = extents_of(loops.outer);
  std::vector<std::vector<int64_t>> inner_extents;  // per stage
  for (const Stage& stage : loops.stages) inner_extents.push_back(extents_of(stage.inner));
  int outer = static_cast<int>(outer_extents.size());
  if (auto c = find_contraction(loops, loops.stages[0]);
      c && c->is_matmul() && c->b_axis < outer && target.machine == Machine::Simt && draw(2) == 0) {
    Schedule schedule = random_matrix_schedule(loops, *c, target, draw);
    if (check(schedule, loops, target).empty()) return schedule;
    for (int attempt = 0; attempt < 4 && find_instruction(target, MatrixLayout::Fragments); ++attempt) {
      schedule = random_warp_schedule(loops, *c, target, draw);
      if (check(schedule, loops, target).empty()) return schedule;
    }
  }
  std::optional<Axis> common = common_axis(loops);
  const bool online = target.machine == Machine::Simd && find_online(loops).has_value();
  // Draws until one is legal; the plainest schedule always is.
  for (int attempt = 0; attempt < 50; ++attempt) {
    Schedule schedule;
    schedule.threads = target.machine == Machine::Simt ? target.warp << draw(4) : 1;
    int64_t budget = target.machine == Machine::Simt ? 4096 : 1 << 15;
    for (int64_t extent : outer_extents) {
      int64_t size = std::min({extent, budget, int64_t{1} << draw(9)});
      if (draw(3) == 0) size = std::min({extent, budget, 1 + draw(40)});
      schedule.block.push_back(size);
      budget /= size;
    }
    std::vector<std::vector<int64_t>> inner = inner_extents;
    if (online && draw(2) == 0) {
      schedule.chunk = 1 + draw(std::min<int64_t>(extent_of(*common), 100));
      schedule.parts = draw(2) ? 1 : 1 + draw(4);
      for (size_t s = 0; s < loops.stages.size(); ++s)
        for (size_t i = 0; i < inner[s].size(); ++i)
          if (loops.stages[s].inner[i].var == common->var) inner[s][i] = schedule.chunk;
    }
    for (size_t s = 0; s < loops.stages.size(); ++s) {
      StageSchedule plan;
      plan.joined = s > 0 && draw(4) != 0;
      plan.stream = draw(4) == 0;
      auto contraction = find_contraction(loops, loops.stages[s]);
      plan.dot = contraction && inner_extents[s].size() > loops.stages[s].kept && draw(3) != 0;
      if (plan.joined) {
        size_t first = s - 1;
        while (first > 0 && schedule.stages[first].joined) --first;
        bool split = first == 0 && schedule.stages[0].split > 1;
        for (const Level& level : schedule.stages[first].loops) {
          if (split || level.axis >= outer) break;
          plan.loops.push_back(level);
        }
      } else if (outer > 0 && draw(2) == 0) {
        size_t axis = static_cast<size_t>(draw(outer));
        for (int64_t step = schedule.block[axis] / 2; step >= 1; --step)
          if (schedule.block[axis] % step == 0) {
            plan.loops.push_back({static_cast<int>(axis), step});
            break;
          }
      }
      for (size_t i = 0; i < inner_extents[s].size(); ++i) {
        int64_t extent = inner[s][i];
        if (extent > 64 || draw(2) == 0)
          plan.loops.push_back({outer + static_cast<int>(i), 1 + draw(std::min<int64_t>(extent, 100))});
      }
      if (loops.stages[s].combine && target.machine == Machine::Simt && inner_extents[s].size() == 1 && draw(2) == 0) {
        plan.atomic = true;
        plan.joined = false;
        plan.loops.clear();
        for (int64_t step = inner[s][0]; plan.loops.empty() || draw(2) == 0; step = plan.loops.back().step)
          plan.loops.push_back({outer, 1 + draw(std::min<int64_t>(std::max<int64_t>(step, 1), 300))});
        if (draw(2) == 0) plan.split = 1 + draw(5);
      } else if (loops.stages[s].ordered) {
        for (size_t i = 0; i < inner_extents[s].size(); ++i) plan.loops.push_back({outer + static_cast<int>(i), 1});
        if (draw(2) == 0) plan.split = 1 + draw(5);
      }
      if (plan.loops.size() > 1 && draw(3) == 0)
        std::swap(plan.loops[0], plan.loops[static_cast<size_t>(draw(static_cast<int64_t>(plan.loops.size())))]);
      if (s == 0 && loops.stages[0].reducer && draw(3) == 0) plan.split = 1 + draw(5);
      if (s == 0 && has_scan(loops.stages[0]) && draw(3) == 0) plan.split = 1 + draw(5);
      const bool words = plan.dot && s == 0 && draw(2) == 0 && narrow_factor(loops, loops.stages[s], contraction->a) &&
                         narrow_factor(loops, loops.stages[s], contraction->b);
      if (words) {
        plan.unit = StageSchedule::Unit::Packed;
        plan.split = 1;
        for (Level& level : plan.loops)
          if (level.axis >= outer && level.step > 1) level.step = std::max<int64_t>(4, level.step / 4 * 4);
      }
      if (plan.dot && s == 0)
        for (int operand = 0; operand < 2; ++operand) {
          if (!words && draw(2) == 0) continue;
          Staged staged;
          staged.operand = operand;
          staged.scope = draw(2) ? Staged::Scope::Phase : Staged::Scope::Block;
          staged.depth = static_cast<int>(draw(static_cast<int64_t>(plan.loops.size()) + 1));
          int axis = operand == 0 ? contraction->a_axis : contraction->b_axis;
          if (axis >= 0 && (words || draw(2))) {
            int64_t size = axis < outer ? schedule.block[static_cast<size_t>(axis)]
                                        : inner_extents[s][static_cast<size_t>(axis - outer)];
            for (const Level& level : plan.loops)
              if (level.axis == axis) size = level.step;
            staged.panel = size;
          }
          plan.staged.push_back(staged);
        }
      schedule.stages.push_back(plan);
    }
    if (check(schedule, loops, target).empty()) return schedule;
  }
  return default_schedule(loops, target);
}

}  // namespace heddle
