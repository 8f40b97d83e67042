// What a device can do at most, measured.
#pragma once

#include <heddle/profile.h>

#include "runtime/device.h"

namespace heddle {

// Runs two small kernels on all threads of the device, for about 50 ms. Zeros for a device that is no CPU.
Roofline measure_roofline(Backend& device);

}  // namespace heddle
