// Encoders of texts, with padding; encoder and decoder.
#include "bench/zoo/build.h"

namespace heddle::zoo {
namespace {

// [n, t, heads * width] to [n, heads, t, width] and back.
Tensor in_heads(const Tensor& x, int64_t heads) { return transpose(unflatten(x, 2, {heads, -1}), 1, 2); }
Tensor from_heads(const Tensor& x) { return flatten(transpose(x, 1, 2), 2); }

struct Attention : nn::Module<Attention> {
  nn::Linear q, k, v, out;
  int64_t heads;
  Attention(int64_t width, int64_t head_count)
      : q(width, width), k(width, width), v(width, width), out(width, width), heads(head_count) {}
  Tensor operator()(const Tensor& x, const Tensor& memory, const AttentionOptions& options = {}) const {
    return out(from_heads(scaled_dot_product_attention(in_heads(q(x), heads), in_heads(k(memory), heads),
                                                       in_heads(v(memory), heads), options)));
  }
  template <class V>
  void visit(V& visitor) {
    visitor("q", q);
    visitor("k", k);
    visitor("v", v);
    visitor("out", out);
    visitor.settings(heads);
  }
};

struct FeedForward : nn::Module<FeedForward> {
  nn::Linear up, down;
  explicit FeedForward(int64_t width) : up(width, 4 * width), down(4 * width, width) {}
  Tensor operator()(const Tensor& x) const { return down(gelu(up(x))); }
  template <class V>
  void visit(V& v) {
    v("up", up);
    v("down", down);
  }
};

// Norms behind the sums, as in the first transformers.
struct EncoderLayer : nn::Module<EncoderLayer> {
  Attention attention;
  FeedForward feed;
  nn::LayerNorm norm1, norm2;
  EncoderLayer(int64_t width, int64_t heads) : attention(width, heads), feed(width), norm1(width), norm2(width) {}
  Tensor operator()(const Tensor& x, const Tensor& mask) const {
    Tensor y = norm1(x + attention(x, x, {.mask = mask}));
    return norm2(y + feed(y));
  }
  template <class V>
  void visit(V& v) {
    v("attention", attention);
    v("feed", feed);
    v("norm1", norm1);
    v("norm2", norm2);
  }
};

struct Encoder : nn::Module<Encoder> {
  nn::Embedding words, positions;
  nn::LayerNorm norm;
  std::vector<EncoderLayer> layers;
  Encoder(int64_t vocabulary, int64_t longest, int64_t width, int64_t heads, int64_t count)
      : words(vocabulary, width), positions(longest, width), norm(width) {
    for (int64_t i = 0; i < count; ++i) layers.emplace_back(width, heads);
  }
  // mask [n, 1, 1, t]: true where there is a word.
  Tensor operator()(const Tensor& ids, const Tensor& mask) const {
    Tensor x = norm(words(ids) + positions(arange(ids.size(1))));
    for (const EncoderLayer& layer : layers) x = layer(x, mask);
    return x;
  }
  template <class V>
  void visit(V& v) {
    v("words", words);
    v("positions", positions);
    v("norm", norm);
    v("layers", layers);
  }
};

// True before the length of each text.
Tensor padding_mask(const Tensor& lengths, int64_t longest) { return arange(longest) < unsqueeze(lengths, 1); }
Tensor text_lengths(int64_t batch, int64_t longest) { return (longest - arange(batch) * 3 % (longest / 2)).realize(); }

// BERT: words that are hidden are guessed; padding neither sees nor counts.
struct Bert : nn::Module<Bert> {
  Encoder encoder;
  nn::Linear head;
  Bert(int64_t vocabulary, int64_t longest, int64_t width, int64_t heads)
      : encoder(vocabulary, longest, width, heads, 2), head(width, vocabulary) {}
  Tensor operator()(const Tensor& ids, const Tensor& lengths) const {
    return head(encoder(ids, unsqueeze(padding_mask(lengths, ids.size(1)), {1, 2})));
  }
  template <class V>
  void visit(V& v) {
    v("encoder", encoder);
    v("head", head);
  }
};

Instance make_bert(Size size, DType dtype) {
  manual_seed(13);
  int64_t vocabulary = pick(size, 19, 2000), longest = pick(size, 10, 64), batch = pick(size, 3, 4);
  Bert net(vocabulary, longest, pick(size, 16, 128), pick(size, 2, 4));
  return trained(
      net,
      {{"ids", classes({batch, longest}, vocabulary)},
       {"lengths", text_lengths(batch, longest)},
       {"targets", classes({batch, longest}, vocabulary, 3)}},
      dtype, [](const Bert& n, const TensorList& b) { return n(b[0], b[1]); },
      [](const Bert& n, const TensorList& b) {
        Tensor targets = where(padding_mask(b[1], b[0].size(1)), b[2], -100);
        return cross_entropy(transpose(n(b[0], b[1]), 1, 2), targets);
      });
}

struct DecoderLayer : nn::Module<DecoderLayer> {
  Attention own, cross;
  FeedForward feed;
  nn::LayerNorm norm1, norm2, norm3;
  DecoderLayer(int64_t width, int64_t heads)
      : own(width, heads), cross(width, heads), feed(width), norm1(width), norm2(width), norm3(width) {}
  Tensor operator()(const Tensor& x, const Tensor& memory, const Tensor& mask) const {
    Tensor y = norm1(x + own(x, x, {.causal = true}));
    y = norm2(y + cross(y, memory, {.mask = mask}));
    return norm3(y + feed(y));
  }
  template <class V>
  void visit(V& v) {
    v("own", own);
    v("cross", cross);
    v("feed", feed);
    v("norm1", norm1);
    v("norm2", norm2);
    v("norm3", norm3);
  }
};

struct Translator : nn::Module<Translator> {
  Encoder encoder;
  nn::Embedding words, positions;
  std::vector<DecoderLayer> layers;
  nn::Linear head;
  Translator(int64_t vocabulary, int64_t longest, int64_t width, int64_t heads)
      : encoder(vocabulary, longest, width, heads, 1),
        words(vocabulary, width),
        positions(longest, width),
        head(width, vocabulary) {
    for (int i = 0; i < 2; ++i) layers.emplace_back(width, heads);
  }
  Tensor operator()(const Tensor& source, const Tensor& lengths, const Tensor& target) const {
    Tensor mask = unsqueeze(padding_mask(lengths, source.size(1)), {1, 2});
    Tensor memory = encoder(source, mask);
    Tensor x = words(target) + positions(arange(target.size(1)));
    for (const DecoderLayer& layer : layers) x = layer(x, memory, mask);
    return head(x);
  }
  template <class V>
  void visit(V& v) {
    v("encoder", encoder);
    v("words", words);
    v("positions", positions);
    v("layers", layers);
    v("head", head);
  }
};

Instance make_translator(Size size, DType dtype) {
  manual_seed(14);
  int64_t vocabulary = pick(size, 17, 1000), longest = pick(size, 9, 48), batch = pick(size, 2, 4);
  Translator net(vocabulary, longest, pick(size, 16, 128), pick(size, 2, 4));
  return trained(
      net,
      {{"source", classes({batch, longest}, vocabulary)},
       {"lengths", text_lengths(batch, longest)},
       {"target", classes({batch, longest}, vocabulary, 3)}},
      dtype, [](const Translator& n, const TensorList& b) { return n(b[0], b[1], b[2]); },
      [](const Translator& n, const TensorList& b) {
        Tensor logits = n(b[0], b[1], slice(b[2], 1, 0, -1));
        return cross_entropy(transpose(logits, 1, 2), slice(b[2], 1, 1), {.label_smoothing = 0.1});
      });
}

// Two towers and one matrix of likenesses: each text belongs to the image of its own row.
struct Clip : nn::Module<Clip> {
  Encoder texts;
  nn::Sequential images;
  nn::Linear text_projection;
  Tensor scale;
  Clip(int64_t vocabulary, int64_t longest, int64_t width, int64_t heads, int64_t c)
      : texts(vocabulary, longest, width, heads, 1),
        images(nn::Conv2d(3, c, 3, {.stride = 2, .padding = 1}), nn::ReLU(),
               nn::Conv2d(c, 2 * c, 3, {.stride = 2, .padding = 1}), nn::ReLU(), nn::AdaptiveAvgPool2d(1),
               nn::Flatten(), nn::Linear(2 * c, width)),
        text_projection(width, width),
        scale(full({}, std::log(1 / 0.07)).realize()) {}
  static Tensor unit(const Tensor& x) { return x / norm(x, 2, -1, true); }
  Tensor operator()(const Tensor& ids, const Tensor& lengths, const Tensor& pixels) const {
    Tensor mask = padding_mask(lengths, ids.size(1));
    Tensor words = texts(ids, unsqueeze(mask, {1, 2}));
    Tensor counts = cast(mask, words.dtype());
    Tensor mean = (words * unsqueeze(counts, 2)).sum(1) / counts.sum(1, true);
    return matmul(unit(images(pixels)), transpose(unit(text_projection(mean)))) * exp(scale);
  }
  template <class V>
  void visit(V& v) {
    v("texts", texts);
    v("images", images);
    v("text_projection", text_projection);
    v("scale", scale);
  }
};

Instance make_clip(Size size, DType dtype) {
  manual_seed(15);
  int64_t vocabulary = pick(size, 17, 1000), longest = pick(size, 8, 32), batch = pick(size, 4, 16);
  int64_t side = pick(size, 8, 32);
  Clip net(vocabulary, longest, pick(size, 16, 128), pick(size, 2, 4), pick(size, 4, 32));
  return trained(
      net,
      {{"ids", classes({batch, longest}, vocabulary)},
       {"lengths", text_lengths(batch, longest)},
       {"pixels", noise({batch, 3, side, side})}},
      dtype, [](const Clip& n, const TensorList& b) { return n(b[0], b[1], b[2]); },
      [](const Clip& n, const TensorList& b) {
        Tensor logits = n(b[0], b[1], b[2]), own = arange(b[0].size(0));
        return (cross_entropy(logits, own) + cross_entropy(transpose(logits), own)) * 0.5;
      });
}

constexpr Entry kModels[] = {
    {"bert", "encoder with padding mask", make_bert},
    {"translator", "encoder and decoder with cross attention", make_translator},
    {"clip", "contrastive loss of two towers", make_clip},
};

}  // namespace

std::span<const Entry> text_models() { return kModels; }

}  // namespace heddle::zoo
