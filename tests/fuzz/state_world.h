// The variables of a program of fuzz_states, as Heddle's tensors, modules and optimisers; and what statements do to
// them. In a captured world functions are captured, in a plain one they are what they are.
#pragma once

#include <heddle/heddle.h>

#include <memory>
#include <optional>

#include "fuzz/state_values.h"
#include "fuzz/states.h"

namespace heddle::fuzz {

// A module with modules, settings that are no tensors, and a buffer that counts the calls while training.
struct StateNet : nn::Module<StateNet> {
  nn::Linear first;
  nn::Sequential middle;
  std::optional<nn::LayerNorm> norm;
  std::optional<nn::BatchNorm1d> batch;
  nn::Dropout drop;
  Tensor scale, calls;
  int settings;
  Generator* generator;

  StateNet(int settings, int seed, Generator* generator, DType dtype);
  bool tanh() const { return settings & 1; }
  bool drops() const { return settings & 8; }
  bool drops_by_layer() const { return settings & 32; }
  Tensor operator()(const Tensor& x) const;
  template <class V>
  void visit(V& v) {
    v("first", first);
    v("middle", middle);
    v("norm", norm);
    v("batch", batch);
    v("drop", drop);
    v("scale", scale);
    v("calls", calls);
  }
};

struct StateOptimizer {
  std::optional<optim::Optimizer> rule;
  std::shared_ptr<StateNet> net;   // what it trains
  std::optional<Tensor> variable;  // or this
  std::vector<Tensor> parameters;
};

// A struct as an argument.
struct StatePack {
  Tensor x;
  std::vector<Tensor> list;
  double number = 1;
  template <class V>
  void visit(V& v) {
    v("x", x);
    v("list", list);
    v("number", number);
  }
};

class StateFunction;

using StateTensors = std::map<const TensorSlot*, Tensor>;  // each once

// What a function closes over: handles, as they were when it was made.
struct StateClosure {
  std::vector<Statement> body;
  std::vector<Tensor> v;
  Tensor index;
  std::vector<std::shared_ptr<StateNet>> nets;
  std::vector<std::shared_ptr<StateOptimizer>> optimizers;
  std::vector<Generator*> generators;
  std::vector<std::shared_ptr<StateFunction>> functions;
  std::weak_ptr<StateFunction> self;
  int number_of_self = -1;
  mutable int active = 0;  // how often its body is running
  const std::set<std::string>* features = nullptr;
};

// What bodies see besides.
struct StateFrame {
  Tensor* x = nullptr;
  std::vector<Tensor>* list = nullptr;
  StateNet* net = nullptr;
  optim::Optimizer* optimizer = nullptr;
  double number = 1;
  int fail = 0;
};

// Runs a body and gives y.
Tensor run_body(const StateClosure& closure, const StateFrame& frame);

struct StateBody {
  std::shared_ptr<StateClosure> closure;
  Tensor operator()(Tensor& x, double number, int fail) const;
  TensorList operator()(StatePack& pack, int fail) const;
  Tensor operator()(StateNet& net, Tensor& x, int fail) const;
  Tensor operator()(StateNet& net, optim::Optimizer& optimizer, Tensor& x, int fail) const;
};

class StateFunction {
 public:
  StateFunction(std::shared_ptr<StateClosure> closure, bool captured);
  // With the captured function, or the body itself.
  template <class... A>
  auto call(A&... arguments) {
    return captured_ ? (*captured_)(arguments...) : StateBody{closure_}(arguments...);
  }
  void clear() {
    if (captured_) captured_->clear();
  }
  uint64_t replays() const;  // calls that recorded nothing
  const StateClosure& closure() const { return *closure_; }
  // Whether its body, or that of a function it calls, has such a statement.
  bool has(StateOp op, int depth = 0) const;
  // Whether it changes nothing (or variables alone) and draws nothing.
  bool is_pure(bool with_state, int depth = 0) const;
  // All it closes over.
  void collect_tensors(StateTensors& tensors, int depth = 0) const;

 private:
  std::shared_ptr<StateClosure> closure_;
  std::optional<Jit<StateBody>> captured_;
};

class StateWorld {
 public:
  StateWorld(const StateProgram& program, bool captured, std::string folder);
  // What the statement must do: nothing (it does not apply), or throw and leave everything as it is, or work.
  enum class Expected { Nothing, Throw, Work };
  Expected expected(const Statement& statement) const;
  // Whether a captured function is given one tensor under two names.
  bool is_given_twice(const Statement& statement) const;
  void execute(const Statement& statement);
  StateValues values() const;
  uint64_t replays() const;  // of functions that still exist

 private:
  void execute_tensors(const Statement& s);
  void execute_modules(const Statement& s);
  void execute_functions(const Statement& s);
  Tensor call(StateFunction& f, const Statement& s);
  Tensor call_plain(StateFunction& f, const Statement& s);
  DType dtype() const { return program_.wide ? kF64 : kF32; }
  Tensor batch(int rows, int seed) const;
  std::shared_ptr<StateClosure> closure(const std::vector<Statement>& body) const;

  const StateProgram& program_;
  bool captured_;
  std::string folder_;
  Dim rows_;
  std::vector<Tensor> v_, x_, r_;
  Tensor index_;
  bool index_is_bad_ = false;
  std::vector<std::shared_ptr<StateNet>> nets_;
  std::vector<std::shared_ptr<StateOptimizer>> optimizers_;
  std::vector<std::unique_ptr<Generator>> generators_;
  std::vector<std::shared_ptr<StateFunction>> functions_;
};

// The data that programs begin with.
Tensor data_tensor(int seed, const Dims& shape, DType dtype);
Tensor mix(const Tensor& a, const Tensor& b, int form, double number);

}  // namespace heddle::fuzz
