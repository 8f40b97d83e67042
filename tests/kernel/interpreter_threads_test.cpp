// Thread-level programs with many threads: shared memory, barriers, shuffles, divergence.
#include <numeric>

#include "run_kernel.h"

namespace heddle::kernel {
namespace {

// Each line is one instruction of a block of 64 threads.
std::string threads64(const std::string& body) {
  return "kernel.thread @block(in %x: f32[256], out %y: f32[256]) threads 64 thread t {\n  shared %s: f32[64]\n"
         "  phase grid(i < 4) {\n" +
         body + "\n  }\n}\n";
}

struct Threads : testing::Test {
  std::vector<float> x = std::vector<float>(256), y = std::vector<float>(256);
  Threads() { std::iota(x.begin(), x.end(), 0.0f); }
  void run(const std::string& body) { run_kernel(threads64(body), {x, y, Data()}); }
  std::string error(const std::string& body) {
    return message_of<DeviceError>([&] { run(body); });
  }
};

// A tree in shared memory: 64 partial sums to one, halving the active threads each round.
const char* const kTree = R"(
    %0 = load %x[i * 64 + t] : f32
    store %s[t], %0
    barrier
    loop k < 6 {
      branch t < STEP {
        %1 = load %s[t] : f32
        %2 = load %s[t + STEP] : f32
        %3 = add %1, %2
        store %s[t], %3
      }
      BARRIER
    }
    branch t == 0 {
      %4 = load %s[0] : f32
      store %y[i], %4
    })";

std::string tree(const char* barrier) {
  // 32 >> k, as an expression of the loop variable
  const std::string step =
      "select(k == 0, 32, select(k == 1, 16, select(k == 2, 8, select(k == 3, 4, select(k == 4, 2, 1)))))";
  std::string text = kTree;
  for (size_t at; (at = text.find("STEP")) != std::string::npos;) text.replace(at, 4, step);
  return text.replace(text.find("BARRIER"), 7, barrier);
}

TEST_F(Threads, sum_in_shared_memory) {
  run(tree("barrier"));
  for (int block = 0; block < 4; ++block) EXPECT_EQ(y[block], 64 * 64 * block + 63 * 32);
}

TEST_F(Threads, missing_barrier_is_a_race) {
  std::string message = error(tree(""));
  EXPECT_CONTAINS(message, "is accessed by two threads without a barrier between");
  EXPECT_CONTAINS(message, "kernel @block, phase 0, block 0, thread");
}

TEST_F(Threads, write_after_read_without_a_barrier_is_a_race) {
  const std::string swap = R"(
    %0 = load %x[i * 64 + t] : f32
    store %s[t], %0
    barrier
    %1 = load %s[63 - t] : f32
    BARRIER
    store %s[t], %1
    barrier
    %2 = load %s[t] : f32
    store %y[i * 64 + t], %2)";
  std::string good = swap, bad = swap;
  run(good.replace(good.find("BARRIER"), 7, "barrier"));
  for (int t = 0; t < 64; ++t) EXPECT_EQ(y[64 + t], 64 + 63 - t);
  EXPECT_CONTAINS(error(bad.replace(bad.find("BARRIER"), 7, "")), "without a barrier");
}

TEST_F(Threads, two_threads_storing_one_element_is_a_race) {
  EXPECT_CONTAINS(error("%0 = constant 1 : f32\nstore %s[t // 2], %0"), "element 0 of %s");
}

TEST_F(Threads, combines_into_shared_memory_do_not_race) {
  run(R"(
    %0 = constant 0 : f32
    branch t < 2 {
      store %s[t], %0
    }
    barrier
    %1 = load %x[i * 64 + t] : f32
    combine add %s[t % 2], %1
    barrier
    %2 = load %s[t % 2] : f32
    store %y[i * 64 + t], %2)");
  EXPECT_EQ(y[0], 31 * 32);
  EXPECT_EQ(y[1], 32 * 32);
  EXPECT_CONTAINS(error(R"(
    %0 = constant 0 : f32
    branch t == 0 {
      store %s[0], %0
    }
    combine add %s[0], %0)"),
                  "without a barrier");
}

TEST_F(Threads, divergent_barrier_raises) {
  EXPECT_CONTAINS(error("branch t < 40 {\nbarrier\n}"), "only 40 of 64 threads reach this barrier");
  EXPECT_CONTAINS(error("loop k < t {\nbarrier\n}"), "only 63 of 64 threads reach this barrier");
  EXPECT_NO_THROW(run("branch i < 2 {\nbarrier\n} else {\nbarrier\n}")) << "uniform in the block";
}

TEST_F(Threads, shuffles_exchange_within_a_warp) {
  run(R"(
    %0 = load %x[i * 64 + t] : f32
    %1 = shuffle_xor %0, 5
    store %y[i * 64 + t], %1)");
  for (int e = 0; e < 256; ++e) EXPECT_EQ(y[e], e / 32 * 32 + ((e % 32) ^ 5));
}

TEST_F(Threads, shuffle_sum_of_each_warp) {
  std::string body = "%0 = load %x[i * 64 + t] : f32\n";
  int value = 0;
  for (int mask : {16, 8, 4, 2, 1}) {
    std::string v = std::to_string(value), s = std::to_string(value + 1), r = std::to_string(value + 2);
    body +=
        "%" + s + " = shuffle_xor %" + v + ", " + std::to_string(mask) + "\n%" + r + " = add %" + v + ", %" + s + "\n";
    value += 2;
  }
  run(body + "store %y[i * 64 + t], %" + std::to_string(value));
  for (int e = 0; e < 256; ++e) EXPECT_EQ(y[e], e / 32 * 32 * 32 + 31 * 16);
}

TEST_F(Threads, divergent_shuffle_raises_only_when_the_warp_splits) {
  const std::string start = "%0 = load %x[i * 64 + t] : f32\n";
  EXPECT_CONTAINS(error(start + "branch t < 40 {\n%1 = shuffle_xor %0, 1\n}"),
                  "only 8 threads of the warp from thread 32 reach this shuffle");
  EXPECT_NO_THROW(run(start + "branch t < 32 {\n%1 = shuffle_xor %0, 1\n}"));
}

TEST(ThreadsOfAPartWarp, shuffle_with_a_missing_lane_raises) {
  std::vector<float> x(20);
  const char* text = R"(kernel.thread @part(in %x: f32[20]) threads 20 thread t {
  phase grid() {
    %0 = load %x[t] : f32
    %1 = shuffle_xor %0, 16
  }
})";
  std::string message = message_of<DeviceError>([&] { run_kernel(text, {x}); });
  EXPECT_CONTAINS(message, "there is no thread 20 to read from");
}

TEST_F(Threads, threads_run_loops_of_different_lengths) {
  run(R"(
    %0 = constant 0 : f32
    %1 = constant 1 : f32
    %2 = loop k < t % 5 carry(%3 = %0) {
      %4 = add %3, %1
      yield %4
    }
    %5 = branch t % 2 == 0 {
      yield %2
    } else {
      %6 = neg %2
      yield %6
    }
    store %y[i * 64 + t], %5)");
  for (int t = 0; t < 64; ++t) EXPECT_EQ(y[t], t % 5 * (t % 2 ? -1 : 1));
}

TEST_F(Threads, vectors_load_reduce_and_store) {
  run(R"(
    %0 = load %x[i * 64 + t % 8 * 8 + d0] : vec<8xf32>
    %1 = reduce add %0 axis 0 if d0 < 5
    %2 = sub %0, %1
    branch t < 8 {
      store %y[i * 64 + t * 8 + d0], %2
    })");
  for (int row = 0; row < 32; ++row)
    for (int c = 0; c < 8; ++c) EXPECT_EQ(y[row * 8 + c], row * 8 + c - (row * 40 + 10));
}

TEST_F(Threads, out_of_bounds_names_the_thread) {
  EXPECT_CONTAINS(error("%0 = load %x[i * 64 + t * 5] : f32"),
                  "thread 52, %0 = load: element 260 of %x (256 elements)");
}

}  // namespace
}  // namespace heddle::kernel
