// The tensor: a handle to a value that is computed when somebody looks at it.
#pragma once

#include <heddle/device.h>
#include <heddle/dtype.h>
#include <heddle/error.h>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <vector>

namespace heddle {

class NodeRef;
class Dim;
class Index;
class Operand;
class Shape;
struct TensorSlot;

// Sizes of a tensor's axes: `zeros({2, 3})`, or of the only one: `zeros(3)`.
class Dims : public std::vector<int64_t> {
 public:
  using std::vector<int64_t>::vector;
  Dims(const std::vector<int64_t>& list) : std::vector<int64_t>(list) {}
  template <std::integral I>
    requires(!std::same_as<I, bool>)
  Dims(I size) : std::vector<int64_t>{static_cast<int64_t>(size)} {}

  // Of a list from Tensor::shape() with symbolic sizes (dim.h): what they are. An operator that is given the list goes
  // on with the symbol wherever the number is still the same.
  std::shared_ptr<const Shape> recorded;

  friend std::ostream& operator<<(std::ostream& out, const Dims& sizes);  // [2, 3]
};

// Axes an operator works on: a list, or one; negative ones count from the end. `{}` means all of them to a reduction,
// Axes::none() none: every element is the reduction of itself.
class Axes : public std::vector<int64_t> {
 public:
  static Axes none() {
    Axes axes;
    axes.is_none_ = true;
    return axes;
  }
  bool is_none() const { return is_none_ && empty(); }

  using std::vector<int64_t>::vector;
  Axes(const std::vector<int64_t>& list) : std::vector<int64_t>(list) {}
  template <std::integral I>
    requires(!std::same_as<I, bool>)
  Axes(I axis) : std::vector<int64_t>{static_cast<int64_t>(axis)} {}

  friend std::ostream& operator<<(std::ostream& out, const Axes& axes);  // [0, -1]

 private:
  bool is_none_ = false;
};

// Copying a Tensor copies the handle: both then name one slot, and see what assign(), += and realize() do to it.
// `x = y` makes x another handle to y's slot. Operators make new tensors and never change their operands; a view never
// shares memory with what it was made from.
class Tensor {
 public:
  Tensor();  // a scalar f32 zero
  explicit Tensor(const NodeRef& node);
  // There is no moved-from state: moving copies the handle. Temporaries cannot be assigned to, because `x[0] = y` would
  // not change x.
  Tensor(const Tensor&) = default;
  Tensor& operator=(const Tensor& other) &;

  // Shape and type are known without computing anything.
  Dims shape() const;
  int64_t size(int64_t axis) const;
  int rank() const;
  int64_t numel() const;
  DType dtype() const;
  // Where its value is, or will be computed. A constant that nothing has placed yet is on the default device.
  Device device() const;

  // The same elements with the size of one axis from now on symbolic: whatever is computed from it is compiled once for
  // all values of `size`. shape() and size() go on giving the number. ValueError if the number is none of its values.
  // Computes the tensor, except where it is a constant, or a part of another one along the axis: x.slice(0, 0, t), or
  // an elementwise function or transposition of it.
  Tensor with_dim(int64_t axis, const Dim& size) const;

  // While jit() records (jit.h) there are no values: then what follows throws CaptureError naming the line `where`.
  // Computes the value now and keeps it. Returns *this.
  const Tensor& realize(const std::source_location& where = std::source_location::current()) const;
  bool is_realized() const;

  // The only element, converted to T. ShapeError if there is not exactly one.
  template <class T>
  T item(const std::source_location& where = std::source_location::current()) const;
  // All elements in row-major order, converted to T.
  template <class T>
  std::vector<T> to_vector(const std::source_location& where = std::source_location::current()) const;
  // The elements themselves, in memory; the dtype must be T's. Valid while the slot keeps this value: where other
  // threads change the tensor, take them from a clone() or a snapshot().
  template <class T>
  std::span<const T> data(const std::source_location& where = std::source_location::current()) const&;
  template <class T>
  std::span<const T> data(const std::source_location& where = std::source_location::current()) const&& =
      delete;  // it would not outlive the tensor

  // Gives the slot another value of the same shape and dtype. The old memory is reused when nobody else needs it.
  void assign(const Tensor& value);
  // With a tensor or a number; the result must fit the shape and the dtype.
  Tensor& operator+=(const Operand& other) &;
  Tensor& operator-=(const Operand& other) &;
  Tensor& operator*=(const Operand& other) &;
  Tensor& operator/=(const Operand& other) &;

  // Gradients; see <heddle/grad.h>. A tensor that requires gradients is a leaf: what is assigned to it counts as a
  // value, not as a computation. Only floats can ask. Returns *this.
  const Tensor& requires_grad_(bool on = true) const;
  bool requires_grad() const;  // this tensor, or one that it is computed from
  bool is_leaf() const;        // asked for gradients itself, or needs none
  Tensor detach() const;       // the same value as a constant for gradients
  // Adds the gradients of this one element (or of its product with `cotangent`) to grad() of every leaf that it was
  // computed from.
  void backward(const std::optional<Tensor>& cotangent = {}) const;
  // What backward() has added up since zero_grad(); nothing before that.
  std::optional<Tensor> grad() const;
  void zero_grad() const;

  // Operators as methods, for chains: `x.exp().sum(-1).sqrt()`. What they do is said at the functions of the same name,
  // which <heddle/ops.h> has all of.
  Tensor abs() const;
  Tensor square() const;
  Tensor sqrt() const;
  Tensor rsqrt() const;
  Tensor reciprocal() const;
  Tensor exp() const;
  Tensor log() const;
  Tensor sin() const;
  Tensor cos() const;
  Tensor tanh() const;
  Tensor floor() const;
  Tensor ceil() const;
  Tensor round() const;
  Tensor isnan() const;
  Tensor relu() const;
  Tensor sigmoid() const;
  Tensor gelu() const;
  Tensor pow(const Operand& exponent) const;
  Tensor clamp(const Operand& low, const Operand& high) const;
  Tensor cast(DType dtype) const;
  Tensor to(DType dtype) const { return cast(dtype); }
  Tensor to(const Device& device) const;

  Tensor sum(const Axes& axes = {}, bool keepdim = false) const;
  Tensor prod(const Axes& axes = {}, bool keepdim = false) const;
  Tensor mean(const Axes& axes = {}, bool keepdim = false) const;
  Tensor max(const Axes& axes = {}, bool keepdim = false) const;
  Tensor min(const Axes& axes = {}, bool keepdim = false) const;
  Tensor var(const Axes& axes = {}, bool keepdim = false, int64_t correction = 1) const;
  Tensor std(const Axes& axes = {}, bool keepdim = false, int64_t correction = 1) const;
  Tensor any(const Axes& axes = {}, bool keepdim = false) const;
  Tensor all(const Axes& axes = {}, bool keepdim = false) const;
  Tensor norm(double p = 2, const Axes& axes = {}, bool keepdim = false) const;
  Tensor argmax(std::optional<int64_t> axis = {}, bool keepdim = false) const;
  Tensor argmin(std::optional<int64_t> axis = {}, bool keepdim = false) const;
  Tensor softmax(int64_t axis = -1) const;
  Tensor log_softmax(int64_t axis = -1) const;

  Tensor reshape(const Dims& shape) const;
  template <std::integral... I>
    requires(sizeof...(I) > 1)
  Tensor reshape(I... sizes) const {  // x.reshape(2, -1)
    return reshape(Dims{static_cast<int64_t>(sizes)...});
  }
  Tensor view(const Dims& shape) const;
  Tensor permute(const Axes& axes) const;
  template <std::integral... I>
    requires(sizeof...(I) > 1)
  Tensor permute(I... axes) const {  // x.permute(1, 0)
    return permute(Axes{static_cast<int64_t>(axes)...});
  }
  Tensor transpose(int64_t axis0 = -2, int64_t axis1 = -1) const;
  Tensor t() const;  // of a matrix; fewer axes stay as they are
  Tensor expand(const Dims& shape) const;
  Tensor flatten(int64_t begin = 0, int64_t end = -1) const;
  Tensor squeeze(const Axes& axes = {}) const;
  Tensor unsqueeze(const Axes& axes) const;
  Tensor flip(const Axes& axes) const;
  Tensor slice(int64_t axis, std::optional<int64_t> begin, std::optional<int64_t> end = {}, int64_t step = 1) const;
  Tensor select(int64_t axis, int64_t index) const;
  Tensor clone() const;  // a slot of its own for the same value

  Tensor matmul(const Tensor& other) const;
  Tensor dot(const Tensor& other) const;

  // Element or sub-tensor at `index` of the first axis: `x[0][1]`.
  Tensor operator[](int64_t index) const;

  // NumPy's x[...]: see <heddle/ops/indexing.h>. `x(0, Slice(1, 5))`, `x(Ellipsis, NewAxis)`, `x(rows, columns)`.
  template <class... I>
    requires(sizeof...(I) > 0)
  Tensor operator()(const I&... indices) const {
    return at({Index(indices)...});
  }
  Tensor at(std::initializer_list<Index> indices) const;
  // NumPy's x[...] = value: `x.set({Slice(1, 3), 0}, value)`. Gives the slot a new value, as assign() does.
  void set(std::initializer_list<Index> indices, const Operand& value);
  void set(std::span<const Index> indices, const Operand& value);

  // For the rest of Heddle: the value as a node of the graph.
  NodeRef node() const;
  TensorSlot& slot() const { return *slot_; }
  const std::shared_ptr<TensorSlot>& shared_slot() const { return slot_; }
  static Tensor of_slot(const std::shared_ptr<TensorSlot>& slot);
  long handles() const { return slot_.use_count(); }  // that name the slot

 private:
  std::shared_ptr<TensorSlot> slot_;
};

// "[[1. 2.]\n [3. 4.]]": like NumPy, elided when large. Computes the tensor.
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);
std::string to_string(const Tensor& tensor);

// Computes several tensors together: what they share is computed once, and kernels are fused across them.
void realize(std::span<const Tensor> tensors, const std::source_location& where = std::source_location::current());
void realize(std::initializer_list<Tensor> tensors,
             const std::source_location& where = std::source_location::current());

// The values of several tensors at one moment, as tensors of their own and constants for gradients: never some from
// before and some from after a call of a captured function, a step of an optimiser or a load() of another thread.
// Copies nothing; whoever changes a tensor later leaves the old memory alone.
std::vector<Tensor> snapshot(std::span<const Tensor> tensors);
std::vector<Tensor> snapshot(std::initializer_list<Tensor> tensors);

// The graph behind tensors, as text or in Graphviz's dot language.
std::string print_graph(std::initializer_list<Tensor> tensors);
std::string print_dot(std::initializer_list<Tensor> tensors);

}  // namespace heddle
