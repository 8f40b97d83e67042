// Data, progress lines, loss curves and profiles.
#include <heddle/data.h>
#include <heddle/deterministic.h>
#include <heddle/plot.h>
#include <heddle/precision.h>
#include <heddle/profile.h>
#include <heddle/progress.h>
#include <heddle/relaxed.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <sstream>

#include "python/bind.h"
#include "python/function.h"

namespace heddle::python {
namespace {

void set_shown(ProgressLine& self, const std::string& name, nb::handle value) {
  if (is_tensor(value.ptr()))
    self.set(name, tensor_of(value.ptr()));
  else if (PyFloat_Check(value.ptr()) || PyLong_Check(value.ptr()))
    self.set(name, to_double(value.ptr()));
  else
    self.set(name, nb::cast<std::string>(nb::str(value)));
}

std::string table(const Profile& profile) {
  std::ostringstream out;
  out << profile;
  return out.str();
}

}  // namespace

void bind_training(nb::module_& module) {
  nb::class_<ProgressLine>(module, "_ProgressLine")
      .def(
          "__init__",
          [](ProgressLine* self, const std::string& label, std::optional<int64_t> total) {
            ProgressOptions options;
            options.label = label;
            new (self) ProgressLine(std::move(options), total);
          },
          nb::arg("label"), nb::arg("total").none())
      .def(
          "advance",
          [](ProgressLine& self, int64_t count) {
            Unlocked unlocked;
            self.advance(count);
          },
          nb::arg("count") = 1)
      .def("set", set_shown, nb::arg("name"), nb::arg("value"))
      .def("finish",
           [](ProgressLine& self) {
             Unlocked unlocked;
             self.finish();
           })
      .def("text", &ProgressLine::text);
  nb::class_<data::BatchRows>(module, "_BatchRows")
      .def(
          "__init__",
          [](data::BatchRows* self, nb::handle tensors, int64_t size, std::optional<uint64_t> shuffle_seed,
             bool drop_last) {
            new (self) data::BatchRows(Held<std::vector<Tensor>>(tensors.ptr()).get(), size,
                                       {.shuffle_seed = shuffle_seed, .drop_last = drop_last});
          },
          nb::arg("tensors"), nb::arg("size"), nb::arg("shuffle_seed").none(), nb::arg("drop_last"))
      .def("batches", &data::BatchRows::batches)
      .def("next_order", &data::BatchRows::next_order)
      .def("rows", [](const data::BatchRows& self, const std::vector<int64_t>& order, int64_t number) {
        return nb::steal(wrap(self.rows(order, number)));
      });
  module.def(
      "_digits",
      [](int64_t count, uint64_t seed, bool held_out) {
        data::Digits digits;
        {
          Unlocked unlocked;
          digits = data::digits(count, {.seed = seed, .held_out = held_out});
        }
        return nb::make_tuple(to_object(digits.images), to_object(digits.labels));
      },
      nb::arg("count"), nb::arg("seed"), nb::arg("held_out"));
  module.def(
      "_write_loss_curve",
      [](const std::string& path, nb::dict series, const std::string& title, bool log_scale, double smoothing) {
        std::vector<Series> list;
        for (auto [name, values] : series) list.push_back({to_text(name.ptr()), nb::cast<std::vector<double>>(values)});
        write_loss_curve(path, list, {.title = title, .log_scale = log_scale, .smoothing = smoothing});
      },
      nb::arg("path"), nb::arg("series"), nb::arg("title"), nb::arg("log_scale"), nb::arg("smoothing"));
  nb::class_<Profile>(module, "Profile", "What all threads run from start() to stop(), kernel by kernel.")
      .def("start",
           [](Profile& self) {
             Unlocked unlocked;
             self.start();
           })
      .def("stop", &Profile::stop)
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](Profile& self, nb::args) { self.stop(); })
      .def("write_trace", &Profile::write_trace, nb::arg("path"))
      .def("kernels",
           [](const Profile& self) {
             nb::list result;
             for (const KernelProfile& kernel : self.result().kernels) {
               nb::dict row;
               row["name"] = kernel.name;
               row["calls"] = kernel.calls;
               row["seconds"] = kernel.total_seconds;
               row["bytes"] = kernel.bytes;
               row["flops"] = kernel.flops;
               row["share_of_roofline"] = kernel.share_of_roofline();
               result.append(row);
             }
             return result;
           })
      .def("__str__", table)
      .def("__repr__", table);
  module.def(
      "profile",
      [] {
        Unlocked unlocked;
        return profile();
      },
      "A profile that has started.");
  module.def("set_deterministic", set_deterministic, nb::arg("wanted"));
  module.def("is_deterministic", is_deterministic);
  module.def("allow_tf32", allow_tf32, nb::arg("allowed"));
  module.def("set_relaxed", set_relaxed, nb::arg("wanted"));
}

}  // namespace heddle::python
