#include "compile/fuse/order_steps.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "base/contains.h"
#include "base/error.h"
#include "compile/fuse/step_graph.h"

namespace heddle {
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
  bool any = false;
  auto for_each = [&](auto visit) {
    for (size_t s = 0; s < program.steps.size(); ++s)
      for (const Program::Segment& segment : program.steps[s].segments)
        for (int t : segment.tensors) visit(s, program.tensors[static_cast<size_t>(t)], static_cast<size_t>(t));
  };
  for_each([&](size_t s, const Program::Tensor& tensor, size_t) {
    // The first step that has an output among its tensors writes it.
    if (tensor.replaces < 0 || writer[static_cast<size_t>(tensor.replaces)] >= 0) return;
    writer[static_cast<size_t>(tensor.replaces)] = static_cast<int>(s);
    result.overwrites[s] = true;
    any = true;
  });
  if (!any) return result;
  for_each([&](size_t s, const Program::Tensor&, size_t t) {
    if (writer[t] >= 0 && writer[t] != static_cast<int>(s)) result.by[s].push_back(writer[t]);
  });
  for (std::vector<int>& list : result.by) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    for (int s : list) ++result.waits[static_cast<size_t>(s)];
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
      auto& [left, sum] = waiting[static_cast<size_t>(t)];
      sum -= static_cast<int64_t>(s);
      if (--left != 1) continue;
      auto last = static_cast<size_t>(sum);
      added[last] -= graph.passed[static_cast<size_t>(t)].bytes;
      push(last);
    }
    for (int user : graph.users[s]) {
      --needs[static_cast<size_t>(user)];
      push(static_cast<size_t>(user));
    }
    for (int writer : over.by[s])
      if (--over.waits[static_cast<size_t>(writer)] == 0) push(static_cast<size_t>(writer));
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
