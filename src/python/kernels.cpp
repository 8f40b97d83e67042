// Kernels that people write: the classes of heddle/kernel.h. python/heddle/kernels.py makes functions of them.
#include <heddle/kernel.h>
#include <nanobind/operators.h>

#include "base/error.h"
#include "core/ops.h"
#include "python/bind.h"
#include "python/convert.h"

namespace heddle::python {
namespace {

// A tensor of a kernel that can be indexed: it knows who writes the kernel.
struct KernelArray {
  KernelBuilder builder;
  KernelTensor tensor;
};

// A tile, or a number.
Tile to_tile(nb::handle object) {
  if (nb::isinstance<Tile>(object)) return nb::cast<Tile>(object);
  PyObject* x = object.ptr();
  if (PyBool_Check(x)) return x == Py_True;
  if (PyFloat_Check(x)) return PyFloat_AsDouble(x);
  if (is_index(x)) return to_int(x);
  if (!is_tensor(x) && PyNumber_Check(x) && !PySequence_Check(x)) return to_double(x);
  throw ArgumentTypeError(text("a kernel computes with tiles and numbers, not with ", type_name(x),
                               is_tensor(x) ? "; give the tensor to the kernel as an argument" : ""));
}
std::vector<Tile> to_tiles(nb::handle object) {
  std::vector<Tile> tiles;
  if (nb::isinstance<Tile>(object) || is_index(object.ptr())) return {to_tile(object)};
  for (const nb::object& each : elements_of(object.ptr())) tiles.push_back(to_tile(each));
  return tiles;
}
nb::object of_dtype(DType dtype) { return nb::steal(wrap(dtype)); }
nb::tuple tuple_of(const Dims& shape) {
  nb::list sizes;
  for (int64_t size : shape) sizes.append(size);
  return nb::tuple(sizes);
}
bool is_number(nb::handle x) { return nb::isinstance<Tile>(x) || is_index(x.ptr()) || PyFloat_Check(x.ptr()); }

// An operator of Python: NotImplemented for what is no tile and no number.
nb::object binary(const char* op, nb::handle a, nb::handle b) {
  if (!is_number(a) || !is_number(b)) return nb::borrow(Py_NotImplemented);
  return nb::cast(Tile::of(op, {to_tile(a), to_tile(b)}));
}

void bind_tile(nb::module_& module) {
  nb::class_<Tile> tile(
      module, "Tile", R"(A value of a kernel that is being written: see kernel(). Operators work on all of its elements.

>>> @hd.kernel
... def doubled(k, x):
...     y, i = k.output(x.shape, x.dtype), k.range(x.shape[0])
...     tile = x[i]
...     y[i] = tile * 2
>>> print(doubled(hd.tensor([1.0, 2.0])))
[2. 4.])");
  static constexpr struct {
    const char *method, *reflected, *op;
  } kBinary[] = {{"__add__", "__radd__", "add"},
                 {"__sub__", "__rsub__", "sub"},
                 {"__mul__", "__rmul__", "mul"},
                 {"__truediv__", "__rtruediv__", "div"},
                 {"__floordiv__", "__rfloordiv__", "floordiv"},
                 {"__mod__", "__rmod__", "mod"},
                 {"__pow__", "__rpow__", "pow"},
                 {"__and__", "__rand__", "bit_and"},
                 {"__or__", "__ror__", "bit_or"},
                 {"__xor__", "__rxor__", "bit_xor"},
                 {"__lshift__", "__rlshift__", "shl"},
                 {"__rshift__", "__rrshift__", "shr"},
                 {"__eq__", nullptr, "eq"},
                 {"__ne__", nullptr, "ne"},
                 {"__lt__", "__gt__", "lt"},
                 {"__le__", "__ge__", "le"}};
  for (const auto& each : kBinary) {
    const char* op = each.op;
    tile.def(each.method, [op](nb::handle self, nb::handle other) { return binary(op, self, other); });
    if (each.reflected)
      tile.def(each.reflected, [op](nb::handle self, nb::handle other) { return binary(op, other, self); });
  }
  static constexpr struct {
    const char *method, *op;
  } kUnary[] = {{"__neg__", "neg"}, {"__abs__", "abs"}, {"__invert__", "bit_not"}};
  for (const auto& each : kUnary) {
    const char* op = each.op;
    tile.def(each.method, [op](const Tile& self) { return Tile::of(op, {self}); });
  }
  tile.def("__bool__", [](const Tile& self) -> bool {
    throw ArgumentTypeError(
        text("a tile (", self.describe(),
             ") is neither true nor false while its kernel is written: use k.where(), a mask, or a loop"));
  });
  tile.attr("__hash__") = nb::none();
  tile.attr("__array_ufunc__") = nb::none();  // NumPy's scalars leave operators to us
  tile.def(
      "to", [](const Tile& self, nb::handle dtype) { return self.to(to_dtype(dtype.ptr())); }, nb::arg("dtype"),
      "The elements as another dtype.");
  tile.def(
      "astype", [](const Tile& self, nb::handle dtype) { return self.to(to_dtype(dtype.ptr())); }, nb::arg("dtype"),
      "The elements as another dtype.");
  tile.def_prop_ro("dtype", [](const Tile& self) { return of_dtype(self.dtype()); }, "Type of the elements.");
  tile.def("__repr__", [](const Tile& self) { return "Tile(" + self.describe() + ")"; });
}

Tile loaded(const KernelArray& x, nb::handle at, nb::handle mask, nb::handle other) {
  KernelBuilder builder = x.builder;
  return builder.load(x.tensor, to_tiles(at), mask.is_none() ? Tile(true) : to_tile(mask), to_tile(other));
}
void stored(const KernelArray& y, nb::handle at, nb::handle value, nb::handle mask) {
  KernelBuilder builder = y.builder;
  builder.store(y.tensor, to_tiles(at), to_tile(value), mask.is_none() ? Tile(true) : to_tile(mask));
}

// `body` gives one tile for one carried tile that stands alone, a tuple for several, None for none.
nb::object looped(KernelBuilder& k, nb::handle start, nb::handle stop, nb::handle body, nb::handle carried,
                  int64_t step) {
  const bool alone = is_number(carried);
  auto run = [&](const Tile& i, std::span<const Tile> now) {
    nb::list args;
    args.append(i);
    for (const Tile& x : now) args.append(x);
    nb::object next = body(*nb::tuple(args));
    if (alone) return std::vector<Tile>{to_tile(next)};
    return next.is_none() ? std::vector<Tile>() : to_tiles(next);
  };
  const std::vector<Tile> results = k.loop(to_tile(start), to_tile(stop), step, to_tiles(carried), run);
  if (alone) return nb::cast(results[0]);
  nb::list list;
  for (const Tile& x : results) list.append(x);
  return nb::tuple(list);
}

using Reduction = Tile (KernelBuilder::*)(const Tile&, const Tile&);

void bind_builder(nb::module_& module) {
  nb::class_<KernelArray>(module, "KernelTensor",
                          R"(An input, a result or shared memory of a kernel that is being written: see kernel().

>>> @hd.kernel
... def first(k, x):
...     y, row = k.output(x.shape[:1], x.dtype), k.block(x.shape[0])
...     y[row] = x[row, 0]
>>> print(first(hd.tensor([[1.0, 2.0], [3.0, 4.0]])))
[1. 3.])")
      .def_prop_ro(
          "shape", [](const KernelArray& self) { return tuple_of(self.tensor.shape()); }, "Sizes of the axes.")
      .def_prop_ro(
          "ndim", [](const KernelArray& self) { return self.tensor.shape().size(); }, "Number of axes.")
      .def_prop_ro(
          "dtype", [](const KernelArray& self) { return of_dtype(self.tensor.dtype()); }, "Type of the elements.")
      .def("__getitem__",
           [](const KernelArray& self, nb::handle at) { return loaded(self, at, nb::none(), nb::int_(0)); })
      .def("__setitem__",
           [](const KernelArray& self, nb::handle at, nb::handle value) { stored(self, at, value, nb::none()); })
      .def("__repr__", [](const KernelArray& self) {
        return text("KernelTensor(", self.tensor.dtype(), self.tensor.shape(), ")");
      });
  nb::class_<KernelBuilder> builder(
      module, "KernelBuilder",
      R"(Writes a kernel: see kernel(). It has every elementwise op by its name, besides what is listed here.

>>> @hd.kernel
... def normed(k, x):
...     y = k.output(x.shape, x.dtype)
...     row, j = k.block(x.shape[0]), k.range(x.shape[1])
...     y[row, j] = x[row, j] / k.sqrt(k.sum(x[row, j] * x[row, j], j))
>>> print(normed(hd.tensor([[3.0, 4.0]])))
[[0.6 0.8]])");
  builder.def("_input", [](const KernelBuilder& k, int number) { return KernelArray{k, k.input(number)}; })
      .def(
          "output",
          [](KernelBuilder& k, nb::handle shape, nb::handle dtype) {
            return KernelArray{k, k.output(Dims(to_ints(shape.ptr())), to_dtype(dtype.ptr()))};
          },
          nb::arg("shape"), nb::arg("dtype"), "A result. Elements that no store reaches hold anything.")
      .def(
          "shared",
          [](KernelBuilder& k, nb::handle shape, nb::handle dtype) {
            return KernelArray{k, k.shared(Dims(to_ints(shape.ptr())), to_dtype(dtype.ptr()))};
          },
          nb::arg("shape"), nb::arg("dtype"), "Memory of the block. Holds anything at first.")
      .def(
          "block", [](KernelBuilder& k, nb::handle count) { return k.block(to_int(count.ptr())); }, nb::arg("count"),
          "The number of this block along one more axis of the grid.")
      .def(
          "range", [](KernelBuilder& k, nb::handle size) { return k.range(to_int(size.ptr())); }, nb::arg("size"),
          "All of 0 to size - 1 at once.")
      .def(
          "load",
          [](KernelBuilder&, const KernelArray& x, nb::handle index, nb::handle mask, nb::handle other) {
            return loaded(x, index, mask, other);
          },
          nb::arg("x"), nb::arg("index"), nb::arg("mask") = nb::none(), nb::arg("other") = 0,
          "Elements at an index: a position for each axis. `other` where the mask does not hold, and outside of x.")
      .def(
          "store",
          [](KernelBuilder&, const KernelArray& y, nb::handle index, nb::handle value, nb::handle mask) {
            stored(y, index, value, mask);
          },
          nb::arg("y"), nb::arg("index"), nb::arg("value"), nb::arg("mask") = nb::none(),
          "Writes a tile. Nothing is written where the mask does not hold, and outside of y.")
      .def(
          "full",
          [](KernelBuilder& k, nb::handle ranges, nb::handle number, nb::handle dtype) {
            return k.full(to_tiles(ranges), to_tile(number), to_dtype(dtype.ptr()));
          },
          nb::arg("ranges"), nb::arg("number"), nb::arg("dtype"), "A number over ranges.")
      .def(
          "dot",
          [](KernelBuilder& k, nb::handle a, nb::handle b, nb::handle range, nb::handle acc) {
            return k.dot(to_tile(a), to_tile(b), to_tile(range),
                         acc.is_none() ? std::nullopt : std::optional(to_tile(acc)));
          },
          nb::arg("a"), nb::arg("b"), nb::arg("range"), nb::arg("acc") = nb::none(), "acc + sum(a * b, range).")
      .def("loop", looped, nb::arg("start"), nb::arg("stop"), nb::arg("body"), nb::arg("carried") = nb::tuple(),
           nb::arg("step") = 1,
           "For i = start, start + step, ... below stop: body(i, *carried) gives the next carried tiles.");
  static constexpr std::pair<const char*, Reduction> kReductions[] = {{"sum", &KernelBuilder::sum},
                                                                      {"prod", &KernelBuilder::prod},
                                                                      {"max", &KernelBuilder::max},
                                                                      {"min", &KernelBuilder::min}};
  for (auto [name, f] : kReductions)
    builder.def(
        name, [f = f](KernelBuilder& k, nb::handle x, nb::handle range) { return (k.*f)(to_tile(x), to_tile(range)); },
        nb::arg("x"), nb::arg("range"), "Over all of a range.");
  // Every elementwise op by its name.
  for (int i = 0; i < kScalarOpCount; ++i) {
    const char* op = info(static_cast<ScalarOp>(i)).name;
    builder.def(
        op,
        [op](KernelBuilder&, nb::args args) {
          std::vector<Tile> tiles;
          for (nb::handle each : args) tiles.push_back(to_tile(each));
          return Tile::of(op, tiles);
        },
        "The op of each element, of tiles, positions and numbers.");
  }
}

}  // namespace

void bind_kernels(nb::module_& module) {
  bind_tile(module);
  bind_builder(module);
  nb::class_<Kernel>(module, "_Kernel")
      .def("__init__",
           [](Kernel* self, nb::handle name, nb::object write, nb::handle threads) {
             // Functions may be let go on any thread.
             std::shared_ptr<PyObject> kept(write.release().ptr(), [](PyObject* o) { release_anywhere(o); });
             new (self) Kernel(to_text(name.ptr()),
                               [kept](KernelBuilder& k) {
                                 nb::gil_scoped_acquire locked;
                                 nb::handle(kept.get())(k);
                               },
                               {.threads = static_cast<int>(to_int(threads.ptr()))});
           })
      .def("__call__", [](const Kernel& self, nb::handle inputs) {
        TensorList tensors;
        for (const nb::object& each : elements_of(inputs.ptr())) tensors.push_back(to_tensor(each.ptr()));
        nb::list results;
        for (const Tensor& each : self(tensors)) results.append(to_object(each));
        return nb::tuple(results);
      });
}

}  // namespace heddle::python
