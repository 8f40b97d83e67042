// Plain loops of C++ that the compiler rolls up: what is found, what is left alone, and that nothing changes by it.
#include "graph/control.h"

#include "control/control_helpers.h"

namespace heddle {
namespace {

using namespace testing;

int loops_in(std::span<const NodeRef> roots) {
  int loops = 0;
  for (const Node* node : topological(roots)) loops += node->op == NodeOp::Loop;
  return loops;
}

// The same values, by the slow evaluator, and so many loops. Returns how many nodes are left.
size_t expect_rolled(const TensorList& values, int loops) {
  std::vector<NodeRef> roots;
  for (const Tensor& x : values) roots.push_back(x.node());
  const std::vector<NodeRef> rolled = roll(roots);
  EXPECT_EQ(loops_in(rolled), loops) << print_graph(rolled).substr(0, 4000);
  const std::vector<HostArray> want = evaluate(roots), got = evaluate(rolled);
  for (size_t i = 0; i < roots.size(); ++i) {
    EXPECT_EQ(got[i].shape, want[i].shape);
    EXPECT_EQ(got[i].integers, want[i].integers);
    for (size_t k = 0; k < want[i].floats.size(); ++k)
      EXPECT_NEAR(got[i].floats[k], want[i].floats[k], 1e-5) << "value " << i << ", element " << k;
  }
  return topological(rolled).size();
}

struct Cell {
  Tensor wx = (randn({6, 8}) * 0.3).realize(), wh = (randn({8, 8}) * 0.3).realize(), b = randn({8}).realize();

  Tensor operator()(const Tensor& h, const Tensor& x) const { return tanh(matmul(x, wx) + matmul(h, wh) + b); }
};

TEST(Roll, a_recurrent_network_is_one_loop) {
  const Cell cell;
  const Tensor x = randn({40, 3, 6}).realize();
  Tensor h = zeros({3, 8});
  TensorList all;
  for (int t = 0; t < 40; ++t) all.push_back(h = cell(h, x.at({t})));
  EXPECT_LT(expect_rolled({h, stack(all), stack(all, 1)}, 1), 60u);
  EXPECT_LT(expect_rolled({h}, 1), 60u);
}

TEST(Roll, the_loop_does_not_grow_with_the_number_of_steps) {
  const Cell cell;
  auto size = [&](int64_t steps) {
    const Tensor x = randn({steps, 3, 6}).realize();
    Tensor h = zeros({3, 8});
    TensorList all;
    for (int64_t t = 0; t < steps; ++t) all.push_back(h = cell(h, x.at({t})));
    const NodeRef root = mean(stack(all)).node();
    return topological(roll(std::span(&root, 1))).size();
  };
  EXPECT_EQ(size(32), size(200));
}

TEST(Roll, slices_of_any_axis_forwards_and_backwards) {
  const Cell cell;
  const Tensor x = randn({3, 40, 6}).realize();
  Tensor forward = zeros({3, 8}), backward = zeros({3, 8});
  TensorList all;
  for (int t = 0; t < 40; ++t) forward = cell(forward, x.slice(1, t, t + 1).squeeze(1));
  for (int t = 39; t >= 0; --t) all.insert(all.begin(), backward = cell(backward, x.slice(1, t, t + 1).squeeze(1)));
  expect_rolled({forward, stack(all, 1)}, 2);
}

TEST(Roll, layers_one_after_the_other) {
  const Cell first;
  Cell second;
  second.wx = (randn({8, 8}) * 0.3).realize();
  const Tensor x = randn({30, 3, 6}).realize();
  TensorList below, above;
  Tensor h = zeros({3, 8});
  for (int t = 0; t < 30; ++t) below.push_back(h = first(h, x.at({t})));
  h = zeros({3, 8});
  for (int t = 0; t < 30; ++t) above.push_back(h = second(h, below[static_cast<size_t>(t)]));
  expect_rolled({stack(above)}, 1);
}

// Both layers, and the next step of the first one, read one view of its state.
TEST(Roll, carries_states_and_not_views_of_them) {
  const Tensor w = (randn({8, 8}) * 0.3).realize(), v = (randn({8, 8}) * 0.3).realize();
  const Tensor x = randn({30, 3, 8}).realize();
  Tensor h = zeros({3, 8}), g = h;
  for (int t = 0; t < 30; ++t) {
    h = tanh(x.at({t}) + matmul(h, w));
    g = tanh(matmul(g, v) + matmul(h, v));
  }
  expect_rolled({g}, 1);
  const NodeRef root = g.node();
  const std::vector<NodeRef> rolled = roll(std::span(&root, 1));
  for (const Node* node : topological(rolled))
    if (node->op == NodeOp::Loop) {
      EXPECT_EQ(node->control->length, Expr(30)) << "the first step is one of them";
      for (size_t i = 0; i < node->control->carried; ++i) EXPECT_EQ(node->inputs[i]->shape.rank(), 2);
    }
}

TEST(Roll, sums_over_steps_and_numbers_that_count) {
  const Cell cell;
  const Tensor x = randn({24, 3, 6}).realize(), y = randn({24, 3, 8}).realize();
  Tensor h = zeros({3, 8}), loss = tensor(0.);
  for (int t = 0; t < 24; ++t) {
    h = cell(h, x.at({t}));
    loss = loss + mean(square(h - y.at({t}))) * t;
  }
  expect_rolled({loss, h}, 1);
}

TEST(Roll, values_of_two_steps_before) {
  const Tensor w = (randn({8, 8}) * 0.2).realize();
  Tensor a = randn({3, 8}).realize(), b = randn({3, 8}).realize();
  for (int t = 0; t < 50; ++t) {
    Tensor next = tanh(matmul(b, w)) - a * 0.5;
    a = b;
    b = next;
  }
  expect_rolled({a, b}, 1);
}

TEST(Roll, a_stencil) {
  Tensor u = randn({12, 12}).realize();
  for (int t = 0; t < 30; ++t) u = u + 0.1 * (roll(u, 1, 0) + roll(u, -1, 0) + roll(u, 1, 1) + roll(u, -1, 1) - 4 * u);
  expect_rolled({u}, 1);
}

TEST(Roll, values_of_some_steps_are_wanted_too) {
  const Cell cell;
  const Tensor x = randn({40, 3, 6}).realize();
  Tensor h = zeros({3, 8});
  TensorList wanted;
  for (int t = 0; t < 40; ++t) {
    h = cell(h, x.at({t}));
    if (t % 13 == 2) wanted.push_back(sum(h, {0}));
  }
  wanted.push_back(h);
  expect_rolled(wanted, 1);
}

TEST(Roll, leaves_alone_what_is_no_repetition) {
  const Cell cell;
  Tensor h = zeros({3, 8});
  // Arithmetic by the element is one kernel as it is.
  Tensor y = randn({64}).realize();
  for (int t = 0; t < 100; ++t) y = y * 0.9 + 0.1;
  expect_rolled({y}, 0);
  // Steps that do not depend on each other run side by side.
  const Tensor x = randn({40, 3, 6}).realize();
  TensorList all;
  for (int t = 0; t < 40; ++t) all.push_back(cell(h, x.at({t})));
  expect_rolled({stack(all)}, 0);
  // Every layer has weights of its own.
  for (int t = 0; t < 40; ++t) h = tanh(matmul(h, randn({8, 8}).realize()));
  expect_rolled({h}, 0);
}

TEST(Roll, a_step_that_needs_the_last_one_of_another_loop) {
  const Cell cell;
  const Tensor x = randn({40, 3, 6}).realize();
  TensorList all;
  Tensor h = zeros({3, 8});
  for (int t = 0; t < 40; ++t) all.push_back(h = cell(h, x.at({t})));
  // What the second loop reads of the first one is there only after all of it.
  Tensor g = zeros({3, 8});
  for (int t = 0; t < 40; ++t) g = tanh(matmul(g + all[static_cast<size_t>(t)] + h, cell.wh));
  expect_rolled({g}, 2);
}

TEST(Roll, gradients_are_those_of_a_scan) {
  const Cell cell;
  const Tensor x = randn({48, 3, 6}).realize(), target = randn({48, 3, 8}).realize();
  auto loss = [&](const TensorList& p, bool looped) {
    auto next = [&](const Tensor& h, const Tensor& now) { return tanh(matmul(now, p[0]) + matmul(h, p[1]) + p[2]); };
    if (looped) {
      auto [last, all] =
          scan([&](const Tensor& h, const Tensor& now) { return std::pair(next(h, now), next(h, now)); }, p[3], x);
      return mean(square(all - target)) + sum(last);
    }
    Tensor h = p[3];
    TensorList all;
    for (int64_t t = 0; t < 48; ++t) all.push_back(h = next(h, x.at({t})));
    return mean(square(stack(all) - target)) + sum(h);
  };
  const TensorList p{cell.wx, cell.wh, cell.b, randn({3, 8}).realize()};
  auto of = [&](bool looped) {
    return value_and_grad([&, looped](const TensorList& q) { return loss(q, looped); })(p);
  };
  auto [want, wanted] = of(true);
  auto [got, gradients] = of(false);
  EXPECT_EQ(loops_in(simplify(std::vector<NodeRef>{gradients[1].node()})), 2);  // forward, and back
  expect_same(got, want);
  for (size_t i = 0; i < p.size(); ++i) expect_same(gradients[i], wanted[i], 1e-4);
  // With respect to what one of the steps gave, the steps stay as they are.
  auto inner = grad([&](const Tensor& q) {
    Tensor h = q;
    for (int64_t t = 0; t < 48; ++t) h = cell(h, x.at({t}));
    return sum(h);
  });
  auto by_scan = grad([&](const Tensor& q) {
    return sum(scan([&](const Tensor& h, const Tensor& now) { return std::pair(cell(h, now), h); }, q, x).first);
  });
  expect_same(inner(p[3]), by_scan(p[3]), 1e-4);
  expect_same(grad([&](const Tensor& q) { return sum(square(inner(q))); })(p[3]),
              grad([&](const Tensor& q) { return sum(square(by_scan(q))); })(p[3]), 1e-4);
}

TEST(Roll, gradients_with_respect_to_a_step_inside) {
  const Cell cell;
  const Tensor x = randn({40, 3, 6}).realize();
  Tensor h = randn({3, 8}).realize().requires_grad_(), middle;
  const Tensor begin = h;
  for (int64_t t = 0; t < 40; ++t) {
    h = cell(h, x.at({t}));
    if (t == 20) middle = h;
  }
  Tensor after = middle.detach().realize().requires_grad_(), g = after;
  for (int64_t t = 21; t < 40; ++t) g = cell(g, x.at({t}));
  expect_same(grad(sum(h), middle), grad(sum(g), after));
}

// Of what follows from the steps, one by one, and of what was realised on the way.
TEST(Roll, gradients_with_respect_to_values_above_the_loop) {
  const Cell cell;
  const Tensor x = randn({40, 3, 6}).realize(), v = randn({8, 4}).realize(), begin = randn({3, 8}).realize();
  auto gradients = [&](bool rolled) {
    const Tensor h0 = begin.clone().realize().requires_grad_();
    Tensor h = h0, middle;
    TensorList ys;
    for (int64_t t = 0; t < 40; ++t) {
      // With different numbers the steps are not equal.
      h = rolled ? cell(h, x.at({t})) : cell(h, x.at({t})) * (1 + 1e-9 * static_cast<double>(t * t));
      ys.push_back(matmul(h, v));
      if (t == 20) middle = h;
    }
    TensorList result{grad(sum(square(stack(ys))), ys[20]), grad(sum(square(h)), h0)};
    Tensor a = sum(h);
    middle.realize();
    result.push_back(grad(a + sum(middle * 3), middle));
    return result;
  };
  const TensorList got = gradients(true), want = gradients(false);
  for (size_t i = 0; i < got.size(); ++i) expect_same(got[i], want[i], 1e-4);
}

// The first step reads nothing of what the others take slices of.
TEST(Roll, a_step_without_a_slice_is_none_of_them) {
  const Cell cell;
  const Tensor x = randn({40, 3, 8}).realize(), h0 = randn({3, 8}).realize();
  for (const bool backward : {false, true}) {
    Tensor h = tanh(matmul(h0, cell.wh));
    TensorList all;
    for (int i = 0; i < 40; ++i) {
      const int t = backward ? 39 - i : i;
      h = tanh(matmul(h, cell.wh));
      all.push_back(h * x.at({t}));
    }
    expect_rolled({stack(all)}, 1);
  }
}

TEST(Roll, does_not_keep_all_steps_of_what_is_wanted_once) {
  Tensor u = randn({256, 256}).realize(), middle;
  for (int t = 0; t < 300; ++t) {
    u = u + 0.1 * (roll(u, 1, 0) + roll(u, -1, 0) - 2 * u);
    if (t == 150) middle = u;
  }
  NodeRef roots[] = {middle.node(), u.node()};
  EXPECT_EQ(loops_in(roll(roots)), 0);
  EXPECT_EQ(loops_in(roll(std::span(roots).last(1))), 1);
}

TEST(Roll, a_captured_training_step_has_one_forward_loop) {
  const Cell cell;
  const Tensor x = randn({40, 3, 6}).realize();
  TensorList p{cell.wx.clone(), cell.wh.clone(), cell.b.clone()}, q{cell.wx.clone(), cell.wh.clone(), cell.b.clone()};
  auto step = [&](TensorList& weights, bool looped) {
    return jit([&weights, looped](const Tensor& input) {
      Tensor last;
      auto [loss, g] = value_and_grad([&](const TensorList& w) {
        auto next = [&](const Tensor& h, const Tensor& now) {
          return tanh(matmul(now, w[0]) + matmul(h, w[1]) + w[2]);
        };
        Tensor h = zeros({3, 8});
        if (looped)
          h = scan([&](const Tensor& s, const Tensor& now) { return std::pair(next(s, now), s); }, h, input).first;
        else
          for (int64_t t = 0; t < 40; ++t) h = next(h, input.at({t}));
        last = h;
        return mean(square(h - 0.5));
      })(weights);
      for (size_t i = 0; i < weights.size(); ++i) weights[i] -= 0.1 * g[i];
      return std::pair(loss, last.detach());
    });
  };
  auto plain = step(p, false), looped = step(q, true);
  for (int i = 0; i < 4; ++i) {
    auto [loss, last] = plain(x);
    auto [want, wanted] = looped(x);
    expect_same(loss, want);
    expect_same(last, wanted);
  }
  for (size_t i = 0; i < p.size(); ++i) expect_same(p[i], q[i], 1e-4);
  // The state that is handed out, the loss and the gradients share the rounds.
  EXPECT_EQ(plain.plans()[0].launches, looped.plans()[0].launches);
}

}  // namespace
}  // namespace heddle
