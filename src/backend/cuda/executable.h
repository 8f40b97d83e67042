// A kernel on a device: its modules, and what a launch passes to them.
#pragma once

#include <array>
#include <mutex>

#include "backend/cuda/driver.h"
#include "runtime/device.h"

namespace heddle::cuda {

// What one kernel launch of the driver takes: `words` are the parameters one after the other.
struct Call {
  Function function = nullptr;
  unsigned blocks = 0, threads = 1, shared_bytes = 0;
  SmallVector<uint64_t, 8> words;

  friend bool operator==(const Call& a, const Call& b) {
    return a.function == b.function && a.blocks == b.blocks && a.words == b.words;
  }
};

// A table of many segments in device memory, for the entries that read their parameters there.
struct Table {
  std::vector<uint64_t> words;
  std::shared_ptr<DeviceBuffer> memory;
  uint64_t last_use = 0;
};

class CudaExecutable final : public Executable {
 public:
  // `cubin` is machine code, `kernel` what it was made of. The context must be current. Throws CompileError.
  CudaExecutable(const Driver& driver, Context context, const kernel::Kernel& kernel, const std::string& cubin);
  ~CudaExecutable() override;
  CudaExecutable(const CudaExecutable&) = delete;
  CudaExecutable& operator=(const CudaExecutable&) = delete;

  const kernel::Kernel& kernel() const override { return kernel_; }

  // Appends what runs the kernel for these segments. `make_many` compiles the entries for many segments when they are
  // first needed; `tables` puts words into device memory. What calls refer to lives as long as `keep` does.
  using Compile = std::string (*)(const Driver& driver, const kernel::Kernel& kernel, const Target& target, bool many);
  void calls(Device& device, Compile compile, std::span<const LaunchSegment> segments, std::vector<Call>& out,
             std::vector<std::shared_ptr<DeviceBuffer>>& keep) const;

 private:
  struct Entries {
    Module module = nullptr;
    std::vector<Function> functions;  // by phase
  };
  Entries load(const std::string& cubin, const char* ending) const;
  int64_t cells(size_t phase, std::span<const int64_t> symbols) const;
  int64_t rounds(std::span<const int64_t> symbols) const;
  std::shared_ptr<DeviceBuffer> table(Device& device, std::vector<uint64_t> words) const;
  Call call(Function function, int64_t cells) const;
  void call_many(Device& device, Compile compile, std::span<const LaunchSegment> segments, std::vector<Call>& out,
                 std::vector<std::shared_ptr<DeviceBuffer>>& keep) const;

  const Driver& driver_;
  Context context_;
  kernel::Kernel kernel_;
  std::vector<int64_t> phase_cells_;  // -1: depends on symbols
  unsigned shared_bytes_;
  Entries single_;
  mutable std::mutex lock_;  // of what follows
  mutable Entries many_;
  mutable std::vector<Table> tables_;
  mutable uint64_t clock_ = 0;
};

// PTX of the kernel, assembled by the driver. Throws CompileError with the assembler's words.
std::string assemble(const Driver& driver, const kernel::Kernel& kernel, const Target& target, bool many);

}  // namespace heddle::cuda
