// Functions of one example applied to many at once.
#pragma once

#include <heddle/grad.h>

namespace heddle {

namespace detail {
TensorList mapped(const ListFunction& f, const TensorList& arguments,
                  const std::vector<std::optional<int64_t>>& in_axes, int64_t out_axis);
}  // namespace detail

struct VmapOptions {
  // For each argument the axis that runs over examples, or nothing for one that is the same for all; without the list,
  // axis 0 of every argument.
  std::vector<std::optional<int64_t>> in_axes = {};
  int64_t out_axis = 0;  // where the axis of examples comes out
};

// f, which takes tensors of one example, as a function of tensors with an axis of examples. f is called once and must
// not look at values. Random numbers drawn inside are the same for every example. Composes with grad, jit and itself.
//   auto product = vmap([](const Tensor& x, const Tensor& y) { return dot(x, y); });
//   product(tensor({{1, 2}, {3, 4}}), tensor({{1, 1}, {2, 0}}))   // [3. 6.]
//   vmap(grad([](const Tensor& x) { return sum(x * x * x); }))(tensor({{1.}, {2.}}))   // [[ 3.] [12.]]
template <class F>
auto vmap(F f, VmapOptions options = {}) {
  return [f, options]<class... T>(const T&... x)
    requires(sizeof...(T) > 0 && (std::same_as<T, Tensor> && ...))
  {
    using Result = std::remove_cvref_t<decltype(f(x...))>;
    ListFunction listed = [&](const TensorList& list) {
      return [&]<size_t... I>(std::index_sequence<I...>) {
        return detail::to_list(f(list[I]...));
      }(std::index_sequence_for<T...>());
    };
    return detail::from_list<Result>(detail::mapped(listed, {x...}, options.in_axes, options.out_axis));
  };
}

}  // namespace heddle
