// Control flow: nodes with graphs inside.
//
// A region is a graph of its own: results as a function of parameters. Parameters are placeholders
// (make_placeholder()); everything that the region uses from outside is among them, so walks over the graph around it
// need not enter it.
#pragma once

#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/node.h"

namespace heddle {

struct Region {
  std::vector<NodeRef> parameters, results;

  friend bool operator==(const Region&, const Region&) = default;
};

// Loop: regions are the body and, if it runs as long as something holds, the condition. The body's parameters are the
// carried values, slices of the stacked ones, and the captured ones: one for each input of the node. Its results are
// the next carried values, and what is stacked. The condition has the parameters of the carried and the captured values
// and one result, a bool. Cond: regions are what is computed if the predicate holds, and if it does not. Both have a
// parameter for each captured value, that is for each input of the node but the first.
struct Control {
  std::vector<Region> regions;
  size_t carried = 0, stacked = 0;  // Loop: so many inputs are initial values, and so many are taken slice by slice
  Expr length;                      // Loop without a condition: how many rounds
  bool reverse = false;             // Loop: the last slice comes first, and is where the first round's results go

  const Region& body() const { return regions[0]; }
  const Region* condition() const { return regions.size() > 1 ? &regions[1] : nullptr; }  // of a Loop
  // Of a Loop: results of the body that are stacked.
  size_t outputs() const { return regions[0].results.size() - carried; }

  friend bool operator==(const Control&, const Control&) = default;
};

// Checked by who recorded the regions: what is wrong here is an internal error.
NodeRef make_loop(std::span<const NodeRef> inputs, std::shared_ptr<const Control> control);
NodeRef make_cond(std::span<const NodeRef> inputs, std::shared_ptr<const Control> control);
ResultType control_result_type(const Node& node, int result);
// A result that needs no rounds: the loop has none, or does not change the value. Null if it does.
NodeRef known_control_result(const Node& node, int result);

// Takes what regions use of the outside in as parameters, the same ones for each of them, and returns what they stand
// for. `outside`: nodes that were there before; of what is made of them in a region, `hoist` moves out what does not
// depend on the region's parameters, unless it could fail.
std::vector<NodeRef> close_regions(std::span<Region> regions, const std::unordered_set<const Node*>& outside,
                                   bool hoist);

// One Loop for several that run the same rounds and want other results (a loop, and what its gradient wants to know of
// its rounds), without what nobody wants.
std::vector<NodeRef> join_loops(std::span<const NodeRef> roots);

// Loops of a fixed number of rounds that only compute by the element take several rounds at a time.
std::vector<NodeRef> join_rounds(std::span<const NodeRef> roots);

// A step that the graph repeats many times, as a plain loop of the host's records it, becomes the body of one Loop.
// For whole programs, before anybody looks at their numbers: those in a body are part of it.
std::vector<NodeRef> roll(std::span<const NodeRef> roots);

// Gradients for the inputs from those of the results (null: none), null where `wanted` is false or there is none.
// ValueError for a Loop with a condition.
void loop_gradient(const Node& node, std::span<const NodeRef> arriving, std::span<const bool> wanted,
                   std::span<NodeRef> result);
void cond_gradient(const Node& node, std::span<const NodeRef> arriving, std::span<const bool> wanted,
                   std::span<NodeRef> result);

// How outputs change when the inputs change by `directions`; null where they do not. Forward, so through loops with a
// condition as well.
std::vector<NodeRef> tangents(std::span<const NodeRef> outputs, std::span<const NodeRef> inputs,
                              std::span<const NodeRef> directions);

// What only says where elements of a tensor are, all of them: better taken into a region below it.
bool is_view_of_all(const Node& node);

// The shape of one round's part of a stacked value, and of many rounds of a value.
Shape slice_shape(const Shape& stacked);
Shape stacked_shape(const Expr& length, const Shape& slice);

}  // namespace heddle
