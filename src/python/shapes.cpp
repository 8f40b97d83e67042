// Shapes, joining, products of matrices.
#include "base/error.h"
#include "python/bind.h"
#include "python/function.h"

namespace heddle::python {
namespace {

PadMode pad_mode(const std::string& name) {
  if (name == "constant") return PadMode::Constant;
  if (name == "reflect") return PadMode::Reflect;
  if (name == "replicate" || name == "edge") return PadMode::Replicate;
  if (name == "circular" || name == "wrap") return PadMode::Circular;
  if (name == "symmetric") return PadMode::Symmetric;
  throw ValueError(
      text("pad: there is no mode '", name, "'; there are constant, reflect, replicate, circular and ", "symmetric"));
}
// Pairs for each axis; a pair for all of them; PyTorch's list of numbers, the last axis first; or one number.
Tensor padded(const Tensor& x, PyObject* widths, const std::string& mode, const Operand& value) {
  auto rank = static_cast<size_t>(x.rank());
  std::vector<std::pair<int64_t, int64_t>> pairs(rank);
  bool nested = false;
  if (PyList_Check(widths) || PyTuple_Check(widths)) {
    const std::vector<nb::object> given = elements_of(widths);
    nested = !given.empty() && PySequence_Check(given[0].ptr());
  }
  if (nested) {
    pairs = Held<std::vector<std::pair<int64_t, int64_t>>>(widths).get();
    if (pairs.size() == 1) pairs.resize(rank, pairs[0]);
  } else if (is_index(widths)) {
    int64_t width = to_int(widths);
    for (auto& pair : pairs) pair = {width, width};
  } else {
    std::vector<int64_t> flat = to_ints(widths);
    if (flat.size() % 2 != 0 || flat.size() > 2 * rank)
      throw ValueError(text("pad: ", flat.size(), " widths for a tensor of ", rank, " axes: two for each, from the ",
                            "last axis on"));
    for (size_t i = 0; i < flat.size() / 2; ++i) pairs[rank - 1 - i] = {flat[2 * i], flat[2 * i + 1]};
  }
  PadMode wanted = pad_mode(mode);
  return wanted == PadMode::Constant ? pad(x, pairs, value) : pad(x, pairs, wanted);
}

// The axes alone, or in reverse order if none are given: NumPy's. Two numbers: PyTorch's.
Tensor transposed(const Tensor& x, const std::vector<int64_t>& axes) {
  if (axes.size() == 2 && x.rank() >= 2) return transpose(x, axes[0], axes[1]);
  if (!axes.empty()) return permute(x, axes);
  Axes all;
  for (int64_t i = x.rank(); i-- > 0;) all.push_back(i);
  return permute(x, all);
}
Tensor permuted(const Tensor& x, const std::vector<int64_t>& dims) { return permute(x, dims); }
Tensor squeezed(const Tensor& x, const Axes& dim) { return dim.is_none() ? x.clone() : squeeze(x, dim); }
Tensor rolled(const Tensor& x, const Dims& shifts, const Axes& dim) { return roll(x, shifts, dim); }
Tensor repeated(const Tensor& x, PyObject* repeats, std::optional<int64_t> dim) {
  if (is_index(repeats)) return repeat_interleave(x, to_int(repeats), dim);
  return repeat_interleave(x, to_tensor(repeats), dim);
}
std::vector<Tensor> split_parts(const Tensor& x, PyObject* sizes, int64_t dim) {
  if (is_index(sizes)) return split(x, to_int(sizes), dim);
  return split(x, to_ints(sizes), dim);
}
Tensor tensordot_of(const Tensor& a, const Tensor& b, PyObject* dims) {
  if (is_index(dims)) return tensordot(a, b, to_int(dims));
  nb::object list = nb::steal(PySequence_Tuple(dims));
  if (!list.is_valid()) nb::raise_python_error();
  if (PyTuple_Size(list.ptr()) != 2) throw ValueError("tensordot: dims are a number, or two lists of axes");
  return tensordot(a, b, Axes(to_ints(PyTuple_GetItem(list.ptr(), 0))), Axes(to_ints(PyTuple_GetItem(list.ptr(), 1))));
}
Tensor einsum_of(const std::string& equation, const std::vector<Tensor>& operands) {
  return einsum(equation, operands);
}
std::vector<Tensor> grids(const std::vector<Tensor>& tensors, const std::string& indexing) {
  return meshgrid(tensors, indexing);
}
Tensor sliced(const Tensor& x, int64_t dim, int64_t start, int64_t length) {
  return slice(x, dim, start, start + length);
}
Tensor updated(const Tensor& x, const Tensor& value, PyObject* begins) {
  if (is_tensor(begins)) return update_slice(x, value, tensor_of(begins));
  return update_slice(x, value, to_ints(begins));
}

}  // namespace

void bind_shapes(nb::module_& module) {
  using enum Row::Kind;
  static constexpr Row rows[] = {
      {"reshape(x, *shape)", call<heddle::reshape>},
      {"view(x, *shape)", call<view>},
      {"expand(x, *shape)", call<heddle::expand>},
      {"broadcast_to(x, shape)", call<[](const Tensor& x, const Dims& shape) { return broadcast_to(x, shape); }>},
      {"broadcast_tensors(*tensors)", call<broadcast_tensors>, Function},
      {"unflatten(x, dim, sizes)", call<unflatten>},
      {"as_strided(x, shape, strides, offset=0)", call<as_strided>},
      {"permute(x, *dims)", call<permuted>},
      {"transpose(x, *dims=())", call<transposed>},
      {"swapaxes(x, dim0, dim1)", call<swapaxes>},
      {"t(x)", call<heddle::t>},
      {"moveaxis(x, source, destination)", call<moveaxis>},
      {"squeeze(x, dim=None)", call<squeezed>},
      {"unsqueeze(x, dim)", call<heddle::unsqueeze>},
      {"flatten(x, start_dim=0, end_dim=-1)", call<heddle::flatten>},
      {"ravel(x)", call<ravel>},
      {"flip(x, dim=None)", call<[](const Tensor& x, const Axes& dim) {
         Axes axes = dim;
         if (dim.empty() && !dim.is_none())
           for (int64_t i = 0; i < x.rank(); ++i) axes.push_back(i);
         return axes.empty() ? x.clone() : flip(x, axes);
       }>},
      {"fliplr(x)", call<fliplr>},
      {"flipud(x)", call<flipud>},
      {"rot90(x, k=1, dims=(0, 1))", call<rot90>},
      {"roll(x, shifts, dim=None)", call<rolled>},
      {"tril(x, diagonal=0)", call<tril>},
      {"triu(x, diagonal=0)", call<triu>},
      {"clone(x)", call<heddle::clone>},
      {"contiguous(x)", call<contiguous>},
      {"pad(x, pad, mode='constant', value=0)", call<padded>},
      {"shrink(x, begin_end)", call<shrink>},
      {"narrow(x, dim, start, length)", call<sliced>},
      {"select(x, dim, index)", call<heddle::select>},
      {"tile(x, *counts)", call<tile>},
      {"repeat(x, *counts)", call<heddle::repeat>},
      {"repeat_interleave(x, repeats, dim=None)", call<repeated>},
      {"unfold(x, dim, size, step)", call<unfold>},
      {"window(x, dim, size, stride=1, dilation=1)", call<window>},
      {"unwindow(x, dim, size, stride, dilation, n)", call<unwindow>},
      {"diagonal(x, offset=0, dim1=0, dim2=1)", call<diagonal>},
      {"diag(x, diagonal=0)", call<diag>},
      {"diag_embed(x, offset=0, dim1=-2, dim2=-1)", call<diag_embed>},
      {"trace(x, offset=0, dim1=0, dim2=1)", call<trace>},
      {"update_slice(x, value, begins)", call<updated>},
      {"cat(tensors, dim=0)", call<cat>, Function},
      {"stack(tensors, dim=0)", call<heddle::stack>, Function},
      {"vstack(tensors)", call<vstack>, Function},
      {"hstack(tensors)", call<hstack>, Function},
      {"dstack(tensors)", call<dstack>, Function},
      {"split(x, split_size, dim=0)", call<split_parts>},
      {"chunk(x, chunks, dim=0)", call<chunk>},
      {"array_split(x, sections, dim=0)", call<array_split>},
      {"unbind(x, dim=0)", call<unbind>},
      {"meshgrid(*tensors, indexing='xy')", call<grids>, Function},
      {"matmul(x, b)", call<heddle::matmul>},
      {"mm(x, b)", call<heddle::matmul>},
      {"bmm(x, b)", call<bmm>},
      {"dot(x, b)", call<heddle::dot>},
      {"vdot(x, b)", call<vdot>},
      {"inner(x, b)", call<inner>},
      {"outer(x, b)", call<outer>},
      {"tensordot(x, b, dims=2)", call<tensordot_of>},
      {"einsum(equation, *operands)", call<einsum_of>, Function},
      {"kron(x, b)", call<kron>},
      {"cross(x, b, dim=-1)", call<cross>},
      {"diff(x, n=1, dim=-1)", call<diff>},
  };
  add_functions(module, rows);
  static constexpr const char* kOtherNames[][2] = {{"concatenate", "cat"},      {"concat", "cat"},
                                                   {"movedim", "moveaxis"},     {"swapdims", "swapaxes"},
                                                   {"permute_dims", "permute"}, {"expand_dims", "unsqueeze"}};
  for (const auto& [other, name] : kOtherNames) add_alias(module, other, name);
}

}  // namespace heddle::python
