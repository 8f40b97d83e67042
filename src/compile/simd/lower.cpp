// Tile level to thread level for a CPU: walks the bodies, loops and branches.
#include "compile/simd/lowering.h"

#include <algorithm>

#include "base/error.h"
#include "compile/simd/lower.h"
#include "kernel/pass_util.h"

namespace heddle::simd {
namespace {

// Tiles up to this size may cross loops as scalars.
constexpr int64_t kFewScalars = 16;

// A tile that is transposed goes through scratch if it is no larger.
constexpr int64_t kStagedElements = 16384;
constexpr int64_t kCacheLine = 64;

}  // namespace

bool is_lazy_op(Op op) { return kernel::is_elementwise(op) || op == Op::load; }

bool writes_memory(Op op) { return op == Op::store || op == Op::combine || op == Op::check; }

int64_t op_cost(Op op) {
  if (kernel::is_scalar_op(op)) {
    ScalarOp s = kernel::scalar_op(op);
    if (!info(s).native) return 20;
    if (s == ScalarOp::div || s == ScalarOp::sqrt || s == ScalarOp::floordiv || s == ScalarOp::mod) return 8;
    return 1;
  }
  return op == Op::constant ? 0 : 1;
}

std::span<const Value> final_results(const Inst& root) {
  size_t first = root.op == Op::scan ? root.results.size() / 2 : 0;
  return std::span<const Value>(root.results.begin(), root.results.end()).subspan(first);
}

Dims root_dims(const Kernel& kernel, const Inst& inst) {
  const Dims& first = kernel.values[inst.args[0]].shape;
  if (inst.op == Op::dot) return kernel::broadcast_dims(first, kernel.values[inst.args[1]].shape);
  return first;
}

void expand_short_scans(Kernel& kernel, Body& code) {
  std::vector<Inst> insts = std::move(code.insts);
  code.insts.clear();
  kernel::Renaming rename(kernel.values.size());
  auto rename_inside = [&](Inst& inst) {
    rename.apply(inst.args);
    for (Body& inner : inst.bodies) rename.apply(inner.results);
  };
  for (Inst& inst : insts) {
    rename_inside(inst);
    for (Body& inner : inst.bodies) {
      kernel::visit(inner, rename_inside);
      expand_short_scans(kernel, inner);
    }
    if (inst.op != Op::scan || kernel.values[inst.args[0]].shape[inst.axis] != 1) {
      code.insts.push_back(std::move(inst));
      continue;
    }
    Builder b(kernel.values, code);
    const size_t width = inst.reducer->width();
    std::vector<Value> x(inst.args.begin(), inst.args.begin() + width);
    const std::span<const Value> start(inst.args.begin() + width, width);
    if (!inst.guard.is_const(1)) {
      Value counts = b.index(DType::boolean, inst.guard, inst.coords, inst.binds, kernel::bound(inst));
      for (size_t k = 0; k < width; ++k)
        x[k] = b.op(ScalarOp::where, {counts, x[k], b.constant(kernel::neutral(*inst.reducer, k))});
    }
    std::vector<Value> results = b.apply(*inst.reducer, start, x);
    for (size_t k = 0; k < width; ++k) {
      rename.replace(inst.results[k], results[k]);
      rename.replace(inst.results[width + k], results[k]);
    }
  }
  rename.apply(code.results);
}

Lowering::Lowering(const Kernel& in, const Target& target) : in_(in), target_(target) {
  HD_ASSERT(in.level == kernel::Level::Tile, "kernel ", in.name, " is lowered already");
  out_ = {.name = in.name,
          .level = kernel::Level::Thread,
          .symbols = in.symbols,
          .buffers = in.buffers,
          .rounds = in.rounds};
  used_.assign(in.values.size(), false);
  defs_.assign(in.values.size(), nullptr);
  reps_.resize(in.values.size());
  for (const kernel::Phase& phase : in.phases)
    kernel::visit(phase.body, [&](const Inst& inst) {
      for (Value v : inst.results) defs_[v] = &inst;
      kernel::each_use(inst, [&](Value v) { used_[v] = true; });
    });
}

Kernel Lowering::run() {
  for (const kernel::Phase& phase : in_.phases) {
    kernel::Phase lowered;
    lowered.blocks = phase.blocks;
    builder_.emplace(out_.values, lowered.body, kernel::Level::Thread);
    rounds_ = phase.blocks;
    lower_body(phase.body);
    out_.phases.push_back(std::move(lowered));
  }
  return std::move(out_);
}

void Lowering::set_rep(Value v, Rep rep) {
  undo_.emplace_back(v, std::move(reps_[v]));
  reps_[v] = std::move(rep);
}

void Lowering::restore(size_t undo_size) {
  while (undo_.size() > undo_size) {
    reps_[undo_.back().first] = std::move(undo_.back().second);
    undo_.pop_back();
  }
}

Rep Lowering::memory_rep(Value v, int vector_dim) {
  const Type& type = in_.values[v];
  Rep rep{.kind = Rep::Memory, .strides = Dims(type.shape.size(), 0)};
  int64_t stride = 1;
  auto place = [&](int d) {
    if (type.shape[d] == 1) return;
    rep.strides[d] = stride;
    stride *= type.shape[d];
    // Rows that start at the same place of every page compete for few places in the cache.
    if (stride * size_of(type.dtype) % 1024 == 0 && stride < type.numel()) stride += kCacheLine / size_of(type.dtype);
  };
  if (vector_dim >= 0) place(vector_dim);
  for (int d = static_cast<int>(type.shape.size()) - 1; d >= 0; --d)
    if (d != vector_dim) place(d);
  rep.buffer = static_cast<int>(out_.buffers.size());
  out_.buffers.push_back({text("shared", rep.buffer), type.dtype, kernel::Space::Shared, stride});
  return rep;
}

void Lowering::eager(const Inst& inst) {
  Nest nowhere;
  const Position origin = Position::origin(in_.values[inst.results[0]].shape.size(), depth());
  base_level_ = depth();
  memo_.clear();
  set_rep(inst.results[0], {.kind = Rep::Scalar, .scalar = emit_lazy(nowhere, inst, origin, depth())});
}

void Lowering::lower_body(const Body& code) {
  std::vector<Item> items = partition(code);
  choose_saves(code, items);
  for (Item& item : items) {
    for (const Item::Wanted& wanted : item.before)
      if (is_lazy(wanted.value)) write_down(wanted.value);
    if (item.single) {
      if (item.single->op == Op::loop)
        lower_loop(*item.single);
      else if (item.single->op == Op::branch)
        lower_branch(*item.single);
      else if (item.single->op == Op::panel_dot)
        builder().code().insts.push_back(*item.single);
      else
        eager(*item.single);
      continue;
    }
    Nest nest{.shape = item.shape, .roots = item.roots, .axis = item.axis};
    for (const Item::Wanted& wanted : item.during) nest.complete |= defs_[wanted.value]->op == Op::scan;
    plan(nest);
    if (stage_transposed(nest)) {
      nest = {.shape = item.shape, .roots = item.roots};
      plan(nest);
    }
    bool whole = std::ranges::all_of(nest.walks, [](const Walk& w) { return w.whole; });
    whole &= nest.condition.is_const(1) && nest.bounds.empty();
    for (const Item::Wanted& wanted : item.during) {
      if (!is_lazy(wanted.value)) continue;
      if (whole && nest.layout().size() <= kSmallTile)
        nest.saves.push_back({wanted.value, {.kind = Rep::Registers}});
      else if (!wanted.optional)
        nest.saves.push_back({wanted.value, memory_rep(wanted.value, nest.vector_dim)});
    }
    if (!nest.in_registers) place_results(item, nest, code);
    run_nest(nest);
  }
}

// Computes the whole tile into memory, in a nest of its own.
void Lowering::write_down(Value v) {
  Nest nest{.shape = in_.values[v].shape, .saves = {{v}}};
  plan(nest);
  nest.saves[0].to = memory_rep(v, nest.vector_dim);
  run_nest(nest);
}

// The same into what is given, while the values stay known where they are.
void Lowering::compute_aside(const Dims& shape, std::vector<Save> saves) {
  const size_t before = undo_.size();
  Nest nest{.shape = shape, .saves = std::move(saves)};
  plan(nest);
  run_nest(nest);
  restore(before);
}

// A gather that touches a cache line per lane, where another dimension runs along memory, is read that way into
// scratch first: lines far apart compete for few places in the cache, those of the scratch do not.
bool Lowering::stage_transposed(const Nest& nest) {
  if (nest.axis >= 0 || nest.vector_dim < 0 || nest.has(Op::dot)) return false;
  bool staged = false;
  for (const Inst* inst : leaves(nest)) {
    if (inst->op != Op::load || !inst->binds.empty()) continue;
    if (contains(nest.transposed, inst)) continue;
    const Type& type = in_.values[inst->results[0]];
    if (type.shape[nest.vector_dim] == 1 || type.numel() > kStagedElements) continue;
    std::optional<Linear> step = linear_in(inst->address, inst->coords[nest.vector_dim]);
    if (!step || std::abs(step->coefficient) * size_of(type.dtype) < kCacheLine) continue;
    for (size_t d = 0; d < type.shape.size(); ++d) {
      if (type.shape[d] < nest.width || static_cast<int>(d) == nest.vector_dim) continue;
      std::optional<Linear> along = linear_in(inst->address, inst->coords[d]);
      if (!along || along->coefficient != 1) continue;
      write_down(inst->results[0]);
      staged = true;
      break;
    }
  }
  return staged;
}

// Memory for results of reductions. A dot that gives the next value of a carried tile, which nobody else reads, adds
// to that tile in place.
void Lowering::place_results(const Item& item, const Nest& nest, const Body& code) {
  for (const Inst* root : item.roots) {
    for (Value v : final_results(*root)) {
      if (root->op == Op::scan && !used_[v]) continue;
      if (root->op == Op::dot) {
        const Value sum = root->args[2];
        bool in_place = false;
        for (size_t i = 0; i < code.params.size() && i < code.results.size(); ++i)
          in_place |= code.params[i] == sum && code.results[i] == v && reps_[sum].kind == Rep::Memory &&
                      in_.values[sum].shape == in_.values[v].shape;
        int readers = 0;
        auto count = [&](Value used) { readers += used == sum; };
        kernel::visit(code, [&](const Inst& inst) { kernel::each_use(inst, count); });
        for (Value used : code.results) count(used);
        if (in_place && readers == 1) {
          set_rep(v, Rep(reps_[sum]));
          continue;
        }
      }
      set_rep(v, memory_rep(v, nest.axis == nest.vector_dim ? -1 : nest.vector_dim));
    }
  }
}

// How values that cross a loop or branch are held: scalars, registers while they last, memory. The vector dimension
// is the one along which the instructions inside walk memory.
std::vector<Rep> Lowering::choose_reps(std::span<const Value> values, const Inst& around) {
  std::vector<Rep> reps;
  int64_t registers = target_.vector_registers - 4;
  for (Value v : values) {
    const Type& type = in_.values[v];
    if (type.numel() == 1) {
      reps.push_back({.kind = Rep::Scalar});
      continue;
    }
    const int rank = static_cast<int>(type.shape.size());
    const int width = std::max(1, target_.vector_bytes / std::max(4, size_of(type.dtype)));
    std::vector<double> score(rank, 0);
    auto look = [&](const Inst& inst) {
      bool accesses = inst.op == Op::load || writes_memory(inst.op);
      if (!accesses || inst.coords.size() != static_cast<size_t>(rank)) return;
      for (int d = 0; d < rank; ++d) {
        const Expr& c = inst.coords[d];
        if (type.shape[d] == 1 || !c.is_var() || !(c.extent() == Expr(type.shape[d]))) continue;
        std::optional<Linear> linear = linear_in(inst.address, c);
        if (linear && linear->coefficient == 1)
          score[d] += static_cast<double>(std::min<int64_t>(type.shape[d], width));
      }
    };
    for (const Body& code : around.bodies) kernel::visit(code, look);
    int best = -1;
    for (int d = 0; d < rank; ++d)
      if (score[d] > 0 && (best < 0 || score[d] >= score[best])) best = d;
    // Nothing walks along it: few elements are scalars, many are vectors of the last dimension.
    for (int d = rank - 1; d >= 0 && best < 0 && type.numel() > kFewScalars; --d)
      if (type.shape[d] != 1) best = d;
    Layout layout{type.shape, best, best < 0 ? 1 : width};
    int64_t each = best < 0 ? 1 : std::max<int64_t>(1, width * size_of(type.dtype) / target_.vector_bytes);
    if (layout.size() * each <= registers) {
      registers -= layout.size() * each;
      reps.push_back({.kind = Rep::Registers, .layout = layout});
    } else {
      reps.push_back(memory_rep(v, best));
    }
  }
  return reps;
}

// Computes values into the places given; the thread-level values of those in registers, in order.
std::vector<Value> Lowering::bring(std::span<const Value> values, std::span<const Rep> targets) {
  std::vector<Value> out;
  for (size_t i = 0; i < values.size(); ++i) {
    if (targets[i].kind == Rep::Scalar) {
      HD_ASSERT(reps_[values[i]].kind == Rep::Scalar);
      out.push_back(reps_[values[i]].scalar);
    } else if (targets[i].kind == Rep::Registers) {
      const Layout& layout = targets[i].layout;
      const Rep& now = reps_[values[i]];
      if (now.kind != Rep::Registers || now.layout.vector_dim != layout.vector_dim ||
          now.layout.width != layout.width) {
        size_t before = undo_.size();
        Nest nest{.shape = layout.shape, .saves = {{values[i], {.kind = Rep::Registers}}}};
        plan(nest, &layout);
        run_nest(nest);
        const Rep& made = reps_[values[i]];
        out.insert(out.end(), made.registers.begin(), made.registers.end());
        // The copy is for the loop alone: the value may be used elsewhere in another way.
        restore(before);
        continue;
      }
      out.insert(out.end(), now.registers.begin(), now.registers.end());
    }
  }
  // Memory last: what is written may be what the others read. Several tiles of one shape are computed together.
  std::vector<bool> done(values.size(), false);
  for (size_t i = 0; i < values.size(); ++i) {
    if (done[i] || targets[i].kind != Rep::Memory) continue;
    const Dims& shape = in_.values[values[i]].shape;
    std::vector<Save> saves;
    for (size_t j = i; j < values.size(); ++j) {
      if (targets[j].kind != Rep::Memory || in_.values[values[j]].shape != shape) continue;
      done[j] = true;
      if (reps_[values[j]].kind == Rep::Memory && reps_[values[j]].buffer == targets[j].buffer) continue;
      saves.push_back({values[j], targets[j]});
    }
    if (!saves.empty()) compute_aside(shape, std::move(saves));
  }
  return out;
}

// Makes `to` the value of the first registers of `from`, and takes them from there.
void Lowering::give(std::span<const Value>& from, Value to, Rep rep) {
  if (rep.kind == Rep::Scalar) {
    rep.scalar = from[0];
    from = from.subspan(1);
  } else if (rep.kind == Rep::Registers) {
    const auto count = static_cast<size_t>(rep.layout.size());
    rep.registers.assign(from.begin(), from.begin() + static_cast<int64_t>(count));
    from = from.subspan(count);
  }
  set_rep(to, std::move(rep));
}

void Lowering::give(std::span<const Value> from, std::span<const Value> to, std::span<const Rep> reps) {
  for (size_t i = 0; i < to.size(); ++i) give(from, to[i], reps[i]);
}

void Lowering::lower_loop(const Inst& inst) {
  const Body& body = inst.bodies[0];
  std::vector<Rep> reps = choose_reps(body.params, inst);
  std::vector<Value> init = bring(std::span(inst.args.data(), body.params.size()), reps);
  const size_t before = undo_.size();
  auto round = [&](std::span<const Value> carried) {
    give(carried, body.params, reps);
    rounds_.push_back(inst.var);
    lower_body(body);
    std::vector<Value> next = next_carried(body, reps);
    rounds_.pop_back();
    return next;
  };
  const std::vector<Value> results = builder().loop(
      inst.var, init, [&](std::span<const Value> carried) { return scoped([&] { return round(carried); }); },
      inst.immediate);
  builder().code().insts.back().extent = inst.extent;
  restore(before);
  give(results, inst.results, reps);
}

// The values for the next iteration. Carried tiles in memory are overwritten in place where each new element needs
// only the old one at its place; otherwise the new tiles are computed beside the old ones and copied.
std::vector<Value> Lowering::next_carried(const Body& body, std::span<const Rep> reps) {
  std::vector<Value> in_memory;
  for (size_t i = 0; i < reps.size(); ++i)
    if (reps[i].kind == Rep::Memory) in_memory.push_back(static_cast<Value>(i));
  bool in_place = true;
  for (Value i : in_memory) {
    const Dims& shape = in_.values[body.results[i]].shape;
    std::vector<Value> held;
    leaves({.saves = {{body.results[i]}}}, &held);
    for (Value j : in_memory) {
      bool reads = std::ranges::any_of(
          held, [&](Value v) { return reps_[v].kind == Rep::Memory && reps_[v].buffer == reps[j].buffer; });
      // Tiles of one shape are computed together, all of an element before any is written. Those of other shapes are
      // written by other nests, before or after this one reads.
      if (reads && in_.values[body.params[j]].shape != shape) in_place = false;
    }
  }
  if (in_place) return bring(body.results, reps);
  std::vector<Rep> beside(reps.begin(), reps.end());
  for (Value i : in_memory) beside[i] = memory_rep(body.results[i], -1);
  std::vector<Value> out = bring(body.results, beside);
  for (Value i : in_memory) {
    const size_t before = undo_.size();
    set_rep(body.results[i], beside[i]);
    compute_aside(in_.values[body.results[i]].shape, {{body.results[i], reps[i]}});
    restore(before);
  }
  return out;
}

void Lowering::lower_branch(const Inst& inst) {
  std::vector<Value> bound;
  for (Value v : inst.args) {
    HD_ASSERT(reps_[v].kind == Rep::Scalar, "branch on a tile");
    bound.push_back(reps_[v].scalar);
  }
  std::vector<Rep> reps = choose_reps(std::span<const Value>(inst.results), inst);
  auto side = [&](size_t k) {
    return scoped([&] {
      const size_t before = undo_.size();
      if (k >= inst.bodies.size()) return std::vector<Value>();
      lower_body(inst.bodies[k]);
      std::vector<Value> values = bring(inst.bodies[k].results, reps);
      restore(before);
      return values;
    });
  };
  const std::vector<Value> results =
      builder().branch_on(inst.guard, inst.binds, bound, [&] { return side(0); }, [&] { return side(1); });
  give(results, inst.results, reps);
}

}  // namespace heddle::simd

namespace heddle {

kernel::Kernel lower_simd(const kernel::Kernel& tile_kernel, const Target& target) {
  kernel::Kernel peeled = tile_kernel;
  for (kernel::Phase& phase : peeled.phases) simd::expand_short_scans(peeled, phase.body);
  peeled = simd::peel(peeled, target);
  return simd::Lowering(peeled, target).run();
}

}  // namespace heddle
