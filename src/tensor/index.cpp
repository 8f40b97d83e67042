#include "base/error.h"
#include "tensor/build.h"
#include "tensor/symbolic.h"

namespace heddle {

Tensor gather(const Tensor& x, const Tensor& index, int64_t axis) {
  int at = normalize_axis("gather", axis, x.rank());
  NodeRef n = x.node(), i = index.node();
  if (!is_integer(i->dtype)) throw DTypeError(text("gather: the index must hold integers, not ", i->dtype));
  if (known_size(n->shape[static_cast<size_t>(at)]) == 0 && index.numel() > 0)
    throw IndexError(text("gather: axis ", at, " of ", n->shape, " has no elements to choose from"));
  if (n->shape[static_cast<size_t>(at)].lo() == 0) n = with_number(n, at);  // a kernel for all sizes could not clamp
  const Expr& size = n->shape[static_cast<size_t>(at)];
  Tensor positions = index;
  if (is_signed(i->dtype)) {
    positions = cast(index, kI64);  // a narrow index could not hold its position counted from the front
    positions = where(lt(positions, 0), add(positions, Tensor(size_node(size, kI64))), positions);
  }
  return Tensor(make_gather(n, positions.node(), at));
}

}  // namespace heddle
