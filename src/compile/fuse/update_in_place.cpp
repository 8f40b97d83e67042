#include "compile/fuse/update_in_place.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "compile/fuse/partition.h"
#include "graph/graph.h"

namespace heddle {
namespace {

// A mask of more parts is no part of a tensor that somebody has named.
constexpr size_t kMostConditions = 64;

// The condition on positions under which the mask is true at `index`; nothing if data decides.
std::optional<Expr> condition_of(const Node* mask, const Index& index) {
  std::vector<std::pair<const Node*, Index>> all{{mask, index}};
  Expr condition = 1;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all.size() > kMostConditions) return std::nullopt;
    auto [node, at] = all[i];
    for (; is_movement(*node) && node->op != NodeOp::Barrier; node = node->inputs[0].get()) {
      Expr inside = 1;
      at = source_index(*node, at, &inside);
      if (node->op == NodeOp::Pad && node->literal.as_bool()) return std::nullopt;
      condition = logical_and(condition, inside);
    }
    if (node->op == NodeOp::Scalar && node->scalar_op == ScalarOp::bit_and) {
      for (const NodeRef& input : node->inputs) all.emplace_back(input.get(), at);
    } else if (node->op != NodeOp::Const) {
      return std::nullopt;
    } else if (!node->literal.as_bool()) {
      return Expr(0);
    }
  }
  return condition;
}

// From begin, before end.
struct Range {
  std::optional<Expr> begin, end;

  // The tighter one where that can be shown, else the first: the guard says the rest.
  void from(const Expr& least) {
    if (!begin || provably_true(ge(least, *begin))) begin = least;
  }
  void before(const Expr& limit) {
    if (!end || provably_true(le(limit, *end))) end = limit;
  }
};

// What a condition says about one of the variables by itself.
void take_bound(const Expr& condition, const Expr& var, std::span<const Expr> variables, Range& range) {
  if (condition.kind() != ExprKind::Lt && condition.kind() != ExprKind::Eq) return;
  std::optional<Linear> difference = linear_in(condition.args()[1] - condition.args()[0], var);
  if (!difference || (difference->coefficient != 1 && difference->coefficient != -1)) return;
  const Expr& rest = difference->rest;
  if (std::ranges::any_of(variables, [&](const Expr& other) { return depends_on(rest, other); })) return;
  if (condition.kind() == ExprKind::Eq) {
    const Expr value = difference->coefficient == 1 ? -rest : rest;
    range.from(value);
    range.before(value + 1);
  } else if (difference->coefficient == 1) {
    range.from(1 - rest);
  } else {
    range.before(rest);
  }
}

// The s of "var is a multiple of s"; 1 if the condition says something else.
int64_t step_of(const Expr& condition, const Expr& var) {
  for (size_t i : {0, 1}) {
    if (condition.kind() != ExprKind::Eq && (condition.kind() != ExprKind::Lt || i == 1)) continue;
    const Expr &remainder = condition.args()[i], &other = condition.args()[1 - i];
    if (!other.is_const(condition.kind() == ExprKind::Eq ? 0 : 1) || remainder.kind() != ExprKind::Mod) continue;
    if (remainder.args()[0] == var && remainder.args()[1].is_const()) return remainder.args()[1].value();
  }
  return 1;
}

// Fills in the part that the mask leaves. False if that is all of it, or if data decides.
bool find_part(const Node& mask, Update& update) {
  Index index;
  std::vector<Expr> axes;
  for (const Expr& size : update.node->shape) {
    if (!size.is_const(1)) axes.push_back(Expr::index(text("u", axes.size()), size));
    index.push_back(size.is_const(1) ? Expr(0) : axes.back());
  }
  std::optional<Expr> condition = condition_of(&mask, index);
  if (!condition || condition->is_const()) return false;
  const std::vector<Expr> conditions = conjuncts(*condition);
  bool less = false;
  Substitution places;
  for (const Expr& axis : axes) {
    Range range;
    for (const Expr& each : conditions) take_bound(each, axis, axes, range);
    Expr begin = range.begin.value_or(0), extent = range.end.value_or(axis.extent()) - begin;
    if (extent.lo() < 0) begin = 0, extent = axis.extent();
    if (extent.is_const(0)) return false;
    Expr var = extent.is_const(1) ? Expr(0) : Expr::index(text("p", update.part.size()), extent);
    int64_t step = 1;
    for (const Expr& each : conditions)
      if (var.is_var()) step = std::max(step, step_of(substitute(each, {{axis, begin + var}}), var));
    if (step > 1) {
      extent = ceildiv(extent, step);
      var = extent.is_const(1) ? Expr(0) : Expr::index(var.name(), extent);
    }
    if (var.is_var()) update.part.push_back(var);
    less |= !(extent == axis.extent());
    places.emplace_back(axis, begin + var * step);
  }
  for (const Expr& e : index) update.at.push_back(substitute(e, places));
  update.guard = substitute(*condition, places);
  // What can be shown needs no guard: of a part that lies within the tensor nothing is left.
  for (size_t i = 0; i < index.size(); ++i)
    update.guard = logical_and(update.guard, logical_and(ge(update.at[i], 0), lt(update.at[i], update.node->shape[i])));
  return less;
}

bool is_where(const Node& node) { return node.op == NodeOp::Scalar && node.scalar_op == ScalarOp::where; }

// What the node changes a part of, as it is in memory; null if it is no change.
const Node* base_of(const Node& node) {
  if (node.op == NodeOp::Scatter) return memory_source(node.inputs[0].get());
  return is_where(node) ? memory_source(node.inputs[2].get()) : nullptr;
}

bool is_data(const Node& node) { return node.op == NodeOp::Buffer || node.op == NodeOp::Input; }

// The changes from the leaf to the root; none if there is something else on the way.
std::vector<Update> changes(const Node* root, const Node* leaf) {
  std::vector<Update> result;
  for (const Node* node = root; node != leaf; node = base_of(*node)) {
    if (is_data(*node) || !base_of(*node) || result.size() > kMostConditions) return {};
    Update update{.node = node, .leaf = leaf, .part = {}, .at = {}};
    if (is_where(*node)) {
      update.value = node->inputs[1].get();
      if (!find_part(*node->inputs[0], update)) return {};
    }
    result.push_back(std::move(update));
  }
  std::reverse(result.begin(), result.end());
  return result;
}

// Whether a scatter on the way has another reader: its value has to be in memory by itself.
bool is_read_otherwise(const std::vector<Update>& updates, const std::unordered_map<const Node*, int>& users) {
  for (size_t i = 0; i + 1 < updates.size(); ++i)
    if (updates[i].node->op == NodeOp::Scatter && users.at(updates[i].node) > 1) return true;
  return false;
}

// How often each node is read, the caller included.
std::unordered_map<const Node*, int> count_users(std::span<const NodeRef> roots) {
  std::unordered_map<const Node*, int> users;
  for (const Node* node : topological(roots))
    for (const NodeRef& input : node->inputs) {
      ++users[input.get()];
      // A reshape on the way is no reader: those of the reshape are.
      if (input->op == NodeOp::Reshape) users[memory_source(input.get())] += users[input.get()] > 1;
    }
  for (const NodeRef& root : roots) ++users[memory_source(root.get())];
  return users;
}

// The same repeated and reshaped as `node` repeats and reshapes `from`.
NodeRef moved(const Node* node, const Node* from, const NodeRef& to) {
  std::vector<const Node*> path;
  for (; node != from; node = node->inputs[0].get()) path.push_back(node);
  NodeRef result = to;
  for (auto step = path.rbegin(); step != path.rend(); ++step)
    result = (*step)->op == NodeOp::Expand ? make_expand(result, (*step)->shape) : make_reshape(result, (*step)->shape);
  return result;
}

const Node* through_repeats(const Node* node) {
  while (node->op == NodeOp::Expand || node->op == NodeOp::Reshape) node = node->inputs[0].get();
  return node;
}

// The index as the elements that it chooses among 0, 1, …, which a kernel that reads them checks.
NodeRef checked_index(const Node& scatter, const NodeRef& index) {
  const int64_t axis = scatter.attrs[0].value();
  const Node* from = through_repeats(index.get());
  Shape line(axis + 1, Expr(1));  // so that an error names the axis
  line[axis] = scatter.shape[axis];
  NodeRef numbers = make_iota(DType::i64, line, static_cast<int>(axis));
  NodeRef read = make_gather(numbers, NodeRef::share(from), static_cast<int>(axis), scatter.attrs.back().value());
  return moved(index.get(), from, make_reshape(read, from->shape));
}

// Of a node and what it only moves, the one with the fewest elements that is no leaf; null if that has more than
// `most`.
const Node* smallest(const Node* node, double most) {
  const Node* best = nullptr;
  for (;; node = node->inputs[0].get()) {
    if (node->is_leaf()) break;
    const auto elements = static_cast<double>(node->shape.numel().hi());
    if (elements <= most) {
      best = node;
      most = elements;
    }
    if (!is_movement(*node) || node->op == NodeOp::Barrier) break;
  }
  return best;
}

}  // namespace

Updates find_updates(std::span<const NodeRef> roots, std::span<const Node* const> replaces) {
  Updates result;
  for (size_t i = 0; i < replaces.size(); ++i)
    if (replaces[i])
      if (std::vector<Update> found = changes(roots[i].get(), replaces[i]); !found.empty())
        result.emplace(roots[i].get(), std::move(found));
  if (std::ranges::any_of(result, [](const auto& each) { return each.second.size() > 1; })) {
    const auto users = count_users(roots);
    std::erase_if(result, [&](const auto& each) { return is_read_otherwise(each.second, users); });
  }
  return result;
}

const Node* updated_leaf(const Node* root) {
  const Node* node = root;
  for (size_t i = 0; node && !is_data(*node) && i <= kMostConditions; ++i) node = base_of(*node);
  return node && node != root && is_data(*node) && !changes(root, node).empty() ? node : nullptr;
}

std::vector<NodeRef> with_checked_indices(std::span<const NodeRef> roots, std::span<const Node* const> replaces) {
  std::unordered_set<const Node*> scatters;
  for (const auto& [root, updates] : find_updates(roots, replaces))
    for (const Update& update : updates) {
      const Node& node = *update.node;
      if (node.op != NodeOp::Scatter || node.attrs.back().is_const(kUncheckedIndex)) continue;
      const Expr& places = node.shape[node.attrs[0].value()];
      if (places.is_const() && places.value() > 1) scatters.insert(&node);
    }
  if (scatters.empty()) return {roots.begin(), roots.end()};
  return rebuild_graph(roots, [&](const Node& node, std::span<const NodeRef> inputs) {
    if (!scatters.count(&node)) return NodeRef();
    return make_scatter(node.scatter_op, inputs[0], checked_index(node, inputs[1]), inputs[2],
                        static_cast<int>(node.attrs[0].value()), kUncheckedIndex);
  });
}

std::vector<const Node*> operands(const Update& update) {
  std::vector<const Node*> result;
  auto add = [&](const Node* node, double points) {
    if (const Node* operand = smallest(node, points)) result.push_back(operand);
  };
  if (update.value) {
    double points = 1;
    for (const Expr& axis : update.part) points *= static_cast<double>(axis.extent().hi());
    add(update.value, points);
  } else {
    for (size_t i : {1, 2})
      add(update.node->inputs[i].get(), static_cast<double>(update.node->inputs[1]->shape.numel().hi()));
  }
  return result;
}

}  // namespace heddle
