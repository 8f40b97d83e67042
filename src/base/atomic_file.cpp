#include "base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace heddle {
namespace {

[[noreturn]] void fail(const std::string& path, const char* doing) {
  throw ValueError(text(path, ": ", doing, " failed: ", std::strerror(errno)));
}

// A new file with a name of its own in the folder of `path`; gone again unless it was renamed.
class NewFile {
 public:
  explicit NewFile(const std::string& path) : path_(path) {
    static std::atomic<uint64_t> counter{0};
    name_ = text(path, ".", ::getpid(), ".", counter.fetch_add(1), ".tmp");
    file_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file_ < 0) fail(path, "creating the file");
  }
  ~NewFile() {
    if (file_ >= 0) ::close(file_);
    if (!renamed_) ::unlink(name_.c_str());
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
    int file = file_;
    file_ = -1;
    if (::close(file) != 0) fail(path_, "closing");
    if (::rename(name_.c_str(), path_.c_str()) != 0) fail(path_, "renaming into place");
    renamed_ = true;
    // The new name reaches the disk with the folder. Some file systems cannot do that, which harms nobody else.
    std::string folder = path_.find('/') == std::string::npos ? "." : path_.substr(0, path_.rfind('/') + 1);
    int directory = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return;
    (void)::fsync(directory);
    ::close(directory);
  }

 private:
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
