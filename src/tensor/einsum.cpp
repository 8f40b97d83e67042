// einsum: reading the equation, choosing the order of products, and multiplying.
#include <algorithm>
#include <bit>
#include <cctype>
#include <limits>
#include <map>
#include <string>

#include "base/error.h"
#include "tensor/contract.h"

namespace heddle {
namespace {

// Letters are labels by their character; the axes of an ellipsis are numbered from the last one.
constexpr int kEllipsisLabel = 256;

struct Equation {
  std::vector<Labels> inputs;
  Labels output;
};

[[noreturn]] void fail(std::string_view equation, const std::string& why) {
  throw ValueError(text("einsum: \"", equation, "\": ", why));
}

struct Term {
  std::string letters;         // without the ellipsis
  size_t ellipsis = SIZE_MAX;  // before which letter it stands
};

Term read_term(std::string_view equation, std::string_view part) {
  Term term;
  for (size_t i = 0; i < part.size(); ++i) {
    char c = part[i];
    if (std::isspace(static_cast<unsigned char>(c))) continue;
    if (part.substr(i, 3) == "...") {
      if (term.ellipsis != SIZE_MAX) fail(equation, "a term has two ellipses");
      term.ellipsis = term.letters.size();
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(c))) {
      term.letters += c;
    } else {
      size_t bytes = 1;  // of a character in UTF-8
      while (i + bytes < part.size() && (static_cast<unsigned char>(part[i + bytes]) & 0xc0) == 0x80) ++bytes;
      fail(equation, text("'", part.substr(i, bytes), "' is no label: labels are letters from a to z and A to Z"));
    }
  }
  return term;
}

Labels labels_of(const Term& term, int ellipsis_axes) {
  Labels labels;
  for (size_t i = 0; i <= term.letters.size(); ++i) {
    if (i == term.ellipsis)
      for (int k = ellipsis_axes; k-- > 0;) labels.push_back(kEllipsisLabel + k);
    if (i < term.letters.size()) labels.push_back(term.letters[i]);
  }
  return labels;
}

Equation read_equation(std::string_view equation, const std::vector<Tensor>& operands) {
  size_t arrow = equation.find("->");
  std::string_view left = equation.substr(0, arrow);
  Equation result;
  int ellipsis_axes = 0;
  for (size_t begin = 0; begin <= left.size();) {
    size_t end = std::min(left.find(',', begin), left.size());
    Term term = read_term(equation, left.substr(begin, end - begin));
    size_t number = result.inputs.size();
    if (number >= operands.size())
      fail(equation, text("it has more terms than there are operands (", operands.size(), ")"));
    int rank = operands[number].rank(), letters = static_cast<int>(term.letters.size());
    bool fits = term.ellipsis == SIZE_MAX ? rank == letters : rank >= letters;
    if (!fits)
      throw ShapeError(text("einsum: \"", equation, "\": term ", number, " names ", letters,
                            " axes, but its operand has shape ", operands[number].node()->shape));
    int extra = term.ellipsis == SIZE_MAX ? 0 : rank - letters;
    ellipsis_axes = std::max(ellipsis_axes, extra);
    result.inputs.push_back(labels_of(term, extra));
    begin = end + 1;
  }
  if (result.inputs.size() != operands.size())
    fail(equation, text("it has ", result.inputs.size(), " terms for ", operands.size(), " operands"));
  std::map<int, int> uses;
  for (const Labels& labels : result.inputs)
    for (int label : labels) ++uses[label];
  if (arrow == std::string_view::npos) {
    for (int k = ellipsis_axes; k-- > 0;) result.output.push_back(kEllipsisLabel + k);
    for (auto [label, count] : uses)
      if (label < kEllipsisLabel && count == 1) result.output.push_back(label);
    return result;
  }
  Term term = read_term(equation, equation.substr(arrow + 2));
  if (term.ellipsis == SIZE_MAX && ellipsis_axes > 0) fail(equation, "the result has no place for the axes of \"...\"");
  result.output = labels_of(term, ellipsis_axes);
  for (size_t i = 0; i < term.letters.size(); ++i) {
    char c = term.letters[i];
    if (!uses.count(c)) fail(equation, text("the label '", c, "' of the result is in no operand"));
    if (term.letters.find(c) != i) fail(equation, text("the result names '", c, "' twice"));
  }
  return result;
}

// The size of every label; operands agree or have size 1.
std::map<int, int64_t> label_sizes(std::string_view equation, const Equation& e, const std::vector<Tensor>& operands) {
  std::map<int, int64_t> sizes;
  for (size_t i = 0; i < operands.size(); ++i) {
    Dims shape = operands[i].shape();
    for (size_t k = 0; k < shape.size(); ++k) {
      auto [entry, fresh] = sizes.try_emplace(e.inputs[i][k], shape[k]);
      if (fresh || entry->second == shape[k] || shape[k] == 1) continue;
      if (entry->second != 1) {
        int label = e.inputs[i][k];
        std::string name =
            label < kEllipsisLabel ? text("label '", static_cast<char>(label), "'") : "an axis of \"...\"";
        throw ShapeError(text("einsum: \"", equation, "\": ", name, " has size ", entry->second, " and, in operand ", i,
                              " of shape ", operands[i].node()->shape, ", size ", shape[k]));
      }
      entry->second = shape[k];
    }
  }
  return sizes;
}

// Labels that occur twice become one: the diagonal.
Labelled take_diagonals(std::string_view equation, Labelled a) {
  for (size_t i = 0; i < a.labels.size();) {
    size_t k = i + 1;
    while (k < a.labels.size() && a.labels[k] != a.labels[i]) ++k;
    if (k == a.labels.size()) {
      ++i;
      continue;
    }
    int64_t first = static_cast<int64_t>(i), second = static_cast<int64_t>(k);
    int label = a.labels[i];
    if (a.x.size(first) != a.x.size(second))
      throw ShapeError(text("einsum: \"", equation, "\": label '", static_cast<char>(label), "' names axes of sizes ",
                            a.x.size(first), " and ", a.x.size(second), " of one operand"));
    a.x = diagonal(a.x, 0, first, second);
    a.labels.erase(a.labels.begin() + second);
    a.labels.erase(a.labels.begin() + first);
    a.labels.push_back(label);
  }
  return a;
}

// In which order to multiply: pairs of positions in the list of what is left; the product goes to its end.
using Path = std::vector<std::pair<size_t, size_t>>;
__extension__ using Mask = unsigned __int128;

class Planner {
 public:
  Planner(const std::vector<Labelled>& operands, const Labels& output, const std::map<int, int64_t>& sizes) {
    std::map<int, int> bit;
    for (auto [label, size] : sizes) {
      bit.emplace(label, static_cast<int>(bit.size()));
      sizes_.push_back(static_cast<double>(size));
    }
    for (const Labelled& a : operands) masks_.push_back(mask_of(a.labels, bit));
    output_ = mask_of(output, bit);
  }

  Path path() const { return masks_.size() <= 9 ? best() : greedy(); }

 private:
  static Mask mask_of(const Labels& labels, const std::map<int, int>& bit) {
    Mask mask = 0;
    for (int label : labels) mask |= Mask{1} << bit.at(label);
    return mask;
  }
  double elements(Mask mask) const {
    double n = 1;
    for (size_t i = 0; i < sizes_.size(); ++i)
      if (mask >> i & 1) n *= sizes_[i];
    return n;
  }
  // Labels of the product of the operands in `set` that somebody outside still needs.
  Mask result_of(uint32_t set) const {
    Mask inside = 0, outside = output_;
    for (size_t i = 0; i < masks_.size(); ++i) (set >> i & 1 ? inside : outside) |= masks_[i];
    return inside & outside;
  }

  // Over all ways of halving every set.
  Path best() const {
    uint32_t all = (uint32_t{1} << masks_.size()) - 1;
    std::vector<double> cost(all + 1, std::numeric_limits<double>::infinity());
    std::vector<uint32_t> half(all + 1, 0);
    std::vector<Mask> result(all + 1);
    for (uint32_t set = 1; set <= all; ++set) {
      result[set] = result_of(set);
      if (std::has_single_bit(set)) cost[set] = 0;
      // Every division once: the larger number of the two.
      for (uint32_t part = (set - 1) & set; part > (set ^ part); part = (part - 1) & set) {
        uint32_t rest = set ^ part;
        double total = cost[part] + cost[rest] + elements(result[part] | result[rest]);
        if (total < cost[set]) {
          cost[set] = total;
          half[set] = part;
        }
      }
    }
    // Products in the order in which they can be computed: parts before the whole.
    std::vector<uint32_t> order{all}, left;
    for (size_t i = 0; i < order.size(); ++i)
      if (!std::has_single_bit(order[i]))
        for (uint32_t part : {half[order[i]], order[i] ^ half[order[i]]}) order.push_back(part);
    for (size_t i = 0; i < masks_.size(); ++i) left.push_back(uint32_t{1} << i);
    Path path;
    for (size_t i = order.size(); i-- > 0;) {
      if (std::has_single_bit(order[i])) continue;
      auto at = [&](uint32_t set) {
        return static_cast<size_t>(std::find(left.begin(), left.end(), set) - left.begin());
      };
      size_t a = at(half[order[i]]), b = at(order[i] ^ half[order[i]]);
      path.emplace_back(std::min(a, b), std::max(a, b));
      left.erase(left.begin() + static_cast<int64_t>(path.back().second));
      left.erase(left.begin() + static_cast<int64_t>(path.back().first));
      left.push_back(order[i]);
    }
    return path;
  }

  // The pair whose product grows least, again and again.
  Path greedy() const {
    std::vector<Mask> left = masks_;
    Path path;
    while (left.size() > 1) {
      double least = std::numeric_limits<double>::infinity();
      std::pair<size_t, size_t> pick{0, 1};
      Mask product = 0;
      for (size_t a = 0; a < left.size(); ++a) {
        for (size_t b = a + 1; b < left.size(); ++b) {
          Mask outside = output_;
          for (size_t k = 0; k < left.size(); ++k)
            if (k != a && k != b) outside |= left[k];
          Mask both = left[a] | left[b];
          double growth = elements(both & outside) - elements(left[a]) - elements(left[b]);
          if (growth < least) {
            least = growth;
            pick = {a, b};
            product = both & outside;
          }
        }
      }
      path.push_back(pick);
      left.erase(left.begin() + static_cast<int64_t>(pick.second));
      left.erase(left.begin() + static_cast<int64_t>(pick.first));
      left.push_back(product);
    }
    return path;
  }

  std::vector<double> sizes_;
  std::vector<Mask> masks_;
  Mask output_;
};

}  // namespace

Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands) {
  if (operands.empty()) throw ValueError(text("einsum: \"", equation, "\" has no operands"));
  for (const Tensor& x : operands) check_same_device("einsum", operands[0].node()->device, x.node()->device);
  Equation e = read_equation(equation, operands);
  std::map<int, int64_t> sizes = label_sizes(equation, e, operands);
  if (sizes.size() > 128) fail(equation, "more than 128 axes");
  std::vector<Tensor> tensors = product_operands("einsum", operands);
  std::vector<Labelled> left;
  for (size_t i = 0; i < tensors.size(); ++i) left.push_back(take_diagonals(equation, {tensors[i], e.inputs[i]}));
  for (auto [a, b] : Planner(left, e.output, sizes).path()) {
    Labelled first = left[a], second = left[b];
    left.erase(left.begin() + static_cast<int64_t>(b));
    left.erase(left.begin() + static_cast<int64_t>(a));
    Labels wanted = e.output;
    for (const Labelled& other : left) wanted.insert(wanted.end(), other.labels.begin(), other.labels.end());
    left.push_back(contract(first, second, wanted));
  }
  Labelled result = sum_labels(left[0], e.output);
  return in_order(result, e.output);
}

}  // namespace heddle
