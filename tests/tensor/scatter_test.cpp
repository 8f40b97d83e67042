// Writing elements by index.
#include <algorithm>

#include "tensor/helpers.h"

namespace heddle {
namespace {

using namespace testing;

Tensor ids(const std::vector<int64_t>& values, const Dims& shape) { return from_vector(values, shape); }

// Indices below n without a pattern, the same every time.
std::vector<int64_t> places(int64_t count, int64_t n, uint64_t seed = 5) {
  std::vector<int64_t> result;
  for (float v : noise(count, seed)) result.push_back(static_cast<int64_t>((v + 2) * 0.25 * static_cast<double>(n)));
  return result;
}

TEST(Scatter, the_last_of_equal_indices_wins) {
  expect_equal(scatter(zeros({4}), 0, ids({2, 0, 2}, {3}), tensor({5, 6, 7})), {6, 0, 7, 0});
  expect_equal(scatter(counting({2, 3}), 1, ids({-1, 0, 2, 2}, {2, 2}), tensor({5, 6, 7, 8}).reshape({2, 2})),
               {6, 1, 5, 3, 4, 8});
  expect_equal(scatter(zeros({3}, kBool), 0, ids({1}, {1}), true), {0, 1, 0});
}

TEST(Scatter, a_shorter_index_leaves_the_rest) {
  expect_equal(scatter(zeros({3, 3}), 0, ids({2, 1}, {1, 2}), 9), {0, 0, 0, 0, 9, 0, 9, 0, 0});
}

TEST(Scatter, without_updates_is_the_base) {
  expect_equal(scatter(counting({3}), 0, zeros({0}, kI64), zeros({0})), {0, 1, 2});
}

TEST(ScatterAdd, many_updates_of_few_places) {
  const int64_t count = 50000;
  std::vector<int64_t> at = places(count, 9);
  const std::vector<float> rows = noise(count * 3, 2);
  std::vector<double> want(27);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < 3; ++j) want[static_cast<size_t>(at[i] * 3 + j)] += rows[static_cast<size_t>(i * 3 + j)];
    if (i % 3 == 0) at[static_cast<size_t>(i)] -= 9;  // the same place, counted from the end
  }
  const Tensor index = ids(at, {count}), source = from_vector(rows, {count, 3});
  expect_close(index_add(zeros({9, 3}), 0, index, source), want, 1e-4);
  expect_close(index_add(zeros({9, 3}, kF64), 0, index, source.to(kF64)), want, 1e-12);
  // An index that is computed, and one that is out of range behind many others.
  expect_close(index_add(zeros({9, 3}), 0, where(ge(index, 0), index + 0, index + 9), source), want, 1e-4);
  const Tensor wrong = cat({index, ids({9}, {1})});
  expect_error<IndexError>([&] { index_add(zeros({9, 3}), 0, wrong, ones({count + 1, 3})).realize(); }, {"9"});
  const Tensor computed = where(lt(wrong, 0), wrong + 9, wrong * 2 - wrong);
  expect_error<IndexError>([&] { index_add(zeros({9}), 0, computed, ones({count + 1})).realize(); }, {"9"});
}

TEST(ScatterAdd, adds_up_in_every_dtype) {
  for (DType dtype : {kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64, kF16, kBF16, kF32, kF64}) {
    Tensor x = scatter_add(ones({3}, dtype), 0, ids({2, 2, 0}, {3}), tensor({5, 6, 7}, dtype));
    EXPECT_EQ(x.dtype(), dtype);
    expect_equal(x, {8, 1, 12});
  }
  expect_equal(scatter_add(zeros({2}, kBool), 0, ids({1, 1}, {2}), ones({2}, kBool)), {0, 1});
  expect_equal(scatter_add(zeros({1}, kU8), 0, ids({0, 0}, {2}), tensor({200, 100}, kU8)), {44});  // wraps
}

TEST(ScatterAdd, rounds_small_floats_at_every_step) {
  // 2048 + 1 is 2048 in f16, as often as it is done.
  Tensor x =
      scatter_add(full({1}, 2048, kF16), 0, zeros({8}, kI64) + ids({0, 0, 0, 0, 0, 0, 0, 0}, {8}), ones({8}, kF16));
  expect_equal(x, {2048});
  expect_equal(index_add(zeros({1}, kF16), 0, zeros({100000}, kI64), ones({100000}, kF16)), {2048});
}

TEST(ScatterReduce, knows_the_reductions_of_pytorch) {
  Tensor x = tensor({1, 2, 3}), at = ids({1, 1, 2}, {3}), u = tensor({5, 6, -7});
  expect_equal(scatter_reduce(x, 0, at, u, "sum"), {1, 13, -4});
  expect_equal(scatter_reduce(x, 0, at, u, "prod"), {1, 60, -21});
  expect_equal(scatter_reduce(x, 0, at, u, "amax"), {1, 6, 3});
  expect_equal(scatter_reduce(x, 0, at, u, "amin"), {1, 2, -7});
  expect_close(scatter_reduce(x, 0, at, u, "mean"), {1, 13.0 / 3, -2});
  expect_equal(scatter_reduce(x, 0, at, u, "sum", false), {1, 11, -7});
  expect_equal(scatter_reduce(x, 0, at, u, "amax", false), {1, 6, -7});
  expect_equal(scatter_reduce(x, 0, at, u, "mean", false), {1, 5.5, -7});
  expect_error<ValueError>([&] { scatter_reduce(x, 0, at, u, "median"); }, {"scatter_reduce", "median"});
  Tensor nan = scatter_reduce(x, 0, ids({0, 0}, {2}), tensor({NAN, 9}), "amax");
  EXPECT_TRUE(std::isnan(nan.to_vector<float>()[0]));
}

TEST(IndexAdd, adds_slices_along_any_axis) {
  Tensor x = zeros({2, 3});
  expect_equal(index_add(x, 1, ids({2, 0, 2}, {3}), counting({2, 3})), {1, 0, 2, 4, 0, 8});
  expect_equal(index_add(x, -2, ids({1}, {1}), ones({1, 3}), 2.5), {0, 0, 0, 2.5, 2.5, 2.5});
  expect_equal(index_copy(counting({2, 3}), 0, ids({-1}, {1}), tensor({7, 8, 9})), {0, 1, 2, 7, 8, 9});
}

TEST(IndexPut, writes_where_index_reads) {
  Tensor x = counting({3, 4}), i = ids({0, 2, 0}, {3}), j = ids({-1, 1, 3}, {3});
  expect_equal(index_put(x, {i, j}, tensor({20, 21, 22})), {0, 1, 2, 22, 4, 5, 6, 7, 8, 21, 10, 11});
  expect_equal(index_put(x, {i, j}, 1, true), {0, 1, 2, 5, 4, 5, 6, 7, 8, 10, 10, 11});
  expect_equal(index_put(x, {ids({1}, {1})}, tensor({9, 9, 9, 8})), {0, 1, 2, 3, 9, 9, 9, 8, 8, 9, 10, 11});
  expect_equal(index_put(x, {ids({0, 3}, {2})}, -1, false, 1), {-1, 1, 2, -1, -1, 5, 6, -1, -1, 9, 10, -1});
}

TEST(PutAlongAxis, is_the_opposite_of_take_along_axis) {
  Tensor x = counting({2, 3});
  expect_equal(put_along_axis(x, argmax(x, 1, true), -1, 1), {0, 1, -1, 3, 4, -1});
  expect_equal(put_along_axis(x, ids({1, 0}, {1, 2}), tensor({7, 8}), 1), {8, 7, 2, 8, 7, 5});
}

TEST(UpdateSlice, takes_steps_of_either_sign) {
  expect_equal(update_slice(zeros({6}), tensor({1, 2}), {1}, {3}), {0, 1, 0, 0, 2, 0});
  expect_equal(update_slice(zeros({6}), tensor({1, 2, 3}), {5}, {-2}), {0, 3, 0, 2, 0, 1});
  expect_equal(update_slice(counting({3, 3}), full({2, 1}, 9), {0, 1}, {2, 1}), {0, 9, 2, 3, 4, 5, 6, 9, 8});
  expect_equal(update_slice(counting({4}, kI32), tensor({2.75}), {0}), {2, 1, 2, 3});  // converts as assignment does
  expect_equal(update_slice(counting({3}), zeros({0}), {1}), {0, 1, 2});
  for (auto [begin, step] : std::vector<std::pair<int64_t, int64_t>>{{5, 1}, {-1, 1}, {4, 2}, {0, -1}, {6, 1}})
    expect_error<IndexError>([&, b = begin, s = step] { update_slice(zeros({6}), ones({2}), {b}, {s}); },
                             {"update_slice", "[6]"});
  expect_error<ValueError>([] { update_slice(zeros({6}), ones({2}), {0}, {0}); }, {"update_slice"});
  expect_error<ShapeError>([] { update_slice(zeros({6, 1}), ones({2}), {0}, {1}); }, {"update_slice"});
}

TEST(UpdateSlice, begins_where_data_says) {
  Tensor x = zeros({3, 4}), value = ones({2, 2}), at = ids({1, 2}, {2});
  expect_equal(update_slice(x, value, at), {0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1});
  expect_equal(update_slice(x, value, at * 0), {1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0});
  expect_error<IndexError>([&] { update_slice(x, value, at + 1).realize(); }, {"update_slice"});
}

TEST(MaskedFill, keeps_the_dtype) {
  Tensor x = tensor({1, -2, 3}, kI32);
  Tensor filled = masked_fill(x, x < 0, 7);
  EXPECT_EQ(filled.dtype(), kI32);
  expect_equal(filled, {1, 7, 3});
  expect_error<ValueError>([&] { masked_fill(x, x < 0, 0.5); }, {"masked_fill"});
  expect_error<DTypeError>([&] { masked_fill(x, x, 0); }, {"masked_fill", "bool"});
}

TEST(Scatter, refuses_what_does_not_fit) {
  Tensor x = zeros({3, 4});
  expect_error<ShapeError>([&] { scatter(x, 0, ids({0}, {1}), 1); }, {"scatter", "[3, 4]"});
  expect_error<ShapeError>([&] { scatter(x, 0, zeros({2, 5}, kI64), 1); }, {"scatter", "[2, 5]"});
  expect_error<ShapeError>([&] { index_add(x, 0, ids({0}, {1}), ones({2, 4})); }, {"index_add"});
  expect_error<DTypeError>([&] { scatter_add(zeros({3}, kI32), 0, ids({0}, {1}), ones({1})); }, {"scatter_add", "f32"});
  expect_error<DTypeError>([&] { scatter(x, 0, ones({3, 4}), 1); }, {"scatter", "f32"});
  expect_error<IndexError>([&] { scatter(zeros({3}), 0, full({1}, 3, kI64), 1); }, {"scatter: index 3"});
  expect_error<IndexError>([&] { index_add(x, 2, ids({0}, {1}), ones({1, 4})); }, {"index_add"});
}

TEST(Scatter, reports_an_index_out_of_range) {
  expect_error<IndexError>([] { scatter_add(zeros({3}), 0, ids({2, 3}, {2}), 1.0).realize(); },
                           {"scatter_add: index 3 is out of range for axis 0 of size 3"});
  expect_error<IndexError>([] { index_put(zeros({3, 2}), {ids({0}, {1}), ids({-3}, {1})}, 1).realize(); },
                           {"index_put: index -3 is out of range for axis 1 of size 2"});
}

TEST(Scatter, large_ones_match_a_plain_loop) {
  struct InOrder {
    InOrder() { set_deterministic(true); }
    ~InOrder() { set_deterministic(false); }
  } in_order;
  struct Case {
    int64_t n, updates, width;
  };
  for (Case c : {Case{1000, 50000, 1}, {1000, 5000, 7}, {3, 40000, 2}, {20000, 3000, 64}, {50, 60, 3000}}) {
    SCOPED_TRACE(c.n);
    std::vector<int64_t> at = places(c.updates, c.n);
    std::vector<float> base = noise(c.n * c.width, 2), updates = noise(c.updates * c.width, 3);
    std::vector<float> sum = base, last = base, largest = base;
    for (int64_t m = 0; m < c.updates; ++m)
      for (int64_t d = 0; d < c.width; ++d) {
        size_t to = static_cast<size_t>(at[static_cast<size_t>(m)] * c.width + d);
        float u = updates[static_cast<size_t>(m * c.width + d)];
        sum[to] += u;
        last[to] = u;
        largest[to] = std::max(largest[to], u);
      }
    Tensor x = from_vector(base, {c.n, c.width}), index = ids(at, {c.updates});
    Tensor u = from_vector(updates, {c.updates, c.width});
    EXPECT_EQ(index_add(x, 0, index, u).to_vector<float>(), sum);  // in this order, to the last bit
    EXPECT_EQ(index_copy(x, 0, index, u).to_vector<float>(), last);
    Tensor everywhere = expand(index.reshape({c.updates, 1}), {c.updates, c.width});
    EXPECT_EQ(scatter_reduce(x, 0, everywhere, u, "amax").to_vector<float>(), largest);
    // The same along the other axis.
    Tensor transposed = index_add(x.transpose(), 1, index, u.transpose());
    EXPECT_EQ(transposed.transpose().to_vector<float>(), sum);
    // With an index that really differs from column to column.
    EXPECT_EQ(scatter_add(x, 0, (everywhere * 1).realize(), u).to_vector<float>(), sum);
  }
}

TEST(Scatter, fuses_what_makes_its_operands) {
  Tensor x = counting({100, 8}), i = ids(places(40, 50), {40}), u = noise_tensor({40, 8});
  realize({x, i, u});
  StatsSince stats;
  Tensor y = index_add(x * 2, 0, i * 2, u + 1);
  y.realize();
  EXPECT_EQ(stats->launches, 1u);
  StatsSince again;
  Tensor z = index_add(zeros({100, 8}), 0, i, softmax(u, 1)) + 1;
  z.realize();
  EXPECT_EQ(again->launches, 3u);  // the softmax, the scatter, the sum
}

TEST(Scatter, ties_of_extremes_go_to_the_first_as_in_reductions) {
  Tensor at = zeros({3}, kI64);
  for (const char* how : {"amax", "amin"}) {
    Tensor x = tensor({2.}).requires_grad_(), u = tensor({2., 2., 2.}).requires_grad_();
    TensorList g = grad(sum(scatter_reduce(x, 0, at, u, how)), {x, u});
    expect_equal(g[0], {1});
    expect_equal(g[1], {0, 0, 0});
    g = grad(sum(scatter_reduce(x, 0, at, u, how, false)), {x, u});
    expect_equal(g[0], {0});
    expect_equal(g[1], {1, 0, 0});
    expect_equal(grad(sum(std::string(how) == "amax" ? amax(u) : amin(u)), u), {1, 0, 0});
  }
}

}  // namespace
}  // namespace heddle
