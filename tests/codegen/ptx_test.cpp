#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "codegen/nvptx.h"
#include "kernel/passes.h"
#include "run.h"

namespace heddle {
namespace {

std::string ptxas() {
  std::string path = std::getenv("PATH") ? std::getenv("PATH") : "";
  std::istringstream folders(path + ":/usr/local/cuda/bin");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((folder + "/ptxas").c_str(), X_OK) == 0) return folder + "/ptxas";
  return {};
}

// NVIDIA's assembler accepts the PTX; nothing is checked where there is none.
void expect_assembles(const std::string& source, const std::string& arch = "sm_90a") {
  std::string assembler = ptxas();
  if (assembler.empty()) return;
  auto folder = std::filesystem::temp_directory_path();
  std::string base = (folder / text("heddle_ptx_", getpid())).string();
  std::ofstream(base + ".ptx") << source;
  std::string command = text(assembler, " -arch=", arch, " -o ", base, ".cubin ", base, ".ptx > ", base, ".log 2>&1");
  int status = std::system(command.c_str());
  std::stringstream log;
  log << std::ifstream(base + ".log").rdbuf();
  for (const char* ending : {".ptx", ".cubin", ".log"}) std::filesystem::remove(base + ending);
  EXPECT_EQ(status, 0) << log.str() << "\n" << source;
}

std::string check(const std::string& source) {
  kernel::Kernel kernel = kernel::parse(source);
  kernel::verify(kernel);
  std::string result = ptx(kernel, nvidia_target());
  expect_assembles(result);
  return result;
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

// Every dtype and way of combining, also on cards that lack some of the instructions.
TEST(Ptx, atomic_updates_of_every_dtype) {
  for (const char* arch : {"sm_90a", "sm_80", "sm_75"})
    for (const char* dtype : {"f32", "f64", "f16", "bf16", "f8e4m3", "i8", "i16", "i32", "i64", "u8", "u64"}) {
      std::string body;
      for (const char* op : {"add", "mul", "maximum", "minimum"})
        body += text("    combine ", op, " %y[v0], %a with v0 < 99 = %i\n");
      std::string source = text("kernel.thread @update(in %x: ", dtype, "[128], in %n: i64[128], inout %y: ", dtype,
                                "[99]) threads 128 thread t {\n  phase grid(c < 1) {\n    %a = load %x[t] : ", dtype,
                                "\n    %i = load %n[t] : i64\n", body, "  }\n}\n");
      kernel::Kernel kernel = kernel::parse(source);
      kernel::verify(kernel);
      kernel::run(kernel, kernel::thread_pipeline(true));
      std::string result = ptx(kernel, nvidia_target(arch));
      expect_assembles(result, arch);
      if (std::string(dtype) == "f32") {
        EXPECT_HAS(result, "add.f32");
      }
      if (std::string(dtype) == "f16") {
        EXPECT_HAS(result, "add.noftz.f16");
      }
      if (std::string(dtype) == "bf16" && std::string(arch) == "sm_90a") {
        EXPECT_HAS(result, "add.noftz.bf16");
      }
    }
}

TEST(Ptx, elementwise_on_many_threads) {
  std::string source = check(R"(
kernel.thread @scale(in %x: f32[4096], out %y: f32[5000]) symbols (n in [1, 4096]) threads 128 thread t {
  phase grid(i < 8) {
    %a = load %x[(i * 128 + t) * 4 + d0] : vec<4xf32>
    %b = mul %a, %a
    %c = add %b, %a
    store %y[(i * 128 + t) * 4 + d0], %c
    %s = load %x[i * 128 + t] if i * 128 + t < n : f32
    store %y[i * 128 + t], %s if i * 128 + t < n
  }
}
)");
  EXPECT_HAS(source, ".entry scale_0");
  EXPECT_HAS(source, "%tid.x");
  EXPECT_HAS(source, "%ctaid.x");
  EXPECT_HAS(source, ".v4.f32");
  EXPECT_HAS(source, "add.rn.f32");  // .rn: the assembler may not fuse it with the multiplication
  EXPECT_EQ(source.find("fma"), std::string::npos) << source;
}

// What passes leave of a buffer in shared memory may be its name, or no element.
TEST(Ptx, shared_memory_that_nobody_uses_takes_no_room) {
  for (const char* size : {"8", "0"}) {
    std::string source = check(
        text("kernel.thread @idle(in %x: f32[64], out %y: f32[64]) threads 64 thread t {\n  shared %l: f32[", size, R"(]
  phase grid(i < 1) {
    %a = load %x[t] : f32
    store %y[t], %a
  }
}
)"));
    EXPECT_HAS(source, ".entry idle_0");
  }
}

TEST(Ptx, a_reduction_through_shared_memory_and_shuffles) {
  std::string source = check(R"(
kernel.thread @sum(in %x: f32[65536], out %y: f32[256], out %z: f64[256]) threads 256 thread t {
  shared %l: f32[8]
  phase grid(i < 256) {
    %a = load %x[i * 256 + t] : f32
    %s1 = shuffle_xor %a, 16
    %a1 = add %a, %s1
    %s2 = shuffle_xor %a1, 8
    %a2 = add %a1, %s2
    store %l[t // 32], %a2 if t % 32 == 0
    barrier
    %b = load %l[t] if t < 8 : f32
    %d = cast %b : f64
    %d1 = shuffle_xor %d, 1
    %p = lt %d, %d1
    %p1 = shuffle_xor %p, 2
    %h = cast %b : f16
    %h1 = shuffle_xor %h, 4
    %h2 = cast %h1 : f64
    %r = where %p1, %d1, %h2
    store %z[i], %r if t == 0
    store %y[i], %b if t == 0
  }
}
)");
  EXPECT_HAS(source, ".shared");
  EXPECT_HAS(source, "bar.sync");
  EXPECT_HAS(source, "shfl.sync.bfly.b32");
  EXPECT_HAS(source, ".maxntid 256");
}

TEST(Ptx, every_native_op_and_cast_assembles) {
  const DType all[] = {kBool, kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64, kF16, kBF16, kF32, kF64};
  for (DType dtype : all) {
    std::string head = text("kernel.thread @all(in %x: ", dtype, "[64], in %w: bool[64]");
    std::string body = text("%a = load %x[t] : ", dtype, "\n%b = load %x[t + 32] : ", dtype,
                            "\n%c = load %x[31 - t] : ", dtype, "\n%p = load %w[t] : bool\n");
    auto emit = [&](int number, const std::string& what, DType result) {
      head += text(", out %o", number, ": ", result, "[32]");
      body += text("%r", number, " = ", what, "\nstore %o", number, "[t], %r", number, "\n");
    };
    for (int k = 0; k < kScalarOpCount; ++k) {
      ScalarOp op = static_cast<ScalarOp>(k);
      if (!info(op).native) continue;
      std::vector<DType> operands(static_cast<size_t>(info(op).arity), dtype);
      if (op == ScalarOp::where) operands[0] = kBool;
      std::optional<DType> result = result_dtype(op, operands);
      if (!result) continue;
      const char* args[] = {"%a", "%a, %b", "%a, %b, %c"};
      emit(k, text(info(op).name, " ", op == ScalarOp::where ? "%p, %a, %b" : args[info(op).arity - 1]), *result);
    }
    for (DType to : all) emit(100 + static_cast<int>(to), text("cast %a : ", to), to);
    std::string source = check(text(head, ") threads 32 thread t {\nphase grid() {\n", body, "}\n}\n"));
    if (dtype == kF64) {
      EXPECT_HAS(source, "div.rn.f64");
      EXPECT_HAS(source, "sqrt.rn.f64");
    }
    if (dtype == kF32) {
      EXPECT_HAS(source, "div.rn.f32");
      EXPECT_HAS(source, "sqrt.rn.f32");
      EXPECT_HAS(source, "fma.rn.f32");
    }
  }
}

TEST(Ptx, vectors_masks_gathers_loops_and_atomics) {
  std::string source = check(R"(
kernel.thread @mixed(in %x: f32[4096], in %i: i32[4096], inout %y: f32[4096], inout %h: f16[64]) symbols (n in [1, 4096]) threads 64 thread t {
  shared %l: i32[64]
  phase grid(i < 4, j < 3) {
    %zero = constant 0 : vec<4xf32>
    %s = loop k < n carry (%a = %zero) {
      %v = load %x[(k * 64 + t) * 4 + d0] if (k * 64 + t) * 4 + d0 < n : vec<4xf32>
      %b = add %a, %v
      yield %b
    }
    %m = reduce maximum %s axis 0
    %k = load %i[t * 4 + d0] : vec<4xi32>
    %g = load %x[v0 * 3] with v0 < 1000 = %k if v0 < 500 : vec<4xf32>
    combine add %y[t * 4 + d0], %g if t < 60
    combine maximum %y[i], %m
    %m16 = cast %m : f16
    combine add %h[j], %m16
    %c = index t : i32
    combine add %l[t % 8], %c
    barrier
    branch j == 1 {
      store %y[t * 8 + d0 * 2], %s
    }
  }
  phase grid(i < 64) {
    %a = load %y[i * 64 + t] : f32
    %b = fma %a, %a, %a
    store %y[i * 64 + t], %b
  }
}
)");
  EXPECT_HAS(source, "mixed_1");
  EXPECT_HAS(source, "atom.");
}

int occurrences(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// exp and exp2 are one instruction of the special function unit and a few around it, the one that flushes subnormal
// results, because it has none; and a reciprocal jumps over the long division for all lanes at once.
TEST(Ptx, special_functions) {
  kernel::Kernel kernel = kernel::parse(R"(
kernel.thread @special(in %x: f32[512], out %y: f32[512], out %z: f32[512]) threads 128 thread t {
  phase grid() {
    %a = load %x[t * 4 + d0] : vec<4xf32>
    %b = exp %a
    %c = constant 1 : f32
    %d = add %b, %c
    %e = div %c, %d
    store %y[t * 4 + d0], %e
    %f = exp2 %a
    store %z[t * 4 + d0], %f
  }
}
)");
  run(kernel, kernel::thread_pipeline(true));
  std::string source = ptx(kernel, nvidia_target());
  expect_assembles(source);
  auto count = [&](const char* part) { return occurrences(source, part); };
  EXPECT_EQ(count("ex2.approx.ftz.f32"), 8);
  EXPECT_EQ(count("ex2.approx.f32"), 0);
  EXPECT_EQ(count("rcp.approx.ftz.f32"), 4);
  EXPECT_EQ(count("rcp.rn.f32"), 4);
  EXPECT_EQ(count("bra"), 1) << source;
}

// A rounded exp needs no bound, and pairs of bf16 are taken apart as words.
TEST(Ptx, rounded_exponentials) {
  kernel::Kernel kernel = kernel::parse(R"(
kernel.thread @rounded(in %x: f32[512], out %y: f32[512]) threads 128 thread t {
  phase grid() {
    %a = load %x[t * 4 + d0] : vec<4xf32>
    %b = exp %a
    %c = cast %b : vec<4xbf16>
    %d = cast %c : vec<4xf32>
    store %y[t * 4 + d0], %d
  }
}
)");
  run(kernel, kernel::thread_pipeline(true));
  std::string source = ptx(kernel, nvidia_target());
  expect_assembles(source);
  auto count = [&](const char* part) { return occurrences(source, part); };
  EXPECT_EQ(count("ex2.approx.ftz.f32"), 4);
  EXPECT_EQ(count("max"), 1) << source;  // of .maxntid
  EXPECT_EQ(count("cvt.rn.bf16x2.f32"), 2);
  EXPECT_EQ(count("%rs"), 0) << source;
}

// A kernel of sm_90 and later waits for those before it itself, before it reads anything, and lets the next one start.
TEST(Ptx, kernels_wait_for_those_before_them) {
  const std::string source = R"(
kernel.thread @copy(in %x: f32[100], in %i: i32[100], out %y: f32[128]) threads 128 thread t {
  phase grid() {
    %i0 = load %i[t] if t < 100 : i32
    %a = load %x[v0] with v0 in [0, 99] = %i0 if t < 100 : f32
    store %y[t], %a
  }
}
)";
  kernel::Kernel kernel = kernel::parse(source);
  std::string early = ptx(kernel, nvidia_target("sm_90")), late = ptx(kernel, nvidia_target("sm_80"));
  expect_assembles(early);
  const size_t wait = early.find("griddepcontrol.wait"), load = early.find("ld.global");
  EXPECT_LT(wait, load) << early;
  EXPECT_NE(load, std::string::npos);
  EXPECT_NE(early.find("griddepcontrol.launch_dependents"), std::string::npos);
  EXPECT_EQ(early.find("ld.global.nc"), std::string::npos) << "such a load might be moved before the wait\n" << early;
  EXPECT_EQ(late.find("griddepcontrol"), std::string::npos);
  EXPECT_HAS(late, "ld.global.nc");
}

// LLVM would end the process over an instruction that the machine lacks. Afterwards it still works. What it had under
// way is lost, which the leak sanitizer must not see: a process of its own.
TEST(Ptx, what_llvm_gives_up_on_is_an_error) {
  kernel::Kernel kernel = kernel::parse(R"(
kernel.thread @new(in %x: f32[128], out %y: f32[128]) threads 32 thread t {
  shared %l: f32[128]
  phase grid() {
    copy %l[t * 4], %x[t * 4] first 4
    copy_fence 0
    barrier
    %a = load %l[t] : f32
    store %y[t], %a
  }
}
)");
  EXPECT_NO_THROW(kernel::verify(kernel));
  Target old = nvidia_target("sm_60");
  add_instructions(old, kFragments);
  const auto refused_then_compiled = [&] {
    try {
      ptx(kernel, old);
    } catch (const CompileError&) {
      return ptx(kernel, nvidia_target()).find("cp.async") != std::string::npos;
    }
    return false;
  };
  EXPECT_EXIT(std::_Exit(refused_then_compiled() ? 0 : 1), testing::ExitedWithCode(0), "^$");
}

TEST(Ptx, too_much_shared_memory_is_refused) {
  kernel::Kernel kernel = kernel::parse(R"(
kernel.thread @big(out %y: f32[4]) threads 32 thread t {
  shared %l: f32[1000000]
  phase grid() {
    %a = load %l[t] : f32
    store %y[0], %a if t == 0
  }
}
)");
  EXPECT_THROW(ptx(kernel, nvidia_target()), CompileError);
}

}  // namespace
}  // namespace heddle
