#include "tools/contest.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "runtime/device.h"

namespace heddle::tools {
namespace {

double in_unit(const Contest& contest, double seconds) {
  if (contest.unit == "ms") return seconds * 1e3;
  if (contest.unit == "us") return seconds * 1e6;
  if (contest.unit == "GB/s") return contest.bytes / seconds * 1e-9;
  if (contest.unit == "TFLOP/s") return contest.flops / seconds * 1e-12;
  return contest.flops / seconds * 1e-9;
}

// Memory as large as what a row works on: it lies in the same cache. Beyond the caches more tells nothing new.
std::shared_ptr<DeviceBuffer> memory_like(double bytes) {
  auto size = static_cast<uint64_t>(std::clamp(bytes, 65536.0, 256e6));
  auto memory = device("cpu").allocate(size);
  std::memset(memory->address(), 1, size);  // touches the pages
  return memory;
}

// What a comparison found. Samples are of `repeat` calls.
Figure figure_of(const Peers& peers, const Contest& contest, const Peers::Result& result, double floor,
                 const std::string& floor_name) {
  const double calls = contest.repeat, best = result.ours.best() / calls;
  Figure figure{.name = contest.name, .unit = contest.unit};
  figure.group = contest.group;
  figure.ours = in_unit(contest, best);
  figure.median = in_unit(contest, result.ours.median() / calls);
  figure.floor = in_unit(contest, floor);
  figure.floor_name = floor_name;
  figure.share = floor / best;
  figure.share_bar = contest.share_bar;
  figure.note = contest.note;
  figure.about_peers = peers.about();
  double fastest = 0;  // seconds
  for (const PeerTimes& times : result.peers) {
    PeerFigure& peer = figure.peers.emplace_back(PeerFigure{times.name});
    peer.note = times.skip;
    if (!times.skip.empty()) continue;
    peer.best = in_unit(contest, times.samples.best() / calls);
    peer.median = in_unit(contest, times.samples.median() / calls);
    if (fastest > 0 && times.samples.best() / calls >= fastest) continue;
    fastest = times.samples.best() / calls;
    figure.reference = peer.best;
    figure.reference_name = times.name;
  }
  if (fastest > 0) {
    figure.ratio = fastest / best;
    figure.bar = contest.bar;
  } else {
    figure.reference = figure.floor;
    figure.reference_name = "floor";
    figure.ratio = figure.share;
  }
  return figure;
}

void run_with_floor(Peers& peers, const Contest& contest, double seconds, const Report& report) {
  contest.ours();  // compiles
  if (seconds < 0) return;
  Peers::Result result = peers.compare(contest.row, seconds, contest.ours, contest.restore);
  report(figure_of(peers, contest, result, *contest.floor_seconds, contest.floor_name));
}

}  // namespace

void run_contest(Peers& peers, const Contest& contest, double seconds, const Report& report) {
  if (!wanted(contest.name)) return;
  if (lists_rows()) {
    nlohmann::ordered_json listed{{"name", contest.name}, {"flops", contest.flops}, {"row", contest.row}};
    std::printf("%s\n", listed.dump().c_str());
    return;
  }
  if (contest.floor_seconds) return run_with_floor(peers, contest, seconds, report);
  int threads = device("cpu").threads();
  double peak = 0, reading = 0;
  // A core does fewer operations than this while it reads a byte, even from memory.
  bool may_be_reading = contest.flops < 100 * contest.bytes || contest.moved > 0;
  auto memory = memory_like(may_be_reading ? std::max(contest.bytes, contest.moved) : 0);
  contest.ours();           // compiles
  if (seconds < 0) return;  // that was all that is wanted
  Peers::Result result = peers.compare(contest.row, seconds, contest.ours, [&] {
    peak = std::max(peak, peak_rate(contest.peak, threads, 2));
    if (may_be_reading) reading = std::max(reading, read_rate(memory->address(), memory->bytes(), threads, 2));
  });
  double arithmetic = contest.flops / peak, traffic = may_be_reading ? contest.bytes / reading : 0;
  double update = contest.moved > 0 ? contest.moved / reading : 0;
  double floor = std::max(arithmetic, traffic) + update;
  std::string floor_name = arithmetic >= traffic ? peak_name(contest.peak) : "reading";
  if (update > 0) floor_name += " + reading";
  report(figure_of(peers, contest, result, floor, floor_name));
}

}  // namespace heddle::tools
