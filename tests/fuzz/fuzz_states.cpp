// Random programs about state (states.h): what captured functions do to it against what the plain functions do, and
// both against a model that knows nothing of graphs.
//
//   fuzz_states --seeds 0:2000          these seeds
//   fuzz_states --seconds 60            new seeds until the time is over
//   --without FEATURES                  programs that have none of these, several with commas; --list names them
//   --only FEATURES                     programs that have no others
//   --symbolic                          the rows of matrices are symbolic sizes
//   --threads N                         seeds at the same time (default: 1)
//   --survey                            do not stop at a failure: one line for each, with the command
//   --keep                              do not make a failing program smaller
//   --show                              print the programs
//   --verbose                           every seed
//
// The first failure is made smaller, printed with the command that repeats it, and ends the run.
#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "fuzz/driver.h"
#include "fuzz/state_check.h"
#include "temporary_folder.h"

namespace heddle::fuzz {
namespace {

constexpr const char* kUsage =
    "fuzz_states [--seeds BEGIN:END] [--seconds N] [--without FEATURES] [--only FEATURES] [--symbolic] [--threads N] "
    "[--survey] [--keep] [--show] [--verbose] [--list]";

struct Options {
  DriverOptions driver;
  std::set<std::string> features = kStateFeatures;
  std::string chosen;  // the options that chose them
  bool symbolic = false, keep = false, show = false;
};

std::vector<std::string> features_of(CommandLine& line) {
  std::vector<std::string> result = line.list();
  for (const std::string& feature : result)
    if (!kStateFeatures.contains(feature)) line.fail("there is no feature '" + feature + "'");
  return result;
}

Options parse(int count, char** arguments) {
  Options options;
  CommandLine line(count, arguments, kUsage);
  while (line.next()) {
    if (line.common(options.driver)) continue;
    if (line.option() == "--without" || line.option() == "--only") {
      const bool only = line.option() == "--only";
      std::vector<std::string> list = features_of(line);
      if (only) options.features.clear();
      std::string all;
      for (const std::string& feature : list) {
        only ? (void)options.features.insert(feature) : (void)options.features.erase(feature);
        all += (all.empty() ? "" : ",") + feature;
      }
      options.chosen += (only ? " --only " : " --without ") + all;
    } else if (line.option() == "--symbolic") {
      options.symbolic = true;
    } else if (line.option() == "--keep") {
      options.keep = true;
    } else if (line.option() == "--show") {
      options.show = true;
    } else if (line.option() == "--list") {
      for (const std::string& feature : kStateFeatures) std::cout << feature << "\n";
      std::exit(0);
    } else {
      line.fail("unknown option " + line.option());
    }
  }
  line.finish(options.driver);
  options.driver.keep_plans = true;
  return options;
}

void run_seed(const Options& options, uint64_t seed, Driver& driver) {
  const std::string command = text(options.driver.program, " --seeds ", seed, ":", seed + 1, options.chosen,
                                   options.symbolic ? " --symbolic" : "");
  driver.now(command);
  StateProgram program = make_state_program(seed, options.features, options.symbolic);
  if (options.show) driver.print(text("seed ", seed, "\n", to_text(program)));
  testing::TemporaryFolder folder;
  try {
    check_states(program, folder.file(""));
  } catch (const Failure& first) {
    driver.fail([&] {
      Failure failure = options.keep ? first : shrink_states(program, first, folder.file(""));
      if (options.driver.survey && options.keep) return text("FAILED: ", command, ": ", failure.message.substr(0, 300));
      return text("FAILED: seed ", seed, ": ", failure.message, "\n", failure.detail, "repeat with\n  ", command);
    });
  }
}

void count(Driver& driver) {
  const StateCounts& counts = state_counts();
  driver.print(text(counts.calls.load(), " statements that call, and ", counts.replays.load(), " replays; ",
                    counts.thrown.load(), " threw on purpose, ", counts.refused.load(), " were refused; ",
                    counts.looks.load(), " looks, ", counts.by_model.load(), " of them at the model too; ",
                    counts.given_up.load(), " programs were given up, ", counts.rounded.load(),
                    " because of what rounding became"));
}

}  // namespace
}  // namespace heddle::fuzz

int main(int count_of_arguments, char** arguments) {
  using namespace heddle::fuzz;
  Options options = parse(count_of_arguments, arguments);
  if (!has_device()) return kSkipped;
  Driver driver(options.driver);
  return driver.run([&](uint64_t seed) { run_seed(options, seed, driver); }, [&] { count(driver); });
}
