// error: a layer that is a module needs a visit() that names its tensors and modules, or they are not trained
#include <heddle/heddle.h>

struct Twice : heddle::nn::Module<Twice> {
  heddle::nn::Linear inner{3, 3};
  heddle::Tensor operator()(const heddle::Tensor& x) const { return inner(inner(x)); }
};

int main() { heddle::nn::Sequential net(Twice{}, heddle::nn::Linear(3, 2)); }
