// The parser of kernels: private to parse.cpp (kernels, phases, bodies, types, expressions) and parse_inst.cpp
// (instructions).
//
// Recursive descent over characters; expressions are cut out as spans and handed to parse_expr() once the variables
// they may use are known (a load's coordinates follow from its type, at the end). White space does not matter, except
// that an expression ends with its line. '#' starts a comment.
#pragma once

#include <cctype>
#include <map>
#include <optional>

#include "base/error.h"
#include "core/dtype.h"
#include "kernel/ir.h"
#include "kernel/text.h"
#include "kernel/text_cursor.h"

namespace heddle::kernel {

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
    int32_t distance = 0;
  };

  // Expressions.
  Span span();
  Region region();
  Panel place();                           // %buffer[address]
  void factors(Inst& inst, size_t count);  // steps (k < n), then regions that may speak of k
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
  void parse_body(Body& code, std::vector<Type>& values);
  void parse_inst(Body& code, std::vector<Type>& values);
  void parse_operation(Inst& inst, std::vector<Type>& values);
  void parse_reduction(const std::string& op, size_t at, Inst& inst, std::vector<Type>& values);
  bool parse_matrix_operation(const std::string& op, size_t at, Inst& inst, std::vector<Type>& values);
  Type type_after_colon();
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

}  // namespace heddle::kernel
