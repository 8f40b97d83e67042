// Captured functions: signatures, recording, and when to record again.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>

#include "base/config.h"
#include "base/error.h"
#include "base/fork.h"
#include "runtime/profiler.h"
#include "tensor/jit_core.h"
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

std::string place(const std::source_location& where) { return text(where.file_name(), ":", where.line()); }

// Which arguments are the same tensor. Few arguments are the rule; modules and optimisers have hundreds.
void find_places(JitCore& core) {
  const std::vector<Tensor*>& tensors = core.arguments.tensors;
  core.first_places.resize(tensors.size());
  if (tensors.size() <= 8) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      core.first_places[i] = i;
      for (size_t k = 0; k < i; ++k)
        if (&tensors[k]->slot() == &tensors[i]->slot()) {
          core.first_places[i] = k;
          break;
        }
    }
    return;
  }
  core.sorted.clear();
  for (size_t i = 0; i < tensors.size(); ++i) core.sorted.emplace_back(&tensors[i]->slot(), i);
  std::sort(core.sorted.begin(), core.sorted.end());
  for (size_t i = 0, first = 0; i < core.sorted.size(); ++i) {
    if (core.sorted[i].first != core.sorted[first].first) first = i;
    core.first_places[core.sorted[i].second] = core.sorted[first].second;
  }
}

// The arguments' values, all of them computed.
void fetch_arguments(JitCore& core) {
  find_places(core);
  const std::vector<Tensor*>& tensors = core.arguments.tensors;
  core.given.nodes.resize(tensors.size());
  core.given.versions.resize(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i)
    if (core.first_places[i] == i) core.given.nodes[i] = realized(*tensors[i], core.given.versions[i]);
}

void make_signature(JitCore& core) {
  std::vector<uint64_t>& words = core.signature;
  words.assign(core.arguments.words.begin(), core.arguments.words.end());
  words.insert(words.end(), core.arguments.identities.begin(), core.arguments.identities.end());
  core.symbolic = false;
  for (size_t i = 0; i < core.given.nodes.size(); ++i) {
    const NodeRef& node = core.given.nodes[i];
    if (!node) {
      words.push_back(kSamePlace | core.first_places[i]);
      continue;
    }
    const TensorSlot& slot = core.arguments.tensors[i]->slot();
    words.push_back(slot.tracked ? 1 : has_history(slot, node) ? 2 : 0);
    words.push_back(static_cast<uint64_t>(node->dtype) | static_cast<uint64_t>(node->shape.size()) << 8);
    for (const Expr& size : node->shape) {
      core.symbolic = core.symbolic || !size.is_const();
      words.push_back(size.is_const() ? static_cast<uint64_t>(size.value()) : kSymbolicSize);
    }
    words.push_back(reinterpret_cast<uint64_t>(&device_buffer(*node).device()));
  }
}

// Whether backward() inside would do what it did when this was recorded: begin a gradient, or add to one.
bool same_gradients(const JitEntry& entry, std::span<Tensor* const> arguments) {
  return std::all_of(entry.gradient_flags.begin(), entry.gradient_flags.end(), [&](const GradientFlag& flag) {
    return !flag.before || *flag.before == flag.slot(arguments).has_gradient;
  });
}

JitEntry* find_entry(JitCore& core) {
  auto fits = [&](const JitEntry& entry) {
    return entry.signature == core.signature && same_gradients(entry, core.arguments.tensors);
  };
  if (core.last && fits(*core.last)) return core.last;
  for (const auto& entry : core.entries)
    if (fits(*entry)) return entry.get();
  return nullptr;
}

// Makes room for another plan. Shapes may come and go; for numbers there is a better way.
void limit_plans(JitCore& core) {
  if (core.entries.size() < kMostPlans) return;
  size_t numbers = core.arguments.words.size();
  bool same_tensors = true;
  for (const auto& entry : core.entries)
    same_tensors = same_tensors && entry->signature.size() == core.signature.size() &&
                   std::equal(core.signature.begin() + static_cast<std::ptrdiff_t>(numbers), core.signature.end(),
                              entry->signature.begin() + static_cast<std::ptrdiff_t>(numbers));
  if (same_tensors)
    throw CaptureError(text("the function that jit() captures at ", place(core.where), " has been recorded for ",
                            kMostPlans, " different values of the numbers among its arguments: pass a number that ",
                            "keeps changing as a Tensor"));
  auto oldest = std::min_element(core.entries.begin(), core.entries.end(),
                                 [](const auto& a, const auto& b) { return a->last_use < b->last_use; });
  if (core.last == oldest->get()) core.last = nullptr;
  core.entries.erase(oldest);
}

std::string signature_text(const JitCore& core) {
  std::string result;
  for (size_t place : core.first_places) {
    const NodeRef& node = core.given.nodes[place];
    result += text(result.empty() ? "" : ", ", node->dtype, node->shape);
  }
  return result;
}

// A tensor made by the function that somebody outside still has would never be computed.
void refuse_escaped(const Capture& capture) {
  for (const std::weak_ptr<TensorSlot>& watched : capture.born) {
    std::shared_ptr<TensorSlot> slot = watched.lock();
    if (!slot || !capture.depends_on_inputs(slot->node)) continue;
    throw CaptureError(text("a tensor ", slot->node->dtype, slot->node->shape, " made by the function that jit() ",
                            "captures at ", place(capture.where), " is kept outside, where it has no value. Return ",
                            "it, or assign() it to a tensor made before"));
  }
}

std::unique_ptr<JitEntry> entry_of(JitCore& core, Capture& capture, std::vector<NodeRef> results) {
  auto entry = std::make_unique<JitEntry>();
  entry->generation = core.generation;
  entry->signature = core.signature;
  entry->capture = capture.id;
  entry->results = results.size();
  entry->result_words = core.result.words;
  core.roots = std::move(results);
  for (size_t i = 0; i < capture.inputs.size(); ++i) {
    if (capture.values[i] == capture.initial[i]) continue;
    JitUpdate update;
    update.input = i;
    update.root = core.roots.size();
    entry->updates.push_back(std::move(update));
    core.roots.push_back(capture.values[i]);
  }
  // Memory may be taken over by a value that has no other taker, if nobody gets the old value.
  std::vector<StateUpdate> updates;
  for (const JitUpdate& update : entry->updates) {
    const NodeRef &input = capture.input_nodes[update.input], &value = core.roots[update.root];
    if (std::count(core.roots.begin(), core.roots.end(), value) == 1 &&
        std::count(core.roots.begin(), core.roots.end(), input) == 0)
      updates.push_back({input.get(), value.get()});
  }
  for (const Bound& bound : capture.inputs) {
    if (bound.kind != Bound::Kind::Draw) continue;
    auto known = std::find_if(entry->generators.begin(), entry->generators.end(),
                              [&](const JitGenerator& use) { return use.generator == bound.generator; });
    if (known == entry->generators.end()) known = entry->generators.insert(known, {bound.generator, 0, {}});
    ++known->draws;
  }
  entry->graph = read_captured(core.roots, updates, core.key);
  entry->symbolic = core.symbolic || !entry->graph.symbols.empty();
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

Device& home(const JitCore& core, const JitEntry& entry) {
  for (const NodeRef& node : core.given.nodes) return device_buffer(*node).device();
  for (const Bound& bound : entry.inputs) {
    if (bound.kind != Bound::Kind::Slot) continue;
    return device_buffer(*realized(**bound.tensor)).device();
  }
  return device();
}

// Plans what was recorded and makes it the entry for its signature.
void install(JitCore& core) {
  double begin = seconds_now();
  std::unique_ptr<JitEntry> fresh = std::move(core.recorded);
  plan_captured(fresh->graph, core.roots, core.key, home(core, *fresh));
  prepare_replay(*fresh);
  fresh->report.signature = signature_text(core);
  fresh->report.capture_seconds = core.capture_seconds;
  fresh->report.compile_seconds = seconds_now() - begin;
  fresh->report.recordings = 1;
  if (JitEntry* old = core.entry) {
    fresh->report.calls = old->report.calls;
    fresh->report.recordings += old->report.recordings;
    fresh->report.capture_seconds += old->report.capture_seconds;
    fresh->report.compile_seconds += old->report.compile_seconds;
    auto where = std::find_if(core.entries.begin(), core.entries.end(), [&](const auto& e) { return e.get() == old; });
    *where = std::move(fresh);
    core.entry = where->get();
  } else {
    limit_plans(core);
    core.entries.push_back(std::move(fresh));
    core.entry = core.entries.back().get();
  }
  core.last = nullptr;
}

void compare(JitCore& core) {
  std::unique_ptr<JitEntry> now = std::move(core.recorded);
  std::string what = difference(*core.entry, *now);
  if (!what.empty())
    throw CaptureError(text(
        "the function that jit() captures at ", place(core.where), " is not the same at each call: ", what,
        ". jit() freezes what the function records; pass what changes as an argument, or ", "keep it in a Tensor"));
  ++core.entry->report.recordings;
  core.entry->report.capture_seconds += core.capture_seconds;
}

}  // namespace

bool is_capturing() { return current_capture != nullptr; }

namespace {

// A number that no other thread has, not even in a child of fork(), from 1 on.
uint64_t this_thread() {
  static std::atomic<uint64_t> last{0};
  constinit thread_local uint64_t mine = 0;
  if (mine == 0) mine = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return mine;
}

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
    throw CaptureError(text("the function that jit() captures at ", place(core.where), " calls itself without end (",
                            kMostNested, " captured functions inside one another)"));
  ++nested;
}
JitNesting::~JitNesting() { --nested; }

bool JitLock::lock() {
  const uint32_t mine = fork_generation() + 1;
  for (uint32_t found = 0; !holder_.compare_exchange_strong(found, mine, std::memory_order_acquire); found = 0) {
    if (found == mine)
      holder_.wait(found, std::memory_order_relaxed);
    else if (found != 0 && holder_.compare_exchange_strong(found, mine, std::memory_order_acquire))
      return false;
  }
  return true;
}

void JitLock::unlock() {
  holder_.store(0, std::memory_order_release);
  holder_.notify_one();
}

void JitCore::take(const char* what) {
  if (holder.load(std::memory_order_relaxed) == this_thread())
    throw CaptureError(
        text(what, " inside of the function that jit() captures at ", place(where), ", while it is ", "being called"));
  if (!lock.lock()) new (static_cast<JitScratch*>(this)) JitScratch;
  holder.store(this_thread(), std::memory_order_relaxed);
}
void JitCore::release() {
  holder.store(0, std::memory_order_relaxed);
  lock.unlock();
}

JitCall::JitCall(JitCore& core) : core_(core) {
  core.take("a call");
  core.generation = generation.load(std::memory_order_acquire);  // what changes from now on, it may see the half of
}
JitCall::~JitCall() {
  NoFork whole;
  for (NodeRef& node : core_.given.nodes) node = NodeRef();
  core_.roots.clear();
  core_.recorded.reset();
  core_.arguments.clear();
  core_.result.clear();
  core_.entry = nullptr;
  core_.release();
}
Parts& JitCall::arguments() { return core_.arguments; }
Parts& JitCall::result() { return core_.result; }

bool JitCall::is_transformed() const {
  return std::any_of(core_.arguments.tensors.begin(), core_.arguments.tensors.end(),
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

bool JitCall::must_record() {
  fetch_arguments(core_);
  make_signature(core_);
  core_.entry = find_entry(core_);
  if (!core_.entry) return true;
  if (is_out_of_date(*core_.entry) || core_.entry->generation != generation.load(std::memory_order_relaxed)) {
    NoFork whole;
    core_.entries.erase(std::find_if(core_.entries.begin(), core_.entries.end(),
                                     [&](const auto& entry) { return entry.get() == core_.entry; }));
    core_.entry = core_.last = nullptr;
    return true;
  }
  return core_.entry->report.recordings < 2 || core_.entry->symbolic || !core_.arguments.complete || config().check_jit;
}

JitCall::Recording::Recording(JitCall& call, std::function<void(Parts&)> inside)
    : call_(call), inside_(std::move(inside)) {
  JitCore& core = call.core_;
  core.started = seconds_now();
  core.capture = std::make_unique<Capture>(core.where);
  core.capture->stand_ins.reserve(core.arguments.tensors.size());
  core.inside.clear();
  inside_(core.inside);
  for (Tensor* tensor : core.inside.tensors) put(*tensor, core.capture->stand_in(*tensor));
  current_capture = core.capture.get();
}

// Copies of modules may share parts with the originals: no stand-in may stay. Returns where the tensors are now.
std::vector<Tensor*> JitCall::Recording::put_back() {
  JitCore& core = call_.core_;
  current_capture = nullptr;
  core.inside.clear();
  inside_(core.inside);
  std::vector<Tensor*> now = core.inside.tensors;
  for (Tensor* tensor : now)
    for (size_t i = 0; i < core.capture->stand_ins.size(); ++i)
      if (&tensor->slot() == &core.capture->stand_ins[i].slot()) {
        put(*tensor, *core.arguments.tensors[i]);
        break;
      }
  return now;
}

JitCall::Recording::~Recording() {
  if (!call_.core_.capture) return;
  put_back();
  call_.core_.capture.reset();
}

void JitCall::Recording::finish() {
  JitCore& core = call_.core_;
  std::vector<NodeRef> results;
  for (Tensor* tensor : core.result.tensors) results.push_back(core.capture->value(*tensor));
  current_capture = nullptr;
  Tensor nothing;
  for (Tensor* tensor : core.result.tensors) put(*tensor, nothing);
  core.inside.clear();
  inside_(core.inside);
  bool kept = core.inside.tensors.size() == core.capture->stand_ins.size();
  for (size_t i = 0; kept && i < core.inside.tensors.size(); ++i)
    kept = &core.inside.tensors[i]->slot() == &core.capture->stand_ins[i].slot();
  put_back();
  std::unique_ptr<Capture> capture = std::move(core.capture);
  if (!kept)
    throw CaptureError(text("the function that jit() captures at ", place(core.where), " puts another tensor in the ",
                            "place of one of its arguments: use assign(), which changes the tensor itself"));
  capture->stand_ins.clear();
  refuse_escaped(*capture);
  core.recorded = entry_of(core, *capture, std::move(results));
  core.result.clear();
  core.capture_seconds = seconds_now() - core.started;
  if (!profiling()) return;
  const int64_t end = profile_clock();
  record_slice({SliceKind::Call, "record " + place(core.where), end - std::llround(core.capture_seconds * 1e9), end});
}

void JitCall::set_prototype(std::shared_ptr<const void> prototype) { core_.recorded->prototype = std::move(prototype); }
const void* JitCall::prototype() const { return core_.entry->prototype.get(); }

void JitCall::run() {
  NoFork whole;
  JitCore& core = core_;
  ProfileScope scope(SliceKind::Call, [&] { return "jit " + place(core.where); });
  if (core.recorded) {
    bool forgotten = changing.load() > 0 || (core.entry && core.entry->generation != generation.load());
    if (!core.entry || core.entry->symbolic || forgotten || reads_what_it_made(*core.entry, *core.recorded) ||
        (!core.arguments.complete && !difference(*core.entry, *core.recorded).empty()))
      install(core);
    else
      compare(core);
    // The recording's own handles are gone.
    for (Bound& bound : core.entry->inputs)
      if (bound.tensor) bound.tensor->count_handles();
    core.roots.clear();
  }
  core.last = core.entry;
  core.entry->last_use = ++core.clock;
  scope.set_detail([&] { return core.entry->report.signature; });
  replay(*core.entry, core.arguments.tensors, core.given, core.arena);
  for (const GradientFlag& flag : core.entry->gradient_flags) {
    TensorSlot& slot = flag.slot(core.arguments.tensors);
    std::lock_guard guard(slot.lock);
    slot.has_gradient = flag.after;
  }
  ++core.entry->report.calls;
}

void JitCall::deliver() {
  for (size_t i = 0; i < core_.result.tensors.size(); ++i) *core_.result.tensors[i] = *core_.entry->deliver[i];
  if (core_.entry->passed.empty()) return;
  NoFork whole;
  core_.entry->passed.clear();
}

namespace {

class JitHold {
 public:
  JitHold(JitCore& core, const char* what) : core_(core) { core.take(what); }
  ~JitHold() { core_.release(); }
  JitHold(const JitHold&) = delete;
  JitHold& operator=(const JitHold&) = delete;

 private:
  JitCore& core_;
};

}  // namespace

JitBase::JitBase(const std::source_location& where) : core_(std::make_shared<JitCore>(where)) {}

std::vector<JitPlan> JitBase::plans() const {
  JitHold hold(*core_, "plans()");
  std::vector<JitPlan> result;
  for (const auto& entry : core_->entries) {
    result.push_back(entry->report);
    for (const RunMemory::Kept& kept : entry->memory.kept)
      if (kept.packed) result.back().kept_bytes += kept.packed->bytes();
  }
  return result;
}

void JitBase::clear() {
  JitHold hold(*core_, "clear()");
  NoFork whole;
  core_->entries.clear();
  core_->last = nullptr;
  core_->arena.reset();
}

}  // namespace heddle
