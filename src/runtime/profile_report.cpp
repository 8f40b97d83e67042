// A profile as a table and as a trace.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "runtime/profile_data.h"

namespace heddle {
namespace {

// "1.25 ms", "3 GB": three digits and a unit for each thousand.
std::string amount(double value, std::span<const char* const> units) {
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < units.size(); ++unit) value /= 1000;
  char out[32];
  std::snprintf(out, sizeof out, "%.3g %s", value, units[unit]);
  return out;
}
std::string time_text(double seconds) {
  static constexpr const char* kUnits[] = {"ns", "us", "ms", "s"};
  return amount(seconds * 1e9, kUnits);
}
std::string bytes_text(double bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  return amount(bytes, kUnits);
}
std::string flops_text(double flops) {
  static constexpr const char* kUnits[] = {"", "K", "M", "G", "T", "P"};
  return amount(flops, kUnits);
}
std::string share_text(double share) {
  char out[32];
  std::snprintf(out, sizeof out, "%.0f%%", share * 100);
  return out;
}

// Quoted. Bytes that are no UTF-8 are replaced.
std::string json_text(const std::string& content) {
  return nlohmann::json(content).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string microseconds(int64_t nanoseconds) {
  char out[40];
  std::snprintf(out, sizeof out, "%lld.%03lld", static_cast<long long>(nanoseconds / 1000),
                static_cast<long long>(nanoseconds % 1000));
  return out;
}

const char* category(SliceKind kind) {
  switch (kind) {
    case SliceKind::Kernel: return "kernel";
    case SliceKind::Call: return "call";
    case SliceKind::Compile: return "compile";
  }
  __builtin_unreachable();
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const ProfileResult& result) {
  using Row = std::vector<std::string>;
  const bool known = result.roofline.flops_per_second > 0 || result.roofline.bytes_per_second > 0;
  std::vector<Row> rows = {
      {"kernel", "calls", "total", "share", "mean", "min", "bytes", "flops", "floor", "of roofline"}};
  double total = 0;
  for (const KernelProfile& kernel : result.kernels) total += kernel.total_seconds;
  for (const KernelProfile& kernel : result.kernels) {
    const auto calls = static_cast<double>(kernel.calls);
    rows.push_back({kernel.name, std::to_string(kernel.calls), time_text(kernel.total_seconds),
                    share_text(total > 0 ? kernel.total_seconds / total : 0), time_text(kernel.mean_seconds()),
                    time_text(kernel.min_seconds), bytes_text(static_cast<double>(kernel.bytes) / calls),
                    flops_text(static_cast<double>(kernel.flops) / calls),
                    known ? time_text(kernel.floor_seconds / calls) : "-",
                    known ? share_text(kernel.share_of_roofline()) : "-"});
  }
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const Row& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const Row& row : rows) {
    std::string line = row[0] + std::string(widths[0] - row[0].size(), ' ');
    for (size_t i = 1; i < row.size(); ++i) line += std::string(widths[i] - row[i].size() + 2, ' ') + row[i];
    out << line << '\n';
  }
  out << time_text(total) << " in kernels and " << time_text(result.compile_seconds)
      << " compiling, both summed over threads; " << time_text(result.seconds)
      << " passed; bytes, flops and floor are those of one call\n";
  if (known)
    out << "roofline: " << flops_text(result.roofline.flops_per_second) << "FLOP/s, "
        << bytes_text(result.roofline.bytes_per_second) << "/s\n";
  if (result.left_out > 0) out << result.left_out << " slices are in the table, but not in the trace\n";
  return out;
}

std::ostream& operator<<(std::ostream& out, const Profile& profile) { return out << profile.result(); }

std::string trace_json(const ProfileData& data) {
  std::vector<std::string> quoted;
  for (const std::string& content : data.texts) quoted.push_back(json_text(content));
  std::string out =
      "{\"displayTimeUnit\": \"ns\", \"otherData\": {\"slices_left_out\": " + std::to_string(data.left_out) +
      "},\n\"traceEvents\": [\n{\"ph\": \"M\", \"pid\": 1, \"name\": \"process_name\", "
      "\"args\": {\"name\": \"heddle\"}}";
  uint32_t threads = 0;
  for (const ProfileData::Event& event : data.events) threads = std::max(threads, event.thread);
  std::vector<bool> seen(threads + 1, false);
  for (const ProfileData::Event& event : data.events) {
    const std::string thread = std::to_string(event.thread);
    if (!seen[event.thread])
      out += ",\n{\"ph\": \"M\", \"pid\": 1, \"tid\": " + thread +
             ", \"name\": \"thread_name\", \"args\": {\"name\": \"thread " + thread + "\"}}";
    seen[event.thread] = true;
    out += ",\n{\"ph\": \"X\", \"pid\": 1, \"tid\": " + thread + ", \"cat\": \"" + category(event.kind) +
           "\", \"name\": " + quoted[event.name] + ", \"ts\": " + microseconds(event.start) +
           ", \"dur\": " + microseconds(event.nanoseconds) + ", \"args\": {";
    if (event.kind == SliceKind::Kernel)
      out += "\"bytes\": " + std::to_string(event.bytes) + ", \"flops\": " + std::to_string(event.flops);
    if (!data.texts[event.detail].empty())
      out += std::string(event.kind == SliceKind::Kernel ? ", " : "") + "\"detail\": " + quoted[event.detail];
    out += "}}";
  }
  return out + "\n]}\n";
}

}  // namespace heddle
