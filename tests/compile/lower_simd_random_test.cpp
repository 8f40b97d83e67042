// The SIMD lowering of random programs against the interpreter.
#include "simd_programs.h"

namespace heddle {
namespace {

using namespace testing;

// Random programs over i32, where any order of a sum gives the same bits.
class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  Kernel make() {
    k_.name = "random";
    rank_ = 1 + pick(3);
    for (int d = 0; d < rank_; ++d) dims_.push_back(size());
    kernel::Phase& phase = k_.phases.emplace_back();
    block_ = Expr::index("c", 3);
    phase.blocks = {block_};
    Builder b(k_, phase);
    steps(b, 4 + pick(8), 0);
    for (Value v : pool_)
      if (pick(4) == 0) store(b, v);
    store(b, pool_.back());
    return std::move(k_);
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  int64_t size() {
    const int64_t sizes[] = {1, 1, 2, 3, 5, 8, 16, 17, 31, 40, 70};
    return sizes[pick(rank_ == 1 ? 11 : 9)];
  }
  Value any() { return pool_[static_cast<size_t>(pick(static_cast<int>(pool_.size())))]; }

  Dims some_shape() {
    Dims shape = dims_;
    for (int64_t& d : shape)
      if (pick(4) == 0) d = 1;
    return shape;
  }
  std::vector<Expr> coords_of(const Dims& shape) {
    std::vector<Expr> out;
    for (int64_t d : shape) out.push_back(Expr::index("d", d));
    return out;
  }
  // An address that gives each element its own place, and the places in all.
  std::pair<Expr, int64_t> address(const Dims& shape, std::span<const Expr> coords) {
    std::vector<int> order;
    for (int d = 0; d < rank_; ++d) order.push_back(d);
    if (pick(3) == 0) std::shuffle(order.begin(), order.end(), random_);
    Expr at = 0;
    int64_t stride = pick(5) == 0 ? 2 : 1;
    for (int i = rank_ - 1; i >= 0; --i) {
      int d = order[static_cast<size_t>(i)];
      Expr c = coords[static_cast<size_t>(d)];
      if (pick(8) == 0) c = Expr(shape[static_cast<size_t>(d)] - 1) - c;
      at = at + c * Expr(stride);
      stride *= shape[static_cast<size_t>(d)];
    }
    return {at, stride};
  }
  // A buffer that loads and stores share, now and then; each block has its own part of it.
  struct Place {
    int buffer;
    Expr address;
  };
  Place place(const Dims& shape, std::span<const Expr> coords, Space space) {
    auto [at, n] = address(shape, coords);
    if (pick(4) == 0) {
      int64_t part = 2;
      for (int64_t d : dims_) part *= d;
      if (shared_ < 0) shared_ = buffer(Space::InOut, 3 * part);
      return {shared_, at + block_ * Expr(part)};
    }
    return {buffer(space, 3 * n), at + block_ * Expr(n)};
  }
  Expr guard(const Dims& shape, std::span<const Expr> coords) {
    Expr g = 1;
    for (int d = 0; d < rank_; ++d) {
      int64_t n = shape[static_cast<size_t>(d)];
      if (pick(3) == 0) {
        // The same few limits again and again, so that guards of loads and stores agree now and then.
        Expr limit = pick(2) == 0 ? Expr(n * 3 - n / 2) : Expr(n * 2 + 1);
        g = logical_and(g, lt(block_ * Expr(n) + coords[static_cast<size_t>(d)], limit));
      } else if (pick(10) == 0) {
        g = logical_and(g, lt(1, coords[static_cast<size_t>(d)] + block_));
      }
    }
    return g;
  }
  int buffer(Space space, int64_t n) {
    k_.buffers.push_back({"b" + std::to_string(k_.buffers.size()), kI32, space, n});
    return static_cast<int>(k_.buffers.size()) - 1;
  }

  // Somewhere in some buffer; the buffer's number comes with it.
  std::pair<int, Builder::Access> access(const Dims& shape, Space space) {
    std::vector<Expr> coords = coords_of(shape);
    Place at = place(shape, coords, space);
    Builder::Access result;
    result.address = at.address;
    result.guard = guard(shape, coords);
    result.coords = SmallVector<Expr, 4>(std::span<const Expr>(coords));
    return {at.buffer, std::move(result)};
  }
  Value load(Builder& b) {
    auto [from, where] = access(some_shape(), Space::In);
    return b.load(from, kI32, where);
  }
  void store(Builder& b, Value v) {
    const Dims shape = b.type(v).shape;
    if (shape.empty()) return;
    auto [to, where] = access(shape, Space::Out);
    b.store(to, v, where);
  }
  Value compute(Builder& b) {
    const ScalarOp binary[] = {ScalarOp::add,     ScalarOp::sub,      ScalarOp::mul, ScalarOp::maximum,
                               ScalarOp::bit_xor, ScalarOp::floordiv, ScalarOp::mod};
    Value x = any(), y = any();
    if (pick(6) == 0) return b.op(ScalarOp::where, {b.op(ScalarOp::lt, {x, y}), x, any()});
    return b.op(binary[pick(7)], {x, y});
  }
  Value reduce(Builder& b) {
    Value v = any();
    const Dims shape = b.type(v).shape;
    if (shape.empty()) return v;
    auto op = kernel::simple_reducer(pick(2) ? ScalarOp::add : ScalarOp::minimum, kI32);
    std::vector<Expr> coords = coords_of(shape);
    Value args[] = {v};
    return b.reduce(args, pick(rank_), op, pick(2) ? guard(shape, coords) : Expr(1), coords)[0];
  }
  Value dot(Builder& b) {
    Value x = any(), y = any();
    Dims shape = kernel::broadcast_dims(b.type(x).shape, b.type(y).shape);
    if (shape.empty()) return x;
    std::vector<Expr> coords = coords_of(shape);
    Value zero = b.constant(Scalar::of(kI32, 3));
    return b.dot(x, y, zero, pick(rank_), pick(2) ? guard(shape, coords) : Expr(1), coords);
  }
  Value loop(Builder& b, int depth) {
    std::vector<Value> init;
    for (int i = 0; i < 1 + pick(2); ++i) init.push_back(any());
    Expr var = Expr::index("i", pick(2) ? Expr(pick(4)) : block_);
    if (!var.is_var()) return any();
    std::vector<Value> outer = pool_;
    std::vector<Value> results = b.loop(var, init, [&](std::span<const Value> carried) {
      for (Value v : carried) pool_.push_back(v);
      steps(b, 2 + pick(4), depth + 1);
      std::vector<Value> next;
      for (Value v : carried) {
        Value found = v;
        for (Value candidate : pool_)
          if (b.type(candidate) == b.type(v) && pick(3) == 0) found = candidate;
        next.push_back(found);
      }
      return next;
    });
    pool_ = outer;
    for (Value v : results) pool_.push_back(v);
    return results[0];
  }
  void steps(Builder& b, int n, int depth) {
    for (int i = 0; i < n; ++i) {
      if (!pool_.empty() && pick(8) == 0) store(b, any());
      int what = pool_.empty() ? 0 : pick(12);
      Value v = what < 2                ? load(b)
                : what < 8              ? compute(b)
                : what < 9 && depth < 2 ? loop(b, depth)
                : what < 10             ? dot(b)
                                        : reduce(b);
      pool_.push_back(v);
    }
  }

  std::mt19937 random_;
  Kernel k_;
  int rank_ = 0;
  Dims dims_;
  Expr block_;
  int shared_ = -1;
  std::vector<Value> pool_;
};

TEST(LowerSimd, random_programs_keep_their_meaning) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    Kernel k = Generator(seed).make();
    expect_same(k, 0, {}, seed % 3 == 0 ? avx2() : seed % 5 == 0 ? neon() : avx512());
    if (::testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace heddle
