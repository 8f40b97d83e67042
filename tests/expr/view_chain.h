// Chains of movement operators, turned into index expressions the way the compiler does it: from the output's
// coordinates back to the source's, collecting a guard.
#pragma once

#include <functional>
#include <vector>

#include "expr/expr.h"

namespace heddle {

using Coordinates = std::vector<Expr>;

inline Expr flatten_row_major(const Coordinates& at, const Coordinates& shape) {
  Expr flat(0);
  for (size_t i = 0; i < at.size(); ++i) flat = flat * shape[i] + at[i];
  return flat;
}

inline Coordinates unflatten_row_major(Expr flat, const Coordinates& shape) {
  Coordinates at(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    at[i] = mod(flat, shape[i]);
    flat = floordiv(flat, shape[i]);
  }
  return at;
}

struct View {
  Coordinates source;  // the source's shape
  Coordinates shape;   // of the view
  struct Position {
    Coordinates at;
    Expr guard{1};
  };
  std::vector<std::function<void(Position&)>> steps;  // from output to source when run last to first

  explicit View(Coordinates s) : source(s), shape(std::move(s)) {}

  View& reshape(Coordinates to) {
    steps.push_back([from = shape, to](Position& p) { p.at = unflatten_row_major(flatten_row_major(p.at, to), from); });
    shape = std::move(to);
    return *this;
  }
  View& permute(std::vector<size_t> order) {
    Coordinates next(shape.size());
    for (size_t i = 0; i < order.size(); ++i) next[i] = shape[order[i]];
    steps.push_back([order](Position& p) {
      Coordinates before(order.size());
      for (size_t i = 0; i < order.size(); ++i) before[order[i]] = p.at[i];
      p.at = std::move(before);
    });
    shape = std::move(next);
    return *this;
  }
  View& expand(size_t axis, Expr size) {
    steps.push_back([axis](Position& p) { p.at[axis] = Expr(0); });
    shape[axis] = std::move(size);
    return *this;
  }
  View& pad(size_t axis, Expr before, Expr after) {
    steps.push_back([axis, before, size = shape[axis]](Position& p) {
      p.at[axis] = p.at[axis] - before;
      p.guard = logical_and(p.guard, logical_and(ge(p.at[axis], 0), lt(p.at[axis], size)));
    });
    shape[axis] = shape[axis] + before + after;
    return *this;
  }
  View& shrink(size_t axis, Expr begin, Expr end) {
    steps.push_back([axis, begin](Position& p) { p.at[axis] = p.at[axis] + begin; });
    shape[axis] = end - begin;
    return *this;
  }
  View& flip(size_t axis) {
    steps.push_back([axis, size = shape[axis]](Position& p) { p.at[axis] = size - 1 - p.at[axis]; });
    return *this;
  }
  // The axis becomes (positions, window size), a new last axis holding the window.
  View& window(size_t axis, Expr size, Expr stride, Expr dilation = 1) {
    steps.push_back([axis, stride, dilation](Position& p) {
      p.at[axis] = p.at[axis] * stride + p.at.back() * dilation;
      p.at.pop_back();
    });
    shape[axis] = floordiv(shape[axis] - (size - 1) * dilation - 1, stride) + 1;
    shape.push_back(std::move(size));
    return *this;
  }

  Position position(Coordinates at) const {
    Position p{std::move(at), Expr(1)};
    for (size_t i = steps.size(); i-- > 0;) steps[i](p);
    return p;
  }
  Position position_of_indices(const Coordinates& axes) const {
    Position p = position(axes);
    for (Expr& e : p.at) e = simplify_given(e, p.guard);
    return p;
  }
  Coordinates axes() const {
    static const char* const kNames[] = {"i", "j", "k", "l", "p", "q", "r", "s"};
    Coordinates result;
    for (size_t a = 0; a < shape.size(); ++a) result.push_back(Expr::index(kNames[a], shape[a]));
    return result;
  }
  // The element's place in the source's row-major memory.
  Expr offset(const Coordinates& axes) const {
    Position p = position(axes);
    return simplify_given(flatten_row_major(p.at, source), p.guard);
  }
};

}  // namespace heddle
