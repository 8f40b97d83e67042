#include "doc_examples.h"

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "graph/control.h"
#include "graph/gradient.h"
#include "runtime/plan.h"

namespace {

int g_examples = 0, g_failures = 0;
std::map<std::string, uint64_t> g_launches;
std::map<std::string, std::string> g_gradients;  // "yes", "no", or nothing when there was no data to tell by
std::string g_function;

using namespace heddle;

// Whether gradients would pass, if all numbers were floats.
bool would_pass(const Node& node, size_t input) {
  switch (node.op) {
    case NodeOp::Scalar: {
      OpRule rule = info(node.scalar_op).rule;
      if (rule == OpRule::Select) return input > 0;
      return rule == OpRule::Arith || rule == OpRule::Float || (rule == OpRule::Order && node.dtype != kBool);
    }
    case NodeOp::Cast: {
      DType from = node.inputs[0]->dtype;
      return from != kBool && node.dtype != kBool && !(is_float(from) && !is_float(node.dtype));
    }
    case NodeOp::Bitcast: return false;
    case NodeOp::Gather: return input == 0;
    case NodeOp::Scatter: return input != 1;
    case NodeOp::Get: return node.inputs[0]->control || node.attrs[0].is_const(0);
    case NodeOp::Loop: return !node.control->condition();
    default: return true;
  }
}

void note_gradient(const NodeRef& value) {
  std::map<const Node*, bool> leads;  // to data, so that gradients pass
  bool data = false;
  std::vector<const Node*> order = differentiable_order(std::span(&value, 1));
  for (const Node* node : order) {
    bool here = node->op == NodeOp::Buffer || node->op == NodeOp::Iota;
    data |= here && is_float(node->dtype);
    std::span<const NodeRef> inputs = differentiable_inputs(*node);
    for (size_t i = 0; i < inputs.size(); ++i) here |= would_pass(*node, i) && leads[inputs[i].get()];
    leads[node] = here;
  }
  std::string& known = g_gradients[g_function];
  // Integers may stand for floats in an example; made of floats, they are all that there is.
  bool made_of_floats = data && !is_float(value->dtype);
  if (leads[value.get()] && !made_of_floats)
    known = "yes";
  else if (known != "yes" && data)
    known = "no";
}

// Line breaks and runs of blanks as one blank.
std::string one_line(const std::string& text) {
  std::string out;
  for (char c : text) {
    bool blank = std::isspace(static_cast<unsigned char>(c));
    if (!blank)
      out += c;
    else if (!out.empty() && out.back() != ' ')
      out += ' ';
  }
  return out;
}

// The same words; numbers may differ in the last digits of f32, because targets with and without fused multiply-add do.
bool same_text(const std::string& got, const std::string& expected) {
  const char *a = got.c_str(), *b = expected.c_str();
  while (*a && *b) {
    char *end_a, *end_b;
    double x = std::strtod(a, &end_a), y = std::strtod(b, &end_b);
    if (end_a != a && end_b != b) {
      bool both_nan = std::isnan(x) && std::isnan(y);
      if (!both_nan && x != y && !(std::fabs(x - y) <= 1e-6 * std::fabs(y))) return false;
      a = end_a;
      b = end_b;
    } else if (*a++ != *b++) {
      return false;
    }
  }
  return *a == *b;
}

}  // namespace

void check_example(const char* function, const char* code, const char* expected,
                   const std::function<std::string()>& f) {
  ++g_examples;
  g_function = function;
  heddle::run_stats() = {};
  std::string got;
  try {
    got = one_line(f());
  } catch (const std::exception& error) {
    got = std::string("exception: ") + error.what();
  }
  g_launches.emplace(function, heddle::run_stats().launches);
  if (same_text(got, one_line(expected))) return;
  ++g_failures;
  std::printf("%s\t%s\n  prints %s\n  the comment says %s\n", function, code, got.c_str(), expected);
}

void note_launches(const char* function, const std::function<heddle::Tensor()>& f) {
  g_function = function;
  heddle::Tensor value = f();
  note_gradient(value.node());
  heddle::run_stats() = {};
  value.realize();
  g_launches.emplace(function, heddle::run_stats().launches);
}

int finish(const char* launches_path) {
  std::printf("doc_examples: %d of %d are right\n", g_examples - g_failures, g_examples);
  if (launches_path) {  // with what is known of gradients
    std::ofstream out(launches_path);
    for (const auto& [name, count] : g_launches) out << name << '\t' << count << '\t' << g_gradients[name] << '\n';
  }
  return g_failures == 0 ? 0 : 1;
}

std::string shown(const heddle::Tensor& value) {
  note_gradient(value.node());
  return heddle::to_string(value);
}
std::string shown(const std::vector<heddle::Tensor>& values) {
  std::string out;
  for (const heddle::Tensor& value : values) out += (out.empty() ? "" : ", ") + shown(value);
  return out;
}
std::string shown(const heddle::Dims& values) {
  std::ostringstream out;
  out << values;
  return out.str();
}
std::string shown(bool value) { return value ? "true" : "false"; }
std::string shown(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}
