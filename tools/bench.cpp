#include "tools/bench.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backend/cpu/thread_pool.h"
#include "base/config.h"
#include "base/error.h"
#include "codegen/codegen.h"
#include "tools/machine.h"
#include "tools/process.h"

namespace heddle::tools {
namespace {

using Json = nlohmann::ordered_json;

struct Suite {
  const char* name;
  void (*measure)(double seconds, const Report& report);
  bool one_thread_first;  // unless a number of threads is asked for, measured with one thread and with all
};
constexpr Suite kSuites[] = {
    {"memory", measure_memory, false},   {"odd", measure_odd, false},      {"small", measure_small, false},
    {"index", measure_index, false},     {"compile", measure_compile, false}, {"matmul", measure_matmul, true},
    {"overhead", measure_overhead, false}, {"sort", measure_sort, true},
};

Json to_json(const Figure& figure) {
  Json json{{"name", figure.name},
            {"unit", figure.unit},
            {"ours", figure.ours},
            {"reference", figure.reference},
            {"reference_name", figure.reference_name},
            {"ratio", figure.ratio},
            {"median", figure.median}};
  if (figure.bar) json["bar"] = *figure.bar;
  return json;
}

Figure from_json(const Json& json) {
  Figure figure{json.at("name"),      json.at("unit"),           json.at("ours"),  json.at("median"),
                json.at("reference"), json.at("reference_name"), json.at("ratio"), {},
                json.at("note")};
  if (json.contains("bar")) figure.bar = json.at("bar").get<double>();
  return figure;
}

std::string number_text(double value) {
  char line[40];
  std::snprintf(line, sizeof line, value < 10 ? "%.2f" : value < 1000 ? "%.1f" : "%.0f", value);
  return line;
}

void print_header() {
  std::printf("heddle %s, commit %s, %s, LLVM %s\n", version(), commit(), compiler().c_str(), llvm_version());
  const Target& target = host_target();
  double load = 0;
  getloadavg(&load, 1);  // other work on the machine makes figures worthless: let the reader see it
  std::printf("%s, %d cores, target %s, load average %.1f\n", cpu_model().c_str(), available_cores(),
              target.name.c_str(), load);
}

void print_columns(const char* suite, int threads) {
  std::printf("\n%s, %d thread%s\n", suite, threads, threads == 1 ? "" : "s");
  std::printf("  %-40s %-10s %8s %8s %9s %6s %5s       %s\n", "name", "unit", "ours", "median", "reference", "ratio",
              "bar", "reference_name");
}

void print_row(const Figure& figure) {
  std::string bar = figure.bar ? number_text(*figure.bar) : "-";
  const char* verdict = !figure.bar ? "" : figure.ratio >= *figure.bar ? "pass" : "FAIL";
  std::printf("  %-40s %-10s %8s %8s %9s %6s %5s %-5s %s%s%s\n", figure.name.c_str(), figure.unit.c_str(),
              number_text(figure.ours).c_str(), number_text(figure.median).c_str(),
              number_text(figure.reference).c_str(), number_text(figure.ratio).c_str(), bar.c_str(), verdict,
              figure.reference_name.c_str(), figure.note.empty() ? "" : "; ", figure.note.c_str());
  std::fflush(stdout);
}

void run_suite(const Suite& suite, int threads, const BenchOptions& options, std::vector<Figure>& figures) {
  print_columns(suite.name, threads);
  std::fflush(stdout);
  setenv("HEDDLE_THREADS", std::to_string(threads).c_str(), 1);
  int code = run_self({"measure", suite.name, "--seconds", std::to_string(options.seconds), "--only", options.only},
                      [&](const std::string& line) {
                        figures.push_back(from_json(Json::parse(line)));
                        print_row(figures.back());
                      });
  if (code != 0) throw Error(text("suite ", suite.name, " ended with exit code ", code));
}

}  // namespace

namespace {
std::string only_part;
}
bool wanted(const std::string& name) {
  return name.find(only_part) != std::string::npos || only_part.find(name) != std::string::npos;
}
void want_only(const std::string& part) { only_part = part; }

std::vector<std::string> suite_names() {
  std::vector<std::string> names;
  for (const Suite& suite : kSuites) names.push_back(suite.name);
  names.push_back("all");
  return names;
}

void bench(const BenchOptions& options) {
  std::ofstream file;
  if (!options.json.empty()) {
    file.open(options.json);  // before the long work, so that a bad name is found now
    if (!file) throw Error(text("cannot write to ", options.json));
  }
  print_header();
  int all = config().threads > 0 ? config().threads : available_cores();
  std::vector<Figure> figures;
  for (const Suite& suite : kSuites) {
    if (options.suite != "all" && options.suite != suite.name) continue;
    if (!options.threads && suite.one_thread_first && all > 1) run_suite(suite, 1, options, figures);
    run_suite(suite, options.threads.value_or(all), options, figures);
  }

  int missed = 0, bars = 0;
  for (const Figure& figure : figures) {
    bars += figure.bar.has_value();
    missed += figure.bar && figure.ratio < *figure.bar;
  }
  std::printf("\n%d of %d bars reached; %s\n", bars - missed, bars,
              "ours and reference are the best of many turns, ratio: higher is better");
  if (!file.is_open()) return;
  Json list = Json::array();
  for (const Figure& figure : figures) list.push_back(to_json(figure));
  file << list.dump(2) << "\n";
  file.close();
  if (!file) throw Error(text("cannot write to ", options.json));
}

void measure_suite(const std::string& name, double seconds) {
  for (const Suite& suite : kSuites) {
    if (name != suite.name) continue;
    suite.measure(seconds, [](const Figure& figure) {
      Json json = to_json(figure);
      json["note"] = figure.note;
      std::printf("%s\n", json.dump().c_str());
      std::fflush(stdout);
    });
    return;
  }
  throw ValueError(text("there is no suite ", name));
}

}  // namespace heddle::tools
