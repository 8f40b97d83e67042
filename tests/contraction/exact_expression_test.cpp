// Large products with what stands around them, exact to the last bit: sizes that take several blocks of every loop, for
// which the evaluator would take too long.
#include <array>
#include <functional>

#include "base/error.h"
#include "exact.h"

namespace heddle {
namespace {

using namespace testing;

// Rows for every thread and every block, columns that are no multiple of a vector; and one that is all multiples.
constexpr std::array<int64_t, 3> kSizes[] = {{517, 301, 419}, {384, 256, 512}, {16, 600, 1031}, {1031, 600, 16}};

struct Case {
  explicit Case(const std::array<int64_t, 3>& sizes)
      : m(sizes[0]),
        k(sizes[1]),
        n(sizes[2]),
        a{1, m, k, 10},
        b{1, k, n, 20},
        other{1, m, n, 30},
        want(exact_product(a, b)) {}
  // What each element becomes.
  std::vector<double> each(const std::function<double(int64_t i, int64_t j, double c)>& f) const {
    std::vector<double> result(want.size());
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) result[at(i, j)] = f(i, j, want[at(i, j)]);
    return result;
  }
  size_t at(int64_t i, int64_t j) const { return static_cast<size_t>(i * n + j); }
  double other_at(int64_t i, int64_t j) const {
    return other.left(0, 0, i) * other.right(0, 0, j) + other.left(1, 0, i) * other.right(1, 0, j);
  }
  int64_t m, k, n;
  LowRank a, b, other;
  std::vector<double> want;
};

double row_number(int64_t j) { return static_cast<double>(j % 13 - 6); }
Tensor row(int64_t n) { return (arange(n) % 13 - 6).cast(kF32).realize(); }

TEST(ExactExpression, after_the_product) {
  for (const auto& sizes : kSizes) {
    Case c(sizes);
    SCOPED_TRACE(text(c.m, "x", c.k, "x", c.n));
    Tensor a = c.a.tensor(kF32), b = c.b.tensor(kF32), other = c.other.tensor(kF32), bias = row(c.n);
    Tensor scale = row(c.m).reshape(c.m, 1);
    expect_exact(relu(matmul(a, b) + bias),
                 c.each([](int64_t, int64_t j, double x) { return std::max(x + row_number(j), 0.0); }));
    expect_exact(matmul(a, b) * 2 + other,
                 c.each([&](int64_t i, int64_t j, double x) { return x * 2 + c.other_at(i, j); }));
    expect_exact(where(matmul(a, b) > 0, other, bias),
                 c.each([&](int64_t i, int64_t j, double x) { return x > 0 ? c.other_at(i, j) : row_number(j); }));
    expect_exact(matmul(a, b) * scale, c.each([](int64_t i, int64_t, double x) { return x * row_number(i); }));
    expect_exact(matmul(a, b).cast(kBF16), c.want);
    std::vector<double> transposed(c.want.size());
    for (int64_t i = 0; i < c.m; ++i)
      for (int64_t j = 0; j < c.n; ++j) transposed[static_cast<size_t>(j * c.m + i)] = c.want[c.at(i, j)];
    expect_exact(matmul(a, b).transpose(), transposed);
  }
}

TEST(ExactExpression, reductions_of_the_product) {
  for (const auto& sizes : kSizes) {
    Case c(sizes);
    SCOPED_TRACE(text(c.m, "x", c.k, "x", c.n));
    Tensor a = c.a.tensor(kF32), b = c.b.tensor(kF32), bias = row(c.n);
    std::vector<double> rows(static_cast<size_t>(c.m)), columns(static_cast<size_t>(c.n));
    std::vector<double> largest(static_cast<size_t>(c.m), -1e30);
    for (int64_t i = 0; i < c.m; ++i)
      for (int64_t j = 0; j < c.n; ++j) {
        double x = c.want[c.at(i, j)];
        rows[static_cast<size_t>(i)] += x;
        columns[static_cast<size_t>(j)] += x;
        largest[static_cast<size_t>(i)] = std::max(largest[static_cast<size_t>(i)], x + row_number(j));
      }
    expect_exact(sum(matmul(a, b), {1}), rows);
    expect_exact(sum(matmul(a, b), {0}), columns);
    expect_exact(max(matmul(a, b) + bias, {1}), largest);
    // The product itself is wanted as well.
    Tensor product = matmul(a, b), sums = sum(product, {1});
    realize(std::vector<Tensor>{product, sums});
    expect_exact(product, c.want);
    expect_exact(sums, rows);
  }
}

TEST(ExactExpression, before_the_product) {
  for (const auto& sizes : kSizes) {
    Case c(sizes);
    SCOPED_TRACE(text(c.m, "x", c.k, "x", c.n));
    Tensor a = c.a.tensor(kF32), b = c.b.tensor(kF32), a16 = c.a.tensor(kBF16), b16 = c.b.tensor(kBF16);
    std::vector<double> doubled = c.each([](int64_t, int64_t, double x) { return x * 2; });
    expect_exact(matmul(a * 2, b), doubled);
    expect_exact(matmul(a, b + b), doubled);
    expect_exact(matmul(a16.cast(kF32), b16.cast(kF32)), c.want);
    expect_exact(matmul(a, b16.cast(kF32)), c.want);
    expect_exact(matmul(a, c.b.tensor(kI8).cast(kF32)), c.want);
    expect_exact(matmul(a * row(c.m).reshape(c.m, 1), b),
                 c.each([](int64_t i, int64_t, double x) { return x * row_number(i); }));
    // Rows by index: backwards, and every third one again and again.
    Tensor index = (floordiv(c.m - 1 - arange(c.m), 3) * 3).realize();
    expect_exact(matmul(gather(a, index), b),
                 c.each([&](int64_t i, int64_t j, double) { return c.want[c.at((c.m - 1 - i) / 3 * 3, j)]; }));
    // A part of a larger matrix: rows are further apart than they are long.
    expect_exact(matmul(slice(cat({a, a}, 1).realize(), 1, 0, c.k), slice(cat({b, b}, 1).realize(), 1, c.n)), c.want);
    // Guarded: zeros around what there is.
    expect_exact(matmul(pad(a, {{0, 0}, {2, 5}}), pad(b, {{2, 5}, {0, 0}})), c.want);
  }
}

// grad of sum(w * (a b)): for a it is w times b transposed, for b a transposed times w.
TEST(ExactExpression, gradients) {
  for (const auto& sizes : kSizes) {
    Case c(sizes);
    SCOPED_TRACE(text(c.m, "x", c.k, "x", c.n));
    Tensor a = c.a.tensor(kF32).requires_grad_(), b = c.b.tensor(kF32).requires_grad_(), w = c.other.tensor(kF32);
    std::vector<Tensor> slopes = grad(sum(matmul(a, b) * w), {a, b});
    auto product = [](int64_t rows, int64_t inner, int64_t columns, auto left, auto right) {
      std::vector<double> result(static_cast<size_t>(rows * columns));
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t l = 0; l < inner; ++l) {
          double factor = left(i, l);
          for (int64_t j = 0; j < columns; ++j) result[static_cast<size_t>(i * columns + j)] += factor * right(l, j);
        }
      return result;
    };
    std::vector<double> av = a.to_vector<double>(), bv = b.to_vector<double>(), wv = w.to_vector<double>();
    auto at = [](const std::vector<double>& x, int64_t columns) {
      return [&x, columns](int64_t i, int64_t j) { return x[static_cast<size_t>(i * columns + j)]; };
    };
    auto transposed = [](const std::vector<double>& x, int64_t columns) {
      return [&x, columns](int64_t i, int64_t j) { return x[static_cast<size_t>(j * columns + i)]; };
    };
    expect_exact(slopes[0], product(c.m, c.n, c.k, at(wv, c.n), transposed(bv, c.n)));
    expect_exact(slopes[1], product(c.k, c.m, c.n, transposed(av, c.k), at(wv, c.n)));
  }
}

// Captured, called again and again: what one call leaves in memory must not matter to the next.
TEST(ExactExpression, captured_calls_in_turns) {
  auto multiply = jit([](Tensor x, Tensor y) { return relu(matmul(x, y)); });
  for (int turn = 0; turn < 3; ++turn)
    for (const auto& sizes : kSizes) {
      Case c(sizes);
      SCOPED_TRACE(text(c.m, "x", c.k, "x", c.n, ", turn ", turn));
      Tensor result = multiply(c.a.tensor(kF32), c.b.tensor(kF32));
      expect_exact(result, c.each([](int64_t, int64_t, double x) { return std::max(x, 0.0); }));
    }
}

}  // namespace
}  // namespace heddle
