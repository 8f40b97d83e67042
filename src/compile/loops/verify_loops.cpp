#include <algorithm>

#include "base/error.h"
#include "compile/loops/loops.h"
#include "kernel/types.h"

namespace heddle {
namespace {

using kernel::Inst;
using kernel::Op;
using kernel::Space;
using kernel::Value;

bool is_empty(const std::vector<Axis>& axes) {
  return std::ranges::any_of(axes, [](const Axis& axis) { return axis.extent.hi() <= 0; });
}

class LoopsVerifier {
 public:
  explicit LoopsVerifier(const Loops& loops) : loops_(loops), values_(loops.values.size()) {}

  void run() {
    check_axes(loops_.outer, "outer");
    for (stage_ = 0; stage_ < loops_.stages.size(); ++stage_) {
      const Stage& stage = loops_.stages[stage_];
      check_axes(stage.inner, "inner");
      for (const Axis& axis : stage.inner)
        require(!walks(loops_.outer, axis.var), "walks the outer axis ", axis.var, " again");
      require(!stage.online || (stage.results.size() == 2 && stage.reducer && stage.kept == 0), "no maximum and a sum");
      if (stage.online) define(stage.results[0], true);
      for (const Inst& inst : stage.body.insts) check(stage, inst);
      check_results(stage);
    }
  }

 private:
  // Who computes a value. What a body computes is seen by its own stage alone, a stage's result by later ones.
  struct Made {
    int stage = -1;
    bool result = false;
  };

  template <class... Parts>
  void require(bool condition, const Parts&... parts) const {
    HD_ASSERT(condition, "loops @", loops_.name, ", stage ", stage_, ": ", parts...);
  }

  void check_axes(const std::vector<Axis>& axes, const char* which) {
    for (size_t i = 0; i < axes.size(); ++i) {
      require(axes[i].var.is_var() && !axes[i].var.is_symbol(), which, " axis ", i, " is no index");
      require(axes[i].var.extent() == axes[i].extent, "the axis ", axes[i].var, " < ", axes[i].var.extent(),
              " is walked to ", axes[i].extent);
      for (size_t k = 0; k < i; ++k) require(!(axes[k].var == axes[i].var), "walks ", axes[i].var, " twice");
    }
  }

  const kernel::Type& type(Value v) const { return loops_.values[v]; }

  void define(Value v, bool result) {
    require(v >= 0 && static_cast<size_t>(v) < values_.size(), "value %", v, " has no type");
    Made& made = values_[v];
    require(made.stage < 0, "value %", v, " is computed twice");
    require(type(v).shape.empty(), "value %", v, " is no scalar");
    made = {static_cast<int>(stage_), result};
  }

  void use(Value v, const Stage& stage) const {
    require(v >= 0 && static_cast<size_t>(v) < values_.size(), "value %", v, " has no type");
    const Made& made = values_[v];
    require(made.stage >= 0, "value %", v, " used before it is computed");
    if (!made.result) {
      require(made.stage == static_cast<int>(stage_), "value %", v, " belongs to the body of stage ", made.stage);
      return;
    }
    const bool own = stage.online && v == stage.results[0];
    require(own || made.stage < static_cast<int>(stage_), "value %", v, " is a result of this stage itself");
    const Stage& from = loops_.stages[made.stage];
    for (size_t i = 0; i < from.kept; ++i)
      require(walks(stage.inner, from.inner[i].var), "value %", v, " is kept along ", from.inner[i].var,
              ", which is no axis of the stage that uses it");
  }

  void check_variables(const Expr& e, const Stage& stage, const Inst& inst) const {
    if (e.is_const()) return;
    for (const Expr& var : variables(e)) {
      bool found = walks(loops_.outer, var) || walks(stage.inner, var) || contains(loops_.symbols, var) ||
                   contains(inst.binds, var);
      require(found, "the variable ", var, " is no axis of its stage");
    }
  }

  void check(const Stage& stage, const Inst& inst) {
    for (Value v : inst.args) use(v, stage);
    for (Value v : inst.results) define(v, false);
    require(inst.coords.empty() && inst.bodies.empty(), "loops hold scalars only");
    check_variables(inst.address, stage, inst);
    check_variables(inst.guard, stage, inst);
    if (kernel::is_scalar_op(inst.op)) {
      SmallVector<kernel::Type, 3> operands;
      for (Value v : inst.args) operands.push_back(type(v));
      require(type(inst.results[0]) == kernel::elementwise_type(kernel::scalar_op(inst.op), operands),
              kernel::name(inst.op), " gives %", inst.results[0], " of another dtype");
      return;
    }
    switch (inst.op) {
      case Op::constant:
        require(inst.literal.dtype == type(inst.results[0]).dtype, "a constant of another dtype");
        break;
      case Op::cast:
      case Op::bitcast:
      case Op::index: break;
      case Op::scan:
        require(stores(stage) && stage.inner.size() == 1, "a scan along ", stage.inner.size(), " axes");
        break;
      case Op::load:
      case Op::store:
      case Op::check: check_access(stage, inst); break;
      default: require(false, kernel::name(inst.op), " in loops");
    }
  }

  // Bounds of a product of sizes are wide: with n in [1, 2], (n - 1) * (n - 1) is at most 1.
  static bool has_one_point(const Expr& extent) {
    return extent.hi() <= 1 || evaluate(extent, [](const Expr& symbol) { return symbol.hi(); }) <= 1;
  }

  void check_access(const Stage& stage, const Inst& inst) {
    require(inst.buffer >= 0 && static_cast<size_t>(inst.buffer) < loops_.buffers.size(), "no such buffer");
    const kernel::Buffer& buffer = loops_.buffers[inst.buffer];
    // Updates of a scatter read what they combine with.
    bool fits = inst.op == Op::check  ? buffer.space == Space::InOut
                : inst.op == Op::load ? buffer.space == Space::In || (stage.ordered && buffer.space == Space::Out)
                                      : buffer.space == Space::Out;
    require(fits, kernel::name(inst.op), " of %", buffer.name);
    if (inst.op != Op::check) {
      Value v = inst.op == Op::load ? inst.results[0] : inst.args[0];
      require(type(v).dtype == buffer.dtype, "%", buffer.name, " has another dtype than %", v);
    }
    if (!inst.guard.is_const(1) || !inst.binds.empty() || is_empty(loops_.outer) || is_empty(stage.inner)) return;
    check_bounds(stage, inst, buffer);
    if (inst.op == Op::store && !stage.ordered)
      for (const std::vector<Axis>* axes : {&loops_.outer, &stage.inner})
        for (const Axis& axis : *axes)
          require(has_one_point(axis.extent) || depends_on(inst.address, axis.var), "all points along ", axis.var,
                  " write %", buffer.name, "[", inst.address, "]");
  }

  // An address that is linear in all axes takes its least and its greatest value.
  void check_bounds(const Stage& stage, const Inst& inst, const kernel::Buffer& buffer) const {
    if (!buffer.size.is_const()) return;
    Expr rest = inst.address;
    int64_t least = 0, greatest = 0;
    for (const std::vector<Axis>* axes : {&loops_.outer, &stage.inner})
      for (const Axis& axis : *axes) {
        if (!axis.extent.is_const() || axis.extent.value() <= 0) return;
        std::optional<Linear> part = linear_in(rest, axis.var);
        if (!part) return;
        rest = part->rest;
        int64_t last = part->coefficient * (axis.extent.value() - 1);
        (last < 0 ? least : greatest) += last;
      }
    if (!rest.is_const()) return;
    require(rest.value() + least >= 0 && rest.value() + greatest < buffer.size.value(), "%", buffer.name, "[",
            inst.address, "] goes from ", rest.value() + least, " to ", rest.value() + greatest, " of ", buffer.size,
            " elements");
  }

  void check_results(const Stage& stage) {
    for (Value v : stage.body.results) use(v, stage);
    require(!stage.combine || (stage.ordered && stage.body.results.size() == 1), "updates that combine");
    size_t width = stage.reducer ? stage.reducer->width() : stage.combine ? 0 : stage.body.results.size();
    require(width == stage.results.size(), width, " values are ", stage.results.size(), " results");
    require(!stage.reducer || stage.body.results.size() == width, "a tuple of another width than its reducer's");
    require(stage.kept <= stage.inner.size(), "keeps ", stage.kept, " axes of ", stage.inner.size());
    require(stage.reducer || stage.kept == (stores(stage) ? 0 : stage.inner.size()), "keeps ", stage.kept,
            " axes and reduces nothing");
    for (size_t i = 0; i < stage.results.size(); ++i) {
      if (!stage.online || i > 0) define(stage.results[i], true);
      require(type(stage.results[i]) == type(stage.body.results[i]), "result %", stage.results[i],
              " has another dtype than what is reduced");
      require(!stage.reducer || stage.reducer->identity[i].dtype == type(stage.results[i]).dtype,
              "a reducer of another dtype");
    }
  }

  const Loops& loops_;
  size_t stage_ = 0;
  std::vector<Made> values_;
};

}  // namespace

void verify(const Loops& loops) { LoopsVerifier(loops).run(); }

}  // namespace heddle
