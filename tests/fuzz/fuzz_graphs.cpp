// Random graphs against the reference evaluator.
//
//   fuzz_graphs --seeds 0:2000          these seeds
//   fuzz_graphs --seconds 60            new seeds until the time is over
//   --only WAYS                         realize, simulated, devices, tile, simd, simt, passes, jit, ptx, gradient,
//   vmap;
//                                       several with commas. Without it every seed goes most ways, and some the others
//                                       too.
//   --threads N                         seeds at the same time (default: 1)
//   --steps N                           size of the graphs
//   --ptxas PROGRAM                     assemble PTX too
//   --symbolic                          all graphs have symbolic sizes; without it every fourth has
//   --static                            no graph has
//   --together                          all are several graphs in one that differ in sizes; without it every eighth is
//   --survey                            do not stop at a failure: one line for each, with the command
//   --verbose                           every seed
//
// The first failure is made as small as possible, printed with the command that repeats it, and ends the run.
#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "fuzz/check.h"
#include "fuzz/driver.h"
#include "fuzz/ranges.h"
#include "fuzz/transform.h"

namespace heddle::fuzz {
namespace {

constexpr const char* kUsage =
    "fuzz_graphs [--seeds BEGIN:END] [--seconds N] [--only "
    "realize,simulated,devices,tile,simd,simt,passes,jit,ptx,gradient,vmap]"
    " [--threads N] [--steps N] [--ptxas PROGRAM] [--symbolic | --static | --together] [--survey] [--verbose]";

struct Options {
  DriverOptions driver;
  std::vector<Way> only;
  int steps = -1;
  std::string ptxas;
  bool symbolic = false, fixed = false, together = false;
};

Options parse(int count, char** arguments) {
  Options options;
  CommandLine line(count, arguments, kUsage);
  while (line.next()) {
    if (line.common(options.driver)) continue;
    if (line.option() == "--only") {
      for (const std::string& wanted : line.list()) {
        auto found = std::find_if(std::begin(kAllWays), std::end(kAllWays), [&](Way w) { return wanted == name(w); });
        if (found == std::end(kAllWays)) line.fail("--only does not know '" + wanted + "'");
        options.only.push_back(*found);
      }
    } else if (line.option() == "--steps") {
      options.steps = static_cast<int>(line.number());
    } else if (line.option() == "--ptxas") {
      options.ptxas = line.value();
    } else if (line.option() == "--symbolic") {
      options.symbolic = true;
    } else if (line.option() == "--static") {
      options.fixed = true;
    } else if (line.option() == "--together") {
      options.together = true;
    } else {
      line.fail("unknown option " + line.option());
    }
  }
  line.finish(options.driver);
  return options;
}

// What a seed does when nobody asks for something else. Compiling takes most of the time, so only some seeds do it
// twice.
std::vector<Way> ways_of(uint64_t seed) {
  std::vector<Way> result{Way::Realize, Way::Loops, Way::Tile, Way::Simd, Way::Simt, Way::Passes};
  if (seed % 4 == 0) result.push_back(Way::Jit);
  if (seed % 4 == 2 || seed % 8 == 7) result.push_back(Way::Simulated);
  if (seed % 8 == 1) result.push_back(Way::Ptx);
  if (seed % 8 == 3 || seed % 8 == 6) result.push_back(Way::Devices);
  if (seed % 5 == 0) result.push_back(Way::Gradient);
  if (seed % 5 == 1) result.push_back(Way::Vmap);
  if (seed % 2 == 0) result.push_back(Way::Numbers);
  return result;
}

std::string command(const Options& options, uint64_t seed, Way way, int steps) {
  return text(options.driver.program, " --seeds ", seed, ":", seed + 1, " --only ", name(way),
              steps >= 0 ? text(" --steps ", steps) : "",
              options.symbolic   ? " --symbolic"
              : options.fixed    ? " --static"
              : options.together ? " --together"
                                 : "");
}

// The same seed with fewer steps is the beginning of the same graph.
std::string described(const Options& options, Check what, Way way, Failure failure) {
  int most = what.steps >= 0 ? what.steps : default_steps(what.seed), steps = options.steps;
  for (int fewer = 0; fewer < most; ++fewer) {
    try {
      what.steps = fewer;
      check(what, way);
    } catch (const Failure& smaller) {
      failure = smaller;
      steps = fewer;
      break;
    }
  }
  std::string again = command(options, what.seed, way, steps);
  if (options.driver.survey) return text("FAILED: ", again, ": ", failure.message.substr(0, 300));
  std::string line = text("seed ", what.seed, ", ", name(way), ": ", failure.message);
  return text("FAILED: ", line, "\n", failure.detail, line, "\nrepeat with\n  ", again);
}

void run_seed(const Options& options, uint64_t seed, Driver& driver) {
  for (Way way : options.only.empty() ? ways_of(seed) : options.only) {
    driver.now(command(options, seed, way, options.steps));
    bool symbolic = options.symbolic || (!options.fixed && seed % 4 == 3);
    bool together = options.together || (!options.fixed && !symbolic && seed % 8 == 5);
    Check what{seed, options.steps, symbolic && !together, together, options.ptxas};
    try {
      check(what, way);
    } catch (const Failure& failure) {
      driver.fail([&] { return described(options, what, way, failure); });
      return;
    }
  }
}

// Most gradients must really have been compared, or the checks say nothing.
void count_gradients(Driver& driver) {
  const GradientCounts& counts = gradient_counts();
  uint64_t graphs = counts.differences + counts.kinks + counts.constant, arrays = counts.realized + counts.vague;
  if (graphs == 0) return;
  std::cout << "gradients: " << counts.differences << " of " << graphs << " graphs agree with differences ("
            << counts.kinks << " at a kink, " << counts.constant << " constant), " << counts.realized << " of "
            << arrays << " arrays with the evaluator" << std::endl;
  if (driver.failed() || graphs < 100 || (2 * counts.differences > graphs && 2 * counts.realized > arrays)) return;
  driver.fail([] { return std::string("FAILED: too few gradients could be compared"); });
}

void count_numbers(Driver& driver) {
  const NumberCounts& counts = number_counts();
  uint64_t all = counts.sharp + counts.vague;
  if (all == 0) return;
  std::cout << "numbers: " << counts.sharp << " of " << all << " have one result, up to their last places" << std::endl;
  if (driver.failed() || all < 10000 || 2 * counts.sharp > all) return;
  driver.fail([] { return std::string("FAILED: too few numbers are told apart"); });
}

}  // namespace
}  // namespace heddle::fuzz

int main(int count, char** arguments) {
  using namespace heddle::fuzz;
  Options options = parse(count, arguments);
  Driver driver(options.driver);
  auto count_all = [&] {
    count_gradients(driver);
    count_numbers(driver);
  };
  return driver.run([&](uint64_t seed) { run_seed(options, seed, driver); }, count_all);
}
