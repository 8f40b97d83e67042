#include "fuzz/state_check.h"

#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "fuzz/state_model.h"
#include "fuzz/state_world.h"

namespace heddle::fuzz {

StateCounts& state_counts() {
  static StateCounts counts;
  return counts;
}

namespace {

using Expected = StateWorld::Expected;

// The default generator is one for the whole process.
std::mutex default_generator_users;

bool uses_default_generator(const StateProgram& program) {
  return std::any_of(program.statements.begin(), program.statements.end(),
                     [](const Statement& s) { return s.op == StateOp::MakeNet && (s.b & 32) != 0; });
}

class StatesCheck {
 public:
  StatesCheck(const StateProgram& program, const std::string& folder)
      : program_(program), folder_(folder), captured_(program, true, folder), plain_(program, false, folder) {}

  // Whether all of it could be run and compared.
  bool run() {
    for (const Statement& s : program_.statements) {
      ++done_;
      if (!step(s)) return false;
      if (program_.careful && !look(s)) return false;
    }
    if (!program_.statements.empty() && !look(program_.statements.back())) return false;
    state_counts().replays += captured_.replays();
    return true;
  }

 private:
  // False: the plain world cannot run it, so there is nothing to compare.
  bool step(const Statement& s) {
    const Expected expected = plain_.expected(s);
    if (captured_.expected(s) != expected) throw Failure{"the worlds differ in what they can do: " + to_text(s), ""};
    if (expected == Expected::Nothing) return true;
    if (s.op == StateOp::Call) ++state_counts().calls;
    const std::string error = run_captured(s);
    if (expected == Expected::Throw) {
      if (error.empty()) throw Failure{"nothing was thrown by " + to_text(s), ""};
      ++state_counts().thrown;
      return true;
    }
    // One tensor under two names may be refused, and so are clear() inside and backward() to what was
    // computed outside; then nothing has happened.
    if ((error.find("is given to a captured function twice") != std::string::npos && captured_.is_given_twice(s)) ||
        error.find("clear() inside of the function") != std::string::npos ||
        error.find("no gradient gets there from inside") != std::string::npos) {
      ++state_counts().refused;
      // Plain code around the function that refuses may have changed something before.
      if (s.op == StateOp::Run) ++state_counts().given_up;
      return s.op != StateOp::Run;
    }
    try {
      ours(default_of_plain_, [&] { plain_.execute(s); });
    } catch (const std::exception& by_plain) {
      ++state_counts().given_up;
      if (error.empty()) throw Failure{text("the plain function throws ", by_plain.what(), " in ", to_text(s)), ""};
      return false;
    }
    if (!error.empty()) throw Failure{text("throws ", error, " in ", to_text(s)), ""};
    if (program_.simple) model_.execute(s);
    return true;
  }

  std::string run_captured(const Statement& s) {
    try {
      ours(default_of_captured_, [&] { captured_.execute(s); });
    } catch (const std::exception& error) {
      return *error.what() ? error.what() : "something";
    }
    return "";
  }

  // With the default generator as this world has left it.
  template <class F>
  void ours(Generator::State& state, const F& f) {
    if (!uses_default_generator(program_)) return f();
    default_generator().set_state(state);
    try {
      f();
    } catch (...) {
      state = default_generator().state();
      throw;
    }
    state = default_generator().state();
  }

  // False: rounding has grown to what can be seen, and will go on growing.
  bool look(const Statement& s) {
    ++state_counts().looks;
    StateValues got = captured_.values(), want = plain_.values();
    if (auto difference = state_difference(got, want, {.relative = program_.wide ? kWideTolerance : kTolerance})) {
      if (!program_.wide && is_rounding(got, want)) {
        ++state_counts().given_up;
        ++state_counts().rounded;
        return false;
      }
      throw Failure{text("captured and plain differ after ", to_text(s), ": ", *difference), ""};
    }
    if (default_of_captured_ != default_of_plain_)
      throw Failure{"the default generators differ after " + to_text(s), ""};
    if (!program_.simple) return true;
    for (auto it = want.begin(); it != want.end();) it = it->first.starts_with("generator") ? want.erase(it) : next(it);
    ++state_counts().by_model;
    if (auto difference = state_difference(want, model_.values()))
      throw Failure{text("plain and the model differ after ", to_text(s), ": ", *difference), ""};
    return true;
  }

  // Some programs blow rounding up: gradients that add up from step to step, and steps too large for them. Then
  // captured and plain must agree in f64, and in f32 the plain one must itself be far from that.
  bool is_rounding(const StateValues& got, const StateValues& want) const {
    StateProgram program = program_;
    program.statements.resize(done_);
    program.wide = true;
    program.simple = program.careful = false;
    StatesCheck exactly(program, folder_);
    try {
      if (!exactly.run()) return false;
    } catch (const Failure&) {
      return false;
    }
    StateTolerance tolerance{.relative = kTolerance};
    const StateValues exact = exactly.plain_.values();
    for (const auto& [name, values] : want) {
      auto known = exact.find(name);
      if (known == exact.end() || known->second.size() != values.size()) return false;
      double error = 0;
      for (size_t i = 0; i < values.size(); ++i) error = std::max(error, std::fabs(values[i] - known->second[i]));
      tolerance.more[name] = kErrors * error;
    }
    return !state_difference(got, want, tolerance);
  }

  static constexpr double kTolerance = 2e-4, kWideTolerance = 1e-9;
  static constexpr double kErrors = 8;  // so many times what rounding did to the plain one

  const StateProgram& program_;
  const std::string folder_;
  size_t done_ = 0;  // statements
  StateWorld captured_, plain_;
  StateModel model_;
  Generator::State default_of_captured_, default_of_plain_;
};

bool is_exception(const Failure& failure) { return failure.message.starts_with("throws "); }

}  // namespace

void check_states(const StateProgram& program, const std::string& folder) {
  std::unique_lock lock(default_generator_users, std::defer_lock);
  if (uses_default_generator(program)) lock.lock();
  try {
    StatesCheck(program, folder).run();
  } catch (Failure& failure) {
    failure.detail = to_text(program);
    throw;
  } catch (const std::exception& error) {
    throw Failure{text("throws ", error.what(), " when it is looked at"), to_text(program)};
  }
}

Failure shrink_states(StateProgram& program, Failure failure, const std::string& folder) {
  // Takes the smaller program over if it fails too.
  auto fails = [&](const StateProgram& smaller) {
    try {
      check_states(smaller, folder);
    } catch (const Failure& found) {
      if (is_exception(found) != is_exception(failure)) return false;
      failure = found;
      program = smaller;
      return true;
    }
    return false;
  };
  StateProgram less = program;
  less.careful = true;
  fails(less);
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (size_t i = program.statements.size(); i-- > 0;) {
      less = program;
      less.statements.erase(less.statements.begin() + static_cast<int64_t>(i));
      if (fails(less)) smaller = true;
    }
    for (size_t i = 0; i < program.statements.size(); ++i) {
      for (size_t k = program.statements[i].body.size(); k-- > 0;) {
        less = program;
        less.statements[i].body.erase(less.statements[i].body.begin() + static_cast<int64_t>(k));
        if (fails(less)) smaller = true;
      }
      while (program.statements[i].times > 1) {
        less = program;
        --less.statements[i].times;
        if (!fails(less)) break;
        smaller = true;
      }
    }
  }
  return failure;
}

}  // namespace heddle::fuzz
