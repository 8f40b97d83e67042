// Merge sort by ranks, for machines whose blocks are many threads. Two sorted runs become one when every element knows
// how many of the other run come before it: of equal elements those of the first run do, so the order is the stable
// one. A block merges runs of one element and longer ones in shared memory; what is longer than that is merged phase by
// phase.
#include <algorithm>
#include <bit>

#include "compile/direct/sort_writer.h"

namespace heddle {
namespace {

using kernel::Space;
using kernel::Value;
using Values = SortWriter::Values;

constexpr int64_t kThreads = 256;
// Elements of a block in shared memory, and of a thread in the phases after.
constexpr int64_t kHeldBytes = 8192, kEach = 4;

// Keys and the positions they had in their row.
struct Pairs {
  int keys = -1, positions = -1;  // buffers
  Expr base = 0;                  // where those that are looked at begin
};

class MergeWriter {
 public:
  explicit MergeWriter(SortWriter& writer) : w(writer), task(writer.task) {}

  void write() {
    w.kernel.threads = static_cast<int>(kThreads);
    w.kernel.thread = Expr::index("t", kThreads);
    const int64_t whole = ceil_power(task.n);
    const int64_t room = w.target.shared_bytes / (2 * (size_of(w.key) + 4));  // for keys and positions, twice
    const int64_t held = std::max(std::min<int64_t>(kHeldBytes / size_of(w.key), floor_power(room)), kThreads);
    chunk = std::min(whole, held);
    const int64_t chunks = pieces(task.n, chunk);
    const int64_t together = chunks > 1 ? 1 : std::min(held / chunk, task.rows);  // rows of a block
    Pairs later[2];
    for (Pairs& pairs : later)
      if (chunks > 1) {
        pairs.keys = w.buffer("keys", w.key, Space::Temp, task.rows * task.n);
        pairs.positions = w.buffer("positions", DType::i32, Space::Temp, task.rows * task.n);
      }
    sort_chunks(chunks, together, later[0]);
    for (int64_t run = chunk; run < task.n; run *= 2) {
      merge_phase(run, later[0], later[1]);
      std::swap(later[0], later[1]);
    }
  }

 private:
  // Keys from `begin` on that come before `own`: those below it, and with `equal_too` those equal to it. There are
  // `count` (i32), at most `most`.
  Value rank(const Pairs& in, Value own, Value begin, Value count, Value equal_too, int64_t most, int64_t extent) {
    Values found = w.loop(static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(most))), {w.i32(0), count},
                          [&](const Expr&, const Values& range) {
                            Value low = range[0], high = range[1];
                            Value middle = w.op(ScalarOp::shr, w.add(low, high), w.i32(1));
                            Value open = w.less(low, high);
                            Value at = w.where({open, w.add(begin, middle), w.i32(0)});
                            Value other = w.order(w.load_at(in.keys, at, in.base, extent));
                            Value before = w.bit_or(w.less(other, own), w.bit_and(equal_too, w.equal(other, own)));
                            Value up = w.bit_and(open, before);
                            return Values{w.where({up, w.add(middle, w.i32(1)), low}),
                                          w.where({up, high, w.where({open, middle, high})})};
                          });
    return found[0];
  }

  // The place of element i among two runs of `run` elements that begin together at a multiple of 2 * run. All there is
  // are `size` elements.
  Value place(const Pairs& in, const Expr& i, Value own, int64_t run, int64_t size) {
    Expr second = mod(floordiv(i, run), 2);
    Expr pair = i - mod(i, 2 * run);
    Expr sibling = select(eq(second, 1), pair, pair + run);
    Expr count = max(min(Expr(run), size - sibling), 0);
    Value before = rank(in, own, w.index(sibling), w.index(count), w.index(eq(second, 1), DType::boolean), run, size);
    return w.add(w.index(pair + mod(i, run)), before);
  }

  void store_result(const Expr& row, Value rank, Value key, Value position) {
    w.store_result(row, rank, kAnyPosition, [&] { return w.from_key(key); }, [&] { return position; });
  }

  // A block takes `together` rows, or one part of a row.
  void sort_chunks(int64_t chunks, int64_t together, const Pairs& later) {
    const int64_t held = together * chunk;
    Pairs shared[2];
    for (Pairs& pairs : shared) {
      pairs.keys = w.buffer("chunk", w.key, Space::Shared, held);
      pairs.positions = w.buffer("from", DType::i32, Space::Shared, held);
    }
    auto blocks = w.phase({pieces(task.rows, together), chunks});
    // Rows are padded with the largest key: behind all others, for it comes last.
    each(held, [&](const Expr& i) {
      Expr row = blocks[0] * together + floordiv(i, chunk), at = blocks[1] * chunk + mod(i, chunk);
      Expr there = logical_and(lt(at, task.n), lt(row, task.rows));
      Value k = w.to_key(w.b().load(w.x, task.dtype, {row * task.n + at, there}));
      k = w.where({w.index(there, DType::boolean), k, w.number(w.key, w.ones())});
      w.store(shared[0].keys, k, i);
      w.store(shared[0].positions, w.index(at), i);
    });
    for (int64_t run = 1; run < chunk; run *= 2) {
      w.b().barrier();
      each(held, [&](const Expr& i) {
        Value key = w.load(shared[0].keys, i), position = w.load(shared[0].positions, i);
        Value at = place(shared[0], i, w.order(key), run, held);
        w.store_at(shared[1].keys, key, at, 0, held);
        w.store_at(shared[1].positions, position, at, 0, held);
      });
      std::swap(shared[0], shared[1]);
    }
    w.b().barrier();
    each(held, [&](const Expr& i) {
      Expr row = blocks[0] * together + floordiv(i, chunk), at = blocks[1] * chunk + mod(i, chunk);
      w.b().branch(logical_and(lt(at, task.n), lt(row, task.rows)), [&] {
        Value key = w.load(shared[0].keys, i), position = w.load(shared[0].positions, i);
        if (chunks == 1) {
          store_result(row, w.index(at), key, position);
        } else {
          w.store(later.keys, key, row * task.n + at);
          w.store(later.positions, position, row * task.n + at);
        }
      });
    });
  }

  void merge_phase(int64_t run, Pairs from, const Pairs& to) {
    const int64_t block = kThreads * kEach;
    auto blocks = w.phase({task.rows, pieces(task.n, block)});
    from.base = blocks[0] * task.n;
    w.each(kEach, [&](const Expr& k) {
      Expr i = blocks[1] * block + k * kThreads + w.kernel.thread;
      w.b().branch(lt(i, task.n), [&] {
        Value key = w.load(from.keys, from.base + i), position = w.load(from.positions, from.base + i);
        Value at = place(from, i, w.order(key), run, task.n);
        if (2 * run >= task.n) {
          store_result(blocks[0], at, key, position);
        } else {
          w.store_at(to.keys, key, at, from.base, task.n);
          w.store_at(to.positions, position, at, from.base, task.n);
        }
      });
    });
  }

  // Every thread its share of [0, count).
  void each(int64_t count, const std::function<void(const Expr& i)>& body) {
    w.each(pieces(count, kThreads), [&](const Expr& k) {
      Expr i = k * kThreads + w.kernel.thread;
      if (count % kThreads == 0)
        body(i);
      else
        w.b().branch(lt(i, count), [&] { body(i); });
    });
  }

  SortWriter& w;
  const SortTask& task;
  int64_t chunk = 1;
};

}  // namespace

void write_merge_sort(SortWriter& w) { MergeWriter(w).write(); }

}  // namespace heddle
