#include "runtime/build_plan.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/config.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "compile/fuse/check_program.h"
#include "compile/fuse/partition.h"
#include "compile/schedule/schedule.h"
#include "graph/graph.h"
#include "runtime/alias.h"
#include "runtime/control.h"
#include "runtime/kernel_cache.h"
#include "runtime/memory_plan.h"
#include "runtime/packing.h"

namespace heddle {
namespace {

constexpr uint64_t kArgumentBytes = 64;
// What is packed in no time need not be kept.
constexpr uint64_t kLeastPacking = 4096;

// What a Buffer node of the graph stands for: a leaf (0, 1, …) or an argument.
struct Source {
  int leaf = -1, argument = -1;
};
using Sources = std::unordered_map<const Node*, Source>;

class PlanBuilder {
 public:
  PlanBuilder(const GraphKey& key, std::span<const uint32_t> scalars, std::span<const uint32_t> offsets,
              Backend& device)
      : key_(key), scalars_(scalars), offsets_(offsets), device_(device) {
    plan_.device = &device;
    plan_.arguments = static_cast<int>(scalars.size());
    plan_.symbols = key.symbols;
  }

  Plan build(std::span<const NodeRef> roots) {
    for (size_t i = 0; i < key_.leaves.size(); ++i) sources_[key_.leaves[i]].leaf = static_cast<int>(i);
    std::vector<NodeRef> simple = simplify(with_arguments(roots), key_.modes);
    if (log_enabled(Log::Graph)) log_write(Log::Graph, print_graph(simple));
    choose_outputs(simple);
    if (!computed_.empty()) {
      interruption_point();
      computed_ = with_checked_indices(computed_, replaced_leaves());
      const Machine machine = device_.target().machine;
      make_kernels();
      if (log_enabled(Log::Remarks)) write_remarks();
      // On random data a loop with a condition may never end.
      auto may_not_end = [](const Program::Step& step) {
        return step.control && step.control->op == NodeOp::Loop && step.control->control->condition();
      };
      if (config().check_kernels && std::ranges::none_of(program_.steps, may_not_end)) check_on_random_data(program_);
      // Only schedules of GPUs count with it; elsewhere it would be another kernel for nothing.
      if (machine != Machine::Simt)
        for (Program::Step& step : program_.steps) step.loops.together = 1;
      place_outputs();
      compile_steps();
      place_checks();
      place_temporaries();
      find_packings();
      donate();
    }
    plan_.arena_bytes = std::max<uint64_t>(plan_.arena_bytes, base_bytes());
    find_first_overwrite();
    return std::move(plan_);
  }

 private:
  void make_kernels() {
    const bool explain = log_enabled(Log::Remarks);
    auto refuses = [&](const Program::Step& step) {
      std::string problem = nest_problem(step.loops);
      if (explain && !problem.empty()) remarks_.push_back(text(step.loops.name, ": taken apart: ", problem));
      return problem;
    };
    program_ = fuse(computed_, replaced_leaves(),
                    {.modes = key_.modes,
                     .machine = device_.target().machine,
                     .rates = device_.target().rates,
                     .remarks = explain,
                     .pack_all = config().pack_all,
                     .refuses_nest = refuses});
  }

  // Why a nest is none for this machine: it has no room for it, or is slower with it.
  std::string nest_problem(const Loops& loops) const {
    const Target& target = device_.target_for(key_.modes.tf32);
    const Schedule schedule = default_schedule(loops, target);
    std::string problem = check(schedule, loops, target);
    if (problem.empty() && !nest_pays(schedule, loops, target)) problem = "through memory it is faster";
    return problem;
  }

  // Why kernels are not one, and products not on the matrix unit.
  void write_remarks() {
    const Target& target = device_.target_for(key_.modes.tf32);
    remarks_.insert(remarks_.end(), program_.remarks.begin(), program_.remarks.end());
    for (const Program::Step& step : program_.steps) {
      if (step.direct) continue;
      for (std::string& remark : matrix_remarks(step.loops, default_schedule(step.loops, target), target)) {
        const bool several = step.not_packed && step.loops.stages[0].inner.size() > 1;
        remark = text(step.loops.name, ": ", remark, several ? "; " : "", several ? step.not_packed : "");
        if (std::find(remarks_.begin(), remarks_.end(), remark) == remarks_.end()) remarks_.push_back(remark);
      }
    }
    std::string all =
        text("a plan of ", program_.steps.size(), program_.steps.size() == 1 ? " kernel\n" : " kernels\n");
    for (const std::string& remark : remarks_) all += "  " + remark + "\n";
    log_write(Log::Remarks, all);
  }

  // An argument becomes what no rewrite can look into.
  std::vector<NodeRef> with_arguments(std::span<const NodeRef> roots) {
    if (scalars_.empty() && offsets_.empty()) return {roots.begin(), roots.end()};
    std::unordered_map<const Node*, Replaced> replaced;
    for (size_t k = 0; k < scalars_.size(); ++k)
      replaced[key_.places[scalars_[k]].node].scalar = argument_buffer(key_.places[scalars_[k]].node->literal, k);
    for (uint32_t number : offsets_) {
      const NumberPlace& place = key_.places[number];
      Expr symbol = Expr::symbol(text("offset", plan_.symbols.size()), 0, room(place).hi());
      plan_.symbols.push_back(Expr::bound(symbol, static_cast<int64_t>(key_.numbers[number])));
      replaced[place.node].offsets.emplace_back(place.axis, plan_.symbols.back());
    }
    return rebuild_graph(roots, [&](const Node& node, std::span<const NodeRef> inputs) {
      auto found = replaced.find(&node);
      return found == replaced.end() ? NodeRef() : with_arguments(node, inputs, found->second);
    });
  }

  // What the arguments of one node are.
  struct Replaced {
    NodeRef scalar;  // a buffer of one element
    std::vector<std::pair<uint32_t, Expr>> offsets;
  };

  NodeRef argument_buffer(const Scalar& value, size_t number) {
    std::shared_ptr<DeviceBuffer> memory = device_.allocate(kArgumentBytes);
    uint64_t bits = value.bits();
    device_.copy_from_host(*memory, &bits, sizeof bits);
    NodeRef buffer = make_buffer(std::move(memory), value.dtype, Shape());
    sources_[buffer.get()].argument = static_cast<int>(number);
    argument_nodes_.push_back(buffer);
    return buffer;
  }

  static NodeRef repeated(const NodeRef& scalar, const Shape& shape) {
    return make_expand(make_reshape(scalar, Shape(shape.size(), Expr(1))), shape);
  }

  static NodeRef with_arguments(const Node& node, std::span<const NodeRef> inputs, const Replaced& arguments) {
    if (node.op == NodeOp::Const) return repeated(arguments.scalar, node.shape);
    SmallVector<Expr, 4> attrs(node.attrs);
    if (node.op == NodeOp::Shrink) {
      for (const auto& [axis, offset] : arguments.offsets) attrs[axis] = offset;
      return make_shrink(inputs[0], attrs, node.shape);
    }
    HD_ASSERT(node.op == NodeOp::Pad);
    SmallVector<Expr, 4> before, after;
    for (size_t axis = 0; axis < node.shape.size(); ++axis) {
      before.push_back(attrs[2 * axis]);
      after.push_back(attrs[2 * axis + 1]);
    }
    for (const auto& [axis, offset] : arguments.offsets) {
      after[axis] = before[axis] + after[axis] - offset;
      before[axis] = offset;
    }
    if (!arguments.scalar) return make_pad(inputs[0], before, after, node.literal);
    NodeRef inside =
        make_pad(make_const(Scalar::of(kBool, true), inputs[0]->shape), before, after, Scalar::of(kBool, false));
    NodeRef parts[] = {inside, make_pad(inputs[0], before, after, Scalar::of(node.dtype, 0)),
                       repeated(arguments.scalar, node.shape)};
    return make_scalar(ScalarOp::where, parts);
  }

  // A scatter whose result is reshaped is what is in memory, if nobody wants it twice.
  static std::vector<NodeRef> without_reshapes(std::span<const NodeRef> roots) {
    std::unordered_map<const Node*, int> wanted;
    for (const NodeRef& root : roots) ++wanted[memory_source(root.get())];
    std::vector<NodeRef> result(roots.begin(), roots.end());
    for (NodeRef& root : result)
      if (const Node* source = memory_source(root.get()); source->op == NodeOp::Scatter && wanted.at(source) == 1)
        root = NodeRef::share(source);
    return result;
  }

  // Which roots need computing. `output_of_` maps those given to fuse back to outputs.
  void choose_outputs(std::span<const NodeRef> roots) {
    const std::vector<NodeRef> simple = without_reshapes(roots);
    std::unordered_map<const Node*, int> seen;
    for (size_t i = 0; i < simple.size(); ++i) {
      const Node& wanted = *key_.nodes[i];
      PlanOutput output{wanted.dtype, wanted.shape};
      const Node* node = simple[i].get();
      auto [first, fresh] = seen.try_emplace(node, static_cast<int>(i));
      if (auto source = sources_.find(node); is_provided(*node) && source != sources_.end()) {
        output.leaf = source->second.leaf;
        output.argument = source->second.argument;
      } else if (!fresh) {
        output.same_as = first->second;
      } else if (!bytes_of(*node).is_const(0)) {
        computed_.push_back(simple[i]);
        output_of_.push_back(static_cast<int>(i));
      }
      plan_.outputs.push_back(std::move(output));
    }
  }

  // For each computed root the leaf that is meant to make room for it.
  std::vector<const Node*> replaced_leaves() const {
    std::unordered_map<int, const Node*> of_output;
    for (size_t l = 0; l < key_.leaves.size(); ++l)
      if (key_.donatable_leaf[l] && key_.donated_to[l] >= 0) of_output.try_emplace(key_.donated_to[l], key_.leaves[l]);
    std::vector<const Node*> result;
    std::unordered_set<const Node*> taken;
    for (size_t i = 0; i < output_of_.size(); ++i) {
      auto found = of_output.find(output_of_[i]);
      result.push_back(found == of_output.end() ? nullptr : found->second);
      if (result.back()) continue;
      // One that anybody may have is for the value that it becomes.
      const Node* leaf = updated_leaf(computed_[i].get());
      auto source = sources_.find(leaf);
      if (!leaf || source == sources_.end() || source->second.leaf < 0) continue;
      const auto l = static_cast<size_t>(source->second.leaf);
      if (key_.donatable_leaf[l] && key_.donated_to[l] < 0 && taken.insert(leaf).second) result.back() = leaf;
    }
    return result;
  }

  void place_outputs() {
    slots_.assign(program_.tensors.size(), Slot{Slot::Kind::Arena, -1});
    for (size_t i = 0; i < computed_.size(); ++i) {
      auto tensor = static_cast<size_t>(program_.outputs[i]);
      int output = output_of_[i];
      if (slots_[tensor].kind == Slot::Kind::Output) {
        plan_.outputs[static_cast<size_t>(output)].same_as = static_cast<int>(slots_[tensor].index);
        continue;
      }
      HD_ASSERT(!program_.tensors[tensor].leaf, "a root that is not a buffer became one in fusion");
      slots_[tensor] = {Slot::Kind::Output, output};
    }
    for (size_t t = 0; t < program_.tensors.size(); ++t) {
      if (!program_.tensors[t].leaf) continue;
      auto source = sources_.find(program_.tensors[t].node);
      HD_ASSERT(source != sources_.end(), "fusion invented a leaf: ", name(program_.tensors[t].node->op));
      if (source->second.leaf >= 0)
        slots_[t] = {Slot::Kind::Leaf, source->second.leaf};
      else
        slots_[t] = {Slot::Kind::Arena, static_cast<int64_t>(kArgumentBytes) * source->second.argument, kArgumentBytes};
    }
    for (size_t i = 0; i < computed_.size(); ++i) {
      const Program::Tensor& tensor = program_.tensors[static_cast<size_t>(program_.outputs[i])];
      if (!tensor.updated) continue;
      const Slot& leaf = slots_[static_cast<size_t>(tensor.replaces)];
      plan_.outputs[static_cast<size_t>(output_of_[i])].updated_leaf = static_cast<int>(leaf.index);
    }
  }

  void compile_steps() {
    std::vector<std::shared_ptr<Executable>> executables = heddle::compile_steps(program_.steps, device_);
    for (size_t s = 0; s < program_.steps.size(); ++s) {
      const Program::Step& step = program_.steps[s];
      Launch launch{};
      launch.executable = std::move(executables[s]);
      if (step.control) launch.control = plan_control(*step.control, wanted_results(step), key_, device_);
      launch.name = step.direct ? step.direct->name : step.loops.name;
      launch.shapes = shapes_of(step);
      for (const Program::Segment& segment : step.segments) {
        launch.bytes_read += segment.traffic.read;
        launch.bytes_written += segment.traffic.written;
        launch.needed += segment.traffic;
        Segment& made = launch.segments.emplace_back();
        for (const Expr& size : segment.symbols) made.symbols.push_back(launch_size(size, step.loops.name));
      }
      if (!plan_.symbols.empty() && !step.direct) launch.loops = std::make_shared<const Loops>(step.loops);
      plan_.launches.push_back(std::move(launch));
    }
  }

  std::vector<const Node*> wanted_results(const Program::Step& step) const {
    std::vector<const Node*> results;
    const std::vector<int>& tensors = step.segments[0].tensors;
    for (size_t t = step.control->inputs.size(); t < tensors.size(); ++t)
      results.push_back(program_.tensors[static_cast<size_t>(tensors[t])].node);
    return results;
  }

  std::string shapes_of(const Program::Step& step) const {
    const auto& buffers = step.direct ? step.direct->buffers : step.loops.buffers;
    std::string read, written;
    for (size_t b = 0; b < step.segments[0].tensors.size(); ++b) {
      const Node& node = *program_.tensors[static_cast<size_t>(step.segments[0].tensors[b])].node;
      std::string& to = buffers[b].space == kernel::Space::In ? read : written;
      to += text(to.empty() ? "" : ", ", node.dtype, "[");
      for (size_t d = 0; d < node.shape.size(); ++d) to += text(d ? ", " : "", node.shape[d]);
      to += "]";
    }
    std::string more = step.segments.size() > 1 ? text(", the first of ", step.segments.size()) : "";
    return read + " -> " + written + more;
  }

  LaunchSize launch_size(const Expr& size, const std::string& kernel) const {
    if (size.is_const()) return {size.value(), -1};
    auto known = std::find(plan_.symbols.begin(), plan_.symbols.end(), size);
    HD_ASSERT(known != plan_.symbols.end(), "kernel ", kernel, " has a size of its own: ", size);
    return {0, static_cast<int>(known - plan_.symbols.begin())};
  }

  // Arguments and checks: the part of the arena that every run starts by writing.
  uint64_t base_bytes() const { return kArgumentBytes * scalars_.size() + plan_.check_bytes; }

  void place_checks() {
    for (const Program::Step& step : program_.steps) {
      check_offsets_.push_back(base_bytes());
      const std::shared_ptr<const ControlStep>& control = plan_.launches[check_offsets_.size() - 1].control;
      if (!step.checks.empty() || (control && has_checks(*control)))
        plan_.last_check = static_cast<int>(check_offsets_.size()) - 1;
      for (size_t c = 0; c < step.checks.size(); ++c) {
        const Program::Step::Check& check = step.checks[c];
        plan_.checks.push_back({base_bytes() + c * sizeof(int64_t), check.node, check.label, check.axis, check.size});
      }
      plan_.check_bytes +=
          (step.checks.size() * sizeof(int64_t) + kArgumentBytes - 1) / kArgumentBytes * kArgumentBytes;
    }
  }

  // Lives of the tensors between steps and of the kernels' own temporaries; then every launch gets its slots.
  void place_temporaries() {
    constexpr int64_t kPlaced = 0;
    std::vector<Temporary>& lives = plan_.temporaries;
    std::vector<int> life_of(program_.tensors.size(), -1);
    auto life_of_tensor = [&](size_t tensor, int now) {
      int& life = life_of[tensor];
      if (life < 0) {
        life = static_cast<int>(lives.size());
        lives.push_back({bytes_of(*program_.tensors[tensor].node), now, now});
      }
      lives[static_cast<size_t>(life)].last = now;
      return Slot{Slot::Kind::Temporary, life};
    };
    for (size_t s = 0; s < program_.steps.size(); ++s) {
      int now = static_cast<int>(s);
      Launch& launch = plan_.launches[s];
      if (launch.control) {
        for (int t : program_.steps[s].segments[0].tensors) {
          const auto tensor = static_cast<size_t>(t);
          const bool passed = slots_[tensor].kind == Slot::Kind::Arena && slots_[tensor].index < kPlaced;
          launch.segments[0].slots.push_back(passed ? life_of_tensor(tensor, now) : slots_[tensor]);
        }
        continue;
      }
      const kernel::Kernel& kernel = launch.executable->kernel();
      for (size_t g = 0; g < launch.segments.size(); ++g) {
        const Program::Segment& segment = program_.steps[s].segments[g];
        Substitution to_plan;  // the kernel may come from another plan, with symbols of its own
        for (size_t i = 0; i < kernel.symbols.size(); ++i) to_plan.emplace_back(kernel.symbols[i], segment.symbols[i]);
        for (size_t b = 0; b < kernel.buffers.size(); ++b) {
          Slot slot{Slot::Kind::Arena, -1};
          if (b < segment.tensors.size()) {
            auto tensor = static_cast<size_t>(segment.tensors[b]);
            slot = slots_[tensor];
            if (slot.kind == Slot::Kind::Arena && slot.index < kPlaced) slot = life_of_tensor(tensor, now);
          } else if (kernel.buffers[b].space == kernel::Space::InOut) {
            const uint64_t checks = program_.steps[s].checks.size() * sizeof(int64_t);
            slot = {Slot::Kind::Arena, static_cast<int64_t>(check_offsets_[s]), checks};
          } else if (kernel.buffers[b].space == kernel::Space::Temp) {
            slot = {Slot::Kind::Temporary, static_cast<int64_t>(lives.size())};
            Expr bytes = substitute(kernel.buffers[b].size, to_plan) * size_of(kernel.buffers[b].dtype);
            lives.push_back({bytes, now, now});
            launch.bytes_read += static_cast<uint64_t>(bytes.hi());
            launch.bytes_written += static_cast<uint64_t>(bytes.hi());
          }
          launch.segments[g].slots.push_back(slot);
        }
      }
    }
    plan_.arena_bytes = plan_.arena_lower_bound = base_bytes();
    if (!std::all_of(lives.begin(), lives.end(), [](const Temporary& life) { return life.bytes.is_const(); })) return;
    // All sizes are known: lay them out now.
    std::vector<Lifetime> lifetimes;
    for (const Temporary& life : lives)
      lifetimes.push_back({static_cast<uint64_t>(life.bytes.value()), life.first, life.last});
    MemoryPlan memory = plan_memory(lifetimes);
    for (Launch& launch : plan_.launches)
      for (Segment& segment : launch.segments)
        for (Slot& slot : segment.slots)
          if (slot.kind == Slot::Kind::Temporary) {
            const auto life = static_cast<size_t>(slot.index);
            const uint64_t offset = plan_.arena_bytes + memory.offsets[life];
            slot = {Slot::Kind::Arena, static_cast<int64_t>(offset), lifetimes[life].bytes};
          }
    plan_.arena_lower_bound = plan_.arena_bytes + memory.lower_bound;
    plan_.arena_bytes += memory.bytes;
    lives.clear();
  }

  void find_packings() {
    if (!key_.symbols.empty()) return;
    for (size_t s = 0; s < plan_.launches.size(); ++s) {
      const Launch& launch = plan_.launches[s];
      if (launch.control) continue;
      // What is packed may begin at an offset.
      auto is_offset = [](const LaunchSize& size) { return size.symbol >= 0; };
      auto has_offsets = [&](const Segment& segment) {
        return std::any_of(segment.symbols.begin(), segment.symbols.end(), is_offset);
      };
      if (std::any_of(launch.segments.begin(), launch.segments.end(), has_offsets)) continue;
      const kernel::Kernel& kernel = launch.executable->kernel();
      for (const PackingPhase& packing : packing_phases(kernel))
        for (size_t g = 0; g < launch.segments.size(); ++g) {
          const Segment& segment = launch.segments[g];
          const Slot& from = segment.slots[static_cast<size_t>(packing.input)];
          const kernel::Buffer& to = kernel.buffers[static_cast<size_t>(packing.temp)];
          if (from.kind != Slot::Kind::Leaf || packing.phase >= 64) continue;
          Substitution sizes;
          for (size_t i = 0; i < kernel.symbols.size(); ++i)
            sizes.emplace_back(kernel.symbols[i], segment.symbols[i].value);
          auto bytes_of = [&](const kernel::Buffer& buffer) {
            return static_cast<uint64_t>(substitute(buffer.size, sizes).value() * size_of(buffer.dtype));
          };
          const uint64_t bytes = bytes_of(to);
          // Parts of a sum are no copy: whoever calls wants them computed.
          const bool copies = 2 * bytes >= bytes_of(kernel.buffers[static_cast<size_t>(packing.input)]);
          if (bytes < kLeastPacking || !copies) continue;
          plan_.packings.push_back({static_cast<int>(s), static_cast<int>(g), packing.phase, packing.temp,
                                    static_cast<int>(from.index), bytes});
        }
    }
  }

  // Lets outputs take over the memory of leaves where that cannot be noticed.
  void donate() {
    if (std::find(key_.donatable_leaf.begin(), key_.donatable_leaf.end(), true) == key_.donatable_leaf.end()) return;
    std::vector<Use> last_read(key_.leaves.size()), first_write(plan_.outputs.size());
    std::vector<bool> taken(key_.leaves.size(), false);
    for (size_t s = 0; s < plan_.launches.size(); ++s) {
      const auto& buffers = plan_.launches[s].control ? program_.steps[s].direct->buffers
                                                      : plan_.launches[s].executable->kernel().buffers;
      const std::vector<Segment>& segments = plan_.launches[s].segments;
      for (size_t g = 0; g < segments.size(); ++g)
        for (size_t b = 0; b < buffers.size(); ++b) {
          const Slot& slot = segments[g].slots[b];
          bool writes = slot.kind == Slot::Kind::Output && buffers[b].space != kernel::Space::In;
          if (!writes && slot.kind != Slot::Kind::Leaf) continue;
          Use& use = (writes ? first_write : last_read)[static_cast<size_t>(slot.index)];
          Use now{static_cast<int>(s), static_cast<int>(g), static_cast<int>(b), 1};
          if (use.launch == now.launch)
            ++use.count;
          else if (!writes || use.launch < 0)
            use = now;
        }
    }
    // A leaf that is itself a result keeps its memory.
    std::vector<int> updated_to(key_.leaves.size(), -1);
    for (size_t o = 0; o < plan_.outputs.size(); ++o) {
      const PlanOutput& output = plan_.outputs[o];
      if (output.leaf >= 0) taken[static_cast<size_t>(output.leaf)] = true;
      if (output.updated_leaf >= 0) updated_to[static_cast<size_t>(output.updated_leaf)] = static_cast<int>(o);
    }
    // Leaves by size, so that the search is not every output with every leaf.
    std::unordered_map<Expr, std::vector<int>> by_size;
    std::vector<int> own(plan_.outputs.size(), -1);  // the leaf that is meant for the output alone
    for (size_t l = 0; l < key_.leaves.size(); ++l) {
      if (!key_.donatable_leaf[l]) continue;
      int only = key_.donated_to[l];
      if (only < 0) only = updated_to[l];
      if (only >= 0 && own[static_cast<size_t>(only)] < 0)
        own[static_cast<size_t>(only)] = static_cast<int>(l);
      else if (only < 0 && !taken[l])
        by_size[bytes_of(*key_.leaves[l])].push_back(static_cast<int>(l));
    }
    auto refusal = [&](int leaf, size_t o) -> const char* {
      auto l = static_cast<size_t>(leaf);
      int write = first_write[o].launch, read = last_read[l].launch;
      if (taken[l]) return "the old value is a result, too";
      if (write < 0) return "no kernel of its own writes the new value";
      // A run that finds an index out of range must leave everything as it was.
      if (write <= plan_.last_check && !key_.is_region) return "indices are still to be checked when it is written";
      if (read > write) return "the old value is read after the new one is written";
      if (read == write && !aligned(last_read[l], first_write[o]))
        return "the kernel that writes it reads the old value in another order";
      return nullptr;
    };
    for (size_t o = 0; o < plan_.outputs.size(); ++o) {
      PlanOutput& output = plan_.outputs[o];
      if (own[o] >= 0) {
        const char* reason = refusal(own[o], o);
        if (reason)
          output.not_donated = reason;
        else
          output.donated_leaf = own[o];
        continue;
      }
      if (first_write[o].launch < 0) continue;
      std::vector<int>& candidates = by_size[bytes_of(*key_.nodes[o])];
      for (size_t c = 0; c < candidates.size(); ++c) {
        if (refusal(candidates[c], o)) continue;
        output.donated_leaf = candidates[c];
        candidates.erase(candidates.begin() + static_cast<std::ptrdiff_t>(c));
        break;
      }
    }
  }

  void find_first_overwrite() {
    auto overwrites = [&](const Slot& slot) {
      return slot.kind == Slot::Kind::Output && plan_.outputs[static_cast<size_t>(slot.index)].donated_leaf >= 0;
    };
    auto first = std::ranges::find_if(plan_.launches, [&](const Launch& launch) {
      return std::ranges::any_of(
          launch.segments, [&](const Segment& segment) { return std::ranges::any_of(segment.slots, overwrites); });
    });
    plan_.first_overwrite = static_cast<size_t>(first - plan_.launches.begin());
  }

  // A leaf or an output among the buffers of a launch: the first place, and how many there are.
  struct Use {
    int launch = -1, segment = -1, buffer = -1, count = 0;
  };

  // Segments of one launch run at the same time: only within one can reading come before writing. More than one buffer
  // with the same memory is too clever for us.
  bool aligned(const Use& read, const Use& write) const {
    if (read.count != 1 || write.count != 1 || read.segment != write.segment) return false;
    const Launch& launch = plan_.launches[static_cast<size_t>(read.launch)];
    // A kernel that somebody wrote may store elements twice.
    const std::optional<DirectKernel>& direct = program_.steps[static_cast<size_t>(read.launch)].direct;
    if (launch.control || (direct && direct->tiles)) return false;
    return may_share_memory(launch.executable->kernel(), read.buffer, write.buffer);
  }

  const GraphKey& key_;
  std::span<const uint32_t> scalars_, offsets_;
  Backend& device_;
  Plan plan_{};
  Sources sources_;
  std::vector<NodeRef> argument_nodes_;  // keeps the keys of sources_ alive
  std::vector<NodeRef> computed_;        // roots given to fuse
  std::vector<int> output_of_;           // for each of them, its output
  Program program_;
  std::vector<std::string> remarks_;
  std::vector<uint64_t> check_offsets_;  // for each step, where in the arena its checks are
  std::vector<Slot> slots_;              // for each tensor of the program; Arena with -1: a temporary
};

}  // namespace

Plan build_plan(std::span<const NodeRef> roots, const GraphKey& key, std::span<const uint32_t> scalars,
                std::span<const uint32_t> offsets, Backend& device) {
  return PlanBuilder(key, scalars, offsets, device).build(roots);
}

}  // namespace heddle
