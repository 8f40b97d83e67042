// The state of verify(), and its rules. Private to verify*.cpp.
#pragma once

#include <algorithm>

#include "base/error.h"
#include "kernel/text.h"
#include "kernel/types.h"

namespace heddle::kernel {

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
  void body(const Body& b);
  void inst(const Inst& i);
  void operation(const Inst& i);
  void reduction(const Inst& i);
  void scan(const Inst& i);
  void transpose(const Inst& i);
  void access(const Inst& i, const Dims& dims, bool coords_needed);
  void buffer(const Inst& i, DType dtype) const;
  void reducer(const Inst& i, size_t width);
  void panel_dot(const Inst& i);
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

}  // namespace heddle::kernel
