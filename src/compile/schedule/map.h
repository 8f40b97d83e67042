// Maps: stages that compute element by element, and store it or keep it for later stages.
#pragma once

#include "compile/schedule/sizes.h"

namespace heddle {

struct Map {
  bool stream = false;  // stores bypass the caches

  static constexpr const char* kName = "map";
  static constexpr auto fields() { return std::make_tuple(std::pair{"stream", &Map::stream}); }
};

std::string check(const Map& map, const Site& at);
void change(Map& map, const Site& at, const RandomBelow& draw);
// Blocks of a kernel that is one map.
void schedule_map(Schedule& schedule, const Loops& loops, const Sizes& sizes, const Target& target);

}  // namespace heddle
