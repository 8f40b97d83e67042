// What the sorting kernels share. Private to the sort*.cpp files.
//
// Elements are sorted by *keys*: unsigned integers of the same size whose order is the order wanted. NaNs have the
// largest key before it is inverted for descending order. -0 and 0 have neighbouring keys, so that the element can be
// had back from its key; order() makes them equal.
#pragma once

#include <functional>
#include <optional>

#include "base/error.h"
#include "base/rounding.h"
#include "compile/direct/sort.h"
#include "kernel/builder.h"

namespace heddle {

// Positions are i32, so there are not more.
inline constexpr int64_t kAnyPosition = int64_t{1} << 31;

struct SortWriter {
  using Value = kernel::Value;
  using Values = std::vector<Value>;
  // A selection: keys at positions i, i + 1, ...; positions from n on have the largest. And what becomes of the
  // results.
  using Source = std::function<Value(const Expr& i)>;
  using Put = std::function<void(Value rank, Value position)>;
  using Select = std::function<void(const Source&, const Put&)>;

  SortWriter(const SortTask& task, const Target& target, const std::string& name,
             const std::vector<kernel::Buffer>& arguments);

  const SortTask& task;
  const Target& target;
  kernel::Kernel kernel;
  std::optional<kernel::Builder> builder;  // of the phase being written
  int x = 0, values = -1, indices = -1;    // buffers
  DType key;
  int bits;       // of a key that matter
  int64_t lanes;  // keys in a vector; 1 where vectors do not help

  int buffer(const std::string& name, DType dtype, kernel::Space space, int64_t size);
  int shared(const std::string& name, DType dtype, int64_t size) {
    return buffer(name, dtype, kernel::Space::Shared, size);
  }
  // Begins a phase; gives its block variables, one for each size.
  std::vector<Expr> phase(std::initializer_list<int64_t> grid);
  kernel::Builder& b() { return *builder; }

  Value number(DType dtype, uint64_t value) { return b().constant(Scalar::from_bits(dtype, value)); }
  Value i32(int64_t value) { return b().constant(Scalar::of(DType::i32, value)); }
  Value index(const Expr& e, DType dtype = DType::i32) { return b().index(dtype, e, {}); }
  // The same in all lanes; a scalar where vectors do not help.
  Value splat(DType dtype, uint64_t value, int64_t width);
  Value splat(DType dtype, uint64_t value) { return splat(dtype, value, lanes); }
  Value op(ScalarOp op, Value a) { return b().op(op, {a}); }
  Value op(ScalarOp op, Value a, Value c) { return b().op(op, {a, c}); }
  Value add(Value a, Value c) { return op(ScalarOp::add, a, c); }
  Value sub(Value a, Value c) { return op(ScalarOp::sub, a, c); }
  Value less(Value a, Value c) { return op(ScalarOp::lt, a, c); }
  Value equal(Value a, Value c) { return op(ScalarOp::eq, a, c); }
  Value bit_and(Value a, Value c) { return op(ScalarOp::bit_and, a, c); }
  Value bit_or(Value a, Value c) { return op(ScalarOp::bit_or, a, c); }
  Value where(std::initializer_list<Value> args) { return b().op(ScalarOp::where, args); }
  // The number of a lane; 0 of a scalar.
  static Expr lane(int64_t width) { return width > 1 ? Expr::index("d", width) : Expr(0); }
  // Of a vector, if `lane` is a variable: address and guard may speak of it.
  static kernel::Builder::Access across(const Expr& lane, const Expr& address, const Expr& guard = 1);
  // Elements address, address + 1, ... as a vector of `width` lanes (a scalar if that is 1).
  Value load(int from, const Expr& address, int64_t width = 1, const Expr& limit = {});
  void store(int to, Value v, const Expr& address);
  void fill(int to, const Expr& address, const Expr& vectors, Value v);  // so many times the same
  // Element base + position, where the position is data below `extent`; zero or nothing where it is not below `limit`.
  Value load_at(int from, Value position, const Expr& base, const Expr& extent, const Expr& limit = {});
  void store_at(int to, Value v, Value position, const Expr& base, const Expr& extent, const Expr& limit = {});
  // The element of that rank (below `extent`) in a row of the results, and where it was: stores what is wanted.
  void store_result(const Expr& row, Value rank, const Expr& extent, const std::function<Value()>& element,
                    const std::function<Value()>& position);
  // Positions `first`, first + 1, ... as a vector; whether they are below a limit.
  Value positions_from(const Expr& first, DType dtype, int64_t width);
  Value below(const Expr& first, const Expr& limit, int64_t width);
  // As many keys as a vector has; the largest one from `end` on.
  Value load_keys(int from, const Expr& address, const Expr& end);
  Value reduced(ScalarOp op, Value v);  // of a vector; a scalar is itself
  // for i < count: body(i, carried).
  Values loop(const Expr& count, const Values& init, const kernel::BodyCode<const Expr&, const Values&>& body,
              int unroll = 0);
  // The same with nothing carried.
  void each(const Expr& count, const kernel::BodyCode<const Expr&>& body, int unroll = 0);
  // Walks over [0, count) in vectors, then one by one.
  void each_vector(const Expr& count, const std::function<void(const Expr& at, int64_t width)>& body);
  // What `op` makes of all values over [0, count), from 0 on.
  Value over_vectors(const Expr& count, ScalarOp op, DType dtype,
                     const std::function<Value(const Expr& at, int64_t width)>& value, int unroll = 0);
  // Whether `other` comes before `own`: it is less, or equal where `first` holds.
  Value comes_before(Value other, Value own, Value first);
  // The k-th smallest key: the largest number than which fewer than k keys are smaller (i32), found bit by bit.
  Value smallest(int64_t k, const std::function<Value(Value than)>& count_below);

  uint64_t ones() const { return ~uint64_t{0} >> (64 - 8 * size_of(key)); }
  Value to_key(Value element);
  Value from_key(Value k);
  Value order(Value k);  // what is compared

 private:
  Value signs(Value k);  // in all bits that of the sign
};

// Each element counts those that come before it: for short rows.
bool ranks_are_best(const SortTask& task);
void write_rank_sort(SortWriter& w);
// Finds a bound that only few elements pass, and sorts those: for the first few of many.
bool selection_is_best(const SortWriter& w);
void write_selection(SortWriter& w);
// One selection from n positions by the threads of a block. `number` tells the buffers of several apart.
SortWriter::Select block_selection(SortWriter& w, int64_t n, int number);
int64_t block_selection_bytes(const SortWriter& w, int64_t n);  // of shared memory
// Digit by digit, least significant first, for SIMD machines.
void write_radix_sort(SortWriter& w);
// By networks of comparisons, in vectors.
bool networks_are_best(const SortWriter& w);
void write_vector_sort(SortWriter& w);
// Longer and longer runs, for SIMT machines.
void write_merge_sort(SortWriter& w);

// Puts `most` elements of which the first `count` (i32) matter in order by counting, for each, those before it.
// `keys` holds order() of them in Shared memory, padded to whole vectors with the largest key. put(rank, i) stores
// element i; ranks are i32.
void write_ranks(SortWriter& w, int keys, int64_t most, kernel::Value count,
                 const std::function<void(kernel::Value rank, const Expr& i)>& put);

}  // namespace heddle
