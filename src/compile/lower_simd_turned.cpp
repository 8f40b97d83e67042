// Nests in which some loads walk memory along another dimension than the vectors: squares of such loads are transposed
// in registers.
#include <algorithm>

#include "base/error.h"
#include "compile/lower_simd.h"

namespace heddle::simd {
namespace {

// Lanes of a square: more would only fill registers and code, fewer leave most of a vector empty.
constexpr int kWidestSquare = 32, kNarrowestSquare = 8;
// Elements closer together are better picked from vectors that hold them and what lies between.
constexpr int64_t kFarApart = 5;
// Rows that lie far apart defeat the machine's own prefetching: each fetches so many bytes ahead, where that many are
// wanted at all.
constexpr int64_t kAheadBytes = 512, kLongRow = 2048;
constexpr int64_t kLine = 64;

}  // namespace

// The dimension along which a load runs through memory, if vectors along `vector_dim` would pick single elements.
std::optional<int> Lowering::turned_along(const Nest& nest, const Inst& load, int vector_dim) const {
  if (nest.axis >= 0 || !load.binds.empty()) return std::nullopt;
  const Type& type = in_.values[load.results[0]];
  const int64_t least = std::min(nest.width, kNarrowestSquare);
  if (least < 2 || type.shape[vector_dim] < least) return std::nullopt;
  std::optional<Linear> across = linear_in(load.address, load.coords[vector_dim]);
  if (!across || std::abs(across->coefficient) < kFarApart) return std::nullopt;
  for (int d = 0; d < static_cast<int>(type.shape.size()); ++d) {
    if (d == vector_dim || type.shape[d] < least) continue;
    std::optional<Linear> along = linear_in(load.address, load.coords[d]);
    if (along && along->coefficient == 1) return d;
  }
  return std::nullopt;
}

void Lowering::plan_turned(Nest& nest, std::span<const Inst* const> leaves) {
  if (nest.axis >= 0 || nest.vector_dim < 0 || nest.walks[nest.vector_dim].whole) return;
  std::vector<std::vector<const Inst*>> along(nest.shape.size());
  for (const Inst* inst : leaves) {
    if (inst->op != Op::load) continue;
    std::optional<int> d = turned_along(nest, *inst, nest.vector_dim);
    if (d && !nest.walks[*d].whole) along[*d].push_back(inst);
  }
  auto most = std::max_element(along.begin(), along.end(), [](auto& a, auto& b) { return a.size() < b.size(); });
  if (most->empty()) return;
  nest.turned_dim = static_cast<int>(most - along.begin());
  nest.turned = *most;
  const int64_t room = std::min(nest.walks[nest.turned_dim].bound.hi(), nest.walks[nest.vector_dim].bound.hi());
  while (nest.width > 2 && (nest.width > kWidestSquare || nest.width > room)) nest.width /= 2;
  for (Walk& walk : nest.walks) walk.block = 1;
  // What bypasses the caches is written in whole lines.
  for (const Inst* root : nest.roots) {
    const int64_t size = size_of(in_.values[root->args[0]].dtype);
    std::optional<Linear> row = linear_in(root->address, root->coords[nest.turned_dim]);
    if (root->hint != kernel::Hint::Stream || !row || row->coefficient * size % kLine != 0) continue;
    const int64_t squares = std::min(kLine / (nest.width * size), nest.shape[nest.vector_dim] / nest.width);
    nest.squares = std::max(nest.squares, static_cast<int>(std::min<int64_t>(squares, 4)));
  }
  for (const Inst* inst : nest.turned) {
    const Type& type = in_.values[inst->results[0]];
    const int64_t size = size_of(type.dtype);
    const bool local = in_.buffers[inst->buffer].space == kernel::Space::Local;
    if (!local && nest.shape[nest.turned_dim] * size >= kLongRow)
      nest.ahead.emplace(inst, static_cast<int32_t>(kAheadBytes / size));
  }
}

// Squares, and at the edges what is left of them: row by row.
void Lowering::nest_squares(const Nest& nest, std::vector<std::vector<Part>>& parts, std::vector<Value>& out) {
  const int down = nest.turned_dim, along = nest.vector_dim;
  const int64_t height = nest.width, length = int64_t{nest.width} * nest.squares;
  const Expr rows = nest.walks[down].bound, columns = nest.walks[along].bound;
  auto squares = [&](const Expr& top, int top_level, const Expr& left) {
    parts[down].clear();
    parts[along].clear();
    for (int64_t i = 0; i < height; ++i) parts[down].push_back({top + Expr(i), top_level});
    for (int64_t j = 0; j < length; j += nest.width) parts[along].push_back({left + Expr(j), depth(), nest.width});
    for (const Inst* load : nest.turned) turn(nest, *load, parts);
    nest_leaf(nest, parts, out);
    return std::vector<Value>();
  };
  auto edge = [&](const Expr& top, const Expr& left) {
    const Expr width = min(columns - left, length);
    loop(min(rows - top, height), {}, [&](const Expr& i, std::vector<Value>) {
      parts[down] = {{top + i, depth()}};
      return loop(ceildiv(width, nest.width), {}, [&](const Expr& j, std::vector<Value>) {
        Expr start = j * Expr(nest.width);
        Expr active = provably_true(le(start + nest.width, width)) ? Expr(1) : lt(lane(nest.width), width - start);
        parts[along] = {{left + start, depth(), nest.width, active}};
        nest_leaf(nest, parts, out);
        return std::vector<Value>();
      });
    });
    return std::vector<Value>();
  };
  loop(ceildiv(rows, height), {}, [&](const Expr& i, std::vector<Value>) {
    const Expr top = i * Expr(height);
    const int top_level = depth();
    return loop(ceildiv(columns, length), {}, [&](const Expr& j, std::vector<Value>) {
      const Expr left = j * Expr(length);
      Expr full = logical_and(le(top + height, rows), le(left + length, columns));
      if (provably_true(full)) return squares(top, top_level, left);
      // Inside the branch, so that nothing which depends on the place is computed in front of it.
      return branch(full, [&] { return squares(top, depth(), left); }, [&] { return edge(top, left); });
    });
  });
}

// Emits `load` for whole squares; emit() then finds the values.
void Lowering::turn(const Nest& nest, const Inst& load, const std::vector<std::vector<Part>>& parts) {
  const int down = nest.turned_dim, along = nest.vector_dim;
  const Value v = load.results[0];
  const Dims& shape = in_.values[v].shape;
  const int rank = static_cast<int>(shape.size());
  Position at;
  at.at.resize(rank);
  at.level.resize(rank, base_level_);
  for (int d = 0; d < rank; ++d) {
    if (d == down || d == along) continue;
    HD_ASSERT(parts[d].size() == 1 && parts[d][0].width == 1, "a square in a block of other dimensions");
    at.at[d] = parts[d][0].base;
    at.level[d] = parts[d][0].level;
  }
  for (const Part& part : parts[along]) {
    std::vector<Value> rows;
    for (int64_t i = 0; i < nest.width; ++i) {
      Position row = at;
      row.at[down] = parts[down][0].base;
      row.at[along] = part.base + Expr(i);
      row.vector_dim = down;
      row.width = nest.width;
      rows.push_back(splat(emit_access(nest, load, project(row, shape), depth()), nest.width, depth()));
    }
    rows = builder().transpose(rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      Position column = at;
      column.at[down] = parts[down][i].base;
      column.at[along] = part.base;
      column = project(column, shape);
      memo_.insert_or_assign({v, column.at, nest.width, 1}, std::pair(rows[i], depth()));
    }
  }
}

}  // namespace heddle::simd
