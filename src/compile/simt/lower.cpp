// Tile level to thread level for machines whose blocks are many threads. The approach is described in the header.
#include "compile/simt/lowering.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "compile/simt/lower.h"
#include "kernel/pass_util.h"
#include "kernel/shared_memory.h"

namespace heddle::simt {

using kernel::Builder;

namespace {

constexpr int64_t kMostHeld = 32;  // registers of values that are computed before they are stored

}  // namespace

Lowering::Lowering(const Kernel& tile, const Target& target) : tile_(tile), target_(target) {
  out_.name = tile.name;
  out_.level = kernel::Level::Thread;
  out_.threads = tile.threads;
  out_.warp = target.warp;
  out_.thread = tile.thread.is_var() ? tile.thread : Expr::index("thread", tile.threads);
  out_.symbols = tile.symbols;
  out_.buffers = tile.buffers;
  out_.rounds = tile.rounds;
  thread_ = tile.threads > 1 ? out_.thread : Expr(0);
}

Kernel Lowering::run() {
  out_.phases.resize(tile_.phases.size());
  for (size_t p = 0; p < tile_.phases.size(); ++p) {
    const kernel::Phase& from = tile_.phases[p];
    kernel::Phase& to = out_.phases[p];
    to.blocks = from.blocks;
    plan_ = make_plan(tile_, from, kernel::working_threads(tile_, from), target_.warp);
    homes_.assign(tile_.values.size(), -1);
    scopes_.assign(1, {});
    constants_.clear();
    register_loops_.clear();
    parts_.clear();
    leaving_ = -1;
    tags_ = static_cast<int>(plan_.position.size()) + 1;  // stores of the program use their position plus one
    spare_.clear();                                       // phases do not overlap: what earlier ones used is free again
    for (size_t i = tile_.buffers.size(); i < out_.buffers.size(); ++i) spare_.push_back(static_cast<int>(i));
    Builder builder(out_, to);
    builder_ = &builder;
    emit(from.body);
    if (tile_.threads > 1) insert_barriers(to.body, register_loops_);
    kernel::visit(to.body, [](Inst& inst) {
      if (inst.op == Op::load || inst.op == Op::store || inst.op == Op::combine) inst.immediate = 0;
    });
  }
  const int64_t bytes = kernel::shared_memory(out_).bytes;
  if (bytes > target_.shared_bytes) {
    throw CompileError(text("kernel ", tile_.name, " needs ", bytes, " bytes of shared memory, ", target_.name, " has ",
                            target_.shared_bytes));
  }
  return std::move(out_);
}

void Lowering::emit(const Body& code, std::span<const Inst* const> already) {
  std::vector<const Inst*> done(already.begin(), already.end());
  for (size_t i = 0; i < code.insts.size(); ++i) {
    if (contains(done, &code.insts[i])) continue;
    // Blocks that are taken in turn have nothing in common.
    if (code.insts[i].op == Op::matrix_dot && code.results.empty() &&
        only_finishes(std::span(code.insts).subspan(i + 1), plan_.inst_group.at(&code.insts[i])))
      for (const Expr& turn : variables(code.insts[i].address)) register_loops_.push_back(turn);
    if (code.insts[i].op == Op::store) {
      const std::vector<const Inst*> stores = large_stores(std::span(code.insts).subspan(i));
      if (!stores.empty()) {
        emit_in_parts(stores);
        done.insert(done.end(), stores.begin(), stores.end());
        continue;
      }
      compute_before_stores(std::span(code.insts).subspan(i));
    }
    emit(code.insts[i]);
  }
}

bool Lowering::takes_any(Value v, const std::function<bool(Value)>& which) const {
  std::vector<Value> open = {v};
  std::unordered_set<Value> seen;
  while (!open.empty()) {
    const Value next = open.back();
    open.pop_back();
    if (!seen.insert(next).second) continue;
    if (which(next)) return true;
    const ValuePlan& plan = plan_.values[next];
    if (!plan.defined) open.insert(open.end(), plan.def->args.begin(), plan.def->args.end());
  }
  return false;
}

// Whether computing v again would read one of these buffers.
bool Lowering::reads(Value v, const std::vector<int>& buffers) const {
  return takes_any(v, [&](Value taken) {
    const ValuePlan& plan = plan_.values[taken];
    return !plan.defined && plan.def->op == Op::load && contains(buffers, plan.def->buffer);
  });
}

int64_t Lowering::registers_of_store(const Inst& store) const {
  const Layout& layout = layout_of(store);
  const Dims& dims = shape(store.args[0]);
  int64_t registers = has_lanes(layout, dims) ? layout.lanes : 1;
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] > 1) registers *= layout.dims[d].registers;
  return registers;
}

// `insts` begins with a store. It and those behind it that store other results of the same elements, if together they
// have more values than registers could hold at once: a weight, its moments and its rounded copy behind a product.
std::vector<const Inst*> Lowering::large_stores(std::span<const Inst> insts) const {
  std::vector<const Inst*> stores;
  std::vector<int> written;
  int64_t held = 0;
  for (const Inst& inst : insts) {
    if (waits(inst)) break;
    if (inst.op != Op::store) continue;
    const bool alike = stores.empty() || (plan_.inst_group.at(&inst) == plan_.inst_group.at(stores[0]) &&
                                          shape(inst.args[0]) == shape(stores[0]->args[0]));
    const bool again = contains(written, inst.buffer);
    if (is_rolled(layout_of(inst), shape(inst.args[0])) || !alike || again ||
        tile_.buffers[inst.buffer].space == kernel::Space::Shared)
      break;
    held += registers_of_store(inst);
    stores.push_back(&inst);
    written.push_back(inst.buffer);
  }
  // Elements are then read after others were written.
  auto reads_written = [&](const Inst* store) {
    return std::ranges::any_of(store->args, [&](Value v) { return reads(v, written); });
  };
  if (stores.size() < 2 || held <= kMostHeld || std::ranges::any_of(stores, reads_written)) return {};
  return stores;
}

// A few elements of all stores after the other: what they share is held for these elements alone.
void Lowering::emit_in_parts(std::span<const Inst* const> stores) {
  const Layout& layout = layout_of(*stores[0]);
  const std::vector<Point> all = points_of(*stores[0]);
  const int64_t lanes = has_lanes(layout, shape(stores[0]->args[0])) ? layout.lanes : 1;
  const auto part = static_cast<size_t>(std::max<int64_t>(1, kMostHeld / (lanes * std::ssize(stores))));
  for (size_t first = 0; first < all.size(); first += part)
    write_points(stores, std::span(all).subspan(first, std::min(part, all.size() - first)));
}

bool Lowering::waits(const Inst& inst) const {
  if (inst.op == Op::load) return plan_.values[inst.results[0]].defined;
  return inst.op != Op::store && !kernel::is_elementwise(inst.op);
}

// `insts` begins with a store. Where more stores follow at once, as when operands of a contraction are staged, their
// values are computed before the first of them: then all loads are on their way before anyone waits.
void Lowering::compute_before_stores(std::span<const Inst> insts) {
  std::vector<int> written;
  int64_t held = 0;
  for (const Inst& inst : insts) {
    if (waits(inst)) return;
    if (inst.op != Op::store) continue;
    held += registers_of_store(inst);
    if (is_rolled(layout_of(inst), shape(inst.args[0])) || held > kMostHeld || reads(inst.args[0], written)) return;
    for (const Point& p : points_of(inst)) at(inst.args[0], p.coords);
    written.push_back(inst.buffer);
  }
}

void Lowering::emit(const Inst& inst) {
  switch (inst.op) {
    case Op::load:
      if (plan_.values[inst.results[0]].defined) define_load(inst);
      break;
    case Op::store:
    case Op::check:
    case Op::combine: emit_store(inst); break;
    case Op::reduce: emit_reduce(inst); break;
    case Op::scan: emit_scan(inst); break;
    case Op::dot: emit_dot(inst); break;
    case Op::matrix_dot: emit_matrix_dot(inst); break;
    case Op::matrix_store: emit_matrix_store(inst); break;
    case Op::warp_dot: emit_warp_dot(inst); break;
    case Op::loop: emit_loop(inst); break;
    case Op::branch: emit_branch(inst); break;
    case Op::barrier:
    case Op::shuffle_xor: throw InternalError(text(kernel::name(inst.op), " in tile-level kernel ", tile_.name));
    default: break;  // computed where it is used
  }
}

void Lowering::define_load(const Inst& inst) {
  Value v = inst.results[0];
  int id = next_tag();
  over_rolled(layout(v), shape(v), [&](std::span<const Point> where) {
    std::vector<Value> values;
    for (const Point& p : where)
      values.push_back(widen(compute(inst, p.coords, shape(v)), lane_of(layout(v), shape(v))));
    deliver(v, where, values, id);
  });
}

Value Lowering::stored(const Inst& store, const Point& p) {
  return widen(at(store.args[0], p.coords), lane_of(layout_of(store), shape(store.args[0])));
}

Builder::Access Lowering::store_access(const Inst& store, const Point& p) {
  const Layout& layout = layout_of(store);
  const Dims& dims = shape(store.args[0]);
  return access(store, p.coords, dims, owner(layout, dims, thread_), has_lanes(layout, dims));
}

void Lowering::emit_store(const Inst& inst) {
  const Inst* store = &inst;
  over_rolled(layout_of(inst), shape(inst.args[0]),
              [&](std::span<const Point> where) { write_points({&store, 1}, where); });
}

// Everything is computed before the first store: loads then need not wait for stores that might change them.
void Lowering::write_points(std::span<const Inst* const> stores, std::span<const Point> where) {
  std::vector<Value> values;
  std::vector<Builder::Access> accesses;
  for (const Inst* store : stores)
    for (const Point& p : where) {
      values.push_back(stored(*store, p));
      accesses.push_back(store_access(*store, p));
    }
  for (size_t i = 0; i < values.size(); ++i) {
    const Inst& inst = *stores[i / where.size()];
    if (inst.op == Op::check) {
      builder_->check(inst.buffer, values[i], accesses[i]);
      continue;
    }
    if (inst.op == Op::store)
      builder_->store(inst.buffer, values[i], accesses[i]);
    else
      builder_->combine(inst.buffer, values[i], inst.reducer, accesses[i]);
    tag(plan_.position.at(&inst) + 1);
  }
}

// The registers of a carried or chosen value, at the places where it is kept.
std::vector<Lowering::Point> Lowering::registers_of(Value v) { return points(layout(v), shape(v)); }

void Lowering::values_in_registers(Value v, Value like, std::vector<Value>& out) {
  for (const Point& p : registers_of(like)) out.push_back(widen(at(v, p.coords), lane_of(layout(like), shape(like))));
}

// Computes v at every point of the layout of `like` and writes it to a buffer of that shape.
void Lowering::write_out(int buffer, Value v, Value like, int id) {
  over_rolled(layout(like), shape(like), [&](std::span<const Point> where) {
    std::vector<Value> values;
    for (const Point& p : where) values.push_back(at(v, p.coords));
    store_home(buffer, like, where, values, id);
  });
}

// Hands the values of a loop or branch, as many as `v` has registers, to v.
void Lowering::take_registers(Value v, std::span<const Value>& from) {
  std::vector<Point> where = registers_of(v);
  deliver(v, where, from.first(where.size()), next_tag());
  from = from.subspan(where.size());
}

void Lowering::emit_loop(const Inst& inst) {
  const Body& body = inst.bodies[0];
  size_t count = inst.args.size();
  // Tiles too large for registers stay in memory from one iteration to the next.
  std::vector<int> next(count, -1);
  std::vector<Value> init;
  const std::vector<const Inst*>& late = plan_.late.at(&inst);
  for (size_t i = 0; i < count; ++i) {
    Value param = body.params[i];
    if (late[i]) {
      std::vector<Value> start = start_late(*late[i]);
      init.insert(init.end(), start.begin(), start.end());
      parts_[late[i]] = std::move(start);
    } else if (plan_.values[param].shared) {
      next[i] = allocate("next", tile_.values[param].dtype, tile_.values[param].numel());
      write_out(home(param), inst.args[i], param, next_tag());
    } else {
      values_in_registers(inst.args[i], param, init);
    }
  }
  const std::vector<const Inst*> prefetched = prefetched_stores(inst);
  for (const Inst* store : prefetched) prefetch_values(*store, inst.var, 0, lt(0, inst.extent), init);
  auto round = [&](std::span<const Value> carried) {
    for (size_t i = 0; i < count; ++i) {
      if (late[i]) {
        std::vector<Value>& parts = parts_.at(late[i]);
        parts.assign(carried.begin(), carried.begin() + std::ssize(parts));
        carried = carried.subspan(parts.size());
      } else if (next[i] < 0) {
        take_registers(body.params[i], carried);
      }
    }
    for (const Inst* store : prefetched) store_prefetched(*store, carried);
    std::vector<Value> yields, later;
    for (const Inst* store : prefetched)
      prefetch_values(*store, inst.var, inst.var + 1, lt(inst.var + 1, inst.extent), later);
    emit(body, prefetched);
    for (size_t i = 0; i < count; ++i) {
      if (late[i]) {
        const std::vector<Value>& parts = parts_.at(late[i]);
        yields.insert(yields.end(), parts.begin(), parts.end());
      } else if (next[i] >= 0) {
        write_out(next[i], body.results[i], body.params[i], next_tag());
      } else {
        values_in_registers(body.results[i], body.params[i], yields);
      }
    }
    for (size_t i = 0; i < count; ++i) {
      if (next[i] < 0) continue;
      const Value param = body.params[i];
      const int id = next_tag();
      over_rolled(layout(param), shape(param), [&](std::span<const Point> where) {
        std::vector<Value> values;
        for (const Point& p : where)
          values.push_back(load_shared(next[i], home_address(param, p.coords), inside(p.coords, shape(param))));
        store_home(home(param), param, where, values, id);
      });
    }
    yields.insert(yields.end(), later.begin(), later.end());
    return yields;
  };
  const std::vector<Value> results = builder_->loop(
      inst.var, init, [&](std::span<const Value> carried) { return scoped([&] { return round(carried); }); },
      inst.immediate);
  builder_->code().insts.back().extent = inst.extent;  // may be less than the variable's
  std::span<const Value> left = results;
  for (size_t i = 0; i < count; ++i) {
    Value param = body.params[i], result = inst.results[i];
    if (late[i]) {
      const size_t size = parts_.extract(late[i]).mapped().size();
      finish_late(inst, i, {left.begin(), left.begin() + static_cast<std::ptrdiff_t>(size)});
      left = left.subspan(size);
    } else if (next[i] >= 0) {
      homes_[result] = home(param);
    } else {
      take_registers(result, left);
    }
  }
}

void Lowering::emit_branch(const Inst& inst) {
  auto side = [&](const Body& code) {
    std::vector<Value> yields;
    emit(code);
    for (size_t i = 0; i < inst.results.size(); ++i) {
      Value result = inst.results[i];
      if (plan_.values[result].shared)
        write_out(home(result), code.results[i], result, next_tag());
      else
        values_in_registers(code.results[i], result, yields);
    }
    return yields;
  };
  std::vector<Value> bound;
  for (Value v : inst.args) bound.push_back(at(v, Coords(shape(v).size(), Expr(0))));
  std::vector<Value> results = builder_->branch_on(
      inst.guard, inst.binds, bound, [&] { return scoped([&] { return side(inst.bodies[0]); }); },
      [&] { return scoped([&] { return inst.bodies.size() > 1 ? side(inst.bodies[1]) : std::vector<Value>(); }); });
  std::span<const Value> left = results;
  for (Value result : inst.results)
    if (!plan_.values[result].shared) take_registers(result, left);
}

}  // namespace heddle::simt

namespace heddle {

kernel::Kernel lower_simt(const kernel::Kernel& tile_kernel, const Target& target) {
  HD_ASSERT(tile_kernel.level == kernel::Level::Tile, "lower_simt takes a tile-level kernel, ", tile_kernel.name);
  if (tile_kernel.threads > target.max_threads) {
    throw CompileError(text("kernel ", tile_kernel.name, " wants ", tile_kernel.threads, " threads, ", target.name,
                            " has at most ", target.max_threads));
  }
  return simt::Lowering(tile_kernel, target).run();
}

}  // namespace heddle
