// Fuse: a graph becomes a list of kernels (Loops), with tensors between them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/modes.h"
#include "compile/direct/direct.h"
#include "compile/loops/loops.h"
#include "compile/loops/traffic.h"

namespace heddle {

struct Update;

struct Program {
  struct Tensor {
    const Node* node;   // kept alive by the roots
    bool leaf = false;  // realised already (Buffer), or an Input the caller provides
    bool output = false;
    int replaces = -1;     // an output: the leaf whose memory it is meant to take over
    bool updated = false;  // then: kernels write what differs from the leaf only, and find the rest in memory
    bool packed = false;   // a factor as a unit wants it: no graph has it, the node only says dtype and shape
  };
  // One use of a kernel: what its buffers and symbols stand for.
  struct Segment {
    std::vector<int> tensors;   // for each buffer but that of checks, an index into Program::tensors
    std::vector<Expr> symbols;  // for each symbol of the kernel its value: a number, or a symbol of the graph
    Traffic traffic;            // without what the kernel keeps in Temp buffers
  };
  struct Step {
    Loops loops;                         // empty when the kernel is built directly
    std::optional<DirectKernel> direct;  // then this
    const Node* control = nullptr;       // no kernel but control flow, which whoever makes a plan runs; see `direct`
    std::vector<Segment> segments;       // one or more, which do not need each other: one launch does them all
    std::vector<int> after;              // tensors that are computed before this runs, though it does not read them
    // For each element of the buffer of checks, what it means when that is not zero: an index that is out of range.
    struct Check {
      const char* node;
      int64_t label, axis;
      Expr size;
      friend bool operator==(const Check&, const Check&) = default;
    };
    std::vector<Check> checks;
    // The indices that a check looks at: all elements of `index`, or some.
    struct Checked {
      const Node* index;
      size_t check;
      bool whole;
    };
    std::vector<Checked> checked;
    Substitution given;                // the values of symbols that are no sizes, in its only segment
    bool tf32 = false;                 // products of f32 may round their factors
    const char* not_packed = nullptr;  // SIMT: why its sums are not laid out as a product of two matrices
    std::vector<const Node*> nested;   // its sums that compute a factor on the way
    const Update* update = nullptr;    // while the program is made: it changes a part of an output that is `updated`
  };
  std::vector<Tensor> tensors;
  std::vector<Step> steps;           // in an order in which they may run
  std::vector<int> outputs;          // for each root, its tensor
  std::vector<NodeRef> made;         // those of packed tensors
  std::vector<std::string> remarks;  // if they are wanted: why two kernels are not one, a line each
};

struct FuseOptions {
  Modes modes = {};
  Machine machine = Machine::Simd;  // what products are laid out for
  Rates rates = {};
  bool remarks = false;   // say why kernels are not one
  bool pack_all = false;  // however small they are
  // Why a kernel of nested sums is none for the machine, if so: it is made again, first each sum in a kernel of its
  // own, then through memory.
  std::function<std::string(const Program::Step&)> refuses_nest = {};
};

// Every root becomes a tensor in memory; constants are folded into kernels. `replaces` says for each root which leaf's
// memory it should take over (null: none), so that it is written after the leaf has been read where that is possible.
// Where the root is the leaf with a part changed, that part alone is written (Tensor::updated).
Program fuse(std::span<const NodeRef> roots, std::span<const Node* const> replaces = {},
             const FuseOptions& options = {});

}  // namespace heddle
