#include "kernel/shared_memory.h"

#include <algorithm>

#include "base/error.h"

namespace heddle::kernel {

SharedMemory shared_memory(const Kernel& kernel) {
  // Large buffers, which a copy engine may fill, begin where it wants them.
  constexpr int64_t kLarge = 4096, kLargeAlignment = 1024, kAlignment = 64;
  std::vector<int> first(kernel.buffers.size(), -1), last(kernel.buffers.size(), -1);  // phase that uses it
  for (size_t p = 0; p < kernel.phases.size(); ++p)
    visit(kernel.phases[p].body, [&](const Inst& inst) {
      auto use = [&](int32_t buffer) {
        if (buffer < 0) return;
        const auto b = static_cast<size_t>(buffer);
        if (first[b] < 0) first[b] = static_cast<int>(p);
        last[b] = static_cast<int>(p);
      };
      use(inst.buffer);
      for (const Panel& panel : inst.panels) use(panel.buffer);
    });
  SharedMemory memory;
  for (const Buffer& buffer : kernel.buffers) memory.offsets.push_back(buffer.space == Space::Shared ? 0 : -1);
  auto place = [&](size_t b, int64_t& end) {
    const Buffer& buffer = kernel.buffers[b];
    HD_ASSERT(buffer.size.is_const(), buffer.name);
    const int64_t size = buffer.size.value() * size_of(buffer.dtype);
    const int64_t alignment = size >= kLarge ? kLargeAlignment : kAlignment;
    memory.offsets[b] = (end + alignment - 1) / alignment * alignment;
    end = memory.offsets[b] + size;
  };
  // What several phases use comes before what is one's own.
  int64_t common = 0;
  for (size_t b = 0; b < kernel.buffers.size(); ++b)
    if (kernel.buffers[b].space == Space::Shared && first[b] != last[b]) place(b, common);
  memory.bytes = common;
  for (int p = 0; p < static_cast<int>(kernel.phases.size()); ++p) {
    int64_t end = common;
    for (size_t b = 0; b < kernel.buffers.size(); ++b)
      if (kernel.buffers[b].space == Space::Shared && first[b] == p && last[b] == p) place(b, end);
    memory.bytes = std::max(memory.bytes, end);
  }
  return memory;
}

}  // namespace heddle::kernel
