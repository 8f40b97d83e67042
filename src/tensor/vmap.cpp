#include "graph/vmap.h"

#include <heddle/vmap.h>

#include "base/error.h"
#include "graph/gradient.h"
#include "tensor/build.h"
#include "tensor/recording.h"
#include "tensor/symbolic.h"
#include "tensor/track.h"

namespace heddle {
namespace detail {

TensorList mapped(const ListFunction& f, const TensorList& arguments,
                  const std::vector<std::optional<int64_t>>& in_axes, int64_t out_axis) {
  if (!in_axes.empty() && in_axes.size() != arguments.size())
    throw ValueError(text("vmap: ", in_axes.size(), " axes for ", arguments.size(), " arguments"));
  const int64_t begin = next_placeholder_number();
  std::optional<Expr> count;
  std::unordered_map<const Node*, NodeRef> bound;
  std::vector<NodeRef> stand_ins(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::optional<int64_t> axis = in_axes.empty() ? 0 : in_axes[i];
    if (!axis) continue;
    NodeRef x = arguments[i].node();
    if (x->shape.rank() == 0)
      throw ShapeError(text("vmap: argument ", i, " is a scalar and has no axis of examples; say so in in_axes"));
    int at = normalize_axis("vmap", *axis, x->shape.rank());
    const Expr& size = x->shape[at];
    if (count && !same_size(*count, size))
      throw ShapeError(text("vmap: argument ", i, " has ", size, " examples on axis ", at, ", others have ", *count));
    if (!count) count = size;
    SmallVector<int, 4> axes;
    Shape rest;
    axes.push_back(at);
    for (int k = 0; k < x->shape.rank(); ++k) {
      if (k == at) continue;
      axes.push_back(k);
      rest.push_back(x->shape[k]);
    }
    stand_ins[i] = make_placeholder(x->dtype, rest, x->device);
    bound[stand_ins[i].get()] = make_permute(x, axes);
  }
  if (!count) throw ValueError("vmap: no argument has an axis of examples");
  std::vector<NodeRef> roots;
  {
    Recorder recorder("vmap");
    TensorList one;
    for (size_t i = 0; i < arguments.size(); ++i) one.push_back(stand_ins[i] ? Tensor(stand_ins[i]) : arguments[i]);
    for (const Tensor& y : f(one)) roots.push_back(y.node());
    one.clear();
    recorder.refuse_kept(begin);
  }
  TensorList results;
  for (const NodeRef& y : batched(roots, bound, *count)) {
    int to = normalize_axis("vmap", out_axis, y->shape.rank());
    SmallVector<int, 4> axes;
    for (int k = 0; k < y->shape.rank(); ++k) axes.push_back(k < to ? k + 1 : k == to ? 0 : k);
    results.push_back(Tensor(make_permute(y, axes)));
  }
  return results;
}

}  // namespace detail

namespace {

// One column of derivatives after the other would run the graph again and again: all unit vectors at once instead.
NodeRef all_derivatives(const char* op, const NodeRef& output, const NodeRef& leaf) {
  Recorder recorder(op);  // calls gradient functions of the user's
  NodeRef arriving = make_placeholder(output->dtype, output->shape, output->device);
  OnDeviceOf there(output->device);
  NodeRef pulled = gradient(std::span(&output, 1), std::span(&arriving, 1), std::span(&leaf, 1))[0];
  if (!pulled) pulled = make_const(Scalar::of(leaf->dtype, 0), leaf->shape);
  int64_t count = output->shape.known_numel();
  Dims each{count};
  for (const Expr& size : output->shape) each.push_back(known_size(size));
  NodeRef units = reshape(eye(count, output->dtype), each).node();
  std::vector<NodeRef> rows = batched(std::span(&pulled, 1), {{arriving.get(), units}}, count);
  Shape all = output->shape;
  all.append(leaf->shape.begin(), leaf->shape.end());
  return make_reshape(rows[0], all);
}

Tensor all_derivatives_of(const char* op, const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  OpenLeaves open;
  NodeRef leaf = open.add(x.node());
  NodeRef output = f(Tensor(leaf)).node();
  if (!is_float(leaf->dtype) || !is_float(output->dtype))
    throw DTypeError(text(op, ": from ", leaf->dtype, " to ", output->dtype, "; only floats have gradients"));
  return Tensor(all_derivatives(op, output, leaf));
}

}  // namespace

Tensor jacobian(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  return all_derivatives_of("jacobian", f, x);
}

Tensor hessian(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  return all_derivatives_of(
      "hessian",
      [&](const Tensor& y) {
        ListFunction listed = [&](const TensorList& list) { return TensorList{f(list[0])}; };
        return detail::differentiate("hessian", listed, {y}).gradients[0];
      },
      x);
}

}  // namespace heddle
