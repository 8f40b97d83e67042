// Progress lines, on a terminal and elsewhere.
#include <heddle/progress.h>

#include <list>

#include "tensor/helpers.h"

namespace heddle {
namespace {

using namespace testing;

// A file to write to, and a clock that the test moves.
class ProgressTest : public ::testing::Test {
 protected:
  ~ProgressTest() override { std::fclose(out); }
  ProgressOptions options(bool terminal) {
    return {.label = "epoch 1", .out = out, .terminal = terminal, .clock = [this] { return now; }};
  }
  std::string written() const {
    std::string all(static_cast<size_t>(std::ftell(out)), '\0');
    std::rewind(out);
    EXPECT_EQ(std::fread(all.data(), 1, all.size(), out), all.size());
    return all;
  }
  std::FILE* out = std::tmpfile();
  double now = 100;
};

TEST_F(ProgressTest, plain_lines_come_every_few_seconds) {
  std::vector<int> seen;
  auto bar = progress(std::vector<int>{5, 6, 7, 8}, options(false));
  for (int v : bar) {
    seen.push_back(v);
    now += 3;
    bar.set("loss", 0.5 / v);
  }
  EXPECT_EQ(seen, (std::vector<int>{5, 6, 7, 8}));
  EXPECT_EQ(written(),
            "epoch 1  50% 2/4  00:06 < 00:06  3 s each  loss 0.08333\n"
            "epoch 1 100% 4/4  00:12  3 s each  loss 0.0625\n");
}

TEST_F(ProgressTest, the_last_plain_line_comes_once_though_time_goes_on) {
  ProgressLine line(options(false), 2);
  for (int i = 0; i < 2; ++i) {
    now += 6;
    line.advance();
  }
  now += 1;
  line.finish();
  std::string all = written();
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 2) << all;
  EXPECT_EQ(all.find("2/2"), all.rfind("2/2"));
}

TEST_F(ProgressTest, what_is_set_last_is_shown) {
  ProgressLine line(options(false), 1);
  now += 6;
  line.advance();
  line.set("loss", 0.25);
  line.finish();
  EXPECT_TRUE(written().ends_with("loss 0.25\n"));
}

TEST_F(ProgressTest, a_terminal_gets_one_line_drawn_over_and_over) {
  auto bar = progress(100, options(true));
  for (int64_t i : bar) {
    now += 0.5;
    bar.set("note", std::string(i < 50 ? "long text" : "x"));
  }
  std::string all = written();
  for (const char* line : {"\repoch 1  50% [============            ] 50/100  00:25 < 00:25  2/s  note long text\r",
                           "\repoch 1  51% [============            ] 51/100  00:26 < 00:25  2/s  note x        \r",
                           "\repoch 1  52% [============            ] 52/100  00:26 < 00:24  2/s  note x\r",
                           "\repoch 1 100% [========================] 100/100  00:50  2/s  note x"})
    EXPECT_NE(all.find(line), std::string::npos) << all;
  EXPECT_TRUE(all.ends_with("\n"));
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 1);
}

TEST_F(ProgressTest, a_loop_that_is_left_early_ends_its_line) {
  {
    auto bar = progress(10, options(true));
    for (int64_t i : bar)
      if (i == 3) break;
  }
  EXPECT_TRUE(written().ends_with("\n"));
}

TEST_F(ProgressTest, structured_bindings_references_and_ranges_without_a_size) {
  std::list<std::pair<int, int>> pairs{{1, 2}, {3, 4}};
  for (auto& [a, b] : progress(pairs, options(false))) b += a;
  EXPECT_EQ(pairs.back().second, 7);
  int count = 0;
  for (int v :
       progress(pairs | std::views::filter([](auto& p) { return p.first > 1; }) | std::views::keys, options(false)))
    count += v;
  EXPECT_EQ(count, 3);
  EXPECT_NE(written().find("epoch 1 1  00:00"), std::string::npos);
}

TEST_F(ProgressTest, tensors_are_looked_at_only_when_the_line_is_drawn) {
  Tensor x = tensor({1, 2}).realize();
  auto bar = progress(3, options(false));
  for ([[maybe_unused]] int64_t i : bar) {
    Tensor loss = x.sum();
    bar.set("loss", loss);
    EXPECT_FALSE(loss.is_realized());
  }
  EXPECT_NE(written().find("loss 3"), std::string::npos);
  auto again = progress(1, options(false));
  for ([[maybe_unused]] int64_t i : again)
    expect_error<ShapeError>([&] { again.set("loss", x); }, {"loss", "2 elements"});
}

TEST_F(ProgressTest, nothing_to_do) {
  for ([[maybe_unused]] int64_t i : progress(0, options(false))) FAIL();
  EXPECT_EQ(written(), "epoch 1 100% 0/0  00:00  ?/s\n");
}

}  // namespace
}  // namespace heddle
