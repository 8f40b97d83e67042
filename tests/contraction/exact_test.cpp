// Products as large as those that are measured, and many odd sizes, exact to the last bit.
#include "exact.h"

#include <gtest/gtest-spi.h>

#include "base/error.h"
#include "codegen/codegen.h"

namespace heddle {
namespace {

using namespace testing;

struct Product {
  int64_t m, k, n;
  const char* transpose = "nn";  // "tn": the first factor is stored transposed
  DType dtype = kF32;
  int64_t a_batch = 1, b_batch = 1;
};

void check(const Product& product) {
  auto [m, k, n, transpose, dtype, a_batch, b_batch] = product;
  // SSE has no multiply-add: the largest would take most of the time, and are blocked like smaller ones.
  static const bool slow = host_target().name == "sse";
  if (slow && m * k * n > 60'000'000) return;
  SCOPED_TRACE(text(dtype, " ", a_batch, " x ", m, "x", k, ", ", b_batch, " x ", k, "x", n, " ", transpose));
  bool a_transposed = transpose[0] == 't', b_transposed = transpose[1] == 't';
  LowRank a{a_batch, m, k, 10}, b{b_batch, k, n, 20};
  Tensor x = a.tensor(dtype, a_transposed), y = b.tensor(dtype, b_transposed);
  if (a_transposed) x = x.transpose();
  if (b_transposed) y = y.transpose();
  // The sums of small integers do not fit them.
  bool wide = dtype == kI8;
  expect_exact(wide ? matmul(x.cast(kI32), y.cast(kI32)) : matmul(x, y), exact_product(a, b));
}

TEST(Exact, the_check_itself_finds_one_wrong_term) {
  LowRank a{1, 30, 40, 1}, b{1, 40, 50, 5};
  std::vector<double> want = exact_product(a, b);
  Tensor x = a.tensor(kF32), y = b.tensor(kF32);
  expect_exact(matmul(x, y), want);
  std::vector<float> values = x.to_vector<float>();
  values[7 * 40 + 9] += 1;
  Tensor other = from_vector(values, {30, 40});
  EXPECT_NONFATAL_FAILURE(expect_exact(matmul(other, y), want), "of 1500 elements are wrong, from [7, ");
  EXPECT_NONFATAL_FAILURE(expect_exact(matmul(x, flip(y, {0})), want), "the first is");
}

TEST(Exact, squares) {
  for (int64_t n : {16, 32, 64, 128, 256, 512, 1024}) check({n, n, n});
}

TEST(Exact, shapes_of_the_suite) {
  check({1000, 1000, 1000});
  check({1023, 1025, 1021});
  check({1, 4096, 4096});
  check({16, 4096, 4096});
  check({4096, 64, 4096});  // 8192 of each, halved
  check({256, 64, 256, "nn", kF32, 96, 96});
  for (int64_t n : {512, 1024})
    for (const char* transpose : {"nt", "tn", "tt"}) check({n, n, n, transpose});
}

TEST(Exact, other_dtypes) {
  for (DType dtype : {kBF16, kF16, kF64, kI32, kI8}) {
    check({512, 512, 512, "nn", dtype});
    check({331, 417, 293, "nn", dtype});
    check({130, 70, 520, "nt", dtype});
    check({97, 300, 41, "tn", dtype});
    check({1, 700, 900, "nn", dtype});
    check({64, 48, 80, "nn", dtype, 5, 5});
  }
  for (DType dtype : {kBF16, kF16}) check({1024, 1024, 1024, "nn", dtype});
}

// Few rows or columns, or both: these have schedules of their own, or should.
TEST(Exact, vectors_and_thin_matrices) {
  for (const char* transpose : {"nn", "nt", "tn", "tt"}) {
    for (int64_t few : {1, 2, 3, 6, 8, 16, 24}) {
      check({few, 1000, 1030, transpose});
      check({1030, 1000, few, transpose});
    }
    check({1, 5000, 1, transpose});
    check({2000, 1, 1500, transpose});
    check({3000, 7, 5, transpose});
    check({5, 9, 3000, transpose});
  }
}

// Little to give to several threads but the sum itself.
TEST(Exact, long_sums_of_small_results) {
  for (auto [m, n] : {std::pair<int64_t, int64_t>{1, 1}, {4, 4}, {8, 16}, {16, 8}, {32, 32}, {33, 31}, {64, 64}})
    for (int64_t k : {4096, 20011})
      for (const char* transpose : {"nn", "nt", "tn"}) check({m, k, n, transpose});
  check({128, 10000, 128});
  check({32, 8192, 32, "nn", kBF16});
}

TEST(Exact, batches) {
  for (const char* transpose : {"nn", "nt", "tn", "tt"}) {
    check({64, 64, 64, transpose, kF32, 12, 12});
    check({33, 65, 47, transpose, kF32, 7, 7});
    check({200, 30, 210, transpose, kF32, 3, 3});
    check({1, 64, 300, transpose, kF32, 20, 20});  // a vector each
    check({100, 64, 1, transpose, kF32, 20, 20});
    check({5, 6, 7, transpose, kF32, 300, 300});
    // One factor for the whole batch.
    check({40, 90, 70, transpose, kF32, 6, 1});
    check({40, 90, 70, transpose, kF32, 1, 6});
    check({300, 128, 257, transpose, kF32, 4, 1});
    check({300, 128, 257, transpose, kF32, 1, 4});
  }
}

// One to eleven hundred in each direction, most of them odd, in every transposition.
TEST(Exact, random_sizes) {
  uint64_t state = 2026;
  auto below = [&](uint64_t limit) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (state >> 33) % limit;
  };
  auto size = [&] {  // as many small ones as large ones
    return static_cast<int64_t>(std::exp(static_cast<double>(below(1000)) / 1000 * std::log(1100.0)) + 0.5);
  };
  constexpr const char* kTranspose[] = {"nn", "nt", "tn", "tt"};
  constexpr DType kTypes[] = {kF32, kF32, kF32, kF32, kBF16, kF16, kF64, kI32};
  for (int i = 0; i < 80; ++i) {
    Product product{size(), size(), size(), kTranspose[below(4)], kTypes[below(8)]};
    if (below(4) == 0 && product.m * product.k < 20000 && product.k * product.n < 20000) {
      product.a_batch = product.b_batch = 1 + static_cast<int64_t>(below(9));
      if (below(3) == 0) product.a_batch = 1;
    }
    check(product);
  }
  // Large in every direction: each takes several blocks of every loop.
  for (int i = 0; i < 12; ++i) {
    auto large = [&] { return static_cast<int64_t>(300 + below(801)); };
    check({large(), large(), large(), kTranspose[i % 4]});
  }
}

// Next to sizes that blocks are likely to have.
TEST(Exact, sizes_around_blocks) {
  for (int64_t m : {5, 6, 7, 13, 15, 25})
    for (int64_t n : {15, 17, 31, 33, 63, 65, 95, 97}) check({m, 65, n});
  for (int64_t k : {255, 257, 383, 385, 511, 513, 769}) check({121, k, 241});
  for (int64_t m : {119, 121, 239, 241, 481}) check({m, 384, 513});
  for (int64_t n : {511, 513, 1025, 2049}) check({130, 260, n});
}

// All values that a byte has, the least one in pairs: machines that multiply unsigned by signed bytes must not show it.
TEST(Exact, bytes) {
  for (auto [m, k, n] : {std::array<int64_t, 3>{1, 9, 16}, {37, 70, 45}, {64, 4099, 33}, {100, 256, 128}}) {
    SCOPED_TRACE(text(m, "x", k, "x", n));
    uint64_t state = static_cast<uint64_t>(k);
    auto draw = [&](int64_t count) {
      std::vector<float> values(static_cast<size_t>(count));
      for (float& value : values) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        value = state >> 62 == 0 ? -128 : static_cast<float>(static_cast<int64_t>(state >> 33) % 256 - 128);
      }
      return values;
    };
    std::vector<float> a = draw(m * k), b = draw(k * n);
    std::vector<double> want(static_cast<size_t>(m * n));
    for (int64_t i = 0; i < m; ++i)
      for (int64_t l = 0; l < k; ++l)
        for (int64_t j = 0; j < n; ++j)
          want[static_cast<size_t>(i * n + j)] += static_cast<double>(a[static_cast<size_t>(i * k + l)]) *
                                                  static_cast<double>(b[static_cast<size_t>(l * n + j)]);
    Tensor x = from_vector(a, {m, k}).cast(kI8).realize(), y = from_vector(b, {k, n}).cast(kI8).realize();
    expect_exact(matmul(x.cast(kI32), y.cast(kI32)), want);
  }
}

TEST(Exact, symbolic_sizes) {
  Dim size = dim("n", 1, 1100);
  for (int64_t n : {1, 17, 64, 300, 1001}) {
    SCOPED_TRACE(n);
    LowRank a{1, n, 96, 1}, b{1, 96, 130, 5}, c{1, 40, n, 9};
    Tensor x = a.tensor(kF32).with_dim(0, size);
    expect_exact(matmul(x, b.tensor(kF32)), exact_product(a, b));
    expect_exact(matmul(c.tensor(kF32).with_dim(1, size), x), exact_product(c, a));
  }
}

}  // namespace
}  // namespace heddle
