#include "kernel/ir.h"

#include "base/error.h"
#include "kernel/types.h"

namespace heddle::kernel {
namespace {

std::string to_string(const Dims& dims) {
  std::string out = "[";
  for (size_t i = 0; i < dims.size(); ++i) out += (i ? ", " : "") + std::to_string(dims[i]);
  return out + "]";
}

[[noreturn]] void bad_types(const char* op, std::span<const Type> operands, const char* why) {
  std::string out = std::string(op) + "(";
  for (size_t i = 0; i < operands.size(); ++i) out += (i ? ", " : "") + kernel::to_string(operands[i]);
  throw InternalError(out + "): " + why);
}

// Gives every value its number in the order in which the text shows them.
struct Renumbering {
  std::vector<Type> old_types;
  std::vector<Type>& types;
  std::vector<Value> map;

  explicit Renumbering(std::vector<Type>& values)
      : old_types(std::move(values)), types(values), map(old_types.size(), kNoValue) {
    types.clear();
  }

  void define(Value& v) {
    HD_ASSERT(v >= 0 && static_cast<size_t>(v) < map.size() && map[v] == kNoValue, "value %", v);
    map[v] = static_cast<Value>(types.size());
    types.push_back(old_types[v]);
    v = map[v];
  }
  void use(Value& v) const {
    HD_ASSERT(v >= 0 && static_cast<size_t>(v) < map.size() && map[v] != kNoValue, "value %", v);
    v = map[v];
  }
  void body(Body& b) {
    for (Value& v : b.params) define(v);
    for (Inst& inst : b.insts) {
      for (Value& v : inst.args) use(v);
      for (Value& v : inst.results) define(v);
      for (Body& inner : inst.bodies) body(inner);
    }
    for (Value& v : b.results) use(v);
  }
};

}  // namespace

int64_t Type::numel() const {
  int64_t count = 1;
  for (int64_t d : shape) count *= d;
  return count;
}

std::string to_string(const Type& type) {
  if (type.shape.empty()) return heddle::name(type.dtype);
  std::string out = "tile<";
  for (int64_t d : type.shape) out += std::to_string(d) + "x";
  return out + heddle::name(type.dtype) + ">";
}

const char* name(Op op) {
  if (is_scalar_op(op)) return info(scalar_op(op)).name;
  switch (op) {
    case Op::constant: return "constant";
    case Op::cast: return "cast";
    case Op::bitcast: return "bitcast";
    case Op::index: return "index";
    case Op::load: return "load";
    case Op::store: return "store";
    case Op::combine: return "combine";
    case Op::check: return "check";
    case Op::reduce: return "reduce";
    case Op::scan: return "scan";
    case Op::dot: return "dot";
    case Op::panel_dot: return "panel_dot";
    case Op::matrix_dot: return "matrix_dot";
    case Op::matrix_store: return "matrix_store";
    case Op::warp_dot: return "warp_dot";
    case Op::copy: return "copy";
    case Op::copy_fence: return "copy_fence";
    case Op::load_matrix: return "load_matrix";
    case Op::mma: return "mma";
    case Op::packed_dot: return "packed_dot";
    case Op::loop: return "loop";
    case Op::branch: return "branch";
    case Op::barrier: return "barrier";
    case Op::shuffle_xor: return "shuffle_xor";
    case Op::transpose: return "transpose";
    default: return "?";
  }
}

void renumber(Kernel& kernel) {
  Renumbering numbering(kernel.values);
  for (Phase& phase : kernel.phases) numbering.body(phase.body);
}

void visit(const Body& code, const std::function<void(const Inst&)>& f) {
  for (const Inst& inst : code.insts) {
    f(inst);
    for (const Body& inner : inst.bodies) visit(inner, f);
  }
}

void visit(Body& code, const std::function<void(Inst&)>& f) {
  for (Inst& inst : code.insts) {
    f(inst);
    for (Body& inner : inst.bodies) visit(inner, f);
  }
}

Dims broadcast_dims(const Dims& a, const Dims& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  Dims out = a;
  bool fits = a.size() == b.size();
  for (size_t i = 0; fits && i < a.size(); ++i) {
    if (a[i] == 1) out[i] = b[i];
    fits = a[i] == b[i] || a[i] == 1 || b[i] == 1;
  }
  if (!fits) throw InternalError(text("shapes ", to_string(a), " and ", to_string(b), " do not broadcast"));
  return out;
}

int working_threads(const Kernel& kernel, const Phase& phase) {
  bool copies = false;
  visit(phase.body, [&](const Inst& inst) { copies = copies || inst.op == Op::matrix_dot; });
  return kernel.threads - (copies ? static_cast<int>(kMatrixThreads) : 0);
}

Fragment fragment(int64_t thread, int64_t index, int64_t columns) {
  const int64_t group = thread / kMatrixThreads, warp = thread % kMatrixThreads / kWarpLanes,
                lane = thread % kWarpLanes;
  const int64_t per_row = columns / 8;
  return {group * kMatrixRows + warp * 16 + index / per_row * 8 + lane / 4, index % per_row * 8 + lane % 4 * 2};
}

Type fragment_type(DType dtype) { return {dtype, {16 / size_of(dtype)}}; }

bool multiplies_fragments(DType factor, DType sum) {
  switch (factor) {
    case DType::f8e4m3:
    case DType::f8e5m2:
    case DType::f16:
    case DType::bf16:
    case DType::f32: return sum == DType::f32;
    case DType::i8: return sum == DType::i32;
    default: return false;
  }
}

Type elementwise_type(ScalarOp op, std::span<const Type> operands) {
  const OpInfo& op_info = info(op);
  if (operands.size() != static_cast<size_t>(op_info.arity)) bad_types(op_info.name, operands, "wrong operand count");
  SmallVector<DType, 3> dtypes;
  Type out;
  for (const Type& t : operands) {
    dtypes.push_back(t.dtype);
    try {
      out.shape = broadcast_dims(out.shape, t.shape);
    } catch (const InternalError&) {
      bad_types(op_info.name, operands, "shapes do not broadcast");
    }
  }
  std::optional<DType> dtype = result_dtype(op, dtypes);
  if (!dtype) bad_types(op_info.name, operands, "dtypes do not fit");
  out.dtype = *dtype;
  return out;
}

Type bitcast_type(const Type& operand, DType to) {
  if (size_of(operand.dtype) != size_of(to))
    throw InternalError(text("bitcast of ", to_string(operand), " to ", to, ": sizes differ"));
  return {to, operand.shape};
}

Type reduced_type(const Type& operand, int axis, Level level) {
  if (axis < 0 || static_cast<size_t>(axis) >= operand.shape.size())
    throw InternalError(text("reduce over axis ", axis, " of ", to_string(operand)));
  Type out = operand;
  out.shape[axis] = 1;
  if (level == Level::Thread && out.shape.size() == 1) out.shape.clear();
  return out;
}

Dims dot_dims(const Type& a, const Type& b) { return broadcast_dims(a.shape, b.shape); }

bool holds_packed(DType factor, DType acc) { return factor == DType::u32 && (acc == DType::f32 || acc == DType::i32); }

Type packed_dot_type(const Type& a, const Type& b, const Type& acc) {
  const Type operands[] = {a, b, acc};
  if (a.dtype != b.dtype || !holds_packed(a.dtype, acc.dtype)) bad_types("packed_dot", operands, "no packed words");
  return {acc.dtype, broadcast_dims(broadcast_dims(a.shape, b.shape), acc.shape)};
}

Type dot_type(const Type& a, const Type& b, const Type& acc, int axis) {
  const Type operands[] = {a, b, acc};
  if (a.dtype != b.dtype) bad_types("dot", operands, "dtypes of a and b differ");
  bool numbers = is_float(acc.dtype) ? is_float(a.dtype) : is_integer(acc.dtype) && is_integer(a.dtype);
  numbers |= holds_packed(a.dtype, acc.dtype);
  if (!numbers || size_of(acc.dtype) < size_of(a.dtype)) bad_types("dot", operands, "dtype of the sum does not fit");
  Dims dims = dot_dims(a, b);
  if (axis < 0 || static_cast<size_t>(axis) >= dims.size()) bad_types("dot", operands, "axis out of range");
  dims[axis] = 1;
  if (broadcast_dims(dims, acc.shape) != dims) bad_types("dot", operands, "shape of the sum does not fit");
  return {acc.dtype, dims};
}

}  // namespace heddle::kernel
