// What a kernel computes, from the interpreter.
#include <algorithm>

#include "compile/schedule/schedule.h"
#include "kernel/interpreter.h"
#include "tune/workload.h"

namespace heddle {
namespace {

// Instructions at points, of all segments. The interpreter takes about a second for so many.
constexpr double kMostSteps = 1 << 22;

// One element of the outer axes at a time, everything inside at once.
Schedule plainest_schedule(const Loops& loops) {
  constexpr int64_t kLong = 1024;
  Schedule schedule = plain_schedule(loops);
  for (size_t s = 0; s < loops.stages.size(); ++s) {
    const Stage& stage = loops.stages[s];
    StageSchedule& plan = schedule.stages[s];
    plan.joined = false;
    for (size_t i = 0; i < stage.inner.size(); ++i) {
      const int axis = static_cast<int>(loops.outer.size() + i);
      if (stage.ordered || stage.inner[i].extent.hi() > kLong) plan.loops.push_back({axis, stage.ordered ? 1 : kLong});
    }
  }
  return schedule;
}

double steps(const Loops& loops, std::span<const int64_t> symbols) {
  auto extent = [&](const Axis& axis) {
    return static_cast<double>(evaluate(axis.extent, [&](const Expr& variable) {
      for (size_t i = 0; i < loops.symbols.size(); ++i)
        if (loops.symbols[i] == variable) return symbols[i];
      return variable.hi();
    }));
  };
  double rows = 1, sum = 0;
  for (const Axis& axis : loops.outer) rows *= extent(axis);
  for (const Stage& stage : loops.stages) {
    double points = rows;
    for (const Axis& axis : stage.inner) points *= extent(axis);
    sum += points * static_cast<double>(stage.body.insts.size() + 1);
  }
  return sum;
}

}  // namespace

std::optional<Bench::Outputs> Bench::interpreted() {
  const Loops& loops = workload_.loops;
  double all = 0;
  for (const std::vector<int64_t>& symbols : workload_.segments) all += steps(loops, symbols);
  Target target;  // nothing of it matters to a plain schedule
  target.name = "interpreter";
  const Schedule schedule = plainest_schedule(loops);
  if (all > kMostSteps || !check(schedule, loops, target).empty()) return {};
  const kernel::Kernel kernel = tile(loops, schedule, target);
  Outputs result;
  for (size_t g = 0; g < buffers_.size(); ++g) {
    std::vector<std::vector<std::byte>> memory;
    std::vector<void*> pointers;
    std::vector<int64_t> sizes;
    for (size_t b = 0; b < kernel.buffers.size(); ++b) {
      const kernel::Buffer& buffer = kernel.buffers[b];
      sizes.push_back(evaluate(buffer.size, [&](const Expr& variable) {
        for (size_t i = 0; i < kernel.symbols.size(); ++i)
          if (kernel.symbols[i] == variable) return workload_.segments[g][i];
        return variable.hi();
      }));
      memory.emplace_back(static_cast<size_t>(sizes.back() * size_of(buffer.dtype)));
      if (b < buffers_[g].size() && buffer.space == kernel::Space::In)
        device_.copy_to_host(memory.back().data(), *buffers_[g][b], memory.back().size());
    }
    for (size_t b = 0; b < memory.size(); ++b)
      pointers.push_back(kernel.buffers[b].space == kernel::Space::Shared ? nullptr : memory[b].data());
    kernel::interpret(kernel, pointers, sizes, workload_.segments[g]);
    for (size_t b = 0; b < buffers_[g].size(); ++b)
      if (loops.buffers[b].space != kernel::Space::In) result.push_back(std::move(memory[b]));
  }
  return result;
}

}  // namespace heddle
