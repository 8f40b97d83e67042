#include "compile/schedule/map.h"

#include <algorithm>

#include "compile/schedule/schedule.h"

namespace heddle {
namespace {

// Elements a block of elementwise work covers: long enough to hide its start, short enough to balance.
constexpr int64_t kChunk = 16384;
// A transposing block: bytes of a row that it writes, and elements of a row that it reads.
constexpr int64_t kTransposedRun = 512, kTransposedLength = 16384;

// Two axes that accesses walk element by element. A CPU reads a square at a time along one and writes it along the
// other: a block writes runs of several lines, and reads so far along its rows that prefetching pays.
void schedule_transposed(Schedule& schedule, const Loops& loops, const Sizes& sizes, size_t other,
                         const Target& target) {
  const size_t last = sizes.outer.size() - 1;
  if (target.machine == Machine::Simt) {
    schedule.block[last] = std::min<int64_t>(sizes.outer[last], 64);
    schedule.block[other] = std::min<int64_t>(sizes.outer[other], 64);
    return;
  }
  int64_t narrowest = 8;
  for (const kernel::Inst& inst : loops.stages[0].body.insts)
    if (inst.op == kernel::Op::store) narrowest = std::min<int64_t>(narrowest, size_of(loops.buffer(inst).dtype));
  int64_t run = std::clamp<int64_t>(kTransposedRun / narrowest, 64, 256), length = kTransposedLength;
  while (length > 64 && sizes.points < static_cast<double>(8 * target.cores * run * length)) length /= 2;
  schedule.block[last] = std::min(sizes.outer[last], run);
  schedule.block[other] = std::min(sizes.outer[other], length);
}

}  // namespace

std::string check(const Map& map, const Site& at) {
  const Stage& stage = at.stage();
  if (stage.reducer || stage.ordered || has_scan(stage)) return at.problem("it is no map");
  return map.stream && !stores(stage) ? at.problem("only stores bypass the caches") : "";
}

void change(Map& map, const Site& at, const RandomBelow&) { map.stream = !map.stream && stores(at.stage()); }

void schedule_map(Schedule& schedule, const Loops& loops, const Sizes& sizes, const Target& target) {
  size_t rank = sizes.outer.size();
  if (rank == 0) return;
  std::vector<double> score = unit_strides(loops, loops.stages[0]);
  // Another axis that some access walks element by element: cut both, so that a block stays within the cache.
  size_t other = rank;
  for (size_t i = 0; i + 1 < rank; ++i)
    if (score[i] > 0 && sizes.outer[i] > 1) other = i;
  if (other < rank) {
    schedule_transposed(schedule, loops, sizes, other, target);
    return;
  }
  fill_block(schedule, sizes, target.machine == Machine::Simd ? kChunk : 1024);
}

}  // namespace heddle
