#include "compile/fuse/group_axes.h"

#include <algorithm>

#include "base/contains.h"

namespace heddle {

GroupAxes::GroupAxes(const Partition& parts, const Group& group) {
  auto unit = [&](int id) -> const Unit& { return parts.units[static_cast<size_t>(id)]; };
  for (int id : group.units) add(unit(id), id);
  for (int id : group.units)
    for (const Unit::Read& read : unit(id).reads) {
      if (read.memory) continue;
      for (int other : group.units) {
        const Unit& from = unit(other);
        if (!from.reduces || from.node != reduction_of(read.node)) continue;
        for (size_t i = 0; i < from.at.size(); ++i) unite(from.at[i], read.index[i]);
      }
    }
  // Sums that need nothing of each other still walk their common axis together.
  const Unit* first = nullptr;
  for (int id : group.units) {
    if (!unit(id).along.is_var()) continue;
    if (first) unite(first->along, unit(id).along);
    if (!first) first = &unit(id);
  }
}

void GroupAxes::add(const Unit& u, int id) {
  for (const auto* axes : {&u.kept, &u.reduced})
    for (const Expr& axis : *axes) {
      if (contains(u.outer, axis)) continue;
      class_of_[axis.id()] = classes_.size();
      classes_.push_back({axis, {id}});
    }
}

bool GroupAxes::unite(const Expr& a, const Expr& b) {
  if (!a.is_var() || !b.is_var()) return false;
  auto left = class_of_.find(a.id()), right = class_of_.find(b.id());
  if (left == class_of_.end() || right == class_of_.end()) return false;
  const size_t to = left->second, from = right->second;
  if (to == from) return true;
  std::vector<int>&mine = classes_[to].units, &theirs = classes_[from].units;
  if (!(classes_[to].axis.extent() == classes_[from].axis.extent())) return false;
  if (std::any_of(theirs.begin(), theirs.end(), [&](int id) { return contains(mine, id); })) return false;
  mine.insert(mine.end(), theirs.begin(), theirs.end());
  for (auto& [axis, which] : class_of_)
    if (which == from) which = to;
  return true;
}

Expr GroupAxes::representative(const Expr& axis) const { return classes_[class_of_.at(axis.id())].axis; }

bool GroupAxes::is_alone(const Expr& axis) const { return classes_[class_of_.at(axis.id())].units.size() == 1; }

}  // namespace heddle
