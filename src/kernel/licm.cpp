// Loop-invariant code motion: moves what gives the same value on every trip in front of the loop. Inner loops go
// first, so an instruction may climb through several.
#include "kernel/pass_util.h"
#include "kernel/passes.h"

namespace heddle::kernel {
namespace {

class Hoister {
 public:
  explicit Hoister(const Kernel& kernel) : kernel_(kernel), depth_(kernel.values.size(), 0) {}

  void run(Body& code, int depth) {
    for (Value v : code.params) depth_[static_cast<size_t>(v)] = depth;
    std::vector<Inst> insts = std::move(code.insts);
    code.insts.clear();
    for (Inst& inst : insts) {
      for (Value v : inst.results) depth_[static_cast<size_t>(v)] = depth;
      for (Body& inner : inst.bodies) run(inner, depth + 1);
      if (inst.op == Op::loop) hoist(inst, code, depth);
      code.insts.push_back(std::move(inst));
    }
  }

 private:
  void hoist(Inst& loop, Body& outer, int depth) {
    Body& body = loop.bodies[0];
    Writes writes = writes_of(kernel_, body);
    std::vector<Inst> kept;
    for (Inst& inst : body.insts) {
      if (!invariant(inst, loop, depth) || (inst.op == Op::load && !load_may_move(inst, loop, writes))) {
        kept.push_back(std::move(inst));
        continue;
      }
      for (Value v : inst.results) depth_[static_cast<size_t>(v)] = depth;
      outer.insts.push_back(std::move(inst));
    }
    body.insts = std::move(kept);
  }

  bool invariant(const Inst& inst, const Inst& loop, int depth) const {
    if (!is_pure(inst.op) && inst.op != Op::load) return false;
    for (Value v : inst.args)
      if (depth_[static_cast<size_t>(v)] > depth) return false;
    return !depends_on(inst.address, loop.var) && !depends_on(inst.guard, loop.var);
  }

  // In front of a loop that may not run at all, a load must be in bounds by itself; and of shared memory only what was
  // written may be read.
  bool load_may_move(const Inst& load, const Inst& loop, const Writes& writes) const {
    if (writes.buffers[static_cast<size_t>(load.buffer)]) return false;
    if (loop.extent.lo() >= 1) return true;
    if (!load.binds.empty()) return false;
    if (kernel_.buffers[static_cast<size_t>(load.buffer)].space == Space::Shared) return false;
    const Buffer& buffer = kernel_.buffers[static_cast<size_t>(load.buffer)];
    if (buffer.dtype != kernel_.values[static_cast<size_t>(load.results[0])].dtype) return false;
    const Expr& size = buffer.size;
    Expr inside = logical_and(ge(load.address, 0), lt(load.address, size));
    return provably_true(simplify_given(inside, load.guard));
  }

  const Kernel& kernel_;
  std::vector<int> depth_;  // nesting of the body that defines each value
};

}  // namespace

void licm(Kernel& kernel) {
  Hoister hoister(kernel);
  for (Phase& phase : kernel.phases) hoister.run(phase.body, 0);
}

}  // namespace heddle::kernel
