// The format: eight bytes with the length of the header, the header as JSON, the data. The header maps each name to
// dtype, shape and the range of bytes in the data; "__metadata__" maps text to text.
#include <heddle/io.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include <heddle/ops/create.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "io/mapped_file.h"
#include "io/snapshot.h"
#include "runtime/file_buffer.h"
#include "tensor/build.h"
#include "tensor/together.h"

namespace heddle {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

using Json = nlohmann::json;

constexpr uint64_t kLengthBytes = 8, kMaxHeader = 100'000'000;  // the reference implementation's limit
constexpr int64_t kMaxElements = int64_t{1} << 60;

struct DTypeName {
  DType dtype;
  const char* name;
};
constexpr DTypeName kDTypeNames[] = {
    {kBool, "BOOL"}, {kI8, "I8"},   {kI16, "I16"}, {kI32, "I32"},        {kI64, "I64"},
    {kU8, "U8"},     {kU16, "U16"}, {kU32, "U32"}, {kU64, "U64"},        {kF8E4M3, "F8_E4M3"},
    {kF16, "F16"},   {kF32, "F32"}, {kF64, "F64"}, {kF8E5M2, "F8_E5M2"}, {kBF16, "BF16"},
};

// Calls f with a value of the C++ type of the elements.
template <class F>
decltype(auto) with_element_type(DType dtype, F&& f) {
  switch (dtype) {
    case kBool: return f(bool{});
    case kI8: return f(int8_t{});
    case kI16: return f(int16_t{});
    case kI32: return f(int32_t{});
    case kI64: return f(int64_t{});
    case kU8: return f(uint8_t{});
    case kU16: return f(uint16_t{});
    case kU32: return f(uint32_t{});
    case kU64: return f(uint64_t{});
    case kF8E4M3: return f(Float8E4M3{});
    case kF8E5M2: return f(Float8E5M2{});
    case kF16: return f(Half{});
    case kBF16: return f(BFloat16{});
    case kF32: return f(float{});
    case kF64: return f(double{});
  }
  __builtin_unreachable();
}

std::span<const char> bytes_of(const Tensor& tensor) {
  return with_element_type(tensor.dtype(), [&]<class T>(T) {
    std::span<const T> elements = tensor.data<T>();
    return std::span<const char>(reinterpret_cast<const char*>(elements.data()), elements.size_bytes());
  });
}

// `bytes` need not be aligned: a file may put its data anywhere.
Tensor tensor_of(std::span<const char> bytes, DType dtype, const Dims& shape) {
  return with_element_type(dtype, [&]<class T>(T) {
    if (reinterpret_cast<uintptr_t>(bytes.data()) % alignof(T) == 0 && !bytes.empty())
      return from_data(reinterpret_cast<const T*>(bytes.data()), shape);
    std::unique_ptr<T[]> aligned(new T[bytes.size() / sizeof(T) + 1]);
    if (!bytes.empty()) std::memcpy(static_cast<void*>(aligned.get()), bytes.data(), bytes.size());
    return from_data(aligned.get(), shape);
  });
}

// A tensor as the header describes it.
struct Entry {
  std::string name;
  DType dtype = kF32;
  Dims shape;
  uint64_t begin = 0, end = 0;
};

class Reader {
 public:
  Reader(const std::string& path, bool lazy) : path_(path), file_(path) {
    if (lazy) lazy_ = std::make_shared<const InputFile>(path);
  }

  Safetensors read() {
    Json header = parse_header();
    Safetensors result;
    std::vector<Entry> entries;
    for (const auto& [name, value] : header.items()) {
      if (name == "__metadata__")
        result.metadata = metadata(value);
      else
        entries.push_back(entry(name, value));
    }
    check_ranges(entries);
    for (const Entry& e : entries) result.tensors.emplace(e.name, load(e));
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw ParseError(text(path_, ": ", what)); }
  [[noreturn]] void fail(const std::string& name, const std::string& what) const {
    fail(text("tensor \"", name, "\": ", what));
  }

  Json parse_header() {
    std::span<const char> bytes = file_.bytes();
    if (bytes.size() < kLengthBytes)
      fail(text("no safetensors file: it has ", bytes.size(), " bytes, and the length of the header takes 8"));
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), kLengthBytes);
    uint64_t rest = bytes.size() - kLengthBytes;
    if (length > kMaxHeader) fail(text("no safetensors file: a header of ", length, " bytes is not allowed"));
    if (length > rest)
      fail(text("cut off: the header has ", length, " bytes, the file only ", rest, " after its length"));
    std::span<const char> part = bytes.subspan(kLengthBytes, length);
    data_ = bytes.subspan(kLengthBytes + length);
    if (part.empty() || part[0] != '{') fail("no safetensors file: the header does not begin with {");
    // JSON lets a key come twice, and the last one win. Here that is an error. The parser's depth is its own business:
    // a header is two levels deep, so anything beyond four is refused before it can grow.
    std::vector<std::set<std::string>> seen;
    std::string problem;
    auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
      if (event == Json::parse_event_t::object_start) seen.emplace_back();
      if (event == Json::parse_event_t::object_end && !seen.empty()) seen.pop_back();
      if (depth > 4) problem = "the header is nested too deeply";
      if (event == Json::parse_event_t::key && !seen.empty() && !seen.back().insert(parsed.get<std::string>()).second)
        problem = text("the name \"", parsed.get<std::string>(), "\" occurs twice in the header");
      return problem.empty();
    };
    Json header;
    try {
      header = Json::parse(part.begin(), part.end(), watch);
    } catch (const Json::exception& error) {
      fail(text("the header is no JSON: ", error.what()));
    }
    if (!problem.empty()) fail(problem);
    if (!header.is_object()) fail("the header is no JSON object");
    return header;
  }

  TextMap metadata(const Json& value) const {
    if (!value.is_object()) fail("__metadata__ is no object");
    TextMap result;
    for (const auto& [key, item] : value.items()) {
      if (!item.is_string()) fail(text("__metadata__: the value of \"", key, "\" is no text"));
      result.emplace(key, item.get<std::string>());
    }
    return result;
  }

  Entry entry(const std::string& name, const Json& value) const {
    Entry e;
    e.name = name;
    if (!value.is_object()) fail(name, "its description is no object");
    for (const auto& [key, item] : value.items())
      if (key != "dtype" && key != "shape" && key != "data_offsets") fail(name, text("unknown field \"", key, "\""));
    for (const char* key : {"dtype", "shape", "data_offsets"})
      if (!value.contains(key)) fail(name, text("it has no ", key));
    const Json& dtype = value["dtype"];
    if (!dtype.is_string()) fail(name, "its dtype is no text");
    const DTypeName* found = std::find_if(std::begin(kDTypeNames), std::end(kDTypeNames),
                                          [&](const DTypeName& d) { return dtype.get<std::string>() == d.name; });
    if (found == std::end(kDTypeNames)) fail(name, text("unknown dtype \"", dtype.get<std::string>(), "\""));
    e.dtype = found->dtype;
    if (!value["shape"].is_array()) fail(name, "its shape is no list");
    int64_t count = 1;
    bool empty = false;
    for (const Json& size : value["shape"]) {
      uint64_t n = whole_number(name, "a size of its shape", size);
      if (n > static_cast<uint64_t>(kMaxElements)) fail(name, text("a size of ", n, " is too large"));
      e.shape.push_back(static_cast<int64_t>(n));
      empty = empty || n == 0;
      if (n > 0 && __builtin_mul_overflow(count, static_cast<int64_t>(n), &count)) count = kMaxElements + 1;
      if (count > kMaxElements) fail(name, "its shape has too many elements");
    }
    const Json& offsets = value["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2) fail(name, "its data_offsets are not two numbers");
    e.begin = whole_number(name, "an offset", offsets[0]);
    e.end = whole_number(name, "an offset", offsets[1]);
    if (e.begin > e.end) fail(name, text("its data ends at ", e.end, ", before it begins at ", e.begin));
    if (e.end > data_.size())
      fail(name, text("its data ends at byte ", e.end, ", but the file has only ", data_.size(), " bytes of data"));
    uint64_t need = empty ? 0 : static_cast<uint64_t>(count) * static_cast<uint64_t>(size_of(e.dtype));
    if (e.end - e.begin != need)
      fail(name, text("its shape and dtype need ", need, " bytes, its data_offsets hold ", e.end - e.begin));
    return e;
  }

  uint64_t whole_number(const std::string& name, const char* what, const Json& value) const {
    if (!value.is_number_unsigned()) fail(name, text(what, " is no whole number from 0 on: ", value.dump()));
    return value.get<uint64_t>();
  }

  // The tensors fill the data one after the other.
  void check_ranges(const std::vector<Entry>& entries) const {
    std::vector<const Entry*> order;
    for (const Entry& e : entries) order.push_back(&e);
    std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
      return std::tie(a->begin, a->end, a->name) < std::tie(b->begin, b->end, b->name);
    });
    uint64_t at = 0;
    const Entry* before = nullptr;
    for (const Entry* e : order) {
      if (e->begin < at) fail(e->name, text("its data overlaps that of \"", before->name, "\""));
      if (e->begin > at) fail(e->name, text(e->begin - at, " bytes before its data belong to no tensor"));
      at = e->end;
      before = e;
    }
    if (at != data_.size()) fail(text(data_.size() - at, " bytes at the end belong to no tensor"));
  }

  Tensor load(const Entry& e) const {
    std::span<const char> bytes = data_.subspan(e.begin, e.end - e.begin);
    if (e.dtype == kBool)
      for (char byte : bytes)
        if (byte != 0 && byte != 1) fail(e.name, text("a BOOL is ", static_cast<int>(byte), ", neither 0 nor 1"));
    try {
      // Truth values are looked at above, and there are few.
      if (lazy_ && e.dtype != kBool) return in_file(e);
      return tensor_of(bytes, e.dtype, e.shape);
    } catch (const ShapeError& error) {
      fail(e.name, error.what());
    }
  }

  Tensor in_file(const Entry& e) const {
    const auto offset = static_cast<uint64_t>(data_.data() - file_.bytes().data()) + e.begin;
    std::shared_ptr<DeviceBuffer> memory = file_buffer(lazy_, offset, e.end - e.begin, e.name);
    return Tensor(make_buffer(std::move(memory), e.dtype, to_shape("load_safetensors", e.shape, e.dtype)));
  }

  std::string path_;
  std::shared_ptr<const InputFile> lazy_;  // null: tensors are copied
  MappedFile file_;
  std::span<const char> data_;
};

}  // namespace

namespace {

TensorMap named(const TensorMap& names, std::span<const Tensor> values) {
  TensorMap result;
  size_t next = 0;
  for (const auto& [name, tensor] : names) result.emplace(name, values[next++]);
  return result;
}
std::vector<Tensor> without_names(const TensorMap& tensors) {
  std::vector<Tensor> all;
  for (const auto& [name, tensor] : tensors) all.push_back(tensor);
  return all;
}

}  // namespace

TensorMap snapshot(const TensorMap& tensors) { return named(tensors, snapshot(without_names(tensors))); }

TensorMap realized_together(const TensorMap& tensors, const std::function<void()>& meanwhile) {
  std::vector<Tensor> values;
  for (const NodeRef& value : realized_together(without_names(tensors), meanwhile)) values.push_back(Tensor(value));
  return named(tensors, values);
}

void save_safetensors(const std::string& path, const TensorMap& tensors, const TextMap& metadata) {
  if (tensors.contains("__metadata__")) throw ValueError(text(path, ": a tensor cannot be called __metadata__"));
  const TensorMap fixed = realized_together(tensors);
  std::vector<const TensorMap::value_type*> order;
  for (const auto& item : fixed) order.push_back(&item);
  // Large elements first: then all are aligned.
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return size_of(a->second.dtype()) > size_of(b->second.dtype());
  });
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::vector<std::span<const char>> parts(2);
  uint64_t at = 0;
  for (const auto* item : order) {
    const auto& [name, tensor] = *item;
    const char* dtype = nullptr;
    for (const DTypeName& d : kDTypeNames)
      if (d.dtype == tensor.dtype()) dtype = d.name;
    parts.push_back(bytes_of(tensor));
    uint64_t end = at + parts.back().size();
    header[name] = {{"dtype", dtype}, {"shape", std::vector<int64_t>(tensor.shape())}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string head;
  try {
    head = header.dump();
  } catch (const Json::exception& error) {  // text that is not UTF-8
    throw ValueError(text(path, ": a name or metadata cannot be written: ", error.what()));
  }
  head.resize((head.size() + 7) / 8 * 8, ' ');
  if (head.size() > kMaxHeader)
    throw ValueError(text(path, ": too many names, the header has ", head.size(), " bytes"));
  uint64_t length = head.size();
  parts[0] = {reinterpret_cast<const char*>(&length), kLengthBytes};
  parts[1] = head;
  write_file_atomically(path, parts);
}

Safetensors load_safetensors(const std::string& path, const SafetensorsOptions& options) {
  std::optional<DeviceScope> scope;
  if (options.device) scope.emplace(*options.device);
  if (options.lazy && options.device)
    throw ValueError(text(path, ": tensors that stay in the file are on no device; take them there with to()"));
  return Reader(path, options.lazy).read();
}

}  // namespace heddle
