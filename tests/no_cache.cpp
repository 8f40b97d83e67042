// A part of every test program: tests must not depend on the user's disk cache, nor fill it. A test that is about the
// cache starts this program again with HEDDLE_TEST_CACHE.
#include <cstdlib>

namespace {
const int set = [] {
  const char* cache = std::getenv("HEDDLE_TEST_CACHE");
  return setenv("HEDDLE_CACHE", cache ? cache : "off", 1);
}();
}  // namespace
