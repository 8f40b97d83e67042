#include "compile/loops/loops.h"

#include <algorithm>
#include <sstream>
#include <unordered_set>

#include "base/error.h"
#include "compile/loops/contraction.h"
#include "kernel/structure.h"

namespace heddle {
namespace {

void count_divisions(const Expr& e, int& count) {
  if (e.kind() == ExprKind::FloorDiv || e.kind() == ExprKind::Mod) ++count;
  for (const Expr& arg : e.args()) count_divisions(arg, count);
}

// How complicated the stages' addresses and guards are. Merging axes must not make it worse.
int divisions(std::span<const Stage> stages) {
  int count = 0;
  for (const Stage& stage : stages)
    for (const kernel::Inst& inst : stage.body.insts) {
      count_divisions(inst.address, count);
      count_divisions(inst.guard, count);
    }
  return count;
}

// Tries to merge axes[i] and axes[i + 1] in the given stages.
void try_merge(std::vector<Axis>& axes, size_t i, std::span<Stage> stages) {
  if (axes[i + 1].extent.is_const(0)) return;  // nothing to walk, and nothing to divide by
  std::vector<Stage> trial(stages.begin(), stages.end());
  const Axis whole = one_axis(axes[i], axes[i + 1], trial);
  if (divisions(trial) > divisions(stages)) return;
  axes[i] = whole;
  axes.erase(axes.begin() + static_cast<long>(i) + 1);
  for (size_t s = 0; s < stages.size(); ++s) stages[s].body = std::move(trial[s].body);
}

std::string axis_list(const std::vector<Axis>& axes, const Substitution& names) {
  std::string out;
  for (const Axis& axis : axes) out += text(out.empty() ? "" : ", ", axis.var, " < ", substitute(axis.extent, names));
  return out;
}

// Symbols under names that differ.
Substitution symbol_names(const Loops& loops) {
  Substitution names;
  for (const Expr& symbol : loops.symbols) {
    auto taken = [&](const std::string& name) {
      return std::ranges::any_of(names, [&](auto& pair) { return pair.second.name() == name; });
    };
    std::string name = symbol.name();
    for (int i = 1; taken(name); ++i) name = text(symbol.name(), "_", i);
    names.emplace_back(symbol, Expr::symbol(name, symbol.lo(), symbol.hi(), symbol.multiple()));
  }
  return names;
}

// All stages as one block, for the kernel printer: it names values by their order. A reduction is written as a simple
// one, so that every instruction is one line.
std::vector<std::string> instruction_lines(const Loops& loops) {
  kernel::Kernel k;
  k.name = "body";
  k.buffers = loops.buffers;
  k.values = loops.values;
  k.symbols = loops.symbols;
  k.phases.emplace_back();
  for (const Axis& axis : loops.outer) k.phases[0].blocks.push_back(axis.var);
  for (const Stage& stage : loops.stages) {
    for (const Axis& axis : stage.inner) k.phases[0].blocks.push_back(axis.var);
    std::vector<kernel::Inst>& all = k.phases[0].body.insts;
    all.insert(all.end(), stage.body.insts.begin(), stage.body.insts.end());
    if (stores(stage)) continue;
    kernel::Inst& reduction = all.emplace_back();
    reduction.op = kernel::Op::reduce;
    reduction.results.append(stage.results.begin(), stage.results.end());
    reduction.args.append(stage.body.results.begin(), stage.body.results.end());
    reduction.reducer = kernel::simple_reducer(ScalarOp::add, DType::f32);
  }
  std::istringstream text(kernel::print(k));
  std::vector<std::string> lines;
  bool inside = false;
  for (std::string line; std::getline(text, line);) {
    if (inside) lines.push_back(line);
    inside = inside || line.find("phase grid") != std::string::npos;
  }
  return lines;
}

void write_axes(kernel::StructureWriter& writer, const std::vector<Axis>& axes) {
  writer.word(axes.size());
  for (const auto& [var, extent] : axes) {
    writer.write(var);
    writer.write(extent);
  }
}

}  // namespace

void substitute_in(kernel::Inst& inst, const Substitution& to) {
  inst.address = substitute(inst.address, to);
  inst.guard = substitute(inst.guard, to);
}

void substitute_in(Stage& stage, const Substitution& to) {
  for (kernel::Inst& inst : stage.body.insts) substitute_in(inst, to);
}

Axis one_axis(const Axis& slow, const Axis& fast, std::span<Stage> stages) {
  const Expr extent = slow.extent * fast.extent, var = Expr::index(slow.var.name(), extent);
  const Substitution to = {{slow.var, floordiv(var, fast.extent)}, {fast.var, mod(var, fast.extent)}};
  for (Stage& stage : stages) substitute_in(stage, to);
  return {var, extent};
}

bool walks(std::span<const Axis> axes, const Expr& var) {
  return std::ranges::any_of(axes, [&](const Axis& axis) { return axis.var == var; });
}

bool reduces_along(const Stage& stage, const Expr& var) {
  return stage.reducer && walks(std::span(stage.inner).subspan(stage.kept), var);
}

const kernel::Inst* definition(const Stage& stage, kernel::Value v) {
  for (const kernel::Inst& inst : stage.body.insts)
    if (contains(inst.results, v)) return &inst;
  return nullptr;
}

bool is_nested(const Loops& loops) {
  return std::ranges::any_of(loops.stages, [](const Stage& stage) { return stage.kept > 0; });
}

bool has_scan(const Stage& stage) {
  return std::ranges::any_of(stage.body.insts, [](const kernel::Inst& inst) { return inst.op == kernel::Op::scan; });
}

bool scans_feed_scans(const Stage& stage) {
  std::unordered_set<kernel::Value> scanned;
  for (const kernel::Inst& inst : stage.body.insts) {
    bool from_scan = std::ranges::any_of(inst.args, [&](kernel::Value v) { return scanned.count(v); });
    if (from_scan && inst.op == kernel::Op::scan) return true;
    if (from_scan || inst.op == kernel::Op::scan) scanned.insert(inst.results.begin(), inst.results.end());
  }
  return false;
}

bool computes_the_same(const Loops& loops, const kernel::Inst& a, const kernel::Inst& b, bool args) {
  return a.op == b.op && a.buffer == b.buffer && (!args || a.args == b.args) && a.address == b.address &&
         a.guard == b.guard && a.literal == b.literal && a.binds == b.binds && a.hint == b.hint &&
         a.results.size() == b.results.size() &&
         (a.results.empty() ||  // a check
          loops.dtype(a.results[0]) == loops.dtype(b.results[0]));
}

void merge_axes(Loops& loops) {
  // A factor of a product that follows one of two axes would follow both.
  const std::optional<Contraction> product = is_nested(loops) ? std::nullopt : find_contraction(loops, loops.stages[0]);
  auto alike = [&](size_t i) {
    return !product || (product->a_axes[i] == product->a_axes[i + 1] && product->b_axes[i] == product->b_axes[i + 1]);
  };
  // From the inside out, so that runs of axes collapse into one.
  for (size_t i = loops.outer.size(); i-- > 1;)
    if (alike(i - 1)) try_merge(loops.outer, i - 1, loops.stages);
  if (is_nested(loops)) return;  // stages share axes
  for (Stage& stage : loops.stages)
    for (size_t i = stage.inner.size(); i-- > 1;) try_merge(stage.inner, i - 1, std::span(&stage, 1));
}

std::vector<Expr> find_symbols(const Loops& loops) {
  std::vector<Expr> found;
  auto add = [&](const Expr& e, std::span<const Expr> except = {}) {
    if (e.is_const()) return;
    for (const Expr& var : variables(e))
      if (var.is_symbol() && !contains(found, var) && !contains(except, var)) found.push_back(var);
  };
  for (const Axis& axis : loops.outer) add(axis.extent);
  for (const kernel::Buffer& buffer : loops.buffers) add(buffer.size);
  for (const Stage& stage : loops.stages) {
    for (const Axis& axis : stage.inner) add(axis.extent);
    for (const kernel::Inst& inst : stage.body.insts) {
      add(inst.address, inst.binds);
      add(inst.guard, inst.binds);
    }
  }
  return found;
}

std::string print(const Loops& loops) {
  std::ostringstream out;
  Substitution names = symbol_names(loops);
  out << "loops @" << loops.name << " outer(" << axis_list(loops.outer, names) << ")";
  if (loops.together > 1) out << " together " << loops.together;
  for (size_t i = 0; i < names.size(); ++i) {
    const Expr& s = names[i].second;
    out << (i ? ", " : " symbols(") << s << " in [" << s.lo() << ", " << s.hi() << "] multiple " << s.multiple();
  }
  out << (names.empty() ? "\n" : ")\n");
  for (const kernel::Buffer& b : loops.buffers)
    out << "  "
        << (b.space == kernel::Space::In    ? "in"
            : b.space == kernel::Space::Out ? "out"
                                            : "inout")
        << " %" << b.name << ": " << b.dtype << "[" << substitute(b.size, names) << "]\n";
  std::vector<std::string> lines = instruction_lines(loops);
  size_t next = 0;
  for (const Stage& stage : loops.stages) {
    out << "  stage inner(" << axis_list(stage.inner, names) << ")" << (stage.ordered ? " ordered" : "");
    if (stage.combine) out << " or by " << info(*kernel::simple_op(*stage.combine)).name;
    if (stage.kept > 0) out << " keeps " << stage.kept;
    out << "\n";
    for (size_t i = 0; i < stage.body.insts.size(); ++i) out << lines.at(next++) << "\n";
    if (stores(stage)) continue;
    std::string line = lines.at(next++);
    size_t begin = line.find("reduce add"), end = line.rfind(" axis");
    std::string how = "keep";
    if (stage.reducer) {
      auto simple = kernel::simple_op(*stage.reducer);
      how = text("reduce ", stage.online ? "online" : simple ? info(*simple).name : kernel::print(*stage.reducer));
    }
    out << line.substr(0, begin) << how << line.substr(begin + 10, end - begin - 10) << "\n";
  }
  return out.str();
}

// Taken apart by name: a new field is a mistake of the compiler's until it is written, too.
Structure structure(const Loops& loops) {
  const auto& [name, symbols, buffers, values, outer, stages, together] = loops;
  Structure result;
  kernel::StructureWriter writer(result, values, kernel::Variables::Shared);
  writer.exprs(symbols);
  writer.word(buffers.size());
  for (const kernel::Buffer& buffer : buffers) writer.write(buffer);
  write_axes(writer, outer);
  writer.word(static_cast<uint64_t>(together));
  writer.word(stages.size());
  for (const auto& [inner, body, reducer, results, kept, online, ordered, place, places, combine] : stages) {
    write_axes(writer, inner);
    writer.word(static_cast<uint64_t>(ordered) | static_cast<uint64_t>(online) << 1 | kept << 2);
    writer.write(body);
    writer.values(results);
    writer.write(reducer);
    writer.write(combine);
    writer.write(place);
    writer.write(places);
  }
  return result;
}

}  // namespace heddle
