// A kernel that has been written becomes what graphs hold: whole, checked, and known by its words.
#include <algorithm>
#include <bit>

#include "base/error.h"
#include "custom/trace.h"
#include "kernel/structure.h"

namespace heddle {
namespace {

using kernel::Body;
using kernel::Inst;
using kernel::Op;

constexpr int kMostThreads = 256, kWarp = 32;

// Buffers in the order in which graphs and launches have them: inputs, results, shared memory.
void order_buffers(KernelTrace& trace) {
  std::vector<kernel::Buffer>& buffers = trace.kernel.buffers;
  std::vector<int> order, place(buffers.size());
  for (kernel::Space space : {kernel::Space::In, kernel::Space::Out, kernel::Space::Shared})
    for (size_t b = 0; b < buffers.size(); ++b)
      if (buffers[b].space == space) order.push_back(static_cast<int>(b));
  std::vector<kernel::Buffer> ordered;
  for (size_t k = 0; k < order.size(); ++k) {
    place[static_cast<size_t>(order[k])] = static_cast<int>(k);
    ordered.push_back(buffers[static_cast<size_t>(order[k])]);
  }
  buffers = std::move(ordered);
  kernel::visit(trace.kernel.phases[0].body, [&](Inst& inst) {
    if (inst.buffer >= 0) inst.buffer = place[static_cast<size_t>(inst.buffer)];
  });
}

// Takes dimensions away that stand for no range.
void drop_dimensions(KernelTrace& trace) {
  const size_t rank = trace.ranges.size();
  for (kernel::Type& type : trace.kernel.values)
    while (type.shape.size() > rank) type.shape.pop_back();
  kernel::visit(trace.kernel.phases[0].body, [&](Inst& inst) {
    while (inst.coords.size() > rank) inst.coords.pop_back();
  });
}

// Threads of a block on a GPU: several elements of the largest tile for each.
int choose_threads(const KernelTrace& trace) {
  if (trace.options.threads > 0) return trace.options.threads;
  constexpr int64_t kEach = 8;
  int64_t largest = 1;
  for (const kernel::Type& type : trace.kernel.values) largest = std::max(largest, type.numel());
  const auto wanted = std::bit_ceil(static_cast<uint64_t>(largest / kEach));
  return static_cast<int>(std::clamp<uint64_t>(wanted, kWarp, kMostThreads));
}

double work_of(const TileKernel& kernel, const Body& body) {
  double work = 0;
  for (const Inst& inst : body.insts) {
    double own = 1;
    for (kernel::Value v : inst.results) own = std::max(own, static_cast<double>(kernel.values[v].numel()));
    double terms = 1;
    for (kernel::Value v : inst.args) terms = std::max(terms, static_cast<double>(kernel.values[v].numel()));
    if (inst.op == Op::dot)
      terms = static_cast<double>(kernel.values[inst.results[0]].numel()) *
              static_cast<double>(
                  std::max(kernel.values[inst.args[0]].shape[inst.axis], kernel.values[inst.args[1]].shape[inst.axis]));
    for (const Body& inner : inst.bodies) own += work_of(kernel, inner) * static_cast<double>(inst.extent.hi());
    work += std::max(own, terms);
  }
  return work;
}

std::shared_ptr<CustomKernel> assembled(const TileKernel& tiles, std::vector<ResultType> inputs,
                                        std::vector<ResultType> results);

// The kernel with one more axis of blocks: examples, whose tensors lie one after the other.
std::shared_ptr<const CustomKernel> batch(const CustomKernel& custom, std::span<const bool> batched, int64_t count) {
  TileKernel tiles = *custom.tiles;
  const size_t arguments = custom.inputs.size() + custom.results.size();
  Expr example = folded(Expr::index("e", count));
  std::vector<Expr>& blocks = tiles.phases[0].blocks;
  if (example.is_var()) blocks.insert(blocks.begin(), example);
  auto has_examples = [&](size_t b) { return b < arguments && (b >= batched.size() || batched[b]); };
  kernel::visit(tiles.phases[0].body, [&](Inst& inst) {
    if (inst.buffer < 0 || !has_examples(static_cast<size_t>(inst.buffer))) return;
    inst.address = inst.address + example * tiles.buffers[static_cast<size_t>(inst.buffer)].size;
  });
  auto types = [&](std::vector<ResultType> list, size_t first) {
    for (size_t i = 0; i < list.size(); ++i)
      if (has_examples(first + i)) {
        Shape shape{count};
        shape.append(list[i].shape.begin(), list[i].shape.end());
        list[i].shape = shape;
      }
    return list;
  };
  for (size_t b = 0; b < arguments; ++b)
    if (has_examples(b)) tiles.buffers[b].size = tiles.buffers[b].size * count;
  return assembled(tiles, types(custom.inputs, 0), types(custom.results, custom.inputs.size()));
}

std::shared_ptr<CustomKernel> assembled(const TileKernel& tiles, std::vector<ResultType> inputs,
                                        std::vector<ResultType> results) {
  auto custom = std::make_shared<CustomKernel>();
  custom->name = tiles.name;
  custom->inputs = std::move(inputs);
  custom->results = std::move(results);
  custom->tiles = std::make_shared<const TileKernel>(tiles);
  custom->words = kernel::structure(tiles).words;
  for (const ResultType& result : custom->results) {
    custom->words.push_back(result.shape.size());
    for (const Expr& size : result.shape) custom->words.push_back(static_cast<uint64_t>(size.value()));
  }
  custom->hash = Structure{custom->words}.hash();
  custom->work = work_of(tiles, tiles.phases[0].body);
  for (const Expr& block : tiles.phases[0].blocks) custom->work *= static_cast<double>(block.extent().value());
  // The functions belong to the object: it may not hold itself.
  CustomKernel* self = custom.get();
  custom->evaluate = [self](std::span<const HostArray* const> arrays) { return evaluate_custom(*self, arrays); };
  custom->batch = [self](std::span<const bool> batched, int64_t count) { return batch(*self, batched, count); };
  return custom;
}

}  // namespace

std::shared_ptr<const CustomKernel> finish(KernelTrace& trace) {
  if (trace.closed) throw ValueError(text("kernel ", trace.name, ": a loop of it was left by an error"));
  trace.closed = true;
  if (trace.results.empty()) throw ValueError(text("kernel ", trace.name, " has no output"));
  for (size_t r = 0; r < trace.results.size(); ++r) {
    bool stored = trace.results[r].shape.static_numel() == 0;
    kernel::visit(trace.kernel.phases[0].body,
                  [&](const Inst& inst) { stored |= inst.op == Op::store && inst.buffer == trace.result_buffers[r]; });
    if (!stored) throw ValueError(text("kernel ", trace.name, ": nothing is stored to output ", r));
  }
  order_buffers(trace);
  drop_dimensions(trace);
  trace.kernel.threads = choose_threads(trace);
  kernel::verify(trace.kernel);
  return assembled(trace.kernel, trace.inputs, trace.results);
}

}  // namespace heddle
