// Operators against NumPy: reads the cases that cases.py wrote, one per line, and compares what Heddle gives.
#include <heddle/heddle.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace {

namespace hd = heddle;
using hd::Tensor;
using nlohmann::json;
using Results = std::vector<Tensor>;

struct Call {
  Results x;
  json p;

  double number(const char* key) const {
    const json& value = p.at(key);
    if (value.is_string()) return std::stod(value.get<std::string>());  // "inf"
    return value.get<double>();
  }
  int64_t integer(const char* key) const { return p.at(key).get<int64_t>(); }
  bool flag(const char* key) const { return p.at(key).get<bool>(); }
  std::string text(const char* key) const { return p.at(key).get<std::string>(); }
  std::vector<int64_t> list(const char* key) const { return p.at(key).get<std::vector<int64_t>>(); }
  std::optional<int64_t> maybe(const char* key) const {
    return p.at(key).is_null() ? std::nullopt : std::optional<int64_t>(integer(key));
  }
  std::vector<std::pair<int64_t, int64_t>> pairs(const char* key) const {
    return p.at(key).get<std::vector<std::pair<int64_t, int64_t>>>();
  }
  Results rest(size_t from) const { return {x.begin() + static_cast<int64_t>(from), x.end()}; }
};

const std::map<std::string, hd::DType> kTypes = {
    {"bool", hd::kBool}, {"i8", hd::kI8},   {"i16", hd::kI16}, {"i32", hd::kI32}, {"i64", hd::kI64}, {"u8", hd::kU8},
    {"u16", hd::kU16},   {"u32", hd::kU32}, {"u64", hd::kU64}, {"f16", hd::kF16}, {"f32", hd::kF32}, {"f64", hd::kF64},
};

// Calls f with a value of the C++ type of a dtype.
template <class F>
auto with_type(hd::DType dtype, const F& f) {
  switch (dtype) {
    case hd::kBool: return f(bool{});
    case hd::kI8: return f(int8_t{});
    case hd::kI16: return f(int16_t{});
    case hd::kI32: return f(int32_t{});
    case hd::kI64: return f(int64_t{});
    case hd::kU8: return f(uint8_t{});
    case hd::kU16: return f(uint16_t{});
    case hd::kU32: return f(uint32_t{});
    case hd::kU64: return f(uint64_t{});
    case hd::kF16: return f(hd::Half{});
    case hd::kF32: return f(float{});
    case hd::kF64: return f(double{});
    default: throw hd::ValueError("no such dtype in the table");
  }
}

struct Array {
  hd::DType dtype;
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;
};

Array read_array(const json& value) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  const std::string hex = value.at(2);
  Array array{kTypes.at(value.at(0)), value.at(1), {}};
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    array.bytes.push_back(static_cast<uint8_t>(digit(hex[i]) * 16 + digit(hex[i + 1])));
  return array;
}

template <class T>
std::vector<T> elements(const Array& array) {
  std::vector<T> out(array.bytes.size() / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), array.bytes.data(), array.bytes.size());
  return out;
}
template <>
std::vector<bool> elements(const Array& array) {
  return {array.bytes.begin(), array.bytes.end()};
}

Tensor to_tensor(const Array& array) {
  return with_type(array.dtype, [&]<class T>(T) { return hd::from_vector(elements<T>(array), array.shape); });
}

// How far apart two numbers are, counted in numbers of their dtype: bits ordered as the numbers are.
template <class T>
int64_t position(T value) {
  if constexpr (std::is_same_v<T, hd::Half>) {
    const int64_t size = value.bits & 0x7fff;
    return value.bits >> 15 ? -size : size;
  } else if constexpr (std::is_same_v<T, float>) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const int64_t size = bits & 0x7fffffff;
    return bits >> 31 ? -size : size;
  } else {
    const auto bits = std::bit_cast<uint64_t>(value);
    const auto size = static_cast<int64_t>(bits & 0x7fffffffffffffff);
    return bits >> 63 ? -size : size;
  }
}

struct Tolerance {
  double ulp = 0, absolute = 0;
  bool zero_signs = false;
};

template <class T>
bool same(T got, T want, const Tolerance& tolerance) {
  if constexpr (std::is_integral_v<T>) {
    return got == want;
  } else {
    const auto a = static_cast<double>(static_cast<float>(got)), b = static_cast<double>(static_cast<float>(want));
    double x = a, y = b;
    if constexpr (std::is_same_v<T, double>) x = got, y = want;
    if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
    if (x == 0 && y == 0) return !tolerance.zero_signs || std::signbit(x) == std::signbit(y);
    if (std::isfinite(x) && std::isfinite(y) && std::abs(x - y) <= tolerance.absolute) return true;
    return std::abs(static_cast<double>(position(got)) - static_cast<double>(position(want))) <= tolerance.ulp;
  }
}

template <class T>
std::string shown(T value) {
  if constexpr (std::is_same_v<T, hd::Half>) return std::to_string(static_cast<float>(value));
  std::ostringstream out;
  out.precision(17);
  if constexpr (std::is_same_v<T, bool>)
    out << (value ? "true" : "false");
  else if constexpr (std::is_integral_v<T>)
    out << +value;
  else if constexpr (std::is_floating_point_v<T>)
    out << value;
  return out.str();
}

// What is wrong with a result; empty if it is right.
std::string compare(const Tensor& got, const Array& want, const Tolerance& tolerance) {
  if (got.dtype() != want.dtype) return std::string("dtype ") + name(got.dtype()) + ", not " + name(want.dtype);
  if (got.shape() != hd::Dims(want.shape))
    return "shape " + json(got.shape()).dump() + ", not " + json(want.shape).dump();
  return with_type(want.dtype, [&]<class T>(T) {
    std::string text;
    const auto expected = elements<T>(want);
    const auto found = got.data<T>();
    int wrong = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      if (same<T>(found[i], expected[i], tolerance)) continue;
      if (++wrong <= 4)
        text += "element " + std::to_string(i) + ": " + shown<T>(found[i]) + ", not " + shown<T>(expected[i]) + "; ";
    }
    if (wrong > 4) text += std::to_string(wrong) + " in all";
    return text;
  });
}

std::vector<hd::Index> indices(const Call& c) {
  std::vector<hd::Index> out;
  const auto bound = [](const json& v) {
    return v.is_null() ? std::nullopt : std::optional<int64_t>(v.get<int64_t>());
  };
  for (const json& item : c.p.at("items")) {
    if (item.is_number())
      out.emplace_back(item.get<int64_t>());
    else if (item == "...")
      out.emplace_back(hd::Ellipsis);
    else if (item == "new")
      out.emplace_back(hd::NewAxis);
    else if (item.is_array())
      out.emplace_back(hd::Slice(bound(item[0]), bound(item[1]), item[2].get<int64_t>()));
    else
      out.emplace_back(c.x.at(item.at("tensor").get<size_t>()));
  }
  return out;
}

hd::PadMode pad_mode(const std::string& name) {
  static const std::map<std::string, hd::PadMode> modes = {{"reflect", hd::PadMode::Reflect},
                                                           {"edge", hd::PadMode::Replicate},
                                                           {"wrap", hd::PadMode::Circular},
                                                           {"symmetric", hd::PadMode::Symmetric}};
  return modes.at(name);
}

using Function = std::function<Results(const Call&)>;

// clang-format off
#define ONE(f, ...) {#f, [](const Call& c) -> Results { return {hd::f(__VA_ARGS__)}; }}
#define MANY(f, ...) {#f, [](const Call& c) -> Results { return hd::f(__VA_ARGS__); }}
#define PAIR(f, a, b, ...) {#f, [](const Call& c) -> Results { auto r = hd::f(__VA_ARGS__); return {r.a, r.b}; }}
#define UNARY(f) ONE(f, c.x[0])
#define BINARY(f) ONE(f, c.x[0], c.x[1])
#define REDUCTION(f) ONE(f, c.x[0], c.list("axes"), c.flag("keepdim"))
#define ALONG(f) ONE(f, c.x[0], c.maybe("axis"))

const std::map<std::string, Function> kElementwise = {
    UNARY(neg), UNARY(square), UNARY(abs), UNARY(sign), UNARY(floor), UNARY(ceil), UNARY(trunc), UNARY(round),
    UNARY(frac), UNARY(exp), UNARY(exp2), UNARY(expm1), UNARY(log), UNARY(log2), UNARY(log10), UNARY(log1p),
    UNARY(sqrt), UNARY(rsqrt), UNARY(reciprocal), UNARY(sin), UNARY(cos), UNARY(tan), UNARY(asin), UNARY(acos),
    UNARY(atan), UNARY(sinh), UNARY(cosh), UNARY(tanh), UNARY(asinh), UNARY(acosh), UNARY(atanh), UNARY(erf),
    UNARY(erfinv), UNARY(cbrt), UNARY(sinc), UNARY(rad2deg), UNARY(deg2rad), UNARY(nan_to_num), UNARY(isnan), UNARY(isinf),
    UNARY(isfinite), UNARY(isposinf), UNARY(isneginf), UNARY(signbit), UNARY(logical_not), UNARY(bitwise_not),
    ONE(cast, c.x[0], kTypes.at(c.text("to"))), ONE(bitcast, c.x[0], kTypes.at(c.text("to"))),
    BINARY(add), BINARY(sub), BINARY(mul), BINARY(floordiv), BINARY(mod), BINARY(remainder), BINARY(fmod),
    PAIR(divmod, first, second, c.x[0], c.x[1]), BINARY(pow), BINARY(div), BINARY(atan2), BINARY(copysign),
    BINARY(nextafter), BINARY(hypot), BINARY(logaddexp), BINARY(logaddexp2), BINARY(xlogy), BINARY(heaviside),
    BINARY(minimum), BINARY(maximum), BINARY(fmin), BINARY(fmax), BINARY(eq), BINARY(ne), BINARY(lt), BINARY(le),
    BINARY(gt), BINARY(ge), BINARY(logical_and), BINARY(logical_or), BINARY(logical_xor),
    BINARY(bitwise_and), BINARY(bitwise_or), BINARY(bitwise_xor), BINARY(shift_left), BINARY(shift_right),
    ONE(isclose, c.x[0], c.x[1], c.number("relative"), c.number("absolute"), c.flag("equal_nan")),
    ONE(clamp, c.x[0], c.x[1], c.x[2]), ONE(where, c.x[0], c.x[1], c.x[2]), ONE(fma, c.x[0], c.x[1], c.x[2]),
    ONE(lerp, c.x[0], c.x[1], c.x[2]),
    {"pow_whole", [](const Call& c) -> Results { return {hd::pow(c.x[0], c.integer("n"))}; }},
    {"allclose", [](const Call& c) -> Results { return {hd::scalar(hd::allclose(c.x[0], c.x[1]), hd::kBool)}; }},
    {"equal", [](const Call& c) -> Results { return {hd::scalar(hd::equal(c.x[0], c.x[1]), hd::kBool)}; }},
    UNARY(relu), UNARY(relu6), ONE(hardtanh, c.x[0], c.number("low"), c.number("high")),
    ONE(threshold, c.x[0], c.number("limit"), c.number("value")), UNARY(sigmoid), UNARY(logsigmoid),
    ONE(leaky_relu, c.x[0], c.number("slope")), ONE(elu, c.x[0], c.number("alpha")), UNARY(selu),
    ONE(celu, c.x[0], c.number("alpha")), UNARY(gelu), UNARY(silu), UNARY(hardsigmoid), UNARY(hardswish),
    {"gelu_tanh", [](const Call& c) -> Results { return {hd::gelu(c.x[0], "tanh")}; }},
    ONE(softplus, c.x[0], c.number("beta")), UNARY(softsign), UNARY(mish), ONE(glu, c.x[0], c.integer("axis")),
};

const std::map<std::string, Function> kReductions = {
    REDUCTION(sum), REDUCTION(prod), REDUCTION(nansum), REDUCTION(nanprod), REDUCTION(max), REDUCTION(min),
    REDUCTION(amax), REDUCTION(amin), REDUCTION(nanmax), REDUCTION(nanmin), REDUCTION(ptp), REDUCTION(mean),
    REDUCTION(nanmean), REDUCTION(logsumexp), REDUCTION(any), REDUCTION(all), REDUCTION(count_nonzero),
    ONE(average, c.x[0], c.x[1], c.list("axes"), c.flag("keepdim")),
    ONE(var, c.x[0], c.list("axes"), c.flag("keepdim"), c.integer("correction")),
    ONE(std, c.x[0], c.list("axes"), c.flag("keepdim"), c.integer("correction")),
    ONE(nanvar, c.x[0], c.list("axes"), c.flag("keepdim"), c.integer("correction")),
    ONE(nanstd, c.x[0], c.list("axes"), c.flag("keepdim"), c.integer("correction")),
    ONE(norm, c.x[0], c.number("p"), c.list("axes"), c.flag("keepdim")),
    ONE(argmax, c.x[0], c.maybe("axis"), c.flag("keepdim")), ONE(argmin, c.x[0], c.maybe("axis"), c.flag("keepdim")),
    PAIR(cummax_with_indices, first, second, c.x[0], c.maybe("axis")),
    PAIR(cummin_with_indices, first, second, c.x[0], c.maybe("axis")),
    {"layer_norm_weights", [](const Call& c) -> Results { return {hd::layer_norm(c.x[0], c.x[1], c.x[2])}; }},
    {"rms_norm_weights", [](const Call& c) -> Results { return {hd::rms_norm(c.x[0], c.x[1])}; }},
    ALONG(cumsum), ALONG(cumprod), ALONG(cummax), ALONG(cummin),
    ONE(softmax, c.x[0], c.integer("axis")), ONE(softmin, c.x[0], c.integer("axis")),
    ONE(log_softmax, c.x[0], c.integer("axis")),
    ONE(layer_norm, c.x[0], c.integer("axes"), 1e-5), ONE(rms_norm, c.x[0], c.integer("axes"), 1e-6),
};

const std::map<std::string, Function> kShapes = {
    ONE(reshape, c.x[0], c.list("shape")), ONE(view, c.x[0], c.list("shape")), ONE(expand, c.x[0], c.list("shape")),
    ONE(broadcast_to, c.x[0], c.list("shape")), MANY(broadcast_tensors, c.x),
    ONE(unflatten, c.x[0], c.integer("axis"), c.list("sizes")),
    ONE(as_strided, c.x[0], c.list("shape"), c.list("strides"), c.integer("offset")),
    ONE(permute, c.x[0], c.list("axes")), ONE(transpose, c.x[0], c.integer("a"), c.integer("b")),
    ONE(swapaxes, c.x[0], c.integer("a"), c.integer("b")), UNARY(t),
    ONE(moveaxis, c.x[0], c.list("from"), c.list("to")), ONE(squeeze, c.x[0], c.list("axes")),
    ONE(unsqueeze, c.x[0], c.list("axes")), ONE(flatten, c.x[0], c.integer("begin"), c.integer("end")), UNARY(ravel),
    ONE(flip, c.x[0], c.list("axes")), UNARY(fliplr), UNARY(flipud),
    ONE(rot90, c.x[0], c.integer("times"), c.list("plane")), ONE(roll, c.x[0], c.list("shifts"), c.list("axes")),
    ONE(tril, c.x[0], c.integer("k")), ONE(triu, c.x[0], c.integer("k")), UNARY(zeros_like), UNARY(ones_like),
    ONE(unwindow, c.x[0], c.integer("axis"), c.integer("size"), c.integer("stride"), c.integer("dilation"), c.integer("n")),
    UNARY(clone), UNARY(contiguous),
    ONE(pad, c.x[0], c.pairs("widths"), c.number("value")),
    {"pad_mode", [](const Call& c) -> Results { return {hd::pad(c.x[0], c.pairs("widths"), pad_mode(c.text("mode")))}; }},
    ONE(shrink, c.x[0], c.pairs("ranges")),
    ONE(slice, c.x[0], c.integer("axis"), c.maybe("begin"), c.maybe("end"), c.integer("step")),
    ONE(select, c.x[0], c.integer("axis"), c.integer("index")), ONE(tile, c.x[0], c.list("counts")),
    ONE(repeat, c.x[0], c.list("counts")), ONE(repeat_interleave, c.x[0], c.integer("count"), c.maybe("axis")),
    {"repeat_counts", [](const Call& c) -> Results { return {hd::repeat_interleave(c.x[0], c.x[1], c.maybe("axis"))}; }},
    ONE(window, c.x[0], c.integer("axis"), c.integer("size"), c.integer("stride"), c.integer("dilation")),
    ONE(unfold, c.x[0], c.integer("axis"), c.integer("size"), c.integer("step")),
    ONE(diagonal, c.x[0], c.integer("offset"), c.integer("a"), c.integer("b")), ONE(diag, c.x[0], c.integer("k")),
    ONE(trace, c.x[0], c.integer("offset"), c.integer("a"), c.integer("b")), ONE(diag_embed, c.x[0], c.integer("k")),
    ONE(cat, c.x, c.integer("axis")), ONE(stack, c.x, c.integer("axis")), ONE(vstack, c.x), ONE(hstack, c.x),
    ONE(dstack, c.x), MANY(split, c.x[0], c.list("sizes"), c.integer("axis")),
    MANY(array_split, c.x[0], c.integer("count"), c.integer("axis")), MANY(unbind, c.x[0], c.integer("axis")),
    MANY(chunk, c.x[0], c.integer("count"), c.integer("axis")), MANY(meshgrid, c.x, c.text("indexing")),
    {"arange", [](const Call& c) -> Results {
       return {hd::arange(c.integer("begin"), c.integer("end"), c.integer("step"), kTypes.at(c.text("dtype")))}; }},
    ONE(linspace, c.number("begin"), c.number("end"), c.integer("count"), c.flag("endpoint"), kTypes.at(c.text("dtype"))),
    ONE(logspace, c.number("begin"), c.number("end"), c.integer("count"), c.flag("endpoint"), c.number("base"), kTypes.at(c.text("dtype"))),
    ONE(eye, c.integer("n"), c.integer("m"), c.integer("k"), kTypes.at(c.text("dtype"))),
    ONE(tri, c.integer("n"), c.integer("m"), c.integer("k"), kTypes.at(c.text("dtype"))),
    ONE(full, c.list("shape"), c.number("value"), kTypes.at(c.text("dtype"))),
};

const std::map<std::string, Function> kIndexing = {
    ONE(gather, c.x[0], c.x[1], c.integer("axis")), ONE(take, c.x[0], c.x[1], c.maybe("axis")),
    ONE(index_select, c.x[0], c.integer("axis"), c.x[1]), ONE(take_along_axis, c.x[0], c.x[1], c.integer("axis")),
    BINARY(embedding), ONE(index, c.x[0], c.rest(1), c.integer("axis")),
    ONE(one_hot, c.x[0], c.integer("classes")), ONE(dynamic_slice, c.x[0], c.x[1], c.list("sizes")),
    {"at", [](const Call& c) -> Results { return {hd::at(c.x[0], std::span<const hd::Index>(indices(c)))}; }},
    ONE(scatter, c.x[0], c.integer("axis"), c.x[1], c.x[2]), ONE(scatter_add, c.x[0], c.integer("axis"), c.x[1], c.x[2]),
    ONE(scatter_reduce, c.x[0], c.integer("axis"), c.x[1], c.x[2], c.text("reduce"), true),
    ONE(put_along_axis, c.x[0], c.x[1], c.x[2], c.integer("axis")),
    ONE(index_add, c.x[0], c.integer("axis"), c.x[1], c.x[2]), ONE(index_copy, c.x[0], c.integer("axis"), c.x[1], c.x[2]),
    ONE(index_put, c.x[0], {c.x[1], c.x[2]}, c.x[3], c.flag("accumulate")),
    ONE(update_slice, c.x[0], c.x[1], c.list("begins"), c.list("steps")), ONE(masked_fill, c.x[0], c.x[1], c.x[2]),
    PAIR(sort, values, indices, c.x[0], c.integer("axis"), c.flag("descending")),
    ONE(argsort, c.x[0], c.integer("axis"), c.flag("descending")),
    PAIR(topk, values, indices, c.x[0], c.integer("k"), c.integer("axis"), c.flag("largest")),
    PAIR(kthvalue, values, indices, c.x[0], c.integer("k"), c.integer("axis")),
    ONE(quantile, c.x[0], c.number("q"), c.maybe("axis"), c.flag("keepdim")),
    ONE(median, c.x[0], c.maybe("axis"), c.flag("keepdim")), ONE(searchsorted, c.x[0], c.x[1], c.flag("right")),
    UNARY(nonzero), BINARY(masked_select), ONE(bincount, c.x[0], c.integer("minlength")),
    {"unique", [](const Call& c) -> Results {
       auto r = hd::unique(c.x[0], true, true); return {r.values, *r.inverse, *r.counts}; }},
    {"histogram", [](const Call& c) -> Results {
       auto r = hd::histogram(c.x[0], c.integer("bins"), {{c.number("low"), c.number("high")}}); return {r.counts, r.edges}; }},
    BINARY(matmul), BINARY(bmm), BINARY(dot), BINARY(vdot), BINARY(inner), BINARY(outer), BINARY(kron),
    ONE(tensordot, c.x[0], c.x[1], c.list("a"), c.list("b")),
    {"tensordot_count", [](const Call& c) -> Results { return {hd::tensordot(c.x[0], c.x[1], c.integer("count"))}; }},
    ONE(einsum, c.text("equation"), c.x), ONE(cross, c.x[0], c.x[1], c.integer("axis")),
    ONE(diff, c.x[0], c.integer("n"), c.integer("axis")),
};
// clang-format on

const Function& function(const std::string& op) {
  for (const auto* table : {&kElementwise, &kReductions, &kShapes, &kIndexing})
    if (const auto found = table->find(op); found != table->end()) return found->second;
  throw hd::ValueError("the table has no function " + op);
}

std::string check(const json& line) {
  Call call{{}, line.at("p")};
  for (const json& array : line.at("x")) call.x.push_back(to_tensor(read_array(array)));
  const Results results = function(line.at("op"))(call);
  const json& expected = line.at("y");
  if (results.size() != expected.size()) return std::to_string(results.size()) + " results";
  const Tolerance tolerance{line.at("ulp"), line.at("abs"), line.at("zeros")};
  for (size_t i = 0; i < results.size(); ++i)
    if (std::string wrong = compare(results[i], read_array(expected[i]), tolerance); !wrong.empty()) return wrong;
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  std::ifstream in(argc > 1 ? argv[1] : "");
  int count = 0, failed = 0;
  std::set<std::string> ops;
  for (std::string text; std::getline(in, text);) {
    const json line = json::parse(text);
    std::string wrong;
    try {
      wrong = check(line);
    } catch (const std::exception& error) {
      wrong = error.what();
    }
    ++count;
    ops.insert(line.at("op"));
    if (wrong.empty()) continue;
    ++failed;
    std::string arguments;
    for (const json& array : line.at("x")) arguments += " " + array.at(0).get<std::string>() + array.at(1).dump();
    std::cout << line.at("op").get<std::string>() << arguments << " " << line.at("p").dump() << ": " << wrong << "\n";
  }
  std::cout << count << " cases of " << ops.size() << " operators, " << failed << " failed\n";
  return count == 0 || failed > 0 ? 1 : 0;
}
