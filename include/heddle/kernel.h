// Kernels of one's own: what one block of a grid computes, on tiles. docs/kernels.md is the introduction.
//
//   Kernel softmax("softmax", [](KernelBuilder& k) {
//     KernelTensor x = k.input(0), y = k.output(x.shape(), x.dtype());
//     Tile row = k.block(x.size(0)), j = k.range(x.size(1));
//     Tile t = k.load(x, {row, j});
//     Tile e = exp(t - k.max(t, j));
//     k.store(y, {row, j}, e / k.sum(e, j));
//   });
//   softmax({zeros({2, 4})})[0]   // [[0.25 0.25 0.25 0.25] [0.25 0.25 0.25 0.25]]
#pragma once

#include <heddle/grad.h>
#include <heddle/tensor.h>

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace heddle {

struct KernelTrace;  // what has been written of a kernel so far
struct TileValue;

// What a kernel computes with. A *position* is an integer formula over blocks, ranges, variables of loops, and numbers;
// a comparison of positions is a *condition*. Anything else has a value for each combination of the ranges that it
// depends on, and operands meet by their ranges: of a over (i, k) and b over (k, j), a * b is over (i, k, j). Numbers
// take the dtype of the tile beside them.
class Tile {
 public:
  template <class T>
    requires std::is_arithmetic_v<T>
  Tile(T number)
      : kind_(std::same_as<T, bool> ? Kind::Bool
              : std::integral<T>    ? Kind::Integer
                                    : Kind::Float),
        integer_(std::integral<T> ? static_cast<int64_t>(number) : 0),
        real_(static_cast<double>(number)) {}

  DType dtype() const;  // of a position i64, of a condition bool
  Tile to(DType dtype) const;

  friend Tile operator+(const Tile& a, const Tile& b) { return of("add", {a, b}); }
  friend Tile operator-(const Tile& a, const Tile& b) { return of("sub", {a, b}); }
  friend Tile operator*(const Tile& a, const Tile& b) { return of("mul", {a, b}); }
  friend Tile operator/(const Tile& a, const Tile& b) { return of("div", {a, b}); }  // of integers: in f32
  friend Tile operator%(const Tile& a, const Tile& b) { return of("mod", {a, b}); }
  friend Tile operator-(const Tile& a) { return of("neg", {a}); }
  friend Tile operator==(const Tile& a, const Tile& b) { return of("eq", {a, b}); }
  friend Tile operator!=(const Tile& a, const Tile& b) { return of("ne", {a, b}); }
  friend Tile operator<(const Tile& a, const Tile& b) { return of("lt", {a, b}); }
  friend Tile operator<=(const Tile& a, const Tile& b) { return of("le", {a, b}); }
  friend Tile operator>(const Tile& a, const Tile& b) { return of("lt", {b, a}); }
  friend Tile operator>=(const Tile& a, const Tile& b) { return of("le", {b, a}); }
  friend Tile operator&(const Tile& a, const Tile& b) { return of("bit_and", {a, b}); }
  friend Tile operator|(const Tile& a, const Tile& b) { return of("bit_or", {a, b}); }
  friend Tile operator^(const Tile& a, const Tile& b) { return of("bit_xor", {a, b}); }
  friend Tile operator~(const Tile& a) { return of("bit_not", {a}); }

  friend Tile floordiv(const Tile& a, const Tile& b) { return of("floordiv", {a, b}); }
  friend Tile minimum(const Tile& a, const Tile& b) { return of("minimum", {a, b}); }
  friend Tile maximum(const Tile& a, const Tile& b) { return of("maximum", {a, b}); }
  friend Tile where(const Tile& condition, const Tile& a, const Tile& b) { return of("where", {condition, a, b}); }
  friend Tile fma(const Tile& a, const Tile& b, const Tile& c) { return of("fma", {a, b, c}); }
  friend Tile abs(const Tile& x) { return of("abs", {x}); }
  friend Tile sqrt(const Tile& x) { return of("sqrt", {x}); }
  friend Tile exp(const Tile& x) { return of("exp", {x}); }
  friend Tile exp2(const Tile& x) { return of("exp2", {x}); }
  friend Tile log(const Tile& x) { return of("log", {x}); }
  friend Tile sin(const Tile& x) { return of("sin", {x}); }
  friend Tile cos(const Tile& x) { return of("cos", {x}); }
  friend Tile tanh(const Tile& x) { return of("tanh", {x}); }
  friend Tile erf(const Tile& x) { return of("erf", {x}); }
  friend Tile floor(const Tile& x) { return of("floor", {x}); }
  friend Tile pow(const Tile& a, const Tile& b) { return of("pow", {a, b}); }

  // Any elementwise op by its name (src/core/ops.def): of("log1p", {x}).
  static Tile of(const char* op, std::initializer_list<Tile> operands) {
    return of(op, std::span(operands.begin(), operands.size()));
  }
  static Tile of(const char* op, std::span<const Tile> operands);

  std::string describe() const;  // "f32 over ranges 0, 2", "position b0 * 64 + r1", "number 2"

  // For the rest of Heddle.
  explicit Tile(std::shared_ptr<const TileValue> value) : value_(std::move(value)) {}
  enum class Kind { Bool, Integer, Float, Value };
  Kind kind() const { return kind_; }
  int64_t integer() const { return integer_; }
  double real() const { return real_; }
  const std::shared_ptr<const TileValue>& value() const { return value_; }

 private:
  Kind kind_ = Kind::Value;
  int64_t integer_ = 0;
  double real_ = 0;
  std::shared_ptr<const TileValue> value_;
};

// An input, a result, or shared memory of a kernel that is being written.
class KernelTensor {
 public:
  const Dims& shape() const { return shape_; }
  int64_t size(int64_t axis) const;
  DType dtype() const { return dtype_; }

 private:
  friend class KernelBuilder;
  KernelTensor(std::shared_ptr<const KernelTrace> trace, int buffer, Dims shape, DType dtype)
      : trace_(std::move(trace)), buffer_(buffer), shape_(std::move(shape)), dtype_(dtype) {}
  std::shared_ptr<const KernelTrace> trace_;
  int buffer_;
  Dims shape_;
  DType dtype_;
};

// Writes a kernel. Every function throws where what it is asked for makes no sense; what has been written can be
// compiled for every device.
class KernelBuilder {
 public:
  int input_count() const;
  KernelTensor input(int number) const;
  // A result. Elements that no store reaches hold anything.
  KernelTensor output(const Dims& shape, DType dtype);
  // Memory of the block: shared memory of a GPU, scratch of the thread on a CPU. Holds anything at first.
  KernelTensor shared(const Dims& shape, DType dtype);

  // The number of this block along one more axis of the grid, from 0 to count - 1. The last axis runs fastest.
  Tile block(int64_t count);
  // All of 0 to size - 1 at once: one more range.
  Tile range(int64_t size);

  // Elements at `at`: for each axis a position, or a tile of integers. Where `mask` does not hold, and outside of x, it
  // is `other`.
  Tile load(const KernelTensor& x, const std::vector<Tile>& at, const Tile& mask = true, const Tile& other = 0);
  // Writes `value`, as the dtype of y. Where `mask` does not hold, and outside of y, nothing is written. Two blocks
  // that write one element are a mistake that nobody looks for, but the interpreter (HEDDLE_CHECK=1).
  void store(const KernelTensor& y, const std::vector<Tile>& at, const Tile& value, const Tile& mask = true);

  // A number over ranges: what a loop starts with.
  Tile full(const std::vector<Tile>& ranges, const Tile& number, DType dtype);

  // Over all of a range, which the result does not depend on. Sums and products of floats of 8 and 16 bits are f32,
  // those of bool and of integers of 8 and 16 bits i64.
  Tile sum(const Tile& x, const Tile& range);
  Tile prod(const Tile& x, const Tile& range);
  Tile max(const Tile& x, const Tile& range);
  Tile min(const Tile& x, const Tile& range);
  // acc + sum(a * b, range), of products that are not rounded to a narrower dtype: f32 for floats of 8 and 16 bits, i32
  // for integers of these sizes.
  Tile dot(const Tile& a, const Tile& b, const Tile& range, const std::optional<Tile>& acc = {});

  // For i = start, start + step, ... while i < stop: `body` gets the position i and the carried tiles, and gives the
  // next ones. Bounds are positions.
  using LoopBody = std::function<std::vector<Tile>(const Tile& i, std::span<const Tile> carried)>;
  std::vector<Tile> loop(const Tile& start, const Tile& stop, int64_t step, const std::vector<Tile>& carried,
                         const LoopBody& body);

  // For the rest of Heddle.
  explicit KernelBuilder(std::shared_ptr<KernelTrace> trace) : trace_(std::move(trace)) {}

 private:
  Tile reduce(const char* name, const Tile& x, const Tile& range);
  std::shared_ptr<KernelTrace> trace_;
};

struct KernelOptions {
  int threads = 0;  // of a block on a GPU; 0: follows from the tiles
};

// A function of tensors that runs as one kernel. It is written (`write` is called) once for each combination of shapes
// and dtypes, and compiled for the device of its arguments. It has no gradient of its own: see custom_vjp(). Copies are
// the same kernel.
class Kernel {
 public:
  Kernel(std::string name, std::function<void(KernelBuilder&)> write, KernelOptions options = {});
  // The results in the order of output(). All arguments are on one device.
  TensorList operator()(const TensorList& inputs) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace heddle
