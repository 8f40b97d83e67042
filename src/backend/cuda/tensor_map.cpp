#include "backend/cuda/tensor_map.h"

#include "base/error.h"

namespace heddle::cuda {
namespace {

// The driver's numbers.
int number_of(DType dtype) {
  switch (dtype) {
    case DType::f16: return 6;
    case DType::f32: return 7;
    case DType::bf16: return 9;
    case DType::i32: return 4;
    case DType::u32: return 2;
    case DType::i16:
    case DType::u16: return 1;
    default: return 0;  // bytes
  }
}
constexpr int kSwizzle128 = 3, kPromote256 = 3;

}  // namespace

std::array<uint64_t, 16> encode(const Driver& driver, const kernel::Kernel& kernel, const kernel::TensorMap& map,
                                const LaunchSegment& segment) {
  const kernel::Region& region = map.region();
  const DType dtype = kernel.buffers[static_cast<size_t>(region.buffer)].dtype;
  const auto size = static_cast<uint64_t>(size_of(dtype));
  auto value = [&](const Expr& e) {
    return static_cast<uint64_t>(e.is_const() ? e.value() : evaluate(e, symbol_values(kernel, segment.symbols)));
  };
  const size_t rank = region.extents.size();
  std::array<uint64_t, 5> extents{}, strides{};
  std::array<uint32_t, 5> box{}, steps{};
  for (size_t d = 0; d < rank; ++d) {
    extents[d] = std::max<uint64_t>(value(region.extents[d]), 1);
    if (d > 0) strides[d - 1] = static_cast<uint64_t>(region.strides[d]) * size;
    box[d] = d < 2 ? static_cast<uint32_t>(map.box[d]) : 1;
    steps[d] = 1;
  }
  const BufferPart& memory = segment.buffers[static_cast<size_t>(region.buffer)];
  auto* base = static_cast<std::byte*>(memory.address()) + value(region.offset) * size;
  struct alignas(64) Map {
    std::array<uint64_t, 16> words;
  } made{};
  Result result =
      driver.cuTensorMapEncodeTiled(&made, number_of(dtype), static_cast<unsigned>(rank), base, extents.data(),
                                    strides.data(), box.data(), steps.data(), 0, kSwizzle128, kPromote256, 0);
  if (result != kSuccess)
    throw DeviceError(text("cuda: kernel ", kernel.name, ", buffer ",
                           kernel.buffers[static_cast<size_t>(region.buffer)].name,
                           ": the driver describes no matrix of ", extents[0], " x ", extents[1], " ", dtype,
                           " in rows of ", strides[0], " bytes: ", driver.describe(result)));
  return made.words;
}

}  // namespace heddle::cuda
