// The state of tile(), and its steps: what all strategies share, then the writer of each, in files of the same names as
// in schedule/. Private to this folder.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/rounding.h"
#include "compile/loops/online.h"
#include "compile/loops/useful_span.h"
#include "compile/schedule/schedule.h"
#include "kernel/builder.h"

namespace heddle {

class Tiler {
 public:
  using Builder = kernel::Builder;
  using Dims = kernel::Dims;
  using Inst = kernel::Inst;
  using Op = kernel::Op;
  using Value = kernel::Value;

  Tiler(const Loops& loops, const Schedule& schedule, const Target& target);
  kernel::Kernel run();

 private:
  void write_all_stages(bool divided);  // nest by nest
  const Stage& stage(size_t s) const { return loops_.stages[s]; }
  size_t axis_count(size_t s) const { return outer_ + stage(s).inner.size(); }
  const Axis& axis(size_t s, size_t i) const { return loops_.axis(stage(s), i); }
  DType dtype_of(Value v) const { return loops_.dtype(v); }
  bool is_outer(const Level& level) const { return static_cast<size_t>(level.axis) < outer_; }

  // Where a tile of a stage lies: for each axis the index of its first element, how many it spans, and where to stop.
  struct Place {
    std::vector<Expr> base;
    std::vector<int64_t> size;
    std::vector<Expr> end;  // elements at or beyond are outside
    // Neighbours along this axis are so many elements apart.
    size_t sparse_axis = SIZE_MAX;
    int64_t apart = 1;
    std::vector<bool> inside;  // nested: no element of the tile is outside; empty: some may be
    std::vector<size_t> dim;   // the dimension of the tile that each axis runs along; empty: axis i along dimension i
    // One more axis.
    void add(const Expr& from, int64_t elements, const Expr& to) {
      base.push_back(from);
      size.push_back(elements);
      end.push_back(to);
    }
  };
  static size_t dim(const Place& p, size_t i) { return p.dim.empty() ? i : p.dim[i]; }

  // A stage computed at one place.
  struct Instance {
    size_t stage;
    Place place;
    Substitution axes;
    std::unordered_map<Value, Value> map;
    std::vector<Value> carried;                                  // what the stage's scans begin with
    std::unordered_map<const Inst*, std::vector<Value>> totals;  // what each of them has come to
    // Accesses that have this guard get another one: what is written to is also what may be read.
    Expr guard = 1, instead = 1;
  };

  Instance instance_at(size_t s, const Place& p) { return {s, p, substitution(s, p)}; }
  int add_buffer(std::string name, DType dtype, kernel::Space space, const Expr& size);
  Expr counter(const Expr& extent) { return Expr::index(text("l", loop_count_++), extent); }  // of a loop
  Expr coordinate(size_t dimension, int64_t extent);
  Expr index_at(const Place& p, size_t i) {
    if (p.size[i] == 1) return p.base[i];
    return p.base[i] + coordinate(dim(p, i), p.size[i]) * (i == p.sparse_axis ? p.apart : 1);
  }
  // The tile with `used` dimensions spanned, the others of size 1.
  SmallVector<Expr, 4> coords(const Place& p, const std::vector<bool>& used);
  Dims dims(const Place& p, const std::vector<bool>& used);
  Expr bounds(const Place& p, const std::vector<bool>& used);

  // ---- phases and loops ----

  // `first` makes the variables of the grid that come before those of the outer axes.
  void open_phase(const std::function<void()>& first = {});
  void begin_phase();  // whose blocks are not those of the outer axes
  Expr block_variable(const std::string& name, const Expr& extent);
  // The block, with all of the stage's inner axes.
  Place whole(size_t s);
  // All of the axes, whatever the block.
  Place everything(size_t s);
  // The block, and so many parts of what it reduces along one more dimension.
  Place with_parts(int64_t parts) const;
  // One more axis of the grid: parts of the axis that an ordered stage writes to.
  void divide_places();
  // Narrows `p` to one step of the loop over `var`.
  Expr loop_variable(size_t s, const Place& p, const Level& level);
  Place step_into(Place p, const Level& level, const Expr& var);
  // Code for each tile of the stage's loops from `level` on; nothing is carried.
  void each_tile(size_t s, const Place& p, size_t level, const std::function<void(const Place&)>& body);
  // Stages [first, end) inside the outer loops of the first.
  void write_nest(size_t first, size_t end);
  void open_shared(size_t first, size_t end, const Place& at, size_t level, size_t shared);
  void write_stage(size_t s, const Place& p, size_t level, size_t nest_end);
  // The first level from `level` on behind which all loops run over axes that the stage reduces.
  size_t after_outer_loops(size_t s, size_t level) const;
  // `carried`: what the stage's scans have come to, if they have begun. Gives the same after this part.
  std::vector<Value> write_stores(size_t s, const Place& p, size_t level, std::vector<Value> carried);
  void write_checks(Instance& in);
  // An update whose place is the same for the whole tile is skipped as a whole where it falls elsewhere.
  void write_update(const Inst& inst, Instance& in);
  // Places of a batch of updates, computed and checked together, to scratch memory; what stage s writes one by one.
  void write_places(size_t s, const Place& p);
  // The last stage as a phase of its own, whose blocks take updates in any order.
  void write_atomic_updates();
  void write_atomic_update(const Inst& inst, Instance& in);
  // A phase whose blocks take parts of the updates, each into a copy of its own.
  void write_private_updates();
  // Makes the copy neutral, walking it as the stage that stores the base does.
  void begin_copy(const Place& p, size_t level);
  // What the base stores, combined with what the copies have at the same place.
  Value with_copies(Value base, Builder::Access access);

  // ---- scans ----

  std::vector<const Inst*> scans(size_t s) const;
  // What all scans of the stage begin with, one after the other.
  std::vector<Value> scan_starts(size_t s, const Place& p);
  // The operands of a scan over the whole tile, and where they count.
  struct Scanned {
    std::vector<Value> tuple;
    Expr guard;
    SmallVector<Expr, 4> where;
  };
  Scanned scan_operands(const Inst& inst, Instance& in);
  Value compute_scan(const Inst& inst, Instance& in);
  // What the scans of the stage come to over everything that the loops from `level` on cover.
  std::vector<Value> scan_totals(size_t s, const Place& p, size_t level, std::vector<Value> before);
  // A scan with too few rows for all cores: in each round the blocks first find out what their parts come to, then scan
  // them, starting from what the parts before come to. A round's parts fit into the caches, so that the second reading
  // costs little.
  void write_split_scan();

  // ---- reductions ----

  // The stage's tuple over everything that the loops from `level` on cover, combined with `before` if given.
  std::vector<Value> reduce(size_t s, const Place& p, size_t level, std::vector<Value> before);
  // The same for steps of one loop, of which a long sum takes few at a time.
  using ReduceStep = std::function<std::vector<Value>(const Place& p, std::vector<Value> before)>;
  std::vector<Value> reduce_steps(size_t s, const Place& p, const Level& loop, const Expr& first, const Expr& left,
                                  int64_t most, std::vector<Value> before, const ReduceStep& step);
  int64_t steps_of_a_sum(size_t s, const Level& loop) const;
  std::vector<Value> reduce_products(size_t s, const Place& p, std::vector<Value> before);
  // Which of `count` axes are those from `first` to before `end`.
  static std::vector<bool> axes_between(size_t count, size_t first, size_t end);
  std::vector<bool> outer_only(size_t count) const { return axes_between(count, 0, outer_); }
  std::vector<bool> result_axes(size_t s) const { return axes_between(axis_count(s), 0, outer_ + stage(s).kept); }
  std::vector<bool> reduced_axes(size_t s) const {
    return axes_between(axis_count(s), outer_ + stage(s).kept, axis_count(s));
  }
  // A loop over updates that are taken one by one inside.
  bool is_batch(size_t s, const Level& loop) const {
    return target_.machine == Machine::Simd && stage(s).ordered && static_cast<size_t>(loop.axis) == outer_ &&
           loop.step > 1;
  }
  bool reduces_axis(size_t s, size_t i) const { return i >= outer_ + stage(s).kept; }
  int64_t points_of_block() const;
  Expr points(size_t s) const;  // of the whole grid: of the outer axes and of those that the stage keeps
  void store_identities(size_t s, const Place& p);
  // Of the tile that one result has inside all loops.
  std::vector<Value> identities(size_t s, Place p, size_t level);
  std::vector<Value> reduce_tile(size_t s, const Place& p, std::vector<Value> before);
  static Dims extents(std::span<const Expr> coords);
  // Reductions and stores count elements, so their operand must really have all of them.
  Value spread(Value v, const Dims& full) { return builder_->broadcast(v, full); }
  // The results live in Shared memory, one element per outer point of the block, and are updated there by the loops up
  // to `last_outer`, which may have nothing to do when `may_be_empty`.
  void accumulate_in_memory(size_t s, const Place& p, size_t level, size_t last_outer, bool may_be_empty);
  // `fresh` holds while nothing has been written.
  void accumulate(size_t s, const Place& p, size_t level, size_t last_outer, Expr fresh);
  // `p` is a place of stage s, which computes the result or uses it.
  int result_buffer(Value result);
  Builder::Access result_access(Value result, size_t s, const Place& p);
  Value load_result(Value result, size_t s, const Place& p, const Expr& guard = 1);
  void store_result(Value result, size_t s, Value v, const Place& p, const Expr& guard = 1);

  // ---- nested stages ----

  // Gives every inner axis a dimension of its own.
  void number_dimensions();
  // What of an inner axis matters to the block.
  Span span_of(const Axis& axis);
  // The smallest or largest value of an expression over the outer axes in the block, if that can be told.
  std::optional<Expr> extreme(const Expr& e, bool largest) const;
  // For each axis of stage s, whether the result follows it.
  std::vector<bool> axes_of_result(Value result, size_t s) const;
  int64_t kept_room(size_t s, size_t i) const;
  void write_kept(size_t s, const Place& p, size_t level);
  // A tile that the current nest holds, at just the place that stage s wants it.
  std::optional<Value> held(Value result, size_t s, const Place& p);
  void hold(Value result, size_t s, Value v, const Place& p);

  // ---- the common axis chunk by chunk ----

  void write_chunks();
  // The same on a matrix unit (nested_contraction.cpp).
  bool in_registers() const { return online_ && target_.machine == Machine::Simt; }
  void write_chunks_in_registers();
  void share_rings();
  // `changes`: by pivot, what sums are multiplied with.
  void compute_chunk(size_t s, std::map<size_t, Value>& changes);
  bool reduces_common(size_t s) const;
  void write_stages(Online::Role role);
  void write_chunk_stage(size_t s, const Place& p, size_t level);
  // What a stage reduces along the common axis, for the whole block.
  std::vector<size_t> states() const;
  Place state_place(size_t s);
  void begin_states();
  void combine_parts();
  // A maximum, or 0 while there is nothing yet.
  Value finite(Value maximum);
  Value rescaling(Value change);
  // What sums relative to the finite maximum are multiplied with at the end.
  Value last_factor(Value maximum);
  // The results of stage s at p, times the factor of their rows.
  void rescale(size_t s, const Place& p, const std::function<Value(const Place&)>& factor);
  bool is_common(const Expr& var) const { return online_ && online_->along == var; }

  // ---- reductions split over the grid ----

  void write_partial_phase();
  // What one part has for the results of stage s at p; of more than these, `used` says along which axes.
  Builder::Access partial_access(size_t s, const Place& p, const Expr& part, const std::vector<bool>& used = {});
  void combine_partials();

  // ---- packed operands of a contraction ----

  // A copy of one factor, panel by panel: [other outer axes][panel][inner axes][lane].
  struct Packed {
    int buffer = -1;
    size_t panel_axis = 0;
    int64_t panel = 1;
    std::vector<size_t> axes;  // that the factor follows, in storage order, the panel axis included
    Place part;                // what has been copied
    bool whole = false;        // the part is the whole operand
    // Numbers along the axis of the dot that share an element; places and extents count elements.
    size_t packed_axis = SIZE_MAX;
    int64_t numbers = 1;
    int64_t pad = 0;            // elements between rows of a panel: threads that go down a column meet in no bank
    int64_t run = 1;            // elements along the axis of the dot that are neighbours, before the next lane
    std::vector<Expr> extents;  // of the part along `axes`; the panel axis rounded up to whole panels
  };

  Packed layout(size_t s, int operand, const Staged& staged, const Contraction& c, const Place& part, bool whole);
  // Element number of the point `index` (one entry per axis, counted from the part's beginning).
  static Expr packed_address(const Packed& packed, const std::vector<Expr>& index);
  static Expr packed_size(const Packed& packed);
  int add_packed(const Packed& packed, Value factor, kernel::Space space);  // the buffer
  void write_packing_phase(size_t s, int operand, const Staged& staged);
  // The tile at p in the copy.
  Builder::Access packed_access(size_t s, const Packed& packed, const Place& p, const Expr& guard);
  // Copies the factor's tile at p into its place. Along the packed axis, p counts packed words.
  void copy_tile(size_t s, const Packed& packed, Value factor, const Place& p);
  Value words_at(size_t s, const Packed& packed, Value narrow, const Place& p);
  DType packed_dtype(const Packed& packed, Value factor) const;
  // The reduced axis that the tile spans.
  size_t dot_axis(size_t s) const;
  // The place, counted in packed words along the axis of the dot.
  Place in_packed(size_t s, Place p, int64_t numbers) const;
  void write_panel_dot(size_t s, const Place& p, const Expr& goes_on);

  // ---- a SIMT machine's matrix unit ----

  kernel::Region region_at(size_t s, const MatrixView& view, const Place& p);
  std::vector<Value> matrix_dot(size_t s, const Place& p, std::vector<Value> before);
  Value matrix_left(size_t s, const Place& p, Value factor, DType narrow);
  bool write_matrix_store(const Inst& inst, Instance& in);  // false: not one that a matrix unit can do
  void write_matrix_packing(int operand);
  void take_turns(const std::function<void()>& body);
  // The strategy of a stage, if it is this one.
  template <class T>
  const T* as(size_t s) const {
    return std::get_if<T>(&schedule_.stages[s].strategy);
  }
  // Factors of the stage that are copied into panels, and whether a matrix unit takes these.
  const std::optional<Staged>& staged_factor(size_t s, int operand) const;
  bool by_panels(size_t s) const { return as<PackedContraction>(s) && as<PackedContraction>(s)->matrix; }
  // The steps of a sum that a SIMT machine's matrix unit takes by itself.
  Level unit_level(size_t s) const;
  bool by_warps(size_t s) const { return as<MatrixContraction>(s) && as<MatrixContraction>(s)->warps; }
  // Copies the parts that are due inside `level` loops of the stage.
  void write_block_packing(size_t s, const Place& p, size_t level);

  // ---- values ----

  // A factor of the contraction: from its packed copy if there is one.
  Value operand(size_t s, int number, Value factor, Instance& instance);
  Substitution substitution(size_t s, const Place& p);
  // Fills address, guard, coords and binds of an access from the scalar instruction.
  Builder::Access access_of(const Inst& inst, Instance& in, bool all_axes);
  void write_store(const Inst& inst, Instance& in);
  Value value(Value v, Instance& in);
  Value compute(const Inst& inst, Instance& in);

  const Loops& loops_;
  const Schedule& schedule_;
  const Target& target_;
  size_t outer_ = 0, rank_ = 0;
  int loop_count_ = 0;
  kernel::Kernel kernel_;
  std::optional<Builder> builder_;
  Place block_;
  Expr part_;              // of an ordered stage's places, when they are divided
  int64_t part_size_ = 0;  // 0: they are not
  int places_ = -1;        // the buffer of a batch's places, while there is a batch
  Expr batch_base_;        // the first update of it
  int copies_ = -1;        // the buffer of a scatter's private copies, once they are written
  std::map<std::pair<size_t, int64_t>, Expr> coordinates_;
  std::unordered_map<Value, std::pair<size_t, const Inst*>> definition_;
  std::unordered_map<Value, Value> registers_;  // results of stages in the current nest
  struct Held {
    Value tile;
    size_t stage;
    Place place;
  };
  std::unordered_map<Value, Held> held_;  // results of nested stages in the current nest, which are in memory too
  std::unordered_map<Value, size_t> result_stage_;  // the stage of every result
  std::optional<Online> online_;                    // if the common axis is walked in chunks
  bool in_chunk_ = false;
  Expr chunk_base_ = 0;                      // where the chunk begins
  std::optional<std::set<Value>> unmasked_;  // in chunks that are whole, and in which these conditions hold
  std::map<size_t, int> rings_;              // by stage: tiles on their way, if several loops share them
  std::map<size_t, int> factor_buffers_;   // by pivot: what its last chunk changed, one element per point of the block
  std::vector<std::vector<size_t>> dims_;  // nested: for each stage and axis, its dimension
  std::vector<std::pair<Expr, Span>> spans_;       // nested: inner axes of which only a part matters
  std::unordered_map<Value, int> result_buffers_;  // results that pass through Shared memory
  std::vector<int> partial_buffers_;
  std::map<std::pair<size_t, int>, Packed> packed_;  // by stage and operand
  std::optional<size_t> packed_at_;                  // this level's parts are already copied
  std::map<int, MatrixView> matrices_;               // factors packed for a matrix unit
  Expr turn_ = 0;                                    // counts the blocks that a persistent one takes
};

}  // namespace heddle
