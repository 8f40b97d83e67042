// Instructions that multiply small matrices and add the products to sums, as rows of a table.
#pragma once

#include <cstdint>
#include <span>

#include "core/dtype.h"

namespace heddle {

// Who issues an instruction and holds its sums.
enum class Issue : uint8_t {
  Thread,
  Warp,   // all threads of a warp together
  Group,  // kernel::kMatrixThreads neighbouring threads together
};

// Where factors and sums lie. Lowering has code for each of these, for the shape that is named with it.
enum class MatrixLayout : uint8_t {
  Packed,     // vectors of words of 32 bits; numbers along the sum share a word (Op::packed_dot)
  Panels,     // matrix registers, loaded from rows of words in memory; 16 x 16 (Op::panel_dot)
  Fragments,  // four registers of each of 32 lanes; 16 x 16 x 32 bytes (Op::mma, kernel/ir.h says which lane has what)
  Shared,     // factors in shared memory, rows of 128 bytes with exchanged parts; 64 rows of sums as
              // kernel::fragment() says (Op::matrix_dot)
};

// rows x depth numbers times depth x columns.
struct MatrixInstruction {
  Issue issue;
  MatrixLayout layout;
  DType factor, sum;
  int rows, columns, depth;
  bool rounds = false;  // factors, before they are multiplied: f32 to tf32
  friend bool operator==(const MatrixInstruction&, const MatrixInstruction&) = default;
};

// Rows for the tables of machines.
// Pairs of bf16, fours of i8, in vectors of 64 bytes.
inline constexpr MatrixInstruction kPackedPairs[] = {
    {Issue::Thread, MatrixLayout::Packed, DType::bf16, DType::f32, 1, 16, 2}};
inline constexpr MatrixInstruction kPackedBytes[] = {
    {Issue::Thread, MatrixLayout::Packed, DType::i8, DType::i32, 1, 16, 4}};
inline constexpr MatrixInstruction kPanels[] = {
    {Issue::Thread, MatrixLayout::Panels, DType::bf16, DType::f32, 16, 16, 32},
    {Issue::Thread, MatrixLayout::Panels, DType::i8, DType::i32, 16, 16, 64}};
inline constexpr MatrixInstruction kFragments[] = {
    {Issue::Warp, MatrixLayout::Fragments, DType::bf16, DType::f32, 16, 16, 16},
    {Issue::Warp, MatrixLayout::Fragments, DType::f16, DType::f32, 16, 16, 16},
    {Issue::Warp, MatrixLayout::Fragments, DType::i8, DType::i32, 16, 16, 32},
    {Issue::Warp, MatrixLayout::Fragments, DType::f32, DType::f32, 16, 16, 8, true}};
inline constexpr MatrixInstruction kFragmentsOfF8[] = {
    {Issue::Warp, MatrixLayout::Fragments, DType::f8e4m3, DType::f32, 16, 16, 32},
    {Issue::Warp, MatrixLayout::Fragments, DType::f8e5m2, DType::f32, 16, 16, 32}};
inline constexpr MatrixInstruction kShared[] = {
    {Issue::Group, MatrixLayout::Shared, DType::bf16, DType::f32, 64, 256, 16},
    {Issue::Group, MatrixLayout::Shared, DType::f16, DType::f32, 64, 256, 16}};

}  // namespace heddle
