// Sums as linear combinations, the working form of the factories: constant + sum of coefficient * monomial.
// A monomial is an atom or a Mul of atoms without a constant. Terms are sorted by compare() of the monomial.
#pragma once

#include "base/small_vector.h"
#include "expr/node.h"

namespace heddle {

struct Term {
  Expr monomial;
  int64_t coefficient;
};

struct Sum {
  SmallVector<Term, 6> terms;
  int64_t constant = 0;
  bool overflow = false;  // a coefficient left int64: the sum is worthless

  Sum() = default;
  explicit Sum(const Expr& e) { add(e, 1); }

  void add(const Expr& e, int64_t scale);
  void add(const Sum& other, int64_t scale);
  void add_term(const Expr& monomial, int64_t coefficient);
  void add_constant(int64_t value, int64_t scale = 1);
};

// The expression of a sum, in canonical form. `operation` names the cause should it overflow.
Expr build(Sum sum, const char* operation = "addition");

// Replaces division and remainder of the same value by that value: (x // c) * c + x % c is x.
// True if anything changed.
bool recombine(Sum& sum);

// e == coefficient * monomial, for e that is no sum and no constant.
Term split_coefficient(const Expr& e);
Expr scaled(const Expr& monomial, int64_t coefficient);

// The atoms of a monomial.
std::span<const Expr> factors(const Expr& monomial);
Expr multiply_monomials(const Expr& a, const Expr& b);
// a / b where every factor of b is among those of a.
std::optional<Expr> divide_monomials(const Expr& a, const Expr& b);

bool is_symbolic(const Sum& sum);

// -sum + constant.
Sum negated(const Sum& sum, int64_t constant = 0);

}  // namespace heddle
