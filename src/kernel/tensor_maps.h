// The descriptors of matrices in global memory that a kernel's copies go by. Code that uses them and code that passes
// them to a launch must agree on their order: this one.
#pragma once

#include "kernel/ir.h"

namespace heddle::kernel {

struct TensorMap {
  const Inst* inst;  // matrix_dot or matrix_store
  size_t number;     // of its region
  int64_t box[2];    // elements that one copy moves along dimensions 0 and 1 of the region

  const Region& region() const { return inst->regions[number]; }
};

// Whether copies can move tiles of the matrix: its rows begin at multiples of 16 bytes. Results need not.
bool is_copied(const Kernel& kernel, const Region& region);

// Those of a thread-level kernel, in order of appearance. They point into it. Boxes are rows of 128 bytes, which lie in
// shared memory swizzled: the 16-byte parts of row r stand at their place exclusive-or r mod 8.
std::vector<TensorMap> tensor_maps(const Kernel& kernel);

// The shared memory of a matrix_dot: a left factor that stays; tiles of both factors on their way, or of the right one
// alone; then the barrier objects: of the tiles that arrive, of those that have been read, of the factor that stays.
struct MatrixRing {
  int64_t rows, columns, stages;
  int64_t steps = 0;  // tiles of a left factor that stays
  int64_t stays() const { return steps * rows * kMatrixBytes; }
  int64_t left() const { return steps > 0 ? 0 : rows * kMatrixBytes; }
  int64_t stage_bytes() const { return left() + columns * kMatrixBytes; }
  int64_t barriers() const { return stays() + stages * stage_bytes(); }
  int64_t bytes() const { return barriers() + (2 * stages + (steps > 0)) * static_cast<int64_t>(sizeof(int64_t)); }
};
// Of a thread-level instruction.
MatrixRing matrix_ring(const Kernel& kernel, const Inst& dot);

// Bytes of shared memory that a matrix_store of so many rows needs.
int64_t matrix_store_bytes(int64_t rows);

}  // namespace heddle::kernel
