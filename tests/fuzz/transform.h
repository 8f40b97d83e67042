// Graphs made of random graphs: their gradients, and the same for many examples at once. And what checks share.
#pragma once

#include <atomic>

#include "fuzz/check.h"
#include "graph/random_graph.h"

namespace heddle::fuzz {

testing::RandomGraphOptions options_of(const Check& check, uint64_t variant = 0);

// The elements of an array in memory.
HostArray to_array(const void* data, DType dtype, const std::vector<int64_t>& shape);

// What the real pipeline gives for the roots. `want` tells their shapes, and is given back where the run ends with the
// IndexError that `bad_indices` expects.
std::vector<HostArray> run_realize(const testing::RandomGraph& graph, const std::vector<HostArray>& want,
                                   bool bad_indices, const std::string& device_name = "");
// The same graph over several devices: every node on one that the seed draws, with copies where values meet.
testing::RandomGraph spread(const testing::RandomGraph& graph, uint64_t seed);

// What the checks of gradients did, since not every graph can be compared.
struct GradientCounts {
  std::atomic<uint64_t> differences{0};  // compared with differences
  std::atomic<uint64_t> kinks{0};        // not, since the differences themselves disagree
  std::atomic<uint64_t> realized{0};     // compared with what the pipeline gives
  std::atomic<uint64_t> vague{0};        // not, since rounding may change the gradient altogether
  std::atomic<uint64_t> constant{0};     // nothing to differentiate
};
GradientCounts& gradient_counts();

// Throw Failure.
void check_gradient(const Check& check);
void check_vmap(const Check& check);
void check_numbers(const Check& check);

}  // namespace heddle::fuzz
