// Runs the launches of a plan on memory that is provided.
#pragma once

#include "runtime/plan_cache.h"
#include "runtime/recompiled.h"

namespace heddle {

// What one run works on. An object is reused from run to run to keep its memory.
struct RunMemory {
  std::vector<BufferPart> leaves;      // by the plan's numbers
  std::vector<DeviceBuffer*> outputs;  // by the plan's numbers; null: nobody wants it
  std::vector<int64_t> symbols;        // values of Plan::symbols
  // For runs of one plan after the other: DeviceBuffer::contents() of the leaf of each of Plan::packings (0: not
  // known), and what was packed. Empty: nothing is kept.
  std::vector<uint64_t> contents;
  struct Kept {
    uint64_t contents = 0;                 // that the leaf had in the run before
    std::shared_ptr<DeviceBuffer> packed;  // null: seen once only
    bool ready = false;                    // `packed` holds it
  };
  std::vector<Kept> kept;

  // For execute().
  std::vector<uint64_t> arguments;  // what the arena begins with: arguments, then checks
  struct Placed {
    uint64_t offset, bytes;  // in the arena
  };
  std::vector<Placed> temporaries;  // of the plan
  std::vector<BufferPart> buffers;  // of one launch, all segments
  std::vector<int64_t> launch_symbols;
  std::vector<LaunchSegment> segments;
  // Of a device that records(): what it made of this plan's launches: those before and after the checks, and all of
  // them. Kept for runs of the same plan alone.
  bool recorded = false;
  std::shared_ptr<void> recordings[3];
  std::vector<Submission> submissions;
};

// The value of an expression over the plan's symbols.
uint64_t size_now(const Expr& e, const Plan& plan, std::span<const int64_t> symbols);
// Writes what the arena begins with: the arguments' values out of the graph's numbers, and checks that found nothing.
void set_arguments(const CachedPlan& cached, std::span<const uint64_t> numbers, RunMemory& memory);
// Puts the values of offsets that are arguments behind those of the graph's own symbols.
void add_offsets(const CachedPlan& cached, std::span<const uint64_t> numbers, std::vector<int64_t>& symbols);
// All launches, counted in run_stats(). `arena` is used if it is large enough, else replaced. Throws IndexError when a
// check failed, before anything is written to memory that an output shares with a leaf.
void execute(const Plan& plan, RunMemory& memory, std::shared_ptr<DeviceBuffer>& arena);

// The plan for the graph that `key` has read: one that is known, or a new one, which is counted at `place` (null: among
// graphs of the same structure).
std::shared_ptr<const CachedPlan> plan_for(std::span<const NodeRef> roots, const GraphKey& key,
                                           CompiledPlace* place = nullptr);

}  // namespace heddle
