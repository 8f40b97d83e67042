// A part of a tensor replaced by a value of as many axes.
#include <algorithm>

#include "base/error.h"
#include "tensor/index_common.h"
#include "tensor/symbolic.h"

namespace heddle {
namespace {

// Throws if the part leaves the axis.
void check_part(const char* op, const Shape& of, size_t axis, int64_t begin, int64_t count, int64_t step) {
  if (step == 0) throw ValueError(text(op, ": the step along axis ", axis, " is 0"));
  const int64_t size = known_size(of[axis]);
  int64_t room = -1;  // steps that stay inside, in terms that cannot overflow
  if (begin >= 0 && begin < size) room = step > 0 ? (size - 1 - begin) / step : step == INT64_MIN ? 0 : begin / -step;
  if (room < count - 1)
    throw IndexError(text(op, ": ", count, " elements from position ", begin, " in steps of ", step,
                          " do not fit axis ", axis, " of ", of));
}

// One axis of what is put into a tensor: `step - 1` places after each element but the last, then all that is around.
struct Spread {
  size_t axis;
  int64_t step;
  Expr before, after;

  NodeRef operator()(NodeRef x, const Scalar& fill) const {
    const size_t rank = x->shape.size();
    if (step > 1) {
      Shape apart = x->shape, wide = x->shape, cut = x->shape;
      apart.insert(axis + 1, Expr(1));
      std::vector<Expr> none(rank + 1, Expr(0)), behind = none, first(rank, Expr(0));
      behind[axis + 1] = step - 1;
      wide[axis] = wide[axis] * step;
      cut[axis] = wide[axis] - (step - 1);
      x = make_shrink(make_reshape(make_pad(make_reshape(x, apart), none, behind, fill), wide), first, cut);
    }
    std::vector<Expr> lead(rank, Expr(0)), tail = lead;
    lead[axis] = before;
    tail[axis] = after;
    return make_pad(x, lead, tail, fill);
  }
};

}  // namespace

NodeRef put_part(const char* op, NodeRef x, NodeRef value, std::vector<Expr> begins,
                 const std::vector<int64_t>& steps) {
  const size_t rank = x->shape.size();
  std::vector<Spread> spreads;
  NodeRef placed = make_cast(value, x->dtype);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t count = known_size(value->shape[i]);
    if (count == 0) return make_unmoved(x, std::span(&value, 1));
    int64_t step = steps.empty() ? 1 : steps[i];
    check_part(op, x->shape, i, known_size(begins[i]), count, step);
    if (count == 1) step = 1;  // may be as large as any number
    const int axis = static_cast<int>(i);
    auto use_numbers = [&] {
      x = with_number(x, axis);
      placed = with_number(placed, axis);
      begins[i] = known_size(begins[i]);
    };
    if (step != 1) use_numbers();
    if (step < 0) {
      placed = make_flip(placed, std::span(&axis, 1));
      begins[i] = begins[i] + (count - 1) * step;
      step = -step;
    }
    auto behind = [&] { return x->shape[i] - begins[i] - ((placed->shape[i] - 1) * step + 1); };
    // It has to fit for all sizes, or for this one.
    if (begins[i].lo() < 0 || behind().lo() < 0) use_numbers();
    spreads.push_back({i, step, begins[i], behind()});
  }
  NodeRef written = make_const(Scalar::of(kBool, true), placed->shape);
  for (const Spread& spread : spreads) {
    placed = spread(placed, Scalar::of(placed->dtype, 0));
    written = spread(written, Scalar::of(kBool, false));
  }
  NodeRef parts[] = {written, placed, x};
  return make_scalar(ScalarOp::where, parts);
}

Tensor update_slice(const Tensor& x, const Tensor& value, const Dims& begins, const std::vector<int64_t>& steps) {
  const char* op = "update_slice";
  OnDeviceOf there(x);
  NodeRef n = x.node(), v = value.node();
  const size_t rank = n->shape.size();
  if (v->shape.size() != rank || begins.size() != rank || (!steps.empty() && steps.size() != rank))
    throw ShapeError(text(op, ": a value of shape ", v->shape, ", begins ", list_text(begins), " and steps ",
                          list_text(steps), " must have one entry for each axis of ", n->shape));
  std::vector<Expr> from(begins.begin(), begins.end());
  for (size_t i = 0; begins.recorded && i < rank && i < begins.recorded->size(); ++i)
    if (known_size((*begins.recorded)[i]) == begins[i]) from[i] = (*begins.recorded)[i];
  return Tensor(put_part(op, n, v, std::move(from), steps));
}

namespace {

// One number for the only axis along which the value is shorter than x, and zeros for the others.
Tensor for_all_axes(const char* op, const Tensor& begin, const Shape& of, const Shape& part) {
  std::vector<int64_t> chosen(of.size(), 0);
  for (size_t i = 0; i < of.size(); ++i) chosen[i] = !(of[i] == part[i]);
  if (std::count(chosen.begin(), chosen.end(), 1) > 1)
    throw ShapeError(
        text(op, ": one number to begin at, but a value of shape ", part, " is shorter along several axes of ", of));
  const auto rank = static_cast<int64_t>(of.size());
  return mul(cast(begin, kI64), from_vector(chosen, {rank}));
}

}  // namespace

Tensor update_slice(const Tensor& x, const Tensor& value, const Tensor& begins) {
  const char* op = "update_slice";
  OnDeviceOf there(x);
  for (const Tensor* other : {&value, &begins}) check_same_device(op, x.node()->device, other->node()->device);
  NodeRef n = with_numbers(x.node()), v = with_numbers(value.node());
  if (v->shape.size() != n->shape.size())
    throw ShapeError(text(op, ": a value of shape ", v->shape, " for ", n->shape));
  const size_t rank = n->shape.size();
  Dims sizes;
  for (const Expr& size : v->shape) sizes.push_back(size.value());
  const Tensor each = begins.rank() == 0 ? for_all_axes(op, begins, n->shape, v->shape) : begins;
  const std::vector<NodeRef> from = begins_of(op, n->shape, each, sizes);
  if (v->shape.known_numel() == 0) return Tensor(make_unmoved(x.node(), std::span(&v, 1)));
  size_t first = rank, last = 0;  // axes along which it may lie in several places, and those between
  for (size_t i = 0; i < rank; ++i)
    if (!(n->shape[i] == v->shape[i])) {
      first = std::min(first, i);
      last = i;
    }
  NodeRef changes = make_cast(v, n->dtype);
  if (first == rank) return Tensor(changes);
  // These axes as one, along which the elements of the value go to the places that they have in x.
  Tensor places = tensor(0, kI64);
  Expr count = 1, length = 1;
  for (size_t i = first; i <= last; ++i) {
    Tensor along = arange(sizes[i]);
    if (!(n->shape[i] == v->shape[i])) along = add(along, Tensor(from[i]));
    places = add(mul(unsqueeze(places, -1), n->shape[i].value()), along);
    count = count * v->shape[i];
    length = length * n->shape[i];
  }
  Shape whole(n->shape.begin(), n->shape.begin() + first), part = whole, thin(first, Expr(1));
  whole.push_back(length);
  part.push_back(count);
  thin.push_back(count);
  for (size_t i = last + 1; i < rank; ++i) {
    whole.push_back(n->shape[i]);
    part.push_back(n->shape[i]);
    thin.push_back(1);
  }
  NodeRef positions = make_expand(make_reshape(places.node(), thin), part);
  NodeRef result = make_scatter(ScatterOp::Set, make_reshape(n, whole), positions, make_reshape(changes, part),
                                static_cast<int>(first), kUncheckedIndex);
  return Tensor(make_reshape(result, n->shape));
}

}  // namespace heddle
