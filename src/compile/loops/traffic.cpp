#include "compile/loops/traffic.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "compile/loops/contraction.h"

namespace heddle {
namespace {

// Counts are doubles on the way: they do not overflow.
uint64_t whole(double count) { return static_cast<uint64_t>(std::min(count, 0x1p62)); }

// Sizes as numbers.
class Sizes {
 public:
  Sizes(const Loops& loops, std::span<const int64_t> symbols) : loops_(loops), symbols_(symbols) {}

  // Else an axis, or an index that is read from memory.
  bool is_size(const Expr& variable) const { return contains(loops_.symbols, variable); }

  double operator()(const Expr& size) const {
    auto value_of = [&](const Expr& symbol) {
      HD_ASSERT(is_size(symbol), "kernel ", loops_.name, " has no symbol ", symbol);
      return symbols_[position_of(loops_.symbols, symbol)];
    };
    const bool fixed = size.is_const() || symbols_.empty();
    return static_cast<double>(std::max<int64_t>(0, fixed ? size.hi() : evaluate(size, value_of)));
  }

 private:
  const Loops& loops_;
  std::span<const int64_t> symbols_;
};

struct Touched {
  std::unordered_set<Expr> addresses;
  double elements = 0;

  void add(const Expr& address, double iterations, const Sizes& sizes) {
    if (!addresses.insert(address).second) return;
    double values = 1;
    for (const Expr& variable : variables(address))
      if (!sizes.is_size(variable)) values *= sizes(variable.extent());
    elements += std::min(values, iterations);
  }
};

int flops_of(const kernel::Reducer& reducer);

// Of one evaluation.
int flops_of(const kernel::Inst& inst, std::span<const kernel::Type> values) {
  if (inst.reducer) return flops_of(*inst.reducer);
  if (!kernel::is_scalar_op(inst.op) || !is_float(values[inst.results[0]].dtype)) return 0;
  switch (kernel::scalar_op(inst.op)) {
    case ScalarOp::where: return 0;
    case ScalarOp::fma: return 2;
    default: return 1;
  }
}

int flops_of(const kernel::Reducer& reducer) {
  int total = 0;
  for (const kernel::Inst& each : reducer.combine.insts) total += flops_of(each, reducer.values);
  return total;
}

double count_flops(const Loops& loops, const Sizes& sizes) {
  double total = 0;
  for (const Stage& stage : loops.stages) {
    const auto along = dependences(loops, stage);
    const size_t axes = loops.outer.size() + stage.inner.size();
    auto points = [&](const std::vector<bool>& follows) {
      double all = 1;
      for (size_t i = 0; i < axes; ++i)
        if (follows[i]) all *= sizes(loops.axis(stage, i).extent);
      return all;
    };
    for (const kernel::Inst& inst : stage.body.insts)
      if (const int flops = flops_of(inst, loops.values)) total += flops * points(along.at(inst.results[0]));
    if (stage.reducer) total += flops_of(*stage.reducer) * points(std::vector<bool>(axes, true));
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

  double outer = 1;
  for (const Axis& axis : loops.outer) outer *= sizes(axis.extent);
  for (const Stage& stage : loops.stages) {
    double iterations = outer;
    Substitution renamed;
    for (size_t k = 0; k < stage.inner.size(); ++k) {
      const Axis& axis = stage.inner[k];
      iterations *= sizes(axis.extent);
      renamed.emplace_back(axis.var, common_axis(k, axis.extent));
    }
    for (const kernel::Inst& inst : stage.body.insts)
      if (inst.op == kernel::Op::load || inst.op == kernel::Op::store)
        (inst.op == kernel::Op::load ? loaded : stored)[inst.buffer].add(substitute(inst.address, renamed), iterations,
                                                                         sizes);
  }

  Traffic total;
  for (size_t i = 0; i < loops.buffers.size(); ++i) {
    const double size = sizes(loops.buffers[i].size), bytes = size_of(loops.buffers[i].dtype);
    total.read += whole(std::min(size, loaded[i].elements) * bytes);
    total.written += whole(std::min(size, stored[i].elements) * bytes);
  }
  total.flops = whole(count_flops(loops, sizes));
  return total;
}

}  // namespace heddle
