// Kernels, and parts of them, as words of a Structure.
#pragma once

#include "expr/structure.h"
#include "kernel/ir.h"

namespace heddle::kernel {

// Everything but names. Values are known by the order of their appearance, variables as ExprWriter says.
Structure structure(const Kernel& kernel);
Structure structure(const Reducer& reducer);

// Scoped: a variable that two instructions declare stands for something else in each. Shared: it is the same.
enum class Variables { Scoped, Shared };

// Writes parts one after the other; `types` are those of the values in them.
class StructureWriter {
 public:
  StructureWriter(Structure& to, std::span<const Type> types, Variables variables)
      : words_(to.words), exprs_(to), types_(types), variables_(variables), numbers_(types.size(), kUnseen) {}

  void word(uint64_t w) { words_.push_back(w); }
  void write(const Expr& e) { exprs_.write(e); }
  template <class List>
  void exprs(const List& list) {
    word(list.size());
    for (const Expr& e : list) write(e);
  }
  template <class List>
  void declare(const List& list) {
    word(list.size());
    for (const Expr& var : list) declare(var);
  }
  void declare(const Expr& var) { variables_ == Variables::Scoped ? exprs_.declare(var) : exprs_.write(var); }
  void values(std::span<const Value> list);
  void write(const Scalar& scalar);
  void write(const Buffer& buffer);
  void write(const Body& body);
  void write(const std::shared_ptr<const Reducer>& reducer);  // may be null

 private:
  static constexpr uint64_t kUnseen = ~uint64_t{0};
  void write(const Type& type);
  void write(const Inst& inst);
  void write(const Panel& panel);
  void write(const Region& region);

  std::vector<uint64_t>& words_;
  ExprWriter exprs_;
  std::span<const Type> types_;
  const Variables variables_;
  std::vector<uint64_t> numbers_;  // of values
  uint64_t next_ = 0;
};

}  // namespace heddle::kernel
