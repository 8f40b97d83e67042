#include "compile/schedule/matrix_contraction.h"

#include <algorithm>
#include <cmath>

#include "compile/schedule/schedule.h"
#include "kernel/tensor_maps.h"
#include "kernel/types.h"

namespace heddle {

using kernel::kMatrixRows;
using kernel::kMatrixThreads;
using kernel::kWarpLanes;

namespace {

// ---- legality ----

// One product of two matrices a block, and later stages that finish it element by element.
std::string check_product(const Site& at, const Contraction& c) {
  if (at.s != 0 || is_nested(at.loops)) return at.problem("a matrix unit in nested loops");
  if (!c.is_matmul() || at.stage().inner.size() != 1 || at.stage().kept != 0)
    return at.problem("not a product of two matrices");
  for (const kernel::Inst& inst : at.stage().body.insts)
    if (inst.op == kernel::Op::check) return at.problem("a matrix unit does not look at indices");
  const size_t k = at.loops.outer.size();
  if (!c.a_axes[k] || !c.b_axes[k]) return at.problem("a factor does not follow the summed axis");
  for (int i = 0; i < static_cast<int>(k); ++i)
    if (i != c.a_axis && i != c.b_axis && at.schedule.block[i] != 1) return at.problem("blocks of several matrices");
  for (size_t later = 1; later < at.loops.stages.size(); ++later) {
    const StageSchedule& plan = at.schedule.stages[later];
    if (!std::holds_alternative<Map>(plan.strategy) || !at.loops.stages[later].inner.empty() || !plan.loops.empty() ||
        !plan.joined)
      return text("stage ", later, " cannot finish what a matrix unit computes");
  }
  if (!at.plan().loops.empty()) return at.problem("a matrix unit walks its sum by itself");
  return "";
}

std::string check_groups(const MatrixContraction& unit, const Site& at, int64_t rows, int64_t columns) {
  if (rows % kMatrixRows != 0 || rows > 4 * kMatrixRows || columns % 64 != 0 || columns > 256)
    return at.problem("blocks of ", rows, " x ", columns, " for a matrix unit");
  if (at.schedule.threads != (rows / kMatrixRows + 1) * kMatrixThreads)
    return text(at.schedule.threads, " threads for ", rows, " rows");
  if (kernel::MatrixRing{rows, columns, static_cast<int>(unit.pipeline)}.bytes() + 1024 +
          kernel::matrix_store_bytes(rows) >
      at.target.shared_bytes)
    return at.problem(unit.pipeline, " stages do not fit");
  if (unit.parts > 1 && rows * columns * 4 > at.target.shared_bytes)
    return at.problem("divided sums of ", rows, " x ", columns, " do not fit");
  return "";
}

std::string check_warps(const MatrixContraction& unit, const Site& at, const Contraction& c, DType dtype, int64_t rows,
                        int64_t columns) {
  if (dtype == DType::f32 && !at.target.tf32) return at.problem("nobody asked for products of tf32");
  if (!warp_instruction(at.target, dtype)) return at.problem("the machine does not multiply ", dtype);
  const int threads = at.schedule.threads;
  if (threads % kWarpLanes != 0 || !warp_grid(rows, columns, threads / kWarpLanes))
    return at.problem("blocks of ", rows, " x ", columns, " for ", threads, " threads");
  constexpr int64_t kMostSums = 128;  // of a thread
  if (rows * columns > kMostSums * threads) return at.problem(rows * columns / threads, " sums for each thread");
  // Bytes of shared memory of one stage of the pipeline, a tile of both factors.
  const int64_t depth = unit_depth(dtype, true);
  auto tile_bytes = [&](int operand, bool packed, int64_t own) {
    const std::optional<MatrixView> view = factor_view(at.loops, at.stage(), c, operand, true);
    const bool transposed =
        packed ? packed_transposed(at.loops, at.stage(), c, operand, dtype) : view && view->transposed;
    return (transposed ? depth * warp_pitch(own, dtype) : own * warp_pitch(depth, dtype)) * size_of(dtype);
  };
  const int64_t stage_bytes = tile_bytes(0, unit.pack_left, rows) + tile_bytes(1, unit.pack_right, columns);
  // Divided sums are put together by a phase of their own.
  constexpr int64_t kAlignment = 1024;
  const int64_t bytes = std::max(unit.pipeline * stage_bytes, unit.parts > 1 ? rows * columns * 4 : 0) + 2 * kAlignment;
  if (bytes > at.target.shared_bytes) return at.problem(unit.pipeline, " stages of ", stage_bytes, " bytes do not fit");
  return "";
}

}  // namespace

std::string check(const MatrixContraction& unit, const Site& at) {
  if (!find_instruction(at.target, unit.warps ? MatrixLayout::Fragments : MatrixLayout::Shared))
    return unit.warps ? "the machine has no matrix unit for warps" : "the machine has no matrix unit that copies";
  if (unit.pipeline < (unit.warps ? 2 : 1)) return at.problem("room for ", unit.pipeline, " stages");
  if (unit.persistent < 0 || unit.group < 1 || (unit.persistent > 0 && unit.parts > 1))
    return at.problem(unit.persistent, " persistent blocks of ", unit.parts, " parts in groups of ", unit.group);
  const std::optional<Contraction> c = find_contraction(at.loops, at.stage());
  if (!c) return text("stage ", at.s, " is no sum of products");
  if (std::string problem = check_product(at, *c); !problem.empty()) return problem;
  if (std::string problem = check_parts(unit.parts, at); !problem.empty()) return problem;
  auto left = unit_factor(at.loops, at.stage(), *c, 0, unit.warps),
       right = unit_factor(at.loops, at.stage(), *c, 1, unit.warps);
  if (!left || !right || at.loops.dtype(*left) != at.loops.dtype(*right) ||
      (!unit.warps && !find_instruction(at.target, MatrixLayout::Shared, at.loops.dtype(*left))))
    return at.problem("its factors are not ones of a matrix unit");
  const int64_t rows = at.schedule.block[c->a_axis];
  const int64_t columns = at.schedule.block[c->b_axis];
  std::string problem = unit.warps ? check_warps(unit, at, *c, at.loops.dtype(*left), rows, columns)
                                   : check_groups(unit, at, rows, columns);
  if (!problem.empty()) return problem;
  for (int operand : {0, 1})
    if (!(operand == 0 ? unit.pack_left : unit.pack_right) &&
        !factor_view(at.loops, at.stage(), *c, operand, unit.warps))
      return at.problem("operand ", operand, " cannot be copied as it is");
  return "";
}

// ---- search ----

void change(MatrixContraction& unit, const Site& at, const RandomBelow& draw) {
  switch (draw(4)) {
    case 0: unit.pipeline += draw(2) == 0 ? 1 : -1; break;
    case 1: unit.parts = draw_parts(unit.parts, at.target, draw); break;
    case 2: unit.persistent = unit.persistent > 0 && draw(2) == 0 ? 0 : 1 + draw(at.target.multiprocessors); break;
    default: unit.group = 1 + draw(16); break;
  }
  if (unit.parts > 1) unit.persistent = 0;
  if (unit.persistent == 0) unit.group = 1;
}

void draw_matrix(Schedule& schedule, const Loops& loops, const Contraction& c, const Target& target, bool warps,
                 const RandomBelow& draw) {
  MatrixContraction unit;
  unit.warps = warps;
  int64_t &rows = schedule.block[c.a_axis], &columns = schedule.block[c.b_axis];
  if (warps) {
    rows = int64_t{16} << draw(4);
    columns = int64_t{16} << draw(4);
    schedule.threads = static_cast<int>(kWarpLanes << draw(4));
    unit.pipeline = 2 + draw(4);
  } else {
    rows = kMatrixRows * (1 + draw(2));
    columns = int64_t{64} << draw(3);
    schedule.threads = static_cast<int>((rows / kMatrixRows + 1) * kMatrixThreads);
    unit.pipeline = 1 + draw(4);
  }
  auto pack = [&](int operand) { return draw(3) == 0 || !factor_view(loops, loops.stages[0], c, operand, warps); };
  unit.pack_left = pack(0);
  unit.pack_right = pack(1);
  if (draw(3) == 0) unit.parts = 1 + draw(4);
  if (unit.parts == 1 && draw(2) == 0) {
    unit.persistent = 1 + draw(target.multiprocessors);
    unit.group = 1 + draw(8);
  }
  schedule.stages[0].strategy = unit;
}

// ---- the default choice ----

bool leaves_as_tiles(const Loops& loops, const Stage& stage) {
  int64_t results = 0, bytes = 0;
  for (const kernel::Inst& inst : stage.body.insts) {
    if (inst.op != kernel::Op::store) continue;
    ++results;
    bytes += size_of(loops.dtype(inst.args[0]));
  }
  return results == 1 || bytes <= 4;
}

double ProductSizes::blocks(int64_t rows, int64_t columns) const {
  return others * together * static_cast<double>(pieces(m, rows) * pieces(n, columns));
}

ProductSizes product_sizes(const Loops& loops, const Contraction& c) {
  const auto a = static_cast<size_t>(c.a_axis), b = static_cast<size_t>(c.b_axis);
  double others = 1;
  for (size_t i = 0; i < loops.outer.size(); ++i)
    if (i != a && i != b) others *= static_cast<double>(extent_of(loops.outer[i]));
  const int64_t m = extent_of(loops.outer[a]), n = extent_of(loops.outer[b]), k = extent_of(loops.stages[0].inner[0]);
  return {a, b, m, n, k, others, static_cast<double>(loops.together)};
}

namespace {

// Tiles, threads, stages of the pipeline, and what part of the fastest rate they reach, measured on an H200. Of few
// rows all waits for memory.
struct Choice {
  int64_t rows, columns;
  int threads, pipeline;
  double rate;
};
constexpr Choice kGroupChoices[] = {{128, 256, 384, 4, 1.0},
                                    {128, 128, 384, 6, 0.95},
                                    {64, 256, 256, 4, 0.7},
                                    {64, 128, 256, 6, 0.66},
                                    {64, 64, 256, 8, 0.4}};
constexpr Choice kWarpChoices[] = {{128, 256, 256, 4, 1.0}, {128, 128, 128, 4, 0.86}, {64, 128, 128, 4, 0.6},
                                   {64, 64, 128, 4, 0.43},  {32, 128, 128, 6, 0.39},  {16, 128, 128, 8, 0.26}};
constexpr int64_t kLeastRows = 4, kGroup = 8;
constexpr int64_t kEachItsOwn = 1 << 20;  // persistent blocks of warps: as many as the grid has, as a rule

// Whether a matrix made of what a factor loads would be several times as large as what it is loaded from: then warps
// gather it.
bool repeats(const Loops& loops, const Contraction& c, int operand) {
  constexpr double kSeveral = 2;
  const std::optional<MatrixView> view = factor_view(loops, loops.stages[0], c, operand, true);
  if (!view || !view->is_gathered()) return false;
  double elements = 1;
  for (size_t i = 0; i < c.axes(operand).size(); ++i)
    if (c.axes(operand)[i]) elements *= static_cast<double>(extent_of(loops.axis(loops.stages[0], i)));
  return elements > kSeveral * static_cast<double>(loops.buffers[view->buffer].size.hi());
}

// Whether a matrix unit is worth it. Of few rows most of a tile is empty; but what counts then is how fast the other
// factor is read.
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

// The fastest of several schedules of a product.
struct Fastest {
  Schedule schedule;
  double time = INFINITY;  // in products of one multiprocessor

  // A legal schedule whose tiles reach a `rate` of the fastest one and take steps of `depth`. Its sums are divided if
  // that is faster and legal: few blocks with long sums would leave much of the machine idle.
  void consider(Schedule candidate, const ProductSizes& sizes, int64_t depth, double rate, const Loops& loops,
                const Target& target) {
    constexpr int64_t kLeastSteps = 8;  // of a part
    const auto of = [](int64_t n) { return static_cast<double>(n); };
    const int64_t rows = candidate.block[sizes.a], columns = candidate.block[sizes.b];
    const double blocks = sizes.blocks(rows, columns);
    const bool warps = std::get<MatrixContraction>(candidate.stages[0].strategy).warps;
    const double products_per_byte = warps ? 40 : 90;  // that a multiprocessor does while it reads or writes a byte
    auto time_of = [&](int64_t parts) {
      const double waves = std::ceil(blocks * of(parts) / target.multiprocessors);
      const double multiplying = waves * of(rows * columns) * of(sizes.k) / (of(parts) * rate);
      // Partial sums of four bytes are written and read again.
      const double partial = parts > 1 ? 8 * sizes.others * of(sizes.m) * of(sizes.n) * of(parts) : 0;
      return multiplying + partial * products_per_byte / target.multiprocessors;
    };
    double needs = time_of(1);
    const auto parts =
        std::min(static_cast<int64_t>(target.multiprocessors / blocks), pieces(sizes.k, depth) / kLeastSteps);
    if (parts > 1 && time_of(parts) < needs) {
      Schedule divided = candidate;
      auto& unit = std::get<MatrixContraction>(divided.stages[0].strategy);
      unit.parts = parts;
      unit.persistent = 0;
      unit.group = 1;
      if (check(divided, loops, target).empty()) {
        candidate = std::move(divided);
        needs = time_of(parts);
      }
    }
    if (needs >= time) return;
    time = needs;
    schedule = std::move(candidate);
  }
};

bool choose(Schedule& schedule, const Loops& loops, const Contraction& c, const Target& target, bool warps,
            std::string* why) {
  const ProductSizes sizes = product_sizes(loops, c);
  const std::optional<kernel::Value> factor = unit_factor(loops, loops.stages[0], c, 0, warps);
  const int64_t depth = factor ? unit_depth(loops.dtype(*factor), warps) : 1;
  MatrixContraction unit;
  unit.warps = warps;
  unit.pack_left = !factor_view(loops, loops.stages[0], c, 0, warps);
  unit.pack_right = !factor_view(loops, loops.stages[0], c, 1, warps);
  unit.persistent = warps ? kEachItsOwn : target.multiprocessors;
  unit.group = kGroup;
  // Results that leave element by element are code for every element of a thread: of the largest tiles it takes the
  // driver seconds to assemble, and what reads and writes so much gains nothing by them.
  const int64_t widest = warps || leaves_as_tiles(loops, loops.stages.back()) ? 256 : 128;
  Fastest fastest;
  for (const Choice& choice : warps ? std::span<const Choice>(kWarpChoices) : kGroupChoices)
    for (bool high : {false, true}) {
      if ((high && (!warps || choice.rows == choice.columns)) || choice.columns > widest) continue;
      Schedule candidate = schedule;
      candidate.block.assign(loops.outer.size(), 1);
      candidate.block[sizes.a] = high ? choice.columns : choice.rows;
      candidate.block[sizes.b] = high ? choice.rows : choice.columns;
      candidate.threads = choice.threads;
      unit.pipeline = choice.pipeline;
      std::string problem;
      do {
        candidate.stages[0].strategy = unit;
        problem = check(candidate, loops, target);
      } while (!problem.empty() && warps && --unit.pipeline >= 2);
      if (problem.empty())
        fastest.consider(std::move(candidate), sizes, depth, choice.rate, loops, target);
      else
        refused(why, problem);
    }
  if (!std::isfinite(fastest.time)) return false;
  schedule = std::move(fastest.schedule);
  return true;
}

}  // namespace

bool schedule_groups(Schedule& schedule, const Loops& loops, const Contraction& c, const Target& target,
                     std::string* why) {
  if (!find_instruction(target, MatrixLayout::Shared)) return refused(why, "the machine has none that copies");
  if (loops.stages[0].inner.size() != 1) return refused(why, "a sum over ", loops.stages[0].inner.size(), " axes");
  // Of so few rows single warps read the other factor faster.
  constexpr int64_t kWarpRows = 16;
  const bool warps = find_instruction(target, MatrixLayout::Fragments) != nullptr;
  if (!worth_a_unit(product_sizes(loops, c), warps ? kWarpRows + 1 : kLeastRows, why)) return false;
  if (warps && (repeats(loops, c, 0) || repeats(loops, c, 1)))
    return refused(why, "a factor would be several times as large as what it is read from");
  return choose(schedule, loops, c, target, false, why);
}

bool schedule_warps(Schedule& schedule, const Loops& loops, const Contraction& c, const Target& target,
                    std::string* why) {
  if (!find_instruction(target, MatrixLayout::Fragments)) return refused(why, "the machine has none for warps");
  if (!c.is_matmul() || c.b_axis >= static_cast<int>(loops.outer.size()))
    return refused(why, "not a product of two matrices");
  if (loops.stages[0].inner.size() != 1) return refused(why, "a sum over ", loops.stages[0].inner.size(), " axes");
  const std::optional<kernel::Value> factor = unit_factor(loops, loops.stages[0], c, 0, true);
  if (!factor) return refused(why, "factors of ", loops.dtype(c.a), " have no matrix instruction here");
  if (loops.dtype(*factor) == DType::f32 && !target.tf32)
    return refused(why, "f32 keeps all its bits: allow_tf32(true) lets it round its factors");
  if (!warp_instruction(target, loops.dtype(*factor)))
    return refused(why, "factors of ", loops.dtype(*factor), " have no matrix instruction here");
  return worth_a_unit(product_sizes(loops, c), kLeastRows, why) && choose(schedule, loops, c, target, true, why);
}

}  // namespace heddle
