// heddle info: the build, and the machine as the compiler sees it.
#pragma once

namespace heddle::tools {

void print_info();

}  // namespace heddle::tools
