#include "backend/cuda/staging.h"

#include <algorithm>
#include <cstring>

namespace heddle::cuda {

#define HD_TRY(call) \
  if (Result result = call; result != kSuccess) return result

Result Staging::prepare() {
  constexpr unsigned kNoTiming = 2;
  for (Half& half : halves_) {
    if (half.memory) continue;
    HD_TRY(driver_.cuEventCreate(&half.done, kNoTiming));
    HD_TRY(driver_.cuMemHostAlloc(&half.memory, kHalf, 0));
  }
  if (!few_) HD_TRY(driver_.cuMemHostAlloc(&few_, kFew, 0));
  return kSuccess;
}

Result Staging::to_device(Stream stream, Address to, const void* from, uint64_t bytes) {
  std::lock_guard guard(lock_);
  HD_TRY(prepare());
  constexpr uint64_t kAlignment = 64;
  auto* source = static_cast<const char*>(from);
  while (bytes > 0) {
    if (filled_ == kHalf) {  // go on in the other half, once it has been read
      next_ ^= 1;
      filled_ = 0;
      HD_TRY(driver_.cuEventSynchronize(halves_[next_].done));
    }
    const uint64_t part = std::min(bytes, kHalf - filled_);
    char* place = static_cast<char*>(halves_[next_].memory) + filled_;
    std::memcpy(place, source, part);
    HD_TRY(driver_.cuMemcpyHtoDAsync_v2(to, place, part, stream));
    HD_TRY(driver_.cuEventRecord(halves_[next_].done, stream));
    filled_ = std::min(kHalf, (filled_ + part + kAlignment - 1) / kAlignment * kAlignment);
    source += part;
    to += part;
    bytes -= part;
  }
  return kSuccess;
}

Result Staging::to_host(Stream stream, void* to, Address from, uint64_t bytes) {
  std::lock_guard guard(lock_);
  HD_TRY(prepare());
  auto* target = static_cast<char*>(to);
  if (bytes <= kFew) {
    HD_TRY(driver_.cuMemcpyDtoHAsync_v2(few_, from, bytes, stream));
    HD_TRY(driver_.cuStreamSynchronize(stream));
    std::memcpy(target, few_, bytes);
    return kSuccess;
  }
  // Nothing may wait in the halves that a copy to the device still reads.
  uint64_t asked = 0, taken = 0;
  auto ask = [&](Half& half) -> Result {
    const uint64_t part = std::min(bytes - asked, kHalf);
    HD_TRY(driver_.cuEventSynchronize(half.done));
    HD_TRY(driver_.cuMemcpyDtoHAsync_v2(half.memory, from + asked, part, stream));
    HD_TRY(driver_.cuEventRecord(half.done, stream));
    asked += part;
    return kSuccess;
  };
  filled_ = kHalf;
  int half = 0;
  HD_TRY(ask(halves_[0]));
  while (taken < bytes) {
    if (asked < bytes) HD_TRY(ask(halves_[half ^ 1]));
    HD_TRY(driver_.cuEventSynchronize(halves_[half].done));
    const uint64_t part = std::min(bytes - taken, kHalf);
    std::memcpy(target + taken, halves_[half].memory, part);
    taken += part;
    half ^= 1;
  }
  return kSuccess;
}

#undef HD_TRY

}  // namespace heddle::cuda
