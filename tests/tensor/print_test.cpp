// Tensors print as NumPy prints them: all texts here are NumPy's.
#include <limits>
#include <sstream>

#include "helpers.h"

namespace heddle {
namespace {

const double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Print, scalars) {
  EXPECT_EQ(to_string(scalar(3)), "3.0");
  EXPECT_EQ(to_string(scalar(0.1)), "0.1");
  EXPECT_EQ(to_string(scalar(-7, kI64)), "-7");
  EXPECT_EQ(to_string(scalar(1, kBool)), "True");
  EXPECT_EQ(to_string(scalar(kNan)), "nan");
  EXPECT_EQ(to_string(scalar(1e-5)), "1e-05");
  EXPECT_EQ(to_string(scalar(123456.789)), "123456.79");
}

TEST(Print, integers_and_bools_are_aligned) {
  EXPECT_EQ(to_string(tensor({1, -2, 30}, kI32)), "[ 1 -2 30]");
  EXPECT_EQ(to_string(tensor({255, 0}, kU8)), "[255   0]");
  EXPECT_EQ(to_string(tensor({1, 0}, kBool)), "[ True False]");
}

TEST(Print, floats_show_the_digits_they_need) {
  EXPECT_EQ(to_string(tensor({1, 2.5, 3})), "[1.  2.5 3. ]");
  EXPECT_EQ(to_string(tensor({-1, 0.5, 2})), "[-1.   0.5  2. ]");
  EXPECT_EQ(to_string(tensor({0})), "[0.]");
  EXPECT_EQ(to_string(tensor({-0.0, 1})), "[-0.  1.]");
  EXPECT_EQ(to_string(tensor({1.0 / 3, 2.0 / 3})), "[0.33333334 0.6666667 ]");
  EXPECT_EQ(to_string(tensor({1.0 / 3, 2.0 / 3}, kF64)), "[0.33333333 0.66666667]");
  EXPECT_EQ(to_string(tensor({1.0 / 3}, kF16)), "[0.3333]");
}

TEST(Print, nan_and_infinity) {
  EXPECT_EQ(to_string(tensor({1, kNan})), "[ 1. nan]");
  EXPECT_EQ(to_string(tensor({1, kNan, -kInf, 2.5})), "[ 1.   nan -inf  2.5]");
  EXPECT_EQ(to_string(tensor({kInf, 1e-10})), "[   inf 1.e-10]");
}

TEST(Print, scientific_where_the_range_is_wide) {
  EXPECT_EQ(to_string(tensor({1e10, 1})), "[1.e+10 1.e+00]");
  EXPECT_EQ(to_string(tensor({1e-5, 1})), "[1.e-05 1.e+00]");
  EXPECT_EQ(to_string(tensor({0.1, 100.25})), "[1.0000e-01 1.0025e+02]");
  EXPECT_EQ(to_string(tensor({123456789})), "[1.2345679e+08]");
  EXPECT_EQ(to_string(tensor({0.001, 1001})), "[1.000e-03 1.001e+03]");
  EXPECT_EQ(to_string(reshape(tensor({-1.5, 2, 3, 1e6}), {2, 2})), "[[-1.5e+00  2.0e+00]\n [ 3.0e+00  1.0e+06]]");
}

TEST(Print, several_axes) {
  EXPECT_EQ(to_string(reshape(tensor({1, 2, 3, 4}), {2, 2})), "[[1. 2.]\n [3. 4.]]");
  EXPECT_EQ(to_string(zeros({2, 2, 2})), "[[[0. 0.]\n  [0. 0.]]\n\n [[0. 0.]\n  [0. 0.]]]");
}

TEST(Print, long_rows_are_broken) {
  EXPECT_EQ(to_string(arange(30)),
            "[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n 24 25 26 27 28 29]");
}

TEST(Print, large_ones_are_elided) {
  EXPECT_EQ(to_string(arange(2000)), "[   0    1    2 ... 1997 1998 1999]");
  std::string row = "[1. 1. 1. ... 1. 1. 1.]";
  EXPECT_EQ(to_string(ones({50, 50})),
            "[" + row + "\n " + row + "\n " + row + "\n ...\n " + row + "\n " + row + "\n " + row + "]");
  EXPECT_EQ(to_string(arange(1200).reshape({2, 2, 300})),
            "[[[   0    1    2 ...  297  298  299]\n  [ 300  301  302 ...  597  598  599]]\n\n"
            " [[ 600  601  602 ...  897  898  899]\n  [ 900  901  902 ... 1197 1198 1199]]]");
}

TEST(Print, empty) {
  EXPECT_EQ(to_string(zeros({0})), "[]");
  EXPECT_EQ(to_string(zeros({0, 3})).substr(0, 2), "[]");
}

TEST(Print, shapes_and_axes) {
  std::ostringstream out;
  out << zeros({2, 3}).shape() << zeros({}).shape() << Axes{0, -1} << Dims(4);
  EXPECT_EQ(out.str(), "[2, 3][][0, -1][4]");
}

TEST(Print, streams_and_graphs) {
  std::ostringstream out;
  out << tensor({1, 2}) * 2;
  EXPECT_EQ(out.str(), "[2. 4.]");
  Tensor x = tensor({1, 2}).realize();
  std::string graph = print_graph({exp(x) + 1});
  EXPECT_NE(graph.find("exp f32[2]"), std::string::npos) << graph;
  EXPECT_NE(graph.find("{1, 2}"), std::string::npos) << graph;
  EXPECT_NE(print_dot({exp(x)}).find("digraph"), std::string::npos);
}

}  // namespace
}  // namespace heddle
