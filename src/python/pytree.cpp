#include "python/pytree.h"

#include <nanobind/stl/vector.h>

#include "base/error.h"
#include "python/bind.h"

namespace heddle::python {
namespace {

using Kind = TreeNode::Kind;
constexpr int kDeepest = 200;  // a list may contain itself

nb::dict& registered() {
  static nb::dict& classes = *new nb::dict;
  return classes;
}

void add(nb::handle value, Tree& tree, std::vector<nb::object>& leaves, int depth) {
  if (depth > kDeepest) throw ValueError("a value is nested too deeply, or contains itself");
  PyTypeObject* type = Py_TYPE(value.ptr());
  TreeNode node;
  auto children = [&](const nb::object& list) {
    if (!list.is_valid()) nb::raise_python_error();
    const std::vector<nb::object> elements = elements_of(list.ptr());
    node.children = elements.size();
    tree.nodes.push_back(node);
    for (const nb::object& child : elements) add(child, tree, leaves, depth + 1);
  };
  if (value.is_none()) {
    node.kind = Kind::None;
    tree.nodes.push_back(std::move(node));
    return;
  }
  if (type == &PyTuple_Type || type == &PyList_Type) {
    node.kind = type == &PyTuple_Type ? Kind::Tuple : Kind::List;
    return children(nb::borrow(value));
  }
  if (type == tensor_type) {
    tree.nodes.push_back(std::move(node));
    leaves.push_back(nb::borrow(value));
    ++tree.leaves;
    return;
  }
  if (PyDict_Check(value.ptr())) {
    node.kind = Kind::Dict;
    node.type = nb::borrow(reinterpret_cast<PyObject*>(type));
    node.info = nb::steal(PySequence_Tuple(value.ptr()));
    return children(nb::steal(PyDict_Values(value.ptr())));
  }
  nb::object type_object = nb::borrow(reinterpret_cast<PyObject*>(type));
  if (PyObject* functions = PyDict_GetItemWithError(registered().ptr(), type_object.ptr())) {
    nb::object parts = nb::borrow(PyTuple_GetItem(functions, 0))(value);
    if (!PyTuple_Check(parts.ptr()) || PyTuple_Size(parts.ptr()) != 2)
      throw ArgumentTypeError("the function that takes " + type_name(value.ptr()) +
                              " apart must give a tuple (children, rest)");
    node.kind = Kind::Registered;
    node.type = type_object;
    node.info = nb::borrow(PyTuple_GetItem(parts.ptr(), 1));
    return children(nb::steal(PySequence_Tuple(PyTuple_GetItem(parts.ptr(), 0))));
  }
  if (PyErr_Occurred()) nb::raise_python_error();
  // Named tuples of Python, and those of C, which take a sequence: what sort() and topk() give is one.
  const bool of_c = PyTuple_Check(value.ptr()) && nb::hasattr(type_object, "n_sequence_fields");
  if (of_c || (PyTuple_Check(value.ptr()) && nb::hasattr(type_object, "_fields"))) {
    node.kind = Kind::NamedTuple;
    node.type = type_object;
    if (of_c) node.info = nb::bool_(true);
    return children(nb::borrow(value));
  }
  if (nb::hasattr(type_object, "__dataclass_fields__")) {
    node.kind = Kind::Dataclass;
    node.type = type_object;
    nb::list names, values;  // not those of the class, nor those that only its __init__ knows
    for (nb::handle field : nb::module_::import_("dataclasses").attr("fields")(type_object))
      names.append(field.attr("name"));
    node.info = nb::steal(PySequence_Tuple(names.ptr()));
    for (nb::handle name : node.info) values.append(nb::getattr(value, name));
    return children(values);
  }
  tree.nodes.push_back(std::move(node));
  leaves.push_back(nb::borrow(value));
  ++tree.leaves;
}

nb::object build(const Tree& tree, size_t& at, std::span<const nb::object> leaves, size_t& leaf) {
  const TreeNode& node = tree.nodes[at++];
  if (node.kind == Kind::None) return nb::none();
  if (node.kind == Kind::Leaf) return leaves[leaf++];
  nb::object list = nb::steal(node.kind == Kind::List ? PyList_New(static_cast<Py_ssize_t>(node.children))
                                                      : PyTuple_New(static_cast<Py_ssize_t>(node.children)));
  for (size_t i = 0; i < node.children; ++i) {
    PyObject* child = build(tree, at, leaves, leaf).release().ptr();
    if (node.kind == Kind::List)
      PyList_SetItem(list.ptr(), static_cast<Py_ssize_t>(i), child);
    else
      PyTuple_SetItem(list.ptr(), static_cast<Py_ssize_t>(i), child);
  }
  auto named = [&](nb::object target) {
    for (size_t i = 0; i < node.children; ++i)
      target[nb::object(node.info[i])] = nb::borrow(PyTuple_GetItem(list.ptr(), static_cast<Py_ssize_t>(i)));
    return target;
  };
  switch (node.kind) {
    case Kind::Dict:
      // Classes that derive from dict take the items; a defaultdict takes its factory first.
      if (node.type.is(reinterpret_cast<PyObject*>(&PyDict_Type))) return named(nb::dict());
      return named(nb::object(node.type.attr("__new__")(node.type)));
    case Kind::NamedTuple: return node.info.is_valid() ? node.type(list) : node.type(*nb::borrow<nb::tuple>(list));
    case Kind::Dataclass: {
      nb::object made = node.type.attr("__new__")(node.type);
      nb::object set = nb::module_::import_("builtins").attr("object").attr("__setattr__");  // frozen ones too
      for (size_t i = 0; i < node.children; ++i)
        set(made, nb::object(node.info[i]), nb::borrow(PyTuple_GetItem(list.ptr(), static_cast<Py_ssize_t>(i))));
      return made;
    }
    case Kind::Registered:
      return nb::borrow(PyTuple_GetItem(PyDict_GetItem(registered().ptr(), node.type.ptr()), 1))(node.info, list);
    default: return list;
  }
}

bool equal(const nb::object& a, const nb::object& b, int depth = 0) {
  if (a.ptr() == b.ptr()) return true;
  if (!a.is_valid() || !b.is_valid() || Py_TYPE(a.ptr()) != Py_TYPE(b.ptr())) return false;
  if (depth < kDeepest && (PyTuple_CheckExact(a.ptr()) || PyList_CheckExact(a.ptr()))) {
    const std::vector<nb::object> x = elements_of(a.ptr()), y = elements_of(b.ptr());
    bool all = x.size() == y.size();
    for (size_t i = 0; all && i < x.size(); ++i) all = equal(x[i], y[i], depth + 1);
    return all;
  }
  if (depth < kDeepest && PyDict_CheckExact(a.ptr())) {
    nb::object x = nb::steal(PyDict_Items(a.ptr())), y = nb::steal(PyDict_Items(b.ptr()));
    return equal(x, y, depth + 1);
  }
  int result = PyObject_RichCompareBool(a.ptr(), b.ptr(), Py_EQ);
  if (result < 0) nb::raise_python_error();
  return result == 1;
}

std::string structure_text(const Tree& tree) {
  std::vector<nb::object> stars;
  for (size_t i = 0; i < tree.leaves; ++i) stars.push_back(nb::str("*"));
  size_t at = 0, leaf = 0;
  return "PyTree(" + nb::cast<std::string>(nb::repr(build(tree, at, stars, leaf))) + ")";
}

}  // namespace

bool strictly_equal(const nb::object& a, const nb::object& b) { return equal(a, b); }

void keep_as_it_is(Tree& tree) {
  for (TreeNode& node : tree.nodes) {
    if (node.kind != Kind::Registered || PyObject_Hash(node.info.ptr()) != -1) continue;
    PyErr_Clear();
    node.info = nb::module_::import_("copy").attr("deepcopy")(node.info);
  }
}

bool same(const Tree& a, const Tree& b) {
  if (a.nodes.size() != b.nodes.size()) return false;
  for (size_t i = 0; i < a.nodes.size(); ++i) {
    const TreeNode &x = a.nodes[i], &y = b.nodes[i];
    if (x.kind != y.kind || x.children != y.children || x.type.ptr() != y.type.ptr() || !equal(x.info, y.info))
      return false;
  }
  return true;
}

Tree flatten(nb::handle value, std::vector<nb::object>& leaves) {
  Tree tree;
  add(value, tree, leaves, 0);
  return tree;
}

nb::object unflatten(const Tree& tree, std::span<const nb::object> leaves) {
  if (leaves.size() != tree.leaves)
    throw ValueError(text("tree_unflatten: ", leaves.size(), " leaves for a structure of ", tree.leaves));
  size_t at = 0, leaf = 0;
  return build(tree, at, leaves, leaf);
}

void bind_pytrees(nb::module_& module) {
  nb::class_<Tree>(module, "PyTree", R"(The structure of a nested value, without its leaves.

>>> hd.tree_flatten({"a": 1, "b": (2, 3)})[1].num_leaves
3)")
      .def_prop_ro(
          "num_leaves", [](const Tree& self) { return self.leaves; }, "How many leaves there are.")
      .def(
          "__eq__", [](const Tree& self, const Tree& other) { return same(self, other); }, nb::is_operator())
      .def("__repr__", structure_text);
  module.def(
      "tree_flatten",
      [](nb::handle value) {
        std::vector<nb::object> leaves;
        Tree tree = flatten(value, leaves);
        return nb::make_tuple(leaves, nb::cast(std::move(tree)));
      },
      nb::arg("tree").none(), R"(The leaves of a value as a list, and its structure.

>>> leaves, structure = hd.tree_flatten({"a": 1, "b": (2, 3)})
>>> leaves
[1, 2, 3])");
  module.def(
      "tree_unflatten",
      [](const Tree& tree, nb::handle leaves) {
        std::vector<nb::object> list;
        for (nb::handle leaf : nb::iter(leaves)) list.push_back(nb::borrow(leaf));
        return unflatten(tree, list);
      },
      nb::arg("structure"), nb::arg("leaves"), R"(The value of that structure with these leaves.

>>> leaves, structure = hd.tree_flatten({"a": 1, "b": (2, 3)})
>>> hd.tree_unflatten(structure, [10, 20, 30])
{'a': 10, 'b': (20, 30)})");
  module.def(
      "register_pytree",
      [](nb::handle type, nb::handle flatten_function, nb::handle unflatten_function) {
        if (!PyType_Check(type.ptr())) throw ArgumentTypeError("register_pytree: expected a class");
        registered()[type] = nb::make_tuple(flatten_function, unflatten_function);
      },
      nb::arg("type"), nb::arg("flatten"), nb::arg("unflatten"),
      R"(Makes a class structure: flatten(value) gives (children, rest), unflatten(rest, children) the value.

>>> class Point:
...     def __init__(self, x, y):
...         self.x, self.y = x, y
>>> hd.register_pytree(Point, lambda p: ((p.x, p.y), None), lambda rest, children: Point(*children))
>>> hd.tree_leaves(Point(1, 2))
[1, 2])");
}

}  // namespace heddle::python
