// First values of models, by name; python/heddle/models has the modules.
#include <heddle/models.h>

#include "python/bind.h"
#include "python/function.h"

namespace heddle::python {
namespace {

TensorMap gpt2(int64_t vocabulary, int64_t context, int64_t width, int64_t layers, int64_t heads, DType dtype,
               Generator& generator) {
  return models::GPT2({.vocabulary = vocabulary,
                       .context = context,
                       .width = width,
                       .layers = layers,
                       .heads = heads,
                       .dtype = dtype},
                      generator)
      .state();
}
TensorMap resnet(const std::vector<int64_t>& blocks, bool bottleneck, int64_t classes, int64_t inputs, int64_t width,
                 DType dtype, Generator& generator) {
  return models::ResNet({.blocks = blocks,
                         .bottleneck = bottleneck,
                         .classes = classes,
                         .inputs = inputs,
                         .width = width,
                         .dtype = dtype},
                        generator)
      .state();
}

}  // namespace

void bind_models(nb::module_& module) {
  using enum Row::Kind;
  static constexpr Row rows[] = {
      {"_gpt2_state(vocabulary, context, width, layers, heads, dtype='float32', generator=None)", compute<gpt2>,
       Function},
      {"_resnet_state(blocks, bottleneck, classes, inputs, width, dtype='float32', generator=None)", compute<resnet>,
       Function},
  };
  add_functions(module, rows);
}

}  // namespace heddle::python
