// Sizes that differ from call to call: one compiled plan serves all their values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace heddle {

// A named size with bounds, made by dim(). Tensor::with_dim() says which axes have it.
class Dim {
 public:
  const std::string& name() const;
  int64_t lo() const;
  int64_t hi() const;
  int64_t multiple_of() const;

  // For the rest of Heddle: what stands for the size in shapes.
  struct Symbol;
  const Symbol& symbol() const { return *symbol_; }

 private:
  friend Dim dim(const std::string& name, int64_t lo, int64_t hi, int64_t multiple_of);
  std::shared_ptr<const Symbol> symbol_;
};

// A size from lo to hi, both included, that is a multiple of `multiple_of`. Knowing more makes better code. Two calls
// make two different sizes, whatever their names.
Dim dim(const std::string& name, int64_t lo, int64_t hi, int64_t multiple_of = 1);

}  // namespace heddle
