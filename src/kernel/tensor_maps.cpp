#include "kernel/tensor_maps.h"

namespace heddle::kernel {

bool is_copied(const Kernel& kernel, const Region& region) {
  const int64_t size = size_of(kernel.buffers[static_cast<size_t>(region.buffer)].dtype);
  for (size_t d = 1; d < region.strides.size(); ++d)
    if (region.strides[d] * size % 16 != 0) return false;
  return region.offset.multiple() * size % 16 == 0;
}

std::vector<TensorMap> tensor_maps(const Kernel& kernel) {
  std::vector<TensorMap> maps;
  const int64_t rows = (kernel.threads / kMatrixThreads - 1) * kMatrixRows;
  for (const Phase& phase : kernel.phases)
    visit(phase.body, [&](const Inst& inst) {
      for (size_t n = 0; n < inst.regions.size(); ++n) {
        const Region& region = inst.regions[n];
        if (!is_copied(kernel, region)) continue;
        const int64_t wide = kMatrixBytes / size_of(kernel.buffers[static_cast<size_t>(region.buffer)].dtype);
        int64_t high = kMatrixRows;
        if (inst.op == Op::matrix_dot) {
          const int64_t columns = static_cast<int64_t>(inst.results.size()) / 2 * 8;
          high = region.transposed ? wide : n + 1 < inst.regions.size() ? rows : columns;
        }
        maps.push_back({&inst, n, {wide, high}});
      }
    });
  return maps;
}

MatrixRing matrix_ring(const Kernel& kernel, const Inst& dot) {
  const int64_t rows = (kernel.threads / kMatrixThreads - 1) * kMatrixRows;
  return {dot.left_in_args() ? 0 : rows, static_cast<int64_t>(dot.results.size()) / 2 * 8, dot.immediate,
          dot.regions[0].stays ? dot.extent.value() : 0};
}

int64_t matrix_store_bytes(int64_t rows) { return 2 * rows * kMatrixBytes; }

}  // namespace heddle::kernel
