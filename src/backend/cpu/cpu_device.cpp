// The CPU: kernels compiled by LLVM, cells shared out over a thread pool, memory from a caching pool.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "backend/cpu/memory_pool.h"
#include "backend/cpu/thread_pool.h"
#include "backend/cpu/work_estimate.h"
#include "base/config.h"
#include "base/error.h"
#include "codegen/codegen.h"
#include "runtime/device.h"

namespace heddle {
namespace {

// Less than this is not worth handing to other threads: while they spin, and when they have to be woken first.
constexpr double kWorthSharing = 2'000, kWorthWaking = 15'000;
// No thread gets less work than this.
constexpr double kShare = 1'000;
// Shareable launches that follow each other within this time keep the workers awake.
constexpr int64_t kBusyGap = 200'000;

class CpuBuffer final : public DeviceBuffer {
 public:
  CpuBuffer(Device& device, MemoryPool& pool, uint64_t bytes)
      : device_(device), pool_(pool), bytes_(bytes), block_(pool.allocate(bytes)) {}
  ~CpuBuffer() override { pool_.release(block_); }
  CpuBuffer(const CpuBuffer&) = delete;
  CpuBuffer& operator=(const CpuBuffer&) = delete;

  Device& device() const override { return device_; }
  void* address() const override { return block_.address; }
  const void* host_data() const override { return block_.address; }
  uint64_t bytes() const override { return bytes_; }

 private:
  Device& device_;
  MemoryPool& pool_;
  uint64_t bytes_;
  MemoryPool::Block block_;
};

class CpuExecutable final : public Executable {
 public:
  struct Phase {
    PhaseFunction function;
    int64_t cells;  // -1: depends on symbols
    WorkEstimate cell;
  };

  CpuExecutable(const kernel::Kernel& kernel, const Target& target)
      : kernel_(kernel), compiled_(compile_host(kernel, target)) {
    HD_ASSERT(compiled_.phases.size() == kernel_.phases.size(), "kernel ", kernel_.name);
    for (size_t i = 0; i < kernel_.phases.size(); ++i) {
      Expr cells = 1;
      for (const Expr& cell : kernel_.phases[i].cells) cells = cells * cell.extent();
      phases_.push_back(
          {compiled_.phases[i], cells.is_const() ? cells.value() : -1, estimate_cell(kernel_, kernel_.phases[i])});
    }
  }

  const kernel::Kernel& kernel() const override { return kernel_; }
  std::span<const Phase> phases() const { return phases_; }
  uint64_t scratch_bytes() const { return static_cast<uint64_t>(compiled_.scratch_bytes); }

  int64_t cells(size_t phase, std::span<const int64_t> symbols) const {
    if (phases_[phase].cells >= 0) return phases_[phase].cells;
    int64_t total = 1;
    for (const Expr& cell : kernel_.phases[phase].cells) total *= evaluate(cell.extent(), value_of(symbols));
    return total;
  }
  double cell_nanoseconds(size_t phase, std::span<const int64_t> symbols) const {
    const WorkEstimate& cell = phases_[phase].cell;
    return cell.loops.empty() ? cell.nanoseconds : evaluate(cell, value_of(symbols));
  }
  int64_t rounds(std::span<const int64_t> symbols) const {
    return kernel_.rounds ? evaluate(kernel_.phases[0].cells[0].extent(), value_of(symbols)) : 1;
  }

 private:
  std::function<int64_t(const Expr&)> value_of(std::span<const int64_t> symbols) const {
    return [this, symbols](const Expr& variable) {
      for (size_t i = 0; i < kernel_.symbols.size(); ++i)
        if (kernel_.symbols[i] == variable) return symbols[i];
      internal_error(__FILE__, __LINE__, text("kernel ", kernel_.name, " has no symbol ", variable));
    };
  }

  kernel::Kernel kernel_;
  CompiledKernel compiled_;
  std::vector<Phase> phases_;
};

// Memory of a thread for the Local buffers of the kernels it runs, kept from one kernel to the next.
class Scratch {
 public:
  ~Scratch() { clear(); }
  void* at_least(uint64_t bytes) {
    if (bytes <= bytes_) return address_;
    clear();
    uint64_t wanted = (bytes + 4095) / 4096 * 4096;
    address_ = std::aligned_alloc(MemoryPool::kAlignment, wanted);
    if (!address_) throw OutOfMemory(text("out of memory: wanted ", bytes, " bytes of scratch for a kernel"));
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

// One phase, as the parts of a pool job.
struct PhaseJob {
  PhaseFunction function;
  void* const* buffers;
  const int64_t* symbols;
  int64_t first, cells, parts;  // cells from `first` on
  uint64_t scratch_bytes;

  void run(int64_t begin, int64_t end) const {
    function(buffers, symbols, first + begin, first + end, scratch.at_least(scratch_bytes));
  }
  static void run_part(void* context, int part) {
    const auto& job = *static_cast<const PhaseJob*>(context);
    int64_t size = job.cells / job.parts, longer = job.cells % job.parts;  // the first `longer` parts get one more
    int64_t begin = part * size + std::min<int64_t>(part, longer);
    job.run(begin, begin + size + (part < longer));
  }
};

class CpuDevice final : public Device {
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
  void copy_from_host(DeviceBuffer& to, const void* from, uint64_t bytes) override {
    HD_ASSERT(bytes <= to.bytes());
    if (bytes) std::memcpy(to.address(), from, bytes);
  }
  void copy_to_host(void* to, const DeviceBuffer& from, uint64_t bytes) override {
    HD_ASSERT(bytes <= from.bytes());
    if (bytes) std::memcpy(to, from.address(), bytes);
  }
  std::shared_ptr<Executable> compile(const kernel::Kernel& kernel) override {
    return std::make_shared<CpuExecutable>(kernel, target_);
  }
  void launch(const Executable& executable, std::span<void* const> buffers, std::span<const int64_t> symbols) override;
  void synchronize() override {}  // a launch returns when it is done
  Memory memory() const override { return {memory_.used(), memory_.cached(), memory_.peak(), memory_.limit()}; }
  void free_cached() override { memory_.free_cached(); }

  void stop() { pool_.stop(); }

 private:
  bool worth_sharing(double nanoseconds);

  std::string name_ = "cpu";
  Target target_;
  MemoryPool memory_;
  ThreadPool pool_;
  std::atomic<int64_t> last_shareable_{0};
};

bool CpuDevice::worth_sharing(double nanoseconds) {
  if (nanoseconds < kWorthSharing || pool_.threads() == 1) return false;
  int64_t now = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  int64_t gap = now - last_shareable_.exchange(now, std::memory_order_relaxed);
  if (nanoseconds >= kWorthWaking || pool_.awake()) return true;
  if (gap < kBusyGap) pool_.nudge();  // this launch is better off alone, the next one will find them awake
  return false;
}

void CpuDevice::launch(const Executable& executable, std::span<void* const> buffers, std::span<const int64_t> symbols) {
  const auto& code = static_cast<const CpuExecutable&>(executable);
  HD_ASSERT(buffers.size() == code.kernel().buffers.size() && symbols.size() == code.kernel().symbols.size(),
            "launch of ", code.kernel().name, " with ", buffers.size(), " buffers and ", symbols.size(), " symbols");
  double largest = 0;
  SmallVector<int64_t, 4> grid;
  SmallVector<double, 4> work;  // of a whole phase, in nanoseconds
  for (size_t i = 0; i < code.phases().size(); ++i) {
    grid.push_back(code.cells(i, symbols));
    work.push_back(static_cast<double>(grid[i]) * code.cell_nanoseconds(i, symbols));
    largest = std::max(largest, work[i]);
  }

  const int64_t rounds = code.rounds(symbols);
  auto each_phase = [&](auto run) {
    for (int64_t round = 0; round < rounds; ++round)
      for (size_t i = 0; i < code.phases().size(); ++i) {
        int64_t cells = grid[i] / rounds;
        if (cells <= 0) continue;
        run(PhaseJob{code.phases()[i].function, buffers.data(), symbols.data(), round * cells, cells, 1,
                     code.scratch_bytes()},
            work[i] / static_cast<double>(rounds));
      }
  };
  if (!worth_sharing(largest)) {
    each_phase([](const PhaseJob& job, double) { job.run(0, job.cells); });
    return;
  }
  ThreadPool::Turn turn(pool_);
  each_phase([&](PhaseJob job, double nanoseconds) {
    double shares = nanoseconds / kShare;
    job.parts = std::min<int64_t>(job.cells, pool_.threads());
    if (shares < static_cast<double>(job.parts)) job.parts = std::max<int64_t>(1, static_cast<int64_t>(shares));
    turn.run(static_cast<int>(job.parts), PhaseJob::run_part, &job);
  });
}

// The device is never destroyed, because buffers may outlive everything else; only its threads end with the process.
CpuDevice* the_device = nullptr;

std::unique_ptr<Device> make_cpu_device() {
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
