// The build and the machine, in words.
#pragma once

#include <cstdint>
#include <string>

namespace heddle::tools {

const char* version();   // "0.1.0"
const char* commit();    // with "-dirty" behind it when the checkout had changes; "unknown" without git
std::string compiler();  // "g++ 12.2.0, RelWithDebInfo"
const char* llvm_version();
std::string cpu_model();

std::string bytes_text(uint64_t bytes);  // "512 MiB"

}  // namespace heddle::tools
