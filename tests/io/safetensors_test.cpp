// Saving and loading tensors; damaged files.
#include <heddle/io.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "tensor/helpers.h"

namespace heddle {
namespace {

using namespace testing;

// A folder that goes away with the test.
class SafetensorsTest : public ::testing::Test {
 protected:
  SafetensorsTest() : folder(std::filesystem::temp_directory_path() / ("heddle_io_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder);
  }
  ~SafetensorsTest() override { std::filesystem::remove_all(folder); }
  std::string path(const std::string& name) const { return (folder / name).string(); }
  std::string read(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string write(const std::string& name, const std::string& content) const {
    std::filesystem::remove(path(name));  // some file systems flush a file that is written over
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }
  // A file with this header and so many zero bytes of data.
  std::string file(const std::string& header, size_t data_bytes) const {
    uint64_t length = header.size();
    std::string content(8, '\0');
    std::memcpy(content.data(), &length, 8);
    return write("x.safetensors", content + header + std::string(data_bytes, '\0'));
  }
  void refused(const std::string& header, size_t data_bytes, const std::vector<std::string>& parts) const {
    std::string name = file(header, data_bytes);
    std::vector<std::string> all = parts;
    all.push_back(name);
    expect_error<ParseError>([&] { load_safetensors(name); }, all);
  }

  std::filesystem::path folder;
};

TEST_F(SafetensorsTest, every_dtype_comes_back_bit_for_bit) {
  TensorMap saved;
  Tensor x = tensor({{0, 1, -2.5}, {3, 100, 0.1}});
  for (DType dtype : {kBool, kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64, kF8E4M3, kF8E5M2, kF16, kBF16, kF32, kF64})
    saved[name(dtype)] = cast(x, dtype);
  save_safetensors(path("all"), saved);
  Safetensors loaded = load_safetensors(path("all"));
  ASSERT_EQ(loaded.tensors.size(), saved.size());
  for (const auto& [key, want] : saved) {
    EXPECT_EQ(loaded.tensors.at(key).dtype(), want.dtype());
    EXPECT_TRUE(equal(loaded.tensors.at(key), want)) << key;
  }
  EXPECT_TRUE(loaded.metadata.empty());
}

TEST_F(SafetensorsTest, scalars_empty_tensors_metadata_and_odd_names) {
  save_safetensors(path("odd"),
                   {{"scalar", scalar(2.5)}, {"empty", zeros({3, 0, 2}, kI16)}, {"a \"b\"/ä", tensor({1})}},
                   {{"format", "pt"}, {"note", "two\nlines"}});
  Safetensors loaded = load_safetensors(path("odd"));
  EXPECT_EQ(loaded.tensors.at("scalar").rank(), 0);
  EXPECT_EQ(loaded.tensors.at("scalar").item<float>(), 2.5f);
  EXPECT_EQ(loaded.tensors.at("empty").shape(), (Dims{3, 0, 2}));
  EXPECT_EQ(loaded.tensors.at("empty").dtype(), kI16);
  EXPECT_EQ(loaded.tensors.at("a \"b\"/ä").item<float>(), 1);
  EXPECT_EQ(loaded.metadata, (TextMap{{"format", "pt"}, {"note", "two\nlines"}}));
  save_safetensors(path("nothing"), {});
  EXPECT_TRUE(load_safetensors(path("nothing")).tensors.empty());
}

TEST_F(SafetensorsTest, a_file_by_another_writer_is_read) {
  std::string header = R"({"b":{"dtype":"I16","shape":[2],"data_offsets":[1,5]},"a":{"dtype":"U8","shape":[1],)"
                       R"("data_offsets":[0,1]},"__metadata__":{"k":"v"}}  )";
  Safetensors loaded = load_safetensors(file(header, 5));  // the i16 is not aligned
  expect_equal(loaded.tensors.at("b"), {0, 0});
  EXPECT_EQ(loaded.tensors.at("a").dtype(), kU8);
}

TEST_F(SafetensorsTest, what_is_written_has_the_format_of_the_reference) {
  save_safetensors(path("one"), {{"w", tensor({1, 2}, kI32)}});
  std::string content = read("one");
  uint64_t length = 0;
  std::memcpy(&length, content.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  EXPECT_EQ(content.size(), 8 + length + 8);
  std::string header = content.substr(8, length);
  EXPECT_EQ(header.substr(0, header.find_last_not_of(' ') + 1),
            R"({"w":{"data_offsets":[0,8],"dtype":"I32","shape":[2]}})");
}

TEST_F(SafetensorsTest, saving_replaces_the_file_and_leaves_nothing_else) {
  save_safetensors(path("w"), {{"w", tensor({1})}});
  save_safetensors(path("w"), {{"w", tensor({2})}});
  EXPECT_EQ(load_safetensors(path("w")).tensors.at("w").item<float>(), 2);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST_F(SafetensorsTest, a_failed_save_keeps_the_old_file) {
  std::filesystem::create_directories(folder / "taken" / "inside");  // a folder cannot be replaced by a file
  expect_error<ValueError>([&] { save_safetensors(path("taken"), {{"w", tensor({1})}}); }, {path("taken"), "renaming"});
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  expect_error<ValueError>([&] { save_safetensors(path("no/such/folder"), {}); }, {"no/such/folder", "No such file"});
  expect_error<ValueError>([&] { save_safetensors(path("w"), {{"__metadata__", tensor({1})}}); }, {"__metadata__"});
  expect_error<ValueError>([&] { save_safetensors(path("w"), {{"\xff", tensor({1})}}); }, {"w", "UTF-8"});
}

TEST_F(SafetensorsTest, a_missing_file_is_named) {
  expect_error<ValueError>([&] { load_safetensors(path("missing")); }, {path("missing"), "No such file"});
  expect_error<ValueError>([&] { load_safetensors(folder.string()); }, {"no regular file"});
}

TEST_F(SafetensorsTest, lengths_and_headers_are_checked) {
  expect_error<ParseError>([&] { load_safetensors(write("short", "1234567")); }, {"short", "7 bytes"});
  expect_error<ParseError>([&] { load_safetensors(write("none", "")); }, {"none", "0 bytes"});
  expect_error<ParseError>([&] { load_safetensors(write("long", std::string(8, '\x7f') + "{}")); }, {"not allowed"});
  std::string cut(8, '\0');
  cut[0] = 100;
  expect_error<ParseError>([&] { load_safetensors(write("cut", cut + "{}")); }, {"cut off", "100 bytes"});
  refused("", 0, {"does not begin with {"});
  refused("[1]", 0, {"does not begin with {"});
  refused("{\"a\":", 0, {"no JSON"});
  refused("{\"a\":1}", 0, {"\"a\"", "no object"});
  refused(R"({"a":{"shape":[],"data_offsets":[0,4]}})", 4, {"\"a\"", "no dtype"});
  refused(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4],"more":1}})", 4, {"unknown field \"more\""});
  refused(R"({"a":{"dtype":"F33","shape":[],"data_offsets":[0,4]}})", 4, {"\"a\"", "unknown dtype \"F33\""});
  refused(R"({"a":{"dtype":7,"shape":[],"data_offsets":[0,4]}})", 4, {"dtype is no text"});
  refused(R"({"a":{"dtype":"F32","shape":3,"data_offsets":[0,4]}})", 4, {"shape is no list"});
  refused(R"({"__metadata__":{"a":1}})", 0, {"__metadata__", "no text"});
  refused("{\"a\":" + std::string(100000, '[') + "}", 0, {"x.safetensors"});
}

TEST_F(SafetensorsTest, shapes_and_offsets_are_checked) {
  auto entry = [](const char* shape, const char* offsets) {
    return text("{\"a\":{\"dtype\":\"F32\",\"shape\":", shape, ",\"data_offsets\":", offsets, "}}");
  };
  refused(entry("[-1]", "[0,4]"), 4, {"\"a\"", "-1"});
  refused(entry("[1.5]", "[0,4]"), 4, {"1.5"});
  refused(entry("[4294967296,4294967296]", "[0,0]"), 0, {"too many elements"});
  refused(entry("[9223372036854775808]", "[0,0]"), 0, {"too large"});
  refused(entry("[0,1152921504606846976,1152921504606846976]", "[0,0]"), 0, {"too many elements"});
  refused(entry("[1]", "[0]"), 4, {"two numbers"});
  refused(entry("[1]", "[4,0]"), 4, {"before it begins"});
  refused(entry("[1]", "[0,18446744073709551616]"), 4, {"offset"});
  refused(entry("[2]", "[0,8]"), 4, {"only 4 bytes"});
  refused(entry("[2]", "[0,4]"), 4, {"need 8 bytes", "hold 4"});
  refused(entry("[1]", "[4,8]"), 8, {"4 bytes before"});
  refused(entry("[1]", "[0,4]"), 8, {"4 bytes at the end"});
  const char* one = R"("dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  refused(text("{\"a\":{", one, ",\"b\":{", one, "}"), 4, {"overlaps", "\"a\"", "\"b\""});
  refused(text("{\"a\":{", one, ",\"a\":{", one, "}"), 4, {"\"a\"", "twice"});
  std::string bool_file = file(R"({"a":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})", 0);
  std::string content = read("x.safetensors") + "\x02";
  expect_error<ParseError>([&] { load_safetensors(write("bool", content)); }, {"\"a\"", "BOOL"});
}

TEST_F(SafetensorsTest, no_damage_crashes_the_reader) {
  save_safetensors(path("good"), {{"w", counting({3, 4})}, {"mask", tensor({1, 0}, kBool)}, {"n", scalar(3, kI64)}},
                   {{"step", "12"}});
  const std::string good = read("good");
  auto attempt = [&](const std::string& content) {
    write("bad", content);
    try {
      for (const auto& [name, tensor] : load_safetensors(path("bad")).tensors) tensor.realize();
    } catch (const Error&) {
      return false;
    }
    return true;
  };
  ASSERT_TRUE(attempt(good));
  for (size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(attempt(good.substr(0, n))) << "cut to " << n << " bytes";
  EXPECT_FALSE(attempt(good + "x"));
  uint64_t state = 1;
  auto random = [&](uint64_t below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (state >> 33) % below;
  };
  uint64_t length = 0;
  std::memcpy(&length, good.data(), 8);
  int refused_files = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string bad = good;
    size_t reach = i % 3 == 0 ? bad.size() : 8 + length;
    for (uint64_t change = 0; change <= random(3); ++change) {
      size_t at = random(reach);
      if (i % 2 == 0)
        bad[at] = static_cast<char>(bad[at] ^ (1 << random(8)));
      else
        bad[at] = "0123456789{}[]\",:-e."[random(20)];
    }
    if (random(8) == 0) bad.erase(random(bad.size()), random(9));
    if (!attempt(bad)) ++refused_files;
  }
  EXPECT_GT(refused_files, 2000);  // the rest changed names, metadata or data only
}

}  // namespace
}  // namespace heddle
