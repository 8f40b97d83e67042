#include "fuzz/check_program.h"

#include <cmath>

#include "fuzz/differences.h"
#include "fuzz/rounding.h"
#include "fuzz/transform.h"
#include "runtime/device.h"

namespace heddle::fuzz {

const char* name(ProgramWay way) {
  switch (way) {
    case ProgramWay::Together: return "together";
    case ProgramWay::Some: return "some";
    case ProgramWay::Forward: return "forward";
    case ProgramWay::Gradients: return "gradients";
    case ProgramWay::Alone: return "alone";
    case ProgramWay::Steps: return "steps";
    case ProgramWay::Captured: return "captured";
    case ProgramWay::Differences: return "differences";
    case ProgramWay::Devices: return "devices";
    case ProgramWay::CapturedDevices: return "captured_devices";
  }
  return "?";
}

std::vector<ProgramWay> ways_of_seed(uint64_t seed) {
  constexpr uint64_t kFirst = 2, kOthers = 6;
  std::vector<ProgramWay> ways{seed % 2 == 0 ? ProgramWay::Together : ProgramWay::Some,
                               kProgramWays[kFirst + seed % kOthers]};
  if (seed % 4 == 3) ways.push_back(seed % 8 == 3 ? ProgramWay::Devices : ProgramWay::CapturedDevices);
  return ways;
}

ProgramCounts& program_counts() {
  static ProgramCounts counts;
  return counts;
}

namespace {

constexpr double kMostEvaluation = 2e6;  // elements that the evaluator computes
constexpr int kSmallest = 8;             // of Recipe::smaller

std::vector<NodeRef> nodes_of(const std::vector<Term>& terms) {
  std::vector<NodeRef> nodes;
  for (const Term& term : terms) nodes.push_back(term.tensor.node());
  return nodes;
}

// The program in the largest sizes that the evaluator has time for.
Program resolved(Recipe recipe) {
  if (recipe.smaller >= 0) return build_program(recipe);
  for (recipe.smaller = 0;; ++recipe.smaller) {
    Program program = build_program(recipe);
    double most = program.large ? 5 * kMostEvaluation : kMostEvaluation;
    if (recipe.smaller == kSmallest || evaluation_work(nodes_of(program.outputs)) <= most) return program;
  }
}

HostArray read(const Tensor& x) {
  NodeRef node = x.node();
  if (node->op != NodeOp::Buffer) throw Failure{"a result was not computed", ""};
  const auto& memory = dynamic_cast<const DeviceBuffer&>(*node->storage);
  uint64_t bytes = static_cast<uint64_t>(x.numel()) * static_cast<uint64_t>(size_of(x.dtype()));
  std::vector<uint8_t> copy(bytes + 1);
  memory.device().copy_to_host(copy.data(), memory, bytes);
  return to_array(copy.data(), x.dtype(), x.shape());
}

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

// Which outputs a way computes.
std::vector<size_t> chosen(const Program& program, ProgramWay way) {
  std::vector<size_t> all, result;
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    if (way == ProgramWay::Forward && i >= program.forward) continue;
    if (way == ProgramWay::Gradients && i < program.forward) continue;
    all.push_back(i);
  }
  Random random(program.recipe.seed ^ 0x6f6e65);
  auto too_many = [&] {
    constexpr size_t kMostAlone = 6;
    return way == ProgramWay::Alone ? all.size() > kMostAlone
                                    : way == ProgramWay::Some && all.size() > 1 && random.chance(0.8);
  };
  while (too_many()) all.erase(all.begin() + random.below(static_cast<int64_t>(all.size())));
  for (size_t i : all)
    if (program.recipe.keep.empty() || program.recipe.keep.contains(static_cast<int>(i))) result.push_back(i);
  return result;
}

bool is_captured(ProgramWay way) { return way == ProgramWay::Captured || way == ProgramWay::CapturedDevices; }

// What a way asks of the program itself.
void set_way(Recipe& recipe, ProgramWay way) {
  recipe.captured |= is_captured(way);
  recipe.devices |= way == ProgramWay::Devices || way == ProgramWay::CapturedDevices;
}

// Whether the device computes anything. One that does not still compiles everything.
bool computes() { return device().name() != "null"; }

class ProgramCheck {
 public:
  ProgramCheck(Program program, ProgramWay way)
      : program_(std::move(program)), recipe_(program_.recipe), which_(chosen(program_, way)) {}

  void run(ProgramWay way) {
    if (way == ProgramWay::Differences) return differences();
    if (which_.empty() || (recipe_.devices && !computes())) return;
    if (is_captured(way)) return captured();
    std::vector<Bounded> want = references(program_);
    if (way == ProgramWay::Alone) return each_alone(want);
    Program again = build_program(recipe_, &program_.inputs, way == ProgramWay::Steps);
    std::vector<Tensor> results = selected(again);
    realize(results);
    compare_all(want, results, "");
  }

 private:
  std::vector<Tensor> selected(const Program& program) const {
    std::vector<Tensor> tensors;
    for (size_t i : which_) tensors.push_back(program.outputs.at(i).tensor);
    return tensors;
  }

  std::vector<Bounded> references(const Program& program) const {
    std::vector<NodeRef> roots;
    for (const Tensor& x : selected(program)) roots.push_back(x.node());
    return computes() ? evaluate_bounded(roots) : std::vector<Bounded>();
  }

  void compare_one(const Bounded& want, const Tensor& got, const std::string& what) const {
    Comparison found = compare(want, read(got));
    ++(found.vague ? program_counts().vague : program_counts().compared);
    if (!found.wrong.empty()) throw Failure{what + ": " + found.wrong, ""};
  }

  void compare_all(const std::vector<Bounded>& want, const std::vector<Tensor>& got, const std::string& when) const {
    for (size_t i = 0; i < want.size(); ++i) compare_one(want[i], got[i], program_.outputs[which_[i]].name + when);
  }

  void each_alone(const std::vector<Bounded>& want) const {
    for (size_t i = 0; i < which_.size(); ++i) {
      Term x = build_program(recipe_, &program_.inputs).outputs.at(which_[i]);
      x.tensor.realize();
      if (computes()) compare_one(want[i], x.tensor, x.name + " alone");
    }
  }

  // One of the results becomes a row of the table: where a tensor says, which counts calls, or always the same one.
  static void put_row(Tensor table, Tensor at, const Tensor& row, size_t how) {
    if (how == 0)
      table.set({at}, row);
    else if (how == 1)
      table.assign(update_slice(table, unsqueeze(row, 0), at));
    else
      table.set({Slice(1, 2)}, row);
    at += 1;
  }

  // A state is given a new value by every call, computed from one of the results, and another one a row.
  void captured() const {
    Recipe recipe = recipe_;
    std::vector<size_t> which = which_;
    const Tensor& first = program_.outputs[which[0]].tensor;
    bool has_state = is_float(first.dtype());
    const Device device = first.device();
    Tensor state = zeros(first.shape(), first.dtype()).to(device);
    state.realize();
    constexpr int64_t kCalls = 3;
    const size_t how = recipe.seed % 3;
    Dims rows = first.shape();
    rows.insert(rows.begin(), kCalls);
    Tensor table = zeros(std::vector<int64_t>(rows), first.dtype()).to(device), at = zeros({}, kI64).to(device);
    realize({table, at});
    auto f = jit([recipe, which, has_state, state, table, at, how](const TensorList& inputs) mutable {
      Program program = build_program(recipe, &inputs);
      TensorList results;
      for (size_t i : which) results.push_back(program.outputs.at(i).tensor);
      if (has_state) state.assign(state * 0.5 + results[0]);
      put_row(table, at, results[0], how);
      return results;
    });
    Bounded expected{HostArray{first.dtype(), first.shape(), {}, {}}, {}};
    expected.value.floats.assign(static_cast<size_t>(first.numel()), 0);
    expected.error.assign(static_cast<size_t>(first.numel()), 0);
    std::vector<Bounded> written;  // to the rows of the table
    for (uint64_t round = 0; round < kCalls; ++round) {
      Recipe now = recipe;
      now.round = round;
      Program reference = build_program(now);
      std::vector<Bounded> want = references(reference);
      TensorList results = f(reference.inputs);
      std::string when = text(" in call ", round);
      compare_all(want, results, when);
      if (!computes()) continue;
      written.push_back(want[0]);
      for (size_t r = 0; r < written.size(); ++r)
        if (how < 2 || r == round)
          compare_one(written[r], select(table, 0, how < 2 ? static_cast<int64_t>(r) : 1).realize(),
                      text("row ", r, when));
      if (!has_state) continue;
      for (size_t i = 0; i < expected.error.size(); ++i) {
        double& value = expected.value.floats[i];
        double part = want[0].error.empty() ? 0 : want[0].error[i];
        value = value * 0.5 + want[0].value.floats[i];
        expected.error[i] = expected.error[i] / 2 + part + testing::unit(first.dtype()) * std::abs(value);
        // The sum may still have had the number that was too large for a small float.
        if (size_of(first.dtype()) < 4 && !std::isfinite(want[0].value.floats[i])) expected.error[i] = INFINITY;
      }
      compare_one(expected, state, "the state" + when);
    }
  }

  // In double precision, with any leaf's gradient that there is.
  void differences() const {
    if (program_.exact) return;
    Recipe recipe = recipe_;
    recipe.dtype = kF64;
    Program program = build_program(recipe);
    if (!program.loss) return;
    Problem problem;
    problem.outputs = {program.loss->node()};
    problem.cotangents = {make_const(Scalar::of(DType::f64, 1), problem.outputs[0]->shape)};
    for (size_t i = 0; i < program.parameters.size(); ++i) {
      problem.leaves.push_back(program.inputs[program.parameters[i]].node());
      problem.gradients.push_back(program.outputs[program.forward + i].tensor.node());
    }
    Differences differences(problem, {});
    // A bound for the evaluator, whose sums are in double; the bound has room for kernels that are worse.
    constexpr double kRoom = 64;
    const std::vector<double> error = evaluate_bounded(problem.outputs)[0].error;
    const double off = error.empty() || !std::isfinite(error[0]) ? 0 : error[0] / kRoom;
    Random random(recipe.seed ^ 0x646966);
    // One element of many may lie at a kink that differences do not see; a wrong rule is wrong everywhere.
    for (int attempt = 0;; ++attempt) {
      try {
        bool smooth = differences.agree(random, off);
        if (!smooth && attempt < 2) continue;
        ++(smooth ? program_counts().differences : program_counts().kinks);
        return;
      } catch (const Failure&) {
        if (attempt == 2) throw;
      }
    }
  }

  Program program_;
  Recipe recipe_;
  std::vector<size_t> which_;
};

bool is_exception(const Failure& failure) { return failure.message.starts_with("throws "); }

}  // namespace

void check_program(const Recipe& given, ProgramWay way) {
  Recipe recipe = given;
  set_way(recipe, way);
  std::string detail;
  try {
    Program program = resolved(recipe);
    std::vector<std::string> wanted;
    for (size_t i : chosen(program, way)) wanted.push_back(program.outputs[i].name);
    detail = program.text(wanted) + "  realize({" + joined(wanted) + "})\n";
    ProgramCheck(std::move(program), way).run(way);
  } catch (Failure& failure) {
    failure.detail = detail;
    throw;
  } catch (const std::exception& error) {
    throw Failure{text("throws ", error.what()), detail};
  }
}

Failure shrink(Recipe& recipe, ProgramWay& way, Failure failure) {
  constexpr int kMostTries = 150;
  int tries = 0;
  // Takes the smaller program over if it fails too.
  auto fails = [&](Recipe smaller, ProgramWay how) {
    if (++tries > kMostTries) return false;
    try {
      check_program(smaller, how);
    } catch (const Failure& found) {
      if (is_exception(found) != is_exception(failure)) return false;
      failure = found;
      recipe = std::move(smaller);
      way = how;
      return true;
    }
    return false;
  };
  // All together, those that the way has together, or one of them.
  auto simplify_way = [&] {
    if (fails(recipe, ProgramWay::Together)) return;
    std::set<int> all;
    for (size_t i : chosen(resolved(recipe), way)) all.insert(static_cast<int>(i));
    Recipe less = recipe;
    less.keep = all;
    bool found = fails(less, ProgramWay::Together);
    for (int i : all) {
      if (found) break;
      less.keep = {i};
      found = fails(less, ProgramWay::Together);
    }
  };
  set_way(recipe, way);
  recipe.smaller = resolved(recipe).recipe.smaller;
  if (!is_captured(way) && way != ProgramWay::Differences && way != ProgramWay::Devices) simplify_way();
  const int blocks = resolved(recipe).blocks;
  for (size_t before = SIZE_MAX; before != recipe.without.size();) {
    before = recipe.without.size();
    for (int number = 0; number < blocks; ++number) {
      Recipe less = recipe;
      if (!less.without.insert(number).second) continue;
      const int left = less.keep.empty() ? 0 : static_cast<int>(build_program(less).outputs.size());
      less.keep.clear();
      // Without the block results have other numbers.
      bool found = fails(less, way);
      for (int i = 0; i < left && !found; ++i) {
        less.keep = {i};
        found = fails(less, way);
      }
    }
    if (Recipe less = recipe; less.smaller < kSmallest) {
      ++less.smaller;
      if (fails(less, way)) before = SIZE_MAX;
    }
  }
  if (way == ProgramWay::Differences || way == ProgramWay::Alone || way == ProgramWay::Some) return failure;
  const int outputs = static_cast<int>(resolved(recipe).outputs.size());
  std::set<int> all;
  for (int i = 0; i < outputs; ++i) all.insert(i);
  bool one = false;
  for (int i = 0; i < outputs && outputs > 1 && !one && recipe.keep.empty(); ++i) {
    Recipe less = recipe;
    less.keep = {i};
    one = fails(less, way);
  }
  if (recipe.keep.empty()) recipe.keep = all;
  for (int i = 0; i < outputs && recipe.keep.size() > 1; ++i) {
    Recipe less = recipe;
    if (less.keep.erase(i) > 0) fails(less, way);
  }
  if (recipe.keep == all) recipe.keep.clear();
  return failure;
}

}  // namespace heddle::fuzz
