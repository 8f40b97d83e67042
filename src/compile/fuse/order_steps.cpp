#include "compile/fuse/steps.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "base/contains.h"
#include "base/error.h"

namespace heddle {

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
        const int t = segment.tensors[b];
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
      const std::vector<int>& by = writers[t];
      needed.insert(needed.end(), by.begin(), by.end());
    }
    std::erase(needed, static_cast<int>(s));  // after other changes of the memory that it changes itself
    sort_unique(needed);
    sort_unique(graph.reads[s]);
    for (int other : needed) {
      graph.users[other].push_back(static_cast<int>(s));
      graph.depth[s] = std::max(graph.depth[s], graph.depth[other] + 1);
    }
    for (int t : graph.reads[s]) graph.passed[t].read.push_back(static_cast<int>(s));
    graph.needs[s] = static_cast<int>(needed.size());
  }
  for (size_t s = count; s-- > 0;) {
    for (int user : graph.users[s]) graph.height[s] = std::max(graph.height[s], graph.height[user] + 1);
    for (int t : graph.reads[s]) {
      int& last = graph.passed[t].last_height;
      last = std::min(last, graph.height[s]);
    }
  }
  return graph;
}

namespace {

// A step that may run, with what it adds to the bytes alive. The one that adds least is the greatest; those that would
// overwrite what others are still to read come last.
struct Ready {
  bool too_early;
  double added;
  int step;
  bool operator<(const Ready& other) const {
    if (too_early != other.too_early) return too_early;
    return added != other.added ? added > other.added : step > other.step;
  }
};

// For each step: the steps that overwrite a leaf which it reads, each once; how many such readers a step waits for; and
// whether it overwrites a leaf at all. Those also wait for all checks: a run that fails must have changed nothing.
struct Overwriting {
  std::vector<std::vector<int>> by;
  std::vector<int> waits;
  std::vector<bool> overwrites;
};
Overwriting overwriting(const Program& program) {
  Overwriting result{std::vector<std::vector<int>>(program.steps.size()), std::vector<int>(program.steps.size(), 0),
                     std::vector<bool>(program.steps.size(), false)};
  std::vector<int> writer(program.tensors.size(), -1);  // for each leaf, the step that writes over it
  auto for_each = [&](auto visit) {
    for (size_t s = 0; s < program.steps.size(); ++s)
      for (const Program::Segment& segment : program.steps[s].segments)
        for (int t : segment.tensors) visit(s, program.tensors[t], static_cast<size_t>(t));
  };
  for_each([&](size_t s, const Program::Tensor& tensor, size_t) {
    // The first step that has an output among its tensors writes it.
    if (tensor.replaces < 0 || writer[tensor.replaces] >= 0) return;
    writer[tensor.replaces] = static_cast<int>(s);
    result.overwrites[s] = true;
  });
  if (!contains(result.overwrites, true)) return result;
  for_each([&](size_t s, const Program::Tensor&, size_t t) {
    if (writer[t] >= 0 && writer[t] != static_cast<int>(s)) result.by[s].push_back(writer[t]);
  });
  for (std::vector<int>& list : result.by) {
    sort_unique(list);
    for (int s : list) ++result.waits[s];
  }
  return result;
}

}  // namespace

void order_steps(Program& program) {
  const size_t count = program.steps.size();
  if (count < 2) return;
  StepGraph graph = step_graph(program);
  std::vector<double> added(count, 0);
  std::vector<int> needs = graph.needs;
  std::vector<size_t> waiting;  // how many readers each passed tensor waits for
  for (const StepGraph::Passed& tensor : graph.passed) {
    waiting.push_back(tensor.read.size());
    if (tensor.read.size() == 1) added[tensor.read[0]] -= tensor.bytes;
  }
  for (size_t s = 0; s < count; ++s)
    for (int t : graph.writes[s]) added[s] += graph.passed[t].bytes;

  Overwriting over = overwriting(program);
  std::priority_queue<Ready> ready;
  std::vector<bool> done(count, false);
  size_t checking = 0;  // steps with checks that are still to come
  for (const Program::Step& step : program.steps) checking += !step.checks.empty();
  auto push = [&](size_t s) {
    if (needs[s] != 0 || done[s]) return;
    const bool others_check = over.overwrites[s] && checking > (program.steps[s].checks.empty() ? 0 : 1);
    ready.push({over.waits[s] > 0 || others_check, added[s], static_cast<int>(s)});
  };
  for (size_t s = 0; s < count; ++s) push(s);
  std::vector<Program::Step> ordered;
  while (!ready.empty()) {
    auto s = static_cast<size_t>(ready.top().step);
    ready.pop();
    if (done[s]) continue;  // was there twice, with an older number
    done[s] = true;
    const bool last_check = !program.steps[s].checks.empty() && --checking <= 1;
    ordered.push_back(std::move(program.steps[s]));
    for (size_t w = 0; w < count && last_check; ++w)
      if (over.overwrites[w]) push(w);
    for (int t : graph.reads[s]) {
      if (--waiting[t] != 1) continue;
      for (int last : graph.passed[t].read)
        if (!done[last]) {
          added[last] -= graph.passed[t].bytes;
          push(last);
        }
    }
    for (int user : graph.users[s]) {
      --needs[user];
      push(user);
    }
    for (int writer : over.by[s])
      if (--over.waits[writer] == 0) push(writer);
  }
  HD_ASSERT(ordered.size() == count, "steps wait for each other in a circle");
  program.steps = std::move(ordered);
}

void drop_checks(Program& program) {
  std::unordered_map<const Node*, std::vector<Expr>> known;  // of indices: the sizes that they fit
  for (Program::Step& step : program.steps) {
    std::vector<bool> needed(step.checks.size(), false);
    for (const Program::Step::Checked& checked : step.checked) {
      const std::vector<Expr>& sizes = known[checked.index];
      if (!contains(sizes, step.checks[checked.check].size)) needed[checked.check] = true;
    }
    for (const Program::Step::Checked& checked : step.checked)
      if (checked.whole) known[checked.index].push_back(step.checks[checked.check].size);
    if (step.checks.empty() || contains(needed, true)) continue;
    for (Stage& stage : step.loops.stages)
      std::erase_if(stage.body.insts, [](const kernel::Inst& inst) { return inst.op == kernel::Op::check; });
    step.loops.buffers.pop_back();  // that of checks
    step.checks.clear();
    step.checked.clear();
  }
}

}  // namespace heddle
