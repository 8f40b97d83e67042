// Reads a graph into the flat form by which plans are found again.
//
// The words say everything that decides the plan (ops, dtypes, shapes, attributes, which node feeds which, which leaves
// may be donated) and nothing else: leaves count by position only, and so do symbols, together with their bounds and
// divisors but without their values. Numbers that often change from call to call while all else stays are kept apart:
// constants, and where a part of fixed size begins. Equal words mean the same graph but for them, exactly: the hash
// only finds candidates.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/modes.h"
#include "graph/control.h"
#include "runtime/device.h"

namespace heddle {

// Whether the data of a node is there before a graph runs: a Buffer, or an Input of a captured function.
inline bool is_provided(const Node& node) { return node.op == NodeOp::Buffer || node.op == NodeOp::Input; }

// Of a captured function: an Input, and the value that takes its place at the end of a call. That value, and no other
// one, may take over its memory.
struct StateUpdate {
  const Node *input, *value;
};

// What a number of a graph is.
struct NumberPlace {
  enum class Kind : uint8_t {
    Float,    // a Const
    Integer,  // a Const
    Filling,  // of a Pad
    Offset,   // begin of a Shrink, before of a Pad: with the same shapes it may be anything from 0 to room()
    Inside,   // of a region: a plan of its own has it among its numbers
  } kind;
  uint32_t axis;  // of an Offset
  const Node* node;
};
// Of an Offset: the largest that it can be. What stands behind it is the rest.
Expr room(const NumberPlace& offset);

class GraphKey {
 public:
  // Walks the graph once, without recursion. Roots that are Buffers are left out; the others are numbered first, each
  // once, so that a root's number is that of its output. An object is reused from walk to walk to keep its memory.
  void read(std::span<const NodeRef> roots, std::span<const Storage* const> donatable);
  // The same for a captured function. Its Inputs are leaves; roots that are Inputs are left out as well.
  void read_captured(std::span<const NodeRef> roots, std::span<const StateUpdate> updates);
  // The same for a part of a graph that spans devices: all of it is on one. Both Inputs and Buffers may be given up.
  void read_part(std::span<const NodeRef> roots, std::span<const Storage* const> donatable,
                 std::span<const StateUpdate> updates, const Modes& modes, Backend& on);
  // The same for a region, whose parameters are its Inputs: nobody sees what a failed run has left in their memory.
  void read_region(const Region& region, std::span<const StateUpdate> updates, const Modes& of_graph, Backend& on);
  // Gives the memory of an unusually large graph back.
  void shrink();

  uint64_t hash = 0;
  Modes modes;  // when the graph was read: a part of the words
  // Of the leaves; where constants go when there are none. Of a graph that spans devices one of them.
  Backend* device = nullptr;
  bool spans = false;             // leaves, results or To nodes are on several devices, or in files
  DeviceNumber home = kAnywhere;  // where results go that have no place
  std::vector<uint64_t> words;
  std::vector<uint64_t> numbers;  // bits of constants, values of offsets

  size_t outputs = 0;                // distinct roots that are not Buffers
  std::vector<const Node*> nodes;    // by number
  std::vector<uint32_t> references;  // for each node, those from inside the graph and from `roots`
  std::vector<const Node*> leaves;   // Buffers and Inputs, in order of their numbers
  std::vector<bool> donatable_leaf;
  std::vector<int> donated_to;      // for each leaf the only output that may have its memory; -1: any
  std::vector<NumberPlace> places;  // of `numbers`
  std::vector<Expr> symbols;        // in the order of their appearance
  std::vector<int64_t> symbol_values;
  bool is_region = false;

  // The number of a node of the graph.
  uint32_t number(const Node* node) const;

 private:
  void start();
  void walk(Backend* only = nullptr);
  void note_device(DeviceNumber number);
  void note_leaf(const Node& leaf);
  void find_outputs(std::span<const StateUpdate> updates);
  uint32_t visit(const Node* node);
  void read_node(const Node& node);
  void read_integer(const Node& node, const Expr& e);
  void read_offset(const Node& node, size_t axis);
  void read_symbolic(const Node& node, const Expr& e);
  void read_control(const Node& node);
  void mark_inside();
  void add_number(NumberPlace::Kind kind, uint32_t axis, const Node& node, uint64_t value);
  void grow();

  struct Entry {
    const Node* node;
    uint32_t number, walk;  // walk: entries of earlier walks count as empty
  };
  std::vector<Entry> table_;
  size_t mask_ = 0;
  uint32_t walk_ = 0;
  std::vector<const Storage*> donatable_;         // sorted
  std::unordered_map<const Node*, int> updates_;  // outputs by their Inputs
  bool captured_ = false;
  bool has_regions_ = false;
  std::unordered_map<const Node*, uint32_t> parameters_;  // of regions, with the numbers of their nodes
  std::unordered_map<Expr, uint64_t> expressions_;        // with symbols, and their numbers
};

// A leaf's memory. Throws ValueError if no device made it.
DeviceBuffer& device_buffer(const Node& leaf);

}  // namespace heddle
