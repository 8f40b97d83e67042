#include "fuzz/ranges.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "graph/graph.h"

namespace heddle::fuzz {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLargest = std::numeric_limits<float>::max();
constexpr double kUlp = 0x1p-23, kLeast = 0x1p-149;
constexpr double kFunctionUlps = 4;  // of an elementary function: two by contract, in units of either neighbour

constexpr Range kOnlyNan{kInfinity, -kInfinity, true};
bool is_empty(const Range& r) { return r.lo > r.hi; }
bool has(const Range& r, double value) { return r.lo <= value && value <= r.hi; }
bool has_infinite(const Range& r) { return !is_empty(r) && (std::isinf(r.lo) || std::isinf(r.hi)); }
bool has_finite(const Range& r) { return !is_empty(r) && r.lo < kInfinity && r.hi > -kInfinity; }
Range with_zero(const Range& r) { return {std::min(r.lo, 0.0), std::max(r.hi, 0.0), r.nan}; }

Range hull(const Range& a, const Range& b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi), a.nan || b.nan}; }

// Rounding keeps the order, so bounds round to bounds. What is too large for f8e4m3, which has no infinity, is NaN.
Range rounded(DType dtype, const Range& r) {
  if (is_empty(r)) return r;
  double lo = Scalar::of(dtype, r.lo).f, hi = Scalar::of(dtype, r.hi).f;
  bool low = lo != lo, high = hi != hi;
  if (low && high && std::signbit(r.lo) == std::signbit(r.hi)) return kOnlyNan;
  double largest = upper_limit(dtype);
  return {low ? -largest : lo, high ? largest : hi, r.nan || low || high};
}

// The least and the greatest of f at the corners; f is monotone in each operand. NaN at a corner is noted.
template <class F>
Range corners(const Range& a, const Range& b, F f) {
  Range result{kInfinity, -kInfinity, a.nan || b.nan};
  if (is_empty(a) || is_empty(b)) return kOnlyNan;
  for (double x : {a.lo, a.hi})
    for (double y : {b.lo, b.hi}) {
      double value = f(x, y);
      if (value != value) {
        result.nan = true;
        continue;
      }
      result.lo = std::min(result.lo, value);
      result.hi = std::max(result.hi, value);
    }
  return result;
}

Range sum_of(const Range& a, const Range& b) {
  return corners(a, b, [](double x, double y) { return x + y; });
}
Range negated(const Range& a) { return {-a.hi, -a.lo, a.nan}; }
Range product_of(const Range& a, const Range& b) {
  Range result = corners(a, b, [](double x, double y) { return x * y; });
  if ((has(a, 0) && has_infinite(b)) || (has(b, 0) && has_infinite(a))) result.nan = true;
  return (has(a, 0) && has_finite(b)) || (has(b, 0) && has_finite(a)) ? with_zero(result) : result;
}
Range quotient_of(const Range& a, const Range& b) {
  if (is_empty(a) || is_empty(b)) return kOnlyNan;
  if (has(b, 0)) {  // the sign of a zero is not followed
    bool only_nan = a.lo == 0 && a.hi == 0 && b.lo == 0 && b.hi == 0;
    bool nan = a.nan || b.nan || has(a, 0) || (has_infinite(a) && has_infinite(b));
    return only_nan ? kOnlyNan : Range{-kInfinity, kInfinity, nan};
  }
  Range result = corners(a, b, [](double x, double y) { return x / y; });
  if (has_infinite(a) && has_infinite(b)) result.nan = true;
  return has_finite(a) && has_infinite(b) ? with_zero(result) : result;
}

// An elementary function that grows, within its error. `least`: where its domain begins.
template <class F>
Range function_of(const Range& x, double least, F f) {
  if (is_empty(x)) return kOnlyNan;
  Range result = x;
  if (x.lo < least) result.nan = true;
  if (x.hi < least) return kOnlyNan;
  double lo = f(std::max(x.lo, least)), hi = f(x.hi);
  auto widened = [](double value, double direction) {
    return value + direction * kFunctionUlps * (std::fabs(value) * kUlp + kLeast);
  };
  result.lo = std::isinf(lo) ? lo : widened(lo, -1);
  result.hi = std::isinf(hi) ? hi : widened(hi, 1);
  return rounded(DType::f32, result);
}

Range truth(bool may, bool may_not) { return {may_not ? 0.0 : 1.0, may ? 1.0 : 0.0, false}; }

Range compared(ScalarOp op, const Range& a, const Range& b) {
  bool nan = a.nan || b.nan, numbers = !is_empty(a) && !is_empty(b);
  bool point = numbers && a.lo == a.hi && b.lo == b.hi && a.lo == b.lo;
  switch (op) {
    case ScalarOp::lt: return truth(numbers && a.lo < b.hi, nan || !numbers || a.hi >= b.lo);
    case ScalarOp::le: return truth(numbers && a.lo <= b.hi, nan || !numbers || a.hi > b.lo);
    case ScalarOp::eq: return truth(numbers && a.lo <= b.hi && b.lo <= a.hi, nan || !point);
    default: return truth(nan || !point, numbers && a.lo <= b.hi && b.lo <= a.hi);  // ne
  }
}

struct Value {
  std::vector<int64_t> shape;
  std::vector<Range> elements;
  std::vector<Range> products;  // of a product: before it is rounded, as a sum may take it
};

int64_t count(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (int64_t dim : shape) n *= dim;
  return n;
}

class Ranges {
 public:
  explicit Ranges(const Alternatives& alternatives) : alternatives_(alternatives) {}

  const Value& of(const Node* wanted) {
    NodeRef root = NodeRef::share(wanted);
    for (const Node* node : topological(std::span(&root, 1))) {
      if (values_.count(node)) continue;
      Value value = compute(*node);
      if (auto other = alternatives_.find(node); other != alternatives_.end()) {
        const Value& second = of(other->second.get());
        for (size_t i = 0; i < value.elements.size(); ++i)
          value.elements[i] = hull(value.elements[i], second.elements[i]);
      }
      values_.emplace(node, std::move(value));
    }
    return values_.at(wanted);
  }

 private:
  const Value& operand(const Node& node, size_t i) const { return values_.at(node.inputs[i].get()); }

  Value compute(const Node& node) {
    Value result;
    for (const Expr& dim : node.shape) result.shape.push_back(dim.value());
    auto n = static_cast<size_t>(count(result.shape));
    switch (node.op) {
      case NodeOp::Const:
      case NodeOp::Buffer:
        for (size_t i = 0; i < n; ++i) {
          double value =
              (node.op == NodeOp::Const ? node.literal
                                        : load_scalar(node.storage->host_data(), static_cast<int64_t>(i), node.dtype))
                  .as_double();
          result.elements.push_back(value != value ? kOnlyNan : Range{value, value, false});
        }
        break;
      case NodeOp::Cast:
        for (const Range& x : operand(node, 0).elements) result.elements.push_back(rounded(node.dtype, x));
        break;
      case NodeOp::Scalar: elementwise(node, result, n); break;
      case NodeOp::Reduce: reduce(node, result, n); break;
      default: view(node, result, n);
    }
    return result;
  }

  // An element of a small float may be the rounded one or stay as f32 has it.
  static Range stored(DType dtype, const Range& exact) {
    Range wide = rounded(DType::f32, exact);
    return dtype == DType::f32 ? wide : hull(wide, rounded(dtype, wide));
  }

  void elementwise(const Node& node, Value& result, size_t n) {
    for (size_t i = 0; i < n; ++i) {
      auto x = [&](size_t k) { return operand(node, k).elements[i]; };
      Range exact;
      switch (node.scalar_op) {
        case ScalarOp::neg: exact = negated(x(0)); break;
        case ScalarOp::abs: {
          Range r = x(0);
          double least = has(r, 0) ? 0 : std::min(std::fabs(r.lo), std::fabs(r.hi));
          exact = is_empty(r) ? r : Range{least, std::max(std::fabs(r.lo), std::fabs(r.hi)), r.nan};
          break;
        }
        case ScalarOp::add: exact = sum_of(x(0), x(1)); break;
        case ScalarOp::sub: exact = sum_of(x(0), negated(x(1))); break;
        case ScalarOp::mul:
          exact = product_of(x(0), x(1));
          result.products.push_back(exact);
          break;
        case ScalarOp::div: exact = quotient_of(x(0), x(1)); break;
        case ScalarOp::sqrt:
          exact = x(0);
          if (!is_empty(exact) && exact.lo < 0) exact.nan = true;
          if (exact.hi < 0) exact = kOnlyNan;
          if (!is_empty(exact)) exact = {std::sqrt(std::max(exact.lo, 0.0)), std::sqrt(exact.hi), exact.nan};
          break;
        case ScalarOp::exp: exact = function_of(x(0), -kInfinity, [](double v) { return std::exp(v); }); break;
        case ScalarOp::exp2: exact = function_of(x(0), -kInfinity, [](double v) { return std::exp2(v); }); break;
        case ScalarOp::log: exact = function_of(x(0), 0, [](double v) { return std::log(v); }); break;
        case ScalarOp::log1p: exact = function_of(x(0), -1, [](double v) { return std::log1p(v); }); break;
        case ScalarOp::expm1: exact = function_of(x(0), -kInfinity, [](double v) { return std::expm1(v); }); break;
        case ScalarOp::tanh: exact = function_of(x(0), -kInfinity, [](double v) { return std::tanh(v); }); break;
        case ScalarOp::atan: exact = function_of(x(0), -kInfinity, [](double v) { return std::atan(v); }); break;
        case ScalarOp::maximum:
        case ScalarOp::minimum: {
          bool largest = node.scalar_op == ScalarOp::maximum;
          exact = corners(x(0), x(1), [&](double a, double b) { return largest ? std::max(a, b) : std::min(a, b); });
          break;
        }
        case ScalarOp::lt:
        case ScalarOp::le:
        case ScalarOp::eq:
        case ScalarOp::ne: result.elements.push_back(compared(node.scalar_op, x(0), x(1))); continue;
        case ScalarOp::where: {
          Range condition = x(0);
          exact = condition.lo == 1 ? x(1) : condition.hi == 0 ? x(2) : hull(x(1), x(2));
          break;
        }
        default: throw ValueError(text("ranges: ", info(node.scalar_op).name));
      }
      result.elements.push_back(stored(node.dtype, exact));
    }
  }

  void reduce(const Node& node, Value& result, size_t n) {
    const Value& x = operand(node, 0);
    std::vector<char> reduced(x.shape.size(), 0);
    for (const Expr& attr : node.attrs) reduced[static_cast<size_t>(attr.value())] = 1;
    std::vector<std::vector<Range>> rows(n);
    for (size_t i = 0; i < x.elements.size(); ++i) {
      size_t rest = i, row = 0, step = 1;
      for (size_t d = x.shape.size(); d-- > 0;) {
        auto size = static_cast<size_t>(x.shape[d]);
        if (!reduced[d]) {
          row += rest % size * step;
          step *= size;
        }
        rest /= size;
      }
      Range element = x.elements[i];
      if (node.reduce_op == ReduceOp::Sum && !x.products.empty()) element = hull(element, x.products[i]);
      rows[row].push_back(element);
    }
    for (const std::vector<Range>& row : rows) {
      if (node.reduce_op == ReduceOp::Sum) {
        result.elements.push_back(stored(node.dtype, any_order(row)));
        continue;
      }
      bool largest = node.reduce_op == ReduceOp::Max;
      Range best = row[0];
      for (const Range& r : row)
        best = corners(best, r, [&](double a, double b) { return largest ? std::max(a, b) : std::min(a, b); });
      result.elements.push_back(best);
    }
  }

  // A sum in any order, with partial sums in f32.
  static Range any_order(const std::vector<Range>& row) {
    double above = 0, below = 0, lo = 0, hi = 0, size = 0;
    bool nan = false, up = false, down = false;
    for (const Range& r : row) {
      if (is_empty(r)) return kOnlyNan;
      nan |= r.nan;
      up |= r.lo == kInfinity;
      down |= r.hi == -kInfinity;
      above += std::max(r.hi, 0.0);
      below += std::min(r.lo, 0.0);
      lo += std::isinf(r.lo) ? 0 : r.lo;
      hi += std::isinf(r.hi) ? 0 : r.hi;
      size += std::max(std::isinf(r.lo) ? 0 : std::fabs(r.lo), std::isinf(r.hi) ? 0 : std::fabs(r.hi));
    }
    double steps = static_cast<double>(row.size()) + 1;
    double error = steps * (size * kUlp + kLeast);
    bool may_rise = above + error > kLargest, may_fall = below - error < -kLargest;
    nan |= may_rise && may_fall;
    if (up && down) return kOnlyNan;
    if (up) return {kInfinity, kInfinity, nan};
    if (down) return {-kInfinity, -kInfinity, nan};
    return {may_fall ? -kInfinity : lo - error, may_rise ? kInfinity : hi + error, nan};
  }

  void view(const Node& node, Value& result, size_t n) {
    const Value& x = operand(node, 0);
    for (size_t i = 0; i < n; ++i) {
      size_t from = i;
      if (node.op == NodeOp::Permute || node.op == NodeOp::Expand) {
        std::vector<int64_t> at(result.shape.size()), there(x.shape.size());
        size_t rest = i;
        for (size_t d = at.size(); d-- > 0; rest /= static_cast<size_t>(result.shape[d]))
          at[d] = static_cast<int64_t>(rest % static_cast<size_t>(result.shape[d]));
        for (size_t d = 0; d < at.size(); ++d) {
          if (node.op == NodeOp::Permute)
            there[static_cast<size_t>(node.attrs[d].value())] = at[d];
          else
            there[d] = x.shape[d] == 1 ? 0 : at[d];
        }
        from = 0;
        for (size_t d = 0; d < there.size(); ++d)
          from = from * static_cast<size_t>(x.shape[d]) + static_cast<size_t>(there[d]);
      } else if (node.op != NodeOp::Reshape) {
        throw ValueError(text("ranges: ", name(node.op)));
      }
      result.elements.push_back(x.elements[from]);
      if (!x.products.empty()) result.products.push_back(x.products[from]);
    }
  }

  const Alternatives& alternatives_;
  std::unordered_map<const Node*, Value> values_;
};

}  // namespace

std::vector<std::vector<Range>> ranges(const std::vector<NodeRef>& roots, const Alternatives& alternatives) {
  Ranges all(alternatives);
  std::vector<std::vector<Range>> results;
  for (const NodeRef& root : roots) {
    std::vector<Range> elements = all.of(root.get()).elements;
    if (is_float(root->dtype))
      for (Range& r : elements) r = rounded(root->dtype, r);
    results.push_back(std::move(elements));
  }
  return results;
}

}  // namespace heddle::fuzz
