#include "tensor/capture.h"

#include <atomic>

#include "base/error.h"
#include "graph/graph.h"
#include "tensor/slot.h"
#include "tensor/track.h"

namespace heddle {

constinit thread_local Capture* current_capture = nullptr;
constinit thread_local const char* current_recorder = nullptr;

namespace {

std::string place(const std::source_location& where) { return text(where.file_name(), ":", where.line()); }

}  // namespace

void refuse_reading(const char* what, const std::source_location* where) {
  throw CaptureError(text(where ? place(*where) + ": " : "", what, " in the function that jit() captures at ",
                          place(current_capture->where),
                          ": while it is recorded tensors have no values. Return the tensor and look at it outside"));
}

void refuse_placeholders(const char* what, const Tensor& tensor, const std::source_location* where) {
  NodeRef root = tensor.node();
  for (const Node* each : topological(std::span(&root, 1)))
    if (is_placeholder(*each))
      throw CaptureError(text(where ? place(*where) + ": " : "", what, " in a function that ", current_recorder,
                              "() records: what depends on its arguments has no value there. ",
                              "Return the tensor and look at it outside"));
}

BoundTensor::BoundTensor(const Tensor& tensor) : tensor_(tensor) { ++tensor_.slot().bindings; }
BoundTensor::~BoundTensor() { --tensor_.slot().bindings; }
bool BoundTensor::abandoned() const { return tensor_.handles() <= tensor_.slot().bindings.load(); }

bool same_bound(const Bound& a, const Bound& b) {
  if (a.kind != b.kind || a.index != b.index || a.generator != b.generator) return false;
  return a.kind != Bound::Kind::Slot || &(*a.tensor)->slot() == &(*b.tensor)->slot();
}

uint64_t Capture::next_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

NodeRef Capture::add(Bound bound, DType dtype, const Shape& shape) {
  NodeRef input = make_input(static_cast<int64_t>(inputs.size()), static_cast<int64_t>(id), dtype, shape);
  inputs.push_back(std::move(bound));
  values.push_back(input);
  input_nodes.push_back(input);
  initial.push_back(input);
  return input;
}

const Tensor& Capture::stand_in(const Tensor& argument) {
  NodeRef now = argument.slot().get();
  size_t number = inputs.size();
  stand_ins.emplace_back(add({Bound::Kind::Argument, number, {}, nullptr}, now->dtype, now->shape));
  slots_.emplace(&stand_ins.back().slot(), number);
  return stand_ins.back();
}

size_t Capture::number_of(const Tensor& tensor) {
  auto [known, fresh] = slots_.try_emplace(&tensor.slot(), inputs.size());
  if (fresh) {
    NodeRef now = tensor.slot().get();
    if (is_transformed(now))
      throw CaptureError(text("the function that jit() captures at ", place(where), " closes over a tensor ",
                              now->dtype, now->shape, " that depends on an argument of a function which grad(), ",
                              "vmap() or the like is looking at: pass it as an argument"));
    NodeRef input = add({Bound::Kind::Slot, 0, BoundTensor(tensor), nullptr}, now->dtype, now->shape);
    values.back() = initial.back() = value_for(tensor.shared_slot(), input);
  }
  return known->second;
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

Tensor Capture::draw(Generator& generator) {
  return Tensor(add({Bound::Kind::Draw, draws_[&generator]++, {}, &generator}, kU32, Shape{4}));
}

bool Capture::has_gradient(const Tensor& tensor) {
  bool now = tensor.slot().has_gradient;
  if (tensor.slot().born == id) return now;
  auto [known, fresh] = flags_.try_emplace(&tensor.slot(), gradient_flags.size());
  if (fresh) gradient_flags.push_back({BoundTensor(tensor), now, now});
  return gradient_flags[known->second].after;
}

void Capture::set_has_gradient(const Tensor& tensor, bool has) {
  if (tensor.slot().born == id) {
    tensor.slot().has_gradient = has;
    return;
  }
  auto [known, fresh] = flags_.try_emplace(&tensor.slot(), gradient_flags.size());
  if (fresh) gradient_flags.push_back({BoundTensor(tensor), {}, has});
  gradient_flags[known->second].after = has;
}

bool Capture::depends_on_inputs(const NodeRef& node) const {
  for (const Node* each : topological(std::span(&node, 1)))
    if (each->op == NodeOp::Input && each->attrs[1].is_const(static_cast<int64_t>(id))) return true;
  return false;
}

}  // namespace heddle
