// Steps that a program repeats, as one loop.
#include <algorithm>
#include <unordered_map>

#include "base/log.h"
#include "graph/arithmetic.h"
#include "graph/build.h"
#include "graph/control.h"
#include "graph/graph.h"
#include "graph/repetition.h"

namespace heddle {
namespace {

using Kind = Repetition::Source::Kind;

class Rolled {
 public:
  Rolled(const Repetition& found, std::span<const NodeRef> roots) : found_(found), roots_(roots) {
    for (size_t v = 0; v < found.values.size(); ++v)
      for (size_t step = 0; step < found.steps; ++step)
        if (const Node* node = found.values[v].nodes[step]; node && !found.values[v].outside) place_[node] = {v, step};
    find_results();
  }

  // A value that is wanted of a few steps is stacked in all of them: not if that takes much memory.
  bool stacks_too_much() const {
    constexpr double kMuch = 64 << 20, kTimes = 4;
    double bytes = 0, wanted = 0;
    for (size_t v : stacked_) {
      const Node& node = *found_.values[v].nodes[0];
      const double step = static_cast<double>(node.shape.numel().hi()) * static_cast<double>(size_of(node.dtype));
      bytes += step * static_cast<double>(found_.steps);
      wanted += step * static_cast<double>(wanted_steps_.at(v));
    }
    return bytes > kMuch && bytes > kTimes * wanted;
  }

  std::vector<NodeRef> rewritten() {
    build();
    std::unordered_set<const Node*> inside;
    for (const auto& [node, place] : place_) inside.insert(node);
    return rebuild_graph(
        roots_,
        [&](const Node& node, std::span<const NodeRef> inputs) -> NodeRef {
          if (auto found = place_.find(&node); found != place_.end()) return result(found->second);
          return node.op == NodeOp::Cat ? joined(node, inputs) : NodeRef();
        },
        inside);
  }

 private:
  struct Place {
    size_t value, step;
  };

  // What the rest of the program reads: values of each step, or the last one of those that are carried.
  void find_results() {
    std::vector<bool> wanted(found_.values.size(), false);
    std::unordered_set<const Node*> seen;
    auto look_at = [&](const Node* node) {
      auto found = place_.find(node);
      if (found == place_.end() || !seen.insert(node).second) return;
      ++wanted_steps_[found->second.value];
      const auto [value, step] = found->second;
      if (step > 0 || found_.values[value].before.empty()) wanted[value] = true;
    };
    for (const NodeRef& root : roots_) look_at(root.get());
    for (const Node* node : topological(roots_))
      if (!place_.contains(node))
        for (const NodeRef& input : node->inputs) look_at(input.get());
    for (size_t v = 0; v < wanted.size(); ++v) {
      if (!found_.values[v].before.empty()) {
        carried_of_[v] = carried_;
        carried_ += found_.values[v].before.size();
      }
      if (wanted[v]) stacked_.push_back(v);
    }
  }

  void build() {
    number_ = name_of_loop();
    auto control = std::make_shared<Control>();
    Region body;
    auto take = [&](const NodeRef& input, const Node& like, const Shape& shape) {
      // Numbered by what the loop is: the same steps, found again for another result, become the same loop.
      body.parameters.push_back(
          make_input(static_cast<int64_t>(inputs_.size()), -number_, input->dtype, shape, like.device));
      inputs_.push_back(input);
      return body.parameters.back();
    };
    std::vector<std::vector<NodeRef>> earlier(found_.values.size());
    for (size_t v = 0; v < found_.values.size(); ++v)
      for (const Node* before : found_.values[v].before)
        earlier[v].push_back(take(NodeRef::share(before), *found_.values[v].nodes[0], before->shape));
    control->carried = inputs_.size();
    std::vector<NodeRef> slices, numbers, fixed;
    for (const Repetition::Slice& slice : found_.slices)
      slices.push_back(take(stacked_slices(slice), *slice.last, slice.last->shape));
    for (const Repetition::Number& number : found_.numbers)
      numbers.push_back(repeated(take(stacked_numbers(number), *number.last, {}), number.last->shape));
    control->stacked = inputs_.size() - control->carried;
    for (const Node* node : found_.fixed) fixed.push_back(taken_in(node, take));

    std::vector<NodeRef> values;
    for (const Repetition::Value& value : found_.values) {
      std::vector<NodeRef> inputs;
      for (const Repetition::Source& source : value.inputs) switch (source.kind) {
          case Kind::Fixed: inputs.push_back(fixed[source.index]); break;
          case Kind::Same: inputs.push_back(values[source.index]); break;
          case Kind::Earlier: inputs.push_back(earlier[source.index][source.back - 1]); break;
          case Kind::Slice: inputs.push_back(slices[source.index]); break;
          case Kind::Number: inputs.push_back(numbers[source.index]); break;
        }
      values.push_back(rebuild(*value.nodes[0], inputs));
    }
    for (size_t v = 0; v < values.size(); ++v)
      for (size_t back = 0; back < earlier[v].size(); ++back)
        body.results.push_back(back == 0 ? values[v] : earlier[v][back - 1]);
    for (size_t v : stacked_) body.results.push_back(values[v]);
    control->length = Expr(static_cast<int64_t>(found_.steps));
    control->regions.push_back(std::move(body));
    loop_ = make_loop(inputs_, control);
  }

  // Above all numbers of other placeholders.
  int64_t name_of_loop() const {
    uint64_t hash = found_.steps;
    auto add = [&](uint64_t more) { hash = hash_combine(hash, more); };
    for (const Repetition::Value& value : found_.values) {
      const Node& node = *value.nodes[0];
      add(static_cast<uint64_t>(node.op) | static_cast<uint64_t>(node.dtype) << 8 | op_detail(node) << 16);
      for (const Expr& attr : node.attrs) add(attr.hash());
      for (const Repetition::Source& source : value.inputs)
        add(static_cast<uint64_t>(source.kind) | source.back << 8 | source.index << 16);
      for (const Node* before : value.before) add(before->hash);
    }
    for (const Node* node : found_.fixed) add(node->hash);
    for (const Repetition::Slice& slice : found_.slices) add(slice.last->hash);
    for (const Repetition::Number& number : found_.numbers) add(number.last->hash);
    constexpr int64_t kLast = int64_t{1} << 62;
    return kLast + static_cast<int64_t>(hash >> 3);
  }

  // Views are made inside, of what they show.
  template <class Take>
  NodeRef taken_in(const Node* node, Take take) {
    NodeRef source = NodeRef::share(node), whole = source;
    while (is_view_of_all(*source)) source = source->inputs[0];
    if (source->op == NodeOp::Const || source->op == NodeOp::Iota) return whole;
    NodeRef& parameter = captured_[source.get()];
    if (!parameter) parameter = take(source, *source, source->shape);
    return replace(std::span(&whole, 1), {{source.get(), parameter}})[0];
  }

  // One slice for each round, the first round's first.
  NodeRef stacked_slices(const Repetition::Slice& slice) const {
    const Node& last = *slice.last;
    const auto steps = static_cast<int64_t>(found_.steps);
    const int axis = static_cast<int>(slice.axis);
    const int64_t end = last.attrs[slice.axis].value(), first = end - slice.stride * (steps - 1);
    SmallVector<Expr, 4> begin(last.attrs.begin(), last.attrs.end());
    begin[slice.axis] = std::min(first, end);
    Shape all = last.shape, parts;
    all[axis] = last.shape[axis] * steps;
    SmallVector<int, 4> order;
    order.push_back(axis);
    for (int a = 0; a < last.shape.rank(); ++a) {
      if (a == axis) parts.push_back(steps);
      parts.push_back(last.shape[a]);
    }
    for (int a = 0; a < parts.rank(); ++a)
      if (a != axis) order.push_back(a);
    NodeRef x = make_permute(make_reshape(make_shrink(last.inputs[0], begin, all), parts), order);
    const int rounds = 0;
    return slice.stride < 0 ? make_flip(x, std::span(&rounds, 1)) : x;
  }

  NodeRef stacked_numbers(const Repetition::Number& number) const {
    const auto steps = static_cast<int64_t>(found_.steps);
    const Shape shape{Expr(steps)};
    const int64_t first = number.last->literal.as_int() - number.stride * (steps - 1);
    using namespace arithmetic;
    NodeRef counted[] = {make_iota(DType::i64, shape, 0), const_like(Scalar::of(DType::i64, number.stride), shape)};
    NodeRef moved[] = {make_scalar(ScalarOp::mul, counted), const_like(Scalar::of(DType::i64, first), shape)};
    return make_cast(make_scalar(ScalarOp::add, moved), number.last->dtype);
  }

  static NodeRef repeated(const NodeRef& x, const Shape& shape) {
    Shape ones;
    for (int a = 0; a < shape.rank(); ++a) ones.push_back(1);
    return make_expand(make_reshape(x, ones), shape);
  }

  // A value of one step, out of the loop's results.
  NodeRef result(Place place) const {
    const Node& node = *found_.values[place.value].nodes[0];
    auto stacked = std::ranges::find(stacked_, place.value);
    if (stacked == stacked_.end()) {
      auto carried = carried_of_.find(place.value);
      // Only a value that nobody reads is neither.
      return carried == carried_of_.end() ? NodeRef::share(&node) : make_get(loop_, static_cast<int>(carried->second));
    }
    return make_reshape(rounds(stacked - stacked_.begin(), round_of(place), 1), node.shape);
  }

  int64_t round_of(Place place) const { return static_cast<int64_t>(found_.steps - 1 - place.step); }

  // The results of some rounds, stacked.
  NodeRef rounds(std::ptrdiff_t stacked, int64_t first, int64_t count) const {
    NodeRef all = make_get(loop_, static_cast<int>(static_cast<std::ptrdiff_t>(carried_) + stacked));
    SmallVector<Expr, 4> begin(all->shape.size(), Expr(0));
    Shape size = all->shape;
    begin[0] = first;
    size[0] = count;
    return make_shrink(all, begin, size);
  }

  // Values of steps one after the other, joined along an axis, lie together in the loop's results.
  NodeRef joined(const Node& cat, std::span<const NodeRef> inputs) const {
    const int axis = static_cast<int>(cat.attrs[0].value());
    auto place = [&](size_t i) { return place_.find(cat.inputs[i].get()); };
    std::vector<NodeRef> parts;
    for (size_t i = 0, next; i < inputs.size(); i = next) {
      next = i + 1;
      auto first = place(i);
      auto stacked = first == place_.end() ? stacked_.end() : std::ranges::find(stacked_, first->second.value);
      if (stacked == stacked_.end()) {
        parts.push_back(inputs[i]);
        continue;
      }
      int64_t by = 0;
      for (; next < inputs.size(); ++next) {
        auto other = place(next);
        if (other == place_.end() || other->second.value != first->second.value) break;
        const int64_t further = round_of(other->second) - round_of(first->second);
        if (by == 0 && std::abs(further) == 1) by = further;
        if (by == 0 || further != by * static_cast<int64_t>(next - i)) break;
      }
      const auto count = static_cast<int64_t>(next - i);
      parts.push_back(count == 1 ? inputs[i]
                                 : along(rounds(stacked - stacked_.begin(),
                                                round_of(first->second) - (by < 0 ? count - 1 : 0), count),
                                         axis, by < 0));
    }
    return make_cat(parts, axis);
  }

  // The rounds' axis, which is the first one, as part of another.
  static NodeRef along(const NodeRef& rounds, int axis, bool backwards) {
    const int outermost = 0;
    NodeRef x = backwards ? make_flip(rounds, std::span(&outermost, 1)) : rounds;
    SmallVector<int, 4> order;
    Shape merged;
    for (int a = 1; a < x->shape.rank(); ++a) {
      if (a == axis + 1) order.push_back(0);
      order.push_back(a);
      merged.push_back(a == axis + 1 ? x->shape[0] * x->shape[a] : x->shape[a]);
    }
    return make_reshape(make_permute(x, order), merged);
  }

  const Repetition& found_;
  std::span<const NodeRef> roots_;
  std::unordered_map<const Node*, Place> place_;
  std::unordered_map<size_t, size_t> carried_of_;  // values: the first result that carries them
  size_t carried_ = 0;
  std::vector<size_t> stacked_;                      // values
  std::unordered_map<size_t, size_t> wanted_steps_;  // of values: of how many steps the rest of the program reads them
  std::vector<NodeRef> inputs_;
  std::unordered_map<const Node*, NodeRef> captured_;
  int64_t number_ = 0;
  NodeRef loop_;
};

}  // namespace

std::vector<NodeRef> roll(std::span<const NodeRef> roots) {
  // Each time the graph is much smaller than before.
  constexpr int kMostLoops = 16;
  std::vector<NodeRef> result(roots.begin(), roots.end());
  for (int i = 0; i < kMostLoops; ++i) {
    std::optional<Repetition> found = find_repetition(result);
    if (!found) break;
    if (log_enabled(Log::Remarks))
      log_write(Log::Remarks,
                text("graph: ", found->steps, " equal steps of ", found->values.size(), " operations are one loop\n"));
    Rolled rolled(*found, result);
    if (rolled.stacks_too_much()) break;
    result = rolled.rewritten();
  }
  return result;
}

}  // namespace heddle
