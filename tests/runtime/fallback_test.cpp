// A kernel that cannot be compiled as its schedule says is compiled in a plainer way, and the process goes on.
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "compile/leaves.h"
#include "graph/graph.h"
#include "kernel/interpreter.h"
#include "runtime/kernel_cache.h"

namespace heddle {
namespace {

// Refuses the first kernels that it is asked to compile, as a device with a fault in its code generator would.
class Picky final : public Backend {
 public:
  Picky(Machine machine, int refused) : refused_(refused) {
    target_.name = name_;
    target_.machine = machine;
    if (machine == Machine::Simt) {
      add_instructions(target_, kFragments);
      add_instructions(target_, kShared);
    }
    target_.shared_bytes = 232448;
  }
  const std::string& name() const override { return name_; }
  const Target& target() const override { return target_; }
  int threads() const override { return 1; }
  std::shared_ptr<DeviceBuffer> allocate(uint64_t) override { throw OutOfMemory("no memory"); }
  void copy_from_host(DeviceBuffer&, const void*, uint64_t) override {}
  void copy_to_host(void*, const DeviceBuffer&, uint64_t) override {}
  void copy(const BufferPart&, const BufferPart&) override {}
  std::shared_ptr<Executable> compile(const kernel::Kernel& kernel, std::string*) override {
    if (asked++ < refused_) throw CompileError("it is too complicated " + std::string(10000, '!'));
    struct Code final : Executable {
      explicit Code(const kernel::Kernel& k) : own(k) {}
      const kernel::Kernel& kernel() const override { return own; }
      kernel::Kernel own;
    };
    return std::make_shared<Code>(kernel);
  }
  void launch(const Executable&, std::span<const LaunchSegment>) override {}
  void synchronize() override {}
  Memory memory() const override { return {}; }
  void free_cached() override {}

  int asked = 0;

 private:
  std::string name_ = "picky";
  Target target_;
  int refused_;
};

NodeRef product(int64_t m, int64_t k, int64_t n) {
  const Shape all{m, n, k};
  NodeRef x = make_cast(make_reshape(testing::leaf({m, k}, 1, DType::bf16), {m, 1, k}), kF32);
  NodeRef y = make_cast(make_reshape(testing::leaf({n, k}, 2, DType::bf16), {1, n, k}), kF32);
  NodeRef each = make_scalar(ScalarOp::mul, std::vector<NodeRef>{make_expand(x, all), make_expand(y, all)});
  return make_reduce(ReduceOp::Sum, each, std::vector<int>{2});
}

void expect_right(const NodeRef& root, Backend& device) {
  Program program = fuse(std::span(&root, 1));
  ASSERT_EQ(program.steps.size(), 1u);
  const std::shared_ptr<Executable> code = compile_step(program.steps[0], device);
  std::vector<std::vector<std::byte>> memory;
  std::vector<void*> buffers;
  std::vector<int64_t> sizes;
  for (const kernel::Buffer& buffer : code->kernel().buffers) {
    sizes.push_back(buffer.size.value());
    memory.emplace_back(static_cast<size_t>(sizes.back() * size_of(buffer.dtype)) + 64);
  }
  const std::vector<int>& tensors = program.steps[0].segments[0].tensors;
  for (size_t b = 0; b < tensors.size(); ++b) {
    const Node* node = program.tensors[static_cast<size_t>(tensors[b])].node;
    if (node->op == NodeOp::Buffer) std::memcpy(memory[b].data(), node->storage->host_data(), memory[b].size() - 64);
  }
  for (auto& bytes : memory) buffers.push_back(bytes.data());
  kernel::interpret(code->kernel(), buffers, sizes, {});
  const HostArray want = evaluate(std::span(&root, 1))[0];
  const std::byte* result = memory[tensors.size() - 1].data();
  for (size_t i = 0; i < want.floats.size(); ++i) {
    float got;
    std::memcpy(&got, result + i * 4, 4);
    ASSERT_NEAR(got, want.floats[i], 1e-3) << "element " << i;
  }
}

[[noreturn]] void compile_on(Machine machine, int refused) {
  setenv("HEDDLE_FALLBACK", "1", 1);
  Picky device(machine, refused);
  try {
    expect_right(product(96, 128, 96), device);
    std::fprintf(stderr, "<asked %d, replaced %zu>", device.asked, replaced_schedules());
  } catch (const CompileError& error) {
    std::fprintf(stderr, "<asked %d, refused>", device.asked);
  }
  std::exit(::testing::Test::HasFailure());
}

class FallbackDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(FallbackDeathTest, other_schedules_are_tried_and_compute_the_same) {
  const auto fine = ::testing::ExitedWithCode(0);
  for (Machine machine : {Machine::Simd, Machine::Simt}) {
    EXPECT_EXIT(compile_on(machine, 0), fine, "^<asked 1, replaced 0>$");
    EXPECT_EXIT(compile_on(machine, 1), fine, "runs slowly.*too complicated !{300,400} [.]{3}.*<asked 2, replaced 1>");
    EXPECT_EXIT(compile_on(machine, 2), fine, "runs slowly.*<asked 3, replaced 1>");
    EXPECT_EXIT(compile_on(machine, 3), fine, "<asked 3, refused>");
  }
}

TEST(Fallback, tests_see_every_fault) {
  Picky device(Machine::Simt, 1);
  EXPECT_THROW(expect_right(product(64, 64, 64), device), CompileError);
  EXPECT_EQ(device.asked, 1);
}

}  // namespace
}  // namespace heddle
