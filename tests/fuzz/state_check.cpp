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
      : program_(program), captured_(program, true, folder), plain_(program, false, folder) {}

  void run() {
    for (const Statement& s : program_.statements) {
      if (!step(s)) return;
      if (program_.careful) look(s);
    }
    if (!program_.statements.empty()) look(program_.statements.back());
    state_counts().replays += captured_.replays();
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
      return true;
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

  void look(const Statement& s) {
    ++state_counts().looks;
    StateValues got = captured_.values(), want = plain_.values();
    if (auto difference = state_difference(got, want))
      throw Failure{text("captured and plain differ after ", to_text(s), ": ", *difference), ""};
    if (default_of_captured_ != default_of_plain_)
      throw Failure{"the default generators differ after " + to_text(s), ""};
    if (!program_.simple) return;
    for (auto it = want.begin(); it != want.end();) it = it->first.starts_with("generator") ? want.erase(it) : next(it);
    ++state_counts().by_model;
    if (auto difference = state_difference(want, model_.values()))
      throw Failure{text("plain and the model differ after ", to_text(s), ": ", *difference), ""};
  }

  const StateProgram& program_;
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
