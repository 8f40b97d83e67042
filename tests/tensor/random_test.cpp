// Random numbers: the generator's published values, moments, and independence of how they are computed.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

#include "helpers.h"

namespace heddle {
namespace {

using namespace testing;

TEST(Random, philox_gives_its_published_words) {
  manual_seed(0);
  // Key 0, counter 0: one block of four words, of which 24 bits are used.
  std::vector<double> want;
  for (uint32_t word : {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}) want.push_back((word >> 8) * 0x1p-24);
  expect_equal(uniform({4}), want);
}

TEST(Random, the_same_seed_gives_the_same_numbers) {
  manual_seed(7);
  std::vector<float> first = randn({1000}).to_vector<float>(), second = randn({1000}).to_vector<float>();
  manual_seed(7);
  EXPECT_EQ(randn({1000}).to_vector<float>(), first);
  EXPECT_EQ(randn({1000}).to_vector<float>(), second);
  EXPECT_NE(first, second);
  manual_seed(8);
  EXPECT_NE(randn({1000}).to_vector<float>(), first);
}

TEST(Random, numbers_belong_to_the_call_not_to_the_realisation) {
  manual_seed(3);
  Tensor a = uniform({10}), b = uniform({10});
  std::vector<float> late_b = b.to_vector<float>(), late_a = a.to_vector<float>();
  manual_seed(3);
  EXPECT_EQ(uniform({10}).to_vector<float>(), late_a);
  EXPECT_EQ(uniform({10}).to_vector<float>(), late_b);
  EXPECT_EQ((a + 0).to_vector<float>(), late_a);
}

TEST(Random, the_shape_does_not_matter) {
  manual_seed(5);
  std::vector<float> flat = uniform({30}).to_vector<float>();
  manual_seed(5);
  EXPECT_EQ(uniform({2, 3, 5}).to_vector<float>(), flat);
}

TEST(Random, uniform_moments_and_bounds) {
  manual_seed(1);
  Tensor x = uniform({200000}).realize();
  EXPECT_NEAR(x.mean().item<double>(), 0.5, 0.003);
  EXPECT_NEAR(var(x).item<double>(), 1.0 / 12, 0.001);
  EXPECT_GE(x.min().item<float>(), 0);
  EXPECT_LT(x.max().item<float>(), 1);
  Tensor y = uniform({100000}, -3, 5).realize();
  EXPECT_NEAR(y.mean().item<double>(), 1, 0.03);
  EXPECT_GE(y.min().item<float>(), -3);
  EXPECT_LT(y.max().item<float>(), 5);
}

TEST(Random, small_floats_stay_below_the_upper_bound) {
  manual_seed(1);
  for (DType dtype : {kF16, kBF16}) {
    Tensor x = uniform({100000}, 0, 1, dtype).realize();
    EXPECT_EQ(x.dtype(), dtype);
    EXPECT_LT(x.max().item<float>(), 1) << name(dtype);
  }
}

TEST(Random, normal_moments) {
  manual_seed(2);
  Tensor x = randn({400000}).realize();
  EXPECT_NEAR(x.mean().item<double>(), 0, 0.008);
  EXPECT_NEAR(var(x).item<double>(), 1, 0.01);
  EXPECT_NEAR((x * x * x).mean().item<double>(), 0, 0.03);
  EXPECT_NEAR((square(x) * square(x)).mean().item<double>(), 3, 0.08);
  EXPECT_TRUE(all(isfinite(x)).item<bool>());
  EXPECT_EQ(randn({3}, kF64).dtype(), kF64);
}

TEST(Random, neighbours_and_draws_are_uncorrelated) {
  manual_seed(4);
  Tensor x = (uniform({100001}) - 0.5).realize(), y = (uniform({100000}) - 0.5).realize();
  Tensor head = slice(x, 0, 0, 100000), tail = slice(x, 0, 1, 100001);
  EXPECT_NEAR((head * tail).mean().item<double>() * 12, 0, 0.015);
  EXPECT_NEAR((head * y).mean().item<double>() * 12, 0, 0.015);
  std::vector<float> values = x.to_vector<float>();
  EXPECT_GT(std::set<float>(values.begin(), values.end()).size(), 99000u);
}

TEST(Random, bad_arguments) {
  expect_error<DTypeError>([] { uniform({2}, 0, 1, kI32); }, {"uniform", "i32"});
  expect_error<DTypeError>([] { randn({2}, kBool); }, {"randn", "bool"});
  expect_error<ShapeError>([] { randn({-2}); }, {"randn", "-2"});
  EXPECT_EQ(randn({0, 3}).to_vector<float>().size(), 0u);
}

uint64_t checksum() {
  manual_seed(11);
  uint64_t sum = 0;
  for (float v : (randn({300, 1000}) * 2).to_vector<float>()) {
    uint32_t bits;
    std::memcpy(&bits, &v, sizeof bits);
    sum = sum * 31 + bits;
  }
  return sum;
}

// Run by the next test with other numbers of threads.
TEST(RandomChild, prints_a_checksum) { std::printf("checksum %llu\n", static_cast<unsigned long long>(checksum())); }

TEST(Random, numbers_do_not_depend_on_the_number_of_threads) {
  char self[4096];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  ASSERT_GT(length, 0);
  self[length] = 0;
  for (const char* threads : {"1", "3"}) {
    std::string command = std::string("HEDDLE_THREADS=") + threads + " '" + self +
                          "' --gtest_also_run_disabled_tests --gtest_filter=RandomChild.prints_a_checksum";
    FILE* pipe = popen(command.c_str(), "r");
    ASSERT_TRUE(pipe);
    unsigned long long got = 0;
    for (char line[512]; std::fgets(line, sizeof line, pipe);) std::sscanf(line, "checksum %llu", &got);
    EXPECT_EQ(pclose(pipe), 0);
    EXPECT_EQ(got, checksum()) << threads << " threads";
  }
}

}  // namespace
}  // namespace heddle
