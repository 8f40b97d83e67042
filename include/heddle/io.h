// Tensors in files.
#pragma once

#include <heddle/tensor.h>

#include <map>
#include <string>

namespace heddle {

using TensorMap = std::map<std::string, Tensor>;
using TextMap = std::map<std::string, std::string>;

// What a safetensors file holds.
struct Safetensors {
  TensorMap tensors;
  TextMap metadata;
};

// Writes named tensors in the safetensors format, which Python's libraries read too. The file appears whole or not at
// all: it is written beside its place, flushed to disk, and then renamed. Computes the tensors. Where other threads
// change them meanwhile, the file holds a snapshot().
//   save_safetensors("/tmp/heddle_example.safetensors", {{"w", tensor({1, 2})}}, {{"step", "7"}});
//   load_safetensors("/tmp/heddle_example.safetensors").tensors["w"]   // [1. 2.]
void save_safetensors(const std::string& path, const TensorMap& tensors, const TextMap& metadata = {});

// snapshot() of tensors with names.
TensorMap snapshot(const TensorMap& tensors);

struct SafetensorsOptions {
  std::optional<Device> device = {};  // where the tensors go; else the default device
  // The tensors stay in the file. What is computed from one reads it then, onto the device that computes; a part of it
  // whose elements lie together (`w[3]`, `w.slice(0, 8, 16)`) alone. So a model that is larger than memory can be gone
  // through layer by layer. `w.to("cpu")` reads it once and keeps it. The file must stay as it is.
  bool lazy = false;
};

// Maps the file, checks all of its header, and copies each tensor once. A file that is damaged, cut off or of another
// format raises ParseError naming the file and the tensor, and so does a lazy tensor whose file ends early when it is
// read; one that cannot be read raises ValueError.
Safetensors load_safetensors(const std::string& path, const SafetensorsOptions& options = {});

}  // namespace heddle
