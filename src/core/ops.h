// The table of scalar ops, and their exact meaning on single values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/scalar.h"

namespace heddle {

enum class ScalarOp : uint8_t {
#define HD_OP(name, arity, rule, native) name,
#include "core/ops.def"
#undef HD_OP
};
inline constexpr int kScalarOpCount = 0
#define HD_OP(name, arity, rule, native) +1
#include "core/ops.def"
#undef HD_OP
    ;

enum class OpRule : uint8_t { Arith, Float, Compare, Logic, Shift, Order, Select };

struct OpInfo {
  const char* name;
  int arity;
  OpRule rule;
  bool native;
};
const OpInfo& info(ScalarOp op);
std::optional<ScalarOp> find_op(std::string_view name);

// The dtype op gives for operands of these dtypes, or nothing if it does not take them.
std::optional<DType> result_dtype(ScalarOp op, std::span<const DType> operands);

// op on single values, rounded as the dtype of the operands says (small floats: computed in f32, then rounded).
Scalar apply(ScalarOp op, std::span<const Scalar> operands);
// The same on doubles without rounding to the dtype: what the reference evaluator uses for floats.
double apply_double(ScalarOp op, std::span<const double> operands);
// op on single values of which floats are any doubles and stay so; `result` is the dtype it gives.
Scalar apply_unrounded(ScalarOp op, std::span<const Scalar> operands, DType result);

}  // namespace heddle
