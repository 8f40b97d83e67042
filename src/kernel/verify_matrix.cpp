// What the instructions of matrix units ask for.
#include "expr/runs.h"
#include "kernel/tensor_maps.h"
#include "kernel/verifier.h"

namespace heddle::kernel {

void Verifier::region(const Region& r, DType dtype) {
  check(r.buffer >= 0 && static_cast<size_t>(r.buffer) < kernel_.buffers.size(), "buffer ", r.buffer,
        " does not exist");
  const Buffer& b = kernel_.buffers[static_cast<size_t>(r.buffer)];
  check(b.space != Space::Shared, "a matrix in shared memory, %", b.name);
  check(b.dtype == dtype, "buffer %", b.name, " holds ", b.dtype, ", not ", dtype);
  const size_t rank = r.extents.size();
  if (r.is_gathered()) return gathered(r, dtype);
  check(rank >= 2 && rank <= 5 && r.strides.size() == rank && r.at.size() == rank, "a matrix of ", rank, " extents, ",
        r.strides.size(), " strides, ", r.at.size(), " positions");
  check(r.strides[0] == 1, "neighbours ", r.strides[0], " elements apart");
  for (size_t k = 1; k < rank; ++k) check(r.strides[k] > 0, "a stride of ", r.strides[k], " elements");
  auto of_symbols = [&](const Expr& e) {
    for (const Expr& v : variables(e)) check(v.is_symbol(), "a matrix that depends on ", v);
  };
  of_symbols(r.offset);
  for (const Expr& e : r.extents) of_symbols(e);
  for (const Expr& e : r.at) expression(e, "position");
}

void Verifier::gathered(const Region& r, DType dtype) {
  check(r.extents.size() == 2 && r.coords.size() == 2 && r.at.size() == 2 && r.strides.empty(), "gathers a matrix of ",
        r.extents.size(), " extents, ", r.coords.size(), " coordinates, ", r.at.size(), " positions");
  const int64_t piece = 16 / size_of(dtype);
  for (const Expr& e : r.at) expression(e, "position");
  check(r.extents[0].multiple() % piece == 0, "gathers rows of ", r.extents[0], ", which are no whole pieces");
  check(r.at[0].multiple() % piece == 0, "gathers from ", r.at[0], " on, inside a piece");
  const size_t outer = variables_.size();
  for (size_t d = 0; d < 2; ++d) enter(r.coords[d], r.extents[d], "coordinate");
  expression(r.offset, "address");
  expression(r.guard, "guard");
  variables_.resize(outer);
  check(in_pieces(r.offset, r.guard, r.coords[0], piece), "gathers pieces that are not neighbours");
}

// Vectors of two that the threads of a tile of sums hold.
void Verifier::fragments(std::span<const Value> values) {
  if (kernel_.level == Level::Tile) {
    check(values.size() == 1, "a matrix of ", values.size(), " tiles");
    const Type& t = types_[values[0]];
    const auto wide = std::count_if(t.shape.begin(), t.shape.end(), [](int64_t d) { return d > 1; });
    check(wide == 2, "a matrix of type ", to_string(t));
    return;
  }
  check(kernel_.threads % kMatrixThreads == 0 && kernel_.threads >= 2 * kMatrixThreads, "a matrix unit fed by ",
        kernel_.threads, " threads");
  check(!values.empty() && values.size() % 2 == 0, values.size(), " vectors of two rows");
  for (Value v : values)
    check(types_[v] == Type{types_[values[0]].dtype, {2}}, "a fragment of type ", to_string(types_[v]));
}

// The steps of a sum of tiles, and its factors in memory.
void Verifier::factors(const Inst& i, DType dtype) {
  expression(i.extent, "steps");
  const size_t outer = variables_.size();
  enter(i.var, i.extent, "step");
  for (const Region& r : i.regions) {
    region(r, dtype);
    check(r.is_gathered() || is_copied(kernel_, r), "copies 16 bytes at a time from %",
          kernel_.buffers[static_cast<size_t>(r.buffer)].name, ", whose rows begin between them");
    check(!r.transposed || size_of(dtype) == 2, "transposed tiles of ", dtype);
  }
  variables_.resize(outer);
}

void Verifier::matrix_dot(const Inst& i) {
  fragments(i.results);
  const std::span<const Value> args(i.args.begin(), i.args.size());
  const std::span<const Value> sums = args.first(std::min(args.size(), i.results.size())),
                               left = args.subspan(sums.size());
  check(i.regions.size() == (left.empty() ? 2 : 1), "has ", i.regions.size(), " factors in memory");
  if (!sums.empty()) {
    fragments(sums);
    check(sums.size() == i.results.size(), sums.size(), " sums so far for ", i.results.size());
    for (Value v : sums) check(types_[v] == types_[i.results[0]], "adds to ", to_string(types_[v]));
  }
  check(i.immediate >= 1, "has ", i.immediate, " pipeline stages");
  const DType factor = kernel_.buffers[static_cast<size_t>(i.regions[0].buffer)].dtype;
  const DType sum = types_[i.results[0]].dtype;
  check((sum == DType::f32 && size_of(factor) == 2 && is_float(factor)) || (sum == DType::i32 && factor == DType::i8),
        "multiplies ", factor, " into ", sum);
  if (!left.empty()) {
    fragments(left);
    const Type& t = types_[left[0]];
    check(t.dtype == factor, "a left factor of ", t.dtype, " with a right one of ", factor);
    check(i.extent.is_const(), "a left factor of unknown depth");
    const int64_t depth = i.extent.value() * kMatrixBytes / size_of(factor);
    const int64_t given = kernel_.level == Level::Tile ? t.numel() : static_cast<int64_t>(left.size()) * 4;
    const int64_t rows = kernel_.level == Level::Tile ? types_[i.results[0]].numel() : 1;
    // Tile level: rows x depth elements beside rows x columns.
    if (kernel_.level == Level::Thread)
      check(given == depth, "a left factor ", given, " deep in ", depth);
    else
      check(given % depth == 0 && rows % (given / depth) == 0, "a left factor of type ", to_string(t), ", ", depth,
            " deep");
  }
  expression(i.address, "position in the ring");
  for (size_t n = 0; n < i.regions.size(); ++n)
    check(!i.regions[n].stays || (n == 0 && i.regions.size() == 2 && i.extent.is_const()), "factor ", n,
          " cannot stay in shared memory");
  if (i.buffer >= 0 && kernel_.level == Level::Thread) {
    const int64_t bytes = matrix_ring(kernel_, i).bytes();
    const Buffer& ring = kernel_.buffers[static_cast<size_t>(i.buffer)];
    check(ring.space == Space::Shared && ring.dtype == DType::u8 && ring.size.lo() >= bytes, "its tiles need ", bytes,
          " bytes of shared memory, not %", ring.name);
  }
  factors(i, factor);
}

void Verifier::matrix_store(const Inst& i) {
  counts(i, i.args.size(), 0);
  check(!i.args.empty(), "stores nothing");
  fragments(i.args);
  check(i.regions.size() == 1, "has ", i.regions.size(), " results");
  region(i.regions[0], arg(i, 0).dtype);
  const Buffer& b = kernel_.buffers[static_cast<size_t>(i.regions[0].buffer)];
  check(b.space != Space::In, "writes to the input %", b.name);
  check(size_of(b.dtype) == 2 || size_of(b.dtype) == 4, "stores elements of ", b.dtype);
  if (kernel_.level != Level::Thread) return;
  const auto bytes = static_cast<int64_t>(i.args.size()) / 2 * 8 * size_of(b.dtype);
  check(bytes % kMatrixBytes == 0, "rows of ", bytes, " bytes");
  if (i.buffer < 0) return;
  const Buffer& through = kernel_.buffers[static_cast<size_t>(i.buffer)];
  const int64_t rows = (kernel_.threads / kMatrixThreads - 1) * kMatrixRows;
  check(through.space == Space::Shared && through.dtype == DType::u8 && through.size.lo() >= matrix_store_bytes(rows),
        "leaves through ", matrix_store_bytes(rows), " bytes of shared memory, not %", through.name);
}

void Verifier::warp_dot(const Inst& i) {
  check(kernel_.level == Level::Tile, "a sum of tiles at thread level");
  counts(i, 0, 1);
  fragments(i.results);
  check(i.regions.size() == 2, "has ", i.regions.size(), " factors");
  check(i.immediate >= 2, "has room for ", i.immediate, " stages");
  const DType factor = kernel_.buffers[static_cast<size_t>(i.regions[0].buffer)].dtype;
  const DType sum = types_[i.results[0]].dtype;
  check(multiplies_fragments(factor, sum), "multiplies ", factor, " into ", sum);
  factors(i, factor);
}

void Verifier::copy(const Inst& i) {
  counts(i, 0, 0);
  check(kernel_.level == Level::Thread, "copy at tile level");
  check(i.panels.size() == 2, "has ", i.panels.size(), " places");
  for (const Panel& p : i.panels) {
    check(p.buffer >= 0 && static_cast<size_t>(p.buffer) < kernel_.buffers.size(), "buffer ", p.buffer,
          " does not exist");
    expression(p.address, "address");
  }
  const Buffer &to = kernel_.buffers[static_cast<size_t>(i.panels[0].buffer)],
               &from = kernel_.buffers[static_cast<size_t>(i.panels[1].buffer)];
  check(to.space == Space::Shared && from.space != Space::Shared, "copies from %", from.name, " to %", to.name);
  check(to.dtype == from.dtype, "copies ", from.dtype, " to ", to.dtype);
  for (const Panel& p : i.panels)
    check(p.address.multiple() * size_of(to.dtype) % 16 == 0, "copies 16 bytes at element ", p.address);
  expression(i.extent, "number of elements");
  check(i.extent.lo() >= 0 && i.extent.hi() * size_of(to.dtype) <= 16, "copies ", i.extent, " elements of ", to.dtype);
  expression(i.guard, "guard");
}

void Verifier::load_matrix(const Inst& i) {
  counts(i, 0, 1);
  check(i.buffer >= 0 && static_cast<size_t>(i.buffer) < kernel_.buffers.size(), "buffer ", i.buffer,
        " does not exist");
  const Buffer& b = kernel_.buffers[static_cast<size_t>(i.buffer)];
  check(b.space == Space::Shared, "a fragment of %", b.name, ", which is not shared");
  check(i.axis == 0 || size_of(b.dtype) == 2, "a transposed fragment of ", b.dtype);
  check(i.address.multiple() * size_of(b.dtype) % 16 == 0, "reads 16 bytes at element ", i.address);
  expression(i.address, "address");
  result(i, 0, fragment_type(b.dtype));
}

void Verifier::mma(const Inst& i) {
  counts(i, 6, 4);
  const DType factor = arg(i, 0).dtype, sum = arg(i, 2).dtype;
  check(multiplies_fragments(factor, sum), "multiplies ", factor, " into ", sum);
  for (size_t n : {0, 1}) check(arg(i, n) == fragment_type(factor), "a fragment of type ", to_string(arg(i, n)));
  for (size_t n = 0; n < 4; ++n) {
    check(arg(i, n + 2) == Type{sum, {2}}, "sums of type ", to_string(arg(i, n + 2)));
    result(i, n, arg(i, n + 2));
  }
}

void Verifier::panel_dot(const Inst& i) {
  counts(i, 0, 0);
  check(i.panels.size() == 3, "has ", i.panels.size(), " panels");
  for (const Panel& p : i.panels) {
    check(p.buffer >= 0 && static_cast<size_t>(p.buffer) < kernel_.buffers.size(), "buffer ", p.buffer,
          " does not exist");
    expression(p.address, "address");
  }
  auto buffer = [&](size_t n) -> const Buffer& { return kernel_.buffers[static_cast<size_t>(i.panels[n].buffer)]; };
  for (size_t n : {1, 2})
    check(holds_packed(buffer(n).dtype, buffer(0).dtype), "buffer %", buffer(n).name,
          " holds no packed words for sums of ", buffer(0).dtype);
  check(buffer(0).space != Space::In, "writes to the input %", buffer(0).name);
  expression(i.extent, "steps");
  expression(i.guard, "guard");
}

}  // namespace heddle::kernel
