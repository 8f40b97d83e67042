#include "tools/machine.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <vector>

#include "heddle_commit.h"

namespace heddle::tools {

const char* version() { return HEDDLE_VERSION; }
const char* commit() { return HEDDLE_COMMIT; }
const char* llvm_version() { return HEDDLE_LLVM_VERSION; }

std::string compiler() {
#if defined(__clang__)
  std::string name = "clang++ " __clang_version__;
#else
  std::string name = "g++ " __VERSION__;
#endif
  return name + ", " HEDDLE_BUILD_TYPE;
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  std::string family, model, name;
  for (std::string line; std::getline(file, line) && !line.empty();) {
    size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    std::string key = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1), value = line.substr(colon + 2);
    if (key == "model name") name = value;
    if (key == "cpu family") family = value;
    if (key == "model") model = value;
  }
  if (name.empty()) return "unknown CPU";
  // Virtual machines often hide the exact name; family and model still tell.
  return name + " (family " + family + ", model " + model + ")";
}

namespace {
std::vector<int> cores_at_start() {
  std::vector<int> cores;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}
const std::vector<int> kCores = cores_at_start();
}  // namespace

void pin_thread(int thread, int index) {
  if (kCores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(kCores[static_cast<size_t>(index) % kCores.size()], &set);
  sched_setaffinity(thread, sizeof set, &set);  // a wish: the thread may have ended
}

void spread_threads(int process) {
  std::vector<int> threads;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task", error))
    threads.push_back(std::stoi(entry.path().filename()));
  std::sort(threads.begin(), threads.end());
  for (size_t i = 0; i < threads.size(); ++i) pin_thread(threads[i], static_cast<int>(i));
}

std::string bytes_text(uint64_t bytes) {
  const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  char line[40];
  bool whole = value == static_cast<double>(static_cast<int64_t>(value));
  std::snprintf(line, sizeof line, whole ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return line;
}

}  // namespace heddle::tools
