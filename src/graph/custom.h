// Kernels that somebody wrote, as graphs know them: what they read and give. What is inside is the business of
// `custom/` and of the compiler.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace heddle {
namespace kernel {
struct Kernel;
}

struct CustomKernel {
  std::string name;  // for people
  std::vector<ResultType> inputs, results;
  std::shared_ptr<const kernel::Kernel> tiles;  // its buffers: those of the inputs, of the results, and more
  std::vector<uint64_t> words;                  // what decides it and its results, apart from names
  uint64_t hash = 0;                            // of the words
  double work = 0;                              // elements of tiles that running it computes, about
  std::function<std::vector<HostArray>(std::span<const HostArray* const> inputs)> evaluate;
  // The same for `count` examples along a new first axis of all results, and of those inputs that are `batched`.
  std::function<std::shared_ptr<const CustomKernel>(std::span<const bool> batched, int64_t count)> batch;
};

// Inputs have the dtypes and shapes that the kernel was written for. Use make_get() for results.
NodeRef make_custom(std::span<const NodeRef> inputs, std::shared_ptr<const CustomKernel> custom);

}  // namespace heddle
