// What all modules can do. A module is a plain struct that derives from Module<itself> and has
//
//   template <class V>
//   void visit(V& v) { v("weight", weight); }
//
// Copying a module copies handles: both then have the same parameters. copy() makes parameters of its own.
#pragma once

#include <heddle/io.h>
#include <heddle/nn/visitor.h>

#include <iosfwd>
#include <utility>

namespace heddle {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

namespace nn {

struct LoadOptions {
  bool convert = false;  // floats of another dtype than the module's tensors become theirs
};

namespace detail {
using Walk = std::function<void(Visitor& visitor)>;
NamedTensors named_parameters(const Walk& walk);
std::vector<Tensor> parameters(const Walk& walk);
TensorMap state(const Walk& walk);
void load_state(const Walk& walk, const TensorMap& values, const std::string& source, const LoadOptions& options);
// Assigns by name, all at one moment; `meanwhile` is called at that moment. ValueError listing what is missing,
// unexpected or misshapen, and then nothing has changed.
void assign_all(const TensorMap& own, const TensorMap& values, const std::string& source, const std::string& what,
                const std::function<void()>& meanwhile = {});
void set_frozen(const Walk& walk, const std::string& path, bool frozen);
void set_training(const Walk& walk, bool training);
void make_own(const Walk& walk);
void convert(const Walk& walk, DType dtype);
void move(const Walk& walk, const Device& device);
int64_t parameter_count(const Walk& walk);
std::string summary(const Walk& walk);
// From where the error is caught: throws it again, of the same kind, with the layer's number and type in front.
[[noreturn]] void rethrow_in_layer(const Error& error, size_t number, const std::type_info* module_type);
// What Sequential::at() throws; `found` is null for a function.
[[noreturn]] void no_such_layer(size_t number, size_t layers);
[[noreturn]] void layer_of_another_type(size_t number, const std::type_info* found, const std::type_info& wanted);
}  // namespace detail

template <class Self>
struct Module : ModuleState {
  // The tensors to train, each once, in the order of visit(); without the frozen ones. They ask for gradients from now
  // on: a module's own tensors that no layer has made need this call before the first loss is computed.
  std::vector<Tensor> parameters() const { return detail::parameters(walk()); }
  NamedTensors named_parameters() const { return detail::named_parameters(walk()); }
  // Elements of all parameters, frozen ones too.
  int64_t parameter_count() const { return detail::parameter_count(walk()); }

  // All tensors by path, frozen ones too: handles, which see what becomes of them. snapshot(state()) does not.
  TensorMap state() const { return detail::state(walk()); }
  // Gives the tensors new values, all at one moment. All names, shapes and, unless the options say otherwise, dtypes
  // must agree, or nothing changes; `source` is named in the error.
  void load_state(const TensorMap& values, const std::string& source = "load_state", const LoadOptions& options = {}) {
    detail::load_state(walk(), values, source, options);
  }
  // The same with a safetensors file.
  void save(const std::string& path) const { save_safetensors(path, state()); }
  void load(const std::string& path, const LoadOptions& options = {}) {
    load_state(load_safetensors(path).tensors, path, options);
  }

  // Leaves tensors out of parameters(), and out of gradients: all of them, or those of a part: `net.freeze("0")`.
  void freeze(const std::string& path = "") { detail::set_frozen(walk(), path, true); }
  void unfreeze(const std::string& path = "") { detail::set_frozen(walk(), path, false); }
  // Whether Dropout drops. Captured functions are recorded again when it changes.
  void train(bool on = true) { detail::set_training(walk(), on); }
  void eval() { train(false); }

  // The same module with tensors of its own. Tensors that it uses twice stay one.
  Self copy() const {
    Self result = static_cast<const Self&>(*this);
    detail::make_own(static_cast<Module&>(result).walk());
    return result;
  }
  // Replaces all float tensors by ones of another dtype. Do so before an optimiser takes hold of them.
  Self& to(DType dtype) & {
    detail::convert(walk(), dtype);
    return static_cast<Self&>(*this);
  }
  // Takes all tensors to a device. They stay the same tensors: optimisers that have them go with them.
  Self& to(const Device& device) & {
    detail::move(walk(), device);
    return static_cast<Self&>(*this);
  }

  // A table of parts and tensors.
  std::string summary() const { return detail::summary(walk()); }
  friend std::ostream& operator<<(std::ostream& out, const Module& module) { return out << module.summary(); }

 private:
  // visit() hands out references to change, which the const functions above do not use.
  detail::Walk walk() const {
    static_assert(
        requires(Self& self, Visitor& visitor) { self.visit(visitor); },
        "a module needs a function visit that names its tensors and parts: "
        "template <class V> void visit(V& v) { v(\"weight\", weight); }");
    return [self = const_cast<Module*>(this)](Visitor& visitor) { visitor.enter(static_cast<Self&>(*self)); };
  }
};

}  // namespace nn
}  // namespace heddle
