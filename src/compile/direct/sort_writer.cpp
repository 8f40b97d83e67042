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

int SortWriter::buffer(const char* name, DType dtype, Space space, int64_t size) {
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
  return b().load(from, kernel.buffers[static_cast<size_t>(from)].dtype, access);
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
  return b().load(from, kernel.buffers[static_cast<size_t>(from)].dtype, at_position(position, base, extent, limit));
}

void SortWriter::store_at(int to, Value v, Value position, const Expr& base, const Expr& extent, const Expr& limit) {
  b().store(to, v, at_position(position, base, extent, limit));
}

Value SortWriter::below(const Expr& address, const Expr& limit, int64_t width) {
  SmallVector<Expr, 4> coords;
  if (width > 1) coords.push_back(Expr::index("d", width));
  return b().index(DType::boolean, lt(coords.empty() ? address : address + coords[0], limit), coords);
}

Value SortWriter::reduced(ScalarOp op, Value v) {
  if (b().type(v).shape.empty()) return v;
  Value args[] = {v};
  return b().reduce(args, 0, kernel::simple_reducer(op, b().type(v).dtype))[0];
}

SortWriter::Values SortWriter::loop(const Expr& count, const Values& init,
                                    const std::function<Values(const Expr& i, const Values&)>& body, int unroll) {
  if (count.is_const(0)) return init;
  Expr i = Expr::index("k", count);
  return b().loop(
      i, init, [&](std::span<const Value> carried) { return body(i, Values(carried.begin(), carried.end())); }, unroll);
}

void SortWriter::each_vector(const Expr& count, const std::function<void(const Expr& at, int64_t width)>& body) {
  Expr whole = lanes > 1 ? floordiv(count, lanes) : Expr(0);
  loop(whole, {}, [&](const Expr& i, const Values&) {
    body(i * lanes, lanes);
    return Values{};
  });
  loop(count - whole * lanes, {}, [&](const Expr& i, const Values&) {
    body(whole * lanes + i, 1);
    return Values{};
  });
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
    Value plain = b().bitcast(k, signed_of(size_of(key)));
    Value negative = op(ScalarOp::shr, plain, number(signed_of(size_of(key)), static_cast<uint64_t>(bits - 1)));
    Value flipped = op(ScalarOp::bit_or, b().bitcast(negative, key), sign);
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
    Value plain = b().bitcast(k, signed_of(size_of(key)));
    Value positive = op(ScalarOp::shr, plain, number(signed_of(size_of(key)), static_cast<uint64_t>(bits - 1)));
    Value flipped = op(ScalarOp::bit_or, op(ScalarOp::bit_not, b().bitcast(positive, key)), sign);
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
