#include <heddle/data.h>
#include <heddle/ops.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "data/random.h"
#include "data/strokes.h"

namespace heddle::data {
namespace {

constexpr int kSize = 28;

// A smooth line through the points (Catmull and Rom's), as short straight pieces.
Stroke smooth(const Stroke& points) {
  constexpr int kPieces = 5;
  if (points.size() < 3) return points;
  Stroke out;
  for (size_t i = 0; i + 1 < points.size(); ++i) {
    const Point& b = points[i];
    const Point& c = points[i + 1];
    const Point& a = i > 0 ? points[i - 1] : b;
    const Point& d = i + 2 < points.size() ? points[i + 2] : c;
    for (int k = 0; k < kPieces; ++k) {
      double t = static_cast<double>(k) / kPieces, t2 = t * t, t3 = t2 * t;
      auto at = [&](double pa, double pb, double pc, double pd) {
        return pb + 0.5 * (t * (pc - pa) + t2 * (2 * pa - 5 * pb + 4 * pc - pd) + t3 * (3 * (pb - pc) + pd - pa));
      };
      out.push_back({at(a.x, b.x, c.x, d.x), at(a.y, b.y, c.y, d.y)});
    }
  }
  out.push_back(points.back());
  return out;
}

// Puts ink onto the pixels near a straight piece.
void draw_piece(float* image, const Point& a, const Point& b, double radius, double ink) {
  double reach = radius + 1;
  int left = std::max(0, static_cast<int>(std::floor(std::min(a.x, b.x) - reach)));
  int right = std::min(kSize - 1, static_cast<int>(std::ceil(std::max(a.x, b.x) + reach)));
  int top = std::max(0, static_cast<int>(std::floor(std::min(a.y, b.y) - reach)));
  int bottom = std::min(kSize - 1, static_cast<int>(std::ceil(std::max(a.y, b.y) + reach)));
  double dx = b.x - a.x, dy = b.y - a.y, length2 = dx * dx + dy * dy;
  for (int y = top; y <= bottom; ++y)
    for (int x = left; x <= right; ++x) {
      double px = x - a.x, py = y - a.y;
      double along = length2 > 0 ? std::clamp((px * dx + py * dy) / length2, 0.0, 1.0) : 0;
      double ex = px - along * dx, ey = py - along * dy;
      double cover = std::clamp(radius + 0.5 - std::sqrt(ex * ex + ey * ey), 0.0, 1.0);
      float& pixel = image[y * kSize + x];
      pixel = std::max(pixel, static_cast<float>(cover * ink));
    }
}

void draw_digit(float* image, int digit, bool held_out, HostRandom& random) {
  const std::vector<Glyph>& shapes = glyphs(digit);
  size_t usual = shapes.size() - kHeldOut;
  const Glyph& glyph = held_out ? shapes[usual + random.below(kHeldOut)] : shapes[random.below(usual)];
  double slant = random.between(-0.2, 0.5), turn = random.between(-0.22, 0.22);
  double width = random.between(12, 20), height = random.between(14, 21);
  double centre_x = 13.5 + random.between(-2.5, 2.5), centre_y = 13.5 + random.between(-2.5, 2.5);
  double radius = random.between(0.55, 1.5), ink = random.between(0.75, 1), jitter = random.between(0.01, 0.05);
  double noise = random.between(0, 0.18);
  // sin and cos by their series: the same bits everywhere.
  double sine = turn - turn * turn * turn / 6, cosine = 1 - turn * turn / 2;
  for (const Stroke& stroke : glyph) {
    Stroke moved;
    double drift_x = 0, drift_y = 0;
    for (const Point& p : stroke) {
      // A hand wanders: what is off at one point is off at the next one too.
      drift_x = 0.7 * drift_x + jitter * random.bell();
      drift_y = 0.7 * drift_y + jitter * random.bell();
      double x = (p.x + drift_x - 0.5) * width, y = (p.y + drift_y - 0.5) * height;
      x -= slant * y;
      moved.push_back({centre_x + x * cosine - y * sine, centre_y + x * sine + y * cosine});
    }
    moved = smooth(moved);
    for (size_t i = 0; i + 1 < moved.size(); ++i) draw_piece(image, moved[i], moved[i + 1], radius, ink);
  }
  for (int i = 0; i < kSize * kSize; ++i)
    image[i] = static_cast<float>(std::clamp(image[i] + noise * random.bell(), 0.0, 1.0));
}

}  // namespace

Digits digits(int64_t count, const DigitOptions& options) {
  if (count < 0 || count > 10'000'000) throw ValueError(text("digits: ", count, " images"));
  std::vector<float> images(static_cast<size_t>(count) * kSize * kSize);
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < count; ++i) {
    // Every image has a sequence of its own: the first ones do not depend on how many there are.
    HostRandom random(HostRandom(options.seed * 2 + options.held_out).next() +
                      static_cast<uint64_t>(i) * 0x632be59bd9b4e019u);
    int digit = static_cast<int>(random.below(10));
    labels.push_back(digit);
    draw_digit(&images[static_cast<size_t>(i) * kSize * kSize], digit, options.held_out, random);
  }
  return {from_vector(images, {count, kSize, kSize}), from_vector(labels, {count})};
}

std::string draw_text(const Tensor& image, bool blocks) {
  if (image.rank() != 2) throw ShapeError(text("draw_text: an image has two axes, not ", image.rank()));
  std::vector<float> pixels = image.to_vector<float>();
  size_t rows = static_cast<size_t>(image.size(0)), columns = static_cast<size_t>(image.size(1));
  auto pixel = [&](size_t y, size_t x) { return y < rows ? pixels[y * columns + x] : 0.f; };
  std::string out;
  for (size_t y = 0; y < rows; y += blocks ? 2 : 1) {
    for (size_t x = 0; x < columns; ++x) {
      if (blocks) {
        bool upper = pixel(y, x) > 0.4f, lower = pixel(y + 1, x) > 0.4f;
        out += upper && lower ? "█" : upper ? "▀" : lower ? "▄" : " ";
      } else {
        out += " .:-=+*#%@"[static_cast<size_t>(std::clamp(pixel(y, x), 0.f, 1.f) * 9)];
      }
    }
    out += "\n";
  }
  return out;
}

}  // namespace heddle::data
