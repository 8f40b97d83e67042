// A kernel with data to run it on: what candidates are compared and timed with.
#pragma once

#include <optional>

#include "compile/fuse/fuse.h"
#include "runtime/device.h"

namespace heddle {

// Loops, and the sizes at which a program runs them.
struct Workload {
  Loops loops;
  std::vector<std::vector<int64_t>> segments;  // for each use in one launch, the values of loops.symbols
  bool tf32 = false;                           // for the device's tf32_target()
};
// As the program runs it; of very many or very large segments some. A size that nobody knows yet is a guess.
Workload workload_of(const Program::Step& step);
// At the upper bounds of its symbols.
Workload workload_of(const Loops& loops);

// One schedule, compiled.
struct Candidate {
  std::shared_ptr<Executable> executable;
  std::vector<std::shared_ptr<DeviceBuffer>> temps;
  std::vector<std::vector<BufferPart>> buffers;  // for each segment
};

// The arguments on the device: inputs with values whose sums and products are exact in any order, as far as possible,
// so that little has to be tolerated when outputs are compared; outputs to be filled.
class Bench {
 public:
  Bench(const Workload& workload, Backend& device, uint64_t seed);

  Candidate prepare(std::shared_ptr<Executable> executable);
  std::vector<LaunchSegment> segments(const Candidate& candidate) const;
  void launch(const Candidate& candidate);
  // Fills outputs and temporaries with rubbish, runs the candidate, and gives what it wrote.
  using Outputs = std::vector<std::vector<std::byte>>;
  Outputs outputs(const Candidate& candidate);
  // The same from the interpreter, which runs the plainest schedule at tile level: nothing of what makes candidates is
  // part of it but the tiling. Nothing where that would take long. After the first outputs().
  std::optional<Outputs> interpreted();
  // Equal, but for the rounding that another order of summation brings. `problem`: the first difference.
  bool agree(const Outputs& expected, const Outputs& found, std::string& problem) const;

  // Seconds of one launch: of `times` launches, after each other.
  double seconds(const Candidate& candidate, int times);

 private:
  void fill(bool positive);

  const Workload& workload_;
  Backend& device_;
  uint64_t seed_;
  std::vector<std::vector<std::shared_ptr<DeviceBuffer>>> buffers_;  // for each segment, those of the Loops
  bool filled_ = false;
};

}  // namespace heddle
