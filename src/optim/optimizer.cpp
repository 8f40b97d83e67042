#include <heddle/jit.h>
#include <heddle/ops.h>
#include <heddle/optim/optimizer.h>

#include <cmath>
#include <set>

#include "base/error.h"
#include "tensor/together.h"

namespace heddle::optim {
namespace {

DType state_dtype(DType parameter) { return parameter == kF64 ? kF64 : kF32; }

// Zeros in memory of their own: equal constants would share it.
Tensor own_zeros(const Tensor& like, DType dtype) {
  const Dims shape = like.shape();
  size_t count = 1;
  for (int64_t size : shape) count *= static_cast<size_t>(size);
  const TensorOptions there{.device = like.device()};
  if (dtype == kF64) return from_vector(std::vector<double>(count), shape, there);
  return from_vector(std::vector<float>(count), shape, there);
}
Tensor stored(double value, const Device& device) {
  return from_vector(std::vector<double>{value}, {}, {.device = device});
}
// What all parameters share is where the first one is.
Device first_device(const Parameters& parameters) {
  for (const Group& group : parameters.groups)
    for (const auto& [name, tensor] : group.parameters) return tensor.device();
  return default_device();
}

void check_rate(const std::string& optimiser, double rate) {
  if (!(rate >= 0) || !std::isfinite(rate))
    throw ValueError(text(optimiser, ": a learning rate of ", rate, "; it must be a finite number, and not negative"));
}

}  // namespace

// What a step gives to which tensor.
struct Optimizer::Assignments {
  std::vector<Tensor> tensors, values;
  void add(const Tensor& tensor, const Tensor& value) {
    tensors.push_back(tensor);
    values.push_back(value);
  }
};

Parameters::Parameters(const std::vector<Tensor>& list) : groups(1) {
  for (const Tensor& tensor : list)
    groups[0].parameters.emplace_back(std::to_string(groups[0].parameters.size()), tensor);
}
Parameters::Parameters(const NamedTensors& list) : groups{Group{list, {}, 1}} {}
Parameters::Parameters(std::vector<Group> list) : groups(std::move(list)) {}

std::vector<Group> decay_matrices(const NamedTensors& parameters, double weight_decay) {
  std::vector<Group> groups;
  for (const auto& [name, tensor] : parameters) {
    const double decay = tensor.rank() >= 2 ? weight_decay : 0;
    if (groups.empty() || groups.back().weight_decay != decay) groups.push_back({{}, decay, 1});
    groups.back().parameters.emplace_back(name, tensor);
  }
  return groups;
}

Optimizer::Optimizer(const Parameters& parameters, const Schedule& lr, double weight_decay, Rule rule)
    : rule_(std::move(rule)),
      schedule_(lr),
      count_(from_vector(std::vector<int64_t>{0}, {}, {.device = first_device(parameters)})),
      base_(stored(lr.base(), count_.device())) {
  check_rate(rule_.name, lr.base());
  std::set<std::string> names;
  std::set<const TensorSlot*> slots;
  std::vector<Tensor> now;
  size_t number = 0;
  for (const Group& group : parameters.groups) {
    for (const auto& [name, tensor] : group.parameters) {
      if (!is_float(tensor.dtype()))
        throw DTypeError(
            text(rule_.name, ": parameter ", name, " is ", tensor.dtype(), "; only floats can be trained"));
      if (!names.insert(name).second) throw ValueError(text(rule_.name, ": two parameters are called ", name));
      if (!slots.insert(&tensor.slot()).second)
        throw ValueError(text(rule_.name, ": parameter ", name, " is there under another name already"));
      Entry entry{name, tensor, {}, {}, group.weight_decay.value_or(weight_decay), group.lr_factor, number};
      for (size_t i = 0; i < rule_.state.size(); ++i)
        entry.state.push_back(own_zeros(tensor, state_dtype(tensor.dtype())));
      if (size_of(tensor.dtype()) < 4) now.push_back(*(entry.master = cast(tensor.detach(), kF32)));
      now.push_back(tensor);
      entries_.push_back(std::move(entry));
    }
    ++number;
  }
  if (entries_.empty()) throw ValueError(text(rule_.name, ": there are no parameters to train"));
  realize(now);
}

void Optimizer::update(Entry& entry, const Tensor& gradient, const Tensor& lr, const Tensor& number,
                       Assignments& next_values) const {
  Tensor parameter = entry.parameter;
  DType narrow = parameter.dtype(), wide = state_dtype(narrow);
  Tensor value = parameter.detach();  // the state keeps no history of how it came about
  // Where somebody else has changed the parameter, the master copy is out of date.
  const Device there = parameter.device();
  if (entry.master) {
    const Tensor master = entry.master->to(there);
    value = where(eq(cast(master, narrow), value), master, cast(value, wide));
  }
  std::vector<Tensor> state;  // which follows its parameter to another device
  for (const Tensor& each : entry.state) state.push_back(each.to(there));
  Tensor rate = cast(entry.lr_factor == 1 ? lr : lr * entry.lr_factor, wide).to(there);
  Tensor next = rule_.update(value, cast(gradient.detach(), wide), state, {rate, number.to(there), entry.weight_decay});
  for (size_t i = 0; i < state.size(); ++i) next_values.add(entry.state[i], state[i]);
  if (entry.master) next_values.add(*entry.master, next);
  next_values.add(parameter, cast(next, narrow));
}

namespace {

const char* const kNoBackward =
    "call backward() first. If the module was given other tensors since (to() does so), build the optimiser after that";
const char* const kFrozen =
    "it requires none any more: was it frozen after the optimiser was made? Freeze first, then make the optimiser";

}  // namespace

std::string Optimizer::frozen_text() const {
  for (const Entry& e : entries_)
    if (!e.parameter.requires_grad()) return text(". Of ", e.name, ": ", kFrozen);
  return "";
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> list;
  for (const Entry& e : entries_) list.push_back(e.parameter);
  return list;
}

std::vector<Group> Optimizer::groups() const {
  std::vector<Group> list(entries_.back().group + 1);
  for (const Entry& e : entries_) {
    list[e.group].parameters.emplace_back(e.name, e.parameter);
    list[e.group].weight_decay = e.weight_decay;
    list[e.group].lr_factor = e.lr_factor;
  }
  return list;
}

void Optimizer::step(const std::vector<Tensor>& gradients, const std::vector<Tensor>& also) {
  if (gradients.size() != entries_.size())
    throw ValueError(
        text(rule_.name, ": ", gradients.size(), " gradients for ", entries_.size(), " parameters", frozen_text()));
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Entry& e = entries_[i];
    if (static_cast<std::vector<int64_t>>(gradients[i].shape()) != e.parameter.shape())
      throw ShapeError(text(rule_.name, ": a gradient of shape ", gradients[i].shape(), " for parameter ", e.name,
                            " of shape ", e.parameter.shape(),
                            "; gradients come in the order of the optimiser's parameters()"));
    if (gradients[i].dtype() != e.parameter.dtype() && gradients[i].dtype() != state_dtype(e.parameter.dtype()))
      throw DTypeError(text(rule_.name, ": a gradient of dtype ", gradients[i].dtype(), " for parameter ", e.name,
                            " of dtype ", e.parameter.dtype()));
  }
  Tensor done = cast(count_, kF64);
  Tensor rate = base_ * schedule_.factor(done), this_step = done + 1;
  Assignments next;
  for (size_t i = 0; i < gradients.size(); ++i) update(entries_[i], gradients[i], rate, this_step, next);
  const Device first = entries_[0].parameter.device();
  next.add(count_, (count_ + 1).to(first));
  if (!(base_.device() == first)) next.add(base_, base_.to(first));
  assign_together("step", next.tensors, next.values, {}, true);
  next.values.clear();  // whoever holds an expression of the old values keeps their memory

  if (is_capturing()) return;  // the captured function computes everything together
  std::vector<Tensor> all = also;
  all.insert(all.end(), next.tensors.begin(), next.tensors.end());
  realize(all);
}

void Optimizer::step() {
  std::vector<Tensor> gradients;
  for (const Entry& e : entries_) {
    std::optional<Tensor> gradient = e.parameter.grad();
    if (!gradient)
      throw ValueError(text(rule_.name, ": parameter ", e.name, " has no gradient; ",
                            e.parameter.requires_grad() ? kNoBackward : kFrozen));
    gradients.push_back(*gradient);
  }
  step(gradients);
}

void Optimizer::zero_grad() {
  for (const Entry& e : entries_) e.parameter.zero_grad();
}

double Optimizer::lr() const {
  std::vector<Tensor> now = snapshot({base_, count_});
  return now[0].item<double>() * schedule_.factor(static_cast<double>(now[1].item<int64_t>()));
}
void Optimizer::set_lr(double base) {
  check_rate(rule_.name, base);
  base_.assign(stored(base, base_.device()));
}

TensorMap Optimizer::state() const {
  TensorMap result;
  auto collect = [&](const char* name, Tensor& tensor) { result.emplace(name, tensor); };
  const_cast<Optimizer*>(this)->visit(collect);
  return result;
}
void Optimizer::load_state(const TensorMap& values, const std::string& source) {
  nn::detail::assign_all(state(), values, source, "the optimiser");
}

}  // namespace heddle::optim
