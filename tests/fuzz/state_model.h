// What programs of fuzz_states mean by the guide, in plain C++: slots of numbers with names, and nothing recorded.
#pragma once

#include <memory>

#include "fuzz/state_values.h"
#include "fuzz/states.h"

namespace heddle::fuzz {

class StateModel {
 public:
  StateModel();
  ~StateModel();
  // One of the operations that simple programs have; it must work there.
  void execute(const Statement& statement);
  StateValues values() const;

  struct Slot;
  struct Optimizer;
  struct Function;

 private:
  using Handle = std::shared_ptr<Slot>;
  std::vector<Handle> v_, x_, r_;
  std::vector<int64_t> index_ = {0, 3};
  std::vector<std::shared_ptr<Optimizer>> optimizers_;
  std::vector<std::shared_ptr<Function>> functions_;

  std::shared_ptr<Function> function(const Statement& statement) const;
};

}  // namespace heddle::fuzz
