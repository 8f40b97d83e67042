#include "compile/fuse/join_steps.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "base/error.h"
#include "base/hash.h"
#include "compile/fuse/step_graph.h"
#include "compile/loops/contraction.h"
#include "expr/rebuild.h"
#include "kernel/structure.h"

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

class Dismantler {
 public:
  // Nothing for kernels that are not joined.
  static std::optional<Parts> run(const Program::Step& step) {
    if (step.direct || !step.checks.empty() || is_nested(step.loops)) return std::nullopt;
    for (const Stage& stage : step.loops.stages)
      if (stage.ordered || has_scan(stage) || goes_where_data_says(stage)) return std::nullopt;
    Dismantler d;
    d.visit(step.loops);
    return std::move(d.result_);
  }

 private:
  static bool goes_where_data_says(const Stage& stage) {
    return std::any_of(stage.body.insts.begin(), stage.body.insts.end(),
                       [](const kernel::Inst& inst) { return !inst.binds.empty(); });
  }

  void word(uint64_t w) { result_.structure.words.push_back(w); }
  void words(std::span<const kernel::Value> values) {
    word(values.size());
    for (kernel::Value v : values) word(static_cast<uint64_t>(v));
  }

  void visit(const Expr& e) {
    word(static_cast<uint64_t>(e.kind()));
    if (e.is_const()) {
      result_.numbers.push_back(e.value());
    } else if (e.is_var()) {
      auto axis = axes_.find(e.id());
      word(axis != axes_.end() ? axis->second : e.id() + (uint64_t{1} << 32));
    } else {
      word(e.args().size());
      for (const Expr& arg : e.args()) visit(arg);
    }
  }

  double visit(const std::vector<Axis>& axes) {
    double points = 1;
    word(axes.size());
    for (const Axis& axis : axes) {
      visit(axis.extent);
      // Stages may share an axis.
      word(axes_.try_emplace(axis.var.id(), axes_.size()).first->second);
      result_.extents.push_back(axis.extent.is_const() ? axis.extent.value() : -1);
      points *= static_cast<double>(axis.extent.hi());
    }
    return points;
  }

  void visit(const Loops& loops) {
    word(loops.buffers.size());
    for (const kernel::Buffer& buffer : loops.buffers) {
      word(static_cast<uint64_t>(buffer.dtype));
      word(static_cast<uint64_t>(buffer.space));
      visit(buffer.size);
    }
    word(loops.values.size());
    for (const kernel::Type& type : loops.values) word(static_cast<uint64_t>(type.dtype));
    double rows = visit(loops.outer);
    word(loops.stages.size());
    for (const Stage& stage : loops.stages) {
      result_.points = std::max(result_.points, rows * visit(stage.inner));
      word(stage.body.insts.size());
      for (const kernel::Inst& inst : stage.body.insts) visit(inst);
      words(stage.body.results);
      words(stage.results);
      visit(stage.reducer);
    }
  }

  void visit(const std::shared_ptr<const kernel::Reducer>& reducer) {
    if (!reducer) return word(0);
    const Structure own = kernel::structure(*reducer);
    word(own.words.size());
    result_.structure.words.insert(result_.structure.words.end(), own.words.begin(), own.words.end());
  }

  void visit(const kernel::Inst& inst) {
    HD_ASSERT(inst.binds.empty() && inst.bodies.empty(), "an instruction of loops without gathers");
    word(static_cast<uint64_t>(inst.op));
    word(static_cast<uint64_t>(inst.hint));
    word(static_cast<uint64_t>(inst.buffer));
    word(static_cast<uint64_t>(inst.immediate));
    words(inst.results);
    words(inst.args);
    word(static_cast<uint64_t>(inst.literal.dtype));
    word(inst.literal.bits());
    visit(inst.reducer);
    visit(inst.address);
    visit(inst.guard);
  }

  Parts result_;
  std::unordered_map<uint64_t, uint64_t> axes_;  // variables by number
};

// What a number of the first member of a group can be in all of them: bit 0: a constant; bit 1 + k: the extent of axis
// k; behind these, the product of two extents, all pairs in order.
class Explanations {
 public:
  explicit Explanations(const Parts& first) : first_(first), possible_(first.numbers.size(), ~uint64_t{0}) {}

  // Whether the member's numbers can be explained too; if so it is one of them from now on.
  bool take(const Parts& member) {
    std::vector<uint64_t> narrowed = possible_;
    for (size_t i = 0; i < narrowed.size(); ++i) {
      narrowed[i] &= matches(first_.numbers[i], member.numbers[i], member);
      if (narrowed[i] == 0) return false;
    }
    possible_ = std::move(narrowed);
    return true;
  }
  Expr explain(size_t i, std::span<const Expr> symbols) const {
    if (possible_[i] & 1) return first_.numbers[i];
    size_t bit = 1, count = first_.extents.size();
    for (size_t k = 0; k < count; ++k, ++bit)
      if (possible_[i] >> bit & 1) return symbols[k];
    for (size_t j = 0; j < count; ++j)
      for (size_t k = j; k < count; ++k, ++bit)
        if (possible_[i] >> bit & 1) return symbols[j] * symbols[k];
    internal_error(__FILE__, __LINE__, "a number without explanation");
  }

  static constexpr size_t kMostAxes = 8;  // 1 + 8 + 36 bits

 private:
  uint64_t matches(int64_t mine, int64_t theirs, const Parts& member) const {
    uint64_t bits = mine == theirs;
    size_t bit = 1, count = first_.extents.size();
    for (size_t k = 0; k < count; ++k, ++bit)
      if (mine == first_.extents[k] && theirs == member.extents[k]) bits |= uint64_t{1} << bit;
    for (size_t j = 0; j < count; ++j)
      for (size_t k = j; k < count; ++k, ++bit)
        if (mine == first_.extents[j] * first_.extents[k] && theirs == member.extents[j] * member.extents[k])
          bits |= uint64_t{1} << bit;
    return bits;
  }

  const Parts& first_;
  std::vector<uint64_t> possible_;  // for each number
};

// Writes a Loops again with other numbers, taken in the order in which Dismantler met them.
class Rewriter {
 public:
  Rewriter(const Explanations& explanations, std::span<const Expr> symbols)
      : explanations_(explanations), symbols_(symbols) {}

  Loops run(Loops loops) {
    for (kernel::Buffer& buffer : loops.buffers) buffer.size = rewrite(buffer.size);
    rewrite(loops.outer);
    for (Stage& stage : loops.stages) {
      rewrite(stage.inner);
      for (kernel::Inst& inst : stage.body.insts) {
        inst.address = rewrite(inst.address);
        inst.guard = rewrite(inst.guard);
      }
    }
    return loops;
  }

 private:
  void rewrite(std::vector<Axis>& axes) {
    for (Axis& axis : axes) {
      Expr extent = rewrite(axis.extent);
      auto [var, fresh] = variables_.try_emplace(axis.var.id());
      if (fresh) var->second = Expr::index(axis.var.name(), extent);
      axis = {var->second, extent};
    }
  }

  Expr rewrite(const Expr& e) {
    if (e.is_const()) return explanations_.explain(next_++, symbols_);
    if (e.is_var()) {
      auto axis = variables_.find(e.id());
      return axis != variables_.end() ? axis->second : e;
    }
    std::vector<Expr> args;
    for (const Expr& arg : e.args()) args.push_back(rewrite(arg));
    return rebuild(e, args);
  }

  const Explanations& explanations_;
  std::span<const Expr> symbols_;
  size_t next_ = 0;
  std::unordered_map<uint64_t, Expr> variables_;
};

bool is_matmul(const Loops& loops) {
  return std::any_of(loops.stages.begin(), loops.stages.end(), [&](const Stage& stage) {
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
      parts_[s] = Dismantler::run(program_.steps[s]);
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
    std::stable_sort(steps.begin(), steps.end(), [&](size_t a, size_t b) { return graph_.depth[a] > graph_.depth[b]; });
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
      if (graph_.passed[static_cast<size_t>(t)].last_height == graph_.height[s])
        bytes += graph_.passed[static_cast<size_t>(t)].bytes;
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
      int64_t lo = parts_[members[0]]->extents[k], hi = lo, multiple = lo;
      for (size_t m : members) {
        int64_t extent = parts_[m]->extents[k];
        lo = std::min(lo, extent);
        hi = std::max(hi, extent);
        multiple = std::gcd(multiple, extent);
      }
      symbols.push_back(lo == hi ? Expr(lo) : Expr::symbol(text("n", k), lo, hi, multiple));
    }
    step.loops = Rewriter(explanations, symbols).run(std::move(step.loops));
    step.loops.symbols = find_symbols(step.loops);
    step.loops.name = text(step.loops.name.substr(0, 48), "_and_", members.size() - 1, "_more");
    if (is_matmul(step.loops)) step.loops.together = static_cast<int64_t>(members.size());
    for (size_t m : members) {
      Program::Step& member = program_.steps[m];
      Program::Segment segment = std::move(member.segments[0]);
      segment.symbols.clear();
      for (const Expr& symbol : step.loops.symbols) {
        auto own = std::find(symbols.begin(), symbols.end(), symbol);
        segment.symbols.push_back(own == symbols.end()
                                      ? substitute(symbol, member.given)
                                      : Expr(parts_[m]->extents[static_cast<size_t>(own - symbols.begin())]));
      }
      if (m == members[0]) {
        step.segments[0] = std::move(segment);
        continue;
      }
      step.segments.push_back(std::move(segment));
      step.after.insert(step.after.end(), member.after.begin(), member.after.end());
      gone_[m] = true;
    }
    joined_ = true;
  }

  // Along falling heights everything comes before what needs it.
  void rebuild() {
    if (!joined_) return;
    std::vector<size_t> order;
    for (size_t s = 0; s < program_.steps.size(); ++s)
      if (!gone_[s]) order.push_back(s);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return graph_.height[a] > graph_.height[b]; });
    std::vector<Program::Step> steps;
    for (size_t s : order) steps.push_back(std::move(program_.steps[s]));
    program_.steps = std::move(steps);
  }

  Program& program_;
  StepGraph graph_;
  double budget_ = 0;
  std::vector<std::optional<Parts>> parts_;
  std::vector<bool> gone_;  // steps that are part of another
  bool joined_ = false;
};

}  // namespace

void join_steps(Program& program) {
  if (program.steps.size() > 1) Joiner(program).run();
}

}  // namespace heddle
