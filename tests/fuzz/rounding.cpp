#include "fuzz/rounding.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "base/error.h"
#include "core/ops.h"
#include "graph/random_values.h"
#include "graph/strided.h"

namespace heddle::fuzz {
namespace {

using Errors = std::vector<double>;  // empty: zero everywhere
using Sizes = std::vector<int64_t>;
constexpr double kUnknown = std::numeric_limits<double>::infinity();

double number(const HostArray& array, size_t i) {
  if (is_float(array.dtype)) return array.floats[i];
  return is_signed(array.dtype) ? static_cast<double>(static_cast<int64_t>(array.integers[i]))
                                : static_cast<double>(array.integers[i]);
}

double at(const Errors& errors, size_t i) { return errors.empty() ? 0 : errors[i]; }

// Whole numbers and sixteenths so small that sums and products of a few are exact, in any order.
bool is_plain(double x, DType dtype) {
  double limit = std::ldexp(1.0, precision(dtype) - 5);
  return std::abs(x) <= limit && x * 16 == std::floor(x * 16);
}

// The relative error of one operation. Small floats are computed in f32 and rounded once; in others math functions may
// be a few units off.
double unit(DType dtype) { return size_of(dtype) < 4 ? std::ldexp(1.0, -precision(dtype)) : testing::unit(dtype); }

// What an element of this size loses when it is rounded, however small it is.
double rounding(double x, DType dtype) {
  if (!is_float(dtype) || !std::isfinite(x)) return 0;
  double smallest = dtype == DType::f16 ? 0x1p-24 : dtype == DType::f64 ? 0x1p-1000 : 0x1p-120;
  return unit(dtype) * std::abs(x) + smallest;
}

// Sums of small floats are made in f32.
double unit_of_sums(DType dtype) { return unit(size_of(dtype) < 4 ? DType::f32 : dtype); }

// A sum, and all that is needed to say how far off it may be.
struct Sum {
  double size = 0, error = 0, count = 0;
  bool plain = true;
  void add(double term, double term_error, DType dtype) {
    size += std::abs(term);
    error += term_error;
    ++count;
    plain &= term_error == 0 && is_plain(term, dtype);
  }
  double off(double result, DType dtype) const {
    if (!is_float(dtype) || (plain && is_plain(size, dtype))) return error;
    double steps = 1 + std::sqrt(count) / 4;
    return error + unit_of_sums(dtype) * steps * size + (count > 1 ? rounding(result, dtype) : 0);
  }
};

class Rounding {
 public:
  std::vector<Bounded> run(const std::vector<NodeRef>& roots) {
    std::vector<NodeRef> all;
    for (const Node* node : topological(roots)) all.push_back(NodeRef::share(node));
    for (size_t i = 0; i < all.size(); ++i) number_[all[i].get()] = i;
    values_ = evaluate(all);
    errors_.resize(all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      errors_[i] = compute(*all[i], i);
      if (std::none_of(errors_[i].begin(), errors_[i].end(), [](double e) { return e != 0; })) errors_[i].clear();
      open_overflows(*all[i], i);
    }
    std::vector<Bounded> result;
    for (const NodeRef& root : roots) {
      size_t i = number_.at(root.get());
      result.push_back({values_[i], errors_[i]});
      if (auto found = overflows_.find(i); found != overflows_.end())
        for (size_t k : found->second) result.back().error[k] = 0;  // a result is stored
    }
    return result;
  }

 private:
  const HostArray& value(const Node& node, size_t input) const { return values_[number_.at(node.inputs[input].get())]; }
  const Errors& error(const Node& node, size_t input) const { return errors_[number_.at(node.inputs[input].get())]; }
  static int64_t attr(const Node& node, size_t i) { return node.attrs[i].value(); }
  static Sizes attrs(const Node& node) {
    Sizes result;
    for (const Expr& attr : node.attrs) result.push_back(attr.value());
    return result;
  }

  Errors compute(const Node& node, size_t i) {
    switch (node.op) {
      case NodeOp::Const:
      case NodeOp::Buffer:
      case NodeOp::Input:
      case NodeOp::Iota: return {};
      case NodeOp::Scalar: return scalar(node, values_[i]);
      case NodeOp::Cast: return cast(node, values_[i]);
      case NodeOp::Bitcast: return error(node, 0).empty() ? Errors{} : unknown(values_[i]);
      case NodeOp::Reduce: return reduce(node, values_[i]);
      case NodeOp::ArgReduce: return arg_reduce(node, values_[i], positions_[&node]);
      case NodeOp::Sort: return sort(node, values_[i], positions_[&node]);
      case NodeOp::Scan: return scan(node, values_[i]);
      case NodeOp::Reshape:
      case NodeOp::To:
      case NodeOp::Barrier:
      case NodeOp::Pullback: return error(node, 0);
      case NodeOp::Permute:
      case NodeOp::Expand:
      case NodeOp::Shrink:
      case NodeOp::Flip:
      case NodeOp::Window: return view(node, values_[i]);
      case NodeOp::Pad:
      case NodeOp::Cat: return placed(node, values_[i]);
      case NodeOp::Unwindow: return unwindow(node, values_[i]);
      case NodeOp::Gather: return gather(node, values_[i]);
      case NodeOp::Scatter: return scatter(node, values_[i]);
      case NodeOp::Loop:
      case NodeOp::Cond:
      case NodeOp::Custom: HD_ASSERT(false, "what rounding does in ", name(node.op), " is not known");
      case NodeOp::Get: return attr(node, 0) == 0 ? error(node, 0) : positions_[node.inputs[0].get()];
    }
    __builtin_unreachable();
  }

  // What is too large for a small float becomes infinite only where it is stored: for those who read it the number may
  // be either. The infinities that operands have, and those of casts, are there in any case.
  void open_overflows(const Node& node, size_t i) {
    const HostArray& out = values_[i];
    if (!is_float(out.dtype) || size_of(out.dtype) >= 4 || !may_overflow(node)) return;
    for (size_t k = 0; k < out.floats.size(); ++k) {
      if (std::isfinite(out.floats[k]) || !(at(errors_[i], k) < kUnknown) || made_of_infinite(node, k)) continue;
      if (errors_[i].empty()) errors_[i].assign(out.floats.size(), 0);
      errors_[i][k] = kUnknown;
      overflows_[i].push_back(k);
    }
  }
  static bool may_overflow(const Node& node) {
    switch (node.op) {
      case NodeOp::Scalar: return node.scalar_op != ScalarOp::where;
      case NodeOp::Reduce:
      case NodeOp::Scan: return node.reduce_op == ReduceOp::Sum || node.reduce_op == ReduceOp::Prod;
      case NodeOp::Scatter: return node.scatter_op == ScatterOp::Add || node.scatter_op == ScatterOp::Mul;
      case NodeOp::Unwindow: return true;
      default: return false;
    }
  }
  // Whether the operands of an element are enough to make it infinite, or NaN. Known of single operations.
  bool made_of_infinite(const Node& node, size_t k) const {
    if (node.op != NodeOp::Scalar) return false;
    double values[3];
    for (size_t j = 0; j < node.inputs.size(); ++j) values[j] = number(value(node, j), k);
    return !std::isfinite(apply_double(node.scalar_op, std::span(values, node.inputs.size())));
  }

  static Errors unknown(const HostArray& out) { return Errors(static_cast<size_t>(out.numel()), kUnknown); }

  Errors scalar(const Node& node, const HostArray& out) const {
    size_t count = static_cast<size_t>(out.numel()), arity = node.inputs.size();
    Errors result(count, 0);
    double values[3], errors[3];
    const OpRule rule = info(node.scalar_op).rule;
    for (size_t i = 0; i < count; ++i) {
      bool certain = true;
      for (size_t k = 0; k < arity; ++k) {
        values[k] = number(value(node, k), i);
        errors[k] = at(error(node, k), i);
        certain &= errors[k] == 0;
      }
      if (!is_float(out.dtype) || rule == OpRule::Logic || rule == OpRule::Shift)
        result[i] = certain ? 0 : undecided(node, rule, values, errors);
      else if (node.scalar_op == ScalarOp::where)
        result[i] = chosen(values, errors);
      else
        result[i] = arithmetic(node, std::span(values, arity), errors, certain);
    }
    return result;
  }

  // Of integers and conditions: nothing but yes or no can be off by one.
  static double undecided(const Node& node, OpRule rule, const double* values, const double* errors) {
    if (rule == OpRule::Compare) return std::abs(values[0] - values[1]) > errors[0] + errors[1] ? 0 : 1;
    if (node.scalar_op == ScalarOp::where) return chosen(values, errors);
    return node.dtype == DType::boolean ? 1 : kUnknown;
  }

  static double chosen(const double* values, const double* errors) {
    if (errors[0] == 0) return values[0] != 0 ? errors[1] : errors[2];
    return std::abs(values[1] - values[2]) + std::max(errors[1], errors[2]);
  }

  static double arithmetic(const Node& node, std::span<double> values, const double* errors, bool certain) {
    ScalarOp op = node.scalar_op;
    double here = apply_double(op, values), off = 0;
    bool plain = certain && is_plain(here, node.dtype);
    for (size_t k = 0; k < values.size(); ++k) {
      plain = plain && is_plain(values[k], node.dtype);
      if (errors[k] == 0) continue;
      if (!(errors[k] < kUnknown)) return kUnknown;
      if (op == ScalarOp::div && k == 1 && std::abs(values[k]) <= errors[k]) return kUnknown;
      double middle = values[k], most = 0;
      for (double moved : {middle - errors[k], middle + errors[k]}) {
        values[k] = moved;
        double there = apply_double(op, values);
        most = std::max(most, there == here ? 0 : std::abs(there - here));
        if (!(std::abs(there - here) < kUnknown) && there != here) most = kUnknown;
      }
      values[k] = middle;
      off += most;
    }
    // All at once: a product of two errors counts where both factors are zero.
    if (off < kUnknown && !certain) {
      for (double sign : {-1.0, 1.0}) {
        double moved[3];
        for (size_t k = 0; k < values.size(); ++k) moved[k] = values[k] + sign * errors[k];
        double there = std::abs(apply_double(op, std::span(moved, values.size())) - here);
        if (there > off) off = there;
      }
    }
    switch (op) {
      case ScalarOp::neg:
      case ScalarOp::abs:
      case ScalarOp::floor:
      case ScalarOp::ceil:
      case ScalarOp::trunc:
      case ScalarOp::round:
      case ScalarOp::minimum:
      case ScalarOp::maximum: return off;
      case ScalarOp::add:
      case ScalarOp::sub:
      case ScalarOp::mul:
      case ScalarOp::fma:
        if (plain) return 0;
        break;
      default: break;
    }
    // A sum of terms that cancel is as exact as the larger term only where it is made of one multiply-add.
    double size = here;
    if (op == ScalarOp::fma) size = std::abs(values[0] * values[1]) + std::abs(values[2]);
    return off + rounding(size, node.dtype);
  }

  Errors cast(const Node& node, const HostArray& out) const {
    const HostArray& x = value(node, 0);
    const Errors& from = error(node, 0);
    size_t count = static_cast<size_t>(out.numel());
    Errors result(count, 0);
    bool narrower = is_float(x.dtype) && is_float(out.dtype) && precision(out.dtype) < precision(x.dtype);
    for (size_t i = 0; i < count; ++i) {
      double e = at(from, i), v = number(x, i);
      if (out.dtype == DType::boolean)
        result[i] = e > 0 && std::abs(v) <= e ? 1 : 0;
      else if (!is_float(out.dtype))
        result[i] = e == 0 ? 0 : std::trunc(v + e) - std::trunc(v - e);
      else
        result[i] = e + (narrower && e > 0 ? rounding(v, out.dtype) : 0);  // what is certain rounds alike
    }
    return result;
  }

  Errors reduce(const Node& node, const HostArray& out) const {
    const HostArray& x = value(node, 0);
    const Errors& from = error(node, 0);
    size_t count = static_cast<size_t>(out.numel());
    const Strided places = result_seen(out.shape, x.shape.size(), attrs(node));
    Errors result(count, 0);
    if (node.reduce_op == ReduceOp::Sum) {
      std::vector<Sum> sums(count);
      for_each_place(x.shape, places, [&](size_t i, size_t to) { sums[to].add(number(x, i), at(from, i), out.dtype); });
      for (size_t i = 0; i < count; ++i) result[i] = sums[i].off(number(out, i), out.dtype);
    } else if (node.reduce_op == ReduceOp::Prod) {
      std::vector<double> with(count, 1), without(count, 1), steps(count, 0);
      for_each_place(x.shape, places, [&](size_t i, size_t to) {
        with[to] *= std::abs(number(x, i)) + at(from, i);
        without[to] *= std::abs(number(x, i));
        ++steps[to];
      });
      for (size_t i = 0; i < count; ++i)
        result[i] = with[i] - without[i] + steps[i] * rounding(number(out, i), out.dtype);
    } else if (!from.empty()) {
      result = extreme(node.reduce_op == ReduceOp::Max ? 1 : -1, x, from, out, places);
    }
    return result;
  }

  // The largest that any element can be, and what the largest is at least.
  static Errors extreme(double sign, const HostArray& x, const Errors& from, const HostArray& out,
                        const Strided& places) {
    size_t count = static_cast<size_t>(out.numel());
    Errors high(count, -kUnknown), low(count, -kUnknown), result(count, 0);
    for_each_place(x.shape, places, [&](size_t i, size_t to) {
      high[to] = std::max(high[to], sign * number(x, i) + at(from, i));
      low[to] = std::max(low[to], sign * number(x, i) - at(from, i));
    });
    for (size_t i = 0; i < count; ++i) {
      double middle = sign * number(out, i);
      if (high[i] != low[i]) result[i] = std::max(high[i] - middle, middle - low[i]);
    }
    return result;
  }

  Errors arg_reduce(const Node& node, const HostArray& out, Errors& positions) const {
    const HostArray& x = value(node, 0);
    const Errors& from = error(node, 0);
    positions.assign(static_cast<size_t>(out.numel()), 0);
    if (from.empty()) return {};
    double sign = node.reduce_op == ReduceOp::Max ? 1 : -1;
    const Strided places = result_seen(out.shape, x.shape.size(), attrs(node));
    Errors result = extreme(sign, x, from, out, places);
    std::vector<int> close(positions.size(), 0);
    for_each_place(x.shape, places, [&](size_t i, size_t to) {
      if (sign * number(x, i) + at(from, i) >= sign * number(out, to) - result[to]) ++close[to];
    });
    for (size_t i = 0; i < close.size(); ++i) positions[i] = close[i] > 1 ? kUnknown : 0;
    return result;
  }

  Errors sort(const Node& node, const HostArray& out, Errors& positions) const {
    const HostArray& x = value(node, 0);
    const Errors& from = error(node, 0);
    size_t n = static_cast<size_t>(x.shape.back()), kept = static_cast<size_t>(out.shape.back());
    size_t count = static_cast<size_t>(out.numel());
    positions.assign(count, 0);
    if (from.empty() || kept == 0) return {};
    Errors result(count, 0);
    for (size_t row = 0; row < count / kept; ++row) {
      double most = *std::max_element(from.begin() + static_cast<std::ptrdiff_t>(row * n),
                                      from.begin() + static_cast<std::ptrdiff_t>((row + 1) * n));
      for (size_t k = 0; k < kept; ++k) {
        double v = number(out, row * kept + k);
        result[row * kept + k] = most;
        int close = 0;
        for (size_t j = 0; j < n; ++j) close += std::abs(number(x, row * n + j) - v) <= 2 * most;
        if (close > 1) positions[row * kept + k] = kUnknown;
      }
    }
    return result;
  }

  Errors scan(const Node& node, const HostArray& out) const {
    const HostArray& x = value(node, 0);
    const Errors& from = error(node, 0);
    size_t axis = static_cast<size_t>(attr(node, 0));
    size_t step = static_cast<size_t>(strides_of(out.shape)[axis]), n = static_cast<size_t>(out.shape[axis]);
    size_t count = static_cast<size_t>(out.numel());
    Errors result(count, 0);
    for (size_t first = 0; n > 0 && first < count; ++first) {
      if (first / step % n != 0) continue;
      Sum sum;
      double with = 1, without = 1, most = 0;
      for (size_t k = 0; k < n; ++k) {
        size_t i = first + k * step;
        double v = number(x, i), e = at(from, i);
        sum.add(v, e, out.dtype);
        with *= std::abs(v) + e;
        without *= std::abs(v);
        most = std::max(most, e);
        if (node.reduce_op == ReduceOp::Sum)
          result[i] = sum.off(number(out, i), out.dtype);
        else if (node.reduce_op == ReduceOp::Prod)
          result[i] = with - without + static_cast<double>(k + 1) * rounding(number(out, i), out.dtype);
        else
          result[i] = most;
      }
    }
    return result;
  }

  Errors view(const Node& node, const HostArray& out) const {
    const Errors& from = error(node, 0);
    if (from.empty()) return {};
    const Strided places = seen_by(node.op, value(node, 0).shape, attrs(node));
    Errors result(static_cast<size_t>(out.numel()), 0);
    for_each_place(out.shape, places, [&](size_t i, size_t place) { result[i] = from[place]; });
    return result;
  }

  Errors placed(const Node& node, const HostArray& out) const {
    Errors result(static_cast<size_t>(out.numel()), 0);
    Strided places{strides_of(out.shape)};
    for (size_t i = 0; node.op == NodeOp::Pad && i < out.shape.size(); ++i)
      places.start += attr(node, 2 * i) * places.steps[i];
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const Errors& from = error(node, k);
      if (!from.empty())
        for_each_place(value(node, k).shape, places, [&](size_t i, size_t place) { result[place] = from[i]; });
      if (node.op != NodeOp::Cat) break;
      size_t axis = static_cast<size_t>(attr(node, 0));
      places.start += value(node, k).shape[axis] * places.steps[axis];
    }
    return result;
  }

  Errors unwindow(const Node& node, const HostArray& out) const {
    const HostArray& x = value(node, 0);
    std::vector<Sum> sums(static_cast<size_t>(out.numel()));
    const Strided places = windows(strides_of(out.shape), attrs(node));
    for_each_place(x.shape, places,
                   [&](size_t i, size_t place) { sums[place].add(number(x, i), at(error(node, 0), i), out.dtype); });
    Errors result(sums.size(), 0);
    for (size_t i = 0; i < sums.size(); ++i) result[i] = sums[i].off(number(out, i), out.dtype);
    return result;
  }

  Errors gather(const Node& node, const HostArray& out) const {
    const HostArray &x = value(node, 0), &index = value(node, 1);
    if (!error(node, 1).empty()) return unknown(out);
    const Errors& from = error(node, 0);
    if (from.empty()) return {};
    size_t axis = static_cast<size_t>(attr(node, 0));
    int64_t n = x.shape[axis], step = strides_of(x.shape)[axis];
    auto place = [&](size_t i) {
      return std::clamp<int64_t>(static_cast<int64_t>(index.integers[i]), 0, n - 1) * step;
    };
    Errors result(static_cast<size_t>(out.numel()), 0);
    Strided places{strides_of(x.shape)};
    if (attr(node, 1) != 0) {
      places.steps[axis] = 0;
      for_each_place(out.shape, places,
                     [&](size_t i, size_t base) { result[i] = from[base + static_cast<size_t>(place(i))]; });
      return result;
    }
    size_t inner = static_cast<size_t>(step), many = static_cast<size_t>(index.numel());
    for (size_t i = 0; i < result.size(); ++i) {
      size_t before = i / (many * inner), which = i / inner % many;
      result[i] = from[before * static_cast<size_t>(n) * inner + static_cast<size_t>(place(which)) + i % inner];
    }
    return result;
  }

  Errors scatter(const Node& node, const HostArray& out) const {
    const HostArray &base = value(node, 0), &index = value(node, 1), &updates = value(node, 2);
    if (!error(node, 1).empty()) return unknown(out);
    size_t axis = static_cast<size_t>(attr(node, 0)), count = static_cast<size_t>(out.numel());
    Errors result(count, 0);
    std::vector<Sum> sums(count);
    for (size_t i = 0; i < count; ++i) {
      result[i] = at(error(node, 0), i);
      sums[i].add(number(base, i), result[i], out.dtype);
    }
    Strided places{strides_of(out.shape)};
    int64_t step = std::exchange(places.steps[axis], 0);
    for_each_place(index.shape, places, [&](size_t i, size_t place) {
      int64_t chosen = static_cast<int64_t>(index.integers[i]);
      if (chosen < 0 || chosen >= out.shape[axis]) return;
      size_t to = place + static_cast<size_t>(chosen * step);
      double e = at(error(node, 2), i);
      sums[to].add(number(updates, i), e, out.dtype);
      if (node.scatter_op == ScatterOp::Set)
        result[to] = e;
      else
        result[to] = node.scatter_op == ScatterOp::Mul ? kUnknown : std::max(result[to], e);
    });
    for (size_t i = 0; node.scatter_op == ScatterOp::Add && i < count; ++i) {
      const Sum& sum = sums[i];
      bool exact = !is_float(out.dtype) || (sum.plain && is_plain(sum.size, out.dtype));
      result[i] = sum.error + (exact ? 0 : sum.count * rounding(sum.size, out.dtype));
    }
    return result;
  }

  std::unordered_map<const Node*, size_t> number_;
  std::vector<HostArray> values_;
  std::vector<Errors> errors_;
  std::unordered_map<size_t, std::vector<size_t>> overflows_;  // elements whose infinity a small float makes
  std::unordered_map<const Node*, Errors> positions_;          // second results of ArgReduce and Sort
};

}  // namespace

std::vector<Bounded> evaluate_bounded(const std::vector<NodeRef>& roots) { return Rounding().run(roots); }

double evaluation_work(const std::vector<NodeRef>& roots) {
  double work = 0;
  for (const Node* node : topological(roots)) {
    double elements = static_cast<double>(node->shape.static_numel());
    for (const NodeRef& input : node->inputs)
      elements = std::max(elements, static_cast<double>(input->shape.static_numel()));
    work += elements;
  }
  return work;
}

// Beyond it sums overflow, which for small floats are in f32.
double largest_number(DType dtype) { return dtype == kF64 ? DBL_MAX : dtype == kF16 ? 65504 : FLT_MAX; }

Comparison compare(const Bounded& want, const HostArray& got) {
  const HostArray& value = want.value;
  if (value.dtype != got.dtype) return {text("dtype ", got.dtype, " instead of ", value.dtype)};
  if (value.shape != got.shape) return {"another shape"};
  size_t count = static_cast<size_t>(value.numel()), wrong = 0, worst = 0, loose = 0;
  double largest = 0, most = 0;
  for (size_t i = 0; i < count; ++i)
    if (std::isfinite(number(value, i))) largest = std::max(largest, std::abs(number(value, i)));
  for (size_t i = 0; i < count; ++i) {
    double a = number(value, i), b = number(got, i), tolerance = 2 * at(want.error, i);
    loose += !(tolerance <= 0.05 * largest) && tolerance > 0;
    if (a == b || !(tolerance < kUnknown) || (std::isnan(a) && std::isnan(b))) continue;
    // Where the largest number is within reach sums may overflow on the way.
    if (largest + tolerance > largest_number(value.dtype) / 16 && !std::isfinite(b)) continue;
    double off = std::abs(a - b) / std::max(tolerance, 1e-300);
    if (off <= 1) continue;
    ++wrong;
    if (off > most || std::isnan(off)) {
      most = off;
      worst = i;
    }
  }
  Comparison result{"", 2 * loose > count};
  if (wrong > 0)
    result.wrong =
        text(wrong, " of ", count, " elements are wrong; element ", worst, " is ", number(got, worst), " instead of ",
             number(value, worst), ", where ", 2 * at(want.error, worst), " is allowed and the largest is ", largest);
  return result;
}

}  // namespace heddle::fuzz
