#include "kernel/interpreter.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "kernel/interpreter_machine.h"
#include "kernel/text.h"

namespace heddle::kernel {

Machine::Machine(const Kernel& kernel, std::span<void* const> buffers, std::span<const int64_t> sizes,
                 std::span<const int64_t> symbols)
    : kernel_(kernel),
      threads_(kernel.level == Level::Thread ? kernel.threads : 1),
      program_(prepare(kernel, threads_)),
      slots_(static_cast<size_t>(program_.slots)),
      values_(static_cast<size_t>(program_.cells)) {
  auto require = [&](bool condition, const auto&... parts) {
    if (!condition) throw ValueError(text("kernel @", kernel.name, ": ", parts...));
  };
  require(symbols.size() == kernel.symbols.size(), "takes ", kernel.symbols.size(), " symbols, given ", symbols.size());
  require(buffers.size() == kernel.buffers.size() && sizes.size() == buffers.size(), "takes ", kernel.buffers.size(),
          " buffers, given ", buffers.size(), " and ", sizes.size(), " sizes");
  for (size_t i = 0; i < symbols.size(); ++i) {
    const Expr& s = kernel.symbols[i];
    require(symbols[i] >= s.lo() && symbols[i] <= s.hi() && symbols[i] % std::max<int64_t>(s.multiple(), 1) == 0,
            "symbol ", s, " cannot be ", symbols[i]);
    slots_[program_.symbol_slots[i]] = symbols[i];
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& b = kernel.buffers[i];
    int64_t size = program_.sizes[i].run(slots_.data());
    if (b.space == Space::Shared) {
      memory_.emplace_back(b.dtype, size);
      continue;
    }
    require(sizes[i] >= size, "buffer %", b.name, " needs ", size, " elements, given ", sizes[i]);
    require(buffers[i] != nullptr || size == 0, "buffer %", b.name, " has no memory");
    memory_.emplace_back(b.dtype, buffers[i], size, b.space != Space::In);
  }
}

void Machine::fail(const Step& s, const std::string& what) const {
  std::string where = text("kernel @", kernel_.name, ", phase ",
                           (phase_ - 1) % static_cast<int32_t>(program_.phases.size()), ", block ", block_);
  if (threads_ > 1) where += text(", thread ", thread_);
  throw DeviceError(text(where, ", ", describe(*s.inst), ": ", what));
}

void Machine::run() {
  int64_t rounds = kernel_.rounds && !program_.phases.empty() ? program_.phases[0].extents[0].run(slots_.data()) : 1;
  for (int64_t round = 0; round < rounds; ++round)
    for (const PhaseProgram& p : program_.phases) phase(p, round, rounds);
}

void Machine::phase(const PhaseProgram& p, int64_t round, int64_t rounds) {
  ++phase_;
  std::vector<int64_t> extents;
  int64_t blocks = 1;
  for (const IndexProgram& e : p.extents) {
    extents.push_back(e.run(slots_.data()));
    blocks *= extents.back();
  }
  working_ = threads_ > 1 ? p.working_threads : 1;
  Mask all(threads_);
  for (int t = 0; t < working_; ++t) all.add(t);
  for (block_ = blocks / rounds * round; block_ < blocks / rounds * (round + 1); ++block_) {
    int64_t rest = block_;
    for (size_t i = extents.size(); i-- > 0;) {
      slots_[p.block_slots[i]] = rest % extents[i];
      rest /= extents[i];
    }
    ++epoch_;
    for (Memory& m : memory_) m.forget(epoch_);
    copies_.clear();
    run_body(p.steps, all);
  }
}

void Machine::elements(const Step& s, int thread, bool addresses) {
  const size_t count = static_cast<size_t>(s.count), rank = s.coord_slots.size();
  const bool linear = s.address.linear, guarded = !s.guard.is_const(1);
  if (address_.size() < count) {
    address_.resize(count);
    guard_.resize(count);
  }
  if (!guarded) std::fill_n(guard_.begin(), count, uint8_t{1});
  if (!guarded && !addresses) return;
  for (int slot : s.coord_slots) slots_[slot] = 0;
  // The free part of a linear address may still hold bound variables, which change with the element.
  const bool base_fixed = s.bind_slots.empty();
  int64_t base = linear && base_fixed ? s.address.base.run(slots_.data()) : 0;
  const size_t first_bind = s.args.size() - s.bind_slots.size();
  for (size_t e = 0; e < count; ++e) {
    for (size_t b = 0; b < s.bind_slots.size(); ++b)
      slots_[s.bind_slots[b]] = operand(s, first_bind + b, thread).at(static_cast<int64_t>(e)).i;
    if (guarded) guard_[e] = s.guard.run(slots_.data()) != 0;
    if (addresses && guard_[e]) {
      if (linear) {
        // Unsigned, so that an absurd address wraps instead of overflowing; the bounds check reports it.
        uint64_t address = static_cast<uint64_t>(base_fixed ? base : s.address.base.run(slots_.data()));
        for (size_t d = 0; d < rank; ++d)
          address += static_cast<uint64_t>(s.address.coefficients[d]) * static_cast<uint64_t>(slots_[s.coord_slots[d]]);
        address_[e] = static_cast<int64_t>(address);
      } else {
        address_[e] = s.address.whole.run(slots_.data());
      }
    }
    for (size_t d = rank; d-- > 0;) {
      int64_t& c = slots_[s.coord_slots[d]];
      if (++c < s.dims[d]) break;
      c = 0;
    }
  }
}

void Machine::memory(const Step& s, int thread) {
  const Inst& inst = *s.inst;
  elements(s, thread, true);
  Memory& m = memory_[inst.buffer];
  const bool shared = kernel_.buffers[inst.buffer].space == Space::Shared;
  const int32_t period = shared ? epoch_ : phase_;
  const int32_t owner = shared ? thread : static_cast<int32_t>(block_);
  const std::optional<ScalarOp> combine = inst.op == Op::combine ? simple_op(*inst.reducer) : std::nullopt;
  const Cell zero = cell(Scalar::of(kernel_.buffers[inst.buffer].dtype, 0));
  Cell* out = inst.op == Op::load ? data(s.results[0], thread) : nullptr;
  const DType held = kernel_.buffers[inst.buffer].dtype;
  const int parts = out ? size_of(s.results[0].dtype) / size_of(held) : 1;  // of a word
  const Cell* in = inst.op == Op::load ? nullptr : data(s.args[0], thread);
  for (int64_t e = 0; e < s.count; ++e) {
    const char* wrong = nullptr;
    if (!guard_[e]) {
      if (out) out[e] = zero;
    } else if (out && parts > 1) {
      out[e].u = 0;
      for (int part = 0; part < parts && !wrong; ++part) {
        Cell piece;
        wrong = m.load(address_[e] * parts + part, period, owner, piece);
        if (!wrong) out[e].u |= scalar(held, piece).bits() << (part * 8 * size_of(held));
      }
    } else if (out) {
      wrong = m.load(address_[e], period, owner, out[e]);
    } else if (combine) {
      wrong = m.combine(address_[e], period, owner, in[e], *combine);
    } else if (inst.op == Op::check) {
      wrong = m.report(address_[e], in[e]);
    } else {
      wrong = m.store(address_[e], period, owner, in[e]);
    }
    if (wrong)
      fail(s, text("element ", address_[e], " of %", kernel_.buffers[inst.buffer].name, " (", m.size(), " elements) ",
                   wrong));
  }
}

void Machine::index(const Step& s, int thread) {
  elements(s, thread, true);
  Cell* out = data(s.results[0], thread);
  DType dtype = s.results[0].dtype;
  for (int64_t e = 0; e < s.count; ++e) {
    if (guard_[e])
      out[e] = cell(Scalar::of(dtype, address_[e]));
    else
      out[e].u = 0;
  }
}

void Machine::reduce(const Step& s, int thread) {
  elements(s, thread, false);
  const ReducerProgram& program = *s.reducer;
  const size_t width = program.width();
  const int axis = s.inst->axis;
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < axis; ++d) outer *= s.dims[d];
  for (size_t d = axis + 1; d < s.dims.size(); ++d) inner *= s.dims[d];
  const int64_t extent = s.dims[axis];
  SmallVector<Cell, 4> state(width), next(width);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      for (size_t w = 0; w < width; ++w) state[w] = program.identity(w);
      for (int64_t k = 0; k < extent; ++k) {
        int64_t e = (o * extent + k) * inner + i;
        if (!guard_[e]) continue;
        for (size_t w = 0; w < width; ++w) next[w] = data(s.args[w], thread)[e];
        program.combine(state.data(), next.data());
      }
      for (size_t w = 0; w < width; ++w) data(s.results[w], thread)[o * inner + i] = state[w];
    }
}

void Machine::scan(const Step& s, int thread) {
  elements(s, thread, false);
  const ReducerProgram& program = *s.reducer;
  const size_t width = program.width();
  const int axis = s.inst->axis;
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < axis; ++d) outer *= s.dims[d];
  for (size_t d = axis + 1; d < s.dims.size(); ++d) inner *= s.dims[d];
  const int64_t extent = s.dims[axis];
  SmallVector<Cell, 4> state(width), next(width);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      for (size_t w = 0; w < width; ++w) state[w] = data(s.args[width + w], thread)[o * inner + i];
      for (int64_t k = 0; k < extent; ++k) {
        int64_t e = (o * extent + k) * inner + i;
        for (size_t w = 0; w < width; ++w) next[w] = data(s.args[w], thread)[e];
        if (guard_[e]) program.combine(state.data(), next.data());
        for (size_t w = 0; w < width; ++w) data(s.results[w], thread)[e] = state[w];
      }
      for (size_t w = 0; w < width; ++w) data(s.results[width + w], thread)[o * inner + i] = state[w];
    }
}

// In the order in which machine code does it, so that floats round alike.
void Machine::scan_lanes(const Step& s, int thread) {
  elements(s, thread, false);
  const ReducerProgram& program = *s.reducer;
  const size_t width = program.width();
  auto neutral = [&](size_t w) { return cell(kernel::neutral(*s.inst->reducer, w)); };
  // One tuple after the other.
  std::vector<Cell> state;
  for (int64_t e = 0; e < s.count; ++e)
    for (size_t w = 0; w < width; ++w) state.push_back(guard_[e] ? data(s.args[w], thread)[e] : neutral(w));
  std::vector<Cell> left(width);
  auto combine = [&](Cell* right) {
    program.combine(left.data(), right);
    std::copy(left.begin(), left.end(), right);
  };
  auto tuple = [&](std::vector<Cell>& from, int64_t e) { return from.begin() + e * static_cast<int64_t>(width); };
  for (int64_t step = 1; step < s.count; step *= 2) {
    std::vector<Cell> before = state;
    for (int64_t e = 0; e < s.count; ++e) {
      for (size_t w = 0; w < width; ++w) left[w] = e < step ? neutral(w) : tuple(before, e - step)[w];
      combine(&*tuple(state, e));
    }
  }
  for (int64_t e = 0; e < s.count; ++e) {
    for (size_t w = 0; w < width; ++w) left[w] = data(s.args[width + w], thread)[0];
    combine(&*tuple(state, e));
    for (size_t w = 0; w < width; ++w) {
      data(s.results[w], thread)[e] = tuple(state, e)[w];
      if (e + 1 == s.count) data(s.results[width + w], thread)[0] = tuple(state, e)[w];
    }
  }
}

void Machine::dot(const Step& s, int thread) {
  elements(s, thread, false);
  const Operand a = operand(s, 0, thread), b = operand(s, 1, thread), acc = operand(s, 2, thread);
  const DType dtype = s.args[0].dtype, acc_dtype = s.results[0].dtype;
  const int axis = s.inst->axis;
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < axis; ++d) outer *= s.dims[d];
  for (size_t d = axis + 1; d < s.dims.size(); ++d) inner *= s.dims[d];
  const int64_t extent = s.dims[axis];
  Cell* out = data(s.results[0], thread);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      Cell sum = acc.at(o * inner + i);
      for (int64_t k = 0; k < extent; ++k) {
        int64_t e = (o * extent + k) * inner + i;
        if (guard_[e]) sum = multiply_add(acc_dtype, dtype, sum, a.at(e), b.at(e));
      }
      out[o * inner + i] = sum;
    }
}

void Machine::panel_dot(const Step& s, int thread) {
  const Inst& inst = *s.inst;
  int64_t at[3];
  for (size_t n = 0; n < 3; ++n) at[n] = s.panels[n].run(slots_.data());
  const int64_t steps = s.extent.run(slots_.data());
  const bool goes_on = s.guard.run(slots_.data()) != 0;
  auto touch = [&](size_t n, int64_t element, Cell& value, bool write) {
    const Buffer& buffer = kernel_.buffers[inst.panels[n].buffer];
    Memory& m = memory_[inst.panels[n].buffer];
    const bool shared = buffer.space == Space::Shared;
    const int32_t period = shared ? epoch_ : phase_, owner = shared ? thread : static_cast<int32_t>(block_);
    const char* wrong = write ? m.store(element, period, owner, value) : m.load(element, period, owner, value);
    if (wrong) fail(s, text("element ", element, " of %", buffer.name, " (", m.size(), " elements) ", wrong));
  };
  const DType acc = kernel_.buffers[inst.panels[0].buffer].dtype;
  for (int64_t i = 0; i < kPanelRows; ++i)
    for (int64_t j = 0; j < kPanelRows; ++j) {
      Cell sum = cell(Scalar::of(acc, 0));
      const int64_t where = at[0] + i * inst.panels[0].stride + j;
      if (goes_on) touch(0, where, sum, false);
      for (int64_t t = 0; t < steps; ++t)
        for (int64_t q = 0; q < kPanelDepth; ++q) {
          Cell a, b;
          touch(1, at[1] + i * inst.panels[1].stride + t * inst.panels[1].step + q, a, false);
          touch(2, at[2] + q * inst.panels[2].stride + t * inst.panels[2].step + j, b, false);
          sum = multiply_add(acc, DType::u32, sum, a, b);
        }
      touch(0, where, sum, true);
    }
}

Fragment Machine::matrix_shape(const Step& s, std::span<const Place> places) const {
  if (kernel_.level == Level::Thread)
    return {(threads_ / kMatrixThreads - 1) * kMatrixRows, static_cast<int64_t>(places.size()) / 2 * 8};
  Fragment shape{0, 0};
  for (int64_t d : s.dims)
    if (d > 1) (shape.row == 0 ? shape.row : shape.column) = d;
  return shape;
}

template <class F>
void Machine::each_fragment(std::span<const Place> places, int64_t columns, int thread, F f) {
  for (size_t n = 0; n < places.size(); ++n)
    for (int64_t e = 0; e < places[n].count; ++e) {
      Fragment at{e / columns, e % columns};
      if (kernel_.level == Level::Thread) {
        at = fragment(thread, static_cast<int64_t>(n), columns);
        at.column += e;
      }
      f(at.row, at.column, data(places[n], thread)[e]);
    }
}

void Machine::region_element(const Step& s, size_t n, int64_t x, int64_t y, Cell& value, bool write) {
  const Region& region = s.inst->regions[n];
  const Step::RegionProgram& program = s.regions[n];
  const Buffer& buffer = kernel_.buffers[region.buffer];
  int64_t element = region.is_gathered() ? 0 : program.offset.run(slots_.data());
  bool inside = true;
  for (size_t d = 0; d < region.at.size(); ++d) {
    const int64_t at = program.at[d].run(slots_.data()) + (d == 0 ? x : d == 1 ? y : 0);
    inside = inside && at >= 0 && at < program.extents[d].run(slots_.data());
    if (region.is_gathered())
      slots_[program.coord_slots[d]] = at;
    else
      element += at * region.strides[d];
  }
  if (!inside || program.guard.run(slots_.data()) == 0) {
    if (!write) value = cell(Scalar::of(buffer.dtype, 0));
    return;
  }
  if (region.is_gathered()) element = program.offset.run(slots_.data());
  Memory& m = memory_[region.buffer];
  const auto owner = static_cast<int32_t>(block_);
  const char* wrong = write ? m.store(element, phase_, owner, value) : m.load(element, phase_, owner, value);
  if (wrong) fail(s, text("element ", element, " of %", buffer.name, " (", m.size(), " elements) ", wrong));
}

void Machine::matrix_dot(const Step& s, const Mask& mask) {
  if (mask.active != working_) fail(s, text("only ", mask.active, " of ", working_, " threads reach this product"));
  const auto [rows, columns] = matrix_shape(s, s.results);
  const DType dtype = kernel_.buffers[s.inst->regions[0].buffer].dtype, acc = s.results[0].dtype;
  const int64_t depth = kMatrixBytes / size_of(dtype), steps = s.extent.run(slots_.data());
  const std::span<const Place> before = std::span(s.args).first(s.inst->sums_in_args());
  const std::span<const Place> left = std::span(s.args).subspan(before.size());
  const int64_t wide = depth * steps;  // of a left factor in registers
  std::vector<Cell> held(static_cast<size_t>(left.empty() ? 0 : rows * wide));
  std::vector<Cell> sums(static_cast<size_t>(rows * columns), cell(Scalar::of(acc, 0)));
  each_thread(mask, [&](int t) {
    each_fragment(before, columns, t,
                  [&](int64_t row, int64_t column, Cell& value) { sums[row * columns + column] = value; });
    each_fragment(left, wide, t, [&](int64_t row, int64_t column, Cell& value) {
      held[row * wide + column] = cell(cast(scalar(dtype, value), acc));
    });
  });
  for (int64_t k = 0; k < steps; ++k) {
    slots_[s.var_slot] = k;
    const std::vector<Cell> a = left.empty() ? factor_tile(s, 0, rows, depth) : std::vector<Cell>();
    const std::vector<Cell> b = factor_tile(s, s.inst->regions.size() - 1, columns, depth);
    for (int64_t i = 0; i < rows; ++i) {
      const Cell* row = left.empty() ? &a[i * depth] : &held[i * wide + k * depth];
      for (int64_t j = 0; j < columns; ++j)
        for (int64_t q = 0; q < depth; ++q) {
          Cell& sum = sums[i * columns + j];
          sum = multiply_add(acc, acc, sum, row[q], b[j * depth + q]);
        }
    }
  }
  each_thread(mask, [&](int t) {
    each_fragment(s.results, columns, t,
                  [&](int64_t row, int64_t column, Cell& value) { value = sums[row * columns + column]; });
  });
}

void Machine::loop(const Step& s, const Mask& mask) {
  const std::vector<Place>&params = s.params[0], &yields = s.yields[0];
  std::vector<int64_t> extents(static_cast<size_t>(threads_));
  each_thread(mask, [&](int t) {
    extents[t] = s.extent.run(slots_.data());
    for (size_t n = 0; n < params.size(); ++n) copy(s.args[n], params[n], t);
  });
  for (int64_t k = 0;; ++k) {
    Mask still(threads_);
    for (int t = 0; t < threads_; ++t)
      if (mask.on[t] && k < extents[t]) still.add(t);
    if (still.active == 0) break;
    slots_[s.var_slot] = k;
    run_body(s.bodies[0], still);
    // All at once: the body may yield its own parameters in another order.
    each_thread(still, [&](int t) {
      carried_.clear();
      for (const Place& y : yields) carried_.insert(carried_.end(), data(y, t), data(y, t) + y.count);
      size_t at = 0;
      for (const Place& p : params) {
        std::copy_n(carried_.begin() + at, p.count, data(p, t));
        at += p.count;
      }
    });
  }
  each_thread(mask, [&](int t) {
    for (size_t n = 0; n < params.size(); ++n) copy(params[n], s.results[n], t);
  });
}

void Machine::branch(const Step& s, const Mask& mask) {
  Mask sides[2] = {Mask(threads_), Mask(threads_)};
  each_thread(mask, [&](int t) {
    for (size_t b = 0; b < s.bind_slots.size(); ++b) slots_[s.bind_slots[b]] = data(s.args[b], t)->i;
    sides[s.guard.run(slots_.data()) != 0 ? 0 : 1].add(t);
  });
  for (int side = 0; side < 2; ++side) {
    if (sides[side].active == 0) continue;
    run_body(s.bodies[side], sides[side]);
    each_thread(sides[side], [&](int t) {
      for (size_t n = 0; n < s.results.size(); ++n) copy(s.yields[side][n], s.results[n], t);
    });
  }
}

void Machine::whole_warps(const Step& s, const Mask& mask, const char* what) const {
  for (int first = 0; first < threads_; first += kernel_.warp) {
    int last = std::min(first + kernel_.warp, threads_);
    int active = 0;
    for (int t = first; t < last; ++t) active += mask.on[t];
    if (active != 0 && active != last - first)
      fail(s, text("only ", active, " threads of the warp from thread ", first, " reach this ", what));
  }
}

void Machine::shuffle(const Step& s, const Mask& mask) {
  whole_warps(s, mask, "shuffle");
  each_thread(mask, [&](int t) {
    const int lane = t % kernel_.warp, other = t - lane + (lane ^ s.inst->immediate);
    if (other >= threads_) fail(s, text("there is no thread ", other, " to read from"));
    std::copy_n(data(s.args[0], other), s.args[0].count, data(s.results[0], t));
  });
}

void Machine::step(const Step& s, const Mask& mask) {
  const Inst& inst = *s.inst;
  switch (inst.op) {
    case Op::loop: return loop(s, mask);
    case Op::branch: return branch(s, mask);
    case Op::shuffle_xor: return shuffle(s, mask);
    case Op::matrix_dot: return matrix_dot(s, mask);
    case Op::warp_dot: return warp_dot(s);
    case Op::load_matrix: return load_matrix(s, mask);
    case Op::mma: return mma(s, mask);
    case Op::barrier:
      if (mask.active != working_) fail(s, text("only ", mask.active, " of ", working_, " threads reach this barrier"));
      ++epoch_;
      return;
    default: break;
  }
  each_thread(mask, [&](int t) {
    switch (inst.op) {
      case Op::constant: std::fill_n(data(s.results[0], t), s.count, cell(inst.literal)); break;
      case Op::cast:
      case Op::bitcast: {
        const Cell* in = data(s.args[0], t);
        Cell* out = data(s.results[0], t);
        for (int64_t e = 0; e < s.count; ++e) {
          Scalar value = scalar(s.args[0].dtype, in[e]);
          out[e] = cell(inst.op == Op::cast ? cast(value, s.results[0].dtype) : bitcast(value, s.results[0].dtype));
        }
        break;
      }
      case Op::index: index(s, t); break;
      case Op::load:
      case Op::store:
      case Op::check:
      case Op::combine: memory(s, t); break;
      case Op::reduce: reduce(s, t); break;
      case Op::scan: kernel_.level == Level::Thread ? scan_lanes(s, t) : scan(s, t); break;
      case Op::dot: dot(s, t); break;
      case Op::panel_dot: panel_dot(s, t); break;
      case Op::copy: copy_in(s, t); break;
      case Op::copy_fence: copy_fence(s, t); break;
      case Op::matrix_store:
        each_fragment(s.args, matrix_shape(s, s.args).column, t, [&](int64_t row, int64_t column, Cell& value) {
          region_element(s, 0, column, row, value, true);
        });
        break;
      case Op::packed_dot: {
        const Operand a = operand(s, 0, t), b = operand(s, 1, t), acc = operand(s, 2, t);
        for (int64_t e = 0; e < s.count; ++e)
          data(s.results[0], t)[e] = multiply_add(s.results[0].dtype, s.args[0].dtype, acc.at(e), a.at(e), b.at(e));
        break;
      }
      case Op::transpose:
        for (size_t i = 0; i < s.args.size(); ++i)
          for (size_t k = 0; k < s.results.size(); ++k) data(s.results[k], t)[i] = data(s.args[i], t)[k];
        break;
      default: {
        SmallVector<Operand, 3> operands;
        for (size_t n = 0; n < s.args.size(); ++n) operands.push_back(operand(s, n, t));
        const Place& decides = inst.op == Op::where ? s.args[1] : s.args[0];
        apply_elements(scalar_op(inst.op), decides.dtype, operands, data(s.results[0], t), s.count);
      }
    }
  });
}

void interpret(const Kernel& kernel, std::span<void* const> buffers, std::span<const int64_t> sizes,
               std::span<const int64_t> symbols) {
  verify(kernel);
  Machine(kernel, buffers, sizes, symbols).run();
}

}  // namespace heddle::kernel
