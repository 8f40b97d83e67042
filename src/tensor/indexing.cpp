#include <algorithm>

#include "base/error.h"
#include "tensor/index_common.h"
#include "tensor/symbolic.h"
#include "tensor/together.h"

namespace heddle {
namespace {

bool is_mask(const Index& index) { return index.kind() == Index::Kind::Positions && index.tensor().dtype() == kBool; }

// The axes of x that an entry stands for.
int axes_of(const Index& index) {
  if (index.kind() == Index::Kind::Rest || index.kind() == Index::Kind::New) return 0;
  return is_mask(index) ? index.tensor().rank() : 1;
}

void check_mask(const char* op, const Tensor& x, const Tensor& mask, int axis) {
  bool fits = true;
  for (int i = 0; fits && i < mask.rank(); ++i) fits = mask.size(i) == x.size(axis + i);
  if (!fits)
    throw IndexError(
        text(op, ": a mask of shape ", mask.node()->shape, " does not fit ", x.node()->shape, " from axis ", axis));
}

// What stands between the brackets, with the ellipsis written out. Masks fit their axes.
std::vector<Index> complete(const char* op, const Tensor& x, std::span<const Index> indices) {
  int used = 0;
  bool ellipsis = false;
  for (const Index& index : indices) {
    if (index.kind() == Index::Kind::Rest) {
      if (ellipsis) throw IndexError(text(op, ": more than one Ellipsis"));
      ellipsis = true;
    }
    used += axes_of(index);
  }
  int rank = x.rank(), axis = 0;
  if (used > rank)
    throw IndexError(text(op, ": indices for ", used, " axes, but there are ", rank, " in ", x.node()->shape));
  std::vector<Index> result;
  auto fill = [&] {
    for (int i = used; i < rank; ++i, ++axis) result.push_back(Index(Slice()));
  };
  for (const Index& index : indices) {
    if (is_mask(index)) check_mask(op, x, index.tensor(), axis);
    result.push_back(index);  // an ellipsis for no axes still stands between its neighbours
    axis += axes_of(index);
    if (index.kind() == Index::Kind::Rest) fill();
  }
  if (!ellipsis) fill();
  return result;
}

bool is_scalar_mask(const Index& index) { return is_mask(index) && index.tensor().rank() == 0; }

// A mask without axes stands for a new axis of one element, which it keeps or not: x with these axes, and the masks
// with theirs.
Tensor with_mask_axes(const Tensor& x, std::vector<Index>& indices) {
  Tensor result(x.node());
  int axis = 0;
  for (Index& index : indices) {
    if (is_scalar_mask(index)) {
      result = unsqueeze(result, axis);
      index = Index(reshape(index.tensor(), 1));
    }
    axis += axes_of(index);
  }
  return result;
}

// Masks as the positions of their true elements.
std::vector<Index> without_masks(const std::vector<Index>& indices) {
  std::vector<Index> result;
  for (const Index& index : indices) {
    if (!is_mask(index)) {
      result.push_back(index);
      continue;
    }
    Tensor where_true = nonzero(index.tensor());
    for (int i = 0; i < index.tensor().rank(); ++i) result.push_back(Index(select(where_true, 1, i)));
  }
  return result;
}

// Numbers, slices and new axes are done: what is left has an axis for every slice, new axis and tensor.
struct Basic {
  Tensor x;
  std::vector<Tensor> tensors;  // of one shape
  Shape spanned;                // that shape
  std::vector<int> axes;        // of x, where the tensors stand
  bool together = true;         // nothing stands between the tensors
};

Basic take_basic(const char* op, const Tensor& x, const std::vector<Index>& indices) {
  bool any_tensor = std::any_of(indices.begin(), indices.end(),
                                [](const Index& index) { return index.kind() == Index::Kind::Positions; });
  Basic result{Tensor(x.node()), {}, {}, {}, true};
  int axis = 0, original = 0;
  enum { Before, Among, After } state = Before;
  for (const Index& index : indices) {
    bool chooses = index.kind() == Index::Kind::Positions || (any_tensor && index.kind() == Index::Kind::Number);
    if (chooses) {
      if (state == After) result.together = false;
      state = Among;
    } else if (state == Among) {
      state = After;
    }
    switch (index.kind()) {
      case Index::Kind::Number: {
        int64_t size = result.x.size(axis), at = index.number();
        if (at < -size || at >= size)
          throw IndexError(
              text(op, ": position ", at, " of axis ", original, " of ", x.node()->shape, " does not exist"));
        result.x = select(result.x, axis, at);
        ++original;
        break;
      }
      case Index::Kind::Range:
        if (index.slice().step == 0) throw ValueError(text(op, ": a slice with a step of zero"));
        result.x = slice(result.x, axis++, index.slice().begin, index.slice().end, index.slice().step);
        ++original;
        break;
      case Index::Kind::New: result.x = unsqueeze(result.x, axis++); break;
      case Index::Kind::Positions:
        if (!is_integer(index.tensor().dtype()))
          throw DTypeError(text(op, ": an index must hold integers or bools, not ", index.tensor().dtype()));
        result.tensors.push_back(index.tensor());
        result.axes.push_back(axis++);
        ++original;
        break;
      case Index::Kind::Rest: break;
    }
  }
  for (const Tensor& tensor : result.tensors)
    result.spanned = broadcast_shapes(op, result.spanned, tensor.node()->shape);
  for (Tensor& tensor : result.tensors) tensor = Tensor(broadcast_to(tensor.node(), result.spanned));
  return result;
}

// The first axes, for tensors that do not stand together.
Axes front_axes(size_t count) {
  Axes result;
  for (size_t i = 0; i < count; ++i) result.push_back(static_cast<int64_t>(i));
  return result;
}

// A value for places of this shape, in the dtype of x.
Tensor fitted(const char* op, const Tensor& x, const Operand& value, const Shape& shape) {
  if (value.kind() != Operand::Kind::Tensor) return Tensor(number_node(op, value, x.dtype(), shape));
  Tensor given(value.tensor().node());
  while (given.rank() > shape.rank() && given.size(0) == 1) given = select(given, 0, 0);
  auto fits = [&] { return broadcast_shapes(op, given.node()->shape, shape) == shape; };
  if (!fits()) given = Tensor(with_numbers(given.node()));
  if (!fits())
    throw ShapeError(text(op, ": a value of shape ", value.tensor().node()->shape, " does not fit the places ", shape,
                          " of ", x.node()->shape));
  return Tensor(broadcast_to(cast(given, x.dtype()).node(), shape));
}

// Where a slice begins, if it does so for every value of a symbolic size alike.
std::optional<Expr> begin_of(const Slice& range, const Expr& size) {
  if (size.is_const()) {
    const int64_t last = std::max<int64_t>(size.value() - 1, 0);
    int64_t begin = range.begin.value_or(range.step < 0 ? last : 0);
    if (range.begin && begin < 0) begin += size.value();
    return Expr(std::clamp<int64_t>(begin, 0, last));
  }
  if (range.step != 1) return std::nullopt;
  std::optional<SymbolicRange> known = symbolic_range(size, range.begin, range.end);
  return known ? std::optional(known->begin) : std::nullopt;
}

// x with numbers in place of symbolic sizes that an index has to know.
Tensor with_known_axes(const Tensor& x, const std::vector<Index>& indices) {
  NodeRef n = x.node();
  int axis = 0;
  for (const Index& index : indices) {
    if (index.kind() == Index::Kind::Positions) return Tensor(with_numbers(n));
    if (axes_of(index) == 0) continue;
    const Expr& size = n->shape[static_cast<size_t>(axis)];
    bool known = size.is_const();
    if (!known && index.kind() == Index::Kind::Range) known = begin_of(index.slice(), size).has_value();
    if (!known && index.kind() == Index::Kind::Number)
      known = index.number() < 0 ? -index.number() <= size.lo() : index.number() < size.lo();
    if (!known) n = with_number(n, axis);
    ++axis;
  }
  return Tensor(n);
}

// x with a part replaced that numbers, slices and new axes choose; tensors count as slices.
Tensor replace_part(const char* op, const Tensor& x, const std::vector<Index>& indices, const Tensor& value) {
  Tensor part = value;
  const NodeRef n = x.node();
  std::vector<Expr> begins;
  std::vector<int64_t> steps;
  int64_t axis = 0;  // of the part, which comes to have those of x
  for (const Index& index : indices) {
    if (index.kind() == Index::Kind::Rest) continue;
    if (index.kind() == Index::Kind::New) {
      part = select(part, axis, 0);
      continue;
    }
    const Expr& size = n->shape[begins.size()];
    Expr begin = 0;
    int64_t step = 1;
    if (index.kind() == Index::Kind::Number) {
      begin = index.number() < 0 ? size + index.number() : Expr(index.number());
      part = unsqueeze(part, axis);
    } else if (index.kind() == Index::Kind::Range) {
      begin = *begin_of(index.slice(), size);
      if (part.size(axis) > 1) step = index.slice().step;  // of one element it may be as large as any number
    }
    begins.push_back(begin);
    steps.push_back(step);
    ++axis;
  }
  return Tensor(put_part(op, n, part.node(), std::move(begins), steps));
}

// For a mask among whole axes and a value that does not tell its true elements apart: nothing has to be counted.
std::optional<Tensor> fill_mask(const Tensor& x, const std::vector<Index>& indices, const Operand& value) {
  int before = 0, after = 0;
  const Tensor* mask = nullptr;
  for (const Index& index : indices) {
    if (index.kind() == Index::Kind::Rest) continue;
    if (is_mask(index) && !mask) {
      mask = &index.tensor();
      continue;
    }
    bool whole = index.kind() == Index::Kind::Range && !index.slice().begin && !index.slice().end;
    if (!whole || index.slice().step != 1) return std::nullopt;
    ++(mask ? after : before);
  }
  if (!mask) return std::nullopt;
  NodeRef plain = with_numbers(mask->node());
  Shape shape = plain->shape;
  for (int i = 0; i < after; ++i) shape.push_back(1);
  Tensor chosen(make_reshape(plain, shape));
  if (value.kind() != Operand::Kind::Tensor) return masked_fill(x, chosen, value);
  Tensor given(with_numbers(value.tensor().node()));
  if (given.rank() > before + 1 + after) return std::nullopt;
  if (given.rank() > after) {
    int64_t at = given.rank() - after - 1;  // the axis along the true elements
    if (given.size(at) != 1) return std::nullopt;
    for (int i = 1; i < mask->rank(); ++i) given = unsqueeze(given, at);
  }
  if (!(broadcast_shapes("set_at", given.node()->shape, x.node()->shape) == x.node()->shape)) return std::nullopt;
  return masked_fill(x, chosen, given);
}

}  // namespace

Tensor at(const Tensor& x, std::span<const Index> indices) {
  const char* op = "at";
  std::vector<Index> all = complete(op, x, indices);
  if (std::any_of(all.begin(), all.end(), is_scalar_mask)) {
    Tensor wider = with_mask_axes(x, all);
    return at(wider, std::span<const Index>(all));
  }
  if (all.size() == 1 && is_mask(all[0])) return masked_select(x, all[0].tensor());
  Basic basic = take_basic(op, x, without_masks(all));
  size_t count = basic.tensors.size();
  if (count == 0) return basic.x;
  Tensor from = basic.x;
  if (!basic.together) from = moveaxis(from, Axes(basic.axes.begin(), basic.axes.end()), front_axes(count));
  size_t place = basic.together ? static_cast<size_t>(basic.axes[0]) : 0;
  NodeRef n = from.node(), positions;
  if (count == 1) {
    positions = to_positions(op, basic.tensors[0], n, place);
  } else {
    n = with_numbers(n);
    MergedIndex merged = merge_indices(op, n, basic.tensors, place);
    n = make_reshape(n, merged.merged);
    positions = merged.positions;
  }
  return Tensor(make_gather(n, positions, static_cast<int>(place), index_label(op)));
}
Tensor at(const Tensor& x, std::initializer_list<Index> indices) {
  return at(x, std::span<const Index>(indices.begin(), indices.size()));
}
Tensor Tensor::at(std::initializer_list<Index> indices) const { return heddle::at(*this, indices); }

Tensor set_at(const Tensor& named, std::span<const Index> indices, const Operand& value) {
  const char* op = "set_at";
  std::vector<Index> all = complete(op, named, indices);
  Tensor x = with_known_axes(named, all);
  if (std::any_of(all.begin(), all.end(), is_scalar_mask)) {
    Tensor wider = with_mask_axes(x, all);
    return reshape(set_at(wider, std::span<const Index>(all), value), x.shape());
  }
  if (std::optional<Tensor> filled = fill_mask(x, all, value)) return *filled;
  all = without_masks(all);
  Basic basic = take_basic(op, x, all);
  size_t count = basic.tensors.size();
  if (count == 0) return replace_part(op, x, all, fitted(op, x, value, basic.x.node()->shape));
  Axes from(basic.axes.begin(), basic.axes.end()), front = front_axes(count);
  Tensor part = basic.together ? basic.x : moveaxis(basic.x, from, front);
  size_t place = basic.together ? static_cast<size_t>(basic.axes[0]) : 0;
  NodeRef n = with_numbers(part.node());
  Shape places(n->shape.begin(), n->shape.begin() + place);
  for (const Expr& size : basic.spanned) places.push_back(known_size(size));
  places.append(n->shape.begin() + place + count, n->shape.end());
  part = Tensor(put_at(op, ScatterOp::Set, n, basic.tensors, place, fitted(op, x, value, places)));
  if (!basic.together) part = moveaxis(part, front, from);
  return replace_part(op, x, all, part);
}
Tensor set_at(const Tensor& x, std::initializer_list<Index> indices, const Operand& value) {
  return set_at(x, std::span<const Index>(indices.begin(), indices.size()), value);
}
void Tensor::set(std::initializer_list<Index> indices, const Operand& value) {
  set(std::span(indices.begin(), indices.size()), value);
}
void Tensor::set(std::span<const Index> indices, const Operand& value) {
  update("set", *this, [&](const Tensor& now) { return heddle::set_at(now, indices, value); });
}

}  // namespace heddle
