// Graphs that span devices. They are cut where values go from one device to another (To nodes): what is computed on one
// device between two cuts is a part, an ordinary plan of its device, and values are copied from part to part.
#pragma once

#include "runtime/execute.h"

namespace heddle {

// What parts and copies hand to each other.
struct SplitValue {
  Backend* device;  // null: nobody looks at it, because it is another value
  DType dtype;
  Shape shape;
  int leaf = -1;    // it is this leaf of the plan; or
  int output = -1;  // it has the memory of this output. Neither: memory of the run
};

struct PlanPart {
  Backend* device = nullptr;
  std::shared_ptr<const CachedPlan> cached = {};
  struct Number {
    int from;        // which of the graph's numbers; -1: always the same
    uint64_t value;  // if it is
  };
  std::vector<Number> numbers = {};
  std::vector<int> symbols = {};  // which of the graph's
  std::vector<int> leaves = {};   // values
  std::vector<int> outputs = {};  // values; -1: nobody wants it, or it is that of a leaf or of another output
};

struct SplitPlan {
  struct Copy {
    int from, to;         // values
    uint64_t offset = 0;  // where in `from` the bytes begin
  };
  struct Step {
    enum class Kind { Copy, Part } kind;
    size_t index;
  };
  std::vector<SplitValue> values;
  std::vector<PlanPart> parts;
  std::vector<Copy> copies;
  // In the order of the run: devices that work while others go on come first.
  std::vector<Step> steps;
};

// What the parts of a plan work on. Kept from run to run where the same plan comes again.
struct SplitMemory {
  std::vector<std::shared_ptr<DeviceBuffer>> values;  // that have memory of the run
  std::vector<RunMemory> parts;
  std::vector<std::shared_ptr<DeviceBuffer>> arenas;  // of the parts
  std::vector<uint64_t> numbers;
  std::vector<int64_t> symbols;
};

// The plan of a graph that `key` has read; `roots` are its distinct roots.
CachedPlan split_devices(std::span<const NodeRef> roots, const GraphKey& key);
// execute() for such a plan.
void execute_parts(const Plan& plan, RunMemory& memory);
// Launches of the plan, or of all its parts, in the order of the run.
std::vector<const Launch*> all_launches(const Plan& plan);

}  // namespace heddle
