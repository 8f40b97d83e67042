// Why two computations are not in one kernel. Legality and cost give a Why, which costs nothing; words are made of it
// only when somebody listens.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "graph/node.h"

namespace heddle {

// What is wrong with computing "it" in the kernel that reads it.
enum class Reason : uint8_t {
  None,
  // Why it is in memory.
  CallerWants,
  SeveralCompute,  // `count`: kernels
  WouldRepeat,     // `count`: times
  ReadElsewhere,
  KernelFull,
  LongJoin,
  Scatter,
  TakesNoReduction,
  Sort,
  Barrier,
  Scan,
  OutsideNest,
  NestWrites,
  ReducedElsewhere,
  WalkedAcross,  // `count`: times
  InPlace,
  // Why whoever reads it does not take the computation in.
  SeveralRead,  // `count`: kernels
  WaitedFor,
  NeedEachOther,
  OtherPlaces,
  OtherExtent,
  OtherOrder,
  OtherLoops,
  OtherDirection,
  ReducedAfterScan,
  SumsCannotFollow,
  FewRows,  // `count`: rows
  ProductAlone,
  NestTooLarge,
};

struct Why {
  Reason reason = Reason::None;
  double count = 0;
  explicit operator bool() const { return reason != Reason::None; }
};

std::string words(const Why& why);

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
