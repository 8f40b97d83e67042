// Optimisers in one general form: tensors of state for each parameter, and a rule that makes new values of old ones.
// The rule is plain tensor code on slots, so a step works on its own and inside a captured function.
#pragma once

#include <heddle/nn/module.h>
#include <heddle/optim/schedule.h>

namespace heddle::optim {

// Parameters that share settings.
struct Group {
  NamedTensors parameters;
  std::optional<double> weight_decay;  // instead of the optimiser's
  double lr_factor = 1;
};

// What an optimiser trains: `net.parameters()` (which it calls "0", "1", ...), `net.named_parameters()`, a module, or
// groups.
class Parameters {
 public:
  Parameters(const std::vector<Tensor>& list);
  Parameters(std::initializer_list<Tensor> list) : Parameters(std::vector<Tensor>(list)) {}
  Parameters(const NamedTensors& list);
  Parameters(std::vector<Group> list);
  template <class M>
    requires requires(const M& module) {
      { module.named_parameters() } -> std::same_as<NamedTensors>;
    }
  Parameters(const M& module) : Parameters(module.named_parameters()) {}
  std::vector<Group> groups;
};

// Tensors of two axes or more with weight decay, the others (biases, norms) without. Neighbours of one kind share a
// group, so the order stays: gradients of `net.parameters()` fit.
std::vector<Group> decay_matrices(const NamedTensors& parameters, double weight_decay);

// What a rule may use besides tensors of the parameter's shape.
struct Settings {
  Tensor lr;    // no axes, in the dtype of the state
  Tensor step;  // no axes, f64: this step's number, from 1 on
  double weight_decay = 0;
};

struct Rule {
  std::string name;
  std::vector<std::string> state;  // tensors of the parameter's shape, zero at first
  // The new value of a parameter. `state` holds the old tensors and receives the new ones.
  std::function<Tensor(const Tensor& parameter, const Tensor& gradient, std::span<Tensor> state, const Settings& now)>
      update;
};

// Parameters in f16, bf16 or f8 have an f32 copy ("master") in the state that is updated and rounded; it follows when
// the parameter is changed by others. Their state and arithmetic are f32, those of f64 parameters f64.
class Optimizer {
 public:
  Optimizer(const Parameters& parameters, const Schedule& lr, double weight_decay, Rule rule);

  // What it trains: all groups, one after the other.
  std::vector<Tensor> parameters() const;
  // The same by group, with its settings.
  std::vector<Group> groups() const;

  // One step. Gradients come in the order of parameters(). Outside of a captured
  // function the new values are computed at once, together with `also`: put the loss there.
  void step(const std::vector<Tensor>& gradients, const std::vector<Tensor>& also = {});

  // The same with what backward() has added up in the parameters' grad().
  void step();
  void zero_grad();

  // The rate of the next step; group factors come on top.
  double lr() const;
  // Another base rate; the schedule's factors stay.
  void set_lr(double base);
  int64_t steps_done() const { return count_.item<int64_t>(); }
  const Rule& rule() const { return rule_; }

  // Everything that changes, by name: "step", "lr", "0.weight.exp_avg".
  TensorMap state() const;
  // All names, shapes and dtypes must agree, or nothing changes.
  void load_state(const TensorMap& values, const std::string& source = "load_state");

  template <class V>
  void visit(V& v) {
    v("step", count_);
    v("lr", base_);
    for (Entry& e : entries_) {
      for (size_t i = 0; i < e.state.size(); ++i) v((e.name + "." + rule_.state[i]).c_str(), e.state[i]);
      if (e.master) v((e.name + ".master").c_str(), *e.master);
    }
  }

  // For captured functions that are given the optimiser: its tensors and those that it trains.
  void collect_parts(Parts& parts) {
    parts.identities.push_back(identity_);
    visit(parts);
    for (Entry& e : entries_) parts.add(e.parameter);
  }

 private:
  struct Entry {
    std::string name;
    Tensor parameter;
    std::vector<Tensor> state;
    std::optional<Tensor> master;
    double weight_decay, lr_factor;
    size_t group;
  };
  struct Assignments;
  std::string frozen_text() const;
  void update(Entry& entry, const Tensor& gradient, const Tensor& lr, const Tensor& number, Assignments& next) const;

  Rule rule_;
  Schedule schedule_;
  Tensor count_;  // i64: steps done
  Tensor base_;   // f64: the schedule's base
  std::vector<Entry> entries_;
  uint64_t identity_ = new_identity();  // of rule, schedule and the parameters' settings, which never change
};

}  // namespace heddle::optim

namespace heddle {

template <std::derived_from<optim::Optimizer> T>
struct PartsOf<T> {
  static void collect(Parts& parts, T& optimizer) {
    optimizer.collect_parts(parts);
    if (sizeof(T) != sizeof(optim::Optimizer)) parts.complete = false;  // it has settings of its own
  }
};

}  // namespace heddle
