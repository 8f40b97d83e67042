// The models of bench/zoo: time of inference and of a training step, seconds of the first call, launches; PyTorch
// beside it with the same weights. On a GPU where HEDDLE_DEVICE names one, there in f32 and in bf16.
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "base/config.h"
#include "base/error.h"
#include "bench/zoo/zoo.h"
#include "runtime/device.h"
#include "runtime/kernel_cache.h"
#include "runtime/plan.h"
#include "tools/contest.h"

namespace heddle::tools {
namespace {

using Function = std::function<TensorList(const TensorList&)>;

bool on_gpu() { return !config().device.empty() && config().device != "cpu"; }

// The first values of a model in a file, for peers; gone with this.
class StateFile {
 public:
  explicit StateFile(const zoo::Instance& model) { save_safetensors(path(), model.state); }
  ~StateFile() {
    std::error_code ignored;
    std::filesystem::remove(path(), ignored);
  }
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;
  // Gives the model these values again. After hundreds of steps with one batch the loss is 0 and gradients are
  // subnormal numbers, with which some processors compute at a tenth of their speed. Nobody trains like that.
  void restore(zoo::Instance& model) const {
    Safetensors first = load_safetensors(path());
    for (auto& [name, tensor] : model.state) {
      tensor.assign(first.tensors.at(name));
      tensor.realize();
    }
  }
  std::string path() const {
    return (std::filesystem::temp_directory_path() / text("heddle_zoo_", getpid(), ".safetensors")).string();
  }
};

// [name, dtype, shape, numbers are below this]
nlohmann::json data_rows(const zoo::Instance& model) {
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& [name, tensor] : model.data) {
    bool whole = !is_float(tensor.dtype());
    rows.push_back({name, whole ? "i64" : "float", tensor.shape(), whole ? max(tensor).item<int64_t>() + 1 : 0});
  }
  return rows;
}

// The least time of what one call runs, kernel by kernel.
double floor_of(const std::function<void()>& call) {
  Profile p = profile();
  call();
  p.stop();
  double seconds = 0;
  for (const KernelProfile& kernel : p.result().kernels) seconds += kernel.floor_seconds;
  return seconds;
}

struct Work {
  const zoo::Entry& entry;
  DType dtype;
  const char* what;  // "forward" or "step"
  zoo::Instance& model;
  const Function& function;
};

std::string row_name(const zoo::Entry& entry, const char* what, DType dtype) {
  return dtype == entry.dtype ? text(entry.name, " ", what) : text(entry.name, " ", what, " ", dtype);
}

void measure(const Work& work, Peers& peers, double seconds, const Report& report) {
  Contest contest{.name = row_name(work.entry, work.what, work.dtype), .group = work.what, .unit = "ms"};
  if (!wanted(contest.name)) return;
  StateFile file(work.model);
  contest.row = {{"work", "zoo"},
                 {"model", work.entry.name},
                 {"what", work.what},
                 {"dtype", name(work.dtype)},
                 {"data", data_rows(work.model)}};
  if (lists_rows()) return run_contest(peers, contest, seconds, report);
  contest.row["file"] = file.path();
  contest.repeat = on_gpu() ? 20 : 1;
  if (on_gpu()) contest.row.update({{"device", "cuda"}, {"repeat", contest.repeat}, {"captured", false}});
  TensorList batch = work.model.batch();
  auto run = jit([&](const TensorList& given) { return work.function(given); });
  Backend& where = device(on_gpu() ? config().device : "cpu");
  auto call = [&] {
    run(batch);
    where.synchronize();
  };
  clear_plan_cache();
  clear_kernel_cache();
  double start = now();
  call();
  double first = now() - start;
  call();  // records again, and compares
  uint64_t launches = run.plans()[0].launches;
  contest.note = text("first call ", std::round(first * 100) / 100, " s, ", launches, " launches");
  contest.floor_seconds = seconds < 0 ? 0 : floor_of(call);
  contest.floor_name = "kernels' floors";
  contest.ours = [&] {
    for (int i = 0; i < contest.repeat; ++i) run(batch);
    where.synchronize();
  };
  contest.restore = [&] { file.restore(work.model); };
  if (!on_gpu()) contest.bar = 1;
  run_contest(peers, contest, seconds, report);
}

}  // namespace

void measure_zoo(double seconds, const Report& report) {
  Peers peers(on_gpu() ? 1 : device("cpu").threads(), peers_python(), false, on_gpu() ? "cuda" : "cpu", true);
  for (const zoo::Entry& entry : zoo::entries()) {
    std::vector<DType> dtypes{entry.dtype};
    for (DType other : {DType::f32, DType::bf16})
      if (on_gpu() && other != entry.dtype) dtypes.push_back(other);
    for (DType dtype : dtypes) {
      if (!wanted(row_name(entry, "forward", dtype)) && !wanted(row_name(entry, "step", dtype))) continue;
      zoo::Instance model = entry.make(zoo::Size::Bench, dtype);
      model.train(false);
      measure({entry, dtype, "forward", model, model.forward}, peers, seconds, report);
      model.train(true);
      measure({entry, dtype, "step", model, model.step}, peers, seconds, report);
    }
  }
}

}  // namespace heddle::tools
