// Ordinary models, written the way users write them, each with data, an optimiser and a training step.
#pragma once

#include <heddle/heddle.h>

#include <functional>
#include <span>

namespace heddle::zoo {

// Small: what the reference evaluator computes in a moment. Bench: some milliseconds of a core.
enum class Size { Small, Bench };

// One model with its data. The functions build graphs; nothing is captured yet.
struct Instance {
  TensorMap state;    // all tensors of the model by PyTorch's names: handles, which training changes
  NamedTensors data;  // the batch that forward and step are given, in this order
  std::function<TensorList(const TensorList& batch)> forward;  // as for inference: after train(false)
  std::function<TensorList(const TensorList& batch)> step;     // one training step; its losses
  std::function<void(bool on)> train;

  TensorList batch() const;
};

struct Entry {
  const char* name;   // the class of bench/peers/zoo
  const char* about;  // what is particular about it
  // Weights and data are the same at every call. `dtype`: of weights and data, in place of the model's own.
  Instance (*make)(Size size, DType dtype);
  DType dtype = kF32;  // the model's own
};

// All of them, in the order in which they are listed anywhere.
std::vector<Entry> entries();

// By family: one file each.
std::span<const Entry> image_models();
std::span<const Entry> pixel_models();
std::span<const Entry> generative_models();
std::span<const Entry> text_models();
std::span<const Entry> decoder_models();
std::span<const Entry> recurrent_models();
std::span<const Entry> structured_models();

}  // namespace heddle::zoo
