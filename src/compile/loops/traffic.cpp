#include "compile/loops/traffic.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "compile/loops/contraction.h"

namespace heddle {
namespace {

constexpr uint64_t kMany = uint64_t{1} << 62;

uint64_t product(uint64_t a, int64_t b) {
  if (b <= 0) return 0;
  return a > kMany / static_cast<uint64_t>(b) ? kMany : a * static_cast<uint64_t>(b);
}

// Sizes as numbers.
class Sizes {
 public:
  Sizes(const Loops& loops, std::span<const int64_t> symbols) : loops_(loops), symbols_(symbols) {}

  // Else an axis, or an index that is read from memory.
  bool is_size(const Expr& variable) const { return contains(loops_.symbols, variable); }

  int64_t operator()(const Expr& size) const {
    if (size.is_const()) return size.value();
    if (symbols_.empty()) return size.hi();
    return evaluate(size, [&](const Expr& symbol) {
      auto known = std::ranges::find(loops_.symbols, symbol);
      HD_ASSERT(known != loops_.symbols.end(), "kernel ", loops_.name, " has no symbol ", symbol);
      return symbols_[known - loops_.symbols.begin()];
    });
  }

 private:
  const Loops& loops_;
  std::span<const int64_t> symbols_;
};

struct Touched {
  std::unordered_set<Expr> addresses;
  uint64_t elements = 0;

  void add(const Expr& address, uint64_t iterations, const Sizes& sizes) {
    if (!addresses.insert(address).second) return;
    uint64_t values = 1;
    for (const Expr& variable : variables(address))
      if (!sizes.is_size(variable)) values = product(values, sizes(variable.extent()));
    elements = std::min(kMany, elements + std::min(values, iterations));
  }
};

uint64_t flops_of(const kernel::Reducer& reducer);

// Of one evaluation.
uint64_t flops_of(const kernel::Inst& inst, std::span<const kernel::Type> values) {
  if (inst.reducer) return flops_of(*inst.reducer);
  if (!kernel::is_scalar_op(inst.op) || !is_float(values[inst.results[0]].dtype)) return 0;
  switch (kernel::scalar_op(inst.op)) {
    case ScalarOp::where: return 0;
    case ScalarOp::fma: return 2;
    default: return 1;
  }
}

uint64_t flops_of(const kernel::Reducer& reducer) {
  uint64_t total = 0;
  for (const kernel::Inst& each : reducer.combine.insts) total += flops_of(each, reducer.values);
  return total;
}

uint64_t count_flops(const Loops& loops, const Sizes& sizes) {
  uint64_t total = 0;
  for (const Stage& stage : loops.stages) {
    const auto along = dependences(loops, stage);
    const size_t axes = loops.outer.size() + stage.inner.size();
    auto add = [&](uint64_t flops, const std::vector<bool>& follows) {
      for (size_t i = 0; i < axes; ++i)
        if (follows[i]) flops = product(flops, sizes(loops.axis(stage, i).extent));
      total = std::min(kMany, total + flops);
    };
    for (const kernel::Inst& inst : stage.body.insts)
      if (const uint64_t flops = flops_of(inst, loops.values)) add(flops, along.at(inst.results[0]));
    if (stage.reducer) add(flops_of(*stage.reducer), std::vector<bool>(axes, true));
  }
  return total;
}

}  // namespace

Traffic traffic(std::span<const kernel::Buffer> buffers) {
  Traffic total;
  for (const kernel::Buffer& buffer : buffers) {
    auto bytes = static_cast<uint64_t>(buffer.size.hi()) * static_cast<uint64_t>(size_of(buffer.dtype));
    (buffer.space == kernel::Space::In ? total.read : total.written) += bytes;
  }
  return total;
}

Traffic traffic(const Loops& loops) { return traffic(loops, {}); }

Traffic traffic(const Loops& loops, std::span<const int64_t> symbols) {
  const Sizes sizes(loops, symbols);
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
  for (const Axis& axis : loops.outer) outer = product(outer, sizes(axis.extent));
  for (const Stage& stage : loops.stages) {
    uint64_t iterations = outer;
    Substitution renamed;
    for (size_t k = 0; k < stage.inner.size(); ++k) {
      const Axis& axis = stage.inner[k];
      iterations = product(iterations, sizes(axis.extent));
      renamed.emplace_back(axis.var, common_axis(k, axis.extent));
    }
    for (const kernel::Inst& inst : stage.body.insts)
      if (inst.op == kernel::Op::load || inst.op == kernel::Op::store)
        (inst.op == kernel::Op::load ? loaded : stored)[inst.buffer].add(substitute(inst.address, renamed), iterations,
                                                                         sizes);
  }

  Traffic total;
  for (size_t i = 0; i < loops.buffers.size(); ++i) {
    auto size = static_cast<uint64_t>(std::max<int64_t>(0, sizes(loops.buffers[i].size)));
    auto bytes = static_cast<uint64_t>(size_of(loops.buffers[i].dtype));
    total.read += std::min(size, loaded[i].elements) * bytes;
    total.written += std::min(size, stored[i].elements) * bytes;
  }
  total.flops = count_flops(loops, sizes);
  return total;
}

}  // namespace heddle
