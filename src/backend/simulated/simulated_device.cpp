// Two devices without hardware, for tests. Both compile for a SIMT machine and check every launch: the kernel must
// verify, and each part of memory must lie in a buffer of this device and be large enough.
//
//   simulated  the interpreter runs the kernels: blocks, warps, shuffles and barriers, with races detected
//   null       kernels become code for the machine, and nothing runs; results are whatever the memory held

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "base/config.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/log.h"
#include "codegen/generator.h"
#include "kernel/interpreter.h"
#include "runtime/device.h"

namespace heddle {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr const char* kMachine = "sm_90a";  // that both stand for

// Memory in use.
class Usage {
 public:
  void add(uint64_t bytes) {
    std::lock_guard guard(lock_);
    used_ += bytes;
    peak_ = std::max(peak_, used_);
  }
  void remove(uint64_t bytes) {
    std::lock_guard guard(lock_);
    used_ -= bytes;
  }
  Backend::Memory memory() const {
    std::lock_guard guard(lock_);
    static const uint64_t host = uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
    return {used_, 0, peak_, host};
  }

 private:
  mutable Mutex lock_;
  uint64_t used_ = 0, peak_ = 0;
};

void* allocate_zeros(const Backend& device, uint64_t bytes) {
  const uint64_t rounded = (bytes / kAlignment + 1) * kAlignment;
  void* address = bytes <= device.memory().limit ? std::aligned_alloc(kAlignment, rounded) : nullptr;
  if (!address) throw OutOfMemory(text(device.name(), ": no memory for ", bytes, " bytes"));
  std::memset(address, 0, rounded);
  return address;
}

class SimulatedBuffer final : public DeviceBuffer {
 public:
  SimulatedBuffer(Backend& device, Usage& usage, uint64_t bytes) : DeviceBuffer(device, bytes), usage_(usage) {
    address_ = allocate_zeros(device, bytes);
    usage_.add(bytes);
  }
  ~SimulatedBuffer() override {
    usage_.remove(bytes());
    std::free(address());
  }
  SimulatedBuffer(const SimulatedBuffer&) = delete;
  SimulatedBuffer& operator=(const SimulatedBuffer&) = delete;

  const void* host_data() const override { return address(); }

 private:
  Usage& usage_;
};

class SimulatedExecutable final : public Executable {
 public:
  SimulatedExecutable(const Backend* owner, const kernel::Kernel& kernel) : owner_(owner), kernel_(kernel) {}
  const kernel::Kernel& kernel() const override { return kernel_; }
  const Backend* owner() const { return owner_; }

 private:
  const Backend* owner_;
  kernel::Kernel kernel_;
};

class SimulatedDevice final : public Backend {
 public:
  SimulatedDevice(std::string name, bool runs)
      : name_(std::move(name)), runs_(runs), generator_(generator_for(kMachine)), target_(generator_.target(kMachine)) {
    target_.name = name_;
    tf32_target_ = with_tf32(target_);
  }

  const std::string& name() const override { return name_; }
  const Target& target() const override { return target_; }
  const Target& tf32_target() const override { return tf32_target_; }
  int threads() const override { return 1; }
  std::shared_ptr<DeviceBuffer> allocate(uint64_t bytes) override {
    return std::make_shared<SimulatedBuffer>(*this, usage_, bytes);
  }
  void copy_from_host(DeviceBuffer& to, const void* from, uint64_t bytes) override {
    check("copy", whole(to), bytes);
    if (bytes) std::memcpy(to.address(), from, bytes);
  }
  void copy_to_host(void* to, const DeviceBuffer& from, uint64_t bytes) override {
    check("copy", whole(from), bytes);
    if (bytes) std::memcpy(to, from.address(), bytes);
  }
  void copy(const BufferPart& to, const BufferPart& from) override {
    check("copy", whole(*to.buffer), to.offset + to.bytes);
    check("copy", whole(*from.buffer), from.offset + to.bytes);
    if (to.bytes) std::memcpy(to.address(), from.address(), to.bytes);
  }
  std::shared_ptr<Executable> compile(const kernel::Kernel& kernel, std::string*) override {
    kernel::verify(kernel);
    if (kernel.level != kernel::Level::Thread)
      throw CompileError(text("kernel ", kernel.name, " is not at thread level"));
    if (!runs_) generator_.code(kernel, target());
    return std::make_shared<SimulatedExecutable>(this, kernel);
  }
  std::vector<CodeText> texts(const kernel::Kernel& kernel, const Target& target) const override {
    return {{generator_.ending, generator_.code(kernel, target)}};
  }
  void launch(const Executable& executable, std::span<const LaunchSegment> segments) override {
    for (const LaunchSegment& segment : segments) run(executable, segment.buffers, segment.symbols);
  }
  void synchronize() override {}
  Memory memory() const override { return usage_.memory(); }
  void free_cached() override {}

 private:
  void run(const Executable& executable, std::span<const BufferPart> buffers, std::span<const int64_t> symbols) {
    const auto& code = static_cast<const SimulatedExecutable&>(executable);
    const kernel::Kernel& kernel = code.kernel();
    if (code.owner() != this)
      throw DeviceError(text(name_, ": kernel ", kernel.name, " was compiled for another device"));
    if (buffers.size() != kernel.buffers.size() || symbols.size() != kernel.symbols.size())
      throw DeviceError(text(name_, ": kernel ", kernel.name, " got ", buffers.size(), " buffers and ", symbols.size(),
                             " symbols instead of ", kernel.buffers.size(), " and ", kernel.symbols.size()));
    std::vector<int64_t> sizes;
    std::vector<void*> addresses;
    for (size_t b = 0; b < buffers.size(); ++b) {
      const kernel::Buffer& buffer = kernel.buffers[b];
      sizes.push_back(evaluate(buffer.size, symbol_values(kernel, symbols)));
      addresses.push_back(buffers[b].address());
      if (buffer.space == kernel::Space::Shared) continue;
      uint64_t bytes = static_cast<uint64_t>(sizes.back()) * static_cast<uint64_t>(size_of(buffer.dtype));
      if (bytes > 0) check(text("kernel ", kernel.name, ", buffer ", buffer.name), buffers[b], bytes);
    }
    if (runs_) kernel::interpret(kernel, addresses, sizes, symbols);
  }
  void check(const std::string& what, const BufferPart& part, uint64_t bytes) const {
    if (!part.buffer || &part.buffer->device() != this)
      throw DeviceError(text(name_, ": ", what, ": this is not memory of the device"));
    if (part.offset % kAlignment != 0)
      throw DeviceError(text(name_, ": ", what, ": offset ", part.offset, " is no multiple of ", kAlignment));
    const uint64_t all = part.buffer->bytes();
    if (part.offset > all || part.bytes > all - part.offset)
      throw DeviceError(text(name_, ": ", what, ": ", part.bytes, " bytes from offset ", part.offset,
                             " on do not lie in a buffer of ", all));
    if (part.bytes < bytes)
      throw DeviceError(text(name_, ": ", what, ": needs ", bytes, " bytes, but only ", part.bytes, " are there"));
  }

  std::string name_;
  bool runs_;
  Generator generator_;
  Target target_, tf32_target_;
  Usage usage_;
};

constexpr int kSimulated = 4;  // enough to try a program for several devices on

std::unique_ptr<Backend> make_device(const std::string& kind, bool runs, int number) {
  const int count = runs ? kSimulated : 1;
  if (number >= count)
    throw DeviceError(
        text("there is no device called '", kind, ":", number, "': ", kind, " devices are numbered to ", count - 1));
  const std::string name = number == 0 ? kind : text(kind, ":", number);
  // Not where a program asks for it by name, as tests do: those know.
  if (!runs && config().device == name)
    warn(text("HEDDLE_DEVICE=", name, " computes nothing: every result is whatever the memory held"));
  return std::make_unique<SimulatedDevice>(name, runs);
}

struct Registrar {
  Registrar() {
    auto simulated = [](int number) { return make_device("simulated", true, number); };
    register_device("simulated", simulated, [] { return kSimulated; });
    // For those who ask for it by name: it computes nothing.
    auto null = [](int number) { return make_device("null", false, number); };
    register_device("null", null, [] { return 0; });
  }
} registrar;

}  // namespace
}  // namespace heddle
