// Memory that is shared with other libraries by DLPack: of the host, and of GPUs.
#include <heddle/memory.h>
#include <heddle/ops.h>

#include <cstring>

#include "base/error.h"
#include "graph/node.h"
#include "python/bind.h"
#include "python/errors.h"
#include "python/function.h"
#include "python/interop.h"
#include "runtime/device.h"
#include "tensor/recording.h"
#include "tensor/together.h"

namespace heddle::python {
namespace {

// The structures of DLPack 1.
struct DLDevice {
  int32_t type, number;
};
struct DLDataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t rank;
  DLDataType dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManagedTensor*);
};
struct DLManagedTensorVersioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(DLManagedTensorVersioned*);
  uint64_t flags;
  DLTensor tensor;
};
constexpr uint64_t kDlReadOnly = 1, kDlCopied = 2;
constexpr const char *kPlainName = "dltensor", *kVersionedName = "dltensor_versioned";

struct DlCode {
  DType dtype;
  uint8_t code;
};
constexpr DlCode kDlCodes[] = {
    {kBool, 6}, {kI8, 0},      {kI16, 0},     {kI32, 0}, {kI64, 0},  {kU8, 1},  {kU16, 1}, {kU32, 1},
    {kU64, 1},  {kF8E4M3, 10}, {kF8E5M2, 12}, {kF16, 2}, {kBF16, 4}, {kF32, 2}, {kF64, 2},
};
DLDataType dl_type(DType dtype) {
  for (const DlCode& c : kDlCodes)
    if (c.dtype == dtype) return {c.code, static_cast<uint8_t>(8 * size_of(dtype)), 1};
  throw DTypeError(text("DLPack has no elements of dtype ", dtype));
}
DType dtype_of(const DLDataType& type) {
  for (const DlCode& c : kDlCodes)
    if (c.code == type.code && 8 * size_of(c.dtype) == type.bits && type.lanes == 1) return c.dtype;
  throw ArgumentTypeError(text("no dtype for DLPack's elements of code ", int{type.code}, ", ", int{type.bits},
                               " bits and ", type.lanes, " lanes"));
}

template <class Managed>
struct DlExport {
  Managed managed{};
  std::shared_ptr<const void> memory;
  std::vector<int64_t> shape, strides;
  static void forget(Managed* managed) { delete static_cast<DlExport*>(managed->context); }
};
template <class Managed>
void forget_capsule(PyObject* capsule) {
  const char* name = std::is_same_v<Managed, DLManagedTensor> ? kPlainName : kVersionedName;
  if (!PyCapsule_IsValid(capsule, name)) return;  // somebody has taken it
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  managed->deleter(managed);
}
constexpr MemoryPlace kHost;

std::shared_ptr<const void> copy_of(const std::shared_ptr<const void>& memory, size_t bytes) {
  std::shared_ptr<std::byte[]> copy(new std::byte[bytes + 1]);
  if (bytes) std::memcpy(copy.get(), memory.get(), bytes);
  return copy;
}
// With memory of its own on the same device.
Tensor copy_of(const Tensor& tensor) {
  const NodeRef node = realized(tensor);
  const auto& memory = static_cast<const DeviceBuffer&>(*node->storage);
  std::shared_ptr<DeviceBuffer> own = memory.device().allocate(memory.bytes());
  memory.device().copy(whole(*own), whole(memory));
  return Tensor(make_buffer(own, node->dtype, node->shape));
}

// The queue of somebody who wants memory of the device. Null: he sees to the order himself.
void* queue_of(PyObject* stream, const Device& device) {
  if (stream == Py_None) return device.backend().queue_of_others();
  const int64_t number = to_int(stream);
  if (number == -1) return nullptr;
  if (number < 1) throw ValueError(text("__dlpack__: ", number, " is no stream of ", device));
  return reinterpret_cast<void*>(number);
}

template <class Managed>
nb::object export_capsule(const Tensor& tensor, std::shared_ptr<const void> memory, MemoryPlace place, bool copied) {
  auto exported = std::make_unique<DlExport<Managed>>();
  exported->memory = std::move(memory);
  exported->shape = tensor.shape();
  exported->strides.resize(exported->shape.size());
  int64_t step = 1;
  for (size_t i = exported->shape.size(); i-- > 0; step *= exported->shape[i]) exported->strides[i] = step;
  Managed& managed = exported->managed;
  managed.tensor = {const_cast<void*>(exported->memory.get()),
                    {place.kind, place.number},
                    static_cast<int32_t>(exported->shape.size()),
                    dl_type(tensor.dtype()),
                    exported->shape.data(),
                    exported->strides.data(),
                    0};
  if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>) {
    managed.major = 1;
    managed.minor = 0;
    managed.flags = copied ? kDlCopied : kDlReadOnly;
  }
  managed.deleter = DlExport<Managed>::forget;
  managed.context = exported.get();
  const char* name = std::is_same_v<Managed, DLManagedTensor> ? kPlainName : kVersionedName;
  nb::object capsule = nb::steal(PyCapsule_New(&managed, name, forget_capsule<Managed>));
  if (!capsule.is_valid()) nb::raise_python_error();
  exported.release();
  return capsule;
}

[[noreturn]] void refuse_memory(const std::string& why) {
  PyErr_SetString(PyExc_BufferError, why.c_str());
  nb::raise_python_error();
}

std::shared_ptr<const void> lent(const Tensor& tensor, MemoryPlace place, bool copied, void* queue) {
  if (place == kHost) {
    std::shared_ptr<const void> memory = memory_of("__dlpack__()", tensor);
    const auto bytes = static_cast<size_t>(tensor.numel()) * static_cast<size_t>(size_of(tensor.dtype()));
    return copied ? copy_of(memory, bytes) : memory;
  }
  std::source_location here = std::source_location::current();  // the place finder knows better
  refuse_in_capture("__dlpack__()", tensor, &here);
  release_late();
  Unlocked unlocked;
  return device_memory(copied ? copy_of(tensor) : tensor, queue);
}

// Without the last arguments of newer versions the memory cannot be marked as read-only; it is the same memory still.
nb::object dlpack(const Tensor& tensor, PyObject* stream, PyObject* max_version, PyObject* device, PyObject* copy) {
  const Device home = tensor.device();
  const MemoryPlace own = home.backend().memory_place();
  MemoryPlace place = own;
  if (device != Py_None) {
    std::vector<int64_t> wanted = to_ints(device);
    const bool is_own = wanted.size() == 2 && wanted[0] == own.kind && wanted[1] == own.number;
    if (!is_own && !(wanted.size() == 2 && wanted[0] == kHostMemory))
      refuse_memory(text("__dlpack__: the memory is that of ", home, "; it can be copied to the CPU alone"));
    if (!is_own) place = kHost;
  }
  if (own == kHost && stream != Py_None && !(PyLong_Check(stream) && PyLong_AsLong(stream) == -1))
    throw ValueError("__dlpack__: there are no streams on a CPU");
  const bool moved = place != own;
  if (moved && copy != Py_None && !to_bool(copy))
    refuse_memory(text("__dlpack__: the memory is that of ", home, ", and no copy is wanted"));
  const bool copied = copy != Py_None && to_bool(copy);
  bool versioned = false;
  if (max_version != Py_None) {
    const std::vector<int64_t> version = to_ints(max_version);
    if (version.size() != 2) throw ValueError("__dlpack__: max_version is a pair of numbers");
    versioned = version[0] >= 1;
  }
  void* queue = own == kHost ? nullptr : queue_of(stream, home);
  std::shared_ptr<const void> memory = lent(tensor, place, copied, queue);
  return versioned ? export_capsule<DLManagedTensorVersioned>(tensor, std::move(memory), place, copied || moved)
                   : export_capsule<DLManagedTensor>(tensor, std::move(memory), place, copied || moved);
}

nb::object dlpack_device(const Tensor& tensor) {
  const MemoryPlace place = tensor.device().backend().memory_place();
  return nb::make_tuple(place.kind, place.number);
}

// The elements of memory with strides (in bytes), one after the other.
void copy_strided(const std::byte* from, std::byte* to, std::span<const int64_t> shape,
                  std::span<const int64_t> strides, size_t bytes) {
  std::vector<int64_t> at(shape.size(), 0);
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;
  for (;;) {
    std::memcpy(to, from, bytes);
    to += bytes;
    size_t axis = shape.size();
    for (;; --axis) {
      if (axis == 0) return;
      from += strides[axis - 1];
      if (++at[axis - 1] < shape[axis - 1]) break;
      from -= strides[axis - 1] * shape[axis - 1];
      at[axis - 1] = 0;
    }
  }
}

// What others made, until the last who uses it is done. The deleter may be Python code: it gets a capsule that is let
// go of under the interpreter's lock.
template <class Managed>
std::shared_ptr<const void> held_by_us(std::shared_ptr<Managed> managed, const std::byte* data) {
  auto* keep = new std::shared_ptr<Managed>(std::move(managed));
  PyObject* holder = PyCapsule_New(keep, "heddle.memory", [](PyObject* object) {
    delete static_cast<std::shared_ptr<Managed>*>(PyCapsule_GetPointer(object, "heddle.memory"));
  });
  if (!holder) nb::raise_python_error();
  return {static_cast<const void*>(data), [holder](const void*) { release_anywhere(holder); }};
}

// Elements of a GPU's memory that do not follow each other, in memory of their own. Strides are numbers of elements.
Tensor gathered(const std::shared_ptr<const void>& memory, const Dims& shape, std::span<const int64_t> strides,
                DType dtype, const Device& device) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return empty(shape, {.dtype = dtype, .device = device});
  DeviceScope scope(device);
  int64_t lowest = 0, highest = 0;
  Tensor place = zeros({}, kI64);
  for (size_t i = 0; i < shape.size(); ++i) {
    (strides[i] < 0 ? lowest : highest) += (shape[i] - 1) * strides[i];
    place = place.unsqueeze(-1) + arange(shape[i], kI64) * strides[i];
  }
  std::shared_ptr<const void> first(memory,
                                    static_cast<const std::byte*>(memory.get()) + lowest * int64_t{size_of(dtype)});
  Tensor all = share_device_memory(std::move(first), {highest - lowest + 1}, dtype, device);
  return take(all, place - lowest).realize();
}

// `queued`: whoever made the elements was told of our queue. Otherwise all that the device does comes first.
template <class Managed>
Tensor take_capsule(PyObject* capsule, const char* name, const char* used, bool copy, bool queued) {
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (!managed) nb::raise_python_error();
  if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>)
    if (managed->major > 1)
      throw ValueError(text("from_dlpack: memory as version ", managed->major, " of DLPack describes it"));
  PyCapsule_SetName(capsule, used);
  std::shared_ptr<Managed> held(managed, [](Managed* m) {
    if (m->deleter) m->deleter(m);
  });
  const DLTensor& t = managed->tensor;
  const bool on_host = t.device.type == kHostMemory || t.device.type == kPinnedMemory;
  const std::string name_of_device = on_host ? "" : device_at({t.device.type, t.device.number});
  if (!on_host && name_of_device.empty())
    throw DeviceError(text("from_dlpack: memory of a device of DLPack's kind ", t.device.type, "; copy it to the CPU"));
  DType dtype = dtype_of(t.dtype);
  Dims shape(std::vector<int64_t>(t.shape, t.shape + t.rank));
  const auto* data = static_cast<const std::byte*>(t.data) + t.byte_offset;
  int64_t step = 1;
  bool dense = true;
  for (size_t i = shape.size(); i-- > 0; step *= shape[i])
    dense = dense && (!t.strides || shape[i] <= 1 || t.strides[i] == step);
  if (!on_host) {
    const Device device(name_of_device);
    std::vector<int64_t> strides(dense ? nullptr : t.strides, dense ? nullptr : t.strides + t.rank);
    // CuPy divides strides in bytes as if they had no sign; their products with the size are right.
    const auto size = static_cast<uint64_t>(size_of(dtype));
    for (int64_t& stride : strides)
      stride = static_cast<int64_t>(static_cast<uint64_t>(stride) * size) / static_cast<int64_t>(size);
    std::shared_ptr<const void> memory = held_by_us(std::move(held), data);
    Unlocked unlocked;
    if (!queued) device.backend().synchronize_all();
    if (!dense) return gathered(memory, shape, strides, dtype, device);
    Tensor shared = share_device_memory(std::move(memory), shape, dtype, device);
    return copy ? copy_of(shared) : shared;
  }
  if (dense && copy) return from_memory(data, shape, dtype);
  if (dense) return share_memory(held_by_us(std::move(held), data), shape, dtype);
  auto size = static_cast<size_t>(size_of(dtype));
  std::vector<int64_t> strides(t.strides, t.strides + t.rank);
  for (int64_t& stride : strides) stride *= static_cast<int64_t>(size);
  std::vector<std::byte> bytes(static_cast<size_t>(std::max<int64_t>(step, 0)) * size + 1);
  copy_strided(data, bytes.data(), shape, strides, size);
  return from_memory(bytes.data(), shape, dtype);
}

// The capsule of an object. Where devices have queues, what makes the elements comes before whatever we do there.
nb::object capsule_of(nb::handle object, bool& queued) {
  nb::dict settings;
  if (nb::hasattr(object, "__dlpack_device__")) {
    const std::vector<int64_t> place = to_ints(nb::object(object.attr("__dlpack_device__")()).ptr());
    std::string device;
    if (place.size() == 2) device = device_at({static_cast<int>(place[0]), static_cast<int>(place[1])});
    queued = true;
    if (!device.empty()) settings["stream"] = reinterpret_cast<uintptr_t>(device_queue(device));
  }
  settings["max_version"] = nb::make_tuple(1, 0);
  try {
    return object.attr("__dlpack__")(**settings);
  } catch (nb::python_error& e) {
    if (!e.matches(PyExc_TypeError)) throw;
    nb::del(settings["max_version"]);
    return object.attr("__dlpack__")(**settings);
  }
}

}  // namespace

Tensor from_dlpack(PyObject* object, bool copy) {
  release_late();
  nb::object capsule;
  bool queued = false;
  if (PyCapsule_CheckExact(object)) {
    capsule = nb::borrow(object);
  } else {
    if (!nb::hasattr(object, "__dlpack__"))
      throw ArgumentTypeError("expected an object with __dlpack__, not " + type_name(object));
    capsule = capsule_of(object, queued);
  }
  if (PyCapsule_IsValid(capsule.ptr(), kVersionedName))
    return take_capsule<DLManagedTensorVersioned>(capsule.ptr(), kVersionedName, "used_dltensor_versioned", copy,
                                                  queued);
  if (PyCapsule_IsValid(capsule.ptr(), kPlainName))
    return take_capsule<DLManagedTensor>(capsule.ptr(), kPlainName, "used_dltensor", copy, queued);
  throw ArgumentTypeError("expected a capsule of DLPack that nobody has used");
}

void bind_dlpack(nb::module_& module) {
  using enum Row::Kind;
  static constexpr Row rows[] = {
      {"from_dlpack(x)", call<[](PyObject* x) { return from_dlpack(x, false); }>, Function},
      {"__dlpack__(x, stream=None, max_version=None, dl_device=None, copy=None)", call<dlpack>, Method},
      {"__dlpack_device__(x)", call<dlpack_device>, Method},
  };
  add_functions(module, rows);
}

}  // namespace heddle::python
