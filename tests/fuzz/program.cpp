#include "fuzz/program.h"

#include <cmath>

#include "tensor/build.h"

namespace heddle::fuzz {

const std::vector<Block>& all_blocks() {
  static const std::vector<Block> all = [] {
    std::vector<Block> list;
    for (auto topic :
         {norm_blocks, product_blocks, attention_blocks, image_blocks, move_blocks, loss_blocks, model_blocks})
      for (const Block& block : topic()) list.push_back(block);
    return list;
  }();
  return all;
}

// The names in a line of a program; the first is what it defines.
static std::vector<std::string> names_in(const std::string& line) {
  std::vector<std::string> names(1);
  for (char c : line.substr(0, line.find('#'))) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_')
      names.back() += c;
    else if (!names.back().empty())
      names.emplace_back();
  }
  return names;
}

std::string Program::text(const std::vector<std::string>& names) const {
  std::set<std::string> wanted(names.begin(), names.end());
  std::string all;
  for (size_t i = lines.size(); i-- > 0;) {
    std::vector<std::string> found = names_in(lines[i]);
    if (!names.empty() && (found[0].empty() || !wanted.contains(found[0]))) continue;
    wanted.insert(found.begin(), found.end());
    all = "  " + lines[i] + "\n" + all;
  }
  return all;
}

Tensor make_leaf_tensor(const Recipe& recipe, size_t number, const Leaf& leaf, bool exact) {
  Random random(hash_combine(hash_combine(recipe.seed, number), recipe.round));
  int64_t count = 1;
  for (int64_t n : leaf.shape) count *= n;
  std::vector<std::byte> data(static_cast<size_t>(count * size_of(leaf.dtype)) + 1);
  for (int64_t i = 0; i < count; ++i) {
    double value = 0;
    switch (leaf.kind) {
      case LeafKind::Number:
        value = exact ? static_cast<double>(random.between(-2, 2)) : leaf.scale * (2 * random.uniform() - 1);
        break;
      case LeafKind::Positive:
        value = exact ? static_cast<double>(random.between(1, 2)) : 0.5 + random.uniform();
        break;
      case LeafKind::Index: value = static_cast<double>(random.below(leaf.limit)); break;
      case LeafKind::Mask: value = random.chance(0.7); break;
    }
    store_scalar(data.data(), i, Scalar::of(leaf.dtype, value));
  }
  Shape shape;
  for (int64_t n : leaf.shape) shape.push_back(n);
  Tensor tensor(buffer_node(data.data(), leaf.dtype, shape));
  if (is_float(leaf.dtype)) tensor.requires_grad_();
  return tensor;
}

Builder::Builder(const Recipe& recipe, const std::vector<Tensor>* inputs, bool realize_steps)
    : recipe_(recipe),
      inputs_(inputs),
      realize_steps_(realize_steps),
      random_(recipe.seed),
      places_(recipe.seed ^ 0x646576),
      device_(default_device()),
      smaller_(std::max(0, recipe.smaller)) {
  program_.recipe = recipe;
  double which = random_.uniform();
  program_.exact = exact_ = which < 0.1;
  program_.dtype = which < 0.08   ? kF32
                   : which < 0.1  ? kI32
                   : which < 0.8  ? kF32
                   : which < 0.9  ? kF64
                   : which < 0.95 ? kF16
                                  : kBF16;
  if (recipe.dtype) program_.dtype = *recipe.dtype;
  program_.large = Random(recipe.seed ^ 0x6c61726765).chance(0.03);
  // Many rules of fusion ask for 64 rows; then the other sizes have to be small.
  if (chance(0.4)) sizes_.push_back(of<int64_t>({63, 64, 65, 96, 128, 129, 200, 256, 257}));
  while (sizes_.size() < 3) sizes_.push_back(size());
}

// ---- sizes and leaves ----

int64_t Builder::size(int64_t limit) {
  static const std::vector<int64_t> kThresholds = {8,  15, 16, 17,  31,  32,  33,  47,  48,  49,  63,  64,
                                                   64, 65, 96, 127, 128, 129, 192, 255, 256, 257, 300, 512};
  limit = std::max<int64_t>(1, std::min(limit, most_elements() / 8));
  for (int attempt = 0; attempt < 8; ++attempt) {
    double which = random_.uniform();
    int64_t n = which < 0.4 && sizes_.size() == 3 ? random_.of(sizes_)
                : which < 0.7                     ? random_.between(1, 17)
                                                  : random_.of(kThresholds);
    if (n <= limit) return n;
  }
  return random_.between(1, std::min<int64_t>(limit, 17));
}

int64_t Builder::divisor(int64_t n) {
  std::vector<int64_t> all;
  for (int64_t d = 1; d <= n; ++d)
    if (n % d == 0) all.push_back(d);
  return random_.of(all);
}

static std::string described(const Tensor& x) { return heddle::text(name(x.dtype()), x.shape()); }

Term Builder::new_leaf(const Leaf& leaf) {
  size_t number = program_.leaves.size();
  program_.leaves.push_back(leaf);
  Tensor tensor = inputs_ ? inputs_->at(number) : make_leaf_tensor(recipe_, number, leaf, exact_);
  program_.inputs.push_back(tensor);
  Term term{tensor, heddle::text("p", number)};
  program_.lines.push_back(term.name + " = leaf " + described(tensor));
  if (is_float(leaf.dtype)) {
    parameters_.push_back(term);
    program_.parameters.push_back(number);
  }
  return here(term);
}

void Builder::draw_device() {
  if (!recipe_.devices) return;
  device_ = Device(places_.of(std::vector<const char*>{"cpu", "simulated", "simulated:1"}));
  program_.lines.push_back("# on " + device_.name());
}

Term Builder::here(const Term& x) const {
  return recipe_.devices && x.tensor.device() != device_ ? Term{x.tensor.to(device_), x.name} : x;
}

Term Builder::leaf(const Dims& shape, int64_t fan) {
  double scale = std::sqrt(3.0 / static_cast<double>(std::max<int64_t>(fan, 1)));
  return new_leaf({LeafKind::Number, shape, dtype(), scale});
}
Term Builder::positive(const Dims& shape) { return new_leaf({LeafKind::Positive, shape, dtype()}); }
Term Builder::index(const Dims& shape, int64_t limit) { return new_leaf({LeafKind::Index, shape, kI64, 1, limit}); }
Term Builder::mask(const Dims& shape) { return new_leaf({LeafKind::Mask, shape, kBool}); }

// ---- expressions ----

Term Builder::expression(const std::string& text, const std::vector<Term>& terms, const Tensor& tensor) {
  std::string full;
  size_t next = 0;
  for (char c : text)
    if (c == '$')
      full += terms.at(next++).name;
    else
      full += c;
  return {tensor, full};
}

Term Builder::let(const std::string& text, const std::vector<Term>& terms, const Tensor& tensor) {
  Term term = expression(text, terms, tensor);
  std::string right = std::exchange(term.name, heddle::text("t", program_.values.size()));
  program_.lines.push_back(term.name + " = " + right + "    # " + described(tensor));
  if (realize_steps_) tensor.realize();
  program_.values.push_back(term);
  if (tensor.dtype() == dtype()) pool_.push_back(term);
  output(term);
  return term;
}

Term Builder::any(int64_t limit) {
  limit = limit > 0 ? std::min(limit, most_elements()) : most_elements();
  // What was made last comes most often, so that blocks follow each other.
  for (int attempt = 0; attempt < 4 && !pool_.empty() && !chance(0.15); ++attempt) {
    const Term& x = chance(0.5) ? pool_.back() : random_.of(pool_);
    if (x.tensor.numel() <= limit) return here(x);
  }
  int64_t n = chance(0.5) ? std::min(sizes_[0], limit) : size(limit);
  Term x = leaf({n, chance(0.4) ? small(limit / n) : size(limit / n)});
  pool_.push_back(x);
  return x;
}

Term Builder::matrix(int64_t limit) {
  Term x = any(limit);
  Dims shape = x.tensor.shape();
  if (shape.size() == 2) return x;
  if (shape.size() < 2) return expression("reshape($, {1, -1})", {x}, reshape(x.tensor, {1, -1}));
  if (chance(0.5)) return expression("flatten($, 1)", {x}, flatten(x.tensor, 1));
  return expression("flatten($, 0, -2)", {x}, flatten(x.tensor, 0, -2));
}

Term Builder::batch(int64_t limit) {
  Term x = any(limit);
  Dims shape = x.tensor.shape();
  if (shape.size() == 3) return x;
  if (shape.size() > 3) return expression("flatten($, 1, -2)", {x}, flatten(x.tensor, 1, -2));
  if (shape.size() < 2) return expression("reshape($, {1, 1, -1})", {x}, reshape(x.tensor, {1, 1, -1}));
  if (chance(0.3)) return expression("unsqueeze($, 0)", {x}, unsqueeze(x.tensor, 0));
  int64_t part = chance(0.5) ? divisor(shape[0]) : 1;
  return expression(text("reshape($, {", part, ", -1, ", shape[1], "})"), {x}, reshape(x.tensor, {part, -1, shape[1]}));
}

Term Builder::images(int64_t limit) {
  limit = limit > 0 ? limit : most_elements() / 4;
  for (int attempt = 0; attempt < 6 && !pool_.empty(); ++attempt)
    if (const Term& x = random_.of(pool_); x.tensor.rank() == 4 && x.tensor.numel() <= limit && x.tensor.numel() > 0)
      return here(x);
  int64_t batch = between(1, 3), channels = of<int64_t>({1, 2, 3, 4, 6, 8, 16});
  int64_t height = small(std::max<int64_t>(2, limit / (batch * channels * 4)));
  int64_t width = chance(0.5) ? height : small(std::max<int64_t>(2, limit / (batch * channels * height)));
  Term x = leaf({batch, channels, height, width});
  pool_.push_back(x);
  return x;
}

Term Builder::scaled(const Term& x, int64_t fan) {
  if (exact_ || fan <= 1 || chance(0.2)) return x;
  double factor = std::sqrt(static_cast<double>(fan));
  if (chance(0.3)) return expression(text("($ / ", fan, ")"), {x}, x.tensor / fan);
  return expression(text("($ * ", 1 / factor, ")"), {x}, x.tensor * (1 / factor));
}

// ---- programs ----

void Builder::run_blocks() {
  std::vector<const Block*> usable;
  for (const Block& block : all_blocks()) {
    bool wanted =
        recipe_.only.empty() || std::find(recipe_.only.begin(), recipe_.only.end(), block.name) != recipe_.only.end();
    if (!wanted || (exact_ && !block.exact)) continue;
    for (int i = 0; i < block.weight; ++i) usable.push_back(&block);
  }
  if (usable.empty()) return;
  program_.blocks = static_cast<int>(random_.of(std::vector<int64_t>{1, 1, 1, 2, 2, 2, 3, 3, 4, 6}));
  if (program_.large) program_.blocks = std::min(program_.blocks, 2);
  if (recipe_.blocks > 0) program_.blocks = recipe_.blocks;
  for (int number = 0; number < program_.blocks; ++number) {
    // Blocks have streams of their own, so that one can be left out and the others stay.
    random_ = Random(hash_combine(recipe_.seed, 1000 + static_cast<uint64_t>(number)));
    if (recipe_.without.contains(number)) continue;
    const Block& block = *random_.of(usable);
    program_.lines.push_back(text("# ", number, ": ", block.name));
    draw_device();
    DeviceScope constants_too(device_);
    block.run(*this);
  }
}

void Builder::choose_outputs() {
  random_ = Random(hash_combine(recipe_.seed, 2000));
  if (candidates_.empty()) return;
  // The last value, often with one that it was computed from.
  std::vector<Term> chosen;
  auto add = [&](const Term& x) {
    for (const Term& other : chosen)
      if (other.name == x.name) return;
    chosen.push_back(x);
  };
  add(candidates_.back());
  if (candidates_.size() > 1 && chance(0.6)) add(candidates_[candidates_.size() - 2]);
  for (int64_t more = between(0, 2); more > 0; --more) add(random_.of(candidates_));
  program_.outputs = chosen;
  program_.forward = chosen.size();
}

// What all outputs together lose; gradients with respect to every leaf of numbers.
void Builder::add_gradients() {
  random_ = Random(hash_combine(recipe_.seed, 3000));
  if (!is_float(dtype()) || parameters_.empty() || chance(0.15)) return;
  draw_device();
  std::vector<Term> terms;
  for (const Term& loss : losses_) terms.push_back(here(loss));
  for (size_t i = 0; i < program_.forward; ++i) {
    const Term x = here(program_.outputs[i]);
    if (!is_float(x.tensor.dtype()) || x.tensor.numel() == 0) continue;
    if (!x.tensor.requires_grad() || (!losses_.empty() && chance(0.5))) continue;
    switch (between(0, exact_ ? 1 : 3)) {
      case 0: terms.push_back(expression("sum($)", {x}, sum(x.tensor))); break;
      case 1: terms.push_back(expression("sum(square($))", {x}, sum(square(x.tensor)))); break;
      case 2: terms.push_back(expression("mean(square($))", {x}, mean(square(x.tensor)))); break;
      default: {
        Term c = new_leaf({LeafKind::Number, x.tensor.shape(), dtype()});
        terms.push_back(expression("sum($ * $)", {x, c}, sum(x.tensor * c.tensor)));
      }
    }
  }
  if (terms.empty()) return;
  Term all = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) all = expression("$ + $", {all, terms[i]}, all.tensor + terms[i].tensor);
  if (all.tensor.numel() != 1 || !all.tensor.requires_grad()) return;
  // A penalty on the length of a gradient: derivatives of second order.
  if (!exact_ && chance(0.06)) {
    const Term& p = random_.of(parameters_);
    Tensor first = here({grad(all.tensor, p.tensor, {.allow_unused = true}), ""}).tensor;
    if (first.requires_grad()) {
      Term g{first, "grad(" + all.name + ", " + p.name + ")"};
      all = expression("$ + 0.1 * mean(square($))", {all, g}, all.tensor + 0.1 * mean(square(first)));
    }
  }
  program_.lines.push_back("loss = " + all.name);
  program_.loss = all.tensor;
  TensorList wanted;
  const std::vector<Term> parameters = parameters_;  // updates have leaves too
  const std::vector<size_t> numbers = program_.parameters;
  for (const Term& p : parameters_) wanted.push_back(p.tensor);
  TensorList found = grad(all.tensor, wanted, {.allow_unused = true});
  std::vector<Term> gradients;
  for (size_t i = 0; i < found.size(); ++i) {
    gradients.push_back({found[i], "g_" + parameters[i].name});
    program_.lines.push_back(gradients.back().name + " = grad(loss, " + parameters[i].name + ")    # " +
                             described(found[i]));
    program_.outputs.push_back(gradients.back());
  }
  if (!exact_ && (chance(0.2) || updates_)) add_updates(parameters, gradients);
  program_.parameters = numbers;
}

// A step of an optimiser behind the gradients, as one expression.
void Builder::add_updates(const std::vector<Term>& parameters, const std::vector<Term>& gradients) {
  bool alone = chance(0.3);  // only the new parameter is wanted
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Term p = here(parameters[i]), g = here(gradients[i]);
    if (chance(0.3)) {
      program_.outputs.push_back({p.tensor - 0.1 * g.tensor, "new_" + p.name});
      program_.lines.push_back(text("new_", p.name, " = ", p.name, " - 0.1 * ", g.name));
      continue;
    }
    Term m = leaf(p.tensor.shape()), v = positive(p.tensor.shape());
    Tensor first = 0.9 * m.tensor + 0.1 * g.tensor, second = 0.99 * v.tensor + 0.01 * square(g.tensor);
    Tensor next = p.tensor * (1 - 0.01 * 0.1) - 0.01 * (first / 0.1) / (sqrt(second / 0.01) + 1e-6);
    auto add = [&](const char* what, const Tensor& tensor) {
      program_.outputs.push_back({tensor, what + p.name});
      program_.lines.push_back(text(what, p.name, " = adamw(", p.name, ", ", g.name, ", ", m.name, ", ", v.name, ")"));
    };
    add("new_", next);
    if (alone) continue;
    add("m_", first);
    add("v_", second);
  }
}

Program Builder::build() {
  run_blocks();
  choose_outputs();
  add_gradients();
  return program_;
}

Program build_program(const Recipe& recipe, const std::vector<Tensor>* inputs, bool realize_steps) {
  return Builder(recipe, inputs, realize_steps).build();
}

}  // namespace heddle::fuzz
