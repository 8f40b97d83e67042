#include "compile/fuse/check_program.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/hash.h"
#include "compile/loops/interpret_loops.h"
#include "graph/custom.h"
#include "graph/host_array.h"

namespace heddle {
namespace {

// Sums in another order differ by so much of the largest number that is met: everything is computed in double.
constexpr double kOrder = 1e-9;

int64_t value_of(const Expr& e, const SymbolValues& symbols) {
  return evaluate(e, [&](const Expr& var) {
    for (const auto& [symbol, value] : symbols)
      if (symbol == var) return value;
    std::optional<int64_t> known = known_value(var);
    HD_ASSERT(known, "symbol ", var, " has no value");
    return *known;
  });
}

std::vector<int64_t> sizes_of(const Shape& shape, const SymbolValues& symbols) {
  std::vector<int64_t> sizes;
  for (const Expr& dim : shape) sizes.push_back(value_of(dim, symbols));
  return sizes;
}

// The values of a segment's symbols, as numbers.
SymbolValues values_of(const Program::Step& step, const Program::Segment& segment, const SymbolValues& symbols) {
  SymbolValues values;
  for (size_t i = 0; i < step.loops.symbols.size(); ++i)
    values.emplace_back(step.loops.symbols[i], value_of(segment.symbols[i], symbols));
  return values;
}

double largest(const HostArray& array) {
  double result = 0;
  for (double value : array.floats)
    if (std::isfinite(value)) result = std::max(result, std::fabs(value));
  return result;
}

// What differs, or nothing. `scale`: the largest number among inputs and results.
std::string difference(const HostArray& got, const HostArray& want, double scale) {
  for (size_t i = 0; i < want.integers.size(); ++i)
    if (got.integers[i] != want.integers[i])
      return text("[", i, "] is ", static_cast<int64_t>(got.integers[i]), " and should be ",
                  static_cast<int64_t>(want.integers[i]));
  bool small = compute_dtype(want.dtype) != want.dtype;  // rounded when it is stored
  for (size_t i = 0; i < want.floats.size(); ++i) {
    double a = got.floats[i], b = want.floats[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (small) {
      double rounded = Scalar::of(want.dtype, b).f;
      if (a == rounded || (std::isnan(a) && std::isnan(rounded))) continue;
    }
    double tolerance = kOrder * scale + (small ? std::ldexp(std::fabs(b), 1 - precision(want.dtype)) : 0);
    if (!(std::fabs(a - b) <= tolerance)) return text("[", i, "] is ", a, " and should be ", b);
  }
  return "";
}

HostArray rubbish(DType dtype, std::vector<int64_t> shape) {
  return filled(dtype, std::move(shape), is_float(dtype) ? Scalar::of(dtype, std::nan("")) : Scalar::of(dtype, 0x5b));
}

// Tensors whose parts different segments write, or that are changed in place, each with what has been written so far.
using Contents = std::unordered_map<int, HostArray>;
Contents written_in_parts(const Program& program, const std::vector<HostArray>& want) {
  Contents parts;
  for (size_t t = 0; t < program.tensors.size(); ++t) {
    const Program::Tensor& tensor = program.tensors[t];
    if (!tensor.updated) continue;
    HostArray& before = parts[static_cast<int>(t)] = want[tensor.replaces];
    before.shape = want[t].shape;  // of a leaf with other axes
  }
  std::vector<int> writers(program.tensors.size(), 0);
  for (const Program::Step& step : program.steps)
    for (const Program::Segment& segment : step.segments)
      for (size_t b = 0; b < segment.tensors.size() && !step.direct; ++b)
        if (step.loops.buffers[b].space == kernel::Space::Out && ++writers[segment.tensors[b]] > 1)
          parts.try_emplace(segment.tensors[b]);
  return parts;
}

void check_segment(const Program& program, const Program::Step& step, const Program::Segment& segment,
                   const SymbolValues& symbols, std::vector<HostArray>& want, Contents& parts, bool bad_indices) {
  const Loops& loops = step.loops;
  std::vector<int64_t> numbers;
  for (const auto& [symbol, value] : values_of(step, segment, symbols)) numbers.push_back(value);
  std::vector<HostArray> results(loops.buffers.size());
  std::vector<HostArray*> buffers;
  double scale = 0;
  bool whole_results = true;
  for (size_t b = 0; b < loops.buffers.size(); ++b) {
    const kernel::Buffer& buffer = loops.buffers[b];
    if (b >= segment.tensors.size()) {  // of checks
      results[b] = filled(buffer.dtype, {buffer.size.value()}, Scalar::of(buffer.dtype, 0));
      buffers.push_back(&results[b]);
      continue;
    }
    HostArray& whole = want[segment.tensors[b]];
    scale = std::max(scale, largest(whole));
    if (buffer.space == kernel::Space::Out) results[b] = rubbish(whole.dtype, whole.shape);
    HostArray* result = &results[b];
    if (auto part = parts.find(segment.tensors[b]); part != parts.end() && buffer.space == kernel::Space::Out) {
      whole_results = false;
      if (part->second.shape.empty()) part->second = results[b];
      result = &part->second;
    }
    buffers.push_back(buffer.space == kernel::Space::Out ? result : &whole);
  }
  interpret(loops, buffers, numbers, whole_results);
  for (size_t b = 0; b < loops.buffers.size(); ++b) {
    const std::string& name = loops.buffers[b].name;
    std::string wrong;
    // A packed factor is right if the product that reads it is.
    if (loops.buffers[b].space == kernel::Space::Out && program.tensors[segment.tensors[b]].packed)
      want[segment.tensors[b]] = std::move(results[b]);
    else if (loops.buffers[b].space == kernel::Space::Out && parts.count(segment.tensors[b]) == 0)
      wrong = difference(results[b], want[segment.tensors[b]], scale);
    else if (b >= segment.tensors.size() && !bad_indices)
      for (uint64_t reported : results[b].integers)
        if (reported != 0) wrong = text(" reports the index ", static_cast<int64_t>(reported), ", which is in range");
    HD_ASSERT(wrong.empty(), "fused wrongly: kernel ", loops.name, ", %", name, wrong, "\n", print(loops));
  }
}

std::vector<NodeRef> nodes_of(const Program& program) {
  std::vector<NodeRef> nodes;
  for (const Program::Tensor& tensor : program.tensors) nodes.push_back(NodeRef::share(tensor.node));
  return nodes;
}

double work(const Program& program, std::span<const Node* const> nodes, const SymbolValues& symbols) {
  double total = 0;
  for (const Node* node : nodes) {
    total += static_cast<double>(value_of(node->shape.numel(), symbols));
    if (node->custom) total += node->custom->work;
  }
  auto points = [](const std::vector<Axis>& axes, const SymbolValues& values) {
    double n = 1;
    for (const Axis& axis : axes) n *= static_cast<double>(value_of(axis.extent, values));
    return n;
  };
  for (const Program::Step& step : program.steps)
    for (const Program::Segment& segment : step.segments) {
      if (step.direct) continue;
      SymbolValues values = values_of(step, segment, symbols);
      for (const Stage& stage : step.loops.stages)
        total += points(step.loops.outer, values) * points(stage.inner, values) *
                 static_cast<double>(stage.body.insts.size() + 1);
    }
  return total;
}

HostArray random_array(const Node& node, const SymbolValues& symbols, bool positive, uint64_t& state) {
  HostArray array = rubbish(node.dtype, sizes_of(node.shape, symbols));
  auto uniform = [&] {
    state = hash_combine(state, 1);
    return static_cast<double>(state >> 11) * 0x1p-53;
  };
  for (double& value : array.floats)
    value = Scalar::of(node.dtype, positive ? 0.25 + 2 * uniform() : 4 * uniform() - 2).f;
  // Small ones: they may be indices.
  for (uint64_t& value : array.integers)
    value = static_cast<uint64_t>(uniform() * (node.dtype == DType::boolean ? 2 : 4));
  return array;
}

// Whether a node makes sense for all sizes: a part lies within its tensor, a reshape keeps the number of elements. If
// not, it does for the values that these have.
bool fits_all_sizes(const Node& node) {
  if (node.op == NodeOp::Reshape && !(node.shape.numel() == node.inputs[0]->shape.numel())) return false;
  for (size_t i = 0; i < node.shape.size(); ++i) {
    if (node.op == NodeOp::Shrink &&
        (node.attrs[i].lo() < 0 || !provably_true(le(node.attrs[i] + node.shape[i], node.inputs[0]->shape[i]))))
      return false;
    if (node.op == NodeOp::Pad && (node.attrs[2 * i].lo() < 0 || node.attrs[2 * i + 1].lo() < 0)) return false;
  }
  return true;
}

}  // namespace

void check_program(const Program& program, const SymbolValues& symbols,
                   const std::unordered_map<const Node*, HostArray>& inputs) {
  int64_t bad_indices = 0;
  std::unordered_map<const Node*, HostArray> known = inputs;
  for (const NodeRef& node : program.made) known[node.get()] = rubbish(node->dtype, sizes_of(node->shape, symbols));
  std::vector<HostArray> want = evaluate(nodes_of(program), symbols, known, &bad_indices, Rounding::Never);
  Contents parts = written_in_parts(program, want);
  for (const Program::Step& step : program.steps)
    for (const Program::Segment& segment : step.segments)
      if (!step.direct) check_segment(program, step, segment, symbols, want, parts, bad_indices > 0);
  for (const auto& [tensor, result] : parts) {
    const HostArray& whole = want[tensor];
    const std::string wrong = difference(result, whole, largest(whole));
    HD_ASSERT(wrong.empty(), "fused wrongly: what is written part by part, of shape ",
              program.tensors[tensor].node->shape, wrong);
  }
}

bool check_on_random_data(const Program& program) {
  std::vector<NodeRef> roots = nodes_of(program);
  std::vector<const Node*> nodes = topological(roots);
  const bool any_sizes = std::ranges::all_of(nodes, [](const Node* node) { return fits_all_sizes(*node); });
  SymbolValues symbols;
  for (const Node* node : nodes)
    for (const Expr& dim : node->shape)
      for (const Expr& var : variables(dim)) {
        auto known = std::ranges::find_if(symbols, [&](const auto& pair) { return pair.first == var; });
        if (known != symbols.end()) continue;
        int64_t multiple = std::max<int64_t>(var.multiple(), 1);
        std::optional<int64_t> value = known_value(var);
        symbols.emplace_back(var, any_sizes || !value ? std::clamp(3 * multiple, var.lo(), var.hi()) : *value);
      }
  if (work(program, nodes, symbols) > kCheckedWork) return false;
  uint64_t state = 1;
  for (bool positive : {false, true}) {
    std::unordered_map<const Node*, HostArray> inputs;
    for (const Node* node : nodes)
      if (node->op == NodeOp::Buffer || node->op == NodeOp::Input)
        inputs.emplace(node, random_array(*node, symbols, positive, state));
    check_program(program, symbols, inputs);
  }
  return true;
}

}  // namespace heddle
