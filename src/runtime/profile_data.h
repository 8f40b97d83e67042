// What a profile has collected, and the texts made of it. Private to the profiler.
#pragma once

#include <heddle/profile.h>

#include <unordered_map>

#include "runtime/profiler.h"

namespace heddle {

struct ProfileData {
  struct Event {
    SliceKind kind;
    uint32_t thread, name, detail;  // name, detail: which of `texts`
    int64_t start, nanoseconds;
    uint64_t bytes, flops;
  };
  static constexpr size_t kMostEvents = 500'000;

  bool running = false;
  int64_t begun = 0;     // the first start
  int64_t started = 0;   // the last one
  int64_t recorded = 0;  // nanoseconds up to the last stop
  int64_t compiled = 0;  // nanoseconds
  std::vector<std::string> texts;
  std::unordered_map<std::string, uint32_t> number_of;  // of a text
  std::vector<Event> events;
  uint64_t left_out = 0;
  std::unordered_map<uint32_t, KernelProfile> kernels;  // by the number of the name

  uint32_t number(const std::string& text);
  void add(const ProfileSlice& slice, uint32_t thread, const Roofline& roofline);
};

std::string trace_json(const ProfileData& data);

}  // namespace heddle
