// NumPy's x[...] in C++.
//
//   Tensor x = arange(12).reshape(3, 4);
//   x(1)                        x[1]
//   x(Slice(1), Slice(0, 4, 2)) x[1:, 0:4:2]
//   x(Ellipsis, -1)             x[..., -1]
//   x(NewAxis)                  x[None]
//   x(rows, columns)            x[rows, columns], integer tensors
//   x(x > 5)                    x[x > 5]
//   x.set({Slice(1), 0}, 7)     x[1:, 0] = 7
//
// Integer tensors broadcast together, and their axes come where the first of them stands; in front, if something else
// stands between them. A number beside a tensor counts as one. An element out of range raises IndexError when the value
// is computed. A bool tensor covers as many axes as it has and must have their sizes: it stands for the positions of
// its true elements, one integer tensor for each axis, and is computed at the call to count them. Without axes it makes
// a new axis: of one element, or of none.
#pragma once

#include <heddle/ops/operand.h>

namespace heddle {

// Python's begin:end:step; without begin or end to the edge. Slice() is the whole axis.
struct Slice {
  std::optional<int64_t> begin, end;
  int64_t step = 1;
  Slice(std::optional<int64_t> from = {}, std::optional<int64_t> to = {}, int64_t by = 1)
      : begin(from), end(to), step(by) {}
};
// As many whole axes as there are places left.
struct EllipsisType {};
inline constexpr EllipsisType Ellipsis{};
// A new axis of size 1.
struct NewAxisType {};
inline constexpr NewAxisType NewAxis{};

// One entry between the brackets.
class Index {
 public:
  enum class Kind { Number, Range, Rest, New, Positions };
  template <std::integral I>
    requires(!std::same_as<I, bool>)
  Index(I number) : kind_(Kind::Number), number_(static_cast<int64_t>(number)) {}
  Index(const Slice& slice) : kind_(Kind::Range), slice_(slice) {}
  Index(EllipsisType) : kind_(Kind::Rest) {}
  Index(NewAxisType) : kind_(Kind::New) {}
  Index(const Tensor& tensor) : kind_(Kind::Positions), tensor_(tensor) {}

  Kind kind() const { return kind_; }
  int64_t number() const { return number_; }
  const Slice& slice() const { return slice_; }
  const Tensor& tensor() const { return *tensor_; }

 private:
  Kind kind_;
  int64_t number_ = 0;
  Slice slice_;
  std::optional<Tensor> tensor_;
};

// @dtypes any; index tensors any integer or bool @shape NumPy's rule

// The same as a function: x.at({...}) and x(...) are other ways to write it.
//   at(arange(6).reshape(2, 3), {Slice(), Slice({}, {}, -1)})            // [[2 1 0] [5 4 3]]
//   at(arange(6).reshape(2, 3), {tensor({1, 0}, kI64), 2})               // [5 2]
Tensor at(const Tensor& x, std::span<const Index> indices);
//   at(tensor({{1, 2}, {3, 4}}), {tensor({{1, 0}, {0, 1}}, kBool)})      // [1. 4.]
Tensor at(const Tensor& x, std::initializer_list<Index> indices);

// @dtypes any; index tensors any integer or bool @shape that of x

// x with `value`, a number or a tensor that broadcasts to the shape of at(x, indices), in those places. It takes the
// dtype of x. Where indices name an element several times, the last value stays. x.set({...}, value) gives x itself
// that value. A mask with the same value for all of its true elements need not be counted.
//   set_at(zeros({2, 3}), {Slice(), Slice(0, 3, 2)}, tensor({1, 2}))     // [[1. 0. 2.] [1. 0. 2.]]
//   set_at(tensor({1, -2, 3}), {tensor({0, 1, 0}, kBool)}, 0)            // [1. 0. 3.]
Tensor set_at(const Tensor& x, std::span<const Index> indices, const Operand& value);
//   set_at(zeros({4}), {tensor({3, 0, 3}, kI64)}, tensor({1, 2, 3}))     // [2. 0. 0. 3.]
Tensor set_at(const Tensor& x, std::initializer_list<Index> indices, const Operand& value);

}  // namespace heddle
