// Captured functions: which calls wait for which others.
#include <algorithm>
#include <thread>

#include "base/error.h"
#include "base/fork.h"
#include "capture/jit_core.h"
#include "runtime/split_devices.h"

namespace heddle {
namespace {

// A number that no other thread has, not even in a child of fork(), from 1 on.
uint64_t this_thread() {
  static std::atomic<uint64_t> last{0};
  constinit thread_local uint64_t mine = 0;
  if (mine == 0) mine = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return mine;
}

// A thread that has met others stays in the lane that it found free, with all functions.
constinit thread_local size_t my_lane = 0;

size_t number_of_lanes() { return std::clamp(std::thread::hardware_concurrency(), 2U, 16U); }

}  // namespace

bool JitLock::lock() {
  const uint32_t mine = fork_generation() + 1;
  for (uint32_t found = 0; !holder_.compare_exchange_strong(found, mine, std::memory_order_acquire); found = 0) {
    if (found == mine)
      holder_.wait(found, std::memory_order_relaxed);
    else if (found != 0 && holder_.compare_exchange_strong(found, mine, std::memory_order_acquire))
      return false;
  }
  return true;
}

void JitLock::unlock() {
  holder_.store(0, std::memory_order_release);
  holder_.notify_one();
}

bool JitLock::try_lock() {
  uint32_t nobody = 0;
  return holder_.compare_exchange_strong(nobody, fork_generation() + 1, std::memory_order_acquire);
}

bool JitLock::is_held() const {
  uint32_t found = holder_.load(std::memory_order_relaxed);
  return found == fork_generation() + 1;
}

void JitLane::take() {
  if (!lock.lock()) new (static_cast<JitScratch*>(this)) JitScratch;
  holder.store(this_thread(), std::memory_order_relaxed);
}
void JitLane::release() {
  holder.store(0, std::memory_order_relaxed);
  lock.unlock();
}
bool JitLane::is_mine() const { return holder.load(std::memory_order_relaxed) == this_thread(); }

JitCore::JitCore(std::string jit) : where(std::move(jit)) {
  for (size_t i = 0; i < number_of_lanes(); ++i) lanes.emplace_back(*this);
}

JitLane& JitCore::free_lane() {
  if (!lanes[my_lane].lock.is_held()) return lanes[my_lane];
  for (size_t i = 0; i < lanes.size(); ++i)
    if (!lanes[i].lock.is_held()) return lanes[my_lane = i];
  return lanes[my_lane];
}

void JitCore::drop_copies() {
  changes.fetch_add(1, std::memory_order_relaxed);
  for (JitLane& lane : lanes) {
    if (&lane == &main() || !lane.lock.try_lock()) continue;
    lane.entries.clear();
    lane.last = nullptr;
    lane.lock.unlock();
  }
}

void JitCore::refuse_inside(const char* what) {
  if (main().is_mine() || lanes[my_lane].is_mine())
    throw CaptureError(
        text(what, " inside of the function that jit() captures at ", where, ", while it is being called"));
}

namespace {

class Hold {
 public:
  explicit Hold(JitLane& lane) : lane_(lane) { lane.take(); }
  ~Hold() { lane_.release(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  JitLane& lane_;
};

void add_use(JitPlan& report, const JitEntry& entry) {
  auto add = [&](const RunMemory& memory) {
    for (const RunMemory::Kept& kept : memory.kept)
      if (kept.packed) report.kept_bytes += kept.packed->bytes();
  };
  add(entry.memory);
  if (entry.memory.split)
    for (const RunMemory& part : entry.memory.split->parts) add(part);
}

}  // namespace

JitBase::JitBase(const std::source_location& where) : core_(std::make_shared<JitCore>(place_text(where))) {}
JitBase::JitBase(const std::string& place) : core_(std::make_shared<JitCore>(place)) {}

std::vector<JitPlan> JitBase::plans() const {
  core_->refuse_inside("plans()");
  std::vector<JitPlan> result;
  std::vector<std::vector<uint64_t>> signatures;
  for (JitLane& lane : core_->lanes) {  // the first one first
    Hold hold(lane);
    for (const auto& entry : lane.entries) {
      auto known = std::find(signatures.begin(), signatures.end(), entry->signature);
      if (&lane == &core_->main()) {
        known = signatures.insert(signatures.end(), entry->signature);
        result.push_back(entry->report);
      } else if (known == signatures.end()) {
        continue;  // forgotten
      } else {
        JitPlan& report = result[static_cast<size_t>(known - signatures.begin())];
        report.calls += entry->report.calls;
      }
      add_use(result[static_cast<size_t>(known - signatures.begin())], *entry);
    }
  }
  return result;
}

void JitBase::clear() {
  core_->refuse_inside("clear()");
  for (JitLane& lane : core_->lanes) {
    Hold hold(lane);
    NoFork whole;
    lane.entries.clear();
    lane.last = nullptr;
    lane.arena.reset();
    if (&lane == &core_->main()) core_->changes.fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace heddle
