// The shapes of digits, as strokes of a pen.
#pragma once

#include <vector>

namespace heddle::data {

struct Point {
  double x, y;  // in a box from 0 to 1, y downwards
};
using Stroke = std::vector<Point>;  // a smooth line through these points
using Glyph = std::vector<Stroke>;

// The shapes of each digit. The last `kHeldOut` of them are kept for tests.
inline constexpr int kHeldOut = 2;
const std::vector<Glyph>& glyphs(int digit);

}  // namespace heddle::data
