// Descriptors of matrices, as the copy engine takes them.
#pragma once

#include <array>

#include "backend/cuda/driver.h"
#include "kernel/tensor_maps.h"
#include "runtime/device.h"

namespace heddle::cuda {

// The descriptor for one launch. Throws DeviceError if the driver refuses it.
std::array<uint64_t, 16> encode(const Driver& driver, const kernel::Kernel& kernel, const kernel::TensorMap& map,
                                const LaunchSegment& segment);

}  // namespace heddle::cuda
