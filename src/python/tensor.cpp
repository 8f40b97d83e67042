// The class Tensor: Python's operators and protocols.
#include <heddle/dim.h>
#include <heddle/grad.h>
#include <heddle/jit.h>

#include <cstring>

#include "base/error.h"
#include "python/bind.h"
#include "python/errors.h"
#include "python/function.h"
#include "python/indexing.h"
#include "python/interop.h"

namespace heddle::python {
namespace {

template <class F>
PyObject* guarded(F f) noexcept {
  try {
    return f();
  } catch (...) {
    return set_error();
  }
}

using Binary = Tensor (*)(const Operand&, const Operand&);
template <Binary F>
PyObject* binary(PyObject* a, PyObject* b) noexcept {
  if (!is_operand(a) || !is_operand(b)) return Py_NewRef(Py_NotImplemented);
  return guarded([&] { return wrap(F(PyOperand(a, b), PyOperand(b, a))); });
}
// Gives the slot another value.
template <Binary F>
PyObject* in_place(PyObject* self, PyObject* other) noexcept {
  if (!is_operand(other)) return Py_NewRef(Py_NotImplemented);
  return guarded([&] {
    Tensor& tensor = tensor_of(self);
    tensor.assign(F(tensor, PyOperand(other, self)));
    return Py_NewRef(self);
  });
}
using Compound = Tensor& (Tensor::*)(const Operand&)&;
template <Compound F>
PyObject* compound(PyObject* self, PyObject* other) noexcept {
  if (!is_operand(other)) return Py_NewRef(Py_NotImplemented);
  return guarded([&] {
    (tensor_of(self).*F)(PyOperand(other, self));
    return Py_NewRef(self);
  });
}
Tensor product(const Operand& a, const Operand& b) {
  if (a.kind() != Operand::Kind::Tensor || b.kind() != Operand::Kind::Tensor)
    throw ArgumentTypeError("matmul: both operands must be tensors, not numbers");
  return matmul(a.tensor(), b.tensor());
}
PyObject* power(PyObject* a, PyObject* b, PyObject* modulus) noexcept {
  if (modulus != Py_None) return Py_NewRef(Py_NotImplemented);
  return binary<pow>(a, b);
}
PyObject* power_in_place(PyObject* a, PyObject* b, PyObject*) noexcept { return in_place<pow>(a, b); }
PyObject* both(PyObject* a, PyObject* b) noexcept {
  if (!is_operand(a) || !is_operand(b)) return Py_NewRef(Py_NotImplemented);
  return guarded([&] { return wrap(divmod(PyOperand(a, b), PyOperand(b, a))); });
}

using Unary = Tensor (*)(const Tensor&);
template <Unary F>
PyObject* unary(PyObject* self) noexcept {
  return guarded([&] { return wrap((+F)(tensor_of(self))); });
}
PyObject* itself(PyObject* self) noexcept {
  return guarded([&] { return wrap(tensor_of(self).clone()); });
}

PyObject* compare(PyObject* a, PyObject* b, int op) noexcept {
  if (!is_operand(b)) return Py_NewRef(Py_NotImplemented);
  switch (op) {
    case Py_EQ: return binary<eq>(a, b);
    case Py_NE: return binary<ne>(a, b);
    case Py_LT: return binary<lt>(a, b);
    case Py_LE: return binary<le>(a, b);
    case Py_GT: return binary<gt>(a, b);
    default: return binary<ge>(a, b);
  }
}
Py_hash_t hash(PyObject* self) noexcept { return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(self) >> 4); }

const Tensor& only_element(PyObject* self, const char* what) {
  const Tensor& tensor = tensor_of(self);
  if (tensor.numel() != 1)
    throw ValueError(text("the ", what, " of a tensor of shape ", tensor.shape(), " is ambiguous: it has ",
                          tensor.numel(), " elements, not one"));
  return tensor;
}
template <class T>
T element(const Tensor& tensor) {
  Unlocked unlocked;
  return tensor.item<T>();
}
int truth(PyObject* self) noexcept {
  try {
    return element<bool>(only_element(self, "truth"));
  } catch (...) {
    set_error();
    return -1;
  }
}
PyObject* as_float(PyObject* self) noexcept {
  return guarded([&] { return PyFloat_FromDouble(element<double>(only_element(self, "number"))); });
}
PyObject* as_int(PyObject* self) noexcept {
  return guarded([&]() -> PyObject* {
    const Tensor& tensor = only_element(self, "number");
    if (is_float(tensor.dtype())) return PyLong_FromDouble(element<double>(tensor));
    if (tensor.dtype() == kU64) return PyLong_FromUnsignedLongLong(element<uint64_t>(tensor));
    return PyLong_FromLongLong(element<int64_t>(tensor));
  });
}
PyObject* as_index(PyObject* self) noexcept {
  return guarded([&]() -> PyObject* {
    const Tensor& tensor = tensor_of(self);
    if (!is_integer(tensor.dtype()) || tensor.rank() != 0)
      throw ArgumentTypeError(
          text("only a tensor of integers without axes can be an index, not ", tensor.dtype(), tensor.shape()));
    return as_int(self);
  });
}

Py_ssize_t length(PyObject* self) noexcept {
  try {
    const Tensor& tensor = tensor_of(self);
    if (tensor.rank() == 0) throw ArgumentTypeError("len() of a tensor without axes");
    return tensor.size(0);
  } catch (...) {
    set_error();
    return -1;
  }
}
PyObject* row(PyObject* self, Py_ssize_t i) noexcept {
  return guarded([&] {
    const Tensor& tensor = tensor_of(self);
    if (tensor.rank() == 0) throw ArgumentTypeError("a tensor without axes cannot be walked over");
    return wrap(tensor[i]);
  });
}
PyObject* iterate(PyObject* self) noexcept {
  return guarded([&]() -> PyObject* {
    if (tensor_of(self).rank() == 0) throw ArgumentTypeError("a tensor without axes cannot be walked over");
    return PySeqIter_New(self);
  });
}

nb::object shape_tuple(const Tensor& tensor) {
  Dims shape = tensor.shape();
  nb::object result = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
  for (size_t i = 0; i < shape.size(); ++i)
    PyTuple_SetItem(result.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(shape[i]));
  return result;
}
template <auto F>
PyObject* get(PyObject* self, void*) noexcept {
  return guarded([&] { return wrap((+F)(tensor_of(self))); });
}
Tensor swapped(const Tensor& x) {
  Axes axes;
  for (int64_t i = x.rank(); i-- > 0;) axes.push_back(i);
  return permute(x, axes);
}
Tensor matrix_swapped(const Tensor& x) { return transpose(x); }
nb::object gradient(const Tensor& x) {
  std::optional<Tensor> found = x.grad();
  return found ? nb::steal(wrap_handle(*found)) : nb::none();
}
int set_requires_grad(PyObject* self, PyObject* value, void*) noexcept {
  try {
    if (!value) throw ArgumentTypeError("requires_grad cannot be deleted");
    tensor_of(self).requires_grad_(to_bool(value));
    return 0;
  } catch (...) {
    set_error();
    return -1;
  }
}
// `x.grad = None`, as zero_grad() does; another value for one that is there, as `x.grad *= 2` does.
int set_gradient(PyObject* self, PyObject* value, void*) noexcept {
  try {
    if (!value || value == Py_None) {
      tensor_of(self).zero_grad();
      return 0;
    }
    std::optional<Tensor> now = tensor_of(self).grad();
    if (!now || !is_tensor(value))
      throw ArgumentTypeError("a gradient is set by backward(); it can be changed, or set to None");
    if (&now->slot() != &tensor_of(value).slot()) now->assign(tensor_of(value));
    return 0;
  } catch (...) {
    set_error();
    return -1;
  }
}

PyGetSetDef attributes[] = {
    {"shape", get<shape_tuple>, nullptr, "Sizes of the axes.", nullptr},
    {"dtype", get<[](const Tensor& x) { return nb::steal(wrap(x.dtype())); }>, nullptr, "Type of the elements.",
     nullptr},
    {"ndim", get<[](const Tensor& x) -> nb::object { return nb::int_(x.rank()); }>, nullptr, "Number of axes.",
     nullptr},
    {"size", get<[](const Tensor& x) -> nb::object { return nb::int_(x.numel()); }>, nullptr, "Number of elements.",
     nullptr},
    {"itemsize", get<[](const Tensor& x) -> nb::object { return nb::int_(size_of(x.dtype())); }>, nullptr,
     "Bytes of one element.", nullptr},
    {"nbytes", get<[](const Tensor& x) -> nb::object { return nb::int_(x.numel() * size_of(x.dtype())); }>, nullptr,
     "Bytes of all elements.", nullptr},
    {"T", get<swapped>, nullptr, "With the axes in reverse order.", nullptr},
    {"mT", get<matrix_swapped>, nullptr, "With the last two axes exchanged.", nullptr},
    {"requires_grad", get<[](const Tensor& x) { return x.requires_grad(); }>, set_requires_grad,
     "Whether gradients flow to this tensor, or to one that it is computed from.", nullptr},
    {"is_leaf", get<[](const Tensor& x) { return x.is_leaf(); }>, nullptr,
     "Whether it asked for gradients itself, or needs none.", nullptr},
    {"grad", get<gradient>, set_gradient, "What backward() has added up; None before that.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

template <class F>
void* slot(F* function) {
  return reinterpret_cast<void*>(function);
}

nb::object printed(const Tensor& tensor) {
  std::string text;
  {
    Unlocked unlocked;
    text = to_string(tensor);
  }
  return nb::str(text.c_str(), text.size());
}
PyObject* as_text(PyObject* self) noexcept {
  return guarded([&] { return wrap(printed(tensor_of(self))); });
}
// Digits behind the point of the number that ends at `end`; -1 if it has no point.
int fraction_digits(const std::string& printed, size_t end) {
  size_t begin = printed.find_last_of(" [\n", end) + 1, point = printed.find('.', begin);
  if (point == std::string::npos || point > end || printed.compare(begin, 3, "...") == 0) return -1;
  size_t after = printed.find_first_not_of("0123456789", point + 1);
  return static_cast<int>(std::min(after, end + 1) - point - 1);
}
// With commas between elements, behind the blanks that fill a number up to the longest fraction, and room for what
// stands in front.
std::string as_program(const std::string& printed) {
  auto ends_number = [&](size_t i) {
    return !std::strchr("[] \n", printed[i]) && (i + 1 == printed.size() || std::strchr("] \n", printed[i + 1]));
  };
  int longest = 0;
  for (size_t i = 0; i < printed.size(); ++i)
    if (ends_number(i)) longest = std::max(longest, fraction_digits(printed, i));
  std::string result;
  size_t comma = std::string::npos;
  for (size_t i = 0; i < printed.size(); ++i) {
    result += printed[i];
    size_t next = printed.find_first_not_of(" \n", i + 1);
    bool gap = next != std::string::npos && next > i + 1;
    if (gap && !std::strchr("[ \n", printed[i]) && printed[next] != ']') {
      comma = i;
      int digits = ends_number(i) ? fraction_digits(printed, i) : -1;
      if (digits >= 0) comma += static_cast<size_t>(longest - digits);
      while (printed.find_first_of("\n", i + 1) <= comma) --comma;  // the end of a line has no such blanks
    }
    if (i == comma) result += ',';
    if (printed[i] == '\n' && printed[i + 1] != '\n') result += "       ";
  }
  return result;
}
// tensor([1., 2.], dtype=...): the dtype where the numbers do not say it.
PyObject* represent(PyObject* self) noexcept {
  return guarded([&] {
    const Tensor& tensor = tensor_of(self);
    if (is_capturing())
      return wrap(nb::str(text("<tensor ", tensor.dtype(), tensor.shape(), " that is being recorded>").c_str()));
    auto text_of = [](nb::handle object) { return nb::cast<std::string>(nb::str(object)); };
    std::string result = "tensor(" + (tensor.numel() == 0 ? "[]" : as_program(text_of(printed(tensor))));
    DType dtype = tensor.dtype();
    if (tensor.numel() == 0 && tensor.rank() != 1) result += ", shape=" + text_of(shape_tuple(tensor));
    if (dtype != kF32 && dtype != kI64 && dtype != kBool) result += ", dtype=" + text_of(nb::steal(wrap(dtype)));
    return wrap(nb::str((result + ")").c_str()));
  });
}

nb::object formatted(PyObject* self, PyObject* format) {
  const Tensor& tensor = tensor_of(self);
  if (!PyUnicode_Check(format)) throw ArgumentTypeError("a format is a string, not " + type_name(format));
  if (tensor.rank() == 0) return nb::steal(PyObject_Format(nb::handle(self).attr("item")().ptr(), format));
  if (PyUnicode_GetLength(format) > 0) throw ArgumentTypeError("a tensor with axes takes no format");
  return printed(tensor);
}

Tensor with_size(const Tensor& x, int64_t axis, PyObject* size) {
  Dim* known = nullptr;
  if (!nb::try_cast(nb::handle(size), known, false) || !known)
    throw ArgumentTypeError("with_dim: expected a Dim, not " + type_name(size));
  if (is_capturing()) return x.with_dim(axis, *known);
  Unlocked unlocked;
  return x.with_dim(axis, *known);
}

void backward(const Tensor& x, const std::optional<Tensor>& gradient) { x.backward(gradient); }
nb::object requires_grad(PyObject* self, bool on) {
  tensor_of(self).requires_grad_(on);
  return nb::borrow(self);
}

nb::object realize_one(PyObject* self) {
  const Tensor& tensor = tensor_of(self);
  Unlocked unlocked;
  tensor.realize();
  nb::gil_scoped_acquire locked;
  return nb::borrow(self);
}
nb::object assign(PyObject* self, const Tensor& value) {
  tensor_of(self).assign(value);
  return nb::borrow(self);
}
nb::object zero(PyObject* self) {
  Tensor& tensor = tensor_of(self);
  tensor.assign(zeros_like(tensor));
  return nb::borrow(self);
}
nb::object fill(PyObject* self, const Operand& value) {
  Tensor& tensor = tensor_of(self);
  tensor.assign(full_like(tensor, value));
  return nb::borrow(self);
}
void realize_all(const std::vector<Tensor>& tensors) {
  Unlocked unlocked;
  realize(tensors);
}

}  // namespace

void bind_tensor(nb::module_& module) {
  static const PyType_Slot slots[] = {{Py_nb_add, slot(binary<add>)},
                                      {Py_nb_subtract, slot(binary<sub>)},
                                      {Py_nb_multiply, slot(binary<mul>)},
                                      {Py_nb_true_divide, slot(binary<div>)},
                                      {Py_nb_floor_divide, slot(binary<floordiv>)},
                                      {Py_nb_remainder, slot(binary<mod>)},
                                      {Py_nb_divmod, slot(both)},
                                      {Py_nb_power, slot(power)},
                                      {Py_nb_matrix_multiply, slot(binary<product>)},
                                      {Py_nb_and, slot(binary<bitwise_and>)},
                                      {Py_nb_or, slot(binary<bitwise_or>)},
                                      {Py_nb_xor, slot(binary<bitwise_xor>)},
                                      {Py_nb_lshift, slot(binary<shift_left>)},
                                      {Py_nb_rshift, slot(binary<shift_right>)},
                                      {Py_nb_inplace_add, slot(compound<&Tensor::operator+= >)},
                                      {Py_nb_inplace_subtract, slot(compound<&Tensor::operator-= >)},
                                      {Py_nb_inplace_multiply, slot(compound<&Tensor::operator*= >)},
                                      {Py_nb_inplace_true_divide, slot(compound<&Tensor::operator/= >)},
                                      {Py_nb_inplace_floor_divide, slot(in_place<floordiv>)},
                                      {Py_nb_inplace_remainder, slot(in_place<mod>)},
                                      {Py_nb_inplace_power, slot(power_in_place)},
                                      {Py_nb_inplace_matrix_multiply, slot(in_place<product>)},
                                      {Py_nb_inplace_and, slot(in_place<bitwise_and>)},
                                      {Py_nb_inplace_or, slot(in_place<bitwise_or>)},
                                      {Py_nb_inplace_xor, slot(in_place<bitwise_xor>)},
                                      {Py_nb_inplace_lshift, slot(in_place<shift_left>)},
                                      {Py_nb_inplace_rshift, slot(in_place<shift_right>)},
                                      {Py_nb_negative, slot(unary<neg>)},
                                      {Py_nb_positive, slot(itself)},
                                      {Py_nb_absolute, slot(unary<abs>)},
                                      {Py_nb_invert, slot(unary<bitwise_not>)},
                                      {Py_nb_bool, slot(truth)},
                                      {Py_nb_int, slot(as_int)},
                                      {Py_nb_float, slot(as_float)},
                                      {Py_nb_index, slot(as_index)},
                                      {Py_tp_richcompare, slot(compare)},
                                      {Py_tp_hash, slot(hash)},
                                      {Py_tp_repr, slot(represent)},
                                      {Py_tp_str, slot(as_text)},
                                      {Py_tp_iter, slot(iterate)},
                                      {Py_sq_length, slot(length)},
                                      {Py_sq_item, slot(row)},
                                      {Py_mp_length, slot(length)},
                                      {Py_mp_subscript, slot(get_item)},
                                      {Py_mp_ass_subscript, slot(set_item)},
                                      {Py_bf_getbuffer, slot(get_buffer)},
                                      {Py_bf_releasebuffer, slot(release_buffer)},
                                      {Py_tp_getset, attributes},
                                      {0, nullptr}};
  nb::class_<Tensor> type(module, "Tensor", nb::type_slots(slots), nb::is_weak_referenceable(),
                          R"(A tensor: an array whose elements are computed when somebody looks at them.

Operators and indexing are NumPy's, names those of NumPy and PyTorch.

>>> x = hd.tensor([[1.0, 2.0], [3.0, 4.0]])
>>> x.shape, x.dtype, x.device
((2, 2), heddle.float32, device('cpu'))
>>> (x @ x + 1)[:, 0].tolist()
[8.0, 16.0]
>>> x[0] = -1
>>> x
tensor([[-1., -1.],
        [ 3.,  4.]]))");
  tensor_type = reinterpret_cast<PyTypeObject*>(type.ptr());
  type.def(
      "__init__",
      [](Tensor* self, nb::handle data, nb::handle dtype) {
        std::optional<DType> wanted;
        if (!dtype.is_none()) wanted = to_dtype(dtype.ptr());
        new (self) Tensor(to_tensor(data.ptr(), wanted).clone());
      },
      nb::arg("data"), nb::arg("dtype").none() = nb::none());
  nb::class_<Dim>(module, "Dim",
                  R"(A size that differs from call to call: one compiled plan serves all of its values. dim() makes it.

>>> n = hd.dim("n", 1, 64)
>>> n.name, n.lo, n.hi, n.multiple_of
('n', 1, 64, 1))")
      .def_prop_ro("name", &Dim::name, "Its name, in messages and programs.")
      .def_prop_ro("lo", &Dim::lo, "The smallest value.")
      .def_prop_ro("hi", &Dim::hi, "The largest value.")
      .def_prop_ro("multiple_of", &Dim::multiple_of, "What all values are multiples of.")
      .def("__repr__",
           [](const Dim& self) { return text("dim('", self.name(), "', ", self.lo(), ", ", self.hi(), ")"); });
  module.def("dim", dim, nb::arg("name"), nb::arg("lo"), nb::arg("hi"), nb::arg("multiple_of") = 1,
             R"(A named size from lo to hi, both included.

>>> n = hd.dim("n", 1, 4096)
>>> x = hd.ones(10, 3).with_dim(0, n)         # compiled once for all numbers of rows
>>> x.sum(0).tolist()
[10.0, 10.0, 10.0])");

  using enum Row::Kind;
  static constexpr Row rows[] = {
      {"with_dim(x, dim, size)", call<with_size>, Method},
      {"__format__(x, format)", call<formatted>, Method},
      {"backward(x, gradient=None)", call<backward>, Method},
      {"zero_grad(x)", call<[](const Tensor& x) { x.zero_grad(); }>, Method},
      {"requires_grad_(x, requires_grad=True)", call<requires_grad>, Method},
      {"detach(x)", call<[](const Tensor& x) { return detach(x); }>},
      {"realize(x)", call<realize_one>, Method},
      {"realize(*tensors)", call<realize_all>, Function},
      {"is_realized(x)", call<[](const Tensor& x) { return x.is_realized(); }>, Method},
      {"is_capturing()", call<is_capturing>, Function},
      {"assign(x, value)", call<assign>, Method},
      {"copy_(x, value)", call<assign>, Method},
      {"zero_(x)", call<zero>, Method},
      {"fill_(x, value)", call<fill>, Method},
      {"numel(x)", call<[](const Tensor& x) -> nb::object { return nb::int_(x.numel()); }>},
      {"dim(x)", call<[](const Tensor& x) -> nb::object { return nb::int_(x.rank()); }>, Method},
      {"_same_slot(x, b)", call<[](const Tensor& x, const Tensor& b) { return &x.slot() == &b.slot(); }>, Method},
  };
  add_functions(module, rows);
}

}  // namespace heddle::python
