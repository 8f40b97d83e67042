// What a value was computed from is known whatever became of the computation: constants that were folded, parts that
// have no elements, sides that were not taken.
#include "tensor/helpers.h"

namespace heddle {
namespace {

using testing::doubles;
using testing::expect_error;
using Values = std::vector<double>;

// The gradient of every operand of f is zero, and none is missing.
void expect_zeros(const char* what, const std::vector<Dims>& shapes,
                  const std::function<Tensor(const TensorList&)>& f) {
  TensorList x;
  for (const Dims& shape : shapes) x.push_back(full(shape, 2.).requires_grad_());
  TensorList gradients;
  ASSERT_NO_THROW(gradients = grad(sum(f(x)), x)) << what;
  ASSERT_NO_THROW(sum(f(x)).backward()) << what;
  for (size_t i = 0; i < x.size(); ++i) {
    Values zeros(static_cast<size_t>(x[i].numel()), 0);
    EXPECT_EQ(gradients[i].shape(), x[i].shape()) << what;
    EXPECT_EQ(doubles(gradients[i]), zeros) << what << ", operand " << i;
    ASSERT_TRUE(x[i].grad()) << what << ", operand " << i;
    EXPECT_EQ(doubles(*x[i].grad()), zeros) << what << ", operand " << i;
  }
}

TEST(Dependence, outlives_parts_without_elements) {
  expect_zeros("matmul of no rows", {{3, 2}}, [](const TensorList& x) { return matmul(zeros({0, 3}), x[0]); });
  expect_zeros("matmul over nothing", {{2, 0}, {0, 3}}, [](const TensorList& x) { return matmul(x[0], x[1]); });
  expect_zeros("slice", {{4}}, [](const TensorList& x) { return slice(x[0], 0, 1, 1); });
  expect_zeros("sum over nothing", {{2, 0}}, [](const TensorList& x) { return sum(x[0], 1); });
  expect_zeros("gather", {{3}}, [](const TensorList& x) { return take(x[0], zeros({0}, kI64), 0); });
  expect_zeros("take_along_axis", {{3, 2}},
               [](const TensorList& x) { return take_along_axis(x[0], zeros({0, 2}, kI64), 0); });
  expect_zeros("masked_select", {{3}}, [](const TensorList& x) { return masked_select(x[0], x[0] > 5); });
  expect_zeros("expand", {{1, 2}}, [](const TensorList& x) { return expand(x[0], {0, 2}); });
  expect_zeros("pad", {{0}}, [](const TensorList& x) { return pad(x[0], {{1, 1}}); });
  expect_zeros("a slice of padding", {{2}}, [](const TensorList& x) { return slice(pad(x[0], {{3, 0}}), 0, 0, 2); });
  expect_zeros("as_strided", {{4}}, [](const TensorList& x) { return as_strided(x[0], {0, 2}, {1, 1}); });
  expect_zeros("layer_norm", {{0, 3}, {3}, {3}}, [](const TensorList& x) { return layer_norm(x[0], x[1], x[2]); });
  expect_zeros("softmax", {{0, 3}}, [](const TensorList& x) { return softmax(x[0], 1); });
  expect_zeros("sort", {{0}}, [](const TensorList& x) { return sort(x[0]).values; });
  expect_zeros("convolution of no examples", {{0, 2, 5}, {3, 2, 3}},
               [](const TensorList& x) { return conv1d(x[0], x[1]); });
}

TEST(Dependence, outlives_what_is_left_out) {
  auto plain = full({2}, 1.);
  expect_zeros("cat", {{0}}, [&](const TensorList& x) { return cat({x[0], plain}); });
  expect_zeros("cat of several", {{0}, {0}}, [&](const TensorList& x) { return cat({plain, x[0], plain * 2, x[1]}); });
  expect_zeros("scatter", {{0}}, [&](const TensorList& x) { return scatter(plain, 0, zeros({0}, kI64), x[0]); });
  expect_zeros("update_slice", {{0}}, [&](const TensorList& x) { return update_slice(plain, x[0], {1}); });
  expect_zeros("another part of a cat", {{3}}, [&](const TensorList& x) { return slice(cat({plain, x[0]}), 0, 0, 2); });
}

TEST(Dependence, outlives_constants) {
  auto plain = full({2}, 1.);
  expect_zeros("power 0", {{2}}, [](const TensorList& x) { return pow(x[0], 0); });
  expect_zeros("power of a constant 0", {{2}}, [](const TensorList& x) { return pow(x[0], zeros({2})); });
  expect_zeros("where", {{2}}, [&](const TensorList& x) { return where(full({2}, true, kBool), plain, x[0]); });
  expect_zeros("where not", {{2}}, [&](const TensorList& x) { return where(full({2}, false, kBool), x[0], plain); });
  expect_zeros("where of numbers", {{2}},
               [&](const TensorList& x) { return where(full({2}, false, kBool), x[0], 1.); });
  expect_zeros("copysign", {{2}}, [&](const TensorList& x) { return copysign(plain, x[0]); });
  expect_zeros("dropout of everything", {{2}}, [](const TensorList& x) { return dropout(x[0], 1); });
  expect_zeros("norm 0", {{2}}, [](const TensorList& x) { return norm(x[0], 0); });
}

TEST(Dependence, keeps_gradients_of_the_side_that_counts) {
  Tensor a = tensor({1., 2.}).requires_grad_(), b = tensor({3., 4.}).requires_grad_();
  TensorList g = grad(sum(square(where(full({2}, true, kBool), a, b))), {a, b});
  EXPECT_EQ(doubles(g[0]), (Values{2, 4}));
  EXPECT_EQ(doubles(g[1]), (Values{0, 0}));
  g = grad(sum(square(slice(cat({a, b}), 0, 2, 4))), {a, b});
  EXPECT_EQ(doubles(g[0]), (Values{0, 0}));
  EXPECT_EQ(doubles(g[1]), (Values{6, 8}));
}

TEST(Dependence, keeps_gradients_through_vmap) {
  Tensor x = tensor({{1., 2.}, {3., 4.}}).requires_grad_(), w = tensor({5., 6.});
  const Tensor cut = vmap([&](const Tensor& row) { return slice(cat({row, w}), 0, 0, 2); })(x);
  EXPECT_EQ(doubles(grad(sum(square(cut)), x)), (Values{2, 4, 6, 8}));
  const Tensor chosen = vmap([&](const Tensor& row) { return where(full({2}, true, kBool), row, row * w); })(x);
  EXPECT_EQ(doubles(grad(sum(square(chosen)), x)), (Values{2, 4, 6, 8}));
  Tensor sign = tensor({{1., -1.}, {-1., 1.}}).requires_grad_();
  const Tensor signs = vmap([](const Tensor& a, const Tensor& b) { return copysign(a, b); })(x, sign);
  TensorList g = grad(sum(signs), {x, sign});
  EXPECT_EQ(doubles(g[0]), (Values{1, -1, -1, 1}));
  EXPECT_EQ(doubles(g[1]), (Values{0, 0, 0, 0}));
}

TEST(Dependence, outlives_realising) {
  Tensor x = tensor({1., 2.}).requires_grad_();
  Tensor y = pow(x, 0).realize();
  EXPECT_EQ(doubles(grad(sum(y), x)), (Values{0, 0}));
}

TEST(Dependence, is_known_inside_of_captured_functions) {
  Tensor w = full({3, 2}, 1.).requires_grad_();
  auto step = jit([&](Tensor x) { return grad(sum(matmul(x, w)), w); });
  EXPECT_EQ(doubles(step(zeros({0, 3}))), Values(6, 0));
  EXPECT_EQ(doubles(step(ones({1, 3}))), Values(6, 1));
}

TEST(Dependence, is_not_invented) {
  Tensor x = tensor({1., 2.}).requires_grad_(), other = tensor({3.}).requires_grad_(), plain = tensor({4.});
  expect_error<ValueError>([&] { sum(plain * 2).backward(); }, {"nothing that requires gradients"});
  expect_error<ValueError>([&] { grad(sum(other), x); }, {"does not depend on it"});
  expect_error<ValueError>([&] { grad(sum(pow(other, 0)), x); }, {"does not depend on it"});
  expect_error<ValueError>([&] { grad(sum(cast(x > 1, kF32)), x); }, {"has no gradient"});
}

}  // namespace
}  // namespace heddle
