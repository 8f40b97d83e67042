#include "bench/zoo/zoo.h"

namespace heddle::zoo {

TensorList Instance::batch() const {
  TensorList list;
  for (const auto& [name, tensor] : data) list.push_back(tensor);
  return list;
}

std::vector<Entry> entries() {
  std::vector<Entry> all;
  for (std::span<const Entry> family : {image_models(), pixel_models(), generative_models(), text_models(),
                                        decoder_models(), recurrent_models(), structured_models()})
    all.insert(all.end(), family.begin(), family.end());
  return all;
}

}  // namespace heddle::zoo
