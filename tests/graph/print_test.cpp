#include <gtest/gtest.h>

#include "graph/host_storage.h"

namespace heddle {
namespace {

using namespace heddle::testing;

std::string printed(const NodeRef& x) { return print_graph(std::span(&x, 1)); }

TEST(PrintGraph, one_line_per_node_with_previews) {
  NodeRef x = counting(DType::f32, {2, 4});
  NodeRef y = scalar_node(ScalarOp::mul, {x, number(DType::f32, 2.5, {2, 4})});
  NodeRef roots[] = {reduced(ReduceOp::Sum, y, {1}), y};
  EXPECT_EQ(print_graph(roots),
            "%0 = buffer f32[2, 4] {0, 1, 2, 3, 4, 5, ...}\n"
            "%1 = const f32[2, 4] 2.5\n"
            "%2 = mul f32[2, 4] %0, %1\n"
            "%3 = sum f32[2] %2 axes=[1]\n"
            "return %3, %2\n");
}

TEST(PrintGraph, every_kind_of_node_shows_its_attributes) {
  NodeRef x = counting(DType::f32, {2, 3});
  auto last_line = [](const NodeRef& node) {
    std::string all = printed(node);
    all.resize(all.rfind("return"));
    size_t start = all.rfind('\n', all.size() - 2);
    return all.substr(start == std::string::npos ? 0 : start + 1);
  };
  NodeRef arg = make_arg_reduce(ReduceOp::Max, x, 1);
  EXPECT_EQ(printed(counting(DType::boolean, {2})), "%0 = buffer bool[2] {false, true}\nreturn %0\n");
  EXPECT_EQ(last_line(make_input(2, 5, DType::f16, {3})), "%0 = input f16[3] number=2 function=5\n");
  EXPECT_EQ(last_line(make_iota(DType::i32, {3, 2}, 1)), "%0 = iota i32[3, 2] axis=1\n");
  EXPECT_EQ(last_line(make_cast(x, DType::f64)), "%1 = cast f64[2, 3] %0\n");
  EXPECT_EQ(last_line(make_bitcast(x, DType::i32)), "%1 = bitcast i32[2, 3] %0\n");
  EXPECT_EQ(last_line(arg), "%1 = argmax f32[2] %0 axis=1\n");
  EXPECT_EQ(last_line(make_scan(ReduceOp::Prod, x, 0)), "%1 = cumprod f32[2, 3] %0 axis=0\n");
  EXPECT_EQ(last_line(make_get(arg, 1)), "%2 = get i64[2] %1 result=1\n");
  EXPECT_EQ(last_line(make_reshape(x, {6})), "%1 = reshape f32[6] %0\n");
  EXPECT_EQ(last_line(permuted(x, {1, 0})), "%1 = permute f32[3, 2] %0 axes=[1, 0]\n");
  EXPECT_EQ(last_line(make_expand(counting(DType::f32, {1}), {4})), "%1 = expand f32[4] %0\n");
  EXPECT_EQ(last_line(padded(x, {1, 0}, {0, 2}, -1)), "%1 = pad f32[3, 5] %0 before=[1, 0] after=[0, 2] value=-1\n");
  EXPECT_EQ(last_line(shrunk(x, {0, 1}, {2, 2})), "%1 = shrink f32[2, 2] %0 begin=[0, 1]\n");
  EXPECT_EQ(last_line(flipped(x, {1})), "%1 = flip f32[2, 3] %0 axes=[1]\n");
  EXPECT_EQ(last_line(make_window(x, 1, 2, 1, 1)), "%1 = window f32[2, 2, 2] %0 axis=1 size=2 stride=1 dilation=1\n");
  EXPECT_EQ(last_line(make_unwindow(x, 0, 3, 2, 1, 6)),
            "%1 = unwindow f32[6] %0 axis=0 size=3 stride=2 dilation=1 n=6\n");
  EXPECT_EQ(last_line(joined({x, x}, 0)), "%1 = cat f32[4, 3] %0, %0 axis=0\n");
  EXPECT_EQ(last_line(make_gather(x, counting(DType::i64, {4}), 1)), "%2 = gather f32[2, 4] %0, %1 axis=1\n");
  EXPECT_EQ(last_line(make_barrier(x, x)), "%1 = barrier f32[2, 3] %0, %0\n");
}

TEST(PrintGraph, storage_that_the_host_cannot_read) {
  class Remote : public Storage {
    const void* host_data() const override { return nullptr; }
    uint64_t bytes() const override { return 8; }
  };
  EXPECT_EQ(printed(make_buffer(std::make_shared<Remote>(), DType::f32, {2})),
            "%0 = buffer f32[2] {not readable from the host}\nreturn %0\n");
}

TEST(PrintDot, has_a_box_per_node_and_an_edge_per_operand) {
  NodeRef x = counting(DType::f32, {2});
  NodeRef y = scalar_node(ScalarOp::add, {x, scalar_node(ScalarOp::exp, {x})});
  std::string dot = print_dot(std::span(&y, 1));
  EXPECT_EQ(dot.find("digraph"), 0u);
  for (const char* part : {"n0 [label=\"buffer {0, 1}\\nf32[2]\", style=rounded]", "n1 [label=\"exp\\nf32[2]\"]",
                           "n0 -> n1;", "n0 -> n2;", "n1 -> n2;", "n2 -> result0;"})
    EXPECT_NE(dot.find(part), std::string::npos) << dot << " lacks " << part;
}

}  // namespace
}  // namespace heddle
