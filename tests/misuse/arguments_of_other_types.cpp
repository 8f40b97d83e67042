// error: the captured function does not take these arguments
#include <heddle/heddle.h>

#include <string>

int main() {
  auto f = heddle::jit([](heddle::Tensor x) { return x * 2; });
  f(std::string("no tensor"));
}
