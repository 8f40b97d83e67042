// Which nodes are written to memory, and which computations share a kernel.
#pragma once

#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compile/fuse/index_map.h"
#include "compile/fuse/update_in_place.h"
#include "compile/fuse/why.h"
#include "compile/target/target.h"

namespace heddle {

// A computation with a loop nest of its own: a reduction, or the writing of one node to memory. A scatter is written by
// two nests, and its group holds nothing else: the base goes to memory, then the updates one after the other.
struct Unit {
  const Node* node = nullptr;
  bool reduces = false;
  // Index variables of the nest. Axes of size 1 have none.
  std::vector<Expr> kept;      // along the node's own axes
  std::vector<Expr> reduced;   // along the axes that a reduction folds
  Index at;                    // the element of `node` computed: one entry per axis, over `kept`
  std::optional<Expr> update;  // scatter: the number of the update, along the axis (0 if there is one only)
  Expr scanned;                // the one of `kept` along which the nest scans, if it does: no outer axis
  int part = -1;               // the input of `node`, a join of many parts, that the nest writes; `at` is its element
  // An update in place: the nest changes a part of what the root `into` has in memory, as this says. `node` is the
  // update's.
  const Node* into = nullptr;
  const Update* change = nullptr;

  // What the nest reads that comes from another unit.
  struct Read {
    const Node* node;
    Index index;
    bool memory;  // as written by a storing unit; else as the result of a reduction
  };
  std::vector<Read> reads;
  std::vector<const Node*> leaves;  // buffers that it reads
  std::vector<const Node*> after;   // tokens of barriers on the way: nodes in memory that it waits for
  size_t evaluations = 0;           // (node, index) pairs that the nest computes

  std::vector<const Node*> writes;  // nothing if it reduces; of a Sort those results that somebody wants

  // Nested: the sum over a factor that is computed on the way, and what else its group reduces along the same axis.
  const Node* nest = nullptr;    // the sum; nullptr: not nested
  const Node* factor = nullptr;  // of the sum itself: what is computed once for all that the sum keeps
  Index factor_at;               // and where
  std::vector<Expr> nest_outer;  // of the sum itself: those of `kept` that are outer axes
  Expr along;                    // the axis that all of the nest's units have in common

  int group = -1;
  std::vector<Expr> outer;  // the `kept` variables that run along the outer axes of the group, in the group's order

  bool scatters() const { return update.has_value(); }
  bool is_part() const { return part >= 0 || into; }
  const Node* source() const;  // the node whose element at `at` the nest stores, a scatter before its updates
  Index update_at() const;     // scatter: the element of the index and of the updates
  double points() const;       // of the nest
  bool scans() const { return scanned.is_var(); }
  std::vector<Expr> outer_axes() const;  // those of `kept` that could be
};

// Units that share a kernel: all of them run inside the same outer axes. Those that write the parts of a join, or that
// change one memory after the other, are a group, too, but each of them has a kernel of its own.
struct Group {
  std::vector<int> units;  // inputs before users
  bool fixed = false;      // the outer axes are fixed: a reduction's result is used inside, or something is scanned
  // Values that several units use at each point of the outer axes and of one more: the factor of a unit, to be computed
  // before the unit at `before` of `units`.
  struct Shared {
    int unit;
    size_t before;
  };
  std::vector<Shared> shared;
};

// Whether the kernel of the node is built directly, not from Loops. It reads and writes memory only.
bool is_direct(const Node& node);
// The node of such a kernel of which `node` is a result, or nullptr.
const Node* direct_of(const Node* node);
// What is in memory in row-major order when `node` is wanted there: looks through reshapes.
const Node* memory_source(const Node* node);

struct Partition {
  std::vector<Unit> units;
  std::vector<Group> groups;                     // in an order in which they can run
  std::unordered_map<const Node*, int> storing;  // nodes written to memory, and the unit that does
  // Only if somebody wants to know.
  Boundaries boundaries;
  std::vector<Siblings> siblings;
};

// What a gather's element at `at` needs of its operands: where in the index, and where in x if the index were `chosen`.
Index gather_index(const Node& node, const Index& at);
Index gather_source(const Node& node, const Index& at, const Expr& chosen);

// The reduction whose result `node` is (through Get too), or nullptr.
const Node* reduction_of(const Node* node);
// Index of the input element that a reduction folds at `at`, given the variables along the reduced axes. For Unwindow
// `guard` gains the condition under which there is such an element, if somebody wants to know.
Index reduction_source(const Node& node, const Index& at, std::span<const Expr> reduced, Expr* guard = nullptr);

// What a partition may not do.
struct PartitionLimits {
  std::unordered_map<const Node*, Why> in_memory;  // nodes that are read from memory
  std::unordered_set<const Node*> alone;           // nodes that no kernel writes which reads them
  std::unordered_set<const Node*> not_nested;      // sums that compute no factor on the way
  std::unordered_set<const Node*> apart;           // those that do, but share no kernel with others
  Updates updates = {};                            // roots of which only a part is written
  Rates rates = {};
  Machine machine = Machine::Simd;
  bool explain = false;  // say why kernels are not one
};

// Limits that turn out to be needed are added.
Partition partition(std::span<const NodeRef> roots, PartitionLimits& limits);

// Makes other kernels of what a group computes, under limits that have changed; what is `written` by then is there to
// be read. Everything else stays as it is. The numbers of the new groups, in an order in which they can run where the
// group could; the group is empty afterwards. Nothing if they would write what others write already: then the partition
// has to begin anew.
std::optional<std::vector<int>> partition_again(Partition& parts, int group,
                                                const std::unordered_set<const Node*>& written,
                                                PartitionLimits& limits);

}  // namespace heddle
