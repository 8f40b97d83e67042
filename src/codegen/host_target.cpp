// What machine we run on.
#include <llvm/ADT/StringMap.h>
#include <llvm/TargetParser/Host.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

#include "base/config.h"
#include "base/error.h"
#include "base/fork.h"
#include "codegen/codegen.h"

namespace heddle {
namespace {

struct Kind {
  const char* name;
  const char* generic_cpu;  // used when the kind is forced on a better machine
  int vector_bytes;
  int vector_registers;
  std::initializer_list<const char*> needs;
};

// Best first.
const Kind kKinds[] = {
    {"avx512", "x86-64-v4", 64, 32, {"avx512f", "avx512bw", "avx512dq", "avx512vl", "fma", "f16c"}},
    {"avx2", "x86-64-v3", 32, 16, {"avx2", "fma", "f16c"}},
    {"sse", "x86-64-v2", 16, 16, {"sse4.2", "ssse3", "cx16"}},
};

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// What one core sees. The C library counts the third-level caches of the whole package on some machines, so the kernel
// is asked first.
int64_t cache_bytes(int level, int name, int64_t fallback) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = text("/sys/devices/system/cpu/cpu0/cache/index", index, "/");
    std::ifstream levels(folder + "level"), types(folder + "type"), sizes(folder + "size");
    int found = 0;
    std::string type, unit;
    int64_t size = 0;
    if (!(levels >> found) || !(types >> type)) break;
    if (found != level || type == "Instruction" || !(sizes >> size >> unit) || size <= 0) continue;
    return unit == "K" ? size << 10 : unit == "M" ? size << 20 : size;
  }
  long size = sysconf(name);
  return size > 0 ? size : fallback;
}

// The operating system must be asked, once for the process, before the matrix registers may be touched.
bool may_use_matrix_unit() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool has(const llvm::StringMap<bool>& features, const Kind& kind) {
  return std::ranges::all_of(kind.needs, [&](const char* feature) { return features.lookup(feature); });
}

// `best`: of what the machine has, so that all its features can be used.
Target make_target(const llvm::StringMap<bool>& features, const Kind& kind, bool best) {
  Target target;
  target.name = kind.name;
  target.vector_bytes = kind.vector_bytes;
  target.vector_registers = kind.vector_registers;
  target.llvm_cpu = kind.generic_cpu;
  if (best) {
    target.llvm_cpu = llvm::sys::getHostCPUName().str();
    for (const auto& feature : features) {
      if (!target.llvm_features.empty()) target.llvm_features += ',';
      target.llvm_features += (feature.second ? "+" : "-") + feature.first().str();
    }
  }
  auto supports = [&](const char* feature) { return best && features.lookup(feature); };
  target.fma = kind.vector_bytes >= 32;
  if (kind.vector_bytes >= 32) target.converts.push_back(DType::f16);
  if (supports("avx512bf16")) {
    target.converts.push_back(DType::bf16);
    add_instructions(target, kPackedPairs);
  }
  if (supports("avx512vnni")) add_instructions(target, kPackedBytes);
  if (supports("amx-tile") && supports("amx-bf16") && supports("amx-int8") && may_use_matrix_unit())
    add_instructions(target, kPanels);
  target.shared_banks = 1;
  target.cores = available_cores();
  target.l1_bytes = cache_bytes(1, _SC_LEVEL1_DCACHE_SIZE, target.l1_bytes);
  target.l2_bytes = cache_bytes(2, _SC_LEVEL2_CACHE_SIZE, target.l2_bytes);
  target.l3_bytes = cache_bytes(3, _SC_LEVEL3_CACHE_SIZE, target.l3_bytes);
  return target;
}

}  // namespace

Target cpu_target(const std::string& name) {
  const auto features = llvm::sys::getHostCPUFeatures();
  bool best = true;
  for (const Kind& kind : kKinds) {
    bool available = has(features, kind);
    if (name == kind.name) {
      if (!available)
        throw ValueError(
            text("target ", name, ": this machine lacks it; set HEDDLE_TARGET to one that it has, or to nothing"));
      return make_target(features, kind, best);
    }
    if (available) best = false;
  }
  throw ValueError(text("target ", name, " is unknown; there are avx512, avx2 and sse"));
}

const Target& host_target() {
  NoFork whole;
  static const Target target = [] {
    if (!config().target.empty()) return cpu_target(config().target);
    const auto features = llvm::sys::getHostCPUFeatures();
    for (const Kind& kind : kKinds)
      if (has(features, kind)) return make_target(features, kind, true);
    throw ValueError("this CPU lacks SSE4.2, the least that Heddle generates code for");
  }();
  return target;
}

}  // namespace heddle
