// Transposes of n vectors of n lanes by shuffles of two operands, in an order that machines have instructions for.
#include <algorithm>

#include "codegen/emit.h"

namespace heddle::codegen {
namespace {

using Values = Emitter::Values;

// Machines shuffle freely within so many bytes and move larger parts as blocks of them.
constexpr int64_t kBlockBytes = 16;

// Lanes of a and b in turn, from the first or the second half of every block.
llvm::Value* interleave(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Value* y, int lanes, int block, bool second) {
  std::vector<int> order;
  for (int first = 0; first < lanes; first += block)
    for (int k = 0; k < block / 2; ++k) {
      int lane = first + k + (second ? block / 2 : 0);
      order.push_back(lane);
      order.push_back(lanes + lane);
    }
  return b.CreateShuffleVector(x, y, order);
}

// The even or the odd blocks of a, then those of b.
llvm::Value* every_second(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Value* y, int lanes, int block, bool odd) {
  std::vector<int> order;
  for (int first = odd ? block : 0; first < 2 * lanes; first += 2 * block)
    for (int k = 0; k < block; ++k) order.push_back(first + k);
  return b.CreateShuffleVector(x, y, order);
}

// Vector k of the result holds, in each block of `block` lanes, lane k of that block of the `block` vectors given.
Values within_blocks(llvm::IRBuilder<>& b, Values rows, int lanes, int block) {
  const size_t half = rows.size() / 2;
  for (int round = 1; round < block; round *= 2) {
    Values next(rows.size());
    for (size_t i = 0; i < half; ++i)
      for (size_t second : {0u, 1u})
        next[2 * i + second] = interleave(b, rows[i], rows[i + half], lanes, block, second != 0);
    rows = std::move(next);
  }
  return rows;
}

// Block i of vector k of the result is block k of vector i.
Values between_blocks(llvm::IRBuilder<>& b, Values rows, int lanes, int block) {
  const size_t half = rows.size() / 2;
  for (size_t round = 1; round < rows.size(); round *= 2) {
    Values next(rows.size());
    for (size_t i = 0; i < half; ++i)
      for (size_t odd : {0u, 1u})
        next[i + odd * half] = every_second(b, rows[2 * i], rows[2 * i + 1], lanes, block, odd != 0);
    rows = std::move(next);
  }
  return rows;
}

}  // namespace

void Emitter::transpose(const kernel::Inst& inst, Values& block_values) {
  const kernel::Type& type = kernel.values[inst.args[0]];
  const int lanes = static_cast<int>(lanes_of(type));
  const bool flags = type.dtype == kBool;  // single bits move as bytes
  Values rows;
  for (kernel::Value v : inst.args) {
    llvm::Value* row = splat(block_values[v], lanes);
    rows.push_back(flags ? to_memory(row, kBool) : row);
  }
  // First the blocks, each of them a small transpose among as many vectors as it has lanes; then whole blocks.
  const int block = static_cast<int>(std::min<int64_t>(lanes, kBlockBytes / size_of(type.dtype)));
  const auto group = static_cast<size_t>(block);
  for (size_t first = 0; first < rows.size(); first += group) {
    auto begin = rows.begin() + static_cast<std::ptrdiff_t>(first);
    Values turned = within_blocks(b, Values(begin, begin + block), lanes, block);
    std::copy(turned.begin(), turned.end(), begin);
  }
  for (size_t k = 0; k < group; ++k) {
    Values same;
    for (size_t first = k; first < rows.size(); first += group) same.push_back(rows[first]);
    same = between_blocks(b, std::move(same), lanes, block);
    for (size_t i = 0; i < same.size(); ++i) rows[k + i * group] = same[i];
  }
  for (size_t i = 0; i < rows.size(); ++i)
    block_values[inst.results[i]] = flags ? from_memory(rows[i], kBool) : rows[i];
}

}  // namespace heddle::codegen
