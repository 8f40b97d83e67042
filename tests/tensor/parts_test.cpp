// Values that are put together from parts: rolls, paddings, joins of few and of many parts, gradients of slices.
#include "helpers.h"

namespace heddle {
namespace {

using namespace testing;

// A matrix on the host.
struct Grid {
  int64_t rows, columns;
  std::vector<double> values;
  double at(int64_t r, int64_t c) const { return values[static_cast<size_t>(r * columns + c)]; }
};
Grid grid(const Tensor& x) { return {x.size(0), x.size(1), doubles(x)}; }
int64_t wrapped(int64_t i, int64_t n) { return ((i % n) + n) % n; }

// Which element of a row of n lies at `i`, which may be before or behind the row.
int64_t source(PadMode mode, int64_t i, int64_t n) {
  if (i >= 0 && i < n) return i;
  if (mode == PadMode::Circular) return wrapped(i, n);
  if (mode == PadMode::Replicate) return i < 0 ? 0 : n - 1;
  const int64_t seam = mode == PadMode::Reflect ? 0 : 1;
  return i < 0 ? -i - seam : 2 * n - 2 + seam - i;
}

std::vector<double> rolled(const Grid& g, int64_t down, int64_t right) {
  std::vector<double> result;
  for (int64_t r = 0; r < g.rows; ++r)
    for (int64_t c = 0; c < g.columns; ++c)
      result.push_back(g.at(wrapped(r - down, g.rows), wrapped(c - right, g.columns)));
  return result;
}

Tensor numbers_of(DType dtype, const Dims& shape) {
  Tensor x = noise_tensor(shape, 3);
  return dtype == kBool ? (x > 0).realize() : cast(x * 20, dtype).realize();
}

TEST(Parts, rolls_of_both_axes) {
  for (DType dtype : {kF32, kF16, kBool, kI8, kF64})
    for (Dims shape : {Dims{7, 5}, Dims{1, 40}, Dims{33, 1}, Dims{20, 131}, Dims{5, 1024}})
      for (auto [down, right] : {std::pair{3, 5}, {-1, 0}, {0, -2}, {1000, -999}, {1, 1}, {16, 64}}) {
        SCOPED_TRACE(::testing::Message() << shape[0] << "x" << shape[1] << " by " << down << ", " << right);
        Tensor x = numbers_of(dtype, shape);
        expect_equal(roll(x, {down, right}, {0, 1}), rolled(grid(x), down, right));
      }
  EXPECT_EQ(roll(zeros({0, 5}), {1, 2}, {0, 1}).shape(), (Dims{0, 5}));
}

TEST(Parts, paddings_of_both_axes) {
  for (PadMode mode : {PadMode::Reflect, PadMode::Circular, PadMode::Replicate, PadMode::Symmetric})
    for (DType dtype : {kF32, kBF16, kU8})
      for (Dims shape : {Dims{4, 5}, Dims{9, 200}, Dims{70, 33}}) {
        Tensor x = numbers_of(dtype, shape);
        Grid g = grid(x);
        std::vector<double> want;
        for (int64_t r = -3; r < g.rows + 1; ++r)
          for (int64_t c = -2; c < g.columns + 3; ++c)
            want.push_back(g.at(source(mode, r, g.rows), source(mode, c, g.columns)));
        expect_equal(pad(x, {{3, 1}, {2, 3}}, mode), want);
      }
}

TEST(Parts, reductions_of_rolled_and_padded_values) {
  Tensor x = noise_tensor({37, 300}, 4);
  std::vector<double> moved = rolled(grid(x), 2, -7);
  std::vector<double> rows(37, 0), columns(300, 0);
  for (size_t i = 0; i < moved.size(); ++i) {
    rows[i / 300] += moved[i] * static_cast<double>(i % 300);
    columns[i % 300] += moved[i] * static_cast<double>(i / 300);
  }
  Tensor y = roll(x, {2, -7}, {0, 1});
  expect_close(sum(y * arange(300, kF32), 1), rows, 2e-4);
  expect_close(sum(y * arange(37, kF32).reshape({37, 1}), 0), columns, 2e-4);
  expect_close(sum(pad(x, {{5, 6}, {7, 8}})), {doubles(sum(x))[0]}, 1e-4);
  Tensor w = noise_tensor({300, 9}, 5);
  expect_close(matmul(y, w), doubles(matmul(y.realize(), w)), 1e-4);
}

Tensor heat_step(const Tensor& u) {
  Tensor around = roll(u, {1}, {0}) + roll(u, {-1}, {0}) + roll(u, {1}, {1}) + roll(u, {-1}, {1});
  return u + 0.1f * (around - 4 * u);
}

TEST(Parts, a_stencil_of_a_stencil_reads_the_first_one_from_memory) {
  Tensor u = noise_tensor({200, 300}, 6).realize();
  Tensor once = heat_step(u).realize();
  Tensor want = heat_step(once).realize();
  StatsSince stats;
  Tensor twice = heat_step(heat_step(u)).realize();
  EXPECT_EQ(stats->launches, 2u);
  expect_close(twice, doubles(want), 1e-6);
}

TEST(Parts, a_cheap_value_that_is_seen_twice_is_computed_twice) {
  Tensor x = noise_tensor({1000, 300}, 7).realize();
  StatsSince stats;
  Tensor y = x * 2;
  (slice(y, 1, 1) - slice(y, 1, 0, -1)).realize();
  EXPECT_EQ(stats->launches, 1u);
}

// Rows with numbers of their own.
std::vector<Tensor> rows(int count, int64_t size, DType dtype = kF32) {
  std::vector<Tensor> result;
  for (int i = 0; i < count; ++i)
    result.push_back(cast(noise_tensor({size}, static_cast<uint64_t>(i) + 10) * 9, dtype).realize());
  return result;
}

TEST(Parts, many_rows_are_one_launch) {
  for (DType dtype : {kF32, kF16, kI64, kBool})
    for (int count : {9, 33, 100}) {
      std::vector<Tensor> parts = rows(count, 700, dtype);
      std::vector<double> want;
      for (const Tensor& part : parts)
        for (double v : doubles(part)) want.push_back(v);
      StatsSince stats;
      Tensor joined = stack(parts).realize();
      EXPECT_EQ(stats->launches, 1u);
      expect_equal(joined, want);
      std::vector<double> transposed;
      for (size_t c = 0; c < 700; ++c)
        for (size_t r = 0; r < parts.size(); ++r) transposed.push_back(want[r * 700 + c]);
      expect_equal(stack(parts, 1), transposed);
    }
}

TEST(Parts, of_many_sizes_and_kinds) {
  Tensor x = noise_tensor({40, 70}, 8).realize(), y = noise_tensor({40, 70}, 9).realize();
  for (int64_t axis : {0, 1}) {
    std::vector<Tensor> parts, kept;
    for (int64_t i = 0; i < 40; ++i) {
      Tensor part = slice(i % 3 ? x : y, axis, i % 7, i % 7 + i % 5);  // some are empty
      if (i % 4 == 1) part = part * 2 + 1;
      if (i % 4 == 2) part = sum(part.reshape({part.size(0), part.size(1), 1}) * full({1, 1, 3}, 2), 2);
      if (i % 11 == 3) part = pad(part, {{0, 0}, {0, 0}}) + cumsum(part, static_cast<int64_t>(1 - axis));
      if (i % 11 == 4) part = zeros_like(part);
      parts.push_back(part);
      kept.push_back(clone(part).realize());
    }
    Tensor want = cat(kept, axis).realize();
    expect_close(cat(parts, axis), doubles(want), 1e-6);
    std::vector<double> host;
    if (axis == 0) {
      for (const Tensor& part : kept)
        for (double v : doubles(part)) host.push_back(v);
      expect_equal(want, host);
    }
  }
}

TEST(Parts, of_parts_and_what_is_made_of_them) {
  std::vector<Tensor> parts = rows(50, 64);
  Tensor joined = stack(parts);
  Tensor plain = stack(rows(50, 64)).realize();
  expect_close(sum(joined * 2, 0), doubles(sum(plain * 2, 0)), 1e-5);
  expect_close(softmax(joined, 1), doubles(softmax(plain, 1)), 1e-6);
  Tensor w = noise_tensor({64, 33}, 5);
  expect_close(matmul(joined, w), doubles(matmul(plain, w)), 1e-4);
  expect_close(matmul(w.transpose(), joined.transpose()), doubles(matmul(w.transpose(), plain.transpose())), 1e-4);
  std::vector<Tensor> again;
  for (int i = 0; i < 12; ++i) again.push_back(roll(joined, {i}, {0}) + i);
  std::vector<Tensor> expected;
  for (int i = 0; i < 12; ++i) expected.push_back((roll(plain, {i}, {0}) + i).realize());
  expect_close(cat(again, 1), doubles(cat(expected, 1)), 1e-6);
}

TEST(Parts, few_numbers_are_chosen_where_they_are_used) {
  std::vector<Tensor> parts;
  for (int i = 0; i < 16; ++i) parts.push_back(full({}, i).realize());
  StatsSince stats;
  Tensor y = (stack(parts) * 2).realize();
  EXPECT_EQ(stats->launches, 1u);
  EXPECT_EQ(doubles(y)[15], 30);
}

TEST(Parts, symbolic_sizes) {
  Dim n = dim("n", 1, 4096);
  for (int64_t size : {1, 5, 130}) {
    std::vector<Tensor> parts, plain;
    for (int i = 0; i < 20; ++i) {
      Tensor x = noise_tensor({3, size}, static_cast<uint64_t>(i) + 1);
      plain.push_back(x * i);
      parts.push_back(x.with_dim(1, n) * i);
    }
    for (int64_t axis : {0, 1}) expect_equal(cat(parts, axis), doubles(cat(plain, axis)));
    expect_equal(stack(parts, 1), doubles(stack(plain, 1)));
  }
}

TEST(Parts, replayed_with_other_rows) {
  auto joined = jit([](const std::vector<Tensor>& parts) { return stack(parts) + 1; });
  for (int round = 0; round < 3; ++round) {
    std::vector<Tensor> parts;
    for (int i = 0; i < 40; ++i) parts.push_back(full({300}, i + 100 * round).realize());
    std::vector<double> got = doubles(joined(parts));
    for (size_t i = 0; i < 40; ++i) EXPECT_EQ(got[i * 300 + 7], static_cast<double>(i + 1) + 100 * round);
  }
}

TEST(Parts, an_update_made_of_parts_of_the_old_value) {
  Tensor x = noise_tensor({24, 500}, 3).realize();
  std::vector<double> before = doubles(x), want;
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < 24; ++i) {
    parts.push_back(slice(x, 0, 23 - i, 24 - i));
    for (size_t c = 0; c < 500; ++c) want.push_back(before[static_cast<size_t>(23 - i) * 500 + c]);
  }
  x = cat(parts, 0);
  expect_equal(x, want);
}

TEST(Parts, gradients_of_slices_are_put_together) {
  Tensor x = noise_tensor({30, 200}, 2).realize();
  auto f = [](const Tensor& given) {
    Tensor total = zeros({200});
    for (int64_t i = 0; i < given.size(0); ++i) total = tanh(total + select(given, 0, i) * static_cast<double>(i + 1));
    return sum(total);
  };
  Tensor got = grad(f)(x).realize();
  // The same with a mask in place of each slice.
  auto masked = [](const Tensor& given) {
    Tensor total = zeros({200});
    for (int64_t i = 0; i < given.size(0); ++i)
      total = tanh(total + sum(where((arange(30) == i).reshape({30, 1}), given, 0), 0) * static_cast<double>(i + 1));
    return sum(total);
  };
  expect_close(got, doubles(grad(masked)(x)), 1e-5);
}

TEST(Parts, the_gradient_of_a_weight_that_is_used_many_times_is_one_product) {
  for (int uses : {2, 5, 20}) {
    Tensor w = noise_tensor({24, 40}, 1).realize();
    std::vector<Tensor> x;
    for (int t = 0; t < uses; ++t) x.push_back(noise_tensor({6, 24}, static_cast<uint64_t>(t) + 2).realize());
    auto loss = [&](const Tensor& weight) {
      Tensor total = zeros({});
      for (int t = 0; t < uses; ++t) total = total + sum(square(matmul(x[static_cast<size_t>(t)], weight)));
      return total;
    };
    Tensor want = zeros({24, 40});
    for (const Tensor& part : x)
      want = (want + 2 * matmul(part.transpose(), matmul(part, w).realize()).realize()).realize();
    expect_close(grad(loss)(w), doubles(want), 2e-5);
  }
  // Of numbers that are exact in any order, and along several axes.
  std::vector<Tensor> a, b;
  Tensor want = zeros({4, 5}, kI32), chain = zeros({3, 2, 4, 5}, kI32);
  for (int t = 0; t < 6; ++t) {
    a.push_back(cast(noise_tensor({3, 2, 4, 1}, static_cast<uint64_t>(t) + 1) * 10, kI32).realize());
    b.push_back(cast(noise_tensor({3, 2, 1, 5}, static_cast<uint64_t>(t) + 50) * 10, kI32).realize());
    Tensor product = t % 2 ? a.back() * b.back() : b.back() * a.back();
    chain = t == 0 ? product : chain + product;
    want = (want + sum((a.back() * b.back()).realize(), {0, 1})).realize();
  }
  expect_equal(sum(chain, {0, 1}), doubles(want));
}

TEST(Parts, sums_of_pads_keep_signs_of_zeros_and_orders) {
  Tensor a = full({3, 4}, -0.0).realize(), b = noise_tensor({2, 4}, 1), base = full({9, 4}, -0.0).realize();
  auto at = [](const Tensor& x, int64_t before, int64_t after) { return pad(x, {{before, after}, {0, 0}}); };
  Tensor y = base + at(a, 1, 5) + at(b, 6, 1);
  std::vector<double> got = doubles(y), values = doubles(b);
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i], i / 4 == 6 || i / 4 == 7 ? values[i - 24] : 0);
    EXPECT_FALSE(got[i] == 0 && std::signbit(got[i])) << i;
  }
  Tensor over = at(b, 0, 7) + at(b, 1, 6);  // rows that overlap
  EXPECT_EQ(doubles(over)[4], static_cast<double>(static_cast<float>(values[4]) + static_cast<float>(values[0])));
}

}  // namespace
}  // namespace heddle
