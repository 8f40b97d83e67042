#include "tools/peers.h"

#include <fcntl.h>
#include <heddle/error.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tools/machine.h"

namespace heddle::tools {

using Json = nlohmann::json;

// A process that answers each line with a line, and is stopped unless it is asked.
class Peers::Process {
 public:
  Process(const std::vector<std::string>& command) {
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) throw Error("no pipe for " + command[0]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    std::vector<std::string> texts = command;
    std::vector<char*> argv;
    for (std::string& text : texts) argv.push_back(text.data());
    argv.push_back(nullptr);
    int status = posix_spawnp(&child_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    to_ = fdopen(in[1], "w");
    from_ = fdopen(out[0], "r");
    if (status != 0) child_ = 0;
  }
  ~Process() {
    std::fclose(to_);  // the end of its input ends it
    std::fclose(from_);
    if (child_ == 0) return;
    kill(child_, SIGCONT);
    while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {}
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Reads one line, then stops the process. {"died": true} when there is none.
  Json answer() {
    char* buffer = nullptr;
    size_t capacity = 0;
    ssize_t length = child_ ? getline(&buffer, &capacity, from_) : -1;
    Json json = length > 0 ? Json::parse(buffer, buffer + length, nullptr, false) : Json::object();
    std::free(buffer);
    if (length <= 0 || json.is_discarded()) {
      alive = false;
      return {{"died", true}};
    }
    kill(child_, SIGSTOP);
    int status = 0;
    while (waitpid(child_, &status, WUNTRACED) < 0 && errno == EINTR) {}
    if (!WIFSTOPPED(status)) child_ = 0, alive = false;
    return json;
  }
  void spread() { spread_threads(child_); }
  Json ask(const Json& message) {
    kill(child_, SIGCONT);
    std::fprintf(to_, "%s\n", message.dump().c_str());
    std::fflush(to_);
    return answer();
  }

  std::string name;
  bool alive = true;
  bool spreads = false;  // each of its threads works, and can have a core of its own

 private:
  pid_t child_ = 0;
  std::FILE *to_ = nullptr, *from_ = nullptr;
};

namespace {

constexpr const char* kCoreTypes[] = {"SKYLAKEX", "COOPERLAKE", "ZEN", "HASWELL"};
// A script of bench/peers, and how it is called.
constexpr const char* kScripts[][2] = {{"pytorch_peer.py", ""},
                                       {"pytorch_peer.py", "--compile"},
                                       {"jax_peer.py", ""},
                                       {"onnxruntime_peer.py", ""},
                                       {"tinygrad_peer.py", ""}};

Json square(int64_t n) {
  return {{"work", "matmul"}, {"dtype", "f32"}, {"batch", 1}, {"m", n}, {"k", n}, {"n", n}, {"transpose", "nn"}};
}

}  // namespace

std::string default_python() {
  std::filesystem::path own = std::filesystem::path(HEDDLE_PEERS_FOLDER) / ".venv/bin/python";
  return std::filesystem::exists(own) ? own.string() : "python3";
}

void check_python(const std::string& python) {
  std::string name = python, option = "-c", nothing;
  char* argv[] = {name.data(), option.data(), nothing.data(), nullptr};
  pid_t child = 0;
  const int problem = posix_spawnp(&child, argv[0], nullptr, nullptr, argv, environ);
  if (problem != 0)
    throw Error("--peers: the interpreter " + python + " cannot be started: " + std::strerror(problem) +
                "; name another with --python");
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {}
}

namespace {
// Beside the program in a bundle, else where the sources are.
std::filesystem::path peers_folder() {
  auto beside = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "share" / "peers";
  return std::filesystem::exists(beside) ? beside : std::filesystem::path(HEDDLE_PEERS_FOLDER);
}
}  // namespace

Peers::Peers(int threads, const std::string& python, bool libraries, const std::string& device, bool torch_alone) {
  signal(SIGPIPE, SIG_IGN);  // a peer that died is noticed when it does not answer
  bool chosen = libraries && start_libraries(threads);
  if (!python.empty())
    for (auto [script, option] : kScripts) {
      if ((torch_alone || device != "cpu") && std::string_view(script) != "pytorch_peer.py") continue;
      std::string path = peers_folder() / script;
      std::vector<std::string> command{python,     path,  "--serve", "--threads", std::to_string(threads),
                                       "--device", device};
      if (*option) command.push_back(option);
      start(command, "");
    }
  if (chosen) unsetenv("OPENBLAS_CORETYPE");  // until here, because some of the others are built on it
}

Peers::~Peers() = default;

void Peers::start(const std::vector<std::string>& command, const std::string& note) {
  auto process = std::make_unique<Process>(command);
  Json hello = process->answer();
  std::string label = hello.value("name", std::filesystem::path(command.back()).filename().string());
  if (hello.contains("missing") || hello.contains("died")) {
    about_.push_back(label + ": " + hello.value("missing", "does not start"));
    return;
  }
  process->name = label;
  about_.push_back(label + " " + hello.value("about", "") + note);
  processes_.push_back(std::move(process));
}

bool Peers::start_libraries(int threads) {
  std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::string openblas = folder / "heddle_peer_openblas", onednn = folder / "heddle_peer_onednn";
  std::string count = std::to_string(threads), note;
  bool chosen = false;
  if (!std::filesystem::exists(openblas)) {
    about_.push_back("OpenBLAS: not there when this was built (scripts/setup --peers)");
  } else {
    // It does not know every CPU, and then takes kernels at a fraction of the speed. What it is told is read when it
    // is loaded.
    const char* given = std::getenv("OPENBLAS_CORETYPE");
    if (!given) {
      double best = 1e30;
      std::string fastest;
      for (const char* type : kCoreTypes) {
        setenv("OPENBLAS_CORETYPE", type, 1);
        Process trial({openblas, count});
        trial.answer();
        if (!trial.alive || !trial.ask({{"row", square(768)}}).contains("ready")) continue;
        trial.spread();
        for (double seconds : trial.ask({{"seconds", 0.1}}).value("times", std::vector<double>{}))
          if (seconds < best) best = seconds, fastest = type;
      }
      setenv("OPENBLAS_CORETYPE", fastest.c_str(), 1);
      chosen = true;
      note = " (the fastest of SKYLAKEX, COOPERLAKE, ZEN, HASWELL)";
    }
    start({openblas, count}, note);
  }
  if (std::filesystem::exists(onednn))
    start({onednn, count}, "");
  else
    about_.push_back("oneDNN: not there when this was built (scripts/setup --peers)");
  for (auto& process : processes_) process->spreads = true;
  return chosen;
}

Peers::Result Peers::compare(const Json& row, double seconds, const std::function<void()>& ours,
                             const std::function<void()>& also) {
  Result result;
  size_t taking_part = 2;
  for (const auto& process : processes_) {
    PeerTimes& times = result.peers.emplace_back();
    times.name = process->name;
    Json answer = process->alive ? process->ask({{"row", row}}) : Json{{"died", true}};
    times.skip = answer.contains("ready") ? "" : answer.value("skip", "died");
    taking_part += times.skip.empty();
    if (process->spreads) process->spread();
  }
  int calls = ours ? calls_per_sample(ours) : 0;
  spread_threads(getpid());
  constexpr double kRounds = 12;
  const double kLongCall = std::max(2.0, seconds);  // one such call is enough
  double segment = std::clamp(seconds / kRounds / static_cast<double>(taking_part), 2e-3, 0.1);
  double end = now() + seconds;
  for (int round = 0; round < 3 || now() < end; ++round) {
    if (ours) take_segment(ours, calls, segment, result.ours);
    for (size_t i = 0; i < processes_.size(); ++i) {
      PeerTimes& times = result.peers[i];
      if (!times.skip.empty() || (round > 0 && times.samples.best() > kLongCall)) continue;
      Json answer = processes_[i]->ask({{"seconds", segment}});
      if (!processes_[i]->alive) times.skip = "died";
      for (double one : answer.value("times", std::vector<double>{})) times.samples.seconds.push_back(one);
    }
    if (also) also();
  }
  for (PeerTimes& times : result.peers)
    if (times.skip.empty() && times.samples.seconds.empty()) times.skip = "no times";
  return result;
}

}  // namespace heddle::tools
