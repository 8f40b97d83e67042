// Walking over the tensors of a module.
//
// A module is a struct that names its tensors and parts:
//
//   template <class V>
//   void visit(V& v) {
//     v("weight", weight);
//     v("layers", layers);  // parts, and lists, maps and optionals of parts or tensors, work the same way
//     v.settings(heads, epsilon);  // numbers, strings and the like that decide what it computes
//   }
//
// The visitor makes dotted paths of the names: "layers.0.weight".
//
// A captured function (jit.h) that is given a module has one plan for each combination of settings. A module with
// members that visit() does not list is recorded at every call, because nobody knows what they decide. Where such
// members decide nothing, or where the listed ones leave gaps (a bool at the end), it says so:
//
//   using ListsAll = Block;  // the module's own name
#pragma once

#include <heddle/parts.h>
#include <heddle/tensor.h>

#include <array>
#include <atomic>
#include <concepts>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

namespace heddle::nn {

class Visitor;

// A bool that one thread may set while another one looks at it.
class Switch {
 public:
  Switch(bool on) : on_(on) {}
  Switch(const Switch& other) : on_(bool(other)) {}
  Switch& operator=(const Switch& other) {
    on_.store(bool(other), std::memory_order_relaxed);
    return *this;
  }
  operator bool() const { return on_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> on_;
};

// What a module knows about itself besides its tensors.
struct ModuleState {
  using State = ModuleState;
  Switch training = true;
  std::set<std::string> frozen;  // paths, from this module on, of tensors that are not trained
  // Of tensors that are never trained: state that is saved with the parameters, as running statistics are.
  std::set<std::string> buffers = {};

  // For captured functions that are given the module.
  void collect_state(Parts& parts) const {
    parts.add_word(training);
    collect(parts, frozen);
    collect(parts, buffers);
  }
};

template <class T>
concept Visitable = requires(T& module, Visitor& visitor) { module.visit(visitor); };

namespace detail {
template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;
template <class T, size_t n>
inline constexpr bool kIsList<std::array<T, n>> = true;
template <class T>
inline constexpr bool kIsMap = false;
template <class T>
inline constexpr bool kIsMap<std::map<std::string, T>> = true;
template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
}  // namespace detail

class Visitor {
 public:
  struct Leaf {
    const std::string& path;
    Tensor& tensor;
    ModuleState* owner;  // the innermost module around it that has a state, or null
    std::string name;    // the path from that module on
  };
  std::function<void(const Leaf& leaf)> on_tensor;
  std::function<void(const std::string& path, ModuleState& module, const std::type_info& type)> on_module;

  // A tensor or part of the module that is being visited.
  template <class T>
  void operator()(std::string_view name, T& value) {
    inside(name, [&] { visit(value); });
  }
  template <class... T>
  void settings(const T&...) {}
  // The module itself, at the present path.
  template <Visitable T>
  void enter(T& module) {
    if constexpr (std::derived_from<T, ModuleState>) {
      ModuleState* outer = std::exchange(owner_, &module);
      size_t outer_length = std::exchange(owner_length_, path_.size());
      if (on_module) on_module(path_, module, typeid(T));
      module.visit(*this);
      owner_ = outer;
      owner_length_ = outer_length;
    } else {
      module.visit(*this);
    }
  }
  template <class F>
  void inside(std::string_view name, const F& f) {
    size_t length = path_.size();
    if (length > 0) path_ += '.';
    path_ += name;
    f();
    path_.resize(length);
  }

 private:
  template <class T>
  void visit(T& value) {
    if constexpr (std::same_as<T, Tensor>) {
      if (on_tensor) on_tensor({path_, value, owner_, path_.substr(owner_length_ > 0 ? owner_length_ + 1 : 0)});
    } else if constexpr (detail::kIsOptional<T>) {
      if (value) visit(*value);
    } else if constexpr (detail::kIsList<T>) {
      for (size_t i = 0; i < value.size(); ++i) (*this)(std::to_string(i), value[i]);
    } else if constexpr (detail::kIsMap<T>) {
      for (auto& [name, part] : value) (*this)(name, part);
    } else {
      static_assert(Visitable<T>, "visit: neither a tensor, nor a module, nor a list, map or optional of them");
      enter(value);
    }
  }

  std::string path_;
  ModuleState* owner_ = nullptr;
  size_t owner_length_ = 0;
};

}  // namespace heddle::nn
