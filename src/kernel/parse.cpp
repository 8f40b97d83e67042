// Reads what print() writes. Recursive descent over characters; expressions are cut out as spans and handed to
// parse_expr() once the variables they may use are known (a load's coordinates follow from its type, at the end).
// White space does not matter, except that an expression ends with its line. '#' starts a comment.
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <map>

#include "base/error.h"
#include "core/dtype.h"
#include "kernel/text.h"
#include "kernel/text_cursor.h"
#include "kernel/types.h"

namespace heddle::kernel {
namespace {

constexpr int kMaxDepth = 100;             // of blocks, and of parentheses and negations in an expression
constexpr int64_t kMaxElements = 1 << 30;  // of a tile

// A piece of the text, with its place for messages.
struct Span {
  size_t begin = 0, end = 0;
};

// Names in scope, the innermost last.
template <class T>
class Scope {
 public:
  const T* find(std::string_view name) const {
    auto it = entries_.find(name);
    return it == entries_.end() ? nullptr : &it->second;
  }
  void add(const std::string& name, const T& value) {
    entries_.emplace(name, value);
    order_.push_back(name);
  }
  size_t mark() const { return order_.size(); }
  void restore(size_t mark) {
    while (order_.size() > mark) {
      entries_.erase(order_.back());
      order_.pop_back();
    }
  }

 private:
  std::map<std::string, T, std::less<>> entries_;
  std::vector<std::string> order_;
};

class Parser : TextCursor {
 public:
  explicit Parser(std::string_view text) : TextCursor(text) {}

  Kernel kernel() {
    try {
      parse_kernel();
    } catch (const ParseError&) {
      throw;
    } catch (const Error& e) {  // a rule of types or expressions that the text breaks
      fail(e.what());
    }
    return std::move(kernel_);
  }

 private:
  // The guard, bound variables and hint behind an access, not yet read.
  struct Tail {
    struct Bind {
      std::string name;
      bool is_index = false;
      Span extent;
      int64_t lo = 0, hi = 0, multiple = 1;
      Value value = kNoValue;
    };
    std::vector<Bind> binds;
    std::optional<Span> guard;
    Hint hint = Hint::None;
    int32_t ahead = 0;
  };

  // Expressions.
  Span span();
  Region region();
  Expr expression(const Span& s);
  std::string new_variable_name() {
    size_t at = (skip_space(), pos_);
    std::string name = word("the name of a variable");
    bool malformed = name.find('.') != std::string::npos || std::isdigit(static_cast<unsigned char>(name[0]));
    if (malformed || is_reserved_name(name) || variables_.find(name))
      fail_at(at, heddle::text("'", name, "' cannot be a new variable's name"));
    return name;
  }
  // name < extent
  Expr index_variable() {
    std::string name = new_variable_name();
    expect('<');
    Expr extent = expression(span());
    Expr var = Expr::index(name, extent);
    variables_.add(name, var);
    extent_ = extent;
    return var;
  }

  // Values and types.
  Value define(std::vector<Type>& values) {
    expect('%');
    std::string name = word("the name of a value");
    if (values_.find(name)) fail(heddle::text("value %", name, " is already defined"));
    Value v = static_cast<Value>(values.size());
    values.emplace_back();
    values_.add(name, v);
    return v;
  }
  Value use() {
    size_t at = (skip_space(), pos_);
    expect('%');
    std::string name = word("the name of a value");
    const Value* v = values_.find(name);
    if (!v) fail_at(at, heddle::text("unknown value %", name));
    return *v;
  }
  template <class List>
  void uses(List& list) {
    do list.push_back(use());
    while (accept(','));
  }
  int buffer() {
    size_t at = (skip_space(), pos_);
    expect('%');
    std::string name = word("the name of a buffer");
    for (size_t i = 0; i < kernel_.buffers.size(); ++i)
      if (kernel_.buffers[i].name == name) return static_cast<int>(i);
    fail_at(at, heddle::text("unknown buffer %", name));
  }
  DType dtype() {
    size_t at = (skip_space(), pos_);
    std::string name = word("a dtype");
    try {
      return dtype_from_name(name);
    } catch (const Error&) {
      fail_at(at, heddle::text("unknown dtype '", name, "'"));
    }
  }
  Type type();
  Scalar literal(DType dtype);

  // Program structure.
  void parse_kernel();
  void parse_symbols();
  void parse_buffer();
  void parse_phase();
  void parse_block(Block& block, std::vector<Type>& values);
  void parse_inst(Block& block, std::vector<Type>& values);
  void parse_operation(Inst& inst, std::vector<Type>& values);
  void parse_loop(Inst& inst, std::vector<Type>& values);
  void parse_branch(Inst& inst, std::vector<Type>& values);
  std::shared_ptr<const Reducer> parse_reducer(std::optional<ScalarOp>& simple);
  Tail parse_tail();
  // Makes the coordinates and bound variables, then reads the address and the guard.
  void finish_access(Inst& inst, const Dims& dims, const std::optional<Span>& address, const Tail& tail);
  void set_types(const Inst& inst, std::vector<Type>& values, std::initializer_list<Type> types) {
    if (inst.results.size() != types.size())
      fail(heddle::text(kernel::name(inst.op), " gives ", types.size(), " results, not ", inst.results.size()));
    size_t i = 0;
    for (const Type& t : types) values[inst.results[i++]] = t;
  }

  int depth_ = 0;
  Kernel kernel_;
  Expr extent_;  // of the last index_variable()
  Scope<Expr> variables_;
  Scope<Value> values_;
  std::vector<std::pair<size_t, Span>> sizes_;  // of buffers, read when the symbols are known
};

Span Parser::span() {
  skip_space();
  Span s{pos_, pos_};
  int depth = 0, questions = 0, negations = 0;
  while (pos_ < text_.size()) {
    char c = text_[pos_];
    char next = pos_ + 1 < text_.size() ? text_[pos_ + 1] : '\0';
    if (c == '\n' || c == '{' || c == '}' || c == '#' || c == ']') break;
    if (std::isalpha(static_cast<unsigned char>(c)) || c == '_') {
      std::string_view found = peek_word();
      if (found == "if" || found == "with" || found == "stream" || found == "carry" || found == "unroll" ||
          found == "ahead")
        break;
      pos_ += found.size();
      continue;
    }
    if ((c == '<' || c == '>' || c == '!' || c == '=') && next == '=') {
      pos_ += 2;
      continue;
    }
    if (c == '=') break;
    if (c == '!')
      ++negations;
    else if (c != ' ' && c != '\t')
      negations = 0;
    if (c == '(') ++depth;
    if (depth > kMaxDepth || negations > kMaxDepth) fail("expression too deep");
    if (c == ')' && depth-- == 0) break;
    if (c == ',' && depth == 0) break;
    if (c == '?') ++questions;
    if (c == ':' && questions-- == 0) break;
    ++pos_;
  }
  s.end = pos_;
  return s;
}

Expr Parser::expression(const Span& s) {
  try {
    return parse_expr(text_.substr(s.begin, s.end - s.begin), [&](const std::string& name) {
      const Expr* e = variables_.find(name);
      if (!e) throw ParseError(heddle::text("unknown variable '", name, "'"));
      return *e;
    });
  } catch (const Error& e) {
    fail_at(s.begin, heddle::text("in the expression '", text_.substr(s.begin, s.end - s.begin), "': ", e.what()));
  }
}

Type Parser::type() {
  Type out;
  std::string_view found = peek_word();
  if (found != "tile" && found != "vec") {
    out.dtype = dtype();
    return out;
  }
  pos_ += found.size();
  expect('<');
  skip_space();
  while (std::isdigit(static_cast<unsigned char>(peek()))) {
    out.shape.push_back(integer<int64_t>(1, kMaxElements));
    expect('x');
    if (out.shape.size() > 16 || out.numel() > kMaxElements) fail("tile too large");
  }
  if (out.shape.empty()) fail("expected a dimension");
  out.dtype = dtype();
  expect('>');
  return out;
}

Scalar Parser::literal(DType dtype) {
  size_t at = (skip_space(), pos_);
  size_t end = pos_;
  while (end < text_.size() && (is_name_char(text_[end]) || text_[end] == '-' || text_[end] == '+')) ++end;
  std::string word(text_.substr(pos_, end - pos_));
  const char* last = word.data() + word.size();
  pos_ = end;
  if (dtype == DType::boolean && (word == "true" || word == "false")) return Scalar::of(dtype, word == "true");
  if (is_float(dtype) && !word.empty()) {
    char* stop = nullptr;
    // Through the dtype's own width: shortest decimals of an f32 are not those of an f64.
    double value = dtype == DType::f32 ? std::strtof(word.c_str(), &stop) : std::strtod(word.c_str(), &stop);
    if (stop == last) return Scalar::of(dtype, value);
  } else if (is_signed(dtype)) {
    int64_t value = 0;
    auto result = std::from_chars(word.data(), last, value);
    if (result.ec == std::errc() && result.ptr == last && Scalar::of(dtype, value).as_int() == value)
      return Scalar::of(dtype, value);
  } else {
    uint64_t value = 0;
    auto result = std::from_chars(word.data(), last, value);
    if (result.ec == std::errc() && result.ptr == last && Scalar::of(dtype, value).u == value)
      return Scalar::of(dtype, value);
  }
  fail_at(at, heddle::text("expected a value of ", heddle::name(dtype)));
}

void Parser::parse_symbols() {
  expect('(');
  do {
    std::string name = new_variable_name();
    expect_word("in");
    expect('[');
    int64_t lo = any_integer();
    expect(',');
    int64_t hi = integer<int64_t>(lo, INT64_MAX);
    expect(']');
    int64_t multiple = accept_word("multiple") ? integer<int64_t>(1, INT64_MAX) : 1;
    Expr symbol = Expr::symbol(name, lo, hi, multiple);
    variables_.add(name, symbol);
    kernel_.symbols.push_back(symbol);
  } while (accept(','));
  expect(')');
}

void Parser::parse_buffer() {
  Buffer b;
  if (accept_word("in"))
    b.space = Space::In;
  else if (accept_word("out"))
    b.space = Space::Out;
  else if (accept_word("inout"))
    b.space = Space::InOut;
  else if (accept_word("temp"))
    b.space = Space::Temp;
  else if (accept_word("local"))
    b.space = Space::Local;
  else
    fail("expected in, out, inout, temp or local");
  expect('%');
  b.name = word("the name of a buffer");
  for (const Buffer& other : kernel_.buffers)
    if (other.name == b.name) fail(heddle::text("buffer %", b.name, " is already defined"));
  expect(':');
  b.dtype = dtype();
  expect('[');
  sizes_.emplace_back(kernel_.buffers.size(), span());
  expect(']');
  kernel_.buffers.push_back(std::move(b));
}

void Parser::parse_kernel() {
  if (accept_word("kernel.thread"))
    kernel_.level = Level::Thread;
  else
    expect_word("kernel");
  expect('@');
  kernel_.name = word("the kernel's name");
  expect('(');
  if (!accept(')')) {
    do parse_buffer();
    while (accept(','));
    expect(')');
  }
  if (accept_word("symbols")) parse_symbols();
  kernel_.rounds = accept_word("rounds");
  if (accept_word("threads")) kernel_.threads = integer<int>(1, 1 << 20);
  if (accept_word("thread")) {
    std::string name = new_variable_name();
    kernel_.thread = Expr::index(name, kernel_.threads);
    variables_.add(name, kernel_.thread);
  }
  expect('{');
  while (peek_word() == "local" || peek_word() == "temp") parse_buffer();
  for (const auto& [buffer, size] : sizes_) kernel_.buffers[buffer].size = expression(size);
  while (accept_word("phase")) parse_phase();
  if (!accept('}')) fail("expected 'phase' or '}'");
  if (peek() != '\0') fail("expected the end of the text");
}

void Parser::parse_phase() {
  Phase phase;
  size_t variables = variables_.mark(), values = values_.mark();
  expect_word("grid");
  expect('(');
  if (!accept(')')) {
    do phase.cells.push_back(index_variable());
    while (accept(','));
    expect(')');
  }
  expect('{');
  parse_block(phase.body, kernel_.values);
  variables_.restore(variables);
  values_.restore(values);
  kernel_.phases.push_back(std::move(phase));
}

// After its '{', up to and including its '}'.
void Parser::parse_block(Block& block, std::vector<Type>& values) {
  if (++depth_ > kMaxDepth) fail("blocks nested too deep");
  size_t values_mark = values_.mark();
  while (peek() != '}') {
    if (accept_word("yield")) {
      uses(block.results);
      if (peek() != '}') fail("expected '}' after yield");
      break;
    }
    parse_inst(block, values);
  }
  expect('}');
  values_.restore(values_mark);
  --depth_;
}

void Parser::parse_inst(Block& block, std::vector<Type>& values) {
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
  block.insts.push_back(std::move(inst));
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
  auto colon_type = [&] {
    expect(':');
    return type();
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
    Type t = colon_type();
    size_t end = pos_;
    pos_ = start;
    inst.literal = literal(t.dtype);
    expect(':');
    pos_ = end;
    set_types(inst, values, {t});
  } else if (op == "cast" || op == "bitcast") {
    inst.op = op == "cast" ? Op::cast : Op::bitcast;
    inst.args = {use()};
    set_types(inst, values, {colon_type()});
  } else if (op == "index" || op == "load") {
    inst.op = op == "index" ? Op::index : Op::load;
    if (inst.op == Op::load) inst.buffer = buffer();
    Span address = inst.op == Op::load ? access_span() : span();
    Tail tail = parse_tail();
    Type t = colon_type();
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
  } else if (op == "block_dot") {
    inst.op = Op::block_dot;
    for (int i = 0; i < 3; ++i) {
      if (i > 0) expect(',');
      Panel panel;
      panel.buffer = buffer();
      expect('[');
      panel.address = expression(span());
      expect(']');
      expect_word("stride");
      panel.stride = integer<int64_t>(0, INT64_MAX);
      if (i > 0) {
        expect_word("step");
        panel.step = integer<int64_t>(0, INT64_MAX);
      }
      inst.panels.push_back(panel);
    }
    expect_word("steps");
    inst.extent = expression(span());
    if (accept_word("if")) inst.guard = expression(span());
    set_types(inst, values, {});
  } else if (op == "matrix_dot") {
    inst.op = Op::matrix_dot;
    expect_word("ahead");
    inst.immediate = integer<int>(1, 1 << 10);
    expect_word("after");
    expect('(');
    inst.address = expression(span());
    expect(')');
    if (accept_word("through")) inst.buffer = buffer();
    expect_word("steps");
    expect('(');
    size_t variables = variables_.mark();
    inst.var = index_variable();
    inst.extent = extent_;
    expect(')');
    for (int i = 0; i < 2; ++i) inst.regions.push_back(region());
    variables_.restore(variables);
    Type t = colon_type();
    for (Value v : inst.results) values[v] = t;
  } else if (op == "matrix_store") {
    inst.op = Op::matrix_store;
    if (accept_word("through")) inst.buffer = buffer();
    inst.regions.push_back(region());
    expect(',');
    uses(inst.args);
    set_types(inst, values, {});
  } else if (op == "word_dot") {
    inst.op = Op::word_dot;
    uses(inst.args);
    if (inst.args.size() != 3) fail_at(at, "word_dot takes three values");
    set_types(inst, values, {word_dot_type(values[inst.args[0]], values[inst.args[1]], values[inst.args[2]])});
  } else if (op == "transpose") {
    inst.op = Op::transpose;
    uses(inst.args);
    if (inst.results.size() != inst.args.size()) fail_at(at, "transpose gives one result for each of its operands");
    for (Value v : inst.results) values[v] = Type(values[inst.args[0]]);
  } else {
    fail_at(at, heddle::text("unknown instruction '", op, "'"));
  }
}

// %b[offset] of (extents) by (strides) at (corner)
Region Parser::region() {
  Region r;
  r.buffer = buffer();
  expect('[');
  r.offset = expression(span());
  expect(']');
  auto list = [&](const char* word, const std::function<void()>& item) {
    expect_word(word);
    expect('(');
    do item();
    while (accept(','));
    expect(')');
  };
  list("of", [&] { r.extents.push_back(expression(span())); });
  list("by", [&] { r.strides.push_back(integer<int64_t>(0, INT64_MAX)); });
  list("at", [&] { r.at.push_back(expression(span())); });
  r.turned = accept_word("turned");
  return r;
}

void Parser::parse_loop(Inst& inst, std::vector<Type>& values) {
  inst.op = Op::loop;
  size_t variables = variables_.mark(), names = values_.mark();
  inst.var = index_variable();
  inst.extent = extent_;
  Block body;
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
  parse_block(body, values);
  variables_.restore(variables);
  values_.restore(names);
  inst.blocks.push_back(std::move(body));
}

void Parser::parse_branch(Inst& inst, std::vector<Type>& values) {
  inst.op = Op::branch;
  Span guard = span();
  Tail tail = parse_tail();
  if (tail.guard || tail.hint != Hint::None) fail("a branch has one condition and no hint");
  tail.guard = guard;
  finish_access(inst, {}, {}, tail);
  Block then, otherwise;
  expect('{');
  parse_block(then, values);
  if (accept_word("else")) {
    expect('{');
    parse_block(otherwise, values);
  }
  if (inst.results.size() != then.results.size()) fail("a branch gives what its blocks yield");
  for (size_t i = 0; i < then.results.size(); ++i) values[inst.results[i]] = Type(values[then.results[i]]);
  inst.blocks.push_back(std::move(then));
  inst.blocks.push_back(std::move(otherwise));
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
  parse_block(reducer->combine, reducer->values);
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
  if (accept_word("ahead")) {
    tail.hint = Hint::Ahead;
    tail.ahead = integer<int32_t>(INT32_MIN, INT32_MAX);
  }
  return tail;
}

void Parser::finish_access(Inst& inst, const Dims& dims, const std::optional<Span>& address, const Tail& tail) {
  inst.hint = tail.hint;
  if (tail.hint == Hint::Ahead) inst.immediate = tail.ahead;
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

}  // namespace

Kernel parse(std::string_view text) { return Parser(text).kernel(); }

}  // namespace heddle::kernel
