// Every model of bench/zoo: captured inference and training steps must give the numbers of the evaluator, which trains
// the same model in double precision. HEDDLE_DEVICE=null compiles them alone.
#include <gtest/gtest.h>

#include <cmath>

#include "base/config.h"
#include "bench/zoo/build.h"
#include "zoo/evaluated.h"

namespace heddle {
namespace {

using testing::evaluated;
using zoo::Entry;
using zoo::Instance;
using zoo::Size;

bool runs() { return config().device != "null"; }
// Ten steps on the machine's own target, where f64 is looked at as well; elsewhere that the target is right is seen by
// fewer.
bool whole() { return config().device.empty() && config().target.empty(); }
int steps() { return whole() ? 10 : runs() ? 2 : 1; }

// What a run gives: inference before and after the training, and the losses of all steps.
struct Record {
  std::vector<std::vector<double>> forward, losses;
};

// Calls `run` with the model's functions: inference, training, inference.
void go_through(Instance& model, bool infers, Record& record,
                const std::function<std::vector<std::vector<double>>(bool step)>& run) {
  auto infer = [&] {
    if (!infers) return;
    model.train(false);
    for (std::vector<double>& value : run(false)) record.forward.push_back(std::move(value));
    model.train(true);
  };
  infer();
  for (int t = 0; t < steps(); ++t) {
    std::vector<double>& losses = record.losses.emplace_back();
    for (const std::vector<double>& loss : run(true)) losses.push_back(loss.at(0));
  }
  infer();
}

Record reference(const Entry& entry) {
  Instance model = entry.make(Size::Small, kF64);
  TensorList batch = model.batch();
  Record record;
  go_through(model, true, record, [&](bool step) {
    std::vector<std::vector<double>> values;
    for (const HostArray& value : evaluated([&] { return step ? model.step(batch) : model.forward(batch); }))
      values.push_back(value.floats);
    return values;
  });
  return record;
}

// With `nudge`, first values are off by up to a rounding of f32, in another way for each number.
Record trained(const Entry& entry, DType dtype, bool infers, uint64_t nudge = 0) {
  Instance model = entry.make(Size::Small, dtype);
  Generator generator(nudge);
  for (auto& [name, value] : model.state) {
    if (!nudge || !is_float(value.dtype())) continue;
    Tensor tensor = value;
    tensor.assign(value * (1 + std::ldexp(1.0, -24) * (2 * rand(value.shape(), dtype, generator) - 1)));
    tensor.realize();
  }
  TensorList batch = model.batch();
  auto forward = jit([&](const TensorList& given) { return model.forward(given); });
  auto step = jit([&](const TensorList& given) { return model.step(given); });
  Record record;
  go_through(model, infers, record, [&](bool steps) {
    std::vector<std::vector<double>> values;
    for (const Tensor& value : steps ? step(batch) : forward(batch)) values.push_back(value.to_vector<double>());
    return values;
  });
  return record;
}

// Sums of thousands of terms round by some 1e-6 of the result in f32 and by 1e-14 in f64. A step turns a relative error
// of a gradient into one of at most the rate times as much, which later steps repeat. What is rounded are logits around
// one, also where the loss has become small. Small floats round by some 1e-3 (f16) or 1e-2 (bf16) in every layer.
double tolerance(DType dtype) {
  if (dtype == kF64) return 1e-9;
  if (dtype == kF32) return 1e-4;
  return dtype == kF16 ? 1e-2 : 1e-1;
}

// How far inference in double precision goes apart when first values are rounded to f32: no arithmetic in f32 can be
// closer than that. After ten steps it may be thousands of roundings.
std::vector<double> spread(const Entry& entry, const std::vector<std::vector<double>>& want) {
  std::vector<double> most(want.size(), 0);
  for (uint64_t nudge : {1, 2, 3}) {
    const Record got = trained(entry, kF64, true, nudge);
    for (size_t i = 0; i < want.size(); ++i)
      for (size_t k = 0; k < want[i].size(); ++k)
        most[i] = std::max(most[i], std::fabs(got.forward.at(i).at(k) - want[i][k]));
  }
  return most;
}

void compare(const std::vector<std::vector<double>>& got, const std::vector<std::vector<double>>& want,
             double tolerance, const std::string& what, const std::vector<double>& spread = {}) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(got[i].size(), want[i].size()) << what;
    double scale = 1, worst = 0;
    for (double value : want[i]) scale = std::max(scale, std::fabs(value));
    size_t where = 0;
    for (size_t k = 0; k < want[i].size(); ++k) {
      double off = std::fabs(got[i][k] - want[i][k]);
      if (!(off <= worst)) worst = off, where = k;
    }
    EXPECT_LE(worst, tolerance * scale + (spread.empty() ? 0 : 2 * spread[i]))
        << what << " " << i << ", element " << where << ": " << got[i][where] << " instead of " << want[i][where];
  }
}

void check(const Entry& entry) {
  // Compiled alone: in the model's own dtype, or in one that matrix units multiply.
  if (!runs()) return void(trained(entry, config().matrix_unit == "none" ? entry.dtype : kBF16, true));
  Record want = reference(entry);
  std::vector<DType> dtypes{entry.dtype};
  if (whole()) dtypes = entry.dtype == kF32 ? std::vector{kF64, kF32} : std::vector{kF64, kF32, entry.dtype};
  for (DType dtype : dtypes) {
    const bool infers = whole() && dtype != kF64;  // as a step does, without what else is in it
    Record got = trained(entry, dtype, infers);
    const std::vector<double> apart = infers && dtype == kF32 ? spread(entry, want.forward) : std::vector<double>();
    if (infers) compare(got.forward, want.forward, tolerance(dtype), std::string(name(dtype)) + " inference", apart);
    compare(got.losses, want.losses, tolerance(dtype), std::string(name(dtype)) + " losses of step");
  }
  if (want.losses[0].size() == 1) {
    EXPECT_LT(want.losses.back()[0], want.losses.front()[0]);
  }
}

class Zoo : public ::testing::TestWithParam<Entry> {};

TEST_P(Zoo, trains_as_the_evaluator_does) { check(GetParam()); }

Instance make_fifty_thousand_classes(Size, DType dtype) {
  manual_seed(7);
  nn::Sequential net(nn::Linear(12, 32), nn::Tanh(), nn::Linear(32, 50257));
  return zoo::classifier(net, zoo::noise({8, 12}), zoo::classes({8}, 50257), dtype);
}

TEST(ZooSlow, fifty_thousand_classes) { check({"fifty_thousand_classes", "", make_fifty_thousand_classes}); }

INSTANTIATE_TEST_SUITE_P(Models, Zoo, ::testing::ValuesIn(zoo::entries()),
                         [](const auto& model) { return std::string(model.param.name); });

}  // namespace
}  // namespace heddle
