// Blocks: moving, choosing, joining and scanning elements.
#include "fuzz/program.h"

namespace heddle::fuzz {
namespace {

void flip_roll(Builder& b) {
  Term x = b.any();
  if (x.tensor.rank() == 0) return;
  int64_t axis = b.axis(x), by = b.between(1, 5);
  Term y = b.chance(0.5) ? b.expression(text("flip($, ", axis, ")"), {x}, flip(x.tensor, axis))
                         : b.expression(text("roll($, ", by, ", ", axis, ")"), {x}, roll(x.tensor, by, axis));
  if (b.chance(0.6))
    b.let("$ + $", {x, y}, x.tensor + y.tensor);
  else
    b.let("$", {y}, y.tensor);
}

void padding(Builder& b) {
  Term x = b.any(b.most_elements() / 2);
  if (x.tensor.rank() == 0) return;
  std::vector<std::pair<int64_t, int64_t>> around(static_cast<size_t>(x.tensor.rank()), {0, 0});
  int64_t axis = b.axis(x), most = std::max<int64_t>(0, std::min<int64_t>(3, x.tensor.size(axis) - 1));
  auto& sides = around[static_cast<size_t>(axis)];
  sides = {b.between(0, most), b.between(0, most)};
  std::string where = text("axis ", axis, " by ", sides.first, " and ", sides.second);
  if (b.chance(0.3)) {
    b.let("pad($, " + where + ")", {x}, pad(x.tensor, around, 1));
    return;
  }
  struct Kind {
    PadMode mode;
    const char* name;
  };
  Kind kind = b.of<Kind>({{PadMode::Reflect, "Reflect"},
                          {PadMode::Replicate, "Replicate"},
                          {PadMode::Circular, "Circular"},
                          {PadMode::Symmetric, "Symmetric"}});
  b.let(text("pad($, ", where, ", ", kind.name, ")"), {x}, pad(x.tensor, around, kind.mode));
}

void parts(Builder& b) {
  Term x = b.any();
  if (x.tensor.rank() == 0) return;
  int64_t axis = b.axis(x), n = x.tensor.size(axis);
  if (n < 2) return;
  int64_t middle = b.between(1, n - 1), step = b.between(1, 3);
  switch (b.between(0, 4)) {
    case 0: b.let(text("slice($, ", axis, ", ", middle, ")"), {x}, slice(x.tensor, axis, middle)); break;
    case 1: b.let(text("slice($, ", axis, ", 0, {}, ", step, ")"), {x}, slice(x.tensor, axis, 0, {}, step)); break;
    case 2: {  // two parts, each treated in its own way, put together again
      Tensor first = slice(x.tensor, axis, 0, middle), second = slice(x.tensor, axis, middle);
      b.let(text("cat({relu(first ", middle, "), second * 2}, ", axis, ") of $"), {x},
            cat({relu(first), second * 2}, axis));
      break;
    }
    case 3:
      if (n % 2 == 0) {  // rotary positions
        Tensor first = slice(x.tensor, axis, 0, n / 2), second = slice(x.tensor, axis, n / 2);
        b.let(text("$ + cat({-second half, first half}, ", axis, ")"), {x}, x.tensor + cat({-second, first}, axis));
      }
      break;
    default:
      b.let(text("slice($, ", axis, ", 1) - slice($, ", axis, ", 0, -1)"), {x, x},
            slice(x.tensor, axis, 1) - slice(x.tensor, axis, 0, -1));
  }
}

void join(Builder& b) {
  Term x = b.any(b.most_elements() / 2), y = b.any(b.most_elements() / 2);
  if (x.tensor.rank() == 0) return;
  if (x.tensor.shape() != y.tensor.shape()) y = b.chance(0.5) ? x : b.leaf(x.tensor.shape());
  int64_t axis = b.axis(x);
  if (b.chance(0.7))
    b.let(text("cat({$, $}, ", axis, ")"), {x, y}, cat({x.tensor, y.tensor}, axis));
  else
    b.let(text("stack({$, $}, ", axis, ")"), {x, y}, stack({x.tensor, y.tensor}, axis));
}

void scan(Builder& b) {
  Term x = b.any();
  if (x.tensor.rank() == 0) return;
  int64_t axis = b.axis(x);
  Term y = b.chance(0.75) ? b.expression(text("cumsum($, ", axis, ")"), {x}, cumsum(x.tensor, axis))
                          : b.expression(text("cummax($, ", axis, ")"), {x}, cummax(x.tensor, axis));
  if (!b.exact() && b.chance(0.4)) {
    b.let(text("$ / ", x.tensor.size(axis)), {y}, y.tensor / x.tensor.size(axis));
  } else if (b.chance(0.3)) {
    b.let("$ + $", {x, y}, x.tensor + y.tensor);
  } else {
    b.let("$", {y}, y.tensor);
  }
}

void gathers(Builder& b) {
  Term x = b.chance(0.5) ? b.any() : b.matrix();
  if (x.tensor.rank() == 0 || x.tensor.numel() == 0) return;
  int64_t axis = b.axis(x), n = x.tensor.size(axis), others = x.tensor.numel() / n;
  int64_t count = b.small(std::max<int64_t>(1, b.most_elements() / others));
  switch (b.between(0, 3)) {
    case 0: {
      Term ids = b.index({count}, n);
      b.let(text("gather($, $, ", axis, ")"), {x, ids}, gather(x.tensor, ids.tensor, axis));
      break;
    }
    case 1: {
      Dims shape = x.tensor.shape();
      shape[static_cast<size_t>(axis)] = count;
      Term ids = b.index(shape, n);
      b.let(text("take_along_axis($, $, ", axis, ")"), {x, ids}, take_along_axis(x.tensor, ids.tensor, axis));
      break;
    }
    case 2: {  // a row moved by another one
      Term ids = b.index({n}, n);
      Term y = b.expression(text("gather($, $, ", axis, ")"), {x, ids}, gather(x.tensor, ids.tensor, axis));
      b.let("$ - $", {x, y}, x.tensor - y.tensor);
      break;
    }
    default: {
      int64_t width = b.size(64);
      Term table = b.leaf({b.size(64), width}), ids = b.index({b.small(), b.small(8)}, table.tensor.size(0));
      b.let("embedding($, $)", {table, ids}, embedding(table.tensor, ids.tensor));
    }
  }
}

void scatters(Builder& b) {
  Term x = b.matrix(b.most_elements() / 2);
  int64_t rows = b.small(), n = x.tensor.size(0), width = x.tensor.size(1);
  if (b.chance(0.5)) {  // messages of a graph: rows added up by where they go
    Term ids = b.index({n}, rows), base = b.leaf({rows, width});
    b.let("index_add($, 0, $, $)", {base, ids, x}, index_add(base.tensor, 0, ids.tensor, x.tensor));
  } else {
    Term ids = b.index({n, width}, rows), base = b.leaf({rows, width});
    b.let("scatter_add($, 0, $, $)", {base, ids, x}, scatter_add(base.tensor, 0, ids.tensor, x.tensor));
  }
}

void choose(Builder& b) {
  Term x = b.any();
  Term other = b.chance(0.5) ? b.leaf(x.tensor.shape()) : x;
  if (b.chance(0.4)) {
    Term m = b.mask(x.tensor.shape());
    b.let("where($, $, -$)", {m, x, other}, where(m.tensor, x.tensor, -other.tensor));
  } else if (b.chance(0.5)) {
    b.let("where($ > 0, $, $ * 2)", {x, x, other}, where(x.tensor > 0, x.tensor, other.tensor * 2));
  } else if (x.tensor.rank() >= 2) {
    b.let("tril($)", {x}, tril(x.tensor));
  } else {
    b.let("maximum($, -$)", {x, other}, maximum(x.tensor, -other.tensor));
  }
}

void shapes(Builder& b) {
  Term x = b.any();
  int rank = x.tensor.rank();
  if (rank == 2 && b.chance(0.4)) {
    b.let("transpose($) + 1", {x}, transpose(x.tensor) + 1);
  } else if (rank >= 3) {
    Axes order;
    for (int i = 0; i < rank; ++i) order.push_back((i + 1) % rank);
    b.let(text("permute($, ", order, ") * 2"), {x}, permute(x.tensor, order) * 2);
  } else {
    int64_t part = b.divisor(x.tensor.numel());
    b.let(text("reshape($, {", part, ", -1}) * 2"), {x}, reshape(x.tensor, {part, -1}) * 2);
  }
}

// One tensor against itself: all pairs of rows.
void pairs(Builder& b) {
  Term x = b.matrix(std::max<int64_t>(16, b.most_work() / 64));
  int64_t n = x.tensor.size(0);
  if (n * x.tensor.numel() > b.most_work()) return;
  Tensor difference = unsqueeze(x.tensor, 1) - unsqueeze(x.tensor, 0);
  Term d = b.let("sum(square(unsqueeze($, 1) - unsqueeze($, 0)), -1)", {x, x}, sum(square(difference), -1));
  if (b.exact() || b.chance(0.4)) return;
  b.let("softmax(-$)", {d}, softmax(-d.tensor));
}

void drop(Builder& b) {
  Term x = b.any();
  if (b.captured()) {
    Term m = b.mask(x.tensor.shape());
    b.let("where($, $ / 0.75, 0)", {m, x}, where(m.tensor, x.tensor / 0.75, 0));
    return;
  }
  Generator generator(7);
  b.let("dropout($, 0.25, key 7)", {x}, dropout(x.tensor, 0.25, true, generator));
}

void reductions(Builder& b) {
  Term x = b.batch();
  Axes axes = b.of<Axes>({{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}});
  bool keep = b.chance(0.3);
  std::string tail = text("($, ", axes, keep ? ", true)" : ")");
  switch (b.exact() ? b.of<int64_t>({0, 1}) : b.between(0, 3)) {
    case 0: b.let("sum" + tail, {x}, sum(x.tensor, axes, keep)); break;
    case 1: b.let("max" + tail, {x}, max(x.tensor, axes, keep)); break;
    case 2: b.let("mean" + tail, {x}, mean(x.tensor, axes, keep)); break;
    default: b.let("logsumexp" + tail, {x}, logsumexp(x.tensor, axes, keep)); break;
  }
}

void order(Builder& b) {
  Term x = b.any(b.most_elements() / 4);
  if (x.tensor.rank() == 0) return;
  int64_t n = x.tensor.size(-1), k = b.between(1, std::min<int64_t>(n, 9));
  if (b.chance(0.5))
    b.let("sort($).values", {x}, sort(x.tensor).values);
  else
    b.let(text("topk($, ", k, ").values"), {x}, topk(x.tensor, k).values);
}

}  // namespace

std::vector<Block> move_blocks() {
  return {{"flip_roll", 2, true, flip_roll}, {"pad", 2, true, padding},   {"parts", 3, true, parts},
          {"join", 2, true, join},           {"scan", 2, true, scan},     {"gather", 2, true, gathers},
          {"scatter", 2, true, scatters},    {"where", 2, true, choose},  {"shapes", 3, true, shapes},
          {"pairs", 2, true, pairs},         {"dropout", 1, false, drop}, {"reduction", 3, true, reductions},
          {"order", 1, true, order}};
}

}  // namespace heddle::fuzz
