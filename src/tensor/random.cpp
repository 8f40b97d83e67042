// Random numbers: Philox 4x32 with ten rounds, written as ordinary integer tensor code.
//
// A tensor of N elements needs Q = ceil(N / 4) blocks of four 32-bit words. Element e takes word e / Q of block e % Q.
// The key is data, not a constant, so that one compiled kernel serves every call.
#include <atomic>
#include <cmath>

#include "base/error.h"
#include "tensor/build.h"

namespace heddle {
namespace {

// The process's generator: the seed is one half of the key, a count of draws the other.
std::atomic<uint32_t> g_seed{0}, g_draws{0};

struct Words {
  Tensor w[4];
};

Tensor u32(uint64_t value) { return Tensor(make_const(Scalar::of(kU32, value))); }

// High and low half of the 64-bit product.
std::pair<Tensor, Tensor> multiply(const Tensor& a, uint64_t b) {
  Tensor product = mul(cast(a, kU64), Tensor(make_const(Scalar::of(kU64, b))));
  Tensor high = cast(shift_right(product, Tensor(make_const(Scalar::of(kU64, uint64_t{32})))), kU32);
  return {high, cast(product, kU32)};
}

Words philox(Words c, const Tensor& key0, const Tensor& key1) {
  for (int round = 0; round < 10; ++round) {
    auto [high0, low0] = multiply(c.w[0], 0xD2511F53u);
    auto [high1, low1] = multiply(c.w[2], 0xCD9E8D57u);
    // The key moves on by a constant each round.
    Tensor k0 = add(key0, u32(uint32_t(0x9E3779B9u * uint32_t(round)))),
           k1 = add(key1, u32(uint32_t(0xBB67AE85u * uint32_t(round))));
    c = {{bitwise_xor(bitwise_xor(high1, c.w[1]), k0), low1, bitwise_xor(bitwise_xor(high0, c.w[3]), k1), low0}};
  }
  return c;
}

// 32 random bits per element. `stream` tells apart numbers drawn under one key.
Tensor random_bits(const Tensor& key, int64_t count, uint32_t stream) {
  int64_t quarter = (count + 3) / 4;
  if (quarter > int64_t{0xffffffff})
    throw ValueError(text("random: ", count, " elements are more than a key can number"));
  Tensor element = arange(count);
  Tensor block = cast(mod(element, std::max<int64_t>(quarter, 1)), kU32);
  Tensor word = floordiv(element, std::max<int64_t>(quarter, 1));
  Tensor zero = cast(zeros({count}), kU32);
  Words c{{block, add(zero, u32(stream)), zero, zero}};
  c = philox(c, select(key, 0, 0), select(key, 0, 1));
  Tensor low = where(eq(word, 0), c.w[0], c.w[1]), high = where(eq(word, 2), c.w[2], c.w[3]);
  return where(lt(word, 2), low, high);
}

Tensor next_key() {
  std::vector<uint32_t> key{g_seed.load(), g_draws.fetch_add(1)};
  return from_vector(key, {2});
}

// Multiples of 2^-24 in [0, 1).
Tensor unit(const Tensor& bits) { return mul(cast(shift_right(bits, u32(8)), kF32), 0x1p-24); }

// The largest value of the dtype below a finite one.
Scalar next_below(const Scalar& s) {
  uint64_t sign = uint64_t{1} << (8 * size_of(s.dtype) - 1);
  if (s.f == 0) return Scalar::from_bits(s.dtype, sign | 1);
  return Scalar::from_bits(s.dtype, s.f > 0 ? s.bits() - 1 : s.bits() + 1);
}

void check_float(const char* op, DType dtype) {
  if (!is_float(dtype)) throw DTypeError(text(op, ": gives floats, not ", dtype));
}

}  // namespace

void manual_seed(uint64_t seed) {
  g_seed = static_cast<uint32_t>(seed ^ (seed >> 32));
  g_draws = 0;
}

Tensor uniform(const Dims& dims, double low, double high, DType dtype) {
  check_float("uniform", dtype);
  if (!(low < high) || !std::isfinite(high - low))
    throw ValueError(text("uniform: [", low, ", ", high, ") is not an interval"));
  Shape shape = to_shape("uniform", dims, dtype);
  Tensor u = unit(random_bits(next_key(), shape.static_numel(), 0));
  if (!(low == 0 && high == 1)) u = add(mul(u, high - low), low);
  // Rounding may reach the upper bound, which is not part of the interval.
  u = minimum(cast(u, dtype), Tensor(make_const(next_below(Scalar::of(dtype, high)))));
  return reshape(u, dims);
}

Tensor randn(const Dims& dims, DType dtype) {
  check_float("randn", dtype);
  Shape shape = to_shape("randn", dims, dtype);
  Tensor key = next_key();
  int64_t count = shape.static_numel();
  // Box and Muller; 1 - u lies in (0, 1], so the logarithm is finite.
  Tensor radius = sqrt(mul(log(sub(1, unit(random_bits(key, count, 0)))), -2));
  Tensor angle = mul(unit(random_bits(key, count, 1)), 6.283185307179586);
  return reshape(cast(mul(radius, cos(angle)), dtype), dims);
}

}  // namespace heddle
