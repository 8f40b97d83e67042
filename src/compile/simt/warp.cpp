// Products by a matrix unit that warps use. All threads copy tiles of both factors into a ring in shared memory, a few
// stages ahead of use; each warp loads fragments of them and keeps its rectangle of the sums in registers.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "compile/schedule/matrix_contraction.h"
#include "compile/simt/lowering.h"

namespace heddle::simt {

using kernel::kWarpBytes;
using kernel::kWarpLanes;
using kernel::kWarpRows;

std::pair<size_t, size_t> matrix_dims(const Dims& shape) {
  SmallVector<size_t, 2> wide;
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] > 1) wide.push_back(d);
  HD_ASSERT(wide.size() == 2, "a matrix unit computes matrices");
  return {wide[0], wide[1]};
}

namespace {

WarpGrid grid_of(const Dims& shape, int threads) {
  auto [rows, columns] = matrix_dims(shape);
  const auto grid = warp_grid(shape[rows], shape[columns], threads / kWarpLanes);
  HD_ASSERT(grid, "a matrix of ", shape[rows], " x ", shape[columns], " for ", threads, " threads");
  return *grid;
}

// Tiles of one factor in shared memory.
struct Ring {
  const kernel::Region* region;
  DType dtype;
  int buffer;
  int64_t own, part;  // rows of the factor: of the block, of a warp
  int64_t row, rows;  // elements that lie side by side, and how many such rows
  int64_t pitch() const { return warp_pitch(row, dtype); }
  int64_t size() const { return rows * pitch(); }
};

}  // namespace

// As the sums of mma lie: a quarter of a warp along the columns, two each, its eight quarters along rows; then warps
// down the tile, then across.
Layout warp_layout(const Dims& shape, int threads) {
  auto [rows, columns] = matrix_dims(shape);
  const WarpGrid grid = grid_of(shape, threads);
  Layout layout = layout_for(shape);
  layout.used = threads;
  layout.lane_dim = static_cast<int>(columns);
  layout.lanes = 2;
  const int64_t down = 8 * grid.down, across = 4 * grid.across;
  layout.dims[rows] = {
      .size = shape[rows], .threads = down, .stride = 4, .registers = shape[rows] / down, .together = 8};
  layout.dims[columns] = {.size = shape[columns],
                          .threads = across,
                          .registers = shape[columns] / (2 * across),
                          .together = 4,
                          .apart = kWarpLanes * grid.down};
  return layout;
}

namespace {

// One product. All that the threads of a block do for it but keeping its results.
struct WarpDot {
  kernel::Builder& builder;
  const Inst& inst;
  std::array<Ring, 2> rings;
  WarpGrid grid;
  Expr thread;
  int threads;

  // The fragments of both factors that a step multiplies at a time.
  size_t fragments() const { return static_cast<size_t>(down() + across()); }

  // Copies the tiles of a step to their places in the rings.
  void copy_tiles(const Expr& step) {
    for (const Ring& ring : rings) {
      const int64_t total = ring.rows * (ring.row / chunk());
      for (int64_t first = 0; first < total; first += threads) {
        const Expr number = thread + first;
        auto copy = [&] { copy_chunk(ring, step, number); };
        if (first + threads <= total)
          copy();
        else
          builder.branch(lt(number, total), copy);
      }
    }
  }

  // Of both factors, from part `at` of the depth of the tiles in `slot`.
  std::vector<Value> load_fragments(const Expr& slot, int64_t at) {
    std::vector<Value> loaded;
    for (int64_t i = 0; i < down(); ++i) loaded.push_back(fragment(0, slot, i, at));
    for (int64_t j = 0; j < across(); ++j) loaded.push_back(fragment(1, slot, j, at));
    return loaded;
  }

  void multiply(std::span<const Value> factors, std::span<Value> sums) {
    for (int64_t i = 0; i < down(); ++i)
      for (int64_t j = 0; j < across(); ++j) {
        size_t mine[4];
        for (int64_t v = 0; v < 4; ++v) mine[v] = static_cast<size_t>((2 * i + v % 2) * (2 * across()) + 2 * j + v / 2);
        const Value before[] = {sums[mine[0]], sums[mine[1]], sums[mine[2]], sums[mine[3]]};
        std::vector<Value> after = builder.mma(factors[i], factors[down() + j], before);
        for (size_t v = 0; v < 4; ++v) sums[mine[v]] = after[v];
      }
  }

  int64_t down() const { return rings[0].part / kWarpRows; }
  int64_t across() const { return rings[1].part / kWarpRows; }
  int64_t size() const { return size_of(rings[0].dtype); }
  int64_t chunk() const { return 16 / size(); }  // elements that a thread copies at a time

  // Chunk `number` of a factor's tile.
  void copy_chunk(const Ring& ring, const Expr& step, const Expr& number) {
    const kernel::Region& region = *ring.region;
    const int64_t along = ring.row / chunk();
    const Expr x = mod(number, along) * chunk(), y = floordiv(number, along);
    Expr guard = lt(step, inst.extent), address = region.offset, count = chunk();
    Substitution gathered;
    for (size_t d = 0; d < region.at.size(); ++d) {
      Expr at = substitute(region.at[d], {{inst.var, step}}) + (d == 0 ? x : d == 1 ? y : Expr(0));
      if (region.is_gathered())
        gathered.emplace_back(region.coords[d], at);
      else
        address = address + at * region.strides[d];
      if (d == 0 && region.extents[0].multiple() % chunk() != 0)
        count = min(max(region.extents[0] - at, 0), chunk());
      else
        guard = logical_and(guard, lt(at, region.extents[d]));
    }
    address = substitute(address, gathered);
    guard = logical_and(guard, substitute(region.guard, gathered));
    kernel::Panel to{ring.buffer, mod(step, inst.immediate) * ring.size() + y * ring.pitch() + x};
    builder.copy(to, {region.buffer, address}, count, guard);
  }

  // Fragment `i` of the warp's rows of a factor, from part `at` of the tile's depth.
  Value fragment(size_t n, const Expr& slot, int64_t i, int64_t at) {
    const Ring& ring = rings[n];
    const Expr lane = mod(thread, kWarpLanes), warp = floordiv(thread, kWarpLanes);
    const Expr mine = (n == 0 ? mod(warp, grid.down) : floordiv(warp, grid.down)) * ring.part + i * kWarpRows;
    // Of the four squares that a fragment is made of, which one this lane's 16 bytes belong to.
    const Expr near = mod(floordiv(lane, 8), 2), far = floordiv(lane, 16);
    const Expr below = n == 0 ? near : far, half = n == 0 ? far : near;
    Expr y = mine + below * 8 + mod(lane, 8), x = at * (32 / size()) + half * chunk();
    if (ring.region->transposed) {
      y = at * (32 / size()) + half * 8 + mod(lane, 8);
      x = mine + below * 8;
    }
    return builder.load_matrix(ring.buffer, ring.dtype, slot * ring.size() + y * ring.pitch() + x,
                               ring.region->transposed);
  }
};

}  // namespace

void Lowering::emit_warp_dot(const Inst& inst) {
  const Value result = inst.results[0];
  const Dims& dims = shape(result);
  auto [rows, columns] = matrix_dims(dims);
  const WarpGrid grid = grid_of(dims, tile_.threads);
  const DType dtype = tile_.buffers[inst.regions[0].buffer].dtype;
  const int64_t depth = kWarpBytes / size_of(dtype);
  const int stages = inst.immediate;
  std::array<Ring, 2> rings;
  for (size_t n : {0, 1}) {
    const bool transposed = inst.regions[n].transposed;
    const int64_t own = dims[n == 0 ? rows : columns];
    rings[n] = {
        &inst.regions[n],        dtype, -1, own, own / (n == 0 ? grid.down : grid.across), transposed ? own : depth,
        transposed ? depth : own};
    rings[n].buffer = allocate(n == 0 ? "left" : "right", dtype, stages * rings[n].size());
  }
  WarpDot dot{*builder_, inst, rings, grid, thread_, tile_.threads};

  // What an earlier tile of the same threads left in the ring is no longer wanted.
  builder_->copy_fence(0);
  builder_->barrier();
  for (int step = 0; step + 1 < stages; ++step) {
    dot.copy_tiles(step);
    builder_->copy_fence(step + 2 < stages ? stages : stages - 2);
  }
  builder_->barrier();
  const std::vector<Point> where = registers_of(result);
  const kernel::Type two{tile_.values[result].dtype, {2}};
  // Carried: the fragments to multiply next, then the sums.
  std::vector<Value> init = dot.load_fragments(0, 0);
  init.resize(dot.fragments() + where.size(), builder_->constant(Scalar::of(two.dtype, 0), two.shape));
  auto body = [&](const Expr& step, std::span<const Value> carried) {
    std::vector<Value> values(carried.begin(), carried.end());
    constexpr int64_t kParts = kWarpBytes / 32;
    for (int64_t at = 0; at < kParts; ++at) {
      const bool last = at + 1 == kParts;
      if (last) {
        // The next tile has arrived for all, and all have loaded what they need of this one: the next step fills its
        // place.
        builder_->copy_fence(stages - 2);
        builder_->barrier();
      }
      const std::vector<Value> next = dot.load_fragments(mod(last ? step + 1 : step, stages), last ? 0 : at + 1);
      if (at == 0) dot.copy_tiles(step + (stages - 1));
      dot.multiply(std::span(values).first(dot.fragments()), std::span(values).subspan(dot.fragments()));
      std::copy(next.begin(), next.end(), values.begin());
    }
    return values;
  };
  std::vector<Value> sums;
  if (inst.var.is_var()) {
    sums = builder_->loop(inst.var, init, [&](std::span<const Value> carried) { return body(inst.var, carried); });
    builder_->code().insts.back().extent = inst.extent;
  } else {
    sums = body(0, init);
  }
  sums.erase(sums.begin(), sums.begin() + static_cast<long>(dot.fragments()));
  deliver(result, where, sums, next_tag());
}

}  // namespace heddle::simt
