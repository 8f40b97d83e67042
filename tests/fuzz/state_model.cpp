#include "fuzz/state_model.h"

#include <algorithm>
#include <numeric>

namespace heddle::fuzz {
namespace {

using Numbers = std::vector<double>;
using Index = std::shared_ptr<const std::vector<int64_t>>;

constexpr double kRate = 0.0625;
constexpr int kDeepest = 2;

size_t at(int i) { return static_cast<size_t>(i); }

Numbers limited(Numbers x) {
  for (double& value : x) value = std::clamp(value, -4.0, 4.0);
  return x;
}

Numbers data(int seed, int count) {
  std::vector<float> values = state_data(seed, count);
  return Numbers(values.begin(), values.end());
}

// f of every element and that of a vector which belongs to its column.
template <class F>
Numbers each(const Numbers& a, const Numbers& b, const F& f) {
  Numbers result = a;
  for (size_t i = 0; i < a.size(); ++i) result[i] = f(a[i], b[i % kWidth]);
  return result;
}

double total(const Numbers& x) { return std::accumulate(x.begin(), x.end(), 0.0); }

Numbers column_means(const Numbers& y) {
  Numbers result(kWidth, 0.0);
  for (size_t i = 0; i < y.size(); ++i) result[i % kWidth] += y[i];
  for (double& value : result) value /= static_cast<double>(y.size()) / kWidth;
  return result;
}

Numbers mix(const Numbers& a, const Numbers& b, int form, double number) {
  const double quarter = total(b) * 0.25;
  switch (form) {
    case 0: return limited(each(a, b, [&](double p, double q) { return p * number + q; }));
    case 1: return limited(each(a, b, [](double p, double q) { return p - q; }));
    case 2: return limited(each(a, b, [](double p, double q) { return p * q * 0.5; }));
    case 3: return limited(each(a, b, [](double p, double q) { return std::tanh(p) + q; }));
    case 4: return limited(each(a, b, [&](double p, double) { return p * 0.5 + quarter; }));
    case 6: return limited(each(a, b, [](double p, double q) { return std::max(p, q); }));
    default: break;
  }
  Numbers result(a.size(), 0.0);
  for (size_t i = 0; i < a.size(); ++i) {
    const size_t row = i / kWidth * kWidth, column = i % kWidth;
    if (form == 5)
      for (size_t k = 0; k < kWidth; ++k) result[i] += a[row + k] * mixing_matrix()[k * kWidth + column];
    else
      result[i] = a[row + kWidth - 1 - column];
    result[i] += b[column];
  }
  return limited(result);
}

}  // namespace

struct StateModel::Slot {
  Numbers value;
  bool leaf = false;
  std::optional<Numbers> gradient = {};
};

struct StateModel::Optimizer {
  int kind;
  std::shared_ptr<Slot> variable;
  double rate = kRate;
  int64_t steps = 0;
  Numbers first = Numbers(kWidth, 0.0), second = first;

  void step(const Numbers& gradient) {
    ++steps;
    Numbers& w = variable->value;
    for (size_t i = 0; i < kWidth; ++i) {
      const double g = gradient[i];
      if (kind == 0) {
        w[i] -= rate * g;
      } else if (kind == 1) {
        first[i] = first[i] * 0.5 + g;
        w[i] -= rate * first[i];
      } else {
        const double n = static_cast<double>(steps);
        first[i] = first[i] * 0.9 + g * 0.1;
        second[i] = second[i] * 0.999 + g * g * 0.001;
        const double mean = first[i] / (1 - std::pow(0.9, n)), square = second[i] / (1 - std::pow(0.999, n));
        w[i] = w[i] * (1 - rate * 0.125) - rate * mean / (std::sqrt(square) + 0.125);
      }
    }
  }
};

struct StateModel::Function {
  std::vector<Statement> body;
  std::vector<Handle> v;
  std::vector<std::shared_ptr<Optimizer>> optimizers;
  std::vector<std::shared_ptr<Function>> functions;
  std::weak_ptr<Function> self;
  int number_of_self = -1;

  struct Frame {
    Slot* x;
    std::vector<Handle>* list = nullptr;
    double number = 1;
    const std::vector<int64_t>* index = nullptr;
    int depth = 0;
  };

  Numbers run(const Frame& frame) const {
    Numbers y = frame.x->value;
    for (double& value : y) value *= frame.number;
    y = limited(y);
    for (const Statement& s : body) step(s, frame, y);
    return y;
  }

 private:
  void step(const Statement& s, const Frame& frame, Numbers& y) const {
    Slot& w = *v.at(at(s.a % kVariables));
    switch (s.op) {
      case StateOp::Mix: y = mix(y, w.value, s.form, s.number); return;
      case StateOp::AssignState: w.value = mix(w.value, column_means(y), s.form, s.number); return;
      case StateOp::AddState: {
        const Numbers other = v.at(at(s.b))->value;
        w.value = each(w.value, other, [&](double p, double q) { return p + q * s.number; });
        return;
      }
      case StateOp::SetState: set_state(s, w.value, y); return;
      case StateOp::ScatterState:
        for (size_t k = 0; k < frame.index->size(); ++k) {
          const int64_t i = (*frame.index)[k];
          double& value = w.value[static_cast<size_t>(i < 0 ? i + kWidth : i)];
          value = s.form % 2 == 0 ? std::clamp(total(y) * s.number, -4.0, 4.0) : std::max(value, column_means(y)[k]);
        }
        return;
      case StateOp::AssignArgument: frame.x->value = mix(frame.x->value, w.value, s.form, s.number); return;
      case StateOp::AddToList:
        if (frame.list)
          for (double& value : (*frame.list)[0]->value) value += s.number;
        return;
      case StateOp::Gather: {
        double sum = 0;
        for (int64_t i : *frame.index) sum += w.value[static_cast<size_t>(i < 0 ? i + kWidth : i)];
        for (double& value : y) value += sum * 0.25;
        y = limited(y);
        return;
      }
      case StateOp::CallInside: {
        const bool itself = s.a == number_of_self;
        std::shared_ptr<Function> f = itself ? self.lock() : functions.at(at(s.a));
        if (!f || (itself && frame.depth >= kDeepest)) return;
        Slot argument{y};
        y = limited(f->run({&argument, nullptr, s.number, frame.index, itself ? frame.depth + 1 : 0}));
        return;
      }
      case StateOp::Gradient:
      case StateOp::Tangent:
        y = each(y, w.value, [](double p, double q) { return q * (1 - std::tanh(p * q) * std::tanh(p * q)); });
        return;
      case StateOp::Checkpoint: y = each(y, w.value, [](double p, double q) { return std::tanh(p * q); }); return;
      case StateOp::Map: {
        Numbers before = y;
        y = each(y, w.value, [](double p, double q) { return p * q; });
        for (size_t i = 0; i < y.size(); ++i)
          for (size_t k = 0; k < kWidth; ++k) y[i] += before[i / kWidth * kWidth + k] * 0.25;
        y = limited(y);
        return;
      }
      case StateOp::MapState:  // where it depends on the example it is refused
        for (double& value : w.value) value += s.number;
        y = limited(each(y, w.value, [](double p, double q) { return p * q; }));
        return;
      default: train(s, w, y);
    }
  }

  static void set_state(const Statement& s, Numbers& w, const Numbers& y) {
    const double number = std::clamp(total(y) * s.number, -4.0, 4.0);
    const Numbers before = w;
    switch (s.form % 4) {
      case 0: w[0] = number; return;
      case 1:
        for (size_t k : {0, 1}) w[1 + k] = std::clamp(before[k] * s.number, -4.0, 4.0);
        return;
      case 2:
        for (size_t k : {0, 1}) w[3 - 2 * k] = column_means(y)[k];
        return;
      default:
        w[3] = number;
        w[0] = before[2];
        w[1] = number;
    }
  }

  // The gradient of sum(square(w * m)) / 2.
  static Numbers gradient(const Slot& w, const Numbers& y) {
    return each(w.value, column_means(y), [](double p, double q) { return p * q * q; });
  }

  void train(const Statement& s, Slot& w, const Numbers& y) const {
    auto move = [&](const Numbers& g) {
      w.value = limited(each(w.value, g, [](double p, double q) { return p - q * kRate; }));
    };
    if (s.op == StateOp::StepVariable) {
      if (const auto& optimizer = optimizers.at(at(s.a % kOptimizers)))
        optimizer->step(gradient(*optimizer->variable, y));
    } else if (s.op == StateOp::TrainVariable && w.leaf) {
      move(gradient(w, y));
    } else if (s.op == StateOp::BackwardVariable && w.leaf) {
      if (s.form % 3 == 2) w.gradient.reset();
      Numbers g = gradient(w, y);
      w.gradient = w.gradient ? each(*w.gradient, g, [](double p, double q) { return p + q; }) : g;
      if (s.form % 3 == 1) move(*w.gradient);
    }
  }
};

StateModel::StateModel() : optimizers_(kOptimizers), functions_(kFunctions) {
  auto slot = [](Numbers value) { return std::make_shared<Slot>(Slot{std::move(value)}); };
  for (int i = 0; i < kVariables; ++i) v_.push_back(slot(data(i, kWidth)));
  v_[kVariables - 1]->leaf = true;
  for (int i = 0; i < kBatches; ++i) x_.push_back(slot(data(10 + i, (i + 1) * kWidth)));
  for (int i = 0; i < kResults; ++i) r_.push_back(slot(Numbers(kWidth, 0.0)));
}
StateModel::~StateModel() = default;

std::shared_ptr<StateModel::Function> StateModel::function(const Statement& s) const {
  auto result = std::make_shared<Function>(Function{s.body, v_, optimizers_, functions_, {}, -1});
  if (s.op == StateOp::Define) {
    result->number_of_self = s.a;
    result->self = result;
  }
  return result;
}

void StateModel::execute(const Statement& s) {
  Handle &v = v_[at(s.a % kVariables)], &x = x_[at(s.a % kBatches)], &r = r_[at(s.b % kResults)];
  const Handle b = v_[at(s.b % kVariables)], c = v_[at(s.c % kVariables)];
  auto made = [](Numbers value, bool leaf = false) { return std::make_shared<Slot>(Slot{std::move(value), leaf}); };
  auto& f = functions_[at(s.a % kFunctions)];
  switch (s.op) {
    case StateOp::Make:
    case StateOp::MakeLeaf: v = made(data(s.b, kWidth), s.op == StateOp::MakeLeaf); return;
    case StateOp::MakeBatch: x = made(data(s.c, s.b * kWidth)); return;
    case StateOp::Compute: v = made(mix(b->value, c->value, s.form, s.number)); return;
    case StateOp::Alias: v = b; return;
    case StateOp::AliasBatch: x = x_[at(s.b % kBatches)]; return;
    case StateOp::Keep: r_[at(s.a % kResults)] = r_[at(s.b % kResults)]; return;
    case StateOp::Clone:
    case StateOp::Detach: v = made(b->value); return;
    case StateOp::Assign: v->value = mix(b->value, c->value, s.form, s.number); return;
    case StateOp::AddTo: {
      const Numbers other = b->value;
      v->value = each(v->value, other, [&](double p, double q) { return p + q * s.number; });
      return;
    }
    case StateOp::Set: v->value[1] = b->value[2] * s.number; return;
    case StateOp::AssignBatch: x->value = mix(x->value, b->value, s.form, s.number); return;
    case StateOp::SetIndex: index_ = {s.form % 3, s.form % 2 == 1 ? 9 : -1}; return;
    case StateOp::OptimizeVariable:
      optimizers_[at(s.a % kOptimizers)] = std::make_shared<Optimizer>(Optimizer{s.c % 3, b});
      return;
    case StateOp::SetRate: optimizers_[at(s.a % kOptimizers)]->rate = kRate * (1 + s.form % 3); return;
    case StateOp::Define: f = function(s); return;
    case StateOp::Run: r = made(function(s)->run({x_[at(s.c)].get(), nullptr, s.number, &index_})); return;
    case StateOp::Call:
      for (int i = 0; i < s.times; ++i) {
        Slot* argument = x_[at(s.c)].get();
        if (s.call == CallForm::Plain) {
          r = made(f->run({argument, nullptr, s.number, &index_}));
          continue;
        }
        std::vector<Handle> list = {v_[at(s.form % kVariables)], v_[at((s.form + 1) % kVariables)]};
        Numbers y = f->run({argument, &list, s.number, &index_}), sums(kWidth, 0.0);
        for (size_t k = 0; k < y.size(); ++k) sums[k % kWidth] += y[k];
        sums = limited(each(sums, list[1]->value, [](double p, double q) { return p + q; }));
        r = made(each(y, sums, [](double p, double q) { return p + q; }));
      }
      return;
    default: return;  // realize and the like change no value
  }
}

StateValues StateModel::values() const {
  StateValues result;
  auto add = [&](const std::string& name, const Slot& slot) {
    result[name] = slot.value;
    if (slot.gradient) result[name + ".grad"] = *slot.gradient;
  };
  auto add_list = [&](const char* name, const std::vector<Handle>& list) {
    for (size_t i = 0; i < list.size(); ++i) add(name + std::to_string(i), *list[i]);
  };
  add_list("v", v_);
  add_list("x", x_);
  add_list("r", r_);
  for (size_t i = 0; i < optimizers_.size(); ++i) {
    if (!optimizers_[i]) continue;
    const Optimizer& optimizer = *optimizers_[i];
    const std::string name = "opt" + std::to_string(i) + ".";
    add(name + "parameter0", *optimizer.variable);
    result[name + "step"] = {static_cast<double>(optimizer.steps)};
    result[name + "lr"] = {optimizer.rate};
    if (optimizer.kind == 1) result[name + "0.momentum_buffer"] = optimizer.first;
    if (optimizer.kind == 2) {
      result[name + "0.exp_avg"] = optimizer.first;
      result[name + "0.exp_avg_sq"] = optimizer.second;
    }
  }
  return result;
}

}  // namespace heddle::fuzz
