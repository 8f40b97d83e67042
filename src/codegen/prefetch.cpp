// Loops in which an index read from memory says where to read or write. The processor cannot guess such addresses, so
// the lines that a later iteration will want are asked for while the present one runs.
#include <algorithm>
#include <set>
#include <tuple>

#include "codegen/emit.h"

namespace heddle::codegen {
namespace {

using kernel::Inst;
using kernel::Op;

constexpr int64_t kLine = 64;             // bytes
constexpr int64_t kLinesUnderWay = 128;   // measured: 32 to 256 differ little
constexpr size_t kLinesAnIteration = 8;   // the start of a longer row tells the processor how it goes on
constexpr int64_t kWorthwhile = 1 << 19;  // bytes; smaller buffers are in the caches anyway

bool is_access(const Inst& inst) { return inst.op == Op::load || inst.op == Op::store || inst.op == Op::combine; }

// An access that later iterations make, and the branch it is under, if any.
struct Wanted {
  const Inst* access;
  const Inst* branch;
};

class Finder {
 public:
  Finder(const kernel::Kernel& kernel, const Inst& loop, const std::vector<bool>& never_written)
      : kernel_(kernel), loop_(loop), never_written_(never_written) {}

  std::vector<const Inst*> chain;  // what leads from the loop's variable to indices, in order
  std::vector<Wanted> accesses;    // one for each line
  std::vector<Expr> inner_variables;

  // Whether there is anything to fetch.
  bool run() {
    const kernel::Body& body = loop_.bodies[0];
    for (const Inst& inst : body.insts) {
      if (inst.op == Op::constant || is_index(inst)) {
        chain.push_back(&inst);
        ready_.insert(inst.results[0]);
        from_memory_ |= inst.op == Op::load;
      }
      for (kernel::Value v : inst.results) inside_.insert(v);
    }
    for (kernel::Value v : body.params) inside_.insert(v);
    if (from_memory_) find(body, nullptr);
    return indexed_;
  }

 private:
  bool known(kernel::Value v) const { return ready_.contains(v) || !inside_.contains(v); }

  bool is_index(const Inst& inst) const {
    if (inst.results.size() != 1 || !kernel_.values[inst.results[0]].shape.empty()) return false;
    if (inst.op == Op::load)
      return inst.binds.empty() && never_written_[inst.buffer] && inst.guard.is_const(1) &&
             is_integer(kernel_.buffers[inst.buffer].dtype) && depends_on(inst.address, loop_.var);
    if (!is_scalar_op(inst.op) && inst.op != Op::cast) return false;
    return std::ranges::all_of(inst.args, known_);
  }

  std::span<const kernel::Value> bound(const Inst& inst) const {
    return std::span<const kernel::Value>(inst.args.data(), inst.args.size()).last(inst.binds.size());
  }

  void find(const kernel::Body& code, const Inst* branch) {
    for (const Inst& inst : code.insts) {
      if (is_access(inst)) add(inst, branch);
      if (inst.op == Op::loop) {
        inner_variables.push_back(inst.var);
        find(inst.bodies[0], branch);
      }
      bool usable = inst.op == Op::branch && !branch && !inst.binds.empty() && std::ranges::all_of(bound(inst), known_);
      if (usable) find(inst.bodies[0], &inst);
      for (kernel::Value v : inst.results) inside_.insert(v);
    }
  }

  void add(const Inst& inst, const Inst* branch) {
    const kernel::Buffer& buffer = kernel_.buffers[inst.buffer];
    if (accesses.size() >= kLinesAnIteration || buffer.space == kernel::Space::Shared) return;
    if (buffer.size.hi() * size_of(buffer.dtype) < kWorthwhile) return;
    bool by_index = std::ranges::any_of(bound(inst), [&](kernel::Value v) { return ready_.contains(v); });
    // Under a condition rows are left out, so that not even a plain walk is one the processor foresees.
    if (!by_index && !(branch && inst.binds.empty() && depends_on(inst.address, loop_.var))) return;
    if (!std::ranges::all_of(bound(inst), known_)) return;
    int64_t constant = 0;
    if (inst.address.kind() == ExprKind::Add)
      for (const Expr& term : inst.address.args())
        if (term.is_const()) constant = term.value();
    kernel::Value index = inst.binds.empty() ? kernel::kNoValue : bound(inst)[0];
    if (!lines_.emplace(inst.buffer, index, constant * size_of(buffer.dtype) / kLine).second) return;
    accesses.push_back({&inst, branch});
    indexed_ |= by_index;
  }

  const kernel::Kernel& kernel_;
  const Inst& loop_;
  const std::vector<bool>& never_written_;
  std::set<kernel::Value> ready_, inside_;
  std::function<bool(kernel::Value)> known_ = [this](kernel::Value v) { return known(v); };
  std::set<std::tuple<int32_t, kernel::Value, int64_t>> lines_;
  bool from_memory_ = false, indexed_ = false;
};

}  // namespace

void Emitter::prefetch(const kernel::Inst& loop, llvm::Value* i, llvm::Value* end, const Values& body_values) {
  if (!traits.stream || !loop.var.is_var()) return;
  Finder finder(kernel, loop, never_written_);
  if (!finder.run()) return;
  auto distance = std::max<int64_t>(kLinesUnderWay / static_cast<int64_t>(finder.accesses.size()), 2);
  if (loop.extent.hi() < 4 * distance) return;

  // A scope of its own, in which the loop is further on. The last iterations fetch what the last one wants.
  scopes.emplace_back();
  llvm::Value* later = b.CreateAdd(i, b.getInt64(static_cast<uint64_t>(distance)));
  llvm::Value* last = b.CreateSub(end, b.getInt64(1));
  bind(loop.var, b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, later, last));
  for (const Expr& variable : finder.inner_variables) bind(variable, b.getInt64(0));
  Values values_then = body_values;
  for (const Inst* inst : finder.chain) instruction(*inst, values_then);
  for (const Wanted& wanted : finder.accesses) {
    const Inst& access = *wanted.access;
    Inst whole = access;
    whole.guard = 1;
    bool stores = access.op != Op::load;
    kernel::Value value = stores ? access.args[0] : access.results[0];
    Place at = place(whole, lanes_of(kernel.values[value]), values_then);
    if (at.pattern == Place::Pattern::Scattered) continue;
    llvm::Value* pointer = at.pointer;
    if (wanted.branch) {
      // Not taken: the buffer's start instead, which costs nothing. A jump would be guessed wrong too often.
      Formula formula = open_formula(*wanted.branch, 1, values_then);
      pointer = b.CreateSelect(condition(formula.guard), pointer, buffers[access.buffer]);
      close_scope();
    }
    b.CreateIntrinsic(llvm::Intrinsic::prefetch, {b.getPtrTy()},
                      {pointer, b.getInt32(stores ? 1 : 0), b.getInt32(3), b.getInt32(1)});
  }
  close_scope();
}

}  // namespace heddle::codegen
