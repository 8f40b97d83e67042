// Matrix products, against OpenBLAS and oneDNN, and against the peak of multiply-adds.
#include <heddle/heddle.h>

#include "base/error.h"
#include "runtime/device.h"
#include "tools/contest.h"

namespace heddle::tools {
namespace {

struct Product {
  int64_t m, k, n;
  const char* transpose = "nn";  // "tn": the first factor is stored transposed
  DType dtype = kF32;
  int64_t batch = 1;
};

std::string name_of(const Product& product) {
  auto [m, k, n, transpose, dtype, batch] = product;
  std::string name = text("matmul ", dtype, " ");
  if (batch > 1) name += text(batch, " x (");
  name += m == k && k == n ? text(m) : text(m, "x", k, "x", n);
  if (batch > 1) name += ")";
  if (transpose != std::string("nn")) name += text(" ", transpose);
  return name;
}

Tensor factor(int64_t batch, int64_t rows, int64_t columns, bool transposed, DType dtype) {
  if (transposed) std::swap(rows, columns);
  Dims shape = batch > 1 ? Dims{batch, rows, columns} : Dims{rows, columns};
  if (dtype == kI8) return (uniform(shape) * 200 - 100).cast(kI8).realize();
  return randn(shape).cast(dtype).realize();
}

Contest contest_of(const Product& product) {
  auto [m, k, n, transpose, dtype, batch] = product;
  bool a_transposed = transpose[0] == 't', b_transposed = transpose[1] == 't', integer = dtype == kI8;
  Tensor a = factor(batch, m, k, a_transposed, dtype), b = factor(batch, k, n, b_transposed, dtype);
  // i8 gives i32, as in the libraries: the casts are part of the kernel.
  auto multiply = jit([=](Tensor x, Tensor y) {
    if (a_transposed) x = x.transpose();
    if (b_transposed) y = y.transpose();
    return integer ? matmul(x.cast(kI32), y.cast(kI32)) : matmul(x, y);
  });
  Contest contest{.name = name_of(product), .unit = "GFLOP/s"};
  contest.row = {{"work", "matmul"}, {"dtype", name(dtype)},  {"batch", batch}, {"m", m}, {"k", k},
                 {"n", n},           {"transpose", transpose}};
  auto size = [](int64_t value) { return static_cast<double>(value); };
  contest.flops = 2 * size(batch) * size(m) * size(k) * size(n);
  contest.bytes = size(batch) * (size(m * k + k * n) * size_of(dtype) + size(m * n) * (integer ? 4 : size_of(dtype)));
  contest.peak = dtype == kBF16 ? Peak::BF16 : integer ? Peak::I8 : Peak::F32;
  contest.ours = [=]() mutable { multiply(a, b); };
  return contest;
}

}  // namespace

void measure_matmul(double seconds, const Report& report) {
  int threads = device("cpu").threads();
  Peers peers(threads, peers_python());
  auto run = [&](const Product& product, const char* group, std::optional<double> bar,
                 std::optional<double> share_bar = {}) {
    std::string name = text(name_of(product), ", ", threads, threads == 1 ? " thread" : " threads");
    if (!wanted(name)) return;
    Contest contest = contest_of(product);
    contest.name = name;
    contest.group = group;
    contest.bar = bar;
    contest.share_bar = share_bar;
    run_contest(peers, contest, seconds, report);
  };
  for (int64_t n : {64, 128, 256, 512, 1024, 2048, 4096}) {
    std::optional<double> share_bar;
    if (threads == 1 && n > 64) share_bar = n <= 1024 ? 0.9 : 0.8;
    run({n, n, n}, "f32 squares", 0.9, share_bar);
  }
  for (const Product& product : {Product{1000, 1000, 1000},
                                 {1023, 1025, 1021},
                                 {1, 4096, 4096},
                                 {16, 4096, 4096},
                                 {8192, 64, 8192},
                                 {256, 64, 256, "nn", kF32, 96}})
    run(product, "f32 other shapes", 0.85);
  for (int64_t n : {512, 1024})
    for (const char* transpose : {"nn", "nt", "tn", "tt"})
      if (transpose != std::string("nn")) run({n, n, n, transpose}, "f32 other shapes", 0.85);
  for (DType dtype : {kBF16, kF16})
    for (int64_t n : {1024, 2048, 4096}) run({n, n, n, "nn", dtype}, name(dtype), {});
  run({1024, 1024, 1024, "nn", kI8}, "i8 to i32", {});
}

}  // namespace heddle::tools
