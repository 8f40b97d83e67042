// What the builders share. Private to src/graph.
#pragma once

#include <memory>

#include "base/error.h"
#include "base/hash.h"
#include "graph/node.h"

namespace heddle {

// A node under construction: fill it in, then hand it to finish().
using NewNode = std::unique_ptr<Node>;

NewNode new_node(NodeOp op, DType dtype);
NewNode new_node(NodeOp op, DType dtype, const Shape& shape);
// Hashes and interns. A result that is known to have no elements becomes a Const.
NodeRef finish(NewNode node);
// The same without that last rule: for nodes with several results.
NodeRef finish_as_is(NewNode node);

// Throws ValueError for a null operand or one with several results.
void check_operand(const char* op, const NodeRef& x);

bool has_zero(const Shape& shape);  // known to have no elements
bool same_dim(const Expr& a, const Expr& b);
bool same_shape(const Shape& a, const Shape& b);
// Sorted, distinct, in 0..rank-1; throws IndexError or ValueError naming op and shape.
SmallVector<int, 4> normalize_axes(const char* op, const NodeRef& x, std::span<const int> axes);
// The axes of a node whose attributes are axes.
inline SmallVector<int, 4> axes_of(const Node& node) {
  SmallVector<int, 4> axes;
  for (const Expr& attr : node.attrs) axes.push_back(static_cast<int>(attr.value()));
  return axes;
}

// A constant that a builder made of inputs is where they are. At home it is without saying so.
NodeRef where_they_are(const NodeRef& constant, std::span<const NodeRef> inputs);

// Whether the order of operands does not matter. Constants stand on the right of such operations.
bool commutes(ScalarOp op);

// The field that says more about the op, as a number.
uint64_t op_detail(const Node& node);

// A value at every element of a shape that needs no check.
NodeRef const_like(const heddle::Scalar& value, const Shape& shape);

// Whether every value of `from` is exactly a value of `to`.
bool is_lossless(DType from, DType to);

// What op gives without computing, from identities that hold for every input bit for bit; null if nothing.
NodeRef scalar_identity(ScalarOp op, std::span<const NodeRef> inputs);

NodeRef make_barrier_with(const NodeRef& x, const NodeRef& token, uint64_t number);

}  // namespace heddle
