#include "runtime/device.h"

#include <charconv>
#include <map>
#include <mutex>

#include "base/config.h"
#include "base/error.h"
#include "base/lock.h"

namespace heddle {
namespace {

struct Registered {
  DeviceFactory factory;
  Mutex making;
  std::map<int, std::unique_ptr<Device>> instances;  // by number
};

struct Registry {
  Mutex lock;
  std::map<std::string, Registered> entries;  // entries stay where they are
};

// Never destroyed: buffers held by other static objects still need their device while the process ends.
Registry& registry() {
  static Registry& instance = *new Registry;
  return instance;
}

}  // namespace

uint64_t DeviceBuffer::contents() const {
  static std::atomic<uint64_t> last{0};
  uint64_t known = contents_.load(std::memory_order_relaxed);
  if (known != 0) return known;
  const uint64_t fresh = last.fetch_add(1, std::memory_order_relaxed) + 1;
  if (is_shared()) return fresh;
  return contents_.compare_exchange_strong(known, fresh, std::memory_order_relaxed) ? fresh : known;
}

std::function<int64_t(const Expr&)> symbol_values(const kernel::Kernel& kernel, std::span<const int64_t> symbols) {
  return [&kernel, symbols](const Expr& variable) {
    for (size_t i = 0; i < kernel.symbols.size(); ++i)
      if (kernel.symbols[i] == variable) return symbols[i];
    internal_error(__FILE__, __LINE__, text("kernel ", kernel.name, " has no symbol ", variable));
  };
}

void register_device(const std::string& kind, DeviceFactory factory) {
  std::lock_guard guard(registry().lock);
  auto [entry, fresh] = registry().entries.try_emplace(kind);
  if (!fresh) throw ValueError(text("a device called '", kind, "' is registered already"));
  entry->second.factory = factory;
}

std::vector<std::string> device_kinds() {
  std::lock_guard guard(registry().lock);
  std::vector<std::string> kinds;
  for (const auto& [kind, entry] : registry().entries) kinds.push_back(kind);
  return kinds;
}

void Device::launch_all(std::span<const Submission> launches, std::shared_ptr<void>&) {
  for (const Submission& next : launches) launch(*next.executable, next.segments);
}

Device& device(const std::string& wanted) {
  const std::string name = !wanted.empty() ? wanted : config().device.empty() ? "cpu" : config().device;
  const std::string whose = wanted.empty() && !config().device.empty() ? "HEDDLE_DEVICE: " : "";
  const size_t colon = name.find(':');
  const std::string kind = name.substr(0, colon);
  int number = 0;
  if (colon != std::string::npos) {
    const char *begin = name.data() + colon + 1, *end = name.data() + name.size();
    auto [rest, error] = std::from_chars(begin, end, number);
    if (error != std::errc() || rest != end || number < 0)
      throw ValueError(text(whose, "device '", name, "': what follows the colon is no number"));
  }
  Registered* entry = nullptr;
  {
    std::lock_guard guard(registry().lock);
    auto found = registry().entries.find(kind);
    if (found != registry().entries.end()) entry = &found->second;
  }
  if (!entry) {
    std::string known;
    for (const std::string& other : device_kinds()) known += (known.empty() ? "" : ", ") + other;
    throw ValueError(
        text(whose, "there is no device called '", kind, "'; there are: ", known.empty() ? "none" : known));
  }
  // Outside of the registry's lock: making a device may take long, or ask for another device.
  std::lock_guard guard(entry->making);
  std::unique_ptr<Device>& instance = entry->instances[number];
  if (!instance) instance = entry->factory(number);
  return *instance;
}

}  // namespace heddle
