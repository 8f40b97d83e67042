// What a nest reads, and what of it goes to memory on the way.
#include "base/error.h"
#include "compile/fuse/partitioner.h"

namespace heddle {
namespace {

// An element of a node that a nest computes.
struct Visit {
  int number;
  const Node* node;
  Index index;
  double share;  // of the nest's points: what lies in a part of a join is wanted at the points of that part only
  bool operator<(const Visit& other) const { return number < other.number; }
};

// Each element once. Users first, so that what exceeds the limit is as low as possible.
class Visits {
 public:
  void push(Visit visit) {
    auto& [at, times] = seen_[visit.node];
    if (contains(at, visit.index)) return;
    at.push_back(visit.index);
    times += visit.share;
    queue_.push(std::move(visit));
  }
  bool empty() const { return queue_.empty(); }
  Visit pop() {
    Visit next = queue_.top();
    queue_.pop();
    return next;
  }
  // How often all visits of a node together compute an element, per point of the nest. Its users come first, so when a
  // node's turn comes all its visits are known.
  double times(const Node* node) const { return seen_.at(node).second; }

 private:
  std::priority_queue<Visit> queue_;
  std::unordered_map<const Node*, std::pair<std::vector<Index>, double>> seen_;  // where, and how often
};

// What the node is computed from, each with its index and how often it is wanted.
template <class Push>
void push_inputs(const Node& node, const Index& index, double share, const Push& push) {
  if (is_movement(node)) {
    if (node.op == NodeOp::Pad) share *= upper(node.inputs[0]->shape.numel()) / upper(node.shape.numel());
    push(node.inputs[0].get(), source_index(node, index), share);
  } else if (node.op == NodeOp::Gather) {
    Expr chosen = Expr::index("g", node.inputs[0]->shape[node.attrs[0].value()]);
    push(node.inputs[1].get(), gather_index(node, index), share);
    push(node.inputs[0].get(), gather_source(node, index, chosen), share);
  } else if (node.op == NodeOp::Cat) {
    int64_t axis = node.attrs[0].value();
    Index source = index;
    for (const NodeRef& input : node.inputs) {
      push(input.get(), source, share * upper(input->shape[axis]) / upper(node.shape[axis]));
      source[axis] = source[axis] - input->shape[axis];
    }
  } else {
    for (const NodeRef& input : node.inputs) push(input.get(), index, share);
  }
}

// The axis of u along which its nest can compute the scan `node` at `index`, one element after the other: once each,
// and nowhere outside. Nothing if it cannot.
Expr scannable(const Unit& u, const Node& node, const Index& index, bool& forward) {
  const size_t along = node.attrs[0].value();
  double elements = 1;  // as points() counts them: the bound of a product of symbolic sizes may be another
  for (const Expr& size : node.shape) elements *= upper(size);
  if (u.reduces || u.points() != elements) return {};
  Expr axis;
  for (const Expr& candidate : u.kept) {
    // Of at most one element both directions are the same.
    const bool backward = index[along] == candidate.extent() - 1 - candidate;
    forward = index[along] == candidate || (backward && candidate.hi() == 0);
    if (!forward && !backward) continue;
    axis = candidate;
    break;
  }
  if (!axis.is_var() || !(axis.extent() == node.shape[along])) return {};
  for (size_t i = 0; i < index.size(); ++i) {
    if (i == along) continue;
    bool whole = index[i].is_var() && index[i].extent() == node.shape[i];
    bool inside = node.shape[i].is_const() && index[i].lo() >= 0 && index[i].hi() < node.shape[i].value();
    if (depends_on(index[i], axis) || !(whole || inside)) return {};
    // What data chooses may be another row at every step.
    for (const Expr& var : variables(index[i]))
      if (!var.is_symbol() && !contains(u.kept, var)) return {};
  }
  return axis;
}

bool multiplies_matrices(const Unit& u) {
  const Node* product = u.node->inputs[0].get();
  Index at = reduction_source(*u.node, u.at, u.reduced);
  auto through_movement = [&](const Node*& node, Index& index) {
    for (; is_movement(*node); node = node->inputs[0].get()) index = source_index(*node, index);
  };
  through_movement(product, at);
  if (product->op != NodeOp::Scalar || product->scalar_op != ScalarOp::mul) return false;
  bool only_first = false, only_second = false;  // axes of the result that one factor alone follows
  Index first = at, second = at;
  const Node *left = product->inputs[0].get(), *right = product->inputs[1].get();
  through_movement(left, first);
  through_movement(right, second);
  for (const Expr& axis : u.kept) {
    const bool in_first = depends_on(first, axis), in_second = depends_on(second, axis);
    only_first |= in_first && !in_second;
    only_second |= in_second && !in_first;
  }
  return only_first && only_second;
}

bool has_remainder(const Expr& e) { return e.kind() == ExprKind::Mod || std::ranges::any_of(e.args(), has_remainder); }

// The remainder of a position, each a few times over: share_philox_blocks() computes it once.
bool in_philox_blocks(const Index& index, double elements, double points) {
  constexpr double kMostParts = 8;
  const Expr* only = nullptr;
  for (const Expr& e : index) {
    if (e.is_const()) continue;
    if (only) return false;
    only = &e;
  }
  return only && has_remainder(*only) && points <= kMostParts * elements;
}

// Points of the nest without the axes behind the last one that the index depends on.
double points_until(const Unit& u, const Index& index) {
  double points = 1, result = 1;
  for (const auto* axes : {&u.kept, &u.reduced})
    for (const Expr& axis : *axes) {
      points *= upper(axis.extent());
      if (depends_on(index, axis)) result = points;
    }
  return result;
}

// How many different elements an index names, at most.
double values_of(const Index& index) {
  std::vector<Expr> all;
  double count = 1;
  for (const Expr& e : index)
    for (const Expr& var : variables(e)) {
      if (contains(all, var)) continue;
      all.push_back(var);
      count *= upper(var.extent());
    }
  return count;
}

}  // namespace

void Partitioner::explore(Unit& u, bool decide, int id) {
  if (explore_once(u, decide, id)) {
    read_own(u, decide);
    return;
  }
  // A scan of something reversed: the nest goes the other way.
  Substitution reversed = {{u.scanned, u.scanned.extent() - 1 - u.scanned}};
  for (Expr& e : u.at) e = substitute(e, reversed);
  bool done = explore_once(u, decide, id);
  HD_ASSERT(done, "a scan that runs both ways");
}

bool Partitioner::may_read(const Unit& u, const Node* node) {
  if (region_.given.count(node)) return true;
  if (!stored_.count(node)) return false;
  auto writer = result_.storing.find(node);
  if (writer == result_.storing.end()) return true;
  const int from = unit(writer->second).group;
  if (u.group >= 0) return from == u.group || !reaches(u.group, from);
  // It will be needed by those that read its node.
  for (bool memory : {false, true})
    if (auto readers = readers_.find({u.node, memory}); readers != readers_.end())
      for (int reader : readers->second)
        if (const int g = unit(reader).group; g >= 0 && (g == from || reaches(g, from))) return false;
  return true;
}

bool Partitioner::explore_once(Unit& u, bool decide, int id) {
  Visits visits;
  auto push = [&](const Node* node, Index index, double share = 1) {
    visits.push({number_.at(node), node, std::move(index), share});
  };
  std::unordered_set<const Node*> before;  // what the unit read from memory when it was explored earlier
  for (const Unit::Read& read : u.reads)
    if (read.memory) before.insert(read.node);
  u.reads.clear();
  u.leaves.clear();
  u.after.clear();
  u.evaluations = 0;
  u.scanned = Expr();
  int scans = 0;
  double points = u.points();
  if (u.reduces) {
    push(u.node->inputs[0].get(), reduction_source(*u.node, u.at, u.reduced));
  } else if (!u.scatters() || !u.into) {
    push(u.source(), u.at);
  }
  if (u.scatters())
    for (size_t operand : {1, 2}) push(u.node->inputs[operand].get(), u.update_at());
  bool first = !u.reduces && !u.scatters() && !u.is_part();
  while (!visits.empty()) {
    const Visit visit = visits.pop();
    const Node& node = *visit.node;
    bool self = std::exchange(first, false);
    if (is_leaf(node)) u.leaves.push_back(&node);
    if (is_leaf(node) || node.op == NodeOp::Const) continue;
    // Scatters and parts of a join have nests of their own, which take no reduction in, nor what is computed of one.
    bool reduces = reduction_of(&node) || (is_compute(node) && reduces_below_[number(&node)]);
    bool apart = node.op == NodeOp::Scatter || ((u.scatters() || u.is_part()) && reduces);
    // A unit that is explored again may find that a nest no longer takes in what it did.
    auto read_from_memory = [&](Why why) {
      if (decide || id >= 0) store(&node, why);
      u.reads.push_back({&node, visit.index, true});
    };
    if (!self && (before.count(&node) || may_read(u, &node) || apart)) {
      read_from_memory({node.op == NodeOp::Scatter ? Reason::Scatter : Reason::TakesNoReduction});
      continue;
    }
    if (direct_of(&node)) {
      read_from_memory({Reason::Direct});
      continue;
    }
    const Node* reduction = reduction_of(&node);
    if (reduction && u.nest && !takes_in(u, reduction, visit.index)) {
      read_from_memory({Reason::OutsideNest});
      continue;
    }
    if (reduction) {
      u.reads.push_back({&node, visit.index, false});
      if (decide && (wanted_.insert(reduction).second || kept_.count(reduction))) pending_.push(number_.at(reduction));
      continue;
    }
    if (node.op == NodeOp::Scan) {
      bool forward = false;
      Expr axis = scannable(u, node, visit.index, forward);
      const bool fits = axis.is_var() && !u.scatters() && !u.is_part() && ++scans <= kMaxScans;
      if (!fits || (u.scans() && !(forward && u.scanned == axis))) {
        HD_ASSERT(!self, "a scan cannot compute itself");
        read_from_memory({Reason::Scan});
        continue;
      }
      u.scanned = axis;
      if (!forward) return false;
    } else if (decide && !self && !widens(node)) {
      if (Why why = should_store(u, node, visit.index, points, visits.times(&node))) {
        read_from_memory(why);
        continue;
      }
    }
    if (decide && !self && node.op == NodeOp::Permute) {
      if (Why why = should_permute(u, node, visit.index)) {
        read_from_memory(why);
        continue;
      }
    }
    ++u.evaluations;
    if (id >= 0 && !u.nest) enter_computed(&node, id);
    if (node.op == NodeOp::Barrier) wait_for(u, node.inputs[1].get(), decide);
    push_inputs(node, visit.index, visit.share, push);
  }
  return true;
}

void Partitioner::wait_for(Unit& u, const Node* token, bool decide) {
  token = rearranged(token);
  if (is_leaf(*token) || token->op == NodeOp::Const || token->op == NodeOp::Iota) return;
  if (decide) store(token, {Reason::Barrier});
  if (!contains(u.after, token)) u.after.push_back(token);
}

Why Partitioner::should_store(const Unit& u, const Node& node, const Index& index, double points, double times) {
  if (!is_compute(node)) return {};
  if (joins_many(node)) return {Reason::LongJoin};
  if (u.evaluations >= kMaxEvaluations) return {Reason::KernelFull};
  const size_t n = number(&node);
  const double elements = upper(node.shape.numel());
  points = computed_points(u, node, index, points, times);
  if (points <= elements || (reduces_below_[n] && can_be_outer(u, index))) return {};
  const double again = limits_.rates.arithmetic(work_[n] * (points - elements));
  const double once = limits_.rates.launch + limits_.rates.traffic(elements * size_of(node.dtype));
  return again > once ? Why{Reason::WouldRepeat, points / elements} : Why{};
}

Why Partitioner::should_permute(const Unit& u, const Node& node, const Index& index) {
  constexpr double kManyTimes = 8;
  const double elements = upper(node.shape.numel());
  if (limits_.machine != Machine::Simd || !u.reduces || u.nest || u.reduced.empty() || index.empty()) return {};
  if (u.points() < kManyTimes * elements || u.points() <= kSmallWork) return {};
  const Expr& fast = u.reduced.back();
  const Index source = source_index(node, index);
  if (!depends_on(index.back(), fast) || depends_on(source.back(), fast) || multiplies_matrices(u)) return {};
  return {Reason::WalkedAcross, u.points() / elements};
}

double Partitioner::computed_points(const Unit& u, const Node& node, const Index& index, double points, double times) {
  // The same for all points: computed once per block.
  if (std::ranges::all_of(index, [](const Expr& e) { return e.is_const(); })) return upper(node.shape.numel());
  size_t n = number(&node);
  double elements = upper(node.shape.numel());
  // Masks of positions: a nest skips what they exclude.
  if (u.nest && from_little_[n] && work_[n] <= kMaskWork) return elements;
  // What does not depend on the last axes is computed outside their loops.
  points = std::min(points, points_until(u, index));
  // Indices of rows are computed row by row, whatever is done with the row.
  if (is_integer(node.dtype) && work_[n] <= kIndexWork) points = std::min(points, values_of(index));
  // The factor of a nested sum is computed once for all that the sum keeps.
  auto is_kept = [&](const Expr& axis) { return !contains(u.nest_outer, axis) && depends_on(index, axis); };
  if (u.factor && std::ranges::none_of(u.kept, is_kept)) points = std::min(points, values_of(index));
  if (!u.reduces && in_philox_blocks(index, elements, points)) return elements;
  // A stencil of rolled or shifted values computes each of them at every place from which it is seen.
  return u.nest ? points : points * std::max(times, 1.0);
}

bool can_be_outer(const Unit& u, const Index& index) {
  std::vector<Expr> axes;
  for (const Expr& e : index) {
    if (e.is_const(0)) continue;
    if (!contains(u.kept, e) || contains(axes, e)) return false;
    axes.push_back(e);
  }
  if (u.factor) return std::ranges::all_of(axes, [&](const Expr& e) { return contains(u.nest_outer, e); });
  return !u.reduces || axes.size() == u.kept.size();
}

}  // namespace heddle
