// Tuned schedules: searched for, and kept in the disk cache.
#pragma once

#include "runtime/disk_cache.h"
#include "tune/search.h"

namespace heddle {

// Searches, beginning with what the cache knows, and puts the best schedule there, also when it is the default one: the
// kernel then counts as tuned. `cache` may be null.
SearchResult tune(const Workload& workload, Backend& device, DiskCache* cache, const SearchOptions& options);

// From now on kernels without a tuned schedule are tuned when they are compiled, if HEDDLE_TUNE is set. Called by
// tensor/ when the program starts.
void enable_tuning();

}  // namespace heddle
