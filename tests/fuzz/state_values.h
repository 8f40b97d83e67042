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

// A difference that rounding does not explain, or nothing. Values that grew beyond all bounds are not compared.
inline std::optional<std::string> state_difference(const StateValues& got, const StateValues& want) {
  for (const auto& [name, expected] : want) {
    auto found = got.find(name);
    if (found == got.end()) return name + " is missing";
    const std::vector<double>& values = found->second;
    if (values.size() != expected.size()) return name + " has another size";
    double most = 1;
    for (double value : expected) most = std::max(most, std::isfinite(value) ? std::fabs(value) : INFINITY);
    if (most > 1e6) continue;
    for (size_t i = 0; i < expected.size(); ++i)
      if (!(std::fabs(values[i] - expected[i]) <= 2e-4 * most))
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
