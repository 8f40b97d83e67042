// Stages that keep inner axes: where their results lie, and what several stages share.
#include <numeric>

#include "base/error.h"
#include "compile/tile/tiler.h"

namespace heddle {

void Tiler::number_dimensions() {
  std::vector<Expr> inner;
  for (size_t s = 0; s < loops_.stages.size(); ++s) {
    dims_.emplace_back();
    for (size_t i = 0; i < outer_; ++i) dims_[s].push_back(i);
    for (const Axis& axis : stage(s).inner) {
      size_t at = static_cast<size_t>(std::ranges::find(inner, axis.var) - inner.begin());
      if (at == inner.size()) inner.push_back(axis.var);
      dims_[s].push_back(outer_ + at);
    }
  }
  rank_ = outer_ + inner.size();
  for (const Stage& stage : loops_.stages)
    for (const Axis& axis : stage.inner) {
      if (std::ranges::any_of(spans_, [&](auto& known) { return known.first == axis.var; })) continue;
      spans_.emplace_back(axis.var, useful_span(loops_, axis));
    }
}

std::optional<Expr> Tiler::extreme(const Expr& e, bool largest) const {
  if (e.is_const() || e.is_symbol()) return e;
  if (e.is_var()) {
    for (size_t i = 0; i < outer_; ++i)
      if (loops_.outer[i].var == e) return largest ? block_.base[i] + Expr(block_.size[i] - 1) : block_.base[i];
    return {};
  }
  std::vector<Expr> args;
  std::span<const Expr> of = e.args();
  const bool scaled = e.kind() == ExprKind::Mul || e.kind() == ExprKind::FloorDiv;
  if (scaled && (of.size() != 2 || !of[1].is_const())) return {};
  for (const Expr& arg : of) {
    if (scaled && &arg == &of[1]) continue;
    std::optional<Expr> bound = extreme(arg, largest == (!scaled || of[1].value() > 0));
    if (!bound) return {};
    args.push_back(*bound);
  }
  switch (e.kind()) {
    case ExprKind::Add: {
      Expr sum = 0;
      for (const Expr& arg : args) sum = sum + arg;
      return sum;
    }
    case ExprKind::Mul: return args[0] * of[1];
    case ExprKind::FloorDiv: return of[1].value() > 0 ? std::optional(floordiv(args[0], of[1])) : std::nullopt;
    case ExprKind::Min: return min(args[0], args[1]);
    case ExprKind::Max: return max(args[0], args[1]);
    default: return {};
  }
}

Span Tiler::span_of(const Axis& axis) {
  Span span{0, axis.extent};
  // Tiles that are written whole begin at multiples of their size.
  int64_t step = 1;
  for (size_t s = 0; s < loops_.stages.size(); ++s)
    for (size_t i = 0; stage(s).reducer && i < stage(s).kept; ++i) {
      if (!(stage(s).inner[i].var == axis.var)) continue;
      const auto& loops = schedule_.stages[s].loops;
      const auto first = std::ranges::find(loops, static_cast<int>(outer_ + i), &Level::axis);
      if (first != loops.end()) step = std::lcm(step, first->step);
    }
  for (const auto& [var, useful] : spans_) {
    if (!(var == axis.var)) continue;
    if (auto begin = extreme(useful.begin, false))
      span.begin = floordiv(max(min(*begin, axis.extent - 1), 0), step) * Expr(step);
    // A row of which nothing matters still has one element: its reductions are what they would be without masks.
    if (auto end = extreme(useful.end, true)) span.end = min(axis.extent, max(*end, span.begin + 1));
  }
  return span;
}

std::vector<bool> Tiler::axes_of_result(Value result, size_t s) const {
  const Stage& from = stage(result_stage_.at(result));
  if (from.kept == 0) return outer_only(outer_);
  std::vector<bool> used = outer_only(axis_count(s));
  for (size_t i = outer_; i < used.size(); ++i)
    for (size_t k = 0; k < from.kept; ++k) used[i] = used[i] || axis(s, i).var == from.inner[k].var;
  return used;
}

int64_t Tiler::kept_room(size_t s, size_t i) const {
  return heddle::kept_room(schedule_, loops_, s, i, is_common(stage(s).inner[i].var));
}

void Tiler::hold(Value result, size_t s, Value v, const Place& p) {
  if (!dims_.empty()) held_[result] = {v, s, p};
}

std::optional<Tiler::Value> Tiler::held(Value result, size_t s, const Place& p) {
  auto it = held_.find(result);
  if (it == held_.end()) return {};
  const Held& h = it->second;
  std::vector<bool> theirs = result_axes(h.stage), mine = axes_of_result(result, s);
  for (size_t i = 0; i < mine.size(); ++i) {
    if (!mine[i]) continue;
    for (size_t j = 0; j < theirs.size(); ++j)
      if (theirs[j] && dim(p, i) == dim(h.place, j) && !(p.base[i] == h.place.base[j] && p.size[i] == h.place.size[j]))
        return {};
  }
  return h.tile;
}

}  // namespace heddle
