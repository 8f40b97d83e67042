// Attention and what is like it on a SIMT machine's matrix unit: which nested loops it takes, and how.
//
// A block is 64 rows for each group of threads that multiplies. For each chunk of the common axis the first product's
// sums stay in registers, become the left factor of the next product there, and that one's sums are carried on.
#include <algorithm>

#include "compile/loops/online.h"
#include "compile/schedule/schedule.h"
#include "kernel/tensor_maps.h"

namespace heddle {
namespace {

using kernel::kMatrixRows;
using kernel::kMatrixThreads;

// A sum of products with one kept axis and one reduced one.
std::optional<Contraction> product_of(const Loops& loops, size_t s) {
  const Stage& stage = loops.stages[s];
  if (!stage.reducer || stage.kept != 1 || stage.inner.size() != 2) return {};
  auto c = find_contraction(loops, stage);
  if (!c || !c->is_matmul() || static_cast<size_t>(c->a_axis) >= loops.outer.size() ||
      static_cast<size_t>(c->b_axis) != loops.outer.size())
    return {};
  return c;
}

bool is_kept_by_product(const Loops& loops, const Expr& var) {
  for (size_t s = 0; s < loops.stages.size(); ++s)
    if (product_of(loops, s) && loops.stages[s].inner[0].var == var) return true;
  return false;
}

// The columns of a product's sums.
int64_t columns_of(const Loops& loops, const Schedule& schedule, size_t s) {
  const Axis& axis = loops.stages[s].inner[0];
  return axis.var == common_axis(loops)->var ? schedule.chunks->size : round_up(extent_of(axis), kMatrixRows);
}

// Whether the factor is the result of an earlier stage, or a cast of it.
std::optional<kernel::Value> computed_factor(const Loops& loops, const Stage& stage, kernel::Value factor) {
  if (const kernel::Inst* cast = definition(stage, factor)) {
    if (cast->op != kernel::Op::cast) return {};
    factor = cast->args[0];
  }
  for (const Stage& earlier : loops.stages)
    if (contains(earlier.results, factor)) return factor;
  return {};
}

// Whether nothing is lost when the result becomes numbers of this dtype: it was such before.
bool is_narrow(const Loops& loops, kernel::Value result, DType dtype) {
  if (loops.dtype(result) == dtype) return true;
  for (const Stage& stage : loops.stages)
    for (size_t r = 0; r < stage.results.size(); ++r) {
      if (stage.results[r] != result || stage.reducer) continue;
      const kernel::Inst* cast = definition(stage, stage.body.results[r]);
      if (cast && cast->op == kernel::Op::cast) return loops.dtype(cast->args[0]) == dtype;
    }
  return false;
}

// Numbers of two bytes, which the unit takes in steps of.
constexpr int64_t kDepth = kernel::kMatrixBytes / 2;

std::string check_product(const NestedContraction& product, const Site& at, size_t row, bool carries) {
  const auto c = product_of(at.loops, at.s);
  if (!c || static_cast<size_t>(c->a_axis) != row) return at.problem("not a product of rows of the block");
  if (product.pipeline < 1 || !at.plan().loops.empty()) return at.problem("a matrix unit walks its sum by itself");
  std::optional<MatrixView> right = factor_view(at.loops, at.stage(), *c, 1, false);
  if (!right) return at.problem("operand 1 cannot be copied as it is");
  const DType narrow = at.loops.buffers[right->buffer].dtype;
  if (columns_of(at.loops, at.schedule, at.s) > 256) return at.problem("too many columns");
  if (!carries) {
    std::optional<MatrixView> left = factor_view(at.loops, at.stage(), *c, 0, false);
    const bool fits = left && at.loops.buffers[left->buffer].dtype == narrow;
    return fits ? "" : at.problem("operand 0 cannot be copied as it is");
  }
  auto computed = computed_factor(at.loops, at.stage(), c->a);
  if (!computed || !is_narrow(at.loops, *computed, narrow)) return at.problem("operand 0 is not made of ", narrow);
  return "";
}

// Everything but memory for factors and results is registers.
std::string check_unit_chunks(const Schedule& schedule, const Loops& loops, const Target& target) {
  if (!find_instruction(target, MatrixLayout::Shared)) return "chunks without a matrix unit";
  const int64_t chunk = schedule.chunks->size;
  if (schedule.chunks->parts != 1) return "parts of chunks on a SIMT machine";
  const Online online = *find_online(loops);
  if (chunk % kMatrixRows != 0 || chunk > 256) return text("chunks of ", chunk);
  size_t row = loops.outer.size();
  for (size_t i = 0; i < loops.outer.size(); ++i) {
    if (schedule.block[i] == 1) continue;
    if (row < loops.outer.size()) return "rows of several axes";
    row = i;
  }
  if (row == loops.outer.size() || schedule.block[row] % kMatrixRows != 0 || schedule.block[row] > 4 * kMatrixRows)
    return "a block without rows for a matrix unit";
  const int64_t rows = schedule.block[row];
  if (schedule.threads != (rows / kMatrixRows + 1) * kMatrixThreads)
    return text(schedule.threads, " threads for ", rows, " rows");
  int64_t bytes = kernel::matrix_store_bytes(rows) + 1024, registers = 0;
  for (size_t s = 0; s < loops.stages.size(); ++s) {
    const Stage& stage = loops.stages[s];
    const StageSchedule& plan = schedule.stages[s];
    const auto* product = std::get_if<NestedContraction>(&plan.strategy);
    for (const kernel::Inst& inst : stage.body.insts)
      if (inst.op == kernel::Op::check) return text("stage ", s, ": a matrix unit does not look at indices");
    if (online.roles[s] == Online::Role::Before) return text("stage ", s, " comes before all chunks");
    const bool reduces_common = reduces_along(stage, online.along);
    if (stage.reducer && (stage.inner.size() > 1 || !reduces_common)) {
      if (online.roles[s] != Online::Role::Chunk) return text("stage ", s, ": a sum behind all chunks");
      if (!product) return text("stage ", s, ": a product without the matrix unit");
      if (std::string problem = check_product(*product, site_of(schedule, loops, target, s), row, reduces_common);
          !problem.empty())
        return problem;
      const int64_t columns = columns_of(loops, schedule, s);
      const int64_t steps = reduces_common ? 0 : staying_steps(stage.inner.back());
      bytes +=
          kernel::MatrixRing{reduces_common ? 0 : rows, columns, static_cast<int>(product->pipeline), steps}.bytes() +
          1024;
      registers += columns / 2 + (reduces_common ? 0 : columns / 4);
      continue;
    }
    if (!(plan.is<Map>() || plan.is<RowReduction>()) || !plan.loops.empty())
      return text("stage ", s, " cannot be walked between products");
    // Rows of further axes would all be there at once, each filled up to whole columns.
    for (const Axis& axis : stage.inner)
      if (!(axis.var == online.along) && !is_kept_by_product(loops, axis.var))
        return text("stage ", s, " runs along ", axis.var, ", which no product has");
  }
  if (bytes > target.shared_bytes) return text(bytes, " bytes of shared memory for the stages of the pipeline");
  constexpr int64_t kMostRegisters = 192;  // of a thread, for sums and factors
  if (registers > kMostRegisters) return text(registers, " registers for sums");
  return "";
}

}  // namespace

int64_t staying_steps(const Axis& summed) {
  constexpr int64_t kMost = 4;
  if (!summed.extent.is_const()) return 0;
  const int64_t steps = pieces(summed.extent.value(), kDepth);
  return steps <= kMost ? steps : 0;
}

std::string check_chunks(const Schedule& schedule, const Loops& loops, const Target& target) {
  if (!schedule.chunks) return "";
  const auto [size, parts] = *schedule.chunks;
  if (size < 1 || size > 1 << 16 || parts < 1) return text(parts, " parts of chunks of ", size);
  if (!is_nested(loops) || !find_online(loops)) return "chunks of an axis that cannot be rescaled";
  return target.machine == Machine::Simt ? check_unit_chunks(schedule, loops, target) : "";
}

std::string check(const NestedContraction&, const Site& at) {
  return at.simt() && at.schedule.chunks ? "" : at.problem("a product of chunks without chunks, or on a SIMD machine");
}

void change(NestedContraction& product, const Site&, const RandomBelow& draw) {
  product.pipeline += draw(2) == 0 ? 1 : -1;
}

bool schedule_nested_unit(Schedule& schedule, const Loops& loops, const Target& target, std::string* why) {
  if (!find_instruction(target, MatrixLayout::Shared)) return refused(why, "the machine has none that copies");
  if (!find_online(loops)) return refused(why, "its nested sums cannot be taken in blocks");
  size_t row = loops.outer.size();
  for (size_t s = 0; s < loops.stages.size(); ++s)
    if (auto c = product_of(loops, s)) row = static_cast<size_t>(c->a_axis);
  if (row == loops.outer.size()) return refused(why, "no nested sum is a product of two matrices");
  constexpr int64_t kFewestRows = 8;
  const int64_t rows = extent_of(loops.outer[row]);
  if (rows < kFewestRows) return refused(why, rows, " rows, and fewer than ", kFewestRows, " gain nothing");
  // Chunks, and stages of the pipeline for sums that are carried on.
  for (auto [chunk, stages] : {std::pair<int64_t, int64_t>{128, 4}, {128, 3}, {128, 2}, {64, 2}}) {
    Schedule candidate = plain_schedule(loops);
    for (StageSchedule& plan : candidate.stages) plan.joined = false;
    const int64_t block = rows <= kMatrixRows ? kMatrixRows : 2 * kMatrixRows;
    candidate.block[row] = block;
    candidate.threads = static_cast<int>((block / kMatrixRows + 1) * kMatrixThreads);
    candidate.chunks = {chunk};
    for (size_t s = 0; s < loops.stages.size(); ++s) {
      auto c = product_of(loops, s);
      if (!c) continue;
      if (!factor_view(loops, loops.stages[s], *c, 1, false))
        return refused(why, "a factor of stage ", s, " is no f16 or bf16 that can be copied as it is");
      const bool carries = !(loops.stages[s].inner[0].var == common_axis(loops)->var);
      candidate.stages[s].strategy = NestedContraction{carries ? stages : 4};
    }
    if (std::string problem = check(candidate, loops, target); !problem.empty()) {
      refused(why, problem);
      continue;
    }
    schedule = std::move(candidate);
    return true;
  }
  return false;
}

}  // namespace heddle
