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
#include "compile/lower.h"
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
      EXPECT_NE(std::string(e.what()).find("local memory"), std::string::npos) << e.what();
      continue;
    }
    kernel::run(lowered, kernel::thread_pipeline());
    kernel::expand_math(lowered);
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

}  // namespace
}  // namespace heddle
