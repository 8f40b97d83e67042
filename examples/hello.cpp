// Softmax of a few numbers: the smallest program.
#include <heddle/heddle.h>

#include <iostream>

namespace hd = heddle;

int main() {
  auto x = hd::randn({4096, 4096});
  auto y = hd::softmax(hd::tanh(x * 2 + 1), -1);  // nothing has run yet
  std::cout << y.sum().item<float>() << "\n";     // few kernels, compiled, run on all cores
  std::cout << y << "\n";                         // prints like NumPy, elided when large
}
