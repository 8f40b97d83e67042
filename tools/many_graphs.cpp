#include "tools/many_graphs.h"

namespace heddle::tools {

Tensor graph_number(int number, const Tensor& x, const Tensor& y) {
  using Function = Tensor (*)(const Tensor&);
  static constexpr Function kFunctions[] = {tanh, exp, sqrt, sigmoid, log, square, reciprocal, abs, floor, relu};
  Tensor value = x;
  for (int rest = number + 1; rest > 0; rest /= 10) value = kFunctions[rest % 10](value * y) + x;
  switch (number % 5) {
    case 0: return value;
    case 1: return sum(value, {-1});
    case 2: return softmax(value, -1);
    case 3: return transpose(value) * 2;
    default: return max(value, {0}, true) - value;
  }
}

}  // namespace heddle::tools
