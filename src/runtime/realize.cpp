#include <algorithm>
#include <atomic>
#include <chrono>

#include "base/error.h"
#include "base/log.h"
#include "runtime/build_plan.h"
#include "runtime/graph_key.h"
#include "runtime/memory_plan.h"
#include "runtime/plan.h"
#include "runtime/plan_cache.h"

namespace heddle {
namespace {

// Memory that a thread keeps from one call to the next, so that a call with a known plan allocates nothing but its
// results.
struct Workspace {
  GraphKey key;
  std::vector<std::shared_ptr<Storage>> outputs;
  std::vector<void*> output_addresses, leaf_addresses, buffers;
  std::vector<uint64_t> arguments;
  std::vector<int64_t> symbols;  // of one launch, all segments
  std::vector<LaunchSegment> segments;
  std::vector<uint64_t> offsets;  // of the plan's temporaries
  std::vector<bool> held;
  std::vector<uint32_t> pending;
};
thread_local Workspace workspace;

// Leaves nothing of a call behind, not even by an exception: results must not live longer than their handles.
struct ForgetOutputs {
  ~ForgetOutputs() {
    workspace.outputs.clear();
    workspace.key.shrink();
  }
};

Device& default_device() {
  static Device& instance = device();
  return instance;
}

// Marks the nodes that somebody outside of the graph can still see, directly or through a node that uses them.
void find_held(const GraphKey& key, std::vector<bool>& held, std::vector<uint32_t>& pending) {
  held.assign(key.nodes.size(), false);
  pending.clear();
  for (uint32_t i = 0; i < key.nodes.size(); ++i)
    if (key.nodes[i]->refs.load(std::memory_order_acquire) != key.references[i]) {
      held[i] = true;
      pending.push_back(i);
    }
  while (!pending.empty()) {
    const Node* node = key.nodes[pending.back()];
    pending.pop_back();
    for (const NodeRef& input : node->inputs) {
      uint32_t number = key.number(input.get());
      if (held[number]) continue;
      held[number] = true;
      pending.push_back(number);
    }
  }
}

// The value of an expression over the plan's symbols in this run.
uint64_t size_now(const Expr& e, const Plan& plan, const Workspace& work) {
  if (e.is_const()) return static_cast<uint64_t>(e.value());
  return static_cast<uint64_t>(evaluate(e, [&](const Expr& symbol) {
    auto known = std::find(plan.symbols.begin(), plan.symbols.end(), symbol);
    HD_ASSERT(known != plan.symbols.end(), "the plan has no size ", symbol);
    return work.key.symbol_values[static_cast<size_t>(known - plan.symbols.begin())];
  }));
}

// Places for this run's temporaries; returns the size of the arena, and counts it.
uint64_t place_temporaries(const Plan& plan, Workspace& work) {
  RunStats& stats = run_stats();
  stats.arena_bytes += plan.arena_bytes;
  stats.arena_lower_bound += plan.arena_lower_bound;
  if (plan.temporaries.empty()) return plan.arena_bytes;
  std::vector<Lifetime> lifetimes;
  for (const Temporary& life : plan.temporaries)
    lifetimes.push_back({size_now(life.bytes, plan, work), life.first, life.last});
  MemoryPlan memory = plan_memory(lifetimes);
  work.offsets = std::move(memory.offsets);
  for (uint64_t& offset : work.offsets) offset += plan.arena_bytes;
  stats.arena_bytes += memory.bytes;
  stats.arena_lower_bound += memory.lower_bound;
  return plan.arena_bytes + memory.bytes;
}

void provide_outputs(const Plan& plan, Workspace& work) {
  const GraphKey& key = work.key;
  bool searched = false;
  work.outputs.clear();
  work.output_addresses.clear();
  for (const PlanOutput& output : plan.outputs) {
    std::shared_ptr<Storage> storage;
    if (output.leaf >= 0) {
      storage = key.leaves[static_cast<size_t>(output.leaf)]->storage;
    } else if (output.same_as >= 0) {
      storage = work.outputs[static_cast<size_t>(output.same_as)];
    } else if (output.donated_leaf >= 0) {
      if (!searched) find_held(key, work.held, work.pending);
      searched = true;
      const Node* leaf = key.leaves[static_cast<size_t>(output.donated_leaf)];
      if (!work.held[key.number(leaf)] && leaf->storage.use_count() == 1) storage = leaf->storage;
    }
    void* address;
    if (storage) {
      address = static_cast<DeviceBuffer*>(storage.get())->address();
    } else {
      uint64_t bytes = size_now(output.shape.numel(), plan, work) * static_cast<uint64_t>(size_of(output.dtype));
      std::shared_ptr<DeviceBuffer> fresh = plan.device->allocate(bytes);
      if (output.argument >= 0)
        plan.device->copy_from_host(*fresh, &work.arguments[8 * static_cast<size_t>(output.argument)], bytes);
      address = fresh->address();
      storage = std::move(fresh);
    }
    work.outputs.push_back(std::move(storage));
    work.output_addresses.push_back(address);
  }
}

void* address_of(const Slot& slot, std::byte* arena, const Workspace& work) {
  switch (slot.kind) {
    case Slot::Kind::Leaf: return work.leaf_addresses[static_cast<size_t>(slot.index)];
    case Slot::Kind::Output: return work.output_addresses[static_cast<size_t>(slot.index)];
    case Slot::Kind::Arena: return slot.index < 0 ? nullptr : arena + slot.index;
    case Slot::Kind::Temporary: return arena + work.offsets[static_cast<size_t>(slot.index)];
  }
  __builtin_unreachable();
}

void launch(const Plan& plan, const Launch& step, std::byte* arena, Workspace& work) {
  work.buffers.clear();
  work.symbols.clear();
  for (const Segment& segment : step.segments) {
    for (const Slot& slot : segment.slots) work.buffers.push_back(address_of(slot, arena, work));
    for (const LaunchSize& size : segment.symbols)
      work.symbols.push_back(size.symbol < 0 ? size.value : work.key.symbol_values[static_cast<size_t>(size.symbol)]);
  }
  work.segments.clear();
  const size_t buffers = step.segments[0].slots.size(), symbols = step.segments[0].symbols.size();
  for (size_t i = 0; i < step.segments.size(); ++i)
    work.segments.push_back(
        {std::span(work.buffers).subspan(i * buffers, buffers), std::span(work.symbols).subspan(i * symbols, symbols)});
  if (!log_enabled(Log::Run)) {
    plan.device->launch(*step.executable, work.segments);
    return;
  }
  auto start = std::chrono::steady_clock::now();
  plan.device->launch(*step.executable, work.segments);
  plan.device->synchronize();
  double microseconds = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  log_write(Log::Run, text(step.name, ": ", microseconds, " us, ", step.bytes_read, " bytes read, ", step.bytes_written,
                           " written, ", static_cast<double>(step.bytes_read + step.bytes_written) / microseconds / 1e3,
                           " GB/s"));
}

// Throws for the first check that failed.
void report_checks(const Plan& plan, const DeviceBuffer& arena, Workspace& work) {
  plan.device->synchronize();
  plan.device->copy_to_host(work.arguments.data(), arena, work.arguments.size() * sizeof(uint64_t));
  for (const PlanCheck& check : plan.checks) {
    auto index = static_cast<int64_t>(work.arguments[check.byte / sizeof(uint64_t)]);
    if (index == 0) continue;
    auto size = static_cast<int64_t>(size_now(check.size, plan, work));
    throw IndexError(describe_bad_index(check.node, check.label, index, check.axis, size));
  }
}

void run(const CachedPlan& cached, Workspace& work) {
  const Plan& plan = cached.plan;
  const GraphKey& key = work.key;
  work.arguments.assign(8 * cached.arguments.size() + plan.check_bytes / sizeof(uint64_t), 0);
  for (size_t k = 0; k < cached.arguments.size(); ++k) work.arguments[8 * k] = key.floats[cached.arguments[k]];
  provide_outputs(plan, work);
  work.leaf_addresses.clear();
  for (const Node* leaf : key.leaves) work.leaf_addresses.push_back(device_buffer(*leaf).address());

  uint64_t arena_bytes = place_temporaries(plan, work);
  std::shared_ptr<DeviceBuffer> arena;
  if (arena_bytes > 0) arena = plan.device->allocate(arena_bytes);
  if (!work.arguments.empty())
    plan.device->copy_from_host(*arena, work.arguments.data(), work.arguments.size() * sizeof(uint64_t));
  auto* base = arena ? static_cast<std::byte*>(arena->address()) : nullptr;
  RunStats& stats = run_stats();
  for (const Launch& step : plan.launches) {
    launch(plan, step, base, work);
    ++stats.launches;
    stats.bytes_read += step.bytes_read;
    stats.bytes_written += step.bytes_written;
  }
  if (!plan.checks.empty()) report_checks(plan, *arena, work);
}

std::shared_ptr<const CachedPlan> make_plan(std::span<const NodeRef> roots, const GraphKey& key) {
  std::vector<NodeRef> distinct;
  for (const NodeRef& root : roots)
    if (root->op != NodeOp::Buffer && key.number(root.get()) == distinct.size()) distinct.push_back(root);
  CachedPlan made;
  made.arguments = changing_constants(key);
  made.floats = key.floats;
  made.plan = build_plan(distinct, key, made.arguments, *key.device);
  return keep_plan(key, std::move(made));
}

}  // namespace

RunStats& run_stats() {
  thread_local RunStats stats{};
  return stats;
}

std::vector<NodeRef> realize(std::span<const NodeRef> roots, std::span<const Storage* const> donatable) {
  bool ready = true;
  for (const NodeRef& root : roots) {
    if (!root) throw ValueError("cannot realize an empty node");
    ready &= root->op == NodeOp::Buffer;
  }
  if (ready) return {roots.begin(), roots.end()};

  Workspace& work = workspace;
  ForgetOutputs forget;
  GraphKey& key = work.key;
  key.read(roots, donatable);
  if (!key.device) key.device = &default_device();
  std::shared_ptr<const CachedPlan> plan = find_plan(key);
  if (plan) {
    ++run_stats().plan_hits;
  } else {
    ++run_stats().plan_misses;
    plan = make_plan(roots, key);
  }
  run(*plan, work);

  std::vector<NodeRef> results;
  results.reserve(roots.size());
  for (const NodeRef& root : roots) {
    if (root->op == NodeOp::Buffer) {
      results.push_back(root);
      continue;
    }
    size_t output = key.number(root.get());
    results.push_back(make_buffer(work.outputs[output], root->dtype, root->shape));
  }
  return results;
}

}  // namespace heddle
