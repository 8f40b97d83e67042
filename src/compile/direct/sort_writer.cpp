#include "compile/direct/sort_writer.h"

#include <algorithm>

#include "base/error.h"

namespace heddle {

using kernel::Builder;
using kernel::Space;
using kernel::Value;

namespace {

DType unsigned_of(int bytes) {
  return bytes == 1 ? DType::u8 : bytes == 2 ? DType::u16 : bytes == 4 ? DType::u32 : DType::u64;
}
DType signed_of(int bytes) {
  return bytes == 1 ? DType::i8 : bytes == 2 ? DType::i16 : bytes == 4 ? DType::i32 : DType::i64;
}
uint64_t sign_of(DType key) { return uint64_t{1} << (8 * size_of(key) - 1); }

// The largest magnitude of a small float that is no NaN.
uint64_t infinity_of(DType dtype) {
  switch (dtype) {
    case DType::f8e4m3: return 0x7e;  // has no infinity
    case DType::f8e5m2: return 0x7c;
    case DType::f16: return 0x7c00;
    default: return 0x7f80;
  }
}

}  // namespace

SortWriter::SortWriter(const SortTask& the_task, const Target& the_target, const std::string& name,
                       const std::vector<kernel::Buffer>& arguments)
    : task(the_task), target(the_target), key(unsigned_of(size_of(the_task.dtype))) {
  kernel.name = name;
  kernel.level = kernel::Level::Thread;
  kernel.thread = Expr::index("t", 1);
  kernel.warp = target.warp;
  kernel.buffers = arguments;
  int next = 1;
  if (task.values) values = next++;
  if (task.indices) indices = next++;
  bits = task.dtype == DType::boolean ? 1 : 8 * size_of(key);
  lanes = target.machine == Machine::Simd ? target.vector_bytes / size_of(key) : 1;
}

int SortWriter::buffer(const std::string& name, DType dtype, Space space, int64_t size) {
  kernel.buffers.push_back({name, dtype, space, std::max<int64_t>(size, 1)});
  return static_cast<int>(kernel.buffers.size()) - 1;
}

std::vector<Expr> SortWriter::phase(std::initializer_list<int64_t> grid) {
  builder.reset();
  kernel::Phase& added = kernel.phases.emplace_back();
  for (int64_t size : grid) added.blocks.push_back(Expr::index(text("c", added.blocks.size()), size));
  builder.emplace(kernel, added);
  return added.blocks;
}

Builder::Access SortWriter::across(const Expr& lane, const Expr& address, const Expr& guard) {
  Builder::Access access{address, guard};
  if (lane.is_var()) access.coords = {lane};
  return access;
}

Value SortWriter::load(int from, const Expr& address, int64_t width, const Expr& limit) {
  const Expr lane = this->lane(width), at = address + lane;
  return b().load(from, kernel.buffers[from].dtype, across(lane, at, limit.is_const(0) ? Expr(1) : lt(at, limit)));
}

void SortWriter::store(int to, Value v, const Expr& address) {
  if (b().type(v).shape.empty()) return b().store(to, v, {address});
  const Expr lane = this->lane(b().type(v).shape[0]);
  b().store(to, v, across(lane, address + lane));
}

void SortWriter::fill(int to, const Expr& address, const Expr& vectors, Value v) {
  const int64_t width = b().type(v).numel();
  each(vectors, [&](const Expr& i) { store(to, v, address + i * width); });
}

namespace {
Builder::Access at_position(Value position, const Expr& base, const Expr& extent, const Expr& limit) {
  const Expr var = Expr::index("v", extent);
  Builder::Access access{base + var, limit.is_const(0) ? Expr(1) : lt(var, limit)};
  if (!var.is_var()) return access;
  access.binds = {var};
  access.bound = {position};
  return access;
}
}  // namespace

Value SortWriter::load_at(int from, Value position, const Expr& base, const Expr& extent, const Expr& limit) {
  return b().load(from, kernel.buffers[from].dtype, at_position(position, base, extent, limit));
}

void SortWriter::store_at(int to, Value v, Value position, const Expr& base, const Expr& extent, const Expr& limit) {
  b().store(to, v, at_position(position, base, extent, limit));
}

void SortWriter::store_result(const Expr& row, Value rank, const Expr& extent, const std::function<Value()>& element,
                              const std::function<Value()>& position) {
  const Expr base = row * task.kept;
  if (values >= 0) store_at(values, element(), rank, base, extent, task.kept);
  if (indices >= 0) store_at(indices, b().cast(position(), DType::i64), rank, base, extent, task.kept);
}

Value SortWriter::splat(DType dtype, uint64_t value, int64_t width) {
  return b().constant(Scalar::from_bits(dtype, value), width > 1 ? kernel::Dims{width} : kernel::Dims{});
}

Value SortWriter::positions_from(const Expr& first, DType dtype, int64_t width) {
  const Expr lane = this->lane(width);
  return b().index(dtype, first + lane, across(lane, 0).coords);
}

Value SortWriter::below(const Expr& first, const Expr& limit, int64_t width) {
  const Expr lane = this->lane(width);
  return b().index(DType::boolean, lt(first + lane, limit), across(lane, 0).coords);
}

Value SortWriter::load_keys(int from, const Expr& address, const Expr& end) {
  const bool inside = provably_true(le(address + lanes, end));
  Value k = load(from, address, lanes, inside ? Expr() : end);
  if (from == x) k = to_key(k);
  return inside ? k : where({below(address, end, lanes), k, number(key, ones())});
}

Value SortWriter::reduced(ScalarOp op, Value v) {
  if (b().type(v).shape.empty()) return v;
  Value args[] = {v};
  return b().reduce(args, 0, kernel::simple_reducer(op, b().type(v).dtype))[0];
}

SortWriter::Values SortWriter::loop(const Expr& count, const Values& init,
                                    const kernel::BodyCode<const Expr&, const Values&>& body, int unroll) {
  if (count.is_const(0)) return init;
  Expr i = Expr::index("k", count);
  return b().loop(
      i, init, [&](std::span<const Value> carried) { return body(i, Values(carried.begin(), carried.end())); }, unroll);
}

void SortWriter::each(const Expr& count, const kernel::BodyCode<const Expr&>& body, int unroll) {
  loop(count, {}, [&](const Expr& i, const Values&) { return body(i); }, unroll);
}

void SortWriter::each_vector(const Expr& count, const std::function<void(const Expr& at, int64_t width)>& body) {
  Expr whole = lanes > 1 ? floordiv(count, lanes) : Expr(0);
  each(whole, [&](const Expr& i) { body(i * lanes, lanes); });
  each(count - whole * lanes, [&](const Expr& i) { body(whole * lanes + i, 1); });
}

Value SortWriter::over_vectors(const Expr& count, ScalarOp op, DType dtype,
                               const std::function<Value(const Expr& at, int64_t width)>& value, int unroll) {
  const Expr whole = lanes > 1 ? floordiv(count, lanes) : Expr(0);
  Values sum{number(dtype, 0)};
  if (!whole.is_const(0)) {
    auto step = [&](const Expr& i, const Values& s) { return Values{this->op(op, s[0], value(i * lanes, lanes))}; };
    sum = loop(whole, {splat(dtype, 0)}, step, unroll);
    sum[0] = reduced(op, sum[0]);
  }
  return loop(count - whole * lanes, sum, [&](const Expr& i, const Values& s) {
    return Values{this->op(op, s[0], value(whole * lanes + i, 1))};
  })[0];
}

Value SortWriter::comes_before(Value other, Value own, Value first) {
  const Value tie = bit_and(equal(other, own), first);
  return bit_or(less(other, own), tie);
}

Value SortWriter::smallest(int64_t k, const std::function<Value(Value than)>& count_below) {
  const Value top = number(key, sign_of(key));
  return loop(8 * size_of(key), {number(key, 0), top}, [&](const Expr&, const Values& s) {
    const Value larger = bit_or(s[0], s[1]);
    const Value fits = less(count_below(larger), i32(k));
    return Values{where({fits, larger, s[0]}), op(ScalarOp::shr, s[1], number(key, 1))};
  })[0];
}

Value SortWriter::signs(Value k) {
  const DType dtype = signed_of(size_of(key));
  const Value plain = b().bitcast(k, dtype);
  return b().bitcast(op(ScalarOp::shr, plain, number(dtype, static_cast<uint64_t>(bits - 1))), key);
}

Value SortWriter::to_key(Value element) {
  if (task.dtype == DType::boolean) {
    Value k = b().cast(element, key);
    return task.descending ? op(ScalarOp::bit_xor, k, number(key, 1)) : k;
  }
  Value k = b().bitcast(element, key);
  Value sign = number(key, sign_of(key));
  if (is_float(task.dtype)) {
    // Negative numbers are ordered the other way round.
    Value flipped = bit_or(signs(k), sign);
    Value nan;
    if (compute_dtype(task.dtype) == task.dtype) {
      nan = op(ScalarOp::ne, element, element);
    } else {
      Value magnitude = bit_and(k, number(key, sign_of(key) - 1));
      nan = less(number(key, infinity_of(task.dtype)), magnitude);
    }
    k = where({nan, number(key, ones()), op(ScalarOp::bit_xor, k, flipped)});
  } else if (is_signed(task.dtype)) {
    k = op(ScalarOp::bit_xor, k, sign);
  }
  return task.descending ? op(ScalarOp::bit_not, k) : k;
}

Value SortWriter::from_key(Value k) {
  if (task.dtype == DType::boolean) {
    if (task.descending) k = op(ScalarOp::bit_xor, k, number(key, 1));
    return b().cast(k, DType::boolean);
  }
  if (task.descending) k = op(ScalarOp::bit_not, k);
  Value sign = number(key, sign_of(key));
  if (is_float(task.dtype)) {
    Value flipped = bit_or(op(ScalarOp::bit_not, signs(k)), sign);
    k = op(ScalarOp::bit_xor, k, flipped);
  } else if (is_signed(task.dtype)) {
    k = op(ScalarOp::bit_xor, k, sign);
  }
  return b().bitcast(k, task.dtype);
}

Value SortWriter::order(Value k) {
  if (!is_float(task.dtype)) return k;
  // Of the two zeros the one with the lower key (-0, or 0 in descending order) takes the other's.
  Value lower = equal(k, number(key, sign_of(key) - 1));
  return add(k, b().cast(lower, key));
}

}  // namespace heddle
