// Derivatives of control flow.
//
// A loop is differentiated by a loop that runs its rounds the other way: it carries the gradients of the carried
// values, and reads what the rounds computed. That is kept by another loop of the same rounds with more results;
// join_loops() makes one of the two. Values that take little arithmetic are computed again from others that are kept.
#include <algorithm>

#include "base/error.h"
#include "graph/arithmetic.h"
#include "graph/control.h"
#include "graph/gradient.h"
#include "graph/graph.h"
#include "graph/vmap.h"

namespace heddle {
using namespace arithmetic;

namespace {

using NodeSet = std::unordered_set<const Node*>;
using Replaced = std::unordered_map<const Node*, NodeRef>;

NodeRef zeros_like(const NodeRef& x) { return like(x, 0); }

double elements(const NodeRef& x) { return static_cast<double>(x->shape.numel().hi()); }

// The nodes of a graph that depend on some of them.
NodeSet dependents(std::span<const NodeRef> roots, std::span<const NodeRef> on) {
  NodeSet found;
  for (const NodeRef& node : on)
    if (node) found.insert(node.get());
  for (const Node* node : topological(roots))
    for (const NodeRef& input : node->inputs)
      if (found.contains(input.get())) found.insert(node);
  return found;
}

NodeRef below_views(NodeRef node) {
  while (info(node->op).kind == NodeKind::Movement && node->inputs.size() == 1) node = node->inputs[0];
  return node;
}

// What the rounds of a loop backwards need to know of those forwards.
class Kept {
 public:
  // `free`: parameters that are there anyway; `late`: nodes that depend on what arrives.
  Kept(std::span<const NodeRef> roots, const Region& body, NodeSet free, const NodeSet& late)
      : known_(std::move(free)) {
    NodeSet forward = dependents(roots, body.parameters);
    std::vector<NodeRef> needed;
    auto need = [&](const NodeRef& node) {
      if (late.contains(node.get()) || !forward.contains(node.get())) return;
      needed.push_back(below_views(node));
    };
    const std::vector<const Node*> order = topological(roots);
    for (const Node* node : order)
      if (late.contains(node))
        for (const NodeRef& input : node->inputs) need(input);
    for (const NodeRef& root : roots) need(root);
    // First what cannot be computed again without a reduction, a gather, a carried value.
    for (const NodeRef& node : needed)
      if (!is_arithmetic(*node)) keep(node);
    std::unordered_map<const Node*, NodeRef> wanted;
    for (const NodeRef& node : needed) wanted[node.get()] = node;
    for (const Node* node : order)  // inputs first
      if (auto found = wanted.find(node);
          found != wanted.end() && is_arithmetic(*node) && cost(*node, forward) > kMostAgain)
        keep(found->second);
  }

  std::vector<NodeRef> values;

 private:
  static constexpr int kMostAgain = 6;  // operations

  static bool is_arithmetic(const Node& node) { return info(node.op).kind == NodeKind::Elementwise; }

  void keep(const NodeRef& node) {
    if (known_.insert(node.get()).second) values.push_back(node);
  }
  // So many operations compute the node again from what is known; more than kMostAgain if that is not worth it.
  int cost(const Node& node, const NodeSet& forward) const {
    std::vector<const Node*> pending{&node};
    NodeSet seen;
    int total = 0;
    while (!pending.empty() && total <= kMostAgain) {
      const Node* next = pending.back();
      pending.pop_back();
      if (known_.contains(next) || !forward.contains(next) || !seen.insert(next).second) continue;
      const bool arithmetic = is_arithmetic(*next), view = info(next->op).kind == NodeKind::Movement;
      if (!arithmetic && !view) return kMostAgain + 1;
      if (next->op == NodeOp::Scalar && !info(next->scalar_op).native) return kMostAgain + 1;
      total += arithmetic;
      for (const NodeRef& input : next->inputs) pending.push_back(input.get());
    }
    return total;
  }

  NodeSet known_;
};

// The gradient of a value that all rounds read is a sum over the rounds. Where a round's part is itself a sum of
// products, it takes less to keep the factors of all rounds and to sum over everything at once afterwards: the weight
// of a recurrent layer, whose part is as large as the weight.
struct Term {
  NodeRef value;              // a round's part, or one of several that add up to it
  std::vector<NodeRef> cuts;  // what it is computed from
};

std::vector<NodeRef> terms_of(const NodeRef& part) {
  std::vector<NodeRef> terms, pending{part};
  while (!pending.empty()) {
    NodeRef next = pending.back();
    pending.pop_back();
    if (next->op == NodeOp::Scalar && next->scalar_op == ScalarOp::add)
      pending.insert(pending.end(), next->inputs.begin(), next->inputs.end());
    else
      terms.push_back(next);
  }
  return terms;
}

// Nothing if the term is no sum. What does not depend on a gradient (`late`) was kept as it is.
std::vector<NodeRef> factors_of(const NodeRef& term, const NodeSet& late) {
  NodeRef sum = below_views(term);
  if (sum->op != NodeOp::Reduce || sum->reduce_op != ReduceOp::Sum) return {};
  std::vector<NodeRef> cuts, pending{sum->inputs[0]};
  while (!pending.empty()) {
    NodeRef next = below_views(pending.back());
    pending.pop_back();
    if (next->op == NodeOp::Const || next->op == NodeOp::Iota) continue;
    const bool product = next->op == NodeOp::Scalar && next->scalar_op == ScalarOp::mul;
    const bool cast = next->op == NodeOp::Cast && is_float(next->inputs[0]->dtype);
    if ((product || cast) && late.contains(next.get()))
      pending.insert(pending.end(), next->inputs.begin(), next->inputs.end());
    else if (std::find(cuts.begin(), cuts.end(), next) == cuts.end())
      cuts.push_back(next);
  }
  return cuts;
}

class LoopGradient {
 public:
  LoopGradient(const Node& node, std::span<const NodeRef> arriving, std::span<const bool> wanted)
      : node_(node), loop_(*node.control), body_(loop_.body()), arriving_(arriving), wanted_(wanted) {}

  void run(std::span<NodeRef> result) {
    differentiate_body();
    keep_forward();
    build_backward();
    for (size_t i = 0; i < result.size(); ++i)
      if (wanted_[i]) result[i] = gradient_of_input(i);
  }

 private:
  // Gradients of one round's results with respect to its parameters. Which carried values have gradients at all follows
  // from itself: what arrives at the end, and what that depends on in the round before.
  void differentiate_body() {
    const size_t results = body_.results.size();
    cotangents_.resize(results);
    auto add = [&](size_t r) {
      const NodeRef& value = body_.results[r];
      if (!cotangents_[r] && is_float(value->dtype)) cotangents_[r] = placeholder_like(*value);
    };
    for (size_t r = 0; r < results; ++r)
      if (arriving_[r]) add(r);
    std::vector<NodeRef> inputs;
    std::vector<size_t> places;
    for (size_t i = 0; i < body_.parameters.size(); ++i)
      if (is_float(body_.parameters[i]->dtype) && (i < loop_.carried || wanted_[i])) {
        inputs.push_back(body_.parameters[i]);
        places.push_back(i);
      }
    for (bool again = true; again;) {
      std::vector<NodeRef> outputs, arrive;
      for (size_t r = 0; r < results; ++r)
        if (cotangents_[r]) {
          outputs.push_back(body_.results[r]);
          arrive.push_back(cotangents_[r]);
        }
      std::vector<NodeRef> found = gradient(outputs, arrive, inputs);
      gradients_.assign(body_.parameters.size(), NodeRef());
      again = false;
      for (size_t k = 0; k < places.size(); ++k) {
        gradients_[places[k]] = found[k];
        if (!found[k] || places[k] >= loop_.carried || cotangents_[places[k]]) continue;
        add(places[k]);
        again = true;
      }
    }
  }

  // The loop again, with what the rounds backwards want to know.
  void keep_forward() {
    for (const NodeRef& g : gradients_)
      if (g) roots_.push_back(g);
    late_ = dependents(roots_, cotangents_);
    NodeSet free;
    for (size_t i = loop_.carried; i < body_.parameters.size(); ++i) free.insert(body_.parameters[i].get());
    Kept kept(roots_, body_, std::move(free), late_);
    kept_ = std::move(kept.values);
    if (kept_.empty()) return;
    auto more = std::make_shared<Control>(loop_);
    more->regions[0].results.insert(more->regions[0].results.end(), kept_.begin(), kept_.end());
    NodeRef forward = make_loop(std::vector<NodeRef>(node_.inputs.begin(), node_.inputs.end()), more);
    for (size_t s = 0; s < kept_.size(); ++s)
      stacks_[kept_[s].get()] = make_get(forward, static_cast<int>(body_.results.size() + s));
  }

  // Which gradients of captured values are summed over the rounds afterwards, the largest first: what one of them has
  // stacked is there for the others.
  void choose_hoisted() {
    for (size_t i = loop_.carried; i < loop_.carried + loop_.stacked; ++i)
      stacks_[body_.parameters[i].get()] = node_.inputs[i];
    std::vector<size_t> captured;
    for (size_t i = loop_.carried + loop_.stacked; i < gradients_.size(); ++i)
      if (gradients_[i]) captured.push_back(i);
    std::stable_sort(captured.begin(), captured.end(),
                     [&](size_t a, size_t b) { return elements(gradients_[a]) > elements(gradients_[b]); });
    for (size_t i : captured) {
      std::vector<Term> terms;
      std::vector<NodeRef> fresh;
      double more = 0;
      bool possible = true;
      for (const NodeRef& value : terms_of(gradients_[i])) {
        Term& term = terms.emplace_back(Term{value, factors_of(value, late_)});
        possible = possible && !term.cuts.empty();
        for (const NodeRef& cut : term.cuts) {
          const bool outside = is_captured_parameter(cut.get());
          if (outside || stacks_.contains(cut.get()) || std::find(fresh.begin(), fresh.end(), cut) != fresh.end())
            continue;
          fresh.push_back(cut);
          more += elements(cut);
        }
      }
      if (!possible || more >= elements(gradients_[i])) continue;
      for (const NodeRef& cut : fresh) {
        stacks_[cut.get()] = NodeRef();  // known when the loop is there
        emitted_.push_back(cut);
      }
      hoisted_[i] = std::move(terms);
    }
  }

  bool is_captured_parameter(const Node* node) const {
    for (size_t i = loop_.carried + loop_.stacked; i < body_.parameters.size(); ++i)
      if (body_.parameters[i].get() == node) return true;
    return false;
  }

  // Carried: gradients of carried values, sums of captured ones. Stacked: what arrives at stacked results, what was
  // kept, slices that the body read. Results: the same, then gradients of stacked inputs and factors for later.
  void build_backward() {
    choose_hoisted();
    auto control = std::make_shared<Control>();
    control->length = loop_.length;
    control->reverse = !loop_.reverse;
    Region region;
    std::vector<NodeRef> inputs, results;
    auto parameter = [&](const NodeRef& stands_for, const NodeRef& input) {
      region.parameters.push_back(stands_for);
      inputs.push_back(input);
    };
    for (size_t i = 0; i < loop_.carried; ++i) {
      if (!cotangents_[i]) continue;
      place_[i] = results.size();
      parameter(cotangents_[i], arriving_[i] ? arriving_[i] : zeros_like(node_.inputs[i]));
      results.push_back(gradients_[i] ? gradients_[i] : zeros_like(node_.inputs[i]));
    }
    for (size_t i = loop_.carried + loop_.stacked; i < gradients_.size(); ++i) {
      if (!gradients_[i] || hoisted_.contains(i)) continue;
      place_[i] = results.size();
      NodeRef sum = placeholder_like(*node_.inputs[i]);
      parameter(sum, zeros_like(node_.inputs[i]));
      results.push_back(sum + gradients_[i]);
    }
    control->carried = results.size();
    for (size_t r = loop_.carried; r < body_.results.size(); ++r)
      if (cotangents_[r]) parameter(cotangents_[r], arriving_[r]);
    // Parameters of its own for what comes from the loop forwards.
    Replaced with;
    auto own = [&](const NodeRef& value, const NodeRef& input) {
      with[value.get()] = placeholder_like(*value);
      parameter(with[value.get()], input);
    };
    const size_t captured = loop_.carried + loop_.stacked;
    for (const NodeRef& value : kept_) own(value, stacks_.at(value.get()));
    for (size_t i = loop_.carried; i < captured; ++i) own(body_.parameters[i], node_.inputs[i]);
    control->stacked = inputs.size() - control->carried;
    for (size_t i = captured; i < body_.parameters.size(); ++i) own(body_.parameters[i], node_.inputs[i]);
    for (size_t i = loop_.carried; i < loop_.carried + loop_.stacked; ++i) {
      if (!gradients_[i]) continue;
      place_[i] = results.size();
      results.push_back(gradients_[i]);
    }
    const size_t first_emitted = results.size();
    results.insert(results.end(), emitted_.begin(), emitted_.end());
    if (results.empty()) return;
    region.results = replace(results, with);
    control->regions.push_back(std::move(region));
    backward_ = make_loop(inputs, control);
    for (size_t e = 0; e < emitted_.size(); ++e)
      stacks_[emitted_[e].get()] = make_get(backward_, static_cast<int>(first_emitted + e));
  }

  NodeRef gradient_of_input(size_t i) const {
    if (auto found = hoisted_.find(i); found != hoisted_.end()) return summed(found->second);
    auto found = place_.find(i);
    return found == place_.end() ? NodeRef() : make_get(backward_, static_cast<int>(found->second));
  }

  NodeRef summed(const std::vector<Term>& terms) const {
    Replaced outside;
    for (size_t i = loop_.carried + loop_.stacked; i < body_.parameters.size(); ++i)
      outside[body_.parameters[i].get()] = node_.inputs[i];
    NodeRef total;
    for (const Term& term : terms) {
      Replaced stacked;
      for (const NodeRef& cut : term.cuts)
        if (auto found = stacks_.find(cut.get()); found != stacks_.end()) stacked[cut.get()] = found->second;
      // Over the rounds and over what a round sums at once; views of the sum stay behind it.
      const NodeRef sum = below_views(term.value);
      std::vector<NodeRef> all = replace(batched(std::span(&sum->inputs[0], 1), stacked, loop_.length), outside);
      SmallVector<int, 4> axes;
      axes.push_back(0);
      for (int axis : axes_of(*sum)) axes.push_back(axis + 1);
      NodeRef part = replace(std::span(&term.value, 1), {{sum.get(), make_reduce(ReduceOp::Sum, all[0], axes)}})[0];
      total = total ? total + part : part;
    }
    return total;
  }

  const Node& node_;
  const Control& loop_;
  const Region& body_;
  std::span<const NodeRef> arriving_;
  std::span<const bool> wanted_;
  std::vector<NodeRef> cotangents_;  // for each result of the body; null: no gradient arrives
  std::vector<NodeRef> gradients_;   // for each parameter of the body
  std::vector<NodeRef> roots_, kept_, emitted_;
  NodeSet late_;
  Replaced stacks_;  // values of a round, and those of all rounds
  std::unordered_map<size_t, std::vector<Term>> hoisted_;
  std::unordered_map<size_t, size_t> place_;  // for an input, the result of backward_ that is its gradient
  NodeRef backward_;
};

}  // namespace

void loop_gradient(const Node& node, std::span<const NodeRef> arriving, std::span<const bool> wanted,
                   std::span<NodeRef> result) {
  if (node.control->condition())
    throw ValueError(
        "while_loop: there is no gradient backwards through a loop whose number of rounds is not known before it runs: "
        "use scan() or fori_loop() with a fixed number of rounds, or jvp(), which goes forwards");
  LoopGradient(node, arriving, wanted).run(result);
}

// The gradient of the branch that was taken: another condition, whose branches compute what they need again.
void cond_gradient(const Node& node, std::span<const NodeRef> arriving, std::span<const bool> wanted,
                   std::span<NodeRef> result) {
  const Control& cond = *node.control;
  auto control = std::make_shared<Control>();
  std::vector<NodeRef> inputs(node.inputs.begin(), node.inputs.end());
  for (const NodeRef& g : arriving)
    if (g) inputs.push_back(g);
  for (const Region& branch : cond.regions) {
    Region& back = control->regions.emplace_back();
    back.parameters = branch.parameters;
    std::vector<NodeRef> outputs, cotangents, to;
    for (size_t r = 0; r < arriving.size(); ++r)
      if (arriving[r]) {
        outputs.push_back(branch.results[r]);
        cotangents.push_back(placeholder_like(*arriving[r]));
      }
    back.parameters.insert(back.parameters.end(), cotangents.begin(), cotangents.end());
    for (size_t i = 1; i < node.inputs.size(); ++i)
      if (wanted[i]) to.push_back(branch.parameters[i - 1]);
    back.results = gradient(outputs, cotangents, to);
    for (size_t k = 0; k < to.size(); ++k)
      if (!back.results[k]) back.results[k] = zeros_like(to[k]);
  }
  if (control->regions[0].results.empty()) return;
  NodeRef back = make_cond(inputs, control);
  int next = 0;
  for (size_t i = 1; i < node.inputs.size(); ++i)
    if (wanted[i]) result[i] = make_get(back, next++);
}

namespace {

// Gradients are linear in what arrives at the output: their own gradient with respect to that is the tangent. What
// arrives there, a placeholder, is not part of it.
std::vector<NodeRef> tangents_by_gradients(std::span<const NodeRef> outputs, std::span<const NodeRef> inputs,
                                           std::span<const NodeRef> directions) {
  std::vector<NodeRef> arriving, pulled, along, places, results(outputs.size());
  std::vector<NodeRef> differentiable;
  for (const NodeRef& y : outputs) {
    if (!is_float(y->dtype)) continue;
    differentiable.push_back(y);
    arriving.push_back(placeholder_like(*y));
  }
  std::vector<NodeRef> gradients = gradient(differentiable, arriving, inputs);
  for (size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i]) {
      pulled.push_back(gradients[i]);
      along.push_back(directions[i]);
    }
  if (pulled.empty()) return results;
  std::vector<NodeRef> pushed = gradient(pulled, along, arriving);
  // But barriers of checkpoint() wait for it: for anything that can be computed.
  Replaced ready;
  for (const NodeRef& y : arriving) ready[y.get()] = zeros_like(y);
  size_t next = 0;
  for (size_t r = 0; r < outputs.size(); ++r) {
    if (!is_float(outputs[r]->dtype)) continue;
    if (NodeRef& t = pushed[next++]; t) results[r] = replace(std::span(&t, 1), ready)[0];
  }
  return results;
}

// A loop with a condition that carries tangents beside its values.
NodeRef loop_of_tangents(const Node& node, std::span<const NodeRef> moved) {
  const Control& loop = *node.control;
  auto control = std::make_shared<Control>();
  Region body = loop.body(), condition = *loop.condition();
  const size_t carried = loop.carried, captured = body.parameters.size() - carried;
  std::vector<NodeRef> inputs(node.inputs.begin(), node.inputs.begin() + static_cast<std::ptrdiff_t>(carried));
  Region both{{body.parameters.begin(), body.parameters.begin() + static_cast<std::ptrdiff_t>(carried)}, body.results};
  Region test{{condition.parameters.begin(), condition.parameters.begin() + static_cast<std::ptrdiff_t>(carried)},
              condition.results};
  std::vector<NodeRef> from, directions;
  auto add = [&](size_t i) {  // the tangent of parameter i
    directions.push_back(placeholder_like(*body.parameters[i]));
    from.push_back(body.parameters[i]);
    both.parameters.push_back(directions.back());
    test.parameters.push_back(placeholder_like(*from.back()));
    inputs.push_back(moved[i] ? moved[i] : zeros_like(node.inputs[i]));
  };
  for (size_t i = 0; i < carried; ++i)
    if (is_float(body.parameters[i]->dtype)) add(i);
  control->carried = inputs.size();
  for (size_t i = carried; i < carried + captured; ++i) {
    both.parameters.push_back(body.parameters[i]);
    test.parameters.push_back(condition.parameters[i]);
    inputs.push_back(node.inputs[i]);
  }
  for (size_t i = carried; i < carried + captured; ++i)
    if (moved[i]) add(i);
  std::vector<NodeRef> next = tangents(std::span(body.results), from, directions);
  for (size_t i = 0; i < carried; ++i)
    if (is_float(body.parameters[i]->dtype)) both.results.push_back(next[i] ? next[i] : zeros_like(body.parameters[i]));
  control->regions = {std::move(both), std::move(test)};
  return make_loop(inputs, control);
}

}  // namespace

std::vector<NodeRef> tangents(std::span<const NodeRef> outputs, std::span<const NodeRef> inputs,
                              std::span<const NodeRef> directions) {
  std::vector<NodeRef> roots(outputs.begin(), outputs.end()), from(inputs.begin(), inputs.end()),
      along(directions.begin(), directions.end());
  // Loops that no gradient goes back through are cut out, the first one first: what they give becomes an input.
  Replaced back;
  for (;;) {
    const Node* loop = nullptr;
    NodeSet moving = dependents(roots, from);
    for (const Node* node : topological(roots))
      if (!loop && node->op == NodeOp::Loop && node->control->condition() && moving.contains(node)) loop = node;
    if (!loop) break;
    std::vector<NodeRef> of_inputs(loop->inputs.begin(), loop->inputs.end());
    std::vector<NodeRef> moved = tangents_by_gradients(of_inputs, from, along);
    NodeRef both = loop_of_tangents(*loop, moved);
    Replaced cut;
    int tangent = static_cast<int>(loop->control->carried);
    for (size_t r = 0; r < loop->control->carried; ++r) {
      const NodeRef value = make_get(NodeRef::share(loop), static_cast<int>(r));
      const bool moves = is_float(value->dtype);
      const int with = moves ? tangent++ : 0;
      if (value->op != NodeOp::Get || value->inputs[0].get() != loop) continue;
      cut[value.get()] = placeholder_like(*value);
      back[cut[value.get()].get()] = make_get(both, static_cast<int>(r));
      if (!moves) continue;
      from.push_back(cut[value.get()]);
      along.push_back(make_get(both, with));
    }
    roots = replace(roots, cut);
  }
  std::vector<NodeRef> results = tangents_by_gradients(roots, from, along);
  for (NodeRef& t : results)
    for (bool again = !back.empty() && t; again;) {  // what stands for a loop's result may stand inside of another's
      NodeRef next = replace(std::span(&t, 1), back)[0];
      again = !(next == t);
      t = next;
    }
  return results;
}

}  // namespace heddle
