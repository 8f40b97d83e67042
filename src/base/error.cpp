#include "base/error.h"

#include <cstring>

namespace heddle {

void internal_error(const char* file, int line, const std::string& what) {
  const char* name = std::strrchr(file, '/');
  throw InternalError(text("internal error at ", name ? name + 1 : file, ":", line, ": ", what,
                           ". This is a bug in Heddle; please report it."));
}

}  // namespace heddle
