#include "runtime/execute.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "runtime/build_plan.h"
#include "runtime/control.h"
#include "runtime/launching.h"
#include "runtime/memory_plan.h"
#include "runtime/profiler.h"
#include "runtime/split_devices.h"

namespace heddle {

uint64_t size_now(const Expr& e, const Plan& plan, std::span<const int64_t> symbols) {
  if (e.is_const()) return static_cast<uint64_t>(e.value());
  return static_cast<uint64_t>(evaluate(e, [&](const Expr& symbol) {
    auto known = std::find(plan.symbols.begin(), plan.symbols.end(), symbol);
    HD_ASSERT(known != plan.symbols.end(), "the plan has no size ", symbol);
    return symbols[static_cast<size_t>(known - plan.symbols.begin())];
  }));
}

uint64_t place_temporaries(const Plan& plan, RunMemory& memory) {
  RunStats& stats = run_stats();
  stats.arena_bytes += plan.arena_bytes;
  stats.arena_lower_bound += plan.arena_lower_bound;
  if (plan.temporaries.empty()) return plan.arena_bytes;
  std::vector<Lifetime> lifetimes;
  for (const Temporary& life : plan.temporaries)
    lifetimes.push_back({size_now(life.bytes, plan, memory.symbols), life.first, life.last});
  MemoryPlan placed = plan_memory(lifetimes);
  memory.temporaries.clear();
  for (size_t t = 0; t < lifetimes.size(); ++t)
    memory.temporaries.push_back({plan.arena_bytes + placed.offsets[t], lifetimes[t].bytes});
  stats.arena_bytes += placed.bytes;
  stats.arena_lower_bound += placed.lower_bound;
  return plan.arena_bytes + placed.bytes;
}

namespace {

BufferPart memory_of(const Slot& slot, const DeviceBuffer* arena, const RunMemory& memory) {
  const auto index = static_cast<size_t>(slot.index);
  switch (slot.kind) {
    case Slot::Kind::Leaf: return memory.leaves[index];
    case Slot::Kind::Output:
      if (!memory.output_parts.empty()) return memory.output_parts[index];
      return memory.outputs[index] ? whole(*memory.outputs[index]) : BufferPart{};
    case Slot::Kind::Arena: return slot.index < 0 ? BufferPart{} : BufferPart{arena, index, slot.bytes};
    case Slot::Kind::Temporary: return {arena, memory.temporaries[index].offset, memory.temporaries[index].bytes};
  }
  __builtin_unreachable();
}

// What a launch has to do, at the sizes of this run.
Traffic needed_now(const Launch& step, std::span<const LaunchSegment> segments) {
  if (!step.loops) return step.needed;
  Traffic total;
  for (const LaunchSegment& segment : segments) total += traffic(*step.loops, segment.symbols);
  return total;
}

// For whoever wants to know how long it took.
void launch_timed(const Plan& plan, const Launch& step, std::span<const LaunchSegment> segments) {
  ProfileSlice slice{SliceKind::Kernel, step.name, profile_clock()};
  plan.device->launch(*step.executable, segments);
  plan.device->synchronize();
  slice.end = profile_clock();
  if (log_enabled(Log::Run)) {
    double microseconds = static_cast<double>(slice.end - slice.start) * 1e-3;
    log_write(Log::Run, text(step.name, ": ", microseconds, " us, ", step.bytes_read, " bytes read, ",
                             step.bytes_written, " written, ",
                             static_cast<double>(step.bytes_read + step.bytes_written) / microseconds / 1e3, " GB/s"));
  }
  if (!profiling()) return;
  const Traffic needed = needed_now(step, segments);
  slice.bytes = needed.read + needed.written;
  slice.flops = needed.flops;
  slice.detail = step.shapes;
  record_slice(slice);
}

}  // namespace

void launch_bound(const Plan& plan, size_t number, std::span<const LaunchSegment> segments, RunMemory& memory) {
  const Launch& step = plan.launches[number];
  if (step.control) return run_control(plan, number, segments[0].buffers, memory);
  if (profiling() || log_enabled(Log::Run)) [[unlikely]]
    launch_timed(plan, step, segments);
  else
    plan.device->launch(*step.executable, segments);
  count_launch(step);
}

void count_launch(const Launch& step) {
  RunStats& stats = run_stats();
  ++stats.launches;
  stats.bytes_read += step.bytes_read;
  stats.bytes_written += step.bytes_written;
}

namespace {

// Room for what the next runs will not have to pack, where the leaf is what it was. A leaf that is new in every run is
// packed into the arena, as without this.
void choose_kept(const Plan& plan, RunMemory& memory) {
  if (!memory.repeated) return;
  memory.kept.resize(plan.packings.size());
  for (size_t k = 0; k < plan.packings.size(); ++k) {
    RunMemory::Kept& kept = memory.kept[k];
    const uint64_t now = memory.leaves[static_cast<size_t>(plan.packings[k].leaf)].buffer->contents();
    if (kept.contents != now) {
      kept = {now, nullptr, false};
    } else if (!kept.packed) {
      const Backend::Memory used = plan.device->memory();
      if (used.used + plan.packings[k].bytes > used.limit / 2) continue;
      try {
        kept.packed = plan.device->allocate(plan.packings[k].bytes);
      } catch (const OutOfMemory&) {  // it works without
      }
    }
  }
}

// Puts what is kept in the place of the temporaries of a launch, whose segments begin at `first`. `packing` is its
// first packing; it is moved on to the next launch's.
void use_kept(const Plan& plan, size_t launch, size_t first, size_t& packing, RunMemory& memory) {
  for (; packing < memory.kept.size() && plan.packings[packing].launch == static_cast<int>(launch); ++packing) {
    const PlanPacking& place = plan.packings[packing];
    RunMemory::Kept& kept = memory.kept[packing];
    if (!kept.packed) continue;
    LaunchSegment& segment = memory.segments[first + static_cast<size_t>(place.segment)];
    const auto begin = static_cast<size_t>(segment.buffers.data() - memory.buffers.data());
    memory.buffers[begin + static_cast<size_t>(place.buffer)] = whole(*kept.packed);
    if (kept.ready) {
      segment.done |= uint64_t{1} << place.phase;
      ++run_stats().kept_packings;
    }
  }
}

}  // namespace

void bind(const Plan& plan, size_t begin, size_t end, size_t& packing, const DeviceBuffer* arena, RunMemory& memory) {
  std::span<const Launch> steps = std::span(plan.launches).subspan(begin, end - begin);
  memory.buffers.clear();
  memory.launch_symbols.clear();
  memory.segments.clear();
  for (const Launch& step : steps)  // first all: segments refer to vectors that have grown
    for (const Segment& segment : step.segments) {
      for (const Slot& slot : segment.slots) memory.buffers.push_back(memory_of(slot, arena, memory));
      for (const LaunchSize& size : segment.symbols)
        memory.launch_symbols.push_back(size.symbol < 0 ? size.value
                                                        : memory.symbols[static_cast<size_t>(size.symbol)]);
    }
  size_t buffer = 0, symbol = 0;
  for (const Launch& step : steps)
    for (const Segment& segment : step.segments) {
      memory.segments.push_back({std::span(memory.buffers).subspan(buffer, segment.slots.size()),
                                 std::span(memory.launch_symbols).subspan(symbol, segment.symbols.size())});
      buffer += segment.slots.size();
      symbol += segment.symbols.size();
    }
  size_t first = 0;
  for (size_t i = begin; i < end; ++i) {
    use_kept(plan, i, first, packing, memory);
    first += plan.launches[i].segments.size();
  }
}

namespace {

void launch(const Plan& plan, size_t number, size_t& packing, const DeviceBuffer* arena, RunMemory& memory) {
  bind(plan, number, number + 1, packing, arena, memory);
  launch_bound(plan, number, memory.segments, memory);
}

// Launches [begin, end) at once.
void launch_all(const Plan& plan, size_t begin, size_t end, size_t& packing, const DeviceBuffer* arena,
                RunMemory& memory, std::shared_ptr<void>& recording) {
  if (begin == end) return;
  bind(plan, begin, end, packing, arena, memory);
  memory.submissions.clear();
  size_t first = 0;
  for (size_t i = begin; i < end; ++i) {
    const Launch& step = plan.launches[i];
    memory.submissions.push_back(
        {step.executable.get(), std::span(memory.segments).subspan(first, step.segments.size())});
    first += step.segments.size();
  }
  plan.device->launch_all(memory.submissions, recording);
}

}  // namespace

void report_checks(const Plan& plan, const DeviceBuffer& arena, RunMemory& memory) {
  plan.device->copy_to_host(memory.arguments.data(), arena, memory.arguments.size() * sizeof(uint64_t));
  for (const PlanCheck& check : plan.checks) {
    auto index = static_cast<int64_t>(memory.arguments[check.byte / sizeof(uint64_t)]);
    if (index == 0) continue;
    auto size = static_cast<int64_t>(size_now(check.size, plan, memory.symbols));
    throw IndexError(describe_bad_index(check.node, check.label, index, check.axis, size));
  }
}

namespace {

// Whether a result is written over memory that the run reads: what a failed check would have to undo.
bool overwrites(const Plan& plan, const RunMemory& memory) {
  for (size_t o = 0; o < plan.outputs.size(); ++o) {
    const int leaf = plan.outputs[o].donated_leaf;
    if (leaf >= 0 && memory.outputs[o] && memory.outputs[o] == memory.leaves[static_cast<size_t>(leaf)].buffer)
      return true;
  }
  return false;
}

// Outputs of which launches write a part only have the rest from the start: their memory is the leaf's, or gets a copy.
void copy_updated(const Plan& plan, const RunMemory& memory) {
  for (size_t o = 0; o < plan.outputs.size(); ++o) {
    const int leaf = plan.outputs[o].updated_leaf;
    if (leaf < 0 || !memory.outputs[o]) continue;
    const BufferPart& from = memory.leaves[static_cast<size_t>(leaf)];
    if (from.buffer == memory.outputs[o]) continue;
    HD_ASSERT(from.offset == 0, "output ", o, " is an update of a part of a buffer");
    const uint64_t bytes = output_bytes(plan, o, memory.symbols);
    ProfileSlice slice{SliceKind::Kernel, "copy", profile_clock()};
    plan.device->copy({memory.outputs[o], 0, bytes}, from);
    run_stats().bytes_read += bytes;
    run_stats().bytes_written += bytes;
    if (!profiling()) continue;
    plan.device->synchronize();
    slice.end = profile_clock();
    slice.bytes = 2 * bytes;
    record_slice(slice);
  }
}

// Another plan may come next, also after an exception.
struct ForgetControl {
  RunMemory& memory;
  ~ForgetControl() {
    if (!memory.repeated) memory.control.clear();
  }
};

std::shared_ptr<const CachedPlan> make_plan(std::span<const NodeRef> roots, const GraphKey& key) {
  ProfileScope scope(SliceKind::Compile, [] { return "plan"; });
  std::vector<NodeRef> distinct;
  for (const NodeRef& root : roots)
    if (!is_provided(*root) && key.number(root.get()) == distinct.size()) distinct.push_back(root);
  if (key.spans) return keep_plan(key, split_devices(distinct, key));
  CachedPlan made;
  made.arguments = changing_numbers(key);
  made.numbers = key.numbers;
  for (uint32_t number : made.arguments)
    (key.places[number].kind == NumberPlace::Kind::Offset ? made.offsets : made.scalars).push_back(number);
  made.plan = build_plan(distinct, key, made.scalars, made.offsets, *key.device);
  scope.set_detail([&] { return text(made.plan.launches.size(), " launches"); });
  return keep_plan(key, std::move(made));
}

}  // namespace

RunStats& run_stats() {
  thread_local RunStats stats{};
  return stats;
}

void begin_run(const CachedPlan& cached, std::span<const uint64_t> numbers, std::span<const int64_t> symbols,
               RunMemory& memory) {
  memory.symbols.assign(symbols.begin(), symbols.end());
  if (cached.plan.split) memory.numbers.assign(numbers.begin(), numbers.end());
  for (uint32_t number : cached.offsets) memory.symbols.push_back(static_cast<int64_t>(numbers[number]));
  memory.arguments.assign(8 * cached.scalars.size() + cached.plan.check_bytes / sizeof(uint64_t), 0);
  for (size_t k = 0; k < cached.scalars.size(); ++k) memory.arguments[8 * k] = numbers[cached.scalars[k]];
}

void bind_leaf(const Plan& plan, size_t leaf, const Node& value, RunMemory& memory) {
  const DeviceBuffer& buffer = device_buffer(value);
  if (!plan.split && &buffer.device() != plan.device)
    throw ValueError(
        text("data on ", buffer.device().name(), " and ", plan.device->name(), " meet in one computation"));
  memory.leaves[leaf] = whole(buffer);
}

uint64_t output_bytes(const Plan& plan, size_t output, std::span<const int64_t> symbols) {
  const PlanOutput& of = plan.outputs[output];
  return size_now(of.shape.numel(), plan, symbols) * static_cast<uint64_t>(size_of(of.dtype));
}

void execute(const Plan& plan, RunMemory& memory, std::shared_ptr<DeviceBuffer>& arena) {
  if (plan.split) return execute_parts(plan, memory);
  const ForgetControl forget{memory};
  choose_kept(plan, memory);
  for (size_t o = 0; o < plan.outputs.size(); ++o)
    if (memory.outputs[o] && plan.outputs[o].leaf < 0 && plan.outputs[o].same_as < 0)
      memory.outputs[o]->change_contents();
  uint64_t arena_bytes = place_temporaries(plan, memory);
  if (arena_bytes > 0 && (!arena || arena->bytes() < arena_bytes)) {
    arena.reset();
    arena = plan.device->allocate(arena_bytes);
  }
  if (!memory.arguments.empty())
    plan.device->copy_from_host(*arena, memory.arguments.data(), memory.arguments.size() * sizeof(uint64_t));
  copy_updated(plan, memory);
  const bool together = memory.repeated && plan.device->records() && !profiling() && !log_enabled(Log::Run) &&
                        std::ranges::none_of(plan.launches, [](const Launch& l) { return l.control != nullptr; });
  // So many launches come before the checks are looked at, which waits for the device: all, unless that is too late.
  const size_t count = plan.launches.size();
  const bool at_end = plan.last_check < 0 || !overwrites(plan, memory);
  const size_t checked = at_end ? count : static_cast<size_t>(plan.last_check + 1);
  // From the first launch on that writes over what tensors still hold, all of it has to be done.
  std::optional<Uninterrupted> whole;
  const size_t unstoppable = plan.first_overwrite < count && overwrites(plan, memory) ? plan.first_overwrite : count;
  size_t packing = 0;  // the first that belongs to a launch to come
  for (size_t i = 0; i < plan.launches.size(); ++i) {
    const size_t before = packing;
    interruption_point();
    if (!whole && unstoppable < count && (together || i == unstoppable)) whole.emplace();
    if (!together)
      launch(plan, i, packing, arena.get(), memory);
    else if (i == 0 || i == checked)
      launch_all(plan, i, i < checked ? checked : count, packing, arena.get(), memory,
                 memory.recordings[at_end        ? 2
                                   : i < checked ? 0
                                                 : 1]);
    // What these launches have packed is there from now on.
    for (size_t k = before; k < packing; ++k) memory.kept[k].ready = memory.kept[k].packed != nullptr;
    if (together) count_launch(plan.launches[i]);
    if (i + 1 == checked && !plan.checks.empty()) report_checks(plan, *arena, memory);
  }
}

std::shared_ptr<const CachedPlan> plan_for(std::span<const NodeRef> roots, const GraphKey& key, CompiledPlace* place) {
  std::shared_ptr<const CachedPlan> plan = find_plan(key);
  if (plan) {
    ++run_stats().plan_hits;
    return plan;
  }
  ++run_stats().plan_misses;
  plan = make_plan(roots, key);
  place ? note_plan(key, *place) : note_plan(key);
  return plan;
}

}  // namespace heddle
