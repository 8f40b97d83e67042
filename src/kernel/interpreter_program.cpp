#include "kernel/interpreter_program.h"

#include "base/error.h"
#include "kernel/types.h"

namespace heddle::kernel {
namespace {

Broadcast broadcast(const Dims& from, const Dims& to) {
  Broadcast b;
  int64_t from_count = 1, to_count = 1;
  for (int64_t d : from) from_count *= d;
  for (int64_t d : to) to_count *= d;
  b.single = from_count == 1;
  if (b.single || from_count == to_count) return b;
  b.table.resize(static_cast<size_t>(to_count));
  std::vector<int64_t> strides(to.size());
  int64_t stride = 1;
  for (size_t d = to.size(); d-- > 0;) {
    strides[d] = from[d] == 1 ? 0 : stride;
    stride *= from[d];
  }
  for (int64_t e = 0; e < to_count; ++e) {
    int64_t rest = e, element = 0;
    for (size_t d = to.size(); d-- > 0;) {
      element += rest % to[d] * strides[d];
      rest /= to[d];
    }
    b.table[e] = static_cast<int32_t>(element);
  }
  return b;
}

class Preparation {
 public:
  Preparation(const Kernel& kernel, int threads) : kernel_(kernel) {
    places_.reserve(kernel.values.size());
    for (const Type& t : kernel.values) {
      places_.push_back({program_.cells, t.numel(), t.dtype});
      program_.cells += t.numel() * threads;
    }
  }

  Program run() {
    for (const Expr& s : kernel_.symbols) program_.symbol_slots.push_back(slot(s));
    for (const Buffer& b : kernel_.buffers) program_.sizes.push_back(compiled(b.size));
    if (kernel_.thread.is_var()) program_.thread_slot = slot(kernel_.thread);
    for (const Phase& p : kernel_.phases) {
      PhaseProgram& phase = program_.phases.emplace_back();
      for (const Expr& c : p.blocks) {
        phase.block_slots.push_back(slot(c));
        phase.extents.push_back(compiled(c.is_var() ? c.extent() : Expr(1)));
      }
      phase.steps = body(p.body);
      phase.working_threads = working_threads(kernel_, p);
    }
    program_.slots = next_slot_;
    return std::move(program_);
  }

 private:
  // Something that is no variable (the value of an extent-1 axis) gets a slot that nobody reads.
  int slot(const Expr& e) {
    if (!e.is_var()) return next_slot_++;
    auto [it, fresh] = slots_.emplace(e.id(), next_slot_);
    if (fresh) ++next_slot_;
    return it->second;
  }
  IndexProgram compiled(const Expr& e) {
    return IndexProgram(e, [this](const Expr& v) { return slot(v); });
  }
  std::vector<Place> places(std::span<const Value> values) const {
    std::vector<Place> out;
    for (Value v : values) out.push_back(places_[v]);
    return out;
  }
  const Dims& shape(Value v) const { return kernel_.values[v].shape; }

  std::vector<Step> body(const Body& b) {
    std::vector<Step> steps;
    steps.reserve(b.insts.size());
    for (const Inst& i : b.insts) steps.push_back(step(i));
    return steps;
  }

  Step step(const Inst& i) {
    Step s;
    s.inst = &i;
    s.args = places(i.args);
    s.results = places(i.results);
    switch (i.op) {
      case Op::store:
      case Op::combine:
      case Op::check:
      case Op::matrix_store:
      case Op::reduce:
      case Op::scan: s.dims = shape(i.args[0]); break;
      case Op::dot: s.dims = dot_dims(kernel_.values[i.args[0]], kernel_.values[i.args[1]]); break;
      default:
        if (!i.results.empty()) s.dims = shape(i.results[0]);
    }
    for (int64_t d : s.dims) s.count *= d;
    if (i.op != Op::loop && i.op != Op::mma && i.op != Op::matrix_dot)
      for (size_t n = 0; n < i.args.size(); ++n) {
        bool accumulator = i.op == Op::dot && n == 2;
        bool start = i.op == Op::scan && n >= i.reducer->width() && n < 2 * i.reducer->width();
        const Dims& to = accumulator ? shape(i.results[0]) : start ? shape(i.args[n]) : s.dims;
        s.broadcasts.push_back(broadcast(shape(i.args[n]), to));
      }
    for (const Expr& c : i.coords) s.coord_slots.push_back(slot(c));
    for (const Expr& v : i.binds) s.bind_slots.push_back(slot(v));
    s.address = AddressProgram(i.address, i.coords, [this](const Expr& v) { return slot(v); });
    s.guard = compiled(i.guard);
    if (i.op == Op::loop || i.op == Op::matrix_dot || i.op == Op::warp_dot) {
      s.extent = compiled(i.extent);
      s.var_slot = slot(i.var);
    }
    if (i.op == Op::panel_dot || i.op == Op::copy) s.extent = compiled(i.extent);
    for (const Panel& p : i.panels) s.panels.push_back(compiled(p.address));
    for (const Region& r : i.regions) {
      Step::RegionProgram& region = s.regions.emplace_back();
      region.offset = compiled(r.offset);
      for (const Expr& e : r.extents) region.extents.push_back(compiled(e));
      for (const Expr& e : r.at) region.at.push_back(compiled(e));
      for (const Expr& e : r.coords) region.coord_slots.push_back(slot(e));
      region.guard = compiled(r.guard);
    }
    if (i.reducer) s.reducer.emplace(*i.reducer);
    for (const Body& b : i.bodies) {
      s.params.push_back(places(b.params));
      s.bodies.push_back(body(b));
      s.yields.push_back(places(b.results));
    }
    return s;
  }

  const Kernel& kernel_;
  Program program_;
  std::vector<Place> places_;
  std::unordered_map<uint64_t, int> slots_;
  int next_slot_ = 0;
};

}  // namespace

Program prepare(const Kernel& kernel, int threads) { return Preparation(kernel, threads).run(); }

}  // namespace heddle::kernel
