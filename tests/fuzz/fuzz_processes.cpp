// Random trees of processes: threads that compute, captured functions, forks at random moments, one disk cache for all,
// files that are saved, processes that are killed. Every value is compared with plain arithmetic.
//
// A seed is a process of its own, the root of its tree. One that takes too long hangs: then all of it is killed.
#include <heddle/heddle.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>
#include <random>
#include <thread>
#include <vector>

#include "base/error.h"
#include "fuzz/driver.h"
#include "temporary_folder.h"

namespace heddle::fuzz {
namespace {

constexpr int kMostDepth = 3;            // of children of children
constexpr double kSecondsForSeed = 100;  // on a busy machine; most take less than one
constexpr int kWrong = 3;                // exit status

using Random = std::mt19937_64;

int below(Random& random, int count) { return static_cast<int>(random() % static_cast<uint64_t>(count)); }

// What all processes of a tree share.
struct Tree {
  std::string folder;
  uint64_t seed;
};

[[noreturn]] void wrong(const Tree& tree, const std::string& what) {
  std::fprintf(stderr, "process %d of seed %lu: %s\n", getpid(), static_cast<unsigned long>(tree.seed), what.c_str());
  _exit(kWrong);
}

// Small whole numbers, so that all results are exact.
std::vector<float> numbers(Random& random, int count) {
  std::vector<float> result(static_cast<size_t>(count));
  for (float& x : result) x = static_cast<float>(below(random, 15) - 7);
  return result;
}

void expect(const Tree& tree, const char* what, const Tensor& found, const std::vector<float>& wanted) {
  std::vector<float> values = found.to_vector<float>();
  if (values.size() != wanted.size()) wrong(tree, text(what, ": ", values.size(), " elements, not ", wanted.size()));
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] != wanted[i]) wrong(tree, text(what, ": element ", i, " is ", values[i], ", not ", wanted[i]));
}

// One of many expressions, which differ in code: some have been compiled before, by this process or its parent.
void compute(const Tree& tree, Random& random) {
  const int n = 1 + below(random, 40), kind = below(random, 5);
  std::vector<float> a = numbers(random, n), b = numbers(random, n), wanted(static_cast<size_t>(n));
  Tensor x = from_data(a.data(), {n}), y = from_data(b.data(), {n});
  const float c = static_cast<float>(below(random, 9) - 4);
  auto each = [&](auto f) {
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = f(a[i], b[i]);
    return wanted;
  };
  switch (kind) {
    case 0: return expect(tree, "x * x + c", x * x + c, each([&](float v, float) { return v * v + c; }));
    case 1: return expect(tree, "x * y - x", x * y - x, each([](float v, float w) { return v * w - v; }));
    case 2:
      return expect(tree, "max(x, y) * c", maximum(x, y) * c,
                    each([&](float v, float w) { return std::max(v, w) * c; }));
    case 3: {
      float sum = 0;
      for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
      return expect(tree, "sum(x * y)", (x * y).sum(), {sum});
    }
    default: {
      Tensor m = matmul(x.reshape({n, 1}), y.reshape({1, n})).sum(1);
      float sum = 0;
      for (float w : b) sum += w;
      return expect(tree, "matmul", m, each([&](float v, float) { return v * sum; }));
    }
  }
}

// Enough for all threads of the pool.
void compute_large(const Tree& tree, Random& random) {
  const int n = 50'000 + 1000 * below(random, 3);
  const float c = static_cast<float>(1 + below(random, 5));
  Tensor x = full({n}, c).realize();
  expect(tree, "large sum", (x * 2 + 1).sum(), {static_cast<float>(n) * (2 * c + 1)});
}

void save(const Tree& tree, Random& random) {
  const std::string path = text(tree.folder, "/file", below(random, 2), ".safetensors");
  const float c = static_cast<float>(below(random, 100));
  save_safetensors(path, {{"x", full({20'000}, c)}, {"y", full({3}, -c)}});
  // Whoever wrote it last, it is whole.
  TensorMap loaded = load_safetensors(path).tensors;
  std::vector<float> x = loaded.at("x").to_vector<float>();
  for (float value : x)
    if (value != x[0]) wrong(tree, "a file holds parts of two");
  expect(tree, "saved", loaded.at("y"), std::vector<float>(3, -x[0]));
}

// Captured functions that the threads of a process, and its children, call at the same time.
struct Shared {
  Tensor state = zeros({3000}).realize();
  std::function<Tensor(const Tensor&)> step = jit([this](const Tensor& by) {
    state += by;
    return state * 2;
  });
};

void call_step(const Tree& tree, Shared& shared) {
  std::vector<float> doubled = shared.step(ones({1})).to_vector<float>();
  for (float value : doubled)
    if (value != doubled[0]) wrong(tree, text("a step left ", doubled[0], " and ", value));
  std::vector<float> state = shared.state.to_vector<float>();
  for (float value : state)
    if (value != state[0]) wrong(tree, text("the state holds ", state[0], " and ", value));
}

// A thread beside the one that forks.
void work(const Tree& tree, uint64_t seed, Shared& shared, const std::atomic<bool>& stop) {
  Random random(seed);
  try {
    Tensor own = zeros({500}).realize();
    float sum = 0;
    auto add = jit([&](const Tensor& by) { own += by; });
    while (!stop) {
      switch (below(random, 6)) {
        case 0: compute_large(tree, random); break;
        case 1: save(tree, random); break;
        case 2: call_step(tree, shared); break;
        case 3:
          add(full({1}, 2));
          sum += 2;
          expect(tree, "own state", own, std::vector<float>(500, sum));
          break;
        default: compute(tree, random);
      }
    }
  } catch (const std::exception& error) {
    wrong(tree, error.what());
  }
}

void live(const Tree& tree, Random& random, Shared& shared, int depth);

// Returns in the parent only.
pid_t fork_child(const Tree& tree, Random& random, Shared& shared, int depth) {
  const uint64_t seed = random();
  const pid_t parent = ::getpid();
  pid_t child = ::fork();
  if (child < 0) wrong(tree, "fork() failed");
  if (child > 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) _exit(0);  // killed before that
  Random own(seed);
  try {
    live(tree, own, shared, depth + 1);
  } catch (const std::exception& error) {
    wrong(tree, error.what());
  }
  if (below(own, 2) == 0) std::exit(0);  // as programs end, with destructors
  _exit(0);
}

// What a process does, but for the root's preparations.
void live(const Tree& tree, Random& random, Shared& shared, int depth) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> others;
  for (int i = depth == 0 ? 1 + below(random, 3) : below(random, 2); i > 0; --i)
    others.emplace_back(work, std::cref(tree), random(), std::ref(shared), std::cref(stop));
  struct Child {
    pid_t process;
    bool killed;
  };
  std::vector<Child> children;
  for (int i = depth == 0 ? 16 : 5; i > 0; --i) {
    switch (below(random, 8)) {
      case 0:
      case 1:
        if (depth == kMostDepth || children.size() == (depth == 0 ? 6 : 2)) break;
        std::this_thread::sleep_for(std::chrono::microseconds(below(random, 3000)));  // into the work of others
        children.push_back({fork_child(tree, random, shared, depth), false});
        break;
      case 2: compute_large(tree, random); break;
      case 3: call_step(tree, shared); break;
      case 4: save(tree, random); break;
      case 5:
        if (!children.empty() && !children.back().killed) {
          std::this_thread::sleep_for(std::chrono::microseconds(below(random, 20'000)));
          ::kill(children.back().process, SIGKILL);
          children.back().killed = true;
        }
        break;
      default: compute(tree, random);
    }
  }
  stop = true;
  for (std::thread& other : others) other.join();
  for (const Child& child : children) {
    int status = 0;
    ::waitpid(child.process, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    if (child.killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) continue;
    if (WIFSIGNALED(status)) wrong(tree, text("a child died of signal ", WTERMSIG(status)));
    _exit(kWrong);  // it has said what is wrong
  }
}

// The root of a tree, in a process of its own that knows nothing of earlier seeds.
[[noreturn]] void run_tree(const Tree& tree) {
  Random random(tree.seed);
  try {
    Shared shared;
    for (int i = below(random, 4); i > 0; --i) compute(tree, random);
    live(tree, random, shared, 0);
    compute(tree, random);
    // What killed processes left is gone after the next save, and the cache still serves.
    std::string left;
    for (int attempt = 0; attempt < 50; ++attempt) {
      for (const char* name : {"file0", "file1"})
        save_safetensors(text(tree.folder, "/", name, ".safetensors"), {{"x", ones({1})}, {"y", ones({1})}});
      left.clear();
      for (const auto& entry : std::filesystem::directory_iterator(tree.folder))
        if (entry.path().extension() == ".tmp") left = entry.path();
      if (left.empty()) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // grandchildren may be dying still
    }
    if (!left.empty()) wrong(tree, text(left, " was left behind"));
  } catch (const std::exception& error) {
    wrong(tree, error.what());
  }
  std::exit(0);
}

// Empty if all is well.
std::string run_seed(const DriverOptions& options, uint64_t seed) {
  testing::TemporaryFolder folder;
  pid_t child = ::fork();
  if (child == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::setenv("HEDDLE_TEST_CACHE", (folder.file("") + "cache.sqlite").c_str(), 1);
    ::setenv("HEDDLE_THREADS", seed % 2 ? "3" : "2", 1);
    ::execl("/proc/self/exe", options.program.c_str(), "--tree", std::to_string(seed).c_str(), folder.file("").c_str(),
            nullptr);
    _exit(1);
  }
  const auto start = std::chrono::steady_clock::now();
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < kSecondsForSeed) continue;
    ::kill(-child, SIGKILL);
    ::waitpid(child, &status, 0);
    return text("hangs: not done after ", kSecondsForSeed, " seconds");
  }
  ::kill(-child, SIGKILL);  // nobody may be left
  if (WIFSIGNALED(status)) return text("died of signal ", WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "" : text("exit status ", WEXITSTATUS(status));
}

}  // namespace
}  // namespace heddle::fuzz

int main(int count, char** arguments) {
  using namespace heddle::fuzz;
  if (count == 4 && std::string(arguments[1]) == "--tree") run_tree({arguments[3], std::stoull(arguments[2])});
  DriverOptions options;
  CommandLine line(count, arguments, "fuzz_processes [--seeds BEGIN:END | --seconds S] [--threads N] [--survey]");
  while (line.next())
    if (!line.common(options)) line.fail("unknown option " + line.option());
  line.finish(options);
  Driver driver(options);
  return driver.run([&](uint64_t seed) {
    std::string problem = run_seed(options, seed);
    if (problem.empty()) return;
    driver.fail([&] {
      return heddle::text("FAILED: seed ", seed, ": ", problem, "\nrepeat with\n  ", options.program, " --seeds ", seed,
                          ":", seed + 1);
    });
  });
}
