// Steps of a program that are the same but for sizes and tensors become segments of one.
#pragma once

#include "compile/fuse/fuse.h"

namespace heddle {

// Joins steps that do not need each other and whose Loops differ in nothing but numbers which follow from the extents
// of their axes: the update of a hundred parameters, the sum of squares of each of their gradients. The joined step has
// a symbol for every extent that differs. Steps stay apart where waiting for each other would keep much memory alive.
// In place; linear in the number of steps but for sorting. Leaves the steps in an order in which they may run.
void join_steps(Program& program);

}  // namespace heddle
