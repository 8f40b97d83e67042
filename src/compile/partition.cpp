#include "compile/partition.h"

#include <algorithm>
#include <queue>

#include "base/error.h"
#include "base/hash.h"

namespace heddle {
namespace {

// A nest evaluates at most this many (node, index) pairs; beyond, intermediate results go to memory. This bounds
// compile time, and what diamonds through different views can multiply.
constexpr size_t kMaxEvaluations = 400;
constexpr size_t kMaxUnitsInGroup = 32;
// Nanoseconds, only for choosing between repeating arithmetic and a trip through memory.
constexpr double kOpCost = 0.03, kByteCost = 0.08, kLaunchCost = 2000;
// With fewer rows than kMinRows, a row-wise kernel of more than kSmallWork points would leave cores idle.
constexpr double kMinRows = 64, kSmallWork = 1 << 15;
// Arithmetic that makes a position of an index, at most.
constexpr double kIndexWork = 6;
// Scans along one axis that a nest takes in.
constexpr int kMaxScans = 8;
// How far searches through the neighbourhood go before they give up (and the cheaper choice is taken).
constexpr int kSearchLimit = 2000, kMaxTail = 64;

double op_weight(const Node& node) {
  if (node.op == NodeOp::Gather || node.op == NodeOp::Cat) return 2;
  if (node.op == NodeOp::Scan) return 4;
  if (node.op != NodeOp::Scalar) return 0;
  if (!info(node.scalar_op).native) return 12;
  bool slow = node.scalar_op == ScalarOp::div || node.scalar_op == ScalarOp::sqrt ||
              node.scalar_op == ScalarOp::floordiv || node.scalar_op == ScalarOp::mod;
  return slow ? 4 : 1;
}

bool is_compute(const Node& node) {
  return node.op == NodeOp::Scalar || node.op == NodeOp::Cast || node.op == NodeOp::Bitcast ||
         node.op == NodeOp::Gather || node.op == NodeOp::Cat || node.op == NodeOp::Scan;
}

double upper(const Expr& e) { return static_cast<double>(e.hi()); }

bool contains(std::span<const Expr> list, const Expr& e) {
  return std::find(list.begin(), list.end(), e) != list.end();
}

class Partitioner {
 public:
  // `forced`: nodes to write to memory besides the roots.
  Partitioner(std::span<const NodeRef> roots, const std::vector<const Node*>& forced) : order_(topological(roots)) {
    number_.reserve(order_.size());
    for (size_t i = 0; i < order_.size(); ++i) number_[order_[i]] = static_cast<int>(i);
    measure();
    for (const NodeRef& root : roots)
      if (!in_memory(*root)) {
        store(root.get());
        roots_.insert(root.get());
      }
    for (const Node* node : forced) store(node);
  }

  // Nodes that several kernels compute again although a trip through memory would be cheaper. Of a chain of such nodes
  // those count that more kernels compute than any of their users: storing them cuts the chain. Valid after run().
  std::vector<const Node*> repeated() const {
    std::vector<int> kernels(order_.size(), 0);      // that compute the node
    std::vector<int> among_users(order_.size(), 0);  // the largest such number of a user
    std::vector<const Node*> result;
    for (size_t i = order_.size(); i-- > 0;) {
      const Node* node = order_[i];
      auto it = computed_in_.find(node);
      if (it != computed_in_.end() && !stored_.count(node)) {
        std::vector<int> groups;
        for (int id : it->second) groups.push_back(group_of_[static_cast<size_t>(id)]);
        std::sort(groups.begin(), groups.end());
        kernels[i] = static_cast<int>(std::unique(groups.begin(), groups.end()) - groups.begin());
      }
      for (const NodeRef& input : node->inputs) {
        int& most = among_users[number(input.get())];
        most = std::max(most, kernels[i]);
      }
      if (kernels[i] < 2 || kernels[i] <= among_users[i] || !is_compute(*node)) continue;
      double arithmetic = (kernels[i] - 1) * work_[i] * kOpCost;
      double traffic = (kernels[i] + 1) * size_of(node->dtype) * kByteCost;
      if (arithmetic > traffic && (arithmetic - traffic) * upper(node->shape.numel()) > kLaunchCost)
        result.push_back(node);
    }
    return result;
  }

  Partition run() {
    // Users before inputs: when a unit's turn comes, everything that reads it has a group already.
    while (!pending_.empty()) {
      const Node* node = order_[static_cast<size_t>(pending_.top())];
      pending_.pop();
      if (node->op == NodeOp::Sort) {
        if (placed_direct_.insert(node).second) place_direct(node);
      } else if (stored_.count(node) && !result_.storing.count(node)) {
        place_storing(open_unit(node, false));
      } else if (wanted_.count(node) && !result_.reducing.count(node)) {
        place_reduction(node);
      }
    }
    join_siblings();
    drop_dead_stores();
    order_groups();
    for (const Unit& u : result_.units) group_of_.push_back(u.group);
    return std::move(result_);
  }

 private:
  size_t number(const Node* node) const { return static_cast<size_t>(number_.at(node)); }
  Unit& unit(int id) { return result_.units[static_cast<size_t>(id)]; }
  Group& group(int id) { return result_.groups[static_cast<size_t>(id)]; }

  static bool in_memory(const Node& node) { return node.op == NodeOp::Buffer || node.op == NodeOp::Input; }

  // Per node: arithmetic per element if all below it were computed in place (as a tree, saturating); whether a
  // reduction lies below; and the next node that every path from it to the roots passes.
  void measure() {
    size_t count = order_.size();
    work_.resize(count);
    reduces_below_.resize(count);
    std::vector<std::vector<int>> users(count);
    for (size_t i = 0; i < count; ++i) {
      const Node& node = *order_[i];
      bool reduction = reduction_of(&node) == &node;
      // Below these nothing is computed in place.
      bool cut = reduction || node.op == NodeOp::Sort || node.op == NodeOp::Scatter;
      double work = op_weight(node);
      bool below = reduction;
      for (const NodeRef& input : node.inputs) {
        size_t j = number(input.get());
        users[j].push_back(static_cast<int>(i));
        if (cut) continue;
        work += work_[j];
        below = below || reduces_below_[j];
      }
      work_[i] = std::min(work, 1000.0);
      reduces_below_[i] = below;
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

  void store(const Node* node) {
    if (!stored_.insert(node).second) return;
    const Node* direct = direct_of(node);
    if (direct) stored_results_[direct].push_back(node);
    pending_.push(number_.at(direct ? direct : node));
  }

  // A kernel of its own for a Sort: reads its input from memory and writes those results that somebody wants, all of
  // which are known by now.
  void place_direct(const Node* node) {
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
      store(source);
      u.reads.push_back({source, {}, true});
      readers_[{source, true}].push_back(id);
    }
    new_group(id);
  }

  Unit make_unit(const Node* node, bool reduces) {
    Unit u;
    u.node = node;
    u.reduces = reduces;
    auto add_axis = [](std::vector<Expr>& axes, const Expr& extent) {
      if (extent.is_const(1)) return Expr(0);
      axes.push_back(Expr::index(text("i", axes.size()), extent));
      return axes.back();
    };
    for (const Expr& extent : node->shape) u.at.push_back(add_axis(u.kept, extent));
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

  int open_unit(const Node* node, bool reduces) {
    int id = static_cast<int>(result_.units.size());
    result_.units.push_back(make_unit(node, reduces));
    (reduces ? result_.reducing : result_.storing)[node] = id;
    explore(unit(id), true, id);
    for (const Unit::Read& read : unit(id).reads) readers_[key(read)].push_back(id);
    return id;
  }

  // A reduction and the storing of the same node are different things to read.
  struct Source {
    const Node* node;
    bool memory;
    bool operator==(const Source&) const = default;
  };
  struct SourceHash {
    size_t operator()(const Source& s) const { return hash_combine(reinterpret_cast<uintptr_t>(s.node), s.memory); }
  };
  static Source key(const Unit::Read& read) { return {read.memory ? read.node : reduction_of(read.node), read.memory}; }

  // Finds what the nest of `u` reads. With `decide`, also chooses what goes to memory on the way. `id` is the unit's,
  // if it has one.
  void explore(Unit& u, bool decide, int id = -1) {
    if (explore_once(u, decide, id)) return;
    // A scan of something turned around: the nest goes the other way.
    Substitution turned = {{u.scanned, u.scanned.extent() - 1 - u.scanned}};
    for (Expr& e : u.at) e = substitute(e, turned);
    bool done = explore_once(u, decide, id);
    HD_ASSERT(done, "a scan that runs both ways");
  }

  // False if the nest should run the other way along u.scanned.
  bool explore_once(Unit& u, bool decide, int id) {
    struct Visit {
      int number;
      const Node* node;
      Index index;
      bool operator<(const Visit& other) const { return number < other.number; }
    };
    std::priority_queue<Visit> queue;  // users first, so that what exceeds the limit is as low as possible
    std::unordered_map<uint64_t, std::vector<std::pair<const Node*, Index>>> seen;
    auto push = [&](const Node* node, Index index) {
      uint64_t h = reinterpret_cast<uintptr_t>(node);
      for (const Expr& e : index) h = hash_combine(h, e.hash());
      auto& bucket = seen[h];
      for (auto& [n, i] : bucket)
        if (n == node && i == index) return;
      bucket.emplace_back(node, index);
      queue.push({number_.at(node), node, std::move(index)});
    };
    u.reads.clear();
    u.leaves.clear();
    u.evaluations = 0;
    u.scanned = Expr();
    int scans = 0;
    double points = u.points();
    Expr guard = 1;  // irrelevant here
    if (u.reduces) {
      push(u.node->inputs[0].get(), reduction_source(*u.node, u.at, u.reduced, guard));
    } else if (u.scatters()) {
      push(u.node->inputs[0].get(), u.at);
      push(u.node->inputs[1].get(), u.update_at());
      push(u.node->inputs[2].get(), u.update_at());
    } else {
      push(u.node, u.at);
    }
    bool first = !u.reduces && !u.scatters();
    while (!queue.empty()) {
      Visit visit = queue.top();
      queue.pop();
      const Node& node = *visit.node;
      bool self = std::exchange(first, false);
      if (in_memory(node)) u.leaves.push_back(&node);
      if (in_memory(node) || node.op == NodeOp::Const) continue;
      // A scatter has nests of its own, and takes no reduction into them, nor what is computed of one.
      bool reduces = reduction_of(&node) || (is_compute(node) && reduces_below_[number(&node)]);
      bool apart = node.op == NodeOp::Scatter || (u.scatters() && reduces);
      if (!self && (stored_.count(&node) || apart)) {
        if (decide) store(&node);
        u.reads.push_back({&node, visit.index, true});
        continue;
      }
      if (direct_of(&node)) {
        if (decide) store(&node);
        u.reads.push_back({&node, visit.index, true});
        continue;
      }
      if (const Node* reduction = reduction_of(&node)) {
        u.reads.push_back({&node, visit.index, false});
        if (decide && wanted_.insert(reduction).second) pending_.push(number_.at(reduction));
        continue;
      }
      if (node.op == NodeOp::Scan) {
        bool forward = false;
        Expr axis = scannable(u, node, visit.index, forward);
        bool fits = axis.is_var() && !u.scatters() && ++scans <= kMaxScans;
        if (fits && !u.scans()) {
          u.scanned = axis;
          if (!forward) return false;
        } else {
          fits = fits && forward && u.scanned == axis;
        }
        if (!fits) {
          HD_ASSERT(!self, "a scan cannot compute itself");
          if (decide) store(&node);
          u.reads.push_back({&node, visit.index, true});
          continue;
        }
      } else if (decide && !self && should_store(u, node, visit.index, points)) {
        store(&node);
        u.reads.push_back({&node, visit.index, true});
        continue;
      }
      ++u.evaluations;
      if (id >= 0) computed_in_[&node].push_back(id);
      if (is_movement(node)) {
        push(node.inputs[0].get(), source_index(node, visit.index, guard));
      } else if (node.op == NodeOp::Gather) {
        Expr chosen = Expr::index("g", node.inputs[0]->shape[static_cast<size_t>(node.attrs[0].value())]);
        push(node.inputs[1].get(), gather_index(node, visit.index));
        push(node.inputs[0].get(), gather_source(node, visit.index, chosen));
      } else if (node.op == NodeOp::Cat) {
        size_t axis = static_cast<size_t>(node.attrs[0].value());
        Index source = visit.index;
        for (const NodeRef& input : node.inputs) {
          push(input.get(), source);
          source[axis] = source[axis] - input->shape[axis];
        }
      } else {
        for (const NodeRef& input : node.inputs) push(input.get(), visit.index);
      }
    }
    return true;
  }

  // The axis of u along which its nest can compute the scan `node` at `index`, one element after the other: once each,
  // and nowhere outside. Nothing if it cannot.
  static Expr scannable(const Unit& u, const Node& node, const Index& index, bool& forward) {
    size_t along = static_cast<size_t>(node.attrs[0].value());
    double elements = 1;  // as points() counts them: the bound of a product of symbolic sizes may be another
    for (const Expr& size : node.shape) elements *= upper(size);
    if (u.reduces || u.points() != elements) return {};
    Expr axis;
    for (const Expr& candidate : u.kept) {
      forward = index[along] == candidate;
      if (!forward && !(index[along] == candidate.extent() - 1 - candidate)) continue;
      axis = candidate;
      break;
    }
    if (!axis.is_var() || !(axis.extent() == node.shape[along])) return {};
    for (size_t i = 0; i < index.size(); ++i) {
      if (i == along) continue;
      bool whole = index[i].is_var() && index[i].extent() == node.shape[i];
      bool inside = node.shape[i].is_const() && index[i].lo() >= 0 && index[i].hi() < node.shape[i].value();
      if (depends_on(index[i], axis) || !(whole || inside)) return {};
    }
    return axis;
  }

  // Whether `node`, needed by the nest of `u` at `index`, is better computed once and read from memory.
  bool should_store(const Unit& u, const Node& node, const Index& index, double points) {
    if (!is_compute(node)) return false;
    if (u.evaluations >= kMaxEvaluations) return true;
    // The same for all points: computed once per cell.
    if (std::all_of(index.begin(), index.end(), [](const Expr& e) { return e.is_const(); })) return false;
    size_t n = number(&node);
    double elements = upper(node.shape.numel());
    // What does not depend on the last axes is computed outside their loops.
    points = std::min(points, points_until(u, index));
    // Indices of rows are computed row by row, whatever is done with the row.
    if (is_integer(node.dtype) && work_[n] <= kIndexWork) points = std::min(points, values_of(index));
    if (points <= elements || (!u.reduces && in_shared_blocks(index, elements, points))) return false;
    if (reduces_below_[n] && can_be_outer(u, index)) return false;
    double repeated = work_[n] * (points - elements) * kOpCost;
    return repeated > kLaunchCost + elements * size_of(node.dtype) * kByteCost;
  }

  static bool has_remainder(const Expr& e) {
    return e.kind() == ExprKind::Mod || std::any_of(e.args().begin(), e.args().end(), has_remainder);
  }
  // The remainder of a position, each a few times over: share_blocks() computes it once.
  static bool in_shared_blocks(const Index& index, double elements, double points) {
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
  static double points_until(const Unit& u, const Index& index) {
    double points = 1, result = 1;
    for (const auto* axes : {&u.kept, &u.reduced})
      for (const Expr& axis : *axes) {
        points *= upper(axis.extent());
        bool used = std::any_of(index.begin(), index.end(), [&](const Expr& e) { return depends_on(e, axis); });
        if (used) result = points;
      }
    return result;
  }
  // How many different elements an index names, at most.
  static double values_of(const Index& index) {
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

  // The index picks distinct axes of u that could be the outer axes of its kernel.
  static bool can_be_outer(const Unit& u, const Index& index) {
    std::vector<Expr> axes;
    for (const Expr& e : index) {
      if (e.is_const(0)) continue;
      if (!contains(u.kept, e) || contains(axes, e)) return false;
      axes.push_back(e);
    }
    return !u.reduces || axes.size() == u.kept.size();
  }

  int new_group(int id) {
    int g = static_cast<int>(result_.groups.size());
    Unit& u = unit(id);
    result_.groups.push_back({{id}, u.reduces || u.scatters() || u.scans()});
    u.group = g;
    u.outer = u.free_axes();
    if (u.scatters()) std::erase(u.outer, u.at[static_cast<size_t>(u.node->attrs[0].value())]);
    return g;
  }

  std::vector<int> reading_groups(const Source& source) {
    std::vector<int> groups;
    for (int reader : readers_[source])
      if (std::find(groups.begin(), groups.end(), unit(reader).group) == groups.end())
        groups.push_back(unit(reader).group);
    return groups;
  }

  void place_storing(int id) {
    std::vector<int> groups = reading_groups({unit(id).node, true});
    bool alone = unit(id).scatters() || (groups.size() == 1 && unit(group(groups[0]).units[0]).scatters());
    if (!alone && groups.size() == 1 && join_storing(id, groups[0])) return;
    new_group(id);
  }

  bool is_direct(int g) { return !group(g).units.empty() && !unit(group(g).units[0]).writes.empty(); }

  // Two units always fit, so a reduction can join at least the unit that stores its result.
  bool has_room(const Group& g, const Unit& u) {
    if (g.units.size() == 1) return true;
    size_t total = u.evaluations;
    for (int member : g.units) total += unit(member).evaluations;
    return g.units.size() < kMaxUnitsInGroup && total <= 2 * kMaxEvaluations;
  }

  void join(int id, int g, std::vector<Expr> outer) {
    unit(id).group = g;
    unit(id).outer = std::move(outer);
    group(g).units.push_back(id);
  }

  // A written node whose readers compute it again from the same inputs, in the same kernel: nothing is read back.
  bool join_storing(int id, int g) {
    Unit& u = unit(id);
    if (is_direct(g) || !has_room(group(g), u)) return false;
    std::vector<Expr> outer;
    bool first = true, scans = u.scans();
    int witness = -1;
    std::vector<Expr> theirs;                   // the outer axes as the last reader names them
    std::vector<std::pair<int, Expr>> scanned;  // what readers would scan
    for (int reader_id : readers_[{u.node, true}]) {
      Unit& reader = unit(reader_id);
      scans = scans || reader.scans();
      for (const Unit::Read& read : reader.reads) {
        if (read.node != u.node || !read.memory) continue;
        // Every axis of u follows one axis of the reader.
        std::vector<std::pair<Expr, Expr>> follows;  // reader's variable, u's
        size_t inner = 0;
        for (size_t i = 0; i < u.at.size(); ++i) {
          if (u.at[i].is_const(0)) continue;
          if (!u.at[i].is_var()) return false;  // runs the other way
          const Expr& e = read.index[i];
          // Behind a pad, a cut or a part of a join an axis has the same variable but another extent.
          bool known = (contains(reader.kept, e) || contains(reader.reduced, e)) && e.extent() == u.at[i].extent();
          for (auto& [seen, mine] : follows) known = known && !(seen == e);
          if (!known) return false;
          follows.emplace_back(e, u.at[i]);
          inner += !contains(reader.outer, e);
        }
        if ((inner > 0 || u.scans()) && reader.points() != u.points()) return false;
        Expr along;  // u's scanned axis, as the reader's
        for (auto& [reader_axis, own] : follows)
          if (u.scans() && own == u.scanned) along = reader_axis;
        if (u.scans() && (reader.reduces || (reader.scans() && !(reader.scanned == along)))) return false;
        if (along.is_var()) scanned.emplace_back(reader_id, along);
        std::vector<Expr> mapped;
        theirs.clear();
        witness = reader_id;
        for (const Expr& axis : reader.outer) {
          if (along.is_var() && axis == along) continue;
          theirs.push_back(axis);
          auto it = std::find_if(follows.begin(), follows.end(), [&](auto& f) { return f.first == axis; });
          if (it == follows.end()) return false;
          mapped.push_back(it->second);
        }
        if (!first && !(mapped == outer)) return false;
        outer = std::move(mapped);
        first = false;
      }
    }
    double rows = row_count(outer);
    if (!scans && rows < kMinRows && u.points() > kSmallWork && u.points() > rows) return false;
    // The reductions it needs must be able to follow.
    for (const Unit::Read& read : u.reads)
      for (const Expr& e : read.index)
        if (!read.memory && !e.is_const() && !contains(outer, e)) return false;
    if (u.scans()) {
      if (outer.size() + 1 != u.kept.size() || (group(g).fixed && theirs.size() != unit(witness).outer.size()))
        return false;
      if (!group(g).fixed) settle(g, witness, theirs);
      for (auto& [reader, along] : scanned) unit(reader).scanned = along;
    }
    join(id, g, std::move(outer));
    return true;
  }

  static double row_count(std::span<const Expr> outer) {
    double rows = 1;
    for (const Expr& axis : outer) rows *= upper(axis.extent());
    return rows;
  }

  void place_reduction(const Node* node) {
    int id = open_unit(node, true);
    std::vector<int> groups = reading_groups({node, false});
    if (join_reduction(id, groups)) return;
    int attempt = ++attempts_[node];
    if (attempt == 3) {
      // Only the units that store its result read it now, but they went along with their own readers. Those can read
      // memory as well.
      std::vector<int> storing = readers_[{node, false}];
      for (int member : storing) std::erase(group(unit(member).group).units, member);
      int g = new_group(storing[0]);
      for (size_t i = 1; i < storing.size(); ++i) join(storing[i], g, unit(storing[i]).kept);
      bool joined = join_reduction(id, {g});
      HD_ASSERT(joined, "no kernel takes in ", name(node->op), " of shape ", node->shape);
      return;
    }
    // Nobody can take it in: it goes to memory, after as much of what follows as still belongs to it (at the second
    // attempt, as it is). Its readers then read that instead, and its own turn comes again.
    for (const Unit::Read& read : unit(id).reads) std::erase(readers_[key(read)], id);
    result_.reducing.erase(node);
    std::vector<int> readers = readers_[{node, false}];
    std::vector<const Node*> ends;
    for (int reader : readers)
      for (const Unit::Read& read : unit(reader).reads)
        if (!read.memory && reduction_of(read.node) == node) ends.push_back(read.node);
    result_.units.pop_back();
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    for (const Node* end : ends) store(ends.size() == 1 && attempt == 1 ? find_tail(end) : end);
    for (int reader : readers) {
      Unit& u = unit(reader);
      for (const Unit::Read& read : u.reads) std::erase(readers_[key(read)], reader);
      explore(u, false);
      for (const Unit::Read& read : u.reads) readers_[key(read)].push_back(reader);
    }
    pending_.push(number_.at(node));
  }

  // The last node of the chain of equal-sized elementwise work that only this reduction's result feeds.
  const Node* find_tail(const Node* end) {
    const Node* tail = end;
    const Node* reduction = reduction_of(end);
    for (int steps = 0, at = next_[number(end)]; at >= 0 && steps < kMaxTail;
         at = next_[static_cast<size_t>(at)], ++steps) {
      const Node* candidate = order_[static_cast<size_t>(at)];
      if (!(candidate->shape.numel() == end->shape.numel()) || stored_.count(candidate)) break;
      if (candidate->op != NodeOp::Scalar && candidate->op != NodeOp::Cast && candidate->op != NodeOp::Reshape) break;
      Unit probe = make_unit(candidate, false);
      explore(probe, false);
      bool alone = probe.evaluations <= kMaxEvaluations;
      const Index* first = nullptr;  // all its uses of the reduction must be at the same point
      for (const Unit::Read& read : probe.reads) {
        if (read.memory) {
          alone = alone && number(read.node) < number(reduction);
          continue;
        }
        // Reductions that come before may be what this one was made from.
        alone = alone && number(reduction_of(read.node)) <= number(reduction) && can_be_outer(probe, read.index) &&
                (!first || *first == read.index);
        first = &read.index;
      }
      if (!alone) break;
      if (candidate->op != NodeOp::Reshape) tail = candidate;
    }
    return tail;
  }

  bool join_reduction(int id, const std::vector<int>& groups) {
    if (groups.empty() || groups.size() > 4) return false;
    Unit& u = unit(id);
    for (int g : groups)
      if (!has_room(group(g), u)) return false;
    for (int a : groups)
      for (int b : groups)
        if (a != b && reaches(a, b)) return false;
    // Each reader must see u's axes as axes of its own that can be outer ones, all readers of a group the same.
    std::vector<std::vector<Expr>> wanted(groups.size());  // per group: its outer variables (of the first reader found)
    std::vector<std::vector<Expr>> outers(groups.size());  // per group: u's variables in the group's order
    std::vector<int> witness(groups.size(), -1);
    for (int reader_id : readers_[{u.node, false}]) {
      Unit& reader = unit(reader_id);
      size_t g = static_cast<size_t>(std::find(groups.begin(), groups.end(), reader.group) - groups.begin());
      for (const Unit::Read& read : reader.reads) {
        if (read.memory || reduction_of(read.node) != u.node) continue;
        if (!can_be_outer(reader, read.index)) return false;
        std::vector<std::pair<Expr, Expr>> follows;
        for (size_t i = 0; i < u.at.size(); ++i) {
          if (u.at[i].is_const(0)) continue;
          if (read.index[i].is_const() || !(read.index[i].extent() == u.at[i].extent())) return false;
          follows.emplace_back(read.index[i], u.at[i]);
        }
        if (group(groups[g]).fixed && follows.size() != reader.outer.size()) return false;
        std::vector<Expr> theirs, mine;
        for (const Expr& axis : reader.outer)
          for (auto& [reader_axis, own] : follows)
            if (reader_axis == axis) {
              theirs.push_back(axis);
              mine.push_back(own);
            }
        if (mine.size() != follows.size()) return false;
        if (witness[g] >= 0 && !(outers[g] == mine && same_positions(witness[g], wanted[g], reader_id, theirs)))
          return false;
        witness[g] = reader_id;
        wanted[g] = std::move(theirs);
        outers[g] = std::move(mine);
      }
    }
    double rows = row_count(u.kept);
    double largest = u.points();
    int wide = 1;  // units with a nest inside the rows
    for (int g : groups)
      for (int member : group(g).units) {
        largest = std::max(largest, unit(member).points());
        wide += unit(member).points() > rows && !in_one_pass(unit(member), u);
      }
    if (rows < kMinRows && largest > kSmallWork && wide > 1) return false;
    for (size_t g = 0; g < groups.size(); ++g) settle(groups[g], witness[g], wanted[g]);
    for (size_t g = 1; g < groups.size(); ++g) merge(groups[0], groups[g], outers[0], outers[g]);
    join(id, groups[0], outers[0]);
    return true;
  }

  // Reductions over the same axes that do not need each other: fuse makes one of them.
  static bool in_one_pass(const Unit& reader, const Unit& u) {
    if (!reader.reduces || reader.reduced.size() != u.reduced.size()) return false;
    for (size_t i = 0; i < u.reduced.size(); ++i)
      if (!(reader.reduced[i].extent() == u.reduced[i].extent())) return false;
    return std::none_of(reader.reads.begin(), reader.reads.end(),
                        [&](const Unit::Read& read) { return !read.memory && reduction_of(read.node) == u.node; });
  }

  // In a group that is not settled every unit's outer variables correspond by position.
  bool same_positions(int a, const std::vector<Expr>& a_axes, int b, const std::vector<Expr>& b_axes) {
    for (size_t i = 0; i < a_axes.size(); ++i) {
      auto position = [&](int id, const Expr& axis) {
        return std::find(unit(id).outer.begin(), unit(id).outer.end(), axis) - unit(id).outer.begin();
      };
      if (position(a, a_axes[i]) != position(b, b_axes[i])) return false;
    }
    return true;
  }

  // Narrows the outer axes of a group to those given as variables of one of its units.
  void settle(int g, int witness, const std::vector<Expr>& axes) {
    std::vector<size_t> positions;
    for (const Expr& axis : axes)
      positions.push_back(static_cast<size_t>(std::find(unit(witness).outer.begin(), unit(witness).outer.end(), axis) -
                                              unit(witness).outer.begin()));
    for (int member : group(g).units) {
      std::vector<Expr> outer;
      for (size_t p : positions) outer.push_back(unit(member).outer[p]);
      unit(member).outer = std::move(outer);
    }
    group(g).fixed = true;
  }

  // Moves the units of group `from` to group `to`; the lists name a common unit's axes in the order of each.
  void merge(int to, int from, const std::vector<Expr>& to_order, const std::vector<Expr>& from_order) {
    for (int member : group(from).units) {
      std::vector<Expr> outer;
      for (const Expr& axis : to_order)
        outer.push_back(unit(member).outer[static_cast<size_t>(std::find(from_order.begin(), from_order.end(), axis) -
                                                               from_order.begin())]);
      unit(member).outer = std::move(outer);
      unit(member).group = to;
      group(to).units.push_back(member);
    }
    group(from).units.clear();
  }

  // Kernels with the same loops that read the same memory and do not need each other become one: sum(x) and max(x), or
  // x + 1 and x * 2.
  void join_siblings() {
    constexpr size_t kMostTried = 4;
    std::unordered_map<uint64_t, std::vector<int>> alike;  // groups by their loops and one thing they read
    for (int g = 0; g < static_cast<int>(result_.groups.size()); ++g) {
      std::vector<uint64_t> keys = loop_keys(g);
      bool joined = false;
      for (size_t k = 0; k < keys.size() && !joined; ++k) {
        std::vector<int>& others = alike[keys[k]];
        for (size_t i = others.size(); i-- > 0 && !joined && others.size() - i <= kMostTried;)
          joined = join_sibling(others[i], g);
      }
      if (joined) continue;
      for (uint64_t k : keys) alike[k].push_back(g);
    }
  }

  bool join_sibling(int to, int from) {
    const Group &a = group(to), &b = group(from);
    if (a.units.empty() || loop_shape(to) != loop_shape(from)) return false;
    size_t total = 0;
    for (int member : a.units) total += unit(member).evaluations;
    for (int member : b.units) total += unit(member).evaluations;
    if (a.units.size() + b.units.size() > kMaxUnitsInGroup || total > kMaxEvaluations) return false;
    if (reaches(to, from) || reaches(from, to)) return false;
    for (int member : group(from).units) {
      unit(member).group = to;
      group(to).units.push_back(member);
    }
    group(from).units.clear();
    return true;
  }

  // The extents of the outer axes and of the one kind of reduction inside; empty if the nests differ.
  std::vector<Expr> loop_shape(int g) {
    std::vector<Expr> shape;
    if (is_direct(g)) return shape;
    const Unit* reduction = nullptr;
    for (int member : group(g).units) {
      const Unit& u = unit(member);
      if (u.scatters() || !u.writes.empty()) return {};
      if (u.reduces && reduction && !in_one_pass(u, *reduction) && !in_one_pass(*reduction, u)) return {};
      if (u.reduces) reduction = &u;
      if (!u.reduces && u.kept.size() != u.outer.size()) return {};
    }
    for (const Expr& axis : unit(group(g).units[0]).outer) shape.push_back(axis.extent());
    shape.push_back(-1);
    if (reduction)
      for (const Expr& axis : reduction->reduced) shape.push_back(axis.extent());
    return shape;
  }

  std::vector<uint64_t> loop_keys(int g) {
    if (group(g).units.empty()) return {};
    std::vector<Expr> shape = loop_shape(g);
    if (shape.empty()) return {};
    uint64_t h = 0;
    for (const Expr& e : shape) h = hash_combine(h, e.hash());
    std::vector<uint64_t> keys;
    auto add = [&](const Node* node) { keys.push_back(hash_combine(h, reinterpret_cast<uintptr_t>(node))); };
    for (int member : group(g).units) {
      for (const Node* leaf : unit(member).leaves) add(leaf);
      for (const Unit::Read& read : unit(member).reads)
        if (read.memory) add(read.node);
    }
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    return keys;
  }

  // Units that read what the group's units write.
  std::vector<int> readers_of(int g) {
    std::vector<int> readers;
    auto add = [&](const Source& source) {
      if (auto it = readers_.find(source); it != readers_.end())
        readers.insert(readers.end(), it->second.begin(), it->second.end());
    };
    for (int id : group(g).units) {
      add({unit(id).node, !unit(id).reduces});
      for (const Node* written : unit(id).writes) add({written, true});
    }
    return readers;
  }

  // Whether something in group b needs, directly or not, what group a writes. Kernels run as a whole: whatever a group
  // on the way writes counts. True when the search grows too long.
  bool reaches(int a, int b) {
    std::vector<int> stack{a};
    std::unordered_set<int> seen{a};
    size_t steps = 0;
    while (!stack.empty()) {
      int g = stack.back();
      stack.pop_back();
      for (int reader : readers_of(g)) {
        int next = unit(reader).group;
        if (next == b && next != a) return true;
        if (++steps > kSearchLimit) return true;
        if (next >= 0 && seen.insert(next).second) stack.push_back(next);
      }
    }
    return false;
  }

  // What was to pass through memory, but ended up in one kernel with all that reads it, is simply computed there.
  void drop_dead_stores() {
    for (size_t id = 0; id < result_.units.size(); ++id) {
      Unit& u = result_.units[id];
      if (u.reduces || !u.writes.empty() || roots_.count(u.node)) continue;
      const std::vector<int>& readers = readers_[{u.node, true}];
      if (!std::all_of(readers.begin(), readers.end(), [&](int r) { return unit(r).group == u.group; })) continue;
      std::erase(group(u.group).units, static_cast<int>(id));
      result_.storing.erase(u.node);
      for (int r : readers) {
        std::vector<Unit::Read>& reads = unit(r).reads;
        std::erase_if(reads, [&](const Unit::Read& read) { return read.memory && read.node == u.node; });
        reads.insert(reads.end(), u.reads.begin(), u.reads.end());
        for (const Unit::Read& read : u.reads) readers_[key(read)].push_back(r);
      }
      u.reads.clear();
    }
  }

  // Sorts units inside groups, and groups so that inputs come first (iteratively, by counting what is missing).
  void order_groups() {
    std::vector<int> new_id(result_.groups.size(), -1);
    std::vector<std::vector<int>> users(result_.groups.size());
    std::vector<int> missing(result_.groups.size(), 0);
    for (const Unit& u : result_.units)
      for (const Unit::Read& read : u.reads) {
        if (!read.memory) continue;
        int from = unit(result_.storing.at(read.node)).group;
        if (from == u.group) continue;
        users[static_cast<size_t>(from)].push_back(u.group);
        ++missing[static_cast<size_t>(u.group)];
      }
    std::vector<int> ready;
    for (size_t g = result_.groups.size(); g-- > 0;)
      if (missing[g] == 0) ready.push_back(static_cast<int>(g));
    std::vector<Group> sorted;
    size_t expected = 0;
    for (const Group& g : result_.groups) expected += !g.units.empty();
    while (!ready.empty()) {
      int g = ready.back();
      ready.pop_back();
      for (int user : users[static_cast<size_t>(g)])
        if (--missing[static_cast<size_t>(user)] == 0) ready.push_back(user);
      Group& moved = group(g);
      if (moved.units.empty()) continue;
      std::sort(moved.units.begin(), moved.units.end(), [&](int a, int b) {
        size_t na = number(unit(a).node), nb = number(unit(b).node);
        return na != nb ? na < nb : unit(a).reduces > unit(b).reduces;
      });
      for (int member : moved.units) unit(member).group = static_cast<int>(sorted.size());
      sorted.push_back(std::move(moved));
    }
    HD_ASSERT(sorted.size() == expected, "kernels depend on each other in a circle");
    result_.groups = std::move(sorted);
  }

  std::vector<const Node*> order_;
  std::unordered_map<const Node*, int> number_;
  std::unordered_set<const Node*> roots_, stored_, wanted_, placed_direct_;
  std::unordered_map<const Node*, std::vector<const Node*>> stored_results_;  // of nodes with direct kernels
  std::vector<double> work_;
  std::vector<bool> reduces_below_;
  std::vector<int> next_;
  std::priority_queue<int> pending_;
  std::unordered_map<const Node*, std::vector<int>> computed_in_;  // units whose nests evaluate the node
  std::vector<int> group_of_;                                      // of each unit, in the end
  std::unordered_map<const Node*, int> attempts_;                  // at placing a reduction
  std::unordered_map<Source, std::vector<int>, SourceHash> readers_;
  Partition result_;
};

}  // namespace

Partition partition(std::span<const NodeRef> roots) {
  std::vector<const Node*> forced;
  for (int round = 0;; ++round) {
    Partitioner partitioner(roots, forced);
    Partition result = partitioner.run();
    std::vector<const Node*> repeated = partitioner.repeated();
    if (repeated.empty() || round == 3) return result;
    forced.insert(forced.end(), repeated.begin(), repeated.end());
  }
}

}  // namespace heddle
