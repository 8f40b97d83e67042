// A tour: one expression through every stage of the compiler, and how fast it ends up.
#include <heddle/heddle.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "codegen/codegen.h"
#include "compile/fuse/fuse.h"
#include "compile/lower.h"
#include "compile/schedule/schedule.h"
#include "graph/graph.h"
#include "runtime/device.h"
#include "runtime/plan.h"
#include "tools/machine.h"
#include "tools/measure.h"
#include "tools/reference.h"

namespace hd = heddle;

namespace {

using namespace heddle::tools;
using Lines = std::vector<std::string>;

constexpr int64_t kRows = 16384, kColumns = 4096;
constexpr size_t kWidth = 100;

// ---- paper ----

bool colours() {
  static const bool on = isatty(STDOUT_FILENO) && !std::getenv("NO_COLOR");
  return on;
}

void heading(const std::string& title, const std::string& explanation) {
  static int number = 0;
  std::string line = std::to_string(++number) + ". " + title;
  std::cout << "\n"
            << (colours() ? "\033[1;36m" : "") << line << " " << std::string(kWidth - line.size() - 1, '-')
            << (colours() ? "\033[0m" : "") << "\n"
            << explanation << "\n\n";
}

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Columns that the text takes: bytes that continue a UTF-8 character take none.
size_t columns(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// Long lines go on below, further in; breaks are made at spaces.
void show_line(std::string line) {
  size_t margin =
      4 + std::min<size_t>(line.find_first_not_of(' ') == std::string::npos ? 0 : line.find_first_not_of(' '), 40);
  std::string prefix = "    ";
  while (columns(prefix + line) > kWidth) {
    size_t room = kWidth - prefix.size() - 2;
    size_t cut = line.rfind(' ', room);
    if (cut == std::string::npos || line.find_first_not_of(' ') >= cut) cut = room;
    std::cout << prefix << line.substr(0, cut) << "\n";
    line = line.substr(cut + (line[cut] == ' '));
    prefix = std::string(margin + 4, ' ');
  }
  std::cout << prefix << line << "\n";
}

// Of more than `most` lines, some in the middle are left out.
void show(const Lines& lines, size_t most = 1000) {
  constexpr size_t kTail = 3;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines.size() > most && i == most - kTail - 1) {
      size_t next = lines.size() - kTail;
      std::cout << "    ... " << next - i << " more lines ...\n";
      i = next;
    }
    show_line(lines[i]);
  }
}

// ---- the hot loop ----

// "\tvaddps\t%zmm0, ...  # comment" as "  vaddps         %zmm0, ...".
std::string tidy(const std::string& line) {
  std::string code = line.substr(0, line.find('#'));
  code.erase(code.find_last_not_of(" \t") + 1);
  if (!code.starts_with('\t')) return code;
  code = code.substr(1);
  if (size_t tab = code.find('\t'); tab != std::string::npos)  // operands in one column
    code = code.substr(0, tab) + std::string(tab < 15 ? 15 - tab : 1, ' ') + code.substr(tab + 1);
  return "  " + code;
}

// Of the innermost loops (a label, and a later jump back to it, with no such pair between) the one with most vector
// instructions.
Lines hot_loop(const std::string& assembly) {
  Lines code;
  for (const std::string& line : lines_of(assembly))
    if (std::string bare = tidy(line); !bare.empty() && !bare.starts_with("  .")) code.push_back(bare);
  size_t best_begin = 0, best_end = 0, best_score = 0, after_last_jump = 0;
  for (size_t end = 0; end < code.size(); ++end) {
    if (!code[end].starts_with("  j")) continue;
    std::string label = code[end].substr(code[end].find_last_of(" \t") + 1) + ":";
    auto found = std::find(code.begin() + static_cast<std::ptrdiff_t>(after_last_jump),
                           code.begin() + static_cast<std::ptrdiff_t>(end), label);
    auto begin = static_cast<size_t>(found - code.begin());
    if (begin == end) continue;
    after_last_jump = end;  // a loop that begins before this one is not innermost
    auto score = static_cast<size_t>(
        std::count_if(found, code.begin() + static_cast<std::ptrdiff_t>(end),
                      [](const std::string& line) { return line.find("mm") != std::string::npos; }));
    if (score > best_score) best_begin = begin, best_end = end, best_score = score;
  }
  return {code.begin() + static_cast<std::ptrdiff_t>(best_begin),
          code.begin() + static_cast<std::ptrdiff_t>(std::min(best_end + 1, code.size()))};
}

// ---- the tour ----

hd::Tensor expression(const hd::Tensor& x) { return hd::softmax(hd::tanh(x * 2 + 1), -1); }

void show_compiler(const hd::Tensor& y) {
  heading("Graph",
          "The operators only recorded nodes; equal nodes exist once. This is what y is now. Realised\n"
          "tensors show their first elements.");
  std::vector<hd::NodeRef> roots{y.node()};
  show(lines_of(hd::print_graph(std::span<const hd::NodeRef>(roots))));

  std::vector<hd::NodeRef> simple = hd::simplify(roots);
  hd::Program program = hd::fuse(simple);
  heading("Loops", hd::text("Fusion turned the graph into ", program.steps.size(),
                            program.steps.size() == 1 ? " kernel" : " kernels",
                            ": loop nests over index expressions, before any\ndecision about how to run them."));
  for (const auto& step : program.steps) show(lines_of(hd::print(step.loops)));

  const hd::Target& target = hd::device("cpu").target();
  const hd::Loops& loops = program.steps.back().loops;
  hd::Schedule schedule = hd::default_schedule(loops, target);
  heading("Schedule",
          "Every decision about how to run it, as plain data: the size of a block of the grid, and for each\n"
          "stage the loops around its tile.");
  show(lines_of(hd::print(schedule)));

  hd::kernel::Kernel tiles = hd::tile(loops, schedule, target);
  heading("Tile level",
          "Loops and schedule as a program on tiles. The same text is the starting point for CPUs and GPUs.");
  show(lines_of(hd::kernel::print(tiles)));

  hd::kernel::Kernel threads = hd::lower(tiles, target);
  heading("Thread level", hd::text("Lowered for ", target.name, ": loops over vectors of ", target.vector_bytes,
                                   " bytes, tanh and exp expanded into arithmetic."));
  show(lines_of(hd::kernel::print(threads)), 40);

  heading("Assembly", "What LLVM made of it: the innermost loop with most vector instructions.");
  show(hot_loop(hd::host_assembly(threads, target)), 40);
}

void show_speed(const hd::Tensor& x) {
  hd::Backend& cpu = hd::device("cpu");
  auto bytes = static_cast<uint64_t>(x.numel()) * sizeof(float);
  std::shared_ptr<hd::DeviceBuffer> to = cpu.allocate(bytes);
  const void* from = x.data<float>().data();
  auto samples = take_turns(
      2, 5,
      {[&] { expression(x).realize(); }, [&] { copy_with_memcpy(to->address(), from, bytes, cpu.threads()); },
       [&] { copy_streaming(to->address(), from, bytes, cpu.threads()); }});
  const char* names[] = {"softmax(tanh(x * 2 + 1))", "memcpy", "copy with streaming stores"};
  for (size_t i = 0; i < 3; ++i)
    std::printf("    %-28s %7.1f ms   %6.1f GB/s\n", names[i], samples[i].best() * 1e3,
                2e-9 * static_cast<double>(bytes) / samples[i].best());
  double copy = std::min(samples[1].best(), samples[2].best());
  std::printf("\n    The expression runs at %.2f of the speed of the better copy.\n", copy / samples[0].best());
}

void tour() {
  std::cout << "Heddle " << version() << ", commit " << commit() << "\n"
            << cpu_model() << ", " << hd::device("cpu").threads() << " threads\n";

  heading("C++", "What a user writes. Nothing is computed before somebody looks at a value.");
  show({hd::text("auto x = hd::randn({", kRows, ", ", kColumns, "});"),
        "auto y = hd::softmax(hd::tanh(x * 2 + 1), -1);   // nothing has run yet",
        "std::cout << y << \"\\n\";                          // compiled, run on all cores"});
  hd::manual_seed(1);
  hd::Tensor x = hd::randn({kRows, kColumns}).realize();
  hd::Tensor y = expression(x);
  show_compiler(y);

  hd::run_stats() = {};
  double start = now();
  y.realize();
  double took = now() - start;
  hd::RunStats stats = hd::run_stats();
  heading("Result", hd::text("Compiled and run in ", static_cast<int>(took * 1e3 + 0.5), " ms."));
  show(lines_of(hd::to_string(y)));

  double least = 2.0 * sizeof(float) * kRows * kColumns;
  heading("Launches and bytes", "What the run cost, counted by the executor.");
  std::printf("    launches       %lu\n", static_cast<unsigned long>(stats.launches));
  std::printf("    bytes read     %s\n", bytes_text(stats.bytes_read).c_str());
  std::printf("    bytes written  %s\n", bytes_text(stats.bytes_written).c_str());
  std::printf("    together       %.2f x (input + output)\n",
              static_cast<double>(stats.bytes_read + stats.bytes_written) / least);
  std::fflush(stdout);

  heading("Speed", hd::text("Against a copy of the same bytes (", bytes_text(static_cast<uint64_t>(least) / 2),
                            " in, as many out), best of many turns, ", hd::device("cpu").threads(), " threads."));
  show_speed(x);
}

}  // namespace

int main() {
  try {
    tour();
    return 0;
  } catch (const std::exception& error) {
    std::cout.flush();
    std::cerr << "heddle_tour: " << error.what() << "\n";
    return 1;
  }
}
