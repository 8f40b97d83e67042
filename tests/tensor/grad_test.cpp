#include <heddle/grad.h>
#include <heddle/vmap.h>

#include "graph/node.h"
#include "tensor/helpers.h"

namespace heddle {
namespace {

std::vector<double> list(const Tensor& x) { return x.to_vector<double>(); }
using List = std::vector<double>;

TEST(Grad, of_an_expression) {
  Tensor w = tensor({1., 2., 3.}).requires_grad_();
  EXPECT_EQ(list(grad(sum(w * w), w)), (List{2, 4, 6}));
  TensorList both = grad(sum(w * w) + sum(w), {w, w});
  EXPECT_EQ(list(both[1]), (List{3, 5, 7}));
}

TEST(Grad, needs_to_be_asked_for_before) {
  Tensor w = tensor({1., 2.});
  try {
    grad(sum(w * w), w);
    FAIL();
  } catch (const ValueError& e) {
    EXPECT_NE(std::string(e.what()).find("does not require gradients"), std::string::npos) << e.what();
  }
}

TEST(Grad, works_for_constants) {
  Tensor w = zeros({3}).requires_grad_(), b = zeros({3}).requires_grad_();
  Tensor loss = sum(w * 2 + b * 3);
  TensorList g = grad(loss, {w, b});
  EXPECT_EQ(list(g[0]), (List{2, 2, 2}));
  EXPECT_EQ(list(g[1]), (List{3, 3, 3}));
}

TEST(Grad, of_equal_tensors_is_each_ones_own) {
  Tensor x = tensor({1., 2.}), y = x.clone();
  x.requires_grad_();
  y.requires_grad_();
  TensorList g = grad(sum(x * 2 + y * 3), {x, y});
  EXPECT_EQ(list(g[0]), (List{2, 2}));
  EXPECT_EQ(list(g[1]), (List{3, 3}));
}

TEST(Grad, flows_through_what_was_realised_in_between) {
  Tensor w = tensor({1., 2., 3.}).requires_grad_();
  Tensor h = w * w;
  Tensor before = sum(h);
  h.realize();
  w.realize();
  Tensor loss = sum(h * w) + before;  // w^3 + w^2
  loss.realize();
  EXPECT_EQ(list(grad(loss, w)), (List{5, 16, 33}));
  EXPECT_EQ(list(grad(loss, h)), (List{2, 3, 4}));
}

TEST(Grad, history_survives_assignment_to_others) {
  Tensor w = tensor({1., 2.}).requires_grad_();
  Tensor x = tensor({10., 20.});
  x.realize();
  x += w;  // the old memory of x must stay: it is not needed by the gradient here, but by those of products
  x *= x;
  x.realize();
  EXPECT_EQ(list(grad(sum(x), w)), (List{22, 44}));
}

TEST(Grad, detach_stops_it) {
  Tensor w = tensor({3.}).requires_grad_();
  EXPECT_EQ(list(grad(sum(w * w.detach()), w)), (List{3}));
  Tensor d = w.detach();
  d.realize();
  EXPECT_FALSE(d.requires_grad());
  EXPECT_TRUE(w.requires_grad());
  EXPECT_EQ(list(grad(sum(w * d), w)), (List{3}));
}

TEST(Grad, says_why_there_is_none) {
  Tensor w = tensor({1., 2.}).requires_grad_(), v = tensor({1., 2.}).requires_grad_();
  auto message = [&](const Tensor& y) {
    try {
      grad(y, w);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  EXPECT_NE(message(sum(v)).find("does not depend on it"), std::string::npos) << message(sum(v));
  EXPECT_NE(message(sum(cast(cast(w * 2, kI32), kF32))).find("through cast to i32"), std::string::npos);
  EXPECT_NE(message(w * 2).find("one element"), std::string::npos) << message(w * 2);
  EXPECT_NE(message(argmax(w)).find("only floats have gradients"), std::string::npos) << message(argmax(w));
  Tensor loss = sum(w * w);
  w.assign(w * 0.5f);
  EXPECT_NE(message(loss).find("earlier value"), std::string::npos) << message(loss);
  EXPECT_EQ(list(grad(sum(v), w, {.allow_unused = true})), (List{0, 0}));
}

TEST(Grad, of_several_elements_takes_a_cotangent) {
  Tensor w = tensor({1., 2.}).requires_grad_();
  EXPECT_EQ(list(grad(w * w, w, {.cotangent = tensor({1., 10.})})), (List{2, 40}));
  EXPECT_THROW(grad(w * w, w, {.cotangent = tensor({1.})}), ShapeError);
}

TEST(Backward, adds_up_until_cleared) {
  Tensor w = tensor({1., 2.}).requires_grad_(), frozen = tensor({5., 5.});
  EXPECT_FALSE(w.grad());
  sum(w * w * frozen).backward();
  EXPECT_EQ(list(*w.grad()), (List{10, 20}));
  sum(w).backward();
  EXPECT_EQ(list(*w.grad()), (List{11, 21}));
  EXPECT_FALSE(frozen.grad());
  w.zero_grad();
  EXPECT_FALSE(w.grad());
  sum(w).backward();
  EXPECT_EQ(list(*w.grad()), (List{1, 1}));
  EXPECT_THROW(sum(frozen).backward(), ValueError);
}

TEST(Backward, refuses_values_from_before_an_assignment) {
  Tensor w = tensor({1., 2.}).requires_grad_();
  Tensor loss = sum(w * w);
  w.assign(w * 2);
  EXPECT_THROW(loss.backward(), ValueError);
}

TEST(RequiresGrad, holds_for_what_is_computed_and_ends_with_the_tensor) {
  Tensor w = tensor({1., 2.}).requires_grad_();
  EXPECT_TRUE((w * 2).requires_grad());
  EXPECT_FALSE((w * 2).is_leaf());
  EXPECT_TRUE(w.is_leaf());
  w.assign(w * 2);
  EXPECT_TRUE(w.is_leaf());
  w.realize();
  EXPECT_EQ(list(w), (List{2, 4}));
  EXPECT_EQ(list(grad(sum(w * w), w)), (List{4, 8}));
  w.requires_grad_(false);
  EXPECT_FALSE((w * 2).requires_grad());
  EXPECT_THROW(tensor({1, 2}).cast(kI32).requires_grad_(), DTypeError);
}

TEST(GradOfFunctions, first_and_higher_orders) {
  auto cube = [](const Tensor& x) { return sum(x * x * x); };
  Tensor x = tensor({2., 3.});
  EXPECT_EQ(list(grad(cube)(x)), (List{12, 27}));
  auto slope = [&](const Tensor& y) { return sum(grad(cube)(y)); };
  EXPECT_EQ(list(grad(slope)(x)), (List{12, 18}));
  auto bend = [&](const Tensor& y) { return sum(grad(slope)(y)); };
  EXPECT_EQ(list(grad(bend)(x)), (List{6, 6}));
  auto [value, g] = value_and_grad(cube)(x);
  EXPECT_EQ(list(value), (List{35}));
  auto weighted = [](const TensorList& p, const Tensor& y, double scale) { return sum(p[0] * y + p[1]) * scale; };
  TensorList both = grad(weighted)(TensorList{x, x}, tensor({1., 5.}), 10.0);
  EXPECT_EQ(list(both[0]), (List{10, 50}));
  EXPECT_EQ(list(both[1]), (List{10, 10}));
}

TEST(GradOfFunctions, may_look_at_values) {
  Tensor g = grad([](const Tensor& x) {
    Tensor h = x * x;
    EXPECT_EQ(list(h), (List{4}));
    return sum(h * x);
  })(tensor({2.}));
  EXPECT_EQ(list(g), (List{12}));
}

TEST(Vjp, pulls_any_cotangent_back) {
  auto [y, pull] = vjp([](const Tensor& x) { return x * x; }, tensor({1., 2.}));
  EXPECT_EQ(list(y), (List{1, 4}));
  EXPECT_EQ(list(pull(tensor({1., 1.}))), (List{2, 4}));
  EXPECT_EQ(list(pull(tensor({0., 10.}))), (List{0, 40}));
}

TEST(Jvp, pushes_tangents_forward) {
  auto [y, t] = jvp([](const Tensor& x) { return sqrt(x) * x; }, tensor({4., 9.}), tensor({1., 2.}));
  EXPECT_EQ(list(y), (List{8, 27}));
  EXPECT_EQ(list(t), (List{3, 9}));
  auto [l, s] = jvp([](const Tensor& x) { return log_softmax(x); }, tensor({1., 1.}), tensor({1., 0.}));
  EXPECT_NEAR(list(s)[0], 0.5, 1e-6);
  EXPECT_NEAR(list(s)[1], -0.5, 1e-6);
}

TEST(Jacobian, and_hessian) {
  Tensor x = tensor({1., 2.});
  EXPECT_EQ(list(jacobian([](const Tensor& v) { return v * v; }, x)), (List{2, 0, 0, 4}));
  Tensor j = jacobian([](const Tensor& v) { return reshape(cat({v, v * 3}), {2, 2}); }, x);
  EXPECT_EQ(j.shape(), (Dims{2, 2, 2}));
  EXPECT_EQ(list(j), (List{1, 0, 0, 1, 3, 0, 0, 3}));
  EXPECT_EQ(list(hessian([](const Tensor& v) { return prod(v) * sum(v); }, x)), (List{4, 6, 6, 2}));
}

TEST(CustomVjp, is_used_instead) {
  auto clipped = custom_vjp(
      [](const TensorList& x) { return x[0] * x[1]; },
      [](const TensorList& x, const Tensor& y, const Tensor& g) { return TensorList{clamp(g, -1, 1) * x[1], y}; });
  Tensor a = tensor({2.}).requires_grad_(), b = tensor({3.}).requires_grad_();
  Tensor y = clipped({a, b});
  EXPECT_EQ(list(y), (List{6}));
  TensorList g = grad(sum(y * 100), {a, b});
  EXPECT_EQ(list(g[0]), (List{3}));
  EXPECT_EQ(list(g[1]), (List{6}));
  auto wrong = custom_vjp([](const TensorList& x) { return x[0]; },
                          [](const TensorList&, const Tensor&, const Tensor&) { return TensorList{}; });
  EXPECT_THROW(grad(sum(wrong({a})), a), ValueError);
}

TEST(Checkpoint, gives_the_same_gradients) {
  Tensor w = tensor({{1., 2.}, {3., 4.}}).requires_grad_(), x = tensor({{0.5, -1.}}).requires_grad_();
  auto layer = [&](const Tensor& h) { return tanh(matmul(h, w)); };
  Tensor plain = sum(layer(layer(x)));
  Tensor kept = sum(checkpoint(layer, checkpoint(layer, x)));
  TensorList a = grad(plain, {w, x}), b = grad(kept, {w, x});
  EXPECT_EQ(list(plain), list(kept));
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(list(a[i]), list(b[i]));
  // And of second order.
  auto twice = [&](const Tensor& y) {
    return sum(grad([&](const Tensor& h) { return sum(checkpoint(layer, h)); })(y));
  };
  auto direct = [&](const Tensor& y) { return sum(grad([&](const Tensor& h) { return sum(layer(h)); })(y)); };
  List p = list(grad(twice)(x)), q = list(grad(direct)(x));
  for (size_t i = 0; i < p.size(); ++i) EXPECT_NEAR(p[i], q[i], 1e-5);
}

TEST(Checkpoint, passes_gradients_to_what_results_use_besides_the_arguments) {
  Tensor w = tensor({2.}).requires_grad_(), x = tensor({3.}).requires_grad_();
  auto f = [&](const TensorList& a) { return TensorList{a[0] * w, w * w}; };
  TensorList y = checkpoint(f, TensorList{x});
  EXPECT_EQ(list(grad(sum(y[0]) + sum(y[1]), w)), (List{7}));
  EXPECT_EQ(list(grad(sum(checkpoint([&](const Tensor&) { return w * w * w; }, x)), w)), (List{12}));
  auto looking = [](const Tensor& h) { return Tensor(h * h).realize() * 2; };
  EXPECT_EQ(list(grad(sum(checkpoint(looking, x)), x)), (List{12}));
}

// Two layers whose nested sums read statistics that one of their groups no longer computes.
TEST(Checkpoint, layers_of_norms_and_products) {
  constexpr int64_t kRows = 100, kWidth = 16;
  auto weight = [](Dims shape) { return (randn(shape) * 0.2).realize().requires_grad_(); };
  std::vector<TensorList> layers;
  for (int i = 0; i < 2; ++i) layers.push_back({weight({kWidth, 2 * kWidth}), weight({2 * kWidth, kWidth})});
  Tensor x = weight({kRows, kWidth});
  auto block = [](const TensorList& a) {
    Tensor n = a[0] * rsqrt(mean(a[0] * a[0], 1, true) + 0.01);
    return TensorList{a[0] + matmul(tanh(matmul(n, a[1])), a[2])};
  };
  auto gradients = [&](bool kept) {
    Tensor y = x;
    for (const TensorList& w : layers) {
      const TensorList all{y, w[0], w[1]};
      y = (kept ? checkpoint(block, all) : block(all))[0];
      y = y - mean(y, 1, true);
    }
    return grad(mean(square(tanh(y))), {x, layers[0][0], layers[0][1], layers[1][0], layers[1][1]});
  };
  TensorList plain = gradients(false), kept = gradients(true);
  realize(kept);
  for (size_t i = 0; i < plain.size(); ++i) {
    const List a = list(plain[i]), b = list(kept[i]);
    for (size_t k = 0; k < a.size(); ++k) ASSERT_NEAR(a[k], b[k], 1e-6) << i << " " << k;
  }
}

TEST(Checkpoint, recomputes_with_each_examples_own_indices) {
  Tensor x = tensor({{1., 2., 3.}, {4., 5., 6.}}), rows = tensor({{0, 2}, {1, 1}}, kI64);
  auto closed = [](const Tensor& y, const Tensor& i) {
    return checkpoint([&](const Tensor& h) { return square(gather(h, i)); }, y);
  };
  auto given = [](const Tensor& y, const Tensor& i) {
    return checkpoint([](const TensorList& h) { return square(gather(h[0], h[1])); }, TensorList{y, i});
  };
  List want{2, 0, 6, 0, 20, 0};
  EXPECT_EQ(list(grad([&](const Tensor& y) { return sum(vmap(closed)(y, rows)); })(x)), want);
  EXPECT_EQ(list(grad([&](const Tensor& y) { return sum(vmap(given)(y, rows)); })(x)), want);
}

TEST(GradOfFunctions, results_keep_no_history) {
  auto f = [](const Tensor& v) { return mean(square(Tensor(v * 2).realize())); };
  auto checkpointed = [](const Tensor& v) { return sum(checkpoint([](const Tensor& h) { return exp(h); }, v)); };
  Tensor w = tensor({0.5, 0.25}).realize();
  size_t before = 0;
  for (int i = 0; i < 20; ++i) {
    w -= grad(f)(w) * 0.1;
    w.realize();
    w -= value_and_grad(checkpointed)(w).second * 0.1;
    w.realize();
    w -= vjp(f, w).second(tensor(1.)) * 0.1;
    w.realize();
    w -= jvp(f, w, w).second * 0.1;
    w.realize();
    w -= jacobian(f, w) * 0.1;
    w.realize();
    EXPECT_FALSE(w.requires_grad());
    if (i == 1) before = live_nodes();
  }
  EXPECT_LE(live_nodes(), before);
}

TEST(Grad, checkpoints_have_tangents) {
  Tensor w = tensor({0.5, 0.25}), leaf = tensor({0.5, 0.25}).requires_grad_();
  auto wave = [](const Tensor& x, const Tensor& by) {
    return checkpoint([&](const Tensor& h) { return sin(h * by); }, x * 2);
  };
  for (Tensor x : {tensor({1., 2.}), tensor({1., 2.}).realize().with_dim(0, dim("n", 1, 8))}) {
    std::vector<double> want = testing::doubles(cos(x * 2 * w) * 2 * w);
    Tensor ones = ones_like(x);
    testing::expect_close(jvp([&](const Tensor& y) { return wave(y, w); }, x, ones).second, want);
    testing::expect_close(jvp([&](const Tensor& y) { return wave(y, leaf); }, x, ones).second, want);
    testing::expect_close(jit([&](const Tensor& y) {
                            return jvp([&](const Tensor& z) { return wave(z, w); }, y, ones_like(y)).second;
                          })(x),
                          want);
    // Tangents of tangents, and of two checkpoints.
    auto twice = [&](const Tensor& y) { return wave(wave(y, w), w); };
    auto plain = [&](const Tensor& y) { return sin(sin(y * 2 * w) * 2 * w); };
    auto tangent = [&](const auto& f) {
      return jvp([&](const Tensor& y) { return jvp(f, y, ones).second; }, x, ones).second;
    };
    testing::expect_close(tangent(twice), testing::doubles(tangent(plain)));
  }
}

TEST(Checkpoint, long_chains_take_linear_time) {
  Tensor w = tensor({0.5}).requires_grad_(), y = w * 1.;
  for (int i = 0; i < 5000; ++i) y = checkpoint([&](const Tensor& h) { return sin(h) * w; }, y);
  EXPECT_TRUE(grad(sum(y), w).node());
}

TEST(QualityRules, clamp_passes_gradients_at_its_limits) {
  Tensor v = tensor({-1., 0., 0.5, 1., 2.}).requires_grad_();
  EXPECT_EQ(list(grad(sum(clamp(v, 0, 1)), v)), (List{0, 1, 1, 1, 0}));
  EXPECT_EQ(list(grad(sum(relu6(v)), v)), (List{0, 0, 1, 1, 1}));
}

TEST(QualityRules, norm_and_masked_rows) {
  Tensor zero = zeros({3}).requires_grad_();
  EXPECT_EQ(list(grad(norm(zero), zero)), (List{0, 0, 0}));
  EXPECT_EQ(list(grad(sum(var(reshape(zero, {1, 3}), 1)), zero)), (List{0, 0, 0}));
  EXPECT_EQ(list(grad(sum(std(reshape(zero, {1, 3}), 1)), zero)), (List{0, 0, 0}));
  // A row that is masked out as a whole has no gradient, and no NaN.
  Tensor scores = tensor({{1., 2.}, {3., 4.}}).requires_grad_();
  Tensor mask = tensor({{1, 1}, {0, 0}}).cast(kBool);
  Tensor p = where(mask, softmax(where(mask, scores, -INFINITY), -1), 0);
  for (double g : list(grad(sum(p * p), scores))) EXPECT_TRUE(std::isfinite(g)) << g;
  Tensor s = tensor({{-INFINITY, -INFINITY}}).requires_grad_();
  for (double g : list(grad(sum(where(isfinite(logsumexp(s, 1)), logsumexp(s, 1), 0)), s))) EXPECT_EQ(g, 0);
}

TEST(Vmap, adds_an_axis_to_every_op) {
  Tensor x = rand({4, 3, 5}), y = rand({4, 5});
  auto same = [](const Tensor& a, const Tensor& b) {
    ASSERT_EQ(a.shape(), b.shape());
    List p = list(a), q = list(b);
    for (size_t i = 0; i < p.size(); ++i) ASSERT_NEAR(p[i], q[i], 1e-5);
  };
  auto by_hand = [](auto f, const Tensor& a) {
    TensorList rows;
    for (int64_t i = 0; i < a.size(0); ++i) rows.push_back(f(a[i]));
    return stack(rows);
  };
  std::vector<std::function<Tensor(const Tensor&)>> functions = {
      [](const Tensor& a) { return softmax(a, 0); },
      [](const Tensor& a) { return a.transpose() * 2; },
      [](const Tensor& a) { return cumsum(a, 1); },
      [](const Tensor& a) { return cast(argmax(a, 1), kF32); },
      [](const Tensor& a) { return sort(a, 1).values; },
      [](const Tensor& a) { return take_along_axis(a, argsort(a, 0), 0); },
      [](const Tensor& a) { return gather(a, argmax(a, 0), 0); },
      [](const Tensor& a) { return a(Slice(), tensor({0, 2}).cast(kI64)); },
      [](const Tensor& a) { return pad(a, {{1, 0}, {0, 2}}); },
      [](const Tensor& a) { return flip(a, 1)(Slice(1, 3)); },
      [](const Tensor& a) { return cat({a, zeros({3, 2})}, 1); },
      [](const Tensor& a) { return matmul(a, a.transpose()); },
      [](const Tensor& a) { return unfold(a, 1, 2, 1); },
      [](const Tensor& a) { return scatter_add(zeros({3, 5}), 0, argsort(a, 0), a); },
      [](const Tensor&) { return ones({2}); },
  };
  for (auto& f : functions) same(vmap(f)(x), by_hand(f, x));
  same(vmap([](const Tensor& a, const Tensor& b) { return matmul(a, b); })(x, y),
       squeeze(matmul(x, unsqueeze(y, -1)), -1));
  VmapOptions shared{.in_axes = {0, std::nullopt}};
  same(vmap([](const Tensor& a, const Tensor& b) { return matmul(a, b); }, shared)(x, y[0]), matmul(x, y[0]));
  VmapOptions middle{.in_axes = {1}, .out_axis = 1};
  same(vmap([](const Tensor& a) { return a * 2; }, middle)(x), x * 2);
}

TEST(Vmap, composes_with_grad_and_itself) {
  auto f = [](const Tensor& x) { return sum(sin(x) * x); };
  Tensor x = rand({3, 4});
  List each = list(vmap(grad(f))(x)), all = list(grad(f)(x));
  for (size_t i = 0; i < each.size(); ++i) EXPECT_NEAR(each[i], all[i], 1e-6);
  auto total = [&](const Tensor& y) { return sum(vmap(f)(y)); };
  List outer = list(grad(total)(x));
  for (size_t i = 0; i < each.size(); ++i) EXPECT_NEAR(outer[i], all[i], 1e-6);
  Tensor outer_product = vmap(
      [](const Tensor& a, const Tensor& b) {
        return vmap([](const Tensor& s, const Tensor& t) { return s * t; }, {.in_axes = {std::nullopt, 0}})(a, b);
      },
      {.in_axes = {0, std::nullopt}})(tensor({1., 2.}), tensor({3., 4.}));
  EXPECT_EQ(list(outer_product), (List{3, 4, 6, 8}));
  auto clipped = custom_vjp([](const TensorList& v) { return v[0] * v[0]; },
                            [](const TensorList& v, const Tensor&, const Tensor& g) { return TensorList{g * v[0]}; });
  List custom = list(vmap(grad([&](const Tensor& v) { return sum(clipped({v})); }))(x)), values = list(x);
  for (size_t i = 0; i < custom.size(); ++i) EXPECT_NEAR(custom[i], values[i], 1e-6);
  List mapped =
      list(grad([&](const Tensor& v) { return sum(vmap([&](const Tensor& r) { return clipped({r}); })(v)); })(x));
  for (size_t i = 0; i < mapped.size(); ++i) EXPECT_NEAR(mapped[i], values[i], 1e-6);
}

TEST(Vmap, refuses_to_look_at_values) {
  Tensor x = tensor({{1., 2.}, {3., 4.}}), other = tensor({5.});
  std::vector<std::string> parts{"grad_test.cpp:", "in a function that vmap() records", "outside"};
  auto refused = [&](const std::string& what, const std::function<void(const Tensor&)>& look) {
    parts.push_back(what);
    testing::expect_error<CaptureError>(
        [&] {
          vmap([&](const Tensor& row) {
            look(row * 2);
            return row;
          })(x);
        },
        parts);
    parts.pop_back();
  };
  refused("item()", [](const Tensor& row) { sum(row).item<float>(); });
  refused("realize()", [](const Tensor& row) { row.realize(); });
  refused("realize()", [&](const Tensor& row) { realize({other, row}); });
  parts.erase(parts.begin());  // these do not know the line
  refused("printing", [](const Tensor& row) { to_string(row); });
  refused("unique()", [](const Tensor& row) { unique(row); });
  // What does not depend on the examples has a value.
  List five = list(vmap([&](const Tensor& row) { return row * 0 + (other * 1).item<double>(); })(x));
  EXPECT_EQ(five, (List{5, 5, 5, 5}));
  auto looks = custom_vjp([](const TensorList& v) { return v[0] * 2; },
                          [](const TensorList&, const Tensor&, const Tensor& g) {
                            g.realize();
                            return TensorList{g * 2};
                          });
  auto f = [&](const Tensor& v) { return looks({v}); };
  testing::expect_error<CaptureError>([&] { jacobian(f, other); }, {"realize()", "jacobian() records"});
  testing::expect_error<CaptureError>([&] { jvp(f, other, other); }, {"realize()", "jvp() records"});
}

TEST(Hessian, is_named_in_its_errors) {
  auto several = [](const Tensor& x) { return x * x; };
  testing::expect_error<ShapeError>([&] { hessian(several, tensor({1., 2.})); },
                                    {"hessian: ", "f32[2]", "one element"});
  testing::expect_error<ShapeError>([&] { grad(several)(tensor({1., 2.})); }, {"grad: ", "jacobian()"});
  testing::expect_error<DTypeError>([&] { hessian(several, tensor({1, 2}, kI64)); }, {"hessian: ", "i64"});
  testing::expect_error<DTypeError>([&] { jacobian(several, tensor({1, 2}, kI64)); }, {"jacobian: ", "i64"});
}

TEST(Vmap, refuses_what_does_not_fit) {
  auto f = vmap([](const Tensor& a, const Tensor& b) { return a + b; });
  EXPECT_THROW(f(zeros({2, 3}), zeros({3, 3})), ShapeError);
  EXPECT_THROW(f(zeros({2, 3}), zeros({})), ShapeError);
  EXPECT_THROW(vmap([](const Tensor& a) { return a; }, {.in_axes = {std::nullopt}})(zeros({2})), ValueError);
}

}  // namespace
}  // namespace heddle
