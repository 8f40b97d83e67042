// Runs a kernel's text on vectors: what the tests of this folder share.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "kernel/interpreter.h"

namespace heddle::kernel {

// One buffer of a call; Shared ones are left empty.
struct Data {
  void* memory = nullptr;
  int64_t size = 0;

  Data() = default;
  template <class T>
  Data(std::vector<T>& v) : memory(v.data()), size(static_cast<int64_t>(v.size())) {}
};

inline void run_kernel(const Kernel& kernel, std::vector<Data> buffers, std::vector<int64_t> symbols = {}) {
  std::vector<void*> memory;
  std::vector<int64_t> sizes;
  for (const Data& d : buffers) {
    memory.push_back(d.memory);
    sizes.push_back(d.size);
  }
  interpret(kernel, memory, sizes, symbols);
}
inline void run_kernel(const std::string& text, std::vector<Data> buffers, std::vector<int64_t> symbols = {}) {
  run_kernel(parse(text), std::move(buffers), std::move(symbols));
}

// The message of the exception that f throws; fails the test when it throws none.
template <class E, class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

#define EXPECT_CONTAINS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

}  // namespace heddle::kernel
