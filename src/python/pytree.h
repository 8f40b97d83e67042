// Values of Python taken apart: tuples, lists, dicts, named tuples, dataclasses and registered classes are structure,
// everything else is a leaf.
#pragma once

#include "python/convert.h"

namespace heddle::python {

struct TreeNode {
  enum class Kind { Leaf, None, Tuple, List, Dict, NamedTuple, Dataclass, Registered } kind = Kind::Leaf;
  size_t children = 0;
  nb::object type, info;  // info: keys or names, or what the class's own function gave
};

// The structure, parents before children.
struct Tree {
  std::vector<TreeNode> nodes;
  size_t leaves = 0;
};
bool same(const Tree& a, const Tree& b);
// Also of the same types, all the way down: 1, 1.0 and True are others.
bool strictly_equal(const nb::object& a, const nb::object& b);
// Copies what the functions of registered classes gave and might change.
void keep_as_it_is(Tree& tree);

Tree flatten(nb::handle value, std::vector<nb::object>& leaves);
nb::object unflatten(const Tree& tree, std::span<const nb::object> leaves);

}  // namespace heddle::python
