#include "runtime/split_devices.h"

#include <algorithm>
#include <climits>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "graph/graph.h"

namespace heddle {
namespace {

// Of the Inputs that stand for values of other parts; captured functions have smaller numbers.
constexpr int64_t kPartFunction = int64_t{1} << 50;

// Differentiation is over: a Pullback is its value. And what has no place is computed where it is wanted.
const Node* meant(const Node* node) {
  while (node->op == NodeOp::Pullback || (node->op == NodeOp::To && node->inputs[0]->device == kAnywhere))
    node = node->inputs[0].get();
  return node;
}

double elements(const Node& node) { return static_cast<double>(node.shape.numel().hi()); }

class Splitter {
 public:
  Splitter(std::span<const NodeRef> roots, const GraphKey& key)
      : key_(key), roots_(roots.begin(), roots.end()), order_(topological(roots_)) {
    for (uint32_t i = 0; i < order_.size(); ++i) number_[order_[i]] = i;
    for (size_t l = 0; l < key.leaves.size(); ++l) leaf_[key.leaves[l]] = static_cast<int>(l);
  }

  CachedPlan split() {
    ForgetSources forget;
    find_levels();
    find_costs();
    for (const NodeRef& root : roots_) {
      const DeviceNumber device = root->device == kAnywhere ? key_.home : root->device;
      root_values_.push_back(value_of(meant(root.get()), device));
    }
    find_sources();
    // A part adds outputs only to parts of lower levels.
    for (auto draft = drafts_.rbegin(); draft != drafts_.rend(); ++draft) collect(draft->second);
    for (auto& [at, draft] : drafts_) rebuild_part(draft);
    order_steps();
    baked_.assign(key_.numbers.size(), true);
    for (const auto& [at, draft] : drafts_)
      for (uint32_t number : numbers_of(draft)) baked_[number] = false;
    // The last one first: whether it checks indices decides what those before it may write over.
    for (size_t p = running_.size(); p-- > 0;) plan_part(*running_[p]);
    return finish();
  }

 private:
  // Nodes of one device that are computed together, before the plan is there.
  struct Draft {
    DeviceNumber device;
    int level;
    std::vector<uint32_t> outputs = {};              // nodes
    std::vector<int> values = {};                    // of the outputs
    std::vector<uint32_t> nodes = {};                // that it computes or reads, inputs before users
    std::unordered_map<uint32_t, int> read = {};     // values of other parts, and leaves
    std::unordered_map<uint32_t, NodeRef> now = {};  // what stands for the nodes
    size_t part = 0;
  };

  uint32_t number(const Node* node) const { return number_.at(node); }

  // What a node is computed from.
  template <class F>
  void for_inputs(const Node& node, F f) const {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Node* input = meant(node.inputs[i].get());
      // What a Barrier waits for on another device is computed in an earlier part, or beside it.
      const bool elsewhere = input->device != kAnywhere && input->device != node.device;
      if (node.op == NodeOp::Barrier && i == 1 && elsewhere) continue;
      f(i, input);
    }
  }

  // How many copies lie before a node: the earliest level at which it can be computed. It is computed at the latest
  // that still makes roots and copies early, so that little has to be kept from level to level. But what takes long is
  // computed as early as possible: a device works on it while others work, or values are copied.
  void find_levels() {
    earliest_.assign(order_.size(), 0);
    level_.assign(order_.size(), INT_MAX);
    for (uint32_t i = 0; i < order_.size(); ++i) {
      if (order_[i]->op == NodeOp::Pullback) continue;
      for (const NodeRef& input : order_[i]->inputs)
        earliest_[i] = std::max(earliest_[i], earliest_[number(meant(input.get()))]);
      if (meant(order_[i]) == order_[i]) earliest_[i] += order_[i]->op == NodeOp::To;
    }
    for (const NodeRef& root : roots_) {
      const uint32_t i = number(meant(root.get()));
      level_[i] = earliest_[i];
    }
    for (uint32_t i = static_cast<uint32_t>(order_.size()); i-- > 0;) {
      if (level_[i] == INT_MAX) continue;
      if (takes_long(*order_[i])) level_[i] = earliest_[i];
      for_inputs(*order_[i], [&](size_t, const Node* input) {
        const uint32_t k = number(input);
        level_[k] = std::min(level_[k], order_[i]->op == NodeOp::To ? earliest_[k] : level_[i]);
      });
    }
    // A node with several results is in one part, and these with it.
    for (uint32_t i = 0; i < order_.size(); ++i)
      if (order_[i]->op == NodeOp::Get && level_[i] != INT_MAX) level_[i] = level_[number(order_[i]->inputs[0].get())];
  }

  // And leaves little to keep.
  static bool takes_long(const Node& node) {
    constexpr double kMuch = 1 << 20, kLess = 16;
    if (node.op == NodeOp::Loop) return true;
    return node.op == NodeOp::Reduce && elements(*node.inputs[0]) > std::max(kMuch, kLess * elements(node));
  }

  // Which nodes are computed again in a part rather than kept from an earlier one: those that take no work, and those
  // that would take more memory than what they are made from.
  void find_costs() {
    std::vector<double> cost(order_.size(), 0);
    again_.assign(order_.size(), false);
    for (uint32_t i = 0; i < order_.size(); ++i) {
      const Node& node = *order_[i];
      double inputs = 0;
      for (const NodeRef& input : node.inputs) inputs += cost[number(input.get())];
      const NodeKind kind = info(node.op).kind;
      const bool moves = kind == NodeKind::Movement && node.op != NodeOp::Barrier;
      cost[i] = node.op == NodeOp::Const || node.op == NodeOp::Iota ? 0 : elements(node);
      again_[i] = node.device == kAnywhere || moves || (kind == NodeKind::Elementwise && inputs < cost[i]);
      if (again_[i]) cost[i] = std::min(cost[i], inputs);
    }
  }

  // The value of a node that is a leaf, comes from another device, or is an output of a part.
  int value_of(const Node* node, DeviceNumber device) {
    const uint32_t i = number(node);
    auto [known, fresh] = value_at_.try_emplace({i, device}, static_cast<int>(values_.size()));
    if (!fresh) return known->second;
    const int value = known->second;
    values_.push_back({&backend_of(device), node->dtype, node->shape});
    if (is_in_file(node)) {
      read_file(node, 0, value);
    } else if (Part part = part_of_file(node); part.leaf) {
      read_file(part.leaf, part.offset, value);
    } else if (auto leaf = leaf_.find(node); leaf != leaf_.end()) {
      values_.back().leaf = leaf->second;
    } else if (node->op == NodeOp::To) {
      copies_.push_back({-1, value, 0});
      copied_.push_back(meant(node->inputs[0].get()));
    } else {
      const std::pair<int, DeviceNumber> at{node->device == kAnywhere ? 0 : level_[i], device};
      Draft& draft = drafts_.try_emplace(at, Draft{device, at.first}).first->second;
      draft.outputs.push_back(i);
      draft.values.push_back(value);
    }
    return value;
  }

  static bool is_in_file(const Node* node) { return is_provided(*node) && node->device == kAnywhere; }

  void read_file(const Node* leaf, uint64_t offset, int value) {
    auto [known, fresh] = files_.try_emplace(leaf, static_cast<int>(values_.size()));
    if (fresh) {
      values_.push_back({nullptr, leaf->dtype, leaf->shape});
      values_.back().leaf = leaf_.at(leaf);
    }
    copies_.push_back({known->second, value, offset});
    copied_.push_back(nullptr);
  }

  // The bytes of a Shrink that lie one after the other in a file: only these are read.
  struct Part {
    const Node* leaf = nullptr;
    uint64_t offset = 0;
  };
  Part part_of_file(const Node* node) const {
    if (node->op != NodeOp::Shrink) return {};
    const Node* leaf = meant(node->inputs[0].get());
    if (!is_in_file(leaf) || !leaf->shape.is_static() || !node->shape.is_static()) return {};
    int64_t offset = 0;
    bool several = false;  // of an axis before this one
    for (size_t i = 0; i < node->shape.size(); ++i) {
      const int64_t size = leaf->shape[i].value(), count = node->shape[i].value();
      if (!node->attrs[i].is_const() || (several && count != size)) return {};
      offset = offset * size + node->attrs[i].value();
      several = several || count > 1;
    }
    return {leaf, static_cast<uint64_t>(offset) * static_cast<uint64_t>(size_of(leaf->dtype))};
  }

  // Where copies come from. Each may need another one.
  void find_sources() {
    for (; sources_ < copies_.size(); ++sources_) {
      const Node* source = copied_[sources_];
      if (!source) continue;
      const int from = value_of(source, source->device);
      copies_[sources_].from = from;
    }
  }

  // The nodes of a part, from its outputs to values of others.
  void collect(Draft& draft) {
    std::unordered_set<uint32_t> seen;
    std::vector<uint32_t> pending;
    auto enter = [&](uint32_t i) {
      if (seen.insert(i).second) pending.push_back(i);
    };
    for (uint32_t output : draft.outputs) enter(output);
    while (!pending.empty()) {
      const uint32_t i = pending.back();
      pending.pop_back();
      draft.nodes.push_back(i);
      const Node& node = *order_[i];
      const bool earlier = node.device != kAnywhere && level_[i] < draft.level && !again_[i];
      if (is_provided(node) || node.op == NodeOp::To || earlier || part_of_file(&node).leaf)
        draft.read[i] = value_of(&node, node.device == kAnywhere ? draft.device : node.device);
      else
        for_inputs(node, [&](size_t, const Node* input) { enter(number(input)); });
    }
    find_sources();
    std::sort(draft.nodes.begin(), draft.nodes.end());
  }

  // The part as a graph of its own: Inputs stand for the values of others.
  void rebuild_part(Draft& draft) {
    SmallVector<NodeRef, 4> inputs;
    for (uint32_t i : draft.nodes) {
      const Node& node = *order_[i];
      NodeRef& now = draft.now[i];
      if (is_provided(node) && !is_in_file(&node)) {
        now = NodeRef::share(&node);
      } else if (auto read = draft.read.find(i); read != draft.read.end()) {
        now = make_input(read->second, kPartFunction, node.dtype, node.shape, draft.device);
      } else {
        inputs.clear();
        for (size_t k = 0; k < node.inputs.size(); ++k) inputs.push_back(NodeRef());
        for_inputs(node, [&](size_t k, const Node* input) { inputs[k] = draft.now.at(number(input)); });
        bool changed = false;
        for (size_t k = 0; k < inputs.size(); ++k) {
          if (!inputs[k]) inputs[k] = make_const(Scalar::of(DType::f32, 0));
          changed |= inputs[k] != node.inputs[k];
        }
        now = changed ? rebuild(node, inputs) : NodeRef::share(&node);
      }
    }
  }

  // Devices that work beside others begin before those that do not. What a part needs is copied right before it.
  void order_steps() {
    for (auto& [at, draft] : drafts_) running_.push_back(&draft);
    auto first = [](const Draft* a, const Draft* b) {
      const bool beside_a = backend_of(a->device).is_asynchronous(), beside_b = backend_of(b->device).is_asynchronous();
      return a->level != b->level ? a->level < b->level : beside_a && !beside_b;
    };
    std::stable_sort(running_.begin(), running_.end(), first);
    std::unordered_map<int, size_t> copy_of;
    for (size_t c = 0; c < copies_.size(); ++c) copy_of[copies_[c].to] = c;
    std::vector<bool> done(copies_.size(), false);
    for (size_t p = 0; p < running_.size(); ++p) {
      running_[p]->part = p;
      std::vector<int> needed;
      for (const auto& [node, value] : running_[p]->read) needed.push_back(value);
      std::sort(needed.begin(), needed.end());
      for (int value : needed) add_copy(value, copy_of, done);
      steps_.push_back({SplitPlan::Step::Kind::Part, p});
    }
    for (const SplitPlan::Copy& copy : copies_) add_copy(copy.to, copy_of, done);
    for (const Draft* draft : running_)
      for (const auto& [node, value] : draft->read)
        if (values_[static_cast<size_t>(value)].leaf >= 0) ++readers_[values_[static_cast<size_t>(value)].leaf];
    for (const SplitPlan::Copy& copy : copies_)
      if (const int leaf = values_[static_cast<size_t>(copy.from)].leaf; leaf >= 0) ++readers_[leaf];
  }

  // A copy may come from another one.
  void add_copy(int value, const std::unordered_map<int, size_t>& copy_of, std::vector<bool>& done) {
    std::vector<size_t> chain;
    for (auto found = copy_of.find(value); found != copy_of.end() && !done[found->second];
         found = copy_of.find(copies_[found->second].from)) {
      chain.push_back(found->second);
      done[found->second] = true;
    }
    for (size_t k = chain.size(); k-- > 0;) steps_.push_back({SplitPlan::Step::Kind::Copy, chain[k]});
  }

  // Those of the graph's numbers that a part has.
  std::vector<uint32_t> numbers_of(const Draft& draft) const {
    std::vector<uint32_t> result;
    for (uint32_t n = 0; n < key_.places.size(); ++n)
      if (auto node = number_.find(key_.places[n].node); node != number_.end() && draft.now.contains(node->second))
        result.push_back(n);
    return result;
  }

  void plan_part(Draft& draft) {
    PlanPart part{&backend_of(draft.device)};
    std::vector<NodeRef> roots;
    std::unordered_set<const Node*> seen;
    for (uint32_t output : draft.outputs) {
      const NodeRef& root = draft.now.at(output);
      if (!is_provided(*root) && seen.insert(root.get()).second) roots.push_back(root);
    }
    std::vector<const Storage*> donatable;
    std::vector<StateUpdate> updates;
    find_donatable(draft, donatable, updates);
    GraphKey key;
    key.read_part(roots, donatable, updates, key_.modes, *part.device);
    part.cached = plan_for(roots, key);
    const Plan& plan = part.cached->plan;
    checks_ = checks_ || plan.last_check >= 0;

    std::unordered_map<const Node*, int> value_of_leaf;
    for (const auto& [node, value] : draft.read) value_of_leaf[draft.now.at(node).get()] = value;
    for (const Node* leaf : key.leaves) part.leaves.push_back(value_of_leaf.at(leaf));
    for (const Expr& symbol : key.symbols) {
      auto known = std::find(key_.symbols.begin(), key_.symbols.end(), symbol);
      HD_ASSERT(known != key_.symbols.end(), "a part has a size of its own: ", symbol);
      part.symbols.push_back(static_cast<int>(known - key_.symbols.begin()));
    }
    connect_outputs(draft, key, value_of_leaf, part);
    connect_numbers(draft, key, part);
    parts_.resize(std::max(parts_.size(), draft.part + 1));
    parts_[draft.part] = std::move(part);
  }

  // Memory that an output of the part may take over: of leaves that nobody else reads, as long as no later part can
  // still find an index out of range.
  void find_donatable(const Draft& draft, std::vector<const Storage*>& donatable, std::vector<StateUpdate>& updates) {
    for (const auto& [node, value] : draft.read) {
      const int leaf = values_[static_cast<size_t>(value)].leaf;
      if (leaf < 0 || !key_.donatable_leaf[static_cast<size_t>(leaf)]) continue;
      const int to = key_.donated_to[static_cast<size_t>(leaf)];
      if (readers_[leaf] > 1 || checks_) {
        if (to >= 0)
          refused_[to] = checks_ ? "indices are still to be checked when it is written"
                                 : "the old value is read in several parts of the graph";
        continue;
      }
      if (to < 0) {
        donatable.push_back(key_.leaves[static_cast<size_t>(leaf)]->storage.get());
        continue;
      }
      const uint32_t wanted = number(meant(key_.nodes[static_cast<size_t>(to)]));
      auto output = std::find(draft.outputs.begin(), draft.outputs.end(), wanted);
      if (output == draft.outputs.end())
        refused_[to] = "the new value comes from another part of the graph";
      else
        updates.push_back({key_.leaves[static_cast<size_t>(leaf)], draft.now.at(wanted).get()});
    }
  }

  void connect_outputs(const Draft& draft, const GraphKey& key, const std::unordered_map<const Node*, int>& leaves,
                       PlanPart& part) {
    const Plan& plan = part.cached->plan;
    part.outputs.assign(plan.outputs.size(), -1);
    for (size_t k = 0; k < draft.outputs.size(); ++k) {
      const NodeRef& root = draft.now.at(draft.outputs[k]);
      if (is_provided(*root)) {
        same_as_[draft.values[k]] = leaves.at(root.get());
        continue;
      }
      size_t output = key.number(root.get());
      while (plan.outputs[output].same_as >= 0) output = static_cast<size_t>(plan.outputs[output].same_as);
      if (const int leaf = plan.outputs[output].leaf; leaf >= 0) {
        same_as_[draft.values[k]] = part.leaves[static_cast<size_t>(leaf)];
      } else if (part.outputs[output] >= 0) {
        same_as_[draft.values[k]] = part.outputs[output];
      } else {
        part.outputs[output] = draft.values[k];
        made_by_[draft.values[k]] = {draft.part, output};
      }
    }
  }

  // A number may be any in the plan if it may be any in all parts that have it.
  void connect_numbers(const Draft& draft, const GraphKey& key, PlanPart& part) {
    using Place = std::tuple<const Node*, NumberPlace::Kind, uint32_t>;
    std::map<Place, std::vector<uint32_t>> from;
    for (uint32_t n : numbers_of(draft)) {
      const NumberPlace& place = key_.places[n];
      from[{draft.now.at(number(place.node)).get(), place.kind, place.axis}].push_back(n);
    }
    const std::vector<uint32_t>& arguments = part.cached->arguments;
    for (uint32_t j = 0; j < key.places.size(); ++j) {
      const NumberPlace& place = key.places[j];
      part.numbers.push_back({-1, key.numbers[j]});
      auto found = from.find({place.node, place.kind, place.axis});
      if (found == from.end()) continue;
      // Two that became one have to stay equal.
      if (found->second.size() == 1 && std::binary_search(arguments.begin(), arguments.end(), j)) {
        part.numbers.back().from = static_cast<int>(found->second[0]);
        from.erase(found);
      }
    }
    for (const auto& [place, numbers] : from)
      for (uint32_t n : numbers) baked_[n] = true;
  }

  int original(int value) const {
    for (auto same = same_as_.find(value); same != same_as_.end(); same = same_as_.find(value)) value = same->second;
    return value;
  }

  CachedPlan finish() {
    CachedPlan made;
    made.numbers = key_.numbers;
    for (uint32_t n = 0; n < key_.numbers.size(); ++n)
      if (!baked_[n]) made.arguments.push_back(n);
    for (PlanPart& part : parts_)
      for (int& value : part.leaves) value = original(value);
    for (SplitPlan::Copy& copy : copies_) copy.from = original(copy.from);
    for (const auto& [value, other] : same_as_) values_[static_cast<size_t>(value)].device = nullptr;
    Plan& plan = made.plan;
    plan = Plan{};
    plan.device = key_.device;
    plan.symbols = key_.symbols;
    plan.last_check = checks_ ? 0 : -1;
    for (const PlanPart& part : parts_) {
      plan.arena_bytes += part.cached->plan.arena_bytes;
      plan.arena_lower_bound += part.cached->plan.arena_lower_bound;
    }
    for (size_t o = 0; o < roots_.size(); ++o) add_output(plan, static_cast<int>(o));
    SplitPlan split{std::move(values_), std::move(parts_), std::move(copies_), std::move(steps_)};
    plan.split = std::make_shared<const SplitPlan>(std::move(split));
    return made;
  }

  void add_output(Plan& plan, int o) {
    const Node& node = *roots_[static_cast<size_t>(o)];
    const int made = root_values_[static_cast<size_t>(o)];
    SplitValue& value = values_[static_cast<size_t>(original(made))];
    PlanOutput output{node.dtype, node.shape};
    output.device = value.device;
    if (value.leaf >= 0) {
      output.leaf = value.leaf;
    } else if (value.output >= 0) {
      output.same_as = value.output;
    } else {
      value.output = o;
      if (auto by = made_by_.find(original(made)); by != made_by_.end()) {
        const PlanPart& part = parts_[by->second.first];
        const PlanOutput& own = part.cached->plan.outputs[by->second.second];
        output.not_donated = own.not_donated;
        if (own.donated_leaf >= 0) {
          const int from = part.leaves[static_cast<size_t>(own.donated_leaf)];
          output.donated_leaf = values_[static_cast<size_t>(from)].leaf;
        }
      }
      if (auto refused = refused_.find(o); refused != refused_.end()) output.not_donated = refused->second;
    }
    plan.outputs.push_back(std::move(output));
  }

  const GraphKey& key_;
  std::vector<NodeRef> roots_;
  std::vector<const Node*> order_;
  std::unordered_map<const Node*, uint32_t> number_;
  std::unordered_map<const Node*, int> leaf_;
  std::vector<int> earliest_, level_;
  std::vector<bool> again_, baked_;
  std::vector<SplitValue> values_;
  std::map<std::pair<uint32_t, DeviceNumber>, int> value_at_;
  std::vector<int> root_values_;
  std::vector<SplitPlan::Copy> copies_;
  std::vector<const Node*> copied_;  // by each of them
  size_t sources_ = 0;               // so many of them know where they come from
  std::map<std::pair<int, DeviceNumber>, Draft> drafts_;
  std::vector<Draft*> running_;  // in the order of the run
  std::vector<SplitPlan::Step> steps_;
  std::vector<PlanPart> parts_;
  std::unordered_map<const Node*, int> files_;                  // leaves in files: their values
  std::unordered_map<int, int> readers_;                        // of leaves
  std::unordered_map<int, int> same_as_;                        // of values
  std::unordered_map<int, std::pair<size_t, size_t>> made_by_;  // values: part and output
  std::unordered_map<int, const char*> refused_;                // outputs: why nothing is given to them
  bool checks_ = false;                                         // parts that run later look for indices out of range
};

}  // namespace

CachedPlan split_devices(std::span<const NodeRef> roots, const GraphKey& key) { return Splitter(roots, key).split(); }

}  // namespace heddle
