// The parts of the module, one for each file.
#pragma once

#include <nanobind/nanobind.h>

namespace heddle::python {

void bind_dtypes(nanobind::module_& module);
void bind_tensor(nanobind::module_& module);
void bind_elementwise(nanobind::module_& module);
void bind_reductions(nanobind::module_& module);
void bind_shapes(nanobind::module_& module);
void bind_creation(nanobind::module_& module);
void bind_devices(nanobind::module_& module);
void bind_indexing(nanobind::module_& module);
void bind_random(nanobind::module_& module);
void bind_neural(nanobind::module_& module);
void bind_interop(nanobind::module_& module);
void bind_dlpack(nanobind::module_& module);
void bind_pytrees(nanobind::module_& module);
void bind_transforms(nanobind::module_& module);
void bind_jit(nanobind::module_& module);
void bind_kernels(nanobind::module_& module);
void bind_optim(nanobind::module_& module);
void bind_io(nanobind::module_& module);
void bind_interrupt(nanobind::module_& module);
void bind_training(nanobind::module_& module);
void bind_models(nanobind::module_& module);
void bind_inspect(nanobind::module_& module);

}  // namespace heddle::python
