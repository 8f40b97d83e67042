// The graph of a captured function: how it is told apart from another recording, and its plan.
#pragma once

#include "runtime/execute.h"

namespace heddle {

struct CapturedGraph {
  // What the plan reads: an Input of the function by its number, or data that was made while recording.
  struct Leaf {
    int64_t input = -1;
    NodeRef data;
  };
  // Where the value of a root comes from.
  struct Root {
    enum class Kind { Output, Input, Data } kind;
    int64_t index = 0;  // which output of the plan, or which Input
    NodeRef data;
    DType dtype;
    Shape shape;
    // As recorded, before the plan was made.
    Kind recorded_kind;
    int64_t recorded_index;
  };

  // What was recorded, for messages. Nodes themselves would keep what their gradient rules hold alive.
  struct Step {
    NodeOp op;
    const char* name;
    DType dtype;
    Shape shape;
    SmallVector<uint32_t, 2> inputs;  // numbers of other steps
    SmallVector<Expr, 2> attrs;
    Scalar literal;

    friend bool operator==(const Step&, const Step&) = default;
  };

  std::vector<uint64_t> words, numbers;
  std::vector<Leaf> leaves;
  std::vector<Root> roots;
  std::vector<Step> steps;                   // results first; none of a graph with symbols, which is never compared
  std::vector<int64_t> symbols;              // values of the graph's, in the order of the plan's
  std::shared_ptr<const CachedPlan> cached;  // null before plan_captured()
};

// Reads the graph into `key`, which must be kept until plan_captured().
CapturedGraph read_captured(std::span<const NodeRef> roots, std::span<const StateUpdate> updates, GraphKey& key);
// Finds or builds the plan. Roots that turn out to be Inputs, or the same for every call, are marked as such. `place`
// counts what is built for the function.
void plan_captured(CapturedGraph& graph, std::span<const NodeRef> roots, GraphKey& key, CompiledPlace& place);

// Says how another recording of the same function differs; empty if both compute the same from the same leaves. What
// the Inputs are bound to is not looked at.
std::string difference(const CapturedGraph& before, const CapturedGraph& now);

}  // namespace heddle
