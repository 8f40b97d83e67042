// What the compiler knows of a machine. Lowering asks this, never which backend it is.
#pragma once

#include <cstdint>
#include <string>

namespace heddle {

enum class Machine : uint8_t { Simd, Simt };

// About how long things take, in nanoseconds: enough to choose between computing again and a trip through memory.
struct Rates {
  double operation = 0.03;  // for one element
  double byte = 0.08;       // written or read
  double launch = 2000;     // a kernel

  double arithmetic(double operations) const { return operations * operation; }
  double traffic(double bytes) const { return bytes * byte; }
};

struct Target {
  std::string name;  // "avx512", "sm_90a"
  Machine machine = Machine::Simd;
  std::string llvm_triple;  // empty: the host
  std::string llvm_cpu, llvm_features;
  // SIMD
  int vector_bytes = 64;
  int vector_registers = 32;
  int cores = 1;
  bool packed_products = false;  // adds products of pairs of bf16 twice as fast as products of f32
  bool byte_products = false;    // adds products of four i8 at a time four times as fast as products of f32
  bool matrix_unit = false;      // multiplies tiles of bf16 and i8 (AMX); SIMT: of bf16 and f16, by groups of warps
  int64_t l1_bytes = 32 << 10, l2_bytes = 1 << 20, l3_bytes = 32 << 20;
  // SIMT
  int warp = 32;
  int max_threads = 1024;
  int64_t shared_bytes = 48 << 10;  // shared memory of a block
  int multiprocessors = 132;
  bool warp_products = false;  // warps multiply fragments of bf16, f16, i8 and f32 as tf32, fed by copies
  bool f8_products = false;    // and of f8
  bool tf32 = false;           // products of f32 may round their factors to tf32: asked for by the user
  Rates rates = {};
};

// The same machine when tf32 is asked for.
inline Target with_tf32(Target target) {
  target.tf32 = true;
  return target;
}

}  // namespace heddle
