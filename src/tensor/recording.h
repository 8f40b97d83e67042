// What a thread that records has met so far: for a captured function (Capture; the rest of it is in capture/), or for
// vmap() and the like (Recorder). While a thread records, Tensor::node() and assignments ask here first.
//
// A slot that was made outside is *bound*: reading it gives an Input node, or what the function has assigned to it so
// far. The slot itself stays as it is, so neither other threads nor a failed recording can notice.
#pragma once

#include <heddle/ops/random.h>
#include <heddle/tensor.h>

#include <optional>
#include <source_location>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "graph/node.h"

namespace heddle {

// A handle that counts in TensorSlot::bindings.
class BoundTensor {
 public:
  explicit BoundTensor(const Tensor& tensor);
  BoundTensor(const BoundTensor& other);
  BoundTensor& operator=(const BoundTensor&) = delete;
  ~BoundTensor();
  const Tensor& operator*() const { return tensor_; }
  const Tensor* operator->() const { return &tensor_; }
  // Whether a variable that had the slot when this was called last has another one now, or is gone.
  bool lost_a_handle() const;
  // From here on.
  void count_handles();

 private:
  Tensor tensor_;
  long others_ = 0;  // handles that do not belong to captured functions
  uint64_t reassigned_ = 0;
};

// What an Input of a captured function is filled from at each call.
struct Bound {
  // Gradient: what backward() has added up for an argument.
  enum class Kind { Argument, Gradient, Slot, Draw } kind;
  size_t index = 0;  // Argument, Gradient: of which; Draw: the how manieth of the generator in one call
  std::optional<BoundTensor> tensor;  // Slot
  Generator* generator = nullptr;     // Draw
  uint64_t draws = 1;                 // Draw: so many, of which this is the first
  std::optional<Tensor> gradient;     // Gradient, during a call
  // Slot, Gradient: whether it required gradients. Not Draw: whether its value was computed from ones that do, and
  // whether that made a difference to the function.
  bool tracked = false, history = false, asked = false;
  // Slot: its number for a value that is known to have no history.
  std::optional<uint64_t> without_history = {};
  DeviceNumber device = kAnywhere;  // where it was
};
bool same_bound(const Bound& a, const Bound& b);

// Whether a tensor has a gradient that backward() has added up: before the call, if that made a difference, and after.
struct GradientFlag {
  std::optional<BoundTensor> tensor;  // or
  size_t argument = 0;                // this one
  std::optional<bool> before;
  bool after;
  TensorSlot& slot(std::span<Tensor* const> arguments) const {
    return tensor ? (*tensor)->slot() : arguments[argument]->slot();
  }
};

class Capture {
 public:
  explicit Capture(std::string jit) : where(std::move(jit)), id(next_id()) {}

  // A tensor that stands for the next argument; the same one for the same tensor. All of them are made before
  // recording.
  const Tensor& stand_in(const Tensor& argument);
  NodeRef value(const Tensor& tensor);
  void assign(const Tensor& tensor, const NodeRef& value);
  // Four words that differ from call to call: the first key of so many.
  Tensor draw(Generator& generator, uint64_t draws);
  bool has_gradient(const Tensor& tensor);
  void set_has_gradient(const Tensor& tensor, bool has);
  // Whether the node is an Input whose value was computed from leaves: outside, where no gradient gets from inside.
  // What the function does may depend on the answer.
  bool has_history(const Node& node);
  // A variable that had the slot `before` has `now`.
  void note_rebinding(const std::shared_ptr<TensorSlot>& before, const std::shared_ptr<TensorSlot>& now);
  // Throws CaptureError if a tensor that the function made is kept outside: it would never be computed.
  void refuse_escaped() const;
  // Whether the tensor was made inside, or stands for an argument.
  bool is_inside(const Tensor& tensor) const;
  // Whether the node depends on an Input of this function.
  bool depends_on_inputs(const NodeRef& node) const;

  const std::string where;  // of the call of jit()
  const uint64_t id;
  std::vector<Bound> inputs;    // by number
  std::vector<NodeRef> values;  // of each Argument and Slot: its Input, or what was assigned last
  std::vector<NodeRef> input_nodes;
  std::vector<NodeRef> initial;                 // the same, as leaves for gradients where these were asked for
  std::vector<std::weak_ptr<TensorSlot>> born;  // slots made by the function
  std::vector<Tensor> stand_ins;
  std::vector<GradientFlag> gradient_flags;

 private:
  static uint64_t next_id();
  size_t number_of(const Tensor& tensor);
  NodeRef add(Bound bound, DType dtype, const Shape& shape, DeviceNumber device);
  // `reads`: what it was before the call makes a difference.
  GradientFlag& flag_of(const Tensor& tensor, bool reads);
  std::unordered_map<const TensorSlot*, size_t> slots_, flags_;
  std::unordered_map<const TensorSlot*, size_t> given_;  // arguments: the first place of each
  struct GradientOf {
    size_t argument;
    bool history;
  };
  std::unordered_map<const TensorSlot*, GradientOf> gradients_;  // those of the stand-ins
  std::unordered_map<const TensorSlot*, size_t> stood_for_;      // stand-ins: for which argument
  std::unordered_map<const Generator*, size_t> draws_;
  std::unordered_set<const TensorSlot*> rebound_;  // given to variables that had slots from outside
};

// The recording that the calling thread is in.
extern constinit thread_local Capture* current_capture;

// Somebody who calls a function of the user's with placeholders in place of tensors: "vmap". The placeholders are made
// before. What depends on them must not get into slots that were made outside: they would keep a value that is none.
class Recorder {
 public:
  explicit Recorder(const char* name);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Throws CaptureError if a slot made outside would be given a value that depends on a placeholder.
  void refuse_assignment(const TensorSlot& slot, const NodeRef& value) const;
  // Throws CaptureError if a tensor that was made inside, and that depends on a placeholder from number `first` on, is
  // still there: the function has kept it.
  void refuse_kept(int64_t first) const;

  // Called for each value that is read from a slot while somebody records.
  void note_read(const TensorSlot& slot, const NodeRef& value);
  // The first key of so many, if one of the recorders from this one outwards makes keys of its own.
  std::optional<Tensor> draw(Generator& generator, uint64_t draws);

  const char* const name;
  const int64_t number;
  std::vector<std::weak_ptr<TensorSlot>> born;

 protected:
  // Of who wants to know what a function uses from outside, and to run it again and again: see tensor/control.cpp.
  struct Draw {
    Generator* generator;
    uint64_t first, draws;
    NodeRef key;  // a placeholder
  };
  bool is_region_ = false;
  std::vector<NodeRef> read_;  // values of slots that were made outside
  std::vector<Draw> draws_;

 private:
  Recorder* outer_;
};
// The innermost one on this thread. Null: nobody.
extern constinit thread_local Recorder* current_recorder;

inline void refuse_leak(const Tensor& tensor, const NodeRef& value) {
  if (current_recorder) [[unlikely]]
    current_recorder->refuse_assignment(tensor.slot(), value);
}

// Called for each slot that is made while a thread records in either way.
void note_birth(const std::shared_ptr<TensorSlot>& slot);

// "file.cpp:12". A binding to another language, whose own lines say nothing, gives a function that knows the caller's;
// it may give "".
std::string place_text(const std::source_location& where);
void set_place_finder(std::string (*finder)());

// Throws CaptureError while recording: `what` needs a value.
[[noreturn]] void refuse_reading(const char* what, const std::source_location* where);
inline void refuse_in_capture(const char* what) {
  if (current_capture) [[unlikely]]
    refuse_reading(what, nullptr);
}
// The same where it needs the value of this tensor, which may depend on a placeholder. `where` may be null.
void refuse_placeholders(const char* what, const Tensor& tensor, const std::source_location* where);
inline void refuse_in_capture(const char* what, const Tensor& tensor, const std::source_location* where = nullptr) {
  if (current_capture) [[unlikely]]
    refuse_reading(what, where);
  if (current_recorder) [[unlikely]]
    refuse_placeholders(what, tensor, where);
}

}  // namespace heddle
