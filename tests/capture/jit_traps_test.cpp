// Captured functions must never give a wrong answer silently: the known traps, one by one.
#include <cmath>
#include <fstream>
#include <sstream>

#include "base/sanitizers.h"
#include "graph/node.h"
#include "runtime/device.h"
#include "tensor/helpers.h"

namespace heddle {
namespace {

using namespace testing;

TEST(JitTraps, closed_over_tensors_are_read_anew) {
  Tensor w = tensor({1, 2});
  auto f = jit([&](const Tensor& x) { return x * w; });
  Tensor x = tensor({10, 100});
  for (int i = 0; i < 4; ++i) {
    expect_equal(f(x), {10. * (1 + i), 100. * (2 + i)});
    w += 1;  // not realised: the next call does that
  }
  w.assign(tensor({7, 8}));
  expect_equal(f(x), {70, 800});
}

TEST(JitTraps, a_closed_over_variable_that_names_another_slot_is_noticed) {
  Tensor w = tensor({1, 2});
  auto f = jit([&](const Tensor& x) { return x * w; });
  Tensor x = tensor({10, 100});
  for (int i = 0; i < 3; ++i) f(x);
  w = tensor({5, 6});
  for (int i = 0; i < 3; ++i) expect_equal(f(x), {50, 600});
}

TEST(JitTraps, arguments_are_read_anew) {
  auto f = jit([](const Tensor& x) { return x + 1; });
  Tensor x = tensor({1, 2});
  for (int i = 0; i < 4; ++i) {
    expect_equal(f(x), {2. + i, 3. + i});
    x += 1;
  }
}

TEST(JitTraps, results_stay_when_the_function_is_called_again) {
  Tensor state = zeros({3}).realize();
  auto f = jit([&](const Tensor& x) {
    state += x;
    return std::tuple(x * 2, state, x * 2, x, state * 1);
  });
  std::vector<std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>> kept;
  for (int i = 0; i < 12; ++i) kept.push_back(f(full({3}, i).realize()));
  double sum = 0;
  for (int i = 0; i < 12; ++i) {
    sum += i;
    auto& [twice, now, again, itself, copy] = kept[static_cast<size_t>(i)];
    expect_equal(twice, {2. * i, 2. * i, 2. * i});
    expect_equal(again, {2. * i, 2. * i, 2. * i});
    expect_equal(now, {sum, sum, sum});
    expect_equal(copy, {sum, sum, sum});
    expect_equal(itself, {1. * i, 1. * i, 1. * i});
  }
  std::get<0>(kept[3]) += 100;  // results are slots of their own
  expect_equal(std::get<2>(kept[3]), {6, 6, 6});
}

TEST(JitTraps, what_is_computed_from_a_result_later_keeps_it) {
  auto f = jit([](const Tensor& x) { return x * 3; });
  std::vector<Tensor> later;
  for (int i = 0; i < 10; ++i) later.push_back(f(full({4}, i).realize()) + 1);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(later[static_cast<size_t>(i)][2].item<float>(), 3 * i + 1);
}

TEST(JitTraps, a_constant_or_an_old_value_may_be_returned) {
  Tensor state = tensor({1, 2});
  auto f = jit([&] {
    Tensor old = state * 1, table = tensor({7, 8}), filled = full({2}, 3);
    Tensor before(state.node());
    state += 1;
    return std::vector{before, table, filled, old};
  });
  std::vector<std::vector<Tensor>> kept;
  for (int i = 0; i < 5; ++i) kept.push_back(f());
  for (int i = 0; i < 5; ++i) {
    auto& list = kept[static_cast<size_t>(i)];
    expect_equal(list[0], {1. + i, 2. + i});
    expect_equal(list[1], {7, 8});
    expect_equal(list[2], {3, 3});
    expect_equal(list[3], {1. + i, 2. + i});
  }
  kept[0][1] += 1;
  kept[1][2] += 1;
  expect_equal(f()[1], {7, 8});
  expect_equal(f()[2], {3, 3});
}

TEST(JitTraps, a_closed_over_number_that_changes_is_an_error) {
  double rate = 0.1;
  Tensor w = tensor({1, 2});
  auto f = jit([&](const Tensor& g) { w -= g * rate; });
  Tensor g = tensor({1, 1});
  f(g);
  rate = 0.2;
  std::vector<double> before = doubles(w);
  expect_error<CaptureError>([&] { f(g); }, {"0.1", "0.2", "jit_traps_test.cpp", "Tensor"});
  expect_equal(w, before);
  rate = 0.1;
  f(g);
  expect_close(w, {0.8, 1.8});
}

TEST(JitTraps, a_closed_over_integer_or_host_data_that_changes_is_an_error) {
  int64_t shift = 1;
  auto f = jit([&](const Tensor& x) { return x + shift; });
  Tensor x = tensor({1, 2}, kI64);
  f(x);
  shift = 2;
  expect_error<CaptureError>([&] { f(x); }, {"was 1 and is 2"});
  std::vector<float> host{1, 2};
  auto g = jit([&](const Tensor& y) { return y + from_vector(host, {2}); });
  Tensor y = tensor({1, 2});
  expect_equal(g(y), {2, 4});
  host[0] = 5;
  expect_error<CaptureError>([&] { g(y); }, {"host memory", "f32[2]"});
  host[0] = 1;
  for (int i = 0; i < 3; ++i) expect_equal(g(y), {2, 4});
}

TEST(JitTraps, another_branch_tensor_or_result_at_the_second_call_is_an_error) {
  int calls = 0;
  Tensor a = tensor({1, 2}), b = tensor({3, 4}), x = tensor({1, 1});
  auto branch = jit([&](const Tensor& y) { return calls++ == 0 ? y + a : y * a; });
  branch(x);
  expect_error<CaptureError>([&] { branch(x); }, {"not the same", "it recorded add f32[2] of (a tensor f32[2]",
                                                  "and now mul f32[2] of", "a condition"});
  int64_t size = 2;
  auto shape = jit([&](const Tensor& y) { return y.slice(0, 0, size) + 1; });
  shape(tensor({1, 2, 3}));
  size = 1;
  expect_error<CaptureError>([&] { shape(tensor({1, 2, 3})); }, {"add f32[2] of (", "and now add f32[1] of ("});
  double factor = 2;  // a product with one is no product
  auto folded = jit([&](const Tensor& y) { return y * factor + a; });
  folded(x);
  factor = 1;
  expect_error<CaptureError>([&] { folded(x); }, {"mul f32[2]", "a number"});
  bool twice = false;
  auto results = jit([&](const Tensor& y) { return twice ? std::vector{y + 1, y + 2} : std::vector{y + 1}; });
  results(x);
  twice = true;
  expect_error<CaptureError>([&] { results(x); }, {"returned or changed 1 tensors, and now 2"});
  calls = 0;
  auto reads = jit([&](const Tensor& y) { return y + (calls++ == 0 ? a : b); });
  reads(x);
  expect_error<CaptureError>([&] { reads(x); }, {"another tensor", "assign"});
  calls = 0;
  auto number = jit([&](const Tensor& y) { return std::pair(y + 1, calls++); });
  number(x);
  expect_error<CaptureError>([&] { number(x); }, {"numbers"});
  calls = 0;
  auto order = jit([&](const Tensor& y) {
    Tensor p = y + 1, q = y * 2;
    return std::tuple(p, q, calls++ == 0 ? p : q);
  });
  order(x);
  expect_error<CaptureError>([&] { order(x); }, {"other values"});
}

TEST(JitTraps, a_number_that_keeps_changing_is_refused_in_the_end) {
  auto f = jit([](const Tensor& x, double rate) { return x * rate; });
  Tensor x = tensor({1, 2});
  expect_error<CaptureError>(
      [&] {
        for (int i = 0; i < 100; ++i) f(x, 0.5 + i);
      },
      {"64", "Tensor"});
  auto shapes = jit([](const Tensor& y) { return y + 1; });
  for (int i = 1; i < 100; ++i) shapes(zeros({i}));
  EXPECT_LE(shapes.plans().size(), 64u);
}

TEST(JitTraps, reading_a_value_inside_names_the_line) {
  Tensor x = tensor({1, 2}), w = tensor({3, 4});
  auto expect_refused = [&](auto f, const std::vector<std::string>& parts) {
    auto captured = jit(f);
    expect_error<CaptureError>([&] { captured(x); }, parts);
    EXPECT_TRUE(captured.plans().empty());
    EXPECT_FALSE(is_capturing());
  };
  const std::string line = "jit_traps_test.cpp:" + std::to_string(__LINE__ + 1);
  expect_refused([&](const Tensor& y) { return y * sum(y).item<float>(); }, {"item()", line, "Return the tensor"});
  expect_refused([&](const Tensor& y) { return y * sum(w).to_vector<float>()[0]; }, {"to_vector()", "jit_traps"});
  expect_refused([&](const Tensor& y) { return y * w.data<float>()[0]; }, {"data()"});
  expect_refused([&](const Tensor& y) { return (y * 2).realize(); }, {"realize()"});
  expect_refused([&](const Tensor& y) { return nonzero(y); }, {"nonzero()"});
  expect_refused([&](const Tensor& y) { return y(y > 1); }, {"mask"});
  expect_refused([&](const Tensor& y) { return unique(y).values; }, {"unique()"});
  expect_refused([&](const Tensor& y) { return y.with_dim(0, dim("n", 1, 9)); }, {"with_dim()"});
  expect_refused(
      [&](const Tensor& y) {
        std::ostringstream() << y;
        return y;
      },
      {"printing"});
  expect_refused(
      [&](const Tensor& y) {
        manual_seed(3);
        return y + rand({2});
      },
      {"Generator"});
}

TEST(JitTraps, a_function_that_throws_changes_nothing) {
  Tensor w = tensor({1, 2}), m = tensor({0, 0});
  Generator mine(1);
  bool fail = true;
  auto f = jit([&](Tensor x) {
    w += x;
    m.assign(uniform({2}, 0, 1, kF32, mine));
    x += 5;
    if (fail) throw std::runtime_error("no");
    return w;
  });
  Tensor x = tensor({1, 1});
  EXPECT_THROW(f(x), std::runtime_error);
  expect_equal(w, {1, 2});
  expect_equal(m, {0, 0});
  expect_equal(x, {1, 1});
  EXPECT_EQ(mine.state().draws, 0u);
  EXPECT_FALSE(is_capturing());
  fail = false;
  expect_equal(f(x), {2, 3});
  expect_equal(x, {6, 6});
  EXPECT_EQ(mine.state().draws, 1u);
}

TEST(JitTraps, an_index_out_of_range_leaves_all_state_as_it_was) {
  Tensor table = counting({10, 4}), seen = zeros({4}).realize(), count = zeros({1}).realize();
  Generator mine(1);
  auto step = jit([&](const Tensor& ids) {
    Tensor rows = sum(embedding(table, ids), {0});
    seen += rows * uniform({4}, 1, 2, kF32, mine);
    table -= seen;
    count += 1;
    return rows;
  });
  Tensor good = tensor({1, 2}, kI64), bad = tensor({1, 12}, kI64);
  for (int i = 0; i < 4; ++i) {
    if (i > 0) {
      std::vector<double> t = doubles(table), s = doubles(seen), c = doubles(count);
      uint64_t draws = mine.state().draws;
      expect_error<IndexError>([&] { step(bad); }, {"12", "10"});
      expect_equal(table, t);
      expect_equal(seen, s);
      expect_equal(count, c);
      EXPECT_EQ(mine.state().draws, draws);
    }
    step(good);
  }
  expect_equal(count, {4});
}

TEST(JitTraps, state_that_somebody_else_holds_is_not_overwritten) {
  Tensor w = counting({50});
  auto step = jit([&](const Tensor& x) { w += x; });
  Tensor one = ones({50}).realize();
  for (int i = 0; i < 3; ++i) step(one);
  Tensor snapshot = w.clone(), later = w * 10;
  step(one);
  EXPECT_EQ(snapshot[0].item<float>(), 3);
  EXPECT_EQ(later[0].item<float>(), 30);
  EXPECT_EQ(w[0].item<float>(), 4);
  EXPECT_EQ(step.plans()[0].copied_because_held, 1u);
  const void* before = address(w);
  step(w.clone());  // the argument is the same memory
  EXPECT_NE(address(w), before);
  EXPECT_EQ(w[1].item<float>(), 10);
  before = address(w);
  step(one);
  EXPECT_EQ(address(w), before);
}

TEST(JitTraps, two_slots_with_one_memory_part_when_both_change) {
  Tensor a = counting({20}), b = a.clone();
  auto step = jit([&] {
    a += 1;
    b.assign(b * 2 + a);
  });
  for (int i = 0; i < 3; ++i) step();
  // b: 5 -> 2*5+6 = 16 -> 2*16+7 = 39 -> 2*39+8 = 86
  EXPECT_EQ(a[5].item<float>(), 8);
  EXPECT_EQ(b[5].item<float>(), 86);
}

TEST(JitTraps, states_may_be_exchanged) {
  Tensor a = tensor({1, 2}), b = tensor({3, 4});
  auto swap = jit([&] {
    Tensor old(a.node());
    a.assign(b);
    b.assign(old);
  });
  for (int i = 0; i < 5; ++i) swap();
  expect_equal(a, {3, 4});
  expect_equal(b, {1, 2});
  a += 1;
  expect_equal(b, {1, 2});
}

TEST(JitTraps, one_tensor_given_twice_is_one_tensor) {
  auto plain = [](Tensor x, const Tensor& y) {
    x += 1;
    return x * y;
  };
  auto f = jit(plain);
  Tensor w = tensor({1, 2}), other = tensor({5, 5});
  for (int i = 0; i < 3; ++i) {
    expect_equal(f(w, w), {std::pow(2. + 2 * i, 2), std::pow(3. + 2 * i, 2)});
    expect_equal(f(w, other), {5 * (3. + 2 * i), 5 * (4. + 2 * i)});
  }
  expect_equal(w, {7, 8});
  EXPECT_EQ(f.plans().size(), 2u);
  // Many arguments go another way.
  auto many = jit([](std::vector<Tensor> x) {
    x[0] += 1;
    return x[9] * 10 + x[11];
  });
  std::vector<Tensor> list;
  for (int i = 0; i < 12; ++i) list.push_back(tensor({1. * i}).realize());
  for (int i = 0; i < 3; ++i) expect_equal(many(list), {101});
  list[9] = list[0];
  for (int i = 0; i < 3; ++i) expect_equal(many(list), {11. + 10 * (i + 4)});
  list[11] = list[0];
  for (int i = 0; i < 3; ++i) expect_equal(many(list), {11. * (i + 7)});
}

TEST(JitTraps, a_function_that_calls_itself) {
  std::function<Tensor(const Tensor&, int)> self;
  auto f = jit([&](const Tensor& x, int n) { return n == 0 ? x : self(x * 2, n - 1); });
  self = [&](const Tensor& x, int n) { return f(x, n); };
  for (int i = 0; i < 3; ++i) expect_equal(f(tensor({1.}), 5), {32});
  for (int i = 0; i < 3; ++i)
    expect_error<CaptureError>([&] { f(tensor({1.}), -1); }, {"jit_traps_test.cpp:", "calls itself without end"});
  expect_error<CaptureError>([&] { grad([&](const Tensor& x) { return sum(f(x, -1)); })(tensor({1.})); },
                             {"without end"});
  expect_equal(f(tensor({1.}), 3), {8});
}

TEST(JitTraps, clear_and_plans_inside_the_function_are_errors) {
  std::function<void()> what;
  auto f = jit([&](const Tensor& x) {
    if (what) what();
    return x * 2;
  });
  auto g = jit([&](const Tensor& x) { return f(x) + 1; });
  Tensor x = tensor({1., 2.});
  what = [&] { f.clear(); };
  expect_error<CaptureError>([&] { f(x); }, {"clear()", "jit_traps_test.cpp:"});
  what = [&] { f.plans(); };
  expect_error<CaptureError>([&] { f(x); }, {"plans()", "jit_traps_test.cpp:"});
  what = [&] { g.clear(); };
  expect_error<CaptureError>([&] { g(x); }, {"clear()"});
  what = nullptr;
  for (int i = 0; i < 3; ++i) expect_equal(g(x), {3, 5});
  f.clear();
  expect_equal(f(x), {2, 4});
}

TEST(JitTraps, transformations_take_captured_functions) {
  auto f = jit([](const Tensor& x) { return sum(x * x * x); });
  Tensor x = tensor({1., 2.}), rows = tensor({{1., 2.}, {0., 1.}});
  expect_equal(grad(f)(x), {3, 12});
  expect_equal(vmap(f)(rows), {9, 1});
  expect_equal(vmap(grad(f))(rows), {3, 12, 0, 3});
  expect_equal(value_and_grad(f)(x).first, {9});
  expect_equal(hessian(f, x), {6, 0, 0, 12});
  expect_equal(jvp(f, x, x).second, {27});
  expect_equal(vjp(f, x).second(tensor(1.)), {3, 12});
  expect_equal(jit(grad(f))(x), {3, 12});
  expect_equal(jit(vmap(f))(rows), {9, 1});
  const auto fixed = f;
  expect_equal(fixed(x), {9});
}

TEST(JitTraps, one_tensor_under_two_names_is_refused_when_it_changes) {
  Tensor w = tensor({1, 2}), other = tensor({5, 5});
  auto closure = jit([&](const Tensor& x) {
    w += 1;
    return x * 2;
  });
  for (int i = 0; i < 3; ++i) {
    expect_error<CaptureError>([&] { closure(w); }, {"twice", "clone()"});
    closure(other);
  }
  expect_equal(w, {4, 5});
  auto reads = jit([&](const Tensor& x, const Tensor& y) { return x + y + w; });
  for (int i = 0; i < 3; ++i) expect_equal(reads(w, w), {12, 15});
}

TEST(JitTraps, is_the_plain_function_where_gradients_are_taken_or_examples_mapped) {
  auto f = jit([](Tensor x) { return sum(x * x * x); });
  Tensor x = tensor({1., 2.});
  EXPECT_EQ(f(x).item<double>(), 9);
  auto call = [&](const Tensor& y) { return f(y); };
  EXPECT_EQ(grad(call)(x).to_vector<double>(), (std::vector<double>{3, 12}));
  EXPECT_EQ(vjp(call, x).second(tensor(1.)).to_vector<double>(), (std::vector<double>{3, 12}));
  EXPECT_EQ(jvp(call, x, x).second.item<double>(), 27);
  EXPECT_EQ(hessian(call, x).to_vector<double>(), (std::vector<double>{6, 0, 0, 12}));
  EXPECT_EQ(vmap(call)(tensor({{1., 2.}, {0., 1.}})).to_vector<double>(), (std::vector<double>{9, 1}));
  Tensor w = tensor({1., 2.}).requires_grad_();
  EXPECT_EQ(grad(checkpoint(call, w), w).to_vector<double>(), (std::vector<double>{3, 12}));
  EXPECT_THROW(grad([](const Tensor& y) { return jit([&] { return sum(y * y); })(); })(x), CaptureError);
  // A gradient that is done is an argument like others.
  Tensor g = grad(call)(x);
  size_t recorded = f.plans()[0].calls;
  f(g);
  EXPECT_EQ(f.plans()[0].calls, recorded + 1);
}

TEST(JitTraps, a_tensor_kept_outside_is_an_error) {
  Tensor kept, w = tensor({1, 2});
  auto f = jit([&](const Tensor& x) {
    kept = x * 2;
    return x;
  });
  expect_error<CaptureError>([&] { f(tensor({1, 2})); }, {"kept outside", "f32[2]", "assign"});
  auto rebinds = jit([&](const Tensor& x) { w = w + x; });
  expect_error<CaptureError>([&] { rebinds(tensor({1, 2})); }, {"kept outside"});
  std::vector<Tensor> list{tensor({1, 2})};
  auto replaces = jit([](std::vector<Tensor>& given) { given[0] = given[0] + 1; });
  expect_error<CaptureError>([&] { replaces(list); }, {"arguments", "assign()"});
  expect_equal(list[0], {1, 2});
}

TEST(JitTraps, a_table_made_at_first_use_is_fine) {
  std::optional<Tensor> table;
  auto f = jit([&](const Tensor& x) {
    if (!table) table = tensor({10, 20});
    return x + *table;
  });
  for (int i = 0; i < 4; ++i) expect_equal(f(tensor({1, 2})), {11, 22});
}

constexpr bool kSanitized = HD_ADDRESS_SANITIZER || HD_THREAD_SANITIZER;
constexpr int kSteps = kSanitized ? 5'000 : 100'000;
constexpr double kSlack = kSanitized ? 256 * 1024 : 1024;

double resident_kb() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::stod(line.substr(6));
  return 0;
}

TEST(JitSoak, a_hundred_thousand_steps_leave_nothing_behind) {
  Tensor w = noise_tensor({16, 4}), m = zeros({16, 4}).realize();
  auto step = jit([&](const Tensor& x, const Tensor& y) {
    Tensor error = matmul(x, w) - y;
    m.assign(m * 0.9 + matmul(transpose(x), dropout(error, 0.1)) * 0.01);
    w -= m * 0.1;
    return mean(square(error));
  });
  Tensor x = noise_tensor({8, 16}, 2), y = noise_tensor({8, 4}, 3), loss;
  size_t nodes = 0, plans = 0;
  double resident = 0;
  uint64_t used = 0;
  for (int i = 0; i < kSteps; ++i) {
    loss = step(x, y);
    if (i != kSteps / 10) continue;
    nodes = live_nodes();
    plans = plan_cache_size();
    resident = resident_kb();
    used = device().memory().used;
  }
  EXPECT_EQ(live_nodes(), nodes);
  EXPECT_EQ(plan_cache_size(), plans);
  EXPECT_EQ(device().memory().used, used);
  EXPECT_LE(resident_kb(), resident + kSlack);
  EXPECT_LT(loss.item<float>(), 10);
}

}  // namespace
}  // namespace heddle
