// Whether rewrites may change where numbers overflow or vanish.
#pragma once

namespace heddle {

// Off, results differ from what the operations give one by one only by the freedoms of docs/numbers.md. On, a factor or
// divisor of a row is also taken out of a sum of products: matmul(x / norm, w) is computed as matmul(x, w) / norm,
// which is less work, and infinite or zero where matmul(x, w) is.
//
// The mode counts when something is planned: set it before. A captured function keeps that of its recording. At first
// it is what HEDDLE_RELAXED says, off if it is not set.
void set_relaxed(bool wanted);
bool is_relaxed();

}  // namespace heddle
