#include "runtime/profiler.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <mutex>

#include "base/atomic_file.h"
#include "base/config.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/log.h"
#include "runtime/profile_data.h"
#include "runtime/roofline.h"

namespace heddle {
namespace {

// Guards everything that is recorded. Recording is rare enough: once per kernel, and only when somebody wants it.
struct Recorder {
  Mutex lock;
  std::vector<std::shared_ptr<ProfileData>> running;
};

// Never destroyed: threads may still run kernels while the process ends.
Recorder& recorder() {
  static Recorder& instance = *new Recorder;
  return instance;
}
[[maybe_unused]] Recorder& recorder_made_at_start = recorder();

uint32_t thread_number() {
  static std::atomic<uint32_t> threads{0};
  thread_local const uint32_t number = threads.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

thread_local int compilations = 0;  // that this thread is in

// Of the device that tensors live on unless told otherwise.
const Roofline& roofline() {
  NoFork whole;
  static const Roofline measured = measure_roofline(device());
  return measured;
}

void set_state() {
  profiler::state.store(recorder().running.empty() ? profiler::kOff : profiler::kOn, std::memory_order_relaxed);
}

// Measures the machine if that has not been done yet, so that it is in nobody's slices.
void start_recording(const std::shared_ptr<ProfileData>& data) {
  roofline();
  Recorder& to = recorder();
  std::lock_guard guard(to.lock);
  if (data->running) return;
  to.running.push_back(data);
  data->running = true;
  data->started = profile_clock();
  if (data->begun == 0) data->begun = data->started;
  set_state();
}

void stop_recording(ProfileData& data) {
  Recorder& to = recorder();
  std::lock_guard guard(to.lock);
  if (!data.running) return;
  data.running = false;
  data.recorded += profile_clock() - data.started;
  std::erase_if(to.running, [&](const auto& each) { return each.get() == &data; });
  set_state();
}

ProfileResult result_of(const ProfileData& data) {
  ProfileResult result;
  result.roofline = roofline();
  std::lock_guard guard(recorder().lock);
  result.seconds = static_cast<double>(data.recorded + (data.running ? profile_clock() - data.started : 0)) * 1e-9;
  result.compile_seconds = static_cast<double>(data.compiled) * 1e-9;
  result.left_out = data.left_out;
  for (const auto& [name, kernel] : data.kernels) result.kernels.push_back(kernel);
  std::sort(result.kernels.begin(), result.kernels.end(), [](const KernelProfile& a, const KernelProfile& b) {
    return a.total_seconds != b.total_seconds ? a.total_seconds > b.total_seconds : a.name < b.name;
  });
  return result;
}

void write_trace_of(const ProfileData& data, const std::string& path) {
  std::string json;
  {
    std::lock_guard guard(recorder().lock);
    json = trace_json(data);
  }
  write_file_atomically(path, json);
}

// Of HEDDLE_PROFILE; kept until the process ends.
ProfileData* of_process = nullptr;

// A child of fork() has a profile of its own, which begins with it: trace.json becomes trace.1234.json.
std::string process_trace() {
  std::filesystem::path path = config().profile;
  if (fork_generation() == 0) return path;
  const std::string ending = path.extension();
  return path.replace_extension(text(".", getpid(), ending));
}

[[maybe_unused]] const bool begun_anew_in_children = [] {
  after_fork_in_child([] {
    if (!of_process) return;
    std::lock_guard guard(recorder().lock);
    const bool running = of_process->running;
    *of_process = ProfileData();
    of_process->running = running;
    of_process->begun = of_process->started = profile_clock();
  });
  return true;
}();

void write_process_profile() {
  stop_recording(*of_process);
  if (fork_generation() > 0 && of_process->events.empty()) return;
  std::cerr << result_of(*of_process);
  try {
    const std::string path = process_trace();
    write_trace_of(*of_process, path);
    std::cerr << "trace: " << path << std::endl;
  } catch (const std::exception& error) {
    warn(text("HEDDLE_PROFILE: ", error.what()));
  }
}

}  // namespace

std::atomic<int> profiler::state{kNotAsked};

bool profiler::start_if_asked() {
  NoFork whole;
  // Threads that come while another one is measuring the machine wait here.
  static const bool asked = [] {
    if (config().profile.empty()) {
      std::lock_guard guard(recorder().lock);
      set_state();
      return false;
    }
    static std::shared_ptr<ProfileData>& data = *new auto(std::make_shared<ProfileData>());
    start_recording(data);
    of_process = data.get();
    std::atexit(write_process_profile);
    return true;
  }();
  static_cast<void>(asked);
  return state.load(std::memory_order_relaxed) == kOn;
}

int64_t profile_clock() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

void record_slice(const ProfileSlice& slice) noexcept {
  const uint32_t thread = thread_number();
  Recorder& to = recorder();
  std::lock_guard guard(to.lock);
  for (const auto& data : to.running) {
    if (slice.start < data->started) continue;
    try {
      data->add(slice, thread, roofline());
    } catch (const std::bad_alloc&) {
      ++data->left_out;  // what the slice shows has happened all the same
    }
  }
}

void ProfileScope::begin(SliceKind kind, std::string name) {
  if (kind == SliceKind::Compile) ++compilations;
  slice_.emplace(ProfileSlice{kind, std::move(name), profile_clock()});
}

void ProfileScope::finish() noexcept {
  slice_->end = profile_clock();
  if (slice_->kind == SliceKind::Compile) slice_->nested = --compilations > 0;
  record_slice(*slice_);
}

uint32_t ProfileData::number(const std::string& text) {
  auto [found, fresh] = number_of.try_emplace(text, static_cast<uint32_t>(texts.size()));
  if (fresh) texts.push_back(text);
  return found->second;
}

void ProfileData::add(const ProfileSlice& slice, uint32_t thread, const Roofline& roofline) {
  const int64_t took = slice.end - slice.start;
  const uint32_t name = number(slice.name);
  if (slice.kind == SliceKind::Compile && !slice.nested) compiled += took;
  if (slice.kind == SliceKind::Kernel) {
    KernelProfile& kernel = kernels[name];
    const double seconds = static_cast<double>(took) * 1e-9;
    if (kernel.calls == 0) kernel.name = slice.name;
    kernel.min_seconds = kernel.calls == 0 ? seconds : std::min(kernel.min_seconds, seconds);
    kernel.max_seconds = std::max(kernel.max_seconds, seconds);
    ++kernel.calls;
    kernel.total_seconds += seconds;
    kernel.bytes += slice.bytes;
    kernel.flops += slice.flops;
    double floor = 0;
    if (roofline.flops_per_second > 0) floor = static_cast<double>(slice.flops) / roofline.flops_per_second;
    if (roofline.bytes_per_second > 0)
      floor = std::max(floor, static_cast<double>(slice.bytes) / roofline.bytes_per_second);
    kernel.floor_seconds += floor;
  }
  if (events.size() >= kMostEvents) {
    ++left_out;
    return;
  }
  events.push_back(
      {slice.kind, thread, name, number(slice.detail), slice.start - begun, took, slice.bytes, slice.flops});
}

Profile::Profile() : data_(std::make_shared<ProfileData>()) {}
Profile::~Profile() {
  if (data_) stop_recording(*data_);
}
Profile::Profile(Profile&&) noexcept = default;
Profile& Profile::operator=(Profile&& other) noexcept {
  std::swap(data_, other.data_);
  return *this;
}
void Profile::start() {
  profiler::start_if_asked();  // that one misses nothing for this one's sake
  start_recording(data_);
}
void Profile::stop() { stop_recording(*data_); }
ProfileResult Profile::result() const { return result_of(*data_); }
void Profile::write_trace(const std::string& path) const { write_trace_of(*data_, path); }

Profile profile() {
  Profile started;
  started.start();
  return started;
}

}  // namespace heddle
