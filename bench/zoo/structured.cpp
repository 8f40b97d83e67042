// Graphs, tables, equations, and training in f16.
#include "bench/zoo/build.h"

namespace heddle::zoo {
namespace {

// Kipf's: features of the neighbours, by the roots of both degrees.
struct GraphConv : nn::Module<GraphConv> {
  nn::Linear linear;
  GraphConv(int64_t inputs, int64_t outputs) : linear(inputs, outputs) {}
  Tensor operator()(const Tensor& x, const Tensor& from, const Tensor& to) const {
    int64_t nodes = x.size(0);
    Tensor one = ones({from.size(0)}, x.dtype());
    Tensor degree = index_add(ones({nodes}, x.dtype()), 0, to, one);
    Tensor root = rsqrt(degree);
    Tensor y = linear(x) * unsqueeze(root, 1);
    return index_add(y, 0, to, gather(y, from)) * unsqueeze(root, 1);
  }
  template <class V>
  void visit(V& v) {
    v("linear", linear);
  }
};

struct GCN : nn::Module<GCN> {
  GraphConv first, second;
  GCN(int64_t inputs, int64_t hidden, int64_t outputs) : first(inputs, hidden), second(hidden, outputs) {}
  Tensor operator()(const Tensor& x, const Tensor& from, const Tensor& to) const {
    return second(relu(first(x, from, to)), from, to);
  }
  template <class V>
  void visit(V& v) {
    v("first", first);
    v("second", second);
  }
};

Instance make_gcn(Size size, DType dtype) {
  manual_seed(24);
  int64_t nodes = pick(size, 20, 2000), edges = pick(size, 50, 10000), inputs = pick(size, 6, 64);
  return trained(
      GCN(inputs, pick(size, 8, 64), 7),
      {{"x", noise({nodes, inputs})},
       {"from", classes({edges}, nodes, 3)},
       {"to", classes({edges}, nodes, 4)},
       {"targets", classes({nodes}, 7)}},
      dtype, [](const GCN& n, const TensorList& b) { return n(b[0], b[1], b[2]); },
      [](const GCN& n, const TensorList& b) { return cross_entropy(n(b[0], b[1], b[2]), b[3]); });
}

// DLRM: bags of categories, each the mean of its rows, multiplied with each other and with the numbers.
struct Recommender : nn::Module<Recommender> {
  std::vector<nn::Embedding> tables;
  nn::Sequential bottom, top;
  Recommender(int64_t rows, int64_t width, int64_t count, int64_t numbers)
      : bottom(nn::Linear(numbers, 2 * width), nn::ReLU(), nn::Linear(2 * width, width), nn::ReLU()),
        top(nn::Linear(width + (count + 1) * (count + 1), 2 * width), nn::ReLU(), nn::Linear(2 * width, 1)) {
    for (int64_t i = 0; i < count; ++i) tables.emplace_back(rows, width);
  }
  // numbers [n, inputs], bags [n, tables, per bag]
  Tensor operator()(const Tensor& numbers, const Tensor& bags) const {
    Tensor dense = bottom(numbers);
    std::vector<Tensor> features{dense};
    for (size_t i = 0; i < tables.size(); ++i)
      features.push_back(tables[i](select(bags, 1, static_cast<int64_t>(i))).mean(1));
    Tensor all = stack(features, 1);
    Tensor products = flatten(matmul(all, transpose(all)), 1);
    return squeeze(top(cat({dense, products}, 1)), 1);
  }
  template <class V>
  void visit(V& v) {
    v("tables", tables);
    v("bottom", bottom);
    v("top", top);
  }
};

Instance make_recommender(Size size, DType dtype) {
  manual_seed(25);
  int64_t rows = pick(size, 30, 20000), batch = pick(size, 4, 128), tables = pick(size, 3, 8);
  Recommender net(rows, pick(size, 6, 32), tables, 5);
  return trained(
      net,
      {{"numbers", noise({batch, 5})},
       {"bags", classes({batch, tables, 4}, rows)},
       {"clicks", (noise({batch}, 3) > 0).cast(kF32).realize()}},
      dtype, [](const Recommender& n, const TensorList& b) { return n(b[0], b[1]); },
      [](const Recommender& n, const TensorList& b) { return bce_with_logits(n(b[0], b[1]), b[2]); });
}

// A net that solves the heat equation: the loss is made of first and second derivatives.
struct HeatNet : nn::Module<HeatNet> {
  nn::Sequential layers;
  explicit HeatNet(int64_t hidden)
      : layers(nn::Linear(2, hidden), nn::Tanh(), nn::Linear(hidden, hidden), nn::Tanh(), nn::Linear(hidden, 1)) {}
  Tensor operator()(const Tensor& x, const Tensor& t) const { return squeeze(layers(stack({x, t}, 1)), 1); }
  template <class V>
  void visit(V& v) {
    v("layers", layers);
  }
};

Instance make_heat(Size size, DType dtype) {
  manual_seed(26);
  int64_t points = pick(size, 12, 1024);
  return trained(
      HeatNet(pick(size, 8, 64)), {{"x", noise({points})}, {"t", abs(noise({points}, 3)).realize()}}, dtype,
      [](const HeatNet& u, const TensorList& b) { return u(b[0], b[1]); },
      [](const HeatNet& u, const TensorList& b) {
        Tensor x = detach(b[0]).requires_grad_(), t = detach(b[1]).requires_grad_();
        Tensor value = u(x, t);
        TensorList slopes = grad(value.sum(), TensorList{x, t});
        Tensor bend = grad(slopes[0].sum(), x);
        Tensor start = u(b[0], zeros_like(b[1]));
        return square(slopes[1] - 0.1 * bend).mean() + mse_loss(start, sin(b[0]));
      });
}

// Losses are multiplied by a scale, so that small gradients of f16 do not vanish. A step whose gradients overflow
// changes nothing but the scale.
struct LossScale {
  Tensor scale = full({}, 1024.0).realize();
  Tensor good = zeros({}, kI64).realize();
};

Instance make_f16_mlp(Size size, DType dtype) {
  manual_seed(27);
  int64_t hidden = pick(size, 24, 512), batch = pick(size, 6, 64), inputs = pick(size, 12, 256);
  nn::Sequential net(nn::Linear(inputs, hidden), nn::LayerNorm(hidden), nn::GELU(), nn::Linear(hidden, hidden),
                     nn::LayerNorm(hidden), nn::GELU(), nn::Linear(hidden, 10));
  net.to(kF16);
  net.to(dtype);
  auto model = std::make_shared<nn::Sequential>(net);
  auto opt = std::make_shared<optim::AdamW>(*model, adamw());
  auto scaler = std::make_shared<LossScale>();
  Instance result;
  result.state = model->state();
  result.data = in_dtype({{"x", cast(noise({batch, inputs}), kF16)}, {"targets", classes({batch}, 10)}}, dtype);
  result.forward = [model](const TensorList& b) { return TensorList{(*model)(b[0])}; };
  result.train = [model](bool on) { model->train(on); };
  result.step = [model, opt, scaler](const TensorList& b) {
    Tensor loss = cross_entropy((*model)(b[0]), b[1]);
    TensorList gradients = grad(loss * cast(scaler->scale, loss.dtype()), model->parameters());
    Tensor finite = full({}, true, kBool);
    for (Tensor& g : gradients) {
      finite = logical_and(finite, isfinite(g).all());
      g = cast(g, loss.dtype()) / cast(scaler->scale, loss.dtype());
    }
    NamedTensors changed;
    for (const auto& [name, tensor] : model->state()) changed.emplace_back(name, tensor);
    for (const auto& [name, tensor] : opt->state()) changed.emplace_back(name, tensor);
    TensorList before;
    for (const auto& [name, tensor] : changed) before.push_back(clone(tensor));
    opt->step(gradients);
    for (size_t i = 0; i < changed.size(); ++i) changed[i].second.assign(where(finite, changed[i].second, before[i]));
    scaler->good.assign(where(finite, scaler->good + 1, 0));
    Tensor grown = where(scaler->good % 2000 == 0, scaler->scale * 2, scaler->scale);
    scaler->scale.assign(where(finite, grown, scaler->scale * 0.5));
    return TensorList{loss};
  };
  return result;
}

// More classes than anything else: the head is most of the model.
Instance make_many_classes(Size size, DType dtype) {
  manual_seed(6);
  int64_t hidden = pick(size, 32, 64), count = pick(size, 3001, 20011), batch = pick(size, 8, 32);
  nn::Sequential net(nn::Linear(12, hidden), nn::Tanh(), nn::Linear(hidden, count));
  return classifier(net, noise({batch, 12}), classes({batch}, count), dtype);
}

constexpr Entry kModels[] = {
    {"gcn", "graph convolution by edges", make_gcn},
    {"recommender", "embedding bags and their products", make_recommender},
    {"heat", "a loss of second derivatives", make_heat},
    {"f16_mlp", "f16 with loss scaling", make_f16_mlp, kF16},
    {"many_classes", "a head of thousands of classes", make_many_classes},
};

}  // namespace

std::span<const Entry> structured_models() { return kModels; }

}  // namespace heddle::zoo
