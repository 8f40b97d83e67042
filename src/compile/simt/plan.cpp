// Decides, before any code is made, which values share a layout and which must be kept.
#include <algorithm>
#include <functional>
#include <numeric>
#include <unordered_set>

#include "base/error.h"
#include "compile/simt/lowering.h"
#include "kernel/pass_util.h"
#include "kernel/types.h"

namespace heddle::simt {

namespace {

bool accesses_memory(Op op) { return op == Op::load || op == Op::store || op == Op::combine || op == Op::check; }
bool writes_memory(Op op) { return op == Op::store || op == Op::combine || op == Op::matrix_store; }
// Computed again wherever it is used, from its operands.
bool recomputable(Op op) { return kernel::is_elementwise(op) || op == Op::load; }

class Planner {
 public:
  Planner(const Kernel& kernel, int threads, int warp) : kernel_(kernel), threads_(threads), warp_(warp) {}

  Plan run(const Body& body) {
    plan_.values.resize(kernel_.values.size());
    number(body, -1);
    find_transposed();
    join_groups();
    choose_layouts();
    find_late();
    find_kept_values();
    return std::move(plan_);
  }

 private:
  struct Place {
    const Inst* inst;
    int parent;  // position of the loop or branch around it, -1 for none
    int end;     // last position inside it
  };

  // Order of appearance.
  void number(const Body& code, int parent) {
    for (const Inst& inst : code.insts) {
      int position = static_cast<int>(places_.size());
      places_.push_back({&inst, parent, position});
      plan_.position[&inst] = position;
      for (Value v : inst.results) {
        plan_.values[v].def = &inst;
        plan_.values[v].position = position;
      }
      for (const Body& inner : inst.bodies) {
        for (Value v : inner.params) plan_.values[v].position = position;
        number(inner, position);
      }
      places_[position].end = static_cast<int>(places_.size()) - 1;
    }
  }

  // The shape an instruction runs over: that of a result for most.
  Dims space(const Inst& inst) const {
    switch (inst.op) {
      case Op::store:
      case Op::check:
      case Op::matrix_store:
      case Op::combine: return kernel_.values[inst.args[0]].shape;
      case Op::reduce:
      case Op::scan: return kernel_.values[inst.args[0]].shape;
      case Op::dot: return kernel::dot_dims(kernel_.values[inst.args[0]], kernel_.values[inst.args[1]]);
      default: return inst.results.empty() ? Dims() : kernel_.values[inst.results[0]].shape;
    }
  }

  // Loads that walk along one dimension while the store that they feed walks along another: either would touch memory
  // far apart if both had one layout.
  void find_transposed() {
    constexpr int64_t kFewest = 256;  // elements
    // Beside a matrix unit's ring there is no room for whole tiles.
    auto has_ring = [](const Place& p) { return p.inst->op == Op::warp_dot || p.inst->op == Op::matrix_dot; };
    if (std::ranges::any_of(places_, has_ring)) return;
    for (const Place& place : places_) {
      const Inst& store = *place.inst;
      if (store.op != Op::store || kernel_.buffers[store.buffer].space == kernel::Space::Shared) continue;
      const int along = fast_dim(store);
      const Dims& dims = kernel_.values[store.args[0]].shape;
      if (along < 0 || kernel_.values[store.args[0]].numel() < kFewest) continue;
      std::vector<Value> open = {store.args[0]};
      std::unordered_set<Value> seen;
      while (!open.empty()) {
        Value v = open.back();
        open.pop_back();
        const Inst* def = plan_.values[v].def;
        if (!def || !recomputable(def->op) || !seen.insert(v).second) continue;
        if (def->op == Op::load) {
          const bool global = kernel_.buffers[def->buffer].space != kernel::Space::Shared;
          const int other = fast_dim(*def);
          if (global && def->binds.empty() && kernel_.values[v].shape == dims && other >= 0 && other != along)
            plan_.values[v].transposed = true;
          continue;
        }
        open.insert(open.end(), def->args.begin(), def->args.end());
      }
    }
  }

  // Groups: union of values and instructions while their shapes fit into one.
  int root(int node) {
    while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
    return node;
  }
  static bool single(const Dims& dims) {
    return std::ranges::all_of(dims, [](int64_t d) { return d == 1; });
  }
  void join(int a, int b) {
    a = root(a);
    b = root(b);
    Dims &x = shape_[a], &y = shape_[b];
    if (a == b || single(x) || single(y) || x.size() != y.size()) return;
    for (size_t d = 0; d < x.size(); ++d) {
      if (x[d] != y[d] && x[d] != 1 && y[d] != 1) return;
    }
    // Two contractions over different dimensions want different layouts, and so do matrices of different columns.
    if (dot_axis_[a] >= 0 && dot_axis_[b] >= 0 && dot_axis_[a] != dot_axis_[b]) return;
    const Dims *matrix = matrix_[a] ? matrix_[a] : matrix_[b], *other = matrix_[b] ? matrix_[b] : matrix;
    for (size_t d = 0; matrix && d < x.size(); ++d)
      if (std::max(x[d], y[d]) > (*matrix)[d] || (*other)[d] != (*matrix)[d]) return;
    for (size_t d = 0; d < x.size(); ++d) x[d] = std::max(x[d], y[d]);
    dot_axis_[a] = std::max(dot_axis_[a], dot_axis_[b]);
    matrix_[a] = matrix;
    parent_[b] = a;
  }
  // Constants tie nothing together: what shares a zero need not share a layout.
  void join_value(int n, Value v) {
    const Inst* def = plan_.values[v].def;
    if (!def || (def->op != Op::constant && !plan_.values[v].transposed)) join(n, v);
  }
  int node(const Inst& inst) { return static_cast<int>(kernel_.values.size()) + plan_.position.at(&inst); }

  void join_groups() {
    size_t count = kernel_.values.size() + places_.size();
    parent_.resize(count);
    std::iota(parent_.begin(), parent_.end(), 0);
    dot_axis_.assign(count, -1);
    for (const auto& type : kernel_.values) shape_.push_back(type.shape);
    for (const Place& place : places_) shape_.push_back(space(*place.inst));
    matrix_.assign(count, nullptr);
    for (const Place& place : places_) {
      const Inst& inst = *place.inst;
      if (inst.op == Op::dot) dot_axis_[node(inst)] = inst.axis;
      // A left factor lies as sums do, whatever it was computed from.
      if (inst.op == Op::matrix_dot) {
        matrix_[inst.results[0]] = &kernel_.values[inst.results[0]].shape;
        for (size_t i = inst.sums_in_args(); i < inst.args.size(); ++i)
          matrix_[inst.args[i]] = &kernel_.values[inst.args[i]].shape;
      }
    }
    for (const Place& place : places_) {
      const Inst& inst = *place.inst;
      if (inst.op == Op::loop || inst.op == Op::branch) {
        for (const Body& code : inst.bodies) {
          // A loop hands its parameters on to its results register by register, so these pairs must share a layout.
          // They come first: nothing has claimed the parameters yet, so the join cannot fail.
          for (size_t i = 0; i < code.params.size(); ++i) join(inst.results[i], code.params[i]);
          for (size_t i = 0; i < inst.results.size(); ++i) {
            join_value(inst.results[i], code.results[i]);
            if (inst.op == Op::loop) join_value(inst.results[i], inst.args[i]);
          }
        }
        continue;
      }
      for (Value v : inst.results)
        if (inst.op != Op::constant) join(node(inst), v);
      // A left factor is a matrix of its own.
      for (size_t i = 0; i < inst.args.size(); ++i)
        if (inst.op != Op::matrix_dot || i < inst.sums_in_args()) join_value(node(inst), inst.args[i]);
    }
  }

  void choose_layouts() {
    std::vector<int> group(parent_.size(), -1);
    std::vector<std::vector<const Inst*>> accesses;
    std::vector<int> roots;
    std::vector<Op> units;  // matrix_dot or warp_dot: of groups that such a unit computes
    auto group_of = [&](int n) {
      int r = root(n);
      if (single(shape_[r])) return -1;
      if (group[r] < 0) {
        group[r] = static_cast<int>(roots.size());
        roots.push_back(r);
        accesses.emplace_back();
        units.push_back(Op::load);
      }
      return group[r];
    };
    for (size_t v = 0; v < kernel_.values.size(); ++v) {
      if (plan_.values[v].position >= 0) plan_.values[v].group = group_of(static_cast<int>(v));
    }
    for (const Place& place : places_) {
      int g = group_of(node(*place.inst));
      plan_.inst_group[place.inst] = g;
      if (g >= 0 && accesses_memory(place.inst->op)) accesses[g].push_back(place.inst);
      if (g >= 0 && (place.inst->op == Op::matrix_dot || place.inst->op == Op::matrix_store)) units[g] = Op::matrix_dot;
      if (place.inst->op == Op::matrix_dot)
        for (size_t i = place.inst->sums_in_args(); i < place.inst->args.size(); ++i)
          units[group_of(place.inst->args[i])] = Op::matrix_dot;
      if (g >= 0 && place.inst->op == Op::warp_dot) units[g] = Op::warp_dot;
      // Their results appear in the registers of the layout they run in, whatever else they were joined with.
      if (place.inst->op != Op::reduce && place.inst->op != Op::dot && place.inst->op != Op::scan) continue;
      for (Value v : place.inst->results) {
        if (plan_.values[v].group >= 0) plan_.values[v].group = g;
      }
    }
    for (size_t g = 0; g < roots.size(); ++g) {
      const Dims& dims = shape_[roots[g]];
      plan_.groups.push_back(units[g] == Op::matrix_dot ? matrix_layout(dims, threads_)
                             : units[g] == Op::warp_dot ? warp_layout(dims, threads_)
                                                        : choose_layout(dims, accesses[g], kernel_.buffers,
                                                                        dot_axis_[roots[g]], threads_, warp_));
    }
  }

  void find_late() {
    std::vector<int> uses(kernel_.values.size(), 0);
    for (const Place& place : places_) kernel::each_use(*place.inst, [&](Value v) { ++uses[v]; });
    for (const Place& place : places_) {
      const Inst& loop = *place.inst;
      if (loop.op != Op::loop) continue;
      const Body& body = loop.bodies[0];
      std::vector<const Inst*> found(loop.args.size(), nullptr);
      for (size_t i = 0; i < loop.args.size(); ++i) {
        const Value param = body.params[i], result = body.results[i];
        const Inst* sum = plan_.values[result].def;
        if (!sum || !kernel::is_scalar_op(sum->op) || sum->args.size() != 2 || uses[result] != 1 || uses[param] != 1)
          continue;
        if (sum->args[0] != param && sum->args[1] != param) continue;
        const Value part = sum->args[sum->args[0] == param ? 1 : 0];
        const Inst* reduce = plan_.values[part].def;
        if (!reduce || reduce->op != Op::reduce || uses[part] != 1) continue;
        const int position = plan_.position.at(&loop);
        if (places_[plan_.position.at(reduce)].parent != position || places_[plan_.position.at(sum)].parent != position)
          continue;
        if (kernel::simple_op(*reduce->reducer) != kernel::scalar_op(sum->op)) continue;
        // The results stand in registers of the reduction's layout.
        const int group = plan_.inst_group.at(reduce);
        const Dims& dims = kernel_.values[part].shape;
        if (dims != kernel_.values[param].shape) continue;  // it is spread over more
        if (group < 0 || plan_.values[loop.results[i]].group != (single(dims) ? -1 : group)) continue;
        if (!is_rolled(plan_.groups[group], dims)) found[i] = reduce;
      }
      plan_.late[&loop] = std::move(found);
    }
  }

  // The position up to which something defined at `def` is needed when it is used at `use`: all of a loop that
  // contains the use but not the definition.
  int lifted(int use, int def) const {
    int result = use;
    for (int p = places_[use].parent; p >= 0; p = places_[p].parent) {
      if (def < p || def > places_[p].end) result = places_[p].end;
    }
    return result;
  }
  void use(Value v, int group, int position) {
    ValuePlan& value = plan_.values[v];
    if (!contains(value.users, group)) value.users.push_back(group);
    // Parameters stand where their loop begins, so their own loop counts as containing the definition.
    value.needed_until = std::max(value.needed_until, lifted(position, value.position));
  }
  // Values that an instruction needs in its own layout.
  void use_directly(const Inst& inst, int position) {
    switch (inst.op) {
      case Op::store:
      case Op::combine:
      case Op::check:
      case Op::matrix_store:
      case Op::reduce:
      case Op::scan:
      case Op::dot:
      case Op::matrix_dot:
        for (size_t i = 0; i < inst.args.size(); ++i) {
          const bool left = inst.op == Op::matrix_dot && i >= inst.sums_in_args();  // a matrix of its own
          use(inst.args[i], left ? plan_.values[inst.args[i]].group : plan_.inst_group[&inst], position);
        }
        break;
      case Op::loop:
        for (size_t i = 0; i < inst.args.size(); ++i) {
          if (const Inst* reduce = plan_.late[&inst][i]) {
            use(inst.args[i], plan_.inst_group[reduce], position);
            continue;
          }
          int group = plan_.values[inst.bodies[0].params[i]].group;
          use(inst.args[i], group, position);
          use(inst.bodies[0].results[i], group, places_[position].end);
        }
        break;
      case Op::branch:
        for (Value v : inst.args) use(v, plan_.values[v].group, position);
        for (const Body& code : inst.bodies) {
          for (size_t i = 0; i < inst.results.size(); ++i) {
            use(code.results[i], plan_.values[inst.results[i]].group, places_[position].end);
          }
        }
        break;
      default: break;
    }
  }

  // Whether memory read by this load changes before its last use, so that it must be read where it stands.
  bool overwritten(const Inst& load, int position, int needed_until) {
    for (int s = position + 1; s <= needed_until; ++s) {
      const Inst& store = *places_[s].inst;
      if (!writes_memory(store.op)) continue;
      if ((store.op == Op::matrix_store ? store.regions[0].buffer : store.buffer) != load.buffer) continue;
      if (s == needed_until && updates_in_place(load, store, position)) {
        plan_.same_element[&load] = s;
        continue;
      }
      return true;
    }
    return false;
  }
  // The store writes, thread by thread, just the elements that the load has read.
  bool updates_in_place(const Inst& load, const Inst& store, int position) {
    int group = plan_.inst_group[&store];
    if (store.op != Op::store || places_[position].parent != places_[plan_.position[&store]].parent) return false;
    if (plan_.inst_group[&load] != group || plan_.values[load.results[0]].users != std::vector<int>{group})
      return false;
    if (load.coords.size() != store.coords.size() || !load.binds.empty() || !store.binds.empty()) return false;
    Substitution rename;
    for (size_t d = 0; d < load.coords.size(); ++d) rename.emplace_back(load.coords[d], store.coords[d]);
    if (coord_dims(load) != coord_dims(store) || substitute(load.address, rename) != store.address) return false;
    if (group < 0) return false;
    // Threads that hold copies read too, but do not wait for the one that writes.
    const Layout& layout = plan_.groups[group];
    const Dims dims = coord_dims(store);
    for (size_t d = 0; d < dims.size(); ++d)
      if (dims[d] == 1 && layout.dims[d].threads > 1) return false;
    return layout.used == threads_;
  }

  void find_kept_values() {
    for (size_t p = 0; p < places_.size(); ++p) {
      const Inst& inst = *places_[p].inst;
      use_directly(inst, static_cast<int>(p));
      if (!recomputable(inst.op)) {
        for (Value v : inst.results) plan_.values[v].defined = true;
      }
      for (const Body& code : inst.bodies) {
        for (Value v : code.params) plan_.values[v].defined = true;
      }
    }
    // Users come after definitions, so going backwards every use of a value is known when the value is met.
    for (int p = static_cast<int>(places_.size()) - 1; p >= 0; --p) {
      const Inst& inst = *places_[p].inst;
      if (!recomputable(inst.op)) continue;
      ValuePlan& value = plan_.values[inst.results[0]];
      if (value.users.empty()) continue;
      if (inst.op == Op::load && (value.transposed || overwritten(inst, p, value.needed_until))) {
        value.defined = true;
        for (Value v : inst.args) use(v, value.group, p);
        continue;
      }
      for (Value v : inst.args) {
        for (int group : value.users) use(v, group, value.needed_until);
      }
    }
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      ValuePlan& value = plan_.values[v];
      if (!value.defined || value.group < 0) continue;
      const Dims& dims = kernel_.values[v].shape;
      if (single(dims)) continue;
      const Layout& own = plan_.groups[value.group];
      value.shared |= is_rolled(own, dims);
      for (int user : value.users) {
        value.copied |= !value.shared && user != value.group && !same_place(own, plan_.groups[user], dims);
      }
    }
  }

  const Kernel& kernel_;
  int threads_, warp_;
  Plan plan_;
  std::vector<Place> places_;
  std::vector<int> parent_, dot_axis_;
  std::vector<const Dims*> matrix_;  // of a group with a product of the matrix unit: its shape
  std::vector<Dims> shape_;
};

}  // namespace

const Layout& Plan::layout(int group) const {
  static const Layout single{};
  return group < 0 ? single : groups[group];
}

Plan make_plan(const Kernel& kernel, const kernel::Phase& phase, int threads, int warp) {
  return Planner(kernel, threads, warp).run(phase.body);
}

}  // namespace heddle::simt
