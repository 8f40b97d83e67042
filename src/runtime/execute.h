// One run of a plan: begin_run(), bind_leaf() for each leaf that is not bound yet, RunMemory::outputs, execute().
#pragma once

#include <unordered_map>

#include "runtime/plan_cache.h"
#include "runtime/recompiled.h"

namespace heddle {

struct ControlRun;  // runtime/control.h

// What one run works on. An object is reused from run to run to keep its memory.
struct SplitMemory;

struct RunMemory {
  std::vector<BufferPart> leaves;        // by the plan's numbers
  std::vector<DeviceBuffer*> outputs;    // by the plan's numbers; null: nobody wants it
  std::vector<BufferPart> output_parts;  // of a region: in the place of `outputs`
  // Runs of the same plan follow, and no others: what is packed, and what a device records, is kept for them.
  bool repeated = false;
  // What launches of control flow work with, by their numbers.
  std::unordered_map<size_t, std::shared_ptr<ControlRun>> control;

  std::vector<int64_t> symbols;     // values of Plan::symbols
  std::vector<uint64_t> arguments;  // what the arena begins with: arguments, then checks that found nothing
  // For each of Plan::packings.
  struct Kept {
    uint64_t contents = 0;                 // DeviceBuffer::contents() of the leaf in the run before
    std::shared_ptr<DeviceBuffer> packed;  // null: seen once only
    bool ready = false;                    // `packed` holds it
  };
  std::vector<Kept> kept;
  struct Placed {
    uint64_t offset, bytes;  // in the arena
  };
  std::vector<Placed> temporaries;  // of the plan
  std::vector<BufferPart> buffers;  // of one launch, all segments
  std::vector<int64_t> launch_symbols;
  std::vector<LaunchSegment> segments;
  // Of a device that records(): what it made of this plan's launches: those before and after the checks, and all of
  // them.
  std::shared_ptr<void> recordings[3];
  std::vector<Submission> submissions;
  // Of a plan in parts: the graph's numbers, and what the parts work on.
  std::vector<uint64_t> numbers;
  std::shared_ptr<SplitMemory> split;
};

// `numbers` and `symbols` are the graph's. Those that are arguments of the plan go where its launches find them.
void begin_run(const CachedPlan& cached, std::span<const uint64_t> numbers, std::span<const int64_t> symbols,
               RunMemory& memory);
// The value of a leaf. Throws ValueError if it lives on another device than the plan that runs it.
void bind_leaf(const Plan& plan, size_t leaf, const Node& value, RunMemory& memory);
// Of an output, for these values of the graph's symbols.
uint64_t output_bytes(const Plan& plan, size_t output, std::span<const int64_t> symbols);
// All launches, counted in run_stats(). `arena` is used if it is large enough, else replaced. Throws IndexError when a
// check failed, before anything is written to memory that an output shares with a leaf.
void execute(const Plan& plan, RunMemory& memory, std::shared_ptr<DeviceBuffer>& arena);

// The plan for the graph that `key` has read: one that is known, or a new one, which is counted at `place` (null: among
// graphs of the same structure).
std::shared_ptr<const CachedPlan> plan_for(std::span<const NodeRef> roots, const GraphKey& key,
                                           CompiledPlace* place = nullptr);

}  // namespace heddle
