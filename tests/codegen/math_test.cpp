// The elementary functions as machine code: the same bits as the interpreter, large arguments beside small ones.
#include <cmath>

#include "kernel/passes.h"
#include "run.h"

namespace heddle {
namespace {

// Vectors with ordinary elements only, and vectors in which one element takes the rare way.
void fill_arguments(Memory& memory, ScalarOp op, int lanes, uint32_t seed) {
  std::mt19937_64 random(seed);
  bool wide = memory.dtype() == kF64;
  // The last row: powers that are below the normal numbers, or hardly above.
  const double rare[] = {1e6,       -3e9,     wide ? 1e300 : 1e38,
                         -INFINITY, NAN,      INFINITY,
                         -0.0,      0x1p-130, 0x1.5p17,
                         0x1.1p27,  -87.5,    -95.0,
                         -103.9,    -126.3,   -149.5,
                         -708.5,    -740.25,  -1022.3,
                         -1074.5};
  for (int64_t k = 0; k < memory.count(); ++k) {
    double range = op == ScalarOp::pow ? 3 : k % 3 == 0 ? 1 : 40;
    double v = (static_cast<double>(random() >> 11) * 0x1p-53 * 2 - 1) * range;
    bool one_is_rare = (k / lanes) % 3 == 1 && k % lanes == (k / lanes) % lanes;
    memory.set(k, Scalar::of(memory.dtype(), one_is_rare ? rare[random() % std::size(rare)] : v));
  }
}

TEST(Math, every_function_gives_the_interpreters_bits_on_every_machine) {
  for (const Target& target : targets())
    for (DType dtype : {kF32, kF64})
      for (int lanes : {0, target.vector_bytes / size_of(dtype)}) {
        int width = std::max(lanes, 1);
        int64_t count = 24 * width;
        std::string type = lanes ? text("vec<", lanes, "x", dtype, ">") : name(dtype);
        std::string at = text("i * ", width, lanes ? " + d0" : "");
        for (int k = 0; k < kScalarOpCount; ++k) {
          ScalarOp op = static_cast<ScalarOp>(k);
          if (info(op).native) continue;
          bool two = info(op).arity == 2;
          kernel::Kernel kernel = kernel::parse(
              text("kernel.thread @math(in %x: ", dtype, "[", count, "], in %y: ", dtype, "[", count,
                   "], out %z: ", dtype, "[", count, "]) {\nphase grid(i < ", count / width, ") {\n%a = load %x[", at,
                   "] : ", type, "\n%b = load %y[", at, "] : ", type, "\n%c = ", info(op).name, " %a",
                   two ? ", %b" : "", "\nstore %z[", at, "], %c\n}\n}\n"));
          run(kernel, kernel::thread_pipeline());
          Memory x(dtype, count), y(dtype, count), z(dtype, count);
          fill_arguments(x, op, width, 1);
          fill_arguments(y, op, width, 2);
          expect_like_interpreter(kernel, {&x, &y, &z}, target);
          for (int64_t e = 0; e < count; ++e) {  // and that is the function, give or take an ulp or two
            Scalar operands[] = {x.at(e), y.at(e)};
            double want = heddle::apply(op, std::span(operands, two ? 2u : 1u)).f, got = z.at(e).f;
            if (std::isnan(want) && std::isnan(got)) continue;
            double allowed = std::fabs(want) * (dtype == kF32 ? 0x1p-21 : 0x1p-50) + (dtype == kF32 ? 1e-44 : 1e-322);
            EXPECT_TRUE(got == want || std::fabs(got - want) <= allowed)
                << target.name << " " << dtype << " " << info(op).name << "(" << x.at(e) << ", " << y.at(e) << ") gave "
                << got << ", should be " << want;
          }
        }
      }
}

TEST(Math, ordinary_arguments_of_sin_jump_over_the_rare_way) {
  kernel::Kernel kernel = kernel::parse(R"(
kernel.thread @sine(in %x: f32[16], out %y: f32[16]) {
  phase grid() {
    %a = load %x[d0] : vec<16xf32>
    %b = sin %a
    store %y[d0], %b
  }
}
)");
  run(kernel, kernel::thread_pipeline());
  int usual = 0, branches = 0;
  for (const kernel::Inst& inst : kernel.phases[0].body.insts) {
    usual += kernel::is_scalar_op(inst.op);
    branches += inst.op == kernel::Op::branch;
  }
  EXPECT_EQ(branches, 1);
  EXPECT_LE(usual, 30);
}

}  // namespace
}  // namespace heddle
