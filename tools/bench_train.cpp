// Whole models: a perceptron's training step, GPT-2 124M, ResNet-18; random weights and data. Every row has its floor.
#include <heddle/heddle.h>

#include <cstdio>

#include "base/error.h"
#include "runtime/device.h"
#include "runtime/kernel_cache.h"
#include "runtime/plan.h"
#include "tools/contest.h"
#include "tools/perceptron.h"

namespace heddle::tools {
namespace {

double number(int64_t value) { return static_cast<double>(value); }

// What AdamW moves for each f32 parameter: it reads the parameter, its gradient and two moments, and writes three.
constexpr double kAdamBytes = 7 * 4;
// In bf16 the parameter is written only, the gradient has half the size, and there is an f32 copy to read and write.
constexpr double kSmallAdamBytes = 2 + 2 + 6 * 4;

void measure_perceptron(Peers& peers, double seconds, const Report& report) {
  manual_seed(1);
  auto of = std::make_shared<Perceptron>();
  Contest contest = perceptron_contest("ms", of);
  // Forward, gradients of both weights, and the one gradient that goes further down.
  contest.flops = 2 * number(kPerceptronBatch) *
                  number(2 * kPerceptronInputs * kPerceptronHidden + 3 * kPerceptronHidden * kPerceptronClasses);
  contest.moved = kAdamBytes * number(of->net.parameter_count());
  contest.share_bar = 0.7;
  run_contest(peers, contest, seconds, report);
}

// ---- GPT-2 ----

constexpr int64_t kTokens = 256;

// Multiplications with weights, and with what the places before have left.
double forward_flops(const models::GPT2Config& c) {
  double products = number(c.layers * 12 * c.width * c.width + c.width * c.vocabulary);
  return 2 * number(kTokens) * products + 2 * number(kTokens * kTokens) * number(c.width * c.layers);
}

struct Batch {
  Tensor ids = randint({1, kTokens}, 0, models::gpt2_small().vocabulary).realize();
  Tensor targets = randint({1, kTokens}, 0, models::gpt2_small().vocabulary).realize();
};

std::string gpt2_name(const char* what, DType dtype) { return text("GPT-2 124M ", dtype, ", 1x256 tokens, ", what); }

void measure_gpt2_forward(Peers& peers, double seconds, const Report& report) {
  if (!wanted(gpt2_name("forward", kF32))) return;
  models::GPT2 net(models::gpt2_small());
  net.eval();
  Batch batch;
  auto forward = jit([&](const Tensor& ids) { return net(ids); });
  Contest contest{.name = gpt2_name("forward", kF32), .group = "GPT-2", .unit = "ms"};
  contest.row = {{"work", "gpt2_forward"}, {"dtype", "f32"}, {"batch", 1}, {"tokens", kTokens}};
  contest.flops = forward_flops(net.config);
  contest.ours = [&] { forward(batch.ids); };
  contest.share_bar = 0.7;
  run_contest(peers, contest, seconds, report);
}

// Also how long the first call took, in which everything is compiled.
void measure_gpt2_step(DType dtype, Peers& peers, double seconds, const Report& report) {
  bool small = dtype != kF32;
  std::string name = gpt2_name("step with AdamW", dtype), ready = gpt2_name("step, first call to ready", dtype);
  if (!wanted(name) && !wanted(ready)) return;
  models::GPT2Config config = models::gpt2_small();
  config.dtype = dtype;
  models::GPT2 net(config);
  optim::AdamW opt(net.parameters(), {.lr = 1e-4});
  Batch batch;
  auto step = jit([&](const Tensor& ids, const Tensor& targets) {
    Tensor loss = net.loss(ids, targets);
    opt.step(grad(loss, net.parameters()));
    return loss;
  });
  auto call = [&] { step(batch.ids, batch.targets).realize(); };
  clear_plan_cache();
  clear_kernel_cache();
  double start = now();
  call();
  double first = now() - start;
  start = now();
  call();
  double second = now() - start;
  if (wanted(ready)) {
    Figure figure{.name = ready, .unit = "s"};
    figure.ours = figure.median = first - second;
    figure.reference = 8;
    figure.reference_name = "bar: at most";
    figure.ratio = figure.reference / figure.ours;
    figure.bar = small ? std::nullopt : std::optional<double>(1);
    figure.note = text(step.plans()[0].launches, " launches, ", kernel_cache_size(), " kernels");
    report(figure);
  }
  Contest contest{.name = name, .group = "GPT-2", .unit = "ms"};
  contest.row = {{"work", "gpt2_step"}, {"dtype", heddle::name(dtype)}, {"batch", 1}, {"tokens", kTokens}};
  contest.flops = 3 * forward_flops(net.config);
  contest.moved = (small ? kSmallAdamBytes : kAdamBytes) * number(net.parameter_count());
  contest.peak = small ? Peak::BF16 : Peak::F32;
  contest.ours = call;
  contest.share_bar = small ? std::nullopt : std::optional<double>(0.6);
  run_contest(peers, contest, seconds, report);
}

void measure_resnet(Peers& peers, double seconds, const Report& report) {
  constexpr int64_t kBatch = 8;
  constexpr double kProducts = 1'814'073'344;  // for one image of 224 x 224
  if (!wanted("ResNet-18 inference, batch 8")) return;
  models::ResNet net(models::resnet18());
  net.eval();
  Tensor images = randn({kBatch, 3, 224, 224}).realize();
  auto infer = jit([&](const Tensor& x) { return net(x); });
  Contest contest{.name = "ResNet-18 inference, batch 8", .group = "ResNet-18", .unit = "ms"};
  contest.row = {{"work", "resnet18"}, {"dtype", "f32"}, {"batch", kBatch}};
  contest.flops = 2 * number(kBatch) * kProducts;
  contest.ours = [&] { infer(images); };
  contest.share_bar = 0.8;
  infer(images);
  contest.note = text(infer.plans()[0].launches, " launches");
  run_contest(peers, contest, seconds, report);
}

}  // namespace

void measure_train(double seconds, const Report& report) {
  Peers peers(device("cpu").threads(), peers_python());
  measure_perceptron(peers, seconds, report);
  measure_gpt2_forward(peers, seconds, report);
  measure_gpt2_step(kF32, peers, seconds, report);
  measure_gpt2_step(kBF16, peers, seconds, report);
  measure_resnet(peers, seconds, report);
}

}  // namespace heddle::tools
