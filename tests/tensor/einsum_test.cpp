// Products over labelled axes against loops.
#include <map>

#include "helpers.h"

namespace heddle {
namespace {

using namespace testing;

// Sizes of the labels of the tests.
const std::map<char, int64_t> kSizes = {{'a', 2}, {'b', 3}, {'c', 4}, {'d', 5}, {'i', 3}, {'j', 4}, {'k', 5}, {'l', 2}};

// Every assignment of the labels, one by one.
std::vector<double> by_loops(const std::vector<std::string>& terms, const std::string& output,
                             const std::vector<std::vector<double>>& operands) {
  std::string labels = output;
  for (const std::string& term : terms)
    for (char c : term)
      if (labels.find(c) == std::string::npos) labels += c;
  auto offset = [&](const std::string& term, const std::vector<int64_t>& at) {
    int64_t result = 0;
    for (char c : term) result = result * kSizes.at(c) + at[labels.find(c)];
    return static_cast<size_t>(result);
  };
  size_t total = 1;
  for (char c : output) total *= static_cast<size_t>(kSizes.at(c));
  std::vector<double> result(total, 0);
  std::vector<int64_t> at(labels.size(), 0);
  while (true) {
    double product = 1;
    for (size_t i = 0; i < terms.size(); ++i) product *= operands[i][offset(terms[i], at)];
    result[offset(output, at)] += product;
    size_t k = 0;
    while (k < at.size() && ++at[k] == kSizes.at(labels[k])) at[k++] = 0;
    if (k == at.size()) return result;
  }
}

void check(const std::string& equation, const std::vector<std::string>& terms, const std::string& output) {
  SCOPED_TRACE(equation);
  std::vector<Tensor> operands;
  std::vector<std::vector<double>> values;
  for (size_t i = 0; i < terms.size(); ++i) {
    Dims shape;
    for (char c : terms[i]) shape.push_back(kSizes.at(c));
    operands.push_back(noise_tensor(shape, i + 1));
    values.push_back(doubles(operands.back()));
  }
  Tensor result = einsum(equation, operands);
  Dims shape;
  for (char c : output) shape.push_back(kSizes.at(c));
  EXPECT_EQ(result.shape(), shape);
  expect_close(result, by_loops(terms, output, values), 2e-5);
}

TEST(Einsum, one_operand) {
  check("ij->ji", {"ij"}, "ji");
  check("ji", {"ji"}, "ij");  // without an arrow: in alphabetical order
  check("ij->", {"ij"}, "");
  check("ijk->k", {"ijk"}, "k");
  check("ii", {"ii"}, "");
  check("ii->i", {"ii"}, "i");
  check("iji->ji", {"iji"}, "ji");
  check("iii->i", {"iii"}, "i");
  check("aabb->ab", {"aabb"}, "ab");
}

TEST(Einsum, two_operands) {
  check("ij,jk->ik", {"ij", "jk"}, "ik");
  check("ij,jk", {"ij", "jk"}, "ik");
  check(" i j , j k -> k i ", {"ij", "jk"}, "ki");
  check("i,j->ij", {"i", "j"}, "ij");
  check("i,i", {"i", "i"}, "");
  check("ij,ij->ij", {"ij", "ij"}, "ij");
  check("ij,ij->i", {"ij", "ij"}, "i");
  check("aij,ajk->aik", {"aij", "ajk"}, "aik");
  check("abij,abkj->abik", {"abij", "abkj"}, "abik");
  check("ij,kl->", {"ij", "kl"}, "");
  check("ijl,jk->k", {"ijl", "jk"}, "k");
  check("ii,ij->j", {"ii", "ij"}, "j");
  check(",ij->ij", {"", "ij"}, "ij");
}

TEST(Einsum, many_operands) {
  check("ij,jk,kl->il", {"ij", "jk", "kl"}, "il");
  check("ab,bc,cd,da->", {"ab", "bc", "cd", "da"}, "");
  check("i,j,k,l->ijkl", {"i", "j", "k", "l"}, "ijkl");
  check("ai,bi,ci,di->abcd", {"ai", "bi", "ci", "di"}, "abcd");
  check("a,a,a,a,a,a,a,a,a,a,a->a", std::vector<std::string>(11, "a"), "a");  // beyond exhaustive search
}

TEST(Einsum, ellipsis_stands_for_the_other_axes_and_broadcasts) {
  Tensor a = noise_tensor({2, 1, 3, 4}), b = noise_tensor({5, 4, 6}, 2);
  expect_close(einsum("...ij,...jk->...ik", {a, b}), doubles(matmul(a, b)), 1e-5);
  expect_close(einsum("...ij,...jk", {a, b}), doubles(matmul(a, b)), 1e-5);
  EXPECT_EQ(einsum("...ij->j...i", {a}).shape(), (Dims{4, 2, 1, 3}));
  expect_close(einsum("...", {a}), doubles(a));
  expect_close(einsum("i...->...", {a}), doubles(sum(a, 0)), 1e-5);
  expect_close(einsum("...,...", {noise_tensor(3), scalar(2)}), doubles(noise_tensor(3) * 2));
  // A size of 1 broadcasts, as in NumPy.
  expect_close(einsum("ij,ij->i", {noise_tensor({3, 1}), noise_tensor({3, 4}, 2)}),
               doubles(sum(noise_tensor({3, 1}) * noise_tensor({3, 4}, 2), 1)), 1e-5);
}

TEST(Einsum, many_operands_are_multiplied_in_a_cheap_order) {
  // (a b)(c d) would make a 2000 x 2000 matrix; from the left it is vectors all along.
  Tensor row = ones({1, 2000}), column = ones({2000, 1});
  Tensor result = einsum("ab,bc,cd,de->ae", {row, column, row, column});
  StatsSince stats;
  EXPECT_EQ(result.item<float>(), 4e6f);
  EXPECT_LE(stats->bytes_written, 1000000u);
}

TEST(Einsum, dtypes_promote) {
  EXPECT_EQ(einsum("i,i", {ones(3, kI32), ones(3, kF16)}).dtype(), kF16);
  EXPECT_EQ(einsum("i,i", {ones(3, kI8), ones(3, kI16)}).dtype(), kI16);
  expect_equal(einsum("ij,j->i", {counting({2, 3}, kI64), arange(3)}), {5, 14});
  expect_error<DTypeError>([] { einsum("i->", {zeros(3, kBool)}); }, {"einsum", "bool"});
}

TEST(Einsum, empty_axes_sum_to_zero) {
  expect_equal(einsum("ij,jk->ik", {zeros({2, 0}), zeros({0, 2})}), {0, 0, 0, 0});
}

TEST(Einsum, mistakes_are_named) {
  Tensor m = zeros({2, 3});
  expect_error<ValueError>([&] { einsum("ij,jk", {m}); }, {"einsum", "ij,jk", "1"});
  expect_error<ValueError>([&] { einsum("ij", {m, m}); }, {"einsum", "2 operands"});
  expect_error<ValueError>([&] { einsum("ij", {}); }, {"einsum"});
  expect_error<ShapeError>([&] { einsum("ijk", {m}); }, {"einsum", "[2, 3]"});
  expect_error<ShapeError>([&] { einsum("i", {m}); }, {"einsum", "[2, 3]"});
  expect_error<ShapeError>([&] { einsum("...ijk", {m}); }, {"einsum", "[2, 3]"});
  expect_error<ShapeError>([&] { einsum("ij,jk", {m, m}); }, {"einsum", "'j'", "3", "2"});
  expect_error<ShapeError>([&] { einsum("ii", {m}); }, {"einsum", "'i'", "2", "3"});
  expect_error<ValueError>([&] { einsum("ij->ik", {m}); }, {"einsum", "'k'"});
  expect_error<ValueError>([&] { einsum("ij->ii", {m}); }, {"einsum", "'i'", "twice"});
  expect_error<ValueError>([&] { einsum("i1->i", {m}); }, {"einsum", "'1'"});
  expect_error<ValueError>([&] { einsum("i.j", {m}); }, {"einsum", "'.'"});
  expect_error<ValueError>([&] { einsum("......", {m}); }, {"einsum", "two"});
  expect_error<ValueError>([&] { einsum("i...->i", {m}); }, {"einsum", "..."});
}

TEST(Products, dot_and_its_kin_follow_numpy) {
  Tensor a = noise_tensor({2, 3, 4}), b = noise_tensor({5, 4, 6}, 2), v = noise_tensor(4, 3);
  EXPECT_EQ(dot(a, b).shape(), (Dims{2, 3, 5, 6}));
  expect_close(dot(a, b), doubles(einsum("ijk,lkm->ijlm", {a, b})), 1e-5);
  expect_close(dot(a, v), doubles(matmul(a, v)), 1e-5);
  expect_close(dot(v, v), doubles(sum(v * v)), 1e-5);
  expect_close(dot(v, scalar(3)), doubles(v * 3));
  expect_close(inner(a, noise_tensor({7, 4}, 5)), doubles(einsum("ijk,lk->ijl", {a, noise_tensor({7, 4}, 5)})), 1e-5);
  expect_close(vdot(a, a), doubles(sum(a * a)), 1e-5);
  expect_close(outer(v, noise_tensor({2, 3}, 4)), doubles(unsqueeze(v, 1) * ravel(noise_tensor({2, 3}, 4))));
  Tensor c = noise_tensor({3, 4, 5}, 6);
  expect_close(tensordot(a, c), doubles(einsum("ijk,jkl->il", {a, c})), 1e-5);
  expect_close(tensordot(a, c, {2, 1}, {1, 0}), doubles(einsum("ijk,jkl->il", {a, c})), 1e-5);
  EXPECT_EQ(tensordot(a, c, 0).shape(), (Dims{2, 3, 4, 3, 4, 5}));
  expect_close(bmm(noise_tensor({2, 3, 4}), noise_tensor({2, 4, 5}, 2)),
               doubles(matmul(noise_tensor({2, 3, 4}), noise_tensor({2, 4, 5}, 2))), 1e-5);
  expect_equal(kron(tensor({{1, 2}, {3, 4}}), tensor({1, 10})), {1, 10, 2, 20, 3, 30, 4, 40});
  EXPECT_EQ(kron(zeros({2, 3}), zeros({4, 5})).shape(), (Dims{8, 15}));
  expect_equal(cross(tensor({1, 2, 3}), tensor({4, 5, 6})), {-3, 6, -3});
  EXPECT_EQ(cross(noise_tensor({3, 4}), noise_tensor({3, 4}, 2), 0).shape(), (Dims{3, 4}));
  EXPECT_EQ(cross(noise_tensor({2, 1, 3}), noise_tensor({4, 3}, 2)).shape(), (Dims{2, 4, 3}));
}

TEST(Products, shapes_that_do_not_fit) {
  expect_error<ShapeError>([] { dot(zeros({2, 3}), zeros({2, 3})); }, {"dot", "[2, 3]"});
  expect_error<ShapeError>([] { dot(zeros({2, 1}), zeros({2, 3})); }, {"dot", "[2, 1]"});  // 1 does not broadcast here
  expect_error<ShapeError>([] { inner(zeros({2}), zeros({3})); }, {"inner"});
  expect_error<ShapeError>([] { vdot(zeros({2}), zeros({3})); }, {"vdot"});
  expect_error<ShapeError>([] { bmm(zeros({2, 3}), zeros({3, 4})); }, {"bmm"});
  expect_error<ShapeError>([] { bmm(zeros({1, 2, 3}), zeros({4, 3, 4})); }, {"bmm"});
  expect_error<ShapeError>([] { tensordot(zeros({2}), zeros({2}), 2); }, {"tensordot"});
  expect_error<ValueError>([] { tensordot(zeros({2, 2}), zeros({2, 2}), {0, 0}, {0, 1}); }, {"tensordot", "twice"});
  expect_error<ShapeError>([] { cross(zeros({2}), zeros({2})); }, {"cross"});
  expect_error<DTypeError>([] { outer(zeros({2}, kBool), zeros({2}, kBool)); }, {"outer", "bool"});
}

TEST(Products, differences) {
  expect_equal(diff(tensor({1, 4, 9, 16})), {3, 5, 7});
  expect_equal(diff(tensor({1, 4, 9, 16}), 2), {2, 2});
  expect_equal(diff(tensor({{1, 2}, {5, 9}}), 1, 0), {4, 7});
  EXPECT_EQ(diff(tensor({1, 2}), 5).numel(), 0);
  expect_equal(diff(tensor({1, 1, 0}, kBool)), {0, 1});
  expect_error<ValueError>([] { diff(zeros(3), -1); }, {"diff"});
}

}  // namespace
}  // namespace heddle
