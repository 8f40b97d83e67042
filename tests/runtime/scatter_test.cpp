// Scatters on a SIMT machine: by atomic operations, and one update after the other on request. On a CPU: many updates
// of few places in private copies.
#include <gtest/gtest.h>
#include <heddle/deterministic.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "compile/schedule/schedule.h"
#include "graph/graph.h"
#include "helpers.h"
#include "runtime/kernel_cache.h"

namespace heddle {
namespace {

NodeRef on(Backend& home, const std::vector<int64_t>& values, DType dtype, const Shape& shape) {
  std::vector<std::byte> bytes(values.size() * static_cast<size_t>(size_of(dtype)));
  for (size_t i = 0; i < values.size(); ++i)
    store_scalar(bytes.data(), static_cast<int64_t>(i), Scalar::of(dtype, static_cast<double>(values[i])));
  auto buffer = home.allocate(bytes.size());
  home.copy_from_host(*buffer, bytes.data(), bytes.size());
  return make_buffer(buffer, dtype, shape);
}

std::vector<int64_t> numbers(int64_t count, int64_t below, int64_t step) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < count; ++i) result.push_back(i * step % below);
  return result;
}

struct Mode {
  explicit Mode(bool deterministic) { set_deterministic(deterministic); }
  ~Mode() { set_deterministic(false); }
};

// Sums of small whole numbers are exact in every dtype and order.
void expect_right(Backend& home, ScatterOp op, DType dtype, int64_t rows, int64_t columns, int64_t updates, int axis) {
  SCOPED_TRACE(text(dtype, " ", rows, "x", columns, ", ", updates, " updates along ", axis));
  Shape base{rows, columns}, shape = base;
  shape[static_cast<size_t>(axis)] = updates;
  const int64_t count = shape.static_numel();
  NodeRef node = make_scatter(op, on(home, numbers(rows * columns, 5, 3), dtype, base),
                              on(home, numbers(count, base[static_cast<size_t>(axis)].value(), 7), kI64, shape),
                              on(home, numbers(count, 3, 2), dtype, shape), axis);
  HostArray want = evaluate(std::span(&node, 1))[0];
  NodeRef done = testing::realize_one(node);
  auto memory = std::static_pointer_cast<const DeviceBuffer>(done->storage);
  std::vector<std::byte> got(memory->bytes());
  home.copy_to_host(got.data(), *memory, got.size());
  for (int64_t i = 0; i < want.numel(); ++i) {
    Scalar element = load_scalar(got.data(), i, dtype);
    if (is_float(dtype)) {
      ASSERT_EQ(element.f, want.floats[static_cast<size_t>(i)]) << i;
    } else {
      ASSERT_EQ(element.u, want.integers[static_cast<size_t>(i)]) << i;
    }
  }
}

TEST(ScatterSimt, both_ways_agree_with_the_evaluator) {
  Backend& home = device("simulated");
  for (bool deterministic : {false, true}) {
    Mode mode(deterministic);
    int atomic = 0;
    observe_steps([&](const Program::Step& step, Backend& where) {
      if (!step.direct) atomic += default_schedule(step.loops, where.target()).stages.back().is<AtomicScatter>();
    });
    for (ScatterOp op : {ScatterOp::Add, ScatterOp::Max, ScatterOp::Min, ScatterOp::Set})
      for (DType dtype : {kF32, kF64, kF16, kBF16, kI8, kI32, kI64, kU8}) expect_right(home, op, dtype, 5, 40, 9, 0);
    for (int axis : {0, 1}) {
      expect_right(home, ScatterOp::Add, kF32, 3, 2, 300, axis);
      expect_right(home, ScatterOp::Add, kI32, 300, 3, 20, axis);
      expect_right(home, ScatterOp::Add, kF32, 2, 1300, 3, axis);
      expect_right(home, ScatterOp::Add, kF32, 1, 1, 3, axis);
    }
    observe_steps(nullptr);
    EXPECT_EQ(atomic, deterministic ? 12 + 2 : 24 + 8) << "integers are the same in any order";
  }
}

TEST(ScatterSimt, the_mode_is_a_part_of_keys) {
  Backend& home = device("simulated");
  NodeRef node = make_scatter(ScatterOp::Add, on(home, numbers(8, 5, 1), kF32, {8}), on(home, {1, 1, 2}, kI64, {3}),
                              on(home, {1, 2, 3}, kF32, {3}), 0);
  std::vector<Structure> kernels;
  observe_steps([&](const Program::Step& step, Backend&) { kernels.push_back(structure(step.loops)); });
  for (bool deterministic : {false, true, false, true}) {
    Mode mode(deterministic);
    testing::realize_one(node);
  }
  observe_steps(nullptr);
  ASSERT_EQ(kernels.size(), 2u) << "a plan for each mode";
  EXPECT_FALSE(kernels[0] == kernels[1]);
}

// How many scatters had private copies of the result while this lived; of schedules for other numbers of cores too.
class PrivateCopies {
 public:
  PrivateCopies() {
    observe_steps([this](const Program::Step& step, Backend& where) {
      if (step.direct || !step.loops.stages.back().ordered) return;
      Target target = where.target();
      const std::string schedule = print(default_schedule(step.loops, target));
      count_ += default_schedule(step.loops, target).stages.back().is<PrivateScatter>();
      for (int cores : {1, 2, 64}) {
        target.cores = cores;
        if (default_schedule(step.loops, target).stages.back().is<PrivateScatter>()) {
          EXPECT_EQ(print(default_schedule(step.loops, target)), schedule) << cores;
        }
      }
    });
  }
  ~PrivateCopies() { observe_steps(nullptr); }
  int count() const { return count_; }

 private:
  int count_ = 0;
};

TEST(ScatterPrivate, agrees_with_the_evaluator) {
  Backend& home = device("cpu");
  PrivateCopies copies;
  for (ScatterOp op : {ScatterOp::Add, ScatterOp::Max, ScatterOp::Min, ScatterOp::Mul})
    for (DType dtype : {kF32, kF64, kF16, kBF16, kI8, kI32, kI64, kU8}) expect_right(home, op, dtype, 5, 41, 1000, 0);
  EXPECT_EQ(copies.count(), 24);  // small floats are rounded at every step, in their order
  expect_right(home, ScatterOp::Set, kF32, 5, 41, 1000, 0);
  expect_right(home, ScatterOp::Add, kF32, 5, 4000, 10, 0);  // large against its updates
  EXPECT_EQ(copies.count(), 24);
  for (int64_t rows : {1, 7, 100, 1000}) expect_right(home, ScatterOp::Add, kI32, rows, 1, 40000, 0);
  for (int64_t updates : {32768, 32769, 40009}) expect_right(home, ScatterOp::Add, kF32, 7, 1, updates, 0);
  expect_right(home, ScatterOp::Add, kI64, 3, 7, 20001, 1);
  expect_right(home, ScatterOp::Add, kI32, 2, 1300, 301, 0);
  EXPECT_GE(copies.count(), 24 + 8);
}

TEST(ScatterPrivate, leaves_what_nothing_is_added_to) {
  Backend& home = device("cpu");
  PrivateCopies copies;
  const int64_t updates = 40000;
  std::vector<std::byte> bytes(4 * sizeof(float));
  const float base[] = {-0.0f, -0.0f, INFINITY, NAN};
  std::memcpy(bytes.data(), base, bytes.size());
  auto buffer = home.allocate(bytes.size());
  home.copy_from_host(*buffer, bytes.data(), bytes.size());
  NodeRef node = make_scatter(ScatterOp::Add, make_buffer(buffer, kF32, {4}),
                              on(home, std::vector<int64_t>(updates, 1), kI64, {updates}),
                              on(home, std::vector<int64_t>(updates, 1), kF32, {updates}), 0);
  NodeRef done = testing::realize_one(node);
  float got[4];
  home.copy_to_host(reinterpret_cast<std::byte*>(got), dynamic_cast<const DeviceBuffer&>(*done->storage), sizeof got);
  EXPECT_TRUE(got[0] == 0 && std::signbit(got[0]));
  EXPECT_EQ(got[1], updates);
  EXPECT_EQ(got[2], INFINITY);
  EXPECT_TRUE(std::isnan(got[3]));
  EXPECT_EQ(copies.count(), 1);
}

}  // namespace
}  // namespace heddle
