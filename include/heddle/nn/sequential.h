// Layers one after the other.
#pragma once

#include <heddle/nn/module.h>

#include <memory>

namespace heddle::nn {

template <class L>
concept Layer = std::copy_constructible<L> && requires(const L& layer, const Tensor& x) {
  { layer(x) } -> std::convertible_to<Tensor>;
};

// Any module or function from a tensor to a tensor. Copying it copies the layer, which shares its parameters.
class AnyLayer {
 public:
  // Compared first: whether AnyLayer itself is a Layer depends on this constructor.
  template <class L>
    requires(!std::same_as<L, AnyLayer> && Layer<L>)
  AnyLayer(L layer) : self_(std::make_unique<Model<L>>(std::move(layer))) {
    static_assert(
        !std::derived_from<L, ModuleState> || Visitable<L>,
        "a layer that is a module needs a visit() that names its tensors and modules, or they are not trained");
  }
  AnyLayer(const AnyLayer& other) : self_(other.self_->clone()) {}
  AnyLayer(AnyLayer&&) = default;
  AnyLayer& operator=(const AnyLayer& other) {
    self_ = other.self_->clone();
    return *this;
  }
  AnyLayer& operator=(AnyLayer&&) = default;

  Tensor operator()(const Tensor& x) const { return self_->call(x); }
  void visit(Visitor& visitor) { self_->visit(visitor); }
  void collect_parts(Parts& parts) { self_->collect_parts(parts); }
  // Of a module its type; of a function null.
  const std::type_info* module_type() const { return self_->module_type(); }
  // The layer, if it is an L; else null.
  template <class L>
  L* get() {
    auto* model = dynamic_cast<Model<L>*>(self_.get());
    if (model) model->handed_out = true;
    return model ? &model->layer : nullptr;
  }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual Tensor call(const Tensor& x) const = 0;
    virtual void visit(Visitor& visitor) = 0;
    virtual void collect_parts(Parts& parts) = 0;
    virtual const std::type_info* module_type() const = 0;
    virtual std::unique_ptr<Base> clone() const = 0;
  };
  template <class L>
  struct Model : Base {
    explicit Model(L l) : layer(std::move(l)) {}
    Model(const Model&) = default;  // with its identity
    Tensor call(const Tensor& x) const override { return layer(x); }
    void visit(Visitor& visitor) override {
      if constexpr (Visitable<L>) visitor.enter(layer);
    }
    void collect_parts(Parts& parts) override {
      parts.add_word(type_word<L>());
      if constexpr (requires { layer.visit(parts); }) {
        collect(parts, layer);
      } else if constexpr (Visitable<L>) {
        Visitor tensors;
        tensors.on_tensor = [&](const Visitor::Leaf& leaf) { parts(leaf.path, leaf.tensor); };
        tensors.enter(layer);
        parts.complete = false;
      } else if constexpr (!std::is_empty_v<L>) {
        parts.identities.push_back(identity);
        if (handed_out) parts.complete = false;
      }
    }
    const std::type_info* module_type() const override { return Visitable<L> ? &typeid(L) : nullptr; }
    std::unique_ptr<Base> clone() const override { return std::make_unique<Model>(*this); }
    L layer;
    uint64_t identity = new_identity();
    bool handed_out = false;  // somebody may change it
  };
  std::unique_ptr<Base> self_;
};

// nn::Sequential(nn::Linear(784, 512), nn::ReLU(), nn::Linear(512, 10)), and functions: [](Tensor x) { return -x; }.
// What a layer throws says which one it was: "layer 2: Linear(512, 10): ...", or "layer 1.0: ..." of one inside
// another.
class Sequential : public Module<Sequential> {
 public:
  using ListsAll = Sequential;
  Sequential() = default;
  template <class First, class... Rest>
    requires((!std::same_as<First, Sequential> || sizeof...(Rest) > 0) && Layer<First> && (Layer<Rest> && ...))
  explicit Sequential(First first, Rest... rest) {
    layers_.reserve(1 + sizeof...(Rest));
    layers_.emplace_back(std::move(first));
    (layers_.emplace_back(std::move(rest)), ...);
  }
  void push_back(AnyLayer layer) { layers_.push_back(std::move(layer)); }

  Tensor operator()(const Tensor& x) const {
    if (layers_.empty()) return x;
    Tensor y;
    for (size_t i = 0; i < layers_.size(); ++i) {
      try {
        y = layers_[i](i == 0 ? x : y);
      } catch (const Error& error) {
        detail::rethrow_in_layer(error, i, layers_[i].module_type());
      }
    }
    return y;
  }
  size_t size() const { return layers_.size(); }
  AnyLayer& operator[](size_t i) { return layers_.at(i); }
  // The layer at a position, which must be an L: `net.at<nn::Linear>(0).weight`.
  template <class L>
  L& at(size_t i) {
    if (i >= layers_.size()) detail::no_such_layer(i, layers_.size());
    L* layer = layers_[i].get<L>();
    if (!layer) detail::layer_of_another_type(i, layers_[i].module_type(), typeid(L));
    return *layer;
  }

  // Layers are called "0", "1", ... A visitor of another kind sees the tensors with their whole paths.
  template <class V>
  void visit(V& v) {
    if constexpr (std::same_as<V, Visitor>) {
      for (size_t i = 0; i < layers_.size(); ++i) v.inside(std::to_string(i), [&] { layers_[i].visit(v); });
    } else if constexpr (std::same_as<V, Parts>) {
      v.add_word(layers_.size());
      for (AnyLayer& layer : layers_) layer.collect_parts(v);
    } else {
      Visitor inner;
      inner.on_tensor = [&](const Visitor::Leaf& leaf) { v(leaf.path.c_str(), leaf.tensor); };
      visit(inner);
    }
  }

 private:
  std::vector<AnyLayer> layers_;
};

}  // namespace heddle::nn
