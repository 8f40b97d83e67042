// Differentiation. Gradients are tensors like any others: they can be fused, captured and differentiated again.
//
// Two ways to say what is differentiated:
//   * tensors that asked for it: `w.requires_grad_()`, then `grad(loss, {w})` or `loss.backward()`
//   * functions: `grad(f)(x)`, `value_and_grad(f)(x)`, `vjp`, `jvp`, `jacobian`, `hessian`
// docs/guide.md says what happens at ties, poles and where `where` leaves something out.
#pragma once

#include <heddle/ops.h>

#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace heddle {

using TensorList = std::vector<Tensor>;

struct GradOptions {
  // Zeros for inputs that the output does not depend on, instead of an error.
  bool allow_unused = false;
  // What arrives at the output, of its shape; ones if not given. An output of several elements needs it.
  std::optional<Tensor> cotangent = {};
};

// Gradients of an output of one element, each of its input's shape and dtype. The inputs asked for gradients
// (requires_grad_()) or were computed from tensors that did. ValueError says why there is no gradient.
//   Tensor w = tensor({1., 2., 3.}).requires_grad_();
//   grad(sum(square(w)), w)            // [2. 4. 6.]
//   grad(sum(w * w * w), {w, w})[1]    // [ 3. 12. 27.]
Tensor grad(const Tensor& output, const Tensor& input, const GradOptions& options = {});
TensorList grad(const Tensor& output, const TensorList& inputs, const GradOptions& options = {});
inline TensorList grad(const Tensor& output, std::initializer_list<Tensor> inputs, const GradOptions& options = {}) {
  return grad(output, TensorList(inputs), options);
}

// x as a constant for gradients.
//   Tensor w = tensor({3.}).requires_grad_();
//   grad(sum(w * detach(w)), w)   // [3.]
Tensor detach(const Tensor& x);

// What functions to differentiate take and give: one tensor or several.
template <class T>
concept TensorOrList = std::same_as<std::remove_cvref_t<T>, Tensor> || std::same_as<std::remove_cvref_t<T>, TensorList>;
using ListFunction = std::function<TensorList(const TensorList&)>;

namespace detail {

inline TensorList to_list(const Tensor& x) { return {x}; }
inline TensorList to_list(const TensorList& list) { return list; }
template <TensorOrList T>
T from_list(TensorList list) {
  if constexpr (std::same_as<T, Tensor>)
    return list.at(0);
  else
    return list;
}
// f as a function from list to list of its first argument; the others stay as they are.
template <TensorOrList T, class F, class... Rest>
ListFunction listed(const F& f, const Rest&... rest) {
  return [&](const TensorList& x) { return to_list(f(from_list<T>(x), rest...)); };
}

struct ValueAndGradient {
  Tensor value;
  TensorList gradients;
};
ValueAndGradient differentiate(const char* op, const ListFunction& f, const TensorList& x);
struct ValuesAndTangents {
  TensorList values, tangents;
};
ValuesAndTangents push_forward(const ListFunction& f, const TensorList& x, const TensorList& tangents);
struct Recorded {
  TensorList inputs, outputs, values;
};
Recorded record(const ListFunction& f, const TensorList& x);
TensorList pull_back(const Recorded& recorded, const TensorList& cotangents);
TensorList checkpointed(const ListFunction& f, const TensorList& x);

}  // namespace detail

// The function that gives f's gradient with respect to its first argument: a tensor or a list of them. f gives one
// element. Gradients of gradients are `grad(grad(f))` where f is a function of one element.
//   grad([](const Tensor& x) { return sum(sin(x)); })(tensor({0.}))   // [1.]
template <class F>
  requires(!TensorOrList<F>)
auto grad(F f) {
  return [f]<TensorOrList T>(const T& x, const auto&... rest) {
    return detail::from_list<T>(
        detail::differentiate("grad", detail::listed<T>(f, rest...), detail::to_list(x)).gradients);
  };
}
// The same with the value: `auto [loss, g] = value_and_grad(f)(x);`
//   value_and_grad([](const Tensor& x) { return sum(x * x); })(tensor({3.})).first   // 9.0
template <class F>
auto value_and_grad(F f) {
  return [f]<TensorOrList T>(const T& x, const auto&... rest) {
    auto result = detail::differentiate("value_and_grad", detail::listed<T>(f, rest...), detail::to_list(x));
    return std::pair<Tensor, T>(result.value, detail::from_list<T>(std::move(result.gradients)));
  };
}

// f(x), and a function from a gradient of the result to that of x: `auto [y, pull] = vjp(f, x); pull(g)`.
//   vjp([](const Tensor& x) { return x * x; }, tensor({1., 2.})).second(tensor({1., 10.}))   // [ 2. 40.]
template <class F, TensorOrList T>
auto vjp(const F& f, const T& x) {
  using Result = std::remove_cvref_t<decltype(f(x))>;
  detail::Recorded recorded = detail::record(detail::listed<T>(f), detail::to_list(x));
  auto pull = [recorded](const Result& cotangent) {
    return detail::from_list<T>(detail::pull_back(recorded, detail::to_list(cotangent)));
  };
  return std::pair(detail::from_list<Result>(recorded.values), pull);
}

// f(x), and how it changes when x changes by `tangent`.
//   jvp([](const Tensor& x) { return x * x; }, tensor({1., 2.}), tensor({1., 10.})).second   // [ 2. 40.]
template <class F, TensorOrList T>
auto jvp(const F& f, const T& x, const T& tangent) {
  using Result = std::remove_cvref_t<decltype(f(x))>;
  auto [values, tangents] = detail::push_forward(detail::listed<T>(f), detail::to_list(x), detail::to_list(tangent));
  return std::pair(detail::from_list<Result>(std::move(values)), detail::from_list<Result>(std::move(tangents)));
}

// All derivatives of f: its shape is that of f(x), then that of x.
//   jacobian([](const Tensor& x) { return x * x; }, tensor({1., 2.}))   // [[2. 0.] [0. 4.]]
Tensor jacobian(const std::function<Tensor(const Tensor&)>& f, const Tensor& x);
// All second derivatives of a function that gives one element: its shape is that of x, twice.
//   hessian([](const Tensor& x) { return sum(x * x * x); }, tensor({1., 2.}))   // [[ 6.  0.] [ 0. 12.]]
Tensor hessian(const std::function<Tensor(const Tensor&)>& f, const Tensor& x);

// A function with a gradient of its own. `backward` gets the inputs, the result and its gradient, and gives one
// gradient per input, of that input's shape and dtype.
//   auto forward = [](const TensorList& x) { return x[0] * 2; };
//   auto backward = [](const TensorList& x, const Tensor& y, const Tensor& g) { return TensorList{g + x[0] + y}; };
//   auto twice = custom_vjp(forward, backward);
//   grad([&](const Tensor& x) { return sum(twice({x})); })(tensor({1., 2.}))   // [4. 7.]
std::function<Tensor(const TensorList&)> custom_vjp(
    std::function<Tensor(const TensorList&)> forward,
    std::function<TensorList(const TensorList& inputs, const Tensor& output, const Tensor& gradient)> backward);

// f(x), of which only x is kept for the backward pass: what f computes on the way is computed again there.
//   auto layer = [](const Tensor& y) { return exp(sin(y)); };
//   grad([&](const Tensor& x) { return sum(checkpoint(layer, x)); })(tensor({0.}))   // [1.]
template <class F, TensorOrList T>
auto checkpoint(const F& f, const T& x) {
  using Result = std::remove_cvref_t<decltype(f(x))>;
  return detail::from_list<Result>(detail::checkpointed(detail::listed<T>(f), detail::to_list(x)));
}

}  // namespace heddle
