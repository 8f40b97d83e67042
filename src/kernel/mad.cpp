// Multiply-add fusion in sums of products: what a loop adds to a float that it carries, sum = sum + a * b, becomes
// fma(a, b, sum). Elsewhere a product rounds, because it may be computed in several places (in two loops of a kernel,
// or in two kernels) and has to be the same in all: else x * c less the largest x * c would not be at most zero.
#include <unordered_map>
#include <unordered_set>

#include "kernel/pass_util.h"
#include "kernel/passes.h"

namespace heddle::kernel {
namespace {

class Fuser {
 public:
  explicit Fuser(Kernel& kernel) : kernel_(kernel), uses_(kernel.values.size(), 0) {
    for (Phase& phase : kernel_.phases) count(phase.body);
  }

  void run(Body& code) {
    for (Inst& inst : code.insts)
      for (Body& inner : inst.bodies) {
        run(inner);
        if (inst.op == Op::loop) fuse(inner);
      }
  }

 private:
  // The body of a loop.
  void fuse(Body& body) {
    std::unordered_set<Value> carried(body.params.begin(), body.params.end());  // and sums that go on from there
    std::unordered_map<Value, const Inst*> products;
    for (const Inst& inst : body.insts) {
      if (inst.results.size() != 1 || !is_float(type(inst.results[0]).dtype)) continue;
      if (inst.op == Op::mul) products.emplace(inst.results[0], &inst);
      if (inst.op == Op::add && (carried.count(inst.args[0]) || carried.count(inst.args[1])))
        carried.insert(inst.results[0]);
    }
    // Backwards from what the next round gets.
    std::unordered_set<Value> passed(body.results.begin(), body.results.end()), gone;
    for (size_t i = body.insts.size(); i-- > 0;) {
      Inst& inst = body.insts[i];
      if (inst.op != Op::add || !passed.count(inst.results[0]) || !used_once(inst.results[0])) continue;
      if (!carried.count(inst.results[0])) continue;
      const size_t sum = carried.count(inst.args[0]) ? 0 : 1;
      const Value before = inst.args[sum], term = inst.args[1 - sum];
      passed.insert(before);
      auto product = products.find(term);
      if (product == products.end() || !used_once(term) || type(term) != type(inst.results[0])) continue;
      gone.insert(term);
      inst.args = {product->second->args[0], product->second->args[1], before};
      inst.op = Op::fma;
    }
    std::erase_if(body.insts, [&](const Inst& inst) { return inst.op == Op::mul && gone.count(inst.results[0]); });
  }

  const Type& type(Value v) const { return kernel_.values[static_cast<size_t>(v)]; }
  bool used_once(Value v) const { return uses_[static_cast<size_t>(v)] == 1; }

  void count(const Body& code) {
    for (Value v : code.results) ++uses_[static_cast<size_t>(v)];
    for (const Inst& inst : code.insts) {
      for (Value v : inst.args) ++uses_[static_cast<size_t>(v)];
      for (const Body& inner : inst.bodies) count(inner);
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
