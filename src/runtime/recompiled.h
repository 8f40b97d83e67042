// Says when the same operators are compiled again and again, because sizes or numbers in them change.
#pragma once

#include <string>

#include "runtime/graph_key.h"

namespace heddle {

// The name that people know a node by: "add", "sum", "cumsum".
const char* operator_name(const Node& node);

// What has been compiled at one place of a program.
struct CompiledPlace {
  std::string name;               // what the place is, for people
  uint64_t times = 0;             // with other sizes or numbers than the time before
  std::vector<int64_t> values;    // all of them, the last time
  std::vector<uint32_t> changes;  // how often each one was another
  bool warned = false;
};

// A plan has been made for the graph. One warning when the place has had more of them than HEDDLE_COMPILE_WARNING says.
void note_plan(const GraphKey& key, CompiledPlace& place);
// The same for graphs without a place: those that are equal but for sizes and numbers have one in common.
void note_plan(const GraphKey& key);

}  // namespace heddle
