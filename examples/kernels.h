// Four kernels in the language of <heddle/kernel.h>, explained in docs/kernels.md. Sizes of blocks are chosen for CPUs.
#pragma once

#include <heddle/heddle.h>

#include <cmath>

namespace examples {

using heddle::KernelBuilder, heddle::KernelTensor, heddle::Tile;

inline int64_t ceildiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// x + y of vectors.
inline heddle::Kernel add(int64_t block = 8192) {
  return {"add", [=](KernelBuilder& k) {
            KernelTensor x = k.input(0), y = k.input(1), z = k.output(x.shape(), x.dtype());
            Tile i = k.block(ceildiv(x.size(0), block)) * block + k.range(block);
            k.store(z, {i}, k.load(x, {i}) + k.load(y, {i}));
          }};
}

// Along rows.
inline heddle::Kernel softmax() {
  return {"softmax", [](KernelBuilder& k) {
            KernelTensor x = k.input(0), y = k.output(x.shape(), x.dtype());
            Tile row = k.block(x.size(0)), j = k.range(x.size(1));
            Tile t = k.load(x, {row, j});
            Tile e = exp(t - k.max(t, j));
            k.store(y, {row, j}, e * (1 / k.sum(e, j)));
          }};
}

// relu(a @ b + bias). A block takes `columns` columns of b, which it copies side by side, and `rows` rows of a, `tile`
// of them at a time.
inline heddle::Kernel matmul(int64_t rows = 512, int64_t columns = 32, int64_t tile = 8) {
  return {"matmul", [=](KernelBuilder& k) {
            KernelTensor a = k.input(0), b = k.input(1), bias = k.input(2);
            const int64_t m = a.size(0), n = b.size(1), depth = b.size(0);
            KernelTensor c = k.output({m, n}, a.dtype()), panel = k.shared({depth, columns}, b.dtype());
            Tile row = k.block(ceildiv(m, rows)) * rows, column = k.block(ceildiv(n, columns)) * columns;
            Tile i = k.range(tile), j = k.range(columns), p = k.range(depth);
            k.store(panel, {p, j}, k.load(b, {p, column + j}));
            k.loop(row, minimum(row + rows, m), tile, {}, [&](const Tile& first, std::span<const Tile>) {
              Tile sum = k.dot(k.load(a, {first + i, p}), k.load(panel, {p, j}), p);
              k.store(c, {first + i, column + j}, maximum(sum + k.load(bias, {column + j}), 0));
              return std::vector<Tile>();
            });
          }};
}

// softmax(q kT / sqrt(d)) v of heads [head, token, d], without the scores in memory: a block takes `rows` queries
// through all keys, `chunk` keys at a time, with the maximum and the sum of weights so far.
inline heddle::Kernel attention(int64_t rows = 16, int64_t chunk = 128) {
  return {"attention", [=](KernelBuilder& k) {
            KernelTensor q = k.input(0), keys = k.input(1), values = k.input(2), y = k.output(q.shape(), q.dtype());
            const int64_t tokens = keys.size(1), width = q.size(2);
            Tile head = k.block(q.size(0)), first = k.block(ceildiv(q.size(1), rows)) * rows;
            Tile i = k.range(rows), j = k.range(chunk), d = k.range(width);
            // Side by side along queries, as products read them.
            KernelTensor query = k.shared({width, rows}, q.dtype());
            k.store(query, {d, i}, k.load(q, {head, first + i, d}) * (1 / std::sqrt(static_cast<double>(width))));
            std::vector<Tile> state = {k.full({i}, -INFINITY, heddle::kF32), k.full({i}, 0, heddle::kF32),
                                       k.full({i, d}, 0, heddle::kF32)};
            state = k.loop(0, tokens, chunk, state, [&](const Tile& start, std::span<const Tile> so_far) {
              Tile scores = k.dot(k.load(query, {d, i}), k.load(keys, {head, start + j, d}), d);
              scores = where(start + j < tokens, scores, -INFINITY);
              Tile top = maximum(so_far[0], k.max(scores, j));
              Tile weights = exp(scores - top), kept = exp(so_far[0] - top);
              Tile sum = so_far[1] * kept + k.sum(weights, j);
              Tile out = k.dot(weights, k.load(values, {head, start + j, d}), j, so_far[2] * kept);
              return std::vector<Tile>{top, sum, out};
            });
            k.store(y, {head, first + i, d}, state[2] / state[1]);
          }};
}

}  // namespace examples
