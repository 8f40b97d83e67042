// Captured functions: signatures, recording, and when to record again.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>

#include "base/config.h"
#include "base/error.h"
#include "base/fork.h"
#include "capture/change.h"
#include "capture/jit_core.h"
#include "graph/control.h"
#include "runtime/profiler.h"
#include "tensor/together.h"
#include "tensor/track.h"

namespace heddle {
namespace {

// How often recordings were forgotten, and how many changes that will make them so are on their way.
std::atomic<uint64_t> generation{0};
std::atomic<int> changing{0};

constexpr size_t kMostPlans = 64;
// Stands for a symbolic size: no number of elements comes near.
constexpr uint64_t kSymbolicSize = ~uint64_t{0};
// In a signature: an argument is the same tensor as the one whose number follows.
constexpr uint64_t kSamePlace = uint64_t{1} << 63;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Which arguments are the same tensor. Few arguments are the rule; modules and optimisers have hundreds.
void find_places(JitLane& lane) {
  const std::vector<Tensor*>& tensors = lane.arguments.tensors;
  lane.first_places.resize(tensors.size());
  if (tensors.size() <= 8) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      lane.first_places[i] = i;
      for (size_t k = 0; k < i; ++k)
        if (&tensors[k]->slot() == &tensors[i]->slot()) {
          lane.first_places[i] = k;
          break;
        }
    }
    return;
  }
  lane.sorted.clear();
  for (size_t i = 0; i < tensors.size(); ++i) lane.sorted.emplace_back(&tensors[i]->slot(), i);
  std::sort(lane.sorted.begin(), lane.sorted.end());
  for (size_t i = 0, first = 0; i < lane.sorted.size(); ++i) {
    if (lane.sorted[i].first != lane.sorted[first].first) first = i;
    lane.first_places[lane.sorted[i].second] = lane.sorted[first].second;
  }
}

// The arguments' values, all of them computed.
void fetch_arguments(JitLane& lane) {
  find_places(lane);
  const std::vector<Tensor*>& tensors = lane.arguments.tensors;
  lane.given.nodes.resize(tensors.size());
  lane.given.versions.resize(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i)
    if (lane.first_places[i] == i) lane.given.nodes[i] = realized(*tensors[i], lane.given.versions[i]);
}

void make_signature(JitLane& lane) {
  std::vector<uint64_t>& words = lane.signature;
  words.assign(lane.arguments.words.begin(), lane.arguments.words.end());
  words.insert(words.end(), lane.arguments.identities.begin(), lane.arguments.identities.end());
  lane.symbolic = false;
  for (size_t i = 0; i < lane.given.nodes.size(); ++i) {
    const NodeRef& node = lane.given.nodes[i];
    if (!node) {
      words.push_back(kSamePlace | lane.first_places[i]);
      continue;
    }
    const TensorSlot& slot = lane.arguments.tensors[i]->slot();
    words.push_back(slot.tracked ? 1 : has_history(slot, node) ? 2 : 0);
    words.push_back(static_cast<uint64_t>(node->dtype) | static_cast<uint64_t>(node->shape.size()) << 8);
    for (const Expr& size : node->shape) {
      lane.symbolic = lane.symbolic || !size.is_const();
      words.push_back(size.is_const() ? static_cast<uint64_t>(size.value()) : kSymbolicSize);
    }
    words.push_back(node->device);
  }
  words.push_back(home_device());
}

JitEntry* find_entry(JitLane& lane) {
  auto fits = [&](const JitEntry& entry) {
    return entry.signature == lane.signature && same_gradients(entry, lane.arguments.tensors);
  };
  if (lane.last && fits(*lane.last)) return lane.last;
  for (const auto& entry : lane.entries)
    if (fits(*entry)) return entry.get();
  return nullptr;
}

// Makes room for another plan. Shapes may come and go; for numbers there is a better way.
void limit_plans(JitLane& lane) {
  if (lane.entries.size() < kMostPlans) return;
  size_t numbers = lane.arguments.words.size();
  bool same_tensors = true;
  for (const auto& entry : lane.entries)
    same_tensors = same_tensors && entry->signature.size() == lane.signature.size() &&
                   std::equal(lane.signature.begin() + static_cast<std::ptrdiff_t>(numbers), lane.signature.end(),
                              entry->signature.begin() + static_cast<std::ptrdiff_t>(numbers));
  if (same_tensors)
    throw CaptureError(text("the function that jit() captures at ", lane.core.where, " has been recorded for ",
                            kMostPlans, " different values of the numbers among its arguments: pass a number that ",
                            "keeps changing as a Tensor"));
  auto oldest = std::min_element(lane.entries.begin(), lane.entries.end(),
                                 [](const auto& a, const auto& b) { return a->last_use < b->last_use; });
  if (lane.last == oldest->get()) lane.last = nullptr;
  lane.entries.erase(oldest);
  lane.core.drop_copies();
}

void forget_entry(JitLane& lane) {
  lane.entries.erase(std::find_if(lane.entries.begin(), lane.entries.end(),
                                  [&](const auto& entry) { return entry.get() == lane.entry; }));
  lane.entry = lane.last = nullptr;
  lane.core.drop_copies();
}

std::string signature_text(const JitLane& lane) {
  std::string result;
  for (size_t place : lane.first_places) {
    const NodeRef& node = lane.given.nodes[place];
    result += text(result.empty() ? "" : ", ", node->dtype, node->shape);
  }
  return result;
}

std::unique_ptr<JitEntry> entry_of(JitLane& lane, Capture& capture, std::vector<NodeRef> results) {
  auto entry = std::make_unique<JitEntry>();
  entry->generation = lane.generation;
  entry->signature = lane.signature;
  entry->capture = capture.id;
  entry->results = results.size();
  entry->result_words = lane.result.words;
  lane.roots = std::move(results);
  for (size_t i = 0; i < capture.inputs.size(); ++i) {
    if (capture.values[i] == capture.initial[i]) continue;
    JitUpdate update;
    update.input = i;
    update.root = lane.roots.size();
    entry->updates.push_back(std::move(update));
    lane.roots.push_back(capture.values[i]);
  }
  lane.roots = roll(lane.roots);
  // Memory may be taken over by a value that has no other taker, if nobody gets the old value.
  std::vector<StateUpdate> updates;
  for (const JitUpdate& update : entry->updates) {
    const NodeRef &input = capture.input_nodes[update.input], &value = lane.roots[update.root];
    if (std::count(lane.roots.begin(), lane.roots.end(), value) == 1 &&
        std::count(lane.roots.begin(), lane.roots.end(), input) == 0)
      updates.push_back({input.get(), value.get()});
  }
  for (const Bound& bound : capture.inputs) {
    if (bound.kind != Bound::Kind::Draw) continue;
    auto known = std::find_if(entry->generators.begin(), entry->generators.end(),
                              [&](const JitGenerator& use) { return use.generator == bound.generator; });
    if (known == entry->generators.end()) known = entry->generators.insert(known, {bound.generator, 0, {}});
    known->draws += bound.draws;
  }
  entry->graph = read_captured(lane.roots, updates, lane.key);
  entry->symbolic = lane.symbolic || !entry->graph.symbols.empty();
  entry->inputs = std::move(capture.inputs);
  entry->gradient_flags = std::move(capture.gradient_flags);
  return entry;
}

bool same_inputs(const JitEntry& before, size_t a, const JitEntry& now, size_t b) {
  return same_bound(before.inputs[a], now.inputs[b]);
}

std::string difference(const JitEntry& before, const JitEntry& now) {
  static const char* const kOther =
      "it reads or changes another tensor: tensors are known by their slots, so give one a new value with assign()";
  std::string graphs = difference(before.graph, now.graph);
  if (!graphs.empty()) return graphs;
  if (before.updates.size() != now.updates.size()) return "it changes another number of tensors";
  for (size_t i = 0; i < before.graph.leaves.size(); ++i) {
    int64_t a = before.graph.leaves[i].input, b = now.graph.leaves[i].input;
    if (a >= 0 && !same_inputs(before, static_cast<size_t>(a), now, static_cast<size_t>(b))) return kOther;
  }
  for (size_t i = 0; i < before.updates.size(); ++i)
    if (!same_inputs(before, before.updates[i].input, now, now.updates[i].input)) return kOther;
  for (size_t i = 0; i < before.graph.roots.size(); ++i) {
    const CapturedGraph::Root &a = before.graph.roots[i], &b = now.graph.roots[i];
    if (b.recorded_kind == CapturedGraph::Root::Kind::Input &&
        !same_inputs(before, static_cast<size_t>(a.recorded_index), now, static_cast<size_t>(b.recorded_index)))
      return kOther;
  }
  bool same_draws = before.generators.size() == now.generators.size();
  for (size_t i = 0; same_draws && i < before.generators.size(); ++i)
    same_draws = before.generators[i].generator == now.generators[i].generator &&
                 before.generators[i].draws == now.generators[i].draws;
  if (!same_draws) return "it draws other random numbers";
  bool same_flags = before.gradient_flags.size() == now.gradient_flags.size();
  for (size_t i = 0; same_flags && i < before.gradient_flags.size(); ++i) {
    const GradientFlag &a = before.gradient_flags[i], &b = now.gradient_flags[i];
    same_flags = a.tensor.has_value() == b.tensor.has_value() && a.argument == b.argument && a.before == b.before &&
                 a.after == b.after && (!a.tensor || &(*a.tensor)->slot() == &(*b.tensor)->slot());
  }
  if (!same_flags) return "it adds up or clears other gradients";
  if (before.result_words != now.result_words) return "numbers or the structure of its result changed";
  return "";
}

// Whether the new recording reads a tensor that the earlier one made and kept (a table that is made at first use).
bool reads_what_it_made(const JitEntry& before, const JitEntry& now) {
  return std::any_of(now.inputs.begin(), now.inputs.end(), [&](const Bound& bound) {
    return bound.kind == Bound::Kind::Slot && (*bound.tensor)->slot().born == before.capture;
  });
}

// Plans what was recorded and makes it the entry for its signature.
void install(JitLane& lane) {
  double begin = seconds_now();
  std::unique_ptr<JitEntry> fresh = std::move(lane.recorded);
  CompiledPlace& compiled = lane.core.compiled;
  if (compiled.name.empty()) compiled.name = "the function that jit() captures at " + lane.core.where;
  plan_captured(fresh->graph, lane.roots, lane.key, compiled);
  prepare_replay(*fresh);
  fresh->report.signature = signature_text(lane);
  fresh->report.capture_seconds = lane.capture_seconds;
  fresh->report.compile_seconds = seconds_now() - begin;
  fresh->report.recordings = 1;
  if (JitEntry* old = lane.entry) {
    fresh->report.calls = old->report.calls;
    fresh->report.recordings += old->report.recordings;
    fresh->report.capture_seconds += old->report.capture_seconds;
    fresh->report.compile_seconds += old->report.compile_seconds;
    auto where = std::find_if(lane.entries.begin(), lane.entries.end(), [&](const auto& e) { return e.get() == old; });
    *where = std::move(fresh);
    lane.entry = where->get();
    lane.core.drop_copies();
  } else {
    limit_plans(lane);
    lane.entries.push_back(std::move(fresh));
    lane.entry = lane.entries.back().get();
  }
  lane.last = nullptr;
}

// Whether another thread has added up or cleared a gradient since the entry was found: the recording is not one of it.
bool met_other_gradients(const JitEntry& entry, const JitEntry& recorded) {
  return std::any_of(recorded.gradient_flags.begin(), recorded.gradient_flags.end(), [&](const GradientFlag& now) {
    return std::any_of(entry.gradient_flags.begin(), entry.gradient_flags.end(), [&](const GradientFlag& then) {
      const bool same = now.tensor && then.tensor ? &(*now.tensor)->slot() == &(*then.tensor)->slot()
                                                  : !now.tensor && !then.tensor && now.argument == then.argument;
      return same && now.before && then.before && *now.before != *then.before;
    });
  });
}

// The function does the same now that its tensors have another part in gradients. False: it met them in another order.
bool note_gradients(JitEntry& entry, const JitEntry& now) {
  if (!std::equal(entry.inputs.begin(), entry.inputs.end(), now.inputs.begin(), now.inputs.end(), same_bound))
    return false;
  for (size_t i = 0; i < now.inputs.size(); ++i) {
    entry.inputs[i].tracked = now.inputs[i].tracked;
    entry.inputs[i].history = now.inputs[i].history;
    entry.inputs[i].asked = now.inputs[i].asked;
    entry.inputs[i].without_history.reset();
  }
  return true;
}

// The recording, which is the second one or a later one, is kept if it must be, and compared with the first one.
void compare(JitLane& lane, bool may_differ) {
  if (met_other_gradients(*lane.entry, *lane.recorded)) {
    lane.entry = nullptr;
    return install(lane);
  }
  if (lane.entry->symbolic || reads_what_it_made(*lane.entry, *lane.recorded)) return install(lane);
  std::string what = difference(*lane.entry, *lane.recorded);
  if (!what.empty() && lane.out_of_date) forget_entry(lane);
  if (!what.empty() && may_differ) return install(lane);
  if (what.empty() && lane.out_of_date && !note_gradients(*lane.entry, *lane.recorded)) return install(lane);
  std::unique_ptr<JitEntry> now = std::move(lane.recorded);
  if (!what.empty())
    throw CaptureError(text(
        "the function that jit() captures at ", lane.core.where, " is not the same at each call: ", what,
        ". jit() freezes what the function records; pass what changes as an argument, or ", "keep it in a Tensor"));
  lane.entry->generation = lane.generation;
  ++lane.entry->report.recordings;
  lane.entry->report.capture_seconds += lane.capture_seconds;
}

}  // namespace

bool is_capturing() { return current_capture != nullptr; }

namespace {

// Captured functions inside one another, on this thread, that run as plain functions.
constinit thread_local int nested = 0;
constexpr int kMostNested = 256;

// In place, and unnoticed by captured functions: the variable belongs to a copy of the arguments.
void put(Tensor& variable, const Tensor& tensor) {
  std::destroy_at(&variable);
  std::construct_at(&variable, tensor);
}

}  // namespace

JitNesting::JitNesting(const JitCore& core) {
  if (nested == kMostNested)
    throw CaptureError(text("the function that jit() captures at ", core.where, " calls itself without end (",
                            kMostNested, " captured functions inside one another)"));
  ++nested;
}
JitNesting::~JitNesting() { --nested; }

JitCall::JitCall(JitCore& core) : core_(core) {
  core.refuse_inside("a call");
  lane_ = &core.free_lane();
  lane_->take();
  if (lane_ != &core.main()) own_ = lane_;
  lane_->generation = generation.load(std::memory_order_acquire);  // what changes from now on, it may see the half of
}
JitCall::~JitCall() {
  NoFork whole;
  for (NodeRef& node : lane_->given.nodes) node = NodeRef();
  lane_->roots.clear();
  lane_->recorded.reset();
  lane_->arguments.clear();
  lane_->result.clear();
  lane_->entry = nullptr;
  lane_->release();
  if (own_ && own_ != lane_) own_->release();
}
Parts& JitCall::arguments() { return lane_->arguments; }
Parts& JitCall::result() { return lane_->result; }

bool JitCall::is_transformed() const {
  return std::any_of(lane_->arguments.tensors.begin(), lane_->arguments.tensors.end(),
                     [](const Tensor* tensor) { return heddle::is_transformed(tensor->slot().get()); });
}

uint64_t new_identity() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

void forget_recordings() { generation.fetch_add(1, std::memory_order_release); }

ChangeForRecordings::ChangeForRecordings() { changing.fetch_add(1); }
ChangeForRecordings::~ChangeForRecordings() {
  forget_recordings();
  changing.fetch_sub(1);
}

namespace {

bool is_current(const JitLane& lane, JitEntry& entry) {
  return entry.generation == generation.load(std::memory_order_relaxed) &&
         !is_out_of_date(entry, lane.arguments.tensors);
}

bool may_run_beside_others(const JitEntry& entry) {
  return entry.updates.empty() && entry.generators.empty() && entry.gradient_flags.empty() && !entry.symbolic;
}

// The copy of a recording that this call can run at once, if there is one.
JitEntry* find_copy(JitLane& lane) {
  uint64_t changes = lane.core.changes.load(std::memory_order_relaxed);
  if (lane.changes != changes) {
    NoFork whole;
    lane.entries.clear();
    lane.last = nullptr;
    lane.changes = changes;
  }
  JitEntry* entry = find_entry(lane);
  return entry && lane.arguments.complete && !config().check_jit && is_current(lane, *entry) ? entry : nullptr;
}

void keep_copy(JitLane& lane, const JitEntry& original) {
  NoFork whole;
  auto old = std::find_if(lane.entries.begin(), lane.entries.end(),
                          [&](const auto& entry) { return entry->signature == original.signature; });
  if (old != lane.entries.end())
    lane.entries.erase(old);
  else if (lane.entries.size() >= kMostPlans)
    lane.entries.clear();
  lane.entries.push_back(copy_for_lane(original));
  lane.last = lane.entries.back().get();
}

}  // namespace

bool JitCall::must_record() {
  fetch_arguments(*lane_);
  make_signature(*lane_);
  if (lane_ == own_) {
    if ((lane_->entry = find_copy(*lane_))) return false;
    core_.main().take();
    move_to(core_.main());
  }
  JitLane& lane = *lane_;
  lane.entry = find_entry(lane);
  if (!lane.entry) return true;
  lane.out_of_date = !is_current(lane, *lane.entry);
  if (lane.out_of_date || lane.entry->report.recordings < 2 || lane.entry->symbolic || !lane.arguments.complete ||
      config().check_jit)
    return true;
  if (own_ && may_run_beside_others(*lane.entry)) {
    keep_copy(*own_, *lane.entry);
    move_to(*own_);
    lane.release();
    lane_->entry = lane_->last;
  }
  return false;
}

void JitCall::move_to(JitLane& lane) {
  std::swap(static_cast<JitScratch&>(lane), static_cast<JitScratch&>(*lane_));
  lane_ = &lane;
}

JitCall::Recording::Recording(JitCall& call, std::function<void(Parts&)> inside)
    : call_(call), inside_(std::move(inside)) {
  JitLane& lane = *call.lane_;
  lane.started = seconds_now();
  lane.capture = std::make_unique<Capture>(lane.core.where);
  lane.capture->stand_ins.reserve(lane.arguments.tensors.size());
  lane.inside.clear();
  inside_(lane.inside);
  for (Tensor* tensor : lane.inside.tensors) put(*tensor, lane.capture->stand_in(*tensor));
  current_capture = lane.capture.get();
}

// Copies of modules may share parts with the originals: no stand-in may stay. Returns where the tensors are now.
std::vector<Tensor*> JitCall::Recording::put_back() {
  JitLane& lane = *call_.lane_;
  current_capture = nullptr;
  lane.inside.clear();
  inside_(lane.inside);
  std::vector<Tensor*> now = lane.inside.tensors;
  for (Tensor* tensor : now)
    for (size_t i = 0; i < lane.capture->stand_ins.size(); ++i)
      if (&tensor->slot() == &lane.capture->stand_ins[i].slot()) {
        put(*tensor, *lane.arguments.tensors[i]);
        break;
      }
  return now;
}

JitCall::Recording::~Recording() {
  if (!call_.lane_->capture) return;
  put_back();
  call_.lane_->capture.reset();
}

void JitCall::Recording::finish() {
  JitLane& lane = *call_.lane_;
  std::vector<NodeRef> results;
  for (Tensor* tensor : lane.result.tensors) results.push_back(lane.capture->value(*tensor));
  current_capture = nullptr;
  Tensor nothing;
  for (Tensor* tensor : lane.result.tensors) put(*tensor, nothing);
  lane.inside.clear();
  inside_(lane.inside);
  bool kept = lane.inside.tensors.size() == lane.capture->stand_ins.size();
  for (size_t i = 0; kept && i < lane.inside.tensors.size(); ++i)
    kept = &lane.inside.tensors[i]->slot() == &lane.capture->stand_ins[i].slot();
  put_back();
  std::unique_ptr<Capture> capture = std::move(lane.capture);
  if (!kept)
    throw CaptureError(text("the function that jit() captures at ", lane.core.where, " puts another tensor in the ",
                            "place of one of its arguments: use assign(), which changes the tensor itself"));
  capture->stand_ins.clear();
  capture->refuse_escaped();
  lane.recorded = entry_of(lane, *capture, std::move(results));
  lane.result.clear();
  lane.capture_seconds = seconds_now() - lane.started;
  if (!profiling()) return;
  const int64_t end = profile_clock();
  record_slice({SliceKind::Call, "record " + lane.core.where, end - std::llround(lane.capture_seconds * 1e9), end});
}

void JitCall::set_prototype(std::shared_ptr<const void> prototype) {
  lane_->recorded->prototype = std::move(prototype);
}
const void* JitCall::prototype() const { return lane_->entry->prototype.get(); }

bool JitCall::run() {
  NoFork whole;
  JitLane& lane = *lane_;
  ProfileScope scope(SliceKind::Call, [&] { return "jit " + core_.where; });
  if (lane.recorded) {
    if (!lane.entry)
      install(lane);
    else
      compare(lane, lane.out_of_date || !lane.arguments.complete || changing.load() > 0 ||
                        lane.generation != generation.load());
    // The recording's own handles are gone.
    for (Bound& bound : lane.entry->inputs)
      if (bound.tensor) bound.tensor->count_handles();
    lane.roots.clear();
  }
  lane.last = lane.entry;
  lane.entry->last_use = ++lane.clock;
  scope.set_detail([&] { return lane.entry->report.signature; });
  if (!replay(*lane.entry, lane.arguments.tensors, lane.given, lane.arena)) return false;
  ++lane.entry->report.calls;
  return true;
}

void JitCall::deliver() {
  JitEntry& entry = *lane_->entry;
  for (size_t i = 0; i < lane_->result.tensors.size(); ++i) *lane_->result.tensors[i] = *entry.deliver[i];
  if (entry.passed.empty()) return;
  NoFork whole;
  entry.passed.clear();
}

}  // namespace heddle
