// Addresses in runs, against the address itself at every lane.
#include "expr/runs.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

constexpr int64_t kLanes = 16;

// How many runs were found; 0: none.
size_t check(const std::function<Expr(const Expr& column)>& address_of, int64_t columns) {
  Expr vector = Expr::index("v", (columns + kLanes - 1) / kLanes), lane = Expr::index("lane", kLanes);
  Expr column = vector * kLanes + lane, address = address_of(column);
  const int64_t biggest = columns - 1;
  std::optional<Runs> runs = runs_of(address, lane, columns - vector * kLanes, 5);
  if (!runs) return 0;
  EXPECT_EQ(runs->first.size(), runs->address.size());
  for (int64_t v = 0; v * kLanes < columns; ++v) {
    auto at = [&](const Expr& e, int64_t l) {
      return evaluate(e, [&](const Expr& var) { return var == vector ? v : l; });
    };
    // What columns that exist may reach.
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (int64_t c = 0; c <= biggest; ++c) {
      int64_t a = evaluate(address, [&](const Expr& var) { return var == vector ? c / kLanes : c % kLanes; });
      least = std::min(least, a), most = std::max(most, a);
    }
    for (int64_t l = 0; l < kLanes && v * kLanes + l < columns; ++l) {
      size_t j = runs->first.size() - 1;
      while (at(runs->first[j], 0) > l) --j;
      EXPECT_EQ(at(runs->address[j], 0) + runs->stride * l, at(address, l))
          << "column " << v * kLanes + l << ", run " << j;
    }
    for (const Expr& e : runs->address) {
      EXPECT_GE(at(e, 0) + runs->stride * kLanes, least) << "a run that nobody reaches lies far away";
      EXPECT_LE(at(e, 0), most);
    }
  }
  return runs->first.size();
}

TEST(Runs, rows_of_images) {
  EXPECT_EQ(check([](const Expr& c) { return c + 7; }, 400), 1u);
  EXPECT_EQ(check([](const Expr& c) { return c * 2; }, 400), 1u);
  EXPECT_EQ(check([](const Expr& c) { return floordiv(c, 49) * 1000 + mod(c, 49) - 8; }, 392), 2u);
  EXPECT_EQ(check([](const Expr& c) { return floordiv(c, 28) * 112 + mod(c, 28) * 2; }, 784), 2u);
  EXPECT_EQ(check([](const Expr& c) { return floordiv(c, 14) * 56 + mod(c, 14) * 2; }, 196), 2u);
  EXPECT_EQ(check([](const Expr& c) { return floordiv(c, 7) * 28 + mod(c, 7) * 2; }, 49), 4u);
  // Rows that start with a vector do not end within one.
  EXPECT_EQ(check([](const Expr& c) { return floordiv(c, 32) * 100 + mod(c, 32); }, 640), 1u);
}

TEST(Runs, rows_within_images) {
  auto strided = [](const Expr& c) { return floordiv(c, 196) * 5000 + mod(floordiv(c, 14), 14) * 56 + mod(c, 14) * 2; };
  EXPECT_EQ(check(strided, 392), 2u);
  auto nested = [](const Expr& c) { return floordiv(mod(c, 196), 14) * 56 + mod(mod(c, 196), 14) * 2; };
  EXPECT_EQ(check(nested, 392), 2u);
  EXPECT_EQ(check([](const Expr& c) { return floordiv(c + 3, 20) * 31 + mod(c + 3, 20); }, 100), 2u);
}

TEST(Runs, other_forms) {
  EXPECT_EQ(check([](const Expr& c) { return floordiv(c, 3) * 10 + mod(c, 3); }, 300), 0u) << "too many";
  EXPECT_EQ(check([](const Expr& c) { return floordiv(c * 2, 49) * 100 + mod(c * 2, 49); }, 300), 0u);
  EXPECT_EQ(check([](const Expr& c) { return floordiv(c, 49) * 100 + floordiv(c, 50); }, 300), 0u);
  EXPECT_EQ(check([](const Expr& c) { return floordiv(c, 49) * 100 + floordiv(c + 1, 49); }, 300), 0u);
  EXPECT_EQ(check([](const Expr& c) { return c * c; }, 300), 0u);
  EXPECT_EQ(check([](const Expr& c) { return min(c, 20); }, 300), 0u);
}

}  // namespace
}  // namespace heddle
