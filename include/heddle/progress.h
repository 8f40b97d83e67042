// A line that says how far a loop is, how fast it goes and when it will end.
#pragma once

#include <heddle/tensor.h>

#include <cstdio>
#include <functional>
#include <iterator>
#include <ranges>

namespace heddle {

struct ProgressOptions {
  std::string label;
  std::optional<int64_t> total;  // if the range does not know its size
  std::FILE* out = stderr;
  std::optional<bool> terminal;    // whether `out` is one; found out if not said
  double terminal_interval = 0.1;  // seconds between two drawings
  double plain_interval = 5;       // between two lines where `out` is no terminal
  std::function<double()> clock;   // seconds; the machine's if none is given
};

// What progress() shows. On a terminal one line is drawn over and over, elsewhere there is a new one every few seconds.
class ProgressLine {
 public:
  ProgressLine(ProgressOptions options, std::optional<int64_t> total);
  ~ProgressLine();
  ProgressLine(ProgressLine&&) noexcept;
  ProgressLine& operator=(ProgressLine&&) = delete;

  void advance(int64_t count = 1);
  // Something to show at the end of the line. A tensor of one element is looked at only when the line is drawn.
  void set(const std::string& name, const std::string& value);
  void set(const std::string& name, double value);
  void set(const std::string& name, const Tensor& value);
  // Draws the line for the last time.
  void finish();
  std::string text() const;

 private:
  struct State;
  void draw(bool last);
  std::unique_ptr<State> state_;
};

// A range that shows how far it has been walked.
template <std::ranges::input_range Range>
class Progress {
 public:
  Progress(Range range, ProgressOptions options) : range_(std::forward<Range>(range)), options_(std::move(options)) {}

  class Iterator {
   public:
    Iterator(std::ranges::iterator_t<Range> at, ProgressLine& line) : at_(std::move(at)), line_(&line) {}
    decltype(auto) operator*() const { return *at_; }
    Iterator& operator++() {
      ++at_;
      line_->advance();
      return *this;
    }
    friend bool operator==(const Iterator& a, const std::ranges::sentinel_t<Range>& end) {
      bool done = a.at_ == end;
      if (done) a.line_->finish();
      return done;
    }

   private:
    std::ranges::iterator_t<Range> at_;
    ProgressLine* line_;
  };
  Iterator begin() {
    std::optional<int64_t> total = options_.total;
    if constexpr (std::ranges::sized_range<Range>)
      if (!total) total = static_cast<int64_t>(std::ranges::size(range_));
    line_.emplace(options_, total);
    return Iterator(std::ranges::begin(range_), *line_);
  }
  auto end() { return std::ranges::end(range_); }

  // While the loop runs: shows a number, a text or a tensor of one element.
  template <class T>
  void set(const std::string& name, const T& value) {
    if (line_) line_->set(name, value);
  }

 private:
  Range range_;
  ProgressOptions options_;
  std::optional<ProgressLine> line_;
};

// `for (auto [x, t] : progress(batches))`, or with a name to show something:
// `auto bar = progress(batches); for (auto [x, t] : bar) bar.set("loss", step(x, t));`
template <std::ranges::input_range Range>
Progress<Range> progress(Range&& range, ProgressOptions options = {}) {
  return Progress<Range>(std::forward<Range>(range), std::move(options));
}
// Counts from 0.
inline auto progress(int64_t count, ProgressOptions options = {}) {
  return progress(std::views::iota(int64_t{0}, std::max<int64_t>(count, 0)), std::move(options));
}

}  // namespace heddle
