// Peeling: a dimension that every value of a body shares, and that nothing reduces, becomes a loop around the body.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "compile/simd/lowering.h"
#include "kernel/pass_util.h"

namespace heddle::simd {
namespace {

// A check may be done by every row or by one, before or after others.
bool stores(Op op) { return op == Op::store || op == Op::combine; }

// What a body holds, inner bodies included.
struct Contents {
  std::vector<const Inst*> accesses, reduces, writes;
  std::vector<Value> values;  // defined inside
  std::vector<Value> used;
  int64_t work = 0;
  bool dot = false;
  int rank = 0;
  bool one_rank = true;
};

Contents contents(const Kernel& kernel, const Body& code) {
  Contents c;
  auto use = [&](Value v) {
    c.used.push_back(v);
    int rank = static_cast<int>(kernel.values[v].shape.size());
    if (rank == 0) return;
    if (c.rank == 0) c.rank = rank;
    c.one_rank &= rank == c.rank;
  };
  auto define = [&](Value v) {
    use(v);
    c.values.push_back(v);
  };
  std::ranges::for_each(code.results, use);
  kernel::visit(code, [&](const Inst& inst) {
    kernel::each_use(inst, use);
    std::ranges::for_each(inst.results, define);
    for (const Body& inner : inst.bodies) std::ranges::for_each(inner.params, define);
    if (inst.op == Op::load || stores(inst.op)) c.accesses.push_back(&inst);
    if (stores(inst.op)) c.writes.push_back(&inst);
    if (inst.op == Op::reduce || inst.op == Op::scan) c.reduces.push_back(&inst);
    c.dot |= inst.op == Op::dot || inst.op == Op::panel_dot;
    c.work += inst.op == Op::load ? 0 : op_cost(inst.op);
  });
  return c;
}

// Whether rows of the tile may run one after the other through the whole body.
bool independent(const Contents& c) {
  std::map<size_t, Expr> coordinates;  // by dimension, the same for all accesses
  auto place = [&](const Inst& inst) {
    Substitution names;
    for (size_t d = 0; d < inst.coords.size(); ++d) {
      if (!inst.coords[d].is_var()) continue;
      Expr& shared = coordinates[d];
      const Expr extent = inst.coords[d].extent();
      if (!shared.is_var() && !extent.is_const(1)) shared = Expr::index("d", extent);
      names.emplace_back(inst.coords[d], extent.is_const(1) ? Expr(0) : shared);
    }
    return substitute(inst.address, names);
  };
  for (const Inst* write : c.writes)
    for (const Inst* access : c.accesses) {
      if (access == write || access->buffer != write->buffer) continue;
      if (write->op == Op::combine || access->op != Op::load || place(*access) != place(*write)) return false;
    }
  return true;
}

struct Choice {
  int dim = -1;
  int64_t size = 0, rows = 1;
};

// Short rows go through the steps several at a time: one row alone is a long chain from its reductions to what follows
// them, and what is computed once per row then fills vectors.
constexpr int64_t kRowsTogether = 16, kFewestTogether = 4;
constexpr int64_t kShortRow = 512;           // elements
constexpr int64_t kTogetherElements = 2048;  // of all rows that go together: they stay in the first-level cache

int64_t rows_together(const Body& code, int dim, int64_t rows, int64_t row_size) {
  if (row_size > kShortRow) return 1;
  bool plain = true;
  kernel::visit(code, [&](const Inst& inst) {
    plain &= inst.bodies.empty();
    if (inst.coords.size() > static_cast<size_t>(dim) && inst.coords[dim].is_var())
      plain &= !depends_on(inst.guard, inst.coords[dim]);
  });
  if (!plain) return 1;
  for (int64_t n = std::min({rows, kRowsTogether, kTogetherElements / row_size}); n >= kFewestTogether; --n)
    if (rows % n == 0) return n;
  return 1;
}

Choice choose(const Kernel& kernel, const Body& code, const Target& target) {
  if (!code.results.empty()) return {};
  Contents c = contents(kernel, code);
  if (c.rank < 2 || !c.one_rank || c.dot || c.reduces.empty() || c.reduces.size() + c.writes.size() < 2) return {};
  // Scans and what uses them are one nest already, which walks memory in order.
  if (std::ranges::all_of(c.reduces, [](const Inst* i) { return i->op == Op::scan; })) return {};
  SmallVector<int64_t, 4> sizes(c.rank, 1);
  SmallVector<bool, 4> fits(c.rank, true);
  for (Value v : c.used) {
    const Dims& shape = kernel.values[v].shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == 1) continue;
      if (sizes[d] != 1 && sizes[d] != shape[d]) fits[d] = false;
      sizes[d] = shape[d];
    }
  }
  std::vector<Value> inside = c.values;
  std::ranges::sort(inside);
  for (Value v : c.used) {
    const Dims& shape = kernel.values[v].shape;
    if (shape.empty() || std::binary_search(inside.begin(), inside.end(), v)) continue;
    for (int d = 0; d < c.rank; ++d) fits[d] = fits[d] && shape[d] == 1;
  }
  // A write that lacks the dimension would be done once per row.
  for (const Inst* write : c.writes) {
    const Dims& shape = kernel.values[write->args[0]].shape;
    for (int d = 0; d < c.rank; ++d) fits[d] = fits[d] && !shape.empty() && shape[d] == sizes[d];
  }
  for (const Inst* reduce : c.reduces) fits[reduce->axis] = false;
  if (!contains(fits, true) || !independent(c)) return {};

  const int width = target.vector_bytes / 4;
  int vector_dim = -1;
  double best = 0;
  for (int d = 0; d < c.rank; ++d) {
    if (sizes[d] == 1) continue;
    int lanes = static_cast<int>(std::min<int64_t>(sizes[d], width));
    double cost = static_cast<double>(c.work);
    for (const Inst* access : c.accesses) cost += access_cost(kernel, *access, d, lanes);
    for (const Inst* reduce : c.reduces)
      if (reduce->axis == d) cost += 8.0 * lanes / static_cast<double>(sizes[d]);
    cost /= lanes;
    if (vector_dim < 0 || cost <= best) {
      best = cost;
      vector_dim = d;
    }
  }
  auto others_than = [&](int dim) {
    int64_t elements = 1;
    for (int d = 0; d < c.rank; ++d) elements *= d == dim ? 1 : sizes[d];
    return elements;
  };
  for (int d = 0; d < c.rank; ++d) {
    if (!fits[d] || sizes[d] == 1 || d == vector_dim) continue;
    const int64_t row = others_than(d);
    int64_t together = rows_together(code, d, sizes[d], row);
    if (together == sizes[d]) return {};
    return {d, sizes[d], together};
  }
  // Along vectors it pays when whole tiles would otherwise go through memory between the steps.
  if (vector_dim < 0 || !fits[vector_dim] || sizes[vector_dim] <= width) return {};
  const int64_t others = others_than(vector_dim);
  int64_t whole = 0;  // steps that run over everything
  for (const Inst* reduce : c.reduces) whole += kernel.values[reduce->args[0]].numel() == others * sizes[vector_dim];
  for (const Inst* write : c.writes) whole += kernel.values[write->args[0]].numel() == others * sizes[vector_dim];
  if (whole < 2) return {};
  int64_t wanted = others <= 8 ? width : 4 * width;
  if (sizes[vector_dim] <= wanted) return {};
  return {vector_dim, sizes[vector_dim], wanted};
}

// A copy of the body's instructions for elements [start, start + size) of the dimension.
Body slice(Kernel& kernel, const Body& code, int dim, int64_t old_size, const Expr& start, int64_t size) {
  Substitution places, renamed;
  kernel::visit(code, [&](const Inst& inst) {
    if (inst.coords.size() <= static_cast<size_t>(dim)) return;
    const Expr& c = inst.coords[dim];
    if (!c.is_var() || c.extent() != Expr(old_size) ||
        std::ranges::find(renamed, c, &Substitution::value_type::first) != renamed.end())
      return;
    const Expr fresh = Expr::index(c.name(), size);
    renamed.emplace_back(c, fresh);
    places.emplace_back(c, size == 1 ? start : start + fresh);
  });
  const size_t first_value = kernel.values.size();
  Body out;
  std::vector<Value> map;
  Builder builder(kernel.values, out);
  for (const Inst& inst : code.insts) builder.clone(inst, map, places);
  for (size_t v = first_value; v < kernel.values.size(); ++v) {
    Dims& shape = kernel.values[v].shape;
    if (shape.size() > static_cast<size_t>(dim) && shape[dim] == old_size) shape[dim] = size;
  }
  kernel::visit(out, [&](Inst& inst) {
    if (inst.coords.size() > static_cast<size_t>(dim)) inst.coords[dim] = substitute(inst.coords[dim], renamed);
  });
  return out;
}

// Conditions on the dimension that every write shares end the loop early; they are dropped from the guards.
Expr take_bound(Body& code, int dim, int64_t size) {
  Expr shared = Expr::index("row", size);
  auto named = [&](const Expr& e, const Inst& inst) {
    if (inst.coords.size() <= static_cast<size_t>(dim) || !inst.coords[dim].is_var()) return e;
    return substitute(e, {{inst.coords[dim], shared}});
  };
  std::optional<std::vector<Expr>> common;
  kernel::visit(static_cast<const Body&>(code), [&](const Inst& inst) {
    if (!stores(inst.op)) return;
    std::vector<Expr> parts;
    for (const Expr& part : conjuncts(inst.guard)) {
      bool other = false;
      for (size_t d = 0; d < inst.coords.size(); ++d)
        other |= static_cast<int>(d) != dim && inst.coords[d].is_var() && depends_on(part, inst.coords[d]);
      for (const Expr& bind : inst.binds) other |= depends_on(part, bind);
      if (!other) parts.push_back(named(part, inst));
    }
    keep_common(common, parts);
  });
  // Variables of loops inside the body are unknown outside of it.
  std::vector<Expr> inner_vars;
  kernel::visit(static_cast<const Body&>(code), [&](const Inst& inst) {
    if (inst.op == Op::loop && inst.var.is_var()) inner_vars.push_back(inst.var);
  });
  Expr bound = size;
  std::vector<Expr> taken;
  for (const Expr& e : common.value_or(std::vector<Expr>{})) {
    std::optional<Expr> limit = upper_limit(e, shared);
    if (!limit || !depends_on(e, shared)) continue;
    if (std::ranges::any_of(inner_vars, [&](const Expr& v) { return depends_on(*limit, v); })) continue;
    bound = min(bound, *limit);
    taken.push_back(e);
  }
  if (taken.empty()) return bound;
  kernel::visit(code, [&](Inst& inst) {
    if (inst.guard.is_const()) return;
    std::vector<Expr> parts = conjuncts(inst.guard);
    std::erase_if(parts, [&](const Expr& part) { return contains(taken, named(part, inst)); });
    inst.guard = conjunction(parts);
  });
  return bound.lo() < 0 ? max(bound, 0) : bound;
}

void peel_body(Kernel& kernel, Body& code, const Target& target) {
  Choice choice = choose(kernel, code, target);
  if (choice.dim < 0) {
    for (Inst& inst : code.insts)
      for (Body& inner : inst.bodies) peel_body(kernel, inner, target);
    return;
  }
  Body from = std::move(code);
  code = Body{from.params, {}, {}};
  Expr extent = choice.size / choice.rows;
  if (choice.rows == 1) extent = take_bound(from, choice.dim, choice.size);
  Inst loop{.op = Op::loop, .var = Expr::index(text("r", kernel.values.size()), extent), .extent = extent};
  loop.bodies.push_back(slice(kernel, from, choice.dim, choice.size, loop.var * Expr(choice.rows), choice.rows));
  peel_body(kernel, loop.bodies[0], target);
  code.insts.push_back(std::move(loop));
  if (int64_t rest = choice.size % choice.rows; rest > 0 && choice.rows > 1) {
    Body last = slice(kernel, from, choice.dim, choice.size, choice.size - rest, rest);
    peel_body(kernel, last, target);
    for (Inst& inst : last.insts) code.insts.push_back(std::move(inst));
  }
}

}  // namespace

Kernel peel(const Kernel& kernel, const Target& target) {
  Kernel out = kernel;
  for (kernel::Phase& phase : out.phases) peel_body(out, phase.body, target);
  return out;
}

}  // namespace heddle::simd
