// Operators as Python functions and methods. A row names a function and its parameters as Python sees them; what the
// arguments are converted to follows from the C++ function:
//
//   {"sum(x, dim=None, keepdim=False)", call<&heddle::sum>}
//
// `dim` may be given as `axis`, `keepdim` as `keepdims`, `x` as `input`, and so on: see kAliases. A parameter `*shape`
// takes all further positional arguments, or one sequence; those after it are given by name. None stands for what a
// parameter is without an argument. A row is a function of the
// module and, if its first parameter is a tensor, a method.
#pragma once

#include <heddle/ops.h>

#include <map>
#include <tuple>
#include <type_traits>

#include "python/convert.h"

namespace heddle::python {

// Gets one object for each parameter, none of them null. `at` is the parameter that is being converted, for messages.
// Without any it gives the names of what its parameters are converted to, and of what it gives: a tuple, for stubs.
using Thunk = PyObject* (*)(PyObject* const* values, int& at);

struct Row {
  enum class Kind { Both, Function, Method };
  const char* signature;
  Thunk thunk;
  Kind kind = Kind::Both;
};

// Adds functions to the module and methods to the class of tensors.
void add_functions(nb::module_& module, std::span<const Row> rows);
// What __get__ of something that can be called gives: a method of the object, if there is one.
PyObject* bind_to(PyObject* function, PyObject* object);
// Methods may have names of their own: `alias` is another name of a function that is there already.
void add_alias(nb::module_& module, const char* alias, const char* name);

// What a parameter of a C++ function is made from.
template <class T>
struct Held;

template <>
struct Held<Tensor> {
  explicit Held(PyObject* object) : own(is_tensor(object) ? tensor_of(object) : to_tensor(object)) {}
  const Tensor& get() const { return own; }
  Tensor own;
};
template <>
struct Held<Operand> {
  explicit Held(PyObject* object) : operand(object) {}
  const Operand& get() const { return operand; }
  PyOperand operand;
};
template <>
struct Held<bool> {
  explicit Held(PyObject* object) : value(to_bool(object)) {}
  bool get() const { return value; }
  bool value;
};
template <>
struct Held<int64_t> {
  explicit Held(PyObject* object) : value(to_int(object)) {}
  int64_t get() const { return value; }
  int64_t value;
};
template <>
struct Held<uint64_t> {
  explicit Held(PyObject* object) : value(static_cast<uint64_t>(to_int(object))) {}
  uint64_t get() const { return value; }
  uint64_t value;
};
template <>
struct Held<double> {
  explicit Held(PyObject* object) : value(to_double(object)) {}
  double get() const { return value; }
  double value;
};
template <>
struct Held<std::string> {
  explicit Held(PyObject* object) : value(to_text(object)) {}
  const std::string& get() const { return value; }
  std::string value;
};
template <>
struct Held<std::string_view> : Held<std::string> {
  using Held<std::string>::Held;
  std::string_view get() const { return value; }
};
template <>
struct Held<DType> {
  explicit Held(PyObject* object) : value(to_dtype(object)) {}
  DType get() const { return value; }
  DType value;
};
template <>
struct Held<Dims> {
  explicit Held(PyObject* object) : value(to_ints(object)) {}
  const Dims& get() const { return value; }
  Dims value;
};
// None means all axes, an empty tuple none of them.
template <>
struct Held<Axes> {
  explicit Held(PyObject* object) {
    if (object == Py_None) return;
    value = to_ints(object);
    if (value.empty()) value = Axes::none();
  }
  const Axes& get() const { return value; }
  Axes value;
};
template <>
struct Held<std::vector<int64_t>> {
  explicit Held(PyObject* object) : value(to_ints(object)) {}
  const std::vector<int64_t>& get() const { return value; }
  std::vector<int64_t> value;
};
template <>
struct Held<std::vector<Tensor>> {
  explicit Held(PyObject* object);
  const std::vector<Tensor>& get() const { return value; }
  std::vector<Tensor> value;
};
template <>
struct Held<std::vector<std::pair<int64_t, int64_t>>> {
  explicit Held(PyObject* object);
  const std::vector<std::pair<int64_t, int64_t>>& get() const { return value; }
  std::vector<std::pair<int64_t, int64_t>> value;
};
template <>
struct Held<std::pair<double, double>> {
  explicit Held(PyObject* object);
  const std::pair<double, double>& get() const { return value; }
  std::pair<double, double> value;
};
template <>
struct Held<Generator> {
  explicit Held(PyObject* object);
  Generator& get() const { return *value; }
  Generator* value;
};
// As it is.
template <>
struct Held<PyObject*> {
  explicit Held(PyObject* object) : value(object) {}
  PyObject* get() const { return value; }
  PyObject* value;
};
template <class T>
struct Held<std::optional<T>> {
  explicit Held(PyObject* object) {
    if (object != Py_None) value.emplace(Held<T>(object).get());
  }
  const std::optional<T>& get() const { return value; }
  std::optional<T> value;
};

inline PyObject* wrap(nb::object object) { return object.release().ptr(); }
inline PyObject* wrap(bool value) { return PyBool_FromLong(value); }
PyObject* wrap(const std::vector<Tensor>& tensors);  // a tuple
PyObject* wrap(const std::pair<Tensor, Tensor>& pair);
PyObject* wrap(const std::map<std::string, Tensor>& tensors);  // a dict
PyObject* wrap(const ValuesIndices& result);
PyObject* wrap(const UniqueResult& result);
PyObject* wrap(const Histogram& result);

namespace detail {

// What a type is called in python_stubs.py.
template <class T>
constexpr const char* kTypeName = "object";
template <>
constexpr const char* kTypeName<void> = "None";
template <>
constexpr const char* kTypeName<Tensor> = "Tensor";
template <>
constexpr const char* kTypeName<Operand> = "Operand";
template <>
constexpr const char* kTypeName<bool> = "bool";
template <>
constexpr const char* kTypeName<int64_t> = "int";
template <>
constexpr const char* kTypeName<uint64_t> = "int";
template <>
constexpr const char* kTypeName<double> = "float";
template <>
constexpr const char* kTypeName<std::string> = "str";
template <>
constexpr const char* kTypeName<std::string_view> = "str";
template <>
constexpr const char* kTypeName<DType> = "DType";
template <>
constexpr const char* kTypeName<Dims> = "Ints";
template <>
constexpr const char* kTypeName<Axes> = "Ints";
template <>
constexpr const char* kTypeName<std::vector<int64_t>> = "Ints";
template <>
constexpr const char* kTypeName<std::vector<Tensor>> = "Tensors";
template <>
constexpr const char* kTypeName<std::vector<std::pair<int64_t, int64_t>>> = "Pairs";
template <>
constexpr const char* kTypeName<std::pair<double, double>> = "TwoFloats";
template <>
constexpr const char* kTypeName<std::pair<Tensor, Tensor>> = "TwoTensors";
template <>
constexpr const char* kTypeName<std::map<std::string, Tensor>> = "State";
template <>
constexpr const char* kTypeName<Generator> = "Generator";
template <>
constexpr const char* kTypeName<ValuesIndices> = "ValuesIndices";
template <>
constexpr const char* kTypeName<UniqueResult> = "UniqueResult";
template <>
constexpr const char* kTypeName<Histogram> = "TwoTensors";
template <class T>
constexpr const char* kTypeName<std::optional<T>> = kTypeName<T>;

PyObject* describe(std::initializer_list<const char*> types);

// Converts one argument, and says which one that is.
struct Source {
  PyObject* object;
  int number;
  int& at;
};
template <class T>
struct Argument : Held<T> {
  explicit Argument(const Source& source) : Held<T>((source.at = source.number, source.object)) {}
};

template <class... P>
struct Parameters {
  template <class R, class F, size_t... I>
  static PyObject* run(F f, PyObject* const* values, int& at, bool computes, std::index_sequence<I...>) {
    if (!values) [[unlikely]]
      return describe({kTypeName<std::remove_cvref_t<P>>..., kTypeName<std::remove_cvref_t<R>>});
    std::tuple<Argument<std::remove_cvref_t<P>>...> held(Source{values[I], static_cast<int>(I), at}...);
    at = -1;
    auto invoke = [&]() -> R { return f(std::get<I>(held).get()...); };
    if constexpr (std::is_void_v<R>) {
      invoke();
      return Py_NewRef(Py_None);
    } else {
      if (!computes) return wrap(invoke());
      return wrap([&] {
        Unlocked unlocked;
        return invoke();
      }());
    }
  }
};
template <class R, class... P>
PyObject* run(R (*f)(P...), PyObject* const* values, int& at, bool computes) {
  return Parameters<P...>::template run<R>(f, values, at, computes, std::index_sequence_for<P...>());
}

}  // namespace detail

template <auto F>
PyObject* call(PyObject* const* values, int& at) {
  return detail::run(+F, values, at, false);
}
// Of functions that compute something at once: other threads of Python go on meanwhile.
template <auto F>
PyObject* compute(PyObject* const* values, int& at) {
  return detail::run(+F, values, at, true);
}

}  // namespace heddle::python
