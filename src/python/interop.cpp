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

Dims shape_of(const Py_buffer& view) {
  Dims shape;
  for (int i = 0; i < view.ndim; ++i) shape.push_back(view.shape[i]);
  return shape;
}

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

}  // namespace

std::shared_ptr<const void> memory_of(const char* what, const Tensor& tensor) {
  std::source_location here = std::source_location::current();  // the place finder knows better
  refuse_in_capture(what, tensor, &here);
  release_late();
  if (tensor.is_realized()) return host_memory(tensor);
  Unlocked unlocked;
  return host_memory(tensor);
}

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

void bind_interop(nb::module_& module) {
  using enum Row::Kind;
  static constexpr Row rows[] = {
      {"from_numpy(x)", call<from_numpy>, Function},
      {"_from_bytes(data, shape, dtype)", call<from_bytes>, Function},
      {"_bytes(x)", call<bytes_of>, Method},
      {"tolist(x)", call<tolist>, Method},
      {"item(x)", call<item>, Method},
      {"numpy(x)", call<numpy>, Method},
      {"__array__(x, dtype=None, copy=None)", call<array>, Method},
  };
  add_functions(module, rows);
}

}  // namespace heddle::python
