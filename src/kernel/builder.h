// Builds kernel IR, inferring result types. Instructions go to the end of the current body.
#pragma once

#include <type_traits>

#include "kernel/ir.h"

namespace heddle::kernel {

// What writes a body and gives its results. A function that gives nothing is one too, and so is one without arguments.
template <class... Args>
struct BodyCode : std::function<std::vector<Value>(Args...)> {
  BodyCode() = default;
  template <class F>
    requires std::is_invocable_v<const F&> || std::is_invocable_v<const F&, Args...>
  BodyCode(F f)
      : std::function<std::vector<Value>(Args...)>([f = std::move(f)](Args... args) -> std::vector<Value> {
          auto call = [&] {
            if constexpr (std::is_invocable_v<const F&, Args...>)
              return f(args...);
            else
              return f();
          };
          if constexpr (!std::is_void_v<decltype(call())>) return call();
          call();
          return {};
        }) {}
};

class Builder {
 public:
  // Values are created in `values`, instructions appended to `code`. The level matters only to reduce(): that of a
  // rank-1 tile is a tile of size 1, that of a vector a scalar.
  Builder(std::vector<Type>& values, Body& code, Level level = Level::Tile)
      : values_(values), bodies_{&code}, level_(level) {}
  Builder(Kernel& kernel, Phase& phase) : Builder(kernel.values, phase.body, kernel.level) {}

  const Type& type(Value v) const { return values_[v]; }
  Body& code() { return *bodies_.back(); }
  // How many bodies are open around the current one; a builder for the end of one of these.
  int depth() const { return static_cast<int>(bodies_.size()) - 1; }
  Builder outer(int depth) { return Builder(values_, *bodies_[depth], level_); }
  Level level() const { return level_; }

  Value constant(const Scalar& value);
  Value constant(const Scalar& value, const Dims& shape);  // the same in every element
  Value op(ScalarOp op, std::initializer_list<Value> args) {
    return this->op(op, std::span(args.begin(), args.size()));
  }
  Value op(ScalarOp op, std::span<const Value> args);
  Value broadcast(Value v, const Dims& shape);  // v itself when it already has the shape
  Value cast(Value v, DType to);                // v itself when it already has the dtype
  Value bitcast(Value v, DType to);
  // `coords` gives the tile's shape: one coordinate variable per dimension (none for a scalar). `bound` are the values
  // of the variables `binds`.
  Value index(DType dtype, const Expr& address, std::span<const Expr> coords, std::span<const Expr> binds = {},
              std::span<const Value> bound = {});
  struct Access {
    Expr address;
    Expr guard = 1;
    SmallVector<Expr, 4> coords;
    SmallVector<Expr, 1> binds;
    SmallVector<Value, 1> bound;  // the values of binds
    Hint hint = Hint::None;
  };
  Value load(int buffer, DType dtype, const Access& access);
  void store(int buffer, Value v, const Access& access);
  void check(int buffer, Value v, const Access& access);
  void combine(int buffer, Value v, std::shared_ptr<const Reducer> reducer, const Access& access);
  // coords and guard speak of the operands' shape; pass none when nothing is guarded.
  std::vector<Value> reduce(std::span<const Value> args, int axis, std::shared_ptr<const Reducer> reducer,
                            const Expr& guard = 1, std::span<const Expr> coords = {});
  // `start` holds the values to begin with. Gives the scanned tiles, then the totals. In Loops, on scalars: neither
  // start nor totals.
  std::vector<Value> scan(std::span<const Value> args, std::span<const Value> start, int axis,
                          std::shared_ptr<const Reducer> reducer, const Expr& guard = 1,
                          std::span<const Expr> coords = {});
  Value packed_dot(Value a, Value b, Value acc);
  void panel_dot(std::vector<Panel> panels, const Expr& steps, const Expr& goes_on);
  // `step` counts the tiles of the sum, `before` those that the block has taken earlier; `count` results of the type.
  // `args` and `regions` as Op::matrix_dot has them.
  std::vector<Value> matrix_dot(std::span<const Value> args, std::vector<Region> regions, const Expr& step,
                                int pipeline, const Expr& before, const Type& type, size_t count = 1);
  void matrix_store(const Region& region, std::span<const Value> values);
  Value warp_dot(std::vector<Region> regions, const Expr& step, int pipeline, const Type& type);
  void copy(const Panel& to, const Panel& from, const Expr& count, const Expr& guard);
  void copy_fence(int left);
  Value load_matrix(int buffer, DType dtype, const Expr& address, bool transposed);
  std::vector<Value> mma(Value a, Value b, std::span<const Value> sums);
  Value dot(Value a, Value b, Value acc, int axis, const Expr& guard = 1, std::span<const Expr> coords = {});
  // body(var, carried) returns the next carried values.
  std::vector<Value> loop(const Expr& var, std::span<const Value> init, const BodyCode<std::span<const Value>>& body,
                          int unroll = 0);
  std::vector<Value> branch(const Expr& condition, const BodyCode<>& then, const BodyCode<>& otherwise = {});
  // The condition may speak of data: `bound` are the values of the variables `binds`.
  std::vector<Value> branch_on(const Expr& condition, std::span<const Expr> binds, std::span<const Value> bound,
                               const BodyCode<>& then, const BodyCode<>& otherwise = {});
  // The same on a scalar bool. Thread level only.
  std::vector<Value> branch_on(Value condition, const BodyCode<>& then, const BodyCode<>& otherwise = {});
  void barrier();
  Value shuffle_xor(Value v, int mask);
  std::vector<Value> transpose(std::span<const Value> rows);  // n vectors of n lanes

  // Inlines reducer.combine over whole tiles.
  std::vector<Value> apply(const Reducer& reducer, std::span<const Value> left, std::span<const Value> right);
  // Appends a copy of `inst` (bodies included) with arguments mapped by `map` and fresh results, recorded in `map`.
  // `exprs` is substituted in every expression.
  void clone(const Inst& inst, std::vector<Value>& map, const Substitution& exprs = {});

 private:
  Value fresh(Type type);
  Value append(Inst inst, Type type);
  Inst access(Op op, int buffer, const Access& access) const;
  std::vector<Value> finish_branch(Inst inst, const BodyCode<>& then, const BodyCode<>& otherwise);
  std::vector<Value> run_body(Body& body, const BodyCode<>& make);
  std::vector<Type>& values_;
  std::vector<Body*> bodies_;
  Level level_;
};

}  // namespace heddle::kernel
