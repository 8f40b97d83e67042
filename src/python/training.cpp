// Data, progress lines, loss curves, and modes of the compiler.
#include <heddle/data.h>
#include <heddle/deterministic.h>
#include <heddle/plot.h>
#include <heddle/precision.h>
#include <heddle/progress.h>
#include <heddle/relaxed.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

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
      "_draw_text", [](nb::handle image, bool blocks) { return data::draw_text(to_tensor(image.ptr()), blocks); },
      nb::arg("image"), nb::arg("blocks"));
  // Series are pairs: numbers, and what they are drawn over.
  module.def(
      "_write_loss_curve",
      [](const std::string& path, nb::dict series, const std::string& title, const std::string& x_label,
         const std::string& y_label, bool log_scale, double smoothing, int width, int height) {
        std::vector<Series> list;
        for (auto [name, values] : series) {
          nb::tuple both = nb::cast<nb::tuple>(values);
          list.push_back(
              {to_text(name.ptr()), nb::cast<std::vector<double>>(both[0]), nb::cast<std::vector<double>>(both[1])});
        }
        write_loss_curve(path, list,
                         {.title = title,
                          .x_label = x_label,
                          .y_label = y_label,
                          .log_scale = log_scale,
                          .smoothing = smoothing,
                          .width = width,
                          .height = height});
      },
      nb::arg("path"), nb::arg("series"), nb::arg("title"), nb::arg("x_label"), nb::arg("y_label"),
      nb::arg("log_scale"), nb::arg("smoothing"), nb::arg("width"), nb::arg("height"));

  using enum Row::Kind;
  static constexpr Row rows[] = {
      {"set_deterministic(wanted)", call<set_deterministic>, Function},
      {"is_deterministic()", call<is_deterministic>, Function},
      {"allow_tf32(allowed)", call<allow_tf32>, Function},
      {"tf32_allowed()", call<tf32_allowed>, Function},
      {"set_relaxed(wanted)", call<set_relaxed>, Function},
      {"is_relaxed()", call<is_relaxed>, Function},
  };
  add_functions(module, rows);
}

}  // namespace heddle::python
