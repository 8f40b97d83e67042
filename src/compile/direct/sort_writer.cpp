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

Value SortWriter::load(int from, const Expr& address, int64_t width, const Expr& limit) {
  Builder::Access access;
  Expr lane = 0;
  if (width > 1) {
    lane = Expr::index("d", width);
    access.coords.push_back(lane);
  }
  access.address = address + lane;
  if (!limit.is_const(0)) access.guard = lt(address + lane, limit);
  return b().load(from, kernel.buffers[from].dtype, access);
}

void SortWriter::store(int to, Value v, const Expr& address) {
  Builder::Access access;
  access.address = address;
  if (!b().type(v).shape.empty()) {
    access.coords.push_back(Expr::index("d", b().type(v).shape[0]));
    access.address = address + access.coords[0];
  }
  b().store(to, v, access);
}

namespace {
Builder::Access at_position(Value position, const Expr& base, const Expr& extent, const Expr& limit) {
  Builder::Access access;
  Expr var = Expr::index("v", extent);
  if (var.is_var()) {
    access.binds.push_back(var);
    access.bound.push_back(position);
  }
  access.address = base + var;
  if (!limit.is_const(0)) access.guard = lt(var, limit);
  return access;
}
}  // namespace

Value SortWriter::load_at(int from, Value position, const Expr& base, const Expr& extent, const Expr& limit) {
  return b().load(from, kernel.buffers[from].dtype, at_position(position, base, extent, limit));
}

void SortWriter::store_at(int to, Value v, Value position, const Expr& base, const Expr& extent, const Expr& limit) {
  b().store(to, v, at_position(position, base, extent, limit));
}

Value SortWriter::splat(DType dtype, uint64_t value) {
  return lanes > 1 ? b().constant(Scalar::from_bits(dtype, value), kernel::Dims{lanes}) : number(dtype, value);
}

Value SortWriter::positions_from(const Expr& first, DType dtype, int64_t width) {
  if (width == 1) return index(first, dtype);
  const Expr lane = Expr::index("d", width);
  return b().index(dtype, first + lane, {&lane, 1});
}

Value SortWriter::below(const Expr& first, const Expr& limit, int64_t width) {
  if (width == 1) return index(lt(first, limit), DType::boolean);
  const Expr lane = Expr::index("d", width);
  return b().index(DType::boolean, lt(first + lane, limit), {&lane, 1});
}

Value SortWriter::load_keys(int from, const Expr& address, const Expr& end) {
  const bool inside = provably_true(le(address + lanes, end));
  Value k = load(from, address, lanes, inside ? Expr() : end);
  if (from == x) k = to_key(k);
  return inside ? k : b().op(ScalarOp::where, {below(address, end, lanes), k, number(key, ones())});
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

Value SortWriter::smallest(int64_t k, const std::function<Value(Value than)>& count_below) {
  const Value top = number(key, sign_of(key));
  return loop(8 * size_of(key), {number(key, 0), top}, [&](const Expr&, const Values& s) {
    const Value larger = op(ScalarOp::bit_or, s[0], s[1]);
    const Value fits = op(ScalarOp::lt, count_below(larger), i32(k));
    return Values{b().op(ScalarOp::where, {fits, larger, s[0]}), op(ScalarOp::shr, s[1], number(key, 1))};
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
    Value flipped = op(ScalarOp::bit_or, signs(k), sign);
    Value nan;
    if (compute_dtype(task.dtype) == task.dtype) {
      nan = op(ScalarOp::ne, element, element);
    } else {
      Value magnitude = op(ScalarOp::bit_and, k, number(key, sign_of(key) - 1));
      nan = op(ScalarOp::lt, number(key, infinity_of(task.dtype)), magnitude);
    }
    k = b().op(ScalarOp::where, {nan, number(key, ones()), op(ScalarOp::bit_xor, k, flipped)});
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
    Value flipped = op(ScalarOp::bit_or, op(ScalarOp::bit_not, signs(k)), sign);
    k = op(ScalarOp::bit_xor, k, flipped);
  } else if (is_signed(task.dtype)) {
    k = op(ScalarOp::bit_xor, k, sign);
  }
  return b().bitcast(k, task.dtype);
}

Value SortWriter::order(Value k) {
  if (!is_float(task.dtype)) return k;
  // Of the two zeros the one with the lower key (-0, or 0 in descending order) takes the other's.
  Value lower = op(ScalarOp::eq, k, number(key, sign_of(key) - 1));
  return op(ScalarOp::add, k, b().cast(lower, key));
}

}  // namespace heddle
