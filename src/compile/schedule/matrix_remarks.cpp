#include "compile/loops/contraction.h"
#include "compile/schedule/matrix_simt.h"
#include "compile/schedule/warp_simt.h"

namespace heddle {
namespace {

// Why no matrix unit takes the sum of products of stage s.
std::string refusal(const Loops& loops, size_t s, const Contraction& c, const Target& target) {
  Schedule schedule;
  schedule.block.assign(loops.outer.size(), 1);
  schedule.stages.resize(loops.stages.size());
  std::string why;
  if (is_nested(loops)) {
    schedule_online_simt(schedule, loops, target, &why);
    return why;
  }
  for (size_t i = 0; i < loops.stages.size(); ++i)
    if (i != s && (loops.stages[i].reducer || !loops.stages[i].inner.empty()))
      return "its kernel reduces something else, too";
  if (find_instruction(target, MatrixLayout::Fragments))
    schedule_warp_simt(schedule, loops, c, target, &why);
  else
    schedule_matrix_simt(schedule, loops, c, target, &why);
  return why;
}

}  // namespace

std::vector<std::string> matrix_remarks(const Loops& loops, const Schedule& schedule, const Target& target) {
  std::vector<std::string> remarks;
  if (target.machine != Machine::Simt || target.matrix.empty()) return remarks;
  for (size_t s = 0; s < loops.stages.size(); ++s) {
    const StageSchedule::Unit unit = schedule.stages[s].unit;
    if (unit == StageSchedule::Unit::Matrix || unit == StageSchedule::Unit::Warps) continue;
    const std::optional<Contraction> c = find_contraction(loops, loops.stages[s]);
    if (c && c->is_matmul()) remarks.push_back("not on the matrix unit: " + refusal(loops, s, *c, target));
  }
  return remarks;
}

}  // namespace heddle
