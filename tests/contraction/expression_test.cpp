// Products with what stands around them, against the evaluator, which computes in double.
#include "base/error.h"
#include "near_evaluator.h"

namespace heddle {
namespace {

using namespace testing;

struct Inputs {
  Inputs(int64_t rows, int64_t inner, int64_t columns)
      : m(rows),
        k(inner),
        n(columns),
        a(noise({m, k}, 1)),
        b(noise({k, n}, 2)),
        bias(noise({n}, 3)),
        column(noise({m, 1}, 4)),
        inner_row(noise({k}, 5)),
        residual(noise({m, n}, 6)),
        a2(noise({m, k}, 7)),
        b2(noise({k, n}, 8)),
        table(noise({50, k}, 9)),
        ids((arange(m) * 17 % 50).realize()),
        a_bf16(noise({m, k}, 10, kBF16)),
        b_bf16(noise({k, n}, 11, kBF16)),
        b_i8((noise({k, n}, 12) * 100).cast(kI8).realize()) {}
  int64_t m, k, n;
  Tensor a, b, bias, column, inner_row, residual, a2, b2, table, ids, a_bf16, b_bf16, b_i8;
};

struct Case {
  const char* name;
  Tensors (*make)(const Inputs&);
  double gain = 1;  // times k: the length
};

#define HD_MAKE(...)                \
  [](const Inputs& in) -> Tensors { \
    (void)in;                       \
    return {__VA_ARGS__};           \
  }
const Case kBefore[] = {
    {"scaled and shifted", HD_MAKE(matmul(in.a * 2 + 1, in.b)), 3},
    {"relu", HD_MAKE(matmul(relu(in.a), in.b))},
    {"bf16 to f32", HD_MAKE(matmul(in.a_bf16.cast(kF32), in.b_bf16.cast(kF32)))},
    {"bf16 with f32", HD_MAKE(matmul(in.a, in.b_bf16.cast(kF32)))},
    {"rounded to bf16", HD_MAKE(matmul(in.a.cast(kBF16), in.b.cast(kBF16)))},
    {"i8 weights, scaled", HD_MAKE(matmul(in.a, in.b_i8.cast(kF32) * (in.bias * 0.01)))},
    {"scaled rows and columns", HD_MAKE(matmul(in.a* in.column, in.b* in.bias))},
    {"scaled along the sum", HD_MAKE(matmul(in.a* in.inner_row, in.b))},
    {"rows by index", HD_MAKE(matmul(gather(in.table, in.ids), in.b))},
    {"rows by index, to bf16", HD_MAKE(matmul(gather(in.table, in.ids).cast(kBF16), in.b_bf16))},
    {"softmax", HD_MAKE(matmul(softmax(in.a, -1), in.b))},
    {"layer_norm", HD_MAKE(matmul(layer_norm(in.a), in.b)), 4},
    {"where", HD_MAKE(matmul(in.a, where(in.b > 0, in.b, 0.5)))},
    {"transposed", HD_MAKE(matmul(in.b.transpose(), in.a.transpose()))},
    {"flipped", HD_MAKE(matmul(flip(in.a, {1}), flip(in.b, {0})))},
    {"a part of each", HD_MAKE(matmul(slice(in.a, 1, 3), slice(in.b, 0, 0, -3)))},
    {"every second row and column", HD_MAKE(matmul(slice(in.a, 0, 0, {}, 2), slice(in.b, 1, 1, {}, 2)))},
    {"every second term", HD_MAKE(matmul(slice(in.a, 1, 0, {}, 2), slice(in.b, 0, 0, {}, 2)))},
    {"padded", HD_MAKE(matmul(pad(in.a, {{2, 1}, {1, 3}}), pad(in.b, {{1, 3}, {0, 2}})))},
    {"joined along the sum", HD_MAKE(matmul(cat({in.a, in.a2}, 1), cat({in.b, in.b2}, 0))), 2},
    {"joined rows", HD_MAKE(matmul(cat({in.a, in.a2}, 0), in.b))},
    {"the same twice", HD_MAKE(matmul(in.a, in.a.transpose()))},
    {"a constant", HD_MAKE(matmul(in.a, full({in.k, in.n}, 0.25)))},
    {"one row for all", HD_MAKE(matmul(expand(in.inner_row, {in.m, in.k}), in.b))},
};
const Case kAfter[] = {
    {"bias and relu", HD_MAKE(relu(matmul(in.a, in.b) + in.bias))},
    {"bias, gelu and residual", HD_MAKE(gelu(matmul(in.a, in.b) + in.bias) + in.residual), 2},
    {"tanh, scaled rows", HD_MAKE(tanh(matmul(in.a, in.b) * 0.1) * in.column)},
    {"cast to bf16", HD_MAKE(matmul(in.a, in.b).cast(kBF16))},
    {"bf16, bias", HD_MAKE(matmul(in.a_bf16, in.b_bf16).cast(kF32) + in.bias)},
    {"sum of rows", HD_MAKE(sum(matmul(in.a, in.b), {1})), 20},
    {"sum of columns", HD_MAKE(sum(matmul(in.a, in.b), {0})), 20},
    {"sum of everything", HD_MAKE(sum(matmul(in.a, in.b))), 400},
    {"rows of squares", HD_MAKE(sum(square(matmul(in.a, in.b)), {1})), 1000},
    {"largest of rows", HD_MAKE(max(matmul(in.a, in.b) + in.bias, {1}))},
    {"softmax of rows", HD_MAKE(softmax(matmul(in.a, in.b), -1))},
    {"layer_norm of rows", HD_MAKE(layer_norm(matmul(in.a, in.b) + in.residual))},
    {"two results", HD_MAKE(matmul(in.a, in.b), relu(matmul(in.a, in.b) + in.bias))},
    {"result and its rows", HD_MAKE(matmul(in.a, in.b), sum(matmul(in.a, in.b), {1})), 20},
    {"difference", HD_MAKE(mean(square(matmul(in.a, in.b) - in.residual))), 10},
    {"transposed", HD_MAKE(matmul(in.a, in.b).transpose() + in.residual.transpose())},
    {"a part", HD_MAKE(slice(matmul(in.a, in.b), 0, 3) * 2), 2},
    {"padded", HD_MAKE(pad(matmul(in.a, in.b), {{1, 2}, {3, 0}}))},
    {"sum of two products", HD_MAKE(matmul(in.a, in.b) + matmul(in.a2, in.b2)), 2},
    {"product of two products", HD_MAKE(matmul(in.a, in.b) * sigmoid(matmul(in.a, in.b2)))},
    {"two products of one factor", HD_MAKE(matmul(in.a, in.b), matmul(in.a, in.b2))},
    {"one after the other", HD_MAKE(matmul(relu(matmul(in.a, in.b)), in.b2.transpose())), 100},
    {"three in a row", HD_MAKE(matmul(matmul(matmul(in.a, in.b), in.b2.transpose()), in.b)), 2000},
};
#undef HD_MAKE

// Tiny, odd, and of several blocks.
constexpr int64_t kSizes[][3] = {{9, 11, 10}, {37, 53, 45}, {67, 40, 131}};

void check_cases(std::span<const Case> cases) {
  for (auto [m, k, n] : kSizes) {
    Inputs in(m, k, n);
    for (const Case& which : cases) {
      SCOPED_TRACE(text(which.name, ", ", m, "x", k, "x", n));
      expect_near_evaluator(which.make(in), which.gain * static_cast<double>(k));
    }
  }
}

TEST(Expression, what_happens_to_factors) { check_cases(kBefore); }
TEST(Expression, what_happens_to_products) { check_cases(kAfter); }

TEST(Expression, einsum) {
  struct Equation {
    const char* text;
    std::vector<Dims> shapes;
    double length;
  };
  const Equation equations[] = {
      {"ij,jk->ki", {{50, 70}, {70, 60}}, 70},
      {"ij,kj->ik", {{50, 70}, {60, 70}}, 70},
      {"ji,jk->ik", {{70, 50}, {70, 60}}, 70},
      {"ji,kj->ki", {{70, 50}, {60, 70}}, 70},
      {"bij,bjk->bik", {{5, 33, 20}, {5, 20, 41}}, 20},
      {"bij,jk->bik", {{5, 33, 20}, {20, 41}}, 20},
      {"ij,bjk->bik", {{33, 20}, {5, 20, 41}}, 20},
      {"bij,bkj->bik", {{5, 33, 20}, {5, 41, 20}}, 20},
      {"ibj,jbk->bik", {{33, 5, 20}, {20, 5, 41}}, 20},
      {"bhid,bhjd->bhij", {{2, 3, 31, 16}, {2, 3, 29, 16}}, 16},
      {"bhij,bhjd->bhid", {{2, 3, 31, 29}, {2, 3, 29, 16}}, 29},
      {"bihd,bjhd->bhij", {{2, 31, 3, 16}, {2, 29, 3, 16}}, 16},
      {"bhij,bjhd->bihd", {{2, 3, 31, 29}, {2, 29, 3, 16}}, 29},
      {"ijk,jkl->il", {{21, 13, 17}, {13, 17, 23}}, 13 * 17},
      {"abc,cbd->ad", {{21, 13, 17}, {17, 13, 23}}, 13 * 17},
      {"ijk,kl->ijl", {{9, 11, 40}, {40, 33}}, 40},
      {"ijk,il->ljk", {{40, 9, 11}, {40, 33}}, 40},
      {"bti,bto->io", {{3, 50, 31}, {3, 50, 29}}, 150},
      {"ij,ij->i", {{200, 300}, {200, 300}}, 300},
      {"ij,ij->j", {{200, 300}, {200, 300}}, 200},
      {"i,j->ij", {{300}, {200}}, 1},
      {"bi,bj->bij", {{7, 40}, {7, 50}}, 1},
      {"i,i->", {{5000}, {5000}}, 5000},
      {"ij,j->i", {{300, 200}, {200}}, 200},
      {"i,ij->j", {{300}, {300, 200}}, 300},
      {"ij,jk,kl->il", {{20, 30}, {30, 25}, {25, 35}}, 30 * 25},
      {"ii,ij->j", {{60, 60}, {60, 40}}, 60},
  };
  int turn = 0;
  for (const Equation& equation : equations)
    for (DType dtype : {kF32, ++turn % 2 ? kF64 : kBF16}) {
      SCOPED_TRACE(text(equation.text, " ", dtype));
      Tensors operands;
      for (const Dims& shape : equation.shapes) operands.push_back(noise(shape, operands.size() + 1, dtype));
      // Between two products of bf16 there is a rounding that may, but need not happen.
      if (dtype == kBF16 && operands.size() > 2) continue;
      expect_near_evaluator({einsum(equation.text, operands)}, equation.length);
    }
}

TEST(Expression, gradients) {
  for (auto [m, k, n] : kSizes) {
    SCOPED_TRACE(text(m, "x", k, "x", n));
    Tensor x = noise({m, k}, 1).requires_grad_(), w = noise({k, n}, 2).requires_grad_();
    Tensor bias = noise({n}, 3).requires_grad_(), target = noise({m, n}, 4);
    double length = static_cast<double>(std::max({m, k, n}));
    expect_near_evaluator(grad(sum(matmul(x, w) * target), {x, w}), length);
    expect_near_evaluator(grad(sum(tanh((matmul(x, w) + bias) * 0.1) * target), {x, w, bias}), length);
    expect_near_evaluator(grad(mean(square(matmul(x, w) + bias - target)), {x, w, bias}), length);
    // Stored transposed, as in a linear layer.
    Tensor v = noise({n, k}, 5).requires_grad_();
    expect_near_evaluator(grad(sum(relu(matmul(x, v.transpose()) + bias) * target), {x, v, bias}), length);
    // Second derivatives.
    Tensor slope = grad(sum(square(matmul(x, w)) * 0.01), x);
    expect_near_evaluator({grad(sum(slope * noise({m, k}, 6)), w)}, 10 * length);
  }
}

TEST(Expression, gradients_of_batches_and_layers) {
  Tensor x = noise({4, 23, 30}, 1).requires_grad_(), w = noise({30, 21}, 2).requires_grad_();
  Tensor y = noise({4, 30, 19}, 3).requires_grad_();
  expect_near_evaluator(grad(sum(matmul(x, w) * noise({4, 23, 21}, 4)), {x, w}), 4 * 30);
  expect_near_evaluator(grad(sum(matmul(x, y) * noise({4, 23, 19}, 5)), {x, y}), 30);
  // Attention written by hand.
  Tensor q = noise({3, 40, 16}, 6).requires_grad_(), key = noise({3, 40, 16}, 7).requires_grad_();
  Tensor value = noise({3, 40, 16}, 8).requires_grad_();
  Tensor out = matmul(softmax(matmul(q, key.transpose()) * 0.25, -1), value);
  expect_near_evaluator({out}, 40);
  expect_near_evaluator(grad(sum(out * noise({3, 40, 16}, 9)), {q, key, value}), 160);
  // Two layers and cross-entropy.
  Tensor data = noise({33, 50}, 10), w1 = noise({50, 40}, 11).requires_grad_(),
         w2 = noise({40, 10}, 12).requires_grad_();
  Tensor labels = (arange(33) * 7 % 10).realize();
  Tensor loss = cross_entropy(matmul(relu(matmul(data, w1)), w2) * 0.1, labels);
  expect_near_evaluator(grad(loss, {w1, w2}), 200);
}

// bf16 and f16: sums in f32, one rounding.
TEST(Expression, small_floats_add_in_f32) {
  for (DType dtype : {kBF16, kF16})
    for (auto [m, k, n] : {std::array<int64_t, 3>{33, 1000, 41}, {1, 1000, 300}, {300, 500, 1}, {64, 64, 64}}) {
      SCOPED_TRACE(text(dtype, " ", m, "x", k, "x", n));
      Tensor a = noise({m, k}, 1, dtype), b = noise({k, n}, 2, dtype);
      expect_near_evaluator({matmul(a, b)}, static_cast<double>(k));
      expect_near_evaluator({matmul(a.cast(kF32), b.cast(kF32))}, static_cast<double>(k));
    }
}

}  // namespace
}  // namespace heddle
