// Sums of products whose tile stays in registers, of numbers or of words with several narrow numbers each. Factors are
// read where they lie, or copied into a denser place before they are used.
#pragma once

#include "compile/loops/contraction.h"
#include "compile/schedule/sizes.h"

namespace heddle {

// A copy of what a contraction reads of one factor.
struct Staged {
  enum class Scope {
    Phase,
    Block
  } scope = Scope::Phase;  // Phase: the whole factor into Temp by a phase of its own;
                           // Block: one part at a time into Shared, at `depth`
  int depth = 0;           // Block: inside how many of the stage's loops
  int64_t panel = 0;       // width of a panel: elements that are consecutive in memory across the tile's row (0: none)
  friend bool operator==(const Staged&, const Staged&) = default;
};

struct RegisterContraction {
  int64_t parts = 1;  // of the sum over the grid, combined in a second phase
  // Of the factor without the second outer axis (A of a matmul), and of the other (B).
  std::optional<Staged> left, right;

  static constexpr const char* kName = "contraction";
  static constexpr auto fields() {
    using Self = RegisterContraction;
    return std::make_tuple(std::pair{"parts", &Self::parts}, std::pair{"left", &Self::left},
                           std::pair{"right", &Self::right});
  }
};

// SIMD, factors of bf16 or i8: several are packed to a word of 32 bits along the reduced axis, in panels.
struct PackedContraction {
  bool matrix = false;  // a matrix unit multiplies panels of words; else vectors of words are multiplied
  std::optional<Staged> left, right;

  static constexpr const char* kName = "packed_contraction";
  static constexpr auto fields() {
    using Self = PackedContraction;
    return std::make_tuple(std::pair{"matrix", &Self::matrix}, std::pair{"left", &Self::left},
                           std::pair{"right", &Self::right});
  }
};

template <class T>
auto& staged(T& contraction, int operand) {
  return operand == 0 ? contraction.left : contraction.right;
}

std::string check(const RegisterContraction& contraction, const Site& at);
std::string check(const PackedContraction& contraction, const Site& at);
void change(RegisterContraction& contraction, const Site& at, const RandomBelow& draw);
void change(PackedContraction& contraction, const Site& at, const RandomBelow& draw);
// Panels are as wide as tiles, and steps of words whole.
void repair(RegisterContraction& contraction, const Site& at);
void repair(PackedContraction& contraction, const Site& at);
void draw_loops(const PackedContraction& contraction, StageSchedule& plan, const Site& at, const RandomBelow& draw);

// Fills `schedule`, whose blocks are 1 and whose stages are plain, for loops whose first stage is the contraction `c`
// with an axis of its own for each factor, and whose other stages only finish its results.
void schedule_contraction(Schedule& schedule, const Loops& loops, const Contraction& c, const Target& target);
// The same on a SIMT machine: threads hold tiles of sums, factors wait in shared memory.
void schedule_contraction_simt(Schedule& schedule, const Loops& loops, const Contraction& c, const Target& target);

}  // namespace heddle
