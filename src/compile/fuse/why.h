// Why two computations are not in one kernel. Legality and cost give a Why; sentences are made of it only when
// somebody listens.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "graph/node.h"

namespace heddle {

// What is wrong with computing "it" in the kernel that reads it; `%` stands for a number.
struct Reason {
  using Words = const char*;
  // Why it is in memory.
  static constexpr Words CallerWants = "the caller wants it";
  static constexpr Words SeveralCompute = "% kernels would compute it again";
  static constexpr Words WouldRepeat = "the reader would compute each element % times";
  static constexpr Words ReadElsewhere = "the reader needs it elsewhere than where it would compute it";
  static constexpr Words KernelFull = "the reader's kernel is as long as one may be";
  static constexpr Words LongJoin = "a join of many parts is written part by part";
  static constexpr Words Scatter = "a scatter is a kernel of its own";
  static constexpr Words TakesNoReduction = "scatters and parts of long joins take in no reduction";
  static constexpr Words Direct =
      "sorts, loops, conditions and kernels that somebody wrote read memory and write memory";
  static constexpr Words Barrier = "a barrier lets others wait for it";
  static constexpr Words Scan = "the reader does not walk its scanned axis once, in order";
  static constexpr Words OutsideNest = "the nested sum that reads it does not compute it on the way";
  static constexpr Words NestWrites = "a nested sum that computes it has written it";
  static constexpr Words ReducedElsewhere = "several kernels read the nested sum, and one of them reduces it";
  static constexpr Words WalkedAcross =
      "the reader looks at each element % times, in another order than that of memory";
  static constexpr Words InPlace = "it is needed before memory is changed in place";
  // Why whoever reads it does not take the computation in.
  static constexpr Words SeveralRead = "% kernels read it";
  static constexpr Words WaitedFor = "others wait for it: it may not wait for them";
  static constexpr Words NeedEachOther = "one of the kernels needs what the other writes";
  static constexpr Words OtherPlaces = "the reader needs all of a row that is still being reduced";
  static constexpr Words OtherExtent = "the reader sees a part of it, or more than all";
  static constexpr Words OtherOrder = "its readers walk it in different orders";
  static constexpr Words OtherLoops = "the reader's outer loops are not its own";
  static constexpr Words OtherDirection = "one of them runs backwards";
  static constexpr Words ReducedAfterScan = "what it scans is reduced by the kernel that reads it";
  static constexpr Words SumsCannotFollow = "the reductions that it needs cannot follow it into the reader's loops";
  static constexpr Words OneRow = "1 row is too few for all cores";
  static constexpr Words FewRows = "% rows are too few for all cores";
  static constexpr Words ProductAlone = "a product is computed in blocks, as the only sum of its kernel";
  static constexpr Words NestTooLarge = "both nested sums together do not fit the machine";
};

struct Why {
  Reason::Words reason = nullptr;
  double count = 0;
  explicit operator bool() const { return reason; }
};

inline Why few_rows(double rows) { return {rows == 1 ? Reason::OneRow : Reason::FewRows, rows}; }

// Why a node is in memory, and why those who read it from there do not compute it in their own kernel.
struct Boundary {
  Why stored, apart;
};
using Boundaries = std::unordered_map<const Node*, Boundary>;

// Kernels with the same loops over the same memory that stayed two. Each is named by a node that it writes.
struct Siblings {
  const Node *first, *second;
  Why why;
};

struct Program;
// A line for each pair of steps of the program of which one reads what the other writes, and for the siblings.
std::vector<std::string> remarks(const Program& program, const Boundaries& boundaries,
                                 const std::vector<Siblings>& siblings);

}  // namespace heddle
