#include "compile/loops/traffic.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"

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
  bool is_size(const Expr& variable) const {
    return std::find(loops_.symbols.begin(), loops_.symbols.end(), variable) != loops_.symbols.end();
  }

  int64_t operator()(const Expr& size) const {
    if (size.is_const()) return size.value();
    if (symbols_.empty()) return size.hi();
    return evaluate(size, [&](const Expr& symbol) {
      auto known = std::find(loops_.symbols.begin(), loops_.symbols.end(), symbol);
      HD_ASSERT(known != loops_.symbols.end(), "kernel ", loops_.name, " has no symbol ", symbol);
      return symbols_[static_cast<size_t>(known - loops_.symbols.begin())];
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

bool has_float_result(const kernel::Inst& inst, std::span<const kernel::Type> values) {
  return !inst.results.empty() && is_float(values[static_cast<size_t>(inst.results[0])].dtype);
}

// Of one evaluation.
uint64_t flops_of(const kernel::Inst& inst, std::span<const kernel::Type> values) {
  if (inst.reducer) {
    uint64_t total = 0;
    for (const kernel::Inst& each : inst.reducer->combine.insts) total += flops_of(each, inst.reducer->values);
    return total;
  }
  if (!kernel::is_scalar_op(inst.op) || !has_float_result(inst, values)) return 0;
  switch (kernel::scalar_op(inst.op)) {
    case ScalarOp::where: return 0;
    case ScalarOp::fma: return 2;
    default: return 1;
  }
}

class FlopCounter {
 public:
  FlopCounter(const Loops& loops, const Sizes& sizes) : loops_(loops), sizes_(sizes), along_(loops.values.size(), 0) {}

  uint64_t count() {
    for (const Axis& axis : loops_.outer) axes_.push_back(axis);
    const size_t outer = axes_.size();
    for (const Stage& stage : loops_.stages) {
      axes_.resize(outer);
      axes_.insert(axes_.end(), stage.inner.begin(), stage.inner.end());
      for (const kernel::Inst& inst : stage.body.insts) add(inst);
      const Along rows = outer < 64 ? (Along{1} << outer) - 1 : ~Along{0};
      for (kernel::Value result : stage.results) {
        along_[static_cast<size_t>(result)] = rows;
        for (size_t i = 0; i < stage.kept; ++i) kept_[result].push_back(stage.inner[i].var);
      }
      if (!stage.reducer) continue;
      kernel::Inst combine;
      combine.reducer = stage.reducer;
      total_ = std::min(kMany, total_ + product(points(~Along{0}), static_cast<int64_t>(flops_of(combine, {}))));
    }
    return total_;
  }

 private:
  // A bit for each of axes_: those that a value depends on. Nobody writes 64 axes that cannot be merged; what is beyond
  // would not be counted.
  using Along = uint64_t;

  Along along(const Expr& e) const {
    Along found = 0;
    for (const Expr& variable : variables(e))
      for (size_t i = 0; i < std::min<size_t>(axes_.size(), 64); ++i)
        if (axes_[i].var == variable) found |= Along{1} << i;
    return found;
  }
  uint64_t points(Along along) const {
    uint64_t result = 1;
    for (size_t i = 0; i < std::min<size_t>(axes_.size(), 64); ++i)
      if (along >> i & 1) result = product(result, sizes_(axes_[i].extent));
    return result;
  }

  void add(const kernel::Inst& inst) {
    Along depends = along(inst.address) | along(inst.guard);
    for (kernel::Value arg : inst.args) {
      depends |= along_[static_cast<size_t>(arg)];
      if (auto kept = kept_.find(arg); kept != kept_.end())
        for (const Expr& variable : kept->second) depends |= along(variable);
    }
    if (inst.reducer) depends = ~Along{0};
    for (kernel::Value result : inst.results) along_[static_cast<size_t>(result)] = depends;
    uint64_t each = flops_of(inst, loops_.values);
    if (each > 0) total_ = std::min(kMany, total_ + product(points(depends), static_cast<int64_t>(each)));
  }

  const Loops& loops_;
  const Sizes& sizes_;
  std::vector<Axis> axes_;
  std::vector<Along> along_;                                   // of each value
  std::unordered_map<kernel::Value, std::vector<Expr>> kept_;  // variables that results are kept along
  uint64_t total_ = 0;
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
    kernel::visit(stage.body, [&](const kernel::Inst& inst) {
      bool reads = inst.op == kernel::Op::load || inst.op == kernel::Op::combine;
      bool writes = inst.op == kernel::Op::store || inst.op == kernel::Op::combine;
      if (!reads && !writes) return;
      Expr address = substitute(inst.address, renamed);
      auto buffer = static_cast<size_t>(inst.buffer);
      if (reads) loaded[buffer].add(address, iterations, sizes);
      if (writes) stored[buffer].add(address, iterations, sizes);
    });
  }

  Traffic total;
  for (size_t i = 0; i < loops.buffers.size(); ++i) {
    auto size = static_cast<uint64_t>(std::max<int64_t>(0, sizes(loops.buffers[i].size)));
    auto bytes = static_cast<uint64_t>(size_of(loops.buffers[i].dtype));
    total.read += std::min(size, loaded[i].elements) * bytes;
    total.written += std::min(size, stored[i].elements) * bytes;
  }
  total.flops = FlopCounter(loops, sizes).count();
  return total;
}

}  // namespace heddle
