// Reads what print() writes: instructions.
#include <functional>

#include "kernel/parser.h"
#include "kernel/types.h"

namespace heddle::kernel {

void Parser::parse_inst(Body& code, std::vector<Type>& values) {
  Inst inst;
  // Results get their numbers now, in the order of the text, but their names only after the operands are read.
  std::vector<std::string> names;
  if (peek() == '%') {
    do {
      expect('%');
      names.push_back(word("the name of a value"));
      inst.results.push_back(static_cast<Value>(values.size()));
      values.emplace_back();
    } while (accept(','));
    expect('=');
  }
  parse_operation(inst, values);
  for (size_t i = 0; i < names.size(); ++i) {
    if (values_.find(names[i])) fail(heddle::text("value %", names[i], " is already defined"));
    values_.add(names[i], inst.results[i]);
  }
  code.insts.push_back(std::move(inst));
}

Type Parser::type_after_colon() {
  expect(':');
  return type();
}

void Parser::parse_operation(Inst& inst, std::vector<Type>& values) {
  size_t at = (skip_space(), pos_);
  std::string op = word("an instruction");
  auto access_span = [&] {
    expect('[');
    Span s = span();
    expect(']');
    return s;
  };
  if (std::optional<ScalarOp> scalar = find_op(op)) {
    inst.op = from(*scalar);
    uses(inst.args);
    SmallVector<Type, 3> types;
    for (Value v : inst.args) types.push_back(values[v]);
    set_types(inst, values, {elementwise_type(*scalar, types)});
  } else if (op == "constant") {
    // The dtype follows the literal: find it first, then read the literal.
    inst.op = Op::constant;
    size_t start = pos_;
    while (pos_ < text_.size() && text_[pos_] != ':' && text_[pos_] != '\n') ++pos_;
    Type t = type_after_colon();
    size_t end = pos_;
    pos_ = start;
    inst.literal = literal(t.dtype);
    expect(':');
    pos_ = end;
    set_types(inst, values, {t});
  } else if (op == "cast" || op == "bitcast") {
    inst.op = op == "cast" ? Op::cast : Op::bitcast;
    inst.args = {use()};
    set_types(inst, values, {type_after_colon()});
  } else if (op == "index" || op == "load") {
    inst.op = op == "index" ? Op::index : Op::load;
    if (inst.op == Op::load) inst.buffer = buffer();
    Span address = inst.op == Op::load ? access_span() : span();
    Tail tail = parse_tail();
    Type t = type_after_colon();
    finish_access(inst, t.shape, address, tail);
    set_types(inst, values, {t});
  } else if (op == "store" || op == "combine" || op == "check") {
    inst.op = op == "store" ? Op::store : op == "check" ? Op::check : Op::combine;
    std::optional<ScalarOp> simple;
    if (inst.op == Op::combine) inst.reducer = parse_reducer(simple);
    inst.buffer = buffer();
    Span address = access_span();
    expect(',');
    inst.args = {use()};
    const Type& t = values[inst.args[0]];
    if (simple) inst.reducer = simple_reducer(*simple, t.dtype);
    finish_access(inst, t.shape, address, parse_tail());
    set_types(inst, values, {});
  } else if (op == "reduce" || op == "scan" || op == "dot") {
    parse_reduction(op, at, inst, values);
  } else if (op == "loop") {
    parse_loop(inst, values);
  } else if (op == "branch") {
    parse_branch(inst, values);
  } else if (op == "barrier") {
    inst.op = Op::barrier;
    set_types(inst, values, {});
  } else if (op == "shuffle_xor") {
    inst.op = Op::shuffle_xor;
    inst.args = {use()};
    expect(',');
    inst.immediate = integer<int>(0, 1 << 20);
    set_types(inst, values, {Type(values[inst.args[0]])});
  } else if (op == "transpose") {
    inst.op = Op::transpose;
    uses(inst.args);
    if (inst.results.size() != inst.args.size()) fail_at(at, "transpose gives one result for each of its operands");
    for (Value v : inst.results) values[v] = Type(values[inst.args[0]]);
  } else if (!parse_matrix_operation(op, at, inst, values)) {
    fail_at(at, heddle::text("unknown instruction '", op, "'"));
  }
}

void Parser::parse_reduction(const std::string& op, size_t at, Inst& inst, std::vector<Type>& values) {
  inst.op = op == "reduce" ? Op::reduce : op == "scan" ? Op::scan : Op::dot;
  std::optional<ScalarOp> simple;
  if (inst.op != Op::dot) inst.reducer = parse_reducer(simple);
  uses(inst.args);
  expect_word("axis");
  inst.axis = static_cast<int16_t>(integer<int>(0, 100));
  if (simple) inst.reducer = simple_reducer(*simple, values[inst.args[0]].dtype);
  if (inst.op == Op::dot) {
    if (inst.args.size() != 3) fail_at(at, "dot takes three values");
    Type result = dot_type(values[inst.args[0]], values[inst.args[1]], values[inst.args[2]], inst.axis);
    finish_access(inst, dot_dims(values[inst.args[0]], values[inst.args[1]]), std::nullopt, parse_tail());
    set_types(inst, values, {result});
  } else {
    if (inst.results.size() != inst.args.size())
      fail_at(at, heddle::text(op, " gives one result for each of its operands"));
    // The first half of what a scan takes and gives are tiles as they are, the second half are reduced ones.
    size_t tiles = inst.op == Op::scan ? inst.args.size() / 2 : 0;
    for (size_t i = 0; i < tiles; ++i) values[inst.results[i]] = Type(values[inst.args[i]]);
    for (size_t i = tiles; i < inst.args.size(); ++i)
      values[inst.results[i]] = reduced_type(values[inst.args[i - tiles]], inst.axis, kernel_.level);
    const Dims dims = values[inst.args[0]].shape;
    finish_access(inst, dims, std::nullopt, parse_tail());
  }
}

// What matrix units do, and copies for them. False: it is none of these.
bool Parser::parse_matrix_operation(const std::string& op, size_t at, Inst& inst, std::vector<Type>& values) {
  if (op == "panel_dot") {
    inst.op = Op::panel_dot;
    for (int i = 0; i < 3; ++i) {
      if (i > 0) expect(',');
      Panel& panel = inst.panels.emplace_back(place());
      expect_word("stride");
      panel.stride = integer<int64_t>(0, INT64_MAX);
      if (i > 0) {
        expect_word("step");
        panel.step = integer<int64_t>(0, INT64_MAX);
      }
    }
    expect_word("steps");
    inst.extent = expression(span());
    if (accept_word("if")) inst.guard = expression(span());
    set_types(inst, values, {});
  } else if (op == "matrix_dot") {
    inst.op = Op::matrix_dot;
    expect_word("pipeline");
    inst.immediate = integer<int>(1, 1 << 10);
    expect_word("after");
    expect('(');
    inst.address = expression(span());
    expect(')');
    if (accept_word("through")) inst.buffer = buffer();
    if (accept_word("adds")) uses(inst.args);
    factors(inst, inst.args.size() > inst.results.size() ? 1 : 2);
    Type t = type_after_colon();
    for (Value v : inst.results) values[v] = t;
  } else if (op == "warp_dot") {
    inst.op = Op::warp_dot;
    expect_word("pipeline");
    inst.immediate = integer<int>(1, 1 << 10);
    factors(inst, 2);
    set_types(inst, values, {type_after_colon()});
  } else if (op == "copy") {
    inst.op = Op::copy;
    for (int i = 0; i < 2; ++i) {
      if (i > 0) expect(',');
      inst.panels.push_back(place());
    }
    expect_word("first");
    inst.extent = expression(span());
    if (accept_word("if")) inst.guard = expression(span());
    set_types(inst, values, {});
  } else if (op == "copy_fence") {
    inst.op = Op::copy_fence;
    inst.immediate = integer<int>(0, 1 << 10);
    set_types(inst, values, {});
  } else if (op == "load_matrix") {
    inst.op = Op::load_matrix;
    inst.buffer = buffer();
    expect('[');
    inst.address = expression(span());
    expect(']');
    inst.axis = accept_word("transposed") ? 1 : 0;
    set_types(inst, values, {fragment_type(kernel_.buffers[static_cast<size_t>(inst.buffer)].dtype)});
  } else if (op == "mma") {
    inst.op = Op::mma;
    uses(inst.args);
    if (inst.args.size() != 6 || inst.results.size() != 4) fail_at(at, "mma takes six values and gives four");
    for (size_t i = 0; i < 4; ++i) values[inst.results[i]] = Type(values[inst.args[i + 2]]);
  } else if (op == "matrix_store") {
    inst.op = Op::matrix_store;
    if (accept_word("through")) inst.buffer = buffer();
    inst.regions.push_back(region());
    expect(',');
    uses(inst.args);
    set_types(inst, values, {});
  } else if (op == "packed_dot") {
    inst.op = Op::packed_dot;
    uses(inst.args);
    if (inst.args.size() != 3) fail_at(at, "packed_dot takes three values");
    set_types(inst, values, {packed_dot_type(values[inst.args[0]], values[inst.args[1]], values[inst.args[2]])});
  } else {
    return false;
  }
  return true;
}

// %b[address]
Panel Parser::place() {
  Panel panel;
  panel.buffer = buffer();
  expect('[');
  panel.address = expression(span());
  expect(']');
  return panel;
}

void Parser::factors(Inst& inst, size_t count) {
  expect_word("steps");
  expect('(');
  const size_t variables = variables_.mark();
  inst.var = index_variable();
  inst.extent = extent_;
  expect(')');
  while (inst.regions.size() < count) inst.regions.push_back(region());
  variables_.restore(variables);
}

// %b[offset] of (extents) by (strides) at (corner), or %b gathers (x < extent, y < extent) [address if guard] at
// (corner)
Region Parser::region() {
  Region r;
  r.buffer = buffer();
  auto list = [&](const char* word, const std::function<void()>& item) {
    expect_word(word);
    expect('(');
    do item();
    while (accept(','));
    expect(')');
  };
  auto address = [&] {
    expect('[');
    r.offset = expression(span());
    if (r.is_gathered() && accept_word("if")) r.guard = expression(span());
    expect(']');
  };
  if (accept_word("gathers")) {
    const size_t variables = variables_.mark();
    expect('(');
    do {
      r.coords.push_back(index_variable());
      r.extents.push_back(extent_);
    } while (accept(','));
    expect(')');
    address();
    variables_.restore(variables);
    list("at", [&] { r.at.push_back(expression(span())); });
    r.transposed = accept_word("transposed");
    return r;
  }
  address();
  list("of", [&] { r.extents.push_back(expression(span())); });
  list("by", [&] { r.strides.push_back(integer<int64_t>(0, INT64_MAX)); });
  list("at", [&] { r.at.push_back(expression(span())); });
  r.transposed = accept_word("transposed");
  r.stays = accept_word("stays");
  return r;
}

void Parser::parse_loop(Inst& inst, std::vector<Type>& values) {
  inst.op = Op::loop;
  size_t variables = variables_.mark(), names = values_.mark();
  inst.var = index_variable();
  inst.extent = extent_;
  Body body;
  if (accept_word("carry")) {
    expect('(');
    do {
      Value param = define(values);
      expect('=');
      Value init = use();
      if (init == param) fail("a carried value cannot start as itself");
      values[param] = Type(values[init]);
      body.params.push_back(param);
      inst.args.push_back(init);
    } while (accept(','));
    expect(')');
  }
  if (accept_word("unroll")) inst.immediate = integer<int>(0, 1 << 20);
  if (inst.results.size() != inst.args.size()) fail("a loop gives one result for each carried value");
  for (size_t i = 0; i < inst.args.size(); ++i) values[inst.results[i]] = Type(values[inst.args[i]]);
  expect('{');
  parse_body(body, values);
  variables_.restore(variables);
  values_.restore(names);
  inst.bodies.push_back(std::move(body));
}

void Parser::parse_branch(Inst& inst, std::vector<Type>& values) {
  inst.op = Op::branch;
  Span guard = span();
  Tail tail = parse_tail();
  if (tail.guard || tail.hint != Hint::None) fail("a branch has one condition and no hint");
  tail.guard = guard;
  finish_access(inst, {}, {}, tail);
  Body then, otherwise;
  expect('{');
  parse_body(then, values);
  if (accept_word("else")) {
    expect('{');
    parse_body(otherwise, values);
  }
  if (inst.results.size() != then.results.size()) fail("a branch gives what its bodies yield");
  for (size_t i = 0; i < then.results.size(); ++i) values[inst.results[i]] = Type(values[then.results[i]]);
  inst.bodies.push_back(std::move(then));
  inst.bodies.push_back(std::move(otherwise));
}

// A simple reducer is given as its op; its dtype follows later.
std::shared_ptr<const Reducer> Parser::parse_reducer(std::optional<ScalarOp>& simple) {
  if (peek() != '{') {
    size_t at = (skip_space(), pos_);
    std::string name = word("a reducer");
    simple = find_op(name);
    if (!simple || info(*simple).arity != 2) fail_at(at, heddle::text("'", name, "' is no reducer"));
    return nullptr;
  }
  expect('{');
  auto reducer = std::make_shared<Reducer>();
  Scope<Value> outer = std::move(values_);
  values_ = {};
  expect('(');
  do {
    Value v = define(reducer->values);
    expect(':');
    reducer->values[v] = type();
    reducer->combine.params.push_back(v);
  } while (accept(','));
  expect(')');
  parse_body(reducer->combine, reducer->values);
  values_ = std::move(outer);
  expect_word("identity");
  expect('(');
  do {
    if (reducer->identity.size() >= reducer->combine.params.size()) fail("more identities than parameters");
    reducer->identity.push_back(literal(reducer->values[reducer->combine.params[reducer->identity.size()]].dtype));
  } while (accept(','));
  expect(')');
  return reducer;
}

Parser::Tail Parser::parse_tail() {
  Tail tail;
  if (accept_word("with")) do {
      Tail::Bind bind;
      size_t at = (skip_space(), pos_);
      bind.name = word("the name of a bound variable");
      if (bind.name != "v" + std::to_string(tail.binds.size()))
        fail_at(at, heddle::text("expected v", tail.binds.size()));
      if (accept('<')) {
        bind.is_index = true;
        bind.extent = span();
      } else if (accept_word("in")) {
        expect('[');
        bind.lo = integer<int64_t>(INT64_MIN, INT64_MAX - 1);
        expect(',');
        bind.hi = integer<int64_t>(bind.lo, INT64_MAX - 1);
        expect(']');
        if (accept_word("multiple")) bind.multiple = integer<int64_t>(1, INT64_MAX);
      } else {
        bind.lo = -(int64_t{1} << 62);
        bind.hi = int64_t{1} << 62;
      }
      expect('=');
      bind.value = use();
      tail.binds.push_back(std::move(bind));
    } while (accept(','));
  if (accept_word("if")) tail.guard = span();
  if (accept_word("stream")) tail.hint = Hint::Stream;
  if (accept_word("prefetch")) {
    tail.hint = Hint::Prefetch;
    tail.distance = integer<int32_t>(INT32_MIN, INT32_MAX);
  }
  return tail;
}

void Parser::finish_access(Inst& inst, const Dims& dims, const std::optional<Span>& address, const Tail& tail) {
  inst.hint = tail.hint;
  if (tail.hint == Hint::Prefetch) inst.immediate = tail.distance;
  size_t variables = variables_.mark();
  if (address || tail.guard)
    for (size_t i = 0; i < dims.size(); ++i) {
      std::string name = "d" + std::to_string(i);
      inst.coords.push_back(Expr::index(name, dims[i]));
      variables_.add(name, inst.coords.back());
    }
  for (const Tail::Bind& bind : tail.binds) {
    Expr var = bind.is_index ? Expr::index(bind.name, expression(bind.extent))
                             : Expr::symbol(bind.name, bind.lo, bind.hi, bind.multiple);
    inst.binds.push_back(var);
    inst.args.push_back(bind.value);
    variables_.add(bind.name, var);
  }
  if (address) inst.address = expression(*address);
  if (tail.guard) inst.guard = expression(*tail.guard);
  variables_.restore(variables);
}

}  // namespace heddle::kernel
