#include "compile/fuse/step_graph.h"

#include <algorithm>
#include <limits>

namespace heddle {
namespace {

void sort_unique(std::vector<int>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

}  // namespace

StepGraph step_graph(const Program& program) {
  const size_t count = program.steps.size();
  StepGraph graph;
  graph.users.resize(count);
  graph.reads.resize(count);
  graph.writes.resize(count);
  graph.needs.assign(count, 0);
  graph.depth.assign(count, 0);
  graph.height.assign(count, 0);
  // The parts of a join are written by several steps.
  std::vector<std::vector<int>> writers(program.tensors.size());
  std::vector<int> number(program.tensors.size(), -1);
  for (size_t s = 0; s < count; ++s) {
    const Program::Step& step = program.steps[s];
    const auto& buffers = step.direct ? step.direct->buffers : step.loops.buffers;
    std::vector<int> needed;
    for (const Program::Segment& segment : step.segments)
      for (size_t b = 0; b < segment.tensors.size(); ++b) {
        auto t = static_cast<size_t>(segment.tensors[b]);
        const Program::Tensor& tensor = program.tensors[t];
        if (tensor.leaf) continue;
        if (buffers[b].space != kernel::Space::In) {
          const bool first = writers[t].empty();
          if (first || writers[t].back() != static_cast<int>(s)) writers[t].push_back(static_cast<int>(s));
          if (tensor.output || !first) continue;
          number[t] = static_cast<int>(graph.passed.size());
          double bytes = static_cast<double>(tensor.node->shape.numel().hi()) * size_of(tensor.node->dtype);
          graph.passed.push_back({bytes, std::numeric_limits<int>::max(), {}});
          graph.writes[s].push_back(number[t]);
        } else {
          needed.insert(needed.end(), writers[t].begin(), writers[t].end());
          if (number[t] >= 0) graph.reads[s].push_back(number[t]);
        }
      }
    for (int t : step.after) {
      const std::vector<int>& by = writers[static_cast<size_t>(t)];
      needed.insert(needed.end(), by.begin(), by.end());
    }
    std::erase(needed, static_cast<int>(s));  // after other changes of the memory that it changes itself
    sort_unique(needed);
    sort_unique(graph.reads[s]);
    for (int other : needed) {
      graph.users[static_cast<size_t>(other)].push_back(static_cast<int>(s));
      graph.depth[s] = std::max(graph.depth[s], graph.depth[static_cast<size_t>(other)] + 1);
    }
    for (int t : graph.reads[s]) graph.passed[static_cast<size_t>(t)].read.push_back(static_cast<int>(s));
    graph.needs[s] = static_cast<int>(needed.size());
  }
  for (size_t s = count; s-- > 0;) {
    for (int user : graph.users[s])
      graph.height[s] = std::max(graph.height[s], graph.height[static_cast<size_t>(user)] + 1);
    for (int t : graph.reads[s]) {
      int& last = graph.passed[static_cast<size_t>(t)].last_height;
      last = std::min(last, graph.height[s]);
    }
  }
  return graph;
}

}  // namespace heddle
