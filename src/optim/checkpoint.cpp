#include <heddle/ops.h>
#include <heddle/optim/checkpoint.h>

namespace heddle::optim::detail {
namespace {

TensorMap everything(const TensorMap& model, const Optimizer& optimizer) {
  TensorMap all;
  for (const auto& [name, tensor] : model) all.emplace("model." + name, tensor);
  for (const auto& [name, tensor] : optimizer.state()) all.emplace("optimizer." + name, tensor);
  Generator::State random = default_generator().state();
  all.emplace("generator", from_vector(std::vector<uint64_t>{random.seed, random.draws}, {2}));
  return all;
}

}  // namespace

void save_checkpoint(const std::string& path, const TensorMap& model, const Optimizer& optimizer,
                     const TextMap& metadata) {
  save_safetensors(path, everything(model, optimizer), metadata);
}

TextMap load_checkpoint(const std::string& path, const TensorMap& model, Optimizer& optimizer) {
  Safetensors file = load_safetensors(path);
  bool module_alone = !file.tensors.contains("generator") && !model.empty();
  for (const auto& [name, tensor] : model) module_alone = module_alone && file.tensors.contains(name);
  if (module_alone)
    throw ValueError(path + ": holds a module without an optimiser, as save() writes it: use the module's load()");
  nn::detail::assign_all(everything(model, optimizer), file.tensors, path, "the model and its optimiser");
  std::vector<uint64_t> random = file.tensors.at("generator").to_vector<uint64_t>();
  default_generator().set_state({random[0], random[1]});
  return file.metadata;
}

}  // namespace heddle::optim::detail
