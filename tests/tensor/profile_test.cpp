#include <heddle/heddle.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "helpers.h"
#include "runtime/plan.h"
#include "runtime/profile_data.h"

namespace heddle {
namespace {

using Json = nlohmann::json;

Json trace_of(const Profile& profile) {
  std::string path = text(::testing::TempDir(), "profile_", ::getpid(), ".json");
  profile.write_trace(path);
  std::ifstream file(path);
  Json trace = Json::parse(file);
  std::remove(path.c_str());
  return trace;
}

std::vector<Json> slices(const Json& trace, const std::string& category) {
  std::vector<Json> found;
  for (const Json& event : trace["traceEvents"])
    if (event["ph"] == "X" && event["cat"] == category) found.push_back(event);
  return found;
}

Tensor numbers(const Dims& shape) { return uniform(shape, 0.5, 1.5).realize(); }

// All kernels that `run` launches, together.
template <class F>
KernelProfile total_of(F&& run) {
  Profile profile = heddle::profile();
  run();
  profile.stop();
  KernelProfile total;
  for (const KernelProfile& kernel : profile.result().kernels) {
    total.calls += kernel.calls;
    total.bytes += kernel.bytes;
    total.flops += kernel.flops;
    total.total_seconds += kernel.total_seconds;
    total.floor_seconds += kernel.floor_seconds;
  }
  return total;
}

TEST(Profile, counts_calls_bytes_and_flops) {
  Tensor a = numbers({24, 40}), b = numbers({40, 16});
  Profile profile = heddle::profile();
  for (int i = 0; i < 3; ++i) matmul(a, b).realize();
  profile.stop();
  ProfileResult result = profile.result();
  ASSERT_EQ(result.kernels.size(), 1U);
  const KernelProfile& kernel = result.kernels[0];
  EXPECT_EQ(kernel.name, "sum_24x16");
  EXPECT_EQ(kernel.calls, 3U);
  EXPECT_EQ(kernel.flops, 3U * 2 * 24 * 40 * 16);
  EXPECT_EQ(kernel.bytes, 3U * 4 * (24 * 40 + 40 * 16 + 24 * 16));
  EXPECT_GT(kernel.min_seconds, 0);
  EXPECT_LE(kernel.min_seconds, kernel.mean_seconds());
  EXPECT_LE(kernel.mean_seconds(), kernel.max_seconds);
  EXPECT_LE(kernel.total_seconds, result.seconds);
}

TEST(Profile, floor_is_the_longer_of_operations_and_bytes) {
  if (device().name() == "simulated") GTEST_SKIP() << "the interpreter of the simulated device has no rate";
  Tensor x = numbers({1024}), a = numbers({128, 128});
  Profile profile = heddle::profile();
  (x + 1).realize();
  matmul(a, a).realize();
  Roofline most = profile.result().roofline;
  ASSERT_GT(most.flops_per_second, 0);
  ASSERT_GT(most.bytes_per_second, 0);
  for (const KernelProfile& kernel : profile.result().kernels)
    EXPECT_DOUBLE_EQ(kernel.floor_seconds, std::max(static_cast<double>(kernel.flops) / most.flops_per_second,
                                                    static_cast<double>(kernel.bytes) / most.bytes_per_second));
}

TEST(Profile, every_float_op_is_one_operation) {
  Tensor x = numbers({100}), i = arange(100).realize();
  EXPECT_EQ(total_of([&] { (tanh(x) * 2 + 1).realize(); }).flops, 300U);
  EXPECT_EQ(total_of([&] { where(x > 1, x, -x).realize(); }).flops, 100U);
  EXPECT_EQ(total_of([&] { (i * 2 + 1).realize(); }).flops, 0U);
  EXPECT_EQ(total_of([&] { max(x).realize(); }).flops, 100U);
  EXPECT_EQ(total_of([&] { argmax(x).realize(); }).flops, 0U);
  EXPECT_EQ(total_of([&] { cumsum(x, 0).realize(); }).flops, 100U);
}

TEST(Profile, what_is_the_same_along_a_row_counts_once_per_row) {
  Tensor x = numbers({10, 64});
  EXPECT_EQ(total_of([&] { (x / sqrt(sum(x, {1}, true))).realize(); }).flops, 10U * (64 + 1 + 64));
}

TEST(Profile, symbolic_sizes_count_as_they_are) {
  for (int64_t n : {5, 37}) {
    Tensor x = numbers({n, 8}).with_dim(0, dim("n", 1, 4096));
    KernelProfile total = total_of([&] { (x * 2).realize(); });
    EXPECT_EQ(total.calls, 1U);
    EXPECT_EQ(total.flops, static_cast<uint64_t>(n * 8));
    EXPECT_EQ(total.bytes, static_cast<uint64_t>(n * 8 * 4 * 2));
  }
}

TEST(Profile, sees_replays_of_captured_functions) {
  Tensor x = numbers({32, 32});
  auto step = jit([](const Tensor& given) { return given / sum(given, {1}, true); });
  Profile profile = heddle::profile();
  for (int i = 0; i < 5; ++i) step(x);
  profile.stop();
  ProfileResult result = profile.result();
  ASSERT_EQ(result.kernels.size(), 1U);
  EXPECT_EQ(result.kernels[0].calls, 5U);
  Json trace = trace_of(profile);
  std::map<std::string, int> calls;
  for (const Json& call : slices(trace, "call")) {
    std::string name = call["name"];
    EXPECT_NE(name.find("profile_test.cpp:"), std::string::npos) << name;
    if (name.starts_with("jit ")) {
      EXPECT_EQ(call["args"]["detail"], "f32[32, 32]");
    }
    ++calls[name.substr(0, name.find(' '))];
  }
  EXPECT_EQ(calls["jit"], 5);
  EXPECT_EQ(calls["record"], 2);
}

TEST(Profile, shows_what_the_first_call_compiles) {
  clear_plan_cache();
  Tensor x = numbers({7, 13, 3});
  Profile profile = heddle::profile();
  (exp(x) - 17).realize();
  (exp(x) - 17).realize();
  profile.stop();
  Json trace = trace_of(profile);
  EXPECT_EQ(slices(trace, "call").size(), 2U);
  EXPECT_EQ(slices(trace, "kernel").size(), 2U);
  double compiling = 0;
  std::set<std::string> names;
  for (const Json& slice : slices(trace, "compile")) {
    names.insert(slice["name"]);
    if (slice["name"] == "plan") compiling += slice["dur"].get<double>() * 1e-6;
  }
  EXPECT_EQ(names, (std::set<std::string>{"plan", "compile sub_7x13x3"}));
  EXPECT_NEAR(profile.result().compile_seconds, compiling, 1e-6);  // what is inside of it does not count again
  Json kernel = slices(trace, "kernel")[0];
  EXPECT_EQ(kernel["args"]["bytes"], 7 * 13 * 3 * 8);
  EXPECT_EQ(kernel["args"]["flops"], 7 * 13 * 3 * 2);
  EXPECT_EQ(kernel["args"]["detail"], "f32[7, 13, 3] -> f32[7, 13, 3]");
  // Slices lie within those around them.
  Json call = slices(trace, "call")[0];
  EXPECT_GE(kernel["ts"].get<double>(), call["ts"].get<double>());
  EXPECT_LE(kernel["ts"].get<double>() + kernel["dur"].get<double>(),
            call["ts"].get<double>() + call["dur"].get<double>() + 0.001);
}

TEST(Profile, records_only_between_start_and_stop) {
  Tensor x = numbers({16});
  auto run = [&] { (x + 3).realize(); };
  Profile profile;
  run();
  EXPECT_FALSE(profiling());
  EXPECT_TRUE(profile.result().kernels.empty());
  profile.start();
  EXPECT_TRUE(profiling());
  run();
  profile.stop();
  EXPECT_FALSE(profiling());
  run();
  EXPECT_EQ(profile.result().kernels[0].calls, 1U);
  double seconds = profile.result().seconds;
  profile.start();
  profile.start();
  run();
  profile.stop();
  profile.stop();
  EXPECT_EQ(profile.result().kernels[0].calls, 2U);
  EXPECT_GT(profile.result().seconds, seconds);
  { Profile forgotten = heddle::profile(); }
  EXPECT_FALSE(profiling());
}

TEST(Profile, several_record_at_the_same_time) {
  Tensor x = numbers({16});
  Profile outer = heddle::profile();
  (x + 3).realize();
  Profile inner = heddle::profile();
  (x + 3).realize();
  inner.stop();
  (x + 3).realize();
  outer.stop();
  EXPECT_EQ(outer.result().kernels[0].calls, 3U);
  EXPECT_EQ(inner.result().kernels[0].calls, 1U);
}

TEST(Profile, every_thread_has_a_track) {
  constexpr int kThreads = 4, kCalls = 50;
  Tensor x = numbers({64});
  (x * 5).realize();
  Profile profile = heddle::profile();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < kCalls; ++i) (x * 5).realize();
    });
  for (std::thread& thread : threads) thread.join();
  profile.stop();
  EXPECT_EQ(profile.result().kernels.at(0).calls, static_cast<uint64_t>(kThreads * kCalls));
  std::map<int, int> per_track;
  Json trace = trace_of(profile);
  for (const Json& kernel : slices(trace, "kernel")) ++per_track[kernel["tid"].get<int>()];
  ASSERT_EQ(per_track.size(), static_cast<size_t>(kThreads));
  for (auto [track, count] : per_track) EXPECT_EQ(count, kCalls) << track;
}

TEST(Profile, names_are_escaped) {
  Profile profile = heddle::profile();
  int64_t now = profile_clock();
  record_slice({SliceKind::Kernel, "a \"b\"\\\n\x01", now, now + 1500});
  record_slice({SliceKind::Call, "no UTF-8: \xff", now, now + 1, 0, 0, "\t"});
  profile.stop();
  Json trace = trace_of(profile);
  Json kernel = slices(trace, "kernel").at(0);
  EXPECT_EQ(kernel["name"], "a \"b\"\\\n\x01");
  EXPECT_DOUBLE_EQ(kernel["dur"].get<double>(), 1.5);
  EXPECT_EQ(slices(trace, "call").at(0)["args"]["detail"], "\t");
}

TEST(Profile, a_long_one_keeps_the_table_exact) {
  Profile profile = heddle::profile();
  int64_t now = profile_clock();
  for (size_t i = 0; i < ProfileData::kMostEvents + 7; ++i) record_slice({SliceKind::Kernel, "k", now, now + 10, 4, 2});
  profile.stop();
  ProfileResult result = profile.result();
  EXPECT_EQ(result.kernels.at(0).calls, ProfileData::kMostEvents + 7);
  EXPECT_EQ(result.kernels.at(0).bytes, 4 * (ProfileData::kMostEvents + 7));
  EXPECT_EQ(result.left_out, 7U);
  std::ostringstream out;
  out << result;
  EXPECT_NE(out.str().find("7 slices are in the table"), std::string::npos) << out.str();
}

TEST(Profile, prints_a_table) {
  Profile profile = heddle::profile();
  int64_t now = profile_clock();
  record_slice({SliceKind::Kernel, "fast", now, now + 1000, 4096, 2048});
  for (int i = 0; i < 3; ++i) record_slice({SliceKind::Kernel, "slow_one", now, now + 1'000'000, 1'500'000, 0});
  profile.stop();
  std::ostringstream out;
  out << profile;
  std::istringstream lines(out.str());
  std::string line;
  std::getline(lines, line);
  EXPECT_TRUE(line.starts_with("kernel    calls")) << line;
  std::getline(lines, line);
  EXPECT_TRUE(line.starts_with("slow_one      3   3 ms   100%  1 ms  1 ms  1.5 MB")) << line;
  std::getline(lines, line);
  EXPECT_TRUE(line.starts_with("fast          1   1 us     0%  1 us  1 us  4.1 kB  2.05 K")) << line;
  std::getline(lines, line);
  EXPECT_TRUE(line.starts_with("3 ms in kernels and 0 ns compiling, both summed over threads; ")) << line;
}

TEST(Profile, a_trace_that_cannot_be_written_is_an_error) {
  Profile profile = heddle::profile();
  try {
    profile.write_trace("/no/such/folder/trace.json");
    FAIL();
  } catch (const ValueError& error) {
    EXPECT_NE(std::string(error.what()).find("/no/such/folder/trace.json"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace heddle
