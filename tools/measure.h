// Timing.
#pragma once

#include <functional>
#include <initializer_list>
#include <vector>

namespace heddle::tools {

double now();  // seconds, from some moment

// Seconds that something took, again and again.
struct Samples {
  std::vector<double> seconds;
  double best() const;
  double median() const;
};

// Runs each action once to warm up, then all of them in turn until `seconds` have passed and each has run `least`
// times; with less than no seconds only the warming up is done. Taking turns makes what happens to the machine
// meanwhile happen to all of them.
std::vector<Samples> take_turns(double seconds, int least, std::initializer_list<std::function<void()>> actions);

// How many calls one sample should hold, so that reading the clock costs nothing beside them. Calls it a few times.
int calls_per_sample(const std::function<void()>& action);

// Calls for about `seconds`, at least for one sample of `calls` calls, and adds to `samples` the seconds of a call.
// What ran before has taken the caches and may have put threads to sleep: short calls begin with some that do not
// count.
void take_segment(const std::function<void()>& action, int calls, double seconds, Samples& samples);

}  // namespace heddle::tools
