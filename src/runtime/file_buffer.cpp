#include "runtime/file_buffer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/error.h"
#include "base/lock.h"

namespace heddle {

InputFile::InputFile(const std::string& path) : path_(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (file_ < 0) throw ValueError(text(path, ": cannot be read: ", std::strerror(errno)));
  ::posix_fadvise(file_, 0, 0, POSIX_FADV_SEQUENTIAL);
}
InputFile::~InputFile() { ::close(file_); }

void InputFile::read(void* to, uint64_t offset, uint64_t bytes, const std::string& what) const {
  constexpr uint64_t kAtOnce = uint64_t{1} << 30;  // less than one call may read
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t got = ::pread(file_, static_cast<std::byte*>(to) + done, std::min(bytes - done, kAtOnce),
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw ValueError(text(path_, ": ", what, ": cannot be read: ", std::strerror(errno)));
    if (got == 0)
      throw ParseError(text(path_, ": ", what, ": the file ends ", bytes - done, " bytes before the tensor does"));
    done += static_cast<uint64_t>(got);
  }
}

namespace {

class FileBuffer final : public DeviceBuffer {
 public:
  FileBuffer(Backend& disk, std::shared_ptr<const InputFile> file, uint64_t offset, uint64_t bytes, std::string name)
      : DeviceBuffer(disk, bytes, kAnywhere), file_(std::move(file)), offset_(offset), name_(std::move(name)) {}

  // A copy, for whoever looks at the elements.
  const void* host_data() const override {
    std::lock_guard guard(lock_);
    if (!copy_) {
      auto fresh = std::make_unique_for_overwrite<std::byte[]>(std::max<uint64_t>(bytes(), 1));
      read(fresh.get(), 0, bytes());
      copy_ = std::move(fresh);
    }
    return copy_.get();
  }
  bool on_host() const override { return false; }
  bool is_shared() const override { return true; }  // others may write to the file; we do not

  void read(void* to, uint64_t begin, uint64_t count) const {
    file_->read(to, offset_ + begin, count, text("tensor \"", name_, "\""));
  }

 private:
  std::shared_ptr<const InputFile> file_;
  uint64_t offset_;
  std::string name_;
  mutable Mutex lock_;
  mutable std::unique_ptr<std::byte[]> copy_;
};

// Memory that can be read, and nothing else.
class Disk final : public Backend {
 public:
  const std::string& name() const override { return name_; }
  const Target& target() const override { return target_; }
  int threads() const override { return 0; }
  std::shared_ptr<DeviceBuffer> allocate(uint64_t) override { refuse(); }
  void copy_from_host(DeviceBuffer&, const void*, uint64_t) override { refuse(); }
  void copy_to_host(void* to, const DeviceBuffer& from, uint64_t bytes) override {
    static_cast<const FileBuffer&>(from).read(to, 0, bytes);
  }
  void copy(const BufferPart&, const BufferPart&) override { refuse(); }
  void copy_part_to_host(void* to, const BufferPart& from, uint64_t bytes) override {
    static_cast<const FileBuffer&>(*from.buffer).read(to, from.offset, bytes);
  }
  std::shared_ptr<Executable> compile(const kernel::Kernel&, std::string*) override { refuse(); }
  void launch(const Executable&, std::span<const LaunchSegment>) override { refuse(); }
  void synchronize() override {}
  Memory memory() const override { return {}; }
  void free_cached() override {}

 private:
  [[noreturn]] static void refuse() { throw DeviceError("disk: tensors in files are read, and nothing is computed"); }
  std::string name_ = "disk";
  Target target_;
};

// Never destroyed, as all devices.
Disk& disk() {
  static Disk& instance = *new Disk;
  return instance;
}

}  // namespace

std::shared_ptr<DeviceBuffer> file_buffer(std::shared_ptr<const InputFile> file, uint64_t offset, uint64_t bytes,
                                          const std::string& name) {
  return std::make_shared<FileBuffer>(disk(), std::move(file), offset, bytes, name);
}

}  // namespace heddle
