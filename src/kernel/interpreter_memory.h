// Memory as the interpreter sees it: elements with bounds, and who touched which since the last barrier.
#pragma once

#include <string>
#include <vector>

#include "kernel/ir.h"

namespace heddle::kernel {

// One element of a value, in Scalar's representation: floats as double, integers as 64 bits.
union Cell {
  double f;
  int64_t i;
  uint64_t u;
};
inline Scalar scalar(DType dtype, Cell cell) {
  Scalar s;
  s.dtype = dtype;
  s.u = cell.u;
  return s;
}
inline Cell cell(const Scalar& s) {
  Cell c;
  c.u = s.u;
  return c;
}

// The last accesses to an element. Accesses conflict when they belong to the same period (between two barriers, or
// in one phase), come from different owners (threads, or blocks), and one of them writes. Combines do not conflict
// with combines.
struct Touch {
  int32_t write_period = 0;
  int32_t writer = 0;  // >= 0: stored by this owner; -2 - owner: combined by this owner alone; -1: by several
  int32_t read_period = 0;
  int32_t reader = 0;  // -1: several

  // Each records the access and returns false when it conflicts with an earlier one.
  bool read(int32_t period, int32_t owner);
  bool store(int32_t period, int32_t owner);
  bool combine(int32_t period, int32_t owner);
};

// One buffer. The functions return what is wrong, or nullptr.
class Memory {
 public:
  // Global memory at `base`; large buffers are not tracked.
  Memory(DType dtype, void* base, int64_t size, bool writable);
  // Shared memory.
  Memory(DType dtype, int64_t size);

  int64_t size() const { return size_; }
  // Shared memory holds nothing from here on.
  void forget(int32_t period) { first_period_ = period; }

  const char* load(int64_t element, int32_t period, int32_t owner, Cell& out);
  const char* store(int64_t element, int32_t period, int32_t owner, Cell value);
  // A store that does not mind company.
  const char* report(int64_t element, Cell value);
  // buffer[element] = op(buffer[element], value)
  const char* combine(int64_t element, int32_t period, int32_t owner, Cell value, ScalarOp op);

 private:
  const char* outside(int64_t element) const {
    return element < 0 || element >= size_ ? "is outside the buffer" : nullptr;
  }
  bool uninitialised(int64_t element) const { return shared_ && touches_[element].write_period < first_period_; }
  const char* conflict() const {
    return shared_ ? "is accessed by two threads without a barrier between" : "is accessed by two blocks of a phase";
  }
  Cell get(int64_t element) const;
  void put(int64_t element, Cell value);

  DType dtype_;
  bool shared_;
  void* base_ = nullptr;
  int64_t size_;
  int32_t first_period_ = 1;
  std::vector<Cell> cells_;     // of shared memory
  std::vector<Touch> touches_;  // empty when not tracked
};

}  // namespace heddle::kernel
