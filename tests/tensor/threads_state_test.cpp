// What docs/guide.md promises to threads that save, load and train what others use: all of it is of one step.
#include "crowd.h"
#include "temporary_folder.h"

namespace heddle {
namespace {

using namespace testing;

// Tensors that a step changes by the same number, of several sizes.
struct Group : nn::Module<Group> {
  Tensor a = full({500}, 0).clone().realize(), b = full({}, 0).clone().realize(),
         c = full({30, 20}, 0).clone().realize();
  template <class V>
  void visit(V& v) {
    v("a", a);
    v("b", b);
    v("c", c);
  }
  std::vector<Tensor> all() const { return {a, b, c}; }
};

double only_value_of(const TensorMap& tensors, const std::string& prefix = "") {
  std::vector<double> elements;
  for (const auto& [name, tensor] : tensors) {
    if (!name.starts_with(prefix)) continue;
    std::vector<double> own = doubles(tensor);
    elements.insert(elements.end(), own.begin(), own.end());
  }
  return only_value(elements, "what was saved");
}

TEST(Threads, save_is_of_one_step) {
  TemporaryFolder folder;
  Group group;
  auto step = jit([&] {
    for (Tensor& each : std::vector{group.a, group.b, group.c}) each += 1;
  });
  Growing saved, fixed, copied;
  EXPECT_EQ(crowd([&] { again_and_again(step, 1); },
                  {[&] {
                     save_safetensors(folder.file("tensors"), group.state());
                     saved.see(only_value_of(load_safetensors(folder.file("tensors")).tensors));
                   },
                   [&] {
                     group.save(folder.file("module"));
                     (void)only_value_of(load_safetensors(folder.file("module")).tensors);
                   },
                   [&] { fixed.see(only_value_of(snapshot(group.state()))); },
                   [&] { copied.see(only_value_of(group.copy().state())); }}),
            "");
}

// Saving computes tensors that are not computed yet, and they keep that.
TEST(Threads, save_while_another_assigns) {
  TemporaryFolder folder;
  Tensor h = full({500}, 0).clone().realize();
  Growing saved;
  EXPECT_EQ(crowd(
                [&] {
                  again_and_again([&] {
                    h += 1;
                    h.realize();
                  });
                },
                {[&] {
                  save_safetensors(folder.file("h"), {{"h", h}, {"later", h}});
                  saved.see(only_value_of(load_safetensors(folder.file("h")).tensors));
                }}),
            "");
  Tensor lazy = h * 2;
  save_safetensors(folder.file("h"), {{"lazy", lazy}});
  EXPECT_TRUE(lazy.is_realized());
}

TEST(Threads, load_is_of_one_file) {
  Group group;
  auto step = jit([&] {
    for (Tensor& each : std::vector{group.a, group.b, group.c}) each += 1;
  });
  TensorMap values;
  for (const auto& [name, tensor] : group.state()) values.emplace(name, full(tensor.shape(), 1000).clone().realize());
  EXPECT_EQ(crowd([&] { again_and_again([&] { group.load_state(values); }); },
                  {[&] { (void)only_value_of(snapshot(group.state())); }, [&] { step(); },
                   [&] { (void)only_value_of(group.copy().state()); }}),
            "");
}

// The parameters are minus the number of steps, and every step draws once.
void check_checkpoint(const std::string& path) {
  TensorMap saved = load_safetensors(path).tensors;
  double steps = saved.at("optimizer.step").item<double>(), value = only_value_of(saved, "model.");
  if (value != -steps) throw std::runtime_error("parameters of another step than the optimiser's");
  if (saved.at("generator").to_vector<double>()[1] != steps) throw std::runtime_error("random numbers of another step");
}

TEST(Threads, checkpoints_are_of_one_step) {
  TemporaryFolder folder;
  Group group;
  optim::SGD optimizer(group.named_parameters(), {.lr = 1});
  manual_seed(3);
  auto step = jit([&] {
    Tensor drawn = uniform({}) * 0;
    Tensor loss = group.a.sum() + group.b.sum() + group.c.sum() + drawn;
    std::vector<Tensor> parameters = group.parameters();
    optimizer.step(grad(loss, parameters));
  });
  EXPECT_EQ(crowd([&] { again_and_again(step, 1); }, {[&] {
                    optim::save_checkpoint(folder.file("checkpoint"), group, optimizer);
                    check_checkpoint(folder.file("checkpoint"));
                  }}),
            "");
  // Going on from a file while others look.
  EXPECT_EQ(
      crowd([&] { again_and_again([&] { optim::load_checkpoint(folder.file("checkpoint"), group, optimizer); }); },
            {[&] {
               optim::save_checkpoint(folder.file("other"), group, optimizer);
               check_checkpoint(folder.file("other"));
             },
             step}),
      "");
}

TEST(Threads, plain_optimiser_steps_are_whole) {
  Group group;
  optim::SGD optimizer(group.named_parameters(), {.lr = 1});
  auto step = [&] {
    Tensor loss = group.a.sum() + group.b.sum() + group.c.sum();
    optimizer.step(grad(loss, group.parameters()));
  };
  EXPECT_EQ(crowd([&] { again_and_again(step); }, {[&] {
                    TensorMap all = group.state();
                    all.emplace("step", optimizer.state().at("step"));
                    all = snapshot(all);
                    double steps = all.at("step").item<double>();
                    all.erase("step");
                    if (only_value_of(all) != -steps) throw std::runtime_error("half of a step");
                    (void)optimizer.lr();
                  }}),
            "");
}

TEST(Threads, train_and_eval_while_others_call) {
  nn::Sequential net(nn::Linear(4, 4), nn::Dropout(0.5), nn::Linear(4, 4), nn::Dropout(0.5));
  Tensor x = full({2, 4}, 1).clone().realize();
  auto forward = jit([&](Tensor in) { return net(in); });
  EXPECT_EQ(crowd(
                [&] {
                  bool on = false;
                  again_and_again(
                      [&] {
                        net.train(on = !on);
                        std::this_thread::sleep_for(std::chrono::microseconds(300));
                      },
                      0.6);
                },
                {[&] { (void)doubles(forward(x)); }, [&] { (void)doubles(net(x)); }}),
            "");
  net.eval();
  EXPECT_EQ(doubles(forward(x)), doubles(forward(x)));
  EXPECT_EQ(doubles(forward(x)), doubles(net(x)));
}

TEST(Threads, settings_change_while_others_compute) {
  Tensor x = full({8, 8}, 1).clone().realize();
  EXPECT_EQ(crowd(
                [&] {
                  bool on = false;
                  again_and_again([&] {
                    set_deterministic(on = !on);
                    only_value(matmul(x, x));
                  });
                },
                {[&] { only_value(matmul(x, x) + 1); }}),
            "");
  set_deterministic(false);
}

}  // namespace
}  // namespace heddle
