// Element types as Python objects.
#include <array>

#include "base/error.h"
#include "python/bind.h"
#include "python/convert.h"

namespace heddle::python {
namespace {

struct DTypeObject {
  DType dtype;
};

struct Name {
  DType dtype;
  const char *name, *other;
};
constexpr Name kNames[] = {
    {kBool, "bool", nullptr},
    {kI8, "int8", "i8"},
    {kI16, "int16", "i16"},
    {kI32, "int32", "i32"},
    {kI64, "int64", "i64"},
    {kU8, "uint8", "u8"},
    {kU16, "uint16", "u16"},
    {kU32, "uint32", "u32"},
    {kU64, "uint64", "u64"},
    {kF8E4M3, "float8_e4m3", "f8e4m3"},
    {kF8E5M2, "float8_e5m2", "f8e5m2"},
    {kF16, "float16", "f16"},
    {kBF16, "bfloat16", "bf16"},
    {kF32, "float32", "f32"},
    {kF64, "float64", "f64"},
};
constexpr Name kOtherNames[] = {{kF16, "half", nullptr}, {kF64, "double", nullptr}, {kI64, "long", nullptr}};

std::array<PyObject*, 16> objects;

const char* long_name(DType dtype) {
  for (const Name& n : kNames)
    if (n.dtype == dtype) return n.name;
  return "?";
}

std::optional<DType> by_name(const std::string& name) {
  for (const Name& n : kNames)
    if (name == n.name || (n.other && name == n.other)) return n.dtype;
  return {};
}

}  // namespace

PyObject* wrap(DType dtype) { return Py_NewRef(objects[static_cast<size_t>(dtype)]); }

DType to_dtype(PyObject* object) {
  DTypeObject* known = nullptr;
  if (nb::try_cast(nb::handle(object), known, false) && known) return known->dtype;
  if (object == reinterpret_cast<PyObject*>(&PyBool_Type)) return kBool;
  if (object == reinterpret_cast<PyObject*>(&PyLong_Type)) return kI64;
  if (object == reinterpret_cast<PyObject*>(&PyFloat_Type)) return kF32;
  std::string name;
  if (PyUnicode_Check(object)) {
    name = to_text(object);
  } else {
    // numpy.dtype("float32") has a name; numpy.float32 is a class of that name.
    const char* attribute = PyType_Check(object) ? "__name__" : "name";
    if (nb::hasattr(object, attribute)) {
      nb::object found = nb::handle(object).attr(attribute);
      if (PyUnicode_Check(found.ptr())) name = to_text(found.ptr());
    }
    if (name == "bool_") name = "bool";
  }
  if (std::optional<DType> found = by_name(name)) return *found;
  if (name.empty()) throw ArgumentTypeError("expected a dtype, not " + type_name(object));
  throw ArgumentTypeError("there is no dtype '" + name + "'");
}

void bind_dtypes(nb::module_& module) {
  nb::class_<DTypeObject>(
      module, "dtype",
      R"(The type of a tensor's elements: hd.float32 and the like. It equals its name, its short name, and NumPy's dtype.

>>> hd.ones(2).dtype
heddle.float32
>>> hd.float32 == "f32", hd.float32.itemsize, hd.float32.is_floating_point
(True, 4, True))")
      .def_prop_ro(
          "name", [](const DTypeObject& self) { return long_name(self.dtype); }, "Its whole name.")
      .def_prop_ro(
          "itemsize", [](const DTypeObject& self) { return size_of(self.dtype); }, "Bytes of one element.")
      .def_prop_ro(
          "is_floating_point", [](const DTypeObject& self) { return is_float(self.dtype); }, "Whether it is a float.")
      .def_prop_ro(
          "is_signed", [](const DTypeObject& self) { return is_signed(self.dtype); },
          "Whether it has negative numbers.")
      .def("__repr__", [](const DTypeObject& self) { return std::string("heddle.") + long_name(self.dtype); })
      .def("__str__", [](const DTypeObject& self) { return long_name(self.dtype); })
      .def("__hash__", [](const DTypeObject& self) { return static_cast<int>(self.dtype) + 1; })
      .def(
          "__eq__",
          [](const DTypeObject& self, nb::handle other) {
            DTypeObject* known = nullptr;
            if (nb::try_cast(other, known, false)) return known && known->dtype == self.dtype;
            if (other.is_none()) return false;
            try {
              return to_dtype(other.ptr()) == self.dtype;
            } catch (const ArgumentTypeError&) {
              return false;
            }
          },
          nb::arg().none())
      .def("__reduce__", [](const DTypeObject& self) { return long_name(self.dtype); })
      .def("__copy__", [](nb::object self) { return self; })
      .def("__deepcopy__", [](nb::object self, nb::handle) { return self; });
  for (const Name& n : kNames) {
    nb::object made = nb::cast(DTypeObject{n.dtype});
    objects[static_cast<size_t>(n.dtype)] = made.ptr();
    module.attr(n.name) = made;
    made.release();  // lives as long as the process
  }
  for (const Name& n : kOtherNames) module.attr(n.name) = nb::handle(objects[static_cast<size_t>(n.dtype)]);
}

}  // namespace heddle::python
