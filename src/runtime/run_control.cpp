// Runs control flow: a loop over the launches of a body, or one of two lists of launches.
//
// Carried values are in the memory of the results. A value that the body cannot write over has a second buffer, and the
// two take turns so that the last round writes the result; so nothing is copied, and nothing is allocated in a round.
// Launches are bound to their memory once for each of the ways in which rounds differ, and only slices move on.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "runtime/control.h"
#include "runtime/launching.h"
#include "runtime/profiler.h"

namespace heddle {
namespace {

using Result = RegionPlan::Result;
using RegionRun = ControlRun::RegionRun;
using Bound = ControlRun::Bound;

constexpr uint64_t kAlignment = 64;

// Somebody wants to know how long each launch takes.
bool is_timed() { return profiling() || log_enabled(Log::Run); }

// The regions of one launch while it runs.
class Regions {
 public:
  Regions(const Plan& plan, const ControlStep& step, RunMemory& around, ControlRun& run)
      : device_(*plan.device), step_(step), around_(around), run_(run) {
    run_.regions.resize(step.regions.size());
  }

  Backend& device() { return device_; }
  RegionRun& run(size_t region) { return run_.regions[region]; }
  const Plan& plan(size_t region) const { return step_.regions[region].cached->plan; }

  // Numbers, sizes and temporaries of a region, before anything is bound.
  void begin(size_t region) {
    const RegionPlan& of = step_.regions[region];
    RegionRun& mine = run(region);
    std::vector<int64_t> symbols;
    for (size_t symbol : of.symbols) symbols.push_back(around_.symbols[symbol]);
    begin_run(*of.cached, of.numbers, symbols, mine.memory);
    mine.memory.repeated = around_.repeated;
    mine.memory.leaves.assign(of.leaves.size(), {});
    mine.memory.output_parts.assign(of.cached->plan.outputs.size(), {});
    const uint64_t bytes = place_temporaries(of.cached->plan, mine.memory);
    if (bytes > 0 && (!mine.arena || mine.arena->bytes() < bytes)) {
      mine.arena.reset();
      mine.arena = device_.allocate(bytes);
    }
    if (!mine.memory.arguments.empty())
      device_.copy_from_host(*mine.arena, mine.memory.arguments.data(),
                             mine.memory.arguments.size() * sizeof(uint64_t));
  }

  // The launches of a region on this memory: for each parameter, and for each result.
  Bound bind(size_t region, std::span<const BufferPart> parameters, std::span<const BufferPart> results) {
    const RegionPlan& of = step_.regions[region];
    RunMemory& memory = run(region).memory;
    for (size_t l = 0; l < of.leaves.size(); ++l) memory.leaves[l] = parameters[of.leaves[l]];
    for (size_t r = 0; r < of.results.size(); ++r)
      if (of.results[r].kind == Result::Kind::Output && !of.results[r].repeats)
        memory.output_parts[of.results[r].index] = results[r];
    size_t packing = 0;
    heddle::bind(of.cached->plan, 0, of.cached->plan.launches.size(), packing, run(region).arena.get(), memory);
    Bound bound;
    bound.buffers.swap(memory.buffers);
    bound.symbols.swap(memory.launch_symbols);
    bound.segments.swap(memory.segments);
    return bound;
  }

  void launch(size_t region, const Bound& bound) {
    const Plan& of = plan(region);
    std::span<const LaunchSegment> rest = bound.segments;
    for (size_t i = 0; i < of.launches.size(); ++i) {
      const size_t count = of.launches[i].segments.size();
      launch_bound(of, i, rest.first(count), run(region).memory);
      rest = rest.subspan(count);
    }
  }

  // Results that no launch writes, or not all of. What is a parameter is copied before the launches, which may write
  // over it.
  void copy_before(size_t region, std::span<const BufferPart> parameters, std::span<const BufferPart> results) {
    const RegionPlan& of = step_.regions[region];
    for (size_t r = 0; r < of.results.size(); ++r) {
      const Result& result = of.results[r];
      if (result.kind == Result::Kind::Parameter && !same(parameters[result.index], results[r])) {
        device_.copy(results[r], parameters[result.index]);
      } else if (result.kind == Result::Kind::Argument) {
        device_.copy(results[r], {run(region).arena.get(), kAlignment * result.index, results[r].bytes});
      } else if (const int leaf = updated_leaf(region, result); leaf >= 0) {
        const BufferPart& before = parameters[of.leaves[static_cast<size_t>(leaf)]];
        if (!same(before, results[r])) device_.copy(results[r], before);
      }
    }
  }
  // Of a result of which launches write a part: the leaf that has the rest; -1: they write all of it.
  int updated_leaf(size_t region, const Result& result) const {
    const bool written = result.kind == Result::Kind::Output && !result.repeats;
    return written ? plan(region).outputs[result.index].updated_leaf : -1;
  }
  void copy_after(size_t region, std::span<const BufferPart> results) {
    const RegionPlan& of = step_.regions[region];
    for (size_t r = 0; r < of.results.size(); ++r)
      if (of.results[r].kind == Result::Kind::Output && of.results[r].repeats)
        device_.copy(results[r], memory_of_output(region, of.results[r].index, results));
  }

  void check(size_t region) {
    if (!plan(region).checks.empty()) report_checks(plan(region), *run(region).arena, run(region).memory);
  }

  // The next of the buffers that are kept from run to run.
  BufferPart buffer(uint64_t bytes) {
    if (next_ == run_.buffers.size()) run_.buffers.emplace_back();
    std::shared_ptr<DeviceBuffer>& buffer = run_.buffers[next_++];
    if (!buffer || buffer->bytes() < bytes) {
      buffer.reset();
      buffer = device_.allocate(bytes);
    }
    return {buffer.get(), 0, bytes};
  }

  // What a bool in memory says.
  bool holds(const BufferPart& flag) {
    uint8_t value = 0;
    device_.synchronize();
    device_.copy_to_host(&value, *flag.buffer, 1);
    return value != 0;
  }

 private:
  static bool same(const BufferPart& a, const BufferPart& b) { return a.buffer == b.buffer && a.offset == b.offset; }
  const BufferPart& memory_of_output(size_t region, size_t output, std::span<const BufferPart> results) const {
    const RegionPlan& of = step_.regions[region];
    for (size_t r = 0; r < of.results.size(); ++r)
      if (of.results[r].kind == Result::Kind::Output && of.results[r].index == output && !of.results[r].repeats)
        return results[r];
    HD_ASSERT(false, "nobody writes output ", output);
    return results[0];
  }

  Backend& device_;
  const ControlStep& step_;
  RunMemory& around_;
  ControlRun& run_;
  size_t next_ = 0;
};

// A value that is stacked, round by round: a part of its memory, or a buffer in between where parts are not aligned.
struct Stack {
  BufferPart whole, part;
  uint64_t bytes = 0;  // of one round
  bool direct = false;

  BufferPart at(int64_t round) const {
    return {whole.buffer, whole.offset + static_cast<uint64_t>(round) * bytes, bytes};
  }
};

class LoopRun {
 public:
  LoopRun(const Plan& plan, const ControlStep& step, std::span<const BufferPart> buffers, RunMemory& around,
          ControlRun& run)
      : plan_(plan),
        step_(step),
        body_(step.regions[0]),
        around_(around),
        run_(run),
        regions_(plan, step, around, run) {
    const size_t inputs =
        buffers.size() - static_cast<size_t>(std::ranges::count_if(step.written, [](int w) { return w >= 0; }));
    inputs_.assign(buffers.begin(), buffers.begin() + static_cast<std::ptrdiff_t>(inputs));
    outputs_ = buffers.subspan(inputs);
  }

  void run() {
    length_ = step_.conditional ? 0 : static_cast<int64_t>(size(step_.length));
    const std::vector<BufferPart> inputs = inputs_;
    if (step_.conditional)
      inputs_.insert(inputs_.begin() + static_cast<std::ptrdiff_t>(step_.carried - 1), regions_.buffer(1));
    provide();
    if (!step_.conditional && length_ == 0) return finish(-1);
    together_ = regions_.device().records() && !copies() && !is_timed();
    if (step_.conditional && run_alone(inputs)) return finish(0);
    if (step_.conditional && !begins(inputs)) return finish(-1);
    begin_rounds();
    const int64_t rounds = step_.conditional ? run_while() : run_all();
    regions_.check(0);
    finish(rounds - 1);
  }

 private:
  // Both return the number of rounds.
  int64_t run_all() {
    constexpr int64_t kTogether = 256;
    for (int64_t round = 0; round < length_;) {
      const int64_t count = together_ ? std::min(kTogether, length_ - round) : 1;
      take_some(round, count);
      round += count;
    }
    return length_;
  }
  int64_t run_while() {
    int64_t round = 0;
    for (int64_t ahead = 1;; ahead = std::min(2 * ahead, step_.ahead)) {
      take_some(round, ahead);
      round += ahead;
      const bool again = regions_.holds(written_in(step_.carried - 1, round - 1));
      regions_.check(0);
      if (!again) return round;
    }
  }

  // A loop with a condition that the device goes through by itself: the condition and the first round, then two rounds
  // at a time, so that its values end where those of the first one do. False: it cannot, and nothing has been done.
  bool run_alone(std::span<const BufferPart> inputs) {
    const size_t flag = step_.carried - 1;
    const BufferPart begins[] = {inputs_[flag]};
    const Result& of_condition = step_.regions[1].results[0];
    // Nobody could stop it.
    if (may_be_interrupted()) return false;
    if (!together_ || step_.ahead < 2 || is_fixed(flag) || of_condition.kind != Result::Kind::Output ||
        regions_.updated_leaf(1, of_condition) >= 0 || !regions_.plan(1).checks.empty() || has_control(1))
      return false;
    regions_.begin(1);
    const Bound condition = regions_.bind(1, inputs, begins);
    begin_rounds();
    std::vector<Submission> first = submissions(1, condition), rounds;
    std::ranges::copy(submissions(0, bound_[prepare(0)]), std::back_inserter(first));
    for (int64_t round = 1; round <= 2; ++round)
      std::ranges::copy(submissions(0, bound_[prepare(round)]), std::back_inserter(rounds));
    return regions_.device().launch_while(first, rounds, written_in(flag, 0), run_.alone);
  }

  bool has_control(size_t region) const {
    return std::ranges::any_of(regions_.plan(region).launches, [](const Launch& l) { return l.control != nullptr; });
  }

  std::vector<Submission> submissions(size_t region, const Bound& bound) const {
    std::vector<Submission> launches;
    std::span<const LaunchSegment> rest = bound.segments;
    for (const Launch& launch : regions_.plan(region).launches) {
      launches.push_back({launch.executable.get(), rest.first(launch.segments.size())});
      rest = rest.subspan(launch.segments.size());
      count_launch(launch);
    }
    return launches;
  }

  void begin_rounds() {
    regions_.begin(0);
    keep_packed();
  }

  // Whether rounds are more than launches.
  bool copies() const {
    auto is_copied = [](const Stack& stack) { return !stack.direct; };
    auto is_launched = [](const Result& result) { return result.kind == Result::Kind::Output && !result.repeats; };
    for (size_t r = 0; r < body_.results.size(); ++r)
      if ((!is_launched(body_.results[r]) && !(r < step_.carried && is_fixed(r))) ||
          regions_.updated_leaf(0, body_.results[r]) >= 0)
        return true;
    return std::ranges::any_of(stacked_, is_copied) || std::ranges::any_of(given_, is_copied) || has_control(0);
  }

  // Rounds that a device is given at once.
  void take_some(int64_t first, int64_t count) {
    if (!together_) {
      for (int64_t round = first; round < first + count; ++round) {
        interruption_point();
        take(round);
      }
      return;
    }
    interruption_point();
    std::vector<Bound> rounds;
    std::vector<Submission> launches;
    for (int64_t round = first; round < first + count; ++round) {
      const Way way = prepare(round);
      Bound& own = rounds.emplace_back(bound_[way]);
      for (LaunchSegment& segment : own.segments)
        segment.buffers = {own.buffers.data() + (segment.buffers.data() - bound_[way].buffers.data()),
                           segment.buffers.size()};
    }
    for (const Bound& own : rounds) std::ranges::copy(submissions(0, own), std::back_inserter(launches));
    if (next_recording_ == run_.recordings.size()) run_.recordings.emplace_back();
    regions_.device().launch_all(launches, run_.recordings[next_recording_]);
    // Those of a condition come again and again: the first ones grow, all others are the same.
    if (!step_.conditional || count < step_.ahead) ++next_recording_;
  }

  // How a round is bound: the first one reads the initial values; others write one buffer or the other.
  enum Way { kFirst, kToResult, kToOther, kWays };

  uint64_t size(const Expr& e) const { return size_now(e, plan_, around_.symbols); }

  bool is_fixed(size_t carried) const {
    const Result& result = body_.results[carried];
    return result.kind == Result::Kind::Nothing || (result.kind == Result::Kind::Parameter && result.index == carried);
  }

  // Memory for the results of all rounds.
  void provide() {
    for (size_t r = 0; r < step_.carried; ++r) {
      const uint64_t bytes = size(step_.bytes[r]);
      const int written = step_.written[r];
      results_.push_back(written >= 0 ? BufferPart{outputs_[static_cast<size_t>(written)].buffer,
                                                   outputs_[static_cast<size_t>(written)].offset, bytes}
                                      : regions_.buffer(bytes));
      const bool turns = !body_.results[r].in_place && !is_fixed(r) && (step_.conditional || length_ > 1);
      others_.push_back(turns ? regions_.buffer(bytes) : results_[r]);
      take_turns_ = take_turns_ || turns;
    }
    for (size_t i = 0; i < step_.stacked; ++i)
      stacked_.push_back(stack(inputs_[step_.carried + i], size(step_.part_bytes[i])));
    for (size_t r = step_.carried; r < step_.carried + step_.outputs; ++r) {
      const uint64_t bytes = size(step_.bytes[r]);
      const int written = step_.written[r];
      const BufferPart to = written >= 0
                                ? outputs_[static_cast<size_t>(written)]
                                : regions_.buffer(bytes * static_cast<uint64_t>(std::max<int64_t>(length_, 1)));
      given_.push_back(stack(to, bytes));
    }
  }

  Stack stack(const BufferPart& whole, uint64_t bytes) {
    Stack result{whole, {}, bytes, bytes % kAlignment == 0};
    if (!result.direct) result.part = regions_.buffer(bytes);
    return result;
  }

  // Captured values are packed in the first round, for all of them.
  void keep_packed() {
    RunMemory& memory = regions_.run(0).memory;
    const Plan& body = regions_.plan(0);
    memory.kept.assign(body.packings.size(), {});
    run_.packed.resize(body.packings.size());
    if (!step_.conditional && length_ < 2) return;
    for (size_t k = 0; k < body.packings.size(); ++k) {
      const PlanPacking& packing = body.packings[k];
      if (body_.leaves[static_cast<size_t>(packing.leaf)] < step_.carried + step_.stacked) continue;
      if (!run_.packed[k] || run_.packed[k]->bytes() < packing.bytes) {
        run_.packed[k].reset();
        run_.packed[k] = regions_.device().allocate(packing.bytes);
      }
      memory.kept[k].packed = run_.packed[k];
    }
  }

  // Whether there is a first round.
  bool begins(std::span<const BufferPart> inputs) {
    regions_.begin(1);
    const BufferPart to[] = {inputs_[step_.carried - 1]};
    regions_.copy_before(1, inputs, to);
    regions_.launch(1, regions_.bind(1, inputs, to));
    const bool result = regions_.holds(to[0]);
    regions_.check(1);
    return result;
  }

  Way way_of(int64_t round) const {
    if (round == 0) return kFirst;
    return goes_to_result(round) ? kToResult : kToOther;
  }
  // The last round has to. Of a loop with a condition nobody knows which it is.
  bool goes_to_result(int64_t round) const {
    if (!take_turns_) return true;
    return step_.conditional ? round % 2 == 0 : (length_ - 1 - round) % 2 == 0;
  }
  BufferPart written_in(size_t carried, int64_t round) const {
    if (is_fixed(carried)) return inputs_[carried];
    return goes_to_result(round) ? results_[carried] : others_[carried];
  }

  void bind(Way way, int64_t round) {
    parameters_[way].assign(inputs_.begin(), inputs_.end());
    std::vector<BufferPart>& results = round_results_[way];
    for (size_t r = 0; r < step_.carried; ++r) {
      if (round > 0) parameters_[way][r] = written_in(r, round - 1);
      results.push_back(written_in(r, round));
    }
    for (size_t i = 0; i < step_.stacked; ++i) parameters_[way][step_.carried + i] = part(stacked_[i], 0);
    for (const Stack& given : given_) results.push_back(part(given, 0));
    RunMemory& memory = regions_.run(0).memory;
    for (RunMemory::Kept& kept : memory.kept) kept.ready = kept.packed && round > 0;
    bound_[way] = regions_.bind(0, parameters_[way], results);
    find_moving(way);
  }

  static BufferPart part(const Stack& stack, int64_t round) { return stack.direct ? stack.at(round) : stack.part; }

  // Buffers of launches that are slices of something stacked.
  struct Moving {
    size_t buffer;
    const Stack* stack;
  };
  void find_moving(Way way) {
    moving_[way].clear();
    size_t buffer = 0;
    for (const Launch& launch : regions_.plan(0).launches)
      for (const Segment& segment : launch.segments)
        for (const Slot& slot : segment.slots) {
          const Stack* stack = stack_of(slot);
          if (stack && stack->direct) moving_[way].push_back({buffer, stack});
          ++buffer;
        }
  }
  const Stack* stack_of(const Slot& slot) const {
    const auto index = static_cast<size_t>(slot.index);
    if (slot.kind == Slot::Kind::Leaf) {
      const size_t parameter = body_.leaves[index];
      const bool stacked = parameter >= step_.carried && parameter < step_.carried + step_.stacked;
      return stacked ? &stacked_[parameter - step_.carried] : nullptr;
    }
    if (slot.kind != Slot::Kind::Output) return nullptr;
    for (size_t r = step_.carried; r < step_.carried + step_.outputs; ++r)
      if (body_.results[r].kind == Result::Kind::Output && body_.results[r].index == index && !body_.results[r].repeats)
        return &given_[r - step_.carried];
    return nullptr;
  }

  int64_t place_of(int64_t round) const { return step_.reverse ? length_ - 1 - round : round; }

  // The launches of a round, with slices in their places.
  Way prepare(int64_t round) {
    const Way way = way_of(round);
    if (round_results_[way].empty()) bind(way, round);
    for (const Moving& moving : moving_[way]) bound_[way].buffers[moving.buffer] = moving.stack->at(place_of(round));
    return way;
  }

  void take(int64_t round) {
    const Way way = prepare(round);
    const int64_t place = place_of(round);
    for (size_t i = 0; i < stacked_.size(); ++i) {
      if (stacked_[i].direct)
        parameters_[way][step_.carried + i] = stacked_[i].at(place);
      else
        regions_.device().copy(stacked_[i].part, stacked_[i].at(place));
    }
    for (size_t r = 0; r < given_.size(); ++r)
      if (given_[r].direct) round_results_[way][step_.carried + r] = given_[r].at(place);
    regions_.copy_before(0, parameters_[way], round_results_[way]);
    regions_.launch(0, bound_[way]);
    regions_.copy_after(0, round_results_[way]);
    for (const Stack& given : given_)
      if (!given.direct) regions_.device().copy(given.at(place), given.part);
  }

  // Carried values that are not where the results are expected. `last`: the last round; -1: there was none.
  void finish(int64_t last) {
    for (size_t r = 0; r < step_.carried; ++r) {
      if (step_.written[r] < 0) continue;
      const BufferPart from = last < 0 ? inputs_[r] : written_in(r, last);
      if (from.buffer != results_[r].buffer || from.offset != results_[r].offset)
        regions_.device().copy(results_[r], from);
    }
  }

  const Plan& plan_;
  const ControlStep& step_;
  const RegionPlan& body_;
  RunMemory& around_;
  ControlRun& run_;
  Regions regions_;
  std::vector<BufferPart> inputs_;
  std::span<const BufferPart> outputs_;
  int64_t length_ = 0;
  std::vector<BufferPart> results_, others_;  // of carried values
  bool take_turns_ = false;
  std::vector<Stack> stacked_, given_;
  bool together_ = false;
  size_t next_recording_ = 0;
  std::array<Bound, kWays> bound_;
  std::array<std::vector<BufferPart>, kWays> parameters_, round_results_;
  std::array<std::vector<Moving>, kWays> moving_;
};

// One of two branches.
void run_condition(const Plan& plan, const ControlStep& step, std::span<const BufferPart> buffers, RunMemory& around,
                   ControlRun& run) {
  const size_t wanted = static_cast<size_t>(std::ranges::count_if(step.written, [](int w) { return w >= 0; }));
  std::span<const BufferPart> inputs = buffers.first(buffers.size() - wanted), outputs = buffers.last(wanted);
  Regions regions(plan, step, around, run);
  uint8_t value = 0;
  plan.device->synchronize();
  const BufferPart flag = regions.buffer(kAlignment);
  plan.device->copy({flag.buffer, 0, 1}, inputs[0]);
  plan.device->synchronize();
  plan.device->copy_to_host(&value, *flag.buffer, 1);
  const size_t branch = value != 0 ? 0 : 1;
  std::vector<BufferPart> results;
  for (size_t r = 0; r < step.written.size(); ++r) {
    const uint64_t bytes = size_now(step.bytes[r], plan, around.symbols);
    const int written = step.written[r];
    results.push_back(written >= 0 ? BufferPart{outputs[static_cast<size_t>(written)].buffer,
                                                outputs[static_cast<size_t>(written)].offset, bytes}
                                   : regions.buffer(bytes));
  }
  std::span<const BufferPart> parameters = inputs.subspan(1);
  regions.begin(branch);
  regions.copy_before(branch, parameters, results);
  regions.launch(branch, regions.bind(branch, parameters, results));
  regions.copy_after(branch, results);
  regions.check(branch);
}

}  // namespace

void run_control(const Plan& plan, size_t number, std::span<const BufferPart> buffers, RunMemory& memory) {
  const ControlStep& step = *plan.launches[number].control;
  std::shared_ptr<ControlRun>& run = memory.control[number];
  if (!run) run = std::make_shared<ControlRun>();
  if (step.loop)
    LoopRun(plan, step, buffers, memory, *run).run();
  else
    run_condition(plan, step, buffers, memory, *run);
}

}  // namespace heddle
