#include "runtime/graph_key.h"

#include <algorithm>
#include <bit>
#include <typeinfo>

#include "base/error.h"
#include "base/hash.h"
#include "graph/custom.h"
#include "graph/graph.h"

namespace heddle {
namespace {

constexpr size_t kFirstTable = 64;
constexpr size_t kUnusual = size_t{1} << 16;  // entries above which memory is not kept

// Words are compared exactly, so this only has to be fast and even.
uint64_t hash_words(std::span<const uint64_t> words) {
  uint64_t h = words.size();
  for (uint64_t word : words) h = (std::rotl(h, 5) ^ word) * 0x9e3779b97f4a7c15ull;
  return hash_mix(h);
}

// No size and no attribute comes near: they stand before the words of an expression with symbols.
constexpr uint64_t kNewExpression = uint64_t{1} << 63, kKnownExpression = kNewExpression + 1;
// Stands for an offset that is among the numbers.
constexpr uint64_t kOffset = kNewExpression + 3;

// The first word.
uint64_t word_of(const Modes& modes) { return uint64_t{modes.tf32} | uint64_t{modes.relaxed} << 1; }
constexpr uint64_t kRegion = 4;

uint64_t known_bytes(const Node& node) {
  return static_cast<uint64_t>(known_value(node.shape.numel()).value_or(0)) *
         static_cast<uint64_t>(size_of(node.dtype));
}

}  // namespace

Expr room(const NumberPlace& offset) {
  const Node& node = *offset.node;
  const Expr &from = node.inputs[0]->shape[offset.axis], &to = node.shape[offset.axis];
  return node.op == NodeOp::Pad ? to - from : from - to;
}

DeviceBuffer& device_buffer(const Node& leaf) {
  // Nearly all leaves are of one class; remembering it saves the search through the class hierarchy.
  thread_local const std::type_info* known = nullptr;
  Storage* storage = leaf.storage.get();
  if (storage) {
    const std::type_info& type = typeid(*storage);
    if (known && *known == type) return static_cast<DeviceBuffer&>(*storage);
    if (auto* buffer = dynamic_cast<DeviceBuffer*>(storage)) {
      known = &type;
      return *buffer;
    }
  }
  throw ValueError(text("the data of buffer ", leaf.dtype, leaf.shape, " does not belong to a device"));
}

void GraphKey::grow() {
  std::vector<Entry> larger(table_.empty() ? kFirstTable : table_.size() * 2, Entry{nullptr, 0, 0});
  mask_ = larger.size() - 1;
  for (const Entry& entry : table_) {
    if (entry.walk != walk_) continue;
    size_t at = entry.node->hash & mask_;
    while (larger[at].walk == walk_) at = (at + 1) & mask_;
    larger[at] = entry;
  }
  table_.swap(larger);
}

uint32_t GraphKey::visit(const Node* node) {
  if ((nodes.size() + 1) * 2 > table_.size()) grow();
  for (size_t at = node->hash & mask_;; at = (at + 1) & mask_) {
    Entry& entry = table_[at];
    if (entry.walk != walk_) {
      entry = {node, static_cast<uint32_t>(nodes.size()), walk_};
      nodes.push_back(node);
      references.push_back(1);
      return entry.number;
    }
    if (entry.node == node) {
      ++references[entry.number];
      return entry.number;
    }
  }
}

uint32_t GraphKey::number(const Node* node) const {
  for (size_t at = node->hash & mask_;; at = (at + 1) & mask_) {
    HD_ASSERT(table_[at].walk == walk_, "not a node of the graph read last");
    if (table_[at].node == node) return table_[at].number;
  }
}

void GraphKey::read_integer(const Node& node, const Expr& e) {
  if (e.is_const()) {
    words.push_back(static_cast<uint64_t>(e.value()));
    HD_ASSERT(words.back() != kNewExpression && words.back() != kKnownExpression, "the size ", e);
    return;
  }
  auto [known, fresh] = expressions_.try_emplace(e, expressions_.size());
  words.push_back(fresh ? kNewExpression : kKnownExpression);
  if (fresh)
    read_symbolic(node, e);
  else
    words.push_back(known->second);
}

// Where a Shrink begins, or how much a Pad puts before. What is behind follows from that and the shapes.
void GraphKey::read_offset(const Node& node, size_t axis) {
  const bool pad = node.op == NodeOp::Pad;
  const Expr& offset = node.attrs[pad ? 2 * axis : axis];
  if (node.shape[axis] == node.inputs[0]->shape[axis]) return;  // 0
  if (offset.is_const()) {
    words.push_back(kOffset);
    add_number(NumberPlace::Kind::Offset, static_cast<uint32_t>(axis), node, static_cast<uint64_t>(offset.value()));
    return;
  }
  read_integer(node, offset);
  if (pad) read_integer(node, node.attrs[2 * axis + 1]);
}

// The structure of an expression, operands after their operation. A symbol is its number and what is known of it.
void GraphKey::read_symbolic(const Node& node, const Expr& e) {
  words.push_back(static_cast<uint64_t>(e.kind()) | static_cast<uint64_t>(e.args().size()) << 8);
  if (e.is_const()) {
    words.push_back(static_cast<uint64_t>(e.value()));
  } else if (e.is_var()) {
    auto number = static_cast<size_t>(std::find(symbols.begin(), symbols.end(), e) - symbols.begin());
    words.push_back(number);
    if (number < symbols.size()) return;
    std::optional<int64_t> value = known_value(e);
    if (!value)
      throw ValueError(
          text("cannot realize ", name(node.op), " ", node.dtype, node.shape, ": the size ", e, " has no value"));
    symbols.push_back(e);
    symbol_values.push_back(*value);
    for (int64_t property : {e.lo(), e.hi(), e.multiple()}) words.push_back(static_cast<uint64_t>(property));
  }
  for (const Expr& argument : e.args()) read_symbolic(node, argument);
}

void GraphKey::read_node(const Node& node) {
  uint64_t kind = 0;
  if (node.op == NodeOp::Scalar) kind = static_cast<uint64_t>(node.scalar_op);
  if (node.op == NodeOp::Reduce || node.op == NodeOp::ArgReduce || node.op == NodeOp::Scan)
    kind = static_cast<uint64_t>(node.reduce_op);
  if (node.op == NodeOp::Scatter) kind = static_cast<uint64_t>(node.scatter_op);
  words.push_back(static_cast<uint64_t>(node.op) | static_cast<uint64_t>(node.dtype) << 8 | kind << 16 |
                  static_cast<uint64_t>(node.shape.size()) << 24 | static_cast<uint64_t>(node.inputs.size()) << 40);
  for (const Expr& dimension : node.shape) read_integer(node, dimension);
  for (const NodeRef& input : node.inputs) words.push_back(visit(input.get()));

  switch (node.op) {
    case NodeOp::Buffer: {
      device_buffer(node);  // throws where there is none
      note_leaf(node);
      if (!node.shape.is_static() && known_bytes(node) > node.storage->bytes())
        throw ValueError(text("cannot realize: buffer ", node.dtype, node.shape, " has ", node.storage->bytes(),
                              " bytes, not the ", known_bytes(node), " of its shape"));
      bool may_take = std::binary_search(donatable_.begin(), donatable_.end(), node.storage.get());
      words.push_back(uint64_t{may_take} | uint64_t{node.device} << 1);
      leaves.push_back(&node);
      donatable_leaf.push_back(may_take);
      donated_to.push_back(-1);
      return;
    }
    case NodeOp::Input: {
      if (auto parameter = parameters_.find(&node); parameter != parameters_.end()) {
        words.push_back(parameter->second);
        return;
      }
      if (!captured_)
        throw CaptureError(text("a value that depends on ", node.dtype, node.shape, ", an argument of a function that ",
                                is_placeholder(node) ? "a loop, vmap() or a derivative" : "jit()",
                                " records, cannot be computed: only what the function returns has a value"));
      auto update = updates_.find(&node);
      leaves.push_back(&node);
      donatable_leaf.push_back(update != updates_.end());
      donated_to.push_back(update != updates_.end() ? update->second : -1);
      words.push_back(static_cast<uint64_t>(donated_to.back() + 1) | uint64_t{node.device} << 40);
      note_leaf(node);
      return;
    }
    case NodeOp::Const:
      if (node.dtype == DType::boolean) {
        words.push_back(node.literal.bits());
      } else {
        add_number(is_float(node.dtype) ? NumberPlace::Kind::Float : NumberPlace::Kind::Integer, 0, node,
                   node.literal.bits());
      }
      return;
    case NodeOp::Pad:
      if (node.dtype == DType::boolean) {
        words.push_back(node.literal.bits());
      } else {
        add_number(NumberPlace::Kind::Filling, 0, node, node.literal.bits());
      }
      [[fallthrough]];
    case NodeOp::Shrink:
      for (size_t axis = 0; axis < node.shape.size(); ++axis) read_offset(node, axis);
      return;
    case NodeOp::Scatter: words.push_back(modes.deterministic); break;
    case NodeOp::Loop:
    case NodeOp::Cond: read_control(node); return;
    case NodeOp::Custom:
      words.push_back(node.custom->words.size());
      words.insert(words.end(), node.custom->words.begin(), node.custom->words.end());
      break;
    case NodeOp::To: spans = true; break;
    default: break;
  }
  words.push_back(node.attrs.size());
  for (const Expr& attribute : node.attrs) read_integer(node, attribute);
}

// Regions are read behind the graph around them, as if they were parts of it.
void GraphKey::read_control(const Node& node) {
  const Control& control = *node.control;
  has_regions_ = true;
  for (uint64_t word : {control.regions.size(), control.carried, control.stacked, size_t{control.reverse}})
    words.push_back(word);
  if (node.op == NodeOp::Loop && !control.condition()) read_integer(node, control.length);
  for (const Region& region : control.regions) {
    words.push_back(region.parameters.size());
    for (const NodeRef& parameter : region.parameters) {
      const uint32_t number = visit(parameter.get());
      parameters_.emplace(parameter.get(), number);
      words.push_back(number);
    }
    words.push_back(region.results.size());
    for (const NodeRef& result : region.results) words.push_back(visit(result.get()));
  }
}

void GraphKey::add_number(NumberPlace::Kind kind, uint32_t axis, const Node& node, uint64_t value) {
  numbers.push_back(value);
  places.push_back({kind, axis, &node});
}

// Plans of regions know their numbers: the plan around them may not take one for an argument, even if the graph around
// has the same node.
void GraphKey::mark_inside() {
  std::unordered_set<const Node*> inside;
  for (const Node* node : nodes)
    if (node->control)
      for (const Region& region : node->control->regions)
        for (const Node* each : topological(region.results)) inside.insert(each);
  for (NumberPlace& place : places)
    if (inside.contains(place.node)) place.kind = NumberPlace::Kind::Inside;
}

void GraphKey::start() {
  words.clear();
  modes = modes_now();
  words.push_back(word_of(modes));
  numbers.clear();
  nodes.clear();
  references.clear();
  leaves.clear();
  donatable_leaf.clear();
  donated_to.clear();
  places.clear();
  symbols.clear();
  symbol_values.clear();
  is_region = has_regions_ = false;
  if (!parameters_.empty()) parameters_.clear();
  if (!expressions_.empty()) expressions_.clear();
  device = nullptr;
  spans = false;
  home = home_device();
  if (++walk_ == 0) {  // the marks of four billion walks ago would look fresh
    std::fill(table_.begin(), table_.end(), Entry{nullptr, 0, 0});
    walk_ = 1;
  }
}

// What lies in a file has no place: it is read as a copy from another device is. A parameter of a region that stands
// for a constant has none either, and is where the region runs.
void GraphKey::note_leaf(const Node& leaf) {
  if (leaf.device == kAnywhere)
    spans |= !is_placeholder(leaf);
  else
    note_device(leaf.device);
}

void GraphKey::note_device(DeviceNumber number) {
  if (!device)
    device = &backend_of(number);
  else
    spans |= device->number() != number;
}

void GraphKey::walk(Backend* only) {
  outputs = nodes.size();
  words.push_back(outputs);
  for (size_t i = 0; i < nodes.size(); ++i) {  // grows while we go
    HD_ASSERT(nodes.size() < UINT32_MAX);
    read_node(*nodes[i]);
  }
  if (has_regions_) mark_inside();
  if (only) {
    HD_ASSERT(!spans && (!device || device == only), "a part of a graph is on several devices");
    device = only;
  } else {
    // Results without a place go home.
    for (size_t i = 0; i < outputs; ++i)
      if (nodes[i]->device == kAnywhere) note_device(home);
    if (!device) device = &backend_of(home);
    if (spans) words.push_back(home);
  }
  hash = hash_words(words);
}

void GraphKey::read(std::span<const NodeRef> roots, std::span<const Storage* const> donatable) {
  start();
  captured_ = false;
  donatable_.assign(donatable.begin(), donatable.end());
  std::sort(donatable_.begin(), donatable_.end());
  for (const NodeRef& root : roots)
    if (root->op != NodeOp::Buffer) visit(root.get());
  walk();
}

void GraphKey::read_captured(std::span<const NodeRef> roots, std::span<const StateUpdate> updates) {
  start();
  captured_ = true;
  donatable_.clear();
  for (const NodeRef& root : roots)
    if (!is_provided(*root)) visit(root.get());
  find_outputs(updates);
  walk();
}

void GraphKey::find_outputs(std::span<const StateUpdate> updates) {
  updates_.clear();
  for (const StateUpdate& update : updates)
    if (!is_provided(*update.value)) updates_[update.input] = static_cast<int>(number(update.value));
}

void GraphKey::read_part(std::span<const NodeRef> roots, std::span<const Storage* const> donatable,
                         std::span<const StateUpdate> updates, const Modes& with, Backend& on) {
  start();
  modes = with;
  words[0] = word_of(modes);
  captured_ = true;
  donatable_.assign(donatable.begin(), donatable.end());
  std::sort(donatable_.begin(), donatable_.end());
  for (const NodeRef& root : roots)
    if (!is_provided(*root)) visit(root.get());
  find_outputs(updates);
  walk(&on);
}

void GraphKey::read_region(const Region& region, std::span<const StateUpdate> updates, const Modes& of_graph,
                           Backend& on) {
  read_part(region.results, {}, updates, of_graph, on);
  is_region = true;
  words[0] |= kRegion;
  hash = hash_words(words);
}

void GraphKey::shrink() {
  if (table_.size() <= 2 * kUnusual && words.capacity() <= 16 * kUnusual) return;
  *this = GraphKey();
}

}  // namespace heddle
