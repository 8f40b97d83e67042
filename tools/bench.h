// heddle bench: measures suites, each figure with a reference from the same run.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace heddle::tools {

struct PeerFigure {
  std::string name;
  double best = 0, median = 0;  // in the figure's unit
  std::string note;             // why there is none
};

struct Figure {
  std::string name, unit;
  double ours = 0, median = 0, reference = 0;
  std::string reference_name;
  double ratio = 0;           // higher is better, whatever the unit
  std::optional<double> bar;  // the least ratio that is good enough
  std::string note;
  // Suites that compare with other libraries. The floor is what the machine allows at most, measured.
  std::vector<PeerFigure> peers = {};
  std::string group = {}, floor_name = {};
  double floor = 0, share = 0;  // share of the floor that is reached
  std::optional<double> share_bar = {};
  std::vector<std::string> about_peers = {};
};
using Report = std::function<void(const Figure&)>;

// Whether --only asks for a figure of this name, or of one that begins with it.
bool wanted(const std::string& name);
void want_only(const std::string& part);  // figures whose name contains it; empty: all
// ValueError if wanted() has refused every name: --only matches nothing. It lists those names.
void check_any_wanted(const std::string& suite);
// The interpreter that runs the scripts of bench/peers; empty: they are not asked for.
const std::string& peers_python();
void set_peers_python(const std::string& python);
// Rows are only listed, as lines of JSON for the scripts of bench/peers.
bool lists_rows();
void set_lists_rows(bool on);

// One suite in this process. `seconds`: about how long each figure is measured; less than 0: everything runs once, so
// that its kernels are seen (heddle tune), and the figures mean nothing.
void measure_memory(double seconds, const Report& report);
void measure_odd(double seconds, const Report& report);
void measure_small(double seconds, const Report& report);
void measure_index(double seconds, const Report& report);
void measure_update(double seconds, const Report& report);
void measure_compile(double seconds, const Report& report);
void measure_matmul(double seconds, const Report& report);
void measure_overhead(double seconds, const Report& report);
void measure_sort(double seconds, const Report& report);
void measure_disk_cache(double seconds, const Report& report);  // a part of overhead
void measure_conv(double seconds, const Report& report);
void measure_train(double seconds, const Report& report);
void measure_attention(double seconds, const Report& report);
void measure_control(double seconds, const Report& report);
void measure_kernels(double seconds, const Report& report);
void measure_devices(double seconds, const Report& report);
void measure_cliffs(double seconds, const Report& report);
void measure_cliffs_of_numbers(double seconds, const Report& report);  // parts of cliffs
void measure_cliffs_of_threads(double seconds, const Report& report);
void measure_zoo(double seconds, const Report& report);
void measure_first(double seconds, const Report& report);
void measure_gpu(double seconds, const Report& report);
void measure_patterns(double seconds, const Report& report);  // needs HEDDLE_DEVICE
// What "process start to first result" runs: computes something small and prints it.
void first_result();
// What "100 kernels ready" runs: prints how many kernels, and the seconds until they had run.
void first_program();

struct BenchOptions {
  std::string suite;
  std::optional<int> threads;
  std::string json;  // file; empty: none
  std::string only;  // figures whose name contains this
  double seconds = 3;
  std::string python;  // runs PyTorch and others beside us; empty: not
  bool rows = false;   // list the rows that others can do, and measure nothing
  bool remarks = false;
};
std::vector<std::string> suite_names();      // "all" last
bool part_of_all(const std::string& suite);  // those for GPUs are only where one is chosen
// Measures each suite in a process of its own, because the number of threads is fixed once per process. Prints a table.
// Throws Error.
void bench(const BenchOptions& options);
// The other side of bench(): one suite, figures as lines of JSON on standard output.
void measure_suite(const std::string& suite, double seconds);
void measure_suite(const std::string& suite, double seconds, const Report& report);
// Whether a suite is measured with one thread before it is measured with all.
bool one_thread_first(const std::string& suite);

}  // namespace heddle::tools
