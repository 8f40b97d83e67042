// Tensors as text, the way NumPy prints them.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <ostream>

#include "base/error.h"
#include "graph/node.h"
#include "tensor/build.h"
#include "tensor/recording.h"
#include "tensor/together.h"

namespace heddle {
namespace {

constexpr int64_t kThreshold = 1000, kEdge = 3, kWidth = 75;
constexpr int kPrecision = 8;  // digits behind the point, at most

std::string formatted(const char* format, int digits, double v) {
  char buffer[400];
  std::snprintf(buffer, sizeof buffer, format, digits, v);
  return buffer;
}

// The fewest significant digits that read back as the same value of the dtype.
int significant_digits(const Scalar& s) {
  for (int n = 1; n < 17; ++n)
    if (Scalar::of(s.dtype, std::strtod(formatted("%.*e", n - 1, s.f).c_str(), nullptr)) == s) return n;
  return 17;
}

int decimal_exponent(double v) {
  return v == 0 ? 0 : std::atoi(formatted("%.*e", 17, v).substr(formatted("%.*e", 17, v).find('e') + 1).c_str());
}

// A number cut at the point and at the exponent.
struct Parts {
  std::string whole, fraction, exponent;
};

Parts split(const std::string& digits) {
  size_t e = std::min(digits.find('e'), digits.size()), point = std::min(digits.find('.'), e);
  Parts parts{digits.substr(0, point), digits.substr(point, e - point), digits.substr(e)};
  if (!parts.fraction.empty()) parts.fraction.erase(0, 1);
  return parts;
}

Parts number_parts(const Scalar& s, bool scientific) {
  int digits = significant_digits(s);
  if (scientific) return split(formatted("%.*e", std::min(digits - 1, kPrecision), s.f));
  int behind = std::clamp(digits - 1 - decimal_exponent(s.f), 0, kPrecision);
  Parts parts = split(formatted("%.*f", behind, s.f));
  while (!parts.fraction.empty() && parts.fraction.back() == '0') parts.fraction.pop_back();
  return parts;
}

std::string special_text(double v) { return std::isnan(v) ? "nan" : v < 0 ? "-inf" : "inf"; }

// A single float, as Python prints it.
std::string float_text(const Scalar& s) {
  if (!std::isfinite(s.f)) return special_text(s.f);
  int digits = significant_digits(s), exponent = decimal_exponent(s.f);
  if (s.f != 0 && (exponent < -4 || exponent >= 16)) return formatted("%.*e", digits - 1, s.f);
  return formatted("%.*f", std::max(digits - 1 - exponent, 1), s.f);
}

struct Printer {
  NodeRef node;
  Dims shape;
  const void* data;
  bool elide;
  bool scientific = false;
  size_t before = 0, behind = 0;  // characters on both sides of the point
  size_t width = 0;

  // Calls f(i) for the positions of an axis that are shown, f(-1) for the gap.
  template <class F>
  void positions(size_t axis, F f) const {
    int64_t n = shape[axis];
    bool gap = elide && n > 2 * kEdge;
    for (int64_t i = 0; i < n; ++i) {
      if (gap && i == kEdge) {
        f(int64_t{-1});
        i = n - kEdge;
      }
      f(i);
    }
  }

  template <class F>
  void visit(size_t axis, int64_t offset, F f) const {
    if (axis == shape.size()) {
      f(load_scalar(data, offset, node->dtype));
      return;
    }
    positions(axis, [&](int64_t i) {
      if (i >= 0) visit(axis + 1, offset * shape[axis] + i, f);
    });
  }

  std::string format(const Scalar& s) const {
    if (s.dtype == kBool) return s.as_bool() ? "True" : "False";
    if (!is_float(s.dtype)) return to_string(s);
    if (!std::isfinite(s.f)) return special_text(s.f);
    Parts parts = number_parts(s, scientific);
    // Fixed numbers line up at the point; scientific ones all have the same digits.
    parts.fraction.resize(behind, scientific ? '0' : ' ');
    return parts.whole + "." + parts.fraction + parts.exponent;
  }

  void choose_format() {
    double largest = 0, smallest = std::numeric_limits<double>::infinity();
    visit(0, 0, [&](const Scalar& s) {
      if (!is_float(s.dtype) || !std::isfinite(s.f) || s.f == 0) return;
      largest = std::max(largest, std::fabs(s.f));
      smallest = std::min(smallest, std::fabs(s.f));
    });
    scientific = largest > 0 && (largest >= 1e8 || smallest < 1e-4 || largest / smallest > 1000);
    visit(0, 0, [&](const Scalar& s) {
      if (is_float(s.dtype) && std::isfinite(s.f))
        behind = std::max(behind, number_parts(s, scientific).fraction.size());
    });
    visit(0, 0, [&](const Scalar& s) { width = std::max(width, format(s).size()); });
  }

  std::string write(size_t axis, int64_t offset, size_t indent) const {
    if (axis == shape.size()) {
      std::string cell = format(load_scalar(data, offset, node->dtype));
      return std::string(width - cell.size(), ' ') + cell;
    }
    std::string out = "[";
    bool last = axis + 1 == shape.size();
    size_t column = indent + 1;
    bool first = true;
    positions(axis, [&](int64_t i) {
      std::string part = i < 0 ? "..." : write(axis + 1, offset * shape[axis] + i, indent + 1);
      if (!first) {
        if (last && column + 1 + part.size() < kWidth) {
          out += " ";
          ++column;
        } else {
          size_t lines = last ? 1 : shape.size() - axis - 1;
          out += std::string(lines, '\n') + std::string(indent + 1, ' ');
          column = indent + 1;
        }
      }
      out += part;
      column += part.size();
      first = false;
    });
    return out + "]";
  }
};

}  // namespace

std::string to_string(const Tensor& tensor) {
  refuse_in_capture("printing a tensor", tensor);
  NodeRef node = realized(tensor);
  const int64_t count = node->shape.known_numel();
  Printer p{node, Tensor(node).shape(), node->storage->host_data(), count > kThreshold};
  if (count == 0) {
    std::string out = "[]";
    if (p.shape.size() > 1) out += text("  # shape ", p.shape);
    return out;
  }
  if (p.shape.empty()) {
    Scalar s = load_scalar(p.data, 0, node->dtype);
    return is_float(s.dtype) ? float_text(s) : p.format(s);
  }
  p.choose_format();
  return p.write(0, 0, 0);
}

namespace {

std::ostream& write_list(std::ostream& out, const std::vector<int64_t>& numbers) {
  out << "[";
  for (size_t i = 0; i < numbers.size(); ++i) out << (i > 0 ? ", " : "") << numbers[i];
  return out << "]";
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Dims& sizes) { return write_list(out, sizes); }
std::ostream& operator<<(std::ostream& out, const Axes& axes) { return write_list(out, axes); }
std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << to_string(tensor); }

}  // namespace heddle
