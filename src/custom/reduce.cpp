// Ranges, reductions, products and loops.
#include "base/error.h"
#include "custom/trace.h"

namespace heddle {
namespace {

using kernel::Value;

bool is_small(DType dtype) { return size_of(dtype) < 4; }

// What sums are made in.
DType sum_dtype(DType dtype) {
  if (!is_small(dtype)) return dtype;
  return is_float(dtype) ? DType::f32 : DType::i64;
}

// A scalar as a tile of one element.
Value spread_to_rank(KernelTrace& trace, Value v) {
  return spread(trace, v, joined(TileDims(kMostRanges, 1), trace.builder->type(v).shape));
}

// With a value at each place of a range. What a tile was made from may depend on a range where the tile does not: a
// condition that always holds is one.
Value spread_over(const char* what, KernelTrace& trace, Value v, int range) {
  const auto axis = static_cast<size_t>(range);
  TileDims dims = joined(TileDims(kMostRanges, 1), trace.builder->type(v).shape);
  if (!trace.ranges[axis].is_var() || dims[axis] != 1) return v;
  dims[axis] = trace.ranges[axis].extent().value();
  check_size(what, dims);
  return spread(trace, v, dims);
}

TileDims without(TileDims dims, int range) {
  if (!dims.empty()) dims[static_cast<size_t>(range)] = 1;
  return dims;
}

}  // namespace

int range_number(const char* what, const KernelTrace& trace, const Tile& range) {
  check_usable(what, trace, range);
  if (range.kind() != Tile::Kind::Value || range.value()->range < 0)
    throw ValueError(text(what, ": ", range.describe(), " is no range; give what range() gave"));
  return range.value()->range;
}

Tile KernelBuilder::block(int64_t count) {
  KernelTrace& trace = *trace_;
  if (trace.closed) throw ValueError(text("block: kernel ", trace.name, " has been written already"));
  if (count < 0 || count >= int64_t{1} << 31) throw ValueError(text("block: a grid cannot have ", count, " blocks"));
  std::vector<Expr>& blocks = trace.kernel.phases[0].blocks;
  // Of none there is one, which stores nothing: there is no room for what it computes.
  Expr block = folded(Expr::index(text("b", blocks.size()), std::max<int64_t>(count, 1)));
  if (block.is_var()) blocks.push_back(block);
  return make_position(trace_, block, false, 0);
}

Tile KernelBuilder::range(int64_t size) {
  KernelTrace& trace = *trace_;
  if (trace.closed) throw ValueError(text("range: kernel ", trace.name, " has been written already"));
  if (size < 1 || size > kLargestTile)
    throw ValueError(text("range: a size of ", size, " is not between 1 and ", kLargestTile));
  if (trace.ranges.size() == kMostRanges)
    throw ValueError(text("range: kernel ", trace.name, " has ", kMostRanges, " ranges already; use a loop"));
  const int number = static_cast<int>(trace.ranges.size());
  trace.ranges.push_back(folded(Expr::index(text("d", number), size)));
  return Tile(std::make_shared<TileValue>(TileValue{trace_, 0, trace.ranges.back(), false, kernel::kNoValue, number}));
}

Tile KernelBuilder::full(const std::vector<Tile>& ranges, const Tile& number, DType dtype) {
  KernelTrace& trace = *trace_;
  if (number.kind() == Tile::Kind::Value) throw ValueError(text("full: ", number.describe(), " is no number"));
  TileDims dims(kMostRanges, 1);
  for (const Tile& range : ranges) {
    const int r = range_number("full", trace, range);
    if (trace.ranges[static_cast<size_t>(r)].is_var())
      dims[static_cast<size_t>(r)] = trace.ranges[static_cast<size_t>(r)].extent().value();
  }
  check_size("full", dims);
  check_usable("full", trace, number);
  return make_data(trace_, trace.builder->constant(scalar_of(number, dtype), dims));
}

Tile KernelBuilder::reduce(const char* name, const Tile& x, const Tile& range) {
  KernelTrace& trace = *trace_;
  const int axis = range_number(name, trace, range);
  check_usable(name, trace, x);
  if (x.kind() != Tile::Kind::Value) throw ValueError(text(name, ": ", x.describe(), " belongs to no kernel"));
  const std::string_view what = name;
  const bool adds = what == "sum" || what == "prod";
  const Value data = spread_over(name, trace, data_of(trace, x, adds ? sum_dtype(x.dtype()) : x.dtype()), axis);
  const kernel::Type type = trace.builder->type(data);
  if (!trace.ranges[static_cast<size_t>(axis)].is_var()) return make_data(trace_, data);  // of one element
  const ScalarOp op = what == "sum"    ? ScalarOp::add
                      : what == "prod" ? ScalarOp::mul
                      : what == "max"  ? ScalarOp::maximum
                                       : ScalarOp::minimum;
  return make_data(trace_,
                   trace.builder->reduce(std::span(&data, 1), axis, kernel::simple_reducer(op, type.dtype)).front());
}

Tile KernelBuilder::sum(const Tile& x, const Tile& range) { return reduce("sum", x, range); }
Tile KernelBuilder::prod(const Tile& x, const Tile& range) { return reduce("prod", x, range); }
Tile KernelBuilder::max(const Tile& x, const Tile& range) { return reduce("max", x, range); }
Tile KernelBuilder::min(const Tile& x, const Tile& range) { return reduce("min", x, range); }

Tile KernelBuilder::dot(const Tile& a, const Tile& b, const Tile& range, const std::optional<Tile>& acc) {
  KernelTrace& trace = *trace_;
  kernel::Builder& builder = *trace.builder;
  const int axis = range_number("dot", trace, range);
  check_usable("dot", trace, a);
  check_usable("dot", trace, b);
  if (acc) check_usable("dot", trace, *acc);
  DType dtype = promote(a.dtype(), b.dtype());
  if (dtype == DType::boolean) throw DTypeError(text("dot: ", a.describe(), " and ", b.describe(), " are no numbers"));
  if (is_small(dtype)) dtype = is_float(dtype) ? DType::f32 : DType::i32;
  Value left = spread_to_rank(trace, data_of(trace, a, dtype));
  const Value right = spread_to_rank(trace, data_of(trace, b, dtype));
  if (builder.type(right).shape[static_cast<size_t>(axis)] == 1) left = spread_over("dot", trace, left, axis);
  const TileDims dims = without(joined(builder.type(left).shape, builder.type(right).shape), axis);
  check_size("dot", dims);
  Value sum;
  if (acc) {
    if (acc->kind() == Tile::Kind::Value && acc->dtype() != dtype)
      throw DTypeError(text("dot: a sum of ", dtype, " cannot be added to ", acc->describe()));
    sum = data_of(trace, *acc, dtype);
    if (joined(dims, builder.type(sum).shape) != dims)
      throw ShapeError(text("dot: the sum", ranges_text(dims), " cannot be added to ", acc->describe()));
    sum = spread(trace, sum, dims);
  } else {
    sum = builder.constant(Scalar::of(dtype, 0), dims);
  }
  return make_data(trace_, builder.dot(left, right, sum, axis));
}

std::vector<Tile> KernelBuilder::loop(const Tile& start, const Tile& stop, int64_t step,
                                      const std::vector<Tile>& carried, const LoopBody& body) {
  KernelTrace& trace = *trace_;
  kernel::Builder& builder = *trace.builder;
  if (step < 1 || step > kLargestPosition) throw ValueError(text("loop: a step of ", step, " is not positive"));
  std::optional<Expr> bounds[2];
  for (int i = 0; i < 2; ++i) {
    const Tile& bound = i == 0 ? start : stop;
    check_usable("loop", trace, bound);
    bounds[i] = formula_of(bound);
    if (!bounds[i] || is_condition(bound))
      throw ValueError(
          text("loop: its bound ", bound.describe(), " is no position; data cannot decide how long it runs"));
    for (const Expr& range : trace.ranges)
      if (range.is_var() && depends_on(*bounds[i], range))
        throw ValueError(text("loop: its bound ", bound.describe(), " is different at each place of a range"));
  }
  std::vector<Value> init;
  for (const Tile& x : carried) {
    check_usable("loop", trace, x);
    const Value v = data_of(trace, x);
    init.push_back(spread_to_rank(trace, v));
  }
  auto given = [&](std::span<const Value> values) {
    std::vector<Tile> tiles;
    for (Value v : values) tiles.push_back(make_data(trace_, v));
    return tiles;
  };
  Expr count = heddle::max(ceildiv(*bounds[1] - *bounds[0], step), 0);
  if (count.hi() == 0) return given(init);
  const Expr var = folded(Expr::index(text("l", trace.names_made++), count.hi()));
  const int scope = trace.scopes_made++;
  auto inner = [&](std::span<const Value> params) {
    const std::vector<Tile> now = given(params);
    const std::vector<Tile> next = body(make_position(trace_, *bounds[0] + var * step, false, scope), now);
    if (next.size() != now.size())
      throw ValueError(text("loop: carries ", now.size(), " tiles, its body gives ", next.size()));
    std::vector<Value> values;
    for (size_t i = 0; i < next.size(); ++i) {
      check_usable("loop", trace, next[i]);
      const kernel::Type wanted = builder.type(params[i]);
      if (next[i].kind() == Tile::Kind::Value && next[i].dtype() != wanted.dtype)
        throw DTypeError(
            text("loop: tile ", i, " begins as ", now[i].describe(), ", the body gives ", next[i].describe()));
      const Value v = data_of(trace, next[i], wanted.dtype);
      if (joined(wanted.shape, builder.type(v).shape) != wanted.shape)
        throw ShapeError(text("loop: tile ", i, " begins as ", now[i].describe(), ", the body gives ",
                              next[i].describe(), "; begin with full()"));
      values.push_back(spread(trace, v, wanted.shape));
    }
    return values;
  };
  trace.scopes.push_back(scope);
  std::vector<Value> results;
  try {
    results = builder.loop(var, init, inner);
  } catch (...) {
    trace.closed = true;  // the body is incomplete
    throw;
  }
  trace.scopes.pop_back();
  builder.code().insts.back().extent = count;
  return given(results);
}

}  // namespace heddle
