// Values that lie in files. They have no place of their own, as constants: a plan reads them, or the part of them that
// it needs, into memory of the device that uses them.
#pragma once

#include "runtime/device.h"

namespace heddle {

// An open file, for reading.
class InputFile {
 public:
  explicit InputFile(const std::string& path);  // ValueError naming the path
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  // Throws ParseError that names the file and `what` where it ends early, ValueError where it cannot be read.
  void read(void* to, uint64_t offset, uint64_t bytes, const std::string& what) const;

 private:
  std::string path_;
  int file_;
};

// The bytes of a tensor, called `name` in messages.
std::shared_ptr<DeviceBuffer> file_buffer(std::shared_ptr<const InputFile> file, uint64_t offset, uint64_t bytes,
                                          const std::string& name);

}  // namespace heddle
