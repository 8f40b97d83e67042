// What people look at: profiles, and graphs as text. python/heddle/graph.py and profiler.py draw them.
#include <heddle/profile.h>

#include <sstream>

#include "graph/graph.h"
#include "python/bind.h"
#include "python/function.h"
#include "tensor/build.h"

namespace heddle::python {
namespace {

std::string table(const Profile& profile) {
  std::ostringstream out;
  out << profile;
  return out.str();
}

nb::object kernel_dicts(const Profile& profile) {
  nb::list result;
  for (const KernelProfile& kernel : profile.result().kernels) {
    nb::dict row;
    row["name"] = kernel.name;
    row["calls"] = kernel.calls;
    row["seconds"] = kernel.total_seconds;
    row["min_seconds"] = kernel.min_seconds;
    row["mean_seconds"] = kernel.mean_seconds();
    row["max_seconds"] = kernel.max_seconds;
    row["bytes"] = kernel.bytes;
    row["flops"] = kernel.flops;
    row["floor_seconds"] = kernel.floor_seconds;
    row["share_of_roofline"] = kernel.share_of_roofline();
    result.append(row);
  }
  return result;
}

nb::object summary(const Profile& profile) {
  const ProfileResult now = profile.result();
  nb::dict result;
  result["seconds"] = now.seconds;
  result["compile_seconds"] = now.compile_seconds;
  result["flops_per_second"] = now.roofline.flops_per_second;
  result["bytes_per_second"] = now.roofline.bytes_per_second;
  result["left_out"] = now.left_out;
  return result;
}

std::string text_of_graph(const std::vector<Tensor>& tensors) { return print_graph(to_nodes(tensors)); }
std::string dot_of_graph(const std::vector<Tensor>& tensors) { return print_dot(to_nodes(tensors)); }

}  // namespace

void bind_inspect(nb::module_& module) {
  nb::class_<Profile>(
      module, "Profile", nb::dynamic_attr(),
      R"(What all threads run from start() to stop(), kernel by kernel. profile() makes one that has started; it is a context
too, shows itself as a table, and in a notebook also as bars over time.

>>> x = hd.rand(256, 256).realize()
>>> with hd.profile() as p:
...     y = (x @ x).realize()
>>> [k["calls"] for k in p.kernels()]
[1]
>>> p.seconds >= p.kernels()[0]["seconds"]
True)")
      .def(
          "start",
          [](Profile& self) {
            Unlocked unlocked;
            self.start();
          },
          "Goes on if it was stopped.")
      .def("stop", &Profile::stop, "What runs from now on is left out.")
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](Profile& self, nb::args) { self.stop(); })
      .def("write_trace", &Profile::write_trace, nb::arg("path"),
           "Kernels, calls and compilations over time: a file for ui.perfetto.dev or chrome://tracing.")
      .def("kernels", kernel_dicts,
           "One dictionary for each kernel, the most time first: name, calls, seconds, bytes, flops, share_of_roofline "
           "and kin.")
      .def("summary", summary,
           "Seconds from start to stop, seconds of compiling, and what the machine was measured to do at most.")
      .def_prop_ro(
          "seconds", [](const Profile& self) { return self.result().seconds; }, "From start to stop.")
      .def("__str__", table)
      .def("__repr__", table);
  module.def(
      "profile",
      [] {
        Unlocked unlocked;
        return profile();
      },
      R"(A profile that has started: `with hd.profile() as p:`, or stop it with p.stop(). The first one of a process measures
the machine, for about 50 ms.

>>> p = hd.profile()
>>> x = hd.zeros(3).assign(hd.arange(3.0)).realize()
>>> p.stop()
>>> len(p.kernels())
1)");
  using enum Row::Kind;
  static constexpr Row rows[] = {
      {"_print_graph(tensors)",
       call<[](const std::vector<Tensor>& tensors) -> nb::object { return nb::cast(text_of_graph(tensors)); }>,
       Function},
      {"_print_dot(tensors)",
       call<[](const std::vector<Tensor>& tensors) -> nb::object { return nb::cast(dot_of_graph(tensors)); }>,
       Function},
      {"snapshot(*tensors)", call<[](const std::vector<Tensor>& tensors) { return snapshot(tensors); }>, Function},
  };
  add_functions(module, rows);
}

}  // namespace heddle::python
