// Loads and stores. Whatever is asked for, a kernel reads and writes only inside of its tensors.
#include "base/error.h"
#include "custom/trace.h"

namespace heddle {
namespace {

using kernel::Value;

struct Place {
  kernel::Builder::Access access;
  TileDims address_dims, dims;  // of the element, and of everything that says whether it is there
};

// Adds a variable for the data of a tile.
Expr bind(KernelTrace& trace, Place& place, Value data, int64_t lo, int64_t hi) {
  Expr var = Expr::symbol(text("v", trace.names_made++), lo, hi);
  place.access.binds.push_back(var);
  place.access.bound.push_back(data);
  return var;
}

// The element of a tensor at these positions. What the formulas do not show to be inside is guarded.
Place place_of(const char* what, KernelTrace& trace, int buffer, const std::vector<Tile>& at, const Tile& mask) {
  const Dims& shape = trace.shapes[static_cast<size_t>(buffer)];
  if (at.size() != shape.size())
    throw IndexError(text(what, ": ", at.size(), " positions for the ", shape.size(), " axes of ", shape));
  Place place;
  Expr address = 0, guard = 1;
  int64_t stride = 1;
  TileDims data_dims(kMostRanges, 1);
  for (size_t axis = shape.size(); axis-- > 0; stride *= shape[axis]) {
    const Tile& x = at[axis];
    const int64_t size = shape[axis];
    check_usable(what, trace, x);
    if (is_condition(x) || !is_integer(x.dtype()))
      throw DTypeError(text(what, ": the position along axis ", axis, " is ", x.describe(), ", not an integer"));
    Expr position;
    if (std::optional<Expr> formula = formula_of(x)) {
      position = *formula;
    } else {
      // The largest unsigned numbers must not become negative positions.
      Value data = data_of(trace, x);
      if (x.dtype() == DType::u64)
        data = trace.builder->op(ScalarOp::minimum, {data, trace.builder->constant(Scalar::of(DType::u64, INT64_MAX))});
      position = bind(trace, place, data, -(int64_t{1} << 62), int64_t{1} << 62);
      data_dims = joined(data_dims, trace.builder->type(data).shape);
    }
    guard = logical_and(guard, logical_and(ge(position, 0), lt(position, size)));
    if (!formula_of(x)) position = max(min(position, size - 1), 0);
    address = address + position * stride;
  }
  place.address_dims = joined(dims_of(trace, address), data_dims);

  check_usable(what, trace, mask);
  if (mask.dtype() != DType::boolean) throw DTypeError(text(what, ": the mask is ", mask.describe(), ", not bool"));
  if (std::optional<Expr> condition = formula_of(mask)) {
    guard = logical_and(guard, *condition);
  } else {
    const Value data = data_of(trace, mask);
    guard = logical_and(guard, ge(bind(trace, place, data, 0, 1), 1));
    data_dims = joined(data_dims, trace.builder->type(data).shape);
  }
  place.dims = joined(joined(place.address_dims, dims_of(trace, guard)), data_dims);
  check_size(what, place.dims);
  place.access.address = address;
  place.access.guard = guard;
  place.access.coords = coords_of(trace, place.dims);
  return place;
}

}  // namespace

int64_t KernelTensor::size(int64_t axis) const {
  const auto rank = static_cast<int64_t>(shape_.size());
  if (axis < -rank || axis >= rank)
    throw IndexError(text("size: axis ", axis, " is out of range for ", dtype_, shape_));
  return shape_[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
}

Tile KernelBuilder::load(const KernelTensor& x, const std::vector<Tile>& at, const Tile& mask, const Tile& other) {
  KernelTrace& trace = *trace_;
  if (x.trace_ != trace_) throw ValueError("load: a tensor of another kernel");
  if (trace.kernel.buffers[static_cast<size_t>(x.buffer_)].space == kernel::Space::Out)
    throw ValueError("load: a result cannot be read; keep the tile that is stored there, or use shared memory");
  const DType dtype = trace.kernel.buffers[static_cast<size_t>(x.buffer_)].dtype;
  const Place place = place_of("load", trace, x.buffer_, at, mask);
  check_usable("load", trace, other);
  kernel::Builder& builder = *trace.builder;
  const Value loaded = builder.load(x.buffer_, dtype, place.access);
  const bool zero = other.kind() != Tile::Kind::Value && other.kind() != Tile::Kind::Float
                        ? other.integer() == 0
                        : other.kind() == Tile::Kind::Float && other.real() == 0;
  if (zero || place.access.guard.is_const(1)) return make_data(trace_, loaded);
  const Value there = builder.index(DType::boolean, place.access.guard, place.access.coords);
  kernel::Inst& index = builder.code().insts.back();
  index.binds = place.access.binds;
  for (Value v : place.access.bound) index.args.push_back(v);
  const Value otherwise = data_of(trace, other, dtype);
  check_size("load", joined(place.dims, builder.type(otherwise).shape));
  return make_data(trace_, builder.op(ScalarOp::where, {there, loaded, otherwise}));
}

void KernelBuilder::store(const KernelTensor& y, const std::vector<Tile>& at, const Tile& value, const Tile& mask) {
  KernelTrace& trace = *trace_;
  if (y.trace_ != trace_) throw ValueError("store: a tensor of another kernel");
  if (trace.kernel.buffers[static_cast<size_t>(y.buffer_)].space == kernel::Space::In)
    throw ValueError("store: an input cannot be written; make an output");
  check_usable("store", trace, value);
  const Place place = place_of("store", trace, y.buffer_, at, mask);
  const Value data = data_of(trace, value, trace.kernel.buffers[static_cast<size_t>(y.buffer_)].dtype);
  const TileDims wanted = joined(place.dims, trace.builder->type(data).shape);
  for (size_t d = 0; d < wanted.size(); ++d)
    if (wanted[d] != place.address_dims[d])
      throw ShapeError(text("store: ", value.describe(), " has several values for one element of ", y.dtype_, y.shape_,
                            ": its place does not depend on range ", d));
  trace.builder->store(y.buffer_, spread(trace, data, place.dims), place.access);
}

}  // namespace heddle
