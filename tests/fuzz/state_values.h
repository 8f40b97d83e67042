// What worlds and the model of fuzz_states agree on: the data of tensors, and everything that a program can see.
#pragma once

#include <cmath>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace heddle::fuzz {

using StateValues = std::map<std::string, std::vector<double>>;

// Eighths in [-2, 2], without a pattern.
inline std::vector<float> state_data(int seed, int count) {
  std::vector<float> result;
  uint32_t word = static_cast<uint32_t>(seed) * 2654435761u + 12345;
  for (int i = 0; i < count; ++i) {
    word = word * 1664525u + 1013904223u;
    result.push_back(static_cast<float>(static_cast<int>(word >> 27) - 16) / 8);
  }
  return result;
}

// The matrix that mix() multiplies with.
inline const std::vector<float>& mixing_matrix() {
  static const std::vector<float> matrix = {0.5f, -0.25f, 0,    0.25f, 0.25f, 0.5f, 0,     0,
                                            0,    -0.5f,  0.5f, 0.25f, 0.25f, 0,    0.25f, -0.5f};
  return matrix;
}

// How far values may be apart: as a part of the largest of a tensor, and what some tensors may besides.
struct StateTolerance {
  double relative = 2e-4;
  std::map<std::string, double> more = {};
};

// A difference that is larger, or nothing. Values that grew beyond all bounds are not compared.
inline std::optional<std::string> state_difference(const StateValues& got, const StateValues& want,
                                                   const StateTolerance& tolerance = {}) {
  for (const auto& [name, expected] : want) {
    auto found = got.find(name);
    if (found == got.end()) return name + " is missing";
    const std::vector<double>& values = found->second;
    if (values.size() != expected.size()) return name + " has another size";
    double most = 1;
    for (double value : expected) most = std::max(most, std::isfinite(value) ? std::fabs(value) : INFINITY);
    if (most > 1e6) continue;
    auto more = tolerance.more.find(name);
    const double allowed = tolerance.relative * most + (more == tolerance.more.end() ? 0 : more->second);
    for (size_t i = 0; i < expected.size(); ++i)
      if (!(std::fabs(values[i] - expected[i]) <= allowed))
        return name + "[" + std::to_string(i) + "] is " + std::to_string(values[i]) + " instead of " +
               std::to_string(expected[i]);
  }
  for (const auto& [name, values] : got)
    if (!want.contains(name)) return name + " should not be there";
  return std::nullopt;
}

// What bodies throw on purpose.
struct ThrownOnPurpose : std::runtime_error {
  ThrownOnPurpose() : std::runtime_error("thrown on purpose") {}
};

}  // namespace heddle::fuzz
