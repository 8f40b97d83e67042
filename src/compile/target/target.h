// What the compiler knows of a machine: what it can do, how much it has. Plain data, filled in by a backend. Lowering
// asks this, never which backend or vendor it is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compile/target/matrix_instruction.h"
#include "core/ops.h"

namespace heddle {

enum class Machine : uint8_t { Simd, Simt };  // one thread with vectors runs a block, or a block of threads

// A function that takes an instruction or a few, where other machines add up polynomials.
struct NativeMath {
  ScalarOp op;
  DType dtype;
  double ulp;  // its largest error, in units of the last place
  friend bool operator==(const NativeMath&, const NativeMath&) = default;
};

// About how long things take, in nanoseconds: enough to choose between computing again and a trip through memory.
struct Rates {
  double operation = 0.03;  // for one element
  double byte = 0.08;       // written or read
  double launch = 2000;     // a kernel

  double arithmetic(double operations) const { return operations * operation; }
  double traffic(double bytes) const { return bytes * byte; }
};

struct Target {
  std::string name;  // for people, and to tell machines apart in caches; nobody asks it
  Machine machine = Machine::Simd;
  std::string llvm_triple;  // empty: the host
  std::string llvm_cpu, llvm_features;
  // Numbers
  int index_bits = 64;                    // 32: indices that fit are computed faster so
  bool fma = true;                        // multiplies and adds, rounding once
  std::vector<DType> converts;            // small floats that an instruction turns into f32 and back
  std::vector<DType> atomic_adds;         // small floats that an instruction adds to memory
  std::vector<NativeMath> math;           // and division where the op is `div`: of 1 by a number
  std::vector<MatrixInstruction> matrix;  // of which each is faster than multiplying and adding numbers
  bool tf32 = false;                      // instructions of `matrix` that round f32 may be used: the user asked for it
  // SIMD
  int vector_bytes = 64;  // SIMT: that a thread loads at once
  int vector_registers = 32;
  int cores = 1;
  int64_t l1_bytes = 32 << 10, l2_bytes = 1 << 20, l3_bytes = 32 << 20;
  // SIMT
  int warp = 32;  // threads between which values can be shuffled
  int max_threads = 1024;
  int64_t shared_bytes = 48 << 10;  // shared memory of a block
  int shared_banks = 32;            // of four bytes, of shared memory; threads that meet in one wait for each other
  int multiprocessors = 132;
  Rates rates = {};
};

// The same machine when tf32 is asked for.
inline Target with_tf32(Target target) {
  target.tf32 = true;
  return target;
}

// Whether the machine converts, or adds to memory, such floats by an instruction.
bool converts(const Target& target, DType dtype);
bool adds_to_memory(const Target& target, DType dtype);
// The function as the machine has it, if that is at least so exact; null: it does not.
const NativeMath* native(const Target& target, ScalarOp op, DType dtype, double ulp);
// exp2 of f32, as exact as all functions are (kernel/math.h).
inline bool has_exp2(const Target& target) { return native(target, ScalarOp::exp2, DType::f32, 2) != nullptr; }
// An instruction for factors of that dtype in that layout, for any dtype if none is named; null: there is none.
const MatrixInstruction* find_instruction(const Target& target, MatrixLayout layout);
const MatrixInstruction* find_instruction(const Target& target, MatrixLayout layout, DType factor);

void add_instructions(Target& target, std::span<const MatrixInstruction> instructions);
void remove_instructions(Target& target, MatrixLayout layout);

// One line with every field, for keys of caches.
std::string describe(const Target& target);

}  // namespace heddle
