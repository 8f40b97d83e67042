// A kernel prepared for interpretation: every value has its place in one array, every expression is compiled,
// every broadcast is a table.
#pragma once

#include <unordered_map>

#include "kernel/interpreter_expr.h"
#include "kernel/interpreter_math.h"

namespace heddle::kernel {

// Where a value lives: elements of thread t are at offset + t * count.
struct Place {
  int64_t offset = 0;
  int64_t count = 1;
  DType dtype = DType::f32;
};

// How an operand broadcasts to the shape of the instruction.
struct Broadcast {
  bool single = false;         // one element for all
  std::vector<int32_t> table;  // else, when not empty: which element
};

struct Step {
  const Inst* inst = nullptr;
  std::vector<Place> args, results;
  std::vector<Broadcast> broadcasts;  // one for each argument
  Dims dims;                          // over which coords run, or the result's shape
  int64_t count = 1;                  // elements of dims
  std::vector<int> coord_slots, bind_slots;
  AddressProgram address;
  IndexProgram guard, extent;
  std::vector<IndexProgram> panels;  // their addresses
  struct RegionProgram {
    IndexProgram offset;
    std::vector<IndexProgram> extents, at;
    IndexProgram guard;
    std::vector<int> coord_slots;
  };
  std::vector<RegionProgram> regions;
  int var_slot = -1;
  std::vector<std::vector<Step>> bodies;
  std::vector<std::vector<Place>> params, yields;  // of each body
  std::optional<ReducerProgram> reducer;
};

struct PhaseProgram {
  std::vector<int> block_slots;
  std::vector<IndexProgram> extents;
  std::vector<Step> steps;
  int working_threads = 1;
};

struct Program {
  std::vector<PhaseProgram> phases;
  std::vector<int> symbol_slots;
  std::vector<IndexProgram> sizes;  // of buffers
  int thread_slot = -1;
  int slots = 0;
  int64_t cells = 0;  // room for all values of all threads
};

// `threads`: how many run side by side in a block.
Program prepare(const Kernel& kernel, int threads);

}  // namespace heddle::kernel
