#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace heddle {

MappedFile::MappedFile(const std::string& path) {
  auto fail = [&](const std::string& why) { throw ValueError(text(path, ": cannot be read: ", why)); };
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail(std::strerror(errno));
  struct stat status{};
  std::string why;
  if (::fstat(file, &status) != 0) {
    why = std::strerror(errno);
  } else if (!S_ISREG(status.st_mode)) {
    why = "it is no regular file";
  } else if (status.st_size > 0) {
    void* data = ::mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED)
      why = std::strerror(errno);
    else
      data_ = static_cast<const char*>(data), size_ = static_cast<size_t>(status.st_size);
  }
  ::close(file);
  if (!why.empty()) fail(why);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<char*>(data_), size_);
}

}  // namespace heddle
