// Loops and a schedule to tile-level kernel IR.
#include <algorithm>
#include <functional>
#include <map>
#include <unordered_map>

#include "base/error.h"
#include "compile/contraction.h"
#include "compile/schedule.h"
#include "kernel/builder.h"

namespace heddle {
namespace {

using kernel::Builder;
using kernel::Dims;
using kernel::Inst;
using kernel::Op;
using kernel::Value;

class Tiler {
 public:
  Tiler(const Loops& loops, const Schedule& schedule) : loops_(loops), schedule_(schedule) {
    outer_ = loops.outer.size();
    for (const Stage& stage : loops.stages) rank_ = std::max(rank_, outer_ + stage.inner.size());
    kernel_.name = loops.name;
    kernel_.symbols = loops.symbols;
    kernel_.buffers = loops.buffers;
    kernel_.threads = schedule.threads;
    if (schedule.threads > 1) kernel_.thread = Expr::index("t", schedule.threads);
    for (size_t s = 0; s < loops.stages.size(); ++s)
      for (const Inst& inst : loops.stages[s].body.insts)
        for (Value r : inst.results) definition_[r] = {s, &inst};
  }

  kernel::Kernel run() {
    for (size_t s = 0; s < loops_.stages.size(); ++s)
      for (const Staged& staged : schedule_.stages[s].staged)
        if (staged.scope == Staged::Scope::Phase) write_packing_phase(s, staged);
    size_t first = 0;
    if (schedule_.stages[0].split > 1 && has_scan(stage(0))) {
      write_split_scan();
      kernel::renumber(kernel_);
      return std::move(kernel_);
    }
    if (schedule_.stages[0].split > 1) {
      write_partial_phase();
      first = 1;
    }
    open_phase();
    if (schedule_.stages.back().split > 1 && loops_.stages.back().ordered) divide_places();
    if (first == 1) combine_partials();
    for (size_t s = first; s < loops_.stages.size();) {
      size_t end = s + 1;
      while (end < loops_.stages.size() && schedule_.stages[end].joined) ++end;
      write_nest(s, end);
      s = end;
    }
    kernel::renumber(kernel_);
    return std::move(kernel_);
  }

 private:
  struct Instance;
  const Stage& stage(size_t s) const { return loops_.stages[s]; }
  size_t axis_count(size_t s) const { return outer_ + stage(s).inner.size(); }
  const Axis& axis(size_t s, size_t i) const { return i < outer_ ? loops_.outer[i] : stage(s).inner[i - outer_]; }

  // Where a tile of a stage lies: for each axis the index of its first element, how many it spans, and where to stop.
  struct Place {
    std::vector<Expr> base;
    std::vector<int64_t> size;
    std::vector<Expr> end;  // elements at or beyond are outside
  };

  // A stage computed at one place.
  struct Instance {
    size_t stage;
    Place place;
    Substitution axes;
    std::unordered_map<Value, Value> map;
    std::vector<Value> carried;                                  // what the stage's scans begin with
    std::unordered_map<const Inst*, std::vector<Value>> totals;  // what each of them has come to
    // Accesses that have this guard get another one: what is written to is also what may be read.
    Expr guard = 1, instead = 1;
  };

  Expr coordinate(size_t dimension, int64_t extent) {
    Expr& var = coordinates_[{dimension, extent}];
    if (!var.is_var()) var = Expr::index(text("d", dimension), extent);
    return var;
  }
  Expr index_at(const Place& p, size_t i) { return p.size[i] == 1 ? p.base[i] : p.base[i] + coordinate(i, p.size[i]); }

  // The tile with `used` dimensions spanned, the others of size 1.
  SmallVector<Expr, 4> coords(const Place& p, const std::vector<bool>& used) {
    SmallVector<Expr, 4> result;
    for (size_t i = 0; i < rank_; ++i) result.push_back(coordinate(i, i < used.size() && used[i] ? p.size[i] : 1));
    return result;
  }
  Dims dims(const Place& p, const std::vector<bool>& used) {
    Dims result;
    for (size_t i = 0; i < rank_; ++i) result.push_back(i < used.size() && used[i] ? p.size[i] : 1);
    return result;
  }
  Expr bounds(const Place& p, const std::vector<bool>& used) {
    Expr guard = 1;
    for (size_t i = 0; i < used.size(); ++i)
      if (used[i]) guard = logical_and(guard, lt(index_at(p, i), p.end[i]));
    return guard;
  }

  // ---- phases and loops ----

  // `first` makes the variables of the grid that come before those of the outer axes.
  void open_phase(const std::function<void()>& first = {}) {
    kernel_.phases.emplace_back();
    builder_.emplace(kernel_, kernel_.phases.back());
    cell_ = {};
    registers_.clear();
    if (first) first();
    for (size_t i = 0; i < outer_; ++i) {
      const Axis& a = loops_.outer[i];
      int64_t size = schedule_.cell[i];
      cell_.base.push_back(cell_variable(text("c", i), ceildiv(a.extent, size)) * size);
      cell_.size.push_back(size);
      cell_.end.push_back(a.extent);
    }
  }
  Expr cell_variable(const std::string& name, const Expr& extent) {
    if (extent.is_const(1)) return 0;
    kernel_.phases.back().cells.push_back(Expr::index(name, extent));
    return kernel_.phases.back().cells.back();
  }

  // The cell, with all of the stage's inner axes.
  Place whole(size_t s) {
    Place p = cell_;
    for (const Axis& a : stage(s).inner) {
      p.base.push_back(0);
      p.size.push_back(a.extent.is_const() ? a.extent.value() : a.extent.hi());
      p.end.push_back(a.extent);
    }
    if (part_size_ > 0 && s + 2 == loops_.stages.size()) {
      p.base.back() = part_ * part_size_;
      p.size.back() = part_size_;
    }
    return p;
  }

  // One more axis of the grid: parts of the axis that an ordered stage writes to.
  void divide_places() {
    const Axis& places = stage(loops_.stages.size() - 2).inner[0];
    int64_t parts = std::min(schedule_.stages.back().split, places.extent.hi());
    if (parts <= 1) return;
    std::vector<Expr>& cells = kernel_.phases.back().cells;
    cells.insert(cells.begin(), Expr::index("part", parts));
    part_ = cells.front();
    part_size_ = (places.extent.hi() + parts - 1) / parts;
  }

  // Narrows `p` to one step of the loop over `var`.
  Expr loop_variable(const Place& p, const Level& level) {
    size_t i = static_cast<size_t>(level.axis);
    // A block at the edge ends early.
    Expr trips = min(Expr(ceildiv(p.size[i], level.step)), max(ceildiv(p.end[i] - p.base[i], level.step), 0));
    return Expr::index(text("l", loop_count_++), trips);
  }
  Place step_into(Place p, const Level& level, const Expr& var) {
    size_t i = static_cast<size_t>(level.axis);
    if (p.size[i] % level.step != 0) p.end[i] = min(p.end[i], p.base[i] + p.size[i]);
    p.base[i] = p.base[i] + var * level.step;
    p.size[i] = level.step;
    return p;
  }

  // Stages [first, end) inside the outer loops of the first.
  void write_nest(size_t first, size_t end) {
    const std::vector<Level>& loops = schedule_.stages[first].loops;
    size_t shared = 0;
    while (shared < loops.size() && static_cast<size_t>(loops[shared].axis) < outer_) ++shared;
    bool alone = end == first + 1;
    for (size_t i = shared; i < loops.size(); ++i)
      if (static_cast<size_t>(loops[i].axis) < outer_)
        HD_ASSERT(alone, "outer loops inside inner ones cannot be shared");
    open_shared(first, end, cell_, 0, shared);
  }

  void open_shared(size_t first, size_t end, const Place& at, size_t level, size_t shared) {
    if (level < shared) {
      const Level& loop = schedule_.stages[first].loops[level];
      Expr var = loop_variable(at, loop);
      builder_->loop(var, {}, [&](std::span<const Value>) {
        open_shared(first, end, step_into(at, loop, var), level + 1, shared);
        return std::vector<Value>{};
      });
      return;
    }
    for (size_t s = first; s < end; ++s) {
      Place p = at;
      Place all = whole(s);
      for (size_t i = outer_; i < axis_count(s); ++i) {
        p.base.push_back(all.base[i]);
        p.size.push_back(all.size[i]);
        p.end.push_back(all.end[i]);
      }
      write_stage(s, p, shared, end);
    }
  }

  void write_stage(size_t s, const Place& p, size_t level, size_t nest_end) {
    if (!stage(s).reducer) {
      write_stores(s, p, level, {});
      return;
    }
    bool used_later = nest_end < loops_.stages.size();
    size_t last_outer = after_outer_loops(s, level);
    if (last_outer > level || used_later) {
      accumulate_in_memory(s, p, level, last_outer, false);
      return;
    }
    std::vector<Value> results = reduce(s, p, level, {});
    for (size_t r = 0; r < results.size(); ++r) registers_[stage(s).results[r]] = results[r];
  }

  // The first level from `level` on behind which no loop runs over an outer axis.
  size_t after_outer_loops(size_t s, size_t level) const {
    const std::vector<Level>& loops = schedule_.stages[s].loops;
    size_t last = level;
    for (size_t i = level; i < loops.size(); ++i)
      if (static_cast<size_t>(loops[i].axis) < outer_) last = i + 1;
    return last;
  }

  // `carried`: what the stage's scans have come to, if they have begun. Gives the same after this part.
  std::vector<Value> write_stores(size_t s, const Place& p, size_t level, std::vector<Value> carried) {
    const std::vector<Level>& loops = schedule_.stages[s].loops;
    bool inside = level == loops.size() || static_cast<size_t>(loops[level].axis) >= outer_;
    if (inside && carried.empty()) carried = scan_starts(s, p);
    if (level < loops.size()) {
      Expr var = loop_variable(p, loops[level]);
      return builder_->loop(var, carried, [&](std::span<const Value> now) {
        return write_stores(s, step_into(p, loops[level], var), level + 1, {now.begin(), now.end()});
      });
    }
    Instance instance{s, p, substitution(s, p), {}, std::move(carried), {}};
    write_checks(instance);
    for (const Inst& inst : stage(s).body.insts) {
      if (inst.op != Op::store && inst.op != Op::combine) continue;
      if (stage(s).ordered)
        write_update(inst, instance);
      else
        write_store(inst, instance);
    }
    std::vector<Value> totals;
    for (const Inst* scan : scans(s)) {
      value(scan->results[0], instance);
      const std::vector<Value>& own = instance.totals.at(scan);
      totals.insert(totals.end(), own.begin(), own.end());
    }
    return totals;
  }

  void write_checks(Instance& in) {
    for (const Inst& inst : stage(in.stage).body.insts) {
      if (inst.op != Op::check) continue;
      Builder::Access access = access_of(inst, in, false);
      builder_->check(inst.buffer, spread(value(inst.args[0], in), extents(access.coords)), access);
    }
  }

  // An update whose place is the same for the whole tile is skipped as a whole where it falls elsewhere.
  void write_update(const Inst& inst, Instance& in) {
    const Expr& place = stage(in.stage).place;
    Expr mine = 1;
    if (part_size_ > 0) mine = logical_and(ge(place, part_ * part_size_), lt(place, part_ * part_size_ + part_size_));
    size_t at = static_cast<size_t>(std::find(inst.binds.begin(), inst.binds.end(), place) - inst.binds.begin());
    HD_ASSERT(at < inst.binds.size(), "an ordered store goes where no data says");
    Value chosen = value(inst.args[inst.args.size() - inst.binds.size() + at], in);
    Expr in_range = substitute(inst.guard, in.axes);
    Instance within{in.stage, in.place, in.axes, {}, {}, {}, in_range, logical_and(in_range, mine)};
    within.map.emplace(inst.args[inst.args.size() - inst.binds.size() + at], chosen);
    if (builder_->type(chosen).numel() != 1 || inst.binds.size() != 1) {
      write_store(inst, within);
      return;
    }
    builder_->branch_on(within.instead, std::span(&place, 1), std::span(&chosen, 1), [&] {
      within.instead = 1;
      write_store(inst, within);
      return std::vector<Value>{};
    });
  }

  // ---- scans ----

  std::vector<const Inst*> scans(size_t s) const {
    std::vector<const Inst*> result;
    for (const Inst& inst : stage(s).body.insts)
      if (inst.op == Op::scan) result.push_back(&inst);
    return result;
  }
  // What all scans of the stage begin with, one after the other.
  std::vector<Value> scan_starts(size_t s, const Place& p) {
    std::vector<Value> result;
    for (const Inst* scan : scans(s))
      for (size_t k = 0; k < scan->reducer->width(); ++k)
        result.push_back(builder_->constant(kernel::neutral(*scan->reducer, k), dims(p, outer_only(axis_count(s)))));
    return result;
  }

  // The operands of a scan over the whole tile, and where they count.
  struct Scanned {
    std::vector<Value> tuple;
    Expr guard;
    SmallVector<Expr, 4> where;
  };
  Scanned scan_operands(const Inst& inst, Instance& in) {
    Scanned result;
    std::vector<bool> all(axis_count(in.stage), true), along(axis_count(in.stage), false);
    along[outer_] = true;
    for (Value v : inst.args) result.tuple.push_back(spread(value(v, in), dims(in.place, all)));
    result.guard = bounds(in.place, along);
    if (!result.guard.is_const(1)) result.where = coords(in.place, all);
    return result;
  }

  Value compute_scan(const Inst& inst, Instance& in) {
    size_t width = inst.reducer->width(), first = 0;
    for (const Inst* scan : scans(in.stage)) {
      if (scan == &inst) break;
      first += scan->reducer->width();
    }
    std::span<const Value> start = std::span(in.carried).subspan(first, width);
    Scanned x = scan_operands(inst, in);
    std::vector<Value> results =
        builder_->scan(x.tuple, start, static_cast<int>(outer_), inst.reducer, x.guard, x.where);
    in.totals[&inst] = {results.begin() + static_cast<long>(width), results.end()};
    for (size_t k = 0; k < width; ++k) in.map[inst.results[k]] = results[k];
    return results[0];
  }

  // What the scans of the stage come to over everything that the loops from `level` on cover.
  std::vector<Value> scan_totals(size_t s, const Place& p, size_t level, std::vector<Value> before) {
    const std::vector<Level>& loops = schedule_.stages[s].loops;
    if (level < loops.size()) {
      Expr var = loop_variable(p, loops[level]);
      return builder_->loop(var, before, [&](std::span<const Value> now) {
        return scan_totals(s, step_into(p, loops[level], var), level + 1, {now.begin(), now.end()});
      });
    }
    Instance instance{s, p, substitution(s, p), {}, {}, {}};
    std::vector<Value> after;
    for (const Inst* scan : scans(s)) {
      Scanned x = scan_operands(*scan, instance);
      std::vector<Value> own = builder_->reduce(x.tuple, static_cast<int>(outer_), scan->reducer, x.guard, x.where);
      std::span<const Value> left = std::span(before).subspan(after.size(), own.size());
      for (Value v : builder_->apply(*scan->reducer, left, own)) after.push_back(v);
    }
    return after;
  }

  // A scan with too few rows for all cores: in each round the cells first find out what their parts come to, then scan
  // them, starting from what the parts before come to. A round's parts fit into the caches, so that the second reading
  // costs little.
  void write_split_scan() {
    const int64_t parts = schedule_.stages[0].split, chunk = schedule_.stages[0].loops[0].step;
    const Expr extent = stage(0).inner[0].extent;
    const Expr rounds = ceildiv(extent, parts * chunk);
    kernel_.rounds = !rounds.is_const(1);
    Expr points = 1;
    for (const Axis& axis : loops_.outer) points = points * axis.extent;
    std::vector<int> partial, carry;  // buffers: of each part of this round; of all rounds before, turn and turn about
    auto buffers = [&](const char* name, const Expr& size) {
      std::vector<int> made;
      for (const Inst* scan : scans(0))
        for (const Scalar& identity : scan->reducer->identity) {
          made.push_back(static_cast<int>(kernel_.buffers.size()));
          kernel_.buffers.push_back({text(name, made.size() - 1), identity.dtype, kernel::Space::Temp, size});
        }
      return made;
    };
    Expr round, part;
    auto open = [&] {
      open_phase([&] { round = kernel_.rounds ? cell_variable("round", rounds) : Expr(0); });
      part = cell_variable("part", parts);
      Place p = whole(0);
      p.base[outer_] = (round * parts + part) * chunk;
      p.size[outer_] = chunk;
      return p;
    };

    Place p = open();
    std::vector<Value> totals = scan_totals(0, p, 1, scan_starts(0, p));
    partial = buffers("partial", points * parts);
    for (size_t k = 0; k < totals.size(); ++k) builder_->store(partial[k], totals[k], partial_access(p, part, {}));

    p = open();
    std::vector<Value> before, own = scan_starts(0, p);
    if (kernel_.rounds) {
      carry = buffers("carry", points * 2);
      Value later = builder_->index(DType::boolean, lt(0, round), {});
      for (size_t k = 0; k < own.size(); ++k) {
        Builder::Access access = partial_access(p, mod(round, 2), {});
        access.guard = logical_and(access.guard, lt(0, round));
        Value loaded = builder_->load(carry[k], builder_->type(own[k]).dtype, access);
        own[k] = builder_->op(ScalarOp::where, {later, loaded, own[k]});
      }
    }
    Place earlier = cell_;
    earlier.base.push_back(0);
    earlier.size.push_back(parts);
    earlier.end.push_back(parts);
    std::vector<bool> used(outer_ + 1, true);
    Expr other = coordinate(outer_, parts);
    for (const Inst* scan : scans(0)) {
      std::vector<Value> tuple;
      size_t first = before.size();
      for (size_t k = 0; k < scan->reducer->width(); ++k) {
        Builder::Access access = partial_access(earlier, other, used);
        access.guard = logical_and(access.guard, lt(other, part));
        tuple.push_back(builder_->load(partial[first + k], builder_->type(own[first + k]).dtype, access));
      }
      tuple = builder_->reduce(tuple, static_cast<int>(outer_), scan->reducer, lt(other, part), coords(earlier, used));
      std::span<const Value> left = std::span(own).subspan(first, tuple.size());
      for (Value v : builder_->apply(*scan->reducer, left, tuple)) before.push_back(v);
    }
    totals = write_stores(0, p, 1, before);
    if (!kernel_.rounds) return;
    for (size_t k = 0; k < totals.size(); ++k) {
      Builder::Access access = partial_access(p, mod(round + 1, 2), {});
      access.guard = logical_and(access.guard, eq(part, parts - 1));
      builder_->store(carry[k], totals[k], access);
    }
  }

  // ---- reductions ----

  // The stage's tuple over everything that the loops from `level` on cover, combined with `before` if given.
  std::vector<Value> reduce(size_t s, const Place& p, size_t level, std::vector<Value> before) {
    const std::vector<Level>& loops = schedule_.stages[s].loops;
    write_cell_packing(s, p, level);
    if (level == loops.size()) return reduce_tile(s, p, std::move(before));
    if (before.empty()) before = identities(s, p, level);
    Expr var = loop_variable(p, loops[level]);
    return builder_->loop(var, before, [&](std::span<const Value> carried) {
      return reduce(s, step_into(p, loops[level], var), level + 1, {carried.begin(), carried.end()});
    });
  }

  // The tile that one result has inside all loops.
  Dims result_dims(size_t s, Place p, size_t level) {
    for (size_t i = level; i < schedule_.stages[s].loops.size(); ++i) {
      const Level& loop = schedule_.stages[s].loops[i];
      p.size[static_cast<size_t>(loop.axis)] = loop.step;
    }
    return dims(p, outer_only(axis_count(s)));
  }
  std::vector<bool> outer_only(size_t count) const {
    std::vector<bool> used(count, false);
    std::fill(used.begin(), used.begin() + static_cast<long>(outer_), true);
    return used;
  }
  std::vector<Value> identities(size_t s, const Place& p, size_t level) {
    std::vector<Value> result;
    for (const Scalar& identity : stage(s).reducer->identity)
      result.push_back(builder_->constant(identity, result_dims(s, p, level)));
    return result;
  }

  std::vector<Value> reduce_tile(size_t s, const Place& p, std::vector<Value> before) {
    Instance instance{s, p, substitution(s, p), {}, {}, {}};
    write_checks(instance);
    const auto& reducer = stage(s).reducer;
    std::vector<bool> all(axis_count(s), true);
    Dims full = dims(p, all);
    Expr guard = bounds(p, all);
    SmallVector<Expr, 4> where = coords(p, all);
    if (schedule_.stages[s].dot && stage(s).inner.size() == 1) {
      Contraction c = *find_contraction(loops_, stage(s));
      Value a = operand(s, 0, c.a, instance), b = operand(s, 1, c.b, instance);
      if (before.empty()) before = identities(s, p, schedule_.stages[s].loops.size());
      // Rows and columns outside only lead to results that nobody stores; the reduced axis must be exact.
      std::vector<bool> inner(axis_count(s), false);
      inner[outer_] = true;
      Expr inside = bounds(p, inner);
      std::span<const Expr> guarded = where;
      return {builder_->dot(a, b, before[0], static_cast<int>(outer_), inside,
                            inside.is_const(1) ? std::span<const Expr>{} : guarded)};
    }
    std::vector<Value> tuple;
    for (Value v : stage(s).body.results) tuple.push_back(spread(value(v, instance), full));
    for (size_t i = axis_count(s); i-- > outer_;) {
      tuple = builder_->reduce(tuple, static_cast<int>(i), reducer, guard, where);
      guard = 1;  // what lay outside is the identity now
      where[i] = coordinate(i, 1);
    }
    return before.empty() ? tuple : builder_->apply(*reducer, before, tuple);
  }

  static Dims extents(std::span<const Expr> coords) {
    Dims result;
    for (const Expr& c : coords) result.push_back(c.extent().value());
    return result;
  }

  // Reductions and stores count elements, so their operand must really have all of them.
  Value spread(Value v, const Dims& full) {
    if (builder_->type(v).shape == full) return v;
    Value yes = builder_->constant(Scalar::of(DType::boolean, true), full);
    return builder_->op(ScalarOp::where, {yes, v, v});
  }

  // The results live in Local memory, one element per outer point of the cell, and are updated there by the loops up
  // to `last_outer`, which may have nothing to do when `may_be_empty`.
  void accumulate_in_memory(size_t s, const Place& p, size_t level, size_t last_outer, bool may_be_empty) {
    const std::vector<Level>& loops = schedule_.stages[s].loops;
    bool again = std::any_of(loops.begin() + static_cast<long>(level), loops.begin() + static_cast<long>(last_outer),
                             [&](const Level& l) { return static_cast<size_t>(l.axis) >= outer_; });
    // A sum needs no beginning: what is not loaded is zero.
    bool started = may_be_empty || (again && kernel::simple_op(*stage(s).reducer) != ScalarOp::add);
    if (started) {
      const auto& identity = stage(s).reducer->identity;
      for (size_t r = 0; r < identity.size(); ++r)
        store_result(stage(s).results[r], builder_->constant(identity[r], dims(p, outer_only(outer_))), p);
    }
    accumulate(s, p, level, last_outer, started ? Expr(0) : Expr(1));
  }

  // `fresh` holds while nothing has been written.
  void accumulate(size_t s, const Place& p, size_t level, size_t last_outer, Expr fresh) {
    write_cell_packing(s, p, level);
    if (level < last_outer) {
      const Level& loop = schedule_.stages[s].loops[level];
      Expr var = loop_variable(p, loop);
      if (static_cast<size_t>(loop.axis) >= outer_) fresh = logical_and(fresh, eq(var, 0));
      builder_->loop(var, {}, [&](std::span<const Value>) {
        accumulate(s, step_into(p, loop, var), level + 1, last_outer, fresh);
        return std::vector<Value>{};
      });
      return;
    }
    std::vector<Value> before;
    const auto& reducer = stage(s).reducer;
    if (!fresh.is_const(1))
      for (Value result : stage(s).results) before.push_back(load_result(result, p, logical_not(fresh)));
    // The loops that remain run over inner axes only. They start anew, so that a long sum is a sum of short ones.
    packed_at_ = level;
    std::vector<Value> results = reduce(s, p, level, {});
    if (!before.empty()) results = builder_->apply(*reducer, before, results);
    for (size_t r = 0; r < results.size(); ++r) store_result(stage(s).results[r], results[r], p);
  }

  int result_buffer(Value result) {
    auto [it, fresh] = result_buffers_.try_emplace(result, static_cast<int>(kernel_.buffers.size()));
    if (fresh) {
      int64_t size = 1;
      for (int64_t s : schedule_.cell) size *= s;
      kernel_.buffers.push_back({text("acc", result_buffers_.size() - 1),
                                 loops_.values[static_cast<size_t>(result)].dtype, kernel::Space::Local, size});
    }
    return it->second;
  }
  Builder::Access result_access(const Place& p) {
    Builder::Access access;
    access.address = 0;
    for (size_t i = 0; i < outer_; ++i)
      access.address = access.address * schedule_.cell[i] + (index_at(p, i) - cell_.base[i]);
    access.coords = coords(p, outer_only(outer_));
    return access;
  }
  Value load_result(Value result, const Place& p, const Expr& guard = 1) {
    Builder::Access access = result_access(p);
    access.guard = logical_and(guard, bounds(p, outer_only(outer_)));  // nothing is written beyond
    return builder_->load(result_buffer(result), loops_.values[static_cast<size_t>(result)].dtype, access);
  }
  void store_result(Value result, Value v, const Place& p) {
    builder_->store(result_buffer(result), v, result_access(p));
  }

  // ---- reductions split over the grid ----

  void write_partial_phase() {
    int64_t parts = schedule_.stages[0].split;
    open_phase();
    Expr part = cell_variable("part", parts);
    Place p = whole(0);
    const Axis& first = stage(0).inner[0];
    int64_t step = 1;
    for (const Level& level : schedule_.stages[0].loops)
      if (static_cast<size_t>(level.axis) == outer_) step = std::max(step, level.step);
    int64_t chunk = (p.size[outer_] + parts - 1) / parts;
    chunk = (chunk + step - 1) / step * step;
    p.base[outer_] = part * chunk;
    p.size[outer_] = chunk;
    p.end[outer_] = first.extent;
    std::vector<Value> results;
    size_t last_outer = after_outer_loops(0, 0);
    if (last_outer > 0) {
      accumulate_in_memory(0, p, 0, last_outer, true);
      for (Value result : stage(0).results) results.push_back(load_result(result, cell_));
    } else {
      results = reduce(0, p, 0, {});
    }
    for (size_t r = 0; r < results.size(); ++r) {
      Expr points = 1;
      for (size_t i = 0; i < outer_; ++i) points = points * loops_.outer[i].extent;
      DType dtype = loops_.values[static_cast<size_t>(stage(0).results[r])].dtype;
      partial_buffers_.push_back(static_cast<int>(kernel_.buffers.size()));
      kernel_.buffers.push_back({text("partial", r), dtype, kernel::Space::Temp, points * parts});
      builder_->store(partial_buffers_.back(), results[r], partial_access(p, part, {}));
    }
  }
  Builder::Access partial_access(const Place& p, const Expr& part, std::vector<bool> used) {
    Builder::Access access;
    std::vector<bool> outer = outer_only(outer_);
    access.address = part;
    for (size_t i = 0; i < outer_; ++i) access.address = access.address * loops_.outer[i].extent + index_at(p, i);
    access.guard = bounds(p, outer);
    if (used.empty()) used = outer;
    access.coords = coords(p, used);
    return access;
  }
  void combine_partials() {
    int64_t parts = schedule_.stages[0].split;
    Place p = cell_;
    p.base.push_back(0);
    p.size.push_back(parts);
    p.end.push_back(parts);
    std::vector<bool> used(outer_ + 1, true);
    std::vector<Value> tuple;
    for (size_t r = 0; r < partial_buffers_.size(); ++r) {
      DType dtype = loops_.values[static_cast<size_t>(stage(0).results[r])].dtype;
      tuple.push_back(builder_->load(partial_buffers_[r], dtype, partial_access(p, coordinate(outer_, parts), used)));
    }
    tuple = builder_->reduce(tuple, static_cast<int>(outer_), stage(0).reducer);
    // Later stages that walk the cell in steps find their part of it in memory.
    bool walked = false;
    for (size_t s = 1; s < loops_.stages.size(); ++s)
      for (const Level& level : schedule_.stages[s].loops) walked |= static_cast<size_t>(level.axis) < outer_;
    for (size_t r = 0; r < tuple.size(); ++r) {
      if (walked)
        store_result(stage(0).results[r], tuple[r], cell_);
      else
        registers_[stage(0).results[r]] = tuple[r];
    }
  }

  // ---- packed operands of a contraction ----

  // A copy of one factor, panel by panel: [other outer axes][panel][inner axes][lane].
  struct Packed {
    int buffer = -1;
    size_t panel_axis = 0;
    int64_t panel = 1;
    std::vector<size_t> axes;   // that the factor follows, in storage order, the panel axis included
    Place block;                // what has been copied
    bool whole = false;         // the block is the whole operand
    std::vector<Expr> extents;  // of the block along `axes`; the panel axis rounded up to whole panels
  };

  Packed layout(size_t s, const Staged& staged, const Contraction& c, const Place& block, bool whole) {
    Packed packed;
    packed.whole = whole;
    const std::vector<bool>& follows = staged.operand == 0 ? c.a_axes : c.b_axes;
    int axis = staged.operand == 0 ? c.a_axis : c.b_axis;
    HD_ASSERT(axis >= 0, "only a factor with an axis of its own can be staged");
    packed.panel_axis = static_cast<size_t>(axis);
    packed.panel = std::max<int64_t>(staged.panel, 1);
    packed.block = block;
    for (size_t i = 0; i < axis_count(s); ++i)
      if (follows[i]) packed.axes.push_back(i);
    for (size_t i : packed.axes) {
      Expr extent = whole ? this->axis(s, i).extent : Expr(block.size[i]);
      if (i == packed.panel_axis) extent = ceildiv(extent, packed.panel) * packed.panel;
      packed.extents.push_back(extent);
    }
    return packed;
  }
  // Element number of the point `index` (one entry per axis, counted from the block's beginning).
  static Expr packed_address(const Packed& packed, const std::vector<Expr>& index) {
    Expr address = 0;
    for (size_t k = 0; k < packed.axes.size(); ++k) {
      size_t i = packed.axes[k];
      bool is_panel = i == packed.panel_axis;
      address = address * (is_panel ? floordiv(packed.extents[k], packed.panel) : packed.extents[k]) +
                (is_panel ? floordiv(index[i], packed.panel) : index[i]);
    }
    return address * packed.panel + mod(index[packed.panel_axis], packed.panel);
  }
  static Expr packed_size(const Packed& packed) {
    Expr size = 1;
    for (const Expr& extent : packed.extents) size = size * extent;
    return size;
  }

  void write_packing_phase(size_t s, const Staged& staged) {
    Contraction c = *find_contraction(loops_, stage(s));
    kernel_.phases.emplace_back();
    builder_.emplace(kernel_, kernel_.phases.back());
    registers_.clear();
    Place block;
    for (size_t i = 0; i < axis_count(s); ++i) {
      block.base.push_back(0);
      block.size.push_back(std::max<int64_t>(axis(s, i).extent.hi(), 1));
      block.end.push_back(axis(s, i).extent);
    }
    Packed packed = layout(s, staged, c, block, true);
    Value factor = staged.operand == 0 ? c.a : c.b;
    packed.buffer = static_cast<int>(kernel_.buffers.size());
    kernel_.buffers.push_back({text("packed", packed.buffer), loops_.values[static_cast<size_t>(factor)].dtype,
                               kernel::Space::Temp, packed_size(packed)});
    // One cell copies one panel along a stretch of the innermost axis.
    Place p = block;
    constexpr int64_t kStretch = 256;
    for (size_t i = 0; i < axis_count(s); ++i) {
      bool follows = std::find(packed.axes.begin(), packed.axes.end(), i) != packed.axes.end();
      int64_t size = i == packed.panel_axis   ? packed.panel
                     : i + 1 == axis_count(s) ? std::min(kStretch, block.size[i])
                                              : 1;
      p.size[i] = size;
      p.base[i] = follows ? cell_variable(text("p", i), ceildiv(axis(s, i).extent, size)) * size : Expr(0);
    }
    copy_tile(s, packed, factor, p);
    packed_[{s, staged.operand}] = packed;
  }

  // Copies the factor's tile at p into its place.
  void copy_tile(size_t s, const Packed& packed, Value factor, const Place& p) {
    Instance instance{s, p, substitution(s, p), {}, {}, {}};
    Value v = value(factor, instance);
    std::vector<bool> used(axis_count(s), false);
    std::vector<Expr> index(axis_count(s), Expr(0));
    Expr guard = 1;
    for (size_t i : packed.axes) {
      used[i] = true;
      index[i] = index_at(p, i) - packed.block.base[i];
      // A panel is written whole, so that nobody needs to ask where the operand ends.
      if (i != packed.panel_axis) guard = logical_and(guard, lt(index_at(p, i), p.end[i]));
    }
    Builder::Access access;
    access.address = packed_address(packed, index);
    access.guard = guard;
    access.coords = coords(p, used);
    builder_->store(packed.buffer, spread(v, extents(access.coords)), access);
  }

  // Copies the blocks that are due inside `level` loops of the stage.
  void write_cell_packing(size_t s, const Place& p, size_t level) {
    if (packed_at_ && *packed_at_ == level) {
      packed_at_.reset();
      return;
    }
    for (const Staged& staged : schedule_.stages[s].staged) {
      if (staged.scope != Staged::Scope::Cell || static_cast<size_t>(staged.depth) != level) continue;
      Contraction c = *find_contraction(loops_, stage(s));
      Packed packed = layout(s, staged, c, p, false);
      Value factor = staged.operand == 0 ? c.a : c.b;
      auto known = packed_.find({s, staged.operand});
      packed.buffer = known != packed_.end() ? known->second.buffer : static_cast<int>(kernel_.buffers.size());
      if (known == packed_.end())
        kernel_.buffers.push_back({text("packed", packed.buffer), loops_.values[static_cast<size_t>(factor)].dtype,
                                   kernel::Space::Local, packed_size(packed)});
      packed_[{s, staged.operand}] = packed;
      if (packed.panel == 1 || packed.block.size[packed.panel_axis] == packed.panel) {
        Place tile_at = p;
        for (size_t i = 0; i < axis_count(s); ++i)
          if (std::find(packed.axes.begin(), packed.axes.end(), i) == packed.axes.end()) tile_at.size[i] = 1;
        copy_tile(s, packed, factor, tile_at);
        continue;
      }
      Level panels{static_cast<int>(packed.panel_axis), packed.panel};
      Place rounded = p;
      for (size_t k = 0; k < packed.axes.size(); ++k) rounded.size[packed.axes[k]] = packed.extents[k].value();
      Expr var = Expr::index(text("l", loop_count_++), rounded.size[packed.panel_axis] / packed.panel);
      builder_->loop(var, {}, [&](std::span<const Value>) {
        copy_tile(s, packed, factor, step_into(rounded, panels, var));
        return std::vector<Value>{};
      });
    }
  }

  // ---- values ----

  // A factor of the contraction: from its packed copy if there is one.
  Value operand(size_t s, int number, Value factor, Instance& instance) {
    auto it = packed_.find({s, number});
    if (it == packed_.end()) return value(factor, instance);
    const Packed& packed = it->second;
    std::vector<bool> used(axis_count(s), false);
    std::vector<Expr> index(axis_count(s), Expr(0));
    Builder::Access access;
    for (size_t i : packed.axes) {
      used[i] = true;
      index[i] = index_at(instance.place, i) - packed.block.base[i];
      // Panels are written whole; a whole operand of no panels has no room beyond its end. Along other axes nothing is
      // written beyond.
      bool can_end = i != packed.panel_axis || (packed.whole && packed.panel == 1);
      if (can_end) access.guard = logical_and(access.guard, lt(index_at(instance.place, i), instance.place.end[i]));
    }
    access.address = packed_address(packed, index);
    access.coords = coords(instance.place, used);
    return builder_->load(packed.buffer, loops_.values[static_cast<size_t>(factor)].dtype, access);
  }

  Substitution substitution(size_t s, const Place& p) {
    Substitution to;
    for (size_t i = 0; i < axis_count(s); ++i) to.emplace_back(axis(s, i).var, index_at(p, i));
    return to;
  }

  // Fills address, guard, coords and binds of an access from the scalar instruction.
  Builder::Access access_of(const Inst& inst, Instance& in, bool all_axes) {
    Builder::Access access;
    std::vector<bool> used(axis_count(in.stage), all_axes);
    for (size_t i = 0; i < used.size(); ++i)
      used[i] =
          used[i] || depends_on(inst.address, axis(in.stage, i).var) || depends_on(inst.guard, axis(in.stage, i).var);
    access.address = substitute(inst.address, in.axes);
    Expr guard = substitute(inst.guard, in.axes);
    access.guard = logical_and(guard == in.guard ? in.instead : guard, bounds(in.place, used));
    // Along an axis of at most one element the index is 0 and left no trace; there may still be no element at all.
    if (inst.op == Op::load)
      for (size_t i = outer_; i < used.size(); ++i)
        if (!used[i]) access.guard = logical_and(access.guard, lt(0, axis(in.stage, i).extent));
    size_t first_bound = inst.args.size() - inst.binds.size();
    for (size_t b = 0; b < inst.binds.size(); ++b) {
      Value v = value(inst.args[first_bound + b], in);
      access.binds.push_back(inst.binds[b]);
      access.bound.push_back(v);
      const Dims& shape = builder_->type(v).shape;  // the access spans whatever its indices span
      for (size_t i = 0; i < used.size() && i < shape.size(); ++i) used[i] = used[i] || shape[i] > 1;
    }
    // Beyond the end a load gives anything, but what is computed there must not be reported.
    if (inst.op == Op::check) access.guard = logical_and(access.guard, bounds(in.place, used));
    access.coords = coords(in.place, used);
    return access;
  }

  void write_store(const Inst& inst, Instance& in) {
    Builder::Access access = access_of(inst, in, true);
    access.hint = schedule_.stages[in.stage].stream ? kernel::Hint::Stream : kernel::Hint::None;
    Value v = spread(value(inst.args[0], in), extents(access.coords));
    if (inst.op == Op::store)
      builder_->store(inst.buffer, v, access);
    else
      builder_->combine(inst.buffer, v, inst.reducer, access);
  }

  Value value(Value v, Instance& in) {
    if (auto it = in.map.find(v); it != in.map.end()) return it->second;
    Value result;
    auto definition = definition_.find(v);
    if (definition == definition_.end()) {  // the result of an earlier stage
      auto held = registers_.find(v);
      result = held != registers_.end() ? held->second : load_result(v, in.place);
    } else {
      result = compute(*definition->second.second, in);
    }
    in.map[v] = result;
    return result;
  }

  Value compute(const Inst& inst, Instance& in) {
    switch (inst.op) {
      case Op::constant: return builder_->constant(inst.literal);
      case Op::cast:
        return builder_->cast(value(inst.args[0], in), loops_.values[static_cast<size_t>(inst.results[0])].dtype);
      case Op::bitcast:
        return builder_->bitcast(value(inst.args[0], in), loops_.values[static_cast<size_t>(inst.results[0])].dtype);
      case Op::index: {
        Builder::Access access = access_of(inst, in, false);
        return builder_->index(loops_.values[static_cast<size_t>(inst.results[0])].dtype, access.address,
                               access.coords);
      }
      case Op::scan: return compute_scan(inst, in);
      case Op::load:
        return builder_->load(inst.buffer, loops_.values[static_cast<size_t>(inst.results[0])].dtype,
                              access_of(inst, in, false));
      default: {
        HD_ASSERT(kernel::is_scalar_op(inst.op), kernel::name(inst.op), " in loops");
        SmallVector<Value, 3> args;
        for (Value arg : inst.args) args.push_back(value(arg, in));
        return builder_->op(kernel::scalar_op(inst.op), args);
      }
    }
  }

  const Loops& loops_;
  const Schedule& schedule_;
  size_t outer_ = 0, rank_ = 0;
  int loop_count_ = 0;
  kernel::Kernel kernel_;
  std::optional<Builder> builder_;
  Place cell_;
  Expr part_;              // of an ordered stage's places, when they are divided
  int64_t part_size_ = 0;  // 0: they are not
  std::map<std::pair<size_t, int64_t>, Expr> coordinates_;
  std::unordered_map<Value, std::pair<size_t, const Inst*>> definition_;
  std::unordered_map<Value, Value> registers_;     // results of stages in the current nest
  std::unordered_map<Value, int> result_buffers_;  // results that pass through Local memory
  std::vector<int> partial_buffers_;
  std::map<std::pair<size_t, int>, Packed> packed_;  // by stage and operand
  std::optional<size_t> packed_at_;                  // this level's blocks are already copied
};

}  // namespace

kernel::Kernel tile(const Loops& loops, const Schedule& schedule, const Target& target) {
  std::string problem = check(schedule, loops, target);
  HD_ASSERT(problem.empty(), "schedule of ", loops.name, ": ", problem);
  return Tiler(loops, schedule).run();
}

}  // namespace heddle
