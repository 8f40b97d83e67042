// Memory that is shared with others.
#include <heddle/heddle.h>

#include <gtest/gtest.h>

#include <cstdlib>

namespace heddle {
namespace {

std::shared_ptr<float> aligned(size_t count, float value) {
  std::shared_ptr<float> memory(static_cast<float*>(std::aligned_alloc(64, (count * 4 + 63) / 64 * 64)), std::free);
  for (size_t i = 0; i < count; ++i) memory.get()[i] = value;
  return memory;
}

TEST(Memory, of_any_dtype_is_copied) {
  std::vector<uint16_t> bits = {0x3f80, 0x4000};
  Tensor x = from_memory(bits.data(), {2}, kBF16);
  bits[0] = 0;
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(from_memory(nullptr, {0, 3}, kI8).shape(), (Dims{0, 3}));
  EXPECT_THROW(from_memory(bits.data(), {-1}, kF32), ShapeError);
}

TEST(Memory, of_a_tensor_stays_as_it_is_while_somebody_has_it) {
  Tensor x = full({256}, 3.f).realize();
  std::shared_ptr<const void> memory = host_memory(x);
  EXPECT_EQ(memory.get(), x.data<float>().data());
  for (int i = 0; i < 3; ++i) {
    x += 1;
    x.realize();
  }
  EXPECT_EQ(static_cast<const float*>(memory.get())[255], 3);
  EXPECT_EQ(x[0].item<float>(), 6);
  EXPECT_EQ(*static_cast<const int64_t*>(host_memory(arange(5)[3] + 1).get()), 4);
}

TEST(Memory, that_is_aligned_is_shared) {
  std::shared_ptr<float> memory = aligned(1000, 1);
  Tensor x = share_memory(memory, {1000}, kF32);
  EXPECT_EQ(x.data<float>().data(), memory.get());
  EXPECT_EQ(sum(x).item<float>(), 1000);
  memory.get()[7] = 11;
  EXPECT_EQ(sum(x).item<float>(), 1010);
  long before = memory.use_count();
  x = zeros(1);
  EXPECT_EQ(memory.use_count(), before - 1);
}

TEST(Memory, that_is_not_aligned_is_copied) {
  std::shared_ptr<float> memory = aligned(1000, 1);
  Tensor x = share_memory({memory, memory.get() + 1}, {100}, kF32);
  memory.get()[7] = 11;
  EXPECT_EQ(sum(x).item<float>(), 100);
  EXPECT_EQ(memory.use_count(), 1);
}

TEST(Memory, that_is_shared_is_never_written) {
  std::shared_ptr<float> memory = aligned(4096, 1);
  Tensor x = share_memory(memory, {4096}, kF32);
  x += 1;
  x.realize();
  EXPECT_EQ(memory.get()[0], 1);
  Tensor w = share_memory(memory, {4096}, kF32);
  auto step = jit([&] { w += 1; });
  for (int i = 0; i < 4; ++i) step();
  EXPECT_EQ(memory.get()[4095], 1);
  EXPECT_EQ(w[0].item<float>(), 5);
}

TEST(Memory, that_is_shared_is_not_kept_packed) {
  std::shared_ptr<float> memory = aligned(256 * 256, 1);
  Tensor w = share_memory(memory, {256, 256}, kF32);
  auto f = jit([&](const Tensor& x) { return matmul(x, w); });
  Tensor x = ones({256, 256});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(f(x)[0][0].item<float>(), 256);
  for (int64_t i = 0; i < 256 * 256; ++i) memory.get()[i] = 2;
  EXPECT_EQ(f(x)[0][0].item<float>(), 512);
}

TEST(Memory, indices_in_a_list_of_any_length) {
  Tensor x = zeros({2, 3});
  std::vector<Index> indices = {Slice(), 1};
  x.set(std::span<const Index>(indices), 5);
  EXPECT_EQ(x.to_vector<int>(), (std::vector<int>{0, 5, 0, 0, 5, 0}));
}

}  // namespace
}  // namespace heddle
