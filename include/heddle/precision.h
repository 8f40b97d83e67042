// How exact products of f32 are where a matrix unit could compute them with fewer bits.
#pragma once

namespace heddle {

// False, the default unless HEDDLE_FLOAT32_MATMUL=tf32: all bits count. True: GPUs from sm_80 on may round the factors
// of products to tf32, which keeps ten bits behind the point, and compute them on the matrix unit; sums stay f32.
// Concerns what is realised, and what jit() records, from now on. A plan that is being made keeps its mode.
void allow_tf32(bool allowed);
bool tf32_allowed();

}  // namespace heddle
