#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/lock.h"
#include "base/log.h"

namespace heddle {
namespace {

// Once for each file: a search takes a lock for every candidate.
void warn_once(const std::string& path, const std::string& message) {
  static Mutex mutex;
  static std::set<std::string> said;
  {
    std::lock_guard hold(mutex);
    if (!said.insert(path).second) return;
  }
  warn(message);
}

}  // namespace

FileLock::FileLock(const std::string& path) : file_(open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)) {
  if (file_ < 0) return;
  for (int i = 0; i < 400; ++i) {
    if (flock(file_, LOCK_EX | LOCK_NB) == 0) {
      held_ = true;
      return;
    }
    // Some file systems have no locks: waiting would not help.
    if (errno != EWOULDBLOCK && errno != EINTR) {
      warn_once(path, text(path, ": cannot be locked: ", std::strerror(errno), "; going on without"));
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  warn_once(path, text(path, ": another process has held this lock for two seconds; going on without"));
}

FileLock::~FileLock() {
  if (file_ >= 0) close(file_);
}

}  // namespace heddle
