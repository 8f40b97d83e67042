// Large products with a fast and exact reference. A factor is a sum of two outer products of small whole numbers
// without a pattern,
//
//   a[i, l] = p0(i) q0(l) + p1(i) q1(l),   b[l, j] = x0(l) y0(j) + x1(l) y1(j),
//
// so that the product costs four operations an element, whatever k is:
//
//   c[i, j] = sum over r, s of p_r(i) (q_r . x_s) y_s(j).
//
// All sums are whole numbers below 2^24, hence exact in every order: a result is right to the last bit or wrong. A term
// too few, too many or met by the wrong partner changes it.
#pragma once

#include <gtest/gtest.h>
#include <heddle/heddle.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/scalar.h"

namespace heddle::testing {

// A whole number of [-2, 2] for each key.
inline double small_number(uint64_t salt, int64_t z, int64_t i) {
  uint64_t h = salt * 0x9e3779b97f4a7c15ull + static_cast<uint64_t>(z) * 0xc2b2ae3d27d4eb4full +
               static_cast<uint64_t>(i) * 0x165667b19e3779f9ull;
  h = (h ^ (h >> 32)) * 0xd6e8feb86659fd93ull;
  h = (h ^ (h >> 29)) * 0xd6e8feb86659fd93ull;
  return static_cast<double>((h >> 40) % 5) - 2;
}

// A batch of matrices of rank two.
struct LowRank {
  int64_t batch, rows, columns;
  uint64_t salt;
  double left(int r, int64_t z, int64_t i) const { return small_number(salt + static_cast<uint64_t>(r), z, i); }
  double right(int r, int64_t z, int64_t j) const { return small_number(salt + 2 + static_cast<uint64_t>(r), z, j); }

  // Element by element; `transposed` stores columns x rows. Batches of one have no axis for it.
  Tensor tensor(DType dtype, bool transposed = false) const {
    std::vector<float> values(static_cast<size_t>(batch * rows * columns));
    for (int64_t z = 0; z < batch; ++z) {
      std::vector<float> l[2], r[2];
      for (int rank = 0; rank < 2; ++rank) {
        for (int64_t i = 0; i < rows; ++i) l[rank].push_back(static_cast<float>(left(rank, z, i)));
        for (int64_t j = 0; j < columns; ++j) r[rank].push_back(static_cast<float>(right(rank, z, j)));
      }
      float* to = values.data() + z * rows * columns;
      const auto& outer = transposed ? r : l;
      const auto& inner = transposed ? l : r;
      for (size_t i = 0; i < outer[0].size(); ++i)
        for (size_t j = 0; j < inner[0].size(); ++j) *to++ = outer[0][i] * inner[0][j] + outer[1][i] * inner[1][j];
    }
    int64_t m = transposed ? columns : rows, n = transposed ? rows : columns;
    Tensor x = from_vector(values, batch > 1 ? Dims{batch, m, n} : Dims{m, n});
    return dtype == kF32 ? x.realize() : x.cast(dtype).realize();
  }
};

// The product of two of them. A batch of one is used for all of the other's.
inline std::vector<double> exact_product(const LowRank& a, const LowRank& b) {
  int64_t batch = std::max(a.batch, b.batch), m = a.rows, n = b.columns;
  std::vector<double> c(static_cast<size_t>(batch * m * n));
  for (int64_t z = 0; z < batch; ++z) {
    int64_t za = a.batch > 1 ? z : 0, zb = b.batch > 1 ? z : 0;
    double inner[2][2] = {};
    for (int64_t l = 0; l < a.columns; ++l)
      for (int r = 0; r < 2; ++r)
        for (int s = 0; s < 2; ++s) inner[r][s] += a.right(r, za, l) * b.left(s, zb, l);
    std::vector<double> y[2];
    for (int s = 0; s < 2; ++s)
      for (int64_t j = 0; j < n; ++j) y[s].push_back(b.right(s, zb, j));
    for (int64_t i = 0; i < m; ++i) {
      double p[2] = {a.left(0, za, i), a.left(1, za, i)};
      double f0 = p[0] * inner[0][0] + p[1] * inner[1][0], f1 = p[0] * inner[0][1] + p[1] * inner[1][1];
      double* row = c.data() + (z * m + i) * n;
      for (int64_t j = 0; j < n; ++j) row[j] = f0 * y[0][static_cast<size_t>(j)] + f1 * y[1][static_cast<size_t>(j)];
    }
  }
  return c;
}

// Every element is the one wanted, rounded to the dtype. Says which elements differ: the first, the last, how many.
inline void expect_exact(const Tensor& result, const std::vector<double>& want) {
  DType dtype = result.dtype();
  std::vector<double> got = result.to_vector<double>();
  ASSERT_EQ(got.size(), want.size());
  size_t wrong = 0, first = 0, last = 0;
  for (size_t e = 0; e < want.size(); ++e) {
    double right = dtype == kF32 || dtype == kF64 || is_integer(dtype) ? want[e] : Scalar::of(dtype, want[e]).f;
    if (got[e] == right) continue;
    if (wrong++ == 0) first = e;
    last = e;
  }
  if (wrong == 0) return;
  auto position = [&](size_t element) {
    std::string text;
    Dims shape = result.shape();
    auto rest = static_cast<int64_t>(element);
    for (size_t axis = shape.size(); axis-- > 0; rest /= shape[axis])
      text = std::to_string(rest % shape[axis]) + (text.empty() ? "" : ", ") + text;
    return "[" + text + "]";
  };
  ADD_FAILURE() << wrong << " of " << want.size() << " elements are wrong, from " << position(first) << " to "
                << position(last) << "; the first is " << got[first] << " instead of " << want[first];
}

}  // namespace heddle::testing
