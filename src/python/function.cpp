#include "python/function.h"

#include <structmember.h>

#include <cstring>
#include <memory>

#include "base/error.h"
#include "python/errors.h"

namespace heddle::python {
namespace {

// Other names by which a parameter may be given.
struct Alias {
  const char *name, *other;
};
constexpr Alias kAliases[] = {
    {"dim", "axis"},
    {"dim", "axes"},
    {"dim", "dims"},
    {"dims", "axes"},
    {"num", "steps"},
    {"stop", "end"},
    {"keepdim", "keepdims"},
    {"x", "input"},
    {"x", "a"},
    {"a", "input"},
    {"a", "x1"},
    {"b", "other"},
    {"b", "x2"},
    {"shape", "size"},
    {"epsilon", "eps"},
    {"low", "min"},
    {"high", "max"},
    {"correction", "ddof"},
    {"weights", "input"},
    {"tensors", "arrays"},
    {"parts", "tensors"},
    {"parts", "arrays"},
};
constexpr size_t kMostParameters = 12;

struct Parameter {
  nb::object name;
  std::vector<nb::object> others;
  nb::object otherwise;  // null: it must be given
};

struct Spec {
  std::string name, doc;
  std::vector<Parameter> parameters;
  size_t gathers = kMostParameters;  // the parameter that takes all further positional arguments
  Thunk thunk = nullptr;
  bool creates = false;  // a tensor, of a dtype: it may be told where, too
};

struct FunctionObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  const Spec* spec;  // lives as long as the process
};

nb::object interned(const std::string& text) { return nb::steal(PyUnicode_InternFromString(text.c_str())); }

nb::object literal(const std::string& text) {
  if (text == "None") return nb::none();
  if (text == "True" || text == "False") return nb::bool_(text == "True");
  if (text.front() == '\'') return nb::str(text.substr(1, text.size() - 2).c_str());
  return nb::module_::import_("builtins").attr("eval")(text);
}

std::unique_ptr<Spec> parse(const char* signature) {
  auto spec = std::make_unique<Spec>();
  std::string text = signature;
  size_t open = text.find('('), close = text.rfind(')');
  HD_ASSERT(open != std::string::npos && close != std::string::npos, "signature ", text);
  spec->name = text.substr(0, open);
  std::string list = text.substr(open + 1, close - open - 1), word;
  int depth = 0;
  auto finish = [&] {
    while (!word.empty() && word.front() == ' ') word.erase(0, 1);
    if (word.empty()) return;
    if (word.front() == '*') {
      word.erase(0, 1);
      spec->gathers = spec->parameters.size();
    }
    size_t equals = word.find('=');
    Parameter parameter;
    std::string name = word.substr(0, equals);
    parameter.name = interned(name);
    for (const Alias& alias : kAliases)
      if (name == alias.name) parameter.others.push_back(interned(alias.other));
    if (equals != std::string::npos) parameter.otherwise = literal(word.substr(equals + 1));
    spec->parameters.push_back(std::move(parameter));
    word.clear();
  };
  for (char c : list) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0)
      finish();
    else
      word += c;
  }
  finish();
  HD_ASSERT(spec->parameters.size() <= kMostParameters, "signature ", text);
  spec->doc = text;
  return spec;
}

std::string text_of(PyObject* name) {
  const char* text = PyUnicode_AsUTF8AndSize(name, nullptr);
  if (!text) PyErr_Clear();
  return text ? text : "?";
}

bool same(PyObject* a, PyObject* b) { return a == b || PyUnicode_Compare(a, b) == 0; }

// The parameter of that name.
size_t find(const Spec& spec, PyObject* keyword) {
  for (size_t i = 0; i < spec.parameters.size(); ++i)
    if (spec.parameters[i].name.ptr() == keyword) return i;
  for (size_t i = 0; i < spec.parameters.size(); ++i) {
    const Parameter& parameter = spec.parameters[i];
    if (same(parameter.name.ptr(), keyword)) return i;
    for (const nb::object& other : parameter.others)
      if (same(other.ptr(), keyword)) return i;
  }
  throw ArgumentTypeError(text(spec.name, "() has no parameter '", text_of(keyword), "'; it is ", spec.doc));
}

// One sequence, or all of them.
nb::object gather(PyObject* const* arguments, size_t count) {
  if (count == 1 && (PyList_Check(arguments[0]) || PyTuple_Check(arguments[0]))) return nb::borrow(arguments[0]);
  nb::object all = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; i < count; ++i) PyTuple_SetItem(all.ptr(), static_cast<Py_ssize_t>(i), Py_NewRef(arguments[i]));
  return all;
}

// What makes a tensor makes it there; one that was there before is taken there.
PyObject* call_on(const Device& device, const Spec& spec, PyObject** values, int& at) {
  nb::object made;
  {
    DeviceScope scope(device);
    made = nb::steal(spec.thunk(values, at));
  }
  if (!made.is_valid() || !is_tensor(made.ptr())) return made.release().ptr();
  const Tensor& tensor = tensor_of(made.ptr());
  if (tensor.device() == device) return made.release().ptr();
  return to_object(tensor.to(device)).release().ptr();
}

PyObject* call_function(PyObject* self, PyObject* const* arguments, size_t counted, PyObject* keywords) noexcept {
  const Spec& spec = *reinterpret_cast<FunctionObject*>(self)->spec;
  int at = -1;
  try {
    size_t given = static_cast<size_t>(PyVectorcall_NARGS(counted)), count = spec.parameters.size();
    PyObject* values[kMostParameters] = {};
    nb::object gathered;
    std::optional<Device> device;
    size_t direct = std::min(given, std::min(count, spec.gathers));
    for (size_t i = 0; i < direct; ++i) values[i] = arguments[i];
    if (given > direct) {
      if (spec.gathers >= count)
        throw ArgumentTypeError(
            text(spec.name, "() takes at most ", count, " arguments, not ", given, "; it is ", spec.doc));
      gathered = gather(arguments + direct, given - direct);
      values[spec.gathers] = gathered.ptr();
    }
    if (keywords) {
      size_t names = static_cast<size_t>(PyTuple_Size(keywords));
      for (size_t k = 0; k < names; ++k) {
        PyObject* keyword = PyTuple_GetItem(keywords, static_cast<Py_ssize_t>(k));
        if (spec.creates && PyUnicode_CompareWithASCIIString(keyword, "device") == 0) {
          device = to_device(arguments[given + k]);
          continue;
        }
        size_t i = find(spec, keyword);
        if (values[i])
          throw ArgumentTypeError(text(spec.name, "() got '", text_of(spec.parameters[i].name.ptr()), "' twice"));
        values[i] = arguments[given + k];
      }
    }
    for (size_t i = 0; i < count; ++i) {
      // None says the same as nothing.
      if (values[i] && (values[i] != Py_None || !spec.parameters[i].otherwise.is_valid())) continue;
      values[i] = spec.parameters[i].otherwise.ptr();
      if (!values[i])
        throw ArgumentTypeError(
            text(spec.name, "() needs the argument '", text_of(spec.parameters[i].name.ptr()), "'; it is ", spec.doc));
    }
    return device ? call_on(*device, spec, values, at) : spec.thunk(values, at);
  } catch (const ArgumentTypeError& e) {
    if (at < 0) return set_error();
    PyErr_Format(PyExc_TypeError, "%s(): argument '%s': %s", spec.name.c_str(),
                 text_of(spec.parameters[static_cast<size_t>(at)].name.ptr()).c_str(), e.what());
    return nullptr;
  } catch (...) {
    return set_error();
  }
}

const Spec& spec_of(PyObject* self) { return *reinterpret_cast<FunctionObject*>(self)->spec; }

PyObject* bind_method(PyObject* self, PyObject* object, PyObject*) { return bind_to(self, object); }
PyObject* represent(PyObject* self) { return PyUnicode_FromFormat("<heddle function %s>", spec_of(self).doc.c_str()); }
PyObject* get_name(PyObject* self, void*) { return PyUnicode_FromString(spec_of(self).name.c_str()); }
PyObject* get_module(PyObject*, void*) { return PyUnicode_FromString("heddle"); }
// The signature, and what the package's table of texts has for the name. Nobody reads that before somebody asks.
PyObject* get_doc(PyObject* self, void*) {
  try {
    const Spec& spec = spec_of(self);
    nb::object texts = nb::module_::import_("heddle._docs").attr("TEXTS");
    std::string more = nb::cast<std::string>(nb::str(texts.attr("get")(spec.name, "")));
    return PyUnicode_FromString((spec.doc + (more.empty() ? "" : "\n\n" + more)).c_str());
  } catch (...) {
    return set_error();
  }
}
// As inspect.signature() shows it.
PyObject* get_signature(PyObject* self, void*) {
  try {
    const Spec& spec = spec_of(self);
    std::string list = spec.doc.substr(spec.name.size() + 1);
    list.pop_back();
    if (size_t star = list.find("=()"); star != std::string::npos) list.erase(star, 3);  // of gathered arguments
    nb::object like = nb::module_::import_("builtins").attr("eval")("lambda " + list + ": None");
    return nb::object(nb::module_::import_("inspect").attr("signature")(like)).release().ptr();
  } catch (...) {
    return set_error();
  }
}
// For stubs: for each parameter its other names, and whether `device` may be given.
PyObject* get_aliases(PyObject* self, void*) {
  try {
    const Spec& spec = spec_of(self);
    nb::dict result;
    for (const Parameter& parameter : spec.parameters)
      if (!parameter.others.empty()) {
        nb::list others;
        for (const nb::object& other : parameter.others) others.append(other);
        result[parameter.name] = others;
      }
    if (spec.creates) result["device"] = nb::list();
    return result.release().ptr();
  } catch (...) {
    return set_error();
  }
}
PyObject* get_types(PyObject* self, void*) {
  int at = -1;
  return spec_of(self).thunk(nullptr, at);
}
PyObject* reduce(PyObject* self, PyObject*) { return PyUnicode_FromString(spec_of(self).name.c_str()); }
void forget(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyGetSetDef attributes[] = {
    {"__name__", get_name, nullptr, nullptr, nullptr},           {"__qualname__", get_name, nullptr, nullptr, nullptr},
    {"__module__", get_module, nullptr, nullptr, nullptr},       {"__doc__", get_doc, nullptr, nullptr, nullptr},
    {"__signature__", get_signature, nullptr, nullptr, nullptr}, {"_types", get_types, nullptr, nullptr, nullptr},
    {"_aliases", get_aliases, nullptr, nullptr, nullptr},        {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
PyMemberDef members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(FunctionObject, vectorcall), READONLY, nullptr},
                         {nullptr, 0, 0, 0, nullptr}};

template <class F>
void* slot(F* function) {
  return reinterpret_cast<void*>(function);
}

PyTypeObject* make_type(const char* name, bool binds) {
  PyType_Slot slots[] = {{Py_tp_call, slot(PyVectorcall_Call)},
                         {Py_tp_dealloc, slot(forget)},
                         {Py_tp_repr, slot(represent)},
                         {Py_tp_getset, attributes},
                         {Py_tp_methods, methods},
                         {Py_tp_members, members},
                         {binds ? Py_tp_descr_get : 0, slot(bind_method)},
                         {0, nullptr}};
  unsigned flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  if (binds) flags |= Py_TPFLAGS_METHOD_DESCRIPTOR;
  PyType_Spec spec{name, sizeof(FunctionObject), 0, flags, slots};
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) nb::raise_python_error();
  return reinterpret_cast<PyTypeObject*>(type);
}

nb::object make_function(PyTypeObject* type, const Spec* spec) {
  auto* object = PyObject_New(FunctionObject, type);
  if (!object) nb::raise_python_error();
  object->vectorcall = call_function;
  object->spec = spec;
  return nb::steal(reinterpret_cast<PyObject*>(object));
}

PyObject* tuple_of(std::initializer_list<const Tensor*> tensors) {
  nb::object result = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(tensors.size())));
  Py_ssize_t i = 0;
  for (const Tensor* tensor : tensors) PyTuple_SetItem(result.ptr(), i++, tensor ? wrap(*tensor) : Py_NewRef(Py_None));
  return result.release().ptr();
}
// A tuple whose elements have names.
PyTypeObject* named(const char* name, PyStructSequence_Field* fields, int count) {
  PyStructSequence_Desc description{name, nullptr, fields, count};
  PyTypeObject* type = PyStructSequence_NewType(&description);
  if (!type) nb::raise_python_error();
  return type;
}
PyObject* named_tuple(PyTypeObject* type, const Tensor& first, const Tensor& second) {
  nb::object result = nb::steal(PyStructSequence_New(type));
  if (!result.is_valid()) nb::raise_python_error();
  PyStructSequence_SetItem(result.ptr(), 0, wrap(first));
  PyStructSequence_SetItem(result.ptr(), 1, wrap(second));
  return result.release().ptr();
}

}  // namespace

PyObject* bind_to(PyObject* function, PyObject* object) {
  if (!object || object == Py_None) return Py_NewRef(function);
  static PyObject* method = nb::object(nb::module_::import_("types").attr("MethodType")).release().ptr();
  return PyObject_CallFunctionObjArgs(method, function, object, nullptr);
}

void add_functions(nb::module_& module, std::span<const Row> rows) {
  static PyTypeObject* function_type = make_type("heddle.function", false);
  static PyTypeObject* method_type = make_type("heddle.method", true);
  for (const Row& row : rows) {
    Spec* spec = parse(row.signature).release();
    spec->thunk = row.thunk;
    spec->creates = row.kind == Row::Kind::Function && spec->doc.find(" dtype=") != std::string::npos;
    if (row.kind != Row::Kind::Method) module.attr(spec->name.c_str()) = make_function(function_type, spec);
    bool first = !spec->parameters.empty() && spec->gathers > 0;
    if (row.kind == Row::Kind::Method || (row.kind == Row::Kind::Both && first))
      nb::setattr(reinterpret_cast<PyObject*>(tensor_type), spec->name.c_str(), make_function(method_type, spec));
  }
}

void add_alias(nb::module_& module, const char* alias, const char* name) {
  if (nb::hasattr(module, name)) module.attr(alias) = module.attr(name);
  nb::handle type(reinterpret_cast<PyObject*>(tensor_type));
  if (nb::hasattr(type, name)) nb::setattr(type, alias, nb::getattr(type, name));
}

Held<std::vector<Tensor>>::Held(PyObject* object) {
  nb::object list = nb::steal(PySequence_Fast(object, ""));
  if (!list.is_valid()) {
    PyErr_Clear();
    throw ArgumentTypeError("expected a sequence of tensors, not " + type_name(object));
  }
  for (const nb::object& element : elements_of(list.ptr())) value.push_back(to_tensor(element.ptr()));
}

Held<std::vector<std::pair<int64_t, int64_t>>>::Held(PyObject* object) {
  nb::object list = nb::steal(PySequence_Fast(object, ""));
  if (!list.is_valid()) {
    PyErr_Clear();
    throw ArgumentTypeError("expected a sequence of pairs of integers, not " + type_name(object));
  }
  for (const nb::object& element : elements_of(list.ptr())) {
    std::vector<int64_t> pair = to_ints(element.ptr());
    if (pair.size() != 2) throw ArgumentTypeError("expected pairs of integers");
    value.emplace_back(pair[0], pair[1]);
  }
}

Held<std::pair<double, double>>::Held(PyObject* object) {
  nb::object list = nb::steal(PySequence_Tuple(object));
  if (!list.is_valid() || PyTuple_Size(list.ptr()) != 2) {
    PyErr_Clear();
    throw ArgumentTypeError("expected two numbers");
  }
  value = {to_double(PyTuple_GetItem(list.ptr(), 0)), to_double(PyTuple_GetItem(list.ptr(), 1))};
}

Held<Generator>::Held(PyObject* object) {
  if (object == Py_None)
    value = &default_generator();
  else if (!nb::try_cast<Generator*>(nb::handle(object), value, false) || !value)
    throw ArgumentTypeError("expected a Generator or None, not " + type_name(object));
}

PyObject* detail::describe(std::initializer_list<const char*> types) {
  nb::object result = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(types.size())));
  Py_ssize_t i = 0;
  for (const char* type : types) PyTuple_SetItem(result.ptr(), i++, PyUnicode_FromString(type));
  return result.release().ptr();
}

PyObject* wrap(const std::vector<Tensor>& tensors) {
  nb::object result = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(tensors.size())));
  for (size_t i = 0; i < tensors.size(); ++i)
    PyTuple_SetItem(result.ptr(), static_cast<Py_ssize_t>(i), wrap(tensors[i]));
  return result.release().ptr();
}
PyObject* wrap(const std::pair<Tensor, Tensor>& pair) { return tuple_of({&pair.first, &pair.second}); }
PyObject* wrap(const std::map<std::string, Tensor>& tensors) {
  nb::dict result;
  for (const auto& [name, tensor] : tensors) result[nb::cast(name)] = to_object(tensor);
  return result.release().ptr();
}
PyObject* wrap(const ValuesIndices& result) {
  static PyStructSequence_Field fields[] = {{"values", nullptr}, {"indices", nullptr}, {nullptr, nullptr}};
  static PyTypeObject* type = named("heddle.ValuesIndices", fields, 2);
  return named_tuple(type, result.values, result.indices);
}
PyObject* wrap(const Histogram& result) { return tuple_of({&result.counts, &result.edges}); }
// As NumPy: the values alone, or a tuple of what was asked for.
PyObject* wrap(const UniqueResult& result) {
  if (!result.inverse && !result.counts) return wrap(result.values);
  if (!result.inverse) return tuple_of({&result.values, &*result.counts});
  if (!result.counts) return tuple_of({&result.values, &*result.inverse});
  return tuple_of({&result.values, &*result.inverse, &*result.counts});
}

}  // namespace heddle::python
