// Several devices at once, and weights that stay in a file. References are the slower part alone, and a plain reading
// of the file.
#include <fcntl.h>
#include <unistd.h>

#include <heddle/heddle.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "tools/bench.h"
#include "tools/measure.h"

namespace heddle::tools {
namespace {

// A device that computes while the CPU does; nothing if there is none.
std::optional<Device> asynchronous_device() {
  for (const Device& device : devices())
    if (device.capabilities().asynchronous) return device;
  return {};
}

double seconds_of(const std::function<void()>& f) {
  const double begin = now();
  f();
  return now() - begin;
}

// So many rounds of a product and what follows it.
Tensor rounds_of(const Tensor& x, const Tensor& w, int64_t rounds) {
  return fori_loop(0, rounds, [&](const Tensor&, const Tensor& y) { return tanh(matmul(y, w)); }, x);
}

// Rounds that take about a second.
int64_t rounds_of_a_second(const Tensor& x, const Tensor& w, double wanted) {
  auto timed = [&](int64_t rounds) {
    auto run = jit([&](const Tensor& y) { return rounds_of(y, w, rounds); });
    for (int i = 0; i < 3; ++i) run(x).to_vector<float>();
    double least = 1e9;
    for (int i = 0; i < 3; ++i) least = std::min(least, seconds_of([&] { run(x).to_vector<float>(); }));
    return least;
  };
  const double few = timed(4), more = timed(132), round = std::max((more - few) / 128, 1e-5);
  return std::max<int64_t>(1, static_cast<int64_t>(wanted / round));
}

void report_together(const char* name, double one, double other, std::vector<double> both, const Report& report) {
  Figure figure{.name = name, .unit = "s"};
  std::ranges::sort(both);
  figure.ours = both.front();
  figure.median = both[both.size() / 2];
  figure.reference = std::max(one, other);
  figure.reference_name = "the slower one alone";
  figure.ratio = figure.reference / figure.ours;
  figure.bar = 1 / 1.1;
  char note[80];
  std::snprintf(note, sizeof note, "%.2f s and %.2f s alone", one, other);
  figure.note = note;
  report(figure);
}

void measure_two_devices(double seconds, const Report& report) {
  const char* kParts = "two parts of one graph, on the CPU and on a GPU";
  const char* kCopies = "a copy to a GPU beside what it computes";
  if (!wanted(kParts) && !wanted(kCopies)) return;
  const std::optional<Device> gpu = asynchronous_device();
  if (!gpu) return;
  const double part = seconds < 0 ? 0.01 : 1;
  const Tensor x = randn({512, 512}, {.device = "cpu"}).realize(),
               w = (randn({512, 512}, {.device = "cpu"}) / 23).realize();
  const Tensor gx = randn({2048, 2048}, {.device = *gpu}).realize(),
               gw = (randn({2048, 2048}, {.device = *gpu}) / 46).realize();
  const int64_t rounds = rounds_of_a_second(x, w, part), gpu_rounds = rounds_of_a_second(gx, gw, part);
  auto on_cpu = jit([&](const Tensor& a) { return sum(rounds_of(a, w, rounds)); });
  auto on_gpu = jit([&](const Tensor& b) { return sum(rounds_of(b, gw, gpu_rounds)); });
  auto best = [](const std::function<void()>& f) {
    f();
    double least = seconds_of(f);
    for (int i = 0; i < 2; ++i) least = std::min(least, seconds_of(f));
    return least;
  };
  const double gpu_alone = best([&] { on_gpu(gx).item<float>(); });
  if (wanted(kParts)) {
    auto on_both = jit([&](const Tensor& a, const Tensor& b) {
      return sum(rounds_of(a, w, rounds)) + sum(rounds_of(b, gw, gpu_rounds)).to("cpu");
    });
    const double cpu_alone = best([&] { on_cpu(x).item<float>(); });
    on_both(x, gx).item<float>();
    std::vector<double> both;
    for (int i = 0; i < 5; ++i) both.push_back(seconds_of([&] { on_both(x, gx).item<float>(); }));
    report_together(kParts, cpu_alone, gpu_alone, both, report);
  }
  if (wanted(kCopies)) {
    // As many bytes as take about half as long as the work.
    const Tensor much = randn({int64_t{1} << 30}, {.device = "cpu"}).realize();
    auto moved = jit([&](const Tensor& a) { return a.to(*gpu).at({-1}).clone(); });
    const double copy_alone = best([&] { moved(much).item<float>(); });
    auto together =
        jit([&](const Tensor& a, const Tensor& b) { return sum(rounds_of(b, gw, gpu_rounds)) + a.to(*gpu).at({-1}); });
    together(much, gx).item<float>();
    std::vector<double> both;
    for (int i = 0; i < 5; ++i) both.push_back(seconds_of([&] { together(much, gx).item<float>(); }));
    report_together(kCopies, gpu_alone, copy_alone, both, report);
  }
}

// Of this process, in bytes; the highest since it was reset.
uint64_t most_resident() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  return 0;
}
void reset_most_resident() { std::ofstream("/proc/self/clear_refs") << 5; }

// The next reading comes from the disk, as far as the system lets go of a file.
void forget(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  ::fdatasync(file);
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  ::close(file);
}

double plain_reading(const std::string& path) {
  std::vector<char> block(size_t{16} << 20);
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw ValueError(text(path, ": cannot be read"));
  const double begin = now();
  while (::read(file, block.data(), block.size()) > 0) continue;
  const double taken = now() - begin;
  ::close(file);
  return taken;
}

constexpr int64_t kRows = 8192, kColumns = 12800;  // a layer: 400 MiB

// Layers of random numbers in a safetensors file, written piece by piece: all of it at once may not fit into memory.
void write_layers(const std::string& path, int64_t layers) {
  const int64_t bytes = kRows * kColumns * 4;
  std::string header = "{";
  for (int64_t i = 0; i < layers; ++i)
    header += text(i ? "," : "", "\"layer", i, "\":{\"dtype\":\"F32\",\"shape\":[", kRows, ",", kColumns,
                   "],\"data_offsets\":[", i * bytes, ",", (i + 1) * bytes, "]}");
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::ofstream file(path, std::ios::binary);
  const uint64_t size = header.size();
  file.write(reinterpret_cast<const char*>(&size), 8);
  file.write(header.data(), static_cast<std::streamsize>(size));
  std::vector<float> layer = randn({kRows * kColumns}, {.device = "cpu"}).to_vector<float>();
  for (int64_t i = 0; i < layers; ++i) {
    layer[0] = static_cast<float>(i);
    file.write(reinterpret_cast<const char*>(layer.data()), bytes);
  }
  file.close();
  if (!file) throw ValueError(text(path, ": could not be written"));
}

void measure_weights_in_a_file(double seconds, const Report& report) {
  const std::string name = "a file of weights, layer by layer";
  if (!wanted(name)) return;
  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  const int64_t layer_bytes = kRows * kColumns * 4;
  // 20 GB, or what half of the free room takes.
  int64_t layers =
      std::min<int64_t>(48, static_cast<int64_t>(std::filesystem::space(folder).available) / 2 / layer_bytes);
  if (seconds < 0) layers = std::min<int64_t>(layers, 1);
  if (layers < 1) throw ValueError(text(folder.string(), ": too little room for ", name));
  const std::string path = (folder / text("heddle_bench_", ::getpid(), ".safetensors")).string();
  struct Removed {
    const std::string& path;
    ~Removed() { std::filesystem::remove(path); }
  } removed{path};
  write_layers(path, layers);
  auto walk = [&] {
    TensorMap weights = load_safetensors(path, {.lazy = true}).tensors;
    Tensor x = ones({kColumns}, {.device = "cpu"}).realize();
    auto layer = jit([](const Tensor& w, const Tensor& v) { return mean(matmul(w, v)); });
    double total = 0;
    for (int64_t i = 0; i < layers; ++i) total += layer(weights.at(text("layer", i)), x).item<float>();
    return total;
  };
  walk();
  Device("cpu").free_cached();
  reset_most_resident();
  double ours = 0, plain = 0;
  for (int turn = 0; turn < 2; ++turn) {
    forget(path);
    const double t = seconds_of([&] { walk(); });
    ours = turn == 0 ? t : std::min(ours, t);
    forget(path);
    const double p = plain_reading(path);
    plain = turn == 0 ? p : std::min(plain, p);
  }
  const double gigabytes = static_cast<double>(layers * layer_bytes) / 1e9;
  Figure figure{.name = name, .unit = "GB/s"};
  figure.ours = figure.median = gigabytes / ours;
  figure.reference = gigabytes / plain;
  figure.reference_name = "a plain reading";
  figure.ratio = figure.ours / figure.reference;
  figure.bar = 0.8;
  char note[80];
  std::snprintf(note, sizeof note, "%.1f GB; at most %.2f GB resident", gigabytes,
                static_cast<double>(most_resident()) / 1e9);
  figure.note = note;
  report(figure);
}

}  // namespace

void measure_devices(double seconds, const Report& report) {
  measure_two_devices(seconds, report);
  measure_weights_in_a_file(seconds, report);
}

}  // namespace heddle::tools
