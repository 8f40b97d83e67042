#include "graph/match_steps.h"

#include <algorithm>
#include <unordered_map>

#include "graph/build.h"
#include "graph/control.h"
#include "graph/graph.h"

namespace heddle {
namespace {

using Kind = Repetition::Source::Kind;
using Tuple = std::vector<const Node*>;  // one node of each step, the last step first

// A value may be wanted so many steps later.
constexpr size_t kFarthest = 8;

template <class Range, class T>
bool contains(const Range& range, const T& what) {
  return std::ranges::find(range, what) != std::ranges::end(range);
}

bool is_elementwise(const Node& node) { return info(node.op).kind == NodeKind::Elementwise; }

std::optional<int64_t> whole_number(const Node& node) {
  if (node.op != NodeOp::Const) return {};
  const int64_t value = node.literal.as_int();
  if (!(Scalar::of(node.dtype, value) == node.literal)) return {};
  return value;
}

// The values of one step, matched in all of its repetitions at once.
class Matcher {
 public:
  Matcher(const std::vector<const Node*>& order, const NodeMap& number) : order_(order), number_(number) {}

  // The step that ends with these nodes.
  std::optional<Repetition> match(const Tuple& ends) {
    // A value that is met in the step after it first is looked at again, before the others.
    std::vector<Tuple> first{ends};
    for (size_t attempt = 0; attempt < kFarthest; ++attempt) {
      found_ = {};
      found_.steps = ends.size();
      place_.clear();
      fixed_.clear();
      met_too_late_.clear();
      bool fits = true;
      for (const Tuple& tuple : first) fits = fits && take(tuple);
      if (fits) {
        take_what_follows();
        while (take_step_before()) continue;
        return finished();
      }
      if (met_too_late_.empty()) return {};
      first.insert(first.begin(), met_too_late_);
    }
    return {};
  }

 private:
  struct Place {
    size_t value, step;
  };

  bool take(const Tuple& tuple) {
    const size_t before = found_.values.size();
    if (!source_of(tuple)) return false;
    for (size_t v = before; v < found_.values.size(); ++v) {
      const size_t count = found_.values[v].nodes[0]->inputs.size();
      for (size_t i = 0; i < count; ++i) {
        Tuple inputs;
        for (const Node* node : found_.values[v].nodes) inputs.push_back(node->inputs[i].get());
        std::optional<Repetition::Source> source = source_of(inputs);
        if (!source) return false;
        found_.values[v].inputs.push_back(*source);
      }
    }
    return true;
  }

  std::optional<Repetition::Source> source_of(const Tuple& tuple) {
    if (std::all_of(tuple.begin(), tuple.end(), [&](const Node* n) { return n == tuple[0]; }))
      return Repetition::Source{Kind::Fixed, number_of_fixed(tuple[0])};
    if (auto known = place_.find(tuple[0]); known != place_.end()) return known_source(tuple, known->second);
    if (std::optional<Repetition::Source> slice = slice_of(tuple)) return slice;
    if (std::optional<Repetition::Source> number = number_of(tuple)) return number;
    return new_value(tuple);
  }

  size_t number_of_fixed(const Node* node) {
    auto [at, fresh] = fixed_.try_emplace(node, found_.fixed.size());
    if (fresh) found_.fixed.push_back(node);
    return at->second;
  }

  std::optional<Repetition::Source> known_source(const Tuple& tuple, Place last) {
    if (last.step > kFarthest) return {};
    Repetition::Value& value = found_.values[last.value];
    for (size_t step = 0; step < tuple.size(); ++step) {
      const size_t at = step + last.step;
      if (at < found_.steps ? value.nodes[at] != tuple[step]
                            : !set_before(value.before, at - found_.steps, tuple[step]))
        return {};
    }
    return Repetition::Source{last.step == 0 ? Kind::Same : Kind::Earlier, last.value, last.step};
  }

  static bool set_before(Tuple& before, size_t index, const Node* node) {
    if (before.size() <= index) before.resize(index + 1);
    if (before[index]) return before[index] == node;
    before[index] = node;
    return true;
  }

  // Builders put a constant second, where the op allows it: then the inputs of a first step are in another order.
  bool is_swapped(const Repetition::Value& value, const Node& node) const {
    if (node.op != NodeOp::Scalar || !commutes(node.scalar_op) || node.inputs[1]->op != NodeOp::Const) return false;
    const auto& sources = value.inputs;
    return !(may_be(sources[0], *node.inputs[0]) && may_be(sources[1], *node.inputs[1])) &&
           may_be(sources[0], *node.inputs[1]) && may_be(sources[1], *node.inputs[0]);
  }
  // Whether a node, as far as one look tells, comes from there in the step before the first.
  bool may_be(const Repetition::Source& source, const Node& node) const {
    switch (source.kind) {
      case Kind::Fixed: return found_.fixed[source.index] == &node;
      case Kind::Same: {
        const Node& like = *found_.values[source.index].nodes[0];
        return like.same_but_inputs(node) || (node.op == NodeOp::Const && is_view_of_all(like));
      }
      case Kind::Earlier: return true;
      case Kind::Slice: return is_slice(found_.slices[source.index], node, found_.steps);
      case Kind::Number: return is_number(found_.numbers[source.index], node, found_.steps);
    }
    __builtin_unreachable();
  }

  // The first step often begins with a constant, whose views are constants of other shapes: what such a one is a view
  // of, where `like` is what it is in the other steps. Null if it is none.
  const Node* unfolded(const Node& like, const Node& node) {
    if (node.op != NodeOp::Const || !is_view_of_all(like) || node.dtype != like.dtype) return nullptr;
    NodeRef whole = const_like(node.literal, like.inputs[0]->shape);
    if (rebuild(like, std::span(&whole, 1)).get() != &node) return nullptr;
    made_.push_back(whole);
    return whole.get();
  }

  std::optional<Repetition::Source> slice_of(const Tuple& tuple) {
    const Node& last = *tuple[0];
    if (last.op != NodeOp::Shrink) return {};
    std::optional<size_t> axis;
    for (size_t a = 0; a < last.attrs.size(); ++a) {
      if (tuple[1]->op != NodeOp::Shrink || a >= tuple[1]->attrs.size() || last.attrs[a] == tuple[1]->attrs[a])
        continue;
      if (axis) return {};
      axis = a;
    }
    if (!axis || !last.shape[static_cast<int>(*axis)].is_const() || !last.attrs[*axis].is_const() ||
        !tuple[1]->attrs[*axis].is_const())
      return {};
    const Repetition::Slice slice{&last, *axis, last.attrs[*axis].value() - tuple[1]->attrs[*axis].value()};
    if (std::abs(slice.stride) != last.shape[static_cast<int>(*axis)].value()) return {};
    for (size_t step = 1; step < tuple.size(); ++step)
      if (!is_slice(slice, *tuple[step], step)) return {};
    for (size_t s = 0; s < found_.slices.size(); ++s)
      if (found_.slices[s].last == &last && found_.slices[s].stride == slice.stride)
        return Repetition::Source{Kind::Slice, s};
    found_.slices.push_back(slice);
    return Repetition::Source{Kind::Slice, found_.slices.size() - 1};
  }

  static bool is_slice(const Repetition::Slice& slice, const Node& node, size_t step) {
    const Node& last = *slice.last;
    if (node.op != NodeOp::Shrink || !(node.shape == last.shape) || node.inputs[0] != last.inputs[0]) return false;
    for (size_t a = 0; a < last.attrs.size(); ++a) {
      const Expr wanted = a == slice.axis ? last.attrs[a] - slice.stride * static_cast<int64_t>(step) : last.attrs[a];
      if (!(node.attrs[a] == wanted)) return false;
    }
    return true;
  }

  std::optional<Repetition::Source> number_of(const Tuple& tuple) {
    const std::optional<int64_t> last = whole_number(*tuple[0]), before = whole_number(*tuple[1]);
    if (!last || !before) return {};
    Repetition::Number number{tuple[0], 0};
    if (__builtin_sub_overflow(*last, *before, &number.stride)) return {};
    for (size_t step = 1; step < tuple.size(); ++step)
      if (!is_number(number, *tuple[step], step)) return {};
    for (size_t n = 0; n < found_.numbers.size(); ++n)
      if (found_.numbers[n].last == tuple[0] && found_.numbers[n].stride == number.stride)
        return Repetition::Source{Kind::Number, n};
    found_.numbers.push_back(number);
    return Repetition::Source{Kind::Number, found_.numbers.size() - 1};
  }

  static bool is_number(const Repetition::Number& number, const Node& node, size_t step) {
    const std::optional<int64_t> value = whole_number(node);
    int64_t wanted = 0;
    return value && node.dtype == number.last->dtype && node.shape == number.last->shape &&
           !__builtin_mul_overflow(number.stride, static_cast<int64_t>(step), &wanted) &&
           !__builtin_sub_overflow(number.last->literal.as_int(), wanted, &wanted) && *value == wanted;
  }

  std::optional<Repetition::Source> new_value(const Tuple& tuple) {
    const Node& last = *tuple[0];
    if (last.inputs.empty() || last.op == NodeOp::To || last.op == NodeOp::Barrier) return {};
    // Steps share no nodes, so there cannot be more values than this.
    if ((found_.values.size() + 1) * found_.steps > order_.size()) return {};
    for (const Node* node : tuple) {
      if (!node->same_but_inputs(last) || node->inputs.size() != last.inputs.size()) return {};
      if (place_.contains(node)) {
        if (met_too_late_.empty()) met_too_late_ = tuple;
        return {};
      }
    }
    const size_t value = found_.values.size();
    found_.values.push_back({.nodes = tuple, .inputs = {}, .before = {}});
    for (size_t step = 0; step < tuple.size(); ++step) place_[tuple[step]] = {value, step};
    return Repetition::Source{Kind::Same, value};
  }

  // What uses values of a step, and is there for each of them, is part of the step as well.
  void take_what_follows() {
    constexpr int kRounds = 32;
    bool any = true;
    for (int round = 0; round < kRounds && any; ++round) {
      any = false;
      for (const Tuple& tuple : what_follows())
        if (!place_.contains(tuple[0]) && take_or_leave(tuple)) any = true;
    }
  }

  bool take_or_leave(const Tuple& tuple) {
    const size_t values = found_.values.size(), fixed = found_.fixed.size();
    const size_t slices = found_.slices.size(), numbers = found_.numbers.size();
    std::vector<Tuple> before;
    for (const Repetition::Value& value : found_.values) before.push_back(value.before);
    if (take(tuple)) return true;
    for (size_t v = values; v < found_.values.size(); ++v)
      for (const Node* node : found_.values[v].nodes) place_.erase(node);
    for (size_t f = fixed; f < found_.fixed.size(); ++f) fixed_.erase(found_.fixed[f]);
    found_.values.resize(values);
    found_.fixed.resize(fixed);
    found_.slices.resize(slices);
    found_.numbers.resize(numbers);
    for (size_t v = 0; v < values; ++v) found_.values[v].before = before[v];
    return false;
  }

  std::vector<Tuple> what_follows() const {
    struct User {
      uint64_t hash;
      const Node* node;
      size_t step;
    };
    std::vector<User> users;
    std::unordered_map<uint64_t, size_t> count;
    for (const Node* node : order_) {
      if (place_.contains(node) || node->op == NodeOp::Cat) continue;
      uint64_t hash = own_hash(*node);
      std::optional<size_t> step;
      for (const NodeRef& input : node->inputs) {
        auto found = place_.find(input.get());
        if (found == place_.end()) continue;
        hash = hash_combine(hash, found->second.value);
        if (!step) step = found->second.step;
      }
      if (!step) continue;
      users.push_back({hash, node, *step});
      ++count[hash];
    }
    std::unordered_map<uint64_t, size_t> group_of;
    std::vector<Tuple> groups;
    for (const User& user : users) {
      if (count[user.hash] < found_.steps) continue;
      auto [at, fresh] = group_of.try_emplace(user.hash, groups.size());
      if (fresh) groups.emplace_back(found_.steps);
      if (!groups[at->second][user.step]) groups[at->second][user.step] = user.node;
    }
    std::erase_if(groups, [](const Tuple& group) { return contains(group, static_cast<const Node*>(nullptr)); });
    return groups;
  }

  // One step more, before the first one: what values were before it, and what they were computed of.
  bool take_step_before() {
    std::vector<const Node*> now(found_.values.size(), nullptr);
    std::vector<Tuple> before;
    for (const Repetition::Value& value : found_.values) before.push_back(value.before);
    std::vector<std::pair<size_t, const Node*>> open;
    for (size_t v = 0; v < found_.values.size(); ++v)
      if (!before[v].empty()) {
        open.emplace_back(v, before[v][0]);
        before[v].erase(before[v].begin());
      }
    if (open.empty()) return false;
    Tuple folded(now.size(), nullptr);
    while (!open.empty()) {
      const auto [v, node] = open.back();
      open.pop_back();
      const Repetition::Value& value = found_.values[v];
      if (now[v] == node || folded[v] == node) continue;
      if (const Node* whole = unfolded(*value.nodes[0], *node); whole && !now[v] && !folded[v]) {
        folded[v] = node;
        const Repetition::Source& source = value.inputs[0];
        if (source.kind == Kind::Same) {
          open.emplace_back(source.index, whole);
          continue;
        }
        if (source.kind != Kind::Earlier || !set_before(before[source.index], source.back - 1, whole)) return false;
        continue;
      }
      if (now[v] || folded[v] || place_.contains(node) || !node->same_but_inputs(*value.nodes[0]) ||
          node->inputs.size() != value.inputs.size())
        return false;
      now[v] = node;
      const bool swapped = is_swapped(value, *node);
      for (size_t i = 0; i < value.inputs.size(); ++i) {
        const Repetition::Source& source = value.inputs[i];
        const Node* input = node->inputs[swapped ? 1 - i : i].get();
        switch (source.kind) {
          case Kind::Fixed:
            if (input != found_.fixed[source.index]) return false;
            break;
          case Kind::Same: open.emplace_back(source.index, input); break;
          case Kind::Earlier: {
            if (!set_before(before[source.index], source.back - 1, input)) return false;
            break;
          }
          case Kind::Slice:
            if (!is_slice(found_.slices[source.index], *input, found_.steps)) return false;
            break;
          case Kind::Number:
            if (!is_number(found_.numbers[source.index], *input, found_.steps)) return false;
            break;
        }
      }
    }
    // Two values that were one node, or a value whose past is not known.
    std::unordered_set<const Node*> seen;
    for (const Node* node : now)
      if (node && !seen.insert(node).second) return false;
    for (const Repetition::Value& value : found_.values)
      for (const Repetition::Source& source : value.inputs)
        if (source.kind == Kind::Earlier && (before[source.index].size() < source.back ||
                                             contains(before[source.index], static_cast<const Node*>(nullptr))))
          return false;
    for (const Repetition::Slice& slice : found_.slices)
      if (!is_there(slice)) return false;
    find_unread(now);
    for (size_t v = 0; v < now.size(); ++v)
      if (!now[v] && !folded[v] && may_fail(*found_.values[v].nodes[0])) return false;
    for (size_t v = 0; v < now.size(); ++v) {
      found_.values[v].nodes.push_back(now[v]);
      found_.values[v].before = std::move(before[v]);
      if (now[v]) place_[now[v]] = {v, found_.steps};
    }
    ++found_.steps;
    return true;
  }

  // Whether there is a slice for one step more.
  bool is_there(const Repetition::Slice& slice) const {
    const Node& whole = *slice.last->inputs[0];
    const int axis = static_cast<int>(slice.axis);
    const Expr begin = slice.last->attrs[slice.axis] - slice.stride * static_cast<int64_t>(found_.steps);
    const Expr room = whole.shape[axis] - slice.last->shape[axis] - begin;
    return begin.value() >= 0 && room.lo() >= 0;
  }

  // What a step that the program does not have must not compute, even if nobody looks at the result.
  static bool may_fail(const Node& node) {
    switch (node.op) {
      case NodeOp::Gather:
      case NodeOp::Scatter:
      case NodeOp::Loop:
      case NodeOp::Cond:
      case NodeOp::Custom: return true;
      default: return false;
    }
  }

  // Values of a step that the steps after it do not read: where the graph has them, they are what their builder gives.
  void find_unread(std::vector<const Node*>& now) const {
    for (size_t v : in_order()) {
      if (now[v]) continue;
      const Repetition::Value& value = found_.values[v];
      std::vector<NodeRef> inputs;
      for (const Repetition::Source& source : value.inputs) {
        const Node* input = nullptr;
        if (source.kind == Kind::Fixed) input = found_.fixed[source.index];
        if (source.kind == Kind::Same) input = now[source.index];
        if (source.kind == Kind::Slice) {
          const Repetition::Slice& slice = found_.slices[source.index];
          SmallVector<Expr, 2> begin = slice.last->attrs;
          begin[slice.axis] = begin[slice.axis] - slice.stride * static_cast<int64_t>(found_.steps);
          inputs.push_back(make_shrink(slice.last->inputs[0], begin, slice.last->shape));
          continue;
        }
        if (!input) break;
        inputs.push_back(NodeRef::share(input));
      }
      if (inputs.size() != value.inputs.size()) continue;
      const NodeRef made = rebuild(*value.nodes[0], inputs);
      if (number_.find(made.get()) != NodeMap::kNone && !place_.contains(made.get()) && !contains(now, made.get()))
        now[v] = made.get();
    }
  }

  // Inputs before users.
  std::vector<size_t> in_order() const {
    std::vector<size_t> order(found_.values.size());
    for (size_t v = 0; v < order.size(); ++v) order[v] = v;
    std::ranges::sort(order, {}, [&](size_t v) { return number_.find(found_.values[v].nodes[0]); });
    return order;
  }

  std::optional<Repetition> finished() {
    Repetition result = found_;
    result.made = made_;
    std::vector<size_t> order = in_order(), place(order.size());
    for (size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
    for (size_t i = 0; i < order.size(); ++i) {
      result.values[i] = std::move(found_.values[order[i]]);
      for (Repetition::Source& source : result.values[i].inputs)
        if (source.kind == Kind::Same || source.kind == Kind::Earlier) source.index = place[source.index];
    }
    find_outside(result);
    while (carry_below_view(result)) continue;
    if (result.values.size() * result.steps < kFewestNodes || !pays(result) || !can_be_one(result)) return {};
    return result;
  }

  // Carried is what a view shows, not the view: that may be much larger, as the factors of a product are. The step that
  // reads it makes a view of its own. False: there is no such value.
  bool carry_below_view(Repetition& found) {
    for (size_t v = 0; v < found.values.size(); ++v) {
      const Repetition::Value& view = found.values[v];
      if (view.before.empty() || !is_view_of_all(*view.nodes[0]) || view.inputs[0].kind != Kind::Same) continue;
      const size_t whole = view.inputs[0].index, count = view.before.size();
      Tuple before = found.values[whole].before;
      bool known = true;
      for (size_t k = 0; k < count && known; ++k) {
        const Node& node = *view.before[k];
        const Node* shown =
            node.same_but_inputs(*view.nodes[0]) ? node.inputs[0].get() : unfolded(*view.nodes[0], node);
        const Node& like = *view.nodes[0]->inputs[0];
        known = shown && shown->dtype == like.dtype && shown->shape == like.shape && set_before(before, k, shown);
      }
      if (!known) continue;
      // The new views come first, the others move up.
      std::vector<Repetition::Value> values;
      for (size_t back = 1; back <= count; ++back) {
        const Repetition::Source shown{Kind::Earlier, whole + count, back};
        values.push_back({.nodes = view.nodes, .inputs = {shown}, .outside = true, .before = {}});
      }
      for (Repetition::Value& value : found.values) {
        for (Repetition::Source& source : value.inputs) {
          if (source.kind == Kind::Earlier && source.index == v)
            source = {Kind::Same, source.back - 1, 0};
          else if (source.kind == Kind::Same || source.kind == Kind::Earlier)
            source.index += count;
        }
        values.push_back(std::move(value));
      }
      values[whole + count].before = std::move(before);
      values[v + count].before.clear();
      found.values = std::move(values);
      found.made = made_;
      return true;
    }
    return false;
  }

  // Values that do not depend on what is carried may be needed before the loop.
  void find_outside(Repetition& found) const {
    std::vector<bool> needed(order_.size(), false);
    auto need = [&](const Node* node) {
      if (const uint32_t number = number_.find(node); number != NodeMap::kNone) needed[number] = true;
    };
    for (const Node* node : found.fixed) need(node);
    for (const Repetition::Slice& slice : found.slices) need(slice.last->inputs[0].get());
    for (const Repetition::Value& value : found.values)
      for (const Node* node : value.before) need(node);
    for (size_t i = order_.size(); i-- > 0;)
      if (needed[i])
        for (const NodeRef& input : order_[i]->inputs) need(input.get());
    const std::vector<bool> carried = depend_on_carried(found);
    for (size_t v = 0; v < found.values.size(); ++v)
      found.values[v].outside = !carried[v] && std::ranges::any_of(found.values[v].nodes, [&](const Node* node) {
        return node && needed[number_.find(node)];
      });
  }

  static std::vector<bool> depend_on_carried(const Repetition& found) {
    std::vector<bool> carried(found.values.size(), false);
    for (size_t v = 0; v < found.values.size(); ++v)
      for (const Repetition::Source& source : found.values[v].inputs)
        if (source.kind == Kind::Earlier || (source.kind == Kind::Same && carried[source.index])) carried[v] = true;
    return carried;
  }

  // Steps that do no more to what they carry than arithmetic on each element by itself are one kernel as they are.
  static bool pays(const Repetition& found) {
    const std::vector<bool> carried = depend_on_carried(found);
    std::vector<bool> moved(found.values.size(), false);
    for (size_t v = 0; v < found.values.size(); ++v) {
      for (const Repetition::Source& source : found.values[v].inputs)
        if (source.kind == Kind::Same && moved[source.index]) moved[v] = true;
      if (carried[v] && !is_elementwise(*found.values[v].nodes[0]) && found.values[v].nodes[0]->op != NodeOp::Pullback)
        moved[v] = true;
    }
    for (size_t v = 0; v < found.values.size(); ++v)
      if (moved[v] && !found.values[v].before.empty()) return true;
    return false;
  }

  // Whether all steps can be computed at one place in the program: what they need does not depend on one of them; and
  // what is wanted of them has one result.
  bool can_be_one(const Repetition& found) const {
    std::vector<bool> after(order_.size(), false), of_loop(order_.size(), false);
    for (const Repetition::Value& value : found.values)
      for (const Node* node : value.nodes)
        if (node && !value.outside) of_loop[number_.find(node)] = true;
    DeviceNumber device = kAnywhere;
    for (size_t i = 0; i < order_.size(); ++i) {
      const Node& node = *order_[i];
      const bool inside = of_loop[i];
      after[i] = inside;
      for (const NodeRef& input : node.inputs) {
        const uint32_t number = number_.find(input.get());
        if (of_loop[number] && !inside && input->gives_several()) return false;
        after[i] = after[i] || after[number];
      }
      if (!inside || node.device == kAnywhere) continue;
      if (device != kAnywhere && device != node.device) return false;
      device = node.device;
    }
    // Or it is on another device.
    auto is_after = [&](const Node* node) {
      const uint32_t number = number_.find(node);
      return (number != NodeMap::kNone && after[number]) ||
             (node->device != kAnywhere && device != kAnywhere && node->device != device);
    };
    for (const Node* node : found.fixed)
      if (is_after(node) || node->gives_several()) return false;
    for (const Repetition::Slice& slice : found.slices)
      if (is_after(slice.last->inputs[0].get())) return false;
    for (const Repetition::Value& value : found.values) {
      if (!value.before.empty() && value.nodes[0]->gives_several()) return false;
      for (const Node* node : value.before)
        if (is_after(node) || node->dtype != value.nodes[0]->dtype || !(node->shape == value.nodes[0]->shape))
          return false;
    }
    return true;
  }

  const std::vector<const Node*>& order_;
  const NodeMap& number_;
  Repetition found_;
  std::unordered_map<const Node*, Place> place_;
  std::unordered_map<const Node*, size_t> fixed_;
  Tuple met_too_late_;
  std::vector<NodeRef> made_;
};

}  // namespace

// What a node does to its inputs; where a slice begins does not count.
uint64_t own_hash(const Node& node) {
  if (node.inputs.empty()) return hash_mix(reinterpret_cast<uintptr_t>(&node));
  uint64_t hash =
      hash_combine(static_cast<uint64_t>(node.op) | static_cast<uint64_t>(node.dtype) << 8, op_detail(node));
  for (const Expr& dim : node.shape) hash = hash_combine(hash, dim.hash());
  if (node.op != NodeOp::Shrink)
    for (const Expr& attr : node.attrs) hash = hash_combine(hash, attr.hash());
  return hash;
}

std::optional<Repetition> match_steps(const std::vector<const Node*>& order, const NodeMap& number,
                                      std::span<const Node* const> ends) {
  return Matcher(order, number).match(Tuple(ends.begin(), ends.end()));
}

}  // namespace heddle
