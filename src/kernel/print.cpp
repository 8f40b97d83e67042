// Kernels as text.
//
// Variables are renamed before printing: expressions are rebuilt over fresh variables, made in the order in which the
// parser makes them, so that reading the text back gives expressions in the same canonical form.
#include <algorithm>
#include <cctype>
#include <limits>
#include <sstream>

#include "base/error.h"
#include "kernel/text.h"

namespace heddle::kernel {
namespace {

// A name that parses back as one identifier and is not taken.
std::string unique_name(const std::string& wanted, const std::vector<std::string>& taken) {
  std::string name;
  for (char c : wanted) name += std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) name = "_" + name;
  if (is_reserved_name(name)) name += "_";
  auto is_taken = [&](const std::string& n) { return std::find(taken.begin(), taken.end(), n) != taken.end(); };
  if (!is_taken(name)) return name;
  for (int i = 1;; ++i) {
    std::string numbered = name + "_" + std::to_string(i);
    if (!is_taken(numbered)) return numbered;
  }
}

// Of a NaN that is not the usual one all bits: kernels that differ must differ as texts.
std::string literal(const Scalar& value) {
  bool unusual = is_float(value.dtype) && value.f != value.f &&
                 !(value == Scalar::of(value.dtype, std::numeric_limits<double>::quiet_NaN()));
  if (!unusual) return heddle::to_string(value);
  std::ostringstream bits;
  bits << "nan_0x" << std::hex << value.bits();
  return bits.str();
}

const char* keyword(Space space) {
  switch (space) {
    case Space::In: return "in";
    case Space::Out: return "out";
    case Space::InOut: return "inout";
    case Space::Temp: return "temp";
    case Space::Shared: return "shared";
  }
  return "?";
}

class Printer {
 public:
  Printer(Level level, size_t value_count) : level_(level), numbers_(value_count, kNoValue) {}

  std::string kernel(const Kernel& k);
  // The operation's name of a simple reducer, else a body and the identity.
  void reducer(const Reducer& r, Level level);
  std::string take() { return std::move(out_); }

 private:
  // Enters variables into scope; scopes end by restore().
  size_t mark() const { return taken_.size(); }
  void restore(size_t mark) {
    taken_.resize(mark);
    scope_.resize(mark);
  }
  // Declares `var` under a new name and returns that.
  std::string declare(const Expr& var, const std::string& name, const Expr& replacement) {
    taken_.push_back(name);
    scope_.emplace_back(var, replacement);
    return name;
  }
  std::string declare_index(const Expr& var, const Expr& extent, char otherwise) {
    std::string name = unique_name(var.is_var() ? var.name() : std::string(1, otherwise), taken_);
    return declare(var, name, Expr::index(name, rewrite(extent)));
  }

  Expr rewrite(const Expr& e) const { return e.is_const() ? e : substitute(e, live_scope()); }
  Substitution live_scope() const {
    Substitution s;
    for (const auto& pair : scope_)
      if (pair.first.is_var()) s.push_back(pair);
    return s;
  }
  std::string expr(const Expr& e) const { return heddle::to_string(rewrite(e)); }

  std::string define(Value v) {
    HD_ASSERT(v >= 0, "value without a number");
    if (static_cast<size_t>(v) >= numbers_.size()) numbers_.resize(v + 1, kNoValue);
    numbers_[v] = next_++;
    return "%" + std::to_string(numbers_[v]);
  }
  // A broken kernel must still print: a value used before its definition shows its own number.
  std::string use(Value v) const {
    bool known = v >= 0 && static_cast<size_t>(v) < numbers_.size() && numbers_[v] != kNoValue;
    return known ? "%" + std::to_string(numbers_[v]) : "%undefined_" + std::to_string(v);
  }
  std::string uses(std::span<const Value> values) const {
    std::string s;
    for (size_t i = 0; i < values.size(); ++i) s += (i ? ", " : "") + use(values[i]);
    return s;
  }
  std::string type(const Type& t) const { return type_text(t, level_); }
  const Type& type_of(Value v) const {
    HD_ASSERT(v >= 0 && static_cast<size_t>(v) < types_.size(), "value %", v, " has no type");
    return types_[v];
  }
  std::string buffer_name(int buffer) const {
    bool known = buffer >= 0 && static_cast<size_t>(buffer) < buffers_.size();
    return "%" + (known ? buffers_[buffer] : "undefined_" + std::to_string(buffer));
  }

  void line(const std::string& s) { out_.append(2 * static_cast<size_t>(depth_), ' ').append(s).append("\n"); }
  void symbols(const Kernel& k, std::string& header);
  void body(const Body& b);
  void inst(const Inst& inst);
  std::string reducer_text(const Reducer& r);
  void reducer_lines(const Reducer& r, std::string& s);
  std::string binds(const Inst& inst, const std::vector<std::string>& declared) const;
  std::string region(const Region& r);
  std::vector<std::string> enter_element(const Inst& inst);

  Level level_;
  std::span<const Type> types_;
  std::vector<std::string> buffers_;
  std::vector<Value> numbers_;
  Value next_ = 0;
  Substitution scope_;
  std::vector<std::string> taken_;  // names in scope_
  std::string out_;
  int depth_ = 0;
};

void Printer::symbols(const Kernel& k, std::string& header) {
  if (k.symbols.empty()) return;
  header += " symbols(";
  for (size_t i = 0; i < k.symbols.size(); ++i) {
    const Expr& s = k.symbols[i];
    std::string wanted = s.is_var() ? s.name() : "s_" + std::to_string(i);
    int64_t multiple = std::max<int64_t>(s.multiple(), 1);
    std::string name = unique_name(wanted, taken_);
    declare(s, name, Expr::symbol(name, s.lo(), s.hi(), multiple));
    header += text(i ? ", " : "", name, " in [", s.lo(), ", ", s.hi(), "] multiple ", multiple);
  }
  header += ")";
}

std::string Printer::kernel(const Kernel& k) {
  types_ = k.values;
  for (size_t i = 0; i < k.buffers.size(); ++i) {
    const std::string& wanted = k.buffers[i].name;
    buffers_.push_back(unique_name(wanted, buffers_));
  }
  std::string symbol_list;
  symbols(k, symbol_list);
  auto declaration = [&](size_t i) {
    const Buffer& b = k.buffers[i];
    return text(keyword(b.space), " %", buffers_[i], ": ", heddle::name(b.dtype), "[", expr(b.size), "]");
  };
  // Arguments stand in the head; Temp and Shared buffers that come after the last argument stand in the body.
  size_t arguments = k.buffers.size();
  while (arguments > 0 && k.buffers[arguments - 1].space >= Space::Temp) --arguments;
  std::string head = k.level == Level::Thread ? "kernel.thread @" : "kernel @";
  head += unique_name(k.name, {});
  head += "(";
  for (size_t i = 0; i < arguments; ++i) head += (i ? ", " : "") + declaration(i);
  head += ")" + symbol_list;
  if (k.rounds) head += " rounds";
  if (k.threads != 1) head += " threads " + std::to_string(k.threads);
  if (k.warp != Kernel().warp) head += " warp " + std::to_string(k.warp);
  if (k.thread.is_var()) head += " thread " + declare_index(k.thread, k.threads, 't');
  line(head + " {");
  ++depth_;
  for (size_t i = arguments; i < k.buffers.size(); ++i) line(declaration(i));
  for (const Phase& phase : k.phases) {
    size_t outer = mark();
    std::string grid;
    for (const Expr& block : phase.blocks) {
      Expr extent = block.is_var() ? block.extent() : Expr(1);
      std::string bound = expr(extent);
      grid += (grid.empty() ? "" : ", ") + declare_index(block, extent, 'c') + " < " + bound;
    }
    line("phase grid(" + grid + ") {");
    body(phase.body);
    line("}");
    restore(outer);
  }
  --depth_;
  line("}");
  return take();
}

void Printer::body(const Body& b) {
  ++depth_;
  for (const Inst& i : b.insts) inst(i);
  if (!b.results.empty()) line("yield " + uses(b.results));
  --depth_;
}

void Printer::reducer_lines(const Reducer& r, std::string& s) {
  Printer inner(level_, r.values.size());
  inner.types_ = r.values;
  inner.depth_ = depth_ + 1;
  std::string params;
  for (Value v : r.combine.params) {
    std::string defined = inner.define(v);
    params += (params.empty() ? "" : ", ") + defined + ": " + inner.type(inner.type_of(v));
  }
  s += "{\n";
  inner.line("(" + params + ")");
  --inner.depth_;
  inner.body(r.combine);
  inner.out_.append(2 * static_cast<size_t>(depth_), ' ');
  s += inner.out_ + "} identity(";
  for (size_t i = 0; i < r.identity.size(); ++i) s += (i ? ", " : "") + literal(r.identity[i]);
  s += ")";
}

std::string Printer::reducer_text(const Reducer& r) {
  if (std::optional<ScalarOp> op = simple_op(r)) return info(*op).name;
  std::string s;
  reducer_lines(r, s);
  return s;
}

void Printer::reducer(const Reducer& r, Level level) {
  level_ = level;
  out_ += reducer_text(r);
}

// Coordinates become d0, d1, ..., bound variables v0, v1, ...; returns how the latter are declared.
std::vector<std::string> Printer::enter_element(const Inst& inst) {
  for (size_t i = 0; i < inst.coords.size(); ++i) {
    const Expr& c = inst.coords[i];
    std::string name = "d" + std::to_string(i);
    declare(c, name, c.is_var() ? Expr::index(name, rewrite(c.extent())) : c);
  }
  std::vector<std::string> declared;
  for (size_t i = 0; i < inst.binds.size(); ++i) {
    const Expr& v = inst.binds[i];
    std::string name = "v" + std::to_string(i);
    if (!v.is_var() || (v.lo() == 0 && v.hi() < INT64_MAX && v.multiple() <= 1)) {
      Expr extent = v.is_var() ? rewrite(v.extent()) : Expr(1);
      declare(v, name, Expr::index(name, extent));
      declared.push_back(name + " < " + heddle::to_string(extent));
    } else {
      int64_t multiple = std::max<int64_t>(v.multiple(), 1);
      declare(v, name, Expr::symbol(name, v.lo(), v.hi(), multiple));
      declared.push_back(text(name, " in [", v.lo(), ", ", v.hi(), "]"));
      if (multiple != 1) declared.back() += " multiple " + std::to_string(multiple);
    }
  }
  return declared;
}

std::string Printer::binds(const Inst& inst, const std::vector<std::string>& declared) const {
  std::string s;
  size_t first = inst.args.size() - inst.binds.size();
  for (size_t i = 0; i < declared.size(); ++i)
    s += (i ? ", " : " with ") + declared[i] + " = " + use(inst.args[first + i]);
  return s;
}

// %b[offset] of (extents) by (strides) at (corner), or %b gathers (x < extent, y < extent) [address if guard] at
// (corner)
std::string Printer::region(const Region& r) {
  const std::string kind = std::string(r.transposed ? " transposed" : "") + (r.stays ? " stays" : "");
  if (r.is_gathered()) {
    std::string s = buffer_name(r.buffer) + " gathers (", corner;
    for (size_t d = 0; d < r.at.size(); ++d) corner += (d ? ", " : "") + expr(r.at[d]);
    const size_t outer = mark();
    for (size_t d = 0; d < r.coords.size(); ++d) {
      const std::string bound = expr(r.extents[d]);
      s += (d ? ", " : "") + declare_index(r.coords[d], r.extents[d], 'g') + " < " + bound;
    }
    s += ") [" + expr(r.offset);
    if (!r.guard.is_const(1)) s += " if " + expr(r.guard);
    restore(outer);
    return s + "] at (" + corner + ")" + kind;
  }
  std::string s = buffer_name(r.buffer) + "[" + expr(r.offset) + "] of (";
  for (size_t i = 0; i < r.extents.size(); ++i) s += (i ? ", " : "") + expr(r.extents[i]);
  s += ") by (";
  for (size_t i = 0; i < r.strides.size(); ++i) s += (i ? ", " : "") + std::to_string(r.strides[i]);
  s += ") at (";
  for (size_t i = 0; i < r.at.size(); ++i) s += (i ? ", " : "") + expr(r.at[i]);
  return s + ")" + kind;
}

void Printer::inst(const Inst& inst) {
  HD_ASSERT(inst.binds.size() <= inst.args.size(), "more bound variables than arguments");
  const std::span<const Value> own(inst.args.data(), inst.args.size() - inst.binds.size());
  const std::string arguments = uses(inst.args);  // before the results hide a number
  std::string s;
  for (size_t i = 0; i < inst.results.size(); ++i) s += (i ? ", " : "") + define(inst.results[i]);
  if (!inst.results.empty()) s += " = ";
  s += kernel::name(inst.op);

  size_t outer = mark();
  std::vector<std::string> declared = enter_element(inst);
  auto result_type = [&] { return inst.results.empty() ? std::string("?") : type(type_of(inst.results[0])); };
  auto tail = [&] {
    std::string t = binds(inst, declared);
    if (!inst.guard.is_const(1)) t += " if " + expr(inst.guard);
    if (inst.hint == Hint::Stream) t += " stream";
    if (inst.hint == Hint::Prefetch) t += " prefetch " + std::to_string(inst.immediate);
    return t;
  };
  switch (inst.op) {
    case Op::constant: s += " " + literal(inst.literal) + " : " + result_type(); break;
    case Op::cast:
    case Op::bitcast: s += " " + arguments + " : " + result_type(); break;
    case Op::index: s += " " + expr(inst.address) + tail() + " : " + result_type(); break;
    case Op::load:
      s += " " + buffer_name(inst.buffer) + "[" + expr(inst.address) + "]" + tail() + " : " + result_type();
      break;
    case Op::combine:
    case Op::check:
    case Op::store:
      if (inst.op == Op::combine) s += " " + (inst.reducer ? reducer_text(*inst.reducer) : "?");
      s += " " + buffer_name(inst.buffer) + "[" + expr(inst.address) + "], " + uses(own) + tail();
      break;
    case Op::reduce:
    case Op::scan:
      s += " " + (inst.reducer ? reducer_text(*inst.reducer) : "?") + " " + uses(own) + " axis " +
           std::to_string(inst.axis) + tail();
      break;
    case Op::dot: s += " " + uses(own) + " axis " + std::to_string(inst.axis) + tail(); break;
    case Op::panel_dot:
      for (size_t i = 0; i < inst.panels.size(); ++i) {
        const Panel& p = inst.panels[i];
        s += std::string(i == 0 ? " " : ", ") + buffer_name(p.buffer) + "[" + expr(p.address) + "] stride " +
             std::to_string(p.stride);
        if (i > 0) s += " step " + std::to_string(p.step);
      }
      s += " steps " + expr(inst.extent) + tail();
      break;
    case Op::matrix_dot: {
      s += " pipeline " + std::to_string(inst.immediate) + " after (" + expr(inst.address) + ")";
      if (inst.buffer >= 0) s += " through " + buffer_name(inst.buffer);
      if (!inst.args.empty()) s += " adds " + uses(own);
      std::string bound = expr(inst.extent);
      s += " steps (" + declare_index(inst.var, inst.extent, 'k') + " < " + bound + ")";
      for (const Region& r : inst.regions) s += " " + region(r);
      s += " : " + result_type();
      break;
    }
    case Op::warp_dot: {
      std::string bound = expr(inst.extent);
      s += " pipeline " + std::to_string(inst.immediate) + " steps (" + declare_index(inst.var, inst.extent, 'k') +
           " < " + bound + ")";
      for (const Region& r : inst.regions) s += " " + region(r);
      s += " : " + result_type();
      break;
    }
    case Op::copy:
      for (size_t i = 0; i < inst.panels.size(); ++i)
        s += (i ? ", " : " ") + buffer_name(inst.panels[i].buffer) + "[" + expr(inst.panels[i].address) + "]";
      s += " first " + expr(inst.extent) + tail();
      break;
    case Op::copy_fence: s += " " + std::to_string(inst.immediate); break;
    case Op::load_matrix:
      s += " " + buffer_name(inst.buffer) + "[" + expr(inst.address) + "]" + (inst.axis == 1 ? " transposed" : "");
      break;
    case Op::matrix_store:
      if (inst.buffer >= 0) s += " through " + buffer_name(inst.buffer);
      for (const Region& r : inst.regions) s += " " + region(r);
      s += ", " + uses(own);
      break;
    case Op::loop: {
      std::string bound = expr(inst.extent);
      s += " " + declare_index(inst.var, inst.extent, 'k') + " < " + bound;
      const std::vector<Value> params = inst.bodies.empty() ? std::vector<Value>() : inst.bodies[0].params;
      for (size_t i = 0; i < params.size(); ++i)
        s += (i ? ", " : " carry(") + define(params[i]) + " = " + (i < inst.args.size() ? use(inst.args[i]) : "?");
      if (!params.empty()) s += ")";
      if (inst.immediate != 0) s += " unroll " + std::to_string(inst.immediate);
      s += " {";
      break;
    }
    case Op::branch:
      s += " " + expr(inst.guard) + binds(inst, declared) + " {";
      restore(outer);  // bound variables mean nothing inside
      break;
    case Op::barrier: break;
    case Op::shuffle_xor: s += " " + arguments + ", " + std::to_string(inst.immediate); break;
    default: s += " " + arguments; break;
  }
  line(s);
  for (size_t i = 0; i < inst.bodies.size(); ++i) {
    const Body& b = inst.bodies[i];
    if (i > 0 && b.insts.empty() && b.results.empty()) continue;
    if (i > 0) line("} else {");
    body(b);
  }
  if (!inst.bodies.empty()) line("}");
  restore(outer);
}

}  // namespace

bool is_reserved_name(std::string_view name) {
  // What the expression language and the ends of expressions use, and d0, v0, ...
  static constexpr std::string_view kWords[] = {"if",       "with",    "stream", "carry",    "unroll", "in",
                                                "multiple", "axis",    "min",    "max",      "select", "and",
                                                "or",       "not",     "true",   "false",    "mod",    "else",
                                                "yield",    "threads", "thread", "floordiv", "rounds", "prefetch"};
  if (std::find(std::begin(kWords), std::end(kWords), name) != std::end(kWords)) return true;
  return name.size() > 1 && (name[0] == 'd' || name[0] == 'v') &&
         std::all_of(name.begin() + 1, name.end(), [](unsigned char c) { return std::isdigit(c); });
}

std::string type_text(const Type& type, Level level) {
  std::string s = to_string(type);
  if (level == Level::Thread && !type.shape.empty()) s.replace(0, 4, "vec");
  return s;
}

std::string describe(const Inst& inst) {
  std::string out;
  for (size_t i = 0; i < inst.results.size(); ++i) out += text(i ? ", %" : "%", inst.results[i]);
  if (!inst.results.empty()) out += " = ";
  out += name(inst.op);
  for (size_t i = 0; i < inst.args.size(); ++i) out += text(i ? ", %" : " %", inst.args[i]);
  return out;
}

std::string print(const Kernel& kernel) { return Printer(kernel.level, kernel.values.size()).kernel(kernel); }

std::string print(const Reducer& reducer) {
  Printer printer(Level::Tile, reducer.values.size());
  printer.reducer(reducer, Level::Tile);
  return printer.take();
}

}  // namespace heddle::kernel
