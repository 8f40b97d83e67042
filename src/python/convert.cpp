#include "python/convert.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "core/scalar.h"
#include "python/interrupt.h"
#include "runtime/device.h"
#include "tensor/build.h"

namespace heddle::python {

PyTypeObject* tensor_type = nullptr;
constinit thread_local bool without_gradients = false;

namespace {
bool is_list(PyObject* object) { return PyList_Check(object) || PyTuple_Check(object); }
}  // namespace

std::string type_name(PyObject* object) {
  nb::object name = nb::steal(PyType_GetQualName(Py_TYPE(object)));
  if (!name.is_valid()) PyErr_Clear();
  return name.is_valid() ? nb::cast<std::string>(name) : "?";
}

bool is_tensor(PyObject* object) {
  return Py_TYPE(object) == tensor_type || PyType_IsSubtype(Py_TYPE(object), tensor_type);
}
Tensor& tensor_of(PyObject* object) {
  if (!is_tensor(object)) throw ArgumentTypeError("expected a Tensor, not " + type_name(object));
  if (!nb::inst_ready(object)) throw ArgumentTypeError("a tensor whose __init__ was never called");
  return *nb::inst_ptr<Tensor>(object);
}
PyObject* wrap(const Tensor& given) {
  if (without_gradients && given.requires_grad()) [[unlikely]]
    return wrap_handle(given.detach());
  return wrap_handle(given);
}
PyObject* wrap_handle(const Tensor& given) {
  nb::object made = nb::inst_alloc(reinterpret_cast<PyObject*>(tensor_type));
  new (nb::inst_ptr<void>(made)) Tensor(given);
  nb::inst_mark_ready(made);
  return made.release().ptr();
}

namespace {
std::atomic<bool> ending{false};
std::atomic<int> returning{0};  // threads that wait for the lock
const pid_t process = getpid();
}  // namespace

Unlocked::Unlocked() {
  begin_unlocked();
  state_ = PyEval_SaveThread();
}
Unlocked::~Unlocked() {
  end_unlocked();
  returning.fetch_add(1);
  // The first thread is the one that ends the interpreter, and needs the lock for that.
  if (ending.load() && syscall(SYS_gettid) != getpid()) {
    returning.fetch_sub(1);
    for (;;) pause();
  }
  PyEval_RestoreThread(state_);
  returning.fetch_sub(1);
}

void prepare_end() {
  if (getpid() != process) return;  // a child of fork() has one thread; the others are not there to be waited for
  ending.store(true);
  constexpr int kMostWaits = 2000;
  for (int waits = 0; returning.load() > 0 && waits < kMostWaits; ++waits) {
    PyThreadState* state = PyEval_SaveThread();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    PyEval_RestoreThread(state);
  }
}

std::vector<nb::object> elements_of(PyObject* sequence) {
  nb::object tuple = nb::steal(PySequence_Tuple(sequence));
  if (!tuple.is_valid()) nb::raise_python_error();
  std::vector<nb::object> result;
  const Py_ssize_t count = PyTuple_Size(tuple.ptr());
  for (Py_ssize_t i = 0; i < count; ++i) result.push_back(nb::borrow(PyTuple_GetItem(tuple.ptr(), i)));
  return result;
}

bool is_index(PyObject* object) {
  if (PyLong_Check(object)) return true;
  if (is_tensor(object)) return tensor_of(object).rank() == 0;
  if (!PyIndex_Check(object)) return false;
  // Arrays say so too, and mean those without axes.
  return !PySequence_Check(object) ||
         (nb::hasattr(object, "ndim") && nb::handle(object).attr("ndim").equal(nb::int_(0)));
}
int64_t to_int(PyObject* object) {
  if (!PyIndex_Check(object)) throw ArgumentTypeError("expected an integer, not " + type_name(object));
  nb::object index = nb::steal(PyNumber_Index(object));
  if (!index.is_valid()) nb::raise_python_error();
  long long value = PyLong_AsLongLong(index.ptr());
  if (value == -1 && PyErr_Occurred()) nb::raise_python_error();
  return value;
}
double to_double(PyObject* object) {
  if (PyFloat_CheckExact(object)) return PyFloat_AsDouble(object);
  if (PyUnicode_Check(object) || PyComplex_Check(object))
    throw ArgumentTypeError("expected a number, not " + type_name(object));
  double value = PyFloat_AsDouble(object);
  if (value == -1 && PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) nb::raise_python_error();
    PyErr_Clear();
    throw ArgumentTypeError("expected a number, not " + type_name(object));
  }
  return value;
}
bool to_bool(PyObject* object) {
  if (object == Py_True) return true;
  if (object == Py_False) return false;
  if (PyUnicode_Check(object) || PySequence_Check(object))
    throw ArgumentTypeError("expected True or False, not " + type_name(object));
  int truth = PyObject_IsTrue(object);
  if (truth < 0) nb::raise_python_error();
  return truth != 0;
}
std::string to_text(PyObject* object) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_Check(object) ? PyUnicode_AsUTF8AndSize(object, &size) : nullptr;
  if (!text) {
    PyErr_Clear();
    throw ArgumentTypeError("expected a text, not " + type_name(object));
  }
  return {text, static_cast<size_t>(size)};
}
std::vector<int64_t> to_ints(PyObject* object) {
  if (is_index(object)) return {to_int(object)};
  if (PyUnicode_Check(object) || !PySequence_Check(object))
    throw ArgumentTypeError("expected an integer or a sequence of integers, not " + type_name(object));
  std::vector<int64_t> result;
  const std::vector<nb::object> list = elements_of(object);
  for (const nb::object& element : list) {
    // One array of sizes among arguments that are gathered.
    bool array =
        list.size() == 1 && !is_index(element.ptr()) && !is_list(element.ptr()) && PySequence_Check(element.ptr());
    if (array) return to_ints(element.ptr());
    result.push_back(to_int(element.ptr()));
  }
  return result;
}

namespace {

// An integer that may be too large for i64, which u64 holds.
Operand integer_operand(PyObject* object) {
  int overflow = 0;
  long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (value == -1 && PyErr_Occurred()) nb::raise_python_error();
  if (overflow == 0) return static_cast<int64_t>(value);
  unsigned long long large = overflow > 0 ? PyLong_AsUnsignedLongLong(object) : 0;
  if (overflow < 0 || (large == ~0ull && PyErr_Occurred())) {
    PyErr_Clear();
    throw std::overflow_error("an integer of more than 64 bits");
  }
  return static_cast<uint64_t>(large);
}

// A number of Python's; nothing if it is something else.
std::optional<Operand> number(PyObject* object) {
  if (PyFloat_Check(object)) return PyFloat_AsDouble(object);
  if (PyBool_Check(object)) return object == Py_True;
  if (PyLong_Check(object)) return integer_operand(object);
  return {};
}

// Nested lists of numbers in one row, and what is among them.
struct Nested {
  Dims shape;
  std::vector<Operand> numbers;
  bool real = false, whole = false;
};
constexpr size_t kDeepest = 64;  // a list may contain itself

// False: there is something else than numbers in it.
bool read(PyObject* object, size_t depth, Nested& out) {
  if (!is_list(object)) {
    std::optional<Operand> value = number(object);
    if (!value) return false;
    if (depth != out.shape.size()) throw ShapeError("tensor: the nested lists have different lengths or depths");
    out.real |= value->kind() == Operand::Kind::Float;
    out.whole |= value->kind() == Operand::Kind::Integer;
    out.numbers.push_back(*value);
    return true;
  }
  const std::vector<nb::object> list = elements_of(object);
  if (depth >= out.shape.size() || std::ssize(list) != out.shape[depth])
    throw ShapeError("tensor: the nested lists have different lengths or depths");
  for (const nb::object& element : list)
    if (!read(element.ptr(), depth + 1, out)) return false;
  return true;
}

Tensor from_numbers(const Nested& nested, std::optional<DType> wanted) {
  DType dtype = wanted.value_or(nested.numbers.empty() || nested.real ? kF32 : nested.whole ? kI64 : kBool);
  if (!wanted && dtype == kI64)
    for (const Operand& value : nested.numbers)
      if (value.integer() < 0 && value.real() > 0) dtype = kU64;
  std::vector<std::byte> bytes(nested.numbers.size() * static_cast<size_t>(size_of(dtype)) + 1);
  for (size_t i = 0; i < nested.numbers.size(); ++i)
    store_scalar(bytes.data(), static_cast<int64_t>(i), number_scalar("tensor", nested.numbers[i], dtype));
  return Tensor(buffer_node(bytes.data(), dtype, to_shape("tensor", nested.shape, dtype)));
}

Tensor from_list(PyObject* object, std::optional<DType> dtype, size_t depth) {
  if (depth > kDeepest) throw ValueError("tensor: the lists are nested too deeply");
  Nested nested;
  nb::object at = nb::borrow(object);
  while (is_list(at.ptr()) && nested.shape.size() <= kDeepest) {
    const std::vector<nb::object> list = elements_of(at.ptr());
    nested.shape.push_back(std::ssize(list));
    if (list.empty()) break;
    at = list[0];
  }
  if (nested.shape.size() > kDeepest) throw ValueError("tensor: the lists are nested too deeply");
  if (read(object, 0, nested)) return from_numbers(nested, dtype);
  std::vector<Tensor> parts;
  for (const nb::object& element : elements_of(object)) {
    parts.push_back(is_list(element.ptr()) ? from_list(element.ptr(), dtype, depth + 1)
                                           : to_tensor(element.ptr(), dtype));
  }
  return stack(parts);
}

Tensor as(const Tensor& x, std::optional<DType> dtype) { return dtype && *dtype != x.dtype() ? cast(x, *dtype) : x; }

}  // namespace

std::optional<Device> to_device(PyObject* name) {
  if (name == Py_None) return {};
  return Device(to_text(name));
}

bool is_constant(PyObject* object) {
  return PyObject_CheckBuffer(object) && !nb::hasattr(nb::handle(object), "__setitem__") && !PyMemoryView_Check(object);
}

namespace {
// Types that have buffers may have objects without: an array of JAX on a GPU.
bool shows_bytes(PyObject* object) {
  Py_buffer view;
  if (PyObject_GetBuffer(object, &view, PyBUF_FULL_RO) != 0) {
    PyErr_Clear();
    return false;
  }
  PyBuffer_Release(&view);
  return true;
}
}  // namespace

std::optional<Tensor> to_tensor_if_array(PyObject* object) {
  if (is_tensor(object)) return tensor_of(object);
  if (PyUnicode_Check(object) || is_list(object) || PyFloat_CheckExact(object) || PyLong_CheckExact(object)) return {};
  const bool has_array = !PyType_Check(object) && nb::hasattr(object, "__array__");
  // NumPy's scalars show their bytes, whatever these mean.
  const bool has_dlpack = !PyType_Check(object) && nb::hasattr(object, "__dlpack__");
  if (PyObject_CheckBuffer(object) && !(has_array && is_constant(object))) {
    if (!has_dlpack || shows_bytes(object)) return from_buffer(object);
    try {
      return from_dlpack(object, true);
    } catch (nb::python_error&) {
      return from_buffer(object);  // says what is wrong
    }
  }
  if (PyType_Check(object)) return {};
  if (has_dlpack && !is_constant(object)) return from_dlpack(object, true);
  if (has_array) {
    nb::object array = nb::handle(object).attr("__array__")();
    if (PyObject_CheckBuffer(array.ptr())) return from_buffer(array.ptr());
  }
  return {};
}

Tensor to_tensor(PyObject* object, std::optional<DType> dtype) {
  if (is_tensor(object)) return as(tensor_of(object), dtype);
  if (std::optional<Operand> value = number(object)) {
    Nested nested;
    nested.real = value->kind() == Operand::Kind::Float;
    nested.whole = value->kind() == Operand::Kind::Integer;
    nested.numbers.push_back(*value);
    return from_numbers(nested, dtype);
  }
  if (is_list(object)) return from_list(object, dtype, 0);
  if (std::optional<Tensor> array = to_tensor_if_array(object)) return as(*array, dtype);
  if (PyRange_Check(object)) {
    nb::object list = nb::steal(PySequence_List(object));
    if (!list.is_valid()) nb::raise_python_error();
    return from_list(list.ptr(), dtype.value_or(kI64), 0);
  }
  throw ArgumentTypeError("expected a tensor, a number or nested lists of numbers, not " + type_name(object));
}

PyOperand::PyOperand(PyObject* object, PyObject* beside) {
  if (is_tensor(object)) {
    operand_.emplace(tensor_of(object));
  } else if (std::optional<Operand> value = number(object)) {
    operand_ = value;
  } else {
    std::optional<OnDeviceOf> there;
    if (beside && is_tensor(beside)) there.emplace(tensor_of(beside));
    own_ = to_tensor(object);
    operand_.emplace(*own_);
  }
}

bool is_operand(PyObject* object) {
  return is_tensor(object) || PyFloat_Check(object) || PyLong_Check(object) || PyObject_CheckBuffer(object) ||
         is_list(object);
}

}  // namespace heddle::python
