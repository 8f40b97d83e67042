// Loops and a schedule to tile-level kernel IR.
#include "base/error.h"
#include "compile/tile/tiler.h"
#include "kernel/pass_util.h"

namespace heddle {

Tiler::Tiler(const Loops& loops, const Schedule& schedule, const Target& target)
    : loops_(loops), schedule_(schedule), target_(target) {
  outer_ = loops.outer.size();
  for (const Stage& stage : loops.stages) rank_ = std::max(rank_, outer_ + stage.inner.size());
  kernel_.name = loops.name;
  kernel_.symbols = loops.symbols;
  kernel_.buffers = loops.buffers;
  kernel_.threads = schedule.threads;
  if (schedule.threads > 1) kernel_.thread = Expr::index("t", schedule.threads);
  for (size_t s = 0; s < loops.stages.size(); ++s) {
    for (const Inst& inst : loops.stages[s].body.insts)
      for (Value r : inst.results) definition_[r] = {s, &inst};
    for (Value r : loops.stages[s].results) result_stage_[r] = s;
  }
  if (is_nested(loops)) number_dimensions();
  if (schedule.chunks) online_ = find_online(loops);
}

kernel::Kernel Tiler::run() {
  for (size_t s = 0; s < loops_.stages.size(); ++s)
    for (int operand : {0, 1})
      if (const auto& staged = staged_factor(s, operand); staged && staged->scope == Staged::Scope::Phase)
        write_packing_phase(s, operand, *staged);
  if (const auto* unit = as<MatrixContraction>(0)) {
    if (unit->pack_left) write_matrix_packing(0);
    if (unit->pack_right) write_matrix_packing(1);
  }
  const bool divided = schedule_.stages[0].parts() > 1 && !loops_.stages[0].ordered;
  if (online_)
    in_registers() ? write_chunks_in_registers() : write_chunks();
  else if (divided && as<Scan>(0))
    write_split_scan();
  else
    write_all_stages(divided);
  kernel::renumber(kernel_);
  return std::move(kernel_);
}

void Tiler::write_all_stages(bool divided) {
  const bool atomic = schedule_.stages.back().is<AtomicScatter>(),
             copied = schedule_.stages.back().is<PrivateScatter>();
  if (atomic && loops_.stages.size() == 1) return write_atomic_updates();
  if (divided) write_partial_phase();
  if (copied) write_private_updates();
  const size_t first = divided ? 1 : 0;
  open_phase();
  if (schedule_.stages.back().parts() > 1 && loops_.stages.back().ordered) divide_places();
  if (divided) combine_partials();
  take_turns([&] {
    for (size_t s = first; s + (atomic || copied ? 1 : 0) < loops_.stages.size();) {
      size_t end = s + 1;
      while (end < loops_.stages.size() && schedule_.stages[end].joined) ++end;
      write_nest(s, end);
      s = end;
    }
  });
  if (atomic) write_atomic_updates();
}

int Tiler::add_buffer(std::string name, DType dtype, kernel::Space space, const Expr& size) {
  kernel_.buffers.push_back({std::move(name), dtype, space, size});
  return static_cast<int>(kernel_.buffers.size()) - 1;
}

Expr Tiler::coordinate(size_t dimension, int64_t extent) {
  Expr& var = coordinates_[{dimension, extent}];
  if (!var.is_var()) var = Expr::index(text("d", dimension), extent);
  return var;
}

SmallVector<Expr, 4> Tiler::coords(const Place& p, const std::vector<bool>& used) {
  SmallVector<Expr, 4> result;
  for (size_t i = 0; i < rank_; ++i) result.push_back(coordinate(i, 1));
  for (size_t i = 0; i < used.size(); ++i)
    if (used[i]) result[dim(p, i)] = coordinate(dim(p, i), p.size[i]);
  return result;
}

Tiler::Dims Tiler::dims(const Place& p, const std::vector<bool>& used) {
  Dims result;
  for (size_t i = 0; i < rank_; ++i) result.push_back(1);
  for (size_t i = 0; i < used.size(); ++i)
    if (used[i]) result[dim(p, i)] = p.size[i];
  return result;
}

Expr Tiler::bounds(const Place& p, const std::vector<bool>& used) {
  Expr guard = 1;
  for (size_t i = 0; i < used.size(); ++i)
    if (used[i] && !(i < p.inside.size() && p.inside[i])) guard = logical_and(guard, lt(index_at(p, i), p.end[i]));
  return guard;
}

void Tiler::begin_phase() {
  kernel_.phases.emplace_back();
  builder_.emplace(kernel_, kernel_.phases.back());
  registers_.clear();
}

void Tiler::open_phase(const std::function<void()>& first) {
  begin_phase();
  block_ = {};
  if (first) first();
  for (size_t i = 0; i < outer_; ++i) {
    const Axis& a = loops_.outer[i];
    int64_t size = schedule_.block[i];
    block_.add(block_variable(text("c", i), ceildiv(a.extent, size)) * size, size, a.extent);
  }
}

Expr Tiler::block_variable(const std::string& name, const Expr& extent) {
  if (extent.is_const(1)) return 0;
  kernel_.phases.back().blocks.push_back(Expr::index(name, extent));
  return kernel_.phases.back().blocks.back();
}

Tiler::Place Tiler::everything(size_t s) {
  Place p;
  for (size_t i = 0; i < axis_count(s); ++i) p.add(0, extent_of(axis(s, i)), axis(s, i).extent);
  return p;
}

Tiler::Place Tiler::with_parts(int64_t parts) const {
  Place p = block_;
  p.add(0, parts, parts);
  return p;
}

Tiler::Place Tiler::whole(size_t s) {
  Place p = block_;
  for (size_t i = 0; i < stage(s).inner.size(); ++i) {
    const Axis& a = stage(s).inner[i];
    p.add(0, in_registers() ? round_up(a.extent.hi(), kernel::kMatrixRows) : a.extent.hi(), a.extent);
    if (dims_.empty()) continue;
    Span span = span_of(a);
    const bool kept = stage(s).reducer && i < stage(s).kept;
    const bool walked = std::ranges::any_of(
        schedule_.stages[s].loops, [&](const Level& level) { return static_cast<size_t>(level.axis) == outer_ + i; });
    if (walked || !kept) p.base.back() = span.begin;  // else one tile, which has room for all
    if (!kept) p.end.back() = span.end;               // what is kept beyond does not matter, but may be read
    if (!is_common(a.var)) continue;
    p.base.back() = chunk_base_;
    p.size.back() = schedule_.chunks->size;
    p.inside.resize(p.size.size(), false);
    p.inside.back() = unmasked_ || (p.end.back() - p.base.back()).multiple() % schedule_.chunks->size == 0;
  }
  if (!dims_.empty()) p.dim = dims_[s];
  if (part_size_ > 0 && s + 2 == loops_.stages.size()) {
    p.base.back() = part_ * part_size_;
    p.size.back() = part_size_;
  }
  return p;
}

Expr Tiler::loop_variable(size_t s, const Place& p, const Level& level) {
  size_t i = static_cast<size_t>(level.axis);
  // A chunk at the edge ends early, and what nobody reduces is not kept.
  Expr end = p.end[i];
  if (!dims_.empty() && i >= outer_ && !reduces_axis(s, i)) end = min(end, span_of(axis(s, i)).end);
  Expr trips = min(Expr(pieces(p.size[i], level.step)), max(ceildiv(end - p.base[i], level.step), 0));
  return counter(trips);
}

Tiler::Place Tiler::step_into(Place p, const Level& level, const Expr& var) {
  size_t i = static_cast<size_t>(level.axis);
  if (!dims_.empty()) {
    p.inside.resize(p.size.size(), false);
    // The loop ends where the axis does; whole steps then stay inside. So do whole parts of what is inside.
    p.inside[i] = p.size[i] % level.step == 0 && (p.inside[i] || (p.end[i] - p.base[i]).multiple() % level.step == 0);
  }
  if (p.size[i] % level.step != 0) p.end[i] = min(p.end[i], p.base[i] + p.size[i]);
  p.base[i] = p.base[i] + var * level.step;
  p.size[i] = level.step;
  return p;
}

void Tiler::each_tile(size_t s, const Place& p, size_t level, const std::function<void(const Place&)>& body) {
  if (level == schedule_.stages[s].loops.size()) return body(p);
  const Level& loop = schedule_.stages[s].loops[level];
  const Expr var = loop_variable(s, p, loop);
  builder_->loop(var, {}, [&] { each_tile(s, step_into(p, loop, var), level + 1, body); });
}

void Tiler::write_nest(size_t first, size_t end) {
  const std::vector<Level>& loops = schedule_.stages[first].loops;
  auto outer = [&](const Level& level) { return is_outer(level); };
  const auto shared = std::ranges::find_if_not(loops, outer);
  HD_ASSERT(end == first + 1 || std::none_of(shared, loops.end(), outer),
            "outer loops inside inner ones cannot be shared");
  open_shared(first, end, block_, 0, static_cast<size_t>(shared - loops.begin()));
}

void Tiler::open_shared(size_t first, size_t end, const Place& at, size_t level, size_t shared) {
  auto with_inner = [&](size_t s) {
    Place p = whole(s);
    std::ranges::copy(at.base, p.base.begin());
    std::ranges::copy(at.size, p.size.begin());
    std::ranges::copy(at.end, p.end.begin());
    p.inside.resize(std::max(p.inside.size(), at.inside.size()), false);
    std::copy(at.inside.begin(), at.inside.end(), p.inside.begin());
    return p;
  };
  if (level < shared) {
    for (size_t s = first; s < end; ++s) write_block_packing(s, with_inner(s), level);
    const Level& loop = schedule_.stages[first].loops[level];
    Expr var = loop_variable(first, at, loop);
    builder_->loop(var, {}, [&] { open_shared(first, end, step_into(at, loop, var), level + 1, shared); });
    return;
  }
  for (size_t s = first; s < end; ++s) write_stage(s, with_inner(s), shared, end);
  held_.clear();
}

void Tiler::write_stage(size_t s, const Place& p, size_t level, size_t nest_end) {
  if (stores(stage(s))) {
    write_stores(s, p, level, {});
    return;
  }
  if (in_chunk_) return write_chunk_stage(s, p, level);
  if (!stage(s).reducer) return write_kept(s, p, level);
  bool used_later = nest_end < loops_.stages.size();
  // A matrix unit adds to memory, so all of its loops are around it.
  size_t last_outer = by_panels(s) ? schedule_.stages[s].loops.size() : after_outer_loops(s, level);
  if (last_outer > level || used_later || stage(s).kept > 0)
    return accumulate_in_memory(s, p, level, last_outer, false);
  std::vector<Value> results = reduce(s, p, level, {});
  for (size_t r = 0; r < results.size(); ++r) registers_[stage(s).results[r]] = results[r];
}

size_t Tiler::after_outer_loops(size_t s, size_t level) const {
  const std::vector<Level>& loops = schedule_.stages[s].loops;
  size_t last = level;
  for (size_t i = level; i < loops.size(); ++i)
    if (!reduces_axis(s, static_cast<size_t>(loops[i].axis))) last = i + 1;
  return last;
}

Substitution Tiler::substitution(size_t s, const Place& p) {
  Substitution to;
  for (size_t i = 0; i < axis_count(s); ++i) to.emplace_back(axis(s, i).var, index_at(p, i));
  return to;
}

kernel::Builder::Access Tiler::access_of(const Inst& inst, Instance& in, bool all_axes) {
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
  // The access spans whatever its indices span, and a check whatever it checks.
  auto span_with = [&](Value v) {
    const Dims& shape = builder_->type(v).shape;
    for (size_t i = 0; i < used.size() && !shape.empty(); ++i) used[i] = used[i] || shape[dim(in.place, i)] > 1;
  };
  for (size_t b = 0; b < inst.binds.size(); ++b) {
    access.binds.push_back(inst.binds[b]);
    access.bound.push_back(value(kernel::bound(inst)[b], in));
    span_with(access.bound.back());
  }
  if (inst.op == Op::check) span_with(value(inst.args[0], in));
  // Beyond the end a load gives anything, but what is computed there must not be reported.
  if (inst.op == Op::check) access.guard = logical_and(access.guard, bounds(in.place, used));
  access.coords = coords(in.place, used);
  return access;
}

Tiler::Value Tiler::value(Value v, Instance& in) {
  if (auto it = in.map.find(v); it != in.map.end()) return it->second;
  Value result;
  auto definition = definition_.find(v);
  if (definition == definition_.end()) {  // the result of an earlier stage
    auto ready = registers_.find(v);
    if (ready != registers_.end())
      result = ready->second;
    else if (auto tile = held(v, in.stage, in.place))
      result = *tile;
    else
      result = load_result(v, in.stage, in.place);
    if (in_chunk_ && online_->is_pivot(result_stage_.at(v))) result = finite(result);
  } else {
    result = compute(*definition->second.second, in);
  }
  in.map[v] = result;
  return result;
}

Tiler::Value Tiler::compute(const Inst& inst, Instance& in) {
  switch (inst.op) {
    case Op::constant: return builder_->constant(inst.literal);
    case Op::cast: return builder_->cast(value(inst.args[0], in), dtype_of(inst.results[0]));
    case Op::bitcast: return builder_->bitcast(value(inst.args[0], in), dtype_of(inst.results[0]));
    case Op::index: {
      Builder::Access access = access_of(inst, in, false);
      return builder_->index(dtype_of(inst.results[0]), access.address, access.coords);
    }
    case Op::scan: return compute_scan(inst, in);
    case Op::load: return builder_->load(inst.buffer, dtype_of(inst.results[0]), access_of(inst, in, false));
    default: {
      HD_ASSERT(kernel::is_scalar_op(inst.op), kernel::name(inst.op), " in loops");
      if (inst.op == Op::where && unmasked_ && unmasked_->contains(inst.args[0])) return value(inst.args[1], in);
      SmallVector<Value, 3> args;
      for (Value arg : inst.args) args.push_back(value(arg, in));
      return builder_->op(kernel::scalar_op(inst.op), args);
    }
  }
}

kernel::Kernel tile(const Loops& loops, const Schedule& schedule, const Target& target) {
  std::string problem = check(schedule, loops, target);
  HD_ASSERT(problem.empty(), "schedule of ", loops.name, ": ", problem);
  return Tiler(loops, schedule, target).run();
}

}  // namespace heddle
