// Divides a body into nests and decides which lazy values are written down instead of computed again.
#include <algorithm>
#include <unordered_set>

#include "compile/simd/lowering.h"
#include "kernel/pass_util.h"

namespace heddle::simd {
namespace {

// Computing a value again costs more than a store and a load from here on.
constexpr int64_t kExpensive = 12;
// Elements worth a vector.
constexpr int64_t kFewLanes = 4;

void add_unique(std::vector<int>& list, int item) {
  if (!contains(list, item)) list.push_back(item);
}

// What a check looks at is no better held in the check's layout: an index of rows lies across them.
bool only_checks(const Item& item) {
  return std::ranges::all_of(item.roots, [](const Inst* root) { return root->op == Op::check; });
}

}  // namespace

std::vector<Item> Lowering::partition(const Body& code) {
  std::vector<Item> items;
  Item pending;
  std::vector<Value> produced;             // by the pending nest
  std::vector<const Inst*> pending_loads;  // in it
  auto flush = [&] {
    if (!pending.roots.empty()) items.push_back(std::move(pending));
    pending = {};
    produced.clear();
    pending_loads.clear();
  };
  // What emitting `v` inside a nest reads: buffers with the loads, and results of nests.
  struct Reads {
    std::vector<const Inst*> loads;
    std::unordered_set<Value> values;
  };
  auto reads_of = [&](std::span<const Value> args) {
    Reads reads;
    std::vector<Value> stack(args.begin(), args.end());
    while (!stack.empty()) {
      Value v = stack.back();
      stack.pop_back();
      if (!reads.values.insert(v).second) continue;
      const Inst* def = defs_[v];
      if (!def || !is_lazy_op(def->op)) continue;
      if (def->op == Op::load) reads.loads.push_back(def);
      for (Value arg : def->args) stack.push_back(arg);
    }
    return reads;
  };
  auto conflict = [&](const Inst& load, const Inst& store) {
    return load.buffer == store.buffer &&
           !(canonical(load.address, load.coords) == canonical(store.address, store.coords));
  };
  for (int i = 0; i < static_cast<int>(code.insts.size()); ++i) {
    const Inst& inst = code.insts[i];
    if (is_lazy_op(inst.op)) {
      if (in_.values[inst.results[0]].numel() != 1) continue;
      const bool waits = std::ranges::any_of(inst.args, [&](Value v) { return contains(produced, v); });
      auto written = [&](const Inst* root) { return writes_memory(root->op) && root->buffer == inst.buffer; };
      if (waits || (inst.op == Op::load && std::ranges::any_of(pending.roots, written))) flush();
      items.push_back({.single = &inst, .at = i});
      continue;
    }
    if (inst.op == Op::loop || inst.op == Op::branch || inst.op == Op::panel_dot) {
      flush();
      items.push_back({.single = &inst, .at = i});
      continue;
    }
    Dims shape = root_dims(in_, inst);
    int axis = writes_memory(inst.op) ? -1 : inst.axis;
    Reads reads = reads_of(inst.args);
    bool joins = !pending.roots.empty() && pending.shape == shape && inst.op != Op::dot &&
                 (pending.axis < 0 || axis < 0 || pending.axis == axis);
    for (const Inst* root : pending.roots) {
      joins &= root->op != Op::dot;
      if (!writes_memory(root->op)) continue;
      joins &= inst.op == Op::check || !(writes_memory(inst.op) && inst.buffer == root->buffer);
      for (const Inst* load : reads.loads) joins &= load->buffer != root->buffer;
    }
    for (Value v : produced) joins &= !reads.values.contains(v);
    if (joins && writes_memory(inst.op))
      for (const Inst* load : pending_loads) joins &= !conflict(*load, inst);
    if (!joins) flush();
    pending.roots.push_back(&inst);
    pending.roots_at.push_back(i);
    pending.shape = shape;
    if (axis >= 0) pending.axis = axis;
    pending_loads.insert(pending_loads.end(), reads.loads.begin(), reads.loads.end());
    for (Value v : final_results(inst)) produced.push_back(v);
  }
  flush();
  return items;
}

void Lowering::choose_saves(const Body& code, std::vector<Item>& items) {
  const int end = static_cast<int>(items.size());  // stands for the body's results
  std::unordered_map<Value, std::vector<int>> users;
  struct Store {
    int at, item;
    const Inst* inst;
    int buffer;
  };
  std::vector<Store> stores;
  for (int n = 0; n < end; ++n) {
    const Item& item = items[n];
    for (size_t r = 0; r < item.roots.size(); ++r) {
      for (Value v : item.roots[r]->args) add_unique(users[v], n);
      if (writes_memory(item.roots[r]->op))
        stores.push_back({item.roots_at[r], n, item.roots[r], item.roots[r]->buffer});
    }
    if (!item.single) continue;
    auto look = [&](const Inst& inst) {
      kernel::each_use(inst, [&](Value v) { add_unique(users[v], n); });
      if (writes_memory(inst.op)) stores.push_back({item.at, n, nullptr, inst.buffer});
      if (inst.op == Op::panel_dot) stores.push_back({item.at, n, nullptr, inst.panels[0].buffer});
    };
    look(*item.single);
    for (const Body& inner : item.single->bodies) kernel::visit(inner, look);
  }
  for (Value v : code.results) add_unique(users[v], end);

  std::unordered_map<Value, int64_t> cost;
  for (const Inst& inst : code.insts) {
    if (!is_lazy_op(inst.op) || in_.values[inst.results[0]].numel() == 1) continue;
    int64_t sum = op_cost(inst.op);
    for (Value v : inst.args)
      if (auto it = cost.find(v); it != cost.end()) sum += it->second;
    cost[inst.results[0]] = std::min<int64_t>(sum, 1000);
  }

  for (int i = static_cast<int>(code.insts.size()) - 1; i >= 0; --i) {
    const Inst& inst = code.insts[i];
    if (inst.op == Op::scan) {
      // Its own nest has the scanned tile at hand, others need a copy.
      auto own = std::ranges::find_if(items, [&](const Item& item) { return contains(item.roots, &inst); });
      for (size_t k = 0; k < inst.results.size() / 2; ++k) {
        const std::vector<int>& by = users[inst.results[k]];
        if (std::ranges::any_of(by, [&](int n) { return n != own - items.begin(); }))
          own->during.push_back({inst.results[k], false});
      }
      continue;
    }
    if (!is_lazy_op(inst.op)) continue;
    const Value v = inst.results[0];
    const Type& type = in_.values[v];
    auto it = users.find(v);
    if (type.numel() == 1 || it == users.end() || inst.op == Op::constant) continue;
    std::vector<int> at = it->second;
    std::ranges::sort(at);

    // A store to what a load reads, before the last use of the load.
    int hazard = end + 1;
    if (inst.op == Op::load) {
      for (const Store& store : stores) {
        if (store.buffer != inst.buffer || store.at < i || store.item > at.back()) continue;
        bool same_place = store.item == at.back() && store.inst &&
                          canonical(store.inst->address, store.inst->coords) == canonical(inst.address, inst.coords);
        if (!same_place) hazard = std::min(hazard, store.item);
      }
    }
    const int first = std::min(at[0], hazard);
    bool loops = false;
    for (int n : at) loops |= n < end && items[n].single && items[n].single->op == Op::loop;
    bool saved = false;
    if (hazard <= end) {
      saved = true;
      if (first < end) items[first].before.push_back({v, false});
    } else if ((at.size() > 1 || loops) && cost[v] >= kExpensive && first < end) {
      saved = true;
      Item& item = items[first];
      if (!item.single && item.shape == type.shape)
        item.during.push_back({v, false});
      else
        item.before.push_back({v, false});
    } else if (at.size() == 1 && first < end && !items[first].single && !only_checks(items[first]) &&
               items[first].shape != type.shape && cost[v] >= kExpensive && type.numel() >= kFewLanes) {
      // Computed once for each of a few elements of a larger nest: as vectors of its own.
      saved = true;
      items[first].before.push_back({v, false});
    } else if (at.size() > 1 && !loops && at.back() < end && !items[first].single && !only_checks(items[first]) &&
               items[first].shape == type.shape &&
               type.numel() * size_of(type.dtype) <= kSmallTile * target_.vector_bytes) {
      items[first].during.push_back({v, true});
    }
    if (saved) at = {first};
    for (Value arg : inst.args)
      for (int n : at) add_unique(users[arg], n);
  }
  // Operands come before their users in the reverse of the order found.
  for (Item& item : items) {
    std::ranges::reverse(item.before);
    std::ranges::reverse(item.during);
  }
}

}  // namespace heddle::simd
