#include "runtime/device.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <mutex>

#include "base/config.h"
#include "base/error.h"
#include "base/lock.h"

namespace heddle {
namespace {

struct Registered {
  DeviceFactory factory;
  DeviceCount count;
  std::vector<int> memory;
  Mutex making;
  std::map<int, std::unique_ptr<Backend>> instances;  // by number
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

// By their numbers. A device that is gone leaves its place empty.
constexpr size_t kMostDevices = 4096;
constinit std::atomic<Backend*> by_number[kMostDevices] = {};
constinit std::atomic<size_t> last_number{0};

std::string all_names() {
  std::string list;
  for (const std::string& name : device_names()) list += (list.empty() ? "" : ", ") + name;
  return list.empty() ? "none" : list;
}

Backend& named_device(const std::string& name, const std::string& whose);

[[maybe_unused]] const bool names_known = [] {
  set_device_names({[](DeviceNumber device) { return backend_of(device).name(); },
                    [] {
                      const std::string& first = config().device;
                      return first.empty() ? named_device("cpu", "").number()
                                           : named_device(first, "HEDDLE_DEVICE: ").number();
                    }});
  return true;
}();

}  // namespace

Backend::Backend() : number_(static_cast<DeviceNumber>(last_number.fetch_add(1) + 1)) {
  HD_ASSERT(number_ < kMostDevices, "more than ", kMostDevices, " devices were made");
  by_number[number_].store(this, std::memory_order_release);
}
Backend::~Backend() { by_number[number_].store(nullptr, std::memory_order_release); }

Backend& backend_of(DeviceNumber number) {
  Backend* found = number < kMostDevices ? by_number[number].load(std::memory_order_acquire) : nullptr;
  HD_ASSERT(found, "there is no device with number ", number);
  return *found;
}

DeviceBuffer::DeviceBuffer(Backend& device, uint64_t bytes) : DeviceBuffer(device, bytes, device.number()) {}
DeviceBuffer::DeviceBuffer(Backend& device, uint64_t bytes, DeviceNumber place)
    : Storage(place), device_(device), bytes_(bytes) {}

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

void register_device(const std::string& kind, DeviceFactory factory, DeviceCount count, std::vector<int> memory) {
  std::lock_guard guard(registry().lock);
  auto [entry, fresh] = registry().entries.try_emplace(kind);
  if (!fresh) throw ValueError(text("a device called '", kind, "' is registered already"));
  entry->second.factory = factory;
  entry->second.count = count;
  entry->second.memory = std::move(memory);
}

std::string device_at(const MemoryPlace& place) {
  std::lock_guard guard(registry().lock);
  for (const auto& [kind, entry] : registry().entries)
    if (std::find(entry.memory.begin(), entry.memory.end(), place.kind) != entry.memory.end())
      return text(kind, ":", place.number);
  return "";
}

std::vector<std::string> device_kinds() {
  std::lock_guard guard(registry().lock);
  std::vector<std::string> kinds;
  for (const auto& [kind, entry] : registry().entries) kinds.push_back(kind);
  return kinds;
}

void Backend::launch_all(std::span<const Submission> launches, std::shared_ptr<void>&) {
  for (const Submission& next : launches) launch(*next.executable, next.segments);
}

std::vector<std::string> device_names() {
  std::vector<std::pair<std::string, DeviceCount>> kinds;
  {
    std::lock_guard guard(registry().lock);
    for (const auto& [kind, entry] : registry().entries) kinds.emplace_back(kind, entry.count);
  }
  std::vector<std::string> names;
  for (const auto& [kind, count] : kinds)
    for (int i = 0, all = count(); i < all; ++i) names.push_back(i == 0 ? kind : text(kind, ":", i));
  return names;
}

Backend& device(const std::string& wanted) {
  return wanted.empty() ? backend_of(home_device()) : named_device(wanted, "");
}

namespace {

Backend& named_device(const std::string& name, const std::string& whose) {
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
  if (!entry) throw ValueError(text(whose, "there is no device called '", kind, "'; there are: ", all_names()));
  // Outside of the registry's lock: making a device may take long, or ask for another device.
  std::lock_guard guard(entry->making);
  std::unique_ptr<Backend>& instance = entry->instances[number];
  if (instance) return *instance;
  try {
    instance = entry->factory(number);
  } catch (const DeviceError& error) {
    throw DeviceError(text(whose, error.what(), "; there are: ", all_names()));
  }
  return *instance;
}

}  // namespace

void copy_between(const BufferPart& from, DeviceBuffer& to, uint64_t bytes) {
  if (bytes == 0) return;
  HD_ASSERT(from.bytes >= bytes && to.bytes() >= bytes, "a copy of ", bytes, " bytes");
  Backend& source = from.buffer->device();
  source.synchronize();
  if (from.buffer->on_host()) {
    const auto* data = static_cast<const std::byte*>(from.buffer->host_data());
    return to.device().copy_from_host(to, data + from.offset, bytes);
  }
  if (to.on_host()) return source.copy_part_to_host(const_cast<void*>(to.host_data()), from, bytes);
  auto staged = std::make_unique_for_overwrite<std::byte[]>(bytes);
  source.copy_part_to_host(staged.get(), from, bytes);
  to.device().copy_from_host(to, staged.get(), bytes);
}

void Backend::copy_part_to_host(void* to, const BufferPart& from, uint64_t bytes) {
  if (from.offset == 0) return copy_to_host(to, *from.buffer, bytes);
  auto staged = std::make_unique_for_overwrite<std::byte[]>(from.offset + bytes);
  copy_to_host(staged.get(), *from.buffer, from.offset + bytes);
  std::memcpy(to, staged.get() + from.offset, bytes);
}

}  // namespace heddle
