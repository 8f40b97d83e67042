#include "kernel/structure.h"

#include "base/error.h"

namespace heddle::kernel {

void StructureWriter::values(std::span<const Value> list) {
  word(list.size());
  for (Value v : list) {
    const auto value = static_cast<size_t>(v);
    HD_ASSERT(v >= 0 && value < types_.size(), "value %", v, " has no type");
    const bool fresh = numbers_[value] == kUnseen;
    if (fresh) numbers_[value] = next_++;
    word(numbers_[value]);
    if (fresh) write(types_[value]);
  }
}

void StructureWriter::write(const Type& type) {
  word(static_cast<uint64_t>(type.dtype) | type.shape.size() << 8);
  for (int64_t size : type.shape) word(static_cast<uint64_t>(size));
}

void StructureWriter::write(const Scalar& scalar) {
  word(static_cast<uint64_t>(scalar.dtype));
  word(scalar.bits());
}

// What is taken apart by name here and below fails to compile when a field is added.
void StructureWriter::write(const Buffer& buffer) {
  const auto& [name, dtype, space, size] = buffer;
  word(static_cast<uint64_t>(dtype) | static_cast<uint64_t>(space) << 8);
  write(size);
}

void StructureWriter::write(const Panel& panel) {
  const auto& [buffer, address, stride, step] = panel;
  word(static_cast<uint64_t>(buffer));
  write(address);
  word(static_cast<uint64_t>(stride));
  word(static_cast<uint64_t>(step));
}

void StructureWriter::write(const Region& region) {
  const auto& [buffer, offset, extents, strides, at, coords, guard, transposed, stays] = region;
  word(static_cast<uint64_t>(buffer));
  declare(coords);
  write(offset);
  exprs(extents);
  word(strides.size());
  for (int64_t stride : strides) word(static_cast<uint64_t>(stride));
  exprs(at);
  write(guard);
  word(static_cast<uint64_t>(transposed) | static_cast<uint64_t>(stays) << 1);
}

void StructureWriter::write(const std::shared_ptr<const Reducer>& reducer) {
  if (!reducer) return word(0);
  const Structure own = structure(*reducer);
  word(own.words.size());
  words_.insert(words_.end(), own.words.begin(), own.words.end());
}

void StructureWriter::write(const Inst& inst) {
  const auto& [op, hint, axis, buffer, immediate, results, args, literal, address, guard, coords, binds, var, extent,
               reducer, bodies, panels, regions] = inst;
  word(static_cast<uint64_t>(op) | static_cast<uint64_t>(hint) << 8 | static_cast<uint64_t>(axis) << 16);
  word(static_cast<uint64_t>(buffer));
  word(static_cast<uint64_t>(immediate));
  values(args);
  values(results);
  write(literal);
  // Variables before what they appear in.
  declare(coords);
  declare(binds);
  declare(var);
  write(extent);
  write(address);
  write(guard);
  write(reducer);
  word(bodies.size());
  for (const Body& body : bodies) write(body);
  word(panels.size());
  for (const Panel& panel : panels) write(panel);
  word(regions.size());
  for (const Region& region : regions) write(region);
}

void StructureWriter::write(const Body& body) {
  const auto& [params, insts, results] = body;
  values(params);
  word(insts.size());
  for (const Inst& inst : insts) write(inst);
  values(results);
}

Structure structure(const Reducer& reducer) {
  const auto& [identity, values, combine] = reducer;
  Structure result;
  StructureWriter writer(result, values, Variables::Scoped);
  writer.word(identity.size());
  for (const Scalar& scalar : identity) writer.write(scalar);
  writer.write(combine);
  return result;
}

Structure structure(const Kernel& kernel) {
  const auto& [name, level, threads, warp, thread, symbols, buffers, values, phases, rounds] = kernel;
  Structure result;
  StructureWriter writer(result, values, Variables::Scoped);
  writer.word(static_cast<uint64_t>(level) | static_cast<uint64_t>(rounds) << 1);
  writer.word(static_cast<uint64_t>(threads));
  writer.word(static_cast<uint64_t>(warp));
  writer.exprs(symbols);
  writer.write(thread);
  writer.word(buffers.size());
  for (const Buffer& buffer : buffers) writer.write(buffer);
  writer.word(phases.size());
  for (const auto& [blocks, body] : phases) {
    writer.declare(blocks);
    writer.write(body);
  }
  return result;
}

}  // namespace heddle::kernel
