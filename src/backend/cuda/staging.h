// Copies between host and device by way of memory that the device can reach itself.
#pragma once

#include <mutex>

#include "backend/cuda/driver.h"
#include "base/lock.h"

namespace heddle::cuda {

// Two halves: while one travels, the other is filled or emptied. The context must be current.
class Staging {
 public:
  explicit Staging(const Driver& driver) : driver_(driver) {}

  // Returns when `from` may be reused; the data may still be on its way, in the order of the stream.
  Result to_device(Stream stream, Address to, const void* from, uint64_t bytes);
  // Returns when the data is there.
  Result to_host(Stream stream, void* to, Address from, uint64_t bytes);

 private:
  static constexpr uint64_t kHalf = uint64_t{8} << 20, kFew = 4096;
  struct Half {
    void* memory = nullptr;
    Event done = nullptr;  // with its last copy
  };

  Result prepare();

  const Driver& driver_;
  Mutex lock_;
  Half halves_[2];
  void* few_ = nullptr;  // for single numbers, which somebody waits for: no events
  int next_ = 0;
  uint64_t filled_ = kHalf;  // of the half in use
};

}  // namespace heddle::cuda
