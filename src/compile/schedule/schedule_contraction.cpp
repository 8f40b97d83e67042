#include "compile/schedule/schedule_contraction.h"

#include <algorithm>
#include <cmath>

namespace heddle {
namespace {

// A block is no larger than this many rows and columns: its rows of a and a panel of b stay in the caches.
constexpr int64_t kBlockRows = 256, kBlockColumns = 512;
// Up to so many rows make one block, which packs each panel of b just before it is used; no other block needs it.
constexpr int64_t kOneBlockRows = 512;
// Few rows: nothing pays for a packed copy of b.
constexpr int64_t kFewRows = 32;
// Then b is read a few of its rows at a time, in the order of memory.
constexpr int64_t kFewRowsDepth = 32, kFewRowsColumns = 1024;
// The same for a matrix unit, and how deep its tiles are.
constexpr int64_t kMatrixRows = 256, kMatrixColumns = 256, kMatrixDepth = 512;
// Bytes moved for each result, beyond which results are finished row by row, and the blocks for that.
constexpr int64_t kMuchToFinish = 16, kFinishedRows = 64, kFinishedColumns = 1024;
// Elements of a so many bytes apart are packed.
constexpr int64_t kFarApart = 1024;
// Cores may differ by so much in what they have to do. Cycles, roughly, to pack a vector of b.
constexpr double kEven = 0.97;
constexpr int64_t kPackingCycles = 8;
// The same to add up the lanes of a sum that was walked a vector at a time.
constexpr int64_t kLanesCycles = 6;
// A sum is divided among cores when it is so many times as long as the result is wide; a part is at least so long.
constexpr int64_t kLongSum = 8, kShortestPart = 256;

int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }
int64_t pieces(int64_t size, int64_t step) { return (size + step - 1) / step; }

// How a factor lies in memory.
struct Factor {
  bool plain = false;  // loaded, and at most cast
  bool cast = false;
  int64_t bytes = 0;  // of the whole buffer
  int64_t size = 0;   // of an element
  int64_t own = 0;    // elements between neighbours along the axis that the factor alone follows
  int64_t inner = 0;  // ... along the reduced axis of the tile
};

Factor look_at(const Loops& loops, const Stage& stage, kernel::Value v, const Expr& own, const Expr& inner) {
  Factor f;
  for (const kernel::Inst& inst : stage.body.insts) {
    if (inst.op != kernel::Op::cast || inst.results[0] != v) continue;
    f.cast = true;
    v = inst.args[0];
    break;
  }
  for (const kernel::Inst& inst : stage.body.insts) {
    if (inst.results.empty() || inst.results[0] != v || inst.op != kernel::Op::load) continue;
    const kernel::Buffer& buffer = loops.buffers[static_cast<size_t>(inst.buffer)];
    f.size = size_of(buffer.dtype);
    f.bytes = buffer.size.hi() * f.size;
    std::optional<Linear> along_own = linear_in(inst.address, own), along_inner = linear_in(inst.address, inner);
    f.plain = inst.guard.is_const(1) && inst.binds.empty() && along_own && along_inner;
    if (f.plain) {
      f.own = along_own->coefficient;
      f.inner = along_inner->coefficient;
    }
  }
  return f;
}

// A tile of results that stays in registers while the reduced axis is walked: rows x vectors of columns.
struct Micro {
  int64_t rows, columns;
};

Micro micro_tile(int64_t m, int64_t n, int lanes, int registers) {
  // Two vectors of b and eight rows of a: enough independent sums to hide the latency of two units, and more loads per
  // cycle would not help. Fewer rows leave room for more columns.
  const int64_t most_rows = registers >= 32 ? 8 : 6, most = registers >= 32 ? 24 : 12;
  Micro micro{std::min(most_rows, m), 2 * lanes};
  if (m > most_rows)
    for (int64_t rows = most_rows - 1; rows >= most_rows - 2; --rows)
      if (pieces(m, rows) * rows < pieces(m, micro.rows) * micro.rows) micro.rows = rows;
  while (2 * micro.columns / lanes * micro.rows <= most && micro.columns < 4 * lanes) micro.columns *= 2;
  micro.columns = std::min(micro.columns, round_up(n, lanes));
  // The last tile would be half empty, and there are few: 7 vectors, or 25, are better walked one by one.
  if (100 * round_up(n, lanes) < 97 * round_up(n, micro.columns)) micro.columns = lanes;
  // One vector of columns: more rows instead.
  if (micro.columns == lanes) micro.rows = std::min<int64_t>(m, 2 * most_rows);
  return micro;
}

// Several numbers to a word, where the machine multiplies such words faster.
StageSchedule::Unit choose_unit(const Loops& loops, const Stage& stage, const Contraction& c, size_t along,
                                const Target& target) {
  using Unit = StageSchedule::Unit;
  auto a = narrow_factor(loops, stage, c.a), b = narrow_factor(loops, stage, c.b);
  if (!a || !b || !c.a_axes[along] || !c.b_axes[along]) return Unit::Numbers;
  if (stage.inner[along - loops.outer.size()].extent.hi() < 2) return Unit::Numbers;
  const auto last = static_cast<int>(loops.outer.size()) - 1;
  const DType factor = loops.values[static_cast<size_t>(*a)].dtype;
  if (find_instruction(target, MatrixLayout::Panels, factor) && c.b_axis == last) return Unit::Matrix;
  return find_instruction(target, MatrixLayout::Packed, factor) ? Unit::Packed : Unit::Numbers;
}

// The share of its time that a core works, if blocks of this size are divided among all of them. Each block packs its
// own panels of b.
double evenness(int64_t m, int64_t n, double others, int64_t mc, int64_t nc, const Micro& micro, int cores) {
  auto number = [](int64_t value) { return static_cast<double>(value); };
  const double blocks = others * number(pieces(m, mc) * pieces(n, nc));
  const double busiest = std::ceil(blocks / cores) * number(pieces(mc, micro.rows) * pieces(nc, micro.columns));
  const double all = others * number(pieces(m, micro.rows) * pieces(n, micro.columns));
  return all / cores / busiest / (1 + number(kPackingCycles) / number(mc));
}

// Blocks as wide as before or narrower, and of all rows or of a part of them, so that cores have as much to do as each
// other.
void even_out(int64_t m, int64_t n, double others, int64_t& mc, int64_t& nc, const Micro& micro, int cores) {
  int64_t best_rows = mc, best_columns = nc;
  double best = 0;
  for (int64_t parts = 1; parts < 2 * cores; parts *= 2) {
    const int64_t rows = round_up(pieces(mc, parts), micro.rows);
    const double enough = kEven / (1 + kPackingCycles / static_cast<double>(rows));
    for (int64_t columns = nc; columns > 0 && best < enough; columns -= micro.columns) {
      const double even = evenness(m, n, others, rows, columns, micro, cores);
      if (even <= best) continue;
      best = even;
      best_rows = rows, best_columns = columns;
    }
  }
  mc = best_rows, nc = best_columns;
}

// Bytes that finishing one result moves between memory and the core.
int64_t finishing_bytes(const Loops& loops, const Contraction& c) {
  int64_t bytes = 0;
  for (size_t s = 1; s < loops.stages.size(); ++s)
    for (const kernel::Inst& inst : loops.stages[s].body.insts) {
      if (inst.op != kernel::Op::load && inst.op != kernel::Op::store) continue;
      const Expr &a = loops.outer[static_cast<size_t>(c.a_axis)].var,
                 &b = loops.outer[static_cast<size_t>(c.b_axis)].var;
      if (depends_on(inst.address, a) && depends_on(inst.address, b))
        bytes += size_of(loops.buffers[static_cast<size_t>(inst.buffer)].dtype);
    }
  return bytes;
}

}  // namespace

void schedule_contraction(Schedule& schedule, const Loops& loops, const Contraction& c, const Target& target) {
  const Stage& stage = loops.stages[0];
  const size_t outer = loops.outer.size();
  const auto a = static_cast<size_t>(c.a_axis), b = static_cast<size_t>(c.b_axis);
  // The longest reduced axis belongs to the tile, the others are loops around it.
  size_t depth = 0;
  for (size_t i = 1; i < stage.inner.size(); ++i)
    if (extent_of(stage.inner[i]) >= extent_of(stage.inner[depth])) depth = i;
  const int64_t m = extent_of(loops.outer[a]), n = extent_of(loops.outer[b]), k = extent_of(stage.inner[depth]);
  const int axis_k = static_cast<int>(outer + depth);
  const bool one_axis = stage.inner.size() == 1;
  int64_t terms = 1;  // of a sum
  for (const Axis& axis : stage.inner) terms *= extent_of(axis);
  const int lanes = target.vector_bytes / std::max(4, size_of(loops.values[static_cast<size_t>(c.a)].dtype));
  const Factor fa = look_at(loops, stage, c.a, loops.outer[a].var, stage.inner[depth].var);
  const Factor fb = look_at(loops, stage, c.b, loops.outer[b].var, stage.inner[depth].var);
  StageSchedule& plan = schedule.stages[0];
  plan.dot = true;

  using Unit = StageSchedule::Unit;
  // Walked along short sums, b would cost more at their ends than a packed copy of it does.
  const bool short_sums = fb.inner == 1 && fb.own != 1 && m * kLanesCycles > k / lanes * kPackingCycles;
  const bool few_rows = m <= kFewRows && fb.plain && fb.bytes > target.l2_bytes && !short_sums;
  if (!few_rows) plan.unit = choose_unit(loops, stage, c, outer + depth, target);
  const bool matrix = plan.unit == Unit::Matrix;
  Micro micro = micro_tile(m, n, lanes, target.vector_registers);
  if (matrix) micro = {kernel::kPanelRows, kernel::kPanelRows};
  int64_t kc = k, mc = round_up(std::min(m, kBlockRows), micro.rows);
  int64_t nc = round_up(std::min(n, kBlockColumns), micro.columns);
  if (few_rows && fb.inner == 1 && fb.own != 1) {
    // Both factors are walked along the reduced axis, a vector at a time.
    micro = {std::min<int64_t>(m, 4), std::min<int64_t>(n, 4)};
    mc = round_up(m, micro.rows);
    nc = round_up(std::min<int64_t>(n, 64), micro.columns);
  } else if (few_rows && fb.own == 1) {
    micro.columns = std::min<int64_t>(4 * lanes, round_up(n, lanes));
    micro.rows = std::min<int64_t>(micro.rows, target.vector_registers >= 32 ? 4 : 2);
    mc = round_up(m, micro.rows);
    nc = round_up(std::min<int64_t>(n, kFewRowsColumns), micro.columns);
    kc = std::min(k, kFewRowsDepth);
  } else if (matrix) {
    // The sums of a block wait in the L2 cache, a panel of b in the L1, while rows of a pass by.
    mc = round_up(std::min(m, kMatrixRows), micro.rows);
    nc = round_up(std::min(n, kMatrixColumns), micro.columns);
    kc = k <= kMatrixDepth ? k : kMatrixDepth;
  } else if (const int64_t panel = terms * micro.columns * 4; panel > target.l2_bytes / 2) {
    // A panel of b stays in the L2 cache.
    kc = pieces(k, pieces(panel, target.l2_bytes / 2));
    kc = std::min(k, round_up(kc, lanes));
  }

  // Much to read and write beside the results (the update of a parameter): the results of a few long rows wait in the
  // L2 cache, then all of it moves in the order of memory.
  const bool row_wise = !few_rows && !matrix && kc == k && one_axis && finishing_bytes(loops, c) >= kMuchToFinish;
  if (row_wise) {
    mc = round_up(std::min(m, kFinishedRows), micro.rows);
    nc = round_up(std::min(n, kFinishedColumns), micro.columns);
  }
  // Vectors of b must be neighbours in memory, and few enough to stay near.
  const bool walk_b = few_rows && (fb.inner == 1 || fb.own == 1);
  const bool words = plan.unit != Unit::Numbers;
  const bool pack_b = !walk_b && (words || !fb.plain || fb.cast || fb.own != 1 || k * n * fb.size > target.l2_bytes);
  // A copy of all windows of an image would be many times the image.
  const bool one_block = pack_b && (m <= kOneBlockRows || !one_axis) && !matrix && !row_wise;
  if (one_block) mc = round_up(m, micro.rows);

  // Something for everybody, in equal shares.
  double others = 1;
  for (size_t i = 0; i < outer; ++i)
    if (i != a && i != b) others *= static_cast<double>(extent_of(loops.outer[i]));
  auto blocks = [&] { return others * static_cast<double>(pieces(m, mc) * pieces(n, nc)); };
  const double wanted = target.cores == 1 ? 1 : 4.0 * target.cores;
  if (one_axis && !words && blocks() < target.cores && k >= kLongSum * std::max(m, n) &&
      k >= kShortestPart * target.cores) {
    // Few results, and each a long sum: the sums are divided, along their first axis.
    plan.split = std::min(static_cast<int64_t>(wanted / blocks()), k / kShortestPart);
    kc = std::min(kc, round_up(pieces(k, plan.split), lanes));
  } else {
    while (blocks() < wanted && (mc > micro.rows || nc > micro.columns)) {
      const bool cut_rows = nc == micro.columns || (!one_block && mc > micro.rows && (row_wise || mc * 2 > nc));
      int64_t& size = cut_rows ? mc : nc;
      size = round_up(pieces(size, 2), cut_rows ? micro.rows : micro.columns);
    }
  }
  mc = round_up(pieces(m, pieces(m, mc)), micro.rows);
  nc = round_up(pieces(n, pieces(n, nc)), micro.columns);
  if (one_block && plan.split == 1 && target.cores > 1) even_out(m, n, others, mc, nc, micro, target.cores);
  schedule.block[a] = mc;
  schedule.block[b] = nc;

  const std::vector<Level> tiles = {{c.b_axis, micro.columns}, {c.a_axis, micro.rows}};
  std::vector<Level> around;
  for (size_t i = 0; i < stage.inner.size(); ++i)
    if (i != depth && extent_of(stage.inner[i]) > 1) around.push_back({static_cast<int>(outer + i), 1});
  const bool in_memory = kc < k || matrix || row_wise;
  if (matrix) plan.loops = std::move(around);
  if (kc < k) plan.loops.push_back({axis_k, kc});
  plan.loops.insert(plan.loops.end(), tiles.begin(), tiles.end());
  if (!matrix) plan.loops.insert(plan.loops.end(), around.begin(), around.end());
  for (size_t s = 1; s < schedule.stages.size(); ++s) {
    if (matrix || row_wise)
      schedule.stages[s].loops = {{c.a_axis, 1}};
    else
      schedule.stages[s].loops = tiles;
    schedule.stages[s].joined = s > 1 || !in_memory;
  }

  if (walk_b) return;
  // Elements of a are read one by one, so rows may start anywhere; columns of them may not be far apart.
  const bool far = std::abs(fa.inner) * fa.size >= kFarApart && fa.bytes > target.l2_bytes / 2;
  if (words || !fa.plain || fa.cast || far || !one_axis)
    plan.staged.push_back({0, Staged::Scope::Phase, 0, micro.rows});
  if (pack_b)
    plan.staged.push_back({1, one_block ? Staged::Scope::Block : Staged::Scope::Phase, kc < k ? 2 : 1, micro.columns});
}

}  // namespace heddle
