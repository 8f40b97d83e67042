// Tensors made of nothing, of numbers and of memory.
#include "base/error.h"
#include "python/bind.h"
#include "python/function.h"

namespace heddle::python {
namespace {

Tensor asked(const Tensor& x, bool requires_grad) { return requires_grad ? x.requires_grad_() : x; }

// Always a tensor of its own.
Tensor new_tensor(PyObject* data, const std::optional<DType>& dtype, bool requires_grad) {
  Tensor made = to_tensor(data, dtype);
  return asked(is_tensor(data) ? made.detach().clone() : made, requires_grad);
}
nb::object as_tensor(PyObject* data, const std::optional<DType>& dtype) {
  if (is_tensor(data) && (!dtype || *dtype == tensor_of(data).dtype())) return nb::borrow(data);
  return to_object(to_tensor(data, dtype));
}

template <Tensor (*F)(const Dims&, DType)>
Tensor shaped(const Dims& shape, DType dtype, bool requires_grad) {
  return asked(F(shape, dtype), requires_grad);
}
Operand number_of(PyObject* object) {
  if (PyFloat_Check(object)) return to_double(object);
  if (PyIndex_Check(object)) return to_int(object);
  return to_double(object);
}
Tensor filled(const Dims& shape, PyObject* value, const std::optional<DType>& dtype, bool requires_grad) {
  if (is_tensor(value)) {
    Tensor made = expand(dtype ? cast(tensor_of(value), *dtype) : tensor_of(value), shape);
    return asked(made, requires_grad);
  }
  if (is_constant(value)) {  // a scalar of NumPy's
    const std::optional<Tensor> one = to_tensor_if_array(value);
    if (one && one->rank() == 0) return asked(expand(dtype ? cast(*one, *dtype) : *one, shape), requires_grad);
  }
  DType natural = PyFloat_Check(value) ? kF32 : PyBool_Check(value) ? kBool : kI64;
  if (PyFloat_Check(value) || PyLong_Check(value))
    return asked(full(shape, PyOperand(value), dtype.value_or(natural)), requires_grad);
  return asked(full(shape, number_of(value), dtype.value_or(PyIndex_Check(value) ? kI64 : kF32)), requires_grad);
}

Tensor range(PyObject* start, PyObject* stop, PyObject* step, const std::optional<DType>& dtype) {
  if (stop == Py_None) return arange(0, number_of(start), number_of(step), dtype);
  return arange(number_of(start), number_of(stop), number_of(step), dtype);
}
Tensor identity(int64_t n, std::optional<int64_t> m, int64_t k, DType dtype) { return eye(n, m.value_or(n), k, dtype); }
Tensor triangle(int64_t n, std::optional<int64_t> m, int64_t k, DType dtype) { return tri(n, m.value_or(n), k, dtype); }

Tensor even_steps(double start, double stop, int64_t num, bool endpoint, DType dtype) {
  return linspace(start, stop, num, endpoint, dtype);
}
Tensor log_steps(double start, double stop, int64_t num, bool endpoint, double base, DType dtype) {
  return logspace(start, stop, num, endpoint, base, dtype);
}

}  // namespace

void bind_creation(nb::module_& module) {
  using enum Row::Kind;
  static constexpr Row rows[] = {
      {"tensor(data, dtype=None, requires_grad=False)", call<new_tensor>, Function},
      {"asarray(data, dtype=None)", call<as_tensor>, Function},
      {"as_tensor(data, dtype=None)", call<as_tensor>, Function},
      {"zeros(*shape, dtype='float32', requires_grad=False)", call<shaped<zeros>>, Function},
      {"ones(*shape, dtype='float32', requires_grad=False)", call<shaped<ones>>, Function},
      {"empty(*shape, dtype='float32', requires_grad=False)", call<shaped<empty>>, Function},
      {"full(shape, fill_value, dtype=None, requires_grad=False)", call<filled>, Function},
      {"full_like(x, fill_value, dtype=None)", call<full_like>, Function},
      {"zeros_like(x, dtype=None)", call<zeros_like>, Function},
      {"ones_like(x, dtype=None)", call<ones_like>, Function},
      {"empty_like(x, dtype=None)", call<empty_like>, Function},
      {"arange(start, stop=None, step=1, dtype=None)", call<range>, Function},
      {"linspace(start, stop, num=50, endpoint=True, dtype='float32')", call<even_steps>, Function},
      {"logspace(start, stop, num=50, endpoint=True, base=10.0, dtype='float32')", call<log_steps>, Function},
      {"eye(n, m=None, k=0, dtype='float32')", call<identity>, Function},
      {"tri(n, m=None, k=0, dtype='float32')", call<triangle>, Function},
  };
  add_functions(module, rows);
  add_alias(module, "array", "tensor");
}

}  // namespace heddle::python
