// Kernels in the disk cache: tuned schedules, and machine code with the kernel that it was made of.
#pragma once

#include "compile/schedule/schedule.h"
#include "runtime/device.h"
#include "runtime/disk_cache.h"

namespace heddle {

// Version of Heddle and of the sources of its compiler: what is stored by one is not used by another.
std::string compiler_id();

// A schedule that search found for a kernel.
struct TunedSchedule {
  std::string schedule;  // as text
  double default_seconds = 0, seconds = 0;
  int tried = 0;
};
// `tf32`, here and below: for device.tf32_target().
std::optional<TunedSchedule> load_schedule(DiskCache& cache, const Structure& loops, const Backend& device,
                                           bool tf32 = false);
void store_schedule(DiskCache& cache, const Structure& loops, const Backend& device, const TunedSchedule& tuned,
                    bool tf32 = false);

// What entries are stored under: everything that decides whether they may be used.
std::string schedule_key(const Structure& loops, const Backend& device, bool tf32 = false);
std::string code_key(const Structure& step, const std::string& schedule, const Backend& device, bool tf32 = false);

// `schedule`: its text, "default" for the default one, "" for a kernel that has none. Null when there is no such
// kernel, or nothing that this device can load.
std::shared_ptr<Executable> load_kernel(DiskCache& cache, const Structure& step, const std::string& schedule,
                                        Backend& device, bool tf32 = false);
void store_kernel(DiskCache& cache, const Structure& step, const std::string& schedule, const Backend& device,
                  const kernel::Kernel& thread_kernel, const std::string& code, bool tf32 = false);

}  // namespace heddle
