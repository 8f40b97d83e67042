// The command line: heddle info, heddle bench, heddle tune.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "base/log.h"
#include "tools/bench.h"
#include "tools/info.h"
#include "tools/machine.h"
#include "tools/peers.h"
#include "tools/tune.h"

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
      "  index     gather and scatter of rows, against a copy\n"
      "  sort      sort, argsort, topk, against the standard library\n"
      "  compile   2,000 new kernels in one process\n"
      "  matmul    products of many shapes and dtypes, against OpenBLAS, oneDNN and the peak of multiply-adds\n"
      "  conv      the convolutions of ResNet-18, against oneDNN\n"
      "  attention forward and backward, and of few queries\n"
      "  train     steps and inference of whole models\n"
      "  zoo       the same of many ordinary models, small: bench/zoo\n"
      "  cliffs    rolls, paddings, joins of many parts and unrolled loops, against a copy or fewer steps;\n"
      "            numbers and sizes that change from call to call\n"
      "  first     first calls of training steps of whole models, nothing cached\n"
      "  overhead  recording, launching, compiling, starting\n"
      "  gpu       on the GPU that HEDDLE_DEVICE names (cuda), against PyTorch with --peers\n"
      "  control   loops and conditions inside programs\n"
      "  kernels   kernels that people write, against the compiler's own\n"
      "  patterns  ordinary sums of products on that GPU, likewise\n"
      "  all       all of them; gpu, patterns and first only where HEDDLE_DEVICE names one\n\n"
      "Each suite runs in a process of its own, because the number of threads is fixed once per process.\n"
      "Without --threads, suites run with HEDDLE_THREADS or one thread per core; matmul, sort, conv and\n"
      "attention run with one thread before. The exit code says whether measuring worked, not whether bars\n"
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
  CLI::Option* peers_flag =
      bench->add_flag("--peers", peers, "Run PyTorch and others (bench/peers) beside us, where they are installed");
  bench->add_option("--python", python, "The interpreter for --peers (default: that of bench/peers/.venv, or python3)")
      ->type_name("FILE")
      ->needs(peers_flag);

  bench->add_flag("--rows", options.rows,
                  "List the rows that others can do as lines of JSON, and measure nothing (matmul, conv, attention, "
                  "train, zoo, gpu)");

  bench->add_flag("--remarks", options.remarks,
                  "Print for everything that is compiled why two kernels are not one, and why a product is not on the "
                  "matrix unit (HEDDLE_LOG=remarks), to standard error");

  tools::TuneOptions tuning;
  int tuning_threads = 0;
  auto add_tuning = [&](CLI::App* to) {
    to->add_option("SUITE", tuning.suite, "A suite of heddle bench, or all")
        ->required()
        ->type_name("NAME")
        ->check(CLI::IsMember(tools::suite_names()));
    to->add_option("--trials", tuning.trials, "Schedules to try for each kernel (default 64)")
        ->type_name("N")
        ->check(CLI::Range(0, 1000000));
    to->add_option("--seconds", tuning.seconds, "Search for so long at most, for each kernel (default 20)")
        ->type_name("S")
        ->check(CLI::Range(0.0, 86400.0));
    to->add_option("--only", tuning.only, "Only kernels of figures whose name contains this")->type_name("TEXT");
    to->add_flag("--report", tuning.report, "Search nothing: measure what was found against the default schedules");
    to->add_flag("--again", tuning.again, "Search on for kernels that are tuned already");
    to->add_option("--try", tuning.tries,
                   "Search nothing: measure the schedules of this file, one to a line after a part of a kernel's name "
                   "and a colon, as they follow each other in a captured program")
        ->type_name("FILE")
        ->check(CLI::ExistingFile);
  };
  CLI::App* tune = app.add_subcommand("tune", "Search faster schedules for the kernels of a suite, and keep them");
  tune->footer(
      "Kernels are collected by running the suite once. Every candidate's output is compared with that of the\n"
      "default schedule before its time counts. The best schedules go to the disk cache (HEDDLE_CACHE), where\n"
      "every later process finds them. Several processes may tune at once.");
  add_tuning(tune);
  CLI::Option* tuning_threads_option = tune->add_option("--threads", tuning_threads, "Threads that run kernels")
                                           ->type_name("N")
                                           ->check(CLI::Range(1, 4096));
  CLI::App* tune_suite = app.add_subcommand("tune-suite", "")->group("");
  add_tuning(tune_suite);
  tune_suite->add_flag("--among-others", tuning.among_others);

  // How bench calls this program again.
  std::string suite, only;
  double seconds = 0;
  CLI::App* measure = app.add_subcommand("measure", "")->group("");
  measure->add_option("suite", suite)->required();
  measure->add_option("--seconds", seconds);
  measure->add_option("--only", only);
  measure->add_option("--python", python);
  measure->add_flag("--rows", options.rows);
  measure->add_flag("--remarks", options.remarks);
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
  if (peers) tools::check_python(options.python = python);
  if (tuning_threads_option->count() > 0) tuning.threads = tuning_threads;
  if (tune->parsed()) tools::tune_suites(tuning);
  if (tune_suite->parsed()) tools::tune_suite(tuning);
  if (bench->parsed()) tools::bench(options);
  tools::want_only(only);
  tools::set_peers_python(python);
  tools::set_lists_rows(options.rows);
  if (options.remarks) log_enable(Log::Remarks, true);
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
