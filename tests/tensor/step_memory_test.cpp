// What a training step keeps in memory between its launches.
#include "graph/build.h"
#include "graph/gradient.h"
#include "helpers.h"

namespace heddle {
namespace {

using namespace testing;

struct Mlp {
  std::vector<Tensor> weights, biases;
  std::function<Tensor(const Tensor&)> activation;

  Tensor layers(Tensor x, size_t first, size_t last) const {
    for (size_t i = first; i < last; ++i) x = activation(matmul(x, weights[i]) + biases[i]);
    return x;
  }
};

Mlp make_mlp(int layers, int64_t width, std::function<Tensor(const Tensor&)> activation) {
  Mlp net;
  net.activation = std::move(activation);
  for (int i = 0; i < layers; ++i) {
    auto seed = static_cast<uint64_t>(i);
    net.weights.push_back(
        (noise_tensor({width, width}, seed) * (0.5 / std::sqrt(static_cast<double>(width)))).realize());
    net.biases.push_back((noise_tensor({width}, seed + 100) * 0.1).realize());
  }
  return net;
}

std::vector<Tensor> gradients(const Tensor& y, const Tensor& arriving, const std::vector<Tensor>& inputs) {
  std::vector<NodeRef> nodes;
  for (const Tensor& x : inputs) nodes.push_back(x.node());
  NodeRef output = y.node(), cotangent = arriving.node();
  std::vector<Tensor> result;
  for (const NodeRef& g : gradient({&output, 1}, {&cotangent, 1}, nodes)) result.emplace_back(g);
  return result;
}

// Gradients of the mean squared error for all weights and biases. With `every` > 0 only what enters each run of so many
// layers is kept; the rest is computed again when the gradient arrives.
std::vector<Tensor> step(const Mlp& net, const Tensor& x, const Tensor& target, size_t every) {
  size_t count = net.weights.size();
  if (every == 0) every = count;
  std::vector<Tensor> entering{x};
  for (size_t i = 0; i < count; i += every) entering.push_back(net.layers(entering.back(), i, i + every));
  Tensor y = entering.back();
  Tensor arriving = (y - target) * (2.0 / static_cast<double>(y.numel()));
  std::vector<Tensor> weights(count), biases(count);
  for (size_t end = count, part = count / every; part-- > 0; end -= every) {
    size_t begin = end - every;
    Tensor in = entering[part], out = entering[part + 1];
    if (every < count) {
      in = Tensor(make_barrier(in.node(), arriving.node()));
      out = net.layers(in, begin, end);
    }
    std::vector<Tensor> wanted{in};
    for (size_t i = begin; i < end; ++i) wanted.insert(wanted.end(), {net.weights[i], net.biases[i]});
    std::vector<Tensor> found = gradients(out, arriving, wanted);
    arriving = found[0];
    for (size_t i = begin; i < end; ++i) {
      weights[i] = found[1 + 2 * (i - begin)];
      biases[i] = found[2 + 2 * (i - begin)];
    }
  }
  weights.insert(weights.end(), biases.begin(), biases.end());
  return weights;
}

struct Used {
  uint64_t arena, bound, launches;
};
Used run(std::vector<Tensor>& results) {
  StatsSince stats;
  realize(results);
  return {stats->arena_bytes, stats->arena_lower_bound, stats->launches};
}

class DeepMlp : public ::testing::TestWithParam<const char*> {};

TEST_P(DeepMlp, needs_little_more_than_what_lives_and_half_of_it_with_checkpoints) {
  std::string kind = GetParam();
  Mlp net = make_mlp(12, 96, [kind](const Tensor& z) {
    return kind == "tanh" ? tanh(z) : kind == "relu" ? relu(z) : gelu(z);
  });
  Tensor x = noise_tensor({512, 96}, 7), target = noise_tensor({512, 96}, 8);
  std::vector<Tensor> plain = step(net, x, target, 0), checked = step(net, x, target, 3);
  Used all = run(plain), less = run(checked);
  EXPECT_LE(static_cast<double>(all.arena), 1.1 * static_cast<double>(all.bound));
  EXPECT_LE(static_cast<double>(less.arena), 1.1 * static_cast<double>(less.bound));
  // In tensors of one layer. Plain, what enters each of the twelve lives at once, and a gradient; GELU needs twice as
  // much of each. With checkpoints what enters every third layer does, and three more layers and a gradient.
  const double layer = 512 * 96 * 4;
  EXPECT_LE(static_cast<double>(all.arena) / layer, kind == "gelu" ? 25 : 13);
  EXPECT_LE(static_cast<double>(less.arena) / layer, kind == "gelu" ? 11 : 8);
  for (size_t i = 0; i < plain.size(); ++i) expect_close(checked[i], doubles(plain[i]), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Activations, DeepMlp, ::testing::Values("tanh", "relu", "gelu"));

// Tokens are looked up by several kernels, going forward and backward. Their indices are checked once, before anything
// is written: all weights and moments are updated in place, and a bad token leaves them as they were.
TEST(StepMemory, indices_are_checked_once_and_state_has_one_buffer) {
  Tensor table = noise_tensor({64, 32}, 1).realize(), scale = noise_tensor({32}, 2).realize(),
         head = noise_tensor({32, 64}, 3).realize();
  std::vector<Tensor> state{table, scale, head};
  for (Tensor& x : state) x.requires_grad_();
  for (int i = 0; i < 3; ++i) state.push_back(zeros_like(state[static_cast<size_t>(i)]).realize());
  auto step = jit([&](const Tensor& ids, const Tensor& targets) {
    Tensor x = take(table, ids, 0);
    Tensor hidden = tanh(x * rsqrt(mean(square(x), -1, true)) * scale) + x;
    Tensor loss = cross_entropy(matmul(hidden, head), targets);
    std::vector<Tensor> g = grad(loss, {table, scale, head});
    for (size_t i = 0; i < 3; ++i) {
      state[3 + i] *= 0.9;
      state[3 + i] += g[i];
      state[i] -= 0.1 * state[3 + i];
    }
    return loss;
  });
  Tensor ids = tensor({1, 49, 7, 7, 0, 3}, kI64).realize(), targets = tensor({3, 4, 5, 6, 7, 49}, kI64).realize();
  for (int i = 0; i < 3; ++i) step(ids, targets).realize();
  // The kernel of a GPU that updates `scale` reads its old value in another order.
  const uint64_t copied = device().target().machine == Machine::Simt ? 1 : 0;
  EXPECT_LE(step.plans()[0].copied, copied) << to_string(step.plans()[0]);
  EXPECT_GE(step.plans()[0].donated, 6 - copied);
  std::vector<std::vector<double>> before, after;
  for (const Tensor& x : state) before.push_back(doubles(x));
  EXPECT_THROW(step(tensor({1, 2, 64, 7, 0, 3}, kI64), targets).realize(), IndexError);
  EXPECT_THROW(step(ids, tensor({1, 2, -3, 7, 0, 64}, kI64)).realize(), IndexError);
  for (const Tensor& x : state) after.push_back(doubles(x));
  EXPECT_EQ(before, after);
  step(ids, targets).realize();
}

// An index that was only looked at in part is checked where the rest of it is used.
TEST(StepMemory, parts_of_an_index_do_not_vouch_for_all_of_it) {
  Tensor table = noise_tensor({10, 4}, 1).realize(), ids = tensor({1, 2, 3, 10}, kI64).realize();
  Tensor rows = take(table, ids, 0);
  Tensor few = sum(slice(rows, 0, 0, 3), 0);
  EXPECT_NO_THROW(take(table, ids, 0).slice(0, 0, 3).realize());
  EXPECT_THROW(realize({few, sum(rows + sum(few), 1)}), IndexError);
}

}  // namespace
}  // namespace heddle
