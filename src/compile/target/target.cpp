#include "compile/target/target.h"

#include <algorithm>

#include "base/contains.h"
#include "base/error.h"

namespace heddle {

bool converts(const Target& target, DType dtype) { return contains(target.converts, dtype); }

bool adds_to_memory(const Target& target, DType dtype) { return contains(target.atomic_adds, dtype); }

const NativeMath* native(const Target& target, ScalarOp op, DType dtype, double ulp) {
  for (const NativeMath& math : target.math)
    if (math.op == op && math.dtype == dtype && math.ulp <= ulp) return &math;
  return nullptr;
}

const MatrixInstruction* find_instruction(const Target& target, MatrixLayout layout) {
  for (const MatrixInstruction& row : target.matrix)
    if (row.layout == layout) return &row;
  return nullptr;
}

const MatrixInstruction* find_instruction(const Target& target, MatrixLayout layout, DType factor) {
  for (const MatrixInstruction& row : target.matrix)
    if (row.layout == layout && row.factor == factor && (!row.rounds || target.tf32)) return &row;
  return nullptr;
}

void add_instructions(Target& target, std::span<const MatrixInstruction> instructions) {
  target.matrix.insert(target.matrix.end(), instructions.begin(), instructions.end());
}

void remove_instructions(Target& target, MatrixLayout layout) {
  std::erase_if(target.matrix, [&](const MatrixInstruction& row) { return row.layout == layout; });
}

// A new field does not compile until it is named here.
std::string describe(const Target& target) {
  const auto& [name, machine, triple, cpu, features, index_bits, fma, converts, atomic_adds, math, matrix, tf32,
               vector_bytes, vector_registers, cores, l1_bytes, l2_bytes, l3_bytes, warp, max_threads, shared_bytes,
               shared_banks, multiprocessors, rates] = target;
  std::string lists;
  for (DType dtype : converts) lists += text(" ", dtype);
  lists += " +";
  for (DType dtype : atomic_adds) lists += text(" ", dtype);
  for (const NativeMath& each : math) lists += text(" ", info(each.op).name, " ", each.dtype, " ", each.ulp);
  for (const MatrixInstruction& row : matrix)
    lists += text(" ", static_cast<int>(row.issue), " ", static_cast<int>(row.layout), " ", row.factor, " ", row.sum,
                  " ", row.rows, " ", row.columns, " ", row.depth, " ", row.rounds);
  return text(name, " ", static_cast<int>(machine), " ", triple, " ", cpu, " ", features, " ", index_bits, " ", fma,
              lists, " ", tf32, " ", vector_bytes, " ", vector_registers, " ", cores, " ", l1_bytes, " ", l2_bytes, " ",
              l3_bytes, " ", warp, " ", max_threads, " ", shared_bytes, " ", shared_banks, " ", multiprocessors, " ",
              rates.operation, " ", rates.byte, " ", rates.launch);
}

}  // namespace heddle
