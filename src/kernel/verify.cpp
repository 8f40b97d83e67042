#include "kernel/verifier.h"

namespace heddle::kernel {

void Verifier::head() {
  for (const Expr& s : kernel_.symbols) {
    check(s.is_var(), "symbol ", s, " is not a variable");
    check(std::find(variables_.begin(), variables_.end(), s) == variables_.end(), "symbol ", s, " stands twice");
    variables_.push_back(s);
  }
  for (const Buffer& b : kernel_.buffers) {
    expression(b.size, "size of a buffer");
    check(b.space != Space::Shared || b.size.is_const(), "shared buffer %", b.name, " has size ", b.size);
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
      auto rounds = [](const Phase& phase) { return phase.blocks.empty() ? Expr(0) : phase.blocks[0].extent(); };
      check(!p.blocks.empty() && p.blocks[0].is_var(), "the grid does not count rounds");
      check(rounds(p) == rounds(kernel_.phases[0]), "the grid counts ", rounds(p), " rounds");
    }
    for (const Expr& block : p.blocks)
      if (block.is_var()) expression(block.extent(), "the grid");
    for (const Expr& block : p.blocks) enter(block, block.is_var() ? block.extent() : Expr(1), "block");
    check(p.body.params.empty() && p.body.results.empty(), "the body of a phase has no parameters and no results");
    body(p.body);
    variables_.resize(outer);
  }
}

void Verifier::body(const Body& b) {
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
  const Body& b = r.combine;
  check(r.width() == width, "reducer of ", r.width(), " values for ", width);
  check(b.params.size() == 2 * width && b.results.size() == width, "reducer of ", width, " values has ",
        b.params.size(), " parameters and ", b.results.size(), " results");
  for (const Inst& inner : b.insts)
    check(is_scalar_op(inner.op) || inner.op == Op::constant || inner.op == Op::cast || inner.op == Op::bitcast,
          "reducer uses ", name(inner.op));
  for (const Type& t : r.values) check(t.shape.empty(), "reducer computes with ", to_string(t));
  Verifier(kernel_, r.values).body(b);
  for (size_t n = 0; n < width; ++n) {
    DType dtype = r.identity[n].dtype;
    check(dtype == arg(i, n).dtype, "reducer of ", dtype, " for operand ", to_string(arg(i, n)));
    for (Value v : {b.params[n], b.params[width + n], b.results[n]})
      check(r.values[v].dtype == dtype, "reducer's value %", v, " is ", r.values[v].dtype, ", not ", dtype);
  }
}

void Verifier::loop(const Inst& i) {
  check(i.bodies.size() == 1, "has ", i.bodies.size(), " bodies");
  const Body& body = i.bodies[0];
  counts(i, i.args.size(), i.args.size());
  check(body.params.size() == i.args.size(), "carries ", i.args.size(), " values into ", body.params.size(),
        " parameters");
  check(body.results.size() == i.args.size(), "carries ", i.args.size(), " values, its body gives ",
        body.results.size());
  expression(i.extent, "extent");
  size_t outer = variables_.size();
  enter(i.var, i.extent, "loop variable");
  this->body(body);
  variables_.resize(outer);
  for (size_t n = 0; n < i.args.size(); ++n) {
    for (Value v : {body.params[n], body.results[n]})
      check(types_[v] == arg(i, n), "carries ", to_string(arg(i, n)), " as %", v, " of type ", to_string(types_[v]));
    result(i, n, arg(i, n));
  }
}

void Verifier::branch(const Inst& i) {
  check(i.bodies.size() == 2, "has ", i.bodies.size(), " bodies");
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
  for (const Body& side : i.bodies) {
    check(side.params.empty(), "a side has parameters");
    check(side.results.size() == i.results.size(), "gives ", i.results.size(), " results, a side gives ",
          side.results.size());
    body(side);
    for (size_t n = 0; n < side.results.size(); ++n) result(i, n, types_[side.results[n]]);
  }
}

void Verifier::reduction(const Inst& i) {
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
}

void Verifier::scan(const Inst& i) {
  check(i.reducer != nullptr, "has no reducer");
  size_t width = i.reducer->width();
  check(width > 0, "reducer of no values");
  counts(i, 2 * width, 2 * width);
  reducer(i, width);
  for (size_t n = 0; n < width; ++n) {
    check(arg(i, n).shape == arg(i, 0).shape, "operands have different shapes");
    Type total = reduced_type(arg(i, n), i.axis, kernel_.level);
    check(arg(i, width + n) == total, "starts from ", to_string(arg(i, width + n)), ", not from ", to_string(total));
    result(i, n, arg(i, n));
    result(i, width + n, total);
  }
  access(i, arg(i, 0).shape, !i.guard.is_const(1));
}

void Verifier::transpose(const Inst& i) {
  check(kernel_.level == Level::Thread, "transpose at tile level");
  auto lanes = static_cast<int64_t>(i.args.size());
  check(lanes >= 2 && (lanes & (lanes - 1)) == 0, "transposes ", lanes, " vectors");
  counts(i, i.args.size(), i.args.size());
  for (size_t n = 0; n < i.args.size(); ++n) {
    check(arg(i, n) == Type{arg(i, 0).dtype, {lanes}}, "operand ", to_string(arg(i, n)), " among ", lanes);
    result(i, n, arg(i, 0));
  }
}

// The rules of each op.
void Verifier::operation(const Inst& i) {
  const bool many_threads = kernel_.level == Level::Thread && kernel_.threads > 1;
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
    case Op::reduce: reduction(i); break;
    case Op::scan: scan(i); break;
    case Op::dot:
      check(kernel_.level == Level::Tile, "dot at thread level");
      counts(i, 3, 1);
      result(i, 0, dot_type(arg(i, 0), arg(i, 1), arg(i, 2), i.axis));
      access(i, dot_dims(arg(i, 0), arg(i, 1)), !i.guard.is_const(1));
      break;
    case Op::panel_dot: panel_dot(i); break;
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
      check(many_threads && kernel_.warp == kWarpLanes && kernel_.threads % kWarpLanes == 0, name(i.op),
            " needs whole warps of ", kWarpLanes, " threads");
      i.op == Op::mma ? mma(i) : load_matrix(i);
      break;
    case Op::packed_dot:
      check(kernel_.level == Level::Thread, "packed_dot at tile level");
      counts(i, 3, 1);
      result(i, 0, packed_dot_type(arg(i, 0), arg(i, 1), arg(i, 2)));
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
      check(i.immediate >= 0 && i.immediate < kernel_.warp, "lane mask ", i.immediate, " is outside the warp");
      result(i, 0, arg(i, 0));
      break;
    case Op::transpose: transpose(i); break;
    default: {
      check(is_scalar_op(i.op), "unknown op ", static_cast<int>(i.op));
      counts(i, info(scalar_op(i.op)).arity, 1);
      SmallVector<Type, 3> types;
      for (Value v : i.args) types.push_back(types_[v]);
      result(i, 0, elementwise_type(scalar_op(i.op), types));
    }
  }
}

void Verifier::inst(const Inst& i) {
  for (Value v : i.args) use(v);
  check(i.binds.size() <= i.args.size(), "has more bound variables than operands");
  bool accesses = i.op == Op::index || i.op == Op::load || i.op == Op::store || i.op == Op::combine ||
                  i.op == Op::check || i.op == Op::reduce || i.op == Op::scan || i.op == Op::dot || i.op == Op::branch;
  check(accesses || (i.binds.empty() && i.coords.empty()), "has coordinates or bound variables");
  check(i.op != Op::branch || i.coords.empty(), "has coordinates");
  check(i.hint != Hint::Prefetch || i.op == Op::load, "prefetches without loading");
  check(i.panels.empty() == (i.op != Op::panel_dot && i.op != Op::copy), "has panels or lacks them");
  check(i.regions.empty() || i.op == Op::matrix_dot || i.op == Op::matrix_store || i.op == Op::warp_dot,
        "has matrices");
  for (const Region& r : i.regions) check(!r.is_gathered() || i.op == Op::warp_dot, "has gathered matrices");
  check(i.bodies.empty() || i.op == Op::loop || i.op == Op::branch, "has bodies");
  for (Value v : i.results) define(v);
  // Results are visible only to what follows: hide them while the bodies inside are checked.
  for (Value v : i.results) visible_[v] = false;
  try {
    operation(i);
  } catch (const InternalError& e) {
    std::string what = e.what();
    if (what.starts_with("kernel @")) throw;
    check(false, what);
  }
  for (Value v : i.results) visible_[v] = true;
}

void verify(const Kernel& kernel) { Verifier(kernel, kernel.values).kernel(); }

}  // namespace heddle::kernel
