// The command line: heddle info, heddle bench.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "tools/bench.h"
#include "tools/info.h"
#include "tools/machine.h"
#include "tools/peers.h"

namespace {

using namespace heddle;

int main_or_throw(int argc, char** argv) {
  CLI::App app{"Heddle: a compiler for tensor programs"};
  app.name("heddle");
  app.set_version_flag("--version", std::string("heddle ") + tools::version() + ", commit " + tools::commit());
  app.require_subcommand(0, 1);

  CLI::App* info = app.add_subcommand("info", "The build, the machine as the compiler sees it, devices and memory");

  tools::BenchOptions options;
  int threads = 0;
  CLI::App* bench = app.add_subcommand("bench", "Measure a suite: every figure with a reference from the same run");
  bench->footer(
      "Suites:\n"
      "  memory    elementwise, normalisations, reductions, scans, transposes on 512 MiB, against a copy or a\n"
      "            reading of the same bytes\n"
      "  odd       the same on prime sizes, and on f16, bf16 and i8\n"
      "  small     the same on 1k and 64k elements, per call\n"
      "  compile   2,000 new kernels in one process\n"
      "  matmul    products of many shapes and dtypes, against OpenBLAS, oneDNN and the peak of multiply-adds\n"
      "  overhead  recording, launching, compiling, starting\n"
      "  all       all of them\n\n"
      "Each suite runs in a process of its own, because the number of threads is fixed once per process.\n"
      "Without --threads, memory and overhead run with HEDDLE_THREADS or one thread per core, matmul first\n"
      "with one thread and then with as many. The exit code says whether measuring worked, not whether bars\n"
      "were reached.");
  bench->add_option("SUITE", options.suite, "What to measure")
      ->required()
      ->type_name("NAME")
      ->check(CLI::IsMember(tools::suite_names()));
  CLI::Option* threads_option = bench->add_option("--threads", threads, "Threads that run kernels and references")
                                    ->type_name("N")
                                    ->check(CLI::Range(1, 4096));
  bench->add_option("--json", options.json, "Write the figures to this file, as a list")->type_name("FILE");
  bench->add_option("--seconds", options.seconds, "About how long each figure is measured (default 3)")
      ->type_name("S")
      ->check(CLI::Range(0.0, 3600.0));

  bench->add_option("--only", options.only, "Only figures whose name contains this")->type_name("TEXT");

  bool peers = false;
  std::string python = tools::default_python();
  bench->add_flag("--peers", peers, "Run PyTorch and others (bench/peers) beside us, where they are installed");
  bench->add_option("--python", python, "The interpreter for --peers (default: that of bench/peers/.venv, or python3)")
      ->type_name("FILE");

  // How bench calls this program again.
  std::string suite, only;
  double seconds = 0;
  CLI::App* measure = app.add_subcommand("measure", "")->group("");
  measure->add_option("suite", suite)->required();
  measure->add_option("--seconds", seconds);
  measure->add_option("--only", only);
  measure->add_option("--python", python);
  CLI::App* first_result = app.add_subcommand("first-result", "")->group("");

  CLI::App* first_program = app.add_subcommand("first-program", "")->group("");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    int code = app.exit(error);
    return code == 0 ? 0 : 2;
  }
  if (app.get_subcommands().empty()) {
    std::fprintf(stderr, "%s\nheddle: which subcommand?\n", app.help().c_str());
    return 2;
  }
  if (threads_option->count() > 0) options.threads = threads;
  if (info->parsed()) tools::print_info();
  if (peers) options.python = python;
  if (bench->parsed()) tools::bench(options);
  tools::want_only(only);
  tools::set_peers_python(python);
  if (measure->parsed()) tools::measure_suite(suite, seconds);
  if (first_result->parsed()) tools::first_result();
  if (first_program->parsed()) tools::first_program();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return main_or_throw(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "heddle: %s\n", error.what());
    return 1;
  }
}
