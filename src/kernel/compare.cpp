// Comparisons of indices: in 32 bits where both fit.
#include <unordered_map>

#include "kernel/pass_util.h"
#include "kernel/passes.h"

namespace heddle::kernel {
namespace {

class Shortener {
 public:
  explicit Shortener(Kernel& kernel) : kernel_(kernel) {}

  void run(Body& code) {
    std::vector<Inst> insts = std::move(code.insts);
    code.insts.clear();
    for (Inst& inst : insts) {
      for (Body& inner : inst.bodies) run(inner);
      const bool compares = inst.op == Op::lt || inst.op == Op::le || inst.op == Op::eq || inst.op == Op::ne;
      if (compares && fits(inst.args[0]) && fits(inst.args[1]))
        for (Value& v : inst.args) v = shortened(v, code);
      const bool fixed = (inst.op == Op::index && inst.binds.empty()) || inst.op == Op::constant;
      if (fixed && type(inst.results[0]).dtype == kI64) known_.emplace(inst.results[0], inst);
      code.insts.push_back(std::move(inst));
    }
  }

 private:
  const Type& type(Value v) const { return kernel_.values[static_cast<size_t>(v)]; }

  bool fits(Value v) const {
    auto found = known_.find(v);
    if (found == known_.end()) return false;
    const Inst& inst = found->second;
    const int64_t low = inst.op == Op::index ? inst.address.lo() : inst.literal.i;
    const int64_t high = inst.op == Op::index ? inst.address.hi() : inst.literal.i;
    return low >= INT32_MIN && high <= INT32_MAX;
  }

  Value shortened(Value v, Body& code) {
    Inst inst = known_.at(v);
    Type narrow = type(v);
    narrow.dtype = kI32;
    if (inst.op == Op::constant) inst.literal = Scalar::of(kI32, inst.literal.i);
    const auto fresh = static_cast<Value>(kernel_.values.size());
    kernel_.values.push_back(narrow);
    inst.results = {fresh};
    code.insts.push_back(std::move(inst));
    return fresh;
  }

  Kernel& kernel_;
  std::unordered_map<Value, Inst> known_;  // indices and constants of 64 bits
};

}  // namespace

void shorten_comparisons(Kernel& kernel) {
  Shortener shortener(kernel);
  for (Phase& phase : kernel.phases) shortener.run(phase.body);
}

}  // namespace heddle::kernel
