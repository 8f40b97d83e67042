// What a pass makes of a kernel, as text.
#pragma once

#include "kernel/passes.h"

namespace heddle::kernel {

// Parses, runs the pass, verifies, prints.
inline std::string after(void (*pass)(Kernel&), const std::string& text) {
  Kernel kernel = parse(text);
  verify(kernel);
  pass(kernel);
  verify(kernel);
  renumber(kernel);
  return print(kernel);
}

}  // namespace heddle::kernel
