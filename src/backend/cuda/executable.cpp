#include "backend/cuda/executable.h"

#include <algorithm>
#include <array>

#include "backend/cuda/tensor_map.h"
#include "base/error.h"
#include "base/log.h"
#include "codegen/nvptx.h"

namespace heddle::cuda {
namespace {

// Tables that a kernel keeps: those of a few plans that take turns.
constexpr size_t kTables = 8;
constexpr int kPtx = 1;  // kind of input for the driver's linker
constexpr int kErrorLog = 5, kErrorLogBytes = 6;

uint64_t address_of(const BufferPart& part) { return reinterpret_cast<uint64_t>(part.address()); }

bool is_done(const LaunchSegment& segment, size_t phase) { return phase < 64 && (segment.done >> phase & 1) != 0; }

}  // namespace

// The linker assembles code as if more could be linked to it. Where threads trade registers, that makes them stay where
// they are, and products of a matrix unit that need them wait for each other. Such code stays PTX: the driver assembles
// it whole when it is loaded, and keeps the result itself.
std::string assemble(const Driver& driver, const kernel::Kernel& kernel, const Target& target, bool many) {
  std::string source = ptx(kernel, target, many);
  if (source.find("setmaxnreg") != std::string::npos) return source;
  std::array<char, 8192> log{};
  int options[] = {kErrorLog, kErrorLogBytes};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
  Linker linker = nullptr;
  driver.check(driver.cuLinkCreate_v2(2, options, values, &linker), "starting the assembler");
  struct Closer {
    const Driver& driver;
    Linker linker;
    ~Closer() { driver.cuLinkDestroy(linker); }
  } closer{driver, linker};
  void* cubin = nullptr;
  size_t bytes = 0;
  Result result =
      driver.cuLinkAddData_v2(linker, kPtx, source.data(), source.size() + 1, kernel.name.c_str(), 0, nullptr, nullptr);
  if (result == kSuccess) result = driver.cuLinkComplete(linker, &cubin, &bytes);
  if (result != kSuccess)
    throw CompileError(text("kernel ", kernel.name, ": the driver does not assemble it: ", driver.describe(result),
                            log[0] ? "\n" : "", log.data()));
  return {static_cast<const char*>(cubin), bytes};
}

CudaExecutable::CudaExecutable(const Driver& driver, Context context, const Target& target,
                               const kernel::Kernel& kernel, const std::string& code)
    : driver_(driver),
      context_(context),
      target_(target),
      kernel_(kernel),
      maps_(kernel::tensor_maps(kernel_)),
      shared_bytes_(static_cast<unsigned>(shared_bytes(kernel))) {
  for (const kernel::Phase& phase : kernel_.phases) {
    Expr count = 1;
    for (const Expr& block : phase.blocks) count = count * block.extent();
    phase_blocks_.push_back(count.is_const() ? count.value() : -1);
  }
  single_ = load(code, "");
}

CudaExecutable::~CudaExecutable() {
  // After an error of the device, and in a child of fork(), nothing can be freed; nor does it matter.
  if (driver_.is_inherited() || driver_.cuCtxSetCurrent(context_) != kSuccess) return;
  if (single_.library) driver_.cuLibraryUnload(single_.library);
  if (many_.library) driver_.cuLibraryUnload(many_.library);
}

// The driver assembles PTX of libraries for several threads at once, that of modules for one after the other.
CudaExecutable::Entries CudaExecutable::load(const std::string& code, const char* ending) const {
  Entries entries;
  Module module = nullptr;
  Result loaded = driver_.cuLibraryLoadData(&entries.library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (loaded == kSuccess && (loaded = driver_.cuLibraryGetModule(&module, entries.library)) != kSuccess)
    driver_.cuLibraryUnload(entries.library);
  if (loaded != kSuccess)
    throw CompileError(text("kernel ", kernel_.name, ": the driver does not load it: ", driver_.describe(loaded)));
  for (size_t phase = 0; phase < kernel_.phases.size(); ++phase) {
    Function function = nullptr;
    Result result =
        driver_.cuModuleGetFunction(&function, module, (entry_name(kernel_, static_cast<int>(phase)) + ending).c_str());
    if (result == kSuccess && shared_bytes_ > 0)
      result = driver_.cuFuncSetAttribute(function, kDynamicSharedBytes, static_cast<int>(shared_bytes_));
    if (result != kSuccess) {
      driver_.cuLibraryUnload(entries.library);
      throw CompileError(text("kernel ", kernel_.name, ", phase ", phase, ": ", driver_.describe(result)));
    }
    entries.functions.push_back(function);
  }
  return entries;
}

const CudaExecutable::Entries& CudaExecutable::many() const {
  if (!many_.library) many_ = load(assemble(driver_, kernel_, target_, true), "_many");
  return many_;
}

void CudaExecutable::expect_segments(size_t count) const {
  if (count < 2 || !maps_.empty()) return;
  driver_.check(driver_.cuCtxSetCurrent(context_), "choosing the device");
  std::lock_guard guard(lock_);
  many();
}

int64_t CudaExecutable::blocks(size_t phase, std::span<const int64_t> symbols) const {
  if (phase_blocks_[phase] >= 0) return phase_blocks_[phase];
  int64_t total = 1;
  for (const Expr& block : kernel_.phases[phase].blocks)
    total *= evaluate(block.extent(), symbol_values(kernel_, symbols));
  return total;
}

int64_t CudaExecutable::rounds(std::span<const int64_t> symbols) const {
  return kernel_.rounds ? evaluate(kernel_.phases[0].blocks[0].extent(), symbol_values(kernel_, symbols)) : 1;
}

void Calls::clear() {
  calls.clear();
  words.clear();
  touched.clear();
  keep.clear();
}

void Calls::add(Function function, int64_t blocks, int threads, unsigned shared_bytes) {
  calls.push_back({function, static_cast<unsigned>(blocks), static_cast<unsigned>(threads), shared_bytes,
                   static_cast<uint32_t>(words.size()), 0, 0, static_cast<uint32_t>(touched.size()), 0});
}

void Calls::touch(const Touch& touch) {
  touched.push_back(touch);
  ++calls.back().touches;
}

void Calls::word(uint64_t value) {
  words.push_back(value);
  ++calls.back().count;
}

void Calls::map(std::span<const uint64_t, 16> value) {
  words.insert(words.end(), value.begin(), value.end());
  calls.back().count += 16;
  ++calls.back().maps;
}

void Calls::addresses(const Call& call, std::vector<void*>& out) {
  out.clear();
  const uint32_t plain = call.count - call.maps * 16;
  for (uint32_t i = 0; i < plain; ++i) out.push_back(&words[call.first + i]);
  for (uint32_t i = 0; i < call.maps; ++i) out.push_back(&words[call.first + plain + i * 16]);
}

void CudaExecutable::append_phase(Function function, int64_t count, std::span<const LaunchSegment> segments,
                                  Calls& out) const {
  constexpr int64_t kMostBlocks = (int64_t{1} << 31) - 1;
  if (count > kMostBlocks)
    throw DeviceError(
        text("cuda: kernel ", kernel_.name, " needs ", count, " blocks; a launch has at most ", kMostBlocks));
  out.add(function, count, kernel_.threads, shared_bytes_);
  for (const LaunchSegment& segment : segments)
    for (size_t b = 0; b < kernel_.buffers.size(); ++b) {
      const kernel::Buffer& buffer = kernel_.buffers[b];
      const auto begin = address_of(segment.buffers[b]);
      if (buffer.space == kernel::Space::Shared || begin == 0) continue;
      const int64_t count_now =
          buffer.size.is_const() ? buffer.size.value() : evaluate(buffer.size, symbol_values(kernel_, segment.symbols));
      out.touch({begin, begin + static_cast<uint64_t>(count_now) * static_cast<uint64_t>(size_of(buffer.dtype)),
                 buffer.space != kernel::Space::In});
    }
}

void CudaExecutable::append(Backend& device, std::span<const LaunchSegment> segments, Calls& out) const {
  for (const LaunchSegment& segment : segments)
    HD_ASSERT(segment.buffers.size() == kernel_.buffers.size() && segment.symbols.size() == kernel_.symbols.size(),
              "launch of ", kernel_.name, " with ", segment.buffers.size(), " buffers and ", segment.symbols.size(),
              " symbols");
  if (segments.size() > 1 && !maps_.empty()) {
    for (const LaunchSegment& segment : segments) append(device, {&segment, 1}, out);
    return;
  }
  if (segments.size() > 1) {
    for (size_t first = 0; first < segments.size(); first += kMostSegments)
      append_many(device, segments.subspan(first, std::min(kMostSegments, segments.size() - first)), out);
    return;
  }
  if (segments.empty()) return;
  const LaunchSegment& segment = segments[0];
  const int64_t turns = rounds(segment.symbols);
  for (int64_t round = 0; round < turns; ++round)
    for (size_t phase = 0; phase < kernel_.phases.size(); ++phase) {
      int64_t count = blocks(phase, segment.symbols) / turns;
      if (count <= 0 || is_done(segment, phase)) continue;
      append_phase(single_.functions[phase], count, {&segment, 1}, out);
      for (size_t b = 0; b < kernel_.buffers.size(); ++b)
        if (kernel_.buffers[b].space != kernel::Space::Shared) out.word(address_of(segment.buffers[b]));
      for (int64_t symbol : segment.symbols) out.word(static_cast<uint64_t>(symbol));
      if (kernel_.rounds) out.word(static_cast<uint64_t>(round * count));
      for (const kernel::TensorMap& map : maps_) out.map(encode(driver_, kernel_, map, segment));
    }
}

// A row of the table holds, for each phase, the blocks of all segments before; then pointers and symbols.
void CudaExecutable::append_many(Backend& device, std::span<const LaunchSegment> segments, Calls& out) const {
  HD_ASSERT(!kernel_.rounds, "rounds of several segments: ", kernel_.name);
  thread_local std::vector<uint64_t> words;
  words.clear();
  SmallVector<int64_t, 4> total(kernel_.phases.size(), 0);
  for (const LaunchSegment& segment : segments) {
    for (size_t phase = 0; phase < kernel_.phases.size(); ++phase) {
      words.push_back(static_cast<uint64_t>(total[phase]));
      if (!is_done(segment, phase)) total[phase] += std::max<int64_t>(blocks(phase, segment.symbols), 0);
    }
    for (size_t b = 0; b < kernel_.buffers.size(); ++b)
      if (kernel_.buffers[b].space != kernel::Space::Shared) words.push_back(address_of(segment.buffers[b]));
    for (int64_t symbol : segment.symbols) words.push_back(static_cast<uint64_t>(symbol));
  }
  std::lock_guard guard(lock_);
  out.keep.push_back(table(device, words));
  for (size_t phase = 0; phase < kernel_.phases.size(); ++phase) {
    if (total[phase] <= 0) continue;
    append_phase(many().functions[phase], total[phase], segments, out);
    out.word(reinterpret_cast<uint64_t>(out.keep.back()->address()));
    out.word(segments.size());
  }
}

// The one with these words if there is one: a plan that runs again has the same. Callers hold the lock.
std::shared_ptr<DeviceBuffer> CudaExecutable::table(Backend& device, const std::vector<uint64_t>& words) const {
  ++clock_;
  for (Table& known : tables_)
    if (known.words == words) {
      known.last_use = clock_;
      return known.memory;
    }
  const uint64_t bytes = words.size() * sizeof(uint64_t);
  std::shared_ptr<DeviceBuffer> memory = device.allocate(bytes);
  device.copy_from_host(*memory, words.data(), bytes);
  if (tables_.size() == kTables)
    tables_.erase(std::min_element(tables_.begin(), tables_.end(),
                                   [](const Table& a, const Table& b) { return a.last_use < b.last_use; }));
  tables_.push_back({words, memory, clock_});
  return memory;
}

}  // namespace heddle::cuda
