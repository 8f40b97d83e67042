// Making tensors.
#pragma once

#include <heddle/ops/operand.h>

namespace heddle {

// Numbers in nested braces, as tensor() takes them: `{1, 2}`, `{{1, 2}, {3, 4}}`, or one number.
class Numbers {
 public:
  Numbers() = default;
  Numbers(std::initializer_list<Numbers> list) : list_(list) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  Numbers(T number) : is_list_(false), number_(number) {}

  bool is_list() const { return is_list_; }
  const std::vector<Numbers>& list() const { return list_; }
  const Operand& number() const { return number_; }

 private:
  bool is_list_ = true;
  std::vector<Numbers> list_;
  Operand number_ = 0;
};

// @dtypes any @shape as given

// From the elements row by row; copies. The dtype is T's.
//   from_vector(std::vector<float>{1, 2, 3, 4}, {2, 2})   // [[1. 2.] [3. 4.]]
template <class T>
Tensor from_vector(const std::vector<T>& values, const Dims& shape);
//   const int32_t numbers[] = {7, 8, 9};
//   from_data(numbers, 3)   // [7 8 9]
template <class T>
Tensor from_data(const T* values, const Dims& shape);
// Converted to a dtype, made on a device.
//   from_vector(std::vector<float>{1, 2}, 2, {.device = "cpu"})   // [1. 2.]
template <class T>
Tensor from_vector(const std::vector<T>& values, const Dims& shape, const TensorOptions& options);
//   from_data(std::vector<float>{1, 2}.data(), 2, {.dtype = kI32})   // [1 2]
template <class T>
Tensor from_data(const T* values, const Dims& shape, const TensorOptions& options);
// From numbers in nested braces. An integer dtype must hold them.
//   tensor({1, 2.5})                   // [1.  2.5]
//   tensor({{1, 2}, {3, 4}}, kI32)     // [[1 2] [3 4]]
Tensor tensor(const Numbers& values, DType dtype = kF32);
//   tensor({1, 2}, {.dtype = kI32, .device = "cpu"})   // [1 2]
Tensor tensor(const Numbers& values, const TensorOptions& options);
// A tensor without axes.
//   scalar(2.5)   // 2.5
Tensor scalar(const Operand& value, DType dtype = kF32);
//   scalar(2.5, {.device = "cpu"})   // 2.5
Tensor scalar(const Operand& value, const TensorOptions& options);
// One number everywhere. An integer dtype must hold it.
//   full({2, 2}, 7, kI32)   // [[7 7] [7 7]]
Tensor full(const Dims& shape, const Operand& value, DType dtype = kF32);
//   full(2, 7, {.device = "cpu"})   // [7. 7.]
Tensor full(const Dims& shape, const Operand& value, const TensorOptions& options);
//   zeros(3)   // [0. 0. 0.]
Tensor zeros(const Dims& shape, DType dtype = kF32);
//   zeros(2, {.dtype = kI8, .device = "cpu"})   // [0 0]
Tensor zeros(const Dims& shape, const TensorOptions& options);
//   ones({1, 2}, kI8)   // [[1 1]]
Tensor ones(const Dims& shape, DType dtype = kF32);
//   ones(2, {.device = "cpu"})   // [1. 1.]
Tensor ones(const Dims& shape, const TensorOptions& options);
// For a program that fills the tensor later. The value is zero, which costs nothing before it is computed.
//   empty({2, 0}).shape()   // [2, 0]
Tensor empty(const Dims& shape, DType dtype = kF32);
//   empty(2, {.device = "cpu"}).shape()   // [2]
Tensor empty(const Dims& shape, const TensorOptions& options);
// Of the shape of x, and of its dtype unless another is given.
//   full_like(tensor({1, 2}), 9)   // [9. 9.]
Tensor full_like(const Tensor& x, const Operand& value, std::optional<DType> dtype = {});
//   zeros_like(tensor({1, 2}), kBool)   // [False False]
Tensor zeros_like(const Tensor& x, std::optional<DType> dtype = {});
//   ones_like(tensor({1, 2}))   // [1. 1.]
Tensor ones_like(const Tensor& x, std::optional<DType> dtype = {});
//   empty_like(zeros({2, 3})).shape()   // [2, 3]
Tensor empty_like(const Tensor& x, std::optional<DType> dtype = {});

// @dtypes any but bool @shape [count]

// 0, 1, 2, ... below `end`. Whole numbers give i64, others f32, unless a dtype is given.
//   arange(4)         // [0 1 2 3]
//   arange(3, kF32)   // [0. 1. 2.]
Tensor arange(const Operand& end, std::optional<DType> dtype = {});
//   arange(3, {.device = "cpu"})   // [0 1 2]
Tensor arange(const Operand& end, const TensorOptions& options);
// begin, begin + step, ... as long as they come before `end`. Every element is computed on its own, in i64 or f64.
//   arange(2, 10, 3)     // [2 5 8]
//   arange(1, 0, -0.25)  // [1.   0.75 0.5  0.25]
Tensor arange(const Operand& begin, const Operand& end, const Operand& step = 1, std::optional<DType> dtype = {});
//   arange(1, 3, 1, {.device = "cpu"})   // [1 2]
Tensor arange(const Operand& begin, const Operand& end, const Operand& step, const TensorOptions& options);
// `count` numbers from begin to end, both included; without the last one if `endpoint` is false.
//   linspace(0, 1, 5)   // [0.   0.25 0.5  0.75 1.  ]
Tensor linspace(double begin, double end, int64_t count = 50, bool endpoint = true, DType dtype = kF32);
//   linspace(0, 1, 2, true, {.device = "cpu"})   // [0. 1.]
Tensor linspace(double begin, double end, int64_t count, bool endpoint, const TensorOptions& options);
// base to the powers of linspace.
//   logspace(0, 3, 4)   // [   1.   10.  100. 1000.]
Tensor logspace(double begin, double end, int64_t count = 50, bool endpoint = true, double base = 10,
                DType dtype = kF32);
//   logspace(0, 1, 2, true, 10, {.device = "cpu"})   // [ 1. 10.]
Tensor logspace(double begin, double end, int64_t count, bool endpoint, double base, const TensorOptions& options);

// @dtypes any @shape [n, m]

// Ones where column - row = k. The square of n without m.
//   eye(2)         // [[1. 0.] [0. 1.]]
//   eye(2, 3, 1)   // [[0. 1. 0.] [0. 0. 1.]]
Tensor eye(int64_t n, DType dtype = kF32);
Tensor eye(int64_t n, int64_t m, int64_t k = 0, DType dtype = kF32);
//   eye(1, 2, 0, {.device = "cpu"})   // [[1. 0.]]
Tensor eye(int64_t n, int64_t m, int64_t k, const TensorOptions& options);
// Ones where column - row <= k.
//   tri(2, 3)   // [[1. 0. 0.] [1. 1. 0.]]
Tensor tri(int64_t n, int64_t m, int64_t k = 0, DType dtype = kF32);
//   tri(1, 2, 0, {.device = "cpu"})   // [[1. 0.]]
Tensor tri(int64_t n, int64_t m, int64_t k, const TensorOptions& options);

}  // namespace heddle
