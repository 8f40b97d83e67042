// Whether results must have the same bits at every run.
#pragma once

namespace heddle {

// Off, GPUs add what `scatter_add`, `index_add` and the gradients of `gather`, `take` and `Embedding` put to one place
// in whatever order it arrives, by atomic operations: sums of floats then differ in their last bits from run to run.
// On, updates are taken one after the other, as CPUs always do; that is slower. Everything else has the same bits
// anyway.
//
// The mode counts when something is planned: set it before. A captured function keeps that of its recording. At first
// it is what HEDDLE_DETERMINISTIC says, off if it is not set.
void set_deterministic(bool wanted);
bool is_deterministic();

}  // namespace heddle
