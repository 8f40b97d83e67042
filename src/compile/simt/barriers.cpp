// Barriers between accesses of different threads to the same memory.
#include <algorithm>

#include "compile/simt/lowering.h"

namespace heddle::simt {

namespace {

struct Touch {
  int buffer;
  Op op;
  int tag;
  friend bool operator==(const Touch&, const Touch&) = default;
};

// What the threads may have done since the last barrier they all passed.
using State = std::vector<Touch>;

void add(State& state, const Touch& touch) {
  if (!contains(state, touch)) state.push_back(touch);
}

void add(State& state, const State& other) {
  for (const Touch& touch : other) add(state, touch);
}

bool conflict(const State& state, const Touch& touch) {
  return std::ranges::any_of(state, [&](const Touch& earlier) {
    if (earlier.buffer != touch.buffer) return false;
    if (earlier.op == Op::load && touch.op == Op::load) return false;
    if (earlier.op == Op::combine && touch.op == Op::combine) return false;  // atomic
    return earlier.tag == 0 || earlier.tag != touch.tag;
  });
}

bool touches_memory(const Inst& inst) { return inst.op == Op::load || inst.op == Op::store || inst.op == Op::combine; }

Touch touch_of(const Inst& inst) { return {inst.buffer, inst.op, inst.immediate}; }

// Walks the body once, starting from `state`, and leaves the state at its end.
void walk(Body& code, State& state, std::span<const Expr> register_loops) {
  std::vector<Inst> insts;
  auto wait = [&] {
    insts.push_back({.op = Op::barrier});
    state.clear();
  };
  for (Inst& inst : code.insts) {
    switch (inst.op) {
      case Op::load:
      case Op::store:
      case Op::combine: {
        if (conflict(state, touch_of(inst))) wait();
        add(state, touch_of(inst));
        break;
      }
      case Op::barrier: state.clear(); break;
      case Op::loop: {
        // What only the first iteration must wait for is waited for once, before the loop.
        bool late = false;
        kernel::visit(std::as_const(inst.bodies[0]),
                      [&](const Inst& inner) { late |= touches_memory(inner) && conflict(state, touch_of(inner)); });
        if (late) wait();
        // An iteration starts after what came before the loop or after another iteration. States only grow and
        // there are finitely many touches, so this ends; two rounds are usual.
        bool registers = contains(register_loops, inst.var);
        State entry = state, end;
        for (size_t before = SIZE_MAX; entry.size() != before;) {
          before = entry.size();
          end = entry;
          walk(inst.bodies[0], end, register_loops);
          for (Touch touch : end) {
            if (!registers) touch.tag = 0;
            add(entry, touch);
          }
        }
        if (inst.extent.lo() >= 1) state.clear();
        add(state, end);
        break;
      }
      case Op::branch: {
        State entry = state;
        state.clear();
        for (Body& inner : inst.bodies) {
          State current = entry;
          walk(inner, current, register_loops);
          add(state, current);
        }
        if (inst.bodies.size() < 2) add(state, entry);
        break;
      }
      default: break;
    }
    insts.push_back(std::move(inst));
  }
  code.insts = std::move(insts);
}

}  // namespace

void insert_barriers(Body& code, std::span<const Expr> register_loops) {
  State state;
  walk(code, state, register_loops);
}

}  // namespace heddle::simt
