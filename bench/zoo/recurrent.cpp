// Models of sequences that are no transformers.
#include "bench/zoo/build.h"

namespace heddle::zoo {
namespace {

// A cell that PyTorch calls LSTMCell: gates input, forget, cell, output.
struct LSTMCell : nn::Module<LSTMCell> {
  Tensor weight_ih, weight_hh, bias_ih, bias_hh;
  LSTMCell(int64_t inputs, int64_t hidden)
      : weight_ih(uniform({4 * hidden, inputs}, -0.2, 0.2).realize()),
        weight_hh(uniform({4 * hidden, hidden}, -0.2, 0.2).realize()),
        bias_ih(uniform({4 * hidden}, -0.2, 0.2).realize()),
        bias_hh(uniform({4 * hidden}, -0.2, 0.2).realize()) {}
  std::pair<Tensor, Tensor> operator()(const Tensor& x, const Tensor& h, const Tensor& c) const {
    Tensor all = matmul(x, transpose(weight_ih)) + bias_ih + matmul(h, transpose(weight_hh)) + bias_hh;
    std::vector<Tensor> gates = chunk(all, 4, 1);
    Tensor cell = sigmoid(gates[1]) * c + sigmoid(gates[0]) * tanh(gates[2]);
    return {sigmoid(gates[3]) * tanh(cell), cell};
  }
  template <class V>
  void visit(V& v) {
    v("weight_ih", weight_ih);
    v("weight_hh", weight_hh);
    v("bias_ih", bias_ih);
    v("bias_hh", bias_hh);
  }
};

// Reset, update, new.
struct GRUCell : nn::Module<GRUCell> {
  Tensor weight_ih, weight_hh, bias_ih, bias_hh;
  GRUCell(int64_t inputs, int64_t hidden)
      : weight_ih(uniform({3 * hidden, inputs}, -0.2, 0.2).realize()),
        weight_hh(uniform({3 * hidden, hidden}, -0.2, 0.2).realize()),
        bias_ih(uniform({3 * hidden}, -0.2, 0.2).realize()),
        bias_hh(uniform({3 * hidden}, -0.2, 0.2).realize()) {}
  Tensor operator()(const Tensor& x, const Tensor& h) const {
    std::vector<Tensor> i = chunk(matmul(x, transpose(weight_ih)) + bias_ih, 3, 1);
    std::vector<Tensor> o = chunk(matmul(h, transpose(weight_hh)) + bias_hh, 3, 1);
    Tensor reset = sigmoid(i[0] + o[0]), update = sigmoid(i[1] + o[1]);
    Tensor fresh = tanh(i[2] + reset * o[2]);
    return (1 - update) * fresh + update * h;
  }
  template <class V>
  void visit(V& v) {
    v("weight_ih", weight_ih);
    v("weight_hh", weight_hh);
    v("bias_ih", bias_ih);
    v("bias_hh", bias_hh);
  }
};

// The next letter, by two layers of cells.
struct CharLSTM : nn::Module<CharLSTM> {
  nn::Embedding letters;
  LSTMCell first, second;
  nn::Linear head;
  CharLSTM(int64_t count, int64_t width)
      : letters(count, width), first(width, width), second(width, width), head(width, count) {}
  Tensor operator()(const Tensor& ids) const {
    Tensor x = letters(ids), zero = zeros({x.size(0), x.size(2)}, x.dtype());
    Tensor h1 = zero, c1 = zero, h2 = zero, c2 = zero;
    std::vector<Tensor> outputs;
    for (const Tensor& now : unbind(x, 1)) {
      std::tie(h1, c1) = first(now, h1, c1);
      std::tie(h2, c2) = second(h1, h2, c2);
      outputs.push_back(head(h2));
    }
    return stack(outputs, 1);
  }
  template <class V>
  void visit(V& v) {
    v("letters", letters);
    v("first", first);
    v("second", second);
    v("head", head);
  }
};

Tensor next_loss(const Tensor& logits, const Tensor& ids) {
  return cross_entropy(flatten(slice(logits, 1, 0, -1), 0, 1), flatten(slice(ids, 1, 1)));
}

template <class Net>
Instance next_letter(const Net& net, const Tensor& ids, DType dtype) {
  return trained(
      net, {{"ids", ids}}, dtype, [](const Net& n, const TensorList& b) { return n(b[0]); },
      [](const Net& n, const TensorList& b) { return next_loss(n(b[0]), b[0]); });
}

Instance make_lstm(Size size, DType dtype) {
  manual_seed(19);
  CharLSTM net(29, pick(size, 12, 128));
  return next_letter(net, classes({pick(size, 3, 16), pick(size, 5, 24)}, 29), dtype);
}

// Reads a sequence in both directions and says what it is.
struct GRUClassifier : nn::Module<GRUClassifier> {
  GRUCell forwards, backwards;
  nn::Linear head;
  GRUClassifier(int64_t inputs, int64_t hidden)
      : forwards(inputs, hidden), backwards(inputs, hidden), head(2 * hidden, 5), width(hidden) {}
  int64_t width;
  Tensor operator()(const Tensor& x) const {
    Tensor a = zeros({x.size(0), width}, x.dtype()), b = a;
    for (const Tensor& now : unbind(x, 1)) a = forwards(now, a);
    for (const Tensor& now : unbind(flip(x, 1), 1)) b = backwards(now, b);
    return head(cat({a, b}, 1));
  }
  template <class V>
  void visit(V& v) {
    v("forwards", forwards);
    v("backwards", backwards);
    v("head", head);
    v.settings(width);
  }
};

Instance make_gru(Size size, DType dtype) {
  manual_seed(20);
  int64_t inputs = pick(size, 6, 64), batch = pick(size, 3, 16);
  return classifier(GRUClassifier(inputs, pick(size, 10, 128)), noise({batch, pick(size, 5, 24), inputs}),
                    classes({batch}, 5), dtype);
}

// A linear recurrence with gates that depend on the input: h = a h + sqrt(1 - a^2) (i x).
struct LinearRecurrence : nn::Module<LinearRecurrence> {
  nn::Linear decay, input, gate, out;
  nn::RMSNorm norm;
  explicit LinearRecurrence(int64_t width)
      : decay(width, width), input(width, width), gate(width, width), out(width, width), norm(width) {}
  Tensor operator()(const Tensor& x) const {
    Tensor y = norm(x);
    Tensor a = exp(-0.5 * softplus(decay(y)));
    Tensor b = sqrt(1 - a * a) * sigmoid(input(y)) * y;
    std::vector<Tensor> as = unbind(a, 1), bs = unbind(b, 1), states;
    Tensor h = bs[0];
    states.push_back(h);
    for (size_t t = 1; t < as.size(); ++t) {
      h = as[t] * h + bs[t];
      states.push_back(h);
    }
    return x + out(stack(states, 1) * gelu(gate(y)));
  }
  template <class V>
  void visit(V& v) {
    v("decay", decay);
    v("input", input);
    v("gate", gate);
    v("out", out);
    v("norm", norm);
  }
};

// Letters through two blocks of a kind, and back.
template <class Block>
struct Letters : nn::Module<Letters<Block>> {
  nn::Embedding letters;
  Block first, second;
  nn::Linear head;
  template <class... More>
  Letters(int64_t count, int64_t width, More... more)
      : letters(count, width), first(width, more...), second(width, more...), head(width, count) {}
  Tensor operator()(const Tensor& ids) const { return head(second(first(letters(ids)))); }
  template <class V>
  void visit(V& v) {
    v("letters", letters);
    v("first", first);
    v("second", second);
    v("head", head);
  }
};

Instance make_griffin(Size size, DType dtype) {
  manual_seed(21);
  Letters<LinearRecurrence> net(29, pick(size, 12, 128));
  return next_letter(net, classes({pick(size, 3, 8), pick(size, 6, 32)}, 29), dtype);
}

// A decaying memory of key times value, for all positions at once.
struct Retention : nn::Module<Retention> {
  nn::Linear q, k, v, out;
  nn::LayerNorm norm;
  int64_t heads;
  Retention(int64_t width, int64_t head_count)
      : q(width, width, false),
        k(width, width, false),
        v(width, width, false),
        out(width, width, false),
        norm(width),
        heads(head_count) {}
  Tensor split(const Tensor& x) const { return transpose(unflatten(x, 2, {heads, -1}), 1, 2); }
  Tensor operator()(const Tensor& x) const {
    Tensor y = norm(x), queries = split(q(y)), keys = split(k(y)), values = split(v(y));
    DType dtype = wide(x.dtype());
    Tensor place = arange(x.size(1), dtype), distance = unsqueeze(place, 1) - place;
    Tensor rate = log(1 - exp2(-5 - arange(heads, dtype)));  // of each head
    Tensor decay = where(distance >= 0, exp(distance * unsqueeze(rate, {1, 2})), 0);
    Tensor scores = matmul(queries, transpose(keys)) * cast(decay, x.dtype());
    return x + out(flatten(transpose(matmul(scores, values), 1, 2), 2));
  }
  template <class V>
  void visit(V& visitor) {
    visitor("q", q);
    visitor("k", k);
    visitor("v", v);
    visitor("out", out);
    visitor("norm", norm);
    visitor.settings(heads);
  }
};

Instance make_retnet(Size size, DType dtype) {
  manual_seed(22);
  Letters<Retention> net(29, pick(size, 12, 128), 4);
  return next_letter(net, classes({pick(size, 2, 8), pick(size, 7, 64)}, 29), dtype);
}

// Dilated causal convolutions with gates.
struct WaveNet : nn::Module<WaveNet> {
  nn::Conv1d in;
  std::vector<nn::Conv1d> layers, mixes;
  nn::Conv1d out;
  int64_t channels;
  explicit WaveNet(int64_t c) : in(1, c, 1), out(c, 16, 1), channels(c) {
    for (int64_t dilation : {1, 2, 4}) {
      layers.emplace_back(c, 2 * c, 2, nn::ConvLayerOptions{.dilation = dilation});
      mixes.emplace_back(c, c, 1);
    }
  }
  Tensor operator()(const Tensor& x) const {
    Tensor y = in(x), skips = zeros_like(y);
    int64_t dilation = 1;
    for (size_t i = 0; i < layers.size(); ++i, dilation *= 2) {
      std::vector<Tensor> parts = chunk(layers[i](pad(y, {{0, 0}, {0, 0}, {dilation, 0}})), 2, 1);
      Tensor mixed = mixes[i](tanh(parts[0]) * sigmoid(parts[1]));
      skips = skips + mixed;
      y = y + mixed;
    }
    return out(relu(skips));
  }
  template <class V>
  void visit(V& v) {
    v("in_", in);
    v("layers", layers);
    v("mixes", mixes);
    v("out", out);
    v.settings(channels);
  }
};

Instance make_wavenet(Size size, DType dtype) {
  manual_seed(23);
  int64_t batch = pick(size, 2, 4), time = pick(size, 16, 512);
  return classifier(WaveNet(pick(size, 4, 32)), noise({batch, 1, time}), classes({batch, time}, 16), dtype);
}

constexpr Entry kModels[] = {
    {"lstm", "two layers of cells, unrolled", make_lstm},
    {"gru", "cells in both directions, unrolled", make_gru},
    {"griffin", "gated linear recurrence, unrolled", make_griffin},
    {"retnet", "linear recurrence for all positions at once", make_retnet},
    {"wavenet", "dilated causal convolutions", make_wavenet},
};

}  // namespace

std::span<const Entry> recurrent_models() { return kModels; }

}  // namespace heddle::zoo
