// The warning about what is compiled again and again.
#include "helpers.h"

namespace heddle {
namespace {

using namespace testing;

std::string errors_of(const std::function<void()>& f) {
  clear_plan_cache();
  ::testing::internal::CaptureStderr();
  f();
  return ::testing::internal::GetCapturedStderr();
}

size_t count(const std::string& all, const std::string& part) {
  size_t found = 0;
  for (size_t at = all.find(part); at != std::string::npos; at = all.find(part, at + 1)) ++found;
  return found;
}

void expect_parts(const std::string& all, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(all.find(part), std::string::npos) << part << " is not in " << all;
}

TEST(Recompiled, other_sizes_each_time_are_one_warning) {
  auto sizes = [](int64_t first, int64_t last) {
    for (int64_t n = first; n <= last; ++n) (cosh(noise_tensor({n, 3})) - 4).realize();
  };
  EXPECT_EQ(errors_of([&] { sizes(1, 20); }), "");
  std::string warning = errors_of([&] { sizes(21, 60); });
  EXPECT_EQ(count(warning, "heddle warning"), 1u) << warning;
  expect_parts(warning, {"ends in sub f32[21, 3] has been compiled 21 times", "axis 0 of data f32[21, 3]",
                         "from 20 to 21", "with_dim()", "HEDDLE_COMPILE_WARNING=0"});
}

TEST(Recompiled, the_same_again_does_not_count) {
  Tensor x = noise_tensor({5, 3});
  EXPECT_EQ(errors_of([&] {
              for (int i = 0; i < 40; ++i) {
                clear_plan_cache();
                (sinh(x) - 4).realize();
              }
            }),
            "");
}

TEST(Recompiled, numbers_and_symbols_are_no_reason) {
  Tensor x = noise_tensor({100, 3});
  Dim n = dim("n", 1, 100);
  EXPECT_EQ(errors_of([&] {
              for (int64_t i = 0; i < 60; ++i) {
                (tan(x.slice(0, i, i + 7)) * (i + 3)).realize();
                atan(x.slice(0, 0, i + 1).with_dim(0, n)).realize();
              }
            }),
            "");
}

TEST(Recompiled, new_tensors_of_many_sizes_are_no_reason) {
  EXPECT_EQ(errors_of([&] {
              for (int64_t i = 1; i < 40; ++i) {
                zeros({i, 7}).realize();
                randn({i, 7}).realize();
              }
            }),
            "");
}

TEST(Recompiled, what_decides_about_the_program_is_named) {
  Tensor x = noise_tensor({100});
  std::string warning = errors_of([&] {
    for (int64_t i = 1; i < 40; ++i) asinh(sum(window(x, 0, 20, i).slice(0, 0, 1), 1)).realize();
  });
  EXPECT_EQ(count(warning, "heddle warning"), 1u) << warning;
  expect_parts(warning, {"asinh f32[1] has been compiled 21 times"});
}

TEST(Recompiled, a_captured_function_is_named_by_its_place) {
  auto f = jit([](const Tensor& x) { return sum(acosh(x), 0); });
  std::string warning = errors_of([&] {
    for (int64_t n = 1; n < 40; ++n) f(noise_tensor({n, 3}));
  });
  EXPECT_EQ(count(warning, "heddle warning"), 1u) << warning;
  expect_parts(warning, {"the function that jit() captures at", "recompiled_test.cpp", "has been compiled 21 times",
                         "axis 0 of a tensor f32[21, 3] changed from 20 to 21"});
}

}  // namespace
}  // namespace heddle
