#include "tune/search.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"
#include "base/log.h"
#include "compile/lower.h"

namespace heddle {
namespace {

uint64_t bytes_of(const kernel::Buffer& buffer) {
  return static_cast<uint64_t>(buffer.size.value()) * static_cast<uint64_t>(size_of(buffer.dtype));
}

// The kernel's arguments on the device: random inputs, outputs to be filled.
struct Arguments {
  std::vector<std::shared_ptr<DeviceBuffer>> buffers;

  Arguments(const Loops& loops, Device& device, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> values(-1, 1);
    for (const kernel::Buffer& buffer : loops.buffers) {
      buffers.push_back(device.allocate(bytes_of(buffer)));
      std::vector<std::byte> host(bytes_of(buffer));
      for (int64_t i = 0; i < buffer.size.value(); ++i) {
        double v = is_float(buffer.dtype) ? values(random) : std::floor(8 * (values(random) + 1));
        store_scalar(host.data(), i, Scalar::of(buffer.dtype, v));
      }
      device.copy_from_host(*buffers.back(), host.data(), host.size());
    }
  }
};

// One schedule, compiled, with the memory that it needs beside the arguments.
struct Candidate {
  std::shared_ptr<Executable> executable;
  std::vector<std::shared_ptr<DeviceBuffer>> temps;
  std::vector<void*> pointers;

  Candidate(const Loops& loops, const Schedule& schedule, Device& device, const Arguments& arguments) {
    executable = device.compile(lower(tile(loops, schedule, device.target()), device.target()));
    const std::vector<kernel::Buffer>& all = executable->kernel().buffers;
    for (size_t b = 0; b < all.size(); ++b) {
      if (b < arguments.buffers.size()) {
        pointers.push_back(arguments.buffers[b]->address());
      } else if (all[b].space == kernel::Space::Temp) {
        temps.push_back(device.allocate(bytes_of(all[b])));
        pointers.push_back(temps.back()->address());
      } else {
        pointers.push_back(nullptr);
      }
    }
  }

  double run(Device& device) const {
    auto start = std::chrono::steady_clock::now();
    device.launch(*executable, pointers, {});
    device.synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  // After a first run that warms up.
  double best_time(Device& device) const {
    double best = std::numeric_limits<double>::infinity(), total = 0;
    for (int i = 0; i < 10 && (i < 3 || total < 0.05); ++i) {
      double seconds = run(device);
      best = std::min(best, seconds);
      total += seconds;
    }
    return best;
  }
};

std::vector<std::vector<std::byte>> outputs(const Loops& loops, Device& device, const Arguments& arguments) {
  std::vector<std::vector<std::byte>> result;
  for (size_t b = 0; b < loops.buffers.size(); ++b) {
    if (loops.buffers[b].space == kernel::Space::In) continue;
    result.emplace_back(bytes_of(loops.buffers[b]));
    device.copy_to_host(result.back().data(), *arguments.buffers[b], result.back().size());
  }
  return result;
}

// Equal, but for the rounding that another order of summation brings.
bool agree(const Loops& loops, const std::vector<std::vector<std::byte>>& a,
           const std::vector<std::vector<std::byte>>& b) {
  size_t next = 0;
  for (const kernel::Buffer& buffer : loops.buffers) {
    if (buffer.space == kernel::Space::In) continue;
    double tolerance = is_float(buffer.dtype) && size_of(buffer.dtype) == 1 ? 0.3
                       : size_of(buffer.dtype) == 2                         ? 2e-2
                       : buffer.dtype == kF64                               ? 1e-9
                                                                            : 1e-3;
    for (int64_t i = 0; i < buffer.size.value(); ++i) {
      Scalar x = load_scalar(a[next].data(), i, buffer.dtype), y = load_scalar(b[next].data(), i, buffer.dtype);
      if (x == y) continue;
      if (!is_float(buffer.dtype)) return false;
      if (std::isnan(x.f) && std::isnan(y.f)) continue;
      if (!(std::fabs(x.f - y.f) <= tolerance * (1 + std::fabs(x.f)))) return false;
    }
    ++next;
  }
  return true;
}

}  // namespace

SearchResult search(const Loops& loops, Device& device, int trials, uint64_t seed) {
  Arguments arguments(loops, device, seed);
  SearchResult result;
  result.best = default_schedule(loops, device.target());
  Candidate reference(loops, result.best, device, arguments);
  reference.run(device);
  auto expected = outputs(loops, device, arguments);
  result.default_seconds = result.best_seconds = reference.best_time(device);
  for (int trial = 0; trial < trials; ++trial) {
    Schedule schedule = random_schedule(loops, device.target(), seed * 1000003 + static_cast<uint64_t>(trial));
    ++result.tried;
    try {
      Candidate candidate(loops, schedule, device, arguments);
      candidate.run(device);
      if (!agree(loops, expected, outputs(loops, device, arguments))) {
        ++result.wrong;
        warn(text("search: a schedule of ", loops.name, " computes something else and is ignored: ", print(schedule)));
        continue;
      }
      double seconds = candidate.best_time(device);
      if (seconds >= result.best_seconds) continue;
      result.best_seconds = seconds;
      result.best = schedule;
    } catch (const CompileError&) {
      ++result.failed;
    }
  }
  return result;
}

}  // namespace heddle
