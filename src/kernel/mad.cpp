// Multiply-add fusion for floats: a * b + c, a * b - c and c - a * b become fma when the product has no other use.
#include <unordered_map>

#include "kernel/pass_util.h"
#include "kernel/passes.h"

namespace heddle::kernel {
namespace {

class Fuser {
 public:
  explicit Fuser(Kernel& kernel) : kernel_(kernel), uses_(kernel.values.size(), 0) {
    for (Phase& phase : kernel_.phases) count(phase.body);
  }

  void run(Block& block) {
    // Products of this very block by result: one hoisted out of a loop is cheaper left where it is.
    std::unordered_map<Value, SmallVector<Value, 3>> products;
    auto product = [&](Value v, const Type& wanted) -> const SmallVector<Value, 3>* {
      if (uses_[static_cast<size_t>(v)] != 1 || type(v) != wanted) return nullptr;
      auto found = products.find(v);
      return found == products.end() ? nullptr : &found->second;
    };
    std::vector<bool> fused(uses_.size(), false);
    std::vector<Inst> insts = std::move(block.insts);
    block.insts.clear();
    for (Inst& inst : insts) {
      for (Block& inner : inst.blocks) run(inner);
      if ((inst.op == Op::add || inst.op == Op::sub) && is_float(type(inst.results[0]).dtype)) {
        Value a = inst.args[0], b = inst.args[1];
        Type wanted = type(inst.results[0]);
        if (const auto* factors = product(a, wanted)) {
          fused[static_cast<size_t>(a)] = true;
          Value addend = inst.op == Op::sub ? negate(b, block) : b;
          inst.args = {(*factors)[0], (*factors)[1], addend};
          inst.op = Op::fma;
        } else if (const auto* right = product(b, wanted)) {
          fused[static_cast<size_t>(b)] = true;
          Value first = inst.op == Op::sub ? negate((*right)[0], block) : (*right)[0];
          inst.args = {first, (*right)[1], a};
          inst.op = Op::fma;
        }
      }
      if (inst.op == Op::mul && is_float(type(inst.results[0]).dtype)) products.emplace(inst.results[0], inst.args);
      block.insts.push_back(std::move(inst));
    }
    std::erase_if(block.insts, [&](const Inst& inst) {
      return inst.op == Op::mul && static_cast<size_t>(inst.results[0]) < fused.size() &&
             fused[static_cast<size_t>(inst.results[0])];
    });
  }

 private:
  const Type& type(Value v) const { return kernel_.values[static_cast<size_t>(v)]; }

  Value negate(Value v, Block& block) {
    Inst inst;
    inst.op = Op::neg;
    inst.args.push_back(v);
    Type copy = type(v);
    inst.results.push_back(static_cast<Value>(kernel_.values.size()));
    kernel_.values.push_back(copy);
    uses_.push_back(1);
    block.insts.push_back(std::move(inst));
    return static_cast<Value>(kernel_.values.size() - 1);
  }

  void count(const Block& block) {
    for (Value v : block.results) ++uses_[static_cast<size_t>(v)];
    for (const Inst& inst : block.insts) {
      for (Value v : inst.args) ++uses_[static_cast<size_t>(v)];
      for (const Block& inner : inst.blocks) count(inner);
    }
  }

  Kernel& kernel_;
  std::vector<int> uses_;
};

}  // namespace

void fuse_mad(Kernel& kernel) {
  Fuser fuser(kernel);
  for (Phase& phase : kernel.phases) fuser.run(phase.body);
}

}  // namespace heddle::kernel
