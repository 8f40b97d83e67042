#include <heddle/ops.h>
#include <heddle/optim/checkpoint.h>

#include "io/snapshot.h"

namespace heddle::optim::detail {
namespace {

TensorMap everything(const TensorMap& model, const Optimizer& optimizer) {
  TensorMap all;
  for (const auto& [name, tensor] : model) all.emplace("model." + name, tensor);
  for (const auto& [name, tensor] : optimizer.state()) all.emplace("optimizer." + name, tensor);
  return all;
}
Tensor stored(const Generator::State& random) {
  return from_vector(std::vector<uint64_t>{random.seed, random.draws}, {2});
}

}  // namespace

void save_checkpoint(const std::string& path, const TensorMap& model, const Optimizer& optimizer,
                     const TextMap& metadata) {
  Generator::State random;
  TensorMap all = realized_together(everything(model, optimizer), [&] { random = default_generator().state(); });
  all.emplace("generator", stored(random));
  save_safetensors(path, all, metadata);
}

TextMap load_checkpoint(const std::string& path, const TensorMap& model, Optimizer& optimizer) {
  Safetensors file = load_safetensors(path);
  bool module_alone = !file.tensors.contains("generator") && !model.empty();
  for (const auto& [name, tensor] : model) module_alone = module_alone && file.tensors.contains(name);
  if (module_alone)
    throw ValueError(path + ": holds a module without an optimiser, as save() writes it: use the module's load()");
  TensorMap own = everything(model, optimizer);
  own.emplace("generator", stored({}));
  Generator::State random;
  if (auto found = file.tensors.find("generator"); found != file.tensors.end() && found->second.numel() == 2) {
    std::vector<uint64_t> words = found->second.to_vector<uint64_t>();
    random = {words[0], words[1]};
  }
  nn::detail::assign_all(own, file.tensors, path, "the model and its optimiser",
                         [&] { default_generator().set_state(random); });
  return file.metadata;
}

}  // namespace heddle::optim::detail
