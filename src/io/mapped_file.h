// A file as memory, for reading.
#pragma once

#include <span>
#include <string>

namespace heddle {

class MappedFile {
 public:
  explicit MappedFile(const std::string& path);  // ValueError naming the path
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const char> bytes() const { return {data_, size_}; }

 private:
  const char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace heddle
