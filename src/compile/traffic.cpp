#include "compile/traffic.h"

#include <algorithm>
#include <unordered_set>

namespace heddle {
namespace {

constexpr uint64_t kMany = uint64_t{1} << 62;

uint64_t product(uint64_t a, int64_t b) {
  if (b <= 0) return 0;
  return a > kMany / static_cast<uint64_t>(b) ? kMany : a * static_cast<uint64_t>(b);
}

struct Touched {
  std::unordered_set<Expr> addresses;
  uint64_t elements = 0;

  void add(const Expr& address, uint64_t iterations) {
    if (!addresses.insert(address).second) return;
    uint64_t values = 1;
    for (const Expr& variable : variables(address)) values = product(values, variable.extent().hi());
    elements = std::min(kMany, elements + std::min(values, iterations));
  }
};

}  // namespace

Traffic traffic(std::span<const kernel::Buffer> buffers) {
  Traffic total;
  for (const kernel::Buffer& buffer : buffers) {
    auto bytes = static_cast<uint64_t>(buffer.size.hi()) * static_cast<uint64_t>(size_of(buffer.dtype));
    (buffer.space == kernel::Space::In ? total.read : total.written) += bytes;
  }
  return total;
}

Traffic traffic(const Loops& loops) {
  std::vector<Touched> loaded(loops.buffers.size()), stored(loops.buffers.size());
  // Inner axes of different stages are different variables; the same names for the k-th of each make addresses that
  // mean the same equal.
  std::vector<Axis> common;
  auto common_axis = [&](size_t position, const Expr& extent) {
    size_t seen = 0;
    for (const Axis& axis : common)
      if (axis.extent == extent && seen++ == position) return axis.var;
    for (; seen <= position; ++seen) common.push_back({Expr::index("i", extent), extent});
    return common.back().var;
  };

  uint64_t outer = 1;
  for (const Axis& axis : loops.outer) outer = product(outer, axis.extent.hi());
  for (const Stage& stage : loops.stages) {
    uint64_t iterations = outer;
    Substitution renamed;
    for (size_t k = 0; k < stage.inner.size(); ++k) {
      const Axis& axis = stage.inner[k];
      iterations = product(iterations, axis.extent.hi());
      renamed.emplace_back(axis.var, common_axis(k, axis.extent));
    }
    kernel::visit(stage.body, [&](const kernel::Inst& inst) {
      bool reads = inst.op == kernel::Op::load || inst.op == kernel::Op::combine;
      bool writes = inst.op == kernel::Op::store || inst.op == kernel::Op::combine;
      if (!reads && !writes) return;
      Expr address = substitute(inst.address, renamed);
      auto buffer = static_cast<size_t>(inst.buffer);
      if (reads) loaded[buffer].add(address, iterations);
      if (writes) stored[buffer].add(address, iterations);
    });
  }

  Traffic total;
  for (size_t i = 0; i < loops.buffers.size(); ++i) {
    auto size = static_cast<uint64_t>(std::max<int64_t>(0, loops.buffers[i].size.hi()));
    auto bytes = static_cast<uint64_t>(size_of(loops.buffers[i].dtype));
    total.read += std::min(size, loaded[i].elements) * bytes;
    total.written += std::min(size, stored[i].elements) * bytes;
  }
  return total;
}

}  // namespace heddle
