// Radix sort, least significant digit first. Each pass counts the digits, adds the counts up to where each digit's
// elements begin, and moves the elements there, in order. A digit in which all keys agree only needs a copy.
//
// Many rows: a block sorts a row in its own memory. Few long rows: blocks are chunks of a row, every step of a pass is
// a phase, and counts are added up over digits first and chunks second. Either way the order is the stable one, so
// nothing depends on how the rows were cut.
#include <algorithm>

#include "base/error.h"
#include "compile/direct/sort_writer.h"

namespace heddle {
namespace {

using kernel::Builder;
using kernel::Space;
using kernel::Value;
using Values = SortWriter::Values;

constexpr int kDigitBits = 8;
constexpr int64_t kBuckets = int64_t{1} << kDigitBits;
// Elements of a row that one block takes on even if others have nothing to do.
constexpr int64_t kShortRow = 8192;
constexpr int64_t kSmallestChunk = 4096, kChunksPerCore = 8;
// Scratch memory of a block that sorts a row on a CPU.
constexpr int64_t kMostScratch = int64_t{32} << 20;
constexpr int kUnroll = 4;
constexpr int64_t kSkipped = 16;  // elements that are left out together

// Keys, and the positions they had in their row, somewhere in memory.
struct Place {
  int keys = -1, positions = -1;  // buffers; -1: not there
  Expr base = 0;                  // where the row begins
  bool final = false;             // the results: elements instead of keys, and i64
};

struct Pass {
  int number = 0;
  int shift = 0;
  int64_t buckets = 0;
  Place from, to;
};

class RadixWriter {
 public:
  explicit RadixWriter(SortWriter& writer) : w(writer), task(writer.task) {
    passes = static_cast<int>(pieces(w.bits, kDigitBits));
    carries = w.indices >= 0;
  }

  void rows() {
    make_places(Space::Shared, task.n);
    int counts = w.buffer("counts", DType::i32, Space::Shared, kBuckets);
    Expr row = w.phase({task.rows})[0];
    Value differs = keys_of(row, 0, task.n);
    for (int p = 0; p < passes; ++p) {
      Pass pass = make_pass(p, row, 0);
      w.b().branch_on(
          needed(differs, pass),
          [&] {
            clear(counts, pass);
            count(pass, counts, 0, task.n);
            add_up(counts, 0, pass.buckets);
            move(pass, counts, 0, task.n);
          },
          [&] { copy(pass, 0, task.n); });
    }
  }

  void chunks() {
    const int64_t wanted = kChunksPerCore * std::max(w.target.cores, 1);
    const int64_t size = round_up(std::max(kSmallestChunk, pieces(task.n, wanted)), 64);
    const int64_t count_of_chunks = pieces(task.n, size);
    make_places(Space::Temp, task.rows * task.n);
    int table = w.buffer("table", DType::i32, Space::Temp, task.rows * kBuckets * count_of_chunks);
    int differences = w.buffer("differences", w.key, Space::Temp, task.rows * count_of_chunks);
    int difference = w.buffer("difference", w.key, Space::Temp, task.rows);
    int counts = w.buffer("counts", DType::i32, Space::Shared, kBuckets);

    auto blocks = w.phase({task.rows, count_of_chunks});
    auto length = [&](const Expr& chunk) { return min(Expr(size), task.n - chunk * size); };
    w.store(differences, keys_of(blocks[0], blocks[1] * size, length(blocks[1])),
            blocks[0] * count_of_chunks + blocks[1]);
    blocks = w.phase({task.rows});
    Values all = w.loop(count_of_chunks, {w.number(w.key, 0)}, [&](const Expr& chunk, const Values& sum) {
      return Values{w.bit_or(sum[0], w.load(differences, blocks[0] * count_of_chunks + chunk))};
    });
    w.store(difference, all[0], blocks[0]);

    for (int p = 0; p < passes; ++p) {
      auto where = [&](const Expr& row, const Expr& digit, const Expr& chunk) {
        return (row * kBuckets + digit) * count_of_chunks + chunk;
      };
      blocks = w.phase({task.rows, count_of_chunks});
      Pass pass = make_pass(p, blocks[0], blocks[0] * task.n);
      w.b().branch_on(needed(w.load(difference, blocks[0]), pass), [&] {
        clear(counts, pass);
        count(pass, counts, blocks[1] * size, length(blocks[1]));
        w.each(pass.buckets, [&](const Expr& d) { w.store(table, w.load(counts, d), where(blocks[0], d, blocks[1])); });
      });
      blocks = w.phase({task.rows});
      w.b().branch_on(needed(w.load(difference, blocks[0]), pass),
                      [&] { add_up(table, where(blocks[0], 0, 0), pass.buckets * count_of_chunks); });
      blocks = w.phase({task.rows, count_of_chunks});
      pass = make_pass(p, blocks[0], blocks[0] * task.n);
      w.b().branch_on(
          needed(w.load(difference, blocks[0]), pass),
          [&] {
            w.each(pass.buckets,
                   [&](const Expr& d) { w.store(counts, w.load(table, where(blocks[0], d, blocks[1])), d); });
            move(pass, counts, blocks[1] * size, length(blocks[1]));
          },
          [&] { copy(pass, blocks[1] * size, length(blocks[1])); });
    }
  }

 private:
  // Two places that take turns; with one pass there is no way back.
  void make_places(Space space, int64_t size) {
    for (int turn = 0; turn < std::min(passes, 2); ++turn) {
      scratch[turn].keys = w.buffer(turn ? "keys1" : "keys0", w.key, space, size);
      if (carries && (turn == 1 || passes > 2))  // the first positions are not stored
        scratch[turn].positions = w.buffer(turn ? "positions1" : "positions0", DType::i32, space, size);
    }
  }

  Pass make_pass(int p, const Expr& row, const Expr& base) const {
    Pass pass;
    pass.number = p;
    pass.shift = p * kDigitBits;
    pass.buckets = int64_t{1} << std::min(kDigitBits, w.bits - pass.shift);
    pass.from = scratch[p % 2];
    pass.from.base = base;
    pass.to = scratch[(p + 1) % 2];
    pass.to.base = base;
    if (p == passes - 1) pass.to = {w.values, w.indices, row * task.kept, true};
    return pass;
  }

  // Writes the keys of a stretch of a row. Gives the bits in which any of them differs from the row's first.
  Value keys_of(const Expr& row, const Expr& begin, const Expr& length) {
    Expr from = row * task.n + begin;
    Expr to = w.kernel.buffers[scratch[0].keys].space == Space::Shared ? begin : from;
    Value first = w.order(w.to_key(w.load(w.x, row * task.n)));
    return w.over_vectors(
        length, ScalarOp::bit_or, w.key,
        [&](const Expr& at, int64_t width) {
          Value k = w.to_key(w.load(w.x, from + at, width));
          w.store(scratch[0].keys, k, to + at);
          return w.op(ScalarOp::bit_xor, w.order(k), first);
        },
        2);
  }

  Value needed(Value differs, const Pass& pass) {
    uint64_t mask = static_cast<uint64_t>(pass.buckets - 1) << pass.shift;
    return w.op(ScalarOp::ne, w.bit_and(differs, w.number(w.key, mask)), w.number(w.key, 0));
  }

  Value digit(const Pass& pass, Value k) {
    Value d = w.order(k);
    if (pass.shift) d = w.op(ScalarOp::shr, d, w.number(w.key, static_cast<uint64_t>(pass.shift)));
    if (pass.shift + kDigitBits < w.bits) d = w.bit_and(d, w.number(w.key, kBuckets - 1));
    return d;
  }

  // Makes of each count from `begin` on the sum of those before it.
  void add_up(int counts, const Expr& begin, int64_t size) {
    w.loop(size, {w.i32(0)}, [&](const Expr& i, const Values& sum) {
      Value here = w.load(counts, begin + i);
      w.store(counts, sum[0], begin + i);
      return Values{w.add(sum[0], here)};
    });
  }

  void clear(int counts, const Pass& pass) {
    const int64_t width = std::min<int64_t>(pass.buckets, w.lanes > 1 ? 16 : 1);
    w.fill(counts, 0, pass.buckets / width, w.splat(DType::i32, 0, width));
  }

  void count(const Pass& pass, int counts, const Expr& begin, const Expr& length) {
    if (pass.buckets == 2) {
      Value second = seconds(pass, begin, length);
      w.store(counts, w.sub(w.index(length), second), 0);
      w.store(counts, second, 1);
      return;
    }
    w.each(
        length,
        [&](const Expr& i) {
          Value d = digit(pass, w.load(pass.from.keys, pass.from.base + begin + i));
          Value before = w.load_at(counts, d, 0, pass.buckets);
          w.store_at(counts, w.add(before, w.i32(1)), d, 0, pass.buckets);
        },
        kUnroll);
  }

  // Of two digits: how many elements of a stretch have the second one.
  Value seconds(const Pass& pass, const Expr& begin, const Expr& length) {
    return w.over_vectors(length, ScalarOp::add, DType::i32, [&](const Expr& i, int64_t width) {
      return w.b().cast(digit(pass, w.load(pass.from.keys, pass.from.base + begin + i, width)), DType::i32);
    });
  }

  // Of two digits: each element is written to both places, of which the wrong one is written again by the next element
  // that belongs there. No branch depends on the data but those that end a stretch, and no place waits in memory.
  void move_two(const Pass& pass, int counts, const Expr& begin, const Expr& length) {
    const int64_t kept = pass.to.final ? task.kept : task.n;
    const Value second = seconds(pass, begin, length);
    const Value number[2] = {w.sub(w.index(length), second), second};
    Values places, ends;
    for (int d = 0; d < 2; ++d) {
      places.push_back(w.load(counts, d));
      ends.push_back(w.op(ScalarOp::minimum, w.add(places.back(), number[d]), w.i32(kept)));
    }
    auto step = [&](const Expr& i, const Values& place) {
      Expr at = pass.from.base + begin + i;
      Value k = w.load(pass.from.keys, at), d = w.b().cast(digit(pass, k), DType::i32);
      Value element = pass.to.keys < 0 ? k : result(pass, k);
      Value origin = carries ? position(pass, begin + i, at, 1) : k;
      for (size_t turn = 0; turn < place.size(); ++turn)
        w.b().branch_on(w.less(place[turn], ends[turn]), [&] {
          if (pass.to.keys >= 0) w.store_at(pass.to.keys, element, place[turn], pass.to.base, kept);
          if (carries) w.store_at(pass.to.positions, origin, place[turn], pass.to.base, kept);
        });
      Values next{w.add(place[0], w.sub(w.i32(1), d))};
      if (place.size() > 1) next.push_back(w.add(place[1], d));
      return next;
    };
    // Often only the first digit is wanted, and few have it: where the true elements of a mask are.
    w.b().branch_on(
        w.less(places[1], ends[1]), [&] { w.loop(length, places, step, kUnroll); },
        [&] { move_first(pass, begin, length, places[0], step); });
  }

  // Leaves out vectors in which nothing has the first of two digits.
  void move_first(const Pass& pass, const Expr& begin, const Expr& length, Value place,
                  const std::function<Values(const Expr& i, const Values& place)>& step) {
    const Expr whole = floordiv(length, kSkipped);
    Values places = w.loop(whole, {place}, [&](const Expr& group, const Values& before) {
      const Value d = digit(pass, w.load(pass.from.keys, pass.from.base + begin + group * kSkipped, kSkipped));
      const Value any = w.equal(w.reduced(ScalarOp::minimum, d), w.number(w.key, 0));
      auto move_group = [&] {
        return w.loop(
            kSkipped, before, [&](const Expr& i, const Values& now) { return step(group * kSkipped + i, now); },
            kUnroll);
      };
      return w.b().branch_on(any, move_group, [&] { return before; });
    });
    w.loop(length - whole * kSkipped, places,
           [&](const Expr& i, const Values& now) { return step(whole * kSkipped + i, now); });
  }

  // `counts` says where the next element with each digit goes.
  void move(const Pass& pass, int counts, const Expr& begin, const Expr& length) {
    if (pass.buckets == 2) return move_two(pass, counts, begin, length);
    w.each(
        length,
        [&](const Expr& i) {
          Expr at = pass.from.base + begin + i;
          Value k = w.load(pass.from.keys, at);
          Value d = digit(pass, k);
          Value place = w.load_at(counts, d, 0, pass.buckets);
          w.store_at(counts, w.add(place, w.i32(1)), d, 0, pass.buckets);
          Expr limit = pass.to.final ? Expr(task.kept) : Expr(task.n);
          if (pass.to.keys >= 0) w.store_at(pass.to.keys, result(pass, k), place, pass.to.base, task.n, limit);
          if (carries)
            w.store_at(pass.to.positions, position(pass, begin + i, at, 1), place, pass.to.base, task.n, limit);
        },
        kUnroll);
  }

  void copy(const Pass& pass, const Expr& begin, const Expr& length) {
    Expr count = pass.to.final ? max(min(length, task.kept - begin), 0) : length;
    w.each_vector(count, [&](const Expr& i, int64_t width) {
      Expr at = pass.from.base + begin + i;
      if (pass.to.keys >= 0)
        w.store(pass.to.keys, result(pass, w.load(pass.from.keys, at, width)), pass.to.base + begin + i);
      if (carries) w.store(pass.to.positions, position(pass, begin + i, at, width), pass.to.base + begin + i);
    });
  }

  Value result(const Pass& pass, Value k) { return pass.to.final ? w.from_key(k) : k; }

  // The positions of elements `i`... of the row as this pass finds them, which lie at `at`.
  Value position(const Pass& pass, const Expr& i, const Expr& at, int64_t width) {
    DType dtype = pass.to.final ? DType::i64 : DType::i32;
    if (pass.number > 0) return w.b().cast(w.load(pass.from.positions, at, width), dtype);
    return w.positions_from(i, dtype, width);
  }

  SortWriter& w;
  const SortTask& task;
  int passes = 1;
  bool carries = false;  // positions
  Place scratch[2];
};

bool row_by_row(const SortWriter& w) {
  const SortTask& task = w.task;
  int64_t bytes = 2 * task.n * (size_of(w.key) + (task.indices ? 4 : 0)) + 4 * kBuckets;
  return task.n <= kShortRow || (task.rows >= 2 * w.target.cores && bytes <= kMostScratch);
}

}  // namespace

void write_radix_sort(SortWriter& w) {
  RadixWriter writer(w);
  if (row_by_row(w)) {
    writer.rows();
  } else {
    writer.chunks();
  }
}

}  // namespace heddle
