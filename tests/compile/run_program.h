// Runs the compiler's output in every way there is, for comparison with the evaluator.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <unordered_map>

#include "compile/fuse/check_program.h"
#include "compile/fuse/fuse.h"
#include "compile/lower.h"
#include "compile/schedule/schedule.h"
#include "graph/graph.h"
#include "kernel/interpreter.h"
#include "kernel/passes.h"

namespace heddle::testing {

enum class How { Tile, Simd, Simt };
using PickSchedule = std::function<Schedule(const Loops&, const Target&)>;

inline Target test_target(How how) {
  Target target;
  target.name = how == How::Simt ? "simulated" : "avx512";
  target.machine = how == How::Simt ? Machine::Simt : Machine::Simd;
  target.cores = 2;
  return target;
}

// Runs one kernel on host memory.
using RunKernel = std::function<void(const kernel::Kernel&, std::span<void* const>, std::span<const int64_t> sizes,
                                     std::span<const int64_t> symbols)>;

// Elements of each root, as the evaluator gives them. `replaces`: as for fuse().
inline std::vector<HostArray> run_program(std::span<const NodeRef> roots, How how, const PickSchedule& pick,
                                          const RunKernel& run_kernel = {}, int* launches = nullptr,
                                          const Target* machine = nullptr, std::span<const Node* const> replaces = {}) {
  Target target = machine ? *machine : test_target(how);
  Program program = fuse(roots, replaces);
  std::vector<std::vector<std::byte>> memory(program.tensors.size());
  auto bytes_of = [](const Node* n) {
    return static_cast<size_t>(n->shape.static_numel()) * static_cast<size_t>(size_of(n->dtype));
  };
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    const Node* node = program.tensors[i].node;
    memory[i].resize(bytes_of(node) + 64);
    if (node->op == NodeOp::Buffer && bytes_of(node))
      std::memcpy(memory[i].data(), node->storage->host_data(), bytes_of(node));
  }
  for (size_t i = 0; i < program.tensors.size(); ++i)
    if (program.tensors[i].updated) memory[i] = memory[static_cast<size_t>(program.tensors[i].replaces)];
  for (const Program::Step& step : program.steps) {
    kernel::Kernel k;
    std::string trace;
    if (step.direct) {
      k = build_direct(*step.direct, target);
      trace = step.direct->description;
    } else {
      verify(step.loops);
      Schedule schedule = pick(step.loops, target);
      EXPECT_EQ(print(parse_schedule(print(schedule))), print(schedule));
      k = tile(step.loops, schedule, target);
      kernel::verify(k);
      trace = print(step.loops) + print(schedule) + "\n" + kernel::print(k);
      if (how != How::Tile) k = lower(k, target);
    }
    kernel::verify(k);
    SCOPED_TRACE(trace);
    for (const Program::Segment& segment : step.segments) {
      std::vector<void*> buffers;
      std::vector<int64_t> sizes, symbols;
      Substitution values;
      for (size_t i = 0; i < k.symbols.size(); ++i) {
        values.emplace_back(k.symbols[i], segment.symbols[i]);
        symbols.push_back(segment.symbols[i].value());
      }
      std::vector<std::vector<std::byte>> temps(k.buffers.size());
      for (size_t b = 0; b < k.buffers.size(); ++b) {
        int64_t size = substitute(k.buffers[b].size, values).value();
        sizes.push_back(size);
        if (b < segment.tensors.size()) {
          buffers.push_back(memory[static_cast<size_t>(segment.tensors[b])].data());
        } else {
          temps[b].resize(static_cast<size_t>(size * size_of(k.buffers[b].dtype)) + 64);
          buffers.push_back(k.buffers[b].space == kernel::Space::Shared ? nullptr : temps[b].data());
        }
      }
      if (run_kernel)
        run_kernel(k, buffers, sizes, symbols);
      else
        kernel::interpret(k, buffers, sizes, symbols);
    }
    if (launches) ++*launches;
  }
  std::vector<HostArray> results;
  for (int output : program.outputs) {
    const Node* node = program.tensors[static_cast<size_t>(output)].node;
    HostArray array;
    array.dtype = node->dtype;
    for (const Expr& d : node->shape) array.shape.push_back(d.value());
    for (int64_t i = 0; i < node->shape.static_numel(); ++i) {
      Scalar s = load_scalar(memory[static_cast<size_t>(output)].data(), i, node->dtype);
      if (is_float(node->dtype))
        array.floats.push_back(s.f);
      else
        array.integers.push_back(s.u);
    }
    results.push_back(std::move(array));
  }
  return results;
}

// Integers equal; floats close, relative to `scale` (about the largest value met on the way).
inline void expect_close(const HostArray& got, const HostArray& want, double tolerance) {
  ASSERT_EQ(got.shape, want.shape);
  ASSERT_EQ(got.dtype, want.dtype);
  ASSERT_EQ(got.integers, want.integers);
  double small = size_of(got.dtype) == 1 && is_float(got.dtype) ? 0.3
                 : got.dtype == DType::bf16                     ? 0.02
                 : got.dtype == DType::f16                      ? 0.004
                                                                : 0;
  for (size_t i = 0; i < want.floats.size(); ++i) {
    double a = got.floats[i], b = want.floats[i];
    if (std::isnan(a) && std::isnan(b)) continue;
    if (a == b) continue;
    ASSERT_LE(std::fabs(a - b), (tolerance + small) * (1 + std::fabs(b)))
        << "element " << i << ": " << a << " instead of " << b;
  }
}

// Under the default schedule and some random ones. `launches`: how many are expected, or -1.
inline void expect_like_evaluator(std::span<const NodeRef> roots, int launches, double tolerance,
                                  const std::function<int(How)>& seeds) {
  std::vector<HostArray> want = evaluate(roots);
  check_program(fuse(roots));
  for (How how : {How::Tile, How::Simd, How::Simt}) {
    SCOPED_TRACE(how == How::Tile ? "tile" : how == How::Simd ? "simd" : "simt");
    for (int seed = 0; seed < seeds(how); ++seed) {
      int launched = 0;
      auto pick = [&](const Loops& l, const Target& t) {
        return seed == 0 ? default_schedule(l, t) : random_schedule(l, t, static_cast<uint64_t>(seed));
      };
      auto got = run_program(roots, how, pick, {}, &launched);
      if (launches >= 0) {
        EXPECT_EQ(launched, launches);
      }
      for (size_t i = 0; i < want.size(); ++i) expect_close(got[i], want[i], tolerance);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace heddle::testing
