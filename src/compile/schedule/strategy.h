// What strategies share. A strategy is how the tile of one stage is computed. Each has a pair of files of its own with
// its fields, its legality check, the default choice, its neighbours for searches and the words of its text form; the
// file of the same name in tile/ writes its tiles.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "compile/loops/loops.h"
#include "compile/target/target.h"

namespace heddle {

struct Schedule;
struct StageSchedule;

// A loop inside a block. Axes are numbered outer axes first, then the stage's inner ones.
struct Level {
  int axis = 0;
  int64_t step = 1;  // elements of the axis that one iteration covers
  friend bool operator==(const Level&, const Level&) = default;
};

// A stage of a schedule, and all that it belongs to.
struct Site {
  const Schedule& schedule;
  const Loops& loops;
  const Target& target;
  size_t s;
  std::vector<int64_t> tile;  // elements of each axis that the tile covers

  const Stage& stage() const { return loops.stages[s]; }
  const StageSchedule& plan() const;
  bool simt() const { return target.machine == Machine::Simt; }
  template <class... Parts>
  std::string problem(const Parts&... parts) const {
    return text("stage ", s, ": ", parts...);
  }
};

Site site_of(const Schedule& schedule, const Loops& loops, const Target& target, size_t s);

// A number below the argument, drawn at random.
using RandomBelow = std::function<int64_t(int64_t)>;
// Into how many parts something might be divided, when it is divided into so many now.
int64_t draw_parts(int64_t parts, const Target& target, const RandomBelow& draw);
// The change of strategies that have nothing else to choose.
template <class T>
  requires requires(T& of) { of.parts; }
void change(T& of, const Site& at, const RandomBelow& draw) {
  of.parts = draw_parts(of.parts, at.target, draw);
}

// Empty if the stage's reduction may be divided into so many parts, else why not: it is the only one of the kernel.
std::string check_parts(int64_t parts, const Site& at);

// For functions that can say why not: makes words of the parts only if somebody listens.
template <class... Parts>
bool refused(std::string* why, const Parts&... parts) {
  if (why) *why = text(parts...);
  return false;
}

}  // namespace heddle
