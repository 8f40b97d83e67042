#include "graph/node.h"

#include <new>

#include "base/intern.h"
#include "base/sanitizers.h"
#include "graph/build.h"
#include "graph/control.h"
#include "graph/custom.h"
#include "graph/gradient.h"
#include "graph/walk.h"

namespace heddle {

template <class F>
void Node::drop_children(F sink) {
  for (NodeRef& input : inputs) sink(const_cast<Node*>(input.detach()));
  // A long chain of realised values, each with its history, must not end in recursion either.
  if (rule && rule->computed_from && rule.use_count() == 1) sink(const_cast<Node*>(rule->computed_from.detach()));
  if (control && control.use_count() == 1)
    for (const Region& region : control->regions)
      for (const std::vector<NodeRef>* list : {&region.parameters, &region.results})
        for (const NodeRef& node : *list) sink(const_cast<Node*>(const_cast<NodeRef&>(node).detach()));
}

namespace {

// Never destroyed: handles with static lifetime may outlive every other static object.
Interner<Node>& table() {
  static Interner<Node>& nodes = *new Interner<Node>;
  return nodes;
}
[[maybe_unused]] Interner<Node>& nodes_made_at_start = table();

// Memory of dead nodes, kept by the thread that freed them. Trivially destructible, so that nodes may still die after
// the thread's other locals are gone; FreeListGuard empties it.
struct FreeSlot {
  FreeSlot* next;
};
struct FreeList {
  FreeSlot* head = nullptr;
  uint32_t count = 0;
  bool open = false;
  bool closed = false;
};
constexpr uint32_t kFreeListLimit = 8192;
constexpr bool kRecycleNodes = !HD_ADDRESS_SANITIZER;  // which sees no use of a dead node that is used again
thread_local constinit FreeList free_list;

struct FreeListGuard {
  FreeListGuard() { free_list.open = true; }
  ~FreeListGuard() {
    free_list.open = false;
    free_list.closed = true;
    while (FreeSlot* slot = free_list.head) {
      free_list.head = slot->next;
      ::operator delete(slot);
    }
    free_list.count = 0;
  }
};

bool open_free_list() {
  if (free_list.closed) return false;
  static thread_local FreeListGuard guard;
  return true;
}

bool has_literal(NodeOp op) { return info(op).detail == NodeDetail::Literal; }

void compute_hashes(Node& node) {
  uint64_t common = static_cast<uint64_t>(node.op) | static_cast<uint64_t>(node.dtype) << 8 | op_detail(node) << 16 |
                    static_cast<uint64_t>(node.shape.size()) << 24 | static_cast<uint64_t>(node.inputs.size()) << 32;
  for (const Expr& dim : node.shape) common = hash_combine(common, dim.hash());
  if (has_literal(node.op))
    common = hash_combine(hash_combine(common, node.literal.bits()), static_cast<uint64_t>(node.literal.dtype));
  if (node.op == NodeOp::Input) common = hash_combine(common, node.device);
  uint64_t attrs = 0;
  for (const Expr& attr : node.attrs) attrs = hash_combine(attrs, attr.hash());
  uint64_t value = common + attrs;
  uint64_t structure = node.op == NodeOp::Input ? common : common + attrs;
  for (const NodeRef& input : node.inputs) {
    value = hash_combine(value, input->hash);
    structure = hash_combine(structure, input->structure);
  }
  if (node.storage) value = hash_combine(value, reinterpret_cast<uintptr_t>(node.storage.get()));
  if (node.rule) value = hash_combine(value, reinterpret_cast<uintptr_t>(node.rule.get()));
  if (node.token) value = hash_combine(value, node.token);
  if (node.control) {
    for (const Region& region : node.control->regions) {
      for (const NodeRef& parameter : region.parameters) value = hash_combine(value, parameter->hash);
      for (const NodeRef& result : region.results) {
        value = hash_combine(value, result->hash);
        structure = hash_combine(structure, result->structure);
      }
    }
    value = hash_combine(value, node.control->length.hash() + node.control->reverse);
  }
  if (node.custom) {
    value = hash_combine(value, node.custom->hash);
    structure = hash_combine(structure, node.custom->hash);
  }
  node.hash = hash_mix(value);
  node.structure = hash_mix(structure);
}

// Where the inputs are. The inputs of a Pullback that only its gradients need, and what a Barrier waits for, may be
// elsewhere.
DeviceNumber device_of_inputs(const Node& node) {
  if (node.inputs.empty()) return kAnywhere;
  DeviceNumber device = node.inputs[0]->device;
  if (node.op == NodeOp::Pullback || node.op == NodeOp::Barrier) return device;
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    const DeviceNumber other = node.inputs[i]->device;
    check_same_device(node.op == NodeOp::Scalar ? info(node.scalar_op).name : name(node.op), device, other);
    if (device == kAnywhere) device = other;
  }
  return device;
}

DeviceNumber device_of(const Node& node) {
  switch (node.op) {
    case NodeOp::Buffer: return node.storage->device_number();
    case NodeOp::Input: return node.device;
    case NodeOp::To: return static_cast<DeviceNumber>(node.attrs[0].value());
    default: return device_of_inputs(node);
  }
}

bool leads_to_leaf(const Node& node) {
  if (!is_float(node.dtype) || node.op == NodeOp::Bitcast) return false;  // of control flow: no result is a float
  if (node.op == NodeOp::Input || leaf_rule(node)) return true;
  for (const NodeRef& input : differentiable_inputs(node))
    if (input->tracked) return true;
  return false;
}

}  // namespace

uint64_t op_detail(const Node& node) {
  switch (info(node.op).detail) {
    case NodeDetail::Scalar: return static_cast<uint64_t>(node.scalar_op);
    case NodeDetail::Reduce: return static_cast<uint64_t>(node.reduce_op);
    case NodeDetail::Scatter: return static_cast<uint64_t>(node.scatter_op);
    case NodeDetail::None:
    case NodeDetail::Literal: return 0;
  }
  __builtin_unreachable();
}

void* Node::operator new(size_t bytes) {
  if (kRecycleNodes && free_list.head) {
    FreeSlot* slot = free_list.head;
    free_list.head = slot->next;
    --free_list.count;
    return slot;
  }
  return ::operator new(bytes);
}

void Node::operator delete(void* memory) noexcept {
  if (kRecycleNodes && free_list.count < kFreeListLimit && (free_list.open || open_free_list())) {
    free_list.head = new (memory) FreeSlot{free_list.head};
    ++free_list.count;
    return;
  }
  ::operator delete(memory);
}

const char* name(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum: return "sum";
    case ReduceOp::Prod: return "prod";
    case ReduceOp::Max: return "max";
    case ReduceOp::Min: return "min";
  }
  __builtin_unreachable();
}

const char* name(ScatterOp op) {
  switch (op) {
    case ScatterOp::Set: return "set";
    case ScatterOp::Add: return "add";
    case ScatterOp::Mul: return "mul";
    case ScatterOp::Max: return "max";
    case ScatterOp::Min: return "min";
  }
  __builtin_unreachable();
}

bool Node::same(const Node& other) const { return inputs == other.inputs && same_but_inputs(other); }

bool Node::same_but_inputs(const Node& other) const {
  return op == other.op && dtype == other.dtype && op_detail(*this) == op_detail(other) && shape == other.shape &&
         attrs == other.attrs && storage == other.storage && rule == other.rule && token == other.token &&
         (op != NodeOp::Input || device == other.device) &&
         (control == other.control || (control && other.control && *control == *other.control)) &&
         (custom == other.custom || (custom && other.custom && custom->words == other.custom->words)) &&
         (!has_literal(op) || literal == other.literal);
}

void release_node(const Node* node) { table().release(const_cast<Node*>(node)); }

size_t live_nodes() { return table().size(); }

NewNode new_node(NodeOp op, DType dtype) {
  NewNode node(new Node);
  node->op = op;
  node->dtype = dtype;
  return node;
}

NewNode new_node(NodeOp op, DType dtype, const Shape& shape) {
  NewNode node = new_node(op, dtype);
  node->shape = shape;
  return node;
}

NodeRef finish_as_is(NewNode node) {
  compute_hashes(*node);
  node->tracked = leads_to_leaf(*node);
  node->device = device_of(*node);
  node->refs.store(1, std::memory_order_relaxed);
  Node* found = table().intern(*node, [&] { return node.get(); });
  if (found == node.get()) node.release();
  return NodeRef::adopt(found);
}

NodeRef finish(NewNode node) {
  if (has_zero(node->shape)) {
    std::span<const NodeRef> by = differentiable_inputs(*node);
    if (by.size() == 1 && by[0]->control) by = by[0]->inputs;
    return make_unmoved(const_like(heddle::Scalar::of(node->dtype, 0), node->shape), by);
  }
  return finish_as_is(std::move(node));
}

std::vector<const Node*> topological(std::span<const NodeRef> roots) {
  return inputs_first(roots, [](const Node& node) { return std::span<const NodeRef>(node.inputs); });
}

std::vector<const Node*> topological(std::span<const NodeRef> roots, const std::unordered_set<const Node*>& ends) {
  return inputs_first(roots, [&](const Node& node) {
    return ends.contains(&node) ? std::span<const NodeRef>() : std::span<const NodeRef>(node.inputs);
  });
}

}  // namespace heddle
