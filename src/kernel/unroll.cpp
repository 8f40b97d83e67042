// Loop unrolling: entirely for small constant extents, by a factor where the loop asks for it.
#include "kernel/builder.h"
#include "kernel/pass_util.h"
#include "kernel/passes.h"

namespace heddle::kernel {
namespace {

constexpr int64_t kMostTrips = 8;    // a loop of more trips stays one unless it asks
constexpr int64_t kMostInsts = 64;   // instructions an unrolled loop may grow to without having asked
constexpr int64_t kMostAsked = 512;  // and when it has: a guard against runaway code

int64_t unrolled_size(const Body& code) {
  int64_t count = 0;
  // A product of matrices is a loop itself, and each one needs descriptors of its own.
  visit(code,
        [&](const Inst& inst) { count += inst.op == Op::matrix_dot || inst.op == Op::warp_dot ? kMostAsked : 1; });
  return count;
}

class Unroller {
 public:
  explicit Unroller(Kernel& kernel) : kernel_(kernel) {}

  // Rewrites `code`; `map` gives the new name of every value defined so far.
  void run(Body& code, std::vector<Value>& map) {
    std::vector<Inst> insts = std::move(code.insts);
    code.insts.clear();
    for (Inst& inst : insts) {
      rename(inst.args, map);
      for (Body& inner : inst.bodies) run(inner, map);
      if (inst.op != Op::loop || !unroll_loop(inst, code, map)) code.insts.push_back(std::move(inst));
    }
    rename(code.results, map);
  }

 private:
  template <class List>
  static void rename(List& values, const std::vector<Value>& map) {
    for (Value& v : values) v = map[static_cast<size_t>(v)];
  }

  bool unroll_loop(Inst& loop, Body& out, std::vector<Value>& map) {
    int64_t size = unrolled_size(loop.bodies[0]);
    int64_t factor = loop.immediate;
    if (loop.extent.is_const()) {
      int64_t trips = std::max<int64_t>(loop.extent.value(), 0);
      bool small = trips <= 1 || (trips <= kMostTrips && trips * size <= kMostInsts);
      bool asked = factor >= trips && trips * size <= kMostAsked;
      if (small || asked) {
        std::vector<Value> carried(loop.args.begin(), loop.args.end());
        for (int64_t trip = 0; trip < trips; ++trip) carried = repeat(loop, out, Expr(trip), carried);
        finish(loop, carried, map);
        return true;
      }
    }
    while (factor > 1 && factor * size > kMostAsked) factor /= 2;
    if (factor <= 1) {
      loop.immediate = 0;
      return false;
    }
    unroll_by(loop, factor, out, map);
    return true;
  }

  // for v < n  ->  for u < n / f { f copies with v = u * f + j };  for w < n % f { v = n / f * f + w }
  void unroll_by(const Inst& loop, int64_t factor, Body& out, std::vector<Value>& map) {
    std::vector<Value> carried(loop.args.begin(), loop.args.end());
    Expr whole = floordiv(loop.extent, factor), rest = mod(loop.extent, factor);
    Expr outer = Expr::index(loop.var.name(), whole);
    carried = emit_loop(loop, outer, carried, out, [&](Body& body, std::vector<Value> values) {
      for (int64_t k = 0; k < factor; ++k) values = repeat(loop, body, outer * factor + k, values);
      return values;
    });
    if (!rest.is_const(0)) {
      Expr tail = Expr::index(loop.var.name(), rest);
      carried = emit_loop(loop, tail, carried, out, [&](Body& body, std::vector<Value> values) {
        return repeat(loop, body, whole * factor + tail, values);
      });
    }
    finish(loop, carried, map);
  }

  template <class Write>
  std::vector<Value> emit_loop(const Inst& loop, const Expr& var, const std::vector<Value>& init, Body& out,
                               const Write& body) {
    Inst inst;
    inst.op = Op::loop;
    inst.var = var;
    inst.extent = var.extent();
    inst.args = SmallVector<Value, 3>(init.begin(), init.end());
    Body code;
    for (Value v : loop.results) {
      inst.results.push_back(fresh(v));
      code.params.push_back(fresh(v));
    }
    code.results = body(code, code.params);
    inst.bodies.push_back(std::move(code));
    std::vector<Value> results(inst.results.begin(), inst.results.end());
    out.insts.push_back(std::move(inst));
    return results;
  }

  // One trip of the body.
  std::vector<Value> repeat(const Inst& loop, Body& out, const Expr& trip, const std::vector<Value>& carried) {
    const Body& body = loop.bodies[0];
    std::vector<Value> names(kernel_.values.size());
    for (size_t k = 0; k < names.size(); ++k) names[k] = static_cast<Value>(k);
    for (size_t k = 0; k < body.params.size(); ++k) names[static_cast<size_t>(body.params[k])] = carried[k];
    Builder builder(kernel_.values, out);
    for (const Inst& inst : body.insts) builder.clone(inst, names, {{loop.var, trip}});
    std::vector<Value> next;
    for (Value v : body.results) next.push_back(names[static_cast<size_t>(v)]);
    return next;
  }

  void finish(const Inst& loop, const std::vector<Value>& carried, std::vector<Value>& map) {
    for (size_t k = 0; k < loop.results.size(); ++k) map[static_cast<size_t>(loop.results[k])] = carried[k];
  }

  Value fresh(Value like) {
    Type type = kernel_.values[static_cast<size_t>(like)];
    kernel_.values.push_back(type);
    return static_cast<Value>(kernel_.values.size() - 1);
  }

  Kernel& kernel_;
};

}  // namespace

void unroll(Kernel& kernel) {
  for (Phase& phase : kernel.phases) {
    std::vector<Value> map(kernel.values.size());
    for (size_t k = 0; k < map.size(); ++k) map[k] = static_cast<Value>(k);
    Unroller(kernel).run(phase.body, map);
  }
}

}  // namespace heddle::kernel
