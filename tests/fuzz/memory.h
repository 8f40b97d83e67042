// Memory for kernels: aligned as the runtime promises, against a page that nobody may touch, now at its beginning, now
// at its end; the bytes that are left over must stay as they are.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <new>
#include <utility>

#include "core/scalar.h"

namespace heddle::fuzz {

class Memory {
 public:
  Memory(DType dtype, int64_t count) : Memory(dtype, count, ends_++ % 2 == 0) {}
  // `at_end`: what lies behind the last element (but for 63 bytes at most, for alignment) cannot be touched; else what
  // lies before the first.
  Memory(DType dtype, int64_t count, bool at_end) : dtype_(dtype), count_(count), at_end_(at_end) {
    bytes_ = static_cast<size_t>(count) * static_cast<size_t>(size_of(dtype));
    size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    inside_ = (bytes_ + page) / page * page;
    mapped_ = inside_ + 2 * page;
    void* block = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) throw std::bad_alloc();
    block_ = static_cast<uint8_t*>(block);
    begin_ = block_ + page;
    if (mprotect(begin_, inside_, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    data_ = at_end ? begin_ + inside_ - (bytes_ + 63) / 64 * 64 : begin_;
    std::memset(begin_, kGuard, inside_);
    // Outputs start with rubbish, so that an element nobody writes is noticed; bool has only two values.
    std::memset(data_, dtype == DType::boolean ? 1 : 0x5b, bytes_);
  }
  Memory(const Memory& other) : Memory(other.dtype_, other.count_, !other.at_end_) { copy_from(other.data()); }
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Memory() {
    if (block_) munmap(block_, mapped_);
  }

  void clear() { std::memset(data_, 0, bytes_); }
  void copy_from(const void* from) {
    if (bytes_) std::memcpy(data_, from, bytes_);
  }
  void* data() const { return data_; }
  int64_t count() const { return count_; }
  DType dtype() const { return dtype_; }
  Scalar at(int64_t element) const { return load_scalar(data_, element, dtype_); }
  bool guards_intact() const {
    for (const uint8_t* p = begin_; p < data_; ++p)
      if (*p != kGuard) return false;
    for (const uint8_t* p = data_ + bytes_; p < begin_ + inside_; ++p)
      if (*p != kGuard) return false;
    return true;
  }

 private:
  void swap(Memory& other) {
    std::swap(dtype_, other.dtype_);
    std::swap(count_, other.count_);
    std::swap(at_end_, other.at_end_);
    std::swap(bytes_, other.bytes_);
    std::swap(inside_, other.inside_);
    std::swap(mapped_, other.mapped_);
    std::swap(block_, other.block_);
    std::swap(begin_, other.begin_);
    std::swap(data_, other.data_);
  }

  static constexpr uint8_t kGuard = 0xa5;
  static inline thread_local unsigned ends_ = 0;
  DType dtype_ = DType::f32;
  int64_t count_ = 0;
  bool at_end_ = false;
  size_t bytes_ = 0, inside_ = 0, mapped_ = 0;
  uint8_t *block_ = nullptr, *begin_ = nullptr, *data_ = nullptr;
};

}  // namespace heddle::fuzz
