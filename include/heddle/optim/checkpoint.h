// A module, its optimiser and the random numbers in one file: going on from it gives the same bits as not stopping.
#pragma once

#include <heddle/optim/optimizer.h>

namespace heddle::optim {

namespace detail {
void save_checkpoint(const std::string& path, const TensorMap& model, const Optimizer& optimizer,
                     const TextMap& metadata);
TextMap load_checkpoint(const std::string& path, const TensorMap& model, Optimizer& optimizer);
}  // namespace detail

// Tensors are called "model.<path>" and "optimizer.<name>"; "generator" is the state of the default generator.
template <class M>
void save_checkpoint(const std::string& path, const M& model, const Optimizer& optimizer,
                     const TextMap& metadata = {}) {
  detail::save_checkpoint(path, model.state(), optimizer, metadata);
}
// Returns the metadata. Everything must fit, or nothing changes.
template <class M>
TextMap load_checkpoint(const std::string& path, M& model, Optimizer& optimizer) {
  return detail::load_checkpoint(path, model.state(), optimizer);
}

}  // namespace heddle::optim
