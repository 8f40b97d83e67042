// Schedules as text. The fields of strategies say their words themselves; those that are as usual are left out.
#include <charconv>
#include <sstream>

#include "compile/schedule/schedule.h"

namespace heddle {
namespace {

template <class T, class F>
void each_field(T& strategy, F&& f) {
  std::apply([&](auto... field) { (f(field.first, strategy.*field.second, T().*field.second), ...); }, T::fields());
}

class Printer {
 public:
  std::string run(const Schedule& schedule) {
    out_ << "block";
    for (int64_t size : schedule.block) out_ << " " << size;
    if (schedule.threads != 1) out_ << " threads " << schedule.threads;
    if (schedule.chunks) out_ << " chunk " << schedule.chunks->size;
    if (schedule.chunks && schedule.chunks->parts != 1) out_ << " parts " << schedule.chunks->parts;
    for (StageSchedule plan : schedule.stages) {
      out_ << "; ";
      std::visit(
          [&](auto& of) {
            out_ << of.kName;
            each_field(of, [&](const char* name, const auto& value, const auto& usual) {
              if (value != usual) field(name, value);
            });
          },
          plan.strategy);
      for (const Level& level : plan.loops) out_ << " loop " << level.axis << " " << level.step;
      if (plan.joined) out_ << " joined";
    }
    return out_.str();
  }

 private:
  void field(const char* name, bool) { out_ << " " << name; }
  void field(const char* name, int64_t value) { out_ << " " << name << " " << value; }
  void field(const char* name, const std::optional<Staged>& staged) {
    out_ << " " << name;
    if (staged->scope == Staged::Scope::Phase)
      out_ << " phase";
    else
      out_ << " block " << staged->depth;
    out_ << " panel " << staged->panel;
  }

  std::ostringstream out_;
};

class Parser {
 public:
  explicit Parser(std::string_view source) {
    std::string spaced;
    for (char c : source) spaced += c == ';' ? std::string(" ; ") : std::string(1, c);
    std::istringstream in(spaced);
    for (std::string word; in >> word;) words_.push_back(word);
  }

  Schedule run() {
    Schedule schedule;
    expect("block");
    while (at_ < words_.size() && is_number()) schedule.block.push_back(number());
    if (accept("threads")) schedule.threads = small();
    if (accept("chunk")) schedule.chunks = Chunks{number(), accept("parts") ? number() : 1};
    while (accept(";")) schedule.stages.push_back(stage());
    if (at_ != words_.size()) fail("';'");
    return schedule;
  }

 private:
  [[noreturn]] void fail(const std::string& expected) {
    throw ParseError(text("schedule: expected ", expected,
                          at_ < words_.size() ? text(", found '", words_[at_], "'") : ", found the end"));
  }
  bool accept(std::string_view word) { return at_ < words_.size() && words_[at_] == word && ++at_; }
  void expect(const std::string& word) {
    if (!accept(word)) fail("'" + word + "'");
  }
  bool is_number() const { return words_[at_].find_first_not_of("-0123456789") == std::string::npos; }
  int64_t number() {
    int64_t value = 0;
    if (at_ == words_.size()) fail("a number");
    const std::string& word = words_[at_];
    auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (status != std::errc() || end != word.data() + word.size()) fail("a number");
    ++at_;
    return value;
  }
  int small() {
    const int64_t value = number();
    if (value < 0 || value > 1 << 20) {
      --at_;
      fail("a number from 0 to 1048576");
    }
    return static_cast<int>(value);
  }

  StageSchedule stage() {
    StageSchedule plan;
    if (!strategy(plan.strategy)) fail("a strategy");
    while (at_ < words_.size() && words_[at_] != ";") {
      if (accept("loop")) {
        const int axis = small();
        plan.loops.push_back({axis, number()});
      } else if (accept("joined")) {
        plan.joined = true;
      } else if (!std::visit([&](auto& of) { return any_field(of); }, plan.strategy)) {
        fail("a word of a stage");
      }
    }
    return plan;
  }
  template <size_t kIndex = 0>
  bool strategy(Strategy& strategy) {
    if constexpr (kIndex < std::variant_size_v<Strategy>) {
      if (!accept(std::variant_alternative_t<kIndex, Strategy>::kName)) return this->strategy<kIndex + 1>(strategy);
      strategy.emplace<kIndex>();
      return true;
    }
    return false;
  }
  template <class T>
  bool any_field(T& of) {
    bool found = false;
    each_field(of, [&](const char* name, auto& value, const auto&) {
      if (found || !accept(name)) return;
      found = true;
      field(value);
    });
    return found;
  }
  void field(bool& value) { value = true; }
  void field(int64_t& value) { value = number(); }
  void field(std::optional<Staged>& staged) {
    staged.emplace();
    if (accept("block")) {
      staged->scope = Staged::Scope::Block;
      staged->depth = small();
    } else if (!accept("phase")) {
      fail("'phase' or 'block'");
    }
    expect("panel");
    staged->panel = number();
  }

  std::vector<std::string> words_;
  size_t at_ = 0;
};

}  // namespace

std::string print(const Schedule& schedule) { return Printer().run(schedule); }

Schedule parse_schedule(std::string_view source) { return Parser(source).run(); }

}  // namespace heddle
