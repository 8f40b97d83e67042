// Roots that take over the memory of a leaf and differ from it in a part: what has to be written where the leaf is.
#pragma once

#include <unordered_map>
#include <vector>

#include "compile/fuse/index_map.h"

namespace heddle {

// One change: where(mask, value, base) with a mask of positions alone, or a Scatter.
struct Update {
  const Node *node, *leaf;
  // Of a where. `part` runs over what the mask leaves, and maybe more: `guard` says what is written.
  const Node* value = nullptr;
  std::vector<Expr> part;  // index variables; axes of size 1 have none
  Index at;                // the element of `node`, over `part`
  Expr guard = 1;
};
// By root, the first change first.
using Updates = std::unordered_map<const Node*, std::vector<Update>>;

// For each root that is made of the leaf which it replaces (null: of none) by changes alone, what these are.
Updates find_updates(std::span<const NodeRef> roots, std::span<const Node* const> replaces);

// The leaf that the root would be made of in such a way; null if there is none.
const Node* updated_leaf(const Node* root);

// The same graph, where the scatters among such changes read their indices from what a Gather has checked: a kernel
// that checks must be done before memory is written that the caller may still want.
std::vector<NodeRef> with_checked_indices(std::span<const NodeRef> roots, std::span<const Node* const> replaces);

// What a change is computed from and is no larger than the change itself, one by one: what can be computed before.
std::vector<const Node*> operands(const Update& update);

}  // namespace heddle
