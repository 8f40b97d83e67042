#include "compile/schedule/register_contraction.h"

#include <algorithm>
#include <cmath>

#include "compile/schedule/schedule.h"

namespace heddle {
namespace {

// ---- legality ----

// A dot runs along one reduced axis.
std::string check_dot(const Site& at, const std::optional<Contraction>& c) {
  if (!c) return text("stage ", at.s, " is no sum of products");
  if (at.stage().inner.size() == at.stage().kept) return at.problem("dot needs a reduced axis");
  const auto reduced = at.tile.begin() + static_cast<long>(at.loops.outer.size() + at.stage().kept);
  if (std::count_if(reduced, at.tile.end(), [](int64_t size) { return size > 1; }) > 1)
    return at.problem("a dot runs along one reduced axis, the others need loops of step 1");
  return "";
}

// Whether a factor is made of what earlier stages of the same nest compute: before the nest's loops it is not there.
bool made_in_nest(const Site& at, kernel::Value factor) {
  std::vector<bool> made(at.loops.values.size(), false);
  for (size_t s = at.s; s > 0 && at.schedule.stages[s].joined; --s)
    for (kernel::Value v : at.loops.stages[s - 1].results) made[v] = true;
  for (const kernel::Inst& inst : at.stage().body.insts)
    if (std::ranges::any_of(inst.args, [&](kernel::Value v) { return made[v]; }))
      for (kernel::Value v : inst.results) made[v] = true;
  return made[factor];
}

std::string check_staged(const std::optional<Staged>& staged, int operand, const Site& at, const Contraction& c) {
  if (!staged) return "";
  const int axis = c.axis(operand);
  if (axis < 0) return at.problem("operand ", operand, " has no axis of its own");
  if (made_in_nest(at, c.factor(operand))) return at.problem("operand ", operand, " is computed in its nest");
  const auto own = static_cast<size_t>(axis);
  const bool outer = own < at.loops.outer.size();
  const int64_t whole = outer ? at.schedule.block[own] : staged->panel;
  if (staged->panel > 1 && (at.tile[own] != staged->panel || whole % staged->panel != 0))
    return at.problem("panels of ", staged->panel, " but tiles of ", at.tile[own], " in blocks of ", whole);
  if (staged->scope == Staged::Scope::Block) {
    const bool there = staged->depth >= 0 && static_cast<size_t>(staged->depth) <= at.plan().loops.size();
    return there ? "" : text("stage ", at.s, " has no loop number ", staged->depth);
  }
  const int64_t chunk = at.schedule.chunks ? at.schedule.chunks->size : 0;
  if (staged->panel > 1 && !outer && chunk % staged->panel != 0)
    return at.problem("chunks of ", chunk, " end inside panels of ", staged->panel);
  return at.s == 0 ? "" : at.problem("only the first stage can pack in a phase");
}

template <class T>
std::string check_factors(const T& contraction, const Site& at, const Contraction& c) {
  std::string problem = check_staged(contraction.left, 0, at, c);
  return problem.empty() ? check_staged(contraction.right, 1, at, c) : problem;
}

// A matrix unit adds 32 x 32 sums in memory, inside all loops.
std::string check_panels(const Site& at, const Contraction& c, DType dtype) {
  if (!find_instruction(at.target, MatrixLayout::Panels, dtype)) return "the machine has no matrix unit";
  const size_t outer = at.loops.outer.size();
  bool outer_seen = false;
  for (const Level& level : at.plan().loops) {
    if (static_cast<size_t>(level.axis) < outer)
      outer_seen = true;
    else if (outer_seen)
      return at.problem("a loop inside a tile of the matrix unit");
  }
  if (at.s + 1 < at.schedule.stages.size() && at.schedule.stages[at.s + 1].joined)
    return text("stage ", at.s + 1, " cannot join a matrix unit");
  for (size_t i = 0; i < outer; ++i) {
    const bool own = static_cast<int>(i) == c.a_axis || static_cast<int>(i) == c.b_axis;
    if (at.tile[i] != (own ? kernel::kPanelRows : 1))
      return at.problem("a matrix unit takes tiles of ", kernel::kPanelRows);
    if (static_cast<int>(i) > c.b_axis && at.schedule.block[i] != 1) return at.problem("rows are not neighbours");
  }
  return "";
}

}  // namespace

std::string check(const RegisterContraction& contraction, const Site& at) {
  const std::optional<Contraction> c = find_contraction(at.loops, at.stage());
  if (std::string problem = check_dot(at, c); !problem.empty()) return problem;
  if (std::string problem = check_parts(contraction.parts, at); !problem.empty()) return problem;
  return check_factors(contraction, at, *c);
}

// Both factors are packed, and chunks of the reduced axis hold whole words.
std::string check(const PackedContraction& contraction, const Site& at) {
  const std::optional<Contraction> c = find_contraction(at.loops, at.stage());
  if (std::string problem = check_dot(at, c); !problem.empty()) return problem;
  if (is_nested(at.loops) || at.simt()) return at.problem("packed factors in nested loops, or on a SIMT machine");
  auto a = narrow_factor(at.loops, at.stage(), c->a), b = narrow_factor(at.loops, at.stage(), c->b);
  if (!a || !b || !c->is_matmul()) return at.problem("its factors cannot be packed into words");
  if (!contraction.left || !contraction.right || contraction.left->panel < 2 || contraction.right->panel < 2)
    return at.problem("packed factors lie in panels");
  const size_t outer = at.loops.outer.size();
  size_t along = at.tile.size();  // the reduced axis that holds words
  for (size_t i = outer; i < at.tile.size(); ++i)
    if (at.tile[i] > 1) along = i;
  if (along == at.tile.size()) return at.problem("no axis to pack");
  if (!c->a_axes[along] || !c->b_axes[along]) return at.problem("a factor does not follow the packed axis");
  const int64_t chunk = numbers_per_word(at.loops, *a) * (contraction.matrix ? kernel::kPanelDepth : 1);
  for (const Level& level : at.plan().loops)
    if (static_cast<size_t>(level.axis) >= outer && level.step != 1 && level.step % chunk != 0)
      return at.problem("steps of ", level.step, " along an axis of chunks of ", chunk);
  if (contraction.matrix)
    if (std::string problem = check_panels(at, *c, at.loops.dtype(*a)); !problem.empty()) return problem;
  return check_factors(contraction, at, *c);
}

// ---- search ----

namespace {

void change_staged(std::optional<Staged>& staged, const Site& at, const RandomBelow& draw) {
  if (staged && draw(2) == 0) {
    staged.reset();
    return;
  }
  if (!staged) staged = Staged{.panel = 2};  // repair() makes it as wide as the tile
  staged->scope = draw(2) ? Staged::Scope::Phase : Staged::Scope::Block;
  staged->depth = static_cast<int>(draw(std::ssize(at.plan().loops) + 1));
  if (draw(4) == 0) staged->panel = staged->panel > 1 ? 0 : 2;
}

template <class T>
void repair_staged(T& contraction, const Site& at) {
  const std::optional<Contraction> c = find_contraction(at.loops, at.stage());
  for (int operand : {0, 1}) {
    std::optional<Staged>& of = staged(contraction, operand);
    if (!of) continue;
    const int axis = c ? c->axis(operand) : -1;
    of->depth =
        of->scope == Staged::Scope::Phase ? 0 : std::clamp(of->depth, 0, static_cast<int>(std::ssize(at.plan().loops)));
    if (axis >= 0 && of->panel > 1) of->panel = at.tile[axis];
  }
}

}  // namespace

void change(RegisterContraction& contraction, const Site& at, const RandomBelow& draw) {
  if (draw(3) == 0)
    contraction.parts = draw_parts(contraction.parts, at.target, draw);
  else
    change_staged(staged(contraction, static_cast<int>(draw(2))), at, draw);
}

void change(PackedContraction& contraction, const Site& at, const RandomBelow& draw) {
  if (draw(3) == 0)
    contraction.matrix = !contraction.matrix;
  else
    change_staged(staged(contraction, static_cast<int>(draw(2))), at, draw);
}

void repair(RegisterContraction& contraction, const Site& at) { repair_staged(contraction, at); }

void repair(PackedContraction& contraction, const Site& at) {
  for (int operand : {0, 1}) {
    std::optional<Staged>& of = staged(contraction, operand);
    if (!of) of.emplace();
    of->panel = 2;
  }
  repair_staged(contraction, at);
}

void draw_loops(const PackedContraction&, StageSchedule& plan, const Site& at, const RandomBelow&) {
  for (Level& level : plan.loops)
    if (static_cast<size_t>(level.axis) >= at.loops.outer.size() && level.step > 1)
      level.step = std::max<int64_t>(4, level.step / 4 * 4);
}

// ---- the default choice on a CPU ----

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
constexpr int64_t kUnitRows = 256, kUnitColumns = 256, kUnitDepth = 512;
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
  const kernel::Inst* made = definition(stage, v);
  f.cast = made && made->op == kernel::Op::cast;
  if (f.cast) made = definition(stage, made->args[0]);
  if (!made || made->op != kernel::Op::load) return f;
  const kernel::Buffer& buffer = loops.buffer(*made);
  f.size = size_of(buffer.dtype);
  f.bytes = buffer.size.hi() * f.size;
  std::optional<Linear> along_own = linear_in(made->address, own), along_inner = linear_in(made->address, inner);
  f.plain = made->guard.is_const(1) && made->binds.empty() && along_own && along_inner;
  if (f.plain) {
    f.own = along_own->coefficient;
    f.inner = along_inner->coefficient;
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
std::optional<PackedContraction> choose_words(const Loops& loops, const Stage& stage, const Contraction& c,
                                              size_t along, const Target& target) {
  auto a = narrow_factor(loops, stage, c.a), b = narrow_factor(loops, stage, c.b);
  if (!a || !b || !c.a_axes[along] || !c.b_axes[along]) return {};
  if (stage.inner[along - loops.outer.size()].extent.hi() < 2) return {};
  const DType factor = loops.dtype(*a);
  if (find_instruction(target, MatrixLayout::Panels, factor) && c.b_axis == static_cast<int>(loops.outer.size()) - 1)
    return PackedContraction{.matrix = true};
  return find_instruction(target, MatrixLayout::Packed, factor) ? std::optional(PackedContraction{}) : std::nullopt;
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
      const Expr &a = loops.outer[c.a_axis].var, &b = loops.outer[c.b_axis].var;
      if (depends_on(inst.address, a) && depends_on(inst.address, b)) bytes += size_of(loops.buffer(inst).dtype);
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
  const int lanes = target.vector_bytes / std::max(4, size_of(loops.dtype(c.a)));
  const Factor fa = look_at(loops, stage, c.a, loops.outer[a].var, stage.inner[depth].var);
  const Factor fb = look_at(loops, stage, c.b, loops.outer[b].var, stage.inner[depth].var);
  StageSchedule& plan = schedule.stages[0];
  // Walked along short sums, b would cost more at their ends than a packed copy of it does.
  const bool short_sums = fb.inner == 1 && fb.own != 1 && m * kLanesCycles > k / lanes * kPackingCycles;
  const bool few_rows = m <= kFewRows && fb.plain && fb.bytes > target.l2_bytes && !short_sums;
  const std::optional<PackedContraction> packed =
      few_rows ? std::nullopt : choose_words(loops, stage, c, outer + depth, target);
  const bool words = packed.has_value(), matrix = words && packed->matrix;
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
    mc = round_up(std::min(m, kUnitRows), micro.rows);
    nc = round_up(std::min(n, kUnitColumns), micro.columns);
    kc = k <= kUnitDepth ? k : kUnitDepth;
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
  const bool pack_b = !walk_b && (words || !fb.plain || fb.cast || fb.own != 1 || k * n * fb.size > target.l2_bytes);
  // A copy of all windows of an image would be many times the image.
  const bool one_block = pack_b && (m <= kOneBlockRows || !one_axis) && !matrix && !row_wise;
  if (one_block) mc = round_up(m, micro.rows);

  // Something for everybody, in equal shares.
  const double others = product_sizes(loops, c).others;
  auto blocks = [&] { return others * static_cast<double>(pieces(m, mc) * pieces(n, nc)); };
  const double wanted = target.cores == 1 ? 1 : 4.0 * target.cores;
  int64_t parts = 1;
  if (one_axis && !words && blocks() < target.cores && k >= kLongSum * std::max(m, n) &&
      k >= kShortestPart * target.cores) {
    // Few results, and each a long sum: the sums are divided, along their first axis.
    parts = std::min(static_cast<int64_t>(wanted / blocks()), k / kShortestPart);
    kc = std::min(kc, round_up(pieces(k, parts), lanes));
  } else {
    while (blocks() < wanted && (mc > micro.rows || nc > micro.columns)) {
      const bool cut_rows = nc == micro.columns || (!one_block && mc > micro.rows && (row_wise || mc * 2 > nc));
      int64_t& size = cut_rows ? mc : nc;
      size = round_up(pieces(size, 2), cut_rows ? micro.rows : micro.columns);
    }
  }
  mc = round_up(pieces(m, pieces(m, mc)), micro.rows);
  nc = round_up(pieces(n, pieces(n, nc)), micro.columns);
  if (one_block && parts == 1 && target.cores > 1) even_out(m, n, others, mc, nc, micro, target.cores);
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

  // Elements of a are read one by one, so rows may start anywhere; columns of them may not be far apart.
  const bool far = std::abs(fa.inner) * fa.size >= kFarApart && fa.bytes > target.l2_bytes / 2;
  auto choose = [&](auto contraction) {
    if (!walk_b && (words || !fa.plain || fa.cast || far || !one_axis))
      contraction.left = {Staged::Scope::Phase, 0, micro.rows};
    if (pack_b && one_block)
      contraction.right = {Staged::Scope::Block, kc < k ? 2 : 1, micro.columns};
    else if (pack_b)
      contraction.right = {Staged::Scope::Phase, 0, micro.columns};
    plan.strategy = contraction;
  };
  words ? choose(*packed) : choose(RegisterContraction{.parts = parts});
}

// ---- the default choice on a SIMT machine ----

void schedule_contraction_simt(Schedule& schedule, const Loops& loops, const Contraction& c, const Target& target) {
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
  RegisterContraction& contraction = plan.strategy.emplace<RegisterContraction>();
  // Few blocks with long sums: the sums are divided.
  auto divide = [&, depth_of_sum = k](double warps) {
    const auto split =
        std::min(static_cast<int64_t>(std::round(kWarps * target.multiprocessors / warps)), depth_of_sum / kLeastPart);
    if (split <= 1) return;
    contraction.parts = split;
    if (!check(schedule, loops, target).empty()) contraction.parts = 1;
  };
  auto loop_by = [&, depth_of_sum = k](int64_t step) {
    if (step < depth_of_sum) plan.loops = {{static_cast<int>(loops.outer.size()), step}};
    return static_cast<int>(plan.loops.size());
  };
  if (std::min(m, n) < kTiles[2].rows || loops.dtype(c.a) != DType::f32) {
    schedule.block[a] = std::min<int64_t>(64, m);
    schedule.block[b] = std::min<int64_t>(64, n);
    const int depth = loop_by(8);
    contraction.left = contraction.right = {Staged::Scope::Block, depth, 0};
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
  contraction.left = {Staged::Scope::Block, depth, tile->rows};
  contraction.right = {Staged::Scope::Block, depth, tile->columns};
  divide(sizes.blocks(tile->rows, tile->columns) * tile->threads / target.warp);
}

}  // namespace heddle
