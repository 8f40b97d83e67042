// Language models: rotary positions, grouped heads, experts, decoding with a cache.
#include "bench/zoo/build.h"

namespace heddle::zoo {
namespace {

struct Config {
  int64_t vocabulary, width, heads, groups, layers, experts = 0;
};

// Turns pairs of features by an angle that grows with the position. x [n, heads, t, width], positions [t].
Tensor rotary(const Tensor& x, const Tensor& positions) {
  int64_t half = x.size(-1) / 2;
  Tensor rates = exp(arange(half, wide(x.dtype())) * (-std::log(10000.0) / static_cast<double>(half)));
  Tensor angles = unsqueeze(cast(positions, wide(x.dtype())), 1) * rates;
  Tensor c = cast(cos(angles), x.dtype()), s = cast(sin(angles), x.dtype());
  Tensor a = slice(x, -1, 0, half), b = slice(x, -1, half);
  return cat({a * c - b * s, a * s + b * c}, -1);
}

// Keys and values of all positions so far.
struct Cache {
  Tensor keys, values;  // [n, groups, longest, width]
};

// Fewer heads for keys and values than for queries; queries and keys are normalised.
struct Attention : nn::Module<Attention> {
  nn::Linear q, k, v, out;
  nn::RMSNorm q_norm, k_norm;
  int64_t heads, groups;
  explicit Attention(const Config& c)
      : q(c.width, c.width, false),
        k(c.width, c.width / c.heads * c.groups, false),
        v(c.width, c.width / c.heads * c.groups, false),
        out(c.width, c.width, false),
        q_norm(c.width / c.heads),
        k_norm(c.width / c.heads),
        heads(c.heads),
        groups(c.groups) {}
  static Tensor split(const Tensor& x, int64_t count) { return transpose(unflatten(x, 2, {count, -1}), 1, 2); }
  Tensor operator()(const Tensor& x) const {
    Tensor positions = arange(x.size(1));
    Tensor queries = rotary(q_norm(split(q(x), heads)), positions);
    Tensor keys = rotary(k_norm(split(k(x), groups)), positions);
    Tensor seen = scaled_dot_product_attention(queries, keys, split(v(x), groups), {.causal = true});
    return out(flatten(transpose(seen, 1, 2), 2));
  }
  // One position, [1]: its key and value go into the cache, and it sees all up to itself.
  Tensor next(const Tensor& x, const Tensor& position, Cache& cache) const {
    Tensor queries = rotary(q_norm(split(q(x), heads)), position);
    Tensor keys = rotary(k_norm(split(k(x), groups)), position);
    cache.keys.assign(index_copy(cache.keys, 2, position, keys));
    cache.values.assign(index_copy(cache.values, 2, position, split(v(x), groups)));
    Tensor mask = reshape(arange(cache.keys.size(2)) <= position, {1, 1, 1, -1});
    Tensor seen = scaled_dot_product_attention(queries, cache.keys, cache.values, {.mask = mask});
    return out(flatten(transpose(seen, 1, 2), 2));
  }
  template <class V>
  void visit(V& visitor) {
    visitor("q", q);
    visitor("k", k);
    visitor("v", v);
    visitor("out", out);
    visitor("q_norm", q_norm);
    visitor("k_norm", k_norm);
    visitor.settings(heads, groups);
  }
};

struct SwiGLU : nn::Module<SwiGLU> {
  nn::Linear gate, up, down;
  SwiGLU(int64_t width, int64_t hidden)
      : gate(width, hidden, false), up(width, hidden, false), down(hidden, width, false) {}
  Tensor operator()(const Tensor& x) const { return down(silu(gate(x)) * up(x)); }
  template <class V>
  void visit(V& v) {
    v("gate", gate);
    v("up", up);
    v("down", down);
  }
};

// Each token goes to the two experts that its router likes best. All experts see all tokens; what a token did not
// choose counts zero.
struct Experts : nn::Module<Experts> {
  nn::Linear router;
  Tensor gate, up, down;  // [experts, inputs, outputs]
  Experts(int64_t width, int64_t hidden, int64_t count)
      : router(width, count, false),
        gate(nn::init::xavier_uniform({count, width, hidden})),
        up(nn::init::xavier_uniform({count, width, hidden})),
        down(nn::init::xavier_uniform({count, hidden, width})) {}
  Tensor operator()(const Tensor& x) const {
    Tensor tokens = flatten(x, 0, 1);
    auto [best, which] = topk(softmax(router(tokens), -1), 2);
    Tensor share = best / best.sum(-1, true);  // [tokens, 2]
    Tensor weights = (unsqueeze(share, 2) * one_hot(which, gate.size(0), share.dtype())).sum(1);
    Tensor hidden = silu(einsum("td,edh->eth", {tokens, gate})) * einsum("td,edh->eth", {tokens, up});
    Tensor result = einsum("eth,ehd->etd", {hidden, down});
    return reshape((result * unsqueeze(transpose(weights), 2)).sum(0), x.shape());
  }
  template <class V>
  void visit(V& v) {
    v("router", router);
    v("gate", gate);
    v("up", up);
    v("down", down);
  }
};

struct Block : nn::Module<Block> {
  nn::RMSNorm norm1, norm2;
  Attention attention;
  std::optional<SwiGLU> feed;
  std::optional<Experts> experts;
  explicit Block(const Config& c) : norm1(c.width), norm2(c.width), attention(c) {
    if (c.experts) experts.emplace(c.width, 2 * c.width, c.experts);
    if (!c.experts) feed.emplace(c.width, 3 * c.width);
  }
  Tensor fed(const Tensor& x) const { return x + (experts ? (*experts)(norm2(x)) : (*feed)(norm2(x))); }
  Tensor operator()(const Tensor& x) const { return fed(x + attention(norm1(x))); }
  Tensor next(const Tensor& x, const Tensor& position, Cache& cache) const {
    return fed(x + attention.next(norm1(x), position, cache));
  }
  template <class V>
  void visit(V& v) {
    v("norm1", norm1);
    v("norm2", norm2);
    v("attention", attention);
    v("feed", feed);
    v("experts", experts);
  }
};

struct Llama : nn::Module<Llama> {
  nn::Embedding words;
  std::vector<Block> blocks;
  nn::RMSNorm norm;
  explicit Llama(const Config& c) : words(c.vocabulary, c.width), norm(c.width) {
    // As published models begin. Wide vectors would leave only one word possible, and subnormal gradients of all
    // others.
    words.weight = (words.weight * 0.02).realize();
    for (int64_t i = 0; i < c.layers; ++i) blocks.emplace_back(c);
  }
  // The table of words is the head, too.
  Tensor head(const Tensor& x) const { return matmul(norm(x), transpose(words.weight)); }
  Tensor operator()(const Tensor& ids) const {
    Tensor x = words(ids);
    for (const Block& block : blocks) x = block(x);
    return head(x);
  }
  Tensor next(const Tensor& ids, const Tensor& position, std::vector<Cache>& caches) const {
    Tensor x = words(ids);
    for (size_t i = 0; i < blocks.size(); ++i) x = blocks[i].next(x, position, caches[i]);
    return head(x);
  }
  template <class V>
  void visit(V& v) {
    v("words", words);
    v("blocks", blocks);
    v("norm", norm);
  }
};

Tensor language_loss(const Llama& net, const TensorList& batch) {
  Tensor logits = net(slice(batch[0], 1, 0, -1));
  return cross_entropy(flatten(logits, 0, 1), flatten(slice(batch[0], 1, 1)));
}

Config config_of(Size size, int64_t experts) { return {pick(size, 23, 2000), pick(size, 16, 128), 4, 2, 2, experts}; }

Instance make_language(Size size, DType dtype, uint64_t seed, int64_t experts) {
  manual_seed(seed);
  Llama net(config_of(size, experts));
  int64_t batch = pick(size, 2, 4), time = pick(size, 9, 65);
  return trained(
      net, {{"ids", classes({batch, time}, net.words.weight.size(0))}}, dtype,
      [](const Llama& n, const TensorList& b) { return n(b[0]); }, language_loss);
}
Instance make_llama(Size size, DType dtype) { return make_language(size, dtype, 16, 0); }
Instance make_moe(Size size, DType dtype) { return make_language(size, dtype, 17, pick(size, 4, 8)); }

// The same net; its forward is a step of decoding behind a cache that earlier positions have filled.
struct Decoder : nn::Module<Decoder> {
  Llama net;
  std::vector<Tensor> keys, values;
  Decoder(const Config& c, int64_t batch, int64_t longest) : net(c) {
    for (int64_t i = 0; i < c.layers; ++i) {
      Dims shape{batch, c.groups, longest, c.width / c.heads};
      keys.push_back(noise(shape, 4 + static_cast<uint64_t>(i)));
      values.push_back(noise(shape, 8 + static_cast<uint64_t>(i)));
      buffers.insert({"keys." + std::to_string(i), "values." + std::to_string(i)});
    }
  }
  Tensor next(const Tensor& ids, const Tensor& position) const {
    std::vector<Cache> caches;
    for (size_t i = 0; i < keys.size(); ++i) caches.push_back({keys[i], values[i]});
    return net.next(ids, position, caches);
  }
  template <class V>
  void visit(V& v) {
    v("net", net);
    v("keys", keys);
    v("values", values);
  }
};

Instance make_decode(Size size, DType dtype) {
  manual_seed(18);
  int64_t batch = pick(size, 2, 4), time = pick(size, 9, 65), longest = pick(size, 12, 256);
  Config config = config_of(size, 0);
  return trained(
      Decoder(config, batch, longest),
      {{"ids", classes({batch, time}, config.vocabulary)},
       {"position", full({1}, pick(size, 7, 200), kI64).realize()},
       {"next", classes({batch, 1}, config.vocabulary, 3)}},
      dtype, [](const Decoder& d, const TensorList& b) { return d.next(b[2], b[1]); },
      [](const Decoder& d, const TensorList& b) { return language_loss(d.net, b); });
}

constexpr Entry kModels[] = {
    {"llama", "rotary positions, grouped heads, normalised queries and keys", make_llama},
    {"moe", "mixture of experts with top-k routing", make_moe},
    {"decode", "a step of decoding with a cache of keys and values", make_decode},
};

}  // namespace

std::span<const Entry> decoder_models() { return kModels; }

}  // namespace heddle::zoo
