// Slices and scatters of state: captured functions write what changes and nothing else.
#include "runtime/plan.h"
#include "tensor/helpers.h"

namespace heddle {
namespace {

using namespace testing;

// What one call writes and reads, once everything is compiled and found.
struct Cost {
  uint64_t launches, read, written;
};
template <class F>
Cost cost_of(F call) {
  run_stats() = {};
  call();
  return {run_stats().launches, run_stats().bytes_read, run_stats().bytes_written};
}

// A state [64, 32] of f32, and what is expected of it.
struct Table {
  Tensor state = arange(0., 64. * 32).reshape(64, 32).realize();
  std::vector<double> want = doubles(state);

  void row(int64_t at, const std::vector<double>& values) {
    for (size_t i = 0; i < values.size(); ++i) want[static_cast<size_t>(at) * 32 + i] = values[i];
  }
  void expect() const { expect_equal(state, want); }
};
constexpr uint64_t kRow = 32 * 4, kAll = 64 * kRow;

TEST(InPlace, a_row_costs_a_row) {
  Table table;
  auto append = jit([&](const Tensor& row) { table.state.set({7}, row); });
  Tensor row = noise_tensor({32}, 1);
  table.row(7, doubles(row));
  for (int i = 0; i < 3; ++i) append(row);
  table.expect();
  const Cost cost = cost_of([&] { append(row); });
  EXPECT_EQ(cost.launches, 1u);
  EXPECT_EQ(cost.written, kRow);
  EXPECT_EQ(cost.read, kRow);
  EXPECT_EQ(append.plans()[0].donated, 1u);
  EXPECT_EQ(append.plans()[0].bytes_written, kRow);
}

TEST(InPlace, a_position_that_changes_has_one_plan_from_its_third_value_on) {
  Table table;
  auto append = jit([&](const Tensor& row, int64_t at) { table.state.set({at}, row); });
  for (int64_t at = 0; at < 10; ++at) {
    Tensor row = noise_tensor({32}, static_cast<uint64_t>(at));
    table.row(at, doubles(row));
    run_stats() = {};
    append(row, at);
    if (at >= 3) {
      EXPECT_EQ(run_stats().plan_misses, 0u) << at;
      EXPECT_EQ(run_stats().bytes_written, kRow) << at;
    }
    table.expect();
  }
}

TEST(InPlace, parts_along_several_axes_with_steps_and_backwards) {
  struct Case {
    std::vector<Index> where;
    Dims value;
    uint64_t elements;
  };
  const std::vector<Case> cases = {
      {{Index(Slice(3, 9)), Index(Slice(4, 20))}, {6, 16}, 96},
      {{Index(Slice()), Index(5)}, {64}, 64},
      {{Index(Slice(2, 40, 3)), Index(Slice(1, 31, 2))}, {13, 15}, 195},
      {{Index(Slice(std::nullopt, std::nullopt, -2)), Index(Slice(8, 2, -1))}, {32, 6}, 192},
      {{Index(-1), Index(-1)}, {}, 1},
      {{Index(Slice(0, 1)), Index(Slice(0, 32))}, {1, 32}, 32},
  };
  for (size_t c = 0; c < cases.size(); ++c) {
    SCOPED_TRACE(c);
    Table table;
    Tensor value = noise_tensor(cases[c].value, c + 3);
    Tensor want = set_at(table.state.clone(), cases[c].where, value);
    auto change = jit([&] { table.state.set(cases[c].where, value * 2 - value); });
    for (int i = 0; i < 3; ++i) change();
    expect_equal(table.state, doubles(want));
    EXPECT_EQ(cost_of([&] { change(); }).written, cases[c].elements * 4);
  }
}

TEST(InPlace, several_changes_of_one_state_follow_each_other) {
  Table table;
  auto change = jit([&](const Tensor& a, const Tensor& b) {
    table.state.set({Slice(2, 6)}, a);
    table.state.set({Slice(4, 5)}, b);  // over a part of the first
    table.state.set({9}, a);
  });
  Tensor a = noise_tensor({32}, 1), b = noise_tensor({32}, 2);
  for (int64_t row : {2, 3, 5, 9}) table.row(row, doubles(a));
  table.row(4, doubles(b));
  for (int i = 0; i < 3; ++i) change(a, b);
  table.expect();
  EXPECT_EQ(cost_of([&] { change(a, b); }).written, 6 * kRow);
}

TEST(InPlace, keys_and_values_are_one_launch) {
  Table keys, values;
  auto append = jit([&](const Tensor& k, const Tensor& v) {
    keys.state.set({3}, k);
    values.state.set({3}, v);
  });
  Tensor k = noise_tensor({32}, 1), v = noise_tensor({32}, 2);
  keys.row(3, doubles(k));
  values.row(3, doubles(v));
  for (int i = 0; i < 3; ++i) append(k, v);
  keys.expect();
  values.expect();
  const Cost cost = cost_of([&] { append(k, v); });
  EXPECT_EQ(cost.launches, 1u);
  EXPECT_EQ(cost.written, 2 * kRow);
}

TEST(InPlace, what_reads_the_new_value_reads_the_memory) {
  Table table;
  auto attend = jit([&](const Tensor& row, const Tensor& query) {
    table.state.set({7}, row);
    return matmul(softmax(matmul(table.state, query) * 0.01, 0), table.state);
  });
  Tensor row = noise_tensor({32}, 1), query = noise_tensor({32}, 2);
  table.row(7, doubles(row));
  Tensor now = from_vector(table.want, {64, 32});
  Tensor want = matmul(softmax(matmul(now, cast(query, kF64)) * 0.01, 0), now);
  for (int i = 0; i < 3; ++i) expect_close(attend(row, query), doubles(want), 1e-4);
  table.expect();
  EXPECT_EQ(attend.plans()[0].donated, 1u);
  EXPECT_LT(cost_of([&] { attend(row, query); }).written, kAll);
}

TEST(InPlace, what_reads_the_old_value_comes_before) {
  Table table;
  auto change = jit([&](const Tensor& row) {
    Tensor before = table.state.sum();
    table.state.set({7}, row);
    return before;
  });
  Tensor row = noise_tensor({32}, 1);
  double before = 0;
  for (double x : table.want) before += x;
  expect_close(change(row), {before}, 1e-5);
  table.row(7, doubles(row));
  table.expect();
  double after = 0;
  for (double x : table.want) after += x;
  for (int i = 0; i < 3; ++i) expect_close(change(row), {after}, 1e-5);
  table.expect();
  EXPECT_EQ(change.plans()[0].donated, 1u);
}

TEST(InPlace, parts_move_within_the_state) {
  Table table;
  auto shift = jit([&] { table.state.set({Slice(0, 63)}, table.state(Slice(1, 64))); });
  for (int i = 0; i < 4; ++i) {
    shift();
    table.want.erase(table.want.begin(), table.want.begin() + 32);
    for (size_t k = 0; k < 32; ++k) table.want.push_back(table.want[table.want.size() - 32]);
    table.expect();
  }
  EXPECT_EQ(shift.plans()[0].donated, 1u);
  auto add = jit([&] { table.state.set({5}, table.state[5] + 1); });
  for (int i = 0; i < 3; ++i) {
    add();
    for (size_t k = 0; k < 32; ++k) table.want[5 * 32 + k] += 1;
    table.expect();
  }
  EXPECT_EQ(cost_of([&] { add(); }).written, kRow);
  for (size_t k = 0; k < 32; ++k) table.want[5 * 32 + k] += 1;
  auto chain = jit([&] {
    table.state.set({1}, table.state[0] + 1);
    table.state.set({2}, table.state[1] + 1);
    table.state.set({0}, table.state[2] + table.state[3]);
  });
  for (int i = 0; i < 3; ++i) {
    chain();
    for (size_t k = 0; k < 32; ++k) {
      table.want[32 + k] = table.want[k] + 1;
      table.want[64 + k] = table.want[32 + k] + 1;
      table.want[k] = table.want[64 + k] + table.want[96 + k];
    }
    table.expect();
  }
}

TEST(InPlace, two_states_exchange_rows) {
  Table first, second;
  for (double& x : second.want) x = -x;
  second.state = -second.state;
  second.state.realize();
  auto swap = jit([&] {
    Tensor row = first.state[3] * 1;
    first.state.set({3}, second.state[3]);
    second.state.set({3}, row);
    second.state.set({Slice(10, 12)}, first.state(Slice(2, 4)));
  });
  for (int i = 0; i < 4; ++i) {
    swap();
    for (size_t k = 0; k < 32; ++k) {
      std::swap(first.want[96 + k], second.want[96 + k]);
      second.want[320 + k] = first.want[64 + k];
      second.want[352 + k] = first.want[96 + k];
    }
    first.expect();
    second.expect();
  }
  EXPECT_EQ(swap.plans()[0].donated, 2u);
  EXPECT_LE(cost_of([&] { swap(); }).written, 10 * kRow);
}

TEST(InPlace, a_value_that_somebody_holds_stays_as_it_is) {
  Table table;
  auto append = jit([&](const Tensor& row) { table.state.set({7}, row); });
  for (int i = 0; i < 4; ++i) {
    const std::vector<double> before = doubles(table.state);
    Tensor held = table.state.clone(), row = noise_tensor({32}, static_cast<uint64_t>(i));
    Tensor also = table.state(Slice());  // the same node
    table.row(7, doubles(row));
    const Cost cost = cost_of([&] { append(row); });
    EXPECT_GE(cost.written, kRow);
    table.expect();
    expect_equal(also, before);
    expect_equal(held, before);
  }
  EXPECT_EQ(append.plans()[0].donated, 1u);
}

TEST(InPlace, a_position_in_a_tensor) {
  Table table;
  Tensor at = tensor({5}, kI64).realize();
  auto append = jit([&](const Tensor& row) {
    table.state.set({at}, row.reshape(1, 32));
    at += 1;
  });
  for (int64_t i = 5; i < 9; ++i) {
    Tensor row = noise_tensor({32}, static_cast<uint64_t>(i));
    table.row(i, doubles(row));
    append(row);
    table.expect();
  }
  Tensor row = noise_tensor({32}, 1);
  table.row(9, doubles(row));
  EXPECT_LE(cost_of([&] { append(row); }).written, kRow + 64);
  table.expect();
  expect_equal(at, {10});
  EXPECT_EQ(append.plans()[0].donated, 2u);
}

TEST(InPlace, an_index_out_of_range_leaves_everything_as_it_was) {
  Table table;
  Tensor at = tensor({62}, kI64).realize();
  auto append = jit([&](const Tensor& row) {
    table.state.set({at}, row.reshape(1, 32));
    at += 1;
  });
  Tensor row = noise_tensor({32}, 1);
  append(row);
  append(row);
  table.row(62, doubles(row));
  table.row(63, doubles(row));
  for (int i = 0; i < 2; ++i) EXPECT_THROW(append(row), IndexError);
  table.expect();
  expect_equal(at, {64});
  at = tensor({-1}, kI64);
  Tensor other = noise_tensor({32}, 2);
  append(other);
  table.row(63, doubles(other));
  table.expect();
}

TEST(InPlace, scatters_that_combine) {
  for (const char* how : {"sum", "amax", "prod"}) {
    Table table;
    Tensor index = tensor({3, 9, 3}, kI64), updates = noise_tensor({3, 32}, 5);
    Tensor wide = broadcast_to(index.reshape(3, 1), {3, 32}).realize();
    auto change = jit([&] { table.state.assign(scatter_reduce(table.state, 0, wide, updates, how)); });
    for (int i = 0; i < 3; ++i) {
      Tensor want = scatter_reduce(table.state.clone(), 0, wide, updates, how).realize();
      change();
      expect_close(table.state, doubles(want), 1e-4);
    }
    EXPECT_LE(cost_of([&] { change(); }).written, 3 * kRow + 3 * kRow * 2);
    EXPECT_EQ(change.plans()[0].donated, 1u) << how;
  }
}

TEST(InPlace, without_capture_where_nobody_holds_the_old_value) {
  Table table;
  for (int64_t i = 0; i < 6; ++i) {
    Tensor row = noise_tensor({32}, static_cast<uint64_t>(i)).realize();
    table.row(i + 2, doubles(row));
    table.state.set({i + 2}, row);
    const Cost cost = cost_of([&] { table.state.realize(); });
    EXPECT_EQ(cost.written, kRow);
    table.expect();
  }
  Tensor held = table.state(Slice());
  const std::vector<double> before = table.want;
  Tensor row = noise_tensor({32}, 77).realize();
  table.state.set({1}, row);
  table.row(1, doubles(row));
  table.state.realize();
  table.expect();
  expect_equal(held, before);
}

TEST(InPlace, a_slice_that_begins_where_a_tensor_says) {
  // [heads, places, width]: the middle axis has the position, and then two axes have one.
  Tensor cache = noise_tensor({4, 16, 8}).realize(), want = cache.clone();
  Tensor at = tensor(3, kI64).realize();
  auto append = jit([&](const Tensor& rows) {
    cache.assign(update_slice(cache, rows, at));
    at += 2;
  });
  for (int64_t i = 3; i < 13; i += 2) {
    Tensor rows = noise_tensor({4, 2, 8}, static_cast<uint64_t>(i));
    want = set_at(want, {Slice(), Slice(i, i + 2)}, rows).realize();
    append(rows);
    expect_equal(cache, doubles(want));
  }
  Tensor rows = noise_tensor({4, 2, 8}, 99);
  EXPECT_LE(cost_of([&] { append(rows); }).written, 4u * 2 * 8 * 4 + 64);
  EXPECT_EQ(append.plans()[0].donated, 2u);
  const std::vector<double> before = doubles(cache);
  EXPECT_THROW(append(rows), IndexError);
  expect_equal(cache, before);
  expect_equal(at, {15});

  Tensor corner = tensor({1, 4, 2}, kI64).realize(), part = noise_tensor({2, 3, 4}, 5);
  auto put = jit([&] { cache.assign(update_slice(cache, part, corner)); });
  want = set_at(cache.clone(), {Slice(1, 3), Slice(4, 7), Slice(2, 6)}, part).realize();
  for (int i = 0; i < 3; ++i) put();
  expect_equal(cache, doubles(want));
  EXPECT_EQ(put.plans()[0].donated, 1u);
  EXPECT_LE(cost_of([&] { put(); }).written, 2u * 24 * 4 + 24 * 8);
}

TEST(InPlace, a_symbolic_position_and_a_symbolic_length_have_one_plan) {
  Table table;
  const Dim position = dim("position", 0, 63), length = dim("length", 1, 64);
  clear_plan_cache();
  auto append = jit([&](const Tensor& row, const Tensor& seen) {
    Dims begins = seen.shape();
    begins.push_back(0);
    table.state.assign(update_slice(table.state, row.reshape(1, 32), begins));
  });
  Tensor places = zeros({64}).realize();
  for (int64_t at : {7, 1, 62, 30, 8}) {
    Tensor row = noise_tensor({32}, static_cast<uint64_t>(at));
    table.row(at, doubles(row));
    Tensor seen = places.slice(0, 0, at).with_dim(0, position).realize();
    run_stats() = {};
    append(row, seen);
    EXPECT_EQ(run_stats().plan_misses, at == 7 ? 1u : 0u) << at;
    EXPECT_LE(run_stats().bytes_written, kRow) << at;
    table.expect();
  }
  // The last row of a state whose length is symbolic.
  auto change = jit([&](const Tensor& row, Tensor& state) { state.set({-1}, row); });
  uint64_t misses = 0;
  for (int64_t rows : {5, 9, 64, 3}) {
    Tensor state = noise_tensor({rows, 32}).realize().with_dim(0, length), row = noise_tensor({32}, 3);
    Tensor want = set_at(noise_tensor({rows, 32}), {-1}, row);
    run_stats() = {};
    change(row, state);
    misses += run_stats().plan_misses;
    expect_equal(state, doubles(want));
  }
  EXPECT_EQ(misses, 1u);
}

TEST(InPlace, the_profiler_counts_the_row) {
  Table table;
  auto append = jit([&](const Tensor& row) { table.state.set({7}, row); });
  Tensor row = noise_tensor({32}, 1).realize();
  for (int i = 0; i < 3; ++i) append(row);
  Profile p = profile();
  append(row);
  p.stop();
  const ProfileResult result = p.result();
  ASSERT_EQ(result.kernels.size(), 1u);
  EXPECT_EQ(result.kernels[0].bytes, 2 * kRow);
  EXPECT_EQ(result.kernels[0].name.substr(0, 6), "update");
}

TEST(InPlace, a_new_value_that_is_a_result_too_is_a_copy) {
  Table table;
  auto append = jit([&](const Tensor& row) {
    table.state.set({7}, row);
    return table.state;
  });
  std::vector<Tensor> results;
  std::vector<std::vector<double>> wanted;
  for (int i = 0; i < 4; ++i) {
    Tensor row = noise_tensor({32}, static_cast<uint64_t>(i));
    table.row(7, doubles(row));
    results.push_back(append(row));
    wanted.push_back(table.want);
  }
  table.expect();
  for (size_t i = 0; i < results.size(); ++i) expect_equal(results[i], wanted[i]);
  EXPECT_EQ(append.plans()[0].copied, 1u);
  EXPECT_GE(append.plans()[0].bytes_written, kAll);
}

TEST(InPlace, old_and_new_values_may_both_be_results) {
  Table table;
  auto append = jit([&](const Tensor& row) {
    Tensor before = table.state * 1;
    table.state.set({7}, row);
    Tensor between = table.state + 1;
    table.state.set({Slice(6, 8)}, before(Slice(0, 2)) + table.state(Slice(7, 9)));
    return std::pair(before, between);
  });
  for (int i = 0; i < 4; ++i) {
    Tensor row = noise_tensor({32}, static_cast<uint64_t>(i));
    const std::vector<double> before = table.want;
    auto [old, between] = append(row);
    expect_equal(old, before);
    table.row(7, doubles(row));
    std::vector<double> now = table.want;
    for (double& x : now) x = static_cast<double>(static_cast<float>(x + 1));
    expect_close(between, now, 1e-6);
    for (size_t k = 0; k < 32; ++k) {
      const double seven = table.want[7 * 32 + k];
      table.want[6 * 32 + k] = static_cast<double>(static_cast<float>(before[k] + seven));
      table.want[7 * 32 + k] = before[32 + k] + table.want[8 * 32 + k];
    }
    expect_close(table.state, table.want, 1e-6);
  }
}

TEST(InPlace, narrow_and_whole_numbers) {
  for (DType dtype : {kF16, kBF16, kI8, kI64, kBool}) {
    Tensor state = cast(noise_tensor({16, 24}) * 20, dtype).realize(), want = state.clone();
    Tensor value = cast(noise_tensor({3, 24}, 2) * 20, dtype).realize();
    auto change = jit([&] { state.set({Slice(4, 7)}, value); });
    for (int i = 0; i < 3; ++i) change();
    expect_equal(state, doubles(set_at(want, {Slice(4, 7)}, value)));
    EXPECT_EQ(cost_of([&] { change(); }).written, 72u * static_cast<uint64_t>(size_of(dtype)));
  }
}

}  // namespace
}  // namespace heddle
