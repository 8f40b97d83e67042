// Random programs of the blocks that people write, against the reference evaluator.
//
//   fuzz_programs --seeds 0:2000        these seeds
//   fuzz_programs --seconds 60          new seeds until the time is over
//   --only BLOCKS                       programs of these blocks alone, several with commas; --list names them
//   --blocks N                          so many in every program
//   --way WAYS                          together, some, forward, gradients, alone, steps, captured, differences,
//                                       devices, captured_devices; several with commas. Without it every seed goes two
//                                       of them or three.
//   --threads N                         seeds at the same time (default: 1)
//   --survey                            do not stop at a failure: one line for each, with the command
//   --show                              print the programs
//   --verbose                           every seed
//   --smaller N, --without N,N, --keep N,N
//                                       smaller sizes, without some blocks, some outputs only: what the command that
//                                       repeats a failure has
//
// The device and the target are those that the environment chooses (docs/environment.md); HEDDLE_DEVICE=null compiles
// everything for a GPU and compares nothing. The first failure is made smaller, printed with the command that repeats
// it, and ends the run.
#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "fuzz/check_program.h"
#include "fuzz/driver.h"

namespace heddle::fuzz {
namespace {

constexpr const char* kUsage =
    "fuzz_programs [--seeds BEGIN:END] [--seconds N] [--only BLOCKS] [--blocks N] [--way WAYS] [--threads N] "
    "[--survey] [--show]"
    " [--verbose] [--list] [--smaller N] [--without N,..] [--keep N,..]";

struct Options {
  DriverOptions driver;
  Recipe recipe;  // without its seed
  std::vector<ProgramWay> ways;
  bool show = false;
};

std::set<int> numbers(CommandLine& line) {
  std::set<int> result;
  for (const std::string& item : line.list()) result.insert(std::atoi(item.c_str()));
  return result;
}

void list_blocks() {
  for (const Block& block : all_blocks()) std::cout << block.name << "\n";
  std::exit(0);
}

Options parse(int count, char** arguments) {
  Options options;
  CommandLine line(count, arguments, kUsage);
  while (line.next()) {
    if (line.common(options.driver)) continue;
    if (line.option() == "--only") {
      options.recipe.only = line.list();
      for (const std::string& wanted : options.recipe.only)
        if (std::none_of(all_blocks().begin(), all_blocks().end(), [&](const Block& b) { return wanted == b.name; }))
          line.fail("there is no block '" + wanted + "'");
    } else if (line.option() == "--way") {
      for (const std::string& wanted : line.list()) {
        auto found = std::find_if(std::begin(kProgramWays), std::end(kProgramWays),
                                  [&](ProgramWay way) { return wanted == name(way); });
        if (found == std::end(kProgramWays)) line.fail("there is no way '" + wanted + "'");
        options.ways.push_back(*found);
      }
    } else if (line.option() == "--blocks") {
      options.recipe.blocks = static_cast<int>(line.number());
    } else if (line.option() == "--smaller") {
      options.recipe.smaller = static_cast<int>(line.number());
    } else if (line.option() == "--without") {
      options.recipe.without = numbers(line);
    } else if (line.option() == "--keep") {
      options.recipe.keep = numbers(line);
    } else if (line.option() == "--show") {
      options.show = true;
    } else if (line.option() == "--list") {
      list_blocks();
    } else {
      line.fail("unknown option " + line.option());
    }
  }
  line.finish(options.driver);
  return options;
}

template <class List>
std::string joined(const List& list) {
  std::string all;
  for (const auto& item : list) all += text(all.empty() ? "" : ",", item);
  return all;
}

std::string command(const std::string& program, const Recipe& recipe, ProgramWay way) {
  std::string line = text(program, " --seeds ", recipe.seed, ":", recipe.seed + 1, " --way ", name(way));
  if (!recipe.only.empty()) line += " --only " + joined(recipe.only);
  if (recipe.blocks > 0) line += text(" --blocks ", recipe.blocks);
  if (recipe.smaller >= 0) line += text(" --smaller ", recipe.smaller);
  if (!recipe.without.empty()) line += " --without " + joined(recipe.without);
  if (!recipe.keep.empty()) line += " --keep " + joined(recipe.keep);
  return line;
}

void run_seed(const Options& options, uint64_t seed, Driver& driver) {
  for (ProgramWay way : options.ways.empty() ? ways_of_seed(seed) : options.ways) {
    Recipe recipe = options.recipe;
    recipe.seed = seed;
    driver.now(command(options.driver.program, recipe, way));
    if (options.show) driver.print(build_program(recipe).text());
    try {
      check_program(recipe, way);
    } catch (const Failure& first) {
      driver.fail([&] {
        ProgramWay how = way;
        bool small = options.recipe.smaller >= 0;  // a command that repeats a failure
        Failure failure = small ? first : shrink(recipe, how, first);
        std::string again = command(options.driver.program, recipe, how);
        if (options.driver.survey) return text("FAILED: ", again, ": ", failure.message.substr(0, 300));
        return text("FAILED: seed ", seed, ", ", name(way), ": ", failure.message, "\n", failure.detail,
                    "repeat with\n  ", again);
      });
      return;
    }
  }
}

// Most tensors must really have been compared, or the checks say nothing.
void count(Driver& driver) {
  const ProgramCounts& counts = program_counts();
  uint64_t tensors = counts.compared + counts.vague, programs = counts.differences + counts.kinks;
  driver.print(text(counts.compared.load(), " of ", tensors, " tensors compared closely; gradients of ",
                    counts.differences.load(), " of ", programs, " programs agree with differences"));
  if (driver.failed() || (tensors >= 200 && 5 * counts.vague > tensors) ||
      (programs >= 40 && 2 * counts.differences < programs)) {
    if (!driver.failed()) driver.fail([] { return std::string("FAILED: too little could be compared"); });
  }
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
