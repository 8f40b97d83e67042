// A small network over batches of any size: compiled once.
#include <heddle/heddle.h>

#include <iostream>

namespace hd = heddle;

int main() {
  hd::Dim n = hd::dim("n", 1, 4096);
  hd::Tensor weights = hd::randn({64, 10}).realize(), bias = hd::zeros({10}).realize();
  for (int64_t size : {37, 1, 640}) {
    hd::Tensor batch = hd::randn({size, 64}).realize().with_dim(0, n);
    hd::Tensor scores = hd::softmax(hd::matmul(batch, weights) + bias, -1);  // the same plan for every size
    hd::Tensor centred = batch - batch.mean({0}, true);                      // divides by the size of this batch
    hd::realize({scores, centred});
    std::cout << size << " rows: scores of " << scores.size(0) << " x " << scores.size(1) << ", each row sums to "
              << scores.sum({1}).mean().item<float>() << "\n";
  }
}
