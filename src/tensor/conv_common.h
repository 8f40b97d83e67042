// What convolutions and pooling share. Private to src/tensor.
#pragma once

#include "tensor/build.h"

namespace heddle {

// One number for each axis, from one for all or one each; ValueError naming `op` and `what` below `least`.
Dims per_axis(const char* op, const char* what, const Dims& given, size_t axes, int64_t least);

// How many elements an operator works on along an axis; ShapeError naming `op` when there are so many that sizes
// derived from it could overflow.
int64_t checked_extent(const char* op, Int128 extent);

// [batch, channels, ...]; `alone` says whether x had no batch. ShapeError if it has another number of axes.
Tensor with_batch(const char* op, const Tensor& x, size_t axes, bool& alone);

}  // namespace heddle
