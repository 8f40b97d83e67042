// Which inner axes of a group's units are one loop variable.
//
// A reduction that keeps an axis is computed along it once for all that read it, so the axes along which they do are
// that axis. Renaming the axes of a nest changes nothing as long as they stay apart: two axes become one only if their
// extents are the same and no unit has both of them. Whether
// a result is then read at the point where it was computed fuse() sees from the indices, and does not rely on this.
#pragma once

#include <unordered_map>
#include <vector>

#include "compile/fuse/partition.h"

namespace heddle {

class GroupAxes {
 public:
  GroupAxes(const Partition& parts, const Group& group);

  // Of an inner axis of a unit: the one that stands for all axes which are the same.
  Expr representative(const Expr& axis) const;
  // Whether the axis is that of one unit only.
  bool is_alone(const Expr& axis) const;

 private:
  void add(const Unit& u, int id);
  bool unite(const Expr& a, const Expr& b);

  struct Class {
    Expr axis;               // stands for all
    std::vector<int> units;  // which have such an axis, one each
  };
  std::unordered_map<uint64_t, size_t> class_of_;  // by the id of the variable
  std::vector<Class> classes_;
};

}  // namespace heddle
