// Gradients of gather and scatter. Their own indices have been checked by what is differentiated here.
#include "graph/arithmetic.h"
#include "graph/gradient.h"

namespace heddle {
using namespace arithmetic;
namespace {

NodeRef positions(const NodeRef& x, int axis) { return make_iota(DType::i64, x->shape, axis); }

struct ScatterParts {
  const Node& node;
  const NodeRef &base, &index, &updates;
  int axis;

  NodeRef at_index(const NodeRef& x) const { return make_gather_along(x, index, axis, kUncheckedIndex); }
  NodeRef scattered(ScatterOp op, const NodeRef& into, const NodeRef& values) const {
    return make_scatter(op, into, index, values, axis, kUncheckedIndex);
  }
};

// Whether each update is the one that stayed.
NodeRef stayed(const ScatterParts& s) {
  NodeRef which = positions(s.index, s.axis);
  NodeRef none = const_like(Scalar::of(DType::i64, -1), s.base->shape);
  return equal(s.at_index(s.scattered(ScatterOp::Set, none, which)), which);
}

void of_set(const ScatterParts& s, const NodeRef& g, Wanted wanted, std::span<NodeRef> result) {
  if (wanted[0]) result[0] = s.scattered(ScatterOp::Set, g, like(s.updates, 0));
  if (wanted[2]) result[2] = choose(stayed(s), s.at_index(g), 0);
}

// The product without one factor, from all pairs of updates: without a division, so that it has derivatives of every
// order at zeros.
NodeRef of_mul_by_pairs(const NodeRef& base, const NodeRef& index, const NodeRef& updates, const NodeRef& g, int axis) {
  int last = index->shape.rank();  // the axis of the other updates
  Shape pairs = pairs_shape(index->shape, axis);
  NodeRef own = make_iota(DType::i64, pairs, axis), other = make_iota(DType::i64, pairs, last);
  NodeRef factors = second_of_pairs(updates, axis);
  NodeRef meet = equal(first_of_pairs(index, axis), second_of_pairs(index, axis));
  meet = choose(equal(own, other), const_like(Scalar::of(DType::boolean, false), pairs), meet);
  NodeRef rest = make_reduce(ReduceOp::Prod, choose(meet, factors, like(factors, 1)), std::span(&last, 1));
  return make_gather_along(g * base, index, axis, kUncheckedIndex) * rest;
}

// The product without one factor: by division, or, for the only zero among the factors, without the zeros.
void of_mul(const ScatterParts& s, const NodeRef& g, Wanted wanted, std::span<NodeRef> result) {
  if (wanted[0]) result[0] = g * s.scattered(ScatterOp::Mul, like(s.base, 1), s.updates);
  if (!wanted[2]) return;
  NodeRef zero = equal(s.updates, like(s.updates, 0));
  NodeRef one = like(s.updates, 1);
  NodeRef rest = s.scattered(ScatterOp::Mul, s.base, choose(zero, one, s.updates));
  NodeRef zeros = s.at_index(s.scattered(ScatterOp::Add, like(s.base, 0), make_cast(zero, s.base->dtype)));
  NodeRef others = s.at_index(g * rest) / choose(zero, one, s.updates);
  NodeRef zeros_of_others = zeros - make_cast(zero, zeros->dtype);
  NodeRef value = choose(equal(zeros_of_others, like(zeros, 0)), others, 0);
  NodeRef inputs[] = {s.base, s.index, s.updates, g};
  result[2] = differentiated_as("scatter", value, inputs, [axis = s.axis](std::span<const NodeRef> from) {
    return of_mul_by_pairs(from[0], from[1], from[2], from[3], axis);
  });
}

// Who won each place, by position: comparing elements with the result would go wrong where kernels round differently.
// Elements compete as integers of the same order, with the number of the competitor in the last bits: 0 is the base,
// the updates follow. Doubles that agree in all other bits count as equal; of equal ones the first wins.
struct Competition {
  explicit Competition(const ScatterParts& s) : max(s.node.scatter_op == ScatterOp::Max) {
    for (last = s.index->shape[s.axis].hi(); mask < last;) mask = 2 * mask + 1;
    NodeRef first = const_like(Scalar::of(DType::i64, 0), s.base->shape);
    base_number = number(first);
    update_number = number(apply(ScalarOp::add, {positions(s.index, s.axis), integer(s.index, 1)}));
    winner = s.scattered(s.node.scatter_op, entry(s.base, base_number), entry(s.updates, update_number));
  }

  // The base's elements that won, and the updates'.
  NodeRef base_won() const { return equal(last_bits(winner), base_number); }
  NodeRef update_won(const ScatterParts& s) const { return equal(last_bits(s.at_index(winner)), update_number); }

 private:
  static NodeRef integer(const NodeRef& like, int64_t value) {
    return const_like(Scalar::of(DType::i64, value), like->shape);
  }
  NodeRef number(const NodeRef& position) const {
    return max ? apply(ScalarOp::sub, {integer(position, last), position}) : position;
  }
  NodeRef last_bits(const NodeRef& x) const { return apply(ScalarOp::bit_and, {x, integer(x, mask)}); }
  NodeRef entry(const NodeRef& x, const NodeRef& number) const {
    NodeRef bits = make_bitcast(make_cast(x, DType::f64), DType::i64);
    NodeRef flipped = apply(ScalarOp::bit_xor, {bits, integer(x, INT64_MAX)});
    NodeRef ordered = choose(less(bits, integer(x, 0)), flipped, bits);
    return apply(ScalarOp::bit_or, {apply(ScalarOp::bit_and, {ordered, integer(x, ~mask)}), number});
  }

  bool max;
  int64_t last = 0, mask = 1;
  NodeRef base_number, update_number, winner;
};

void of_extreme(const ScatterParts& s, const NodeRef& g, Wanted wanted, std::span<NodeRef> result) {
  Competition competition(s);
  if (wanted[0]) result[0] = choose(competition.base_won(), g, 0);
  if (wanted[2]) result[2] = choose(competition.update_won(s), s.at_index(g), 0);
}

}  // namespace

void scatter_gradient(const Node& node, const NodeRef& g, Wanted wanted, std::span<NodeRef> result) {
  ScatterParts parts{node, node.inputs[0], node.inputs[1], node.inputs[2], static_cast<int>(node.attrs[0].value())};
  switch (node.scatter_op) {
    case ScatterOp::Set: return of_set(parts, g, wanted, result);
    case ScatterOp::Add:
      if (wanted[0]) result[0] = g;
      if (wanted[2]) result[2] = parts.at_index(g);
      return;
    case ScatterOp::Mul: return of_mul(parts, g, wanted, result);
    case ScatterOp::Max:
    case ScatterOp::Min: return of_extreme(parts, g, wanted, result);
  }
}

NodeRef gather_gradient(const Node& node, const NodeRef& g) {
  const NodeRef &x = node.inputs[0], &index = node.inputs[1];
  int axis = static_cast<int>(node.attrs[0].value());
  if (node.attrs[1].is_const(1)) {
    if (!index->shape[axis].is_const(1))
      return make_scatter(ScatterOp::Add, like(x, 0), index, g, axis, kUncheckedIndex);
    // One element per row: cheaper to compare than to scatter, and it joins what comes next.
    NodeRef wide = make_cast(index, DType::i64);
    return choose(equal(positions(x, axis), make_expand(wide, x->shape)), make_expand(g, x->shape), 0);
  }
  // All axes of the index as one, which then says the same for every element of the others.
  Shape flat = x->shape, thin(x->shape.size(), Expr(1));
  flat[axis] = index->shape.numel();
  thin[axis] = index->shape.numel();
  NodeRef everywhere = make_expand(make_reshape(index, thin), flat);
  return make_scatter(ScatterOp::Add, like(x, 0), everywhere, make_reshape(g, flat), axis, kUncheckedIndex);
}

}  // namespace heddle
