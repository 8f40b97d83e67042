#include "tensor/philox.h"

#include "base/error.h"

namespace heddle {
namespace {

Tensor u32(uint64_t value) { return Tensor(make_const(Scalar::of(kU32, value))); }
Tensor u64(uint64_t value) { return Tensor(make_const(Scalar::of(kU64, value))); }

// High and low half of the 64-bit product.
std::pair<Tensor, Tensor> multiply(const Tensor& a, uint64_t b) {
  // Apart from each other: vector units have instructions for either half, but few for the whole product.
  Tensor high = cast(shift_right(mul(cast(a, kU64), u64(b)), u64(32)), kU32);
  return {high, mul(a, u32(b))};
}

// `block` numbers the blocks.
Words philox(const Tensor& key, const Tensor& block, uint32_t stream) {
  Tensor key0 = select(key, 0, 0), key1 = select(key, 0, 1);
  Words c{{block, u32(stream), select(key, 0, 2), select(key, 0, 3)}};
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

void refuse_too_many(const char* op, int64_t blocks) {
  if (blocks > int64_t{0xffffffff})
    throw ValueError(text(op, ": ", blocks, " blocks of four random numbers; one draw has at most 2^32 of them, about ",
                          "1.7e10 numbers. Draw in several parts"));
}

}  // namespace

Draw::Draw(const char* op, const Tensor& key, int64_t count) : key_(key), count_(count), quarter_((count + 3) / 4) {
  refuse_too_many(op, quarter_);
}

Words Draw::blocks(uint32_t stream) const {
  Tensor block(make_iota(kI64, Shape{4, quarter_}, 1));
  return philox(key_, cast(block, kU32), stream);
}

Tensor Draw::word_number() const { return Tensor(make_iota(kI64, Shape{4, quarter_}, 0)); }

Tensor Draw::own_words(uint32_t stream) const {
  Words c = blocks(stream);
  Tensor number = word_number();
  Tensor low = where(eq(number, 0), c.w[0], c.w[1]), high = where(eq(number, 2), c.w[2], c.w[3]);
  return where(lt(number, 2), low, high);
}

Tensor Draw::elements(const Tensor& words, const Dims& shape) const {
  return reshape(slice(ravel(words), 0, 0, count_), shape);
}

Words words_of_each(const char* op, const Tensor& key, const Shape& shape, uint32_t stream) {
  int64_t count = shape.static_numel();
  refuse_too_many(op, count);
  NodeRef block = make_reshape(make_iota(kI64, Shape{count}, 0), shape);
  return philox(key, cast(Tensor(block), kU32), stream);
}

Tensor unit_f32(const Tensor& word) { return mul(cast(shift_right(word, u32(8)), kF32), 0x1p-24); }
Tensor join_words(const Tensor& high, const Tensor& low) {
  return bitwise_or(shift_left(cast(high, kU64), u64(32)), cast(low, kU64));
}
Tensor unit_f64(const Tensor& high, const Tensor& low) {
  return mul(cast(shift_right(join_words(high, low), u64(11)), kF64), 0x1p-53);
}
namespace {
Tensor number(double value, DType dtype) { return Tensor(make_const(Scalar::of(dtype, value))); }
}  // namespace
Tensor open_unit_f32(const Tensor& word) {
  // The sum is exact or rounded once on every target.
  return fma(cast(word, kF32), number(0x1p-32, kF32), number(0x1p-33, kF32));
}
Tensor open_unit_f64(const Tensor& high, const Tensor& low) {
  return fma(cast(join_words(high, low), kF64), number(0x1p-64, kF64), number(0x1p-65, kF64));
}

}  // namespace heddle
