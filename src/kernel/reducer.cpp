// The monoids that the IR knows by name.
#include <limits>

#include "base/error.h"
#include "core/dtype.h"
#include "kernel/builder.h"

namespace heddle::kernel {
namespace {

// The value that loses against every other in maximum (largest) or minimum.
Scalar worst(bool largest, DType dtype) {
  if (is_float(dtype)) return Scalar::of(dtype, largest ? -upper_limit(dtype) : upper_limit(dtype));
  return dispatch(dtype, [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_same_v<T, bool>) {
      return Scalar::of(dtype, !largest);
    } else if constexpr (std::is_integral_v<T>) {
      T value = largest ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
      if constexpr (std::is_signed_v<T>)
        return Scalar::of(dtype, static_cast<int64_t>(value));
      else
        return Scalar::of(dtype, static_cast<uint64_t>(value));
    } else {
      return Scalar();
    }
  });
}

std::optional<Scalar> identity_of(ScalarOp op, DType dtype) {
  switch (op) {
    case ScalarOp::add: return Scalar::of(dtype, 0);
    case ScalarOp::mul: return Scalar::of(dtype, 1);
    case ScalarOp::maximum: return worst(true, dtype);
    case ScalarOp::minimum: return worst(false, dtype);
    case ScalarOp::bit_and: return dtype == DType::boolean ? Scalar::of(dtype, true) : Scalar::of(dtype, int64_t{-1});
    case ScalarOp::bit_or: return Scalar::of(dtype, 0);
    default: return std::nullopt;
  }
}

// `dtypes` twice as parameters: the left operand, then the right one.
void add_params(Reducer& reducer, std::span<const DType> dtypes) {
  for (int side = 0; side < 2; ++side)
    for (DType dtype : dtypes) {
      reducer.combine.params.push_back(static_cast<Value>(reducer.values.size()));
      reducer.values.push_back({dtype, {}});
    }
}

}  // namespace

std::shared_ptr<const Reducer> simple_reducer(ScalarOp op, DType dtype) {
  std::optional<Scalar> identity = identity_of(op, dtype);
  HD_ASSERT(identity, info(op).name, " is no simple reducer");
  auto reducer = std::make_shared<Reducer>();
  reducer->identity = {*identity};
  add_params(*reducer, {&dtype, 1});
  Builder b(reducer->values, reducer->combine);
  reducer->combine.results = {b.op(op, {0, 1})};
  return reducer;
}

std::shared_ptr<const Reducer> arg_reducer(bool largest, DType dtype, DType index) {
  auto reducer = std::make_shared<Reducer>();
  // The index of the identity is behind every other, so that an element as bad as the identity's value still wins.
  int64_t last = index == DType::i32 ? std::numeric_limits<int32_t>::max() : std::numeric_limits<int64_t>::max();
  reducer->identity = {worst(largest, dtype), Scalar::of(index, last)};
  const DType dtypes[] = {dtype, index};
  add_params(*reducer, dtypes);
  Builder b(reducer->values, reducer->combine);
  const Value left = 0, left_index = 1, right = 2, right_index = 3;
  // a is a better value than b: larger (smaller), or NaN where b is not.
  auto better = [&](Value a, Value other) {
    Value no_better = largest ? b.op(ScalarOp::le, {a, other}) : b.op(ScalarOp::le, {other, a});
    Value result = b.op(ScalarOp::bit_not, {no_better});
    return is_float(dtype) ? b.op(ScalarOp::bit_and, {result, b.op(ScalarOp::eq, {other, other})}) : result;
  };
  Value earlier = b.op(ScalarOp::lt, {right_index, left_index});
  Value no_worse_and_earlier = b.op(ScalarOp::bit_and, {earlier, b.op(ScalarOp::bit_not, {better(left, right)})});
  Value take_right = b.op(ScalarOp::bit_or, {better(right, left), no_worse_and_earlier});
  reducer->combine.results = {b.op(ScalarOp::where, {take_right, right, left}),
                              b.op(ScalarOp::where, {take_right, right_index, left_index})};
  return reducer;
}

std::shared_ptr<const Reducer> product_reducer(const Reducer& a, const Reducer& b) {
  auto reducer = std::make_shared<Reducer>(a);
  reducer->identity.insert(reducer->identity.end(), b.identity.begin(), b.identity.end());
  Value offset = static_cast<Value>(a.values.size());
  reducer->values.insert(reducer->values.end(), b.values.begin(), b.values.end());
  auto moved = [offset](Value v) { return v + offset; };
  // Parameters: the left tuple, then the right one.
  std::vector<Value>& params = reducer->combine.params;
  size_t left = a.width();
  std::vector<Value> others;
  for (Value v : b.combine.params) others.push_back(moved(v));
  auto middle = others.begin() + static_cast<long>(b.width());
  params.insert(params.end(), middle, others.end());
  params.insert(params.begin() + static_cast<long>(left), others.begin(), middle);
  for (Inst inst : b.combine.insts) {
    for (Value& v : inst.args) v = moved(v);
    for (Value& v : inst.results) v = moved(v);
    reducer->combine.insts.push_back(std::move(inst));
  }
  for (Value v : b.combine.results) reducer->combine.results.push_back(moved(v));
  return reducer;
}

std::shared_ptr<const Reducer> online_reducer(DType dtype) {
  auto reducer = std::make_shared<Reducer>();
  const Scalar zero = Scalar::of(dtype, 0);
  reducer->identity = {*identity_of(ScalarOp::maximum, dtype), zero};
  const DType dtypes[] = {dtype, dtype};
  add_params(*reducer, dtypes);
  Builder b(reducer->values, reducer->combine);
  const Value none = b.constant(zero),
              infinity = b.constant(Scalar::of(dtype, std::numeric_limits<double>::infinity()));
  auto shift = [&](Value maximum) {
    return b.op(ScalarOp::where, {b.op(ScalarOp::lt, {b.op(ScalarOp::abs, {maximum}), infinity}), maximum, none});
  };
  const Value left = 0, left_sum = 1, right = 2, right_sum = 3;
  // Only the sum beside the lesser maximum changes. Beside -inf it is 0, whatever the factor, which is never infinite.
  const Value apart = b.op(ScalarOp::abs, {b.op(ScalarOp::sub, {shift(left), shift(right)})});
  const Value factor = b.op(ScalarOp::exp, {b.op(ScalarOp::neg, {apart})}), first = b.op(ScalarOp::le, {right, left});
  auto either = [&](Value yes, Value no) { return b.op(ScalarOp::where, {first, yes, no}); };
  const Value lesser = b.op(ScalarOp::mul, {either(right_sum, left_sum), factor});
  reducer->combine.results = {b.op(ScalarOp::maximum, {left, right}),
                              b.op(ScalarOp::add, {either(left_sum, right_sum), lesser})};
  return reducer;
}

Scalar neutral(const Reducer& reducer, size_t k) {
  const Scalar& identity = reducer.identity[k];
  bool sum = is_float(identity.dtype) && simple_op(reducer) == ScalarOp::add;
  return sum ? Scalar::of(identity.dtype, -0.0) : identity;
}

std::optional<ScalarOp> simple_op(const Reducer& reducer) {
  const Body& combine = reducer.combine;
  if (reducer.width() != 1 || combine.params.size() != 2 || combine.insts.size() != 1 || combine.results.size() != 1)
    return std::nullopt;
  const Inst& inst = combine.insts[0];
  if (!is_scalar_op(inst.op) || inst.args.size() != 2 || inst.results.size() != 1) return std::nullopt;
  if (inst.args[0] != combine.params[0] || inst.args[1] != combine.params[1]) return std::nullopt;
  if (inst.results[0] != combine.results[0]) return std::nullopt;
  std::optional<Scalar> identity = identity_of(scalar_op(inst.op), reducer.identity[0].dtype);
  if (!identity || !(*identity == reducer.identity[0])) return std::nullopt;
  return scalar_op(inst.op);
}

}  // namespace heddle::kernel
