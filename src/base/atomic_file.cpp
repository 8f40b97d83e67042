#include "base/atomic_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/fork.h"
#include "base/hash.h"

namespace heddle {
namespace {

[[noreturn]] void fail(const std::string& path, const char* doing) {
  throw ValueError(text(path, ": ", doing, " failed: ", std::strerror(errno)));
}

// Folder, ending with a slash or empty, and name.
std::pair<std::string, std::string> parts_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::pair(std::string(), path)
                                    : std::pair(path.substr(0, slash + 1), path.substr(slash + 1));
}

// Files on their way to `path` are called `path`.RANDOM.tmp, with so many digits. Whoever writes one holds a lock on
// it.
constexpr size_t kDigits = 16;
constexpr std::string_view kEnding = ".tmp";

std::string new_name(const std::string& path) {
  uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number))
    number = hash_combine(static_cast<uint64_t>(::getpid()),
                          static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()));
  char digits[kDigits + 1];
  std::snprintf(digits, sizeof digits, "%016" PRIx64, number);
  return text(path, ".", digits, kEnding);
}

bool is_new_name(std::string_view name, std::string_view of) {
  if (name.size() != of.size() + 1 + kDigits + kEnding.size() || !name.starts_with(of) || !name.ends_with(kEnding))
    return false;
  name.remove_prefix(of.size());
  return name[0] == '.' && name.substr(1, kDigits).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

enum class Locked { Yes, No, Unknown };  // Unknown: the file system has no locks

Locked try_lock(int file) {
  while (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    return errno == EWOULDBLOCK ? Locked::No : Locked::Unknown;
  }
  return Locked::Yes;
}

bool is_called(int file, const std::string& name) {
  struct stat here{}, there{};
  return ::fstat(file, &here) == 0 && ::stat(name.c_str(), &there) == 0 && here.st_ino == there.st_ino &&
         here.st_dev == there.st_dev;
}

// Removes what processes that were killed have left on its way to `path`: the lock of a process ends with it.
void remove_left_behind(const std::string& path) {
  const auto [folder, name] = parts_of(path);
  DIR* entries = ::opendir(folder.empty() ? "." : folder.c_str());
  if (!entries) return;
  std::vector<std::string> found;
  while (const dirent* entry = ::readdir(entries))
    if (is_new_name(entry->d_name, name)) found.push_back(folder + entry->d_name);
  ::closedir(entries);
  for (const std::string& left : found) {
    const int file = ::open(left.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) continue;
    if (try_lock(file) == Locked::Yes && is_called(file, left)) ::unlink(left.c_str());
    ::close(file);
  }
}

// A new file with a name of its own in the folder of `path`; gone again unless it was renamed.
class NewFile {
 public:
  explicit NewFile(const std::string& path) : path_(path) {
    remove_left_behind(path);
    constexpr int kAttempts = 100;
    for (int i = 0; i < kAttempts; ++i) {
      name_ = new_name(path);
      file_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (file_ < 0 && errno == EEXIST) continue;
      if (file_ < 0) fail(path, "creating the file");
      // Another process may have taken it for one left behind before there was a lock.
      const Locked locked = try_lock(file_);
      if (locked == Locked::Unknown || (locked == Locked::Yes && is_called(file_, name_))) return;
      ::close(file_);
      file_ = -1;
    }
    errno = EEXIST;
    fail(path, "creating the file");
  }
  ~NewFile() {
    if (!renamed_ && file_ >= 0) ::unlink(name_.c_str());
    if (file_ >= 0) ::close(file_);
  }
  void write(std::span<const char> part) {
    while (!part.empty()) {
      ssize_t count = ::write(file_, part.data(), std::min(part.size(), size_t{1} << 30));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail(path_, "writing");
      part = part.subspan(static_cast<size_t>(count));
    }
  }
  void finish() {
    if (::fsync(file_) != 0) fail(path_, "flushing to disk");
    // Closed later: without the lock another process would remove it.
    if (::rename(name_.c_str(), path_.c_str()) != 0) fail(path_, "renaming into place");
    renamed_ = true;
    // The new name reaches the disk with the folder. Some file systems cannot do that, which harms nobody else.
    const std::string folder = parts_of(path_).first;
    int directory = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return;
    (void)::fsync(directory);
    ::close(directory);
  }

 private:
  NoFork whole_;  // a child would keep the file open, and locked
  std::string path_, name_;
  int file_ = -1;
  bool renamed_ = false;
};

}  // namespace

void write_file_atomically(const std::string& path, std::span<const std::span<const char>> parts) {
  NewFile file(path);
  for (std::span<const char> part : parts) file.write(part);
  file.finish();
}

void write_file_atomically(const std::string& path, const std::string& content) {
  std::span<const char> part(content);
  write_file_atomically(path, std::span(&part, 1));
}

}  // namespace heddle
