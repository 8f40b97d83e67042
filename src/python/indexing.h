// x[...] and x[...] = value.
#pragma once

#include "python/convert.h"

namespace heddle::python {

PyObject* get_item(PyObject* self, PyObject* key) noexcept;
int set_item(PyObject* self, PyObject* key, PyObject* value) noexcept;

}  // namespace heddle::python
