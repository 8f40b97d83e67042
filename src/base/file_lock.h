// One process at a time.
#pragma once

#include <string>

#include "base/fork.h"

namespace heddle {

// Held by one process, or one object of it, at a time. Waits for two seconds at most: a process that was stopped must
// not stop all others. Not getting it is no error, but worth a warning, once for each file; a file that cannot be made
// is neither: the folder may be read-only.
class FileLock {
 public:
  explicit FileLock(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  bool held() const { return held_; }

 private:
  NoFork whole_;  // a child would keep the file open, and locked
  int file_;
  bool held_ = false;
};

}  // namespace heddle
