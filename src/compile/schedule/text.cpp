// Schedules as text. The fields of strategies say their words themselves; those that are as usual are left out.
#include <sstream>

#include "compile/schedule/schedule.h"
#include "kernel/text_cursor.h"

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

class Parser : kernel::TextCursor {
 public:
  explicit Parser(std::string_view source) : TextCursor(source, "schedule") {}

  Schedule run() {
    Schedule schedule;
    expect_word("block");
    while (std::isdigit(static_cast<unsigned char>(peek()))) schedule.block.push_back(any_integer());
    if (accept_word("threads")) schedule.threads = small();
    if (accept_word("chunk")) schedule.chunks = Chunks{any_integer(), accept_word("parts") ? any_integer() : 1};
    while (accept(';')) schedule.stages.push_back(stage());
    if (peek() != 0) fail("expected ';'");
    return schedule;
  }

 private:
  int small() { return integer<int>(0, 1 << 20); }

  StageSchedule stage() {
    StageSchedule plan;
    if (!strategy(plan.strategy)) fail("expected a strategy");
    while (peek() != 0 && peek() != ';') {
      if (accept_word("loop")) {
        const int axis = small();
        plan.loops.push_back({axis, any_integer()});
      } else if (accept_word("joined")) {
        plan.joined = true;
      } else if (!std::visit([&](auto& of) { return any_field(of); }, plan.strategy)) {
        fail("expected a word of a stage");
      }
    }
    return plan;
  }
  template <size_t kIndex = 0>
  bool strategy(Strategy& strategy) {
    if constexpr (kIndex < std::variant_size_v<Strategy>) {
      if (!accept_word(std::variant_alternative_t<kIndex, Strategy>::kName))
        return this->strategy<kIndex + 1>(strategy);
      strategy.emplace<kIndex>();
      return true;
    }
    return false;
  }
  template <class T>
  bool any_field(T& of) {
    bool found = false;
    each_field(of, [&](const char* name, auto& value, const auto&) {
      if (found || !accept_word(name)) return;
      found = true;
      field(value);
    });
    return found;
  }
  void field(bool& value) { value = true; }
  void field(int64_t& value) { value = any_integer(); }
  void field(std::optional<Staged>& staged) {
    staged.emplace();
    if (accept_word("block")) {
      staged->scope = Staged::Scope::Block;
      staged->depth = small();
    } else if (!accept_word("phase")) {
      fail("expected 'phase' or 'block'");
    }
    expect_word("panel");
    staged->panel = any_integer();
  }
};

}  // namespace

std::string print(const Schedule& schedule) { return Printer().run(schedule); }

Schedule parse_schedule(std::string_view source) { return Parser(source).run(); }

}  // namespace heddle
