// Captured functions and gradients: who asks for them, how they add up, and what was computed from what.
#include "tensor/helpers.h"

namespace heddle {
namespace {

using namespace testing;

TEST(JitGradients, who_requires_gradients_is_known_inside) {
  Tensor w = tensor({1., 2.}).requires_grad_(), constant = tensor({3., 4.});
  std::vector<bool> seen;
  auto f = jit([&](const Tensor& a, const Tensor& b) {
    seen = {a.requires_grad(), b.requires_grad(), constant.requires_grad(), w.requires_grad(), (a * b).requires_grad()};
    return a + b + constant + w;
  });
  f(w, constant);
  EXPECT_EQ(seen, (std::vector<bool>{true, false, false, true, true}));
  f(constant, constant);
  EXPECT_EQ(seen, (std::vector<bool>{false, false, false, true, false}));
  auto g = jit([&](const Tensor& x) { return grad(sum(x * x), x); });
  for (int i = 0; i < 2; ++i) expect_error<ValueError>([&] { g(constant); }, {"does not require gradients"});
  for (int i = 0; i < 3; ++i) expect_equal(g(w), {2, 4});
}

TEST(JitGradients, who_requires_gradients_may_change_between_calls) {
  Tensor w = tensor({1., 2.}), b = tensor({1., 1.}).requires_grad_(), a = tensor({4., 4.}).requires_grad_();
  auto f = jit([&](const Tensor& x) {
    Tensor loss = sum(x * w + b);
    loss.backward();
    return loss;
  });
  Tensor x = tensor({3., 5.});
  for (int i = 0; i < 3; ++i) f(x);
  EXPECT_FALSE(w.grad().has_value());
  w.requires_grad_();
  for (int i = 0; i < 3; ++i) f(x);
  expect_equal(*w.grad(), {9, 15});
  w.requires_grad_(false);
  for (int i = 0; i < 3; ++i) f(x);
  expect_equal(*w.grad(), {9, 15});
  expect_equal(*b.grad(), {9, 9});
  w.assign(a * 2);
  expect_error<CaptureError>([&] { f(x); }, {"backward", "detach()"});
  expect_equal(*b.grad(), {9, 9});
}

TEST(JitGradients, backward_to_what_was_computed_outside_is_an_error) {
  Tensor w = tensor({1., 2.}).requires_grad_(), v = tensor({1., 1.}).requires_grad_();
  for (bool realised : {false, true}) {
    Tensor from_w = w * 2;
    if (realised) from_w.realize();
    auto closes = jit([&] {
      sum(from_w * v).backward();
      return v * 1;
    });
    auto given = jit([&](const Tensor& x) {
      sum(x * v).backward();
      return v * 1;
    });
    auto detached = jit([&](const Tensor& x) { return grad(sum(x.detach() * from_w.detach() * v), v); });
    auto other = jit([&](const Tensor& x) { return grad(sum(x * v), v); });
    for (int i = 0; i < 2; ++i) {
      expect_error<CaptureError>([&] { closes(); }, {"backward", "detach()", "f32[2]"});
      expect_error<CaptureError>([&] { given(from_w); }, {"backward", "detach()", "f32[2]"});
      EXPECT_FALSE(v.grad().has_value());
      EXPECT_FALSE(w.grad().has_value());
    }
    for (int i = 0; i < 3; ++i) {
      expect_equal(detached(from_w), {4, 16});
      expect_equal(other(from_w), {2, 4});
    }
    given(from_w.detach());
    v.zero_grad();
  }
}

// Whether backward() adds to a gradient or begins one is not frozen.
TEST(JitGradients, backward_inside_adds_up_as_the_plain_function_does) {
  Tensor w = tensor({1., 2.}).requires_grad_();
  auto plain = [&](Tensor x) {
    Tensor loss = sum(w * x);
    loss.backward();
    return loss;
  };
  auto step = jit(plain);
  Tensor x = tensor({3., 4.});
  auto gradient = [&] { return w.grad() ? w.grad()->to_vector<double>() : std::vector<double>{}; };
  for (int round = 0; round < 4; ++round) {
    w.zero_grad();
    EXPECT_EQ(gradient(), (std::vector<double>{}));
    for (int i = 1; i <= 4; ++i) {
      step(x);
      EXPECT_EQ(gradient(), (std::vector<double>{3. * i, 4. * i})) << round;
    }
  }
  auto cleared = jit([&](Tensor y) {
    w.zero_grad();
    plain(y);
    return *w.grad() * 2;
  });
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(cleared(x).to_vector<double>(), (std::vector<double>{6, 8}));
    EXPECT_EQ(gradient(), (std::vector<double>{3, 4}));
    if (i % 2) w.zero_grad();
  }
  w.zero_grad();
  auto failing = jit([&](Tensor y) {
    plain(y);
    throw std::runtime_error("no");
  });
  EXPECT_THROW(failing(x), std::runtime_error);
  EXPECT_FALSE(w.grad());
}

// What decides a branch inside is looked at, whether or not the value itself is needed.
TEST(JitGradients, whether_a_tensor_was_computed_from_leaves_may_change_between_calls) {
  Tensor w = tensor({1., 2.}).requires_grad_(), v = tensor({3., 4.});
  auto asks = jit([&](const Tensor& x) { return v.requires_grad() ? x * 2 : x * 3; });
  auto asks_later = jit([&](const Tensor& x) {
    Tensor y = x + v;
    return y.requires_grad() ? x * 2 : x * 3;
  });
  auto assigns = jit([&](const Tensor& x) {
    if (v.requires_grad() && !v.is_leaf()) sum(v * x).backward();
    return x * 1;
  });
  Tensor x = tensor({1., 1.});
  for (int round = 0; round < 2; ++round) {
    v.assign(tensor({3., 4.}));
    for (int i = 0; i < 3; ++i) {
      expect_equal(asks(x), {3, 3});
      expect_equal(asks_later(x), {3, 3});
      expect_equal(assigns(x), {1, 1});
    }
    v.assign(w * 2);
    for (int i = 0; i < 3; ++i) {
      expect_equal(asks(x), {2, 2});
      expect_equal(asks_later(x), {2, 2});
      expect_error<CaptureError>([&] { assigns(x); }, {"backward", "detach()"});
      if (i == 1) v.realize();
    }
  }
  EXPECT_FALSE(w.grad());
}

TEST(JitGradients, whether_a_tensor_requires_gradients_may_change_where_its_value_is_not_needed) {
  Tensor v = tensor({3., 4.}), x = tensor({1., 1.});
  auto f = jit([&](const Tensor& y) { return v.requires_grad() ? y * 2 : y * 3; });
  for (int i = 0; i < 3; ++i) expect_equal(f(x), {3, 3});
  v.requires_grad_();
  for (int i = 0; i < 3; ++i) expect_equal(f(x), {2, 2});
  v = tensor({3., 4.});
  for (int i = 0; i < 3; ++i) expect_equal(f(x), {3, 3});
}

// What backward() in plain code adds up was computed from leaves, too.
TEST(JitGradients, the_history_of_an_arguments_gradient_is_known_inside) {
  Tensor w = tensor({1., 2.}).requires_grad_(), constant = tensor({1., 2.}).requires_grad_();
  auto given = jit([](const Tensor& a) { return a.grad()->requires_grad() ? a * 2 : a * 3; });
  auto closed = jit([&](const Tensor& a) { return w.grad()->requires_grad() ? a * 2 : a * 3; });
  auto twice = jit([](const Tensor& a) {
    sum(*a.grad() * a).backward();
    return a * 1;
  });
  sum(constant * 3).backward();
  for (int round = 0; round < 2; ++round) {
    w.zero_grad();
    sum(w * w).backward();
    for (int i = 0; i < 3; ++i) {
      expect_equal(given(w), {2, 4});
      expect_equal(closed(w), {2, 4});
      expect_error<CaptureError>([&] { twice(w); }, {"backward", "detach()"});
      expect_equal(given(constant), {3, 6});
      if (i == 1) w.grad()->realize();
    }
    w.zero_grad();
    sum(w * 3).backward();
    for (int i = 0; i < 3; ++i) {
      expect_equal(given(w), {3, 6});
      expect_equal(closed(w), {3, 6});
    }
  }
  for (int i = 0; i < 3; ++i) {
    w.zero_grad();
    sum(w * 3).backward();
    twice(w);
    expect_equal(*w.grad(), {6, 6});
  }
  for (bool leaf : {true, false}) {
    w.grad()->requires_grad_(leaf);
    for (int i = 0; i < 3; ++i) expect_equal(given(w), {leaf ? 2. : 3., leaf ? 4. : 6.});
  }
}

TEST(JitGradients, a_history_that_makes_no_difference_is_recorded_once) {
  Tensor w = tensor({1., 2.}).requires_grad_(), v = tensor({3., 4.}), x = tensor({1., 1.});
  int recordings = 0;
  auto f = jit([&](const Tensor& y) {
    ++recordings;
    return v.requires_grad() ? y * v : y * v * 1;
  });
  for (int i = 0; i < 4; ++i) f(x);
  EXPECT_EQ(recordings, 2);
  v.assign(w * 2);
  for (int i = 0; i < 4; ++i) expect_equal(f(x), {2, 4});
  EXPECT_EQ(recordings, 3);
  v.assign(w * 3);
  for (int i = 0; i < 4; ++i) expect_equal(f(x), {3, 6});
  EXPECT_EQ(recordings, 3);
  v.assign(w.detach());
  for (int i = 0; i < 4; ++i) expect_equal(f(x), {1, 2});
  EXPECT_EQ(recordings, 4);
}

TEST(JitGradients, what_was_computed_from_a_leaf_before_it_was_updated_is_known_to_be_old) {
  for (bool needs_old : {false, true}) {
    for (bool realised : {false, true}) {
      Tensor w = tensor({1., 2.}).requires_grad_(), x = tensor({1., 1.});
      auto step = jit([&](const Tensor& y) {
        Tensor flipped = flip(w, -1);
        w -= needs_old ? flipped * y : y;
      });
      for (int i = 0; i < 4; ++i) {
        w.assign(w.detach() + 1);  // a leaf that is still to be computed
        Tensor early = sum(w * 3);
        if (realised) realize({w});
        Tensor late = sum(w * 3);
        step(x);
        expect_error<ValueError>([&] { early.backward(); }, {"earlier value"});
        expect_error<ValueError>([&] { late.backward(); }, {"earlier value"});
        step(x);
        expect_error<ValueError>([&] { late.backward(); }, {"earlier value"});
        EXPECT_FALSE(w.grad());
        sum(w * 3).backward();
        expect_equal(*w.grad(), {3, 3});
        w.zero_grad();
      }
    }
  }
}

TEST(JitGradients, what_is_passed_on_is_a_constant) {
  Tensor w = tensor({1., 2.}).requires_grad_(), from_w = w * 2, leaf = w, a = tensor({0., 0.}), b = tensor({0., 0.});
  auto f = jit([&](const Tensor& x) {
    a.assign(w);
    b.assign(x);
    return std::vector<Tensor>{x, from_w, w, w * 1};
  });
  for (int i = 0; i < 3; ++i) {
    for (const Tensor& result : f(from_w)) EXPECT_FALSE(result.requires_grad());
    EXPECT_FALSE(a.requires_grad());
    EXPECT_FALSE(b.requires_grad());
    expect_equal(a, {1, 2});
    expect_equal(b, {2, 4});
  }
  EXPECT_TRUE(w.is_leaf() && w.requires_grad() && from_w.requires_grad());
}

}  // namespace
}  // namespace heddle
