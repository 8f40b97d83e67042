#include <algorithm>
#include <atomic>
#include <memory>

#include "base/error.h"
#include "base/fork.h"
#include "graph/control.h"
#include "runtime/execute.h"
#include "runtime/profiler.h"

namespace heddle {
namespace {

// Memory that a thread keeps from one call to the next, so that a call with a known plan allocates nothing but its
// results.
struct Workspace {
  GraphKey key;
  std::vector<std::shared_ptr<Storage>> outputs;
  RunMemory memory;
  std::vector<bool> held;
  std::vector<uint32_t> users, pending;
};
// On the heap: a module of Python's has little room for what belongs to a thread.
Workspace& workspace() {
  thread_local const std::unique_ptr<Workspace> mine = std::make_unique<Workspace>();
  return *mine;
}

// Leaves nothing of a call behind, not even by an exception: results must not live longer than their handles.
struct ForgetOutputs {
  ~ForgetOutputs() {
    workspace().outputs.clear();
    workspace().key.shrink();
  }
};

// Marks the nodes that somebody outside of the graph can still see, directly or through a node that uses them. Every
// node is looked at after all that use it: whoever has a node that uses it may be going from that one to this one.
void find_held(const GraphKey& key, Workspace& work) {
  work.held.assign(key.nodes.size(), false);
  work.users.assign(key.nodes.size(), 0);
  work.pending.clear();
  for (const Node* node : key.nodes)
    for (const NodeRef& input : node->inputs) ++work.users[key.number(input.get())];
  for (uint32_t i = 0; i < key.nodes.size(); ++i)
    if (work.users[i] == 0) work.pending.push_back(i);
  while (!work.pending.empty()) {
    const uint32_t i = work.pending.back();
    work.pending.pop_back();
    if (key.nodes[i]->refs.load(std::memory_order_acquire) != key.references[i]) work.held[i] = true;
    for (const NodeRef& input : key.nodes[i]->inputs) {
      const uint32_t number = key.number(input.get());
      if (work.held[i]) work.held[number] = true;
      if (--work.users[number] == 0) work.pending.push_back(number);
    }
  }
}

// Whether nobody else can see the memory of a leaf. Somebody may have been on the way from the memory to the node.
bool is_ours(const GraphKey& key, const Workspace& work, const Node& leaf) {
  const uint32_t number = key.number(&leaf);
  return !work.held[number] && leaf.storage.use_count() == 1 && !device_buffer(leaf).is_shared() &&
         leaf.refs.load(std::memory_order_acquire) == key.references[number];
}

void provide_outputs(const Plan& plan, Workspace& work) {
  const GraphKey& key = work.key;
  bool searched = false;
  work.outputs.clear();
  work.memory.outputs.clear();
  for (size_t o = 0; o < plan.outputs.size(); ++o) {
    const PlanOutput& output = plan.outputs[o];
    std::shared_ptr<Storage> storage;
    if (output.leaf >= 0) {
      storage = key.leaves[static_cast<size_t>(output.leaf)]->storage;
    } else if (output.same_as >= 0) {
      storage = work.outputs[static_cast<size_t>(output.same_as)];
    } else if (output.donated_leaf >= 0) {
      if (!searched) find_held(key, work);
      searched = true;
      const Node* leaf = key.leaves[static_cast<size_t>(output.donated_leaf)];
      if (is_ours(key, work, *leaf)) storage = leaf->storage;
    }
    if (!storage) {
      const uint64_t bytes = output_bytes(plan, o, work.memory.symbols);
      std::shared_ptr<DeviceBuffer> fresh = plan.device_of(output).allocate(bytes);
      if (output.argument >= 0)
        plan.device->copy_from_host(*fresh, &work.memory.arguments[8 * static_cast<size_t>(output.argument)], bytes);
      storage = std::move(fresh);
    }
    work.memory.outputs.push_back(static_cast<DeviceBuffer*>(storage.get()));
    work.outputs.push_back(std::move(storage));
  }
}

void run(const CachedPlan& cached, Workspace& work) {
  const GraphKey& key = work.key;
  begin_run(cached, key.numbers, key.symbol_values, work.memory);
  work.memory.leaves.resize(key.leaves.size());
  for (size_t l = 0; l < key.leaves.size(); ++l) bind_leaf(cached.plan, l, *key.leaves[l], work.memory);
  provide_outputs(cached.plan, work);
  std::shared_ptr<DeviceBuffer> arena;
  execute(cached.plan, work.memory, arena);
}

// Programs that were looked at for steps that repeat, and had none, by the hashes of their keys. An entry that is
// overwritten, or another program's, costs no more than time.
class WithoutSteps {
 public:
  bool contains(uint64_t hash) const { return entry(hash).load(std::memory_order_relaxed) == hash; }
  void add(uint64_t hash) { entry(hash).store(hash, std::memory_order_relaxed); }

 private:
  static std::atomic<uint64_t>& entry(uint64_t hash) {
    static std::atomic<uint64_t> entries[1024];
    return entries[hash % std::size(entries)];
  }
};

// What a plain loop recorded many times runs as a loop, even if nobody captured it. Empty: there is none. Nothing else
// may hold the roots meanwhile: memory that nobody else holds is taken over.
std::vector<NodeRef> with_loops(std::span<const NodeRef> roots, GraphKey& key,
                                std::span<const Storage* const> donatable) {
  constexpr size_t kManyNodes = 512;
  WithoutSteps known;
  if (key.nodes.size() < kManyNodes || known.contains(key.hash)) return {};
  std::vector<NodeRef> rolled = roll(roots);
  if (std::ranges::equal(rolled, roots)) {
    known.add(key.hash);
    return {};
  }
  key.read(rolled, donatable);
  return rolled;
}

}  // namespace

std::vector<NodeRef> realize(std::span<const NodeRef> given, std::span<const Storage* const> donatable) {
  bool ready = true;
  for (const NodeRef& root : given) {
    if (!root) throw ValueError("cannot realize an empty node");
    ready &= root->op == NodeOp::Buffer;
  }
  if (ready) return {given.begin(), given.end()};
  NoFork whole;

  ProfileScope scope(SliceKind::Call, [] { return "realize"; });
  Workspace& work = workspace();
  ForgetOutputs forget;
  GraphKey& key = work.key;
  key.read(given, donatable);
  const std::vector<NodeRef> rolled = with_loops(given, key, donatable);
  const std::span<const NodeRef> roots = rolled.empty() ? given : std::span<const NodeRef>(rolled);
  std::shared_ptr<const CachedPlan> plan = plan_for(roots, key);
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
