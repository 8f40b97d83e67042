// The SIMT lowering: what the simulator computes with many threads equals what it computes with tiles.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "base/error.h"
#include "compile/simt/lower.h"
#include "compile/simt_programs.h"
#include "kernel/builder.h"
#include "kernel/interpreter.h"
#include "kernel/ir.h"
#include "kernel/passes.h"

namespace heddle {
namespace {

using kernel::Inst;
using kernel::Kernel;
using kernel::Op;
using kernel::Space;
using kernel::Value;
using testing::simt_programs;
using testing::SimtProgram;

constexpr int64_t kSymbol = 300;  // the value of every symbol

Target gpu() {
  Target target;
  target.name = "simulated";
  target.machine = Machine::Simt;
  target.shared_bytes = 200 << 10;
  return target;
}

Kernel parsed(const char* text, int threads) {
  Kernel k = kernel::parse(text);
  k.threads = threads;
  return k;
}

Kernel program(const std::string& name, int threads) {
  for (const SimtProgram& p : simt_programs()) {
    if (p.name == name) return parsed(p.text, threads);
  }
  throw ValueError("no program " + name);
}

using Memory = std::vector<std::vector<std::byte>>;

// Fills every buffer: floats in [-2, 2], integers in [0, 50).
Memory random_memory(const Kernel& k, uint64_t seed) {
  std::mt19937_64 random(seed);
  Memory memory;
  for (const kernel::Buffer& b : k.buffers) {
    int64_t size = evaluate(b.size, [](const Expr&) { return kSymbol; });
    memory.emplace_back(static_cast<size_t>(size * size_of(b.dtype)));
    for (int64_t i = 0; i < size; ++i) {
      auto bits = random();
      Scalar s = is_float(b.dtype) ? Scalar::of(b.dtype, double(bits % 4096) / 1024 - 2)
                                   : Scalar::of(b.dtype, static_cast<int64_t>(bits % 50));
      store_scalar(memory.back().data(), i, s);
    }
  }
  return memory;
}

// Runs k on a copy of `memory`, which may lack the shared buffers at the end.
Memory run(const Kernel& k, Memory memory) {
  memory.resize(k.buffers.size());
  std::vector<void*> pointers;
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < k.buffers.size(); ++i) {
    bool shared = k.buffers[i].space == Space::Shared;
    pointers.push_back(shared ? nullptr : memory[i].data());
    sizes.push_back(shared ? k.buffers[i].size.value()
                           : static_cast<int64_t>(memory[i].size()) / size_of(k.buffers[i].dtype));
  }
  std::vector<int64_t> symbols(k.symbols.size(), kSymbol);
  kernel::interpret(k, pointers, sizes, symbols);
  return memory;
}

void expect_equal(const Kernel& k, const Memory& expected, const Memory& actual, double tolerance) {
  for (size_t i = 0; i < k.buffers.size(); ++i) {
    const kernel::Buffer& b = k.buffers[i];
    if (b.space != Space::Out && b.space != Space::InOut) continue;
    int64_t size = static_cast<int64_t>(expected[i].size()) / size_of(b.dtype);
    int shown = 0;
    for (int64_t e = 0; e < size && shown < 4; ++e) {
      Scalar x = load_scalar(expected[i].data(), e, b.dtype), y = load_scalar(actual[i].data(), e, b.dtype);
      if (x == y) continue;
      double scale = std::max(1.0, std::abs(x.as_double()));
      if (is_float(b.dtype) && std::abs(x.as_double() - y.as_double()) <= tolerance * scale) continue;
      ADD_FAILURE() << k.name << " with " << k.threads << " threads: " << b.name << "[" << e << "] is " << y
                    << ", should be " << x;
      ++shown;
    }
  }
}

// Lowers, verifies, and compares with the tile-level program.
Kernel check(const Kernel& tile, double tolerance, uint64_t seed = 1) {
  kernel::verify(tile);
  Kernel lowered = lower_simt(tile, gpu());
  kernel::verify(lowered);
  EXPECT_EQ(lowered.level, kernel::Level::Thread);
  EXPECT_EQ(lowered.threads, tile.threads);
  Memory memory = random_memory(tile, seed);
  try {
    Memory expected = run(tile, memory);
    Memory actual = run(lowered, memory);
    expect_equal(tile, expected, actual, tolerance);
  } catch (const DeviceError& e) {
    ADD_FAILURE() << e.what() << "\n" << print(lowered);
  }
  return lowered;
}

int count(const Kernel& k, const std::function<bool(const Inst&)>& f) {
  int n = 0;
  for (const auto& phase : k.phases) kernel::visit(phase.body, [&](const Inst& inst) { n += f(inst); });
  return n;
}
int count(const Kernel& k, Op op) {
  return count(k, [op](const Inst& inst) { return inst.op == op; });
}

class Programs : public ::testing::TestWithParam<int> {};

TEST_P(Programs, compute_the_same_as_tiles) {
  for (const SimtProgram& p : simt_programs()) {
    SCOPED_TRACE(p.name);
    check(parsed(p.text, GetParam()), p.tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, Programs, ::testing::Values(1, 8, 32, 64, 96, 256, 48));

TEST(LowerSimt, pipeline_after_lowering_keeps_the_values) {
  for (const SimtProgram& p : simt_programs()) {
    SCOPED_TRACE(p.name);
    Kernel tile = parsed(p.text, 64);
    Kernel lowered = lower_simt(tile, gpu());
    kernel::run(lowered, kernel::thread_pipeline());
    kernel::verify(lowered);
    Memory memory = random_memory(tile, 3);
    expect_equal(tile, run(tile, memory), run(lowered, memory), std::max(p.tolerance, 1e-5));
  }
}

TEST(LowerSimt, softmax_loads_each_element_once_in_vectors) {
  Kernel k = lower_simt(program("softmax", 128), gpu());
  EXPECT_EQ(k.phases.size(), 1u);
  // 1000 elements: two vectors of four for each of 128 threads.
  auto global_load = [&](const Inst& inst) { return inst.op == Op::load && k.buffers[inst.buffer].space == Space::In; };
  EXPECT_EQ(count(k, global_load), 2);
  EXPECT_EQ(count(k, [&](const Inst& inst) { return global_load(inst) && k.values[inst.results[0]].numel() == 4; }), 2);
  EXPECT_EQ(count(k, Op::exp), 2);
  // Each reduction: five shuffles and one exchange between warps.
  EXPECT_EQ(count(k, Op::shuffle_xor), 10);
  EXPECT_EQ(count(k, Op::barrier), 2);
}

TEST(LowerSimt, rows_of_several_warps_need_no_shared_memory) {
  Kernel k = lower_simt(program("layernorm_rows", 256), gpu());
  EXPECT_EQ(count(k, Op::barrier), 0);
  for (const auto& b : k.buffers) EXPECT_NE(b.space, Space::Shared);
}

TEST(LowerSimt, elementwise_uses_one_vector_access_and_one_guard) {
  Kernel k = lower_simt(program("elementwise", 64), gpu());
  int accesses = 0;
  kernel::visit(k.phases[0].body, [&](const Inst& inst) {
    if (inst.op != Op::load && inst.op != Op::store) return;
    ++accesses;
    ASSERT_EQ(inst.coords.size(), 1u);
    EXPECT_TRUE(inst.coords[0].extent().is_const(4));
    EXPECT_FALSE(depends_on(inst.guard, inst.coords[0])) << inst.guard;
    auto linear = linear_in(inst.address, inst.coords[0]);
    ASSERT_TRUE(linear);
    EXPECT_EQ(linear->coefficient, 1);
    EXPECT_EQ(linear->rest.multiple() % 4, 0);
  });
  EXPECT_EQ(accesses, 3);
}

TEST(LowerSimt, updating_in_place_needs_no_barrier_but_reversing_does) {
  EXPECT_EQ(count(lower_simt(program("in_place", 128), gpu()), Op::barrier), 0);
  EXPECT_GE(count(lower_simt(program("reverse_in_place", 64), gpu()), Op::barrier), 1);
}

TEST(LowerSimt, staged_matmul_has_two_barriers_per_block_and_blocks_of_registers) {
  Kernel k = lower_simt(program("matmul_staged", 256), gpu());
  const Inst* loop = nullptr;
  for (const Inst& inst : k.phases[0].body.insts) {
    if (inst.op == Op::loop) loop = &inst;
  }
  ASSERT_TRUE(loop);
  // None of them inside the loop over the contracted dimension.
  int barriers = 0;
  for (const Inst& inst : loop->bodies[0].insts) barriers += inst.op == Op::barrier;
  EXPECT_EQ(barriers, 2);
  EXPECT_EQ(count(k, Op::barrier), 2);
  // 64 x 64 over 256 threads: 16 elements each, and what the next tile of both factors needs.
  int64_t elements = 0;
  for (Value v : loop->results) elements += k.values[v].numel();
  EXPECT_EQ(elements, 16 + 8);
}

void drop_barriers(kernel::Body& code) {
  std::erase_if(code.insts, [](const Inst& inst) { return inst.op == Op::barrier; });
  for (Inst& inst : code.insts) {
    for (kernel::Body& inner : inst.bodies) drop_barriers(inner);
  }
}

TEST(LowerSimt, without_its_barriers_a_kernel_races) {
  for (const char* name : {"softmax", "matmul_staged", "two_widths", "column_sums"}) {
    SCOPED_TRACE(name);
    Kernel tile = program(name, 64);
    Kernel lowered = lower_simt(tile, gpu());
    ASSERT_GT(count(lowered, Op::barrier), 0);
    drop_barriers(lowered.phases[0].body);
    EXPECT_THROW(run(lowered, random_memory(tile, 1)), DeviceError);
  }
}

TEST(LowerSimt, every_single_barrier_of_a_staged_matmul_is_needed) {
  Kernel tile = program("matmul_staged", 64);
  int barriers = count(lower_simt(tile, gpu()), Op::barrier);
  for (int skip = 0; skip < barriers; ++skip) {
    Kernel lowered = lower_simt(tile, gpu());
    int seen = 0;
    std::function<void(kernel::Body&)> edit = [&](kernel::Body& code) {
      std::erase_if(code.insts, [&](const Inst& inst) { return inst.op == Op::barrier && seen++ == skip; });
      for (Inst& inst : code.insts) {
        for (kernel::Body& inner : inst.bodies) edit(inner);
      }
    };
    edit(lowered.phases[0].body);
    EXPECT_THROW(run(lowered, random_memory(tile, 1)), DeviceError) << "without barrier " << skip;
  }
}

TEST(LowerSimt, phases_share_shared_memory) {
  Kernel one = lower_simt(program("softmax", 128), gpu());
  Kernel tile = program("softmax", 128);
  kernel::Phase copy;  // with values of its own
  copy.blocks = tile.phases[0].blocks;
  kernel::Builder b(tile.values, copy.body);
  std::vector<Value> map;
  for (const Inst& inst : tile.phases[0].body.insts) b.clone(inst, map);
  tile.phases.push_back(copy);
  Kernel two = check(tile, 1e-5);
  EXPECT_EQ(two.buffers.size(), one.buffers.size());
}

TEST(LowerSimt, too_much_shared_memory_is_a_compile_error) {
  Target small = gpu();
  small.shared_bytes = 1024;
  EXPECT_THROW(lower_simt(program("matmul_staged", 64), small), CompileError);
}

// Each value is used twice: whoever follows every way back would never end.
TEST(LowerSimt, values_used_twice_again_and_again_take_linear_time) {
  std::string body = "    %0 = load %x[d0] : tile<16xf32>\n";
  for (int i = 1; i <= 60; ++i) body += text("    %", i, " = add %", i - 1, ", %", i - 1, "\n");
  Kernel k = parsed(("kernel @k(in %x: f32[16], out %y: f32[16], out %z: f32[16]) {\n  phase grid() {\n" + body +
                     "    store %y[d0], %60\n    store %z[d0], %60\n  }\n}\n")
                        .c_str(),
                    32);
  EXPECT_LT(lower_simt(k, gpu()).values.size(), 1000u);
}

TEST(LowerSimt, too_many_threads_are_a_compile_error) {
  EXPECT_THROW(lower_simt(program("softmax", 2048), gpu()), CompileError);
}

// Random programs over tiles of shape R x C and what reductions and broadcasts make of them. With `mixed` there are
// tiles of other widths too, which cannot share a layout with the first.
Kernel random_program(uint64_t seed, bool mixed = false) {
  std::mt19937_64 random(seed);
  auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  const int64_t sizes[] = {1, 2, 3, 5, 8, 16, 17, 31, 32, 40, 64, 100, 129};
  const int thread_counts[] = {4, 32, 64, 96, 128, 256};
  const int64_t rows = sizes[below(11)], columns = sizes[below(13)], blocks = 1 + below(3);
  const DType dtype = below(3) ? kI32 : kF32;

  Kernel k;
  k.name = "random";
  k.threads = thread_counts[below(6)];
  const int64_t wide = mixed ? sizes[below(13)] : columns;
  const int64_t elements = rows * columns, most = rows * std::max(columns, wide);
  k.buffers = {{"x", dtype, Space::In, blocks * elements},
               {"y", dtype, Space::In, most + rows + columns},
               {"at", kI32, Space::In, 64},
               {"out", dtype, Space::Out, blocks * most * 3},
               {"state", dtype, Space::InOut, blocks * elements},
               {"stage", dtype, Space::Shared, most}};
  kernel::Phase& phase = k.phases.emplace_back();
  Expr block = Expr::index("block", blocks);
  phase.blocks = {block};
  kernel::Builder b(k, phase);

  using Pool = std::vector<Value>;
  auto coords = [](int64_t r, int64_t c) { return SmallVector<Expr, 4>{Expr::index("i", r), Expr::index("j", c)}; };
  auto full = [&](const SmallVector<Expr, 4>& at) { return below(2) ? at[0] * columns + at[1] : at[1] * rows + at[0]; };
  auto load = [&](int64_t r, int64_t c, const Expr& shift) {
    kernel::Builder::Access a;
    a.coords = coords(r, c);
    int64_t kind = below(4);
    if (kind == 2 && c != columns && c != 1) kind = 0;
    if (below(3) == 0) a.guard = lt(a.coords[below(2)], 1 + below(std::max(r, c)));
    if (kind == 0) {
      a.address = a.coords[0] * c + a.coords[1] + shift;
      return b.load(1, dtype, a);
    }
    if (kind == 1) {  // gather
      kernel::Builder::Access index;
      index.coords = coords(below(2) ? r : 1, c);
      index.address = mod(index.coords[1] * 3 + index.coords[0], 64);
      Expr v = Expr::index("v0", 50);
      a.binds = {v};
      a.bound = {b.load(2, kI32, index)};
      a.address = mod(v + a.coords[0], elements);
      return b.load(1, dtype, a);
    }
    if (kind == 2) {
      a.address = block * elements + full(a.coords);
      return b.load(r == rows && c == columns && below(2) ? 4 : 0, dtype, a);
    }
    Value v = b.index(kI32, a.coords[0] * 3 + a.coords[1] + block + shift, a.coords);
    return b.cast(v, dtype);
  };
  auto shape_of = [&](Value v) { return k.values[v].shape; };
  auto pick = [&](const Pool& pool) { return pool[below(static_cast<int64_t>(pool.size()))]; };
  auto fits = [&](Value a, Value other) {
    bool result = true;
    for (size_t d = 0; d < 2; ++d) {
      int64_t x = shape_of(a)[d], y = shape_of(other)[d];
      result &= x == y || x == 1 || y == 1;
    }
    return result;
  };
  // Another that broadcasts against all of `those`; the first of them is the way out.
  auto pick_like = [&](const Pool& pool, const Pool& those) {
    Value v = pick(pool);
    bool good = std::all_of(those.begin(), those.end(), [&](Value x) { return fits(v, x); });
    return good ? v : those[0];
  };
  auto reduce = [&](Value v) {
    const ScalarOp ops[] = {ScalarOp::add, ScalarOp::maximum, ScalarOp::minimum};
    int axis = static_cast<int>(below(2));
    kernel::Dims dims = shape_of(v);
    auto at = coords(dims[0], dims[1]);
    if (below(4) == 0) {
      auto index = b.index(kI64, at[0] * 200 + at[1], at);
      const Value args[] = {v, index};
      auto both = b.reduce(args, axis, kernel::arg_reducer(below(2), dtype), lt(at[axis], 1 + below(dims[axis])), at);
      return below(2) ? both[0] : b.cast(both[1], dtype);
    }
    const Value args[] = {v};
    Expr guard = below(2) ? Expr(1) : lt(at[axis], 1 + below(dims[axis]));
    return b.reduce(args, axis, kernel::simple_reducer(ops[below(3)], dtype), guard, at)[0];
  };
  auto store = [&](int buffer, Value v, const Expr& base, bool permute) {
    kernel::Builder::Access a;
    kernel::Dims dims = shape_of(v);
    a.coords = coords(dims[0], dims[1]);
    a.address = base + (permute ? a.coords[1] * dims[0] + a.coords[0] : a.coords[0] * dims[1] + a.coords[1]);
    if (below(3) == 0) a.guard = lt(a.coords[1], 1 + below(dims[1]));
    b.store(buffer, v, a);
  };
  Expr none = 0;
  std::function<void(Pool&, int, int, const Expr&)> some = [&](Pool& pool, int steps, int depth, const Expr& shift) {
    for (int s = 0; s < steps; ++s) {
      switch (below(depth > 0 ? 12 : 10)) {
        case 0:
        case 1: {
          int64_t width = mixed && below(2) ? wide : columns;
          pool.push_back(load(below(4) ? rows : 1, below(4) ? width : 1, shift));
          break;
        }
        case 2:
        case 3: {
          Value x = pick(pool), y = pick_like(pool, {x});
          pool.push_back(b.op(below(2) ? ScalarOp::add : ScalarOp::maximum, {x, y}));
          break;
        }
        case 4: {
          Value x = pick(pool), y = pick_like(pool, {x});
          Value z = pick_like(pool, {x, y}), w = pick_like(pool, {x, y, z});
          pool.push_back(b.op(ScalarOp::where, {b.op(ScalarOp::lt, {x, y}), z, w}));
          break;
        }
        case 5:
        case 6: pool.push_back(reduce(pick(pool))); break;
        case 7: {  // through shared memory
          Value v = pick(pool);
          kernel::Dims dims = shape_of(v);
          kernel::Builder::Access a;
          a.coords = coords(dims[0], dims[1]);
          bool permute = below(2);
          auto address = [&](const auto& at) { return permute ? at[1] * dims[0] + at[0] : at[0] * dims[1] + at[1]; };
          a.address = address(a.coords);
          b.store(5, v, a);
          kernel::Builder::Access back;
          back.coords = coords(dims[0], dims[1]);
          back.address = address(SmallVector<Expr, 4>{dims[0] - 1 - back.coords[0], back.coords[1]});
          pool.push_back(b.load(5, dtype, back));
          break;
        }
        case 8: {
          Value v = pick(pool);
          if (k.values[v].numel() == elements) store(4, v, block * elements, below(2));
          break;
        }
        case 9: {
          Value x = pick(pool), y = pick_like(pool, {x});
          int axis = static_cast<int>(below(2));
          kernel::Dims dims = kernel::broadcast_dims(shape_of(x), shape_of(y));
          dims[axis] = 1;
          Value zero = b.constant(Scalar::of(dtype, 0), dims);
          // Keeps floats small: products of products would overflow.
          Value one = b.constant(Scalar::of(dtype, 1), shape_of(y));
          pool.push_back(b.dot(x, b.op(ScalarOp::minimum, {y, one}), zero, axis));
          break;
        }
        case 10: {
          Expr i = Expr::index("i" + std::to_string(below(1000)), 1 + below(3));
          Pool init = {pick(pool), pick(pool)};
          Pool results = b.loop(i, init, [&](std::span<const Value> carried) {
            Pool inner = pool;
            inner.insert(inner.end(), carried.begin(), carried.end());
            some(inner, 4, depth - 1, i);
            Pool next;
            for (Value v : carried) {
              Value other = pick(inner);
              bool smaller = true;
              for (size_t d = 0; d < 2; ++d) smaller &= shape_of(other)[d] == 1 || shape_of(other)[d] == shape_of(v)[d];
              bool same = shape_of(other) == shape_of(v);
              next.push_back(same && below(2) ? other : smaller ? b.op(ScalarOp::maximum, {v, other}) : v);
            }
            if (shape_of(next[0]) == shape_of(next[1])) std::swap(next[0], next[1]);
            return next;
          });
          pool.insert(pool.end(), results.begin(), results.end());
          break;
        }
        case 11: {
          Value v = pick(pool);
          Pool results = b.branch(
              lt(block + shift, 1 + below(2)),
              [&] {
                Pool inner = pool;
                some(inner, 3, depth - 1, shift);
                return Pool{v};
              },
              [&] { return Pool{b.op(ScalarOp::add, {v, v})}; });
          pool.push_back(results[0]);
          break;
        }
      }
    }
  };
  Pool pool = {load(rows, columns, none), load(rows, 1, none), load(1, columns, none)};
  some(pool, 10, 2, none);
  for (int i = 0; i < 3; ++i) store(3, pool[pool.size() - 1 - i], (block * 3 + i) * most, below(2));
  return k;
}

TEST(LowerSimt, random_programs_compute_the_same_as_tiles) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Kernel tile = random_program(seed, seed % 2);
    try {
      check(tile, 1e-3, seed);
    } catch (const CompileError&) {  // too much shared memory is a legitimate answer
    } catch (const Error& e) {
      ADD_FAILURE() << e.what() << "\n" << print(tile);
    }
    if (::testing::Test::HasFailure()) {
      std::printf("%s\n", print(tile).c_str());
      break;
    }
  }
}

}  // namespace
}  // namespace heddle
