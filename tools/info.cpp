#include "tools/info.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "backend/cpu/thread_pool.h"
#include "base/error.h"
#include "codegen/codegen.h"
#include "runtime/device.h"
#include "tools/machine.h"

namespace heddle::tools {
namespace {

struct Variable {
  const char* name;
  const char* without;  // what holds when it is not set
};
constexpr Variable kVariables[] = {
    {"HEDDLE_THREADS", "one per core"},
    {"HEDDLE_DEVICE", "cpu"},
    {"HEDDLE_TARGET", "the best this CPU has"},
    {"HEDDLE_MATRIX_UNIT", "the best this GPU has"},
    {"HEDDLE_FLOAT32_MATMUL", "all bits of f32"},
    {"HEDDLE_MEMORY_LIMIT", "all the memory"},
    {"HEDDLE_LOG", "nothing"},
    {"HEDDLE_DUMP", "nowhere"},
    {"HEDDLE_PROFILE", "nowhere"},
    {"HEDDLE_CACHE", "the user's cache folder"},
    {"HEDDLE_CACHE_SIZE", "512M"},
    {"HEDDLE_TUNE", "0"},
    {"HEDDLE_JIT_CHECK", "0"},
    {"HEDDLE_DETERMINISTIC", "0"},
    {"HEDDLE_CHECK", "0"},
};

void row(const char* what, const std::string& value) { std::printf("  %-16s %s\n", what, value.c_str()); }

void print_target(const Target& target) {
  row("target", target.name + ", " + std::to_string(target.vector_registers) + " vector registers of " +
                    std::to_string(target.vector_bytes) + " bytes, LLVM's CPU " + target.llvm_cpu);
  row("caches", "L1 " + bytes_text(static_cast<uint64_t>(target.l1_bytes)) + ", L2 " +
                    bytes_text(static_cast<uint64_t>(target.l2_bytes)) + ", L3 " +
                    bytes_text(static_cast<uint64_t>(target.l3_bytes)));
}

void print_device(const std::string& kind) {
  Device* found = nullptr;
  try {
    found = &device(kind);
  } catch (const DeviceError& error) {  // the hardware or its driver is not there
    return row(kind.c_str(), std::string("not here: ") + error.what());
  }
  Device& the_device = *found;
  const Target& target = the_device.target();
  Device::Memory memory = the_device.memory();
  std::string size = target.machine == Machine::Simt ? std::to_string(target.multiprocessors) + " multiprocessors"
                                                     : std::to_string(the_device.threads()) + " threads";
  row(kind.c_str(), size + ", target " + target.name + "; memory: limit " + bytes_text(memory.limit) + ", used " +
                        bytes_text(memory.used) + ", cached " + bytes_text(memory.cached) + ", peak " +
                        bytes_text(memory.peak));
  if (target.machine == Machine::Simt && !the_device.code_version().empty())
    row("", text("code by ", the_device.code_version(), "; for scripts/warm_cache: --multiprocessors ",
                 target.multiprocessors, " --l2 ", target.l2_bytes, " --shared ", target.local_bytes));
}

void print_environment() {
  for (const Variable& variable : kVariables) {
    const char* value = std::getenv(variable.name);
    bool set = value && *value;
    std::printf("  %-20s %s%s%s\n", variable.name, set ? value : "(", set ? "" : variable.without, set ? "" : ")");
  }
  for (char** entry = environ; *entry; ++entry) {
    std::string name(*entry, std::strcspn(*entry, "="));
    if (!name.starts_with("HEDDLE_")) continue;
    bool known = false;
    for (const Variable& variable : kVariables) known |= name == variable.name;
    if (!known) std::printf("  %-20s is set, but Heddle does not know it\n", name.c_str());
  }
}

}  // namespace

void print_info() {
  std::printf("Heddle\n");
  row("version", version());
  row("commit", commit());
  row("compiler", compiler());
  row("LLVM", llvm_version());
  std::printf("\nMachine\n");
  row("CPU", cpu_model());
  row("cores", std::to_string(available_cores()) + " that this process may use");
  print_target(host_target());
  std::printf("\nDevices\n");
  for (const std::string& kind : device_kinds()) print_device(kind);
  CodeMemory code = code_memory();
  row("compiled code", std::to_string(code.kernels) + " kernels, " + bytes_text(code.bytes) + " in " +
                           std::to_string(code.mappings) + " mappings");
  std::printf("\nEnvironment (docs/environment.md)\n");
  print_environment();
}

}  // namespace heddle::tools
