#include "compile/loops/interpret_loops.h"

#include <algorithm>

#include "base/error.h"
#include "graph/host_array.h"
#include "kernel/interpreter_expr.h"
#include "kernel/pass_util.h"

namespace heddle {
namespace {

using kernel::IndexProgram;
using kernel::Inst;
using kernel::Op;
using kernel::Space;
using kernel::Value;

Scalar converted(const Scalar& value, DType to) {
  if (!is_float(value.dtype)) return cast(value, to);
  if (!is_float(to) || size_of(to) <= size_of(value.dtype)) return Scalar::of(to, value.f);
  Scalar wider = value;  // which has every value of the narrow one, and need not be rounded
  wider.dtype = to;
  return wider;
}

// What scalar ops, casts and constants give, in a body or in a reducer's combine.
Scalar compute(const Inst& inst, DType result, const std::vector<Scalar>& values) {
  auto argument = [&](size_t i) -> const Scalar& { return values[inst.args[i]]; };
  if (inst.op == Op::constant) return inst.literal;
  if (inst.op == Op::cast) return converted(argument(0), result);
  if (inst.op == Op::bitcast) {
    const Scalar& from = argument(0);
    return bitcast(is_float(from.dtype) ? Scalar::of(from.dtype, from.f) : from, result);
  }
  Scalar operands[3];
  for (size_t i = 0; i < inst.args.size(); ++i) operands[i] = argument(i);
  return apply_unrounded(kernel::scalar_op(inst.op), {operands, inst.args.size()}, result);
}

using Tuple = std::vector<Scalar>;

// left = combine(left, right)
void combine(const kernel::Reducer& reducer, Tuple& left, const Tuple& right) {
  const kernel::Body& code = reducer.combine;
  std::vector<Scalar> values(reducer.values.size());
  for (size_t i = 0; i < left.size(); ++i) {
    values[code.params[i]] = left[i];
    values[code.params[left.size() + i]] = right[i];
  }
  for (const Inst& inst : code.insts)
    values[inst.results[0]] = compute(inst, reducer.values[inst.results[0]].dtype, values);
  for (size_t i = 0; i < left.size(); ++i) left[i] = values[code.results[i]];
}

class LoopsInterpreter {
 public:
  LoopsInterpreter(const Loops& loops, std::span<HostArray* const> buffers, std::span<const int64_t> symbols)
      : loops_(loops), buffers_(buffers.begin(), buffers.end()), values_(loops.values.size()) {
    HD_ASSERT(buffers.size() == loops.buffers.size() && symbols.size() == loops.symbols.size(), "loops @", loops.name,
              ": ", buffers.size(), " buffers and ", symbols.size(), " symbols");
    for (size_t i = 0; i < symbols.size(); ++i) slots_[slot(loops.symbols[i])] = symbols[i];
    for (size_t b = 0; b < buffers.size(); ++b) {
      int64_t size = number(loops.buffers[b].size);
      HD_ASSERT(buffers[b]->numel() == size && buffers[b]->dtype == loops.buffers[b].dtype, "loops @", loops.name,
                ": %", loops.buffers[b].name, " has ", buffers[b]->numel(), " elements, not ", size);
      touched_.emplace_back(loops.buffers[b].space == Space::Out ? static_cast<size_t>(size) : 0, -1);
    }
    outer_ = walk(loops.outer);
    for (const Stage& stage : loops.stages) prepare(stage);
  }

  void run(bool whole) {
    each_point(outer_, 0, [&] {
      for (StageProgram& stage : stages_) run(stage);
      ++point_;
    });
    for (size_t b = 0; b < touched_.size() && whole; ++b)
      for (size_t i = 0; i < touched_[b].size(); ++i)
        HD_ASSERT(touched_[b][i] >= 0, "loops @", loops_.name, ": nobody writes %", loops_.buffers[b].name, "[", i,
                  "]\n", print(loops_));
  }

 private:
  struct Walk {
    size_t slot;
    int64_t extent;
  };
  // A result number `which` of stage `from` that a stage uses.
  struct KeptUse {
    Value value;
    size_t from, which;
    bool operator==(const KeptUse&) const = default;
  };
  struct InstProgram {
    const Inst* inst;
    IndexProgram address, guard;
    std::vector<size_t> bind_slots;
  };
  struct StageProgram {
    const Stage* stage;
    size_t number;
    std::vector<Walk> inner;
    std::vector<InstProgram> insts;
    std::vector<KeptUse> uses;
    std::vector<Tuple> kept;     // one tuple for each point of the kept axes
    std::vector<Tuple> scanned;  // of each instruction that scans, what has been combined so far
  };

  size_t slot(const Expr& var) {
    auto [it, fresh] = slot_of_.try_emplace(var.id(), slots_.size());
    if (fresh) slots_.push_back(0);
    return it->second;
  }
  IndexProgram program(const Expr& e) {
    return IndexProgram(e, [this](const Expr& var) { return static_cast<int>(slot(var)); });
  }
  int64_t number(const Expr& e) { return program(e).run(slots_.data()); }
  std::vector<Walk> walk(const std::vector<Axis>& axes) {
    std::vector<Walk> result;
    for (const Axis& axis : axes) result.push_back({slot(axis.var), number(axis.extent)});
    return result;
  }

  void prepare(const Stage& stage) {
    StageProgram p{&stage, stages_.size(), walk(stage.inner), {}, {}, {}, {}};
    auto use = [&](Value v) {
      if (auto from = results_.find(v); from != results_.end() && !contains(p.uses, from->second))
        p.uses.push_back(from->second);
    };
    for (const Inst& inst : stage.body.insts) {
      for (Value v : inst.args) use(v);
      InstProgram& made = p.insts.emplace_back(&inst, program(inst.address), program(inst.guard));
      for (const Expr& var : inst.binds) made.bind_slots.push_back(slot(var));
    }
    for (Value v : stage.body.results) use(v);
    for (size_t r = 0; r < stage.results.size(); ++r) results_[stage.results[r]] = {stage.results[r], p.number, r};
    stages_.push_back(std::move(p));
  }

  template <class F>
  void each_point(const std::vector<Walk>& axes, size_t from, F f) {
    if (from == axes.size()) return f();
    for (int64_t i = 0; i < axes[from].extent; ++i) {
      slots_[axes[from].slot] = i;
      each_point(axes, from + 1, f);
    }
  }

  // The point of the axes that the stage keeps, by number; where the variables are now.
  int64_t kept_point(const StageProgram& p) const {
    int64_t point = 0;
    for (size_t i = 0; i < p.stage->kept; ++i) point = point * p.inner[i].extent + slots_[p.inner[i].slot];
    return point;
  }

  void run(StageProgram& p) {
    const Stage& stage = *p.stage;
    int64_t points = 1;
    for (size_t i = 0; i < stage.kept; ++i) points *= p.inner[i].extent;
    p.kept.clear();
    p.scanned.assign(p.insts.size(), {});
    if (!stores(stage)) p.kept.assign(points, stage.reducer ? stage.reducer->identity : Tuple());
    each_point(p.inner, 0, [&] {
      for (const KeptUse& u : p.uses) {
        const StageProgram& from = stages_[u.from];
        auto point = static_cast<size_t>(kept_point(from));
        HD_ASSERT(point < from.kept.size(), "loops @", loops_.name, ", stage ", p.number, " reads point ", point,
                  " of stage ", u.from, ", which has ", from.kept.size(), "\n", print(loops_));
        values_[u.value] = from.kept[point][u.which];
      }
      for (size_t i = 0; i < p.insts.size(); ++i) {
        step(p, i);
        if (stage.online) values_[stage.results[0]] = values_[stage.body.results[0]];
      }
      if (stores(stage)) return;
      Tuple tuple;
      for (Value v : stage.body.results) tuple.push_back(values_[v]);
      Tuple& to = p.kept[kept_point(p)];
      if (stage.reducer)
        combine(*stage.reducer, to, tuple);
      else
        to = tuple;
    });
  }

  void step(StageProgram& p, size_t number) {
    const InstProgram& i = p.insts[number];
    const Inst& inst = *i.inst;
    for (size_t b = 0; b < i.bind_slots.size(); ++b) slots_[i.bind_slots[b]] = values_[kernel::bound(inst)[b]].as_int();
    DType dtype = inst.results.empty() ? DType::i64 : loops_.values[inst.results[0]].dtype;
    switch (inst.op) {
      case Op::index: result(inst) = Scalar::of(dtype, i.address.run(slots_.data())); break;
      case Op::load:
        result(inst) = Scalar::from_bits(dtype, 0);
        if (holds(i)) result(inst) = get(*buffers_[inst.buffer], place(p, i, false));
        break;
      case Op::store:
        if (holds(i)) set(*buffers_[inst.buffer], place(p, i, true), argument(inst));
        break;
      case Op::check:
        if (holds(i)) set(*buffers_[inst.buffer], place(p, i, true), cast(argument(inst), DType::i64));
        break;
      case Op::scan: {
        Tuple& so_far = p.scanned[number];
        Tuple next;
        for (size_t k = 0; k < inst.reducer->width(); ++k) next.push_back(values_[inst.args[k]]);
        if (so_far.empty())
          so_far = next;
        else
          combine(*inst.reducer, so_far, next);
        for (size_t k = 0; k < so_far.size(); ++k) values_[inst.results[k]] = so_far[k];
        break;
      }
      default: result(inst) = compute(inst, dtype, values_);
    }
  }

  Scalar& result(const Inst& inst) { return values_[inst.results[0]]; }
  const Scalar& argument(const Inst& inst) const { return values_[inst.args[0]]; }
  bool holds(const InstProgram& i) const { return i.guard.run(slots_.data()) != 0; }

  // The element that is touched, if that is one of the buffer and no other point of the outer axes touches it.
  int64_t place(const StageProgram& p, const InstProgram& i, bool writes) {
    const Inst& inst = *i.inst;
    const int b = inst.buffer;
    int64_t at = i.address.run(slots_.data());
    HD_ASSERT(at >= 0 && at < buffers_[b]->numel(), "loops @", loops_.name, ", stage ", p.number, ": ",
              kernel::name(inst.op), " %", loops_.buffers[b].name, "[", inst.address, "] touches element ", at, " of ",
              buffers_[b]->numel(), "\n", print(loops_));
    if (touched_[b].empty()) return at;
    int64_t& by = touched_[b][at];
    // In place a scatter combines with what was there before.
    HD_ASSERT(by == point_ || (by < 0 && (writes || p.number == 0)), "loops @", loops_.name, ", stage ", p.number,
              ": point ", point_, " touches %", loops_.buffers[b].name, "[", at, "], which point ", by, " writes\n",
              print(loops_));
    by = point_;
    return at;
  }

  const Loops& loops_;
  std::vector<HostArray*> buffers_;
  std::vector<std::vector<int64_t>> touched_;  // of results: the point that wrote each element, or -1
  std::unordered_map<uint64_t, size_t> slot_of_;
  std::vector<int64_t> slots_;
  std::vector<Scalar> values_;
  std::vector<Walk> outer_;
  std::vector<StageProgram> stages_;
  std::unordered_map<Value, KeptUse> results_;  // of stages so far
  int64_t point_ = 0;
};

}  // namespace

void interpret(const Loops& loops, std::span<HostArray* const> buffers, std::span<const int64_t> symbols, bool whole) {
  LoopsInterpreter(loops, buffers, symbols).run(whole);
}

}  // namespace heddle
