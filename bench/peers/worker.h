// A library that does the same work as Heddle, in a process of its own: rows come in on standard input, times go out on
// standard output, both as lines of JSON (README.md). The parent stops the process between its segments, so that
// threads that spin while they wait disturb nobody.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "core/dtype.h"

namespace heddle::peers {

using Json = nlohmann::json;

// Thrown by prepare(): the library cannot do this row. What it says stands in the table.
struct Skip : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Peer {
  std::string name, about;  // "OpenBLAS"; "0.3.21, SKYLAKEX"
  // Makes inputs and a preallocated output, checks one result, and returns what is timed.
  std::function<std::function<void()>(const Json& row)> prepare;
};

// Answers until standard input ends. Returns the exit code.
int serve(const Peer& peer);

// Numbers without a pattern in [-1, 1), in pages as large as the system gives: the kind of memory that tensors have.
class Memory {
 public:
  Memory(int64_t count, DType dtype, uint64_t seed);  // integers: of [-100, 100)
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  template <class T = void>
  T* as() const {
    return static_cast<T*>(data_);
  }
  double at(int64_t element) const;

 private:
  DType dtype_;
  void* data_;
};

// Throws Skip when the library's number is further from that in double than rounding explains. `terms`: the sum of the
// magnitudes that were added.
void check_element(DType dtype, double got, double want, double terms);

// {"work": "matmul", "dtype": "f32", "batch": 1, "m": 8, "k": 8, "n": 8, "transpose": "nt"}: a is batch x m x k, stored
// as batch x k x m for "t"; b is batch x k x n.
struct Matmul {
  explicit Matmul(const Json& row);
  int64_t a_row_stride() const { return a_transposed ? 1 : k; }
  int64_t a_column_stride() const { return a_transposed ? m : 1; }
  int64_t b_row_stride() const { return b_transposed ? 1 : n; }
  int64_t b_column_stride() const { return b_transposed ? k : 1; }
  // Compares some elements of the product with sums in double; throws when the library is wrong.
  void check(const Memory& a, const Memory& b, const Memory& c) const;

  DType dtype, result;  // of the factors; of the product
  int64_t batch, m, k, n;
  bool a_transposed, b_transposed;
};

}  // namespace heddle::peers
