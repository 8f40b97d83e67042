#include <heddle/progress.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <utility>
#include <variant>

#include "base/error.h"

namespace heddle {
namespace {

double machine_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// "1:02:03", "02:03".
std::string time_text(double seconds) {
  if (!(seconds < 1e9)) return "?";
  int64_t s = static_cast<int64_t>(std::llround(std::max(seconds, 0.0)));
  char out[64];
  if (s >= 3600)
    std::snprintf(out, sizeof out, "%lld:%02lld:%02lld", static_cast<long long>(s / 3600),
                  static_cast<long long>(s / 60 % 60), static_cast<long long>(s % 60));
  else
    std::snprintf(out, sizeof out, "%02lld:%02lld", static_cast<long long>(s / 60), static_cast<long long>(s % 60));
  return out;
}

std::string number_text(double value) {
  char out[64];
  std::snprintf(out, sizeof out, "%.4g", value);
  return out;
}

std::string rate_text(double rate) {
  if (!std::isfinite(rate) || rate <= 0) return "?/s";
  return rate >= 1 ? number_text(rate) + "/s" : number_text(1 / rate) + " s each";
}

size_t terminal_width(std::FILE* out) {
  winsize size{};
  if (::ioctl(::fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 100;
}

}  // namespace

struct ProgressLine::State {
  ProgressOptions options;
  std::optional<int64_t> total;
  bool terminal = false, finished = false;
  double begin = 0, drawn = 0;
  int64_t done = 0;
  std::vector<std::pair<std::string, std::variant<std::string, double, Tensor>>> shown;
  size_t drawn_width = 0;
  bool changed = true;  // since the line was drawn

  double now() const { return options.clock ? options.clock() : machine_seconds(); }
  void show(const std::string& name, std::variant<std::string, double, Tensor> value) {
    changed = true;
    for (auto& [key, old] : shown)
      if (key == name) return void(old = std::move(value));
    shown.emplace_back(name, std::move(value));
  }
};

ProgressLine::ProgressLine(ProgressOptions options, std::optional<int64_t> total) : state_(new State) {
  state_->options = std::move(options);
  state_->total = total;
  state_->terminal = state_->options.terminal.value_or(::isatty(::fileno(state_->options.out)) == 1);
  state_->begin = state_->drawn = state_->now();
}
ProgressLine::ProgressLine(ProgressLine&&) noexcept = default;
ProgressLine::~ProgressLine() {
  try {
    if (state_) finish();
  } catch (const std::exception&) {  // a tensor to show could not be computed; its own user will hear of it
  }
}

void ProgressLine::set(const std::string& name, const std::string& value) { state_->show(name, value); }
void ProgressLine::set(const std::string& name, double value) { state_->show(name, value); }
void ProgressLine::set(const std::string& name, const Tensor& value) {
  if (value.numel() != 1)
    throw ShapeError(heddle::text("progress: ", name, " has ", value.numel(), " elements, not one"));
  state_->show(name, value);
}

void ProgressLine::advance(int64_t count) {
  State& s = *state_;
  s.done += count;
  s.changed = true;
  if (s.now() - s.drawn >= (s.terminal ? s.options.terminal_interval : s.options.plain_interval)) draw(false);
}

void ProgressLine::finish() {
  if (state_->finished) return;
  state_->finished = true;
  if (state_->terminal || state_->changed) draw(true);  // a terminal's line still has to end
}

std::string ProgressLine::text() const {
  const State& s = *state_;
  double elapsed = s.now() - s.begin;
  double rate = elapsed > 0 ? static_cast<double>(s.done) / elapsed : 0;
  std::string out = s.options.label.empty() ? "" : s.options.label + " ";
  if (s.total) {
    double part = *s.total > 0 ? std::min(1.0, static_cast<double>(s.done) / static_cast<double>(*s.total)) : 1;
    char percent[16];
    std::snprintf(percent, sizeof percent, "%3.0f%% ", std::floor(part * 100 + 1e-9));
    out += percent;
    if (s.terminal) {
      constexpr size_t kWidth = 24;
      size_t filled = static_cast<size_t>(part * kWidth);
      out += "[" + std::string(filled, '=') + std::string(kWidth - filled, ' ') + "] ";
    }
  }
  out += std::to_string(s.done);
  if (s.total) out += "/" + std::to_string(*s.total);
  out += "  " + time_text(elapsed);
  if (s.total && s.done < *s.total)
    out += " < " + (rate > 0 ? time_text(static_cast<double>(*s.total - s.done) / rate) : "?");
  out += "  " + rate_text(rate);
  for (const auto& [name, value] : s.shown) {
    out += "  " + name + " ";
    if (const auto* tensor = std::get_if<Tensor>(&value))
      out += number_text(tensor->item<double>());
    else if (const auto* number = std::get_if<double>(&value))
      out += number_text(*number);
    else
      out += std::get<std::string>(value);
  }
  return out;
}

void ProgressLine::draw(bool last) {
  State& s = *state_;
  std::string line = text();
  if (s.terminal) {
    size_t width = std::max<size_t>(terminal_width(s.options.out), 20) - 1;
    if (line.size() > width) line.resize(width);
    size_t before = std::exchange(s.drawn_width, line.size());
    if (before > line.size()) line.append(before - line.size(), ' ');  // wipes out a longer line
    std::fprintf(s.options.out, "\r%s%s", line.c_str(), last ? "\n" : "");
  } else {
    std::fprintf(s.options.out, "%s\n", line.c_str());
  }
  std::fflush(s.options.out);
  s.drawn = s.now();
  s.changed = false;
}

}  // namespace heddle
