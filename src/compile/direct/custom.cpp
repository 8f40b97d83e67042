#include "compile/direct/custom.h"

#include "base/error.h"
#include "graph/custom.h"
#include "kernel/structure.h"

namespace heddle {
namespace {

using kernel::Op;

// What says that a structure is that of a kernel which somebody wrote: no sort has so many rows.
constexpr uint64_t kCustom = ~uint64_t{0};

// Takes the stores to a buffer out of code.
void drop_stores(kernel::Body& code, const std::vector<int>& renumbered) {
  std::erase_if(code.insts, [&](const kernel::Inst& inst) { return inst.buffer >= 0 && renumbered[inst.buffer] < 0; });
  for (kernel::Inst& inst : code.insts) {
    if (inst.buffer >= 0) inst.buffer = renumbered[inst.buffer];
    for (kernel::Body& inner : inst.bodies) drop_stores(inner, renumbered);
  }
}

// Large results will not be read again soon, as schedules say of others.
void stream(kernel::Kernel& tiles, const Target& target) {
  double bytes = 0;
  for (const kernel::Buffer& buffer : tiles.buffers)
    if (buffer.space == kernel::Space::Out)
      bytes += static_cast<double>(buffer.size.value()) * static_cast<double>(size_of(buffer.dtype));
  if (target.machine != Machine::Simd || bytes <= static_cast<double>(target.l3_bytes) / 2) return;
  for (kernel::Phase& phase : tiles.phases)
    kernel::visit(phase.body, [&](kernel::Inst& inst) {
      if (inst.op == Op::store && tiles.buffers[inst.buffer].space == kernel::Space::Out)
        inst.hint = kernel::Hint::Stream;
    });
}

}  // namespace

DirectKernel custom_kernel(const Node& node, std::span<const Node* const> results) {
  const CustomKernel& custom = *node.custom;
  auto tiles = std::make_shared<kernel::Kernel>(*custom.tiles);
  std::vector<bool> wanted(tiles->buffers.size(), true);
  for (size_t r = 0; r < custom.results.size(); ++r) wanted[custom.inputs.size() + r] = false;
  for (const Node* result : results)
    wanted[custom.inputs.size() + static_cast<size_t>(result->attrs[0].value())] = true;
  std::vector<int> renumbered;
  std::vector<kernel::Buffer> kept;
  for (size_t b = 0; b < wanted.size(); ++b) {
    renumbered.push_back(wanted[b] ? static_cast<int>(kept.size()) : -1);
    if (wanted[b]) kept.push_back(tiles->buffers[b]);
  }
  tiles->buffers = std::move(kept);
  for (kernel::Phase& phase : tiles->phases) drop_stores(phase.body, renumbered);

  DirectKernel direct;
  direct.name = custom.name;
  direct.description = text("kernel ", custom.name, " of ", custom.inputs.size(), " inputs");
  direct.structure.words = {kDirect, kCustom};
  const Structure structure = kernel::structure(*tiles);
  direct.structure.words.insert(direct.structure.words.end(), structure.words.begin(), structure.words.end());
  for (size_t b = 0; b < custom.inputs.size() + results.size(); ++b) direct.buffers.push_back(tiles->buffers[b]);
  direct.tiles = [tiles](const Target& target) {
    kernel::Kernel kernel = *tiles;
    stream(kernel, target);
    return kernel;
  };
  return direct;
}

}  // namespace heddle
