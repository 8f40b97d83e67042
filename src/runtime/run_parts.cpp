// Runs a plan in parts: each on its device, with the copies between them.
#include <algorithm>

#include "base/error.h"
#include "base/interrupt.h"
#include "runtime/split_devices.h"

namespace heddle {
namespace {

uint64_t size_of_value(const SplitValue& value, const Plan& plan, std::span<const int64_t> symbols) {
  const Expr count = value.shape.numel();
  auto known = [&](const Expr& symbol) {
    return symbols[static_cast<size_t>(std::find(plan.symbols.begin(), plan.symbols.end(), symbol) -
                                       plan.symbols.begin())];
  };
  const int64_t elements = count.is_const() ? count.value() : evaluate(count, known);
  return static_cast<uint64_t>(elements) * static_cast<uint64_t>(size_of(value.dtype));
}

// One run of a plan in parts.
class PartsRun {
 public:
  PartsRun(const Plan& plan, RunMemory& memory) : plan_(plan), split_(*plan.split), memory_(memory) {
    if (!memory.split) memory.split = std::make_shared<SplitMemory>();
    own().values.resize(split_.values.size());
    own().parts.resize(split_.parts.size());
    own().arenas.resize(split_.parts.size());
  }
  ~PartsRun() {
    if (!memory_.repeated) memory_.split.reset();  // results must not keep temporaries alive
  }
  PartsRun(const PartsRun&) = delete;
  PartsRun& operator=(const PartsRun&) = delete;

  void run() {
    provide();
    std::optional<Uninterrupted> whole;  // from the first part on that may write over what tensors still hold
    for (const SplitPlan::Step& step : split_.steps) {
      interruption_point();
      const bool is_part = step.kind == SplitPlan::Step::Kind::Part;
      is_part ? run_part(step.index) : copy(split_.copies[step.index]);
      if (is_part && may_overwrite(split_.parts[step.index].cached->plan) && !whole) whole.emplace();
    }
  }

 private:
  SplitMemory& own() { return *memory_.split; }

  // All memory first: where there is none left, nothing has been written.
  void provide() {
    for (size_t v = 0; v < split_.values.size(); ++v) {
      const SplitValue& value = split_.values[v];
      if (value.leaf >= 0 || value.output >= 0 || !value.device) continue;
      const uint64_t bytes = size_of_value(value, plan_, memory_.symbols);
      std::shared_ptr<DeviceBuffer>& buffer = own().values[v];
      if (buffer && buffer->bytes() >= bytes) continue;
      buffer.reset();
      buffer = value.device->allocate(bytes);
    }
    for (size_t p = 0; p < split_.parts.size(); ++p) {
      const uint64_t bytes = split_.parts[p].cached->plan.arena_bytes;
      std::shared_ptr<DeviceBuffer>& arena = own().arenas[p];
      if (bytes == 0 || (arena && arena->bytes() >= bytes)) continue;
      arena.reset();
      arena = split_.parts[p].device->allocate(bytes);
    }
  }

  BufferPart memory_of(int v) {
    const SplitValue& value = split_.values[static_cast<size_t>(v)];
    if (value.leaf >= 0) return memory_.leaves[static_cast<size_t>(value.leaf)];
    return whole(*written(v));
  }
  DeviceBuffer* written(int v) {
    const SplitValue& value = split_.values[static_cast<size_t>(v)];
    if (value.output >= 0) return memory_.outputs[static_cast<size_t>(value.output)];
    return own().values[static_cast<size_t>(v)].get();
  }

  void copy(const SplitPlan::Copy& step) {
    DeviceBuffer& to = *written(step.to);
    to.change_contents();
    BufferPart from = memory_of(step.from);
    from.offset += step.offset;
    from.bytes -= step.offset;
    copy_between(from, to, size_of_value(split_.values[static_cast<size_t>(step.to)], plan_, memory_.symbols));
  }

  void run_part(size_t number) {
    const PlanPart& part = split_.parts[number];
    const Plan& plan = part.cached->plan;
    RunMemory& memory = own().parts[number];
    memory.repeated = memory_.repeated;
    std::vector<uint64_t>& numbers = own().numbers;
    std::vector<int64_t>& symbols = own().symbols;
    numbers.clear();
    symbols.clear();
    for (const PlanPart::Number& n : part.numbers)
      numbers.push_back(n.from < 0 ? n.value : memory_.numbers[static_cast<size_t>(n.from)]);
    for (int symbol : part.symbols) symbols.push_back(memory_.symbols[static_cast<size_t>(symbol)]);
    begin_run(*part.cached, numbers, symbols, memory);
    memory.leaves.clear();
    for (int value : part.leaves) memory.leaves.push_back(memory_of(value));
    memory.outputs.clear();
    for (size_t o = 0; o < part.outputs.size(); ++o) {
      DeviceBuffer* to = part.outputs[o] < 0 ? nullptr : written(part.outputs[o]);
      memory.outputs.push_back(to);
      if (const int argument = plan.outputs[o].argument; to && argument >= 0)
        part.device->copy_from_host(*to, &memory.arguments[8 * static_cast<size_t>(argument)],
                                    output_bytes(plan, o, memory.symbols));
    }
    execute(plan, memory, own().arenas[number]);
  }

  const Plan& plan_;
  const SplitPlan& split_;
  RunMemory& memory_;
};

}  // namespace

void execute_parts(const Plan& plan, RunMemory& memory) { PartsRun(plan, memory).run(); }

std::vector<const Launch*> all_launches(const Plan& plan) {
  std::vector<const Launch*> result;
  for (const Launch& launch : plan.launches) result.push_back(&launch);
  if (!plan.split) return result;
  for (const SplitPlan::Step& step : plan.split->steps)
    if (step.kind == SplitPlan::Step::Kind::Part)
      for (const Launch& launch : plan.split->parts[step.index].cached->plan.launches) result.push_back(&launch);
  return result;
}

}  // namespace heddle
