// Random tensors, made of the words of philox.h.
#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "base/error.h"
#include "base/fork.h"
#include "tensor/philox.h"
#include "tensor/recording.h"
#include "tensor/symbolic.h"

namespace heddle {

class Generator::Locked {
 public:
  explicit Locked(const Generator& generator) : locked_(generator.locked_) {
    while (locked_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
  }
  ~Locked() { locked_.store(false, std::memory_order_release); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  NoFork whole_;
  std::atomic<bool>& locked_;
};

void Generator::manual_seed(uint64_t seed) { set_state({seed, 0}); }
void Generator::set_state(const State& state) {
  refuse_in_capture("setting a Generator's state");
  Locked lock(*this);
  state_ = state;
}
Generator::State Generator::state() const {
  refuse_in_capture("looking at a Generator's state");
  Locked lock(*this);
  return state_;
}
Generator::State Generator::advance(uint64_t draws) {
  Locked lock(*this);
  State before = state_;
  state_.draws += draws;
  return before;
}
void Generator::take_back(const State& before, uint64_t draws) {
  Locked lock(*this);
  if (state_ == State{before.seed, before.draws + draws}) state_ = before;
}
std::array<uint32_t, 4> Generator::key_words(const State& s) {
  return {static_cast<uint32_t>(s.seed), static_cast<uint32_t>(s.draws), static_cast<uint32_t>(s.seed >> 32),
          static_cast<uint32_t>(s.draws >> 32)};
}
Tensor Generator::next_keys(uint64_t draws) {
  if (current_recorder)
    if (std::optional<Tensor> key = current_recorder->draw(*this, draws)) return *key;
  if (current_capture) return current_capture->draw(*this, draws);
  return from_data(key_words(advance(draws)).data(), {4});
}
Generator& default_generator() {
  static Generator generator;
  return generator;
}
[[maybe_unused]] static Generator& generator_made_at_start = default_generator();
void manual_seed(uint64_t seed) { default_generator().manual_seed(seed); }

namespace {

void check_float(const char* op, DType dtype) {
  if (!is_float(dtype)) throw DTypeError(text(op, ": gives floats, not ", dtype));
}

// The largest value of the dtype below a finite one.
Scalar next_below(const Scalar& s) {
  uint64_t sign = uint64_t{1} << (8 * size_of(s.dtype) - 1);
  if (s.f == 0) return Scalar::from_bits(s.dtype, sign | 1);
  return Scalar::from_bits(s.dtype, s.f > 0 ? s.bits() - 1 : s.bits() + 1);
}

// [0, 1) in f32, or in f64 if that is wanted.
Tensor unit(const Draw& draw, DType dtype) {
  if (dtype != kF64) return unit_f32(draw.own_words(0));
  return unit_f64(draw.own_words(0), draw.own_words(1));
}
Tensor constant(double value, DType dtype) { return Tensor(make_const(Scalar::of(dtype, value))); }

// A parameter as a tensor that broadcasts to the shape.
Tensor parameter(const char* op, const Operand& value, const Shape& shape, DType dtype) {
  if (value.kind() != Operand::Kind::Tensor) return constant(value.real(), dtype);
  Shape given = value.tensor().node()->shape;
  if (!(broadcast_shapes(op, given, shape) == shape))
    throw ShapeError(text(op, ": a parameter of shape ", given, " does not broadcast to ", shape));
  return cast(value.tensor(), dtype);
}

// Mean 0, deviation 1, in f32 or f64: pairs of words become pairs of numbers by Box and Muller's transform.
Tensor standard_normal(const Draw& draw, DType dtype) {
  Words c = draw.blocks(0);
  Tensor number = draw.word_number(), first = lt(number, 2);
  Tensor radius_word = where(first, c.w[0], c.w[2]), angle_word = where(first, c.w[1], c.w[3]);
  Tensor radius, turn;
  if (dtype == kF64) {
    Words low = draw.blocks(1);
    radius = open_unit_f64(radius_word, where(first, low.w[0], low.w[2]));
    turn = unit_f64(angle_word, where(first, low.w[1], low.w[3]));
  } else {
    radius = open_unit_f32(radius_word);
    turn = unit_f32(angle_word);
  }
  // The second of a pair takes the sine: a quarter turn back.
  turn = sub(turn, where(eq(bitwise_and(number, 1), 0), constant(0, dtype), constant(0.25, dtype)));
  return mul(sqrt(mul(log(radius), -2)), cos(mul(turn, 6.283185307179586)));
}

Tensor normal_of(const char* op, const Dims& dims, double mean, double deviation, DType dtype, Generator& generator) {
  check_float(op, dtype);
  if (!(deviation >= 0) || !std::isfinite(deviation) || !std::isfinite(mean))
    throw ValueError(text(op, ": a mean of ", mean, " and a deviation of ", deviation));
  Shape shape = to_shape(op, dims, dtype);
  Draw draw(op, generator.next_key(), shape.static_numel());
  DType wide = dtype == kF64 ? kF64 : kF32;
  Tensor z = standard_normal(draw, wide);
  if (deviation != 1 || mean != 0) z = fma(z, constant(deviation, wide), constant(mean, wide));
  return cast(draw.elements(z, dims), dtype);
}

Tensor uniform_of(const char* op, const Dims& dims, double low, double high, DType dtype, Generator& generator) {
  check_float(op, dtype);
  if (!(low < high) || !std::isfinite(high - low))
    throw ValueError(text(op, ": [", low, ", ", high, ") is not an interval"));
  Shape shape = to_shape(op, dims, dtype);
  Draw draw(op, generator.next_key(), shape.static_numel());
  DType wide = dtype == kF64 ? kF64 : kF32;
  Tensor u = unit(draw, wide);
  bool plain = low == 0 && high == 1;
  if (!plain) u = fma(u, constant(high - low, wide), constant(low, wide));  // rounded once: the same on every target
  u = cast(draw.elements(u, dims), dtype);
  if (plain && dtype == wide) return u;
  // Rounding may reach the upper bound, which is not part of the interval.
  return minimum(u, Tensor(make_const(next_below(Scalar::of(dtype, high)))));
}

}  // namespace

Tensor uniform(const Dims& dims, double low, double high, DType dtype, Generator& generator) {
  return uniform_of("uniform", dims, low, high, dtype, generator);
}
Tensor rand(const Dims& dims, DType dtype, Generator& generator) {
  return uniform_of("rand", dims, 0, 1, dtype, generator);
}
Tensor normal(const Dims& dims, double mean, double deviation, DType dtype, Generator& generator) {
  return normal_of("normal", dims, mean, deviation, dtype, generator);
}
Tensor randn(const Dims& dims, DType dtype, Generator& generator) {
  return normal_of("randn", dims, 0, 1, dtype, generator);
}

Tensor truncated_normal(const Dims& dims, double mean, double deviation, double low, double high, DType dtype,
                        Generator& generator) {
  const char* op = "truncated_normal";
  check_float(op, dtype);
  if (!(deviation > 0) || !std::isfinite(deviation) || !std::isfinite(mean))
    throw ValueError(text(op, ": a mean of ", mean, " and a deviation of ", deviation));
  double scale = deviation * std::sqrt(2.0), from = (low - mean) / scale, to = (high - mean) / scale;
  double below = std::erf(from), width = std::erf(to) - below;
  if (!(low < high) || !(width > 0))
    throw ValueError(
        text(op, ": [", low, ", ", high, "] holds nothing of a mean of ", mean, " and a deviation of ", deviation));
  Shape shape = to_shape(op, dims, dtype);
  Draw draw(op, generator.next_key(), shape.static_numel());
  // In the tails f32 would leave only few values to choose from.
  DType wide = dtype == kF64 || from > 1 || to < -1 ? kF64 : kF32;
  Tensor u = draw.elements(unit(draw, wide), dims);
  Tensor z = erfinv(fma(u, constant(width, wide), constant(below, wide)));
  Tensor x = cast(fma(z, constant(scale, wide), constant(mean, wide)), dtype);
  // Rounding, and an infinity at -1, may leave the interval.
  auto inside = [&](double edge) { return std::clamp(edge, mean - 9 * scale, mean + 9 * scale); };
  return clamp(x, Tensor(make_const(Scalar::of(dtype, inside(low)))),
               Tensor(make_const(Scalar::of(dtype, inside(high)))));
}

Tensor exponential(const Dims& dims, double rate, DType dtype, Generator& generator) {
  check_float("exponential", dtype);
  if (!(rate > 0) || !std::isfinite(rate)) throw ValueError(text("exponential: a rate of ", rate));
  Shape shape = to_shape("exponential", dims, dtype);
  Draw draw("exponential", generator.next_key(), shape.static_numel());
  Tensor u = dtype == kF64 ? open_unit_f64(draw.own_words(0), draw.own_words(1)) : open_unit_f32(draw.own_words(0));
  return cast(draw.elements(mul(log(u), -1 / rate), dims), dtype);
}

Tensor randint(const Dims& dims, int64_t low, int64_t high, DType dtype, Generator& generator) {
  if (!is_integer(dtype)) throw DTypeError(text("randint: gives integers, not ", dtype));
  if (low >= high) throw ValueError(text("randint: there are no integers in [", low, ", ", high, ")"));
  for (int64_t edge : {low, high - 1})
    if (Scalar::of(dtype, edge).as_double() != static_cast<double>(edge))
      throw ValueError(text("randint: ", edge, " does not fit dtype ", dtype));
  Shape shape = to_shape("randint", dims, dtype);
  Draw draw("randint", generator.next_key(), shape.static_numel());
  // The upper half of the 128-bit product of 64 random bits and the width, by halves.
  uint64_t width = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  auto u64 = [](uint64_t value) { return Tensor(make_const(Scalar::of(kU64, value))); };
  Tensor upper = cast(draw.own_words(0), kU64), lower = cast(draw.own_words(1), kU64);
  uint64_t width_low = width & 0xffffffff, width_high = width >> 32;
  auto above = [&](const Tensor& x) { return shift_right(x, u64(32)); };
  Tensor middle = add(mul(upper, u64(width_low)), above(mul(lower, u64(width_low))));
  Tensor chosen;
  if (width_high == 0) {
    chosen = above(middle);
  } else {
    Tensor other = add(mul(lower, u64(width_high)), bitwise_and(middle, u64(0xffffffff)));
    chosen = add(add(mul(upper, u64(width_high)), above(middle)), above(other));
  }
  // Adding modulo 2^64 is right for negative bounds too.
  Tensor number = add(cast(chosen, kI64), Tensor(make_const(Scalar::of(kI64, low))));
  return cast(draw.elements(number, dims), dtype);
}

Tensor bernoulli(const Dims& dims, const Operand& p, DType dtype, Generator& generator) {
  if (p.kind() != Operand::Kind::Tensor && !(p.real() >= 0 && p.real() <= 1))
    throw ValueError(text("bernoulli: ", p.real(), " is no probability"));
  Shape shape = to_shape("bernoulli", dims, dtype);
  Tensor chance = parameter("bernoulli", p, shape, kF32);
  OnDeviceOf there(chance);
  Draw draw("bernoulli", generator.next_key(), shape.static_numel());
  return cast(lt(draw.elements(unit_f32(draw.own_words(0)), dims), chance), dtype);
}

namespace {

// Exponentially distributed times with these rates' logarithms: the first to arrive along an axis is each position with
// probability proportional to its rate. Returns minus the logarithm of the times.
Tensor arrivals(const char* op, const Tensor& log_rates, Generator& generator) {
  NodeRef n = log_rates.node();
  OnDeviceOf there(n->device);
  Draw draw(op, generator.next_key(), n->shape.static_numel());
  // Early times decide, and have to be fine: -log(1 - u), with u below 1.
  Tensor u = minimum(draw.elements(open_unit_f32(draw.own_words(0)), log_rates.shape()), 1 - 0x1p-24);
  return sub(log_rates, log(neg(log1p(neg(u)))));
}

}  // namespace

Tensor categorical(const Tensor& logits, int64_t axis, Generator& generator) {
  int at = normalize_axis("categorical", axis, logits.rank());
  if (!is_float(logits.dtype())) throw DTypeError(text("categorical: needs floats, not ", logits.dtype()));
  if (logits.size(at) == 0) throw ValueError(text("categorical: axis ", at, " of ", logits.node()->shape, " is empty"));
  return argmax(arrivals("categorical", cast(logits, kF32), generator), at);
}

Tensor multinomial(const Tensor& weights, int64_t count, bool replacement, Generator& generator) {
  if (weights.rank() == 0) throw ShapeError("multinomial: a scalar has no positions to choose from");
  if (!is_float(weights.dtype())) throw DTypeError(text("multinomial: needs floats, not ", weights.dtype()));
  if (count < 0) throw ValueError(text("multinomial: a count of ", count));
  if (weights.size(-1) == 0)
    throw ValueError(text("multinomial: the last axis of ", weights.node()->shape, " is empty"));
  if (!replacement) {
    if (count > weights.size(-1))
      throw ValueError(text("multinomial: ", count, " of ", weights.size(-1), " positions without replacement"));
    return topk(arrivals("multinomial", log(cast(weights, kF32)), generator), count).indices;
  }
  OnDeviceOf there(weights);
  Dims many = weights.shape();
  many.back() = count;
  Shape shape = to_shape("multinomial", many, kF64);
  Draw draw("multinomial", generator.next_key(), shape.static_numel());
  Tensor known(with_numbers(weights.node()));
  Tensor sums = cumsum(cast(known, kF64), -1);
  Tensor level = mul(draw.elements(unit(draw, kF64), many), slice(sums, -1, -1));
  Tensor place = minimum(searchsorted(sums, level, true), weights.size(-1) - 1);
  // Sums of long axes are made of parts, and round differently where these meet. What has no weight must not be chosen
  // for that: the last position that has some takes its place.
  Shape all = known.node()->shape;
  Tensor position(make_iota(kI64, all, all.rank() - 1));
  return take_along_axis(cummax(where(gt(known, 0), position, 0), -1), place, -1);
}

Tensor permutation(int64_t n, Generator& generator) {
  Shape shape = to_shape("permutation", {n}, kU64);
  Draw draw("permutation", generator.next_key(), shape.static_numel());
  // 64 random bits each: equal ones, which would keep their order, are no longer a matter of experience.
  return argsort(draw.elements(join_words(draw.own_words(0), draw.own_words(1)), {n}));
}

Tensor shuffle(const Tensor& x, int64_t axis, Generator& generator) {
  int at = normalize_axis("shuffle", axis, x.rank());
  OnDeviceOf there(x);
  return gather(x, permutation(x.size(at), generator), at);
}

Tensor dropout(const Tensor& x, double p, bool training, Generator& generator) {
  if (!(p >= 0 && p <= 1)) throw ValueError(text("dropout: ", p, " is no probability"));
  Tensor f = to_float(x);
  if (!training || p == 0) return f;
  if (p == 1) return where(Tensor(make_const(Scalar::of(kBool, false))), f, 0);
  OnDeviceOf there(f);
  Draw draw("dropout", generator.next_key(), x.numel());
  Tensor kept = ge(draw.elements(unit_f32(draw.own_words(0)), x.shape()), p);
  return where(kept, mul(f, 1 / (1 - p)), 0);
}

namespace {

constexpr int64_t kRounds = 8;

// Gamma distributed with alpha >= 1, in f32 or f64, by Marsaglia and Tsang: of the candidates in the rounds, which are
// an axis in front, the first that is accepted.
Tensor gamma_above_one(const char* op, const Tensor& key, const Tensor& alpha, const Shape& shape) {
  Shape rounds = shape;
  rounds.insert(0, kRounds);
  check_shape(op, rounds, kF64);
  bool wide = alpha.dtype() == kF64;
  Words c = words_of_each(op, key, rounds, 0);
  Tensor radius, turn, level;
  if (wide) {
    Words low = words_of_each(op, key, rounds, 1);
    radius = open_unit_f64(c.w[0], low.w[0]);
    turn = unit_f64(c.w[1], low.w[1]);
    level = open_unit_f64(c.w[2], low.w[2]);
  } else {
    radius = open_unit_f32(c.w[0]);
    turn = unit_f32(c.w[1]);
    level = open_unit_f32(c.w[2]);
  }
  Tensor x = mul(sqrt(mul(log(radius), -2)), cos(mul(turn, 6.283185307179586)));
  Tensor d = sub(alpha, 1.0 / 3);
  Tensor y = mul(x, rsqrt(mul(d, 9)));
  // (1 + y)^3 - 1: the test is on small differences when alpha is large.
  Tensor grown = mul(y, add(mul(y, add(y, 3)), 3));
  Tensor accepted = logical_and(gt(y, -1), lt(log(level), add(mul(square(x), 0.5), mul(d, sub(log1p(grown), grown)))));
  Tensor round(make_iota(kI64, rounds, 0));
  Tensor first = min(where(accepted, round, kRounds - 1), 0, true);
  // A last candidate that no round accepts may be negative.
  Tensor candidate = mul(d, maximum(add(grown, 1), 0));
  return sum(where(eq(round, first), candidate, 0), 0);
}

Tensor gamma_of(const char* op, const Shape& shape, const Operand& alpha, DType wide, Generator& generator) {
  if (alpha.kind() != Operand::Kind::Tensor && !(alpha.real() > 0 && std::isfinite(alpha.real())))
    throw ValueError(text(op, ": a parameter of ", alpha.real(), "; it must be positive"));
  Tensor a = parameter(op, alpha, shape, wide);
  OnDeviceOf there(a);
  Tensor key = generator.next_key();
  // Below 1: a variable with alpha + 1, times a power of a uniform one.
  Tensor small = lt(a, 1);
  Tensor g = gamma_above_one(op, key, where(small, add(a, 1), a), shape);
  if (alpha.kind() != Operand::Kind::Tensor && alpha.real() >= 1) return g;
  Words c = words_of_each(op, key, shape, 2);
  Tensor u = wide == kF64 ? open_unit_f64(c.w[0], c.w[1]) : open_unit_f32(c.w[0]);
  return mul(g, where(small, exp(div(log(u), a)), 1));
}

}  // namespace

Tensor gamma(const Dims& dims, const Operand& alpha, double scale, DType dtype, Generator& generator) {
  check_float("gamma", dtype);
  if (!(scale > 0)) throw ValueError(text("gamma: a scale of ", scale));
  Tensor g = gamma_of("gamma", to_shape("gamma", dims, dtype), alpha, dtype == kF64 ? kF64 : kF32, generator);
  return cast(scale == 1 ? g : mul(g, scale), dtype);
}

Tensor beta(const Dims& dims, const Operand& a, const Operand& b, DType dtype, Generator& generator) {
  check_float("beta", dtype);
  Shape shape = to_shape("beta", dims, dtype);
  DType wide = dtype == kF64 ? kF64 : kF32;
  Tensor x = gamma_of("beta", shape, a, wide, generator), y = gamma_of("beta", shape, b, wide, generator);
  return cast(div(x, add(x, y)), dtype);
}

namespace {

// What `make` gives for the dtype of the options, with a key on their device.
template <class Make>
Tensor made_with(const TensorOptions& options, DType otherwise, Make make) {
  std::optional<DeviceScope> scope;
  if (options.device) scope.emplace(*options.device);
  return make(options.dtype.value_or(otherwise));
}

}  // namespace

Tensor uniform(const Dims& dims, double low, double high, const TensorOptions& options, Generator& generator) {
  return made_with(options, kF32, [&](DType dtype) { return uniform(dims, low, high, dtype, generator); });
}
Tensor rand(const Dims& dims, const TensorOptions& options, Generator& generator) {
  return made_with(options, kF32, [&](DType dtype) { return rand(dims, dtype, generator); });
}
Tensor normal(const Dims& dims, double mean, double deviation, const TensorOptions& options, Generator& generator) {
  return made_with(options, kF32, [&](DType dtype) { return normal(dims, mean, deviation, dtype, generator); });
}
Tensor randn(const Dims& dims, const TensorOptions& options, Generator& generator) {
  return made_with(options, kF32, [&](DType dtype) { return randn(dims, dtype, generator); });
}
Tensor truncated_normal(const Dims& dims, double mean, double deviation, double low, double high,
                        const TensorOptions& options, Generator& generator) {
  return made_with(options, kF32,
                   [&](DType dtype) { return truncated_normal(dims, mean, deviation, low, high, dtype, generator); });
}
Tensor exponential(const Dims& dims, double rate, const TensorOptions& options, Generator& generator) {
  return made_with(options, kF32, [&](DType dtype) { return exponential(dims, rate, dtype, generator); });
}
Tensor gamma(const Dims& dims, const Operand& alpha, double scale, const TensorOptions& options, Generator& generator) {
  return made_with(options, kF32, [&](DType dtype) { return gamma(dims, alpha, scale, dtype, generator); });
}
Tensor beta(const Dims& dims, const Operand& a, const Operand& b, const TensorOptions& options, Generator& generator) {
  return made_with(options, kF32, [&](DType dtype) { return beta(dims, a, b, dtype, generator); });
}
Tensor randint(const Dims& dims, int64_t low, int64_t high, const TensorOptions& options, Generator& generator) {
  return made_with(options, kI64, [&](DType dtype) { return randint(dims, low, high, dtype, generator); });
}
Tensor bernoulli(const Dims& dims, const Operand& p, const TensorOptions& options, Generator& generator) {
  return made_with(options, kBool, [&](DType dtype) { return bernoulli(dims, p, dtype, generator); });
}

}  // namespace heddle
