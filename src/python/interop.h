// Memory of tensors for Python's buffer protocol.
#pragma once

#include "python/convert.h"

namespace heddle::python {

int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept;
void release_buffer(PyObject* self, Py_buffer* view) noexcept;

}  // namespace heddle::python
