// Whole training runs: gradients, losses and optimisers together.
#include <heddle/grad.h>
#include <heddle/nn.h>
#include <heddle/optim.h>

#include "base/sanitizers.h"
#include "graph/graph.h"
#include "runtime/device.h"
#include "runtime/plan.h"
#include "tensor/helpers.h"

namespace heddle::optim {
namespace {

using namespace heddle::testing;

struct TextNet : nn::Module<TextNet> {
  nn::Embedding table{11, 8};
  nn::LayerNorm norm{8};
  nn::Linear out{8, 5};
  Tensor operator()(const Tensor& ids) const { return out(norm(table(ids)).mean(1)); }
  template <class V>
  void visit(V& v) {
    v("table", table);
    v("norm", norm);
    v("out", out);
  }
};

struct AttentionNet : nn::Module<AttentionNet> {
  nn::Embedding table{11, 8};
  std::vector<nn::RMSNorm> norms{nn::RMSNorm(8), nn::RMSNorm(8)};
  std::vector<nn::MultiHeadAttention> layers{nn::MultiHeadAttention(8, 2, true), nn::MultiHeadAttention(8, 2, true)};
  nn::Linear out{8, 5};
  Tensor operator()(const Tensor& ids) const {
    Tensor x = table(ids);
    for (size_t i = 0; i < layers.size(); ++i) x = x + layers[i](norms[i](x));
    return out(x.mean(1));
  }
  template <class V>
  void visit(V& v) {
    v("table", table);
    v("norms", norms);
    v("layers", layers);
    v("out", out);
  }
};

Tensor labels() { return tensor({0, 3, 1, 4, 2, 0}, kI64); }
Tensor words() { return (arange(6 * 7) * 5 % 11).reshape(6, 7).realize(); }

// The losses of 50 steps of AdamW in double precision: graphs by the evaluator, the update by a loop.
template <class Net>
std::vector<double> reference(Net net, const Tensor& x, const AdamWOptions& o) {
  net.to(kF64);
  std::vector<Tensor> parameters = net.parameters();
  std::vector<std::vector<double>> p, m, v;
  for (const Tensor& tensor : parameters) {
    p.push_back(doubles(tensor));
    m.emplace_back(p.back().size());
    v.emplace_back(p.back().size());
  }
  std::vector<double> losses;
  for (int64_t t = 0; t < 50; ++t) {
    Tensor loss = cross_entropy(net(x), labels());
    std::vector<NodeRef> roots{loss.node()};
    for (const Tensor& g : grad(loss, parameters)) roots.push_back(g.node());
    std::vector<HostArray> values = evaluate(roots);
    losses.push_back(values[0].floats[0]);
    double n = static_cast<double>(t + 1), lr = o.lr(t);
    for (size_t i = 0; i < p.size(); ++i) {
      for (size_t k = 0; k < p[i].size(); ++k) {
        double g = values[i + 1].floats[k];
        p[i][k] *= 1 - lr * o.weight_decay;
        m[i][k] = o.beta1 * m[i][k] + (1 - o.beta1) * g;
        v[i][k] = o.beta2 * v[i][k] + (1 - o.beta2) * g * g;
        double root = std::sqrt(v[i][k] / (1 - std::pow(o.beta2, n)));
        p[i][k] -= lr * m[i][k] / (1 - std::pow(o.beta1, n)) / (root + o.epsilon);
      }
      parameters[i].assign(from_vector(p[i], parameters[i].shape()));
    }
  }
  return losses;
}

template <class Net>
void check(Net net, const Tensor& x) {
  AdamWOptions options{.lr = warmup(5, cosine(0.01, 45)), .epsilon = 1e-6, .weight_decay = 0.1};
  std::vector<double> want = reference(net.copy(), x, options);
  AdamW opt(net, options);
  for (size_t t = 0; t < want.size(); ++t) {
    Tensor loss = cross_entropy(net(x), labels());
    opt.step(grad(loss, net.parameters()), {loss});
    ASSERT_NEAR(loss.item<double>(), want[t], 1e-4 * want[t]) << "at step " << t;
  }
  EXPECT_LT(want.back(), 0.8 * want.front());
}

TEST(Training, a_perceptron_follows_the_evaluator_in_double) {
  manual_seed(1);
  check(nn::Sequential(nn::Linear(12, 32), nn::ReLU(), nn::Linear(32, 5)), noise_tensor({6, 12}));
}

TEST(Training, embedding_and_norm_follow_the_evaluator_in_double) {
  manual_seed(2);
  check(TextNet(), words());
}

TEST(Training, two_layers_of_attention_follow_the_evaluator_in_double) {
  manual_seed(3);
  check(AttentionNet(), words());
}

TEST(Training, frozen_parameters_stay_and_the_rest_learns) {
  nn::Sequential net(nn::Linear(12, 8), nn::Tanh(), nn::Linear(8, 5));
  net.freeze("0");
  std::vector<double> before = doubles(net.at<nn::Linear>(0).weight);
  SGD opt(net, {.lr = 0.1});
  Tensor x = noise_tensor({6, 12});
  double first = 0, last = 0;
  for (int i = 0; i < 20; ++i) {
    Tensor loss = cross_entropy(net(x), labels());
    opt.step(grad(loss, net.parameters()), {loss});
    (i == 0 ? first : last) = loss.item<double>();
  }
  EXPECT_LT(last, first);
  expect_equal(net.at<nn::Linear>(0).weight, before);
}

TEST(Training, backward_and_step_are_the_same_as_grad) {
  manual_seed(4);
  nn::Linear a(12, 5), b = a.copy();
  SGD opt_a(a, {.lr = 0.1, .momentum = 0.9}), opt_b(b, {.lr = 0.1, .momentum = 0.9});
  Tensor x = noise_tensor({6, 12});
  for (int i = 0; i < 3; ++i) {
    opt_a.step(grad(cross_entropy(a(x), labels()), a.parameters()));
    opt_b.zero_grad();
    cross_entropy(b(x), labels()).backward();
    opt_b.step();
  }
  expect_close(b.weight, doubles(a.weight));
  nn::Linear fresh(2, 2);
  SGD none(fresh, {});
  expect_error<ValueError>([&] { none.step(); }, {"weight", "backward"});
}

TEST(Training, a_copy_and_a_converted_module_have_gradients_of_their_own) {
  nn::Linear a(3, 2);
  nn::Linear b = a.copy();
  b.to(kF64);
  std::vector<Tensor> g = grad(b(ones({1, 3}, kF64)).sum(), b.parameters());
  expect_equal(g[0], {1, 1, 1, 1, 1, 1});
  EXPECT_EQ(g[0].dtype(), kF64);
  EXPECT_THROW(grad(b(ones({1, 3}, kF64)).sum(), a.parameters()), Error);
}

TEST(Training, binary_cross_entropy_has_the_right_gradient_at_a_logit_of_zero) {
  Tensor x = tensor({0, 1, -2}).requires_grad_(), t = tensor({1, 0, 0.25});
  Tensor g = grad(bce_with_logits(x, t, {.reduction = Reduction::Sum}), x);
  expect_close(g, {-0.5, 1 / (1 + std::exp(-1.0)), 1 / (1 + std::exp(2.0)) - 0.25}, 1e-6);
}

TEST(Training, small_floats_learn_too) {
  manual_seed(5);
  nn::Sequential net(nn::Linear(12, 16), nn::GELU(), nn::Linear(16, 5));
  net.to(kBF16);
  AdamW opt(net, {.lr = 0.01});
  Tensor x = cast(noise_tensor({6, 12}), kBF16).realize();
  double first = 0, last = 0;
  for (int i = 0; i < 40; ++i) {
    Tensor loss = cross_entropy(net(x), labels());
    opt.step(grad(loss, net.parameters()), {loss});
    (i == 0 ? first : last) = loss.item<double>();
  }
  EXPECT_LT(last, 0.3 * first);
}

TEST(Training, memory_of_a_long_run_stays_flat) {
  nn::Sequential net(nn::Linear(12, 16), nn::ReLU(), nn::Dropout(0.1), nn::Linear(16, 5));
  AdamW opt(net, {.lr = warmup(10, 1e-3)});
  Tensor x = noise_tensor({6, 12});
  uint64_t used = 0;
  size_t nodes = 0, plans = 0;
  constexpr int kSteps = HD_ADDRESS_SANITIZER ? 300 : 10000;
  for (int i = 0; i < kSteps; ++i) {
    Tensor loss = cross_entropy(net(x), labels());
    opt.step(clip_grad_norm(grad(loss, net.parameters()), 1).gradients, {loss});
    if (i == 20) {
      used = device().memory().used;
      nodes = live_nodes();
      plans = plan_cache_size();
    }
    if (i > 20) {
      ASSERT_LE(device().memory().used, used) << "at step " << i;
      ASSERT_LE(live_nodes(), nodes) << "at step " << i;
      ASSERT_LE(plan_cache_size(), plans) << "at step " << i;
    }
  }
}

TEST(Training, freezing_after_the_optimiser_was_made_is_named) {
  nn::Linear net(2, 1);
  optim::SGD o(net, {.lr = 0.1});
  net.freeze("weight");
  Tensor x = tensor({{1., 2.}});
  sum(net(x)).backward();
  expect_error<ValueError>([&] { o.step(); }, {"weight has no gradient", "frozen after the optimiser was made"});
  expect_error<ValueError>([&] { o.step(grad(sum(net(x)), net.parameters())); },
                           {"1 gradients for 2 parameters", "Of weight", "frozen after the optimiser was made"});
}

}  // namespace
}  // namespace heddle::optim
