#include "fuzz/check.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "codegen/codegen.h"
#include "codegen/nvptx.h"
#include "compile/fuse/check_program.h"
#include "compile/fuse/fuse.h"
#include "compile/lower.h"
#include "compile/schedule/schedule.h"
#include "compile/simd/lower.h"
#include "compile/simt/lower.h"
#include "fuzz/memory.h"
#include "fuzz/transform.h"
#include "kernel/interpreter.h"
#include "kernel/passes.h"
#include "runtime/plan.h"

namespace heddle::fuzz {

using testing::Random;
using testing::RandomGraph;
using testing::RandomGraphOptions;

const char* name(Way way) {
  switch (way) {
    case Way::Realize: return "realize";
    case Way::Simulated: return "simulated";
    case Way::Devices: return "devices";
    case Way::Loops: return "loops";
    case Way::Tile: return "tile";
    case Way::Simd: return "simd";
    case Way::Simt: return "simt";
    case Way::Passes: return "passes";
    case Way::Jit: return "jit";
    case Way::Ptx: return "ptx";
    case Way::Gradient: return "gradient";
    case Way::Vmap: return "vmap";
    case Way::Numbers: return "numbers";
  }
  return "?";
}

// Seeds differ in the size of graphs and tensors and in the dtypes they mix.
RandomGraphOptions options_of(const Check& check, uint64_t variant) {
  Random random(check.seed ^ 0x6f7074);
  RandomGraphOptions options;
  options.steps = check.steps >= 0 ? check.steps : default_steps(check.seed);
  options.max_nodes = 80;
  options.max_elements = random.of(std::vector<int64_t>{100, 300, 300, 1000, 3000});
  options.symbolic = check.symbolic;
  options.variant = variant;
  if (random.chance(0.25)) options.dtypes = {DType::f32, DType::f32, DType::f32, DType::i32, DType::boolean};
  if (random.chance(0.1)) options.dtypes = {DType::f16, DType::bf16, DType::f32, DType::i64};
  return options;
}

int default_steps(uint64_t seed) { return 3 + static_cast<int>(Random(seed ^ 0x737465).below(22)); }

namespace {

constexpr uint64_t kVariants = 4;  // values of symbolic sizes that a plan is run with

RandomGraph graph_of(const Check& check, uint64_t variant) {
  RandomGraphOptions options = options_of(check, variant);
  if (!check.together) return testing::random_graph(check.seed, options);
  options.symbolic = options.as_numbers = true;
  RandomGraph all;
  for (options.variant = 0; options.variant < kVariants; ++options.variant) {
    RandomGraph one = testing::random_graph(check.seed, options);
    all.roots.insert(all.roots.end(), one.roots.begin(), one.roots.end());
    all.leaves.insert(all.leaves.end(), one.leaves.begin(), one.leaves.end());
    all.tolerances.insert(all.tolerances.end(), one.tolerances.begin(), one.tolerances.end());
  }
  return all;
}

// A kernel being made or run, for messages.
struct Where {
  std::string loops, schedule, passes, kernel;
};

std::string print(const std::vector<Where>& steps) {
  std::string out;
  for (const Where& step : steps)
    for (const auto& [title, part] : {std::pair("loops", &step.loops),
                                      {"schedule", &step.schedule},
                                      {"passes", &step.passes},
                                      {"kernel", &step.kernel}})
      if (!part->empty()) out += text("---- ", title, "\n", *part, "\n");
  return out;
}

bool same(const Scalar& a, const Scalar& b) {
  if (is_float(a.dtype)) return a.f == b.f || (a.f != a.f && b.f != b.f);
  return a == b;
}

// Reductions of vectors and dots may add in any order.
bool order_matters(const kernel::Kernel& k) {
  bool found = false;
  for (const kernel::Phase& phase : k.phases)
    kernel::visit(phase.body, [&](const kernel::Inst& inst) {
      if (inst.op != kernel::Op::reduce && inst.op != kernel::Op::dot) return;
      for (kernel::Value v : inst.results) found |= is_float(k.values[static_cast<size_t>(v)].dtype);
    });
  return found;
}

class ProgramRun {
 public:
  ProgramRun(const RandomGraph& graph, Way way, const Check& check, std::vector<Where>& steps, bool bad_indices)
      : graph_(graph),
        way_(way),
        check_(check),
        steps_(steps),
        bad_indices_(bad_indices),
        random_(check.seed * std::size(kAllWays) + static_cast<uint64_t>(way)) {
    bool simt = way == Way::Simt;
    target_.name = simt ? "simulated" : "avx512";
    target_.machine = simt ? Machine::Simt : Machine::Simd;
    target_.cores = 2;
    if (way == Way::Ptx) target_ = nvidia_target();
    if (way == Way::Jit) target_ = random_cpu();
  }

  std::vector<HostArray> run() {
    // As the runtime does it: simplified, and without results that have no elements. A graph that nobody simplified
    // is right too, as long as nothing in it is empty.
    bool simplified = random_.chance(0.5) || has_empty(graph_.roots);
    std::vector<NodeRef> roots = simplified ? simplify(graph_.roots) : graph_.roots, full;
    for (const NodeRef& root : roots)
      if (numel(root->shape) > 0) full.push_back(root);
    FuseOptions options;
    if (target_.machine == Machine::Simt || (way_ == Way::Loops && random_.chance(0.5))) {
      options.machine = Machine::Simt;
      options.pack_all = random_.chance(0.7);
    }
    Program program = fuse(full, {}, options);
    if (way_ == Way::Loops) {
      check_program(program, graph_.symbols);
      return {};
    }
    for (const Program::Tensor& tensor : program.tensors) {
      tensors_.emplace_back(tensor.node->dtype, numel(tensor.node->shape));
      if (tensor.node->op == NodeOp::Buffer) tensors_.back().copy_from(tensor.node->storage->host_data());
    }
    for (const Program::Step& step : program.steps) run_step(step);
    std::vector<HostArray> results;
    size_t next = 0;
    for (const NodeRef& root : roots) {
      std::vector<int64_t> shape;
      for (const Expr& dim : root->shape) shape.push_back(size(dim));
      const void* data = nullptr;
      if (numel(root->shape) > 0) data = tensors_[static_cast<size_t>(program.outputs[next++])].data();
      results.push_back(to_array(data, root->dtype, shape));
    }
    return results;
  }

 private:
  int64_t size(const Expr& dim) const {
    return evaluate(dim, [&](const Expr& variable) -> int64_t {
      for (const auto& [symbol, value] : segment_)
        if (symbol == variable) return value;
      for (const auto& [symbol, value] : graph_.symbols)
        if (symbol == variable) return value;
      throw Failure{text("unknown symbol ", variable), ""};
    });
  }
  int64_t numel(const Shape& shape) const {
    int64_t n = 1;
    for (const Expr& dim : shape) n *= size(dim);
    return n;
  }
  bool has_empty(std::span<const NodeRef> roots) const {
    for (const Node* node : topological(roots))
      if (numel(node->shape) == 0) return true;
    return false;
  }

  Target random_cpu() {
    std::vector<Target> targets;
    for (const char* cpu : {"avx512", "avx2", "sse"}) {
      try {
        targets.push_back(cpu_target(cpu));
      } catch (const ValueError&) {}  // this machine is none
    }
    return random_.of(targets);
  }

  void random_passes(kernel::Kernel& k, int most) {
    for (int64_t count = random_.between(0, most); count > 0; --count) apply(k, random_.of(kernel::all_passes()));
  }
  void apply(kernel::Kernel& k, const kernel::Pass& pass) {
    steps_.back().passes += text(" ", pass.name);
    pass.run(k);
    kernel::verify(k);
  }

  // Steps whose kernels are built at thread level at once.
  void run_direct(const Program::Step& step) {
    steps_.push_back({step.direct->description, "", "", ""});
    kernel::Kernel k = step.direct->build(target_);
    kernel::verify(k);
    bool mixed = way_ == Way::Passes || way_ == Way::Jit;
    if (mixed) random_passes(k, 5);
    if (!mixed) k = build_direct(*step.direct, target_);
    show(k);
    if (way_ == Way::Ptx) return make_ptx(k);
    for (const Program::Segment& segment : step.segments) execute(segment, k);
  }

  void run_step(const Program::Step& step) {
    if (step.direct) return run_direct(step);
    steps_.push_back({heddle::print(step.loops), "", "", ""});
    verify(step.loops);
    Schedule schedule = random_schedule(step.loops, target_, random_.bits());
    steps_.back().schedule = heddle::print(schedule);
    if (heddle::print(parse_schedule(steps_.back().schedule)) != steps_.back().schedule)
      throw Failure{"the schedule reads back another", ""};
    if (std::string why = heddle::check(schedule, step.loops, target_); !why.empty())
      throw Failure{"random_schedule() gave an illegal schedule: " + why, ""};
    kernel::Kernel k = tile(step.loops, schedule, target_);
    show(k);
    kernel::verify(k);
    bool mixed = way_ == Way::Passes || way_ == Way::Jit || way_ == Way::Tile;
    if (mixed) random_passes(k, 5);
    if (way_ != Way::Tile) k = to_threads(std::move(k), mixed);
    show(k);
    if (way_ == Way::Ptx) return make_ptx(k);
    for (const Program::Segment& segment : step.segments) execute(segment, k);
  }

  kernel::Kernel to_threads(kernel::Kernel k, bool mixed) {
    steps_.back().passes += " | lower";
    if (!mixed) {
      k = lower(std::move(k), target_);
      kernel::verify(k);
    } else {
      k = target_.machine == Machine::Simd ? lower_simd(k, target_) : lower_simt(k, target_);
      show(k);
      kernel::verify(k);
      random_passes(k, 6);
      std::string text = kernel::print(k);
      if (kernel::print(kernel::parse(text)) != text) throw Failure{"the kernel's text reads back another", ""};
    }
    if (way_ == Way::Jit || way_ == Way::Ptx) apply(k, {"expand_math", kernel::expand_math});
    if (way_ == Way::Jit) random_passes(k, 3);
    return k;
  }

  void show(const kernel::Kernel& k) { steps_.back().kernel = kernel::print(k); }

  void execute(const Program::Segment& segment, const kernel::Kernel& k) {
    std::vector<int64_t> symbols, sizes;
    segment_.clear();
    for (size_t i = 0; i < k.symbols.size(); ++i) {
      symbols.push_back(size(segment.symbols[i]));
      segment_.emplace_back(k.symbols[i], symbols.back());
    }
    std::vector<Memory> temps;
    temps.reserve(k.buffers.size());
    std::vector<Memory*> memories;
    for (size_t b = 0; b < k.buffers.size(); ++b) {
      const kernel::Buffer& buffer = k.buffers[b];
      sizes.push_back(size(buffer.size));
      if (b < segment.tensors.size()) {
        memories.push_back(&tensors_[static_cast<size_t>(segment.tensors[b])]);
        if (memories.back()->count() != sizes.back()) throw Failure{"buffer " + buffer.name + " has another size", ""};
      } else if (buffer.space == kernel::Space::Temp) {
        memories.push_back(&temps.emplace_back(buffer.dtype, sizes.back()));
      } else if (buffer.space == kernel::Space::InOut) {  // what checks found, nothing yet
        memories.push_back(&temps.emplace_back(buffer.dtype, sizes.back()));
        memories.back()->clear();
      } else {
        memories.push_back(nullptr);
      }
    }
    std::vector<Memory> compiled;
    if (way_ == Way::Jit) compiled = run_compiled(k, memories, symbols);
    std::vector<void*> pointers;
    for (const Memory* memory : memories) pointers.push_back(memory ? memory->data() : nullptr);
    kernel::interpret(k, pointers, sizes, symbols);
    for (size_t b = 0; b < memories.size(); ++b)
      if (memories[b] && !memories[b]->guards_intact()) throw Failure{"wrote outside buffer " + k.buffers[b].name, ""};
    for (size_t b = 0; b < memories.size(); ++b)
      for (int64_t i = 0; k.buffers[b].space == kernel::Space::InOut && i < memories[b]->count(); ++i)
        if (memories[b]->at(i).i != 0 && !bad_indices_)
          throw Failure{text("check ", i, " reports ", memories[b]->at(i), ", but no index is out of range"), ""};
    if (way_ == Way::Jit) compare(k, memories, compiled);
  }

  // On copies of the buffers, blocks in two parts as two workers would.
  std::vector<Memory> run_compiled(const kernel::Kernel& k, const std::vector<Memory*>& memories,
                                   const std::vector<int64_t>& symbols) {
    CompiledKernel code = compile_host(k, target_);
    std::vector<Memory> copies;
    std::vector<void*> pointers;
    for (const Memory* memory : memories) {
      copies.push_back(memory ? *memory : Memory(DType::u8, 0));
      pointers.push_back(memory ? copies.back().data() : nullptr);
    }
    Memory scratch(DType::u8, code.scratch_bytes);
    int64_t rounds = k.rounds ? size(k.phases[0].blocks[0].extent()) : 1;
    for (int64_t round = 0; round < rounds; ++round)
      for (size_t phase = 0; phase < k.phases.size(); ++phase) {
        int64_t blocks = 1;
        for (const Expr& block : k.phases[phase].blocks) blocks *= size(block.extent());
        int64_t begin = blocks / rounds * round, end = blocks / rounds * (round + 1);
        int64_t part = random_.between(begin, end);
        code.phases[phase](pointers.data(), symbols.data(), begin, part, scratch.data());
        code.phases[phase](pointers.data(), symbols.data(), part, end, scratch.data());
      }
    if (!scratch.guards_intact()) throw Failure{"compiled code wrote outside its scratch memory", ""};
    return copies;
  }

  void compare(const kernel::Kernel& k, const std::vector<Memory*>& interpreted, std::vector<Memory>& compiled) {
    bool exact = !order_matters(k);
    for (size_t b = 0; b < interpreted.size(); ++b) {
      if (!interpreted[b]) continue;
      if (!compiled[b].guards_intact()) throw Failure{"compiled code wrote outside buffer " + k.buffers[b].name, ""};
      bool checks = k.buffers[b].space == kernel::Space::InOut;
      for (int64_t i = 0; checks && i < interpreted[b]->count(); ++i)
        if (Scalar a = interpreted[b]->at(i), c = compiled[b].at(i); (a.i == 0) != (c.i == 0))
          throw Failure{text(target_.name, ": check ", i, " found ", c, " compiled and ", a, " interpreted"), ""};
      for (int64_t i = 0; exact && !checks && i < interpreted[b]->count(); ++i)
        if (Scalar a = interpreted[b]->at(i), c = compiled[b].at(i); !same(a, c))
          throw Failure{
              text(target_.name, ": ", k.buffers[b].name, "[", i, "] is ", c, " compiled and ", a, " interpreted"), ""};
      // Go on with what the machine computed.
      if (k.buffers[b].space != kernel::Space::In && b < k.buffers.size())
        interpreted[b]->copy_from(compiled[b].data());
    }
  }

  void make_ptx(const kernel::Kernel& k) {
    std::string code = ptx(k, target_);
    if (code.find(k.name + "_0") == std::string::npos) throw Failure{"the PTX has no entry " + k.name + "_0", ""};
    if (check_.ptxas.empty()) return;
    auto file = std::filesystem::temp_directory_path() / text("heddle_fuzz_", getpid(), "_", check_.seed, ".ptx");
    std::ofstream(file) << code;
    std::string command = text(check_.ptxas, " -arch=", target_.name, " -O0 -o /dev/null ", file.string());
    int status = std::system(command.c_str());
    if (status != 0) throw Failure{"refused: " + command, ""};
    std::filesystem::remove(file);
  }

  const RandomGraph& graph_;
  Way way_;
  const Check& check_;
  std::vector<Where>& steps_;
  bool bad_indices_;
  Random random_;
  Target target_;
  std::vector<Memory> tensors_;
  SymbolValues segment_;  // sizes of the segment that runs
};

}  // namespace

void check(const Check& check, Way way) {
  if (way == Way::Gradient) return check_gradient(check);
  if (way == Way::Vmap) return check_vmap(check);
  if (way == Way::Numbers) return check_numbers(check);
  std::vector<Where> where;
  std::string graph_text;
  bool whole = way == Way::Realize || way == Way::Simulated || way == Way::Devices;
  uint64_t variants = check.symbolic && whole ? kVariants : 1;
  try {
    uint64_t misses = 0;
    for (uint64_t variant = 0; variant < variants; ++variant) {
      RandomGraph graph = graph_of(check, variant);
      if (way == Way::Devices) graph = spread(graph, check.seed);
      graph_text = print_graph(graph.roots);
      for (const auto& [symbol, value] : graph.symbols)
        graph_text += text(symbol, " in [", symbol.lo(), ", ", symbol.hi(), "] is ", value, "\n");
      int64_t bad_indices = 0;
      std::vector<HostArray> want = evaluate(graph.roots, graph.symbols, {}, &bad_indices);
      uint64_t before = run_stats().plan_misses;
      std::vector<HostArray> got =
          whole ? run_realize(graph, want, bad_indices > 0, way == Way::Simulated ? "simulated" : "")
                : ProgramRun(graph, way, check, where, bad_indices > 0).run();
      if (way == Way::Ptx || way == Way::Loops) return;
      const bool parts = way == Way::Devices && variant == 0;  // each of them has a plan
      if (!parts) misses += run_stats().plan_misses - before;
      if (misses > (way == Way::Devices ? 0 : 1))
        throw Failure{text("variant ", variant, " of the sizes does not share the plan"), ""};
      for (size_t i = 0; i < want.size(); ++i)
        if (std::string wrong = testing::difference(want[i], got[i], graph.tolerances[i]); !wrong.empty())
          throw Failure{text("root ", i, ": ", wrong), ""};
    }
  } catch (Failure& failure) {
    failure.detail = graph_text + print(where);
    throw;
  } catch (const std::exception& error) {
    throw Failure{error.what(), graph_text + print(where)};
  }
}

}  // namespace heddle::fuzz
