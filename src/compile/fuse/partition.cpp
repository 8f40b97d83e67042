#include "compile/fuse/partition.h"

#include "base/error.h"
#include "base/interrupt.h"
#include "compile/fuse/partitioner.h"

namespace heddle {

double op_weight(const Node& node) {
  if (node.op == NodeOp::Gather || node.op == NodeOp::Cat) return 2;
  if (node.op == NodeOp::Scan) return 4;
  if (node.op != NodeOp::Scalar) return 0;
  if (!info(node.scalar_op).native) return 12;
  bool slow = node.scalar_op == ScalarOp::div || node.scalar_op == ScalarOp::sqrt ||
              node.scalar_op == ScalarOp::floordiv || node.scalar_op == ScalarOp::mod;
  return slow ? 4 : 1;
}

bool Partitioner::joins_many(const Node& node) const {
  if (node.op != NodeOp::Cat || node.inputs.size() <= kFewParts) return false;
  const auto parts = static_cast<size_t>(
      std::ranges::count_if(node.inputs, [](const NodeRef& input) { return !input->shape.numel().is_const(0); }));
  if (parts <= kFewParts) return false;
  return parts > kMostChosen ||
         limits_.rates.arithmetic(static_cast<double>(parts) * upper(node.shape.numel())) > limits_.rates.launch;
}

bool is_compute(const Node& node) {
  const NodeKind kind = info(node.op).kind;
  return kind == NodeKind::Elementwise || kind == NodeKind::Computed;
}

bool widens(const Node& node) {
  return node.op == NodeOp::Cast && size_of(node.dtype) > size_of(node.inputs[0]->dtype);
}

bool spreads(const Node& node) {
  if (node.op != NodeOp::Scalar) return false;
  double elements = 0;
  for (const NodeRef& input : node.inputs) {
    const Node* from = input.get();
    while (is_movement(*from)) from = from->inputs[0].get();
    elements += from->op == NodeOp::Const ? 0 : upper(from->shape.numel());
  }
  return elements < upper(node.shape.numel());
}

Partitioner::Partitioner(std::span<const NodeRef> roots, const PartitionLimits& limits)
    : limits_(limits), order_(topological(roots)) {
  number_.reserve(order_.size());
  for (size_t i = 0; i < order_.size(); ++i) number_[order_[i]] = static_cast<int>(i);
  measure();
  for (const NodeRef& root : roots)
    if (!in_memory(*root)) {
      store(root.get(), {Reason::CallerWants});
      roots_.insert(root.get());
    }
  for (const auto& [node, why] : limits.in_memory) store(node, why);
  if (limits.nests) find_nests();
}

std::vector<std::pair<const Node*, Why>> Partitioner::repeated() const {
  std::vector<int> kernels(order_.size(), 0);      // that compute the node
  std::vector<int> among_users(order_.size(), 0);  // the largest such number of a user
  std::vector<std::pair<const Node*, Why>> result;
  for (size_t i = order_.size(); i-- > 0;) {
    const Node* node = order_[i];
    auto it = computed_in_.find(node);
    if (it != computed_in_.end() && !stored_.count(node) && !widens(*node) && !spreads(*node)) {
      std::vector<int> groups;
      for (int id : it->second)
        if (int g = group_of_[static_cast<size_t>(id)]; g >= 0) groups.push_back(g);
      std::sort(groups.begin(), groups.end());
      kernels[i] = static_cast<int>(std::unique(groups.begin(), groups.end()) - groups.begin());
    }
    for (const NodeRef& input : node->inputs) {
      int& most = among_users[number(input.get())];
      most = std::max(most, kernels[i]);
    }
    if (kernels[i] < 2 || kernels[i] <= among_users[i] || !is_compute(*node) || from_little_[i]) continue;
    double arithmetic = limits_.rates.arithmetic((kernels[i] - 1) * work_[i]);
    double traffic = limits_.rates.traffic((kernels[i] + 1) * size_of(node->dtype));
    if (arithmetic > traffic && (arithmetic - traffic) * upper(node->shape.numel()) > limits_.rates.launch)
      result.emplace_back(node, Why{Reason::SeveralCompute, static_cast<double>(kernels[i])});
  }
  return result;
}

bool Partitioner::run() {
  // Users before inputs: when a unit's turn comes, everything that reads it has a group already.
  while (!pending_.empty() && !unfit_.why) {
    interruption_point();
    const Node* node = order_[static_cast<size_t>(pending_.top())];
    pending_.pop();
    if (node->op == NodeOp::Sort || node->op == NodeOp::Custom || node->control) {
      if (placed_direct_.insert(node).second) place_direct(node);
    } else if (stored_.count(node) && !result_.storing.count(node)) {
      if (limits_.updates.count(node))
        place_updates(node);
      else
        joins_many(*node) ? place_parts(node) : place_storing(open_unit(node, false));
    } else if (wanted_.count(node) && (kept_.count(node) || !result_.reducing.count(node))) {
      place_reduction(node);
    }
  }
  if (unfit_.why) return false;
  join_siblings();
  drop_dead_stores();
  order_groups();
  if (unfit_.why) return false;
  share_factors();
  find_nests_of_memory();
  for (const Unit& u : result_.units) group_of_.push_back(u.group);
  return true;
}

void Partitioner::measure() {
  size_t count = order_.size();
  work_.resize(count);
  reduces_below_.resize(count);
  from_little_.resize(count);
  users_.assign(count, {});
  std::vector<std::vector<int>>& users = users_;
  for (size_t i = 0; i < count; ++i) {
    const Node& node = *order_[i];
    bool reduction = reduction_of(&node) == &node;
    // Below these nothing is computed in place.
    bool cut = reduction || node.op == NodeOp::Sort || node.op == NodeOp::Custom || node.control ||
               node.op == NodeOp::Scatter || joins_many(node);
    double work = op_weight(node);
    bool below = reduction;
    bool little = !cut && node.op != NodeOp::Scan && node.op != NodeOp::Gather;
    if (in_memory(node)) little = upper(node.shape.numel()) <= kFewElements;
    for (const NodeRef& input : node.inputs) {
      size_t j = number(input.get());
      users[j].push_back(static_cast<int>(i));
      little = little && from_little_[j];
      if (cut) continue;
      work += work_[j];
      below = below || reduces_below_[j];
    }
    work_[i] = std::min(work, 1000.0);
    reduces_below_[i] = below;
    from_little_[i] = little;
  }
  next_.assign(count, -1);
  std::vector<int> depth(count, 0);
  for (size_t i = count; i-- > 0;) {
    if (users[i].empty()) continue;
    int meet = users[i][0];
    for (size_t u = 1; u < users[i].size() && meet >= 0; ++u) {
      int other = users[i][u];
      for (int steps = 0; meet != other; ++steps) {
        if (meet < 0 || other < 0 || steps > 256) {
          meet = -1;
          break;
        }
        int& lower = depth[static_cast<size_t>(meet)] >= depth[static_cast<size_t>(other)] ? meet : other;
        lower = next_[static_cast<size_t>(lower)];
      }
    }
    next_[i] = meet;
    depth[i] = meet < 0 ? 0 : depth[static_cast<size_t>(meet)] + 1;
  }
}

void Partitioner::store(const Node* node, Why why) {
  if (!stored_.insert(node).second) return;
  if (limits_.explain) result_.boundaries[node].stored = why;
  const Node* direct = direct_of(node);
  if (direct) stored_results_[direct].push_back(node);
  pending_.push(number_.at(direct ? direct : node));
}

void Partitioner::place_direct(const Node* node) {
  int id = static_cast<int>(result_.units.size());
  Unit& u = result_.units.emplace_back();
  u.node = node;
  for (const Node* result : stored_results_[node]) {
    u.writes.push_back(result);
    result_.storing[result] = id;
  }
  for (const NodeRef& input : node->inputs) {
    const Node* source = memory_source(input.get());
    if (in_memory(*source)) continue;
    store(source, {Reason::Sort});
    u.reads.push_back({source, {}, true});
    readers_[{source, true}].push_back(id);
  }
  new_group(id);
}

void Partitioner::place_parts(const Node* node) {
  int g = -1;
  for (size_t part = 0; part < node->inputs.size(); ++part) {
    if (node->inputs[part]->shape.numel().is_const(0)) continue;
    int id = static_cast<int>(result_.units.size());
    result_.units.push_back(make_unit(node, false, static_cast<int>(part)));
    result_.storing.try_emplace(node, id);
    explore(unit(id), true, id);
    enter_reads(id);
    if (g < 0)
      g = new_group(id);
    else
      join(id, g, unit(id).kept);
  }
}

void Partitioner::place_updates(const Node* root) {
  int g = -1;
  for (const Update& update : limits_.updates.at(root)) {
    int id = static_cast<int>(result_.units.size());
    Unit u;
    if (update.value) {
      u.node = update.node;
      u.kept = update.part;
      u.at = update.at;
    } else {
      u = make_unit(update.node, false);
    }
    u.into = root;
    u.change = &update;
    result_.units.push_back(std::move(u));
    result_.storing.try_emplace(root, id);
    explore(unit(id), true, id);
    enter_reads(id);
    if (g < 0)
      g = new_group(id);
    else
      join(id, g, outer_axes(unit(id)));
  }
}

Unit Partitioner::make_unit(const Node* node, bool reduces, int part) {
  Unit u;
  u.node = node;
  u.reduces = reduces;
  u.part = part;
  auto add_axis = [](std::vector<Expr>& axes, const Expr& extent) {
    if (extent.is_const(1)) return Expr(0);
    axes.push_back(Expr::index(text("i", axes.size()), extent));
    return axes.back();
  };
  const Node& written = part < 0 ? *node : *node->inputs[static_cast<size_t>(part)];
  for (const Expr& extent : written.shape) u.at.push_back(add_axis(u.kept, extent));
  if (!reduces && node->op == NodeOp::Scatter) {
    const Expr& updates = node->inputs[1]->shape[static_cast<size_t>(node->attrs[0].value())];
    u.update = updates.is_const(1) ? Expr(0) : Expr::index("m", updates);
  }
  if (!reduces) return u;
  if (node->op == NodeOp::Unwindow) {
    u.reduced.push_back(Expr::index("w", node->attrs[1]));
  } else {
    for (const Expr& axis : node->attrs)
      u.reduced.push_back(Expr::index("r", node->inputs[0]->shape[static_cast<size_t>(axis.value())]));
  }
  return u;
}

int Partitioner::open_unit(const Node* node, bool reduces) {
  int id = static_cast<int>(result_.units.size());
  result_.units.push_back(make_unit(node, reduces));
  (reduces ? result_.reducing : result_.storing)[node] = id;
  enter_nest(unit(id));
  explore(unit(id), true, id);
  enter_reads(id);
  return id;
}

void Partitioner::enter_reads(int id) {
  for (const Unit::Read& read : unit(id).reads) readers_[key(read)].push_back(id);
  for (const Node* token : unit(id).after) waiting_[token].push_back(id);
}

void Partitioner::forget_reads(int id) {
  for (const Unit::Read& read : unit(id).reads) std::erase(readers_[key(read)], id);
  for (const Node* token : unit(id).after) std::erase(waiting_[token], id);
}

void PartitionLimits::forbid_reading(const std::unordered_set<const Node*>& misread) {
  bool changed = false;
  for (const Node* node : misread)
    changed |= in_memory.try_emplace(node, Why{Reason::ReadElsewhere}).second || alone.insert(node).second;
  if (changed) return;
  const Node& first = **misread.begin();
  HD_ASSERT(nests, "the result of ", name(first.op), " of shape ", first.shape, " is read where it is not computed");
  nests = false;
}

namespace {

// False if there is nothing more to forbid.
bool forbid(PartitionLimits& limits, const Unfit& unfit) {
  bool changed = false;
  for (const Node* sum : unfit.nests) changed |= limits.not_nested.insert(sum).second;
  if (changed) return true;
  for (const Node* node : unfit.stored) changed |= limits.alone.insert(node).second;
  return changed || std::exchange(limits.nests, false);
}

}  // namespace

Partition partition(std::span<const NodeRef> roots, PartitionLimits& limits) {
  // A program of many layers that each have to be taken apart is not worth so many attempts.
  constexpr int kMostAttempts = 16;
  for (int round = 0, attempts = 0;;) {
    interruption_point();
    if (attempts == kMostAttempts) limits.nests = false;
    Partitioner partitioner(roots, limits);
    if (!partitioner.run()) {
      HD_ASSERT(forbid(limits, partitioner.unfit()), "no kernels can be made of the graph: ", partitioner.unfit().why);
      ++attempts;
      continue;
    }
    std::vector<std::pair<const Node*, Why>> repeated = partitioner.repeated();
    const std::vector<const Node*>& of_memory = partitioner.nests_of_memory();
    if ((repeated.empty() && of_memory.empty()) || round++ >= 3) return partitioner.take();
    limits.in_memory.insert(repeated.begin(), repeated.end());
    limits.of_memory.insert(of_memory.begin(), of_memory.end());
  }
}

}  // namespace heddle
