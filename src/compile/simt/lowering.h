// Private to the SIMT lowering.
//
// A tile is spread over the threads of its block by a layout. Every element-wise value is computed where it is used, at
// the coordinates the user's layout asks for, and remembered there; so a value with several users of one layout is
// computed once. Only what cannot be computed again is defined in place: results of reductions and contractions,
// carried values, and loads of memory that changes before the last use. Those live in registers of their layout, in
// shared memory, or both when users of another layout exist.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/contains.h"
#include "compile/target/target.h"
#include "kernel/builder.h"
#include "kernel/ir.h"

namespace heddle::simt {

using kernel::Body;
using kernel::Dims;
using kernel::Inst;
using kernel::Kernel;
using kernel::Op;
using kernel::Value;

using Coords = SmallVector<Expr, 4>;

// Which elements a thread holds: per dimension, element ((register * threads + digit) * lanes + lane), where digit is
// the thread number divided by `stride`, modulo `threads`. Both are powers of two, so that partners in a reduction
// differ in one bit of the thread number. In a chunked dimension it is element (digit * registers + register): a
// thread's elements are neighbours. Elements beyond `size` are guarded away.
struct LayoutDim {
  int64_t size = 1, threads = 1, stride = 1, registers = 1;
  bool chunked = false;
  // Of a matrix unit: groups of this many threads hold neighbours, register after register, before the next group.
  int64_t together = 0;
  // Then the number of the group is the thread number divided by this; 0: groups follow each other.
  int64_t apart = 0;
  bool rolled = false;  // registers are walked by a loop of the thread instead of being named one by one
};

// A value whose shape has size 1 where the layout has more simply ignores that dimension: all threads along it hold a
// copy. So one layout serves a tile, the results of reducing it, and whatever broadcasts against it.
struct Layout {
  SmallVector<LayoutDim, 4> dims;
  int64_t used = 1;   // threads that differ in some digit; thread numbers from here on only repeat others
  int lane_dim = -1;  // the dimension whose neighbouring elements form a vector
  int lanes = 1;
};

// The shape that an instruction's coordinates run over.
Dims coord_dims(const Inst& inst);
inline Dims reduced_dims(Dims dims, int axis) {
  dims[axis] = 1;
  return dims;
}

// A load, store or combine with the coordinates that step through it; what the choice of a layout looks at.
Layout choose_layout(const Dims& shape, std::span<const Inst* const> accesses, std::span<const kernel::Buffer> buffers,
                     int dot_axis, int threads, int warp);

// The dimension along which an access touches neighbouring elements of memory; -1 if there is none.
int fast_dim(const Inst& access);
// That of a matrix unit's results.
Layout matrix_layout(const Dims& shape, int threads);
// Rows and columns of a matrix unit's tile: the two dimensions that are not 1.
std::pair<size_t, size_t> matrix_dims(const Dims& shape);
// For a tile of that shape, with nothing given to threads yet.
Layout layout_for(const Dims& shape);
// The same for one that warps use (warp.cpp).
Layout warp_layout(const Dims& shape, int threads);

// Whether registers of a value of this shape are walked by a loop.
bool is_rolled(const Layout& layout, const Dims& shape);
// True if a value of this shape holds vectors rather than scalars in its registers.
bool has_lanes(const Layout& layout, const Dims& shape);
Expr digit(const Layout& layout, int dim, const Expr& thread);
Expr coordinate(const Layout& layout, int dim, const Expr& thread, const Expr& reg, const Expr& lane);
// One thread among those that hold the same element of a value of this shape. Dimension `except` is left out.
Expr owner(const Layout& layout, const Dims& shape, const Expr& thread, int except = -1);
// Whether values of this shape lie in the same registers in both.
bool same_place(const Layout& a, const Layout& b, const Dims& shape);
// `condition` without `lane` where it is the same for all lanes, as far as that can be seen; else unchanged.
Expr without_lane(const Expr& condition, const Expr& lane);

// What is decided about a value before code is made.
struct ValuePlan {
  const Inst* def = nullptr;  // nullptr for parameters of bodies
  int position = -1;          // of the definition; for parameters that of the loop
  int group = -1;             // whose layout it has; -1 for single elements, which every thread holds
  bool defined = false;       // computed once, where the program says, and kept
  bool shared = false;        // kept in shared memory, not in registers
  bool copied = false;        // kept in registers, with a copy in shared memory for users of other layouts
  bool transposed = false;    // read along one dimension, used along another: shared memory lies between
  int needed_until = -1;      // position of the last instruction that may compute it again
  std::vector<int> users;     // groups whose layout asks for it
};

struct Plan {
  std::vector<ValuePlan> values;
  std::vector<Layout> groups;
  std::unordered_map<const Inst*, int> position;    // order of appearance, outer before inner
  std::unordered_map<const Inst*, int> inst_group;  // of stores, reductions, ...: the layout they run in
  // Reductions that only add to a carried value of the loop around them: the threads put
  // their parts together after the loop.
  std::unordered_map<const Inst*, std::vector<const Inst*>> late;  // of a loop, by carried value; null: none
  // Loads that read just the element that a later store of the same layout writes: thread by thread no conflict.
  std::unordered_map<const Inst*, int> same_element;

  const Layout& layout(int group) const;
};

Plan make_plan(const Kernel& kernel, const kernel::Phase& phase, int threads, int warp);

// Puts barriers where one thread's access to memory must come after another's. Accesses with the same non-zero
// `immediate` never touch each other's elements, except from one iteration of a loop to the next; loops over registers
// (their variables in `register_loops`) are no exception.
void insert_barriers(Body& code, std::span<const Expr> register_loops);

class Lowering {
 public:
  Lowering(const Kernel& tile, const Target& target);
  Kernel run();

 private:
  struct Point {
    SmallVector<Expr, 4> registers;  // per dimension: a number, or the variable of a loop over registers
    Coords coords;                   // of the element, or elements: the lane variable stands for the lanes
  };
  struct Key {
    Value value;
    Coords coords;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  using Scope = std::unordered_map<Key, Value, KeyHash>;

  const Dims& shape(Value v) const { return tile_.values[v].shape; }
  const Layout& layout(Value v) const { return plan_.layout(plan_.values[v].group); }
  const Layout& layout_of(const Inst& inst) const { return plan_.layout(plan_.inst_group.at(&inst)); }

  // Walking over registers: loops for rolled dimensions, points for the others.
  Expr lane(const Layout& layout);
  Expr lane_of(const Layout& layout, const Dims& dims);  // 0 if values of this shape are scalars
  Expr lane_in(std::span<const Expr> exprs) const;       // the lane variable there, or 0
  Expr lane_in(const Expr& e) const { return lane_in({&e, 1}); }
  Point point(const Layout& layout, const Dims& dims, const SmallVector<Expr, 4>& registers);
  std::vector<Point> points(const Layout& layout, const Dims& dims, const SmallVector<Expr, 4>& registers);
  std::vector<Point> points(const Layout& layout, const Dims& dims) {
    return points(layout, dims, SmallVector<Expr, 4>(dims.size(), 0));
  }
  void over_rolled(const Layout& layout, const Dims& dims, const std::function<void(std::span<const Point>)>& body);
  std::vector<Value> register_loop(int64_t count, std::span<const Value> init, int unroll,
                                   const kernel::BodyCode<const Expr&, std::span<const Value>>& body);
  // The code of a body: values that it computes are not known outside.
  std::vector<Value> scoped(const kernel::BodyCode<>& code);
  Expr inside(const Coords& coords, const Dims& dims) const;

  // Values at coordinates.
  Value at(Value v, const Coords& coords);
  Value compute(const Inst& inst, const Coords& coords, const Dims& dims);
  kernel::Builder::Access access(const Inst& inst, const Coords& coords, const Dims& dims, const Expr& guard,
                                 bool lanes);
  Substitution places(const Inst& inst, const Coords& coords) const;  // of the instruction's coordinates
  // The integer `e`, or the condition, as a value; variables that the instruction binds may occur in it.
  Value index_of(DType dtype, const Expr& e, const Inst& inst, const Coords& coords);
  Value widen(Value v, const Expr& lane);

  // Shared memory. A value's home is a buffer of its shape, row-major.
  int allocate(const char* name, DType dtype, int64_t size);
  int home(Value v);
  Expr home_address(Value v, const Coords& coords) const;
  int64_t home_row(Value v) const;  // elements from one row of the home to the next
  kernel::Builder::Access shared_access(const Expr& address, const Expr& guard) const;
  Value load_shared(int buffer, const Expr& address, const Expr& guard);
  void store_shared(int buffer, const Expr& address, Value v, const Expr& guard, int id);
  void store_home(int buffer, Value like, std::span<const Point> where, std::span<const Value> values, int id);
  // Makes v known at these points, and to users of other layouts.
  void deliver(Value v, std::span<const Point> where, std::span<const Value> values, int id);
  void tag(int id) { builder_->code().insts.back().immediate = id; }
  int next_tag() { return ++tags_; }

  // Of what stores an instruction has: the points at which each thread does so, what goes there, and how.
  std::vector<Point> points_of(const Inst& store) { return points(layout_of(store), shape(store.args[0])); }
  Value stored(const Inst& store, const Point& p);
  kernel::Builder::Access store_access(const Inst& store, const Point& p);

  void emit(const Body& code, std::span<const Inst* const> already = {});
  void emit(const Inst& inst);
  void define_load(const Inst& inst);
  void emit_store(const Inst& inst);
  void compute_before_stores(std::span<const Inst> insts);
  std::vector<const Inst*> large_stores(std::span<const Inst> insts) const;
  void emit_in_parts(std::span<const Inst* const> stores);
  void write_points(std::span<const Inst* const> stores, std::span<const Point> where);
  int64_t registers_of_store(const Inst& store) const;
  bool waits(const Inst& inst) const;  // its results are there only after threads have met, or not before its turn
  bool reads(Value v, const std::vector<int>& buffers) const;
  // Whether it holds for a value that it takes to compute v again: v itself, its operands, and so on.
  bool takes_any(Value v, const std::function<bool(Value)>& which) const;
  void emit_loop(const Inst& inst);

  // Stores at the start of a loop's body that fill shared memory for a contraction (prefetch.cpp). Their values
  // are computed one iteration early, so that the loads for the next one are on their way while this one computes.
  std::vector<const Inst*> prefetched_stores(const Inst& loop) const;
  // The values of a store at every point where the loop's variable is `when`; loads only where `inside` holds.
  void prefetch_values(const Inst& store, const Expr& var, const Expr& when, const Expr& inside,
                       std::vector<Value>& out);
  void store_prefetched(const Inst& store, std::span<const Value>& values);
  void emit_branch(const Inst& inst);
  void emit_reduce(const Inst& inst);
  std::vector<Value> reduce_own(const Inst& inst, std::span<const Point> results, std::vector<Value> state);
  std::vector<Value> start_late(const Inst& reduce);
  void finish_late(const Inst& loop, size_t number, std::vector<Value> state);
  void emit_dot(const Inst& inst);
  void emit_scan(const Inst& inst);
  void emit_matrix_dot(const Inst& inst);  // matrix.cpp
  void emit_matrix_store(const Inst& inst);
  void emit_warp_dot(const Inst& inst);  // warp.cpp
  // Whether what follows stays with the threads that hold the sums: nobody waits for anybody.
  bool only_finishes(std::span<const Inst> insts, int group) const;
  std::vector<Point> registers_of(Value v);
  void values_in_registers(Value v, Value like, std::vector<Value>& out);
  void take_registers(Value v, std::span<const Value>& from);
  void write_out(int buffer, Value v, Value like, int id);

  // Reductions. A state holds the reducer's tuple for each result, one after the other.
  using Step = std::function<std::vector<Value>(const Coords& coords, std::span<Value> state)>;
  std::vector<Value> over_axis(const Layout& layout, const Dims& dims, int axis, std::span<const Point> results,
                               std::vector<Value> state, size_t width, int unroll, const Step& step);
  // What lanes and threads along the axis have, put together.
  std::vector<Value> across_threads(const Layout& layout, const Dims& dims, int axis, std::vector<Value> state,
                                    const std::shared_ptr<const kernel::Reducer>& reducer);
  // Scans: what comes before a thread's elements, and the total of all threads, for states one after the other.
  struct Prefixes {
    std::vector<Value> before, total;
  };
  Prefixes across_threads_before(const Layout& layout, const Dims& dims, int axis, std::vector<Value> state,
                                 const kernel::Reducer& reducer);
  std::vector<Value> scan_strips(const Inst& inst, std::span<const Point> results, std::span<const Expr> registers,
                                 std::vector<Value> carry, std::span<const int> ids);
  // Where a thread's partial results lie in shared memory, and which.
  struct Parts {
    int64_t count, slots;
    Expr slot, part, writes;
  };
  Parts parts_of(const Layout& layout, const Dims& dims, int axis, int64_t done);
  // Writes them; the tuple that part p of result i is.
  std::function<std::vector<Value>(int64_t i, int64_t p)> share(const Parts& parts, std::span<const Value> state,
                                                                const kernel::Reducer& reducer);
  std::optional<Value> counts(const Inst& inst, const Coords& coords, const Dims& dims);

  const Kernel& tile_;
  const Target& target_;
  Kernel out_;
  Plan plan_;
  kernel::Builder* builder_ = nullptr;
  Expr thread_;
  std::map<int, Expr> lane_vars_;                // by number of lanes
  std::vector<Scope> scopes_;                    // values already computed, per body being built
  std::unordered_map<Value, Scalar> constants_;  // values made so far that are constants
  std::vector<int> homes_;
  std::vector<int> spare_;  // shared buffers made for earlier phases
  std::vector<Expr> register_loops_;
  std::unordered_map<const Inst*, std::vector<Value>> parts_;  // of late reductions: what each thread has so far
  struct Shift {
    Expr var, by, inside;
  };
  std::optional<Shift> shift_;  // what is computed belongs to another iteration of a loop
  int leaving_ = -1;            // shared memory that a matrix unit's results pass through
  int tags_ = 0;
};

}  // namespace heddle::simt
