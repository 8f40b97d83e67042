// What a value is made of: its tensors, in order, and words that tell everything else apart. jit() takes its arguments
// apart with this, and puts results together.
#pragma once

#include <heddle/tensor.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

namespace heddle {

class Parts {
 public:
  std::vector<Tensor*> tensors;
  std::vector<uint64_t> words;       // structure, sizes, keys, numbers and strings
  std::vector<uint64_t> identities;  // of things that never change, and that nothing else tells apart
  bool complete = true;              // whether all that decides what the value does is here

  void clear() {
    tensors.clear();
    words.clear();
    identities.clear();
    complete = true;
  }
  void add(Tensor& tensor) {
    tensors.push_back(&tensor);
    words.push_back(~uint64_t{0});
  }
  void add_word(uint64_t word) { words.push_back(word); }
  void add_text(std::string_view text) {
    words.push_back(text.size());
    for (size_t at = 0; at < text.size(); at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, text.data() + at, std::min(sizeof word, text.size() - at));
      words.push_back(word);
    }
  }
  // For modules, whose visit() calls `v("weight", weight)` for every part, and v.settings() for what else decides what
  // they compute.
  template <class T>
  void operator()(std::string_view name, T& part);
  template <class... T>
  void settings(const T&... values);
};

// A number for a type that no other type has.
template <class T>
uint64_t type_word() {
  static constinit char tag = 0;
  return reinterpret_cast<uint64_t>(&tag);
}
// A number that no other call gives.
uint64_t new_identity();

// The customization point for other types: specialise it with `static void collect(Parts&, T&)`.
template <class T>
struct PartsOf;

namespace parts_detail {

template <class T>
concept Customized = requires(Parts& parts, T& value) { PartsOf<T>::collect(parts, value); };
template <class T>
concept Module = requires(Parts& parts, T& value) { value.visit(parts); };
template <class T>
concept Container = requires(T& value) {
  typename T::value_type;
  value.begin();
  value.end();
  value.size();
};
template <class T>
concept Unordered = requires(T& value) { value.bucket_count(); };
template <class T>
concept TupleLike = requires { std::tuple_size<T>::value; };
// A base class that takes itself apart, as nn::ModuleState does.
template <class T>
concept HasState = requires(Parts& parts, T& value) {
  typename T::State;
  static_cast<typename T::State&>(value).collect_state(parts);
};
template <class T>
inline constexpr bool kOptional = false;
template <class T>
inline constexpr bool kOptional<std::optional<T>> = true;
template <class T>
inline constexpr bool kVariant = false;
template <class... T>
inline constexpr bool kVariant<std::variant<T...>> = true;
template <class T>
inline constexpr bool kUnknown = false;

template <class T>
void add_number(Parts& parts, T number) {
  static_assert(sizeof(T) <= 2 * sizeof(uint64_t));
  uint64_t words[2] = {0, 0};
  if constexpr (std::is_same_v<T, long double>) {
    double rounded = static_cast<double>(number);  // its own bytes hold padding
    std::memcpy(words, &rounded, sizeof rounded);
  } else {
    std::memcpy(words, &number, sizeof number);
  }
  parts.add_word(words[0]);
}

// Which bytes of a module visit() lists.
class Layout {
 public:
  Layout(const void* object, size_t bytes) : begin_(static_cast<const char*>(object)), listed_(bytes, false) {}
  template <class T>
  void operator()(std::string_view, T& part) {
    add(&part, sizeof(T));
  }
  template <class... T>
  void settings(const T&... values) {
    (add(&values, sizeof(T)), ...);
  }
  void add(const void* part, size_t bytes) {
    const auto* at = static_cast<const char*>(part);
    if (std::less<>()(at, begin_) || !std::less<>()(at, begin_ + listed_.size())) return;
    for (size_t i = 0; i < bytes; ++i) listed_.at(static_cast<size_t>(at - begin_) + i) = true;
  }
  bool has_gaps() const { return std::find(listed_.begin(), listed_.end(), false) != listed_.end(); }

 private:
  const char* begin_;
  std::vector<bool> listed_;
};

// Whether a module's tensors, parts and settings are all that decides what it computes: it says so
// (`using ListsAll = T;`), or it has no byte that visit() does not list. The same for all modules of a type.
template <class T>
bool lists_all(T& module) {
  if constexpr (requires { requires std::same_as<typename T::ListsAll, T>; }) {
    return true;
  } else {
    static constinit std::atomic<int> known{-1};
    if (known.load(std::memory_order_relaxed) < 0) {
      Layout layout(&module, sizeof(T));
      if constexpr (HasState<T>) layout.add(&static_cast<typename T::State&>(module), sizeof(typename T::State));
      module.visit(layout);
      known.store(!layout.has_gaps(), std::memory_order_relaxed);
    }
    return known.load(std::memory_order_relaxed) != 0;
  }
}

template <class T>
void collect_module(Parts& parts, T& module) {
  if constexpr (HasState<T>) static_cast<typename T::State&>(module).collect_state(parts);
  module.visit(parts);
  if (!lists_all(module)) parts.complete = false;
}

}  // namespace parts_detail

// Takes a value apart: tensors, numbers, strings, enums, and pairs, tuples, arrays, vectors, maps, optionals and
// variants of these; modules; what PartsOf is specialised for.
template <class Given>
void collect(Parts& parts, Given& given) {
  using T = std::remove_cv_t<Given>;
  T& value = const_cast<T&>(given);
  namespace detail = parts_detail;
  if constexpr (detail::Customized<T>) {
    PartsOf<T>::collect(parts, value);
  } else if constexpr (detail::Module<T>) {
    detail::collect_module(parts, value);
  } else if constexpr (std::is_base_of_v<Tensor, T>) {
    parts.add(value);
  } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    detail::add_number(parts, value);
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    parts.add_text(value);
  } else if constexpr (detail::kOptional<T>) {
    parts.add_word(value.has_value());
    if (value) collect(parts, *value);
  } else if constexpr (detail::kVariant<T>) {
    parts.add_word(value.index());
    std::visit([&](auto& held) { collect(parts, held); }, value);
  } else if constexpr (std::is_same_v<T, std::monostate> || std::is_same_v<T, std::nullptr_t> ||
                       std::is_same_v<T, std::nullopt_t>) {
    parts.add_word(0);
  } else if constexpr (detail::Container<T>) {
    static_assert(!detail::Unordered<T>, "jit: the order of an unordered container is not reliable; use std::map");
    parts.add_word(value.size());
    for (auto&& element : value) {
      if constexpr (std::is_same_v<typename T::value_type, bool>)
        parts.add_word(element);
      else
        collect(parts, element);
    }
  } else if constexpr (detail::TupleLike<T>) {
    std::apply([&](auto&... element) { (collect(parts, element), ...); }, value);
  } else if constexpr (std::is_empty_v<T>) {
    parts.add_word(0);
  } else {
    static_assert(detail::kUnknown<T>,
                  "jit: an argument or result has a type that is neither a tensor, a number, a string, a container of "
                  "these, nor a module with visit(); specialise heddle::PartsOf for it");
  }
}

template <class T>
void Parts::operator()(std::string_view name, T& part) {
  add_text(name);
  collect(*this, part);
}
template <class... T>
void Parts::settings(const T&... values) {
  (collect(*this, values), ...);
}

}  // namespace heddle
