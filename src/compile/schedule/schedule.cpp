// Legality of schedules: what all strategies ask of loops, and each of its own stage.
#include "compile/schedule/schedule.h"

#include <algorithm>

#include "compile/loops/online.h"

namespace heddle {

Site site_of(const Schedule& schedule, const Loops& loops, const Target& target, size_t s) {
  return {schedule, loops, target, s, tile_of(schedule, loops, s)};
}

const StageSchedule& Site::plan() const { return schedule.stages[s]; }

int64_t StageSchedule::parts() const {
  return std::visit(
      [](const auto& of) -> int64_t {
        if constexpr (requires { of.parts; })
          return of.parts;
        else
          return 1;
      },
      strategy);
}

namespace {

// Elements of each axis that all loops of the stage cover.
std::vector<int64_t> covered(const Schedule& schedule, const Loops& loops, size_t s) {
  std::vector<int64_t> size = schedule.block;
  const std::optional<Axis> common = schedule.chunks ? common_axis(loops) : std::nullopt;
  for (const Axis& axis : loops.stages[s].inner)
    size.push_back(common && common->var == axis.var ? schedule.chunks->size : axis.extent.hi());
  return size;
}

std::string check_loops(const Site& at) {
  const size_t outer = at.loops.outer.size();
  std::vector<int64_t> size = covered(at.schedule, at.loops, at.s);
  std::vector<bool> seen(size.size(), false);
  bool inside = false;
  for (const Level& level : at.plan().loops) {
    const auto axis = static_cast<size_t>(level.axis);
    if (level.axis < 0 || axis >= size.size()) return text("stage ", at.s, " has no axis ", level.axis);
    if (level.step < 1 || level.step > std::max<int64_t>(size[axis], 1))
      return at.problem("a step of ", level.step, " in ", size[axis], " elements");
    const bool divides = size[axis] % level.step == 0, kept = axis >= outer && axis < outer + at.stage().kept;
    if (axis < outer && !divides) return at.problem("outer steps of ", level.step, " do not divide ", size[axis]);
    if (kept && seen[axis] && !divides)
      return at.problem("steps of ", level.step, " along a kept axis do not divide ", size[axis]);
    if (axis < outer && inside) {
      if (at.plan().joined) return text("stage ", at.s, " is joined but has outer loops of its own");
      if (at.s + 1 < at.schedule.stages.size() && at.schedule.stages[at.s + 1].joined)
        return text("stage ", at.s + 1, " cannot join loops that are inside a reduction");
    }
    inside = inside || axis >= outer;
    seen[axis] = true;
    size[axis] = level.step;
  }
  return "";
}

// A joined stage has the outer loops of the first one of its nest.
std::string check_joined(const Site& at) {
  if (!at.plan().joined) return "";
  if (at.s == 0) return "stage 0 has none before it to join";
  const size_t first = first_of_nest(at.schedule, at.s);
  auto outer_levels = [&](size_t s) {
    std::vector<Level> list;
    for (const Level& level : at.schedule.stages[s].loops) {
      if (static_cast<size_t>(level.axis) >= at.loops.outer.size()) break;
      list.push_back(level);
    }
    return list;
  };
  if (first == 0 && at.schedule.stages[0].parts() > 1) return "";
  const std::vector<Level> theirs = outer_levels(first), mine = outer_levels(at.s);
  if (mine.size() < theirs.size() || !std::equal(theirs.begin(), theirs.end(), mine.begin()))
    return text("stage ", at.s, " is joined but its outer loops differ");
  if (at.stage().reducer && mine.size() != theirs.size())
    return at.problem("a joined reduction cannot add outer loops");
  return "";
}

// A matrix unit of a SIMT machine walks an axis of unknown size by itself.
std::string check_unknown_sizes(const Site& at) {
  if (at.plan().is<MatrixContraction>() || (at.simt() && at.schedule.chunks)) return "";
  const size_t outer = at.loops.outer.size();
  for (size_t i = 0; i < at.stage().inner.size(); ++i) {
    const Expr& extent = at.stage().inner[i].extent;
    if (!extent.is_const() && at.tile[outer + i] == extent.hi() && extent.hi() > 1 << 16)
      return at.problem("an axis of unknown size needs a loop");
  }
  return "";
}

}  // namespace

size_t first_of_nest(const Schedule& schedule, size_t s) {
  while (s > 0 && schedule.stages[s].joined) --s;
  return s;
}

std::vector<int64_t> tile_of(const Schedule& schedule, const Loops& loops, size_t s) {
  std::vector<int64_t> size = covered(schedule, loops, s);
  for (const Level& level : schedule.stages[s].loops)
    if (const auto axis = static_cast<size_t>(level.axis); axis < size.size()) size[axis] = level.step;
  return size;
}

std::string check(const Schedule& schedule, const Loops& loops, const Target& target) {
  if (schedule.block.size() != loops.outer.size())
    return text(schedule.block.size(), " block sizes for ", loops.outer.size(), " axes");
  if (schedule.stages.size() != loops.stages.size())
    return text(schedule.stages.size(), " stages instead of ", loops.stages.size());
  for (int64_t size : schedule.block)
    if (size < 1) return text("a block of ", size, " elements");
  if (schedule.threads < 1 || schedule.threads > target.max_threads) return text(schedule.threads, " threads");
  if (target.machine == Machine::Simd && schedule.threads != 1) return "threads inside a block on a SIMD machine";
  if (std::string problem = check_chunks(schedule, loops, target); !problem.empty()) return problem;
  for (size_t s = 0; s < loops.stages.size(); ++s) {
    const Site at = site_of(schedule, loops, target, s);
    std::string problem = check_loops(at);
    if (problem.empty()) problem = check_joined(at);
    if (problem.empty()) problem = std::visit([&](const auto& of) { return check(of, at); }, at.plan().strategy);
    if (problem.empty()) problem = check_unknown_sizes(at);
    if (!problem.empty()) return problem;
  }
  return check_kept_simt(schedule, loops, target);
}

}  // namespace heddle
