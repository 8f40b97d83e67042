// Elements of any dtype as memory of the host or of a device: for bindings to other languages and libraries.
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

// Memory of devices that both sides can reach, such as that of a GPU. What a device runs is in a queue, and so is what
// others run there: who hands memory over says whose work comes first.

// What the device's driver calls its queue (on GPUs also known as a stream). Null: what is computed there is done when
// the call returns.
void* device_queue(const Device& device);

// A tensor of elements in a device's memory, in row-major order. What makes them is done, or in device_queue(device),
// or what that waits for. Like share_memory() otherwise: a copy if they do not begin at a multiple of 64 bytes. The
// memory is let go of when all that was begun here with it has run.
Tensor share_device_memory(std::shared_ptr<const void> elements, const Dims& shape, DType dtype, const Device& device);

// The address of the elements, in row-major order, on the tensor's device, computed if need be. What comes into `queue`
// afterwards sees them; without one, what comes into the device's own. As long as somebody has the pointer nothing is
// written there. Who lets go of it waits for all that runs on the device, because others may still read.
std::shared_ptr<const void> device_memory(const Tensor& tensor, void* queue = nullptr,
                                          const std::source_location& where = std::source_location::current());

}  // namespace heddle
