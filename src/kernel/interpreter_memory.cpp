#include "kernel/interpreter_memory.h"

#include <cstring>

namespace heddle::kernel {
namespace {

constexpr int64_t kTrackedElements = 1 << 21;

}  // namespace

bool Touch::read(int32_t period, int32_t owner) {
  if (write_period == period && writer != owner && writer != -2 - owner) return false;
  reader = read_period != period || reader == owner ? owner : -1;
  read_period = period;
  return true;
}

bool Touch::store(int32_t period, int32_t owner) {
  if (write_period == period && writer != owner && writer != -2 - owner) return false;
  if (read_period == period && reader != owner) return false;
  write_period = period;
  writer = owner;
  return true;
}

bool Touch::combine(int32_t period, int32_t owner) {
  if (read_period == period && reader != owner) return false;
  if (write_period != period) {
    write_period = period;
    writer = -2 - owner;
  } else if (writer >= 0) {
    return writer == owner;
  } else if (writer != -2 - owner) {
    writer = -1;
  }
  return true;
}

Memory::Memory(DType dtype, void* base, int64_t size, bool writable)
    : dtype_(dtype), shared_(false), base_(base), size_(size) {
  if (writable && size <= kTrackedElements) touches_.resize(static_cast<size_t>(size));
}

Memory::Memory(DType dtype, int64_t size)
    : dtype_(dtype),
      shared_(true),
      size_(size),
      cells_(static_cast<size_t>(size)),
      touches_(static_cast<size_t>(size)) {}

Cell Memory::get(int64_t element) const {
  if (shared_) return cells_[element];
  if (dtype_ == DType::f32) {
    float value;
    std::memcpy(&value, static_cast<const char*>(base_) + element * 4, 4);
    if (value == value) {
      Cell c;
      c.f = value;
      return c;
    }
  }
  return cell(load_scalar(base_, element, dtype_));
}

void Memory::put(int64_t element, Cell value) {
  if (shared_)
    cells_[element] = value;
  else
    store_scalar(base_, element, scalar(dtype_, value));
}

const char* Memory::load(int64_t element, int32_t period, int32_t owner, Cell& out) {
  if (const char* wrong = outside(element)) return wrong;
  if (uninitialised(element)) return "is read before anything was written there";
  if (!touches_.empty() && !touches_[element].read(period, owner)) return conflict();
  out = get(element);
  return nullptr;
}

const char* Memory::store(int64_t element, int32_t period, int32_t owner, Cell value) {
  if (const char* wrong = outside(element)) return wrong;
  if (!touches_.empty() && !touches_[element].store(period, owner)) return conflict();
  put(element, value);
  return nullptr;
}

const char* Memory::report(int64_t element, Cell value) {
  if (const char* wrong = outside(element)) return wrong;
  put(element, value);
  return nullptr;
}

const char* Memory::combine(int64_t element, int32_t period, int32_t owner, Cell value, ScalarOp op) {
  if (const char* wrong = outside(element)) return wrong;
  if (uninitialised(element)) return "is combined with before anything was written there";
  if (!touches_.empty() && !touches_[element].combine(period, owner)) return conflict();
  const Scalar operands[] = {scalar(dtype_, get(element)), scalar(dtype_, value)};
  put(element, cell(apply(op, operands)));
  return nullptr;
}

}  // namespace heddle::kernel
