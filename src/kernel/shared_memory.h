// Where the Shared buffers of a SIMT kernel lie in the memory that the threads of a block share.
#pragma once

#include "kernel/ir.h"

namespace heddle::kernel {

struct SharedMemory {
  std::vector<int64_t> offsets;  // by buffer; -1: it is not a Shared one
  int64_t bytes = 0;
};
// Phases follow each other and leave nothing behind there: buffers of different ones take the same room.
SharedMemory shared_memory(const Kernel& kernel);

}  // namespace heddle::kernel
