#include <algorithm>
#include <cmath>

#include "compile/loops/contraction.h"
#include "compile/loops/loops.h"
#include "expr/runs.h"

namespace heddle {
namespace {

// Cycles, roughly, of what happens for a vector of 16 results or elements of a panel; a multiply-add is one.
constexpr double kInOrder = 3, kCloseTogether = 6, kApart = 30, kStoreApart = 40;
constexpr double kVector = 16;
// So many pieces in order are loaded one by one.
constexpr size_t kMostRuns = 4;
// Merging must pay by this factor.
constexpr double kWorthIt = 0.97;

struct Columns {
  Loops loops;
  Contraction c;
};

bool only_b(const Contraction& c, size_t axis) { return c.b_axes[axis] && !c.a_axes[axis]; }

// A sum of products that is blocked for registers: others stay as they are.
std::optional<Contraction> blocked(const Loops& loops) {
  if (loops.outer.size() < 2) return {};
  for (size_t s = 1; s < loops.stages.size(); ++s)
    if (loops.stages[s].reducer || !loops.stages[s].inner.empty() || loops.stages[s].ordered) return {};
  std::optional<Contraction> c = find_contraction(loops, loops.stages[0]);
  if (!c || !c->is_matmul() || !is_float(loops.values[c->a].dtype)) return {};
  auto fixed = [](const Axis& axis) { return axis.extent.is_const() && !axis.extent.is_const(0); };
  if (!std::ranges::all_of(loops.outer, fixed) || !std::ranges::all_of(loops.stages[0].inner, fixed)) return {};
  return c;
}

double access_cost(const Expr& address, const Expr& column, double apart) {
  if (!depends_on(address, column)) return 0;
  Expr lane = Expr::index("lane", static_cast<int64_t>(kVector));
  Expr vector = Expr::index("vector", ceildiv(column.extent(), lane.extent()));
  std::optional<Runs> runs =
      runs_of(substitute(address, {{column, vector * lane.extent() + lane}}), lane, lane.extent(), kMostRuns);
  if (!runs || runs->stride == 0 || std::abs(runs->stride) > 4) return apart;
  const double each = std::abs(runs->stride) == 1 ? kInOrder : kCloseTogether;
  return std::min(apart, each * static_cast<double>(runs->first.size()) - kInOrder);
}

// Cycles for a result and a term of its sum, in vectors' lanes that are used.
double cost(const Columns& columns) {
  const Loops& loops = columns.loops;
  const Expr& column = loops.outer[columns.c.b_axis].var;
  double rows = static_cast<double>(loops.outer[columns.c.a_axis].extent.value()), terms = 1;
  for (const Axis& axis : loops.stages[0].inner) terms *= static_cast<double>(axis.extent.value());
  double packing = kInOrder, finishing = 0;
  for (size_t s = 0; s < loops.stages.size(); ++s)
    for (const kernel::Inst& inst : loops.stages[s].body.insts) {
      if (inst.op != kernel::Op::load && inst.op != kernel::Op::store) continue;
      (s == 0 ? packing : finishing) += access_cost(inst.address, column, s == 0 ? kApart - kInOrder : kStoreApart);
    }
  auto count = static_cast<double>(loops.outer[columns.c.b_axis].extent.value());
  double used = count / (std::ceil(count / kVector) * kVector);
  return (1 + packing / rows + finishing / terms) / used;
}

// With the axis that only b follows nearest to the column, which becomes part of it.
std::optional<Columns> merged(const Columns& from) {
  size_t column = static_cast<size_t>(from.c.b_axis), other = column;
  while (other > 0 && !only_b(from.c, other - 1)) --other;
  if (other == 0) return {};
  --other;
  Columns result = from;
  std::vector<Axis>& outer = result.loops.outer;
  outer[column] = one_axis(outer[other], outer[column], result.loops.stages);
  outer.erase(outer.begin() + static_cast<long>(other));
  std::optional<Contraction> c = blocked(result.loops);
  if (!c) return {};
  result.c = *c;
  return result;
}

}  // namespace

void merge_columns(Loops& loops) {
  std::optional<Contraction> c = blocked(loops);
  if (!c) return;
  Columns best{loops, *c};
  bool changed = false;
  // More than one axis may be needed before it pays.
  for (std::optional<Columns> next = merged(best); next; next = merged(*next))
    if (cost(*next) < kWorthIt * cost(best)) {
      best = *next;
      changed = true;
    }
  if (changed) loops = std::move(best.loops);
}

}  // namespace heddle
