// Nested sums: a sum over products whose kernel computes one of the factors on the way, as attention does.
//
//   o[q, e] = sum over k of f[q, k] * v[k, e]    f made of s[q, k] = sum over d of .. and of m[q] = max over k of ..
//
// The sum's outer axes are those that the factor follows (q). What the factor needs at each of its elements (s) is
// computed inside, in every kernel that needs it; what is reduced along the same axis (m) belongs to the first such
// sum, whose kernel writes it to memory if others want it.
#include "base/error.h"
#include "base/interrupt.h"
#include "compile/fuse/partitioner.h"

namespace heddle {
namespace {

constexpr int kMostBelow = 256;  // nodes looked at

// An index of distinct variables and zeros.
bool is_plain(const Index& index, std::vector<Expr>& vars) {
  for (const Expr& e : index) {
    if (e.is_const(0)) continue;
    if (!e.is_var() || e.is_symbol() || contains(vars, e)) return false;
    vars.push_back(e);
  }
  return true;
}

bool covers(const Node& node, const Index& index) {
  for (size_t i = 0; i < index.size(); ++i)
    if (index[i].is_var() ? !(index[i].extent() == node.shape[i]) : !node.shape[i].is_const(1)) return false;
  return true;
}

bool same_set(std::span<const Expr> a, std::span<const Expr> b) {
  return a.size() == b.size() && std::ranges::all_of(a, [&](const Expr& e) { return contains(b, e); });
}

double reduced_extent(const Node& reduction) {
  double extent = 1;
  for (const Expr& axis : reduction.attrs) extent *= upper(reduction.inputs[0]->shape[axis.value()]);
  return extent;
}

bool is_product(const Node& node) { return node.op == NodeOp::Scalar && node.scalar_op == ScalarOp::mul; }

// A product with more elements than one of its factors.
bool multiplies_more(const Node& node, const Node& factor) {
  return is_product(node) && upper(node.shape.numel()) > upper(factor.shape.numel());
}

// What a kernel computes on the way.
bool is_inside(const Node& node) { return is_movement(node) || is_compute(node); }

// Elements that the products of a sum are made of.
double multiplied_elements(const Node& sum) {
  double elements = 0;
  for (const NodeRef& input : rearranged(sum.inputs[0].get())->inputs)
    elements += upper(rearranged(input.get())->shape.numel());
  return elements;
}

}  // namespace

// Looks through nodes that only rearrange.
void Partitioner::through_movement(const Node*& node, Index& index) const {
  while (is_movement(*node) && !in_memory(*node) && node->op != NodeOp::Pad && node->op != NodeOp::Barrier) {
    index = source_index(*node, index);
    node = node->inputs[0].get();
  }
}

struct Partitioner::Below {
  std::vector<std::pair<const Node*, Index>> reductions;
  std::unordered_map<const Node*, Index> nodes;  // and where they are seen first
  bool complete = true;
};

Partitioner::Below Partitioner::look_below(const Node* node, const Index& index) {
  Below below;
  std::vector<std::pair<const Node*, Index>> stack{{node, index}}, seen;
  while (!stack.empty()) {
    auto [at, where] = std::move(stack.back());
    stack.pop_back();
    bool known = std::ranges::any_of(seen, [&](auto& s) { return s.first == at && s.second == where; });
    // Where nothing is reduced there is nothing to find, however much there is (random numbers, say).
    if (known || !reduces_below_[number(at)] || in_memory(*at)) continue;
    seen.emplace_back(at, where);
    if (seen.size() > kMostBelow) below.complete = false;
    if (!below.complete) return below;
    below.nodes.emplace(at, where);
    if (stored_.count(at) && at != node) continue;
    if (const Node* reduction = reduction_of(at)) {
      below.reductions.emplace_back(reduction, where);
    } else if (is_movement(*at)) {
      stack.emplace_back(at->inputs[0].get(), source_index(*at, where));
    } else if (at->op == NodeOp::Scalar || at->op == NodeOp::Cast || at->op == NodeOp::Bitcast) {
      for (const NodeRef& input : at->inputs) stack.emplace_back(input.get(), where);
    } else if (at->op != NodeOp::Iota) {
      below.complete = false;  // gathers, scans and the like stay outside
    }
  }
  return below;
}

void Partitioner::find_nests() {
  // Those that need least come first: what is reduced on the way belongs to the forward pass, not to gradients that
  // happen to be listed before it.
  std::vector<int> depth(order_.size(), 0);
  std::vector<const Node*> sums = order_;
  for (size_t i = 0; i < order_.size(); ++i)
    for (int user : users_[i]) depth[user] = std::max(depth[user], depth[i] + 1);
  std::ranges::stable_sort(sums, [&](const Node* a, const Node* b) { return depth[number(a)] < depth[number(b)]; });
  // Whether a factor goes to memory anyway is known once all reductions of it have an owner: the second time.
  sums.insert(sums.end(), sums.begin(), sums.end());
  for (const Node* node : sums) {
    interruption_point();
    if (nests_.count(node) || node->op != NodeOp::Reduce || node->reduce_op != ReduceOp::Sum || node->attrs.size() != 1)
      continue;
    if (!is_float(node->dtype) || limits_.not_nested.count(node) || in_memory(*node)) continue;
    std::optional<Nest> nest = find_nest(node);
    if (!nest) continue;
    for (const Node* reduction : nest->kept) ++kept_[reduction];
    if (read_apart(node)) store(node, {Reason::ReducedElsewhere});
    multiplied_in_[nest->factor].push_back(node);
    nests_.emplace(node, std::move(*nest));
  }
}

std::optional<Partitioner::Nest> Partitioner::find_nest(const Node* sum) {
  Unit probe = make_unit(sum, true);
  const Expr along = probe.reduced[0];
  const Node* product = sum->inputs[0].get();
  Index at = reduction_source(*sum, probe.at, probe.reduced);
  through_movement(product, at);
  if (!is_product(*product) || stored_.count(product) || in_memory(*product)) return {};
  for (const NodeRef& input : product->inputs) {
    const Node* factor = input.get();
    Index index = at;
    through_movement(factor, index);
    std::vector<Expr> vars;
    if (!reduces_below_[number(factor)] || stored_.count(factor) || !is_plain(index, vars)) continue;
    if (!contains(vars, along) || !covers(*factor, index)) continue;
    Nest nest{.factor = factor, .factor_at = index, .at = probe.at, .along = along};
    nest.anchors.emplace(factor, position_of(index, along));
    double width = 1;
    std::vector<Expr> outer;
    for (size_t i = 0; i < probe.at.size(); ++i) {
      if (!probe.at[i].is_var()) continue;
      if (contains(vars, probe.at[i])) {
        nest.outer.push_back(i);
        outer.push_back(probe.at[i]);
      } else {
        width *= upper(probe.at[i].extent());
      }
    }
    if (outer.size() + 1 != vars.size() || outer.size() == probe.kept.size() || width > kMostNestedWidth) continue;
    const double rows = row_count(outer);
    Below below = look_below(factor, index);
    if (!below.complete) continue;
    std::vector<const Node*> statistics;
    bool dependent = false;  // reductions along the same axis are part of the factor
    for (auto& [reduction, where] : below.reductions) {
      std::vector<Expr> follows;
      if (!is_plain(where, follows) || !covers(*reduction, where) || reduction->op != NodeOp::Reduce) continue;
      bool statistic = same_set(follows, outer) && reduction->attrs.size() == 1 &&
                       reduced_extent(*reduction) == upper(along.extent());
      dependent |= statistic;
      if (same_set(follows, vars) && reduced_extent(*reduction) <= kMostNestedWidth)
        nest.kept.push_back(reduction), nest.anchors.emplace(reduction, position_of(where, along));
      else if (statistic && !owner_.count(reduction))
        statistics.push_back(reduction);
    }
    if (nest.kept.empty() && statistics.empty()) continue;
    // Without reductions that depend on each other, the factor should at least be much larger than what it is made of.
    double made_of = 0;
    for (const Node* reduction : nest.kept) {
      width = std::max(width, reduced_extent(*reduction));
      made_of += multiplied_elements(*reduction);
    }
    const double length = upper(along.extent());
    bool large = rows >= kMinRows && length <= kMostNestedLength && length >= 2 * width && rows * length >= made_of;
    if (!dependent && !(large && only_summed(nest.factor))) continue;
    // One that several sums want is worth its room in memory, unless it is larger than what products make it of.
    if ((nest.kept.empty() || (rows >= kMinRows && rows * length < made_of)) &&
        multiplied_elsewhere(nest.factor, product))
      continue;
    for (const Node* statistic : statistics) own(statistic, sum);
    own_statistics(sum, nest);
    return nest;
  }
  return {};
}

// What uses nodes, directly or behind what `through` says; each once.
template <class F>
Partitioner::Users Partitioner::users_of(std::vector<const Node*> nodes, const F& through) const {
  Users users{std::move(nodes), {}};
  std::unordered_set<const Node*> seen(users.through.begin(), users.through.end());
  for (size_t i = 0; i < users.through.size() && users.through.size() < kMostBelow; ++i)
    for (int user : users_[number(users.through[i])])
      if (const Node* next = order_[user]; seen.insert(next).second)
        (through(*next) ? users.through : users.ends).push_back(next);
  return users;
}

bool Partitioner::read_apart(const Node* sum) {
  // What everybody wants may be a function of it, which its own kernel then writes.
  if (const int at = next_[number(sum)]; at >= 0) {
    const Node& next = *order_[at];
    const bool elementwise = info(next.op).kind == NodeKind::Elementwise || next.op == NodeOp::Reshape;
    if (elementwise && next.shape.numel() == sum->shape.numel()) return false;
  }
  const std::vector<const Node*> kernels =
      users_of({sum}, [&](const Node& node) { return !stored_.count(&node) && is_inside(node); }).ends;
  return kernels.size() > 1 && std::ranges::any_of(kernels, reduction_of);
}

bool Partitioner::only_summed(const Node* factor) {
  const Users users = users_of({factor}, is_inside);
  // What goes to memory anyway need not be computed again.
  if (users.through.size() >= kMostBelow) return false;
  if (std::ranges::any_of(users.through, [&](const Node* node) { return roots_.count(node) > 0; })) return false;
  return std::ranges::all_of(users.ends, [&](const Node* sum) {
    if (sum->op != NodeOp::Reduce) return false;
    // A nest computes it, or it is a sum of products that keeps an axis which the factor lacks.
    return owner_.count(sum) ||
           (sum->reduce_op == ReduceOp::Sum && multiplies_more(*rearranged(sum->inputs[0].get()), *factor));
  });
}

bool Partitioner::multiplied_elsewhere(const Node* factor, const Node* product) {
  return std::ranges::any_of(users_of({factor}, is_movement).ends,
                             [&](const Node* user) { return user != product && multiplies_more(*user, *factor); });
}

// What else is reduced along the axis, of the same values: a softmax's divisor, say, whoever divides by it.
void Partitioner::own_statistics(const Node* sum, const Nest& nest) {
  std::vector<const Node*> made_of;
  for (const auto& [node, axis] : nest.anchors) made_of.push_back(node);
  auto earlier = [&](const Node* a, const Node* b) { return number(a) < number(b); };
  std::ranges::sort(made_of, earlier);
  std::vector<const Node*> reductions = users_of(std::move(made_of), is_inside).ends;
  std::ranges::sort(reductions, earlier);
  for (const Node* reduction : reductions)
    if (reduction->op == NodeOp::Reduce && reduction->attrs.size() == 1 && reduction != sum &&
        !owner_.count(reduction) && shares_axis(reduction, sum, nest))
      own(reduction, sum);
}

void Partitioner::own(const Node* statistic, const Node* sum) {
  if (owner_.emplace(statistic, sum).second) owned_[sum].push_back(statistic);
}

bool Partitioner::shares_axis(const Node* reduction, const Node* sum, const Nest& nest) {
  Unit own = make_unit(reduction, true);
  if (own.reduced.size() != 1 || own.kept.size() != nest.outer.size()) return false;
  const Index from = reduction_source(*reduction, own.at, own.reduced);
  Below below = look_below(reduction->inputs[0].get(), from);
  if (!below.complete) return false;
  // What it is made of besides may not wait for the sum, nor be as large as what the nest computes on the way.
  const double large = upper(nest.factor->shape.numel());
  for (auto& [other, where] : below.reductions) {
    auto owned = owner_.find(other);
    bool inside = nest.anchors.count(other) || (owned != owner_.end() && owned->second == sum);
    if (!inside && (number(other) > number(sum) || upper(other->shape.numel()) >= large)) return false;
  }
  return std::ranges::any_of(nest.anchors, [&](auto& anchor) {
    auto found = below.nodes.find(anchor.first);
    std::vector<Expr> vars;
    return found != below.nodes.end() && is_plain(found->second, vars) && covers(*anchor.first, found->second) &&
           vars.size() == own.kept.size() + 1 && found->second[anchor.second] == own.reduced[0];
  });
}

void Partitioner::release_nest(const Node* sum) {
  auto nest = nests_.find(sum);
  if (nest == nests_.end()) return;
  const std::vector<const Node*> statistics = std::exchange(owned_[sum], {});
  for (const Node* statistic : statistics) owner_.erase(statistic);
  for (const Node* reduction : std::exchange(nest->second.kept, {}))
    if (--kept_[reduction] == 0) kept_.erase(reduction);
  if (auto placed = reducing_.find(sum); placed != reducing_.end()) {
    look_again(std::span(&placed->second, 1));  // it is made again later
    return;
  }
  nests_.erase(nest);
  for (const Node* statistic : statistics)
    if (auto placed = reducing_.find(statistic); placed != reducing_.end())
      unit(placed->second).nest = nullptr, unit(placed->second).along = Expr();
}

void Partitioner::enter_nest(Unit& u) {
  if (!u.reduces) return;
  if (auto owned = owner_.find(u.node); owned != owner_.end()) {
    u.nest = owned->second;
    u.along = u.reduced[0];
  }
  auto it = nests_.find(u.node);
  if (it == nests_.end()) return;
  u.nest = u.node;
  u.along = u.reduced[0];
  const Nest& nest = it->second;
  u.factor = nest.factor;
  Substitution to = {{nest.along, u.along}};
  for (size_t i : nest.outer) {
    u.nest_outer.push_back(u.at[i]);
    to.emplace_back(nest.at[i], u.at[i]);
  }
  for (const Expr& e : nest.factor_at) u.factor_at.push_back(substitute(e, to));
}

const Node* Partitioner::family(const Unit& u) const {
  if (u.nest) return u.nest;
  if (u.reduces) return nullptr;
  for (const Unit::Read& read : u.reads)
    if (!read.memory && nests_.count(reduction_of(read.node))) return reduction_of(read.node);
  return nullptr;
}

bool Partitioner::takes_in(const Unit& u, const Node* reduction, const Index& index) const {
  std::vector<Expr> vars;
  if (!is_plain(index, vars)) return false;
  std::vector<Expr> outer = u.factor ? u.nest_outer : u.kept;
  if (auto owned = owner_.find(reduction); owned != owner_.end() && owned->second == u.nest)
    return same_set(vars, outer);
  outer.push_back(u.along);
  auto nest = nests_.find(u.nest);
  if (nest == nests_.end()) return false;
  const std::vector<const Node*>& kept = nest->second.kept;
  return contains(kept, reduction) && same_set(vars, outer);
}

void Partitioner::read_own(Unit& u, bool decide) {
  const Node* nest = family(u);
  for (Unit::Read& read : u.reads) {
    const Node* reduction = reduction_of(read.node);
    auto owned = owner_.find(reduction);
    if (!reduction || owned == owner_.end()) continue;
    if (owned->second != nest) {
      // Others read what the nest has written.
      if (read.memory || !decide || u.node == reduction) continue;
      store(read.node, {Reason::NestWrites});
      read.memory = true;
    } else if (read.memory && can_be_outer(u, read.index)) {
      read.memory = false;
      if (decide && wanted_.insert(reduction).second) pending_.push(number_.at(reduction));
    }
  }
}

// Maps the axes of `u` to those of its readers in the group: outer ones to outer ones, the other to their common axis.
bool Partitioner::follow_readers(Unit& u, int g, std::vector<Expr>& outer) {
  bool first = true;
  for (int reader_id : readers_[{u.node, false}]) {
    const Unit& reader = unit(reader_id);
    if (reader.group != g) continue;
    if (!reader.nest || !reader.along.is_var()) return false;
    for (const Unit::Read& read : reader.reads) {
      if (read.memory || reduction_of(read.node) != u.node) continue;
      std::vector<Expr> mine = axes_along(u, read.index, reader.outer);
      const std::vector<Expr> along = axes_along(u, read.index, std::span(&reader.along, 1));
      if (along.size() != 1 || mine.size() != reader.outer.size() || mine.size() + 1 != u.kept.size()) return false;
      if (!first && !(mine == outer)) return false;
      outer = std::move(mine);
      u.along = along[0];
      first = false;
    }
  }
  return !first;
}

std::vector<int> Partitioner::place_kept(const Node* node) {
  std::vector<int> others;
  for (int g : reading_groups({node, false})) {
    if (has_unit(g, node)) continue;
    Unit u = make_unit(node, true);
    std::vector<Expr> outer;
    if (!is_nested(g) || !follow_readers(u, g, outer)) {
      others.push_back(g);
      continue;
    }
    const int id = add_unit(std::move(u));
    reducing_.try_emplace(node, id);
    join(id, g, std::move(outer));
  }
  return others;
}

bool Partitioner::store_own(int id) {
  Unit& u = unit(id);
  auto owned = owner_.find(u.node);
  if (owned == owner_.end()) return false;
  for (int reader_id : readers_[{u.node, false}]) {
    const Unit& reader = unit(reader_id);
    if (reader_id == id || reader.group < 0 || !group(reader.group).fixed || family(reader) != owned->second) continue;
    for (const Unit::Read& read : reader.reads) {
      if (read.memory || read.node != u.node) continue;
      std::vector<Expr> outer = axes_along(u, read.index, reader.outer);
      if (outer.size() != reader.outer.size() || outer.size() != u.kept.size()) continue;
      join(id, reader.group, std::move(outer));
      return true;
    }
  }
  return false;
}

void Partitioner::share_factors() {
  for (Group& g : result_.groups) {
    g.shared.clear();
    for (int id : g.units) {
      const Unit& u = unit(id);
      if (!u.factor || reduction_of(u.factor) || in_memory(*u.factor)) continue;
      bool known =
          std::ranges::any_of(g.shared, [&](const Group::Shared& s) { return unit(s.unit).factor == u.factor; });
      if (known || u.group < 0) continue;
      size_t before = 0;
      while (number(unit(g.units[before]).node) < number(u.factor)) ++before;
      g.shared.push_back({id, before});
    }
  }
}

}  // namespace heddle
