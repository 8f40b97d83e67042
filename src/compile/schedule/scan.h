// Scans along an axis.
#pragma once

#include "compile/schedule/sizes.h"

namespace heddle {

struct Scan {
  // Parts of one round, which run side by side; the first loop's step is the size of a part.
  int64_t parts = 1;
  bool stream = false;  // stores bypass the caches

  static constexpr const char* kName = "scan";
  static constexpr auto fields() {
    return std::make_tuple(std::pair{"parts", &Scan::parts}, std::pair{"stream", &Scan::stream});
  }
};

std::string check(const Scan& scan, const Site& at);
void change(Scan& scan, const Site& at, const RandomBelow& draw);
// A scan that is the whole kernel.
void schedule_scan(Schedule& schedule, const Loops& loops, const Sizes& sizes, const Target& target);

}  // namespace heddle
