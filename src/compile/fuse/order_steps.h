// The order in which the steps of a program run.
#pragma once

#include "compile/fuse/fuse.h"

namespace heddle {

// Puts the steps in an order that keeps few bytes alive between them: of the steps that may run, next comes the one
// that frees most, or else needs least. A step that writes to where a leaf is (Tensor::replaces) waits for the other
// readers of that leaf, unless all who may run wait so. Tensors in Step::after are computed before. The steps stand in
// an order in which they may run before, too. In place, n log n.
void order_steps(Program& program);

// Indices that an earlier step has checked are not checked again. What later steps write may then take the place of
// what it replaces: a run with a bad index has been found out before.
void drop_checks(Program& program);

}  // namespace heddle
