#include "python/bind.h"
#include "python/convert.h"
#include "python/errors.h"

NB_MODULE(_core, module) {
  using namespace heddle::python;
  module.attr("__version__") = HEDDLE_VERSION;
  nanobind::set_leak_warnings(false);  // dtypes and the like live as long as the process
  bind_errors(module);
  bind_interrupt(module);
  bind_dtypes(module);
  bind_tensor(module);
  bind_elementwise(module);
  bind_reductions(module);
  bind_shapes(module);
  bind_creation(module);
  bind_devices(module);
  bind_indexing(module);
  bind_random(module);
  bind_neural(module);
  bind_interop(module);
  bind_dlpack(module);
  bind_pytrees(module);
  bind_transforms(module);
  bind_jit(module);
  bind_kernels(module);
  bind_optim(module);
  bind_io(module);
  bind_training(module);
  bind_models(module);
  bind_inspect(module);
  nanobind::module_::import_("atexit").attr("register")(nanobind::cpp_function([] { prepare_end(); }));
}
