// One step of rewriting an expression.
#pragma once

#include <span>

#include "expr/expr.h"

namespace heddle {

// The operation of e on other operands, simplified. Constants and variables stay.
Expr rebuild(const Expr& e, std::span<const Expr> args);

}  // namespace heddle
