#include "compile/schedule/warp_simt.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernel/types.h"

namespace heddle {
namespace {

using kernel::kWarpBytes;
using kernel::kWarpLanes;
using kernel::kWarpRows;

constexpr int64_t kCopy = 16;  // bytes

const kernel::Inst* definition(const Stage& stage, kernel::Value v) {
  for (const kernel::Inst& inst : stage.body.insts)
    if (!inst.results.empty() && inst.results[0] == v) return &inst;
  return nullptr;
}

DType dtype_of(const Loops& loops, kernel::Value v) { return loops.values[static_cast<size_t>(v)].dtype; }

std::optional<kernel::Value> cast_from(const Loops& loops, const Stage& stage, kernel::Value factor) {
  const kernel::Inst* cast = definition(stage, factor);
  if (!cast || cast->op != kernel::Op::cast) return {};
  const DType narrow = dtype_of(loops, cast->args[0]), wide = dtype_of(loops, factor);
  if (size_of(narrow) > 2 || !kernel::multiplies_fragments(narrow, wide)) return {};
  return cast->args[0];
}

// The instruction for such factors, of the shape that kernels know.
const MatrixInstruction* instruction_for(const Target& target, DType factor) {
  const MatrixInstruction* found = find_instruction(target, MatrixLayout::Fragments, factor);
  const bool fits = found && target.warp == kWarpLanes && found->rows == kWarpRows && found->columns == kWarpRows &&
                    kWarpBytes % (found->depth * size_of(factor)) == 0;
  return fits ? found : nullptr;
}

// Whether the tile of a factor lies across the sum in shared memory: as it is in global memory, or as it is packed.
bool lies_transposed(const Loops& loops, const Stage& stage, const Contraction& c, int operand, bool packed) {
  if (packed) return size_of(*warp_dtype(loops, stage, c)) == 2 && packed_transposed(loops, stage, c, operand);
  const std::optional<MatrixView> view = warp_view(loops, stage, c, operand);
  return view && view->transposed;
}

}  // namespace

std::optional<WarpGrid> warp_grid(int64_t rows, int64_t columns, int64_t warps) {
  std::optional<WarpGrid> best;
  int64_t least = 0;
  for (int64_t down = 1; down <= warps; down *= 2) {
    if (warps % down != 0) break;
    const int64_t across = warps / down;
    if (rows % (down * kWarpRows) != 0 || columns % (across * kWarpRows) != 0) continue;
    const int64_t read = rows / down + columns / across;  // by each warp
    if (best && read >= least) continue;
    best = {down, across};
    least = read;
  }
  return best;
}

std::optional<DType> warp_dtype(const Loops& loops, const Stage& stage, const Contraction& c) {
  auto a = cast_from(loops, stage, c.a), b = cast_from(loops, stage, c.b);
  if (a && b && dtype_of(loops, *a) == dtype_of(loops, *b)) return dtype_of(loops, *a);
  if (dtype_of(loops, c.a) == DType::f32 && dtype_of(loops, c.b) == DType::f32) return DType::f32;
  return {};
}

kernel::Value warp_factor(const Loops& loops, const Stage& stage, const Contraction& c, kernel::Value factor) {
  return *warp_dtype(loops, stage, c) == DType::f32 ? factor : *cast_from(loops, stage, factor);
}

std::optional<MatrixView> warp_view(const Loops& loops, const Stage& stage, const Contraction& c, int operand) {
  if (!warp_dtype(loops, stage, c)) return {};
  const kernel::Value narrow = warp_factor(loops, stage, c, operand == 0 ? c.a : c.b);
  const kernel::Inst* load = definition(stage, narrow);
  if (!load || load->op != kernel::Op::load) return {};
  const auto own = static_cast<size_t>(operand == 0 ? c.a_axis : c.b_axis);
  std::optional<MatrixView> view = matrix_view(loops, stage, *load, own, loops.outer.size());
  if (!view) view = gathered_view(loops, stage, *load, own, loops.outer.size());
  if (view && view->transposed && size_of(dtype_of(loops, narrow)) != 2) return {};
  return view;
}

int64_t warp_pitch(int64_t row, DType dtype) { return row + kCopy / size_of(dtype); }

int64_t warp_stage_bytes(int64_t rows, int64_t columns, DType dtype, bool left_transposed, bool right_transposed) {
  const int64_t depth = kWarpBytes / size_of(dtype);
  auto elements = [&](int64_t own, bool transposed) {
    return transposed ? depth * warp_pitch(own, dtype) : own * warp_pitch(depth, dtype);
  };
  return (elements(rows, left_transposed) + elements(columns, right_transposed)) * size_of(dtype);
}

std::string check_warp_simt(const Schedule& schedule, const Loops& loops, size_t s, const Contraction& c,
                            const Target& target) {
  const StageSchedule& plan = schedule.stages[s];
  const Stage& stage = loops.stages[s];
  if (!find_instruction(target, MatrixLayout::Fragments)) return "the machine has no matrix unit for warps";
  if (plan.pipeline < 2) return text("stage ", s, ": room for ", plan.pipeline, " stages");
  if (std::string problem = check_unit_simt(schedule, loops, s, c); !problem.empty()) return problem;
  const auto a = static_cast<size_t>(c.a_axis), b = static_cast<size_t>(c.b_axis), k = loops.outer.size();
  const std::optional<DType> dtype = warp_dtype(loops, stage, c);
  if (!dtype) return text("stage ", s, ": its factors are not ones of a matrix unit");
  if (*dtype == DType::f32 && !target.tf32) return text("stage ", s, ": nobody asked for products of tf32");
  if (!instruction_for(target, *dtype)) return text("stage ", s, ": the machine does not multiply ", *dtype);
  const int64_t rows = schedule.block[a], columns = schedule.block[b];
  const auto grid =
      schedule.threads % kWarpLanes == 0 ? warp_grid(rows, columns, schedule.threads / kWarpLanes) : std::nullopt;
  if (!grid) return text("stage ", s, ": blocks of ", rows, " x ", columns, " for ", schedule.threads, " threads");
  constexpr int64_t kMostSums = 128;  // of a thread
  if (rows * columns > kMostSums * schedule.threads)
    return text("stage ", s, ": ", rows * columns / schedule.threads, " sums for each thread");
  const int64_t depth = kWarpBytes / size_of(*dtype);
  if (plan.loops.size() != 1 || plan.loops[0].axis != static_cast<int>(k) || plan.loops[0].step != depth)
    return text("stage ", s, ": a matrix unit of warps takes steps of ", depth, " ", *dtype);
  const bool packed[2] = {is_packed(plan, 0), is_packed(plan, 1)};
  for (int operand : {0, 1})
    if (!packed[operand] && !warp_view(loops, stage, c, operand))
      return text("stage ", s, ": operand ", operand, " cannot be copied as it is");
  const int64_t stage_bytes = warp_stage_bytes(rows, columns, *dtype, lies_transposed(loops, stage, c, 0, packed[0]),
                                               lies_transposed(loops, stage, c, 1, packed[1]));
  // Divided sums are put together by a phase of their own.
  constexpr int64_t kAlignment = 1024;
  const int64_t bytes = std::max(plan.pipeline * stage_bytes, plan.split > 1 ? rows * columns * 4 : 0) + 2 * kAlignment;
  if (bytes > target.shared_bytes)
    return text("stage ", s, ": ", plan.pipeline, " stages of ", stage_bytes, " bytes do not fit");
  return "";
}

namespace {

// Tiles, threads, what part of the fastest rate they reach, and stages of the pipeline: of few rows all waits for
// memory.
struct Choice {
  int64_t rows, columns;
  int threads;
  double rate;
  int pipeline;
};
constexpr Choice kChoices[] = {{128, 256, 256, 1.0, 4}, {128, 128, 128, 0.86, 4}, {64, 128, 128, 0.6, 4},
                               {64, 64, 128, 0.43, 4},  {32, 128, 128, 0.39, 6},  {16, 128, 128, 0.26, 8}};
constexpr int64_t kLeastRows = 4;
constexpr double kProductsPerByte = 40;  // that a multiprocessor does while it reads or writes a byte
constexpr int64_t kGroup = 8;
constexpr int64_t kEachItsOwn = 1 << 20;  // persistent blocks: as many as the grid has, as a rule

}  // namespace

namespace {

// What the unit cannot do, or was not asked to.
bool is_for_warps(const Loops& loops, const Contraction& c, const Target& target, std::string* why) {
  if (!find_instruction(target, MatrixLayout::Fragments)) return refused(why, "the machine has none for warps");
  if (!c.is_matmul() || c.b_axis >= static_cast<int>(loops.outer.size()))
    return refused(why, "not a product of two matrices");
  if (loops.stages[0].inner.size() != 1) return refused(why, "a sum over ", loops.stages[0].inner.size(), " axes");
  const std::optional<DType> dtype = warp_dtype(loops, loops.stages[0], c);
  if (!dtype) return refused(why, "factors of ", dtype_of(loops, c.a), " have no matrix instruction here");
  if (*dtype == DType::f32 && !target.tf32)
    return refused(why, "f32 keeps all its bits: allow_tf32(true) lets it round its factors");
  if (!instruction_for(target, *dtype)) return refused(why, "factors of ", *dtype, " have no matrix instruction here");
  return true;
}

}  // namespace

bool schedule_warp_simt(Schedule& schedule, const Loops& loops, const Contraction& c, const Target& target,
                        std::string* why) {
  if (!is_for_warps(loops, c, target, why)) return false;
  const std::optional<DType> dtype = warp_dtype(loops, loops.stages[0], c);
  const ProductSizes sizes = product_sizes(loops, c);
  if (!worth_a_unit(sizes, kLeastRows, why)) return false;
  const int64_t depth = kWarpBytes / size_of(*dtype);
  FastestProduct fastest;
  for (const Choice& choice : kChoices)
    for (bool high : {false, true}) {
      const int64_t rows = high ? choice.columns : choice.rows, columns = high ? choice.rows : choice.columns;
      if (high && rows == columns) continue;
      Schedule candidate = schedule;
      candidate.block.assign(loops.outer.size(), 1);
      candidate.block[sizes.a] = rows;
      candidate.block[sizes.b] = columns;
      candidate.threads = choice.threads;
      candidate.persistent = kEachItsOwn;
      candidate.group = kGroup;
      StageSchedule& plan = candidate.stages[0];
      plan.dot = true;
      plan.unit = StageSchedule::Unit::Warps;
      plan.loops = {{static_cast<int>(loops.outer.size()), depth}};
      for (int operand : {0, 1})
        if (!warp_view(loops, loops.stages[0], c, operand))
          plan.staged.push_back({operand, Staged::Scope::Phase, 0, 0});
      for (plan.pipeline = choice.pipeline; plan.pipeline > 2 && !check(candidate, loops, target).empty();)
        --plan.pipeline;
      if (std::string problem = check(candidate, loops, target); !problem.empty())
        refused(why, problem);
      else
        fastest.consider(std::move(candidate), sizes, depth, choice.rate, kProductsPerByte, loops, target);
    }
  if (!fastest.found()) return false;
  schedule = std::move(fastest.schedule);
  return true;
}

Schedule random_warp_schedule(const Loops& loops, const Contraction& c, const Target& target, const Draw& draw) {
  Schedule schedule;
  const std::optional<DType> dtype = warp_dtype(loops, loops.stages[0], c);
  if (!dtype) return schedule;
  schedule.block.assign(loops.outer.size(), 1);
  schedule.stages.resize(loops.stages.size());
  schedule.block[static_cast<size_t>(c.a_axis)] = int64_t{16} << draw(4);
  schedule.block[static_cast<size_t>(c.b_axis)] = int64_t{16} << draw(4);
  schedule.threads = static_cast<int>(kWarpLanes << draw(4));
  StageSchedule& plan = schedule.stages[0];
  plan.dot = true;
  plan.unit = StageSchedule::Unit::Warps;
  plan.pipeline = 2 + static_cast<int>(draw(4));
  plan.loops = {{static_cast<int>(loops.outer.size()), kernel::kWarpBytes / size_of(*dtype)}};
  for (int operand : {0, 1})
    if (draw(3) == 0 || !warp_view(loops, loops.stages[0], c, operand))
      plan.staged.push_back({operand, Staged::Scope::Phase, 0, 0});
  draw_division(schedule, target, draw);
  return schedule;
}

}  // namespace heddle
