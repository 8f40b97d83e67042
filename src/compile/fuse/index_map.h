// Movement ops as index arithmetic: where an element of a node's result comes from.
#pragma once

#include <vector>

#include "graph/node.h"

namespace heddle {

using Index = SmallVector<Expr, 4>;

// True for nodes that only rearrange: their element is one element of their only input, or padding.
bool is_movement(const Node& node);

// What a node rearranges, or itself: looks through movement.
const Node* rearranged(const Node* node);

// The input's index of the element at `index` of a movement node. For Pad, `guard` gains the condition under which the
// element lies inside the input, if somebody wants to know.
Index source_index(const Node& node, const Index& index, Expr* guard = nullptr);

// Whether some entry of the index does.
bool depends_on(const Index& index, const Expr& var);

// Row-major element number.
Expr linear_address(const Shape& shape, const Index& index);

// Whether the index, over all values of its variables, names every element of the node.
bool is_whole(const Node& node, const Index& index);

}  // namespace heddle
