// Gradients and the like, of functions from lists of tensors to lists of tensors. python/heddle/transforms.py makes
// them functions of anything.
#include <heddle/control.h>
#include <heddle/grad.h>
#include <heddle/vmap.h>

#include "base/error.h"
#include "python/bind.h"
#include "python/function.h"

namespace heddle::python {
namespace {

nb::object list_of(const TensorList& tensors) { return nb::steal(wrap(tensors)); }
TensorList tensors_in(nb::handle list) { return Held<TensorList>(list.ptr()).get(); }

// The function must not outlive the call that it is given to.
ListFunction listed(nb::handle f) {
  return [f](const TensorList& x) { return tensors_in(f(list_of(x))); };
}

nb::object differentiated(const std::string& op, PyObject* f, const TensorList& x) {
  heddle::detail::ValueAndGradient result = heddle::detail::differentiate(op.c_str(), listed(f), x);
  return nb::make_tuple(to_object(result.value), list_of(result.gradients));
}
nb::object pushed(PyObject* f, const TensorList& x, const TensorList& tangents) {
  heddle::detail::ValuesAndTangents result = heddle::detail::push_forward(listed(f), x, tangents);
  return nb::make_tuple(list_of(result.values), list_of(result.tangents));
}
TensorList again(PyObject* f, const TensorList& x) { return heddle::detail::checkpointed(listed(f), x); }
TensorList vectorised(PyObject* f, const TensorList& x, PyObject* in_axes, int64_t out_axis) {
  std::vector<std::optional<int64_t>> axes;
  for (nb::handle axis : nb::iter(in_axes))
    axes.push_back(axis.is_none() ? std::nullopt : std::optional(to_int(axis.ptr())));
  return heddle::detail::mapped(listed(f), x, axes, out_axis);
}
TensorList gradients(const Tensor& output, const TensorList& inputs, bool allow_unused,
                     const std::optional<Tensor>& cotangent) {
  return grad(output, inputs, {.allow_unused = allow_unused, .cotangent = cotangent});
}
TensorList chosen(const Tensor& predicate, PyObject* then, PyObject* otherwise, const TensorList& operands) {
  return heddle::detail::conditional(predicate, listed(then), listed(otherwise), operands);
}
TensorList looped(PyObject* condition, PyObject* body, const TensorList& carry) {
  auto holds = [condition](const TensorList& x) { return to_tensor(nb::handle(condition)(list_of(x)).ptr()); };
  return heddle::detail::loop_while(holds, listed(body), carry);
}
// `body` gives a list of carried values and one of outputs.
nb::object scanned(const std::string& op, PyObject* body, const TensorList& carry, const TensorList& inputs,
                   bool reverse, const std::optional<int64_t>& length, int64_t recompute_every) {
  auto round = [body](const TensorList& now, const TensorList& slices) -> heddle::detail::Round {
    nb::tuple both = nb::cast<nb::tuple>(nb::handle(body)(list_of(now), list_of(slices)));
    return {tensors_in(both[0]), tensors_in(both[1])};
  };
  heddle::detail::Round all = heddle::detail::scanned(
      op.c_str(), round, carry, inputs, {.reverse = reverse, .length = length, .recompute_every = recompute_every});
  return nb::make_tuple(list_of(all.carry), list_of(all.outputs));
}
std::function<Tensor(const Tensor&)> single(nb::handle f) {
  return [f](const Tensor& x) { return to_tensor(f(to_object(x)).ptr()); };
}
Tensor all_derivatives(PyObject* f, const Tensor& x) { return jacobian(single(f), x); }
Tensor all_second_derivatives(PyObject* f, const Tensor& x) { return hessian(single(f), x); }

// The functions are kept by the graph, which may end on any thread.
std::shared_ptr<PyObject> kept(PyObject* object) {
  return {Py_NewRef(object), [](PyObject* o) { release_anywhere(o); }};
}
Tensor with_own_gradient(PyObject* forward, PyObject* backward, const TensorList& x) {
  std::shared_ptr<PyObject> f = kept(forward), b = kept(backward);
  auto run_forward = [f](const TensorList& inputs) {
    nb::gil_scoped_acquire locked;
    return to_tensor(nb::handle(f.get())(list_of(inputs)).ptr());
  };
  auto run_backward = [b](const TensorList& inputs, const Tensor& output, const Tensor& gradient) {
    nb::gil_scoped_acquire locked;
    return tensors_in(nb::handle(b.get())(list_of(inputs), to_object(output), to_object(gradient)));
  };
  return custom_vjp(run_forward, run_backward)(x);
}

}  // namespace

void bind_transforms(nb::module_& module) {
  nb::class_<heddle::detail::Recorded>(module, "_Recorded")
      .def_prop_ro("values", [](const heddle::detail::Recorded& self) { return list_of(self.values); })
      .def("pull_back", [](const heddle::detail::Recorded& self, nb::handle cotangents) {
        return list_of(heddle::detail::pull_back(self, tensors_in(cotangents)));
      });
  module.def("_record", [](nb::handle f, nb::handle x) { return heddle::detail::record(listed(f), tensors_in(x)); });
  module.def("_set_grad_enabled", [](bool enabled) { return !std::exchange(without_gradients, !enabled); });
  module.def(
      "is_grad_enabled", [] { return !without_gradients; },
      R"(Whether what operators give leads gradients on: not inside of no_grad().

>>> with hd.no_grad():
...     hd.is_grad_enabled()
False)");
  using enum Row::Kind;
  static constexpr Row rows[] = {
      {"_differentiate(op, f, x)", call<differentiated>, Function},
      {"_push_forward(f, x, tangents)", call<pushed>, Function},
      {"_checkpointed(f, x)", call<again>, Function},
      {"_mapped(f, x, in_axes, out_axis)", call<vectorised>, Function},
      {"_conditional(predicate, then, otherwise, operands)", call<chosen>, Function},
      {"_while(condition, body, carry)", call<looped>, Function},
      {"_scanned(op, body, carry, inputs, reverse=False, length=None, recompute_every=0)", call<scanned>, Function},
      {"_gradients(output, inputs, allow_unused=False, cotangent=None)", call<gradients>, Function},
      {"_custom_vjp(forward, backward, x)", call<with_own_gradient>, Function},
      {"jacobian(f, x)", call<all_derivatives>, Function},
      {"hessian(f, x)", call<all_second_derivatives>, Function},
  };
  add_functions(module, rows);
}

}  // namespace heddle::python
