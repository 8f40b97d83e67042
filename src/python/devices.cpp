// Devices by their names; python/heddle/devices.py makes objects of these.
#include "base/error.h"
#include "python/bind.h"
#include "python/function.h"
#include "tensor/together.h"

namespace heddle::python {
namespace {

std::string canonical(const std::string& name) { return Device(name).name(); }
nb::object names() {
  nb::list result;
  for (const Device& device : devices()) result.append(nb::cast(device.name()));
  return result;
}
nb::object home() { return nb::cast(default_device().name()); }
void set_home(const std::string& name) { set_default_device(Device(name)); }

// The scopes that `with hd.device(...)` has opened on this thread, the last one last.
thread_local std::vector<std::unique_ptr<DeviceScope>> scopes;
void enter(const std::string& name) { scopes.push_back(std::make_unique<DeviceScope>(Device(name))); }
void leave() {
  if (scopes.empty()) throw ValueError("a scope of a device ends that was not begun on this thread");
  scopes.pop_back();
}

nb::object memory_of(const std::string& name) {
  const DeviceMemory now = Device(name).memory();
  nb::dict result;
  result["used"] = nb::int_(now.used);
  result["cached"] = nb::int_(now.cached);
  result["peak"] = nb::int_(now.peak);
  result["limit"] = nb::int_(now.limit);
  result["free"] = nb::int_(now.free());
  return result;
}
nb::object capabilities_of(const std::string& name) {
  const DeviceCapabilities known = Device(name).capabilities();
  nb::dict result;
  result["machine"] = nb::cast(known.machine);
  result["threads"] = nb::int_(known.threads);
  result["asynchronous"] = nb::bool_(known.asynchronous);
  result["vector_bytes"] = nb::int_(known.vector_bytes);
  result["warp"] = nb::int_(known.warp);
  result["multiprocessors"] = nb::int_(known.multiprocessors);
  result["shared_bytes"] = nb::int_(known.shared_bytes);
  nb::list units;
  for (DType dtype : known.matrix_units) units.append(nb::cast(text(dtype)));
  result["matrix_units"] = units;
  return result;
}

nb::object where(const Tensor& x) { return nb::cast(x.device().name()); }
// The tensor itself where it is there already.
nb::object moved(PyObject* self, const std::string& name) {
  const Tensor& x = tensor_of(self);
  const Device device(name);
  if (x.device() == device) return nb::borrow(self);
  return to_object(x.to(device));
}
void move_all(const std::vector<Tensor>& tensors, const std::string& name) {
  const Device device(name);
  Unlocked unlocked;
  move_together(tensors, device);
}
void wait_for(const std::string& name) {
  const Device device(name);
  Unlocked unlocked;
  device.synchronize();
}

}  // namespace

void bind_devices(nb::module_& module) {
  using enum Row::Kind;
  static constexpr Row rows[] = {
      {"_device_name(device)", call<[](const std::string& name) -> nb::object { return nb::cast(canonical(name)); }>,
       Function},
      {"_devices()", call<names>, Function},
      {"_default_device()", call<home>, Function},
      {"_set_default_device(device)", call<set_home>, Function},
      {"_enter_device(device)", call<enter>, Function},
      {"_leave_device()", call<leave>, Function},
      {"_device_memory(device)", call<memory_of>, Function},
      {"_device_capabilities(device)", call<capabilities_of>, Function},
      {"_synchronize(device)", call<wait_for>, Function},
      {"_move(tensors, device)", call<move_all>, Function},
      {"_where(x)", call<where>, Function},
      {"_to_device(x, device)", call<moved>, Function},
  };
  add_functions(module, rows);
}

}  // namespace heddle::python
