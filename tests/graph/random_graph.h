// Random graphs over all kinds of nodes, scalar ops and dtypes, for comparing implementations with the oracle.
//
// The same seed and options give the same graph everywhere. Values stay bounded and finite, ops that jump (floor,
// comparisons, argmax, casts to integers) see only operands whose bits are certain, and each root comes with the
// difference that rounding may legitimately make.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "graph/random_values.h"

namespace heddle::testing {

struct RandomGraphOptions {
  int steps = 24;       // operations, some of several nodes
  int max_nodes = 100;  // of the whole graph
  int max_rank = 4;
  int64_t max_elements = 300;  // of any tensor
  int max_roots = 3;
  bool zero_sizes = true;      // now and then a dimension of size zero
  bool symbolic = false;       // some dimensions are bound symbols; RandomGraph::symbols gives their values
  uint64_t variant = 0;        // of a symbolic graph: the same graph with other values of the symbols, and other data
  bool as_numbers = false;     // of a symbolic graph: the values of its symbols stand in the shapes
  bool bits_of_floats = true;  // floats reinterpreted as integers
  bool drop_constants = true;  // mostly go on without results that folded to a constant
  // Applied to every new value: lets a test put something else of equal value in its place.
  std::function<NodeRef(const NodeRef&, const SymbolValues&)> wrap;
  // Repeated ones are chosen more often.
  std::vector<DType> dtypes = {DType::boolean, DType::i8,  DType::i16,    DType::i32,    DType::i64,
                               DType::u8,      DType::u16, DType::u32,    DType::u64,    DType::f16,
                               DType::bf16,    DType::f32, DType::f8e4m3, DType::f8e5m2, DType::f64,
                               DType::f32,     DType::f32, DType::f32,    DType::i32};
};

struct RandomGraph {
  std::vector<NodeRef> roots;
  std::vector<double> tolerances;  // per root, absolute; 0 for integers and certain floats
  std::vector<NodeRef> leaves;     // the buffers
  SymbolValues symbols;
};

// SplitMix64: the same numbers with every standard library.
class Random {
 public:
  // Mixed, so that the streams of neighbouring seeds are not shifts of each other.
  explicit Random(uint64_t seed) : state_(hash_combine(0x68656464, seed)) {}
  uint64_t bits() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  int64_t below(int64_t n) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(n)); }
  int64_t between(int64_t lo, int64_t hi) { return lo + below(hi - lo + 1); }
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  bool chance(double p) { return uniform() < p; }
  template <class List>
  const auto& of(const List& list) {
    return list[static_cast<size_t>(below(static_cast<int64_t>(list.size())))];
  }

 private:
  uint64_t state_;
};

class RandomGraphMaker {
 public:
  RandomGraphMaker(uint64_t seed, const RandomGraphOptions& options) : random_(seed), options_(options) {}

  RandomGraph make() {
    if (options_.symbolic) make_symbols();
    int64_t leaves = random_.between(1, 3);
    for (int64_t i = 0; i < leaves; ++i) pool_.push_back(leaf(random_shape(), random_dtype()));
    int done = 0;
    for (int attempt = 0; done < options_.steps && attempt < 3 * options_.steps; ++attempt)
      if (MaybeValue next = step(); next && fits(*next)) {
        if (options_.wrap) next->node = options_.wrap(next->node, graph_.symbols);
        pool_.push_back(*next);
        ++done;
      }
    int64_t roots = random_.between(1, options_.max_roots);
    for (int64_t i = 0; i < roots; ++i) {
      const Value& root = i == 0 ? pool_.back() : random_.of(pool_);
      graph_.roots.push_back(root.node);
      if (i > 0 && topological(graph_.roots).size() > static_cast<size_t>(options_.max_nodes)) {
        graph_.roots.pop_back();
        break;
      }
      graph_.tolerances.push_back(2 * root.error);
    }
    return std::move(graph_);
  }

 private:
  // One to three sizes. Nothing but this and the data depends on the values: all variants are the same graph.
  void make_symbols() {
    const char* names[] = {"n", "m", "k"};
    for (int64_t i = 0, count = random_.between(1, 3); i < count; ++i) {
      int64_t multiple = random_.of(std::vector<int64_t>{1, 1, 1, 2, 4});
      int64_t lo = random_.of(std::vector<int64_t>{0, 1, 1, 2, 5}) * multiple;
      int64_t hi = lo + multiple * random_.of(std::vector<int64_t>{1, 3, 6, 12, 30});
      Random values(hash_combine(random_.bits(), options_.variant));
      int64_t value = multiple * values.between(lo / multiple, hi / multiple);
      if (values.chance(0.2)) value = lo;
      if (values.chance(0.1)) value = hi;
      Expr size = options_.as_numbers ? Expr(value) : Expr::bound(Expr::symbol(names[i], lo, hi, multiple), value);
      graph_.symbols.push_back({size, value});
    }
  }
  // At most, whatever the symbols are.
  static int64_t size(const Expr& dim) { return dim.hi(); }
  static int64_t elements(const Shape& shape) {
    int64_t n = 1;
    for (const Expr& dim : shape) n *= size(dim);
    return n;
  }
  static bool may_be_empty(const Expr& dim) { return dim.lo() <= 0; }
  // Small enough, and mostly something that is still to be computed.
  bool fits(const Value& x) {
    if (options_.drop_constants && x.node->op == NodeOp::Const && random_.chance(0.85)) return false;
    return elements(x.shape()) <= options_.max_elements &&
           topological(std::span(&x.node, 1)).size() <= static_cast<size_t>(options_.max_nodes);
  }
  DType random_dtype() { return random_.of(options_.dtypes); }
  int random_axis(const Value& x) { return static_cast<int>(random_.below(x.shape().rank())); }
  bool has_dtype(DType dtype) const {
    return std::find(options_.dtypes.begin(), options_.dtypes.end(), dtype) != options_.dtypes.end();
  }

  Shape random_shape() {
    Shape shape;
    int64_t rank = random_.between(0, options_.max_rank);
    for (int64_t i = 0; i < rank; ++i) {
      Expr dim = random_.of(std::vector<int64_t>{1, 2, 3, 4, 5, 7, 8, 13, 16});
      if (options_.zero_sizes && random_.chance(0.02)) dim = 0;
      if (options_.symbolic && random_.chance(0.3)) dim = random_.of(graph_.symbols).first;
      shape.push_back(dim);
      if (elements(shape) > options_.max_elements / 4) shape.back() = 1;
    }
    return shape;
  }

  // Realised data: halves that stay exact in every dtype, or any floats.
  Value leaf(const Shape& shape, DType dtype) {
    if (random_.chance(0.08)) return constant(dtype, static_cast<double>(random_.between(0, 3)), shape);
    int64_t n = known_value(shape.numel()).value();
    bool halves = random_.chance(0.6);
    // In a stream of its own, so that other sizes leave the rest of the graph alone.
    Random own(options_.symbolic ? hash_combine(random_.bits(), options_.variant) : 0);
    Random& data = options_.symbolic ? own : random_;
    auto storage = std::make_shared<HostStorage>(static_cast<uint64_t>(n * size_of(dtype)));
    for (int64_t i = 0; i < n; ++i) {
      Scalar element = Scalar::from_bits(dtype, 0);
      if (is_float(dtype))
        element = Scalar::of(dtype, halves ? static_cast<double>(data.between(-6, 6)) / 2 : data.uniform() * 4 - 2);
      else if (dtype == DType::boolean)
        element = Scalar::of(dtype, data.chance(0.5));
      else if (halves)
        element = Scalar::of(dtype, data.between(is_signed(dtype) ? -9 : 0, 9));
      else
        element = Scalar::from_bits(dtype, data.bits() >> (64 - 8 * size_of(dtype)));
      store_scalar(storage->data(), i, element);
    }
    NodeRef node = make_buffer(storage, dtype, shape);
    graph_.leaves.push_back(node);
    if (is_float(dtype)) return Value{node, 3, 0, halves ? 1 : -1};
    return integer_result(node, halves ? 9 : integer_limit(dtype));
  }

  // x seen in a wider shape, NumPy's way; nothing if it does not fit.
  MaybeValue broadcast(const Value& x, const Shape& shape) {
    if (x.shape().size() > shape.size()) return {};
    Shape aligned;
    for (size_t i = x.shape().size(); i < shape.size(); ++i) aligned.push_back(1);
    aligned.append(x.shape().begin(), x.shape().end());
    for (size_t i = 0; i < shape.size(); ++i)
      if (!aligned[i].is_const(1) && aligned[i] != shape[i]) return {};
    return moved(x, make_expand(make_reshape(x.node, aligned), shape));
  }

  // Another value of this shape and dtype: one we have, made to fit if need be, or a new leaf.
  Value partner(const Shape& shape, DType dtype) {
    for (int attempt = 0; attempt < 6; ++attempt) {
      MaybeValue candidate = broadcast(random_.of(pool_), shape);
      if (candidate) candidate = cast_to(*candidate, dtype);
      if (candidate) return *candidate;
    }
    if (random_.chance(0.3)) return constant(dtype, static_cast<double>(random_.between(0, 4)) / 2, shape);
    Shape thin = shape;
    for (Expr& dim : thin)
      if (!dim.is_const(0) && random_.chance(0.3)) dim = 1;
    Value small = leaf(thin, dtype);
    return moved(small, make_expand(small.node, shape));
  }

  MaybeValue step() {
    const Value x = random_.chance(0.65) ? pool_.back() : random_.of(pool_);
    switch (random_.below(25)) {
      case 0:
      case 20: return random_unary(x);
      case 1:
      case 2:
      case 3:
      case 21: return random_binary(x);
      case 4: return random_other_scalar(x);
      case 5: return cast_to(x, random_dtype());
      case 6:
        if (random_.chance(0.5))
          return options_.bits_of_floats || !is_float(x.dtype()) ? reinterpreted(x) : MaybeValue();
        return barrier(x);
      case 7:
      case 8: return reduce(x);
      case 9: return random_.chance(0.5) ? arg_reduce(x) : sort(x);
      case 23:
      case 24: return scan(x);
      case 10: return reshape(x);
      case 11: return permute(x);
      case 12: return expand(x);
      case 13: return pad(x);
      case 14: return shrink(x);
      case 15: return flip(x);
      case 16: return random_.chance(0.6) ? window(x) : unwindow(x);
      case 17: return cat(x);
      case 18: return random_.chance(0.7) ? gather(x) : iota(x);
      case 19: return random_.chance(0.6) ? scatter(x) : gather_along(x);
      default: return pattern(x);
    }
  }

  ScalarOp random_op(int arity) {
    for (;;) {
      ScalarOp op = static_cast<ScalarOp>(random_.below(kScalarOpCount));
      if (info(op).arity == arity) return op;
    }
  }

  MaybeValue random_unary(const Value& x) {
    for (int attempt = 0; attempt < 4; ++attempt) {
      ScalarOp op = random_op(1);
      MaybeValue result = unary(op, x);
      if (!result) result = of_positive(op, x);
      if (!result) result = of_small(op, x);
      if (result) return result;
    }
    return {};
  }

  MaybeValue random_binary(const Value& x) {
    ScalarOp op = random_op(2);
    if (op == ScalarOp::pow) return power(x, random_.of(std::vector<double>{0.5, 1.5, 2, 3, -1}));
    if (op == ScalarOp::floordiv || op == ScalarOp::mod) {
      if (!is_float(x.dtype()) && random_.chance(0.5)) return binary(op, x, partner(x.shape(), x.dtype()));
      return remainder(op, x, random_.of(std::vector<double>{1, 2, 3, -2, 4, 5}));
    }
    Value y = partner(x.shape(), x.dtype());
    if (op == ScalarOp::div) return divided(x, y);
    if (op == ScalarOp::atan2) return angle(x, y);
    if ((op == ScalarOp::shl || op == ScalarOp::shr) && is_integer(x.dtype()) && random_.chance(0.8)) {
      MaybeValue count = binary(ScalarOp::bit_and, y, constant(y.dtype(), 7, y.shape()));
      return count ? binary(op, x, *count) : MaybeValue();
    }
    return random_.chance(0.5) ? binary(op, x, y) : binary(op, y, x);
  }

  MaybeValue random_other_scalar(const Value& x) {
    if (random_.chance(0.5)) {
      Value y = partner(x.shape(), x.dtype()), z = partner(x.shape(), x.dtype());
      return fused_multiply_add(x, y, z);
    }
    Value condition = partner(x.shape(), DType::boolean);
    return chosen(condition, x, partner(x.shape(), x.dtype()));
  }

  MaybeValue barrier(const Value& x) { return moved(x, make_barrier(x.node, random_.of(pool_).node)); }

  MaybeValue reduce(const Value& x) {
    std::vector<int> axes;
    int64_t count = 1;
    for (int axis = 0; axis < x.shape().rank(); ++axis)
      if (random_.chance(0.5)) {
        axes.push_back(axis);
        count *= size(x.shape()[static_cast<size_t>(axis)]);
      }
    ReduceOp op =
        random_.of(std::vector<ReduceOp>{ReduceOp::Sum, ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min});
    for (int axis : axes) {
      const Expr& dim = x.shape()[static_cast<size_t>(axis)];
      if (op != ReduceOp::Sum && !dim.is_const() && may_be_empty(dim)) return {};
    }
    return reduced_value(op, x, axes, count);
  }

  MaybeValue scan(const Value& x) {
    if (x.shape().rank() == 0) return {};
    int axis = random_axis(x);
    ReduceOp op =
        random_.of(std::vector<ReduceOp>{ReduceOp::Sum, ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min});
    bool backwards = random_.chance(0.3);
    Value from = backwards ? moved(x, make_flip(x.node, std::span(&axis, 1))) : x;
    MaybeValue result = scanned_value(op, from, axis, size(x.shape()[static_cast<size_t>(axis)]));
    return result && backwards ? moved(*result, make_flip(result->node, std::span(&axis, 1))) : result;
  }

  MaybeValue arg_reduce(const Value& x) {
    if (x.shape().rank() == 0 || !has_dtype(DType::i64)) return {};
    int axis = random_axis(x);
    if (may_be_empty(x.shape()[static_cast<size_t>(axis)])) return {};
    NodeRef best = make_arg_reduce(random_.chance(0.5) ? ReduceOp::Max : ReduceOp::Min, x.node, axis);
    Value value = moved(x, make_get(best, 0));
    if (!x.certain() || random_.chance(0.3)) return value;
    Value position = integer_result(make_get(best, 1), 300);
    if (random_.chance(0.3)) pool_.push_back(value);
    return position;
  }

  MaybeValue sort(const Value& x) {
    if (x.shape().rank() == 0 || !x.shape().is_static() || !has_dtype(DType::i64)) return {};
    const Expr& n = x.shape().back();
    int64_t kept = random_.chance(0.5) || n.is_const(0) ? n.value() : random_.between(1, n.value());
    NodeRef sorted = make_sort(x.node, random_.chance(0.5), kept);
    Value value = moved(x, make_get(sorted, 0));
    if (!x.certain() || random_.chance(0.4)) return value;
    Value position = integer_result(make_get(sorted, 1), 300);
    if (random_.chance(0.4)) pool_.push_back(value);
    return position;
  }

  MaybeValue reshape(const Value& x) {
    // Join neighbours, split an axis, or put in and take out ones.
    Shape shape = x.shape();
    for (int64_t change = random_.between(1, 3); change > 0; --change) {
      size_t at = static_cast<size_t>(random_.below(static_cast<int64_t>(shape.size()) + 1));
      int kind = static_cast<int>(random_.below(4));
      if (kind == 0 && at + 1 < shape.size()) {
        shape[at] = shape[at] * shape[at + 1];
        shape.erase(at + 1);
      } else if (kind == 1 && at < shape.size() && shape[at].is_const() && shape[at].value() > 3) {
        for (int64_t factor : {2, 3, 5, 7})
          if (shape[at].value() % factor == 0) {
            shape[at] = shape[at].value() / factor;
            shape.insert(at + static_cast<size_t>(random_.below(2)), factor);
            break;
          }
      } else if (kind == 1 && at < shape.size() && !shape[at].is_const() && shape[at].multiple() % 2 == 0) {
        shape[at] = floordiv(shape[at], 2);
        shape.insert(at + static_cast<size_t>(random_.below(2)), 2);
      } else if (kind == 2 && shape.rank() < options_.max_rank) {
        shape.insert(at, 1);
      } else if (kind == 3 && at < shape.size() && shape[at].is_const(1)) {
        shape.erase(at);
      }
    }
    if (shape.rank() > options_.max_rank + 1) return {};
    return moved(x, make_reshape(x.node, shape));
  }

  MaybeValue permute(const Value& x) {
    std::vector<int> axes;
    for (int i = 0; i < x.shape().rank(); ++i) axes.insert(axes.begin() + random_.between(0, i), i);
    return moved(x, make_permute(x.node, axes));
  }

  MaybeValue expand(const Value& x) {
    Shape from = x.shape(), to;
    if (from.rank() < options_.max_rank && random_.chance(0.5))
      from.insert(static_cast<size_t>(random_.between(0, from.rank())), 1);
    for (const Expr& dim : from) {
      Expr wide = dim;
      if (dim.is_const(1) && random_.chance(0.7)) wide = random_.between(1, 5);
      if (dim.is_const(1) && options_.symbolic && random_.chance(0.4)) wide = random_.of(graph_.symbols).first;
      to.push_back(wide);
    }
    return moved(x, make_expand(make_reshape(x.node, from), to));
  }

  MaybeValue pad(const Value& x) {
    SmallVector<Expr, 4> before, after;
    for (int i = 0; i < x.shape().rank(); ++i) {
      before.push_back(random_.chance(0.4) ? random_.between(1, 3) : 0);
      after.push_back(random_.chance(0.4) ? random_.between(1, 3) : 0);
    }
    Value fill = constant(x.dtype(), static_cast<double>(random_.between(0, 4)) / 2, {});
    NodeRef node = make_pad(x.node, before, after, fill.node->literal);
    return Value{node, std::max(x.bound, fill.bound), x.error, x.grain < 0 ? -1 : std::max(x.grain, fill.grain)};
  }

  MaybeValue shrink(const Value& x) {
    SmallVector<Expr, 4> begin, extent;
    for (const Expr& dim : x.shape()) {
      if (!dim.is_const() && dim.lo() > 0 && random_.chance(0.5)) {
        // Some from the front, some from the back, one element, or as many as there always are.
        int64_t front = random_.between(0, dim.lo()), back = random_.between(0, dim.lo() - front);
        bool fixed = front < dim.lo() && random_.chance(0.4);
        begin.push_back(fixed && random_.chance(0.5) ? dim - (dim.lo() - front) : Expr(front));
        extent.push_back(fixed ? Expr(random_.between(1, dim.lo() - front)) : dim - front - back);
        continue;
      }
      if (!dim.is_const() || random_.chance(0.4)) {
        begin.push_back(0);
        extent.push_back(dim);
        continue;
      }
      int64_t first = random_.between(0, dim.value()), left = dim.value() - first;
      bool empty = left == 0 || (options_.zero_sizes && random_.chance(0.02));
      if (left == 0 && !options_.zero_sizes) first = 0, left = dim.value();
      begin.push_back(first);
      extent.push_back(empty && options_.zero_sizes ? 0 : random_.between(std::min<int64_t>(1, left), left));
    }
    return moved(x, make_shrink(x.node, begin, extent));
  }

  MaybeValue flip(const Value& x) {
    std::vector<int> axes;
    for (int i = 0; i < x.shape().rank(); ++i)
      if (random_.chance(0.5)) axes.push_back(i);
    return moved(x, make_flip(x.node, axes));
  }

  MaybeValue window(const Value& x) {
    if (x.shape().rank() == 0) return {};
    int axis = random_axis(x);
    int64_t extent = random_.between(1, 3), stride = random_.between(1, 3), dilation = random_.between(1, 2);
    if (x.shape()[static_cast<size_t>(axis)].lo() < dilation * (extent - 1) + 1) return {};
    return moved(x, make_window(x.node, axis, extent, stride, dilation));
  }

  MaybeValue unwindow(const Value& x) {
    if (x.shape().rank() < 2 || x.dtype() == DType::boolean) return {};
    int axis = static_cast<int>(random_.below(x.shape().rank() - 1));
    const Expr &positions = x.shape()[static_cast<size_t>(axis)], &inside = x.shape().back();
    if (positions.lo() < 1 || !inside.is_const() || inside.value() < 1) return {};
    int64_t stride = random_.between(1, 3), dilation = random_.between(1, 2), extent = inside.value();
    Expr n = (positions - 1) * stride + (dilation * (extent - 1) + 1 + random_.below(stride));
    NodeRef node = make_unwindow(x.node, axis, extent, stride, dilation, n);
    double overlap = static_cast<double>(extent);
    if (!is_float(x.dtype())) return integer_result(node, x.bound * overlap);
    return float_result(node, x.bound * overlap, x.error * overlap + (x.certain() ? 0 : x.bound * unit(x.dtype())),
                        x.grain);
  }

  MaybeValue cat(const Value& x) {
    if (x.shape().rank() == 0) return {};
    int axis = random_axis(x);
    std::vector<NodeRef> parts{x.node};
    Value all = x;
    for (int64_t more = random_.between(1, 2); more > 0; --more) {
      Shape shape = x.shape();
      if (random_.chance(0.5)) shape[static_cast<size_t>(axis)] = random_.between(options_.zero_sizes ? 0 : 1, 4);
      Value part = partner(shape, x.dtype());
      all.bound = std::max(all.bound, part.bound);
      all.error = std::max(all.error, part.error);
      all.grain = all.grain < 0 || part.grain < 0 ? -1 : std::max(all.grain, part.grain);
      parts.insert(parts.begin() + random_.between(0, static_cast<int64_t>(parts.size())), part.node);
    }
    return moved(all, make_cat(parts, axis));
  }

  MaybeValue gather(const Value& x) {
    if (x.shape().rank() == 0) return {};
    int axis = random_axis(x);
    if (may_be_empty(x.shape()[static_cast<size_t>(axis)])) return {};
    MaybeValue index;
    for (int attempt = 0; attempt < 4 && !index; ++attempt) {
      const Value& candidate = random_.of(pool_);
      if (is_integer(candidate.dtype()) && candidate.shape().rank() <= 2) index = candidate;
    }
    if (!index) {
      DType dtype = has_dtype(DType::i64) ? DType::i64 : DType::i32;
      if (!has_dtype(dtype)) return {};
      Shape shape;
      for (int64_t rank = random_.between(0, 2); rank > 0; --rank) shape.push_back(random_.between(1, 4));
      index = leaf(shape, dtype);
    }
    if (x.shape().rank() - 1 + index->shape().rank() > options_.max_rank + 1) return {};
    if (elements(x.shape()) * elements(index->shape()) > 4 * options_.max_elements) return {};
    // Mostly in range.
    int64_t n = size(x.shape()[static_cast<size_t>(axis)]);
    if (index->bound >= static_cast<double>(n) && n < 100 && random_.chance(0.8)) {
      MaybeValue inside = remainder(ScalarOp::mod, *index, static_cast<double>(n));
      if (inside) index = inside;
    }
    return moved(x, make_gather(x.node, index->node, axis));
  }

  // Indices along an axis of `n` elements, a few of them out of range: for all other axes alike, or not.
  MaybeValue indices(const Shape& shape, int axis, int64_t n) {
    DType dtype = random_.of(std::vector<DType>{DType::i64, DType::i32, DType::u8, DType::u64});
    if (!has_dtype(dtype) || n > 100) return {};
    bool alike = random_.chance(0.5);
    Shape own = alike ? Shape(shape.size(), Expr(1)) : shape;
    own[static_cast<size_t>(axis)] = shape[static_cast<size_t>(axis)];
    MaybeValue places =
        remainder(ScalarOp::mod, leaf(own, dtype), static_cast<double>(n + (random_.chance(0.2) ? 2 : 0)));
    return places ? broadcast(*places, shape) : MaybeValue();
  }

  MaybeValue gather_along(const Value& x) {
    if (x.shape().rank() == 0) return {};
    int axis = random_axis(x);
    int64_t n = size(x.shape()[static_cast<size_t>(axis)]);
    Shape shape = x.shape();
    shape[static_cast<size_t>(axis)] = random_.between(1, 6);
    if (may_be_empty(x.shape()[static_cast<size_t>(axis)]) || elements(shape) > options_.max_elements) return {};
    MaybeValue index = indices(shape, axis, n);
    return index ? moved(x, make_gather_along(x.node, index->node, axis)) : MaybeValue();
  }

  MaybeValue scatter(const Value& x) {
    if (x.shape().rank() == 0) return {};
    int axis = random_axis(x);
    int64_t n = size(x.shape()[static_cast<size_t>(axis)]), count = random_.between(1, 9);
    Shape shape = x.shape();
    shape[static_cast<size_t>(axis)] = count;
    if (may_be_empty(x.shape()[static_cast<size_t>(axis)]) || elements(shape) > options_.max_elements) return {};
    MaybeValue index = indices(shape, axis, n);
    if (!index) return {};
    ScatterOp op = static_cast<ScatterOp>(random_.below(5));
    if (op == ScatterOp::Mul && is_float(x.dtype())) op = ScatterOp::Add;
    Value updates = partner(shape, x.dtype());
    NodeRef node = make_scatter(op, x.node, index->node, updates.node, axis);
    double times = static_cast<double>(count);
    if (!is_float(x.dtype())) {
      bool sums = op == ScatterOp::Add && is_integer(x.dtype());
      double bound = op == ScatterOp::Mul ? integer_limit(x.dtype()) : std::max(x.bound, updates.bound);
      return integer_result(node, sums ? x.bound + times * updates.bound : bound);
    }
    int grain = x.grain < 0 || updates.grain < 0 ? -1 : std::max(x.grain, updates.grain);
    if (op != ScatterOp::Add)
      return float_result(node, std::max(x.bound, updates.bound), std::max(x.error, updates.error), grain);
    double bound = x.bound + times * updates.bound;
    MaybeValue sum = float_result(node, bound, x.error + times * updates.error, grain);
    if (sum && !sum->certain()) sum->error += times * bound * unit(x.dtype());
    return sum;
  }

  MaybeValue iota(const Value& x) {
    DType dtype = random_.chance(0.5) ? DType::i32 : DType::i64;
    if (x.shape().rank() == 0 || !has_dtype(dtype)) return {};
    if (options_.symbolic && random_.chance(0.3)) {
      // A size as data: the last of the positions 0 to size.
      const Expr& dim = random_.of(x.shape());
      Expr begin[] = {dim}, one[] = {1};
      NodeRef last = make_shrink(make_iota(dtype, Shape{dim + 1}, 0), begin, one);
      return integer_result(make_reshape(last, {}), static_cast<double>(size(dim)));
    }
    return integer_result(make_iota(dtype, x.shape(), random_axis(x)), static_cast<double>(options_.max_elements));
  }

  // A reduction over the last axis, repeated along it.
  MaybeValue along_last(ReduceOp op, const Value& v) {
    int last = v.shape().rank() - 1;
    MaybeValue result = reduced_value(op, v, std::span(&last, 1), size(v.shape().back()));
    if (!result) return {};
    Shape kept = v.shape();
    kept.back() = 1;
    return moved(*result, make_expand(make_reshape(result->node, kept), v.shape()));
  }

  // x[..., k] times y[k, m], summed over k.
  MaybeValue contraction(const Value& x) {
    int last = x.shape().rank() - 1;
    Expr m = random_.between(1, 4);
    if (options_.symbolic && random_.chance(0.3)) m = random_.of(graph_.symbols).first;
    Shape wide = x.shape();
    wide.insert(static_cast<size_t>(last), m);
    if (elements(wide) > 4 * options_.max_elements) return {};
    Shape thin = x.shape();
    thin.insert(static_cast<size_t>(last), 1);
    Value a = moved(x, make_expand(make_reshape(x.node, thin), wide));
    Value weights = partner({x.shape().back(), m}, x.dtype());
    int swap[] = {1, 0};
    MaybeValue b = broadcast(moved(weights, make_permute(weights.node, swap)), wide);
    MaybeValue product = b ? binary(ScalarOp::mul, a, *b) : MaybeValue();
    int axis = last + 1;
    return product ? reduced_value(ReduceOp::Sum, *product, std::span(&axis, 1), size(x.shape().back())) : MaybeValue();
  }

  MaybeValue softmax(const Value& x) {
    MaybeValue top = along_last(ReduceOp::Max, x);
    MaybeValue shifted = top ? binary(ScalarOp::sub, x, *top) : MaybeValue();
    if (!shifted) return {};
    MaybeValue e = float_result(scalar_node(ScalarOp::exp, {shifted->node}), 1, shifted->error * 1.1, -1);
    MaybeValue total = e ? along_last(ReduceOp::Sum, *e) : MaybeValue();
    if (!total) return {};
    return float_result(scalar_node(ScalarOp::div, {e->node, total->node}), 1, e->error + total->error, -1);
  }

  // What people write: contractions, softmax, normalisation, attention, over the last axis.
  MaybeValue pattern(const Value& x) {
    if (x.shape().rank() == 0 || may_be_empty(x.shape().back()) || elements(x.shape()) == 0) return {};
    int64_t n = size(x.shape().back());
    auto along = [&](ReduceOp op, const Value& v) { return along_last(op, v); };
    int64_t kind = random_.below(4);
    if (kind == 0) return contraction(x);
    if (!is_float(x.dtype())) return {};
    if (kind == 1) return softmax(x);
    if (kind == 2) {
      // A sum over what is itself made of sums.
      MaybeValue scores = random_.chance(0.8) ? contraction(x) : x;
      if (!scores || may_be_empty(scores->shape().back())) return {};
      MaybeValue weights = random_.chance(0.8) ? softmax(*scores) : random_unary(*scores);
      if (!weights || !is_float(weights->dtype())) return {};
      return contraction(*weights);
    }
    Value scale = constant(x.dtype(), 1.0 / static_cast<double>(n), x.shape());
    MaybeValue sum = along(ReduceOp::Sum, x);
    MaybeValue mean = sum ? binary(ScalarOp::mul, *sum, scale) : MaybeValue();
    MaybeValue centred = mean ? binary(ScalarOp::sub, x, *mean) : MaybeValue();
    MaybeValue square = centred ? binary(ScalarOp::mul, *centred, *centred) : MaybeValue();
    MaybeValue squares = square ? along(ReduceOp::Sum, *square) : MaybeValue();
    MaybeValue variance = squares ? binary(ScalarOp::mul, *squares, scale) : MaybeValue();
    MaybeValue deviation = variance ? of_positive(ScalarOp::sqrt, *variance) : MaybeValue();
    return deviation ? divided(*centred, *deviation) : MaybeValue();
  }

  Random random_;
  RandomGraphOptions options_;
  std::vector<Value> pool_;
  RandomGraph graph_;
};

inline RandomGraph random_graph(uint64_t seed, const RandomGraphOptions& options = {}) {
  return RandomGraphMaker(seed, options).make();
}

// Empty if `got` agrees with what the oracle says within the tolerance; else what is wrong and where.
inline std::string difference(const HostArray& expected, const HostArray& got, double tolerance) {
  if (expected.dtype != got.dtype) return text("dtype ", got.dtype, " instead of ", expected.dtype);
  if (expected.shape != got.shape) return "another shape";
  for (size_t i = 0; i < expected.integers.size(); ++i)
    if (expected.integers[i] != got.integers[i])
      return text("element ", i, " is ", static_cast<int64_t>(got.integers[i]), " instead of ",
                  static_cast<int64_t>(expected.integers[i]));
  for (size_t i = 0; i < expected.floats.size(); ++i) {
    if (expected.floats[i] == got.floats[i]) continue;  // infinities too
    double off = std::abs(expected.floats[i] - got.floats[i]);
    if (!(off <= tolerance))
      return text("element ", i, " is ", got.floats[i], " instead of ", expected.floats[i], ", off by ", off, " where ",
                  tolerance, " is allowed");
  }
  return "";
}

}  // namespace heddle::testing
