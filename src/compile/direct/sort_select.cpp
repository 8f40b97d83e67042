// The first few of many. The row is seen as many small groups. Take the k-th smallest of the groups' smallest keys:
// k groups have something that small, so the first k elements are among those that do not exceed it, and only elements
// of fewer than k groups are smaller. These candidates are collected in order and sorted by counting.
//
// Long rows are cut into parts; what the parts select is selected from once more. Parts keep the order of the row, so
// the second selection is stable as well.
#include <algorithm>

#include "base/error.h"
#include "compile/direct/sort_writer.h"

namespace heddle {
namespace {

using kernel::Value;
using Values = SortWriter::Values;

constexpr int64_t kMostKept = 128;     // counting is quadratic
constexpr int64_t kLeastRatio = 16;    // of row to kept
constexpr int64_t kGroupsPerKept = 4;  // so that there are hardly more candidates than wanted
constexpr int64_t kLargestGroup = 64;
constexpr int64_t kPart = 65536, kSmallestPart = 8192;

// One selection from `n` positions: groups of `each`, in `vectors` vectors, made of smaller groups of `fine`, so that
// little has to be read again; room for candidates, and how many of them are few.
struct Sizes {
  int64_t n, vectors, each, fine, candidates, few;

  Sizes(const SortWriter& w, int64_t positions) : n(positions) {
    int64_t kept = w.task.kept;
    int64_t groups = std::max(kGroupsPerKept * kept, 16 * w.lanes);
    groups = std::max(groups, n / kLargestGroup);
    vectors = pieces(groups, w.lanes);
    each = pieces(n, vectors * w.lanes);
    fine = each >= 32 ? 8 : each >= 8 ? 4 : each;
    each = round_up(each, fine);
    candidates = round_up((kept - 1) * each + kept + 1, w.lanes);
    few = std::min(candidates, round_up(2 * kept, w.lanes));
  }
};

// How rows are cut: `parts` of `part` elements each, the last one may be shorter.
struct Cut {
  int64_t parts, part;

  explicit Cut(const SortWriter& w) {
    const SortTask& task = w.task;
    parts = pieces(task.n, w.target.machine == Machine::Simt ? kSmallestPart : kPart);
    // Enough for all cores.
    int64_t least = 2 * std::max(1, w.target.cores);
    if (task.rows * parts < least)
      parts = std::min(pieces(least, task.rows), std::max<int64_t>(1, task.n / kSmallestPart));
    parts = std::max<int64_t>(1, std::min(parts, task.n / (kLeastRatio * task.kept)));
    part = round_up(pieces(task.n, parts), w.lanes);
    parts = pieces(task.n, part);
  }
};

class Selection {
 public:
  using Source = SortWriter::Source;
  using Put = SortWriter::Put;

  // `number` tells the buffers of several selections apart.
  Selection(SortWriter& writer, int64_t n, int number) : w(writer), kept(writer.task.kept), size(writer, n) {
    auto shared = [&](const char* name, DType dtype, int64_t count) {
      return w.shared(text(name, number), dtype, count);
    };
    smallest = shared("smallest", w.key, size.vectors * w.lanes);
    smaller = shared("smaller", w.key, size.vectors * (size.each / size.fine) * w.lanes);
    lanes = shared("lanes", w.key, w.lanes);
    keys = shared("keys", w.key, size.candidates);
    positions = shared("positions", DType::i32, size.candidates);
    chosen_keys = shared("chosen_keys", w.key, round_up(kept + 1, w.lanes));
    chosen_positions = shared("chosen_positions", DType::i32, kept + 1);
  }

  void write(const Source& source, const Put& put) {
    w.each(size.vectors, [&](const Expr& g) {
      Values least = w.loop(size.each / size.fine, {largest_keys()}, [&](const Expr& f, const Values& so_far) {
        Expr number = g * (size.each / size.fine) + f;
        Values here = w.loop(
            size.fine, {largest_keys()},
            [&](const Expr& t, const Values& k) {
              return Values{w.op(ScalarOp::minimum, k[0], source((number * size.fine + t) * w.lanes))};
            },
            8);
        w.store(smaller, here[0], number * w.lanes);
        return Values{w.op(ScalarOp::minimum, so_far[0], here[0])};
      });
      w.store(smallest, least[0], g * w.lanes);
    });
    // Both zeros are equal from here on. What does not exceed the bound does so with its own key, too.
    Value bound = w.order(kth(smallest, size.vectors));
    w.fill(keys, 0, size.candidates / w.lanes, largest_keys());
    Value found = collect(source, bound);
    Value few = w.op(ScalarOp::le, found, w.i32(size.few));
    auto sort_few = [&] {
      write_ranks(w, keys, size.few, found, [&](Value rank, const Expr& i) { put(rank, w.load(positions, i)); });
    };
    w.b().branch_on(few, sort_few, [&] {
      // Many of the others in the same groups are as small: find the bound itself.
      choose(kth(keys, size.candidates / w.lanes), found);
      write_ranks(w, chosen_keys, kept, w.i32(kept),
                  [&](Value rank, const Expr& i) { put(rank, w.load(chosen_positions, i)); });
    });
  }

 private:
  Value largest_keys() { return w.splat(w.key, w.ones()); }
  // How many of the keys are smaller (i32).
  Value count_below(int buffer, int64_t vectors, Value than) {
    Values sum = w.loop(
        vectors, {w.splat(DType::i32, 0)},
        [&](const Expr& i, const Values& s) {
          Value less = w.less(w.load(buffer, i * w.lanes, w.lanes), than);
          return Values{w.add(s[0], w.b().cast(less, DType::i32))};
        },
        16);
    return w.reduced(ScalarOp::add, sum[0]);
  }
  Value kth(int buffer, int64_t vectors) {
    return w.smallest(kept, [&](Value than) { return count_below(buffer, vectors, than); });
  }

  // Appends one element if it is below the bound, or equal to it while equal ones are wanted. The place after the last
  // element is written too. State: how many there are, and how many of them are equal to the bound.
  Values append(Value k, Value position, Value bound, Value equal_wanted, const Values& state, int to_keys,
                int to_positions, int64_t room) {
    w.store_at(to_keys, k, state[0], 0, room);
    w.store_at(to_positions, position, state[0], 0, room);
    Value equal = w.bit_and(w.equal(k, bound), w.less(state[1], equal_wanted));
    Value take = w.bit_or(w.less(k, bound), equal);
    return {w.add(state[0], w.b().cast(take, DType::i32)), w.add(state[1], w.b().cast(equal, DType::i32))};
  }

  // body(state) where any of the keys is at most the bound.
  Values where_any(Value k, Value bound, const Values& state, const std::function<Values()>& body) {
    Value any = w.reduced(ScalarOp::bit_or, w.op(ScalarOp::le, k, bound));
    return w.b().branch_on(any, body, [&] { return state; });
  }

  // Gives the number of candidates.
  Value collect(const Source& source, Value bound) {
    int64_t groups = pieces(size.n, size.fine * w.lanes);
    Values state = w.loop(groups, {w.i32(0), w.i32(0)}, [&](const Expr& g, const Values& before) {
      return where_any(w.load(smaller, g * w.lanes, w.lanes), bound, before, [&] {
        return w.loop(size.fine, before, [&](const Expr& t, const Values& now) {
          Expr at = (g * size.fine + t) * w.lanes;
          Value k = source(at);
          return where_any(k, bound, now, [&] {
            w.store(lanes, k, 0);
            return w.loop(
                w.lanes, now,
                [&](const Expr& lane, const Values& s) {
                  Value position = w.index(at + lane);
                  Value one = w.order(w.load(lanes, lane));
                  return append(one, position, bound, w.i32(kept), s, keys, positions, size.candidates);
                },
                4);
          });
        });
      });
    });
    w.store_at(keys, w.number(w.key, w.ones()), state[0], 0, size.candidates);
    return state[0];
  }

  // Exactly `kept` candidates, the last of which are equal to the bound.
  void choose(Value bound, Value found) {
    w.fill(chosen_keys, 0, pieces(kept + 1, w.lanes), largest_keys());
    Value below = count_below(keys, size.candidates / w.lanes, bound);
    Value equal_wanted = w.sub(w.i32(kept), below);
    Values state = w.loop(size.candidates, {w.i32(0), w.i32(0)}, [&](const Expr& i, const Values& s) {
      const Expr count = Expr::index("v", size.candidates);
      // What lies behind the last candidate was never written.
      kernel::Builder::Access access{.address = i, .guard = lt(i, count), .binds = {count}, .bound = {found}};
      Value position = w.b().load(positions, DType::i32, access);
      return append(w.load(keys, i), position, bound, equal_wanted, s, chosen_keys, chosen_positions, kept + 1);
    });
    w.store_at(chosen_keys, w.number(w.key, w.ones()), state[0], 0, kept + 1);
  }

  SortWriter& w;
  int64_t kept;
  Sizes size;
  int smallest, smaller, lanes, keys, positions, chosen_keys, chosen_positions;
};

}  // namespace

bool selection_is_best(const SortWriter& w) {
  const SortTask& task = w.task;
  if (task.kept > kMostKept || task.n < kLeastRatio * task.kept) return false;
  if (w.target.machine == Machine::Simd) return true;
  const Cut cut(w);
  constexpr int64_t kMost = 0xffff;  // positions that a block counts
  const int64_t second = cut.parts > 1 ? cut.parts * task.kept : 0;
  return std::max(cut.part, second) <= kMost &&
         block_selection_bytes(w, cut.part) + block_selection_bytes(w, second) <= w.target.shared_bytes;
}

namespace {

SortWriter::Select selection(SortWriter& w, int64_t n, int number) {
  if (w.target.machine == Machine::Simt) return block_selection(w, n, number);
  return [one = Selection(w, n, number)](const SortWriter::Source& source, const SortWriter::Put& put) mutable {
    one.write(source, put);
  };
}

}  // namespace

void write_selection(SortWriter& w) {
  const SortTask& task = w.task;
  const auto [parts, part] = Cut(w);

  // The keys of a row's elements from `begin` on, as far as one part goes. Groups may reach beyond it.
  auto elements = [&](const Expr& row, const Expr& begin) {
    return [&w, row, begin, length = part](const Expr& i) {
      return w.load_keys(w.x, row * w.task.n + begin + i, row * w.task.n + min(Expr(w.task.n), begin + length));
    };
  };
  auto result = [&](const Expr& row, Value rank, Value position) {
    auto element = [&] { return w.load_at(w.x, position, row * task.n, kAnyPosition, task.n); };
    w.store_result(row, rank, kAnyPosition, element, [&] { return position; });
  };

  if (parts == 1) {
    SortWriter::Select of_row = selection(w, task.n, 0);
    Expr row = w.phase({task.rows})[0];
    of_row(elements(row, 0), [&](Value rank, Value position) { result(row, rank, position); });
    return;
  }
  int64_t total = parts * task.kept;
  int keys = w.buffer("part_keys", w.key, kernel::Space::Temp, task.rows * total);
  int positions = w.buffer("part_positions", DType::i32, kernel::Space::Temp, task.rows * total);
  SortWriter::Select of_part = selection(w, part, 0), of_parts = selection(w, total, 1);
  auto blocks = w.phase({task.rows, parts});
  Expr base = blocks[0] * total + blocks[1] * task.kept;
  of_part(elements(blocks[0], blocks[1] * part), [&](Value rank, Value position) {
    // The key again, and the position in the row.
    Value in_row = w.add(position, w.index(blocks[1] * part));
    Value k = w.order(w.to_key(w.load_at(w.x, in_row, blocks[0] * task.n, kAnyPosition, task.n)));
    Value inside = w.less(in_row, w.i32(task.n));
    k = w.where({inside, k, w.number(w.key, w.ones())});
    w.store_at(keys, k, rank, base, kAnyPosition, task.kept);
    w.store_at(positions, in_row, rank, base, kAnyPosition, task.kept);
  });
  blocks = w.phase({task.rows});
  Expr row = blocks[0];
  of_parts([&](const Expr& i) { return w.load_keys(keys, row * total + i, (row + 1) * total); },
           [&](Value rank, Value position) {
             result(row, rank, w.load_at(positions, position, row * total, kAnyPosition, total));
           });
}

}  // namespace heddle
