// Runs this program again, as another process.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace heddle::tools {

// Calls `line` for each line the process writes to standard output, at once; standard error stays ours. Returns its
// exit code (128 + signal when it was killed). Throws Error when it cannot be started.
int run_self(const std::vector<std::string>& arguments, const std::function<void(const std::string&)>& line);

}  // namespace heddle::tools
