// Random programs about state: tensors under several names, modules, optimisers, generators, and captured functions
// that read and change them, with exceptions in between.
//
// A program is a list of statements over a few variables that all exist from the beginning, so that it stays a program
// when statements are left out. It is run by worlds (state_world.h), and, where it is simple, by a model that knows
// nothing of graphs (state_model.h).
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace heddle::fuzz {

enum class StateOp {
  // handles; v are vectors of kWidth elements, x matrices of several rows of so many
  Make,         // v[a] = tensor(...)
  MakeLeaf,     // the same, which asks for gradients
  MakeBatch,    // x[a] = tensor of b rows
  Compute,      // v[a] = mix(v[b], v[c])
  Alias,        // v[a] = v[b]
  AliasBatch,   // x[a] = x[b]
  Keep,         // r[a] = r[b]
  Clone,        // v[a] = v[b].clone()
  Detach,       // v[a] = v[b].detach()
  Assign,       // v[a].assign(mix(v[b], v[c]))
  AddTo,        // v[a] += v[b] * number
  Set,          // v[a].set({1}, v[b][2] * number)
  AssignBatch,  // x[a].assign(mix(x[a], v[b]))
  Realize,      // v[a]
  RealizeAll,
  SetIndex,  // the positions that Gather takes: good ones, or one out of range
  // modules, optimisers, generators
  MakeNet,      // nets[a], settings b
  CopyNet,      // nets[a] = nets[b].copy()
  ShareNet,     // nets[a] = nets[b]
  Train,        // nets[a].train(b)
  Freeze,       // nets[a].freeze(part b), or unfreeze
  SaveAndLoad,  // nets[a].save(file), nets[b].load(file)
  LoadState,    // nets[b].load_state(nets[a].state())
  ChangeNet,    // nets[a].first.weight *= number
  Rebind,       // nets[a].first.weight = another tensor
  OptimizeNet,  // optimisers[a] of kind c for nets[b]
  OptimizeVariable,
  SetRate,
  Seed,
  // functions
  Define,  // f[a] = jit(body)
  Call,    // r[b] = f[a](x[c], ...), several times; `fail`: thrown before that statement of the body
  Run,     // the body itself, once
  Clear,   // f[a].clear()
  GradOf,  // r[b] = grad(f[a])(x[c]), and so on
  VmapOf,
  JvpOf,
  CheckpointOf,
  // in bodies; y begins as the argument
  Mix,             // y = mix(y, v[a])
  AssignState,     // v[a].assign(mix(v[a], mean(y)))
  AddState,        // v[a] += v[b] * number
  SetState,        // v[a].set({0}, sum(y)), or another part of it
  ScatterState,    // v[a].set({positions}, sum(y)), or combined with what is there
  AssignArgument,  // x.assign(mix(x, v[a]))
  AddToList,       // list[0] += number, of a call with a list
  UseNet,          // y = nets[a](y)
  Draw,            // y += uniform(...) of generator a
  StepNet,         // optimisers[a] with the gradients of its module
  BackwardNet,     // the same by backward() and grad()
  TrainVariable,   // v[a] -= grad(loss, v[a])
  BackwardVariable,
  BackwardHistory,  // of what v[a] was computed from
  StepVariable,     // optimisers[a] of a variable
  CallInside,       // y = f[a](y)
  Gradient,         // y = grad(...)(y)
  Tangent,
  Checkpoint,
  Map,
  MapState,        // v[a] changes inside vmap, perhaps by what depends on the example
  TransformState,  // v[a] changes inside grad, jvp or checkpoint
  MapNet,
  Gather,       // y += v[a] at the positions
  ClearInside,  // the function's own clear()
};

// How a captured function is called.
enum class CallForm { Plain, Pack, Module, Optimizer };

struct Statement {
  StateOp op;
  int a = 0, b = 0, c = 0;
  int form = 0;  // of mix(), or a variant
  double number = 1;
  int fail = 0, times = 1;
  CallForm call = CallForm::Plain;
  std::vector<Statement> body = {};
};

inline constexpr int kWidth = 4;
inline constexpr int kVariables = 4, kBatches = 3, kResults = 3, kNets = 3, kOptimizers = 2, kFunctions = 3,
                     kGenerators = 2, kForms = 8;

// What programs may contain besides tensors and captured functions.
inline const std::set<std::string> kStateFeatures = {
    "nets",
    "optimizers",
    "generators",
    "exceptions",
    "files",
    "freeze",
    "transforms",          // grad, jvp, checkpoint and vmap in bodies
    "grad_jitted",         // grad, jvp and checkpoint of captured functions
    "vmap_jitted",         // vmap of them
    "vmap_state",          // what changes in vmap may depend on the example
    "vmap_batchnorm",      // BatchNorm in training inside of vmap
    "module_argument",     // modules as arguments of captured functions
    "optimizer_argument",  // and optimisers
    "rebind",              // a module's weight becomes another tensor
    "recursion",           // functions that call themselves
    "clear_inside",        // and clear themselves
    "requires_grad",       // bodies ask tensors whether they require gradients
    "history",             // bodies call backward() on what was computed from leaves outside
    "dropout",             // nn::Dropout, which draws from the default generator
};

struct StateProgram {
  std::vector<Statement> statements;
  bool simple = false;    // the model can run it
  bool symbolic = false;  // rows of matrices are symbolic sizes
  bool wide = false;      // of f64
  bool careful = false;   // everything is looked at after every statement, not only at the end
  std::set<std::string> features;
};

StateProgram make_state_program(uint64_t seed, const std::set<std::string>& features, bool symbolic);
std::string to_text(const StateProgram& program);
std::string to_text(const Statement& statement);

}  // namespace heddle::fuzz
