#include "python/indexing.h"

#include <heddle/ops/indexing.h>

#include "base/error.h"
#include "python/bind.h"
#include "python/errors.h"
#include "python/function.h"
#include "tensor/build.h"

namespace heddle::python {
namespace {

// Bounds beyond 64 bits are beyond every axis.
Slice slice_of(PyObject* object) {
  Py_ssize_t begin = 0, end = 0, step = 0;
  if (PySlice_Unpack(object, &begin, &end, &step) != 0) nb::raise_python_error();
  // What stands for nothing is said as nothing.
  bool from_edge = step > 0 ? begin == 0 : begin == PY_SSIZE_T_MAX;
  bool to_edge = step > 0 ? end == PY_SSIZE_T_MAX : end == PY_SSIZE_T_MIN;
  auto given = [](bool edge, Py_ssize_t value) { return edge ? std::nullopt : std::optional<int64_t>(value); };
  return Slice(given(from_edge, begin), given(to_edge, end), step);
}

// True if a tensor stands at this place, whose elements have to be looked at. Lists and arrays go where `of` is.
bool add(PyObject* key, const Tensor& of, std::vector<Index>& out) {
  if (PyLong_CheckExact(key)) {
    int overflow = 0;
    const long long position = PyLong_AsLongLongAndOverflow(key, &overflow);
    if (overflow != 0) throw IndexError("x[...]: a position of more than 64 bits does not exist");
    out.emplace_back(static_cast<int64_t>(position));
  } else if (PySlice_Check(key)) {
    out.emplace_back(slice_of(key));
  } else if (key == Py_None) {
    out.emplace_back(NewAxis);
  } else if (key == Py_Ellipsis) {
    out.emplace_back(Ellipsis);
  } else if (PyBool_Check(key)) {
    // One more axis, of size 1 or 0.
    out.emplace_back(full({}, key == Py_True, kBool));
    return true;
  } else if (is_tensor(key)) {
    out.emplace_back(tensor_of(key));
    return tensor_of(key).dtype() == kBool;
  } else if (PyList_Check(key) || PyTuple_Check(key) || PyRange_Check(key) || PyObject_CheckBuffer(key) ||
             nb::hasattr(key, "__array__") || nb::hasattr(key, "__dlpack__")) {
    OnDeviceOf there(of);
    Tensor positions = to_tensor(key);
    if (positions.numel() == 0 && PySequence_Check(key) && !PyObject_CheckBuffer(key))
      positions = cast(positions, kI64);
    out.emplace_back(positions);
    return positions.dtype() == kBool;
  } else if (PyIndex_Check(key)) {
    out.emplace_back(to_int(key));
  } else {
    throw ArgumentTypeError(
        "x[...]: integers, slices, None, ..., and tensors, arrays or lists of integers or bools, "
        "not " +
        type_name(key));
  }
  return false;
}

struct Key {
  std::vector<Index> indices;
  bool masks = false;  // they are computed at the call
};
Key read(PyObject* key, const Tensor& of) {
  Key result;
  if (PyTuple_Check(key)) {
    Py_ssize_t count = PyTuple_Size(key);
    result.indices.reserve(static_cast<size_t>(count));
    for (Py_ssize_t i = 0; i < count; ++i) result.masks |= add(PyTuple_GetItem(key, i), of, result.indices);
  } else {
    result.masks = add(key, of, result.indices);
  }
  return result;
}

}  // namespace

PyObject* get_item(PyObject* self, PyObject* key) noexcept {
  try {
    const Tensor& tensor = tensor_of(self);
    Key read_key = read(key, tensor);
    if (!read_key.masks) return wrap(at(tensor, std::span<const Index>(read_key.indices)));
    std::optional<Tensor> result;
    {
      Unlocked unlocked;
      result = at(tensor, std::span<const Index>(read_key.indices));
    }
    return wrap(*result);
  } catch (...) {
    return set_error();
  }
}

int set_item(PyObject* self, PyObject* key, PyObject* value) noexcept {
  try {
    Tensor& tensor = tensor_of(self);
    if (!value) throw ArgumentTypeError("elements of a tensor cannot be deleted");
    Key read_key = read(key, tensor);
    PyOperand operand(value, self);
    std::span<const Index> indices(read_key.indices);
    if (read_key.masks) {
      Unlocked unlocked;
      tensor.set(indices, operand);
    } else {
      tensor.set(indices, operand);
    }
    return 0;
  } catch (...) {
    set_error();
    return -1;
  }
}

namespace {

// PyTorch's spelling: the index has as many axes as x.
Tensor torch_gather(const Tensor& x, int64_t dim, const Tensor& index) { return take_along_axis(x, index, dim); }
Tensor take_rows(const Tensor& x, const Tensor& index, std::optional<int64_t> dim) { return take(x, index, dim); }
nb::object nonzero_tuple(const Tensor& x, bool as_tuple) {
  std::optional<Tensor> found;
  {
    Unlocked unlocked;
    found = nonzero(x);
  }
  if (!as_tuple) return to_object(*found);
  return nb::steal(wrap(unbind(*found, 1)));
}
Tensor scatter_reduced(const Tensor& x, int64_t dim, const Tensor& index, const Operand& updates,
                       const std::string& reduce, bool include_self) {
  return scatter_reduce(x, dim, index, updates, reduce, include_self);
}

}  // namespace

void bind_indexing(nb::module_& module) {
  using enum Row::Kind;
  static constexpr Row rows[] = {
      {"gather(x, dim, index)", call<torch_gather>},
      {"take(x, index, dim=None)", call<take_rows>},
      {"index_select(x, dim, index)", call<index_select>},
      {"take_along_dim(x, index, dim)", call<take_along_axis>},
      {"take_along_axis(x, index, dim)", call<take_along_axis>},
      {"embedding(weight, ids)", call<embedding>, Function},
      {"one_hot(x, num_classes, dtype='int64')", call<one_hot>},
      {"dynamic_slice(x, begins, sizes)", call<dynamic_slice>},
      {"scatter(x, dim, index, src)", call<scatter>},
      {"scatter_add(x, dim, index, src)", call<scatter_add>},
      {"scatter_reduce(x, dim, index, src, reduce, include_self=True)", call<scatter_reduced>},
      {"put_along_axis(x, index, values, dim)", call<put_along_axis>},
      {"index_add(x, dim, index, source, alpha=1)", call<index_add>},
      {"index_copy(x, dim, index, source)", call<index_copy>},
      {"index_put(x, indices, values, accumulate=False, dim=0)", call<index_put>},
      {"masked_fill(x, mask, value)", call<masked_fill>},
      {"masked_select(x, mask)", compute<masked_select>},
      {"nonzero(x, as_tuple=False)", call<nonzero_tuple>},
      {"sort(x, dim=-1, descending=False)", call<heddle::sort>},
      {"argsort(x, dim=-1, descending=False)", call<argsort>},
      {"topk(x, k, dim=-1, largest=True)", call<topk>},
      {"kthvalue(x, k, dim=-1, keepdim=False)", call<kthvalue>},
      {"quantile(x, q, dim=None, keepdim=False)", call<quantile>},
      {"median(x, dim=None, keepdim=False)", call<median>},
      {"searchsorted(sorted, values, right=False)", call<searchsorted>, Function},
      {"unique(x, return_inverse=False, return_counts=False)", compute<heddle::unique>},
      {"bincount(x, minlength=0)", compute<bincount>},
      {"histogram(x, bins=10, range=None)",
       compute<[](const Tensor& x, int64_t bins, const std::optional<std::pair<double, double>>& range) {
         return histogram(x, bins, range);
       }>},
  };
  add_functions(module, rows);
}

}  // namespace heddle::python
