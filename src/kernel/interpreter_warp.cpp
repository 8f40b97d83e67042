// A matrix unit that warps use: copies that arrive later, fragments, products.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "kernel/interpreter_machine.h"

namespace heddle::kernel {
namespace {

// To ten bits behind the point, halves away from zero.
Cell rounded_to_tf32(Cell value) {
  const auto x = static_cast<float>(value.f);
  if (std::isfinite(x)) value.f = std::bit_cast<float>((std::bit_cast<uint32_t>(x) + 0x1000u) & ~0x1fffu);
  return value;
}

// Where element e of what a lane holds of a factor lies in it.
struct Spot {
  int64_t row, column;
};
Spot spot(int64_t lane, int64_t e, int64_t size, bool right) {
  const int64_t word = 4 / size, part = e / word;  // of four
  const int64_t below = right ? part / 2 : part % 2, half = right ? part % 2 : part / 2;
  return {lane / 4 + below * 8, half * (16 / size) + lane % 4 * word + e % word};
}

}  // namespace

std::vector<Cell> Machine::factor_tile(const Step& s, size_t n, int64_t rows, int64_t depth) {
  const Region& region = s.inst->regions[n];
  const DType dtype = kernel_.buffers[region.buffer].dtype, acc = s.results[0].dtype;
  std::vector<Cell> tile(static_cast<size_t>(rows * depth));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t q = 0; q < depth; ++q) {
      Cell& value = tile[i * depth + q];
      region_element(s, n, region.transposed ? i : q, region.transposed ? q : i, value, false);
      value = dtype == DType::f32 ? rounded_to_tf32(value) : cell(cast(scalar(dtype, value), acc));
    }
  return tile;
}

void Machine::warp_dot(const Step& s) {
  const auto [rows, columns] = matrix_shape(s, s.results);
  const DType dtype = kernel_.buffers[s.inst->regions[0].buffer].dtype, acc = s.results[0].dtype;
  const int64_t depth = kWarpBytes / size_of(dtype), steps = s.extent.run(slots_.data());
  Cell* sums = data(s.results[0], 0);
  std::fill_n(sums, rows * columns, cell(Scalar::of(acc, 0)));
  for (int64_t k = 0; k < steps; ++k) {
    slots_[s.var_slot] = k;
    const std::vector<Cell> a = factor_tile(s, 0, rows, depth), b = factor_tile(s, 1, columns, depth);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        for (int64_t q = 0; q < depth; ++q)
          sums[i * columns + j] = multiply_add(acc, acc, sums[i * columns + j], a[i * depth + q], b[j * depth + q]);
  }
}

void Machine::copy_in(const Step& s, int thread) {
  const Buffer &to = kernel_.buffers[s.inst->panels[0].buffer], &from = kernel_.buffers[s.inst->panels[1].buffer];
  const int64_t count = s.guard.run(slots_.data()) != 0 ? s.extent.run(slots_.data()) : 0;
  const int64_t first = s.panels[0].run(slots_.data());
  const int64_t source = count > 0 ? s.panels[1].run(slots_.data()) : 0;
  copies_.resize(static_cast<size_t>(threads_));
  Copies& mine = copies_[static_cast<size_t>(thread)];
  for (int64_t e = 0; e < 16 / size_of(to.dtype); ++e) {
    Cell value = cell(Scalar::of(to.dtype, 0));
    Memory& memory = memory_[s.inst->panels[1].buffer];
    const char* wrong = e < count ? memory.load(source + e, phase_, static_cast<int32_t>(block_), value) : nullptr;
    if (wrong) fail(s, text("element ", source + e, " of %", from.name, " (", memory.size(), " elements) ", wrong));
    mine.on_their_way.push_back({&s, first + e, value, mine.groups + 1});
    // From now on the place belongs to the copy. Until it has arrived, whoever reads there reads rubbish.
    Memory& ring = memory_[s.inst->panels[0].buffer];
    wrong = ring.store(first + e, epoch_, thread, cell(Scalar::from_bits(to.dtype, 0x5a5a5a5a)));
    if (wrong) fail(s, text("element ", first + e, " of %", to.name, " (", ring.size(), " elements) ", wrong));
  }
}

void Machine::copy_fence(const Step& s, int thread) {
  copies_.resize(static_cast<size_t>(threads_));
  Copies& mine = copies_[static_cast<size_t>(thread)];
  const int64_t arrived = ++mine.groups - s.inst->immediate;
  std::erase_if(mine.on_their_way, [&](const Copied& copied) {
    if (copied.group > arrived) return false;
    const int32_t buffer = copied.step->inst->panels[0].buffer;
    Memory& ring = memory_[buffer];
    if (const char* wrong = ring.store(copied.element, epoch_, thread, copied.value))
      fail(*copied.step, text("element ", copied.element, " of %", kernel_.buffers[buffer].name, " (", ring.size(),
                              " elements) ", wrong));
    return true;
  });
}

void Machine::load_matrix(const Step& s, const Mask& mask) {
  whole_warps(s, mask, "fragment");
  const Buffer& buffer = kernel_.buffers[s.inst->buffer];
  Memory& memory = memory_[s.inst->buffer];
  const int64_t size = size_of(buffer.dtype), wide = 16 / size;
  std::vector<int64_t> given(static_cast<size_t>(threads_));
  const IndexProgram& address = s.address.linear ? s.address.base : s.address.whole;
  each_thread(mask, [&](int t) { given[static_cast<size_t>(t)] = address.run(slots_.data()); });
  each_thread(mask, [&](int t) {
    for (int64_t e = 0; e < wide; ++e) {
      const int64_t word = 4 / size, lane = t % kWarpLanes, first = e / word * 8;
      int64_t giver = first + lane / 4, place = lane % 4 * word + e % word;
      if (s.inst->axis == 1) {
        giver = first + lane % 4 * word + e % word;
        place = lane / 4;
      }
      const int64_t element = given[static_cast<size_t>(t / kWarpLanes * kWarpLanes + giver)] + place;
      Cell& value = data(s.results[0], t)[e];
      if (const char* wrong = memory.load(element, epoch_, t, value))
        fail(s, text("element ", element, " of %", buffer.name, " (", memory.size(), " elements) ", wrong));
      if (buffer.dtype == DType::f32) value = rounded_to_tf32(value);
    }
  });
}

void Machine::mma(const Step& s, const Mask& mask) {
  whole_warps(s, mask, "product");
  const DType factor = s.args[0].dtype, sum = s.results[0].dtype;
  const int64_t depth = 32 / size_of(factor);
  for (int first = 0; first < threads_; first += kWarpLanes) {
    if (!mask.on[first]) continue;
    std::vector<Cell> parts[2];
    for (size_t n : {0, 1}) {
      parts[n].resize(static_cast<size_t>(kWarpRows * depth));
      for (int lane = 0; lane < kWarpLanes; ++lane)
        for (int64_t e = 0; e < s.args[n].count; ++e) {
          const auto [row, column] = spot(lane, e, size_of(factor), n == 1);
          parts[n][row * depth + column] = data(s.args[n], first + lane)[e];
        }
    }
    for (int lane = 0; lane < kWarpLanes; ++lane)
      for (int64_t v = 0; v < 4; ++v)
        for (int64_t e = 0; e < 2; ++e) {
          const int64_t row = lane / 4 + v % 2 * 8, column = lane % 4 * 2 + v / 2 * 8 + e;
          Cell total = data(s.args[v + 2], first + lane)[e];
          for (int64_t q = 0; q < depth; ++q)
            total = multiply_add(sum, factor, total, parts[0][row * depth + q], parts[1][column * depth + q]);
          data(s.results[v], first + lane)[e] = total;
        }
  }
}

}  // namespace heddle::kernel
