// Legal schedules drawn at random: what fuzzing and search begin with.
#include <algorithm>

#include "base/hash.h"
#include "compile/loops/online.h"
#include "compile/schedule/schedule.h"

namespace heddle {

std::vector<Strategy> strategies_for(const Loops& loops, size_t s, const Target& target) {
  const Stage& stage = loops.stages[s];
  const bool simt = target.machine == Machine::Simt;
  std::vector<Strategy> list = {plain_schedule(loops).stages[s].strategy};
  if (stage.combine && simt && stage.inner.size() == 1) list.push_back(AtomicScatter{});
  if (stage.combine && !simt && s == 1) list.push_back(PrivateScatter{});
  if (!stage.reducer) return list;
  if (s == 0 && !is_nested(loops)) list.push_back(SplitReduction{2});
  const std::optional<Contraction> c = find_contraction(loops, stage);
  if (!c || stage.inner.size() == stage.kept) return list;
  list.push_back(RegisterContraction{});
  if (s == 0 && !simt && narrow_factor(loops, stage, c->a) && narrow_factor(loops, stage, c->b))
    list.push_back(PackedContraction{});
  return list;
}

int64_t draw_parts(int64_t parts, const Target& target, const RandomBelow& draw) {
  const int64_t cores = std::max(1, target.cores);
  const int64_t choices[] = {1, 2, 3, 5, cores, 2 * cores, 4 * cores, 16, parts * 2, std::max<int64_t>(1, parts / 2)};
  return choices[draw(std::size(choices))];
}

namespace {

void draw_shared_loops(Schedule& schedule, const Loops& loops, size_t s, const RandomBelow& draw) {
  StageSchedule& plan = schedule.stages[s];
  const int outer = static_cast<int>(loops.outer.size());
  if (plan.joined) {
    const size_t first = first_of_nest(schedule, s);
    const bool split = first == 0 && schedule.stages[0].parts() > 1;
    for (const Level& level : schedule.stages[first].loops) {
      if (split || level.axis >= outer) break;
      plan.loops.push_back(level);
    }
  } else if (outer > 0 && draw(2) == 0) {
    const auto axis = static_cast<size_t>(draw(outer));
    int64_t step = schedule.block[axis] / 2;
    while (step > 1 && schedule.block[axis] % step != 0) --step;
    if (step >= 1) plan.loops.push_back({static_cast<int>(axis), step});
  }
  const std::vector<int64_t> tile = tile_of(schedule, loops, s);
  for (size_t i = static_cast<size_t>(outer); i < tile.size(); ++i)
    if (const int64_t extent = std::max<int64_t>(tile[i], 1); extent > 64 || draw(2) == 0)
      plan.loops.push_back({static_cast<int>(i), 1 + draw(std::min<int64_t>(extent, 100))});
}

void draw_stage(Schedule& schedule, const Loops& loops, const Target& target, size_t s, const RandomBelow& draw) {
  StageSchedule& plan = schedule.stages[s];
  auto site = [&] { return site_of(schedule, loops, target, s); };
  const std::vector<Strategy> choices = strategies_for(loops, s, target);
  plan.strategy = choices[draw(std::ssize(choices))];
  plan.joined = s > 0 && draw(4) != 0;
  draw_shared_loops(schedule, loops, s, draw);
  std::visit(
      [&](auto& of) {
        if constexpr (requires { draw_loops(of, plan, site(), draw); }) draw_loops(of, plan, site(), draw);
      },
      plan.strategy);
  if (plan.loops.size() > 1 && draw(3) == 0) std::swap(plan.loops[0], plan.loops[draw(std::ssize(plan.loops))]);
  std::visit(
      [&](auto& of) {
        for (int64_t changes = draw(4); changes > 0; --changes) change(of, site(), draw);
        if constexpr (requires { repair(of, site()); }) repair(of, site());
      },
      plan.strategy);
}

// One stage after the other; it may not be legal.
Schedule draw_schedule(const Loops& loops, const Target& target, const RandomBelow& draw) {
  Schedule schedule = plain_schedule(loops);
  const bool simt = target.machine == Machine::Simt;
  if (simt) schedule.threads = target.warp << draw(4);
  int64_t budget = simt ? 4096 : 1 << 15;
  for (size_t i = 0; i < loops.outer.size(); ++i) {
    const int64_t most = std::min(extent_of(loops.outer[i]), budget);
    schedule.block[i] = std::min(most, draw(3) == 0 ? 1 + draw(40) : int64_t{1} << draw(9));
    budget /= schedule.block[i];
  }
  if (!simt && find_online(loops) && draw(2) == 0)
    schedule.chunks = {1 + draw(std::min<int64_t>(extent_of(*common_axis(loops)), 100)),
                       draw(2) == 0 ? 1 : 1 + draw(4)};
  for (size_t s = 0; s < loops.stages.size(); ++s) draw_stage(schedule, loops, target, s, draw);
  return schedule;
}

}  // namespace

Schedule random_schedule(const Loops& loops, const Target& target, uint64_t seed) {
  uint64_t state = hash_mix(seed + 1);
  const RandomBelow draw = [&](int64_t count) {
    state = hash_mix(state + 0x9e3779b97f4a7c15ull);
    return static_cast<int64_t>(state % static_cast<uint64_t>(std::max<int64_t>(count, 1)));
  };
  auto legal = [&](const Schedule& schedule) { return check(schedule, loops, target).empty(); };
  if (auto c = find_contraction(loops, loops.stages[0]); c && c->is_matmul() &&
                                                         c->b_axis < static_cast<int>(loops.outer.size()) &&
                                                         target.machine == Machine::Simt && draw(2) == 0) {
    for (bool warps : {false, true, true, true, true}) {
      Schedule schedule = plain_schedule(loops);
      draw_matrix(schedule, loops, *c, target, warps, draw);
      if (legal(schedule)) return schedule;
    }
  }
  for (int attempt = 0; attempt < 50; ++attempt)
    if (Schedule schedule = draw_schedule(loops, target, draw); legal(schedule)) return schedule;
  return default_schedule(loops, target);
}

}  // namespace heddle
