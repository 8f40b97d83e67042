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

// Whether copies can move blocks of the matrix: its rows begin at multiples of 16 bytes. Results need not.
bool is_copied(const Kernel& kernel, const Region& region);

// Those of a thread-level kernel, in order of appearance. They point into it. Boxes are rows of 128 bytes, which lie in
// local memory swizzled: the 16-byte parts of row r stand at their place exclusive-or r mod 8.
std::vector<TensorMap> tensor_maps(const Kernel& kernel);

// Bytes of local memory that a tile of so many rows and columns needs: for a matrix_dot with `ahead` blocks on their
// way and the barriers that go with them, and for a matrix_store.
int64_t matrix_ring_bytes(int64_t rows, int64_t columns, int ahead);
int64_t matrix_store_bytes(int64_t rows);

}  // namespace heddle::kernel
