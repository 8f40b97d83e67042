// Movement chains end in the index a person would write, and in the right one.
#include "view_chain.h"

#include <gtest/gtest.h>

#include <random>

namespace heddle {
namespace {

std::string offset_text(const View& v) { return to_string(v.offset(v.axes())); }
std::string guard_text(const View& v) { return to_string(v.position(v.axes()).guard); }

TEST(ViewChain, ReshapeThereAndBackIsTheIdentity) {
  EXPECT_EQ(offset_text(View({6, 4}).reshape({24}).reshape({6, 4})), "i * 4 + j");
  EXPECT_EQ(offset_text(View({6, 4}).reshape({2, 3, 4}).reshape({24}).reshape({6, 4})), "i * 4 + j");
  EXPECT_EQ(offset_text(View({6, 4}).reshape({8, 3}).reshape({6, 4})), "i * 4 + j");
  EXPECT_EQ(offset_text(View({6, 4}).reshape({8, 3}).reshape({2, 12}).reshape({24})), "i");
  View v({6, 4});
  v.reshape({3, 8}).reshape({24}).reshape({6, 4});
  Coordinates axes = v.axes();
  EXPECT_EQ(v.position(axes).at, axes);
}

TEST(ViewChain, CoordinatesOfReshape) {
  View v({6, 4});
  v.reshape({24});
  Coordinates axes = v.axes();
  EXPECT_EQ(to_string(v.position(axes).at[0]), "i // 4");
  EXPECT_EQ(to_string(v.position(axes).at[1]), "i % 4");
  View w({2, 3, 4});
  w.reshape({24});
  axes = w.axes();
  EXPECT_EQ(to_string(w.position(axes).at[0]), "i // 12");
  EXPECT_EQ(to_string(w.position(axes).at[1]), "(i // 4) % 3");
  EXPECT_EQ(to_string(w.position(axes).at[2]), "i % 4");
  View m({2, 3, 4});
  m.reshape({6, 4});
  axes = m.axes();
  EXPECT_EQ(to_string(m.position(axes).at[0]), "i // 3");
  EXPECT_EQ(to_string(m.position(axes).at[1]), "i % 3");
  EXPECT_EQ(to_string(m.position(axes).at[2]), "j");
}

TEST(ViewChain, PermuteReshapePermuteRoundTrips) {
  EXPECT_EQ(offset_text(View({4, 6}).permute({1, 0}).permute({1, 0})), "i * 6 + j");
  EXPECT_EQ(offset_text(View({2, 3, 4}).permute({2, 0, 1}).reshape({4, 6}).reshape({4, 2, 3}).permute({1, 2, 0})),
            "i * 12 + j * 4 + k");
  EXPECT_EQ(offset_text(View({4, 6}).permute({1, 0}).reshape({24}).reshape({6, 4}).permute({1, 0})), "i * 6 + j");
  EXPECT_EQ(offset_text(View({4, 6}).permute({1, 0}).reshape({24})), "(i % 4) * 6 + i // 4");
  EXPECT_EQ(offset_text(View({8, 8}).reshape({2, 4, 2, 4}).permute({0, 2, 1, 3})), "i * 32 + k * 8 + j * 4 + l");
}

TEST(ViewChain, SplitAndMergeHeads) {
  // (batch, sequence, heads * width) -> (batch, heads, sequence, width) and back
  View split({2, 128, 768});
  split.reshape({2, 128, 12, 64}).permute({0, 2, 1, 3});
  EXPECT_EQ(offset_text(split), "i * 98304 + k * 768 + j * 64 + l");
  split.permute({0, 2, 1, 3}).reshape({2, 128, 768});
  EXPECT_EQ(offset_text(split), "i * 98304 + j * 768 + k");
  View batched({2, 128, 768});
  batched.reshape({2, 128, 12, 64}).permute({0, 2, 1, 3}).reshape({24, 128, 64});
  EXPECT_EQ(offset_text(batched), "(i // 12) * 98304 + j * 768 + (i % 12) * 64 + k");
}

TEST(ViewChain, FlipTwiceIsTheIdentity) {
  EXPECT_EQ(offset_text(View({6, 4}).flip(0).flip(0)), "i * 4 + j");
  EXPECT_EQ(offset_text(View({6, 4}).flip(1)), "i * 4 - j + 3");
  EXPECT_EQ(offset_text(View({6, 4}).reshape({24}).flip(0)), "23 - i");
  EXPECT_EQ(offset_text(View({6, 4}).reshape({24}).flip(0).reshape({6, 4}).flip(0).flip(1)), "i * 4 + j");
  EXPECT_EQ(offset_text(View({6, 4}).flip(0).reshape({24})), "i % 4 - (i // 4) * 4 + 20");
}

TEST(ViewChain, PadThenShrinkIsTheIdentity) {
  View v({6, 4});
  v.pad(0, 2, 3).shrink(0, 2, 8);
  EXPECT_EQ(offset_text(v), "i * 4 + j");
  EXPECT_EQ(guard_text(v), "1");
  View p({6});
  p.pad(0, 2, 3);
  EXPECT_EQ(offset_text(p), "i - 2");
  EXPECT_EQ(guard_text(p), "1 < i && i < 8");
  View q({6, 4});
  q.pad(1, 0, 4).reshape({48});
  EXPECT_EQ(guard_text(q), "i % 8 < 4");
  EXPECT_EQ(offset_text(q), "(i // 8) * 4 + i % 8");
  View r({24});
  r.pad(0, 0, 8).reshape({8, 4});
  EXPECT_EQ(guard_text(r), "i < 6");
  EXPECT_EQ(offset_text(r), "i * 4 + j");
  View s({3, 4});
  s.pad(0, 1, 1).reshape({20});
  EXPECT_EQ(guard_text(s), "3 < i && i < 16");
  EXPECT_EQ(offset_text(s), "i - 4");
}

TEST(ViewChain, WindowOverReshape) {
  EXPECT_EQ(offset_text(View({24}).reshape({4, 6}).window(1, 3, 1)), "i * 6 + j + k");
  EXPECT_EQ(offset_text(View({8, 8}).window(0, 2, 2).window(1, 2, 2)), "i * 16 + k * 8 + j * 2 + l");
  EXPECT_EQ(offset_text(View({8, 8}).window(0, 2, 2).window(1, 2, 2).permute({0, 2, 1, 3}).reshape({8, 8})),
            "i * 8 + j");
}

TEST(ViewChain, ConvolutionIndex) {
  // (channels, height, width) padded by one, 3x3 windows: (c, oh, ow, kh, kw)
  View v({16, 32, 32});
  v.pad(1, 1, 1).pad(2, 1, 1).window(1, 3, 1).window(2, 3, 1);
  EXPECT_EQ(offset_text(v), "i * 1024 + j * 32 + l * 32 + k + p - 33");
  EXPECT_EQ(guard_text(v), "0 < j + l && 0 < k + p && j + l < 33 && k + p < 33");
  // the same as a matrix: (oh * ow, c * kh * kw)
  View m({16, 32, 32});
  m.pad(1, 1, 1).pad(2, 1, 1).window(1, 3, 1).window(2, 3, 1).permute({1, 2, 0, 3, 4}).reshape({1024, 144});
  EXPECT_EQ(offset_text(m), "(j // 9) * 1024 + ((j // 3) % 3) * 32 + i + j % 3 - 33");
}

TEST(ViewChain, ExpandBroadcastsTheSource) {
  EXPECT_EQ(offset_text(View({6, 1}).expand(1, 4)), "i");
  EXPECT_EQ(offset_text(View({1, 4}).expand(0, 6).reshape({24})), "i % 4");
  EXPECT_EQ(offset_text(View({6, 1}).expand(1, 4).reshape({24})), "i // 4");
  EXPECT_EQ(offset_text(View({6, 1}).expand(1, 4).reshape({2, 12})), "i * 3 + j // 4");
}

TEST(ViewChain, SymbolicShapes) {
  Expr n = Expr::symbol("n", 1, 1024), m = Expr::symbol("m", 1, 512);
  EXPECT_EQ(offset_text(View({n, m}).reshape({n * m}).reshape({n, m})), "m * i + j");
  EXPECT_EQ(offset_text(View({n, m}).reshape({n * m})), "i");
  EXPECT_EQ(offset_text(View({n, m}).permute({1, 0})), "m * j + i");
  EXPECT_EQ(offset_text(View({n, 64}).reshape({n, 4, 16}).permute({1, 0, 2})), "j * 64 + i * 16 + k");
  EXPECT_EQ(offset_text(View({2, n, 64}).reshape({2, n, 4, 16}).permute({0, 2, 1, 3}).reshape({8, n, 16})),
            "n * (i // 4) * 64 + j * 64 + (i % 4) * 16 + k");
  EXPECT_EQ(offset_text(View({2, n, 64}).reshape({n * 2, 64})), "i * 64 + j");
  View v({n, m});
  v.reshape({n * m});
  Coordinates axes = v.axes();
  EXPECT_EQ(to_string(v.position(axes).at[0]), "i // m");
  EXPECT_EQ(to_string(v.position(axes).at[1]), "i % m");
  View flipped({n, m});
  flipped.reshape({n * m}).flip(0).reshape({n, m}).flip(0).flip(1);
  EXPECT_EQ(offset_text(flipped), "m * i + j");
  View padded({n, 4});
  padded.pad(0, 1, 1).shrink(0, 1, n + 1);
  EXPECT_EQ(offset_text(padded), "i * 4 + j");
  EXPECT_EQ(guard_text(padded), "1");
  View grown({n, 4});
  grown.pad(0, 0, 5).reshape({n * 4 + 20});
  EXPECT_EQ(guard_text(grown), "i < n * 4");
  EXPECT_EQ(offset_text(grown), "i");
}

// --- random chains against brute force ---------------------------------------------------------------------------

class RandomChain {
 public:
  explicit RandomChain(uint64_t seed) : random_(seed) {}

  View make() {
    static const std::vector<std::vector<int64_t>> kShapes = {{6, 4}, {2, 3, 4}, {24}, {5, 3}, {4, 1, 6}, {2, 2, 2, 3}};
    Coordinates shape;
    for (int64_t size : kShapes[pick(kShapes.size())]) shape.push_back(Expr(size));
    View v(shape);
    size_t length = 2 + pick(6);
    for (size_t i = 0; i < length; ++i) step(v);
    return v;
  }

 private:
  size_t pick(size_t n) { return random_() % n; }

  static int64_t volume(const View& v) {
    int64_t product = 1;
    for (const Expr& size : v.shape) product *= size.value();
    return product;
  }

  void random_reshape(View& v) {
    Coordinates shape;
    int64_t left = volume(v);
    while (left > 1 && shape.size() < 3) {
      std::vector<int64_t> divisors;
      for (int64_t d = 1; d <= left; ++d)
        if (left % d == 0) divisors.push_back(d);
      int64_t d = divisors[pick(divisors.size())];
      shape.push_back(Expr(d));
      left /= d;
    }
    if (left > 1 || shape.empty()) shape.push_back(Expr(left));
    v.reshape(shape);
  }

  void step(View& v) {
    size_t axis = pick(v.shape.size());
    int64_t size = v.shape[axis].value();
    switch (pick(8)) {
      case 0:
      case 1:
      case 2: return random_reshape(v);
      case 3: {
        std::vector<size_t> order(v.shape.size());
        for (size_t i = 0; i < order.size(); ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), random_);
        v.permute(order);
        return;
      }
      case 4:
        if (size == 1 && volume(v) < 60) v.expand(axis, Expr(int64_t{2} + static_cast<int64_t>(pick(3))));
        return;
      case 5:
        if (volume(v) < 60) v.pad(axis, Expr(static_cast<int64_t>(pick(3))), Expr(static_cast<int64_t>(pick(3))));
        return;
      case 6: {
        int64_t begin = static_cast<int64_t>(pick(static_cast<size_t>(size)));
        int64_t end = begin + 1 + static_cast<int64_t>(pick(static_cast<size_t>(size - begin)));
        if (size > 2) v.shrink(axis, begin, end);
        return;
      }
      default:
        if (pick(2)) {
          v.flip(axis);
        } else if (size >= 3 && v.shape.size() < 5 && volume(v) < 60) {
          v.window(axis, 2, Expr(static_cast<int64_t>(1 + pick(2))));
        }
    }
  }

  std::mt19937_64 random_;
};

// The reference: the same steps on constants only, where nothing but folding happens.
TEST(ViewChain, RandomChainsAgreeWithBruteForce) {
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    View v = RandomChain(seed).make();
    Coordinates axes = v.axes();
    Expr guard = v.position(axes).guard;
    Expr offset = v.offset(axes);
    int64_t volume = 1;
    for (const Expr& size : v.shape) volume *= size.value();
    for (int64_t element = 0; element < volume; ++element) {
      Coordinates at = unflatten_row_major(Expr(element), v.shape);
      View::Position expected = v.position(at);
      ASSERT_TRUE(expected.guard.is_const());
      auto value_of = [&](const Expr& var) {
        for (size_t a = 0; a < axes.size(); ++a)
          if (axes[a] == var) return at[a].value();
        return int64_t{-1};
      };
      ASSERT_EQ(evaluate(guard, value_of), expected.guard.value()) << guard << " seed " << seed;
      if (expected.guard.is_const(0)) continue;
      ASSERT_EQ(evaluate(offset, value_of), flatten_row_major(expected.at, v.source).value())
          << offset << " if " << guard << " seed " << seed;
    }
  }
}

}  // namespace
}  // namespace heddle
