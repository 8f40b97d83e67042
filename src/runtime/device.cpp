#include "runtime/device.h"

#include <map>
#include <mutex>

#include "base/config.h"
#include "base/error.h"

namespace heddle {
namespace {

struct Entry {
  DeviceFactory factory;
  std::mutex making;
  std::unique_ptr<Device> instance;
};

struct Registry {
  std::mutex lock;
  std::map<std::string, Entry> entries;  // entries stay where they are
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
  return contents_.compare_exchange_strong(known, fresh, std::memory_order_relaxed) ? fresh : known;
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

Device& device(const std::string& wanted) {
  const std::string kind = !wanted.empty() ? wanted : config().device.empty() ? "cpu" : config().device;
  Entry* entry = nullptr;
  {
    std::lock_guard guard(registry().lock);
    auto found = registry().entries.find(kind);
    if (found != registry().entries.end()) entry = &found->second;
  }
  if (!entry) {
    std::string known;
    for (const std::string& other : device_kinds()) known += (known.empty() ? "" : ", ") + other;
    throw ValueError(text("there is no device called '", kind, "'; there are: ", known.empty() ? "none" : known));
  }
  // Outside of the registry's lock: making a device may take long, or ask for another device.
  std::lock_guard guard(entry->making);
  if (!entry->instance) entry->instance = entry->factory();
  return *entry->instance;
}

}  // namespace heddle
