#include "compile/fuse/why.h"

#include <set>

#include "base/error.h"
#include "compile/fuse/fuse.h"

namespace heddle {
namespace {

std::string words(const Why& why) {
  std::string all = why ? why.reason : "nobody asked whether they could be one";
  if (const size_t at = all.find('%'); at != std::string::npos)
    all.replace(at, 1, std::to_string(static_cast<int64_t>(why.count)));
  return all;
}

// What is in memory for these could still be written by the kernel that reads it.
bool could_be_one(std::string_view stored) {
  return stored == Reason::CallerWants || stored == Reason::SeveralCompute || stored == Reason::WouldRepeat ||
         stored == Reason::ReadElsewhere;
}

std::string words(const Boundary& boundary) {
  if (!boundary.stored) return words(boundary.apart);
  std::string all = words(boundary.stored);
  if (boundary.apart && could_be_one(boundary.stored.reason)) all += "; " + words(boundary.apart);
  return all;
}

}  // namespace

std::vector<std::string> remarks(const Program& program, const Boundaries& boundaries,
                                 const std::vector<Siblings>& siblings) {
  auto name = [](const Program::Step& step) -> const std::string& {
    return step.direct ? step.direct->name : step.loops.name;
  };
  std::vector<std::string> lines;
  std::unordered_map<const Node*, size_t> writer;
  std::set<std::pair<size_t, size_t>> pairs;
  std::set<std::string> said;
  auto say = [&](std::string line) {
    if (said.insert(line).second) lines.push_back(std::move(line));
  };
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const Program::Step& step = program.steps[s];
    const auto& buffers = step.direct ? step.direct->buffers : step.loops.buffers;
    for (const Program::Segment& segment : step.segments)
      for (size_t b = 0; b < segment.tensors.size(); ++b) {
        const Program::Tensor& tensor = program.tensors[segment.tensors[b]];
        if (tensor.leaf) continue;
        if (buffers[b].space != kernel::Space::In) {
          writer[tensor.node] = s;
          continue;
        }
        auto from = writer.find(tensor.node);
        if (from == writer.end() || from->second == s) continue;
        pairs.emplace(from->second, s);
        auto boundary = boundaries.find(tensor.node);
        say(text(name(program.steps[from->second]), " -> ", name(step), " (", tensor.node->dtype, tensor.node->shape,
                 "): ",
                 tensor.packed                  ? "laid out as a matrix unit reads it"
                 : boundary == boundaries.end() ? words(Why())
                                                : words(boundary->second)));
      }
  }
  for (const Siblings& two : siblings) {
    auto a = writer.find(two.first), b = writer.find(two.second);
    if (a == writer.end() || b == writer.end() || a->second == b->second) continue;
    if (pairs.count({a->second, b->second}) || pairs.count({b->second, a->second})) continue;
    say(text(name(program.steps[a->second]), " | ", name(program.steps[b->second]), ": ", words(two.why)));
  }
  return lines;
}

}  // namespace heddle
