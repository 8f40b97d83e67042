// Scatters: updates one after the other, or combined with what is there by atomic operations.
#include "base/error.h"
#include "compile/tile/tiler.h"
#include "kernel/pass_util.h"

namespace heddle {

void Tiler::divide_places() {
  const int64_t places = loops_.stages.back().places.hi();
  int64_t parts = std::min(schedule_.stages.back().parts(), places);
  if (parts <= 1) return;
  std::vector<Expr>& blocks = kernel_.phases.back().blocks;
  blocks.insert(blocks.begin(), Expr::index("part", parts));
  part_ = blocks.front();
  part_size_ = pieces(places, parts);
}

namespace {

// The value that a variable of the instruction stands for.
kernel::Value bound_to(const Expr& var, const kernel::Inst& inst) {
  const size_t at = static_cast<size_t>(std::ranges::find(inst.binds, var) - inst.binds.begin());
  HD_ASSERT(at < inst.binds.size(), "an ordered store goes where no data says");
  return kernel::bound(inst)[at];
}

}  // namespace

void Tiler::write_places(size_t s, const Place& p) {
  places_ = -1;
  Instance in = instance_at(s, p);
  const int64_t batch = p.size[outer_];
  const Value places = value(bound_to(stage(s).place, stage(s).body.insts.back()), in);
  const kernel::Type& type = builder_->type(places);
  if (type.numel() != batch || type.shape[dim(p, outer_)] != batch) return;  // not one for each update
  write_checks(in);
  const int buffer = add_buffer("places", type.dtype, kernel::Space::Shared, batch);
  const std::vector<bool> updates = axes_between(axis_count(s), outer_, outer_ + 1);
  builder_->store(buffer, places, {index_at(p, outer_) - p.base[outer_], 1, coords(p, updates)});
  places_ = buffer;
  batch_base_ = p.base[outer_];
}

void Tiler::write_update(const Inst& inst, Instance& in) {
  const Expr& place = stage(in.stage).place;
  Expr mine = 1;
  if (part_size_ > 0) mine = logical_and(ge(place, part_ * part_size_), lt(place, part_ * part_size_ + part_size_));
  const Value named = bound_to(place, inst);
  const Value chosen = places_ < 0 ? value(named, in)
                                   : builder_->load(places_, kernel_.buffers[places_].dtype,
                                                    {in.place.base[outer_] - batch_base_, 1,
                                                     coords(in.place, axes_between(axis_count(in.stage), 0, 0))});
  Expr in_range = substitute(inst.guard, in.axes);
  Instance within{in.stage, in.place, in.axes, {{named, chosen}}, {}, {}, in_range, logical_and(in_range, mine)};
  if (builder_->type(chosen).numel() != 1 || inst.binds.size() != 1) {
    write_store(inst, within);
    return;
  }
  builder_->branch_on(within.instead, std::span(&place, 1), std::span(&chosen, 1), [&] {
    within.instead = 1;
    write_store(inst, within);
  });
}

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

void Tiler::write_private_updates() {
  const size_t s = loops_.stages.size() - 1;
  const int64_t parts = schedule_.stages[s].parts(), updates = stage(s).inner[0].extent.value();
  int64_t batch = 1;
  for (const Level& level : schedule_.stages[s].loops)
    if (is_batch(s, level)) batch = std::max(batch, level.step);
  const int64_t each = round_up(pieces(updates, parts), batch);
  const int written = loops_.stages[0].body.insts.back().buffer;
  const kernel::Buffer whole_result = kernel_.buffers[written];
  Expr part;
  open_phase([&] { part = block_variable("u", parts); });
  begin_copy(whole(0), 0);
  Place p = whole(s);
  p.base[outer_] = part * each;
  p.size[outer_] = each;
  write_stores(s, p, 0, {});
  places_ = -1;
  // All of that was said of the result.
  const int copies = add_buffer("copies", whole_result.dtype, kernel::Space::Temp, whole_result.size * parts);
  kernel::visit(kernel_.phases.back().body, [&](Inst& inst) {
    if (inst.buffer != written) return;
    inst.buffer = copies;
    inst.address = inst.address + part * whole_result.size;
  });
  copies_ = copies;
}

void Tiler::begin_copy(const Place& p, size_t level) {
  each_tile(0, p, level, [&](const Place& at) {
    Instance in = instance_at(0, at);
    const Inst& store = stage(0).body.insts.back();
    in.map.emplace(store.args[0], builder_->constant(kernel::neutral(*loops_.stages.back().combine, 0)));
    write_store(store, in);
  });
}

Tiler::Value Tiler::with_copies(Value base, Builder::Access access) {
  const kernel::Buffer copies = kernel_.buffers[copies_];
  const int64_t parts = schedule_.stages.back().parts();
  const Expr first = access.address, size = floordiv(copies.size, parts);
  access.hint = kernel::Hint::None;
  for (int64_t part = 0; part < parts; ++part) {
    access.address = first + size * Expr(part);
    const Value copy = builder_->load(copies_, copies.dtype, access);
    base = builder_->apply(*loops_.stages.back().combine, std::span(&base, 1), std::span(&copy, 1))[0];
  }
  return base;
}

}  // namespace heddle
