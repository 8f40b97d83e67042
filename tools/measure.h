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
// times. Taking turns makes what happens to the machine meanwhile happen to all of them.
std::vector<Samples> take_turns(double seconds, int least, std::initializer_list<std::function<void()>> actions);

}  // namespace heddle::tools
