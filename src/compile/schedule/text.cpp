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

void print_value(std::ostream&, bool) {}
void print_value(std::ostream& out, int64_t value) { out << " " << value; }
void print_value(std::ostream& out, const std::optional<Staged>& staged) {
  if (staged->scope == Staged::Scope::Phase)
    out << " phase";
  else
    out << " block " << staged->depth;
  out << " panel " << staged->panel;
}

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

std::string print(const Schedule& schedule) {
  std::ostringstream out;
  out << "block";
  for (int64_t size : schedule.block) out << " " << size;
  if (schedule.threads != 1) out << " threads " << schedule.threads;
  if (schedule.chunks) out << " chunk " << schedule.chunks->size;
  if (schedule.chunks && schedule.chunks->parts != 1) out << " parts " << schedule.chunks->parts;
  for (StageSchedule plan : schedule.stages) {
    out << "; ";
    std::visit(
        [&](auto& of) {
          out << of.kName;
          each_field(of, [&](const char* name, const auto& value, const auto& usual) {
            if (value == usual) return;
            out << " " << name;
            print_value(out, value);
          });
        },
        plan.strategy);
    for (const Level& level : plan.loops) out << " loop " << level.axis << " " << level.step;
    if (plan.joined) out << " joined";
  }
  return out.str();
}

Schedule parse_schedule(std::string_view source) { return Parser(source).run(); }

}  // namespace heddle
