// error: a module needs a function visit that names its tensors and parts
#include <heddle/heddle.h>

struct Net : heddle::nn::Module<Net> {
  heddle::Tensor weight = heddle::zeros({2});
};

int main() {
  Net net;
  heddle::optim::SGD o(net, {.lr = 0.1});
}
