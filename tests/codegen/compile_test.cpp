#include <algorithm>
#include <chrono>
#include <thread>

#include "codegen/nvptx.h"
#include "run.h"

namespace heddle {
namespace {

// x -> a chain of 16 operations on 16 lanes.
kernel::Kernel chain(int number = 0) {
  std::string body =
      "%v0 = load %x[i * 256 + k * 16 + d0] : vec<16xf32>\n%w = load %y[i * 256 + k * 16 + d0] : vec<16xf32>\n";
  const char* ops[] = {"add", "mul", "sub", "maximum", "add", "mul", "minimum", "sub"};
  for (int k = 0; k < 16; ++k) body += text("%v", k + 1, " = ", ops[k % 8], " %v", k, ", %w\n");
  return kernel::parse(
      text("kernel.thread @chain", number, "(in %x: f32[65536], in %y: f32[65536], out %z: f32[65536]) {\n",
           "phase grid(i < 256) {\nloop k < 16 {\n", body, "store %z[i * 256 + k * 16 + d0], %v16\n}\n}\n}\n"));
}

TEST(Compile, the_host_target_is_described) {
  const Target& target = host_target();
  EXPECT_GE(target.cores, 1);
  EXPECT_GE(target.l1_bytes, 8 << 10);
  EXPECT_GT(target.l2_bytes, target.l1_bytes);
  EXPECT_THROW(cpu_target("z80"), ValueError);
}

TEST(Compile, code_is_as_wide_as_the_machine_and_calls_nothing) {
  for (const Target& target : targets()) {
    std::string assembly = host_assembly(chain(), target);
    std::string wide = target.name == "avx512" ? "zmm" : target.name == "avx2" ? "ymm" : "xmm";
    EXPECT_NE(assembly.find(wide), std::string::npos) << assembly;
    EXPECT_EQ(assembly.find("call"), std::string::npos) << assembly;
    EXPECT_NE(assembly.find("chain0_0:"), std::string::npos) << assembly;
  }
}

TEST(Compile, phases_that_are_alike_share_a_function) {
  auto phase = [](int add) {
    return text("phase grid(i < 8) {\n%v", add, " = load %x[i] : f32\n%c = constant ", add % 10, " : f32\n%w = add %v",
                add, ", %c\nstore %x[i], %w\n}\n");
  };
  kernel::Kernel kernel =
      kernel::parse(text("kernel.thread @again(inout %x: f32[8]) {\n", phase(1), phase(2), phase(11), phase(3), "}\n"));
  CompiledKernel compiled = compile_host(kernel, host_target());
  ASSERT_EQ(compiled.phases.size(), 4u);
  EXPECT_EQ(compiled.phases[0], compiled.phases[2]);
  EXPECT_NE(compiled.phases[0], compiled.phases[1]);
  EXPECT_NE(compiled.phases[1], compiled.phases[3]);
  Memory x(kF32, 8);
  for (int64_t i = 0; i < 8; ++i) x.set(i, Scalar::of(kF32, static_cast<double>(i)));
  run_compiled(kernel, compiled, {x.data()}, {});
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(x.at(i).f, static_cast<double>(i + 7));
}

TEST(Compile, addresses_that_do_not_change_leave_the_loop) {
  std::string ir = llvm_ir(kernel::parse(R"(
kernel.thread @hoist(in %x: f32[4096], out %y: f32[4096]) symbols (n in [1, 64]) {
  phase grid(i < 4) {
    loop k < 8 {
      %v = load %x[i * n * 8 + (i // 3) * n + k] : f32
      store %y[i * n * 8 + (i // 3) * n + k], %v
    }
  }
}
)"),
                           host_target());
  size_t inner = ir.find("loop:");
  ASSERT_NE(inner, std::string::npos) << ir;
  EXPECT_EQ(ir.find(" mul ", inner), std::string::npos) << ir;
  EXPECT_EQ(ir.find("div ", inner), std::string::npos) << ir;
}

TEST(Compile, an_output_may_have_the_memory_of_an_input_of_its_size) {
  // The input is used again, in another block, after the output was written.
  auto kernel = [](int out_size) {
    return kernel::parse(text("kernel.thread @donate(in %x: f32[64], out %y: f32[", out_size,
                              R"(], out %z: f64[64]) symbols (n in [0, 9]) {
  phase grid(i < 4) {
    %a = load %x[i * 16 + d0] : vec<16xf32>
    %b = add %a, %a
    store %y[i * 16 + d0], %b
    branch i < n {
      %c = cast %a : vec<16xf64>
      store %z[i * 16 + d0], %c
    }
  }
}
)"));
  };
  EXPECT_EQ(llvm_ir(kernel(64), host_target()).find("invariant.load"), std::string::npos);
  EXPECT_NE(llvm_ir(kernel(80), host_target()).find("invariant.load"), std::string::npos);
  CompiledKernel compiled = compile_host(kernel(64), host_target());
  Memory x(kF32, 64), z(kF64, 64);
  std::fill_n(x.as<float>(), 64, 3.0f);
  void* buffers[] = {x.data(), x.data(), z.data()};
  int64_t n = 9;
  compiled.phases[0](buffers, &n, 0, 4, nullptr);
  for (int k = 0; k < 64; ++k) {
    EXPECT_EQ(x.as<float>()[k], 6.0f);
    EXPECT_EQ(z.as<double>()[k], 3.0);
  }
}

TEST(Compile, streaming_stores_appear_where_aligned) {
  auto kernel = [](const char* offset) {
    return kernel::parse(
        text("kernel.thread @s(in %x: f32[64], out %y: f32[80]) {\nphase grid(i < 4) {\n%v = load %x[i * 16 + d0] "
             ": vec<16xf32>\nstore %y[i * 16 + d0 + ",
             offset, "], %v stream\n}\n}\n"));
  };
  std::string aligned = host_assembly(kernel("16"), host_target()), shifted = host_assembly(kernel("3"), host_target());
  EXPECT_NE(aligned.find("movntps"), std::string::npos) << aligned;
  EXPECT_NE(aligned.find("sfence"), std::string::npos) << aligned;
  EXPECT_EQ(shifted.find("movnt"), std::string::npos) << shifted;
}

TEST(Compile, dropped_kernels_give_their_memory_back) {
  CompiledKernel first = compile_host(chain(), host_target());
  CodeMemory before = code_memory();
  EXPECT_GE(before.kernels, 1u);
  {
    std::vector<CompiledKernel> kernels;
    for (int k = 0; k < 100; ++k) kernels.push_back(compile_host(chain(k), host_target()));
    CodeMemory during = code_memory();
    EXPECT_EQ(during.kernels, before.kernels + 100);
    EXPECT_GT(during.bytes, before.bytes);
    EXPECT_LE(during.mappings, before.mappings + 2);
    // Every other one, so that gaps are filled again.
    for (size_t k = 0; k < kernels.size(); k += 2) kernels[k] = {};
    for (size_t k = 0; k < kernels.size(); k += 2) kernels[k] = compile_host(chain(static_cast<int>(k)), host_target());
    EXPECT_EQ(code_memory().bytes, during.bytes);
    Memory x(kF32, 65536), y(kF32, 65536), z(kF32, 65536);
    void* buffers[] = {x.data(), y.data(), z.data()};
    std::fill_n(x.as<float>(), 65536, 3.0f);
    std::fill_n(y.as<float>(), 65536, 2.0f);
    for (const CompiledKernel& k : kernels) k.phases[0](buffers, nullptr, 0, 256, nullptr);
    EXPECT_EQ(z.as<float>()[65535], 0.0f);
  }
  CodeMemory after = code_memory();
  EXPECT_EQ(after.kernels, before.kernels);
  EXPECT_EQ(after.bytes, before.bytes);
  EXPECT_EQ(after.mappings, before.mappings);
}

TEST(Compile, threads_compile_at_the_same_time) {
  std::vector<std::thread> threads;
  std::vector<float> results(4);
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Memory x(kF32, 65536), y(kF32, 65536), z(kF32, 65536);
      void* buffers[] = {x.data(), y.data(), z.data()};
      std::fill_n(y.as<float>(), 65536, 2.0f);
      for (int k = 0; k < 5; ++k) compile_host(chain(k), host_target()).phases[0](buffers, nullptr, 0, 256, nullptr);
      results[t] = z.as<float>()[7] + 1;
    });
  for (std::thread& thread : threads) thread.join();
  for (float r : results) EXPECT_EQ(r, results[0]);
}

TEST(Compile, a_small_kernel_takes_milliseconds) {
  std::vector<double> times;
  for (int k = 0; k < 15; ++k) {
    kernel::Kernel kernel = chain(k);
    auto start = std::chrono::steady_clock::now();
    compile_host(kernel, host_target());
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::sort(times);
  std::printf("compile_host of a 16-op chain: best %.2f ms, median %.2f ms\n", times.front(), times[times.size() / 2]);
  EXPECT_LT(times.front(), 50);
}

TEST(Compile, what_the_machine_cannot_run_is_refused) {
  kernel::Kernel kernel = chain();
  kernel.threads = 32;
  EXPECT_THROW(compile_host(kernel, host_target()), CompileError);
  kernel = chain();
  kernel.level = kernel::Level::Tile;
  EXPECT_THROW(compile_host(kernel, host_target()), CompileError);
  EXPECT_THROW(compile_host(chain(), nvidia_target()), CompileError);
  EXPECT_THROW(ptx(chain(), host_target()), CompileError);
  EXPECT_THROW(nvidia_target("gfx90a"), ValueError);
}

}  // namespace
}  // namespace heddle
