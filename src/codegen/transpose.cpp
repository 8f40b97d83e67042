// Transposes of n vectors of n lanes by shuffles of two operands, in an order that machines have instructions for.
#include <algorithm>

#include "codegen/emit.h"

namespace heddle::codegen {
namespace {

using Values = Emitter::Values;

// Machines shuffle freely within so many bytes and move larger parts as segments of them.
constexpr int64_t kSegmentBytes = 16;

// Lanes of a and b in turn, from the first or the second half of every segment.
llvm::Value* interleave(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Value* y, int lanes, int segment, bool second) {
  std::vector<int> order;
  for (int first = 0; first < lanes; first += segment)
    for (int k = 0; k < segment / 2; ++k) {
      int lane = first + k + (second ? segment / 2 : 0);
      order.push_back(lane);
      order.push_back(lanes + lane);
    }
  return b.CreateShuffleVector(x, y, order);
}

// The even or the odd segments of a, then those of b.
llvm::Value* every_second(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Value* y, int lanes, int segment, bool odd) {
  std::vector<int> order;
  for (int first = odd ? segment : 0; first < 2 * lanes; first += 2 * segment)
    for (int k = 0; k < segment; ++k) order.push_back(first + k);
  return b.CreateShuffleVector(x, y, order);
}

// Vector k of the result holds, in each segment of `segment` lanes, lane k of that segment of the `segment` vectors
// given.
Values within_segments(llvm::IRBuilder<>& b, Values rows, int lanes, int segment) {
  const size_t half = rows.size() / 2;
  for (int round = 1; round < segment; round *= 2) {
    Values next(rows.size());
    for (size_t i = 0; i < half; ++i)
      for (size_t second : {0u, 1u})
        next[2 * i + second] = interleave(b, rows[i], rows[i + half], lanes, segment, second != 0);
    rows = std::move(next);
  }
  return rows;
}

// Segment i of vector k of the result is segment k of vector i.
Values between_segments(llvm::IRBuilder<>& b, Values rows, int lanes, int segment) {
  const size_t half = rows.size() / 2;
  for (size_t round = 1; round < rows.size(); round *= 2) {
    Values next(rows.size());
    for (size_t i = 0; i < half; ++i)
      for (size_t odd : {0u, 1u})
        next[i + odd * half] = every_second(b, rows[2 * i], rows[2 * i + 1], lanes, segment, odd != 0);
    rows = std::move(next);
  }
  return rows;
}

}  // namespace

void Emitter::transpose(const kernel::Inst& inst, Values& body_values) {
  const kernel::Type& type = kernel.values[inst.args[0]];
  const int lanes = static_cast<int>(lanes_of(type));
  const bool flags = type.dtype == kBool;  // single bits move as bytes
  Values rows;
  for (kernel::Value v : inst.args) {
    llvm::Value* row = splat(body_values[v], lanes);
    rows.push_back(flags ? to_memory(row, kBool) : row);
  }
  // First the segments, each of them a small transpose among as many vectors as it has lanes; then whole segments.
  const int segment = static_cast<int>(std::min<int64_t>(lanes, kSegmentBytes / size_of(type.dtype)));
  const auto group = static_cast<size_t>(segment);
  for (size_t first = 0; first < rows.size(); first += group) {
    auto begin = rows.begin() + static_cast<std::ptrdiff_t>(first);
    Values transposed = within_segments(b, Values(begin, begin + segment), lanes, segment);
    std::copy(transposed.begin(), transposed.end(), begin);
  }
  for (size_t k = 0; k < group; ++k) {
    Values same;
    for (size_t first = k; first < rows.size(); first += group) same.push_back(rows[first]);
    same = between_segments(b, std::move(same), lanes, segment);
    for (size_t i = 0; i < same.size(); ++i) rows[k + i * group] = same[i];
  }
  for (size_t i = 0; i < rows.size(); ++i) body_values[inst.results[i]] = flags ? from_memory(rows[i], kBool) : rows[i];
}

}  // namespace heddle::codegen
