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
    const Node* from = rearranged(input.get());
    elements += from->op == NodeOp::Const ? 0 : upper(from->shape.numel());
  }
  return elements < upper(node.shape.numel());
}

Partitioner::Partitioner(const Region& region, PartitionLimits& limits)
    : region_(region), limits_(limits), order_(topological(region.roots, region.given)) {
  number_.reserve(order_.size());
  lowest_ = static_cast<int>(order_.size());
  for (size_t i = 0; i < order_.size(); ++i) number_[order_[i]] = static_cast<int>(i);
  measure();
  for (const NodeRef& root : region.roots)
    if (!in_memory(*root)) {
      store(root.get(), {Reason::CallerWants});
      roots_.insert(root.get());
    }
  for (const Node* node : order_)
    if (auto known = limits.in_memory.find(node); known != limits.in_memory.end()) store(node, known->second);
  find_nests();
}

std::optional<Partition> Partitioner::run() {
  place_all();
  join_siblings();
  drop_dead_stores();
  if (!make_again()) return {};
  order_groups();
  join_rows();
  join_producers();
  drop_dead_stores();
  order_groups();
  share_factors();
  return std::move(result_);
}

void Partitioner::place_all() {
  while (!pending_.empty()) {
    interruption_point();
    const int turn = pending_.top();
    pending_.pop();
    const Node* node = order_[turn];
    const bool first = turn < lowest_;  // else what it is made of may have been placed
    lowest_ = std::min(lowest_, turn);
    if (is_direct(*node)) {
      if (placed_direct_.insert(node).second) place_direct(node);
    } else if (stored_.count(node) && !result_.storing.count(node)) {
      // To compute products again may take less time than to read them.
      for (const Node* sum : multiplied_in_[node])
        if (auto nest = nests_.find(sum); nest != nests_.end() && nest->second.kept.empty()) release_nest(sum);
      if (limits_.updates.count(node))
        place_updates(node);
      else
        joins_many(*node) ? place_parts(node) : place_storing(open_unit(node, false));
    } else if (wanted_.count(node) && (kept_.count(node) || !reducing_.count(node))) {
      place_reduction(node);
    } else if (const Why why = first ? should_store_for_all(node) : Why{}) {
      store(node, why);
      read_stored(node);
    }
  }
}

Why Partitioner::should_store_for_all(const Node* node) {
  auto computed = computed_in_.find(node);
  if (computed == computed_in_.end() || stored_.count(node)) return {};
  if (!is_compute(*node) || widens(*node) || spreads(*node) || from_little_[number(node)]) return {};
  std::vector<int> groups;
  for (int id : computed->second) {
    const Unit& u = unit(id);
    if (u.group < 0) continue;
    // The loops of what runs along with a scan would be others.
    if (u.scans() && group(u.group).units.size() > 1) return {};
    groups.push_back(u.group);
  }
  sort_unique(groups);
  auto gain = [&](size_t kernels) {
    const double arithmetic = limits_.rates.arithmetic(static_cast<double>(kernels - 1) * work_[number(node)]);
    const double traffic = limits_.rates.traffic(static_cast<double>(kernels + 1) * size_of(node->dtype));
    return arithmetic > traffic && (arithmetic - traffic) * upper(node->shape.numel()) > limits_.rates.launch;
  };
  if (groups.size() < 2 || !gain(groups.size())) return {};
  const size_t kernels = count_kernels(groups);
  return kernels > 1 && gain(kernels) ? Why{Reason::SeveralCompute, static_cast<double>(kernels)} : Why{};
}

size_t Partitioner::count_kernels(const std::vector<int>& groups) {
  std::vector<std::pair<int, std::vector<Expr>>> kernels;
  for (int g : groups) {
    std::vector<Expr> shape = loop_shape(g);
    auto joins = [&](const auto& kernel) { return kernel.second == shape && !may_join_sibling(kernel.first, g); };
    const std::span last = std::span(kernels).last(std::min(kernels.size(), kMostTried));
    if (shape.empty() || std::ranges::none_of(last, joins)) kernels.emplace_back(g, std::move(shape));
  }
  return kernels.size();
}

void Partitioner::read_stored(const Node* node) {
  for (int id : std::vector<int>(computed_in_.at(node))) {
    Unit& u = unit(id);
    const bool scanned = u.scans();
    look_again(std::span(&id, 1));
    if (!scanned || u.scans()) continue;
    group(u.group).fixed = u.scatters();
    u.outer = u.outer_axes();
  }
  for (const Node* sum : multiplied_in_[node]) release_nest(sum);
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
    // Below these nothing is computed in place.
    const bool given = region_.given.count(&node), reduction = !given && reduction_of(&node) == &node;
    bool cut = given || reduction || is_direct(node) || node.op == NodeOp::Scatter || joins_many(node);
    double work = op_weight(node);
    bool below = reduction;
    bool little = !cut && node.op != NodeOp::Scan && node.op != NodeOp::Gather;
    if (in_memory(node)) little = upper(node.shape.numel()) <= kFewElements;
    if (given) work = 0;
    for (const NodeRef& input : given ? std::span<const NodeRef>() : std::span<const NodeRef>(node.inputs)) {
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
        int& lower = depth[meet] >= depth[other] ? meet : other;
        lower = next_[lower];
      }
    }
    next_[i] = meet;
    depth[i] = meet < 0 ? 0 : depth[meet] + 1;
  }
}

void Partitioner::store(const Node* node, Why why) {
  if (region_.given.count(node) || !stored_.insert(node).second) return;
  if (limits_.explain) result_.boundaries[node].stored = why;
  const Node* direct = direct_of(node);
  pending_.push(number_.at(direct ? direct : node));
}

int Partitioner::add_unit(Unit u) {
  const int id = static_cast<int>(result_.units.size());
  for (const Node* node : u.writes) result_.storing.try_emplace(node, id);
  result_.units.push_back(std::move(u));
  if (!is_direct(*unit(id).node)) explore(unit(id), true, id);
  enter_reads(id);
  return id;
}

void Partitioner::place_direct(const Node* node) {
  Unit u;
  u.node = node;
  for (int user : users_[number(node)])
    if (stored_.count(order_[user])) u.writes.push_back(order_[user]);
  for (const NodeRef& input : node->inputs) {
    const Node* source = memory_source(input.get());
    if (is_leaf(*source)) continue;
    store(source, {Reason::Direct});
    u.reads.push_back({source, {}, true});
  }
  new_group(add_unit(std::move(u)));
}

void Partitioner::place_alike(std::vector<Unit> units) {
  int g = -1;
  for (Unit& u : units) {
    const int id = add_unit(std::move(u));
    if (g < 0)
      g = new_group(id);
    else
      join(id, g, unit(id).outer_axes());
  }
}

void Partitioner::place_parts(const Node* node) {
  std::vector<Unit> units;
  for (size_t part = 0; part < node->inputs.size(); ++part)
    if (!node->inputs[part]->shape.numel().is_const(0)) units.push_back(make_unit(node, false, static_cast<int>(part)));
  place_alike(std::move(units));
}

void Partitioner::place_updates(const Node* root) {
  std::vector<Unit> units;
  for (const Update& update : limits_.updates.at(root)) {
    Unit& u = units.emplace_back();
    if (update.value) {
      u.node = update.node;
      u.kept = update.part;
      u.at = update.at;
    } else {
      u = make_unit(update.node, false);
    }
    u.into = root;
    u.writes = {root};
    u.change = &update;
  }
  place_alike(std::move(units));
}

Unit Partitioner::make_unit(const Node* node, bool reduces, int part) {
  Unit u;
  u.node = node;
  u.reduces = reduces;
  if (!reduces) u.writes = {node};
  u.part = part;
  auto add_axis = [](std::vector<Expr>& axes, const Expr& extent) {
    if (extent.is_const(1)) return Expr(0);
    axes.push_back(Expr::index(text("i", axes.size()), extent));
    return axes.back();
  };
  const Node& written = part < 0 ? *node : *node->inputs[part];
  for (const Expr& extent : written.shape) u.at.push_back(add_axis(u.kept, extent));
  if (!reduces && node->op == NodeOp::Scatter) {
    const Expr& updates = node->inputs[1]->shape[node->attrs[0].value()];
    u.update = updates.is_const(1) ? Expr(0) : Expr::index("m", updates);
  }
  if (!reduces) return u;
  if (node->op == NodeOp::Unwindow) {
    u.reduced.push_back(Expr::index("w", node->attrs[1]));
  } else {
    for (const Expr& axis : node->attrs) u.reduced.push_back(Expr::index("r", node->inputs[0]->shape[axis.value()]));
  }
  return u;
}

int Partitioner::open_unit(const Node* node, bool reduces) {
  Unit u = make_unit(node, reduces);
  enter_nest(u);
  const int id = add_unit(std::move(u));
  if (reduces) reducing_[node] = id;
  return id;
}

void Partitioner::enter_reads(int id) {
  for (const Unit::Read& read : unit(id).reads) readers_[key(read)].push_back(id);
  for (const Node* token : unit(id).after) waiting_[token].push_back(id);
}

void Partitioner::forget_reads(int id) {
  for (const Node* node : std::exchange(computes_[id], {})) std::erase(computed_in_.at(node), id);
  for (const Unit::Read& read : unit(id).reads) std::erase(readers_[key(read)], id);
  for (const Node* token : unit(id).after) std::erase(waiting_[token], id);
}

void Partitioner::enter_computed(const Node* node, int id) {
  std::vector<int>& units = computed_in_[node];
  if (!units.empty() && units.back() == id) return;
  units.push_back(id);
  computes_[id].push_back(node);
  if (units.size() == 2) pending_.push(number_.at(node));
}

void Partitioner::look_again(std::span<const int> ids) {
  for (int id : ids) {
    forget_reads(id);
    const std::vector<Unit::Read> before = unit(id).reads;
    explore(unit(id), false, id);
    enter_reads(id);
    for (const Unit::Read& read : before) forget_unread(read);
  }
}

void Partitioner::forget_unread(const Unit::Read& read) {
  if (auto readers = readers_.find(key(read)); readers != readers_.end() && !readers->second.empty()) return;
  if (!read.memory) {
    if (!reducing_.count(reduction_of(read.node))) wanted_.erase(reduction_of(read.node));
    return;
  }
  if (roots_.count(read.node) || limits_.in_memory.count(read.node) || result_.storing.count(read.node)) return;
  if (direct_of(read.node) || !waiting_[read.node].empty()) return;
  stored_.erase(read.node);
  result_.boundaries.erase(read.node);
}

Partition partition(std::span<const NodeRef> roots, PartitionLimits& limits) {
  const Region region{{roots.begin(), roots.end()}, {}};
  for (;;)
    if (std::optional<Partition> made = Partitioner(region, limits).run()) return std::move(*made);
}

}  // namespace heddle
