// Captured functions of anything that pytree.h takes apart.
#include <heddle/jit.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "python/bind.h"
#include "python/function.h"
#include "python/pytree.h"
#include "tensor/recording.h"

namespace heddle::python {
namespace {

// The line of Python that is running.
std::string python_place() {
  if (!Py_IsInitialized()) return {};
  nb::gil_scoped_acquire locked;
  PyFrameObject* frame = PyEval_GetFrame();
  if (!frame) return {};
  nb::object code = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
  return text(nb::cast<std::string>(code.attr("co_filename")), ":", PyFrame_GetLineNumber(frame));
}

// Arguments or results without their tensors.
struct Structure {
  Tree tree;
  std::vector<bool> is_tensor;      // for each leaf
  std::vector<nb::object> statics;  // the other leaves
};

bool same_value(const nb::object& a, const nb::object& b) {
  if (a.ptr() == b.ptr()) return true;
  if (Py_TYPE(a.ptr()) != Py_TYPE(b.ptr())) return false;  // 1, 1.0 and True are others
  if (PyFloat_CheckExact(a.ptr())) {                       // NaN is itself, and -0 is not 0
    double x = PyFloat_AsDouble(a.ptr()), y = PyFloat_AsDouble(b.ptr());
    return std::memcmp(&x, &y, sizeof x) == 0;
  }
  int result = PyObject_RichCompareBool(a.ptr(), b.ptr(), Py_EQ);
  if (result < 0) nb::raise_python_error();
  return result == 1;
}
bool same(const Structure& a, const Structure& b) {
  if (a.is_tensor != b.is_tensor || !same(a.tree, b.tree)) return false;
  for (size_t i = 0; i < a.statics.size(); ++i)
    if (!same_value(a.statics[i], b.statics[i])) return false;
  return true;
}

nb::object assemble(const Structure& structure, std::span<const Tensor> tensors) {
  std::vector<nb::object> leaves;
  size_t tensor = 0, other = 0;
  for (bool is : structure.is_tensor) leaves.push_back(is ? to_object(tensors[tensor++]) : structure.statics[other++]);
  return unflatten(structure.tree, leaves);
}

// What becomes of a result; the structure is known by its number, because nothing of Python may be in here: it may end
// on a thread that does not have the interpreter.
struct Prototype {
  size_t structure, tensors;
};
// Whether tensors that the function has made are there besides its results.
bool keeps_others(std::span<const Tensor> results) {
  for (const std::weak_ptr<TensorSlot>& born : current_capture->born) {
    std::shared_ptr<TensorSlot> slot = born.lock();
    auto is_slot = [&](const Tensor& tensor) { return &tensor.slot() == slot.get(); };
    if (slot && std::none_of(results.begin(), results.end(), is_slot)) return true;
  }
  return false;
}

// Structures of arguments that are tensors alone need no entry.
constexpr size_t kPlain = size_t{1} << 32;

class Captured : public JitBase {
 public:
  Captured(nb::object function, const std::string& place) : JitBase(place), f(std::move(function)) {}
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

  nb::object call(const nb::args& args, const nb::kwargs& kwargs) {
    if (is_capturing()) return plain(args, kwargs);
    std::vector<Tensor> tensors, results;
    size_t structure = read_arguments(args, kwargs, tensors);
    Prototype made{};
    bool transformed = false;
    {
      nb::gil_scoped_release unlocked;
      JitCall call(*core_);
      call.arguments().add_word(structure);
      for (Tensor& tensor : tensors) call.arguments().add(tensor);
      transformed = call.is_transformed();
      if (!transformed) {
        do {
          if (call.must_record()) {
            nb::gil_scoped_acquire locked;
            record(call, structure, tensors);
          }
        } while (!call.run());
        made = *static_cast<const Prototype*>(call.prototype());
        results.resize(made.tensors);
        for (Tensor& tensor : results) call.result().add(tensor);
        call.deliver();
      }
    }
    if (transformed) return plain(args, kwargs);
    if (made.structure == kPlain + 1) return to_object(results[0]);
    return assemble(*structures_[made.structure], results);
  }

  nb::object f;

 private:
  nb::object plain(const nb::args& args, const nb::kwargs& kwargs) {
    JitNesting nesting(*core_);
    return f(*args, **kwargs);
  }

  // The number of the structure; the tensors come with it.
  size_t read_arguments(const nb::args& args, const nb::kwargs& kwargs, std::vector<Tensor>& tensors) {
    auto count = static_cast<size_t>(PyTuple_Size(args.ptr()));
    bool only_tensors = PyDict_Size(kwargs.ptr()) == 0;
    for (size_t i = 0; only_tensors && i < count; ++i) {
      PyObject* argument = PyTuple_GetItem(args.ptr(), static_cast<Py_ssize_t>(i));
      only_tensors = is_tensor(argument);
      if (only_tensors) tensors.push_back(tensor_of(argument));
    }
    if (only_tensors) return kPlain + count;
    tensors.clear();
    return number_of(nb::make_tuple(args, kwargs), tensors);
  }
  size_t number_of(const nb::object& value, std::vector<Tensor>& tensors) {
    auto structure = std::make_unique<Structure>();
    std::vector<nb::object> leaves;
    structure->tree = flatten(value, leaves);
    for (nb::object& leaf : leaves) {
      std::optional<Tensor> tensor = to_tensor_if_array(leaf.ptr());
      structure->is_tensor.push_back(tensor.has_value());
      if (tensor)
        tensors.push_back(*tensor);
      else
        structure->statics.push_back(std::move(leaf));
    }
    for (size_t i = 0; i < structures_.size(); ++i)
      if (same(*structures_[i], *structure)) return i;
    structures_.push_back(std::move(structure));
    return structures_.size() - 1;
  }

  nb::object run_inside(size_t structure, std::span<const Tensor> inside) {
    if (structure >= kPlain) {
      nb::object args = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(inside.size())));
      for (size_t i = 0; i < inside.size(); ++i)
        PyTuple_SetItem(args.ptr(), static_cast<Py_ssize_t>(i), wrap(inside[i]));
      return f(*nb::borrow<nb::tuple>(args));
    }
    nb::object both = assemble(*structures_[structure], inside);
    return f(*nb::borrow<nb::args>(both[0]), **nb::borrow<nb::kwargs>(both[1]));
  }

  // The function works on other tensors than those that were given.
  void record(JitCall& call, size_t structure, const std::vector<Tensor>& tensors) {
    std::vector<Tensor> inside = tensors, made;
    JitCall::Recording recording(call, [&](Parts& parts) {
      for (Tensor& tensor : inside) parts.add(tensor);
    });
    size_t result_structure = kPlain + 1;
    {
      nb::object result = run_inside(structure, inside);
      if (is_tensor(result.ptr()))
        made.push_back(tensor_of(result.ptr()));
      else
        result_structure = number_of(result, made);
    }
    if (keeps_others(made)) nb::module_::import_("gc").attr("collect")();  // objects in circles may hold tensors
    for (Tensor& tensor : made) call.result().add(tensor);
    call.result().add_word(result_structure);
    recording.finish();
    call.set_prototype(std::make_shared<const Prototype>(Prototype{result_structure, made.size()}));
  }

  std::vector<std::unique_ptr<Structure>> structures_;
};

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  Py_VISIT(nb::inst_ptr<Captured>(self)->f.ptr());
  return 0;
}
int clear(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<Captured>(self)->f.reset();
  return 0;
}
PyObject* bind_method(PyObject* self, PyObject* object, PyObject*) {
  if (!object || object == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, object);
}

nb::object plan_dict(const JitPlan& plan) {
  nb::dict result;
  result["signature"] = plan.signature;
  result["launches"] = plan.launches;
  result["bytes_read"] = plan.bytes_read;
  result["bytes_written"] = plan.bytes_written;
  result["arena_bytes"] = plan.arena_bytes;
  result["donated"] = plan.donated;
  result["copied"] = plan.copied;
  nb::list copies;
  for (const std::string& copy : plan.copies) copies.append(nb::cast(copy));
  result["copies"] = copies;
  result["calls"] = plan.calls;
  result["recordings"] = plan.recordings;
  result["capture_seconds"] = plan.capture_seconds;
  result["compile_seconds"] = plan.compile_seconds;
  return result;
}

template <class F>
void* slot(F* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

void bind_jit(nb::module_& module) {
  set_place_finder(python_place);
  static const PyType_Slot slots[] = {
      {Py_tp_traverse, slot(traverse)}, {Py_tp_clear, slot(clear)}, {Py_tp_descr_get, slot(bind_method)}, {0, nullptr}};
  nb::class_<Captured>(module, "Captured", nb::type_slots(slots), nb::dynamic_attr(), nb::is_weak_referenceable(),
                       "A function that is recorded, compiled as a whole, and replayed. jit() makes it.")
      .def(
          "__init__",
          [](Captured* self, nb::object f, const std::string& place) { new (self) Captured(std::move(f), place); },
          nb::arg("f"), nb::arg("place"))
      .def("__call__", &Captured::call)
      .def("__copy__", [](nb::object self) { return self; })
      .def("__deepcopy__", [](nb::object self, nb::handle) { return self; })
      .def(
          "plans",
          [](const Captured& self) {
            std::vector<JitPlan> plans;
            {
              nb::gil_scoped_release unlocked;
              plans = self.plans();
            }
            nb::list result;
            for (const JitPlan& plan : plans) result.append(plan_dict(plan));
            return result;
          },
          "What was compiled so far, one entry for each kind of arguments.")
      .def(
          "clear",
          [](Captured& self) {
            nb::gil_scoped_release unlocked;
            self.clear();
          },
          "Forgets everything that was compiled.");
  module.def(
      "forget_recordings", forget_recordings,
      "All captured functions record again: something that they close over, and that is no tensor, has changed.");
}

}  // namespace heddle::python
