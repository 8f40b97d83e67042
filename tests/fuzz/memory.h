// Memory for kernels: aligned as the runtime promises, with bytes around it that nobody may write.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>

#include "core/scalar.h"

namespace heddle::fuzz {

class Memory {
 public:
  Memory(DType dtype, int64_t count) : dtype_(dtype), count_(count) {
    bytes_ = static_cast<size_t>(count) * static_cast<size_t>(size_of(dtype));
    rounded_ = (bytes_ + 63) / 64 * 64;
    block_.reset(static_cast<uint8_t*>(std::aligned_alloc(64, rounded_ + 2 * kGuardBytes)));
    std::memset(block_.get(), kGuard, rounded_ + 2 * kGuardBytes);
    // Outputs start with rubbish, so that an element nobody writes is noticed; bool has only two values.
    std::memset(data(), dtype == DType::boolean ? 1 : 0x5b, bytes_);
  }
  Memory(const Memory& other) : Memory(other.dtype_, other.count_) { copy_from(other.data()); }
  Memory(Memory&&) = default;
  Memory& operator=(Memory&&) = default;

  void copy_from(const void* from) {
    if (bytes_) std::memcpy(data(), from, bytes_);
  }
  void* data() const { return block_.get() + kGuardBytes; }
  int64_t count() const { return count_; }
  DType dtype() const { return dtype_; }
  Scalar at(int64_t element) const { return load_scalar(data(), element, dtype_); }
  bool guards_intact() const {
    const uint8_t* begin = block_.get();
    for (size_t i = 0; i < kGuardBytes; ++i)
      if (begin[i] != kGuard) return false;
    for (size_t i = kGuardBytes + bytes_; i < rounded_ + 2 * kGuardBytes; ++i)
      if (begin[i] != kGuard) return false;
    return true;
  }

 private:
  struct Free {
    void operator()(uint8_t* block) const { std::free(block); }
  };
  static constexpr size_t kGuardBytes = 128;
  static constexpr uint8_t kGuard = 0xa5;
  DType dtype_;
  int64_t count_;
  size_t bytes_, rounded_;
  std::unique_ptr<uint8_t[], Free> block_;
};

}  // namespace heddle::fuzz
