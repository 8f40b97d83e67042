#include <algorithm>

#include "base/error.h"
#include "expr/runs.h"
#include "kernel/tensor_maps.h"
#include "kernel/text.h"
#include "kernel/types.h"

namespace heddle::kernel {
namespace {

class Verifier {
 public:
  Verifier(const Kernel& kernel, std::span<const Type> types)
      : kernel_(kernel), types_(types), defined_(types.size()), visible_(types.size()) {}

  void kernel();

 private:
  template <class... Parts>
  void check(bool condition, const Parts&... parts) const {
    if (condition) return;
    std::string where = text("kernel @", kernel_.name);
    if (phase_ >= 0) where += text(", phase ", phase_);
    if (inst_) where += text(", ", describe(*inst_));
    throw InternalError(text(where, ": ", parts...));
  }

  // Values.
  void define(Value v) {
    check(v >= 0 && static_cast<size_t>(v) < types_.size(), "value %", v, " has no type");
    check(!defined_[v], "value %", v, " is defined twice");
    const Type& t = types_[v];
    for (int64_t d : t.shape) check(d >= 1, "value %", v, " has the empty type ", to_string(t));
    check(kernel_.level == Level::Tile || t.shape.size() <= 1, "value %", v, " of type ", to_string(t),
          " has a rank above 1 at thread level");
    defined_[v] = visible_[v] = true;
    order_.push_back(v);
  }
  void use(Value v) const {
    check(v >= 0 && static_cast<size_t>(v) < types_.size() && visible_[v], "value %", v, " is not defined here");
  }
  void restore(size_t mark) {
    while (order_.size() > mark) {
      visible_[order_.back()] = false;
      order_.pop_back();
    }
  }

  // Variables.
  void enter(const Expr& var, const Expr& extent, const char* what) {
    if (var.is_const(0) && extent.is_const(1)) return;  // a variable of extent 1 may have become its only value
    check(var.is_var(), what, " ", var, " is not a variable");
    check(std::find(variables_.begin(), variables_.end(), var) == variables_.end(), what, " ", var,
          " is already in scope");
    if (!(var == extent))
      check(var.extent() == extent || provably_true(le(extent, var.extent())), what, " ", var, " of extent ",
            var.extent(), " runs to ", extent);
    variables_.push_back(var);
  }
  void expression(const Expr& e, const char* what) const {
    if (e.is_const()) return;
    for (const Expr& v : variables(e))
      check(std::find(variables_.begin(), variables_.end(), v) != variables_.end(), what, " ", e, " uses ", v,
            ", which is not in scope");
  }

  void head();
  void block(const Block& b);
  void inst(const Inst& i);
  void access(const Inst& i, const Dims& dims, bool coords_needed);
  void buffer(const Inst& i, DType dtype) const;
  void reducer(const Inst& i, size_t width);
  void block_dot(const Inst& i);
  void region(const Region& r, DType dtype);
  void gathered(const Region& r, DType dtype);
  void factors(const Inst& i, DType dtype);
  void matrix_dot(const Inst& i);
  void matrix_store(const Inst& i);
  void fragments(std::span<const Value> values);
  void warp_dot(const Inst& i);
  void copy(const Inst& i);
  void load_matrix(const Inst& i);
  void mma(const Inst& i);
  void loop(const Inst& i);
  void branch(const Inst& i);
  void counts(const Inst& i, size_t args, size_t results) const {
    size_t own = i.args.size() - i.binds.size();
    check(own == args, "takes ", args, " operands, not ", own);
    check(i.results.size() == results, "gives ", results, " results, not ", i.results.size());
  }
  const Type& arg(const Inst& i, size_t n) const { return types_[i.args[n]]; }
  void result(const Inst& i, size_t n, const Type& expected) const {
    const Type& t = types_[i.results[n]];
    check(t == expected, "result %", i.results[n], " is ", to_string(t), ", should be ", to_string(expected));
  }

  const Kernel& kernel_;
  std::span<const Type> types_;
  std::vector<bool> defined_, visible_;
  std::vector<Value> order_;
  std::vector<Expr> variables_;
  const Inst* inst_ = nullptr;
  int phase_ = -1;
};

void Verifier::head() {
  for (const Expr& s : kernel_.symbols) {
    check(s.is_var(), "symbol ", s, " is not a variable");
    check(std::find(variables_.begin(), variables_.end(), s) == variables_.end(), "symbol ", s, " stands twice");
    variables_.push_back(s);
  }
  for (const Buffer& b : kernel_.buffers) {
    expression(b.size, "size of a buffer");
    check(b.space != Space::Local || b.size.is_const(), "local buffer %", b.name, " has size ", b.size);
    check(!b.size.is_const() || b.size.value() >= 0, "buffer %", b.name, " has size ", b.size);
  }
  check(kernel_.threads >= 1, "runs ", kernel_.threads, " threads");
  bool many = kernel_.level == Level::Thread && kernel_.threads > 1;
  if (many) enter(kernel_.thread, kernel_.threads, "the thread");
}

void Verifier::kernel() {
  head();
  size_t outer = variables_.size();
  for (const Phase& p : kernel_.phases) {
    ++phase_;
    if (kernel_.rounds) {
      auto rounds = [](const Phase& phase) { return phase.cells.empty() ? Expr(0) : phase.cells[0].extent(); };
      check(!p.cells.empty() && p.cells[0].is_var(), "the grid does not count rounds");
      check(rounds(p) == rounds(kernel_.phases[0]), "the grid counts ", rounds(p), " rounds");
    }
    for (const Expr& cell : p.cells)
      if (cell.is_var()) expression(cell.extent(), "the grid");
    for (const Expr& cell : p.cells) enter(cell, cell.is_var() ? cell.extent() : Expr(1), "cell");
    check(p.body.params.empty() && p.body.results.empty(), "the body of a phase has no parameters and no results");
    block(p.body);
    variables_.resize(outer);
  }
}

void Verifier::block(const Block& b) {
  size_t mark = order_.size();
  for (Value v : b.params) define(v);
  const Inst* outer = inst_;
  for (const Inst& i : b.insts) {
    inst_ = &i;
    inst(i);
  }
  inst_ = outer;
  for (Value v : b.results) use(v);
  restore(mark);
}

// `coords_needed` unless there is no guard to speak of them.
void Verifier::access(const Inst& i, const Dims& dims, bool coords_needed) {
  size_t outer = variables_.size();
  if (coords_needed || !i.coords.empty()) {
    check(i.coords.size() == dims.size(), "has ", i.coords.size(), " coordinates for ", dims.size(), " dimensions");
    for (size_t d = 0; d < dims.size(); ++d) {
      const Expr& c = i.coords[d];
      check(c.is_var() ? c.extent().is_const(dims[d]) : dims[d] == 1 && c.is_const(0), "coordinate ", d,
            " does not have the extent ", dims[d]);
      enter(c, dims[d], "coordinate");
    }
  }
  for (size_t n = 0; n < i.binds.size(); ++n) {
    const Expr& v = i.binds[n];
    // A variable without an upper bound has no extent.
    Expr extent = !v.is_var() ? Expr(1) : v.hi() == INT64_MAX ? v : v.extent();
    if (v.is_var() && !(extent == v)) expression(extent, "a bound variable's extent");
    enter(v, extent, "bound variable");
    const Type& t = arg(i, i.args.size() - i.binds.size() + n);
    check(is_integer(t.dtype) || t.dtype == DType::boolean, "variable ", v, " is bound to ", to_string(t));
    check(broadcast_dims(t.shape, dims) == dims, "variable ", v, " is bound to ", to_string(t),
          ", which does not broadcast to the element's shape");
  }
  expression(i.address, "address");
  expression(i.guard, i.op == Op::branch ? "condition" : "guard");
  variables_.resize(outer);
}

void Verifier::buffer(const Inst& i, DType dtype) const {
  check(i.buffer >= 0 && static_cast<size_t>(i.buffer) < kernel_.buffers.size(), "buffer ", i.buffer,
        " does not exist");
  const Buffer& b = kernel_.buffers[i.buffer];
  bool words = i.op == Op::load && (dtype == DType::u16 || dtype == DType::u32 || dtype == DType::u64) &&
               size_of(b.dtype) < size_of(dtype) && b.dtype != DType::boolean;
  check(b.dtype == dtype || words, "buffer %", b.name, " holds ", b.dtype, ", not ", dtype);
  check(i.op == Op::load || b.space != Space::In, "writes to the input %", b.name);
}

void Verifier::reducer(const Inst& i, size_t width) {
  check(i.reducer != nullptr, "has no reducer");
  const Reducer& r = *i.reducer;
  const Block& b = r.combine;
  check(r.width() == width, "reducer of ", r.width(), " values for ", width);
  check(b.params.size() == 2 * width && b.results.size() == width, "reducer of ", width, " values has ",
        b.params.size(), " parameters and ", b.results.size(), " results");
  for (const Inst& inner : b.insts)
    check(is_scalar_op(inner.op) || inner.op == Op::constant || inner.op == Op::cast || inner.op == Op::bitcast,
          "reducer uses ", name(inner.op));
  for (const Type& t : r.values) check(t.shape.empty(), "reducer computes with ", to_string(t));
  Verifier(kernel_, r.values).block(b);
  for (size_t n = 0; n < width; ++n) {
    DType dtype = r.identity[n].dtype;
    check(dtype == arg(i, n).dtype, "reducer of ", dtype, " for operand ", to_string(arg(i, n)));
    for (Value v : {b.params[n], b.params[width + n], b.results[n]})
      check(r.values[v].dtype == dtype, "reducer's value %", v, " is ", r.values[v].dtype, ", not ", dtype);
  }
}

void Verifier::block_dot(const Inst& i) {
  counts(i, 0, 0);
  check(i.panels.size() == 3, "has ", i.panels.size(), " panels");
  for (const Panel& p : i.panels) {
    check(p.buffer >= 0 && static_cast<size_t>(p.buffer) < kernel_.buffers.size(), "buffer ", p.buffer,
          " does not exist");
    expression(p.address, "address");
  }
  auto buffer = [&](size_t n) -> const Buffer& { return kernel_.buffers[static_cast<size_t>(i.panels[n].buffer)]; };
  for (size_t n : {1, 2})
    check(holds_words(buffer(n).dtype, buffer(0).dtype), "buffer %", buffer(n).name, " holds no words for sums of ",
          buffer(0).dtype);
  check(buffer(0).space != Space::In, "writes to the input %", buffer(0).name);
  expression(i.extent, "steps");
  expression(i.guard, "guard");
}

void Verifier::region(const Region& r, DType dtype) {
  check(r.buffer >= 0 && static_cast<size_t>(r.buffer) < kernel_.buffers.size(), "buffer ", r.buffer,
        " does not exist");
  const Buffer& b = kernel_.buffers[static_cast<size_t>(r.buffer)];
  check(b.space != Space::Local, "a matrix in local memory, %", b.name);
  check(b.dtype == dtype, "buffer %", b.name, " holds ", b.dtype, ", not ", dtype);
  const size_t rank = r.extents.size();
  if (r.is_gathered()) return gathered(r, dtype);
  check(rank >= 2 && rank <= 5 && r.strides.size() == rank && r.at.size() == rank, "a matrix of ", rank, " extents, ",
        r.strides.size(), " strides, ", r.at.size(), " positions");
  check(r.strides[0] == 1, "neighbours ", r.strides[0], " elements apart");
  for (size_t k = 1; k < rank; ++k) check(r.strides[k] > 0, "a stride of ", r.strides[k], " elements");
  auto of_symbols = [&](const Expr& e) {
    for (const Expr& v : variables(e)) check(v.is_symbol(), "a matrix that depends on ", v);
  };
  of_symbols(r.offset);
  for (const Expr& e : r.extents) of_symbols(e);
  for (const Expr& e : r.at) expression(e, "position");
}

void Verifier::gathered(const Region& r, DType dtype) {
  check(r.extents.size() == 2 && r.coords.size() == 2 && r.at.size() == 2 && r.strides.empty(), "gathers a matrix of ",
        r.extents.size(), " extents, ", r.coords.size(), " coordinates, ", r.at.size(), " positions");
  const int64_t piece = 16 / size_of(dtype);
  for (const Expr& e : r.at) expression(e, "position");
  check(r.extents[0].multiple() % piece == 0, "gathers rows of ", r.extents[0], ", which are no whole pieces");
  check(r.at[0].multiple() % piece == 0, "gathers from ", r.at[0], " on, inside a piece");
  const size_t outer = variables_.size();
  for (size_t d = 0; d < 2; ++d) enter(r.coords[d], r.extents[d], "coordinate");
  expression(r.offset, "address");
  expression(r.guard, "guard");
  variables_.resize(outer);
  check(in_pieces(r.offset, r.guard, r.coords[0], piece), "gathers pieces that are not neighbours");
}

// Vectors of two that the threads of a tile of sums hold.
void Verifier::fragments(std::span<const Value> values) {
  if (kernel_.level == Level::Tile) {
    check(values.size() == 1, "a matrix of ", values.size(), " tiles");
    const Type& t = types_[values[0]];
    const auto wide = std::count_if(t.shape.begin(), t.shape.end(), [](int64_t d) { return d > 1; });
    check(wide == 2, "a matrix of type ", to_string(t));
    return;
  }
  check(kernel_.threads % kMatrixThreads == 0 && kernel_.threads >= 2 * kMatrixThreads, "a matrix unit fed by ",
        kernel_.threads, " threads");
  check(!values.empty() && values.size() % 2 == 0, values.size(), " vectors of two rows");
  for (Value v : values)
    check(types_[v] == Type{types_[values[0]].dtype, {2}}, "a fragment of type ", to_string(types_[v]));
}

// The steps of a sum of blocks, and its factors in memory.
void Verifier::factors(const Inst& i, DType dtype) {
  expression(i.extent, "steps");
  const size_t outer = variables_.size();
  enter(i.var, i.extent, "step");
  for (const Region& r : i.regions) {
    region(r, dtype);
    check(r.is_gathered() || is_copied(kernel_, r), "copies 16 bytes at a time from %",
          kernel_.buffers[static_cast<size_t>(r.buffer)].name, ", whose rows begin between them");
    check(!r.turned || size_of(dtype) == 2, "turned blocks of ", dtype);
  }
  variables_.resize(outer);
}

void Verifier::matrix_dot(const Inst& i) {
  fragments(i.results);
  const std::span<const Value> args(i.args.begin(), i.args.size());
  const std::span<const Value> sums = args.first(std::min(args.size(), i.results.size())),
                               left = args.subspan(sums.size());
  check(i.regions.size() == (left.empty() ? 2 : 1), "has ", i.regions.size(), " factors in memory");
  if (!sums.empty()) {
    fragments(sums);
    check(sums.size() == i.results.size(), sums.size(), " sums so far for ", i.results.size());
    for (Value v : sums) check(types_[v] == types_[i.results[0]], "adds to ", to_string(types_[v]));
  }
  check(i.immediate >= 1, "has ", i.immediate, " blocks on their way");
  const DType factor = kernel_.buffers[static_cast<size_t>(i.regions[0].buffer)].dtype;
  const DType sum = types_[i.results[0]].dtype;
  check((sum == DType::f32 && size_of(factor) == 2 && is_float(factor)) || (sum == DType::i32 && factor == DType::i8),
        "multiplies ", factor, " into ", sum);
  if (!left.empty()) {
    fragments(left);
    const Type& t = types_[left[0]];
    check(t.dtype == factor, "a left factor of ", t.dtype, " with a right one of ", factor);
    check(i.extent.is_const(), "a left factor of unknown depth");
    const int64_t depth = i.extent.value() * kMatrixBytes / size_of(factor);
    const int64_t given = kernel_.level == Level::Tile ? t.numel() : static_cast<int64_t>(left.size()) * 4;
    const int64_t rows = kernel_.level == Level::Tile ? types_[i.results[0]].numel() : 1;
    // Tile level: rows x depth elements beside rows x columns.
    if (kernel_.level == Level::Thread)
      check(given == depth, "a left factor ", given, " deep in ", depth);
    else
      check(given % depth == 0 && rows % (given / depth) == 0, "a left factor of type ", to_string(t), ", ", depth,
            " deep");
  }
  expression(i.address, "position in the ring");
  for (size_t n = 0; n < i.regions.size(); ++n)
    check(!i.regions[n].stays || (n == 0 && i.regions.size() == 2 && i.extent.is_const()), "factor ", n,
          " cannot stay in local memory");
  if (i.buffer >= 0 && kernel_.level == Level::Thread) {
    const int64_t bytes = matrix_ring(kernel_, i).bytes();
    const Buffer& ring = kernel_.buffers[static_cast<size_t>(i.buffer)];
    check(ring.space == Space::Local && ring.dtype == DType::u8 && ring.size.lo() >= bytes, "its blocks need ", bytes,
          " bytes of local memory, not %", ring.name);
  }
  factors(i, factor);
}

void Verifier::matrix_store(const Inst& i) {
  counts(i, i.args.size(), 0);
  check(!i.args.empty(), "stores nothing");
  fragments(i.args);
  check(i.regions.size() == 1, "has ", i.regions.size(), " results");
  region(i.regions[0], arg(i, 0).dtype);
  const Buffer& b = kernel_.buffers[static_cast<size_t>(i.regions[0].buffer)];
  check(b.space != Space::In, "writes to the input %", b.name);
  check(size_of(b.dtype) == 2 || size_of(b.dtype) == 4, "stores elements of ", b.dtype);
  if (kernel_.level != Level::Thread) return;
  const auto bytes = static_cast<int64_t>(i.args.size()) / 2 * 8 * size_of(b.dtype);
  check(bytes % kMatrixBytes == 0, "rows of ", bytes, " bytes");
  if (i.buffer < 0) return;
  const Buffer& through = kernel_.buffers[static_cast<size_t>(i.buffer)];
  const int64_t rows = (kernel_.threads / kMatrixThreads - 1) * kMatrixRows;
  check(through.space == Space::Local && through.dtype == DType::u8 && through.size.lo() >= matrix_store_bytes(rows),
        "leaves through ", matrix_store_bytes(rows), " bytes of local memory, not %", through.name);
}

void Verifier::warp_dot(const Inst& i) {
  check(kernel_.level == Level::Tile, "a sum of blocks at thread level");
  counts(i, 0, 1);
  fragments(i.results);
  check(i.regions.size() == 2, "has ", i.regions.size(), " factors");
  check(i.immediate >= 2, "has room for ", i.immediate, " blocks");
  const DType factor = kernel_.buffers[static_cast<size_t>(i.regions[0].buffer)].dtype;
  const DType sum = types_[i.results[0]].dtype;
  check(multiplies_fragments(factor, sum), "multiplies ", factor, " into ", sum);
  factors(i, factor);
}

void Verifier::copy(const Inst& i) {
  counts(i, 0, 0);
  check(kernel_.level == Level::Thread, "copy at tile level");
  check(i.panels.size() == 2, "has ", i.panels.size(), " places");
  for (const Panel& p : i.panels) {
    check(p.buffer >= 0 && static_cast<size_t>(p.buffer) < kernel_.buffers.size(), "buffer ", p.buffer,
          " does not exist");
    expression(p.address, "address");
  }
  const Buffer &to = kernel_.buffers[static_cast<size_t>(i.panels[0].buffer)],
               &from = kernel_.buffers[static_cast<size_t>(i.panels[1].buffer)];
  check(to.space == Space::Local && from.space != Space::Local, "copies from %", from.name, " to %", to.name);
  check(to.dtype == from.dtype, "copies ", from.dtype, " to ", to.dtype);
  for (const Panel& p : i.panels)
    check(p.address.multiple() * size_of(to.dtype) % 16 == 0, "copies 16 bytes at element ", p.address);
  expression(i.extent, "number of elements");
  check(i.extent.lo() >= 0 && i.extent.hi() * size_of(to.dtype) <= 16, "copies ", i.extent, " elements of ", to.dtype);
  expression(i.guard, "guard");
}

void Verifier::load_matrix(const Inst& i) {
  counts(i, 0, 1);
  check(i.buffer >= 0 && static_cast<size_t>(i.buffer) < kernel_.buffers.size(), "buffer ", i.buffer,
        " does not exist");
  const Buffer& b = kernel_.buffers[static_cast<size_t>(i.buffer)];
  check(b.space == Space::Local, "a fragment of %", b.name, ", which is not local");
  check(i.axis == 0 || size_of(b.dtype) == 2, "a turned fragment of ", b.dtype);
  check(i.address.multiple() * size_of(b.dtype) % 16 == 0, "reads 16 bytes at element ", i.address);
  expression(i.address, "address");
  result(i, 0, fragment_type(b.dtype));
}

void Verifier::mma(const Inst& i) {
  counts(i, 6, 4);
  const DType factor = arg(i, 0).dtype, sum = arg(i, 2).dtype;
  check(multiplies_fragments(factor, sum), "multiplies ", factor, " into ", sum);
  for (size_t n : {0, 1}) check(arg(i, n) == fragment_type(factor), "a fragment of type ", to_string(arg(i, n)));
  for (size_t n = 0; n < 4; ++n) {
    check(arg(i, n + 2) == Type{sum, {2}}, "sums of type ", to_string(arg(i, n + 2)));
    result(i, n, arg(i, n + 2));
  }
}

void Verifier::loop(const Inst& i) {
  check(i.blocks.size() == 1, "has ", i.blocks.size(), " blocks");
  const Block& body = i.blocks[0];
  counts(i, i.args.size(), i.args.size());
  check(body.params.size() == i.args.size(), "carries ", i.args.size(), " values into ", body.params.size(),
        " parameters");
  check(body.results.size() == i.args.size(), "carries ", i.args.size(), " values, its body gives ",
        body.results.size());
  expression(i.extent, "extent");
  size_t outer = variables_.size();
  enter(i.var, i.extent, "loop variable");
  block(body);
  variables_.resize(outer);
  for (size_t n = 0; n < i.args.size(); ++n) {
    for (Value v : {body.params[n], body.results[n]})
      check(types_[v] == arg(i, n), "carries ", to_string(arg(i, n)), " as %", v, " of type ", to_string(types_[v]));
    result(i, n, arg(i, n));
  }
}

void Verifier::branch(const Inst& i) {
  check(i.blocks.size() == 2, "has ", i.blocks.size(), " blocks");
  counts(i, 0, i.results.size());
  size_t outer = variables_.size();
  for (size_t n = 0; n < i.binds.size(); ++n) {
    const Type& t = arg(i, n);
    check((is_integer(t.dtype) || t.dtype == DType::boolean) && t.numel() == 1, "variable ", i.binds[n],
          " is bound to ", to_string(t));
    enter(i.binds[n], i.binds[n].is_var() ? i.binds[n].extent() : Expr(1), "bound variable");
  }
  expression(i.guard, "condition");
  variables_.resize(outer);
  for (const Block& side : i.blocks) {
    check(side.params.empty(), "a side has parameters");
    check(side.results.size() == i.results.size(), "gives ", i.results.size(), " results, a side gives ",
          side.results.size());
    block(side);
    for (size_t n = 0; n < side.results.size(); ++n) result(i, n, types_[side.results[n]]);
  }
}

void Verifier::inst(const Inst& i) {
  for (Value v : i.args) use(v);
  check(i.binds.size() <= i.args.size(), "has more bound variables than operands");
  bool accesses = i.op == Op::index || i.op == Op::load || i.op == Op::store || i.op == Op::combine ||
                  i.op == Op::check || i.op == Op::reduce || i.op == Op::scan || i.op == Op::dot || i.op == Op::branch;
  check(accesses || (i.binds.empty() && i.coords.empty()), "has coordinates or bound variables");
  check(i.op != Op::branch || i.coords.empty(), "has coordinates");
  check(i.hint != Hint::Ahead || i.op == Op::load, "fetches ahead without loading");
  check(i.panels.empty() == (i.op != Op::block_dot && i.op != Op::copy), "has panels or lacks them");
  check(i.regions.empty() || i.op == Op::matrix_dot || i.op == Op::matrix_store || i.op == Op::warp_dot,
        "has matrices");
  for (const Region& r : i.regions) check(!r.is_gathered() || i.op == Op::warp_dot, "has gathered matrices");
  check(i.blocks.empty() || i.op == Op::loop || i.op == Op::branch, "has blocks");
  bool many_threads = kernel_.level == Level::Thread && kernel_.threads > 1;
  for (Value v : i.results) define(v);
  // Results are visible only to what follows: hide them while the blocks inside are checked.
  for (Value v : i.results) visible_[v] = false;
  try {
    switch (i.op) {
      case Op::constant:
        counts(i, 0, 1);
        result(i, 0, {i.literal.dtype, types_[i.results[0]].shape});
        break;
      case Op::cast:
        counts(i, 1, 1);
        result(i, 0, {types_[i.results[0]].dtype, arg(i, 0).shape});
        break;
      case Op::bitcast:
        counts(i, 1, 1);
        result(i, 0, bitcast_type(arg(i, 0), types_[i.results[0]].dtype));
        break;
      case Op::index: {
        counts(i, 0, 1);
        const Type& t = types_[i.results[0]];
        check(t.dtype == DType::i32 || t.dtype == DType::i64 || t.dtype == DType::boolean, "gives ", to_string(t));
        access(i, t.shape, true);
        break;
      }
      case Op::load:
        counts(i, 0, 1);
        buffer(i, types_[i.results[0]].dtype);
        access(i, types_[i.results[0]].shape, true);
        break;
      case Op::store:
      case Op::combine:
        counts(i, 1, 0);
        buffer(i, arg(i, 0).dtype);
        access(i, arg(i, 0).shape, true);
        if (i.op == Op::store) break;
        reducer(i, 1);
        check(simple_op(*i.reducer).has_value(), "combine needs a simple reducer");
        break;
      case Op::check:
        counts(i, 1, 0);
        check(is_integer(arg(i, 0).dtype), "reports ", to_string(arg(i, 0)));
        buffer(i, DType::i64);
        access(i, arg(i, 0).shape, true);
        break;
      case Op::reduce: {
        check(i.reducer != nullptr, "has no reducer");
        size_t width = i.reducer->width();
        check(width > 0, "reducer of no values");
        counts(i, width, width);
        reducer(i, width);
        for (size_t n = 0; n < width; ++n) {
          check(arg(i, n).shape == arg(i, 0).shape, "operands have different shapes");
          result(i, n, reduced_type(arg(i, n), i.axis, kernel_.level));
        }
        access(i, arg(i, 0).shape, !i.guard.is_const(1));
        break;
      }
      case Op::scan: {
        check(i.reducer != nullptr, "has no reducer");
        size_t width = i.reducer->width();
        check(width > 0, "reducer of no values");
        counts(i, 2 * width, 2 * width);
        reducer(i, width);
        for (size_t n = 0; n < width; ++n) {
          check(arg(i, n).shape == arg(i, 0).shape, "operands have different shapes");
          Type total = reduced_type(arg(i, n), i.axis, kernel_.level);
          check(arg(i, width + n) == total, "starts from ", to_string(arg(i, width + n)), ", not from ",
                to_string(total));
          result(i, n, arg(i, n));
          result(i, width + n, total);
        }
        access(i, arg(i, 0).shape, !i.guard.is_const(1));
        break;
      }
      case Op::dot:
        check(kernel_.level == Level::Tile, "dot at thread level");
        counts(i, 3, 1);
        result(i, 0, dot_type(arg(i, 0), arg(i, 1), arg(i, 2), i.axis));
        access(i, dot_dims(arg(i, 0), arg(i, 1)), !i.guard.is_const(1));
        break;
      case Op::block_dot: block_dot(i); break;
      case Op::matrix_dot: matrix_dot(i); break;
      case Op::matrix_store: matrix_store(i); break;
      case Op::warp_dot: warp_dot(i); break;
      case Op::copy:
        check(many_threads, "a copy in a kernel of one thread");
        copy(i);
        break;
      case Op::copy_fence:
        counts(i, 0, 0);
        check(many_threads, "a fence in a kernel of one thread");
        check(i.immediate >= 0, "leaves ", i.immediate, " groups");
        break;
      case Op::load_matrix:
      case Op::mma:
        check(many_threads && kernel_.threads % 32 == 0, name(i.op), " needs whole warps");
        i.op == Op::mma ? mma(i) : load_matrix(i);
        break;
      case Op::word_dot:
        check(kernel_.level == Level::Thread, "word_dot at tile level");
        counts(i, 3, 1);
        result(i, 0, word_dot_type(arg(i, 0), arg(i, 1), arg(i, 2)));
        break;
      case Op::loop: loop(i); break;
      case Op::branch: branch(i); break;
      case Op::barrier:
        counts(i, 0, 0);
        check(many_threads, "barrier in a kernel of one thread");
        break;
      case Op::shuffle_xor:
        counts(i, 1, 1);
        check(many_threads, "shuffle in a kernel of one thread");
        check(i.immediate >= 0 && i.immediate < 32, "lane mask ", i.immediate, " is outside the warp");
        result(i, 0, arg(i, 0));
        break;
      case Op::transpose: {
        check(kernel_.level == Level::Thread, "transpose at tile level");
        auto lanes = static_cast<int64_t>(i.args.size());
        check(lanes >= 2 && (lanes & (lanes - 1)) == 0, "transposes ", lanes, " vectors");
        counts(i, i.args.size(), i.args.size());
        for (size_t n = 0; n < i.args.size(); ++n) {
          check(arg(i, n) == Type{arg(i, 0).dtype, {lanes}}, "operand ", to_string(arg(i, n)), " among ", lanes);
          result(i, n, arg(i, 0));
        }
        break;
      }
      default: {
        check(is_scalar_op(i.op), "unknown op ", static_cast<int>(i.op));
        counts(i, info(scalar_op(i.op)).arity, 1);
        SmallVector<Type, 3> types;
        for (Value v : i.args) types.push_back(types_[v]);
        result(i, 0, elementwise_type(scalar_op(i.op), types));
      }
    }
  } catch (const InternalError& e) {
    std::string what = e.what();
    if (what.starts_with("kernel @")) throw;
    check(false, what);
  }
  for (Value v : i.results) visible_[v] = true;
}

}  // namespace

void verify(const Kernel& kernel) { Verifier(kernel, kernel.values).kernel(); }

}  // namespace heddle::kernel
