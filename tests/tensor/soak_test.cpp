// A million small graphs, realised one after the other: nothing grows.
#include <fstream>

#include "base/sanitizers.h"
#include "graph/node.h"
#include "helpers.h"

namespace heddle {
namespace {

using namespace testing;

constexpr bool kSanitized = HD_ADDRESS_SANITIZER || HD_THREAD_SANITIZER;
constexpr int kGraphs = kSanitized ? 20'000 : 1'000'000;  // everything is many times slower under sanitizers

double resident_kb() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::stod(line.substr(6));
  return 0;
}

Tensor small_graph(int number, const Tensor& x, const Tensor& y, const Tensor& index) {
  switch (number % 8) {
    case 0: return x + y;
    case 1: return x.sum({1});
    case 2: return softmax(x * 2, -1);
    case 3: return transpose(x) + 1;
    case 4: return gather(x, index);
    case 5: return cumsum(x, 0);
    case 6: return where(x > y, x, number * 0.5);  // a number that keeps changing
    default: return max(x - y, {0});
  }
}

TEST(Soak, a_million_small_graphs_leave_nothing_behind) {
  Tensor x = noise_tensor({4, 8}), y = noise_tensor({4, 8}, 2), index = from_vector<int64_t>({3, 0, 1}, {3});
  size_t nodes = 0;
  double resident = 0;
  for (int i = 0; i < kGraphs; ++i) {
    small_graph(i, x, y, index).realize();
    if (i != kGraphs / 10) continue;
    nodes = live_nodes();
    resident = resident_kb();
  }
  EXPECT_LE(live_nodes(), nodes + 8);
  // A sanitizer keeps freed memory for a while.
  EXPECT_LE(resident_kb(), resident + (kSanitized ? 256 * 1024 : 1024));
}

}  // namespace
}  // namespace heddle
