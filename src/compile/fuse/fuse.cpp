#include "compile/fuse/fuse.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/interrupt.h"
#include "compile/direct/custom.h"
#include "compile/direct/sort.h"
#include "compile/fuse/pack_products.h"
#include "compile/fuse/partition.h"
#include "compile/fuse/steps.h"
#include "compile/fuse/write_loops.h"

namespace heddle {
namespace {

// What a step of control flow reads and writes. There is no kernel to be built.
DirectKernel control_step(const Node& node, std::span<const Node* const> results) {
  DirectKernel step{name(node.op), text(name(node.op), " of ", results.size(), " results"), {}, {}, nullptr};
  auto add = [&](const Node& tensor, kernel::Space space) {
    step.buffers.push_back({text("b", step.buffers.size()), tensor.dtype, space, tensor.shape.numel()});
  };
  for (const NodeRef& input : node.inputs) add(*input, kernel::Space::In);
  for (const Node* result : results) add(*result, kernel::Space::Out);
  return step;
}

// The step of a kernel that is built directly: buffers are the inputs in memory, then the results.
Program::Step direct_step(Writing& writing, const Unit& u) {
  Program::Step step;
  std::vector<int>& tensors = step.segments.emplace_back().tensors;
  for (const NodeRef& input : u.node->inputs) {
    const Node* source = memory_source(input.get());
    tensors.push_back(writing.tensor(source, !writing.parts->storing.count(source)));
  }
  std::vector<const Node*> results = u.writes;
  std::ranges::sort(results, [](const Node* a, const Node* b) { return a->attrs[0].value() < b->attrs[0].value(); });
  for (const Node* result : results) tensors.push_back(writing.tensor(result, false));
  if (u.node->control) step.control = u.node;
  step.direct = step.control                   ? control_step(*u.node, results)
                : u.node->op == NodeOp::Custom ? custom_kernel(*u.node, results)
                                               : sort_kernel(sort_task(*u.node, results));
  step.segments[0].traffic = traffic(step.direct->buffers);
  return step;
}

// The loads of a step, in order, and the number that is added to the address of each.
std::vector<std::pair<kernel::Inst*, int64_t>> loads_of(Program::Step& step) {
  std::vector<std::pair<kernel::Inst*, int64_t>> loads;
  for (Stage& stage : step.loops.stages)
    for (kernel::Inst& inst : stage.body.insts) {
      if (inst.op != kernel::Op::load) continue;
      const Expr& address = inst.address;
      const Expr last = address.kind() == ExprKind::Add ? address.args().back() : address;
      loads.emplace_back(&inst, last.is_const() ? last.value() : 0);
    }
  return loads;
}

// A step for each part of a join. Where a part begins, and where in their buffers its loads do, are symbols, so that
// parts which are alike become segments of one step.
std::vector<Program::Step> write_parts(Writing& writing, const Group& group) {
  const std::vector<Unit>& units = writing.parts->units;
  const Node& node = *units[group.units[0]].node;
  const int64_t axis = node.attrs[0].value();
  std::vector<Expr> starts{0};
  for (const NodeRef& input : node.inputs) starts.push_back(starts.back() + input->shape[axis]);
  auto start_of = [&](int id) -> const Expr& { return starts[units[id].part]; };
  Differing start;
  start.take(0);
  for (int id : group.units)
    if (start_of(id).is_const()) start.take(start_of(id).value());
  const Expr begin = start.symbol("start");
  std::vector<Program::Step> steps;
  for (int id : group.units) {
    const bool known = start_of(id).is_const();
    steps.push_back(write_loops(writing, {.units = {id}}, known ? begin : start_of(id)));
    if (known) steps.back().given.emplace_back(begin, start_of(id));
  }
  std::vector<Differing> offsets;
  for (Program::Step& step : steps) {
    auto loads = loads_of(step);
    offsets.resize(std::max(offsets.size(), loads.size()));
    for (size_t i = 0; i < loads.size(); ++i) offsets[i].take(loads[i].second);
  }
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (offsets[i].lo == offsets[i].hi) continue;
    const Expr from = offsets[i].symbol("from");
    for (Program::Step& step : steps) {
      auto loads = loads_of(step);
      if (i >= loads.size()) continue;
      auto& [load, offset] = loads[i];
      load->address = load->address - offset + from;
      step.given.emplace_back(from, offset);
    }
  }
  return steps;
}

// A step for each change of one memory, in their order.
std::vector<Program::Step> write_updates(Writing& writing, const Group& group) {
  const Node* root = writing.parts->units[group.units[0]].into;
  std::vector<Program::Step> steps;
  for (int id : group.units) {
    steps.push_back(write_loops(writing, {.units = {id}}));
    if (id != group.units[0]) steps.back().after.push_back(writing.tensor(root, false));
  }
  return steps;
}

std::vector<Program::Step> write_group(Writing& writing, const Group& group) {
  const Unit& first = writing.parts->units[group.units[0]];
  if (first.into) return write_updates(writing, group);
  if (first.is_part()) return write_parts(writing, group);
  std::vector<Program::Step> steps;
  steps.push_back(is_direct(*first.node) ? direct_step(writing, first) : write_loops(writing, group));
  return steps;
}

// Whether a step that changes memory reads elsewhere what the memory had before, or what another change writes over.
bool reads_elsewhere(const Program& program, const Program::Step& step, const std::unordered_set<const Node*>& leaves) {
  const kernel::Inst& store = step.loops.stages.back().body.insts.back();
  for (size_t b = 0; b < step.segments[0].tensors.size(); ++b) {
    const Node* read = program.tensors[step.segments[0].tensors[b]].node;
    if (!leaves.count(read)) continue;
    if (read != step.update->leaf || !step.update->value || !step.after.empty()) return true;
    for (const kernel::Inst& inst : step.loops.stages.back().body.insts)
      if (inst.op == kernel::Op::load && inst.buffer == static_cast<int>(b) && !(inst.address == store.address))
        return true;
  }
  return false;
}

// The next three say whether the steps of a group have to be made again, and enter into the limits what must change.

// What groups were made again for, by one of the nodes that they write: once each.
using Known = std::set<std::pair<const Node*, const Node*>>;

// Results of reductions that would be read elsewhere than where they are computed come from memory.
bool forbid_misread(Writing& writing, const Group& group, Known& known, PartitionLimits& limits) {
  const std::unordered_set<const Node*> misread = std::exchange(writing.misread, {});
  if (misread.empty()) return false;
  const std::vector<Unit>& units = writing.parts->units;
  bool changed = false;
  for (const Node* node : misread) {
    limits.in_memory.try_emplace(node, Why{Reason::ReadElsewhere});
    limits.alone.insert(node);
    changed |= known.emplace(units[group.units.back()].node, node).second;
  }
  if (changed) return true;
  for (int id : group.units)
    if (units[id].nest) changed |= limits.not_nested.insert(units[id].nest).second;
  const Node& first = **misread.begin();
  HD_ASSERT(changed, "the result of ", name(first.op), " of shape ", first.shape, " is read where it is not computed");
  return true;
}

// What changes of memory are computed from goes to memory first where they could not work in place otherwise.
bool compute_before(const Program& program, std::span<const Program::Step> steps, Known& known,
                    PartitionLimits& limits) {
  bool changed = false;
  std::unordered_set<const Node*> leaves;
  for (const auto& [root, updates] : limits.updates) leaves.insert(updates[0].leaf);
  for (const Program::Step& step : steps) {
    if (!step.update) continue;
    if (step.checks.empty() && !reads_elsewhere(program, step, leaves)) continue;
    for (const Node* operand : operands(*step.update)) {
      limits.in_memory.try_emplace(operand, Why{Reason::InPlace});
      if (!known.emplace(step.update->node, operand).second) continue;
      changed = true;
      break;
    }
  }
  return changed;
}

// Nested sums that are none for the machine: first sums that share a kernel are told apart, then they are no nests.
bool take_apart(std::span<const Program::Step> steps, const FuseOptions& options, PartitionLimits& limits) {
  bool changed = false;
  for (const Program::Step& step : steps) {
    if (step.nested.empty() || !options.refuses_nest || options.refuses_nest(step).empty()) continue;
    bool told_apart = false;
    for (const Node* sum : step.nested) told_apart |= step.nested.size() > 1 && limits.apart.insert(sum).second;
    changed |= told_apart;
    if (told_apart) continue;
    for (const Node* sum : step.nested) changed |= limits.not_nested.insert(sum).second;
  }
  return changed;
}

// The last passes over the Loops of a group.
std::vector<Program::Step> finished(Program& program, std::vector<Program::Step> steps, const FuseOptions& options) {
  std::vector<Program::Step> result;
  for (Program::Step& step : steps) {
    step.tf32 = options.modes.tf32;
    step.update = nullptr;
    if (step.direct) {
      result.push_back(std::move(step));
      continue;
    }
    merge_reductions(step.loops);
    merge_axes(step.loops);
    if (options.machine == Machine::Simt)
      pack_product(program, std::move(step), options.pack_all, result);
    else
      result.push_back(std::move(step));
  }
  for (Program::Step& step : result) {
    if (step.direct) continue;
    merge_columns(step.loops);
    share_philox_blocks(step.loops);
    step.loops.symbols = find_symbols(step.loops);
    for (const Expr& symbol : step.loops.symbols) step.segments[0].symbols.push_back(substitute(symbol, step.given));
    step.segments[0].traffic = traffic(step.loops);
  }
  return result;
}

// The steps of all groups. A group that does not work, or not here, is made again alone. Nothing if the partition has
// to begin anew.
std::optional<Writing> write_program(Partition& parts, const FuseOptions& options, Known& known,
                                     PartitionLimits& limits) {
  Writing writing{&parts, options.modes.deterministic};
  Program& program = writing.program;
  std::unordered_set<const Node*> written;
  std::vector<int> open(parts.groups.size());
  std::iota(open.rbegin(), open.rend(), 0);
  while (!open.empty()) {
    interruption_point();
    const int g = open.back();
    open.pop_back();
    const Group& group = parts.groups[g];
    const size_t tensors = program.tensors.size(), made = program.made.size();
    std::vector<Program::Step> steps = write_group(writing, group);
    bool again = forbid_misread(writing, group, known, limits) || compute_before(program, steps, known, limits);
    if (!again) {
      steps = finished(program, std::move(steps), options);
      again = take_apart(steps, options, limits);
    }
    if (again) {
      writing.forget_tensors(tensors);
      program.made.resize(made);
      const std::optional<std::vector<int>> fresh = partition_again(parts, g, written, limits);
      if (!fresh) return {};
      open.insert(open.end(), fresh->rbegin(), fresh->rend());
      continue;
    }
    std::ranges::move(steps, std::back_inserter(program.steps));
    for (int id : group.units) written.insert(parts.units[id].writes.begin(), parts.units[id].writes.end());
  }
  return writing;
}

}  // namespace

Program fuse(std::span<const NodeRef> roots, std::span<const Node* const> replaces, const FuseOptions& options) {
  PartitionLimits limits{.rates = options.rates, .machine = options.machine, .explain = options.remarks};
  limits.updates = find_updates(roots, replaces);
  Partition parts;
  std::optional<Writing> written;
  for (Known known; !written;) {
    parts = partition(roots, limits);
    written = write_program(parts, options, known, limits);
  }
  Writing& writing = *written;
  Program& program = writing.program;
  for (const NodeRef& root : roots) {
    program.outputs.push_back(writing.tensor(root.get(), true));
    program.tensors[program.outputs.back()].output = true;
  }
  for (size_t i = 0; i < replaces.size(); ++i) {
    const bool updated = limits.updates.count(roots[i].get()) > 0;
    if (updated) writing.tensor(replaces[i], true);  // though no kernel may read it
    auto leaf = writing.tensor_of.find(replaces[i]);
    if (leaf == writing.tensor_of.end()) continue;
    Program::Tensor& output = program.tensors[program.outputs[i]];
    output.replaces = leaf->second;
    output.updated = updated;
  }
  join_steps(program);
  order_steps(program);
  drop_checks(program);
  for (const Program::Step& step : program.steps)
    if (!step.direct) verify(step.loops);
  if (options.remarks) program.remarks = remarks(program, parts.boundaries, parts.siblings);
  return std::move(program);
}

}  // namespace heddle
