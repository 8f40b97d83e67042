#include "compile/fuse/pack_products.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/contains.h"
#include "base/error.h"
#include "base/rounding.h"
#include "compile/loops/contraction.h"
#include "expr/runs.h"
#include "kernel/builder.h"

namespace heddle {
namespace {

using kernel::Inst;
using kernel::Op;
using kernel::Value;

constexpr int64_t kPieceBytes = 16;
// Smaller ones are over before a launch is.
constexpr double kLeastProducts = 1 << 18;
constexpr int64_t kLeastRows = 8, kLeastDepth = 16;
// So few columns of one image leave much of a tile empty, and are joined with those of the others.
constexpr int64_t kShortRow = 64;
constexpr double kMostElements = 1 << 30;
// What a byte costs that is written alone.
constexpr double kScattered = 8;
// Products that a unit does while a byte is read or written.
constexpr double kProductsPerByte = 50;

constexpr const char* kNoProduct = "it is no sum of products";

// What a packed factor is a function of: an axis, or a sum of two.
struct Coordinate {
  Expr var;
  int64_t extent = 1;
  Expr value;                // as an expression in the variables of the axes
  std::vector<size_t> axes;  // that it is made of
};

struct Factor {
  Value value, narrow;      // as it is multiplied, and what that is cast from
  std::vector<Inst> insts;  // that compute the narrow one, in terms of the coordinates
  std::vector<Coordinate> coordinates;
  std::vector<size_t> own;  // axes that only this factor follows
  DType dtype;
  int64_t piece() const { return kPieceBytes / size_of(dtype); }
};

// How a factor reaches its unit.
struct Access {
  bool packed = false;
  size_t fast = 0;  // the axis along which pieces are neighbours: the last summed one, or one of its own
  bool transposed = false;
  double cost = INFINITY;  // bytes
};

// Leaves the buffers that the stages use, behind those in `buffers` that are new.
void keep_used(Loops& loops, Program::Segment& segment, std::vector<kernel::Buffer> buffers, std::vector<int> tensors) {
  const auto fresh = static_cast<int>(buffers.size());
  std::vector<int> used;
  for (const Stage& stage : loops.stages)
    for (const Inst& inst : stage.body.insts)
      if (inst.buffer >= fresh) used.push_back(inst.buffer - fresh);
  sort_unique(used);
  for (int b : used) {
    buffers.push_back(loops.buffers[b]);
    if (static_cast<size_t>(b) < segment.tensors.size()) tensors.push_back(segment.tensors[b]);
  }
  for (Stage& stage : loops.stages)
    for (Inst& inst : stage.body.insts)
      if (inst.buffer >= fresh) inst.buffer = fresh + static_cast<int>(position_of(used, inst.buffer - fresh));
  loops.buffers = std::move(buffers);
  segment.tensors = std::move(tensors);
}

class Packer {
 public:
  Packer(Program& program, Program::Step& step, bool all)
      : program_(program), step_(step), loops_(step.loops), all_(all) {}

  // The steps that take the place of the step, if it is a product that gains from it.
  std::vector<Program::Step> run() {
    step_.not_packed = find_product();
    if (!step_.not_packed && !choose()) step_.not_packed = "no factor can be laid out in pieces of 16 bytes";
    if (step_.not_packed) return {};
    std::vector<Program::Step> steps;
    Expr packed[2];
    for (int f : {0, 1}) {
      if (!access_[f].packed) continue;
      steps.push_back(pack(factors_[f], access_[f], packed[f]));
      buffers_.push_back(steps.back().loops.buffers[0]);
      buffers_.back().space = kernel::Space::In;
      tensors_.push_back(static_cast<int>(program_.tensors.size()) - 1);
    }
    steps.push_back(multiply(packed));
    return steps;
  }

 private:
  // Nothing if there is one that gains from it, else why not. Legality, then cost.
  const char* find_product() {
    if (step_.direct || step_.segments.size() != 1 || !find_symbols(loops_).empty()) return "its sizes are not numbers";
    const Stage& stage = loops_.stages[0];
    if (!stage.reducer || stage.kept != 0) return kNoProduct;
    for (size_t s = 1; s < loops_.stages.size(); ++s) {
      const Stage& later = loops_.stages[s];
      if (later.reducer || !later.inner.empty() || later.ordered || !later.results.empty())
        return "its kernel goes on to reduce";
    }
    for (const Inst& inst : stage.body.insts)
      if (inst.op == Op::check || inst.op == Op::scan) return "it checks indices, or scans";
    const std::optional<Contraction> c = find_contraction(loops_, stage);
    if (!c || !c->is_matmul()) return kNoProduct;
    for (size_t i = 0; i < count(); ++i) {
      if (!axis(i).extent.is_const() || axis(i).extent.value() < 1) return "its sizes are not numbers";
      if (is_summed(i) && !(c->a_axes[i] && c->b_axes[i])) return "a factor is the same along a summed axis";
      if (is_summed(i))
        summed_.push_back(i);
      else if (c->a_axes[i] && c->b_axes[i])
        batch_.push_back(i);
    }
    if (!find_factor(factors_[0], c->a, c->a_axes, c->b_axes) || !find_factor(factors_[1], c->b, c->b_axes, c->a_axes))
      return "no matrix unit multiplies its factors";
    if (factors_[0].dtype != factors_[1].dtype) return "its factors have different dtypes";
    return all_ ? nullptr : costs();
  }

  const char* costs() const {
    bool short_rows = false;
    for (const Factor& factor : factors_) {
      const int64_t rows = product_of(factor.own);
      if (rows < kLeastRows) return "it has too few rows or columns";
      short_rows = short_rows || (rows > kShortRow && extent(factor.own.back()) < kShortRow);
    }
    if (points(count()) < kLeastProducts) return "it is over before a launch is";
    if (product_of(summed_) < kLeastDepth) return "its sums are too short";
    return summed_.size() > 1 || short_rows ? nullptr : "it is one already";
  }

  bool find_factor(Factor& factor, Value value, const std::vector<bool>& follows, const std::vector<bool>& others) {
    const std::vector<Inst>& insts = loops_.stages[0].body.insts;
    auto dtype = [&](Value v) { return loops_.values[v].dtype; };
    factor.value = factor.narrow = value;
    for (const Inst& inst : insts)
      if (inst.op == Op::cast && inst.results[0] == value && size_of(dtype(inst.args[0])) < size_of(dtype(value)))
        factor.narrow = inst.args[0];
    factor.dtype = dtype(factor.narrow);
    if (!is_float(factor.dtype) && factor.dtype != DType::i8) return false;
    std::vector<Value> wanted = {factor.narrow};
    for (size_t n = insts.size(); n-- > 0;) {
      const bool used = std::ranges::any_of(insts[n].results, [&](Value v) { return contains(wanted, v); });
      if (!used) continue;
      factor.insts.insert(factor.insts.begin(), insts[n]);
      wanted.insert(wanted.end(), insts[n].args.begin(), insts[n].args.end());
    }
    if (factor.insts.empty()) return false;
    for (size_t i = 0; i < count(); ++i) {
      if (!follows[i]) continue;
      if (!others[i]) factor.own.push_back(i);
      factor.coordinates.push_back({axis(i).var, extent(i), axis(i).var, {i}});
    }
    for (size_t i = 0; i < factor.coordinates.size(); ++i)
      for (size_t j = i + 1; j < factor.coordinates.size(); ++j)
        if (join(factor, i, j)) break;
    return !factor.own.empty();
  }

  // u = p * i + q * j is all that the factor knows of both, if i or j can be put in terms of u and the other is gone
  // then. Every u must belong to some i and j: only there the expressions hold. It pays if there are fewer u than
  // pairs.
  bool join(Factor& factor, size_t i, size_t j) {
    const Coordinate &first = factor.coordinates[i], &second = factor.coordinates[j];
    if (first.axes.size() > 1 || second.axes.size() > 1) return false;
    int64_t p = 0, q = 0;
    for (const Inst& inst : factor.insts) {
      if (inst.op != Op::load || !depends_on(inst.address, first.var) || !depends_on(inst.address, second.var))
        continue;
      const std::optional<Linear> a = linear_in(inst.address, first.var), b = linear_in(inst.address, second.var);
      if (!a || !b) return false;
      const int64_t both = std::gcd(a->coefficient, b->coefficient);
      p = a->coefficient / both;
      q = b->coefficient / both;
      break;
    }
    if (p == 0 || q == 0) return false;
    if (p < 0) p = -p, q = -q;
    const int64_t back = q < 0 ? -q * (second.extent - 1) : 0;
    const int64_t extent = p * (first.extent - 1) + std::abs(q) * (second.extent - 1) + 1;
    if (extent >= first.extent * second.extent) return false;
    const Expr u = Expr::index(text("u", i), extent);
    Substitution to;
    const Expr* gone = nullptr;
    if (std::abs(q) == 1 && p <= second.extent) {
      to = {{second.var, (u - back - first.var * p) * q}};
      gone = &first.var;
    } else if (p == 1 && std::abs(q) <= first.extent) {
      to = {{first.var, u - back - second.var * q}};
      gone = &second.var;
    } else {
      return false;
    }
    std::vector<Inst> insts = factor.insts;
    for (Inst& inst : insts) {
      substitute_in(inst, to);
      if (depends_on(inst.address, *gone) || depends_on(inst.guard, *gone)) return false;
    }
    Coordinate joined{u, extent, first.value * p + second.value * q + back, {first.axes[0], second.axes[0]}};
    factor.insts = std::move(insts);
    factor.coordinates[i] = std::move(joined);
    factor.coordinates.erase(factor.coordinates.begin() + static_cast<long>(j));
    return true;
  }

  std::vector<size_t> order_of(std::vector<size_t> axes, size_t last) const {
    auto found = std::ranges::find(axes, last);
    if (found != axes.end()) std::rotate(found, found + 1, axes.end());
    return axes;
  }

  int64_t product_of(const std::vector<size_t>& axes) const {
    int64_t n = 1;
    for (size_t i : axes) n *= walked(i);
    return n;
  }

  // Of the first axes.
  double points(size_t axes) const {
    double all = 1;
    for (size_t i = 0; i < axes; ++i) all *= static_cast<double>(extent(i));
    return all;
  }

  double result_bytes() const {
    double bytes = 0;
    for (size_t s = 1; s < loops_.stages.size(); ++s)
      for (const Inst& inst : loops_.stages[s].body.insts)
        if (inst.op == Op::store) bytes += static_cast<double>(size_of(loops_.buffer(inst).dtype));
    return bytes * points(loops_.outer.size());
  }

  bool lies_in_pieces(const Factor& factor, size_t fast) const {
    if (factor.insts.size() != 1 || factor.insts[0].op != Op::load) return false;
    if (extent(fast) % factor.piece() != 0) return false;
    // The load as it stands in the loops: the coordinates may have changed it.
    const Inst& load = definition(factor.narrow);
    return load.binds.empty() && in_pieces(load.address, load.guard, axis(fast).var, factor.piece());
  }

  // The cheapest way for a factor whose summed axes end in `last_summed`.
  Access best_access(const Factor& factor, size_t last_summed) const {
    Access best;
    auto consider = [&](bool packed, size_t fast, bool transposed) {
      if (transposed && (size_of(factor.dtype) != 2 || extent(fast) % factor.piece() != 0)) return;
      double cost = 0;
      if (packed) {
        const bool alone = std::ranges::any_of(
            factor.coordinates, [&](const Coordinate& c) { return c.axes.size() == 1 && c.axes[0] == fast; });
        double elements = 1;
        for (const Coordinate& c : factor.coordinates)
          elements *= static_cast<double>(c.axes[0] == fast ? round_up(c.extent, factor.piece()) : c.extent);
        if (!alone || elements > kMostElements) return;
        cost = 2 * elements * static_cast<double>(size_of(factor.dtype));
      } else if (!lies_in_pieces(factor, fast)) {
        return;
      }
      // Results that no longer lie side by side leave one by one.
      if (transposed && fast != factor.own.back() && is_columns(factor.own)) cost += kScattered * result_bytes();
      if (cost < best.cost) best = {packed, fast, transposed, cost};
    };
    for (bool packed : {false, true}) {
      consider(packed, last_summed, false);
      for (size_t i : factor.own) consider(packed, i, true);
    }
    return best;
  }

  // False if there is no way.
  bool choose() {
    double least = INFINITY;
    for (size_t n = summed_.size(); n-- > 0;) {
      const size_t last = summed_[n];
      const Access a = best_access(factors_[0], last), b = best_access(factors_[1], last);
      const bool along = !a.transposed || !b.transposed;  // pieces of some factor run along the sum
      const int64_t padded = along ? round_up(extent(last), factors_[0].piece()) : extent(last);
      const double cost =
          a.cost + b.cost +
          points(count()) / static_cast<double>(extent(last)) * static_cast<double>(padded) / kProductsPerByte;
      if (cost >= least) continue;
      least = cost;
      access_[0] = a;
      access_[1] = b;
      last_summed_ = last;
      padded_ = padded;
    }
    return std::isfinite(least);
  }

  // Whether results along these axes are neighbours in memory.
  bool is_columns(const std::vector<size_t>& own) const {
    for (size_t s = 1; s < loops_.stages.size(); ++s)
      for (const Inst& inst : loops_.stages[s].body.insts) {
        if (inst.op != Op::store) continue;
        const std::optional<Linear> linear = linear_in(inst.address, axis(own.back()).var);
        if (linear && linear->coefficient == 1) return true;
      }
    return false;
  }

  // The step that writes a factor; `address`: where, in terms of the axes.
  Program::Step pack(const Factor& factor, const Access& access, Expr& address) {
    std::vector<Coordinate> order = factor.coordinates;
    auto fast = std::ranges::find_if(
        order, [&](const Coordinate& c) { return c.axes.size() == 1 && c.axes[0] == access.fast; });
    std::rotate(fast, fast + 1, order.end());
    const int64_t wanted = order.back().extent, padded = round_up(wanted, factor.piece());
    Substitution to;
    if (padded != wanted) {
      Coordinate& last = order.back();
      const Expr var = Expr::index(last.var.name(), padded);
      to = {{last.var, var}};
      last.var = var;
      last.extent = padded;
    }
    Program::Step step;
    step.tf32 = step_.tf32;
    step.after = step_.after;
    Loops& loops = step.loops;
    loops.name = "pack_" + loops_.name;
    loops.buffers = loops_.buffers;
    loops.values = loops_.values;
    Stage stage;
    const Expr inside = padded != wanted ? lt(order.back().var, wanted) : Expr(1);
    for (Inst inst : factor.insts) {
      substitute_in(inst, to);
      if (inst.op == Op::load) inst.guard = logical_and(inst.guard, inside);
      stage.body.insts.push_back(std::move(inst));
    }
    Expr element = 0;
    int64_t stride = 1;
    address = 0;
    for (size_t n = order.size(); n-- > 0;) {
      element = element + order[n].var * stride;
      address = address + order[n].value * stride;
      stride *= order[n].extent;
    }
    Shape shape;
    for (const Coordinate& c : order) {
      loops.outer.push_back({c.var, c.extent});
      shape.push_back(c.extent);
    }
    kernel::Builder builder(loops.values, stage.body);
    Value v = factor.narrow;
    if (padded != wanted && factor.insts.back().op != Op::load)
      v = builder.op(ScalarOp::where,
                     {builder.index(DType::boolean, inside, {}), v, builder.constant(Scalar::of(factor.dtype, 0))});
    for (Inst& inst : stage.body.insts)
      if (inst.buffer >= 0) ++inst.buffer;
    kernel::Builder::Access where;
    where.address = element;
    builder.store(0, v, where);
    loops.stages.push_back(std::move(stage));
    program_.made.push_back(make_input(static_cast<int64_t>(program_.made.size()), 0, factor.dtype, shape));
    program_.tensors.push_back({program_.made.back().get()});
    program_.tensors.back().packed = true;
    step.segments = step_.segments;
    keep_used(loops, step.segments[0],
              {{text("packed", program_.made.size()), factor.dtype, kernel::Space::Out, stride}},
              {static_cast<int>(program_.tensors.size()) - 1});
    merge_axes(loops);
    return step;
  }

  Program::Step multiply(std::span<const Expr> packed) {
    Program::Step step = step_;
    Loops& loops = step.loops;
    Stage& product = loops.stages[0];
    const std::vector<Axis> outer = loops.outer;
    std::vector<size_t> rows = order_of(factors_[0].own, access_[0].transposed ? access_[0].fast : SIZE_MAX);
    std::vector<size_t> columns = order_of(factors_[1].own, access_[1].transposed ? access_[1].fast : SIZE_MAX);
    if (is_columns(rows) && !is_columns(columns)) std::swap(rows, columns);
    const std::vector<size_t> summed = order_of(summed_, last_summed_);
    std::vector<Axis> flattened;
    for (size_t i : batch_) flattened.push_back(outer[i]);
    Substitution to;
    // One axis of several: the last of them is the fastest.
    auto flatten = [&](const std::vector<size_t>& axes, const char* name) {
      const Expr extent = product_of(axes), whole = Expr::index(name, extent);
      int64_t inside = 1;
      for (size_t n = axes.size(); n-- > 0; inside *= walked(axes[n])) {
        const Expr at = floordiv(whole, inside);
        to.emplace_back(axis(axes[n]).var, n == 0 ? at : mod(at, walked(axes[n])));
      }
      return Axis{whole, extent};
    };
    flattened.push_back(flatten(rows, "m"));
    flattened.push_back(flatten(columns, "n"));
    const Axis depth = flatten(summed, "k");
    // The last summed axis begins anew after so many steps as it is walked as.
    const Expr inside = lt(mod(depth.var, padded_), extent(last_summed_));
    std::vector<Inst> insts;
    const int fresh = access_[0].packed + access_[1].packed;
    for (int f : {0, 1}) {
      const Factor& factor = factors_[f];
      Inst load;
      if (access_[f].packed) {
        load.op = Op::load;
        load.results = {factor.narrow};
        load.buffer = access_[0].packed ? f : 0;
        load.address = packed[f];
      } else {
        load = definition(factor.narrow);
        load.buffer += fresh;
      }
      substitute_in(load, to);
      // Only what is packed along the sum has zeros behind its end.
      if (!access_[f].packed || access_[f].transposed) load.guard = logical_and(load.guard, inside);
      insts.push_back(std::move(load));
      if (factor.value != factor.narrow) insts.push_back(definition(factor.value));
    }
    insts.push_back(definition(product.body.results[0]));
    product.body.insts = std::move(insts);
    product.inner = {depth};
    for (size_t s = 1; s < loops.stages.size(); ++s)
      for (Inst& inst : loops.stages[s].body.insts) {
        if (inst.buffer >= 0) inst.buffer += fresh;
        substitute_in(inst, to);
      }
    loops.outer = std::move(flattened);
    keep_used(loops, step.segments[0], buffers_, tensors_);
    return step;
  }

  size_t count() const { return loops_.outer.size() + loops_.stages[0].inner.size(); }
  const Axis& axis(size_t i) const { return loops_.axis(loops_.stages[0], i); }
  int64_t extent(size_t i) const { return axis(i).extent.value(); }
  const Inst& definition(Value v) const { return *heddle::definition(loops_.stages[0], v); }
  bool is_summed(size_t i) const { return i >= loops_.outer.size(); }
  int64_t walked(size_t axis) const { return axis == last_summed_ ? padded_ : extent(axis); }

  Program& program_;
  Program::Step& step_;
  const Loops& loops_;
  const bool all_;
  Factor factors_[2];
  Access access_[2];
  std::vector<size_t> batch_, summed_;
  size_t last_summed_ = SIZE_MAX;
  int64_t padded_ = 1;  // what the last summed axis is walked as
  std::vector<int> tensors_;
  std::vector<kernel::Buffer> buffers_;
};

}  // namespace

void pack_product(Program& program, Program::Step step, bool all, std::vector<Program::Step>& steps) {
  std::vector<Program::Step> packed = Packer(program, step, all).run();
  if (packed.empty())
    steps.push_back(std::move(step));
  else
    std::ranges::move(packed, std::back_inserter(steps));
}

}  // namespace heddle
