// Tensors as text, the way NumPy prints them.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>

#include "graph/node.h"
#include "tensor/build.h"

namespace heddle {
namespace {

constexpr int64_t kThreshold = 1000, kEdge = 3, kWidth = 75;

struct Printer {
  NodeRef node;
  Dims shape;
  const void* data;
  bool elide;
  int precision = 0;       // digits after the point
  bool scientific = false;
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
    double v = s.as_double();
    if (std::isnan(v)) return "nan";
    if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, scientific ? "%.*e" : "%.*f", precision, v);
    std::string out = buffer;
    if (precision == 0 && !scientific) out += ".";
    return out;
  }

  void choose_format() {
    double largest = 0, smallest = INFINITY;
    bool any = false;
    visit(0, 0, [&](const Scalar& s) {
      double v = std::fabs(s.as_double());
      if (!is_float(s.dtype) || !std::isfinite(v)) return;
      any = true;
      largest = std::max(largest, v);
      if (v > 0) smallest = std::min(smallest, v);
    });
    if (any) {
      scientific = largest >= 1e8 || (std::isfinite(smallest) && (smallest < 1e-4 || largest / smallest > 1e3)) ;
      if (largest < 1e8 && std::isfinite(smallest) && smallest >= 1e-4 && largest / smallest <= 1e6) scientific = false;
      // As few digits as show the elements; at most the eight that NumPy shows, four for small floats.
      int limit = node->dtype == kF16 || node->dtype == kBF16 ? 4 : 8;
      visit(0, 0, [&](const Scalar& s) {
        double v = s.as_double();
        if (!is_float(s.dtype) || !std::isfinite(v)) return;
        precision = std::max(precision, digits(v, limit));
      });
    }
    visit(0, 0, [&](const Scalar& s) { width = std::max(width, format(s).size()); });
  }

  int digits(double v, int limit) const {
    char buffer[64];
    for (int p = 0; p < limit; ++p) {
      std::snprintf(buffer, sizeof buffer, scientific ? "%.*e" : "%.*f", p, v);
      double back = std::strtod(buffer, nullptr);
      bool same = node->dtype == kF64 ? back == v : static_cast<float>(back) == static_cast<float>(v);
      if (same) return p;
    }
    return limit;
  }

  std::string write(size_t axis, int64_t offset, size_t indent) const {
    if (axis == shape.size()) {
      std::string cell = format(load_scalar(data, offset, node->dtype));
      return std::string(width > cell.size() ? width - cell.size() : 0, ' ') + cell;
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
  tensor.realize();
  NodeRef node = tensor.node();
  Printer p{node, tensor.shape(), node->storage->host_data(), tensor.numel() > kThreshold};
  if (tensor.numel() == 0) {
    std::string out = "[]";
    if (p.shape.size() > 1) {
      out += "  # shape";
      for (size_t i = 0; i < p.shape.size(); ++i) out += (i ? ", " : " [") + std::to_string(p.shape[i]);
      out += "]";
    }
    return out;
  }
  p.choose_format();
  return p.write(0, 0, 0);
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << to_string(tensor); }

}  // namespace heddle
