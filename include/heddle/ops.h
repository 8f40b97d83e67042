// Operators. They record; nothing runs before a value is needed. Spelling and rules follow NumPy and PyTorch:
// operands broadcast, dtypes promote, a number written in the program ("weak") never widens a tensor's dtype.
#pragma once

#include <heddle/tensor.h>

#include <concepts>

namespace heddle {

// A tensor, or a number that takes its dtype from the tensor beside it.
class Operand {
 public:
  Operand(const Tensor& tensor) : tensor_(&tensor) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  Operand(T number)
      : kind_(std::is_same_v<T, bool> ? Kind::Bool
              : std::is_integral_v<T> ? Kind::Integer
                                      : Kind::Float),
        integer_(std::is_integral_v<T> ? static_cast<int64_t>(number) : 0),
        real_(static_cast<double>(number)) {}

  enum class Kind { Tensor, Bool, Integer, Float };
  Kind kind() const { return kind_; }
  const Tensor& tensor() const { return *tensor_; }
  int64_t integer() const { return integer_; }  // of Bool and Integer; numbers from 2^63 on wrap around
  double real() const { return real_; }

 private:
  Kind kind_ = Kind::Tensor;
  const Tensor* tensor_ = nullptr;
  int64_t integer_ = 0;
  double real_ = 0;
};

// ---- creation ----
template <class T>
Tensor from_vector(const std::vector<T>& values, const Dims& shape);
template <class T>
Tensor from_data(const T* values, const Dims& shape);                     // copies
Tensor tensor(std::initializer_list<double> values, DType dtype = kF32);  // one axis
Tensor scalar(const Operand& value, DType dtype = kF32);
Tensor full(const Dims& shape, const Operand& value, DType dtype = kF32);  // an integer dtype must hold the number
Tensor zeros(const Dims& shape, DType dtype = kF32);
Tensor ones(const Dims& shape, DType dtype = kF32);
Tensor arange(int64_t end, DType dtype = kI64);
Tensor arange(double begin, double end, double step, DType dtype = kF32);
Tensor eye(int64_t n, DType dtype = kF32);

// ---- random numbers ----
// Every call takes the next key of the process's generator; the same seed gives the same numbers on every device.
void manual_seed(uint64_t seed);  // the two halves of the seed are combined into 32 bits
Tensor uniform(const Dims& shape, double low = 0, double high = 1, DType dtype = kF32);  // [low, high)
Tensor randn(const Dims& shape, DType dtype = kF32);                                     // mean 0, variance 1
// Both are made of 24 random bits per uniform number, in f64 too.

// ---- elementwise, one operand ----
Tensor neg(const Tensor& x);
Tensor abs(const Tensor& x);
Tensor sign(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor exp2(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log2(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor square(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor erf(const Tensor& x);
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor trunc(const Tensor& x);
Tensor round(const Tensor& x);  // half to even
Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
Tensor isfinite(const Tensor& x);
Tensor logical_not(const Tensor& x);
Tensor bitwise_not(const Tensor& x);
Tensor relu(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor silu(const Tensor& x);
Tensor gelu(const Tensor& x);  // exact, by erf
Tensor clamp(const Tensor& x, const Operand& low, const Operand& high);
Tensor cast(const Tensor& x, DType dtype);
Tensor bitcast(const Tensor& x, DType dtype);  // same size of element

// ---- elementwise, two or three operands ----
Tensor add(const Operand& a, const Operand& b);
Tensor sub(const Operand& a, const Operand& b);
Tensor mul(const Operand& a, const Operand& b);
Tensor div(const Operand& a, const Operand& b);       // true division: integers become f32
Tensor floordiv(const Operand& a, const Operand& b);  // rounds down; an integer divided by zero gives zero
Tensor mod(const Operand& a, const Operand& b);       // sign of the divisor
Tensor pow(const Operand& a, const Operand& b);       // integers to a whole number stay integers; all else gives floats
Tensor minimum(const Operand& a, const Operand& b);
Tensor maximum(const Operand& a, const Operand& b);
Tensor eq(const Operand& a, const Operand& b);
Tensor ne(const Operand& a, const Operand& b);
Tensor lt(const Operand& a, const Operand& b);
Tensor le(const Operand& a, const Operand& b);
Tensor gt(const Operand& a, const Operand& b);
Tensor ge(const Operand& a, const Operand& b);
Tensor logical_and(const Operand& a, const Operand& b);
Tensor logical_or(const Operand& a, const Operand& b);
Tensor logical_xor(const Operand& a, const Operand& b);
Tensor bitwise_and(const Operand& a, const Operand& b);
Tensor bitwise_or(const Operand& a, const Operand& b);
Tensor bitwise_xor(const Operand& a, const Operand& b);
Tensor shift_left(const Operand& a, const Operand& b);
Tensor shift_right(const Operand& a, const Operand& b);
Tensor where(const Tensor& condition, const Operand& if_true, const Operand& if_false);
Tensor fma(const Tensor& a, const Tensor& b, const Tensor& c);  // a * b + c, rounded once

// ---- reductions ----
// Over no axes listed: over all. Sums and products of bool and narrow integers are i64, of unsigned ones u64.
Tensor sum(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
Tensor prod(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
Tensor max(const Tensor& x, const Axes& axes = {}, bool keepdim = false);  // ValueError over an empty axis
Tensor min(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
Tensor mean(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
// Divides by n - correction: 1 as in PyTorch; NumPy's default is 0.
Tensor var(const Tensor& x, const Axes& axes = {}, bool keepdim = false, int64_t correction = 1);
Tensor any(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
Tensor all(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
Tensor argmax(const Tensor& x, std::optional<int64_t> axis = {}, bool keepdim = false);  // i64; first among equals
Tensor argmin(const Tensor& x, std::optional<int64_t> axis = {}, bool keepdim = false);
Tensor logsumexp(const Tensor& x, const Axes& axes, bool keepdim = false);
Tensor softmax(const Tensor& x, int64_t axis);
Tensor log_softmax(const Tensor& x, int64_t axis);
Tensor layer_norm(const Tensor& x, int64_t axes = 1, double epsilon = 1e-5);  // over the last `axes` axes

// ---- shape ----
Tensor reshape(const Tensor& x, const Dims& shape);  // one -1 is worked out
Tensor permute(const Tensor& x, const std::vector<int64_t>& axes);
Tensor transpose(const Tensor& x, int64_t axis0 = -2, int64_t axis1 = -1);
Tensor expand(const Tensor& x, const Dims& shape);
Tensor pad(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& before_after, const Operand& value = 0);
Tensor shrink(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& begin_end);
// Python's x[begin:end:step] along one axis: negative positions count from the end, out-of-range ones are clipped.
Tensor slice(const Tensor& x, int64_t axis, std::optional<int64_t> begin, std::optional<int64_t> end = {},
             int64_t step = 1);
Tensor select(const Tensor& x, int64_t axis, int64_t index);  // one position, without the axis
Tensor flip(const Tensor& x, const std::vector<int64_t>& axes);
Tensor squeeze(const Tensor& x, std::optional<int64_t> axis = {});
Tensor unsqueeze(const Tensor& x, int64_t axis);
Tensor flatten(const Tensor& x, int64_t begin = 0, int64_t end = -1);
// Windows of `size` elements every `stride` along an axis, inside the window every `dilation`: a new last axis.
Tensor window(const Tensor& x, int64_t axis, int64_t size, int64_t stride = 1, int64_t dilation = 1);
// The transpose of window(): puts windows back onto an axis of `n` elements, adding up where they overlap.
Tensor unwindow(const Tensor& x, int64_t axis, int64_t size, int64_t stride, int64_t dilation, int64_t n);
Tensor cat(const std::vector<Tensor>& parts, int64_t axis = 0);
Tensor stack(const std::vector<Tensor>& parts, int64_t axis = 0);

// ---- indexing ----
// Along `axis` of x the elements chosen by `index` (integers; negative ones count from the end), whose axes take that
// axis's place. Out of range is clamped.
Tensor gather(const Tensor& x, const Tensor& index, int64_t axis = 0);

// ---- linear algebra ----
Tensor matmul(const Tensor& a, const Tensor& b);  // NumPy's rules: batches broadcast, vectors are rows or columns

inline Tensor operator-(const Tensor& x) { return neg(x); }
inline Tensor operator~(const Tensor& x) { return bitwise_not(x); }
inline Tensor operator!(const Tensor& x) { return logical_not(x); }

// One operand of an operator is a tensor, the other a tensor or a number.
template <class A, class B>
concept OperandPair = std::convertible_to<const A&, Operand> && std::convertible_to<const B&, Operand> &&
                      (std::same_as<A, Tensor> || std::same_as<B, Tensor>);
#define HD_OPERATOR(symbol, function)              \
  template <class A, class B>                      \
    requires OperandPair<A, B>                     \
  Tensor operator symbol(const A& a, const B& b) { \
    return function(a, b);                         \
  }
HD_OPERATOR(+, add)
HD_OPERATOR(-, sub)
HD_OPERATOR(*, mul)
HD_OPERATOR(/, div)
HD_OPERATOR(%, mod)
HD_OPERATOR(==, eq)
HD_OPERATOR(!=, ne)
HD_OPERATOR(<, lt)
HD_OPERATOR(<=, le)
HD_OPERATOR(>, gt)
HD_OPERATOR(>=, ge)
HD_OPERATOR(&, bitwise_and)
HD_OPERATOR(|, bitwise_or)
HD_OPERATOR(^, bitwise_xor)
HD_OPERATOR(<<, shift_left)
HD_OPERATOR(>>, shift_right)
#undef HD_OPERATOR

}  // namespace heddle
