#include "tune/neighbours.h"

#include <gtest/gtest.h>

#include <set>

#include "kernels.h"
#include "runtime/device.h"
#include "tune/search.h"

namespace heddle {
namespace {

TEST(Neighbours, are_legal_different_and_survive_being_printed) {
  for (const auto& [name, workload] : testing::workloads()) {
    SCOPED_TRACE(name);
    const Target& target = device("cpu").target();
    std::mt19937_64 random(1);
    Schedule from = default_schedule(workload.loops, target);
    std::set<std::string> seen;
    for (int i = 0; i < 200; ++i) {
      Schedule next = neighbour(from, workload.loops, target, random);
      EXPECT_EQ(check(next, workload.loops, target), "");
      EXPECT_EQ(print(parse_schedule(print(next))), print(next));
      seen.insert(print(next));
      if (i % 3 == 0) from = next;  // walks away, too
    }
    EXPECT_GT(seen.size(), 60u);
  }
}

// Every candidate is compared with the default schedule: none may compute something else.
TEST(Neighbours, compute_the_same) {
  for (const auto& [name, workload] : testing::workloads()) {
    SCOPED_TRACE(name);
    SearchResult result = search(workload, device("cpu"), {.trials = 25, .seed = 3, .duel = 1e-3});
    EXPECT_GT(result.tried, 10);
    EXPECT_EQ(result.wrong, 0);
    EXPECT_LT(result.failed, result.tried / 2);
  }
}

}  // namespace
}  // namespace heddle
