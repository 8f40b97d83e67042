#include "fuzz/state_world.h"

#include "tensor/slot.h"

namespace heddle::fuzz {
namespace {

size_t at(int i) { return static_cast<size_t>(i); }

// What there is to see of a tensor, without computing the tensor itself.
std::vector<double> seen(const Tensor& x) { return x.clone().to_vector<double>(); }

bool is_leaf(const Tensor& w) { return w.requires_grad() && w.is_leaf(); }

// Whether a function that does this may be mapped or differentiated: it changes no state, or, if that does not matter,
// none but variables.
bool is_harmless(StateOp op, bool with_state) {
  switch (op) {
    case StateOp::Mix:
    case StateOp::Gradient:
    case StateOp::Tangent:
    case StateOp::Checkpoint:
    case StateOp::Map:
    case StateOp::CallInside: return true;
    case StateOp::AssignState:
    case StateOp::AddState:
    case StateOp::SetState: return with_state;
    default: return false;
  }
}

constexpr int kDeepest = 4;  // functions inside of functions that are looked at

void add_tensors(StateTensors& tensors, const std::vector<Tensor>& list) {
  for (const Tensor& x : list) tensors.emplace(&x.slot(), x);
}
void add_tensors(StateTensors& tensors, const StateNet& net) {
  for (const auto& [name, x] : net.state()) tensors.emplace(&x.slot(), x);
}
void add_tensors(StateTensors& tensors, const StateOptimizer& optimizer) {
  if (optimizer.net) add_tensors(tensors, *optimizer.net);
  add_tensors(tensors, optimizer.parameters);
  for (const auto& [name, x] : optimizer.rule->state()) tensors.emplace(&x.slot(), x);
}

}  // namespace

// ---- functions ----

StateFunction::StateFunction(std::shared_ptr<StateClosure> closure, bool captured) : closure_(std::move(closure)) {
  if (captured) captured_.emplace(jit(StateBody{closure_}));
}

uint64_t StateFunction::replays() const {
  uint64_t result = 0;
  if (captured_)
    for (const JitPlan& plan : captured_->plans()) result += plan.calls - std::min(plan.calls, plan.recordings);
  return result;
}

bool StateFunction::has(StateOp op, int depth) const {
  for (const Statement& s : closure_->body) {
    if (s.op == op) return true;
    if (s.op == StateOp::CallInside && depth < kDeepest && s.a != closure_->number_of_self)
      if (const auto& inner = closure_->functions.at(at(s.a)); inner && inner->has(op, depth + 1)) return true;
  }
  return false;
}

bool StateFunction::is_pure(bool with_state, int depth) const {
  for (const Statement& s : closure_->body) {
    if (!is_harmless(s.op, with_state)) return false;
    if (s.op == StateOp::CallInside && depth < kDeepest && s.a != closure_->number_of_self)
      if (const auto& inner = closure_->functions.at(at(s.a)); inner && !inner->is_pure(with_state, depth + 1))
        return false;
  }
  return true;
}

void StateFunction::collect_tensors(StateTensors& tensors, int depth) const {
  add_tensors(tensors, closure_->v);
  add_tensors(tensors, {closure_->index});
  for (const auto& net : closure_->nets)
    if (net) add_tensors(tensors, *net);
  for (const auto& optimizer : closure_->optimizers)
    if (optimizer) add_tensors(tensors, *optimizer);
  if (depth < kDeepest)
    for (const auto& inner : closure_->functions)
      if (inner) inner->collect_tensors(tensors, depth + 1);
}

// ---- the world ----

StateWorld::StateWorld(const StateProgram& program, bool captured, std::string folder)
    : program_(program),
      captured_(captured),
      folder_(std::move(folder)),
      rows_(dim("n", 1, 8)),
      index_(from_vector(std::vector<int64_t>{0, 3}, {2})),
      nets_(kNets),
      optimizers_(kOptimizers),
      functions_(kFunctions) {
  for (int i = 0; i < kVariables; ++i) v_.push_back(data_tensor(i, {kWidth}, dtype()));
  v_[kVariables - 1].requires_grad_();
  for (int i = 0; i < kBatches; ++i) x_.push_back(batch(i + 1, 10 + i));
  for (int i = 0; i < kResults; ++i) r_.push_back(zeros({1, kWidth}, dtype()));
  for (int i = 0; i < kGenerators; ++i) generators_.push_back(std::make_unique<Generator>(static_cast<uint64_t>(i)));
}

Tensor StateWorld::batch(int rows, int seed) const {
  Tensor x = data_tensor(seed, {rows, kWidth}, dtype());
  return program_.symbolic ? x.with_dim(0, rows_) : x;
}

std::shared_ptr<StateClosure> StateWorld::closure(const std::vector<Statement>& body) const {
  auto result = std::make_shared<StateClosure>();
  result->body = body;
  result->v = v_;
  result->index = index_;
  result->nets = nets_;
  result->optimizers = optimizers_;
  for (const auto& generator : generators_) result->generators.push_back(generator.get());
  result->functions = functions_;
  result->features = &program_.features;
  return result;
}

StateWorld::Expected StateWorld::expected(const Statement& s) const {
  const auto& f = functions_[at(s.a % kFunctions)];
  const auto& net = nets_[at(s.a % kNets)];
  const auto& other = nets_[at(s.b % kNets)];
  auto if_so = [](bool applies) { return applies ? Expected::Work : Expected::Nothing; };
  switch (s.op) {
    case StateOp::Train:
    case StateOp::Freeze:
    case StateOp::ChangeNet:
    case StateOp::Rebind: return if_so(net != nullptr);
    case StateOp::CopyNet:
    case StateOp::ShareNet:
    case StateOp::OptimizeNet: return if_so(other != nullptr && !other->parameters().empty());
    case StateOp::SaveAndLoad:
    case StateOp::LoadState:
      if (!net || !other) return Expected::Nothing;
      return (net->settings & 6) == (other->settings & 6) ? Expected::Work : Expected::Throw;
    case StateOp::OptimizeVariable: return if_so(is_leaf(v_[at(s.b)]));
    case StateOp::SetRate: return if_so(optimizers_[at(s.a)] != nullptr);
    case StateOp::Clear: return if_so(f != nullptr);
    case StateOp::VmapOf: return if_so(f && f->is_pure(false));
    case StateOp::GradOf:
    case StateOp::JvpOf:
    case StateOp::CheckpointOf: return if_so(f && f->is_pure(true));
    case StateOp::Call: {
      if (!f) return Expected::Nothing;
      if (s.call == CallForm::Module && !nets_[at(s.form % kNets)]) return Expected::Nothing;
      const auto& optimizer = optimizers_[at(s.form % kOptimizers)];
      if (s.call == CallForm::Optimizer && (!optimizer || !optimizer->net)) return Expected::Nothing;
      const bool throws = s.fail > 0 || (index_is_bad_ && (f->has(StateOp::Gather) || f->has(StateOp::ScatterState)));
      return throws ? Expected::Throw : Expected::Work;
    }
    case StateOp::Run: {
      // Nothing is computed before somebody looks, so a bad position would throw later.
      const StateFunction body(closure(s.body), false);
      return if_so(!(index_is_bad_ && (body.has(StateOp::Gather) || body.has(StateOp::ScatterState))));
    }
    default: return Expected::Work;
  }
}

bool StateWorld::is_given_twice(const Statement& s) const {
  if (s.op != StateOp::Call) return false;
  std::vector<Tensor> given = {x_[at(s.c)]};
  if (s.call == CallForm::Pack) {
    given.push_back(v_[at(s.form % kVariables)]);
    given.push_back(v_[at((s.form + 1) % kVariables)]);
  }
  std::shared_ptr<StateNet> net = s.call == CallForm::Module ? nets_[at(s.form % kNets)] : nullptr;
  if (s.call == CallForm::Optimizer) {
    const StateOptimizer& optimizer = *optimizers_[at(s.form % kOptimizers)];
    net = optimizer.net;
    for (const auto& [name, x] : optimizer.rule->state()) given.push_back(x);
  }
  if (net)
    for (const auto& [name, x] : net->state()) given.push_back(x);
  StateTensors tensors;
  functions_[at(s.a)]->collect_tensors(tensors);
  for (const Tensor& x : given)
    if (!tensors.emplace(&x.slot(), x).second) return true;
  return false;
}

void StateWorld::execute(const Statement& s) {
  if (s.op < StateOp::MakeNet) {
    execute_tensors(s);
  } else if (s.op < StateOp::Define) {
    execute_modules(s);
  } else {
    execute_functions(s);
  }
}

void StateWorld::execute_tensors(const Statement& s) {
  Tensor &v = v_[at(s.a % kVariables)], &x = x_[at(s.a % kBatches)];
  const Tensor &b = v_[at(s.b % kVariables)], &c = v_[at(s.c % kVariables)];
  switch (s.op) {
    case StateOp::Make: v = data_tensor(s.b, {kWidth}, dtype()); return;
    case StateOp::MakeLeaf: v = data_tensor(s.b, {kWidth}, dtype()).requires_grad_(); return;
    case StateOp::MakeBatch: x = batch(s.b, s.c); return;
    case StateOp::Compute: v = mix(b, c, s.form, s.number); return;
    case StateOp::Alias: v = b; return;
    case StateOp::AliasBatch: x = x_[at(s.b % kBatches)]; return;
    case StateOp::Keep: r_[at(s.a % kResults)] = r_[at(s.b % kResults)]; return;
    case StateOp::Clone: v = b.clone(); return;
    case StateOp::Detach: v = b.detach(); return;
    case StateOp::Assign: v.assign(mix(b, c, s.form, s.number)); return;
    case StateOp::AddTo: v += b * s.number; return;
    case StateOp::Set: v.set({1}, b[2] * s.number); return;
    case StateOp::AssignBatch: x.assign(mix(x, b, s.form, s.number)); return;
    case StateOp::Realize: v.realize(); return;
    case StateOp::RealizeAll: {
      std::vector<Tensor> all = v_;
      all.insert(all.end(), x_.begin(), x_.end());
      all.insert(all.end(), r_.begin(), r_.end());
      realize(all);
      return;
    }
    case StateOp::SetIndex:
      index_is_bad_ = s.form % 2 == 1;
      index_.assign(from_vector(std::vector<int64_t>{s.form % 3, index_is_bad_ ? 9 : -1}, {2}));
      return;
    default: return;
  }
}

void StateWorld::execute_modules(const Statement& s) {
  auto& net = nets_[at(s.a % kNets)];
  auto& other = nets_[at(s.b % kNets)];
  switch (s.op) {
    case StateOp::MakeNet: net = std::make_shared<StateNet>(s.b, s.c, generators_[0].get(), dtype()); return;
    case StateOp::CopyNet: net = std::make_shared<StateNet>(other->copy()); return;
    case StateOp::ShareNet: net = std::make_shared<StateNet>(*other); return;
    case StateOp::Train: net->train(s.b % 2 == 1); return;
    case StateOp::Freeze: {
      const char* part = s.b % 2 == 0 ? "first" : "middle";
      s.form % 2 == 0 ? net->freeze(part) : net->unfreeze(part);
      return;
    }
    case StateOp::SaveAndLoad: {
      const std::string file = folder_ + (captured_ ? "/captured" : "/plain");
      net->save(file);
      other->load(file);
      return;
    }
    case StateOp::LoadState: other->load_state(net->state()); return;
    case StateOp::ChangeNet: net->first.weight.assign(net->first.weight.detach() * s.number); return;
    case StateOp::Rebind: net->first.weight = data_tensor(s.c, {kWidth, kWidth}, dtype()).requires_grad_(); return;
    case StateOp::OptimizeNet:
    case StateOp::OptimizeVariable: {
      auto result = std::make_shared<StateOptimizer>();
      if (s.op == StateOp::OptimizeNet) {
        result->net = other;
        result->parameters = other->parameters();
      } else {
        result->variable = v_[at(s.b % kVariables)];
        result->parameters = {*result->variable};
      }
      const double lr = 0.0625;
      switch (s.c % 3) {
        case 0: result->rule = optim::SGD(result->parameters, {.lr = lr}); break;
        case 1: result->rule = optim::SGD(result->parameters, {.lr = lr, .momentum = 0.5}); break;
        default: result->rule = optim::AdamW(result->parameters, {.lr = lr, .epsilon = 0.125, .weight_decay = 0.125});
      }
      optimizers_[at(s.a % kOptimizers)] = result;
      return;
    }
    case StateOp::SetRate: optimizers_[at(s.a % kOptimizers)]->rule->set_lr(0.0625 * (1 + s.form % 3)); return;
    case StateOp::Seed: generators_[at(s.a % kGenerators)]->manual_seed(static_cast<uint64_t>(s.b)); return;
    default: return;
  }
}

Tensor StateWorld::call(StateFunction& f, const Statement& s) {
  Tensor& x = x_[at(s.c)];
  double number = s.number;
  int fail = s.fail;
  switch (s.call) {
    case CallForm::Plain: return f.call(x, number, fail);
    case CallForm::Pack: {
      StatePack pack{x, {v_[at(s.form % kVariables)], v_[at((s.form + 1) % kVariables)]}, number};
      TensorList results = f.call(pack, fail);
      return results[0] + results[1];
    }
    case CallForm::Module: return f.call(*nets_[at(s.form % kNets)], x, fail);
    default: {
      StateOptimizer& optimizer = *optimizers_[at(s.form % kOptimizers)];
      return f.call(*optimizer.net, *optimizer.rule, x, fail);
    }
  }
}

// What a captured function assigns, and what it gives, is a constant for gradients.
Tensor StateWorld::call_plain(StateFunction& f, const Statement& s) {
  StateTensors tensors;
  f.collect_tensors(tensors);
  add_tensors(tensors, v_);
  add_tensors(tensors, x_);
  for (const auto& net : nets_)
    if (net) add_tensors(tensors, *net);
  for (const auto& optimizer : optimizers_)
    if (optimizer) add_tensors(tensors, *optimizer);
  std::map<const TensorSlot*, uint64_t> before;
  for (const auto& [slot, x] : tensors) before[slot] = slot->version;
  Tensor result = call(f, s);
  for (auto& [slot, x] : tensors)
    if (slot->version != before[slot] && x.requires_grad() && !x.is_leaf()) x.assign(x.detach());
  return result.requires_grad() ? result.detach() : result;
}

void StateWorld::execute_functions(const Statement& s) {
  auto& f = functions_[at(s.a % kFunctions)];
  auto applied = [&](const Tensor& x) {
    Tensor argument = x;
    double number = s.number;
    int none = 0;
    return f->call(argument, number, none);
  };
  Tensor& r = r_[at(s.b % kResults)];
  const Tensor x = s.c < kBatches ? x_[at(s.c)] : x_[0];
  switch (s.op) {
    case StateOp::Define: {
      std::shared_ptr<StateClosure> made = closure(s.body);
      made->number_of_self = s.a;
      f = std::make_shared<StateFunction>(made, captured_);
      made->self = f;
      return;
    }
    case StateOp::Call:
      for (int i = 0; i < s.times; ++i) r = captured_ ? call(*f, s) : call_plain(*f, s);
      return;
    case StateOp::Run: {
      Tensor& argument = x_[at(s.c)];
      r = run_body(*closure(s.body), {.x = &argument, .number = s.number});
      return;
    }
    case StateOp::Clear: f->clear(); return;
    case StateOp::GradOf: r = grad([&](const Tensor& z) { return sum(applied(z)); })(x); return;
    case StateOp::VmapOf:
      r = vmap([&](const Tensor& row) { return squeeze(applied(unsqueeze(row, 0)), 0); })(x);
      return;
    case StateOp::JvpOf: r = jvp(applied, x, ones_like(x)).second; return;
    case StateOp::CheckpointOf: r = checkpoint(applied, x); return;
    default: return;
  }
}

uint64_t StateWorld::replays() const {
  uint64_t result = 0;
  for (const auto& f : functions_) result += f ? f->replays() : 0;
  return result;
}

StateValues StateWorld::values() const {
  StateValues result;
  auto add = [&](const std::string& name, const Tensor& x) {
    result[name] = seen(x);
    if (is_float(x.dtype()))
      if (std::optional<Tensor> g = x.grad()) result[name + ".grad"] = seen(*g);
  };
  auto add_list = [&](const char* name, const std::vector<Tensor>& list) {
    for (size_t i = 0; i < list.size(); ++i) add(name + std::to_string(i), list[i]);
  };
  add_list("v", v_);
  add_list("x", x_);
  add_list("r", r_);
  for (size_t i = 0; i < nets_.size(); ++i)
    if (nets_[i])
      for (const auto& [name, x] : nets_[i]->state()) add("net" + std::to_string(i) + "." + name, x);
  for (size_t i = 0; i < optimizers_.size(); ++i) {
    if (!optimizers_[i]) continue;
    for (const auto& [name, x] : optimizers_[i]->rule->state()) add("opt" + std::to_string(i) + "." + name, x);
    for (size_t k = 0; k < optimizers_[i]->parameters.size(); ++k)
      add("opt" + std::to_string(i) + ".parameter" + std::to_string(k), optimizers_[i]->parameters[k]);
  }
  for (size_t i = 0; i < generators_.size(); ++i) {
    Generator::State state = generators_[i]->state();
    result["generator" + std::to_string(i)] = {static_cast<double>(state.seed), static_cast<double>(state.draws)};
  }
  return result;
}

}  // namespace heddle::fuzz
