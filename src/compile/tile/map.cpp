// Stages that compute element by element: what they store, and what they keep for later stages.
#include "compile/tile/tiler.h"

namespace heddle {

std::vector<Tiler::Value> Tiler::write_stores(size_t s, const Place& p, size_t level, std::vector<Value> carried) {
  const std::vector<Level>& loops = schedule_.stages[s].loops;
  bool inside = level == loops.size() || !is_outer(loops[level]);
  if (inside && carried.empty()) carried = scan_starts(s, p);
  if (level < loops.size()) {
    Expr var = loop_variable(s, p, loops[level]);
    return builder_->loop(var, carried, [&](std::span<const Value> now) {
      const Place here = step_into(p, loops[level], var);
      if (is_batch(s, loops[level])) write_places(s, here);
      return write_stores(s, here, level + 1, {now.begin(), now.end()});
    });
  }
  Instance instance = instance_at(s, p);
  instance.carried = std::move(carried);
  if (places_ < 0) write_checks(instance);
  for (const Inst& inst : stage(s).body.insts) {
    if (inst.op != Op::store && inst.op != Op::combine) continue;
    if (as<AtomicScatter>(s))
      write_atomic_update(inst, instance);
    else if (stage(s).ordered)
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

void Tiler::write_checks(Instance& in) {
  for (const Inst& inst : stage(in.stage).body.insts) {
    if (inst.op != Op::check) continue;
    Builder::Access access = access_of(inst, in, false);
    builder_->check(inst.buffer, spread(value(inst.args[0], in), extents(access.coords)), access);
  }
}

void Tiler::write_store(const Inst& inst, Instance& in) {
  if (write_matrix_store(inst, in)) return;
  Builder::Access access = access_of(inst, in, true);
  const auto* map = as<Map>(in.stage);
  const auto* scan = as<Scan>(in.stage);
  if ((map && map->stream) || (scan && scan->stream)) access.hint = kernel::Hint::Stream;
  Value v = spread(value(inst.args[0], in), extents(access.coords));
  if (copies_ >= 0) v = with_copies(v, access);
  if (inst.op == Op::store)
    builder_->store(inst.buffer, v, access);
  else
    builder_->combine(inst.buffer, v, inst.reducer, access);
}

void Tiler::write_kept(size_t s, const Place& p, size_t level) {
  each_tile(s, p, level, [&](const Place& at) {
    Instance instance = instance_at(s, at);
    write_checks(instance);
    for (size_t r = 0; r < stage(s).results.size(); ++r) {
      Value v = spread(value(stage(s).body.results[r], instance), dims(at, result_axes(s)));
      store_result(stage(s).results[r], s, v, at,
                   bounds(at, axes_between(axis_count(s), outer_, outer_ + stage(s).kept)));
      hold(stage(s).results[r], s, v, at);
    }
  });
  if (level < schedule_.stages[s].loops.size()) held_.clear();
}

}  // namespace heddle
