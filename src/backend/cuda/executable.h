// A kernel on a device: its modules, and what a launch passes to them.
#pragma once

#include <mutex>

#include "backend/cuda/driver.h"
#include "base/lock.h"
#include "kernel/tensor_maps.h"
#include "runtime/device.h"

namespace heddle::cuda {

// Memory that a launch reads, or reads and writes.
struct Touch {
  uint64_t begin, end;
  bool writes;
};

// One launch of the driver. Its parameters are words [first, first + count) of the list it is in; the last ones are
// descriptors of matrices, 16 words each. The memory it touches is in the same list.
struct Call {
  Function function = nullptr;
  unsigned blocks = 0, threads = 1, shared_bytes = 0;
  uint32_t first = 0, count = 0, maps = 0;
  uint32_t first_touch = 0, touches = 0;
};

// Launches in order. Kept from run to run, a list needs no new memory.
struct Calls {
  std::vector<Call> calls;
  std::vector<uint64_t> words;
  std::vector<Touch> touched;
  std::vector<std::shared_ptr<DeviceBuffer>> keep;  // what words refer to besides the launches' own buffers

  void clear();
  void add(Function function, int64_t blocks, int threads, unsigned shared_bytes);
  void word(uint64_t value);                      // one more parameter of the last call
  void map(std::span<const uint64_t, 16> words);  // the same; after all words
  std::span<const uint64_t> words_of(const Call& call) const {
    return std::span(words).subspan(call.first, call.count);
  }
  void touch(const Touch& touch);  // by the last call
  std::span<const Touch> touched_by(const Call& call) const {
    return std::span(touched).subspan(call.first_touch, call.touches);
  }
  // What the driver wants for a call: the addresses of its parameters.
  void addresses(const Call& call, std::vector<void*>& out);
};

// A table of many segments in device memory, for the entries that read their parameters there.
struct Table {
  std::vector<uint64_t> words;
  std::shared_ptr<DeviceBuffer> memory;
  uint64_t last_use = 0;
};

class CudaExecutable final : public Executable {
 public:
  // `code` is machine code or PTX, `kernel` what it was made of. The context must be current. Throws CompileError.
  CudaExecutable(const Driver& driver, Context context, const Target& target, const kernel::Kernel& kernel,
                 const std::string& code);
  ~CudaExecutable() override;
  CudaExecutable(const CudaExecutable&) = delete;
  CudaExecutable& operator=(const CudaExecutable&) = delete;

  const kernel::Kernel& kernel() const override { return kernel_; }
  void expect_segments(size_t count) const override;

  // Appends what runs the kernel for these segments. The entries for many segments are compiled when they are first
  // needed.
  void append(Backend& device, std::span<const LaunchSegment> segments, Calls& out) const;

 private:
  struct Entries {
    Library library = nullptr;
    std::vector<Function> functions;  // by phase
  };
  Entries load(const std::string& code, const char* ending) const;
  const Entries& many() const;  // callers hold the lock
  int64_t blocks(size_t phase, std::span<const int64_t> symbols) const;
  int64_t rounds(std::span<const int64_t> symbols) const;
  std::shared_ptr<DeviceBuffer> table(Backend& device, const std::vector<uint64_t>& words) const;
  void append_phase(Function function, int64_t blocks, std::span<const LaunchSegment> segments, Calls& out) const;
  void append_many(Backend& device, std::span<const LaunchSegment> segments, Calls& out) const;

  const Driver& driver_;
  Context context_;
  const Target& target_;
  kernel::Kernel kernel_;
  std::vector<kernel::TensorMap> maps_;  // of kernel_
  std::vector<int64_t> phase_blocks_;    // -1: depends on symbols
  unsigned shared_bytes_;
  Entries single_;
  mutable Mutex lock_;  // of what follows
  mutable Entries many_;
  mutable std::vector<Table> tables_;
  mutable uint64_t clock_ = 0;
};

// What the driver loads: PTX of the kernel, assembled, or as it is where that is faster. Throws CompileError with the
// assembler's words.
std::string assemble(const Driver& driver, const kernel::Kernel& kernel, const Target& target, bool many);

}  // namespace heddle::cuda
