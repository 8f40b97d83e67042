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
nb::object dict_of(const TextMap& texts) {
  nb::dict result;
  for (const auto& [key, value] : texts) result[nb::cast(key)] = nb::cast(value);
  return result;
}
std::string path_text(nb::handle path) {
  nb::object text = nb::steal(PyOS_FSPath(path.ptr()));
  if (!text.is_valid()) nb::raise_python_error();
  return to_text(text.ptr());
}

// Functions of Python that the library keeps: they may be called, and end, on any thread.
std::shared_ptr<PyObject> kept(nb::handle object) {
  return {Py_NewRef(object.ptr()), [](PyObject* o) { release_anywhere(o); }};
}

void make_schedule(Schedule* self, double rate, nb::handle factor) {
  if (factor.is_none()) {
    new (self) Schedule(rate);
    return;
  }
  if (!PyCallable_Check(factor.ptr()))
    throw ArgumentTypeError("Schedule: the factor is a function, not " + type_name(factor.ptr()));
  std::shared_ptr<PyObject> f = kept(factor);
  auto of_number = [f](double step) {
    nb::gil_scoped_acquire locked;
    nb::object number = nb::handle(f.get())(step);
    return is_tensor(number.ptr()) ? tensor_of(number.ptr()).item<double>() : to_double(number.ptr());
  };
  auto of_tensor = [f](const Tensor& step) {
    nb::gil_scoped_acquire locked;
    return to_tensor(nb::handle(f.get())(to_object(step)).ptr()).cast(kF64);
  };
  new (self) Schedule(rate, of_number, of_tensor);
}

void make_optimizer(Optimizer* self, nb::handle params, nb::handle lr, nb::handle update, nb::handle state,
                    double weight_decay, const std::string& name) {
  if (!PyCallable_Check(update.ptr()))
    throw ArgumentTypeError("Optimizer: update is a function, not " + type_name(update.ptr()));
  optim::Rule rule;
  rule.name = name;
  for (nb::handle each : nb::iter(state)) rule.state.push_back(to_text(each.ptr()));
  rule.update = [f = kept(update)](const Tensor& parameter, const Tensor& gradient, std::span<Tensor> own,
                                   const optim::Settings& now) {
    nb::gil_scoped_acquire locked;
    nb::dict settings;
    settings["lr"] = to_object(now.lr);
    settings["step"] = to_object(now.step);
    settings["weight_decay"] = now.weight_decay;
    nb::object old = nb::steal(wrap(std::vector<Tensor>(own.begin(), own.end())));
    nb::object result = nb::handle(f.get())(to_object(parameter), to_object(gradient), old, settings);
    if (is_tensor(result.ptr()) && own.empty()) return tensor_of(result.ptr());
    if (!PyTuple_Check(result.ptr()) || PyTuple_Size(result.ptr()) != 2)
      throw ArgumentTypeError("Optimizer: update gives the new value and a list of new state, not " +
                              type_name(result.ptr()));
    std::vector<Tensor> next = Held<TensorList>(PyTuple_GetItem(result.ptr(), 1)).get();
    if (next.size() != own.size())
      throw ValueError(text("Optimizer: update gives ", next.size(), " tensors of state, not ", own.size()));
    std::copy(next.begin(), next.end(), own.begin());
    return to_tensor(PyTuple_GetItem(result.ptr(), 0));
  };
  new (self) Optimizer(to_parameters(params, lr), to_schedule(lr), weight_decay, std::move(rule));
}

void bind_schedules(nb::module_& optim) {
  nb::class_<Schedule>(
      optim, "Schedule",
      R"(A learning rate that depends on the number of the step: `rate` times factor(step). Steps count from 0. The factor is a
function that is given a number or, by an optimiser, a tensor.

>>> halved = hd.optim.Schedule(0.1, lambda step: 0.5 ** (step // 10))
>>> halved(0), halved(25)
(0.1, 0.025))")
      .def("__init__", make_schedule, nb::arg("rate"), nb::arg("factor").none() = nb::none())
      .def("__call__", [](const Schedule& self, int64_t number) { return self(number); }, nb::arg("step"));
  optim.def("constant", optim::constant, nb::arg("lr"), R"(The same rate at every step.

>>> hd.optim.constant(0.1)(1000)
0.1)");
  optim.def("step_decay", optim::step_decay, nb::arg("lr"), nb::arg("step_size"), nb::arg("gamma") = 0.1,
            R"(Times gamma every step_size steps.

>>> hd.optim.step_decay(1.0, 10, 0.5)(20)
0.25)");
  optim.def("multi_step", optim::multi_step, nb::arg("lr"), nb::arg("milestones"), nb::arg("gamma") = 0.1,
            R"(Times gamma at each of these steps.

>>> hd.optim.multi_step(1.0, [5, 10], 0.5)(7)
0.5)");
  optim.def("exponential_decay", optim::exponential_decay, nb::arg("lr"), nb::arg("gamma"),
            R"(Times gamma at every step.

>>> hd.optim.exponential_decay(1.0, 0.5)(3)
0.125)");
  optim.def("cosine", optim::cosine, nb::arg("lr"), nb::arg("steps"), nb::arg("end") = 0.0,
            R"(Half a cosine from lr down to `end` in so many steps, then `end`.

>>> round(hd.optim.cosine(1.0, 100)(50), 6)
0.5)");
  optim.def("linear", optim::linear, nb::arg("begin"), nb::arg("end"), nb::arg("steps"),
            R"(A straight line from one rate to another in so many steps, then the latter.

>>> hd.optim.linear(1.0, 0.0, 10)(4)
0.6)");
  optim.def(
      "warmup", [](int64_t steps, nb::handle then) { return optim::warmup(steps, to_schedule(then)); },
      nb::arg("steps"), nb::arg("then"),
      R"(Rises in a straight line in so many steps to the first rate of `then`, a number or a schedule, which goes on
afterwards.

>>> hd.optim.warmup(10, 1.0)(4)
0.5)");
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
      nb::arg("parts"), nb::arg("last"),
      R"(Each schedule for so many steps, counting from 0 again; the last one goes on for ever.

>>> hd.optim.chain([(1.0, 5)], hd.optim.linear(1.0, 0.0, 10))(10)
0.5)");
}

}  // namespace

void bind_optim(nb::module_& module) {
  nb::module_ optim = module.def_submodule("_optim");
  bind_schedules(optim);
  nb::class_<Optimizer>(
      optim, "Optimizer", nb::is_weak_referenceable(), nb::dynamic_attr(),
      R"(What all optimisers are, and the way to one with a rule of its own. The rule is tensor code that makes a new value of a
parameter: update(parameter, gradient, state, now) gives it, or (it, new state) where `state` names tensors of the
parameter's shape that are zero at first. now["lr"], now["step"] and now["weight_decay"] are there too.

>>> def update(p, g, state, now):
...     speed = 0.9 * state[0] + g
...     return p - now["lr"] * speed, [speed]
>>> w = hd.tensor([1.0], requires_grad=True)
>>> opt = hd.optim.Optimizer([w], lr=0.1, update=update, state=["speed"])
>>> for _ in range(2):
...     opt.step([hd.grad(w * w, w).sum()[None]])
>>> round(w.item(), 6), opt.steps_done
(0.46, 2))")
      .def("__init__", make_optimizer, nb::arg("params"), nb::arg("lr"), nb::arg("update"),
           nb::arg("state") = nb::make_tuple(), nb::arg("weight_decay") = 0.0, nb::arg("name") = "Optimizer")
      .def("step", step, nb::arg("gradients").none() = nb::none(), nb::arg("also").none() = nb::none(),
           "One step, with gradients in the order of parameters(), or with what backward() has added up. Computes "
           "`also` together with the new values.")
      .def("zero_grad", &Optimizer::zero_grad, "Forgets what backward() has added up.")
      .def(
          "parameters", [](const Optimizer& self) { return nb::list(nb::steal(wrap(self.parameters()))); },
          "What it trains: all groups, one after the other.")
      .def("_groups",
           [](const Optimizer& self) {
             nb::list result;
             for (const optim::Group& group : self.groups())
               result.append(nb::make_tuple(group.parameters.size(), *group.weight_decay, group.lr_factor));
             return result;
           })
      .def_prop_rw("lr", &Optimizer::lr, &Optimizer::set_lr, "The rate of the next step.")
      .def_prop_ro(
          "steps_done",
          [](const Optimizer& self) {
            Unlocked unlocked;
            return self.steps_done();
          },
          "How many steps there were.")
      .def(
          "state_dict", [](const Optimizer& self) { return dict_of(self.state()); },
          "Everything that changes, by name: \"step\", \"lr\", \"0.exp_avg\".")
      .def(
          "load_state_dict", [](Optimizer& self, nb::handle state) { self.load_state(map_of(state)); },
          nb::arg("state"), "Goes on from what state_dict() gave. Everything must fit, or nothing changes.");

  nb::class_<optim::SGD, Optimizer>(
      optim, "SGD",
      R"(Stochastic gradient descent, with momentum. Weight decay is added to the gradient.

>>> w = hd.tensor([1.0], requires_grad=True)
>>> opt = hd.optim.SGD([w], lr=0.1)
>>> opt.step([hd.tensor([2.0])])
>>> print(w)
[0.8])")
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
  auto adam = [&]<class O, class Options>(const char* name, O*, Options*, double weight_decay, const char* text) {
    nb::class_<O, Optimizer>(optim, name, text)
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
  adam("Adam", static_cast<optim::Adam*>(nullptr), static_cast<optim::AdamOptions*>(nullptr), 0.0,
       R"(Steps scaled by means of gradients and of their squares. Weight decay is added to the gradient.

>>> w = hd.tensor([1.0], requires_grad=True)
>>> opt = hd.optim.Adam([w], lr=0.1)
>>> opt.step([hd.tensor([2.0])])
>>> print(w)
[0.9])");
  adam("AdamW", static_cast<optim::AdamW*>(nullptr), static_cast<optim::AdamWOptions*>(nullptr), 1e-2,
       R"(Adam whose weight decay acts on the parameter itself, not through the gradient.

>>> w = hd.tensor([1.0], requires_grad=True)
>>> opt = hd.optim.AdamW([w], lr=0.1)
>>> opt.step([hd.tensor([2.0])])
>>> print(w)
[0.899])");
  nb::class_<optim::RMSprop, Optimizer>(optim, "RMSprop",
                                        R"(Steps divided by a moving root mean square of gradients.

>>> w = hd.tensor([1.0], requires_grad=True)
>>> hd.optim.RMSprop([w], lr=0.01).step([hd.tensor([2.0])])
>>> print(w)
[0.9])")
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
  nb::class_<optim::Lion, Optimizer>(
      optim, "Lion",
      R"(Steps of one size in the direction of the sign of a mean; weight decay acts on the parameter itself.

>>> w = hd.tensor([1.0], requires_grad=True)
>>> hd.optim.Lion([w], lr=0.1).step([hd.tensor([2.0])])
>>> print(w)
[0.9])")
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
  nb::class_<optim::Adagrad, Optimizer>(optim, "Adagrad",
                                        R"(Steps divided by the root of the sum of all squared gradients so far.

>>> w = hd.tensor([1.0], requires_grad=True)
>>> hd.optim.Adagrad([w], lr=0.1).step([hd.tensor([2.0])])
>>> print(w)
[0.9])")
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
      R"(The gradients times one factor, so that the norm of all of them is at most max_norm; and the norm before.

>>> gradients, norm = hd.optim.clip_grad_norm([hd.tensor([3.0]), hd.tensor([4.0])], 1.0)
>>> [round(g.item(), 4) for g in gradients], norm.item()
([0.6, 0.8], 5.0))");
  optim.def(
      "clip_grad_value",
      [](nb::handle gradients, double clip_value) {
        return nb::list(nb::steal(wrap(optim::clip_grad_value(Held<TensorList>(gradients.ptr()).get(), clip_value))));
      },
      nb::arg("gradients"), nb::arg("clip_value"), R"(Every element into [-clip_value, clip_value].

>>> hd.optim.clip_grad_value([hd.tensor([3.0, -0.5])], 1.0)
[tensor([ 1. , -0.5])])");
  optim.def(
      "decay_matrices",
      [](nb::handle named_parameters, double weight_decay) {
        NamedTensors all;
        for (nb::handle each : nb::iter(named_parameters)) {
          nb::tuple pair = nb::cast<nb::tuple>(each);
          all.emplace_back(to_text(pair[0].ptr()), tensor_of(nb::object(pair[1]).ptr()));
        }
        nb::list groups;
        for (const optim::Group& group : optim::decay_matrices(all, weight_decay)) {
          nb::list pairs;
          for (const auto& [name, tensor] : group.parameters)
            pairs.append(nb::make_tuple(name, nb::steal(wrap_handle(tensor))));
          nb::dict row;
          row["params"] = pairs;
          if (group.weight_decay) row["weight_decay"] = *group.weight_decay;
          groups.append(row);
        }
        return groups;
      },
      nb::arg("named_parameters"), nb::arg("weight_decay"),
      R"(Groups for an optimiser: tensors of two axes or more with weight decay, the others (biases, norms) without.

>>> net = hd.nn.Linear(3, 2)
>>> groups = hd.optim.decay_matrices(net.named_parameters(), 0.1)
>>> [group["weight_decay"] for group in groups]
[0.1, 0.0]
>>> opt = hd.optim.AdamW(groups, lr=1e-3))");
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
        return dict_of(texts);
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
      R"(Writes named tensors in the safetensors format, which other libraries read too. The file appears whole or not at all.
metadata: texts by name.

>>> import os, tempfile
>>> path = os.path.join(tempfile.mkdtemp(), "a.safetensors")
>>> hd.save_safetensors(path, {"w": hd.ones(2)}, metadata={"step": "7"})
>>> hd.load_safetensors(path)
{'w': tensor([1., 1.])}
>>> hd.safetensors_metadata(path)
{'step': '7'})");
  module.def(
      "safetensors_metadata",
      [](nb::handle path) {
        std::string name = path_text(path);
        TextMap texts;
        {
          Unlocked unlocked;
          texts = load_safetensors(name, {.lazy = true}).metadata;
        }
        return dict_of(texts);
      },
      nb::arg("path"), R"(The texts that a file was written with, by name; see save_safetensors(). Tensors are not read.

>>> import os, tempfile
>>> path = os.path.join(tempfile.mkdtemp(), "a.safetensors")
>>> hd.save_safetensors(path, {"w": hd.ones(2)}, metadata={"step": "7"})
>>> hd.safetensors_metadata(path)
{'step': '7'})");
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
      R"(The tensors of a file by name. Lazy ones stay in the file and are read where they are used, or a part of them alone.

>>> import os, tempfile
>>> path = os.path.join(tempfile.mkdtemp(), "a.safetensors")
>>> hd.save_safetensors(path, {"w": hd.arange(6).reshape(3, 2)})
>>> w = hd.load_safetensors(path, lazy=True)["w"]
>>> w[1]
tensor([2, 3]))");
}

}  // namespace heddle::python
