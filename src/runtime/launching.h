// Parts of execute() that regions of control flow need as well. Private to src/runtime.
#pragma once

#include "runtime/execute.h"

namespace heddle {

// The value of an expression over the plan's symbols.
uint64_t size_now(const Expr& e, const Plan& plan, std::span<const int64_t> symbols);

// Places for this run's temporaries; returns the size of the arena, and counts it.
uint64_t place_temporaries(const Plan& plan, RunMemory& memory);

// Finds the memory and sizes of launches [begin, end), segment after segment. `packing`: the first of the plan's
// packings that belongs to them; it is moved on.
void bind(const Plan& plan, size_t begin, size_t end, size_t& packing, const DeviceBuffer* arena, RunMemory& memory);

// One launch, timed if somebody wants to know, and counted.
void launch_bound(const Plan& plan, size_t number, std::span<const LaunchSegment> segments, RunMemory& memory);
void count_launch(const Launch& step);

// Waits for the device. Throws IndexError for the first check that failed.
void report_checks(const Plan& plan, const DeviceBuffer& arena, RunMemory& memory);

}  // namespace heddle
