// Files that appear whole or not at all.
#pragma once

#include <span>
#include <string>

namespace heddle {

// Writes the parts one after the other to a new file beside `path`, flushes it to disk and renames it to `path`.
// ValueError naming the path when something fails; then nothing has changed.
void write_file_atomically(const std::string& path, std::span<const std::span<const char>> parts);
void write_file_atomically(const std::string& path, const std::string& content);

}  // namespace heddle
