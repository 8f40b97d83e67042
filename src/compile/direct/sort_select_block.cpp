// The first few of many by all threads of a block. Keys lie in shared memory; the k-th smallest of them is found bit by
// bit, every thread counting its share. What does not exceed it is collected in order and sorted by counting.
#include "compile/direct/sort_writer.h"

namespace heddle {
namespace {

using kernel::Value;
using Values = SortWriter::Values;

constexpr int64_t kSelectThreads = 256;

class BlockSelection {
 public:
  BlockSelection(SortWriter& writer, int64_t n, int number)
      : w(writer), kept(writer.task.kept), each(pieces(n, kSelectThreads)), warp(writer.target.warp) {
    w.kernel.threads = static_cast<int>(kSelectThreads);
    w.kernel.thread = Expr::index("t", kSelectThreads);
    auto shared = [&](const char* name, DType dtype, int64_t count) {
      return w.shared(text(name, number), dtype, count);
    };
    keys = shared("keys", w.key, each * kSelectThreads + each * kSelectThreads / w.target.shared_banks);
    sums = shared("sums", DType::i32, kSelectThreads / warp);
    before = shared("before", DType::i32, kSelectThreads);
    chosen_keys = shared("chosen_keys", w.key, kept);
    chosen_positions = shared("chosen_positions", DType::i32, kept);
  }

  static int64_t bytes(const SortWriter& w, int64_t n) {
    const int64_t key = size_of(w.key), size = round_up(n, kSelectThreads);
    return (size + size / w.target.shared_banks + w.task.kept) * key +
           (kSelectThreads + kSelectThreads / w.target.warp + w.task.kept) * 4 + 64;
  }

  void write(const SortWriter::Source& source, const SortWriter::Put& put) const {
    const Expr t = w.kernel.thread;
    w.each(each, [&](const Expr& k) {
      // Both zeros are equal from here on.
      w.store(keys, w.order(source(k * kSelectThreads + t)), place(k * kSelectThreads + t));
    });
    w.b().barrier();
    const Value bound = w.smallest(kept, [&](Value than) { return count_below(than); });
    const Value equal_wanted = w.sub(w.i32(kept), count_below(bound));
    collect(bound, equal_wanted);
    w.b().barrier();
    w.b().branch(lt(t, kept), [&] {
      const Value own = w.load(chosen_keys, t);
      Values rank = w.loop(kept, {w.i32(0)}, [&](const Expr& i, const Values& r) {
        const Value other = w.load(chosen_keys, i), first = w.index(lt(i, t), DType::boolean);
        const Value comes = w.comes_before(other, own, first);
        return Values{w.add(r[0], w.b().cast(comes, DType::i32))};
      });
      put(rank[0], w.load(chosen_positions, t));
    });
    w.b().barrier();  // whoever writes to this memory next
  }

 private:
  // Runs of one thread begin in different banks.
  Expr place(const Expr& i) const { return i + floordiv(i, w.target.shared_banks); }

  // Of all threads; all get it.
  Value summed(Value count) const {
    for (int64_t lane = warp / 2; lane > 0; lane /= 2)
      count = w.add(count, w.b().shuffle_xor(count, static_cast<int>(lane)));
    const Expr t = w.kernel.thread;
    w.b().branch(eq(mod(t, warp), 0), [&] { w.store(sums, count, floordiv(t, warp)); });
    w.b().barrier();
    Value total = w.load(sums, 0);
    for (int64_t i = 1; i < kSelectThreads / warp; ++i) total = w.add(total, w.load(sums, i));
    w.b().barrier();
    return total;
  }

  Value count_below(Value than) const {
    Values count = w.loop(
        each, {w.i32(0)},
        [&](const Expr& k, const Values& c) {
          const Value less = w.less(w.load(keys, place(k * kSelectThreads + w.kernel.thread)), than);
          return Values{w.add(c[0], w.b().cast(less, DType::i32))};
        },
        8);
    return summed(count[0]);
  }

  // A thread's run is in the order of the row. It knows how many smaller and how many equal ones the threads before it
  // have: two numbers of 16 bits.
  void collect(Value bound, Value equal_wanted) const {
    const Expr t = w.kernel.thread;
    auto walk =
        [&](const Value& start,
            const std::function<void(const Expr& at, Value key, const Values& flags, const Values& so_far)>& body) {
          return w.loop(each, {start}, [&](const Expr& k, const Values& so_far) {
            const Expr at = t * each + k;
            const Value key = w.load(keys, place(at));
            const Values flags{w.less(key, bound), w.equal(key, bound)};
            if (body) body(at, key, flags, so_far);
            const Value equal = w.op(ScalarOp::shl, w.b().cast(flags[1], DType::i32), w.i32(16));
            return Values{w.add(so_far[0], w.add(w.b().cast(flags[0], DType::i32), equal))};
          })[0];
        };
    w.store(before, walk(w.i32(0), {}), t);
    w.b().barrier();
    Values sum =
        w.loop(t, {w.i32(0)}, [&](const Expr& i, const Values& s) { return Values{w.add(s[0], w.load(before, i))}; });
    walk(sum[0], [&](const Expr& at, Value key, const Values& flags, const Values& so_far) {
      const Value smaller = w.bit_and(so_far[0], w.i32(0xffff));
      const Value equal = w.op(ScalarOp::shr, so_far[0], w.i32(16));
      const Value wanted = w.bit_and(flags[1], w.less(equal, equal_wanted));
      w.b().branch_on(w.bit_or(flags[0], wanted), [&] {
        const Value to = w.add(smaller, w.op(ScalarOp::minimum, equal, equal_wanted));
        w.store_at(chosen_keys, key, to, 0, kept);
        w.store_at(chosen_positions, w.index(at), to, 0, kept);
      });
    });
  }

  SortWriter& w;
  int64_t kept, each, warp;
  int keys, sums, before, chosen_keys, chosen_positions;
};

}  // namespace

int64_t block_selection_bytes(const SortWriter& w, int64_t n) { return BlockSelection::bytes(w, n); }

SortWriter::Select block_selection(SortWriter& w, int64_t n, int number) {
  return [selection = BlockSelection(w, n, number)](const SortWriter::Source& source, const SortWriter::Put& put) {
    selection.write(source, put);
  };
}

}  // namespace heddle
