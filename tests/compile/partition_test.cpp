// What goes to memory between kernels, and in which order of axes.
#include <set>

#include "compile/fuse/index_map.h"
#include "compile/loops/contraction.h"
#include "nest_graphs.h"
#include "run_program.h"

namespace heddle {
namespace {

using namespace heddle::testing;

TEST(IndexMap, axes_that_a_reshape_leaves_alone_keep_positions_outside) {
  Expr n = Expr::index("n", 8), c = Expr::index("c", 6), y = Expr::index("y", 24), x = Expr::index("x", 20),
       r = Expr::index("r", 7), guard = 1;
  NodeRef image = leaf({8, 6, 24, 20}, 1);
  EXPECT_EQ(source_index(*make_reshape(image, Shape{8, 1, 6, 24, 20}), {n, 0, c, y + r - 3, x - 1}, &guard),
            (Index{n, c, y + r - 3, x - 1}));
  Expr both = Expr::index("nc", 48);
  EXPECT_EQ(source_index(*make_reshape(image, Shape{48, 24, 20}), {both, y + r - 3, x - 1}, &guard),
            (Index{floordiv(both, 6), mod(both, 6), y + r - 3, x - 1}));
  // Three axes to two others, between axes that stay.
  Expr a = Expr::index("a", 9), b = Expr::index("b", 16);
  EXPECT_EQ(source_index(*make_reshape(leaf({5, 6, 4, 6, 7}, 2), Shape{5, 9, 16, 7}), {n, a, b, x - 1}, &guard),
            (Index{n, floordiv(a * 16 + b, 24), mod(floordiv(a * 16 + b, 6), 4), mod(a * 16 + b, 6), x - 1}));
}

// A filter for each channel, over an image that arrives with its channels last.
NodeRef depthwise(const NodeRef& image, const NodeRef& filter) {
  const int64_t size = filter->shape[1].value();
  NodeRef x = make_permute(image, std::vector<int>{0, 3, 1, 2});
  const std::vector<Expr> around{0, 0, size / 2, size / 2};
  x = make_window(make_window(make_pad(x, around, around, Scalar::of(kF32, 0.0)), 2, size, 1, 1), 3, size, 1, 1);
  NodeRef w = make_reshape(filter, Shape{1, filter->shape[0], 1, 1, size, size});
  return make_reduce(ReduceOp::Sum, op(ScalarOp::mul, {x, make_expand(w, x->shape)}), std::vector<int>{4, 5});
}

TEST(Partition, windows_of_a_permuted_image_are_read_from_a_copy_in_their_order) {
  NodeRef image = leaf({2, 20, 20, 8}, 1), filter = leaf({8, 5, 5}, 2);
  NodeRef root = depthwise(op(ScalarOp::tanh, {image}), filter);
  Program program = fuse(std::span(&root, 1));
  ASSERT_EQ(program.steps.size(), 2u);
  const Loops& sums = program.steps[1].loops;
  const Expr fast = sums.stages[0].inner.back().var;
  for (const kernel::Inst& inst : sums.stages[0].body.insts) {
    if (inst.op != kernel::Op::load) continue;
    EXPECT_EQ(linear_in(inst.address, fast)->coefficient, 1);
  }
  expect_like_evaluator(std::span(&root, 1), 2, 1e-4, [](How how) { return how == How::Simd ? 4 : 1; });
  // Few windows see an element: what it costs to look across memory is less than a copy.
  NodeRef few = depthwise(op(ScalarOp::neg, {leaf({2, 40, 40, 16}, 3)}), leaf({16, 1, 1}, 4));
  EXPECT_EQ(fuse(std::span(&few, 1)).steps.size(), 1u);
}

TEST(Partition, a_permuted_factor_of_a_product_is_read_where_it_lies) {
  NodeRef root = matmul(transposed(leaf({64, 96}, 1)), leaf({64, 80}, 2));
  EXPECT_EQ(fuse(std::span(&root, 1)).steps.size(), 1u);
}

// The last kernel could join either of the first two.
TEST(Partition, does_not_depend_on_where_nodes_lie_in_memory) {
  std::vector<NodeRef> held;
  std::set<std::string> programs;
  for (int round = 0; round < 20; ++round) {
    NodeRef a = leaf({16, 32}, 1), b = leaf({16, 32}, 2), c = leaf({16, 32}, 3), d = leaf({16, 32}, 4);
    std::vector<NodeRef> roots{op(ScalarOp::mul, {a, c}), op(ScalarOp::tanh, {op(ScalarOp::add, {a, b})}),
                               op(ScalarOp::exp, {op(ScalarOp::add, {c, d})})};
    std::string text;
    for (const Program::Step& step : fuse(roots).steps)
      text += step.loops.name + " of " + std::to_string(step.loops.buffers.size()) + ", ";
    programs.insert(text);
    held.insert(held.end(), roots.begin(), roots.end());
  }
  EXPECT_EQ(programs.size(), 1u) << *programs.begin() << "and " << *programs.rbegin();
}

// Several kernels compute the same products on the way to their sums: what they multiply goes to memory, never the
// products, which are 64 times as many.
TEST(Partition, products_that_several_kernels_sum_are_not_in_memory) {
  NodeRef gate = op(ScalarOp::tanh, {op(ScalarOp::sin, {matmul(leaf({128, 32}, 1), leaf({32, 64}, 2))})});
  NodeRef h = matmul(op(ScalarOp::mul, {leaf({128, 64}, 3), op(ScalarOp::exp, {gate})}), leaf({64, 64}, 4));
  NodeRef y = op(ScalarOp::div, {h, op(ScalarOp::sqrt, {rows(ReduceOp::Sum, op(ScalarOp::mul, {h, h}))})});
  std::vector<NodeRef> roots;
  for (uint64_t seed : {5, 6, 7}) roots.push_back(op(ScalarOp::tanh, {matmul(y, leaf({64, 64}, seed))}));
  roots = {matmul(op(ScalarOp::mul, {roots[0], roots[1]}), transposed(roots[2]))};
  for (const Program::Tensor& tensor : fuse(roots).tensors) EXPECT_LE(tensor.node->shape.static_numel(), 128 * 128);
  expect_like_evaluator(roots, -1, 1e-3, [](How how) { return how == How::Simd ? 4 : 1; });
}

// Normalised rows that another product wants transposed are in memory: the first product is an ordinary one, not a
// nest that reads its factor.
TEST(Partition, a_product_of_a_factor_in_memory_is_no_nest) {
  NodeRef x = leaf({200, 64}, 1);
  NodeRef y = op(ScalarOp::div, {x, op(ScalarOp::sqrt, {rows(ReduceOp::Sum, op(ScalarOp::mul, {x, x}))})});
  std::vector<NodeRef> roots{matmul(y, leaf({64, 48}, 2)), matmul(transposed(y), leaf({200, 48}, 3))};
  Program program = fuse(roots);
  int products = 0;
  for (const Program::Step& step : program.steps) {
    auto c = find_contraction(step.loops, step.loops.stages[0]);
    products += c && c->is_matmul();
  }
  EXPECT_EQ(products, 2);
  expect_like_evaluator(roots, -1, 1e-4, [](How how) { return how == How::Simd ? 4 : 1; });
}

// What two kernels would compute again goes to memory, and the one that has its loops writes it on the way.
TEST(Partition, what_several_kernels_read_is_written_by_the_first) {
  NodeRef y = leaf({300, 400}, 1);
  for (int i = 0; i < 4; ++i) y = op(ScalarOp::sin, {op(ScalarOp::tanh, {y})});
  std::vector<NodeRef> roots{op(ScalarOp::neg, {y}), reduce(ReduceOp::Sum, y, 0)};
  Program program = fuse(roots);
  EXPECT_EQ(program.steps.size(), 2u);
  expect_like_evaluator(roots, 2, 1e-4, [](How how) { return how == How::Simd ? 4 : 1; });
}

// A layer's norm is read by three products: none computes it on the way, and its statistics are in its own kernel.
TEST(Partition, a_factor_of_several_products_is_no_nest) {
  NodeRef x = leaf({256, 128}, 1);
  NodeRef y = op(ScalarOp::div, {x, op(ScalarOp::sqrt, {rows(ReduceOp::Sum, op(ScalarOp::mul, {x, x}))})});
  std::vector<NodeRef> roots;
  for (uint64_t seed : {2, 3, 4}) roots.push_back(op(ScalarOp::tanh, {matmul(y, leaf({128, 64}, seed))}));
  Program program = fuse(roots);
  for (const Program::Step& step : program.steps) EXPECT_TRUE(step.nested.empty());
  // One product alone takes it in.
  EXPECT_EQ(fuse(std::span(roots).first(1)).steps.size(), 1u);
  expect_like_evaluator(roots, -1, 1e-4, [](How how) { return how == How::Simd ? 4 : 1; });
}

// Normalised rows, and something over columns that needs their statistics as well, as gradients do.
struct Norm {
  NodeRef mean, scale, y, columns;
  explicit Norm(const Shape& shape) {
    NodeRef x = leaf(shape, 1), size = make_const(Scalar::of(kF32, 1.0 / static_cast<double>(shape[1].value())), {});
    auto mean_of = [&](const NodeRef& value) {
      NodeRef sum = rows(ReduceOp::Sum, value);
      return op(ScalarOp::mul, {sum, make_expand(make_reshape(size, Shape{1, 1}), sum->shape)});
    };
    mean = mean_of(x);
    NodeRef centred = op(ScalarOp::sub, {x, mean});
    scale = op(ScalarOp::sqrt, {mean_of(op(ScalarOp::mul, {centred, centred}))});
    y = op(ScalarOp::div, {centred, scale});
    columns = reduce(ReduceOp::Sum, op(ScalarOp::mul, {op(ScalarOp::add, {mean, scale}), leaf(shape, 2)}), 0);
  }
  size_t steps(Machine machine = Machine::Simd) const {
    FuseOptions options;
    options.machine = machine;
    return fuse(std::vector<NodeRef>{y, columns}, {}, options).steps.size();
  }
};

// Mean and variance are wanted by two kernels. The first of them computes and writes both, though each is a reduction
// that the next one needs.
TEST(Partition, statistics_of_rows_are_computed_where_they_are_first_read) {
  Norm norm({256, 100});
  std::vector<NodeRef> roots{norm.y, norm.columns};
  expect_like_evaluator(roots, 2, 1e-4, [](How how) { return how == How::Simd ? 4 : 1; });
  // With few and long rows a kernel of rows would leave most of a machine idle.
  EXPECT_EQ(Norm({64, 1024}).steps(), 2u);
  EXPECT_GT(Norm({63, 1024}).steps(), 2u);
  // Rows that no block has at hand are read from memory for each of the reductions, whoever makes them.
  EXPECT_EQ(Norm({128, 1 << 14}).steps(), 2u);
  EXPECT_GT(Norm({128, (1 << 14) + 1}).steps(), 2u);
  // Rows as few as a GPU's multiprocessors must be short there.
  EXPECT_EQ(Norm({128, 2048}).steps(Machine::Simt), 2u);
  EXPECT_GT(Norm({128, 2049}).steps(Machine::Simt), 2u);
  EXPECT_EQ(Norm({129, 2049}).steps(Machine::Simt), 2u);
  // Many short rows on a CPU: what is computed once per row would take longer than reading them again.
  EXPECT_EQ(Norm({20000, 30}).steps(), 2u);
  EXPECT_GT(Norm({20000, 20}).steps(), 2u);
}

// A CPU walks columns row by row, a GPU gives each to other threads.
TEST(Partition, statistics_of_columns_stay_apart_on_a_cpu) {
  NodeRef x = leaf({200, 100}, 1);
  auto across = [&](ReduceOp o, const NodeRef& v) {
    return make_expand(make_reshape(reduce(o, v, 0), Shape{1, 100}), x->shape);
  };
  NodeRef most = across(ReduceOp::Max, x), apart = op(ScalarOp::sub, {x, most});
  std::vector<NodeRef> roots{apart, reduce(ReduceOp::Sum, op(ScalarOp::mul, {most, leaf({200, 100}, 2)}), 1)};
  FuseOptions gpu;
  gpu.machine = Machine::Simt;
  EXPECT_EQ(fuse(roots, {}, gpu).steps.size(), 2u);
  EXPECT_EQ(fuse(roots).steps.size(), 3u);
}

// What waits for the statistics cannot be in the kernel that writes them.
TEST(Partition, statistics_are_not_computed_by_who_waits_for_them) {
  NodeRef x = leaf({128, 96}, 1), sum = rows(ReduceOp::Sum, x);
  NodeRef late = make_barrier(op(ScalarOp::exp, {x}), sum);
  std::vector<NodeRef> roots{op(ScalarOp::mul, {late, sum}), reduce(ReduceOp::Max, op(ScalarOp::mul, {x, sum}), 0)};
  expect_like_evaluator(roots, 3, 1e-4, [](How how) { return how == How::Simd ? 4 : 1; });
}

// Two changes in place that need the same value, which reads both memories: it is computed once, before.
TEST(Partition, updates_share_what_is_computed_before_them) {
  NodeRef a = leaf({1000}, 1), b = leaf({1000}, 2);
  auto start = [](const NodeRef& x) { return make_shrink(x, std::vector<Expr>{0}, std::vector<Expr>{500}); };
  NodeRef t = op(ScalarOp::add, {make_flip(start(a), std::vector<int>{0}), make_flip(start(b), std::vector<int>{0})});
  NodeRef inside = op(ScalarOp::lt, {make_iota(kI64, Shape{1000}, 0), make_const(Scalar::of(kI64, 500), Shape{1000})});
  NodeRef wide = make_pad(t, std::vector<Expr>{0}, std::vector<Expr>{500}, Scalar::of(kF32, 0.0));
  std::vector<NodeRef> roots{op(ScalarOp::where, {inside, wide, a}), op(ScalarOp::where, {inside, wide, b})};
  std::vector<const Node*> replaces{a.get(), b.get()};
  Program program = fuse(roots, replaces);
  size_t flips = 0;  // kernels that read both memories
  for (const Program::Step& step : program.steps)
    for (const Program::Segment& segment : step.segments) {
      auto reads = [&](const NodeRef& x) {
        return std::ranges::any_of(segment.tensors, [&](int which) { return program.tensors[which].node == x.get(); });
      };
      flips += reads(a) && reads(b);
    }
  EXPECT_EQ(flips, 1u);
}

}  // namespace
}  // namespace heddle
