#include "compile/direct/sort_network.h"

#include <algorithm>

namespace heddle {

using kernel::Builder;

SortingNetwork::SortingNetwork(SortWriter& writer, DType word)
    : w(writer), lanes_(writer.target.vector_bytes / size_of(word)) {}

namespace {
Builder::Access vector_access(const SortLine& line, const Expr& vector, int64_t lanes, bool reversed) {
  const Expr lane = SortWriter::lane(lanes);
  return SortWriter::across(lane, line.base + vector * lanes + (reversed ? lanes - 1 - lane : lane));
}
}  // namespace

SortWriter::Value SortingNetwork::load(const SortLine& line, const Expr& vector, bool reversed) const {
  const DType word = w.kernel.buffers[line.buffer].dtype;
  return w.b().load(line.buffer, word, vector_access(line, vector, lanes_, reversed));
}

void SortingNetwork::store(const SortLine& line, Value v, const Expr& vector, bool reversed) const {
  w.b().store(line.buffer, v, vector_access(line, vector, lanes_, reversed));
}

void SortingNetwork::compare(Value& low, Value& high) const {
  const Value least = w.op(ScalarOp::minimum, low, high);
  high = w.op(ScalarOp::maximum, low, high);
  low = least;
}

void SortingNetwork::compare_ends(Values& v, size_t block) const {
  for (size_t start = 0; start < v.size(); start += block)
    for (size_t i = 0; i < block / 2; ++i) compare(v[start + i], v[start + block - 1 - i]);
}

void SortingNetwork::halve_all(Values& v, size_t distance) const {
  for (; distance > 0; distance /= 2)
    for (size_t i = 0; i < v.size(); ++i)
      if (!(i & distance)) compare(v[i], v[i + distance]);
}

void SortingNetwork::sort_lanes(const SortLine& line, int64_t count) const {
  w.each(count / kHeld, [&](const Expr& group) {
    Values v;
    for (int64_t j = 0; j < kHeld; ++j) v.push_back(load(line, group * kHeld + j));
    for (size_t size = 2; size <= v.size(); size *= 2) {
      compare_ends(v, size);
      halve_all(v, size / 4);
    }
    for (int64_t j = 0; j < kHeld; ++j) store(line, v[j], group * kHeld + j);
  });
  int layers = 1;  // from run / 8 on
  for (int64_t run = kHeld; run < count; run *= 2) {
    flip(line, count, run);
    halve(line, count, run / 8, layers++);
  }
}

void SortingNetwork::flip_step(const SortLine& line, const Expr& block, const Expr& at, int64_t run,
                               const Expr& scale) const {
  constexpr int64_t kHalf = kHeld / 2;
  const bool reversed = line.order == SortLine::Order::Memory;
  const Expr apart = scale * (run / kHalf), first = block * scale * (2 * run) + at;
  // The second half is walked backwards: what is compared lies at the same distance from either end.
  const Expr second = (block * 2 + 1) * scale * run + apart - 1 - at;
  Values v;
  for (int64_t j = 0; j < kHalf; ++j) v.push_back(load(line, first + apart * j));
  for (int64_t j = 0; j < kHalf; ++j) v.push_back(load(line, second + apart * j, reversed));
  compare_ends(v, v.size());
  halve_all(v, v.size() / 4);
  for (int64_t j = 0; j < kHalf; ++j) store(line, v[j], first + apart * j);
  for (int64_t j = 0; j < kHalf; ++j) store(line, v[kHalf + j], second + apart * j, reversed);
}

void SortingNetwork::flip(const SortLine& line, const Expr& count, int64_t run, const Expr& scale) const {
  w.each(ceildiv(count, scale * (2 * run)), [&](const Expr& block) {
    w.each(scale * (2 * run / kHeld), [&](const Expr& at) { flip_step(line, block, at, run, scale); });
  });
}

void SortingNetwork::halve_step(const SortLine& line, const Expr& block, const Expr& at, int64_t distance, int layers,
                                const Expr& scale) const {
  const int64_t held = int64_t{1} << layers;
  const Expr apart = scale * (2 * distance / held), first = block * scale * (2 * distance) + at;
  Values v;
  for (int64_t j = 0; j < held; ++j) v.push_back(load(line, first + apart * j));
  halve_all(v, v.size() / 2);
  for (int64_t j = 0; j < held; ++j) store(line, v[j], first + apart * j);
}

void SortingNetwork::halve(const SortLine& line, const Expr& count, int64_t distance, int layers,
                           const Expr& scale) const {
  while (layers > 0) {
    // What is left is spread evenly over passes.
    const int now = static_cast<int>(pieces(layers, pieces(layers, kLayers)));
    w.each(ceildiv(count, scale * (2 * distance)), [&](const Expr& block) {
      w.each(scale * ((2 * distance) >> now),
             [&](const Expr& at) { halve_step(line, block, at, distance, now, scale); });
    });
    distance >>= now;
    layers -= now;
  }
}

void SortingNetwork::finish(const SortLine& line, const Expr& count, const Put& put) const {
  w.each(ceildiv(count, lanes_), [&](const Expr& group) {
    Values v;
    for (int64_t j = 0; j < lanes_; ++j) v.push_back(load(line, group * lanes_ + j));
    halve_all(v, v.size() / 2);
    v = w.b().transpose(v);
    halve_all(v, v.size() / 2);
    v = w.b().transpose(v);
    if (put) {
      put(v, group * lanes_);
    } else {
      for (int64_t j = 0; j < lanes_; ++j) store(line, v[j], group * lanes_ + j);
    }
  });
}

}  // namespace heddle
