// Factors of contractions, copied into panels.
#include "base/error.h"
#include "compile/tiler.h"

namespace heddle {

Tiler::Packed Tiler::layout(size_t s, const Staged& staged, const Contraction& c, const Place& block, bool whole) {
  Packed packed;
  packed.whole = whole;
  const std::vector<bool>& follows = staged.operand == 0 ? c.a_axes : c.b_axes;
  int axis = staged.operand == 0 ? c.a_axis : c.b_axis;
  HD_ASSERT(axis >= 0, "only a factor with an axis of its own can be staged");
  packed.panel_axis = static_cast<size_t>(axis);
  packed.panel = std::max<int64_t>(staged.panel, 1);
  packed.block = block;
  for (size_t i = 0; i < axis_count(s); ++i)
    if (follows[i]) packed.axes.push_back(i);
  for (size_t i : packed.axes) {
    Expr extent = whole ? this->axis(s, i).extent : Expr(block.size[i]);
    if (i == packed.panel_axis) extent = ceildiv(extent, packed.panel) * packed.panel;
    packed.extents.push_back(extent);
  }
  return packed;
}

Expr Tiler::packed_address(const Packed& packed, const std::vector<Expr>& index) {
  Expr address = 0;
  for (size_t k = 0; k < packed.axes.size(); ++k) {
    size_t i = packed.axes[k];
    bool is_panel = i == packed.panel_axis;
    address = address * (is_panel ? floordiv(packed.extents[k], packed.panel) : packed.extents[k]) +
              (is_panel ? floordiv(index[i], packed.panel) : index[i]);
  }
  return address * packed.panel + mod(index[packed.panel_axis], packed.panel);
}

Expr Tiler::packed_size(const Packed& packed) {
  Expr size = 1;
  for (const Expr& extent : packed.extents) size = size * extent;
  return size;
}

void Tiler::write_packing_phase(size_t s, const Staged& staged) {
  Contraction c = *find_contraction(loops_, stage(s));
  kernel_.phases.emplace_back();
  builder_.emplace(kernel_, kernel_.phases.back());
  registers_.clear();
  Place block;
  for (size_t i = 0; i < axis_count(s); ++i) {
    block.base.push_back(0);
    block.size.push_back(std::max<int64_t>(axis(s, i).extent.hi(), 1));
    block.end.push_back(axis(s, i).extent);
  }
  Packed packed = layout(s, staged, c, block, true);
  Value factor = staged.operand == 0 ? c.a : c.b;
  packed.buffer = static_cast<int>(kernel_.buffers.size());
  kernel_.buffers.push_back({text("packed", packed.buffer), loops_.values[static_cast<size_t>(factor)].dtype,
                             kernel::Space::Temp, packed_size(packed)});
  // One cell copies one panel along a stretch of the innermost axis.
  Place p = block;
  constexpr int64_t kStretch = 256;
  for (size_t i = 0; i < axis_count(s); ++i) {
    bool follows = std::find(packed.axes.begin(), packed.axes.end(), i) != packed.axes.end();
    int64_t size = i == packed.panel_axis   ? packed.panel
                   : i + 1 == axis_count(s) ? std::min(kStretch, block.size[i])
                                            : 1;
    p.size[i] = size;
    p.base[i] = follows ? cell_variable(text("p", i), ceildiv(axis(s, i).extent, size)) * size : Expr(0);
  }
  copy_tile(s, packed, factor, p);
  packed_[{s, staged.operand}] = packed;
}

void Tiler::copy_tile(size_t s, const Packed& packed, Value factor, const Place& p) {
  Instance instance{s, p, substitution(s, p), {}, {}, {}};
  Value v = value(factor, instance);
  std::vector<bool> used(axis_count(s), false);
  std::vector<Expr> index(axis_count(s), Expr(0));
  Expr guard = 1;
  for (size_t i : packed.axes) {
    used[i] = true;
    index[i] = index_at(p, i) - packed.block.base[i];
    // A panel is written whole, so that nobody needs to ask where the operand ends.
    if (i != packed.panel_axis) guard = logical_and(guard, lt(index_at(p, i), p.end[i]));
  }
  Builder::Access access;
  access.address = packed_address(packed, index);
  access.guard = guard;
  access.coords = coords(p, used);
  builder_->store(packed.buffer, spread(v, extents(access.coords)), access);
}

void Tiler::write_cell_packing(size_t s, const Place& p, size_t level) {
  if (packed_at_ && *packed_at_ == level) {
    packed_at_.reset();
    return;
  }
  for (const Staged& staged : schedule_.stages[s].staged) {
    if (staged.scope != Staged::Scope::Cell || static_cast<size_t>(staged.depth) != level) continue;
    Contraction c = *find_contraction(loops_, stage(s));
    Packed packed = layout(s, staged, c, p, false);
    Value factor = staged.operand == 0 ? c.a : c.b;
    auto known = packed_.find({s, staged.operand});
    packed.buffer = known != packed_.end() ? known->second.buffer : static_cast<int>(kernel_.buffers.size());
    if (known == packed_.end())
      kernel_.buffers.push_back({text("packed", packed.buffer), loops_.values[static_cast<size_t>(factor)].dtype,
                                 kernel::Space::Local, packed_size(packed)});
    packed_[{s, staged.operand}] = packed;
    if (packed.panel == 1 || packed.block.size[packed.panel_axis] == packed.panel) {
      Place tile_at = p;
      for (size_t i = 0; i < axis_count(s); ++i)
        if (std::find(packed.axes.begin(), packed.axes.end(), i) == packed.axes.end()) tile_at.size[i] = 1;
      copy_tile(s, packed, factor, tile_at);
      continue;
    }
    Level panels{static_cast<int>(packed.panel_axis), packed.panel};
    Place rounded = p;
    for (size_t k = 0; k < packed.axes.size(); ++k) rounded.size[packed.axes[k]] = packed.extents[k].value();
    Expr var = Expr::index(text("l", loop_count_++), rounded.size[packed.panel_axis] / packed.panel);
    builder_->loop(var, {}, [&](std::span<const Value>) {
      copy_tile(s, packed, factor, step_into(rounded, panels, var));
      return std::vector<Value>{};
    });
  }
}

Tiler::Value Tiler::operand(size_t s, int number, Value factor, Instance& instance) {
  auto it = packed_.find({s, number});
  if (it == packed_.end()) return value(factor, instance);
  const Packed& packed = it->second;
  std::vector<bool> used(axis_count(s), false);
  std::vector<Expr> index(axis_count(s), Expr(0));
  Builder::Access access;
  for (size_t i : packed.axes) {
    used[i] = true;
    index[i] = index_at(instance.place, i) - packed.block.base[i];
    // Panels are written whole; a whole operand of no panels has no room beyond its end. Along other axes nothing is
    // written beyond.
    bool can_end = i != packed.panel_axis || (packed.whole && packed.panel == 1);
    if (can_end) access.guard = logical_and(access.guard, lt(index_at(instance.place, i), instance.place.end[i]));
  }
  access.address = packed_address(packed, index);
  access.coords = coords(instance.place, used);
  return builder_->load(packed.buffer, loops_.values[static_cast<size_t>(factor)].dtype, access);
}

}  // namespace heddle
