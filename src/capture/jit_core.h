// What is behind Jit (jit.h): the recordings of one function and how they are replayed. Private to src/capture.
#pragma once

#include <heddle/jit.h>

#include <array>
#include <atomic>
#include <deque>

#include "capture/captured_graph.h"
#include "tensor/recording.h"

namespace heddle {

// A tensor that each call gives a new value.
struct JitUpdate {
  size_t input;           // the Input that stands for it
  size_t root;            // its new value among the graph's roots
  bool in_place = false;  // the plan allows to write over the old value if nobody else holds that
  NodeRef spare;          // memory of the value before the last one, to be written next

  // During a call.
  TensorSlot* slot = nullptr;
  NodeRef old, fresh;  // fresh: null when working in place
};

// What becomes of an output that the plan computes.
struct JitOutput {
  // Nothing: not computed; Result, Update: has one taker, number `index`; Shared: has several.
  enum class Use { Nothing, Result, Update, Shared } use = Use::Nothing;
  size_t index = 0, root = 0;
  uint64_t bytes = 0;
  NodeRef fresh;  // during a call; of Shared ones
};

// Tensors given to callers, to be used again when they are forgotten.
struct JitRing {
  static constexpr size_t kMost = 4;
  std::vector<Tensor> tensors;
  size_t next = 0;
};

struct JitGenerator {
  Generator* generator;
  uint64_t draws = 0;  // of one call
  Generator::State before{};
};

// Random keys on one device: a part of JitEntry::draws.
struct JitKeys {
  Backend* device;
  size_t begin, end;
  std::shared_ptr<DeviceBuffer> memory;
};

// A recording, and what is needed to run it again. Calls work on the vectors in here and allocate nothing.
struct JitEntry {
  std::vector<uint64_t> signature;
  uint64_t last_use = 0, capture = 0;  // capture: the recording's id
  uint64_t generation = 0;             // of forget_recordings() when it was recorded
  bool symbolic = false;               // recorded anew at each call
  CapturedGraph graph;
  size_t results = 0;  // so many of the graph's roots are results, the others new values of `updates`
  std::vector<Bound> inputs;
  std::vector<JitUpdate> updates;
  std::vector<uint64_t> result_words;
  std::vector<JitGenerator> generators;
  std::vector<GradientFlag> gradient_flags;
  std::shared_ptr<const void> prototype;
  JitPlan report;

  std::vector<size_t> reads;  // Inputs needed that are not updated, draws aside
  bool updates_arguments = false;
  std::vector<JitOutput> outputs;  // of the plan
  std::vector<JitRing> rings;      // for each result
  std::vector<size_t> gradients;   // Inputs that are gradients of arguments
  std::vector<size_t> draws;       // Inputs needed that are random keys, in the order of `keys`
  std::vector<JitKeys> keys;
  std::vector<std::array<uint32_t, 16>> key_words;
  RunMemory memory;
  std::vector<NodeRef> held;           // what the Inputs that are read are in this call
  std::vector<uint64_t> versions;      // their slots' numbers for these values
  std::vector<const Node*> now;        // the same for all Inputs
  std::vector<Tensor> passed;          // results that are not computed: the values of Inputs, data
  std::vector<const Tensor*> deliver;  // for each result
};

// The values of the tensors among a call's arguments, all computed, and their slots' numbers for them. Null where a
// tensor was given before.
struct ArgumentValues {
  std::vector<NodeRef> nodes;
  std::vector<uint64_t> versions;
};

// Of one call.
struct JitScratch {
  Parts arguments, inside, result;
  ArgumentValues given;
  std::vector<size_t> first_places;  // for each argument the first one that is the same tensor
  std::vector<std::pair<const TensorSlot*, size_t>> sorted;
  std::vector<uint64_t> signature;
  bool symbolic = false;
  JitEntry* entry = nullptr;
  bool out_of_date = false;  // the function may do something else than `entry` by now
  std::unique_ptr<Capture> capture;
  std::unique_ptr<JitEntry> recorded;  // not planned yet
  std::vector<NodeRef> roots;
  GraphKey key;
  double started = 0, capture_seconds = 0;
  uint64_t generation = 0;  // of forget_recordings() when recording began
};

// Held while users' functions are recorded, so it is no section (base/fork.h): after a fork() a thread that the process
// does not have may hold it.
class JitLock {
 public:
  // Returns false if such a thread held it: its call is in the middle of something.
  bool lock();
  void unlock();
  bool try_lock();  // false, too, if such a thread holds it
  bool is_held() const;

 private:
  std::atomic<uint32_t> holder_{0};  // 0: nobody; else fork_generation() + 1 of the process in which it was taken
};

// What one call at a time works with. The first lane has the recordings. Calls that change nothing but their results
// may run at the same time: each in a lane of its own, with copies of those recordings that it has needed.
struct alignas(64) JitLane : JitScratch {
  explicit JitLane(JitCore& of) : core(of) {}

  JitCore& core;
  JitLock lock;
  std::atomic<uint64_t> holder{0};  // the thread that has it
  std::vector<std::unique_ptr<JitEntry>> entries;
  JitEntry* last = nullptr;
  uint64_t clock = 0;
  std::shared_ptr<DeviceBuffer> arena;  // of all plans: they run one after the other
  uint64_t changes = 0;                 // JitCore::changes that the copies know of

  // Takes the lock. What a call that another process was in had left is put aside: nobody knows how far it got.
  void take();
  void release();
  // Whether the calling thread has it.
  bool is_mine() const;
};

class JitCore {
 public:
  explicit JitCore(std::string jit);

  JitLane& main() { return lanes.front(); }
  // One that nobody has at the moment, if there is one.
  JitLane& free_lane();
  // Copies are old. Those of lanes that nobody has go at once, with what they keep.
  void drop_copies();
  // Throws CaptureError if the calling thread is in a call: `what` is inside of the function.
  void refuse_inside(const char* what);

  const std::string where;    // of the call of jit()
  std::deque<JitLane> lanes;  // who has two has taken the first one last
  // How often a recording was put in the place of another one, or all were forgotten: copies are old.
  std::atomic<uint64_t> changes{0};
  CompiledPlace compiled;  // who has the first lane has it
};

// Fills in all that replaying needs; the graph has its plan.
void prepare_replay(JitEntry& entry);
// Another one of a recording that changes nothing but its results, to be run at the same time.
std::unique_ptr<JitEntry> copy_for_lane(const JitEntry& entry);
// One call. Leaves everything as it was if it throws. False: nothing has been done, because gradients that backward()
// inside would add to have come or gone since this entry was chosen, or because a tensor is on another device by now.
bool replay(JitEntry& entry, std::span<Tensor* const> arguments, ArgumentValues& given,
            std::shared_ptr<DeviceBuffer>& arena);
// Whether backward() inside would do what it did when this was recorded: begin a gradient, or add to one.
bool same_gradients(const JitEntry& entry, std::span<Tensor* const> arguments);
// Whether a variable that the function closed over has another slot now, or may have, or whether what it looked at has
// another part in gradients.
bool is_out_of_date(JitEntry& entry, std::span<Tensor* const> arguments);

}  // namespace heddle
