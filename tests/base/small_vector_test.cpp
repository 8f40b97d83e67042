#include "base/small_vector.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace heddle {
namespace {

using Strings = SmallVector<std::string, 2>;

Strings numbers(int count) {
  Strings result;
  for (int i = 0; i < count; ++i) result.push_back("number " + std::to_string(i));
  return result;
}

TEST(SmallVector, HoldsElementsInsideAndOnTheHeap) {
  for (int count : {0, 1, 2, 3, 40}) {
    Strings v = numbers(count);
    ASSERT_EQ(v.size(), static_cast<size_t>(count));
    EXPECT_EQ(v.empty(), count == 0);
    for (int i = 0; i < count; ++i) EXPECT_EQ(v[i], "number " + std::to_string(i));
  }
}

TEST(SmallVector, CopiesAndMovesOfEverySize) {
  for (int count : {0, 1, 2, 3, 40}) {
    Strings original = numbers(count), copy = original, moved = std::move(copy);
    EXPECT_EQ(moved, original);
    EXPECT_TRUE(copy.empty());  // NOLINT(bugprone-use-after-move): moving leaves it empty
    copy.push_back("again");
    EXPECT_EQ(copy.size(), 1u);
    for (int other : {0, 2, 50}) {
      Strings target = numbers(other);
      target = original;
      EXPECT_EQ(target, original);
      target = numbers(other);
      EXPECT_EQ(target, numbers(other));
      Strings& alias = target;
      target = alias;
      EXPECT_EQ(target, numbers(other));
    }
  }
}

TEST(SmallVector, InsertsErasesAndResizes) {
  SmallVector<int, 3> v{1, 2, 4};
  v.insert(2, 3);
  v.insert(0, 0);
  EXPECT_EQ(v, (SmallVector<int, 3>{0, 1, 2, 3, 4}));
  v.erase(0);
  v.erase(3);
  EXPECT_EQ(v, (SmallVector<int, 3>{1, 2, 3}));
  v.resize(5, 9);
  EXPECT_EQ(v.back(), 9);
  v.resize(1);
  EXPECT_EQ(v, (SmallVector<int, 3>{1}));
  v.pop_back();
  EXPECT_TRUE(v.empty());
}

TEST(SmallVector, PushingAnOwnElementWhileGrowing) {
  Strings v = numbers(2);
  v.push_back(v[0]);
  EXPECT_EQ(v.back(), "number 0");
}

TEST(SmallVector, HoldsTypesThatOnlyMove) {
  SmallVector<std::unique_ptr<int>, 1> v;
  for (int i = 0; i < 5; ++i) v.push_back(std::make_unique<int>(i));
  SmallVector<std::unique_ptr<int>, 1> w = std::move(v);
  w.erase(0);
  EXPECT_EQ(*w.front(), 1);
  EXPECT_EQ(w.size(), 4u);
}

TEST(SmallVector, ConvertsToSpan) {
  std::vector<int> source{1, 2, 3};
  SmallVector<int, 2> v(std::span<const int>(source.data(), source.size()));
  std::span<const int> view = v;
  EXPECT_EQ(view.size(), 3u);
  EXPECT_EQ(view[2], 3);
  EXPECT_EQ((SmallVector<int, 2>(source.begin(), source.end())), v);
}

}  // namespace
}  // namespace heddle
