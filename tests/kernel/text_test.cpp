#include <random>

#include "kernel/builder.h"
#include "kernel/structure.h"
#include "run_kernel.h"

namespace heddle::kernel {
namespace {

// Exactly what print() writes.
const char* const kTexts[] = {
    R"(kernel @softmax(in %x: f32[16777216], out %y: f32[16777216]) {
  shared %e: f32[4096]
  phase grid(i < 4096) {
    %0 = load %x[i * 4096 + d1] : tile<1x4096xf32>
    %1 = reduce maximum %0 axis 1
    %2 = sub %0, %1
    %3 = constant 1.442695 : f32
    %4 = mul %2, %3
    %5 = exp2 %4
    %6 = reduce add %5 axis 1
    %7 = div %5, %6
    store %y[i * 4096 + d1], %7 stream
  }
}
)",
    R"(kernel @tails(in %x: f32[n * 64], inout %y: f32[n * 64], in %idx: i32[n]) symbols(n in [1, 4096] multiple 1) {
  temp %t: f32[n]
  phase grid(i < (n + 7) // 8, j < 4) {
    %0 = load %x[i * 512 + d0 * 64 + j * 16 + d1] if i * 8 + d0 < n : tile<8x16xf32>
    %1 = reduce add %0 axis 0 if i * 8 + d0 < n
    %2 = load %idx[i * 8 + d0] if i * 8 + d0 < n stream : tile<8x1xi32>
    %3 = load %x[v0 * 64 + d1] with v0 < n = %2 if i * 8 + d0 < n prefetch 1024 : tile<8x16xf32>
    combine add %y[v0 * 64 + d1], %3 with v0 in [-4, 8] multiple 4 = %2 if i * 8 + d0 < n
    %4 = index i * 8 + d0 < n : tile<8x1xbool>
    %5 = cast %4 : tile<8x1xf32>
  }
  phase grid() {
    %6 = constant true : bool
    %7 = constant -3 : i64
    %8 = constant nan : f16
    %9 = constant 0 : tile<4x4xf64>
  }
}
)",
    R"(kernel @control(out %y: f32[100]) {
  phase grid(i < 10) {
    %0 = constant 0 : f32
    %1 = constant 1 : f32
    %2, %3 = loop k < i + 1 carry(%4 = %0, %5 = %1) unroll 2 {
      %6 = loop k_1 < 3 carry(%7 = %4) {
        %8 = add %7, %5
        yield %8
      }
      %9 = branch k % 2 == 0 {
        yield %6
      } else {
        %10 = neg %6
        yield %10
      }
      yield %5, %9
    }
    branch i < 5 {
      store %y[i], %2
    }
    loop k < 2 {
      store %y[k * 10 + i + 10], %3
    }
  }
}
)",
    R"(kernel @argmax(in %x: f32[64], out %v: f32[1], out %i: i64[1]) {
  phase grid() {
    %0 = load %x[d0] : tile<64xf32>
    %1 = index d0 : tile<64xi64>
    %2, %3 = reduce {
      (%0: f32, %1: i64, %2: f32, %3: i64)
      %4 = lt %0, %2
      %5 = where %4, %2, %0
      %6 = where %4, %3, %1
      yield %5, %6
    } identity(-inf, 0) %0, %1 axis 0
    store %v[0], %2
    store %i[0], %3
  }
}
)",
    R"(kernel @cumsum(in %x: f32[640], out %y: f32[640]) symbols(n in [1, 10] multiple 1) rounds {
  temp %t: f32[4]
  phase grid(r < n, i < 2) {
    %0 = constant -0 : tile<1x1xf32>
    %1 = load %x[r * 64 + i * 32 + d1] : tile<1x32xf32>
    %2, %3 = scan add %1, %0 axis 1 if d1 < n
    store %y[r * 64 + i * 32 + d1], %2
    store %t[i], %3
  }
  phase grid(r < n) {
  }
}
)",
    R"(kernel.thread @lanes(in %x: i32[16], out %y: i32[16], out %z: i32[1]) {
  phase grid() {
    %0 = constant 7 : i32
    %1 = load %x[d0] : vec<16xi32>
    %2, %3 = scan maximum %1, %0 axis 0
    store %y[d0], %2
    store %z[0], %3
  }
}
)",
    R"(kernel.thread @simt(in %x: f32[1024], out %y: f32[4]) threads 256 thread t {
  shared %s: f32[8]
  phase grid(i < 4) {
    %0 = load %x[i * 256 + t] : f32
    %1 = shuffle_xor %0, 16
    %2 = add %0, %1
    branch t % 32 == 0 {
      store %s[t // 32], %2
    }
    barrier
    %3 = load %s[d0] : vec<8xf32>
    %4 = reduce add %3 axis 0
    %5 = bitcast %4 : i32
    %6 = load %s[d0] : vec<2xf32>
    %7, %8 = transpose %6, %6
  }
}
)",
    R"(kernel.thread @choose(in %x: i32[64], out %y: i32[64]) {
  phase grid(i < 64) {
    %0 = load %x[i] : i32
    %1 = branch v0 < 3 with v0 in [-5, 9] = %0 {
      %2 = load %x[v0] with v0 < 64 = %0 : i32
      yield %2
    } else {
      yield %0
    }
    store %y[i], %1
  }
}
)",
    R"(kernel @matmul(in %a: f16[4096], in %b: f16[4096], out %c: f32[4096]) {
  phase grid(i < 4, j < 4) {
    %0 = constant 0 : tile<16x1x16xf32>
    %1 = loop k < 4 carry(%2 = %0) {
      %3 = load %a[i * 1024 + d0 * 64 + k * 16 + d1] : tile<16x16x1xf16>
      %4 = load %b[k * 1024 + d1 * 64 + j * 16 + d2] : tile<1x16x16xf16>
      %5 = dot %3, %4, %2 axis 1 if k * 16 + d1 < 60
      yield %5
    }
    store %c[i * 1024 + d0 * 64 + j * 16 + d2], %1
  }
}
)"};

TEST(Text, prints_what_it_parsed) {
  for (const char* text : kTexts) EXPECT_EQ(print(parse(text)), text);
}

TEST(Text, printed_kernels_parse_to_the_same_structure) {
  for (const char* text : kTexts) {
    Kernel k = parse(text);
    EXPECT_TRUE(structure(parse(print(k))) == structure(k)) << text;
  }
}

TEST(Text, variables_made_in_another_order_and_with_clashing_names_print_stably) {
  // Coordinates older than blocks, all of one name, one of them reserved.
  Expr column = Expr::index("i", 8), row = Expr::index("i", 4), inner = Expr::index("d0", 3),
       outer = Expr::index("i", 5), block = Expr::index("i", 7);
  Kernel k{.name = "a b"};
  k.buffers = {{"x y", DType::f32, Space::In, 1 << 20}, {"x_y", DType::f32, Space::Out, 1 << 20}};
  k.phases.push_back({{block}, {}});
  Builder b(k, k.phases[0]);
  b.loop(outer, {}, [&](auto) {
    b.loop(inner, {}, [&](auto) {
      Builder::Access at{.address = column + row * 8 + inner * 32 + outer * 96 + block * 480, .coords = {row, column}};
      b.store(1, b.load(0, DType::f32, at), at);
      return std::vector<Value>();
    });
    return std::vector<Value>();
  });
  verify(k);
  std::string text = print(k);
  EXPECT_EQ(print(parse(text)), text);
  EXPECT_TRUE(structure(parse(text)) == structure(k));
  EXPECT_CONTAINS(text, "kernel @a_b(in %x_y: f32[1048576], out %x_y_1: f32[1048576])");
  EXPECT_CONTAINS(text, "loop i_1 < 5");
  EXPECT_CONTAINS(text, "loop d0_ < 3");
  EXPECT_CONTAINS(text, "%x_y[i * 480 + i_1 * 96 + d0_ * 32 + d0 * 8 + d1]");
}

TEST(Text, temp_between_arguments_keeps_its_place) {
  const char* text = "kernel @k(in %a: f32[1], temp %t: f32[2], out %b: f32[3]) {\n  shared %l: i8[4]\n}\n";
  EXPECT_EQ(print(parse(text)), text);
}

TEST(Text, comments_and_layout_do_not_matter) {
  Kernel k =
      parse("kernel @k(out %y:f32[4]){ # a comment\nphase grid(i<4)\n{%one = constant 1:f32 store %y[ i ],%one}}");
  EXPECT_NO_THROW(verify(k));
  EXPECT_CONTAINS(print(k), "    store %y[i], %0\n");
}

TEST(Text, constants_keep_every_bit) {
  for (double value : {0.1, -0.0, 1e-45, 3.4028234663852886e38, 1.0 / 3}) {
    for (DType dtype : {DType::f8e4m3, DType::f8e5m2, DType::f16, DType::bf16, DType::f32, DType::f64}) {
      Kernel k{.name = "k"};
      k.phases.emplace_back();
      Builder(k, k.phases[0]).constant(Scalar::of(dtype, value));
      EXPECT_TRUE(parse(print(k)).phases[0].body.insts[0].literal == k.phases[0].body.insts[0].literal) << print(k);
    }
  }
  for (uint64_t bits : {0x7fc00001u, 0xffc00000u, 0x7fc00000u}) {  // NaNs
    Kernel k{.name = "k"};
    k.phases.emplace_back();
    Builder(k, k.phases[0]).constant(Scalar::from_bits(DType::f32, bits));
    EXPECT_EQ(parse(print(k)).phases[0].body.insts[0].literal.bits(), bits) << print(k);
  }
  for (uint64_t value : {uint64_t{0}, ~uint64_t{0}}) {
    Kernel k{.name = "k"};
    k.phases.emplace_back();
    Builder(k, k.phases[0]).constant(Scalar::of(DType::u64, value));
    EXPECT_EQ(parse(print(k)).phases[0].body.insts[0].literal.u, value);
  }
}

TEST(Text, reducer_prints_alone) {
  EXPECT_EQ(print(*simple_reducer(ScalarOp::minimum, DType::i32)), "minimum");
  EXPECT_CONTAINS(print(*arg_reducer(true, DType::f32)), "identity(-inf, 9223372036854775807)");
}

struct Mistake {
  const char* text;
  const char* message;
};

TEST(ParseErrors, name_line_column_and_reason) {
  const Mistake mistakes[] = {
      {"kernal @k() {}", "line 1, column 1: expected 'kernel'"},
      {"kernel @k(\n  on %x: f32[4]) {}", "line 2, column 3: expected in, out"},
      {"kernel @k(in %x: f33[4]) {}", "line 1, column 18: unknown dtype 'f33'"},
      {"kernel @k(in %x: f32[m]) {}", "unknown variable 'm'"},
      {"kernel @k(in %x: f32[4]) {\n  phase grid() {\n    %0 = lode %x[0] : f32\n  }\n}",
       "line 3, column 10: unknown instruction 'lode'"},
      {"kernel @k(in %x: f32[4]) {\n  phase grid() {\n    %0 = load %z[0] : f32\n  }\n}",
       "line 3, column 15: unknown buffer %z"},
      {"kernel @k(in %x: f32[4]) {\n  phase grid() {\n    %0 = load %x[j + 1] : f32\n  }\n}", "line 3, column 18"},
      {"kernel @k() {\n  phase grid() {\n    %0 = neg %1\n  }\n}", "line 3, column 14: unknown value %1"},
      {"kernel @k() {\n  phase grid() {\n    %0 = constant 1.5 : i32\n  }\n}",
       "line 3, column 19: expected a value of i32"},
      {"kernel @k() {\n  phase grid() {\n    %0 = constant 300 : u8\n  }\n}", "expected a value of u8"},
      {"kernel @k() {\n  phase grid() {\n    %0 = constant 1 : f32\n    %0 = neg %0\n  }\n}", "already defined"},
      {"kernel @k() {\n  phase grid() {\n    %0 = constant 1 : f32\n    %1 = bit_not %0\n  }\n}", "dtypes do not fit"},
      {"kernel @k() {\n  phase grid() {\n    %0 = constant 1 : f32\n    %1, %2 = neg %0\n  }\n}", "gives 1 results"},
      {"kernel @k() {\n  phase grid() {\n    %0 = constant 1 : tile<0xf32>\n  }\n}", "expected an integer between 1"},
      {"kernel @k() {\n  phase grid() {\n    %0 = constant 1 : tile<99999999x99999999xf32>\n  }\n}", "tile too large"},
      {"kernel @k() {\n  phase grid(i < 4, i < 4) {\n  }\n}", "line 2, column 21: 'i' cannot be a new variable's name"},
      {"kernel @k() {\n  phase grid(d0 < 4) {\n  }\n}", "'d0' cannot be a new variable's name"},
      {"kernel @k() {\n  phase grid() {\n    loop k < 4 {\n", "line 4, column 1"},
      {"kernel @k() {}\nmore", "line 2, column 1: expected the end"},
      {"", "line 1, column 1"},
  };
  for (const Mistake& m : mistakes) {
    std::string message = message_of<ParseError>([&] { parse(m.text); });
    EXPECT_CONTAINS(message, m.message) << m.text;
  }
}

TEST(ParseErrors, values_do_not_leave_their_block) {
  EXPECT_THROW(parse(R"(kernel @k(out %y: f32[4]) {
  phase grid() {
    loop k < 4 {
      %0 = constant 1 : f32
    }
    store %y[0], %0
  }
})"),
               ParseError);
}

TEST(ParseErrors, depth_is_limited) {
  std::string deep = "kernel @k() {\nphase grid() {\n";
  for (int i = 0; i < 100000; ++i) deep += "branch 1 {\n";
  EXPECT_THROW(parse(deep), ParseError);
  std::string parentheses = "kernel @k(in %x: f32[" + std::string(100000, '(') + "]) {}";
  EXPECT_THROW(parse(parentheses), ParseError);
  std::string negations = "kernel @k(in %x: f32[" + std::string(100000, '!') + "1]) {}";
  EXPECT_THROW(parse(negations), ParseError);
}

// Whatever the text, parse() returns or throws ParseError; what it returns can be verified or refused, and printed.
TEST(ParseFuzz, mutated_texts_never_crash) {
  std::mt19937 random(7);
  const std::string alphabet = "%@(){}[]<>=:,.-+*/ \n0123456789abdefiklnrtvxyz_#";
  int parsed = 0, verified = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string text = kTexts[random() % std::size(kTexts)];
    for (int n = 1 + static_cast<int>(random() % 3); n > 0; --n) {
      size_t at = random() % text.size(), length = random() % 8;
      switch (random() % 5) {
        case 0: text.erase(at, length); break;
        case 1: text[at] = alphabet[random() % alphabet.size()]; break;
        case 2: text.insert(at, 1, alphabet[random() % alphabet.size()]); break;
        case 3: text.insert(at, text.substr(random() % text.size(), length * 3)); break;
        case 4: text.resize(round % 10 == 0 ? at + 1 : text.size()); break;
      }
      if (text.empty()) text = "k";
    }
    try {
      Kernel k = parse(text);
      ++parsed;
      std::string once = print(k);
      EXPECT_EQ(print(parse(once)), once) << text;
      verify(k);
      ++verified;
    } catch (const ParseError&) {
    } catch (const InternalError&) {}
  }
  EXPECT_GT(parsed, 100);
  EXPECT_GT(verified, 100);
  EXPECT_LT(verified, 3900);
}

}  // namespace
}  // namespace heddle::kernel
