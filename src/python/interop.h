// Memory of tensors for others.
#pragma once

#include "python/convert.h"

namespace heddle::python {

// On the host, computed if need be. `what` is the call that needs the values.
std::shared_ptr<const void> memory_of(const char* what, const Tensor& tensor);

// Python's buffer protocol.
int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept;
void release_buffer(PyObject* self, Py_buffer* view) noexcept;

}  // namespace heddle::python
