// Devices as values, and tensors that go from one to another.
#include <heddle/device.h>
#include <heddle/ops.h>

#include <algorithm>
#include <ostream>

#include "base/error.h"
#include "runtime/device.h"
#include "tensor/build.h"
#include "tensor/recording.h"
#include "tensor/together.h"
#include "tensor/track.h"

namespace heddle {

Device::Device(const std::string& name) : backend_(nullptr) {
  if (name.empty()) throw ValueError("a device has a name, such as cpu");
  backend_ = &device(name);
}

const std::string& Device::name() const { return backend_->name(); }
std::string Device::kind() const { return name().substr(0, name().find(':')); }

DeviceMemory Device::memory() const {
  const Backend::Memory now = backend_->memory();
  return {now.used, now.cached, now.peak, now.limit};
}

DeviceCapabilities Device::capabilities() const {
  const Target& target = backend_->target();
  DeviceCapabilities result;
  result.machine = target.llvm_cpu.empty() ? target.name : target.llvm_cpu;
  result.threads = backend_->threads();
  result.asynchronous = backend_->is_asynchronous();
  result.vector_bytes = target.vector_bytes;
  if (target.machine == Machine::Simt) {
    result.warp = target.warp;
    result.multiprocessors = target.multiprocessors;
    result.shared_bytes = target.shared_bytes;
  }
  for (const MatrixInstruction& unit : target.matrix)
    if (std::find(result.matrix_units.begin(), result.matrix_units.end(), unit.factor) == result.matrix_units.end())
      result.matrix_units.push_back(unit.factor);
  return result;
}

void Device::synchronize() const { backend_->synchronize(); }
void Device::free_cached() const { backend_->free_cached(); }
std::ostream& operator<<(std::ostream& out, const Device& device) { return out << device.name(); }

std::vector<Device> devices() {
  std::vector<Device> result;
  for (const std::string& name : device_names()) result.emplace_back(name);
  return result;
}

Device default_device() { return Device(backend_of(home_device())); }
void set_default_device(const Device& device) { set_home_device(device.backend().number()); }

DeviceScope::DeviceScope(const Device& device) : scope_(std::make_unique<HomeScope>(device.backend().number(), true)) {}
DeviceScope::~DeviceScope() = default;

Device Tensor::device() const {
  const DeviceNumber number = node()->device;
  return Device(backend_of(number == kAnywhere ? home_device() : number));
}

Tensor Tensor::to(const Device& device) const { return Tensor(make_to(node(), device.backend().number())); }

OnDeviceOf::OnDeviceOf(const Tensor& x) : OnDeviceOf(x.node()->device) {}
OnDeviceOf::OnDeviceOf(DeviceNumber device) : scope_(device == kAnywhere ? home_device() : device, false) {}

NodeRef placed_at(const NodeRef& value, DeviceNumber device) {
  const bool there = device == kAnywhere || value->device != kAnywhere || device == home_device();
  return there ? value : make_to(value, device);
}

void move_together(std::span<const Tensor> tensors, const Device& device) {
  refuse_in_capture("to() of a module");
  const DeviceNumber number = device.backend().number();
  std::vector<TensorSlot*> slots;
  for (const Tensor& tensor : tensors) slots.push_back(&tensor.slot());
  {
    SlotsTaken taken(slots, true);
    for (const Tensor& tensor : tensors) {
      SlotsTaken::Item& item = taken[tensor.slot()];
      if (!item.node || item.node->device == number) continue;
      // Where it comes from is no history: a parameter that is moved is a leaf as before.
      NodeRef moved = make_to(make_detached(item.node), number);
      taken.put(item, value_for(tensor.shared_slot(), moved));
    }
  }
  realize(tensors);
}

}  // namespace heddle
