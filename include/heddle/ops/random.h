// Random numbers, by a counter-based generator: Philox 4x32 with ten rounds. docs/guide.md gives the layout. They are
// ordinary tensor code: they fuse with what uses them, and the same key gives the same numbers on every device.
#pragma once

#include <heddle/ops/operand.h>

#include <array>
#include <atomic>

namespace heddle {

// Hands out keys: every random tensor takes the next one. Safe to use from several threads.
class Generator {
 public:
  struct State {
    uint64_t seed = 0;
    uint64_t draws = 0;  // random tensors made since the seed was set
    friend bool operator==(const State&, const State&) = default;
  };
  explicit Generator(uint64_t seed = 0) : state_{seed, 0} {}
  void manual_seed(uint64_t seed);
  State state() const;
  void set_state(const State& state);
  // Four words: the halves of the seed and of the number of draws.
  Tensor next_key() { return next_keys(1); }

  // For the rest of Heddle: many keys at once. Later ones count up from the first, which this gives, or from the draws
  // of the state before.
  Tensor next_keys(uint64_t draws);
  State advance(uint64_t draws);
  void take_back(const State& before, uint64_t draws);  // unless others have drawn since
  static std::array<uint32_t, 4> key_words(const State& state);

 private:
  class Locked;
  mutable std::atomic<bool> locked_{false};  // while the two numbers change or are read together
  State state_;
};

// The generator that the functions below use unless another is given.
Generator& default_generator();

// @dtypes none @shape none

// Starts the default generator anew.
//   manual_seed(42);
//   uniform(3).shape()   // [3]
void manual_seed(uint64_t seed);

// @dtypes floats @shape as given

// Numbers in [low, high): multiples of 2^-24 of the width, of 2^-53 in f64.
//   manual_seed(0);
//   uniform(2)   // [0.39904642 0.88052043]
Tensor uniform(const Dims& shape, double low = 0, double high = 1, DType dtype = kF32,
               Generator& generator = default_generator());
//   uniform(2, 0, 1, {.device = "cpu"}).shape()   // [2]
Tensor uniform(const Dims& shape, double low, double high, const TensorOptions& options,
               Generator& generator = default_generator());
// The same over [0, 1).
//   rand({2, 3}).shape()   // [2, 3]
Tensor rand(const Dims& shape, DType dtype = kF32, Generator& generator = default_generator());
//   rand(2, {.device = "cpu"}).shape()   // [2]
Tensor rand(const Dims& shape, const TensorOptions& options, Generator& generator = default_generator());
// Normally distributed: Box and Muller's transform of two words, of four in f64. At most 6.7 away from the mean, 9.4 in
// f64, in units of the deviation.
//   normal({2, 3}, 5, 0.1).shape()   // [2, 3]
Tensor normal(const Dims& shape, double mean = 0, double deviation = 1, DType dtype = kF32,
              Generator& generator = default_generator());
//   normal(2, 0, 1, {.device = "cpu"}).shape()   // [2]
Tensor normal(const Dims& shape, double mean, double deviation, const TensorOptions& options,
              Generator& generator = default_generator());
// Mean 0, variance 1.
//   randn({2, 3}).shape()   // [2, 3]
Tensor randn(const Dims& shape, DType dtype = kF32, Generator& generator = default_generator());
//   randn(2, {.dtype = kF64, .device = "cpu"}).shape()   // [2]
Tensor randn(const Dims& shape, const TensorOptions& options, Generator& generator = default_generator());
// Normally distributed as long as it lies in [low, high], through the inverse of the error function.
//   truncated_normal({2, 3}, 0, 0.02, -0.04, 0.04).shape()   // [2, 3]
Tensor truncated_normal(const Dims& shape, double mean = 0, double deviation = 1, double low = -2, double high = 2,
                        DType dtype = kF32, Generator& generator = default_generator());
//   truncated_normal(2, 0, 1, -2, 2, {.device = "cpu"}).shape()   // [2]
Tensor truncated_normal(const Dims& shape, double mean, double deviation, double low, double high,
                        const TensorOptions& options, Generator& generator = default_generator());
// Density rate * exp(-rate * x) for x >= 0. At most 22.9 / rate, 45.1 / rate in f64.
//   exponential(5, 2).shape()   // [5]
Tensor exponential(const Dims& shape, double rate = 1, DType dtype = kF32, Generator& generator = default_generator());
//   exponential(2, 1, {.device = "cpu"}).shape()   // [2]
Tensor exponential(const Dims& shape, double rate, const TensorOptions& options,
                   Generator& generator = default_generator());
// Gamma distributed with mean alpha * scale; alpha, a number or a tensor that broadcasts to the shape, is positive.
// Marsaglia and Tsang's method with 8 rounds. One element in 3e10 is accepted by none of them and takes the last
// candidate, which leaves the distribution within 2e-12 of the exact one in total variation.
//   gamma({2, 3}, 2.5).shape()   // [2, 3]
Tensor gamma(const Dims& shape, const Operand& alpha, double scale = 1, DType dtype = kF32,
             Generator& generator = default_generator());
//   gamma(2, 2.5, 1, {.device = "cpu"}).shape()   // [2]
Tensor gamma(const Dims& shape, const Operand& alpha, double scale, const TensorOptions& options,
             Generator& generator = default_generator());
// Beta distributed, as a quotient of gamma's.
//   beta({2, 3}, 2, 5).shape()   // [2, 3]
Tensor beta(const Dims& shape, const Operand& a, const Operand& b, DType dtype = kF32,
            Generator& generator = default_generator());
//   beta(2, 2, 5, {.device = "cpu"}).shape()   // [2]
Tensor beta(const Dims& shape, const Operand& a, const Operand& b, const TensorOptions& options,
            Generator& generator = default_generator());

// @dtypes integers @shape as given

// Whole numbers in [low, high), equally likely up to a difference of (high - low) / 2^64.
//   randint({2, 3}, 0, 10).shape()   // [2, 3]
Tensor randint(const Dims& shape, int64_t low, int64_t high, DType dtype = kI64,
               Generator& generator = default_generator());
//   randint(2, 0, 10, {.device = "cpu"}).shape()   // [2]
Tensor randint(const Dims& shape, int64_t low, int64_t high, const TensorOptions& options,
               Generator& generator = default_generator());

// @dtypes any @shape as given

// 1 with probability p, a number or a tensor that broadcasts to the shape, else 0. Probabilities count in steps of
// 2^-24.
//   bernoulli(4, 1)   // [True True True True]
Tensor bernoulli(const Dims& shape, const Operand& p = 0.5, DType dtype = kBool,
                 Generator& generator = default_generator());
//   bernoulli(2, 0.5, {.device = "cpu"}).shape()   // [2]
Tensor bernoulli(const Dims& shape, const Operand& p, const TensorOptions& options,
                 Generator& generator = default_generator());

// @dtypes floats -> i64 @shape without the axis

// A position along the axis, with probability softmax(logits).
//   categorical(tensor({{0, 100}, {100, 0}}))   // [1 0]
Tensor categorical(const Tensor& logits, int64_t axis = -1, Generator& generator = default_generator());

// @dtypes floats -> i64 @shape count in place of the last axis

// `count` positions along the last axis, each with probability proportional to the weight there; without replacement
// each at most once. With replacement by a search in the sums of the weights: work grows with count + size, not with
// their product. Where all weights are zero there is nothing to choose from: position 0 comes
// every time, or the first `count` without replacement.
//   multinomial(tensor({0, 1, 0}), 4)                       // [1 1 1 1]
//   sort(multinomial(tensor({1, 1, 0}), 2, false)).values   // [0 1]
//   multinomial(zeros({3}), 2)                              // [0 0]
//   multinomial(zeros({3}), 2, false)                       // [0 1]
Tensor multinomial(const Tensor& weights, int64_t count, bool replacement = true,
                   Generator& generator = default_generator());

// @dtypes i64 @shape [n]

// The numbers from 0 to n - 1 in random order, all orders equally likely.
//   sort(permutation(4)).values   // [0 1 2 3]
Tensor permutation(int64_t n, Generator& generator = default_generator());

// @dtypes any @shape same

// The positions along an axis in random order.
//   sort(shuffle(tensor({3, 1, 2}))).values   // [1. 2. 3.]
Tensor shuffle(const Tensor& x, int64_t axis = 0, Generator& generator = default_generator());

// @dtypes floats; integers and bool become f32 @shape same

// Zero with probability p, else x / (1 - p). The mask is never stored.
//   dropout(tensor({1, 2}), 0)   // [1. 2.]
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true, Generator& generator = default_generator());

}  // namespace heddle
