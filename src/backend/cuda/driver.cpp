#include "backend/cuda/driver.h"

#include <dlfcn.h>

#include "base/error.h"

namespace heddle::cuda {
namespace {

constexpr int kOldestVersion = 12030;  // the first that takes PTX 8.3

Driver load() {
  // By its run-time name: the toolkit's stub, meant for linking, has another.
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) throw DeviceError(text("cuda: there is no NVIDIA driver: ", dlerror()));
  Driver driver;
  driver.process = fork_generation();
  auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (!function) throw DeviceError(text("cuda: the NVIDIA driver is too old: it has no ", name));
  };
#define HD_CUDA_FIND(name, parameters) find(driver.name, #name);
  HD_CUDA_FUNCTIONS(HD_CUDA_FIND)
#undef HD_CUDA_FIND
  driver.check(driver.cuInit(0), "starting the driver");
  driver.check(driver.cuDriverGetVersion(&driver.version), "asking for the driver's version");
  if (driver.version < kOldestVersion)
    throw DeviceError(text("cuda: the NVIDIA driver is for CUDA ", driver.version / 1000, ".",
                           driver.version % 1000 / 10, ", at least ", kOldestVersion / 1000, ".",
                           kOldestVersion % 1000 / 10, " is needed"));
  return driver;
}

struct Marks {
  int (*push)(const char*) = nullptr;
  int (*pop)() = nullptr;
};

const Marks& marks() {
  static const Marks loaded = [] {
    Marks found;
    void* library = dlopen("libnvToolsExt.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return found;
    found.push = reinterpret_cast<int (*)(const char*)>(dlsym(library, "nvtxRangePushA"));
    found.pop = reinterpret_cast<int (*)()>(dlsym(library, "nvtxRangePop"));
    return found.push && found.pop ? found : Marks{};
  }();
  return loaded;
}

}  // namespace

Range::Range(const char* name) {
  if (marks().push) marks().push(name);
}
Range::~Range() {
  if (marks().pop) marks().pop();
}

std::string Driver::describe(Result error) const {
  const char *name = nullptr, *meaning = nullptr;
  cuGetErrorName(error, &name);
  cuGetErrorString(error, &meaning);
  return text(meaning ? meaning : "error", " (", name ? name : std::to_string(error).c_str(), ")");
}

void Driver::check(Result result, const char* what) const {
  if (result != kSuccess) throw DeviceError(text("cuda: ", what, ": ", describe(result)));
}

void refuse_after_fork() {
  throw DeviceError(
      "cuda: CUDA does not survive fork(): the parent of this process has used it. Use it for the first time after the "
      "fork(), or start a new program instead (posix_spawn, or fork() and exec())");
}

const Driver& driver() {
  NoFork whole;
  static const Driver& loaded = *new Driver(load());  // a failure is tried again at the next call
  if (loaded.is_inherited()) refuse_after_fork();
  return loaded;
}

}  // namespace heddle::cuda
