// Loads that only feed stores run where these do. Threads of a block that hold no element of their own, or a copy of
// another's, then do not read it, so that what is stored may take the place of what was loaded (runtime/alias.h).
#include <optional>

#include "kernel/passes.h"

namespace heddle::kernel {
namespace {

// Where a value is wanted: `guard`, over the element's position `lane` if it is a vector.
struct Wanted {
  Expr guard;
  SmallVector<Expr, 4> coords;
};

class Narrower {
 public:
  explicit Narrower(Kernel& kernel)
      : kernel_(kernel),
        wanted_(kernel.values.size()),
        everywhere_(kernel.values.size(), false),
        home_(kernel.values.size(), nullptr) {}

  void run(Body& code) {
    for (Inst& inst : code.insts)
      for (Value v : inst.results) home_[static_cast<size_t>(v)] = &code;
    for (Value v : code.results) want_everywhere(v);
    for (size_t i = code.insts.size(); i-- > 0;) {
      Inst& inst = code.insts[i];
      if (inst.op == Op::store) {
        want(code, inst.args[0], {inst.guard, inst.coords});
        for (size_t k = 1; k < inst.args.size(); ++k) want_everywhere(inst.args[k]);
        if (!inst.binds.empty()) want_everywhere(inst.args[0]);  // its guard may speak of data
      } else if (is_scalar_op(inst.op) || inst.op == Op::cast || inst.op == Op::bitcast) {
        auto result = static_cast<size_t>(inst.results[0]);
        for (Value v : inst.args) {
          if (everywhere_[result])
            want_everywhere(v);
          else if (wanted_[result])
            want(code, v, *wanted_[result]);
        }
      } else {
        if (inst.op == Op::load && kernel_.buffers[static_cast<size_t>(inst.buffer)].space == Space::In) narrow(inst);
        for (Value v : inst.args) want_everywhere(v);
        for (Body& inner : inst.bodies) run(inner);
      }
    }
  }

 private:
  void want_everywhere(Value v) { everywhere_[static_cast<size_t>(v)] = true; }

  void want(const Body& code, Value v, const Wanted& where) {
    auto at = static_cast<size_t>(v);
    const Type& type = kernel_.values[at];
    bool lanes = false;
    for (const Expr& coord : where.coords) lanes = lanes || depends_on(where.guard, coord);
    // A value of another body, or one for all lanes of a vector that are not wanted together.
    if (home_[at] != &code || (lanes && type.shape.size() != where.coords.size())) return want_everywhere(v);
    if (!wanted_[at])
      wanted_[at] = where;
    else if (!(renamed(where, wanted_[at]->coords) == wanted_[at]->guard))
      want_everywhere(v);
  }

  static Expr renamed(const Wanted& where, const SmallVector<Expr, 4>& coords) {
    if (where.coords.size() != coords.size()) return where.guard;
    Substitution names;
    for (size_t d = 0; d < coords.size(); ++d) names.emplace_back(where.coords[d], coords[d]);
    return substitute(where.guard, names);
  }

  void narrow(Inst& load) {
    auto result = static_cast<size_t>(load.results[0]);
    if (everywhere_[result] || !wanted_[result]) return;
    load.guard = logical_and(load.guard, renamed(*wanted_[result], load.coords));
  }

  Kernel& kernel_;
  std::vector<std::optional<Wanted>> wanted_;
  std::vector<bool> everywhere_;
  std::vector<const Body*> home_;
};

}  // namespace

void narrow(Kernel& kernel) {
  if (kernel.level != Level::Thread || kernel.threads == 1) return;
  for (Phase& phase : kernel.phases) Narrower(kernel).run(phase.body);
}

}  // namespace heddle::kernel
