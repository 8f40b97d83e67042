// Exceptions of C++ as those of Python.
#pragma once

#include <nanobind/nanobind.h>

namespace heddle::python {

// Makes heddle.Error and those that derive from it, and tells nanobind.
void bind_errors(nanobind::module_& module);

// From a catch block: sets Python's error for what was thrown. Gives null, for `return set_error();`.
PyObject* set_error() noexcept;

}  // namespace heddle::python
