// Random control flow: bodies of random operations, nested, as loops and conditions of Heddle's against the same
// program unrolled by C++; values, gradients with respect to everything, captured, mapped, and by the slow evaluator.
//
//   fuzz_control --seeds 0:2000          these seeds
//   fuzz_control --seconds 60            new seeds until the time is over
//   --threads N                          seeds at the same time (default: 1)
//   --survey                             do not stop at a failure: one line for each, with the command
//   --verbose                            every seed
#include <heddle/heddle.h>

#include <cmath>

#include "base/error.h"
#include "fuzz/driver.h"
#include "graph/control.h"
#include "graph/graph.h"
#include "graph/random_graph.h"

namespace heddle::fuzz {
namespace {

using testing::Random;

constexpr const char* kUsage = "fuzz_control [--seeds BEGIN:END] [--seconds N] [--threads N] [--survey] [--verbose]";

// What a body may use; matrices of one shape, rows, and numbers.
struct Scope {
  TensorList values;   // f64 of any of the three shapes
  TensorList outside;  // the same, from outside of all loops
  int64_t rows, columns;
};

Tensor to_shape(const Tensor& x, const Dims& shape) {
  Tensor y = x;
  while (y.rank() > static_cast<int>(shape.size())) y = mean(y, {0});
  return broadcast_to(y, shape) * 1.0;
}

// Draws the same program for the same seed, whichever way it is run.
class Program {
 public:
  Program(uint64_t seed, bool looped) : looped_(looped), seed_(seed) {}

  // Everything as a function of the tensors it starts from.
  Tensor run(const TensorList& given) {
    Random random(seed_);
    Scope scope{given, given, given[0].shape()[0], given[0].shape()[1]};
    Tensor total = zeros({}, kF64);
    const int64_t parts = random.between(1, 2);
    for (int64_t i = 0; i < parts; ++i) {
      TensorList made = block(random.bits(), scope, 0);
      for (const Tensor& x : made) {
        total = total + mean(sin(x));
        scope.values.push_back(x);
      }
    }
    return total;
  }

 private:
  TensorList block(uint64_t seed, const Scope& scope, int depth) {
    Random random(seed);
    switch (random.below(4)) {
      case 0: return condition(random, scope, depth);
      case 1: return while_counting(random, scope, depth);
      default: return scanned(random, scope, depth);
    }
  }

  Dims any_shape(Random& random, const Scope& scope) {
    switch (random.below(3)) {
      case 0: return {};
      case 1: return {scope.columns};
      default: return {scope.rows, scope.columns};
    }
  }
  Tensor pick(Random& random, const Scope& scope) {
    return random.chance(0.3) ? random.of(scope.outside) : random.of(scope.values);
  }

  Tensor operation(Random& random, const Scope& scope) {
    const Tensor a = pick(random, scope), b = pick(random, scope);
    switch (random.below(13)) {
      case 0: return a + b;
      case 1: return a * b * 0.5;
      case 2: return tanh(a) - b * 0.25;
      case 3: return sin(a + 0.3);
      case 4: return where(a > b, a, b * 0.5);
      case 5: return softmax(to_shape(a, {scope.rows, scope.columns}), -1);
      case 6: return mean(a) + tanh(b);
      case 7: {
        const Tensor m = to_shape(a, {scope.rows, scope.columns}), w = to_shape(b, {scope.rows, scope.columns});
        return tanh(matmul(matmul(m, transpose(w, 0, 1)), w) * 0.2);
      }
      case 8: return cumsum(to_shape(a, {scope.columns}), 0) * 0.2;
      case 9: return roll(to_shape(a, {scope.rows, scope.columns}), 1, 0);
      case 10: return flip(to_shape(a, {scope.columns}), {0});
      case 11:
        return take(to_shape(a, {scope.rows, scope.columns}), tensor({0, 0}, kI64), 0)
            .slice(0, 0, 1)
            .reshape({scope.columns});
      default: return sigmoid(a) * b;
    }
  }

  // Values of these shapes out of some operations, and perhaps a block inside.
  TensorList compute(Random& random, Scope scope, const std::vector<Dims>& shapes, int depth) {
    const int64_t count = random.between(1, 4);
    for (int64_t i = 0; i < count; ++i) scope.values.push_back(operation(random, scope));
    const uint64_t inside = random.bits();
    if (depth < 2 && random.chance(0.3))
      for (const Tensor& x : block(inside, scope, depth + 1)) scope.values.push_back(x);
    TensorList results;
    for (const Dims& shape : shapes) results.push_back(tanh(to_shape(pick_late(random, scope), shape)));
    return results;
  }
  Tensor pick_late(Random& random, const Scope& scope) {
    return random.chance(0.7) ? scope.values.back() : random.of(scope.values);
  }

  TensorList condition(Random& random, const Scope& scope, int depth) {
    const Tensor a = pick(random, scope);
    const Tensor predicate = mean(a) > 0.1;
    std::vector<Dims> shapes;
    const int64_t count = random.between(1, 2);
    for (int64_t i = 0; i < count; ++i) shapes.push_back(any_shape(random, scope));
    const uint64_t seeds[] = {random.bits(), random.bits()};
    auto branch = [&](size_t which) {
      Random own(seeds[which]);
      return compute(own, scope, shapes, depth);
    };
    if (looped_) return cond(predicate, [&] { return branch(0); }, [&] { return branch(1); });
    TensorList yes = branch(0), no = branch(1), chosen;
    for (size_t i = 0; i < yes.size(); ++i) chosen.push_back(where(predicate, yes[i], no[i]));
    return chosen;
  }

  // No gradient goes back through a loop whose rounds are not known: what it computes is a constant for them.
  TensorList while_counting(Random& random, const Scope& scope, int depth) {
    const int64_t rounds = random.between(0, 4);
    const Dims shape = any_shape(random, scope);
    const uint64_t seed = random.bits();
    Scope fixed = scope;
    for (TensorList* list : {&fixed.values, &fixed.outside})
      for (Tensor& x : *list) x = x.detach();
    const Tensor begin = to_shape(pick(random, fixed), shape);
    auto body = [&](const Tensor& now) {
      Random own(seed);
      Scope inside = fixed;
      inside.values.push_back(now);
      return compute(own, inside, {shape}, depth)[0];
    };
    if (looped_) {
      return {while_loop([&](const TensorList& c) { return c[0] < rounds; },
                         [&](const TensorList& c) { return TensorList{c[0] + 1, body(c[1])}; },
                         TensorList{zeros({}, kI64), begin})[1]};
    }
    Tensor now = begin;
    for (int64_t i = 0; i < rounds; ++i) now = body(now);
    return {now};
  }

  TensorList scanned(Random& random, const Scope& scope, int depth) {
    // Many rounds are rolled up again where C++ unrolled them.
    const int64_t rounds = depth == 0 && random.chance(0.3) ? random.between(16, 24) : random.between(0, 5);
    const bool reverse = random.chance(0.3);
    const int64_t again = random.chance(0.2) ? 2 : 0;
    std::vector<Dims> shapes, output_shapes;
    TensorList carry, inputs;
    const int64_t carried = random.between(0, 3), stacked = random.between(0, 2),
                  outputs = random.between(carried ? 0 : 1, 2);
    for (int64_t i = 0; i < carried; ++i) {
      shapes.push_back(any_shape(random, scope));
      carry.push_back(to_shape(pick(random, scope), shapes.back()));
    }
    for (int64_t i = 0; i < outputs; ++i) output_shapes.push_back(any_shape(random, scope));
    for (int64_t i = 0; i < stacked; ++i) {
      const Tensor x = to_shape(pick(random, scope), any_shape(random, scope));
      TensorList parts;
      for (int64_t r = 0; r < rounds; ++r) parts.push_back(x * (0.5 + 0.25 * static_cast<double>(r)));
      Dims none{0};
      for (int64_t size : x.shape()) none.push_back(size);
      inputs.push_back(rounds ? stack(parts) : zeros(none, kF64));
    }
    const uint64_t seed = random.bits();
    const bool swaps = random.chance(0.3);
    using All = std::pair<TensorList, TensorList>;
    auto body = [&](const TensorList& now, const TensorList& slices) -> All {
      Random own(seed);
      Scope inside = scope;
      for (const TensorList* list : {&now, &slices})
        inside.values.insert(inside.values.end(), list->begin(), list->end());
      std::vector<Dims> both = shapes;
      both.insert(both.end(), output_shapes.begin(), output_shapes.end());
      TensorList made = compute(own, inside, both, depth);
      const auto middle = made.begin() + carried;
      All all{{made.begin(), middle}, {middle, made.end()}};
      // Values that only change their places.
      if (swaps && carried == 2 && shapes[0] == shapes[1]) all.first[0] = now[1];
      if (swaps && carried > 0) all.second.push_back(now[0]);
      return all;
    };
    All all;
    if (looped_) {
      all = scan(body, carry, inputs, {.reverse = reverse, .length = rounds, .recompute_every = again});
    } else {
      all.first = carry;
      std::vector<TensorList> rows(static_cast<size_t>(rounds));
      for (int64_t i = 0; i < rounds; ++i) {
        const int64_t at = reverse ? rounds - 1 - i : i;
        TensorList slices;
        for (const Tensor& x : inputs) slices.push_back(x.at({at}));
        auto [next, y] = body(all.first, slices);
        all.first = next;
        rows[static_cast<size_t>(at)] = y;
      }
      if (rounds > 0)
        for (size_t k = 0; k < rows[0].size(); ++k) {
          TensorList column;
          for (const TensorList& row : rows) column.push_back(row[k]);
          all.second.push_back(stack(column));
        }
    }
    TensorList results = all.first;
    if (rounds > 0)
      for (const Tensor& y : all.second) results.push_back(mean(y, {0}));
    if (results.empty()) results.push_back(zeros({}, kF64));
    return results;
  }

  const bool looped_;
  const uint64_t seed_;
};

void expect_close(const char* what, const Tensor& got, const Tensor& want) {
  const std::vector<double> a = got.to_vector<double>(), b = want.to_vector<double>();
  if (a.size() != b.size()) throw ValueError(text(what, ": ", a.size(), " elements instead of ", b.size()));
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::fabs(a[i] - b[i]) <= 1e-9 * (1 + std::fabs(b[i]))) && !(std::isnan(a[i]) && std::isnan(b[i])))
      throw ValueError(text(what, ": element ", i, " is ", a[i], " instead of ", b[i]));
}

void check(uint64_t seed) {
  Random random(seed ^ 0x5eed);
  const int64_t rows = random.between(1, 4), columns = random.of(std::vector<int64_t>{1, 3, 8, 17});
  manual_seed(seed);
  TensorList given{randn({rows, columns}, kF64), randn({columns}, kF64), randn({}, kF64)};
  for (Tensor& x : given) x.realize();
  auto looped = [&](const TensorList& x) { return Program(seed, true).run(x); };
  auto unrolled = [&](const TensorList& x) { return Program(seed, false).run(x); };
  auto [a, ga] = value_and_grad(looped)(given);
  auto [b, gb] = value_and_grad(unrolled)(given);
  expect_close("value", a, b);
  for (size_t i = 0; i < given.size(); ++i) expect_close("gradient", ga[i], gb[i]);
  NodeRef node = looped(given).node();
  const double oracle = evaluate(std::span(&node, 1))[0].floats[0];
  expect_close("the evaluator", full({}, oracle, kF64), b);
  node = unrolled(given).node();
  const double rolled = evaluate(roll(std::span(&node, 1)))[0].floats[0];
  expect_close("the evaluator, rolled up", full({}, rolled, kF64), b);
  if (random.chance(0.3)) {
    auto captured = jit([&](const Tensor& x, const Tensor& y, const Tensor& z) {
      auto [v, g] = value_and_grad(looped)(TensorList{x, y, z});
      return v + sum(g[0]) + sum(g[1]) + g[2];
    });
    const Tensor want = b + sum(gb[0]) + sum(gb[1]) + gb[2];
    for (int i = 0; i < 3; ++i) expect_close("captured", captured(given[0], given[1], given[2]), want);
  }
  if (random.chance(0.3)) {
    const Tensor many = stack({given[0], given[0] * 0.5, given[0] + 0.1});
    auto one = [&](const Tensor& x) { return looped({x, given[1], given[2]}); };
    const Tensor all = vmap(one)(many);
    for (int64_t i = 0; i < 3; ++i) expect_close("mapped", all.at({i}), unrolled({many.at({i}), given[1], given[2]}));
  }
}

}  // namespace
}  // namespace heddle::fuzz

int main(int count, char** arguments) {
  using namespace heddle::fuzz;
  DriverOptions options;
  CommandLine line(count, arguments, kUsage);
  while (line.next())
    if (!line.common(options)) line.fail("unknown option " + line.option());
  line.finish(options);
  if (!has_device()) return kSkipped;
  Driver driver(options);
  return driver.run([&](uint64_t seed) {
    const std::string command = heddle::text(options.program, " --seeds ", seed, ":", seed + 1);
    driver.now(command);
    try {
      check(seed);
    } catch (const std::exception& error) {
      driver.fail(
          [&] { return heddle::text("FAILED: seed ", seed, ": ", error.what(), "\nrepeat with\n  ", command); });
    }
  });
}
