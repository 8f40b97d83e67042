// Other libraries that do the same work, each in a process of its own: the programs and scripts of bench/peers.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/measure.h"

namespace heddle::tools {

// The interpreter of bench/peers/.venv where there is one, or "python3".
std::string default_python();
// Throws Error where there is no such interpreter.
void check_python(const std::string& python);

struct PeerTimes {
  std::string name;
  Samples samples;   // seconds of one call
  std::string skip;  // or why there are none
};

// Starts those that are installed, to work with as many threads as we do. Between their segments the processes are
// stopped: threads that spin while they wait would disturb the others.
class Peers {
 public:
  // `python`: the interpreter that runs PyTorch and others; empty: libraries only. Work that neither OpenBLAS nor
  // oneDNN knows can do without these.
  // `device`: "cuda" for those that can work there. `torch_alone`: of the scripts only PyTorch's.
  Peers(int threads, const std::string& python, bool libraries = true, const std::string& device = "cpu",
        bool torch_alone = false);
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  // What runs, with versions ("OpenBLAS 0.3.21, Zen (the fastest of SKYLAKEX, COOPERLAKE, ZEN)"), and what is missing.
  const std::vector<std::string>& about() const { return about_; }

  // Runs `ours`, every peer that knows `row`, and `also` in short segments that take turns, until `seconds` have passed
  // and each has run three times. bench/peers/README.md says what a row may be. Without `ours` and `also`: the peers.
  struct Result {
    Samples ours;
    std::vector<PeerTimes> peers;  // always the same ones in the same order
  };
  Result compare(const nlohmann::json& row, double seconds, const std::function<void()>& ours = {},
                 const std::function<void()>& also = {});

 private:
  class Process;
  bool start_libraries(int threads);  // whether it has set OPENBLAS_CORETYPE
  void start(const std::vector<std::string>& command, const std::string& note);
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<std::string> about_;
};

}  // namespace heddle::tools
