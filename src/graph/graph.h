// Operations on whole graphs.
#pragma once

#include <ostream>
#include <unordered_map>

#include "base/modes.h"
#include "graph/node.h"

namespace heddle {

// Rewrites a graph to an equivalent one: folding, identities, view merging and moving, equal nodes once. The builders
// already do what a node can know of its inputs; this adds what needs the whole graph, and forgets how to differentiate
// it. Of the modes only relaxed counts. Linear in nodes.
std::vector<NodeRef> simplify(std::span<const NodeRef> roots, const Modes& modes = {});

// The same node on other inputs, through its builder. Barriers keep their token.
NodeRef rebuild(const Node& node, std::span<const NodeRef> inputs);

// Rebuilds the graph with some nodes replaced (and what follows from it simplified). Iterative.
std::vector<NodeRef> replace(std::span<const NodeRef> roots, const std::unordered_map<const Node*, NodeRef>& with);

// The same where a node's place is taken by what `make` gives for it and its inputs, which are rebuilt already; null:
// the same node on these. Of a node of `ends` the inputs are not looked at.
using MakeNode = std::function<NodeRef(const Node& node, std::span<const NodeRef> inputs)>;
std::vector<NodeRef> rebuild_graph(std::span<const NodeRef> roots, const MakeNode& make,
                                   const std::unordered_set<const Node*>& ends = {});

// The number of a node that make_placeholder() has made; of any other 0.
int64_t placeholder_number(const Node& node);
inline bool is_placeholder(const Node& node) { return placeholder_number(node) > 0; }

// One line per node: "%3 = add f32[2, 3] %1, %2", realised leaves with a preview of their first elements.
std::string print_graph(std::span<const NodeRef> roots);
std::string print_dot(std::span<const NodeRef> roots);

// The oracle: runs the graph node by node on the host. Floats are computed in double and rounded to the dtype by casts
// and where `Rounding` says; integers natively. Slow, simple and obviously right.
struct HostArray {
  DType dtype;
  std::vector<int64_t> shape;
  std::vector<double> floats;      // when is_float(dtype)
  std::vector<uint64_t> integers;  // else: bits of the int64 or uint64 value (bool: 0 or 1)
  int64_t numel() const;
};
enum class Rounding {
  Results,  // the results
  Never,    // nothing but casts to narrower floats, and scatters of small ones: for programs that compute in double
};
// `symbols` gives values of symbolic dimensions that are not bound to one, `inputs` those of Input nodes, and of
// Buffers that are to have other contents. `bad_indices` counts the elements of indices that were out of range, whether
// or not anybody needs what they choose.
using SymbolValues = std::vector<std::pair<Expr, int64_t>>;
std::vector<HostArray> evaluate(std::span<const NodeRef> roots, const SymbolValues& symbols = {},
                                const std::unordered_map<const Node*, HostArray>& inputs = {},
                                int64_t* bad_indices = nullptr, Rounding rounding = Rounding::Results);

}  // namespace heddle
