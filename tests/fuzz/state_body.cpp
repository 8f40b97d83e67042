// What the bodies of functions do.
#include <algorithm>

#include "fuzz/state_world.h"

namespace heddle::fuzz {
namespace {

constexpr double kRate = 0.0625;
constexpr int kDeepest = 2;  // calls of a function inside of itself

Tensor limited(const Tensor& x) { return clamp(x, -4, 4); }

// y as a vector.
Tensor middle(const Tensor& y) { return mean(y, 0); }

Tensor loss_of(const Tensor& w, const Tensor& y) { return sum(square(w * detach(middle(y)))) * 0.5; }
Tensor loss_of(const StateNet& net, const Tensor& y) { return mean(square(net(detach(y)) - 0.5)); }

bool is_leaf(const Tensor& w) { return w.requires_grad() && w.is_leaf(); }

bool can_use(const StateNet& net, const Tensor& y) { return !(net.batch && net.training && y.size(0) < 2); }

}  // namespace

static Tensor tensor_of(const std::vector<float>& data, const Dims& shape, DType dtype) {
  if (dtype == kF32) return from_vector(data, shape);
  return from_vector(std::vector<double>(data.begin(), data.end()), shape);
}
Tensor data_tensor(int seed, const Dims& shape, DType dtype) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return tensor_of(state_data(seed, static_cast<int>(count)), shape, dtype);
}

Tensor mix(const Tensor& a, const Tensor& b, int form, double number) {
  switch (form) {
    case 0: return limited(a * number + b);
    case 1: return limited(a - b);
    case 2: return limited(a * b * 0.5);
    case 3: return limited(tanh(a) + b);
    case 4: return limited(a * 0.5 + sum(b) * 0.25);
    case 5: return limited(matmul(a, tensor_of(mixing_matrix(), {kWidth, kWidth}, a.dtype())) + b);
    case 6: return limited(maximum(a, b));
    default: return limited(flip(a, -1) + b);
  }
}

static nn::Linear linear(int seed) {
  Generator values(static_cast<uint64_t>(seed));
  return nn::Linear(kWidth, kWidth, true, kF32, values);
}

StateNet::StateNet(int which, int seed, Generator* own, DType dtype)
    : first(linear(seed)), drop(0.5), settings(which), generator(own) {
  middle = tanh() ? nn::Sequential(linear(seed + 1), nn::Tanh()) : nn::Sequential(linear(seed + 1), nn::ReLU());
  const double epsilon = settings & 16 ? 0.5 : 0.125;
  if (settings & 2) norm = nn::LayerNorm(kWidth, epsilon);
  if (settings & 4) batch = nn::BatchNorm1d(kWidth, {.epsilon = epsilon, .momentum = 0.25});
  scale = data_tensor(seed, {kWidth}, kF32).requires_grad_();
  calls = from_vector(std::vector<float>{0}, {});
  buffers = {"calls"};
  if (dtype != kF32) to(dtype);
}

Tensor StateNet::operator()(const Tensor& x) const {
  Tensor y = middle(first(x));
  if (norm) y = (*norm)(y);
  if (batch) y = (*batch)(y);
  if (drops()) y = dropout(y, 0.5, training, *generator);
  if (drops_by_layer()) y = drop(y);
  if (training) {
    Tensor count = calls;
    count += 1;
  }
  return limited(y * scale);
}

namespace {

class BodyRun {
 public:
  BodyRun(const StateClosure& closure, const StateFrame& frame)
      : closure_(closure), frame_(frame), y_(limited(*frame.x * frame.number)) {}

  Tensor run() {
    for (size_t i = 0; i < closure_.body.size(); ++i) {
      if (frame_.fail == static_cast<int>(i) + 1) fail();
      step(closure_.body[i]);
    }
    if (frame_.fail > static_cast<int>(closure_.body.size())) fail();
    return y_;
  }

 private:
  void fail() {
    switch (frame_.fail % 3) {
      case 0: throw ThrownOnPurpose();
      case 1: y_ = y_ + zeros({kWidth + 3}); break;
      default: y_.to_vector<float>(); throw CaptureError("a value was read");
    }
  }

  StateNet* net(const Statement& s) const {
    return frame_.net ? frame_.net : closure_.nets.at(static_cast<size_t>(s.a)).get();
  }
  bool allows(const char* feature) const { return closure_.features->contains(feature); }

  void step(const Statement& s) {
    Tensor w = closure_.v.at(static_cast<size_t>(s.a % kVariables));
    switch (s.op) {
      case StateOp::Mix: y_ = mix(y_, w, s.form, s.number); return;
      case StateOp::AssignState: w.assign(mix(w, middle(y_), s.form, s.number)); return;
      case StateOp::AddState: w += closure_.v.at(static_cast<size_t>(s.b)) * s.number; return;
      case StateOp::SetState: set_state(s, w); return;
      case StateOp::ScatterState:
        if (s.form % 2 == 0)
          w.set({closure_.index}, limited(sum(y_) * s.number));
        else
          w.assign(scatter_reduce(w, 0, closure_.index, middle(y_)(Slice(0, 2)), "amax"));
        return;
      case StateOp::AssignArgument: frame_.x->assign(mix(*frame_.x, w, s.form, s.number)); return;
      case StateOp::AddToList:
        if (frame_.list) (*frame_.list)[0] += s.number;
        return;
      case StateOp::Gather: y_ = limited(y_ + sum(gather(w, closure_.index, 0)) * 0.25); return;
      case StateOp::Draw:
        y_ = limited(y_ + uniform(y_.shape(), -1, 1, kF32, *closure_.generators.at(static_cast<size_t>(s.a))));
        return;
      case StateOp::ClearInside:
        if (auto self = closure_.self.lock()) self->clear();
        return;
      case StateOp::CallInside: call_inside(s); return;
      case StateOp::Gradient:
      case StateOp::Tangent:
      case StateOp::Checkpoint:
      case StateOp::Map:
      case StateOp::TransformState:
      case StateOp::MapState: transform(s, w); return;
      case StateOp::TrainVariable:
      case StateOp::BackwardHistory:
      case StateOp::BackwardVariable: train_variable(s, w); return;
      default: step_of_modules(s);
    }
  }

  void set_state(const Statement& s, Tensor w) {
    const Tensor number = limited(sum(y_) * s.number);
    switch (s.form % 4) {
      case 0: w.set({0}, number); return;
      case 1: w.set({Slice(1, 3)}, limited(w(Slice(0, 2)) * s.number)); return;
      case 2: w.set({Slice(std::nullopt, std::nullopt, -2)}, middle(y_)(Slice(0, 2))); return;
      default: w.set({3}, number); w.set({Slice(0, 2)}, w(Slice(2, 4)));
    }
  }

  void call_inside(const Statement& s) {
    // How deep it is in itself is the same from wherever it is called, as a captured function must be.
    const bool itself = s.a == closure_.number_of_self;
    std::shared_ptr<StateFunction> f = itself ? closure_.self.lock() : closure_.functions.at(static_cast<size_t>(s.a));
    if (!f || (itself && closure_.active > kDeepest)) return;
    Tensor argument = y_ + 0.0;
    double number = s.number;
    int none = 0;
    y_ = limited(f->call(argument, number, none));
  }

  void transform(const Statement& s, Tensor w) {
    auto waves = [&](const Tensor& z) { return tanh(z * w); };
    switch (s.op) {
      case StateOp::Gradient: y_ = grad([&](const Tensor& z) { return sum(waves(z)); })(y_); return;
      case StateOp::Tangent: y_ = jvp(waves, y_, ones_like(y_)).second; return;
      case StateOp::Checkpoint: y_ = checkpoint(waves, y_); return;
      case StateOp::Map: y_ = vmap([&](const Tensor& row) { return limited(row * w + sum(row) * 0.25); })(y_); return;
      case StateOp::TransformState: transform_state(s, w); return;
      default:
        y_ = vmap([&](const Tensor& row) {
          if (depends_on_example(s))
            w.assign(limited(w * s.number + row));
          else
            w += s.number;
          return limited(row * w);
        })(y_);
    }
  }

  bool depends_on_example(const Statement& s) const { return s.form % 4 == 1; }

  void transform_state(const Statement& s, Tensor w) {
    auto f = [&](const Tensor& z) {
      w.assign(mix(w, middle(z), s.form, s.number));
      return tanh(z * w);
    };
    if (s.form % 3 == 0)
      y_ = grad([&](const Tensor& z) { return sum(f(z)); })(y_);
    else
      y_ = s.form % 3 == 1 ? jvp(f, y_, ones_like(y_)).second : checkpoint(f, y_);
  }

  void train_variable(const Statement& s, Tensor w) {
    if (s.op == StateOp::BackwardHistory) {
      if (w.requires_grad() && !w.is_leaf()) loss_of(w, y_).backward();
      return;
    }
    if (!is_leaf(w)) return;
    if (s.op == StateOp::TrainVariable) {
      w.assign(limited(w - grad(loss_of(w, y_), w) * kRate));
      return;
    }
    if (s.form % 3 == 2) w.zero_grad();
    loss_of(w, y_).backward();
    if (s.form % 3 == 1) w.assign(limited(w - *w.grad() * kRate));
  }

  void step_of_modules(const Statement& s) {
    if (s.op == StateOp::UseNet || s.op == StateOp::MapNet) {
      StateNet* used = net(s);
      if (!used || !can_use(*used, y_)) return;
      if (s.op == StateOp::UseNet) {
        y_ = (*used)(y_);
        return;
      }
      if (used->training && used->batch && !allows("vmap_batchnorm")) return;
      y_ = mean(vmap([&](const Tensor& part) { return (*used)(part); })(stack({y_, y_ * 0.5})), 0);
      return;
    }
    const std::shared_ptr<StateOptimizer>& optimizer = closure_.optimizers.at(static_cast<size_t>(s.a % kOptimizers));
    if (s.op == StateOp::StepVariable) {
      if (!optimizer || !optimizer->variable) return;
      Tensor w = *optimizer->variable;
      optimizer->rule->step({grad(loss_of(w, y_), w)});
      return;
    }
    if (frame_.net && frame_.optimizer) {
      if (can_use(*frame_.net, y_)) step_net(s, *frame_.net, *frame_.optimizer, frame_.net->parameters());
    } else if (optimizer && optimizer->net && can_use(*optimizer->net, y_)) {
      step_net(s, *optimizer->net, *optimizer->rule, optimizer->parameters);
    }
  }

  // Parameters may have been frozen since the optimiser was made.
  bool asks(const Tensor& p) const { return allows("requires_grad") ? p.requires_grad() : is_leaf(p); }

  void step_net(const Statement& s, StateNet& trained, optim::Optimizer& rule, const std::vector<Tensor>& parameters) {
    Tensor loss = loss_of(trained, y_);
    if (s.op == StateOp::StepNet) {
      std::vector<Tensor> wanted, gradients;
      for (const Tensor& p : parameters)
        if (asks(p)) wanted.push_back(p);
      if (wanted.empty()) return;
      std::vector<Tensor> found = grad(loss, wanted, {.allow_unused = true});
      for (size_t next = 0; const Tensor& p : parameters) gradients.push_back(asks(p) ? found[next++] : zeros_like(p));
      rule.step(gradients);
    } else if (std::any_of(parameters.begin(), parameters.end(), is_leaf)) {
      if (s.form % 2 == 0) rule.zero_grad();
      loss.backward();
      std::vector<Tensor> gradients;
      bool all = true;
      for (const Tensor& p : parameters) {
        std::optional<Tensor> g = p.grad();
        gradients.push_back(g ? *g : zeros_like(p));
        all &= g.has_value();
      }
      all &= s.form % 4 < 2;
      all ? rule.step() : rule.step(gradients);
      // Gradients that add up from step to step would else be computed anew at each.
      if (!is_capturing()) realize(gradients);
      if (s.form % 3 == 0) rule.zero_grad();
    }
    y_ = limited(y_ + detach(loss));
  }

  const StateClosure& closure_;
  StateFrame frame_;
  Tensor y_;
};

}  // namespace

Tensor run_body(const StateClosure& closure, const StateFrame& frame) {
  struct Active {
    int& count;
    explicit Active(int& c) : count(c) { ++count; }
    ~Active() { --count; }
  } active(closure.active);
  return BodyRun(closure, frame).run();
}

Tensor StateBody::operator()(Tensor& x, double number, int fail) const {
  return run_body(*closure, {.x = &x, .number = number, .fail = fail});
}
TensorList StateBody::operator()(StatePack& pack, int fail) const {
  Tensor y = run_body(*closure, {.x = &pack.x, .list = &pack.list, .number = pack.number, .fail = fail});
  return {y, limited(sum(y, 0) + pack.list[1])};
}
Tensor StateBody::operator()(StateNet& net, Tensor& x, int fail) const {
  return run_body(*closure, {.x = &x, .net = &net, .fail = fail});
}
Tensor StateBody::operator()(StateNet& net, optim::Optimizer& optimizer, Tensor& x, int fail) const {
  return run_body(*closure, {.x = &x, .net = &net, .optimizer = &optimizer, .fail = fail});
}

}  // namespace heddle::fuzz
