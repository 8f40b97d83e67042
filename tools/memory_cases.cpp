#include "tools/memory_cases.h"

namespace heddle::tools {
namespace {

using T = Tensor;

// As a user would write them, without knowing how they are best computed.
T layer_norm_plain(const T& x) {
  T centred = x - mean(x, {-1}, true);
  return centred * rsqrt(mean(centred * centred, {-1}, true) + 1e-5);
}
T rms_norm_plain(const T& x) { return x * rsqrt(mean(x * x, {-1}, true) + 1e-5); }
// (a, b, c, d) in the order (a, c, b, d), as attention does with its heads.
T swap_middle(const T& x) {
  int64_t inner = 64, outer = 16, columns = x.size(1) / inner;
  return permute(reshape(x, {outer, x.size(0) / outer, columns, inner}), {0, 2, 1, 3});
}

constexpr MemoryCase kElementwise[] = {
    {"x + y", [](const T& x, const T& y) -> Tensors { return {x + y}; }, Bound::Copy, true},
    {"exp(x)", [](const T& x, const T&) -> Tensors { return {exp(x)}; }, Bound::Copy, false, true},
    {"gelu(2x + 1) * sigmoid(x)", [](const T& x, const T&) -> Tensors { return {gelu(x * 2 + 1) * sigmoid(x)}; },
     Bound::Copy, false, true},
    {"tanh(x)", [](const T& x, const T&) -> Tensors { return {tanh(x)}; }, Bound::Copy, false, true},
    {"erf(x)", [](const T& x, const T&) -> Tensors { return {erf(x)}; }, Bound::Copy, false, true},
    {"dropout(x)", [](const T& x, const T&) -> Tensors { return {dropout(x, 0.1)}; }, Bound::Copy, false, true},
    {"where(x > 0, x, y)", [](const T& x, const T& y) -> Tensors { return {where(x > 0, x, y)}; }, Bound::Copy, true},
    {"cast to bf16", [](const T& x, const T&) -> Tensors { return {x.cast(kBF16)}; }, Bound::Copy, false, true},
    {"right half of the columns, copied", [](const T& x, const T&) -> Tensors { return {slice(x, 1, x.size(1) / 2)}; }},
    {"every second row, copied", [](const T& x, const T&) -> Tensors { return {slice(x, 0, 0, {}, 2)}; }},
};

constexpr MemoryCase kRows[] = {
    {"softmax", [](const T& x, const T&) -> Tensors { return {softmax(x, -1)}; }, Bound::Copy, false, true},
    {"log_softmax", [](const T& x, const T&) -> Tensors { return {log_softmax(x, -1)}; }, Bound::Copy, false, true},
    {"layernorm", [](const T& x, const T&) -> Tensors { return {layer_norm_plain(x)}; }, Bound::Copy, false, true},
    {"rmsnorm", [](const T& x, const T&) -> Tensors { return {rms_norm_plain(x)}; }, Bound::Copy, false, true},
};

#define HD_REDUCE(label, expression, floats)  \
  {label " over rows",                        \
   [](const T& x, const T&) -> Tensors {      \
     const Axes axes{-1};                     \
     return {expression};                     \
   },                                         \
   Bound::Read, false, floats},               \
      {label " over columns",                 \
       [](const T& x, const T&) -> Tensors {  \
         const Axes axes{0};                  \
         return {expression};                 \
       },                                     \
       Bound::Read, false, floats},           \
  {                                           \
    label " over everything",                 \
        [](const T& x, const T&) -> Tensors { \
          const Axes axes{0, 1};              \
          return {expression};                \
        },                                    \
        Bound::Read, false, floats            \
  }
constexpr MemoryCase kReduce[] = {
    HD_REDUCE("sum", sum(x, axes), false),
    HD_REDUCE("max", max(x, axes), false),
    HD_REDUCE("mean", mean(x, axes), true),
    HD_REDUCE("var", var(x, axes), true),
    HD_REDUCE("argmax", argmax(axes.size() == 2 ? flatten(x) : x, axes[0]), false),
    HD_REDUCE("logsumexp", logsumexp(x, axes), true),
};
#undef HD_REDUCE

constexpr MemoryCase kScan[] = {
    {"cumsum along rows", [](const T& x, const T&) -> Tensors { return {cumsum(x, -1)}; }, Bound::Copy, false, true},
    {"cumsum along columns", [](const T& x, const T&) -> Tensors { return {cumsum(x, 0)}; }, Bound::Copy, false, true},
    {"cumsum of everything", [](const T& x, const T&) -> Tensors { return {cumsum(x)}; }, Bound::Copy, false, true},
};

constexpr MemoryCase kMove[] = {
    {"transpose, copied", [](const T& x, const T&) -> Tensors { return {transpose(x)}; }, Bound::Transpose},
    {"permute(0, 2, 1, 3), copied", [](const T& x, const T&) -> Tensors { return {swap_middle(x)}; }, Bound::Transpose},
};

uint64_t bytes_of(const T& x) { return static_cast<uint64_t>(x.numel()) * static_cast<uint64_t>(size_of(x.dtype())); }

}  // namespace

std::span<const MemoryCase> elementwise_cases() { return kElementwise; }
std::span<const MemoryCase> row_cases() { return kRows; }
std::span<const MemoryCase> reduce_cases() { return kReduce; }
std::span<const MemoryCase> scan_cases() { return kScan; }
std::span<const MemoryCase> move_cases() { return kMove; }

uint64_t least_bytes(const MemoryCase& which, const Tensor& x, const Tensor& y) {
  uint64_t results = 0;
  for (const T& result : which.make(x, y)) results += bytes_of(result);
  uint64_t inputs = bytes_of(x) * (which.two_inputs ? 2 : 1);
  // A copy of a part reads only that part.
  if (which.bound == Bound::Copy && results < bytes_of(x) && which.make(x, y)[0].dtype() == x.dtype()) inputs = results;
  return inputs + results;
}

}  // namespace heddle::tools
