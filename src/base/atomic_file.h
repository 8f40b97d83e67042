// Files that appear whole or not at all.
#pragma once

#include <span>
#include <string>

namespace heddle {

// Writes the parts one after the other to a new file beside `path`, flushes it to disk and renames it to `path`.
// ValueError naming the path when something fails; then nothing has changed. A process that is killed while it writes
// leaves the new file behind (`path`, a random number, ".tmp"); the next one that writes to `path` removes it.
void write_file_atomically(const std::string& path, std::span<const std::span<const char>> parts);
void write_file_atomically(const std::string& path, const std::string& content);

}  // namespace heddle
