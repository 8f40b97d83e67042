// Joining finished groups.
#include <ranges>

#include "base/error.h"
#include "compile/fuse/partitioner.h"

namespace heddle {

namespace {

// The variables of `u` where it computes the element at `index`.
Substitution axes_at(const Unit& u, const Index& index) {
  Substitution to;
  for (size_t i = 0; i < u.at.size(); ++i) {
    for (const Expr& axis : u.kept) {
      // The nest may run backwards.
      if (depends_on(u.at[i], axis)) to.emplace_back(axis, u.at[i] == axis ? index[i] : axis.extent() - 1 - index[i]);
    }
  }
  return to;
}

}  // namespace

void Partitioner::join_siblings() {
  std::unordered_map<uint64_t, std::vector<int>> alike;  // groups by their loops and one thing they read
  for (int g = 0; g < static_cast<int>(result_.groups.size()); ++g) {
    std::vector<uint64_t> keys = loop_keys(g);
    bool joined = false;
    for (size_t k = 0; k < keys.size() && !joined; ++k) {
      std::vector<int>& others = alike[keys[k]];
      for (size_t i = others.size(); i-- > 0 && !joined && others.size() - i <= kMostTried;)
        joined = !join_sibling(others[i], g);
    }
    if (joined) continue;
    for (uint64_t k : keys) alike[k].push_back(g);
  }
}

void Partitioner::join_producers() {
  for (size_t g = result_.groups.size(); g-- > 0;) {
    const std::vector<int>& units = result_.groups[g].units;
    const int id = units.size() == 1 ? units[0] : -1;
    if (id < 0 || unit(id).reduces || unit(id).scatters() || unit(id).is_part() || is_direct(*unit(id).node)) continue;
    if (is_alone(static_cast<int>(g)) || !waiting_[unit(id).node].empty()) continue;
    const std::vector<int>& readers = readers_[{unit(id).node, true}];
    auto group_of = [&](int reader) { return unit(reader).group; };
    if (readers.empty()) continue;
    const int first = std::ranges::min(readers | std::views::transform(group_of));
    auto is_reduced = [&](int reader) { return unit(reader).group == first && unit(reader).reduces; };
    if (first < 0 || is_alone(first) || std::ranges::any_of(readers, is_reduced)) continue;
    if (!join_storing(id, first)) result_.groups[g].units.clear();
  }
}

void Partitioner::join_rows() {
  for (int g = 0; g < static_cast<int>(result_.groups.size()); ++g)
    if (const int to = first_reader(g); to >= 0) join_reader(to, g);
}

int Partitioner::first_reader(int g) {
  int first = -1;
  for (int reader : readers_of(g))
    if (const int reads = unit(reader).group; reads >= 0 && reads != g && (first < 0 || reads < first)) first = reads;
  auto waits = [&](const Node* token) {
    auto writer = result_.storing.find(token);
    return writer != result_.storing.end() && unit(writer->second).group == g;
  };
  const bool one_waits = first >= 0 && std::ranges::any_of(group(first).units, [&](int member) {
                           return std::ranges::any_of(unit(member).after, waits);
                         });
  return one_waits ? -1 : first;
}

Why Partitioner::join_reader(int to, int from) {
  std::vector<std::pair<int, Place>> where;
  if (Why why = may_join_reader(to, from, where)) return why;
  if (Why why = rows_cost(to, from)) return why;
  const auto& [id, rows] = where[0];
  const std::vector<Expr> order = unit(id).outer;
  if (!group(to).fixed) fix(to, rows.witness, rows.theirs);
  // Both may compute the same reduction: once is enough.
  std::erase_if(group(from).units, [&](int member) {
    if (!unit(member).reduces || !has_unit(to, unit(member).node)) return false;
    forget_reads(member);
    unit(member).reads.clear();
    unit(member).group = -1;
    return true;
  });
  merge(to, from, rows.mine, order);
  return {};
}

Why Partitioner::may_join_reader(int to, int from, std::vector<std::pair<int, Place>>& where) {
  size_t total = 0;
  for (int g : {to, from}) {
    if (is_nested(g)) return {Reason::OtherLoops};
    if (is_alone(g)) return {Reason::ReadElsewhere};
    for (int member : group(g).units) {
      const Unit& u = unit(member);
      if (is_direct(*u.node) || u.is_part() || u.scatters() || u.scans() || u.nest) return {Reason::OtherLoops};
      if (multiplies(u)) return {Reason::ProductAlone};
      total += u.evaluations;
    }
  }
  if (group(to).units.size() + group(from).units.size() > kMaxUnitsInGroup || total > kMaxEvaluations)
    return {Reason::KernelFull};
  for (int reader : group(to).units)
    for (const Unit::Read& read : unit(reader).reads) {
      auto writer = read.memory ? result_.storing.find(read.node) : result_.storing.end();
      if (writer == result_.storing.end() || unit(writer->second).group != from) continue;
      const int id = writer->second;
      if (unit(id).kept.size() != unit(id).outer.size()) return {Reason::OtherPlaces};  // more than one for each row
      auto known = std::ranges::find(where, id, [](const auto& one) { return one.first; });
      if (known == where.end()) known = where.insert(where.end(), {id, {}});
      Place& place = known->second;
      if (Why why = reads_rows(unit(id), reader, read.index, place)) return why;
      const auto& [first, rows] = where[0];
      if (positions_of(unit(first).outer, rows.mine) != positions_of(unit(id).outer, place.mine) ||
          positions_of(unit(rows.witness).outer, rows.theirs) != positions_of(unit(reader).outer, place.theirs))
        return {Reason::OtherOrder};
    }
  return where.empty() ? Why{Reason::OtherLoops} : Why{};
}

Why Partitioner::rows_cost(int to, int from) {
  constexpr double kLongestRow = 1 << 14;  // elements that a block has at hand: longer rows come from memory again
  const double rows = row_count(unit(group(from).units[0]).outer);
  std::unordered_set<const Node*> read;
  auto each_memory = [&](int g, const auto& f) {
    for (int member : group(g).units) {
      for (const Node* leaf : unit(member).leaves) f(leaf);
      for (const Unit::Read& r : unit(member).reads)
        if (r.memory) f(r.node);
    }
  };
  auto largest = [&](int g) {
    return std::ranges::max(group(g).units | std::views::transform([&](int member) { return unit(member).points(); }));
  };
  each_memory(from, [&](const Node* node) { read.insert(node); });
  const bool reduces = std::ranges::any_of(group(from).units, [&](int member) { return unit(member).reduces; });
  bool gains = largest(to) <= rows;  // nothing but rows
  each_memory(to, [&](const Node* node) { gains |= reduces && read.count(node) > 0; });
  if (!gains) return {Reason::OtherLoops};
  const double points = std::max(largest(to), largest(from));
  if (points > kLongestRow * rows || (rows < kMinRows && points > kSmallWork)) return few_rows(rows);
  if (limits_.machine == Machine::Simt) {
    // There is more to fill: where rows are no more than multiprocessors they are short.
    constexpr double kShortRow = 1 << 11;
    return rows <= 2 * kMinRows && points > kShortRow * rows ? few_rows(rows) : Why{};
  }
  // A CPU walks columns row by row in memory, each reduction by itself.
  auto is_column = [&](int member) {
    const Unit& u = unit(member);
    if (!u.reduces) return false;
    const Shape& shape = u.node->inputs[0]->shape;
    int last = shape.rank() - 1;
    while (last > 0 && shape[last].is_const(1)) --last;
    return u.node->op == NodeOp::Unwindow || !contains(u.node->attrs, Expr(last));
  };
  if (std::ranges::any_of(group(from).units, is_column)) return {Reason::OtherOrder};
  // Nor does what is computed once per row fill its vectors if rows go through the kernel one by one.
  constexpr double kRowWork = 250;  // operations
  const double bytes = points * size_of(unit(group(from).units[0]).node->dtype);
  const double gain = limits_.rates.launch + limits_.rates.traffic(bytes);
  return limits_.rates.arithmetic(kRowWork * rows) > gain ? Why{Reason::OtherLoops} : Why{};
}

Why Partitioner::join_sibling(int to, int from) {
  if (group(to).units.empty() || loop_shape(to) != loop_shape(from)) return {Reason::OtherLoops};
  if (Why why = may_join_sibling(to, from)) {
    if (limits_.explain) result_.siblings.push_back({written_by(to), written_by(from), why});
    return why;
  }
  for (int member : group(from).units) {
    if (unit(member).reduces && has_unit(to, unit(member).node)) {
      forget_reads(member);
      unit(member).reads.clear();
      unit(member).group = -1;
      continue;
    }
    unit(member).group = to;
    group(to).units.push_back(member);
  }
  group(from).units.clear();
  return {};
}

Why Partitioner::may_join_sibling(int to, int from) {
  const Group &a = group(to), &b = group(from);
  if (is_alone(to) || is_alone(from)) return {Reason::ReadElsewhere};
  auto is_apart = [&](const Unit& u) { return u.factor && limits_.apart.count(u.node); };
  if (any_unit(to, is_apart) || any_unit(from, is_apart)) return {Reason::NestTooLarge};
  if (a.units.size() + b.units.size() > kMaxUnitsInGroup || evaluations(to) + evaluations(from) > kMaxEvaluations)
    return {Reason::KernelFull};
  if (reaches(to, from) || reaches(from, to)) return {Reason::NeedEachOther};
  // Both nests may compute the same reductions: along the same axes, once is enough.
  for (int member : b.units)
    for (int other : a.units)
      if (unit(member).reduces && unit(other).reduces && unit(member).node == unit(other).node &&
          positions_of(unit(member).kept, unit(member).outer) != positions_of(unit(other).kept, unit(other).outer))
        return {Reason::OtherOrder};
  return {};
}

const Node* Partitioner::written_by(int g) {
  for (int id : group(g).units)
    if (!unit(id).reduces) return unit(id).node;
  return nullptr;
}

bool Partitioner::is_alone(int g) {
  return any_unit(g, [&](const Unit& u) { return limits_.alone.count(u.node) > 0; });
}

std::vector<Expr> Partitioner::loop_shape(int g) {
  const Unit& first = unit(group(g).units[0]);
  if (is_direct(*first.node) || first.is_part()) return {};
  std::vector<Expr> shape;
  for (const Expr& axis : first.outer) shape.push_back(axis.extent());
  for (int member : group(g).units)
    if (unit(member).factor) {
      shape.insert(shape.end(), {-2, unit(member).along.extent()});
      return shape;
    }
  const Unit* reduction = nullptr;
  for (int member : group(g).units) {
    const Unit& u = unit(member);
    if (u.scatters() || multiplies(u)) return {};  // alone it is computed in tiles
    if (u.reduces && reduction && !in_one_pass(u, *reduction) && !in_one_pass(*reduction, u)) return {};
    if (u.reduces) reduction = &u;
    if (!u.reduces && u.kept.size() != u.outer.size()) return {};
  }
  shape.push_back(-1);
  if (reduction)
    for (const Expr& axis : reduction->reduced) shape.push_back(axis.extent());
  return shape;
}

std::vector<uint64_t> Partitioner::loop_keys(int g) {
  if (group(g).units.empty()) return {};
  std::vector<Expr> shape = loop_shape(g);
  if (shape.empty()) return {};
  uint64_t h = 0;
  for (const Expr& e : shape) h = hash_combine(h, e.hash());
  std::vector<uint64_t> keys;
  // To share a single number is no reason: join_steps() does better with what is alike, and the rest gains nothing.
  auto add = [&](const Node* node) {
    if (!node->shape.numel().is_const(1)) keys.push_back(hash_combine(h, number(node)));
  };
  for (int member : group(g).units) {
    for (const Node* leaf : unit(member).leaves) add(leaf);
    for (const Unit::Read& read : unit(member).reads)
      if (read.memory) add(read.node);
  }
  sort_unique(keys);
  return keys;
}

std::vector<int> Partitioner::readers_of(int g) {
  std::vector<int> readers;
  auto add = [&](const Source& source) {
    if (auto it = readers_.find(source); it != readers_.end())
      readers.insert(readers.end(), it->second.begin(), it->second.end());
    if (auto it = waiting_.find(source.node); source.memory && it != waiting_.end())
      readers.insert(readers.end(), it->second.begin(), it->second.end());
  };
  for (int id : group(g).units) {
    if (unit(id).is_part() && id != group(g).units[0]) continue;       // all write the same node
    for (const Node* written : unit(id).writes) add({written, true});  // a reduction is read in its own kernel
  }
  return readers;
}

bool Partitioner::reaches(int a, int b) {
  std::vector<int> stack{a};
  std::unordered_set<int> seen{a};
  size_t steps = 0;
  while (!stack.empty()) {
    int g = stack.back();
    stack.pop_back();
    for (int reader : readers_of(g)) {
      int next = unit(reader).group;
      if (next == b && next != a) return true;
      if (++steps > kSearchLimit) return true;
      if (next >= 0 && seen.insert(next).second) stack.push_back(next);
    }
  }
  return false;
}

void Partitioner::drop_dead_stores() {
  for (size_t id = 0; id < result_.units.size(); ++id) {
    Unit& u = result_.units[id];
    if (u.group < 0 || u.reduces || is_direct(*u.node)) continue;
    if (roots_.count(u.writes[0]) || !waiting_[u.node].empty()) continue;
    const std::vector<int>& readers = readers_[{u.node, true}];
    if (!std::ranges::all_of(readers, [&](int r) { return unit(r).group == u.group; })) continue;
    std::erase(group(u.group).units, static_cast<int>(id));
    result_.storing.erase(u.node);
    for (int r : readers) {
      std::vector<Unit::Read> reads;
      for (Unit::Read& read : unit(r).reads) {
        if (!read.memory || read.node != u.node) {
          reads.push_back(std::move(read));
          continue;
        }
        // What the unit read for its element, the reader reads for the element that it needs.
        Substitution to = axes_at(u, read.index);
        for (Unit::Read inherited : u.reads) {
          for (Expr& e : inherited.index) e = substitute(e, to);
          readers_[key(inherited)].push_back(r);
          reads.push_back(std::move(inherited));
        }
      }
      unit(r).reads = std::move(reads);
      unit(r).after.insert(unit(r).after.end(), u.after.begin(), u.after.end());
      for (const Node* token : u.after) waiting_[token].push_back(r);
    }
    u.reads.clear();
    u.group = -1;
  }
}

void Partitioner::order_groups() {
  const std::vector<std::vector<int>> needed = needed_groups();
  std::vector<std::vector<int>> users(needed.size());
  std::vector<size_t> missing(needed.size(), 0);
  for (size_t g = 0; g < needed.size(); ++g) {
    for (int from : needed[g]) users[from].push_back(static_cast<int>(g));
    missing[g] = needed[g].size();
  }
  std::vector<int> ready;
  for (size_t g = result_.groups.size(); g-- > 0;)
    if (missing[g] == 0) ready.push_back(static_cast<int>(g));
  std::vector<Group> sorted;
  size_t expected = 0;
  for (const Group& g : result_.groups) expected += !g.units.empty();
  while (!ready.empty()) {
    int g = ready.back();
    ready.pop_back();
    for (int user : users[g])
      if (--missing[user] == 0) ready.push_back(user);
    Group& moved = group(g);
    if (moved.units.empty()) continue;
    std::ranges::sort(moved.units, [&](int a, int b) {
      size_t na = number(unit(a).node), nb = number(unit(b).node);
      return na != nb ? na < nb : unit(a).reduces > unit(b).reduces;
    });
    for (int member : moved.units) unit(member).group = static_cast<int>(sorted.size());
    sorted.push_back(std::move(moved));
  }
  HD_ASSERT(sorted.size() == expected, "kernels need each other in a circle");
  result_.groups = std::move(sorted);
}

}  // namespace heddle
