// What a program is apart from the names in it: a list of words. Equal lists stand for equal programs, in every
// process.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace heddle {

struct Structure {
  std::vector<uint64_t> words;

  uint64_t hash() const {
    uint64_t h = words.size();
    for (uint64_t word : words) h = hash_combine(h, word);
    return h;
  }
  std::string_view bytes() const {
    return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint64_t)};
  }
  friend bool operator==(const Structure&, const Structure&) = default;
};

}  // namespace heddle

template <>
struct std::hash<heddle::Structure> {
  size_t operator()(const heddle::Structure& structure) const { return structure.hash(); }
};
