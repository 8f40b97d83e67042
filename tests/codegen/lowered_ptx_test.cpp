// PTX made from programs lowered to many threads is accepted by NVIDIA's assembler.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "codegen/codegen.h"
#include "codegen/nvptx.h"
#include "compile/simt/lower.h"
#include "compile/simt_programs.h"
#include "kernel/passes.h"

namespace heddle {
namespace {

std::string find_ptxas() {
  std::string path = std::getenv("PATH") ? std::getenv("PATH") : "";
  path += ":/usr/local/cuda/bin";
  for (size_t begin = 0; begin <= path.size();) {
    size_t end = std::min(path.find(':', begin), path.size());
    std::string candidate = path.substr(begin, end - begin) + "/ptxas";
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    begin = end + 1;
  }
  return {};
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

TEST(LoweredPtx, is_accepted_by_ptxas) {
  std::string ptxas = find_ptxas();
  if (ptxas.empty()) GTEST_SKIP() << "no ptxas found";
  Target target = nvidia_target();
  auto folder = std::filesystem::temp_directory_path() / ("heddle_ptx_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  int assembled = 0;
  for (const auto& program : testing::simt_programs()) {
    kernel::Kernel k = kernel::parse(program.text);
    k.threads = 128;
    kernel::Kernel lowered;
    try {
      lowered = lower_simt(k, target);
    } catch (const CompileError& e) {  // more shared memory than a block has
      EXPECT_NE(std::string(e.what()).find("shared memory"), std::string::npos) << e.what();
      continue;
    }
    kernel::run(lowered, kernel::thread_pipeline(true));
    kernel::expand_math_by_exp2(lowered);
    ++assembled;
    std::string text = ptx(lowered, target);
    EXPECT_NE(text.find(std::string(program.name) + "_0"), std::string::npos) << text;
    auto file = folder / (std::string(program.name) + ".ptx");
    std::ofstream(file) << text;
    std::string log = (folder / "log").string();
    std::string command = ptxas + " -arch=sm_90a -O1 -o /dev/null " + file.string() + " > " + log + " 2>&1";
    EXPECT_EQ(std::system(command.c_str()), 0) << program.name << ": " << read_file(log);
  }
  EXPECT_GE(assembled, 20);
  std::filesystem::remove_all(folder);
}

// A factor each way round, results that leave as a tile, blocks taken in turn.
constexpr const char* kProduct = R"(
kernel @product(in %a: bf16[5040], in %b: bf16[4608], out %c: bf16[4480]) threads 256 {
  phase grid(block < 2) {
    loop turn < 2 {
      %0 = matrix_dot pipeline 4 after (turn * 2) steps (k < 2) %a[0] of (72, 70) by (1, 72) at (k * 64, turn * 64) %b[0] of (64, 72) by (1, 64) at (0, k * 64) transposed : tile<64x64xf32>
      %1 = cast %0 : tile<64x64xbf16>
      matrix_store %c[0] of (64, 70) by (1, 64) at (0, turn * 64), %1
    }
  }
}
)";

std::string product_ptx(const std::string& tiles) {
  const Target target = nvidia_target();
  kernel::Kernel lowered = lower_simt(kernel::parse(tiles), target);
  kernel::run(lowered, kernel::thread_pipeline(true));
  return ptx(lowered, target);
}

// Where there is an assembler: that it takes the text, and finds registers for everything.
void expect_no_spills(const std::string& text) {
  std::string ptxas = find_ptxas();
  if (ptxas.empty()) GTEST_SKIP() << "no ptxas found";
  auto folder = std::filesystem::temp_directory_path() / ("heddle_matrix_ptx_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "product.ptx") << text;
  std::string log = (folder / "log").string();
  std::string command =
      ptxas + " -v -arch=sm_90a -o /dev/null " + (folder / "product.ptx").string() + " > " + log + " 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << read_file(log);
  EXPECT_NE(read_file(log).find(" 0 bytes spill stores"), std::string::npos) << read_file(log);
  std::filesystem::remove_all(folder);
}

TEST(LoweredPtx, products_on_the_matrix_unit) {
  std::string text = product_ptx(kProduct);
  for (const char* part : {"wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16", "cp.async.bulk.tensor.2d.shared",
                           "cp.async.bulk.tensor.2d.global", "mbarrier.try_wait.parity", "cvt.rn.bf16x2.f32"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
  // Three buffers, then a descriptor for each use of one.
  EXPECT_NE(text.find(".param .align 64 .b8 product_0_param_5[128]"), std::string::npos);
  EXPECT_EQ(text.find("product_0_param_6"), std::string::npos);
  expect_no_spills(text);
}

// No copy takes them: words do, and where a row begins between two, halves of both.
TEST(LoweredPtx, results_whose_rows_begin_anywhere) {
  std::string tiles = kProduct;
  for (auto [from, to] : {std::pair("of (64, 70) by (1, 64)", "of (61, 70) by (1, 61)"), {"bf16[4480]", "bf16[4270]"}})
    tiles.replace(tiles.find(from), std::string(from).size(), to);
  std::string text = product_ptx(tiles);
  for (const char* part : {"bar.warp.sync", "prmt.b32", "st.global.u32", "st.global.u16"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
  EXPECT_EQ(text.find("cp.async.bulk.tensor.2d.global"), std::string::npos);
  EXPECT_EQ(text.find("product_0_param_5"), std::string::npos) << "a descriptor for the result";
  expect_no_spills(text);
}

// Products by warps: every dtype, both factors along the sum and, where the machine can turn them, across it.
TEST(LoweredPtx, products_of_fragments) {
  struct Case {
    const char *factor, *sum, *instruction;
    int oldest;  // machine that has it
  };
  const std::string ptxas = find_ptxas();
  auto folder = std::filesystem::temp_directory_path() / ("heddle_warp_ptx_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  for (const Case& c : {Case{"bf16", "f32", "m16n8k16.row.col.f32.bf16.bf16.f32", 80},
                        Case{"f16", "f32", "m16n8k16.row.col.f32.f16.f16.f32", 80},
                        Case{"f32", "f32", "m16n8k8.row.col.f32.tf32.tf32.f32", 80},
                        Case{"i8", "i32", "m16n8k32.row.col.s32.s8.s8.s32", 80},
                        Case{"f8e4m3", "f32", "m16n8k32.row.col.f32.e4m3.e4m3.f32", 89},
                        Case{"f8e5m2", "f32", "m16n8k32.row.col.f32.e5m2.e5m2.f32", 89}})
    for (bool transposed : {false, true})
      for (bool loop : {false, true}) {
        const bool two_bytes = std::string(c.factor).ends_with("f16");
        if (transposed && !two_bytes) continue;
        // A single step: no loop, and sums that begin as constants.
        const char* steps = loop ? "2" : "1";
        const std::string source =
            text("kernel @product(in %a: ", c.factor, "[6400], in %b: ", c.factor, "[8192], out %c: ", c.sum,
                 "[6400]) threads 128 {\n  phase grid() {\n    %0 = warp_dot pipeline 3 steps (k < ", steps,
                 ") %a[0] of (64, 100) by "
                 "(1, 64) "
                 "at (k * 32, 0) %b[0] of (64, 128) by (1, 64) at ",
                 transposed ? "(0, k * 32) transposed" : "(k * 32, 0)", " : tile<128x64x", c.sum,
                 ">\n    store %c[d0 * 64 + d1], %0 if d0 < 100\n  }\n}\n");
        for (const char* arch : {"sm_80", "sm_89", "sm_90a"}) {
          SCOPED_TRACE(text(c.factor, " ", arch, transposed ? " transposed" : ""));
          const Target target = nvidia_target(arch);
          EXPECT_TRUE(find_instruction(target, MatrixLayout::Fragments, DType::bf16));
          EXPECT_EQ(find_instruction(target, MatrixLayout::Fragments, DType::f8e4m3) != nullptr,
                    std::string(arch) != "sm_80");
          if (std::atoi(arch + 3) < c.oldest) continue;
          kernel::Kernel lowered = lower_simt(kernel::parse(source), target);
          kernel::run(lowered, kernel::thread_pipeline(true));
          const std::string code = ptx(lowered, target);
          for (const std::string& part :
               {text("mma.sync.aligned.", c.instruction), std::string("cp.async.cg.shared.global"),
                std::string("cp.async.wait_group 1"), std::string("ldmatrix.sync.aligned.m8n8.x4.shared.b16"),
                std::string(transposed ? "x4.trans.shared.b16" : "x4.shared.b16"),
                std::string(std::string(c.factor) == "f32" ? "cvt.rna.tf32.f32" : "ldmatrix")})
            EXPECT_NE(code.find(part), std::string::npos) << part;
          if (ptxas.empty()) continue;
          std::ofstream(folder / "product.ptx") << code;
          const std::string log = (folder / "log").string();
          const std::string command =
              text(ptxas, " -v -arch=", arch, " -o /dev/null ", (folder / "product.ptx").string(), " > ", log, " 2>&1");
          EXPECT_EQ(std::system(command.c_str()), 0) << read_file(log);
          EXPECT_NE(read_file(log).find(" 0 bytes spill stores"), std::string::npos) << read_file(log);
        }
      }
  std::filesystem::remove_all(folder);
  EXPECT_FALSE(find_instruction(nvidia_target("sm_75"), MatrixLayout::Fragments));
}

}  // namespace
}  // namespace heddle
