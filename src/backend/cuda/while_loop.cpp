#include "backend/cuda/while_loop.h"

#include <algorithm>

namespace heddle::cuda {
namespace {

// Memories that a loop is run on in turns.
constexpr size_t kMemories = 4;
// A loop that is on other memory nearly each time is no faster this way.
constexpr uint64_t kFewGraphs = 16, kRunsOfEach = 2;

// cudaGraphSetConditional() is the driver's. It is not an instruction, so no kernel of ours can contain it.
constexpr const char* kSetCondition = R"(
.version 8.3
.target sm_70
.address_size 64

.extern .func cudaGraphSetConditional (.param .b64 condition, .param .b32 value);

.visible .entry heddle_set_condition (.param .u64 flag, .param .u64 condition)
{
  .reg .b16 %h;
  .reg .b32 %value;
  .reg .b64 %address, %node;
  .param .b64 first;
  .param .b32 second;
  ld.param.u64 %address, [flag];
  cvta.to.global.u64 %address, %address;
  ld.global.u8 %h, [%address];
  cvt.u32.u16 %value, %h;
  ld.param.u64 %node, [condition];
  st.param.b64 [first], %node;
  st.param.b32 [second], %value;
  call.uni cudaGraphSetConditional, (first, second);
  ret;
}
)";

// Behind all of a row: tells the condition what the flag says.
Result add_look(const Driver& driver, Graph graph, const Row& row, Function set_condition, Address flag,
                Condition condition, GraphNode& made) {
  void* parameters[] = {&flag, &condition};
  const KernelNode node{set_condition, {1, 1, 1}, {1, 1, 1}, 0, parameters, nullptr, nullptr, nullptr};
  return driver.cuGraphAddKernelNode_v2(&made, graph, row.nodes().data(), row.nodes().size(), &node);
}

bool equal(const Calls& a, const Calls& b) {
  return a.words == b.words && std::ranges::equal(a.calls, b.calls, [](const Call& x, const Call& y) {
           return x.function == y.function && x.blocks == y.blocks && x.count == y.count;
         });
}

}  // namespace

Function load_set_condition(const Driver& driver) {
  Library library = nullptr;  // stays as long as the process
  Module module = nullptr;
  Function function = nullptr;
  Result result = driver.cuLibraryLoadData(&library, kSetCondition, nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (result == kSuccess) result = driver.cuLibraryGetModule(&module, library);
  if (result == kSuccess) result = driver.cuModuleGetFunction(&function, module, "heddle_set_condition");
  return result == kSuccess ? function : nullptr;
}

WhileLoop::~WhileLoop() {
  if (driver_.is_inherited() || driver_.cuCtxSetCurrent(context_) != kSuccess) return;
  for (Known& known : known_) destroy(known);
}

void WhileLoop::destroy(Known& known) const {
  if (known.exec) driver_.cuGraphExecDestroy(known.exec);
  if (known.graph) driver_.cuGraphDestroy(known.graph);
}

Result WhileLoop::make(Known& made, Function set_condition) const {
  constexpr unsigned kFalseAtFirst = 0, kAtEachLaunch = 1;
  Row first, rounds;
  Condition condition = 0;
  GraphNode look = nullptr, loop = nullptr;
  WhileNode node;
  Result result = driver_.cuGraphCreate(&made.graph, 0);
  auto next = [&](auto step) {
    if (result == kSuccess) result = step();
  };
  next([&] {
    return driver_.cuGraphConditionalHandleCreate(&condition, made.graph, context_, kFalseAtFirst, kAtEachLaunch);
  });
  next([&] { return first.add(driver_, made.graph, made.first, false); });
  next([&] { return add_look(driver_, made.graph, first, set_condition, made.flag, condition, look); });
  next([&] {
    node.condition = condition;
    node.context = context_;
    const GraphEdge whole{.from_port = 0, .to_port = 0, .type = 0};
    return driver_.cuGraphAddNode_v2(&loop, made.graph, &look, &whole, 1, &node);
  });
  next([&] { return rounds.add(driver_, node.bodies[0], made.rounds, false); });
  next([&] { return add_look(driver_, node.bodies[0], rounds, set_condition, made.flag, condition, look); });
  next([&] { return driver_.cuGraphInstantiateWithFlags(&made.exec, made.graph, 0); });
  return result;
}

Result WhileLoop::run(Calls& first, Calls& rounds, Address flag, Function set_condition, Stream stream) {
  auto found = std::ranges::find_if(known_, [&](const Known& known) {
    return known.flag == flag && equal(known.first, first) && equal(known.rounds, rounds);
  });
  if (refused_) return kNotSupported;
  if (found == known_.end()) {
    if (++made_ > kFewGraphs && clock_ < kRunsOfEach * made_) {
      refused_ = true;
      return kNotSupported;
    }
    Known made;
    made.flag = flag;
    std::swap(made.first, first);
    std::swap(made.rounds, rounds);
    if (Result result = make(made, set_condition); result != kSuccess) {
      destroy(made);
      refused_ = true;
      return result;
    }
    if (known_.size() == kMemories) {
      auto oldest = std::ranges::min_element(known_, {}, &Known::last_use);
      destroy(*oldest);
      known_.erase(oldest);
    }
    known_.push_back(std::move(made));
    found = known_.end() - 1;
  }
  found->last_use = ++clock_;
  return driver_.cuGraphLaunch(found->exec, stream);
}

}  // namespace heddle::cuda
