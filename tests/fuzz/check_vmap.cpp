// Random graphs for many examples at once, against one example after the other.
#include <cstring>
#include <unordered_map>

#include "fuzz/check.h"
#include "fuzz/transform.h"
#include "graph/vmap.h"

namespace heddle::fuzz {

using testing::HostStorage;
using testing::Random;
using testing::RandomGraph;

namespace {

// Some leaves have an example of their own for each index: the same elements, reversed.
struct Examples {
  int64_t count;
  std::unordered_map<const Node*, NodeRef> together;
  std::vector<std::unordered_map<const Node*, NodeRef>> alone;
  std::vector<NodeRef> leaves;  // of the graph of all
};

Examples random_examples(const RandomGraph& graph, Random& random) {
  Examples examples{random.between(1, 4), {}, {}, {}};
  examples.alone.resize(static_cast<size_t>(examples.count));
  for (const NodeRef& leaf : graph.leaves) {
    examples.leaves.push_back(leaf);
    if (random.chance(0.4)) continue;
    uint64_t bytes = leaf->storage->bytes(), element = static_cast<uint64_t>(size_of(leaf->dtype));
    const auto* data = static_cast<const std::byte*>(leaf->storage->host_data());
    auto all = std::make_shared<HostStorage>(bytes * static_cast<uint64_t>(examples.count));
    for (int64_t e = 0; e < examples.count; ++e) {
      auto one = std::make_shared<HostStorage>(bytes);
      uint64_t turn = bytes ? static_cast<uint64_t>(e) * 3 * element % bytes : 0;
      if (bytes) {
        std::memcpy(one->data(), data + turn, bytes - turn);
        std::memcpy(static_cast<std::byte*>(one->data()) + bytes - turn, data, turn);
        std::memcpy(static_cast<std::byte*>(all->data()) + static_cast<uint64_t>(e) * bytes, one->data(), bytes);
      }
      examples.alone[static_cast<size_t>(e)][leaf.get()] = make_buffer(one, leaf->dtype, leaf->shape);
    }
    Shape shape = leaf->shape;
    shape.insert(0, examples.count);
    examples.together[leaf.get()] = examples.leaves.back() = make_buffer(all, leaf->dtype, shape);
  }
  return examples;
}

std::vector<HostArray> one_by_one(const RandomGraph& graph, const Examples& examples, int64_t& bad_indices) {
  std::vector<HostArray> all;
  for (const auto& with : examples.alone) {
    int64_t bad = 0;
    std::vector<HostArray> one = evaluate(replace(graph.roots, with), graph.symbols, {}, &bad);
    bad_indices += bad;
    if (all.empty()) {
      for (HostArray& a : one) {
        all.push_back(a);
        all.back().shape.insert(all.back().shape.begin(), examples.count);
      }
      continue;
    }
    for (size_t i = 0; i < one.size(); ++i) {
      all[i].floats.insert(all[i].floats.end(), one[i].floats.begin(), one[i].floats.end());
      all[i].integers.insert(all[i].integers.end(), one[i].integers.begin(), one[i].integers.end());
    }
  }
  return all;
}

void compare(const RandomGraph& graph, const std::vector<HostArray>& want, const std::vector<HostArray>& got,
             const char* what) {
  for (size_t i = 0; i < want.size(); ++i)
    if (std::string wrong = testing::difference(want[i], got[i], graph.tolerances[i]); !wrong.empty())
      throw Failure{text(what, ", root ", i, ": ", wrong), ""};
}

}  // namespace

void check_vmap(const Check& check) {
  Random random(check.seed ^ 0x766d6170);
  std::string detail;
  try {
    RandomGraph graph = testing::random_graph(check.seed, options_of(check));
    detail = print_graph(graph.roots);
    Examples examples = random_examples(graph, random);
    RandomGraph many = graph;
    many.roots = batched(graph.roots, examples.together, examples.count);
    many.leaves = examples.leaves;
    detail += "---- for " + std::to_string(examples.count) + " examples\n" + print_graph(many.roots);
    int64_t bad_indices = 0;
    std::vector<HostArray> want = one_by_one(graph, examples, bad_indices);
    compare(graph, want, evaluate(many.roots, graph.symbols), "batched");
    if (random.chance(0.5)) compare(graph, want, run_realize(many, want, bad_indices > 0), "batched and realised");
  } catch (Failure& failure) {
    failure.detail = detail;
    throw;
  } catch (const std::exception& error) {
    throw Failure{error.what(), detail};
  }
}

}  // namespace heddle::fuzz
