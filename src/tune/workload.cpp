#include "tune/workload.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "base/error.h"

namespace heddle {
namespace {

constexpr uint64_t kMostBytes = uint64_t{2} << 30;
constexpr size_t kMostSegments = 256;
// Values repeat after so many elements: a prime, so that a wrong address does not meet the right value.
constexpr int64_t kPeriod = 1'000'003;

int64_t value_at(const Expr& size, const Loops& loops, std::span<const int64_t> symbols) {
  return evaluate(size, [&](const Expr& variable) {
    for (size_t i = 0; i < loops.symbols.size(); ++i)
      if (loops.symbols[i] == variable) return symbols[i];
    throw CompileError(text("kernel ", loops.name, " has no symbol ", variable));
  });
}

uint64_t bytes_of(const kernel::Buffer& buffer, const Loops& loops, std::span<const int64_t> symbols) {
  return static_cast<uint64_t>(value_at(buffer.size, loops, symbols)) * static_cast<uint64_t>(size_of(buffer.dtype));
}

uint64_t bytes_of(const Loops& loops, std::span<const int64_t> symbols) {
  uint64_t bytes = 0;
  for (const kernel::Buffer& buffer : loops.buffers) bytes += bytes_of(buffer, loops, symbols);
  return bytes;
}

// Of a symbol without a value: something of a usual size that it may be.
int64_t guess(const Expr& symbol) {
  int64_t multiple = std::max<int64_t>(symbol.multiple(), 1);
  int64_t value = std::clamp<int64_t>(1024, symbol.lo(), symbol.hi()) / multiple * multiple;
  return value < symbol.lo() ? value + multiple : value;
}

// Integers stand for indices: below all limits that the kernel has for what it reads from memory.
int64_t index_limit(const Loops& loops) {
  int64_t limit = 1 << 20;
  bool found = false;
  for (const Stage& stage : loops.stages)
    kernel::visit(stage.body, [&](const kernel::Inst& inst) {
      for (const Expr& bind : inst.binds)
        if (bind.hi() < INT32_MAX) {
          limit = std::min(limit, bind.hi() + 1);
          found = true;
        }
    });
  return found ? std::max<int64_t>(limit, 1) : 16;
}

// How far results may differ, beside the size of the numbers themselves.
double tolerance(DType dtype) {
  if (size_of(dtype) == 1) return 0.3;
  if (dtype == DType::bf16) return 1.0 / 64;
  if (dtype == DType::f16) return 1.0 / 256;
  return dtype == DType::f64 ? 0x1p-38 : 0x1p-15;
}

template <class T>
double double_at(const std::vector<std::byte>& bytes, size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return static_cast<double>(value);
}

double float_at(const std::vector<std::byte>& bytes, size_t i, DType dtype) {
  if (dtype == DType::f32) return double_at<float>(bytes, i);
  if (dtype == DType::f64) return double_at<double>(bytes, i);
  return load_scalar(bytes.data(), static_cast<int64_t>(i), dtype).as_double();
}

// The share of floats that are numbers: others say little about a candidate.
double finite_share(const Loops& loops, const Bench::Outputs& outputs) {
  double finite = 0, all = 0;
  size_t next = 0;
  while (next < outputs.size())
    for (const kernel::Buffer& buffer : loops.buffers) {
      if (buffer.space == kernel::Space::In) continue;
      const std::vector<std::byte>& bytes = outputs[next++];
      if (!is_float(buffer.dtype)) continue;
      size_t count = bytes.size() / static_cast<size_t>(size_of(buffer.dtype));
      size_t step = std::max<size_t>(1, count / 4096);
      for (size_t i = 0; i < count; i += step, ++all) finite += std::isfinite(float_at(bytes, i, buffer.dtype));
    }
  return all == 0 ? 1 : finite / all;
}

}  // namespace

Workload workload_of(const Program::Step& step) {
  Workload workload{step.loops, {}, step.tf32};
  uint64_t bytes = 0;
  for (const Program::Segment& segment : step.segments) {
    std::vector<int64_t> symbols;
    for (const Expr& size : segment.symbols) {
      std::optional<int64_t> known = known_value(size);
      symbols.push_back(known ? *known : guess(size));
    }
    bytes += bytes_of(step.loops, symbols);
    if (!workload.segments.empty() && (bytes > kMostBytes || workload.segments.size() == kMostSegments)) break;
    workload.segments.push_back(std::move(symbols));
  }
  return workload;
}

Workload workload_of(const Loops& loops) {
  Workload workload{loops, {{}}};
  for (const Expr& symbol : loops.symbols) workload.segments[0].push_back(guess(symbol));
  return workload;
}

Bench::Bench(const Workload& workload, Backend& device, uint64_t seed)
    : workload_(workload), device_(device), seed_(seed) {
  for (const std::vector<int64_t>& symbols : workload.segments) {
    buffers_.emplace_back();
    for (const kernel::Buffer& buffer : workload.loops.buffers)
      buffers_.back().push_back(device.allocate(bytes_of(buffer, workload.loops, symbols)));
  }
}

void Bench::fill(bool positive) {
  std::mt19937_64 random(seed_);
  const int64_t limit = index_limit(workload_.loops);
  for (size_t g = 0; g < buffers_.size(); ++g)
    for (size_t b = 0; b < buffers_[g].size(); ++b) {
      const kernel::Buffer& buffer = workload_.loops.buffers[b];
      if (buffer.space != kernel::Space::In) continue;
      DeviceBuffer& memory = *buffers_[g][b];
      const auto size = static_cast<uint64_t>(size_of(buffer.dtype));
      const int64_t count = std::min<int64_t>(static_cast<int64_t>(memory.bytes() / size), kPeriod);
      std::vector<std::byte> host(memory.bytes());
      for (int64_t i = 0; i < count; ++i) {
        double quarter = static_cast<double>(1 + random() % 8) / 4;
        double value = !is_float(buffer.dtype)    ? static_cast<double>(random() % static_cast<uint64_t>(limit))
                       : positive || random() % 2 ? quarter
                                                  : -quarter;
        if (buffer.dtype == DType::boolean) value = static_cast<double>(random() % 2);
        store_scalar(host.data(), i, Scalar::of(buffer.dtype, value));
      }
      const uint64_t period = static_cast<uint64_t>(count) * size;
      for (uint64_t at = period; at < host.size(); at += period)
        std::memcpy(host.data() + at, host.data(), std::min<uint64_t>(period, host.size() - at));
      device_.copy_from_host(memory, host.data(), host.size());
    }
}

Candidate Bench::prepare(std::shared_ptr<Executable> executable) {
  Candidate candidate{std::move(executable), {}, {}};
  const kernel::Kernel& kernel = candidate.executable->kernel();
  Substitution renamed;  // a schedule may drop a symbol's name, not its place
  for (size_t i = 0; i < kernel.symbols.size(); ++i)
    renamed.emplace_back(kernel.symbols[i], workload_.loops.symbols[i]);
  for (size_t g = 0; g < buffers_.size(); ++g) {
    std::vector<BufferPart>& parts = candidate.buffers.emplace_back();
    for (size_t b = 0; b < kernel.buffers.size(); ++b) {
      kernel::Buffer buffer = kernel.buffers[b];
      if (b < buffers_[g].size()) {
        parts.push_back(whole(*buffers_[g][b]));
      } else if (buffer.space == kernel::Space::Temp) {
        buffer.size = substitute(buffer.size, renamed);
        candidate.temps.push_back(device_.allocate(bytes_of(buffer, workload_.loops, workload_.segments[g])));
        parts.push_back(whole(*candidate.temps.back()));
      } else {
        parts.emplace_back();
      }
    }
  }
  return candidate;
}

std::vector<LaunchSegment> Bench::segments(const Candidate& candidate) const {
  std::vector<LaunchSegment> segments;
  for (size_t g = 0; g < buffers_.size(); ++g) segments.push_back({candidate.buffers[g], workload_.segments[g]});
  return segments;
}

void Bench::launch(const Candidate& candidate) {
  device_.launch(*candidate.executable, segments(candidate));
  device_.synchronize();
}

Bench::Outputs Bench::outputs(const Candidate& candidate) {
  auto run = [&] {
    std::vector<std::byte> rubbish;
    auto spoil = [&](DeviceBuffer& memory, int value) {
      rubbish.assign(memory.bytes(), static_cast<std::byte>(value));
      device_.copy_from_host(memory, rubbish.data(), rubbish.size());
    };
    for (const auto& memory : candidate.temps) spoil(*memory, 0xff);
    for (const auto& segment : buffers_)
      for (size_t b = 0; b < segment.size(); ++b) {
        kernel::Space space = workload_.loops.buffers[b].space;
        if (space == kernel::Space::Out) spoil(*segment[b], 0x5a);
        if (space == kernel::Space::InOut) spoil(*segment[b], 0);  // checks start from 0
      }
    launch(candidate);
    Outputs result;
    for (const auto& segment : buffers_)
      for (size_t b = 0; b < segment.size(); ++b) {
        if (workload_.loops.buffers[b].space == kernel::Space::In) continue;
        result.emplace_back(segment[b]->bytes());
        device_.copy_to_host(result.back().data(), *segment[b], result.back().size());
      }
    return result;
  };
  if (filled_) return run();
  // The first candidate decides which inputs say most.
  filled_ = true;
  fill(false);
  Outputs mixed = run();
  double share = finite_share(workload_.loops, mixed);
  if (share > 0.9) return mixed;
  fill(true);
  Outputs positive = run();
  if (finite_share(workload_.loops, positive) > share) return positive;
  fill(false);
  return mixed;
}

bool Bench::agree(const Outputs& expected, const Outputs& found, std::string& problem) const {
  size_t next = 0;
  for (size_t g = 0; g < buffers_.size(); ++g)
    for (const kernel::Buffer& buffer : workload_.loops.buffers) {
      if (buffer.space == kernel::Space::In) continue;
      const std::vector<std::byte>&a = expected[next], &b = found[next];
      ++next;
      if (a == b) continue;
      const size_t count = a.size() / static_cast<size_t>(size_of(buffer.dtype));
      double squares = 0, numbers = 0;
      if (is_float(buffer.dtype))
        for (size_t i = 0; i < count; ++i) {
          double x = float_at(a, i, buffer.dtype);
          if (!std::isfinite(x)) continue;
          squares += x * x;
          ++numbers;
        }
      const double usual = numbers > 0 ? std::sqrt(squares / numbers) : 0, relative = tolerance(buffer.dtype);
      for (size_t i = 0; i < count; ++i) {
        double x = 0, y = 0;
        bool same = false;
        if (is_float(buffer.dtype)) {
          x = float_at(a, i, buffer.dtype);
          y = float_at(b, i, buffer.dtype);
          same = x == y || (std::isnan(x) && std::isnan(y)) || std::fabs(x - y) <= relative * (std::fabs(x) + usual);
        } else {
          Scalar p = load_scalar(a.data(), static_cast<int64_t>(i), buffer.dtype);
          Scalar q = load_scalar(b.data(), static_cast<int64_t>(i), buffer.dtype);
          same = p == q;
          x = p.as_double();
          y = q.as_double();
        }
        // What a check reports is the index of any one of the elements that are out of range.
        if (!same && buffer.space == kernel::Space::InOut) same = (x != 0) == (y != 0);
        if (same) continue;
        problem = text("element ", i, " of ", buffer.name, " is ", y, " instead of ", x);
        return false;
      }
    }
  return true;
}

double Bench::seconds(const Candidate& candidate, int times) {
  const std::vector<LaunchSegment> launched = segments(candidate);
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) device_.launch(*candidate.executable, launched);
  device_.synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / times;
}

}  // namespace heddle
