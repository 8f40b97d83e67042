#include "graph/control.h"

#include <heddle/control.h>
#include <heddle/ops.h>

#include <algorithm>

#include "base/error.h"
#include "graph/graph.h"
#include "tensor/build.h"
#include "tensor/recording.h"

namespace heddle::detail {
namespace {

// A function is called once with placeholders. What it read from outside, and the random numbers that it drew, are
// known afterwards.
class RegionRecorder : public Recorder {
 public:
  explicit RegionRecorder(const char* op) : Recorder(op) { is_region_ = true; }

  const std::vector<NodeRef>& read() const { return read_; }
  const std::vector<Draw>& draws() const { return draws_; }
};

// A generator that functions draw from: how often in a round, and the places of their draws.
struct Drawn {
  Generator* generator;
  uint64_t per_round = 0;
  std::vector<std::pair<NodeRef, uint64_t>> keys;  // placeholders, and their numbers within a round
};

// Functions of the user's as regions.
class Recording {
 public:
  explicit Recording(const char* op) : op_(op), first_(next_placeholder_number()) {}

  const Region& record(std::vector<NodeRef> parameters, const std::function<TensorList(const TensorList&)>& f) {
    Region& region = regions_.emplace_back();
    region.parameters = std::move(parameters);
    RegionRecorder recorder(op_);
    {
      TensorList arguments = to_tensors(region.parameters);
      TensorList given = f(arguments);
      region.results = to_nodes(given);
    }
    recorder.refuse_kept(first_);
    for (const NodeRef& value : recorder.read()) {
      outside_.insert(value.get());
      alive_.push_back(value);
    }
    for (const auto& draw : recorder.draws()) {
      auto known =
          std::find_if(drawn_.begin(), drawn_.end(), [&](const Drawn& d) { return d.generator == draw.generator; });
      if (known == drawn_.end()) known = drawn_.insert(drawn_.end(), Drawn{draw.generator});
      known->per_round = std::max(known->per_round, draw.first + draw.draws);
      known->keys.emplace_back(draw.key, draw.first);
    }
    return region;
  }

  std::vector<Region>& regions() { return regions_; }
  bool draws() const { return !drawn_.empty(); }

  // Puts keys in the places of draws, for this many rounds. `round`: its number, a u64; null: there is one only.
  void make_keys(uint64_t rounds, const NodeRef& round) {
    std::unordered_map<const Node*, NodeRef> with;
    for (const Drawn& drawn : drawn_) {
      const Tensor first = drawn.generator->next_keys(drawn.per_round * rounds);
      outside_.insert(first.node().get());
      alive_.push_back(first.node());
      const Tensor words = cast(first, kU64);
      auto word = [&](int64_t i) { return reshape(slice(words, 0, i, i + 1), Dims{}); };
      const Tensor before = add(word(1), mul(word(3), full({}, Operand(int64_t{1} << 32), kU64)));
      for (const auto& [key, number] : drawn.keys) {
        Tensor now = add(before, full({}, Operand(static_cast<int64_t>(number)), kU64));
        if (round) now = add(now, mul(Tensor(round), full({}, Operand(static_cast<int64_t>(drawn.per_round)), kU64)));
        const Tensor all = stack({word(0), now, word(2), shift_right(now, 32)}, 0);
        with[key.get()] = cast(bitwise_and(all, 0xffffffff), kU32).node();
      }
    }
    if (with.empty()) return;
    for (Region& region : regions_) region.results = replace(region.results, with);
  }

  // Whatever the regions use of the outside becomes parameters; `inputs` gets what they stand for.
  std::shared_ptr<Control> close(bool hoist, std::vector<NodeRef>& inputs) {
    std::vector<NodeRef> taken = close_regions(regions_, outside_, hoist);
    for (const Region& region : regions_)
      for (const Node* node : topological(region.results))
        if (node->op == NodeOp::To)
          throw ValueError(text(op_, ": a tensor ", node->dtype, node->shape, " goes to ", device_name(node->device),
                                " inside: what runs again and again stays on one device; use to() outside"));
    inputs.insert(inputs.end(), taken.begin(), taken.end());
    auto control = std::make_shared<Control>();
    control->regions = std::move(regions_);
    return control;
  }

 private:
  const char* op_;
  const int64_t first_;
  std::vector<Region> regions_;
  std::vector<Drawn> drawn_;
  std::unordered_set<const Node*> outside_;
  std::vector<NodeRef> alive_;
};

std::vector<NodeRef> stand_ins(std::span<const NodeRef> values) {
  std::vector<NodeRef> result;
  for (const NodeRef& value : values) result.push_back(placeholder_like(*value));
  return result;
}

void check_predicate(const char* op, const char* what, const NodeRef& predicate) {
  if (predicate->dtype != kBool)
    throw DTypeError(text(op, ": ", what, " is ", describe(predicate), ", not a bool: compare it with something"));
  if (!predicate->shape.empty())
    throw ShapeError(
        text(op, ": ", what, " is ", describe(predicate), ", not a bool without axes: all() or any() makes one"));
}

void check_carried(const char* op, std::span<const NodeRef> before, std::span<const NodeRef> after) {
  const size_t ours = op == std::string_view("fori_loop") ? 1 : 0;  // the counter
  if (before.size() != after.size())
    throw ValueError(text(op, ": the body gives ", after.size() - ours, " carried values for ", before.size() - ours));
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i]->dtype != after[i]->dtype)
      throw DTypeError(text(op, ": the body gives ", describe(after[i]), " for carried value ", i - ours, ", which is ",
                            describe(before[i]), ": a carried value keeps its dtype"));
    if (!(before[i]->shape == after[i]->shape))
      throw ShapeError(text(op, ": the body gives ", describe(after[i]), " for carried value ", i - ours, ", which is ",
                            describe(before[i]), ": a carried value keeps its shape"));
  }
}

TensorList results_of(const NodeRef& node, size_t begin, size_t end) {
  TensorList results;
  for (size_t r = begin; r < end; ++r) results.push_back(Tensor(make_get(node, static_cast<int>(r))));
  return results;
}

NodeRef one_more(const NodeRef& counter) { return add(Tensor(counter), full({}, Operand(1), kU64)).node(); }

// The number of rounds, by what slices are taken of.
Expr length_of(const char* op, std::span<const NodeRef> inputs, const ScanOptions& options) {
  std::optional<Expr> length;
  if (options.length) {
    if (*options.length < 0) throw ValueError(text(op, ": ", *options.length, " rounds"));
    length = Expr(*options.length);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]->shape.empty())
      throw ShapeError(text(op, ": input ", i, " is ", describe(inputs[i]), ", which has no slices"));
    const Expr& size = inputs[i]->shape[0];
    if (length && !(*length == size))
      throw ShapeError(text(op, ": input ", i, ", ", describe(inputs[i]), ", has ", size, " slices; ",
                            i == 0 ? "the length given is " : "others have ", *length));
    length = size;
  }
  if (!length) throw ValueError(text(op, ": say how many rounds there are: there are no inputs to tell by"));
  return *length;
}

uint64_t known_length(const char* op, const Expr& length) {
  std::optional<int64_t> value = known_value(length);
  if (!value) throw ValueError(text(op, ": random numbers in a loop of ", length, " rounds, which has no value"));
  return static_cast<uint64_t>(*value);
}

// Chunks of rounds, each of which is computed again for gradients.
Round scan_in_chunks(const char* op, const RoundFunction& body, const TensorList& carry, const TensorList& inputs,
                     const ScanOptions& options) {
  std::vector<NodeRef> nodes = to_nodes(inputs);
  const Expr length = length_of(op, nodes, options);
  if (!length.is_const()) throw ValueError(text(op, ": recompute_every needs a fixed number of rounds, not ", length));
  const int64_t every = options.recompute_every, chunks = length.value() / every, rest = length.value() % every;
  auto plain = [&](const TensorList& now, const TensorList& part, int64_t rounds) {
    return scanned(op, body, now, part, {.reverse = options.reverse, .length = rounds});
  };
  auto parts = [&](int64_t begin, int64_t end) {
    TensorList result;
    for (const Tensor& x : inputs) result.push_back(slice(x, 0, begin, end));
    return result;
  };
  // What is left over stands behind the chunks.
  Round last{carry, {}};
  if (rest > 0 && options.reverse) last = plain(carry, parts(chunks * every, length.value()), rest);
  TensorList chunked;
  for (const Tensor& x : parts(0, chunks * every)) {
    Dims shape{chunks, every};
    for (size_t i = 1; i < x.shape().size(); ++i) shape.push_back(x.shape()[i]);
    chunked.push_back(reshape(x, shape));
  }
  const size_t carried = carry.size();
  Round all = scanned(op,
                      [&](const TensorList& now, const TensorList& part) {
                        TensorList both = now;
                        both.insert(both.end(), part.begin(), part.end());
                        TensorList given = checkpointed(
                            [&](const TensorList& list) {
                              const auto middle = list.begin() + static_cast<std::ptrdiff_t>(carried);
                              Round round = plain({list.begin(), middle}, {middle, list.end()}, every);
                              round.carry.insert(round.carry.end(), round.outputs.begin(), round.outputs.end());
                              return round.carry;
                            },
                            both);
                        const auto middle = given.begin() + static_cast<std::ptrdiff_t>(carried);
                        return Round{{given.begin(), middle}, {middle, given.end()}};
                      },
                      rest > 0 && options.reverse ? last.carry : carry, chunked,
                      {.reverse = options.reverse, .length = chunks});
  for (Tensor& y : all.outputs) y = flatten(y, 0, 1);
  if (rest == 0) return all;
  if (!options.reverse) last = plain(all.carry, parts(chunks * every, length.value()), rest);
  for (size_t i = 0; i < all.outputs.size(); ++i) all.outputs[i] = cat({all.outputs[i], last.outputs[i]}, 0);
  if (!options.reverse) all.carry = last.carry;
  return all;
}

}  // namespace

TensorList conditional(const Tensor& predicate, const ListFunction& then, const ListFunction& otherwise,
                       const TensorList& operands) {
  std::vector<NodeRef> inputs{predicate.node()};
  check_predicate("cond", "the predicate", inputs[0]);
  const std::vector<NodeRef> given = to_nodes(operands);
  Recording recording("cond");
  recording.record(stand_ins(given), then);
  recording.record(stand_ins(given), otherwise);
  const std::vector<NodeRef>&a = recording.regions()[0].results, &b = recording.regions()[1].results;
  if (a.size() != b.size())
    throw ValueError(text("cond: one branch gives ", a.size(), " tensors, and the other one ", b.size()));
  if (a.empty()) return {};
  for (size_t i = 0; i < a.size(); ++i) {
    const bool same_dtype = a[i]->dtype == b[i]->dtype;
    if (same_dtype && a[i]->shape == b[i]->shape) continue;
    const std::string why =
        text("cond: one branch gives ", describe(a[i]), " for result ", i, ", and the other one ", describe(b[i]));
    if (!same_dtype) throw DTypeError(why);
    throw ShapeError(why);
  }
  recording.make_keys(1, NodeRef());
  inputs.insert(inputs.end(), given.begin(), given.end());
  const size_t count = a.size();
  std::shared_ptr<Control> control = recording.close(false, inputs);
  return results_of(make_cond(inputs, control), 0, count);
}

TensorList loop_while(const std::function<Tensor(const TensorList&)>& condition, const ListFunction& body,
                      const TensorList& carry) {
  // Nobody knows how many rounds there will be: room for this many.
  constexpr uint64_t kRounds = uint64_t{1} << 32;
  std::vector<NodeRef> inputs = to_nodes(carry);
  if (inputs.empty()) throw ValueError("while_loop: nothing is carried, so the condition never changes");
  Recording recording("while_loop");
  check_carried("while_loop", inputs, recording.record(stand_ins(inputs), body).results);
  const std::vector<NodeRef>& holds =
      recording.record(stand_ins(inputs), [&](const TensorList& list) { return TensorList{condition(list)}; }).results;
  check_predicate("while_loop", "the condition", holds[0]);
  const size_t count = inputs.size();
  size_t carried = count;
  if (recording.draws()) {
    NodeRef rounds[] = {make_placeholder(kU64, Shape{}), make_placeholder(kU64, Shape{})};
    for (size_t i = 0; i < 2; ++i) recording.regions()[i].parameters.push_back(rounds[i]);
    recording.regions()[0].results.push_back(one_more(rounds[0]));
    inputs.push_back(make_const(Scalar::of(kU64, 0)));
    ++carried;
    recording.make_keys(kRounds, rounds[0]);
    recording.regions()[1].results = replace(recording.regions()[1].results, {{rounds[0].get(), rounds[1]}});
  }
  std::shared_ptr<Control> control = recording.close(true, inputs);
  control->carried = carried;
  return results_of(make_loop(inputs, control), 0, count);
}

Round scanned(const char* op, const RoundFunction& body, const TensorList& carry, const TensorList& xs,
              const ScanOptions& options) {
  if (options.recompute_every < 0) throw ValueError(text(op, ": recompute_every is ", options.recompute_every));
  if (options.recompute_every > 1) return scan_in_chunks(op, body, carry, xs, options);
  std::vector<NodeRef> inputs = to_nodes(carry);
  const std::vector<NodeRef> stacked = to_nodes(xs);
  const Expr length = length_of(op, stacked, options);
  const size_t count = inputs.size();
  Recording recording(op);
  std::vector<NodeRef> parameters = stand_ins(inputs);
  for (const NodeRef& x : stacked) parameters.push_back(make_placeholder(x->dtype, slice_shape(x->shape), x->device));
  size_t outputs = 0;
  const Region& region = recording.record(parameters, [&](const TensorList& list) {
    const auto middle = list.begin() + static_cast<std::ptrdiff_t>(count);
    Round round = body({list.begin(), middle}, {middle, list.end()});
    std::vector<NodeRef> after = to_nodes(round.carry);
    check_carried(op, inputs, after);
    outputs = round.outputs.size();
    round.carry.insert(round.carry.end(), round.outputs.begin(), round.outputs.end());
    return round.carry;
  });
  if (region.results.empty()) return {};
  size_t carried = count;
  if (recording.draws()) {
    NodeRef round = make_placeholder(kU64, Shape{});
    Region& with_round = recording.regions()[0];
    with_round.parameters.insert(with_round.parameters.begin() + static_cast<std::ptrdiff_t>(count), round);
    with_round.results.insert(with_round.results.begin() + static_cast<std::ptrdiff_t>(count), one_more(round));
    inputs.push_back(make_const(Scalar::of(kU64, 0)));
    ++carried;
    recording.make_keys(known_length(op, length), round);
  }
  inputs.insert(inputs.end(), stacked.begin(), stacked.end());
  std::shared_ptr<Control> control = recording.close(true, inputs);
  control->carried = carried;
  control->stacked = stacked.size();
  control->length = length;
  control->reverse = options.reverse;
  NodeRef loop = make_loop(inputs, control);
  return {results_of(loop, 0, count), results_of(loop, carried, carried + outputs)};
}

TensorList counted(const Operand& begin, const Operand& end,
                   const std::function<TensorList(const Tensor&, const TensorList&)>& body, const TensorList& carry) {
  auto bound = [](const char* what, const Operand& of) -> Tensor {
    Tensor x = of.kind() == Operand::Kind::Tensor ? of.tensor() : full({}, of, kI64);
    NodeRef node = x.node();
    if (is_float(node->dtype) || node->dtype == kBool || !node->shape.empty() || of.kind() == Operand::Kind::Float)
      throw ValueError(text("fori_loop: ", what, " is ", describe(node), ", not a whole number"));
    return cast(x, kI64);
  };
  const Tensor first = bound("begin", begin), last = bound("end", end);
  TensorList all{first};
  all.insert(all.end(), carry.begin(), carry.end());
  auto next = [&](const TensorList& list) {
    TensorList given = body(list[0], {list.begin() + 1, list.end()});
    given.insert(given.begin(), list[0] + 1);
    return given;
  };
  TensorList result;
  if (begin.kind() == Operand::Kind::Tensor || end.kind() == Operand::Kind::Tensor)
    result = loop_while([&](const TensorList& list) { return lt(list[0], last); }, next, all);
  else
    result = scanned("fori_loop", [&](const TensorList& list, const TensorList&) { return Round{next(list), {}}; }, all,
                     {}, {.length = std::max<int64_t>(0, end.integer() - begin.integer())})
                 .carry;
  result.erase(result.begin());
  return result;
}

}  // namespace heddle::detail
