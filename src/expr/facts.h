// What is known about values: ranges, facts taken from a condition, and proofs from both.
#pragma once

#include <unordered_map>
#include <vector>

#include "expr/sum.h"

namespace heddle {

// A comparison, or comparisons joined.
inline bool is_guard(const Expr& e) {
  ExprKind k = e.kind();
  return k == ExprKind::Lt || k == ExprKind::Eq || k == ExprKind::And || k == ExprKind::Or || k == ExprKind::Not;
}

// Ranges under the facts in force in this thread (none, unless a FactScope is open).
Range range_of(const Expr& e);
Range range_of(const Sum& sum);

// True if sum >= 0 can be shown. Uses ranges, symbolic extents of indices and the facts in force.
bool prove_nonnegative(const Sum& sum);
// True if lo <= sum < lo + width can be shown.
bool prove_within(const Sum& sum, const Sum& lo, const Sum& width);

// The consequences of a condition.
class Facts {
 public:
  explicit Facts(const Expr& condition);

  bool contradictory() const { return contradictory_; }
  Range range(const Expr& e) const;
  Range range(const Sum& sum) const;
  // What the condition says about a guard as a whole, if anything.
  std::optional<bool> truth(const Expr& guard) const;
  // Sums known to be >= 0.
  const std::vector<Sum>& nonnegative() const { return nonnegative_; }

 private:
  struct Bound {
    Sum form;  // no constant
    Range range;
  };
  void learn(const Expr& conjunct);
  void learn_range(Sum form, Range range);
  void propagate();
  Range plain_range(const Sum& sum) const;
  Range bounded_range(const Sum& sum) const;

  std::unordered_map<Expr, bool> truths_;
  std::unordered_map<Expr, Range> atoms_;
  std::vector<Bound> bounds_;
  std::vector<Sum> nonnegative_;
  bool contradictory_ = false;
  mutable std::unordered_map<Expr, Range> known_;
};

// Puts facts in force for this thread while it lives.
class FactScope {
 public:
  explicit FactScope(const Facts* facts);
  ~FactScope();
  FactScope(const FactScope&) = delete;
  FactScope& operator=(const FactScope&) = delete;

 private:
  const Facts* outer_;
};

}  // namespace heddle
