#include "expr/runs.h"

#include <algorithm>

namespace heddle {
namespace {

// Where a division by `size` steps: at each lane with (rest + lane) % size == 0.
struct Break {
  Expr rest;
  int64_t size;
};

// The expression as it is in the first run: quotients stay what they are at lane 0, remainders grow with the lane.
std::optional<Expr> in_first_run(const Expr& e, const Expr& lane, std::vector<Break>& breaks) {
  if (!depends_on(e, lane) || e.is_var()) return e;
  std::vector<Expr> args;
  for (const Expr& arg : e.args()) {
    std::optional<Expr> opened = in_first_run(arg, lane, breaks);
    if (!opened) return {};
    args.push_back(*opened);
  }
  if (e.kind() == ExprKind::Add || e.kind() == ExprKind::Mul) {
    Expr result = args[0];
    for (size_t i = 1; i < args.size(); ++i) result = e.kind() == ExprKind::Add ? result + args[i] : result * args[i];
    return result;
  }
  const bool quotient = e.kind() == ExprKind::FloorDiv;
  if ((!quotient && e.kind() != ExprKind::Mod) || !args[1].is_const() || args[1].value() <= 0) return {};
  std::optional<Linear> form = linear_in(args[0], lane);
  if (!form || form->coefficient < 0 || form->coefficient > 1) return {};
  if (form->coefficient == 1) breaks.push_back({form->rest, args[1].value()});
  if (quotient) return floordiv(form->rest, args[1]);
  return mod(form->rest, args[1]) + form->coefficient * lane;
}

}  // namespace

std::optional<Runs> runs_of(const Expr& address, const Expr& lane, const Expr& end, size_t most) {
  std::vector<Break> breaks;
  std::optional<Expr> opened = in_first_run(address, lane, breaks);
  std::optional<Linear> form = opened ? linear_in(*opened, lane) : std::nullopt;
  if (!form) return {};
  Runs runs{form->coefficient, {}, {}};
  const Expr last = min(end - 1, lane.hi());
  auto add_run = [&](const Expr& first) {
    const Expr reached = min(first, last);
    runs.first.push_back(first);
    runs.address.push_back(substitute(address, {{lane, reached}}) - runs.stride * reached);
  };
  add_run(0);
  if (breaks.empty()) return runs;
  // The shortest rows: others end only where one of these does.
  const Break& row = *std::ranges::min_element(breaks, {}, &Break::size);
  const Expr size(row.size), start = mod(row.rest, size);
  for (const Break& other : breaks)
    if (other.size % row.size != 0 || !(mod(other.rest, size) == start)) return {};
  const auto count = static_cast<size_t>((start.hi() + lane.hi()) / row.size + 1);
  if (count > most) return {};
  for (size_t j = 1; j < count; ++j) add_run(static_cast<int64_t>(j) * size - start);
  return runs;
}

bool in_pieces(const Expr& address, const Expr& guard, const Expr& index, int64_t piece) {
  const Expr number = Expr::index("number", ceildiv(index.extent(), piece)), element = Expr::index("element", piece);
  const Substitution to = {{index, number * piece + element}};
  if (depends_on(substitute(guard, to), element)) return false;
  const std::optional<Linear> linear = linear_in(substitute(address, to), element);
  return linear && linear->coefficient == 1 && linear->rest.multiple() % piece == 0;
}

}  // namespace heddle
