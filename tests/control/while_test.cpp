// cond and while_loop.
#include "control/control_helpers.h"

namespace heddle {
namespace {

using namespace testing;

TEST(Cond, takes_one_branch) {
  auto half = [](const Tensor& x) { return x / 2; };
  auto next = [](const Tensor& x) { return 3 * x + 1; };
  Tensor x = tensor({6., 8.});
  expect_equal(cond(tensor(6) < 10, half, next, x), {3, 4});
  Tensor p = (tensor(6) < tensor(3)).realize();
  Tensor y = cond(p, half, next, x);
  expect_evaluated(y);
  expect_equal(y, {19, 25});
}

TEST(Cond, results_that_are_operands_constants_and_several) {
  Tensor a = tensor({1., 2.}).realize(), b = tensor({3., 4.}).realize();
  for (bool yes : {true, false}) {
    Tensor p = full({}, yes, kBool).realize();
    TensorList r = cond(
        p, [](const Tensor& x, const Tensor& y) { return TensorList{y, x, x + y, x + y, full({2}, 7.)}; },
        [](const Tensor& x, const Tensor& y) { return TensorList{x, x, x, y * 2, x * 0}; }, a, b);
    expect_equal(r[0], yes ? std::vector<double>{3, 4} : std::vector<double>{1, 2});
    expect_equal(r[1], {1, 2});
    expect_equal(r[2], yes ? std::vector<double>{4, 6} : std::vector<double>{1, 2});
    expect_equal(r[3], yes ? std::vector<double>{4, 6} : std::vector<double>{6, 8});
    expect_equal(r[4], yes ? std::vector<double>{7, 7} : std::vector<double>{0, 0});
  }
}

TEST(Cond, the_other_branch_raises_nothing) {
  Tensor x = arange(4, kF32).realize(), bad = tensor({7}, kI64).realize();
  auto in = [&] { return take(x, tensor({1}, kI64), 0); };
  auto out = [&] { return take(x, bad, 0); };
  Tensor no = full({}, false, kBool).realize(), yes = full({}, true, kBool).realize();
  expect_equal(cond(no, out, in), {1});
  EXPECT_THROW(cond(yes, out, in).realize(), IndexError);
}

TEST(Cond, gradients_of_the_branch_that_is_taken) {
  Tensor w = tensor({1., 2.}).realize();
  for (bool yes : {true, false}) {
    Tensor p = full({}, yes, kBool).realize();
    auto f = [&](const Tensor& v) {
      return sum(cond(p, [&](const Tensor& x) { return x * x * w; }, [](const Tensor& x) { return sin(x); }, v));
    };
    Tensor g = grad(f)(tensor({3., 4.}));
    yes ? expect_close(g, {6, 16}) : expect_close(g, {std::cos(3.), std::cos(4.)});
  }
}

TEST(Cond, of_many_examples) {
  Tensor x = tensor({1., -2., 3.}).realize(), y = tensor({10., 20., 30.}).realize();
  auto f = [](const Tensor& a, const Tensor& b) {
    return cond(a > 0, [](const Tensor& u) { return u * 2; }, [](const Tensor& u) { return u - 1; }, b);
  };
  expect_equal(vmap(f)(x, y), {20, 19, 60});
  Tensor p = full({}, true, kBool).realize();
  auto g = [&](const Tensor& b) {
    return cond(p, [&](const Tensor& u) { return u * 2 + x.at({0}); }, [](const Tensor& u) { return u - 1; }, b);
  };
  expect_equal(vmap(g)(y), {21, 41, 61});
}

TEST(Cond, bad_input) {
  auto id = [](const Tensor& x) { return x; };
  expect_error<DTypeError>([&] { cond(tensor(1.), id, id, tensor(1.)); }, {"cond", "predicate", "f32[]"});
  expect_error<ShapeError>([&] { cond(tensor({1., 2.}) > 0, id, id, tensor(1.)); }, {"cond", "bool[2]"});
  expect_error<DTypeError>([&] { cond(tensor(1.) > 0, id, [](const Tensor& x) { return cast(x, kF64); }, tensor(1.)); },
                           {"cond", "f32[]", "f64[]"});
  expect_error<ShapeError>([&] { cond(tensor(1.) > 0, id, [](const Tensor& x) { return stack({x, x}); }, tensor(1.)); },
                           {"cond", "f32[]", "f32[2]"});
}

TEST(WhileLoop, runs_until_the_condition_fails) {
  auto small = [](const Tensor& x) { return x < 100; };
  EXPECT_EQ(while_loop(small, [](const Tensor& x) { return x * 2; }, tensor(3.)).item<float>(), 192);
  EXPECT_EQ(while_loop(small, [](const Tensor& x) { return x * 2; }, tensor(300.)).item<float>(), 300);
  Tensor limit = tensor(20.).realize();
  TensorList r = while_loop([&](const TensorList& c) { return c[0] < limit; },
                            [](const TensorList& c) { return TensorList{c[0] + c[1], c[1] + 1}; },
                            TensorList{tensor(0.), tensor(1.)});
  expect_evaluated(r[0]);
  EXPECT_EQ(r[0].item<float>(), 21);
  EXPECT_EQ(r[1].item<float>(), 7);
}

TEST(WhileLoop, newton) {
  Tensor a = tensor(2., kF64).realize();
  Tensor x = while_loop([&](const Tensor& v) { return abs(v * v - a) > 1e-14; },
                        [&](const Tensor& v) { return (v + a / v) / 2; }, tensor(1., kF64));
  EXPECT_NEAR(x.item<double>(), std::sqrt(2.0), 1e-14);
}

TEST(WhileLoop, goes_forwards_only) {
  auto f = [](const Tensor& x) {
    return while_loop([](const Tensor& v) { return sum(v) < 100; }, [&](const Tensor& v) { return v * x; }, x);
  };
  // 3^5 = 243 > 100 by x^5
  auto [y, t] = jvp(f, tensor(3., kF64), tensor(1., kF64));
  EXPECT_NEAR(y.item<double>(), 243, 1e-9);
  EXPECT_NEAR(t.item<double>(), 5 * 81, 1e-9);
  expect_error<ValueError>([&] { grad([&](const Tensor& x) { return sum(f(x)); })(tensor(3.)).realize(); },
                           {"while_loop", "gradient", "jvp"});
}

TEST(WhileLoop, of_many_examples) {
  auto f = [](const Tensor& x) {
    return while_loop([](const Tensor& v) { return v < 100; }, [](const Tensor& v) { return v * 3; }, x);
  };
  expect_equal(vmap(f)(tensor({1., 50., 200., 7.})), {243, 150, 200, 189});
}

TEST(WhileLoop, indices_are_checked) {
  Tensor table = arange(5, kI64).realize();
  auto f = [&](int64_t end) {
    return while_loop([&](const Tensor& i) { return i < end; },
                      [&](const Tensor& i) { return take(table, reshape(i, {1}), 0).reshape({}) + 1; },
                      zeros({}, kI64));
  };
  EXPECT_EQ(f(5).item<int64_t>(), 5);
  expect_error<IndexError>([&] { f(9).realize(); }, {"out of range"});
}

TEST(WhileLoop, bad_input) {
  auto same = [](const Tensor& x) { return x; };
  expect_error<DTypeError>([&] { while_loop(same, same, tensor(1.)); }, {"while_loop", "condition", "f32[]"});
  expect_error<ShapeError>([&] { while_loop([](const Tensor& x) { return x > 0; }, same, tensor({1., 2.})); },
                           {"while_loop", "condition", "bool[2]"});
  expect_error<ShapeError>(
      [&] {
        while_loop([](const Tensor& x) { return sum(x) > 0; }, [](const Tensor& x) { return cat({x, x}, 0); },
                   tensor({1., 2.}));
      },
      {"while_loop", "f32[4]", "f32[2]"});
}

TEST(ControlRandom, rounds_draw_what_a_plain_loop_draws) {
  auto looped = [] {
    manual_seed(11);
    Tensor before = randn({2});
    auto [last, all] = scan(
        [](const Tensor& s, const Tensor& v) {
          Tensor a = randn({3});
          return std::pair(s + v, a + bernoulli({3}, 0.5, kF32));
        },
        zeros({}), ones({4}));
    return TensorList{all, randn({2}), before};
  };
  auto unrolled = [] {
    manual_seed(11);
    Tensor before = randn({2});
    TensorList all;
    for (int i = 0; i < 4; ++i) {
      Tensor a = randn({3});
      all.push_back(a + bernoulli({3}, 0.5, kF32));
    }
    return TensorList{stack(all), randn({2}), before};
  };
  TensorList a = looped(), b = unrolled();
  for (size_t i = 0; i < 3; ++i) expect_same(a[i], b[i], 0);
  manual_seed(12);
  auto f = jit([](const Tensor& x) {
    return scan([](const Tensor& s, const Tensor& v) { return std::pair(s, v + rand({2})); }, zeros({}), x).second;
  });
  Tensor x = zeros({3, 2}).realize();
  Tensor first = f(x).clone().realize(), second = f(x).clone().realize();
  manual_seed(12);
  TensorList want;
  for (int i = 0; i < 6; ++i) want.push_back(rand({2}));
  expect_same(cat({first, second}, 0), stack(want), 0);
}

TEST(ControlVmap, of_scans) {
  manual_seed(13);
  const Tensor x = randn({3, 5, 4}).realize(), w = randn({4}).realize(), h = randn({3, 4}).realize();
  auto one = [&](const Tensor& v, const Tensor& s) {
    auto [last, all] = scan([&](const Tensor& a, const Tensor& b) { return std::pair(tanh(a * w) + b, a * b); }, s, v);
    return TensorList{last, all};
  };
  TensorList many = vmap(one)(x, h);
  for (int i = 0; i < 3; ++i) {
    TensorList want = one(x.at({i}), h.at({i}));
    expect_same(many[0].at({i}), want[0]);
    expect_same(many[1].at({i}), want[1]);
  }
  auto loss = [&](const Tensor& v) { return sum(one(v, h.at({0}))[0]); };
  Tensor g = vmap(grad(loss))(x);
  for (int i = 0; i < 3; ++i) expect_same(g.at({i}), grad(loss)(x.at({i})), 1e-4);
}

TEST(ControlNested, conditions_in_loops) {
  auto body = [](const Tensor& s, const Tensor& v) {
    Tensor next = cond(
        v > 2, [&](const Tensor& a) { return a * v; },
        [&](const Tensor& a) {
          return while_loop([](const Tensor& u) { return u < 10; }, [](const Tensor& u) { return u + 3; }, a);
        },
        s);
    return std::pair(next, next);
  };
  auto [last, all] = scan(body, tensor(1.), tensor({1., 3., 2., 5., 1.}));
  expect_evaluated(all);
  expect_equal(all, {10, 30, 30, 150, 150});
  EXPECT_EQ(last.item<float>(), 150);
}

TEST(ControlDevices, loops_run_where_their_values_are) {
  const Tensor x = noise_tensor({5, 16}).realize(), w = noise_tensor({16}, 2).realize();
  auto f = [](const TensorList& p) {
    auto [last, all] =
        scan([&](const Tensor& s, const Tensor& v) { return std::pair(tanh(s * p[1]) + v, s * v); }, zeros({16}), p[0]);
    return sum(last) + sum(cond(sum(last) > 0, [&] { return all * 2; }, [&] { return all; }));
  };
  auto [want, gradients] = value_and_grad(f)(TensorList{x, w});
  auto [got, there] = value_and_grad(f)(TensorList{x.to("simulated:1"), w.to("simulated:1")});
  EXPECT_EQ(got.device().name(), "simulated:1");
  expect_same(got.to(x.device()), want, 1e-4);
  for (size_t i = 0; i < 2; ++i) expect_same(there[i].to(x.device()), gradients[i], 1e-4);
  // A loop on one device, what it gives on another.
  Tensor y =
      scan([](const Tensor& s, const Tensor& v) { return std::pair(s + v, s); }, zeros({16}), x.to("simulated:1"))
          .first.to("simulated:2");
  expect_same((y * 2).to(x.device()), sum(x, {0}) * 2, 1e-4);
  expect_error<ValueError>([&] { f({x.to("simulated:1"), w.to("simulated:2")}); }, {"simulated:1", "simulated:2"});
  expect_error<ValueError>(
      [&] {
        scan([](const Tensor& s, const Tensor& v) { return std::pair(s, v.to("simulated:2")); }, zeros({16}),
             x.to("simulated:1"));
      },
      {"scan", "simulated:2", "to()"});
}

}  // namespace
}  // namespace heddle
