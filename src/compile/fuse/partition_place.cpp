// Which group takes a unit in.
#include "base/error.h"
#include "compile/fuse/partitioner.h"

namespace heddle {

namespace {

void reorder(std::vector<Expr>& axes, const std::vector<size_t>& positions) {
  std::vector<Expr> result;
  for (size_t p : positions) result.push_back(axes[p]);
  axes = std::move(result);
}

}  // namespace

int Partitioner::new_group(int id) {
  int g = static_cast<int>(result_.groups.size());
  Unit& u = unit(id);
  result_.groups.push_back({{id}, u.reduces || u.scatters() || u.scans()});
  u.group = g;
  u.outer = u.outer_axes();
  return g;
}

std::vector<int> Partitioner::reading_groups(const Source& source) {
  std::vector<int> groups;
  for (int reader : readers_[source])
    if (!contains(groups, unit(reader).group)) groups.push_back(unit(reader).group);
  return groups;
}

void Partitioner::place_storing(int id) {
  if (store_own(id)) return;
  std::vector<int> groups = reading_groups({unit(id).node, true});
  Why why;
  if (unit(id).scatters())
    why = {Reason::Scatter};
  else if (!waiting_[unit(id).node].empty())
    why = {Reason::WaitedFor};  // they may be what the readers need
  else if (limits_.alone.count(unit(id).node))
    why = {Reason::ReadElsewhere};
  else if (groups.size() != 1)
    why = {Reason::SeveralRead, static_cast<double>(groups.size())};
  else
    why = join_storing(id, groups[0]);
  if (!why) return;
  if (limits_.explain) result_.boundaries[unit(id).node].apart = why;
  new_group(id);
}

bool Partitioner::has_room(int g, const Unit& u) {
  const size_t units = group(g).units.size();
  return units == 1 || (units < kMaxUnitsInGroup && evaluations(g) + u.evaluations <= 2 * kMaxEvaluations);
}

void Partitioner::join(int id, int g, std::vector<Expr> outer) {
  unit(id).group = g;
  unit(id).outer = std::move(outer);
  group(g).units.push_back(id);
}

Why Partitioner::join_storing(int id, int g) {
  Place where;
  if (Why why = may_store_in(id, g, where)) return why;
  const double rows = row_count(where.mine), points = unit(id).points();
  if (!where.scans && rows < kMinRows && points > kSmallWork && points > rows) return few_rows(rows);
  if (unit(id).scans()) {
    if (!group(g).fixed) fix(g, where.witness, where.theirs);
    for (auto& [reader, along] : where.scanned) unit(reader).scanned = along;
  }
  join(id, g, std::move(where.mine));
  return {};
}

Why Partitioner::may_store_in(int id, int g, Place& where) {
  const Unit& u = unit(id);
  const Unit& first = unit(group(g).units[0]);
  if (is_direct(*first.node)) return {Reason::Direct};
  if (first.is_part()) return {Reason::LongJoin};
  if (first.scatters()) return {Reason::Scatter};
  if (!has_room(g, u)) return {Reason::KernelFull};
  where.scans = u.scans();
  for (int reader : readers_[{u.node, true}]) {
    if (unit(reader).group != g) continue;
    where.scans = where.scans || unit(reader).scans();
    for (const Unit::Read& read : unit(reader).reads)
      if (read.node == u.node && read.memory)
        if (Why why = follows(u, reader, read, where)) return why;
  }
  for (const Unit::Read& read : u.reads)
    for (const Expr& e : read.index)
      if (!read.memory && !e.is_const() && !contains(where.mine, e)) return {Reason::SumsCannotFollow};
  const bool other_loops = where.mine.size() + 1 != u.kept.size() ||
                           (group(g).fixed && where.theirs.size() != unit(where.witness).outer.size());
  return u.scans() && other_loops ? Why{Reason::OtherLoops} : Why{};
}

Why Partitioner::follows(const Unit& u, int reader_id, const Unit::Read& read, Place& where) {
  const Unit& reader = unit(reader_id);
  // Every axis of u follows one axis of the reader.
  std::vector<Expr> seen;
  Expr along;  // u's scanned axis, as the reader's
  size_t inner = 0;
  for (size_t i = 0; i < u.at.size(); ++i) {
    if (u.at[i].is_const(0)) {
      // Nothing guards a scan where its only element is not the one that is read.
      if (u.scans() && !(read.index[i].lo() >= 0 && read.index[i].hi() < 1)) return {Reason::OtherExtent};
      continue;
    }
    if (!u.at[i].is_var()) return {Reason::OtherDirection};
    const Expr& e = read.index[i];
    if (!contains(reader.kept, e) && !contains(reader.reduced, e)) return {Reason::OtherExtent};
    // Behind a pad, a cut or a part of a join an axis has the same variable but another extent.
    if (!(e.extent() == u.at[i].extent())) return {Reason::OtherExtent};
    if (contains(seen, e)) return {Reason::OtherExtent};
    seen.push_back(e);
    if (u.scans() && u.at[i] == u.scanned) along = e;
    inner += !contains(reader.outer, e);
  }
  if ((inner > 0 || u.scans()) && reader.points() != u.points()) return {Reason::OtherLoops};
  if (u.scans() && feeds_reduction(reader_id)) return {Reason::ReducedAfterScan};
  if (u.scans() && reader.scans() && !(reader.scanned == along)) return {Reason::Scan};
  if (along.is_var()) where.scanned.emplace_back(reader_id, along);
  std::vector<Expr> theirs = reader.outer;
  if (along.is_var()) std::erase(theirs, along);
  std::vector<Expr> mapped = axes_along(u, read.index, theirs);
  if (mapped.size() != theirs.size()) return {Reason::OtherLoops};
  // A scan that is read both as it is and transposed would run along two axes of its readers.
  if (where.witness >= 0 && !(mapped == where.mine && positions_of(unit(where.witness).outer, where.theirs) ==
                                                          positions_of(reader.outer, theirs)))
    return {Reason::OtherOrder};
  where.theirs = std::move(theirs);
  where.mine = std::move(mapped);
  where.witness = reader_id;
  return {};
}

bool Partitioner::feeds_reduction(int id) {
  std::vector<int> open{id};
  std::set<int> seen{id};
  while (!open.empty()) {
    const Unit& u = unit(open.back());
    open.pop_back();
    if (u.reduces) return true;
    auto readers = readers_.find({u.node, true});
    if (readers == readers_.end()) continue;
    for (int reader : readers->second)
      if (unit(reader).group == u.group && seen.insert(reader).second) open.push_back(reader);
  }
  return false;
}

double row_count(std::span<const Expr> outer) {
  double rows = 1;
  for (const Expr& axis : outer) rows *= upper(axis.extent());
  return rows;
}

void Partitioner::place_reduction(const Node* node) {
  if (auto nest = nests_.find(node); nest != nests_.end() && stored_.count(nest->second.factor)) release_nest(node);
  std::vector<int> groups = kept_.count(node) ? place_kept(node) : reading_groups({node, false});
  if (groups.empty() && kept_.count(node)) return;
  int id = open_unit(node, true);
  const Why why = join_reduction(id, groups);
  if (!why) return;
  int attempt = ++attempts_[node];
  if (attempt == 3) {
    // Only the units that store its result read it now, but they went along with their own readers. Those can read
    // memory as well.
    std::vector<int> storing = waiting_readers(node);
    // One that reads it here, and not from memory, because of a nest may already have other reductions with it, or
    // other axes than the rest: such groups are made again later.
    const bool stuck = std::ranges::any_of(storing, [&](int member) {
      if (unit(member).kept.size() != unit(storing[0]).kept.size()) return true;
      return std::ranges::any_of(unit(member).reads, [&](const Unit::Read& read) {
        return !read.memory && has_unit(unit(member).group, reduction_of(read.node));
      });
    });
    if (stuck) return void(new_group(id));
    for (int member : storing) std::erase(group(unit(member).group).units, member);
    int g = new_group(storing[0]);
    for (size_t i = 1; i < storing.size(); ++i) join(storing[i], g, unit(storing[i]).kept);
    if (join_reduction(id, {g})) new_group(id);
    return;
  }
  // Nobody can take it in: it goes to memory, after as much of what follows as still belongs to it (at the second
  // attempt, as it is). Its readers then read that instead, and its own turn comes again.
  forget_reads(id);
  reducing_.erase(node);
  std::vector<int> readers = waiting_readers(node);
  std::vector<const Node*> ends;
  for (int reader : readers)
    for (const Unit::Read& read : unit(reader).reads)
      if (!read.memory && reduction_of(read.node) == node) ends.push_back(read.node);
  result_.units.pop_back();
  sort_unique(ends);
  for (const Node* end : ends) store(ends.size() == 1 && attempt == 1 ? find_tail(end) : end, why);
  look_again(readers);
  pending_.push(number_.at(node));
}

std::vector<int> Partitioner::waiting_readers(const Node* node) {
  std::vector<int> readers = readers_[{node, false}];
  std::erase_if(readers, [&](int reader) { return has_unit(unit(reader).group, node); });
  return readers;
}

const Node* Partitioner::find_tail(const Node* end) {
  const Node* tail = end;
  const Node* reduction = reduction_of(end);
  for (int steps = 0, at = next_[number(end)]; at >= 0 && steps < kMaxTail; at = next_[at], ++steps) {
    const Node* candidate = order_[at];
    if (!(candidate->shape.numel() == end->shape.numel()) || stored_.count(candidate)) break;
    if (candidate->op != NodeOp::Scalar && candidate->op != NodeOp::Cast && candidate->op != NodeOp::Reshape) break;
    Unit probe = make_unit(candidate, false);
    explore(probe, false);
    bool alone = probe.evaluations <= kMaxEvaluations;
    const Index* first = nullptr;  // all its uses of the reduction must be at the same point
    for (const Unit::Read& read : probe.reads) {
      if (read.memory) {
        alone = alone && number(read.node) < number(reduction);
        continue;
      }
      // Reductions that come before may be what this one was made from.
      alone = alone && number(reduction_of(read.node)) <= number(reduction) && can_be_outer(probe, read.index) &&
              (!first || *first == read.index);
      first = &read.index;
    }
    if (!alone) break;
    if (candidate->op != NodeOp::Reshape && !widens(*candidate)) tail = candidate;
  }
  return tail;
}

Why Partitioner::join_reduction(int id, const std::vector<int>& groups) {
  std::vector<Place> where(groups.size());
  if (Why why = may_reduce_in(id, groups, where)) return why;
  if (Why why = reducing_costs(unit(id), groups)) return why;
  for (size_t g = 0; g < groups.size(); ++g) fix(groups[g], where[g].witness, where[g].theirs);
  for (size_t g = 1; g < groups.size(); ++g) merge(groups[0], groups[g], where[0].mine, where[g].mine);
  join(id, groups[0], where[0].mine);
  return {};
}

Why Partitioner::may_reduce_in(int id, const std::vector<int>& groups, std::vector<Place>& where) {
  const Unit& u = unit(id);
  if (groups.empty() || groups.size() > (u.factor ? 1 : 4))
    return {Reason::SeveralRead, static_cast<double>(groups.size())};
  for (int g : groups)
    if (!has_room(g, u)) return {Reason::KernelFull};
  for (int a : groups)
    for (int b : groups)
      if (a != b && reaches(a, b)) return {Reason::NeedEachOther};
  for (int reader : readers_[{u.node, false}]) {
    const size_t g = position_of(groups, unit(reader).group);
    if (g == groups.size()) continue;  // has a unit of its own
    for (const Unit::Read& read : unit(reader).reads)
      if (!read.memory && reduction_of(read.node) == u.node)
        if (Why why = reads_rows(u, reader, read.index, where[g])) return why;
  }
  return {};
}

Why Partitioner::reads_rows(const Unit& u, int reader_id, const Index& index, Place& where) {
  const Unit& reader = unit(reader_id);
  const bool finishes = !reader.reduces && !reader.scans() && !reader.scatters();
  if (!can_be_outer(reader, index) || (u.factor && !finishes)) return {Reason::OtherPlaces};
  std::vector<std::pair<Expr, Expr>> follows;
  for (size_t i = 0; i < u.at.size(); ++i) {
    if (u.at[i].is_const(0)) continue;
    if (!u.at[i].is_var()) return {Reason::OtherDirection};
    if (index[i].is_const() || !(index[i].extent() == u.at[i].extent())) return {Reason::OtherExtent};
    // What else a nested sum keeps is an inner axis of both.
    if (!u.factor || contains(u.nest_outer, u.at[i])) follows.emplace_back(index[i], u.at[i]);
  }
  if (group(reader.group).fixed && follows.size() != reader.outer.size()) return {Reason::OtherLoops};
  std::vector<Expr> theirs, mine;
  for (const Expr& axis : reader.outer)
    for (auto& [reader_axis, own] : follows)
      if (reader_axis == axis) {
        theirs.push_back(axis);
        mine.push_back(own);
      }
  if (mine.size() != follows.size()) return {Reason::OtherLoops};
  if (where.witness >= 0 && !(where.mine == mine && positions_of(unit(where.witness).outer, where.theirs) ==
                                                        positions_of(reader.outer, theirs)))
    return {Reason::OtherOrder};
  where = {reader_id, std::move(theirs), std::move(mine)};
  return {};
}

Why Partitioner::reducing_costs(const Unit& u, const std::vector<int>& groups) {
  if (u.nest) return {};
  double rows = row_count(u.kept);
  double largest = u.points();
  int wide = 1;  // units with a nest inside the rows
  bool products = false;
  for (int g : groups)
    for (int member : group(g).units) {
      largest = std::max(largest, unit(member).points());
      wide += unit(member).points() > rows && !in_one_pass(unit(member), u);
      products = products || (unit(member).reduces && (multiplies(u) || multiplies(unit(member))));
    }
  if (products) return {Reason::ProductAlone};
  if (rows < kMinRows && largest > kSmallWork && wide > 1) return few_rows(rows);
  return {};
}

bool multiplies(const Unit& u) {
  constexpr double kManyTimes = 8;
  if (!u.reduces || u.node->op != NodeOp::Reduce || u.node->reduce_op != ReduceOp::Sum) return false;
  const Node& product = *u.node->inputs[0];
  if (product.op != NodeOp::Scalar || product.scalar_op != ScalarOp::mul || u.points() <= kSmallWork) return false;
  double elements = upper(u.node->shape.numel());
  for (const Node* leaf : u.leaves) elements += upper(leaf->shape.numel());
  for (const Unit::Read& read : u.reads) elements += upper(read.node->shape.numel());
  return u.points() > kManyTimes * elements;
}

bool in_one_pass(const Unit& reader, const Unit& u) {
  if (!reader.reduces) return false;
  auto extent = [](const Expr& axis) { return axis.extent(); };
  return std::ranges::equal(reader.reduced, u.reduced, {}, extent, extent) &&
         std::ranges::none_of(
             reader.reads, [&](const Unit::Read& read) { return !read.memory && reduction_of(read.node) == u.node; });
}

std::vector<Expr> axes_along(const Unit& u, const Index& index, std::span<const Expr> axes) {
  std::vector<Expr> found;
  for (const Expr& axis : axes)
    for (size_t i = 0; i < u.at.size(); ++i)
      if (index[i] == axis && u.at[i].is_var() && u.at[i].extent() == axis.extent()) found.push_back(u.at[i]);
  return found;
}

std::vector<size_t> positions_of(const std::vector<Expr>& list, const std::vector<Expr>& elements) {
  std::vector<size_t> positions;
  for (const Expr& e : elements) positions.push_back(position_of(list, e));
  return positions;
}

void Partitioner::fix(int g, int witness, const std::vector<Expr>& axes) {
  const std::vector<size_t> positions = positions_of(unit(witness).outer, axes);
  for (int member : group(g).units) reorder(unit(member).outer, positions);
  group(g).fixed = true;
}

void Partitioner::merge(int to, int from, const std::vector<Expr>& to_order, const std::vector<Expr>& from_order) {
  const std::vector<size_t> positions = positions_of(from_order, to_order);
  for (int member : std::exchange(group(from).units, {})) {
    std::vector<Expr> outer = std::move(unit(member).outer);
    reorder(outer, positions);
    join(member, to, std::move(outer));
  }
}

}  // namespace heddle
