// Loops that store are cut at the points where guards begin or cease to hold, so that most of their trips ask nothing:
// a roll is two copies, a stencil at the edges of an image is one inside and something else at its edges.
//
// At tile level that is done for reductions of tiles alone, which are as long as a guard says: where they are whole
// they become straight code. All else is cut at thread level, where the code has its size.
#include <algorithm>

#include "base/error.h"
#include "kernel/builder.h"
#include "kernel/pass_util.h"
#include "kernel/passes.h"

namespace heddle::kernel {
namespace {

constexpr size_t kMostPieces = 6;
constexpr int64_t kMostPiecesInsts = 512;  // that all pieces of a loop may have together
constexpr int64_t kMostPhaseInsts = 768;   // that a phase may grow to
constexpr double kCommon = 0.2;            // a piece that makes up less of the loop is not cut any further

int64_t size_of_body(const Body& code) {
  int64_t count = 0;
  visit(code, [&](const Inst&) { ++count; });
  return count;
}

// A comparison that decides about accesses. Along the loop it has one value below `low` and the other one from `high`
// on; between them it depends on lanes and on loops inside.
struct Edge {
  Expr condition;
  Expr low, high;
  bool first;  // the value below `low`
};

// A part of a loop's trips, and the comparisons that have one value there.
struct Piece {
  Expr begin, end;
  std::vector<std::pair<Expr, bool>> known;
  double share = 0;  // about how much of the loop it is
};

class Splitter {
 public:
  Splitter(Kernel& kernel, Phase& phase) : kernel_(kernel), phase_(phase) {}

  void run() {
    room_ = kMostPhaseInsts - size_of_body(phase_.body);
    for (const Expr& block : phase_.blocks) outside_.push_back(block);
    split_in(phase_.body);
  }

 private:
  void split_in(Body& code) {
    std::vector<Inst> insts = std::move(code.insts);
    code.insts.clear();
    for (Inst& inst : insts) {
      if (inst.op != Op::loop || !split(inst, code)) {
        if (inst.op == Op::loop) outside_.push_back(inst.var);
        for (Body& inner : inst.bodies) split_in(inner);
        if (inst.op == Op::loop) outside_.pop_back();
        code.insts.push_back(std::move(inst));
      }
    }
  }

  bool tiles() const { return kernel_.level == Level::Tile; }

  bool is_outside(const Expr& var) const {
    return var.is_symbol() || std::find(outside_.begin(), outside_.end(), var) != outside_.end();
  }

  // Where along `loop` a comparison changes, if that can be said.
  std::optional<Edge> edge_of(const Expr& condition, const Inst& loop, const Inst& inst) const {
    if (condition.kind() != ExprKind::Lt || !depends_on(condition, loop.var)) return std::nullopt;
    for (const Expr& bind : inst.binds)
      if (depends_on(condition, bind)) return std::nullopt;
    std::optional<Linear> form = linear_in(condition.args()[0] - condition.args()[1], loop.var);
    if (!form || form->coefficient == 0) return std::nullopt;
    // What lanes and inner loops add is known by its bounds only.
    int64_t least = 0, most = 0;
    Expr rest = form->rest;
    for (const Expr& var : variables(rest)) {
      if (is_outside(var)) continue;
      std::optional<Linear> inner = linear_in(rest, var);
      if (!inner || var.hi() > (int64_t{1} << 31)) return std::nullopt;
      const int64_t reach = inner->coefficient * var.hi();
      least += std::min<int64_t>(reach, 0);
      most += std::max<int64_t>(reach, 0);
      rest = inner->rest;
    }
    const int64_t factor = form->coefficient;
    if (factor > 0) return Edge{condition, ceildiv(-rest - most, factor), ceildiv(-rest - least, factor), true};
    return Edge{condition, floordiv(rest + least, -factor) + 1, floordiv(rest + most, -factor) + 1, false};
  }

  std::vector<Edge> edges_of(const Inst& loop) const {
    std::vector<Edge> edges, lengths;  // all; those that say how long a reduction is
    auto look_at = [&](const Expr& guard, const Inst& inst) {
      if (guard.is_const()) return;
      for (const Expr& part : conjuncts(guard)) {
        auto edge = std::ranges::find(edges, part, &Edge::condition);
        if (edge == edges.end()) {
          const std::optional<Edge> found = edge_of(part, loop, inst);
          if (!found) continue;
          edge = edges.insert(edge, *found);
        }
        if (inst.op == Op::reduce && depends_on(part, inst.coords[static_cast<size_t>(inst.axis)]))
          lengths.push_back(*edge);
      }
    };
    visit(loop.bodies[0], [&](const Inst& inst) {
      look_at(inst.guard, inst);
      if (is_condition(inst)) look_at(inst.address, inst);
    });
    if (tiles())
      std::erase_if(edges, [&](const Edge& edge) {
        return std::ranges::none_of(
            lengths, [&](const Edge& length) { return length.low == edge.low && length.high == edge.high; });
      });
    return edges;
  }

  bool is_condition(const Inst& inst) const {
    return inst.op == Op::index && kernel_.values[static_cast<size_t>(inst.results[0])].dtype == DType::boolean;
  }

  // About how large a number is on the average: the mean over a few values of the variables, each within `extent`.
  static double mean_within(const Expr& e, const Expr& extent) {
    constexpr int kSamples = 9;
    double sum = 0;
    for (int k = 0; k < kSamples; ++k) {
      auto at = [&](const Expr& var) {
        if (var.is_symbol()) return var.hi();
        return static_cast<int64_t>(static_cast<double>(var.hi()) * k / (kSamples - 1));
      };
      sum += static_cast<double>(std::clamp<int64_t>(evaluate(e, at), 0, std::max<int64_t>(evaluate(extent, at), 0)));
    }
    return sum / kSamples;
  }

  static Expr within(const Expr& point, const Expr& extent) { return max(min(point, extent), 0); }

  // The pieces between all points at which something changes, in order. Nothing if that order is not known.
  std::vector<Piece> pieces_of(const Inst& loop, std::vector<Edge> edges) const {
    std::vector<Expr> points;
    std::erase_if(edges, [&](const Edge& edge) {
      for (const Expr& point : {edge.low, edge.high}) {
        if (!points.empty() && !(point - points[0]).is_const()) return true;
        if (point.hi() <= 0 || provably_true(ge(point, loop.extent))) continue;
        if (std::find(points.begin(), points.end(), point) == points.end()) points.push_back(point);
      }
      return false;
    });
    if (points.empty() || points.size() > 4 * kMostPieces) return {};
    const Expr origin = points[0];
    std::ranges::sort(points, {}, [&](const Expr& point) { return (point - origin).value(); });
    std::vector<Piece> pieces;
    for (size_t k = 0; k <= points.size(); ++k) {
      Piece piece;
      piece.begin = k == 0 ? Expr(0) : within(points[k - 1], loop.extent);
      piece.end = k == points.size() ? loop.extent : within(points[k], loop.extent);
      const double whole = mean_within(loop.extent, loop.extent);
      piece.share =
          (mean_within(piece.end, loop.extent) - mean_within(piece.begin, loop.extent)) / std::max(whole, 1.0);
      for (const Edge& edge : edges) {
        // Points before the first and behind the last one are not among them.
        auto before = [&](const Expr& point) {  // the piece lies below the point
          if (k < points.size()) return provably_true(ge(point, points[k]));
          return provably_true(ge(point, loop.extent));
        };
        auto behind = [&](const Expr& point) {  // the piece does not begin before the point
          if (k > 0) return provably_true(ge(points[k - 1], point));
          return provably_true(ge(0, point));
        };
        if (before(edge.low))
          piece.known.emplace_back(edge.condition, edge.first);
        else if (behind(edge.high))
          piece.known.emplace_back(edge.condition, !edge.first);
      }
      pieces.push_back(std::move(piece));
    }
    return pieces;
  }

  // One piece of many: only what is known in all of them.
  static Piece merged(std::span<const Piece> pieces) {
    Piece result = pieces[0];
    result.end = pieces.back().end;
    for (const Piece& piece : pieces.subspan(1)) {
      result.share += piece.share;
      std::erase_if(result.known, [&](const auto& fact) {
        return std::find(piece.known.begin(), piece.known.end(), fact) == piece.known.end();
      });
    }
    return result;
  }

  bool split(Inst& loop, Body& out) {
    // Sums in registers are left alone: such loops are blocked with care.
    if (!loop.args.empty() || loop.extent.is_const(1)) return false;
    const int64_t size = size_of_body(loop.bodies[0]);
    std::vector<Piece> pieces = pieces_of(loop, edges_of(loop));
    if (pieces.size() < 2) return false;
    auto fits = [&](size_t count) {
      const int64_t all = static_cast<int64_t>(count) * size;
      return count <= kMostPieces && all <= kMostPiecesInsts && all - size <= room_;
    };
    if (!fits(pieces.size())) {
      // The largest one, and what lies before and behind it.
      if (!fits(3)) return false;
      auto largest = std::ranges::max_element(pieces, {}, &Piece::share);
      std::vector<Piece> few;
      if (largest != pieces.begin()) few.push_back(merged({pieces.begin(), largest}));
      few.push_back(*largest);
      if (largest + 1 != pieces.end()) few.push_back(merged({largest + 1, pieces.end()}));
      pieces = std::move(few);
    }
    if (std::ranges::all_of(pieces, [](const Piece& piece) { return piece.known.empty(); })) return false;
    room_ -= static_cast<int64_t>(pieces.size() - 1) * size;
    for (const Piece& piece : pieces) {
      Expr extent = piece.end - piece.begin;
      if (extent.hi() <= 0) continue;
      if (extent.lo() < 0) extent = max(extent, 0);
      emit(loop, piece, extent, out);
    }
    return true;
  }

  void emit(const Inst& loop, const Piece& piece, const Expr& extent, Body& out) {
    Inst inst;
    inst.op = Op::loop;
    inst.immediate = loop.immediate;
    inst.extent = extent;
    inst.var = Expr::index(loop.var.name(), extent);
    std::vector<Value> names(kernel_.values.size());
    for (size_t k = 0; k < names.size(); ++k) names[k] = static_cast<Value>(k);
    Body body;
    Builder builder(kernel_.values, body);
    const Body& from = loop.bodies[0];
    Body known;  // the body with what is known
    known.insts = from.insts;
    visit(known, [&](Inst& copy) {
      copy.guard = simplified(copy.guard, piece);
      if (is_condition(copy)) copy.address = simplified(copy.address, piece);
    });
    for (const Inst& copy : known.insts) builder.clone(copy, names, {{loop.var, piece.begin + inst.var}});
    if (piece.share >= kCommon) {
      outside_.push_back(inst.var);
      split_in(body);
      outside_.pop_back();
    }
    inst.bodies.push_back(std::move(body));
    out.insts.push_back(std::move(inst));
  }

  static Expr simplified(const Expr& guard, const Piece& piece) {
    if (guard.is_const()) return guard;
    std::vector<Expr> kept;
    for (const Expr& part : conjuncts(guard)) {
      auto fact = std::ranges::find(piece.known, part, [](const auto& pair) { return pair.first; });
      if (fact == piece.known.end())
        kept.push_back(part);
      else if (!fact->second)
        return 0;
    }
    return conjunction(kept);
  }

  Kernel& kernel_;
  Phase& phase_;
  int64_t room_ = 0;
  std::vector<Expr> outside_;  // variables of the grid and of the loops around
};

}  // namespace

void split_loops(Kernel& kernel) {
  if (kernel.threads > 1) return;
  for (Phase& phase : kernel.phases) Splitter(kernel, phase).run();
}

}  // namespace heddle::kernel
