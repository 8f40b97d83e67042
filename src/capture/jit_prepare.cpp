// The tables by which a recorded function is replayed, and the report of what it does.
#include <algorithm>
#include <ostream>
#include <sstream>

#include "base/error.h"
#include "capture/jit_core.h"
#include "runtime/split_devices.h"

namespace heddle {
namespace {

using Kind = CapturedGraph::Root::Kind;
using Use = JitOutput::Use;

void find_takers(JitEntry& entry) {
  const Plan& plan = entry.graph.cached->plan;
  entry.outputs.resize(plan.outputs.size());
  for (size_t r = 0; r < entry.graph.roots.size(); ++r) {
    const CapturedGraph::Root& root = entry.graph.roots[r];
    if (root.kind != Kind::Output) continue;
    JitOutput& output = entry.outputs[static_cast<size_t>(root.index)];
    output.root = r;
    output.bytes = output_bytes(plan, static_cast<size_t>(root.index), entry.graph.symbols);
    if (output.use != Use::Nothing) {
      output.use = Use::Shared;
    } else {
      output.use = r < entry.results ? Use::Result : Use::Update;
      output.index = r < entry.results ? r : r - entry.results;
    }
  }
}

// Which Inputs a call has to look at.
std::vector<bool> find_needed(const JitEntry& entry) {
  std::vector<bool> needed(entry.inputs.size(), false);
  for (const CapturedGraph::Leaf& leaf : entry.graph.leaves)
    if (leaf.input >= 0) needed[static_cast<size_t>(leaf.input)] = true;
  for (const CapturedGraph::Root& root : entry.graph.roots)
    if (root.kind == Kind::Input) needed[static_cast<size_t>(root.index)] = true;
  return needed;
}

// Empty if the update may work in place; else why not.
std::string why_copied(const JitEntry& entry, const JitUpdate& update, const std::vector<bool>& needed) {
  const CapturedGraph::Root& root = entry.graph.roots[update.root];
  const Plan& plan = entry.graph.cached->plan;
  if (root.kind != Kind::Output) return "";  // nothing is written
  if (entry.outputs[static_cast<size_t>(root.index)].use != Use::Update) return "the new value is a result, too";
  const PlanOutput& output = plan.outputs[static_cast<size_t>(root.index)];
  if (plan.device_of(output).number() != entry.inputs[update.input].device) return "the new value is on another device";
  if (output.donated_leaf >= 0 &&
      entry.graph.leaves[static_cast<size_t>(output.donated_leaf)].input == static_cast<int64_t>(update.input))
    return "";
  if (!needed[update.input])  // the old value does not matter
    return plan.last_check < 0 ? "" : "indices are still to be checked when it is written";
  for (const CapturedGraph::Root& other : entry.graph.roots)
    if (other.kind == Kind::Input && other.index == static_cast<int64_t>(update.input))
      return "the old value is a result, too";
  return *output.not_donated ? output.not_donated : "the old value is still needed";
}

void decide_updates(JitEntry& entry, const std::vector<bool>& needed) {
  JitPlan& report = entry.report;
  for (JitUpdate& update : entry.updates) {
    const Bound& bound = entry.inputs[update.input];
    entry.updates_arguments = entry.updates_arguments || bound.kind == Bound::Kind::Argument;
    const CapturedGraph::Root& root = entry.graph.roots[update.root];
    std::string reason = why_copied(entry, update, needed);
    update.in_place = reason.empty() && root.kind == Kind::Output;
    if (reason.empty()) {
      ++report.donated;
      continue;
    }
    ++report.copied;
    std::string tensor = text(root.dtype, root.shape);
    report.copies.push_back(text(bound.kind == Bound::Kind::Argument
                                     ? text("argument tensor ", bound.index, ", ", tensor)
                                     : text("a tensor ", tensor, " that the function holds"),
                                 ": ", reason));
  }
}

// Whether the output is written where the old value of a tensor is.
bool is_in_place(const JitEntry& entry, size_t output) {
  const JitOutput& of = entry.outputs[output];
  return of.use == Use::Update && entry.updates[of.index].in_place;
}

// One buffer on each device that random numbers are drawn on.
void allocate_keys(JitEntry& entry) {
  auto device = [&](size_t draw) { return entry.inputs[draw].device; };
  std::stable_sort(entry.draws.begin(), entry.draws.end(), [&](size_t a, size_t b) { return device(a) < device(b); });
  entry.key_words.resize(entry.draws.size());
  for (size_t k = 0; k < entry.draws.size(); ++k)
    if (k == 0 || device(entry.draws[k]) != device(entry.draws[k - 1]))
      entry.keys.push_back({&backend_of(device(entry.draws[k])), k, k + 1, nullptr});
    else
      entry.keys.back().end = k + 1;
  for (JitKeys& keys : entry.keys)
    keys.memory = keys.device->allocate((keys.end - keys.begin) * sizeof(entry.key_words[0]));
}

BufferPart key_memory(const JitEntry& entry, size_t k) {
  constexpr size_t kBytes = sizeof(entry.key_words[0]);
  auto keys = std::find_if(entry.keys.begin(), entry.keys.end(), [&](const JitKeys& each) { return k < each.end; });
  return {keys->memory.get(), (k - keys->begin) * kBytes, kBytes};
}

}  // namespace

void prepare_replay(JitEntry& entry) {
  const Plan& plan = entry.graph.cached->plan;
  find_takers(entry);
  std::vector<bool> needed = find_needed(entry);
  decide_updates(entry, needed);
  for (const JitUpdate& update : entry.updates) needed[update.input] = false;
  for (size_t i = 0; i < entry.inputs.size(); ++i) {
    if (entry.inputs[i].kind == Bound::Kind::Gradient) entry.gradients.push_back(i);
    if (!needed[i]) continue;
    (entry.inputs[i].kind == Bound::Kind::Draw ? entry.draws : entry.reads).push_back(i);
  }
  entry.held.resize(entry.inputs.size());
  entry.versions.resize(entry.inputs.size());
  entry.now.assign(entry.inputs.size(), nullptr);
  entry.rings.resize(entry.results);
  for (JitRing& ring : entry.rings) ring.tensors.reserve(JitRing::kMost);
  entry.deliver.assign(entry.results, nullptr);

  RunMemory& memory = entry.memory;
  memory.repeated = true;
  memory.outputs.assign(plan.outputs.size(), nullptr);
  memory.leaves.assign(entry.graph.leaves.size(), {});
  allocate_keys(entry);
  for (size_t l = 0; l < entry.graph.leaves.size(); ++l) {
    const CapturedGraph::Leaf& leaf = entry.graph.leaves[l];
    if (leaf.input < 0) bind_leaf(plan, l, *leaf.data, memory);
    auto draw = std::find(entry.draws.begin(), entry.draws.end(), static_cast<size_t>(leaf.input));
    if (leaf.input < 0 || draw == entry.draws.end()) continue;
    auto k = static_cast<size_t>(draw - entry.draws.begin());
    memory.leaves[l] = key_memory(entry, k);
  }

  JitPlan& report = entry.report;
  const std::vector<const Launch*> launches = all_launches(plan);
  report.launches = launches.size();
  report.arena_bytes = plan.arena_bytes;
  report.arena_lower_bound = plan.arena_lower_bound;
  for (const Launch* launch : launches) {
    report.bytes_read += launch->bytes_read;
    report.bytes_written += launch->bytes_written;
  }
  for (size_t o = 0; o < plan.outputs.size(); ++o) {
    if (plan.outputs[o].updated_leaf < 0 || is_in_place(entry, o)) continue;
    report.bytes_read += entry.outputs[o].bytes;
    report.bytes_written += entry.outputs[o].bytes;
  }
}

std::unique_ptr<JitEntry> copy_for_lane(const JitEntry& entry) {
  auto copy = std::make_unique<JitEntry>();
  copy->signature = entry.signature;
  copy->capture = entry.capture;
  copy->generation = entry.generation;
  copy->graph = entry.graph;
  copy->results = entry.results;
  copy->inputs = std::vector<Bound>(entry.inputs);
  copy->result_words = entry.result_words;
  copy->prototype = entry.prototype;
  copy->report.signature = entry.report.signature;
  prepare_replay(*copy);
  return copy;
}

std::string to_string(const JitPlan& plan) {
  std::ostringstream out;
  out << "(" << plan.signature << "): " << plan.launches << " launches, " << plan.bytes_read << " bytes read, "
      << plan.bytes_written << " written, arena " << plan.arena_bytes << " bytes (at least " << plan.arena_lower_bound
      << " are in use at one time); " << plan.donated << " tensors updated in place, " << plan.copied << " copied; "
      << plan.calls << " calls, " << plan.recordings << " recordings; capture " << plan.capture_seconds * 1e3
      << " ms, compile " << plan.compile_seconds * 1e3 << " ms";
  for (const std::string& copy : plan.copies) out << "\n  copied: " << copy;
  if (plan.kept_bytes > 0) out << "\n  " << plan.kept_bytes << " bytes of weights stay packed from call to call";
  if (plan.copied_because_held > 0)
    out << "\n  " << plan.copied_because_held << " updates made a copy because somebody else held the old value";
  return out.str();
}

std::ostream& operator<<(std::ostream& out, const JitPlan& plan) { return out << to_string(plan); }

}  // namespace heddle
