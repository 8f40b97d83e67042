// Products by a matrix unit. Its results stay in the registers where it leaves them, and are finished there.
#include <algorithm>

#include "base/error.h"
#include "compile/simt/lowering.h"
#include "kernel/pass_util.h"
#include "kernel/tensor_maps.h"

namespace heddle::simt {

using kernel::kMatrixRows;
using kernel::kMatrixThreads;

// As fragment() says: a quarter of a warp along the columns, two each; its eight quarters along rows, twice; then
// warps.
Layout matrix_layout(const Dims& shape, int threads) {
  auto [rows, columns] = matrix_dims(shape);
  Layout layout = layout_for(shape);
  layout.used = shape[rows] / kMatrixRows * kMatrixThreads;
  HD_ASSERT(layout.used == threads, "a matrix of ", shape[rows], " rows for ", threads, " threads");
  layout.lane_dim = static_cast<int>(columns);
  layout.lanes = 2;
  layout.dims[columns] = {.size = shape[columns], .threads = 4, .registers = shape[columns] / 8};
  layout.dims[rows] = {.size = shape[rows], .threads = layout.used / 4, .stride = 4, .registers = 2, .together = 8};
  return layout;
}

void Lowering::emit_matrix_dot(const Inst& inst) {
  const Value result = inst.results[0];
  auto [rows, columns] = matrix_dims(shape(result));
  std::vector<Point> where = registers_of(result);
  const kernel::MatrixRing stages{inst.left_in_args() ? 0 : shape(result)[rows], shape(result)[columns], inst.immediate,
                                  inst.regions[0].stays ? inst.extent.value() : 0};
  const int ring = inst.buffer >= 0 ? inst.buffer : allocate("ring", DType::u8, stages.bytes());
  std::vector<Value> args;
  for (size_t i = 0; i < inst.args.size(); ++i)
    values_in_registers(inst.args[i], i < inst.sums_in_args() ? result : inst.args[i], args);
  std::vector<Value> values = builder_->matrix_dot(args, inst.regions, inst.var, inst.immediate, inst.address,
                                                   {tile_.values[result].dtype, {2}}, where.size());
  builder_->code().insts.back().extent = inst.extent;
  builder_->code().insts.back().buffer = ring;
  deliver(result, where, values, next_tag());
}

void Lowering::emit_matrix_store(const Inst& inst) {
  const Dims& dims = shape(inst.args[0]);
  std::vector<Value> values;
  for (const Point& p : points_of(inst)) values.push_back(stored(inst, p));
  if (leaving_ < 0)
    leaving_ = allocate("leaving", DType::u8, kernel::matrix_store_bytes(dims[matrix_dims(dims).first]));
  builder_->matrix_store(inst.regions[0], values);
  builder_->code().insts.back().buffer = leaving_;
}

bool Lowering::only_finishes(std::span<const Inst> insts, int group) const {
  return std::ranges::all_of(insts, [&](const Inst& inst) {
    if (kernel::is_elementwise(inst.op)) return true;
    switch (inst.op) {
      case Op::load:
        return tile_.buffers[inst.buffer].space != kernel::Space::Shared && !plan_.values[inst.results[0]].defined;
      case Op::store:
        return tile_.buffers[inst.buffer].space != kernel::Space::Shared && plan_.inst_group.at(&inst) == group;
      case Op::matrix_store: return true;
      default: return false;
    }
  });
}

}  // namespace heddle::simt
