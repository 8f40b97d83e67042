// Tensors, captured functions and modules that several threads use at once, chosen by a seed, and what threads do to
// them. Everything that is read is checked: a step adds one to every element of all tensors of its groups.
#pragma once

#include <heddle/heddle.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>

#include "temporary_folder.h"

namespace heddle::fuzz {

using Random = std::mt19937_64;

// Tensors that change together, by captured functions and load_state() alone; a single one by plain code too.
struct Group : nn::Module<Group> {
  std::vector<Tensor> tensors;
  bool plain = false;   // += and realize() are among the ways to step
  bool loaded = false;  // values from files come back: it does not only grow
  std::atomic<int64_t> steps{0};

  Group() = default;
  Group(const Group& other) : nn::Module<Group>(other), tensors(other.tensors) {}
  template <class V>
  void visit(V& v) {
    v("t", tensors);
  }
};

// A captured function that steps some groups and reads others.
struct Function {
  std::vector<size_t> steps, reads;  // groups
  std::vector<Tensor> arguments;     // their tensors, in the order of the results
  bool closes = false;               // over them; then it is given nothing
  bool draws = false;                // a random number, as the last result
  std::function<TensorList(const std::vector<Tensor>&)> call;
  std::function<void()> look, clear;  // at its plans; forgetting them
};

class World {
 public:
  explicit World(uint64_t seed);
  // Does what the seed says in several threads for a while. Throws std::runtime_error naming what was wrong.
  void run(double seconds);

 private:
  struct Action {
    const char* name;
    std::function<void(Random&)> act;
  };
  // What one thread has seen.
  struct Seen {
    std::vector<double> last;
  };

  size_t any_group(Random& random) const { return random() % groups_.size(); }
  void make_groups(Random& random);
  void make_functions(Random& random);
  std::vector<Action> actions(Seen& seen);
  void see(Seen& seen, size_t group, double value) const;
  void check_total() const;

  void step(Random& random, Seen& seen);
  void step_plainly(Random& random);
  void read(Random& random, Seen& seen);
  void hold(Random& random);
  void take_snapshot(Random& random, Seen& seen);
  void save(Random& random, Seen& seen);
  void load(Random& random);
  void pass_handles(Random& random);
  void differentiate();
  void draw(Random& random);
  void use_net(Random& random);
  void look_at_functions(Random& random);
  void record_profile();

  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<std::unique_ptr<Function>> functions_;
  Tensor weight_;
  std::atomic<int64_t> backwards_{0}, draws_{0}, files_{0};
  Generator generator_{11};
  nn::Sequential net_;
  Tensor net_input_;
  std::function<Tensor(Tensor)> forward_;
  std::mutex pool_lock_;
  std::vector<Tensor> pool_;
  int threads_ = 2;
  uint64_t seed_;
  testing::TemporaryFolder folder_;
};

}  // namespace heddle::fuzz
