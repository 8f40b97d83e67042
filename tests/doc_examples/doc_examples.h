// What the test made by scripts/doc_examples.py is written with.
#pragma once

#include <heddle/heddle.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

// Evaluates an example, compares the text of its value with the comment, and notes the kernels it launched.
void check_example(const char* function, const char* code, const char* expected, const std::function<std::string()>& f);
// Says what failed; writes the launches of each function to the path, if there is one. The program's exit status.
int finish(const char* launches_path);

std::string shown(const heddle::Tensor& value);
std::string shown(const std::vector<heddle::Tensor>& values);
std::string shown(const heddle::Dims& values);
std::string shown(bool value);
std::string shown(double value);

// Computes a call's result for its launches.
void note_launches(const char* function, const std::function<heddle::Tensor()>& f);
template <class F>
void count_launches(const char* function, F value) {
  note_launches(function, value);
}
template <class F>
void example(const char* function, const char* code, const char* expected, F value) {
  check_example(function, code, expected, [&] { return shown(value()); });
}
