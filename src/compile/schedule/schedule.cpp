// Schedules as data: legality, text.
#include "compile/schedule/schedule.h"

#include <charconv>
#include <sstream>

#include "base/error.h"
#include "compile/loops/contraction.h"
#include "compile/loops/online.h"
#include "compile/schedule/matrix_simt.h"
#include "compile/schedule/warp_simt.h"

namespace heddle {
namespace {

// Several numbers packed to a word: both factors are packed, and chunks of the reduced axis hold whole words.
std::string check_unit(const StageSchedule& plan, const Schedule& schedule, const Loops& loops, size_t s,
                       const Contraction& c, const std::vector<int64_t>& size, const Target& target) {
  const Stage& stage = loops.stages[s];
  const bool matrix = plan.unit == StageSchedule::Unit::Matrix;
  auto a = narrow_factor(loops, stage, c.a), b = narrow_factor(loops, stage, c.b);
  if (!a || !b || !c.is_matmul()) return text("stage ", s, ": its factors cannot be packed into words");
  if (plan.staged.size() != 2 || plan.staged[0].operand == plan.staged[1].operand)
    return text("stage ", s, ": factors lie packed in panels");
  size_t along = size.size();  // the reduced axis that holds words
  for (size_t i = loops.outer.size(); i < size.size(); ++i)
    if (size[i] > 1) along = i;
  if (along == size.size()) return text("stage ", s, ": no axis to pack");
  if (!c.a_axes[along] || !c.b_axes[along]) return text("stage ", s, ": a factor does not follow the packed axis");
  const int64_t chunk = numbers_per_word(loops, *a) * (matrix ? kernel::kPanelDepth : 1);
  for (const Level& level : plan.loops)
    if (static_cast<size_t>(level.axis) >= loops.outer.size() && level.step != 1 && level.step % chunk != 0)
      return text("stage ", s, ": steps of ", level.step, " along an axis of chunks of ", chunk);
  if (plan.split > 1 || target.machine != Machine::Simd) return text("stage ", s, ": packed factors of a divided sum");
  for (const Staged& staged : plan.staged)
    if (staged.panel < 2) return text("stage ", s, ": packed factors lie in panels");
  if (!matrix) return "";
  const MatrixInstruction* panels =
      find_instruction(target, MatrixLayout::Panels, loops.values[static_cast<size_t>(*a)].dtype);
  if (!panels) return "the machine has no matrix unit";
  bool outer_seen = false;
  for (const Level& level : plan.loops) {
    if (static_cast<size_t>(level.axis) < loops.outer.size())
      outer_seen = true;
    else if (outer_seen)
      return text("stage ", s, ": a loop inside a tile of the matrix unit");
  }
  if (s + 1 < schedule.stages.size() && schedule.stages[s + 1].joined)
    return text("stage ", s + 1, " cannot join a matrix unit");
  for (size_t i = 0; i < loops.outer.size(); ++i) {
    const bool own = static_cast<int>(i) == c.a_axis || static_cast<int>(i) == c.b_axis;
    if (size[i] != (own ? kernel::kPanelRows : 1))
      return text("stage ", s, ": a matrix unit takes tiles of ", kernel::kPanelRows);
    if (static_cast<int>(i) > c.b_axis && schedule.block[i] != 1) return text("stage ", s, ": rows are not neighbours");
  }
  return "";
}

std::string check_stage(const StageSchedule& plan, const Schedule& schedule, const Loops& loops, size_t s,
                        const Target& target) {
  const Stage& stage = loops.stages[s];
  size_t outer = loops.outer.size(), count = outer + stage.inner.size();
  std::vector<int64_t> size;
  for (size_t i = 0; i < count; ++i) {
    const Axis& axis = i < outer ? loops.outer[i] : stage.inner[i - outer];
    const bool common = schedule.chunk > 0 && i >= outer && common_axis(loops)->var == axis.var;
    size.push_back(i < outer ? schedule.block[i] : common ? schedule.chunk : axis.extent.hi());
  }
  bool inner_seen = false;
  for (const Level& level : plan.loops) {
    if (level.axis < 0 || static_cast<size_t>(level.axis) >= count)
      return text("stage ", s, " has no axis ", level.axis);
    size_t axis = static_cast<size_t>(level.axis);
    // Matrix units of SIMT machines take steps of one size; what is beyond the axis counts as 0.
    const bool fixed = target.machine == Machine::Simt && plan.unit != StageSchedule::Unit::Numbers && axis >= outer;
    if (level.step < 1 || (level.step > std::max<int64_t>(size[axis], 1) && !fixed))
      return text("stage ", s, ": a step of ", level.step, " in ", size[axis], " elements");
    if (axis < outer && size[axis] % level.step != 0)
      return text("stage ", s, ": outer steps of ", level.step, " do not divide ", size[axis]);
    bool first = true;
    for (const Level& before : std::span(plan.loops.data(), static_cast<size_t>(&level - plan.loops.data())))
      first = first && before.axis != level.axis;
    if (axis >= outer && axis < outer + stage.kept && !first && size[axis] % level.step != 0)
      return text("stage ", s, ": steps of ", level.step, " along a kept axis do not divide ", size[axis]);
    if (axis >= outer) inner_seen = true;
    if (axis < outer && inner_seen && has_scan(stage)) return text("stage ", s, ": outer loops inside a scanned axis");
    if (axis < outer && inner_seen) {
      if (plan.joined && s > 0) return text("stage ", s, " is joined but has outer loops of its own");
      if (s + 1 < loops.stages.size() && schedule.stages[s + 1].joined)
        return text("stage ", s + 1, " cannot join loops that are inside a reduction");
    }
    size[axis] = level.step;
  }
  if (plan.joined && s > 0) {
    auto outer_levels = [&](const StageSchedule& x) {
      std::vector<std::pair<int, int64_t>> list;
      for (const Level& level : x.loops) {
        if (static_cast<size_t>(level.axis) >= outer) break;
        list.emplace_back(level.axis, level.step);
      }
      return list;
    };
    size_t first = s;
    while (first > 0 && schedule.stages[first].joined) --first;
    auto theirs = outer_levels(schedule.stages[first]), mine = outer_levels(plan);
    if (schedule.stages[0].split > 1 && first == 0) theirs = mine = {};
    bool prefix = mine.size() >= theirs.size() && std::equal(theirs.begin(), theirs.end(), mine.begin());
    if (!prefix) return text("stage ", s, " is joined but its outer loops differ");
    if (stage.reducer && mine.size() != theirs.size())
      return text("stage ", s, ": a joined reduction cannot add outer loops");
  }
  if (plan.atomic) {
    if (target.machine != Machine::Simt) return text("stage ", s, ": atomic updates on a SIMD machine");
    if (!stage.combine) return text("stage ", s, " has no updates that combine in any order");
    if (stage.inner.size() != 1 || plan.joined || plan.loops.empty() ||
        static_cast<size_t>(plan.loops[0].axis) != outer)
      return text("stage ", s, ": atomic updates need a loop over them, and a nest of their own");
  }
  if (stage.ordered && !plan.atomic)
    for (size_t i = outer; i < count; ++i)
      if (size[i] != 1) return text("stage ", s, " is ordered but takes ", size[i], " updates at a time");
  std::optional<Contraction> contraction;
  if (plan.dot) {
    contraction = find_contraction(loops, stage);
    if (!contraction) return text("stage ", s, " is no sum of products");
    if (stage.inner.size() == stage.kept) return text("stage ", s, ": dot needs a reduced axis");
    int walked = 0;
    for (size_t i = outer + stage.kept; i < count; ++i) walked += size[i] > 1;
    if (walked > 1) return text("stage ", s, ": a dot runs along one reduced axis, the others need loops of step 1");
  }
  if (plan.split > 1 && is_nested(loops)) return text("stage ", s, ": a split in nested loops");
  if (target.machine == Machine::Simt && schedule.chunk > 0) return "";  // all of it by check_online_simt()
  if (plan.unit != StageSchedule::Unit::Numbers && is_nested(loops))
    return text("stage ", s, ": packed factors in nested loops");
  if (plan.unit == StageSchedule::Unit::Warps) {
    if (!plan.dot) return text("stage ", s, ": a unit without a dot");
    return check_warp_simt(schedule, loops, s, *contraction, target);
  }
  if (plan.pipeline != 0 || (plan.unit == StageSchedule::Unit::Matrix && target.machine == Machine::Simt)) {
    if (!plan.dot) return text("stage ", s, ": a unit without a dot");
    return check_matrix_simt(schedule, loops, s, *contraction, target);
  }
  if (plan.unit != StageSchedule::Unit::Numbers) {
    if (!plan.dot) return text("stage ", s, ": a unit without a dot");
    if (std::string problem = check_unit(plan, schedule, loops, s, *contraction, size, target); !problem.empty())
      return problem;
  }
  if (!plan.staged.empty() && !plan.dot) return text("stage ", s, ": only the factors of a dot are staged");
  for (const Staged& staged : plan.staged) {
    if (staged.operand != 0 && staged.operand != 1) return text("stage ", s, " has no operand ", staged.operand);
    int axis = staged.operand == 0 ? contraction->a_axis : contraction->b_axis;
    if (axis < 0) return text("stage ", s, ": operand ", staged.operand, " has no axis of its own");
    size_t a = static_cast<size_t>(axis);
    int64_t whole = a < outer ? schedule.block[a] : staged.panel;
    if (staged.panel > 1 && (size[a] != staged.panel || whole % staged.panel != 0))
      return text("stage ", s, ": panels of ", staged.panel, " but tiles of ", size[a], " in blocks of ", whole);
    if (staged.scope == Staged::Scope::Block &&
        (staged.depth < 0 || static_cast<size_t>(staged.depth) > plan.loops.size()))
      return text("stage ", s, " has no loop number ", staged.depth);
    if (staged.scope == Staged::Scope::Phase && staged.panel > 1 && a >= outer && schedule.chunk % staged.panel != 0)
      return text("stage ", s, ": chunks of ", schedule.chunk, " end inside panels of ", staged.panel);
    if (staged.scope == Staged::Scope::Phase && s != 0)
      return text("stage ", s, ": only the first stage can pack in a phase");
  }
  // On such machines a scanned tile that the threads cannot hold goes through shared memory.
  if (target.machine == Machine::Simt && has_scan(stage)) {
    constexpr int64_t kHeld = 64;  // elements of a thread
    int64_t points = 1, bytes = 0;
    for (size_t i = 0; i < count; ++i) points = std::min(points * size[i], target.shared_bytes);
    for (const kernel::Inst& inst : stage.body.insts)
      if (inst.op == kernel::Op::scan)
        for (const Scalar& identity : inst.reducer->identity)
          bytes += size_of(identity.dtype) * (points + 4 * points / std::min(points, size[outer]));
    if (points > kHeld * schedule.threads && bytes > target.shared_bytes / 2)
      return text("stage ", s, ": a scanned tile of ", points, " elements");
  }
  for (size_t i = outer; i < count; ++i)
    if (!stage.inner[i - outer].extent.is_const() && size[i] == stage.inner[i - outer].extent.hi() &&
        size[i] > (1 << 16))
      return text("stage ", s, ": an axis of unknown size needs a loop");
  return "";
}

// What the stages of nested loops keep waits in shared memory, of which such machines have little.
std::string check_nested_simt(const Schedule& schedule, const Loops& loops, const Target& target) {
  int64_t kept = 0, largest = 0;
  for (size_t s = 0; s < loops.stages.size(); ++s) {
    const Stage& stage = loops.stages[s];
    int64_t block = 1, results = 0, tile = 1;
    for (int64_t size : schedule.block) block *= size;
    for (kernel::Value v : stage.results) results += size_of(loops.values[static_cast<size_t>(v)].dtype);
    for (size_t i = 0; i < stage.kept; ++i) results *= stage.inner[i].extent.hi() + 64;
    for (size_t i = 0; i < loops.outer.size() + stage.inner.size(); ++i) {
      int64_t size = i < loops.outer.size() ? schedule.block[i] : stage.inner[i - loops.outer.size()].extent.hi();
      for (const Level& level : schedule.stages[s].loops)
        if (static_cast<size_t>(level.axis) == i) size = level.step;
      tile = std::min(tile * size, target.shared_bytes);
    }
    kept += results * block;
    largest = std::max(largest, tile * 4 * (schedule.stages[s].dot ? 2 : 1));
  }
  if (kept > target.shared_bytes / 2) return text(kept, " bytes of shared memory for what stages keep");
  if (largest > target.shared_bytes / 8) return text("tiles of ", largest, " bytes in nested loops");
  return "";
}

std::string check_chunks(const Schedule& schedule, const Loops& loops, const Target& target) {
  if (schedule.chunk < 0 || schedule.parts < 1) return text(schedule.parts, " parts of chunks of ", schedule.chunk);
  if (schedule.chunk == 0) return schedule.parts > 1 ? "parts without chunks" : "";
  if (schedule.chunk > 1 << 16) return text("chunks of ", schedule.chunk);
  if (!is_nested(loops) || !find_online(loops)) return "chunks of an axis that cannot be rescaled";
  return target.machine == Machine::Simt ? check_online_simt(schedule, loops, target) : "";
}

std::string check_split_scan(const StageSchedule& plan, const Loops& loops, const Target& target) {
  const Stage& stage = loops.stages[0];
  if (loops.stages.size() != 1) return "a split scan needs a kernel of its own";
  if (plan.loops.empty() || static_cast<size_t>(plan.loops[0].axis) != loops.outer.size())
    return "a split scan needs a loop over its axis: the parts";
  if (scans_feed_scans(stage)) return "a scan of a scan cannot be split";
  if (target.machine == Machine::Simt && plan.split * plan.loops[0].step < stage.inner[0].extent.hi())
    return "a scan in rounds on a SIMT machine";
  return "";
}

}  // namespace

std::string check(const Schedule& schedule, const Loops& loops, const Target& target) {
  if (schedule.block.size() != loops.outer.size())
    return text(schedule.block.size(), " block sizes for ", loops.outer.size(), " axes");
  if (schedule.stages.size() != loops.stages.size())
    return text(schedule.stages.size(), " stages instead of ", loops.stages.size());
  for (int64_t size : schedule.block)
    if (size < 1) return text("a block of ", size, " elements");
  if (schedule.threads < 1 || schedule.threads > target.max_threads) return text(schedule.threads, " threads");
  if (target.machine == Machine::Simd && schedule.threads != 1) return "threads inside a block on a SIMD machine";
  if (schedule.persistent < 0 || schedule.group < 1)
    return text(schedule.persistent, " persistent blocks in groups of ", schedule.group);
  if (schedule.persistent > 0 && (schedule.stages[0].pipeline == 0 || schedule.stages[0].split > 1))
    return "persistent blocks without a matrix unit, or of a divided sum";
  if (std::string problem = check_chunks(schedule, loops, target); !problem.empty()) return problem;
  for (size_t s = 0; s < loops.stages.size(); ++s) {
    const StageSchedule& plan = schedule.stages[s];
    if (plan.split < 1) return text("stage ", s, " split into ", plan.split);
    if (plan.split > 1 && has_scan(loops.stages[s])) {
      if (std::string problem = check_split_scan(plan, loops, target); !problem.empty()) return problem;
    } else if (plan.split > 1 && loops.stages[s].ordered) {
      if (s == 0 || loops.stages[s - 1].inner.size() != 1) return text("stage ", s, " cannot be split");
    } else if (plan.split > 1) {
      if (s != 0 || !loops.stages[0].reducer || loops.stages[0].inner.empty())
        return text("stage ", s, " cannot be split");
      for (size_t later = 1; later < loops.stages.size(); ++later)
        if (loops.stages[later].reducer) return "a split needs the only reduction of the kernel";
    }
    if (std::string problem = check_stage(plan, schedule, loops, s, target); !problem.empty()) return problem;
  }
  if (target.machine == Machine::Simt && is_nested(loops) && schedule.chunk == 0)
    return check_nested_simt(schedule, loops, target);
  return "";
}

std::string print(const Schedule& schedule) {
  std::ostringstream out;
  out << "block";
  for (int64_t size : schedule.block) out << " " << size;
  out << " threads " << schedule.threads;
  if (schedule.persistent != 0) out << " persistent " << schedule.persistent << " group " << schedule.group;
  if (schedule.chunk > 0) out << " chunk " << schedule.chunk << " parts " << schedule.parts;
  for (const StageSchedule& plan : schedule.stages) {
    out << "; stage";
    for (const Level& level : plan.loops) out << " loop " << level.axis << " " << level.step;
    if (plan.joined) out << " joined";
    if (plan.split != 1) out << " split " << plan.split;
    if (plan.atomic) out << " atomic";
    if (plan.dot) out << " dot";
    if (plan.unit == StageSchedule::Unit::Packed) out << " packed";
    if (plan.unit == StageSchedule::Unit::Matrix) out << " matrix";
    if (plan.unit == StageSchedule::Unit::Warps) out << " warps";
    if (plan.pipeline != 0) out << " pipeline " << plan.pipeline;
    for (const Staged& staged : plan.staged) {
      out << " staged " << staged.operand;
      if (staged.scope == Staged::Scope::Phase)
        out << " phase";
      else
        out << " block " << staged.depth;
      out << " panel " << staged.panel;
    }
    if (plan.stream) out << " stream";
  }
  return out.str();
}

Schedule parse_schedule(std::string_view source) {
  std::string spaced;
  for (char c : source) spaced += c == ';' ? std::string(" ; ") : std::string(1, c);
  std::istringstream in(spaced);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  size_t at = 0;
  auto fail = [&](const std::string& expected) {
    throw ParseError(text("schedule: expected ", expected,
                          at < words.size() ? text(", found '", words[at], "'") : ", found the end"));
  };
  auto accept = [&](std::string_view word) { return at < words.size() && words[at] == word && ++at; };
  auto number = [&] {
    int64_t value = 0;
    if (at == words.size()) fail("a number");
    auto [end, status] = std::from_chars(words[at].data(), words[at].data() + words[at].size(), value);
    if (status != std::errc() || end != words[at].data() + words[at].size()) fail("a number");
    ++at;
    return value;
  };
  auto small = [&] {
    int64_t value = number();
    if (value < 0 || value > 1 << 20) {
      --at;
      fail("a number from 0 to 1048576");
    }
    return static_cast<int>(value);
  };
  Schedule schedule;
  if (!accept("block")) fail("'block'");
  while (at < words.size() && words[at] != "threads") schedule.block.push_back(number());
  if (!accept("threads")) fail("'threads'");
  schedule.threads = small();
  if (accept("persistent")) {
    schedule.persistent = small();
    if (!accept("group")) fail("'group'");
    schedule.group = small();
  }
  if (accept("chunk")) {
    schedule.chunk = number();
    if (!accept("parts")) fail("'parts'");
    schedule.parts = number();
  }
  while (accept(";")) {
    if (!accept("stage")) fail("'stage'");
    StageSchedule plan;
    plan.joined = false;
    while (at < words.size() && words[at] != ";") {
      if (accept("loop")) {
        int axis = small();
        plan.loops.push_back({axis, number()});
      } else if (accept("joined")) {
        plan.joined = true;
      } else if (accept("split")) {
        plan.split = number();
      } else if (accept("atomic")) {
        plan.atomic = true;
      } else if (accept("dot")) {
        plan.dot = true;
      } else if (accept("packed")) {
        plan.unit = StageSchedule::Unit::Packed;
      } else if (accept("matrix")) {
        plan.unit = StageSchedule::Unit::Matrix;
      } else if (accept("warps")) {
        plan.unit = StageSchedule::Unit::Warps;
      } else if (accept("pipeline")) {
        plan.pipeline = small();
      } else if (accept("stream")) {
        plan.stream = true;
      } else if (accept("staged")) {
        Staged staged;
        staged.operand = small();
        if (accept("block")) {
          staged.scope = Staged::Scope::Block;
          staged.depth = small();
        } else if (!accept("phase")) {
          fail("'phase' or 'block'");
        }
        if (!accept("panel")) fail("'panel'");
        staged.panel = number();
        plan.staged.push_back(staged);
      } else {
        fail("a word of a stage");
      }
    }
    schedule.stages.push_back(plan);
  }
  if (at != words.size()) fail("';'");
  return schedule;
}

}  // namespace heddle
