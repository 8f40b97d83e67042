// error: the captured function does not take these arguments
#include <heddle/heddle.h>

int main() {
  auto f = heddle::jit([](heddle::Tensor x, heddle::Tensor y) { return x + y; });
  f(heddle::zeros({2}));
}
