// Tensors that stay in their file until somebody computes with them.
#include <gtest/gtest.h>
#include <heddle/heddle.h>

#include <filesystem>

#include "devices/helpers.h"
#include "temporary_folder.h"

namespace heddle {
namespace {

class InFile : public ::testing::Test {
 protected:
  InFile() {
    w = randn({4, 6, 5}, {.device = "cpu"}).realize();
    b = arange(6, {.dtype = kI32, .device = "cpu"}).realize();
    save_safetensors(path, {{"w", w}, {"b", b}, {"flag", tensor({1, 0}, kBool)}, {"none", zeros({0, 3})}});
    file = load_safetensors(path, {.lazy = true});
  }
  testing::TemporaryFolder folder;
  std::string path = folder.file("model.safetensors");
  Tensor w, b;
  Safetensors file;
};

TEST_F(InFile, the_elements_can_be_looked_at) {
  EXPECT_EQ(file.tensors["w"].to_vector<float>(), w.to_vector<float>());
  EXPECT_EQ(file.tensors["b"].to_vector<int>(), b.to_vector<int>());
  EXPECT_EQ(file.tensors["flag"].to_vector<bool>(), (std::vector<bool>{true, false}));
  EXPECT_EQ(file.tensors["none"].shape(), (Dims{0, 3}));
  EXPECT_EQ(file.tensors["none"].to_vector<float>().size(), 0u);
  EXPECT_NE(to_string(file.tensors["b"]).find("[0 1 2 3 4 5]"), std::string::npos);
}

TEST_F(InFile, every_device_reads_them) {
  Tensor lazy = file.tensors["w"];
  for (const char* name : {"cpu", kOther, kThird}) {
    Tensor x = randn({4, 6, 5}, {.device = name}).realize();
    Tensor y = x * lazy + lazy;
    EXPECT_EQ(y.device(), Device(name));
    EXPECT_LT(max_difference(y.to("cpu"), x.to("cpu") * w + w), 1e-5);
    Tensor moved = lazy.to(name).realize();
    EXPECT_EQ(moved.device(), Device(name));
    EXPECT_EQ(moved.to_vector<float>(), w.to_vector<float>());
  }
  // Two devices in one graph, and alone where constants go.
  Tensor both = sum(lazy.to(kOther) * 2).to("cpu") + sum(lazy);
  EXPECT_NEAR(both.to("cpu").item<float>(), 3 * sum(w).item<float>(), 1e-3);
  EXPECT_EQ((lazy * 2).realize().device(), default_device());
}

TEST_F(InFile, parts_are_read_alone) {
  Tensor lazy = file.tensors["w"];
  Tensor x = ones({6, 5}, {.device = kOther}).realize();
  for (int64_t i = 0; i < 4; ++i) EXPECT_LT(max_difference((x * lazy[i]).to("cpu"), w[i]), 1e-6);
  EXPECT_LT(max_difference(lazy.slice(0, 1, 3).to("cpu"), w.slice(0, 1, 3)), 1e-6);
  EXPECT_LT(max_difference(lazy[2].slice(0, 3, 5).to("cpu"), w[2].slice(0, 3, 5)), 1e-6);
  EXPECT_LT(max_difference(lazy.slice(2, 1, 3).to("cpu"), w.slice(2, 1, 3)), 1e-6);
  EXPECT_LT(max_difference(lazy.slice(1, 2, 5).to("cpu"), w.slice(1, 2, 5)), 1e-6);
  // A part needs no more memory than it has elements.
  const Device other(kOther);
  const uint64_t before = other.memory().used;
  Tensor part = lazy[3].to(other).realize();
  EXPECT_EQ(other.memory().used - before, 6 * 5 * sizeof(float));
}

TEST_F(InFile, captured_functions_read_them_at_each_call) {
  Tensor lazy = file.tensors["w"];
  auto closed = jit([&](const Tensor& x) { return sum(x * lazy); });
  auto given = jit([&](const Tensor& x, const Tensor& weight) { return sum(x * weight); });
  for (int i = 0; i < 4; ++i) {
    Tensor x = randn({4, 6, 5}, {.device = kOther}).realize();
    const float wanted = sum(x.to("cpu") * w).item<float>();
    EXPECT_NEAR(closed(x).item<float>(), wanted, 1e-3);
    EXPECT_NEAR(given(x, lazy).item<float>(), wanted, 1e-3);
  }
}

TEST_F(InFile, gradients_and_assignment_leave_the_file_alone) {
  Tensor lazy = file.tensors["w"], x = ones({4, 6, 5}, {.device = kOther}).realize();
  x.requires_grad_();
  sum(x * lazy).backward();
  EXPECT_LT(max_difference(x.grad()->to("cpu"), w), 1e-6);
  lazy += 1;
  EXPECT_LT(max_difference(lazy.to("cpu"), w + 1), 1e-6);
  EXPECT_EQ(load_safetensors(path).tensors["w"].to_vector<float>(), w.to_vector<float>());
}

TEST_F(InFile, loads_straight_onto_a_device) {
  const Safetensors there = load_safetensors(path, {.device = kOther});
  for (const auto& [name, each] : there.tensors) EXPECT_EQ(each.realize().device(), Device(kOther)) << name;
  EXPECT_THROW(load_safetensors(path, {.device = kOther, .lazy = true}), ValueError);
}

TEST_F(InFile, a_file_that_ends_early_names_itself_and_the_tensor) {
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 200);
  Tensor x = ones({4, 6, 5}, {.device = kOther}).realize();
  for (int i = 0; i < 2; ++i) {
    std::string message = message_of([&] { (x * file.tensors["w"]).realize(); });
    message += message_of([&] { file.tensors["w"].to_vector<float>(); });
    EXPECT_NE(message.find("model.safetensors"), std::string::npos) << message;
    EXPECT_NE(message.find("\"w\""), std::string::npos) << message;
    EXPECT_NE(message.find("ends"), std::string::npos) << message;
  }
  EXPECT_EQ(sum(x).item<float>(), 120);
  EXPECT_THROW(load_safetensors(path, {.lazy = true}), ParseError);
}

}  // namespace
}  // namespace heddle
