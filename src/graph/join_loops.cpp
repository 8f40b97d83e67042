#include <algorithm>

#include "graph/build.h"
#include "graph/control.h"
#include "graph/graph.h"

namespace heddle {
namespace {

// Loops that run the same rounds: they begin with the same values, and their bodies were recorded together.
struct Family {
  std::vector<const Node*> members;
  std::vector<NodeRef> outputs;  // all that any of them stacks, each once
  std::vector<bool> wanted;      // results: carried, then outputs
};

bool same_rounds(const Node& a, const Node& b) {
  const Control &x = *a.control, &y = *b.control;
  auto carried = [](const Control& c) { return std::span(c.body().results).first(c.carried); };
  return a.inputs == b.inputs && x.carried == y.carried && x.stacked == y.stacked && x.length == y.length &&
         x.reverse == y.reverse && x.body().parameters == y.body().parameters &&
         std::ranges::equal(carried(x), carried(y)) &&
         (x.condition() ? y.condition() && *x.condition() == *y.condition() : !y.condition());
}

// The body of all members, and where their results are in it.
class Joined {
 public:
  explicit Joined(const Family& family) : loop_(*family.members[0]->control) {
    results_ = loop_.body().results;
    results_.resize(loop_.carried);
    results_.insert(results_.end(), family.outputs.begin(), family.outputs.end());
    wanted_ = family.wanted;
    find_needed();
    number_results();
  }

  NodeRef build(std::span<const NodeRef> inputs) const {
    auto control = std::make_shared<Control>();
    control->length = loop_.length;
    control->reverse = loop_.reverse;
    Region body;
    std::vector<NodeRef> kept;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!needed_[i]) continue;
      kept.push_back(inputs[i]);
      body.parameters.push_back(loop_.body().parameters[i]);
      if (i < loop_.carried) ++control->carried;
      if (i >= loop_.carried && i < loop_.carried + loop_.stacked) ++control->stacked;
    }
    for (size_t r = 0; r < results_.size(); ++r)
      if (wanted_[r]) body.results.push_back(results_[r]);
    control->regions.push_back(std::move(body));
    if (const Region* condition = loop_.condition()) {
      Region test{{}, condition->results};
      for (size_t i = 0; i < inputs.size(); ++i)
        if (needed_[i]) test.parameters.push_back(condition->parameters[i]);
      control->regions.push_back(std::move(test));
    }
    return make_loop(kept, control);
  }

  int place(size_t carried_or_output) const { return place_[carried_or_output]; }

 private:
  // Carried values that results, the condition or other carried values need; then all else that these read.
  void find_needed() {
    const Region& body = loop_.body();
    needed_.assign(body.parameters.size(), false);
    std::unordered_map<const Node*, size_t> number;
    for (size_t i = 0; i < body.parameters.size(); ++i) number[body.parameters[i].get()] = i;
    auto read = [&](std::span<const NodeRef> roots, const std::unordered_map<const Node*, size_t>& parameters) {
      for (const Node* node : topological(roots))
        if (auto found = parameters.find(node); found != parameters.end()) needed_[found->second] = true;
    };
    if (const Region* condition = loop_.condition()) {
      std::unordered_map<const Node*, size_t> of_condition;
      for (size_t i = 0; i < condition->parameters.size(); ++i) of_condition[condition->parameters[i].get()] = i;
      read(condition->results, of_condition);
    }
    for (size_t before = results_.size() + 1;;) {
      std::vector<NodeRef> roots;
      for (size_t r = 0; r < results_.size(); ++r) {
        if (r < loop_.carried) wanted_[r] = wanted_[r] || needed_[r];
        if (wanted_[r]) roots.push_back(results_[r]);
      }
      if (roots.size() == before) break;
      before = roots.size();
      read(roots, number);
    }
    for (size_t r = 0; r < loop_.carried; ++r) needed_[r] = wanted_[r];
  }

  void number_results() {
    int next = 0;
    for (bool wanted : wanted_) place_.push_back(wanted ? next++ : -1);
  }

  const Control& loop_;
  std::vector<NodeRef> results_;
  std::vector<bool> wanted_, needed_;
  std::vector<int> place_;
};

std::vector<Family> families_of(std::span<const NodeRef> roots, std::unordered_map<const Node*, size_t>& family_of) {
  std::vector<Family> families;
  std::unordered_map<const Node*, std::vector<size_t>> by_first;  // parameter, to compare few with each other
  std::vector<const Node*> order = topological(roots);
  for (const Node* node : order) {
    if (node->op != NodeOp::Loop || node->control->body().parameters.empty()) continue;
    std::vector<size_t>& near = by_first[node->control->body().parameters[0].get()];
    auto found =
        std::find_if(near.begin(), near.end(), [&](size_t f) { return same_rounds(*families[f].members[0], *node); });
    if (found == near.end()) {
      near.push_back(families.size());
      found = near.end() - 1;
      families.emplace_back();
    }
    Family& family = families[*found];
    family_of[node] = *found;
    family.members.push_back(node);
    const Control& loop = *node->control;
    for (size_t r = loop.carried; r < loop.body().results.size(); ++r)
      if (const NodeRef& y = loop.body().results[r];
          std::find(family.outputs.begin(), family.outputs.end(), y) == family.outputs.end())
        family.outputs.push_back(y);
  }
  for (Family& family : families)
    family.wanted.assign(family.members[0]->control->carried + family.outputs.size(), false);
  return families;
}

// A result of a member as one of the whole family.
size_t in_family(const Family& family, const Node& member, size_t result) {
  const Control& loop = *member.control;
  if (result < loop.carried) return result;
  auto found = std::find(family.outputs.begin(), family.outputs.end(), loop.body().results[result]);
  return loop.carried + static_cast<size_t>(found - family.outputs.begin());
}

}  // namespace

std::vector<NodeRef> join_loops(std::span<const NodeRef> roots) {
  std::unordered_map<const Node*, size_t> family_of;
  std::vector<Family> families = families_of(roots, family_of);
  if (families.empty()) return {roots.begin(), roots.end()};
  auto result_of = [&](const Node& get) { return static_cast<size_t>(get.attrs[0].value()); };
  for (const Node* node : topological(roots))
    if (node->op == NodeOp::Get)
      if (auto found = family_of.find(node->inputs[0].get()); found != family_of.end()) {
        Family& family = families[found->second];
        family.wanted[in_family(family, *node->inputs[0], result_of(*node))] = true;
      }
  std::vector<Joined> joined;
  for (const Family& family : families) joined.emplace_back(family);
  std::unordered_map<const Node*, NodeRef> loops;  // of members: what takes their places
  return rebuild_graph(roots, [&](const Node& node, std::span<const NodeRef> inputs) -> NodeRef {
    if (auto found = family_of.find(&node); found != family_of.end()) {
      NodeRef made = joined[found->second].build(inputs);
      loops[&node] = made;
      return made;
    }
    if (node.op != NodeOp::Get) return {};
    auto found = family_of.find(node.inputs[0].get());
    if (found == family_of.end()) return {};
    const Family& family = families[found->second];
    return make_get(loops.at(node.inputs[0].get()),
                    joined[found->second].place(in_family(family, *node.inputs[0], result_of(node))));
  });
}

}  // namespace heddle
