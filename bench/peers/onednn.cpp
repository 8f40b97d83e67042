// oneDNN: products and convolutions. Primitives are made once; what is timed is their execution.
#include <omp.h>

#include <cmath>
#include <cstdlib>
#include <dnnl.hpp>
#include <memory>
#include <unordered_map>
#include <vector>

#include "worker.h"

namespace heddle::peers {
namespace {

using dnnl::memory;
using Dims = memory::dims;

dnnl::engine& engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}
dnnl::stream& stream() {
  static dnnl::stream queue(engine());
  return queue;
}

memory::data_type type_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return memory::data_type::f32;
    case DType::bf16: return memory::data_type::bf16;
    case DType::f16: return memory::data_type::f16;
    case DType::i8: return memory::data_type::s8;
    case DType::i32: return memory::data_type::s32;
    default: throw Skip(std::string("no ") + name(dtype));
  }
}

std::function<void()> execution(const dnnl::primitive& primitive, std::unordered_map<int, memory> arguments) {
  return [=] {
    primitive.execute(stream(), arguments);
    stream().wait();
  };
}

std::function<void()> prepare_matmul(const Json& row) {
  Matmul shape(row);
  int64_t batch = shape.batch, m = shape.m, k = shape.k, n = shape.n;
  auto type = type_of(shape.dtype);
  memory::desc a_desc({batch, m, k}, type, Dims{m * k, shape.a_row_stride(), shape.a_column_stride()});
  memory::desc b_desc({batch, k, n}, type, Dims{k * n, shape.b_row_stride(), shape.b_column_stride()});
  memory::desc c_desc({batch, m, n}, type_of(shape.result), Dims{m * n, n, 1});
  if (batch == 1) {
    a_desc = memory::desc({m, k}, type, Dims{shape.a_row_stride(), shape.a_column_stride()});
    b_desc = memory::desc({k, n}, type, Dims{shape.b_row_stride(), shape.b_column_stride()});
    c_desc = memory::desc({m, n}, type_of(shape.result), Dims{n, 1});
  }
  dnnl::matmul::primitive_desc described(dnnl::matmul::desc(a_desc, b_desc, c_desc), engine());
  auto a = std::make_shared<Memory>(batch * m * k, shape.dtype, 1);
  auto b = std::make_shared<Memory>(batch * k * n, shape.dtype, 2);
  auto c = std::make_shared<Memory>(batch * m * n, shape.result, 3);
  auto run = execution(dnnl::matmul(described), {{DNNL_ARG_SRC, memory(a_desc, engine(), a->as())},
                                                 {DNNL_ARG_WEIGHTS, memory(b_desc, engine(), b->as())},
                                                 {DNNL_ARG_DST, memory(c_desc, engine(), c->as())}});
  run();
  shape.check(*a, *b, *c);
  return [run, a, b, c] { run(); };
}

// {"work": "conv", "dtype": "f32", "batch": 8, "channels": 64, "height": 56, "width": 56, "filters": 64, "kernel": 3,
// "stride": 1, "padding": 1, "groups": 1, "layout": "any"}. With "any" the library chooses its own layouts, for the
// weights and for what flows between layers; "nchw" and "nhwc" fix the latter.
struct Convolution {
  explicit Convolution(const Json& row) {
    auto get = [&](const char* key) { return row.at(key).get<int64_t>(); };
    dtype = dtype_from_name(row.at("dtype").get<std::string>());
    batch = get("batch"), channels = get("channels"), height = get("height"), width = get("width");
    filters = get("filters"), kernel = get("kernel"), stride = get("stride"), padding = get("padding");
    groups = row.value("groups", int64_t{1});
    layout = row.value("layout", "any");
    rows = (height + 2 * padding - kernel) / stride + 1;
    columns = (width + 2 * padding - kernel) / stride + 1;
  }
  // Compares an element of every image with sums in double; all in the order of their names.
  void check(const Memory& x, const Memory& w, const Memory& y) const;

  DType dtype;
  int64_t batch, channels, height, width, filters, kernel, stride, padding, groups, rows, columns;
  std::string layout;
};

void Convolution::check(const Memory& x, const Memory& w, const Memory& y) const {
  for (int64_t image = 0; image < batch; ++image) {
    int64_t f = (image * 37 + 5) % filters, row = image * 11 % rows, column = image * 7 % columns;
    int64_t inputs = channels / groups, first = f / (filters / groups) * inputs;
    double want = 0, terms = 0;
    for (int64_t c = 0; c < inputs; ++c)
      for (int64_t i = 0; i < kernel; ++i)
        for (int64_t j = 0; j < kernel; ++j) {
          int64_t r = row * stride + i - padding, s = column * stride + j - padding;
          if (r < 0 || r >= height || s < 0 || s >= width) continue;
          double term = x.at(((image * channels + first + c) * height + r) * width + s) *
                        w.at(((f * inputs + c) * kernel + i) * kernel + j);
          want += term;
          terms += std::fabs(term);
        }
    check_element(dtype, y.at(((image * filters + f) * rows + row) * columns + column), want, terms);
  }
}

std::function<void()> prepare_convolution(const Json& row) {
  Convolution shape(row);
  using Tag = memory::format_tag;
  auto type = type_of(shape.dtype);
  Tag tag = shape.layout == "nchw" ? Tag::nchw : shape.layout == "nhwc" ? Tag::nhwc : Tag::any;
  int64_t groups = shape.groups;
  Dims x_dims{shape.batch, shape.channels, shape.height, shape.width};
  Dims w_dims{shape.filters / groups, shape.channels / groups, shape.kernel, shape.kernel};
  if (groups > 1) w_dims.insert(w_dims.begin(), groups);
  Dims y_dims{shape.batch, shape.filters, shape.rows, shape.columns};
  dnnl::convolution_forward::primitive_desc chosen(
      dnnl::convolution_forward::desc(dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
                                      memory::desc(x_dims, type, tag), memory::desc(w_dims, type, Tag::any),
                                      memory::desc(y_dims, type, tag), {shape.stride, shape.stride},
                                      {shape.padding, shape.padding}, {shape.padding, shape.padding}),
      engine());

  auto count = [](const Dims& dims) {
    int64_t product = 1;
    for (int64_t size : dims) product *= size;
    return product;
  };
  Memory x(count(x_dims), shape.dtype, 1), w(count(w_dims), shape.dtype, 2), y(count(y_dims), shape.dtype, 3);
  memory x_plain({x_dims, type, Tag::nchw}, engine(), x.as());
  memory w_plain({w_dims, type, groups > 1 ? Tag::goihw : Tag::oihw}, engine(), w.as());
  memory y_plain({y_dims, type, Tag::nchw}, engine(), y.as());
  // What the primitive works on, in its own layouts.
  std::unordered_map<int, memory> arguments;
  auto kept = std::make_shared<std::vector<std::unique_ptr<Memory>>>();
  auto add = [&](int which, const memory::desc& desc) {
    auto elements = static_cast<int64_t>(desc.get_size()) / size_of(shape.dtype);
    kept->push_back(std::make_unique<Memory>(elements, shape.dtype, 4));
    return arguments[which] = memory(desc, engine(), kept->back()->as());
  };
  auto copy = [](memory from, memory to) { dnnl::reorder(from, to).execute(stream(), from, to); };
  copy(x_plain, add(DNNL_ARG_SRC, chosen.src_desc()));
  copy(w_plain, add(DNNL_ARG_WEIGHTS, chosen.weights_desc()));
  memory result = add(DNNL_ARG_DST, chosen.dst_desc());
  auto run = execution(dnnl::convolution_forward(chosen), arguments);
  run();
  copy(result, y_plain);
  stream().wait();
  shape.check(x, w, y);
  return [run, kept] { run(); };
}

std::function<void()> prepare(const Json& row) {
  try {
    if (row.at("work") == "matmul") return prepare_matmul(row);
    if (row.at("work") == "conv") return prepare_convolution(row);
  } catch (const dnnl::error& error) {
    throw Skip(error.what());
  }
  throw Skip("products and convolutions only");
}

}  // namespace
}  // namespace heddle::peers

int main(int argc, char** argv) {
  omp_set_num_threads(argc > 1 ? std::atoi(argv[1]) : 1);
  const dnnl_version_t* version = dnnl::version();
  auto number = [](int part) { return std::to_string(part); };
  return heddle::peers::serve({"oneDNN",
                               number(version->major) + "." + number(version->minor) + "." + number(version->patch),
                               heddle::peers::prepare});
}
