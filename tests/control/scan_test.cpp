// scan, fori_loop and map: values and gradients against plain C++ loops.
#include "control/control_helpers.h"
#include "graph/control.h"

namespace heddle {
namespace {

using namespace testing;

TEST(Scan, gives_the_last_carry_and_all_outputs) {
  auto body = [](const Tensor& sum, const Tensor& x) { return std::pair(sum + x, sum * x); };
  auto [last, all] = scan(body, tensor(0.), tensor({1., 2., 3.}));
  expect_evaluated(all);
  EXPECT_EQ(last.item<float>(), 6);
  expect_equal(all, {0, 2, 9});
}

TEST(Scan, slices_of_whole_lines) {
  manual_seed(1);
  const Tensor x = randn({20, 4, 16}).realize(), w = (randn({16, 16}) * 0.2).realize(), h0 = zeros({4, 16}).realize();
  auto body = [&](const Tensor& h, const Tensor& part) {
    Tensor next = tanh(matmul(h, w) + part);
    return std::pair(next, next * 2);
  };
  auto [last, all] = scan(body, h0, x);
  Tensor h = h0;
  TensorList outputs;
  for (int i = 0; i < 20; ++i) {
    h = tanh(matmul(h, w) + x.at({i})).realize();
    outputs.push_back(h * 2);
  }
  expect_same(last, h);
  expect_same(all, stack(outputs));
}

TEST(Scan, runs_backwards) {
  auto body = [](const Tensor& sum, const Tensor& x) { return std::pair(sum * 2 + x, sum); };
  auto [last, all] = scan(body, tensor(1.), tensor({1., 2., 3.}), {.reverse = true});
  EXPECT_EQ(last.item<float>(), 25);
  expect_equal(all, {12, 5, 1});
}

TEST(Scan, of_no_rounds_gives_the_carry_and_nothing) {
  auto body = [](const Tensor& s, const Tensor& x) { return std::pair(s + x, x * s); };
  auto [last, all] = scan(body, tensor({1., 2.}), zeros({0, 2}));
  expect_equal(last, {1, 2});
  EXPECT_EQ(all.shape(), (Dims{0, 2}));
  EXPECT_EQ(all.to_vector<float>().size(), 0u);
}

TEST(Scan, carried_values_may_change_places) {
  auto body = [](const TensorList& c, const Tensor& x) {
    return std::pair(TensorList{c[1], c[0] + c[1] * x}, TensorList{c[0], c[0]});
  };
  auto [last, all] = scan(body, TensorList{tensor(1.), tensor(1.)}, ones({6}));
  EXPECT_EQ(last[0].item<float>(), 13);
  EXPECT_EQ(last[1].item<float>(), 21);
  expect_equal(all[0], {1, 1, 2, 3, 5, 8});
  expect_equal(all[1], {1, 1, 2, 3, 5, 8});
}

TEST(Scan, a_large_carry_that_is_read_at_other_places) {
  manual_seed(2);
  Tensor u = randn({48, 40}).realize();
  auto step = [](const Tensor& v) {
    return v + 0.1 * (roll(v, 1, 0) + roll(v, -1, 0) + roll(v, 1, 1) + roll(v, -1, 1) - 4 * v);
  };
  for (int64_t rounds : {1, 2, 3, 8}) {
    Tensor got = fori_loop(0, rounds, [&](const Tensor&, const Tensor& v) { return step(v); }, u);
    Tensor want = u;
    for (int64_t i = 0; i < rounds; ++i) want = step(want).realize();
    expect_same(got, want);
  }
}

TEST(Scan, lists_and_integers) {
  auto body = [](const TensorList& c, const TensorList& x) {
    return std::pair(TensorList{c[0] + x[0], c[1] * 2 + cast(x[1], kF32)}, TensorList{c[0] * 10, c[1], x[1]});
  };
  const Tensor ids = tensor({3, 1, 4, 1, 5}, kI64), flags = tensor({1, 0, 1, 1, 0}, kI32);
  auto [last, all] = scan(body, TensorList{zeros({}, kI64), ones({3})}, TensorList{ids, flags});
  EXPECT_EQ(last[0].item<int64_t>(), 14);
  expect_equal(last[1], {54, 54, 54});
  EXPECT_EQ(integers(all[0]), (std::vector<int64_t>{0, 30, 40, 80, 90}));
  EXPECT_EQ(integers(all[2]), (std::vector<int64_t>{1, 0, 1, 1, 0}));
  EXPECT_EQ(all[1].shape(), (Dims{5, 3}));
}

TEST(Scan, inside_of_scan) {
  manual_seed(3);
  const Tensor x = randn({4, 5, 3}).realize(), w = randn({3}).realize();
  auto inner = [&](const Tensor& s, const Tensor& v) { return std::pair(s * 0.5 + v * w, s); };
  auto outer = [&](const Tensor& s, const Tensor& rows) {
    auto [last, all] = scan(inner, s, rows);
    return std::pair(last + sum(all, {0}), last);
  };
  auto [last, all] = scan(outer, zeros({3}), x);
  Tensor s = zeros({3});
  TensorList outputs;
  for (int i = 0; i < 4; ++i) {
    TensorList seen;
    Tensor t = s;
    for (int j = 0; j < 5; ++j) {
      seen.push_back(t);
      t = t * 0.5 + x.at({i, j}) * w;
    }
    outputs.push_back(t);
    s = (t + sum(stack(seen), {0})).realize();
  }
  expect_same(last, s);
  expect_same(all, stack(outputs));
}

// The same function as a loop of Heddle's and as one of C++: value, gradients by everything.
struct Recurrent {
  Tensor x, w, b, h0;
  static Tensor step(const Tensor& h, const Tensor& v, const Tensor& w, const Tensor& b) {
    return tanh(matmul(h, w) + v * sigmoid(b));
  }
  static Tensor looped(const TensorList& p) {
    auto [last, all] = scan(
        [&](const Tensor& h, const Tensor& v) {
          Tensor next = step(h, v, p[1], p[2]);
          return std::pair(next, next * next);
        },
        p[3], p[0]);
    return sum(last) + mean(all * p[0]);
  }
  static Tensor unrolled(const TensorList& p) {
    Tensor h = p[3];
    TensorList all;
    for (int64_t i = 0; i < p[0].shape()[0]; ++i) {
      h = step(h, p[0].at({i}), p[1], p[2]);
      all.push_back(h * h);
    }
    return sum(h) + mean(stack(all) * p[0]);
  }
};

TEST(ScanGradient, of_a_recurrent_layer) {
  manual_seed(4);
  TensorList p{randn({7, 4, 16}), randn({16, 16}) * 0.3, randn({16}), randn({4, 16})};
  for (Tensor& t : p) t.realize();
  auto [a, ga] = value_and_grad(Recurrent::looped)(p);
  auto [b, gb] = value_and_grad(Recurrent::unrolled)(p);
  expect_same(a, b);
  for (size_t i = 0; i < p.size(); ++i) expect_same(ga[i], gb[i], 1e-4);
}

TEST(ScanGradient, of_a_gradient) {
  manual_seed(5);
  TensorList p{randn({3, 2, 4}, kF64), randn({4, 4}, kF64) * 0.3, randn({4}, kF64), randn({2, 4}, kF64)};
  for (Tensor& t : p) t.realize();
  auto twice = [&](auto f) {
    return [f](const TensorList& q) {
      TensorList g = grad(f)(q);
      Tensor total = sum(g[0] * g[0]);
      for (size_t i = 1; i < g.size(); ++i) total = total + sum(g[i] * g[i]);
      return total;
    };
  };
  TensorList ga = grad(twice(Recurrent::looped))(p), gb = grad(twice(Recurrent::unrolled))(p);
  for (size_t i = 0; i < p.size(); ++i) expect_same(ga[i], gb[i], 1e-9);
}

TEST(ScanGradient, computed_again_every_few_rounds) {
  manual_seed(6);
  const Tensor x = randn({11, 2, 4}).realize(), w = (randn({4, 4}) * 0.3).realize();
  for (bool reverse : {false, true})
    for (int64_t every : {2, 4, 11, 20}) {
      auto f = [&](int64_t again) {
        return [&, again](const TensorList& p) {
          auto [last, all] = scan(
              [&](const Tensor& h, const Tensor& v) {
                Tensor next = tanh(matmul(h, p[1]) + v);
                return std::pair(next, next * 2);
              },
              zeros({2, 4}), p[0], {.reverse = reverse, .recompute_every = again});
          return sum(last * last) + sum(all * p[0]);
        };
      };
      auto [a, ga] = value_and_grad(f(every))(TensorList{x, w});
      auto [b, gb] = value_and_grad(f(0))(TensorList{x, w});
      expect_same(a, b);
      for (size_t i = 0; i < 2; ++i) expect_same(ga[i], gb[i], 1e-4);
    }
}

TEST(ScanGradient, of_nested_scans) {
  manual_seed(7);
  const Tensor x = randn({3, 4, 5}).realize(), w = randn({5}).realize();
  auto looped = [](const TensorList& p) {
    auto outer = [&](const Tensor& s, const Tensor& rows) {
      auto [last, all] =
          scan([&](const Tensor& t, const Tensor& v) { return std::pair(tanh(t * p[1]) + v, t * v); }, s, rows);
      return std::pair(last * 0.5, sum(all));
    };
    auto [last, all] = scan(outer, p[2], p[0]);
    return sum(last) + sum(all * all);
  };
  auto unrolled = [](const TensorList& p) {
    Tensor s = p[2], total = zeros({});
    for (int i = 0; i < 3; ++i) {
      Tensor inside = zeros({});
      for (int j = 0; j < 4; ++j) {
        Tensor v = p[0].at({i, j});
        inside = inside + sum(s * v);
        s = tanh(s * p[1]) + v;
      }
      total = total + inside * inside;
      s = s * 0.5;
    }
    return sum(s) + total;
  };
  TensorList p{x, w, randn({5}).realize()};
  auto [a, ga] = value_and_grad(looped)(p);
  auto [b, gb] = value_and_grad(unrolled)(p);
  expect_same(a, b);
  for (size_t i = 0; i < p.size(); ++i) expect_same(ga[i], gb[i], 1e-4);
}

TEST(ScanGradient, of_tensors_that_asked) {
  Tensor w = tensor({1., 2.}).requires_grad_(), x = tensor({{1., 2.}, {3., 4.}, {5., 6.}});
  auto [last, all] = scan([&](const Tensor& s, const Tensor& v) { return std::pair(s + v * w, s); }, zeros({2}), x);
  (sum(last) + sum(all)).backward();
  // each slice counts 1 + (rounds after it)
  expect_equal(*w.grad(), {1 * 3 + 3 * 2 + 5 * 1, 2 * 3 + 4 * 2 + 6 * 1});
}

TEST(ScanGradient, jvp) {
  manual_seed(8);
  const Tensor x = randn({5, 3}, kF64).realize(), t = randn({5, 3}, kF64).realize();
  auto looped = [](const Tensor& v) {
    return scan([](const Tensor& s, const Tensor& u) { return std::pair(sin(s) + u, s * u); }, zeros({3}, kF64), v)
        .second;
  };
  auto unrolled = [](const Tensor& v) {
    Tensor s = zeros({3}, kF64);
    TensorList all;
    for (int i = 0; i < 5; ++i) {
      all.push_back(s * v.at({i}));
      s = sin(s) + v.at({i});
    }
    return stack(all);
  };
  expect_same(jvp(looped, x, t).second, jvp(unrolled, x, t).second, 1e-12);
}

TEST(Map, one_after_the_other) {
  const Tensor x = counting({4, 3});
  expect_equal(map([](const Tensor& v) { return sum(v * v); }, x), {5, 50, 149, 302});
  TensorList both = map([](const TensorList& v) { return TensorList{v[0] + v[1], v[0] * 2}; }, TensorList{x, x});
  expect_same(both[0], x + x);
  expect_same(both[1], x * 2);
}

// Rounds that only compute by the element run several at a time.
TEST(ForiLoop, of_arithmetic_by_the_element) {
  const Tensor x = (rand({3, 5}) - 0.5).realize(), row = rand({5}).realize();
  auto body = [&](const Tensor& i, const TensorList& c) {
    Tensor a = clamp(c[0] * c[0] - c[1] + x, -2, 2) * row, b = c[0] * 0.5 + i.to(kF32) * 0.01;
    return TensorList{a, b, c[2] + (a < b).to(kI32)};
  };
  for (int64_t rounds : {0, 1, 2, 3, 7, 13, 50, 97, 200}) {
    SCOPED_TRACE(rounds);
    TensorList start{zeros({3, 5}), x, zeros({3, 5}, kI32)}, want = start;
    for (int64_t i = 3; i < 3 + rounds; ++i) {
      want = body(scalar(i), want);
      for (Tensor& value : want) value.realize();
    }
    const TensorList got = fori_loop(3, 3 + rounds, body, start);
    for (size_t k = 0; k < 3; ++k) EXPECT_EQ(got[k].to_vector<double>(), want[k].to_vector<double>()) << k;
  }
}

// The number of rounds of the only loop above the node once rounds are joined; 0: there is none.
int64_t rounds_left(const Tensor& x) {
  const NodeRef root = x.node();
  const std::vector<NodeRef> joined = join_rounds(std::span(&root, 1));
  for (const Node* node : topological(joined))
    if (node->op == NodeOp::Loop) return node->control->length.value();
  return 0;
}

TEST(ForiLoop, joins_rounds_of_arithmetic_alone) {
  const Tensor x = rand({4, 6}).realize();
  auto after = [&](int64_t rounds, const std::function<Tensor(const Tensor&)>& step) {
    return rounds_left(fori_loop(0, rounds, [&](const Tensor&, const Tensor& v) { return step(v); }, x));
  };
  auto grow = [&](const Tensor& v) { return v * x + 1; };
  EXPECT_EQ(after(5, grow), 5);  // few rounds are not worth a kernel of their own
  const int64_t left = after(1000, grow);
  EXPECT_TRUE(left > 1 && left < 100) << left;
  EXPECT_EQ(after(1000, [&](const Tensor& v) { return v * sum(v); }), 1000);
  EXPECT_EQ(after(1000, [&](const Tensor& v) { return roll(v, {1}, {0}) * x; }), 1000);
  EXPECT_EQ(after(1000, [&](const Tensor& v) { return flip(v, {0}) * x; }), 1000);
}

// Carried values are rounded after every round, whoever wants to see them.
TEST(ForiLoop, rounds_small_floats_in_every_round) {
  for (DType dtype : {kF16, kBF16}) {
    SCOPED_TRACE(name(dtype));
    const Tensor start = full({3}, dtype == kF16 ? 2048 : 256, dtype).realize();
    auto step = [](const Tensor& v) { return v + 1; };
    const Tensor last = fori_loop(0, 500, [&](const Tensor&, const Tensor& v) { return step(v); }, start);
    expect_same(last, start);  // 2049 is no number of f16, nor 257 of bf16
    auto [end, all] = scan([&](const Tensor& v, const Tensor& u) { return std::pair(step(v), v + u); }, start,
                           zeros({500, 3}, dtype));
    expect_same(end, last);
  }
}

TEST(ForiLoop, counts) {
  auto body = [](const Tensor& i, const Tensor& x) { return x * 2 + cast(i, kF32); };
  EXPECT_EQ(fori_loop(0, 4, body, tensor(1.)).item<float>(), 27);
  EXPECT_EQ(fori_loop(3, 3, body, tensor(1.)).item<float>(), 1);
  EXPECT_EQ(fori_loop(5, 3, body, tensor(1.)).item<float>(), 1);
  EXPECT_EQ(fori_loop(tensor(1, kI64), 4, body, tensor(1.)).item<float>(), 8 + 4 + 4 + 3);
}

TEST(Scan, with_symbolic_rounds_keeps_one_plan) {
  auto f = [](const Tensor& x) {
    return scan([](const Tensor& s, const Tensor& v) { return std::pair(s * 0.5 + v, s); }, zeros({16}), x);
  };
  size_t plans = 0;
  for (int64_t n : {3, 7, 1, 12}) {
    Tensor x = randn({n, 16}).realize();
    auto [last, all] = f(x.with_dim(0, dim("rounds", 1, 64)));
    auto [want, want_all] = f(x);
    EXPECT_LE(difference(last, want), 1e-6);
    EXPECT_LE(difference(all, want_all), 1e-6);
    if (n == 7) plans = plan_cache_size();
  }
  (void)plans;
}

TEST(Scan, in_a_captured_function) {
  manual_seed(9);
  Tensor w = (randn({16, 16}) * 0.2).realize(), state = zeros({4, 16}).realize();
  auto step = jit([&](const Tensor& x) {
    auto f = [&](const Tensor& v) {
      auto [last, all] =
          scan([&](const Tensor& h, const Tensor& u) { return std::pair(tanh(matmul(h, v) + u), h); }, state, x);
      state.assign(last.detach());
      return sum(last) + sum(all);
    };
    auto [loss, g] = value_and_grad(f)(w);
    w -= 0.01 * g;
    return loss;
  });
  Tensor w2 = w.clone().realize(), state2 = state.clone().realize();
  for (int i = 0; i < 4; ++i) {
    Tensor x = randn({6, 4, 16}).realize();
    Tensor loss = step(x);
    auto f = [&](const Tensor& v) {
      Tensor h = state2, total = zeros({});
      for (int j = 0; j < 6; ++j) {
        total = total + sum(h);
        h = tanh(matmul(h, v) + x.at({j}));
      }
      return TensorList{sum(h) + total, h};
    };
    auto [want, pull] = vjp(f, w2);
    Tensor g = pull({tensor(1.), zeros({4, 16})});
    state2 = want[1].realize();
    w2 = (w2 - 0.01 * g).realize();
    expect_same(loss, want[0], 1e-4);
    expect_same(w, w2, 1e-4);
    expect_same(state, state2, 1e-4);
  }
  EXPECT_EQ(step.plans().size(), 1u);
}

TEST(Scan, carried_tables_change_row_by_row) {
  manual_seed(10);
  const Tensor x = randn({9, 16}).realize(), table = randn({9, 16}).realize();
  auto body = [](const TensorList& c, const Tensor& v) {
    Tensor next = c[1].clone();
    next.set({c[0]}, v + sum(c[1], {0}));
    return std::pair(TensorList{c[0] + 1, next}, mean(next));
  };
  auto [last, all] = scan(body, TensorList{zeros({}, kI64), table}, x);
  Tensor t = table.clone();
  TensorList means;
  for (int i = 0; i < 9; ++i) {
    t.set({i}, (x.at({i}) + sum(t, {0})).realize());
    t.realize();
    means.push_back(mean(t).realize());
  }
  expect_same(last[1], t);
  expect_same(all, stack(means));
}

TEST(Scan, bad_input) {
  const Tensor x = ones({3, 2});
  expect_error<ShapeError>(
      [&] { scan([](const Tensor&, const Tensor& v) { return std::pair(sum(v), v); }, zeros({2}), x); },
      {"scan", "carried value 0", "f32[]", "f32[2]"});
  expect_error<DTypeError>(
      [&] { scan([](const Tensor& s, const Tensor& v) { return std::pair(cast(s, kF64), v); }, zeros({2}), x); },
      {"scan", "carried value 0", "f64[2]", "f32[2]"});
  expect_error<ShapeError>(
      [&] { scan([](const Tensor& s, const Tensor& v) { return std::pair(s, v); }, zeros({2}), tensor(1.)); },
      {"scan", "input 0", "no slices"});
  expect_error<ShapeError>(
      [&] {
        scan([](const Tensor& s, const TensorList& v) { return std::pair(s, v); }, zeros({2}),
             TensorList{x, ones({4, 2})});
      },
      {"scan", "input 1", "4", "3"});
  expect_error<ShapeError>(
      [&] { scan([](const Tensor& s, const Tensor& v) { return std::pair(s, v); }, zeros({2}), x, {.length = 5}); },
      {"scan", "3", "5"});
  expect_error<ValueError>(
      [&] {
        scan([](const TensorList& s, const TensorList& v) { return std::pair(s, v); }, TensorList{zeros({2})},
             TensorList{});
      },
      {"scan", "how many rounds"});
  expect_error<ValueError>(
      [&] {
        scan([](const TensorList& s, const Tensor& v) { return std::pair(TensorList{s[0], s[0]}, v); },
             TensorList{zeros({2})}, x);
      },
      {"scan", "2 carried values for 1"});
  expect_error<CaptureError>(
      [&] {
        scan([](const Tensor& s, const Tensor& v) { return std::pair(s * v.item<float>(), v); }, zeros({}), ones({3}));
      },
      {"scan"});
  Tensor outside = zeros({2});
  expect_error<CaptureError>(
      [&] {
        scan(
            [&](const Tensor& s, const Tensor& v) {
              outside.assign(s);
              return std::pair(s, v);
            },
            zeros({2}), x);
      },
      {"scan", "assign", "round"});
  Tensor kept;
  expect_error<CaptureError>(
      [&] {
        scan(
            [&](const Tensor& s, const Tensor& v) {
              kept = s * 2;
              return std::pair(s, v);
            },
            zeros({2}), x);
      },
      {"scan"});
}

}  // namespace
}  // namespace heddle
