// Matrix products against plain loops.
#include "helpers.h"

namespace heddle {
namespace {

using namespace testing;

std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b, int64_t m, int64_t k,
                            int64_t n) {
  std::vector<double> c(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) sum += a[static_cast<size_t>(i * k + l)] * b[static_cast<size_t>(l * n + j)];
      c[static_cast<size_t>(i * n + j)] = sum;
    }
  return c;
}

TEST(Matmul, of_odd_sizes) {
  for (auto [m, k, n] : {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1},
                         {2, 3, 4},
                         {7, 13, 5},
                         {16, 16, 16},
                         {17, 33, 31},
                         {64, 64, 64},
                         {65, 127, 63},
                         {1, 200, 1},
                         {100, 1, 100},
                         {3, 300, 130},
                         {128, 70, 1},
                         {1, 70, 128}}) {
    Tensor a = noise_tensor({m, k}, 1), b = noise_tensor({k, n}, 2);
    SCOPED_TRACE(std::to_string(m) + " " + std::to_string(k) + " " + std::to_string(n));
    Tensor c = matmul(a, b);
    EXPECT_EQ(c.shape(), (Dims{m, n}));
    expect_close(c, product(doubles(a), doubles(b), m, k, n), 5e-5);
  }
}

TEST(Matmul, of_a_larger_size) {
  int64_t m = 200, k = 300, n = 250;
  Tensor a = noise_tensor({m, k}, 1), b = noise_tensor({k, n}, 2);
  expect_close(matmul(a, b), product(doubles(a), doubles(b), m, k, n), 1e-4);
}

TEST(Matmul, of_every_dtype) {
  for (DType dtype : {kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64, kF16, kBF16, kF32, kF64}) {
    SCOPED_TRACE(name(dtype));
    Tensor a = (counting({5, 7}) % 4).cast(dtype).realize(), b = (counting({7, 6}) % 3).cast(dtype).realize();
    Tensor c = matmul(a, b);
    EXPECT_EQ(c.dtype(), dtype);
    expect_equal(c, product(doubles(a), doubles(b), 5, 7, 6));
  }
  EXPECT_EQ(matmul(ones({2, 2}, kI32), ones({2, 2})).dtype(), kF32);
}

// Sizes that machines give to matrix units, in numbers that every order of sums keeps exact.
TEST(Matmul, of_narrow_numbers_with_wide_sums) {
  for (DType dtype : {kBF16, kF16, kF8E4M3, kF8E5M2, kI8, kF32})
    for (auto [m, k, n] : {std::tuple<int64_t, int64_t, int64_t>{136, 200, 264}, {67, 93, 83}})
      for (auto [transpose_a, transpose_b] : {std::pair{false, false}, {false, true}, {true, true}}) {
        SCOPED_TRACE(std::string(name(dtype)) + " " + std::to_string(m) + (transpose_a ? " transposed" : "") +
                     (transpose_b ? " by transposed" : ""));
        auto factor = [&](int64_t rows, int64_t columns, bool transposed, double shift) {
          Tensor x = (counting(transposed ? Dims{columns, rows} : Dims{rows, columns}) * 3 + shift) % 7 - 3;
          x = x.cast(dtype).realize();
          return transposed ? x.transpose() : x;
        };
        Tensor a = factor(m, k, transpose_a, 1), b = factor(k, n, transpose_b, 2);
        const DType wide = dtype == kI8 ? kI32 : kF32;
        expect_equal(matmul(a.cast(wide), b.cast(wide)) + 1, [&] {
          std::vector<double> want = product(doubles(a), doubles(b), m, k, n);
          for (double& x : want) x += 1;
          return want;
        }());
      }
}

TEST(Matmul, results_whose_rows_begin_anywhere) {
  constexpr int64_t kBatch = 3, kDepth = 64;
  for (DType dtype : {kBF16, kF16})
    for (int64_t m : {64, 130})
      for (int64_t n : {61, 66, 129, 131, 257, 390}) {
        SCOPED_TRACE(std::string(name(dtype)) + " " + std::to_string(m) + " x " + std::to_string(n));
        Tensor a = (counting({kBatch, m, kDepth}) % 3 - 1).cast(dtype).realize();
        Tensor b = (counting({kBatch, kDepth, n}) % 5 - 2).cast(dtype).realize();
        const std::vector<double> x = doubles(a), y = doubles(b);
        std::vector<double> want;
        for (int64_t i = 0; i < kBatch; ++i) {
          auto part = [&](const std::vector<double>& from, int64_t size) {
            return std::vector<double>(from.begin() + i * size, from.begin() + (i + 1) * size);
          };
          for (double v : product(part(x, m * kDepth), part(y, kDepth * n), m, kDepth, n)) want.push_back(v);
        }
        expect_equal(matmul(a, b), want);
        expect_equal(matmul(a.cast(kF32), b.cast(kF32)), want);
      }
}

TEST(Matmul, of_vectors) {
  Tensor v = tensor({1, 2, 3}), m = counting({3, 2});
  EXPECT_EQ(matmul(v, v).shape(), (Dims{}));
  EXPECT_EQ(matmul(v, v).item<float>(), 14);
  expect_equal(matmul(v, m), {16, 22});
  expect_equal(matmul(m.transpose(), v), {16, 22});
  EXPECT_EQ(matmul(zeros({4, 2, 3}), v).shape(), (Dims{4, 2}));
  EXPECT_EQ(matmul(v, zeros({4, 3, 2})).shape(), (Dims{4, 2}));
}

TEST(Matmul, of_batches_that_broadcast) {
  Tensor a = noise_tensor({4, 1, 3, 5}, 1), b = noise_tensor({2, 5, 6}, 2);
  Tensor c = matmul(a, b);
  ASSERT_EQ(c.shape(), (Dims{4, 2, 3, 6}));
  std::vector<double> want;
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 2; ++j) {
      std::vector<double> part = product(doubles(a[i][0]), doubles(b[j]), 3, 5, 6);
      want.insert(want.end(), part.begin(), part.end());
    }
  expect_close(c, want, 2e-5);
}

TEST(Matmul, of_views) {
  Tensor a = noise_tensor({6, 4}, 1), b = noise_tensor({6, 8}, 2);
  expect_close(matmul(a.transpose(), b), product(doubles(a.transpose()), doubles(b), 4, 6, 8), 2e-5);
  expect_close(matmul(a.transpose() + 1, flip(b, {0})),
               product(doubles(a.transpose() + 1), doubles(flip(b, {0})), 4, 6, 8), 2e-5);
}

TEST(Matmul, with_empty_sizes) {
  EXPECT_EQ(matmul(zeros({0, 3}), zeros({3, 2})).shape(), (Dims{0, 2}));
  expect_equal(matmul(zeros({2, 0}), zeros({0, 2})), {0, 0, 0, 0});
}

TEST(Matmul, of_constants_and_with_an_epilogue) {
  expect_equal(matmul(ones({2, 3}), ones({3, 2})), {3, 3, 3, 3});
  Tensor a = noise_tensor({20, 30}, 1), b = noise_tensor({30, 10}, 2), bias = noise_tensor({10}, 3);
  std::vector<double> want = product(doubles(a), doubles(b), 20, 30, 10), row = doubles(bias);
  for (size_t i = 0; i < want.size(); ++i) want[i] = std::max(want[i] + row[i % 10], 0.0);
  expect_close(relu(matmul(a, b) + bias), want, 2e-5);
  expect_close(matmul(matmul(a, b), b.transpose()).sum({1}),
               doubles(matmul(matmul(a, b).realize(), b.transpose()).realize().sum({1})), 1e-4);
}

TEST(Matmul, bad_shapes) {
  expect_error<ShapeError>([] { matmul(zeros({2, 3}), zeros({4, 5})); }, {"matmul", "[2, 3]", "[4, 5]"});
  expect_error<ShapeError>([] { matmul(zeros({2}), zeros({3})); }, {"matmul", "[2]", "[3]"});
  expect_error<ShapeError>([] { matmul(scalar(1), zeros({3})); }, {"matmul", "[3]"});
  expect_error<ShapeError>([] { matmul(zeros({2, 3, 4}), zeros({3, 4, 5})); }, {"matmul", "[2, 3, 4]", "[3, 4, 5]"});
  expect_error<DTypeError>([] { matmul(zeros({2, 2}, kBool), zeros({2, 2}, kBool)); }, {"matmul", "bool"});
}

TEST(Matmul, long_sums_keep_their_digits) {
  expect_close(matmul(full({4, 1000000}, 0.1).realize(), ones({1000000, 4}).realize()), std::vector<double>(16, 100000),
               1e-4);
}

}  // namespace
}  // namespace heddle
