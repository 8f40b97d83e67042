#include "tune/neighbours.h"

#include <algorithm>
#include <array>

#include "compile/loops/contraction.h"

namespace heddle {
namespace {

// Sizes worth trying. Register tiles and lines of caches are among them.
constexpr int64_t kSizes[] = {1,  2,   3,   4,   6,   8,   12,  14,   16,   24,   32,   48,    64,   80,
                              96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192, 16384, 32768};

int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

class Mutation {
 public:
  Mutation(const Schedule& from, const Loops& loops, const Target& target, std::mt19937_64& random)
      : schedule(from), loops_(loops), target_(target), random_(random), outer_(static_cast<int>(loops.outer.size())) {}

  Schedule schedule;

  void change() {
    switch (draw(11)) {
      case 0:
      case 1: change_block(); break;
      case 2:
      case 3: change_step(); break;
      case 4: change_register_tile(); break;
      case 5: swap_loops(); break;
      case 6: add_loop(); break;
      case 7: remove_loop(); break;
      case 8: change_packing(); break;
      case 9: change_split(); break;
      default: change_flag(); break;
    }
  }

  // Brings in line what belongs together: steps divide what they walk, stages that share loops have the same ones,
  // panels are as wide as tiles.
  void repair() {
    for (size_t s = 0; s < schedule.stages.size(); ++s) {
      StageSchedule& plan = schedule.stages[s];
      if (s > 0 && plan.joined) copy_outer_loops(s);
      for (int axis = 0; axis < outer_; ++axis) {
        int64_t inner = 1;
        for (size_t i = plan.loops.size(); i-- > 0;) {
          Level& level = plan.loops[i];
          if (level.axis != axis) continue;
          level.step = round_up(std::max(level.step, inner), inner);
          inner = level.step;
        }
        int64_t& block = schedule.block[static_cast<size_t>(axis)];
        block = round_up(std::max(block, inner), inner);
      }
      for (size_t i = 0; i < plan.loops.size(); ++i) {
        Level& level = plan.loops[i];
        if (level.axis < outer_) continue;
        int64_t most = extent(s, level.axis);
        for (size_t before = 0; before < i; ++before)
          if (plan.loops[before].axis == level.axis) most = plan.loops[before].step;
        level.step = std::clamp<int64_t>(level.step, 1, most);
      }
      if (!plan.dot) plan.staged.clear();
      auto contraction = plan.staged.empty() ? std::nullopt : find_contraction(loops_, loops_.stages[s]);
      for (Staged& staged : plan.staged) {
        staged.depth = std::clamp(staged.depth, 0, static_cast<int>(plan.loops.size()));
        int axis = !contraction ? -1 : staged.operand == 0 ? contraction->a_axis : contraction->b_axis;
        if (axis >= 0 && staged.panel > 1) staged.panel = tile_size(s, axis);
      }
    }
  }

 private:
  int64_t draw(int64_t count) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(std::max<int64_t>(count, 1)));
  }
  int64_t extent(size_t stage, int axis) const {
    const Axis& found = axis < outer_ ? loops_.outer[static_cast<size_t>(axis)]
                                      : loops_.stages[stage].inner[static_cast<size_t>(axis - outer_)];
    return std::max<int64_t>(found.extent.hi(), 1);
  }
  int64_t tile_size(size_t stage, int axis) const {
    int64_t size = axis < outer_ ? schedule.block[static_cast<size_t>(axis)] : extent(stage, axis);
    for (const Level& level : schedule.stages[stage].loops)
      if (level.axis == axis) size = level.step;
    return size;
  }
  // Near a size: half, twice, the next better one; or anything worth trying.
  int64_t other_size(int64_t size, int64_t most) {
    int64_t next = size;
    switch (draw(5)) {
      case 0: next = size * 2; break;
      case 1: next = size / 2; break;
      case 2: next = size * 3 / 2; break;
      case 3: next = (most + 1) / 2; break;
      default: next = kSizes[draw(std::size(kSizes))]; break;
    }
    return std::clamp<int64_t>(next, 1, std::max<int64_t>(most, 1));
  }
  StageSchedule& any_stage() { return schedule.stages[static_cast<size_t>(draw(std::ssize(schedule.stages)))]; }

  void copy_outer_loops(size_t s) {
    size_t first = s;
    while (first > 0 && schedule.stages[first].joined) --first;
    std::vector<Level> loops;
    if (first > 0 || schedule.stages[0].split == 1)
      for (const Level& level : schedule.stages[first].loops) {
        if (level.axis >= outer_) break;
        loops.push_back(level);
      }
    for (const Level& level : schedule.stages[s].loops)
      if (level.axis >= outer_) loops.push_back(level);
    schedule.stages[s].loops = std::move(loops);
  }

  void change_block() {
    if (outer_ == 0) return;
    auto axis = static_cast<size_t>(draw(outer_));
    int64_t most = extent(0, static_cast<int>(axis));
    // So many blocks that all cores have the same to do, or another size.
    int64_t blocks = std::max<int64_t>(1, target_.cores) * (1 + draw(4));
    schedule.block[axis] = draw(4) == 0 ? (most + blocks - 1) / blocks : other_size(schedule.block[axis], most);
    // A smaller block takes its loops along.
    for (StageSchedule& plan : schedule.stages)
      for (Level& level : plan.loops)
        if (level.axis == static_cast<int>(axis)) level.step = std::min(level.step, schedule.block[axis]);
  }
  void change_step() {
    StageSchedule& plan = any_stage();
    if (plan.loops.empty()) return;
    Level& level = plan.loops[static_cast<size_t>(draw(std::ssize(plan.loops)))];
    int64_t most = extent(static_cast<size_t>(&plan - schedule.stages.data()), level.axis);
    int64_t before = level.step;
    level.step = other_size(before, most);
    for (StageSchedule& other : schedule.stages)  // register tiles are the same in all stages that walk them
      for (Level& same : other.loops)
        if (same.axis == level.axis && same.step == before && draw(4) != 0) same.step = level.step;
  }
  // Rows and vectors of columns of a product that fit the registers.
  void change_register_tile() {
    StageSchedule& plan = schedule.stages[0];
    auto contraction = find_contraction(loops_, loops_.stages[0]);
    if (!plan.dot || !contraction || !contraction->is_matmul()) return change_step();
    const int64_t lanes = std::max(1, target_.vector_bytes / 4), vectors = 1 + draw(6);
    const int64_t most_rows = std::max<int64_t>(1, (target_.vector_registers - vectors - 1) / vectors);
    const int64_t rows = std::max<int64_t>(1, most_rows - draw(std::min<int64_t>(most_rows, 4)));
    for (auto [axis, size] : {std::pair{contraction->a_axis, rows}, {contraction->b_axis, vectors * lanes}})
      for (StageSchedule& stage : schedule.stages)
        for (size_t i = stage.loops.size(); i-- > 0;)
          if (stage.loops[i].axis == axis) {
            stage.loops[i].step = std::min(size, round_up(extent(0, axis), axis == contraction->b_axis ? lanes : 1));
            break;
          }
  }
  void swap_loops() {
    StageSchedule& plan = any_stage();
    if (plan.loops.size() < 2) return;
    auto at = static_cast<size_t>(draw(std::ssize(plan.loops) - 1));
    std::swap(plan.loops[at], plan.loops[at + 1]);
  }
  void add_loop() {
    StageSchedule& plan = any_stage();
    auto s = static_cast<size_t>(&plan - schedule.stages.data());
    int axes = outer_ + static_cast<int>(loops_.stages[s].inner.size());
    if (axes == 0 || plan.loops.size() > 8) return;
    int axis = static_cast<int>(draw(axes));
    Level level{axis, other_size(tile_size(s, axis), tile_size(s, axis))};
    plan.loops.insert(plan.loops.begin() + draw(std::ssize(plan.loops) + 1), level);
  }
  void remove_loop() {
    StageSchedule& plan = any_stage();
    if (!plan.loops.empty()) plan.loops.erase(plan.loops.begin() + draw(std::ssize(plan.loops)));
  }
  void change_packing() {
    StageSchedule& plan = schedule.stages[0];
    if (!plan.dot) return change_step();
    int operand = static_cast<int>(draw(2));
    auto found = std::find_if(plan.staged.begin(), plan.staged.end(), [&](auto& x) { return x.operand == operand; });
    if (found != plan.staged.end() && draw(2) == 0) {
      plan.staged.erase(found);
      return;
    }
    if (found == plan.staged.end()) {
      plan.staged.push_back({operand, Staged::Scope::Phase, 0, 2});
      found = plan.staged.end() - 1;
      std::sort(plan.staged.begin(), plan.staged.end(), [](auto& a, auto& b) { return a.operand < b.operand; });
      found = std::find_if(plan.staged.begin(), plan.staged.end(), [&](auto& x) { return x.operand == operand; });
    }
    found->scope = draw(2) ? Staged::Scope::Phase : Staged::Scope::Block;
    found->depth = static_cast<int>(draw(std::ssize(plan.loops) + 1));
    if (draw(4) == 0) found->panel = found->panel > 1 ? 0 : 2;  // repair() makes it as wide as the tile
  }
  void change_chunks() {
    constexpr int64_t kChunks[] = {0, 128, 256, 512, 1024, 2048};
    const int64_t parts[] = {1, 1, 2, target_.cores, 2 * target_.cores, 16};
    schedule.chunk = kChunks[draw(std::size(kChunks))];
    schedule.parts = schedule.chunk == 0 ? 1 : parts[draw(std::size(parts))];
  }
  void change_split() {
    if (is_nested(loops_)) return change_chunks();
    bool last = loops_.stages.back().ordered;
    StageSchedule& plan = last ? schedule.stages.back() : schedule.stages[0];
    const int64_t cores = std::max(1, target_.cores);
    const int64_t parts[] = {1, 2, cores, 2 * cores, 4 * cores, plan.split * 2, std::max<int64_t>(1, plan.split / 2),
                             16};
    plan.split = parts[draw(std::size(parts))];
  }
  void change_flag() {
    switch (draw(4)) {
      case 0: {
        bool stream = !schedule.stages.back().stream;
        for (size_t s = 0; s < schedule.stages.size(); ++s)
          schedule.stages[s].stream = stream && !loops_.stages[s].reducer && !loops_.stages[s].ordered;
        return;
      }
      case 1:
        if (schedule.stages.size() > 1) {
          StageSchedule& plan = schedule.stages[1 + static_cast<size_t>(draw(std::ssize(schedule.stages) - 1))];
          plan.joined = !plan.joined;
        }
        return;
      case 2: {
        StageSchedule& plan = any_stage();
        plan.dot = !plan.dot;
        return;
      }
      default: {
        using Unit = StageSchedule::Unit;
        schedule.stages[0].unit = std::array{Unit::Numbers, Unit::Packed, Unit::Matrix}[static_cast<size_t>(draw(3))];
        return;
      }
    }
  }

  const Loops& loops_;
  const Target& target_;
  std::mt19937_64& random_;
  int outer_;
};

}  // namespace

Schedule neighbour(const Schedule& schedule, const Loops& loops, const Target& target, std::mt19937_64& random) {
  const std::string before = print(schedule);
  for (int attempt = 0; attempt < 40; ++attempt) {
    Mutation mutation(schedule, loops, target, random);
    int changes = 1 + static_cast<int>(random() % 4 == 0) + static_cast<int>(random() % 8 == 0);
    for (int i = 0; i < changes; ++i) mutation.change();
    mutation.repair();
    if (print(mutation.schedule) != before && check(mutation.schedule, loops, target).empty()) return mutation.schedule;
  }
  return schedule;
}

}  // namespace heddle
