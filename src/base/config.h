// Configuration from the environment, read once and checked. docs/environment.md lists every variable.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace heddle {

struct Config {
  int threads = 0;             // HEDDLE_THREADS: worker threads; 0 (not set) means one per available core
  std::string device;          // HEDDLE_DEVICE: where new tensors live; empty means cpu
  std::string target;          // HEDDLE_TARGET: force a CPU target (avx512, avx2, sse); empty means detect
  std::string matrix_unit;     // HEDDLE_MATRIX_UNIT: what GPUs multiply with: warps or none; empty means the best
  std::string float32_matmul;  // HEDDLE_FLOAT32_MATMUL: tf32; f32 or empty: products of f32 keep all bits
  std::string log;             // HEDDLE_LOG: topics, comma separated
  std::string dump_directory;  // HEDDLE_DUMP: a folder that receives every kernel's texts
  int64_t memory_limit = 0;  // HEDDLE_MEMORY_LIMIT: bytes the CPU pool may hold; 0 (not set) means the machine's memory
  std::string profile;       // HEDDLE_PROFILE: a file for the trace of the whole process
  bool check_jit = false;    // HEDDLE_JIT_CHECK: record captured functions at every call, and compare
  std::string cache;         // HEDDLE_CACHE: the file of the disk cache, or off; empty means the user's cache folder
  int64_t cache_size = 0;    // HEDDLE_CACHE_SIZE: bytes the disk cache may take; 0 (not set) means 512 MiB
  int tune = 0;              // HEDDLE_TUNE: schedules to try for each kernel that has no tuned one; 0 (not set): none
  bool pack_all = false;     // HEDDLE_PACK: sums of products on GPUs are laid out for matrix units, however small
  bool check_kernels = false;  // HEDDLE_CHECK: verify after every pass, check fused kernels
  bool fall_back = true;       // HEDDLE_FALLBACK: a kernel that cannot be compiled gets a plainer schedule
  bool all_arguments = false;  // HEDDLE_ARGUMENTS: every number that can be an argument of a plan is one
  int compile_warning = 20;    // HEDDLE_COMPILE_WARNING: plans of one place before a warning says so; 0: never
  bool relaxed = false;        // HEDDLE_RELAXED: what is_relaxed() says at first
  bool deterministic = false;  // HEDDLE_DETERMINISTIC: what is_deterministic() says at first
  // Variables whose values make no sense, with what is wrong. They count as not set, and a warning has said so.
  std::map<std::string, std::string> problems;
};

const Config& config();

}  // namespace heddle
