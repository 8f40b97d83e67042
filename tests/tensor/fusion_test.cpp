// Launches, and bytes that they move: written as plain tensor code, each of these is one pass over its data.
#include "helpers.h"
#include "runtime/device.h"

namespace heddle {
namespace {

using namespace testing;

// Realises, checks launches and traffic: at most 1.05 times `elements` f32 inputs and outputs.
void expect_one_pass(std::initializer_list<Tensor> results, double elements) {
  StatsSince stats;
  realize(results);
  EXPECT_EQ(stats->launches, 1u);
  // A GPU divides reductions among more blocks than a CPU, by way of memory.
  if (device().target().machine != Machine::Simt) {
    EXPECT_LE(static_cast<double>(stats.bytes()), 1.05 * 4 * elements);
  }
  EXPECT_GE(static_cast<double>(stats.bytes()), 0.99 * 4 * elements);
}

TEST(Fusion, softmax_is_one_pass) {
  for (int64_t n : {50, 1000, 4096}) {
    Tensor x = noise_tensor({64, n});
    expect_one_pass({softmax(x, -1)}, 2.0 * 64 * static_cast<double>(n));
  }
}

TEST(Fusion, softmax_over_the_first_axis_is_one_pass) {
  Tensor x = noise_tensor({200, 300});
  expect_one_pass({softmax(x, 0)}, 2.0 * 200 * 300);
}

TEST(Fusion, log_softmax_is_one_pass) {
  Tensor x = noise_tensor({64, 1000});
  expect_one_pass({log_softmax(x, -1)}, 2.0 * 64 * 1000);
}

TEST(Fusion, layer_norm_as_plain_tensor_code_is_one_pass) {
  Tensor x = noise_tensor({100, 768}), gain = noise_tensor({768}, 2), bias = noise_tensor({768}, 3);
  Tensor centred = x - x.mean({-1}, true);
  Tensor variance = mean(centred * centred, {-1}, true);
  Tensor y = centred * rsqrt(variance + 1e-5) * gain + bias;
  expect_one_pass({y}, 2.0 * 100 * 768 + 2 * 768);
  expect_one_pass({layer_norm(x)}, 2.0 * 100 * 768);
}

TEST(Fusion, elementwise_chains_are_one_pass) {
  Tensor x = noise_tensor({300, 301}), y = noise_tensor({300, 301}, 2);
  expect_one_pass({tanh(x * 2 + 1)}, 2.0 * 300 * 301);
  expect_one_pass({exp(tanh(exp(x) * 0.1) - y) / (1 + square(y))}, 3.0 * 300 * 301);
}

TEST(Fusion, mean_and_variance_together_are_one_pass) {
  Tensor x = noise_tensor({500, 400});
  expect_one_pass({x.mean({1}), var(x, {1}, false, 0)}, 500.0 * 400 + 2 * 500);
}

TEST(Fusion, independent_reductions_of_one_tensor_are_one_pass) {
  Tensor x = noise_tensor({500, 400});
  expect_one_pass({x.sum({1}), x.max({1}), sum(x * x, {1})}, 500.0 * 400 + 3 * 500);
  Tensor y = noise_tensor({300000});
  expect_one_pass({y.sum(), y.min()}, 300000);
  expect_one_pass({var(y)}, 300000);
  Tensor wide = noise_tensor({900, 1000});
  expect_one_pass({var(wide, {0})}, 900.0 * 1000 + 1000);
}

TEST(Fusion, elementwise_results_of_one_tensor_are_one_pass) {
  Tensor x = noise_tensor({300, 301});
  expect_one_pass({x + 1, x * 2}, 3.0 * 300 * 301);
}

TEST(Fusion, a_whole_sum_of_an_expression_is_few_launches) {
  Tensor x = noise_tensor({1000, 1000});
  StatsSince stats;
  softmax(tanh(x * 2 + 1), -1).sum().realize();
  EXPECT_LE(stats->launches, 3u);
  EXPECT_LE(static_cast<double>(stats.bytes()), 1.05 * 4 * 3e6);
}

TEST(Fusion, sum_of_a_tensor_is_one_launch_and_reads_once) {
  Tensor x = noise_tensor({1000, 1000});
  StatsSince stats;
  x.sum().realize();
  EXPECT_LE(stats->launches, 1u);
  EXPECT_LE(static_cast<double>(stats.bytes()), 1.05 * 4e6);
}

TEST(Fusion, views_cost_nothing) {
  Tensor x = noise_tensor({100, 200});
  expect_one_pass({flip(x.transpose().reshape({100, 200}), {0}) * 2}, 2.0 * 100 * 200);
}

TEST(Fusion, a_matmul_with_its_epilogue_is_one_launch) {
  Tensor a = noise_tensor({64, 64}), b = noise_tensor({64, 64}, 2), bias = noise_tensor({64}, 3);
  StatsSince stats;
  relu(matmul(a, b) + bias).realize();
  EXPECT_EQ(stats->launches, 1u);
}

TEST(Fusion, cross_entropy_is_few_launches) {
  Tensor x = noise_tensor({128, 1000});
  Tensor labels = (arange(128) * 7 % 1000).realize();
  StatsSince stats;
  Tensor picked = where(arange(1000) == unsqueeze(labels, 1), log_softmax(x, -1), 0).sum({1});
  neg(picked.mean()).realize();
  EXPECT_LE(stats->launches, 2u);
  EXPECT_LE(static_cast<double>(stats.bytes()), 1.05 * 4 * (128 * 1000 + 1000));
}

TEST(Fusion, realised_leaves_cost_no_launch) {
  Tensor x = noise_tensor({10});
  StatsSince stats;
  x.realize();
  x.reshape({2, 5}).realize();
  EXPECT_LE(stats->launches, 1u);
}

TEST(Fusion, a_long_chain_of_row_operators_is_not_computed_again_and_again) {
  Tensor x = noise_tensor({256, 256}), y = x;
  for (int i = 0; i < 32; ++i) y = softmax(y, -1);
  StatsSince stats;
  y.realize();
  // Few passes over the data, each reading little more than its input and writing its result.
  EXPECT_LE(stats->launches, 64u);
  EXPECT_LE(static_cast<double>(stats.bytes()), 4.0 * 256 * 256 * 2 * 40);
  // The same numbers as step by step.
  Tensor z = x;
  for (int i = 0; i < 32; ++i) z = softmax(z, -1).realize();
  expect_close(y, doubles(z), 1e-5);
}

TEST(Fusion, a_value_stored_for_one_kernel_is_not_read_too_early_by_another) {
  Tensor x = noise_tensor({7, 13, 1}), first = noise_tensor({4, 10, 1});
  Tensor y = exp(pow(abs(expand(x, {7, 13, 4})) + 0.5, 1.5) * 0.1);
  Tensor padded = pad(y, {{1, 0}, {0, 2}, {0, 3}}, 0.5);  // computing y once is cheaper here, and it goes to memory
  Tensor joined = cat({first, shrink(y, {{0, 4}, {0, 10}, {2, 3}})});
  realize({padded, joined});
  Tensor z = exp(pow(abs(expand(x, {7, 13, 4})) + 0.5, 1.5) * 0.1).realize();
  expect_close(padded, doubles(pad(z, {{1, 0}, {0, 2}, {0, 3}}, 0.5)));
  expect_close(joined, doubles(cat({first, shrink(z, {{0, 4}, {0, 10}, {2, 3}})})));
}

TEST(Fusion, a_sort_and_a_small_kernel_over_the_same_tensor_stay_apart) {
  Tensor x = tensor({3, 1, 2, 0});
  Tensor y = x - x * 2;
  Tensor one = gather(y, cast(tensor({-4}), kI64)), lowest = minimum(sort(y, 0, true).values, y);
  realize({one, lowest});
  expect_equal(one, {-3});
  expect_equal(lowest, {-3, -1, -2, -3});
}

}  // namespace
}  // namespace heddle
