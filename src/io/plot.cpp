#include <heddle/plot.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/atomic_file.h"
#include "base/error.h"

namespace heddle {
namespace {

constexpr const char* kColours[] = {"#1f6fb4", "#d9541e", "#2a9d4e", "#8b4fb8", "#b8860b", "#16878c"};
constexpr size_t kMostPoints = 1500;  // of a line; more would not be seen

struct Point {
  double x, y;
};
using Line = std::vector<Point>;

std::string number(double value) {
  char out[64];
  std::snprintf(out, sizeof out, "%.6g", value);
  return out;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (static_cast<unsigned char>(c) < 32)
      out += ' ';
    else
      out += c;
  }
  return out;
}

// What can be drawn: finite, and positive on a logarithmic scale. Gaps are points whose y is NaN.
Line points(const Series& series, bool log_scale) {
  Line line;
  for (size_t i = 0; i < series.y.size(); ++i) {
    double x = series.x.empty() ? static_cast<double>(i) : series.x[i], y = series.y[i];
    bool good = std::isfinite(x) && std::isfinite(y) && (!log_scale || y > 0);
    line.push_back({std::isfinite(x) ? x : 0, good ? (log_scale ? std::log10(y) : y) : NAN});
  }
  return line;
}

// The mean of the past, corrected for its short beginning.
Line smoothed(const Line& line, double weight) {
  Line out;
  double sum = 0, norm = 0;
  for (const Point& p : line) {
    if (!std::isnan(p.y)) {
      sum = sum * weight + p.y * (1 - weight);
      norm = norm * weight + (1 - weight);
    }
    out.push_back({p.x, std::isnan(p.y) ? NAN : sum / norm});
  }
  return out;
}

// The lowest and highest of each of many short pieces.
Line thinned(const Line& line) {
  if (line.size() <= kMostPoints) return line;
  Line out;
  size_t pieces = kMostPoints / 2;
  for (size_t piece = 0; piece < pieces; ++piece) {
    auto begin = line.begin() + static_cast<ptrdiff_t>(piece * line.size() / pieces);
    auto end = line.begin() + static_cast<ptrdiff_t>((piece + 1) * line.size() / pieces);
    auto below = [](const Point& a, const Point& b) { return std::isnan(b.y) ? !std::isnan(a.y) : a.y < b.y; };
    auto above = [](const Point& a, const Point& b) { return std::isnan(b.y) ? !std::isnan(a.y) : a.y > b.y; };
    auto low = std::min_element(begin, end, below), high = std::min_element(begin, end, above);
    out.push_back(*std::min(low, high));
    if (low != high) out.push_back(*std::max(low, high));
  }
  return out;
}

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void add(double v) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
  void finish() {
    if (!(low <= high)) low = 0, high = 1;
    if (low == high) {
      double room = low == 0 ? 1 : std::fabs(low) * 0.1;
      low -= room;
      high += room;
    }
  }
};

// Round numbers in a range: 1, 2 or 5 times a power of ten apart.
std::vector<double> ticks(const Range& range) {
  double rough = (range.high - range.low) / 6, unit = std::pow(10, std::floor(std::log10(rough)));
  double step = rough <= unit ? unit : rough <= 2 * unit ? 2 * unit : rough <= 5 * unit ? 5 * unit : 10 * unit;
  std::vector<double> out;
  for (double i = std::ceil(range.low / step - 1e-9); i * step <= range.high + step * 1e-9; ++i)
    out.push_back(i * step);
  return out;
}

class Drawing {
 public:
  Drawing(const std::vector<Series>& series, const CurveOptions& options) : options_(options) {
    for (const Series& s : series) {
      lines_.push_back(points(s, options.log_scale));
      for (const Point& p : lines_.back())
        if (!std::isnan(p.y)) xs_.add(p.x), ys_.add(p.y);
    }
    xs_.finish();
    ys_.finish();
    double room = (ys_.high - ys_.low) * 0.04;
    ys_.low -= room;
    ys_.high += room;
    right_ = options.width - 20.0;
    bottom_ = options.height - 50.0;
  }

  std::string draw(const std::vector<Series>& series) {
    out_ = text("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", options_.width, "\" height=\"", options_.height,
                "\" viewBox=\"0 0 ", options_.width, " ", options_.height,
                "\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n<rect width=\"100%\" height=\"100%\" "
                "fill=\"white\"/>\n");
    axes();
    for (size_t i = 0; i < lines_.size(); ++i) {
      if (options_.smoothing > 0) {
        curve(lines_[i], colour(i), 0.25);
        curve(smoothed(lines_[i], options_.smoothing), colour(i), 1);
      } else {
        curve(lines_[i], colour(i), 1);
      }
    }
    legend(series);
    return out_ + "</svg>\n";
  }

 private:
  static const char* colour(size_t i) { return kColours[i % std::size(kColours)]; }
  double x_at(double x) const { return kLeft + (x - xs_.low) / (xs_.high - xs_.low) * (right_ - kLeft); }
  double y_at(double y) const { return bottom_ - (y - ys_.low) / (ys_.high - ys_.low) * (bottom_ - kTop); }

  void label(double x, double y, const std::string& what, const char* anchor, const std::string& more = "") {
    out_ += text("<text x=\"", number(x), "\" y=\"", number(y), "\" text-anchor=\"", anchor, "\"", more, ">",
                 escaped(what), "</text>\n");
  }
  void rule(double x1, double y1, double x2, double y2) {
    out_ += text("<path d=\"M", number(x1), " ", number(y1), "L", number(x2), " ", number(y2),
                 "\" stroke=\"#ddd\" fill=\"none\"/>\n");
  }
  void axes() {
    for (double x : ticks(xs_)) {
      rule(x_at(x), kTop, x_at(x), bottom_);
      label(x_at(x), bottom_ + 18, number(x), "middle");
    }
    for (double y : y_ticks()) {
      rule(kLeft, y_at(y), right_, y_at(y));
      label(kLeft - 6, y_at(y) + 4, number(options_.log_scale ? std::pow(10, y) : y), "end");
    }
    out_ += text("<rect x=\"", kLeft, "\" y=\"", kTop, "\" width=\"", number(right_ - kLeft), "\" height=\"",
                 number(bottom_ - kTop), "\" fill=\"none\" stroke=\"#888\"/>\n");
    label((kLeft + right_) / 2, 20, options_.title, "middle", " font-size=\"15\"");
    label((kLeft + right_) / 2, bottom_ + 40, options_.x_label, "middle");
    double middle = (kTop + bottom_) / 2;
    label(16, middle, options_.y_label, "middle", text(" transform=\"rotate(-90 16 ", number(middle), ")\""));
  }
  std::vector<double> y_ticks() const {
    if (!options_.log_scale) return ticks(ys_);
    std::vector<double> out;
    bool few = ys_.high - ys_.low < 2;  // powers of ten alone would say little
    for (double decade = std::floor(ys_.low); decade <= ys_.high; ++decade)
      for (double part : {1.0, 2.0, 5.0}) {
        double y = decade + std::log10(part);
        if (y >= ys_.low && y <= ys_.high && (part == 1 || few)) out.push_back(y);
      }
    return out;
  }
  void curve(const Line& line, const char* colour_name, double opacity) {
    std::string path;
    bool pen_down = false;
    Line thin = thinned(line);
    for (size_t i = 0; i < thin.size(); ++i) {
      if (std::isnan(thin[i].y)) {
        pen_down = false;
        continue;
      }
      path += text(pen_down ? "L" : "M", number(x_at(thin[i].x)), " ", number(y_at(thin[i].y)));
      bool alone = !pen_down && (i + 1 == thin.size() || std::isnan(thin[i + 1].y));
      if (alone) path += "h0.01";  // with round caps a dot
      pen_down = true;
    }
    if (path.empty()) return;
    out_ += text("<path d=\"", path, "\" fill=\"none\" stroke=\"", colour_name, "\" stroke-opacity=\"", opacity,
                 "\" stroke-width=\"1.8\" stroke-linejoin=\"round\" stroke-linecap=\"round\"/>\n");
  }
  void legend(const std::vector<Series>& series) {
    double y = kTop + 18;
    for (size_t i = 0; i < series.size(); ++i, y += 18) {
      if (series[i].name.empty()) continue;
      out_ += text("<path d=\"M", number(right_ - 30), " ", number(y - 4), "h20\" stroke=\"", colour(i),
                   "\" stroke-width=\"3\"/>\n");
      label(right_ - 36, y, series[i].name, "end");
    }
  }

  static constexpr double kLeft = 70, kTop = 32;
  const CurveOptions& options_;
  std::vector<Line> lines_;
  Range xs_, ys_;
  double right_, bottom_;
  std::string out_;
};

}  // namespace

void write_loss_curve(const std::string& path, const std::vector<Series>& series, const CurveOptions& options) {
  if (!(options.smoothing >= 0 && options.smoothing < 1))
    throw ValueError(text("write_loss_curve: a smoothing of ", options.smoothing, "; it must be in [0, 1)"));
  if (options.width < 200 || options.height < 150 || options.width > 20000 || options.height > 20000)
    throw ValueError(text("write_loss_curve: a picture of ", options.width, " x ", options.height));
  for (const Series& s : series)
    if (!s.x.empty() && s.x.size() != s.y.size())
      throw ValueError(text("write_loss_curve: series \"", s.name, "\" has ", s.x.size(), " x and ", s.y.size(), " y"));
  write_file_atomically(path, Drawing(series, options).draw(series));
}

}  // namespace heddle
