#include "compile/fuse/steps.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <unordered_map>

#include "base/error.h"
#include "base/hash.h"
#include "compile/loops/contraction.h"
#include "expr/rebuild.h"

namespace heddle {
namespace {

// Matrix products of more points are better off with sizes that the compiler knows.
constexpr double kSmallProduct = 1 << 16;
// With several axes of different extents, nests of more points are better off with sizes that the compiler knows.
constexpr double kSmallNest = 1 << 18;
// Memory that joining may keep alive for longer: this much, or this part of all that passes between steps.
constexpr double kHeldBytes = 64 << 10, kHeldShare = 0.02;

// A Loops taken apart: everything that must be equal, and the constants of its expressions, in one fixed order.
struct Parts {
  Structure structure;
  std::vector<int64_t> numbers;
  std::vector<int64_t> extents;  // of the axes, outer ones first; -1 where it is no number
  double points = 0;             // of the largest stage
};

// Calls `expression` for every expression that may hold sizes, and `axis` for every axis before it is used.
template <class E, class A>
void each_part(Loops& loops, const E& expression, const A& axis) {
  for (kernel::Buffer& buffer : loops.buffers) expression(buffer.size);
  for (Axis& each : loops.outer) axis(each);
  for (Stage& stage : loops.stages) {
    for (Axis& each : stage.inner) axis(each);
    for (kernel::Inst& inst : stage.body.insts) {
      expression(inst.address);
      expression(inst.guard);
    }
  }
}

bool goes_where_data_says(const Stage& stage) {
  return std::ranges::any_of(stage.body.insts, [](const kernel::Inst& inst) { return !inst.binds.empty(); });
}

double points(const std::vector<Axis>& axes) {
  double all = 1;
  for (const Axis& axis : axes) all *= static_cast<double>(axis.extent.hi());
  return all;
}

// Nothing for kernels that are not joined.
std::optional<Parts> take_apart(const Program::Step& step) {
  if (step.direct || !step.checks.empty() || is_nested(step.loops)) return std::nullopt;
  for (const Stage& stage : step.loops.stages)
    if (stage.ordered || has_scan(stage) || goes_where_data_says(stage)) return std::nullopt;
  Parts parts;
  std::unordered_map<uint64_t, uint64_t> axes;  // variables by number
  auto word = [&](uint64_t w) { parts.structure.words.push_back(w); };
  const std::function<void(const Expr&)> visit = [&](const Expr& e) {
    word(static_cast<uint64_t>(e.kind()));
    if (e.is_const()) {
      parts.numbers.push_back(e.value());
    } else if (e.is_var()) {
      auto axis = axes.find(e.id());
      word(axis != axes.end() ? axis->second : e.id() + (uint64_t{1} << 32));
    } else {
      word(e.args().size());
      for (const Expr& arg : e.args()) visit(arg);
    }
  };
  Loops rest = step.loops;  // without expressions in the end
  rest.symbols.clear();
  auto take_expression = [&](Expr& e) {
    visit(e);
    e = 0;
  };
  each_part(rest, take_expression, [&](Axis& axis) {
    visit(axis.extent);
    // Stages may share an axis.
    word(axes.try_emplace(axis.var.id(), axes.size()).first->second);
    parts.extents.push_back(axis.extent.is_const() ? axis.extent.value() : -1);
    axis = {};
  });
  for (uint64_t w : structure(rest).words) word(w);
  for (const Stage& stage : step.loops.stages)
    parts.points = std::max(parts.points, points(step.loops.outer) * points(stage.inner));
  return parts;
}

// The extents, and the products of two.
template <class T>
std::vector<T> with_products(std::span<const T> extents) {
  std::vector<T> all(extents.begin(), extents.end());
  for (size_t j = 0; j < extents.size(); ++j)
    for (size_t k = j; k < extents.size(); ++k) all.push_back(extents[j] * extents[k]);
  return all;
}

// What a number of the first member of a group can be in all of them: bit 0: a constant; bit 1 + k: number k of
// with_products().
class Explanations {
 public:
  explicit Explanations(const Parts& first)
      : first_(first), terms_(with_products<int64_t>(first.extents)), possible_(first.numbers.size(), ~uint64_t{0}) {}

  // Whether the member's numbers can be explained too; if so it is one of them from now on.
  bool take(const Parts& member) {
    const std::vector<int64_t> theirs = with_products<int64_t>(member.extents);
    std::vector<uint64_t> narrowed = possible_;
    for (size_t i = 0; i < narrowed.size(); ++i) {
      uint64_t matches = first_.numbers[i] == member.numbers[i];
      for (size_t k = 0; k < theirs.size(); ++k)
        if (first_.numbers[i] == terms_[k] && member.numbers[i] == theirs[k]) matches |= uint64_t{2} << k;
      narrowed[i] &= matches;
      if (narrowed[i] == 0) return false;
    }
    possible_ = std::move(narrowed);
    return true;
  }
  // `terms`: those of the symbols.
  Expr explain(size_t i, std::span<const Expr> terms) const {
    const int bit = std::countr_zero(possible_[i]);
    return bit == 0 ? Expr(first_.numbers[i]) : terms[bit - 1];
  }

  static constexpr size_t kMostAxes = 8;  // 1 + 8 + 36 bits

 private:
  const Parts& first_;
  const std::vector<int64_t> terms_;
  std::vector<uint64_t> possible_;  // for each number
};

// Writes a Loops again with other numbers, taken in the order in which take_apart() met them.
void rewrite(Loops& loops, const Explanations& explanations, std::span<const Expr> symbols) {
  const std::vector<Expr> terms = with_products(symbols);
  size_t next = 0;
  std::unordered_map<uint64_t, Expr> variables;
  const std::function<Expr(const Expr&)> rewritten = [&](const Expr& e) -> Expr {
    if (e.is_const()) return explanations.explain(next++, terms);
    if (e.is_var()) {
      auto axis = variables.find(e.id());
      return axis != variables.end() ? axis->second : e;
    }
    std::vector<Expr> args;
    for (const Expr& arg : e.args()) args.push_back(rewritten(arg));
    return rebuild(e, args);
  };
  auto write = [&](Expr& e) { e = rewritten(e); };
  each_part(loops, write, [&](Axis& axis) {
    Expr extent = rewritten(axis.extent);
    auto [var, fresh] = variables.try_emplace(axis.var.id());
    if (fresh) var->second = Expr::index(axis.var.name(), extent);
    axis = {var->second, extent};
  });
}

bool is_matmul(const Loops& loops) {
  return std::ranges::any_of(loops.stages, [&](const Stage& stage) {
    std::optional<Contraction> c = stage.reducer ? find_contraction(loops, stage) : std::nullopt;
    return c && c->is_matmul();
  });
}

class Joiner {
 public:
  explicit Joiner(Program& program) : program_(program), graph_(step_graph(program)) {
    for (const StepGraph::Passed& tensor : graph_.passed) budget_ += tensor.bytes;
    budget_ = std::max(kHeldBytes, budget_ * kHeldShare);
  }

  void run() {
    std::unordered_map<uint64_t, std::vector<size_t>> alike;
    std::vector<uint64_t> keys;  // in order of appearance
    parts_.resize(program_.steps.size());
    for (size_t s = 0; s < program_.steps.size(); ++s) {
      parts_[s] = take_apart(program_.steps[s]);
      if (!parts_[s] || parts_[s]->extents.size() > Explanations::kMostAxes) continue;
      // Steps that are equally far from the end do not need each other.
      uint64_t key = hash_combine(parts_[s]->structure.hash(), static_cast<uint64_t>(graph_.height[s]));
      std::vector<size_t>& others = alike[key];
      if (others.empty()) keys.push_back(key);
      others.push_back(s);
    }
    gone_.assign(program_.steps.size(), false);
    for (uint64_t key : keys)
      if (alike[key].size() > 1) join(std::move(alike[key]));
    rebuild();
  }

 private:
  // As many of the steps as fit together, then as many of the others as fit together, and so on.
  void join(std::vector<size_t> steps) {
    // The one that can run last comes first: it does not wait for the others.
    std::ranges::stable_sort(steps, [&](size_t a, size_t b) { return graph_.depth[a] > graph_.depth[b]; });
    for (int rounds = 0; steps.size() > 1 && rounds < 8; ++rounds) {
      const Parts& first = *parts_[steps[0]];
      Explanations explanations(first);
      std::vector<size_t> members{steps[0]}, rest;
      double held = 0;
      for (size_t i = 1; i < steps.size(); ++i) {
        size_t s = steps[i];
        double more = graph_.depth[s] < graph_.depth[steps[0]] ? held_by(s) : 0;
        bool fits = held + more <= budget_ && parts_[s]->structure == first.structure && worthwhile(steps[0], s) &&
                    explanations.take(*parts_[s]);
        (fits ? members : rest).push_back(s);
        if (fits) held += more;
      }
      if (members.size() > 1) merge(members, explanations);
      steps = std::move(rest);
    }
  }

  // Memory that only this step waits to read.
  double held_by(size_t s) const {
    double bytes = 0;
    for (int t : graph_.reads[s])
      if (graph_.passed[t].last_height == graph_.height[s]) bytes += graph_.passed[t].bytes;
    return bytes;
  }

  // Whether code for sizes that are not known is good enough for both.
  bool worthwhile(size_t first, size_t other) const {
    const Parts &a = *parts_[first], &b = *parts_[other];
    if (a.numbers == b.numbers) return true;
    size_t different = 0;
    for (size_t k = 0; k < a.extents.size(); ++k) different += a.extents[k] != b.extents[k];
    double points = std::max(a.points, b.points);
    if (different > 1 && points > kSmallNest) return false;
    return points <= kSmallProduct || !is_matmul(program_.steps[first].loops);
  }

  // The other members become segments of the first.
  void merge(const std::vector<size_t>& members, const Explanations& explanations) {
    Program::Step& step = program_.steps[members[0]];
    const size_t axes = parts_[members[0]]->extents.size();
    std::vector<Expr> symbols;
    for (size_t k = 0; k < axes; ++k) {
      Differing extent;
      for (size_t m : members) extent.take(parts_[m]->extents[k]);
      symbols.push_back(extent.lo == extent.hi ? Expr(extent.lo) : extent.symbol(text("n", k)));
    }
    rewrite(step.loops, explanations, symbols);
    step.loops.symbols = find_symbols(step.loops);
    step.loops.name = text(step.loops.name.substr(0, 48), "_and_", members.size() - 1, "_more");
    if (is_matmul(step.loops)) step.loops.together = static_cast<int64_t>(members.size());
    std::vector<Program::Segment> segments;
    for (size_t m : members) {
      Program::Step& member = program_.steps[m];
      Program::Segment& segment = segments.emplace_back(std::move(member.segments[0]));
      segment.symbols.clear();
      for (const Expr& symbol : step.loops.symbols) {
        auto own = std::ranges::find(symbols, symbol);
        segment.symbols.push_back(own == symbols.end() ? substitute(symbol, member.given)
                                                       : Expr(parts_[m]->extents[own - symbols.begin()]));
      }
      if (m == members[0]) continue;
      step.after.insert(step.after.end(), member.after.begin(), member.after.end());
      gone_[m] = true;
    }
    step.segments = std::move(segments);
  }

  // Along falling heights everything comes before what needs it.
  void rebuild() {
    if (!contains(gone_, true)) return;
    std::vector<size_t> order;
    for (size_t s = 0; s < program_.steps.size(); ++s)
      if (!gone_[s]) order.push_back(s);
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return graph_.height[a] > graph_.height[b]; });
    std::vector<Program::Step> steps;
    for (size_t s : order) steps.push_back(std::move(program_.steps[s]));
    program_.steps = std::move(steps);
  }

  Program& program_;
  StepGraph graph_;
  double budget_ = 0;
  std::vector<std::optional<Parts>> parts_;
  std::vector<bool> gone_;  // steps that are part of another
};

}  // namespace

void join_steps(Program& program) {
  if (program.steps.size() > 1) Joiner(program).run();
}

}  // namespace heddle
