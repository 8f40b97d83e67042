// Control flow in a plan: regions with plans of their own, and how they are run.
#pragma once

#include "graph/control.h"
#include "runtime/execute.h"

namespace heddle {

struct RegionPlan {
  std::shared_ptr<const CachedPlan> cached;
  std::vector<uint64_t> numbers;  // of the region's graph
  std::vector<size_t> symbols;    // for each symbol of it, its number among those of the plan around
  std::vector<size_t> leaves;     // for each leaf of its plan, the parameter
  // Where the value of a result comes from.
  struct Result {
    enum class Kind { Output, Parameter, Argument, Nothing } kind;
    size_t index = 0;       // of the plan's outputs; of the parameters; of the plan's arguments
    bool repeats = false;   // the output is another result's, too
    bool in_place = false;  // of a carried value: may be written over what the parameter of the same number holds
  };
  std::vector<Result> results;
};

struct ControlStep {
  bool loop = true;  // or a condition
  // Loop: the body; if it has a condition, this is the last of the carried values, a bool, and a second region says
  // what it is before the first round. Condition: both branches.
  std::vector<RegionPlan> regions;
  size_t carried = 0, stacked = 0, outputs = 0;
  bool conditional = false;  // a loop that runs as long as something holds
  // Such a loop on a device that works by itself: rounds after the last one change nothing, so that several are
  // launched before somebody looks; so many at most.
  int64_t ahead = 1;
  Expr length;  // over the symbols of the plan around
  bool reverse = false;
  std::vector<int> written;  // for each result: which of the launch's buffers behind the inputs; -1: nobody wants it
  std::vector<Expr> bytes;   // of each result of the body: of one round
  std::vector<Expr> part_bytes;  // of each stacked input: of one round
};

// Plans for the regions of a node. `results`: those that somebody wants, in order.
std::shared_ptr<const ControlStep> plan_control(const Node& node, std::span<const Node* const> results,
                                                const GraphKey& around, Backend& device);
// Whether a kernel of it checks indices.
bool has_checks(const ControlStep& step);

// What a launch of control flow keeps from run to run.
struct ControlRun {
  // One way to bind the memory of a region: what is read and written differs from round to round.
  struct Bound {
    std::vector<BufferPart> buffers;
    std::vector<int64_t> symbols;
    std::vector<LaunchSegment> segments;
  };
  struct RegionRun {
    RunMemory memory;
    std::shared_ptr<DeviceBuffer> arena;
  };
  std::vector<RegionRun> regions;
  std::vector<std::shared_ptr<DeviceBuffer>> buffers;  // carried values, slices, what nobody wants
  std::vector<std::shared_ptr<DeviceBuffer>> packed;   // for each packing of the body
  std::vector<std::shared_ptr<void>> recordings;       // of a device that records(): rounds that are launched together
  std::shared_ptr<void> alone;                         // the whole loop, of a device that launch_while() works on
};

// Runs launch `number` of a plan. `buffers`: inputs, then results.
void run_control(const Plan& plan, size_t number, std::span<const BufferPart> buffers, RunMemory& memory);

}  // namespace heddle
