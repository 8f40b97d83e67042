#include "tune/tune.h"

#include <mutex>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/lock.h"
#include "base/log.h"
#include "runtime/kernel_cache.h"
#include "runtime/kernel_store.h"

namespace heddle {
namespace {

constexpr double kMostSecondsOnDemand = 60;

std::optional<Schedule> tune_on_demand(const Program::Step& step, Backend& device, int trials) {
  // A simulated device's times mean nothing.
  if (device.code_version().empty()) return std::nullopt;
  static Mutex one_at_a_time;  // two searches would disturb each other's times
  std::lock_guard guard(one_at_a_time);
  try {
    return tune(workload_of(step), device, disk_cache(), {.trials = trials, .seconds = kMostSecondsOnDemand}).best;
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& error) {
    warn(text("tuning of ", step.loops.name, " failed: ", error.what()));
    return std::nullopt;
  }
}

}  // namespace

SearchResult tune(const Workload& workload, Backend& device, DiskCache* cache, const SearchOptions& options) {
  SearchOptions chosen = options;
  const Structure kernel = structure(workload.loops);
  if (cache) {
    if (chosen.turn.empty()) chosen.turn = cache->path() + ".turn";
    if (std::optional<TunedSchedule> known = load_schedule(*cache, kernel, device, workload.tf32);
        known && !chosen.start) {
      try {
        chosen.start = parse_schedule(known->schedule);
      } catch (const ParseError&) {}
    }
  }
  SearchResult result = search(workload, device, chosen);
  if (cache)
    store_schedule(*cache, kernel, device,
                   {print(result.best), result.default_seconds, result.best_seconds, result.tried}, workload.tf32);
  return result;
}

void enable_tuning() { set_tuner(tune_on_demand); }

}  // namespace heddle
