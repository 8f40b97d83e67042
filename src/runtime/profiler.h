// Recording of what runs, for Profile and HEDDLE_PROFILE. While nobody records it costs a load and a branch.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

namespace heddle {

enum class SliceKind : uint8_t { Kernel, Call, Compile };

// A piece of time on one thread.
struct ProfileSlice {
  SliceKind kind;
  std::string name;
  int64_t start = 0, end = 0;  // nanoseconds of steady_clock
  uint64_t bytes = 0, flops = 0;
  std::string detail;   // shown in the trace; may be empty
  bool nested = false;  // Compile: within another one
};

namespace profiler {

enum State : int { kOff, kOn, kNotAsked };  // kNotAsked: HEDDLE_PROFILE has not been looked at yet
extern std::atomic<int> state;
bool start_if_asked();

}  // namespace profiler

inline bool profiling() {
  int now = profiler::state.load(std::memory_order_relaxed);
  return now != profiler::kOff && (now == profiler::kOn || profiler::start_if_asked());
}

int64_t profile_clock();  // nanoseconds
void record_slice(const ProfileSlice& slice) noexcept;

// From here to the end of the scope.
class ProfileScope {
 public:
  // `name` is called for the text when somebody records.
  template <class Name>
  ProfileScope(SliceKind kind, Name&& name) {
    if (profiling()) [[unlikely]]
      begin(kind, name());
  }
  ~ProfileScope() {
    if (slice_) [[unlikely]]
      finish();
  }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

  // Text that is known later than the name.
  template <class Detail>
  void set_detail(Detail&& detail) {
    if (slice_) [[unlikely]]
      slice_->detail = detail();
  }

 private:
  void begin(SliceKind kind, std::string name);
  void finish() noexcept;
  std::optional<ProfileSlice> slice_;
};

}  // namespace heddle
