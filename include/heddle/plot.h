// Curves in files that a browser shows.
#pragma once

#include <string>
#include <vector>

namespace heddle {

struct Series {
  std::string name;
  std::vector<double> y;
  std::vector<double> x = {};  // 0, 1, 2, ... if there are none
};

struct CurveOptions {
  std::string title, x_label = "step", y_label = "loss";
  bool log_scale = false;  // of the y axis; numbers that are not positive are left out
  double smoothing =
      0;  // in [0, 1): weight of the past in a moving average; the numbers themselves stay as a faint line
  int width = 720, height = 440;
};

// Writes series of numbers as lines into an SVG file, whole or not at all. NaN and infinity leave gaps.
//   write_loss_curve("/tmp/heddle_example.svg", {{"train", {3, 2, 1.5}}}, {.log_scale = true});
void write_loss_curve(const std::string& path, const std::vector<Series>& series, const CurveOptions& options = {});

}  // namespace heddle
