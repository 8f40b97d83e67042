#include "fuzz/states.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "graph/random_graph.h"

namespace heddle::fuzz {
namespace {

using testing::Random;

struct Choice {
  StateOp op;
  int weight;
  const char* feature;  // what it needs, or null
  bool simple;          // the model knows it
};

const std::vector<Choice> kAbove = {
    {StateOp::Make, 2, nullptr, true},
    {StateOp::MakeLeaf, 2, nullptr, true},
    {StateOp::MakeBatch, 3, nullptr, true},
    {StateOp::Compute, 3, nullptr, true},
    {StateOp::Alias, 3, nullptr, true},
    {StateOp::AliasBatch, 1, nullptr, true},
    {StateOp::Keep, 1, nullptr, true},
    {StateOp::Clone, 2, nullptr, true},
    {StateOp::Detach, 1, nullptr, true},
    {StateOp::Assign, 4, nullptr, true},
    {StateOp::AddTo, 3, nullptr, true},
    {StateOp::Set, 2, nullptr, true},
    {StateOp::AssignBatch, 2, nullptr, true},
    {StateOp::Realize, 3, nullptr, true},
    {StateOp::RealizeAll, 1, nullptr, true},
    {StateOp::SetIndex, 2, "exceptions", true},
    {StateOp::MakeNet, 4, "nets", false},
    {StateOp::CopyNet, 1, "nets", false},
    {StateOp::ShareNet, 1, "nets", false},
    {StateOp::Train, 3, "nets", false},
    {StateOp::Freeze, 2, "freeze", false},
    {StateOp::SaveAndLoad, 1, "files", false},
    {StateOp::LoadState, 1, "nets", false},
    {StateOp::ChangeNet, 2, "nets", false},
    {StateOp::Rebind, 5, "rebind", false},
    {StateOp::OptimizeNet, 3, "optimizers", false},
    {StateOp::OptimizeVariable, 3, "optimizers", true},
    {StateOp::SetRate, 1, "optimizers", true},
    {StateOp::Seed, 1, "generators", false},
    {StateOp::Define, 6, nullptr, true},
    {StateOp::Call, 20, nullptr, true},
    {StateOp::Run, 4, nullptr, true},
    {StateOp::Clear, 1, nullptr, true},
    {StateOp::GradOf, 3, "grad_jitted", false},
    {StateOp::VmapOf, 4, "vmap_jitted", false},
    {StateOp::JvpOf, 1, "grad_jitted", false},
    {StateOp::CheckpointOf, 1, "grad_jitted", false},
};

const std::vector<Choice> kInside = {
    {StateOp::Mix, 5, nullptr, true},
    {StateOp::AssignState, 5, nullptr, true},
    {StateOp::AddState, 3, nullptr, true},
    {StateOp::SetState, 2, nullptr, true},
    {StateOp::ScatterState, 2, nullptr, true},
    {StateOp::AssignArgument, 2, nullptr, true},
    {StateOp::AddToList, 2, nullptr, true},
    {StateOp::UseNet, 5, "nets", false},
    {StateOp::Draw, 2, "generators", false},
    {StateOp::StepNet, 5, "optimizers", false},
    {StateOp::BackwardNet, 3, "optimizers", false},
    {StateOp::TrainVariable, 2, nullptr, true},
    {StateOp::BackwardVariable, 3, nullptr, true},
    {StateOp::StepVariable, 3, "optimizers", true},
    {StateOp::CallInside, 3, nullptr, true},
    {StateOp::Gradient, 1, "transforms", true},
    {StateOp::Tangent, 1, "transforms", true},
    {StateOp::Checkpoint, 1, "transforms", true},
    {StateOp::Map, 1, "transforms", true},
    {StateOp::MapState, 4, "vmap_state", true},
    {StateOp::MapNet, 2, "transforms", false},
    {StateOp::TransformState, 2, "transforms", false},
    {StateOp::BackwardHistory, 2, "history", false},
    {StateOp::Gather, 2, nullptr, true},
    {StateOp::ClearInside, 1, "clear_inside", true},
};

class Maker {
 public:
  Maker(uint64_t seed, const std::set<std::string>& features, bool symbolic) : random_(seed ^ 0x73746174) {
    program_.features = features;
    program_.symbolic = symbolic;
    program_.simple = random_.chance(0.4);
    program_.careful = random_.chance(0.25);
  }

  StateProgram make() {
    choose_subject();
    // Most programs want a module and an optimiser, and all of them a function.
    if (!program_.simple && allows("nets") && (subject_.feature || random_.chance(0.3))) {
      const int count = subject_.modules || random_.chance(0.3) ? 2 : 1;
      for (int i = 0; i < count; ++i) {
        add(StateOp::MakeNet);
        program_.statements.back().a = i;
      }
      // Two modules that differ in what is no tensor.
      Statement& last = program_.statements.back();
      if (count == 2 && random_.chance(0.7))
        last.b = program_.statements[0].b ^ random_.of(std::vector<int>{0, 1, 8, 16});
      for (int i = 0; i < count && allows("optimizers") && random_.chance(0.7); ++i) {
        add(StateOp::OptimizeNet);
        program_.statements.back().a = program_.statements.back().b = i;
      }
    }
    add(StateOp::Define);
    for (int64_t i = 0, count = random_.between(3, 8); i < count; ++i) {
      const bool wanted = !subject_.above.empty() && random_.chance(0.5);
      add(wanted ? random_.of(subject_.above) : pick(kAbove));
    }
    add(StateOp::Call);
    return std::move(program_);
  }

 private:
  // What a program is about, so that it does something to one thing more than once.
  struct Subject {
    const char* feature;
    bool modules;                 // it needs two
    std::vector<StateOp> inside;  // one of these begins a body
    std::vector<StateOp> above;
    std::optional<CallForm> call = {};
  };

  void choose_subject() {
    const std::vector<StateOp> steps = {StateOp::UseNet, StateOp::StepNet, StateOp::BackwardNet};
    const std::vector<Subject> subjects = {
        {nullptr, false, {}, {}},
        {nullptr, false, {}, {StateOp::Call}},
        {nullptr, false, {}, {StateOp::Call, StateOp::Alias, StateOp::Assign}},
        {nullptr, false, {StateOp::StepVariable, StateOp::TrainVariable}, {StateOp::Call, StateOp::OptimizeVariable}},
        {nullptr, false, {StateOp::Gather}, {StateOp::Call, StateOp::SetIndex}},
        {nullptr, false, {StateOp::SetState, StateOp::ScatterState}, {StateOp::Call, StateOp::SetIndex}},
        {nullptr, false, {StateOp::AssignState, StateOp::AddState, StateOp::BackwardVariable}, {StateOp::Call}},
        {nullptr, false, {StateOp::AssignArgument, StateOp::AddToList, StateOp::SetState}, {StateOp::Call}},
        {nullptr, false, {StateOp::CallInside}, {StateOp::Call, StateOp::Define}},
        {"nets", false, steps, {StateOp::Call, StateOp::Train}},
        {"transforms", false, {StateOp::TransformState, StateOp::MapNet}, {StateOp::Call}},
        {"history", false, {StateOp::BackwardHistory}, {StateOp::Call, StateOp::Compute}},
        {"freeze", false, steps, {StateOp::Call, StateOp::Freeze}},
        {"vmap_state", false, {StateOp::MapState}, {StateOp::Call}},
        {"vmap_batchnorm", true, {StateOp::MapNet}, {StateOp::Call, StateOp::Train}},
        {"module_argument", true, steps, {StateOp::Call, StateOp::Call, StateOp::Train}, CallForm::Module},
        {"optimizer_argument", true, {StateOp::StepNet, StateOp::BackwardNet}, {StateOp::Call}, CallForm::Optimizer},
        {"rebind", false, steps, {StateOp::Call, StateOp::Rebind}},
        {"recursion", false, {StateOp::CallInside}, {StateOp::Call}},
        {"clear_inside", false, {StateOp::ClearInside}, {StateOp::Call}},
        {"vmap_jitted", false, {StateOp::Mix}, {StateOp::VmapOf, StateOp::Call}},
        {"grad_jitted", false, {StateOp::Mix}, {StateOp::GradOf, StateOp::JvpOf, StateOp::CheckpointOf, StateOp::Call}},
    };
    auto possible = [&] {
      auto has = [&](StateOp op) {
        auto used = [&](StateOp wanted) { return wanted == op; };
        return std::any_of(subject_.inside.begin(), subject_.inside.end(), used) ||
               std::any_of(subject_.above.begin(), subject_.above.end(), used);
      };
      const bool optimizers = has(StateOp::StepVariable) || has(StateOp::OptimizeVariable) || has(StateOp::StepNet);
      return allows(subject_.feature) && (allows("optimizers") || !optimizers) &&
             (allows("exceptions") || !has(StateOp::SetIndex));
    };
    do {
      subject_ = random_.of(subjects);
    } while (!possible());
    if (subject_.feature) program_.simple = false;
  }

  bool allows(const char* feature) const { return !feature || program_.features.contains(feature); }
  int below(int n) { return static_cast<int>(random_.below(n)); }

  StateOp pick(const std::vector<Choice>& choices) {
    auto allowed = [&](const Choice& c) { return allows(c.feature) && (c.simple || !program_.simple); };
    int all = 0;
    for (const Choice& c : choices) all += allowed(c) ? c.weight : 0;
    int at = below(all);
    for (const Choice& c : choices) {
      if (!allowed(c)) continue;
      at -= c.weight;
      if (at < 0) return c.op;
    }
    return choices[0].op;
  }

  Statement common(StateOp op) {
    Statement s{op};
    s.a = below(kVariables);
    s.b = below(kVariables);
    s.c = below(kVariables);
    s.form = below(kForms);
    s.number = random_.of(std::vector<double>{0.5, 1, -0.5, 0.25});
    return s;
  }

  std::vector<Statement> body(int self) {
    std::vector<Statement> result;
    for (int64_t i = 0, count = random_.between(1, 3); i < count; ++i) {
      Statement s = common(pick(kInside));
      if (i == 0 && !subject_.inside.empty() && random_.chance(0.8)) s.op = random_.of(subject_.inside);
      switch (s.op) {
        case StateOp::UseNet:
        case StateOp::MapNet: s.a = subject_.feature && random_.chance(0.7) ? 0 : below(kNets); break;
        case StateOp::Draw: s.a = below(kGenerators); break;
        case StateOp::StepNet:
        case StateOp::BackwardNet:
        case StateOp::StepVariable: s.a = subject_.feature && random_.chance(0.7) ? 0 : below(kOptimizers); break;
        case StateOp::CallInside:
          s.a = below(kFunctions);
          if (s.a == self && !allows("recursion")) s.a = (s.a + 1) % kFunctions;
          if (allows("recursion") && self >= 0 && random_.chance(0.5)) s.a = self;
          break;
        default: break;
      }
      result.push_back(s);
    }
    return result;
  }

  void add(StateOp op) {
    Statement s = common(op);
    switch (op) {
      case StateOp::Make:
      case StateOp::MakeLeaf: s.b = below(8); break;
      case StateOp::MakeBatch:
        s.a = below(kBatches);
        s.b = random_.of(std::vector<int>{1, 2, 3, 5});
        s.c = below(8);
        break;
      case StateOp::AssignBatch:
      case StateOp::AliasBatch: s.a = below(kBatches); break;
      case StateOp::MakeNet:
        s.a = below(kNets);
        s.b = below(32) | (allows("dropout") && random_.chance(0.1) ? 32 : 0);
        s.c = below(4);
        break;
      case StateOp::OptimizeNet:
      case StateOp::OptimizeVariable:
        s.a = below(kOptimizers);
        if (op == StateOp::OptimizeNet) s.b = below(kNets);
        if (op == StateOp::OptimizeVariable && random_.chance(0.6)) s.b = kVariables - 1;
        break;
      case StateOp::SetRate: s.a = below(kOptimizers); break;
      case StateOp::Seed: s.a = below(kGenerators); break;
      case StateOp::Define:
        s.a = below(kFunctions);
        if (!defined_) s.a = 0;
        s.body = body(s.a);
        defined_ = true;
        break;
      case StateOp::Run:
        s.body = body(-1);
        s.c = below(kBatches);
        break;
      case StateOp::Call: call(s); break;
      case StateOp::GradOf:
      case StateOp::VmapOf:
      case StateOp::JvpOf:
      case StateOp::CheckpointOf:
      case StateOp::Clear:
        s.a = random_.chance(0.7) ? 0 : below(kFunctions);
        s.c = below(kBatches);
        break;
      default:
        if (op > StateOp::SetIndex && op < StateOp::Define) {
          s.a = random_.chance(0.5) ? 0 : below(kNets);
          s.b = below(kNets);
        }
    }
    program_.statements.push_back(std::move(s));
  }

  void call(Statement& s) {
    s.a = random_.chance(0.7) ? 0 : below(kFunctions);
    s.c = below(kBatches);
    s.times = 1 + below(4);
    s.number = random_.of(std::vector<double>{1, 1, 0.5});
    if (allows("exceptions") && random_.chance(0.15)) s.fail = 1 + below(4);
    const int form = below(10);
    if (form < 3) s.call = CallForm::Pack;
    if (form == 3 && !program_.simple && allows("module_argument")) s.call = CallForm::Module;
    if (form == 4 && !program_.simple && allows("optimizer_argument")) s.call = CallForm::Optimizer;
    if (subject_.call && random_.chance(0.8)) {
      s.call = *subject_.call;
      s.form = below(2);
    }
    if (subject_.feature && random_.chance(0.8)) s.a = 0, s.c = 1;  // the same kind of arguments again
  }

  Random random_;
  StateProgram program_;
  Subject subject_;
  bool defined_ = false;
};

std::string mixed(const std::string& a, const std::string& b, const Statement& s) {
  switch (s.form) {
    case 0: return text("clamp(", a, " * ", s.number, " + ", b, ", -4, 4)");
    case 1: return text("clamp(", a, " - ", b, ", -4, 4)");
    case 2: return text("clamp(", a, " * ", b, " * 0.5, -4, 4)");
    case 3: return text("clamp(tanh(", a, ") + ", b, ", -4, 4)");
    case 4: return text("clamp(", a, " * 0.5 + sum(", b, ") * 0.25, -4, 4)");
    case 5: return text("clamp(matmul(", a, ", matrix) + ", b, ", -4, 4)");
    case 6: return text("clamp(maximum(", a, ", ", b, "), -4, 4)");
    default: return text("clamp(flip(", a, ", -1) + ", b, ", -4, 4)");
  }
}

std::string net_text(int settings) {
  return text("Net(", settings & 1 ? "Tanh" : "ReLU", settings & 2 ? ", LayerNorm" : "",
              settings & 4 ? ", BatchNorm1d" : "", settings & 8 ? ", dropout(generator)" : "",
              settings & 32 ? ", Dropout" : "", ", epsilon ", settings & 16 ? 0.5 : 0.125, ")");
}

const char* optimizer_text(int kind) { return kind % 3 == 0 ? "SGD" : kind % 3 == 1 ? "SGD with momentum" : "AdamW"; }

std::string inside_text(const Statement& s) {
  const std::string v = text("v", s.a), net = text("net", s.a), opt = text("opt", s.a);
  switch (s.op) {
    case StateOp::Mix: return "y = " + mixed("y", v, s);
    case StateOp::AssignState: return v + ".assign(" + mixed(v, "mean(y, 0)", s) + ")";
    case StateOp::AddState: return text(v, " += v", s.b, " * ", s.number);
    case StateOp::SetState: {
      const std::string sum = text("clamp(sum(y) * ", s.number, ", -4, 4))");
      if (s.form % 4 == 0) return text(v, ".set({0}, ", sum);
      if (s.form % 4 == 1) return text(v, ".set({1:3}, clamp(", v, "[0:2] * ", s.number, ", -4, 4))");
      if (s.form % 4 == 2) return text(v, ".set({::-2}, mean(y, 0)[0:2])");
      return text(v, ".set({3}, ", sum, "; ", v, ".set({0:2}, ", v, "[2:4])");
    }
    case StateOp::ScatterState:
      if (s.form % 2 == 0) return text(v, ".set({index}, clamp(sum(y) * ", s.number, ", -4, 4))");
      return text(v, ".assign(scatter_reduce(", v, ", 0, index, mean(y, 0)[0:2], amax))");
    case StateOp::AssignArgument: return "x.assign(" + mixed("x", v, s) + ")";
    case StateOp::AddToList: return text("if (list) list[0] += ", s.number);
    case StateOp::UseNet: return text("y = ", net, "(y)  // or the argument's");
    case StateOp::Draw: return text("y = clamp(y + uniform(y.shape(), -1, 1, kF32, generator", s.a, "), -4, 4)");
    case StateOp::StepNet: return text(opt, ".step(grad(loss(its net, y), parameters)); y += loss");
    case StateOp::BackwardNet:
      return text(s.form % 2 == 0 ? opt + ".zero_grad(); " : "", "loss(net of ", opt, ", y).backward(); ", opt,
                  ".step(grads)", s.form % 3 == 0 ? "; " + opt + ".zero_grad()" : "", "; y += loss");
    case StateOp::TrainVariable: return text("if (leaf) ", v, " -= grad(loss(", v, ", y), ", v, ") / 16");
    case StateOp::BackwardVariable:
      return text("if (leaf) { ", s.form % 3 == 2 ? v + ".zero_grad(); " : "", "loss(", v, ", y).backward()",
                  s.form % 3 == 1 ? "; " + v + " -= *" + v + ".grad() / 16" : "", " }");
    case StateOp::StepVariable: return text(opt, ".step({grad(loss(its variable, y))})");
    case StateOp::CallInside: return text("y = f", s.a, "(y + 0, ", s.number, ")");
    case StateOp::Gradient: return text("y = grad([&](z) { return sum(tanh(z * ", v, ")); })(y)");
    case StateOp::Tangent: return text("y = jvp([&](z) { return tanh(z * ", v, "); }, y, ones_like(y)).second");
    case StateOp::Checkpoint: return text("y = checkpoint([&](z) { return tanh(z * ", v, "); }, y)");
    case StateOp::Map: return text("y = vmap([&](row) { return clamp(row * ", v, " + sum(row) * 0.25, -4, 4); })(y)");
    case StateOp::MapState:
      return text("y = vmap([&](row) { ", v, s.form % 4 == 1 ? ".assign(clamp(" + v + " * " : " += ", s.number,
                  s.form % 4 == 1 ? " + row, -4, 4))" : "", "; return clamp(row * ", v, ", -4, 4); })(y)");
    case StateOp::TransformState:
      return text("y = ",
                  s.form % 3 == 0   ? "grad"
                  : s.form % 3 == 1 ? "jvp"
                                    : "checkpoint",
                  " of [&](z) { ", v, ".assign(", mixed(v, "mean(z, 0)", s), "); return tanh(z * ", v, "); } at y");
    case StateOp::BackwardHistory: return text("if (", v, " was computed from leaves) loss(", v, ", y).backward()");
    case StateOp::MapNet: return text("y = mean(vmap(", net, ")(stack({y, y * 0.5})), 0)");
    case StateOp::Gather: return text("y += sum(gather(", v, ", index)) * 0.25");
    case StateOp::ClearInside: return "this function's clear()";
    default: return "?";
  }
}

std::string body_text(const Statement& s) {
  std::string result = "{\n      y = clamp(x * number, -4, 4)\n";
  for (const Statement& inner : s.body) result += "      " + inside_text(inner) + "\n";
  return result + "      return y\n    }";
}

std::string call_text(const Statement& s) {
  const std::string x = text("x", s.c), fail = s.fail > 0 ? text(", thrown before statement ", s.fail) : "";
  const std::string times = s.times > 1 ? text("  // ", s.times, " times") : "";
  switch (s.call) {
    case CallForm::Plain: return text("r", s.b % kResults, " = f", s.a, "(", x, ", ", s.number, fail, ")", times);
    case CallForm::Pack:
      return text("r", s.b % kResults, " = f", s.a, "(Pack{", x, ", {v", s.form % kVariables, ", v",
                  (s.form + 1) % kVariables, "}, ", s.number, "}", fail, ")", times);
    case CallForm::Module:
      return text("r", s.b % kResults, " = f", s.a, "(net", s.form % kNets, ", ", x, fail, ")", times);
    default:
      return text("r", s.b % kResults, " = f", s.a, "(net of opt", s.form % kOptimizers, ", opt", s.form % kOptimizers,
                  ", ", x, fail, ")", times);
  }
}

}  // namespace

StateProgram make_state_program(uint64_t seed, const std::set<std::string>& features, bool symbolic) {
  return Maker(seed, features, symbolic).make();
}

std::string to_text(const Statement& s) {
  const std::string v = text("v", s.a), b = text("v", s.b), c = text("v", s.c), net = text("net", s.a);
  switch (s.op) {
    case StateOp::Make: return text(v, " = tensor(data ", s.b, ")");
    case StateOp::MakeLeaf: return text(v, " = tensor(data ", s.b, ").requires_grad_()");
    case StateOp::MakeBatch: return text("x", s.a, " = tensor(", s.b, " rows of data ", s.c, ")");
    case StateOp::Compute: return v + " = " + mixed(b, c, s);
    case StateOp::Alias: return v + " = " + b;
    case StateOp::AliasBatch: return text("x", s.a, " = x", s.b % kBatches);
    case StateOp::Keep: return text("r", s.a % kResults, " = r", s.b % kResults);
    case StateOp::Clone: return v + " = " + b + ".clone()";
    case StateOp::Detach: return v + " = " + b + ".detach()";
    case StateOp::Assign: return v + ".assign(" + mixed(b, c, s) + ")";
    case StateOp::AddTo: return text(v, " += ", b, " * ", s.number);
    case StateOp::Set: return text(v, ".set({1}, ", b, "[2] * ", s.number, ")");
    case StateOp::AssignBatch: return text("x", s.a, ".assign(", mixed(text("x", s.a), b, s), ")");
    case StateOp::Realize: return v + ".realize()";
    case StateOp::RealizeAll: return "realize(everything)";
    case StateOp::SetIndex: return text("index.assign({", s.form % 3, ", ", s.form % 2 == 1 ? 9 : -1, "})");
    case StateOp::MakeNet: return text(net, " = ", net_text(s.b), "  // data ", s.c);
    case StateOp::CopyNet: return text(net, " = net", s.b, ".copy()");
    case StateOp::ShareNet: return text(net, " = net", s.b);
    case StateOp::Train: return text(net, s.b % 2 == 1 ? ".train()" : ".eval()");
    case StateOp::Freeze:
      return text(net, s.form % 2 == 0 ? ".freeze(" : ".unfreeze(", s.b % 2 == 0 ? "\"first\")" : "\"middle\")");
    case StateOp::SaveAndLoad: return text(net, ".save(file); net", s.b, ".load(file)");
    case StateOp::LoadState: return text("net", s.b, ".load_state(", net, ".state())");
    case StateOp::ChangeNet: return text(net, ".first.weight.assign(", net, ".first.weight * ", s.number, ")");
    case StateOp::Rebind: return text(net, ".first.weight = tensor(data ", s.c, ").requires_grad_()");
    case StateOp::OptimizeNet: return text("opt", s.a, " = ", optimizer_text(s.c), " of net", s.b);
    case StateOp::OptimizeVariable: return text("opt", s.a, " = ", optimizer_text(s.c), " of v", s.b);
    case StateOp::SetRate: return text("opt", s.a, ".set_lr(", 0.0625 * (1 + s.form % 3), ")");
    case StateOp::Seed: return text("generator", s.a, ".manual_seed(", s.b, ")");
    case StateOp::Define: return text("f", s.a, " = jit([...](x, number) ", body_text(s), ")");
    case StateOp::Call: return call_text(s);
    case StateOp::Run:
      return text("r", s.b % kResults, " = [...](x, number) ", body_text(s), "(x", s.c, ", ", s.number, ")");
    case StateOp::Clear: return text("f", s.a, ".clear()");
    case StateOp::GradOf: return text("r", s.b % kResults, " = grad(sum of f", s.a, ")(x", s.c, ")");
    case StateOp::VmapOf: return text("r", s.b % kResults, " = vmap(f", s.a, ")(x", s.c, ")");
    case StateOp::JvpOf: return text("r", s.b % kResults, " = jvp(f", s.a, ", x", s.c, ", ones).second");
    case StateOp::CheckpointOf: return text("r", s.b % kResults, " = checkpoint(f", s.a, ", x", s.c, ")");
    default: return "?";
  }
}

std::string to_text(const StateProgram& program) {
  std::string result = text("    // v0 to v3: vectors of 4, v3 a leaf; x0 to x2: 1 to 3 rows of 4",
                            program.symbolic ? ", a symbolic number" : "", "\n");
  for (const Statement& s : program.statements) result += "    " + to_text(s) + "\n";
  return result;
}

}  // namespace heddle::fuzz
