// What the builders refuse, and how they say it.
#include <gtest/gtest.h>
#include <heddle/error.h>

#include "graph/host_storage.h"

namespace heddle {
namespace {

using namespace heddle::testing;

template <class Exception, class F>
void expect_error(F f, std::initializer_list<const char*> parts) {
  try {
    f();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Exception& error) {
    for (const char* part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what() << " lacks " << part;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception: " << error.what();
  }
}

class BuilderErrors : public ::testing::Test {
 protected:
  NodeRef x = counting(DType::f32, {2, 3});
  NodeRef i = counting(DType::i32, {2, 3});
  NodeRef flag = counting(DType::boolean, {2, 3});
  size_t before = live_nodes();
  void TearDown() override { EXPECT_EQ(live_nodes(), before) << "an error leaked nodes"; }
};

TEST_F(BuilderErrors, leaves) {
  expect_error<ShapeError>([] { number(DType::f32, 1, {2, -3}); }, {"const", "[2, -3]"});
  expect_error<ShapeError>([] { number(DType::f32, 1, {int64_t{1} << 40, int64_t{1} << 40}); }, {"const"});
  expect_error<ValueError>([] { make_buffer(nullptr, DType::f32, {2}); }, {"buffer", "f32[2]"});
  expect_error<ShapeError>([] { make_buffer(std::make_shared<HostStorage>(4), DType::f32, {2}); },
                           {"buffer", "f32[2]", "8", "4"});
  expect_error<ShapeError>([] { make_input(0, 0, DType::f32, {-1}); }, {"input", "[-1]"});
  expect_error<DTypeError>([] { make_iota(DType::f32, {3}, 0); }, {"iota", "f32", "[3]"});
  expect_error<IndexError>([] { make_iota(DType::i64, {3}, 1); }, {"iota", "1"});
  expect_error<IndexError>([] { make_iota(DType::i64, {}, 0); }, {"iota"});
}

TEST_F(BuilderErrors, elementwise) {
  expect_error<ShapeError>([&] { scalar_node(ScalarOp::add, {x, counting(DType::f32, {3, 2})}); },
                           {"add", "f32[2, 3]", "f32[3, 2]"});
  expect_error<ShapeError>([&] { scalar_node(ScalarOp::add, {x, number(DType::f32, 1)}); }, {"add", "f32[]"});
  expect_error<DTypeError>([&] { scalar_node(ScalarOp::mul, {x, i}); }, {"mul", "f32[2, 3]", "i32[2, 3]"});
  expect_error<DTypeError>([&] { scalar_node(ScalarOp::exp, {i}); }, {"exp", "i32[2, 3]"});
  expect_error<DTypeError>([&] { scalar_node(ScalarOp::where, {x, x, x}); }, {"where", "f32"});
  expect_error<ValueError>([&] { scalar_node(ScalarOp::add, {x}); }, {"add", "2", "1"});
  expect_error<ValueError>([&] { scalar_node(ScalarOp::add, {x, NodeRef()}); }, {"add", "empty"});
  expect_error<DTypeError>([&] { make_bitcast(x, DType::f64); }, {"bitcast", "f32[2, 3]", "f64"});
  expect_error<DTypeError>([&] { make_bitcast(counting(DType::u8, {2}), DType::boolean); },
                           {"bitcast", "u8[2]", "bool"});
  expect_error<ValueError>([&] { make_cast(make_arg_reduce(ReduceOp::Max, x, 0), DType::f64); }, {"cast", "get"});
}

TEST_F(BuilderErrors, reductions) {
  expect_error<IndexError>([&] { reduced(ReduceOp::Sum, x, {2}); }, {"sum", "2"});
  expect_error<IndexError>([&] { reduced(ReduceOp::Max, x, {-3}); }, {"max", "-3"});
  expect_error<ValueError>([&] { reduced(ReduceOp::Prod, x, {1, -1}); }, {"prod", "axis 1", "[2, 3]"});
  expect_error<DTypeError>([&] { reduced(ReduceOp::Sum, flag, {0}); }, {"sum", "bool[2, 3]"});
  expect_error<ValueError>([&] { make_arg_reduce(ReduceOp::Sum, x, 0); }, {"arg_reduce", "sum"});
  expect_error<IndexError>([&] { make_arg_reduce(ReduceOp::Max, x, 2); }, {"argmax", "2"});
  expect_error<ShapeError>([&] { make_arg_reduce(ReduceOp::Min, counting(DType::f32, {2, 0}), 1); },
                           {"argmin", "f32[2, 0]", "axis 1"});
  expect_error<IndexError>([&] { make_get(x, 1); }, {"get", "buffer", "1"});
  expect_error<IndexError>([&] { make_get(make_arg_reduce(ReduceOp::Max, x, 0), 2); }, {"get", "arg_reduce", "2"});
}

TEST_F(BuilderErrors, movement) {
  expect_error<ShapeError>([&] { make_reshape(x, {4}); }, {"reshape", "f32[2, 3]", "6", "[4]"});
  expect_error<ShapeError>([&] { make_reshape(x, {-2, -3}); }, {"reshape", "[-2, -3]"});
  expect_error<ShapeError>([&] { permuted(x, {0}); }, {"permute", "[0]", "[2, 3]"});
  expect_error<ValueError>([&] { permuted(x, {0, 0}); }, {"permute", "[0, 0]", "[2, 3]"});
  expect_error<IndexError>([&] { permuted(x, {0, 2}); }, {"permute", "2"});
  expect_error<ShapeError>([&] { make_expand(x, {4, 3}); }, {"expand", "f32[2, 3]", "[4, 3]"});
  expect_error<ShapeError>([&] { make_expand(x, {1, 2, 3}); }, {"expand", "[1, 2, 3]"});
  expect_error<ShapeError>([&] { make_expand(counting(DType::f32, {1, 1}), {int64_t{1} << 31, int64_t{1} << 32}); },
                           {"expand"});
  expect_error<IndexError>([&] { flipped(x, {2}); }, {"flip", "2"});
  expect_error<ValueError>([&] { flipped(x, {0, 0}); }, {"flip", "[2, 3]"});
  expect_error<ShapeError>([&] { padded(x, {1}, {1}, 0); }, {"pad", "[1]", "f32[2, 3]"});
  expect_error<ValueError>([&] { padded(x, {-1, 0}, {0, 0}, 0); }, {"pad", "[-1, 0]", "f32[2, 3]"});
  expect_error<DTypeError>(
      [&] {
        Expr none[] = {1, 1};
        make_pad(x, none, none, Scalar::of(DType::i32, 7));
      },
      {"pad", "f32[2, 3]", "7", "i32"});
  expect_error<ShapeError>([&] { shrunk(x, {0}, {1}); }, {"shrink", "[0]", "f32[2, 3]"});
  expect_error<IndexError>([&] { shrunk(x, {0, 2}, {2, 2}); }, {"shrink", "axis 1", "f32[2, 3]"});
  expect_error<IndexError>([&] { shrunk(x, {-1, 0}, {1, 1}); }, {"shrink", "-1", "axis 0"});
  expect_error<IndexError>([&] { shrunk(x, {0, 0}, {-1, 1}); }, {"shrink", "-1"});
}

TEST_F(BuilderErrors, windows) {
  expect_error<IndexError>([&] { make_window(x, 2, 1, 1, 1); }, {"window", "2"});
  expect_error<ValueError>([&] { make_window(x, 1, 0, 1, 1); }, {"window", "size 0", "f32[2, 3]"});
  expect_error<ValueError>([&] { make_window(x, 1, 1, 0, 1); }, {"window", "stride 0"});
  expect_error<ValueError>([&] { make_window(x, 1, 1, 1, -1); }, {"window", "dilation -1"});
  expect_error<ShapeError>([&] { make_window(x, 1, 4, 1, 1); }, {"window", "4", "f32[2, 3]"});
  expect_error<ShapeError>([&] { make_window(x, 1, 2, 1, 3); }, {"window", "dilation 3"});
  expect_error<ShapeError>([&] { make_window(counting(DType::f32, {0}), 0, 1, 1, 2); }, {"window", "f32[0]"});
  expect_error<ShapeError>([&] { make_unwindow(counting(DType::f32, {3}), 0, 1, 1, 1, 3); }, {"unwindow", "f32[3]"});
  expect_error<ShapeError>([&] { make_unwindow(x, 0, 3, 1, 1, 5); }, {"unwindow", "f32[2, 3]", "5"});
  expect_error<ShapeError>([&] { make_unwindow(x, 0, 2, 1, 1, 3); }, {"unwindow", "f32[2, 3]"});
  expect_error<DTypeError>([&] { make_unwindow(flag, 0, 3, 1, 1, 4); }, {"unwindow", "bool"});
}

TEST_F(BuilderErrors, cat_gather_barrier) {
  expect_error<ValueError>([&] { make_cat({}, 0); }, {"cat"});
  expect_error<IndexError>([&] { joined({x, x}, 2); }, {"cat", "2"});
  expect_error<DTypeError>([&] { joined({x, i}, 0); }, {"cat", "f32[2, 3]", "i32[2, 3]"});
  expect_error<ShapeError>([&] { joined({x, counting(DType::f32, {2, 4})}, 0); }, {"cat", "f32[2, 3]", "f32[2, 4]"});
  expect_error<ShapeError>([&] { joined({x, counting(DType::f32, {6})}, 0); }, {"cat", "f32[6]"});
  expect_error<DTypeError>([&] { make_gather(x, x, 0); }, {"gather", "f32[2, 3]"});
  expect_error<DTypeError>([&] { make_gather(x, flag, 0); }, {"gather", "bool"});
  expect_error<IndexError>([&] { make_gather(x, i, 2); }, {"gather", "2"});
  expect_error<IndexError>([&] { make_gather(counting(DType::f32, {0, 2}), i, 0); }, {"gather", "f32[0, 2]", "i32"});
  expect_error<ValueError>([&] { make_barrier(x, NodeRef()); }, {"barrier", "empty"});
}

TEST(EvaluateErrors, missing_values) {
  Expr n = Expr::symbol("n", 1, 8);
  NodeRef x = make_input(0, 0, DType::f32, {n});
  expect_error<ValueError>([&] { evaluate_one(x); }, {"evaluate", "input 0", "f32[n]"});
  NodeRef c = number(DType::f32, 1, {n});
  expect_error<ValueError>([&] { evaluate_one(c); }, {"evaluate", "symbol n"});
  expect_error<ValueError>([&] { evaluate(std::span(&c, 1), {{n, 9}}); }, {"symbol n", "9"});
  HostArray wrong{DType::f64, {2}, {1, 2}, {}};
  expect_error<DTypeError>([&] { evaluate(std::span(&x, 1), {{n, 2}}, {{x.get(), wrong}}); }, {"f64", "f32"});
  wrong.dtype = DType::f32;
  expect_error<ShapeError>([&] { evaluate(std::span(&x, 1), {{n, 3}}, {{x.get(), wrong}}); }, {"f32[n]"});
}

}  // namespace
}  // namespace heddle
