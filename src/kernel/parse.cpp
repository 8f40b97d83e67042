// Reads what print() writes: everything but instructions.
#include <charconv>
#include <cstdlib>

#include "kernel/parser.h"
#include "kernel/types.h"

namespace heddle::kernel {
namespace {

constexpr int kMaxDepth = 100;             // of bodies, and of parentheses and negations in an expression
constexpr int64_t kMaxElements = 1 << 30;  // of a tile

}  // namespace

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
          found == "prefetch")
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
  if (constexpr std::string_view kNan = "nan_0x"; is_float(dtype) && word.starts_with(kNan)) {
    uint64_t bits = 0;
    auto result = std::from_chars(word.data() + kNan.size(), last, bits, 16);
    Scalar value = Scalar::from_bits(dtype, bits);
    if (result.ec == std::errc() && result.ptr == last && value.bits() == bits && value.f != value.f) return value;
  } else if (is_float(dtype) && !word.empty()) {
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
  else if (accept_word("shared"))
    b.space = Space::Shared;
  else
    fail("expected in, out, inout, temp or shared");
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
  if (accept_word("warp")) kernel_.warp = integer<int>(1, 1 << 10);
  if (accept_word("thread")) {
    std::string name = new_variable_name();
    kernel_.thread = Expr::index(name, kernel_.threads);
    variables_.add(name, kernel_.thread);
  }
  expect('{');
  while (peek_word() == "shared" || peek_word() == "temp") parse_buffer();
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
    do phase.blocks.push_back(index_variable());
    while (accept(','));
    expect(')');
  }
  expect('{');
  parse_body(phase.body, kernel_.values);
  variables_.restore(variables);
  values_.restore(values);
  kernel_.phases.push_back(std::move(phase));
}

// After its '{', up to and including its '}'.
void Parser::parse_body(Body& code, std::vector<Type>& values) {
  if (++depth_ > kMaxDepth) fail("bodies nested too deep");
  size_t values_mark = values_.mark();
  while (peek() != '}') {
    if (accept_word("yield")) {
      uses(code.results);
      if (peek() != '}') fail("expected '}' after yield");
      break;
    }
    parse_inst(code, values);
  }
  expect('}');
  values_.restore(values_mark);
  --depth_;
}

Kernel parse(std::string_view text) { return Parser(text).kernel(); }

}  // namespace heddle::kernel
