// Mistakes are reported at the call, by the right exception, naming operator, shapes and dtypes.
#include <limits>

#include "helpers.h"

namespace heddle {
namespace {

using namespace testing;

TEST(Errors, mismatched_shapes) {
  expect_error<ShapeError>([] { (void)(zeros({2, 3}) + zeros({2, 4})); }, {"add", "[2, 3]", "[2, 4]"});
  expect_error<ShapeError>([] { maximum(zeros({2}), zeros({3})); }, {"maximum", "[2]", "[3]"});
  expect_error<ShapeError>([] { where(zeros({2}, kBool), zeros({3}), 0); }, {"where", "[2]", "[3]"});
  expect_error<ShapeError>([] { fma(zeros({2}), zeros({2}), zeros({3})); }, {"fma", "[2]", "[3]"});
  expect_error<ShapeError>([] { cat({zeros({2, 3}), zeros({2, 4})}, 0); }, {"cat", "[2, 3]", "[2, 4]"});
  expect_error<ShapeError>([] { cat({zeros({2, 3}), zeros({2})}, 0); }, {"cat", "[2, 3]", "[2]"});
  expect_error<ShapeError>([] { stack({zeros({2}), zeros({3})}); }, {"stack", "[2]", "[3]"});
  expect_error<ShapeError>([] { reshape(zeros({2, 3}), {4, 2}); }, {"reshape", "[2, 3]", "[4, 2]"});
  expect_error<ShapeError>([] { reshape(zeros({2, 3}), {-1, 4}); }, {"reshape", "[2, 3]", "[-1, 4]"});
  expect_error<ShapeError>([] { reshape(zeros({2, 3}), {-1, -1}); }, {"reshape", "-1"});
  expect_error<ShapeError>([] { expand(zeros({2, 3}), {2, 4}); }, {"expand", "[2, 3]", "[2, 4]"});
  expect_error<ShapeError>([] { expand(zeros({2, 3}), {3}); }, {"expand", "[2, 3]", "[3]"});
  expect_error<ShapeError>([] { squeeze(zeros({2, 3}), 0); }, {"squeeze", "[2, 3]"});
  expect_error<ShapeError>([] { pad(zeros({2, 3}), {{1, 1}}); }, {"pad", "[2, 3]"});
  expect_error<ShapeError>([] { permute(zeros({2, 3}), {0}); }, {"permute"});
  expect_error<ShapeError>([] { from_vector(std::vector<float>(5), {2, 3}); }, {"from_vector", "5", "[2, 3]"});
  expect_error<ShapeError>([] { window(zeros({3}), 0, 4); }, {"window", "[3]"});
  expect_error<ShapeError>([] { zeros({2}).assign(zeros({3})); }, {"assign", "[2]", "[3]"});
}

TEST(Errors, bad_axes_and_positions) {
  expect_error<IndexError>([] { sum(zeros({2, 3}), {2}); }, {"sum", "2"});
  expect_error<IndexError>([] { max(zeros({2, 3}), {-3}); }, {"max", "-3"});
  expect_error<IndexError>([] { softmax(zeros({2}), 1); }, {"softmax", "1"});
  expect_error<IndexError>([] { argmax(zeros({2}), 4); }, {"argmax", "4"});
  expect_error<IndexError>([] { transpose(zeros({2})); }, {"transpose"});
  expect_error<IndexError>([] { permute(zeros({2, 3}), {0, 5}); }, {"permute", "5"});
  expect_error<IndexError>([] { flip(zeros({2}), {3}); }, {"flip", "3"});
  expect_error<IndexError>([] { unsqueeze(zeros({2}), 3); }, {"unsqueeze", "3"});
  expect_error<IndexError>([] { cat({zeros({2}), zeros({2})}, 1); }, {"cat", "1"});
  expect_error<IndexError>([] { select(zeros({2, 3}), 0, 2); }, {"select", "2", "[2, 3]"});
  expect_error<IndexError>([] { zeros({2})[-3]; }, {"-3", "[2]"});
  expect_error<IndexError>([] { zeros({2}).size(1); }, {"size", "1"});
  expect_error<IndexError>([] { slice(zeros({2}), 1, 0, 1); }, {"slice", "1"});
  expect_error<IndexError>([] { shrink(zeros({2}), {{0, 3}}); }, {"shrink", "[2]"});
  expect_error<IndexError>([] { scalar(1)[0]; }, {"operator[]"});
  expect_error<ValueError>([] { sum(zeros({2, 3}), {1, -1}); }, {"sum", "twice"});
  expect_error<ValueError>([] { permute(zeros({2, 3}), {0, 0}); }, {"permute", "twice"});
  expect_error<ValueError>([] { cat({}, 0); }, {"cat"});
  expect_error<ValueError>([] { layer_norm(zeros({2}), 2); }, {"layer_norm", "[2]"});
}

TEST(Errors, wrong_dtypes) {
  expect_error<DTypeError>([] { (void)(zeros({2}, kBool) + zeros({2}, kBool)); }, {"add", "bool"});
  expect_error<DTypeError>([] { neg(zeros({2}, kBool)); }, {"neg", "bool"});
  expect_error<DTypeError>([] { (void)(zeros({2}) & zeros({2})); }, {"bitwise_and", "f32"});
  expect_error<DTypeError>([] { (void)(zeros({2}) << 1); }, {"shift_left", "f32"});
  expect_error<DTypeError>([] { (void)~zeros({2}); }, {"bitwise_not", "f32"});
  expect_error<DTypeError>([] { gather(zeros({2}), zeros({2})); }, {"gather", "f32"});
  expect_error<DTypeError>([] { bitcast(zeros({2}), kF64); }, {"bitcast", "f32", "f64"});
  expect_error<DTypeError>([] { fma(zeros({2}, kI32), zeros({2}, kI32), zeros({2}, kI32)); }, {"fma", "i32"});
  expect_error<DTypeError>([] { zeros({2}).assign(zeros({2}, kF64)); }, {"assign", "f32", "f64"});
}

TEST(Errors, item_of_several_elements) {
  expect_error<ShapeError>([] { zeros({2, 3}).item<float>(); }, {"item", "[2, 3]"});
  expect_error<ShapeError>([] { zeros({0}).item<float>(); }, {"item", "[0]"});
}

TEST(Errors, sizes_that_overflow) {
  int64_t large = int64_t{1} << 40;
  expect_error<ShapeError>([&] { zeros({large, large}); }, {"zeros", "1099511627776"});
  expect_error<ShapeError>([] { zeros({INT64_MAX}); }, {"zeros"});
  expect_error<ShapeError>([] { zeros({-1}); }, {"zeros", "-1"});
  expect_error<ShapeError>([&] { (void)(zeros({large, 1}) + zeros({1, large})); }, {"add", "1099511627776"});
  expect_error<ShapeError>([&] { expand(zeros({large, 1}), {large, large}); }, {"expand", "1099511627776"});
  expect_error<ShapeError>([&] { pad(zeros({2}), {{INT64_MAX, 0}}); }, {"pad", "[2]"});
  expect_error<ShapeError>([&] { matmul(zeros({large, 1}), zeros({1, large})); }, {"1099511627776"});
  expect_error<ShapeError>([&] { reshape(zeros({4}), {INT64_MAX, INT64_MAX}); }, {"reshape", "[4]"});
  expect_error<ShapeError>([&] { cast(zeros({int64_t{1} << 62}, kU8), kF64); }, {"cast"});
  expect_error<ShapeError>([&] { stack({zeros({int64_t{1} << 62}, kU8), zeros({int64_t{1} << 62}, kU8)}); },
                           {"4611686018427387904"});
  EXPECT_THROW(arange(0, 1, 0), ValueError);
  EXPECT_THROW(arange(0, 1e30, 1), ValueError);
  EXPECT_THROW(arange(0, std::numeric_limits<double>::quiet_NaN(), 1), ValueError);
}

TEST(Errors, a_failed_allocation_throws_and_the_program_goes_on) {
  Tensor huge = full({int64_t{1} << 44}, 1);  // 64 TiB
  expect_error<OutOfMemory>([&] { huge.realize(); }, {"70368744177664"});
  EXPECT_FALSE(huge.is_realized());
  expect_error<OutOfMemory>([&] { (huge + 1).to_vector<float>(); }, {});
  expect_equal(tensor({1, 2}) + 1, {2, 3});
  EXPECT_EQ(slice(huge, 0, 0, 3).sum().item<float>(), 3);
}

TEST(Errors, a_failed_update_leaves_the_tensor_alone) {
  Tensor x = tensor({1, 2});
  EXPECT_THROW(x += zeros({3}), ShapeError);
  EXPECT_THROW(x.assign(tensor({1, 2}, kF64)), DTypeError);
  expect_equal(x, {1, 2});
}

TEST(Errors, all_are_errors_of_heddle) {
  EXPECT_THROW(zeros({-1}), Error);
  EXPECT_THROW(sum(zeros({1}), {5}), std::runtime_error);
}

TEST(Errors, numbers_that_do_not_fit_the_dtype) {
  expect_error<ValueError>([] { (void)(zeros({2}, kU8) + 300); }, {"add", "300", "u8"});
  expect_error<ValueError>([] { (void)(zeros({2}, kI32) * 3000000000LL); }, {"mul", "i32"});
  expect_error<ValueError>([] { pad(zeros({2}, kU8), {{1, 1}}, -1); }, {"pad", "-1"});
  expect_error<ValueError>([] { pad(zeros({2}, kI32), {{1, 1}}, 2.7); }, {"pad", "2.7"});
  expect_error<ValueError>([] { uniform({2}, 1, 1); }, {"uniform"});
}

}  // namespace
}  // namespace heddle
