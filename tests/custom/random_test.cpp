// Random kernels on the device of this run against the evaluator, which interprets what was written. KERNEL_SEEDS=n in
// the environment draws more.
#include <random>

#include "base/config.h"
#include "base/error.h"
#include "graph/graph.h"
#include "tensor/helpers.h"

namespace heddle::testing {
namespace {

// Loads at formulas and at data, elementwise ops, reductions, products, loops that carry tiles, shared memory, and
// stores that each element gets once. Numbers stay small, so that rounding does.
class Writer {
 public:
  Writer(uint64_t seed, KernelBuilder& k) : random_(seed), k_(k) {}

  void write() {
    const int64_t rows = sizes_[draw(6)], columns = sizes_[draw(6)];
    const KernelTensor y = k_.output({5, rows, columns}, kF32), z = k_.output({5}, kI32);
    memory_.emplace(k_.shared({rows, columns}, kF32));
    block_ = k_.block(5);
    ranges_ = {k_.range(rows), k_.range(columns)};
    if (draw(2)) ranges_.push_back(k_.range(sizes_[draw(6)]));
    for (int i = 0; i < 4; ++i) tiles_.push_back(load());
    for (int i = 0, count = 3 + draw(8); i < count; ++i) step(2);
    k_.store(y, {*block_, ranges_[0], ranges_[1]}, summed(pick(), 2));
    k_.store(z, {*block_}, *block_ * 3);
    k_.store(z, {*block_}, 7, *block_ % 2 == draw(3));
  }

 private:
  int draw(int count) { return static_cast<int>(random_() % static_cast<uint64_t>(count)); }
  const Tile& range() { return ranges_[static_cast<size_t>(draw(static_cast<int>(ranges_.size())))]; }
  const Tile& pick() { return tiles_[static_cast<size_t>(draw(static_cast<int>(tiles_.size())))]; }
  Tile position() {
    switch (draw(5)) {
      case 0: return range();
      case 1: return range() * 2 - 3;
      case 2: return *block_ * 3 + range();
      case 3: return 20 - range();
      default: return (range() + *block_) % 7;
    }
  }
  Tile load() {
    const KernelTensor x = k_.input(0), ids = k_.input(1);
    Tile last = draw(4) ? position() : k_.load(ids, {position()});
    Tile mask = draw(3) ? Tile(true) : range() < 1 + draw(9);
    return k_.load(x, {position(), last}, mask, draw(2) ? Tile(0) : Tile(0.5));
  }
  // Without the ranges from `keep` on.
  Tile summed(Tile x, size_t keep) {
    for (size_t r = keep; r < ranges_.size(); ++r) x = k_.max(x + 0 * ranges_[r].to(kF32), ranges_[r]);
    return x;
  }
  // Of about the size of one.
  Tile small(const Tile& x) { return x / (1 + abs(x)); }

  void step(int depth) {
    switch (draw(depth > 0 ? 8 : 6)) {
      case 0: tiles_.push_back(small(pick() + pick() * pick())); break;
      case 1: tiles_.push_back(maximum(pick(), where(range() % 2 == 0, pick(), -1))); break;
      case 2: tiles_.push_back(exp(-abs(pick())) + range() * 0.125); break;
      case 3: {
        const Tile& over = range();
        const Tile x = pick() + 0 * over.to(kF32);
        tiles_.push_back(small(draw(2) ? k_.sum(x, over) : k_.min(x, over)));
        break;
      }
      case 4: {
        const Tile& over = range();
        const Tile a = pick() + 0 * over.to(kF32), b = pick();
        tiles_.push_back(small(draw(2) ? k_.dot(a, b, over) : k_.dot(a, b, over, k_.full({}, 0.25, kF32))));
        break;
      }
      case 5: tiles_.push_back(load()); break;
      case 6: {
        const Tile &i = ranges_[0], &j = ranges_[1];
        k_.store(*memory_, {i, j}, summed(pick(), 2));
        const Tile x = k_.load(*memory_, {i, j});
        for (int n = 0; n < 2; ++n) step(depth - 1);
        tiles_.push_back(x);
        break;
      }
      default: {
        const size_t outside = tiles_.size();
        const Tile x = small(pick()), of_one = k_.full({ranges_[0]}, 0, kF32);
        const Tile stop = draw(2) ? Tile(3) : *block_ + 1;
        std::vector<Tile> results =
            k_.loop(draw(2), stop, 1 + draw(2), {x, of_one}, [&](const Tile& at, std::span<const Tile> carried) {
              tiles_.insert(tiles_.end(), carried.begin(), carried.end());
              tiles_.push_back(k_.load(k_.input(0), {at, range()}));
              for (int n = 0; n < 2; ++n) step(depth - 1);
              Tile next = small(carried[0] + 0.5 * at);
              Tile sum = small(carried[1] + summed(tiles_.back(), 1));
              tiles_.resize(outside, x);
              return std::vector<Tile>{next, sum};
            });
        tiles_.insert(tiles_.end(), results.begin(), results.end());
      }
    }
  }

  static constexpr int64_t sizes_[] = {1, 3, 8, 16, 17, 24};
  std::mt19937_64 random_;
  KernelBuilder& k_;
  std::optional<Tile> block_;
  std::optional<KernelTensor> memory_;
  std::vector<Tile> ranges_, tiles_;
};

TEST(RandomKernel, computes_what_the_evaluator_does) {
  const Tensor x = noise_tensor({12, 30}),
               ids = from_vector(std::vector<int64_t>{3, 0, 29, -1, 30, 7, 7, 12}, {8}).realize();
  const char* seeds = std::getenv("KERNEL_SEEDS");
  const uint64_t count = seeds ? std::strtoull(seeds, nullptr, 10) : 6;
  for (uint64_t seed = 0; seed < count; ++seed) {
    SCOPED_TRACE(text("seed ", seed));
    Kernel kernel("random", [&](KernelBuilder& k) { Writer(seed, k).write(); });
    const TensorList results = kernel({x, ids});
    std::vector<NodeRef> roots = {results[0].node(), results[1].node()};
    const std::vector<HostArray> want = evaluate(roots);
    for (const Tensor& y : results) y.realize();
    if (config().device == "null") continue;
    for (size_t r = 0; r < 2; ++r) {
      std::vector<double> expected = want[r].floats;
      for (uint64_t v : want[r].integers) expected.push_back(static_cast<double>(v));
      expect_close(results[r], expected, 1e-4);
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace heddle::testing
