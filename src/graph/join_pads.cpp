#include "graph/join_pads.h"

#include <algorithm>
#include <optional>

#include "graph/build.h"
#include "graph/graph.h"
#include "graph/node_map.h"

namespace heddle {
namespace {

// A value, padded with zeros along one axis only: where it lies there.
struct Padded {
  int axis;
  int64_t begin, end;
};

std::optional<Padded> padded(const Node& node) {
  if (node.op != NodeOp::Pad || node.literal.bits() != 0) return std::nullopt;
  const Shape& from = node.inputs[0]->shape;
  std::optional<Padded> result;
  for (int axis = 0; axis < node.shape.rank(); ++axis) {
    const Expr &before = node.attrs[2 * static_cast<size_t>(axis)],
               &after = node.attrs[2 * static_cast<size_t>(axis) + 1];
    if (before.is_const(0) && after.is_const(0)) continue;
    if (result || !before.is_const() || !from[axis].is_const() || !after.is_const()) return std::nullopt;
    if (before.value() < 0 || after.value() < 0) return std::nullopt;
    result = Padded{axis, before.value(), before.value() + from[axis].value()};
  }
  return result;
}

bool is_sum(const Node& node) { return node.op == NodeOp::Scalar && node.scalar_op == ScalarOp::add; }

// base + pads[0] + pads[1] + ..., added in this order. The numbers are places in the order of the graph.
struct Run {
  uint32_t base = NodeMap::kNone;  // none: there are only pads
  std::vector<uint32_t> pads;
};

class PadJoiner {
 public:
  explicit PadJoiner(std::span<const NodeRef> roots) : roots_(roots), order_(topological(roots)) {
    users_.assign(order_.size(), 0);
    for (uint32_t i = 0; i < order_.size(); ++i) number_.insert(order_[i], i);
    for (const Node* node : order_)
      for (const NodeRef& input : node->inputs) ++users_[number(input)];
    for (const NodeRef& root : roots) users_[number(root)] += 2;  // stays what it is
  }

  std::vector<NodeRef> run() {
    if (!find_runs()) return {roots_.begin(), roots_.end()};
    now_.resize(order_.size());
    SmallVector<NodeRef, 4> inputs;
    for (uint32_t i = 0; i < order_.size(); ++i) {
      if (inside_[i]) continue;
      if (run_at_[i] != NodeMap::kNone) {
        now_[i] = joined(runs_[run_at_[i]]);
        continue;
      }
      inputs.clear();
      bool changed = false;
      for (const NodeRef& input : order_[i]->inputs) {
        inputs.push_back(now_[number(input)]);
        changed |= inputs.back() != input;
      }
      now_[i] = changed ? rebuild(*order_[i], inputs) : NodeRef::share(order_[i]);
    }
    std::vector<NodeRef> results;
    for (const NodeRef& root : roots_) results.push_back(now_[number(root)]);
    return results;
  }

 private:
  uint32_t number(const NodeRef& node) const { return number_.find(node.get()); }

  // The sum at place i, as far down as pads are added one by one to what nobody else wants.
  Run run_from(uint32_t i, std::vector<uint32_t>& through) const {
    Run run;
    for (uint32_t at = i;;) {
      const Node& node = *order_[at];
      if (padded(node)) {
        run.pads.push_back(at);
        break;
      }
      uint32_t next = NodeMap::kNone;
      if (is_sum(node) && (at == i || users_[at] == 1)) {
        const uint32_t left = number(node.inputs[0]), right = number(node.inputs[1]);
        const bool pad_right = padded(*order_[right]).has_value();
        if (pad_right || padded(*order_[left])) {
          run.pads.push_back(pad_right ? right : left);
          next = pad_right ? left : right;
        }
      }
      if (next == NodeMap::kNone) {
        run.base = at;
        break;
      }
      through.push_back(at);
      at = next;
    }
    std::reverse(run.pads.begin(), run.pads.end());
    return run;
  }

  // All along one axis, none over another one.
  bool disjoint(const Run& run) const {
    std::vector<Padded> places;
    for (uint32_t pad : run.pads) places.push_back(*padded(*order_[pad]));
    std::ranges::sort(places, {}, &Padded::begin);
    for (size_t k = 1; k < places.size(); ++k)
      if (places[k].axis != places[0].axis || places[k].begin < places[k - 1].end) return false;
    return true;
  }

  bool find_runs() {
    run_at_.assign(order_.size(), NodeMap::kNone);
    inside_.assign(order_.size(), false);
    std::vector<bool> seen(order_.size(), false);
    for (uint32_t i = static_cast<uint32_t>(order_.size()); i-- > 0;) {
      if (seen[i] || !is_sum(*order_[i])) continue;
      std::vector<uint32_t> through;
      Run run = run_from(i, through);
      for (uint32_t at : through) seen[at] = true;
      if (run.pads.size() < 2 || !disjoint(run)) continue;
      for (size_t k = 1; k < through.size(); ++k) inside_[through[k]] = true;
      run_at_[i] = static_cast<uint32_t>(runs_.size());
      runs_.push_back(std::move(run));
    }
    return !runs_.empty();
  }

  NodeRef joined(Run& run) const {
    auto place = [&](uint32_t pad) { return *padded(*order_[pad]); };
    std::ranges::sort(run.pads, {}, [&](uint32_t pad) { return place(pad).begin; });
    const Node& like = *order_[run.pads[0]];
    const int axis = place(run.pads[0]).axis;
    const heddle::Scalar zero = heddle::Scalar::of(like.dtype, 0);
    std::vector<NodeRef> parts;
    int64_t end = 0;
    auto fill_until = [&](int64_t begin) {
      if (begin == end) return;
      Shape shape = like.shape;
      shape[axis] = begin - end;
      parts.push_back(const_like(zero, shape));
    };
    for (uint32_t pad : run.pads) {
      fill_until(place(pad).begin);
      end = place(pad).end;
      const NodeRef& value = now_[number(order_[pad]->inputs[0])];
      // Others added zeros to it, which turn -0 into 0.
      NodeRef terms[] = {value, const_like(zero, value->shape)};
      parts.push_back(make_scalar(ScalarOp::add, terms));
    }
    fill_until(like.shape[axis].value());
    NodeRef all = make_cat(parts, axis);
    if (run.base == NodeMap::kNone) return all;
    NodeRef terms[] = {now_[run.base], all};
    return make_scalar(ScalarOp::add, terms);
  }

  std::span<const NodeRef> roots_;
  std::vector<const Node*> order_;
  NodeMap number_;
  std::vector<int> users_;        // how many uses each node has
  std::vector<uint32_t> run_at_;  // of each node: the run that ends there
  std::vector<bool> inside_;      // sums that are part of a run which ends elsewhere
  std::vector<Run> runs_;
  std::vector<NodeRef> now_;
};

}  // namespace

std::vector<NodeRef> join_pads(std::span<const NodeRef> roots) { return PadJoiner(roots).run(); }

}  // namespace heddle
