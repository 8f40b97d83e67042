#include "tune/neighbours.h"

#include <algorithm>

namespace heddle {
namespace {

// Sizes worth trying. Register tiles and lines of caches are among them.
constexpr int64_t kSizes[] = {1,  2,   3,   4,   6,   8,   12,  14,   16,   24,   32,   48,    64,   80,
                              96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192, 16384, 32768};

class Mutation {
 public:
  Mutation(const Schedule& from, const Loops& loops, const Target& target, std::mt19937_64& random)
      : schedule(from), loops_(loops), target_(target), outer_(static_cast<int>(loops.outer.size())) {
    draw_ = [&random](int64_t count) {
      return static_cast<int64_t>(random() % static_cast<uint64_t>(std::max<int64_t>(count, 1)));
    };
  }

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
      case 8:
      case 9: change_strategy(); break;
      default: change_form(); break;
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
      std::visit(
          [&](auto& of) {
            if constexpr (requires { heddle::repair(of, site(s)); }) heddle::repair(of, site(s));
          },
          plan.strategy);
    }
  }

 private:
  int64_t draw(int64_t count) { return draw_(count); }
  Site site(size_t s) const { return site_of(schedule, loops_, target_, s); }
  int64_t extent(size_t stage, int axis) const {
    const Axis& found = axis < outer_ ? loops_.outer[static_cast<size_t>(axis)]
                                      : loops_.stages[stage].inner[static_cast<size_t>(axis - outer_)];
    return std::max<int64_t>(found.extent.hi(), 1);
  }
  int64_t tile_size(size_t stage, int axis) const {
    return std::max<int64_t>(tile_of(schedule, loops_, stage)[static_cast<size_t>(axis)], 1);
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
    if (first > 0 || schedule.stages[0].parts() == 1)
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
    const StageSchedule& plan = schedule.stages[0];
    auto contraction = find_contraction(loops_, loops_.stages[0]);
    if (!(plan.is<RegisterContraction>() || plan.is<PackedContraction>()) || !contraction->is_matmul())
      return change_step();
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
  // Fields of a strategy, or of what all stages share.
  void change_strategy() {
    const auto s = static_cast<size_t>(draw(std::ssize(schedule.stages)));
    if (is_nested(loops_) && draw(2) == 0)
      change_chunks(schedule, target_, draw_);
    else
      std::visit([&](auto& of) { heddle::change(of, site(s), draw_); }, schedule.stages[s].strategy);
  }
  // Another strategy, or another nest.
  void change_form() {
    const auto s = static_cast<size_t>(draw(std::ssize(schedule.stages)));
    if (s > 0 && draw(2) == 0) {
      schedule.stages[s].joined = !schedule.stages[s].joined;
      return;
    }
    const std::vector<Strategy> choices = strategies_for(loops_, s, target_);
    schedule.stages[s].strategy = choices[static_cast<size_t>(draw(std::ssize(choices)))];
  }

  const Loops& loops_;
  const Target& target_;
  RandomBelow draw_;
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
