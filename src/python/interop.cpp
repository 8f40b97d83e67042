#include "python/interop.h"

#include <dlfcn.h>
#include <heddle/memory.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "base/error.h"
#include "base/lock.h"
#include "core/scalar.h"
#include "python/bind.h"
#include "python/errors.h"
#include "python/function.h"
#include "tensor/recording.h"

namespace heddle::python {
namespace {

// Python's objects that kernels have let go of on threads without the interpreter's lock. Waiting for it there could
// wait for ever: who has it may be waiting for the value that is being computed.
class LaterReleased {
 public:
  void add(PyObject* object) {
    std::lock_guard guard(lock_);
    objects_.push_back(object);
    waiting_.store(true, std::memory_order_release);
    // The queue of calls may be full: then the next one tries again.
    if (!scheduled_) scheduled_ = Py_AddPendingCall(drain, nullptr) == 0;
  }
  bool waiting() const { return waiting_.load(std::memory_order_acquire); }

  // With the interpreter's lock.
  static int drain(void* late);

 private:
  Mutex lock_;
  std::vector<PyObject*> objects_;
  std::atomic<bool> waiting_{false};
  bool scheduled_ = false;
};
LaterReleased& later_released() {
  static LaterReleased& instance = *new LaterReleased;
  return instance;
}
int LaterReleased::drain(void* late) {
  std::vector<PyObject*> all;
  LaterReleased& self = later_released();
  {
    std::lock_guard guard(self.lock_);
    all.swap(self.objects_);
    self.waiting_.store(false, std::memory_order_relaxed);
    if (!late) self.scheduled_ = false;
  }
  for (PyObject* object : all) Py_DECREF(object);
  return 0;
}

// What a format of Python's struct module says about one element.
struct Format {
  DType dtype;
  bool swapped = false;
};
std::optional<DType> of_kind(char kind, Py_ssize_t size) {
  switch (kind) {
    case '?': return kBool;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n':
      if (size == 1) return kI8;
      if (size == 2) return kI16;
      return size == 4 ? kI32 : kI64;
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N':
      if (size == 1) return kU8;
      if (size == 2) return kU16;
      return size == 4 ? kU32 : kU64;
    case 'e': return kF16;
    case 'f': return kF32;
    case 'd': return kF64;
    default: return {};
  }
}
Format format_of(const Py_buffer& view) {
  const char* text = view.format ? view.format : "B";
  bool swapped = *text == '>' || *text == '!';
  if (std::strchr("@=<>!", *text)) ++text;
  std::optional<DType> dtype = text[0] && !text[1] ? of_kind(text[0], view.itemsize) : std::nullopt;
  if (!dtype || size_of(*dtype) != view.itemsize)
    throw ArgumentTypeError(std::string("no dtype for elements of format '") + (view.format ? view.format : "B") + "'");
  return {*dtype, swapped && view.itemsize > 1};
}
const char* format_text(DType dtype) {
  switch (dtype) {
    case DType::boolean: return "?";
    case DType::i8: return "b";
    case DType::i16: return "h";
    case DType::i32: return "i";
    case DType::i64: return "l";
    case DType::u8: return "B";
    case DType::u16: return "H";
    case DType::u32: return "I";
    case DType::u64: return "L";
    case DType::f16: return "e";
    case DType::f32: return "f";
    case DType::f64: return "d";
    default: return nullptr;
  }
}

class BufferView {
 public:
  explicit BufferView(PyObject* object) {
    if (PyObject_GetBuffer(object, &view, PyBUF_FULL_RO) != 0) {
      PyErr_Clear();
      throw ArgumentTypeError("cannot read the memory of " + type_name(object) + " (no dtype for its elements?)");
    }
  }
  ~BufferView() { PyBuffer_Release(&view); }
  BufferView(const BufferView&) = delete;
  BufferView& operator=(const BufferView&) = delete;
  Py_buffer view{};
};

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

Dims shape_of(const Py_buffer& view) {
  Dims shape;
  for (int i = 0; i < view.ndim; ++i) shape.push_back(view.shape[i]);
  return shape;
}

}  // namespace

namespace {
// Not of the stable ABI, but there in every version so far. Without it objects are let go of later.
bool has_lock() {
  static const auto check = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_Check"));
  return check && check() != 0;
}
}  // namespace

void release_anywhere(PyObject* object) {
  if (!Py_IsInitialized()) return;  // the process ends
  if (has_lock())
    Py_DECREF(object);
  else
    later_released().add(object);
}

void release_late() {
  if (later_released().waiting()) LaterReleased::drain(&later_released());
}

Tensor from_buffer(PyObject* object) {
  release_late();
  BufferView memory(object);
  const Py_buffer& view = memory.view;
  Format format = format_of(view);
  if (!format.swapped && PyBuffer_IsContiguous(&view, 'C')) return from_memory(view.buf, shape_of(view), format.dtype);
  std::vector<char> bytes(static_cast<size_t>(view.len) + 1);
  if (PyBuffer_ToContiguous(bytes.data(), &view, view.len, 'C') != 0) nb::raise_python_error();
  if (format.swapped) {
    auto size = static_cast<size_t>(view.itemsize);
    for (size_t i = 0; i < static_cast<size_t>(view.len); i += size)
      std::reverse(bytes.data() + i, bytes.data() + i + size);
  }
  return from_memory(bytes.data(), shape_of(view), format.dtype);
}

namespace {

// Shares memory where that is possible.
Tensor from_numpy(PyObject* object) {
  release_late();
  if (is_tensor(object)) return tensor_of(object);
  if (!PyObject_CheckBuffer(object)) {
    if (std::optional<Tensor> array = to_tensor_if_array(object)) return *array;
    throw ArgumentTypeError("expected an array, not " + type_name(object));
  }
  auto view = std::make_unique<BufferView>(object);
  Format format = format_of(view->view);
  if (format.swapped || !PyBuffer_IsContiguous(&view->view, 'C')) return from_buffer(object);
  Dims shape = shape_of(view->view);
  // Keeps the memory where it is; it may be let go of on any thread.
  nb::object array = nb::steal(PyMemoryView_FromObject(object));
  if (!array.is_valid()) nb::raise_python_error();
  std::shared_ptr<const void> elements(static_cast<const void*>(view->view.buf),
                                       [held = array.release().ptr()](const void*) { release_anywhere(held); });
  view.reset();
  return share_memory(std::move(elements), shape, format.dtype);
}

// What a view of our memory needs while others have it.
struct Exported {
  std::shared_ptr<const void> memory;
  std::vector<Py_ssize_t> shape, strides;
};

std::vector<Py_ssize_t> strides_of(const std::vector<Py_ssize_t>& shape, Py_ssize_t size) {
  std::vector<Py_ssize_t> strides(shape.size());
  for (size_t i = shape.size(); i-- > 0; size *= std::max<Py_ssize_t>(shape[i], 1)) strides[i] = size;
  return strides;
}

// `what` is the call that needs the values.
std::shared_ptr<const void> memory_of(const char* what, const Tensor& tensor) {
  std::source_location here = std::source_location::current();  // the place finder knows better
  refuse_in_capture(what, tensor, &here);
  release_late();
  if (tensor.is_realized()) return host_memory(tensor);
  Unlocked unlocked;
  return host_memory(tensor);
}

}  // namespace

int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  view->obj = nullptr;
  try {
    const Tensor& tensor = tensor_of(self);
    const char* format = format_text(tensor.dtype());
    if (!format) {
      PyErr_Format(PyExc_BufferError, "buffers have no elements of dtype %s; cast the tensor first",
                   name(tensor.dtype()));
      return -1;
    }
    if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && tensor.rank() > 1) {
      PyErr_SetString(PyExc_BufferError, "the memory of a tensor is in row-major order");
      return -1;
    }
    if (flags & PyBUF_WRITABLE) {
      PyErr_SetString(PyExc_BufferError, "the memory of a tensor is read-only");
      return -1;
    }
    auto exported = std::make_unique<Exported>();
    exported->memory = memory_of("reading the memory", tensor);
    for (int64_t size : tensor.shape()) exported->shape.push_back(size);
    Py_ssize_t bytes = size_of(tensor.dtype());
    exported->strides = strides_of(exported->shape, bytes);
    static char nothing;
    view->buf = exported->memory ? const_cast<void*>(exported->memory.get()) : &nothing;
    view->itemsize = bytes;
    view->len = bytes;
    for (Py_ssize_t size : exported->shape) view->len *= size;
    view->readonly = 1;
    view->ndim = static_cast<int>(exported->shape.size());
    view->format = flags & PyBUF_FORMAT ? const_cast<char*>(format) : nullptr;
    view->shape = flags & PyBUF_ND ? exported->shape.data() : nullptr;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? exported->strides.data() : nullptr;
    view->suboffsets = nullptr;
    view->internal = exported.release();
    view->obj = Py_NewRef(self);
    return 0;
  } catch (...) {
    set_error();
    return -1;
  }
}

void release_buffer(PyObject*, Py_buffer* view) noexcept { delete static_cast<Exported*>(view->internal); }

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
constexpr int32_t kDlCpu = 1, kDlPinned = 3;
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
template <class Managed>
nb::object export_capsule(const Tensor& tensor, bool copied) {
  auto exported = std::make_unique<DlExport<Managed>>();
  exported->memory = memory_of("__dlpack__()", tensor);
  if (copied) {
    size_t bytes = static_cast<size_t>(tensor.numel()) * static_cast<size_t>(size_of(tensor.dtype()));
    std::shared_ptr<std::byte[]> copy(new std::byte[bytes + 1]);
    std::memcpy(copy.get(), exported->memory.get(), bytes);
    exported->memory = copy;
  }
  exported->shape = tensor.shape();
  exported->strides.resize(exported->shape.size());
  int64_t step = 1;
  for (size_t i = exported->shape.size(); i-- > 0; step *= exported->shape[i]) exported->strides[i] = step;
  Managed& managed = exported->managed;
  managed.tensor = {const_cast<void*>(exported->memory.get()),
                    {kDlCpu, 0},
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

// Without the last arguments of newer versions the memory cannot be marked as read-only; it is the same memory still.
nb::object dlpack(const Tensor& tensor, PyObject* stream, PyObject* max_version, PyObject* device, PyObject* copy) {
  if (stream != Py_None && !(PyLong_Check(stream) && PyLong_AsLong(stream) == -1))
    throw ValueError("__dlpack__: there are no streams on a CPU");
  if (device != Py_None) {
    std::vector<int64_t> wanted = to_ints(device);
    if (wanted.size() != 2 || wanted[0] != kDlCpu) {
      PyErr_SetString(PyExc_BufferError, "__dlpack__: the memory is that of the CPU");
      nb::raise_python_error();
    }
  }
  bool copied = copy != Py_None && to_bool(copy);
  bool versioned = false;
  if (max_version != Py_None) {
    const std::vector<int64_t> version = to_ints(max_version);
    if (version.size() != 2) throw ValueError("__dlpack__: max_version is a pair of numbers");
    versioned = version[0] >= 1;
  }
  return versioned ? export_capsule<DLManagedTensorVersioned>(tensor, copied)
                   : export_capsule<DLManagedTensor>(tensor, copied);
}

template <class Managed>
Tensor take_capsule(PyObject* capsule, const char* name, const char* used, bool copy) {
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
  if (t.device.type != kDlCpu && t.device.type != kDlPinned)
    throw DeviceError(text("from_dlpack: memory of a device of DLPack's kind ", t.device.type, "; copy it to the CPU"));
  DType dtype = dtype_of(t.dtype);
  Dims shape(std::vector<int64_t>(t.shape, t.shape + t.rank));
  const auto* data = static_cast<const std::byte*>(t.data) + t.byte_offset;
  int64_t step = 1;
  bool dense = true;
  for (size_t i = shape.size(); i-- > 0; step *= shape[i])
    dense = dense && (!t.strides || shape[i] <= 1 || t.strides[i] == step);
  if (dense && copy) return from_memory(data, shape, dtype);
  if (dense) {
    // The producer's deleter may be Python code: it gets a capsule that is let go of under the interpreter's lock.
    auto* keep = new std::shared_ptr<Managed>(std::move(held));
    PyObject* holder = PyCapsule_New(keep, "heddle.memory", [](PyObject* object) {
      delete static_cast<std::shared_ptr<Managed>*>(PyCapsule_GetPointer(object, "heddle.memory"));
    });
    if (!holder) nb::raise_python_error();
    std::shared_ptr<const void> elements(static_cast<const void*>(data),
                                         [holder](const void*) { release_anywhere(holder); });
    return share_memory(std::move(elements), shape, dtype);
  }
  auto size = static_cast<size_t>(size_of(dtype));
  std::vector<int64_t> strides(t.strides, t.strides + t.rank);
  for (int64_t& stride : strides) stride *= static_cast<int64_t>(size);
  std::vector<std::byte> bytes(static_cast<size_t>(std::max<int64_t>(step, 0)) * size + 1);
  copy_strided(data, bytes.data(), shape, strides, size);
  return from_memory(bytes.data(), shape, dtype);
}

nb::object list_of(const std::byte* data, DType dtype, std::span<const int64_t> shape, int64_t step) {
  if (shape.empty()) {
    Scalar value = load_scalar(data, 0, dtype);
    if (dtype == kBool) return nb::bool_(value.as_bool());
    if (is_float(dtype)) return nb::float_(value.as_double());
    if (is_signed(dtype)) return nb::steal(PyLong_FromLongLong(value.as_int()));
    return nb::steal(PyLong_FromUnsignedLongLong(value.bits()));
  }
  nb::object result = nb::steal(PyList_New(shape[0]));
  if (!result.is_valid()) nb::raise_python_error();
  int64_t part = shape[0] > 0 ? step / shape[0] : 0;
  for (int64_t i = 0; i < shape[0]; ++i) {
    nb::object element = list_of(data + i * part * size_of(dtype), dtype, shape.subspan(1), part);
    PyList_SetItem(result.ptr(), i, element.release().ptr());
  }
  return result;
}

nb::object tolist(const Tensor& tensor) {
  std::shared_ptr<const void> memory = memory_of("tolist()", tensor);
  Dims shape = tensor.shape();
  return list_of(static_cast<const std::byte*>(memory.get()), tensor.dtype(), shape, tensor.numel());
}
nb::object item(const Tensor& tensor) {
  if (tensor.numel() != 1)
    throw ShapeError(text("item: a tensor of shape ", tensor.shape(), " has ", tensor.numel(), " elements, not one"));
  std::shared_ptr<const void> memory = memory_of("item()", tensor);
  return list_of(static_cast<const std::byte*>(memory.get()), tensor.dtype(), {}, 1);
}

// numpy.asarray, once it is wanted.
nb::handle asarray() {
  static PyObject* function = nb::object(nb::module_::import_("numpy").attr("asarray")).release().ptr();
  return function;
}
nb::object numpy(PyObject* self) {
  const Tensor& tensor = tensor_of(self);
  if (!format_text(tensor.dtype()))
    throw DTypeError(text("numpy: NumPy has no elements of dtype ", tensor.dtype(), "; cast the tensor first"));
  memory_of("numpy()", tensor);  // errors of the computation are better than those of a buffer
  return asarray()(nb::handle(self));
}
nb::object array(PyObject* self, PyObject* dtype, PyObject* copy) {
  nb::object result = numpy(self);
  bool other =
      dtype != Py_None && !result.attr("dtype").equal(nb::module_::import_("numpy").attr("dtype")(nb::handle(dtype)));
  if (other) {
    if (copy == Py_False) throw ValueError("__array__: another dtype needs a copy");
    return result.attr("astype")(nb::handle(dtype));
  }
  return copy == Py_True ? nb::object(result.attr("copy")()) : result;
}

nb::object bytes_of(const Tensor& tensor) {
  std::shared_ptr<const void> memory = memory_of("reading the memory", tensor);
  auto count = static_cast<Py_ssize_t>(tensor.numel() * size_of(tensor.dtype()));
  return nb::steal(PyBytes_FromStringAndSize(static_cast<const char*>(memory.get()), count));
}
Tensor from_bytes(PyObject* object, const Dims& shape, DType dtype) {
  BufferView memory(object);
  int64_t count = size_of(dtype);
  for (int64_t size : shape) count *= size;
  if (!PyBuffer_IsContiguous(&memory.view, 'C') || memory.view.len != count)
    throw ShapeError(text("from_bytes: ", memory.view.len, " bytes do not fill shape ", shape, " of ", dtype));
  return from_memory(memory.view.buf, shape, dtype);
}

}  // namespace

Tensor from_dlpack(PyObject* object, bool copy) {
  release_late();
  nb::object capsule;
  if (PyCapsule_CheckExact(object)) {
    capsule = nb::borrow(object);
  } else {
    if (!nb::hasattr(object, "__dlpack__"))
      throw ArgumentTypeError("expected an object with __dlpack__, not " + type_name(object));
    nb::handle given(object);
    try {
      capsule = given.attr("__dlpack__")(nb::arg("max_version") = nb::make_tuple(1, 0));
    } catch (nb::python_error& e) {
      if (!e.matches(PyExc_TypeError)) throw;
      capsule = given.attr("__dlpack__")();
    }
  }
  if (PyCapsule_IsValid(capsule.ptr(), kVersionedName))
    return take_capsule<DLManagedTensorVersioned>(capsule.ptr(), kVersionedName, "used_dltensor_versioned", copy);
  if (PyCapsule_IsValid(capsule.ptr(), kPlainName))
    return take_capsule<DLManagedTensor>(capsule.ptr(), kPlainName, "used_dltensor", copy);
  throw ArgumentTypeError("expected a capsule of DLPack that nobody has used");
}

void bind_interop(nb::module_& module) {
  using enum Row::Kind;
  static constexpr Row rows[] = {
      {"from_numpy(x)", call<from_numpy>, Function},
      {"from_dlpack(x)", call<[](PyObject* x) { return from_dlpack(x, false); }>, Function},
      {"_from_bytes(data, shape, dtype)", call<from_bytes>, Function},
      {"_bytes(x)", call<bytes_of>, Method},
      {"__dlpack__(x, stream=None, max_version=None, dl_device=None, copy=None)", call<dlpack>, Method},
      {"__dlpack_device__(x)", call<[](const Tensor&) -> nb::object { return nb::make_tuple(kDlCpu, 0); }>, Method},
      {"tolist(x)", call<tolist>, Method},
      {"item(x)", call<item>, Method},
      {"numpy(x)", call<numpy>, Method},
      {"__array__(x, dtype=None, copy=None)", call<array>, Method},
  };
  add_functions(module, rows);
}

}  // namespace heddle::python
