// Kernels that people write: what they compute on the device of this run, against operators and the evaluator.
#include "../../examples/kernels.h"

#include "base/config.h"
#include "graph/graph.h"
#include "tensor/helpers.h"

namespace heddle::testing {
namespace {

bool runs() { return config().device != "null"; }  // which compiles alone

// What the evaluator says, in double.
std::vector<double> evaluated(const Tensor& x) {
  std::vector<NodeRef> roots = {x.node()};
  const HostArray array = evaluate(roots)[0];
  if (is_float(array.dtype)) return array.floats;
  std::vector<double> result;
  for (uint64_t v : array.integers) result.push_back(static_cast<double>(static_cast<int64_t>(v)));
  return result;
}

void expect_same(const TensorList& results, const TensorList& want, double tolerance = 1e-5) {
  ASSERT_EQ(results.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(results[i].shape(), want[i].shape());
    EXPECT_EQ(results[i].dtype(), want[i].dtype());
    results[i].realize();
    if (!runs()) continue;
    const std::vector<double> expected = evaluated(want[i]);
    expect_close(from_vector(evaluated(results[i]), want[i].shape()), expected, tolerance);
    expect_close(results[i], expected, tolerance);
  }
}

template <class E, class F>
std::string message(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "nothing thrown";
}

// A kernel of one input and one result of its shape.
Kernel of_rows(std::function<Tile(KernelBuilder&, const Tile&)> f) {
  return Kernel("of_rows", [f](KernelBuilder& k) {
    KernelTensor x = k.input(0), y = k.output(x.shape(), x.dtype());
    Tile i = k.range(x.size(0));
    k.store(y, {i}, f(k, k.load(x, {i})));
  });
}

TEST(Kernel, adds_vectors_of_any_length) {
  for (int64_t n : {1, 7, 64, 1000}) {
    Tensor x = noise_tensor({n}, 1), y = noise_tensor({n}, 2);
    expect_same(examples::add(64)({x, y}), {x + y}, 0);
  }
}

TEST(Kernel, computes_softmax) {
  for (int64_t n : {1, 5, 33, 100}) {
    Tensor x = noise_tensor({9, n});
    expect_same(examples::softmax()({x}), {softmax(x, -1)});
  }
}

TEST(Kernel, multiplies_matrices_with_an_epilogue) {
  const int64_t sizes[][3] = {{16, 32, 8}, {17, 40, 19}, {1, 1, 1}, {33, 70, 24}};
  for (const auto& [m, n, depth] : sizes) {
    Tensor a = noise_tensor({m, depth}, 1), b = noise_tensor({depth, n}, 2), bias = noise_tensor({n}, 3);
    expect_same(examples::matmul(16, 32, 8)({a, b, bias}), {relu(matmul(a, b) + bias)});
  }
}

TEST(Kernel, computes_attention_chunk_by_chunk) {
  const int64_t sizes[][3] = {{2, 32, 16}, {1, 21, 8}, {3, 8, 4}};
  for (const auto& [heads, tokens, width] : sizes) {
    auto make = [&](uint64_t seed) { return noise_tensor({heads, tokens, width}, seed); };
    Tensor q = make(1), k = make(2), v = make(3);
    Tensor want = matmul(softmax(matmul(q, k.transpose(1, 2)) / std::sqrt(static_cast<double>(width)), -1), v);
    expect_same(examples::attention(8, 16)({q, k, v}), {want});
  }
}

TEST(Kernel, is_written_once_for_each_shape_and_dtype) {
  int written = 0;
  Kernel twice("twice", [&](KernelBuilder& k) {
    ++written;
    KernelTensor x = k.input(0), y = k.output(x.shape(), x.dtype());
    Tile i = k.range(x.size(0));
    k.store(y, {i}, k.load(x, {i}) * 2);
  });
  for (int round = 0; round < 2; ++round) {
    expect_same({twice({tensor({1., 2.})})[0]}, {tensor({2, 4}).to(twice({tensor({1., 2.})})[0].dtype())}, 0);
    expect_same({twice({tensor({1., 2., 3.})})[0]}, {tensor({2, 4, 6}).to(twice({tensor({1., 2., 3.})})[0].dtype())},
                0);
    expect_same({twice({tensor({1, 2, 3}, kI32)})[0]},
                {tensor({2, 4, 6}).to(twice({tensor({1, 2, 3}, kI32)})[0].dtype())}, 0);
  }
  EXPECT_EQ(written, 3);
}

TEST(Kernel, gives_several_results_and_stores_those_that_are_wanted) {
  Kernel both("both", [](KernelBuilder& k) {
    KernelTensor x = k.input(0);
    KernelTensor rows = k.output({x.size(0)}, x.dtype()), scratch = k.shared({x.size(1)}, x.dtype());
    KernelTensor squares = k.output(x.shape(), kF64);
    Tile i = k.block(x.size(0)), j = k.range(x.size(1));
    Tile t = k.load(x, {i, j});
    k.store(scratch, {j}, t * t);
    k.store(squares, {i, j}, k.load(scratch, {x.size(1) - 1 - j}));
    k.store(rows, {i}, k.sum(t, j));
  });
  Tensor x = noise_tensor({4, 6});
  TensorList want = {sum(x, 1), flip(x * x, 1).to(kF64)};
  expect_same(both({x}), want);
  expect_same({both({x})[1]}, {want[1]});
  expect_same({both({x})[0]}, {want[0]});
}

TEST(Kernel, neither_reads_nor_writes_outside_of_its_tensors) {
  Kernel shifted("shifted", [](KernelBuilder& k) {
    KernelTensor x = k.input(0), ids = k.input(1), y = k.output(x.shape(), x.dtype());
    Tile i = k.range(2 * x.size(0));
    k.store(y, {i}, k.load(x, {i - 2}, true, -1) + k.load(x, {k.load(ids, {i})}, true, 100));
  });
  Tensor ids = tensor({0, -1, 3, 1000, 2}).to(kI64);
  expect_same(shifted({counting({5}), ids}), {tensor({-1., 99., 3., 101., 4.})}, 0);
  Tensor huge = tensor({0, -1, 3, 1000, 2}).to(kI64) * (int64_t{1} << 61);
  expect_same(shifted({counting({5}), huge}), {tensor({-1., 99., 100., 1., 102.})}, 0);  // 1000 * 2^61 wraps to 0
  expect_same(shifted({counting({5}), full({5}, 18446744073709551615ull, kU64)}),
              {tensor({99., 99., 100., 101., 102.})}, 0);
}

TEST(Kernel, masks_by_positions_and_by_data) {
  Kernel masked("masked", [](KernelBuilder& k) {
    KernelTensor x = k.input(0), y = k.output(x.shape(), x.dtype());
    Tile i = k.range(x.size(0));
    Tile t = k.load(x, {i}, i % 3 != 0, 7);
    k.store(y, {i}, 0);
    k.store(y, {i}, t, (t > 2) & (i < 5));
  });
  expect_same(masked({counting({7})}), {tensor({7., 0., 0., 7., 4., 0., 0.})}, 0);
}

TEST(Kernel, computes_with_positions_numbers_and_all_dtypes) {
  Kernel mixed("mixed", [](KernelBuilder& k) {
    KernelTensor x = k.input(0), y = k.output(x.shape(), kF32), z = k.output(x.shape(), kI32);
    Tile i = k.range(x.size(0));
    Tile t = k.load(x, {i});
    k.store(y, {i}, where(i < 2, t / 2, t * i + 0.5) + Tile::of("log1p", {abs(t)}));
    k.store(z, {i},
            (i  // the position
             % 4) * 10 +
                floordiv(i, 2) + t.to(kI32) % 3);
  });
  for (DType dtype : {kF32, kF16, kBF16, kF64, kI32, kU8}) {
    Tensor x = counting({6}, dtype), i = counting({6}, kI32), f = x.to(kF32);
    Tensor want = where(i < 2, f / 2, f * i + 0.5f) + log1p(f);
    expect_same(mixed({x}), {want, remainder(i, 4) * 10 + floordiv(i, 2) + remainder(x.to(kI32), 3)},
                dtype == kBF16  ? 2e-2
                : dtype == kF16 ? 3e-3
                                : 1e-5);
  }
}

TEST(Kernel, loops_between_positions) {
  // Of a triangle: row i adds up x[0] to x[i], in steps of two.
  Kernel partial("partial", [](KernelBuilder& k) {
    KernelTensor x = k.input(0), y = k.output(x.shape(), x.dtype());
    Tile i = k.block(x.size(0));
    Tile sum = k.loop(i % 2, i + 1, 2, {k.full({}, 0, x.dtype())}, [&](const Tile& at, std::span<const Tile> so_far) {
      return std::vector<Tile>{so_far[0] + k.load(x, {at})};
    })[0];
    k.store(y, {i}, sum);
  });
  expect_same(partial({counting({6})}), {tensor({0., 1., 2., 4., 6., 9.})}, 0);
}

TEST(Kernel, reads_shared_memory_before_the_same_round_writes_it) {
  Kernel late("late",
              [](KernelBuilder& k) {  // adds up products of the chunk of the round before
                KernelTensor x = k.input(0), w = k.input(1), y = k.output({16, 8}, kF32), s = k.shared({16, 16}, kF32);
                Tile i = k.range(16), p = k.range(16), j = k.range(8);
                k.store(s, {i, p}, 0);
                Tile sum = k.loop(0, 4, 1, {k.full({i, j}, 0, kF32)}, [&](const Tile& c, std::span<const Tile> so_far) {
                  Tile old = k.load(s, {i, p});
                  k.store(s, {i, p}, k.load(x, {c * 16 + i, p}));
                  return std::vector<Tile>{k.dot(old, k.load(w, {p, j}), p, so_far[0])};
                })[0];
                k.store(y, {i, j}, sum);
              },
              {.threads = 64});
  Tensor x = noise_tensor({4, 16, 16}, 1), w = noise_tensor({16, 8}, 2);
  expect_same(late({x.reshape({64, 16}), w}), {matmul(slice(x, 0, 0, 3).sum(0), w)});
}

TEST(Kernel, positions_beside_narrow_integers_are_whole) {
  Kernel counts("counts", [](KernelBuilder& k) {  // one-hot rows, and whether a position lies beyond
    KernelTensor x = k.input(0), y = k.output({x.size(0), 300}, kBool), z = k.output({x.size(0)}, kI64);
    Tile i = k.range(x.size(0)), j = k.range(300), t = k.load(x, {i});
    k.store(y, {i, j}, t == j);
    k.store(z, {i}, t + i * 100);
  });
  Tensor x = tensor({0, 44, 255, 7}).to(kU8);
  Tensor wide = x.to(kI64);
  expect_same(counts({x}), {wide.reshape({4, 1}) == arange(300).to(kI64), wide + arange(4).to(kI64) * 100}, 0);
}

TEST(Kernel, sums_over_ranges_that_simplifying_takes_away) {
  Kernel inside("inside", [](KernelBuilder& k) {
    KernelTensor x = k.input(0), y = k.output({3}, kI64), z = k.output({3}, kF32), w = k.output({3}, kF32);
    Tile b = k.block(3), j = k.range(4);
    Tile there = b * 4 + j < x.size(0);  // always
    k.store(y, {b}, k.sum(there, j));
    k.store(z, {b}, k.dot(where(there, 1.0f, 0.0f), where(there, k.load(x, {b}), 0), j));
    k.store(w, {b}, k.max(where(there, k.load(x, {b}), 0), j));
  });
  Tensor x = counting({12});
  expect_same(inside({x}), {full({3}, 4, kI64), slice(x, 0, 0, 3) * 4, slice(x, 0, 0, 3)}, 0);
}

TEST(Kernel, of_no_elements) {
  Kernel sums("sums", [](KernelBuilder& k) {
    KernelTensor x = k.input(0), y = k.output({2}, x.dtype()), z = k.output(x.shape(), x.dtype());
    Tile i = k.range(2);
    k.store(y, {i}, k.load(x, {i}, true, 3));
    k.store(z, {k.block(x.size(0))}, 1);
  });
  Tensor empty = zeros({0});
  EXPECT_EQ(sums({empty})[1].shape(), Dims{0});
  expect_same({sums({empty})[0]}, {tensor({3, 3}).to(sums({empty})[0].dtype())}, 0);
}

TEST(Kernel, of_no_inputs_and_of_scalars) {
  Kernel squares("squares", [](KernelBuilder& k) {
    KernelTensor y = k.output({4}, kI64);
    Tile i = k.range(4);
    k.store(y, {i}, i * i);
  });
  expect_same(squares({}), {tensor({0, 1, 4, 9}, kI64)}, 0);
  Kernel plus("plus", [](KernelBuilder& k) {
    KernelTensor x = k.input(0), y = k.output({}, x.dtype());
    k.store(y, {}, where(k.block(1) < 1, k.load(x, {}), 0) + 1);
  });
  expect_same(plus({full({}, 2.5)}), {full({}, 3.5)}, 0);
}

TEST(Kernel, is_part_of_captured_functions_and_of_graphs) {
  Kernel soft = examples::softmax();
  auto f = jit([&](const Tensor& x) { return sum(soft({x * 2})[0] * x, -1); });
  for (uint64_t seed : {1, 2, 3}) {
    Tensor x = noise_tensor({4, 10}, seed);
    const Tensor y = f(x);
    if (runs()) expect_close(y, evaluated(sum(softmax(x * 2, -1) * x, -1)), 1e-5);
  }
  EXPECT_NE(print_graph(std::vector<NodeRef>{soft({counting({2, 3})})[0].node()}).find("kernel f32[2, 3] %0 @softmax"),
            std::string::npos);
}

TEST(Kernel, is_one_launch) {
  Kernel soft = examples::softmax();
  Tensor x = noise_tensor({8, 16});
  soft({x})[0].realize();
  run_stats() = {};
  soft({x})[0].realize();
  EXPECT_EQ(run_stats().launches, 1u);
  EXPECT_EQ(run_stats().plan_hits, 1u);
}

TEST(Kernel, two_of_one_structure_are_one_node_and_others_are_not) {
  Tensor x = noise_tensor({4, 6});
  EXPECT_EQ(examples::softmax()({x})[0].node(), examples::softmax()({x})[0].node());
  Kernel one = of_rows([](KernelBuilder&, const Tile& t) { return t + 1; });
  Kernel two = of_rows([](KernelBuilder&, const Tile& t) { return t + 2; });
  expect_same({one({counting({3})})[0]}, {tensor({1, 2, 3}, kI32).to(one({counting({3})})[0].dtype())}, 0);
  expect_same({two({counting({3})})[0]}, {tensor({2, 3, 4}).to(two({counting({3})})[0].dtype())}, 0);
}

TEST(Kernel, maps_over_examples) {
  Kernel soft = examples::softmax(), plus = examples::add(64);
  Tensor x = noise_tensor({3, 4, 10}), y = noise_tensor({10});
  expect_same({vmap([&](const Tensor& row) { return soft({row})[0]; })(x)}, {softmax(x, -1)});
  auto rows = vmap([&](const Tensor& row) { return plus({row, y})[0]; });
  expect_same({vmap(rows)(x)}, {x + y}, 0);
}

TEST(Kernel, has_the_gradient_that_custom_vjp_gives_it) {
  Kernel soft = examples::softmax();
  Tensor x = noise_tensor({4, 10}), weight = noise_tensor({4, 10}, 2);
  const std::string why =
      message<ValueError>([&] { grad([&](const Tensor& t) { return sum(soft({t})[0] * weight); })(x); });
  EXPECT_NE(why.find("kernel softmax has no gradient"), std::string::npos) << why;
  EXPECT_NE(why.find("custom_vjp"), std::string::npos) << why;
  auto with_gradient = custom_vjp(
      [&](const TensorList& in) { return soft(in)[0]; },
      [](const TensorList&, const Tensor& y, const Tensor& g) { return TensorList{y * (g - sum(g * y, -1, true))}; });
  Tensor got = grad([&](const Tensor& t) { return sum(with_gradient({t}) * weight); })(x);
  expect_same({got}, {grad([&](const Tensor& t) { return sum(softmax(t, -1) * weight); })(x)});
}

TEST(Kernel, whose_blocks_write_one_element_is_found_by_the_interpreter) {
  Kernel races("races", [](KernelBuilder& k) {
    KernelTensor x = k.input(0), y = k.output({1}, x.dtype());
    k.store(y, {0}, k.load(x, {k.block(x.size(0))}));
  });
  const std::string why = message<DeviceError>([&] { evaluated(races({counting({3})})[0]); });
  EXPECT_NE(why.find("kernel @races"), std::string::npos) << why;
}

TEST(Kernel, says_what_is_wrong) {
  auto write = [](std::function<void(KernelBuilder&, KernelTensor, KernelTensor, Tile)> f) {
    Kernel kernel("wrong", [f](KernelBuilder& k) {
      KernelTensor x = k.input(0), y = k.output(x.shape(), x.dtype());
      f(k, x, y, k.range(x.size(0)));
    });
    kernel({counting({4})});
  };
  auto expect = [](const std::string& got, const char* want) { EXPECT_NE(got.find(want), std::string::npos) << got; };
  expect(message<ValueError>([&] { write([](auto&&...) {}); }), "nothing is stored to output 0");
  expect(message<ValueError>([&] { Kernel("none", [](KernelBuilder&) {})({counting({4})}); }), "has no output");
  expect(message<ShapeError>([&] {
           write([](KernelBuilder& k, KernelTensor x, KernelTensor y, Tile i) { k.store(y, {0}, k.load(x, {i})); });
         }),
         "store: f32 over range 0 has several values for one element");
  expect(message<IndexError>(
             [&] { write([](KernelBuilder& k, KernelTensor x, KernelTensor, Tile i) { k.load(x, {i, 0}); }); }),
         "load: 2 positions for the 1 axes of [4]");
  expect(message<DTypeError>([&] {
           write([](KernelBuilder& k, KernelTensor x, KernelTensor, Tile i) { k.load(x, {k.load(x, {i})}); });
         }),
         "the position along axis 0 is f32 over range 0, not an integer");
  expect(message<ValueError>(
             [&] { write([](KernelBuilder& k, KernelTensor, KernelTensor y, Tile i) { k.load(y, {i}); }); }),
         "a result cannot be read");
  expect(message<ValueError>(
             [&] { write([](KernelBuilder& k, KernelTensor x, KernelTensor, Tile i) { k.store(x, {i}, 0); }); }),
         "an input cannot be written");
  expect(message<ValueError>([&] { write([](KernelBuilder& k, auto, auto, Tile i) { k.full({i}, 300, kU8); }); }),
         "the number 300 does not fit a tile of dtype u8");
  expect(message<ValueError>([&] {
           write([](KernelBuilder& k, KernelTensor x, auto, Tile i) { (void)(k.load(x, {i}).to(kU8) < -1); });
         }),
         "the number -1 does not fit a tile of dtype u8");
  expect(message<ValueError>([&] {
           write([](KernelBuilder& k, KernelTensor, KernelTensor y, Tile i) {
             KernelTensor small = k.shared({4}, kI8);
             k.store(small, {i}, 1);
             k.store(y, {i}, k.load(small, {i}, i < 2, 128));
           });
         }),
         "the number 128 does not fit a tile of dtype i8");
  expect(message<ValueError>([&] {
           write([](KernelBuilder& k, KernelTensor x, KernelTensor, Tile i) { k.sum(k.load(x, {i}), i + 1); });
         }),
         "is no range");
  expect(message<ValueError>([&] {
           write([](KernelBuilder& k, KernelTensor x, KernelTensor, Tile i) {
             Tile kept = i;
             k.loop(0, 3, 1, {}, [&](const Tile& at, std::span<const Tile>) {
               kept = k.load(x, {at});
               return std::vector<Tile>();
             });
             kept + 1;
           });
         }),
         "belongs to a loop that has ended");
  expect(message<ShapeError>([&] {
           write([](KernelBuilder& k, KernelTensor x, KernelTensor, Tile i) {
             k.loop(0, 3, 1, {k.full({}, 0, kF32)}, [&](const Tile&, std::span<const Tile> so_far) {
               return std::vector<Tile>{so_far[0] + k.load(x, {i})};
             });
           });
         }),
         "begins as f32, the body gives f32 over range 0; begin with full()");
  expect(message<ValueError>([&] {
           write([](KernelBuilder& k, KernelTensor x, KernelTensor, Tile i) {
             k.loop(0, k.load(x, {i}), 1, {}, [](auto&&...) { return std::vector<Tile>(); });
           });
         }),
         "data cannot decide how long it runs");
  expect(message<DTypeError>(
             [&] { write([](KernelBuilder& k, KernelTensor x, KernelTensor, Tile i) { k.load(x, {i}) & 1; }); }),
         "bit_and: does not take f32");
  expect(message<ValueError>([&] { write([](KernelBuilder& k, auto&&...) { k.range(int64_t{1} << 40); }); }),
         "range: a size of 1099511627776");
  expect(message<ValueError>([&] { write([](KernelBuilder&, auto, auto, Tile i) { i*(int64_t{1} << 60); }); }),
         "may lie beyond 2^48");
  std::optional<KernelTensor> kept;
  write([&](KernelBuilder& k, KernelTensor x, KernelTensor y, Tile i) {
    k.store(y, {i}, 0);
    kept = x;
  });
  expect(message<ValueError>(
             [&] { write([&](KernelBuilder& k, KernelTensor, KernelTensor, Tile i) { k.load(*kept, {i}); }); }),
         "load: a tensor of another kernel");
  std::optional<Tile> leaked;
  write([&](KernelBuilder& k, KernelTensor, KernelTensor y, Tile i) {
    k.store(y, {i}, 0);
    leaked = i;
  });
  expect(message<ValueError>([&] { *leaked + 1; }), "has been written already");
  EXPECT_THROW(Kernel("threads", [](KernelBuilder&) {}, {.threads = 100}), ValueError);
}

}  // namespace
}  // namespace heddle::testing
