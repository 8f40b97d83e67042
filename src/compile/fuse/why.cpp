#include "compile/fuse/why.h"

#include <set>

#include "base/error.h"
#include "compile/fuse/fuse.h"

namespace heddle {
namespace {

// What is in memory for these could still be written by the kernel that reads it.
bool could_be_one(Reason stored) {
  return stored == Reason::None || stored == Reason::CallerWants || stored == Reason::SeveralCompute ||
         stored == Reason::WouldRepeat || stored == Reason::ReadElsewhere;
}

std::string words(const Boundary& boundary) {
  if (!boundary.stored) return words(boundary.apart);
  std::string all = words(boundary.stored);
  if (boundary.apart && could_be_one(boundary.stored.reason)) all += "; " + words(boundary.apart);
  return all;
}

}  // namespace

std::string words(const Why& why) {
  const auto count = static_cast<int64_t>(why.count);
  switch (why.reason) {
    case Reason::None: return "nobody asked whether they could be one";
    case Reason::CallerWants: return "the caller wants it";
    case Reason::SeveralCompute: return text(count, " kernels would compute it again");
    case Reason::WouldRepeat: return text("the reader would compute each element ", count, " times");
    case Reason::ReadElsewhere: return "the reader needs it elsewhere than where it would compute it";
    case Reason::KernelFull: return "the reader's kernel is as long as one may be";
    case Reason::LongJoin: return "a join of many parts is written part by part";
    case Reason::InPlace: return "it is needed before memory is changed in place";
    case Reason::Scatter: return "a scatter is a kernel of its own";
    case Reason::TakesNoReduction: return "scatters and parts of long joins take in no reduction";
    case Reason::Sort: return "sorts, loops, conditions and kernels that somebody wrote read memory and write memory";
    case Reason::Barrier: return "a barrier lets others wait for it";
    case Reason::Scan: return "the reader does not walk its scanned axis once, in order";
    case Reason::OutsideNest: return "the nested sum that reads it does not compute it on the way";
    case Reason::NestWrites: return "a nested sum that computes it has written it";
    case Reason::ReducedElsewhere: return "several kernels read the nested sum, and one of them reduces it";
    case Reason::SeveralRead: return text(count, " kernels read it");
    case Reason::WaitedFor: return "others wait for it: it may not wait for them";
    case Reason::NeedEachOther: return "one of the kernels needs what the other writes";
    case Reason::OtherPlaces: return "the reader needs all of a row that is still being reduced";
    case Reason::OtherExtent: return "the reader sees a part of it, or more than all";
    case Reason::WalkedAcross:
      return text("the reader looks at each element ", count, " times, in another order than that of memory");
    case Reason::OtherOrder: return "its readers walk it in different orders";
    case Reason::OtherLoops: return "the reader's outer loops are not its own";
    case Reason::OtherDirection: return "one of them runs backwards";
    case Reason::ReducedAfterScan: return "what it scans is reduced by the kernel that reads it";
    case Reason::SumsCannotFollow: return "the reductions that it needs cannot follow it into the reader's loops";
    case Reason::FewRows: return text(count, count == 1 ? " row is" : " rows are", " too few for all cores");
    case Reason::NestTooLarge: return "both nested sums together do not fit the machine";
    case Reason::ProductAlone: return "a product is computed in blocks, as the only sum of its kernel";
  }
  __builtin_unreachable();
}

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
        const Program::Tensor& tensor = program.tensors[static_cast<size_t>(segment.tensors[b])];
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
