// Tensors with names at one moment, computed. Private to src/.
#pragma once

#include <heddle/io.h>

#include <functional>

namespace heddle {

// snapshot() with values that are computed; the tensors keep them too. `meanwhile` is called at that moment.
TensorMap realized_together(const TensorMap& tensors, const std::function<void()>& meanwhile = {});

}  // namespace heddle
