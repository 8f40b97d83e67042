// Random programs of the kind that people write: blocks such as norms, products, attention and losses, put together
// over a pool of tensors, with gradients of all of it.
//
// A program is a function of a recipe alone, so it can be built again, over the same leaves or others, while a captured
// function records, in another dtype, or with fewer blocks.
#pragma once

#include <heddle/heddle.h>

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/random_graph.h"

namespace heddle::fuzz {

using testing::Random;

struct Recipe {
  uint64_t seed = 0;
  int smaller = -1;               // divides the limits of sizes by powers of two; negative: as the work allows
  uint64_t round = 0;             // other values in the leaves
  std::optional<DType> dtype;     // in place of the seed's
  std::vector<std::string> only;  // names of blocks; empty: all
  int blocks = 0;                 // so many, less those left out; 0: as the seed says
  std::set<int> without;          // blocks left out, by number
  std::set<int> keep;             // results that count, by number; empty: all
  bool captured = false;  // for a captured function, which draws other random numbers at each call: none are used
  bool devices = false;   // every block is on a device of its own, which its operands are copied to
};

// A tensor, and how the program calls it.
struct Term {
  Tensor tensor;
  std::string name;
};

enum class LeafKind { Number, Positive, Index, Mask };
struct Leaf {
  LeafKind kind;
  Dims shape;
  DType dtype;
  double scale = 1;   // of numbers: they lie in [-scale, scale]
  int64_t limit = 1;  // of indices: they lie below
};

struct Program {
  Recipe recipe;
  std::vector<std::string> lines;
  std::vector<Leaf> leaves;
  std::vector<Tensor> inputs;      // of the leaves
  std::vector<Term> values;        // all that has a name
  std::vector<Term> outputs;       // values, then gradients, then what is computed from gradients
  size_t forward = 0;              // so many outputs are values
  std::vector<size_t> parameters;  // leaves with a gradient each, in the order of the outputs behind the values
  std::optional<Tensor> loss;
  DType dtype = kF32;
  bool exact = false;  // all numbers are small and whole
  bool large = false;  // few blocks, of sizes for which matrix units are used
  int blocks = 0;
  // As pseudo code: all of it, or what these names need.
  std::string text(const std::vector<std::string>& names = {}) const;
};

// `inputs`: tensors in place of the leaves. `realize_steps`: every value is computed as soon as it has a name.
Program build_program(const Recipe& recipe, const std::vector<Tensor>* inputs = nullptr, bool realize_steps = false);

// The values of a leaf, as round `recipe.round` has them.
Tensor make_leaf_tensor(const Recipe& recipe, size_t number, const Leaf& leaf, bool exact);

class Builder {
 public:
  Builder(const Recipe& recipe, const std::vector<Tensor>* inputs, bool realize_steps);
  Program build();

  Random& random() { return random_; }
  bool chance(double p) { return random_.chance(p); }
  int64_t between(int64_t low, int64_t high) { return random_.between(low, high); }
  template <class T>
  T of(std::initializer_list<T> list) {
    return *(list.begin() + random_.below(static_cast<int64_t>(list.size())));
  }
  bool exact() const { return exact_; }  // all values are small whole numbers
  bool large() const { return program_.large; }
  bool captured() const { return recipe_.captured; }
  DType dtype() const { return program_.dtype; }

  // Limits that keep the reference evaluator's work small.
  int64_t most_elements() const { return (program_.large ? 2 * kMostElements : kMostElements) >> smaller_; }
  int64_t most_work() const { return (program_.large ? 4 * kMostWork : kMostWork) >> smaller_; }
  // A size of an axis, at most `limit`: one the program has already, a small one, or one beside a threshold.
  int64_t size(int64_t limit = 1 << 20);
  int64_t small(int64_t limit = 17) { return random_.between(1, std::max<int64_t>(1, std::min<int64_t>(limit, 17))); }
  // A divisor of n.
  int64_t divisor(int64_t n);

  // Leaves. `fan`: how many of them are added up, as a rule; numbers shrink with it.
  Term leaf(const Dims& shape, int64_t fan = 1);
  Term positive(const Dims& shape);
  Term index(const Dims& shape, int64_t limit);
  Term mask(const Dims& shape);

  // A name for a value; `text` has a $ for every term.
  Term let(const std::string& text, const std::vector<Term>& terms, const Tensor& tensor);
  // The same without a name of its own: it stands inside of other expressions.
  Term expression(const std::string& text, const std::vector<Term>& terms, const Tensor& tensor);

  // Floats of the program, made before or new; of at most so many elements.
  Term any(int64_t limit = 0);
  Term matrix(int64_t limit = 0);  // two axes
  Term batch(int64_t limit = 0);   // three axes
  Term images(int64_t limit = 0);  // [batch, channels, height, width]
  Term transposed(const Term& x) { return expression("transpose($)", {x}, transpose(x.tensor)); }
  Term scaled(const Term& x, int64_t fan);  // smaller, where numbers need not be whole
  int64_t axis(const Term& x) { return random_.below(x.tensor.rank()); }

  void add_loss(const Term& loss) { losses_.push_back(loss); }
  // The step of an optimiser is to follow the gradients; else it does now and then.
  void want_updates() { updates_ = true; }

  static constexpr int64_t kMostElements = 1 << 14, kMostWork = 1 << 18;

 private:
  void run_blocks();
  void choose_outputs();
  void add_gradients();
  void add_updates(const std::vector<Term>& parameters, const std::vector<Term>& gradients);
  Term new_leaf(const Leaf& leaf);
  void draw_device();
  Term here(const Term& x) const;  // on the block's device, by the same name
  void output(const Term& x) { candidates_.push_back(x); }

  Recipe recipe_;
  const std::vector<Tensor>* inputs_;
  bool realize_steps_;
  Random random_, places_;
  Device device_;  // of the block
  int smaller_;
  bool exact_ = false, updates_ = false;
  std::vector<int64_t> sizes_;  // that come again and again
  std::vector<Term> pool_, losses_, candidates_, parameters_;
  Program program_;
};

struct Block {
  const char* name;
  int weight;
  bool exact;  // gives whole numbers for whole numbers
  void (*run)(Builder&);
};
// Blocks by topic.
std::vector<Block> norm_blocks();
std::vector<Block> product_blocks();
std::vector<Block> attention_blocks();
std::vector<Block> image_blocks();
std::vector<Block> move_blocks();
std::vector<Block> loss_blocks();
std::vector<Block> model_blocks();
const std::vector<Block>& all_blocks();

}  // namespace heddle::fuzz
