// Python objects as what operators take, and back. Whatever throws here becomes a Python exception (errors.h).
#pragma once

#include <heddle/ops.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>
#include <utility>
#include <vector>

namespace heddle::python {

namespace nb = nanobind;

// An argument of a type that nothing can be done with: Python's TypeError.
class ArgumentTypeError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The class heddle.Tensor.
extern PyTypeObject* tensor_type;

bool is_tensor(PyObject* object);
// ArgumentTypeError if it is none, or was never given a value.
Tensor& tensor_of(PyObject* object);
// Whether results are constants for gradients: no_grad() of the calling thread.
extern constinit thread_local bool without_gradients;
// A new reference.
PyObject* wrap(const Tensor& tensor);
// To the tensor itself, whatever the calling thread thinks of gradients.
PyObject* wrap_handle(const Tensor& tensor);
inline nb::object to_object(const Tensor& tensor) { return nb::steal(wrap(tensor)); }

// A tensor, a number, nested lists of these, or memory: buffers, DLPack, __array__. Without a dtype numbers become
// f32, i64 or bool.
Tensor to_tensor(PyObject* object, std::optional<DType> dtype = {});
// The same if it is a tensor or memory; nothing for numbers, lists and the rest.
std::optional<Tensor> to_tensor_if_array(PyObject* object);
// A device by its name; None: nothing.
std::optional<Device> to_device(PyObject* name);
// Whether it is memory that nobody changes: bytes, and NumPy's scalars.
bool is_constant(PyObject* object);
// Always copies.
Tensor from_buffer(PyObject* object);
// Shares memory where that is possible, unless a copy is wanted.
Tensor from_dlpack(PyObject* object, bool copy);

// dtype objects, their names, Python's bool, int and float, and NumPy's dtypes and scalar classes.
DType to_dtype(PyObject* object);
// A new reference to the object that heddle.float32 and the like name.
PyObject* wrap(DType dtype);

// Whether it is one integer, not a sequence of them.
bool is_index(PyObject* object);
int64_t to_int(PyObject* object);
double to_double(PyObject* object);
bool to_bool(PyObject* object);
std::string to_text(PyObject* object);
// An integer or a sequence of them.
std::vector<int64_t> to_ints(PyObject* object);

// A tensor or a number. Keeps what was converted alive. Lists and arrays go to the device of the tensor `beside` them.
class PyOperand {
 public:
  explicit PyOperand(PyObject* object, PyObject* beside = nullptr);
  PyOperand(const PyOperand&) = delete;
  PyOperand& operator=(const PyOperand&) = delete;
  operator const Operand&() const { return *operand_; }

 private:
  std::optional<Tensor> own_;
  std::optional<Operand> operand_;
};
// Whether an operator of Python may be tried with it.
bool is_operand(PyObject* object);

// Lets go of an object, now or, on a thread without the interpreter's lock, soon.
void release_anywhere(PyObject* object);

// Lets go of what others released on threads without that lock.
void release_late();

// Gives the interpreter's lock away while it lives. A thread that wants it back once prepare_end() was called never
// goes on: Python would unwind it, which C++ code does not survive.
class Unlocked {
 public:
  Unlocked();
  ~Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};
// Before the interpreter ends: lets threads that wait for its lock have it.
void prepare_end();

// What a list, tuple or other sequence holds, whatever becomes of it meanwhile.
std::vector<nb::object> elements_of(PyObject* sequence);

// "int", "heddle.Tensor": for messages.
std::string type_name(PyObject* object);

}  // namespace heddle::python
