#include "fuzz/thread_world.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "base/error.h"

namespace heddle::fuzz {
namespace {

[[noreturn]] void wrong(const std::string& what) { throw std::runtime_error(what); }

double only_value(const Tensor& x, const std::string& what) {
  std::vector<double> elements = x.to_vector<double>();
  for (double each : elements)
    if (each != elements[0]) wrong(text(what, " is torn: it holds ", elements[0], " and ", each));
  return elements.at(0);
}

// Of all tensors.
double only_value(const std::vector<Tensor>& tensors, const std::string& what) {
  double first = only_value(tensors.at(0), what);
  for (const Tensor& each : tensors)
    if (double value = only_value(each, what); value != first)
      wrong(text(what, " is of several steps: ", first, " and ", value));
  return first;
}
std::vector<Tensor> without_names(const TensorMap& tensors) {
  std::vector<Tensor> result;
  for (const auto& [name, tensor] : tensors) result.push_back(tensor);
  return result;
}

Tensor zeros_of_its_own(Random& random) {
  static const Dims kShapes[] = {{}, {7}, {64}, {64}, {5, 6}, {1000}};
  static const DType kTypes[] = {kF32, kF64, kI64};
  return zeros(kShapes[random() % std::size(kShapes)], kTypes[random() % std::size(kTypes)]).clone().realize();
}

}  // namespace

World::World(uint64_t seed) : seed_(seed) {
  Random random(seed);
  threads_ = 2 + static_cast<int>(random() % 4);
  make_groups(random);
  make_functions(random);
  weight_ = ones({16}).clone().realize().requires_grad_();
  net_ = nn::Sequential(nn::Linear(8, 8), nn::Dropout(0.5), nn::Linear(8, 8));
  net_input_ = ones({2, 8}).clone().realize();
  forward_ = jit([this](Tensor x) { return net_(x); });
}

void World::make_groups(Random& random) {
  for (size_t count = 1 + random() % 3; groups_.size() < count;) {
    auto group = std::make_unique<Group>();
    group->plain = random() % 3 == 0;
    group->loaded = random() % 3 == 0;
    for (size_t size = group->plain ? 1 : 1 + random() % 6; group->tensors.size() < size;)
      group->tensors.push_back(zeros_of_its_own(random));
    groups_.push_back(std::move(group));
  }
}

// Each has its tensors in an order of its own, closed over or as arguments, and gives everything that it has seen.
void World::make_functions(Random& random) {
  for (size_t count = 2 + random() % 3; functions_.size() < count;) {
    auto function = std::make_unique<Function>();
    std::vector<Tensor> stepped, all;
    bool only_looks = functions_.size() % 2 == 1;
    for (size_t g = 0; g < groups_.size(); ++g) {
      bool steps = !only_looks && random() % 2 == 0, last = g + 1 == groups_.size();
      if (!steps && random() % 2 == 0 && !(last && all.empty() && stepped.empty())) continue;
      (steps ? function->steps : function->reads).push_back(g);
      for (const Tensor& each : groups_[g]->tensors) (steps ? stepped : all).push_back(each);
    }
    std::shuffle(stepped.begin(), stepped.end(), random);
    std::shuffle(all.begin(), all.end(), random);
    const size_t changed = stepped.size();
    all.insert(all.begin(), stepped.begin(), stepped.end());
    function->draws = random() % 2 == 0;
    Generator* generator = function->draws ? &generator_ : nullptr;
    // Results: the values before the step, and a random number.
    auto body = [changed, generator](std::vector<Tensor>& tensors) {
      TensorList results;
      for (const Tensor& each : tensors) results.push_back(each + 0);
      for (size_t i = 0; i < changed; ++i) tensors[i] += 1;
      if (generator) results.push_back(uniform({}, 0, 1, kF64, *generator));
      return results;
    };
    auto use = [&](auto captured) {
      auto f = std::make_shared<decltype(captured)>(std::move(captured));
      function->call = [f](const std::vector<Tensor>& tensors) {
        auto mine = *f;  // copies may be called, too
        return mine(tensors);
      };
      function->look = [f] {
        for (const JitPlan& plan : f->plans()) (void)to_string(plan);
      };
      function->clear = [f] { f->clear(); };
    };
    function->arguments = all;
    function->closes = random() % 2 == 0;
    if (function->closes)
      use(jit([body, all](const std::vector<Tensor>&) {
        std::vector<Tensor> own = all;
        return body(own);
      }));
    else
      use(jit([body](std::vector<Tensor> tensors) { return body(tensors); }));
    functions_.push_back(std::move(function));
  }
}

void World::see(Seen& seen, size_t group, double value) const {
  if (groups_[group]->loaded) return;
  if (value < seen.last[group]) wrong(text("group ", group, " went from ", seen.last[group], " back to ", value));
  seen.last[group] = value;
}

void World::step(Random& random, Seen& seen) {
  const Function& function = *functions_[random() % functions_.size()];
  const std::vector<Tensor> given = function.closes ? std::vector<Tensor>() : function.arguments;
  TensorList results;
  // Looking at results takes longer than calls do: most are not looked at.
  for (size_t calls = function.steps.empty() ? 1 : 1 + random() % 40; calls > 0; --calls) {
    for (size_t g : function.steps) ++groups_[g]->steps;
    if (function.draws) ++draws_;
    results = function.call(given);
  }
  if (function.draws) {
    double drawn = results.back().item<double>();
    if (drawn < 0 || drawn >= 1) wrong(text("a random number is ", drawn));
  }
  for (const std::vector<size_t>* list : {&function.steps, &function.reads})
    for (size_t g : *list) {
      std::vector<Tensor> before;
      for (size_t i = 0; i < function.arguments.size(); ++i)
        for (const Tensor& each : groups_[g]->tensors)
          if (&each.slot() == &function.arguments[i].slot()) before.push_back(results[i]);
      see(seen, g, only_value(before, text("what a call saw of group ", g)));
    }
  std::lock_guard guard(pool_lock_);
  pool_.push_back(results[random() % results.size()]);
}

void World::step_plainly(Random& random) {
  Group& group = *groups_[any_group(random)];
  if (!group.plain) return;
  ++group.steps;
  Tensor h = group.tensors[0];
  h += 1;
  if (random() % 2) h.realize();
}

void World::read(Random& random, Seen& seen) {
  size_t g = any_group(random);
  const std::vector<Tensor>& tensors = groups_[g]->tensors;
  const Tensor h = tensors[random() % tensors.size()];
  switch (random() % 6) {
    case 0: see(seen, g, only_value(h, "to_vector()")); break;
    case 1: see(seen, g, only_value(h.clone(), "clone()")); break;
    case 2: (void)to_string(h); break;
    case 3:
      if (h.rank() > 0) see(seen, g, only_value(h.with_dim(0, dim("n", 1, 100000)), "with_dim()"));
      break;
    case 4: see(seen, g, h.max().item<double>()); break;
    case 5: see(seen, g, only_value(h + 0, "an operator's result")); break;
  }
}

void World::hold(Random& random) {
  const std::vector<Tensor>& tensors = groups_[any_group(random)]->tensors;
  Tensor copy = tensors[random() % tensors.size()].clone();
  double before = only_value(copy, "a copy");
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
  if (only_value(copy, "a copy") != before) wrong("a copy changed");
}

void World::take_snapshot(Random& random, Seen& seen) {
  size_t g = any_group(random);
  see(seen, g, only_value(snapshot(groups_[g]->tensors), text("a snapshot of group ", g)));
}

void World::save(Random& random, Seen& seen) {
  size_t g = any_group(random);
  std::string path = folder_.file(std::to_string(files_++ % 8) + "-" + std::to_string(g));
  if (random() % 2)
    groups_[g]->save(path);
  else
    save_safetensors(path, groups_[g]->state());
  // Another thread may have written over it: that is whole, too.
  double value = only_value(without_names(load_safetensors(path).tensors), text("a file of group ", g));
  if (!groups_[g]->loaded && value > static_cast<double>(groups_[g]->steps)) wrong("a file is ahead of all steps");
  (void)seen;
}

void World::load(Random& random) {
  Group& group = *groups_[any_group(random)];
  if (!group.loaded) return;
  TensorMap values = snapshot(group.state());
  double all = only_value(without_names(values), "a snapshot of a module");
  if (random() % 2)
    for (auto& [name, tensor] : values) tensor = (tensor * 0 + all).cast(tensor.dtype());
  group.load_state(values);
}

void World::pass_handles(Random& random) {
  Tensor one;
  std::vector<Tensor> dropped;
  {
    std::lock_guard guard(pool_lock_);
    if (pool_.empty()) return;
    one = pool_[random() % pool_.size()];
    if (pool_.size() > 20) dropped.swap(pool_);
  }
  double before = only_value(one, "a result");
  dropped.clear();
  if (only_value(one, "a result") != before) wrong("a result changed");
}

void World::differentiate() {
  ++backwards_;
  (weight_ * 3).sum().backward();
  double sum = only_value(*weight_.grad(), "a gradient");
  if (std::fmod(sum, 3) != 0 || sum < 3) wrong(text("a gradient of ", sum));
}

void World::draw(Random& random) {
  ++draws_;
  if (random() % 2) {
    double drawn = uniform({}, 0, 1, kF64, generator_).item<double>();
    if (drawn < 0 || drawn >= 1) wrong(text("a random number is ", drawn));
  } else if (generator_.next_key().to_vector<uint32_t>()[0] != 11) {
    wrong("a key of another seed");
  }
}

void World::use_net(Random& random) {
  if (random() % 4 == 0) net_.train(random() % 2 == 0);
  Tensor y = random() % 2 ? forward_(net_input_) : net_(net_input_);
  for (double each : y.to_vector<double>())
    if (!std::isfinite(each)) wrong("a module gives no number");
}

void World::look_at_functions(Random& random) {
  const Function& function = *functions_[random() % functions_.size()];
  if (random() % 20)
    function.look();
  else
    function.clear();
}

void World::record_profile() {
  Profile p = profile();
  (void)(ones({64}) * 2).sum().item<double>();
  p.stop();
  (void)p.result();
}

std::vector<World::Action> World::actions(Seen& seen) {
  return {
      {"step", [&](Random& r) { step(r, seen); }},
      {"step plainly", [&](Random& r) { step_plainly(r); }},
      {"read", [&](Random& r) { read(r, seen); }},
      {"hold", [&](Random& r) { hold(r); }},
      {"snapshot", [&](Random& r) { take_snapshot(r, seen); }},
      {"save", [&](Random& r) { save(r, seen); }},
      {"load", [&](Random& r) { load(r); }},
      {"pass handles", [&](Random& r) { pass_handles(r); }},
      {"differentiate", [&](Random&) { differentiate(); }},
      {"draw", [&](Random& r) { draw(r); }},
      {"use a module", [&](Random& r) { use_net(r); }},
      {"look at functions", [&](Random& r) { look_at_functions(r); }},
      {"profile", [&](Random&) { record_profile(); }},
  };
}

void World::run(double seconds) {
  std::atomic<bool> stop{false};
  std::mutex lock;
  std::string first;
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::vector<std::thread> threads;
  for (int t = 0; t < threads_; ++t)
    threads.emplace_back([&, t] {
      Random random(seed_ * 1000 + static_cast<uint64_t>(t));
      Seen seen{std::vector<double>(groups_.size(), 0)};
      std::vector<Action> all = actions(seen);
      // A thread does a few kinds of things, some more often than others.
      std::vector<Action> mine{all[t < 2 ? 0 : random() % all.size()]};
      for (size_t more = 1 + random() % 4; more > 0; --more) mine.push_back(all[random() % all.size()]);
      while (!stop && std::chrono::steady_clock::now() < end) {
        const Action& action = mine[std::min(random() % mine.size(), random() % mine.size())];
        try {
          action.act(random);
        } catch (const std::exception& error) {
          std::lock_guard guard(lock);
          if (first.empty()) first = text(action.name, ": ", error.what());
          stop = true;
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (!first.empty()) wrong(first);
  check_total();
}

// Nothing was lost.
void World::check_total() const {
  for (size_t g = 0; g < groups_.size(); ++g) {
    double value = only_value(groups_[g]->tensors, text("group ", g));
    if (!groups_[g]->loaded && value != static_cast<double>(groups_[g]->steps))
      wrong(text("group ", g, " is ", value, " after ", groups_[g]->steps.load(), " steps"));
  }
  if (auto gradient = weight_.grad();
      gradient && only_value(*gradient, "the gradient") != 3.0 * static_cast<double>(backwards_))
    wrong(text("the gradient is ", gradient->to_vector<double>()[0], " after ", backwards_.load(), " times 3"));
  if (generator_.state().draws != static_cast<uint64_t>(draws_))
    wrong(text(generator_.state().draws, " draws of ", draws_.load()));
}

}  // namespace heddle::fuzz
