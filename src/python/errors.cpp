#include "python/errors.h"

#include <heddle/error.h>
#include <heddle/interrupt.h>

#include "python/convert.h"
#include "python/interrupt.h"

namespace heddle::python {
namespace {

PyObject *error, *shape_error, *dtype_error, *index_error, *value_error, *capture_error, *parse_error, *out_of_memory,
    *device_error, *compile_error, *internal_error;

// Derives from heddle.Error and from the class of Python's that people catch.
PyObject* make(nb::module_& module, const char* name, PyObject* base, PyObject* python, const char* text) {
  std::string path = std::string("heddle.") + name;
  nb::object bases = base ? nb::make_tuple(nb::handle(base), nb::handle(python)) : nb::borrow(python);
  PyObject* type = PyErr_NewExceptionWithDoc(path.c_str(), text, bases.ptr(), nullptr);
  if (!type) nb::raise_python_error();
  module.attr(name) = nb::handle(type);
  return type;
}

void translate(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (nb::python_error& e) {
    e.restore();
  } catch (nb::builtin_exception& e) {
    PyErr_SetString(e.type() == nb::exception_type::type_error ? PyExc_TypeError : PyExc_ValueError, e.what());
  } catch (const ArgumentTypeError& e) {
    PyErr_SetString(PyExc_TypeError, e.what());
  } catch (const ShapeError& e) {
    PyErr_SetString(shape_error, e.what());
  } catch (const DTypeError& e) {
    PyErr_SetString(dtype_error, e.what());
  } catch (const IndexError& e) {
    PyErr_SetString(index_error, e.what());
  } catch (const ValueError& e) {
    PyErr_SetString(value_error, e.what());
  } catch (const CaptureError& e) {
    PyErr_SetString(capture_error, e.what());
  } catch (const ParseError& e) {
    PyErr_SetString(parse_error, e.what());
  } catch (const OutOfMemory& e) {
    PyErr_SetString(out_of_memory, e.what());
  } catch (const DeviceError& e) {
    PyErr_SetString(device_error, e.what());
  } catch (const CompileError& e) {
    PyErr_SetString(compile_error, e.what());
  } catch (const InternalError& e) {
    PyErr_SetString(internal_error, e.what());
  } catch (const Interrupted&) {
    set_interrupted();
  } catch (const Error& e) {
    PyErr_SetString(error, e.what());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::overflow_error& e) {
    PyErr_SetString(PyExc_OverflowError, e.what());
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
}

}  // namespace

void bind_errors(nb::module_& module) {
  error = make(module, "Error", nullptr, PyExc_Exception, "What all errors of Heddle derive from.");
  shape_error = make(module, "ShapeError", error, PyExc_ValueError, "Shapes or axes that do not fit.");
  dtype_error = make(module, "DTypeError", error, PyExc_TypeError, "A dtype that an operator has no meaning for.");
  index_error = make(module, "IndexError", error, PyExc_IndexError, "An index out of range.");
  value_error =
      make(module, "ValueError", error, PyExc_ValueError, "An argument of the right type with a value that is not.");
  capture_error = make(module, "CaptureError", error, PyExc_RuntimeError,
                       "Something that a captured function cannot do, such as looking at a value.");
  parse_error = make(module, "ParseError", error, PyExc_ValueError, "A file that is damaged or of another format.");
  out_of_memory = make(module, "OutOfMemory", error, PyExc_MemoryError, "A device has no room for what was asked.");
  device_error = make(module, "DeviceError", error, PyExc_RuntimeError, "A device that is not there, or that failed.");
  compile_error = make(module, "CompileError", error, PyExc_RuntimeError, "A kernel that could not be compiled.");
  internal_error =
      make(module, "InternalError", error, PyExc_RuntimeError, "A mistake of Heddle's own: please report it.");
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error&) {
      translate(thrown);
    } catch (const ArgumentTypeError&) {
      translate(thrown);
    }
  });
}

PyObject* set_error() noexcept {
  translate(std::current_exception());
  return nullptr;
}

}  // namespace heddle::python
