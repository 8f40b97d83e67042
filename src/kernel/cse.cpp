// Common subexpressions: an instruction equal to an earlier one of this or an enclosing body takes its results.
#include <unordered_map>

#include "base/hash.h"
#include "kernel/pass_util.h"
#include "kernel/passes.h"

namespace heddle::kernel {
namespace {

bool is_commutative(Op op) {
  switch (op) {
    case Op::add:
    case Op::mul:
    case Op::minimum:
    case Op::maximum:
    case Op::eq:
    case Op::ne:
    case Op::bit_and:
    case Op::bit_or:
    case Op::bit_xor: return true;
    default: return false;
  }
}

// An instruction with everything that does not matter made canonical, and the version of the memory it reads.
struct Key {
  Inst inst;
  std::vector<Type> types;
  int64_t memory = 0;
  uint64_t hash = 0;
};

bool same_reducer(const std::shared_ptr<const Reducer>& a, const std::shared_ptr<const Reducer>& b) {
  if (a == b) return true;
  return a && b && print(*a) == print(*b);
}

bool operator==(const Key& x, const Key& y) {
  const Inst &a = x.inst, &b = y.inst;
  return x.hash == y.hash && x.memory == y.memory && a.op == b.op && a.axis == b.axis && a.buffer == b.buffer &&
         a.immediate == b.immediate && a.args == b.args && a.literal == b.literal && a.address == b.address &&
         a.guard == b.guard && a.coords == b.coords && a.binds == b.binds && x.types == y.types &&
         same_reducer(a.reducer, b.reducer);
}

struct KeyHash {
  size_t operator()(const Key& key) const { return key.hash; }
};

class Eliminator {
 public:
  explicit Eliminator(Kernel& kernel)
      : kernel_(kernel), names_(kernel.values.size()), memory_(kernel.buffers.size(), 0) {}

  void run(Body& code) {
    std::vector<Inst> insts = std::move(code.insts);
    code.insts.clear();
    std::vector<Key> added;  // what this scope put into the table
    for (Inst& inst : insts) {
      names_.apply(inst.args);
      if (is_pure(inst.op) || inst.op == Op::load) {
        Key key = canonical(inst);
        if (auto found = table_.find(key); found != table_.end()) {
          for (size_t k = 0; k < inst.results.size(); ++k) names_.replace(inst.results[k], found->second[k]);
          continue;
        }
        table_.emplace(key, inst.results);
        added.push_back(std::move(key));
      } else if (inst.op == Op::store || inst.op == Op::combine || inst.op == Op::check) {
        touch(static_cast<size_t>(inst.buffer));
      } else if (inst.op == Op::panel_dot || inst.op == Op::copy) {
        touch(static_cast<size_t>(inst.panels[0].buffer));
      } else if (inst.op == Op::matrix_store) {
        touch(static_cast<size_t>(inst.regions[0].buffer));
      } else if (inst.op == Op::barrier) {
        for (size_t k = 0; k < memory_.size(); ++k)
          if (kernel_.buffers[k].space != Space::In) touch(k);
      }
      if (!inst.bodies.empty()) run_nested(inst);
      code.insts.push_back(std::move(inst));
    }
    names_.apply(code.results);
    for (const Key& key : added) table_.erase(key);
  }

 private:
  // A later trip of a loop reads what an earlier one wrote.
  void run_nested(Inst& inst) {
    if (inst.op == Op::loop) {
      Writes writes = writes_of(kernel_, inst.bodies[0]);
      for (size_t k = 0; k < memory_.size(); ++k)
        if (writes.buffers[k]) touch(k);
    }
    for (Body& code : inst.bodies) run(code);
  }

  void touch(size_t buffer) { memory_[buffer] = ++clock_; }

  // Coordinates and binds are names: number them by position and range.
  Key canonical(const Inst& inst) {
    Key key;
    Inst& copy = key.inst;
    copy.op = inst.op;
    copy.axis = inst.axis;
    copy.buffer = inst.buffer;
    copy.immediate = inst.immediate;
    copy.args = inst.args;
    copy.reducer = inst.reducer;
    if (inst.op == Op::constant) copy.literal = inst.literal;
    if (is_commutative(inst.op) && copy.args[0] > copy.args[1]) std::swap(copy.args[0], copy.args[1]);
    Substitution renamed;
    for (size_t k = 0; k < inst.coords.size(); ++k) {
      Expr name = canonical_variable(2 * k, inst.coords[k].extent());
      renamed.emplace_back(inst.coords[k], name);
      copy.coords.push_back(name);
    }
    for (size_t k = 0; k < inst.binds.size(); ++k) {
      const Expr& bind = inst.binds[k];
      bool plain = bind.lo() == 0 && bind.multiple() == 1;
      Expr name = plain ? canonical_variable(2 * k + 1, bind.extent()) : bind;
      renamed.emplace_back(bind, name);
      copy.binds.push_back(name);
    }
    copy.address = renamed.empty() ? inst.address : substitute(inst.address, renamed);
    copy.guard = renamed.empty() ? inst.guard : substitute(inst.guard, renamed);
    for (Value v : inst.results) key.types.push_back(kernel_.values[static_cast<size_t>(v)]);
    if (inst.op == Op::load) key.memory = memory_[static_cast<size_t>(inst.buffer)];

    uint64_t h = hash_combine(static_cast<uint64_t>(copy.op), static_cast<uint64_t>(key.memory));
    h = hash_combine(h, static_cast<uint64_t>(copy.buffer) * 31 + static_cast<uint64_t>(copy.axis));
    for (Value v : copy.args) h = hash_combine(h, static_cast<uint64_t>(v));
    for (const Type& type : key.types) h = hash_combine(h, static_cast<uint64_t>(type.dtype));
    h = hash_combine(h, copy.literal.bits());
    h = hash_combine(h, copy.address.hash());
    key.hash = hash_combine(h, copy.guard.hash());
    return key;
  }

  Expr canonical_variable(size_t position, const Expr& extent) {
    for (const auto& [where, variable] : variables_)
      if (where == position && variable.extent() == extent) return variable;
    variables_.emplace_back(position, Expr::index("c", extent));
    return variables_.back().second;
  }

  Kernel& kernel_;
  Renaming names_;
  std::unordered_map<Key, SmallVector<Value, 2>, KeyHash> table_;
  std::vector<std::pair<size_t, Expr>> variables_;
  std::vector<int64_t> memory_;  // per buffer, when it was last written
  int64_t clock_ = 0;
};

}  // namespace

void cse(Kernel& kernel) {
  Eliminator eliminator(kernel);
  for (Phase& phase : kernel.phases) eliminator.run(phase.body);
}

}  // namespace heddle::kernel
