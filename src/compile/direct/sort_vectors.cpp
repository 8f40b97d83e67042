// Sorting by networks, for machines with vectors.
//
// Many short rows: a block sorts as many rows as a vector has lanes, each row in a lane.
// Long rows: blocks are chunks of a row. Each is cut into as many runs as there are lanes, which are sorted in their
// lanes; then runs, and later chunks, are merged two and two.
//
// What is sorted are *words*. Where only values are wanted they are keys. Networks are not stable, which shows only
// with zeros of both signs: they are put in order afterwards, where there are any. Where positions are wanted words are
// keys with the position below them.
#include <algorithm>
#include <bit>

#include "compile/direct/sort_network.h"

namespace heddle {
namespace {

using kernel::Builder;
using kernel::Space;
using kernel::Value;
using Values = SortWriter::Values;

// Words of one lane's row, together with those of the other lanes, in bytes; bytes of a chunk.
constexpr int64_t kMostInLanes = 256 << 10, kLeastChunk = 32 << 10, kMostChunk = 128 << 10, kChunks = 32;
// Of many rows each is sorted by one core, in memory of its own: as long as it has so many bytes.
constexpr int64_t kMostAlone = 256 << 10;
// Vectors that one block of a pass over a long row takes from each of the places that it compares.
constexpr int64_t kPiece = 64;
// Merges of long rows go through memory more often than digits do; words of 8 bytes feel that first.
constexpr int64_t kLongestRow = int64_t{1} << 24, kLongestWide = int64_t{1} << 21;

int exponent(int64_t power_of_two) { return std::countr_zero(static_cast<uint64_t>(power_of_two)); }

int position_bits(const SortTask& task) { return task.indices ? exponent(ceil_power(task.n)) : 0; }

bool has_many_rows(const SortWriter& w) { return w.task.rows >= 2 * std::max(w.target.cores, 1); }

DType word_dtype(const SortWriter& w) { return w.bits + position_bits(w.task) <= 32 ? DType::u32 : DType::u64; }

class VectorSort {
 public:
  explicit VectorSort(SortWriter& writer)
      : w(writer),
        task(writer.task),
        word(word_dtype(writer)),
        network(writer, word),
        lanes(network.lanes()),
        mends(!task.indices && is_float(task.dtype)) {}

  void rows_in_lanes() {
    const int64_t tiles = pieces(task.n, lanes);
    const int64_t count = round_up(task.n, SortingNetwork::kHeld);
    const int64_t padded = ceil_power(std::max(count, tiles * lanes));
    const SortLine line{w.buffer("words", word, Space::Shared, padded * lanes)};
    const Expr first = w.phase({pieces(task.rows, lanes)})[0] * lanes;
    const Values zeros = load_rows(line, first);
    fill(line, tiles * lanes, padded);
    network.sort_lanes(line, count);
    w.each(task.kept / lanes, [&](const Expr& tile) { put_rows(line, first, tile, true); });
    if (task.kept % lanes != 0) put_rows(line, first, task.kept / lanes, false);
    if (!mends) return;
    w.b().branch_on(w.bit_and(seen(zeros[0]), seen(zeros[1])),
                    [&] { w.each(min(Expr(lanes), task.rows - first), [&](const Expr& i) { mend(first + i); }); });
  }

  void long_rows() {
    const int64_t whole = ceil_power(task.n);
    chunk = has_many_rows(w) ? whole : std::clamp(whole / kChunks, kLeastChunk, kMostChunk) / size_of(word);
    chunk = std::max(std::min(whole, chunk), smallest_chunk());
    room = std::max(whole, chunk);
    height = chunk / lanes;
    // A block that sorts a whole row keeps it for itself.
    row_buffer = w.buffer("words", word, alone() ? Space::Shared : Space::Temp, alone() ? room : task.rows * room);
    if (mends) zeros_buffer = w.buffer("zeros", DType::boolean, Space::Temp, task.rows * 2 * (room / chunk));
    sort_chunks();
    for (int64_t run = height; run * lanes < task.n; run *= 2) merge_chunks(run);
    if (mends) mend_rows();
  }

  // The least that long_rows() sorts: shorter rows are padded. There, runs of the first merge within a chunk are long
  // enough for the way in which merge_runs() goes.
  int64_t smallest_chunk() const { return lanes * lanes * std::max(lanes / 2, SortingNetwork::kHeld); }
  int64_t width() const { return lanes; }
  int64_t bytes_in_lanes() const { return task.n * lanes * size_of(word); }

 private:
  uint64_t largest() const { return ~uint64_t{0} >> (64 - 8 * size_of(word)); }
  void fill(const SortLine& line, int64_t from, int64_t to) {
    w.fill(line.buffer, line.base + from * lanes, to - from, w.splat(word, largest(), lanes));
  }

  // The words of elements `at`... of a row, if `there` holds. Unless all are `inside` the row, the largest words follow
  // those that are. For each sign, `zeros` has a bit pattern that is 0 where such a zero was seen.
  Value words(const Expr& row, const Expr& there, const Expr& at, bool inside, Values& zeros) {
    const Expr lane = w.lane(lanes), exists = inside ? Expr(1) : lt(at + lane, task.n);
    const Builder::Access access = w.across(lane, row * task.n + at + lane, logical_and(there, exists));
    Value k = w.to_key(w.b().load(w.x, task.dtype, access));
    for (size_t sign = 0; sign < zeros.size(); ++sign)
      zeros[sign] = w.op(ScalarOp::minimum, zeros[sign], w.op(ScalarOp::bit_xor, k, w.number(w.key, zero_key(sign))));
    if (task.indices) k = w.order(k);
    k = w.b().cast(k, word);
    if (task.indices) {
      const Value position = w.b().cast(w.b().index(DType::i32, at + lane, access.coords), word);
      k = w.op(ScalarOp::shl, k, w.number(word, static_cast<uint64_t>(position_bits(task))));
      k = w.bit_or(k, position);
    }
    if (inside) return k;
    return w.where({w.b().index(DType::boolean, exists, access.coords), k, w.number(word, largest())});
  }

  // The zero that is in front, and the one behind it.
  uint64_t zero_key(size_t sign) const { return (uint64_t{1} << (w.bits - 1)) - 1 + sign; }
  Values no_zeros() {
    return mends ? Values{w.splat(w.key, w.ones(), lanes), w.splat(w.key, w.ones(), lanes)} : Values{};
  }
  Value seen(Value zeros) { return w.equal(w.reduced(ScalarOp::minimum, zeros), w.number(w.key, 0)); }

  // Results `at`... of a row, if `there` holds. All are kept if they are `inside`.
  void put(Value v, const Expr& row, const Expr& there, const Expr& at, bool inside) {
    const Expr lane = w.lane(lanes), kept = inside ? there : logical_and(there, lt(at + lane, task.kept));
    const Builder::Access access = w.across(lane, row * task.kept + at + lane, kept);
    Value k = v, position = kernel::kNoValue;
    if (task.indices) {
      const auto bits = static_cast<uint64_t>(position_bits(task));
      position = w.bit_and(v, w.number(word, (uint64_t{1} << bits) - 1));
      k = w.op(ScalarOp::shr, v, w.number(word, bits));
    }
    if (w.values >= 0) w.b().store(w.values, element(w.b().cast(k, w.key), position, row, there), access);
    if (w.indices >= 0) w.b().store(w.indices, w.b().cast(position, DType::i64), access);
  }

  // Elements from their keys. Where zeros are equal, from where they were.
  Value element(Value k, Value position, const Expr& row, const Expr& there) {
    Value v = w.from_key(k);
    if (!task.indices || !is_float(task.dtype)) return v;
    const Value zero = w.equal(k, w.number(w.key, zero_key(1)));
    return w.b().branch_on(
        w.reduced(ScalarOp::bit_or, zero),
        [&] {
          const Value at = w.where({zero, position, w.number(word, 0)});
          const Expr place = Expr::index("v", task.n);
          Builder::Access access = w.across(w.lane(lanes), row * task.n + place, there);
          access.binds = {place};
          access.bound = {w.b().cast(at, DType::i32)};
          const Value original = w.b().load(w.x, task.dtype, access);
          return Values{w.where({zero, original, v})};
        },
        [&] { return Values{v}; })[0];
  }

  // As many rows as there are lanes, one in each lane. Gives the zeros that were seen.
  Values load_rows(const SortLine& line, const Expr& first) {
    auto load_tile = [&](const Expr& tile, bool inside, Values zeros) {
      Values v;
      for (int64_t lane = 0; lane < lanes; ++lane)
        v.push_back(words(first + lane, lt(first + lane, task.rows), tile * lanes, inside, zeros));
      v = w.b().transpose(v);
      for (int64_t i = 0; i < lanes; ++i) w.store(line.buffer, v[i], (tile * lanes + i) * lanes);
      return zeros;
    };
    Values zeros = w.loop(task.n / lanes, no_zeros(),
                          [&](const Expr& tile, const Values& so_far) { return load_tile(tile, true, so_far); });
    return task.n % lanes == 0 ? zeros : load_tile(task.n / lanes, false, zeros);
  }

  void put_rows(const SortLine& line, const Expr& first, const Expr& tile, bool inside) {
    transposed(line, tile,
               [&](int64_t lane, Value v) { put(v, first + lane, lt(first + lane, task.rows), tile * lanes, inside); });
  }

  // A square of what lies in lanes: put_lane() gets words tile * lanes... of each lane.
  void transposed(const SortLine& line, const Expr& tile, const std::function<void(int64_t lane, Value v)>& put_lane) {
    Values v;
    for (int64_t i = 0; i < lanes; ++i) v.push_back(w.load(line.buffer, (tile * lanes + i) * lanes, lanes));
    v = w.b().transpose(v);
    for (int64_t lane = 0; lane < lanes; ++lane) put_lane(lane, v[lane]);
  }

  SortLine row_line(const Expr& row, const Expr& from = 0) const {
    return {row_buffer, alone() ? from : row * room + from, SortLine::Order::Memory};
  }

  // All that is left of a merge when vectors have been halved by height / 4, and the results if it is the last merge.
  void finish_chunk(const Expr& row, const Expr& number, bool is_last) {
    const SortLine line = row_line(row, number * chunk);
    network.halve(line, height, height / 8, exponent(height / 8 / lanes) + 1);
    SortingNetwork::Put results;
    if (is_last)
      results = [&](const Values& v, const Expr& first) {
        const Expr at = number * chunk + first * lanes;
        auto put_all = [&](bool inside) {
          for (size_t i = 0; i < v.size(); ++i) put(v[i], row, 1, at + static_cast<int64_t>(i) * lanes, inside);
        };
        w.b().branch(le(at + lanes * lanes, task.kept), [&] { return put_all(true); }, [&] { return put_all(false); });
      };
    network.finish(line, height, results);
  }

  // Merges the runs of a chunk, one for each lane. The code is the same for all lengths: it halves by as many distances
  // as the longest runs need.
  void merge_runs(const SortLine& line) {
    const int64_t run = height / lanes;
    w.each(exponent(lanes) - 1, [&](const Expr& level) {
      Expr scale = 1;
      for (int64_t i = 1; i < exponent(lanes) - 1; ++i) scale = select(lt(level, i), scale, int64_t{1} << i);
      network.flip(line, height, run, scale);
      network.halve(line, height, run / 8, std::max(exponent(height) - exponent(32 * lanes) + 1, 0), scale);
      network.finish(line, height);
    });
    network.flip(line, height, height / 2);
  }

  void sort_chunks() {
    const SortLine runs{w.buffer("runs", word, Space::Shared, chunk)};
    auto blocks = w.phase({task.rows, room / chunk});
    const Expr row = blocks[0], number = blocks[1];
    const SortLine line = row_line(row, number * chunk);
    auto sort_chunk = [&] {
      const Expr whole = floordiv(min(task.n - number * chunk, chunk), lanes);
      auto load = [&](const Expr& i, bool inside, Values zeros) {
        w.store(runs.buffer, words(row, 1, number * chunk + i * lanes, inside, zeros), i * lanes);
        return zeros;
      };
      Values zeros = w.loop(whole, no_zeros(), [&](const Expr& i, const Values& v) { return load(i, true, v); });
      zeros = w.loop(height - whole, zeros, [&](const Expr& i, const Values& v) { return load(whole + i, false, v); });
      for (size_t sign = 0; sign < zeros.size(); ++sign)
        w.store(zeros_buffer, seen(zeros[sign]), flag(row, number, sign));
      network.sort_lanes(runs, height);
      w.each(height / lanes, [&](const Expr& tile) {
        transposed(runs, tile,
                   [&](int64_t lane, Value v) { w.store(row_buffer, v, line.base + lane * height + tile * lanes); });
      });
      merge_runs(line);
      finish_chunk(row, number, alone());
    };
    w.b().branch(lt(number, chunks()), sort_chunk, [&] { fill(line, 0, height); });
  }

  void merge_chunks(int64_t run) {
    pass(run, run / 4, [&](const SortLine& line, const Expr& block, const Expr& at) {
      // Behind the last element there is nothing that could come in front.
      const Expr lowest = block * (2 * run) + run + run / 4 - 1 - at;
      w.b().branch(lt(lowest * lanes, task.n), [&] { network.flip_step(line, block, at, run); });
    });
    int64_t distance = run / 8;
    while (distance >= height / 4) {
      const int layers = std::min(exponent(distance / (height / 4)) + 1, SortingNetwork::kLayers);
      pass(distance, (2 * distance) >> layers, [&](const SortLine& line, const Expr& block, const Expr& at) {
        network.halve_step(line, block, at, distance, layers);
      });
      distance >>= layers;
    }
    auto blocks = w.phase({task.rows, chunks()});
    finish_chunk(blocks[0], blocks[1], 2 * run * lanes >= task.n);
  }

  // A phase that compares vectors far apart: `steps` for every 2 * half vectors.
  void pass(int64_t half, int64_t steps,
            const std::function<void(const SortLine&, const Expr& block, const Expr& at)>& step) {
    const int64_t piece = std::min(steps, kPiece);
    auto blocks = w.phase({task.rows, pieces(task.n, 2 * half * lanes), steps / piece});
    w.each(piece, [&](const Expr& i) { step(row_line(blocks[0]), blocks[1], blocks[2] * piece + i); });
  }

  bool alone() const { return room == chunk; }
  int64_t chunks() const { return pieces(task.n, chunk); }
  Expr flag(const Expr& row, const Expr& number, size_t sign) const {
    return (row * (room / chunk) + number) * 2 + static_cast<int64_t>(sign);
  }

  void mend_rows() {
    const Expr row = w.phase({task.rows})[0];
    const Value no = w.b().constant(Scalar::of(DType::boolean, 0));
    Values both = w.loop(chunks(), {no, no}, [&](const Expr& i, const Values& so_far) {
      return Values{w.bit_or(so_far[0], w.load(zeros_buffer, flag(row, i, 0))),
                    w.bit_or(so_far[1], w.load(zeros_buffer, flag(row, i, 1)))};
    });
    w.b().branch_on(w.bit_and(both[0], both[1]), [&] { mend(row); });
  }

  // Puts the zeros of a sorted row in the order that they had.
  void mend(const Expr& row) {
    const Expr begin = row * task.n;
    const Value front = w.number(w.key, zero_key(0));
    auto below = [&](const Expr& at, int64_t width, Value sum) {
      const Value less = w.less(w.to_key(w.load(w.x, begin + at, width)), front);
      return Values{w.add(sum, w.b().cast(less, DType::i32))};
    };
    const int64_t whole = task.n / lanes * lanes;
    Values count = w.loop(whole / lanes, {w.splat(DType::i32, 0, lanes)},
                          [&](const Expr& i, const Values& sum) { return below(i * lanes, lanes, sum[0]); });
    count[0] = w.reduced(ScalarOp::add, count[0]);
    count =
        w.loop(task.n - whole, count, [&](const Expr& i, const Values& sum) { return below(whole + i, 1, sum[0]); });
    w.loop(task.n, count, [&](const Expr& i, const Values& place) {
      const Value v = w.load(w.x, begin + i);
      const Value zero = w.equal(w.order(w.to_key(v)), w.number(w.key, zero_key(1)));
      w.b().branch_on(zero, [&] { w.store_at(w.values, v, place[0], row * task.kept, task.n, task.kept); });
      return Values{w.add(place[0], w.b().cast(zero, DType::i32))};
    });
  }

  SortWriter& w;
  const SortTask& task;
  DType word;
  SortingNetwork network;
  int64_t lanes;
  bool mends;  // whether zeros have to be put in order
  // Of long rows: words that a row has room for, those of a chunk, and its vectors.
  int64_t room = 0, chunk = 0, height = 0;
  int row_buffer = -1, zeros_buffer = -1;
};

}  // namespace

bool networks_are_best(const SortWriter& w) {
  const SortTask& task = w.task;
  if (w.target.machine != Machine::Simd || w.bits + position_bits(task) > 64) return false;
  const double size = size_of(w.key), log = exponent(ceil_power(task.n)), word = size_of(word_dtype(w));
  if (task.dtype == DType::boolean || task.n < 2 || task.n > (word == 8 ? kLongestWide : kLongestRow)) return false;
  if (has_many_rows(w) && static_cast<double>(ceil_power(task.n)) * word > kMostAlone) return false;
  // Nanoseconds for each element, as measured.
  const bool slow = word == 8 && w.target.vector_bytes < 64;  // has no such minimum
  const double network = 0.17 * log * (log + 1) / 2 * word / w.target.vector_bytes * (slow ? 2 : 1);
  const double digit = 0.7 + 0.1 * size + (task.indices ? 0.5 : 0) + 75 / static_cast<double>(task.n);
  return network < size * digit;
}

void write_vector_sort(SortWriter& w) {
  VectorSort sort(w);
  // Vectors that one core works on either way; merging within vectors costs half as much again.
  const int64_t cores = std::max(w.target.cores, 1), lanes = sort.width();
  const int64_t in_lanes = pieces(pieces(w.task.rows, lanes), cores) * w.task.n;
  const int64_t row_by_row = pieces(w.task.rows, cores) * std::max(w.task.n, sort.smallest_chunk()) * 3 / 2 / lanes;
  if (sort.bytes_in_lanes() <= kMostInLanes && in_lanes <= row_by_row) {
    sort.rows_in_lanes();
  } else {
    sort.long_rows();
  }
}

}  // namespace heddle
