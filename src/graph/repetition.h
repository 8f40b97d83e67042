// Finds what a program does again and again. Private to src/graph.
//
// A plain loop of the host's records its step as many times as it runs. Such a part of a graph is found again here: the
// step as a list of values, each with its node in every one of the steps, and where their inputs come from.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "graph/node.h"

namespace heddle {

// Steps are counted back from the last one, which is step 0: the first ones are found last.
struct Repetition {
  // Where an input of a value comes from, in each of the steps.
  struct Source {
    enum class Kind : uint8_t {
      Fixed,    // one node, in all of them
      Same,     // a value of the same step
      Earlier,  // a value of the step so many (`back`) before
      Slice,    // of one tensor, a part further each time
      Number,   // a constant, larger or smaller by the same amount each time
    };
    Kind kind = Kind::Fixed;
    size_t index = 0, back = 0;
  };
  struct Value {
    std::vector<const Node*> nodes;  // null in an early step that has no use for it
    std::vector<Source> inputs;
    // The loop needs it of some steps before it begins. It is computed outside as well, from what does not change.
    bool outside = false;
    std::vector<const Node*> before;  // its values before the first step, the latest first, as many as are wanted
  };
  struct Slice {
    const Node* last;  // a Shrink
    size_t axis;
    int64_t stride;  // how much further it begins than in the step before: its size, or as much back
  };
  struct Number {
    const Node* last;  // a Const
    int64_t stride;
  };

  size_t steps = 0;
  std::vector<Value> values;  // inputs before users
  std::vector<const Node*> fixed;
  std::vector<Slice> slices;
  std::vector<Number> numbers;
  std::vector<NodeRef> made;  // keeps nodes that the graph does not have
};

// The first repetition that is worth a loop; nothing if there is none.
std::optional<Repetition> find_repetition(std::span<const NodeRef> roots);

}  // namespace heddle
