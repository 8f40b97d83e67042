#include <algorithm>

#include "base/error.h"
#include "tensor/build.h"

namespace heddle {
namespace {

// What stands between the brackets, with the ellipsis written out.
std::vector<Index> complete(const Tensor& x, std::span<const Index> indices) {
  int used = 0;
  bool ellipsis = false;
  for (const Index& index : indices) {
    if (index.kind() == Index::Kind::Rest) {
      if (ellipsis) throw IndexError("at: more than one Ellipsis");
      ellipsis = true;
    } else if (index.kind() != Index::Kind::New) {
      ++used;
    }
  }
  int rank = x.rank();
  if (used > rank) throw IndexError(text("at: ", used, " indices for the ", rank, " axes of ", x.node()->shape));
  std::vector<Index> result;
  auto fill = [&] {
    for (int i = used; i < rank; ++i) result.push_back(Index(Slice()));
  };
  for (const Index& index : indices) {
    result.push_back(index);  // an ellipsis for no axes still stands between its neighbours
    if (index.kind() == Index::Kind::Rest) fill();
  }
  if (!ellipsis) fill();
  return result;
}

// Numbers, slices and new axes are done: what is left has an axis for every slice, new axis and tensor.
struct Basic {
  Tensor x;
  std::vector<Tensor> tensors;
  std::vector<int> axes;  // of x, where the tensors stand
  bool together = true;   // nothing stands between the tensors
  int place = 0;          // the axis of the result where those of the tensors begin
};

Basic take_basic(const Tensor& x, const std::vector<Index>& indices) {
  bool any_tensor = std::any_of(indices.begin(), indices.end(),
                                [](const Index& index) { return index.kind() == Index::Kind::Positions; });
  Basic result{Tensor(x.node()), {}, {}, true, 0};
  int axis = 0, original = 0;
  enum { Before, Among, After } state = Before;
  for (const Index& index : indices) {
    bool chooses = index.kind() == Index::Kind::Positions || (any_tensor && index.kind() == Index::Kind::Number);
    if (chooses) {
      if (state == After) result.together = false;
      if (state == Before) result.place = axis;
      state = Among;
    } else if (state == Among) {
      state = After;
    }
    switch (index.kind()) {
      case Index::Kind::Number: {
        int64_t size = result.x.size(axis), at = index.number();
        if (at < -size || at >= size)
          throw IndexError(
              text("at: position ", at, " of axis ", original, " of ", x.node()->shape, " does not exist"));
        result.x = select(result.x, axis, at);
        ++original;
        break;
      }
      case Index::Kind::Range:
        if (index.slice().step == 0) throw ValueError("at: a slice with a step of zero");
        result.x = slice(result.x, axis++, index.slice().begin, index.slice().end, index.slice().step);
        ++original;
        break;
      case Index::Kind::New: result.x = unsqueeze(result.x, axis++); break;
      case Index::Kind::Positions:
        if (!is_integer(index.tensor().dtype()))
          throw DTypeError(text("at: an index must hold integers, not ", index.tensor().dtype()));
        result.tensors.push_back(index.tensor());
        result.axes.push_back(axis++);
        ++original;
        break;
      case Index::Kind::Rest: break;
    }
  }
  return result;
}

// The elements of the first axes that the tensors choose together, as one axis of what they span.
Tensor choose(const Tensor& x, const std::vector<Tensor>& tensors) {
  if (tensors.size() == 1) return gather(x, tensors[0], 0);
  Tensor position;
  int64_t count = 1;
  for (size_t i = tensors.size(); i-- > 0;) {
    int64_t size = x.size(static_cast<int64_t>(i));
    Tensor at = cast(tensors[i], kI64);
    at = clamp(where(lt(at, 0), add(at, size), at), 0, std::max<int64_t>(size - 1, 0));
    at = mul(at, count);
    position = i + 1 == tensors.size() ? at : add(at, position);
    count *= size;
  }
  return gather(flatten(x, 0, static_cast<int64_t>(tensors.size()) - 1), position, 0);
}

}  // namespace

Tensor at(const Tensor& x, std::span<const Index> indices) {
  Basic basic = take_basic(x, complete(x, indices));
  size_t count = basic.tensors.size();
  if (count == 0) return basic.x;
  Shape spanned;
  for (const Tensor& tensor : basic.tensors) spanned = broadcast_shapes("at", spanned, tensor.node()->shape);
  for (Tensor& tensor : basic.tensors) tensor = Tensor(broadcast_to(tensor.node(), spanned));
  Axes from(basic.axes.begin(), basic.axes.end()), front;
  for (size_t i = 0; i < count; ++i) front.push_back(static_cast<int64_t>(i));
  Tensor result = choose(moveaxis(basic.x, from, front), basic.tensors);
  if (!basic.together || basic.place == 0 || spanned.rank() == 0) return result;
  Axes have, want;
  for (int i = 0; i < spanned.rank(); ++i) {
    have.push_back(i);
    want.push_back(basic.place + i);
  }
  return moveaxis(result, have, want);
}
Tensor at(const Tensor& x, std::initializer_list<Index> indices) {
  return at(x, std::span<const Index>(indices.begin(), indices.size()));
}
Tensor Tensor::at(std::initializer_list<Index> indices) const { return heddle::at(*this, indices); }

}  // namespace heddle
