// Scatters whose updates are combined with what is there by atomic operations.
#include "compile/tile/tiler.h"

namespace heddle {

void Tiler::write_atomic_updates() {
  const size_t s = loops_.stages.size() - 1;
  const Level& chunk = schedule_.stages[s].loops[0];
  part_size_ = 0;  // the places were divided for the base only
  Expr round;
  open_phase([&] { round = block_variable("u", ceildiv(stage(s).inner[0].extent, chunk.step)); });
  write_stores(s, step_into(whole(s), chunk, round), 1, {});
}

// `inst` is the store of the ordered way: the place is the same, and what is read there before does not matter.
void Tiler::write_atomic_update(const Inst& inst, Instance& in) {
  Builder::Access access = access_of(inst, in, true);
  Value update = spread(value(stage(in.stage).body.results[0], in), extents(access.coords));
  builder_->combine(inst.buffer, update, stage(in.stage).combine, access);
}

}  // namespace heddle
