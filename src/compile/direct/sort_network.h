// Sorting networks: what is compared does not depend on data, so a comparison is a minimum and a maximum of whole
// vectors. Private to the sort*.cpp files.
//
// Networks work on lines: vectors of words that lie one after the other in a buffer. Sorted runs are merged two and
// two. A merge flips and then halves:
//   flip: of 2 * run vectors the i-th is compared with the i-th from the end
//   halve: vectors `distance` apart are compared, then those half as far apart, and so on down to neighbours
// Halving once more by a distance within the merged runs changes nothing. A line has room for a power of two of
// vectors. Those behind the first `count` hold the largest word, which stays there: nothing is done where only they
// are.
#pragma once

#include "compile/direct/sort_writer.h"

namespace heddle {

struct SortLine {
  int buffer = -1;
  Expr base = 0;  // element where it begins
  // Each lane is a sequence of its own, or the line is one sequence in the order of memory.
  enum class Order { Lanes, Memory } order = Order::Lanes;
};

class SortingNetwork {
 public:
  using Value = SortWriter::Value;
  using Values = SortWriter::Values;
  using Put = std::function<void(const Values& vectors, const Expr& first)>;

  // Vectors in registers at a time, and how often they are compared: a flip also halves by run / 2 and run / 4.
  static constexpr int64_t kHeld = 8;
  static constexpr int kLayers = 3;

  SortingNetwork(SortWriter& writer, DType word);
  int64_t lanes() const { return lanes_; }

  // Sorts every lane. `count` is a multiple of kHeld.
  void sort_lanes(const SortLine& line, int64_t count) const;
  // Runs and distances are meant `scale` times as long, which is a power of two.
  void flip(const SortLine& line, const Expr& count, int64_t run, const Expr& scale = 1) const;
  void halve(const SortLine& line, const Expr& count, int64_t distance, int layers, const Expr& scale = 1) const;
  // The end of a merge in the order of memory: halves by fewer vectors than there are lanes, then within vectors.
  // Without `put` the vectors go back to where they were.
  void finish(const SortLine& line, const Expr& count, const Put& put = {}) const;

  // One step of flip() and of a halving by at most kLayers distances, `at` < run / 4 or the last of these.
  void flip_step(const SortLine& line, const Expr& block, const Expr& at, int64_t run, const Expr& scale = 1) const;
  void halve_step(const SortLine& line, const Expr& block, const Expr& at, int64_t distance, int layers,
                  const Expr& scale = 1) const;

 private:
  Value load(const SortLine& line, const Expr& vector, bool reversed = false) const;
  void store(const SortLine& line, Value v, const Expr& vector, bool reversed = false) const;
  void compare(Value& low, Value& high) const;
  void compare_ends(Values& v, size_t block) const;
  void halve_all(Values& v, size_t distance) const;

  SortWriter& w;
  int64_t lanes_;
};

}  // namespace heddle
