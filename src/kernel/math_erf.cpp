// erf: x + x P(x^2) up to 1, beyond it 1 - 2^Q(|x|) where Q approximates log2(erfc).
#include "kernel/math.h"

namespace heddle::kernel {

Num expand_erf(const Num& x) {
  bool wide = x.is_double();
  Num a = magnitude(x);
  Num z = x * x;
  Num p = polynomial_for(
      z, {0x1.06eba8p-3, -0x1.81274p-2, 0x1.ce2d52p-4, -0x1.b7fec4p-6, 0x1.542fecp-8, -0x1.a5197ap-11, 0x1.4c5cb4p-14},
      {0x1.06eba8214db68p-3, -0x1.812746b0379b5p-2, 0x1.ce2f21a040b00p-4, -0x1.b82ce311f6fa7p-6, 0x1.565bccf906af0p-8,
       -0x1.c02db03fa8d64p-11, 0x1.f9a2bb441b6b5p-14, -0x1.f4ca5b3a613d0p-17, 0x1.b9807a731070ap-20,
       -0x1.5c0ba6422c2cbp-23, 0x1.d73cad60e1b87p-27, -0x1.ac17f34c03698p-31});
  Num small = fma(x, p, x);

  // Beyond the bound erf rounds to 1.
  Num b = smaller(a, wide ? 6.0 : 4.0);
  Num q = polynomial_for(b,
                         {0x1.1c8c76p-12, -0x1.a12feep+0, -0x1.d3bbd2p-1, -0x1.405704p-3, 0x1.29ee6p-5, -0x1.8d8e02p-8,
                          0x1.4ddbaep-11, -0x1.06841ep-15},
                         {-0x1.8d98be6c6fae4p-21, -0x1.a0be068e5cb73p+0, -0x1.d6436f05cfd09p-1, -0x1.2f72bcb7095a3p-3,
                          0x1.c0d26146c3e75p-6, 0x1.38d4a68072ce7p-11, -0x1.6ae09a15d8ce4p-9, 0x1.246110a09106ap-10,
                          -0x1.9d420536aefb3p-13, -0x1.d818a1444f191p-16, 0x1.109a0e563ad18p-15, -0x1.9f28d9dc69875p-17,
                          0x1.995d92f9e6dfep-19, -0x1.1e235c7bf8931p-21, 0x1.1c7f1e2b8dcecp-24, -0x1.817898f602e9dp-28,
                          0x1.404bd147d4a17p-32, -0x1.ed954a2a0f0b0p-38});
  double shift = rounding_shift(x.dtype());
  Num shifted = q + shift;
  Num complement = small_exp2(q - (shifted - shift)) * power_of_two(shifted, 0);
  return choose(less(a, 1.0), small, with_sign(1.0 - complement, x));
}

}  // namespace heddle::kernel
