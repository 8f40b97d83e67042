#include "core/shape.h"

#include <gtest/gtest.h>

#include <heddle/error.h>

namespace heddle {
namespace {

template <class Exception, class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const Exception& e) {
    return e.what();
  }
  return "nothing thrown";
}

TEST(Shape, numel_and_strides) {
  Shape shape{2, 3, 4};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_TRUE(shape.is_static());
  EXPECT_EQ(shape.static_numel(), 24);
  EXPECT_EQ(shape.numel(), Expr(24));
  EXPECT_EQ(shape.strides(), (SmallVector<Expr, 4>{12, 4, 1}));
  EXPECT_EQ(Shape{}.static_numel(), 1);
  EXPECT_TRUE(Shape{}.strides().empty());
  EXPECT_EQ(to_string(shape), "[2, 3, 4]");
  EXPECT_EQ(to_string(Shape{}), "[]");
}

TEST(Shape, symbolic_dimensions_stay_expressions) {
  Expr n = Expr::symbol("n", 1, 100);
  Shape shape{n, 4};
  EXPECT_FALSE(shape.is_static());
  EXPECT_EQ(shape.numel(), n * 4);
  EXPECT_EQ(shape.strides()[0], Expr(4));
  EXPECT_THROW(shape.static_numel(), InternalError);
}

TEST(Shape, axes_count_from_either_end) {
  EXPECT_EQ(normalize_axis("sum", -1, 3), 2);
  EXPECT_EQ(normalize_axis("sum", 2, 3), 2);
  EXPECT_NE(message_of<IndexError>([] { normalize_axis("sum", 3, 3); }).find("sum"), std::string::npos);
  EXPECT_THROW(normalize_axis("sum", -4, 3), IndexError);
  EXPECT_THROW(normalize_axis("sum", 0, 0), IndexError);
}

TEST(Shape, broadcasting_follows_numpy) {
  Expr n = Expr::symbol("n", 1, 100);
  EXPECT_EQ(broadcast_shapes("add", {2, 1, 4}, {3, 1}), (Shape{2, 3, 4}));
  EXPECT_EQ(broadcast_shapes("add", {}, {3, 1}), (Shape{3, 1}));
  EXPECT_EQ(broadcast_shapes("add", {0, 1}, {1, 5}), (Shape{0, 5}));
  EXPECT_EQ(broadcast_shapes("add", {n, 1}, {n, 5}), (Shape{n, 5}));
  EXPECT_EQ(broadcast_shapes("add", {1}, {n}), (Shape{n}));
}

TEST(Shape, broadcast_errors_name_op_and_shapes) {
  std::string message = message_of<ShapeError>([] { broadcast_shapes("add", {2, 3}, {2, 4}); });
  for (const char* part : {"add", "[2, 3]", "[2, 4]"}) EXPECT_NE(message.find(part), std::string::npos) << message;
  Expr n = Expr::symbol("n", 1, 100), m = Expr::symbol("m", 1, 100);
  EXPECT_THROW(broadcast_shapes("add", {n}, {m}), ShapeError);
  EXPECT_THROW(broadcast_shapes("add", {0}, {2}), ShapeError);
}

TEST(Shape, check_refuses_negative_and_huge) {
  EXPECT_NO_THROW(check_shape("zeros", {2, 3}, kF32));
  EXPECT_THROW(check_shape("zeros", {2, -3}, kF32), ShapeError);
  EXPECT_THROW(check_shape("zeros", {0, -3}, kF32), ShapeError);
  EXPECT_NO_THROW(check_shape("zeros", {int64_t{1} << 40, 1 << 20}, kF32));
  EXPECT_THROW(check_shape("zeros", {int64_t{1} << 40, 1 << 23}, kF32), ShapeError);
  EXPECT_NO_THROW(check_shape("zeros", {int64_t{1} << 40, 1 << 23, 0}, kF32));
}

}  // namespace
}  // namespace heddle
