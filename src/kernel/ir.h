// The kernel IR: SSA with structured control, used at two levels.
//
//   tile level    a value is a tile of any rank, `tile<64x32xf32>`; says what a block of the grid computes
//   thread level  a value is a scalar or a short vector, `vec<16xf32>`; says what one thread executes
//
// Both use the same container and nearly the same ops; verify() knows the difference.
//
// Integers that address memory or steer loops are not SSA values: they are Exprs over the variables of the grid
// (blocks), of loops, of the thread, and of the element within a tile or vector (coordinates). Every pass can
// therefore reason about, move and simplify addresses as formulas. Data enters such a formula only through `binds`.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/small_vector.h"
#include "core/ops.h"
#include "core/scalar.h"
#include "expr/expr.h"

namespace heddle::kernel {

using Dims = SmallVector<int64_t, 4>;

// Rank 0 is a scalar. A dimension of size 1 broadcasts against any other, and a scalar against anything; operands
// of equal rank otherwise have equal dimensions.
struct Type {
  DType dtype = DType::f32;
  Dims shape;

  int64_t numel() const;
  friend bool operator==(const Type&, const Type&) = default;
};
std::string to_string(const Type& type);  // "f32", "tile<8x64xf32>"; thread level prints vec<...>

// A value: an index into Kernel::values (or Reducer::values).
using Value = int32_t;
inline constexpr Value kNoValue = -1;

enum class Op : uint8_t {
// Every ScalarOp has the same number here: elementwise, with implicit broadcasting.
#define HD_OP(name, arity, rule, native) name,
#include "core/ops.def"
#undef HD_OP
  constant,  // `literal`, in every element of the result
  cast,      // elementwise, to the result's dtype
  bitcast,
  index,  // the integer `address` at each coordinate, as a value of dtype i32 or i64 (or bool for a condition)
  load,   // buffer[address] where guard holds, else 0. Of narrower elements, unsigned results are packed words of them:
          // the buffer counts as one of the result's dtype, the first element lowest
  store,  // buffer[address] = args[0] where guard holds
  combine,  // buffer[address] = reducer(buffer[address], args[0]) where guard holds; simple reducers only
  check,    // reports values that must not be: buffer[address] = args[0] (an integer, as i64) of some element for which
            // guard holds, any one of them; nothing when there is none. Nobody else writes there, but other blocks'
            // checks
  reduce,   // args: k tiles of one shape; results: the same with dimension `axis` reduced to 1. Elements whose
            // guard is false count as the identity. On a vector (thread level, rank 1): gives scalars.
  scan,     // args: k tiles x of one shape, then k tiles c, the same with dimension `axis` of size 1; results: k tiles
            // whose element i along `axis` combines c and x[0] .. x[i], then k tiles that combine c and all of x.
            // Elements whose guard is false count as the identity. On vectors (thread level) c and the last k
            // results are scalars.
  dot,      // args a, b, acc: acc + sum over `axis` of a * b (operands broadcast). Same guard rule. Packed words of u32
            // with an f32 acc are pairs of bf16, with an i32 acc four i8: their products add up
  panel_dot,  // what a matrix unit does from memory to memory: panels[0] += panels[1] * panels[2], panels of packed
              // words as in dot, `extent` steps of kPanelDepth; where guard is false panels[0] counts as 0
  // Products by a matrix unit that copies tiles of its factors into shared memory ahead of use. Tile level: the tile of
  // sums, rows before columns. Thread level: the vectors of fragment() that each thread holds. In a phase with such a
  // product the last kMatrixThreads threads do nothing but copy. The pipeline has `immediate` stages; `address` tiles
  // have been taken before.
  matrix_dot,  // sum over `var` in [0, extent) of left * right, each kMatrixBytes deep. args: the sums so far, if any,
               // then the left factor, unless it is regions[0]; the right one is the last of `regions`
  matrix_store,  // writes args, such a tile, to regions[0], in the threads that hold it
  // Tile level only: the same sum by a matrix unit that warps use. Tiles are kWarpBytes deep; `immediate` of them
  // have room in shared memory. Factors of f32 are rounded to tf32. Lowered to copy, load_matrix and mma.
  warp_dot,
  loop,    // for var in [0, extent): carried values; args are the initial ones, results the final ones
  branch,  // if `guard` (free of coordinates): bodies[0], else bodies[1] (may be empty when there are no results).
           // args are the values of `binds`, single elements
  // thread level only
  barrier,      // all threads of the block; makes shared memory written before visible after
  shuffle_xor,  // args[0] of the lane whose number in the warp is mine ^ immediate (Kernel::warp)
  packed_dot,   // args a, b, acc: dot of packed words, element by element
  transpose,    // args: n vectors of n lanes, n a power of two; lane i of result k is lane k of args[i]
  // A matrix unit that warps use; see kWarpRows.
  copy,         // 16 bytes from panels[1], in global memory, to panels[0], in shared memory. Only the first `extent`
                // elements, and none where guard is false, are read; the others become 0. They arrive at a copy_fence
  copy_fence,   // what the thread has copied since the last one becomes a group; waits until at most `immediate` groups
                // of this thread are on their way
  load_matrix,  // a fragment from shared memory: each lane gives the address of 16 bytes of it. f32 is rounded to tf32.
                // `axis` 1: transposed, the rows in memory run across the fragment's; elements of 2 bytes
  mma,          // args: fragments a and b, then four vectors of two sums; results: the sums, plus a times b transposed
};
inline constexpr bool is_scalar_op(Op op) { return static_cast<int>(op) < kScalarOpCount; }
inline constexpr Op from(ScalarOp op) { return static_cast<Op>(op); }
inline constexpr ScalarOp scalar_op(Op op) { return static_cast<ScalarOp>(op); }
const char* name(Op op);

struct Inst;

// A list of instructions with parameters (carried values of a loop, operands of a reducer) and results.
struct Body {
  std::vector<Value> params;
  std::vector<Inst> insts;
  std::vector<Value> results;
};

// A monoid over a tuple of k scalars: identity and an associative combine with 2k parameters (left, then right)
// and k results. Self-contained: its values are numbered on their own.
struct Reducer {
  std::vector<Scalar> identity;
  std::vector<Type> values;
  Body combine;

  size_t width() const { return identity.size(); }
};
// add, mul, maximum, minimum, bit_and, bit_or over one value.
std::shared_ptr<const Reducer> simple_reducer(ScalarOp op, DType dtype);
// (value, i64 or i32 index): the larger (smaller) value wins, the first one among equals; NaN wins over everything.
std::shared_ptr<const Reducer> arg_reducer(bool largest, DType dtype, DType index = DType::i64);
// Both at once, side by side.
std::shared_ptr<const Reducer> product_reducer(const Reducer& a, const Reducer& b);
// (maximum, sum of multiples of exp(x - maximum)); an infinite maximum counts as 0 there.
std::shared_ptr<const Reducer> online_reducer(DType dtype);
// The op of a reducer that simple_reducer() could have made.
std::optional<ScalarOp> simple_op(const Reducer& reducer);
// What combines with any value to just that value, bit for bit. Sums of floats start from 0, which turns -0 into 0; a
// scan starts from -0.
Scalar neutral(const Reducer& reducer, size_t k);

enum class Hint : uint8_t {
  None,
  Stream,    // will not be used again soon, keep it out of the caches
  Prefetch,  // load: the element `immediate` further on will be wanted soon, fetch it into the caches
};

// One of the matrices of a panel_dot: kPanelRows rows of kPanelRows results, kPanelRows rows of kPanelDepth words for
// each step of the left factor, kPanelDepth rows of kPanelRows words of the right one.
inline constexpr int64_t kPanelRows = 32, kPanelDepth = 16;
struct Panel {
  int32_t buffer = -1;
  Expr address;        // of the first element
  int64_t stride = 0;  // elements between rows
  int64_t step = 0;    // elements from one step to the next
  friend bool operator==(const Panel&, const Panel&) = default;
};

// A tile of a matrix in global memory, as the copies of a matrix unit see it. The matrix has dimensions of `extents`,
// the fastest first, whose elements are `strides` apart, and begins at element `offset` of the buffer: these speak of
// symbols only. The tile spans dimensions 0 and 1 and begins at `at`; outside the matrix it reads as 0 and is not
// written.
//
// A *gathered* matrix has two dimensions and no strides: its elements lie where `offset` says as an expression in
// `coords`, the positions along both dimensions, and read as 0 where `guard` does not hold. 16 bytes along dimension 0
// are always neighbours, and the guard is the same for all of them. Only a warp_dot has such factors.
struct Region {
  int32_t buffer = -1;
  Expr offset = 0;
  SmallVector<Expr, 4> extents;
  SmallVector<int64_t, 4> strides;
  SmallVector<Expr, 4> at;
  SmallVector<Expr, 2> coords;
  Expr guard = 1;
  bool is_gathered() const { return !coords.empty(); }
  bool transposed = false;  // of a factor: dimension 1 runs along the sum, not dimension 0
  bool stays = false;  // of a matrix_dot's left factor: the same whenever the threads come by, so it is copied once
  friend bool operator==(const Region&, const Region&) = default;
};
// How deep the tiles of a matrix_dot are, in bytes of a factor; threads that multiply together, and their rows.
inline constexpr int64_t kMatrixBytes = 128, kMatrixThreads = 128, kMatrixRows = 64;
// The first of two neighbouring elements, in row-major order of the tile, that `thread` holds as its vector number
// `index` of a tile of `columns`: first all of one row, then all of another one.
struct Fragment {
  int64_t row, column;
};
Fragment fragment(int64_t thread, int64_t index, int64_t columns);

// A fragment is four squares of eight rows by 16 bytes. Of each, lane l of a warp holds bytes 4 * (l % 4) to + 3 of row
// l / 4, and lanes 8 * s to + 7 give the addresses of the rows of square s; transposed, of its columns. A factor of mma
// has kWarpRows rows of 32 bytes: the squares of a are its upper left, lower left, upper right and lower right one,
// those of b upper left, upper right, lower left and lower right. Sums: of rows l / 4 and l / 4 + 8, two columns from
// 2 * (l % 4) on; both rows of the first eight columns, then of the others.
inline constexpr int64_t kWarpLanes = 32, kWarpRows = 16, kWarpBytes = 64;

struct Inst {
  Op op = Op::constant;
  Hint hint = Hint::None;
  int16_t axis = 0;       // reduce, scan, dot
  int32_t buffer = -1;    // load, store, combine, check: index into Kernel::buffers
  int32_t immediate = 0;  // shuffle_xor: lane mask. loop: unroll factor wanted (0: none). Hint::Prefetch: distance
  SmallVector<Value, 2> results;
  SmallVector<Value, 3> args;  // store, combine, check: the value first. Then one argument for each of `binds`.
  Scalar literal;              // constant
  Expr address;                // index, load, store, combine, check: element number
  Expr guard = 1;              // load, store, combine, check, reduce, scan, dot, branch
  // The variables that stand for the element's position in `address` and `guard`: one per dimension of the tile
  // or vector loaded, stored, indexed or reduced (for dot: of the broadcast shape of a and b). Extents equal the
  // dimensions.
  SmallVector<Expr, 4> coords;
  SmallVector<Expr, 1> binds;              // variables in address or guard that stand for elements of the trailing args
  Expr var, extent;                        // loop, matrix_dot, warp_dot; panel_dot, copy: extent
  std::shared_ptr<const Reducer> reducer;  // reduce, scan, combine
  std::vector<Body> bodies;                // loop, branch
  std::vector<Panel> panels;               // panel_dot: result, left and right factor; copy: to, from
  std::vector<Region> regions;             // matrix_dot, warp_dot: left and right factor; matrix_store: the result

  // Of a matrix_dot: the left factor is the last arguments; so many arguments are the sums so far.
  bool left_in_args() const { return regions.size() == 1; }
  size_t sums_in_args() const { return args.empty() ? 0 : results.size(); }
};

enum class Space : uint8_t {
  In,
  Out,
  InOut,   // arguments of the kernel, in global memory, 64-byte aligned
  Temp,    // global memory for the whole launch, provided by the plan: what one phase hands to the next
  Shared,  // per block: shared memory of a GPU. On a CPU, where one thread runs a block, scratch of that thread
};

struct Buffer {
  std::string name;
  DType dtype = DType::f32;
  Space space = Space::In;
  Expr size;  // elements; constant for Shared
};

// Blocks of a grid are independent and run in any order; all blocks of a phase finish before the next begins.
struct Phase {
  std::vector<Expr> blocks;  // index variables; their extents are the grid, the last runs fastest
  Body body;
};

enum class Level : uint8_t { Tile, Thread };

struct Kernel {
  std::string name;
  Level level = Level::Tile;
  int threads = 1;            // per block; more than 1 only on SIMT machines
  int warp = 32;              // threads between which values are shuffled
  Expr thread;                // index variable of the thread within the block, used when threads > 1
  std::vector<Expr> symbols;  // run-time sizes, passed as int64
  std::vector<Buffer> buffers;
  std::vector<Type> values;  // type of every Value
  std::vector<Phase> phases;
  // The first variable of every phase's grid counts rounds: all phases run for round 0, then all for round 1, and so
  // on. What one round leaves in Temp buffers is there for the next.
  bool rounds = false;
};
// Threads of a phase that work; those that only copy for a matrix unit are not among them.
int working_threads(const Kernel& kernel, const Phase& phase);

// Text: what print() writes, parse() reads; parse(print(k)) prints the same.
std::string print(const Kernel& kernel);
std::string print(const Reducer& reducer);
Kernel parse(std::string_view text);  // throws ParseError with line and column

// Throws InternalError naming the first broken rule: types, dominance, ranks, coords, buffers, level.
void verify(const Kernel& kernel);

// Numbers every value anew in order of appearance and drops unused entries of `values`.
void renumber(Kernel& kernel);

// Calls f for every instruction, outer before inner.
void visit(const Body& code, const std::function<void(const Inst&)>& f);
void visit(Body& code, const std::function<void(Inst&)>& f);

// The shape that elementwise operands of these shapes give; throws InternalError if they do not fit.
Dims broadcast_dims(const Dims& a, const Dims& b);

}  // namespace heddle::kernel
