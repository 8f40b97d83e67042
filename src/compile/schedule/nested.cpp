// A block takes a few rows of an outer axis through all stages; what stages keep waits in shared memory.
//
//   scores     rows of the kept axis, a few at a time, against all rows of the block, which are packed so that they lie
//              side by side: vectors run across them
//   statistics a vector of rows at a time, with what is kept for the sums that follow
//   sums       a chunk of the common axis at a time, so that both factors stay in the L1 cache
#include "compile/schedule/nested.h"

#include <algorithm>

#include "compile/loops/online.h"
#include "compile/schedule/schedule.h"

namespace heddle {

int64_t kept_room(const Schedule& schedule, const Loops& loops, size_t s, size_t i, bool common) {
  const int64_t size = common ? schedule.chunks->size : extent_of(loops.stages[s].inner[i]);
  for (const Level& level : schedule.stages[s].loops)
    if (static_cast<size_t>(level.axis) == loops.outer.size() + i) return round_up(size, level.step);
  return size;
}

std::string check_kept_simt(const Schedule& schedule, const Loops& loops, const Target& target) {
  if (target.machine != Machine::Simt || !is_nested(loops) || schedule.chunks) return "";
  int64_t kept = 0, largest = 0;
  for (size_t s = 0; s < loops.stages.size(); ++s) {
    const Stage& stage = loops.stages[s];
    int64_t block = 1, results = 0, tile = 1;
    for (int64_t size : schedule.block) block *= size;
    for (kernel::Value v : stage.results) results += size_of(loops.dtype(v));
    for (size_t i = 0; i < stage.kept; ++i) results *= kept_room(schedule, loops, s, i, false);
    for (int64_t size : tile_of(schedule, loops, s)) tile = std::min(tile * size, target.shared_bytes);
    kept += results * block;
    largest = std::max(largest, tile * 4 * (schedule.stages[s].is<RegisterContraction>() ? 2 : 1));
  }
  if (kept > target.shared_bytes / 2) return text(kept, " bytes of shared memory for what stages keep");
  if (largest > target.shared_bytes / 8) return text("tiles of ", largest, " bytes in nested loops");
  return "";
}

void change_chunks(Schedule& schedule, const Target& target, const RandomBelow& draw) {
  constexpr int64_t kChunks[] = {0, 128, 256, 512, 1024, 2048};
  const int64_t parts[] = {1, 1, 2, target.cores, 2 * target.cores, 16};
  const int64_t size = kChunks[draw(std::size(kChunks))];
  schedule.chunks.reset();
  if (size > 0) schedule.chunks = {size, parts[draw(std::size(parts))]};
}

namespace {

// Rows of a block, about, and elements of the common axis that a sum takes at a time.
constexpr int64_t kNestedRows = 48, kSumChunk = 128;
// The same where vectors run across the rows: sums are scattered at the end of each chunk, so it is longer.
constexpr int64_t kAcrossChunk = 512;
// Elements of the common axis that all stages take at a time.
constexpr int64_t kCommonChunk = 1024;
// For few rows, elements of the common axis that a sum takes at a time: whole rows of the other factor stay in the L1
// cache.
constexpr int64_t kFewRowsStep = 32;
constexpr int64_t kWantedBlocks = 16;

// Whether a later stage reduces over the axis: such results lie row by row of it.
bool reduced_later(const Loops& loops, const Expr& var) {
  return std::ranges::any_of(loops.stages, [&](const Stage& stage) { return reduces_along(stage, var); });
}

// A sum of products along one axis.
std::optional<Contraction> over_one_axis(const Loops& loops, const Stage& stage) {
  return stage.inner.size() == stage.kept + 1 ? find_contraction(loops, stage) : std::nullopt;
}

// Whether what the value loads has neighbours elsewhere than along the axis: vectors of it would be gathered.
bool lies_across(const Stage& stage, kernel::Value v, const Axis& axis) {
  const kernel::Inst* made = definition(stage, v);
  if (made && made->op == kernel::Op::cast) made = definition(stage, made->args[0]);
  if (!made || made->op != kernel::Op::load || !made->binds.empty()) return false;
  const std::optional<Linear> along = linear_in(made->address, axis.var);
  return along && along->coefficient != 1;
}

// Parts of a long axis for every core, where there are few blocks.
void divide_long_rows(Schedule& schedule, const Loops& loops) {
  if (!schedule.chunks) return;
  const auto blocks = static_cast<int64_t>(blocks_of(schedule, sizes_of(loops)));
  const int64_t chunks = extent_of(*common_axis(loops)) / schedule.chunks->size;
  if (2 * blocks <= kWantedBlocks)
    schedule.chunks->parts = std::clamp<int64_t>(kWantedBlocks / blocks, 1, std::max<int64_t>(chunks / 2, 1));
}

// A block takes one row, or the few that meet the same factors: those are read once, at the speed of memory, and
// vectors run along the common axis, or along what is kept.
void schedule_few_rows(Schedule& schedule, const Loops& loops, const Target& target, size_t row) {
  const size_t outer = loops.outer.size();
  const int64_t lanes = target.vector_bytes / 4, sums = target.vector_registers >= 32 ? 24 : 12;
  const int64_t rows = row < outer ? extent_of(loops.outer[row]) : 1;
  std::optional<Axis> common = common_axis(loops);
  if (row < outer) schedule.block[row] = rows;
  const bool online = find_online(loops).has_value();
  const int irow = static_cast<int>(row);
  if (online) schedule.chunks = {std::min(kCommonChunk, round_up(extent_of(*common), 4 * lanes))};
  divide_long_rows(schedule, loops);
  for (size_t s = 0; s < loops.stages.size(); ++s) {
    const Stage& stage = loops.stages[s];
    StageSchedule& plan = schedule.stages[s];
    const std::optional<Contraction> c = over_one_axis(loops, stage);
    const int first = static_cast<int>(outer), reduced = first + static_cast<int>(stage.kept);
    const bool keeps_common = stage.kept > 0 && common && stage.inner[0].var == common->var;
    const int64_t length = !common ? 0 : online ? schedule.chunks->size : extent_of(*common);
    if (stage.reducer && keeps_common && stage.kept == 1) {
      // Rows of the factor, a few at a time.
      plan.loops = {{first, std::min<int64_t>(lanes, length)}};
      if (rows > 1) plan.loops.push_back({irow, 1});
    } else if (stage.reducer && stage.kept == 1 && common && stage.inner[1].var == common->var) {
      if (c && c->is_matmul() && rows > 1) plan.strategy = RegisterContraction{};
      const int64_t wide = std::min<int64_t>(8 * lanes, extent_of(stage.inner[0]));
      int64_t high = std::max<int64_t>(sums / pieces(wide, lanes), 1);
      while (rows % high != 0) --high;
      plan.loops = {{reduced, std::min(kFewRowsStep, length)}};
      if (wide < extent_of(stage.inner[0])) plan.loops.push_back({first, wide});
      if (high < rows) plan.loops.push_back({irow, high});
    } else {
      if (row < outer && rows > 1) plan.loops = {{static_cast<int>(row), 1}};
      plan.joined = s > 0 && !stage.inner.empty() && loops.stages[s - 1].inner.size() == 1 &&
                    !schedule.stages[s - 1].is<RegisterContraction>() &&
                    schedule.stages[s - 1].loops.size() == plan.loops.size();
    }
  }
}

}  // namespace

bool nest_pays(const Schedule& schedule, const Loops& loops, const Target& target) {
  constexpr double kMost = 1 << 23;  // products; twice as many take an H200 some 90 us longer than through memory
  return target.machine != Machine::Simt || schedule.chunks || sizes_of(loops).points <= kMost;
}

Schedule nested_schedule(const Loops& loops, const Target& target) {
  const size_t outer = loops.outer.size();
  const bool simd = target.machine == Machine::Simd;
  Schedule schedule = plain_schedule(loops);
  schedule.threads = simd ? 1 : 256;
  for (StageSchedule& plan : schedule.stages) plan.joined = false;
  // The rows: what the computed factor of a sum follows.
  size_t row = outer > 0 ? outer - 1 : 0;
  bool multiplies = false;
  for (const Stage& stage : loops.stages)
    if (auto c = stage.kept > 0 ? find_contraction(loops, stage) : std::nullopt; c && c->is_matmul()) {
      row = static_cast<size_t>(c->a_axis) < outer ? static_cast<size_t>(c->a_axis) : row;
      multiplies = true;
    }
  const int64_t lanes = simd ? target.vector_bytes / 4 : 4;
  const int64_t rows = outer > 0 ? extent_of(loops.outer[row]) : 1;
  if (!simd) {
    if (schedule_nested_unit(schedule, loops, target)) return schedule;
    // Small tiles: everything waits in shared memory.
    constexpr int64_t kTile = 512;
    const Sizes sizes = sizes_of(loops);
    for (size_t s = 0; s < loops.stages.size(); ++s)
      loop_inner(schedule.stages[s], sizes.inner[s], outer, kTile, kTile);
    return schedule;
  }
  if (rows <= kFewNestedRows || !multiplies) {
    schedule_few_rows(schedule, loops, target, multiplies && outer > 0 ? row : outer);
    return schedule;
  }
  // So many rows are a few vectors beside each other, and so many vectors of sums stay in registers.
  const int64_t beside = 3 * lanes, sums = target.vector_registers >= 32 ? 24 : 12;
  int64_t per_row = 0;  // bytes that are kept
  for (const Stage& stage : loops.stages)
    if (stage.kept > 0 && reduced_later(loops, stage.inner[0].var)) per_row += 4 * extent_of(stage.inner[0]);
  int64_t block = round_up(kNestedRows, beside);
  if (block * per_row > target.l2_bytes && find_online(loops)) {
    // Chunks in place of fewer rows.
    schedule.chunks = {kCommonChunk};
    per_row = per_row / extent_of(*common_axis(loops)) * kCommonChunk;
  }
  while (block > beside && block * per_row > target.l2_bytes) block -= beside;
  while (block > lanes && block * per_row > target.l2_bytes) block -= lanes;
  block = std::min(block, round_up(rows, lanes));
  if (block > beside) block = block / beside * beside;
  const int64_t together = std::min(block, beside);
  schedule.block[row] = block;
  divide_long_rows(schedule, loops);
  const int irow = static_cast<int>(row);
  for (size_t s = 0; s < loops.stages.size(); ++s) {
    const Stage& stage = loops.stages[s];
    StageSchedule& plan = schedule.stages[s];
    const std::optional<Contraction> c = over_one_axis(loops, stage);
    const bool product = c && c->is_matmul() && stage.kept == 1;
    const int64_t length = !product ? 0 : schedule.chunks ? schedule.chunks->size : extent_of(stage.inner[1]);
    const int first = static_cast<int>(outer), reduced = first + static_cast<int>(stage.kept);
    if (product && reduced_later(loops, stage.inner[0].var)) {
      RegisterContraction& contraction = plan.strategy.emplace<RegisterContraction>();
      plan.loops = {{first, std::min(sums / (together / lanes), extent_of(stage.inner[0]))}};
      if (together < block) plan.loops.push_back({irow, together});
      if (c->a_axis == irow) contraction.left = {Staged::Scope::Block, 0, together};
    } else if (product && together == block && c->a_axis == irow && lies_across(stage, c->b, stage.inner[0])) {
      // A weight of rows of inputs: its elements one by one, against vectors of rows.
      plan.strategy = RegisterContraction{};
      const int64_t high = std::min(sums / (together / lanes), extent_of(stage.inner[0]));
      if (length > kAcrossChunk) plan.loops.push_back({reduced, kAcrossChunk});
      if (high < extent_of(stage.inner[0])) plan.loops.push_back({first, high});
    } else if (product) {
      plan.strategy = RegisterContraction{};
      int64_t chunk = std::min(kSumChunk, length);
      int64_t wide = std::min<int64_t>(4 * lanes, extent_of(stage.inner[0]));
      int64_t high = std::min(sums / pieces(wide, lanes), block);
      while (block % high != 0) --high;
      plan.loops = {{reduced, chunk}, {first, wide}, {irow, high}};
      if (extent_of(stage.inner[0]) == wide) plan.loops.erase(plan.loops.begin() + 1);
      if (chunk == length) plan.loops.erase(plan.loops.begin());
    } else if (stores(stage) && !stage.inner.empty()) {
      plan.loops = {{irow, 1}};
    } else {
      // Statistics, the stores of them, and what is kept beside them.
      plan.loops = {{irow, lanes}};
      const StageSchedule* before = s > 0 ? &schedule.stages[s - 1] : nullptr;
      plan.joined = before && !before->is<RegisterContraction>() && before->loops == plan.loops;
    }
  }
  return schedule;
}

}  // namespace heddle
