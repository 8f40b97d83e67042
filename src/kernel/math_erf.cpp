// erf: 1 - 2^q where q approximates log2(erfc(|x|)). Beyond a bound it rounds to 1. In f64 x + x P(x^2) up to 1.
// erfinv: x P(w) with w = -log(1 - x^2), and for large w x P(sqrt(w)).
#include <limits>

#include "kernel/math.h"

namespace heddle::kernel {

namespace {

Num wide_erf(const Num& x) {
  Num a = magnitude(x);
  Num p =
      polynomial(x * x, {0x1.06eba8214db68p-3, -0x1.812746b0379b5p-2, 0x1.ce2f21a040b00p-4, -0x1.b82ce311f6fa7p-6,
                         0x1.565bccf906af0p-8, -0x1.c02db03fa8d64p-11, 0x1.f9a2bb441b6b5p-14, -0x1.f4ca5b3a613d0p-17,
                         0x1.b9807a731070ap-20, -0x1.5c0ba6422c2cbp-23, 0x1.d73cad60e1b87p-27, -0x1.ac17f34c03698p-31});
  Num small = fma(x, p, x);

  Num q = polynomial(smaller(a, 6.0),
                     {-0x1.8d98be6c6fae4p-21, -0x1.a0be068e5cb73p+0, -0x1.d6436f05cfd09p-1, -0x1.2f72bcb7095a3p-3,
                      0x1.c0d26146c3e75p-6, 0x1.38d4a68072ce7p-11, -0x1.6ae09a15d8ce4p-9, 0x1.246110a09106ap-10,
                      -0x1.9d420536aefb3p-13, -0x1.d818a1444f191p-16, 0x1.109a0e563ad18p-15, -0x1.9f28d9dc69875p-17,
                      0x1.995d92f9e6dfep-19, -0x1.1e235c7bf8931p-21, 0x1.1c7f1e2b8dcecp-24, -0x1.817898f602e9dp-28,
                      0x1.404bd147d4a17p-32, -0x1.ed954a2a0f0b0p-38});
  double shift = rounding_shift(kF64);
  Num shifted = q + shift;
  Num complement = small_exp2(q - (shifted - shift)) * power_of_two(shifted, 0);
  return choose(less(a, 1.0), small, with_sign(1.0 - complement, x));
}

// One way for all arguments: with q = n + r, 1 - 2^q is (1 - 2^n) - 2^n (2^r - 1), which is exact in its first part and
// relatively exact where that is 0. The linear terms of q and of 2^r - 1 come last and without roundings between, for
// they are all there is near 0; their factors are chosen so that the product is right to 28 bits.
Num narrow_erf(const Num& x) {
  Num a = smaller(magnitude(x), 4.0);
  Num w = polynomial(a, {-0x1.d63ebap-1, -0x1.2fad8ep-3, 0x1.c4f2dep-6, 0x1.a747cp-13, -0x1.36d0acp-9, 0x1.d3e362p-11,
                         -0x1.56ad8ep-13, 0x1.a678cp-17});
  Num q = fma(a, -0x1.a0be84p+0, a * a * w);
  Num n = q.apply(ScalarOp::round);
  Num r = q - n;
  Num power = x.constant(1.0).apply(ScalarOp::scale, {n});
  // (2^r - 1 - r s) / r^2
  Num s = polynomial(r, {0x1.ebfbd8p-3, 0x1.c6af94p-5, 0x1.3b3126p-7, 0x1.5efa5ap-10, 0x1.3f1b7ep-13});
  Num part = power * r;
  Num negative = fma(part, 0x1.62e43p-1, fma(part * r, s, power - 1.0));
  return with_sign(magnitude(negative), x);
}

// Where 2^q is an instruction: x + x P(x^2) up to a bound, 1 - 2^q beyond, where an ulp of 2^q is less than one of the
// result. q falls for all larger arguments, so that it needs no other bound than that of exp_by_exp2().
Num erf_by_exp2(const Num& x) {
  Num a = magnitude(x);
  Num p =
      polynomial(x * x, {0x1.06eba8p-3, -0x1.812722p-2, 0x1.ce2486p-4, -0x1.b725ecp-6, 0x1.4b04e6p-8, -0x1.4ab098p-11});
  Num q = polynomial(a, {0x1.cb82a2p-13, -0x1.a11f42p+0, -0x1.d40008p-1, -0x1.3f2742p-3, 0x1.26d3fap-5, -0x1.8407a2p-8,
                         0x1.3dfb46p-11, -0x1.e0b64p-16});
  Num large = 1.0 - larger(q, kLeastExponent).apply(ScalarOp::exp2);
  return choose(less(a, 0.85), fma(x, p, x), with_sign(large, x));
}

}  // namespace

Num expand_erf(const Num& x, Powers powers) {
  if (x.is_double()) return wide_erf(x);
  return powers == Powers::Integers ? erf_by_exp2(x) : narrow_erf(x);
}

Num expand_erfinv(const Num& x) {
  Num a = magnitude(x);
  Num w = -expand_log((1.0 - a) * (a + 1.0));  // 1 - a is exact where the logarithm is large
  Num root = w.apply(ScalarOp::sqrt);
  Num result = w;
  if (x.is_double()) {
    Num middle = polynomial(
        w - 3.125, {0x1.a755e7c99ae86p+0,   0x1.ebd80d9b13dfap-3,   -0x1.8b6c33114ead6p-8,  -0x1.84576948356aap-11,
                    0x1.879c2a20b5298p-13,  -0x1.d1d1f7ca2235ap-17, -0x1.6e8a53cde9883p-20, 0x1.c6b4f88beea78p-22,
                    -0x1.f36ced4675641p-26, -0x1.1a9eb0f05693ep-28, 0x1.20f5363da73d1p-30,  -0x1.dc3f138775d9p-35,
                    -0x1.c8a3f9009a566p-37, 0x1.7235e000fccbap-39,  -0x1.6bdbe8201c9f2p-44, -0x1.686e60e02fa39p-45,
                    0x1.d6c6ec796ba62p-48,  -0x1.6fcf2b3823a9fp-55, -0x1.1ca76126eae7bp-53, 0x1.1ec21cd990993p-56,
                    0x1.9aa78005065b3p-61,  -0x1.9bbfab1d26656p-62, 0x1.3869678254a0dp-66,  0x1.e67f37dc4cd49p-69,
                    -0x1.6adda01c88ec2p-72});
    Num tail = polynomial(
        root - 3.25, {0x1.8abcc380d5a48p+1,   0x1.0158a6d641d55p+0,   0x1.5ffcfe5b6ccfep-8,   -0x1.ebadabba02a5fp-9,
                      0x1.468eeca946ab9p-9,   -0x1.ba9240d87a2b9p-10, 0x1.f3cc545cdad39p-11,  -0x1.7448bcc89e39fp-12,
                      0x1.932e910ae3054p-16,  0x1.1e6abbecd6deep-14,  -0x1.8cf467bef3a98p-15, 0x1.a241c3e2a208ap-17,
                      0x1.899bd9f364593p-19,  -0x1.0b79cbd419a54p-18, 0x1.8daffd52a919bp-20,  -0x1.dab5f64e3e85dp-26,
                      -0x1.076eca7525b35p-22, 0x1.1a9dac8f28eb8p-23,  -0x1.69bb875068703p-26, -0x1.07131e3813f81p-26,
                      0x1.09ba535310493p-27});
    Num far = polynomial(root - 5.0,
                         {0x1.3664ddd1ad7fbp+2, 0x1.02a30d1fba10dp+0, -0x1.22ea5df1d827ap-13, -0x1.c2f36aa257d0fp-13,
                          0x1.3ebf4efdad861p-14, -0x1.4a348fbb27b92p-16, 0x1.2fbcfbdc4e975p-18, -0x1.0a90771bb982cp-20,
                          0x1.ebe431893394dp-23, -0x1.222661b99d021p-24, 0x1.f2704e27ff95ap-26, -0x1.06191d65fe1adp-26,
                          0x1.0d13e5ee103d9p-27, -0x1.dce52e5d4231fp-29, 0x1.671049a01feaep-30, -0x1.e239fbd821783p-32,
                          0x1.48ec53d490afep-34, 0x1.7b8e85edd6eaap-35, -0x1.7b385e888c61dp-36});
    result = a * choose(less(w, 6.25), middle, choose(less(w, 16.0), tail, far));
  } else {
    // The first coefficients in two parts.
    Num middle = polynomial(w, {-0x1.c96212p-26, 0x1.db2a08p-3, 0x1.7a6eb2p-7, -0x1.31ff9ep-9, -0x1.0ad726p-13,
                                0x1.74d576p-15, 0x1.0db3a8p-18, -0x1.0a1d82p-19, 0x1.dbf336p-23, -0x1.2ee734p-27});
    Num tail =
        polynomial(root - 3.125, {-0x1.20473cp-27, 0x1.00f3b6p+0, 0x1.cdf80cp-8, -0x1.5b6ceap-8, 0x1.efa178p-9,
                                  -0x1.4a421ap-9, 0x1.57c352p-10, -0x1.556c1ep-12, -0x1.6d6348p-13, 0x1.12299ap-13});
    Num central = less(w, 5.0);
    Num first = choose(central, x.constant(0x1.c5bf8ap-1), x.constant(0x1.7aaa3cp+1));
    result = fma(a, first, a * choose(central, middle, tail));
  }
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return with_sign(choose(equal(a, 1.0), a.constant(infinity), result), x);
}

}  // namespace heddle::kernel
