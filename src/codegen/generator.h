// Code generators for machines that need not be there, by the names of these. Each enters itself; whoever wants to see
// code for such a machine, as the null device does, asks here and needs not know whose it is.
#pragma once

#include <string>

#include "compile/target/target.h"
#include "kernel/ir.h"

namespace heddle {

struct Generator {
  bool (*knows)(const std::string& machine);
  Target (*target)(const std::string& machine);
  // The code as text. Throws CompileError.
  std::string (*code)(const kernel::Kernel& kernel, const Target& target);
  const char* ending;  // of the name of a file that holds it
};

void register_generator(const Generator& generator);
// Throws DeviceError if nobody knows the machine.
Generator generator_for(const std::string& machine);

}  // namespace heddle
