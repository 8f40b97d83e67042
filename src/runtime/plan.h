// Plan: everything needed to run one graph again with other data. Plans are cached by the structure of the graph.
#pragma once

#include "compile/fuse/fuse.h"
#include "runtime/device.h"

namespace heddle {

inline Expr bytes_of(const Node& node) { return node.shape.numel() * size_of(node.dtype); }

// Where a kernel's buffer comes from when the plan runs.
struct Slot {
  enum class Kind { Leaf, Output, Arena, Temporary } kind;
  int64_t index;       // Leaf, Output, Temporary: which; Arena: byte offset; -1: none (Shared)
  uint64_t bytes = 0;  // Arena: how many
};

// A size that a kernel is launched with.
struct LaunchSize {
  int64_t value = 0;
  int symbol = -1;  // if not negative: the value of this one of the plan's symbols
};

// One use of the kernel: a launch does all of its segments, which do not need each other.
struct Segment {
  std::vector<Slot> slots;          // for each buffer of the kernel; Shared ones unused
  std::vector<LaunchSize> symbols;  // for each symbol of the kernel
};

struct ControlStep;  // runtime/control.h

struct Launch {
  std::shared_ptr<Executable> executable;      // null: control flow
  std::shared_ptr<const ControlStep> control;  // then this; its only segment has the slots of inputs, then of results
  std::vector<Segment> segments;
  std::string name;
  std::string shapes;                  // of what it reads and writes, for people: "f32[64, 32] -> f32[64]"
  uint64_t bytes_read, bytes_written;  // of distinct elements touched, at the upper bounds of symbols
  Traffic needed;                      // the same without what goes through Temp buffers: a schedule's choice; flops
  std::shared_ptr<const Loops> loops;  // with symbols in the plan: what is needed at the sizes of a run
};

// An index that is out of range: element `byte / 8` of the arena is not zero, but that index.
struct PlanCheck {
  uint64_t byte;
  const char* node;
  int64_t label, axis;
  Expr size;
};

struct PlanOutput {
  DType dtype;
  Shape shape;
  Backend* device = nullptr;     // null: the plan's
  int donated_leaf = -1;         // takes over this leaf's memory when nobody else holds it
  const char* not_donated = "";  // why it may not take over the one that was meant for it
  // Launches write only what differs from this leaf: a run that does not take over its memory begins with a copy.
  int updated_leaf = -1;
  // Outputs that no launch writes; at most one of these is set.
  int leaf = -1;      // the value of this leaf
  int same_as = -1;   // the memory of this earlier output
  int argument = -1;  // the value of this argument
};

// A phase of a launch that packs a leaf into a Temp buffer. While the leaf's contents stay the same, a run that follows
// others may leave it out and take what was written before.
struct PlanPacking {
  int launch, segment, phase;
  int buffer, leaf;  // buffer: of the kernel, where the packed elements go
  uint64_t bytes;
};

// Memory needed from launch `first` to launch `last`.
struct Temporary {
  Expr bytes;  // over Plan::symbols
  int first, last;
};

struct SplitPlan;

struct Plan {
  Backend* device;
  // Of a graph that spans devices: plans for its parts (split_devices.h), and then no launches here.
  std::shared_ptr<const SplitPlan> split = {};
  // Sizes that each run gives, by position: those of the graph, then offsets. Graphs that share the plan have other
  // symbols in the same places.
  std::vector<Expr> symbols;
  std::vector<Launch> launches;
  std::vector<PlanOutput> outputs;
  uint64_t arena_bytes;
  uint64_t arena_lower_bound;  // the most bytes of it that are in use at one time, in this order of launches
  // With symbols: what each run lays out behind the arena's arena_bytes, because sizes differ from run to run.
  std::vector<Temporary> temporaries;
  // Scalars that change from run to run. Argument k is an element at byte 64 * k of the arena, written before the first
  // launch.
  int arguments = 0;
  // What kernels found wrong with their data; 64 bytes or more for each launch that checks, behind the arguments.
  std::vector<PlanCheck> checks;
  uint64_t check_bytes = 0;
  // The last launch that checks; -1: none does. What it and those before it found is looked at before the next one
  // where results may take over memory that the run reads, else at the end.
  int last_check = -1;
  // The first launch that may write to memory of a leaf that a result takes over; the number of launches if none does.
  // From there on a run is not stopped.
  size_t first_overwrite = 0;
  std::vector<PlanPacking> packings;  // in the order of launches; none where sizes are symbolic, or
                                      // where the launch has an offset

  Backend& device_of(const PlanOutput& output) const { return output.device ? *output.device : *device; }
};
inline bool may_overwrite(const Plan& plan) { return plan.first_overwrite < plan.launches.size(); }

struct RunStats {
  uint64_t launches, bytes_read, bytes_written, plan_hits, plan_misses, arena_bytes;
  uint64_t arena_lower_bound;  // of arena_bytes: the most that was in use at one time
  uint64_t kept_packings;      // phases left out, because what they pack was packed before
};
// Counters of the calling thread since the last reset.
RunStats& run_stats();

// Makes every root a Buffer node with its data; results in the order of roots. Roots that are Buffers already are
// returned as they are. `donatable` lists storages that the caller gives up if nobody else holds them: their memory may
// become that of a result. "Nobody else" means that the entries of `roots` are the only references to the root nodes
// (move them there), and that every other node which depends on the storage, and the storage itself, is referred to
// from inside the graph alone. When a launch fails the contents of donated storages are lost.
// Throws IndexError for an index out of range that a kernel met; the results are then not kept, and no donated storage
// has been written to. Sizes may be bound symbols (Expr::bound): then one plan serves all their values. Throws
// ValueError for symbols without a value and for Inputs; OutOfMemory; CompileError.
std::vector<NodeRef> realize(std::span<const NodeRef> roots, std::span<const Storage* const> donatable = {});

void clear_plan_cache();
size_t plan_cache_size();

}  // namespace heddle
