// Private to the SIMD lowering: how tile values are represented, and the nests of loops that compute them.
//
// Loads, indices and elementwise ops are lazy: emitted inside each nest that needs them, at the position that the nest
// asks for. Nests are made for stores, combines, reductions, dots, and for values that cross loops.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/contains.h"
#include "compile/target/target.h"
#include "kernel/builder.h"
#include "kernel/ir.h"

namespace heddle::simd {

using kernel::Body;
using kernel::Builder;
using kernel::Dims;
using kernel::Inst;
using kernel::Kernel;
using kernel::Op;
using kernel::Type;
using kernel::Value;

// A tile as a list of vectors (or scalars, where vector_dim is -1), row-major.
struct Layout {
  Dims shape;
  int vector_dim = -1;
  int width = 1;

  int64_t steps(int dim) const;                    // chunks or elements
  int64_t size() const;                            // vectors or scalars in all
  int64_t number(std::span<const Expr> at) const;  // of the one with this element, or that begins with it
};

// Where the value of a tile is. Lazy values have none of these but may have a copy in memory.
struct Rep {
  enum Kind : uint8_t { Lazy, Scalar, Registers, Memory } kind = Lazy;
  Value scalar = kernel::kNoValue;
  Layout layout;  // Registers
  std::vector<Value> registers;
  int buffer = -1;  // Memory: a Shared buffer
  Dims strides;
  std::vector<Expr> valid;  // the copy holds only elements for which these conditions are true
};

// One step along a dimension.
struct Part {
  Expr base;
  int level = 0;  // how deep in the open bodies the base is known
  int width = 1;  // a power of two; 1 is a scalar
  Expr active = 1;
};

// Elements that one thread-level value stands for: one element, or `width` consecutive ones along vector_dim.
struct Position {
  SmallVector<Expr, 4> at;    // the element, or the first one of the vector
  SmallVector<int, 4> level;  // how deep in the open bodies each of `at` is known
  int vector_dim = -1;
  int width = 1;
  Expr active = 1;  // over the lane: which lanes hold elements

  // Element 0 of each dimension.
  static Position origin(size_t rank, int level);
  // Goes along dimension d, which may be that of the vectors.
  void go_to(int d, const Part& part, bool vectors);
  // One element along the vector's dimension.
  void to_scalar() {
    vector_dim = -1;
    width = 1;
    active = 1;
  }
};

// How a nest walks along one dimension.
struct Walk {
  int64_t size = 1;
  Expr bound;          // elements wanted, at most size
  int step = 1;        // elements per part
  int64_t unroll = 1;  // parts per iteration
  bool whole = false;  // all parts at once, no loop
  Expr head = 0;       // elements before the first full part, fewer than `step`
};

// A value that the nest writes down while it computes it.
struct Save {
  Value value;
  Rep to;  // in registers, or in memory
};

struct Nest {
  Dims shape;
  std::vector<const Inst*> roots;  // store, combine, reduce, scan, dot
  std::vector<Save> saves;
  int axis = -1;  // of the reductions and scans among the roots
  // Others want all of what is scanned here, also where guards fail: unlike other values it cannot be computed again.
  bool complete = false;

  // Set by plan().
  int vector_dim = -1;
  int width = 1;
  std::vector<Walk> walks;
  int sets = 1;               // accumulators per result
  bool in_registers = false;  // results of reductions are left in registers
  Expr condition = 1;         // free of coordinates: the nest does nothing where it is false
  std::vector<Expr> known;    // conditions over the canonical coordinates that hold wherever the nest goes
  std::vector<Expr> bounds;   // those of `known` that limit the walks or make up `condition`
  std::vector<Expr> full;     // conditions that hold everywhere if `full_guard` does
  Expr full_guard = 0;
  bool waits = false;  // most of the work is arithmetic of floats, whose results are several cycles in coming
  const Inst* aligned = nullptr;  // a store along vector_dim: full vectors of it start at multiples of their size
  // Squares of width x width elements are computed at once where this is a dimension: `transposed` are the loads that
  // walk memory along it, not along vector_dim. They read it in its order and are transposed in registers.
  int transposed_dim = -1;
  std::vector<const Inst*> transposed;
  int squares = 1;        // next to each other along vector_dim at a time
  bool row_wise = false;  // squares wait in scratch, so that there is one copy of the code and not one per row
  std::unordered_map<const Inst*, int32_t> prefetch;  // loads that fetch what the next round wants, and how far that is

  bool has(Op op) const;  // among the roots
  bool knows(const Expr& e) const { return contains(known, e); }
  Layout layout() const { return {shape, vector_dim, width}; }
};

// Code for parts along one dimension.
using StepCode = std::function<std::vector<Value>(std::span<const Part>, std::vector<Value> carried)>;

// A step of a body: one scalar instruction, one nest, or a loop or branch.
struct Item {
  const Inst* single = nullptr;    // scalar, loop or branch
  std::vector<const Inst*> roots;  // of a nest
  std::vector<int> roots_at;       // their places in the body
  int at = 0;                      // place of `single`
  Dims shape;
  int axis = -1;
  struct Wanted {
    Value value;
    bool optional;  // only if it fits registers
  };
  std::vector<Wanted> before;  // values to write down in nests of their own
  std::vector<Wanted> during;  // values that the nest writes down
};

struct ValueKey {
  Value value;
  SmallVector<Expr, 4> at;
  int width;
  Expr active;
  friend bool operator==(const ValueKey&, const ValueKey&) = default;
};
struct ValueKeyHash {
  size_t operator()(const ValueKey& key) const;
};

// The state of lowering one kernel.
class Lowering {
 public:
  Lowering(const Kernel& in, const Target& target);
  Kernel run();

 private:
  // items.cpp: what forms one nest, which values are written down
  std::vector<Item> partition(const Body& code);
  void choose_saves(const Body& code, std::vector<Item>& items);

  // lower.cpp: bodies and control flow
  void lower_body(const Body& code);
  void lower_loop(const Inst& inst);
  void lower_branch(const Inst& inst);
  std::vector<Rep> choose_reps(std::span<const Value> values, const Inst& around);
  std::vector<Value> next_carried(const Body& body, std::span<const Rep> reps);
  void restore(size_t undo_size);  // representations as they were when undo_ had this size
  void write_down(Value v);
  void compute_aside(const Dims& shape, std::vector<Save> saves);
  bool stage_transposed(const Nest& nest);
  void place_results(const Item& item, const Nest& nest, const Body& code);
  std::vector<Value> bring(std::span<const Value> values, std::span<const Rep> targets);
  void give(std::span<const Value>& from, Value to, Rep rep);
  void give(std::span<const Value> from, std::span<const Value> to, std::span<const Rep> reps);
  bool is_lazy(Value v) const { return reps_[v].kind == Rep::Lazy; }
  void set_rep(Value v, Rep rep);
  Rep memory_rep(Value v, int vector_dim);
  void eager(const Inst& inst);

  // plan.cpp
  double cost_along(const Nest& nest, std::span<const Inst* const> inner, std::span<const Value> held, int d);
  void plan(Nest& nest, const Layout* wanted = nullptr);
  void plan_bounds(Nest& nest, const SmallVector<bool, 4>& fixed);
  void plan_walks(Nest& nest, int64_t cost);
  void plan_versions(Nest& nest, std::span<const Inst* const> leaves);
  // The lazy instructions that computing `nest` emits, each once, operands first.
  std::vector<const Inst*> leaves(const Nest& nest, std::vector<Value>* held = nullptr);
  int natural_width(const Nest& nest, std::span<const Inst* const> leaves) const;
  Expr canonical(const Expr& e, std::span<const Expr> coords);  // over coordinate(d, extent)
  Expr coordinate(int dim, int64_t size);
  std::vector<Expr> coordinates(const Dims& shape);  // but of dimensions of size 1
  void spill(Value v);
  void plan_prefetch(Nest& nest);
  void plan_dot_prefetch(Nest& nest);
  void plan_alignment(Nest& nest);

  // transposed.cpp
  std::optional<int> transposed_along(const Nest& nest, const Inst& load, int vector_dim) const;
  void plan_transposed(Nest& nest, std::span<const Inst* const> leaves);
  void nest_squares(const Nest& nest, std::vector<std::vector<Part>>& parts, std::vector<Value>& out);
  std::vector<Value> transpose(const Nest& nest, const Inst& load, const std::vector<std::vector<Part>>& parts,
                               size_t square);
  void remember(const Nest& nest, const Inst& load, const std::vector<std::vector<Part>>& parts, const Expr& row,
                size_t square, Value found);

  // nest.cpp
  void run_nest(Nest& nest);
  std::vector<Value> nest_body(const Nest& nest);
  void nest_parts(const Nest& nest, size_t next, std::vector<std::vector<Part>>& parts, std::vector<Value>& out);
  void nest_leaf(const Nest& nest, const std::vector<std::vector<Part>>& parts, std::vector<Value>& out);
  std::vector<Value> scan_at(const Nest& nest, const Inst& root, const Position& at, Value mask,
                             std::vector<Value> before);
  struct Sums;
  std::vector<Value> start_sums(const Nest& nest, const Sums& sums);
  static std::vector<size_t> order_of_sums(const Nest& nest, const Sums& sums);
  size_t add_to_sums(const Nest& nest, const Sums& sums, const Inst& root, const Position& at, size_t slot,
                     std::vector<Value>& now);
  void finish_sums(const Nest& nest, const Sums& sums, const std::vector<Value>& accumulators, std::vector<Value>& out);
  void nest_reduction(const Nest& nest, std::vector<Position> positions, std::vector<Value>& out);
  void write(const Nest& nest, std::span<const Position> positions, std::vector<Value>& out);
  std::vector<Value> walk(const Walk& walk, std::vector<Value> carried, const StepCode& body);
  Layout result_layout(const Nest& nest, Value v) const;
  Expr head_of(const Nest& nest, const std::vector<std::vector<Part>>& parts);
  Substitution places(const Inst& inst, const Position& at);  // of the instruction's coordinates
  // What of its guard is not known to hold.
  Expr guard_at(const Nest& nest, const Inst& inst, const Position& at);
  Value mask_of(const Nest& nest, const Inst& root, const Expr& keep, const Position& at);
  Value masked(Value v, Value mask, const Scalar& otherwise);

  // emit.cpp: single values
  Builder& builder() { return *builder_; }
  int depth() const { return builder_->depth(); }
  Expr lane(int width);
  // Every dimension but the vector one counts elements; that one is cut into parts, of which the last may have fewer.
  std::vector<Part> chunks(int64_t size, int width, int level);
  // Every combination of these, the last dimension fastest.
  std::vector<Position> positions(const std::vector<std::vector<Part>>& parts, int vector_dim, int level);
  Value emit(const Nest& nest, Value v, const Position& at);
  void emit_in_turns(const Nest& nest, std::span<const Inst* const> stores, std::span<const Position> positions);
  Position project(const Position& at, const Dims& shape) const;
  Value emit_lazy(const Nest& nest, const Inst& inst, const Position& at, int level);
  Value emit_access(const Nest& nest, const Inst& inst, const Position& at, int level);
  Value splat(Value v, int width, int level);
  Builder::Access access_at(const Rep& rep, const Position& at);
  void store_at(const Rep& rep, Value v, const Position& at);
  bool usable(const Rep& rep, const Nest& nest) const;
  std::vector<Value> loop(const Expr& extent, std::vector<Value> init,
                          const kernel::BodyCode<const Expr&, std::vector<Value>>& body);
  std::vector<Value> branch(const Expr& guard, const kernel::BodyCode<>& then, const kernel::BodyCode<>& otherwise);
  // The code of a body: what it leaves in the memo is not known outside.
  std::vector<Value> scoped(const kernel::BodyCode<>& code);

  const Kernel& in_;
  const Target& target_;
  Kernel out_;
  std::vector<const Inst*> defs_;  // of each tile value; null for parameters
  std::vector<bool> used_;         // whether anything reads the tile value
  std::vector<Rep> reps_;
  std::vector<std::pair<Value, Rep>> undo_;     // what set_rep() replaced, newest last
  std::vector<Expr> rounds_;                    // variables of the grid and of open loops of tiles, outermost first
  std::unordered_map<const Inst*, bool> read_;  // loads that some nest has emitted; whether one of them prefetched
  std::optional<Builder> builder_;              // of the phase
  int base_level_ = 0;                          // the body in which the current nest starts
  // Values emitted in the current nest, with the depth of their body.
  std::unordered_map<ValueKey, std::pair<Value, int>, ValueKeyHash> memo_;
  std::unordered_map<Value, heddle::Scalar> constants_;  // thread-level values that are literals
  std::unordered_map<int, Expr> lanes_;
  std::map<std::pair<int, int64_t>, Expr> coordinates_;  // by dimension and size
  int names_ = 0;
};

// A scan over one element is arithmetic. In place.
void expand_short_scans(Kernel& kernel, Body& code);

// Splits dimensions that a whole body shares into a loop around it: rows of a softmax go one after the other through
// all of its steps instead of step by step.
Kernel peel(const Kernel& kernel, const Target& target);

// Vectors of a tile that is kept in registers when several nests use it.
inline constexpr int64_t kSmallTile = 8;

bool is_lazy_op(Op op);
int64_t op_cost(Op op);
// Of a load, store or combine, in vector instructions for `lanes` elements along `dim`.
double access_cost(const Kernel& kernel, const Inst& inst, int dim, int lanes);
// condition == coordinate < limit, limit free of the coordinate.
std::optional<Expr> upper_limit(const Expr& condition, const Expr& coordinate);
// The dims a root runs over.
Dims root_dims(const Kernel& kernel, const Inst& inst);
bool writes_memory(Op op);
// Leaves in `common` only what is among `parts`, too; for the first ones these are all.
void keep_common(std::optional<std::vector<Expr>>& common, const std::vector<Expr>& parts);
// The results of a root that are known only after its whole axis: all, but of a scan the totals.
std::span<const Value> final_results(const Inst& root);

}  // namespace heddle::simd
