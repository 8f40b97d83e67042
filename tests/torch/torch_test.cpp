// Losses, layers and optimisers, with their inputs, into a safetensors file that compare.py computes again with
// PyTorch.
#include <heddle/heddle.h>

#include <cmath>
#include <cstdio>
#include <exception>

namespace {

using namespace heddle;

TensorMap g_out;
void put(const std::string& name, const Tensor& value) { g_out.emplace(name, value); }

void losses() {
  manual_seed(11);
  Tensor logits = randn({6, 5}), target = randn({6, 5}), weight = uniform(5, 0.5, 2);
  Tensor classes = tensor({1, 4, 0, 2, 2, 3}, kI64), some = tensor({1, -100, 0, 2, -100, 3}, kI64);
  Tensor p = softmax(target), images = randn({2, 5, 3}), labels = tensor({{0, 4, 2}, {1, 1, 3}}, kI64);
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, Tensor>>{{"logits", logits},
                                                                                         {"target", target},
                                                                                         {"weight", weight},
                                                                                         {"classes", classes},
                                                                                         {"some", some},
                                                                                         {"p", p},
                                                                                         {"images", images},
                                                                                         {"labels", labels}})
    put(std::string("in.") + name, value);
  const std::pair<const char*, Reduction> reductions[] = {
      {"none", Reduction::None}, {"mean", Reduction::Mean}, {"sum", Reduction::Sum}};
  for (const auto& [how, r] : reductions) {
    std::string end = std::string(".") + how;
    put("mse" + end, mse_loss(logits, target, r));
    put("l1" + end, l1_loss(logits, target, r));
    put("smooth_l1" + end, smooth_l1_loss(logits, target, 0.7, r));
    put("huber" + end, huber_loss(logits, target, 0.7, r));
    put("ce" + end, cross_entropy(logits, classes, {.reduction = r}));
    put("ce_all" + end, cross_entropy(logits, some, {.weight = weight, .label_smoothing = 0.1, .reduction = r}));
    put("ce_p" + end, cross_entropy(logits, p, {.weight = weight, .label_smoothing = 0.2, .reduction = r}));
    put("ce_images" + end, cross_entropy(images, labels, {.weight = weight, .ignore_index = 1, .reduction = r}));
    put("nll" + end, nll_loss(log_softmax(logits), some, {.weight = weight, .reduction = r}));
    put("bce" + end, bce_loss(sigmoid(logits), p, {.reduction = r}));
    put("bce_logits" + end, bce_with_logits(logits, p, {.weight = weight, .pos_weight = weight, .reduction = r}));
    put("kl" + end, kl_div(log_softmax(logits), p, r));
  }
  put("kl.batchmean", kl_div(log_softmax(logits), log(p), Reduction::BatchMean, true));
}

// A function of an input and a weight, with gradients of both.
void function(const std::string& name, const Dims& x_shape, const Dims& w_shape,
              const std::function<Tensor(const Tensor& x, const Tensor& w)>& f) {
  Tensor x = randn(x_shape).realize(), w = randn(w_shape).realize();
  auto [y, pull] = vjp([&](const TensorList& in) { return f(in[0], in[1]); }, TensorList{x, w});
  Tensor g = randn(y.shape()).realize();
  TensorList gradients = pull(g);
  const std::pair<const char*, Tensor> values[] = {{"in.x", x}, {"in.w", w},          {"in.g", g},
                                                   {"y", y},    {"dx", gradients[0]}, {"dw", gradients[1]}};
  for (const auto& [part, value] : values)
    put((part[0] == 'i' ? "in.conv." + name + (part + 2) : "conv." + name + "." + part), value);
}

void convolutions() {
  manual_seed(21);
  function("plain", {2, 3, 8, 9}, {4, 3, 3, 2}, [](auto& x, auto& w) { return conv2d(x, w); });
  function("strided", {2, 3, 11, 12}, {4, 3, 3, 3},
           [](auto& x, auto& w) { return conv2d(x, w, {}, {.stride = {2, 3}, .padding = {1, 0}}); });
  function("seven", {2, 3, 20, 20}, {8, 3, 7, 7},
           [](auto& x, auto& w) { return conv2d(x, w, {}, {.stride = 2, .padding = 3}); });
  function("dilated", {1, 4, 12, 13}, {6, 2, 3, 3}, [](auto& x, auto& w) {
    return conv2d(x, w, {}, {.stride = {1, 2}, .padding = 2, .dilation = {2, 3}, .groups = 2});
  });
  function("depthwise", {2, 6, 9, 9}, {6, 1, 3, 3},
           [](auto& x, auto& w) { return conv2d(x, w, {}, {.padding = "same", .groups = 6}); });
  function("one", {2, 3, 20}, {5, 3, 4}, [](auto& x, auto& w) { return conv1d(x, w, {}, {.padding = "same"}); });
  function("three", {1, 2, 5, 6, 7}, {3, 2, 2, 3, 2},
           [](auto& x, auto& w) { return conv3d(x, w, {}, {.stride = {1, 2, 1}, .padding = 1}); });
  function("transposed", {2, 4, 5, 6}, {4, 3, 3, 2}, [](auto& x, auto& w) {
    return conv_transpose2d(x, w, {}, {.stride = {2, 3}, .padding = {1, 0}, .output_padding = {1, 2}});
  });
  function("transposed_groups", {1, 4, 6}, {4, 2, 3}, [](auto& x, auto& w) {
    return conv_transpose1d(x, w, {}, {.stride = 2, .padding = 1, .groups = 2, .dilation = 2});
  });
  function("max_pool", {2, 3, 9, 10}, {1},
           [](auto& x, auto& w) { return max_pool2d(x, 3, {.stride = 2, .padding = 1, .ceil_mode = true}) * w; });
  function("avg_pool", {2, 3, 9, 10}, {1},
           [](auto& x, auto& w) { return avg_pool2d(x, {2, 3}, {.padding = 1, .ceil_mode = true}) * w; });
  function("avg_pool_inside", {2, 3, 9, 10}, {1}, [](auto& x, auto& w) {
    return avg_pool2d(x, {2, 3}, {.stride = 2, .padding = 1, .count_include_pad = false}) * w;
  });
  function("adaptive", {2, 3, 9, 10}, {1}, [](auto& x, auto& w) { return adaptive_avg_pool2d(x, {4, 5}) * w; });
  function("adaptive_max", {2, 3, 9, 10}, {1}, [](auto& x, auto& w) { return adaptive_max_pool2d(x, {4, 5}) * w; });
}

template <class M>
void layer(const std::string& name, const M& module, const Tensor& x) {
  for (const auto& [path, tensor] : module.state()) put("layer." + name + ".state." + path, tensor);
  put("layer." + name + ".x", x);
  put("layer." + name + ".y", module(x));
}

void layers() {
  Tensor x = randn({2, 7, 12});
  layer("linear", nn::Linear(12, 5), x);
  nn::LayerNorm norm(12);
  norm.weight.assign(randn(12));
  norm.bias->assign(randn(12));
  layer("layer_norm", norm, x);
  layer("embedding", nn::Embedding(9, 4), tensor({{1, 8, 0}, {3, 3, 2}}, kI64));
  nn::MultiHeadAttention attention(12, 3), causal(12, 3, true);
  attention.in_proj_bias.assign(randn(36));
  layer("attention", attention, x);
  layer("causal", causal, x);
  Tensor images = randn({3, 4, 6, 5});
  layer("conv", nn::Conv2d(4, 6, 3, {.stride = 2, .padding = 1, .groups = 2}), images);
  layer("up", nn::ConvTranspose2d(4, 6, 3, {.stride = 2, .padding = 1, .output_padding = 1}), images);
  nn::BatchNorm2d batch_norm(4);
  batch_norm.weight->assign(randn(4));
  batch_norm.bias->assign(randn(4));
  batch_norm(images * 3 + 1).realize();
  realize({batch_norm.running_mean, batch_norm.running_var, batch_norm.num_batches_tracked});
  batch_norm.eval();
  layer("batch_norm", batch_norm, images);
  nn::GroupNorm group_norm(2, 4);
  group_norm.weight->assign(randn(4));
  group_norm.bias->assign(randn(4));
  layer("group_norm", group_norm, images);
  layer("net", nn::Sequential(nn::Linear(12, 8), nn::GELU(), nn::Linear(8, 6), nn::SiLU()), x);
}

void optimiser(const std::string& name, const std::function<optim::Optimizer(const Tensor& p)>& make) {
  Tensor p = randn({4, 3}).realize();
  put("optim." + name + ".begin", p.clone());
  optim::Optimizer opt = make(p);
  std::vector<Tensor> gradients, values;
  for (int i = 0; i < 12; ++i) {
    gradients.push_back(randn({4, 3}).realize());
    opt.step({gradients.back()});
    values.push_back(p.clone());
  }
  put("optim." + name + ".gradients", stack(gradients));
  put("optim." + name + ".values", stack(values));
}

void optimisers() {
  using namespace optim;
  optimiser("sgd", [](const Tensor& p) { return SGD({p}, {.lr = 0.1, .weight_decay = 0.05}); });
  optimiser("momentum", [](const Tensor& p) {
    return SGD({p}, {.lr = 0.1, .momentum = 0.9, .dampening = 0.2, .weight_decay = 0.05});
  });
  optimiser("nesterov", [](const Tensor& p) { return SGD({p}, {.lr = 0.1, .momentum = 0.9, .nesterov = true}); });
  optimiser("adam", [](const Tensor& p) { return Adam({p}, {.lr = 0.1, .weight_decay = 0.05}); });
  optimiser("adamw", [](const Tensor& p) { return AdamW({p}, {.lr = 0.1, .weight_decay = 0.05}); });
  optimiser("amsgrad", [](const Tensor& p) { return AdamW({p}, {.lr = 0.1, .amsgrad = true}); });
  optimiser("rmsprop", [](const Tensor& p) { return RMSprop({p}, {.lr = 0.1, .weight_decay = 0.05}); });
  optimiser("rmsprop_momentum",
            [](const Tensor& p) { return RMSprop({p}, {.lr = 0.1, .alpha = 0.9, .momentum = 0.8, .centered = true}); });
  optimiser("adagrad", [](const Tensor& p) { return Adagrad({p}, {.lr = 0.1}); });
  optimiser("cosine", [](const Tensor& p) { return SGD({p}, {.lr = optim::cosine(0.1, 10, 0.01)}); });
}

struct AttentionNet : nn::Module<AttentionNet> {
  nn::Embedding table{11, 12};
  nn::LayerNorm norm{12};
  nn::MultiHeadAttention attention{12, 3, true};
  nn::Linear out{12, 5};
  Tensor operator()(const Tensor& ids) const {
    Tensor x = table(ids);
    return out((x + attention(norm(x))).mean(1));
  }
  template <class V>
  void visit(V& v) {
    v("table", table);
    v("norm", norm);
    v("attention", attention);
    v("out", out);
  }
};

// Fifty captured steps.
template <class Net>
void training(const std::string& name, Net net, const Tensor& x) {
  Tensor t = tensor({0, 3, 1, 4, 2, 0}, kI64).realize();
  for (const auto& [path, tensor] : net.copy().state()) put("train." + name + ".state." + path, tensor);
  put("train." + name + ".x", x);
  optim::AdamW opt(net, {.lr = 0.01, .weight_decay = 0.1});
  auto step = jit([&](Tensor in, Tensor target) {
    Tensor loss = cross_entropy(net(in), target);
    opt.step(grad(loss, net.parameters()));
    return loss;
  });
  std::vector<Tensor> losses;
  for (int i = 0; i < 50; ++i) losses.push_back(step(x, t));
  put("train." + name + ".losses", stack(losses));
}

void trainings() {
  training("perceptron", nn::Sequential(nn::Linear(12, 32), nn::ReLU(), nn::Linear(32, 5)), randn({6, 12}).realize());
  training("attention", AttentionNet(), (arange(42) * 5 % 11).reshape(6, 7).realize());
  training("images",
           nn::Sequential(nn::Conv2d(2, 4, 3, {.padding = 1}), nn::BatchNorm2d(4), nn::ReLU(),
                          nn::MaxPool2d(3, {.stride = 2, .padding = 1}),
                          nn::Conv2d(4, 6, 3, {.stride = 2, .groups = 2, .bias = false}), nn::BatchNorm2d(6),
                          nn::ReLU(), nn::AdaptiveAvgPool2d(1), nn::Flatten(), nn::Linear(6, 5)),
           randn({6, 2, 10, 10}).realize());
  // Logits of the last place.
  struct Last : nn::Module<Last> {
    models::GPT2 net{{.vocabulary = 11, .context = 8, .width = 12, .layers = 2, .heads = 3}};
    Tensor operator()(const Tensor& ids) const { return net(ids).select(1, -1); }
    void visit(nn::Visitor& v) { net.visit(v); }
  };
  training("gpt2", Last(), (arange(42) * 5 % 11).reshape(6, 7).realize());
}

}  // namespace

int main(int count, char** arguments) {
  try {
    if (count != 2) throw ValueError("usage: torch_test FILE");
    losses();
    layers();
    convolutions();
    optimisers();
    trainings();
    save_safetensors(arguments[1], g_out);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "torch_test: %s\n", error.what());
    return 1;
  }
}
