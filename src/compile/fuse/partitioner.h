// The state of partition(), and its steps: measuring, exploring nests, placing units into groups, joining groups.
// Private to partition*.cpp.
#pragma once

#include <algorithm>
#include <optional>
#include <queue>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/contains.h"
#include "base/hash.h"
#include "compile/fuse/partition.h"

namespace heddle {

// A nest evaluates at most this many (node, index) pairs; beyond, intermediate results go to memory. This bounds
// compile time, and what diamonds through different views can multiply.
inline constexpr size_t kMaxEvaluations = 400;
inline constexpr size_t kMaxUnitsInGroup = 32;
// With fewer rows than kMinRows, a row-wise kernel of more than kSmallWork points would leave cores idle.
inline constexpr double kMinRows = 64, kSmallWork = 1 << 15;
// Arithmetic that makes a position of an index, at most.
inline constexpr double kIndexWork = 6;
// Arithmetic that makes an element of a mask, at most.
inline constexpr double kMaskWork = 16;
// Memory of so few elements is at hand everywhere: what is made of it alone takes no room of its own.
inline constexpr double kFewElements = 64;
// Scans along one axis that a nest takes in.
inline constexpr int kMaxScans = 8;
// Parts of a join that a nest always chooses among, and those that it does if the elements are few.
inline constexpr size_t kFewParts = 8, kMostChosen = 32;
// Nested sums: the widest that they may be, in elements kept or reduced beside the common axis, and the longest that
// axis may be if no reductions depend on each other along it. Beyond, factors are worth a trip through memory.
inline constexpr double kMostNestedWidth = 256, kMostNestedLength = 1 << 15;
// Groups that a group is held against, to become one with.
inline constexpr size_t kMostTried = 4;
// How far searches through the neighbourhood go before they give up (and the cheaper choice is taken).
inline constexpr int kSearchLimit = 2000, kMaxTail = 64;

double op_weight(const Node& node);
bool is_compute(const Node& node);
// A cast to more bytes than its input has. Memory holds the input: the cast costs less than the bytes, and a product
// that reads it sees that its factor is narrow.
bool widens(const Node& node);
// Elementwise work with more elements than all that it is made of, as the products of a sum: its operands take less
// room in memory than it does.
bool spreads(const Node& node);

// The index picks distinct axes of u that could be the outer axes of its kernel.
bool can_be_outer(const Unit& u, const Index& index);
// Reductions over the same axes that do not need each other: fuse makes one of them.
bool in_one_pass(const Unit& reader, const Unit& u);
// A sum of products that reads its factors many times over. Blocked for registers and caches it is many times as fast,
// but only as the one reduction of its kernel.
bool multiplies(const Unit& u);
double row_count(std::span<const Expr> outer);

// Where the elements are in the list.
std::vector<size_t> positions_of(const std::vector<Expr>& list, const std::vector<Expr>& elements);
// Those of u's axes that run along these axes of a reader, which reads the element of u at `index`.
std::vector<Expr> axes_along(const Unit& u, const Index& index, std::span<const Expr> axes);

inline double upper(const Expr& e) { return static_cast<double>(e.hi()); }

// A part of a program: what is to be computed, and what of it comes from memory, computed by others.
struct Region {
  std::vector<NodeRef> roots;
  std::unordered_set<const Node*> given;
};

class Partitioner {
 public:
  Partitioner(const Region& region, PartitionLimits& limits);
  // Nothing if a part of it could not be made again alone: the limits have changed, it has to begin anew.
  std::optional<Partition> run();

 private:
  size_t number(const Node* node) const { return static_cast<size_t>(number_.at(node)); }
  Unit& unit(int id) { return result_.units[id]; }
  Group& group(int id) { return result_.groups[id]; }
  template <class F>
  bool any_unit(int g, const F& f) {
    return std::ranges::any_of(group(g).units, [&](int id) { return f(unit(id)); });
  }
  size_t evaluations(int g) {
    size_t total = 0;
    for (int id : group(g).units) total += unit(id).evaluations;
    return total;
  }
  bool has_unit(int g, const Node* reduction) {
    return any_unit(g, [&](const Unit& u) { return u.reduces && u.node == reduction; });
  }
  bool is_nested(int g) {
    return any_unit(g, [](const Unit& u) { return u.factor != nullptr; });
  }
  static bool is_leaf(const Node& node) { return node.op == NodeOp::Buffer || node.op == NodeOp::Input; }
  bool in_memory(const Node& node) const { return is_leaf(node) || region_.given.count(&node); }

  // ---- partition.cpp ----

  // Per node: arithmetic per element if all below it were computed in place (as a tree, saturating); whether a
  // reduction lies below; whether it is made of constants, positions and a few numbers alone, such as masks and random
  // numbers; and the next node that every path from it to the roots passes.
  void measure();
  // The first reason is the one that is told. What is given is in memory already.
  void store(const Node* node, Why why);
  // Users before inputs: when a unit's turn comes, everything that reads it has a group already.
  void place_all();
  // Why a node that several units compute is better computed once, if it is. Its turn has come, so all of them are
  // known.
  Why should_store_for_all(const Node* node);
  // They read it from memory from now on.
  void read_stored(const Node* node);
  // Kernels that groups will become, as far as that is known.
  size_t count_kernels(const std::vector<int>& groups);
  // A join of so many parts that choosing among them at each element would cost more than writing each part where it
  // belongs. It is always in memory.
  bool joins_many(const Node& node) const;

  Unit make_unit(const Node* node, bool reduces, int part = -1);
  int open_unit(const Node* node, bool reduces);
  int add_unit(Unit u);  // explored; gives its number
  // A kernel of its own for a Sort: reads its input from memory and writes those results that somebody wants, all of
  // which are known by now.
  void place_direct(const Node* node);
  void place_parts(const Node* node);         // a unit for each part of a join
  void place_updates(const Node* root);       // a unit for each change of what is in memory
  void place_alike(std::vector<Unit> units);  // these, in one group

  // What a unit reads, computes and waits for, to and from readers_, computed_in_ and waiting_.
  void enter_reads(int id);
  void forget_reads(int id);
  void enter_computed(const Node* node, int id);
  // Finds out again what units read, after something went to memory. What nobody reads any more need not be there.
  void look_again(std::span<const int> ids);
  void forget_unread(const Unit::Read& read);
  // A reduction and the storing of the same node are different things to read.
  struct Source {
    const Node* node;
    bool memory;
    bool operator==(const Source&) const = default;
  };
  struct SourceHash {
    size_t operator()(const Source& s) const { return hash_combine(reinterpret_cast<uintptr_t>(s.node), s.memory); }
  };
  static Source key(const Unit::Read& read) { return {read.memory ? read.node : reduction_of(read.node), read.memory}; }

  // ---- partition_explore.cpp ----

  // Finds what the nest of `u` reads. With `decide`, also chooses what goes to memory on the way. `id` is the unit's,
  // if it has one.
  void explore(Unit& u, bool decide, int id = -1);
  // False if the nest should run the other way along u.scanned.
  bool explore_once(Unit& u, bool decide, int id);
  // Whether `u` may read from memory what is stored. What went there already it computes itself if the kernel that
  // writes it needs the group of `u`, or would.
  bool may_read(const Unit& u, const Node* node);
  // Makes the nest of `u` wait for the token of a barrier.
  void wait_for(Unit& u, const Node* token, bool decide);
  // Why `node`, needed by the nest of `u` at `index`, is better computed once and read from memory, if it is. `times`:
  // how often each point of the nest needs it, here and elsewhere.
  Why should_store(const Unit& u, const Node& node, const Index& index, double points, double times);
  // How many points of the nest compute it, if it is computed there.
  double computed_points(const Unit& u, const Node& node, const Index& index, double points, double times);
  // Why a permutation is written out before the nest of `u` reads it: a reduction that is no product of matrices, which
  // would pack its factors, walks along the last axis, many times, while memory lies along another.
  Why should_permute(const Unit& u, const Node& node, const Index& index);

  // ---- partition_nest.cpp ----

  // A sum over products one factor of which is itself computed from reductions: attention. Where the factor is larger
  // than what it is made of and what becomes of it, the sum's kernel computes it on the way.
  struct Nest {
    const Node* factor = nullptr;
    Index factor_at, at;                                   // elements of the factor and of the sum,
    Expr along;                                            // and the axis that is summed along
    std::vector<size_t> outer = {};                        // axes of the sum that the factor follows
    std::vector<const Node*> kept = {};                    // reductions that the factor needs at each of its elements
    std::unordered_map<const Node*, size_t> anchors = {};  // the factor and these: which of their axes is `along`
  };
  void find_nests();
  std::optional<Nest> find_nest(const Node* sum);
  // Whether several kernels read the sum, one of which reduces it: none of them can be the one that computes it.
  bool read_apart(const Node* sum);
  // Whether nothing wants the factor but sums of products that keep an axis which it lacks.
  bool only_summed(const Node* factor);
  // Whether sums of other products than this one want the factor.
  bool multiplied_elsewhere(const Node* factor, const Node* product);
  void through_movement(const Node*& node, Index& index) const;
  // Nodes, what uses them, and what of that goes on to others.
  struct Users {
    std::vector<const Node*> through, ends;
  };
  template <class F>
  Users users_of(std::vector<const Node*> nodes, const F& through) const;
  struct Below;  // what a value is made of
  Below look_below(const Node* node, const Index& index);
  // Reductions along the nest's axis, one value for each point of its outer axes: its kernel computes them.
  void own_statistics(const Node* sum, const Nest& nest);
  bool shares_axis(const Node* reduction, const Node* sum, const Nest& nest);
  void own(const Node* statistic, const Node* sum);
  // The factor is in memory all the same: the sum is an ordinary one, and what was reduced for it is anybody's.
  void release_nest(const Node* sum);
  // Fills in what makes a unit part of a nest.
  void enter_nest(Unit& u);
  // The nest that a unit is part of.
  const Node* family(const Unit& u) const;
  // Whether `u`, part of a nest, takes in the reduction that it reads at `index`.
  bool takes_in(const Unit& u, const Node* reduction, const Index& index) const;
  // What the nest's kernel computes itself it does not read from memory, even if others do.
  void read_own(Unit& u, bool decide);
  // Gives every nest that reads the reduction a unit of its own for it. Gives the groups that need another way.
  std::vector<int> place_kept(const Node* node);
  bool follow_readers(Unit& u, int g, std::vector<Expr>& outer);
  bool store_own(int id);
  void share_factors();

  // ---- partition_place.cpp ----

  int new_group(int id);
  std::vector<int> reading_groups(const Source& source);
  // Two units always fit, so a reduction can join at least the unit that stores its result.
  bool has_room(int g, const Unit& u);
  void join(int id, int g, std::vector<Expr> outer);

  void place_storing(int id);
  // A written node whose readers compute it again from the same inputs, in the same kernel: nothing is read back.
  Why join_storing(int id, int g);
  // Where a unit would run in a kernel that reads what it computes.
  struct Place {
    int witness = -1;                                // a reader,
    std::vector<Expr> theirs = {};                   // the kernel's outer axes, as the reader names them,
    std::vector<Expr> mine = {};                     // and the unit's, in the same order
    std::vector<std::pair<int, Expr>> scanned = {};  // what readers would scan
    bool scans = false;
  };
  Why may_store_in(int id, int g, Place& where);                                 // legality
  Why follows(const Unit& u, int reader, const Unit::Read& read, Place& where);  // the same for one read
  // Whether a reduction of its group takes in what the unit computes, maybe through others.
  bool feeds_reduction(int id);

  void place_reduction(const Node* node);
  std::vector<int> waiting_readers(const Node* node);  // of a reduction, in groups that have no unit for it
  // The last node of the chain of equal-sized elementwise work that only this reduction's result feeds.
  const Node* find_tail(const Node* end);
  Why join_reduction(int id, const std::vector<int>& groups);
  // Legality. `where`: in each of the kernels, which become one.
  Why may_reduce_in(int id, const std::vector<int>& groups, std::vector<Place>& where);
  // The same for one read. The reader must see u's axes as axes of its own that can be outer ones, as all readers of
  // its group do.
  Why reads_rows(const Unit& u, int reader, const Index& index, Place& where);
  Why reducing_costs(const Unit& u, const std::vector<int>& groups);
  // Narrows the outer axes of a group to those given as variables of one of its units.
  void fix(int g, int witness, const std::vector<Expr>& axes);
  // Moves the units of group `from` to group `to`; the lists name a common unit's axes in the order of each.
  void merge(int to, int from, const std::vector<Expr>& to_order, const std::vector<Expr>& from_order);

  // ---- partition_join.cpp ----

  // Kernels with the same loops that read the same memory and do not need each other become one: sum(x) and max(x), or
  // x + 1 and x * 2.
  void join_siblings();
  // Once all have an order: what a kernel of its own writes is written by the first one that reads it, where their
  // loops allow it. No other kernel comes to need one that runs after it.
  void join_producers();
  // Before that: what is reduced along rows is reduced by the first kernel that reads it row by row, as a mean by the
  // kernel that subtracts it, if they read the same memory; what is computed once per row, by the first that computes
  // nothing else. As above nobody comes to need what runs later.
  void join_rows();
  int first_reader(int g);  // a group; -1 if there is none, or if one of its units waits
  Why join_reader(int to, int from);
  // Legality. `where`: of what the rows give, by the unit that writes it.
  Why may_join_reader(int to, int from, std::vector<std::pair<int, Place>>& where);
  Why rows_cost(int to, int from);
  Why join_sibling(int to, int from);
  Why may_join_sibling(int to, int from);  // groups of the same loops
  const Node* written_by(int g);           // one of what the group stores
  bool is_alone(int g);                    // as the limits say
  // The extents of the outer axes and of the one kind of reduction inside; empty if the nests differ.
  std::vector<Expr> loop_shape(int g);
  std::vector<uint64_t> loop_keys(int g);
  // Units that read what the group's units write.
  std::vector<int> readers_of(int g);
  // Whether something in group b needs, directly or not, what group a writes. Kernels run as a whole: whatever a group
  // on the way writes counts. True when the search grows too long.
  bool reaches(int a, int b);
  // What was to pass through memory, but ended up in one kernel with all that reads it, is simply computed there.
  void drop_dead_stores();
  // Sorts units inside groups, and groups so that inputs come first (iteratively, by counting what is missing).
  void order_groups();

  // ---- partition_again.cpp ----

  // Of each group, the groups that it needs.
  std::vector<std::vector<int>> needed_groups();
  bool nests_on_memory(const Unit& u);
  void forbid(std::span<const int> groups);
  // Makes other kernels of groups that cannot be kernels as they are: they would need each other, a reduction is read
  // elsewhere than where it is computed, or a sum computes on the way what is in memory all the same. False if that is
  // not possible.
  bool make_again();

  const Region& region_;
  PartitionLimits& limits_;
  std::vector<const Node*> order_;
  std::unordered_map<const Node*, int> number_;
  std::unordered_set<const Node*> roots_, stored_, wanted_, placed_direct_;
  std::vector<double> work_;
  std::vector<bool> reduces_below_, from_little_;
  std::vector<int> next_;
  std::priority_queue<int> pending_;
  int lowest_ = 0;                                                 // the number of the last node whose turn it was
  std::unordered_map<const Node*, std::vector<int>> computed_in_;  // units whose nests evaluate the node
  std::unordered_map<int, std::vector<const Node*>> computes_;     // and the other way round
  std::unordered_map<const Node*, int> reducing_;                  // reductions, and a unit that computes them
  std::vector<std::vector<int>> users_;                            // of each node, by number
  std::unordered_map<const Node*, Nest> nests_;                    // by their sums
  std::unordered_map<const Node*, std::vector<const Node*>> multiplied_in_;  // these, by their factors
  std::unordered_map<const Node*, const Node*> owner_;                       // of statistics: the sum
  std::unordered_map<const Node*, std::vector<const Node*>> owned_;          // and the other way round
  std::unordered_map<const Node*, int> kept_;      // reductions, and how many nests take them in
  std::unordered_map<const Node*, int> attempts_;  // at placing a reduction
  std::unordered_map<Source, std::vector<int>, SourceHash> readers_;
  std::unordered_map<const Node*, std::vector<int>> waiting_;  // units that a barrier lets run after the node is stored
  Partition result_;
};

}  // namespace heddle
