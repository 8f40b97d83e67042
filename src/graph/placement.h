// Where values are. The graph knows devices by numbers alone; the runtime gives them out and knows the names.
#pragma once

#include <cstdint>
#include <string>

namespace heddle {

using DeviceNumber = uint16_t;
constexpr DeviceNumber kAnywhere = 0;  // of constants, which have no place of their own

// "simulated:1".
std::string device_name(DeviceNumber device);

// Where constants go that nobody has put anywhere: the scope's device, else that of the process.
DeviceNumber home_device();
void set_home_device(DeviceNumber device);  // of the process

// For the calling thread, while one of these lives.
class HomeScope {
 public:
  // `pins`: constants that are made by a user meanwhile belong to the device, and stay there.
  HomeScope(DeviceNumber device, bool pins);
  ~HomeScope();
  HomeScope(const HomeScope&) = delete;
  HomeScope& operator=(const HomeScope&) = delete;

 private:
  DeviceNumber before_;
  bool pinned_before_;
};
// The device that constants made now are pinned to; kAnywhere: none.
DeviceNumber pinning_device();

// What the runtime knows: the name of a device, and the first home of the process.
struct DeviceNames {
  std::string (*name)(DeviceNumber device);
  DeviceNumber (*first_home)();
};
void set_device_names(const DeviceNames& names);

// Throws ValueError naming the operator if the two are different places.
[[noreturn]] void refuse_devices(const char* op, DeviceNumber a, DeviceNumber b);
inline void check_same_device(const char* op, DeviceNumber a, DeviceNumber b) {
  if (a != b && a != kAnywhere && b != kAnywhere) [[unlikely]]
    refuse_devices(op, a, b);
}

}  // namespace heddle
