// The types instructions give. One place for the rules that the builder, the parser and verify() share.
// All throw InternalError, naming op, shapes and dtypes, when the operands do not fit.
#pragma once

#include "kernel/ir.h"

namespace heddle::kernel {

Type elementwise_type(ScalarOp op, std::span<const Type> operands);
Type bitcast_type(const Type& operand, DType to);
// An operand of reduce with dimension `axis` reduced to 1; at thread level a vector gives a scalar.
Type reduced_type(const Type& operand, int axis, Level level);
// The shape over which a dot's coords run: that of a * b.
Dims dot_dims(const Type& a, const Type& b);
// acc has dot_dims with `axis` reduced to 1, or broadcasts to it; its dtype may be wider than that of a and b.
Type dot_type(const Type& a, const Type& b, const Type& acc, int axis);
// Whether the words of a dot hold several narrow numbers each, packed.
bool holds_packed(DType factor, DType acc);
Type packed_dot_type(const Type& a, const Type& b, const Type& acc);
// What a lane holds of a fragment, and whether matrix units of warps multiply such factors into such sums.
Type fragment_type(DType dtype);
bool multiplies_fragments(DType factor, DType sum);

}  // namespace heddle::kernel
