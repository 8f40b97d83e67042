// Random kernels of either level for testing passes: loads, stores, guards, reductions, loops and branches over a few
// tile shapes that broadcast against each other. Always within bounds and free of races.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "kernel/builder.h"
#include "kernel/interpreter.h"

namespace heddle::kernel {

struct RandomKernelOptions {
  Level level = Level::Tile;
  int threads = 1;
  bool smooth = false;  // only f32 with add, sub, mul, neg: small rounding changes stay small
};

class RandomKernel {
 public:
  static constexpr int64_t kBlocks = 2, kTile = 24;

  RandomKernel(uint64_t seed, RandomKernelOptions options) : random_(seed), options_(options) {
    kernel.name = "random";
    kernel.level = options.level;
    kernel.threads = options.threads;
    block_ = Expr::index("i", kBlocks);
    worker_ = block_;
    if (options.threads > 1) {
      kernel.thread = Expr::index("t", options.threads);
      worker_ = block_ * options.threads + kernel.thread;
    }
    workers_ = kBlocks * options.threads;
    size_ = Expr::symbol("n", 0, 4);
    kernel.symbols = {size_};
    if (options.level == Level::Tile) {
      shapes_ = {{}, {4, 6}, {4, 1}, {1, 6}};
    } else {
      shapes_ = {{}, {8}};
    }
    kernel.buffers = {
        {"a", kF32, Space::In, workers_ * kTile + 16},      {"b", kI32, Space::In, workers_ * kTile + 16},
        {"c", kF32, Space::InOut, workers_ * kTile},        {"l", kF32, Space::Shared, kTile * options.threads},
        {"y", kF32, Space::Out, workers_ * kTile * kSlots}, {"z", kI32, Space::Out, workers_ * kTile * kSlots}};
    kernel.phases.emplace_back();
    kernel.phases[0].blocks = {block_};
    Builder builder(kernel, kernel.phases[0]);
    builder_ = &builder;
    generate();
    builder_ = nullptr;
  }

  // Runs `candidate` (the kernel or what passes made of it) on fixed data; returns the bits of everything it wrote,
  // with every NaN the same.
  std::vector<uint64_t> results(const Kernel& candidate, int64_t size) const {
    std::vector<std::vector<uint32_t>> memory;
    std::vector<void*> buffers;
    std::vector<int64_t> sizes;
    std::mt19937 data(1);
    for (const Buffer& buffer : candidate.buffers) {
      std::vector<uint32_t> contents(static_cast<size_t>(buffer.size.value()));
      for (uint32_t& word : contents)
        word = buffer.dtype == kF32
                   ? static_cast<uint32_t>(Scalar::of(kF32, static_cast<int>(data() % 33) / 8.0 - 2).bits())
                   : data() % 7 - 3;
      memory.push_back(std::move(contents));
    }
    for (size_t k = 0; k < memory.size(); ++k) {
      buffers.push_back(candidate.buffers[k].space == Space::Shared ? nullptr : memory[k].data());
      sizes.push_back(static_cast<int64_t>(memory[k].size()));
    }
    interpret(candidate, buffers, sizes, std::vector<int64_t>{size});
    std::vector<uint64_t> bits;
    for (size_t k = 0; k < memory.size(); ++k)
      for (uint32_t word : memory[k]) {
        bool nan = candidate.buffers[k].dtype == kF32 && (word & 0x7fffffff) > 0x7f800000;
        bits.push_back(nan ? 0x7fc00000 : word);
      }
    return bits;
  }

  Kernel kernel;

 private:
  static constexpr int64_t kSlots = 4;
  enum BufferId { kA, kB, kC, kShared, kY, kZ };

  int roll(int sides) { return static_cast<int>(random_() % static_cast<uint64_t>(sides)); }
  const Dims& any_shape() { return shapes_[static_cast<size_t>(roll(static_cast<int>(shapes_.size())))]; }
  const Type& type(Value v) const { return kernel.values[static_cast<size_t>(v)]; }
  void keep(Value v) { pool_.push_back(v); }

  Value pick(DType dtype) {
    for (int tries = 0; tries < 40; ++tries) {
      // Half the time something recent, so that chains get long.
      size_t back = roll(2) ? std::min<size_t>(pool_.size(), 8) : pool_.size();
      Value v = pool_[pool_.size() - 1 - static_cast<size_t>(roll(static_cast<int>(back)))];
      if (type(v).dtype == dtype) return v;
    }
    for (Value v : pool_)
      if (type(v).dtype == dtype) return v;
    return builder_->constant(Scalar::of(dtype, 1));
  }
  Value pick_like(Value model) {
    std::vector<Value> fitting;
    for (Value v : pool_)
      if (type(v) == type(model)) fitting.push_back(v);
    return fitting.empty() ? model : fitting[static_cast<size_t>(roll(static_cast<int>(fitting.size())))];
  }
  DType any_dtype() {
    if (options_.smooth) return kF32;
    constexpr DType dtypes[] = {kF32, kF32, kF32, kI32, kI32, kBool, kF16};
    return dtypes[roll(7)];
  }

  // base + the element's number in the full tile
  Builder::Access access(const Dims& shape, const Expr& base) {
    Builder::Access access;
    access.address = base;
    int64_t stride = 1;
    for (size_t k = shape.size(); k-- > 0;) {
      Expr coordinate = Expr::index("d", shape[k]);
      access.coords.insert(0, coordinate);
      access.address = access.address + coordinate * stride;
      stride *= shapes_[1][k];
    }
    return access;
  }
  Expr own_region() const { return worker_ * kTile; }
  Expr own_shared() const { return options_.threads > 1 ? kernel.thread * kTile : Expr(0); }

  Expr any_loop_variable() {
    return loops_.empty() ? Expr(roll(3)) : loops_[static_cast<size_t>(roll(static_cast<int>(loops_.size())))];
  }

  Expr any_condition() {
    switch (roll(3)) {
      case 0: return lt(any_loop_variable(), 2);
      case 1: return eq(block_, 0);
      default: return lt(any_loop_variable() + block_, size_);
    }
  }

  void generate() {
    for (DType dtype : {kF32, kI32, kBool, kF16})
      if (!options_.smooth || dtype == kF32) keep(builder_->constant(Scalar::of(dtype, 1)));
    for (const Dims& shape : shapes_) keep(builder_->load(kA, kF32, access(shape, own_region())));
    if (!options_.smooth) keep(builder_->load(kB, kI32, access(shapes_[1], own_region())));
    // Shared memory must be written before it is read.
    Value whole = kNoValue;
    for (Value v : pool_)
      if (type(v) == Type{kF32, shapes_[1]}) whole = v;
    builder_->store(kShared, whole, access(shapes_[1], own_shared()));
    if (options_.threads > 1) builder_->barrier();
    statements(10 + roll(15), 0);
    for (int64_t slot = 0; slot < kSlots; ++slot) {
      bool floating = options_.smooth || roll(2);
      Value v = pick(floating ? kF32 : kI32);
      builder_->store(floating ? kY : kZ, v, access(type(v).shape, (worker_ * kSlots + slot) * kTile));
    }
  }

  void statements(int count, int depth) {
    for (int k = 0; k < count; ++k) statement(depth);
  }

  void statement(int depth) {
    int kind = roll(options_.threads > 1 ? 18 : 16);
    if (options_.smooth && kind >= 5 && kind <= 7) kind = 10;
    switch (kind) {
      case 0: keep(builder_->constant(any_scalar())); break;
      case 1: load_input(); break;
      case 2: {  // the block's own part of a buffer it also writes
        int buffer = roll(2) ? kC : kShared;
        keep(builder_->load(buffer, kF32, access(any_shape(), buffer == kC ? own_region() : own_shared())));
        break;
      }
      case 3: {
        Value v = pick(kF32);
        int buffer = roll(2) ? kC : kShared;
        Builder::Access where = access(type(v).shape, buffer == kC ? own_region() : own_shared());
        if (roll(3) == 0) where.guard = any_condition();
        builder_->store(buffer, v, where);
        break;
      }
      case 4: roll(3) ? reduce() : scan(); break;
      case 5: {
        Builder::Access where = access(any_shape(), any_loop_variable());
        keep(builder_->index(kI32, where.address, where.coords));
        break;
      }
      case 6: {
        DType from = any_dtype(), to = any_dtype();
        keep(builder_->cast(pick(from), to));
        break;
      }
      case 7: keep(roll(2) ? builder_->bitcast(pick(kF32), kI32) : builder_->bitcast(pick(kI32), kF32)); break;
      case 8:
        if (depth < 2) loop(depth);
        break;
      case 9:
        if (depth < 2) branch(depth);
        break;
      case 15:
        if (options_.level == Level::Thread)
          transpose();
        else
          scalar_op();
        break;
      case 16: exchange(); break;
      case 17:
        if (options_.threads == 32 && uniform_) keep(builder_->shuffle_xor(pick(kF32), 1 << roll(5)));
        break;
      default: scalar_op(); break;
    }
  }

  Scalar any_scalar() {
    DType dtype = any_dtype();
    constexpr double numbers[] = {0.0, -0.0, 1, 2, -1, 0.5, 3};
    return Scalar::of(dtype, numbers[roll(7)]);
  }

  void load_input() {
    Builder::Access where = access(any_shape(), own_region() + any_loop_variable());
    if (roll(2)) where.guard = lt(where.address, workers_ * kTile);
    if (roll(3) == 0) where.guard = logical_and(where.guard, any_condition());
    bool floating = options_.smooth || roll(3);
    keep(builder_->load(floating ? kA : kB, floating ? kF32 : kI32, where));
  }

  void reduce() {
    Value v = pick(kF32);
    const Dims& shape = type(v).shape;
    if (shape.empty()) return;
    int axis = roll(static_cast<int>(shape.size()));
    auto reducer = simple_reducer(options_.smooth || roll(2) ? ScalarOp::add : ScalarOp::maximum, kF32);
    Builder::Access where = access(shape, 0);
    Expr guard = roll(2) && where.coords[static_cast<size_t>(axis)].is_var()
                     ? lt(where.coords[static_cast<size_t>(axis)], size_ + 1)
                     : Expr(1);
    keep(builder_->reduce(std::vector<Value>{v}, axis, reducer, guard, where.coords)[0]);
  }

  void transpose() {
    std::vector<Value> rows;
    for (Value v : pool_)
      if (type(v) == Type{kF32, shapes_[1]}) rows = {v};
    while (rows.size() < static_cast<size_t>(shapes_[1][0])) rows.push_back(pick_like(rows[0]));
    for (Value v : builder_->transpose(rows))
      if (roll(3) == 0) keep(v);
  }

  void scan() {
    Value v = pick(kF32);
    const Dims shape = type(v).shape;
    if (shape.empty()) return;
    int axis = roll(static_cast<int>(shape.size()));
    auto reducer = simple_reducer(options_.smooth || roll(2) ? ScalarOp::add : ScalarOp::minimum, kF32);
    Builder::Access where = access(shape, 0);
    Dims reduced = shape;
    reduced[static_cast<size_t>(axis)] = 1;
    if (options_.level == Level::Thread) reduced = {};
    Value start = builder_->constant(neutral(*reducer, 0), reduced);
    std::vector<Value> made = builder_->scan(std::vector<Value>{v}, std::vector<Value>{start}, axis, reducer, 1);
    if (roll(2)) keep(made[1]);
    keep(made[0]);
  }

  void scalar_op() {
    if (options_.smooth) {
      constexpr ScalarOp ops[] = {ScalarOp::add, ScalarOp::mul, ScalarOp::sub, ScalarOp::add, ScalarOp::mul};
      Value a = pick(kF32), b = pick(kF32);
      Value half = builder_->constant(Scalar::of(kF32, 0.25));
      ScalarOp op = ops[roll(5)];
      // Keeps magnitudes from exploding over repeated products.
      if (op == ScalarOp::mul) b = half;
      Value result = builder_->op(op, {a, b});
      if (op == ScalarOp::mul) result = builder_->op(roll(2) ? ScalarOp::add : ScalarOp::sub, {result, pick(kF32)});
      keep(result);
      return;
    }
    for (int tries = 0; tries < 50; ++tries) {
      auto op = static_cast<ScalarOp>(roll(kScalarOpCount));
      if (!info(op).native) continue;
      DType dtype = any_dtype();
      if (op == ScalarOp::where) {
        keep(builder_->op(op, {pick(kBool), pick(dtype), pick(dtype)}));
        return;
      }
      std::vector<DType> dtypes(static_cast<size_t>(info(op).arity), dtype);
      if (!result_dtype(op, dtypes)) continue;
      std::vector<Value> args;
      for (size_t k = 0; k < dtypes.size(); ++k) args.push_back(pick(dtype));
      keep(builder_->op(op, args));
      return;
    }
  }

  void loop(int depth) {
    Expr extents[] = {Expr(2), Expr(3), Expr(5), Expr(12), size_, size_ + 1, block_ + 1};
    Expr variable = Expr::index("k", extents[roll(7)]);
    std::vector<Value> init;
    for (int k = roll(3); k > 0; --k) init.push_back(pick(any_dtype()));
    size_t scope = pool_.size();
    loops_.push_back(variable);
    constexpr int factors[] = {0, 0, 0, 2, 3, 4};
    std::vector<Value> results = builder_->loop(
        variable, init,
        [&](std::span<const Value> carried) {
          for (Value v : carried) keep(v);
          statements(2 + roll(6), depth + 1);
          std::vector<Value> next;
          for (Value v : carried) next.push_back(pick_like(v));
          return next;
        },
        factors[roll(6)]);
    loops_.pop_back();
    pool_.resize(scope);
    for (Value v : results) keep(v);
  }

  void branch(int depth) {
    Value model = pick(any_dtype());
    size_t scope = pool_.size();
    bool uniform = uniform_;
    uniform_ = false;
    auto side = [&] {
      statements(1 + roll(4), depth + 1);
      std::vector<Value> result{pick_like(model)};
      pool_.resize(scope);
      return result;
    };
    // Data may decide only where the value is one for the whole thread, a scalar.
    Value flag = pick(kBool);
    bool by_data = options_.level == Level::Thread && type(flag).shape.empty() && roll(2) == 0;
    std::vector<Value> results =
        by_data ? builder_->branch_on(flag, side, side) : builder_->branch(any_condition(), side, side);
    uniform_ = uniform;
    for (Value v : results) keep(v);
  }

  // Threads read what their neighbours wrote.
  void exchange() {
    if (!uniform_) return;
    Value v = builder_->load(kShared, kF32, access(shapes_[1], own_shared()));
    builder_->barrier();
    builder_->store(kShared, builder_->op(ScalarOp::add, {v, pick(kF32)}), access(shapes_[1], own_shared()));
    builder_->barrier();
    Expr neighbour = mod(kernel.thread + 1, options_.threads);
    keep(builder_->load(kShared, kF32, access(any_shape(), neighbour * kTile)));
    builder_->barrier();
  }

  std::mt19937_64 random_;
  RandomKernelOptions options_;
  Builder* builder_ = nullptr;
  Expr block_, worker_, size_;
  int64_t workers_ = 1;
  std::vector<Dims> shapes_;
  std::vector<Value> pool_;
  std::vector<Expr> loops_;
  bool uniform_ = true;  // all threads are here
};

}  // namespace heddle::kernel
