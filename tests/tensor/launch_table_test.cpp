// How many kernels an expression takes, and how many bytes they move: exactly.
#include "helpers.h"
#include "runtime/device.h"

namespace heddle {
namespace {

using namespace testing;

constexpr int64_t kRows = 512, kColumns = 1024, kSize = kRows * kColumns;

constexpr uint64_t kPacks = ~uint64_t{0};  // copies its factors, in a layout that depends on the target

struct Inputs {
  Tensor x = noise_tensor({kRows, kColumns}), y = noise_tensor({kRows, kColumns}, 2);
  Tensor row = noise_tensor({kColumns}, 3), column = noise_tensor({kRows, 1}, 4);
  Tensor square = noise_tensor({256, 256}, 5), other = noise_tensor({256, 256}, 6);
  Tensor cube = noise_tensor({8, 64, 64}, 7);
  Tensor index = (arange(kRows) * 7 % kRows).realize();
};

struct Row {
  const char* name;
  std::vector<Tensor> (*make)(const Inputs&);
  uint64_t launches;
  uint64_t values;  // f32 read and written, bytes / 4
};

#define HD_MAKE(...)                            \
  [](const Inputs& in) -> std::vector<Tensor> { \
    (void)in;                                   \
    return {__VA_ARGS__};                       \
  }
const Row kTable[] = {
    // elementwise: inputs once, output once
    {"x + y", HD_MAKE(in.x + in.y), 1, 3 * kSize},
    {"chain", HD_MAKE(tanh(in.x * 2 + 1) * sigmoid(in.y)), 1, 3 * kSize},
    {"the same input twice", HD_MAKE(in.x* in.x + exp(in.x)), 1, 2 * kSize},
    {"broadcast row and column", HD_MAKE(in.x* in.row + in.column), 1, 2 * kSize + kColumns + kRows},
    {"where", HD_MAKE(where(in.x > in.y, in.x, 0)), 1, 3 * kSize},
    {"cast there and back", HD_MAKE(in.x.cast(kBF16).cast(kF32)), 1, 2 * kSize},
    {"cast to bf16", HD_MAKE(in.x.cast(kBF16)), 1, kSize + kSize / 2},
    {"two results of one input", HD_MAKE(in.x + 1, in.x * 2), 1, 3 * kSize},
    {"a constant", HD_MAKE(full({kRows, kColumns}, 3) * 2), 1, kSize},
    // views cost nothing by themselves
    {"reshape", HD_MAKE(reshape(in.x, {kColumns, kRows})), 1, 2 * kSize},
    {"transpose", HD_MAKE(transpose(in.x) + 1), 1, 2 * kSize},
    {"half the rows", HD_MAKE(slice(in.x, 0, 0, kRows / 2) * 2), 1, kSize},
    {"flip and shift", HD_MAKE(flip(in.x, {1}) - in.x), 1, 2 * kSize},
    {"pad", HD_MAKE(pad(in.x, {{1, 1}, {0, 0}})), 1, 2 * kSize + 2 * kColumns},
    // guards are not looked into: both inputs count as a whole
    {"cat of halves", HD_MAKE(cat({slice(in.x, 0, 0, kRows / 2), slice(in.y, 0, kRows / 2)}, 0)), 1, 3 * kSize},
    {"three views of one input", HD_MAKE(slice(in.x, 0, 1) + slice(in.x, 0, 0, -1)), 1, kSize + (kRows - 1) * kColumns},
    // reductions
    {"sum of rows", HD_MAKE(sum(in.x, {1})), 1, kSize + kRows},
    {"sum of an expression", HD_MAKE(sum(in.x* in.y + 1, {1})), 1, 2 * kSize + kRows},
    // in two parts, which are combined afterwards
    {"max of columns", HD_MAKE(max(in.x, {0})), 1, kSize + kColumns + 4 * kColumns},
    {"mean and variance", HD_MAKE(mean(in.x, {1}), var(in.x, {1})), 1, kSize + 2 * kRows},
    {"argmax", HD_MAKE(argmax(in.x, 1)), 1, kSize + 2 * kRows},
    {"three sums", HD_MAKE(sum(in.x, {1}), max(in.x, {1}), min(in.x, {1})), 1, kSize + 3 * kRows},
    {"reduction and its use", HD_MAKE(in.x / sum(in.x, {1}, true)), 1, 2 * kSize},
    {"sum of sums", HD_MAKE(sum(sum(in.x, {1}))), 2, kSize + 2 * kRows + 1},
    {"scan with what stands around it", HD_MAKE(cumsum(in.x * 2, 1) + 1), 1, 2 * kSize},
    // normalisations
    {"softmax", HD_MAKE(softmax(in.x, -1)), 1, 2 * kSize},
    {"softmax of columns", HD_MAKE(softmax(in.x, 0)), 1, 2 * kSize},
    {"log_softmax", HD_MAKE(log_softmax(in.x, -1)), 1, 2 * kSize},
    {"layer_norm with gain", HD_MAKE(layer_norm(in.x) * in.row), 1, 2 * kSize + kColumns},
    {"logsumexp", HD_MAKE(logsumexp(in.x, {1})), 1, kSize + kRows},
    {"softmax of an expression", HD_MAKE(softmax(in.x * 0.5 + in.row, -1)), 1, 2 * kSize + kColumns},
    // contractions
    {"matmul", HD_MAKE(matmul(in.square, in.other)), 1, kPacks},
    {"matmul with bias and relu", HD_MAKE(relu(matmul(in.square, in.other) + slice(in.row, 0, 0, 256))), 1, kPacks},
    {"two matmuls", HD_MAKE(matmul(matmul(in.square, in.other), in.square)), 2, kPacks},
    {"batched matmul", HD_MAKE(matmul(in.cube, transpose(in.cube))), 1, kPacks},
    {"matrix times vector", HD_MAKE(matmul(in.x, in.row)), 1, kSize + kColumns + kRows},
    // indexing
    {"gather rows", HD_MAKE(gather(in.x, in.index) * 2), 1, 2 * kSize + 2 * kRows},
    // nothing to do
    {"realised already", HD_MAKE(in.x), 0, 0},
    {"times one", HD_MAKE(in.x * 1), 0, 0},
    {"the same expression twice", HD_MAKE(exp(in.x), exp(in.x)), 1, 2 * kSize},
};
#undef HD_MAKE

TEST(LaunchTable, every_expression_takes_exactly_what_it_should) {
  Inputs in;
  for (const Row& row : kTable) {
    SCOPED_TRACE(row.name);
    std::vector<Tensor> results = row.make(in);
    StatsSince stats;
    realize(results);
    EXPECT_EQ(stats->launches, row.launches);
    // A GPU divides reductions among more blocks than a CPU, by way of memory.
    if (row.values != kPacks && device().target().machine != Machine::Simt) {
      EXPECT_EQ(stats.bytes(), 4 * row.values);
    }
  }
}

}  // namespace
}  // namespace heddle
