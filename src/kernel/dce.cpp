// Dead code: marks what stores, combines and barriers need, backwards through carried values, and drops the rest.
#include "kernel/pass_util.h"
#include "kernel/passes.h"

namespace heddle::kernel {
namespace {

class Sweeper {
 public:
  explicit Sweeper(Kernel& kernel)
      : kernel_(kernel),
        live_(kernel.values.size(), false),
        needs_(kernel.values.size()),
        read_(kernel.buffers.size(), false) {
    for (Phase& phase : kernel_.phases)
      visit(phase.body, [&](const Inst& inst) {
        if (inst.op == Op::load || inst.op == Op::load_matrix) read_[static_cast<size_t>(inst.buffer)] = true;
        for (const Panel& panel : inst.panels) read_[static_cast<size_t>(panel.buffer)] = true;
        for (const Region& region : inst.regions) read_[static_cast<size_t>(region.buffer)] = true;
      });
    for (Phase& phase : kernel_.phases) record(phase.body);
    while (!pending_.empty()) {
      Value v = pending_.back();
      pending_.pop_back();
      for (Value needed : needs_[static_cast<size_t>(v)]) mark(needed);
    }
  }

  // True if a load went away: then stores may have become dead.
  bool sweep() {
    bool lost_load = false;
    for (Phase& phase : kernel_.phases) lost_load = sweep(phase.body) || lost_load;
    return lost_load;
  }

 private:
  bool live(Value v) const { return live_[static_cast<size_t>(v)]; }
  void mark(Value v) {
    if (live(v)) return;
    live_[static_cast<size_t>(v)] = true;
    pending_.push_back(v);
  }
  void need(Value user, Value used) { needs_[static_cast<size_t>(user)].push_back(used); }

  bool has_effect(const Inst& inst) const {
    switch (inst.op) {
      case Op::barrier:
      case Op::panel_dot:
      case Op::matrix_dot:
      case Op::matrix_store:
      case Op::copy:
      case Op::copy_fence: return true;
      default: break;
    }
    if (inst.op != Op::store && inst.op != Op::combine && inst.op != Op::check) return false;
    auto buffer = static_cast<size_t>(inst.buffer);
    Space space = kernel_.buffers[buffer].space;
    return (space != Space::Shared && space != Space::Temp) || read_[buffer];
  }
  bool any_effect(const Inst& inst) const {
    if (has_effect(inst)) return true;
    bool found = false;
    for (const Body& code : inst.bodies) visit(code, [&](const Inst& inner) { found = found || has_effect(inner); });
    return found;
  }

  void record(const Body& code) {
    for (const Inst& inst : code.insts) {
      if (inst.op == Op::loop) {
        const Body& body = inst.bodies[0];
        for (size_t k = 0; k < body.params.size(); ++k) {
          // A slot's parameter, its next value and its final one live and die together.
          need(inst.results[k], body.params[k]);
          need(body.params[k], inst.results[k]);
          need(inst.results[k], inst.args[k]);
          need(inst.results[k], body.results[k]);
        }
      } else if (inst.op == Op::branch) {
        for (size_t k = 0; k < inst.results.size(); ++k) {
          for (const Body& taken : inst.bodies) need(inst.results[k], taken.results[k]);
          for (Value v : inst.args) need(inst.results[k], v);
        }
      } else {
        for (Value result : inst.results)
          for (Value v : inst.args) need(result, v);
        // A reducer's results stay together.
        for (Value result : inst.results)
          for (Value other : inst.results)
            if (result != other) need(result, other);
      }
      if (has_effect(inst) || (inst.op == Op::branch && any_effect(inst)))
        for (Value v : inst.args) mark(v);
      for (const Body& inner : inst.bodies) record(inner);
    }
  }

  bool sweep(Body& code) {
    bool lost_load = false;
    std::vector<Inst> kept;
    for (Inst& inst : code.insts) {
      bool wanted = any_effect(inst);
      for (Value v : inst.results) wanted = wanted || live(v);
      if (!wanted) {
        lost_load = lost_load || loads(inst);
        continue;
      }
      if (inst.op == Op::loop || inst.op == Op::branch) {
        drop_dead_slots(inst);
        for (Body& inner : inst.bodies) lost_load = sweep(inner) || lost_load;
      }
      kept.push_back(std::move(inst));
    }
    code.insts = std::move(kept);
    return lost_load;
  }

  static bool loads(const Inst& inst) {
    bool found = inst.op == Op::load;
    for (const Body& code : inst.bodies) visit(code, [&](const Inst& inner) { found = found || inner.op == Op::load; });
    return found;
  }

  void drop_dead_slots(Inst& inst) {
    for (size_t k = inst.results.size(); k-- > 0;) {
      if (live(inst.results[k])) continue;
      auto at = static_cast<std::ptrdiff_t>(k);
      inst.results.erase(k);
      if (inst.op == Op::loop) {
        inst.args.erase(k);
        inst.bodies[0].params.erase(inst.bodies[0].params.begin() + at);
      }
      for (Body& code : inst.bodies)
        if (!code.results.empty()) code.results.erase(code.results.begin() + at);
    }
  }

  Kernel& kernel_;
  std::vector<bool> live_;
  std::vector<SmallVector<Value, 4>> needs_;  // what a value, once live, makes live
  std::vector<bool> read_;
  std::vector<Value> pending_;
};

}  // namespace

void dce(Kernel& kernel) {
  while (Sweeper(kernel).sweep()) {}
  renumber(kernel);
}

}  // namespace heddle::kernel
