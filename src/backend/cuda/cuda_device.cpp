// NVIDIA GPUs: PTX made by LLVM, assembled by the driver. Kernels are all in one stream of the device. Large copies
// from the host have another one, and so go on beside kernels that were queued before.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <optional>

#include "backend/cuda/executable.h"
#include "backend/cuda/memory.h"
#include "backend/cuda/recording.h"
#include "backend/cuda/staging.h"
#include "backend/cuda/while_loop.h"
#include "base/error.h"
#include "base/lock.h"
#include "codegen/codegen.h"
#include "codegen/nvptx.h"

namespace heddle::cuda {
namespace {

constexpr int kDeviceMemory = 2, kManagedMemory = 13;  // DLPack's numbers

class CudaDevice;

class CudaBuffer final : public DeviceBuffer {
 public:
  CudaBuffer(CudaDevice& device, uint64_t bytes);
  CudaBuffer(CudaDevice& device, std::shared_ptr<const void> memory, uint64_t bytes);  // of somebody else
  ~CudaBuffer() override;
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;

  const void* host_data() const override;
  bool on_host() const override { return false; }
  bool is_shared() const override { return owner_ != nullptr; }

  // The number of the last piece of work in the device's stream that touches the memory.
  void use(uint64_t work) const { last_use_.store(work, std::memory_order_relaxed); }
  uint64_t last_use() const { return last_use_.load(std::memory_order_relaxed); }

 private:
  CudaDevice& device_;
  std::shared_ptr<const void> owner_;
  MemoryPool::Block memory_;  // where there is no owner
  mutable std::atomic<uint64_t> last_use_;
  mutable Mutex lock_;
  mutable std::unique_ptr<std::byte[]> copy_;  // for whoever reads from the host
};

Target target_of(const Driver& driver, DeviceNumber device) {
  auto attribute = [&](int which) {
    int value = 0;
    driver.check(driver.cuDeviceGetAttribute(&value, which, device), "asking for the device's properties");
    return value;
  };
  const int major = attribute(kMajor), minor = attribute(kMinor);
  if (major < 7)
    throw DeviceError(text("cuda: the device has compute capability ", major, ".", minor, ", at least 7.0 is needed"));
  // Newer ones than LLVM knows take the code of the newest that it does, without what only that one has.
  Target target = nvidia_target(major > 9 ? "sm_90" : text("sm_", major, minor, major == 9 ? "a" : ""));
  target.shared_bytes = attribute(kMaxSharedPerBlock);
  target.multiprocessors = attribute(kMultiprocessors);
  target.l2_bytes = attribute(kL2Bytes);
  return target;
}

class CudaDevice final : public Backend {
 public:
  CudaDevice(const Driver& driver, int ordinal, DeviceNumber number, Context context, uint64_t bytes)
      : driver_(driver),
        ordinal_(ordinal),
        name_(text("cuda:", ordinal)),
        context_(context),
        target_(target_of(driver, number)),
        tf32_target_(with_tf32(target_)),
        memory_(driver, name_, bytes),
        staging_(driver),
        staging_beside_(driver) {
    enter();
    constexpr unsigned kApart = 1;  // does not wait for other programs' work in the default stream
    driver_.check(driver_.cuStreamCreate(&stream_, kApart), "making a stream");
    driver_.check(driver_.cuStreamCreate(&copies_, kApart), "making a stream");
    constexpr unsigned kNoTiming = 2;
    for (Event* event : {&free_, &copied_, &lent_})
      driver_.check(driver_.cuEventCreate(event, kNoTiming), "making an event");
  }

  const std::string& name() const override { return name_; }
  const Target& target() const override { return target_; }
  const Target& tf32_target() const override { return tf32_target_; }
  int threads() const override { return 1; }
  bool is_asynchronous() const override { return true; }

  std::shared_ptr<DeviceBuffer> allocate(uint64_t bytes) override {
    enter();
    return std::make_shared<CudaBuffer>(*this, bytes);
  }
  std::shared_ptr<DeviceBuffer> adopt(const std::shared_ptr<const void>& memory, uint64_t bytes) override {
    HD_ASSERT(reinterpret_cast<uintptr_t>(memory.get()) % 64 == 0);
    return std::make_shared<CudaBuffer>(*this, memory, bytes);
  }
  void copy_from_host(DeviceBuffer& to, const void* from, uint64_t bytes) override {
    HD_ASSERT(bytes <= to.bytes());
    if (bytes == 0) return;
    enter();
    const auto& buffer = static_cast<const CudaBuffer&>(to);
    const auto address = reinterpret_cast<Address>(to.address());
    constexpr uint64_t kLarge = uint64_t{1} << 20;
    if (bytes >= kLarge) return copy_beside(buffer, address, from, bytes);
    Used used(*this);
    used.by(buffer);
    check(staging_.to_device(stream_, address, from, bytes), "copying to the device");
  }
  void copy_to_host(void* to, const DeviceBuffer& from, uint64_t bytes) override {
    HD_ASSERT(bytes <= from.bytes());
    if (bytes == 0) return;
    enter();
    const uint64_t before = queued_.load();
    check(staging_.to_host(stream_, to, reinterpret_cast<Address>(from.address()), bytes), "copying from the device");
    is_done(before);
  }
  void copy(const BufferPart& to, const BufferPart& from) override {
    HD_ASSERT(to.bytes <= from.bytes);
    if (to.bytes == 0) return;
    enter();
    Used used(*this);
    used.by(*static_cast<const CudaBuffer*>(to.buffer));
    used.by(*static_cast<const CudaBuffer*>(from.buffer));
    check(driver_.cuMemcpyDtoDAsync_v2(reinterpret_cast<Address>(to.address()),
                                       reinterpret_cast<Address>(from.address()), to.bytes, stream_),
          "copying on the device");
  }
  std::shared_ptr<Executable> compile(const kernel::Kernel& kernel, std::string* code) override {
    enter();
    std::string cubin = assemble(driver_, kernel, target_, false);
    auto made = std::make_shared<CudaExecutable>(driver_, context_, target_, kernel, cubin);
    if (code) *code = std::move(cubin);
    return made;
  }
  std::shared_ptr<Executable> load(const kernel::Kernel& kernel, const std::string& code) override {
    enter();
    return std::make_shared<CudaExecutable>(driver_, context_, target_, kernel, code);
  }
  std::string code_version() const override { return text(code_generator(), ", CUDA driver ", driver_.version); }

  std::vector<CodeText> texts(const kernel::Kernel& kernel, const Target& target) const override {
    return {{".ptx", ptx(kernel, target)}};
  }

  void launch(const Executable& executable, std::span<const LaunchSegment> segments) override {
    enter();
    const auto& code = static_cast<const CudaExecutable&>(executable);
    thread_local Calls calls;
    thread_local std::vector<void*> parameters;
    calls.clear();
    code.append(*this, segments, calls);
    Used used(*this);
    used.by(segments);
    note(code.kernel().name);
    Range range(code.kernel().name.c_str());
    for (const Call& call : calls.calls) {
      calls.addresses(call, parameters);
      check(driver_.cuLaunchKernel(call.function, call.blocks, 1, 1, call.threads, 1, 1, call.shared_bytes, stream_,
                                   parameters.data(), nullptr),
            "launching");
    }
  }
  bool records() const override { return true; }
  void launch_all(std::span<const Submission> launches, std::shared_ptr<void>& recording) override {
    enter();
    thread_local Calls calls;
    Used used(*this);
    append(launches, calls, used);
    if (calls.calls.empty()) return;
    Range range("captured function");
    if (!recording) recording = std::make_shared<Recording>(driver_, context_, starts_early(target()));
    check(static_cast<Recording*>(recording.get())->run(calls, stream_), "launching a recorded program");
  }
  bool launch_while(std::span<const Submission> first, std::span<const Submission> rounds, const BufferPart& flag,
                    std::shared_ptr<void>& recording) override {
    enter();
    Calls before, again;
    Used used(*this);
    append(first, before, used);
    append(rounds, again, used);
    Range range("while loop");
    if (!recording) recording = std::make_shared<WhileLoop>(driver_, context_);
    auto& loop = *static_cast<WhileLoop*>(recording.get());
    Result result = kNotSupported;
    if (Function look = set_condition())
      result = loop.run(before, again, reinterpret_cast<Address>(flag.address()), look, stream_);
    if (loop.is_refused() || result == kNotSupported) return false;
    check(result, "launching a loop");
    return true;
  }

  void synchronize() override {
    enter();
    const uint64_t before = queued_.load();
    check(driver_.cuStreamSynchronize(stream_), "waiting");
    is_done(before);
  }
  MemoryPlace memory_place() const override { return {kDeviceMemory, ordinal_}; }
  void* queue() const override { return stream_; }
  void* queue_of_others() const override { return reinterpret_cast<void*>(1); }  // the driver's default stream
  void* lend(const DeviceBuffer& memory, void* queue) override {
    enter();
    if (queue) {
      std::lock_guard guard(lending_);
      check(driver_.cuEventRecord(lent_, stream_), "lending memory");
      check(driver_.cuStreamWaitEvent(static_cast<Stream>(queue), lent_, 0), "lending memory");
    }
    return memory.address();
  }
  void synchronize_all() override {
    enter();
    const uint64_t before = queued_.load();
    check(driver_.cuCtxSynchronize(), "waiting");
    is_done(before);
  }
  // Waits until what touched memory of somebody else has run. What went wrong is said by whoever looks next.
  void finish(uint64_t last_use) noexcept {
    if (last_use <= done_.load(std::memory_order_relaxed)) return;
    try {
      synchronize();
    } catch (const Error&) {}
  }
  Memory memory() const override {
    MemoryPool::Use use = memory_.use();
    return {use.used, use.cached, use.peak, use.limit};
  }
  void free_cached() override {
    enter();
    memory_.free_cached();
  }

  MemoryPool& pool() { return memory_; }

 private:
  // Every thread that calls the driver says first which device it means.
  void enter() const {
    if (driver_.is_inherited()) refuse_after_fork();
    if (broken_.load(std::memory_order_relaxed)) {
      std::lock_guard guard(lock_);
      throw DeviceError(text(name_, " does not run any more since an error: ", error_));
    }
    Result result = driver_.cuCtxSetCurrent(context_);
    if (result != kSuccess) driver_.check(result, "choosing the device");
  }

  // Pieces of work in the stream have numbers, in the order in which they were queued. What is queued gets its number,
  // and so do the buffers that it touches, at the end of this: whoever reads queued_ and then waits for the stream has
  // waited for all of that.
  class Used {
   public:
    explicit Used(CudaDevice& device) : device_(device) {}
    ~Used() {
      const uint64_t work = device_.queued_.fetch_add(1) + 1;
      for (const CudaBuffer* buffer : buffers_) buffer->use(work);
    }
    Used(const Used&) = delete;
    Used& operator=(const Used&) = delete;
    void by(const CudaBuffer& buffer) { buffers_.push_back(&buffer); }
    void by(std::span<const LaunchSegment> segments) {
      for (const LaunchSegment& segment : segments)
        for (const BufferPart& part : segment.buffers)
          if (part.buffer) by(*static_cast<const CudaBuffer*>(part.buffer));
    }

   private:
    CudaDevice& device_;
    SmallVector<const CudaBuffer*, 16> buffers_;
  };

  void is_done(uint64_t work) {
    uint64_t known = done_.load(std::memory_order_relaxed);
    while (known < work && !done_.compare_exchange_weak(known, work)) continue;
    noted_.store(0, std::memory_order_relaxed);
  }
  // While kernels run that were queued before, unless they may still need what the memory holds. Kernels that are
  // queued later wait for the copy.
  void copy_beside(const CudaBuffer& to, Address address, const void* from, uint64_t bytes) {
    std::lock_guard guard(copying_);
    if (to.last_use() > done_.load(std::memory_order_relaxed)) {
      check(driver_.cuEventRecord(free_, stream_), "copying to the device");
      check(driver_.cuStreamWaitEvent(copies_, free_, 0), "copying to the device");
    }
    Used used(*this);
    used.by(to);
    check(staging_beside_.to_device(copies_, address, from, bytes), "copying to the device");
    check(driver_.cuEventRecord(copied_, copies_), "copying to the device");
    check(driver_.cuStreamWaitEvent(stream_, copied_, 0), "copying to the device");
  }

  void append(std::span<const Submission> launches, Calls& calls, Used& used) {
    calls.clear();
    for (const Submission& launch : launches) {
      const auto& code = static_cast<const CudaExecutable&>(*launch.executable);
      code.append(*this, launch.segments, calls);
      used.by(launch.segments);
      note(code.kernel().name);
    }
  }

  // Null where the driver does not take it.
  Function set_condition() {
    std::lock_guard guard(lock_);
    if (!set_condition_) set_condition_ = load_set_condition(driver_);
    return *set_condition_;
  }

  // The names of what was launched since the host last waited; the last ones.
  void note(const std::string& kernel) {
    uint32_t place = noted_.fetch_add(1, std::memory_order_relaxed);
    std::lock_guard guard(lock_);
    recent_[place % recent_.size()] = kernel;  // reuses its memory
  }

  void check(Result result, const char* what) {
    if (result == kSuccess) return;
    std::lock_guard guard(lock_);
    std::string message = text(name_, ": ", what, ": ", driver_.describe(result));
    const uint32_t count = noted_.load(std::memory_order_relaxed);
    if (count > 0) {
      message += "; launched before, the last one first: ";
      for (uint32_t i = 0; i < std::min<uint32_t>(count, recent_.size()); ++i)
        message += text(i > 0 ? ", " : "", recent_[(count - 1 - i) % recent_.size()]);
    }
    // What a kernel did wrong cannot be undone: the driver refuses everything from here on.
    constexpr Result kUnrecoverable[] = {700, 702, 709, 710, 714, 715, 716, 717, 718, 719};
    if (std::ranges::find(kUnrecoverable, result) != std::end(kUnrecoverable)) {
      error_ = message;
      broken_ = true;
    }
    throw DeviceError(message);
  }

  const Driver& driver_;
  const int ordinal_;
  std::string name_;
  Context context_;
  Target target_, tf32_target_;
  MemoryPool memory_;
  Staging staging_, staging_beside_;  // of each stream
  Stream stream_ = nullptr, copies_ = nullptr;
  Mutex copying_;
  Event free_ = nullptr, copied_ = nullptr;
  Mutex lending_;
  Event lent_ = nullptr;
  std::atomic<uint64_t> queued_{0}, done_{0};
  std::atomic<bool> broken_{false};
  std::atomic<uint32_t> noted_{0};
  mutable Mutex lock_;  // of what follows
  std::optional<Function> set_condition_;
  std::string error_;
  std::array<std::string, 8> recent_;
};

CudaBuffer::CudaBuffer(CudaDevice& device, uint64_t bytes)
    : DeviceBuffer(device, bytes),
      device_(device),
      memory_(device.pool().allocate(bytes)),
      last_use_(memory_.last_use) {
  address_ = reinterpret_cast<void*>(memory_.address);
}
CudaBuffer::CudaBuffer(CudaDevice& device, std::shared_ptr<const void> memory, uint64_t bytes)
    : DeviceBuffer(device, bytes), device_(device), owner_(std::move(memory)), last_use_(0) {
  address_ = const_cast<void*>(owner_.get());
}
CudaBuffer::~CudaBuffer() {
  if (owner_) {
    device_.finish(last_use());
  } else {
    memory_.last_use = last_use();
    device_.pool().release(memory_);
  }
}

// A copy, made anew each time because the memory may have been written since.
const void* CudaBuffer::host_data() const {
  std::lock_guard guard(lock_);
  if (!copy_) copy_ = std::make_unique_for_overwrite<std::byte[]>(std::max<uint64_t>(bytes(), 1));
  device_.copy_to_host(copy_.get(), *this, bytes());
  return copy_.get();
}

std::unique_ptr<Backend> make_cuda_device(int ordinal) {
  const Driver& found = driver();
  int count = 0;
  found.check(found.cuDeviceGetCount(&count), "counting devices");
  if (ordinal >= count)
    throw DeviceError(text("cuda: there is no device ", ordinal, ": the driver has ", count, " of them"));
  DeviceNumber number = 0;
  Context context = nullptr;
  size_t bytes = 0;
  found.check(found.cuDeviceGet(&number, ordinal), "finding the device");
  found.check(found.cuDevicePrimaryCtxRetain(&context, number), "opening the device");
  found.check(found.cuCtxSetCurrent(context), "choosing the device");
  found.check(found.cuDeviceTotalMem_v2(&bytes, number), "asking for the device's memory");
  return std::make_unique<CudaDevice>(found, ordinal, number, context, bytes);
}

int count_devices() {
  try {
    const Driver& found = driver();
    int count = 0;
    return found.cuDeviceGetCount(&count) == kSuccess ? count : 0;
  } catch (const DeviceError&) {  // no driver, or one that cannot be used here
    return 0;
  }
}

struct Registrar {
  Registrar() { register_device("cuda", make_cuda_device, count_devices, {kDeviceMemory, kManagedMemory}); }
} registrar;

}  // namespace
}  // namespace heddle::cuda
