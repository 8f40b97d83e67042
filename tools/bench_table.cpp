#include "tools/bench_table.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "backend/cpu/thread_pool.h"
#include "codegen/codegen.h"
#include "tools/machine.h"

namespace heddle::tools {
namespace {

std::string number_text(double value) {
  char line[40];
  std::snprintf(line, sizeof line, value < 10 ? "%.2f" : value < 1000 ? "%.1f" : "%.0f", value);
  return line;
}

const char* verdict(double value, const std::optional<double>& bar) {
  return !bar ? "" : value >= *bar ? "pass" : "FAIL";
}

std::string bar_text(const std::optional<double>& bar) { return bar ? number_text(*bar) : "-"; }

void print_columns(const char* suite, int threads, const Figure& figure) {
  std::printf("\n%s, %d thread%s\n", suite, threads, threads == 1 ? "" : "s");
  for (const std::string& line : figure.about_peers) std::printf("  beside us: %s\n", line.c_str());
  std::printf("  %-40s %-10s %8s %8s", "name", "unit", "ours", "median");
  for (const PeerFigure& peer : figure.peers) std::printf(" %13s %8s", peer.name.c_str(), "median");
  if (figure.floor_name.empty())
    std::printf(" %9s %6s %5s       %s\n", "reference", "ratio", "bar", "reference_name");
  else
    std::printf(" %6s %5s       %8s %6s %5s       %s\n", "ratio", "bar", "floor", "share", "bar", "floor_name");
}

// Returns why some are absent.
std::string print_peers(const Figure& figure) {
  std::string absent;
  for (const PeerFigure& peer : figure.peers) {
    bool there = peer.best > 0;
    std::printf(" %13s %8s", there ? number_text(peer.best).c_str() : "-",
                there ? number_text(peer.median).c_str() : "-");
    if (!there) absent += "; " + peer.name + ": " + peer.note;
  }
  return absent;
}

void print_against_reference(const Figure& figure) {
  std::printf(" %9s %6s %5s %-5s %s", number_text(figure.reference).c_str(), number_text(figure.ratio).c_str(),
              bar_text(figure.bar).c_str(), verdict(figure.ratio, figure.bar), figure.reference_name.c_str());
}

void print_against_floor(const Figure& figure) {
  bool compared = figure.reference_name != "floor";
  std::printf(" %6s %5s %-5s %8s %6s %5s %-5s %s", compared ? number_text(figure.ratio).c_str() : "-",
              bar_text(figure.bar).c_str(), verdict(figure.ratio, figure.bar), number_text(figure.floor).c_str(),
              number_text(figure.share).c_str(), bar_text(figure.share_bar).c_str(),
              verdict(figure.share, figure.share_bar), figure.floor_name.c_str());
}

}  // namespace

Json to_json(const Figure& figure) {
  Json json{{"name", figure.name},
            {"unit", figure.unit},
            {"ours", figure.ours},
            {"reference", figure.reference},
            {"reference_name", figure.reference_name},
            {"ratio", figure.ratio},
            {"median", figure.median}};
  if (figure.bar) json["bar"] = *figure.bar;
  if (!figure.about_peers.empty()) json["about_peers"] = figure.about_peers;
  for (const PeerFigure& peer : figure.peers)
    json["peers"].push_back({{"name", peer.name}, {"best", peer.best}, {"median", peer.median}, {"note", peer.note}});
  if (figure.floor_name.empty()) return json;
  json["group"] = figure.group;
  json["floor"] = figure.floor;
  json["floor_name"] = figure.floor_name;
  json["share"] = figure.share;
  if (figure.share_bar) json["share_bar"] = *figure.share_bar;
  return json;
}

Figure from_json(const Json& json) {
  Figure figure{.name = json.at("name"), .unit = json.at("unit")};
  figure.ours = json.at("ours");
  figure.median = json.at("median");
  figure.reference = json.at("reference");
  figure.reference_name = json.at("reference_name");
  figure.ratio = json.at("ratio");
  figure.note = json.at("note");
  if (json.contains("bar")) figure.bar = json.at("bar").get<double>();
  if (json.contains("about_peers")) figure.about_peers = json.at("about_peers").get<std::vector<std::string>>();
  if (json.contains("peers"))
    for (const Json& peer : json.at("peers"))
      figure.peers.push_back({peer.at("name"), peer.at("best"), peer.at("median"), peer.at("note")});
  if (!json.contains("floor")) return figure;
  figure.group = json.at("group");
  figure.floor = json.at("floor");
  figure.floor_name = json.at("floor_name");
  figure.share = json.at("share");
  if (json.contains("share_bar")) figure.share_bar = json.at("share_bar").get<double>();
  return figure;
}

void print_machine() {
  std::printf("heddle %s, commit %s, %s, LLVM %s\n", version(), commit(), compiler().c_str(), llvm_version());
  const Target& target = host_target();
  double load = 0;
  getloadavg(&load, 1);  // other work on the machine makes figures worthless: let the reader see it
  std::printf("%s, %d cores, target %s, load average %.1f\n", cpu_model().c_str(), available_cores(),
              target.name.c_str(), load);
}

void print_figure(const char* suite, int threads, const Figure& figure, bool first) {
  if (first) print_columns(suite, threads, figure);
  std::printf("  %-40s %-10s %8s %8s", figure.name.c_str(), figure.unit.c_str(), number_text(figure.ours).c_str(),
              number_text(figure.median).c_str());
  std::string absent = print_peers(figure);
  figure.floor_name.empty() ? print_against_reference(figure) : print_against_floor(figure);
  std::printf("%s%s%s\n", figure.note.empty() ? "" : "; ", figure.note.c_str(), absent.c_str());
  std::fflush(stdout);
}

void print_means(const std::vector<Figure>& figures) {
  std::vector<std::string> groups;
  for (const Figure& figure : figures) {
    bool known = false;
    for (const std::string& group : groups) known |= group == figure.group;
    if (known || figure.group.empty() || figure.reference_name == "floor") continue;
    groups.push_back(figure.group);
    double sum = 0;
    int count = 0;
    const Figure* least = nullptr;
    for (const Figure& other : figures) {
      if (other.group != figure.group || other.reference_name == "floor") continue;
      sum += std::log(other.ratio);
      ++count;
      if (!least || other.ratio < least->ratio) least = &other;
    }
    std::printf("  %s: geometric mean of %d ratios to the fastest beside us: %s; least: %s, %s\n",
                groups.back().c_str(), count, number_text(std::exp(sum / count)).c_str(),
                number_text(least->ratio).c_str(), least->name.c_str());
  }
}

void print_bars(const std::vector<Figure>& figures) {
  int missed = 0, bars = 0;
  auto count = [&](double value, const std::optional<double>& bar) {
    bars += bar.has_value();
    missed += bar && value < *bar;
  };
  for (const Figure& figure : figures) {
    count(figure.ratio, figure.bar);
    count(figure.share, figure.share_bar);
  }
  std::printf("\n%d of %d bars reached; %s\n", bars - missed, bars,
              "ours and reference are the best of many turns, ratio: higher is better");
}

}  // namespace heddle::tools
