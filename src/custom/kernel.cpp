// Functions of tensors: written once for each combination of shapes and dtypes.
#include "base/error.h"
#include "base/lock.h"
#include "custom/trace.h"
#include "tensor/build.h"
#include "tensor/symbolic.h"

namespace heddle {
namespace {

constexpr size_t kMostWritten = 256;

// A name that can be part of a program and of a file's name.
std::string plain_name(const std::string& name) {
  std::string result;
  for (char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    result += plain ? c : '_';
  }
  const bool begins = !result.empty() && !(result[0] >= '0' && result[0] <= '9');
  return (begins ? result : "kernel_" + result).substr(0, 64);
}

int64_t count_of(const Dims& shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return count;
}

// What a kernel gets: of a tensor without elements it reads none, but memory has at least one.
NodeRef in_memory(const NodeRef& x) {
  return x->shape.static_numel() > 0 ? x : make_const(Scalar::of(x->dtype, 0), Shape{1});
}

}  // namespace

struct Kernel::State {
  std::string name;
  std::function<void(KernelBuilder&)> write;
  KernelOptions options;
  Mutex lock;
  struct Written {
    std::vector<ResultType> inputs;
    std::shared_ptr<const CustomKernel> kernel;
  };
  std::vector<Written> written;

  std::shared_ptr<const CustomKernel> find(const std::vector<NodeRef>& inputs) {
    auto fits = [&](const Written& w) {
      for (size_t i = 0; i < inputs.size(); ++i)
        if (w.inputs[i].dtype != inputs[i]->dtype || !(w.inputs[i].shape == inputs[i]->shape)) return false;
      return w.inputs.size() == inputs.size();
    };
    std::lock_guard guard(lock);
    for (const Written& w : written)
      if (fits(w)) return w.kernel;
    return nullptr;
  }

  // Without the lock: the function is the user's. Two threads may do the same.
  std::shared_ptr<const CustomKernel> make(const std::vector<NodeRef>& inputs) {
    auto trace = std::make_shared<KernelTrace>();
    trace->name = name;
    trace->options = options;
    trace->kernel.name = plain_name(name);
    trace->kernel.phases.resize(1);
    trace->builder.emplace(trace->kernel, trace->kernel.phases[0]);
    Written made;
    for (const NodeRef& x : inputs) {
      made.inputs.push_back({x->dtype, x->shape});
      const NodeRef given = in_memory(x);
      trace->inputs.push_back({given->dtype, given->shape});
      trace->kernel.buffers.push_back(
          {text("x", trace->shapes.size()), x->dtype, kernel::Space::In, given->shape.static_numel()});
      Dims& shape = trace->shapes.emplace_back();
      for (const Expr& size : x->shape) shape.push_back(size.value());
    }
    KernelBuilder builder(trace);
    try {
      write(builder);
      made.kernel = finish(*trace);
    } catch (...) {
      trace->closed = true;
      throw;
    }
    std::shared_ptr<const CustomKernel> kernel = made.kernel;
    std::lock_guard guard(lock);
    if (written.size() == kMostWritten) written.clear();
    written.push_back(std::move(made));
    return kernel;
  }
};

Kernel::Kernel(std::string name, std::function<void(KernelBuilder&)> write, KernelOptions options)
    : state_(std::make_shared<State>()) {
  const int threads = options.threads;
  if (threads != 0 && (threads < 32 || threads > 1024 || (threads & (threads - 1)) != 0))
    throw ValueError(text("kernel ", name, ": ", threads, " threads; a block has 32, 64, ... or 1024"));
  state_->name = std::move(name);
  state_->write = std::move(write);
  state_->options = options;
}

TensorList Kernel::operator()(const TensorList& inputs) const {
  std::vector<NodeRef> nodes;
  for (const Tensor& x : inputs) nodes.push_back(with_numbers(x.node()));
  std::shared_ptr<const CustomKernel> custom = state_->find(nodes);
  if (!custom) custom = state_->make(nodes);
  for (NodeRef& x : nodes) x = in_memory(x);
  const NodeRef node = make_custom(nodes, custom);
  TensorList results;
  for (size_t r = 0; r < custom->results.size(); ++r) results.push_back(Tensor(make_get(node, static_cast<int>(r))));
  return results;
}

int KernelBuilder::input_count() const { return static_cast<int>(trace_->inputs.size()); }

KernelTensor KernelBuilder::input(int number) const {
  if (number < 0 || number >= input_count())
    throw IndexError(text("input: kernel ", trace_->name, " has ", input_count(), " inputs, not number ", number));
  return {trace_, number, trace_->shapes[static_cast<size_t>(number)],
          trace_->inputs[static_cast<size_t>(number)].dtype};
}

KernelTensor KernelBuilder::output(const Dims& shape, DType dtype) {
  KernelTrace& trace = *trace_;
  if (trace.closed) throw ValueError(text("output: kernel ", trace.name, " has been written already"));
  const Shape checked = to_shape("output", shape, dtype);
  const int buffer = static_cast<int>(trace.kernel.buffers.size());
  trace.kernel.buffers.push_back({text("y", trace.results.size()), dtype, kernel::Space::Out, count_of(shape)});
  trace.shapes.push_back(shape);
  trace.results.push_back({dtype, checked});
  trace.result_buffers.push_back(buffer);
  return {trace_, buffer, shape, dtype};
}

KernelTensor KernelBuilder::shared(const Dims& shape, DType dtype) {
  KernelTrace& trace = *trace_;
  if (trace.closed) throw ValueError(text("shared: kernel ", trace.name, " has been written already"));
  to_shape("shared", shape, dtype);
  const int64_t count = count_of(shape);
  if (count < 1 || count * size_of(dtype) > kMostSharedBytes)
    throw ValueError(text("shared: ", dtype, shape, " is not between one element and 2^30 bytes"));
  const int buffer = static_cast<int>(trace.kernel.buffers.size());
  trace.kernel.buffers.push_back({text("s", buffer), dtype, kernel::Space::Shared, count});
  trace.shapes.push_back(shape);
  return {trace_, buffer, shape, dtype};
}

}  // namespace heddle
