// Elements from and to the host, and from and to others who use the same device.
#include <heddle/memory.h>
#include <heddle/ops.h>

#include <memory>

#include "base/error.h"
#include "runtime/device.h"
#include "tensor/build.h"
#include "tensor/recording.h"
#include "tensor/together.h"

namespace heddle {
namespace {

// The realised elements on the host.
struct HostView {
  NodeRef keep;
  const void* data;
  std::unique_ptr<std::byte[]> copy = nullptr;  // of memory that the host cannot read
};
// `own`: nobody sees the data after the view is gone.
HostView host_view(const char* what, const Tensor& t, const std::source_location& where, bool own = false) {
  refuse_in_capture(what, t, &where);
  NodeRef n = realized(t);
  const auto& memory = static_cast<const DeviceBuffer&>(*n->storage);
  if (!own || memory.on_host()) return {n, memory.host_data()};
  auto copy = std::make_unique_for_overwrite<std::byte[]>(memory.bytes());
  memory.device().copy_to_host(copy.get(), memory, memory.bytes());
  const void* data = copy.get();
  return {n, data, std::move(copy)};
}

template <class T>
T small_float(uint64_t bits) {
  T value;
  value.bits = static_cast<decltype(value.bits)>(bits);
  return value;
}

template <class T>
T convert(const Scalar& s) {
  if constexpr (std::is_same_v<T, bool>)
    return s.as_bool();
  else if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(s.as_double());
  else if constexpr (kSmallFloat<T>)
    return small_float<T>(cast(s, dtype_of<T>()).bits());
  else
    return static_cast<T>(cast(s, dtype_of<T>()).bits());
}

}  // namespace

template <class T>
T Tensor::item(const std::source_location& where) const {
  if (NodeRef n = node(); n->shape.known_numel() != 1)
    throw ShapeError(text("item: a tensor of shape ", n->shape, " has ", n->shape.known_numel(), " elements, not one"));
  HostView view = host_view("item()", *this, where, true);
  return convert<T>(load_scalar(view.data, 0, view.keep->dtype));
}

template <class T>
std::vector<T> Tensor::to_vector(const std::source_location& where) const {
  HostView view = host_view("to_vector()", *this, where, true);
  int64_t count = view.keep->shape.known_numel();
  std::vector<T> result(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    result[static_cast<size_t>(i)] = convert<T>(load_scalar(view.data, i, view.keep->dtype));
  return result;
}

template <class T>
std::span<const T> Tensor::data(const std::source_location& where) const& {
  if (dtype() != dtype_of<T>()) throw DTypeError(text("data: the tensor holds ", dtype(), ", not ", dtype_of<T>()));
  HostView view = host_view("data()", *this, where);
  return {static_cast<const T*>(view.data), static_cast<size_t>(view.keep->shape.known_numel())};
}

NodeRef buffer_node(const void* data, DType dtype, const Shape& shape) {
  uint64_t bytes = static_cast<uint64_t>(shape.static_numel()) * static_cast<uint64_t>(size_of(dtype));
  Backend& d = device();
  std::shared_ptr<DeviceBuffer> buffer = d.allocate(bytes);
  d.copy_from_host(*buffer, data, bytes);
  return make_buffer(buffer, dtype, shape);
}

Tensor from_memory(const void* elements, const Dims& dims, DType dtype, const std::optional<Device>& device) {
  std::optional<DeviceScope> scope;
  if (device) scope.emplace(*device);
  return Tensor(buffer_node(elements, dtype, to_shape("from_memory", dims, dtype)));
}

Tensor share_memory(std::shared_ptr<const void> elements, const Dims& dims, DType dtype) {
  Shape shape = to_shape("share_memory", dims, dtype);
  uint64_t bytes = static_cast<uint64_t>(shape.static_numel()) * static_cast<uint64_t>(size_of(dtype));
  if (bytes > 0)
    if (std::shared_ptr<DeviceBuffer> shared = device().share(elements, bytes))
      return Tensor(make_buffer(shared, dtype, shape));
  return Tensor(buffer_node(elements.get(), dtype, shape));
}

std::shared_ptr<const void> host_memory(const Tensor& tensor, const std::source_location& where) {
  auto view = std::make_shared<HostView>(host_view("host_memory()", tensor, where, true));
  return {view, view->data};
}

void* device_queue(const Device& device) { return device.backend().queue(); }

Tensor share_device_memory(std::shared_ptr<const void> elements, const Dims& dims, DType dtype, const Device& device) {
  Shape shape = to_shape("share_device_memory", dims, dtype);
  Backend& backend = device.backend();
  const uint64_t bytes = static_cast<uint64_t>(shape.static_numel()) * static_cast<uint64_t>(size_of(dtype));
  if (bytes == 0) return Tensor(make_buffer(backend.allocate(0), dtype, shape));
  const uint64_t before = reinterpret_cast<uintptr_t>(elements.get()) % 64;
  std::shared_ptr<const void> begin(elements, static_cast<const std::byte*>(elements.get()) - before);
  std::shared_ptr<DeviceBuffer> shared = backend.adopt(begin, before + bytes);
  if (!shared) throw DeviceError(text("share_device_memory: ", device, " does not use memory that others made"));
  if (before == 0) return Tensor(make_buffer(shared, dtype, shape));
  std::shared_ptr<DeviceBuffer> own = backend.allocate(bytes);
  backend.copy(whole(*own), {shared.get(), before, bytes});
  return Tensor(make_buffer(own, dtype, shape));
}

namespace {
// Of others: what they still do with the memory, in queues of their own, is done before somebody else has it.
struct LentMemory {
  NodeRef node;
  ~LentMemory() {
    try {
      static_cast<const DeviceBuffer&>(*node->storage).device().synchronize_all();
    } catch (const Error&) {  // whoever looks next is told
    }
  }
};
}  // namespace

std::shared_ptr<const void> device_memory(const Tensor& tensor, void* queue, const std::source_location& where) {
  refuse_in_capture("device_memory()", tensor, &where);
  auto lent = std::make_shared<LentMemory>(realized(tensor));
  const auto& memory = static_cast<const DeviceBuffer&>(*lent->node->storage);
  return {lent, memory.device().lend(memory, queue)};
}

namespace {
// `make` gives a tensor where the options say, of a dtype of its own.
template <class Make>
Tensor made_with(const TensorOptions& options, Make make) {
  std::optional<DeviceScope> scope;
  if (options.device) scope.emplace(*options.device);
  Tensor made = make();
  return options.dtype ? cast(made, *options.dtype) : made;
}
}  // namespace

template <class T>
Tensor from_data(const T* values, const Dims& dims) {
  return Tensor(buffer_node(values, dtype_of<T>(), to_shape("from_data", dims, dtype_of<T>())));
}
template <class T>
Tensor from_data(const T* values, const Dims& dims, const TensorOptions& options) {
  return made_with(options, [&] { return from_data(values, dims); });
}

template <class T>
Tensor from_vector(const std::vector<T>& values, const Dims& dims) {
  Shape shape = to_shape("from_vector", dims, dtype_of<T>());
  if (shape.static_numel() != static_cast<int64_t>(values.size()))
    throw ShapeError(text("from_vector: ", values.size(), " values do not fill shape ", shape));
  if constexpr (std::is_same_v<T, bool>) {  // std::vector<bool> packs bits
    std::unique_ptr<bool[]> bytes(new bool[values.size() + 1]);
    for (size_t i = 0; i < values.size(); ++i) bytes[i] = values[i];
    return Tensor(buffer_node(bytes.get(), kBool, shape));
  } else {
    return Tensor(buffer_node(values.data(), dtype_of<T>(), shape));
  }
}

template <class T>
Tensor from_vector(const std::vector<T>& values, const Dims& dims, const TensorOptions& options) {
  return made_with(options, [&] { return from_vector(values, dims); });
}

#define HD_INSTANTIATE(T)                                                           \
  template T Tensor::item<T>(const std::source_location&) const;                    \
  template std::vector<T> Tensor::to_vector<T>(const std::source_location&) const;  \
  template std::span<const T> Tensor::data<T>(const std::source_location&) const&;  \
  template Tensor from_data<T>(const T* values, const Dims&);                       \
  template Tensor from_data<T>(const T* values, const Dims&, const TensorOptions&); \
  template Tensor from_vector<T>(const std::vector<T>&, const Dims&);               \
  template Tensor from_vector<T>(const std::vector<T>&, const Dims&, const TensorOptions&);
HD_INSTANTIATE(bool)
HD_INSTANTIATE(int8_t)
HD_INSTANTIATE(int16_t)
HD_INSTANTIATE(int32_t)
HD_INSTANTIATE(int64_t)
HD_INSTANTIATE(uint8_t)
HD_INSTANTIATE(uint16_t)
HD_INSTANTIATE(uint32_t)
HD_INSTANTIATE(uint64_t)
HD_INSTANTIATE(long long)
HD_INSTANTIATE(unsigned long long)
HD_INSTANTIATE(char)
HD_INSTANTIATE(Float8E4M3)
HD_INSTANTIATE(Float8E5M2)
HD_INSTANTIATE(Half)
HD_INSTANTIATE(BFloat16)
HD_INSTANTIATE(float)
HD_INSTANTIATE(double)
#undef HD_INSTANTIATE

}  // namespace heddle
