// Modules: paths, freezing, copying, saving, printing.
#include <heddle/nn.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "temporary_folder.h"
#include "tensor/helpers.h"

namespace heddle {
namespace {

using namespace testing;

std::string names(const NamedTensors& list) {
  std::string out;
  for (const auto& [path, tensor] : list) out += (out.empty() ? "" : " ") + path;
  return out;
}

// Not a Module itself: only something with visit().
struct Pair {
  Tensor a = tensor({1}), b = tensor({2});
  template <class V>
  void visit(V& v) {
    v("a", a);
    v("b", b);
  }
};

struct Everything : nn::Module<Everything> {
  Tensor scale = tensor({2.0, 3.0});
  std::optional<Tensor> absent;
  std::vector<nn::Linear> layers{nn::Linear(2, 3), nn::Linear(3, 2, false)};
  std::map<std::string, Tensor> tables{{"x", zeros(2)}, {"y", ones(3)}};
  std::optional<nn::LayerNorm> norm = nn::LayerNorm(2);
  Pair pair;
  Tensor operator()(const Tensor& x) const { return (*norm)(layers[1](relu(layers[0](x)))) * scale; }
  template <class V>
  void visit(V& v) {
    v("scale", scale);
    v("absent", absent);
    v("layers", layers);
    v("tables", tables);
    v("norm", norm);
    v("pair", pair);
  }
};

struct Tied : nn::Module<Tied> {
  Tensor first = tensor({1, 2}), second = first;
  template <class V>
  void visit(V& v) {
    v("first", first);
    v("second", second);
  }
};

struct Mixed : nn::Module<Mixed> {
  Tensor w = tensor({1.5}), n = tensor({3}, kI64);
  template <class V>
  void visit(V& v) {
    v("w", w);
    v("n", n);
  }
};

TEST(Module, paths_name_lists_maps_optionals_and_parts) {
  Everything m;
  EXPECT_EQ(
      names(m.named_parameters()),
      "scale layers.0.weight layers.0.bias layers.1.weight tables.x tables.y norm.weight norm.bias pair.a pair.b");
  EXPECT_EQ(m.parameters().size(), 10u);
  EXPECT_EQ(m.parameter_count(), 2 + 6 + 3 + 6 + 2 + 3 + 2 + 2 + 1 + 1);
}

TEST(Module, parameters_are_the_slots_themselves) {
  nn::Linear layer(2, 2);
  std::vector<Tensor> p = layer.parameters();
  p[1].assign(tensor({7, 8}));
  expect_equal(*layer.bias, {7, 8});
}

TEST(Module, frozen_tensors_are_no_parameters_but_part_of_the_state) {
  Everything m;
  m.freeze("layers.0");
  m.freeze("pair.a");
  m.freeze("tables.x");
  EXPECT_EQ(names(m.named_parameters()), "scale layers.1.weight tables.y norm.weight norm.bias pair.b");
  EXPECT_EQ(m.state().size(), 10u);
  Everything same = m;
  EXPECT_EQ(same.parameters().size(), 6u);
  EXPECT_TRUE(m.layers[0].parameters().empty());
  m.layers[0].unfreeze();
  EXPECT_EQ(m.parameters().size(), 8u);
  m.freeze();
  EXPECT_TRUE(m.parameters().empty());
  m.unfreeze();
  EXPECT_EQ(m.parameters().size(), 10u);
  EXPECT_EQ(same.parameters().size(), 6u);
  expect_error<ValueError>([&] { m.freeze("layer"); }, {"layer"});
}

TEST(Module, copying_shares_and_copy_does_not) {
  nn::Sequential a(nn::Linear(2, 2), nn::ReLU());
  nn::Sequential shared = a, own = a.copy();
  Tensor weight = a.parameters()[0];
  std::vector<double> before = doubles(weight);
  weight.assign(zeros({2, 2}));
  expect_equal(shared.parameters()[0], {0, 0, 0, 0});
  expect_equal(own.parameters()[0], before);
}

TEST(Module, a_copy_keeps_tensors_that_are_used_twice_one) {
  Tied tied;
  EXPECT_EQ(tied.parameters().size(), 1u);
  EXPECT_EQ(tied.parameter_count(), 2);
  Tied own = tied.copy();
  own.first.assign(tensor({5, 6}));
  expect_equal(own.second, {5, 6});
  expect_equal(tied.first, {1, 2});
  own.to(kBF16);
  EXPECT_EQ(&own.first.slot(), &own.second.slot());
  EXPECT_EQ(own.second.dtype(), kBF16);
}

TEST(Module, to_converts_floats_only) {
  Mixed m;
  m.to(kF16);
  EXPECT_EQ(m.w.dtype(), kF16);
  EXPECT_EQ(m.n.dtype(), kI64);
  expect_error<DTypeError>([&] { m.to(kI32); }, {"i32"});
}

TEST(Module, training_mode_reaches_every_part) {
  nn::Sequential net(nn::Linear(4, 4), nn::Dropout(0.999), nn::Sequential(nn::Dropout(1)));
  Tensor x = ones({2, 4});
  expect_equal(net(x), std::vector<double>(8, 0));
  net.eval();
  EXPECT_FALSE(net.at<nn::Dropout>(1).training);
  EXPECT_TRUE(equal(net(x), net.at<nn::Linear>(0)(x)));
  net.train();
  expect_equal(net(x), std::vector<double>(8, 0));
}

TEST(Module, the_summary_shows_parts_shapes_and_counts) {
  nn::Sequential net(nn::Linear(3, 2), nn::ReLU());
  net.freeze("0.bias");
  std::ostringstream out;
  out << net;
  EXPECT_EQ(out.str(),
            "(module)                Sequential\n"
            "0                       Linear\n"
            "0.weight                  [2, 3] f32\n"
            "0.bias                    [2] f32, frozen\n"
            "1                       ReLU\n"
            "8 parameters in 32 bytes, 2 of them frozen\n");
}

class ModuleFile : public ::testing::Test {
 protected:
  ~ModuleFile() override { std::filesystem::remove(path); }
  std::string path =
      (std::filesystem::temp_directory_path() / ("heddle_nn_" + std::to_string(::getpid()) + ".safetensors")).string();
};

TEST_F(ModuleFile, a_module_is_saved_and_loaded_by_path) {
  nn::Sequential a(nn::Linear(3, 4), nn::Tanh(), nn::Linear(4, 2)),
      b = nn::Sequential(nn::Linear(3, 4), nn::Tanh(), nn::Linear(4, 2));
  Tensor x = noise_tensor({5, 3});
  EXPECT_FALSE(equal(a(x), b(x)));
  a.save(path);
  std::vector<Tensor> held = b.parameters();
  b.load(path);
  EXPECT_TRUE(equal(a(x), b(x)));
  EXPECT_TRUE(equal(held[0], a.parameters()[0])) << "the slots stay the same";
  EXPECT_TRUE(load_safetensors(path).tensors.contains("2.bias"));
}

TEST_F(ModuleFile, what_does_not_fit_is_listed_and_nothing_changes) {
  TensorMap values = nn::Linear(3, 4).state();
  values["extra"] = zeros(1);
  values.erase("bias");
  values["weight"] = zeros({4, 2});
  save_safetensors(path, values);
  nn::Linear layer(3, 4);
  Tensor before = layer.weight.clone();
  expect_error<ValueError>([&] { layer.load(path); },
                           {path, "bias is missing", "extra is none", "weight has shape [4, 2]", "[4, 3]"});
  EXPECT_TRUE(equal(before, layer.weight));
  nn::Linear half = layer.copy();
  half.to(kF16).save(path);
  expect_error<ValueError>([&] { layer.load(path); }, {"weight is f16", "the module's is f32", "{.convert = true}"});
}

TEST(Sequential, layers_may_be_functions_and_are_found_by_type) {
  nn::Sequential net;
  net.push_back(nn::Linear(2, 2));
  net.push_back([](const Tensor& x) { return x * 2; });
  net.at<nn::Linear>(0).weight.assign(eye(2));
  net.at<nn::Linear>(0).bias->assign(tensor({1, 1}));
  expect_equal(net(tensor({{1, 2}})), {4, 6});
  EXPECT_EQ(net.size(), 2u);
  EXPECT_EQ(names(net.named_parameters()), "0.weight 0.bias");
  expect_error<ValueError>([&] { net.at<nn::ReLU>(0); }, {"layer 0"});
  expect_error<ValueError>([&] { net.at<nn::ReLU>(9); }, {"layer 9"});
}

struct Block : nn::Module<Block> {
  nn::Linear inner{4, 4};
  Tensor operator()(const Tensor& x) const { return x + inner(x); }
  template <class V>
  void visit(V& v) {
    v("inner", inner);
  }
};

TEST(Sequential, errors_say_which_layer) {
  nn::Sequential net(nn::Linear(4, 8), nn::ReLU(), nn::Linear(9, 2));
  Tensor x = zeros({1, 4});
  expect_error<ShapeError>([&] { net(x); }, {"layer 2: Linear(9, 2): ", "[1, 8]"});
  nn::Sequential outer(nn::Linear(4, 4), net);
  expect_error<ShapeError>([&] { outer(x); }, {"layer 1.2: Linear(9, 2): "});
  nn::Sequential block(nn::Linear(4, 8), Block());
  expect_error<ShapeError>([&] { block(x); }, {"layer 1: Block: Linear(4, 4): "});
  nn::Sequential norm(nn::LayerNorm(5));
  expect_error<ShapeError>([&] { norm(x); }, {"layer 0: LayerNorm: layer_norm: "});
  nn::Sequential function([](const Tensor& y) { return reshape(y, {3}); });
  expect_error<ShapeError>([&] { function(x); }, {"layer 0: reshape: "});
  expect_error<ValueError>([&] { net.at<nn::Linear>(7); }, {"Sequential", "no layer 7", "has 3"});
  expect_error<ValueError>([&] { net.at<nn::Linear>(1); }, {"Sequential", "layer 1 is a ReLU, not a Linear"});
  expect_error<ValueError>([&] { function.at<nn::Linear>(0); }, {"layer 0 is a function, not a Linear"});
  nn::Sequential dtype(nn::Embedding(2, 2));
  expect_error<DTypeError>([&] { dtype(x); }, {"layer 0: Embedding(2, 2): "});
  nn::Sequential foreign([](const Tensor&) -> Tensor { throw std::out_of_range("mine"); });
  EXPECT_THROW(foreign(x), std::out_of_range);
}

TEST(Sequential, other_visitors_see_whole_paths) {
  struct Collect {
    std::string seen;
    void operator()(const char* name, Tensor&) { seen += std::string(name) + " "; }
  } collect;
  nn::Sequential net(nn::Linear(2, 2), nn::Sequential(nn::ReLU(), nn::RMSNorm(2)));
  net.visit(collect);
  EXPECT_EQ(collect.seen, "0.weight 0.bias 1.1.weight ");
}

TEST(Module, loads_other_dtypes_on_request) {
  heddle::testing::TemporaryFolder folder;
  nn::Linear wide(3, 2), half = wide.copy();
  half.to(kF16);
  half.save(folder.file("half"));
  Tensor before = wide.weight.clone().realize();
  expect_error<ValueError>([&] { wide.load(folder.file("half")); },
                           {"weight is f16, the module's is f32", "{.convert = true}"});
  EXPECT_TRUE(equal(wide.weight, before));
  wide.load(folder.file("half"), {.convert = true});
  EXPECT_EQ(wide.weight.dtype(), kF32);
  EXPECT_TRUE(equal(wide.weight, cast(half.weight, kF32)));
  EXPECT_TRUE(wide.weight.requires_grad());
  half.load_state(wide.state(), "state", {.convert = true});
  EXPECT_EQ(half.weight.dtype(), kF16);
  TensorMap counts = wide.state();
  counts["bias"] = arange(2);
  counts.erase("weight");
  expect_error<ValueError>([&] { wide.load_state(counts, "counts", {.convert = true}); },
                           {"bias is i64, the module's is f32", "weight is missing", "not converted"});
}

}  // namespace
}  // namespace heddle
