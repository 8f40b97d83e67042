// One process at a time.
#pragma once

#include <string>

namespace heddle {

// Held by one process, or one object of it, at a time. Waits for a few seconds at most: a process that was stopped must
// not stop all others. Not getting it is no error; neither is a file that cannot be made.
class FileLock {
 public:
  explicit FileLock(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int file_;
};

}  // namespace heddle
