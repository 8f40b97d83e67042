#include "tensor/recording.h"

#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "graph/graph.h"
#include "tensor/build.h"
#include "tensor/slot.h"
#include "tensor/track.h"

namespace heddle {

constinit thread_local Capture* current_capture = nullptr;
constinit thread_local Recorder* current_recorder = nullptr;

namespace {

std::atomic<std::string (*)()> place_finder{nullptr};

// The greatest number of the placeholders that a value depends on; 0: it depends on none.
int64_t last_placeholder(const NodeRef& value) {
  int64_t last = 0;
  for (const Node* each : topological(std::span(&value, 1))) last = std::max(last, placeholder_number(*each));
  return last;
}

}  // namespace

std::string place_text(const std::source_location& where) {
  if (auto* finder = place_finder.load(std::memory_order_acquire))
    if (std::string found = finder(); !found.empty()) return found;
  return text(where.file_name(), ":", where.line());
}
void set_place_finder(std::string (*finder)()) { place_finder.store(finder, std::memory_order_release); }

namespace {

// Nothing where nobody knows.
std::string prefix(const std::source_location* where) {
  if (where) return place_text(*where) + ": ";
  auto* finder = place_finder.load(std::memory_order_acquire);
  const std::string found = finder ? finder() : "";
  return found.empty() ? "" : found + ": ";
}

}  // namespace

void refuse_reading(const char* what, const std::source_location* where) {
  throw CaptureError(text(prefix(where), what, " in the function that jit() captures at ", current_capture->where,
                          ": while it is recorded tensors have no values. Return the tensor and look at it outside"));
}

void refuse_placeholders(const char* what, const Tensor& tensor, const std::source_location* where) {
  NodeRef root = tensor.node();
  if (last_placeholder(root) > 0)
    throw CaptureError(text(prefix(where), what, " in a function that ", current_recorder->name,
                            "() records: what depends on its arguments has no value there. ",
                            "Return the tensor and look at it outside"));
}

Recorder::Recorder(const char* who) : name(who), number(next_placeholder_number()) {
  outer_ = std::exchange(current_recorder, this);
}
Recorder::~Recorder() {
  current_recorder = outer_;
  if (outer_)
    outer_->born.insert(outer_->born.end(), born.begin(), born.end());  // it may be one of theirs that is kept
}

void Recorder::note_read(const TensorSlot& slot, const NodeRef& value) {
  for (Recorder* recorder = this; recorder && slot.recorder < recorder->number; recorder = recorder->outer_)
    if (recorder->is_region_) recorder->read_.push_back(value);
}

std::optional<Tensor> Recorder::draw(Generator& generator, uint64_t draws) {
  Recorder* recorder = this;
  while (recorder && !recorder->is_region_) recorder = recorder->outer_;
  if (!recorder) return {};
  uint64_t first = 0;
  for (const Draw& earlier : recorder->draws_)
    if (earlier.generator == &generator) first += earlier.draws;
  recorder->draws_.push_back({&generator, first, draws, make_placeholder(kU32, Shape{4})});
  return Tensor(recorder->draws_.back().key);
}

void Recorder::refuse_assignment(const TensorSlot& slot, const NodeRef& value) const {
  if (slot.recorder >= number || last_placeholder(value) <= slot.recorder) return;
  throw CaptureError(text("a tensor ", value->dtype, value->shape, " that was made outside of a function which ", name,
                          "() records is given a value that depends on the function's arguments: there is one such ",
                          "value for each ", is_region_ ? "round" : "example",
                          ", or none at all. Return the value and assign() it outside; a layer ",
                          "that keeps statistics has to be in eval() mode"));
}

void Recorder::refuse_kept(int64_t first) const {
  for (const std::weak_ptr<TensorSlot>& watched : born) {
    std::shared_ptr<TensorSlot> slot = watched.lock();
    if (!slot) continue;
    NodeRef value = slot->get();
    if (last_placeholder(value) < first) continue;
    throw CaptureError(text("a tensor ", value->dtype, value->shape, " made by a function that ", name, "() records ",
                            "is kept outside, where it has no value. Return it instead"));
  }
}

void note_birth(const std::shared_ptr<TensorSlot>& slot) {
  if (current_capture) {
    slot->born = current_capture->id;
    current_capture->born.push_back(slot);
  }
  if (current_recorder) {
    slot->recorder = current_recorder->number;
    current_recorder->born.push_back(slot);
  }
}

BoundTensor::BoundTensor(const Tensor& tensor) : tensor_(tensor) {
  ++tensor_.slot().bindings;
  count_handles();
}
BoundTensor::BoundTensor(const BoundTensor& other)
    : tensor_(other.tensor_), others_(other.others_), reassigned_(other.reassigned_) {
  ++tensor_.slot().bindings;
}
BoundTensor::~BoundTensor() { --tensor_.slot().bindings; }
void BoundTensor::count_handles() {
  const TensorSlot& slot = tensor_.slot();
  others_ = tensor_.handles() - slot.bindings.load();
  reassigned_ = slot.reassigned.load(std::memory_order_relaxed);
}
bool BoundTensor::lost_a_handle() const {
  const TensorSlot& slot = tensor_.slot();
  if (reassigned_ != slot.reassigned.load(std::memory_order_relaxed)) return true;
  // Others may be making or dropping handles of captured functions: then the two numbers do not belong together.
  const long bound = slot.bindings.load(), now = tensor_.handles() - bound;
  return (now <= 0 || now < others_) && slot.bindings.load() == bound;
}

bool same_bound(const Bound& a, const Bound& b) {
  if (a.kind != b.kind || a.index != b.index || a.generator != b.generator || a.draws != b.draws) return false;
  return a.kind != Bound::Kind::Slot || &(*a.tensor)->slot() == &(*b.tensor)->slot();
}

uint64_t Capture::next_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

namespace {

// What has no place is computed at home before a function can read it, except where it lies in a file.
DeviceNumber place_of(const Node& value) {
  return value.device == kAnywhere && value.op != NodeOp::Buffer ? home_device() : value.device;
}

}  // namespace

NodeRef Capture::add(Bound bound, DType dtype, const Shape& shape, DeviceNumber device) {
  bound.device = device;
  NodeRef input = make_input(static_cast<int64_t>(inputs.size()), static_cast<int64_t>(id), dtype, shape, device);
  inputs.push_back(std::move(bound));
  values.push_back(input);
  input_nodes.push_back(input);
  initial.push_back(input);
  return input;
}

const Tensor& Capture::stand_in(const Tensor& argument) {
  const size_t place = stand_ins.size();
  auto [known, fresh] = given_.try_emplace(&argument.slot(), place);
  if (!fresh) return stand_ins.emplace_back(stand_ins[known->second]);
  NodeRef now = argument.slot().get();
  const size_t number = inputs.size();
  NodeRef input = add({Bound::Kind::Argument, place, {}, nullptr}, now->dtype, now->shape, place_of(*now));
  const Tensor& made = stand_ins.emplace_back(input);
  TensorSlot& slot = made.slot();
  slot.tracked = argument.slot().tracked.load();
  slot.has_gradient = argument.slot().has_gradient.load();
  slot.gradient = std::make_shared<TensorSlot>();
  slot.gradient->node = placed_at(make_const(Scalar::of(now->dtype, 0), now->shape), now->device);
  slot.gradient->tracked = is_gradient_tracked(argument.slot());
  values.back() = initial.back() = value_for(made.shared_slot(), input);
  inputs.back().history = heddle::has_history(argument.slot(), now);
  slots_.emplace(&slot, number);
  stood_for_.emplace(&slot, place);
  gradients_.emplace(slot.gradient.get(), GradientOf{place, has_gradient_history(argument.slot())});
  born.push_back(made.shared_slot());
  return made;
}

size_t Capture::number_of(const Tensor& tensor) {
  if (auto known = slots_.find(&tensor.slot()); known != slots_.end()) return known->second;
  const size_t number = inputs.size();
  NodeRef now = tensor.slot().get();
  if (auto gradient = gradients_.find(&tensor.slot()); gradient != gradients_.end()) {
    // Kept outside it would be found by what it depends on.
    tensor.slot().node =
        add({Bound::Kind::Gradient, gradient->second.argument, {}, nullptr}, now->dtype, now->shape, place_of(*now));
    values.back() = initial.back() = value_for(tensor.shared_slot(), input_nodes.back());
    inputs.back().tracked = tensor.slot().tracked;
    inputs.back().history = gradient->second.history;
    born.push_back(tensor.shared_slot());
  } else {
    if (tensor.slot().born != 0 && is_transformed(now))
      throw CaptureError(text("the function that jit() captures at ", where, " closes over a variable that an ",
                              "earlier call gave a tensor ", now->dtype, now->shape, " without a value (w = w - x): ",
                              "give it a tensor again, and inside a new value with w.assign(w - x) or w -= x"));
    if (is_transformed(now))
      throw CaptureError(text("the function that jit() captures at ", where, " closes over a tensor ", now->dtype,
                              now->shape, " that depends on an argument of a function which grad(), ",
                              "vmap() or the like is looking at: pass it as an argument"));
    NodeRef input = add({Bound::Kind::Slot, 0, BoundTensor(tensor), nullptr}, now->dtype, now->shape, place_of(*now));
    values.back() = initial.back() = value_for(tensor.shared_slot(), input);
    inputs.back().tracked = tensor.slot().tracked;
    inputs.back().history = heddle::has_history(tensor.slot(), now);
  }
  slots_.emplace(&tensor.slot(), number);
  return number;
}

NodeRef Capture::value(const Tensor& tensor) {
  if (tensor.slot().born == id) return tensor.slot().get();
  return values[number_of(tensor)];
}

void Capture::assign(const Tensor& tensor, const NodeRef& value) {
  if (tensor.slot().born == id)
    tensor.slot().node = value;  // nobody else knows the slot
  else
    values[number_of(tensor)] = value;
}

Tensor Capture::draw(Generator& generator, uint64_t draws) {
  const size_t first = std::exchange(draws_[&generator], draws_[&generator] + draws);
  NodeRef key = add({Bound::Kind::Draw, first, {}, &generator}, kU32, Shape{4}, home_device());
  inputs.back().draws = draws;
  return Tensor(key);
}

GradientFlag& Capture::flag_of(const Tensor& tensor, bool reads) {
  auto [known, fresh] = flags_.try_emplace(&tensor.slot(), gradient_flags.size());
  if (fresh) {
    GradientFlag& flag = gradient_flags.emplace_back();
    flag.after = tensor.slot().has_gradient;
    if (reads) flag.before = flag.after;
    if (auto argument = stood_for_.find(&tensor.slot()); argument != stood_for_.end())
      flag.argument = argument->second;
    else
      flag.tensor.emplace(tensor);
  }
  return gradient_flags[known->second];
}

void Capture::note_rebinding(const std::shared_ptr<TensorSlot>& before, const std::shared_ptr<TensorSlot>& now) {
  if (now->born != id) return;
  const bool outside = before->born != id && !stood_for_.contains(before.get());
  if (outside || rebound_.contains(before.get())) rebound_.insert(now.get());
}

void Capture::refuse_escaped() const {
  for (const std::weak_ptr<TensorSlot>& watched : born) {
    std::shared_ptr<TensorSlot> slot = watched.lock();
    if (!slot || !depends_on_inputs(slot->node)) continue;
    const bool rebound = rebound_.contains(slot.get());
    std::string problem =
        text("a tensor ", slot->node->dtype, slot->node->shape, " made by the function that jit() captures at ", where,
             " is kept outside, where it has no value. ",
             rebound ? "A variable there had another tensor before (w = w - x): give that one a new value, with "
                       "w.assign(w - x) or w -= x. The variable has lost its tensor: give it one again"
                     : "Return it, or assign() it to a tensor made before");
    throw CaptureError(problem);
  }
}

bool Capture::is_inside(const Tensor& tensor) const {
  return tensor.slot().born == id || stood_for_.contains(&tensor.slot());
}

bool Capture::has_history(const Node& node) {
  if (node.op != NodeOp::Input || !node.attrs[1].is_const(static_cast<int64_t>(id))) return false;
  Bound& bound = inputs[static_cast<size_t>(node.attrs[0].value())];
  bound.asked = true;
  return bound.history;
}

bool Capture::has_gradient(const Tensor& tensor) {
  if (tensor.slot().born == id) return tensor.slot().has_gradient;
  return flag_of(tensor, true).after;
}

void Capture::set_has_gradient(const Tensor& tensor, bool has) {
  if (tensor.slot().born == id)
    tensor.slot().has_gradient = has;
  else
    flag_of(tensor, false).after = has;
}

bool Capture::depends_on_inputs(const NodeRef& node) const {
  for (const Node* each : topological(std::span(&node, 1)))
    if (each->op == NodeOp::Input && each->attrs[1].is_const(static_cast<int64_t>(id))) return true;
  return false;
}

}  // namespace heddle
