#include "tools/bench.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "backend/cpu/thread_pool.h"
#include "base/config.h"
#include "base/error.h"
#include "tools/bench_table.h"
#include "tools/process.h"

namespace heddle::tools {
namespace {

struct Suite {
  const char* name;
  void (*measure)(double seconds, const Report& report);
  bool one_thread_first;  // unless a number of threads is asked for, measured with one thread and with all
  bool has_rows = false;  // that others can do: Contests
};
constexpr Suite kSuites[] = {
    {"memory", measure_memory, false},     {"odd", measure_odd, false},
    {"small", measure_small, false},       {"index", measure_index, false},
    {"compile", measure_compile, false},   {"matmul", measure_matmul, true, true},
    {"overhead", measure_overhead, false}, {"sort", measure_sort, true},
    {"conv", measure_conv, true, true},    {"attention", measure_attention, true, true},
    {"train", measure_train, false, true}, {"zoo", measure_zoo, false, true},
    {"cliffs", measure_cliffs, false},     {"first", measure_first, false},
    {"gpu", measure_gpu, false, true},     {"patterns", measure_patterns, false, true},
    {"control", measure_control, false},   {"update", measure_update, false},
    {"devices", measure_devices, false},   {"kernels", measure_kernels, true},
};

bool is_meant(const Suite& suite, const std::string& name) {
  return name == "all" ? part_of_all(suite.name) : name == suite.name;
}

[[noreturn]] void throw_unmatched(const std::string& only, const std::string& suite, std::vector<std::string> known) {
  std::ranges::sort(known);
  known.erase(std::unique(known.begin(), known.end()), known.end());
  std::string list;
  for (const std::string& name : known) list += "\n  " + name;
  throw ValueError(text("--only ", only, " matches no figure of ", suite, "; there are", list));
}

// `known` receives the names of a suite's figures when none of them was wanted.
void run_suite(const Suite& suite, int threads, const BenchOptions& options, std::vector<Figure>& figures,
               std::vector<std::string>& known) {
  setenv("HEDDLE_THREADS", std::to_string(threads).c_str(), 1);
  setenv("HEDDLE_CACHE", "off", 0);  // figures are those of default schedules, unless a cache is named
  std::vector<Figure> own;
  std::vector<std::string> command{"measure", suite.name,   "--seconds", std::to_string(options.seconds),
                                   "--only",  options.only, "--python",  options.python};
  if (options.rows) command.push_back("--rows");
  if (options.remarks) command.push_back("--remarks");
  int code = run_self(command, [&](const std::string& line) {
    if (options.rows) return void(std::printf("%s\n", line.c_str()));
    Json json = Json::parse(line);
    if (json.contains("known")) {
      for (const Json& name : json["known"]) known.push_back(name);
      return;
    }
    own.push_back(from_json(json));
    print_figure(suite.name, threads, own.back(), own.size() == 1);
  });
  if (code != 0) throw Error(text("suite ", suite.name, " ended with exit code ", code));
  print_means(own);
  figures.insert(figures.end(), own.begin(), own.end());
}

std::string only_part, python;
std::vector<std::string> asked_for;  // names that somebody wanted to know about
bool only_rows = false;
bool matches(const std::string& name) {
  return name.find(only_part) != std::string::npos || only_part.find(name) != std::string::npos;
}
}  // namespace
bool wanted(const std::string& name) {
  asked_for.push_back(name);
  return matches(name);
}
void check_any_wanted(const std::string& suite) {
  if (std::ranges::none_of(asked_for, matches)) throw_unmatched(only_part, suite, asked_for);
}
void want_only(const std::string& part) { only_part = part; }
const std::string& peers_python() { return python; }
void set_peers_python(const std::string& interpreter) { python = interpreter; }
bool lists_rows() { return only_rows; }
void set_lists_rows(bool on) { only_rows = on; }

bool part_of_all(const std::string& suite) {
  if (suite == "devices") return false;  // writes a file of 20 GB
  return (suite != "gpu" && suite != "patterns" && suite != "first") ||
         (!config().device.empty() && config().device != "cpu");
}

std::vector<std::string> suite_names() {
  std::vector<std::string> names;
  for (const Suite& suite : kSuites) names.push_back(suite.name);
  names.push_back("all");
  return names;
}

namespace {
void list_rows(const BenchOptions& options) {
  std::vector<Figure> none;
  std::vector<std::string> known;
  std::string having;
  bool any = false;
  for (const Suite& suite : kSuites) {
    if (!suite.has_rows) continue;
    having += (having.empty() ? "" : ", ") + std::string(suite.name);
    if (!is_meant(suite, options.suite)) continue;
    run_suite(suite, 1, options, none, known);
    any = true;
  }
  if (!any) throw ValueError(text("--rows: suite ", options.suite, " has none to list; those that have: ", having));
}
}  // namespace

void bench(const BenchOptions& options) {
  if (options.rows) return list_rows(options);
  std::ofstream file;
  if (!options.json.empty()) {
    file.open(options.json);  // before the long work, so that a bad name is found now
    if (!file) throw Error(text("cannot write to ", options.json));
  }
  print_machine();
  std::fflush(stdout);
  int all = config().threads > 0 ? config().threads : available_cores();
  std::vector<Figure> figures;
  std::vector<std::string> known;
  for (const Suite& suite : kSuites) {
    if (!is_meant(suite, options.suite)) continue;
    if (!options.threads && suite.one_thread_first && all > 1) run_suite(suite, 1, options, figures, known);
    run_suite(suite, options.threads.value_or(all), options, figures, known);
  }
  if (figures.empty() && !options.only.empty()) throw_unmatched(options.only, options.suite, known);

  print_bars(figures);
  if (!file.is_open()) return;
  Json list = Json::array();
  for (const Figure& figure : figures) list.push_back(to_json(figure));
  file << list.dump(2) << "\n";
  file.close();
  if (!file) throw Error(text("cannot write to ", options.json));
}

namespace {
const Suite& suite_called(const std::string& name) {
  for (const Suite& suite : kSuites)
    if (name == suite.name) return suite;
  throw ValueError(text("there is no suite ", name));
}
}  // namespace

bool one_thread_first(const std::string& suite) { return suite_called(suite).one_thread_first; }

void measure_suite(const std::string& suite, double seconds, const Report& report) {
  suite_called(suite).measure(seconds, report);
}

void measure_suite(const std::string& suite, double seconds) {
  bool any = false;
  measure_suite(suite, seconds, [&](const Figure& figure) {
    any = true;
    if (lists_rows()) return;
    Json json = to_json(figure);
    json["note"] = figure.note;
    std::printf("%s\n", json.dump().c_str());
    std::fflush(stdout);
  });
  if (!any && !only_part.empty() && !lists_rows()) std::printf("%s\n", Json{{"known", asked_for}}.dump().c_str());
}

}  // namespace heddle::tools
