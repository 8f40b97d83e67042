// The CUDA backend above a driver without hardware: what it does with memory, launches and errors. Kernels do not run,
// so no result means anything here; where there is a GPU the other tests run on it with HEDDLE_DEVICE=cuda.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <heddle/heddle.h>
#include <heddle/memory.h>
#include <unistd.h>

#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/sanitizers.h"
#include "child_process.h"
#include "compile/lower.h"
#include "cuda/fake_driver.h"
#include "kernel/ir.h"
#include "runtime/device.h"

namespace heddle {
namespace {

FakeDriver& fake() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (!library) library = dlopen("libcuda.so.1", RTLD_NOW);
  auto* state = reinterpret_cast<FakeDriver* (*)()>(dlsym(library, "fake_cuda_state"));
  return *state();
}

template <class Exception>
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Exception& e) {
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(Cuda, names_and_numbers_of_devices) {
  Backend& first = device("cuda");
  EXPECT_EQ(&first, &device("cuda:0"));
  EXPECT_NE(&first, &device("cuda:1"));
  EXPECT_EQ(first.target().name, "sm_90a");
  EXPECT_EQ(first.target().multiprocessors, 132);
  EXPECT_NE(message_of<DeviceError>([] { device("cuda:2"); }).find("2 of them"), std::string::npos);
  EXPECT_NE(message_of<ValueError>([] { device("cuda:x"); }).find("cuda:x"), std::string::npos);
  EXPECT_THROW(device("cuda:-1"), ValueError);
}

TEST(Cuda, copies_of_any_length_arrive) {
  Backend& gpu = device("cuda");
  for (size_t count : {size_t{0}, size_t{1}, size_t{63}, size_t{8} << 20, (size_t{20} << 20) + 3}) {
    std::vector<unsigned char> data(count), back(count, 1);
    std::iota(data.begin(), data.end(), static_cast<unsigned char>(7));
    auto buffer = gpu.allocate(count);
    gpu.copy_from_host(*buffer, data.data(), count);
    gpu.copy_to_host(back.data(), *buffer, count);
    EXPECT_EQ(back, data) << count;
    if (count == 0) continue;
    EXPECT_EQ(std::memcmp(buffer->host_data(), data.data(), count), 0);
    auto other = gpu.allocate(count);
    gpu.copy(whole(*other), whole(*buffer));
    EXPECT_EQ(std::memcmp(other->host_data(), data.data(), count), 0);
    EXPECT_THROW(gpu.copy({other.get(), 0, count + 64}, whole(*buffer)), InternalError);
  }
}

TEST(Cuda, matrices_are_described_to_the_copy_engine) {
  const int before = fake().maps;
  Tensor a = randn({3, 256, 128}).cast(kBF16), b = randn({128, 264}).cast(kBF16);
  a.realize();
  b.realize();
  matmul(a, b).realize();
  EXPECT_GE(fake().maps, before + 3);
  EXPECT_EQ(fake().last.threads % 128, 0u);
}

TEST(Cuda, memory_is_used_again) {
  Backend& gpu = device("cuda");
  void* before = nullptr;
  {
    auto buffer = gpu.allocate(10000);
    before = buffer->address();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(before) % 64, 0u);
  }
  const int asked = fake().allocations;
  EXPECT_EQ(gpu.allocate(9900)->address(), before);
  EXPECT_EQ(fake().allocations, asked);
  EXPECT_GT(gpu.memory().cached, 0u);
  gpu.free_cached();
  EXPECT_EQ(gpu.memory().cached, 0u);
}

TEST(Cuda, out_of_memory_frees_what_is_cached_and_then_names_sizes) {
  Backend& gpu = device("cuda");
  gpu.free_cached();
  { auto large = gpu.allocate(uint64_t{150} << 20); }
  auto other = gpu.allocate(uint64_t{200} << 20);  // there is room for one of them
  std::string message = message_of<OutOfMemory>([&] { gpu.allocate(uint64_t{100} << 20); });
  EXPECT_NE(message.find("104857600"), std::string::npos) << message;
  EXPECT_THROW(gpu.allocate(uint64_t{1} << 50), OutOfMemory);
}

TEST(Cuda, a_captured_function_is_one_launch) {
  Tensor x = ones({100}), y = ones({100});
  x.realize();
  y.realize();
  auto step = jit([](Tensor a, Tensor b) { return softmax(a + b, -1) + cumsum(a, -1).sum(); });
  step(x, y);
  std::vector<Tensor> kept;
  for (int i = 0; i < 3; ++i) kept.push_back(step(x, y));
  const int graphs = fake().graphs_made, launches = fake().launches, before = fake().graph_launches;
  for (int i = 0; i < 5; ++i) step(x, y);
  EXPECT_EQ(fake().graph_launches, before + 5);
  EXPECT_EQ(fake().launches, launches);
  EXPECT_EQ(fake().graphs_made, graphs) << "more memory for a result changes a node, and makes no new graph";
  const int changed = fake().nodes_changed;
  for (int i = 0; i < 5; ++i) step(x, y);
  EXPECT_EQ(fake().nodes_changed, changed) << "the same memory again";
  step(y, x);
  EXPECT_GT(fake().nodes_changed, changed);
}

TEST(Cuda, state_that_takes_turns_between_two_memories_changes_no_node) {
  Tensor state = ones({64, 64}).realize(), w = ones({64, 64}).realize();
  auto step = jit([&](Tensor x) {
    state.assign(matmul(state, x));
    return sort(state, -1).values;
  });
  for (int i = 0; i < 4; ++i) step(w);
  ASSERT_GT(step.plans()[0].launches, 1u);
  const int graphs = fake().graphs_made, changed = fake().nodes_changed, before = fake().graph_launches;
  const Storage* memory = state.node()->storage.get();
  step(w);
  EXPECT_NE(state.node()->storage.get(), memory);
  for (int i = 0; i < 5; ++i) step(w);
  EXPECT_EQ(fake().graph_launches, before + 6);
  EXPECT_EQ(fake().graphs_made, graphs);
  EXPECT_EQ(fake().nodes_changed, changed);
}

// The check of the index is followed by kernels that need all of what was read.
TEST(Cuda, indices_are_checked_at_the_end_of_a_captured_function) {
  Tensor table = ones({10, 64}).realize(), ids = zeros({5}, kI64).realize(), state = zeros({64}).realize();
  auto lookup = [&] { return softmax(cumsum(embedding(table, ids), 0), 0); };
  auto pure = jit([&] { return lookup(); });
  auto stateful = jit([&] { state += sum(lookup(), 0); });
  for (int i = 0; i < 3; ++i) {
    pure();
    stateful();
  }
  ASSERT_GT(pure.plans()[0].launches, 1u);
  const int launches = fake().launches, before = fake().graph_launches;
  for (int i = 0; i < 5; ++i) pure();
  EXPECT_EQ(fake().graph_launches, before + 5);
  for (int i = 0; i < 5; ++i) stateful();  // what is updated in place must not be touched if an index is wrong
  EXPECT_EQ(fake().graph_launches, before + 5 + 10);
  EXPECT_EQ(fake().launches, launches);
}

TEST(Cuda, code_can_be_assembled_without_a_gpu) {
  const char* ptxas = "/usr/local/cuda/bin/ptxas";
  if (access(ptxas, X_OK) != 0) GTEST_SKIP() << "no " << ptxas;
  kernel::Kernel kernel = kernel::parse(
      "kernel.thread @copy(in %x: f32[8], out %y: f32[8]) threads 32 thread t {\n"
      "  phase grid() {\n    %0 = load %x[t] if t < 8 : f32\n    store %y[t], %0 if t < 8\n  }\n}\n");
  std::string text, code;
  device("cuda").compile(kernel, &text);
  setenv("FAKE_CUDA_PTXAS", ptxas, 1);
  device("cuda").compile(kernel, &code);
  unsetenv("FAKE_CUDA_PTXAS");
  EXPECT_NE(text.find(".target sm_90a"), std::string::npos);
  EXPECT_EQ(code.substr(0, 4),
            "\x7f"
            "ELF");
}

// The driver's linker would take the registers away that threads trade.
TEST(Cuda, code_that_trades_registers_is_left_to_the_driver) {
  kernel::Kernel tiles = kernel::parse(R"(
kernel @product(in %a: bf16[9216], in %b: bf16[4608], out %c: f32[8192]) threads 384 {
  phase grid() {
    %0 = matrix_dot pipeline 4 after (0) steps (k < 2) %a[0] of (72, 128) by (1, 72) at (k * 64, 0) %b[0] of (64, 72) by (1, 64) at (0, k * 64) transposed : tile<128x64xf32>
    matrix_store %c[0] of (64, 128) by (1, 64) at (0, 0), %0
  }
}
)");
  std::string code;
  setenv("FAKE_CUDA_PTXAS", "false", 1);
  device("cuda").compile(lower(tiles, device("cuda").target()), &code);
  unsetenv("FAKE_CUDA_PTXAS");
  EXPECT_NE(code.find("setmaxnreg.inc"), std::string::npos);
}

std::shared_ptr<Executable> copy_of_32(Backend& gpu) {
  return gpu.compile(kernel::parse(R"(
kernel.thread @copy(in %x: f32[32], out %y: f32[32]) threads 32 thread t {
  phase grid() {
    %a = load %x[t] : f32
    store %y[t], %a
  }
}
)"));
}

TEST(Cuda, kernels_get_the_addresses_of_parts_of_memory) {
  Backend& gpu = device("cuda");
  std::shared_ptr<Executable> copy = copy_of_32(gpu);
  auto memory = gpu.allocate(1024), other = gpu.allocate(256);
  const BufferPart buffers[] = {{memory.get(), 640, 128}, {other.get(), 128, 128}};
  fake().wanted_words = 2;
  gpu.launch(*copy, buffers, {});
  fake().wanted_words = 0;
  EXPECT_EQ(fake().last.words[0], reinterpret_cast<uint64_t>(memory->address()) + 640);
  EXPECT_EQ(fake().last.words[1], reinterpret_cast<uint64_t>(other->address()) + 128);
  // Parts of one buffer that do not overlap do not wait for each other.
  const BufferPart first[] = {{memory.get(), 0, 128}, {memory.get(), 128, 128}};
  const BufferPart apart[] = {{memory.get(), 256, 128}, {memory.get(), 384, 128}};
  const BufferPart after[] = {{memory.get(), 128, 128}, {memory.get(), 512, 128}};
  const LaunchSegment segments[] = {{first, {}}, {apart, {}}, {after, {}}};
  std::vector<Submission> launches;
  for (const LaunchSegment& segment : segments) launches.push_back({copy.get(), {&segment, 1}});
  std::shared_ptr<void> recording;
  const int edges = fake().edges + fake().early_edges;
  gpu.launch_all(launches, recording);
  EXPECT_EQ(fake().edges + fake().early_edges, edges + 1);
}

// Launches of a recorded program wait for those whose memory they need and for no others.
TEST(Cuda, recorded_launches_wait_for_what_they_need) {
  Backend& gpu = device("cuda");
  std::shared_ptr<Executable> copy = copy_of_32(gpu);
  std::vector<std::shared_ptr<DeviceBuffer>> memory;
  for (int i = 0; i < 6; ++i) memory.push_back(gpu.allocate(128));
  using Pairs = std::vector<std::pair<int, int>>;
  std::shared_ptr<void> recording;
  auto run = [&](const Pairs& pairs) {
    std::vector<std::vector<BufferPart>> buffers;
    for (auto [from, to] : pairs)
      buffers.push_back({whole(*memory[static_cast<size_t>(from)]), whole(*memory[static_cast<size_t>(to)])});
    std::vector<LaunchSegment> segments;
    for (const auto& of_one : buffers) segments.push_back({of_one, {}});
    std::vector<Submission> launches;
    for (const LaunchSegment& segment : segments) launches.push_back({copy.get(), {&segment, 1}});
    const int edges = fake().edges, early = fake().early_edges;
    gpu.launch_all(launches, recording);
    return std::pair(fake().edges - edges, fake().early_edges - early);
  };
  auto anew = [&](const Pairs& pairs) {
    recording.reset();
    return run(pairs);
  };
  EXPECT_EQ(anew({{0, 1}, {2, 3}, {0, 4}}), std::pair(0, 0)) << "nothing in common but what is read";
  EXPECT_EQ(anew({{0, 1}, {1, 2}, {2, 3}}), std::pair(0, 2)) << "a chain: each starts early and waits itself";
  EXPECT_EQ(anew({{0, 1}, {1, 2}, {1, 3}}), std::pair(0, 2));
  EXPECT_EQ(anew({{0, 1}, {2, 3}, {1, 3}}), std::pair(2, 0)) << "reads one result, overwrites another";
  EXPECT_EQ(anew({{0, 1}, {2, 0}}), std::pair(0, 1)) << "overwrites what was read";
  EXPECT_EQ(anew({{0, 1}, {1, 2}, {0, 1}}), std::pair(0, 2)) << "what a launch waits for waits for the rest";
  // A third memory, in the same order: parameters are replaced. In another order: a new graph.
  anew({{0, 1}, {2, 3}});
  run({{0, 1}, {4, 3}});
  const int graphs = fake().graphs_made;
  EXPECT_EQ(run({{0, 1}, {4, 5}}), std::pair(0, 0));
  EXPECT_EQ(fake().graphs_made, graphs);
  EXPECT_EQ(run({{0, 1}, {1, 5}}), std::pair(0, 1));
  EXPECT_EQ(fake().graphs_made, graphs + 1);
}

TEST(Cuda, a_product_does_not_overwrite_its_factors) {
  Tensor x = ones({512, 512}, kBF16).realize(), w = ones({512, 512}, kBF16).realize();
  auto left = jit([&](Tensor b) { x.assign(matmul(x, b)); });
  auto right = jit([&](Tensor b) { x.assign(matmul(b, x)); });
  left(w);
  right(w);
  EXPECT_EQ(left.plans()[0].donated, 0u);
  EXPECT_EQ(right.plans()[0].donated, 0u);
}

TEST(Cuda, attention_of_any_length_has_a_plan) {
  for (int64_t keys : {1000, 20000, 70000}) {
    Tensor q = ones({1, 2, 8}).realize(), k = ones({1, keys, 8}).realize();
    scaled_dot_product_attention(q, k, k).realize();
  }
}

TEST(Cuda, weights_that_are_packed_stay_so) {
  // Rows that are no multiple of 16 bytes are packed first.
  Tensor x = ones({512, 510}, kBF16).realize(), w = ones({510, 511}, kBF16).realize();
  auto product = jit([&](Tensor a) { return matmul(a, w); });
  product(x);
  const int all = fake().nodes;
  for (int i = 0; i < 4; ++i) product(x);
  EXPECT_LT(fake().nodes, all);
}

TEST(Cuda, updates_of_many_tensors_are_one_launch) {
  std::vector<Tensor> parameters;
  for (int i = 0; i < 40; ++i) {
    parameters.push_back(ones({64 + i}).realize());
  }
  auto step = jit([&] {
    for (Tensor& p : parameters) p.assign(p * 0.5 + 1);
  });
  step();
  step();
  EXPECT_LE(fake().nodes, 3);
}

TEST(Cuda, profiles_and_measures_what_the_device_can_do) {
  Tensor x = ones({1000});
  x.realize();
  Profile profile = heddle::profile();
  (x + 1).realize();
  profile.stop();
  ProfileResult result = profile.result();
  ASSERT_EQ(result.kernels.size(), 1u);
  EXPECT_GT(result.roofline.flops_per_second, 0);
}

// Others work in streams of their own: theirs wait for ours before they read, and we for all before memory is ours
// again.
TEST(Cuda, memory_that_others_see_is_theirs_in_time) {
  Tensor x = (ones({100}) + 1).realize();
  int theirs = 0;
  const int waits = fake().waits, before = fake().context_waits;
  std::shared_ptr<const void> memory = device_memory(x, &theirs);
  EXPECT_EQ(fake().waits, waits + 1);
  EXPECT_EQ(fake().waiting, &theirs);
  EXPECT_EQ(device_memory(x), memory) << "without a queue";
  EXPECT_EQ(fake().waits, waits + 1);
  EXPECT_EQ(fake().context_waits, before + 1) << "of the second, let go of";
  x += 1;
  x.realize();
  EXPECT_NE(device_memory(x), memory) << "somebody has it: nothing is written there";
  x = Tensor();
  memory.reset();
  EXPECT_EQ(fake().context_waits, before + 3);
  EXPECT_NE(device_queue("cuda"), nullptr);
  EXPECT_EQ(device_queue("cpu"), nullptr);
}

TEST(Cuda, memory_of_others_is_used_where_it_lies_and_let_go_of_when_all_has_run) {
  Backend& gpu = device("cuda");
  std::shared_ptr<DeviceBuffer> theirs = gpu.allocate(4096);
  std::vector<float> values(1024);
  std::iota(values.begin(), values.end(), 0.0F);
  gpu.copy_from_host(*theirs, values.data(), 4096);
  auto elements = [&](int64_t first) {
    return std::shared_ptr<const void>(theirs, static_cast<const float*>(theirs->address()) + first);
  };
  const long holders = theirs.use_count();
  Tensor x = share_device_memory(elements(16), {4, 8}, kF32, "cuda");
  EXPECT_EQ(device_memory(x), elements(16));
  EXPECT_EQ(x.to_vector<float>()[3], 19);
  x.set({0}, 7.0F);
  x.realize();
  EXPECT_NE(device_memory(x), elements(16)) << "written elsewhere";
  (share_device_memory(elements(32), {8}, kF32, "cuda") + 1).realize();  // still queued
  gpu.synchronize();
  const int waits = fake().stream_waits;
  {
    Tensor y = share_device_memory(elements(32), {8}, kF32, "cuda");
    (y + 1).realize();
  }
  EXPECT_EQ(fake().stream_waits, waits + 1);
  { Tensor unused = share_device_memory(elements(32), {8}, kF32, "cuda"); }
  EXPECT_EQ(fake().stream_waits, waits + 1);
  EXPECT_EQ(theirs.use_count(), holders);
  Tensor copied = share_device_memory(elements(3), {5}, kF32, "cuda");
  EXPECT_EQ(theirs.use_count(), holders) << "begins anywhere: a copy";
  EXPECT_EQ(copied.to_vector<float>(), (std::vector<float>{3, 4, 5, 6, 7}));
  EXPECT_EQ(share_device_memory(nullptr, {0, 2}, kF32, "cuda").shape(), (Dims{0, 2}));
  EXPECT_THROW(share_device_memory(elements(0), {-1}, kF32, "cuda"), ShapeError);
  EXPECT_THROW(share_device_memory(elements(0), {4}, kF32, "simulated"), DeviceError);
  EXPECT_EQ(share_device_memory(elements(3), {2}, kF32, "cpu").to_vector<float>()[1], 4) << "here it is the host's too";
}

// Only a copy to memory that queued kernels may still need waits for them; kernels always wait for the copy.
TEST(Cuda, large_copies_go_on_beside_kernels) {
  Backend& gpu = device("cuda");
  std::shared_ptr<Executable> copy = copy_of_32(gpu);
  std::vector<char> data(size_t{2} << 20);
  auto from = gpu.allocate(128), to = gpu.allocate(data.size());
  auto waits_of_copy = [&] {
    const int before = fake().waits;
    gpu.copy_from_host(*to, data.data(), data.size());
    return fake().waits - before;
  };
  auto launch = [&](const std::shared_ptr<DeviceBuffer>& written) {
    const BufferPart parts[] = {whole(*from), {written.get(), 0, 128}};
    gpu.launch(*copy, parts, {});
  };
  gpu.synchronize();
  launch(gpu.allocate(128));
  EXPECT_EQ(waits_of_copy(), 1) << "nothing uses it";
  EXPECT_EQ(waits_of_copy(), 2) << "the copy before is waited for by what is queued";
  gpu.synchronize();
  EXPECT_EQ(waits_of_copy(), 1);
  gpu.synchronize();
  launch(to);
  EXPECT_EQ(waits_of_copy(), 2) << "a kernel may still write it";
  gpu.synchronize();
  launch(to);
  to.reset();
  to = gpu.allocate(data.size());
  EXPECT_EQ(waits_of_copy(), 2) << "nor had whoever had the memory before let go of it";
}

// What waits in pinned memory for the kernels' stream is not overwritten by a copy beside it.
TEST(Cuda, copies_beside_each_other_have_pinned_memory_of_their_own) {
  Backend& gpu = device("cuda");
  std::vector<char> large(size_t{24} << 20, 1);
  const int64_t small = 42;
  auto to = gpu.allocate(large.size()), other = gpu.allocate(sizeof small);
  gpu.copy_from_host(*other, &small, sizeof small);
  const int pinned = fake().pinned;
  gpu.copy_from_host(*to, large.data(), large.size());
  gpu.copy_from_host(*other, &small, sizeof small);
  EXPECT_LE(fake().pinned, pinned + 2) << "two halves for each stream";
  EXPECT_GE(fake().pinned, 4);
}

TEST(Cuda, a_loop_with_a_condition_is_one_launch) {
  const Tensor a = full({100}, 2.).realize(), x = ones({100}).realize(), none = zeros({}, kI32).realize();
  auto run = jit([&](const Tensor& begin) {
    return while_loop([](const TensorList& c) { return c[1] < 1000; },
                      [&](const TensorList& c) { return TensorList{(c[0] + a / c[0]) / 2, c[1] + 1}; },
                      TensorList{begin, none})[0];
  });
  run(x);
  const FakeDriver before = fake();
  run(x);
  EXPECT_EQ(fake().graph_launches, before.graph_launches + 1);
  EXPECT_EQ(fake().launches, before.launches);
  EXPECT_GT(fake().loops, 0);
  EXPECT_GE(fake().loop_nodes, 3) << "two rounds, and the look at the condition";
  for (int i = 0; i < 4; ++i) run(x);
  EXPECT_LE(fake().loops, before.loops + 4) << "a graph for each memory of the results, and no more";
  const int loops = fake().loops;
  for (int i = 0; i < 4; ++i) run(x);
  EXPECT_EQ(fake().loops, loops);
  // A driver that has no such nodes.
  Backend& gpu = device("cuda");
  std::shared_ptr<Executable> copy = copy_of_32(gpu);
  auto from = gpu.allocate(128), to = gpu.allocate(128);
  const BufferPart parts[] = {whole(*from), whole(*to)};
  const LaunchSegment segment{parts, {}};
  const Submission round{copy.get(), {&segment, 1}};
  std::shared_ptr<void> recording;
  fake().fails_in = "cuGraphConditionalHandleCreate";
  fake().fails_with = 801;
  EXPECT_FALSE(gpu.launch_while({&round, 1}, {&round, 1}, whole(*to), recording));
  fake().fails_in = nullptr;
  EXPECT_FALSE(gpu.launch_while({&round, 1}, {&round, 1}, whole(*to), recording)) << "it is not tried again";
  EXPECT_EQ(fake().loops, loops);
}

TEST(Cuda, a_kernel_that_fails_is_named_at_the_next_synchronisation) {
  // On the second device: the first has to go on.
  Backend& gpu = device("cuda:1");
  auto buffer = gpu.allocate(64);
  fake().fails_in = "cuStreamSynchronize";
  fake().fails_with = 700;
  std::string message = message_of<DeviceError>([&] { gpu.synchronize(); });
  fake().fails_in = nullptr;
  EXPECT_NE(message.find("illegal memory access"), std::string::npos) << message;
  message = message_of<DeviceError>([&] { gpu.allocate(64); });
  EXPECT_NE(message.find("does not run any more"), std::string::npos) << message;
  EXPECT_NE(message.find("illegal memory access"), std::string::npos) << message;
  device("cuda").synchronize();
  device("cpu").synchronize();
}

TEST(Cuda, errors_that_can_be_survived_leave_the_device_usable) {
  Tensor x = ones({10});
  x.realize();
  fake().fails_in = "cuLaunchKernel";
  fake().fails_with = 1;
  std::string message = message_of<DeviceError>([&] { (x * 3).realize(); });
  fake().fails_in = nullptr;
  EXPECT_NE(message.find("launching"), std::string::npos) << message;
  (x * 3).realize();
  device("cuda").synchronize();
}

TEST(Cuda, code_that_the_driver_refuses_is_a_compile_error) {
  Tensor x = ones({11});
  x.realize();
  fake().fails_in = "cuLinkAddData_v2";
  fake().fails_with = 218;
  std::string message = message_of<CompileError>([&] { (x * 5 - 2).realize(); });
  fake().fails_in = nullptr;
  EXPECT_NE(message.find("assemble"), std::string::npos) << message;
}

// Whether the action throws DeviceError that speaks of fork().
bool refuses_after_fork(const std::function<void()>& action) {
  try {
    action();
  } catch (const DeviceError& e) {
    return std::string(e.what()).find("does not survive fork()") != std::string::npos;
  }
  return false;
}

// A child cannot give back what its parent has on a GPU.
bool is_child = false;
#if HD_ADDRESS_SANITIZER
extern "C" int __lsan_is_turned_off() { return is_child; }
#endif

TEST(Cuda, does_not_survive_fork_and_says_so) {
  Backend& gpu = device("cuda");
  Tensor x = ones({16});
  auto step = jit([&](const Tensor& t) { return t * 2 + 1; });
  for (int i = 0; i < 3; ++i) step(x);
  auto buffer = gpu.allocate(64);
  EXPECT_EQ(in_child([&] {
              bool right = refuses_after_fork([&] { gpu.allocate(16); }) &&
                           refuses_after_fork([&] { gpu.copy_from_host(*buffer, "x", 1); }) &&
                           refuses_after_fork([&] { gpu.synchronize(); }) &&
                           refuses_after_fork([&] { (x + 1).realize(); }) && refuses_after_fork([&] { step(x); }) &&
                           refuses_after_fork([&] { x.to_vector<float>(); }) &&
                           refuses_after_fork([] { device("cuda:1").allocate(16); });
              // What the parent has is given back without the driver, and other devices work.
              const int modules = fake().modules;
              step.clear();
              buffer.reset();
              x = Tensor();
              return right && fake().modules == modules && device("cpu").allocate(64)->address() != nullptr;
            }),
            "");
  EXPECT_EQ(step(x).shape().size(), 1u);
  EXPECT_EQ(in_child([] {
              is_child = true;
              std::exit(0);
              return true;
            }),
            "");
}

}  // namespace
}  // namespace heddle
