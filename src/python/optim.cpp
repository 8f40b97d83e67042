// Optimisers, their schedules, and limits for gradients.
#include <heddle/grad.h>
#include <heddle/jit.h>
#include <heddle/optim.h>

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "base/error.h"
#include "python/bind.h"
#include "python/function.h"

namespace heddle::python {

using optim::Optimizer;
using optim::Schedule;

namespace {

Schedule to_schedule(nb::handle object) {
  Schedule* schedule = nullptr;
  if (nb::try_cast(object, schedule, false) && schedule) return *schedule;
  return Schedule(to_double(object.ptr()));
}

// A group's rate as a factor of the rate of all.
double share_of(double group, double all) {
  if (group == all) return 1;
  if (!(all > 0)) throw ValueError("a group of parameters has \"lr\", but the rate of all is 0: nothing to multiply");
  return group / all;
}

// Tensors, pairs of name and tensor, or groups: dicts with "params" and settings of their own. `rate` is that of all,
// for groups that have one of their own.
optim::Parameters to_parameters(nb::handle given, nb::handle rate) {
  std::vector<optim::Group> groups;
  auto add = [](nb::handle list, optim::Group& group, size_t number) {
    for (nb::handle each : nb::iter(list)) {
      if (is_tensor(each.ptr())) {
        group.parameters.emplace_back(std::to_string(number + group.parameters.size()), tensor_of(each.ptr()));
      } else if (PyTuple_Check(each.ptr()) && PyTuple_Size(each.ptr()) == 2) {
        group.parameters.emplace_back(to_text(PyTuple_GetItem(each.ptr(), 0)),
                                      tensor_of(PyTuple_GetItem(each.ptr(), 1)));
      } else {
        throw ArgumentTypeError("parameters are tensors, pairs of a name and a tensor, or dicts with \"params\", not " +
                                type_name(each.ptr()));
      }
    }
  };
  if (is_tensor(given.ptr())) throw ArgumentTypeError("expected a list of tensors, not one");
  nb::object list = nb::steal(PySequence_List(given.ptr()));
  if (!list.is_valid()) nb::raise_python_error();
  optim::Group plain;
  size_t number = 0;
  for (nb::handle each : list) {
    if (!PyDict_Check(each.ptr())) continue;
    optim::Group group;
    for (auto [key, value] : nb::borrow<nb::dict>(each)) {
      std::string name = to_text(key.ptr());
      if (name == "params")
        add(value, group, number);
      else if (name == "weight_decay")
        group.weight_decay = to_double(value.ptr());
      else if (name == "lr_factor")
        group.lr_factor = to_double(value.ptr());
      else if (name == "lr")
        group.lr_factor = share_of(to_double(value.ptr()), to_schedule(rate).base());
      else
        throw ValueError(text(
            "a group of parameters has \"params\", \"weight_decay\", \"lr\" and \"lr_factor\", not \"", name, "\""));
    }
    number += group.parameters.size();
    groups.push_back(std::move(group));
  }
  if (!groups.empty()) {
    if (groups.size() != nb::len(list)) throw ArgumentTypeError("either groups of parameters or parameters, not both");
    return optim::Parameters(std::move(groups));
  }
  add(list, plain, 0);
  groups.push_back(std::move(plain));
  return optim::Parameters(std::move(groups));
}

void step(Optimizer& self, nb::handle gradients, nb::handle also) {
  TensorList given, more;
  if (!gradients.is_none()) given = Held<TensorList>(gradients.ptr()).get();
  if (!also.is_none())
    more = is_tensor(also.ptr()) ? TensorList{tensor_of(also.ptr())} : Held<TensorList>(also.ptr()).get();
  if (is_capturing()) return gradients.is_none() ? self.step() : self.step(given, more);
  Unlocked unlocked;
  if (gradients.is_none())
    self.step();
  else
    self.step(given, more);
}

nb::object dict_of(const TensorMap& map) { return nb::steal(wrap(map)); }
TensorMap map_of(nb::handle dict) {
  if (!PyDict_Check(dict.ptr()))
    throw ArgumentTypeError("expected a dict of names and tensors, not " + type_name(dict.ptr()));
  TensorMap result;
  for (auto [key, value] : nb::borrow<nb::dict>(dict)) result.emplace(to_text(key.ptr()), to_tensor(value.ptr()));
  return result;
}

TextMap texts_of(nb::handle metadata) {
  TextMap result;
  if (metadata.is_none()) return result;
  if (!PyDict_Check(metadata.ptr()))
    throw ArgumentTypeError("metadata is a dict of texts, not " + type_name(metadata.ptr()));
  for (auto [key, value] : nb::borrow<nb::dict>(metadata)) result.emplace(to_text(key.ptr()), to_text(value.ptr()));
  return result;
}
std::string path_text(nb::handle path) {
  nb::object text = nb::steal(PyOS_FSPath(path.ptr()));
  if (!text.is_valid()) nb::raise_python_error();
  return to_text(text.ptr());
}

void bind_schedules(nb::module_& optim) {
  nb::class_<Schedule>(optim, "Schedule", "A learning rate that depends on the number of the step.")
      .def(
          "__init__", [](Schedule* self, double rate) { new (self) Schedule(rate); }, nb::arg("rate"))
      .def("__call__", [](const Schedule& self, int64_t number) { return self(number); }, nb::arg("step"));
  optim.def("constant", optim::constant, nb::arg("lr"));
  optim.def("step_decay", optim::step_decay, nb::arg("lr"), nb::arg("step_size"), nb::arg("gamma") = 0.1);
  optim.def("multi_step", optim::multi_step, nb::arg("lr"), nb::arg("milestones"), nb::arg("gamma") = 0.1);
  optim.def("exponential_decay", optim::exponential_decay, nb::arg("lr"), nb::arg("gamma"));
  optim.def("cosine", optim::cosine, nb::arg("lr"), nb::arg("steps"), nb::arg("end") = 0.0);
  optim.def("linear", optim::linear, nb::arg("begin"), nb::arg("end"), nb::arg("steps"));
  optim.def(
      "warmup", [](int64_t steps, nb::handle then) { return optim::warmup(steps, to_schedule(then)); },
      nb::arg("steps"), nb::arg("then"));
  optim.def(
      "chain",
      [](nb::handle parts, nb::handle last) {
        std::vector<std::pair<Schedule, int64_t>> list;
        for (nb::handle part : nb::iter(parts)) {
          if (!PyTuple_Check(part.ptr()) || PyTuple_Size(part.ptr()) != 2)
            throw ArgumentTypeError("chain: parts are pairs of a schedule and its number of steps");
          list.emplace_back(to_schedule(PyTuple_GetItem(part.ptr(), 0)), to_int(PyTuple_GetItem(part.ptr(), 1)));
        }
        return optim::chain(list, to_schedule(last));
      },
      nb::arg("parts"), nb::arg("last"));
}

}  // namespace

void bind_optim(nb::module_& module) {
  nb::module_ optim = module.def_submodule("_optim");
  bind_schedules(optim);
  nb::class_<Optimizer>(optim, "Optimizer", nb::is_weak_referenceable(), nb::dynamic_attr())
      .def("step", step, nb::arg("gradients").none() = nb::none(), nb::arg("also").none() = nb::none(),
           "One step, with gradients in the order of parameters(), or with what backward() has added up. Computes "
           "`also` together with the new values.")
      .def("zero_grad", &Optimizer::zero_grad)
      .def("parameters", [](const Optimizer& self) { return nb::list(nb::steal(wrap(self.parameters()))); })
      .def("_groups",
           [](const Optimizer& self) {
             nb::list result;
             for (const optim::Group& group : self.groups())
               result.append(nb::make_tuple(group.parameters.size(), *group.weight_decay, group.lr_factor));
             return result;
           })
      .def_prop_rw("lr", &Optimizer::lr, &Optimizer::set_lr, "The rate of the next step.")
      .def_prop_ro("steps_done",
                   [](const Optimizer& self) {
                     Unlocked unlocked;
                     return self.steps_done();
                   })
      .def("state_dict", [](const Optimizer& self) { return dict_of(self.state()); })
      .def(
          "load_state_dict", [](Optimizer& self, nb::handle state) { self.load_state(map_of(state)); },
          nb::arg("state"));

  nb::class_<optim::SGD, Optimizer>(optim, "SGD")
      .def(
          "__init__",
          [](optim::SGD* self, nb::handle params, nb::handle lr, double momentum, double dampening, bool nesterov,
             double weight_decay) {
            new (self) optim::SGD(to_parameters(params, lr), {.lr = to_schedule(lr),
                                                              .momentum = momentum,
                                                              .dampening = dampening,
                                                              .nesterov = nesterov,
                                                              .weight_decay = weight_decay});
          },
          nb::arg("params"), nb::arg("lr") = 1e-3, nb::arg("momentum") = 0.0, nb::arg("dampening") = 0.0,
          nb::arg("nesterov") = false, nb::arg("weight_decay") = 0.0);
  auto adam = [&]<class O, class Options>(const char* name, O*, Options*, double weight_decay) {
    nb::class_<O, Optimizer>(optim, name)
        .def(
            "__init__",
            [](O* self, nb::handle params, nb::handle lr, std::pair<double, double> betas, double eps, double decay,
               bool amsgrad) {
              new (self) O(to_parameters(params, lr), Options{.lr = to_schedule(lr),
                                                              .beta1 = betas.first,
                                                              .beta2 = betas.second,
                                                              .epsilon = eps,
                                                              .weight_decay = decay,
                                                              .amsgrad = amsgrad});
            },
            nb::arg("params"), nb::arg("lr") = 1e-3, nb::arg("betas") = nb::make_tuple(0.9, 0.999),
            nb::arg("eps") = 1e-8, nb::arg("weight_decay") = weight_decay, nb::arg("amsgrad") = false);
  };
  adam("Adam", static_cast<optim::Adam*>(nullptr), static_cast<optim::AdamOptions*>(nullptr), 0.0);
  adam("AdamW", static_cast<optim::AdamW*>(nullptr), static_cast<optim::AdamWOptions*>(nullptr), 1e-2);
  nb::class_<optim::RMSprop, Optimizer>(optim, "RMSprop")
      .def(
          "__init__",
          [](optim::RMSprop* self, nb::handle params, nb::handle lr, double alpha, double eps, double weight_decay,
             double momentum, bool centered) {
            new (self) optim::RMSprop(to_parameters(params, lr), {.lr = to_schedule(lr),
                                                                  .alpha = alpha,
                                                                  .epsilon = eps,
                                                                  .momentum = momentum,
                                                                  .centered = centered,
                                                                  .weight_decay = weight_decay});
          },
          nb::arg("params"), nb::arg("lr") = 1e-2, nb::arg("alpha") = 0.99, nb::arg("eps") = 1e-8,
          nb::arg("weight_decay") = 0.0, nb::arg("momentum") = 0.0, nb::arg("centered") = false);
  nb::class_<optim::Lion, Optimizer>(optim, "Lion")
      .def(
          "__init__",
          [](optim::Lion* self, nb::handle params, nb::handle lr, std::pair<double, double> betas,
             double weight_decay) {
            new (self) optim::Lion(
                to_parameters(params, lr),
                {.lr = to_schedule(lr), .beta1 = betas.first, .beta2 = betas.second, .weight_decay = weight_decay});
          },
          nb::arg("params"), nb::arg("lr") = 1e-4, nb::arg("betas") = nb::make_tuple(0.9, 0.99),
          nb::arg("weight_decay") = 0.0);
  nb::class_<optim::Adagrad, Optimizer>(optim, "Adagrad")
      .def(
          "__init__",
          [](optim::Adagrad* self, nb::handle params, nb::handle lr, double weight_decay, double eps) {
            new (self) optim::Adagrad(to_parameters(params, lr),
                                      {.lr = to_schedule(lr), .epsilon = eps, .weight_decay = weight_decay});
          },
          nb::arg("params"), nb::arg("lr") = 1e-2, nb::arg("weight_decay") = 0.0, nb::arg("eps") = 1e-10);

  optim.def(
      "clip_grad_norm",
      [](nb::handle gradients, double max_norm, double p) {
        optim::Clipped clipped = optim::clip_grad_norm(Held<TensorList>(gradients.ptr()).get(), max_norm, p);
        return nb::make_tuple(nb::list(nb::steal(wrap(clipped.gradients))), to_object(clipped.norm));
      },
      nb::arg("gradients"), nb::arg("max_norm"), nb::arg("norm_type") = 2.0,
      "The gradients times one factor, so that the norm of all of them is at most max_norm; and the norm before.");
  optim.def(
      "clip_grad_value",
      [](nb::handle gradients, double clip_value) {
        return nb::list(nb::steal(wrap(optim::clip_grad_value(Held<TensorList>(gradients.ptr()).get(), clip_value))));
      },
      nb::arg("gradients"), nb::arg("clip_value"), "Every element into [-clip_value, clip_value].");
}

void bind_io(nb::module_& module) {
  nb::module_ optim = nb::borrow<nb::module_>(module.attr("_optim"));
  optim.def(
      "_save_checkpoint",
      [](nb::handle path, nb::handle model, const Optimizer& optimizer, nb::handle metadata) {
        std::string name = path_text(path);
        TensorMap state = map_of(model);
        TextMap texts = texts_of(metadata);
        Unlocked unlocked;
        optim::detail::save_checkpoint(name, state, optimizer, texts);
      },
      nb::arg("path"), nb::arg("model"), nb::arg("optimizer"), nb::arg("metadata").none());
  optim.def(
      "_load_checkpoint",
      [](nb::handle path, nb::handle model, Optimizer& optimizer) {
        std::string name = path_text(path);
        TensorMap state = map_of(model);
        TextMap texts;
        {
          Unlocked unlocked;
          texts = optim::detail::load_checkpoint(name, state, optimizer);
        }
        nb::dict result;
        for (const auto& [key, value] : texts) result[nb::cast(key)] = nb::cast(value);
        return result;
      },
      nb::arg("path"), nb::arg("model"), nb::arg("optimizer"));
  module.def(
      "save_safetensors",
      [](nb::handle path, nb::handle tensors, nb::handle metadata) {
        std::string name = path_text(path);
        TensorMap map = map_of(tensors);
        TextMap texts = texts_of(metadata);
        Unlocked unlocked;
        save_safetensors(name, map, texts);
      },
      nb::arg("path"), nb::arg("tensors"), nb::arg("metadata").none() = nb::none(),
      "Writes named tensors into a file, whole or not at all.");
  module.def(
      "load_safetensors",
      [](nb::handle path, nb::handle device, bool lazy) {
        std::string name = path_text(path);
        const SafetensorsOptions options{to_device(device.ptr()), lazy};
        std::optional<Safetensors> file;
        {
          Unlocked unlocked;
          file = load_safetensors(name, options);
        }
        return dict_of(file->tensors);
      },
      nb::arg("path"), nb::arg("device").none() = nb::none(), nb::arg("lazy") = false,
      "The tensors of a file by name. Lazy ones stay in the file and are read where they are used.");
}

}  // namespace heddle::python
