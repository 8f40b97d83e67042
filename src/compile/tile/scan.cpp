// Scans at tile level, whole or in parts.
#include "base/error.h"
#include "compile/tile/tiler.h"

namespace heddle {

std::vector<const kernel::Inst*> Tiler::scans(size_t s) const {
  std::vector<const Inst*> result;
  for (const Inst& inst : stage(s).body.insts)
    if (inst.op == Op::scan) result.push_back(&inst);
  return result;
}

std::vector<Tiler::Value> Tiler::scan_starts(size_t s, const Place& p) {
  std::vector<Value> result;
  for (const Inst* scan : scans(s))
    for (size_t k = 0; k < scan->reducer->width(); ++k)
      result.push_back(builder_->constant(kernel::neutral(*scan->reducer, k), dims(p, outer_only(axis_count(s)))));
  return result;
}

Tiler::Scanned Tiler::scan_operands(const Inst& inst, Instance& in) {
  Scanned result;
  std::vector<bool> all(axis_count(in.stage), true), along(axis_count(in.stage), false);
  along[outer_] = true;
  for (Value v : inst.args) result.tuple.push_back(spread(value(v, in), dims(in.place, all)));
  result.guard = bounds(in.place, along);
  if (!result.guard.is_const(1)) result.where = coords(in.place, all);
  return result;
}

Tiler::Value Tiler::compute_scan(const Inst& inst, Instance& in) {
  size_t width = inst.reducer->width(), first = 0;
  for (const Inst* scan : scans(in.stage)) {
    if (scan == &inst) break;
    first += scan->reducer->width();
  }
  std::span<const Value> start = std::span(in.carried).subspan(first, width);
  Scanned x = scan_operands(inst, in);
  std::vector<Value> results = builder_->scan(x.tuple, start, static_cast<int>(outer_), inst.reducer, x.guard, x.where);
  in.totals[&inst] = {results.begin() + static_cast<long>(width), results.end()};
  for (size_t k = 0; k < width; ++k) in.map[inst.results[k]] = results[k];
  return results[0];
}

std::vector<Tiler::Value> Tiler::scan_totals(size_t s, const Place& p, size_t level, std::vector<Value> before) {
  const std::vector<Level>& loops = schedule_.stages[s].loops;
  if (level < loops.size()) {
    Expr var = loop_variable(s, p, loops[level]);
    return builder_->loop(var, before, [&](std::span<const Value> now) {
      return scan_totals(s, step_into(p, loops[level], var), level + 1, {now.begin(), now.end()});
    });
  }
  Instance instance = instance_at(s, p);
  std::vector<Value> after;
  for (const Inst* scan : scans(s)) {
    Scanned x = scan_operands(*scan, instance);
    std::vector<Value> own = builder_->reduce(x.tuple, static_cast<int>(outer_), scan->reducer, x.guard, x.where);
    std::span<const Value> left = std::span(before).subspan(after.size(), own.size());
    for (Value v : builder_->apply(*scan->reducer, left, own)) after.push_back(v);
  }
  return after;
}

void Tiler::write_split_scan() {
  const int64_t parts = schedule_.stages[0].parts(), chunk = schedule_.stages[0].loops[0].step;
  const Expr extent = stage(0).inner[0].extent;
  const Expr rounds = ceildiv(extent, parts * chunk);
  kernel_.rounds = !rounds.is_const(1);
  std::vector<int> partial, carry;  // buffers: of each part of this round; of all rounds before, turn and turn about
  auto buffers = [&](const char* name, int64_t size) {
    std::vector<int> made;
    for (const Inst* scan : scans(0))
      for (const Scalar& identity : scan->reducer->identity) {
        made.push_back(add_buffer(text(name, made.size()), identity.dtype, kernel::Space::Temp, points(0) * size));
      }
    return made;
  };
  Expr round, part;
  auto open = [&] {
    open_phase([&] { round = kernel_.rounds ? block_variable("round", rounds) : Expr(0); });
    part = block_variable("part", parts);
    Place p = whole(0);
    p.base[outer_] = (round * parts + part) * chunk;
    p.size[outer_] = chunk;
    return p;
  };

  Place p = open();
  std::vector<Value> totals = scan_totals(0, p, 1, scan_starts(0, p));
  partial = buffers("partial", parts);
  for (size_t k = 0; k < totals.size(); ++k) builder_->store(partial[k], totals[k], partial_access(0, p, part));

  p = open();
  std::vector<Value> before, own = scan_starts(0, p);
  if (kernel_.rounds) {
    carry = buffers("carry", 2);
    Value later = builder_->index(DType::boolean, lt(0, round), {});
    for (size_t k = 0; k < own.size(); ++k) {
      Builder::Access access = partial_access(0, p, mod(round, 2));
      access.guard = logical_and(access.guard, lt(0, round));
      Value loaded = builder_->load(carry[k], builder_->type(own[k]).dtype, access);
      own[k] = builder_->op(ScalarOp::where, {later, loaded, own[k]});
    }
  }
  const Place earlier = with_parts(parts);
  std::vector<bool> used(outer_ + 1, true);
  Expr other = coordinate(outer_, parts);
  for (const Inst* scan : scans(0)) {
    std::vector<Value> tuple;
    size_t first = before.size();
    for (size_t k = 0; k < scan->reducer->width(); ++k) {
      Builder::Access access = partial_access(0, earlier, other, used);
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
    Builder::Access access = partial_access(0, p, mod(round + 1, 2));
    access.guard = logical_and(access.guard, eq(part, parts - 1));
    builder_->store(carry[k], totals[k], access);
  }
}

}  // namespace heddle
