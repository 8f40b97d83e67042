#include "runtime/device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/config.h"
#include "base/error.h"

namespace heddle {
namespace {

TEST(DeviceRegistry, the_cpu_registers_itself) {
  std::vector<std::string> kinds = device_kinds();
  EXPECT_NE(std::find(kinds.begin(), kinds.end(), "cpu"), kinds.end());
  EXPECT_EQ(device("cpu").name(), "cpu");
  EXPECT_EQ(&device(config().device), &device());
  EXPECT_GE(device("cpu").threads(), 1);
}

TEST(DeviceRegistry, an_unknown_device_is_an_error_that_lists_the_known_ones) {
  try {
    device("abacus");
    FAIL();
  } catch (const ValueError& e) {
    EXPECT_NE(std::string(e.what()).find("abacus"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("cpu"), std::string::npos);
  }
}

TEST(DeviceRegistry, a_name_is_taken_once) { EXPECT_THROW(register_device("cpu", nullptr), ValueError); }

std::atomic<int> attempts{0};
std::unique_ptr<Backend> failing_factory(int) {
  ++attempts;
  throw DeviceError("no such hardware");
}

TEST(DeviceRegistry, a_device_that_cannot_start_says_so_each_time) {
  static bool once = (register_device("broken", failing_factory), true);
  (void)once;
  EXPECT_THROW(device("broken"), DeviceError);
  EXPECT_THROW(device("broken"), DeviceError);
  EXPECT_EQ(attempts, 2);
}

TEST(DeviceRegistry, threads_that_ask_at_once_get_the_same_device) {
  std::vector<std::thread> threads;
  std::vector<Backend*> seen(8);
  for (size_t i = 0; i < seen.size(); ++i) threads.emplace_back([&seen, i] { seen[i] = &device("cpu"); });
  for (std::thread& thread : threads) thread.join();
  for (Backend* d : seen) EXPECT_EQ(d, &device("cpu"));
}

TEST(CpuDevice, buffers_are_counted_and_copied) {
  Backend& cpu = device("cpu");
  uint64_t before = cpu.memory().used;
  {
    auto buffer = cpu.allocate(1000);
    EXPECT_GE(cpu.memory().used, before + 1000);
    EXPECT_GE(cpu.memory().peak, cpu.memory().used);
    EXPECT_EQ(buffer->bytes(), 1000u);
    EXPECT_EQ(&buffer->device(), &cpu);
    EXPECT_EQ(buffer->host_data(), buffer->address());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->address()) % 64, 0u);
    std::vector<unsigned char> data(1000), back(1000);
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<unsigned char>(i * 7);
    cpu.copy_from_host(*buffer, data.data(), 1000);
    cpu.copy_to_host(back.data(), *buffer, 1000);
    EXPECT_EQ(data, back);
    EXPECT_THROW(cpu.copy_from_host(*buffer, data.data(), 1001), InternalError);
  }
  EXPECT_EQ(cpu.memory().used, before);
  auto nothing = cpu.allocate(0);
  EXPECT_EQ(nothing->bytes(), 0u);
  EXPECT_THROW(cpu.allocate(uint64_t{1} << 60), OutOfMemory);
}

TEST(Device, copies_within_itself_whatever_the_size) {
  Backend& home = device();
  for (uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{4096}, (uint64_t{4} << 20) + 77, uint64_t{9} << 20}) {
    std::vector<unsigned char> data(bytes), back(bytes, 0);
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<unsigned char>(i * 7 + i / 251);
    auto from = home.allocate(bytes + 64), to = home.allocate(bytes + 64);
    home.copy_from_host(*from, data.data(), bytes);
    home.copy({to.get(), 0, bytes}, whole(*from));
    home.synchronize();
    home.copy_to_host(back.data(), *to, bytes);
    EXPECT_EQ(back, data) << bytes;
  }
}

}  // namespace
}  // namespace heddle
