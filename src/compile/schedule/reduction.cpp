#include "compile/schedule/reduction.h"

#include <algorithm>
#include <bit>

#include "compile/schedule/schedule.h"

namespace heddle {

std::string check_parts(int64_t parts, const Site& at) {
  if (parts < 1) return at.problem(parts, " parts");
  if (parts == 1) return "";
  if (at.s != 0 || at.stage().inner.empty() || is_nested(at.loops)) return text("stage ", at.s, " cannot be split");
  for (size_t later = 1; later < at.loops.stages.size(); ++later)
    if (at.loops.stages[later].reducer) return "a split needs the only reduction of the kernel";
  return "";
}

std::string check(const RowReduction&, const Site& at) {
  return at.stage().reducer ? "" : at.problem("it reduces nothing");
}

std::string check(const SplitReduction& reduction, const Site& at) {
  if (!at.stage().reducer) return at.problem("it reduces nothing");
  return reduction.parts == 1 ? at.problem("a split into one part") : check_parts(reduction.parts, at);
}

void change(RowReduction&, const Site&, const RandomBelow&) {}

void change(SplitReduction& reduction, const Site& at, const RandomBelow& draw) {
  reduction.parts = draw_parts(reduction.parts, at.target, draw);
}

namespace {

// Terms that one accumulator of a column adds up one after the other.
constexpr int64_t kLongestChain = 1024;

// Sums over columns of a SIMT machine: of more points than these, memory is what takes the time.
constexpr double kManyPoints = 1 << 23;

// Splits the only reduction when the grid alone has too few blocks to fill the machine.
void split_reduction(Schedule& schedule, const Loops& loops, const Sizes& sizes, const Target& target,
                     bool columns = false) {
  if (!reduces_once(loops)) return;
  const double blocks = blocks_of(schedule, sizes);
  const bool simd = target.machine == Machine::Simd;
  int64_t step = 1;
  const int outer = static_cast<int>(sizes.outer.size());
  for (const Level& level : schedule.stages[0].loops)
    if (level.axis == outer) step = level.step;
  int64_t steps = pieces(sizes.inner[0][0], step);
  double wanted = 0;
  int64_t steps_per_part = 1;
  if (!simd && columns && sizes.points <= kManyPoints) {
    // The time is that of one thread. A phase of its own for the parts takes as long as so many loads.
    constexpr double kLoads = 100;
    constexpr int64_t kTerms = 32;  // of each result, in a part
    double loads = 0;
    int64_t terms = step;
    for (const kernel::Inst& inst : loops.stages[0].body.insts) loads += inst.op == kernel::Op::load;
    for (size_t i = 1; i < sizes.inner[0].size(); ++i) terms *= sizes.inner[0][i];
    if (sizes.points * loads <= kLoads * blocks * schedule.threads) return;
    wanted = 4.0 * target.multiprocessors;
    steps_per_part = pieces(kTerms, terms);
  } else {
    if (sizes.points < 1 << 17) return;
    // A multiprocessor hides the time that memory takes behind many blocks.
    wanted = simd ? 16 : 8.0 * target.multiprocessors;
    // Every part writes its results to memory: it must read many times as much.
    if (blocks * static_cast<double>(schedule.block.empty() ? 1 : schedule.block.back()) > 1)
      steps_per_part = simd ? 16 : 4;
  }
  if (blocks * (simd ? 2 : 4) > wanted) return;
  steps /= steps_per_part;
  const auto parts = std::clamp<int64_t>(static_cast<int64_t>(wanted / blocks), 1, std::max<int64_t>(steps, 1));
  if (parts > 1) schedule.stages[0].strategy = SplitReduction{parts};
}

// Columns to walk at a time. Measured: two cache lines of each of 16 rows keep the prefetchers going; more columns or
// more rows lose 20 %. Rows that a gather picks follow no order that a prefetcher sees: of those as much as fits into
// registers, which takes half the time.
int64_t column_step(const Loops& loops, size_t column_axis, const Target& target) {
  constexpr int64_t kBytes = 128, kVectors = 8;
  int64_t size = 1;
  bool gathered = false;
  for (const kernel::Inst& inst : loops.stages[0].body.insts) {
    if (inst.op != kernel::Op::load) continue;
    const auto linear = linear_in(inst.address, loops.outer[column_axis].var);
    if (linear && linear->coefficient == 0) continue;  // one element for all columns
    size = std::max<int64_t>(size, size_of(loops.buffer(inst).dtype));
    gathered |= !inst.binds.empty();
  }
  return (gathered ? kVectors * target.vector_bytes : kBytes) / size;
}

// Reducing the columns of a wide matrix on a CPU: memory is read in order, a few whole rows at a time, and the results
// of a block wait in the L1 cache.
void schedule_wide_columns(Schedule& schedule, const Loops& loops, const Sizes& sizes, size_t column_axis,
                           const Target& target) {
  constexpr int64_t kWidest = 4096;
  // A vector times a matrix multiplies besides: half as many rows and twice as many columns gain 20 %.
  const bool product = find_contraction(loops, loops.stages[0]).has_value();
  const int64_t step = column_step(loops, column_axis, target) * (product ? 2 : 1), most_rows = product ? 8 : 16;
  int64_t columns = sizes.outer[column_axis];
  schedule.block[column_axis] = round_up(pieces(columns, pieces(columns, kWidest)), step);
  int outer = static_cast<int>(sizes.outer.size());
  StageSchedule& plan = schedule.stages[0];
  for (size_t i = 0; i < sizes.inner[0].size(); ++i)
    plan.loops.push_back(
        {outer + static_cast<int>(i), i + 1 < sizes.inner[0].size() ? 1 : std::min(most_rows, sizes.inner[0][i])});
  plan.loops.push_back({static_cast<int>(column_axis), step});
  for (size_t s = 1; s < schedule.stages.size(); ++s) schedule.stages[s].joined = s > 1;
}

// Columns of a block. Narrow ones make more blocks; wide ones are read from memory faster, and what can be split along
// its columns has blocks enough.
int64_t column_width(const Loops& loops, const Sizes& sizes, size_t column_axis, const Target& target) {
  const bool simd = target.machine == Machine::Simd, splits = reduces_once(loops);
  const bool cached = sizes.points * 4 <= static_cast<double>(target.l2_bytes) * target.cores;
  int64_t width = simd ? 256 : 128, narrowest = splits ? 32 : 16;
  double wanted = target.multiprocessors;
  if (simd) {
    if (splits || !cached || sizes.points <= 1 << 15) return width;
    narrowest = target.vector_bytes / 4;
    wanted = 4.0 * target.cores;
  } else if (splits && sizes.points > kManyPoints) {
    return width;
  }
  const int64_t columns = sizes.outer[column_axis];
  const double others = sizes.rows / static_cast<double>(columns);
  while (width > narrowest && others * static_cast<double>(pieces(columns, width)) < wanted) width /= 2;
  return width;
}

// Whether each sum is short enough for one thread, which a SIMT machine has one for: windows of a pool, a filter of one
// channel. `apart`: neighbouring threads read neighbours in memory, or nobody does.
bool worth_a_thread(const Loops& loops, const Sizes& sizes, int64_t longest, bool apart) {
  constexpr int64_t kShort = 64, kShortRow = 16;
  constexpr double kManySums = 1 << 15;
  return reduces_once(loops) && sizes.rows >= kManySums && longest <= (apart ? kShort : kShortRow);
}

}  // namespace

void schedule_rows(Schedule& schedule, const Loops& loops, const Sizes& sizes, const Target& target) {
  bool simd = target.machine == Machine::Simd;
  size_t rank = sizes.outer.size();
  double along_outer = 0, along_inner = 0;
  int64_t widest = 1;
  size_t column_axis = rank;
  for (size_t s = 0; s < loops.stages.size(); ++s) {
    std::vector<double> score = unit_strides(loops, loops.stages[s]);
    int64_t inner = 1;
    for (int64_t e : sizes.inner[s]) inner *= e;
    widest = std::max(widest, inner);
    if (inner == 1) continue;
    for (size_t i = 0; i < score.size(); ++i) {
      (i < rank ? along_outer : along_inner) += score[i];
      if (i < rank && score[i] > 0) column_axis = i;
    }
  }
  constexpr int64_t kStrip = 64;  // rows
  int64_t limit = simd ? kWholeRow : 8192, piece = simd ? kRowPiece : 4096;
  bool columns = along_outer > along_inner && column_axis < rank;
  if (!simd && !columns && widest > limit && widest <= 4 * limit && !reduces_once(loops)) {
    // Longer rows are held by more threads: reading them again costs more.
    limit = widest;
    schedule.threads = widest <= 2 * 8192 ? 512 : 1024;
  }
  // A sum beside its maximum rescales both for every part: few rows are one.
  const bool one_part = loops.stages[0].online && widest <= kStrip;
  if (columns && simd && reduces_once(loops) && !one_part && sizes.outer[column_axis] > 256 &&
      sizes.inner[0].back() > 1) {
    schedule_wide_columns(schedule, loops, sizes, column_axis, target);
    split_reduction(schedule, loops, sizes, target);
    return;
  }
  if (columns && simd && widest <= kStrip && sizes.outer[column_axis] > 64) {
    // Few rows of a wide matrix: a strip of columns stays in the L1 cache through all stages.
    int64_t step = column_step(loops, column_axis, target);
    schedule.block[column_axis] = std::min(round_up(sizes.outer[column_axis], step), round_up(4096, step));
    for (StageSchedule& plan : schedule.stages) plan.loops = {{static_cast<int>(column_axis), step}};
    return;
  }
  if (!simd && worth_a_thread(loops, sizes, widest, column_axis < rank || along_inner == 0)) {
    fill_block(schedule, sizes, 1024);
    for (size_t i = 0; i < sizes.inner[0].size(); ++i)
      if (sizes.inner[0][i] > 1) schedule.stages[0].loops.push_back({static_cast<int>(rank + i), 1});
    return;
  }
  if (columns) {
    schedule.block[column_axis] = std::min(sizes.outer[column_axis], column_width(loops, sizes, column_axis, target));
    // A maximum and then the sum beside it: each tile is read twice, the second time from the L1 cache.
    const int64_t held = !simd ? 8192 : loops.stages[0].online ? 4096 : 1 << 16;
    limit = std::clamp<int64_t>(held / schedule.block[column_axis], 1, kLongestChain);
    piece = limit;
  } else if (rank > 0) {
    int64_t wanted = simd ? 2048 : 4096;
    if (widest < wanted / 2) {
      int64_t& block = schedule.block[rank - 1];
      block = std::clamp<int64_t>(wanted / widest, 1, sizes.outer[rank - 1]);
      // Whole blocks go several rows at a time, and what is computed once per row fills vectors.
      for (int64_t whole = block; simd && whole > block / 2; --whole)
        if (sizes.outer[rank - 1] % whole == 0 && (whole % 16 == 0 || whole % 10 == 0 || whole % 12 == 0)) {
          block = whole;
          break;
        }
    }
    // Keep enough blocks for everybody.
    double blocks = sizes.rows / static_cast<double>(schedule.block[rank - 1]);
    double least = simd ? 4.0 * target.cores : 1.0 * target.multiprocessors;
    if (blocks < least && sizes.points > 1 << 15)
      schedule.block[rank - 1] =
          std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(schedule.block[rank - 1]) * blocks / least));
    // Of little work a block of threads takes one element a thread: blocks wait beside each other.
    while (!simd && sizes.rows < least * static_cast<double>(schedule.block[rank - 1]) &&
           schedule.block[rank - 1] * widest > schedule.threads && schedule.block[rank - 1] > 1)
      schedule.block[rank - 1] = (schedule.block[rank - 1] + 1) / 2;
  }
  for (size_t s = 0; s < loops.stages.size(); ++s) loop_inner(schedule.stages[s], sizes.inner[s], rank, limit, piece);
  split_reduction(schedule, loops, sizes, target, columns);
}

// No tile of such a product is worth staging. Threads run along the summed
// axis where memory does, and share the results at the end; else along the long axis of the result.
bool schedule_thin(Schedule& schedule, const Loops& loops, const Sizes& sizes, const Contraction& c,
                   const Target& target) {
  constexpr int64_t kThin = 16, kWhole = 16384, kLongSum = 1024;
  const auto a = static_cast<size_t>(c.a_axis), b = static_cast<size_t>(c.b_axis), rank = sizes.outer.size();
  if (std::min(sizes.outer[a], sizes.outer[b]) > kThin) return false;
  const size_t thin = sizes.outer[a] <= sizes.outer[b] ? a : b, wide = thin == a ? b : a;
  const std::vector<double> score = unit_strides(loops, loops.stages[0]);
  if (score[rank] >= score[wide]) {
    schedule.block[thin] = sizes.outer[thin];
    schedule.block[wide] = std::clamp<int64_t>(sizes.outer[wide] / 64, 1, 2);
  } else {
    schedule.block[wide] = std::min<int64_t>(sizes.outer[wide], 64);
  }
  const auto held = static_cast<int64_t>(std::bit_floor(
      static_cast<uint64_t>(std::max<int64_t>(kWhole / (schedule.block[thin] * schedule.block[wide]), 1))));
  loop_inner(schedule.stages[0], sizes.inner[0], rank, held, held);
  if (sizes.inner[0][0] > kLongSum) split_reduction(schedule, loops, sizes, target);
  return true;
}

}  // namespace heddle
