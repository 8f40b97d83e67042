// What stands for an argument must not get out of the function that is being looked at.
#include "helpers.h"

namespace heddle {
namespace {

using namespace testing;

TEST(Leaks, state_assigned_from_a_mapped_value_is_an_error_at_the_call) {
  Tensor s = tensor({7., 8.}).realize(), q = tensor({{1., 2.}, {3., 4.}, {5., 6.}}), k = tensor({10., 20.});
  auto body = [&](const Tensor& x) {
    s.assign(x);
    return x * x;
  };
  auto captured = jit([&](const Tensor& a, const Tensor& b) { return vmap(body)(b) + a; });
  for (int i = 0; i < 3; ++i) {
    expect_error<CaptureError>([&] { vmap(body)(q); }, {"vmap()", "made outside", "f32[2]"});
    expect_error<CaptureError>([&] { captured(k, q); }, {"vmap()", "made outside"});
  }
  expect_equal(s, {7, 8});
}

TEST(Leaks, compound_assignment_and_gradients_of_outside_tensors_leak_too) {
  Tensor s = zeros({2}).realize(), w = tensor({1., 2.}).requires_grad_(), q = tensor({{1., 2.}, {3., 4.}});
  expect_error<CaptureError>(
      [&] {
        vmap([&](const Tensor& x) {
          s += x;
          return x;
        })(q);
      },
      {"made outside"});
  expect_error<CaptureError>(
      [&] {
        vmap([&](const Tensor& x) {
          Tensor y = sum(x * w);
          y.backward();
          return y;
        })(q);
      },
      {"made outside"});
  EXPECT_FALSE(w.grad().has_value());
  expect_equal(s, {0, 0});
}

TEST(Leaks, what_no_example_decides_may_be_assigned) {
  Tensor count = tensor(0.), q = tensor({{1., 2.}, {3., 4.}});
  auto body = [&](const Tensor& x) {
    count += 1;
    return x + count;
  };
  auto captured = jit([&](const Tensor& b) { return vmap(body)(b); });
  expect_equal(vmap(body)(q), {2, 3, 4, 5});
  expect_equal(captured(q), {3, 4, 5, 6});
  expect_equal(captured(q), {4, 5, 6, 7});
  expect_equal(captured(q), {5, 6, 7, 8});
  expect_equal(count, {4});
}

TEST(Leaks, tensors_made_inside_may_be_changed) {
  Tensor q = tensor({{1., 2.}, {3., 4.}});
  auto body = [](const Tensor& x) {
    Tensor total = zeros({2});
    for (int i = 0; i < 3; ++i) total += x;
    Tensor leaf = x.detach();
    leaf.requires_grad_();
    sum(leaf * leaf).backward();
    return total + *leaf.grad();
  };
  auto captured = jit([&](const Tensor& b) { return vmap(body)(b); });
  expect_equal(vmap(body)(q), {5, 10, 15, 20});
  for (int i = 0; i < 3; ++i) expect_equal(captured(q), {5, 10, 15, 20});
  auto plain = jit([&](const Tensor& b) { return body(b[0]); });
  for (int i = 0; i < 3; ++i) expect_equal(plain(q), {5, 10});
  // The argument itself.
  expect_equal(vmap([](const Tensor& x) {
                 x.requires_grad_();
                 sum(x * x * x).backward();
                 return *x.grad();
               })(q),
               {3, 12, 27, 48});
}

TEST(Leaks, nested_functions_may_change_what_the_outer_one_made) {
  Tensor q = tensor({{1., 2.}, {3., 4.}}), outside = tensor(0.);
  auto outer = [&](bool leak) {
    return vmap([&, leak](const Tensor& row) {
      Tensor s = zeros({2});
      Tensor y = vmap([&](const Tensor& x) {
        if (leak)
          outside.assign(x);
        else
          s.assign(row * 2);
        return x + sum(s);
      })(row);
      return y + s;
    })(q);
  };
  expect_equal(outer(false), {9, 12, 23, 26});
  expect_error<CaptureError>([&] { outer(true); }, {"made outside"});
  expect_error<CaptureError>(
      [&] {
        vmap([&](const Tensor& row) {
          Tensor s = tensor(0.);
          Tensor y = vmap([&](const Tensor& x) {
            s.assign(x);
            return x;
          })(row);
          return y + s;
        })(q);
      },
      {"made outside"});
}

TEST(Leaks, a_handle_kept_outside_is_an_error_at_the_call) {
  Tensor q = tensor({{1., 2.}, {3., 4.}}), kept;
  std::vector<Tensor> list;
  auto keeps = [&](const Tensor& x) {
    kept = x * 2;
    return x;
  };
  auto keeps_itself = [&](const Tensor& x) {
    list.push_back(x);
    return x;
  };
  auto captured = jit([&](const Tensor& b) { return vmap(keeps)(b); });
  expect_error<CaptureError>([&] { vmap(keeps)(q); }, {"kept outside", "vmap()"});
  expect_error<CaptureError>([&] { captured(q); }, {"kept outside", "vmap()"});
  expect_error<CaptureError>([&] { vmap(keeps_itself)(q); }, {"kept outside", "vmap()"});
  auto keeps_argument = jit([&](const Tensor& x) {
    list.push_back(x);
    return x + 1;
  });
  expect_error<CaptureError>([&] { keeps_argument(q); }, {"kept outside", "jit()"});
}

TEST(Leaks, an_inner_function_may_not_keep_what_is_the_outer_ones) {
  Tensor q = tensor({{1., 2.}, {3., 4.}}), kept;
  expect_error<CaptureError>(
      [&] {
        vmap([&](const Tensor& row) {
          return vmap([&](const Tensor& x) {
            kept = row * 2;
            return x;
          })(row);
        })(q);
      },
      {"kept outside"});
}

TEST(Leaks, gradient_functions_of_the_users_own_leak_as_well) {
  Tensor seen = zeros({2}).realize(), q = tensor({{1., 2.}, {3., 4.}});
  auto f = custom_vjp([](const TensorList& x) { return x[0] * 2; },
                      [&](const TensorList&, const Tensor&, const Tensor& g) {
                        Tensor twice = g * 2;
                        twice += 0;
                        seen.assign(g);
                        return TensorList{twice};
                      });
  auto loss = [&](const Tensor& x) { return sum(square(f({x}))); };
  expect_equal(grad(loss)(tensor({1., 2.})), {8, 16});
  expect_equal(seen, {4, 8});
  expect_error<CaptureError>([&] { vmap(grad(loss))(q * 1.); }, {"made outside"});
  expect_error<CaptureError>([&] { jacobian([&](const Tensor& x) { return f({x}); }, tensor({1., 2.})); },
                             {"made outside"});
}

// The tensor itself would change while it is recorded, and at no other call.
TEST(Leaks, requires_grad_inside_is_for_what_is_inside) {
  Tensor w = tensor({1., 2.}), leaf = tensor({1., 2.}).requires_grad_();
  auto ask = jit([&](Tensor x) { return sum(w.requires_grad_() * x); });
  auto stop = jit([&](Tensor x) { return sum(leaf.requires_grad_(false) * x); });
  auto again = jit([&](Tensor x) { return sum(leaf.requires_grad_() * x); });
  Tensor x = tensor({3., 4.});
  expect_error<CaptureError>([&] { ask(x); }, {"requires_grad_() of a tensor f32[2]", "made outside"});
  expect_error<CaptureError>([&] { stop(x); }, {"requires_grad_(false)"});
  EXPECT_FALSE(w.requires_grad());
  EXPECT_TRUE(leaf.requires_grad());
  EXPECT_EQ(again(x).item<double>(), 11);
  auto inside = jit([&](Tensor y) {
    Tensor own = w * 1;
    y.requires_grad_();
    own.requires_grad_();
    return grad(sum(own * own * y), {own, y});
  });
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(inside(x)[0].to_vector<double>(), (std::vector<double>{6, 16}));
    EXPECT_EQ(inside(x)[1].to_vector<double>(), (std::vector<double>{1, 4}));
    EXPECT_FALSE(x.requires_grad());
  }
}

// `w = w - x` gives the variable another tensor, which has no value. Every later use says so.
TEST(Leaks, a_variable_that_is_bound_anew_inside_is_named) {
  Tensor w = tensor({1., 2.}), v = tensor({5., 5.}), x = tensor({1., 1.}), same = w;
  auto f = jit([&](const Tensor& y) {
    w = w - y;
    w = w * 2;
    return sum(w);
  });
  expect_error<CaptureError>([&] { f(x); }, {"kept outside", "w.assign(w - x) or w -= x", "has lost its tensor"});
  for (int i = 0; i < 3; ++i)
    expect_error<CaptureError>([&] { f(x); }, {"earlier call gave a tensor f32[2] without a value", "w -= x"});
  EXPECT_THROW(w.to_vector<double>(), Error);
  expect_equal(same, {1, 2});
  w = same;
  expect_error<CaptureError>([&] { f(x); }, {"kept outside"});
  w = same;
  auto right = jit([&](const Tensor& y) {
    Tensor own = w;
    own = own - y;
    v.assign(v + sum(own));
    return sum(own);
  });
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(right(x).item<double>(), 1);
    expect_equal(v, {5. + i, 5. + i});
  }
}

}  // namespace
}  // namespace heddle
