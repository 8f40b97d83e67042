// How a tile is spread over threads.
#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/rounding.h"
#include "compile/simt/lowering.h"

namespace heddle::simt {

namespace {

// Elements of a tile that a thread may hold in registers one by one; a tile of accumulators may take more, because
// little else lives beside it.
constexpr int64_t kMaxElements = 64;
constexpr int64_t kMaxAccumulators = 128;
constexpr int kVectorBytes = 16;
constexpr int kMaxLanes = 8;

// The lane-free form of a condition that is the same for all lanes, or nothing.
std::optional<Expr> uniform(const Expr& condition, const Expr& lane) {
  if (!depends_on(condition, lane)) return condition;
  int64_t lanes = lane.extent().value();
  switch (condition.kind()) {
    case ExprKind::Lt: {
      // rest + lane < 0 with rest a multiple of the number of lanes: all lanes agree with lane 0. Likewise
      // rest - lane < 0 where rest + 1 is such a multiple.
      auto linear = linear_in(condition.args()[0] - condition.args()[1], lane);
      if (!linear) return std::nullopt;
      bool aligned = (linear->coefficient == 1 && linear->rest.multiple() % lanes == 0) ||
                     (linear->coefficient == -1 && (linear->rest + 1).multiple() % lanes == 0);
      if (!aligned) return std::nullopt;
      return substitute(condition, {{lane, 0}});
    }
    case ExprKind::And:
    case ExprKind::Or: {
      bool both = condition.kind() == ExprKind::And;
      Expr result = both ? 1 : 0;
      for (const Expr& part : condition.args()) {
        auto inner = uniform(part, lane);
        if (!inner) return std::nullopt;
        result = both ? logical_and(result, *inner) : logical_or(result, *inner);
      }
      return result;
    }
    default: return std::nullopt;
  }
}

bool steps_along(const Inst& access, int dim) {
  Dims dims = coord_dims(access);
  return dim < static_cast<int>(dims.size()) && dims[dim] > 1;
}

bool walks(const Inst& access, int dim) {
  if (!steps_along(access, dim)) return false;
  auto linear = linear_in(access.address, access.coords[dim]);
  return linear && (linear->coefficient == 1 || linear->coefficient == -1);
}

// The dimension along which most accesses touch neighbouring elements of memory: consecutive threads go there. The
// last one of several equally good.
int contiguous_dim(const Dims& shape, std::span<const Inst* const> accesses, std::span<const kernel::Buffer> buffers,
                   int except) {
  int best = -1;
  int64_t best_votes = -1;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    if (shape[d] == 1 || d == except) continue;
    int64_t votes = 0;
    for (const Inst* access : accesses) {
      if (!walks(*access, d)) continue;
      bool global = buffers[access->buffer].space != kernel::Space::Shared;
      votes += kernel::Type{DType::f32, coord_dims(*access)}.numel() * (global ? 8 : 1);
    }
    if (votes >= best_votes) {
      best = d;
      best_votes = votes;
    }
  }
  return best;
}

// Whether every access that steps along `dim` could do so in aligned vectors of `lanes` elements under one guard.
bool vectorizable(std::span<const Inst* const> accesses, int dim, int64_t size, int lanes) {
  Expr lane = Expr::index("lane", lanes);
  Expr chunk = Expr::index("chunk", size / lanes);
  for (const Inst* access : accesses) {
    if (access->op == Op::combine || !access->binds.empty()) return false;
    if (!steps_along(*access, dim)) continue;
    Substitution split = {{access->coords[dim], chunk * lanes + lane}};
    Expr address = substitute(access->address, split);
    if (depends_on(address, lane)) {
      auto linear = linear_in(address, lane);
      if (!linear || linear->coefficient != 1 || linear->rest.multiple() % lanes != 0) return false;
    }
    if (!uniform(substitute(access->guard, split), lane)) return false;
  }
  return true;
}

int choose_lanes(std::span<const Inst* const> accesses, std::span<const kernel::Buffer> buffers, int dim, int64_t size,
                 int64_t most) {
  // Those that move most bytes do it in vectors of the best size.
  int element = 0;
  int64_t most_bytes = 0;
  for (const Inst* access : accesses) {
    if (!steps_along(*access, dim)) continue;
    const DType dtype = buffers[access->buffer].dtype;
    const int64_t bytes = kernel::Type{dtype, coord_dims(*access)}.numel() * size_of(dtype);
    if (bytes > most_bytes || (bytes == most_bytes && size_of(dtype) > element)) {
      most_bytes = bytes;
      element = size_of(dtype);
    }
  }
  if (element == 0) return 1;
  int lanes = std::min<int64_t>({kMaxLanes, kVectorBytes / element, floor_power(most)});
  for (; lanes > 1; lanes /= 2) {
    if (size % lanes == 0 && vectorizable(accesses, dim, size, lanes)) return lanes;
  }
  return 1;
}

int64_t registers_held(const Layout& layout) {
  int64_t count = layout.lanes;
  for (const LayoutDim& dim : layout.dims) count *= dim.rolled ? 1 : dim.registers;
  return count;
}

}  // namespace

int fast_dim(const Inst& access) {
  for (int d = static_cast<int>(access.coords.size()) - 1; d >= 0; --d)
    if (walks(access, d)) return d;
  return -1;
}

Dims coord_dims(const Inst& inst) {
  Dims dims;
  for (const Expr& c : inst.coords) dims.push_back(c.is_var() ? c.extent().value() : 1);
  return dims;
}

Layout layout_for(const Dims& shape) {
  Layout layout;
  layout.dims.resize(shape.size());
  for (size_t d = 0; d < shape.size(); ++d) layout.dims[d].size = shape[d];
  return layout;
}

Layout choose_layout(const Dims& shape, std::span<const Inst* const> accesses, std::span<const kernel::Buffer> buffers,
                     int dot_axis, int threads, int warp) {
  Layout layout = layout_for(shape);
  const int rank = static_cast<int>(shape.size());
  int64_t others = 1;  // elements not counting the contracted dimension
  for (int d = 0; d < rank; ++d)
    if (d != dot_axis) others *= shape[d];
  int64_t left = floor_power(threads);
  bool tiled = dot_axis >= 0 && others >= left;  // each thread owns a tile of accumulators
  int fast = contiguous_dim(shape, accesses, buffers, tiled ? dot_axis : -1);
  if (fast < 0) return layout;

  // Threads along the contiguous dimension: at least a warp if it is long enough, and as many as the others leave.
  LayoutDim& first = layout.dims[fast];
  int64_t total = others * (!tiled && dot_axis >= 0 ? shape[dot_axis] : 1);
  int64_t each = std::max<int64_t>(1, total / left);  // elements per thread
  int64_t rest = 1;                                   // threads that the others could use
  for (int d = 0; d < rank; ++d)
    if (d != fast && !(tiled && d == dot_axis)) rest *= floor_power(shape[d]);
  const int64_t left_over = left / std::min(left, rest);
  if (tiled) {
    // A square tile reads least; its side along the contiguous dimension is made of whole vectors.
    int64_t side = int64_t{1} << (std::bit_width(static_cast<uint64_t>(each)) / 2);
    layout.lanes = choose_lanes(accesses, buffers, fast, first.size, std::min<int64_t>(side, 4));
    first.threads = std::min(left, floor_power(first.size / std::max<int64_t>(side, layout.lanes)));
    first.threads = std::max(first.threads, std::min(left_over, ceil_power(first.size / layout.lanes)));
  } else {
    layout.lanes = choose_lanes(accesses, buffers, fast, first.size, each);
    first.threads = std::clamp<int64_t>(left_over, std::min<int64_t>(warp, left), left);
    first.threads = std::min(first.threads, ceil_power(first.size / layout.lanes));
  }
  if (layout.lanes > 1) layout.lane_dim = fast;
  left /= first.threads;
  layout.used = first.threads;
  for (int d = rank - 1; d >= 0; --d) {
    LayoutDim& dim = layout.dims[d];
    if (d == fast || (tiled && d == dot_axis)) continue;
    dim.stride = layout.used;
    dim.threads = std::min(left, ceil_power(dim.size));
    left /= dim.threads;
    layout.used *= dim.threads;
  }
  for (int d = 0; d < rank; ++d) {
    LayoutDim& dim = layout.dims[d];
    int64_t covered = dim.threads * (d == layout.lane_dim ? layout.lanes : 1);
    dim.registers = pieces(dim.size, covered);
    // Neighbours in a tile of accumulators let operands be read in vectors.
    dim.chunked = tiled && d != fast && d != dot_axis;
  }
  // Walk the contracted dimension by a loop, and others while there are too many registers to name.
  if (dot_axis >= 0 && layout.dims[dot_axis].registers > 4) layout.dims[dot_axis].rolled = true;
  int64_t limit = dot_axis >= 0 ? kMaxAccumulators : kMaxElements;
  while (registers_held(layout) > limit) {
    LayoutDim* largest = nullptr;
    for (LayoutDim& dim : layout.dims) {
      if (!dim.rolled && (!largest || dim.registers > largest->registers)) largest = &dim;
    }
    if (!largest || largest->registers == 1) break;
    largest->rolled = true;
  }
  return layout;
}

bool is_rolled(const Layout& layout, const Dims& shape) {
  bool rolled = false;
  for (size_t d = 0; d < shape.size(); ++d) rolled |= shape[d] > 1 && layout.dims[d].rolled;
  return rolled;
}

bool has_lanes(const Layout& layout, const Dims& shape) {
  return layout.lane_dim >= 0 && layout.lane_dim < static_cast<int>(shape.size()) && shape[layout.lane_dim] > 1;
}

Expr digit(const Layout& layout, int dim, const Expr& thread) {
  const LayoutDim& d = layout.dims[dim];
  if (d.apart > 0)
    return mod(floordiv(thread, d.apart), d.threads / d.together) * d.together +
           mod(floordiv(thread, d.stride), d.together);
  return mod(floordiv(thread, d.stride), d.threads);
}

Expr coordinate(const Layout& layout, int dim, const Expr& thread, const Expr& reg, const Expr& lane) {
  const LayoutDim& d = layout.dims[dim];
  if (d.together > 0) {
    Expr number = digit(layout, dim, thread);
    Expr at = floordiv(number, d.together) * (d.together * d.registers) + reg * d.together + mod(number, d.together);
    return dim == layout.lane_dim ? at * layout.lanes + lane : at;
  }
  if (d.chunked) return digit(layout, dim, thread) * d.registers + reg;
  Expr chunk = reg * d.threads + digit(layout, dim, thread);
  return dim == layout.lane_dim ? chunk * layout.lanes + lane : chunk;
}

Expr owner(const Layout& layout, const Dims& shape, const Expr& thread, int except) {
  Expr condition = lt(thread, layout.used);
  for (int d = 0; d < static_cast<int>(layout.dims.size()); ++d) {
    bool ignored = d >= static_cast<int>(shape.size()) || shape[d] == 1;
    if (d != except && ignored && layout.dims[d].threads > 1) {
      condition = logical_and(condition, eq(digit(layout, d, thread), 0));
    }
  }
  return condition;
}

bool same_place(const Layout& a, const Layout& b, const Dims& shape) {
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    const LayoutDim &x = a.dims[d], &y = b.dims[d];
    int lanes_x = a.lane_dim == static_cast<int>(d) ? a.lanes : 1;
    int lanes_y = b.lane_dim == static_cast<int>(d) ? b.lanes : 1;
    if (x.threads != y.threads || x.stride != y.stride || lanes_x != lanes_y) return false;
    if (x.rolled || y.rolled || x.chunked != y.chunked || x.together != y.together || x.apart != y.apart) return false;
  }
  return true;
}

Expr without_lane(const Expr& condition, const Expr& lane) {
  if (!lane.is_var()) return condition;
  Expr result = 1;
  for (const Expr& part : conjuncts(condition)) result = logical_and(result, uniform(part, lane).value_or(part));
  return result;
}

}  // namespace heddle::simt
