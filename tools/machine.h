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

// The thread runs on the `index`-th of the cores that this process was started with, in a circle.
void pin_thread(int thread, int index);
// One core for each thread of a process. After it was stopped the system may put several threads on one core, and leave
// them there while the others are busy with something unimportant.
void spread_threads(int process);

std::string bytes_text(uint64_t bytes);  // "512 MiB"

}  // namespace heddle::tools
