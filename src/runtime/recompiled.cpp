#include "runtime/recompiled.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "base/config.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/log.h"

namespace heddle {

const char* operator_name(const Node& node) {
  switch (node.op) {
    case NodeOp::Buffer: return "data";
    case NodeOp::Input: return "a tensor";
    case NodeOp::Scalar: return info(node.scalar_op).name;
    case NodeOp::Reduce: return name(node.reduce_op);
    case NodeOp::ArgReduce: return node.reduce_op == ReduceOp::Max ? "argmax" : "argmin";
    case NodeOp::Scan:
      switch (node.reduce_op) {
        case ReduceOp::Sum: return "cumsum";
        case ReduceOp::Prod: return "cumprod";
        case ReduceOp::Max: return "cummax";
        case ReduceOp::Min: return "cummin";
      }
      break;
    default: break;
  }
  return name(node.op);
}

namespace {

// Places that are remembered, and values of one graph: what is larger is not looked at.
constexpr size_t kMostPlaces = 256, kMostValues = 4096;

enum class What { Size, Attribute, Literal };

// Calls f(node, what, which, value) for every number of a graph. Sizes that are symbols count as one value.
template <class F>
void each_value(const GraphKey& key, F f) {
  auto value = [](const Expr& e) { return e.is_const() ? e.value() : -1; };
  for (const Node* node : key.nodes) {
    for (size_t i = 0; i < node->shape.size(); ++i) f(*node, What::Size, i, value(node->shape[i]));
    if (node->op == NodeOp::Input) continue;  // its attributes say which one it is
    for (size_t i = 0; i < node->attrs.size(); ++i) f(*node, What::Attribute, i, value(node->attrs[i]));
    if (node->op == NodeOp::Const || node->op == NodeOp::Pad)
      f(*node, What::Literal, 0, static_cast<int64_t>(node->literal.bits()));
  }
}

// Equal for graphs of the same operators on tensors of the same ranks.
uint64_t structure_of(const GraphKey& key) {
  uint64_t h = hash_combine(key.nodes.size(), key.outputs);
  for (const Node* node : key.nodes) {
    h = hash_combine(h, static_cast<uint64_t>(node->op) | static_cast<uint64_t>(node->dtype) << 8 |
                            node->shape.size() << 16 | node->attrs.size() << 32);
    for (const char* c = operator_name(*node); *c; ++c) h = hash_combine(h, static_cast<uint64_t>(*c));
    for (const NodeRef& input : node->inputs) h = hash_combine(h, key.number(input.get()));
  }
  return h;
}

// Whether tensors are made of nothing, or of the words that random numbers come from: a program makes many of different
// sizes when it begins.
bool creates(const GraphKey& key) {
  return std::all_of(key.leaves.begin(), key.leaves.end(), [](const Node* leaf) {
    return leaf->dtype == kU32 && leaf->shape.size() == 1 && leaf->shape[0].is_const(4);
  });
}

std::string operators_text(const GraphKey& key) {
  const size_t count = key.nodes.size() - key.leaves.size();
  return text(count, count == 1 ? " operator" : " operators");
}

std::string node_text(const Node& node) { return text(operator_name(node), " ", node.dtype, node.shape); }

// A size if one changed, of these the one that changed most often, and of several one of what the graph reads: all
// others follow. Else another number; many of these are arguments of the plan by now, so they come last.
struct Culprit {
  std::string what, before, now;
};
Culprit find_culprit(const GraphKey& key, const CompiledPlace& place, std::span<const int64_t> before) {
  Culprit result;
  uint32_t most = 0;
  int found = 3;
  size_t i = 0;
  each_value(key, [&](const Node& node, What what, size_t which, int64_t now) {
    const uint32_t changes = place.changes[i];
    const int64_t was = before[i++];
    const int kind = static_cast<int>(what);
    if (was == now || kind > found || (kind == found && changes < most)) return;
    most = changes;
    found = kind;
    switch (what) {
      case What::Size: result.what = text("axis ", which, " of ", node_text(node)); break;
      case What::Attribute: result.what = text("number ", which, " of ", node_text(node)); break;
      case What::Literal: result.what = text("the number in ", node_text(node)); break;
    }
    auto shown = [&](int64_t value) {
      return what == What::Literal ? text(Scalar::from_bits(node.literal.dtype, static_cast<uint64_t>(value)))
                                   : text(value);
    };
    result.before = shown(was);
    result.now = shown(now);
  });
  return result;
}

std::string advice(const GraphKey& key, const CompiledPlace& place, std::span<const int64_t> before) {
  if (before.size() != place.values.size() || before.empty()) return text("The last time it had ", operators_text(key));
  const Culprit culprit = find_culprit(key, place, before);
  return text("The last time ", culprit.what, " changed from ", culprit.before, " to ", culprit.now);
}

// Returns the warning, where it is time for one.
std::string note(const GraphKey& key, CompiledPlace& place, uint64_t most) {
  std::vector<int64_t> values;
  if (key.nodes.size() <= kMostValues)
    each_value(key, [&](const Node&, What, size_t, int64_t value) { values.push_back(value); });
  if (place.times > 0 && !values.empty() && values == place.values) return "";
  if (values.size() != place.values.size())
    place.changes.assign(values.size(), 0);
  else
    for (size_t i = 0; i < values.size(); ++i) place.changes[i] += values[i] != place.values[i];
  values.swap(place.values);
  if (++place.times <= most || place.warned) return "";
  place.warned = true;
  return text(place.name, " has been compiled ", place.times, " times, for other sizes or numbers each time. ",
              advice(key, place, values),
              ". A size that changes can be named (dim(), with_dim()); one plan then serves all of its values. ",
              "HEDDLE_COMPILE_WARNING=0 turns this warning off");
}

struct Places {
  Mutex lock;
  std::unordered_map<uint64_t, CompiledPlace> of_structure;
};
Places& places() {
  static Places* instance = new Places;  // never destroyed: graphs may run until the end
  return *instance;
}
[[maybe_unused]] const Places* places_made_at_start = &places();

}  // namespace

void note_plan(const GraphKey& key, CompiledPlace& place) {
  const int most = config().compile_warning;
  if (most == 0) return;
  if (std::string warning = note(key, place, static_cast<uint64_t>(most)); !warning.empty()) warn(warning);
}

void note_plan(const GraphKey& key) {
  const int most = config().compile_warning;
  if (most == 0 || key.nodes.size() > kMostValues || creates(key)) return;
  const uint64_t structure = structure_of(key);
  std::string warning;
  {
    std::lock_guard guard(places().lock);
    auto& all = places().of_structure;
    if (all.size() >= kMostPlaces && !all.contains(structure)) all.clear();
    CompiledPlace& place = all[structure];
    place.name = text("a graph of ", operators_text(key), " that ends in ", node_text(*key.nodes[0]));
    warning = note(key, place, static_cast<uint64_t>(most));
  }
  if (!warning.empty()) warn(warning);
}

}  // namespace heddle
