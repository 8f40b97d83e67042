// Random sets of tensors, captured functions, modules and generators that several threads use at once: every value that
// a thread reads, saves or gets back must be whole and of one step, and at the end nothing may be lost.
//
//   fuzz_threads --seeds 0:100        these seeds
//   fuzz_threads --seconds 60         new seeds until the time is over
//   --milliseconds N                  so long for every seed (default: 100)
//   --threads N                       seeds at the same time (default: 1); every seed has two to five threads of its
//   own
//   --survey                          do not stop at a failure: one line for each, with the command
//   --verbose                         every seed
//
// How threads meet is chance: a failure may need its seed to run again and again, or for longer. A seed that does not
// end is named.
#include "base/error.h"
#include "fuzz/driver.h"
#include "fuzz/thread_world.h"

namespace heddle::fuzz {
namespace {

constexpr const char* kUsage =
    "fuzz_threads [--seeds BEGIN:END] [--seconds N] [--milliseconds N] [--threads N] [--survey] [--verbose]";

int run(int count, char** arguments) {
  DriverOptions options;
  uint64_t milliseconds = 100;
  CommandLine line(count, arguments, kUsage);
  while (line.next()) {
    if (line.common(options)) continue;
    if (line.option() != "--milliseconds") line.fail("unknown option " + line.option());
    milliseconds = line.number();
  }
  line.finish(options);
  Driver driver(options);
  return driver.run([&](uint64_t seed) {
    std::string command = text(options.program, " --seeds ", seed, ":", seed + 1, " --milliseconds ", milliseconds);
    driver.now(command);
    try {
      World(seed).run(static_cast<double>(milliseconds) * 1e-3);
    } catch (const std::exception& error) {
      driver.fail([&] { return text("FAILED: ", error.what(), "\n  ", command); });
    }
  });
}

}  // namespace
}  // namespace heddle::fuzz

int main(int count, char** arguments) { return heddle::fuzz::run(count, arguments); }
