#include "graph/placement.h"

#include <atomic>
#include <utility>

#include "base/error.h"

namespace heddle {
namespace {

// Written once, before main().
constinit DeviceNames device_names{};
constinit std::atomic<DeviceNumber> process_home{kAnywhere};
constinit thread_local DeviceNumber scope_home = kAnywhere;
constinit thread_local bool scope_pins = false;

}  // namespace

std::string device_name(DeviceNumber device) {
  return device != kAnywhere && device_names.name ? device_names.name(device) : text("device ", device);
}

DeviceNumber home_device() {
  if (scope_home != kAnywhere) return scope_home;
  const DeviceNumber home = process_home.load(std::memory_order_relaxed);
  if (home != kAnywhere || !device_names.first_home) return home;
  DeviceNumber first = device_names.first_home(), unknown = kAnywhere;
  return process_home.compare_exchange_strong(unknown, first, std::memory_order_relaxed) ? first : unknown;
}
void set_home_device(DeviceNumber device) { process_home.store(device, std::memory_order_relaxed); }

HomeScope::HomeScope(DeviceNumber device, bool pins)
    : before_(std::exchange(scope_home, device)), pinned_before_(std::exchange(scope_pins, pins)) {}
HomeScope::~HomeScope() {
  scope_home = before_;
  scope_pins = pinned_before_;
}
DeviceNumber pinning_device() { return scope_pins ? scope_home : kAnywhere; }

void set_device_names(const DeviceNames& names) { device_names = names; }

void refuse_devices(const char* op, DeviceNumber a, DeviceNumber b) {
  throw ValueError(text(op, ": one operand is on ", device_name(a), ", another on ", device_name(b),
                        "; bring them together with to()"));
}

}  // namespace heddle
