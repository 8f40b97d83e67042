// Groups that turned out to be no kernels are made again, alone: what they compute is a region of its own, which reads
// from memory what they read, and whatever else is written before. Nothing outside changes, and no new group is needed
// by what it needs. One thing can go wrong: the region stores what a group that runs later stores as well. Then the
// partition begins anew, under limits that say what was found out.
#include <numeric>

#include "base/error.h"
#include "compile/fuse/partitioner.h"

namespace heddle {
namespace {

// What units read from memory or wait for.
template <class F>
void for_each_needed(const Unit& u, const F& f) {
  for (const Unit::Read& read : u.reads)
    if (read.memory) f(read.node);
  for (const Node* token : u.after) f(token);
}

// What groups compute for others, as the roots of a region. `wanted` says which of the nodes that they write.
template <class F>
Region region_of(const Partition& parts, std::span<const int> groups, const F& wanted) {
  Region region;
  std::unordered_set<const Node*> written;
  auto each_unit = [&](const auto& f) {
    for (int g : groups)
      for (int id : parts.groups[g].units) f(parts.units[id]);
  };
  auto write = [&](const Node* node) {
    if (written.insert(node).second && wanted(node)) region.roots.push_back(NodeRef::share(node));
  };
  each_unit([&](const Unit& u) { std::ranges::for_each(u.writes, write); });
  each_unit([&](const Unit& u) {
    for_each_needed(u, [&](const Node* node) {
      if (!written.count(node)) region.given.insert(node);
    });
  });
  return region;
}

// Puts the groups of a region in the place of those that it was made of. Nothing if others store the same.
std::optional<std::vector<int>> replace(Partition& parts, std::span<const int> groups, Partition&& made) {
  for (auto& [node, id] : made.storing) {
    auto other = parts.storing.find(node);
    if (other == parts.storing.end()) continue;
    const int g = parts.units[other->second].group;
    if (g >= 0 && !contains(groups, g)) return {};
  }
  for (int g : groups) {
    for (int id : std::exchange(parts.groups[g].units, {})) {
      Unit& u = parts.units[id];
      for (const Node* node : u.writes)
        if (auto it = parts.storing.find(node); it != parts.storing.end() && it->second == id) parts.storing.erase(it);
      u.reads.clear();
      u.after.clear();
      u.group = -1;
    }
  }
  const int first_unit = static_cast<int>(parts.units.size()), first_group = static_cast<int>(parts.groups.size());
  for (Unit& u : made.units) {
    if (u.group >= 0) u.group += first_group;
    parts.units.push_back(std::move(u));
  }
  for (Group& g : made.groups) {
    for (int& id : g.units) id += first_unit;
    for (Group::Shared& shared : g.shared) shared.unit += first_unit;
    parts.groups.push_back(std::move(g));
  }
  for (auto& [node, id] : made.storing) parts.storing[node] = id + first_unit;
  for (auto& [node, boundary] : made.boundaries) {
    Boundary& known = parts.boundaries[node];
    if (!known.stored) known.stored = boundary.stored;
    known.apart = boundary.apart;
  }
  std::ranges::move(made.siblings, std::back_inserter(parts.siblings));
  std::vector<int> fresh(parts.groups.size() - static_cast<size_t>(first_group));
  std::iota(fresh.begin(), fresh.end(), first_group);
  return fresh;
}

// What of a region is there already, looking down from its roots.
template <class F>
void find_given(Region& region, const F& is_there) {
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> open;
  for (const NodeRef& root : region.roots) open.push_back(root.get());
  for (size_t roots = open.size(), i = 0; i < open.size(); ++i) {
    if (region.given.count(open[i])) continue;
    if (i >= roots && is_there(open[i])) {
      region.given.insert(open[i]);
      continue;
    }
    for (const NodeRef& input : open[i]->inputs)
      if (seen.insert(input.get()).second) open.push_back(input.get());
  }
}

// Gives nodes that need each other, directly or not, the same number, and others one that is larger than the numbers of
// all that they need (Tarjan's components, without recursion).
std::vector<int> ranks(const std::vector<std::vector<int>>& needs) {
  const size_t count = needs.size();
  std::vector<int> rank(count, -1), met(count, -1), low(count, 0), open;  // when it was met; the earliest it reaches
  std::vector<std::pair<int, size_t>> path;                               // nodes, and which of their needs comes next
  int time = 0, next_rank = 0;
  auto enter = [&](int node) {
    met[node] = low[node] = time++;
    open.push_back(node);
    path.emplace_back(node, 0);
  };
  for (size_t start = 0; start < count; ++start) {
    if (met[start] < 0) enter(static_cast<int>(start));
    while (!path.empty()) {
      const auto node = static_cast<size_t>(path.back().first);
      if (path.back().second < needs[node].size()) {
        const int next = needs[node][path.back().second++];
        const auto n = static_cast<size_t>(next);
        if (met[n] < 0)
          enter(next);
        else if (rank[n] < 0)
          low[node] = std::min(low[node], met[n]);
        continue;
      }
      path.pop_back();
      if (!path.empty()) {
        int& above = low[path.back().first];
        above = std::min(above, low[node]);
      }
      if (low[node] != met[node]) continue;
      for (bool last = false; !last; open.pop_back()) {
        rank[open.back()] = next_rank;
        last = open.back() == static_cast<int>(node);
      }
      ++next_rank;
    }
  }
  return rank;
}

}  // namespace

std::vector<std::vector<int>> Partitioner::needed_groups() {
  std::vector<std::vector<int>> needed(result_.groups.size());
  for (const Unit& u : result_.units) {
    if (u.group < 0) continue;
    auto need = [&](int g) {
      if (g != u.group) needed[u.group].push_back(g);
    };
    for_each_needed(u, [&](const Node* node) {
      if (!region_.given.count(node)) need(unit(result_.storing.at(node)).group);
    });
    // Computed elsewhere, it has to be there before, and to be taken in: the two cannot stay as they are.
    for (const Unit::Read& read : u.reads) {
      if (read.memory || has_unit(u.group, reduction_of(read.node))) continue;
      const int computes = unit(reducing_.at(reduction_of(read.node))).group;
      need(computes);
      needed[computes].push_back(u.group);
    }
  }
  return needed;
}

bool Partitioner::nests_on_memory(const Unit& u) {
  if (!u.factor || u.group < 0) return false;
  auto writer = result_.storing.find(u.factor);
  const bool elsewhere = writer != result_.storing.end() && unit(writer->second).group != u.group;
  return elsewhere &&
         std::ranges::any_of(u.reads, [&](const Unit::Read& read) { return read.memory && read.node == u.factor; });
}

// First its nests, and if there are none, each of what it writes is alone.
void Partitioner::forbid(std::span<const int> groups) {
  bool changed = false;
  auto each_unit = [&](const auto& f) {
    for (int g : groups)
      for (int id : group(g).units) f(unit(id));
  };
  each_unit([&](const Unit& u) { changed |= u.nest && limits_.not_nested.insert(u.nest).second; });
  if (changed) return;
  each_unit([&](const Unit& u) {
    if (!u.reduces && !is_direct(*u.node)) changed |= limits_.alone.insert(u.node).second;
  });
  HD_ASSERT(changed, "kernels that need each other, or that take no reduction in");
}

bool Partitioner::make_again() {
  std::vector<int> rank = ranks(needed_groups());
  std::vector<std::vector<int>> groups(rank.size());  // by their rank
  for (size_t g = 0; g < rank.size(); ++g) groups[rank[g]].push_back(static_cast<int>(g));
  auto rank_of = [&](const Node* node) {
    auto writer = result_.storing.find(node);
    return writer == result_.storing.end() ? -1 : rank[unit(writer->second).group];
  };
  std::vector<bool> unfit(groups.size());
  for (size_t r = 0; r < groups.size(); ++r)
    if (groups[r].size() > 1) {
      unfit[r] = true;
      forbid(groups[r]);
    }
  for (const Unit& u : result_.units) {
    if (!nests_on_memory(u)) continue;
    unfit[rank[u.group]] = true;
    limits_.not_nested.insert(u.node);
  }
  if (!contains(unfit, true)) return true;
  std::unordered_set<const Node*> wanted = roots_;  // by somebody outside
  for (const Unit& u : result_.units) {
    if (u.group < 0) continue;
    for_each_needed(u, [&](const Node* node) {
      if (rank_of(node) != rank[u.group]) wanted.insert(node);
    });
  }
  for (size_t r = 0; r < groups.size(); ++r) {
    if (!unfit[r]) continue;
    Region region = region_of(result_, groups[r], [&](const Node* node) { return wanted.count(node) > 0; });
    find_given(region, [&](const Node* node) {
      const int from = rank_of(node);
      return region_.given.count(node) || (from >= 0 && from < static_cast<int>(r));
    });
    for (int g : groups[r])
      for (int id : group(g).units) forget_reads(id);
    std::optional<Partition> made = Partitioner(region, limits_).run();
    std::optional<std::vector<int>> fresh;
    if (made) fresh = replace(result_, groups[r], std::move(*made));
    if (!fresh) return false;
    rank.resize(result_.groups.size(), static_cast<int>(r));
    for (int g : *fresh)
      for (int id : group(g).units) enter_reads(id);
  }
  return true;
}

std::optional<std::vector<int>> partition_again(Partition& parts, int group,
                                                const std::unordered_set<const Node*>& written,
                                                PartitionLimits& limits) {
  Region region = region_of(parts, std::span(&group, 1), [](const Node*) { return true; });
  find_given(region, [&](const Node* node) { return written.count(node) > 0; });
  std::optional<Partition> made = Partitioner(region, limits).run();
  return made ? replace(parts, std::span(&group, 1), std::move(*made)) : std::nullopt;
}

}  // namespace heddle
