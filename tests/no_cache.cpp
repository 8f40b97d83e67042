// A part of every test program: tests must not depend on the user's disk cache, nor fill it. A test that is about the
// cache starts this program again with HEDDLE_TEST_CACHE. A kernel that cannot be compiled is an error here.
#include <cstdlib>

namespace {
const int set = [] {
  setenv("HEDDLE_FALLBACK", "0", 0);
  const char* cache = std::getenv("HEDDLE_TEST_CACHE");
  return setenv("HEDDLE_CACHE", cache ? cache : "off", 1);
}();
}  // namespace
