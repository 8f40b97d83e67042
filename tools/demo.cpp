// make demo: trains a small network on drawn digits, and shows what was learnt and what was compiled.
#include <heddle/heddle.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <sstream>

namespace {

namespace hd = heddle;
namespace nn = heddle::nn;
namespace optim = heddle::optim;

constexpr int64_t kTrain = 25600, kTest = 4000, kBatch = 128, kEpochs = 6;
constexpr const char* kCurve = "digits_loss.svg";

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Images side by side, each with a line below.
void show_row(const std::vector<hd::Tensor>& images, const std::vector<std::string>& notes) {
  std::vector<std::vector<std::string>> columns;
  for (const hd::Tensor& image : images) {
    std::istringstream in(hd::data::draw_text(image));
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    columns.push_back(std::move(lines));
  }
  for (size_t y = 0; y < columns.at(0).size(); ++y) {
    for (const auto& lines : columns) std::printf(" %s", lines[y].c_str());
    std::printf("\n");
  }
  for (const std::string& note : notes) std::printf(" %-28s", note.c_str());
  std::printf("\n\n");
}

struct Tested {
  double accuracy = 0;
  std::vector<int64_t> guesses, labels;
};

Tested test(nn::Sequential& net, const hd::data::Digits& digits) {
  net.eval();
  auto guess = hd::jit([&](hd::Tensor x) { return hd::argmax(net(x), 1); });
  Tested result;
  for (auto [x, t] : hd::data::batches(digits.images.reshape(-1, 784), digits.labels, 1000)) {
    for (int64_t v : guess(x).to_vector<int64_t>()) result.guesses.push_back(v);
    for (int64_t v : t.to_vector<int64_t>()) result.labels.push_back(v);
  }
  net.train();
  int64_t right = 0;
  for (size_t i = 0; i < result.labels.size(); ++i) right += result.guesses[i] == result.labels[i];
  result.accuracy = static_cast<double>(right) / static_cast<double>(result.labels.size());
  return result;
}

void show_examples(const hd::data::Digits& digits, const Tested& tested) {
  std::vector<size_t> right, wrong;
  for (size_t i = 0; i < tested.labels.size(); ++i)
    (tested.guesses[i] == tested.labels[i] ? right : wrong).push_back(i);
  auto row = [&](const std::vector<size_t>& which, const char* note) {
    std::vector<hd::Tensor> images;
    std::vector<std::string> notes;
    for (size_t i = 0; i < std::min<size_t>(which.size(), 4); ++i) {
      images.push_back(digits.images[static_cast<int64_t>(which[i])]);
      notes.push_back("  seen as " + std::to_string(tested.guesses[which[i]]) + note +
                      std::to_string(tested.labels[which[i]]));
    }
    if (!images.empty()) show_row(images, notes);
  };
  row(right, ", and is ");
  row(wrong, ", but is ");
}

// The rest of the demo does not need the file.
void write_curve(const std::vector<double>& losses) {
  try {
    hd::write_loss_curve(kCurve, {{"training", losses}},
                         {.title = "Digits: 784-512-10, AdamW", .log_scale = true, .smoothing = 0.95});
    std::printf("loss curve  %s\n", kCurve);
  } catch (const hd::Error& error) {
    std::fprintf(stderr, "heddle_demo: the loss curve is not written: %s\n", error.what());
  }
}

void demo() {
  const char* device = std::getenv("HEDDLE_DEVICE");
  if (device && std::strcmp(device, "null") == 0)
    throw hd::ValueError("HEDDLE_DEVICE=null computes nothing, so nothing would be learnt; unset it");
  double start = seconds();
  hd::manual_seed(1);
  std::printf("Drawing %lld digits to learn from, and %lld of other shapes to be tested with ...\n",
              static_cast<long long>(kTrain), static_cast<long long>(kTest));
  hd::data::Digits train = hd::data::digits(kTrain, {.seed = 1});
  hd::data::Digits held_out = hd::data::digits(kTest, {.seed = 2, .held_out = true});

  auto net = nn::Sequential(nn::Linear(784, 512), nn::ReLU(), nn::Linear(512, 10));
  const int64_t steps = kEpochs * (kTrain / kBatch);
  auto opt = optim::AdamW(net, {.lr = optim::warmup(50, optim::cosine(2e-3, steps - 50)), .weight_decay = 0.05});
  std::printf("\n%s\n", net.summary().c_str());
  std::fflush(stdout);

  auto step = hd::jit([&](hd::Tensor x, hd::Tensor t) {
    auto loss = hd::cross_entropy(net(x), t, {.label_smoothing = 0.05});
    opt.step(hd::grad(loss, net.parameters()));
    return loss;
  });

  auto batches = hd::data::batches(train.images.reshape(-1, 784), train.labels, kBatch, {.shuffle_seed = 1});
  std::vector<double> losses;
  double in_steps = 0;
  int64_t timed = 0;
  for (int64_t epoch = 1; epoch <= kEpochs; ++epoch) {
    auto bar = hd::progress(batches, {.label = "epoch " + std::to_string(epoch)});
    for (auto [x, t] : bar) {
      double before = seconds();
      hd::Tensor loss = step(x, t);
      losses.push_back(loss.item<double>());
      if (losses.size() > 2) in_steps += seconds() - before, ++timed;  // the first two record and compile
      bar.set("loss", losses.back());
    }
  }
  Tested tested = test(net, held_out);
  std::printf("\nShapes that it has never seen:\n\n");
  show_examples(held_out, tested);
  std::printf("accuracy    %.2f%% of %lld held-out digits, after %.1f seconds\n", tested.accuracy * 100,
              static_cast<long long>(kTest), seconds() - start);
  std::fflush(stdout);
  write_curve(losses);
  for (const hd::JitPlan& plan : step.plans())
    std::printf(
        "compiled    one step, forward, backward and update: %llu launches, %.1f MB read, %.1f MB written,\n"
        "            %.2f MB of temporaries, %llu of %llu state tensors updated in place; %.2f ms per step\n",
        static_cast<unsigned long long>(plan.launches), static_cast<double>(plan.bytes_read) * 1e-6,
        static_cast<double>(plan.bytes_written) * 1e-6, static_cast<double>(plan.arena_bytes) * 1e-6,
        static_cast<unsigned long long>(plan.donated), static_cast<unsigned long long>(plan.donated + plan.copied),
        in_steps / static_cast<double>(std::max<int64_t>(timed, 1)) * 1e3);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    const bool help = std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "-h") == 0;
    std::fprintf(help ? stdout : stderr,
                 "usage: heddle_demo\nTrains a small network on drawn digits, and writes %s to this folder.\n", kCurve);
    if (!help) std::fprintf(stderr, "heddle_demo: there is no option %s\n", argv[1]);
    return help ? 0 : 2;
  }
  try {
    demo();
    return 0;
  } catch (const std::exception& error) {
    std::fflush(stdout);
    std::fprintf(stderr, "heddle_demo: %s\n", error.what());
    return 1;
  }
}
