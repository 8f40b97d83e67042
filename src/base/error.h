// Helpers to build messages and raise errors.
#pragma once

#include <heddle/error.h>

#include <sstream>
#include <string>

namespace heddle {

// text("got ", 3, " axes") == "got 3 axes"
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

[[noreturn]] void internal_error(const char* file, int line, const std::string& what);

}  // namespace heddle

// Checks an invariant of Heddle itself. Stays on in release builds: a clear exception beats a wrong answer.
#define HD_ASSERT(condition, ...)                                                                                \
  do {                                                                                                           \
    if (!(condition)) [[unlikely]]                                                                               \
      ::heddle::internal_error(__FILE__, __LINE__, ::heddle::text(#condition __VA_OPT__(, ": ", ) __VA_ARGS__)); \
  } while (false)
