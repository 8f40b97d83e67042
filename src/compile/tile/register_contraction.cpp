// Factors of contractions, copied into panels.
#include "base/error.h"
#include "compile/tile/tiler.h"

namespace heddle {

const std::optional<Staged>& Tiler::staged_factor(size_t s, int operand) const {
  static const std::optional<Staged> kNone;
  if (const auto* contraction = as<RegisterContraction>(s)) return staged(*contraction, operand);
  if (const auto* contraction = as<PackedContraction>(s)) return staged(*contraction, operand);
  return kNone;
}

size_t Tiler::dot_axis(size_t s) const {
  const std::vector<int64_t> tile = tile_of(schedule_, loops_, s);
  size_t found = outer_ + stage(s).kept;
  for (size_t i = found; i < tile.size(); ++i)
    if (tile[i] > 1) found = i;
  return found;
}

Tiler::Place Tiler::in_packed(size_t s, Place p, int64_t numbers) const {
  const size_t i = dot_axis(s);
  p.base[i] = floordiv(p.base[i], numbers);
  p.size[i] = pieces(p.size[i], numbers);
  p.end[i] = ceildiv(p.end[i], numbers);
  return p;
}

Tiler::Packed Tiler::layout(size_t s, int operand, const Staged& staged, const Contraction& c, const Place& part,
                            bool whole) {
  Packed packed;
  packed.whole = whole;
  const std::vector<bool>& follows = c.axes(operand);
  HD_ASSERT(c.axis(operand) >= 0, "only a factor with an axis of its own can be staged");
  packed.panel_axis = static_cast<size_t>(c.axis(operand));
  packed.panel = std::max<int64_t>(staged.panel, 1);
  packed.part = part;
  if (as<PackedContraction>(s)) {
    packed.packed_axis = dot_axis(s);
    packed.numbers = numbers_per_word(loops_, *narrow_factor(loops_, stage(s), c.a));
    packed.part = in_packed(s, part, packed.numbers);
    if (by_panels(s) && operand == 0) packed.run = kernel::kPanelDepth;
  }
  for (size_t i = 0; i < axis_count(s); ++i)
    if (follows[i] && i != packed.packed_axis) packed.axes.push_back(i);
  // The words of a sum follow each other, as a matrix unit takes them.
  if (packed.packed_axis != SIZE_MAX && follows[packed.packed_axis]) packed.axes.push_back(packed.packed_axis);
  for (size_t i : packed.axes) {
    Expr extent = whole ? axis(s, i).extent : Expr(packed.part.size[i]);
    if (i == packed.panel_axis) extent = ceildiv(extent, packed.panel) * packed.panel;
    if (i == packed.packed_axis && whole) extent = ceildiv(extent, packed.numbers);
    // What lies beyond the end counts as zero.
    if (i == packed.packed_axis && by_panels(s)) extent = ceildiv(extent, kernel::kPanelDepth) * kernel::kPanelDepth;
    packed.extents.push_back(extent);
  }
  if (schedule_.threads > 1 && !whole && target_.shared_banks > 1 && packed.panel >= target_.shared_banks)
    packed.pad = target_.vector_bytes / size_of(packed_dtype(packed, c.factor(operand)));
  return packed;
}

Expr Tiler::packed_address(const Packed& packed, const std::vector<Expr>& index) {
  Expr address = 0;
  for (size_t k = 0; k < packed.axes.size(); ++k) {
    size_t i = packed.axes[k];
    int64_t together = i == packed.panel_axis ? packed.panel : i == packed.packed_axis ? packed.run : 1;
    address = address * floordiv(packed.extents[k], together) + floordiv(index[i], together);
  }
  address = address * (packed.panel + packed.pad) + mod(index[packed.panel_axis], packed.panel);
  if (packed.run == 1) return address;
  return address * packed.run + mod(index[packed.packed_axis], packed.run);
}

Expr Tiler::packed_size(const Packed& packed) {
  Expr size = 1;
  for (const Expr& extent : packed.extents) size = size * extent;
  return packed.pad == 0 ? size : floordiv(size, packed.panel) * (packed.panel + packed.pad);
}

DType Tiler::packed_dtype(const Packed& packed, Value factor) const {
  return packed.numbers > 1 ? DType::u32 : dtype_of(factor);
}

int Tiler::add_packed(const Packed& packed, Value factor, kernel::Space space) {
  return add_buffer(text("packed", kernel_.buffers.size()), packed_dtype(packed, factor), space, packed_size(packed));
}

void Tiler::write_packing_phase(size_t s, int operand, const Staged& staged) {
  Contraction c = *find_contraction(loops_, stage(s));
  begin_phase();
  Packed packed = layout(s, operand, staged, c, everything(s), true);
  Value factor = c.factor(operand);
  packed.buffer = add_packed(packed, factor, kernel::Space::Temp);
  // One block copies one panel along a stretch of the innermost axis.
  Place p = packed.part;
  constexpr int64_t kStretch = 256;
  const size_t along = packed.numbers > 1 ? packed.packed_axis : axis_count(s) - 1;
  for (size_t i = 0; i < axis_count(s); ++i) {
    auto follows = std::ranges::find(packed.axes, i);
    Expr extent = axis(s, i).extent;
    if (i == packed.packed_axis && follows != packed.axes.end())
      p.end[i] = extent = packed.extents[follows - packed.axes.begin()];
    int64_t size = i == packed.panel_axis ? packed.panel
                   : i == along           ? std::min(kStretch, std::max<int64_t>(extent.hi(), 1))
                                          : 1;
    p.size[i] = size;
    p.base[i] = follows != packed.axes.end() ? block_variable(text("p", i), ceildiv(extent, size)) * size : Expr(0);
  }
  copy_tile(s, packed, factor, p);
  packed_[{s, operand}] = packed;
}

// Packed words of several numbers each, zeros where the axis has ended.
Tiler::Value Tiler::words_at(size_t s, const Packed& packed, Value narrow, const Place& p) {
  const size_t i = packed.packed_axis;
  const Inst& load = *definition_.at(narrow).second;
  auto numbers_at = [&](int64_t offset) {
    Place numbers = p;
    numbers.base[i] = p.base[i] * packed.numbers + Expr(offset);
    numbers.end[i] = axis(s, i).extent;
    numbers.sparse_axis = i;
    numbers.apart = packed.numbers;
    return instance_at(s, numbers);
  };
  // Where memory holds whole words, they are read as such.
  std::optional<Linear> along = linear_in(load.address, axis(s, i).var);
  const bool whole = along && along->coefficient == 1 && along->rest.multiple() % packed.numbers == 0 &&
                     load.guard.is_const(1) && load.binds.empty() && axis(s, i).extent.multiple() % packed.numbers == 0;
  if (whole) {
    Instance in = numbers_at(0);
    Builder::Access access = access_of(load, in, false);
    access.address = floordiv(access.address, packed.numbers);
    return builder_->load(load.buffer, DType::u32, access);
  }
  Value word = kernel::kNoValue;
  for (int64_t n = 0; n < packed.numbers; ++n) {
    Instance in = numbers_at(n);
    Value v = value(narrow, in);
    const bool bytes = packed.numbers == 4;
    v = builder_->cast(builder_->bitcast(v, bytes ? DType::u8 : DType::u16), DType::u32);
    if (n > 0) {
      Value shift = builder_->constant(Scalar::of(DType::u32, n * (bytes ? 8 : 16)));
      v = builder_->op(ScalarOp::bit_or, {word, builder_->op(ScalarOp::shl, {v, shift})});
    }
    word = v;
  }
  return word;
}

kernel::Builder::Access Tiler::packed_access(size_t s, const Packed& packed, const Place& p, const Expr& guard) {
  std::vector<bool> used(axis_count(s), false);
  std::vector<Expr> index(axis_count(s), Expr(0));
  for (size_t i : packed.axes) {
    used[i] = true;
    index[i] = index_at(p, i) - packed.part.base[i];
  }
  return {packed_address(packed, index), guard, coords(p, used)};
}

void Tiler::copy_tile(size_t s, const Packed& packed, Value factor, const Place& p) {
  Value v = kernel::kNoValue;
  if (packed.numbers > 1) {
    v = words_at(s, packed, *narrow_factor(loops_, stage(s), factor), p);
  } else {
    Instance instance = instance_at(s, p);
    v = value(factor, instance);
  }
  Expr guard = 1;
  for (size_t i : packed.axes)  // a panel is written whole, so that nobody needs to ask where the operand ends
    if (i != packed.panel_axis) guard = logical_and(guard, lt(index_at(p, i), p.end[i]));
  const Builder::Access access = packed_access(s, packed, p, guard);
  builder_->store(packed.buffer, spread(v, extents(access.coords)), access);
}

void Tiler::write_block_packing(size_t s, const Place& at, size_t level) {
  if (packed_at_ && *packed_at_ == level) {
    packed_at_.reset();
    return;
  }
  for (int operand : {0, 1}) {
    const std::optional<Staged>& staged = staged_factor(s, operand);
    if (!staged || staged->scope != Staged::Scope::Block || static_cast<size_t>(staged->depth) != level) continue;
    Contraction c = *find_contraction(loops_, stage(s));
    Packed packed = layout(s, operand, *staged, c, at, false);
    Value factor = c.factor(operand);
    auto known = packed_.find({s, operand});
    packed.buffer = known != packed_.end() ? known->second.buffer : add_packed(packed, factor, kernel::Space::Shared);
    packed_[{s, operand}] = packed;
    Place p = packed.part;
    if (packed.numbers > 1) {
      // Zeros up to the end of the part.
      for (size_t k = 0; k < packed.axes.size(); ++k)
        if (packed.axes[k] == packed.packed_axis) p.size[packed.packed_axis] = packed.extents[k].value();
      p.end[packed.packed_axis] = p.base[packed.packed_axis] + p.size[packed.packed_axis];
    }
    if (packed.panel == 1 || packed.part.size[packed.panel_axis] == packed.panel) {
      Place tile_at = p;
      for (size_t i = 0; i < axis_count(s); ++i)
        if (!contains(packed.axes, i)) tile_at.size[i] = 1;
      copy_tile(s, packed, factor, tile_at);
      continue;
    }
    Level panels{static_cast<int>(packed.panel_axis), packed.panel};
    Place rounded = p;
    for (size_t k = 0; k < packed.axes.size(); ++k) rounded.size[packed.axes[k]] = packed.extents[k].value();
    Expr var = counter(rounded.size[packed.panel_axis] / packed.panel);
    builder_->loop(var, {}, [&] { copy_tile(s, packed, factor, step_into(rounded, panels, var)); });
  }
}

Tiler::Value Tiler::operand(size_t s, int number, Value factor, Instance& instance) {
  auto it = packed_.find({s, number});
  if (it == packed_.end()) return value(factor, instance);
  const Packed& packed = it->second;
  const Place& p = instance.place;
  Expr guard = 1;
  for (size_t i : packed.axes) {
    // Panels are written whole; without panels there is no room beyond the end of the operand, or of an axis that steps
    // need not divide. Along other axes nothing is written beyond.
    const bool can_end = i != packed.panel_axis || (packed.panel == 1 && (packed.whole || i >= outer_));
    if (can_end) guard = logical_and(guard, lt(index_at(p, i), p.end[i]));
  }
  return builder_->load(packed.buffer, packed_dtype(packed, factor), packed_access(s, packed, p, guard));
}

// One panel of results in shared memory, by the matrix unit.
void Tiler::write_panel_dot(size_t s, const Place& p, const Expr& goes_on) {
  Contraction c = *find_contraction(loops_, stage(s));
  const auto a = static_cast<size_t>(c.a_axis), b = static_cast<size_t>(c.b_axis);
  Expr address = 0;
  int64_t stride = 1;
  for (size_t i = 0; i < outer_; ++i) {
    address = address * schedule_.block[i] + (p.base[i] - block_.base[i]);
    if (i > a) stride *= schedule_.block[i];
  }
  std::vector<kernel::Panel> panels = {{result_buffer(stage(s).results[0]), address, stride, 0}};
  Expr steps = 0;
  for (int number : {0, 1}) {
    const Packed& packed = packed_.at({s, number});
    Place words = in_packed(s, p, packed.numbers);
    std::vector<Expr> index(axis_count(s), Expr(0));
    for (size_t i : packed.axes) index[i] = words.base[i] - packed.part.base[i];
    Expr at = packed_address(packed, index);
    const int64_t step = packed.panel * kernel::kPanelDepth;
    panels.push_back({packed.buffer, at, number == 0 ? packed.run : packed.panel, step});
    const size_t k = packed.packed_axis;
    steps = min(Expr(pieces(words.size[k], kernel::kPanelDepth)),
                ceildiv(words.end[k] - words.base[k], kernel::kPanelDepth));
  }
  HD_ASSERT(b < outer_);
  builder_->panel_dot(std::move(panels), max(steps, 0), goes_on);
}

}  // namespace heddle
