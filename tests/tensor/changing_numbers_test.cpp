// Integers and offsets that change from call to call: compiled for the first two values, then arguments of one plan.
#include <limits>
#include <random>

#include "graph/graph.h"
#include "helpers.h"
#include "runtime/kernel_cache.h"

namespace heddle {
namespace {

using namespace testing;

// What the evaluator gives.
std::vector<double> evaluated(const Tensor& x) {
  NodeRef root = x.node();
  HostArray array = evaluate(std::span<const NodeRef>(&root, 1))[0];
  if (is_float(array.dtype)) return array.floats;
  std::vector<double> result;
  for (uint64_t bits : array.integers)
    result.push_back(is_signed(array.dtype) ? static_cast<double>(static_cast<int64_t>(bits))
                                            : static_cast<double>(bits));
  return result;
}

// f for each of the values: as the evaluator has it, and with so many plans at most.
template <class Value>
void expect_plans(uint64_t most, const std::vector<Value>& values, const std::function<Tensor(Value)>& f) {
  uint64_t misses = 0;
  for (const Value& value : values) {
    SCOPED_TRACE(::testing::PrintToString(value));
    Tensor result = f(value);
    std::vector<double> want = evaluated(result);
    StatsSince stats;
    result.realize();
    misses += stats->plan_misses;
    expect_close(result, want, 1e-5);
  }
  EXPECT_LE(misses, most);
}

class ChangingNumbers : public ::testing::Test {
  void SetUp() override { clear_plan_cache(); }
};

TEST_F(ChangingNumbers, an_integer_is_an_argument_from_its_third_value_on) {
  Tensor labels = counting({64}, kI64);
  std::vector<int64_t> values;
  for (int64_t i = 2; i < 40; ++i) values.push_back(i);
  expect_plans<int64_t>(3, values, [&](int64_t i) { return labels == i; });
  expect_plans<int64_t>(3, values, [&](int64_t i) { return labels % i + floordiv(labels, i); });
  expect_plans<int64_t>(3, values, [&](int64_t i) { return cast(labels, kI32) * i + 77; });
}

TEST_F(ChangingNumbers, numbers_alone) {
  std::vector<int64_t> values;
  for (int64_t i = 2; i < 40; ++i) values.push_back(i);
  expect_plans<int64_t>(3, values, [&](int64_t i) { return scalar(i); });
  expect_plans<int64_t>(3, values, [&](int64_t i) { return full({}, i, kU8); });
  expect_plans<int64_t>(3, values, [&](int64_t i) { return full({3, 5}, i, kI16); });
}

TEST_F(ChangingNumbers, two_values_keep_their_own_code) {
  Tensor x = counting({64}, kI64);
  for (int round = 0; round < 3; ++round)
    for (int64_t i : {3, 4}) {
      StatsSince stats;
      (x % i).realize();
      EXPECT_EQ(stats->plan_misses, round == 0 ? 1u : 0u);
    }
  StatsSince stats;
  for (int64_t i : {5, 6, 3, 4, 7}) (x % i).realize();
  EXPECT_EQ(stats->plan_misses, 1u);
}

template <class T>
std::vector<int64_t> values_of(std::mt19937_64& random) {
  using Limits = std::numeric_limits<T>;
  std::vector<int64_t> values = {static_cast<int64_t>(Limits::max()), static_cast<int64_t>(Limits::min()), 0, 1};
  if (Limits::is_signed) values.push_back(-1);
  while (values.size() < 10) values.push_back(static_cast<int64_t>(static_cast<T>(random())));
  std::shuffle(values.begin(), values.end(), random);
  values.resize(2 + random() % 9);
  return values;
}

// A few operators of two integers after each other, one of which is the number.
Tensor program_of(uint64_t seed, const Tensor& x, int64_t number) {
  std::mt19937_64 random(seed);
  Tensor result = x, value(make_const(Scalar::from_bits(x.dtype(), static_cast<uint64_t>(number))));
  for (int i = 0; i < 3; ++i) {
    Tensor a = result, b = random() % 3 ? value : x;
    if (random() % 2) std::swap(a, b);
    switch (random() % 12) {
      case 0: result = a + b; break;
      case 1: result = a - b; break;
      case 2: result = a * b; break;
      case 3: result = floordiv(a, b); break;
      case 4: result = a % b; break;
      case 5: result = minimum(a, b); break;
      case 6: result = maximum(a, b); break;
      case 7: result = bitwise_xor(a, b); break;
      case 8: result = bitwise_and(a, b); break;
      case 9: result = where(a < b, a, b); break;
      case 10: result = where(a == b, x, value); break;
      default: result = cast(a <= b, x.dtype()) + result; break;
    }
    result = result + zeros(x.shape(), x.dtype());
  }
  return result;
}

template <class T>
void random_integers(DType dtype) {
  SCOPED_TRACE(name(dtype));
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed * 100 + static_cast<uint64_t>(dtype));
    std::vector<int64_t> contents = values_of<T>(random);
    std::vector<T> data;
    for (int i = 0; i < 37; ++i)
      data.push_back(static_cast<T>(static_cast<uint64_t>(contents[static_cast<size_t>(i) % contents.size()]) +
                                    static_cast<uint64_t>(i % 3)));
    Tensor x = from_vector(data, {37});
    for (int64_t value : values_of<T>(random)) {
      SCOPED_TRACE(value);
      Tensor result = program_of(seed, x, value);
      NodeRef root = result.node();
      std::vector<uint64_t> want = evaluate(std::span<const NodeRef>(&root, 1))[0].integers;
      result.realize();
      root = result.node();
      EXPECT_EQ(evaluate(std::span<const NodeRef>(&root, 1))[0].integers, want);
    }
  }
}

TEST_F(ChangingNumbers, all_values_of_all_dtypes) {
  random_integers<int8_t>(kI8);
  random_integers<int16_t>(kI16);
  random_integers<int32_t>(kI32);
  random_integers<int64_t>(kI64);
  random_integers<uint8_t>(kU8);
  random_integers<uint16_t>(kU16);
  random_integers<uint32_t>(kU32);
  random_integers<uint64_t>(kU64);
}

std::vector<int64_t> from_to(int64_t first, int64_t last, int64_t step) {
  std::vector<int64_t> result;
  for (int64_t i = first; i <= last; i += step) result.push_back(i);
  return result;
}

TEST_F(ChangingNumbers, a_slice_that_moves) {
  Tensor x = noise_tensor({1024}), matrix = noise_tensor({40, 24});
  expect_plans<int64_t>(3, from_to(0, 15, 1), [&](int64_t i) { return tanh(x.slice(0, i * 64, (i + 1) * 64)); });
  expect_plans<int64_t>(3, from_to(0, 960, 97), [&](int64_t i) { return x.slice(0, i, i + 64) * 2; });
  expect_plans<int64_t>(3, {0, 1, 960, 959, 17, 3}, [&](int64_t i) { return x.slice(0, i, i + 64) * 3; });
  expect_plans<int64_t>(3, from_to(0, 39, 3), [&](int64_t i) { return matrix[i] + 1; });
  expect_plans<int64_t>(3, from_to(0, 23, 3), [&](int64_t i) { return sum(select(matrix, 1, i)); });
  expect_plans<int64_t>(3, from_to(0, 20, 2), [&](int64_t i) { return matrix.slice(0, i, i + 19, 3).slice(1, 5, 20); });
  expect_plans<int64_t>(3, from_to(19, 39, 2), [&](int64_t i) { return matrix.slice(0, i, i - 19, -2) + 0.5; });
  expect_plans<int64_t>(3, from_to(-40, -10, 3), [&](int64_t i) { return matrix.slice(0, i, i + 9) + 2.5; });
}

TEST_F(ChangingNumbers, two_slices_in_one_graph) {
  Tensor x = noise_tensor({256}), y = noise_tensor({256}, 2);
  std::mt19937_64 random(5);
  std::vector<int64_t> values;
  for (int i = 0; i < 30; ++i) values.push_back(static_cast<int64_t>(random() % (193 * 129)));
  expect_plans<int64_t>(3, values, [&](int64_t v) {
    int64_t i = v % 193, j = v / 193;
    return x.slice(0, i, i + 64) * y.slice(0, j, j + 64);
  });
  // Of one tensor, where both may begin at the same place.
  values.push_back(5 * 193 + 5);
  expect_plans<int64_t>(4, values, [&](int64_t v) {
    int64_t i = v % 193, j = v / 193;
    return x.slice(0, i, i + 64) - x.slice(0, j, j + 64);
  });
}

TEST_F(ChangingNumbers, products_of_a_slice_that_moves) {
  Tensor x = noise_tensor({128, 48}), w = noise_tensor({96, 80}, 2);
  expect_plans<int64_t>(3, from_to(0, 96, 8),
                        [&](int64_t i) { return matmul(x.slice(0, i, i + 32), w.slice(0, i / 2, i / 2 + 48)); });
  expect_plans<int64_t>(3, from_to(0, 48, 5), [&](int64_t i) {
    return matmul(softmax(x.slice(0, i, i + 7), -1), w.slice(0, 0, 48).slice(1, i % 17, i % 17 + 64));
  });
}

TEST_F(ChangingNumbers, gradients_of_a_slice_that_moves) {
  Tensor x = noise_tensor({200, 3});
  std::vector<int64_t> values = from_to(0, 190, 19);
  expect_plans<int64_t>(3, values, [&](int64_t i) {
    return grad([&](const Tensor& t) { return sum(square(t.slice(0, i, i + 10))); })(x);
  });
}

TEST_F(ChangingNumbers, updates_of_a_part_that_moves) {
  Tensor x = noise_tensor({64, 6}), row = noise_tensor({6}, 3), rows = noise_tensor({5, 6}, 4);
  expect_plans<int64_t>(3, from_to(0, 63, 7), [&](int64_t i) { return set_at(x, {Index(i)}, row); });
  expect_plans<int64_t>(3, from_to(0, 59, 5), [&](int64_t i) { return set_at(x, {Slice(i, i + 5)}, rows); });
  expect_plans<int64_t>(3, from_to(0, 20, 3), [&](int64_t i) { return pad(rows, {{i, 20 - i}, {0, 0}}, 1); });
}

TEST_F(ChangingNumbers, the_filling_of_a_pad) {
  Tensor x = noise_tensor({5, 6}), k = counting({5, 6}, kI32);
  expect_plans<int64_t>(3, from_to(1, 12, 1), [&](int64_t i) { return pad(x, {{1, 2}, {0, 3}}, i) + 1; });
  expect_plans<int64_t>(3, from_to(1, 12, 1), [&](int64_t i) { return pad(k, {{1, 2}, {i, 20 - i}}, i) * 2; });
}

TEST_F(ChangingNumbers, rolls) {
  Tensor x = noise_tensor({30, 4});
  expect_plans<int64_t>(3, from_to(1, 29, 3), [&](int64_t i) { return roll(x, i, 0) + 1; });
  expect_plans<int64_t>(3, from_to(-100, 100, 7), [&](int64_t i) { return roll(x, {i}, Axes{}) + 2; });
}

TEST_F(ChangingNumbers, an_index_is_still_checked) {
  Tensor x = noise_tensor({30}), positions = counting({4}, kI64);
  for (int64_t i = 0; i < 27; i += 3) {
    Tensor got = gather(x, positions + i, 0);
    expect_close(got, evaluated(x.slice(0, i, i + 4)));
  }
  for (int64_t i : {27, 40, -31}) EXPECT_THROW(gather(x, positions + i, 0).realize(), IndexError) << i;
}

TEST_F(ChangingNumbers, slices_inside_captured_functions) {
  Tensor x = noise_tensor({300, 8}), total = zeros({16, 8}).realize();
  auto f = jit([&](const Tensor& given, int64_t i) {
    total += given.slice(0, i, i + 16);
    return total * i;
  });
  std::vector<double> want(16 * 8, 0.0), data = doubles(x);
  for (int round = 0; round < 3; ++round)
    for (int64_t i = 3; i < 33; ++i) {
      StatsSince stats;
      Tensor result = f(x, i);
      EXPECT_LE(stats->plan_misses, round > 0 || i > 5 ? 0u : 1u) << i;
      std::vector<double> now;
      for (size_t k = 0; k < want.size(); ++k) {
        want[k] += data[static_cast<size_t>(i) * 8 + k];
        now.push_back(want[k] * static_cast<double>(i));
      }
      expect_close(result, now, 1e-4);
    }
}

TEST_F(ChangingNumbers, slices_of_symbolic_tensors) {
  Dim n = dim("n", 64, 512);
  Tensor whole = noise_tensor({512, 6});
  std::mt19937_64 random(3);
  uint64_t misses = 0;
  for (int i = 0; i < 20; ++i) {
    int64_t rows = 64 + static_cast<int64_t>(random() % 449), begin = static_cast<int64_t>(random() % 32);
    Tensor x = whole.slice(0, 0, rows).realize().with_dim(0, n);
    Tensor y = x.slice(0, begin, begin + 32) * 2 + sum(x, {0});
    std::vector<double> want = evaluated(y);
    StatsSince stats;
    y.realize();
    misses += stats->plan_misses;
    expect_close(y, want, 1e-5);
  }
  EXPECT_LE(misses, 3u);
}

TEST_F(ChangingNumbers, a_counter_is_named_with_the_operator_that_it_changes) {
  Tensor x = noise_tensor({8, 4});
  auto expect = [&](const std::function<Tensor(const Tensor&, int64_t)>& f, const std::vector<std::string>& parts) {
    int64_t counter = 2;
    auto captured = jit([&](const Tensor& given) {
      ++counter;
      return f(given, counter);
    });
    captured(x);
    expect_error<CaptureError>([&] { captured(x); }, parts);
  };
  expect([](const Tensor& t, int64_t i) { return sum(t * i + 1); },
         {"was 3 and is 4 now, in mul f32[8, 4] of (a tensor f32[8, 4] from outside, 3)"});
  expect([](const Tensor& t, int64_t i) { return where(t == i, 1, t); }, {"was 3 and is 4 now, in eq bool[8, 4] of"});
  expect([](const Tensor& t, int64_t i) { return t.slice(0, i, i + 2) * 2; },
         {"was 3 and is 4 now, the first element along axis 0 in shrink f32[2, 4]", "from outside"});
  expect([](const Tensor& t, int64_t i) { return select(t, 0, i); }, {"was 3 and is 4 now, the first element along"});
  expect([](const Tensor& t, int64_t i) { return pad(t, {{i, 8 - i}, {0, 0}}); },
         {"was 3 and is 4 now, what is put before along axis 0 in pad f32[16, 4]"});
  expect([](const Tensor& t, int64_t i) { return pad(t, {{1, 1}, {0, 0}}, i); },
         {"was 3 and is 4 now, what fills pad f32[10, 4]"});
  expect([](const Tensor& t, int64_t i) { return t * (i - 3); },
         {"was mul f32[8, 4] of (a tensor f32[8, 4] from outside, 0), and is a tensor f32[8, 4] from outside"});
  expect([](const Tensor&, int64_t i) { return full({4}, i); }, {"a number", "was 3 and is 4 now"});
}

// What a decoder does: a row is added to tensors of fixed size, and those that are there are looked at.
TEST_F(ChangingNumbers, a_cache_that_grows_by_slices) {
  constexpr int64_t kRows = 40, kColumns = 16;
  Dim n = dim("n", 1, kRows);
  Tensor keys = zeros({kRows, kColumns}).realize(), values = zeros({kRows, kColumns}).realize();
  Tensor plain_keys = keys.clone(), plain_values = values.clone();
  uint64_t misses = 0;
  for (int64_t t = 0; t < kRows; ++t) {
    SCOPED_TRACE(t);
    Tensor row = noise_tensor({1, kColumns}, static_cast<uint64_t>(t) + 1);
    auto attend = [&](const Tensor& k, const Tensor& v) {
      return matmul(softmax(matmul(row, transpose(k)), -1), v * 2);
    };
    StatsSince stats;
    keys.set({Slice(t, t + 1)}, row * 2);
    values.set({Index(t)}, select(row, 0, 0) + 1);
    Tensor got = attend(keys.slice(0, 0, t + 1).with_dim(0, n), cast(values.slice(0, 0, t + 1), kF32).with_dim(0, n));
    realize({got, keys, values});
    misses += stats->plan_misses;
    plain_keys = set_at(plain_keys, {Slice(t, t + 1)}, row * 2).realize();
    plain_values = set_at(plain_values, {Index(t)}, select(row, 0, 0) + 1).realize();
    Tensor want = attend(plain_keys.slice(0, 0, t + 1).realize(), plain_values.slice(0, 0, t + 1).realize());
    expect_close(got, doubles(want), 1e-4);
  }
  EXPECT_LE(misses, 4u);
}

// Also inside a captured function, and through what is done to a part element by element.
TEST_F(ChangingNumbers, parts_get_a_name_without_being_computed) {
  Dim n = dim("n", 1, 64);
  Tensor x = noise_tensor({64, 6});
  for (int64_t t : {5, 63, 17, 2}) {
    StatsSince stats;
    Tensor part = transpose(exp(cast(x.slice(0, 0, t), kF64))).with_dim(1, n);
    EXPECT_EQ(stats->launches, 0u);
    EXPECT_EQ(part.shape(), (Dims{6, t}));
    expect_close(sum(part, 1), doubles(sum(exp(cast(x.slice(0, 0, t).realize(), kF64)), 0)), 1e-9);
    EXPECT_FALSE(part.node()->shape[1].is_const());
  }
  int64_t rows = 3;
  auto f = jit([&](const Tensor& given) { return sum(given.slice(0, 0, rows).with_dim(0, n), 0); });
  for (; rows < 20; ++rows) expect_close(f(x), doubles(sum(x.slice(0, 0, rows), 0)), 1e-5);
  EXPECT_THROW(x.slice(0, 0, 5).with_dim(0, dim("m", 6, 64)), ValueError);
}

// A cache that grows by cat, with slices by numbers: all that is there, and the last few.
TEST_F(ChangingNumbers, a_cache_that_grows_by_cat) {
  Dim n = dim("n", 1, 40);
  Tensor keys = noise_tensor({1, 8}).with_dim(0, n);
  uint64_t misses = 0;
  for (int64_t t = 1; t < 40; ++t) {
    SCOPED_TRACE(t);
    ASSERT_EQ(keys.size(0), t);
    Tensor row = noise_tensor({1, 8}, static_cast<uint64_t>(t) + 1);
    Tensor plain = from_vector(keys.to_vector<float>(), {t, 8});
    StatsSince stats;
    Tensor all = exp(keys.slice(0, 0, t)).realize(), last = tanh(keys.slice(0, t - 1, t)).realize();
    if (t > 5) misses += stats->plan_misses;
    expect_close(all, doubles(exp(plain)), 1e-5);
    expect_close(last, doubles(tanh(plain.slice(0, t - 1, t))), 1e-5);
    keys = cat({keys, row}, 0).with_dim(0, n);
  }
  EXPECT_EQ(misses, 0u);
}

// A part of fixed size may lie anywhere in a symbolic axis.
TEST_F(ChangingNumbers, parts_of_fixed_size_of_a_symbolic_axis) {
  Dim n = dim("n", 1, 300);
  Tensor whole = noise_tensor({300, 5});
  uint64_t misses = 0;
  for (int64_t rows = 20; rows <= 300; rows += 35)
    for (int64_t begin : {int64_t{0}, int64_t{7}, rows / 2, rows - 10}) {
      SCOPED_TRACE(rows);
      Tensor x = whole.slice(0, 0, rows).realize();
      auto f = [&](const Tensor& t) { return sum(square(t.slice(0, begin, begin + 10)), 1); };
      Tensor named = x.with_dim(0, n), got = f(named);
      Tensor slope = grad([&](const Tensor& t) { return sum(f(t)); })(named);
      StatsSince stats;
      realize({got, slope});
      misses += stats->plan_misses;
      expect_close(got, doubles(f(x)), 1e-5);
      expect_close(slope, doubles(grad([&](const Tensor& t) { return sum(f(t)); })(x)), 1e-5);
    }
  EXPECT_LE(misses, 4u);
}

// Weights that stay packed are those of the offset that they were packed for.
TEST_F(ChangingNumbers, packed_weights_belong_to_their_offset) {
  Tensor w = noise_tensor({512, 300}, 9), x = noise_tensor({256, 256}, 2);
  auto f = jit([&](const Tensor& given, int64_t i) { return matmul(given, w.slice(0, i, i + 256)); });
  for (int round = 0; round < 4; ++round)
    for (int64_t i : {1, 2, 100, 255, 256}) {
      Tensor got = f(x, i);
      expect_close(got, doubles(matmul(x, w.slice(0, i, i + 256).realize())), 1e-4);
    }
}

}  // namespace
}  // namespace heddle
