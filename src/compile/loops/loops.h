// Loops: one fused kernel as loop nests over index expressions, before any decision about how to run it.
//
// All stages share the outer axes. Stage i runs, for each point of the outer axes, over its own inner axes, and either
// reduces over all of them (its results are then one tuple per outer point) or stores. A later stage uses an earlier
// stage's results by naming them: always at the same outer point.
//
// A reducing stage may *keep* some of its inner axes. It reduces over the others, and has one tuple of results per
// outer point and point of the kept axes. Later stages that have the same axis among their inner ones, which is the
// same variable, name the results at the same point. A stage may also keep all of its inner axes and reduce nothing: it
// holds what several later stages use. Loops with such stages are *nested*.
//
// A scatter is two stages: the base is stored, then an ordered stage stores the updates one after the other to places
// that data decides, each after having read what is there if it combines. In place it is the ordered stage alone: the
// base is in the buffer already.
//
//   softmax over rows:  outer (r)   stage 0: inner (c) reduce max   stage 1: inner (c) reduce add
//                       stage 2: inner (c) store
//   matmul:             outer (m,n) stage 0: inner (k) reduce add   stage 1: store
//   attention:          outer (b,q) stage 0: inner (k, d) keeps k, reduce add   stage 1: inner (k) reduce max
//                       stage 2: inner (k) keeps k   stage 3: inner (k) reduce add
//                       stage 4: inner (e, k) keeps e, reduce add   stage 5: inner (e) store
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/contains.h"
#include "base/structure.h"
#include "compile/target/target.h"
#include "graph/node.h"
#include "kernel/ir.h"

namespace heddle {

struct Axis {
  Expr var;  // Expr::index
  Expr extent;
};

// What an axis is taken for where schedules are chosen: the most that it may have, and at least 1.
inline int64_t extent_of(const Axis& axis) { return std::max<int64_t>(axis.extent.hi(), 1); }

struct Stage {
  std::vector<Axis> inner;
  kernel::Body body;  // scalar-typed instructions; addresses and guards over outer and inner axis variables.
                      // With a reducer, body.results is the lifted tuple; without, the body ends in stores. A stage
                      // that stores and has one inner axis may hold scans: they run along that axis.
  std::shared_ptr<const kernel::Reducer> reducer;
  std::vector<kernel::Value> results;  // the reduced tuple, or what is kept, as named by later stages
  size_t kept = 0;  // so many of the inner axes, the first ones, are kept; all if there are results and no reducer
  // A maximum and a sum of multiples of exp(x - maximum), in one pass: the body names its own first result, which there
  // is the maximum of any part of the points that holds this one. Parts combine by the online_reducer().
  bool online = false;
  // The points of the inner axis run in ascending order, for several may write to one place. `place` is the variable
  // bound to the place along an axis that has `places` of them; the stage before, if there is one, walks it.
  bool ordered = false;
  Expr place, places = 1;
  // Ordered, where the updates may as well be combined with what is there in any order: by this. body.results is then
  // the update. Null: the order counts, for updates replace each other or results must always have the same bits.
  std::shared_ptr<const kernel::Reducer> combine;
};

struct Loops {
  std::string name;
  std::vector<Expr> symbols;            // sizes known at run time, each once: find_symbols()
  std::vector<kernel::Buffer> buffers;  // In, Out; last, if there are checks, an InOut one of an i64 for each
  std::vector<kernel::Type> values;     // all rank 0
  std::vector<Axis> outer;              // contiguous axes are merged
  std::vector<Stage> stages;
  int64_t together = 1;  // of a product: so many uses of it are launched at once

  DType dtype(kernel::Value v) const { return values[v].dtype; }
  const kernel::Buffer& buffer(const kernel::Inst& access) const { return buffers[access.buffer]; }
  // Of a stage, the outer axes first.
  const Axis& axis(const Stage& stage, size_t i) const {
    return i < outer.size() ? outer[i] : stage.inner[i - outer.size()];
  }
};

inline bool stores(const Stage& stage) { return !stage.reducer && stage.results.empty(); }
bool walks(std::span<const Axis> axes, const Expr& var);
bool reduces_along(const Stage& stage, const Expr& var);
// What computes a value in the stage's body, if that is where it is computed.
const kernel::Inst* definition(const Stage& stage, kernel::Value v);
bool is_nested(const Loops& loops);
bool has_scan(const Stage& stage);
bool scans_feed_scans(const Stage& stage);  // one scans what another has scanned

// Another variable, or something made of others, for variables of an instruction or of a body. In place.
void substitute_in(kernel::Inst& inst, const Substitution& to);
void substitute_in(Stage& stage, const Substitution& to);

// One axis in place of two, the second of which is the faster one, for stages that walk both.
Axis one_axis(const Axis& slow, const Axis& fast, std::span<Stage> stages);

// Makes one axis of neighbouring axes that every address and guard walks as one. In place.
void merge_axes(Loops& loops);

// Makes one axis of several that only one factor of a sum of products follows, where short rows of results would leave
// vectors half empty. Addresses may get divisions: what cannot be walked in order is read once into a panel. In place.
void merge_columns(Loops& loops);

// Whether two instructions of one stage, or of stages with the same axes, have the same result; without `args`: if
// their arguments have the same values.
bool computes_the_same(const Loops& loops, const kernel::Inst& a, const kernel::Inst& b, bool args = true);

// Makes one stage of independent reductions over the same axes, and of a maximum and the sum that is relative to it. In
// place.
void merge_reductions(Loops& loops);

// Computes once what elements at the same remainder of an axis have in common. In place.
void share_philox_blocks(Loops& loops);

// The symbols that extents, addresses, guards and sizes of buffers are made of, in the order of their appearance.
std::vector<Expr> find_symbols(const Loops& loops);

std::string print(const Loops& loops);
// Throws InternalError naming the first broken rule. Axes: a variable has one extent wherever it is walked, no stage
// walks one twice, none walks an outer one again. Values: computed before they are used, what a body computes is seen
// by its own stage alone, results of a stage with kept axes only by stages that walk all of these. Memory: what can be
// shown to lie outside its buffer, or to be written by several points.
void verify(const Loops& loops);
// Everything but names: equal for Loops that are the same kernel.
Structure structure(const Loops& loops);

}  // namespace heddle
