#include "compile/fuse/write_loops.h"

#include <algorithm>
#include <limits>

#include "base/contains.h"
#include "base/error.h"
#include "base/hash.h"
#include "kernel/builder.h"

namespace heddle {
namespace {

using kernel::Builder;
using kernel::Value;

struct InnerAxis {
  Expr same_as;            // stands for all axes that are the same
  std::vector<int> units;  // which have such an axis, one each
};
// By the ids of the variables.
using InnerAxes = std::unordered_map<uint64_t, InnerAxis>;

// Which inner axes of a group's units are one loop variable.
//
// A reduction that keeps an axis is computed along it once for all that read it, so the axes along which they do are
// that axis. Renaming the axes of a nest changes nothing as long as they stay apart: two axes become one only if their
// extents are the same and no unit has both of them. Whether a result is then read at the point where it was computed
// fuse() sees from the indices, and does not rely on this.
InnerAxes group_axes(const Partition& parts, const Group& group) {
  InnerAxes all;
  for (int id : group.units)
    for (const auto* axes : {&parts.units[id].kept, &parts.units[id].reduced})
      for (const Expr& axis : *axes)
        if (!contains(parts.units[id].outer, axis)) all[axis.id()] = {axis, {id}};
  auto unite = [&](const Expr& a, const Expr& b) {
    if (!a.is_var() || !b.is_var() || !all.count(a.id()) || !all.count(b.id())) return;
    InnerAxis mine = all.at(a.id());
    const InnerAxis theirs = all.at(b.id());
    if (mine.same_as == theirs.same_as || !(mine.same_as.extent() == theirs.same_as.extent())) return;
    if (std::ranges::any_of(theirs.units, [&](int id) { return contains(mine.units, id); })) return;
    mine.units.insert(mine.units.end(), theirs.units.begin(), theirs.units.end());
    for (auto& [id, axis] : all)
      if (axis.same_as == mine.same_as || axis.same_as == theirs.same_as) axis = mine;
  };
  for (int id : group.units)
    for (const Unit::Read& read : parts.units[id].reads) {
      if (read.memory) continue;
      for (int other : group.units) {
        const Unit& from = parts.units[other];
        if (!from.reduces || from.node != reduction_of(read.node)) continue;
        for (size_t i = 0; i < from.at.size(); ++i) unite(from.at[i], read.index[i]);
      }
    }
  // Sums that need nothing of each other still walk their common axis together.
  Expr along;
  for (int id : group.units) {
    unite(along, parts.units[id].along);
    if (!along.is_var()) along = parts.units[id].along;
  }
  return all;
}

// Writes the stages of one group.
class LoopsWriter {
 public:
  LoopsWriter(Writing& writing, const Group& group, const Expr& start)
      : axes_(group_axes(*writing.parts, group)), writing_(writing), parts_(*writing.parts), start_(start) {
    for (int id : group.units)
      if (!unit(id).reduces) inlined_.insert(unit(id).node);
    for (int id : group.units)
      for (const Unit::Read& read : unit(id).reads)
        if (read.memory) from_memory_.insert(read.node);
    for (const Expr& axis : unit(group.units[0]).outer) {
      Expr var = Expr::index(text("i", step_.loops.outer.size()), axis.extent());
      step_.loops.outer.push_back({var, axis.extent()});
    }
    for (size_t i = 0; i < group.units.size(); ++i) {
      for (const Group::Shared& shared : group.shared)
        if (shared.before == i) write_shared(unit(shared.unit));
      const Unit& u = unit(group.units[i]);
      step_.update = u.change;
      if (u.nest && u.factor) step_.nested.push_back(u.nest);
      u.reduces ? write_reduction(u) : u.scatters() ? write_scatter(u) : write_store(u);
      for (const Node* token : u.after)
        if (unit(parts_.storing.at(token)).group != u.group) step_.after.push_back(writing_.tensor(token, false));
    }
  }

  Program::Step finish() && {
    name_kernel();
    if (!step_.checks.empty()) {
      int buffer = static_cast<int>(step_.loops.buffers.size());
      step_.loops.buffers.push_back(
          {"errors", DType::i64, kernel::Space::InOut, static_cast<int64_t>(step_.checks.size())});
      for (Stage& stage : step_.loops.stages)
        for (kernel::Inst& inst : stage.body.insts)
          if (inst.op == kernel::Op::check) inst.buffer = buffer;
    }
    step_.segments.push_back({std::move(tensors_), {}, {}});
    return std::move(step_);
  }

 private:
  const Unit& unit(int id) const { return parts_.units[id]; }

  // The nest's variables: those along outer axes become the group's, the others new inner axes of the stage.
  Substitution enter(const Unit& u, Stage& stage) {
    Substitution to;
    for (size_t i = 0; i < u.outer.size(); ++i) to.emplace_back(u.outer[i], step_.loops.outer[i].var);
    auto add_inner = [&](const Expr& axis) {
      if (contains(u.outer, axis)) return;
      auto [var, fresh] = variables_.try_emplace(axes_.at(axis.id()).same_as.id());
      if (fresh) var->second = Expr::index(text(u.reduces ? "r" : "j", inner_count_++), axis.extent());
      stage.inner.push_back({var->second, axis.extent()});
      to.emplace_back(axis, var->second);
    };
    for (const Expr& axis : u.kept) add_inner(axis);
    if (u.reduces) stage.kept = stage.inner.size();
    for (const Expr& axis : u.reduced) add_inner(axis);
    return to;
  }

  // The factor of a nested sum, as a stage that keeps it for all that use it.
  void write_shared(const Unit& u) {
    Stage sum, stage;
    Substitution to = enter(u, sum);
    stage.inner = {sum.inner.back()};
    stage.kept = 1;
    Index at = renamed(u.factor_at, to);
    begin(stage);
    stage.body.results = {emit(u.factor, at, 1)};
    add_results(stage);
    shared_.push_back({u.factor, at, 1, stage.results[0]});
    step_.loops.stages.push_back(std::move(stage));
  }

  // What later stages name the results of the body by.
  void add_results(Stage& stage) {
    for (Value v : stage.body.results) {
      step_.loops.values.push_back(kernel::Type(step_.loops.values[v]));
      stage.results.push_back(static_cast<Value>(step_.loops.values.size()) - 1);
    }
  }

  static Index renamed(std::span<const Expr> index, const Substitution& to) {
    Index result;
    for (const Expr& e : index) result.push_back(substitute(e, to));
    return result;
  }

  void write_reduction(const Unit& u) {
    const Node& node = *u.node;
    Stage stage;
    Substitution to = enter(u, stage);
    Index at = renamed(u.at, to);
    Index reduced = renamed(u.reduced, to);
    begin(stage);
    Expr guard = 1;
    Index source = reduction_source(node, at, reduced, &guard);
    Value x = emit(node.inputs[0].get(), source, guard);
    DType dtype = compute_dtype(node.dtype);
    if (node.op == NodeOp::ArgReduce) {
      // Narrow indices while reducing: twice as many fit a vector.
      DType index = reduced[0].hi() < std::numeric_limits<int32_t>::max() ? DType::i32 : DType::i64;
      stage.body.results = {x, builder_->index(index, reduced[0], {})};
      stage.reducer = kernel::arg_reducer(node.reduce_op == ReduceOp::Max, dtype, index);
    } else {
      ReduceOp op = node.op == NodeOp::Unwindow ? ReduceOp::Sum : node.reduce_op;
      if (!guard.is_const(1)) x = choose(guard, x, heddle::Scalar::of(dtype, 0));
      stage.body.results = {x};
      ScalarOp combine = combiner(op);
      if (dtype == DType::boolean && op == ReduceOp::Sum) combine = ScalarOp::bit_or;
      if (dtype == DType::boolean && op == ReduceOp::Prod) combine = ScalarOp::bit_and;
      stage.reducer = kernel::simple_reducer(combine, dtype);
    }
    add_results(stage);
    reduced_.push_back({&node, at, stage.results});
    step_.loops.stages.push_back(std::move(stage));
  }

  // Stores with the same inner axes after each other share a stage, and what they compute. Of a scatter this is the
  // base, of a change the part that is not what memory has already.
  void write_store(const Unit& u) {
    Stage fresh;
    Substitution to = enter(u, fresh);
    Stage* stage = step_.loops.stages.empty() ? nullptr : &step_.loops.stages.back();
    bool shared = stage && stores(*stage) && stage->inner.size() == fresh.inner.size();
    // An axis that no other unit has may be any of the same extent.
    const bool free = std::ranges::all_of(
        u.kept, [&](const Expr& axis) { return contains(u.outer, axis) || axes_.at(axis.id()).units.size() == 1; });
    for (size_t i = 0; shared && i < fresh.inner.size(); ++i)
      shared = free ? stage->inner[i].extent == fresh.inner[i].extent : stage->inner[i].var == fresh.inner[i].var;
    if (shared) {
      Substitution rename;
      for (size_t i = 0; i < fresh.inner.size(); ++i) rename.emplace_back(fresh.inner[i].var, stage->inner[i].var);
      for (auto& [from, target] : to) target = substitute(target, rename);
    } else {
      step_.loops.stages.push_back(std::move(fresh));
      stage = &step_.loops.stages.back();
    }
    begin(*stage, shared);
    Index at = renamed(u.at, to);
    const Expr guard = u.change ? substitute(u.change->guard, to) : Expr(1);
    const bool computed = u.source() == u.node && u.node->op != NodeOp::Scan;
    Value v = computed ? emit_node(u.node, at, guard) : emit(u.source(), at, guard);
    if (u.part >= 0) {
      Expr& along = at[u.node->attrs[0].value()];
      along = along + start_;
    }
    v = builder_->cast(v, u.node->dtype);
    builder_->store(buffer(u.writes[0], kernel::Space::Out), v, access(linear_address(u.node->shape, at), guard));
  }

  void write_scatter(const Unit& u) {
    const Node& node = *u.node;
    int64_t axis = node.attrs[0].value();
    DType dtype = compute_dtype(node.dtype);
    if (!u.into) write_store(u);  // the base
    Stage stage;
    stage.ordered = true;
    stage.places = node.shape[axis];
    Substitution to;
    for (size_t i = 0; i < u.outer.size(); ++i) to.emplace_back(u.outer[i], step_.loops.outer[i].var);
    if (u.update->is_var()) {
      Expr var = Expr::index(text("m", inner_count_++), u.update->extent());
      stage.inner.push_back({var, u.update->extent()});
      to.emplace_back(*u.update, var);
    }
    begin(stage);
    Index from = renamed(u.update_at(), to);
    stage.place = bind_index(node, from, 1);
    Index at = from;
    at[axis] = stage.place;
    Value v = emit(node.inputs[2].get(), from, 1);
    const Expr inside = logical_and(ge(stage.place, 0), lt(stage.place, node.shape[axis]));
    const Builder::Access place = access(linear_address(node.shape, at), inside);
    int out = buffer(u.writes[0], kernel::Space::Out);
    if (std::optional<ScalarOp> combine = scatter_combiner(node.scatter_op, node.dtype)) {
      // Every step rounds to the dtype, and so do updates before they count.
      Value before = builder_->cast(builder_->load(out, node.dtype, place), dtype);
      Value update = builder_->cast(v, node.dtype);
      v = builder_->op(*combine, {before, builder_->cast(update, dtype)});
      if (!writing_.deterministic || !is_float(node.dtype)) {  // integers are the same in any order
        stage.combine = kernel::simple_reducer(*combine, node.dtype);
        stage.body.results = {update};
      }
    }
    builder_->store(out, builder_->cast(v, node.dtype), place);
    step_.loops.stages.push_back(std::move(stage));
  }

  void begin(Stage& stage, bool keep_memo = false) {
    builder_.emplace(step_.loops.values, stage.body);
    if (keep_memo) return;
    memo_.clear();
    bound_.clear();
    checked_.clear();
  }

  int buffer(const Node* node, kernel::Space space) {
    const int which = writing_.tensor(node, space == kernel::Space::In && !parts_.storing.count(node));
    auto [at, first] = buffer_of_.try_emplace(which, static_cast<int>(tensors_.size()));
    if (first) {
      tensors_.push_back(which);
      step_.loops.buffers.push_back({text(space == kernel::Space::In ? "x" : "y", step_.loops.buffers.size()),
                                     node->dtype, space, node->shape.numel()});
    }
    return at->second;
  }

  // The value of node's element at `index`, in its compute dtype. Where `wanted` is false the value is arbitrary, but
  // nothing outside a buffer is touched.
  Value emit(const Node* node, const Index& index, const Expr& wanted) {
    // Only what the kernel is known to wait for may be read, even if another one writes more.
    bool from_memory = from_memory_.count(node) && !inlined_.count(node);
    // A scan is computed at every point of its nest, and lies inside at each.
    const Expr guard = node->op == NodeOp::Scan && !from_memory ? Expr(1) : wanted;
    for (const Emitted& e : shared_)
      if (e.node == node && e.index == index) return e.value;
    for (const Emitted& e : memo_[node])
      if (e.index == index && e.guard == guard) return e.value;
    // Nobody wants it: the part of a cat that a later shrink cut off.
    bool unwanted = guard.is_const(0);
    Value value = unwanted      ? builder_->constant(Scalar::from_bits(compute_dtype(node->dtype), 0))
                  : from_memory ? load(node, index, guard)
                                : emit_node(node, index, guard);
    memo_[node].push_back({node, index, guard, value});
    return value;
  }

  // An axis of size 1 has one place only, whatever a guard is needed to say so.
  static bool same_place(const Index& a, const Index& b, const Shape& shape) {
    for (size_t i = 0; i < shape.size(); ++i)
      if (!shape[i].is_const(1) && !(a[i] == b[i])) return false;
    return true;
  }

  Value emit_node(const Node* node, const Index& index, const Expr& guard) {
    Builder& b = *builder_;
    if (const Node* reduction = reduction_of(node)) {
      size_t result = node->op == NodeOp::Get ? static_cast<size_t>(node->attrs[0].value()) : 0;
      for (const Reduced& earlier : reduced_)
        if (earlier.node == reduction && same_place(earlier.at, index, reduction->shape))
          return b.cast(earlier.results[result], compute_dtype(node->dtype));
      writing_.misread.insert(node);
      return b.constant(Scalar::from_bits(compute_dtype(node->dtype), 0));
    }
    DType dtype = compute_dtype(node->dtype);
    switch (node->op) {
      case NodeOp::Const: return b.constant(cast(node->literal, dtype));
      case NodeOp::Buffer:
      case NodeOp::Input: return load(node, index, guard);
      case NodeOp::Iota: return integer(index[node->attrs[0].value()], node->dtype);
      case NodeOp::Scalar: {
        SmallVector<Value, 3> args;
        for (const NodeRef& input : node->inputs) args.push_back(emit(input.get(), index, guard));
        return b.op(node->scalar_op, args);
      }
      case NodeOp::Cast: {
        Value x = emit(node->inputs[0].get(), index, guard);
        return b.cast(b.cast(x, node->dtype), dtype);  // rounds to a small float, then goes on in f32
      }
      case NodeOp::Bitcast: {
        Value x = b.cast(emit(node->inputs[0].get(), index, guard), node->inputs[0]->dtype);
        return b.cast(b.bitcast(x, node->dtype), dtype);
      }
      case NodeOp::Scan: {
        Value x = emit(node->inputs[0].get(), index, guard);
        return b.scan({&x, 1}, {}, 0, kernel::simple_reducer(combiner(node->reduce_op), dtype))[0];
      }
      case NodeOp::Gather: return emit_gather(*node, index, guard);
      case NodeOp::Cat: return emit_cat(*node, index, guard);
      case NodeOp::Pad: {
        Expr inside = 1;
        Index source = source_index(*node, index, &inside);
        Value x = emit(node->inputs[0].get(), source, logical_and(guard, inside));
        if (inside.is_const(1) || (node->literal.bits() == 0 && is_loaded(x))) return x;
        return choose(inside, x, cast(node->literal, dtype));
      }
      default: {
        HD_ASSERT(is_movement(*node), name(node->op));
        Expr inside = guard;
        Index source = source_index(*node, index, &inside);
        return emit(node->inputs[0].get(), source, guard);
      }
    }
  }

  // Whether the value is what a load gives, and so zero where the load's guard fails.
  bool is_loaded(Value v) {
    for (const kernel::Inst& inst : builder_->code().insts) {
      if (inst.results.empty() || inst.results[0] != v) continue;
      return inst.op == kernel::Op::load || (inst.op == kernel::Op::cast && is_loaded(inst.args[0]));
    }
    return false;
  }

  // A variable for the index (input 1) that a gather or scatter reads at `at`, with a check that it is in range.
  Expr bind_index(const Node& node, const Index& at, const Expr& guard) {
    int64_t axis = node.attrs[0].value();
    Value chosen = emit(node.inputs[1].get(), at, guard);
    // The largest unsigned numbers must not become negative positions.
    if (node.inputs[1]->dtype == DType::u64)
      chosen = builder_->op(ScalarOp::minimum, {chosen, builder_->constant(heddle::Scalar::of(DType::u64, INT64_MAX))});
    const Expr& n = node.inputs[0]->shape[axis];
    Program::Step::Check check{name(node.op), node.attrs.back().value(), static_cast<int64_t>(axis), n};
    for (const Checked& earlier : checked_)
      if (earlier.value == chosen && earlier.guard == guard && earlier.check == check) return earlier.var;
    Expr var = Expr::symbol(text("v", bound_.size()), -(int64_t{1} << 62), int64_t{1} << 62);
    bound_.emplace_back(var, chosen);
    checked_.push_back({chosen, guard, check, var});
    if (check.label == kUncheckedIndex) return var;
    const size_t known = position_of(step_.checks, check);
    const bool whole = guard.is_const(1) && is_whole(*node.inputs[1], at);
    step_.checked.push_back({node.inputs[1].get(), known, whole});
    if (known == step_.checks.size()) step_.checks.push_back(check);
    const Expr outside = logical_and(guard, logical_or(lt(var, 0), ge(var, n)));
    builder_->check(-1, chosen, access(static_cast<int64_t>(known), outside));
    return var;
  }

  // Out of range is clamped, so that no index can lead outside.
  Value emit_gather(const Node& node, const Index& index, const Expr& guard) {
    Expr var = bind_index(node, gather_index(node, index), guard);
    const Expr& n = node.inputs[0]->shape[node.attrs[0].value()];
    return emit(node.inputs[0].get(), gather_source(node, index, max(min(var, n - 1), 0)), guard);
  }

  Value emit_cat(const Node& node, const Index& index, const Expr& guard) {
    int64_t axis = node.attrs[0].value();
    Index source = index;
    Expr end = 0;
    Value result = kernel::kNoValue;
    for (const NodeRef& input : node.inputs) {
      if (input->shape[axis].is_const(0)) continue;
      source[axis] = index[axis] - end;
      Expr begin = end;
      end = end + input->shape[axis];
      Expr inside = logical_and(ge(index[axis], begin), lt(index[axis], end));
      Value x = emit(input.get(), source, logical_and(guard, inside));
      result = result == kernel::kNoValue
                   ? x
                   : builder_->op(ScalarOp::where, {condition(ge(index[axis], begin)), x, result});
    }
    return result;
  }

  Value condition(const Expr& e) { return integer(e, DType::boolean); }
  Value choose(const Expr& inside, Value x, const heddle::Scalar& otherwise) {
    return builder_->op(ScalarOp::where, {condition(inside), x, builder_->constant(otherwise)});
  }

  // An index expression as data. Parts that depend on gathered values become arithmetic.
  Value integer(const Expr& e, DType dtype) {
    Builder& b = *builder_;
    bool uses_data = std::ranges::any_of(bound_, [&](auto& p) { return depends_on(e, p.first); });
    if (!uses_data) {
      DType direct = dtype == DType::boolean || dtype == DType::i32 ? dtype : DType::i64;
      return b.cast(b.index(direct, e, {}), dtype);
    }
    for (auto& [var, value] : bound_)
      if (e == var) return b.cast(value, dtype);
    auto number = [&](const Expr& arg) { return integer(arg, DType::i64); };
    auto fold = [&](ScalarOp op, auto&& convert) {
      Value acc = convert(e.args()[0]);
      for (size_t i = 1; i < e.args().size(); ++i) acc = b.op(op, {acc, convert(e.args()[i])});
      return acc;
    };
    auto truth = [&](const Expr& arg) { return integer(arg, DType::boolean); };
    Value v = kernel::kNoValue;
    switch (e.kind()) {
      case ExprKind::Add: v = fold(ScalarOp::add, number); break;
      case ExprKind::Mul: v = fold(ScalarOp::mul, number); break;
      case ExprKind::FloorDiv: v = fold(ScalarOp::floordiv, number); break;
      case ExprKind::Mod: v = fold(ScalarOp::mod, number); break;
      case ExprKind::Min: v = fold(ScalarOp::minimum, number); break;
      case ExprKind::Max: v = fold(ScalarOp::maximum, number); break;
      case ExprKind::Lt: v = fold(ScalarOp::lt, number); break;
      case ExprKind::Eq: v = fold(ScalarOp::eq, number); break;
      case ExprKind::And: v = fold(ScalarOp::bit_and, truth); break;
      case ExprKind::Or: v = fold(ScalarOp::bit_or, truth); break;
      case ExprKind::Not: v = b.op(ScalarOp::bit_not, {truth(e.args()[0])}); break;
      case ExprKind::Select:
        v = b.op(ScalarOp::where, {truth(e.args()[0]), number(e.args()[1]), number(e.args()[2])});
        break;
      case ExprKind::Const:
      case ExprKind::Var: HD_ASSERT(false, "free of data"); break;
    }
    return b.cast(v, dtype);
  }

  Value load(const Node* node, const Index& index, const Expr& guard) {
    Value v =
        builder_->load(buffer(node, kernel::Space::In), node->dtype, access(linear_address(node->shape, index), guard));
    return builder_->cast(v, compute_dtype(node->dtype));
  }

  // With the data that it depends on.
  Builder::Access access(const Expr& address, const Expr& guard) {
    Builder::Access result;
    result.address = address;
    result.guard = guard;
    for (auto& [var, value] : bound_)
      if (depends_on(address, var) || depends_on(guard, var)) {
        result.binds.push_back(var);
        result.bound.push_back(value);
      }
    return result;
  }

  // "sum_4096x1024": the last op that computes something, and the output's shape.
  void name_kernel() {
    std::string what;
    const Node* out = writing_.program.tensors[tensors_.back()].node;
    for (size_t i = 0; i < tensors_.size(); ++i)
      if (step_.loops.buffers[i].space == kernel::Space::Out) out = writing_.program.tensors[tensors_[i]].node;
    for (const Reduced& reduced : reduced_)
      what += text(what.empty() ? "" : "_",
                   reduced.node->op == NodeOp::Reduce ? name(reduced.node->reduce_op) : name(reduced.node->op));
    for (const Stage& stage : step_.loops.stages)
      for (const kernel::Inst& inst : stage.body.insts)
        if (inst.op == kernel::Op::scan && what.find("scan") == std::string::npos)
          what += text(what.empty() ? "" : "_", "scan_", info(*kernel::simple_op(*inst.reducer)).name);
    if (out->op == NodeOp::Scalar) what += text(what.empty() ? "" : "_", info(out->scalar_op).name);
    if (step_.update && step_.update->value) what = "update";
    if (what.empty()) what = name(step_.update ? step_.update->node->op : out->op);
    for (char& c : what) c = static_cast<char>(std::tolower(c));
    for (size_t i = 0; i < out->shape.size(); ++i) what += text(i ? "x" : "_", out->shape[i]);
    for (char& c : what)
      if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
    step_.loops.name = what.substr(0, 64);
  }

  struct Emitted {
    const Node* node;
    Index index;
    Expr guard;
    Value value;
  };
  struct Checked {
    Value value;
    Expr guard;
    Program::Step::Check check;
    Expr var;
  };
  struct Reduced {
    const Node* node;
    Index at;
    std::vector<Value> results;
  };
  const InnerAxes axes_;
  int inner_count_ = 0;                           // names inner axes apart
  std::unordered_map<uint64_t, Expr> variables_;  // for the representatives of inner axes
  std::vector<Emitted> shared_;                   // what earlier stages keep
  Writing& writing_;
  const Partition& parts_;
  const Expr start_;  // of a part of a join, along its axis
  Program::Step step_;
  std::vector<int> tensors_;  // for each buffer of the step
  std::optional<Builder> builder_;
  std::unordered_map<const Node*, std::vector<Emitted>> memo_;
  std::unordered_set<const Node*> from_memory_;  // written by kernels that run before
  std::unordered_set<const Node*> inlined_;      // stored by this kernel itself
  std::vector<Reduced> reduced_;                 // results of earlier stages
  std::unordered_map<int, int> buffer_of_;       // tensor -> buffer of the kernel
  std::vector<std::pair<Expr, Value>> bound_;    // gathered indices
  std::vector<Checked> checked_;                 // and the checks made of them
};

}  // namespace

int Writing::tensor(const Node* node, bool leaf) {
  auto [it, fresh] = tensor_of.try_emplace(node, static_cast<int>(program.tensors.size()));
  if (fresh) program.tensors.push_back({node, leaf, false});
  return it->second;
}

void Writing::forget_tensors(size_t from) {
  for (size_t t = from; t < program.tensors.size(); ++t) {
    auto it = tensor_of.find(program.tensors[t].node);
    if (it != tensor_of.end() && it->second == static_cast<int>(t)) tensor_of.erase(it);
  }
  program.tensors.resize(from);
}

Program::Step write_loops(Writing& writing, const Group& group, const Expr& start) {
  return LoopsWriter(writing, group, start).finish();
}

}  // namespace heddle
