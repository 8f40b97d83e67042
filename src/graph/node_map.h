// A hash map from nodes to 32-bit numbers: what walks over graphs use. Private to src/graph.
#pragma once

#include <cstdint>
#include <vector>

#include "base/hash.h"
#include "graph/node.h"

namespace heddle {

class NodeMap {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t find(const Node* node) const { return entries_[slot(node)].number; }
  // Returns false, changing nothing, if the node is there already.
  bool insert(const Node* node, uint32_t number) {
    if (count_ * 2 >= entries_.size()) grow();
    Entry& entry = entries_[slot(node)];
    if (entry.node) return false;
    entry = {node, number};
    ++count_;
    return true;
  }

 private:
  struct Entry {
    const Node* node = nullptr;
    uint32_t number = kNone;
  };
  size_t slot(const Node* node) const {
    size_t mask = entries_.size() - 1;
    size_t i = hash_mix(reinterpret_cast<uintptr_t>(node)) & mask;
    while (entries_[i].node && entries_[i].node != node) i = (i + 1) & mask;
    return i;
  }
  void grow() {
    std::vector<Entry> old(entries_.size() * 2);
    old.swap(entries_);
    for (const Entry& entry : old)
      if (entry.node) entries_[slot(entry.node)] = entry;
  }
  std::vector<Entry> entries_ = std::vector<Entry>(64);
  size_t count_ = 0;
};

}  // namespace heddle
