#include "expr/expr.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "expr/node.h"

namespace heddle {
namespace {

Interner<ExprNode>& table() {
  static Interner<ExprNode>& instance = *new Interner<ExprNode>;  // never destroyed: handles may outlive main
  return instance;
}
[[maybe_unused]] Interner<ExprNode>& expressions_made_at_start = table();

bool fits_handle(int64_t value) { return value >= kMinInt / 2 && value <= kMaxInt / 2; }

int64_t round_up(int64_t value, int64_t multiple) {
  return saturate((static_cast<Wide>(floor_div(value, multiple)) + (floor_mod(value, multiple) != 0)) * multiple);
}

int64_t multiple_of_product(std::span<const Expr> args) {
  int64_t product = 1;
  for (const Expr& arg : args) {
    int64_t next;
    // On overflow the divisor found so far still divides.
    if (!__builtin_mul_overflow(product, arg.multiple(), &next)) product = next;
  }
  return product;
}

int64_t multiple_of_operation(ExprKind kind, std::span<const Expr> args) {
  switch (kind) {
    case ExprKind::Add: {
      int64_t g = 0;
      for (const Expr& arg : args) g = common_divisor(g, arg.multiple());
      return g;
    }
    case ExprKind::Mul: return multiple_of_product(args);
    case ExprKind::Mod:  // a - b * (a // b)
    case ExprKind::Min:
    case ExprKind::Max: return common_divisor(args[0].multiple(), args[1].multiple());
    case ExprKind::Select: return common_divisor(args[1].multiple(), args[2].multiple());
    case ExprKind::FloorDiv:
      if (args[1].is_const() && args[0].multiple() % args[1].value() == 0) return args[0].multiple() / args[1].value();
      return 1;
    default: return 1;
  }
}

void describe(ExprNode& node) {
  SmallVector<Range, 4> ranges;
  size_t factors = 0;
  for (const Expr& arg : node.args) {
    ranges.push_back({arg.lo(), arg.hi()});
    node.symbolic |= is_symbolic(arg);
    factors += !arg.is_const();
  }
  if (node.kind == ExprKind::Mul && factors > 1) node.symbolic = true;
  if ((node.kind == ExprKind::FloorDiv || node.kind == ExprKind::Mod) && !node.args[1].is_const()) node.symbolic = true;
  Range range = range_of_operation(node.kind, node.args, ranges);
  node.multiple = multiple_of_operation(node.kind, node.args);
  node.lo = range.lo;
  node.hi = range.hi;
  if (node.multiple > 1) {
    if (node.lo != kMinInt) node.lo = round_up(node.lo, node.multiple);
    if (node.hi != kMaxInt) node.hi = floor_div(node.hi, node.multiple) * node.multiple;
  }
}

}  // namespace

Expr expr_from_node(const ExprNode* node) {
  Expr e;
  e.bits_ = reinterpret_cast<uintptr_t>(node);
  return e;
}

namespace {

// `from`: the symbol that `value` is bound to; null for a new variable.
Expr make_variable(std::string name, bool is_index, Range range, int64_t multiple, const Expr& extent,
                   const Variable* from = nullptr, std::optional<int64_t> value = {}) {
  static std::atomic<uint64_t> next_id{1};
  uint64_t id = next_id.fetch_add(1, std::memory_order_relaxed);
  uint64_t family = from ? from->id : id;
  uint64_t hash = hash_combine(static_cast<uint64_t>(ExprKind::Var), family);
  if (value) hash = hash_combine(hash, static_cast<uint64_t>(*value));
  ExprNode probe(ExprKind::Var, {}, hash);
  probe.variable = std::make_unique<Variable>(Variable{std::move(name), id, extent, is_index, family, value});
  probe.lo = range.lo;
  probe.hi = range.hi;
  probe.multiple = multiple;
  probe.symbolic = is_index && !extent.is_const();
  return expr_from_node(table().intern(probe, [&] { return new ExprNode(std::move(probe)); }));
}

}  // namespace

Expr make_node(ExprKind kind, ExprArgs args) {
  uint64_t hash = static_cast<uint64_t>(kind) + 1;
  for (const Expr& arg : args) hash = hash_combine(hash, arg.hash());
  ExprNode probe(kind, std::move(args), hash);
  return expr_from_node(table().intern(probe, [&] {
    auto* node = new ExprNode(std::move(probe));
    describe(*node);
    return node;
  }));
}

Expr::Expr(int64_t value) {
  if (fits_handle(value)) {
    bits_ = static_cast<uintptr_t>(value) << 1 | 1;
    return;
  }
  ExprNode probe(ExprKind::Const, {}, hash_combine(0, static_cast<uint64_t>(value)));
  probe.lo = probe.hi = value;
  probe.multiple = value == kMinInt ? int64_t{1} << 62 : value < 0 ? -value : value;
  bits_ = reinterpret_cast<uintptr_t>(table().intern(probe, [&] { return new ExprNode(std::move(probe)); }));
}

void Expr::retain() const { Interner<ExprNode>::retain(const_cast<ExprNode*>(node())); }
void Expr::release() const { table().release(const_cast<ExprNode*>(node())); }
bool Expr::is_large_const() const { return node()->kind == ExprKind::Const; }

Expr Expr::symbol(std::string name, int64_t lo, int64_t hi, int64_t multiple) {
  if (lo > hi || multiple < 1)
    throw ValueError(text("symbol '", name, "': bounds [", lo, ", ", hi, "] and multiple ", multiple,
                          " should satisfy lo <= hi and multiple >= 1"));
  if (multiple > 1) {
    if (lo != kMinInt) lo = round_up(lo, multiple);
    if (hi != kMaxInt) hi = floor_div(hi, multiple) * multiple;
    if (lo > hi) throw ValueError(text("symbol '", name, "': no multiple of ", multiple, " lies within its bounds"));
  }
  return make_variable(std::move(name), false, {lo, hi}, multiple, Expr());
}

Expr Expr::bound(const Expr& symbol, int64_t value) {
  if (!symbol.is_symbol() || symbol.node()->variable->value) throw ValueError(text("cannot bind ", symbol));
  if (value < symbol.lo() || value > symbol.hi() || value % symbol.multiple() != 0)
    throw ValueError(text("the size '", symbol, "' cannot be ", value, ": it lies in [", symbol.lo(), ", ", symbol.hi(),
                          "]", symbol.multiple() > 1 ? text(" and is a multiple of ", symbol.multiple()) : ""));
  return make_variable(symbol.name(), false, {symbol.lo(), symbol.hi()}, symbol.multiple(), Expr(),
                       symbol.node()->variable.get(), value);
}

Expr Expr::index(std::string name, const Expr& extent) {
  if (extent.hi() < 0) throw ValueError(text("index '", name, "': extent ", extent, " is negative"));
  // An empty index never takes a value; the range [0, 0] keeps lo <= hi.
  return make_variable(std::move(name), true, {0, std::max<int64_t>(extent.hi() - 1, 0)}, 1, extent);
}

bool Expr::is_symbol() const { return is_var() && !node()->variable->is_index; }

ExprKind Expr::kind() const { return bits_ & 1 ? ExprKind::Const : node()->kind; }

int64_t Expr::value() const {
  HD_ASSERT(is_const(), "value() of ", *this);
  return bits_ & 1 ? static_cast<int64_t>(bits_) >> 1 : node()->lo;
}

std::span<const Expr> Expr::args() const {
  if (bits_ & 1) return {};
  return node()->args;
}

const std::string& Expr::name() const {
  HD_ASSERT(is_var(), "name() of ", *this);
  return node()->variable->name;
}

uint64_t Expr::id() const {
  HD_ASSERT(is_var(), "id() of ", *this);
  return node()->variable->id;
}

Expr Expr::extent() const {
  HD_ASSERT(is_var(), "extent() of ", *this);
  if (node()->variable->is_index) return node()->variable->extent;
  return Expr(hi()) + Expr(1);
}

int64_t Expr::lo() const { return bits_ & 1 ? value() : node()->lo; }
int64_t Expr::hi() const { return bits_ & 1 ? value() : node()->hi; }

int64_t Expr::multiple() const {
  if (!(bits_ & 1)) return node()->multiple;
  return value() < 0 ? -value() : value();
}

uint64_t Expr::hash() const { return bits_ & 1 ? hash_mix(bits_) : node()->hash; }

size_t live_expr_nodes() { return table().size(); }

int compare(const Expr& a, const Expr& b) {
  const Expr* x = &a;
  const Expr* y = &b;
  for (;;) {
    if (*x == *y) return 0;
    ExprKind kx = x->kind(), ky = y->kind();
    if (kx != ky) return kx < ky ? -1 : 1;
    if (kx == ExprKind::Const) return x->value() < y->value() ? -1 : 1;
    if (kx == ExprKind::Var) {
      const Variable &v = *ExprNode::of(*x)->variable, &w = *ExprNode::of(*y)->variable;
      return v.family != w.family ? (v.family < w.family ? -1 : 1) : v.value < w.value ? -1 : 1;
    }
    std::span<const Expr> xs = x->args(), ys = y->args();
    size_t common = std::min(xs.size(), ys.size());
    size_t i = 0;
    while (i < common && xs[i] == ys[i]) ++i;
    if (i == common) return xs.size() < ys.size() ? -1 : 1;
    x = &xs[i];
    y = &ys[i];
  }
}

Range range_of_operation(ExprKind kind, std::span<const Expr> args, std::span<const Range> r) {
  switch (kind) {
    case ExprKind::Add: {
      Wide lo = 0, hi = 0;
      for (const Range& x : r) lo += x.lo, hi += x.hi;
      return {saturate(lo), saturate(hi)};
    }
    case ExprKind::Mul: {
      Range product = r[0];
      for (size_t i = 1; i < r.size(); ++i) {
        Wide corners[] = {Wide{product.lo} * r[i].lo, Wide{product.lo} * r[i].hi, Wide{product.hi} * r[i].lo,
                          Wide{product.hi} * r[i].hi};
        product = {saturate(*std::min_element(corners, corners + 4)),
                   saturate(*std::max_element(corners, corners + 4))};
        // A square, wherever it stands among the sorted factors, is not negative.
        if (args[i] == args[i - 1] && r.size() == 2) product.lo = std::max<int64_t>(product.lo, 0);
      }
      return product;
    }
    case ExprKind::FloorDiv: {
      int64_t small = std::max<int64_t>(r[1].lo, 1), large = std::max<int64_t>(r[1].hi, 1);
      return {floor_div(r[0].lo, r[0].lo >= 0 ? large : small), floor_div(r[0].hi, r[0].hi >= 0 ? small : large)};
    }
    case ExprKind::Mod: {
      int64_t hi = std::max<int64_t>(r[1].hi, 1) - 1;
      if (r[0].lo >= 0) hi = std::min(hi, r[0].hi);
      return {0, hi};
    }
    case ExprKind::Min: return {std::min(r[0].lo, r[1].lo), std::min(r[0].hi, r[1].hi)};
    case ExprKind::Max: return {std::max(r[0].lo, r[1].lo), std::max(r[0].hi, r[1].hi)};
    case ExprKind::Select: return {std::min(r[1].lo, r[2].lo), std::max(r[1].hi, r[2].hi)};
    default: return {0, 1};
  }
}

void throw_overflow(const char* operation, const Expr& a, const Expr& b) {
  throw ValueError(text("integer overflow in ", operation, " of ", a, " and ", b));
}

}  // namespace heddle
