// Where the time goes: every kernel that runs, how long it took, and how far that is from what the machine can do.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

namespace heddle {

// What the device was measured to do at most, with all of its threads. Zero where that is not known.
struct Roofline {
  double flops_per_second = 0;  // fused multiply-adds of f32 on registers
  double bytes_per_second = 0;  // reading memory far larger than the caches
};

// All launches of the kernels that have one name.
struct KernelProfile {
  std::string name;
  uint64_t calls = 0;
  double total_seconds = 0, min_seconds = 0, max_seconds = 0;
  // What the launches had to do, together. Elements count once however often they are touched; sqrt and exp are
  // one operation each, a fused multiply-add is two.
  uint64_t bytes = 0, flops = 0;
  // The least time for that: that of the operations or that of the bytes, whichever is longer, launch by launch.
  double floor_seconds = 0;

  double mean_seconds() const { return calls ? total_seconds / static_cast<double>(calls) : 0; }
  // 1: as fast as the machine allows. More: data was in the caches, whose speed the floor knows nothing of.
  double share_of_roofline() const { return total_seconds > 0 ? floor_seconds / total_seconds : 0; }
};

struct ProfileResult {
  std::vector<KernelProfile> kernels;  // the most time first
  Roofline roofline;
  double seconds = 0;          // from start to stop
  double compile_seconds = 0;  // spent planning and compiling, of all threads
  uint64_t left_out = 0;       // slices that the trace had no room for; the table has them
};
// A table.
std::ostream& operator<<(std::ostream& out, const ProfileResult& result);

struct ProfileData;

// Records what all threads of the process run from start() to stop(). Several may record at the same time.
class Profile {
 public:
  Profile();
  ~Profile();
  Profile(Profile&&) noexcept;
  Profile& operator=(Profile&&) noexcept;

  void start();  // goes on if it was stopped
  void stop();
  ProfileResult result() const;  // so far
  // Kernels, calls and compilations over time, a track for each thread that called: a file for ui.perfetto.dev or
  // chrome://tracing. It appears whole or not at all. Throws ValueError when it cannot be written.
  void write_trace(const std::string& path) const;

 private:
  std::shared_ptr<ProfileData> data_;
};
std::ostream& operator<<(std::ostream& out, const Profile& profile);  // its result so far

// A started profile:
//
//   Profile p = profile();
//   step(x, t);
//   p.stop();
//   std::cout << p;
//   p.write_trace("step.json");
//
// The first one of a process measures the machine, for about 50 ms. HEDDLE_PROFILE=file.json does the same for a whole
// process: the trace is written and the table printed to standard error when it ends.
Profile profile();

}  // namespace heddle
