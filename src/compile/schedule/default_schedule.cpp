// The schedule a kernel gets without search: must already be good.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/hash.h"
#include "compile/loops/contraction.h"
#include "compile/loops/online.h"
#include "compile/schedule/matrix_simt.h"
#include "compile/schedule/schedule.h"
#include "compile/schedule/schedule_contraction.h"
#include "compile/schedule/schedule_nested.h"
#include "compile/schedule/warp_simt.h"

namespace heddle {
namespace {

// Elements a block of elementwise work covers: long enough to hide its start, short enough to balance.
constexpr int64_t kChunk = 16384;
// A transposing block: bytes of a row that it writes, and elements of a row that it reads.
constexpr int64_t kTransposedRun = 512, kTransposedLength = 16384;
// A row up to this long is one tile; longer ones are walked in pieces.
constexpr int64_t kWholeRow = 16384, kRowPiece = 8192;

// Terms that one accumulator of a column adds up one after the other.
constexpr int64_t kLongestChain = 1024;

// Scans: columns that go down together, not fewer than the second number, and rows they go at a time; parts and
// elements of a round when the axis is split.
constexpr int64_t kScanColumns = 16384, kScanNarrow = 512, kScanRows = 8;
constexpr int64_t kScanParts = 8, kScanRound = 1 << 18;

struct Shape2 {
  std::vector<int64_t> outer;
  std::vector<std::vector<int64_t>> inner;  // per stage
  double rows = 1;
  double points = 1;  // of the largest stage
};

Shape2 shape_of(const Loops& loops) {
  Shape2 shape;
  for (const Axis& axis : loops.outer) {
    shape.outer.push_back(extent_of(axis));
    shape.rows *= static_cast<double>(shape.outer.back());
  }
  for (const Stage& stage : loops.stages) {
    shape.inner.emplace_back();
    double points = shape.rows;
    for (const Axis& axis : stage.inner) {
      shape.inner.back().push_back(extent_of(axis));
      points *= static_cast<double>(shape.inner.back().back());
    }
    shape.points = std::max(shape.points, points);
  }
  return shape;
}

// For each axis of the stage, how many bytes of the buffers it walks element by element.
std::vector<double> unit_strides(const Loops& loops, const Stage& stage) {
  std::vector<double> score(loops.outer.size() + stage.inner.size(), 0);
  for (const kernel::Inst& inst : stage.body.insts) {
    if (inst.op != kernel::Op::load && inst.op != kernel::Op::store) continue;
    const kernel::Buffer& buffer = loops.buffers[static_cast<size_t>(inst.buffer)];
    double weight = (inst.op == kernel::Op::store ? 1.5 : 1) * size_of(buffer.dtype) *
                    static_cast<double>(std::max<int64_t>(buffer.size.hi(), 1));
    for (size_t i = 0; i < score.size(); ++i) {
      const Axis& axis = i < loops.outer.size() ? loops.outer[i] : stage.inner[i - loops.outer.size()];
      auto linear = linear_in(inst.address, axis.var);
      if (linear && std::abs(linear->coefficient) == 1) score[i] += weight;
    }
  }
  return score;
}

double output_bytes(const Loops& loops) {
  double bytes = 0;
  for (const kernel::Buffer& b : loops.buffers)
    if (b.space == kernel::Space::Out) bytes += static_cast<double>(b.size.hi()) * size_of(b.dtype);
  return bytes;
}

int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// The first stage reduces, and the others only finish its results.
bool reduces_once(const Loops& loops) {
  if (!loops.stages[0].reducer) return false;
  for (size_t s = 1; s < loops.stages.size(); ++s)
    if (loops.stages[s].reducer || !loops.stages[s].inner.empty()) return false;
  return true;
}

// Splits the only reduction when the grid alone has too few blocks to fill the machine.
void split_reduction(Schedule& schedule, const Loops& loops, const Shape2& shape, const Target& target) {
  if (!reduces_once(loops) || shape.points < 1 << 17) return;
  double blocks = 1;
  for (size_t i = 0; i < shape.outer.size(); ++i)
    blocks *= static_cast<double>((shape.outer[i] + schedule.block[i] - 1) / schedule.block[i]);
  // A multiprocessor hides the time that memory takes behind many blocks.
  const bool simd = target.machine == Machine::Simd;
  double wanted = simd ? 16 : 8.0 * target.multiprocessors;
  if (blocks * (simd ? 2 : 4) > wanted) return;
  int64_t step = 1;
  int outer = static_cast<int>(shape.outer.size());
  for (const Level& level : schedule.stages[0].loops)
    if (level.axis == outer) step = level.step;
  int64_t pieces = (shape.inner[0][0] + step - 1) / step;
  // Every part writes its results to memory: it must read many times as much.
  const int64_t pieces_per_part = simd ? 16 : 4;
  if (blocks * static_cast<double>(schedule.block.empty() ? 1 : schedule.block.back()) > 1) pieces /= pieces_per_part;
  schedule.stages[0].split =
      std::clamp<int64_t>(static_cast<int64_t>(wanted / blocks), 1, std::max<int64_t>(pieces, 1));
}

// Columns to walk at a time. Measured: two cache lines of each of 16 rows keep the prefetchers going; more columns or
// more rows lose 20 %.
int64_t column_step(const Loops& loops) {
  constexpr int64_t kBytes = 128;
  int64_t size = 1;
  for (const kernel::Inst& inst : loops.stages[0].body.insts)
    if (inst.op == kernel::Op::load)
      size = std::max<int64_t>(size, size_of(loops.buffers[static_cast<size_t>(inst.buffer)].dtype));
  return kBytes / size;
}

// Reducing the columns of a wide matrix on a CPU: memory is read in order, a few whole rows at a time, and the results
// of a block wait in the L1 cache.
void schedule_wide_columns(Schedule& schedule, const Loops& loops, const Shape2& shape, size_t column_axis) {
  constexpr int64_t kWidest = 4096;
  // A vector times a matrix multiplies besides: half as many rows and twice as many columns gain 20 %.
  const bool product = find_contraction(loops, loops.stages[0]).has_value();
  const int64_t step = column_step(loops) * (product ? 2 : 1), most_rows = product ? 8 : 16;
  int64_t columns = shape.outer[column_axis];
  int64_t blocks = (columns + kWidest - 1) / kWidest;
  schedule.block[column_axis] = round_up((columns + blocks - 1) / blocks, step);
  int outer = static_cast<int>(shape.outer.size());
  StageSchedule& plan = schedule.stages[0];
  for (size_t i = 0; i < shape.inner[0].size(); ++i)
    plan.loops.push_back(
        {outer + static_cast<int>(i), i + 1 < shape.inner[0].size() ? 1 : std::min(most_rows, shape.inner[0][i])});
  plan.loops.push_back({static_cast<int>(column_axis), step});
  for (size_t s = 1; s < schedule.stages.size(); ++s) schedule.stages[s].joined = s > 1;
}

// Loops over the inner axes so that a tile holds about `limit` elements of them; `rows` of the tile multiply.
void loop_inner(StageSchedule& plan, const std::vector<int64_t>& inner, size_t outer, int64_t limit, int64_t piece) {
  // Walk from the last axis: what fits stays in the tile, the axis that crosses the limit is cut, the rest are loops.
  int64_t held = 1;
  for (size_t i = inner.size(); i-- > 0;) {
    int axis = static_cast<int>(outer + i);
    if (held * inner[i] <= limit) {
      held *= inner[i];
      continue;
    }
    int64_t step = std::clamp<int64_t>(piece / held, 1, inner[i]);
    if (step < inner[i]) plan.loops.insert(plan.loops.begin(), Level{axis, step});
    held = limit;  // everything further out is a loop
  }
}

// Two axes that accesses walk element by element. A CPU reads a square at a time along one and writes it along the
// other: a block writes runs of several lines, and reads so far along its rows that prefetching pays.
void schedule_transposed(Schedule& schedule, const Loops& loops, const Shape2& shape, size_t other,
                         const Target& target) {
  const size_t last = shape.outer.size() - 1;
  if (target.machine == Machine::Simt) {
    schedule.block[last] = std::min<int64_t>(shape.outer[last], 64);
    schedule.block[other] = std::min<int64_t>(shape.outer[other], 64);
    return;
  }
  int64_t narrowest = 8;
  for (const kernel::Inst& inst : loops.stages[0].body.insts)
    if (inst.op == kernel::Op::store)
      narrowest = std::min<int64_t>(narrowest, size_of(loops.buffers[static_cast<size_t>(inst.buffer)].dtype));
  int64_t run = std::clamp<int64_t>(kTransposedRun / narrowest, 64, 256), length = kTransposedLength;
  while (length > 64 && shape.points < static_cast<double>(8 * target.cores * run * length)) length /= 2;
  schedule.block[last] = std::min(shape.outer[last], run);
  schedule.block[other] = std::min(shape.outer[other], length);
}

// So many elements of the last axes.
void fill_block(Schedule& schedule, const Shape2& shape, int64_t elements) {
  int64_t held = 1;
  for (size_t i = shape.outer.size(); i-- > 0;) {
    schedule.block[i] = std::clamp<int64_t>(elements / held, 1, shape.outer[i]);
    held *= schedule.block[i];
    if (schedule.block[i] < shape.outer[i]) break;
  }
}

void schedule_elementwise(Schedule& schedule, const Loops& loops, const Shape2& shape, const Target& target) {
  size_t rank = shape.outer.size();
  if (rank == 0) return;
  std::vector<double> score = unit_strides(loops, loops.stages[0]);
  // Another axis that some access walks element by element: cut both, so that a block stays within the cache.
  size_t other = rank;
  for (size_t i = 0; i + 1 < rank; ++i)
    if (score[i] > 0 && shape.outer[i] > 1) other = i;
  if (other < rank) {
    schedule_transposed(schedule, loops, shape, other, target);
    return;
  }
  fill_block(schedule, shape, target.machine == Machine::Simd ? kChunk : 1024);
}

// Whether each sum is short enough for one thread, which a SIMT machine has one for: windows of a pool, a filter of one
// channel. `apart`: neighbouring threads read neighbours in memory, or nobody does.
bool worth_a_thread(const Loops& loops, const Shape2& shape, int64_t longest, bool apart) {
  constexpr int64_t kShort = 64, kShortRow = 16;
  constexpr double kManySums = 1 << 15;
  return reduces_once(loops) && shape.rows >= kManySums && longest <= (apart ? kShort : kShortRow);
}

// Rows, or columns, with reductions inside.
void schedule_rows(Schedule& schedule, const Loops& loops, const Shape2& shape, const Target& target) {
  bool simd = target.machine == Machine::Simd;
  size_t rank = shape.outer.size();
  double along_outer = 0, along_inner = 0;
  int64_t widest = 1;
  size_t column_axis = rank;
  for (size_t s = 0; s < loops.stages.size(); ++s) {
    std::vector<double> score = unit_strides(loops, loops.stages[s]);
    int64_t inner = 1;
    for (int64_t e : shape.inner[s]) inner *= e;
    widest = std::max(widest, inner);
    if (inner == 1) continue;
    for (size_t i = 0; i < score.size(); ++i) {
      (i < rank ? along_outer : along_inner) += score[i];
      if (i < rank && score[i] > 0) column_axis = i;
    }
  }
  int64_t limit = simd ? kWholeRow : 8192, piece = simd ? kRowPiece : 4096;
  bool columns = along_outer > along_inner && column_axis < rank;
  if (!simd && !columns && widest > limit && widest <= 4 * limit && !reduces_once(loops)) {
    // Longer rows are held by more threads: reading them again costs more.
    limit = widest;
    schedule.threads = widest <= 2 * 8192 ? 512 : 1024;
  }
  if (columns && simd && reduces_once(loops) && shape.outer[column_axis] > 256 && shape.inner[0].back() > 1) {
    schedule_wide_columns(schedule, loops, shape, column_axis);
    split_reduction(schedule, loops, shape, target);
    return;
  }
  if (columns && simd && widest <= 64 && shape.outer[column_axis] > 64) {
    // Few rows of a wide matrix: a strip of columns stays in the L1 cache through all stages.
    int64_t step = column_step(loops);
    schedule.block[column_axis] = std::min(round_up(shape.outer[column_axis], step), round_up(4096, step));
    for (StageSchedule& plan : schedule.stages) plan.loops = {{static_cast<int>(column_axis), step}};
    return;
  }
  if (!simd && worth_a_thread(loops, shape, widest, column_axis < rank || along_inner == 0)) {
    fill_block(schedule, shape, 1024);
    for (size_t i = 0; i < shape.inner[0].size(); ++i)
      if (shape.inner[0][i] > 1) schedule.stages[0].loops.push_back({static_cast<int>(rank + i), 1});
    return;
  }
  if (columns) {
    int64_t width = simd ? 256 : 128;
    schedule.block[column_axis] = std::min(shape.outer[column_axis], width);
    limit = std::clamp<int64_t>((simd ? 1 << 16 : 8192) / schedule.block[column_axis], 1, kLongestChain);
    piece = limit;
  } else if (rank > 0) {
    int64_t wanted = simd ? 2048 : 4096;
    if (widest < wanted / 2) schedule.block[rank - 1] = std::clamp<int64_t>(wanted / widest, 1, shape.outer[rank - 1]);
    // Keep enough blocks for everybody.
    double blocks = shape.rows / static_cast<double>(schedule.block[rank - 1]);
    double least = simd ? 4.0 * target.cores : 1.0 * target.multiprocessors;
    if (blocks < least && shape.points > 1 << 15)
      schedule.block[rank - 1] =
          std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(schedule.block[rank - 1]) * blocks / least));
    // Of little work a block of threads takes one element a thread: blocks wait beside each other.
    while (!simd && shape.rows < least * static_cast<double>(schedule.block[rank - 1]) &&
           schedule.block[rank - 1] * widest > schedule.threads && schedule.block[rank - 1] > 1)
      schedule.block[rank - 1] = (schedule.block[rank - 1] + 1) / 2;
  }
  for (size_t s = 0; s < loops.stages.size(); ++s) loop_inner(schedule.stages[s], shape.inner[s], rank, limit, piece);
  split_reduction(schedule, loops, shape, target);
}

// A scan that is the whole kernel. Rows run side by side; so do columns, a stretch of neighbours as one tile that walks
// down a few rows at a time, so that memory is read in order. Where that leaves cores idle, parts of the axis run side
// by side, in rounds that fit the caches.
void schedule_scan(Schedule& schedule, const Loops& loops, const Shape2& shape, const Target& target) {
  const size_t rank = shape.outer.size();
  const int axis = static_cast<int>(rank);
  const int64_t n = shape.inner[0][0];
  const bool simd = target.machine == Machine::Simd;
  StageSchedule& plan = schedule.stages[0];
  std::vector<double> score = unit_strides(loops, loops.stages[0]);
  size_t column = rank;
  for (size_t i = 0; i < rank; ++i)
    if (score[i] > score[rank] && (column == rank || score[i] > score[column])) column = i;
  const double wanted = simd ? 2.0 * target.cores : 1.0 * target.multiprocessors;
  const bool worth_sharing = simd && shape.points > 1 << 17;
  auto blocks = [&] {
    double count = 1;
    for (size_t i = 0; i < rank; ++i)
      count *= static_cast<double>((shape.outer[i] + schedule.block[i] - 1) / schedule.block[i]);
    return count;
  };
  auto idle = [&] {
    double count = blocks(), cores = target.cores;
    return count < cores || (count < 4 * cores && std::fmod(count, cores) != 0);
  };
  int64_t step;  // along the axis
  if (column < rank) {
    // As wide as possible, but something for everyone.
    int64_t& width = schedule.block[column];
    width = std::min<int64_t>(shape.outer[column], simd ? kScanColumns : 64);
    for (int64_t pieces = 2; worth_sharing && width >= 2 * kScanNarrow && idle(); ++pieces)
      width = std::min(shape.outer[column], round_up((shape.outer[column] + pieces - 1) / pieces, 64));
    step = simd ? kScanRows : 32;
  } else {
    const int64_t held = simd ? 2048 : 4096;
    if (rank > 0 && n < held / 2) {
      int64_t& rows = schedule.block[rank - 1];
      rows = std::min(held / n, shape.outer[rank - 1]);
      while (rows > 1 && blocks() < 2 * wanted && shape.points > 1 << 15) rows /= 2;
    }
    step = !simd && n > 2 * held ? held : n <= kWholeRow ? n : kRowPiece;
  }
  int64_t tile = 1;
  for (int64_t size : schedule.block) tile *= size;
  if (worth_sharing && idle() && !scans_feed_scans(loops.stages[0])) {
    int64_t parts = kScanParts;
    int64_t chunk = std::max(round_up(kScanRound / (parts * tile), 64), step);
    chunk = std::min(chunk, round_up((n + parts - 1) / parts, 64));
    if (chunk < n) {
      plan.split = parts;
      plan.loops.push_back({axis, chunk});
      step = std::min(step, chunk);
      if (step < chunk) plan.loops.push_back({axis, step});
      return;
    }
  }
  if (step < n) plan.loops.push_back({axis, step});
}

// A scatter by atomic operations: tiles of about kTile updates, along the axis whose elements are neighbours in memory
// first, then along the updates, then along other axes.
void schedule_atomic_scatter(Schedule& schedule, const Loops& loops, const Shape2& shape, const Target& target) {
  constexpr int64_t kTile = 1024, kMostTiles = 8;
  const size_t rank = shape.outer.size(), last = loops.stages.size() - 1;
  const std::vector<double> score = unit_strides(loops, loops.stages[last]);
  const int64_t updates = shape.inner[last][0], wanted = 4 * static_cast<int64_t>(target.multiprocessors);
  int64_t width = 1;
  auto take = [&](size_t axis) {
    schedule.block[axis] = std::clamp<int64_t>(kTile / width, 1, shape.outer[axis]);
    width *= schedule.block[axis];
  };
  for (size_t i = rank; i-- > 0;)
    if (score[i] > 0 && shape.outer[i] > 1) {
      take(i);
      break;
    }
  const int64_t step = std::clamp<int64_t>(kTile / width, 1, updates);
  width *= step;
  for (size_t i = rank; i-- > 0;)
    if (schedule.block[i] == 1) take(i);
  int64_t blocks = 1;
  for (size_t i = 0; i < rank; ++i) blocks *= (shape.outer[i] + schedule.block[i] - 1) / schedule.block[i];
  const int64_t tiles = (updates + step - 1) / step;
  const int64_t each = std::clamp<int64_t>(tiles * blocks / wanted, 1, std::min(kMostTiles, tiles));
  StageSchedule& plan = schedule.stages[last];
  plan.atomic = true;
  plan.joined = false;
  plan.loops.push_back({static_cast<int>(rank), step * each});
  if (each > 1) plan.loops.push_back({static_cast<int>(rank), step});
  // The base: rows of places, divided where there are few other axes.
  const int64_t rows = width / step;
  for (size_t s = 0; s < last; ++s)
    loop_inner(schedule.stages[s], shape.inner[s], rank, std::max<int64_t>(kWholeRow / rows, 1),
               std::max<int64_t>(kRowPiece / rows, 1));
  if (shape.inner[last - 1].size() != 1) return;
  const int64_t places = shape.inner[last - 1][0];
  plan.split = std::clamp<int64_t>(std::min(wanted / blocks, places * rows / kTile), 1, places);
}

// A scatter: tiles run along the axis whose elements are neighbours in memory, updates go one after the other. With too
// few other axes to fill the machine, the places are divided.
void schedule_scatter(Schedule& schedule, const Loops& loops, const Shape2& shape, const Target& target) {
  constexpr int64_t kWideTile = 1024, kPointsPerBlock = 1 << 14, kSmallScatter = 1 << 15, kLongRow = 2048;
  bool simd = target.machine == Machine::Simd;
  size_t rank = shape.outer.size(), last = loops.stages.size() - 1;
  std::vector<double> score = unit_strides(loops, loops.stages[last]);
  size_t along = rank;
  for (size_t i = 0; i < rank; ++i)
    if (score[i] > 0 && shape.outer[i] > 1) along = i;
  int64_t width = along < rank ? std::min(shape.outer[along], kWideTile) : 1;
  double per_row = static_cast<double>(width);
  double points = shape.points / shape.rows * per_row;  // of a block of one row
  if (along < rank) schedule.block[along] = width;
  for (size_t i = rank; i-- > 0;) {
    if (i == along) continue;
    schedule.block[i] = std::clamp<int64_t>(static_cast<int64_t>(kPointsPerBlock / points), 1, shape.outer[i]);
    points *= static_cast<double>(schedule.block[i]);
    if (schedule.block[i] < shape.outer[i]) break;
  }
  for (size_t i = 0; i < rank; ++i) {
    if (i == along || schedule.block[i] == 1) continue;
    for (StageSchedule& plan : schedule.stages) plan.loops.push_back({static_cast<int>(i), 1});
  }
  for (size_t s = 0; s < last; ++s) {
    std::vector<Level> outer = std::move(schedule.stages[s].loops);
    schedule.stages[s].loops.clear();
    loop_inner(schedule.stages[s], shape.inner[s], rank, std::max<int64_t>(kWholeRow / width, 1),
               std::max<int64_t>(kRowPiece / width, 1));
    schedule.stages[s].loops.insert(schedule.stages[s].loops.begin(), outer.begin(), outer.end());
  }
  StageSchedule& plan = schedule.stages[last];
  for (size_t i = 0; i < shape.inner[last].size(); ++i) plan.loops.push_back({static_cast<int>(rank + i), 1});
  double blocks = 1;
  for (size_t i = 0; i < rank; ++i)
    blocks *= static_cast<double>((shape.outer[i] + schedule.block[i] - 1) / schedule.block[i]);
  // Every part looks at all indices. That costs as much as 40 bytes of a row; more parts than cores, which even out
  // the work, pay for long rows only.
  int64_t row_bytes =
      width * size_of(loops.buffers[static_cast<size_t>(loops.stages[0].body.insts.back().buffer)].dtype);
  double wanted = !simd ? 1.0 * target.multiprocessors : row_bytes < kLongRow ? target.cores : 2.0 * target.cores;
  if (shape.points < kSmallScatter || blocks * 2 > wanted || shape.inner[last - 1].size() != 1) return;
  plan.split = std::clamp<int64_t>(static_cast<int64_t>(wanted / blocks), 1, shape.inner[last - 1][0]);
}

bool worth_blocking(const Loops& loops, const Shape2& shape, const std::optional<Contraction>& c, Machine machine) {
  if (!c || !c->is_matmul()) return false;
  if (machine == Machine::Simt &&
      (shape.inner[0].size() != 1 || !is_float(loops.values[static_cast<size_t>(c->a)].dtype)))
    return false;
  for (size_t s = 1; s < loops.stages.size(); ++s)
    if (loops.stages[s].reducer || !loops.stages[s].inner.empty()) return false;
  if (loops.values[static_cast<size_t>(c->a)].dtype == DType::boolean) return false;
  return shape.outer[static_cast<size_t>(c->a_axis)] > 1 && shape.outer[static_cast<size_t>(c->b_axis)] > 1;
}

// A product with few rows or columns on a SIMT machine: no tile of it is worth staging. Threads run along the summed
// axis where memory does, and share the results at the end; else along the long axis of the result.
bool schedule_thin(Schedule& schedule, const Loops& loops, const Shape2& shape, const Contraction& c,
                   const Target& target) {
  constexpr int64_t kThin = 16, kWhole = 16384, kLongSum = 1024;
  const auto a = static_cast<size_t>(c.a_axis), b = static_cast<size_t>(c.b_axis), rank = shape.outer.size();
  if (std::min(shape.outer[a], shape.outer[b]) > kThin) return false;
  const size_t thin = shape.outer[a] <= shape.outer[b] ? a : b, wide = thin == a ? b : a;
  const std::vector<double> score = unit_strides(loops, loops.stages[0]);
  if (score[rank] >= score[wide]) {
    schedule.block[thin] = shape.outer[thin];
    schedule.block[wide] = std::clamp<int64_t>(shape.outer[wide] / 64, 1, 2);
  } else {
    schedule.block[wide] = std::min<int64_t>(shape.outer[wide], 64);
  }
  const auto held = static_cast<int64_t>(std::bit_floor(
      static_cast<uint64_t>(std::max<int64_t>(kWhole / (schedule.block[thin] * schedule.block[wide]), 1))));
  loop_inner(schedule.stages[0], shape.inner[0], rank, held, held);
  if (shape.inner[0][0] > kLongSum) split_reduction(schedule, loops, shape, target);
  return true;
}

}  // namespace

Schedule default_schedule(const Loops& loops, const Target& target) {
  if (is_nested(loops)) return nested_schedule(loops, target);
  Shape2 shape = shape_of(loops);
  Schedule schedule;
  schedule.block.assign(loops.outer.size(), 1);
  schedule.stages.resize(loops.stages.size());
  schedule.threads = target.machine == Machine::Simt ? 256 : 1;
  bool reduces = std::any_of(loops.stages.begin(), loops.stages.end(),
                             [](const Stage& s) { return s.reducer || !s.inner.empty(); });
  auto contraction = find_contraction(loops, loops.stages[0]);
  if (target.machine == Machine::Simt && loops.stages.back().combine && loops.stages.back().inner.size() == 1) {
    schedule_atomic_scatter(schedule, loops, shape, target);
  } else if (loops.stages.back().ordered) {
    schedule_scatter(schedule, loops, shape, target);
  } else if (!reduces) {
    schedule_elementwise(schedule, loops, shape, target);
  } else if (loops.stages.size() == 1 && has_scan(loops.stages[0])) {
    schedule_scan(schedule, loops, shape, target);
  } else if (worth_blocking(loops, shape, contraction, target.machine)) {
    if (target.machine == Machine::Simd)
      schedule_contraction(schedule, loops, *contraction, target);
    else if (!schedule_matrix_simt(schedule, loops, *contraction, target) &&
             !schedule_warp_simt(schedule, loops, *contraction, target) &&
             !schedule_thin(schedule, loops, shape, *contraction, target))
      schedule_product_simt(schedule, loops, *contraction, target);
  } else if (!contraction || !schedule_warp_simt(schedule, loops, *contraction, target)) {
    schedule_rows(schedule, loops, shape, target);
  }
  bool stream = target.machine == Machine::Simd && output_bytes(loops) > static_cast<double>(target.l3_bytes) / 2;
  for (size_t s = 0; s < loops.stages.size(); ++s)
    schedule.stages[s].stream = stream && !loops.stages[s].reducer && !loops.stages[s].ordered;
  return schedule;
}

}  // namespace heddle
