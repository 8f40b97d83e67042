#include "base/log.h"

#include <gtest/gtest.h>

#include <sstream>
#include <thread>
#include <vector>

#include "base/error.h"

namespace heddle {
namespace {

TEST(Log, TopicsAreSwitchedOneByOne) {
  log_enable(Log::Fuse, true);
  log_enable(Log::Tile, false);
  EXPECT_TRUE(log_enabled(Log::Fuse));
  EXPECT_FALSE(log_enabled(Log::Tile));
  log_enable(Log::Fuse, false);
  EXPECT_FALSE(log_enabled(Log::Fuse));
}

TEST(Log, MessagesNameTheirTopicAndEndTheLine) {
  testing::internal::CaptureStderr();
  log_write(Log::Graph, "one");
  log_write(Log::Asm, "two\n");
  warn("three");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "[heddle graph] one\n[heddle asm] two\n[heddle warning] three\n");
}

TEST(Log, MessagesOfThreadsDoNotInterleave) {
  testing::internal::CaptureStderr();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      for (int i = 0; i < 100; ++i) log_write(Log::Run, std::string(50, static_cast<char>('a' + t)));
    });
  for (std::thread& thread : threads) thread.join();
  std::istringstream lines(testing::internal::GetCapturedStderr());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    std::string message = line.substr(std::string("[heddle run] ").size());
    ASSERT_EQ(message, std::string(50, message[0]));
  }
  EXPECT_EQ(count, 400);
}

TEST(Error, AssertionsNameFileAndValues) {
  int found = 3;
  try {
    HD_ASSERT(found == 4, "found ", found);
    FAIL() << "should have thrown";
  } catch (const InternalError& error) {
    std::string message = error.what();
    EXPECT_NE(message.find("log_test.cpp"), std::string::npos);
    EXPECT_NE(message.find("found == 4: found 3"), std::string::npos);
  }
  EXPECT_EQ(text("got ", 3, " axes"), "got 3 axes");
}

}  // namespace
}  // namespace heddle
