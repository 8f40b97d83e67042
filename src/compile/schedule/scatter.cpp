#include "compile/schedule/scatter.h"

#include <algorithm>

#include "compile/schedule/schedule.h"

namespace heddle {
namespace {

std::string check_places(int64_t parts, const Site& at) {
  if (parts < 1) return at.problem(parts, " parts");
  const bool divided = parts == 1 || !at.stage().places.is_const(1);
  return divided ? "" : text("stage ", at.s, " cannot be split");
}

// By atomic operations: tiles of about kTile updates, along the axis whose elements are neighbours in memory
// first, then along the updates, then along other axes.
void schedule_atomic(Schedule& schedule, const Loops& loops, const Sizes& sizes, const Target& target) {
  constexpr int64_t kTile = 1024, kMostTiles = 8;
  const size_t rank = sizes.outer.size(), last = loops.stages.size() - 1;
  const std::vector<double> score = unit_strides(loops, loops.stages[last]);
  const int64_t updates = sizes.inner[last][0], wanted = 4 * static_cast<int64_t>(target.multiprocessors);
  int64_t width = 1;
  auto take = [&](size_t axis) {
    schedule.block[axis] = std::clamp<int64_t>(kTile / width, 1, sizes.outer[axis]);
    width *= schedule.block[axis];
  };
  for (size_t i = rank; i-- > 0;)
    if (score[i] > 0 && sizes.outer[i] > 1) {
      take(i);
      break;
    }
  const int64_t step = std::clamp<int64_t>(kTile / width, 1, updates);
  width *= step;
  for (size_t i = rank; i-- > 0;)
    if (schedule.block[i] == 1) take(i);
  const auto blocks = static_cast<int64_t>(blocks_of(schedule, sizes));
  const int64_t tiles = pieces(updates, step);
  const int64_t each = std::clamp<int64_t>(tiles * blocks / wanted, 1, std::min(kMostTiles, tiles));
  StageSchedule& plan = schedule.stages[last];
  AtomicScatter& scatter = plan.strategy.emplace<AtomicScatter>();
  plan.joined = false;
  plan.loops.push_back({static_cast<int>(rank), step * each});
  if (each > 1) plan.loops.push_back({static_cast<int>(rank), step});
  // The base: rows of places, divided where there are few other axes.
  const int64_t rows = width / step;
  for (size_t s = 0; s < last; ++s)
    loop_inner(schedule.stages[s], sizes.inner[s], rank, std::max<int64_t>(kWholeRow / rows, 1),
               std::max<int64_t>(kRowPiece / rows, 1));
  const int64_t places = loops.stages[last].places.hi();
  if (last == 0 || places <= 1) return;  // of a scatter in place nothing is left to divide
  scatter.parts = std::clamp<int64_t>(std::min(wanted / blocks, places * rows / kTile), 1, places);
}

constexpr int64_t kMostCopies = 16;

// Why the last stage cannot have private copies; empty if it can.
std::string check_private(const Loops& loops) {
  const Stage& last = loops.stages.back();
  if (!last.combine || last.inner.size() != 1) return "it has no updates that combine in any order";
  const DType dtype = loops.buffers[last.body.insts.back().buffer].dtype;
  if (is_float(dtype) && size_of(dtype) < 4) return "each of its sums is rounded to a small float";
  if (loops.stages.size() != 2) return "there is no base that copies could be added to";
  auto fixed = [](const Axis& axis) { return axis.extent.is_const(); };
  const bool known = std::ranges::all_of(loops.outer, fixed) && std::ranges::all_of(last.inner, fixed);
  return known && last.places.is_const() ? "" : "copies of unknown size";
}

// Places that are more than read are computed a batch at a time, by vectors; the updates still go one by one.
void take_batches(StageSchedule& plan, const Loops& loops, const Sizes& sizes, size_t updates_axis) {
  constexpr int64_t kBatch = 256, kFewOps = 8;
  const Stage& stage = loops.stages.back();
  if (stage.inner.size() != 1 || sizes.inner.back()[0] < 2 * kBatch) return;
  const int64_t ops = std::ranges::count_if(stage.body.insts, [](const kernel::Inst& inst) {
    return kernel::is_scalar_op(inst.op) || inst.op == kernel::Op::cast;
  });
  if (ops > kFewOps) plan.loops.push_back({static_cast<int>(updates_axis), kBatch});
}

// Into how many copies: each must take many more updates than it has elements, for it is written and read once more.
// Nothing here depends on the number of cores, and so no result does, unless a schedule was searched for. Few copies of
// long rows would leave many cores idle, where looking at all indices costs little.
int64_t private_copies(const Loops& loops, const Sizes& sizes, bool long_rows) {
  constexpr double kForTwo = 6, kForEach = 12, kFewUpdates = 1 << 15;  // updates of each element
  if (!check_private(loops).empty()) return 1;
  const double updates = static_cast<double>(sizes.inner.back()[0]) * sizes.rows;
  const double elements = static_cast<double>(loops.stages.back().places.value()) * sizes.rows;
  if (updates < kFewUpdates || updates < kForTwo * elements) return 1;
  const auto copies = static_cast<int64_t>(std::min(updates / (kForEach * elements), double{kMostCopies}));
  return long_rows && copies < kMostCopies / 2 ? 1 : std::max<int64_t>(copies, 2);
}

}  // namespace

std::string check(const Scatter& scatter, const Site& at) {
  if (!at.stage().ordered) return at.problem("it scatters nothing");
  for (size_t i = at.loops.outer.size(); i < at.tile.size(); ++i)
    if (at.tile[i] != 1) return text("stage ", at.s, " is ordered but takes ", at.tile[i], " updates at a time");
  return check_places(scatter.parts, at);
}

std::string check(const AtomicScatter& scatter, const Site& at) {
  const StageSchedule& plan = at.plan();
  if (!at.simt()) return at.problem("atomic updates on a SIMD machine");
  if (!at.stage().combine) return text("stage ", at.s, " has no updates that combine in any order");
  if (at.stage().inner.size() != 1 || plan.joined || plan.loops.empty() ||
      static_cast<size_t>(plan.loops[0].axis) != at.loops.outer.size())
    return at.problem("atomic updates need a loop over them, and a nest of their own");
  return check_places(scatter.parts, at);
}

std::string check(const PrivateScatter& scatter, const Site& at) {
  if (at.simt()) return at.problem("private copies on a SIMT machine");
  if (!at.stage().ordered) return at.problem("it scatters nothing");
  if (std::string why = check_private(at.loops); !why.empty()) return at.problem(why);
  if (at.plan().joined || at.tile.back() != 1) return at.problem("private copies need a nest of updates one by one");
  const bool some = scatter.parts >= 2 && scatter.parts <= kMostCopies;
  return some ? "" : at.problem(scatter.parts, " private copies");
}

void change(PrivateScatter& scatter, const Site& at, const RandomBelow& draw) {
  scatter.parts = std::clamp<int64_t>(draw_parts(scatter.parts, at.target, draw), 2, kMostCopies);
}

void draw_loops(const Scatter&, StageSchedule& plan, const Site& at, const RandomBelow&) {
  for (size_t i = at.loops.outer.size(); i < at.tile.size(); ++i) plan.loops.push_back({static_cast<int>(i), 1});
}

void draw_loops(const AtomicScatter&, StageSchedule& plan, const Site& at, const RandomBelow& draw) {
  plan.joined = false;
  plan.loops.clear();
  const int updates = static_cast<int>(at.loops.outer.size());
  for (int64_t step = extent_of(at.stage().inner[0]); plan.loops.empty() || draw(2) == 0; step = plan.loops.back().step)
    plan.loops.push_back({updates, 1 + draw(std::min<int64_t>(step, 300))});
}

void draw_loops(const PrivateScatter&, StageSchedule& plan, const Site& at, const RandomBelow&) {
  plan.joined = false;
  plan.loops.assign(1, {static_cast<int>(at.loops.outer.size()), 1});
}

// Tiles run along the axis whose elements are neighbours in memory, updates go one after the other. With too
// few other axes to fill the machine, the places are divided.
void schedule_scatter(Schedule& schedule, const Loops& loops, const Sizes& sizes, const Target& target) {
  if (target.machine == Machine::Simt && loops.stages.back().combine && loops.stages.back().inner.size() == 1)
    return schedule_atomic(schedule, loops, sizes, target);
  constexpr int64_t kWideTile = 1024, kPointsPerBlock = 1 << 14, kSmallScatter = 1 << 15, kLongRow = 2048;
  bool simd = target.machine == Machine::Simd;
  size_t rank = sizes.outer.size(), last = loops.stages.size() - 1;
  std::vector<double> score = unit_strides(loops, loops.stages[last]);
  size_t along = rank;
  for (size_t i = 0; i < rank; ++i)
    if (score[i] > 0 && sizes.outer[i] > 1) along = i;
  int64_t width = along < rank ? std::min(sizes.outer[along], kWideTile) : 1;
  double per_row = static_cast<double>(width);
  double points = sizes.points / sizes.rows * per_row;  // of a block of one row
  if (along < rank) schedule.block[along] = width;
  for (size_t i = rank; i-- > 0;) {
    if (i == along) continue;
    schedule.block[i] = std::clamp<int64_t>(static_cast<int64_t>(kPointsPerBlock / points), 1, sizes.outer[i]);
    points *= static_cast<double>(schedule.block[i]);
    if (schedule.block[i] < sizes.outer[i]) break;
  }
  for (size_t i = 0; i < rank; ++i) {
    if (i == along || schedule.block[i] == 1) continue;
    for (StageSchedule& plan : schedule.stages) plan.loops.push_back({static_cast<int>(i), 1});
  }
  for (size_t s = 0; s < last; ++s) {
    std::vector<Level> outer = std::move(schedule.stages[s].loops);
    schedule.stages[s].loops.clear();
    loop_inner(schedule.stages[s], sizes.inner[s], rank, std::max<int64_t>(kWholeRow / width, 1),
               std::max<int64_t>(kRowPiece / width, 1));
    schedule.stages[s].loops.insert(schedule.stages[s].loops.begin(), outer.begin(), outer.end());
  }
  StageSchedule& plan = schedule.stages[last];
  if (simd) take_batches(plan, loops, sizes, rank);
  for (size_t i = 0; i < sizes.inner[last].size(); ++i) plan.loops.push_back({static_cast<int>(rank + i), 1});
  const double blocks = blocks_of(schedule, sizes);
  // Every part looks at all indices. That costs as much as 40 bytes of a row; more parts than cores, which even out
  // the work, pay for long rows only.
  int64_t row_bytes = width * size_of(loops.buffers[loops.stages[0].body.insts.back().buffer].dtype);
  double wanted = !simd ? 1.0 * target.multiprocessors : row_bytes < kLongRow ? target.cores : 2.0 * target.cores;
  const int64_t places = loops.stages[last].places.hi();
  if (const int64_t copies =
          simd && blocks * 2 <= kMostCopies ? private_copies(loops, sizes, row_bytes >= kLongRow) : 1;
      copies > 1) {
    plan.strategy = PrivateScatter{copies};
    plan.joined = false;
    return;
  }
  if (sizes.points < kSmallScatter || blocks * 2 > wanted || places <= 1) return;
  std::get<Scatter>(plan.strategy).parts = std::clamp<int64_t>(static_cast<int64_t>(wanted / blocks), 1, places);
}

}  // namespace heddle
