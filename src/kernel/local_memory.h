// Where the Local buffers of a SIMT kernel lie in the memory that the threads of a block share.
#pragma once

#include "kernel/ir.h"

namespace heddle::kernel {

struct LocalMemory {
  std::vector<int64_t> offsets;  // by buffer; -1: it is not a Local one
  int64_t bytes = 0;
};
// Phases follow each other and leave nothing behind there: buffers of different ones take the same room.
LocalMemory local_memory(const Kernel& kernel);

}  // namespace heddle::kernel
