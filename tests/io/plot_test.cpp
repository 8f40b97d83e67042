// Loss curves as SVG.
#include <heddle/plot.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tensor/helpers.h"

namespace heddle {
namespace {

using namespace testing;

class PlotTest : public ::testing::Test {
 protected:
  ~PlotTest() override { std::filesystem::remove(path); }
  std::string draw(const std::vector<Series>& series, const CurveOptions& options = {}) const {
    write_loss_curve(path, series, options);
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static size_t count(const std::string& all, const std::string& part) {
    size_t n = 0;
    for (size_t at = all.find(part); at != std::string::npos; at = all.find(part, at + 1)) ++n;
    return n;
  }
  std::string path =
      (std::filesystem::temp_directory_path() / ("heddle_plot_" + std::to_string(::getpid()) + ".svg")).string();
};

TEST_F(PlotTest, holds_lines_labels_and_legend) {
  std::string svg = draw({{"train", {3, 2, 1}}, {"test <&>", {2.5, 1.5}, {0, 2}}}, {.title = "Digits"});
  EXPECT_TRUE(svg.starts_with("<svg xmlns"));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  for (const char* part : {">Digits<", ">step<", ">loss<", ">train<", ">test &lt;&amp;&gt;<", ">0.5<", ">1.5<", ">2<"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  EXPECT_EQ(count(svg, "stroke-linecap"), 2u);
  // The first line begins at the left edge, and goes down as the loss does.
  EXPECT_NE(svg.find("d=\"M70 "), std::string::npos);
}

TEST_F(PlotTest, numbers_that_are_none_leave_gaps) {
  std::string svg = draw({{"a", {1, NAN, 2, 3, INFINITY, 4}}});
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  size_t at = svg.find("stroke-linecap"), begin = svg.rfind("<path", at);
  EXPECT_EQ(count(svg.substr(begin, at - begin), "M"), 3u);
  EXPECT_EQ(count(draw({{"nothing", {NAN, NAN}}, {"empty", {}}}), "stroke-linecap"), 0u);
  EXPECT_EQ(count(draw({{"flat", {2, 2}}}), "stroke-linecap"), 1u);
}

TEST_F(PlotTest, a_logarithmic_scale_has_powers_of_ten) {
  std::string svg = draw({{"a", {100, 1, 0.01, 0, -1}}}, {.log_scale = true});
  for (const char* part : {">100<", ">1<", ">0.01<"}) EXPECT_NE(svg.find(part), std::string::npos) << part;
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST_F(PlotTest, smoothing_adds_a_line_and_long_series_stay_small) {
  std::vector<double> many;
  for (int i = 0; i < 100000; ++i) many.push_back(std::sin(i) + 2);
  std::string svg = draw({{"a", many}}, {.smoothing = 0.9});
  EXPECT_EQ(count(svg, "stroke-linecap"), 2u);
  EXPECT_LT(svg.size(), 100000u);
}

TEST_F(PlotTest, mistakes_are_named) {
  expect_error<ValueError>([&] { draw({{"a", {1}, {1, 2}}}); }, {"\"a\"", "2 x and 1 y"});
  expect_error<ValueError>([&] { draw({}, {.smoothing = 1}); }, {"smoothing"});
  draw({});
  std::string below_a_file = path + "/x.svg";
  expect_error<ValueError>([&] { write_loss_curve(below_a_file, {}); }, {below_a_file});
}

}  // namespace
}  // namespace heddle
