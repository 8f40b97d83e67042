#include <cxxabi.h>

#include <heddle/jit.h>
#include <heddle/nn/module.h>
#include <heddle/ops.h>
#include <cstdlib>
#include <memory>
#include <sstream>

#include "base/error.h"
#include "capture/change.h"
#include "tensor/together.h"

namespace heddle::nn::detail {
namespace {

void for_each(const Walk& walk, const std::function<void(const Visitor::Leaf& leaf)>& f) {
  Visitor visitor;
  visitor.on_tensor = f;
  walk(visitor);
}

bool is_buffer(const Visitor::Leaf& leaf) { return leaf.owner && leaf.owner->buffers.contains(leaf.name); }
bool is_frozen(const Visitor::Leaf& leaf) { return leaf.owner && leaf.owner->frozen.contains(leaf.name); }

// Tensors that several places share count once.
class Once {
 public:
  bool first(const Tensor& tensor) { return seen_.insert(&tensor.slot()).second; }

 private:
  std::set<const TensorSlot*> seen_;
};

// "Linear" of heddle::nn::Linear.
std::string short_name(const std::type_info& type) {
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> full(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  std::string name = full ? full.get() : type.name();
  size_t end = name.find('<') == std::string::npos ? name.size() : name.find('<');
  size_t at = name.rfind("::", end);
  return at == std::string::npos ? name : name.substr(at + 2);
}

// Gives every place another tensor, made of the values that all have at one moment; places that shared one share its
// replacement.
void replace(const Walk& walk, const std::function<Tensor(const Tensor& old)>& f) {
  std::map<const TensorSlot*, Tensor> made;
  std::vector<Tensor> keep;  // so that no slot's address is used again
  for_each(walk, [&](const Visitor::Leaf& leaf) { keep.push_back(leaf.tensor); });
  std::vector<Tensor> values = snapshot(keep);
  size_t next = 0;
  for_each(walk, [&](const Visitor::Leaf& leaf) {
    const Tensor& value = values[next++];
    auto [place, fresh] = made.try_emplace(&leaf.tensor.slot());
    if (fresh) {
      place->second = f(value);
      if (leaf.tensor.requires_grad()) place->second.requires_grad_();
    }
    leaf.tensor = place->second;
  });
}

}  // namespace

NamedTensors named_parameters(const Walk& walk) {
  NamedTensors result;
  Once once;
  for_each(walk, [&](const Visitor::Leaf& leaf) {
    if (is_buffer(leaf) || is_frozen(leaf) || !once.first(leaf.tensor)) return;
    if (is_float(leaf.tensor.dtype())) leaf.tensor.requires_grad_();
    result.emplace_back(leaf.path, leaf.tensor);
  });
  return result;
}

std::vector<Tensor> parameters(const Walk& walk) {
  std::vector<Tensor> result;
  for (auto& [path, tensor] : named_parameters(walk)) result.push_back(tensor);
  return result;
}

TensorMap state(const Walk& walk) {
  TensorMap result;
  for_each(walk, [&](const Visitor::Leaf& leaf) {
    if (!result.emplace(leaf.path, leaf.tensor).second)
      throw ValueError(text("two tensors of the module have the path \"", leaf.path, "\""));
  });
  return result;
}

void load_state(const Walk& walk, const TensorMap& values, const std::string& source, const LoadOptions& options) {
  TensorMap own = state(walk);
  if (values.contains("optimizer.step") && values.contains("generator") && !own.contains("generator"))
    throw ValueError(text(source, ": holds a module together with its optimiser: use optim::load_checkpoint()"));
  if (!options.convert) return assign_all(own, values, source, "the module");
  TensorMap converted = values;
  for (auto& [path, value] : converted) {
    auto place = own.find(path);
    if (place == own.end() || place->second.dtype() == value.dtype()) continue;
    if (is_float(value.dtype()) && is_float(place->second.dtype())) value = cast(value, place->second.dtype());
  }
  assign_all(own, converted, source, "the module");
}

void assign_all(const TensorMap& own, const TensorMap& values, const std::string& source, const std::string& what,
                const std::function<void()>& meanwhile) {
  std::string problems, other_dtypes;
  bool floats = true;
  for (const auto& [path, tensor] : own) {
    auto found = values.find(path);
    if (found == values.end())
      problems += text("\n  ", path, " is missing");
    else if (static_cast<std::vector<int64_t>>(found->second.shape()) != tensor.shape())
      problems += text("\n  ", path, " has shape ", found->second.shape(), ", ", what, "'s is ", tensor.shape());
    else if (found->second.dtype() != tensor.dtype()) {
      other_dtypes += text("\n  ", path, " is ", found->second.dtype(), ", ", what, "'s is ", tensor.dtype());
      floats = floats && is_float(found->second.dtype()) && is_float(tensor.dtype());
    }
  }
  for (const auto& [path, value] : values)
    if (!own.contains(path)) problems += text("\n  ", path, " is none of ", what, "'s tensors");
  if (!other_dtypes.empty())
    problems += other_dtypes + (floats && what == "the module" ? "\n  load(path, {.convert = true}) converts floats"
                                                               : "\n  such values are not converted");
  if (!problems.empty()) throw ValueError(text(source, ": does not fit ", what, ":", problems));
  std::vector<Tensor> tensors, given;
  for (const auto& [path, tensor] : own) {
    tensors.push_back(tensor);
    given.push_back(values.at(path).to(tensor.device()));
  }
  assign_together("assign", tensors, given, meanwhile);
}

void set_frozen(const Walk& walk, const std::string& path, bool frozen) {
  bool found = path.empty();
  for_each(walk, [&](const Visitor::Leaf& leaf) {
    if (!path.empty() && leaf.path != path && !leaf.path.starts_with(path + ".")) return;
    found = true;
    if (is_buffer(leaf)) return;
    if (!leaf.owner) throw ValueError(text("freeze: ", leaf.path, " belongs to no module"));
    if (frozen)
      leaf.owner->frozen.insert(leaf.name);
    else
      leaf.owner->frozen.erase(leaf.name);
    if (is_float(leaf.tensor.dtype())) leaf.tensor.requires_grad_(!frozen);
  });
  if (!found)
    throw ValueError(text(frozen ? "freeze" : "unfreeze", ": the module has no tensor or part \"", path, "\""));
  forget_recordings();
}

void set_training(const Walk& walk, bool training) {
  Visitor visitor;
  std::optional<ChangeForRecordings> change;
  visitor.on_module = [&](const std::string&, ModuleState& module, const std::type_info&) {
    if (module.training == training) return;
    if (!change) change.emplace();
    module.training = training;
  };
  walk(visitor);
}

void make_own(const Walk& walk) {
  replace(walk, [](const Tensor& old) { return old.clone(); });
}

void convert(const Walk& walk, DType dtype) {
  if (!is_float(dtype)) throw DTypeError(text("to: parameters are floats, not ", dtype));
  std::vector<Tensor> all;
  replace(walk, [&](const Tensor& old) { return is_float(old.dtype()) ? all.emplace_back(cast(old, dtype)) : old; });
  realize(all);
}

void move(const Walk& walk, const Device& device) {
  std::vector<Tensor> all;
  Once once;
  for_each(walk, [&](const Visitor::Leaf& leaf) {
    if (!once.first(leaf.tensor)) return;
    all.push_back(leaf.tensor);
    if (std::optional<Tensor> gradient = leaf.tensor.grad()) all.push_back(*gradient);
  });
  ChangeForRecordings change;
  move_together(all, device);
}

int64_t parameter_count(const Walk& walk) {
  int64_t count = 0;
  Once once;
  for_each(walk, [&](const Visitor::Leaf& leaf) {
    count += !is_buffer(leaf) && once.first(leaf.tensor) ? leaf.tensor.numel() : 0;
  });
  return count;
}

std::string summary(const Walk& walk) {
  std::ostringstream out;
  int64_t count = 0, frozen = 0, bytes = 0;
  Once once;
  auto line = [&](const std::string& path, const std::string& what) {
    out << path << std::string(path.size() < 24 ? 24 - path.size() : 1, ' ') << what << "\n";
  };
  Visitor visitor;
  visitor.on_module = [&](const std::string& path, ModuleState&, const std::type_info& type) {
    line(path.empty() ? "(module)" : path, short_name(type));
  };
  visitor.on_tensor = [&](const Visitor::Leaf& leaf) {
    bool first = once.first(leaf.tensor);
    line(leaf.path, text("  ", leaf.tensor.shape(), " ", leaf.tensor.dtype(),
                         is_buffer(leaf)   ? ", state"
                         : is_frozen(leaf) ? ", frozen"
                                           : "",
                         first ? "" : ", shared"));
    if (!first || is_buffer(leaf)) return;
    count += leaf.tensor.numel();
    frozen += is_frozen(leaf) ? leaf.tensor.numel() : 0;
    bytes += leaf.tensor.numel() * size_of(leaf.tensor.dtype());
  };
  walk(visitor);
  out << count << " parameters in " << bytes << " bytes";
  if (frozen > 0) out << ", " << frozen << " of them frozen";
  return out.str() + "\n";
}

namespace {

template <class... Kinds>
[[noreturn]] void rethrow_with(const Error& error, const std::string& what) {
  ((dynamic_cast<const Kinds*>(&error) ? throw Kinds(what) : void()), ...);
  throw;  // a kind that is not ours
}

}  // namespace

void rethrow_in_layer(const Error& error, size_t number, const std::type_info* module_type) {
  constexpr std::string_view kLayer = "layer ";
  std::string what = error.what(), type = module_type ? short_name(*module_type) : "";
  if (type == "Sequential" && what.starts_with(kLayer))
    what = text(kLayer, number, ".", what.substr(kLayer.size()));
  else
    what = text(kLayer, number, ": ", type.empty() || what.starts_with(type) ? "" : type + ": ", what);
  rethrow_with<ShapeError, DTypeError, IndexError, ValueError, CaptureError, ParseError, OutOfMemory, DeviceError,
               CompileError, InternalError>(error, what);
}

void no_such_layer(size_t number, size_t layers) {
  throw ValueError(text("Sequential: there is no layer ", number, "; it has ", layers, ", counted from 0"));
}

void layer_of_another_type(size_t number, const std::type_info* found, const std::type_info& wanted) {
  throw ValueError(text("Sequential: layer ", number, " is a ", found ? short_name(*found) : "function", ", not a ",
                        short_name(wanted)));
}

}  // namespace heddle::nn::detail
