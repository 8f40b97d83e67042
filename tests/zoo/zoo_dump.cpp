// Writes what the models of bench/zoo compute, for comparisons with PyTorch and between devices:
//   zoo_dump FOLDER [small|bench] [f32|bf16] [NAME ...]
// NAME.safetensors holds first values ("state."), the batch ("data."), inference before the training ("forward.") and
// the losses of three steps ("losses.").
#include <cstdio>
#include <set>

#include "bench/zoo/zoo.h"

int main(int count, char** words) {
  using namespace heddle;
  if (count < 2) return std::fprintf(stderr, "zoo_dump FOLDER [small|bench] [f32|bf16] [NAME ...]\n"), 2;
  std::set<std::string> only(words + 2, words + count);
  const bool bench = only.erase("bench") > 0, narrow = only.erase("bf16") > 0;
  only.erase("small");
  only.erase("f32");
  for (const zoo::Entry& entry : zoo::entries()) {
    if (!only.empty() && !only.contains(entry.name)) continue;
    zoo::Instance model = entry.make(bench ? zoo::Size::Bench : zoo::Size::Small, narrow ? kBF16 : kF32);
    TensorList batch = model.batch();
    TensorMap all;
    for (const auto& [name, tensor] : model.state) all.emplace("state." + name, clone(tensor).realize());
    for (const auto& [name, tensor] : model.data) all.emplace("data." + name, tensor);
    auto forward = jit([&](const TensorList& given) { return model.forward(given); });
    auto step = jit([&](const TensorList& given) { return model.step(given); });
    model.train(false);
    TensorList results = forward(batch);
    model.train(true);
    for (size_t i = 0; i < results.size(); ++i) all.emplace("forward." + std::to_string(i), results[i]);
    for (int t = 0; t < 3; ++t) {
      TensorList losses = step(batch);
      for (size_t i = 0; i < losses.size(); ++i)
        all.emplace("losses." + std::to_string(t) + "." + std::to_string(i), clone(losses[i]).realize());
    }
    save_safetensors(std::string(words[1]) + "/" + entry.name + ".safetensors", all);
    std::printf("%s\n", entry.name);
    std::fflush(stdout);
  }
}
