// Random numbers.
#include "python/bind.h"
#include "python/function.h"
#include "tensor/build.h"

namespace heddle::python {
namespace {

Tensor randomly(const Tensor& x, bool requires_grad) { return requires_grad ? x.requires_grad_() : x; }
Tensor uniform_zero_one(const Dims& shape, DType dtype, bool requires_grad, Generator& generator) {
  return randomly(rand(shape, dtype, generator), requires_grad);
}
Tensor normal_zero_one(const Dims& shape, DType dtype, bool requires_grad, Generator& generator) {
  return randomly(randn(shape, dtype, generator), requires_grad);
}
Tensor zero_one_like(const Tensor& x, const std::optional<DType>& dtype, Generator& generator) {
  OnDeviceOf there(x);
  return rand(x.shape(), dtype.value_or(x.dtype()), generator);
}
Tensor normal_like(const Tensor& x, const std::optional<DType>& dtype, Generator& generator) {
  OnDeviceOf there(x);
  return randn(x.shape(), dtype.value_or(x.dtype()), generator);
}
// randint(high, shape) or randint(low, high, shape).
Tensor integers(int64_t low, PyObject* high, PyObject* shape, DType dtype, Generator& generator) {
  if (shape == Py_None) return randint(to_ints(high), 0, low, dtype, generator);
  return randint(to_ints(shape), low, to_int(high), dtype, generator);
}
Tensor order(PyObject* x, Generator& generator) {
  if (is_index(x)) return permutation(to_int(x), generator);
  return shuffle(to_tensor(x), 0, generator);
}

// Of two functions of one name the one that takes a dtype.
template <class... P>
using WithDType = Tensor (*)(const Dims&, P..., DType, Generator&);
template <class... P>
consteval WithDType<P...> of_dtype(WithDType<P...> f) {
  return f;
}

}  // namespace

void bind_random(nb::module_& module) {
  nb::class_<Generator>(module, "Generator",
                        R"(Hands out keys for random numbers, from a seed. May be shared by threads.

>>> g = hd.Generator(7)
>>> x = hd.rand(3, generator=g)
>>> hd.equal(x, hd.rand(3, generator=hd.Generator(7)))
True)")
      .def(
          "__init__", [](Generator* self, uint64_t seed) { new (self) Generator(seed); }, nb::arg("seed") = 0)
      .def(
          "manual_seed",
          [](nb::object self, uint64_t seed) {
            nb::cast<Generator&>(self).manual_seed(seed);
            return self;
          },
          nb::arg("seed"), "Starts anew from a seed, and returns the generator.")
      .def(
          "get_state",
          [](const Generator& self) {
            Generator::State state = self.state();
            return nb::make_tuple(state.seed, state.draws);
          },
          "The seed, and how many random tensors were drawn since it was set.")
      .def(
          "set_state",
          [](Generator& self, nb::tuple state) {
            if (nb::len(state) != 2) throw ArgumentTypeError("a state of a generator has two numbers");
            self.set_state({nb::cast<uint64_t>(state[0]), nb::cast<uint64_t>(state[1])});
          },
          nb::arg("state"), "Goes on from what get_state() gave.");
  module.def(
      "default_generator", [] { return &default_generator(); }, nb::rv_policy::reference,
      R"(The generator that random functions take keys of unless another one is given.

>>> hd.manual_seed(5)
>>> hd.default_generator().get_state()
(5, 0))");

  using enum Row::Kind;
  static constexpr Row rows[] = {
      {"manual_seed(seed)", call<[](uint64_t seed) { manual_seed(seed); }>, Function},
      {"rand(*shape, dtype='float32', requires_grad=False, generator=None)", call<uniform_zero_one>, Function},
      {"randn(*shape, dtype='float32', requires_grad=False, generator=None)", call<normal_zero_one>, Function},
      {"rand_like(x, dtype=None, generator=None)", call<zero_one_like>, Function},
      {"randn_like(x, dtype=None, generator=None)", call<normal_like>, Function},
      {"uniform(shape, low=0.0, high=1.0, dtype='float32', generator=None)",
       call<of_dtype<double, double>(heddle::uniform)>, Function},
      {"normal(shape, mean=0.0, std=1.0, dtype='float32', generator=None)",
       call<of_dtype<double, double>(heddle::normal)>, Function},
      {"truncated_normal(shape, mean=0.0, std=1.0, low=-2.0, high=2.0, dtype='float32', generator=None)",
       call<of_dtype<double, double, double, double>(truncated_normal)>, Function},
      {"exponential(shape, rate=1.0, dtype='float32', generator=None)", call<of_dtype<double>(heddle::exponential)>,
       Function},
      {"gamma(shape, alpha, scale=1.0, dtype='float32', generator=None)",
       call<of_dtype<const Operand&, double>(heddle::gamma)>, Function},
      {"beta(shape, a, b, dtype='float32', generator=None)",
       call<of_dtype<const Operand&, const Operand&>(heddle::beta)>, Function},
      {"randint(low, high, shape=None, dtype='int64', generator=None)", call<integers>, Function},
      {"bernoulli(shape, p=0.5, dtype='bool', generator=None)", call<of_dtype<const Operand&>(bernoulli)>, Function},
      {"categorical(logits, dim=-1, generator=None)", call<categorical>, Function},
      {"multinomial(weights, num_samples, replacement=True, generator=None)", call<multinomial>, Function},
      {"permutation(x, generator=None)", call<order>, Function},
      {"randperm(x, generator=None)", call<order>, Function},
      {"shuffle(x, dim=0, generator=None)", call<heddle::shuffle>, Function},
      {"dropout(x, p=0.5, training=True, generator=None)", call<dropout>},
  };
  add_functions(module, rows);
}

}  // namespace heddle::python
