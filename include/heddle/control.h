// Control flow inside a program: conditions and loops whose rounds are compiled once, however many there are.
//
// Bodies are functions of tensors. They are called once, to be recorded, and must not look at values. They may use
// tensors from outside, draw random numbers, which differ from round to round as those of a plain loop would, and
// contain other conditions and loops. All of it can be captured by jit(), mapped by vmap(), and differentiated; only a
// while_loop(), whose number of rounds is not known, has no gradient backwards (jvp() goes through it).
//
// What is carried from round to round, and what goes in and out, is one tensor or a list of them. A carried value keeps
// its shape and dtype.
#pragma once

#include <heddle/grad.h>

namespace heddle {

struct ScanOptions {
  bool reverse = false;                // from the last slice to the first
  std::optional<int64_t> length = {};  // how many rounds; needed only where there is nothing to take slices of
  // For gradients, keep no more than the carried values of every so manieth round, and compute what lies between again.
  int64_t recompute_every = 0;
};

namespace detail {

struct Round {
  TensorList carry, outputs;
};
using RoundFunction = std::function<Round(const TensorList& carry, const TensorList& slices)>;

TensorList conditional(const Tensor& predicate, const ListFunction& then, const ListFunction& otherwise,
                       const TensorList& operands);
TensorList loop_while(const std::function<Tensor(const TensorList&)>& condition, const ListFunction& body,
                      const TensorList& carry);
Round scanned(const char* op, const RoundFunction& body, const TensorList& carry, const TensorList& inputs,
              const ScanOptions& options);
TensorList counted(const Operand& begin, const Operand& end,
                   const std::function<TensorList(const Tensor&, const TensorList&)>& body, const TensorList& carry);

}  // namespace detail

// @dtypes any @shape as given

// then(operands...) if the predicate, a bool without axes, is true, else otherwise(operands...). Only that one runs:
// the other can raise nothing. Both give the same shapes and dtypes.
//   auto half = [](const Tensor& x) { return x / 2; };
//   auto next = [](const Tensor& x) { return 3 * x + 1; };
//   cond(tensor(6) < 10, half, next, tensor({6., 8.}))   // [3. 4.]
template <class Then, class Otherwise, class... T>
  requires(std::same_as<T, Tensor> && ...)
auto cond(const Tensor& predicate, const Then& then, const Otherwise& otherwise, const T&... operands) {
  using Result = std::remove_cvref_t<decltype(then(operands...))>;
  auto listed = [](const auto& f) -> ListFunction {
    return [&f](const TensorList& list) {
      return [&]<size_t... I>(std::index_sequence<I...>) {
        return detail::to_list(f(list[I]...));
      }(std::index_sequence_for<T...>());
    };
  };
  return detail::from_list<Result>(detail::conditional(predicate, listed(then), listed(otherwise), {operands...}));
}

// carry = body(carry) for as long as condition(carry), a bool without axes, holds.
//   auto small = [](const Tensor& x) { return x < 100; };
//   while_loop(small, [](const Tensor& x) { return x * 2; }, tensor(3.))   // 192.0
template <class Condition, class Body, TensorOrList T>
T while_loop(const Condition& condition, const Body& body, const T& carry) {
  return detail::from_list<T>(
      detail::loop_while([&](const TensorList& list) { return condition(detail::from_list<T>(list)); },
                         [&](const TensorList& list) { return detail::to_list(body(detail::from_list<T>(list))); },
                         detail::to_list(carry)));
}

// For each slice x of the inputs along axis 0: carry, y = body(carry, x). Gives the last carry, and all y stacked.
//   auto body = [](const Tensor& sum, const Tensor& x) { return std::pair(sum + x, sum * x); };
//   scan(body, tensor(0.), tensor({1., 2., 3.})).first    // 6.0
//   scan(body, tensor(0.), tensor({1., 2., 3.})).second   // [0. 2. 9.]
template <class Body, TensorOrList T, TensorOrList X>
auto scan(const Body& body, const T& carry, const X& inputs, const ScanOptions& options = {}) {
  using Y = std::remove_cvref_t<decltype(body(carry, inputs).second)>;
  detail::Round all = detail::scanned(
      "scan",
      [&](const TensorList& now, const TensorList& slices) {
        auto [next, y] = body(detail::from_list<T>(now), detail::from_list<X>(slices));
        return detail::Round{detail::to_list(next), detail::to_list(y)};
      },
      detail::to_list(carry), detail::to_list(inputs), options);
  return std::pair<T, Y>(detail::from_list<T>(std::move(all.carry)), detail::from_list<Y>(std::move(all.outputs)));
}

// carry = body(i, carry) for i from begin to end, which is not included; i is an i64 without axes. Bounds that are
// tensors make it a while_loop().
//   fori_loop(0, 4, [](const Tensor& i, const Tensor& x) { return x * 2 + i; }, tensor(1.))   // 27.0
template <class Body, TensorOrList T>
T fori_loop(const Operand& begin, const Operand& end, const Body& body, const T& carry) {
  return detail::from_list<T>(detail::counted(
      begin, end,
      [&](const Tensor& i, const TensorList& list) { return detail::to_list(body(i, detail::from_list<T>(list))); },
      detail::to_list(carry)));
}

// f of each slice along axis 0, stacked: one after the other, where vmap() computes all at once.
//   map([](const Tensor& x) { return sum(x * x); }, tensor({{1., 2.}, {3., 4.}}))   // [ 5. 25.]
template <class F, TensorOrList X>
auto map(const F& f, const X& inputs) {
  using Y = std::remove_cvref_t<decltype(f(inputs))>;
  detail::Round all = detail::scanned("map",
                                      [&](const TensorList&, const TensorList& slices) {
                                        return detail::Round{{}, detail::to_list(f(detail::from_list<X>(slices)))};
                                      },
                                      {}, detail::to_list(inputs), {});
  return detail::from_list<Y>(std::move(all.outputs));
}

}  // namespace heddle
