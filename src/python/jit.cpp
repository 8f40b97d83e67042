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

// The line of the user's that is running: none of this package.
std::string python_place() {
  if (!Py_IsInitialized()) return {};
  nb::gil_scoped_acquire locked;
  nb::object frame = nb::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame.is_valid()) {
    auto* raw = reinterpret_cast<PyFrameObject*>(frame.ptr());
    nb::object code = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(raw)));
    const auto file = nb::cast<std::string>(code.attr("co_filename"));
    nb::object outer = frame.attr("f_back");
    const bool ours = file.ends_with("heddle/_tensor.py") || file.ends_with("heddle/transforms.py");
    if (!ours || outer.is_none()) return text(file, ":", PyFrame_GetLineNumber(raw));
    frame = outer;
  }
  return {};
}

// Arguments or results without their tensors.
struct Structure {
  Tree tree;
  std::vector<bool> is_tensor;      // for each leaf
  std::vector<nb::object> statics;  // the other leaves
  std::vector<bool> weak;           // for each of these: whether it is a weak reference to it

  // Modules and other objects among the arguments are not kept alive: the caller has them.
  void weaken() {
    for (size_t i = 0; i < statics.size(); ++i) {
      PyObject* object = statics[i].ptr();
      PyObject* reference = PyType_Check(object) ? nullptr : PyWeakref_NewRef(object, nullptr);
      weak[i] = reference != nullptr;
      if (reference)
        statics[i] = nb::steal(reference);
      else
        PyErr_Clear();
    }
  }
  // The object itself; None if it is no more.
  nb::object value(size_t i) const { return weak[i] ? nb::object(statics[i]()) : statics[i]; }
};

bool same_value(const nb::object& a, const nb::object& b) {
  if (a.ptr() == b.ptr()) return true;
  if (Py_TYPE(a.ptr()) != Py_TYPE(b.ptr())) return false;  // 1, 1.0 and True are others
  if (PyFloat_CheckExact(a.ptr())) {                       // NaN is itself, and -0 is not 0
    double x = PyFloat_AsDouble(a.ptr()), y = PyFloat_AsDouble(b.ptr());
    return std::memcmp(&x, &y, sizeof x) == 0;
  }
  return strictly_equal(a, b);
}
bool same(const Structure& a, const Structure& b) {
  if (a.is_tensor != b.is_tensor || !same(a.tree, b.tree)) return false;
  for (size_t i = 0; i < a.statics.size(); ++i)
    if (!same_value(a.value(i), b.value(i))) return false;
  return true;
}

nb::object assemble(const Structure& structure, std::span<const Tensor> tensors) {
  std::vector<nb::object> leaves;
  size_t tensor = 0, other = 0;
  for (bool is : structure.is_tensor) leaves.push_back(is ? to_object(tensors[tensor++]) : structure.value(other++));
  return unflatten(structure.tree, leaves);
}

// What becomes of a result. It may end on a thread that does not have the interpreter.
struct Prototype {
  std::shared_ptr<const Structure> structure;  // null: one tensor
  size_t tensors = 1;
};
// A structure that any thread may let go of.
std::shared_ptr<const Structure> released_anywhere(std::unique_ptr<Structure> structure) {
  const Structure* made = structure.get();
  PyObject* holder = PyCapsule_New(structure.get(), "heddle.structure", [](PyObject* object) {
    delete static_cast<Structure*>(PyCapsule_GetPointer(object, "heddle.structure"));
  });
  if (!holder) nb::raise_python_error();
  structure.release();
  return {made, [holder](const Structure*) { release_anywhere(holder); }};
}
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
      Unlocked unlocked;
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
    return made.structure ? assemble(*made.structure, results) : to_object(results[0]);
  }
  void forget() {
    {
      Unlocked unlocked;
      clear();
    }
    std::vector<std::unique_ptr<Structure>> gone;
    first_ += structures_.size();
    gone.swap(structures_);
  }
  int visit_objects(visitproc visit, void* arg) const {
    Py_VISIT(f.ptr());
    for (const auto& structure : structures_) {
      for (const nb::object& object : structure->statics) Py_VISIT(object.ptr());
      for (const TreeNode& node : structure->tree.nodes) {
        Py_VISIT(node.type.ptr());
        Py_VISIT(node.info.ptr());
      }
    }
    return 0;
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
    std::unique_ptr<Structure> structure = structure_of(nb::make_tuple(args, kwargs), tensors);
    for (size_t i = 0; i < structures_.size(); ++i)
      if (same(*structures_[i], *structure)) return first_ + i;
    keep_as_it_is(structure->tree);
    structure->weaken();
    structures_.push_back(std::move(structure));
    return first_ + structures_.size() - 1;
  }
  static std::unique_ptr<Structure> structure_of(const nb::object& value, std::vector<Tensor>& tensors) {
    auto structure = std::make_unique<Structure>();
    std::vector<nb::object> leaves;
    structure->tree = flatten(value, leaves);
    for (nb::object& leaf : leaves) {
      std::optional<Tensor> tensor;
      if (!is_constant(leaf.ptr())) tensor = to_tensor_if_array(leaf.ptr());
      structure->is_tensor.push_back(tensor.has_value());
      if (tensor)
        tensors.push_back(*tensor);
      else
        structure->statics.push_back(std::move(leaf));
    }
    structure->weak.resize(structure->statics.size(), false);
    return structure;
  }

  nb::object run_inside(size_t structure, std::span<const Tensor> inside) {
    if (structure >= kPlain) {
      nb::object args = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(inside.size())));
      for (size_t i = 0; i < inside.size(); ++i)
        PyTuple_SetItem(args.ptr(), static_cast<Py_ssize_t>(i), wrap(inside[i]));
      return f(*nb::borrow<nb::tuple>(args));
    }
    if (structure < first_) throw CaptureError("the captured function was cleared while it was being recorded");
    nb::object both = assemble(*structures_[structure - first_], inside);
    return f(*nb::borrow<nb::args>(both[0]), **nb::borrow<nb::kwargs>(both[1]));
  }

  // The function works on other tensors than those that were given.
  void record(JitCall& call, size_t structure, const std::vector<Tensor>& tensors) {
    std::vector<Tensor> inside = tensors, made;
    JitCall::Recording recording(call, [&](Parts& parts) {
      for (Tensor& tensor : inside) parts.add(tensor);
    });
    Prototype prototype;
    {
      nb::object result = run_inside(structure, inside);
      if (is_tensor(result.ptr()))
        made.push_back(tensor_of(result.ptr()));
      else
        prototype.structure = known_result(structure_of(result, made));
    }
    prototype.tensors = made.size();
    if (keeps_others(made)) nb::module_::import_("gc").attr("collect")();  // objects in circles may hold tensors
    for (Tensor& tensor : made) call.result().add(tensor);
    call.result().add_word(reinterpret_cast<uintptr_t>(prototype.structure.get()));
    recording.finish();
    call.set_prototype(std::make_shared<const Prototype>(std::move(prototype)));
  }
  // The same object for the same structure: two recordings are compared by it.
  std::shared_ptr<const Structure> known_result(std::unique_ptr<Structure> structure) {
    std::erase_if(results_, [](const auto& known) { return known.expired(); });
    for (const auto& weak : results_)
      if (std::shared_ptr<const Structure> known = weak.lock(); known && same(*known, *structure)) return known;
    std::shared_ptr<const Structure> made = released_anywhere(std::move(structure));
    results_.push_back(made);
    return made;
  }

  std::vector<std::unique_ptr<Structure>> structures_;  // of arguments; the first has number first_
  std::vector<std::weak_ptr<const Structure>> results_;
  size_t first_ = 0;
};

Py_ssize_t attributes_offset;  // where an object has its __dict__

PyObject*& attributes_of(PyObject* self) {
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(self) + attributes_offset);
}
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(attributes_of(self));
  return nb::inst_ready(self) ? nb::inst_ptr<Captured>(self)->visit_objects(visit, arg) : 0;
}
int clear(PyObject* self) {
  Py_CLEAR(attributes_of(self));
  if (nb::inst_ready(self)) nb::inst_ptr<Captured>(self)->f.reset();
  return 0;
}
PyObject* bind_method(PyObject* self, PyObject* object, PyObject*) { return bind_to(self, object); }

nb::object plan_dict(const JitPlan& plan) {
  nb::dict result;
  result["signature"] = plan.signature;
  result["launches"] = plan.launches;
  result["bytes_read"] = plan.bytes_read;
  result["bytes_written"] = plan.bytes_written;
  result["arena_bytes"] = plan.arena_bytes;
  result["arena_lower_bound"] = plan.arena_lower_bound;
  result["donated"] = plan.donated;
  result["copied"] = plan.copied;
  nb::list copies;
  for (const std::string& copy : plan.copies) copies.append(nb::cast(copy));
  result["copies"] = copies;
  result["kept_bytes"] = plan.kept_bytes;
  result["copied_because_held"] = plan.copied_because_held;
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
                       R"(A function that is recorded, compiled as a whole, and replayed. jit() makes it.

>>> f = hd.jit(lambda x: (x * 2).sum())
>>> f(hd.ones(3)).item(), f(hd.ones(3)).item(), len(f.plans())
(6.0, 6.0, 1))")
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
              Unlocked unlocked;
              plans = self.plans();
            }
            nb::list result;
            for (const JitPlan& plan : plans) result.append(plan_dict(plan));
            return result;
          },
          "What was compiled so far, one entry for each kind of arguments.")
      .def("clear", [](Captured& self) { self.forget(); }, "Forgets everything that was compiled.");
  attributes_offset = nb::cast<Py_ssize_t>(module.attr("Captured").attr("__dictoffset__"));
  module.def("forget_recordings", forget_recordings,
             R"(All captured functions record again: something that they close over, and that is no tensor, has changed.

>>> scale = [2.0]
>>> f = hd.jit(lambda x: x * scale[0])
>>> f(hd.ones(1)).item(), f(hd.ones(1)).item()
(2.0, 2.0)
>>> scale[0] = 3.0
>>> hd.forget_recordings()
>>> f(hd.ones(1)).item()
3.0)");
}

}  // namespace heddle::python
