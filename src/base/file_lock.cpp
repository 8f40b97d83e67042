#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace heddle {

FileLock::FileLock(const std::string& path) : file_(open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)) {
  if (file_ < 0) return;
  for (int i = 0; i < 400 && flock(file_, LOCK_EX | LOCK_NB) != 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

FileLock::~FileLock() {
  if (file_ >= 0) close(file_);
}

}  // namespace heddle
