// Sums of products over several axes, for machines whose units multiply two matrices.
#pragma once

#include "compile/fuse/fuse.h"

namespace heddle {

// Makes one axis of all that only the first factor follows, one of all that only the second follows, and one of all
// that are summed: a convolution, its gradients and every other sum over several axes become products of two matrices.
// A factor must then lie in memory such that 16 bytes along one of its two axes are always neighbours. One that does
// not, or that is computed, is written that way by a step of its own, over what it is a function of: axes that it
// follows only as a sum of both, a place in an image and one in the filter, are one there, so that nothing is repeated.
// Adds the step to `steps`, or those that take its place. `all`: small ones too, which a unit would not be faster with.
void pack_product(Program& program, Program::Step step, bool all, std::vector<Program::Step>& steps);

}  // namespace heddle
