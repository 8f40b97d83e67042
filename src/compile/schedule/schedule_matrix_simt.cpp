// The schedule of a contraction that a SIMT machine's matrix unit computes.
#include <algorithm>
#include <cmath>

#include "compile/schedule/matrix_simt.h"
#include "compile/schedule/warp_simt.h"
#include "kernel/tensor_maps.h"

namespace heddle {
namespace {

// Tiles, stages of the pipeline, and what part of the fastest rate they reach, measured on an H200.
struct Choice {
  int64_t rows, columns;
  int pipeline;
  double rate;
};
constexpr Choice kChoices[] = {
    {128, 256, 4, 1.0}, {128, 128, 6, 0.95}, {64, 256, 4, 0.7}, {64, 128, 6, 0.66}, {64, 64, 8, 0.4}};
constexpr int64_t kLeastRows = 4;
constexpr int64_t kGroup = 8;
constexpr double kProductsPerByte = 90;  // that a multiprocessor does while it reads or writes a byte

// Whether a matrix made of what a factor loads would be several times as large as what it is loaded from: then warps
// gather it.
bool repeats(const Loops& loops, const Contraction& c, int operand) {
  constexpr double kSeveral = 2;
  const std::optional<MatrixView> view = warp_view(loops, loops.stages[0], c, operand);
  if (!view || !view->is_gathered()) return false;
  double elements = 1;
  const std::vector<bool>& follows = operand == 0 ? c.a_axes : c.b_axes;
  for (size_t i = 0; i < follows.size(); ++i) {
    const size_t rank = loops.outer.size();
    if (follows[i])
      elements *= static_cast<double>(extent_of(i < rank ? loops.outer[i] : loops.stages[0].inner[i - rank]));
  }
  return elements > kSeveral * static_cast<double>(loops.buffers[static_cast<size_t>(view->buffer)].size.hi());
}

int64_t pieces(int64_t size, int64_t step) { return (size + step - 1) / step; }

}  // namespace

double ProductSizes::blocks(int64_t rows, int64_t columns) const {
  return others * together * static_cast<double>(pieces(m, rows) * pieces(n, columns));
}

ProductSizes product_sizes(const Loops& loops, const Contraction& c) {
  const auto a = static_cast<size_t>(c.a_axis), b = static_cast<size_t>(c.b_axis);
  double others = 1;
  for (size_t i = 0; i < loops.outer.size(); ++i)
    if (i != a && i != b) others *= static_cast<double>(extent_of(loops.outer[i]));
  return {a,
          b,
          extent_of(loops.outer[a]),
          extent_of(loops.outer[b]),
          extent_of(loops.stages[0].inner[0]),
          others,
          static_cast<double>(loops.together)};
}

bool worth_a_unit(const ProductSizes& sizes, int64_t least_rows, std::string* why) {
  constexpr int64_t kLeastDepth = 32;
  constexpr double kLeastProducts = 1 << 18;
  const double products =
      sizes.others * static_cast<double>(sizes.m) * static_cast<double>(sizes.n) * static_cast<double>(sizes.k);
  if (const int64_t rows = std::min(sizes.m, sizes.n); rows < least_rows)
    return refused(why, rows, rows == 1 ? " row" : " rows", " or columns, and fewer than ", least_rows,
                   " gain nothing");
  if (sizes.k < kLeastDepth)
    return refused(why, "a sum of ", sizes.k, " terms, and fewer than ", kLeastDepth, " gain nothing");
  return products >= kLeastProducts || refused(why, products, " products are over before the unit gains anything");
}

void FastestProduct::consider(Schedule candidate, const ProductSizes& sizes, int64_t depth, double rate, double bytes,
                              const Loops& loops, const Target& target) {
  constexpr int64_t kLeastSteps = 8;  // of a part
  const auto of = [](int64_t n) { return static_cast<double>(n); };
  const int64_t rows = candidate.block[sizes.a], columns = candidate.block[sizes.b];
  const double blocks = sizes.blocks(rows, columns);
  auto time_of = [&](int64_t parts) {
    const double waves = std::ceil(blocks * of(parts) / target.multiprocessors);
    const double multiplying = waves * of(rows * columns) * of(sizes.k) / (of(parts) * rate);
    // Partial sums of four bytes are written and read again.
    const double partial = parts > 1 ? 8 * sizes.others * of(sizes.m) * of(sizes.n) * of(parts) : 0;
    return multiplying + partial * bytes / target.multiprocessors;
  };
  double needs = time_of(1);
  const auto parts =
      std::min(static_cast<int64_t>(target.multiprocessors / blocks), pieces(sizes.k, depth) / kLeastSteps);
  if (parts > 1 && time_of(parts) < needs) {
    Schedule divided = candidate;
    divided.stages[0].split = parts;
    divided.persistent = 0;
    divided.group = 1;
    if (check(divided, loops, target).empty()) {
      candidate = std::move(divided);
      needs = time_of(parts);
    }
  }
  if (needs >= time) return;
  time = needs;
  schedule = std::move(candidate);
}

bool schedule_matrix_simt(Schedule& schedule, const Loops& loops, const Contraction& c, const Target& target,
                          std::string* why) {
  if (!find_instruction(target, MatrixLayout::Shared)) return refused(why, "the machine has none that copies");
  if (loops.stages[0].inner.size() != 1) return refused(why, "a sum over ", loops.stages[0].inner.size(), " axes");
  const ProductSizes sizes = product_sizes(loops, c);
  // Of so few rows single warps read the other factor faster.
  constexpr int64_t kWarpRows = 16;
  const bool warps = find_instruction(target, MatrixLayout::Fragments) != nullptr;
  const int64_t least_rows = warps ? kWarpRows + 1 : kLeastRows;
  if (!worth_a_unit(sizes, least_rows, why)) return false;
  if (warps && (repeats(loops, c, 0) || repeats(loops, c, 1)))
    return refused(why, "a factor would be several times as large as what it is read from");

  FastestProduct fastest;
  for (const Choice& choice : kChoices) {
    Schedule candidate = schedule;
    candidate.block.assign(loops.outer.size(), 1);
    candidate.block[sizes.a] = choice.rows;
    candidate.block[sizes.b] = choice.columns;
    candidate.threads = static_cast<int>((choice.rows / kernel::kMatrixRows + 1) * kernel::kMatrixThreads);
    candidate.persistent = target.multiprocessors;
    candidate.group = kGroup;
    StageSchedule& plan = candidate.stages[0];
    plan.dot = true;
    plan.unit = StageSchedule::Unit::Matrix;
    plan.pipeline = choice.pipeline;
    plan.loops = {{static_cast<int>(loops.outer.size()), kernel::kMatrixBytes / 2}};
    for (int operand : {0, 1})
      if (!factor_view(loops, loops.stages[0], c, operand))
        plan.staged.push_back({operand, Staged::Scope::Phase, 0, 0});
    if (std::string problem = check(candidate, loops, target); !problem.empty())
      refused(why, problem);
    else
      fastest.consider(std::move(candidate), sizes, kernel::kMatrixBytes / 2, choice.rate, kProductsPerByte, loops,
                       target);
  }
  if (!fastest.found()) return false;
  schedule = std::move(fastest.schedule);
  return true;
}

void schedule_product_simt(Schedule& schedule, const Loops& loops, const Contraction& c, const Target& target) {
  // Threads that share a tile, and how deep a step goes: measured on an H200. A thread of the larger ones holds 8 x 8
  // sums, and two blocks have room on a multiprocessor. Of the smallest 4 x 4, for products that leave much idle.
  struct Tile {
    int64_t rows, columns;
    int threads;
    int64_t depth;
  };
  constexpr Tile kTiles[] = {{128, 128, 256, 8}, {64, 64, 64, 16}, {32, 32, 64, 32}};
  constexpr double kLeastWaves = 1.5;  // blocks for each multiprocessor, or the next smaller tile is taken
  constexpr int kWarps = 8;            // warps that keep a multiprocessor going
  constexpr int64_t kLeastPart = 192;  // of a divided sum
  const ProductSizes sizes = product_sizes(loops, c);
  const auto [a, b, m, n, k, others, together] = sizes;
  StageSchedule& plan = schedule.stages[0];
  plan.dot = true;
  // Few blocks with long sums: the sums are divided.
  auto divide = [&, depth_of_sum = k](double warps) {
    const auto split =
        std::min(static_cast<int64_t>(std::round(kWarps * target.multiprocessors / warps)), depth_of_sum / kLeastPart);
    if (split <= 1) return;
    plan.split = split;
    if (!check(schedule, loops, target).empty()) plan.split = 1;
  };
  auto loop_by = [&, depth_of_sum = k](int64_t step) {
    if (step < depth_of_sum) plan.loops = {{static_cast<int>(loops.outer.size()), step}};
    return static_cast<int>(plan.loops.size());
  };
  if (std::min(m, n) < kTiles[2].rows || loops.values[static_cast<size_t>(c.a)].dtype != DType::f32) {
    schedule.block[a] = std::min<int64_t>(64, m);
    schedule.block[b] = std::min<int64_t>(64, n);
    const int depth = loop_by(8);
    plan.staged = {{0, Staged::Scope::Block, depth, 0}, {1, Staged::Scope::Block, depth, 0}};
    divide(sizes.blocks(schedule.block[a], schedule.block[b]) * schedule.threads / target.warp);
    return;
  }
  const Tile* tile = kTiles;
  while (tile != std::end(kTiles) - 1 && sizes.blocks(tile->rows, tile->columns) < kLeastWaves * target.multiprocessors)
    ++tile;
  schedule.block[a] = tile->rows;
  schedule.block[b] = tile->columns;
  schedule.threads = tile->threads;
  // A step that leaves nothing over, if there is one nearly as deep.
  int64_t step = tile->depth;
  while (step > tile->depth * 3 / 4 && k % step != 0) --step;
  const int depth = loop_by(k % step == 0 ? step : tile->depth);
  plan.staged = {{0, Staged::Scope::Block, depth, tile->rows}, {1, Staged::Scope::Block, depth, tile->columns}};
  divide(sizes.blocks(tile->rows, tile->columns) * tile->threads / target.warp);
}

}  // namespace heddle
