#include "runtime/kernel_store.h"

#include <gtest/gtest.h>

#include "../temporary_folder.h"
#include "base/error.h"
#include "compile/fuse/fuse.h"
#include "compile/lower.h"
#include "helpers.h"
#include "runtime/kernel_cache.h"

namespace heddle {
namespace {

using testing::TemporaryFolder;

// Rows divided by their sums.
Loops normalised_rows(int64_t rows, int64_t columns) {
  NodeRef x = testing::tensor(testing::counting(rows * columns, 1), Shape{rows, columns});
  int axes[] = {1};
  NodeRef root = testing::binary(
      ScalarOp::div, x, make_expand(make_reshape(make_reduce(ReduceOp::Sum, x, axes), Shape{rows, 1}), x->shape));
  Program program = fuse(std::span(&root, 1));
  EXPECT_EQ(program.steps.size(), 1u);
  return program.steps[0].loops;
}

std::vector<float> run(const Executable& code, int64_t numel) {
  std::vector<float> values = testing::counting(numel, 1);
  auto in = device().allocate(values.size() * 4), out = device().allocate(values.size() * 4);
  device().copy_from_host(*in, values.data(), values.size() * 4);
  std::vector<BufferPart> parts;
  std::vector<std::shared_ptr<DeviceBuffer>> temps;
  for (const kernel::Buffer& buffer : code.kernel().buffers) {
    if (buffer.space == kernel::Space::Temp) temps.push_back(device().allocate(1 << 16));
    parts.push_back(buffer.space == kernel::Space::In     ? whole(*in)
                    : buffer.space == kernel::Space::Out  ? whole(*out)
                    : buffer.space == kernel::Space::Temp ? whole(*temps.back())
                                                          : BufferPart{});
  }
  device().launch(code, parts, {});
  device().copy_to_host(values.data(), *out, values.size() * 4);
  return values;
}

struct Stored {
  Loops loops = normalised_rows(30, 70);
  Structure structure = heddle::structure(loops);
  kernel::Kernel threads =
      lower(tile(loops, default_schedule(loops, device().target()), device().target()), device().target());
  std::string code;
  std::shared_ptr<Executable> compiled = device().compile(threads, &code);
};

// A device that makes no code keeps none.
#define SKIP_WITHOUT_CODE() \
  if (device().code_version().empty()) GTEST_SKIP() << device().name() << " makes no machine code"

TEST(KernelStore, loaded_code_computes_the_same_without_a_compiler) {
  SKIP_WITHOUT_CODE();
  TemporaryFolder folder;
  Stored stored;
  ASSERT_FALSE(stored.code.empty());
  {
    DiskCache cache(folder.file("cache.sqlite"), 1 << 20);
    store_kernel(cache, stored.structure, "default", device(), stored.threads, stored.code);
  }
  DiskCache cache(folder.file("cache.sqlite"), 1 << 20);
  std::shared_ptr<Executable> loaded = load_kernel(cache, stored.structure, "default", device());
  ASSERT_TRUE(loaded);
  EXPECT_EQ(run(*loaded, 2100), run(*stored.compiled, 2100));
  EXPECT_EQ(kernel::print(loaded->kernel()), kernel::print(stored.compiled->kernel()));
}

TEST(KernelStore, another_schedule_structure_or_version_is_another_kernel) {
  SKIP_WITHOUT_CODE();
  TemporaryFolder folder;
  DiskCache cache(folder.file("cache.sqlite"), 1 << 20);
  Stored stored;
  store_kernel(cache, stored.structure, "default", device(), stored.threads, stored.code);
  EXPECT_FALSE(load_kernel(cache, stored.structure, "block 1 threads 1", device()));
  EXPECT_FALSE(load_kernel(cache, structure(normalised_rows(30, 71)), "default", device()));
  Structure longer = stored.structure;
  longer.words.push_back(0);
  EXPECT_FALSE(load_kernel(cache, longer, "default", device()));
  // The same entry under the key of an older compiler.
  std::string key = code_key(stored.structure, "default", device());
  ASSERT_EQ(key.rfind(compiler_id(), 0), 0u);
  std::string value = *cache.get(DiskEntry::Code, key);
  DiskCache older(folder.file("older.sqlite"), 1 << 20);
  older.put(DiskEntry::Code, "0.0.9-0123456789abcdef" + key.substr(compiler_id().size()), value);
  EXPECT_FALSE(load_kernel(older, stored.structure, "default", device()));
  older.put(DiskEntry::Code, key, value);
  EXPECT_TRUE(load_kernel(older, stored.structure, "default", device()));
}

TEST(KernelStore, nonsense_under_the_right_key_is_compiled_anew) {
  SKIP_WITHOUT_CODE();
  TemporaryFolder folder;
  DiskCache cache(folder.file("cache.sqlite"), 1 << 20);
  Stored stored;
  std::string key = code_key(stored.structure, "default", device());
  for (std::string value : {std::string(), std::string("short"), std::string(100, '\xff'), std::string(100, '\0')}) {
    cache.put(DiskEntry::Code, key, value);
    EXPECT_FALSE(load_kernel(cache, stored.structure, "default", device()));
  }
  // A whole entry whose object file is none.
  store_kernel(cache, stored.structure, "default", device(), stored.threads, "this is no code");
  EXPECT_FALSE(load_kernel(cache, stored.structure, "default", device()));
}

TEST(KernelStore, schedules_come_back_as_they_were) {
  TemporaryFolder folder;
  DiskCache cache(folder.file("cache.sqlite"), 1 << 20);
  Loops loops = normalised_rows(30, 70);
  for (uint64_t seed = 0; seed < 30; ++seed) {
    TunedSchedule tuned{print(random_schedule(loops, device().target(), seed)), 1.5e-6, 1.25e-6, 64};
    store_schedule(cache, structure(loops), device(), tuned);
    auto found = load_schedule(cache, structure(loops), device());
    ASSERT_TRUE(found);
    EXPECT_EQ(found->schedule, tuned.schedule);
    EXPECT_EQ(print(parse_schedule(found->schedule)), tuned.schedule);
    EXPECT_DOUBLE_EQ(found->default_seconds, 1.5e-6);
    EXPECT_DOUBLE_EQ(found->seconds, 1.25e-6);
    EXPECT_EQ(found->tried, 64);
  }
  EXPECT_FALSE(load_schedule(cache, structure(normalised_rows(30, 71)), device()));
  std::string key = schedule_key(structure(loops), device());
  std::string older = "0.0.9-0123456789abcdef" + key.substr(compiler_id().size());
  EXPECT_TRUE(cache.get(DiskEntry::Schedule, key));
  EXPECT_FALSE(cache.get(DiskEntry::Schedule, older));
}

}  // namespace
}  // namespace heddle
