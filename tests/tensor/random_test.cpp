// Random numbers: the generator's published values, moments, and independence of how they are computed.
#include <unistd.h>

#include <algorithm>
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

TEST(Random, seeds_have_64_bits_and_generators_a_state) {
  Generator a(1), b(1 + (uint64_t{1} << 32)), c(1);
  std::vector<float> first = uniform(8, 0, 1, kF32, a).to_vector<float>();
  EXPECT_NE(uniform(8, 0, 1, kF32, b).to_vector<float>(), first);
  EXPECT_EQ(uniform(8, 0, 1, kF32, c).to_vector<float>(), first);
  Generator::State kept = a.state();
  EXPECT_EQ(kept, (Generator::State{1, 1}));
  std::vector<float> second = uniform(8, 0, 1, kF32, a).to_vector<float>();
  a.set_state(kept);
  EXPECT_EQ(uniform(8, 0, 1, kF32, a).to_vector<float>(), second);
  manual_seed(1);
  EXPECT_EQ(uniform(8).to_vector<float>(), first);
}

// The largest distance between the distribution of the numbers and `below`, in units in which 1.95 is met once in 1000.
double kolmogorov_smirnov(const Tensor& x, const std::function<double(double)>& below) {
  std::vector<double> values = doubles(x);
  std::sort(values.begin(), values.end());
  double n = static_cast<double>(values.size()), distance = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    double p = below(values[i]), at = static_cast<double>(i);
    distance = std::max({distance, p - at / n, (at + 1) / n - p});
  }
  return distance * std::sqrt(n);
}
// The sum of squared differences, less its mean, in units of its deviation.
double chi_square(const std::vector<int64_t>& counts, const std::vector<double>& probabilities) {
  double total = 0, sum = 0, freedom = static_cast<double>(counts.size()) - 1;
  for (int64_t count : counts) total += static_cast<double>(count);
  for (size_t i = 0; i < counts.size(); ++i) {
    double expected = total * probabilities[i], difference = static_cast<double>(counts[i]) - expected;
    sum += difference * difference / expected;
  }
  return (sum - freedom) / std::sqrt(2 * freedom);
}
std::vector<int64_t> count_of(const Tensor& x, int64_t kinds) {
  std::vector<int64_t> counts(static_cast<size_t>(kinds), 0);
  for (int64_t v : integers(x)) ++counts.at(static_cast<size_t>(v));
  return counts;
}

double normal_below(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

TEST(RandomStatistics, continuous_distributions) {
  manual_seed(100);
  for (DType dtype : {kF32, kF64}) {
    EXPECT_LT(kolmogorov_smirnov(uniform(60000, 0, 1, dtype), [](double x) { return x; }), 1.95);
    EXPECT_LT(kolmogorov_smirnov(normal(60000, 0, 1, dtype), normal_below), 1.95);
    EXPECT_LT(kolmogorov_smirnov(normal(60001, 3, 2, dtype), [](double x) { return normal_below((x - 3) / 2); }), 1.95);
    EXPECT_LT(kolmogorov_smirnov(exponential(60000, 2, dtype), [](double x) { return 1 - std::exp(-2 * x); }), 1.95);
    // Gamma with whole alpha: sums of exponential times.
    EXPECT_LT(kolmogorov_smirnov(gamma(60000, 1, 1, dtype), [](double x) { return 1 - std::exp(-x); }), 1.95);
    EXPECT_LT(kolmogorov_smirnov(gamma(60000, 3, 2, dtype),
                                 [](double x) { return 1 - std::exp(-x / 2) * (1 + x / 2 + x * x / 8); }),
              1.95);
    // Alpha 1/2: half the square of a normal number.
    EXPECT_LT(kolmogorov_smirnov(gamma(60000, 0.5, 1, dtype), [](double x) { return std::erf(std::sqrt(x)); }), 1.95);
    EXPECT_LT(kolmogorov_smirnov(beta(60000, 2, 1, dtype), [](double x) { return x * x; }), 1.95);
    EXPECT_LT(kolmogorov_smirnov(beta(60000, 1, 3, dtype), [](double x) { return 1 - std::pow(1 - x, 3); }), 1.95);
  }
}

TEST(RandomStatistics, moments_of_gamma_at_extreme_parameters) {
  manual_seed(101);
  Tensor alpha = tensor({{0.05}, {1.5}, {100}, {1e6}});
  Tensor g = gamma({4, 100000}, alpha).realize();
  std::vector<double> mean_of = doubles(g.mean(1)), variance = doubles(var(cast(g, kF64), 1));
  for (size_t i = 0; i < 4; ++i) {
    double a = doubles(alpha)[i];
    EXPECT_NEAR(mean_of[i] / a, 1, 5 / std::sqrt(a * 100000)) << a;
    EXPECT_NEAR(variance[i] / a, 1, i == 0 ? 0.15 : 0.04) << a;
  }
  EXPECT_GE(g.min().item<float>(), 0);
}

TEST(RandomStatistics, discrete_distributions) {
  manual_seed(102);
  EXPECT_LT(std::fabs(chi_square(count_of(randint(100000, 0, 10), 10), std::vector<double>(10, 0.1))), 4);
  std::vector<double> p{0.1, 0.2, 0.3, 0.4};
  Tensor weights = tensor({1, 2, 3, 4});
  EXPECT_LT(std::fabs(chi_square(count_of(categorical(expand(log(weights), {50000, 4})), 4), p)), 4);
  EXPECT_LT(std::fabs(chi_square(count_of(multinomial(weights, 50000), 4), p)), 4);
  EXPECT_NEAR(bernoulli(100000, 0.3, kF32).mean().item<double>(), 0.3, 0.006);
  std::vector<double> by_row = doubles(bernoulli({3, 50000}, tensor({{0.0}, {0.5}, {1.0}}), kF32).mean(1));
  EXPECT_EQ(by_row[0], 0);
  EXPECT_NEAR(by_row[1], 0.5, 0.01);
  EXPECT_EQ(by_row[2], 1);
}

TEST(RandomStatistics, multinomial_searches_each_row_and_never_chooses_what_has_no_weight) {
  manual_seed(110);
  Tensor rows = multinomial(tensor({{1, 2, 3, 4}, {0, 5, 0, 0}, {0, 3, 0, 7}}), 50000).realize();
  EXPECT_EQ(rows.shape(), (Dims{3, 50000}));
  EXPECT_LT(std::fabs(chi_square(count_of(rows[0], 4), {0.1, 0.2, 0.3, 0.4})), 4);
  EXPECT_EQ(count_of(rows[1], 4), (std::vector<int64_t>{0, 50000, 0, 0}));
  std::vector<int64_t> last = count_of(rows[2], 4);
  EXPECT_EQ(last[0] + last[2], 0);
  EXPECT_NEAR(static_cast<double>(last[1]), 15000, 500);
  // Many draws from many positions: their product would not fit into memory.
  Tensor odd = cast(mod(arange(1000000), 2), kF32);
  Tensor picks = multinomial(odd, 1000000).realize();
  EXPECT_TRUE(all(eq(mod(picks, 2), 1)).item<bool>());
  EXPECT_NEAR(mean(cast(picks, kF64)).item<double>(), 5e5, 1500);
}

TEST(RandomStatistics, truncated_normal_moments_and_bounds) {
  manual_seed(111);
  Tensor x = truncated_normal(200000).realize();
  EXPECT_GE(x.min().item<double>(), -2);
  EXPECT_LE(x.max().item<double>(), 2);
  EXPECT_NEAR(x.mean().item<double>(), 0, 0.008);
  EXPECT_NEAR(var(x).item<double>(), 0.77374, 0.008);
  Tensor half = truncated_normal(200000, 1, 2, 1, 1e300, kF64).realize();  // the upper half
  EXPECT_GE(half.min().item<double>(), 1);
  EXPECT_NEAR(half.mean().item<double>(), 1 + 2 * 0.797885, 0.015);
  Tensor tail = truncated_normal(100000, 0, 1, 4, 5).realize();
  EXPECT_GE(tail.min().item<double>(), 4);
  EXPECT_LE(tail.max().item<double>(), 5);
  EXPECT_NEAR(tail.mean().item<double>(), 4.2164, 0.004);
  EXPECT_TRUE(all(isfinite(truncated_normal(100000, 0, 1, -50, 50))).item<bool>());
  expect_error<ValueError>([] { truncated_normal(3, 0, 1, 2, 2); }, {"truncated_normal", "[2, 2]"});
  expect_error<ValueError>([] { truncated_normal(3, 0, 1, 20, 30); }, {"truncated_normal", "[20, 30]"});
  expect_error<ValueError>([] { truncated_normal(3, 0, 0); }, {"truncated_normal", "deviation of 0"});
}

TEST(RandomStatistics, without_replacement_the_first_has_the_weights_and_none_comes_twice) {
  manual_seed(103);
  Tensor picks = multinomial(expand(tensor({1, 2, 3, 4}), {20000, 4}), 3, false).realize();
  EXPECT_LT(std::fabs(chi_square(count_of(picks(Slice(), 0), 4), {0.1, 0.2, 0.3, 0.4})), 4);
  EXPECT_FALSE(any(eq(picks(Slice(), 0), picks(Slice(), 1))).item<bool>());
  EXPECT_FALSE(any(eq(picks(Slice(), 1), picks(Slice(), 2))).item<bool>());
  expect_error<ValueError>([] { multinomial(ones(3), 4, false); }, {"multinomial", "4", "3"});
}

TEST(RandomStatistics, all_orders_are_equally_likely) {
  manual_seed(104);
  std::vector<int64_t> counts(6, 0);
  for (int i = 0; i < 1200; ++i) {
    std::vector<int64_t> p = integers(permutation(3));
    ++counts[static_cast<size_t>(p[0] * 2 + (p[1] > p[2]))];
  }
  EXPECT_LT(std::fabs(chi_square(counts, std::vector<double>(6, 1.0 / 6))), 4);
  std::vector<int64_t> large = integers(permutation(10000)), in_order = large;
  std::sort(in_order.begin(), in_order.end());
  for (int64_t i = 0; i < 10000; ++i) ASSERT_EQ(in_order[static_cast<size_t>(i)], i);
  EXPECT_NE(large, in_order);
  EXPECT_EQ(permutation(0).numel(), 0);
  Tensor x = arange(12).reshape(3, 4);
  expect_equal(shuffle(x, 1).sum(1), {6, 22, 38});
}

TEST(Random, whole_numbers_of_any_width) {
  manual_seed(105);
  Tensor all = randint(20000, INT64_MIN, INT64_MAX).realize();
  EXPECT_NEAR(mean(cast(all, kF64)).item<double>() / 9.2e18, 0, 0.02);
  Tensor wide = randint(20000, -(int64_t{1} << 40), int64_t{1} << 40).realize();
  EXPECT_NEAR(mean(cast(wide, kF64)).item<double>() / 1e12, 0, 0.02);
  EXPECT_GE(wide.min().item<int64_t>(), -(int64_t{1} << 40));
  EXPECT_LT(wide.max().item<int64_t>(), int64_t{1} << 40);
  Tensor bytes = randint(10000, 0, 256, kU8).realize();
  EXPECT_EQ(bytes.min().item<int>(), 0);
  EXPECT_EQ(bytes.max().item<int>(), 255);
  expect_equal(randint(3, 7, 8), {7, 7, 7});
  expect_error<ValueError>([] { randint(3, 5, 5); }, {"randint", "5"});
  expect_error<ValueError>([] { randint(3, 0, 257, kU8); }, {"randint", "256", "u8"});
  expect_error<DTypeError>([] { randint(3, 0, 2, kF32); }, {"randint", "f32"});
}

TEST(Random, doubles_have_53_bits) {
  manual_seed(106);
  std::vector<double> u = uniform(1000, 0, 1, kF64).to_vector<double>();
  int fine = 0;
  for (double v : u) {
    EXPECT_TRUE(v >= 0 && v < 1);
    EXPECT_EQ(v * 0x1p53, std::floor(v * 0x1p53));
    fine += v * 0x1p40 != std::floor(v * 0x1p40);
  }
  EXPECT_GT(fine, 900);
}

TEST(Random, normal_tails_reach_beyond_what_24_bits_could) {
  manual_seed(107);
  // One number in 10^8 is beyond 5.73; with 24 bits none could be beyond 5.77. Here: the share beyond 4.
  Tensor x = randn(4000000);
  double share = mean(cast(gt(abs(x), 4), kF32)).item<double>();
  EXPECT_NEAR(share / 6.334e-5, 1, 0.2);
}

TEST(Random, dropout_scales_what_it_keeps) {
  manual_seed(108);
  Tensor x = full({300, 300}, 3);
  Tensor y = dropout(x, 0.25).realize();
  EXPECT_NEAR(y.mean().item<double>(), 3, 0.02);
  EXPECT_TRUE(all(logical_or(eq(y, 0), eq(y, 4))).item<bool>());
  EXPECT_TRUE(equal(dropout(x, 0.25, false), x));
  EXPECT_EQ(dropout(x, 1).sum().item<float>(), 0);
  EXPECT_EQ(dropout(cast(x, kF16), 0.5).dtype(), kF16);
  expect_error<ValueError>([&] { dropout(x, 1.5); }, {"dropout", "1.5"});
  Tensor large = noise_tensor({256, 300}), z = dropout(large, 0.1);
  StatsSince stats;
  z.realize();
  EXPECT_EQ(stats->launches, 1u);
  EXPECT_LE(stats.bytes(), 2u * 4 * 256 * 300 + 1000);  // no mask in memory
}

TEST(Random, bad_parameters) {
  expect_error<ValueError>([] { normal(2, 0, -1); }, {"normal", "-1"});
  expect_error<ValueError>([] { exponential(2, 0); }, {"exponential"});
  expect_error<ValueError>([] { gamma(2, 0); }, {"gamma", "0"});
  expect_error<ValueError>([] { gamma(2, 1, -1); }, {"gamma", "-1"});
  expect_error<ShapeError>([] { gamma(2, ones(3)); }, {"gamma", "[3]", "[2]"});
  expect_error<ValueError>([] { bernoulli(2, 1.5); }, {"bernoulli", "1.5"});
  expect_error<ValueError>([] { categorical(zeros({2, 0})); }, {"categorical", "[2, 0]"});
  expect_error<DTypeError>([] { categorical(zeros(2, kI32)); }, {"categorical", "i32"});
  expect_error<ShapeError>([] { permutation(-1); }, {"permutation", "-1"});
}

TEST(Random, fused_and_realised_numbers_are_the_same) {
  auto draws = [] {
    manual_seed(109);
    return std::vector<Tensor>{uniform({33, 31}), uniform({33, 31}, -2, 5), randint({33, 31}, 0, 100),
                               bernoulli({33, 31}, 0.3, kF32)};
  };
  std::vector<Tensor> fused = draws(), alone = draws();
  for (size_t i = 0; i < fused.size(); ++i) {
    alone[i].realize();
    EXPECT_EQ(doubles(fused[i] * 2 + 1), doubles(alone[i] * 2 + 1)) << i;
    EXPECT_EQ(doubles(transpose(fused[i])), doubles(transpose(alone[i]))) << i;
  }
}

uint64_t integer_checksum() {
  manual_seed(12);
  uint64_t sum = 0;
  for (const Tensor& x :
       {uniform({100, 999}), uniform({1000}, -3, 7), uniform({1001}, 0, 1, kF64).cast(kF32),
        randint({5000}, -50, 1000000).cast(kF64).cast(kF32), bernoulli(5000, 0.4, kF32), dropout(ones(5000), 0.3)})
    for (float v : x.to_vector<float>()) {
      uint32_t bits;
      std::memcpy(&bits, &v, sizeof bits);
      sum = sum * 31 + bits;
    }
  return sum;
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

// Run by the next tests in other settings.
TEST(RandomChild, prints_a_checksum) {
  std::printf("checksum %llu %llu\n", static_cast<unsigned long long>(checksum()),
              static_cast<unsigned long long>(integer_checksum()));
}

// The checksums of a run of this program with something in its environment.
std::pair<uint64_t, uint64_t> checksums_with(const std::string& setting) {
  char self[4096];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  EXPECT_GT(length, 0);
  self[length] = 0;
  std::string command = "env -u GTEST_TOTAL_SHARDS -u GTEST_SHARD_INDEX " + setting + " '" + self +
                        "' --gtest_filter=RandomChild.prints_a_checksum";
  FILE* pipe = popen(command.c_str(), "r");
  EXPECT_TRUE(pipe);
  unsigned long long all = 0, integer = 0;
  for (char line[512]; std::fgets(line, sizeof line, pipe);) std::sscanf(line, "checksum %llu %llu", &all, &integer);
  EXPECT_EQ(pclose(pipe), 0);
  return {all, integer};
}

TEST(Random, numbers_do_not_depend_on_the_number_of_threads) {
  for (const char* threads : {"HEDDLE_THREADS=1", "HEDDLE_THREADS=3"}) {
    SCOPED_TRACE(threads);
    EXPECT_EQ(checksums_with(threads), (std::pair<uint64_t, uint64_t>{checksum(), integer_checksum()}));
  }
}

TEST(Random, numbers_made_of_integers_do_not_depend_on_the_target) {
  for (const char* target : {"HEDDLE_TARGET=avx2", "HEDDLE_TARGET=sse"}) {
    SCOPED_TRACE(target);
    EXPECT_EQ(checksums_with(target).second, integer_checksum());
  }
}

}  // namespace
}  // namespace heddle
