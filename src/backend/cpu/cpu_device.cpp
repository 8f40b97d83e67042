// The CPU: kernels compiled by LLVM, blocks shared out over a thread pool, memory from a caching pool.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

#include "backend/cpu/memory_pool.h"
#include "backend/cpu/thread_pool.h"
#include "base/config.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "codegen/codegen.h"
#include "kernel/work_estimate.h"
#include "runtime/device.h"

namespace heddle {
namespace {

// Less than this is not worth handing to other threads: while they spin, and when they have to be woken first.
constexpr double kWorthSharing = 2'000, kWorthWaking = 15'000;
// No thread gets less work than this.
constexpr double kShare = 1'000;
// Shareable launches that follow each other within this time keep the workers awake.
constexpr int64_t kBusyGap = 200'000;
// Where several threads launch at the same time, less than this is done by the thread that has it: it would wait for
// the others' turns. The second number is for as many threads as the pool has.
constexpr double kWorthWaiting = 20'000, kWorthWaitingInCrowd = 200'000;
// After so much work whoever called is asked whether to go on; after so many rounds of a kernel that takes rounds, too.
constexpr double kPiece = 5'000'000;
constexpr int64_t kRounds = 64;

class CpuBuffer final : public DeviceBuffer {
 public:
  CpuBuffer(Backend& device, MemoryPool& pool, uint64_t bytes)
      : DeviceBuffer(device, bytes), pool_(pool), memory_(pool.allocate(bytes)) {
    address_ = memory_.address;
  }
  ~CpuBuffer() override { pool_.release(memory_); }
  CpuBuffer(const CpuBuffer&) = delete;
  CpuBuffer& operator=(const CpuBuffer&) = delete;

  const void* host_data() const override { return memory_.address; }

 private:
  MemoryPool& pool_;
  MemoryPool::Block memory_;
};

// Memory of somebody else.
class SharedBuffer final : public DeviceBuffer {
 public:
  SharedBuffer(Backend& device, std::shared_ptr<const void> memory, uint64_t bytes)
      : DeviceBuffer(device, bytes), memory_(std::move(memory)) {
    address_ = const_cast<void*>(memory_.get());
  }
  bool is_shared() const override { return true; }
  const void* host_data() const override { return memory_.get(); }

 private:
  std::shared_ptr<const void> memory_;
};

class CpuExecutable final : public Executable {
 public:
  struct Phase {
    PhaseFunction function;
    int64_t blocks;  // -1: depends on symbols
    WorkEstimate block;
  };

  CpuExecutable(const kernel::Kernel& kernel, CompiledKernel compiled)
      : kernel_(kernel), compiled_(std::move(compiled)) {
    HD_ASSERT(compiled_.phases.size() == kernel_.phases.size(), "kernel ", kernel_.name);
    for (size_t i = 0; i < kernel_.phases.size(); ++i) {
      Expr blocks = 1;
      for (const Expr& block : kernel_.phases[i].blocks) blocks = blocks * block.extent();
      phases_.push_back(
          {compiled_.phases[i], blocks.is_const() ? blocks.value() : -1, estimate_block(kernel_, kernel_.phases[i])});
    }
  }

  const kernel::Kernel& kernel() const override { return kernel_; }
  std::span<const Phase> phases() const { return phases_; }
  uint64_t scratch_bytes() const { return static_cast<uint64_t>(compiled_.scratch_bytes); }

  int64_t blocks(size_t phase, std::span<const int64_t> symbols) const {
    if (phases_[phase].blocks >= 0) return phases_[phase].blocks;
    int64_t total = 1;
    for (const Expr& block : kernel_.phases[phase].blocks)
      total *= evaluate(block.extent(), symbol_values(kernel_, symbols));
    return total;
  }
  double block_nanoseconds(size_t phase, std::span<const int64_t> symbols) const {
    const WorkEstimate& block = phases_[phase].block;
    return block.loops.empty() ? block.nanoseconds : evaluate(block, symbol_values(kernel_, symbols));
  }
  int64_t rounds(std::span<const int64_t> symbols) const {
    return kernel_.rounds ? evaluate(kernel_.phases[0].blocks[0].extent(), symbol_values(kernel_, symbols)) : 1;
  }

 private:
  kernel::Kernel kernel_;
  CompiledKernel compiled_;
  std::vector<Phase> phases_;
};

// Memory of a thread for the Shared buffers of the kernels it runs, kept from one kernel to the next.
class Scratch {
 public:
  ~Scratch() { clear(); }
  void* at_least(uint64_t bytes) {
    if (bytes <= bytes_) return address_;
    clear();
    uint64_t wanted = (bytes + 4095) / 4096 * 4096;
    address_ = std::aligned_alloc(MemoryPool::kAlignment, wanted);
    if (!address_) throw OutOfMemory(text("cpu: out of memory: wanted ", bytes, " bytes of scratch for a kernel"));
    bytes_ = wanted;
    return address_;
  }

 private:
  void clear() {
    std::free(address_);
    address_ = nullptr;
    bytes_ = 0;
  }
  void* address_ = nullptr;
  uint64_t bytes_ = 0;
};
thread_local Scratch scratch;

// Of a launch that can be stopped: whether it is. The thread that launches asks, all others look.
struct Stop {
  std::thread::id asker = std::this_thread::get_id();
  std::atomic<bool> stopped{false};

  bool now() {
    if (std::this_thread::get_id() == asker && is_interrupted()) stopped.store(true, std::memory_order_relaxed);
    return stopped.load(std::memory_order_relaxed);
  }
};

// One phase of all segments, as the parts of a pool job.
struct PhaseJob {
  struct Range {  // of one segment
    void* const* buffers;
    const int64_t* symbols;
    int64_t first, blocks;  // blocks from `first` on
    double end;             // nanoseconds of work up to the end of this segment, all before included
  };
  PhaseFunction function;
  std::span<const Range> ranges;
  uint64_t scratch_bytes;
  Stop* stop;  // null: it is short, or nobody would stop it
  int64_t parts = 1;

  double nanoseconds() const { return ranges.empty() ? 0 : ranges.back().end; }

  // Where a part begins: so much of the work lies before. Blocks stay whole.
  struct Place {
    size_t range;
    int64_t block;
  };
  Place place(int64_t part) const {
    if (part == 0) return {0, 0};
    if (part == parts) return {ranges.size(), 0};
    double before = nanoseconds() * static_cast<double>(part) / static_cast<double>(parts);
    auto it = std::partition_point(ranges.begin(), ranges.end(), [&](const Range& r) { return r.end <= before; });
    if (it == ranges.end()) return {ranges.size(), 0};
    double start = it == ranges.begin() ? 0 : std::prev(it)->end;
    double share = (before - start) / (it->end - start);
    return {static_cast<size_t>(it - ranges.begin()), std::llround(share * static_cast<double>(it->blocks))};
  }
  void run(Place from, Place to) const {
    void* memory = scratch.at_least(scratch_bytes);
    for (size_t i = from.range; i < ranges.size() && i <= to.range; ++i) {
      const Range& r = ranges[i];
      int64_t begin = i == from.range ? from.block : 0, end = i == to.range ? to.block : r.blocks;
      const int64_t piece = stop && begin < end ? piece_of(i) : end - begin;
      for (; begin < end && !(stop && stop->now()); begin += piece)
        function(r.buffers, r.symbols, r.first + begin, r.first + std::min(begin + piece, end), memory);
    }
  }
  // So many blocks are about kPiece of work.
  int64_t piece_of(size_t range) const {
    const double work = ranges[range].end - (range == 0 ? 0 : ranges[range - 1].end);
    if (work <= kPiece) return ranges[range].blocks;
    return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(ranges[range].blocks) * kPiece / work));
  }
  static void run_part(void* context, int part) {
    const auto& job = *static_cast<const PhaseJob*>(context);
    job.run(job.place(part), job.place(part + 1));
  }
};

class CpuDevice final : public Backend {
 public:
  CpuDevice()
      : target_(host_target()),
        memory_(config().memory_limit > 0 ? static_cast<uint64_t>(config().memory_limit) : physical_memory()),
        pool_(config().threads > 0 ? config().threads : available_cores()) {}

  const std::string& name() const override { return name_; }
  const Target& target() const override { return target_; }
  int threads() const override { return pool_.threads(); }

  std::shared_ptr<DeviceBuffer> allocate(uint64_t bytes) override {
    return std::make_shared<CpuBuffer>(*this, memory_, bytes);
  }
  std::shared_ptr<DeviceBuffer> share(const std::shared_ptr<const void>& memory, uint64_t bytes) override {
    if (reinterpret_cast<uintptr_t>(memory.get()) % 64 != 0) return nullptr;
    return std::make_shared<SharedBuffer>(*this, memory, bytes);
  }
  void copy_from_host(DeviceBuffer& to, const void* from, uint64_t bytes) override {
    HD_ASSERT(bytes <= to.bytes());
    if (bytes) std::memcpy(to.address(), from, bytes);
  }
  void copy_to_host(void* to, const DeviceBuffer& from, uint64_t bytes) override {
    HD_ASSERT(bytes <= from.bytes());
    if (bytes) std::memcpy(to, from.address(), bytes);
  }
  void copy(const BufferPart& to, const BufferPart& from) override;
  std::shared_ptr<Executable> compile(const kernel::Kernel& kernel, std::string* code) override {
    return std::make_shared<CpuExecutable>(kernel, compile_host(kernel, target_, code));
  }
  std::shared_ptr<Executable> load(const kernel::Kernel& kernel, const std::string& code) override {
    return std::make_shared<CpuExecutable>(kernel, load_host(kernel, code));
  }
  std::string code_version() const override { return code_generator(); }
  std::vector<CodeText> texts(const kernel::Kernel& kernel, const Target& target) const override {
    return {{".ll", llvm_ir(kernel, target)}, {".s", host_assembly(kernel, target)}};
  }
  void launch(const Executable& executable, std::span<const LaunchSegment> segments) override;
  void synchronize() override {}  // a launch returns when it is done
  Memory memory() const override { return {memory_.used(), memory_.cached(), memory_.peak(), memory_.limit()}; }
  void free_cached() override { memory_.free_cached(); }

  void stop() { pool_.stop(); }

 private:
  // A launch that may be worth sharing.
  struct Caller {
    explicit Caller(CpuDevice& on) : device(on), others(on.callers_.fetch_add(1)) {}
    ~Caller() { device.callers_.fetch_sub(1); }
    Caller(const Caller&) = delete;
    Caller& operator=(const Caller&) = delete;

    CpuDevice& device;
    const int others;
  };
  bool worth_sharing(double nanoseconds, const std::optional<Caller>& caller);

  std::string name_ = "cpu";
  Target target_;
  MemoryPool memory_;
  ThreadPool pool_;
  std::atomic<int64_t> last_shareable_{0}, last_crowd_{-kBusyGap};
  std::atomic<int> callers_{0};
};

bool CpuDevice::worth_sharing(double nanoseconds, const std::optional<Caller>& caller) {
  if (!caller) return false;
  int64_t now = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  if (caller->others > 0) last_crowd_.store(now, std::memory_order_relaxed);
  const double least = caller->others + 1 < pool_.threads() ? kWorthWaiting : kWorthWaitingInCrowd;
  if (nanoseconds < least && now - last_crowd_.load(std::memory_order_relaxed) < kBusyGap) return false;
  int64_t gap = now - last_shareable_.exchange(now, std::memory_order_relaxed);
  if (nanoseconds >= kWorthWaking || pool_.awake()) return true;
  if (gap < kBusyGap) pool_.nudge();  // this launch is better off alone, the next one will find them awake
  return false;
}

void CpuDevice::launch(const Executable& executable, std::span<const LaunchSegment> segments) {
  const auto& code = static_cast<const CpuExecutable&>(executable);
  const kernel::Kernel& kernel = code.kernel();
  for (const LaunchSegment& segment : segments)
    HD_ASSERT(segment.buffers.size() == kernel.buffers.size() && segment.symbols.size() == kernel.symbols.size(),
              "launch of ", kernel.name, " with ", segment.buffers.size(), " buffers and ", segment.symbols.size(),
              " symbols");
  HD_ASSERT(segments.size() == 1 || !kernel.rounds, "rounds of several segments: ", kernel.name);
  const size_t phases = code.phases().size();
  const int64_t rounds = segments.empty() ? 1 : code.rounds(segments[0].symbols);
  SmallVector<void*, 32> addresses;  // of all segments
  for (const LaunchSegment& segment : segments)
    for (const BufferPart& part : segment.buffers) addresses.push_back(part.address());
  SmallVector<PhaseJob::Range, 4> ranges;  // phase after phase
  SmallVector<PhaseJob, 4> jobs;
  double largest = 0;
  for (size_t i = 0; i < phases; ++i) {
    double work = 0;
    void* const* buffers = addresses.data();
    for (const LaunchSegment& segment : segments) {
      const bool done = i < 64 && (segment.done >> i & 1) != 0;
      int64_t blocks = done ? 0 : code.blocks(i, segment.symbols) / rounds;
      work += static_cast<double>(blocks) * code.block_nanoseconds(i, segment.symbols);
      ranges.push_back({buffers, segment.symbols.data(), 0, blocks, work});
      buffers += segment.buffers.size();
    }
    largest = std::max(largest, work * static_cast<double>(rounds));
  }
  std::optional<Stop> stop;
  if ((largest > kPiece || rounds > kRounds) && may_be_interrupted()) stop.emplace();
  for (size_t i = 0; i < phases; ++i)
    jobs.push_back({code.phases()[i].function, std::span(ranges.begin() + i * segments.size(), segments.size()),
                    code.scratch_bytes(), stop && largest > kPiece ? &*stop : nullptr});

  auto each_phase = [&](auto run) {
    for (int64_t round = 0; round < rounds; ++round) {
      if (stop && round % kRounds == 0 && stop->now()) break;
      for (PhaseJob::Range& range : ranges) range.first = round * range.blocks;
      for (PhaseJob& job : jobs) run(job);
    }
    if (stop && stop->stopped) interrupt::stop();
  };
  std::optional<Caller> caller;
  if (largest >= kWorthSharing && pool_.threads() > 1) caller.emplace(*this);
  if (!worth_sharing(largest, caller)) {
    each_phase([](const PhaseJob& job) { job.run({0, 0}, {job.ranges.size(), 0}); });
    return;
  }
  ThreadPool::Turn turn(pool_);
  each_phase([&](PhaseJob& job) {
    int64_t blocks = 0;
    for (const PhaseJob::Range& range : job.ranges) blocks += range.blocks;
    if (blocks <= 0) return;
    double shares = job.nanoseconds() / kShare;
    job.parts = std::min<int64_t>(blocks, pool_.threads());
    if (shares < static_cast<double>(job.parts)) job.parts = std::max<int64_t>(1, static_cast<int64_t>(shares));
    turn.run(static_cast<int>(job.parts), PhaseJob::run_part, &job);
  });
}

// Large copies are divided among the threads.
void CpuDevice::copy(const BufferPart& to, const BufferPart& from) {
  constexpr uint64_t kWorthDividing = uint64_t{4} << 20, kUnit = 4096;
  const uint64_t bytes = to.bytes;
  HD_ASSERT(bytes <= from.bytes);
  if (bytes == 0) return;
  if (bytes < kWorthDividing || pool_.threads() == 1) return void(std::memcpy(to.address(), from.address(), bytes));
  struct Job {
    std::byte* to;
    const std::byte* from;
    uint64_t bytes, each;
  } job{static_cast<std::byte*>(to.address()), static_cast<const std::byte*>(from.address()), bytes, 0};
  const auto parts = static_cast<uint64_t>(pool_.threads());
  job.each = (bytes / parts + kUnit) / kUnit * kUnit;
  ThreadPool::Turn turn(pool_);
  turn.run(
      pool_.threads(),
      [](void* context, int part) {
        const Job& all = *static_cast<const Job*>(context);
        const uint64_t begin = std::min(all.bytes, static_cast<uint64_t>(part) * all.each);
        std::memcpy(all.to + begin, all.from + begin, std::min(all.each, all.bytes - begin));
      },
      &job);
}

// The device is never destroyed, because buffers may outlive everything else; only its threads end with the process.
CpuDevice* the_device = nullptr;

std::unique_ptr<Backend> make_cpu_device(int number) {
  if (number > 0) throw DeviceError(text("there is one cpu, and no cpu:", number));
  auto made = std::make_unique<CpuDevice>();
  the_device = made.get();
  std::atexit([] { the_device->stop(); });
  return made;
}

struct Registrar {
  Registrar() { register_device("cpu", make_cpu_device); }
} registrar;

}  // namespace
}  // namespace heddle
