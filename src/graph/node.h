// The graph: immutable, hash-consed nodes over whole tensors. What to compute, with no effects and no time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/ops.h"
#include "core/scalar.h"
#include "core/shape.h"
#include "graph/placement.h"

namespace heddle {

enum class NodeOp : uint8_t {
#define HD_NODE(name, text, kind, results, detail) name,
#include "graph/nodes.def"
#undef HD_NODE
};
// What fusion sees in a node.
enum class NodeKind : uint8_t {
  Leaf,
  Elementwise,  // each element from the same one of every input
  Computed,     // inside the kernel that wants it, from other elements
  Reduction,    // many elements become one
  Movement,     // index arithmetic
  Own,          // a kernel of its own
  Result,       // one of several of another node
};
enum class NodeDetail : uint8_t { None, Scalar, Reduce, Scatter, Literal };
struct NodeInfo {
  const char* name;
  NodeKind kind;
  int results;
  NodeDetail detail;
};
inline constexpr NodeInfo kNodes[] = {
#define HD_NODE(name, text, kind, results, detail) {text, NodeKind::kind, results, NodeDetail::detail},
#include "graph/nodes.def"
#undef HD_NODE
};
constexpr const NodeInfo& info(NodeOp op) { return kNodes[static_cast<size_t>(op)]; }
constexpr const char* name(NodeOp op) { return info(op).name; }
enum class ReduceOp : uint8_t { Sum, Prod, Max, Min };
enum class ScatterOp : uint8_t { Set, Add, Mul, Max, Min };
const char* name(ReduceOp op);
const char* name(ScatterOp op);
// The neutral element of a reduction: 0, 1, the lowest or the highest value.
heddle::Scalar reduce_identity(ReduceOp op, DType dtype);

// Realised data. The runtime derives from it; the graph only keeps it alive and may preview it.
class Storage {
 public:
  explicit Storage(DeviceNumber device = kAnywhere) : device_(device) {}
  virtual ~Storage() = default;
  DeviceNumber device_number() const { return device_; }
  // Host memory holding the elements, or nullptr if it cannot be read from here.
  virtual const void* host_data() const = 0;
  virtual uint64_t bytes() const = 0;

 private:
  DeviceNumber device_;
};

class Node;
struct Control;       // graph/control.h
struct CustomKernel;  // graph/custom.h
struct TensorSlot;

// A counted reference to a node; null by default.
class NodeRef {
 public:
  NodeRef() = default;
  NodeRef(const NodeRef& other);
  NodeRef(NodeRef&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  NodeRef& operator=(NodeRef other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~NodeRef();
  // One more reference to a node that somebody keeps alive meanwhile.
  static NodeRef share(const Node* node);
  // Takes over one reference already counted.
  static NodeRef adopt(const Node* node) {
    NodeRef r;
    r.node_ = node;
    return r;
  }
  // Gives the counted reference up to the caller.
  const Node* detach() { return std::exchange(node_, nullptr); }
  const Node* get() const { return node_; }
  const Node* operator->() const { return node_; }
  const Node& operator*() const { return *node_; }
  explicit operator bool() const { return node_; }
  friend bool operator==(const NodeRef&, const NodeRef&) = default;

 private:
  const Node* node_ = nullptr;
};

// What differentiation has to know of a node beyond its op.
struct GradientRule {
  std::string name;
  // Of a Pullback with inputs: gradients for node.inputs[1], ... (null: none) from that of the node. They have the
  // dtype and shape of these inputs, and are linear in `gradient`. Those that are not `wanted` need not be there.
  using Wanted = std::span<const bool>;
  std::function<std::vector<NodeRef>(const Node& node, const NodeRef& gradient, Wanted wanted)> pull;
  // Of a leaf. If it is the value of a tensor that asked for gradients, it is a Pullback without inputs until it is
  // realised, and a Buffer from then on; the rule tells that the two are one.
  bool is_leaf = false;
  std::weak_ptr<TensorSlot> tensor = {};
  // Of a leaf that stands for the argument of a function: the function has been differentiated. From then on the leaf
  // is no more than what it stands for.
  mutable bool ended = false;
  // Of a Buffer: the graph that it was computed by, if that leads to a leaf.
  mutable NodeRef computed_from = {};
};
// The rule of the leaf that a node is; null if it is none.
const GradientRule* leaf_rule(const Node& node);
bool has_ended(const GradientRule& leaf);
void end_leaf(const Node& leaf);

class Node {
 public:
  NodeOp op = NodeOp::Const;
  DType dtype = DType::f32;
  union {
    ScalarOp scalar_op = ScalarOp{};  // Scalar
    ReduceOp reduce_op;               // Reduce, Scan, ArgReduce (Max or Min)
    ScatterOp scatter_op;             // Scatter
  };
  Shape shape;
  SmallVector<NodeRef, 2> inputs;
  SmallVector<Expr, 2> attrs;
  heddle::Scalar literal;                      // Const, Pad
  std::shared_ptr<Storage> storage;            // Buffer: equal only if the same storage
  std::shared_ptr<const GradientRule> rule;    // Pullback, Buffer: equal only if the same object
  std::shared_ptr<const Control> control;      // Loop, Cond
  std::shared_ptr<const CustomKernel> custom;  // Custom
  uint64_t token = 0;                          // Barrier: distinguishes computations that must not merge
  // Whether gradients can flow from here to a leaf or to an Input.
  bool tracked = false;
  DeviceNumber device = kAnywhere;  // follows from the inputs; of a Buffer, an Input and a To its own

  // Identity of the value: equal nodes are one object.
  uint64_t hash = 0;
  // Structure only: buffers and inputs count by dtype and shape, not by identity. Two graphs that compile alike have
  // equal ones (sharing of leaves is checked separately, by a walk).
  uint64_t structure = 0;
  mutable std::atomic<uint32_t> refs{0};

  // Of a node that gives several results, `dtype` and `shape` are those of the first: result_type() knows all of them.
  // Control flow gives several even if that is one; its dtype is that of the first float, if there is any.
  int result_count() const;
  bool gives_several() const { return info(op).results != 1; }
  bool is_leaf() const { return info(op).kind == NodeKind::Leaf; }

  // For Interner.
  bool same(const Node& other) const;
  bool same_but_inputs(const Node& other) const;
  template <class F>
  void drop_children(F sink);
  // Nodes come and go by the million: their memory is recycled per thread.
  static void* operator new(size_t bytes);
  static void operator delete(void* memory) noexcept;
};

// Gives back one reference; the last one destroys the node and whatever it alone kept alive, without recursion.
void release_node(const Node* node);

inline NodeRef NodeRef::share(const Node* node) {
  if (node) node->refs.fetch_add(1, std::memory_order_relaxed);
  return adopt(node);
}
inline NodeRef::NodeRef(const NodeRef& other) : node_(other.node_) {
  if (node_) node_->refs.fetch_add(1, std::memory_order_relaxed);
}
inline NodeRef::~NodeRef() {
  if (node_) release_node(node_);
}

size_t live_nodes();

// Every node reachable from roots, inputs before users, each once. No recursion.
std::vector<const Node*> topological(std::span<const NodeRef> roots);
// The same without what is only reached through a node of `ends`, which are part of it themselves.
std::vector<const Node*> topological(std::span<const NodeRef> roots, const std::unordered_set<const Node*>& ends);

// Builders: check shapes and dtypes (throwing ShapeError, DTypeError, IndexError that name op, shapes and dtypes),
// fold constants and identities, merge views, and intern. `op` names the user's operator in messages.
NodeRef make_const(const heddle::Scalar& value, const Shape& shape = {});
NodeRef make_buffer(std::shared_ptr<Storage> storage, DType dtype, const Shape& shape,
                    std::shared_ptr<const GradientRule> rule = nullptr);
NodeRef make_input(int64_t number, int64_t function, DType dtype, const Shape& shape, DeviceNumber device = kAnywhere);
NodeRef make_iota(DType dtype, const Shape& shape, int axis);
// Operands have equal shapes and the dtypes the op's rule asks for: broadcasting and promotion are the caller's.
NodeRef make_scalar(ScalarOp op, std::span<const NodeRef> inputs);
NodeRef make_cast(const NodeRef& x, DType to);
NodeRef make_bitcast(const NodeRef& x, DType to);
NodeRef make_reduce(ReduceOp op, const NodeRef& x, std::span<const int> axes);
NodeRef make_arg_reduce(ReduceOp op, const NodeRef& x, int axis);         // use make_get for its results
NodeRef make_sort(const NodeRef& x, bool descending, const Expr& count);  // the same; count: how many to keep
NodeRef make_scan(ReduceOp op, const NodeRef& x, int axis);
NodeRef make_get(const NodeRef& x, int result);
struct ResultType {
  DType dtype;
  Shape shape;
};
ResultType result_type(const Node& node, int result);
NodeRef make_reshape(const NodeRef& x, const Shape& shape);
NodeRef make_permute(const NodeRef& x, std::span<const int> axes);
NodeRef make_expand(const NodeRef& x, const Shape& shape);
NodeRef make_pad(const NodeRef& x, std::span<const Expr> before, std::span<const Expr> after,
                 const heddle::Scalar& value);
NodeRef make_shrink(const NodeRef& x, std::span<const Expr> begin, std::span<const Expr> size);
NodeRef make_flip(const NodeRef& x, std::span<const int> axes);
NodeRef make_window(const NodeRef& x, int axis, int64_t size, int64_t stride, int64_t dilation);
NodeRef make_unwindow(const NodeRef& x, int axis, int64_t size, int64_t stride, int64_t dilation, const Expr& n);
NodeRef make_cat(std::span<const NodeRef> inputs, int axis);
// x on another device. What has no place is computed there; kAnywhere leaves x where it is.
NodeRef make_to(const NodeRef& x, DeviceNumber device);
// `label` names the operator that an index out of range is reported for; see index_label(). With kUncheckedIndex
// nothing is reported: somebody else checks the same index.
constexpr int64_t kUncheckedIndex = INT64_MIN + 2;  // the two before it are marks in plan keys
NodeRef make_gather(const NodeRef& x, const NodeRef& index, int axis, int64_t label = 0);
NodeRef make_gather_along(const NodeRef& x, const NodeRef& index, int axis, int64_t label = 0);
// What combines two elements.
ScalarOp combiner(ReduceOp op);
// What combines an element with an update; nothing for Set. Of bool a sum is an or and a product an and.
std::optional<ScalarOp> scatter_combiner(ScatterOp op, DType dtype);
NodeRef make_scatter(ScatterOp op, const NodeRef& base, const NodeRef& index, const NodeRef& updates, int axis,
                     int64_t label = 0);
NodeRef make_barrier(const NodeRef& x, const NodeRef& token);
// `value`, differentiated by the rule. The rule may be null when there are no inputs.
NodeRef make_pullback(const NodeRef& value, std::span<const NodeRef> inputs, std::shared_ptr<const GradientRule> rule);
// x as a constant for gradients.
NodeRef make_detached(const NodeRef& x);
// `value`, which the given sources have no influence on: their gradients are zero, where otherwise there would be none.
NodeRef make_unmoved(const NodeRef& value, std::span<const NodeRef> by);
// While one of these lives, builders on this thread forget sources that they fold away: nobody will differentiate.
class ForgetSources {
 public:
  ForgetSources();
  ForgetSources(const ForgetSources&) = delete;
  ForgetSources& operator=(const ForgetSources&) = delete;
  ~ForgetSources();

 private:
  bool before_;
};
// x as a leaf for gradients, different from all others: the argument of a function, through which gradients of an outer
// function still flow to x; or the value of a tensor, at which they end.
NodeRef make_leaf(const NodeRef& x);
NodeRef make_leaf(const NodeRef& x, std::weak_ptr<TensorSlot> tensor);
// How many leaves there are: while there are none, nobody has to look for them.
int64_t live_leaves();
// An Input that is like no other: it stands for an argument of a function that is being looked at.
NodeRef make_placeholder(DType dtype, const Shape& shape, DeviceNumber device = kAnywhere);
inline NodeRef placeholder_like(const Node& x) { return make_placeholder(x.dtype, x.shape, x.device); }
// Numbers of placeholders and of those who call functions with them, from 1 on: what came later has a greater one.
int64_t next_placeholder_number();

// A number for the name of a public operator, from 1 on; the operator has added the axis's size to negative indices
// already. The negative of a label says that it has not. Label 0 is the node's own name, with indices as they are.
int64_t index_label(const std::string& name);
// "take: index 17 is out of range for axis 0 of size 10".
std::string describe_bad_index(const char* node, int64_t label, int64_t index, int64_t axis, int64_t size);

}  // namespace heddle
