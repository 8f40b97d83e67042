// One row of a suite that others can do as well: ours, theirs, and the least time that the machine allows.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tools/bench.h"
#include "tools/peers.h"
#include "tools/reference.h"

namespace heddle::tools {

struct Contest {
  std::string name;
  std::string group;      // rows of one group have a geometric mean in the summary: "f32 square"
  std::string unit;       // "GFLOP/s", "TFLOP/s", "GB/s", or "ms" and "us" for the time of one call
  nlohmann::json row;     // what peers are told: bench/peers/README.md
  double flops = 0;       // of one call: a multiplication and an addition are two
  double bytes = 0;       // read and written at least
  double moved = 0;       // bytes that arithmetic cannot hide, as those of an optimiser's update: their time is added
  Peak peak = Peak::F32;  // what arithmetic it is
  std::function<void()> ours;
  std::optional<double> bar = {};        // the least ratio to the fastest peer
  std::optional<double> share_bar = {};  // the least share of the floor
  std::string note = {};
  int repeat = 1;                            // calls that `ours` and the peers make each time
  std::optional<double> floor_seconds = {};  // of one call, instead of what the CPU allows
  std::string floor_name = {};               // where those come from
  std::function<void()> restore = {};        // runs between segments and is not measured
};

// Measures in turns and reports a figure. The floor is the larger of flops at the measured peak, and bytes at the speed
// at which as many bytes are read again and again.
void run_contest(Peers& peers, const Contest& contest, double seconds, const Report& report);

}  // namespace heddle::tools
