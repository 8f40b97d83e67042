// Why products are not on a matrix unit.
#include "compile/schedule/schedule.h"

namespace heddle {
namespace {

// Why no matrix unit takes the sum of products of stage s.
std::string refusal(const Loops& loops, size_t s, const Contraction& c, const Target& target) {
  Schedule schedule = plain_schedule(loops);
  std::string why;
  if (is_nested(loops)) {
    schedule_nested_unit(schedule, loops, target, &why);
    return why;
  }
  for (size_t i = 0; i < loops.stages.size(); ++i)
    if (i != s && (loops.stages[i].reducer || !loops.stages[i].inner.empty()))
      return "its kernel reduces something else, too";
  if (find_instruction(target, MatrixLayout::Fragments))
    schedule_warps(schedule, loops, c, target, &why);
  else
    schedule_groups(schedule, loops, c, target, &why);
  return why;
}

}  // namespace

std::vector<std::string> matrix_remarks(const Loops& loops, const Schedule& schedule, const Target& target) {
  std::vector<std::string> remarks;
  if (target.machine != Machine::Simt || target.matrix.empty()) return remarks;
  for (size_t s = 0; s < loops.stages.size(); ++s) {
    if (schedule.stages[s].is<MatrixContraction>() || schedule.stages[s].is<NestedContraction>()) continue;
    const std::optional<Contraction> c = find_contraction(loops, loops.stages[s]);
    if (c && c->is_matmul()) remarks.push_back("not on the matrix unit: " + refusal(loops, s, *c, target));
  }
  return remarks;
}

}  // namespace heddle
