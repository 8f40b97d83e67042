// Nests in which some loads walk memory along another dimension than the vectors: squares of such loads are transposed
// in registers.
#include <algorithm>

#include "base/error.h"
#include "compile/simd/lowering.h"

namespace heddle::simd {
namespace {

// Lanes of a square: more would only fill registers and code, fewer leave most of a vector empty.
constexpr int kWidestSquare = 32, kNarrowestSquare = 8;
// Elements closer together are better picked from vectors that hold them and what lies between.
constexpr int64_t kLeastStride = 5;
// Rows that lie far apart defeat the machine's own prefetching: each prefetches so many bytes, where that many are
// wanted at all.
constexpr int64_t kPrefetchDistance = 512, kLongRow = 2048;
constexpr int64_t kLine = 64;
// Loads that a nest turns; and instructions worth a copy for each row of a square.
constexpr size_t kMostTransposed = 8;
constexpr int64_t kShortCode = 8;

}  // namespace

// The dimension along which a load runs through memory, if vectors along `vector_dim` would pick single elements.
std::optional<int> Lowering::transposed_along(const Nest& nest, const Inst& load, int vector_dim) const {
  if (nest.axis >= 0 || !load.binds.empty()) return std::nullopt;
  const Type& type = in_.values[load.results[0]];
  const int64_t least = std::min(nest.width, kNarrowestSquare);
  if (least < 2 || type.shape[vector_dim] < least) return std::nullopt;
  std::optional<Linear> across = linear_in(load.address, load.coords[vector_dim]);
  if (!across || std::abs(across->coefficient) < kLeastStride) return std::nullopt;
  for (int d = 0; d < static_cast<int>(type.shape.size()); ++d) {
    if (d == vector_dim || type.shape[d] < least) continue;
    std::optional<Linear> along = linear_in(load.address, load.coords[d]);
    if (along && along->coefficient == 1) return d;
  }
  return std::nullopt;
}

void Lowering::plan_transposed(Nest& nest, std::span<const Inst* const> leaves) {
  if (nest.axis >= 0 || nest.vector_dim < 0 || nest.walks[nest.vector_dim].whole) return;
  int64_t cost = 0;
  std::vector<std::vector<const Inst*>> along(nest.shape.size());
  for (const Inst* inst : leaves) {
    cost += op_cost(inst->op);
    if (inst->op != Op::load) continue;
    std::optional<int> d = transposed_along(nest, *inst, nest.vector_dim);
    if (d && !nest.walks[*d].whole) along[*d].push_back(inst);
  }
  auto most = std::ranges::max_element(along, [](auto& a, auto& b) { return a.size() < b.size(); });
  if (most->empty()) return;
  nest.transposed_dim = static_cast<int>(most - along.begin());
  for (size_t d = 0; d < nest.shape.size(); ++d) {
    bool square = static_cast<int>(d) == nest.transposed_dim || static_cast<int>(d) == nest.vector_dim;
    if (!square && nest.walks[d].whole && nest.shape[d] != 1) nest.transposed_dim = -1;
  }
  if (nest.transposed_dim < 0) return;
  nest.transposed = *most;
  if (nest.transposed.size() > kMostTransposed) nest.transposed.resize(kMostTransposed);
  nest.row_wise = cost > kShortCode || nest.transposed.size() > 2;
  const int64_t room = std::min(nest.walks[nest.transposed_dim].bound.hi(), nest.walks[nest.vector_dim].bound.hi());
  while (nest.width > 2 && (nest.width > kWidestSquare || nest.width > room)) nest.width /= 2;
  for (Walk& walk : nest.walks) walk.unroll = 1;
  // What bypasses the caches is written in whole lines.
  for (const Inst* root : nest.roots) {
    const int64_t size = size_of(in_.values[root->args[0]].dtype);
    std::optional<Linear> row = linear_in(root->address, root->coords[nest.transposed_dim]);
    if (root->hint != kernel::Hint::Stream || !row || row->coefficient * size % kLine != 0) continue;
    const int64_t squares = std::min(kLine / (nest.width * size), nest.shape[nest.vector_dim] / nest.width);
    nest.squares = std::max(nest.squares, static_cast<int>(std::min<int64_t>(squares, 4)));
  }
  for (const Inst* inst : nest.transposed) {
    const Type& type = in_.values[inst->results[0]];
    const int64_t size = size_of(type.dtype);
    const bool shared = in_.buffers[inst->buffer].space == kernel::Space::Shared;
    if (!shared && nest.shape[nest.transposed_dim] * size >= kLongRow)
      nest.prefetch.emplace(inst, static_cast<int32_t>(kPrefetchDistance / size));
  }
}

// Squares, and at the edges what is left of them: row by row.
void Lowering::nest_squares(const Nest& nest, std::vector<std::vector<Part>>& parts, std::vector<Value>& out) {
  const int down = nest.transposed_dim, along = nest.vector_dim;
  const int64_t height = nest.width, length = int64_t{nest.width} * nest.squares;
  const Expr rows = nest.walks[down].bound, columns = nest.walks[along].bound;
  std::vector<int> scratch;
  if (nest.row_wise)
    for (const Inst* load : nest.transposed) {
      scratch.push_back(static_cast<int>(out_.buffers.size()));
      DType dtype = in_.values[load->results[0]].dtype;
      out_.buffers.push_back({text("shared", scratch.back()), dtype, kernel::Space::Shared, height * length});
    }
  auto element = [&](const Expr& row, size_t square) {
    const Expr lanes = lane(nest.width), first = Expr(static_cast<int64_t>(square) * nest.width);
    return Builder::Access{.address = row * Expr(length) + first + lanes, .coords = {lanes}};
  };
  auto squares = [&](const Expr& top, int top_level, const Expr& left) {
    parts[down].clear();
    parts[along].clear();
    for (int64_t i = 0; i < height; ++i) parts[down].push_back({top + Expr(i), top_level});
    for (int64_t j = 0; j < length; j += nest.width) parts[along].push_back({left + Expr(j), depth(), nest.width});
    for (size_t k = 0; k < nest.transposed.size(); ++k)
      for (size_t j = 0; j < parts[along].size(); ++j) {
        std::vector<Value> transposed = transpose(nest, *nest.transposed[k], parts, j);
        for (size_t i = 0; i < transposed.size(); ++i) {
          const Expr row = static_cast<int64_t>(i);
          if (nest.row_wise)
            builder().store(scratch[k], transposed[i], element(row, j));
          else
            remember(nest, *nest.transposed[k], parts, top + row, j, transposed[i]);
        }
      }
    if (!nest.row_wise) return nest_leaf(nest, parts, out);
    loop(height, {}, [&](const Expr& i, std::vector<Value>) {
      parts[down] = {{top + i, depth()}};
      for (size_t k = 0; k < nest.transposed.size(); ++k)
        for (size_t j = 0; j < parts[along].size(); ++j) {
          DType dtype = in_.values[nest.transposed[k]->results[0]].dtype;
          remember(nest, *nest.transposed[k], parts, top + i, j, builder().load(scratch[k], dtype, element(i, j)));
        }
      nest_leaf(nest, parts, out);
    });
  };
  auto edge = [&](const Expr& top, const Expr& left) {
    const Expr width = min(columns - left, length);
    loop(min(rows - top, height), {}, [&](const Expr& i, std::vector<Value>) {
      parts[down] = {{top + i, depth()}};
      loop(ceildiv(width, nest.width), {}, [&](const Expr& j, std::vector<Value>) {
        Expr start = j * Expr(nest.width);
        Expr active = provably_true(le(start + nest.width, width)) ? Expr(1) : lt(lane(nest.width), width - start);
        parts[along] = {{left + start, depth(), nest.width, active}};
        nest_leaf(nest, parts, out);
      });
    });
  };
  loop(ceildiv(rows, height), {}, [&](const Expr& i, std::vector<Value>) {
    const Expr top = i * Expr(height);
    const int top_level = depth();
    loop(ceildiv(columns, length), {}, [&](const Expr& j, std::vector<Value>) {
      const Expr left = j * Expr(length);
      Expr full = logical_and(le(top + height, rows), le(left + length, columns));
      if (provably_true(full)) return squares(top, top_level, left);
      // Inside the branch, so that nothing which depends on the place is computed in front of it.
      branch(full, [&] { return squares(top, depth(), left); }, [&] { return edge(top, left); });
    });
  });
}

namespace {

// The place of a part of other dimensions than those of the squares.
Position outside(const std::vector<std::vector<Part>>& parts, int down, int along, int base_level) {
  const int rank = static_cast<int>(parts.size());
  Position at = Position::origin(rank, base_level);
  for (int d = 0; d < rank; ++d) {
    if (d == down || d == along) continue;
    HD_ASSERT(parts[d].size() == 1 && parts[d][0].width == 1, "a square in a block of other dimensions");
    at.go_to(d, parts[d][0], false);
  }
  return at;
}

}  // namespace

// The rows of one square of `load`, vectors along vector_dim.
std::vector<Value> Lowering::transpose(const Nest& nest, const Inst& load, const std::vector<std::vector<Part>>& parts,
                                       size_t square) {
  const int down = nest.transposed_dim, along = nest.vector_dim;
  const Position at = outside(parts, down, along, base_level_);
  std::vector<Value> columns;
  for (int64_t i = 0; i < nest.width; ++i) {
    Position column = at;
    column.at[down] = parts[down][0].base;
    column.at[along] = parts[along][square].base + Expr(i);
    column.vector_dim = down;
    column.width = nest.width;
    column = project(column, in_.values[load.results[0]].shape);
    columns.push_back(splat(emit_access(nest, load, column, depth()), nest.width, depth()));
  }
  return builder().transpose(columns);
}

// Lets emit() find the value of `load` at a row of a square.
void Lowering::remember(const Nest& nest, const Inst& load, const std::vector<std::vector<Part>>& parts,
                        const Expr& row, size_t square, Value found) {
  Position at = outside(parts, nest.transposed_dim, nest.vector_dim, base_level_);
  at.at[nest.transposed_dim] = row;
  at.at[nest.vector_dim] = parts[nest.vector_dim][square].base;
  at = project(at, in_.values[load.results[0]].shape);
  memo_.insert_or_assign({load.results[0], at.at, nest.width, 1}, std::pair(found, depth()));
}

}  // namespace heddle::simd
