// The table of docs/guide.md, "Integers and casts": the same values from core, the evaluator, the interpreter, and
// machine code for every kind of CPU.
#include <cmath>

#include "graph/host_storage.h"
#include "run.h"

namespace heddle {
namespace {

struct Row {
  const char* op;  // an op of ops.def, or cast
  DType from;
  Scalar a, b;
  Scalar want;
};

Scalar number(DType dtype, double v) { return Scalar::of(dtype, v); }
Row op(const char* name, DType dtype, double a, double b, double want) {
  return {name, dtype, number(dtype, a), number(dtype, b), number(dtype, want)};
}
Row conversion(DType from, double a, DType to, double want) {
  return {"cast", from, number(from, a), number(from, 0), number(to, want)};
}
constexpr double kMin8 = -128, kMin32 = -2147483648.0, kMin64 = -9223372036854775808.0;

const Row kRows[] = {
    // wrap around
    op("add", kI8, 127, 1, kMin8),
    op("add", kU8, 255, 1, 0),
    op("sub", kU32, 0, 1, 4294967295.0),
    op("mul", kI16, 300, 300, 24464),
    op("add", kI32, 2147483647, 1, kMin32),
    op("sub", kI64, kMin64, kMin64, 0),
    op("neg", kI8, kMin8, 0, kMin8),
    op("abs", kI8, kMin8, 0, kMin8),
    op("neg", kI64, kMin64, 0, kMin64),
    op("abs", kI32, kMin32, 0, kMin32),
    op("neg", kU16, 1, 0, 65535),
    // division rounds down; by zero it gives zero; the smallest by -1 is itself
    op("floordiv", kI32, -7, 2, -4),
    op("floordiv", kI32, 7, -2, -4),
    op("floordiv", kI64, -8, 2, -4),
    op("floordiv", kI8, 5, 0, 0),
    op("floordiv", kU64, 5, 0, 0),
    op("floordiv", kI8, kMin8, -1, kMin8),
    op("floordiv", kI32, kMin32, -1, kMin32),
    op("floordiv", kI64, kMin64, -1, kMin64),
    op("mod", kI32, -7, 2, 1),
    op("mod", kI32, 7, -2, -1),
    op("mod", kI16, 5, 0, 0),
    op("mod", kU8, 5, 0, 0),
    op("mod", kI32, kMin32, -1, 0),
    op("mod", kI64, kMin64, -1, 0),
    // shifts by a count outside [0, bits)
    op("shl", kI32, 1, 31, kMin32),
    op("shl", kI32, 1, 32, 0),
    op("shl", kI32, 1, -1, 0),
    op("shl", kU8, 255, 7, 128),
    op("shl", kU8, 255, 8, 0),
    op("shr", kI8, kMin8, 7, -1),
    op("shr", kI8, kMin8, 8, -1),
    op("shr", kI8, 127, 8, 0),
    op("shr", kI64, -1, -1, -1),
    op("shr", kI64, 1, 64, 0),
    op("shr", kU64, 1, 64, 0),
    op("shr", kU16, 32768, 15, 1),
    // integer to integer wraps
    conversion(kI32, 300, kI8, 44),
    conversion(kI32, -1, kU8, 255),
    conversion(kI64, -1, kU32, 4294967295.0),
    conversion(kU8, 200, kI8, -56),
    conversion(kI64, 4294967296.0 + 7, kI32, 7),
    conversion(kI16, 256, kBool, 1),
    // float to integer truncates and saturates, NaN gives 0
    conversion(kF32, 2.9, kI32, 2),
    conversion(kF32, -2.9, kI32, -2),
    conversion(kF32, -2.9, kU8, 0),
    conversion(kF32, 300, kU8, 255),
    conversion(kF32, 1e10, kI32, 2147483647),
    conversion(kF32, -1e10, kI32, kMin32),
    conversion(kF64, -1e30, kI64, kMin64),
    conversion(kF64, INFINITY, kI8, 127),
    conversion(kF32, -INFINITY, kI16, -32768),
    conversion(kF32, NAN, kI32, 0),
    conversion(kF64, NAN, kU64, 0),
    conversion(kF16, 1000, kI8, 127),
    conversion(kF8E5M2, 57344, kU16, 57344),
    conversion(kF8E4M3, NAN, kI8, 0),
    // anything but zero is true, NaN too
    conversion(kF32, NAN, kBool, 1),
    conversion(kF32, -0.0, kBool, 0),
    conversion(kF64, 1e-310, kBool, 1),
    conversion(kF8E4M3, -0.0, kBool, 0),
    // to floats: nearest, ties to even
    conversion(kI32, 16777217, kF32, 16777216),
    conversion(kI64, 9007199254740993.0, kF64, 9007199254740992.0),
    conversion(kF64, 1 + 0x1p-24, kF32, 1),
    conversion(kF32, 2049, kF16, 2048),
    conversion(kF32, 65520, kF16, INFINITY),
    conversion(kF64, 1e300, kF32, INFINITY),
    conversion(kF32, 1.0625, kF8E4M3, 1),
    conversion(kF64, 1.0625 + 0x1p-40, kF8E4M3, 1.125),
    conversion(kF32, 464, kF8E4M3, 448),
    conversion(kF32, 465, kF8E4M3, NAN),
    conversion(kF32, INFINITY, kF8E4M3, NAN),
    conversion(kF32, 61440, kF8E5M2, INFINITY),
    conversion(kI32, 100000, kF8E5M2, INFINITY),
    conversion(kI32, -1000, kF8E4M3, NAN),
    conversion(kBool, 1, kF8E5M2, 1),
};

std::string describe(const Row& row) {
  return text(row.op, " of ", row.from, " ", row.a, ", ", row.b, " to ", row.want.dtype);
}

TEST(Semantics, core_says_what_the_guide_says) {
  for (const Row& row : kRows) {
    Scalar got;
    if (std::string_view(row.op) == "cast") {
      got = cast(row.a, row.want.dtype);
    } else {
      ScalarOp op = *find_op(row.op);
      Scalar operands[] = {row.a, row.b};
      got = heddle::apply(op, std::span<const Scalar>(operands, static_cast<size_t>(info(op).arity)));
    }
    EXPECT_TRUE(same(got, row.want)) << describe(row) << " gave " << got << ", not " << row.want;
  }
}

TEST(Semantics, the_evaluator_agrees) {
  for (const Row& row : kRows) {
    auto leaf = [&](const Scalar& v) {
      auto storage = std::make_shared<testing::HostStorage>(static_cast<uint64_t>(size_of(v.dtype)));
      store_scalar(storage->data(), 0, v);
      return make_buffer(storage, v.dtype, {1});
    };
    NodeRef result;
    if (std::string_view(row.op) == "cast") {
      result = make_cast(leaf(row.a), row.want.dtype);
    } else {
      ScalarOp op = *find_op(row.op);
      NodeRef operands[] = {leaf(row.a), leaf(row.b)};
      result = make_scalar(op, std::span<const NodeRef>(operands, static_cast<size_t>(info(op).arity)));
    }
    HostArray array = testing::evaluate_one(result);
    Scalar got = is_float(array.dtype)    ? Scalar::of(array.dtype, array.floats[0])
                 : is_signed(array.dtype) ? Scalar::of(array.dtype, static_cast<int64_t>(array.integers[0]))
                                          : Scalar::of(array.dtype, array.integers[0]);
    EXPECT_TRUE(same(got, row.want)) << describe(row) << " gave " << got << ", not " << row.want;
  }
}

TEST(Semantics, interpreter_and_machine_code_agree_on_every_machine) {
  for (const Target& target : targets())
    for (const Row& row : kRows) {
      bool converts = std::string_view(row.op) == "cast";
      int arity = converts ? 1 : info(*find_op(row.op)).arity;
      DType to = row.want.dtype;
      std::string vector = text("vec<8x", to, ">");
      auto line = [&](const char* name, const char* suffix, const std::string& type) {
        return text("%", name, " = ", row.op, " %a", suffix, arity == 2 ? text(", %b", suffix) : "",
                    converts ? text(" : ", type) : "", "\n");
      };
      kernel::Kernel kernel = kernel::parse(
          text("kernel.thread @row(in %x: ", row.from, "[8], in %y: ", row.from, "[8], out %z: ", to,
               "[9]) {\nphase grid() {\n%av = load %x[d0] : vec<8x", row.from, ">\n%bv = load %y[d0] : vec<8x",
               row.from, ">\n", line("c", "v", vector), "store %z[d0], %c\n%as = load %x[0] : ", row.from,
               "\n%bs = load %y[0] : ", row.from, "\n", line("d", "s", name(to)), "store %z[8], %d\n}\n}\n"));
      Memory x(row.from, 8), y(row.from, 8), z(to, 9);
      for (int64_t k = 0; k < 8; ++k) x.set(k, row.a), y.set(k, row.b);
      expect_like_interpreter(kernel, {&x, &y, &z}, target);
      for (int64_t k : {0, 7, 8})
        EXPECT_TRUE(same(z.at(k), row.want)) << target.name << ": " << describe(row) << " gave " << z.at(k);
    }
}

}  // namespace
}  // namespace heddle
