#include "compile/order_steps.h"

#include <queue>

#include "base/error.h"
#include "compile/step_graph.h"

namespace heddle {
namespace {

// A step that may run, with what it adds to the bytes alive. The one that adds least is the greatest.
struct Ready {
  double added;
  int step;
  bool operator<(const Ready& other) const { return added != other.added ? added > other.added : step > other.step; }
};

}  // namespace

void order_steps(Program& program) {
  const size_t count = program.steps.size();
  if (count < 3) return;
  StepGraph graph = step_graph(program);
  std::vector<double> added(count, 0);
  std::vector<int> needs = graph.needs;
  // For each passed tensor, how many readers it waits for and the sum of their numbers: of one, that is itself.
  std::vector<std::pair<int, int64_t>> waiting;
  for (const StepGraph::Passed& tensor : graph.passed) {
    int64_t sum = 0;
    for (int reader : tensor.read) sum += reader;
    waiting.emplace_back(static_cast<int>(tensor.read.size()), sum);
    if (tensor.read.size() == 1) added[static_cast<size_t>(sum)] -= tensor.bytes;
  }
  for (size_t s = 0; s < count; ++s)
    for (int t : graph.writes[s]) added[s] += graph.passed[static_cast<size_t>(t)].bytes;

  std::priority_queue<Ready> ready;
  std::vector<bool> done(count, false);
  for (size_t s = 0; s < count; ++s)
    if (needs[s] == 0) ready.push({added[s], static_cast<int>(s)});
  std::vector<Program::Step> ordered;
  while (!ready.empty()) {
    auto s = static_cast<size_t>(ready.top().step);
    ready.pop();
    if (done[s]) continue;  // was there twice, with an older number
    done[s] = true;
    ordered.push_back(std::move(program.steps[s]));
    for (int t : graph.reads[s]) {
      auto& [left, sum] = waiting[static_cast<size_t>(t)];
      sum -= static_cast<int64_t>(s);
      if (--left != 1) continue;
      auto last = static_cast<size_t>(sum);
      added[last] -= graph.passed[static_cast<size_t>(t)].bytes;
      if (needs[last] == 0) ready.push({added[last], static_cast<int>(last)});
    }
    for (int user : graph.users[s])
      if (--needs[static_cast<size_t>(user)] == 0) ready.push({added[static_cast<size_t>(user)], user});
  }
  HD_ASSERT(ordered.size() == count, "steps wait for each other in a circle");
  program.steps = std::move(ordered);
}

}  // namespace heddle
