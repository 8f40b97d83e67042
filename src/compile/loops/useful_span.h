// Which part of an axis matters: masks that make the rest count for nothing.
#pragma once

#include "compile/loops/loops.h"

namespace heddle {

// From begin, before end; over the outer axes' variables.
struct Span {
  Expr begin, end;
};

// Where an element of the axis lies outside of the span, every stage that reduces over it adds nothing: its lift is the
// identity. Numbers that are not known count as finite: what is masked is left out even if it is NaN or infinite.
//
//   where(k <= q, s, -inf)   reduced with max over k    ends at q + 1
//   exp(where(k <= q, s, -inf) - m) * v   with add      ends at q + 1
Span useful_span(const Loops& loops, const Axis& axis);

// The part of the axis before `end` in which these conditions, which choose between values, all hold. Over the outer
// axes' variables.
struct Unmasked {
  Expr end;
  std::vector<kernel::Value> conditions;
};
Unmasked unmasked_part(const Loops& loops, const Axis& axis);

}  // namespace heddle
