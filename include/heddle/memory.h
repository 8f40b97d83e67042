// Elements of any dtype as memory of the host: for bindings to other languages and libraries.
#pragma once

#include <heddle/tensor.h>

namespace heddle {

// A tensor of elements that lie in row-major order. Copies them.
Tensor from_memory(const void* elements, const Dims& shape, DType dtype, const std::optional<Device>& device = {});

// The same without a copy where the device can use the memory as it is: a CPU, if it begins at a multiple of 64 bytes.
// Otherwise it is copied and let go. Nobody here writes to shared memory, or remembers what was in it; whoever else
// writes to it changes the tensor and what is computed from it later.
Tensor share_memory(std::shared_ptr<const void> elements, const Dims& shape, DType dtype);

// The elements in row-major order, computed if need be; not a copy where the host can read the device's memory. As long
// as somebody has the pointer nothing is written there.
std::shared_ptr<const void> host_memory(const Tensor& tensor,
                                        const std::source_location& where = std::source_location::current());

}  // namespace heddle
