#include "compile/direct/sort.h"

#include "base/error.h"
#include "compile/direct/sort_writer.h"

namespace heddle {

SortTask sort_task(const Node& node, std::span<const Node* const> results) {
  const Node& x = *node.inputs[0];
  SortTask task;
  if (!x.shape.is_static() || !node.shape.is_static())
    throw CompileError(text("sort: ", x.dtype, x.shape, " has a size that is not known yet"));
  task.n = x.shape.back().value();
  task.rows = x.shape.static_numel() / task.n;
  task.kept = node.shape.back().value();
  task.dtype = x.dtype;
  task.descending = node.attrs[0].is_const(1);
  for (const Node* result : results) (result->attrs[0].is_const(0) ? task.values : task.indices) = true;
  // Positions within a row are i32 inside the kernel.
  if (task.n >= int64_t{1} << 31) throw CompileError(text("sort: rows of ", task.n, " elements are too long"));
  return task;
}

DirectKernel sort_kernel(const SortTask& task) {
  DirectKernel direct;
  direct.name = text(task.kept < task.n ? "topk_" : task.values ? "sort_" : "argsort_", task.rows, "x", task.n);
  direct.description =
      text("sort ", task.rows, "x", task.n, " ", task.dtype, " keep ", task.kept, task.descending ? " descending" : "",
           task.values ? " values" : "", task.indices ? " indices" : "");
  const auto& [rows, n, kept, dtype, descending, values, indices] = task;
  direct.structure.words = {kDirect};
  for (int64_t word :
       {rows, n, kept, static_cast<int64_t>(dtype), int64_t{descending}, int64_t{values}, int64_t{indices}})
    direct.structure.words.push_back(static_cast<uint64_t>(word));
  direct.buffers.push_back({"x", task.dtype, kernel::Space::In, task.rows * task.n});
  if (task.values) direct.buffers.push_back({"values", task.dtype, kernel::Space::Out, task.rows * task.kept});
  if (task.indices) direct.buffers.push_back({"indices", DType::i64, kernel::Space::Out, task.rows * task.kept});
  direct.build = [task, name = direct.name, buffers = direct.buffers](const Target& target) {
    SortWriter writer(task, target, name, buffers);
    const bool simt = target.machine == Machine::Simt;
    const bool networks = networks_are_best(writer);
    if (!simt && ranks_are_best(task) && !(networks && task.rows >= writer.lanes)) {
      write_rank_sort(writer);
    } else if (selection_is_best(writer) && (simt || task.dtype != DType::boolean)) {
      write_selection(writer);
    } else if (networks) {
      write_vector_sort(writer);
    } else if (simt) {
      write_merge_sort(writer);
    } else {
      write_radix_sort(writer);
    }
    return std::move(writer.kernel);
  };
  return direct;
}

}  // namespace heddle
