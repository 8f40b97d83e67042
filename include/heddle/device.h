// Devices: where tensors are, and where what is computed from them runs.
#pragma once

#include <heddle/dtype.h>

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace heddle {

class Backend;
class HomeScope;

// Bytes. Of a CPU and of simulated devices it is the host's memory.
struct DeviceMemory {
  uint64_t used = 0;    // by tensors and what belongs to them
  uint64_t cached = 0;  // given back, and kept for the next that asks
  uint64_t peak = 0;    // of `used`
  uint64_t limit = 0;
  uint64_t free() const { return limit > used ? limit - used : 0; }
};

// What a machine can do, for people and for programs that choose a device.
struct DeviceCapabilities {
  std::string machine;              // "x86-64-v4", "sm_90a"
  int threads = 1;                  // of the host that one launch may use
  bool asynchronous = false;        // launches return before they are done
  int vector_bytes = 0;             // of a vector register; on a GPU what a thread loads at once
  int warp = 1;                     // threads that go in step; 1: none do
  int multiprocessors = 0;          // of a GPU
  int64_t shared_bytes = 0;         // memory of a block of threads
  std::vector<DType> matrix_units;  // dtypes of factors that have matrix instructions
};

// A device by its name: "cpu", "simulated" (which is "simulated:0"), "simulated:1"; the guide has those of GPUs. It is
// opened when it is first named. A name that there is no device for raises ValueError or DeviceError listing those that
// are there.
class Device {
 public:
  Device(const std::string& name);
  Device(const char* name) : Device(std::string(name)) {}
  explicit Device(Backend& backend) : backend_(&backend) {}

  const std::string& name() const;
  std::string kind() const;  // the name without a number
  DeviceMemory memory() const;
  DeviceCapabilities capabilities() const;
  // Waits until all that was begun there is done. Throws what went wrong.
  void synchronize() const;
  // Gives memory back that is kept for reuse.
  void free_cached() const;

  friend bool operator==(const Device&, const Device&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Device& device);  // its name

  // For the rest of Heddle.
  Backend& backend() const { return *backend_; }

 private:
  Backend* backend_;
};

// Those that are there.
std::vector<Device> devices();

// Where tensors are made when nobody says where, and constants are computed that are not used beside anything else: at
// first HEDDLE_DEVICE, or the CPU. A thread inside a DeviceScope has the scope's.
Device default_device();
void set_default_device(const Device& device);  // of the whole process

// While one of these lives, tensors that the thread makes without saying where are made there:
// `DeviceScope scope("simulated:1");`
class DeviceScope {
 public:
  explicit DeviceScope(const Device& device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  std::unique_ptr<HomeScope> scope_;
};

// Of functions that make tensors: `zeros({2, 3}, {.dtype = kF16, .device = "simulated"})`.
struct TensorOptions {
  std::optional<DType> dtype = {};    // else what the function says
  std::optional<Device> device = {};  // else the default device
};

}  // namespace heddle
