// The value of a kernel for the reference evaluator: the interpreter runs it with all floats in double.
#include "base/error.h"
#include "custom/trace.h"
#include "kernel/interpreter.h"

namespace heddle {
namespace {

using kernel::Body;
using kernel::Inst;
using kernel::Op;

DType wide(DType dtype) { return is_float(dtype) ? DType::f64 : dtype; }

std::shared_ptr<const kernel::Reducer> widened(const kernel::Reducer& reducer) {
  return kernel::simple_reducer(*kernel::simple_op(reducer), wide(reducer.identity[0].dtype));
}

// Casts to narrower floats round all the same.
void widen(TileKernel& kernel, Body& body, const std::vector<DType>& narrow) {
  std::vector<Inst> insts = std::move(body.insts);
  body.insts.clear();
  for (Inst& inst : insts) {
    for (Body& inner : inst.bodies) widen(kernel, inner, narrow);
    if (inst.op == Op::constant && is_float(inst.literal.dtype))
      inst.literal = Scalar::of(DType::f64, inst.literal.as_double());
    if (inst.reducer) inst.reducer = widened(*inst.reducer);
    if (inst.op == Op::cast) {
      const auto from = static_cast<size_t>(inst.args[0]), to = static_cast<size_t>(inst.results[0]);
      if (is_float(narrow[to]) && is_float(narrow[from]) && size_of(narrow[to]) < size_of(narrow[from])) {
        Inst rounding = inst;
        kernel.values.push_back({narrow[to], kernel.values[to].shape});
        const auto rounded = static_cast<kernel::Value>(kernel.values.size() - 1);
        rounding.results = {rounded};
        inst.args = {rounded};
        body.insts.push_back(std::move(rounding));
      }
    }
    body.insts.push_back(std::move(inst));
  }
}

TileKernel in_double(const TileKernel& tiles) {
  TileKernel kernel = tiles;
  std::vector<DType> narrow;
  for (kernel::Type& type : kernel.values) {
    narrow.push_back(type.dtype);
    type.dtype = wide(type.dtype);
  }
  for (kernel::Buffer& buffer : kernel.buffers) buffer.dtype = wide(buffer.dtype);
  for (kernel::Phase& phase : kernel.phases) widen(kernel, phase.body, narrow);
  return kernel;
}

Scalar element(const HostArray& array, size_t i) {
  Scalar s;
  s.dtype = wide(array.dtype);
  if (is_float(array.dtype))
    s.f = array.floats[i];
  else
    s.u = array.integers[i];
  return s;
}

}  // namespace

std::vector<HostArray> evaluate_custom(const CustomKernel& custom, std::span<const HostArray* const> inputs) {
  const TileKernel kernel = in_double(*custom.tiles);
  std::vector<std::vector<std::byte>> memory(kernel.buffers.size());
  std::vector<void*> addresses;
  std::vector<int64_t> sizes;
  for (size_t b = 0; b < kernel.buffers.size(); ++b) {
    const kernel::Buffer& buffer = kernel.buffers[b];
    sizes.push_back(buffer.size.value());
    const bool shared = buffer.space == kernel::Space::Shared;
    if (!shared) memory[b].resize(static_cast<size_t>(sizes[b] * size_of(buffer.dtype) + 1));
    addresses.push_back(shared ? nullptr : memory[b].data());
    if (b >= inputs.size()) continue;
    HD_ASSERT(inputs[b]->numel() == sizes[b], "kernel ", custom.name, ": input ", b, " has ", inputs[b]->numel(),
              " elements");
    for (int64_t i = 0; i < sizes[b]; ++i)
      store_scalar(memory[b].data(), i, element(*inputs[b], static_cast<size_t>(i)));
  }
  kernel::interpret(kernel, addresses, sizes);
  std::vector<HostArray> results;
  for (size_t r = 0; r < custom.results.size(); ++r) {
    const size_t b = inputs.size() + r;
    HostArray& array = results.emplace_back(HostArray{custom.results[r].dtype, {}, {}, {}});
    for (const Expr& size : custom.results[r].shape) array.shape.push_back(size.value());
    for (int64_t i = 0; i < sizes[b]; ++i) {
      const Scalar s = load_scalar(memory[b].data(), i, kernel.buffers[b].dtype);
      if (is_float(array.dtype))
        array.floats.push_back(s.f);
      else
        array.integers.push_back(s.u);
    }
  }
  return results;
}

}  // namespace heddle
