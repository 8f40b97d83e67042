#include "compile/schedule/scan.h"

#include <algorithm>
#include <cmath>

#include "compile/schedule/schedule.h"

namespace heddle {
namespace {

// Columns that go down together, not fewer than the second number, and rows they go at a time; parts and elements of a
// round when the axis is split.
constexpr int64_t kScanColumns = 16384, kScanNarrow = 512, kScanRows = 8;
constexpr int64_t kScanParts = 8, kScanRound = 1 << 18;

}  // namespace

std::string check(const Scan& scan, const Site& at) {
  const Stage& stage = at.stage();
  const std::vector<Level>& loops = at.plan().loops;
  const size_t outer = at.loops.outer.size();
  if (!has_scan(stage)) return at.problem("it scans nothing");
  bool inside = false;
  for (const Level& level : loops) {
    const bool along = static_cast<size_t>(level.axis) >= outer;
    if (inside && !along) return at.problem("outer loops inside a scanned axis");
    inside = inside || along;
  }
  if (scan.parts < 1) return at.problem(scan.parts, " parts");
  if (scan.parts > 1) {
    if (at.loops.stages.size() != 1) return "a split scan needs a kernel of its own";
    if (loops.empty() || static_cast<size_t>(loops[0].axis) != outer)
      return "a split scan needs a loop over its axis: the parts";
    if (scans_feed_scans(stage)) return "a scan of a scan cannot be split";
    if (at.simt() && scan.parts * loops[0].step < stage.inner[0].extent.hi())
      return "a scan in rounds on a SIMT machine";
  }
  if (!at.simt()) return "";
  // On such machines a scanned tile that the threads cannot hold goes through shared memory.
  constexpr int64_t kHeld = 64;  // elements of a thread
  int64_t points = 1, bytes = 0;
  for (int64_t size : at.tile) points = std::min(points * size, at.target.shared_bytes);
  for (const kernel::Inst& inst : stage.body.insts)
    if (inst.op == kernel::Op::scan)
      for (const Scalar& identity : inst.reducer->identity)
        bytes += size_of(identity.dtype) * (points + 4 * points / std::min(points, at.tile[outer]));
  return points > kHeld * at.schedule.threads && bytes > at.target.shared_bytes / 2
             ? at.problem("a scanned tile of ", points, " elements")
             : "";
}

void change(Scan& scan, const Site& at, const RandomBelow& draw) {
  if (draw(3) == 0)
    scan.stream = !scan.stream;
  else
    scan.parts = draw_parts(scan.parts, at.target, draw);
}

// Rows run side by side; so do columns, a stretch of neighbours as one tile that walks
// down a few rows at a time, so that memory is read in order. Where that leaves cores idle, parts of the axis run side
// by side, in rounds that fit the caches.
void schedule_scan(Schedule& schedule, const Loops& loops, const Sizes& sizes, const Target& target) {
  const size_t rank = sizes.outer.size();
  const int axis = static_cast<int>(rank);
  const int64_t n = sizes.inner[0][0];
  const bool simd = target.machine == Machine::Simd;
  StageSchedule& plan = schedule.stages[0];
  std::vector<double> score = unit_strides(loops, loops.stages[0]);
  size_t column = rank;
  for (size_t i = 0; i < rank; ++i)
    if (score[i] > score[rank] && (column == rank || score[i] > score[column])) column = i;
  const double wanted = simd ? 2.0 * target.cores : 1.0 * target.multiprocessors;
  const bool worth_sharing = simd && sizes.points > 1 << 17;
  auto blocks = [&] { return blocks_of(schedule, sizes); };
  auto idle = [&] {
    double count = blocks(), cores = target.cores;
    return count < cores || (count < 4 * cores && std::fmod(count, cores) != 0);
  };
  int64_t step;  // along the axis
  if (column < rank) {
    // As wide as possible, but something for everyone.
    int64_t& width = schedule.block[column];
    width = std::min<int64_t>(sizes.outer[column], simd ? kScanColumns : 64);
    for (int64_t count = 2; worth_sharing && width >= 2 * kScanNarrow && idle(); ++count)
      width = std::min(sizes.outer[column], round_up(pieces(sizes.outer[column], count), 64));
    step = simd ? kScanRows : 32;
  } else {
    const int64_t held = simd ? 2048 : 4096;
    if (rank > 0 && n < held / 2) {
      int64_t& rows = schedule.block[rank - 1];
      rows = std::min(held / n, sizes.outer[rank - 1]);
      while (rows > 1 && blocks() < 2 * wanted && sizes.points > 1 << 15) rows /= 2;
    }
    step = !simd && n > 2 * held ? held : n <= kWholeRow ? n : kRowPiece;
  }
  int64_t tile = 1;
  for (int64_t size : schedule.block) tile *= size;
  if (worth_sharing && idle() && !scans_feed_scans(loops.stages[0])) {
    int64_t parts = kScanParts;
    int64_t chunk = std::max(round_up(kScanRound / (parts * tile), 64), step);
    chunk = std::min(chunk, round_up(pieces(n, parts), 64));
    if (chunk < n) {
      std::get<Scan>(plan.strategy).parts = parts;
      plan.loops.push_back({axis, chunk});
      step = std::min(step, chunk);
      if (step < chunk) plan.loops.push_back({axis, step});
      return;
    }
  }
  if (step < n) plan.loops.push_back({axis, step});
}

}  // namespace heddle
